"""Colours, fonts and sizes of every picture, and how an altair chart becomes a PNG or SVG file.

Hues are those of Okabe and Ito, "Color Universal Design" (2008), without their yellow, which is too
faint on white, and with a darker purple, so that it can be read as text. Their order is ours: with
the first four, readers of any colour vision can tell all pairs apart (a test computes it). Costs in
bits have their own ramp of steps that differ in lightness, so it survives grey printing too.

vl-convert draws; no browser is needed.
"""

from __future__ import annotations

import colorsys
import itertools
import json
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.directories import writing_file
from seqloom.errors import ConfigError, MissingExtra, suggest
from seqloom.forks import needs_threads

HUES = ("#0072B2", "#D55E00", "#B65A91", "#000000", "#009E73", "#E69F00", "#56B4E9")
INK, FAINT, GRID = "#222222", "#5c5c5c", "#e3e3e3"
SANS = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'Liberation Mono', monospace"
WIDTH, HEIGHT = 640, 360  # pixels of a plot in an image; in a page the width is the window's
# Pixels of a plot: the least and the most, and from where on there is room.
NARROW, MIDDLE, WIDEST = 300, 460, 1100
FONT_SIZE = 13
# Above all charts of a picture; the heading of one begins where its plot does.
PICTURE_TITLE: dict[str, Any] = {"fontSize": FONT_SIZE + 4, "offset": 16, "frame": "bounds"}
FEW = 10  # examples of a part whose number says little: its point is hollow
HOLLOW: dict[str, Any] = {"filled": False, "fill": "white", "strokeWidth": 1.5}

BITS = (0.5, 1.0, 2.0, 4.0, 8.0)  # bounds between the steps of the ramp, bits per byte
TOKEN_BITS = (1.0, 3.0, 6.0, 10.0, 14.0)  # the same for words, which cost more
RAMP = ("#ffffff", "#fff1c9", "#fed282", "#fca24d", "#e2632b", "#9c2a1a")
RAMP_INK = (INK, INK, INK, INK, "#ffffff", "#ffffff")
# The same among the 256 colours that nearly every terminal has.
TERMINAL = (231, 230, 222, 215, 166, 124)
TERMINAL_INK = (16, 16, 16, 16, 231, 231)


def with_few(title: str, many: str) -> str:
    """Add to the title of an axis what hollow points are.

    >>> with_few("accuracy", "texts")
    'accuracy; hollow: fewer than 10 texts'
    """
    return f"{title}; hollow: fewer than {FEW} {many}"


def step(bits: float, bounds: Sequence[float] = BITS) -> int:
    """Return which colour of the ramp a cost has.

    >>> [step(b) for b in (0.1, 0.5, 3.0, 99.0)]
    [0, 1, 3, 5]
    """
    return bisect_right(bounds, bits)


def steps_named(bounds: Sequence[float] = BITS) -> list[str]:
    """Return what each colour of the ramp means.

    >>> steps_named()
    ['under 0.5', '0.5 to 1', '1 to 2', '2 to 4', '4 to 8', '8 and more']
    """
    inner = [f"{a:g} to {b:g}" for a, b in itertools.pairwise(bounds)]
    return [f"under {bounds[0]:g}", *inner, f"{bounds[-1]:g} and more"]


def group_colours(groups: Sequence[str]) -> dict[str, str]:
    """Choose a hue for each group, in order of first appearance."""
    return {group: HUES[i % len(HUES)] for i, group in enumerate(dict.fromkeys(groups))}


def member_colours(members: Mapping[str, str]) -> dict[str, str]:
    """Choose a colour for each name (name to group): the hue of its group, later members darker.

    >>> member_colours({"a": "x", "b": "y"}) == {"a": HUES[0], "b": HUES[1]}
    True
    """
    hues = group_colours(list(members.values()))
    colours = {}
    for group, hue in hues.items():
        names = [name for name, its in members.items() if its == group]
        for rank, name in enumerate(names):
            colours[name] = (
                hue if len(names) == 1 else _lightness(hue, 0.55 - 0.35 * rank / (len(names) - 1))
            )
    return colours


