"""Text to learn from: files, directories, compressed files, standard input or texts in memory, as one stream.

A corpus is a list of documents that can be read any number of times and is never completely in
memory. The first complete reading also computes its hashes and sizes, and finds the files of a
directory that are not text. `blocks` cuts it where the tokenizer says that a cut changes nothing.
`split` holds out whole files, or contiguous parts of a single file, because shuffled lines of
running text put neighbours of the training text into the test; `overlap` measures that.

    >>> corpus = Corpus.from_texts(["to be", "or not to be"])
    >>> list(corpus.lines())
    ['to be', 'or not to be']
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.data.catalogue import PREFIX, full_name
from seqloom.data.documents import Document
from seqloom.data.examples import is_frame, refuse_name, units, whole_files
from seqloom.data.pieces import Block, blocks_of, lines_of
from seqloom.data.showing import corpus_line
from seqloom.data.sources import DocumentList, GivenText, find_documents, leave_out, paths_of
from seqloom.data.tables import Table, as_table
from seqloom.errors import DataError, EncodingError
from seqloom.text.coding import to_bytes

_NEAR = 1 << 16  # bytes by which a split may move to the end of a line
_LINE = 20  # bytes; shorter lines repeat by chance and say nothing about overlap


class Corpus(DocumentList):
    """Documents read as one stream of UTF-8 bytes; made by `read`, `from_texts`, `split` or `bundled`."""

    of_words = False  # whether it was built from lists of words, which are taken as they are
    __repr__ = corpus_line

    @classmethod
    def from_texts(cls, texts: str | Iterable[str], name: str = "text") -> Corpus:
        """Make a corpus: a str is the text itself; the texts of a list are units and become lines."""
        data = (
            to_bytes(texts)
            if isinstance(texts, str)
            else b"".join(to_bytes(text) + b"\n" for text in texts)
        )
        if not data:
            raise DataError(f"the corpus {name!r} is empty; give some text")
        return cls([Document(name, data=data)], name)

    def blocks(self, cut: Callable[[bytes, bool], int], size: int = 4 << 20) -> Iterator[Block]:
        """Yield the documents in pieces of about `size` bytes, cut where `cut(data, final)` allows it."""
        empty = True
        for pieces in self._walk():
            for block in blocks_of(pieces, cut, size):
                empty = False
                yield block
        if empty:
            columns = {
                document.column for document in self.documents if isinstance(document, Table)
            }
            raise DataError(
                f"no row of {self.name} has text in column {', '.join(sorted(columns))}"
                if columns
                else f"{self.name} is empty; give a file with some text"
            )

    @property
    def ends_with_newline(self) -> bool:
        """Return whether the last line is closed."""
        return [content.closed for content in self._contents if content.size][-1:] == [True]

    @property
    def open_lines(self) -> int:
        """Count the documents that end without a newline: as lines, each of them has one `</s>` that
        is not in its bytes.
        """
        return sum(content.size > 0 and not content.closed for content in self._contents)

    @cached_property
    def _ends(self) -> np.ndarray:
        """Return where each document ends in the whole text, in bytes."""
        return np.cumsum([content.size for content in self._contents])

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the content, or of the documents' hashes when there are several."""
        digests = self.file_hashes
        return (
            digests[0]
            if len(digests) == 1
            else hashlib.sha256(" ".join(digests).encode()).hexdigest()
        )

    @property
    def file_hashes(self) -> list[str]:
        """Return the SHA-256 of each document that is not empty."""
        return [content.digest for content in self._contents if content.size]

    def text(self) -> str:
        """Return the whole text; for small corpora."""
        return b"".join(piece.data for pieces in self._walk() for piece in pieces).decode("utf-8")

    def each_document(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of every document; a row of a table is one, named `reviews.csv:7`."""
        return (pair for document in self.documents for pair in document.documents())

    def lines(self) -> Iterator[str]:
        """Yield the lines without their newlines."""
        return (line.decode("utf-8") for pieces in self._walk() for line in lines_of(pieces))

    def split(self, fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)) -> Splits:
        """Split into training, validation and test parts: contiguous ranges of a single file, or whole
        files of several.

        Files are held out in the order of the hashes of their contents, so that names do not
        matter. Where whole files would miss a fraction by more than a factor of two, every file is
        split into contiguous parts. A cut inside a file moves to the end of a line if one is near,
        in a table to the end of a row.
        """
        if len(fractions) != 3 or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-6:
            raise DataError(
                f"a split needs three positive fractions that sum to 1; got {fractions}"
            )
        shares = "/".join(f"{100 * share:g}" for share in fractions)
        sizes = [content.size for content in self._contents]
        several = sum(size > 0 for size in sizes) > 1
        file_split = (
            whole_files([content.digest for content in self._contents], sizes, fractions)
            if several
            else None
        )
        if file_split is not None:
            parts = [[self.documents[index] for index in indices] for indices in file_split]
            description = f"whole files {shares} by bytes in the order of their hashes"
        else:
            parts = self._contiguous(fractions)
            description = f"contiguous {shares} by bytes{' of every file' * several}"
        if several and file_split is None:
            progress.say(
                f"{self.name}: too few files, or one too large, to hold out whole files; each file "
                f"is split into "
                "contiguous parts"
            )
        if not all(parts):
            rows = any(isinstance(document, Table) for document in self.documents)
            raise DataError(
                f"{self.name} ({sum(sizes)} bytes) "
                f"{'has too few rows' if rows else 'is too small'} to split into "
                f"three parts{' at their ends' if rows else ''}; give more text"
            )
        train, valid, test = (
            Corpus(part, f"{self.name}:{label}")
            for part, label in zip(parts, ("train", "valid", "test"))
        )
        return Splits(train, valid, test, description)

    def _contiguous(self, fractions: tuple[float, float, float]) -> list[list[Document | Table]]:
        """Return contiguous parts of every document, the documents ordered by their hashes."""
        parts: list[list[Document | Table]] = [[], [], []]
        for index in sorted(
            range(len(self.documents)), key=lambda index: self._contents[index].digest
        ):
            end = int(self._ends[index])
            if (base := end - self._contents[index].size) == end:
                continue
            bounds = [
                0,
                *(
                    min(
                        max(self._nearest_end(base + round((end - base) * share), index), base), end
                    )
                    - base
                    for share in (fractions[0], fractions[0] + fractions[1])
                ),
                end - base,
            ]
            for part, low, high in zip(parts, bounds, bounds[1:]):
                if low < high:
                    part.append(self.documents[index].part(low, high))
        return parts

    def beginning(self, fraction: float) -> Corpus | None:
        """Return about the first `fraction` of the text, up to the end of a line or row; None if that
        is nothing or all of it.
        """
        total = sum(content.size for content in self._contents)
        target = round(total * fraction)
        stop = self._nearest_end(
            target, min(int(np.searchsorted(self._ends, target, side="right")), len(self._ends) - 1)
        )
        return self._part(0, stop, f"{self.name}:beginning") if 0 < stop < total else None

    def spread(self, fraction: float, pieces: int) -> Corpus:
        """Return about that fraction of the text from all over it: the beginning of each of so many equal
        stretches, up to the end of a line or row. A larger fraction contains a smaller one.
        """
        width = sum(content.size for content in self._contents) / pieces
        starts = np.arange(pieces) * width
        ranges = [
            (self._end_near(start), self._end_near(start + fraction * width)) for start in starts
        ]
        parts = [self._part(low, high, "").documents for low, high in ranges if low < high]
        return Corpus([one for part in parts for one in part], f"{self.name}:spread")

    def _end_near(self, offset: float) -> int:
        """Return the end of a row, line or document near an offset of the whole text."""
        target = round(offset)
        if target <= 0 or target >= self._ends[-1]:
            return int(np.clip(target, 0, self._ends[-1]))
        index = int(np.searchsorted(self._ends, target, side="right"))
        return self._nearest_end(target, index)

    def _part(self, start: int, stop: int, name: str) -> Corpus:
        parts, base = [], 0
        for document, content in zip(self.documents, self._contents):
            low, high = max(start - base, 0), min(stop - base, content.size)
            if low < high:
                parts.append(document.part(low, high))
            base += content.size
        return Corpus(parts, name)

    def _nearest_end(self, target: int, index: int) -> int:
        """Return the end of a row, line or document nearest to the offset `target` in a document; if none
        is near, the end of white space, else of a character.
        """
        ends, document = self._ends, self.documents[index]
        base = int(ends[index]) - self._contents[index].size
        if isinstance(document, Table):
            return _nearest(np.append(base, base + self._contents[index].ends), target)
        reach = min(_NEAR, int(ends[-1]) // 100)
        start, stop = max(target - reach, base), min(target + reach, int(ends[index]))
        window = np.frombuffer(
            b"".join(document.part(start - base, stop - base).unchecked()), np.uint8
        )
        lines = np.append(
            start + 1 + np.flatnonzero(window == ord("\n")), ends[np.abs(ends - target) < reach]
        )
        spaces = start + 1 + np.flatnonzero(np.isin(window, np.frombuffer(b" \t\r", np.uint8)))
        characters = start + np.flatnonzero(window & 0xC0 != 0x80)
        return _nearest(
            next(
                (offsets for offsets in (lines, spaces, characters) if len(offsets)),
                np.array([target]),
            ),
            target,
        )


def _nearest(offsets: np.ndarray, target: int) -> int:
    return int(offsets[np.argmin(np.abs(offsets - target))])


@dataclass(frozen=True)
class Splits:
    """Three parts of one corpus; unpacks as `train, valid, test`."""

    train: Corpus
    valid: Corpus
    test: Corpus
    description: str

    def __iter__(self) -> Iterator[Corpus]:
        return iter((self.train, self.valid, self.test))

    @cached_property
    def fingerprint(self) -> str:
        """Return a short hash of the description and all three parts."""
        parts = [self.description, *(part.fingerprint for part in self)]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def as_corpus(data: Any) -> Corpus:
    """Convert what `fit` and `evaluate` accept: a corpus, a Path, the text itself, or texts, one
    per unit: a list, a generator, an array, a column, or a frame with one text column. A unit
    may be a list of words.
    """
    if isinstance(data, Corpus):
        return data
    if isinstance(data, Path):
        return open_corpus(data)
    if isinstance(data, str):
        refuse_name(data)
        return Corpus.from_texts(data)
    if isinstance(data, (bytes, dict)) or not (isinstance(data, Iterable) or is_frame(data)):
        raise DataError(
            f"a {type(data).__name__} is not text; give a list of texts, one text, a Path, or a corpus from "
            "seqloom.read(path)"
        )
    texts, of_words = units(data)
    corpus = Corpus.from_texts(texts)
    corpus.of_words = of_words
    return corpus


def read(
    source: str | Path | Iterable[str | Path],
    *,
    encoding: str = "utf-8",
    column: str | None = None,
    strict: bool = False,
) -> Corpus:
    """Read a corpus from a file, several files, a directory, a pattern such as `data/*.txt`, or
    `-` for standard input.

    Files ending in .gz, .xz and .zst are decompressed. Other encodings than UTF-8 must be named.
    Files ending in .csv, .tsv, .jsonl, .ndjson or .parquet are tables: `column` is read, a name or
    a path such as `messages.0.content`, and each row is a document. Without it, the only column of
    text is taken. `data:ptb/train` is a dataset of the catalogue. In a directory or pattern, binary
    files and those in another encoding are skipped and reported; `strict` refuses them.
    """
    return open_corpus(source, encoding=encoding, column=column, strict=strict, check=True)


def open_corpus(
    source: str | Path | Iterable[str | Path],
    *,
    encoding: str = "utf-8",
    column: str | None = None,
    strict: bool = False,
    check: bool = False,
) -> Corpus:
    """Open a corpus without reading a directory's files: those that are not text are found by the
    first reading (`Corpus.read_by`), or now with `check`.
    """
    sources = paths_of(source, "read")
    documents = [
        document
        for path in sources
        for document in find_documents(
            path, encoding, tables_only=column is not None, strict=strict, check=check
        )
    ]
    if not documents:
        raise DataError("the list of files is empty; name at least one")
    first, name = str(sources[0]), None
    if isinstance(source, GivenText):
        name = documents[0].name
    elif isinstance(source, (str, Path)):
        name = full_name(first) if first.startswith(PREFIX) else Path(first).name or first
    opened: list[Document | Table] = []
    for document in documents:
        try:
            opened.append(as_table(document, column))
        except EncodingError as error:  # in its first rows
            leave_out(document, error)
            opened.append(document)
    corpus = Corpus(opened, "stdin" if source == "-" else name)
    if column is None:
        for guess in sorted({table.column for table in opened if isinstance(table, Table)}):
            progress.say(f"{corpus.name}: reading the column {guess!r}")
    if corpus.n_bytes == 0:
        raise DataError(f"{corpus.name} is empty; give a file with some text")
    return corpus


def overlap(train: Corpus, test: Corpus) -> float:
    """Return the share of test lines of at least 20 bytes that also occur in the training text, by
    64-bit hashes.
    """
    hashes = [
        array(
            "q",
            (
                hash(line)
                for pieces in corpus._walk()
                for raw in lines_of(pieces)
                if len(line := raw.strip()) >= _LINE
            ),
        )
        for corpus in (train, test)
    ]
    train_lines, test_lines = (np.frombuffer(h, np.int64) for h in hashes)
    return float(np.isin(test_lines, train_lines).mean()) if len(test_lines) else 0.0


def bundled() -> Corpus:
    """Return Tiny Shakespeare: 1.1 MB of public-domain plays, installed with the package."""
    data = resources.files("seqloom.data").joinpath("bundled", "tinyshakespeare.txt").read_bytes()
    return Corpus([Document("tinyshakespeare", data=data)], "tinyshakespeare")
