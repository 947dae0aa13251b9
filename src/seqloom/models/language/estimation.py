"""From counted levels to a back-off trie: adjusted counts, discounts, pruning, probabilities, links.

One level after the other, from the unigrams up, because an n-gram's probability is interpolated
with that of its suffix in the level below (Chen and Goodman 1998, section 2.7). With a `Workspace`
on disk only one level is in memory at a time.

Smoothing methods for n-gram models, each a small object that only chooses discounts.

Chen and Goodman, "An empirical study of smoothing techniques for language modeling" (1998); modified
Kneser-Ney is their section 4.3. All interpolate with the next lower order; the unigram interpolates with the
uniform distribution, so an unknown word always has probability (maximum likelihood excepted).

`weights(n)` receives the counts of counts of one order (n[1] n-grams seen once, ...) and the vocabulary size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, get_args

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, suggest_known
from seqloom.models.language.configs import SmoothingName
from seqloom.models.language.counting import Level, Levels
from seqloom.models.language.trie import Trie
from seqloom.models.workspace import Workspace


@dataclass(frozen=True)
class Weights:
    """How the counts of one order become probabilities; the formula is in kernels/ngram_estimate."""

    discounts: tuple[float, float, float] = (
        0.0,
        0.0,
        0.0,
    )  # taken off counts of 1, 2 and 3 or more
    zero: float = 0.0  # taken off a count of 0 (negative for add-k)
    per_type: float = 0.0  # added to a context's total for each different word that follows it
    constant: float = 0.0  # added to a context's total
    note: str = ""  # a fall-back that was taken, for the user to read

    def table(self) -> np.ndarray:
        return np.array([self.zero, *self.discounts], np.float64)


class Smoothing(Protocol):
    adjusted: bool  # lower orders count the different words to the left instead of occurrences
    chained: bool  # an unseen word asks the next lower order; else it gets a constant share

    def weights(self, n: np.ndarray, vocab_size: int) -> Weights: ...


@dataclass(frozen=True)
class MaximumLikelihood:
    """Relative frequency in the longest known context; what was not seen there has probability zero."""

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
    """A context that many different words follow leaves more to the lower order."""

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
    """Three discounts an order, for counts of 1, 2 and more: D_j = j - (j + 1) Y n_{j+1} / n_j, Y =
    n1 / (n1 + 2 n2).

    Where a count of counts is missing or a discount leaves (0, j] (character models, tiny corpora),
    one discount as in Kneser-Ney is used, and where even that cannot be had, 0.5, 1 and 1.5.
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
class Imported:
    """Marks a model that was read from a file, with whatever smoothing its maker chose."""

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
        known = get_args(SmoothingName)
        raise ConfigError(f"unknown smoothing {name!r}{suggest_known(name, known)}")
    return methods[name]


# ---- estimation

CHUNK = 1 << 18


def build(
    counted: Levels, smoothing: Smoothing, prune: Sequence[int], workspace: Workspace
) -> tuple[Trie, list[Weights]]:
    """Estimate the model. `prune[k - 1]`: n-grams of order k seen at most so often are left out."""
    smooth: list[Weights] = []
    parts: list[_Part] = []
    pruning = _Pruning(prune)
    with progress.task("estimating", sum(len(x) for x in counted.levels), "n-grams") as bar:
        for k, level in enumerate(counted.levels, 1):
            counts = _effective_counts(counted, k, smoothing.adjusted, workspace)
            weights = smoothing.weights(
                _counts_of_counts(counts, k, counted.vocab_size), counted.vocab_size
            )
            if k == 1:
                part = _unigrams(counts, weights, smoothing.chained, counted.vocab_size)
            else:
                n_contexts = len(counted.levels[k - 2])
                part = _higher(
                    level,
                    counts,
                    weights,
                    smoothing.chained,
                    parts[-1].probs,
                    n_contexts,
                    pruning,
                    workspace,
                )
            smooth.append(weights)
            parts.append(part)
            workspace.relieve()
            bar.advance(len(level))
    return _assemble(parts, smoothing.chained, workspace), smooth


@dataclass
class _Part:
    """One estimated level: arrays of its n-grams, and of the contexts in the level below."""

    words: np.ndarray
    suffixes: np.ndarray
    probs: np.ndarray  # linear
    first: np.ndarray  # children of each context, local numbers
    gammas: np.ndarray  # weight that each context leaves to the lower order


def _effective_counts(counted: Levels, k: int, adjusted: bool, workspace: Workspace) -> np.ndarray:
    """Return raw counts, or how many different words stand to the left (raw for what begins with
    `<s>`).
    """
    from seqloom.kernels.ngram_estimate import adjusted_counts
    from seqloom.kernels.parallel import chunk_bounds

    raw = counted.levels[k - 1].counts
    if not adjusted or k == len(counted.levels):
        return raw
    out = workspace.empty(len(raw), np.uint32)
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

    return counts_of_counts(
        counts[:vocab_size] if k == 1 else counts
    )  # <s> itself is never predicted


