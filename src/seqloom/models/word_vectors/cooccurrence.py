"""Co-occurrence counts of words, out of core: section 3 of Pennington, Socher and Manning 2014.

Two words at distance d count 1/d; windows do not cross the ends of units, and words that are not in
the list leave no gap, as in the authors' program. Counts are integer multiples of 1/lcm(1..window),
so they are exact and the same for any number of threads and any memory. A text that does not fit
into memory is counted in stretches; their sorted runs go to disk and are added up.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Literal

import numpy as np

from seqloom import progress
from seqloom.errors import SeqloomError
from seqloom.kernels.parallel import parallel_map

# The widest window with an lcm (2 ** 28) that leaves room for billions of neighbours in 64 bits.
MAX_EXACT_WINDOW = 22
ROUGH = 1 << 30  # for wider windows: 1/d is rounded to multiples of 1 / ROUGH
CELLS = 1 << 20  # of one task at most, unless a row has more
POSITIONS = 1 << 19  # that one task reads at most, unless a row has more
BYTES_PER_TOKEN = 24  # bytes of memory while a stretch of text is counted
LONGEST_STRETCH = 1 << 31  # tokens; positions in it have 32 bits

Weighting = Literal["distance", "equal"]
# Returns lengths of rows, columns, totals.
Job = Callable[["_Scratch"], tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Cells:
    """A sparse matrix by rows; the upper triangle of a symmetric one."""

    offsets: np.ndarray  # int64 (V + 1,)
    columns: np.ndarray  # uint32 (n,), ascending in each row; may be a mapped file
    values: np.ndarray  # float32 (n,)
    symmetric: bool

    @property
    def count(self) -> int:
        """Return the number of cells of the whole matrix."""
        if not self.symmetric:
            return len(self.columns)
        rows = np.flatnonzero(np.diff(self.offsets))
        on_diagonal = int((self.columns[self.offsets[rows]] == rows).sum())
        return 2 * len(self.columns) - on_diagonal


def count_cells(
    ids: np.ndarray,
    vocab_size: int,
    *,
    window: int,
    symmetric: bool = True,
    weighting: Weighting = "distance",
    memory: int | None = None,
) -> Cells:
    """Count cells (w, c) in a text of word indices with END and GONE; if not symmetric, c is to the
    right of w.

    `memory`: bytes; if more are needed, runs and the result are temporary files.
    """
    weights, scale = _weights(window, weighting)
    step = (
        LONGEST_STRETCH
        if memory is None
        else min(max(memory // (2 * BYTES_PER_TOKEN), 1024), LONGEST_STRETCH)
    )
    stretches = [(low, min(low + step, len(ids))) for low in range(0, max(len(ids), 1), step)]
    scratch = _Pool(vocab_size)
    with progress.task("counting neighbours", len(ids), "words") as bar:

        def run(low: int, high: int, result: _Run) -> _Run:
            for done, cell_rows in _run_tasks(
                _stretch_tasks(ids, low, high, vocab_size, weights, symmetric), scratch
            ):
                result.add(*cell_rows)
                bar.advance(done)
            return result

        limit = None if memory is None else memory // 4
        if len(stretches) == 1:
            return run(*stretches[0], _Run(limit, scale)).cells(symmetric)
        run_limit = 0 if limit is None else limit // len(stretches)
        runs = [run(low, high, _Run(run_limit)).finish() for low, high in stretches]
    merged = _Run(limit, scale)
    with progress.task(
        "adding up", int(sum(offsets[-1] for offsets, _, _ in runs)), "cells"
    ) as bar:
        for done, cell_rows in _run_tasks(_merging_tasks(runs), scratch):
            merged.add(*cell_rows)
            bar.advance(done)
    return merged.cells(symmetric)


def _weights(window: int, weighting: Weighting) -> tuple[np.ndarray, int]:
    """Return the weight of a neighbour at each distance, as integers, and the scale that they are
    divided by.
    """
    if weighting == "equal":
        return np.ones(window, np.int64), 1
    scale = math.lcm(*range(1, window + 1)) if window <= MAX_EXACT_WINDOW else ROUGH
    return np.array([round(scale / d) for d in range(1, window + 1)], np.int64), scale


def _stretch_tasks(
    ids: np.ndarray, low: int, high: int, vocab_size: int, weights: np.ndarray, symmetric: bool
) -> Iterator[tuple[int, Job]]:
    """Yield tasks that count the rows of a stretch of text, some rows each."""
    from seqloom.kernels.glove import (
        END,
        compact,
        count_rows,
        reach,
        sort_positions,
        word_counts,
    )

    begin, stop = reach(ids, low, high, len(weights))
    text = np.empty(stop - begin + 2, np.uint32)
    text[0] = END
    first = compact(ids, begin, low, text, 1)
    last = compact(ids, low, high, text, first)
    end = compact(ids, high, stop, text, last)
    text[end] = END
    text = text[: end + 1]
    counts = np.zeros(vocab_size, np.int64)
    word_counts(text, first, last, counts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    positions = np.empty(int(starts[-1]), np.uint32)
    sort_positions(text, first, last, starts[:-1].copy(), positions)
    max_cells = np.minimum(
        counts * (len(weights) * (1 + symmetric)), vocab_size - np.arange(vocab_size) * symmetric
    )

    def count(rows: tuple[int, int]) -> Job:
        def task(s: _Scratch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            lengths = np.empty(rows[1] - rows[0], np.int64)
            n = count_rows(
                text, positions, starts, *rows, weights, symmetric, *s.sums, lengths, *s.room
            )
            return lengths, s.room[0][:n].copy(), s.room[1][:n].copy()

        return task

    share = (high - low) / max(int(starts[-1]), 1)
    for rows in _rows_of_tasks(max_cells, counts):
        yield int((starts[rows[1]] - starts[rows[0]]) * share), count(rows)


def _merging_tasks(
    runs: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> Iterator[tuple[int, Job]]:
    """Yield tasks that add up the same rows of all runs, some rows each."""
    from seqloom.kernels.glove import merge_rows

    sizes = np.sum([np.diff(offsets) for offsets, _, _ in runs], axis=0)

    def merge(low: int, high: int) -> Job:
        def task(s: _Scratch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            spans = [(offsets[low], offsets[high]) for offsets, _, _ in runs]
            columns = np.concatenate([columns[a:b] for (_, columns, _), (a, b) in zip(runs, spans)])
            totals = np.concatenate([totals[a:b] for (_, _, totals), (a, b) in zip(runs, spans)])
            before = np.cumsum([0, *(b - a for a, b in spans)])
            offsets = np.stack(
                [o[low : high + 1] - o[low] + k for (o, _, _), k in zip(runs, before)]
            )
            lengths = np.empty(high - low, np.int64)
            n = merge_rows(offsets, columns, totals, *s.sums, lengths, *s.room)
            return lengths, s.room[0][:n].copy(), s.room[1][:n].copy()

        return task

    for low, high in _rows_of_tasks(np.minimum(sizes, len(sizes)), sizes):
        yield int(sizes[low:high].sum()), merge(low, high)


def _rows_of_tasks(cells: np.ndarray, work: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges of neighbouring rows with at most CELLS cells and POSITIONS work, or one row."""
    ends_of_cells, ends_of_work = np.cumsum(cells), np.cumsum(work)
    low = 0
    while low < len(cells):
        cells_before, work_before = (
            (ends_of_cells[low - 1], ends_of_work[low - 1]) if low else (0, 0)
        )
        high = min(
            np.searchsorted(ends_of_cells, cells_before + CELLS, side="right"),
            np.searchsorted(ends_of_work, work_before + POSITIONS, side="right"),
        )
        high = max(int(high), low + 1)
        yield low, high
        low = high


