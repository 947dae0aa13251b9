"""Threads for kernels; the only module that starts any.

Kernels are `nogil`, so plain threads run them in parallel. Work is cut into chunks; their number and bounds
depend on the data alone, and only the assignment of chunks to threads varies, so results are the same for any
number of threads. numba's `parallel=True` is not used: a fork after it kills the child.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")

_GRACE = 0.5  # seconds that an interrupted call has to end by itself
_calls: set[threading.Thread] = set()  # running calls of `interruptible`


def thread_count() -> int:
    """Return `$SEQLOOM_THREADS`, or else the number of cores this process may use."""
    setting = os.environ.get("SEQLOOM_THREADS", "")
    return int(setting) if setting.isdigit() and int(setting) > 0 else core_count()


def core_count() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chunk_bounds(total: int, size: int) -> list[tuple[int, int]]:
    """Return `[(0, size), (size, 2 size), ...]` up to `total`."""
    return [(lo, min(lo + size, total)) for lo in range(0, total, size)]


def text_batches(texts: Sequence[str], size: int = 1 << 19) -> Iterator[Sequence[str]]:
    """Yield batches of neighbouring texts, each of about `size` characters."""
    start = length = 0
    for i, text in enumerate(texts, 1):
        length += len(text) + 1
        if length >= size or i == len(texts):
            yield texts[start:i]
            start, length = i, 0


# running; without a lock, as the garbage collector may end one at any point
_pools: set[ThreadPoolExecutor] = set()


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads; while one runs, kernels do not share their work: all cores are busy."""
    with ThreadPoolExecutor(threads) as pool:
        _pools.add(pool)
        _note_pools()
        try:
            yield pool
        finally:
            _pools.discard(pool)
            _note_pools()


def _note_pools() -> None:
    """Tell the kernels how many pools are running; again if another thread changed that meanwhile."""
    while TEAM[POOLS] != len(_pools):
        TEAM[POOLS] = len(_pools)


def parallel_map(function: Callable[[T], R], items: Iterable[T], *, ahead: int = 2) -> Iterator[R]:
    """Map over a thread pool, with results in order and at most `ahead` chunks per thread in
    flight.

    So a stream larger than memory can be mapped. With one thread or one item this is plain `map`.
    """
    threads = thread_count()
    source = iter(items)
    first = list(islice(source, 2))
    if threads == 1 or len(first) < 2:
        yield from map(function, chain(first, source))
        return
    source = chain(first, source)
    with _pool(threads) as pool:
        waiting: list[Future[R]] = [
            pool.submit(function, item) for item in islice(source, threads * ahead)
        ]
        try:
            while waiting:
                result = waiting.pop(0).result()
                for item in islice(source, 1):
                    waiting.append(pool.submit(function, item))
                yield result
        finally:
            for future in waiting:
                future.cancel()


def parallel_run(function: Callable[[T], object], items: Iterable[T]) -> None:
    """Run for its effects (kernels that write into slices of shared arrays)."""
    for _ in parallel_map(function, items):
        pass


# ---- helpers that share the work of a kernel from inside it (`team`)
#
# The team is an array of words that kernels and helpers change: one line of words for all, LINES lines that
# hold a job, and a line for each thread; thread 0 is the one that has a job.

WORDS = 16  # of a line: two cache lines, as processors fetch pairs of them
LINES, MAX_THREADS = 16, 64  # lines of a job; threads
# words of the first line
LOCK, WANTED, HELPED, FAILED, THREADS, POOLS, WORTH, CODE, SIZE, PARTS = range(10)
PATIENCE = 30_000  # polls for a job, some 0.5 ms, after which a helper sleeps
JOB, OWN = WORDS, (1 + LINES) * WORDS  # where the job begins, and the lines of the threads
STATE, NEXT = 0, 8  # words of a thread's line; NEXT is the next of its chunks
ASLEEP, READY, OFFERED, BUSY = range(4)


def new_team() -> np.ndarray:
    """Return the words of a team without helpers."""
    team = np.zeros(OWN + MAX_THREADS * WORDS, np.int64)
    team[WORTH] = 1 << 16  # least number of multiplications and additions for a thread
    return team


TEAM = new_team()


class _Helper(threading.Thread):
    """Sleeps until it is called, then runs jobs until none has come for a while."""

    def __init__(self, number: int) -> None:
        super().__init__(daemon=True, name=f"seqloom-helper-{number}")
        self.number = number
        self.called = threading.Lock()

    def run(self) -> None:
        from seqloom.kernels.team import serve

        while True:
            self.called.acquire()
            if not _closing:
                serve(TEAM, self.number, PATIENCE)

    def call(self) -> None:
        """Wake this helper if it sleeps; only one thread at a time may do so."""
        if self.called.locked() and TEAM[OWN + self.number * WORDS + STATE] == ASLEEP:
            self.called.release()


_helpers: list[_Helper] = []
_one_at_a_time = threading.Lock()
_closing = False


def call_helpers() -> None:
    """Ensure that a thread for each core is awake, this one included, for the next shared job.

    With one core, kernels do not ask again.
    """
    TEAM[WANTED] = 0
    TEAM[THREADS] = threads = min(thread_count(), MAX_THREADS)
    if threads == 1 or _closing:
        return
    from seqloom.kernels.team import serve

    if not _helpers:
        serve(new_team(), 1, 0)  # compile here, as a process must not end meanwhile
    if not _one_at_a_time.acquire(blocking=False):
        return
    try:
        for helper in _helpers[: threads - 1]:
            helper.call()
        while len(_helpers) < threads - 1:
            _helpers.append(_Helper(len(_helpers) + 1))
            _helpers[-1].start()  # after it is listed, so that there are never two of a number
    except RuntimeError:  # the system gives no more threads; use those that exist
        _helpers.pop()
        TEAM[THREADS] = len(_helpers) + 1
    finally:
        _one_at_a_time.release()


def _forget_helpers() -> None:
    """Forget all helpers in a forked child, where only one thread lives on."""
    global _one_at_a_time
    _helpers.clear()
    _pools.clear()
    _one_at_a_time = threading.Lock()
    TEAM[:] = new_team()


def _let_helpers_end() -> None:
    """Let the helpers finish before Python ends, and with it the code that they run."""
    global _closing
    _closing = True
    deadline = time.monotonic() + 5
    states = slice(OWN + STATE, None, WORDS)
    while (TEAM[states] != ASLEEP).any() and time.monotonic() < deadline:
        time.sleep(0.001)


atexit.register(_let_helpers_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


def interruptible(function: Callable[[threading.Event], R]) -> R:
    """Return the result of a call that would not react to Ctrl-C because it stays long in a library: a
    thread makes the call, and this one waits.

    If the waiting is interrupted, the call is abandoned; the event is set, so that it can end when it
    checks.
    """
    if threading.current_thread() is not threading.main_thread():  # gets no signals
        return function(threading.Event())
    outcome: Future[R] = Future()
    stop, context = threading.Event(), contextvars.copy_context()

    def call() -> None:
        try:
            outcome.set_result(context.run(function, stop))
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            _calls.discard(thread)

    thread = threading.Thread(target=call, daemon=True)
    _calls.add(thread)
    thread.start()
    try:
        return outcome.result()
    except BaseException:
        stop.set()
        with suppress(TimeoutError):
            outcome.exception(_GRACE)
        raise


def abandoned() -> bool:
    """Return whether an interrupted call is still running."""
    return bool(_calls)
