"""Passes of hidden Markov models over batches: scaled, or with logarithms where a step comes near zero.

Sequences are packed into a `Batch`; a kind of emissions gives a `View` of it, the probability of
each row in each state. Scaled passes are fast; a sequence in which some p(x_t | past) falls below
kernels.hmm.TINY is repeated with logarithms, so that outliers under a Gaussian, or probabilities of
1e-300, are computed correctly, and only the impossible is -inf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from seqloom.batching import by_step
from seqloom.errors import ConfigError, DataError

BATCH_VALUES = 1 << 18  # tokens times states of one batch, so that its beliefs stay in cache
MIN_BATCH_TOKENS = 1 << 10


@dataclass(frozen=True)
class Batch:
    """Neighbouring sequences, sorted by falling length, with tokens laid out step by step (see
    kernels/hmm.py).

    The bounds of batches depend on the lengths alone, so sums over batches do not depend on the
    threads. For emission counts over a large vocabulary a batch numbers only the symbols that occur
    in it.
    """

    first: int  # index of its first sequence
    order: np.ndarray  # (n,) its sequences by falling length, counted from `first`
    lengths: np.ndarray  # (n,) in that order
    offsets: np.ndarray  # (T + 1,) rows of a step
    where: np.ndarray  # (rows,) position of a row in the flat data
    symbols: (
        np.ndarray
    )  # (rows,) indices into `distinct`; the row itself where there are no symbols
    distinct: np.ndarray  # (U,) the symbols that occur

    @property
    def sequences(self) -> np.ndarray:
        return self.first + self.order

    def rows(self, lane: int) -> np.ndarray:
        """Return the rows of one sequence, in time order."""
        return self.offsets[: self.lengths[lane]] + lane


def check_lengths(total: int, lengths: np.ndarray | None) -> np.ndarray:
    """Return int64 lengths after checking that they add up; None is one sequence."""
    lengths = np.array([total] if lengths is None else lengths, np.int64).reshape(-1)
    if (lengths < 0).any() or lengths.sum() != total:
        raise DataError(
            f"lengths must be at least 0 and add up to the {total:,} tokens; they add up to {lengths.sum():,}"
        )
    return lengths


def check_symbols(ids: np.ndarray, vocab_size: int) -> np.ndarray:
    array = np.asarray(ids)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise DataError(
            f"symbols must be a flat array of whole numbers; got shape {array.shape}, type {array.dtype}"
        )
    if len(array) and (array.min() < 0 or array.max() >= vocab_size):
        position = int(np.flatnonzero((array < 0) | (array >= vocab_size))[0])
        raise DataError(
            f"symbol {array[position]} at position {position:,} is outside the vocabulary of {vocab_size:,}"
        )
    return array.astype(np.int64, copy=False)


@dataclass(frozen=True)
class Packer:
    """Cuts the data into spans of sequences, and packs a span in the thread that will work on it."""

    lengths: np.ndarray  # (n,)
    n_states: int
    ids: np.ndarray | None = None  # without symbols a row is its own symbol
    vocab_size: int = 0

    @cached_property
    def begins(self) -> np.ndarray:
        return np.cumsum(self.lengths) - self.lengths

    def spans(self) -> list[tuple[int, int]]:
        size = max(BATCH_VALUES // self.n_states, MIN_BATCH_TOKENS)
        cuts = np.flatnonzero(np.diff(self.begins // size, prepend=-1, append=-1)).tolist()
        return list(pairwise(cuts))

    def __call__(self, span: tuple[int, int]) -> Batch:
        from seqloom.kernels.hmm import pack

        lengths = self.lengths[slice(*span)]
        order, offsets = by_step(lengths)
        where = np.empty(offsets[-1], np.int64)
        pack(self.begins[slice(*span)][order], offsets, where)
        symbols, distinct = self._symbols(where)
        return Batch(span[0], order, lengths[order], offsets, where, symbols, distinct)

    def _symbols(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from seqloom.kernels.hmm import renumber

        if self.ids is None:
            return np.arange(len(where)), np.arange(len(where))
        symbols = np.empty(len(where), np.int32)
        return symbols, renumber(self.ids, where, np.full(self.vocab_size, -1, np.int32), symbols)


# ---- passes


@dataclass(frozen=True)
class View:
    """p(row | state) of a batch is table[symbols[row]] exp(shift[row]), padded with zeros to the width."""

    table: np.ndarray  # (U, P)
    symbols: np.ndarray  # (rows,)
    shift: np.ndarray | None  # (rows,), or none
    # Computes log p(row | state) of these rows, (n, P), padded with -inf.
    log_rows: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Padded:
    """Start and transitions with impossible states added, as numbers and as logarithms."""

    start: np.ndarray  # (P,)
    transitions: np.ndarray  # (P, P)
    incoming: np.ndarray  # its transpose
    log_start: np.ndarray
    log_transitions: np.ndarray
    log_incoming: np.ndarray

    @classmethod
    def of(cls, start: np.ndarray, transitions: np.ndarray) -> Padded:
        s, p = len(start), width_of(len(start))
        a, b = np.zeros(p), np.zeros((p, p))
        a[:s], b[:s, :s] = start, transitions
        turned = np.ascontiguousarray(b.T)
        return cls(a, b, turned, log(a), log(b), log(turned))


@dataclass
class Forward:
    beliefs: np.ndarray  # (rows, P)
    scales: np.ndarray  # (rows,) p(x_t | past) without the shift; 0 where scaling failed
    log_likelihoods: np.ndarray  # (n,)
    # By sequence: those where scaling failed.
    log_passes: dict[int, LogPass] = field(default_factory=dict)


@dataclass
class LogPass:
    beliefs: np.ndarray  # (T, P)
    log_scales: np.ndarray  # (T,)
    smoothed: np.ndarray  # (T, P)
    pairs: np.ndarray  # (P, P)


def width_of(n_states: int) -> int:
    """Return `n_states` rounded up to a multiple of four: the kernels take four states together."""
    return (n_states + 3) // 4 * 4


def log(values: np.ndarray) -> np.ndarray:
    """Compute logarithms, -inf for zero, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def run_forward(padded: Padded, batch: Batch, view: View, *, smoothing: bool = False) -> Forward:
    from seqloom.kernels.hmm import forward, log_products

    n = len(batch.where)
    result = Forward(np.empty((n, len(padded.start))), np.empty(n), np.empty(len(batch.order)))
    forward(
        padded.start,
        padded.incoming,
        view.table,
        view.symbols,
        batch.offsets,
        result.beliefs,
        result.scales,
    )
    log_products(result.scales, batch.offsets, result.log_likelihoods)
    lost = np.flatnonzero(result.log_likelihoods == -np.inf)
    if view.shift is not None:
        lanes = np.arange(n) - np.repeat(batch.offsets[:-1], np.diff(batch.offsets))
        result.log_likelihoods += np.bincount(lanes, view.shift, len(batch.order))
    for lane in lost.tolist():
        log_pass = with_logarithms(padded, view.log_rows(batch.rows(lane)), smoothing)
        result.log_passes[lane], result.log_likelihoods[lane] = log_pass, log_pass.log_scales.sum()
    return result


