"""Threads for what takes long, whose work is given up when nobody waits for it any more.

A `ThreadPoolExecutor` runs to its end what has begun, also when its client has left or the process is to
end; a few large requests would then hold up all others for minutes. Here work that is given up is stopped
as Ctrl-C would stop it: by an exception in its thread, at the next instruction of Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")
SOON = 0.1  # seconds until work that must not be stopped now is looked at again

WHOLE = (
    "<frozen importlib",
    f"{os.sep}numba{os.sep}",
    f"{os.sep}llvmlite{os.sep}",
)  # code that is not stopped halfway


# CPython marks an exception for the thread of an identity, and a thread that is being started has that of its
# parent for a moment: it would die before it says that it runs, and its parent would wait for that for ever.
STARTS = threading.Thread.start.__code__
_starting = threading.Lock()


def start(thread: threading.Thread) -> None:
    """Start a thread in work that may be given up; no exception is raised in any meanwhile."""
    with _starting:
        thread.start()


class GivenUp(BaseException):
    """Nobody waits for this work; no handler of `Exception` takes it for an error of its own."""


class _Job:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Any] = self.loop.create_future()
        self.thread: int | None = None  # that runs it now
        self.is_given_up = False

    def answer(self, value: Any, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._set, value, error)

    def _set(self, value: Any, error: BaseException | None) -> None:
        if self.result.done():
            return
        if error is None:
            self.result.set_result(value)
        else:
            self.result.set_exception(error)


class Workers:
    """So many threads; they do not keep the process alive."""

    def __init__(self, number: int) -> None:
        self._jobs: set[_Job] = set()  # waiting and running
        self._queue: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        for _ in range(number):
            threading.Thread(target=self._run, name="answering", daemon=True).start()

    @property
    def n_jobs(self) -> int:
        """Return how much work waits or runs, without what was given up."""
        return len(self._jobs)

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in a thread; where the wait for it is cancelled, it is given up."""
        job = _Job(lambda: function(*arguments))
        self._jobs.add(job)
        self._queue.put(job)
        try:
            return cast(T, await job.result)
        finally:
            self._jobs.discard(job)
            self._give_up(job)

    def end_all(self, error: Exception) -> None:
        """End all work with an error; in the thread of the event loop."""
        for job in list(self._jobs):
            job._set(None, error)

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            job.is_given_up = True
            if job.thread is None:
                return
            if _can_stop(job.thread):
                _raise_in(job.thread, GivenUp)
            elif not job.loop.is_closed():
                job.loop.call_later(SOON, self._give_up, job)

    def _run(self) -> None:
        while True:
            with contextlib.suppress(GivenUp):  # which may arrive when the work has just ended
                job = self._queue.get()
                with self._lock:
                    if job.is_given_up:
                        continue
                    job.thread = threading.get_ident()
                value, error = None, None
                try:
                    value = job.work()
                except Exception as raised:
                    error = raised
                finally:
                    with self._lock:
                        job.thread = None
                        _raise_in(threading.get_ident(), None)  # not in the next one's work
                job.answer(value, error)
                del job, value, error  # not held while this thread waits


def _can_stop(thread: int) -> bool:
    """Return whether a thread neither imports a module nor compiles nor starts another: torch, stopped
    halfway, stays broken for the process, a kernel that the compiler's callbacks did not get is not cached.
    """
    frame = sys._current_frames().get(thread)
    while frame is not None:
        code = frame.f_code
        if code is STARTS or any(part in code.co_filename for part in WHOLE):
            return False
        frame = frame.f_back
    return True


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raise an exception in another thread, or take one back that it has not seen yet."""
    target = ctypes.c_ulong(thread)
    with _starting:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            target, ctypes.py_object(error) if error else None
        )