class _Scratch:
    """Memory in which a thread counts; zeros between tasks."""

    def __init__(self, vocab_size: int) -> None:
        room = max(CELLS, vocab_size)
        self.sums = (
            np.zeros(vocab_size, np.int64),
            np.empty(vocab_size + 1, np.uint32),
            np.zeros(vocab_size // 64 + 1, np.uint64),
            np.zeros(vocab_size // 4096 + 1, np.uint64),
        )
        self.room = np.empty(room, np.uint32), np.empty(room, np.int64)


class _Pool:
    """Scratch memory for the tasks that run at the same time."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size, self.free = vocab_size, list[_Scratch]()

    def run(self, task: Job) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        try:
            scratch = self.free.pop()
        except IndexError:
            scratch = _Scratch(self.vocab_size)
        result = task(scratch)
        self.free.append(scratch)
        return result


def _run_tasks(
    tasks: Iterator[tuple[int, Job]], scratch: _Pool
) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    return parallel_map(lambda task: (task[0], scratch.run(task[1])), tasks)


class _Run:
    """Cells in the order of rows: exact totals, or values if a `scale` is given, by which totals are
    divided.
    """

    def __init__(self, limit: int | None, scale: int | None = None) -> None:
        self.scale = scale
        self.lengths: list[np.ndarray] = []
        self.columns = _Buffer(np.uint32, limit)
        self.numbers = _Buffer(np.int64 if scale is None else np.float32, limit)

    def add(self, lengths: np.ndarray, columns: np.ndarray, totals: np.ndarray) -> None:
        self.lengths.append(lengths)
        self.columns.add(columns)
        self.numbers.add(totals if self.scale is None else (totals / self.scale).astype(np.float32))

    def finish(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(self.lengths))])
        return offsets, self.columns.finish(), self.numbers.finish()

    def cells(self, symmetric: bool) -> Cells:
        return Cells(*self.finish(), symmetric=symmetric)


class _Buffer:
    """A growing array, in memory, or beyond `limit` bytes in a private temporary file."""

    def __init__(self, dtype: type, limit: int | None) -> None:
        self.dtype, self.limit, self.size = dtype, limit, 0
        self.pieces: list[np.ndarray] = []
        self.file: IO[bytes] | None = None

    def add(self, piece: np.ndarray) -> None:
        self.pieces.append(piece)
        self.size += piece.nbytes
        if self.limit is not None and self.size > self.limit:
            self._write()

    def _write(self) -> None:
        try:
            if self.file is None:  # it stays open until finish
                self.file = tempfile.TemporaryFile(prefix="seqloom-cells-")  # noqa: SIM115
            for piece in self.pieces:
                self.file.write(piece.data)
            self.file.flush()
        except OSError as error:
            raise SeqloomError(
                f"no room for temporary files in {tempfile.gettempdir()} ({error.strerror}); "
                "set TMPDIR to a larger disk or raise memory=..."
            ) from error
        self.pieces = []

    def finish(self) -> np.ndarray:
        if self.file is None:
            return np.concatenate([np.empty(0, self.dtype), *self.pieces])
        with self.file:
            return np.memmap(self.file, self.dtype, "r").view(np.ndarray)
