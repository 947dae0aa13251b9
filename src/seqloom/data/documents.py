"""One document: a file (plain, compressed, in any encoding) or a text in memory, read as valid UTF-8 bytes.

Whatever the source, `Document.pieces` streams the same: UTF-8 without a byte-order mark, every byte checked,
otherwise unchanged (line ends stay as they are). So all callers work on bytes, wherever these came from.
`line_blocks` and `numbered_lines` give the lines of a document, about a megabyte at a time; those that come
through a pipe as soon as they are there.
"""

from __future__ import annotations

import codecs
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, cast

from seqloom import progress
from seqloom.data.pieces import COMPRESSED, Piece, unpacked
from seqloom.data.vector_files import BINARY, vectors_instead_of_text
from seqloom.errors import DataError, EncodingError, suggest
from seqloom.places import open_bytes
from seqloom.text.boundaries import cut_between_characters

if TYPE_CHECKING:
    from seqloom.data.sources import Folder
    from seqloom.data.tables import Content


CHUNK = 1 << 20

_HEAD = 8192
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Pipe:
    """A stream that is read once, as its bytes arrive; its first lines may be looked at before."""

    def __init__(self, stream: IO[bytes]) -> None:
        # one call of the system: what has arrived, or the next bytes if none wait
        self._arrived = cast("Any", stream).read1
        self._first: bytes | None = None
        self.lines = 0  # before the chunk that was yielded last

    def beginning(self) -> bytes:
        """Return what has arrived when there is a complete line, or much of one, or the end."""
        if self._first is None:
            self._first = b""
            while b"\n" not in self._first and len(self._first) < CHUNK:
                if not (more := self._arrived(CHUNK)):
                    break
                self._first += more
        return self._first

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes as they arrive."""
        chunk = self.beginning()
        while chunk:
            yield chunk
            self.lines += chunk.count(b"\n")
            chunk = self._arrived(CHUNK)


@dataclass(frozen=True)
class Document:
    """Bytes `start` to `stop` of the UTF-8 content of a file or of `data`."""

    name: str
    path: Any = None  # a Path, or a Place elsewhere
    data: bytes = b""
    encoding: str = "utf-8"
    start: int = 0
    stop: int | None = None
    # keeps a temporary file without a name alive
    open_file: object = field(default=None, repr=False, compare=False)
    # hash and sizes, once it has been read
    content: Content | None = field(default=None, repr=False, compare=False)
    # the directory that leaves it out if it is not text
    folder: Folder | None = field(default=None, repr=False, compare=False)
    # where its bytes come from if they can be read once only
    pipe: Pipe | None = field(default=None, repr=False, compare=False)
    first_line: int = 1  # the number of its first line, where it is a part of a file

    def part(self, start: int, stop: int) -> Document:
        """Return a document over a range of this one's content."""
        return replace(self, start=self.start + start, stop=self.start + stop, content=None)

    def size(self) -> int | None:
        """Return the number of bytes if known without reading: not for compressed or transcoded files."""
        if self.stop is not None:
            return self.stop - self.start
        if self.pipe is not None:
            return None
        if self.path is None:
            return len(self.data) - self.start
        if self.encoding != "utf-8" or self.path.suffix in COMPRESSED:
            return None
        return self.path.stat().st_size - self._mark_size() - self.start

    def pieces(self) -> Iterator[Piece]:
        """Yield the content in pieces of about a megabyte that end between characters; the end of the
        iterator is the end of the content.
        """
        position, waiting = self.start, b""
        for chunk in self.unchecked():
            waiting += chunk
            at = cut_between_characters(waiting, False)
            self._check(waiting[:at], position)
            if at:
                yield Piece(waiting[:at])
            position, waiting = position + at, waiting[at:]
        self._check(waiting, position)  # only an unfinished character can be left, and is an error

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in pieces, as bytes alone."""
        return (piece.data for piece in self.pieces())

    def preview(self) -> Document:
        """Return what may be read any number of times: itself or, of a pipe, the lines that are there."""
        if self.pipe is None:
            return self
        decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        text = decoder.decode(self.pipe.beginning()).removeprefix("\ufeff")
        return Document(self.name, data=(text[: text.rfind("\n") + 1] or text).encode("utf-8"))

    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text."""
        yield self.name, b"".join(self.chunks()).decode("utf-8")

    def looks_binary(self, head: bytes | None = None) -> bool:
        """Return whether the head holds NUL bytes and is neither UTF-8 nor marked as UTF-16."""
        head = self.head() if head is None else head
        if head[:2] in _UTF16_MARKS:
            return False
        return b"\0" in head and not _is_utf8(
            head[: cut_between_characters(head, len(head) < _HEAD)]
        )

    def check_head(self) -> None:
        """Refuse what is clearly not UTF-8 text before any work is done on it."""
        if self.encoding != "utf-8":
            return
        head = self.head()
        if head[:2] in _UTF16_MARKS:
            raise EncodingError(f"{self.name} is UTF-16 text; read it with encoding='utf-16'")
        vectors = vectors_instead_of_text(head)
        # a binary vector file of few numbers need not look binary
        if self.looks_binary(head) or vectors in BINARY:
            if vectors:
                raise DataError(
                    f"{self.name} holds {vectors}, not text; convert it with `seqloom convert`"
                )
            raise DataError(
                f"{self.name} looks like a binary file; seqloom reads plain text, also .gz, .xz and .zst"
            )
        if vectors:
            progress.say(
                f"{self.name} looks like {vectors}; if it is, convert it with `seqloom convert`"
            )

    def head(self, size: int = _HEAD) -> bytes:
        """Return the first bytes as they are, decompressed."""
        if self.pipe is not None:
            return self.pipe.beginning()[:size]
        return self.data[:size] if self.path is None else next(self._raw(0, size), b"")[:size]

    def unchecked(self) -> Iterator[bytes]:
        """Yield the bytes of the range without checking that they are UTF-8."""
        skip, left = self.start, None if self.stop is None else self.stop - self.start
        stream: Iterator[bytes]
        if self.pipe is not None:
            chunks = self.pipe.chunks()
            stream = self._transcode(chunks) if self.encoding != "utf-8" else _without_mark(chunks)
        elif self.path is None:
            stream = (self.data[at : at + CHUNK] for at in range(self.start, len(self.data), CHUNK))
            skip = 0
        elif self.encoding != "utf-8":
            stream = self._transcode(self._raw())
        elif self.path.suffix in COMPRESSED:
            stream = _without_mark(self._raw())
        else:
            stream, skip = self._raw(self.start + self._mark_size()), 0
        for chunk in stream:
            if skip:
                chunk, skip = chunk[skip:], max(skip - len(chunk), 0)
            chunk = chunk[:left]
            if chunk:
                yield chunk
            if left is not None:
                left -= len(chunk)
                if left == 0:
                    return

    def _raw(self, offset: int = 0, size: int = CHUNK) -> Iterator[bytes]:
        """Yield the decompressed bytes of the file; turn any failure into a DataError."""
        assert self.path is not None
        try:
            if self.path.suffix in COMPRESSED:
                yield from unpacked(self.path, self.name, self.path.suffix, size)
                return
            with open_bytes(self.path) as file:
                file.seek(offset)
                yield from iter(lambda: file.read(size), b"")
        except PermissionError:
            raise DataError(f"{self.name} cannot be read: no permission") from None
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            kind = (
                f"broken {self.path.suffix} data"
                if self.path.suffix in COMPRESSED
                else "cannot be read"
            )
            raise DataError(
                f"{self.name}: {kind} ({error}); get a complete copy of the file"
            ) from None

    def _mark_size(self) -> int:
        return len(codecs.BOM_UTF8) if self.head(3) == codecs.BOM_UTF8 else 0

    def _transcode(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self.encoding)()
        read, lines = 0, 1
        for piece in pieces:
            text = self._decode(decoder, piece, read, lines, False)
            read, lines = read + len(piece), lines + text.count(b"\n")
            yield text
        yield self._decode(decoder, b"", read, lines, True)

    def _decode(
        self, decoder: codecs.IncrementalDecoder, piece: bytes, read: int, lines: int, final: bool
    ) -> bytes:
        held = len(decoder.getstate()[0])
        try:
            return decoder.decode(piece, final).encode("utf-8")
        except UnicodeError as error:
            start = getattr(error, "start", 0) - held
            line = lines + piece[: max(start, 0)].count(b"\n")
            raise EncodingError(
                f"{self.name} is not {self.encoding} text: line {line}, byte offset {read + start}; "
                "name its encoding (encoding=...)"
            ) from None

    def _check(self, data: bytes, position: int) -> None:
        if data.isascii():  # much faster than decoding, and the usual case
            return
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            offset = position + error.start
            line = 1 + (
                self.pipe.lines + data[: error.start].count(b"\n")
                if self.pipe is not None
                else sum(
                    chunk.count(b"\n") for chunk in replace(self, start=0, stop=offset).unchecked()
                )
            )
            if self.path is not None and self.path.suffix not in COMPRESSED:
                offset += self._mark_size()
            raise EncodingError(
                f"{self.name} is not UTF-8 text: line {line}, byte offset {offset} holds "
                f"0x{data[error.start]:02X}; name its encoding, for example encoding='latin-1'"
            ) from None


