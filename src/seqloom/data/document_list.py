"""The documents of a corpus, read one after the other, any number of times.

The first complete reading also computes hashes and sizes (`data/tables`) and finds the files of a directory
that are not text; so they are read for that alone only if it is needed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from seqloom import progress
from seqloom.data.documents import Document
from seqloom.data.pieces import Piece
from seqloom.data.sources import Folder
from seqloom.data.tables import Content, Notes, Table
from seqloom.errors import EncodingError

T = TypeVar("T")


class _ReadAgain(Exception):
    """A file of a directory turned out not to be text after part of it had been yielded."""


class DocumentList:
    """Files, texts in memory and tables; files of a directory that turn out not to be text leave the list."""

    def __init__(self, documents: Sequence[Document | Table], name: str | None) -> None:
        """Take the documents; by default the name is that of the only document, or their number."""
        self._candidates = list(documents)  # whether they are text or not
        self._name = name
        self._can_begin_again = False  # whether the reader can, as in `read_by`

    @property
    def name(self) -> str:
        """Return the name used in messages and records."""
        if self._name is not None:
            return self._name
        return (
            self._candidates[0].name
            if len(self._candidates) == 1
            else f"{len(self._candidates)} files"
        )

    @property
    def documents(self) -> Sequence[Document | Table]:
        """Return the documents; read all of them first if it is unknown which are text."""
        if not self._settled:
            self.read_through()
        return self._candidates

    @cached_property
    def _contents(self) -> list[Content]:
        """Return the content records of all documents, reading those that were not read yet."""
        self.read_through()
        return [document.content for document in self._candidates if document.content is not None]

    @property
    def n_bytes(self) -> int | None:
        """Return the number of bytes of UTF-8 text; None for compressed or transcoded files that were not
        read.
        """
        contents = [
            document.content for document in self._candidates if document.content is not None
        ]
        return (
            sum(content.size for content in contents)
            if len(contents) == len(self._candidates)
            else self._expected_size
        )

    @cached_property
    def _expected_size(self) -> int | None:
        """Return the number of bytes; None if that is unknown without reading."""
        sizes = [document.size() for document in self._candidates]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @cached_property
    def _folders(self) -> list[Folder]:
        return list(
            {
                id(document.folder): document.folder
                for document in self._candidates
                if document.folder
            }.values()
        )

    @property
    def _settled(self) -> bool:
        """Return whether it is known which files are text."""
        return all(folder.settled for folder in self._folders)

    def _walk(self) -> Iterator[Iterator[Piece]]:
        """Yield the pieces of one document after the other."""
        if not self._settled and not self._can_begin_again:
            self.read_through()
        for index in range(len(self._candidates)):
            yield self._pieces(index)
        self._settle()

    def read_by(self, function: Callable[[], T]) -> T:
        """Return the result of a function that reads the documents, perhaps for the first time.

        Files of a directory that are not text are left out while it reads; if it has already seen part
        of one, it is called again.
        """
        self._can_begin_again = True
        try:
            while True:
                try:
                    return function()
                except _ReadAgain:
                    continue
        finally:
            self._can_begin_again = False

    def read_through(self) -> None:
        """Read the documents that have not been read to the end, for their sizes and hashes."""
        unread = [
            index for index, document in enumerate(self._candidates) if document.content is None
        ]
        if not unread and self._settled:
            return
        with progress.task(f"reading {self.name}", self._expected_size, "bytes") as bar:
            for index in unread:
                with suppress(_ReadAgain):
                    for piece in self._pieces(index):
                        bar.advance(len(piece.data))
        self._settle()

    @property
    def given_name(self) -> str | None:
        """Return the name that it was given, if any."""
        return self._name

    def candidates(self) -> list[Document | Table]:
        """Return all documents, whether they turn out to be text or not."""
        return list(self._candidates)

    def take_contents(self, contents: Sequence[Content | EncodingError]) -> None:
        """Take what somebody else found out by reading each candidate: its content, or why it is not text."""
        for index, found in enumerate(contents):
            document = self._candidates[index]
            if isinstance(found, EncodingError):
                leave_out(document, found)
            else:
                self._candidates[index] = replace(document, content=found)
        self._settle()

    def _pieces(self, index: int) -> Iterator[Piece]:
        """Yield the pieces of a document and record its content at the end."""
        document, notes, yielded = self._candidates[index], Notes(), False
        if _left_out(document):
            return
        try:
            for piece in document.pieces():
                if document.content is None:
                    notes.add(piece)
                yielded = True
                yield piece
        except EncodingError as error:
            leave_out(document, error)
            if yielded:
                raise _ReadAgain from None
            return
        if document.content is None:
            self._candidates[index] = replace(document, content=notes.content(document))

    def _settle(self) -> None:
        """Remove and report the files that are not text, once everything has been read."""
        if not self._settled:
            self._candidates = [
                document for document in self._candidates if not _left_out(document)
            ]
            for folder in self._folders:
                folder.report(
                    [document for document in self._candidates if document.folder is folder]
                )


def leave_out(document: Document | Table, error: EncodingError) -> None:
    """Skip a file of a directory that is not text; refuse one that was named explicitly, or that
    was text before.
    """
    if document.folder is None or document.folder.settled:
        raise error
    document.folder.leave_out(document.name, error)


def _left_out(document: Document | Table) -> bool:
    """Return whether the document turned out not to be text."""
    return document.folder is not None and document.name in document.folder.misread
