"""Logistic regression on TF-IDF features: the linear classifier that others are compared with.

    p(C | x) = softmax(W x + b),   x = the TF-IDF of the words and word n-grams of a text, of length 1

A feature weighs its count in the text times log((1 + n) / (1 + texts that have it)) + 1 (Salton and
Buckley 1988, smoothed as in scikit-learn). W makes the training labels likeliest under an L2 penalty,
|W|^2 / 2 C; b has none. For two classes the penalised weights are those of the log-odds alone. All of
this is scikit-learn's TfidfVectorizer and LogisticRegression, whose names the options have; the numbers
are the same.

The objective is strictly convex. L-BFGS (Liu and Nocedal 1989) finds its minimum, started in each step
from the diagonal of the Hessian at W = 0, since rare words and the intercept differ in scale by orders
of magnitude. W x is linear, so that the search along a direction needs no pass over the texts.

    >>> model = Logistic().fit([("good fun", "+"), ("dull", "-"), ("good", "+"), ("so dull", "-")])
    >>> model.predict("a good day")
    '+'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts.classification import Classifier
from seqloom.contracts.fitting import FitOptions
from seqloom.data.classification import Labelled
from seqloom.data.corpus import Corpus
from seqloom.errors import DataError
from seqloom.models.classification.configs import LogisticConfig
from seqloom.models.classification.decisions import balanced_weights, label_targets, log_softmax
from seqloom.models.classification.explanation import (
    BY_WORDS,
    Explanation,
    Share,
    chosen_method,
    class_index,
    explain_by_features,
    explain_by_words,
    over_others,
)
from seqloom.models.classification.feature_counts import FeatureCounts
from seqloom.models.classification.features import Features, check_keys, check_texts, grows

MAX_STEPS = 1000
# The L2 penalty bounds the distance to the minimum: no weight is off by more than C |gradient|. Intercepts
# have no penalty: their gradient is how far the mean probabilities are from the shares of the classes.
CLOSE, CLOSE_SHARE = 5e-2, 1e-4
HISTORY = 10  # pairs of L-BFGS
CHUNK = 1 << 18  # values of a sparse matrix that are multiplied together
LARGEST = 1e9  # weight that a saved model may have


class Logistic(Classifier):
    name = "logistic"
    config_class = LogisticConfig
    public_names = "explain top_features"

    # ---- fitting

    def fit_examples(self, data: Labelled, options: FitOptions) -> None:
        c = self.config
        check_texts(data.texts)
        tokenizer = None if grows(c) else self._make_tokenizer(Corpus.from_texts(data.texts))
        counts = FeatureCounts(c, tokenizer, presence=True)
        with progress.task("counting", len(data), "texts") as bar:
            for n in counts.add(data.texts, [""] * len(data)):
                bar.advance(n)
        done = counts.counted()
        self.tokenizer = done.tokenizer
        frequent = done.seen >= c.min_count
        self._features = self._index(done.keys, frequent[: done.tokenizer.vocab_size])
        usable = self._features.usable & frequent
        if not usable.any():
            raise DataError(f"no word occurs {c.min_count} times or more; lower min_count")
        smoothed = (1 + len(data)) / (1 + done.counts[:, 0].astype(np.float64))
        self._idf = np.where(usable, np.log(smoothed) + 1, 0.0)
        targets = label_targets(data.labels, self.classes, several=False)
        weights = np.ones(len(data))
        if c.class_weights == "balanced":
            weights = balanced_weights(targets, len(self.classes)).astype(np.float64)
        x = Sparse.joined([part for part, _ in self._vectors(data.texts)], len(self._idf))
        found, steps = minimise(x, targets, weights, len(self.classes), c.C)
        if len(self.classes) == 2:  # the log-odds, half for one class and half against the other
            found = np.concatenate([-found / 2, found / 2], axis=1)
        self._weights, self._intercept = found[:-1], found[-1]
        self.fit_info = {**self.fit_info, "features": int(usable.sum()), "steps": steps}

    def _index(self, keys: np.ndarray, frequent: np.ndarray) -> Features:
        return Features(self.tokenizer, keys, frequent, self.config.ngrams)

    def _vectors(self, texts: Sequence[str]) -> Iterator[tuple[Sparse, np.ndarray]]:
        """Yield the TF-IDF of the texts in batches, with the number of features of each text."""
        from seqloom.kernels.parallel import parallel_map, text_batches

        return parallel_map(self._vectors_of, text_batches(texts))

    def _vectors_of(self, texts: Sequence[str]) -> tuple[Sparse, np.ndarray]:
        rows, times, ends = self._features.count(texts)
        values = (1 + np.log(times) if self.config.sublinear else times) * self._idf[rows]
        sizes = np.diff(ends, prepend=0)
        texts_of = np.repeat(np.arange(len(texts)), sizes)
        lengths = np.sqrt(np.bincount(texts_of, values * values, len(texts)))
        values /= lengths[texts_of]
        return Sparse(ends, rows, values.astype(np.float32)), sizes

    # ---- answers

    def class_log_probs(self, texts: list[str]) -> np.ndarray:
        check_texts(texts)
        parts, n_features = [], []
        for vectors, sizes in self._vectors(texts):
            parts.append(vectors.times(self._weights))
            n_features.append(sizes)
        unknown = np.flatnonzero(np.concatenate(n_features) == 0).tolist()
        fallback = "there the intercept alone decides"
        progress.remark(unknown, len(texts), "texts", "no known word", fallback)
        return log_softmax(np.concatenate(parts) + self._intercept)

    def explain(
        self,
        text: str,
        n: int = 10,
        *,
        label: Any = None,
        against: Any = None,
        method: str | None = None,
    ) -> Explanation:
        """Return the features that decided for a class (the likeliest) against another (the likeliest
        other), in nats; `method`: weights, or occlusion.
        """
        self.check_fitted()
        if chosen_method(self, method, BY_WORDS) == "occlusion":
            return explain_by_words(self, text, (n, label, against))
        vector, _ = self._vectors_of([text])
        rows, times, _ = self._features.count([text])
        return explain_by_features(
            self,
            text,
            {self._features.name(row): count for row, count in zip(rows.tolist(), times.tolist())},
            self._weights[rows] * vector.values[:, None],
            self._intercept,
            np.zeros(len(self.classes)),
            (n, label, against),
        )

    def top_features(self, label: Any, n: int = 20) -> list[Share]:
        """Return the strongest features of a class, by their weight minus its mean in the other classes;
        each as if it were a text of its own.
        """
        self.check_fitted()
        nats = over_others(self._weights, class_index(self, label))
        rows = np.flatnonzero(self._idf)
        rows = rows[np.argsort(-nats[rows], kind="stable")[:n]]
        return [Share(self._features.name(int(r)), 1, float(nats[r])) for r in rows]

    @property
    def parameters(self) -> int:
        return (int((self._idf > 0).sum()) + 1) * len(self.classes) if self.fitted else 0

    def label(self) -> str:
        c = self.config
        parts = [
            "logistic",
            f"{c.ngrams}grams" if c.ngrams > 1 else "",
            f"C{c.C:g}" if c.C != 1 else "",
            "sublinear" if c.sublinear else "",
            "balanced" if c.class_weights != "none" else "",
        ]
        return "-".join(filter(None, parts))

    # ---- persistence

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "keys": self._features.keys,
            "idf": self._idf,
            "weights": self._weights,
            "intercept": self._intercept,
        }

    def array_specs(self, length: Length) -> dict[str, Spec]:
        n, classes = length("keys"), len(self.classes)
        rows = self.tokenizer.vocab_size + n
        return {
            "keys": Spec("uint64", (n,)),
            "idf": Spec("float64", (rows,), 0, LARGEST),
            "weights": Spec("float64", (rows, classes), -LARGEST, LARGEST),
            "intercept": Spec("float64", (classes,), -LARGEST, LARGEST),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        check_keys(arrays["keys"], self.tokenizer)
        self._idf, self._weights = arrays["idf"], arrays["weights"]
        self._intercept = arrays["intercept"]
        self._features = self._index(arrays["keys"], self._idf[: self.tokenizer.vocab_size] > 0)


# ---- the minimum


@dataclass(frozen=True)
class Sparse:
    """A sparse matrix: row i has values[k] in columns[k] for k from ends[i - 1] to ends[i]."""

    ends: np.ndarray  # int64 (n,)
    columns: np.ndarray  # int32
    values: np.ndarray  # float32
    width: int = 0  # number of columns, where it matters

    @classmethod
    def joined(cls, parts: Sequence[Sparse], width: int) -> Sparse:
        """Put matrices one below the other."""
        first = np.cumsum([0, *(len(part.columns) for part in parts)])
        return cls(
            np.concatenate([part.ends + low for part, low in zip(parts, first)]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([part.values for part in parts]),
            width,
        )

    def transposed(self) -> Sparse:
        from seqloom.kernels.features import transpose

        ends = np.zeros(self.width, np.int64)
        rows, values = np.empty_like(self.columns), np.empty_like(self.values)
        transpose(self.ends, self.columns, self.values, ends, rows, values)
        return Sparse(ends, rows, values, len(self.ends))

    def times(self, dense: np.ndarray) -> np.ndarray:
        """Return the product with a dense matrix (columns, K)."""
        from seqloom.kernels.features import weighted_rows
        from seqloom.kernels.parallel import parallel_run

        out = np.empty((len(self.ends), dense.shape[1]))
        # Where the row ends that completes a chunk; whole rows, so that no sum is divided.
        marks = np.arange(CHUNK, len(self.columns), CHUNK)
        cuts = np.unique([0, *np.searchsorted(self.ends, marks), len(self.ends)]).tolist()

        def work(rows: tuple[int, int]) -> None:
            low, high = rows
            first = self.ends[low - 1] if low else 0
            weighted_rows(
                dense,
                self.ends[low:high] - first,
                self.columns[first:],
                self.values[first:],
                out[low:high],
            )

        parallel_run(work, pairwise(cuts))
        return out


def minimise(
    x: Sparse, targets: np.ndarray, weights: np.ndarray, classes: int, strength: float
) -> tuple[np.ndarray, int]:
    """Return the weights of the features and, in the last row, the intercepts, (F + 1, K), that have the
    least penalised loss; and the number of steps.

    targets (n,): the class of each row of `x`; weights (n,): of the rows. `strength`: C. K is the number
    of classes, for two classes 1: their log-odds.
    """
    columns = 1 if classes <= 2 else classes
    wanted = np.equal.outer(targets, np.arange(classes))[:, -columns:]
    by_feature, penalty = x.transposed(), 1 / strength

    def residuals(scores: np.ndarray) -> np.ndarray:
        """Return the gradient of the loss by the scores, (n, K)."""
        # The second of two classes has the probability sigmoid(s) = (1 + tanh(s / 2)) / 2.
        probs = 0.5 + 0.5 * np.tanh(scores / 2) if classes == 2 else np.exp(log_softmax(scores))
        return (probs - wanted) * weights[:, None]

    def gradient_at(at: np.ndarray, scores: np.ndarray) -> np.ndarray:
        change = residuals(scores)
        return np.concatenate(
            [by_feature.times(change) + penalty * at[:-1], change.sum(axis=0, keepdims=True)]
        )

    squares = Sparse(by_feature.ends, by_feature.columns, by_feature.values**2)
    variance = (1 - 1 / classes) / classes  # of a class, while all are equally likely
    diagonal = variance * squares.times(weights[:, None]) + penalty
    diagonal = np.append(diagonal, [[max(variance * weights.sum(), penalty)]], axis=0)  # (F + 1, 1)
    at, scores = np.zeros((x.width + 1, columns)), np.zeros((len(targets), columns))
    gradient = gradient_at(at, scores)
    pairs: list[tuple[np.ndarray, np.ndarray, float]] = []
    with progress.task("fitting", None, "steps") as bar:
        for step in range(MAX_STEPS):
            shares_off = np.abs(gradient[-1]).max() / weights.sum()
            if (
                np.sqrt(_inner(gradient, gradient)) * strength <= CLOSE
                and shares_off <= CLOSE_SHARE
            ):
                return at, step
            direction = _direction(gradient, diagonal, pairs)
            added = x.times(direction[:-1]) + direction[-1]
            inner = penalty * _inner(at[:-1], direction[:-1])
            square = penalty * _inner(direction[:-1], direction[:-1])

            def slope(
                length: float,
                scores: np.ndarray = scores,
                added: np.ndarray = added,
                terms: tuple[float, float] = (inner, square),
            ) -> float:
                loss = _inner(residuals(scores + length * added), added)
                return loss + terms[0] + length * terms[1]

            length = _search(slope, _inner(gradient, direction))
            moved = length * direction
            at, scores = at + moved, scores + length * added
            new = gradient_at(at, scores)
            bend = _inner(moved, new - gradient)
            if bend <= 0:  # as exact as these numbers can be
                return at, step
            pairs = [*pairs[1 - HISTORY :], (moved, new - gradient, bend)]
            gradient = new
            bar.advance()
    progress.say(
        f"the weights have not settled after {MAX_STEPS} steps; a smaller C needs fewer (it is "
        f"{strength:g})"
    )
    return at, MAX_STEPS


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    """Return the inner product; not by BLAS, whose threads wait for each other on a busy machine."""
    return float(np.einsum("fk,fk->", a, b))


def _direction(
    gradient: np.ndarray,
    diagonal: np.ndarray,
    pairs: Sequence[tuple[np.ndarray, np.ndarray, float]],
) -> np.ndarray:
    """Return minus the gradient times the inverse Hessian that the last steps suggest (two loops)."""
    out, shares = gradient.copy(), []
    for moved, change, bend in reversed(pairs):
        shares.append(_inner(moved, out) / bend)
        out -= shares[-1] * change
    scale = 1.0
    if pairs:
        _, change, bend = pairs[-1]
        scale = bend / _inner(change, change / diagonal)
    out *= scale / diagonal
    for moved, change, bend in pairs:
        out += (shares.pop() - _inner(change, out) / bend) * moved
    return -out


def _search(slope: Callable[[float], float], first: float) -> float:
    """Return how far to go: to where the slope, which rises from `first` < 0, is less than a third."""
    low, high = (0.0, first), None
    length = 1.0
    for _ in range(60):
        here = slope(length)
        if abs(here) <= 0.3 * abs(first):
            break
        if here < 0:
            low = length, here
        else:
            high = length, here
        if high is None:
            length *= 2
        else:  # where a straight line between both is zero
            length = low[0] + (high[0] - low[0]) * -low[1] / (high[1] - low[1])
    return length
