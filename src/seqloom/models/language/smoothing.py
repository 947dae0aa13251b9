"""Smoothing methods for n-gram models, each a small object that only chooses discounts.

Chen and Goodman, "An empirical study of smoothing techniques for language modeling" (1998); modified
Kneser-Ney is their section 4.3. All interpolate with the next lower order; the unigram interpolates with the
uniform distribution, so an unknown word always has probability (maximum likelihood excepted).

`weights(n)` receives the counts of counts of one order (n[1] n-grams seen once, ...) and the vocabulary size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, get_args

import numpy as np

from seqloom.errors import ConfigError, suggest_known
from seqloom.models.language.configs import SmoothingName


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
    """Three discounts an order, for counts of 1, 2 and more: D_j = j - (j + 1) Y n_{j+1} / n_j, Y = n1 / (n1 + 2 n2).

    Where a count of counts is missing or a discount leaves (0, j] (character models, tiny corpora), one discount
    as in Kneser-Ney is used, and where even that cannot be had, 0.5, 1 and 1.5.
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
