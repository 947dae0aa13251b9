"""Parts that threads share: all are done, errors come through, and calls within and beside each other."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest

from seqloom.kernels import parallel
from seqloom.kernels.parallel import chunk_bounds, parallel_map, share_between_threads, thread_count

PATIENCE = 60  # seconds after which a test has failed, however busy the machine is


def threads_of(parts, share=share_between_threads):
    """The thread that did each part."""
    found = {}
    share(lambda part: found.setdefault(part, threading.get_ident()), parts)
    return [found[part] for part in parts]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_parts_are_done_once_each(n):
    done = []
    share_between_threads(done.append, list(range(n)))
    assert sorted(done) == list(range(n))


@pytest.mark.parametrize("n", [2, 4])
def test_parts_go_on_side_by_side(n):
    """They wait for each other, which one after the other could not."""
    barrier = threading.Barrier(n)
    share_between_threads(lambda part: barrier.wait(PATIENCE), list(range(n)))
    own, *others = threads_of(list(range(n)))
    assert own == threading.get_ident()
    assert len({own, *others}) == n


def test_threads_are_used_again():
    assert set(threads_of([1, 2, 3])) == set(threads_of([1, 2, 3]))


@pytest.mark.parametrize("broken", [{0}, {1}, {2}, {1, 2}, {0, 1, 2}])
def test_errors_come_through_when_all_is_done(broken):
    done = set()
    barrier = threading.Barrier(3)

    def work(part):
        barrier.wait(PATIENCE)
        if part in broken:
            raise ValueError(f"part {part}")
        time.sleep(0.02)
        done.add(part)

    with pytest.raises(ValueError, match="part"):
        share_between_threads(work, [0, 1, 2])
    assert done == {0, 1, 2} - broken  # nobody writes any more to what the caller has
    for _ in range(3):  # and the error of another call is not told again
        assert len(set(threads_of([0, 1, 2]))) == 3


def test_calls_within_calls_go_one_after_the_other():
    found = {}

    def outer(part):
        found[part] = threads_of([f"{part}a", f"{part}b"]), threading.get_ident()

    share_between_threads(outer, [0, 1])
    assert len(found) == 2
    for inner, own in found.values():
        assert set(inner) == {own}
    assert len(set(threads_of([0, 1]))) == 2


def test_calls_beside_each_other_are_all_done():
    """Only one of them has the helpers; products of several threads are right."""
    results, barrier = {}, threading.Barrier(4)

    def caller(number):
        barrier.wait(PATIENCE)
        for turn in range(50):
            out = np.zeros(6)

            def fill(bounds, out=out):
                out[slice(*bounds)] += number

            share_between_threads(fill, chunk_bounds(6, 2))
            results[number, turn] = out.tolist()

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(PATIENCE)
    assert results == {(number, turn): [number] * 6 for number in range(4) for turn in range(50)}


def test_threads_of_a_pool_do_not_share_their_parts(monkeypatch):
    """All cores are busy then."""
    monkeypatch.setenv("SEQLOOM_THREADS", "2")
    found = list(parallel_map(lambda item: (threads_of([0, 1, 2]), threading.get_ident()), range(6)))
    assert all(set(inner) == {own} for inner, own in found)
    assert threading.get_ident() not in {own for _, own in found}


def test_helpers_keep_nothing_of_a_call():
    """Else the arrays of a large product would stay until the next one."""
    class Large:
        pass

    large = Large()
    gone = weakref.ref(large)
    share_between_threads(lambda part, large=large: None, [0, 1, 2])
    del large
    deadline = time.monotonic() + PATIENCE
    while gone() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="no forks on this system")
def test_a_forked_process_has_helpers_of_its_own():
    """Threads do not live on in a child, whether or not they were busy when it began."""
    program = textwrap.dedent("""
        import os, sys, threading, time
        from seqloom.kernels.parallel import share_between_threads

        def together():
            barrier = threading.Barrier(3)
            share_between_threads(lambda part: barrier.wait(60), [0, 1, 2])

        def fork():
            child = os.fork()
            if not child:
                together()
                os._exit(0)
            return os.waitpid(child, 0)[1]

        together()
        codes = [fork()]
        begun, go_on = threading.Event(), threading.Event()
        def busy(part):
            begun.set()
            go_on.wait(60)
        other = threading.Thread(target=share_between_threads, args=(busy, [0, 1, 2]))
        other.start()
        begun.wait(60)
        codes.append(fork())
        go_on.set()
        other.join(60)
        together()
        sys.exit(codes != [0, 0])
    """)
    assert subprocess.run([sys.executable, "-c", program], timeout=2 * PATIENCE).returncode == 0


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads on this system")
def test_ctrl_c_is_heard_when_all_is_done():
    """And what is called next starts from the beginning."""
    program = textwrap.dedent("""
        import os, signal, sys, threading, time
        from seqloom.kernels.parallel import share_between_threads

        signal.signal(signal.SIGINT, signal.default_int_handler)
        main, done = threading.main_thread().ident, []
        def work(part):
            if part:
                while not waiting.is_set():
                    time.sleep(0.001)
                time.sleep(0.05)
                if part == 1:
                    signal.pthread_kill(main, signal.SIGINT)
                    time.sleep(0.05)
                    signal.pthread_kill(main, signal.SIGINT)
                time.sleep(0.1 * part)
                done.append(part)
            else:
                waiting.set()
        for _ in range(3):
            waiting = threading.Event()
            done.clear()
            try:
                share_between_threads(work, [0, 1, 2, 3])
            except KeyboardInterrupt:
                assert sorted(done) == [1, 2, 3], done
            else:
                sys.exit("nothing was heard")
            barrier = threading.Barrier(4)
            share_between_threads(lambda part: barrier.wait(60), [0, 1, 2, 3])
    """)
    ran = subprocess.run([sys.executable, "-c", program], timeout=2 * PATIENCE, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_number_of_threads(monkeypatch):
    monkeypatch.setenv("SEQLOOM_THREADS", "3")
    assert thread_count() == 3
    for given in ("", "0", "-1", "many"):
        monkeypatch.setenv("SEQLOOM_THREADS", given)
        assert 1 <= thread_count() <= os.cpu_count()


def test_chunks():
    assert chunk_bounds(7, 3) == [(0, 3), (3, 6), (6, 7)]
    assert chunk_bounds(0, 3) == []


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_of_a_map_are_in_order(monkeypatch, threads):
    monkeypatch.setattr(parallel, "thread_count", lambda: threads)

    def slower_first(item):
        time.sleep(0.002 * (5 - item % 5))
        return item * item

    assert list(parallel_map(slower_first, iter(range(23)))) == [item * item for item in range(23)]
    with pytest.raises(ZeroDivisionError):
        list(parallel_map(lambda item: 1 // (item - 7), range(23)))