def with_logarithms(padded: Padded, log_likelihoods: np.ndarray, smoothing: bool) -> LogPass:
    from seqloom.kernels.hmm import log_pass

    width = len(padded.start)
    result = LogPass(
        np.empty_like(log_likelihoods),
        np.empty(len(log_likelihoods)),
        np.empty_like(log_likelihoods),
        np.zeros((width, width)),
    )
    log_pass(
        padded.log_start,
        padded.log_transitions,
        log_likelihoods,
        result.beliefs,
        result.log_scales,
        result.smoothed,
        result.pairs,
        smoothing,
    )
    return result


def filtered(padded: Padded, batch: Batch, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Compute beliefs (rows, P) and log p(x_t | past) (rows,) of a batch."""
    done = run_forward(padded, batch, view)
    log_probs = log(done.scales)
    if view.shift is not None:
        log_probs += view.shift
    for lane, log_pass in done.log_passes.items():
        rows = batch.rows(lane)
        done.beliefs[rows], log_probs[rows] = log_pass.beliefs, log_pass.log_scales
    return done.beliefs, log_probs


@dataclass(frozen=True)
class Smoothed:
    log_likelihoods: np.ndarray  # (n,)
    counts: np.ndarray  # (U, P) posteriors by symbol, or (rows, P)
    firsts: np.ndarray  # (P,)
    pairs: np.ndarray  # (P, P) expected transitions


def run_smooth(
    padded: Padded, batch: Batch, view: View, *, by_row: bool, want_pairs: bool
) -> Smoothed:
    """Run forward and backward: posteriors of each row, or added up by symbol."""
    from seqloom.kernels.hmm import smooth

    done = run_forward(padded, batch, view, smoothing=True)
    width = len(padded.start)
    targets = np.arange(len(batch.where)) if by_row else view.symbols
    counts = np.zeros((len(batch.where) if by_row else len(view.table), width))
    firsts, pairs = np.zeros(width), np.zeros((width, width))
    smooth(
        padded.transitions,
        view.table,
        view.symbols,
        batch.offsets,
        done.beliefs,
        done.scales,
        np.ones(len(batch.order)),
        targets,
        counts,
        firsts,
        pairs,
        want_pairs,
    )
    pairs = np.where(padded.transitions > 0, pairs, 0.0) * padded.transitions
    for lane, log_pass in done.log_passes.items():  # the kernel left only zeros for them
        np.add.at(counts, targets[batch.rows(lane)], log_pass.smoothed)
        firsts += log_pass.smoothed[0]
        pairs += log_pass.pairs
    return Smoothed(done.log_likelihoods, counts, firsts, pairs)


def run_viterbi(
    padded: Padded, batch: Batch, table: np.ndarray, symbols: np.ndarray, states: np.ndarray
) -> np.ndarray:
    """Write the best paths into states (T,), and return their joint log-probabilities (n,); table
    (U, P) holds logarithms.
    """
    from seqloom.kernels.hmm_paths import best_paths

    joints = np.empty(len(batch.order))
    best_paths(
        padded.log_start,
        padded.log_transitions,
        padded.log_incoming,
        table,
        symbols,
        batch.offsets,
        batch.lengths,
        batch.where,
        np.empty((len(batch.where), len(padded.start))),
        states,
        joints,
    )
    return joints


# ---- pairs

TOKENS = 1 << 12  # that one thread takes at a time


def viterbi_pairs(
    log_transitions: np.ndarray,
    emissions: np.ndarray,
    lengths: np.ndarray,
    candidates: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the best tags, (T,) int64, and their log-score for each sequence, (n,).

    The tag model has order two (trigrams of tags), as in Brants's TnT (2000).
    log_transitions[u, v, w] = log p(w | u, v), (S + 1, S + 1, S + 1). Index S is the boundary: as u
    and v it is what precedes a sequence, as w its end, so [S, S, w] scores the first tag, [S,
    v, w] the second, [u, v, S] the end. Put zeros in [:, :, S] where the end is not modelled.
    emissions[t, w]: any log-score of token t under tag w, (T, S); lengths: of the sequences in it.
    candidates: (firsts (T + 1,), tags), token t may only have tags[firsts[t]:firsts[t + 1]]; all S
    without it. The cost of a token is the product of the numbers of candidates of three neighbours.
    Ties go to the candidate that comes first.
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
        firsts, tags = (np.ascontiguousarray(span, np.int64) for span in candidates)
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

    def tag_span(span: tuple[int, int]) -> None:
        lo, hi = span
        best_tags(
            arriving, emissions, begins[lo:hi], lengths[lo:hi], firsts, tags, best, joints[lo:hi]
        )

    parallel_run(tag_span, zip(cuts[:-1].tolist(), cuts[1:].tolist()))
    if len(joints) and joints.min() == -np.inf:
        raise DataError(
            f"sequence {int(joints.argmin())} (counted from 0) has no possible tagging; "
            "smooth the transitions, or allow more tags"
        )
    return best, joints
