"""Which files of a corpus, and which labelled examples, are held out.

Files are taken in the order of the hashes of their contents, so that neither the name of a file nor that of its folder
decides where it goes, and copies of a file stay together. The test part takes each file that brings it nearer to its size,
then the validation part; the others are trained on. So a large file never ends up where a small part is wanted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from seqloom.data.examples import is_pair
from seqloom.errors import DataError

TOLERANCE = 2.0  # how far a part may be from the size that was asked for, as a factor


def whole_files(
    digests: Sequence[str], sizes: Sequence[int], fractions: tuple[float, float, float]
) -> tuple[list[int], list[int], list[int]] | None:
    """Places of the files for training, validation and test; None where whole files miss the fractions by too much.

    >>> whole_files(["c", "a", "b", "d"], [50, 10, 10, 30], (0.8, 0.1, 0.1))
    ([0, 3], [2], [1])
    >>> whole_files(["c", "a", "b"], [10, 10, 10], (0.8, 0.1, 0.1)) is None
    True
    """
    total, groups = sum(sizes), _groups(digests, sizes)
    parts: list[list[int]] = []
    for fraction in (fractions[2], fractions[1]):
        wanted, have, taken, rest = fraction * total, 0, [], []
        for group in groups:
            size = _size(group, sizes)
            if abs(have + size - wanted) < abs(have - wanted):
                taken += group
                have += size
            else:
                rest.append(group)
        parts.append(taken)
        groups = rest
    test, valid = parts
    train = [place for group in groups for place in group]
    for part, fraction in zip((train, valid, test), fractions):
        if not fraction * total / TOLERANCE <= _size(part, sizes) <= fraction * total * TOLERANCE:
            return None
    return train, valid, test


def example_digest(example: Any) -> bytes:
    """Of a text or a pair of texts, whatever white space is between the words, or of an array."""
    if is_pair(example):
        return hashlib.sha256(b"".join(map(example_digest, example))).digest()
    if isinstance(example, str):
        return hashlib.sha256(" ".join(example.split()).encode("utf-8", "surrogatepass")).digest()
    return hashlib.sha256(np.ascontiguousarray(example).tobytes()).digest()


def hashed_order(examples: Sequence[Any]) -> tuple[list[int], list[bool]]:
    """Examples in the order of their hashes, in which classes are mixed whatever the order of the file; and at which places of
    that order a part may begin, as equal ones are never separated."""
    digests = [example_digest(example) for example in examples]
    order = sorted(range(len(digests)), key=lambda i: (digests[i], i))
    return order, [
        at == 0 or digests[order[at]] != digests[order[at - 1]] for at in range(len(order))
    ]


def hashed_parts(examples: Sequence[Any], fractions: Sequence[float]) -> list[np.ndarray]:
    """The places of the examples of each part, in hashed order; equal examples are in one part, and none is empty.

    >>> [len(part) for part in hashed_parts([f"text {i // 2}" for i in range(40)], (0.8, 0.1, 0.1))]
    [32, 4, 4]
    """
    order, may_begin = hashed_order(examples)
    borders = [0]
    for share in np.cumsum(fractions)[:-1]:
        at = min(max(round(share * len(order)), borders[-1] + 1), len(order) - 1)
        borders.append(next((i for i in range(at, len(order)) if may_begin[i]), len(order) - 1))
    parts = [np.array(order[a:b], np.int64) for a, b in pairwise([*borders, len(order)])]
    if not all(map(len, parts)):
        raise DataError(
            "too few of the examples differ from each other to hold some out; give data with more different ones, "
            "or give held-out data"
        )
    return parts


def _groups(digests: Sequence[str], sizes: Sequence[int]) -> list[list[int]]:
    """Files of the same content together, in the order of the hashes; empty files are left out."""
    groups: dict[str, list[int]] = {}
    for place in sorted((i for i, size in enumerate(sizes) if size), key=lambda i: digests[i]):
        groups.setdefault(digests[place], []).append(place)
    return list(groups.values())


def _size(places: Sequence[int], sizes: Sequence[int]) -> int:
    return sum(sizes[place] for place in places)
