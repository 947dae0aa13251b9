"""Alignments: edit operations between sequences of ids, longest common subsequences, edit distances of
words, and the expected counts of IBM model 1 between sentences and their translations.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def edit_counts(references, reference_ends, hypotheses, hypothesis_ends, longest, out):
    """Count substitutions, deletions and insertions from reference k to hypothesis k in out[k];
    `longest`: length of the longest hypothesis.

    Alignments with equally few edits may differ in substitutions, so the choice must be fixed: a
    common prefix and suffix are matched, and from the end backwards a deletion is taken where the best
    alignment allows one, else an insertion where the cost falls in the column before, else the
    diagonal. Since that depends on neighbouring costs alone, the counts are carried forward with them,
    and one row of the table is enough.
    """
    costs, deletions = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    insertions = np.empty(longest + 1, np.int64)
    for k in range(len(out)):
        low, high = reference_ends[k], reference_ends[k + 1]
        start, stop = hypothesis_ends[k], hypothesis_ends[k + 1]
        while low < high and start < stop and references[low] == hypotheses[start]:
            low += 1
            start += 1
        while low < high and start < stop and references[high - 1] == hypotheses[stop - 1]:
            high -= 1
            stop -= 1
        width = stop - start
        for j in range(width + 1):
            costs[j], deletions[j], insertions[j] = j, 0, j
        for i in range(low, high):
            diagonal, diagonal_deletions, diagonal_insertions = (
                costs[0],
                deletions[0],
                insertions[0],
            )
            costs[0] += 1
            deletions[0] += 1
            for j in range(1, width + 1):
                above, above_deletions, above_insertions = costs[j], deletions[j], insertions[j]
                cost = diagonal + (references[i] != hypotheses[start + j - 1])
                cost = min(cost, above + 1, costs[j - 1] + 1)
                if cost == above + 1:
                    deletions[j] += 1
                elif j > 1 and costs[j - 1] == diagonal - 1:
                    deletions[j], insertions[j] = deletions[j - 1], insertions[j - 1] + 1
                else:
                    deletions[j], insertions[j] = diagonal_deletions, diagonal_insertions
                costs[j] = cost
                diagonal, diagonal_deletions, diagonal_insertions = (
                    above,
                    above_deletions,
                    above_insertions,
                )
        out[k, 0] = costs[width] - deletions[width] - insertions[width]
        out[k, 1], out[k, 2] = deletions[width], insertions[width]


@njit(nogil=True, cache=True)
def common_lengths(first, first_ends, second, second_ends, longest, out):
    """Compute out[k]: the length of the longest common subsequence of both sequences k; `longest`:
    length of the longest second sequence.
    """
    row = np.empty(longest + 1, np.int64)
    for k in range(len(out)):
        start, width = second_ends[k], second_ends[k + 1] - second_ends[k]
        row[: width + 1] = 0
        for i in range(first_ends[k], first_ends[k + 1]):
            diagonal = 0
            for j in range(1, width + 1):
                above = row[j]
                row[j] = (
                    diagonal + 1 if first[i] == second[start + j - 1] else max(above, row[j - 1])
                )
                diagonal = above
        out[k] = row[width]


# ---- spelling

MAX_WORD_BYTES = 64  # of the word that distances are computed to


@njit(nogil=True, cache=True)
def edit_distances(word, arena, offsets, limit, out):
    """Compute as out[k] the edit distance of `word` (1 to 64 bytes) to spelling k, or `limit + 1`
    where the lengths alone differ by more than `limit`.

    Levenshtein's distance, all rows of a column at once in the bits of one number: Myers 1999, "A fast
    bit-vector algorithm for approximate string matching", in Hyyrö's form (2003) for whole words. It
    counts bytes, so a letter outside ASCII weighs two or three: good enough for suggestions.
    """
    masks = np.zeros(256, np.uint64)
    one, size = np.uint64(1), len(word)
    for j in range(size):
        masks[word[j]] |= one << np.uint64(j)
    top = one << np.uint64(size - 1)
    for k in range(len(offsets) - 1):
        low, high = offsets[k], offsets[k + 1]
        if abs(high - low - size) > limit:
            out[k] = limit + 1
            continue
        distance = size
        # bits of the rows at which the distance rises or falls by one
        plus, minus = ~np.uint64(0), np.uint64(0)
        for i in range(low, high):
            equal = masks[arena[i]]
            across = (((equal & plus) + plus) ^ plus) | equal | minus
            right_up = minus | ~(across | plus)  # from the column before
            right_down = plus & across
            if right_up & top:
                distance += 1
            elif right_down & top:
                distance -= 1
            right_up = (right_up << one) | one
            right_down <<= one
            plus = right_down | ~(across | right_up)
            minus = right_up & across
        out[k] = distance


# ---- word alignment: IBM model 1 (Brown et al. 1993, "The Mathematics of Statistical Machine
# Translation", equation 13)
#
# The table of translation probabilities is sparse: `starts` (E + 1,) says where the target words of each
# source word begin in `words`, sorted. Sources and targets are the concatenated words of many pairs, up to
# their ends (n,); each source has the empty word too. `entries` are indices into the table: one for each
# target word of a pair and, in the order of the source, each of its source words.


@njit(nogil=True, cache=True)
def find_places(sources, source_ends, targets, target_ends, first, last, starts, words, entries):
    """Find the table entries of all pairs of words, which must all exist, in the sentence pairs from
    `first` to before `last`.
    """
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
                entries[at] = low
                at += 1


@njit(nogil=True, cache=True)
def expected_counts(source_ends, target_ends, first, last, entries, probs, counts):
    """Add to `counts` how often each entry of the table is expected in these pairs; return their
    log-likelihood.

    A target word is shared among the words of its source in proportion to their probabilities; its
    own probability is their mean.
    """
    log_likelihood, at = 0.0, 0
    for pair in range(first, last):
        size = source_ends[pair] - (source_ends[pair - 1] if pair else 0)
        for _ in range(target_ends[pair] - (target_ends[pair - 1] if pair else 0)):
            mass = 0.0
            for k in range(at, at + size):
                mass += probs[entries[k]]
            for k in range(at, at + size):
                counts[entries[k]] += probs[entries[k]] / mass
            log_likelihood += np.log(mass / size)
            at += size
    return log_likelihood