def check_encoding(encoding: str) -> str:
    """Return the canonical name of a text encoding."""
    try:
        name = codecs.lookup(encoding).name
        codecs.getincrementaldecoder(encoding)
        b"aa".decode(encoding, "replace")  # refuses codecs that are not for text
    except (LookupError, UnicodeError):  # the codec `undefined` exists to raise the second
        import encodings.aliases

        near = suggest(encoding, set(encodings.aliases.aliases.values()))
        raise DataError(
            f"unknown encoding {encoding!r}{near or '; use for example utf-16 or latin-1'}"
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


def _without_mark(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for i, piece in enumerate(pieces):
        yield piece.removeprefix(codecs.BOM_UTF8) if i == 0 else piece


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# ---- lines

MAX_LINE_BYTES = 1 << 30  # bytes that one line may have

_BLOCK = 1 << 20


def line_blocks(
    document: Document, size: int = _BLOCK, *, returns: bool = False
) -> Iterator[bytes]:
    """Yield the content in blocks of about `size` bytes of complete lines, of a pipe those that have
    arrived; with `returns` a lone \\r also ends a line.
    """
    size = size if document.pipe is None else 1
    waiting: list[bytes] = []
    length = 0
    for chunk in document.chunks():
        at = chunk.rfind(b"\n") + 1
        if returns:  # one at the end of the chunk may be half of \r\n
            at = max(at, chunk.rfind(b"\r", 0, len(chunk) - 1) + 1)
        if at and length + at >= size:
            yield b"".join([*waiting, chunk[:at]])
            waiting, length, chunk = [], 0, chunk[at:]
        waiting.append(chunk)
        length += len(chunk)
        if length > MAX_LINE_BYTES:
            raise DataError(
                f"{document.name} has a line of more than {MAX_LINE_BYTES >> 20} MB; is it one "
                f"object or text per line?"
            )
    if length:
        yield b"".join(waiting)


def numbered_lines(document: Document) -> Iterator[tuple[int, list[str]]]:
    """Yield some thousand lines without their ends, \\n or \\r\\n, after the number of the first."""
    first = document.first_line
    for block in line_blocks(document):
        text = block.decode("utf-8")
        lines = (
            (text.replace("\r\n", "\n") if "\r" in text else text).removesuffix("\n").split("\n")
        )
        yield first, lines
        first += len(lines)
