"""Whatever holds word vectors, opened: a directory that seqloom saved, or a file of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqloom import storage
from seqloom.errors import DataError
from seqloom.interop.vectors import read_vectors


def open_vectors(path: str | Path) -> Any:
    """An embedder."""
    if not Path(path).is_dir():
        return read_vectors(Path(path))
    model = storage.load(path)
    if not hasattr(model, "vectors"):
        raise DataError(f"{path} holds a {model.task}, not word vectors")
    return model
