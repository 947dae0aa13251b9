"""The page and its files: one HTML with the first view's table in it, and what `static/` holds."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.errors import quoted
from seqloom.serving.answering import Exchange, Handler
from seqloom.serving.fields import Refused
from seqloom.studio.starting import comparison

if TYPE_CHECKING:
    from seqloom.studio.routes import Studio

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
VENDOR = "/studio/static/vendor"
IMPORTS = json.dumps(
    {
        "imports": {
            "preact": f"{VENDOR}/preact.mjs",
            "preact/hooks": f"{VENDOR}/hooks.mjs",
            "htm": f"{VENDOR}/htm.mjs",
        }
    }
)
HASH = base64.b64encode(hashlib.sha256(IMPORTS.encode()).digest()).decode()
HEADERS = {
    "content-security-policy": f"default-src 'none'; script-src 'self' 'sha256-{HASH}'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>seqloom studio</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/studio/static/style.css">
<script type="importmap">{imports}</script>
<script type="module" src="/studio/static/main.js"></script>
</head>
<body>
<div id="app">
<header class="top"><a class="brand" href="#compare">seqloom studio</a><nav></nav></header>
<main>{body}</main>
</div>
</body>
</html>
"""


def index(studio: Studio) -> Handler:
    """Return what answers the page."""

    async def answer(exchange: Exchange) -> None:
        work = exchange.service.in_short_thread(lambda: table(comparison(studio.shelf)))
        body = await exchange.until(work)
        data = PAGE.format(imports=IMPORTS, body=body).encode("utf-8", "replace")
        await _send(exchange, data, "text/html; charset=utf-8")

    return answer


async def static(exchange: Exchange) -> None:
    """Answer a file of the page."""
    path = exchange.scope["path_params"]["path"]
    files = _files()
    if path not in files:
        raise Refused(f"the page has no file {quoted(path)}", status=404)
    await _send(exchange, files[path].read_bytes(), KINDS[files[path].suffix])


@cache
def _files() -> dict[str, Path]:
    """Return the files of the page by name; nothing else is ever opened."""
    return {
        path.relative_to(STATIC).as_posix(): path
        for path in STATIC.rglob("*")
        if path.is_file() and path.suffix in KINDS
    }


async def _send(exchange: Exchange, data: bytes, kind: str) -> None:
    """Send a file, or only that the browser has it already."""
    tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
    headers = HEADERS | {"etag": tag, "cache-control": "no-cache"}
    if exchange.header("if-none-match") == tag:
        await exchange.start(304, kind, headers)
        await exchange.send({"type": "http.response.body", "body": b""})
        return
    await exchange.answer(200, data, kind, headers)


def table(found: dict[str, Any]) -> str:
    """Return the first view without a script: the answer, the held-out lines and the table (as
    `static/parts/rungs.js` draws it).
    """
    rows, measure = _ordered(found), found.get("measure") or ""
    if not rows:
        return "<h1>Compare</h1><p>No comparison is here yet.</p>"
    answer = found.get("answer") or {}
    sentence = escape(str(answer.get("text") or "")).removesuffix(" To use the best:")
    title = escape(str(found.get("measure_title") or measure.replace("_", " ")))
    most = max([_numbers([row.get(measure)], row.get("interval")) for row in rows] + [1e-9])
    body = "".join(_row(row, found, measure, most) for row in rows)
    text = escape(found["lines"]) if found.get("is_text") else ""
    return (
        f"<div class=headed><h1>Compare</h1></div><p class=answer>{sentence}</p><div class=hero>"
        f"<section><div class=controls></div><div class=coloured>{text}</div></section>"
        f"<section><table class=rungs><thead><tr><th scope=col>model</th><th scope=col></th>"
        f"<th scope=col>{title}</th><th scope=col class=interval>95%</th></tr></thead><tbody>{body}</tbody>"
        f"</table></section></div>"
    )


def _ordered(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rungs from the worst to the best."""
    measure, sign = found.get("measure") or "", 1 if found.get("lower_is_better") is False else -1

    def value(row: dict[str, Any]) -> float:
        return sign * row[measure] if isinstance(row.get(measure), (int, float)) else -math.inf

    return sorted(found["rungs"], key=value)


def _row(row: dict[str, Any], found: dict[str, Any], measure: str, most: float) -> str:
    name, form = str(row.get("name") or row.get("model")), found.get("measure_form") or ".3f"
    value, ends = row.get(measure), row.get("interval")
    known = [one for one in ends if isinstance(one, float)] if isinstance(ends, list) else []
    low, high = [100 * one / most for one in known] if len(known) == 2 else (0.0, 0.0)
    span = f"<rect class=span x={low:.2f} y=3 width={max(0.6, high - low):.2f} height=4 />"
    width = 100 * _numbers([value], None) / most
    interval = " to ".join(format(one, form) for one in known) if known else "-"
    mark = "<span class=mark>★</span>" if name == found.get("best") else ""
    return (
        f"<tr><th scope=row>{escape(name)}{mark}</th><td><svg class=bar viewBox='0 0 100 10' "
        f"preserveAspectRatio=none aria-hidden=true><rect class=track width=100 height=10 />"
        f"<rect class=fill width={width:.2f} height=10 />{span if known else ''}</svg></td>"
        f"<td>{format(value, form) if isinstance(value, (int, float)) else '-'}</td>"
        f"<td class=interval>{interval}</td></tr>"
    )


def _numbers(values: list[Any], more: Any) -> float:
    """Return the largest of those that are numbers; zero where none is."""
    every = [*values, *(more if isinstance(more, (list, tuple)) else ())]
    return max([0.0, *(one for one in every if isinstance(one, (int, float)))])
