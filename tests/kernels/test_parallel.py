"""Chunks, pools of threads, and how many there are."""

import os
import time

import pytest

from seqloom.kernels import parallel
from seqloom.kernels.parallel import chunk_bounds, parallel_map, text_batches, thread_count


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


def test_no_text_is_lost_between_batches():
    """Those at the end too, which do not fill one."""
    texts = ["abc", "de", "f", "ghij", "k"]
    assert [list(batch) for batch in text_batches(texts, 6)] == [
        ["abc", "de"],
        ["f", "ghij"],
        ["k"],
    ]
    assert list(text_batches([])) == []