def _unigrams(counts: np.ndarray, weights: Weights, chained: bool, vocab_size: int) -> _Part:
    """Estimate the words against the uniform distribution; `<s>` is only a context and has
    probability zero.
    """
    a = counts[:vocab_size].astype(np.float64)
    total = a.sum() + weights.per_type * np.count_nonzero(a) + weights.constant
    seen = (a - weights.table()[np.minimum(counts[:vocab_size], 3)]) / total
    rest = 1.0 - seen.sum() if chained else 0.0
    probs = np.append(seen + rest / vocab_size, 0.0).astype(np.float32)
    words = np.arange(vocab_size + 1, dtype=np.uint32)
    return _Part(
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
) -> _Part:
    """Estimate one level above the unigrams."""
    from seqloom.kernels import ngram_estimate as kernel
    from seqloom.kernels.ngram_count import child_offsets
    from seqloom.kernels.parallel import chunk_bounds

    first = workspace.empty(n_contexts + 1, np.uint32)
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
    return _Part(words, suffixes, probs, first, gammas)


class _Pruning:
    """Leaves out rare n-grams, level by level, and renumbers what points at the level below.

    Thresholds do not fall from order to order and an n-gram is never more frequent than its parts, so what is
    kept always has its context and its suffix.
    """

    def __init__(self, thresholds: Sequence[int]) -> None:
        self.thresholds, self.order = thresholds, 1
        self.active = any(thresholds)
        self.kept: np.ndarray | None = None  # of the level below
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
        self.kept, self.numbers = keep, np.cumsum(keep, dtype=np.uint32) - np.uint32(1)
        first = np.empty(len(totals) + 1, np.uint32)
        child_offsets(parents, len(totals), first)
        return level.words[keep], counts[keep], suffixes, first, totals, types


def _assemble(parts: list[_Part], chained: bool, workspace: Workspace) -> Trie:
    """Put the levels one behind the other, take logarithms, and link each n-gram to its longest
    live suffix.
    """
    from seqloom.kernels.ngram_estimate import link
    from seqloom.kernels.parallel import chunk_bounds

    starts = np.cumsum([0, 1] + [len(p.words) for p in parts], dtype=np.int64)
    total, inner = int(starts[-1]), int(starts[-2])
    words = workspace.empty(total, np.uint32)
    contexts = workspace.empty(4 * (inner + 1), np.uint32).reshape(-1, 4)
    leaves = workspace.empty(2 * (total - inner), np.uint32).reshape(-1, 2)
    trie = Trie(words, contexts, leaves, starts, chained)
    words[0], contexts[0], contexts[inner] = 0, 0, 0
    trie.first[inner] = total
    for k, part in enumerate(parts):
        begin, below, top = int(starts[k + 1]), int(starts[k]), k + 1 == len(parts)
        end = begin + len(part.words)
        trie.first[below:begin] = part.first[:-1] + np.uint32(begin)
        _copy(part.words, words[begin:end], workspace)
        _copy(
            part.probs,
            trie.leaf_log_probs if top else trie.inner_log_probs[begin:end],
            workspace,
            log=True,
        )
        _copy(part.gammas, trie.backoffs[below:begin], workspace, log=True)
        workspace.release(words, contexts, leaves, part.words, part.probs, part.gammas, part.first)
    for k, part in enumerate(parts):
        begin, below, top = int(starts[k + 1]), int(starts[k]), k + 1 == len(parts)
        own = trie.leaf_links if top else trie.inner_links[begin : begin + len(part.words)]
        if k == 0:
            own[:] = 0
        else:
            run = partial(
                link,
                part.suffixes,
                below,
                trie.first,
                trie.backoffs,
                trie.inner_links[below:begin],
                own,
            )
            chunks = chunk_bounds(len(part.words), CHUNK)
            workspace.run(lambda s, run=run: run(*s), chunks)  # type: ignore[misc]
        workspace.release(part.suffixes, contexts, leaves)
    return trie


def _copy(source: np.ndarray, target: np.ndarray, workspace: Workspace, log: bool = False) -> None:
    from seqloom.kernels.parallel import chunk_bounds

    def run(span: tuple[int, int]) -> None:
        part = slice(*span)
        if log:
            with np.errstate(divide="ignore"):
                np.log(source[part], out=target[part])
        else:
            target[part] = source[part]

    workspace.run(run, chunk_bounds(len(source), CHUNK))
