import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.metrics.language import line_segments, segment_sums


@given(st.lists(st.integers(0, 5), max_size=12), st.data())
def test_sums_equal_the_obvious_loop(sizes, data):
    ends = np.cumsum(sizes, dtype=np.int64)
    total = max(1, sum(sizes))
    inner = data.draw(st.sets(st.integers(1, total), max_size=4))
    row_offsets = np.array(sorted(inner | {total}))
    costs = np.arange(1.0, len(sizes) + 1)
    expected = np.zeros(len(row_offsets))
    for i, end in enumerate(ends.tolist()):
        byte = end - sizes[i] if sizes[i] else max(end - 1, 0)
        expected[next(s for s, border in enumerate(row_offsets) if byte < border)] += costs[i]
    assert segment_sums(costs, ends, row_offsets).tolist() == expected.tolist()


def test_different_tokens_same_segments():
    row_offsets = np.array([5, 10])
    by_byte = segment_sums(np.ones(11), np.array([*range(1, 11), 10]), row_offsets)
    by_three = segment_sums(
        np.array([3.0, 3.0, 3.0, 1.0, 1.0]), np.array([3, 6, 9, 10, 10]), row_offsets
    )
    assert by_byte.tolist() == [5, 6]  # the end symbol has no byte and belongs to the last segment
    assert by_three.tolist() == [6, 5]  # a token counts where it starts
    assert by_byte.sum() == by_three.sum()


def test_infinite_costs_stay_in_their_segment():
    assert segment_sums(
        np.array([1.0, np.inf, 2.0]), np.array([1, 2, 3]), np.array([1, 2, 3])
    ).tolist() == [1, np.inf, 2]


def test_segments_without_tokens_are_zero():
    assert segment_sums(np.array([2.0]), np.array([9]), np.array([3, 6, 9])).tolist() == [2, 0, 0]
    assert segment_sums(np.array([]), np.array([]), np.array([3, 6])).tolist() == [0, 0]


def test_bad_offsets():
    with pytest.raises(ValueError, match="after the end"):
        segment_sums(np.ones(2), np.array([4, 8]), np.array([4]))
    with pytest.raises(ValueError, match="2 costs for 1"):
        segment_sums(np.ones(2), np.array([4]), np.array([4]))
    for ends, row_offsets in (([4, 3], [4]), ([3, 4], [4, 4])):
        with pytest.raises(ValueError, match="rise"):
            segment_sums(np.ones(2), np.array(ends), np.array(row_offsets))


@given(
    st.binary(max_size=60).map(lambda b: b.replace(b"\x00", b"\n")),
    st.integers(1, 20),
    st.integers(1, 3),
)
def test_segments_cover_the_text(data, minimum, block):
    ends = line_segments(data, minimum=minimum, block=block)
    sizes = np.diff(ends, prepend=0)
    assert sizes.sum() == len(data)
    assert (sizes >= min(minimum, len(data))).all()
    longest = max(map(len, data.split(b"\n"))) + 1 if data else 0
    if longest <= 20 * block:  # nothing was cut inside a line
        assert all(data[end - 1] == ord("\n") for end in ends[:-1])


def test_plain_lines_are_left_as_they_are():
    assert line_segments(b"a\n\nbcd\n").tolist() == [2, 3, 7]
    assert line_segments(b"").tolist() == []
    assert line_segments(b"abc").tolist() == [3]


def test_long_lines_are_cut_into_blocks():
    data = b"a short line\n" + b"x" * 25_500 + b"\n" + b"y" * 15_000
    sizes = np.diff(line_segments(data), prepend=0)
    assert sizes[0] == 13
    assert (sizes[1:25] == 1000).all()
    assert sizes[25:].tolist() == [
        1501,
        15_000,
    ]  # the rest of the long line; then one that is not too long


def test_many_lines_are_joined():
    ends = line_segments(b"ab\n" * 100_000)
    assert 4_500 <= len(ends) <= 5_000
    assert (ends % 3 == 0).all()
    with pytest.raises(ValueError, match="block"):
        line_segments(b"a", block=0)
