"""One batch through the kernels: scaled where that is exact, with logarithms where a step comes near zero.

A kind of emissions hands over a `View` of a batch: how likely each row is in each state. Scaled passes are fast; a
sequence in which some p(x_t | past) falls below kernels.hmm.TINY is done again by `log_pass`, so that outliers under a
Gaussian, or probabilities of 1e-300, give what they should, and only the impossible is -inf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from seqloom.models.hidden.batches import Batch


@dataclass(frozen=True)
class View:
    """p(row | state) of a batch is table[symbols[row]] exp(shift[row]), padded with zeros to the width."""

    table: np.ndarray  # (U, P)
    symbols: np.ndarray  # (rows,)
    shift: np.ndarray | None  # (rows,), or none
    log_rows: Callable[
        [np.ndarray], np.ndarray
    ]  # log p(row | state) of these rows, (n, P), padded with -inf


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
    scales: np.ndarray  # (rows,) p(x_t | past) without the shift; 0 where a sequence was given up
    log_likelihoods: np.ndarray  # (n,)
    again: dict[int, LogPass] = field(
        default_factory=dict
    )  # by sequence: what was given up, done with logarithms


@dataclass
class LogPass:
    beliefs: np.ndarray  # (T, P)
    log_scales: np.ndarray  # (T,)
    smoothed: np.ndarray  # (T, P)
    pairs: np.ndarray  # (P, P)


def width_of(n_states: int) -> int:
    """The kernels take four states together."""
    return (n_states + 3) // 4 * 4


def log(values: np.ndarray) -> np.ndarray:
    """Logarithms, -inf for zero, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def run_forward(padded: Padded, batch: Batch, view: View, *, smoothing: bool = False) -> Forward:
    from seqloom.kernels.hmm import forward, log_products

    n = len(batch.where)
    out = Forward(np.empty((n, len(padded.start))), np.empty(n), np.empty(len(batch.order)))
    forward(
        padded.start,
        padded.incoming,
        view.table,
        view.symbols,
        batch.offsets,
        out.beliefs,
        out.scales,
    )
    log_products(out.scales, batch.offsets, out.log_likelihoods)
    lost = np.flatnonzero(out.log_likelihoods == -np.inf)
    if view.shift is not None:
        lanes = np.arange(n) - np.repeat(batch.offsets[:-1], np.diff(batch.offsets))
        out.log_likelihoods += np.bincount(lanes, view.shift, len(batch.order))
    for lane in lost.tolist():
        log_pass = with_logarithms(padded, view.log_rows(batch.rows(lane)), smoothing)
        out.again[lane], out.log_likelihoods[lane] = log_pass, log_pass.log_scales.sum()
    return out


def with_logarithms(padded: Padded, log_seen: np.ndarray, smoothing: bool) -> LogPass:
    from seqloom.kernels.hmm import log_pass

    width = len(padded.start)
    out = LogPass(
        np.empty_like(log_seen),
        np.empty(len(log_seen)),
        np.empty_like(log_seen),
        np.zeros((width, width)),
    )
    log_pass(
        padded.log_start,
        padded.log_transitions,
        log_seen,
        out.beliefs,
        out.log_scales,
        out.smoothed,
        out.pairs,
        smoothing,
    )
    return out


def filtered(padded: Padded, batch: Batch, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Beliefs (rows, P) and log p(x_t | past) (rows,) of a batch."""
    done = run_forward(padded, batch, view)
    log_probs = log(done.scales)
    if view.shift is not None:
        log_probs += view.shift
    for lane, log_pass in done.again.items():
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
    """Forward and backward: posteriors of each row, or added up by symbol."""
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
    for lane, log_pass in done.again.items():  # they left only zeros behind in the kernel
        np.add.at(counts, targets[batch.rows(lane)], log_pass.smoothed)
        firsts += log_pass.smoothed[0]
        pairs += log_pass.pairs
    return Smoothed(done.log_likelihoods, counts, firsts, pairs)


def run_viterbi(
    padded: Padded, batch: Batch, table: np.ndarray, symbols: np.ndarray, states: np.ndarray
) -> np.ndarray:
    """Log joint (n,) of the best paths, which go into states (T,); table (U, P) holds logarithms."""
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
