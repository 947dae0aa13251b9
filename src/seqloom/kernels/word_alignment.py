"""Expected counts of IBM model 1 (Brown et al. 1993, "The Mathematics of Statistical Machine Translation", equation 13).

The table of which target words may translate a source word is sparse: `starts` (E + 1,) says where the target words of each
source word begin in `words`, which are sorted there. Sources and targets are the words of many pairs behind one another, up to
their ends (n,); the empty word is among those of each source. A place is that of an entry of the table: there is one for each
target word of a pair and, in the order of the source, each of its source words.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def find_places(sources, source_ends, targets, target_ends, first, last, starts, words, places):
    """The places of all words of the pairs from `first` to before `last`, which are all in the table."""
    at = 0
    for pair in range(first, last):
        begin = source_ends[pair - 1] if pair else 0
        for j in range(target_ends[pair - 1] if pair else 0, target_ends[pair]):
            word = targets[j]
            for i in range(begin, source_ends[pair]):
                low, high = starts[sources[i]], starts[sources[i] + 1]
                while high - low > 1:
                    middle = (low + high) >> 1
                    if words[middle] <= word:
                        low = middle
                    else:
                        high = middle
                places[at] = low
                at += 1


@njit(nogil=True, cache=True)
def expected_counts(source_ends, target_ends, first, last, places, probs, counts):
    """Add to `counts` how often each entry of the table is expected in these pairs; returns their log-likelihood.

    A target word is shared among the words of its source in proportion to their probabilities, and has their mean itself.
    """
    total, at = 0.0, 0
    for pair in range(first, last):
        size = source_ends[pair] - (source_ends[pair - 1] if pair else 0)
        for _ in range(target_ends[pair] - (target_ends[pair - 1] if pair else 0)):
            whole = 0.0
            for k in range(at, at + size):
                whole += probs[places[k]]
            for k in range(at, at + size):
                counts[places[k]] += probs[places[k]] / whole
            total += np.log(whole / size)
            at += size
    return total
