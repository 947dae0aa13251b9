"""Stretches of text as the units of comparison and of resampling.

Models cut the same text into different tokens, so they are compared on stretches of its bytes. A token
counts for the segment in which it starts; a token without bytes of its own (an end symbol) counts for the
segment of the byte before it, which it ends.
"""

from __future__ import annotations

import numpy as np

MOST = 5000   # segments; more would not make an interval better, only slower
LONG = 20     # a line is cut when it is longer than this many blocks


def segment_sums(token_nats: np.ndarray, token_end_byte: np.ndarray, segment_end_byte: np.ndarray) -> np.ndarray:
    """The sum over the tokens of each segment, float64; offsets count from the start of the text.

    >>> segment_sums(np.array([1.0, 2.0, 4.0]), np.array([3, 6, 8]), np.array([4, 8]))
    array([3., 4.])
    """
    ends, borders = np.asarray(token_end_byte, np.int64), np.asarray(segment_end_byte, np.int64)
    if len(token_nats) != len(ends):
        raise ValueError(f"{len(token_nats)} costs for {len(ends)} tokens")
    if (np.diff(ends, prepend=0) < 0).any() or (np.diff(borders, prepend=0) <= 0).any():
        raise ValueError("token ends must not fall, and segment ends must rise")
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    starts = np.where(starts == ends, np.maximum(ends - 1, 0), starts)
    owner = np.searchsorted(borders, starts, side="right")  # segment s holds the bytes borders[s-1]..borders[s]-1
    if len(owner) and owner[-1] >= len(borders):
        raise ValueError(f"a token starts at byte {starts[-1]}, after the end of the last segment")
    return np.bincount(owner, weights=np.asarray(token_nats, np.float64), minlength=len(borders))


def line_segments(data: bytes, *, minimum: int = 1, block: int = 1000) -> np.ndarray:
    r"""Where segments end: after lines, int64, rising, the last one at the end of the text.

    A line of more than 20 blocks is cut into blocks, so that text without lines has segments too. Then
    neighbours are joined until each has at least `minimum` bytes and there are not more than 5000.

    >>> line_segments(b"one\ntwo\nthree").tolist()
    [4, 8, 13]
    >>> line_segments(b"one\ntwo\nthree", minimum=5).tolist()
    [8, 13]
    """
    if minimum < 1 or block < 1:
        raise ValueError(f"minimum and block must be at least 1; got {minimum} and {block}")
    if not data:
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
    ends = _cut_long(ends.astype(np.int64), block)
    return _join_short(ends, max(minimum, -(-len(data) // MOST)))


def _cut_long(ends: np.ndarray, block: int) -> np.ndarray:
    """Further ends inside long lines, `block` bytes apart; the last block of a line may be up to twice as long."""
    starts = np.concatenate([[0], ends[:-1]])
    long = np.flatnonzero(ends - starts > LONG * block)
    inside = [np.arange(starts[i] + block, ends[i] - block + 1, block) for i in long]
    return np.sort(np.concatenate([ends, *inside]))


def _join_short(ends: np.ndarray, minimum: int) -> np.ndarray:
    """The ends that are at least `minimum` after the last one kept; the rest of the text joins the last segment."""
    total = int(ends[-1])
    kept: list[int] = []
    at = 0
    while at + minimum <= total:
        at = int(ends[np.searchsorted(ends, at + minimum)])
        kept.append(at)
    if not kept:
        return np.array([total], np.int64)
    kept[-1] = total
    return np.array(kept, np.int64)
