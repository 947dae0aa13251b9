"""A chart as PNG or SVG, and files that are whole or not there. vl-convert draws; no browser is needed."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from seqloom.charts.spec import require_charts, specification, version
from seqloom.directories import writing_file
from seqloom.errors import ConfigError, suggest
from seqloom.forks import needs_threads

KINDS = ("png", "svg", "html")


def check_target(path: str | Path) -> str:
    """The kind of picture that a name asks for; a bad name is refused before the work begins.

    >>> check_target("costs.svg")
    'svg'
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise ConfigError(
            f"{path}: a chart is written as .png, .svg or .html{suggest(kind, KINDS)}"
        )
    if not Path(path).absolute().parent.is_dir():
        raise ConfigError(f"{path}: there is no directory {Path(path).parent}; make it first")
    require_charts()
    return kind


def write(path: str | Path, data: bytes) -> None:
    """The file whole or not at all."""
    with writing_file(path) as partial:
        partial.write_bytes(data)


def png(chart: Any, *, scale: float = 1.5) -> bytes:
    import vl_convert

    needs_threads("vl-convert")
    return smaller_png(
        vl_convert.vegalite_to_png(specification(chart), vl_version=version(), scale=scale)
    )


def svg(chart: Any) -> str:
    import vl_convert

    needs_threads("vl-convert")
    return vl_convert.vegalite_to_svg(specification(chart), vl_version=version())


def smaller_png(data: bytes) -> bytes:
    """The same picture compressed again: vl-convert prefers speed, and its files are several times as large."""
    head, body, at = b"", b"", 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at : at + 12 + size]
        if kind == b"IDAT":
            body += chunk[8:-4]
        elif kind != b"IEND":
            head += chunk
        at += 12 + size
    return (
        data[:8]
        + head
        + _chunk(b"IDAT", zlib.compress(zlib.decompress(body), 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )
