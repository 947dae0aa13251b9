"""The page and its files: one HTML with the first view's table in it, and what `static/` holds."""

from __future__ import annotations

import base64
import hashlib
import json
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
        work = exchange.service.in_thread(lambda: table(comparison(studio.shelf)))
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
    """Return the first view without a script: the answer and the table."""
    measure = found.get("measure") or ""
    rows = "".join(
        f"<tr><th scope=row>{escape(str(row.get('name') or row.get('model')))}</th>"
        f"<td>{_number(row.get(measure))}</td><td>{_interval(row.get('interval'))}</td></tr>"
        for row in found["rungs"]
    )
    answer = found.get("answer") or {}
    sentence = escape(str(answer.get("text") or "")).removesuffix(" To use the best:")
    title = escape(str(found.get("measure_title") or measure.replace("_", " ")))
    if not rows:
        return "<h1>Compare</h1><p>No comparison is here yet.</p>"
    return (
        f"<h1>Compare</h1><p class=answer>{sentence}</p><table class=numbers><thead><tr>"
        f"<th scope=col>model</th><th scope=col>{title}</th><th scope=col>interval</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, (int, float)) else "-"


def _interval(value: Any) -> str:
    numbers = isinstance(value, (list, tuple)) and all(isinstance(one, float) for one in value)
    return " to ".join(f"{one:.3f}" for one in value) if numbers else "-"
