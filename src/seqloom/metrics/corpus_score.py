"""A score of many sentences that is a formula of sums: BLEU, chrF, word error rate.

Each sentence contributes a row of numbers; the score is a formula of the sums of the rows. So the score of a part of the
sentences (the long ones, say), its confidence interval and the comparison of two systems need no second look at the texts.

    >>> score = CorpusScore("accuracy", np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]), mean_of)
    >>> round(score.value, 4), score.on([0, 1]), score.each.tolist()
    (0.6667, 0.5, [1.0, 0.0, 1.0])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from seqloom.errors import DataError
from seqloom.metrics.bootstrap import Paired, interval_of_sums, paired_sums

Formula = Callable[[np.ndarray], np.ndarray]  # sums (..., m) to values (...)


@dataclass(frozen=True, eq=False)
class CorpusScore:
    """One score and all that it is made of."""

    name: str
    statistics: np.ndarray  # (sentences, m)
    formula: Formula
    signature: str = ""  # how it was computed
    higher_is_better: bool = True
    details: Mapping[str, Any] = field(
        default_factory=dict
    )  # numbers beside it, such as the brevity penalty
    sentence_formula: Formula | None = None  # of single sentences, where it is another

    @cached_property
    def value(self) -> float:
        """Of all sentences."""
        return float(self.formula(self.statistics.sum(axis=0)))

    @property
    def each(self) -> np.ndarray:
        """Of every sentence by itself; for BLEU and the like not what they average to."""
        return (self.sentence_formula or self.formula)(self.statistics)

    def on(self, rows: Sequence[int] | np.ndarray | slice) -> float:
        """Of some sentences, by number, mask or slice."""
        return float(self.formula(self.statistics[rows].sum(axis=0)))

    def interval(
        self, *, level: float = 0.95, samples: int = 1000, seed: int = 0
    ) -> tuple[float, float]:
        """Between which values it lies with this level of confidence, by resampling sentences."""
        return interval_of_sums(
            self.statistics, self.formula, level=level, samples=samples, seed=seed
        )

    def against(
        self, other: CorpusScore, *, level: float = 0.95, samples: int = 1000, seed: int = 0
    ) -> Paired:
        """This less the other, of two systems on the same sentences: the difference, its interval and a p-value."""
        if (self.name, self.signature, len(self.statistics)) != (
            other.name,
            other.signature,
            len(other.statistics),
        ):
            raise DataError(
                f"only scores of one kind on the same sentences can be compared; got {self.name} "
                f"({self.signature}) of {len(self.statistics):,} and {other.name} ({other.signature}) of "
                f"{len(other.statistics):,}"
            )
        return paired_sums(
            self.statistics, other.statistics, self.formula, level=level, samples=samples, seed=seed
        )

    def __repr__(self) -> str:
        return f"{self.name} {self.value:.4g}" + (f" ({self.signature})" if self.signature else "")


def mean_of(sums: np.ndarray) -> np.ndarray:
    """The first of two sums over the second, which counts."""
    return sums[..., 0] / np.maximum(sums[..., 1], 1)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> CorpusScore:
    """The share of hypotheses that equal their references, but for white space around them.

    >>> exact_match(["1994-09-27", "1993-02-10"], ["1994-09-27", "1993-10-02"]).value
    0.5
    """
    check_texts(hypotheses, references)
    right = [a.strip() == b.strip() for a, b in zip(hypotheses, references)]
    return CorpusScore(
        "exact match", np.column_stack([right, np.ones(len(right))]).astype(np.float64), mean_of
    )


def check_texts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse what cannot be scored."""
    for given, name in ((hypotheses, "hypotheses"), (references, "references")):
        if isinstance(given, str):
            raise DataError(f"{name} must be a list of texts; got one text")
        for row, text in enumerate(given, 1):
            if not isinstance(text, str):
                raise DataError(f"row {row} of the {name} is {text!r:.60}; it must be text")
    if len(hypotheses) != len(references) or not len(references):
        raise DataError(
            f"there must be one reference for each hypothesis, and some; got {len(hypotheses):,} hypotheses and "
            f"{len(references):,} references"
        )
