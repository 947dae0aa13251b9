"""Files anywhere: `s3://`, `gs://`, `hdfs://`, `https://`, `memory://` and whatever else fsspec knows.

A `Place` stands where the path of a file could stand. Credentials are the business of fsspec's libraries;
what is shown of an address never has them, nor the query of a signed one, and the words of these libraries,
which might, are not repeated.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from seqloom.errors import DataError, MissingExtra, ModelError

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "http": "http", "https": "http"}

_REMOTE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PATTERN = re.compile(r"[*?\[]")


class Size(NamedTuple):
    """What `stat` says of a place."""

    st_size: int


def is_remote(name: object) -> bool:
    """Return whether this is the address of a file elsewhere.

    >>> is_remote("s3://bucket/a.txt"), is_remote("data/a.txt"), is_remote("file:///a.txt")
    (True, False, False)
    """
    return isinstance(name, Place) or bool(isinstance(name, str) and _REMOTE.match(name))


def shown(url: str) -> str:
    """Return an address without what could be a secret.

    >>> shown("https://me:word@host/a.txt?X-Signature=1")
    'https://host/a.txt'
    """
    if not is_remote(url):
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def place_of(name: str | Path | Place) -> Any:
    """Return the path of a file here, or the place of one elsewhere."""
    return (
        Place(name)
        if isinstance(name, str) and is_remote(name)
        else name
        if isinstance(name, Place)
        else Path(name)
    )


class Place:
    """A file elsewhere, with what is asked of a path."""

    def __init__(self, url: str) -> None:
        self.url = str(url)
        with _reaching(self.url):
            import fsspec

            self.files, self.path = fsspec.core.url_to_fs(self.url)

    def __str__(self) -> str:
        return shown(self.url)

    def __fspath__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(urlsplit(self.url).path).suffix

    def stat(self) -> Size:
        with _reaching(self.url):
            return Size(int(self.files.info(self.path).get("size") or 0))

    def version(self) -> int:
        """Return a number that is another one when the file is."""
        with _reaching(self.url):
            info = self.files.info(self.path)
        known = {
            key: str(info[key])
            for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "created")
            if key in info
        }
        return int.from_bytes(
            hashlib.sha256(json.dumps(known, sort_keys=True).encode()).digest()[:6], "big"
        )

    def is_file(self) -> bool:
        with _reaching(self.url):
            return bool(self.files.isfile(self.path))

    def is_dir(self) -> bool:
        """Return whether it is a directory; a web server has none."""
        with _reaching(self.url):
            return "http" not in self.files.protocol and bool(self.files.isdir(self.path))

    def exists(self) -> bool:
        with _reaching(self.url):
            return bool(self.files.exists(self.path))

    def open(self, mode: str = "rb") -> IO[bytes]:
        with _reaching(self.url):
            opened: IO[bytes] = self.files.open(self.path, mode)
            return opened

    def found(self) -> list[Place]:
        """Return the files of a directory or pattern, sorted, without hidden ones."""
        with _reaching(self.url):
            matched = bool(_PATTERN.search(self.path)) and "http" not in self.files.protocol
            paths = self.files.glob(self.path) if matched else self.files.find(self.path)
            return [
                Place(self.files.unstrip_protocol(path))
                for path in sorted(paths)
                if not re.search(r"(^|/)\.", str(path)) and self.files.isfile(path)
            ]


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    """Turn the failures of many libraries into one line, which names no secret."""
    try:
        yield
    except (DataError, MissingExtra):
        raise
    except ImportError:
        scheme = urlsplit(url).scheme
        extra = EXTRAS.get(scheme)
        hint = (
            f"pip install 'seqloom[{extra}]'" if extra else "install fsspec and its package for it"
        )
        raise MissingExtra(
            f"{shown(url)}: reading {scheme}:// needs another package; {hint}"
        ) from None
    except FileNotFoundError:
        raise DataError(f"no such file: {shown(url)}") from None
    except PermissionError:
        raise DataError(f"{shown(url)} cannot be read: no permission") from None
    except Exception as error:
        raise DataError(
            f"{shown(url)}: cannot be reached ({type(error).__name__}); look at the address and at the "
            "credentials of its library"
        ) from None


def open_bytes(path: Any) -> IO[bytes]:
    """Open a file here or elsewhere for reading."""
    return path.open() if isinstance(path, Place) else open(path, "rb")


@contextmanager
def local_file(target: str) -> Iterator[str]:
    """Yield the path of a file to write: the target, or one here that is sent there in the end."""
    if not is_remote(target):
        yield target
        return
    place = Place(target)
    with tempfile.TemporaryDirectory(prefix="seqloom-") as folder:
        path = os.path.join(folder, place.name)
        yield path
        with _reaching(target):
            place.files.makedirs(os.path.dirname(place.path), exist_ok=True)
            place.files.put_file(path, place.path)


# ---- directories, such as models

LAST = "config.json"  # of a model: sent when all else is there


def fetch_directory(url: str, cache: Path) -> Path:
    """Return a copy of a directory of files here, made anew when one of them is another."""
    place = Place(url)
    files = place.found()
    if not files:
        raise ModelError(f"{shown(url)}: there is no directory with files")
    facts = [[one.url, one.stat().st_size, one.version()] for one in files]
    target = cache / hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".seqloom-", dir=cache) as folder:
        partial = Path(folder, "files")
        for one in files:
            path = partial / os.path.relpath(one.path, place.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            with _reaching(url):
                place.files.get_file(one.path, str(path))
        if not target.is_dir():
            os.replace(partial, target)
    return target


def send_directory(folder: Path, url: str) -> None:
    """Send all files of a directory; the one by which readers know it comes last."""
    place = Place(url)
    files = sorted(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda one: one == folder / LAST
    )
    with _reaching(url):
        for path in files:
            there = f"{place.path.rstrip('/')}/{path.relative_to(folder).as_posix()}"
            place.files.makedirs(os.path.dirname(there), exist_ok=True)
            place.files.put_file(str(path), there)


@contextmanager
def local_directory(target: str) -> Iterator[Path]:
    """Yield a directory to write, which is sent to the target when the block succeeds."""
    folder = Path(tempfile.mkdtemp(prefix="seqloom-"))
    try:
        yield folder / "model"
        send_directory(folder / "model", target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
