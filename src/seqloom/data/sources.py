"""Finding the documents of a corpus: files, patterns, directories, standard input.

`DocumentList` reads them one after the other, any number of times. The first complete reading also
computes hashes and sizes (`data/tables.py`) and finds the files of a directory that are not text; so they
are read for that alone only if it is needed before.
"""

from __future__ import annotations

import atexit
import errno
import glob
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from seqloom import progress
from seqloom.data.catalogue import PREFIX, resolve
from seqloom.data.documents import Document, Pipe, check_encoding
from seqloom.data.rows import table_kind
from seqloom.data.tables import read_content
from seqloom.errors import DataError, EncodingError, quoted, suggest
from seqloom.places import Place, is_remote, place_of
from seqloom.text.coding import to_bytes

_LISTED = 5  # names of files that are reported
_REOPENED = Path("/proc/self/fd")  # open files can be opened again here, each with its own position


class GivenText(str):
    """A text that stands where the name of a file could stand, on the command line."""


class Stretch(str):
    """The path of a file of which some bytes are meant, from the beginning of a line to the end of one."""

    name: str  # as it was given
    start: int
    stop: int | None
    first_line: int
    of_several: bool  # whether other files are read too, so that answers name theirs

    @classmethod
    def of(
        cls,
        path: str,
        name: str,
        start: int = 0,
        stop: int | None = None,
        first_line: int = 1,
        of_several: bool = False,
    ) -> Stretch:
        stretch = cls(path)
        stretch.name, stretch.start, stretch.stop = name, start, stop
        stretch.first_line, stretch.of_several = first_line, of_several
        return stretch


def paths_of(source: object, reader: str) -> list[str | Path]:
    """Return the paths that a reader was given, one or several; refuse what is not a path."""
    if isinstance(source, (str, Path)):
        return [source]
    named = isinstance(source, Mapping) or hasattr(source, "columns")
    paths: list[Any] = list(source) if isinstance(source, Iterable) and not named else [source]
    if wrong := [path for path in paths if not isinstance(path, (str, os.PathLike))]:
        raise DataError(
            f"{reader} reads files, not a {type(wrong[0]).__name__}; fit, evaluate and compare take data "
            "in memory as it is"
        )
    return paths


class Folder:
    """A directory or pattern; its files that are not text are left out and reported, or refused.

    Which of them are text in the encoding is known once all have been read to the end.
    """

    def __init__(self, name: str, files: Sequence[str], encoding: str, strict: bool) -> None:
        self.name, self.files, self.encoding, self.strict = name, files, encoding, strict
        self.binary = 0
        self.misread: dict[str, EncodingError] = {}  # by the names of the files
        self.settled = False  # all have been read

    def leave_out(self, name: str, error: EncodingError) -> None:
        """Skip a file that is not text."""
        if self.strict:
            raise error
        self.misread[name] = error

    def report(self, texts: Sequence[object]) -> None:
        """Report what was left out, once all has been read; refuse if no text is left."""
        self.settled = True
        misread = [file for file in self.files if file in self.misread]
        if not texts and misread:
            raise self.misread[misread[0]]
        if not texts:
            raise DataError(
                f"there is no text file in the directory {self.name}"
                if os.path.isdir(self.name)
                else f"{self.name} matches binary files only; seqloom reads plain text, also .gz, "
                f".xz and .zst"
            )
        report_skipped(self.name, self.binary, misread, self.encoding)


def find_documents(
    source: str | Path,
    encoding: str,
    *,
    tables_only: bool = False,
    strict: bool = False,
    check: bool = True,
    arriving: bool = False,
) -> list[Document]:
    """Find the documents that a path, a pattern or `-` stands for, and check them.

    `tables_only` leaves out the other files of a directory. In a directory or pattern, files that are
    not text are skipped and reported; `strict` refuses them. Without `check` only their first bytes are
    inspected, and files that turn out not to be text are left out while reading (`Folder`). With
    `arriving` a pipe is read once and as its lines come, else it is saved to be read again.
    """
    encoding = check_encoding(encoding)
    if isinstance(source, GivenText):
        return [Document(quoted(source), data=to_bytes(source))]
    if isinstance(source, Stretch):
        whole = Document(source.name, place_of(str(source)), encoding=encoding)
        return [replace(whole, start=source.start, stop=source.stop, first_line=source.first_line)]
    if source == "-":
        through = arriving and _is_pipe(sys.stdin.buffer)
        return [(_arriving if through else _spool)(sys.stdin.buffer, "stdin", encoding)]
    if is_remote(source):
        return _elsewhere(Place(str(source)), encoding, tables_only, strict, check)
    if str(source).startswith(PREFIX):
        source = resolve(str(source))
    path = Path(source).expanduser()
    if path.is_dir():
        return _directory(path, encoding, tables_only, strict, check)
    # a pipe, as in <(command), can be read only once
    if path.exists() and not path.is_file() and arriving and table_kind(path) is None:
        return [_arriving(open(path, "rb"), str(source), encoding)]
    if path.exists() and not path.is_file():
        with open(path, "rb") as file:
            return [_spool(file, str(source), encoding)]
    if path.exists():
        document = Document(str(path), path, encoding=encoding)
        _check_head(document)
        return [document]
    paths = [
        Path(match)
        for match in sorted(glob.glob(str(path), recursive=True))
        if os.path.isfile(match)
    ]
    if not paths:
        siblings = os.listdir(path.parent) if os.access(path.parent, os.R_OK) else []
        raise DataError(f"no such file: {source}{suggest(path.name, siblings)}")
    return _texts(
        str(source), [Document(str(p), p, encoding=encoding) for p in paths], strict, check
    )


