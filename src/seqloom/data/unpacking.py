"""Packed files (.gz, .xz, .zst), a piece at a time, and never more than a text can have been.

Text packs to a tenth, logs to a hundredth; a few kilobytes that unpack to gigabytes are a mistake or an attack. A file is
refused when it turns out to be both large and hundreds of times its packed size; `$SEQLOOM_EXPANSION` raises that.
"""

from __future__ import annotations

import gzip
import lzma
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from seqloom.errors import ConfigError, DataError, MissingExtra, quoted

COMPRESSED = (".gz", ".xz", ".zst")
VARIABLE = "SEQLOOM_EXPANSION"
EXPANSION = 200  # times its packed size
ROOM = 100 << 20  # bytes that any file may unpack to

_OPENERS: dict[str, Callable[..., IO[bytes]]] = {".gz": gzip.open, ".xz": lzma.open}  # type: ignore[dict-item]
_PACKED = 1 << 10  # bytes of .zst at a time, each of which may become thirty thousand


def unpacked(path: Path, name: str, suffix: str, size: int) -> Iterator[bytes]:
    """The content of a file that is packed as its suffix says, in pieces of `size` bytes or so."""
    with _OPENERS.get(suffix, open)(path, "rb") as file:
        pieces = (
            _zstd_pieces(file, name) if suffix == ".zst" else iter(lambda: file.read(size), b"")
        )
        yield from bounded(pieces, path, name)


def bounded(pieces: Iterable[bytes], path: Path, name: str) -> Iterator[bytes]:
    """The same pieces, as long as the file does not expand too far."""
    packed, times, total = path.stat().st_size, _expansion(), 0
    most = max(ROOM, packed * times)
    for piece in pieces:
        total += len(piece)
        if total > most:
            raise DataError(
                f"{name} unpacks to more than {times} times its {packed:,} bytes, more than any text does; if "
                f"this is what you want, set {VARIABLE} to a larger number"
            )
        yield piece


def _expansion() -> int:
    value = os.environ.get(VARIABLE) or str(EXPANSION)
    if not value.isascii() or not value.isdigit() or not 1 <= len(value) <= 9:
        raise ConfigError(
            f"{VARIABLE} must be a whole number, how many times its size a packed file may expand to; "
            f"got {quoted(value)}"
        )
    return int(value)


def _zstd_pieces(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Frame after frame; unlike the library's own reader it notices when the last one is not complete."""
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
