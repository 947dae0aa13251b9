"""From counted levels to a back-off trie: adjusted counts, discounts, pruning, probabilities, links.

Levels are estimated from the unigrams up, because the probability of an n-gram is interpolated with
that of its suffix in the level below (Chen and Goodman 1998, "An empirical study of smoothing
techniques for language modeling", section 2.7; modified Kneser-Ney is section 4.3). The unigrams are
interpolated with the uniform distribution, so an unknown word has a probability above zero (except by
maximum likelihood). With a `Workspace` on disk only one level is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, get_args

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, DataError, suggest_known
from seqloom.models.language.configs import SmoothingName
from seqloom.models.language.counting import PLACES, Level, Levels, place_type
from seqloom.models.language.trie import Trie
from seqloom.models.workspace import Workspace


@dataclass(frozen=True)
class Weights:
    """How the counts of one order become probabilities; the formula is in kernels/ngram_estimate."""

    # Subtracted from counts of 1, 2 and 3 or more.
    discounts: tuple[float, float, float] = (0.0, 0.0, 0.0)
    zero: float = 0.0  # subtracted from a count of 0 (negative for add-k)
    per_type: float = 0.0  # added to a context's total for each different word that follows it
    constant: float = 0.0  # added to a context's total
    note: str = ""  # a fall-back that was taken, for the user to read

    def table(self) -> np.ndarray:
        return np.array([self.zero, *self.discounts], np.float64)


class Smoothing(Protocol):
    """A method of smoothing: chooses the weights of each order."""

    adjusted: bool  # lower orders count the different words to the left instead of occurrences
    chained: bool  # an unseen word backs off to the next lower order; else it gets a constant

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights:
        """Choose the weights of one order from its counts of counts: n[1] n-grams seen once, ..."""
        ...


@dataclass(frozen=True)
class MaximumLikelihood:
    """Relative frequency in the longest known context; unseen words have probability zero."""

    adjusted = False
    chained = False

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights:
        return Weights()


@dataclass(frozen=True)
class AddK:
    """(count + k) / (total + k V) in the longest known context (Lidstone; k = 1 is Laplace)."""

    k: float = 1.0
    adjusted = False
    chained = False

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights:
        return Weights((-self.k, -self.k, -self.k), zero=-self.k, constant=self.k * vocab_size)


@dataclass(frozen=True)
class WittenBell:
    """The more different words follow a context, the more weight has the lower order."""

    adjusted = False
    chained = True

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights:
        return Weights(per_type=1.0)


@dataclass(frozen=True)
class Absolute:
    """One discount for all counts of an order, D = n1 / (n1 + 2 n2) (Ney, Essen and Kneser 1994)."""

    adjusted = False
    chained = True

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights:
        if n[1] == 0 or n[2] == 0:
            return Weights((0.5, 0.5, 0.5), note="no n-grams seen once or twice: discount 0.5")
        d = n[1] / (n[1] + 2 * n[2])
        return Weights((d, d, d))


@dataclass(frozen=True)
class KneserNey(Absolute):
    """Absolute discounting over adjusted counts: a lower order counts contexts, not occurrences."""

    adjusted = True


@dataclass(frozen=True)
class ModifiedKneserNey:
    """Three discounts per order, for counts of 1, 2 and more: D_j = j - (j + 1) Y n_{j+1} / n_j,
    Y = n1 / (n1 + 2 n2).

    If a count of counts is zero or a discount is outside (0, j] (character models, tiny corpora),
    one discount as in Kneser-Ney is used, and if that is undefined too, 0.5, 1 and 1.5.
    """

    adjusted = True
    chained = True

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights:
        if min(n[1:5]) > 0:
            y = n[1] / (n[1] + 2 * n[2])
            d = tuple(j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3))
            if all(0 < x <= j for j, x in enumerate(d, 1)):
                return Weights((d[0], d[1], d[2]))
        if min(n[1:3]) > 0:
            y = n[1] / (n[1] + 2 * n[2])
            return Weights(
                (y, y, y), note=f"counts of counts {list(map(int, n[1:5]))}: one discount, {y:.3f}"
            )
        return Weights(
            (0.5, 1.0, 1.5),
            note=f"counts of counts {list(map(int, n[1:5]))}: discounts 0.5, 1, 1.5",
        )


@dataclass(frozen=True)
class GivenDiscount:
    """One discount from above 0 to 1 for all orders, over raw or adjusted counts."""

    discount: float
    adjusted: bool
    chained = True

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights:
        return Weights((self.discount,) * 3)


@dataclass(frozen=True)
class Imported:
    """Marks a model that was read from a file, with unknown smoothing."""

    adjusted = False
    chained = True

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights:
        raise ConfigError(
            "smoothing 'imported' marks models read from ARPA files; choose another to fit one"
        )


def smoothing_named(name: str, k: float = 1.0) -> Smoothing:
    methods: dict[str, Smoothing] = {
        "modified-kneser-ney": ModifiedKneserNey(),
        "kneser-ney": KneserNey(),
        "absolute": Absolute(),
        "witten-bell": WittenBell(),
        "add-k": AddK(k),
        "maximum-likelihood": MaximumLikelihood(),
        "imported": Imported(),
    }
    if name not in methods:
        names = get_args(SmoothingName)
        raise ConfigError(f"unknown smoothing {name!r}{suggest_known(name, names)}")
    return methods[name]


# ---- estimation

CHUNK = 1 << 18


def build(
    counted: Levels, smoothing: Smoothing, prune: Sequence[int], workspace: Workspace
) -> tuple[Trie, list[Weights]]:
    """Estimate the model; n-grams of order k seen at most `prune[k - 1]` times are left out."""
    weights_of_levels: list[Weights] = []
    estimated: list[_EstimatedLevel] = []
    pruning = _Pruning(prune)
    with progress.task("estimating", sum(len(x) for x in counted.levels), "n-grams") as bar:
        for k, level in enumerate(counted.levels, 1):
            counts = _effective_counts(counted, k, smoothing.adjusted, workspace)
            weights = smoothing.weights(
                _counts_of_counts(counts, k, counted.vocab_size), counted.vocab_size
            )
            if k == 1:
                estimated_level = _unigrams(counts, weights, smoothing.chained, counted.vocab_size)
            else:
                n_contexts = len(counted.levels[k - 2])
                estimated_level = _higher(
                    level,
                    counts,
                    weights,
                    smoothing.chained,
                    estimated[-1].probs,
                    n_contexts,
                    pruning,
                    workspace,
                )
            weights_of_levels.append(weights)
            estimated.append(estimated_level)
            workspace.relieve()
            bar.advance(len(level))
    return _assemble(estimated, smoothing.chained, workspace), weights_of_levels


@dataclass
class _EstimatedLevel:
    """One estimated level: arrays of its n-grams, and of the contexts in the level below."""

    words: np.ndarray
    suffixes: np.ndarray
    probs: np.ndarray  # linear
    first: np.ndarray  # first child of each context, as an index into this level
    gammas: np.ndarray  # weight that each context leaves to the lower order


def _effective_counts(counted: Levels, k: int, adjusted: bool, workspace: Workspace) -> np.ndarray:
    """Return raw counts, or the numbers of different words to the left (raw for n-grams that begin
    with `<s>`).
    """
    from seqloom.kernels.ngram_estimate import adjusted_counts
    from seqloom.kernels.parallel import chunk_bounds

    raw = counted.levels[k - 1].counts
    if not adjusted or k == len(counted.levels):
        return raw
    out = workspace.empty(len(raw), raw.dtype)
    out[:] = 0
    above = counted.levels[k].suffixes
    for low, high in chunk_bounds(len(above), CHUNK):
        adjusted_counts(above[low:high], out)
        workspace.relieve()
    begin = counted.bos_begin[k - 1]
    out[begin:] = raw[begin:]
    return out


def _counts_of_counts(counts: np.ndarray, k: int, vocab_size: int) -> np.ndarray:
    from seqloom.kernels.ngram_estimate import counts_of_counts

    # <s> is never predicted.
    return counts_of_counts(counts[:vocab_size] if k == 1 else counts)


def _unigrams(
    counts: np.ndarray, weights: Weights, chained: bool, vocab_size: int
) -> _EstimatedLevel:
    """Estimate the unigrams, interpolated with the uniform distribution; `<s>` is only a context and
    has probability zero.
    """
    a = counts[:vocab_size].astype(np.float64)
    total = a.sum() + weights.per_type * np.count_nonzero(a) + weights.constant
    discounted = (a - weights.table()[np.minimum(counts[:vocab_size], 3)]) / total
    left_over = 1.0 - discounted.sum() if chained else 0.0
    probs = np.append(discounted + left_over / vocab_size, 0.0).astype(np.float32)
    words = np.arange(vocab_size + 1, dtype=np.uint32)
    return _EstimatedLevel(
        words,
        np.zeros_like(words),
        probs,
        np.array([0, vocab_size + 1], np.uint32),
        np.ones(1, np.float32),
    )


def _higher(
    level: Level,
    counts: np.ndarray,
    weights: Weights,
    chained: bool,
    lower: np.ndarray,
    n_contexts: int,
    pruning: _Pruning,
    workspace: Workspace,
) -> _EstimatedLevel:
    """Estimate one level above the unigrams."""
    from seqloom.kernels import ngram_estimate as kernel
    from seqloom.kernels.ngram_count import child_offsets
    from seqloom.kernels.parallel import chunk_bounds

    first = workspace.empty(n_contexts + 1, place_type(len(level)))
    child_offsets(level.parents, n_contexts, first)
    workspace.release(level.parents)
    words, suffixes = level.words, level.suffixes
    totals = types = np.zeros(0)
    if pruning.active:
        totals, types = np.empty(n_contexts), np.empty(n_contexts)
        workspace.run(
            lambda s: kernel.context_totals(first, counts, *s, totals, types),
            chunk_bounds(n_contexts, CHUNK),
        )
        words, counts, suffixes, first, totals, types = pruning.apply(level, counts, totals, types)
        n_contexts = len(totals)
    probs, gammas = workspace.empty(len(words), np.float32), workspace.empty(n_contexts, np.float32)
    below = lower if chained else np.zeros(len(lower), np.float32)
    spans = chunk_bounds(n_contexts, CHUNK)
    workspace.run(
        lambda s: kernel.estimate(
            first,
            counts,
            suffixes,
            below,
            totals,
            types,
            weights.table(),
            weights.per_type,
            weights.constant,
            *s,
            probs,
            gammas,
        ),
        spans,
    )
    if not chained:
        workspace.run(
            lambda s: kernel.floors(first, counts, -weights.zero, weights.constant, *s, gammas),
            spans,
        )
    workspace.release(counts, first, suffixes, gammas, lower)
    return _EstimatedLevel(words, suffixes, probs, first, gammas)


class _Pruning:
    """Leaves out rare n-grams, level by level, and renumbers indices into the level below.

    Thresholds do not fall from order to order and an n-gram is never more frequent than its parts,
    so the context and the suffix of an n-gram that is kept are kept too.
    """

    def __init__(self, thresholds: Sequence[int]) -> None:
        self.thresholds, self.order = thresholds, 1
        self.active = any(thresholds)
        self.kept: np.ndarray | None = None  # mask of the level below
        self.numbers: np.ndarray | None = None

    def apply(
        self, level: Level, counts: np.ndarray, totals: np.ndarray, types: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        from seqloom.kernels.ngram_count import child_offsets

        self.order += 1
        keep = level.counts > self.thresholds[min(self.order, len(self.thresholds)) - 1]
        suffixes, parents = level.suffixes[keep], level.parents[keep]
        if self.kept is not None and self.numbers is not None:
            suffixes, parents = self.numbers[suffixes], self.numbers[parents]
            totals, types = totals[self.kept], types[self.kept]
        kept = int(keep.sum())
        numbers = place_type(kept)
        self.kept, self.numbers = keep, np.cumsum(keep, dtype=numbers) - numbers.type(1)
        first = np.empty(len(totals) + 1, numbers)
        child_offsets(parents, len(totals), first)
        return level.words[keep], counts[keep], suffixes, first, totals, types


def _assemble(estimated: list[_EstimatedLevel], chained: bool, workspace: Workspace) -> Trie:
    """Concatenate the levels, take logarithms, and link each n-gram to its longest live suffix."""
    from seqloom.kernels.ngram_estimate import link
    from seqloom.kernels.parallel import chunk_bounds

    starts = np.cumsum([0, 1] + [len(p.words) for p in estimated], dtype=np.int64)
    total, inner = int(starts[-1]), int(starts[-2])
    if total >= PLACES:
        raise DataError(
            f"{total:,} n-grams: a model has places for {PLACES - 1:,}; leave rare ones out, for example "
            "with prune=(0, 0, 1), or lower the order"
        )
    words = workspace.empty(total, np.uint32)
    contexts = workspace.empty(4 * (inner + 1), np.uint32).reshape(-1, 4)
    leaves = workspace.empty(2 * (total - inner), np.uint32).reshape(-1, 2)
    trie = Trie(words, contexts, leaves, starts, chained)
    words[0], contexts[0], contexts[inner] = 0, 0, 0
    trie.first[inner] = total
    for k, level in enumerate(estimated):
        begin, below, top = int(starts[k + 1]), int(starts[k]), k + 1 == len(estimated)
        end = begin + len(level.words)
        trie.first[below:begin] = level.first[:-1] + np.uint32(begin)
        _copy(level.words, words[begin:end], workspace)
        _copy(
            level.probs,
            trie.leaf_log_probs if top else trie.inner_log_probs[begin:end],
            workspace,
            log=True,
        )
        _copy(level.gammas, trie.backoffs[below:begin], workspace, log=True)
        workspace.release(
            words, contexts, leaves, level.words, level.probs, level.gammas, level.first
        )
    for k, level in enumerate(estimated):
        begin, below, top = int(starts[k + 1]), int(starts[k]), k + 1 == len(estimated)
        links = trie.leaf_links if top else trie.inner_links[begin : begin + len(level.words)]
        if k == 0:
            links[:] = 0
        else:
            run = partial(
                link,
                level.suffixes,
                below,
                trie.first,
                trie.backoffs,
                trie.inner_links[below:begin],
                links,
            )
            chunks = chunk_bounds(len(level.words), CHUNK)
            workspace.run(lambda s, run=run: run(*s), chunks)  # type: ignore[misc]
        workspace.release(level.suffixes, contexts, leaves)
    return trie


def _copy(source: np.ndarray, target: np.ndarray, workspace: Workspace, log: bool = False) -> None:
    from seqloom.kernels.parallel import chunk_bounds

    def run(span: tuple[int, int]) -> None:
        chunk = slice(*span)
        if log:
            with np.errstate(divide="ignore"):
                np.log(source[chunk], out=target[chunk])
        else:
            target[chunk] = source[chunk]

    workspace.run(run, chunk_bounds(len(source), CHUNK))
