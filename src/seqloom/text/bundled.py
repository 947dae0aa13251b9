"""Tables that come with the package, most of them word lists: TOML files, read when first needed."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def read_tables(name: str) -> dict[str, dict[str, Any]]:
    """Return the tables of a bundled file by their names.

    >>> read_tables("contractions")["whole"]["can't"]
    'cannot'
    """
    import tomllib
    from importlib import resources

    text = resources.files("seqloom.data").joinpath("bundled", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)
