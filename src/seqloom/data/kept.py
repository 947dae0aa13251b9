"""Texts and arrays that are larger than memory, kept in temporary files that vanish with their last user.

`Gathering` collects texts in a list until they exceed the memory that they may have, and from then on in
a file. What reads them in order and portion by portion (`portions_of`) gives the same results for both.

    >>> some = Gathering(memory=4)
    >>> some.extend(["to be", "or not", "to be"])
    >>> texts = some.texts
    >>> type(texts).__name__, len(texts), texts[1], texts[1:], list(taken(texts, [2, 0]))
    ('KeptTexts', 3, 'or not', ['or not', 'to be'], ['to be', 'to be'])
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import IO, Any, overload

import numpy as np

from seqloom.data.corpus import Corpus
from seqloom.data.documents import Document
from seqloom.errors import DataError
from seqloom.text.coding import to_bytes

IN_MEMORY = 2 << 30  # bytes of text; more is kept in a file
PORTION = 1 << 12  # texts that are read at a time


def _scratch() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="seqloom-")


def _written(file: IO[bytes], data: Any) -> None:
    try:
        file.write(data)
    except OSError as error:
        raise DataError(
            f"no room for temporary files in {tempfile.gettempdir()} ({error.strerror}); "
            "set TMPDIR to a directory on a larger disk"
        ) from error


class KeptTexts(Sequence[str]):
    """A list of texts in a file, a line each; a text may have newlines itself."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._file, self._ends = _scratch(), array("q", [0])
        self.extend(texts)

    def extend(self, texts: Iterable[str]) -> None:
        self._file.seek(0, os.SEEK_END)
        end = self._ends[-1]
        for text in texts:
            data = to_bytes(text) + b"\n"
            _written(self._file, data)
            end += len(data)
            self._ends.append(end)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            low, high, step = at.indices(len(self))
            if step == 1:
                return self._range(low, max(high, low))
            return [self[i] for i in range(low, high, step)]
        row = at + len(self) if at < 0 else at
        if not 0 <= row < len(self):
            raise IndexError(f"text {at} of {len(self)}")
        return self._range(row, row + 1)[0]

    def _range(self, low: int, high: int) -> list[str]:
        first, last = self._ends[low], self._ends[high]
        data = self.bytes_between(first, last)
        at = (end - first for end in self._ends[low : high + 1])
        return [data[a : b - 1].decode("utf-8") for a, b in pairwise(at)]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(portions_of(self))

    def bytes_between(self, low: int, high: int) -> bytes:
        """Return some bytes of the lines of all texts."""
        self._file.seek(low)
        return self._file.read(high - low)

    @property
    def n_bytes(self) -> int:
        return self._ends[-1]

    def document(self, name: str) -> Document:
        """Return the lines of all texts, read from the file when they are asked for."""
        lines: Any = _Lines(self)
        return Document(name, data=lines)


class _Lines:
    """The bytes of kept texts, as a `Document` reads those in memory."""

    def __init__(self, texts: KeptTexts) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return self.texts.n_bytes

    def __getitem__(self, part: slice) -> bytes:
        low, high, _ = part.indices(len(self))
        return self.texts.bytes_between(low, max(high, low))


class Gathering:
    """Texts that come one after the other; `memory`: bytes that may be held before they go to a file.
    Pairs of texts and numbers always stay in a list.
    """

    def __init__(self, memory: int | None = None) -> None:
        self.left = IN_MEMORY if memory is None else memory
        self.texts: list[Any] | KeptTexts = []

    def extend(self, texts: Iterable[Any]) -> None:
        if isinstance(self.texts, KeptTexts):
            self.texts.extend(texts)
            return
        before = len(self.texts)
        self.texts.extend(texts)
        added = self.texts[before:]
        if added and isinstance(added[0], str):
            self.left -= sum(map(len, added))
        if self.left < 0:
            self.texts = KeptTexts(self.texts)


def portions_of(texts: Sequence[Any], size: int = PORTION) -> Iterator[list[Any]]:
    """Yield the texts as lists, `size` at a time."""
    for low in range(0, len(texts), size):
        yield list(texts[low : low + size])


def taken(texts: Sequence[Any], rows: Iterable[int]) -> Any:
    """Return some of the texts in this order, kept where they are kept."""
    return alike(texts, (texts[i] for i in rows))


def alike(texts: Sequence[Any], others: Iterable[Any]) -> Any:
    """Return others of the same kind, kept where these are kept."""
    if isinstance(texts, KeptTexts | KeptRows):
        return type(texts)(others)
    return list(others)


def as_lines(texts: Sequence[str], name: str = "text") -> Corpus:
    """Return texts as a corpus, a line for each."""
    if isinstance(texts, KeptTexts):
        return Corpus([texts.document(name)], name)
    return Corpus.from_texts(texts, name)


class KeptRows(Sequence[list[str]]):
    """A list of lists of words in a file, none of which has a newline."""

    def __init__(self, rows: Iterable[Sequence[str]] = ()) -> None:
        self._texts = KeptTexts(map("\n".join, rows))

    def append(self, row: Sequence[str]) -> None:
        self._texts.extend(["\n".join(row)])

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, at: int) -> list[str]: ...
    @overload
    def __getitem__(self, at: slice) -> list[list[str]]: ...
    def __getitem__(self, at: int | slice) -> list[str] | list[list[str]]:
        if isinstance(at, slice):
            return [_words(text) for text in self._texts[at]]
        return _words(self._texts[at])

    def __iter__(self) -> Iterator[list[str]]:
        return map(_words, self._texts)


def _words(text: str) -> list[str]:
    return text.split("\n") if text else []


class Joined:
    """Several lists of texts, one after the other."""

    def __init__(self, lists: Iterable[Sequence[str]]) -> None:
        self.lists = lists

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.lists)


# ---- arrays


class KeptArrays:
    """Named arrays that grow part by part in files and are mapped in the end."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[IO[bytes], np.dtype, tuple[int, ...]]] = {}

    def add(self, arrays: dict[str, np.ndarray]) -> None:
        """Append rows to each array; their types and widths are those of the first part."""
        for name, values in arrays.items():
            if name not in self._files:
                self._files[name] = _scratch(), values.dtype, values.shape[1:]
            file, dtype, _ = self._files[name]
            _written(file, np.ascontiguousarray(values, dtype).data)

    def mapped(self) -> dict[str, np.ndarray]:
        found = {}
        for name, (file, dtype, width) in self._files.items():
            file.flush()
            empty = not file.tell()
            flat = np.zeros(0, dtype) if empty else np.memmap(file, dtype, "r").view(np.ndarray)
            found[name] = flat.reshape(-1, *width)
        return found


def mapped_parts(parts: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the rows of arrays that come in parts, in files that are mapped."""
    kept = KeptArrays()
    for part in parts:
        kept.add(part)
    return kept.mapped()
