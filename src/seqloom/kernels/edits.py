"""How two sequences of ids differ: edit operations of the cheapest alignment, and the longest common subsequence.

Among alignments with equally few edits there may be more or fewer substitutions, so the choice must be fixed: what both
sequences begin and end with is matched, and from the end backwards a deletion is taken where the best alignment allows one,
else an insertion where the column before falls, else the diagonal. Since that depends on neighbouring costs alone, the
counts are carried forward with them, and two rows of the table are enough.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def edit_counts(references, reference_ends, hypotheses, hypothesis_ends, longest, out):
    """out[k]: substitutions, deletions and insertions from reference k to hypothesis k; `longest` hypothesis of all."""
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
    """out[k]: length of the longest common subsequence of both sequences k; `longest` of the second."""
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
