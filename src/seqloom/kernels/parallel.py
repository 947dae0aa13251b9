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
from functools import partial
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


_thread = threading.local()


def _enter_pool() -> None:
    """Mark a thread of a pool, which does not share its products with others: all are busy."""
    _thread.in_pool = True


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
    with ThreadPoolExecutor(threads, initializer=_enter_pool) as pool:
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


class _Helper(threading.Thread):
    """A thread that waits for a part of a product:
    starting one, or a pool's bookkeeping, would take longer than the product.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True, name="seqloom-helper")
        self.function: Callable[[], object] = int
        self.error: BaseException | None = None
        self.busy = False  # what counts: an interrupted wait leaves `done` in either state
        self.begin, self.done = threading.Lock(), threading.Lock()
        self.begin.acquire()
        self.done.acquire()
        self.start()

    def give(self, function: Callable[[], object]) -> None:
        """Let it begin with this."""
        self.done.acquire(blocking=False)
        self.function, self.error = function, None
        self.busy = True
        self.begin.release()

    def run(self) -> None:
        while True:
            self.begin.acquire()
            try:
                self.function()
            except BaseException as error:
                self.error = error
            self.function = int  # the arrays of the last one are free
            self.busy = False
            self.done.release()

    def wait(self) -> BaseException | None:
        """Return its error when its part is done, or what interrupted the waiting meanwhile."""
        interruption = None
        while self.busy:
            try:
                self.done.acquire()
            except BaseException as error:  # it still writes to the caller's arrays
                interruption = error
        found, self.error = self.error, None
        return interruption or found


_helpers: list[_Helper] = []
_helpers_free = threading.Lock()


def _forget_helpers() -> None:
    """In a forked child, where no thread but one lives on."""
    global _helpers_free
    _helpers.clear()
    _helpers_free = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


def share_between_threads(function: Callable[[T], object], parts: Sequence[T]) -> None:
    """Call the function with each of a few parts, side by side;
    while another call has the helpers, one after the other.

    For kernels of some 50 microseconds: handing a part over takes about ten.
    """
    if len(parts) < 2 or getattr(_thread, "in_pool", False) or not _helpers_free.acquire(blocking=False):
        for part in parts:
            function(part)
        return
    busy: list[_Helper] = []
    try:
        _helpers[:] = [helper for helper in _helpers if not helper.busy]
        while len(_helpers) < len(parts) - 1:
            _helpers.append(_Helper())
        try:
            for helper, part in zip(_helpers, parts[1:]):
                busy.append(helper)
                helper.give(partial(function, part))
            function(parts[0])
        finally:
            errors = [helper.wait() for helper in busy]
        for error in errors:
            if error is not None:
                raise error
    finally:
        _helpers_free.release()


def interruptible(function: Callable[[threading.Event], R]) -> R:
    """The result of a call that would not hear Ctrl-C, as it stays long in a library:
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
    """Whether a call that was interrupted is still under way."""
    return bool(_calls)
