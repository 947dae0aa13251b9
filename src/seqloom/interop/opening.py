"""Whatever holds word vectors, opened: a directory that seqloom saved, or a file of another program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import storage
from seqloom.data.vector_files import FASTTEXT_MAGIC
from seqloom.errors import DataError
from seqloom.interop.fasttext_bin import FastTextFile, read_fasttext
from seqloom.interop.vectors import read_vectors
from seqloom.models.vectors.word_vectors import WordVectors


@dataclass(frozen=True)
class Subwords:
    """fastText's words, and its n-grams for words that are not among them."""

    vectors: WordVectors
    file: FastTextFile

    def unseen(self, words: list[str]) -> np.ndarray | None:
        return self.file.unseen(words) if self.file.options["maxn"] > 0 else None


def open_vectors(path: str | Path) -> Any:
    """`vectors` and `unseen` of what is there."""
    place = Path(path)
    if place.is_dir():
        found = storage.load(place)
        if not hasattr(found, "vectors"):
            raise DataError(f"{path} holds a {found.task}, not word vectors")
        return found
    if place.is_file():
        with open(place, "rb") as file:
            if file.read(len(FASTTEXT_MAGIC)) == FASTTEXT_MAGIC:
                read = read_fasttext(place)
                return Subwords(read.vectors(), read)
    return read_vectors(place)
