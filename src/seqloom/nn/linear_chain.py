"""The linear chain of a conditional random field in NumPy: likelihoods with their gradients,
marginals, best paths.

    score(y | x) = start[y_1] + sum_t emissions[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_T],
    p = exp(score) / Z

`nn.crf` makes it a torch function; tagging with saved weights needs no torch. Batches are cut into
chunks by their shape alone, and sums are made chunk by chunk, so results are the same for any number
of threads. Passes are scaled (`kernels/hmm`); a sequence with scores so far apart that scaling would
lose some is computed again with logarithms. A sequence of length 0 has one path, the empty one, with
score 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from seqloom.batching import by_step
from seqloom.kernels.parallel import chunk_bounds, parallel_map

CHUNK_VALUES = 1 << 18  # steps times tags of one chunk: its beliefs stay in the processor's cache
NONE = -1  # the tag after a sequence's end


@dataclass(frozen=True)
class Expected:
    """Expected counts of tags; or expected minus observed counts, the gradient of the losses."""

    emissions: np.ndarray  # (B, T, K), zero beyond a sequence's length
    start: np.ndarray  # (K,)
    transitions: np.ndarray  # (K, K)
    end: np.ndarray  # (K,)


class Chain:
    """Scores of K tags: start (K,) of the first one, transitions [from, to] (K, K), end (K,) of the
    last.

    allowed (K + 1, K + 1), [from, to], has the legal pairs; its last row and column are the boundary:
    legal first and last tags.
    """

    def __init__(
        self,
        start: np.ndarray,
        transitions: np.ndarray,
        end: np.ndarray,
        allowed: np.ndarray | None = None,
    ) -> None:
        k = self.n_tags = len(start)
        width = -(-k // 4) * 4
        self.start, self.end = np.array(start, np.float64), np.array(end, np.float64)
        self.transitions = np.full((width, width), -np.inf)
        self.transitions[:k, :k] = transitions
        self.free = None if allowed is None else (start, transitions, end)
        if allowed is not None:
            self.start[~allowed[k, :k]] = self.end[~allowed[:k, k]] = -np.inf
            self.transitions[:k, :k][~allowed[:k, :k]] = -np.inf

    @cached_property
    def incoming(self) -> np.ndarray:
        return np.ascontiguousarray(self.transitions.T)

    @cached_property
    def scaled(self) -> _Scaled:
        return _Scaled.of(self.transitions)

    def losses(
        self,
        emissions: np.ndarray,
        tags: np.ndarray,
        lengths: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        gradients: bool = True,
    ) -> tuple[np.ndarray, Expected | None]:
        """Compute -log p(tags) (B,) of emissions (B, T, K) and tags (B, T), and the gradients of their
        sum, weighted by `weights` (B,).
        """
        lengths, tags = self._checked(emissions, lengths), np.ascontiguousarray(tags, np.int64)
        if tags.shape != emissions.shape[:2]:
            raise ValueError(
                f"tags must have the shape {emissions.shape[:2]}; they have {tags.shape}"
            )
        weights = np.ones(len(lengths)) if weights is None else np.asarray(weights, np.float64)

        def chunk(bounds: tuple[int, int]) -> tuple[np.ndarray, Expected | None]:
            part = slice(*bounds)
            return self._expect(
                _Packed(emissions[part], lengths[part]), tags[part], weights[part], gradients
            )

        parts = list(parallel_map(chunk, self._chunks(emissions)))
        losses = np.concatenate([losses for losses, _ in parts]) if parts else np.zeros(0)
        if (losses == np.inf).any():
            row = int(np.flatnonzero(losses == np.inf)[0])
            raise ValueError(
                f"the tags of row {row} are not allowed in this order: "
                f"{tags[row, : lengths[row]].tolist()[:20]}"
            )
        return losses, _joined(
            [expected for _, expected in parts if expected is not None], emissions
        ) if gradients else None

    def marginals(self, emissions: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return p(tag at each step) (B, T, K), zero beyond a sequence's length, and where no path is
        allowed.
        """
        lengths = self._checked(emissions, lengths)

        def chunk(bounds: tuple[int, int]) -> Expected | None:
            part = slice(*bounds)
            return self._expect(
                _Packed(emissions[part], lengths[part]), None, np.ones(bounds[1] - bounds[0]), True
            )[1]

        parts = [part for part in parallel_map(chunk, self._chunks(emissions)) if part is not None]
        return _joined(parts, emissions).emissions

    def best_paths(
        self, emissions: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the path of the highest score (B, T), -1 beyond a sequence's length, and that score
        (B,) (Viterbi 1967).

        Where no path is allowed it is the best of all paths, and its score is -inf.
        """
        lengths = self._checked(emissions, lengths)
        paths, scores = np.full(emissions.shape[:2], NONE), np.zeros(len(lengths))

        def chunk(bounds: tuple[int, int]) -> None:
            part = slice(*bounds)
            self._best(_Packed(emissions[part], lengths[part]), paths[part], scores[part])

        list(parallel_map(chunk, self._chunks(emissions)))
        forbidden = np.flatnonzero(scores == -np.inf)
        if len(forbidden) and self.free is not None:
            paths[forbidden] = Chain(*self.free).best_paths(
                emissions[forbidden], lengths[forbidden]
            )[0]
        return paths, scores

    def _checked(self, emissions: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        lengths = np.asarray(lengths, np.int64)
        if (
            emissions.ndim != 3
            or emissions.shape[2] != self.n_tags
            or lengths.shape != emissions.shape[:1]
        ):
            raise ValueError(
                f"emissions must have the shape (B, T, {self.n_tags}) and lengths (B,); they have "
                f"{emissions.shape} and {lengths.shape}"
            )
        if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= emissions.shape[1]:
            raise ValueError(
                f"lengths must lie in 0..{emissions.shape[1]}; they go from {lengths.min()} to "
                f"{lengths.max()}"
            )
        return lengths

    def _chunks(self, emissions: np.ndarray) -> list[tuple[int, int]]:
        steps = max(1, emissions.shape[1])
        return chunk_bounds(len(emissions), max(1, CHUNK_VALUES // (steps * len(self.transitions))))

    def _best(self, packed: _Packed, paths: np.ndarray, scores: np.ndarray) -> None:
        from seqloom.kernels.hmm_paths import best_paths

        table, joints = packed.table(self), np.empty(len(packed.order))
        if not (table < np.inf).all():
            raise ValueError("emissions hold NaN or +inf, so no path is the best")
        nothing = np.zeros(len(self.transitions))
        best_paths(
            nothing,
            self.transitions,
            self.incoming,
            table,
            packed.rows,
            packed.offsets,
            packed.lengths,
            packed.where,
            np.empty_like(table),
            paths.reshape(-1),
            joints,
        )
        scores[packed.order] = joints

    def _expect(
        self, packed: _Packed, tags: np.ndarray | None, weights: np.ndarray, gradients: bool
    ) -> tuple[np.ndarray, Expected | None]:
        """Compute the losses of one chunk, or log Z where there are no tags, and the expectations."""
        from seqloom.kernels import hmm
        from seqloom.kernels.hmm import forward, log_products, smooth

        k, n, width = self.n_tags, len(packed.order), len(self.transitions)
        table, weights = packed.table(self), weights[packed.order]
        joints, shifts, log_z, clear = np.zeros(n), np.empty(n), np.empty(n), np.empty(n, np.bool_)
        if tags is not None:
            tags = tags.reshape(-1)
            _check_tags(tags[packed.where], k)
            hmm.score_paths(table, self.transitions, tags, packed.where, packed.offsets, joints)
        hmm.exponentiate(table, packed.offsets, shifts, clear)
        beliefs, scales = np.empty_like(table), np.empty(len(table))
        forward(
            np.ones(width),
            self.scaled.incoming,
            table,
            packed.rows,
            packed.offsets,
            beliefs,
            scales,
        )
        clear &= self.scaled.exact | (packed.lengths < 2)
        hmm.set_aside(beliefs, scales, packed.offsets, clear)
        log_products(scales, packed.offsets, log_z)
        log_z += shifts + self.scaled.shift * np.maximum(packed.lengths - 1, 0)
        counts, pairs = np.zeros((len(table), width)), np.zeros((width, width))
        if gradients:
            smooth(
                self.scaled.transitions,
                table,
                packed.rows,
                packed.offsets,
                beliefs,
                scales,
                weights,
                packed.rows,
                counts,
                np.zeros(width),
                pairs,
                True,
            )
            pairs *= self.scaled.transitions
        for lane in np.flatnonzero(~clear).tolist():
            log_z[lane] = self._with_logarithms(
                packed, lane, weights[lane], counts, pairs, gradients
            )
        losses = np.empty(n)
        losses[packed.order] = np.where(joints == -np.inf, np.inf, log_z - joints)
        if not gradients:
            return losses, None
        if tags is not None:
            hmm.subtract_paths(tags, packed.where, packed.offsets, weights, counts, pairs)
        out, start, end = np.zeros(packed.shape, packed.flat.dtype), np.zeros(k), np.zeros(k)
        hmm.spread(
            counts, packed.where, packed.offsets, packed.lengths, out.reshape(-1, k), start, end
        )
        return losses, Expected(out, start, pairs[:k, :k], end)

    def _with_logarithms(
        self,
        packed: _Packed,
        lane: int,
        weight: float,
        counts: np.ndarray,
        pairs: np.ndarray,
        gradients: bool,
    ) -> float:
        """Return log Z of one sequence, and add its expectations to counts and pairs."""
        from seqloom.kernels.hmm import log_pass

        k, rows = self.n_tags, packed.offsets[: packed.lengths[lane]] + lane
        transitions = np.ascontiguousarray(self.transitions[:k, :k])
        scores = packed.flat[packed.where[rows]].astype(np.float64)
        scores[0] += self.start
        scores[-1] += self.end
        # NaN or +inf: a run that has diverged must show it
        if not ((scores < np.inf).all() and (transitions < np.inf).all()):
            counts[rows, :k] = pairs[:k, :k] = np.nan
            return np.nan
        beliefs, smoothed, transition_counts = (
            np.empty_like(scores),
            np.empty_like(scores),
            np.zeros((k, k)),
        )
        log_scales = np.empty(len(scores))
        log_pass(
            np.zeros(k),
            transitions,
            scores,
            beliefs,
            log_scales,
            smoothed,
            transition_counts,
            gradients,
        )
        counts[rows, :k] = weight * smoothed
        pairs[:k, :k] += weight * transition_counts
        return float(log_scales.sum())


@dataclass(frozen=True)
class _Scaled:
    """exp(transitions - shift); `exact` if no possible transition is too far below the largest."""

    transitions: np.ndarray  # (P, P)
    incoming: np.ndarray  # its transpose
    shift: float
    exact: bool

    @classmethod
    def of(cls, log_transitions: np.ndarray) -> _Scaled:
        from seqloom.kernels.hmm import STEP

        possible = log_transitions[np.isfinite(log_transitions)]
        shift = float(possible.max()) if len(possible) else 0.0
        numbers = log_transitions < np.inf  # neither NaN nor +inf
        exact = bool(numbers.all()) and (not len(possible) or bool(shift - possible.min() <= STEP))
        transitions = np.exp(np.where(numbers, log_transitions - shift, -np.inf))
        return cls(transitions, np.ascontiguousarray(transitions.T), shift, exact)


class _Packed:
    """Sequences in order of falling length, laid out step by step as the kernels read them."""

    def __init__(self, emissions: np.ndarray, lengths: np.ndarray) -> None:
        from seqloom.kernels.hmm import pack

        self.shape = emissions.shape
        _, steps, k = emissions.shape
        self.flat = np.ascontiguousarray(emissions).reshape(-1, k)
        self.order, self.offsets = by_step(lengths)
        self.lengths = lengths[self.order]
        self.where = np.empty(self.offsets[-1], np.int64)  # index of each row in `flat`
        pack(self.order * steps, self.offsets, self.where)
        self.rows = np.arange(len(self.where))

    def table(self, chain: Chain) -> np.ndarray:
        """Return the scores of the tags (rows, P), including those of the first and last tag."""
        from seqloom.kernels.hmm import gather

        table = np.empty((len(self.where), len(chain.transitions)))
        gather(self.flat, self.where, self.offsets, self.lengths, chain.start, chain.end, table)
        return table


def _check_tags(tags: np.ndarray, n_tags: int) -> None:
    if len(tags) and not 0 <= tags.min() <= tags.max() < n_tags:
        raise ValueError(
            f"tags must lie in 0..{n_tags - 1}; they go from {tags.min()} to {tags.max()}"
        )


def _joined(parts: list[Expected], emissions: np.ndarray) -> Expected:
    """Join the expectations of all chunks, summing in their order."""
    if len(parts) == 1:
        return parts[0]
    k = emissions.shape[2]
    emission_counts = (
        np.concatenate([part.emissions for part in parts]) if parts else np.zeros_like(emissions)
    )
    start, transitions, end = np.zeros(k), np.zeros((k, k)), np.zeros(k)
    for part in parts:
        start += part.start
        transitions += part.transitions
        end += part.end
    return Expected(emission_counts, start, transitions, end)
