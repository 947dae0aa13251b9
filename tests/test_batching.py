"""Batches, layouts and padding against the plainest way to make them."""

import numpy as np
import pytest

from seqloom import batching

RNG = np.random.default_rng(5)
MANY = [RNG.integers(0, high, n) for n in (0, 1, 2, 17, 200) for high in (1, 4, 50)]
LIMITS = [(None, 7), (60, None), (60, 7), (3, None), (None, None)]


def greedy(items, fits):
    """Neighbours together as long as they fit; one always does."""
    groups = []
    for item in items:
        if not groups or not fits([*groups[-1], item]):
            groups.append([])
        groups[-1].append(item)
    return groups


@pytest.mark.parametrize(("most", "rows"), LIMITS)
@pytest.mark.parametrize("sides", [1, 2])
def test_cuts_are_greedy(most, rows, sides):
    def fits(group):
        steps = len(group) * sum(map(max, zip(*group)))
        return (most is None or steps <= most) and (rows is None or len(group) <= rows)

    for n in (0, 1, 9, 150):
        lengths = RNG.integers(1, 12, (n, sides))
        found = batching.cut(lengths[:, 0] if sides == 1 else lengths, most, rows)
        expected = greedy(lengths.tolist(), fits)
        assert [high - low for low, high in found] == [len(group) for group in expected]
        assert [low for low, _ in found] == [0, *(high for _, high in found[:-1])][: len(found)]


@pytest.mark.parametrize("lengths", MANY, ids=len)
def test_like_lengths_hold_everything_the_longest_first(lengths):
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])  # which is stable
    assert batching.longest_first(lengths).tolist() == order
    for most, rows in LIMITS:
        batches = batching.like_lengths(lengths.tolist(), most, rows)
        assert [i for batch in batches for i in batch.tolist()] == order
        for batch in batches:
            assert most is None or len(batch) == 1 or len(batch) * lengths[batch].max() <= most
            assert rows is None or len(batch) <= rows


@pytest.mark.parametrize("sizes", MANY, ids=len)
@pytest.mark.parametrize("most", [0, 30, 10**6])
def test_runs_are_greedy(sizes, most):
    expected = greedy(sizes.tolist(), lambda group: sum(group) <= most)
    found = batching.runs(sizes, most)
    assert [sizes[low:high].tolist() for low, high in found] == expected


def test_portions_of_a_stream_end_once_they_are_too_large():
    words = ["a", "bbb", "c", "d", "e", "ffff", "gg"]
    assert list(batching.portions(iter(words), 3, 3)) == [words[:2], words[2:5], words[5:6], ["gg"]]
    assert list(batching.portions([], 3, 3)) == []


@pytest.mark.parametrize("lengths", MANY, ids=len)
def test_layouts_of_rows(lengths):
    starts = RNG.integers(0, 1000, len(lengths))
    assert batching.offsets(lengths).tolist() == [
        lengths[:i].sum() for i in range(len(lengths) + 1)
    ]
    assert batching.ranges(starts, lengths).tolist() == [
        start + i for start, length in zip(starts, lengths) for i in range(length)
    ]
    order, steps = batching.by_step(lengths)
    assert order.tolist() == batching.longest_first(lengths).tolist()
    longest = int(lengths.max(initial=0))
    assert np.diff(steps).tolist() == [(lengths > t).sum() for t in range(longest)]


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_padding_is_at_the_right(shape, dtype):
    rows = [RNG.integers(1, 9, (n, *shape)).astype(dtype) for n in (3, 0, 5, 1)]
    values, mask = batching.pad(rows, -1)
    assert values.shape == (4, 5, *shape)
    assert values.dtype == dtype
    for row, given in enumerate(rows):
        assert (values[row, : len(given)] == given).all()
        assert (values[row, len(given) :] == -1).all()
    assert (mask == batching.there([3, 0, 5, 1])).all()
    assert mask.sum(1).tolist() == [3, 0, 5, 1]
    assert batching.pad_flat(np.zeros(0), [0, 0], least=1)[0].shape == (2, 1)
    assert batching.pad([])[0].shape == (0, 0)
