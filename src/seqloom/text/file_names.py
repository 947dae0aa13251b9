"""A str is always data; one that looks like a file name is refused, since the name would be read as text.

>>> looks_like_file("missing.txt"), looks_like_file("./notes")
(True, True)
>>> looks_like_file("a.b"), looks_like_file("see notes.txt")
(False, False)
"""

from __future__ import annotations

import os
import re

from seqloom.errors import DataError, quoted

_ENDINGS = (
    "txt",
    "text",
    "csv",
    "tsv",
    "json",
    "jsonl",
    "ndjson",
    "parquet",
    "conll",
    "conllu",
    "md",
    "html",
    "htm",
    "xml",
    "vec",
    "bin",
    "arpa",
    "gz",
    "xz",
    "zst",
    "bz2",
    "zip",
)
_FILE = re.compile(rf"\S+\.(?:{'|'.join(_ENDINGS)})", re.IGNORECASE)
_PATH = re.compile(r"(?:~|\.\.?)?/\S+|[A-Za-z]:\\\S+")  # /data/notes, ./notes, ~/notes, C:\notes
_MAX_PATH_LENGTH = 1024  # characters of a path


def looks_like_file(text: str) -> bool:
    """Return whether a text looks like a file: by its ending, by its beginning, or because it exists."""
    if not 0 < len(text) < _MAX_PATH_LENGTH or "\n" in text:
        return False
    return written_as_file(text) or os.path.exists(text)


def written_as_file(text: str) -> bool:
    """Return whether a text without white space ends like a data file or begins like a path."""
    return len(text) < _MAX_PATH_LENGTH and bool(_FILE.fullmatch(text) or _PATH.fullmatch(text))


def refuse_file(text: str, reader: str = "seqloom.read") -> None:
    """Refuse a str that was meant as a file; `reader`: what reads it."""
    if looks_like_file(text):
        raise DataError(
            f"{quoted(text)} looks like a file name, but a str is taken as the text itself; give "
            f"Path({quoted(text)}) or {reader}({quoted(text)})"
        )


def refuse_existing_file(text: str) -> None:
    """Refuse a single text that names an existing file; any other is text, for example `index.html`."""
    if ("." in text[-9:] or "/" in text) and written_as_file(text) and os.path.isfile(text):
        raise DataError(
            f"{quoted(text)} is the name of a file, but a str is taken as the text itself; give "
            f"what it holds: "
            f"Path({quoted(text)}).read_text()"
        )
