"""Datasets by name: `data:ptb/train` wherever text is read.

A file is looked for below $SEQLOOM_DATA, then in the user's cache; what has a public address is downloaded
there and checked. The list itself is `bundled/catalogue.toml`. Tiny Shakespeare comes with the package.

    >>> sorted(entries())[:3]
    ['conll2003', 'dates', 'multi30k']
    >>> resolve("tinyshakespeare").stat().st_size
    1115394
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from seqloom import progress
from seqloom.errors import DataError, suggest, suggest_known
from seqloom.paths import cache_directory
from seqloom.text.bundled import read_tables

PREFIX = "data:"

_BUNDLED = {"tinyshakespeare": "tinyshakespeare.txt"}


class File(NamedTuple):
    part: str
    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """A dataset: what it is, where it comes from, its files; the first one is meant when none is named."""

    name: str
    about: str
    licence: str
    files: tuple[File, ...]
    url: str | None = None
    source: str = ""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def file(self, part: str) -> File:
        """The file of a part; the first one for an empty name."""
        parts = {file.part: file for file in self.files}
        if part and part not in parts:
            raise DataError(
                f"the dataset {self.name!r} has no part {part!r}{suggest(part, parts) or '.'} "
                f"Its parts are {', '.join(parts)}"
            )
        return parts[part] if part else self.files[0]


@cache
def entries() -> dict[str, Entry]:
    """All datasets by name."""
    return {
        name: Entry(name, **values | {"files": tuple(File(**file) for file in values["files"])})
        for name, values in read_tables("catalogue").items()
    }


def split_name(name: str) -> tuple[Entry, str]:
    """The entry and the part, perhaps empty, of a name such as `ptb/train`; `data:` before it is allowed."""
    dataset, _, part = name.removeprefix(PREFIX).partition("/")
    known = entries()
    if dataset not in known:
        raise DataError(f"unknown dataset {dataset!r}{suggest_known(dataset, known)}")
    known[dataset].file(part)
    return known[dataset], part


def is_name(text: str) -> bool:
    """Whether a text is `data:` and the name of a dataset."""
    return text.startswith(PREFIX) and text.removeprefix(PREFIX).partition("/")[0] in entries()


def full_name(name: str) -> str:
    """The name with its part: `ptb/train` for `data:ptb`."""
    entry, part = split_name(name)
    return f"{entry.name}/{entry.file(part).part}" if len(entry.files) > 1 else entry.name


def locate(entry: Entry, file: File) -> Path | None:
    """Where a file is on this machine, if it is."""
    roots = [Path(root) for root in (os.environ.get("SEQLOOM_DATA"),) if root] + [
        cache_directory() / "data"
    ]
    places = [root / entry.name / file.path for root in roots]
    if entry.name in _BUNDLED:
        places.append(Path(str(resources.files("seqloom.data"))) / "bundled" / _BUNDLED[entry.name])
    return next((place for place in places if place.is_file()), None)


def get(name: str) -> list[Path]:
    """The files of a dataset, or of the part that is named; what is missing is downloaded."""
    entry, part = split_name(name)
    return [_fetched(entry, file) for file in ([entry.file(part)] if part else entry.files)]


def resolve(name: str) -> Path:
    """The one file that a name stands for, downloaded if need be; without a part it is the first."""
    entry, part = split_name(name)
    if not part and len(entry.files) > 1:
        progress.say(
            f"{entry.name}: reading {entry.files[0].part!r}; its parts are "
            f"{', '.join(file.part for file in entry.files)}"
        )
    return _fetched(entry, entry.file(part))


def _fetched(entry: Entry, file: File) -> Path:
    path = locate(entry, file)
    if path is not None:
        return path
    if entry.url is None:
        raise missing(entry)
    from seqloom.data.download import download

    target = cache_directory() / "data" / entry.name / file.path
    download(entry.url + file.path, target, size=file.size, sha256=file.sha256)
    return target


def missing(entry: Entry) -> DataError:
    """What to do about a dataset that is not on this machine."""
    if entry.url is not None:
        return DataError(
            f"the dataset {entry.name!r} is not on this machine; run: seqloom data get {entry.name}"
        )
    return DataError(
        f"the dataset {entry.name!r} is not on this machine and cannot be downloaded "
        f"({entry.licence}); take it from {entry.source}, and set SEQLOOM_DATA to a folder that holds "
        f"{entry.name}/{entry.files[0].path}"
    )
