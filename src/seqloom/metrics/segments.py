"""Stretches of text as the units of comparison and of resampling.

Models cut the same text into different tokens, so they are compared on stretches of its bytes. A token
counts for the segment in which it starts; a token without bytes of its own (an end symbol) counts for the
segment of the byte before it, which it ends.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

MOST = 5000  # segments; more would not make an interval better, only slower
LONG = 20  # a line is cut when it is longer than this many blocks


def segment_sums(
    token_nats: np.ndarray,
    token_end_byte: np.ndarray,
    segment_end_byte: np.ndarray,
    first_byte: int = 0,
) -> np.ndarray:
    """The sum over the tokens of each segment, float64; offsets count from the start of the text.

    `first_byte`: where the first token starts, of tokens from the middle of a text.

    >>> segment_sums(np.array([1.0, 2.0, 4.0]), np.array([3, 6, 8]), np.array([4, 8]))
    array([3., 4.])
    """
    ends, borders = np.asarray(token_end_byte, np.int64), np.asarray(segment_end_byte, np.int64)
    if len(token_nats) != len(ends):
        raise ValueError(f"{len(token_nats)} costs for {len(ends)} tokens")
    if (np.diff(ends, prepend=first_byte) < 0).any() or (np.diff(borders, prepend=0) <= 0).any():
        raise ValueError("token ends must not fall, and segment ends must rise")
    starts = np.concatenate([[first_byte], ends[:-1]]) if len(ends) else ends
    starts = np.where(starts == ends, np.maximum(ends - 1, 0), starts)
    owner = np.searchsorted(
        borders, starts, side="right"
    )  # segment s holds the bytes borders[s-1]..borders[s]-1
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
    return segment_ends([data], len(data), minimum=minimum, block=block)


def segment_ends(
    chunks: Iterable[bytes], total: int, *, minimum: int = 1, block: int = 1000
) -> np.ndarray:
    """`line_segments` of a text of `total` bytes that comes in chunks."""
    if minimum < 1 or block < 1:
        raise ValueError(f"minimum and block must be at least 1; got {minimum} and {block}")
    if not total:
        return np.zeros(0, np.int64)
    minimum = max(minimum, -(-total // MOST))
    kept: list[int] = []
    read = begin = at = (
        0  # bytes; where the line that is being read begins; where the last segment ends
    )
    for chunk in chunks:
        ends = read + 1 + np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
        read += len(chunk)
        if read == total and (not len(ends) or ends[-1] != total):
            ends = np.append(ends, total)
        if not len(ends):
            continue
        places, begin = _cut_long(begin, ends, block), int(ends[-1])
        while (place := int(np.searchsorted(places, at + minimum))) < len(
            places
        ):  # neighbours are joined
            at = int(places[place])
            kept.append(at)
    return np.array([*kept[:-1], total], np.int64)  # the rest of the text joins the last segment


def _cut_long(begin: int, ends: np.ndarray, block: int) -> np.ndarray:
    """Further ends inside long lines, `block` bytes apart; the last block of a line may be up to twice as long."""
    starts = np.concatenate([[begin], ends[:-1]])
    long = np.flatnonzero(ends - starts > LONG * block)
    inside = [np.arange(starts[i] + block, ends[i] - block + 1, block) for i in long]
    return np.sort(np.concatenate([ends, *inside]))
