"""Best taggings under a tag model of order two (trigrams of tags), as in Brants's TnT (2000)."""

from __future__ import annotations

import numpy as np

from seqloom.errors import ConfigError, DataError
from seqloom.models.hidden.batches import check_lengths

TOKENS = 1 << 12  # of a piece of work for one thread


def viterbi_pairs(
    log_transitions: np.ndarray,
    emissions: np.ndarray,
    lengths: np.ndarray,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The best tags, (T,) int64, and their log-score for each sequence, (n,).

    log_transitions[u, v, w] = log p(w | u, v), (S + 1, S + 1, S + 1). Index S is the border: as u and v it is what
    stands before a sequence, as w its end, so [S, S, w] scores the first tag, [S, v, w] the second, [u, v, S] the end.
    Put zeros in [:, :, S] where the end is not modelled.
    emissions[t, w]: any log-score of token t under tag w, (T, S); lengths: of the sequences in it.
    candidates: (firsts (T + 1,), tags), token t may only have tags[firsts[t]:firsts[t + 1]]; all S without it. The cost of
    a token is the product of the numbers of candidates of three neighbours. Ties go to the candidate that comes first.
    """
    from seqloom.kernels.hmm_paths import best_tags
    from seqloom.kernels.parallel import parallel_run

    emissions = np.ascontiguousarray(emissions, np.float64)
    if emissions.ndim != 2 or np.shape(log_transitions) != (emissions.shape[1] + 1,) * 3:
        raise ConfigError(
            f"transitions {np.shape(log_transitions)} and emissions {emissions.shape} do not fit; "
            "they are (S + 1, S + 1, S + 1) and (T, S)"
        )
    total, n_tags = emissions.shape
    lengths = check_lengths(total, lengths)
    if candidates is None:
        firsts, tags = np.arange(total + 1) * n_tags, np.tile(np.arange(n_tags), total)
    else:
        firsts, tags = (np.ascontiguousarray(part, np.int64) for part in candidates)
        counts = np.diff(firsts)
        if (
            len(firsts) != total + 1
            or firsts[0] != 0
            or firsts[-1] != len(tags)
            or (counts < 1).any()
        ):
            raise DataError(
                "candidates: every token needs at least one tag, and firsts must run from 0 to len(tags)"
            )
        if len(tags) and (tags.min() < 0 or tags.max() >= n_tags):
            raise DataError(f"candidates: a tag is outside 0..{n_tags - 1}")
    arriving = np.ascontiguousarray(
        np.asarray(log_transitions, np.float64).transpose(1, 2, 0)
    )  # [v, w, u]
    begins = np.cumsum(lengths) - lengths
    best, joints = np.empty(total, np.int64), np.zeros(len(lengths))
    cuts = np.flatnonzero(np.diff(begins // TOKENS, prepend=-1, append=-1))

    def one(part: tuple[int, int]) -> None:
        lo, hi = part
        best_tags(
            arriving, emissions, begins[lo:hi], lengths[lo:hi], firsts, tags, best, joints[lo:hi]
        )

    parallel_run(one, zip(cuts[:-1].tolist(), cuts[1:].tolist()))
    if len(joints) and joints.min() == -np.inf:
        raise DataError(
            f"sequence {int(joints.argmin())} (counted from 0) has no possible tagging; "
            "smooth the transitions, or allow more tags"
        )
    return best, joints
