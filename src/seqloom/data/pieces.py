"""What readers yield: pieces of text with the ends of the documents in them, and the lines and blocks
made of them; compressed files (.gz, .xz, .zst) are read piece by piece, up to a limit.

Text compresses to a tenth, logs to a hundredth; a few kilobytes that unpack to gigabytes are a mistake or
an attack. A file is refused when it turns out to be both large and hundreds of times its packed size;
`$SEQLOOM_EXPANSION` raises that.
"""

from __future__ import annotations

import gzip
import lzma
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from seqloom.errors import ConfigError, DataError, MissingExtra, quoted
from seqloom.places import open_bytes

NONE = np.zeros(0, np.int64)


class Piece(NamedTuple):
    """UTF-8 bytes, the ascending offsets where documents end in them, and the row numbers of these."""

    data: bytes
    ends: np.ndarray = NONE
    rows: np.ndarray = NONE


class Block(NamedTuple):
    """Text that may be tokenized by itself, and the offsets where documents end in it."""

    data: bytes
    ends_document: bool  # the last document of a file
    ends: tuple[int, ...]


def lines_of(pieces: Iterator[Piece]) -> Iterator[bytes]:
    """Yield the lines of a document, without their newlines."""
    waiting: list[bytes] = []  # parts of an unfinished line: joined once, however many there are
    for piece in pieces:
        first, *lines = piece.data.split(b"\n")
        waiting.append(first)
        if lines:
            yield b"".join(waiting)
            yield from lines[:-1]
            waiting = [lines[-1]]
    if last_line := b"".join(waiting):
        yield last_line


def blocks_of(
    pieces: Iterator[Piece], cut: Callable[[bytes, bool], int], size: int
) -> Iterator[Block]:
    """Yield a document in blocks of about `size` bytes, cut where `cut(data, final)` allows it."""
    waiting, start, length, ends = bytearray(), 0, size, NONE
    for piece in pieces:
        del waiting[:start]
        ends = np.concatenate([ends - start, piece.ends + len(waiting)])
        waiting += piece.data
        start = 0
        while len(waiting) - start > length:  # bytes are left over, so this is not the end
            at = cut(bytes(waiting[start : start + length]), False)
            if at:
                inside = int(np.searchsorted(ends, start + at, side="right"))
                yield Block(
                    bytes(waiting[start : start + at]),
                    False,
                    tuple((ends[:inside] - start).tolist()),
                )
                ends = ends[inside:]
            start, length = start + at, size if at else 2 * length
    if waiting:
        yield Block(
            bytes(waiting[start:]), True, tuple((np.union1d(ends, [len(waiting)]) - start).tolist())
        )


# ---- unpacking

COMPRESSED = (".gz", ".xz", ".zst")
VARIABLE = "SEQLOOM_EXPANSION"
EXPANSION = 200  # largest ratio of unpacked to packed size
MIN_UNPACKED_LIMIT = 10 << 20  # bytes to which any file may unpack

_OPENERS: dict[str, Callable[..., IO[bytes]]] = {
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".xz": lzma.open,
}
_PACKED = 1 << 10  # bytes of .zst read at a time; each may unpack to thirty thousand


def unpacked(path: Path, name: str, suffix: str, size: int) -> Iterator[bytes]:
    """Yield the content of a file compressed as its suffix says, in pieces of about `size` bytes."""
    with open_bytes(path) as packed, _OPENERS.get(suffix, nullcontext)(packed) as file:
        pieces = (
            _zstd_pieces(file, name) if suffix == ".zst" else iter(lambda: file.read(size), b"")
        )
        yield from _bounded(pieces, packed, name)


def _bounded(pieces: Iterable[bytes], packed: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the same pieces; refuse a file as soon as what was read of it has expanded too far.

    The first ones are held back until any file may unpack so much: work on ten megabytes of short rows
    takes long, unpacking them does not.
    """
    times, total, held = _expansion(), 0, list[bytes]()
    for piece in pieces:
        total += len(piece)
        if total > max(MIN_UNPACKED_LIMIT, packed.tell() * times):
            raise DataError(
                f"{name} unpacks to more than {times} times its {packed.tell():,} bytes, more than any "
                f"text does; if "
                f"this is what you want, set {VARIABLE} to a larger number"
            )
        held.append(piece)
        if packed.tell() * times >= MIN_UNPACKED_LIMIT:
            yield from held
            held.clear()
    yield from held


def _expansion() -> int:
    value = os.environ.get(VARIABLE) or str(EXPANSION)
    if not value.isascii() or not value.isdigit() or not 1 <= len(value) <= 9:
        raise ConfigError(
            f"{VARIABLE} must be a whole number, how many times its size a packed file may expand to; "
            f"got {quoted(value)}"
        )
    return int(value)


def _zstd_pieces(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield frame after frame; refuse an incomplete last one, which the library's reader ignores."""
    try:
        import zstandard
    except ImportError:
        raise MissingExtra(
            f"{name}: reading .zst needs zstandard; pip install 'seqloom[zst]'"
        ) from None

    frame = None
    while data := file.read(_PACKED):
        while data:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            try:
                yield frame.decompress(data)
            except zstandard.ZstdError as error:
                raise OSError(error) from None
            data = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("the file ends inside a frame")
