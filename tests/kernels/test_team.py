"""Work that threads share from inside a kernel: every part is done once, whoever is there to help."""

import copy
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache
from numba.extending import overload

from seqloom.kernels import parallel
from seqloom.kernels.matmul import linear, pack
from seqloom.kernels.parallel import (
    ASLEEP,
    BUSY,
    FAILED,
    HELPED,
    LOCK,
    NEXT,
    OFFERED,
    OWN,
    POOLS,
    READY,
    STATE,
    TEAM,
    THREADS,
    WANTED,
    WORDS,
    WORTH,
    call_helpers,
    new_team,
    parallel_map,
)
from seqloom.kernels.team import do_parts, product_work, serve, share, take_chunks
from seqloom.runtime.quantised import Quantised
from tests.sharing import PATIENCE, helped, shared_by


class Counts(NamedTuple):
    """A job that counts how often each part was done, but for one that cannot be done."""

    times: np.ndarray
    broken: int  # -1: none


@overload(do_parts)
def _count(job, low, high):
    def run(job, low, high):
        for part in range(low, high):
            if part == job.broken:
                raise ValueError("cannot be done")
            job.times[part] += 1

    return run if job.instance_class is Counts else None


@njit(nogil=True)
def count_into(team, times, work, broken):
    share(team, Counts(times, broken), len(times), work)


def count(team, parts, work):
    times = np.zeros(parts, np.int64)
    count_into(team, times, work, -1)
    return times


def join_in(work):
    """Have a team work in another thread, again until this one has taken part as its helper; the
    last result.
    """
    serve(new_team(), 1, 0)  # compiled
    team, deadline, found = new_team(), time.monotonic() + PATIENCE, []
    team[THREADS], team[WORTH] = 2, 1
    while team[HELPED] == 0:
        assert time.monotonic() < deadline
        caller = threading.Thread(target=lambda: found.append(work(team)))
        caller.start()
        while caller.is_alive():
            serve(team, 1, 100)
        caller.join(PATIENCE)
    assert team[LOCK] == 0
    return found[-1]


def state(team, me):
    return team[OWN + me * WORDS + STATE]


def wait_until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture(params=[2, 3, 5])
def team(request):
    """A team whose helpers are nearly always awake, until the test has ended."""
    team, ended = new_team(), threading.Event()
    team[THREADS], team[WORTH] = request.param, 1
    serve(new_team(), 1, 0)  # compiled

    def work(me):
        while not ended.is_set():
            serve(team, me, 10_000)

    helpers = [threading.Thread(target=work, args=[me]) for me in range(1, request.param)]
    for helper in helpers:
        helper.start()
    yield team
    ended.set()
    for helper in helpers:
        helper.join(PATIENCE)
        assert not helper.is_alive()


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 8, 63, 1000])
def test_parts_are_done_once_each(team, parts):
    for _ in range(100):
        np.testing.assert_array_equal(count(team, parts, 1 << 20), np.ones(parts))
    assert team[LOCK] == 0


def test_helpers_take_part(team):
    before, deadline = int(team[HELPED]), time.monotonic() + PATIENCE
    while team[HELPED] == before:
        assert count(team, 100_000, 1 << 20).min() == 1
        assert time.monotonic() < deadline


