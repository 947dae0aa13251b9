"""Workers that do tasks: local processes, or those of a Dask scheduler (Rocklin 2015, "Dask: parallel
computation with blocked algorithms and task scheduling"; https://distributed.dask.org).

Dask sends the tasks and sees that workers live; nothing else is left to it. Results are files (`work`), since
Dask loses scattered data with its worker, and everything with its scheduler. So a worker or scheduler that
dies costs the tasks that were running. Dask unpickles what it is sent: a scheduler on another machine is
therefore used over TLS only.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from seqloom import progress
from seqloom.errors import MissingExtra, SeqloomError
from seqloom.scale.addresses import (
    REACHED,
    ClusterError,
    Place,
    check_reached,
    checked_address,
    security_of,
)
from seqloom.scale.work import STOP, Task, perform, result_of, versions

ATTEMPTS = 3  # at a task, before it is given up
PATIENCE = 60.0  # seconds to wait for a worker, or for a scheduler that is gone

_POLL = 0.2  # seconds between two looks at the scheduler


def require_dask() -> None:
    """Refuse, before any work, where Dask is missing."""
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise MissingExtra("a cluster needs Dask; pip install 'seqloom[scale]'")


class Cluster:
    """Workers for the time of a `with` block."""

    def __init__(self, where: str | Place) -> None:
        require_dask()
        self.place = where if isinstance(where, Place) else Place.named(where)
        self.run = uuid.uuid4().hex[:12]
        self._client: Any = None
        self._local: Any = None
        self._started: set[int] = set()  # processes

    def __enter__(self) -> Cluster:
        # Dask's own words are about its machinery; what matters of it is said here
        for name in ("distributed", "tornado", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        return (
            self.place.address
            or f"{self.place.processes} local process{'es' * (self.place.processes != 1)}"
        )

    def _connect(self) -> None:
        import dask
        from distributed import Client, LocalCluster

        dask.config.set({"distributed.comm.timeouts.connect": f"{REACHED}s"})
        if self.place.processes is not None:
            with _without_interrupts():
                self._local = LocalCluster(
                    n_workers=self.place.processes,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address=None,
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                    silence_logs=logging.CRITICAL,
                    memory_limit=0,  # no more than one process would be refused
                    env={"SEQLOOM_THREADS": "1"},
                )
            self._client = Client(self._local, set_as_default=False)
            self._started = {nanny.pid for nanny in self._local.workers.values()}
            return
        address = self.place.address
        security = security_of(address)
        check_reached(address)
        try:
            self._client = Client(address, timeout=REACHED, set_as_default=False, security=security)
        except Exception as error:  # whatever comes of bytes of another protocol
            raise ClusterError(
                f"what answers at {address} is no Dask scheduler of this version "
                f"({type(error).__name__}); look at the address and at the versions of Dask"
            ) from None
        self._await_worker()
        for worker in self.addresses():
            checked_address(worker)

    @property
    def address(self) -> str:
        """Return the address of the scheduler."""
        found: str = self._client.scheduler.address
        return found

    def addresses(self) -> list[str]:
        """Return the addresses of the workers."""
        return list(self._client.scheduler_info(n_workers=-1)["workers"])

    def _await_worker(self) -> None:
        deadline, said = time.monotonic() + PATIENCE, False
        while not self._client.nthreads():
            if not said:
                progress.say(f"{self.name} has no worker yet; waiting for one")
                said = True
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self.name} has no worker; start one: dask worker {self.place.address}"
                )
            time.sleep(_POLL)

    def size(self) -> int:
        """Return how many tasks can run at once."""
        return sum(self._client.nthreads().values())

    def close(self) -> None:
        """Leave the cluster; end the workers that were started here."""
        # Dask would wait for what they do, and start new ones in their place
        for nanny in [] if self._local is None else self._local.workers.values():
            nanny.auto_restart = False
        if self._local is not None:
            self._local.shutdown_on_close = False  # or it would try once more, for ten seconds
        for pid in self._processes():
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
        with suppress(Exception):
            if self._client is not None:
                self._client.close(timeout=1)
        with suppress(Exception):
            if self._local is not None:
                self._local.close(timeout=2)
        self._client = self._local = None

    def _processes(self) -> set[int]:
        """Return the processes of local workers: those that were started, and those that replaced them."""
        if self._local is None:
            return set()
        from psutil import Process

        known = {nanny.pid for nanny in self._local.workers.values()} | self._started
        return known & {child.pid for child in Process().children()}

    def stop(self, work: Path) -> None:
        """End the tasks of this run: those that are waiting are dropped, those on workers end soon."""
        with suppress(OSError):
            (work / f"{STOP}{self.run}").touch()
        if self._local is not None:
            self.close()

    def do(self, tasks: Sequence[Task], work: Path, label: str, unit: str = "") -> list[Any]:
        """Do all tasks; return what they returned, in their order.

        One that fails is tried again, here or elsewhere; if some fail three times, the rest is finished and
        they are named.
        """
        return list(self.results(tasks, work, label, unit))

    def results(
        self, tasks: Sequence[Task], work: Path, label: str, unit: str = ""
    ) -> Iterator[Any]:
        """Yield what each task returned, in their order and as soon as all before it are done."""
        job = _Job(self, tasks, work)
        with progress.task(label, sum(task.weight for task in tasks), unit) as bar:
            yield from job.run(bar)

    def submit(self, task: Task, work: Path, priority: int) -> Any:
        """Send a task to the scheduler."""
        job = {
            "function": task.function,
            "arguments": task.arguments,
            "name": task.name,
            "work": str(work),
            "run": self.run,
            "versions": versions(),
        }
        return self._client.submit(
            perform, job, key=f"{task.name}-{uuid.uuid4().hex[:8]}", pure=False, priority=-priority
        )

    @property
    def lost(self) -> bool:
        """Return whether the scheduler is gone."""
        return self._client is None or self._client.status != "running"

    def reconnect(self, work: Path) -> None:
        """Wait for the scheduler to come back."""
        progress.say(
            f"the scheduler at {self.name} is gone; waiting {PATIENCE:.0f} s for it (what is finished is "
            "kept)"
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.close()
                self._connect()
                return
            except SeqloomError:
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"the scheduler at {self.name} is gone; what is finished is kept in {work}: the same "
                        "command goes on when it is back"
                    ) from None
                time.sleep(1)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold signals back while workers start, which half-started ones would not survive; and keep Ctrl-C from
    them for good: they are ended by this process.
    """
    if (
        not hasattr(signal, "pthread_sigmask")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it would take the block away when it starts
    # Dask's thread begins here, and processes have the mask of the thread that starts them
    held: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, frame: held.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if held:
            signal.raise_signal(signal.SIGTERM)


# ---- a job


class _Job:
    """Tasks on their way: sent, repeated where they fail, in order when they are done."""

    def __init__(self, cluster: Cluster, tasks: Sequence[Task], work: Path) -> None:
        self.cluster, self.tasks, self.work = cluster, tasks, work
        self.arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sent: dict[Any, int] = {}  # futures and the numbers of their tasks
        self.failures = [0] * len(tasks)
        self.failed: dict[int, str] = {}
        self.done: dict[int, Any] = {}
        self.said: dict[str, None] = {}  # in order, each once

    def run(self, bar: progress.Bar) -> Iterator[Any]:
        for number, task in enumerate(self.tasks):
            if (found := result_of(self.work / task.name)) is not None:
                self._finish(number, found, bar)
        if self.done and len(self.done) < len(self.tasks):
            progress.say(f"{len(self.done):,} of {len(self.tasks):,} parts are there already")
        next_one = 0
        try:
            self._send(n for n in range(len(self.tasks)) if n not in self.done)
            while True:
                while next_one in self.done:
                    yield self.done.pop(next_one)
                    next_one += 1
                if not self.sent:
                    break
                self._take(bar)
        except BaseException:
            if self.sent:  # else whoever asked has all that they wanted
                self.cluster.stop(self.work)
            raise
        finally:
            for message in self.said:
                progress.say(message)
        if self.failed:
            number, why = next(iter(self.failed.items()))
            others = f"; so did {len(self.failed) - 1:,} more" if len(self.failed) > 1 else ""
            finished = len(self.tasks) - len(self.failed)
            raise SeqloomError(
                f"{self.tasks[number].label} failed {ATTEMPTS} times: {why}{others}; the other {finished:,} "
                f"of {len(self.tasks):,} parts are done and kept in {self.work}: the same command goes on"
            )

    def _send(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            future = self.cluster.submit(self.tasks[number], self.work, number)
            self.sent[future] = number
            future.add_done_callback(self.arrived.put)

    def _take(self, bar: progress.Bar) -> None:
        """Take what has arrived, or look whether the scheduler is still there."""
        try:
            future = self.arrived.get(timeout=_POLL)
        except queue.Empty:
            if self.cluster.lost:
                again = [*self.sent.values()]
                self.sent.clear()
                self.cluster.reconnect(self.work)
                self._send(number for number in again if not self._found(number, bar))
            return
        number = self.sent.pop(future, None)
        if number is None:  # of a scheduler that is gone
            return
        if future.status == "finished":
            result = future.result()
            if "values" in result:
                self._finish(number, result, bar)
            elif "stopped" in result:
                raise KeyboardInterrupt
            else:
                self._fail(number, result["error"])
        elif self.cluster.lost or future.status in ("cancelled", "lost"):
            self.sent[future] = number  # sent again as soon as the scheduler is back
            if not self.cluster.lost:
                del self.sent[future]
                self._send([number])
        else:
            self._fail(number, _why(future))
        future.release()

    def _found(self, number: int, bar: progress.Bar) -> bool:
        if (found := result_of(self.work / self.tasks[number].name)) is not None:
            self._finish(number, found, bar)
        return found is not None

    def _finish(self, number: int, result: dict[str, Any], bar: progress.Bar) -> None:
        self.done[number] = result["values"]
        self.said |= dict.fromkeys(result["said"])
        bar.advance(self.tasks[number].weight)

    def _fail(self, number: int, why: str) -> None:
        self.failures[number] += 1
        if self.failures[number] < ATTEMPTS:
            self._send([number])
        else:
            self.failed[number] = why


def _why(future: Any) -> str:
    """Return in one line why a task ended without a result."""
    error = future.exception()
    if type(error).__name__ == "KilledWorker":
        return f"{error.allowed_failures + 1} workers died while they did it"
    if isinstance(error, ImportError):
        return f"the worker cannot import what it needs ({error}); install the same seqloom there"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
