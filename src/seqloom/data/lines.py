"""The lines of a document, about a megabyte at a time."""

from __future__ import annotations

from collections.abc import Iterator

from seqloom.data.documents import Document
from seqloom.errors import DataError

LONGEST = 1 << 30  # bytes that one line may have

_BLOCK = 1 << 20


def line_blocks(
    document: Document, size: int = _BLOCK, *, returns: bool = False
) -> Iterator[bytes]:
    """The content in blocks of about `size` bytes that end with a line; with `returns` a lone \\r ends one, too."""
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
        if length > LONGEST:
            raise DataError(
                f"{document.name} has a line of more than {LONGEST >> 20} MB; is it one object or text per line?"
            )
    if length:
        yield b"".join(waiting)


def numbered_lines(document: Document) -> Iterator[tuple[int, list[str]]]:
    """Some thousand lines without their ends, \\n or \\r\\n, and the number of the first."""
    first = 1
    for block in line_blocks(document):
        text = block.decode("utf-8")
        lines = (
            (text.replace("\r\n", "\n") if "\r" in text else text).removesuffix("\n").split("\n")
        )
        yield first, lines
        first += len(lines)
