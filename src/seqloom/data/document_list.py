"""The documents of a corpus, read one after the other as often as is asked.

Whoever reads them to the end first learns on the way what is to be known of them (`data/contents.py`), and which files of a
directory are not text. So nothing is read for that alone, unless somebody asks before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from seqloom import progress
from seqloom.data.contents import Content, Notes
from seqloom.data.documents import Document
from seqloom.data.pieces import Piece
from seqloom.data.sources import Folder
from seqloom.data.tables import Table
from seqloom.errors import EncodingError

T = TypeVar("T")


class _ReadAgain(Exception):
    """A file of a directory is not text, which was seen after part of it had been handed out."""


class DocumentList:
    """Files, texts in memory and tables; files of a directory that turn out not to be text leave the list."""

    def __init__(self, documents: Sequence[Document | Table], name: str | None) -> None:
        """`name` None: that of the only document, or how many there are."""
        self._found = list(documents)  # whether they are text or not
        self._name = name
        self._can_begin_again = False  # whoever walks

    @property
    def name(self) -> str:
        """What messages and records call it."""
        if self._name is not None:
            return self._name
        return self._found[0].name if len(self._found) == 1 else f"{len(self._found)} files"

    @property
    def documents(self) -> Sequence[Document | Table]:
        """The documents. Where it is not known yet which files of a directory are text, all are read."""
        if not self._settled:
            self.read_through()
        return self._found

    @cached_property
    def _contents(self) -> list[Content]:
        """What there is to know of each of them, once it has been read."""
        self.read_through()
        return [document.content for document in self._found if document.content is not None]

    @property
    def n_bytes(self) -> int | None:
        """Bytes of UTF-8 text; None for compressed or transcoded files that were not read yet."""
        known = [document.content for document in self._found if document.content is not None]
        return (
            sum(content.size for content in known)
            if len(known) == len(self._found)
            else self._expected_size
        )

    @cached_property
    def _expected_size(self) -> int | None:
        """The same as far as it can be told without reading."""
        sizes = [document.size() for document in self._found]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @cached_property
    def _folders(self) -> list[Folder]:
        return list(
            {
                id(document.folder): document.folder for document in self._found if document.folder
            }.values()
        )

    @property
    def _settled(self) -> bool:
        """Whether it is known which files are text."""
        return all(folder.settled for folder in self._folders)

    def _walk(self) -> Iterator[Iterator[Piece]]:
        """Yield the pieces of one document after the other."""
        if not self._settled and not self._can_begin_again:
            self.read_through()
        for place in range(len(self._found)):
            yield self._pieces(place)
        self._settle()

    def read_by(self, function: Callable[[], T]) -> T:
        """Return what a function makes that reads everything, which need not have been read before.

        Files of a directory that are not text are left out while it reads; it is called again where it has seen part of one.
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
        """Read to the end what has not been, so that its size and its hashes are known."""
        unread = [place for place, document in enumerate(self._found) if document.content is None]
        if not unread and self._settled:
            return
        with progress.task(f"reading {self.name}", self._expected_size, "bytes") as bar:
            for place in unread:
                with suppress(_ReadAgain):
                    for piece in self._pieces(place):
                        bar.advance(len(piece.data))
        self._settle()

    def _pieces(self, place: int) -> Iterator[Piece]:
        """Yield the pieces of a document; what there is to know of it is noted on the way."""
        document, notes, begun = self._found[place], Notes(), False
        if _left_out(document):
            return
        try:
            for piece in document.pieces():
                if document.content is None:
                    notes.add(piece)
                begun = True
                yield piece
        except EncodingError as error:
            leave_out(document, error)
            if begun:
                raise _ReadAgain from None
            return
        if document.content is None:
            self._found[place] = replace(document, content=notes.content(document))

    def _settle(self) -> None:
        """Everything has been read: take out and report what is not text."""
        if not self._settled:
            self._found = [document for document in self._found if not _left_out(document)]
            for folder in self._folders:
                folder.report([document for document in self._found if document.folder is folder])


def leave_out(document: Document | Table, error: EncodingError) -> None:
    """Do without a file of a directory that is not text; refuse one that was named by itself, or was text before."""
    if document.folder is None or document.folder.settled:
        raise error
    document.folder.leave_out(document.name, error)


def _left_out(document: Document | Table) -> bool:
    """Whether it turned out not to be text."""
    return document.folder is not None and document.name in document.folder.misread
