"""The one place where kernels meet threads.

Kernels are `nogil`, so plain threads run them side by side. Work is cut into chunks whose number and
borders depend on the data alone; the threads only decide who runs which chunk, so results are the same
for any number of threads. numba's own `parallel=True` is not used: a fork after it kills the child.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_GRACE = 0.5  # seconds that an interrupted call gets to end by itself
_calls: set[threading.Thread] = set()  # of `interruptible` that are under way


def thread_count() -> int:
    """`$SEQLOOM_THREADS`, else the number of cores this process may use."""
    wanted = os.environ.get("SEQLOOM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chunk_bounds(total: int, size: int) -> list[tuple[int, int]]:
    """`[(0, size), (size, 2 size), ...]` up to `total`."""
    return [(lo, min(lo + size, total)) for lo in range(0, total, size)]


def text_batches(texts: Sequence[str], size: int = 1 << 19) -> Iterator[Sequence[str]]:
    """Neighbouring texts of about `size` characters together."""
    start = length = 0
    for i, text in enumerate(texts, 1):
        length += len(text) + 1
        if length >= size or i == len(texts):
            yield texts[start:i]
            start, length = i, 0


def parallel_map(function: Callable[[T], R], items: Iterable[T], *, ahead: int = 2) -> Iterator[R]:
    """`map` over a thread pool, results in order, with at most `ahead` chunks a thread in flight.

    So a stream larger than memory can be mapped. With one thread or one item it is the plain `map`.
    """
    threads = thread_count()
    source = iter(items)
    first = list(islice(source, 2))
    if threads == 1 or len(first) < 2:
        yield from map(function, chain(first, source))
        return
    source = chain(first, source)
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[Future[R]] = [pool.submit(function, item) for item in islice(source, threads * ahead)]
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


def interruptible(function: Callable[[threading.Event], R]) -> R:
    """The result of a call that would not hear Ctrl-C, as it stays long in a library: a thread makes it, and this one waits.

    When that is interrupted the call is left alone; it is told by the event, so that it can end where it is heard.
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
    """Whether a call that was interrupted is still under way."""
    return bool(_calls)
