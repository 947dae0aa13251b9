"""Naive Bayes: the class that makes the words of a text likeliest, as if they came independently of
each other.

    log p(C | x) = log p(C) + sum over features of log p(feature | C) + constant

Multinomial: the features are draws, p = (count + k) / (all counts + k F). Bernoulli: each feature
occurs or not, and absence counts too (McCallum and Nigam 1998 compare the two). Complement: the
weight is how unlikely the feature is in all other classes together, without a prior, steadier where
classes differ in size (Rennie et al. 2003, "Tackling the poor assumptions", section 3.1; without
its further steps of weighting).

Features that were not seen in training are ignored. A text without known features falls back to the
prior (bernoulli: to the prior and the absence of all features). Since words are not independent,
the probabilities are too sure: `calibrate` divides the scores by a temperature that is fitted on
held-out texts (Guo et al. 2017).

    >>> model = NaiveBayes().fit([("good fun", "+"), ("dull", "-"), ("good", "+"), ("so dull", "-")])
    >>> model.predict("a good day")
    '+'
    >>> [(share.feature, round(share.nats, 3)) for share in model.explain("a good day").shares]
    [('good', 1.099)]
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from typing import Any, Self

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts.classification import Classifier
from seqloom.contracts.fitting import FitOptions
from seqloom.data.classification import Labelled, as_labelled
from seqloom.data.corpus import Corpus
from seqloom.decoding.stepper import check_scores
from seqloom.errors import ConfigError, DataError
from seqloom.models.classification.configs import NaiveBayesConfig
from seqloom.models.classification.decisions import log_softmax
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
from seqloom.models.classification.feature_counts import Counted, FeatureCounts
from seqloom.models.classification.features import Features, check_keys, check_texts, grows, once

_SUREST = 1e3  # scores are multiplied by at most this, and by at least its inverse
_MAX_COUNT = 1 << 53


class NaiveBayes(Classifier):
    name = "naive-bayes"
    public_names = "partial_fit explain top_features temperature"
    config_class = NaiveBayesConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.temperature = 1.0
        self._counting: FeatureCounts | None = None  # while `partial_fit` may continue
        self._pending = False  # whether the weights are older than the counts
        self._valid: Labelled | None = None

    # ---- fitting

    def fit_examples(self, data: Labelled, options: FitOptions) -> None:
        self._pending, self._valid = False, options.valid
        self._check_valid(options.valid)
        try:
            self._counting = self._new_counts(data.texts)
            self._count(data)
            self._finish()
        finally:
            self._counting = self._valid = None

    def partial_fit(self, data: Any, labels: Any = None, *, valid: Any = None) -> Self:
        """Learn from more texts: what `fit` takes, or an iterator of Labelled such as
        `stream_labelled` gives.

        After any number of calls the model is bit for bit the one that a single `fit` on all texts
        gives; new words and classes may come at any time. `valid` is for calibration and may be
        given with any call; the last one counts.
        """
        if valid is not None:
            self._valid = as_labelled(valid)
        self._check_valid(self._valid)
        for labelled in _portions(data, labels):
            if self._counting is None:
                self._counting = self._resumed() if self.fitted else self._new_counts(None)
            labelled = labelled.like(self.classes)
            self._count(labelled)
            self._pending = True
            chained = hashlib.sha256(
                (self.recorded("data_hash", "") + labelled.fingerprint).encode()
            ).hexdigest()
            self.fit_info = {
                "data": self.recorded("data", labelled.name),
                "data_hash": chained[:16] if self.fitted else labelled.fingerprint[:16],
                "texts": self._counting.n_texts,
            }
            self.learnt, self.fitted = {"classes": sorted(self._counting.labels)}, True
        return self

    def check_fitted(self) -> None:
        super().check_fitted()
        if self._pending:
            self._finish()

    def _check_valid(self, valid: Labelled | None) -> None:
        if self.config.calibrate != "none" and valid is None:
            raise ConfigError(
                f"calibrate={self.config.calibrate} needs held-out texts; give valid, or calibrate=none"
            )

    def _new_counts(self, texts: list[str] | None) -> FeatureCounts:
        """Start new counts; `texts`: all of them, or None where they come in portions."""
        c = self.config
        if grows(c):
            return FeatureCounts(c, presence=once(c))
        if texts is None and c.tokenizer in ("bpe", "wordpiece", "unigram"):
            raise ConfigError(
                f"a {c.tokenizer} tokenizer must see all texts before the first is counted, so partial_fit "
                "needs a finished one; train it with seqloom.Tokenizer and give its directory as tokenizer"
            )
        tokenizer = self._make_tokenizer(Corpus.from_texts(texts or [" "]))
        return FeatureCounts(c, tokenizer, presence=once(c))

    def _resumed(self) -> FeatureCounts:
        """Return the counts of a model that was fitted or loaded."""
        c = self.config
        if c.min_count > 1 or c.vocab_size is not None:
            raise ConfigError(
                "this model dropped rare words (min_count, vocab_size), so it cannot be updated as if it had "
                "seen all texts at once; use partial_fit from the start on a new model"
            )
        return FeatureCounts.resume(c, self._counted, presence=once(c))

    def _count(self, data: Labelled) -> None:
        assert self._counting is not None
        check_texts(data.texts)
        try:
            with progress.task("counting", len(data), "texts") as bar:
                for n in self._counting.add(data.texts, data.labels):
                    bar.advance(n)
        except BaseException:
            self._counting, self._pending = None, False
            self._forget()  # part of the texts was counted: start again
            raise

    def _finish(self) -> None:
        """Compute weights from counts."""
        assert self._counting is not None
        done = self._counting.counted()
        features = self._index(done)
        if not features.usable.any():
            raise DataError(
                f"no word occurs {self.config.min_count} times or more; lower min_count"
            )
        self._weights, self._log_prior, self._absent = _estimate(self.config, done, features.usable)
        self.tokenizer, self.temperature = done.tokenizer, 1.0
        self._counted, self._features, self._pending = done, features, False
        if self.config.calibrate == "temperature" and self._valid is not None:
            self.temperature = self._fit_temperature(self._valid)
        self.fit_info = {
            **self.fit_info,
            "features": int(features.usable.sum()),
            "temperature": self.temperature,
        }

    def _index(self, done: Counted) -> Features:
        frequent = done.seen[: done.tokenizer.vocab_size] >= self.config.min_count
        return Features(
            done.tokenizer,
            done.keys,
            frequent,
            self.config.ngrams,
            presence=once(self.config),
        )

    def _fit_temperature(self, valid: Labelled) -> float:
        """Find the temperature that makes the valid labels likeliest, by bisection: the loss is convex
        in its inverse.
        """
        valid, class_index = (
            valid.like(self.classes),
            {name: i for i, name in enumerate(self.classes)},
        )
        rows = [i for i, name in enumerate(valid.labels) if name in class_index]
        if not rows:
            raise DataError(
                f"{valid.name} has no label that was seen in training; valid data must share its classes"
            )
        scores = self._scores([valid.texts[i] for i in rows])[0]
        above = (
            scores
            - scores[np.arange(len(rows)), [class_index[valid.labels[i]] for i in rows]][:, None]
        )  # (n, C)
        if above.max() <= 0:  # the loss has no minimum: it falls towards temperature 0
            progress.say(
                f"every text of {valid.name} is classified correctly, so it cannot calibrate; "
                f"temperature stays 1"
            )
            return 1.0
        low, high = 1 / _SUREST, _SUREST
        for _ in range(60):
            middle = (low * high) ** 0.5
            slope = float((np.exp(log_softmax(above * middle)) * above).sum())
            low, high = (low, middle) if slope > 0 else (middle, high)
        return 1 / middle

    # ---- answers

    def log_probs(self, texts: list[str]) -> np.ndarray:
        """Return `class_log_probs`, which batches by itself."""
        self.check_fitted()
        return (
            check_scores(self.class_log_probs(texts)) if texts else np.empty((0, len(self.classes)))
        )

    def class_log_probs(self, texts: list[str]) -> np.ndarray:
        self.check_fitted()
        scores, n_features = self._scores(texts)
        fallback = (
            "there the prior and what is absent decide"
            if self.config.variant == "bernoulli"
            else "there the prior alone decides"
        )
        unknown = np.flatnonzero(n_features == 0).tolist()
        progress.remark(unknown, len(texts), "texts", "no known word", fallback)
        return log_softmax(scores / self.temperature)

    def _scores(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Compute unnormalised log-probabilities (n, C), and how many features each text has (n,)."""
        scores, n_features = (
            np.empty((len(texts), len(self.classes))),
            np.empty(len(texts), np.int64),
        )
        done = 0
        with progress.task("classifying", len(texts), "texts") as bar:
            for rows, counts in self._features.score(texts, self._weights):
                scores[done : done + len(rows)], n_features[done : done + len(rows)] = rows, counts
                done += len(rows)
                bar.advance(len(rows))
        if self.config.variant == "complement":
            scores[n_features == 0] = self._log_prior
        else:
            scores += self._log_prior + self._absent
        return scores, n_features

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
        rows, times = self._features.of(text)
        factors = np.ones_like(times) if once(self.config) else times
        uses_prior = self.config.variant != "complement" or not len(rows)
        return explain_by_features(
            self,
            text,
            {self._features.name(row): count for row, count in zip(rows.tolist(), times.tolist())},
            self._weights[rows] * factors[:, None] / self.temperature,
            self._log_prior / self.temperature * uses_prior,
            self._absent / self.temperature,
            (n, label, against),
        )

    def top_features(self, label: Any, n: int = 20) -> list[Share]:
        """Return the strongest features of a class, by their weight minus its mean in the other classes;
        counts are those of the class.
        """
        self.check_fitted()
        c = class_index(self, label)
        nats, rows = over_others(self._weights, c), np.flatnonzero(self._features.usable)
        rows = rows[np.argsort(-nats[rows], kind="stable")[:n]]
        return [
            Share(self._features.name(int(r)), int(self._counted.counts[r, c]), float(nats[r]))
            for r in rows
        ]

    @property
    def parameters(self) -> int:
        return (
            int(self._features.usable.sum() + 1) * len(self.classes)
            if self.fitted and not self._pending
            else 0
        )

    def label(self) -> str:
        c = self.config
        parts = [
            f"naive-bayes-{c.variant}",
            f"{c.ngrams}grams" if c.ngrams > 1 else "",
            "presence" if c.features == "presence" and c.variant != "bernoulli" else "",
            f"k{c.k:g}" if c.k != 1 else "",
            "uniform" if c.prior == "uniform" else "",
            "calibrated" if c.calibrate != "none" else "",
        ]
        return "-".join(filter(None, parts))

    # ---- persistence

    def arrays(self) -> dict[str, np.ndarray]:
        done = self._counted
        return {
            "keys": done.keys,
            "counts": done.counts,
            "seen": done.seen,
            "documents": done.documents,
            "weights": self._weights,
            "log_prior": self._log_prior,
            "absent": self._absent,
            "temperature": np.array([self.temperature]),
        }

    def array_specs(self, length: Length) -> dict[str, Spec]:
        n, classes = length("keys"), len(self.classes)
        rows = self.tokenizer.vocab_size + n
        return {
            "keys": Spec("uint64", (n,)),
            "seen": Spec("int64", (rows,), 0, _MAX_COUNT),
            "counts": Spec("uint32 int64", (rows, classes), 0, _MAX_COUNT),
            "documents": Spec("int64", (classes,), 1, _MAX_COUNT),
            "weights": Spec("float64", (rows, classes), -_SUREST, _SUREST),
            "log_prior": Spec("float64", (classes,), -_SUREST, 0),
            "absent": Spec("float64", (classes,)),
            "temperature": Spec("float64", (1,), 1 / _SUREST, _SUREST),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        tokenizer, classes = self.tokenizer, list(self.classes)
        keys, weights, seen = arrays["keys"], arrays["weights"], arrays["seen"]
        check_keys(keys, tokenizer)
        self._counted = Counted(
            tokenizer, classes, arrays["documents"], keys, arrays["counts"], seen
        )
        self._features = self._index(self._counted)
        self._weights, self._log_prior, self._absent = (
            weights,
            arrays["log_prior"],
            arrays["absent"],
        )
        self.temperature = float(arrays["temperature"][0])


def _portions(data: Any, labels: Any) -> Iterator[Labelled]:
    """Yield labelled texts in portions; an iterator of pairs is one portion."""
    if labels is None and isinstance(data, Iterator):
        first = next(data, None)
        if isinstance(first, Labelled):
            yield first
            yield from map(as_labelled, data)
            return
        data = [] if first is None else chain([first], data)
    yield as_labelled(data, labels)


def _estimate(
    config: NaiveBayesConfig, done: Counted, usable: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute weights (F, C), zero where a row is no feature; log-priors (C,); and the
    log-probability that all features are absent (C,).
    """
    n, k, documents = (
        done.counts[usable].astype(np.float64),
        config.k,
        done.documents.astype(np.float64),
    )
    absent = np.zeros(len(documents))
    if config.variant == "multinomial":
        feature_weights = np.log(n + k) - np.log(n.sum(axis=0) + k * len(n))
    elif config.variant == "bernoulli":
        missing = np.log(documents - n + k)
        feature_weights = np.log(n + k) - missing
        absent = (missing - np.log(documents + 2 * k)).sum(axis=0)
    else:
        other_counts = n.sum(axis=1, keepdims=True) - n + k
        feature_weights = np.log(other_counts.sum(axis=0)) - np.log(other_counts)
    weights = np.zeros(done.counts.shape)
    weights[usable] = feature_weights
    prior = (
        documents / documents.sum()
        if config.prior == "data"
        else np.full(len(documents), 1 / len(documents))
    )
    return weights, np.log(prior), absent
