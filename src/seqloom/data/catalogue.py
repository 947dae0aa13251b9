"""Datasets by name: `data:ptb/train` wherever text is read.

A file is searched below $SEQLOOM_DATA, then in the user's cache; one with a public address is downloaded
to the cache and checked. The list is `bundled/catalogue.toml`. Tiny Shakespeare comes with the package.

    >>> sorted(entries())[:3]
    ['conll2003', 'dates', 'multi30k']
    >>> resolve("tinyshakespeare").stat().st_size
    1115394
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException, HTTPResponse
from importlib import resources
from pathlib import Path
from typing import IO, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from seqloom import progress
from seqloom._version import __version__
from seqloom.directories import cache_directory
from seqloom.errors import DataError, suggest, suggest_known
from seqloom.text.bundled import read_tables

TIMEOUT = 30.0  # seconds without a byte

_CHUNK = 1 << 16
_AGAIN = "run the same command again to go on from there"


def download(url: str, target: Path, *, size: int, sha256: str) -> None:
    """Download a file of known size and hash to `target`, resuming an interrupted download.

    The bytes received so far are in `<name>.partial`; a later call requests the remaining ones (Range).
    Only a file of the right size and SHA-256 gets its final name.
    """
    partial = target.with_name(target.name + ".partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive(partial) as file:
            if not target.exists():
                _fill(file, url, size)
                _check(file, partial, url, sha256)
                os.replace(partial, target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DataError(
                f"disk full while downloading {url} to {partial}; make room, then {_AGAIN}"
            ) from None
        raise DataError(
            f"cannot write {error.filename or partial}: {error.strerror}; set SEQLOOM_CACHE to another "
            "directory"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            if partial.stat().st_size == 0:
                partial.unlink()


@contextmanager
def _exclusive(partial: Path) -> Iterator[IO[bytes]]:
    """Open the partial file, for this process alone where the system supports that."""
    with open(partial, "a+b", buffering=0) as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # pragma: no cover
            pass
        except BlockingIOError:
            name = partial.name.removesuffix(".partial")
            raise DataError(f"another process is downloading {name}; wait for it") from None
        yield file


def _fill(file: IO[bytes], url: str, size: int) -> None:
    """Append the bytes that are missing."""
    received = file.seek(0, os.SEEK_END)
    if received > size:
        received = file.truncate(0)
    if received == size:
        return
    with (
        _opened(url, received) as response,
        progress.task(f"downloading {url.rpartition('/')[2]}", size, "bytes") as bar,
    ):
        if received and not _continues(response, received):
            received = file.truncate(0)
        bar.advance(received)
        for chunk in _chunks(response, url):
            received += len(chunk)
            if received > size:
                file.truncate(0)
                raise DataError(
                    f"{url} is longer than the expected {size:,} bytes; "
                    "it has changed at its source"
                )
            _write(file, chunk)
            bar.advance(len(chunk))
    if received < size:
        raise DataError(
            f"the connection was cut after {received:,} of {size:,} bytes of {url}; {_AGAIN}"
        )


def _opened(url: str, start: int) -> HTTPResponse:
    headers = {"User-Agent": f"seqloom/{__version__}"} | (
        {"Range": f"bytes={start}-"} if start else {}
    )
    try:
        return urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:
            return _opened(url, 0)
        if error.code in (404, 410):
            raise DataError(
                f"{url} no longer exists ({error.code}); set SEQLOOM_DATA to a folder with a copy"
            ) from None
        raise DataError(
            f"{url}: the server answers {error.code} {error.reason}; try again later"
        ) from None
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        reason = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
        raise DataError(
            f"cannot reach {urlsplit(url).hostname} ({reason}); check the network, or set SEQLOOM_DATA to a "
            "folder with a copy"
        ) from None


def _continues(response: HTTPResponse, start: int) -> bool:
    """Return whether the server sends the remaining bytes rather than the complete file."""
    return response.status == 206 and response.headers.get("Content-Range", "").startswith(
        f"bytes {start}-"
    )


def _chunks(response: HTTPResponse, url: str) -> Iterator[bytes]:
    """Yield what arrives until the end, or until the connection breaks."""
    while True:
        try:
            chunk = response.read(_CHUNK)
        except (TimeoutError, ConnectionError, HTTPException):
            return  # the caller reports that bytes are missing
        if not chunk:
            return
        yield chunk


def _write(file: IO[bytes], chunk: bytes) -> None:
    remaining = memoryview(chunk)
    while remaining:
        remaining = remaining[file.write(remaining) :]


def _check(file: IO[bytes], partial: Path, url: str, sha256: str) -> None:
    """Check that the content is what the catalogue says; otherwise keep none of it."""
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    if digest.hexdigest() != sha256:
        file.truncate(0)
        raise DataError(
            f"wrong checksum of {url}: {digest.hexdigest()[:16]}..., not {sha256[:16]}...; "
            "the download was discarded; try again, or set SEQLOOM_DATA to a folder with a copy"
        )


# ---- catalogue

PREFIX = "data:"

_BUNDLED = {"tinyshakespeare": "tinyshakespeare.txt"}


class File(NamedTuple):
    part: str
    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """A dataset: what it is, where it comes from, and its files, of which the first is the default."""

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
        """Return the file of a part; the first one for an empty name."""
        parts = {file.part: file for file in self.files}
        if part and part not in parts:
            raise DataError(
                f"the dataset {self.name!r} has no part {part!r}{suggest(part, parts) or '.'} "
                f"Its parts are {', '.join(parts)}"
            )
        return parts[part] if part else self.files[0]


@cache
def entries() -> dict[str, Entry]:
    """Return all datasets by name."""
    return {
        name: Entry(name, **values | {"files": tuple(File(**file) for file in values["files"])})
        for name, values in read_tables("catalogue").items()
    }


def split_name(name: str) -> tuple[Entry, str]:
    """Split a name such as `ptb/train` into the entry and the part, perhaps empty; `data:` before
    it is allowed.
    """
    dataset, _, part = name.removeprefix(PREFIX).partition("/")
    datasets = entries()
    if dataset not in datasets:
        raise DataError(f"unknown dataset {dataset!r}{suggest_known(dataset, datasets)}")
    datasets[dataset].file(part)
    return datasets[dataset], part


def is_name(text: str) -> bool:
    """Return whether a text is `data:` and the name of a dataset."""
    return text.startswith(PREFIX) and text.removeprefix(PREFIX).partition("/")[0] in entries()


def full_name(name: str) -> str:
    """Return the name with its part: `ptb/train` for `data:ptb`."""
    entry, part = split_name(name)
    return f"{entry.name}/{entry.file(part).part}" if len(entry.files) > 1 else entry.name


def locate(entry: Entry, file: File) -> Path | None:
    """Find a file on this machine; return None if it is missing."""
    roots = [Path(root) for root in (os.environ.get("SEQLOOM_DATA"),) if root] + [
        cache_directory() / "data"
    ]
    paths = [root / entry.name / file.path for root in roots]
    if entry.name in _BUNDLED:
        paths.append(Path(str(resources.files("seqloom.data"))) / "bundled" / _BUNDLED[entry.name])
    return next((path for path in paths if path.is_file()), None)


def get(name: str) -> list[Path]:
    """Return the files of a dataset, or of the named part; download those that are missing."""
    entry, part = split_name(name)
    return [_fetched(entry, file) for file in ([entry.file(part)] if part else entry.files)]


def resolve(name: str) -> Path:
    """Return the file that a name stands for, downloaded if need be; without a part, the first one."""
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

    target = cache_directory() / "data" / entry.name / file.path
    download(entry.url + file.path, target, size=file.size, sha256=file.sha256)
    return target


def missing(entry: Entry) -> DataError:
    """Return the error that says what to do about a dataset that is not on this machine."""
    if entry.url is not None:
        return DataError(
            f"the dataset {entry.name!r} is not on this machine; run: seqloom data get {entry.name}"
        )
    return DataError(
        f"the dataset {entry.name!r} is not on this machine and cannot be downloaded "
        f"({entry.licence}); take it from {entry.source}, and set SEQLOOM_DATA to a folder that holds "
        f"{entry.name}/{entry.files[0].path}"
    )