def test_calls_beside_each_other_are_all_done(team):
    """Only one of them has the helpers at a time."""
    found = []

    def caller():
        for parts in range(1, 200):
            found.append(bool((count(team, parts, 1 << 20) == 1).all()))

    callers = [threading.Thread(target=caller) for _ in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(PATIENCE)
    assert found == [True] * (4 * 199)
    assert team[LOCK] == 0


def test_a_helper_that_does_not_begin_is_not_waited_for():
    """As one whom the system has stopped: its offer is taken back."""
    team = new_team()
    team[THREADS], team[WORTH] = 3, 1
    team[OWN + WORDS + STATE] = READY  # but nobody is there
    assert count(team, 50, 1 << 20).tolist() == [1] * 50
    assert state(team, 1) == READY
    assert team[WANTED] == 1  # the other one sleeps
    assert (state(team, 2), team[LOCK], team[HELPED]) == (ASLEEP, 0, 0)


@pytest.mark.parametrize("broken", [0, 5, 99])
def test_an_error_is_raised_when_all_have_ended(broken):
    """And the team goes on."""
    team, times = new_team(), np.zeros(100, np.int64)
    team[THREADS], team[WORTH], team[OWN + WORDS + STATE] = 2, 1, READY
    with pytest.raises(MemoryError):
        count_into(team, times, 1 << 20, broken)
    assert times.max() == 1
    assert (team[LOCK], state(team, 1)) == (0, READY)
    assert count(team, 50, 1 << 20).tolist() == [1] * 50
    assert team[FAILED] == 0


def test_a_helper_that_fails_is_ready_again():
    def work(team):
        with pytest.raises(MemoryError):
            count_into(
                team, np.zeros(1 << 20, np.int64), 1 << 20, (1 << 20) - 1
            )  # the helper's own
        return state(team, 1)

    count(new_team(), 1, 0)  # compiled
    assert join_in(work) in (READY, ASLEEP)


def test_copies_of_a_matrix_have_the_same_team():
    for matrix in (
        pack(np.ones((5, 3), np.float32)),
        Quantised.of(np.ones((5, 3), np.float32), 8).tiles(),
    ):
        copied = copy.deepcopy(matrix)
        assert copied.team is TEAM
        assert copied[0] is not matrix[0]
        np.testing.assert_array_equal(copied[0], matrix[0])


def test_no_thread_is_no_error(monkeypatch):
    """As in a container that has no more of them."""

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(parallel, "_helpers", [])
    monkeypatch.setattr(parallel._Helper, "start", refuse)
    with shared_by(3):
        assert TEAM[THREADS] == 1
        assert (
            linear(pack(np.ones((200, 40), np.float32)), np.ones((1, 40), np.float32)) == 40
        ).all()
    assert parallel._helpers == []


def test_a_helper_that_has_begun_is_waited_for():
    count(new_team(), 1, 0)  # compiled
    found = join_in(lambda team: count(team, 1 << 22, 1 << 30))
    assert found.min() == found.max() == 1


@pytest.mark.parametrize("kernel", [share, take_chunks])
def test_the_cache_has_no_jobs(kernel):
    """It could not be read any more without the packages of their classes, as this one."""
    assert type(kernel._cache) is NullCache


class Ones(NamedTuple):
    """A job that sets its parts to one."""

    parts: np.ndarray


class Twos(NamedTuple):
    """A job that sets them to two."""

    parts: np.ndarray


@overload(do_parts)
def _ones(job, low, high):
    def run(job, low, high):
        job.parts[low:high] = 1

    return run if job.instance_class is Ones else None


@overload(do_parts)
def _twos(job, low, high):
    def run(job, low, high):
        job.parts[low:high] = 2

    return run if job.instance_class is Twos else None


def test_kinds_of_jobs_have_code_of_their_own(monkeypatch):
    """Also where their functions have one number, as those that two processes have compiled may have."""
    monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.repeat(10**9))

    @njit
    def fill_with_ones(team, parts):
        share(team, Ones(parts), len(parts), 1 << 20)

    @njit
    def fill_with_twos(team, parts):
        share(team, Twos(parts), len(parts), 1 << 20)

    symbols = []
    for fill in (fill_with_ones, fill_with_twos):
        fill(new_team(), np.zeros(8, np.int64))
        [code] = fill.inspect_llvm().values()
        symbols.append(set(re.findall(r"^define .*@(\w*take_part\w*)", code, re.MULTILINE)))
        assert len(symbols[-1]) == 1
    assert symbols[0] != symbols[1]


def test_there_is_one_helper_of_a_number():
    team = new_team()
    for other in (READY, OFFERED, BUSY):
        team[OWN + WORDS + STATE] = other
        serve(team, 1, 0)
        assert state(team, 1) == other


