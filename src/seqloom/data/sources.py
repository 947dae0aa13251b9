"""Finding the documents of a corpus: files, patterns, directories, standard input."""

from __future__ import annotations

import atexit
import glob
import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import IO

from seqloom import progress
from seqloom.data.catalogue import PREFIX, resolve
from seqloom.data.documents import Document
from seqloom.data.rows import table_kind
from seqloom.errors import DataError, suggest

_REOPENED = Path("/proc/self/fd")  # where open files can be opened once more, each with a place of its own


def find_documents(source: str | Path, encoding: str, *, tables_only: bool = False) -> list[Document]:
    """The documents that a path, a pattern or `-` stands for; anything wrong with them is said now.

    `tables_only` leaves out the other files of a directory.
    """
    if source == "-":
        return [_spool(sys.stdin.buffer, "stdin", encoding)]
    if str(source).startswith(PREFIX):
        source = resolve(str(source))
    path = Path(source).expanduser()
    if path.is_dir():
        return _directory(path, encoding, tables_only)
    if path.exists() and not path.is_file():  # a pipe, as in <(command), can be read only once
        with open(path, "rb") as file:
            return [_spool(file, str(source), encoding)]
    paths = [path] if path.exists() else [Path(match) for match in sorted(glob.glob(str(path), recursive=True))
                                          if os.path.isfile(match)]
    if not paths:
        siblings = os.listdir(path.parent) if os.access(path.parent, os.R_OK) else []
        raise DataError(f"no such file: {source}{suggest(path.name, siblings)}")
    return _checked([Document(str(p), p, encoding=encoding) for p in paths])


def _checked(documents: list[Document]) -> list[Document]:
    for document in documents:
        if table_kind(document.name) != "parquet":
            document.check_head()
    return documents


def _directory(path: Path, encoding: str, tables_only: bool) -> list[Document]:
    """All text files below a directory in sorted order; hidden and binary ones are left out."""
    def refuse(error: OSError) -> None:
        raise DataError(f"cannot read the directory {error.filename}: {error.strerror}") from None

    config = path / "config.json"
    if config.is_file() and (path / "model.safetensors").is_file() and b'"seqloom"' in config.read_bytes()[:100]:
        raise DataError(f"{path} is a saved model, not text")
    paths = []
    for folder, folders, files in os.walk(path, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [Path(folder, name) for name in files if not name.startswith(".")]
    documents = [Document(str(p), p, encoding=encoding) for p in sorted(paths) if p.is_file()]
    if tables_only:
        texts = [document for document in documents if table_kind(document.name)]
    else:
        texts = [document for document in documents if encoding != "utf-8" or table_kind(document.name) == "parquet"
                 or not document.looks_binary()]
    if len(texts) < len(documents):
        kind = "files that are no tables" if tables_only else "binary files"
        progress.say(f"{path}: left out {len(documents) - len(texts)} {kind}")
    if not texts:
        raise DataError(f"there is no {'table' if tables_only else 'text file'} in the directory {path}")
    return _checked(texts)


def _spool(source: IO[bytes], name: str, encoding: str) -> Document:
    """A stream in a temporary file, so that it can be read again.

    On Linux the file has no name and is opened again through /proc: it goes with the last document that reads it, and
    with the process even if that is killed. Elsewhere it has a name until the program ends.
    """
    kept = None
    if _REOPENED.is_dir():
        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(source, file)
            kept = _Kept(os.dup(file.fileno()))
        place = Path(f"/proc/{os.getpid()}/fd/{kept.handle}")
    else:
        handle, named = tempfile.mkstemp(prefix="seqloom-")
        place = Path(named)
        atexit.register(place.unlink, missing_ok=True)
        with open(handle, "wb") as file:
            shutil.copyfileobj(source, file)
    document = Document(name, place, encoding=encoding, kept=kept)
    document.check_head()
    return document


class _Kept:
    """An open file, closed when nobody has this any more."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, os.close, handle)
