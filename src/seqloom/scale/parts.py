"""Many files cut into parts that workers answer: in order, each row once.

A text file is cut after lines, where a command would begin another batch anyway, so that a network sees the
same batches as in one process. Where these cuts are is counted first, by the workers. A table, a packed file
or one in another encoding is one part.
"""

from __future__ import annotations

import os
import shutil
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from seqloom.data.pieces import COMPRESSED
from seqloom.data.rows import table_kind
from seqloom.data.sources import Stretch, find_documents
from seqloom.directories import writing_file
from seqloom.errors import ConfigError, DataError
from seqloom.places import open_bytes, place_of
from seqloom.scale.cluster import Cluster
from seqloom.scale.work import Stamp, Task

LINES = "lines"  # the file of answers in the directory of a part

_CHUNK = 1 << 20  # bytes whose lines are counted together
_COUNTED = 1 << 26  # bytes that one task counts
_PARTS_A_WORKER = 4  # so that one that is slower, or lost, costs little
_LARGEST = 1 << 27  # bytes of a part, if its rows allow it
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Part:
    """Stretches of files that are answered one after the other by one worker."""

    pieces: list[list[Any]]  # what `Stretch.of` takes
    stamps: list[dict[str, Any]]
    before: int | None  # rows before it; None: not known
    label: str
    size: int  # bytes

    def arguments(self) -> dict[str, Any]:
        """Return it as plain values, for `opened`."""
        return {"pieces": self.pieces, "stamps": self.stamps, "before": self.before}


def opened(part: dict[str, Any]) -> tuple[Stretch, ...]:
    """Return the stretches of a part; refuse a file that is not what it was when the part was made."""
    check(part)
    return tuple(Stretch.of(*piece) for piece in part["pieces"])


def check(part: dict[str, Any]) -> None:
    """Refuse a part whose files are missing here, or have changed."""
    for stamp in part["stamps"]:
        Stamp(**stamp).check()


@dataclass(frozen=True)
class _File:
    name: str  # as messages and answers have it
    stamp: Stamp
    by_lines: bool  # whether it may be cut
    mark: int = 0  # bytes of its byte-order mark

    @property
    def size(self) -> int:
        return self.stamp.size - self.mark


