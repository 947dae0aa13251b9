"""Fetching one file: resumable, checked, and never half there under its own name.

What has arrived is kept as `<name>.partial`, and a later call asks the server for the rest (Range). Only a
file of the right size and SHA-256 gets its name. Whatever goes wrong is one line that says what to do.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from seqloom import progress
from seqloom._version import __version__
from seqloom.errors import DataError

TIMEOUT = 30.0  # seconds without a byte

_CHUNK = 1 << 16
_AGAIN = "run the same command again to go on from there"


def download(url: str, target: Path, *, size: int, sha256: str) -> None:
    """Bring a file of known size and hash to `target`."""
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
    """The partial file, for this process alone where the system can do that."""
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
    """Append what is missing."""
    have = file.seek(0, os.SEEK_END)
    if have > size:
        have = file.truncate(0)
    if have == size:
        return
    with (
        _opened(url, have) as answer,
        progress.task(f"downloading {url.rpartition('/')[2]}", size, "bytes") as bar,
    ):
        if have and not _continues(answer, have):
            have = file.truncate(0)
        bar.advance(have)
        for chunk in _chunks(answer, url):
            have += len(chunk)
            if have > size:
                file.truncate(0)
                raise DataError(
                    f"{url} is longer than the expected {size:,} bytes; "
                    "it has changed at its source"
                )
            _write(file, chunk)
            bar.advance(len(chunk))
    if have < size:
        raise DataError(
            f"the connection was cut after {have:,} of {size:,} bytes of {url}; {_AGAIN}"
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
        why = getattr(error, "reason", None) or error
        why = getattr(why, "strerror", None) or str(why) or type(error).__name__
        raise DataError(
            f"cannot reach {urlsplit(url).hostname} ({why}); check the network, or set SEQLOOM_DATA to a "
            "folder with a copy"
        ) from None


def _continues(answer: HTTPResponse, start: int) -> bool:
    """Whether the server sends the rest and not the whole."""
    return answer.status == 206 and answer.headers.get("Content-Range", "").startswith(
        f"bytes {start}-"
    )


def _chunks(answer: HTTPResponse, url: str) -> Iterator[bytes]:
    """What arrives until the end, or until the connection breaks."""
    while True:
        try:
            chunk = answer.read(_CHUNK)
        except (TimeoutError, ConnectionError, HTTPException):
            return  # too few bytes, which is said by the caller
        if not chunk:
            return
        yield chunk


def _write(file: IO[bytes], chunk: bytes) -> None:
    left = memoryview(chunk)
    while left:
        left = left[file.write(left) :]


def _check(file: IO[bytes], partial: Path, url: str, sha256: str) -> None:
    """The content must be what the catalogue says; otherwise nothing of it is kept."""
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