def _elsewhere(
    place: Place, encoding: str, tables_only: bool, strict: bool, check: bool
) -> list[Document]:
    """Find a file, or those of a directory or pattern, that fsspec reads."""
    one = place.is_file()
    documents = [
        Document(str(found), found, encoding=encoding)
        for found in ([place] if one else place.found())
    ]
    if packed := [found for found in documents if table_kind(found.name) == "parquet"]:
        raise DataError(f"{packed[0].name}: Parquet is read from files here; copy it first")
    chosen = [found for found in documents if not tables_only or table_kind(found.name)]
    if not chosen:
        raise DataError(f"no such file: {place}")
    if not one:
        return _texts(str(place), chosen, strict, check)
    _check_head(chosen[0])
    return chosen


def _check_head(document: Document) -> None:
    if table_kind(document.name) != "parquet":
        document.check_head()


def _texts(name: str, documents: list[Document], strict: bool, check: bool) -> list[Document]:
    """Return the documents that are text; skip and report the others, or refuse them."""
    folder = Folder(name, [document.name for document in documents], documents[0].encoding, strict)
    texts = []
    total = sum(document.path.stat().st_size for document in documents if document.path)
    with progress.task(f"reading {name}", total, "bytes") if check else nullcontext() as bar:
        for document in documents:
            if not strict and _is_binary(document):
                folder.binary += 1
                continue
            try:
                _check_head(document)
                texts.append(
                    replace(document, folder=folder) if bar is None else _read_once(document, bar)
                )
            except EncodingError as error:
                folder.leave_out(document.name, error)
    if check or not texts:
        folder.report(texts)
    return texts


def report_skipped(source: str, binary: int, misread: Sequence[str], encoding: str) -> None:
    """Report how many files of a directory or pattern are binary, and which are misencoded."""
    if binary:
        progress.say(f"{source}: skipped {binary:,} binary file{'s' * (binary > 1)}")
    if misread:
        names = ", ".join(map(os.path.basename, misread[:_LISTED]))
        more = f", and {len(misread) - _LISTED:,} more" if len(misread) > _LISTED else ""
        progress.say(
            f"{source}: skipped {len(misread):,} file{'s' * (len(misread) > 1)}: not valid "
            f"{'UTF-8' if encoding == 'utf-8' else encoding} ({names}{more})"
        )


def _is_binary(document: Document) -> bool:
    return (
        document.encoding == "utf-8"
        and table_kind(document.name) != "parquet"
        and document.looks_binary()
    )


def _read_once(document: Document, bar: progress.Bar) -> Document:
    """Read a document and return it with its content record; of a table, check only that it is text."""
    kind = table_kind(document.name)
    if kind is None:
        return replace(document, content=read_content(document, bar))
    for chunk in document.chunks() if kind != "parquet" else ():
        bar.advance(len(chunk))
    return document


def _directory(
    path: Path, encoding: str, tables_only: bool, strict: bool, check: bool
) -> list[Document]:
    """Find all text files below a directory, sorted, except hidden ones."""

    def refuse(error: OSError) -> None:
        raise DataError(f"cannot read the directory {error.filename}: {error.strerror}") from None

    if not os.access(path, os.R_OK | os.X_OK):
        raise DataError(f"cannot read the directory {path}: {os.strerror(errno.EACCES)}")
    config = path / "config.json"
    if config.is_file() and (path / "model.safetensors").is_file():
        with config.open("rb") as file:
            if b'"seqloom"' in file.read(100):
                raise DataError(f"{path} is a saved model, not text")
    paths = []
    for folder, folders, files in os.walk(path, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [Path(folder, name) for name in files if not name.startswith(".")]
    documents = [Document(str(p), p, encoding=encoding) for p in sorted(paths) if p.is_file()]
    chosen = (
        [document for document in documents if table_kind(document.name)]
        if tables_only
        else documents
    )
    if others := len(documents) - len(chosen):
        progress.say(
            f"{path}: skipped {others:,} "
            f"file{'s that are not tables' if others > 1 else ' that is not a table'}"
        )
    if not chosen:
        raise DataError(
            f"there is no {'table' if tables_only else 'text file'} in the directory {path}"
        )
    return _texts(str(path), chosen, strict, check)


def _is_pipe(stream: IO[bytes]) -> bool:
    """Return whether a stream is a pipe, socket or terminal: neither a file nor in memory."""
    try:
        return not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):
        return False


def _arriving(stream: IO[bytes], name: str, encoding: str) -> Document:
    """Return a document that is read once, as it comes."""
    document = Document(name, encoding=encoding, pipe=Pipe(stream))
    document.check_head()
    return document


def _spool(source: IO[bytes], name: str, encoding: str) -> Document:
    """Save a stream in a temporary file, so that it can be read again.

    On Linux the file has no name and is opened again through /proc: it vanishes with the last document
    that reads it, or with the process, even a killed one. Elsewhere it has a name until the program ends.
    """
    open_file = None
    if _REOPENED.is_dir():
        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(source, file)
            open_file = _OpenFile(os.dup(file.fileno()))
        path = Path(f"/proc/{os.getpid()}/fd/{open_file.handle}")
    else:
        handle, named = tempfile.mkstemp(prefix="seqloom-")
        path = Path(named)
        atexit.register(path.unlink, missing_ok=True)
        with open(handle, "wb") as file:
            shutil.copyfileobj(source, file)
    document = Document(name, path, encoding=encoding, open_file=open_file)
    document.check_head()
    return document


class _OpenFile:
    """An open file, closed when this object is garbage-collected."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, os.close, handle)