def _lightness(colour: str, value: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, _, saturation = colorsys.rgb_to_hls(red, green, blue)
    return "#" + "".join(
        f"{round(255 * c):02x}" for c in colorsys.hls_to_rgb(hue, value, saturation * 0.9)
    )


def config(font: str = SANS) -> dict[str, Any]:
    """Return the Vega-Lite config that every chart gets."""
    return {
        "font": font,
        "background": "white",
        "padding": {"left": 8, "top": 8, "right": 16, "bottom": 8},
        "view": {
            "stroke": None,
            "continuousWidth": WIDTH,
            "continuousHeight": HEIGHT,
            "discreteWidth": WIDTH,
        },
        "axis": {
            "labelFontSize": FONT_SIZE - 1,
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
            "labelColor": INK,
            "titleColor": INK,
            "gridColor": GRID,
            "domainColor": "#8a8a8a",
            "tickColor": "#8a8a8a",
            "titlePadding": 8,
            "labelFlush": False,
        },
        "legend": {
            "labelFontSize": FONT_SIZE - 1,
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
            "orient": "top",
            "labelColor": INK,
            "titleColor": INK,
            "columns": 4,
            "symbolSize": 80,
            "labelLimit": 240,
        },
        "title": {
            "fontSize": FONT_SIZE + 2,
            "color": INK,
            "anchor": "start",
            "frame": "group",
            "fontWeight": "bold",
            "offset": 10,
            "subtitleFontSize": FONT_SIZE - 1,
            "subtitleColor": FAINT,
            "subtitleFontWeight": "normal",
        },
        "text": {"fontSize": FONT_SIZE - 1, "color": INK},
        "point": {"filled": True, "size": 70},
        "line": {"strokeWidth": 2},
    }


# ---- spec

MOST_ROWS = 5000  # altair's own limit; more is not a picture but a file


def table(rows: Iterable[Any]) -> Any:
    """Return rows as the data of a chart: a tuple, as altair copies lists whenever charts are joined."""
    import altair as alt

    return alt.InlineData(values=tuple(rows))


def specification(chart: Any, *, responsive: bool = False) -> dict[str, Any]:
    """Return the chart as plain values; a `responsive` one takes the width of its window."""
    spec = chart.to_dict()
    rows = max((len(values) for values in _datasets(spec)), default=0)
    if rows > MOST_ROWS:
        raise ValueError(
            f"a chart of {rows:,} rows: aggregate to at most {MOST_ROWS:,} before plotting"
        )
    if not {"hconcat", "vconcat", "concat", "facet", "spec"} & spec.keys():
        spec["width"] = "container" if responsive else spec.get("width", WIDTH)
        spec.setdefault("height", HEIGHT)
        spec["autosize"] = (
            {"type": "fit-x", "contains": "padding"} if responsive else {"type": "pad"}
        )
    return spec | {"config": config(SANS if responsive else "sans-serif")}


def _datasets(spec: dict[str, Any]) -> list[list[Any]]:
    values = spec["data"].get("values") if isinstance(spec.get("data"), dict) else None
    inner = [
        part for key in ("layer", "hconcat", "vconcat", "concat") for part in spec.get(key, ())
    ]
    return [
        *spec.get("datasets", {}).values(),
        *([values] if isinstance(values, list) else []),
        *(dataset for part in inner for dataset in _datasets(part)),
    ]


def version() -> str:
    """Return the Vega-Lite version that altair writes for, as vl-convert names it."""
    import altair
    import vl_convert

    schema_version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    versions = vl_convert.get_vegalite_versions()
    return schema_version if schema_version in versions else versions[-1]


def require_charts() -> None:
    """Refuse to draw where the extra is not installed."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "charts need altair and vl-convert, which are not installed: pip install 'seqloom[charts]'"
        ) from None


def vega_lite() -> str:
    """Return the MIME type of what `specification` gives."""
    import altair

    return f"application/vnd.vegalite.{altair.SCHEMA_VERSION.split('.')[0]}+json"


def script_json(value: Any) -> str:
    r"""Return JSON that may stand inside a <script>: nothing in it can end the element.

    >>> script_json(["</script>"])
    '["\\u003c/script>"]'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )


# ---- files

KINDS = ("png", "svg", "html")


def check_target(path: str | Path) -> str:
    """Return the kind of picture that a name asks for; refuse a bad name before the work begins.

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
    """Write the file whole or not at all."""
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


LEVEL = 6  # of zlib: 9 takes five to ten times as long and saves a few percent


def smaller_png(data: bytes) -> bytes:
    """Compress a picture again: vl-convert prefers speed, and its files are several times as
    large.
    """
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
        + _chunk(b"IDAT", zlib.compress(zlib.decompress(body), LEVEL))
        + _chunk(b"IEND", b"")
    )


def indexed_png(indices: np.ndarray, colours: Sequence[str]) -> bytes:
    """Write an image (rows, columns) of whole numbers as PNG, with a colour for each number.

    >>> smaller_png(indexed_png(np.array([[0, 1]], np.uint8), ["#ffffff", "#0072b2"]))[1:4]
    b'PNG'
    """
    rows, columns = indices.shape
    head = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)  # 8 bits, with a palette
    lines = np.zeros((rows, columns + 1), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = indices
    palette = b"".join(bytes.fromhex(colour.removeprefix("#")) for colour in colours)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", head)
        + _chunk(b"PLTE", palette)
        + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )
