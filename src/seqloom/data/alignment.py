"""From which line on two files that should be line-aligned are not, where one has more lines than the other.

Texts that translate each other have lengths in about the same ratio; neighbours that do not, have not. So each line costs
how far its ratio (in logarithms) is from the usual one, and of all ways to leave out the lines that one file has too many,
the cheapest is found: after the first k are left out, line i + k of the longer file faces line i of the shorter. As in Gale
and Church 1993, "A Program for Aligning Sentences in Bilingual Corpora", but with one operation.

    >>> first_mismatch(["a" * n for n in (3, 9, 4, 20, 7, 30, 2)], ["b" * n for n in (3, 9, 20, 7, 30, 2)])
    2
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqloom.errors import DataError, quoted

MOST = 64  # lines too many of which the places are looked for
_CAP = 1.5  # no single line costs more: a free translation is no proof
_VARIES = 0.1  # least standard deviation of lengths (in logarithms) that say something: a tenth of the length
_EVIDENCE = 1.0  # what leaving out lines before the end must save: some two or three lines


def unequal_lines(names: tuple[str, str], lines: tuple[list[str], list[str]]) -> DataError:
    """What to say of two files with different numbers of lines."""
    counts = f"{names[0]} has {len(lines[0]):,} lines and {names[1]} {len(lines[1]):,}"
    for name, side in zip(names, lines):
        if _all_alike(side):
            return DataError(
                f"{counts}; where they stop matching cannot be told, since the lines of {name} are all about as "
                "long"
            )
    at = first_mismatch(*lines)
    if at is None:
        return DataError(
            f"{counts}, so they cannot be translations line by line; are they the same part of the data?"
        )
    shorter = min(map(len, lines))
    if at >= shorter:
        return DataError(
            f"{counts}; the first {shorter:,} seem to match, so the shorter one was perhaps cut off"
        )
    shown = " beside ".join(quoted(side[at][:40].strip()) for side in lines)
    return DataError(
        f"{counts}; by their lengths they stop matching near line {at + 1:,} ({shown}): is a line missing, "
        "doubled or broken there?"
    )


def _all_alike(lines: Sequence[str]) -> bool:
    """Whether lengths say nothing, as those of dates in one form."""
    return float(np.std(np.log1p([len(line) for line in lines]))) < _VARIES


def first_mismatch(first: Sequence[str], second: Sequence[str]) -> int | None:
    """The place, from 0, of the first line that faces the wrong one; None where the files differ by too many lines."""
    a, b = (
        np.log1p(np.fromiter(map(len, side), np.float64, len(side))) for side in (first, second)
    )
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    n, extra = len(shorter), len(longer) - len(shorter)
    if extra > MOST or extra > n:
        return None
    usual = np.median(longer[:n] - shorter) if n else 0.0
    best, plain = np.empty(0), 0.0
    places = np.full(n + 1, n)  # where lines were first left out on the best way to here
    for k in range(extra + 1):
        costs = np.minimum(np.abs(longer[k : k + n] - shorter - usual), _CAP)
        total = np.concatenate([[0.0], np.cumsum(costs)])
        if k == 0:
            best = total
            plain = total[n]
            continue
        gain = best - total
        least = np.minimum.accumulate(gain)
        new = np.concatenate([[True], gain[1:] < least[:-1]])
        since = np.maximum.accumulate(np.where(new, np.arange(n + 1), 0))
        places = since if k == 1 else places[since]
        best = total + least
    return int(places[n]) if plain - best[n] > _EVIDENCE else n
