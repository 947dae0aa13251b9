"""The one place where kernels meet threads.

Kernels are `nogil`, so plain threads run them side by side. Work is cut into chunks whose number and
borders depend on the data alone; the threads only decide who runs which chunk, so results are the same
for any number of threads. numba's own `parallel=True` is not used: a fork after it kills the child.
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

_GRACE = 0.5  # seconds that an interrupted call gets to end by itself
_calls: set[threading.Thread] = set()  # of `interruptible` that are under way


def thread_count() -> int:
    """Return `$SEQLOOM_THREADS`, or else the number of cores this process may use."""
    wanted = os.environ.get("SEQLOOM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
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


_pools: set[ThreadPoolExecutor] = (
    set()
)  # at work; no lock, as the garbage collector may end one at any place


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads; while there is one, kernels do not share their work: all cores are busy."""
    with ThreadPoolExecutor(threads) as pool:
        _pools.add(pool)
        _note_pools()
        try:
            yield pool
        finally:
            _pools.discard(pool)
            _note_pools()


def _note_pools() -> None:
    """Tell the kernels how many pools are at work; again if another thread changed that meanwhile."""
    while TEAM[POOLS] != len(_pools):
        TEAM[POOLS] = len(_pools)


def parallel_map(function: Callable[[T], R], items: Iterable[T], *, ahead: int = 2) -> Iterator[R]:
    """Map over a thread pool, with results in order and at most `ahead` chunks per thread in
    flight.

    So a stream larger than memory can be mapped. With one thread or one item it is the plain `map`.
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
# The team are words that kernels and helpers change: one line of words for all, LINES lines that hold a job,
# and a line for each thread; thread 0 is whoever has a job.

WORDS = 16  # of a line: two cache lines, as processors fetch pairs of them
LINES, MAX_THREADS = 16, 64  # lines of a job; threads
LOCK, WANTED, HELPED, FAILED, THREADS, POOLS, WORTH, CODE, SIZE, PARTS = range(
    10
)  # of the first line
PATIENCE = 30_000  # looks for a job, some 0.5 ms, after which a helper sleeps
JOB, OWN = WORDS, (1 + LINES) * WORDS  # where the job begins, and the lines of the threads
STATE, NEXT = 0, 8  # of a thread's line; the next of its chunks
ASLEEP, READY, OFFERED, BUSY = range(4)


def new_team() -> np.ndarray:
    """Return the words of a team that nobody belongs to yet."""
    team = np.zeros(OWN + MAX_THREADS * WORDS, np.int64)
    team[WORTH] = 1 << 16  # multiplications and additions that are worth a thread
    return team


TEAM = new_team()


class _Helper(threading.Thread):
    """Sleeps until it is called, then does jobs until there have been none for a while."""

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
    """Ensure that a thread for each core is awake, this one included, for what is shared next.

    Where there is one core it is not asked again.
    """
    TEAM[WANTED] = 0
    TEAM[THREADS] = threads = min(thread_count(), MAX_THREADS)
    if threads == 1 or _closing:
        return
    from seqloom.kernels.team import serve

    if not _helpers:
        serve(new_team(), 1, 0)  # compiled here, as a process must not end meanwhile
    if not _one_at_a_time.acquire(blocking=False):
        return
    try:
        for helper in _helpers[: threads - 1]:
            helper.call()
        while len(_helpers) < threads - 1:
            _helpers.append(_Helper(len(_helpers) + 1))
            _helpers[-1].start()  # when it is in the list, so that there are never two of a number
    except RuntimeError:  # the system gives no more threads; those that there are will do
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
    """Return the result of a call that would not hear Ctrl-C because it stays long in a library:
    a thread makes it, and this one waits.

    When that is interrupted the call is left alone;
    it is told by the event, so that it can end where it is heard.
    """
    if threading.current_thread() is not threading.main_thread():  # which has no signals to hear
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
    """Return whether a call that was interrupted is still under way."""
    return bool(_calls)
