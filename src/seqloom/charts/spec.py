"""An altair chart as the Vega-Lite that is drawn: our theme, a size, and no more rows than a picture can show."""

from __future__ import annotations

import json
from typing import Any

from seqloom.charts import theme
from seqloom.errors import MissingExtra

MOST_ROWS = 5000  # altair's own limit; more is not a picture but a file


def specification(chart: Any, *, responsive: bool = False) -> dict[str, Any]:
    """The chart as plain values; a `responsive` one takes the width of its window."""
    spec = chart.to_dict()
    rows = max((len(values) for values in _datasets(spec)), default=0)
    if rows > MOST_ROWS:
        raise ValueError(
            f"a chart of {rows:,} rows: aggregate to at most {MOST_ROWS:,} before plotting"
        )
    if not {"hconcat", "vconcat", "concat", "facet", "spec"} & spec.keys():
        spec["width"] = "container" if responsive else spec.get("width", theme.WIDTH)
        spec.setdefault("height", theme.HEIGHT)
        spec["autosize"] = (
            {"type": "fit-x", "contains": "padding"} if responsive else {"type": "pad"}
        )
    return spec | {"config": theme.config(theme.SANS if responsive else "sans-serif")}


def _datasets(spec: dict[str, Any]) -> list[list[Any]]:
    own = spec["data"].get("values") if isinstance(spec.get("data"), dict) else None
    inner = [
        part for key in ("layer", "hconcat", "vconcat", "concat") for part in spec.get(key, ())
    ]
    return [
        *spec.get("datasets", {}).values(),
        *([own] if isinstance(own, list) else []),
        *(dataset for part in inner for dataset in _datasets(part)),
    ]


def version() -> str:
    """The Vega-Lite that altair writes for, as vl-convert names it."""
    import altair
    import vl_convert

    wanted = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    return wanted if wanted in known else known[-1]


def require_charts() -> None:
    """Refuse to draw where the extra is not installed."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "charts need altair and vl-convert, which are not installed: "
            "pip install 'seqloom[charts]'"
        ) from None


def vega_lite() -> str:
    """The MIME type of what `specification` gives."""
    import altair

    return f"application/vnd.vegalite.{altair.SCHEMA_VERSION.split('.')[0]}+json"


def script_json(value: Any) -> str:
    r"""JSON that may stand inside a <script>: nothing in it can end the element.

    >>> script_json(["</script>"])
    '["\\u003c/script>"]'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
