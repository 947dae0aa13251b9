"""fastText: word2vec in which a word is the mean of itself and of its character n-grams (Bojanowski
et al. 2017, "Enriching Word Vectors with Subword Information"), so that a word that was never seen
has a vector too.

A word predicts its neighbours, each with its own noise words; the rows of its n-grams are read and
updated once for all neighbours. n-grams are hashed into `buckets` by the hash of fastText, but only
the buckets that the text uses have a row: an n-gram that was never learnt adds nothing, instead of
something random.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts.word_vectors import Embedder
from seqloom.errors import ConfigError, ModelError
from seqloom.models.word_vectors.configs import FastTextConfig
from seqloom.models.word_vectors.trained import TrainedVectors
from seqloom.models.word_vectors.windows import KINDS, NO_WEIGHTS, Bags, WordRows
from seqloom.models.word_vectors.words import Words
from seqloom.text.coding import to_spelling
from seqloom.text.vocabulary import padded

# Options that cannot change later.
SHAPES = (*TrainedVectors.fixed_options, "min_ngram", "max_ngram", "buckets")


@dataclass(frozen=True)
class NgramRows(WordRows):
    """Rows of words, if they have any, followed by those of character n-grams."""

    aggregate: str = "mean"  # how rows become one vector
    # whether the marks of a word's ends are n-grams of length 1; in fastText they are not
    marks_alone: bool = False
    # int64 (B,), ascending: each has a row
    buckets: np.ndarray = field(default_factory=NO_WEIGHTS.copy)
    # float32 (B,) or none: logits of the weights of n-grams
    weights: np.ndarray = field(default_factory=NO_WEIGHTS.copy)
    # float32 (V, D): vectors of the words, from their rows
    matrix: np.ndarray = field(default_factory=NO_WEIGHTS.copy)

    def bags(self, words: Words) -> tuple[Bags, np.ndarray]:
        hashed, ends = self._hashed(words.arena, words.offsets)
        buckets, rows = np.unique(hashed, return_inverse=True)
        if not self.own and not len(buckets):
            raise ConfigError(
                f"no word has an n-gram of {self.config.min_ngram} characters or more; lower min_ngram "
                "(min_ngram=...)"
            )
        weights = self._first_weights(rows, len(words), len(buckets))
        if self.own:
            word_rows = np.arange(len(words))
            rows = np.insert(len(words) + rows, np.concatenate([[0], ends[:-1]]), word_rows)
            ends = ends + word_rows + 1
        longest = int(np.diff(ends, prepend=0).max())
        return Bags(
            ends, rows.astype(np.int32), longest, KINDS.index(self.aggregate), weights
        ), buckets

    def _first_weights(self, rows: np.ndarray, n_words: int, n_buckets: int) -> np.ndarray:
        if self.aggregate == "attention":
            return np.zeros(n_buckets, np.float32)
        if self.aggregate == "weighted":
            n_words_with = np.bincount(rows, minlength=n_buckets)
            return np.log(np.log1p(n_words / np.maximum(n_words_with, 1))).astype(np.float32)
        return NO_WEIGHTS

    def _hashed(self, arena: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the buckets of all n-grams, word by word, and the end of those of each word."""
        from seqloom.kernels.features import ngram_buckets

        c = self.config
        return ngram_buckets(
            arena, offsets, c.min_ngram, c.max_ngram, c.buckets, alone=self.marks_alone
        )

    def copy_ngrams(
        self,
        earlier: Self,
        earlier_rows: np.ndarray,
        bags: Bags,
        buckets: np.ndarray,
        inputs: np.ndarray,
    ) -> None:
        _, new_index, earlier_index = np.intersect1d(
            buckets, earlier.buckets, assume_unique=True, return_indices=True
        )
        first, earlier_first = len(inputs) - len(buckets), len(earlier_rows) - len(earlier.buckets)
        inputs[first + new_index, : self.config.dimensions] = earlier_rows[
            earlier_first + earlier_index
        ]
        if self.aggregate == "attention":
            bags.weights[new_index] = earlier.weights[earlier_index]

    def learnt(self, table: np.ndarray, bags: Bags, buckets: np.ndarray) -> Self:
        matrix = _composed(table, bags.ends, bags.rows, self.aggregate, bags.weights)
        return replace(self, buckets=buckets, weights=bags.weights, matrix=matrix)

    def reordered(self, order: np.ndarray) -> Self:
        return replace(self, matrix=self.matrix[order])

    def vectors(self, table: np.ndarray, output: np.ndarray) -> np.ndarray:
        return self.matrix

    def unseen(self, table: np.ndarray, words: list[str]) -> np.ndarray:
        """Return vectors from the n-grams that occurred in other words; zeros if there are none."""
        spelled = [to_spelling(word) for word in words]
        offsets = np.concatenate([[0], np.cumsum([len(s) for s in spelled])]).astype(np.int64)
        hashed, ends = self._hashed(padded(b"".join(spelled)), offsets)
        indices = np.minimum(np.searchsorted(self.buckets, hashed), max(len(self.buckets) - 1, 0))
        present = (
            self.buckets[indices] == hashed if len(self.buckets) else np.zeros(len(hashed), bool)
        )
        ends = np.concatenate([[0], np.cumsum(present)])[ends]
        return _composed(
            table[len(table) - len(self.buckets) :],
            ends,
            indices[present],
            self.aggregate,
            self.weights,
        )

    def arrays(self) -> dict[str, np.ndarray]:
        weights = {"weights": self.weights} if len(self.weights) else {}
        return {"buckets": self.buckets, "matrix": self.matrix, **weights}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size, n, width = length("offsets") - 1, length("buckets"), self.config.dimensions
        weights = (
            {"weights": Spec("float32", (n,))}
            if self.aggregate in ("weighted", "attention")
            else {}
        )
        return {
            "matrix": Spec("float32", (size, width)),
            "input": Spec("float32", (size * self.own + n, width)),
            "buckets": Spec("int64", (n,), 0, self.config.buckets - 1),
            **weights,
        }

    def restored(self, arrays: dict[str, np.ndarray]) -> Self:
        buckets = arrays["buckets"]
        if not (buckets[1:] > buckets[:-1]).all():
            raise ModelError("the buckets of its n-grams do not increase: the file is damaged")
        return replace(
            self,
            buckets=buckets,
            matrix=arrays["matrix"],
            weights=arrays.get("weights", NO_WEIGHTS),
        )


class FastText(TrainedVectors, Embedder):
    name = "fasttext"
    config_class = FastTextConfig
    fixed_options = SHAPES

    def _new_layout(self) -> NgramRows:
        return NgramRows(self.config)


def _composed(
    table: np.ndarray, ends: np.ndarray, rows: np.ndarray, aggregate: str, weights: np.ndarray
) -> np.ndarray:
    """Combine the rows of each word into one vector, (n, D)."""
    from seqloom.kernels.features import weighted_rows

    sizes = np.diff(ends, prepend=0)
    shares = (
        np.exp(weights[rows] - weights[rows].max(initial=0))
        if len(weights)
        else np.ones(len(rows), np.float32)
    )
    if aggregate != "sum":
        totals = np.bincount(np.repeat(np.arange(len(sizes)), sizes), shares, len(sizes))
        shares = shares / np.repeat(totals, sizes)
    vectors = np.empty((len(ends), table.shape[1]), np.float32)
    weighted_rows(table, ends, rows.astype(np.int32), shares.astype(np.float32), vectors)
    return vectors
