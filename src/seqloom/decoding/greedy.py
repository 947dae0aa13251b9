"""Greedy search without scores: the likeliest token at every step, by any Stepper."""

from __future__ import annotations

import numpy as np

from seqloom.decoding.beam import beam_search
from seqloom.decoding.stepper import Stepper


def greedy(stepper: Stepper, n: int, max_tokens: int) -> list[tuple[np.ndarray, bool]]:
    """The tokens of each of n empty sequences, without the end symbol, and whether it came: as beam search of one beam.

    A Stepper that is quicker where nobody asks for probabilities has a method `greedy(n, max_tokens)`. It gives the same, or
    None where it is not quicker after all.
    """
    quicker = getattr(stepper, "greedy", None)
    found: list[tuple[np.ndarray, bool]] | None = None if quicker is None else quicker(n, max_tokens)
    if found is None:
        found = [(best[0].ids, best[0].finished) for best in
                 beam_search(stepper, [np.zeros(0, np.int64)] * n, beams=1, max_tokens=max_tokens)]
    return found
