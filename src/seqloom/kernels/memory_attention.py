"""Attention of the rows of a recurrent decoder to their sources (Bahdanau et al. 2015; Luong et al. 2015), a step at a time.

The vectors and keys of all source steps lie one source after the other; a row has the number of its source, so that nothing
is copied when a search reorders rows. `nn.memory` is the same for training.
"""

from numba import njit

from seqloom.kernels.cross_decode import add_scaled, dot, softmax
from seqloom.kernels.decode import tanh
from seqloom.kernels.few_rows import FAST, ZERO


@njit(nogil=True, cache=True, fastmath=FAST)
def additive(query, key, shift, covered, energy):
    """energy . tanh(query + key + shift covered); `covered` may be empty."""
    total = ZERO
    if len(covered) > 0:
        for j in range(len(query)):
            total += energy[j] * tanh(query[j] + key[j] + shift * covered[j])
    else:
        for j in range(len(query)):
            total += energy[j] * tanh(query[j] + key[j])
    return total


@njit(nogil=True, cache=True)
def attend_memory(queries, vectors, keys, borders, source, energy, scale, covered, coverage, out, looked):
    """Of queries (n, Q) to the vectors (N, D), by their keys (N, Q), of each row's source; out (n, D), and the weights in
    looked (n, S), which has zeros. With an `energy` (Q,) scores are additive, else products times `scale`. With `covered` (Q,) a
    key is shifted by what its step was given before, coverage (n, S), to which the weights are added."""
    for row in range(len(queries)):
        low = borders[source[row]]
        steps = borders[source[row] + 1] - low
        out[row] = ZERO
        if steps == 0:
            continue
        query, weights = queries[row], looked[row, :steps]
        along = dot(query, covered) if len(covered) > 0 else ZERO
        for t in range(steps):
            shift = coverage[row, t] if len(covered) > 0 else ZERO
            if len(energy) > 0:
                weights[t] = additive(query, keys[low + t], shift, covered, energy)
            else:
                weights[t] = scale * (dot(query, keys[low + t]) + shift * along)
        softmax(weights)
        for t in range(steps):
            add_scaled(out[row], weights[t], vectors[low + t])
            if len(covered) > 0:
                coverage[row, t] += weights[t]