@pytest.mark.parametrize(
    ("threads", "work", "parts"), [(0, 1 << 30, 9), (1, 1 << 30, 9), (4, 1, 9), (4, 1 << 30, 1)]
)
def test_what_is_not_worth_it_is_done_alone(threads, work, parts):
    team = new_team()
    team[THREADS] = threads
    for me in range(1, 4):
        team[OWN + me * WORDS + STATE] = READY
    assert count(team, parts, work).tolist() == [1] * parts
    assert team[OWN + NEXT] == 0  # no chunk was dealt
    assert team[WANTED] == (threads == 0)  # asked for, where it is not known how many there are


def test_the_work_of_a_product():
    assert [product_work.py_func(100, rows) for rows in (0, 1, 2, 3, 12)] == [0, 100, 100, 100, 400]


def test_while_one_has_the_team_or_a_pool_works_others_are_alone():
    for word in (LOCK, POOLS):
        team = new_team()
        team[THREADS], team[WORTH], team[word] = 2, 1, 1
        team[OWN + WORDS + STATE] = READY
        assert count(team, 9, 1 << 20).tolist() == [1] * 9
        assert team[OWN + NEXT] == 0
        assert team[word] == 1


def test_pools_are_known_to_the_team(monkeypatch):
    monkeypatch.setenv("SEQLOOM_THREADS", "2")
    assert set(parallel_map(lambda item: int(TEAM[POOLS]), range(6))) == {1}
    assert TEAM[POOLS] == 0
    with pytest.raises(ZeroDivisionError):
        list(parallel_map(lambda item: 1 // item, range(6)))
    assert TEAM[POOLS] == 0


def test_helpers_sleep_and_are_woken():
    matrix, x = pack(np.ones((200, 40), np.float32)), np.ones((1, 40), np.float32)
    with shared_by(2):
        for _ in range(3):
            for found in helped(lambda: linear(matrix, x)):
                assert (found == 40).all()
            wait_until(lambda: state(TEAM, 1) == ASLEEP)
            linear(matrix, x)  # asks for them
    assert sum(thread.name == "seqloom-helper-1" for thread in threading.enumerate()) == 1


def test_one_thread_asks_for_nobody(monkeypatch):
    monkeypatch.setenv("SEQLOOM_THREADS", "1")
    call_helpers()
    assert TEAM[THREADS] == 1
    TEAM[THREADS] = 0


PROGRAM = """
    import os, signal, sys, threading, time
    import numpy as np
    from seqloom.kernels.matmul import linear, pack
    from seqloom.kernels.parallel import HELPED, TEAM, WORTH

    TEAM[WORTH] = 1
    matrix, x = pack(np.ones((3000, 300), np.float32)), np.ones((1, 300), np.float32)

    def together():
        before, deadline = int(TEAM[HELPED]), time.monotonic() + 300
        while TEAM[HELPED] == before:
            assert (linear(matrix, x) == 300).all()
            assert time.monotonic() < deadline, "no helper came"
"""


def run(program):
    code = textwrap.dedent(PROGRAM) + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-c", code],
        timeout=3 * PATIENCE,
        capture_output=True,
        text=True,
        env={**os.environ, "SEQLOOM_THREADS": "2"},
    )


def test_a_process_ends_while_helpers_are_awake():
    ran = run("together()")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="no forks on this system")
def test_a_forked_process_has_helpers_of_its_own():
    """Threads do not live on in a child, whether or not they were at work when it began."""
    ran = run("""
        def fork():
            child = os.fork()
            if not child:
                together()
                os._exit(0)
            return os.waitpid(child, 0)[1]

        codes = [fork()]
        together()
        codes.append(fork())
        go_on = True
        def busy():
            while go_on:
                linear(matrix, x)
        other = threading.Thread(target=busy)
        other.start()
        codes += [fork() for _ in range(5)]
        go_on = False
        other.join(60)
        together()
        sys.exit(any(codes))
    """)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="no signals to threads on this system"
)
def test_ctrl_c_is_heard_and_leaves_the_team_as_it_was():
    ran = run("""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        together()
        main = threading.main_thread().ident
        for _ in range(3):
            timer = threading.Timer(0.05, signal.pthread_kill, [main, signal.SIGINT])
            try:
                timer.start()
                while True:
                    linear(matrix, x)
            except KeyboardInterrupt:
                timer.join()
            together()
    """)
    assert ran.returncode == 0, ran.stderr
