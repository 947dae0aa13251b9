"""Answers as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def encode(values: Any) -> bytes:
    """Return values as JSON, where what is no number there is null; bytes are JSON already."""
    if isinstance(values, bytes):
        return values
    try:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(values), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def encode_long(values: Any) -> bytes:
    """Do the same in a thread, piece by piece: json writes without letting other threads run."""
    return b"".join(_pieces(values))


def _pieces(value: Any) -> Iterator[bytes]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(one, (dict, list)) for one in inner):
        yield encode(value)
        return
    is_object = isinstance(value, dict)
    yield b"{" if is_object else b"["
    for at, one in enumerate(value):
        yield b", " * (at > 0) + (encode(one) + b": " if is_object else b"")
        yield from _pieces(value[one] if is_object else one)
    yield b"}" if is_object else b"]"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not -1e999 < value < 1e999 else value
