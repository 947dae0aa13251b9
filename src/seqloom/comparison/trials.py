"""What `ab` needs of each task: how its data is split, and what two models score on each held-out segment.

A task is one class with `split` and `measure`. Segments are what is resampled: lines of a text, labelled texts, tagged
sentences, questions to word vectors. Both models are measured on the same ones, row by row, so that differences are paired.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from seqloom.contracts import Classifier, Embedder, Forecaster, LanguageModel, Tagger
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.data.describe import known_types
from seqloom.data.encode import encode_corpus
from seqloom.data.labelled import as_labelled
from seqloom.data.series import Series, as_series
from seqloom.data.splitting import hashed_order
from seqloom.data.tagged import as_tagged
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bootstrap import correlation, ratio
from seqloom.metrics.costs import segment_costs
from seqloom.metrics.forecasting import segments
from seqloom.metrics.tagging import span_counts
from seqloom.metrics.vectors import as_questions, ranks
from seqloom.text.tokenizer import Tokenizer

Better = Literal["lower", "higher", ""]


class Scores(NamedTuple):
    """One metric: values of each segment for both models, (n, m), and how a metric is made of rows of them."""

    name: str
    a: np.ndarray
    b: np.ndarray
    statistic: Callable[[np.ndarray], float]
    better: Better
    over: str  # what a segment is


class Count(NamedTuple):
    """A number of each model that is no statistic of segments, such as the size of a vocabulary."""

    name: str
    a: float
    b: float


class Trial(NamedTuple):
    """What two models gave on one held-out part; the first metric is the one they are judged by."""

    scores: list[Scores]
    counts: Sequence[Count] = ()
    notes: tuple[str, ...] = ()


class Trials(ABC):
    """Data of one task."""

    has_folds: ClassVar[bool] = True
    data: Any

    def __init__(self, data: Any, valid: Any = None) -> None:
        self.data, self.valid = self.read(data), None if valid is None else self.read(valid)

    @staticmethod
    @abstractmethod
    def read(data: Any) -> Any: ...

    @abstractmethod
    def split(self, folds: int) -> list[tuple[Any, Any]]:
        """Training and held-out parts, so many times."""

    @abstractmethod
    def measure(self, models: Sequence[Any], fits: Sequence[dict[str, Any]], train: Any, test: Any) -> Trial:
        """Fit both models, each with its arguments of `fit`, and measure them on the test part."""

    def __len__(self) -> int:
        return len(self.data)


class TextTrials(Trials):
    """Language models, on contiguous parts of a text. Likelihoods of different texts are not compared (see `ab`)."""

    read = staticmethod(as_corpus)

    def __len__(self) -> int:
        return sum(1 for _ in self.data.lines())

    def split(self, folds: int) -> list[tuple[Corpus, Corpus]]:
        """Borders by bytes, at the ends of lines."""
        lines = list(self.data.lines())
        ends = np.cumsum([len(line) + 1 for line in lines])
        borders = _borders(ends / ends[-1] if len(lines) else ends, folds, "lines")
        return [(Corpus.from_texts(lines[:low] + lines[high:]), Corpus.from_texts(lines[low:high]))
                for low, high in pairwise(borders)]

    def measure(self, models: Sequence[LanguageModel], fits: Sequence[dict[str, Any]], train: Corpus, test: Corpus) -> Trial:
        tokenizers = [model.make_tokenizer(train) for model in models]
        refusal = different_texts(models, tokenizers)
        scores = [] if refusal else [_likelihoods(models, tokenizers, fits, train, test)]
        (a_tokens, a_unknown), (b_tokens, b_unknown) = (_line_counts(tokenizer, test) for tokenizer in tokenizers)
        ones = np.ones(len(a_tokens))
        scores += [_sums("unknown tokens", (a_unknown, a_tokens), (b_unknown, b_tokens), "", "lines"),
                   _sums("tokens a line", (a_tokens, ones), (b_tokens, ones), "", "lines")]
        sizes = [float(tokenizer.vocab_size) for tokenizer in tokenizers]
        known = [_known(tokenizer, test) for tokenizer in tokenizers]
        return Trial(scores, [Count("vocabulary", *sizes), Count("known types", *known)],
                     (f"no likelihood: {refusal}",) if refusal else ())


class LabelTrials(Trials):
    """Classifiers. Texts are put in the order of their hashes, since files are often sorted by class; equal texts stay
    together, so that none is held out that was also learnt."""

    read = staticmethod(as_labelled)

    def __init__(self, data: Any, valid: Any = None) -> None:
        super().__init__(data, valid)
        self.places: dict[Any, int] = {}  # of classes, for all folds

    def split(self, folds: int) -> list[tuple[Any, Any]]:
        order, may_begin = hashed_order(self.data.examples)
        borders = _borders(np.arange(1, len(order) + 1) / max(len(order), 1), folds, "texts")
        borders = [next((i for i in range(at, len(order)) if may_begin[i]), len(order)) for at in borders]
        _check_borders(borders, folds, "texts")
        return [(self.data.part(sorted(order[:low] + order[high:])), self.data.part(sorted(order[low:high])))
                for low, high in pairwise(borders)]

    def measure(self, models: Sequence[Classifier], fits: Sequence[dict[str, Any]], train: Any, test: Any) -> Trial:
        log_probs = [model.fit(train, **fit).log_probs(test.examples) for model, fit in zip(models, fits)]
        test = test.like(models[0].classes, strict=False)
        labels = [model.labels_of(np.exp(values)) for model, values in zip(models, log_probs)]
        if any(model.multi_label for model in models):
            return _several_labels(test, labels)
        gold, *said = (np.array([self.places.setdefault(label, len(self.places)) for label in part])
                       for part in (test.labels, *labels))
        ones = np.ones(len(gold))
        scores = [_sums("accuracy", (gold == said[0], ones), (gold == said[1], ones), "higher", "texts"),
                  Scores("macro F1", np.stack([gold, said[0]], axis=1), np.stack([gold, said[1]], axis=1), macro_f1, "higher",
                         "texts")]
        costs = [_nats(model.classes, test.labels, values) for model, values in zip(models, log_probs)]
        if all(np.isfinite(part).all() for part in costs):
            scores.append(_sums("nats per text", (costs[0], ones), (costs[1], ones), "lower", "texts"))
        return Trial(scores)


class TagTrials(Trials):
    """Taggers, on contiguous sentences: neighbours are often of the same document."""

    read = staticmethod(as_tagged)

    def split(self, folds: int) -> list[tuple[Any, Any]]:
        ends = np.cumsum([len(words) for words in self.data.sentences])
        borders = _borders(ends / max(ends[-1], 1), folds, "sentences")
        rows = np.arange(len(ends))
        return [(self.data.part((rows < low) | (rows >= high)), self.data.part(slice(low, high)))
                for low, high in pairwise(borders)]

    def measure(self, models: Sequence[Tagger], fits: Sequence[dict[str, Any]], train: Any, test: Any) -> Trial:
        test = test.part([bool(words) for words in test.sentences])
        said = [model.fit(train, **fit).predict(test.sentences) for model, fit in zip(models, fits)]
        right = [[np.array(gold) == np.array(tags) for gold, tags in zip(test.tags, part)] for part in said]
        lengths = [len(words) for words in test.sentences]
        correct = [[int(row.sum()) for row in part] for part in right]
        scores = [_sums("accuracy", (correct[0], lengths), (correct[1], lengths), "higher", "sentences")]
        unknown = [[np.array([not model.knows(word) for word in words]) for words in test.sentences] for model in models]
        if all(any(map(np.any, part)) for part in unknown):
            pairs = [([int((r & u).sum()) for r, u in zip(*both)], [int(u.sum()) for u in both[1]])
                     for both in zip(right, unknown)]
            scores.append(_sums("accuracy of unknown words", pairs[0], pairs[1], "higher", "sentences"))
        if test.scheme is not None:
            a, b = (span_counts(test.tags, part, test.scheme).T for part in said)
            scores.insert(0, _sums("span F1", a, b, "higher", "sentences"))
        return Trial(scores)


class VectorTrials(Trials):
    """Word vectors: nothing is held out; both learn from the whole text and answer the same questions."""

    has_folds = False

    def __init__(self, data: Any, valid: Any = None) -> None:
        if valid is None:
            raise ConfigError("word vectors are evaluated on questions; give a file of analogies or similarities "
                              "(--valid FILE, valid=...)")
        self.data, self.valid = as_corpus(data), as_questions(valid)

    read = staticmethod(as_corpus)

    def split(self, folds: int) -> list[tuple[Any, Any]]:
        raise ConfigError("word vectors are evaluated on questions, not on held-out text; leave out folds")

    def measure(self, models: Sequence[Embedder], fits: Sequence[dict[str, Any]], train: Corpus, test: Any) -> Trial:
        for model, fit in zip(models, fits):
            model.fit(train, **fit)
        if test.kind == "analogies":
            right = [model.outcomes(test) for model in models]
            missing = [int(np.isnan(part).sum()) for part in right]
            a, b = (np.nan_to_num(part) for part in right)
            ones = np.ones(len(a))
            note = f"questions with a word without a vector count as wrong: {missing[0]:,} for A, {missing[1]:,} for B"
            return Trial([_sums("analogies", (a, ones), (b, ones), "higher", "questions")], (), (note,) if any(missing) else ())
        cosines = [model.outcomes(test) for model in models]
        both = ~np.isnan(cosines[0]) & ~np.isnan(cosines[1])
        if both.sum() < 2:
            raise DataError(f"{test.name}: fewer than two pairs have vectors in both models; nothing can be compared")
        people = ranks(np.array([score for _, _, score in test.pairs])[both])
        pairs = [np.stack([ranks(part[both]), people], axis=1) for part in cosines]
        note = f"{(~both).sum():,} pairs were skipped: a word has no vector"
        return Trial([Scores("Spearman", pairs[0], pairs[1], correlation, "higher", "pairs")], (),
                     () if both.all() else (note,))


class SeriesTrials(Trials):
    """Forecasters, on parts of the time that follow what they learnt from: the future is never learnt from."""

    read = staticmethod(as_series)

    def __init__(self, data: Any, valid: Any = None) -> None:
        super().__init__(data, valid)
        if self.valid is not None:
            self.valid = self.valid.following(self.data)

    def split(self, folds: int) -> list[tuple[Series, Series]]:
        """The data in one part more than folds: each but the first is forecast, after learning from all before it."""
        borders = [k / (folds + 1) for k in range(1, folds + 2)]
        return [(self.data.between(0, low), self.data.between(low, high)) for low, high in pairwise(borders)]

    def measure(self, models: Sequence[Forecaster], fits: Sequence[dict[str, Any]], train: Series, test: Series) -> Trial:
        ahead = min(model.horizon for model in models)
        done = [model.fit(train, **fit).backtest(test, horizon=ahead) for model, fit in zip(models, fits)]
        squares = [segments(part.truth - part.point, part.origins, ahead) for part in done]
        sizes = [segments(np.sqrt(np.abs(part.truth - part.point)), part.origins, ahead) for part in done]
        return Trial([_sums("MSE", squares[0], squares[1], "lower", "stretches of time"),
                      _sums("MAE", sizes[0], sizes[1], "lower", "stretches of time")])


TRIALS: dict[str, type[Trials]] = {"language model": TextTrials, "classifier": LabelTrials, "tagger": TagTrials,
                                   "word vectors": VectorTrials, "forecaster": SeriesTrials}


def macro_f1(rows: np.ndarray) -> float:
    """Mean F1 of the classes that came or were predicted; rows of (gold, predicted)."""
    gold, said = rows.astype(np.int64).T
    size = int(rows.max()) + 1
    both = np.bincount(gold[gold == said], minlength=size)
    sums = np.bincount(gold, minlength=size) + np.bincount(said, minlength=size)
    return float((2 * both[sums > 0] / sums[sums > 0]).mean())


def different_texts(models: Sequence[LanguageModel], tokenizers: Sequence[Tokenizer]) -> str:
    """Why the likelihoods of two settings are of different texts; empty where they are not."""
    if all(tokenizer.lossless for tokenizer in tokenizers):
        return ""
    if tokenizers[0] == tokenizers[1] and models[0].unit == models[1].unit:
        return ""
    cuts = " and ".join(f"{t.label()} by {m.unit}" for m, t in zip(models, tokenizers))
    return f"the settings cut the text differently ({cuts}) and lose part of it, so they are of different texts"


def _likelihoods(models: Sequence[LanguageModel], tokenizers: Sequence[Tokenizer], fits: Sequence[dict[str, Any]],
                 train: Corpus, test: Corpus) -> Scores:
    by_bytes = all(tokenizer.lossless for tokenizer in tokenizers)
    pairs = []
    for model, tokenizer, fit in zip(models, tokenizers, fits):
        model.fit(train, tokenizer=tokenizer, **fit)
        ids = encode_corpus(tokenizer, test, unit=model.unit)
        costs, weights = segment_costs(tokenizer, model.unit, test, ids, model.text_log_probs(ids))
        pairs.append((costs / np.log(2) if by_bytes else costs, weights))
    return _sums("bits per byte" if by_bytes else "nats per token", pairs[0], pairs[1], "lower", "lines")


def _line_counts(tokenizer: Tokenizer, test: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """How many tokens each line has, and how many of them are unknown."""
    ids = encode_corpus(tokenizer, test, unit="line")
    ends = ids == tokenizer.eos_id
    line = np.cumsum(ends) - ends
    unknown = np.zeros(len(ids), bool) if tokenizer.unk_id is None else ids == tokenizer.unk_id
    return np.bincount(line, ~ends), np.bincount(line, unknown)


def _known(tokenizer: Tokenizer, test: Corpus) -> float:
    """Share of the different words of a text that the tokenizer knows."""
    if tokenizer.kind not in ("whitespace", "word", "char"):
        return 1.0
    own = Tokenizer(**{**tokenizer.config.to_dict(), "vocab_size": None, "min_count": 1, "vocab_file": None})
    return known_types(tokenizer, own.fit(test))


def _several_labels(test: Any, said: Sequence[list[list[str]]]) -> Trial:
    gold = [set(labels) if isinstance(labels, tuple) else {labels} for labels in test.labels]
    f1, exact = [], []
    for part in said:
        f1.append(([2 * len(g & set(p)) for g, p in zip(gold, part)], [len(g) + len(p) for g, p in zip(gold, part)]))
        exact.append(([g == set(p) for g, p in zip(gold, part)], np.ones(len(gold))))
    return Trial([_sums("micro F1", f1[0], f1[1], "higher", "texts"),
                  _sums("exact match", exact[0], exact[1], "higher", "texts")])


def _nats(classes: Sequence[str], gold: Sequence[str], log_probs: np.ndarray) -> np.ndarray:
    places = {name: i for i, name in enumerate(classes)}
    return np.array([-min(row[places[label]], 0.0) if label in places else np.inf for label, row in zip(gold, log_probs)])


def _sums(name: str, a: Any, b: Any, better: Better, over: str) -> Scores:
    """A ratio of sums over segments: (parts, wholes) of each model."""
    first, second = (np.stack([np.asarray(column, np.float64) for column in pair], axis=1) for pair in (a, b))
    return Scores(name, first, second, ratio, better, over)


def _borders(shares: np.ndarray, folds: int, what: str) -> list[int]:
    """Where parts of like size begin and end, by the share of the data that each row closes."""
    if folds < 2 or len(shares) < 2 * folds:
        raise DataError(f"cannot make {folds} folds of {len(shares)} {what}; give at least 2 folds and twice as many {what}")
    at = np.searchsorted(shares, np.arange(1, folds) / folds + 1e-9, side="right").tolist()
    borders = [0, *at, len(shares)]
    _check_borders(borders, folds, what)
    return borders


def _check_borders(borders: list[int], folds: int, what: str) -> None:
    if not all(low < high for low, high in pairwise(borders)):
        raise DataError(f"the {what} are too uneven for {folds} folds; give fewer folds")