def plan(
    cluster: Cluster,
    work: Path,
    paths: Sequence[str],
    *,
    encoding: str = "utf-8",
    strict: bool = False,
    tables_only: bool = False,
    by_lines: bool = True,
    rows: int = 1,
) -> list[Part]:
    """Cut files, directories and patterns into parts; those of text after a multiple of `rows` lines."""
    files = _files(paths, encoding, strict, tables_only, by_lines)
    several, parts = len(files) > 1, list[Part]()
    if not all(file.by_lines for file in files):
        return [_whole(file, several) for file in files]
    ends = _line_ends(cluster, work, files)
    total = sum(file.size for file in files)
    counts = [end.rows for end in ends]
    whole = sum(counts)
    if not whole:
        raise DataError(f"{files[0].name} is empty; give a file with some text")
    size = min(max(total // (_PARTS_A_WORKER * cluster.size()), 1), _LARGEST)
    step = max(round(size * whole / total / rows), 1) * rows
    firsts = np.concatenate([[0], np.cumsum(counts)]).tolist()  # of the files, in all rows
    for low in range(0, whole, step):
        high = min(low + step, whole)
        pieces, stamps, n_bytes = [], [], 0
        for file, end, first, n in zip(files, ends, firsts, counts):
            a, b = max(low - first, 0), min(high - first, n)
            if a >= b:
                continue
            start, stop = end.after(a), end.after(b)
            pieces.append([file.stamp.path, file.name, start, stop, a + 1, several])
            stamps.append(asdict(file.stamp))
            n_bytes += stop - start
        where = f"{pieces[0][1]} from line {pieces[0][4]:,}"
        parts.append(Part(pieces, stamps, low, where, n_bytes))
    return parts


def _whole(file: _File, several: bool) -> Part:
    piece = [file.stamp.path, file.name, 0, None, 1, several]
    return Part([piece], [asdict(file.stamp)], None if several else 0, file.name, file.stamp.size)


def _files(
    paths: Sequence[str], encoding: str, strict: bool, tables_only: bool, by_lines: bool
) -> list[_File]:
    if not paths or "-" in paths:
        raise ConfigError("a cluster reads files that all workers can open; name some instead of -")
    documents = [
        document
        for path in paths
        for document in find_documents(
            path, encoding, tables_only=tables_only, strict=strict, check=False
        )
    ]
    files = []
    for one in documents:
        if one.path is None or one.open_file is not None:
            raise ConfigError(f"a cluster reads files; {one.name} is none")
        plain = one.encoding == "utf-8" and one.path.suffix not in COMPRESSED
        lines = by_lines and plain and table_kind(one.name) is None
        mark = len(_MARK) if plain and one.head(len(_MARK)) == _MARK else 0
        files.append(_File(one.name, Stamp.of(one.path), lines, mark))
    return files


# ---- lines


class _LineEnds:
    """How many lines end in each chunk of a file."""

    def __init__(self, file: _File, newlines: list[int], closed: bool) -> None:
        self.file = file
        self.cumulated = np.cumsum(newlines).tolist()
        lines = self.cumulated[-1] if newlines else 0
        self.rows = lines + (not closed and file.size > 0)

    def after(self, line: int) -> int:
        """Return the offset after so many lines."""
        if line == 0:
            return 0
        if line == self.rows:
            return self.file.size
        chunk = bisect_left(self.cumulated, line)
        before = self.cumulated[chunk - 1] if chunk else 0
        with open_bytes(place_of(self.file.stamp.path)) as file:
            file.seek(self.file.mark + chunk * _CHUNK)
            data = np.frombuffer(file.read(_CHUNK), np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        if line - before > len(ends):
            self.file.stamp.check()
        return chunk * _CHUNK + int(ends[line - before - 1]) + 1


def _line_ends(cluster: Cluster, work: Path, files: list[_File]) -> list[_LineEnds]:
    """Count the lines of all files."""
    tasks, owners = [], []
    for number, file in enumerate(files):
        for start in range(0, file.size, _COUNTED):
            stop = min(start + _COUNTED, file.size)
            arguments = {
                "stamp": asdict(file.stamp),
                "start": start + file.mark,
                "stop": stop + file.mark,
            }
            tasks.append(
                Task("seqloom.scale.parts:count_lines", arguments, file.name, stop - start)
            )
            owners.append(number)
    newlines: list[list[int]] = [[] for _ in files]
    closed = [True] * len(files)
    for number, found in zip(owners, cluster.results(tasks, work, "counting lines", "bytes")):
        newlines[number] += found["newlines"]
        closed[number] = found["closed"]
    return [_LineEnds(*each) for each in zip(files, newlines, closed)]


def count_lines(folder: Path, stamp: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Count the newlines in each chunk of these bytes; say whether the last byte is one."""
    Stamp(**stamp).check()
    newlines, last = [], b""
    with open_bytes(place_of(stamp["path"])) as file:
        file.seek(start)
        for at in range(start, stop, _CHUNK):
            last = file.read(min(_CHUNK, stop - at))
            newlines.append(int(np.count_nonzero(np.frombuffer(last, np.uint8) == ord("\n"))))
    return {"newlines": newlines, "closed": last.endswith(b"\n")}


# ---- answers


def answer(
    cluster: Cluster,
    work: Path,
    function: str,
    parts: Sequence[Part],
    common: dict[str, Any],
    label: str,
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Let workers answer all parts by a function of a command; yield of each, in order, the directory with
    its answers and what the function returned.
    """
    tasks = [
        Task(function, {"part": part.arguments(), **common}, part.label, max(part.size, 1))
        for part in parts
    ]
    for task, values in zip(tasks, cluster.results(tasks, work, label, "bytes")):
        yield work / task.name, values


def write_lines(folder: Path, lines: Iterator[str]) -> int:
    """Write what a worker answers; return how many lines it was given."""
    count = 0
    with open(folder / LINES, "w", encoding="utf-8", errors="replace", newline="") as file:
        for line in lines:
            file.write(line)
            count += 1
    return count


def append(folder: Path, target: IO[bytes]) -> None:
    """Add the answers of a part to a file."""
    with open(folder / LINES, "rb") as file:
        shutil.copyfileobj(file, target, 1 << 20)


def print_all(answered: Iterator[tuple[Path, dict[str, Any]]]) -> None:
    """Write the answers of all parts to standard output as soon as all before them are there."""
    for folder, _ in answered:
        with open(folder / LINES, encoding="utf-8") as file:
            shutil.copyfileobj(file, sys.stdout, 1 << 20)
        sys.stdout.flush()


def write_all(answered: Iterator[tuple[Path, dict[str, Any]]], target: str) -> None:
    """Write the answers of all parts to one file, which is there as a whole or not at all."""
    with writing_file(target) as partial, partial.open("wb") as file:
        for folder, _ in answered:
            append(folder, file)


def check_output(target: str, inputs: Sequence[str]) -> None:
    """Refuse, before the work, a file that could not be written, or that is read."""
    path = Path(target)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"{target} is a directory, or lies in none; name a file")
    if os.path.realpath(path) in map(os.path.realpath, inputs):
        raise ConfigError(f"{target} is what is read; name another file for the answers")
