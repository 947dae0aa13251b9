"""The same model with and without a step: does lower-casing, stemming, a stop list, another smoothing help here?

The text is cut into contiguous folds; each is held out once, and both settings learn from the rest and are measured
on the same held-out lines. So every figure comes in pairs, and what counts is the spread of the differences.

What may be compared. A likelihood is the probability of a text. A setting that loses part of the text (a normaliser,
unknown words) gives the probability of a different, easier text, and its perplexity falls without anything having
been learnt. So likelihoods are compared only where both settings keep every byte (then in bits per byte) or cut the
text into the very same tokens (then in nats per token); otherwise that is refused, and what remains are figures that
mean the same for both: how large the vocabulary is, how many held-out tokens and types it does not know, and how
long the lines become. To know whether a lossy step helps a task, measure that task.

Intervals. Figures that are sums over lines are resampled by lines, both settings together (Koehn 2004). The number
of different words is no such sum (a resample has fewer of them), so those figures show their range over the folds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom._version import __version__
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.data.describe import known_types
from seqloom.data.encode import encode_corpus
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import bootstrap
from seqloom.metrics.costs import segment_costs
from seqloom.metrics.result import plain
from seqloom.metrics.segments import MOST
from seqloom.registry import model_class
from seqloom.text.tokenizer import Tokenizer

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """One row of the table: both settings, and the second less the first with an interval."""

    name: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    over: str  # what the interval is over: "lines", or "folds" (then it is the range)
    p_value: float | None = None

    @property
    def clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ABResult:
    model: str
    a: dict[str, Any]
    b: dict[str, Any]
    runs: str  # how they were made
    corpus: str
    fingerprint: str
    figures: list[Figure]
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Figure:
        return next(figure for figure in self.figures if figure.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return plain(asdict(self) | {"seqloom": __version__})

    def table(self) -> str:
        """The comparison as text."""
        rows = [("", "A", "B", "B - A", "95 %", "")]
        for f in self.figures:
            over = "lines" if f.over == "lines" else "range over folds"
            verdict = "" if f.clear else ", the same" if f.low == f.high == 0 else ", not clear"
            spread = "-" if math.isnan(f.low) else f"{_number(f, f.low, '+')} to {_number(f, f.high, '+')}"
            rows.append((f.name, _number(f, f.a), _number(f, f.b), _number(f, f.difference, "+"), spread, over + verdict))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:5], widths[1:5])), row[5]])
                 for row in rows]
        head = [f"{self.model} on {self.corpus} ({self.fingerprint[:8]}), {self.runs}",
                f"A: {_shown(self.a)}", f"B: {_shown(self.b)}", ""]
        return "\n".join(line.rstrip() for line in [*head, *lines, *self.notes])


class _Run(NamedTuple):
    """What one setting gave on one held-out part."""

    vocab_size: int
    known_types: float
    tokens: np.ndarray  # of each line
    unknown: np.ndarray
    costs: np.ndarray  # nats of each segment, and what it weighs; none where likelihoods are not compared
    weights: np.ndarray


def ab(data: Any, *, a: Options | None = None, b: Options | None = None, both: Options | None = None,
       model: str = "ngram", folds: int = 5, seeds: Sequence[int] = (), samples: int = 1000) -> ABResult:
    """Compare two sets of a model's options; `both` holds what they share. `data` as in `fit`.

    With `seeds` only the last fold is held out, once for each seed, and the costs of a line are averaged over them.
    """
    corpus = as_corpus(data)
    cls = model_class(model)
    if not issubclass(cls, LanguageModel):
        raise ConfigError(f"ab compares language models, and {model} is for another task ({cls.task}); fit it with each "
                          "setting and evaluate both on the same held-out data")
    settings = [{**(both or {}), **(one or {})} for one in (a, b)]
    if settings[0] == settings[1]:
        raise ConfigError("A and B are the same; give one of them an option, for example b={'normalize': 'case=lower'}")
    if seeds and "seed" not in {f.name for f in fields(cls.config_class)}:
        raise ConfigError(f"{model} has no seed: a second run gives the same; use folds")
    parts = _folds(corpus, folds)
    runs: list[tuple[_Run, _Run]] = []
    refusal = ""
    chosen = [(parts[-1], {"seed": seed}) for seed in seeds] or [(part, {}) for part in parts]
    with progress.task("A/B", len(chosen), "runs") as bar:
        for (train, test), extra in chosen:
            models = [cls(**setting, **extra) for setting in settings]
            tokenizers = [made.make_tokenizer(train) for made in models]
            refusal = refusal or _refusal(models, tokenizers)
            first, second = (_measure(m, t, train, test, not refusal) for m, t in zip(models, tokenizers))
            runs.append((first, second))
            unit = "bits per byte" if all(tokenizer.lossless for tokenizer in tokenizers) else "nats per token"
            bar.advance()
    figures = [] if refusal else [_likelihood(runs, bool(seeds), unit, samples)]
    figures += _counts(runs[:1] if seeds else runs, samples)
    made = f"last of {folds} folds, {len(seeds)} seeds" if seeds else f"{folds} contiguous folds"
    return ABResult(model, settings[0], settings[1], made, corpus.name, corpus.fingerprint[:16], figures,
                    (f"no likelihood: {refusal}",) if refusal else ())


def _folds(corpus: Corpus, k: int) -> list[tuple[Corpus, Corpus]]:
    """Training and held-out lines, k times; borders by bytes, at the ends of lines."""
    lines = list(corpus.lines())
    ends = np.cumsum([len(line) + 1 for line in lines])
    if k < 2 or len(lines) < 2 * k:
        raise DataError(f"{k} folds of {len(lines)} lines cannot be made; give at least 2 folds and twice "
                        "as many lines")
    borders = [0, *np.searchsorted(ends, ends[-1] * np.arange(1, k) / k).tolist(), len(lines)]
    if not all(low < high for low, high in pairwise(borders)):
        raise DataError(f"the lines are too uneven for {k} folds; give fewer folds")
    return [(Corpus.from_texts(lines[:low] + lines[high:]), Corpus.from_texts(lines[low:high]))
            for low, high in pairwise(borders)]


def _refusal(models: list[LanguageModel], tokenizers: list[Tokenizer]) -> str:
    """Why the likelihoods of two settings are of different texts; empty where they are not."""
    if all(tokenizer.lossless for tokenizer in tokenizers):
        return ""
    if tokenizers[0] == tokenizers[1] and models[0].unit == models[1].unit:
        return ""
    cuts = " and ".join(f"{t.label()} by {m.unit}" for m, t in zip(models, tokenizers))
    return f"the settings cut the text differently ({cuts}) and lose part of it, so they are of different texts"


def _measure(model: LanguageModel, tokenizer: Tokenizer, train: Corpus, test: Corpus, likelihood: bool) -> _Run:
    ids = encode_corpus(tokenizer, test, unit="line")
    ends = ids == tokenizer.eos_id
    line = np.cumsum(ends) - ends
    unknown = np.zeros(len(ids), bool) if tokenizer.unk_id is None else ids == tokenizer.unk_id
    own = Tokenizer(**{**tokenizer.config.to_dict(), "vocab_size": None, "min_count": 1, "vocab_file": None})
    closed = tokenizer.kind in ("whitespace", "word", "char")
    costs = weights = np.zeros(0)
    if likelihood:
        model.fit(train, tokenizer=tokenizer)
        units = encode_corpus(tokenizer, test, unit=model.unit)
        log_probs = model.text_log_probs(units)
        costs, weights = segment_costs(tokenizer, model.unit, test, units, log_probs)
    return _Run(tokenizer.vocab_size, known_types(tokenizer, own.fit(test)) if closed else 1.0,
                np.bincount(line, ~ends), np.bincount(line, unknown), costs, weights)


def _likelihood(runs: list[tuple[_Run, _Run]], averaged: bool, unit: str, samples: int) -> Figure:
    def join(arrays: list[np.ndarray]) -> np.ndarray:
        return np.mean(arrays, axis=0) if averaged else np.concatenate(arrays)

    scale = math.log(2) if unit == "bits per byte" else 1.0
    a, b = (join([run[side].costs for run in runs]) / scale for side in (0, 1))
    weights = join([run[0].weights for run in runs])
    total = float(weights.sum())
    paired = bootstrap.paired(b, a, weights, samples=samples)
    return Figure(unit, float(a.sum()) / total, float(b.sum()) / total, paired.difference, paired.low, paired.high,
                  "lines", paired.p_value)


def _counts(runs: list[tuple[_Run, _Run]], samples: int) -> list[Figure]:
    tokens = [np.concatenate([run[side].tokens for run in runs]) for side in (0, 1)]
    unknown = [np.concatenate([run[side].unknown for run in runs]) for side in (0, 1)]
    ones = np.ones(len(tokens[0]))
    return [_over_folds("vocabulary", [(float(run[0].vocab_size), float(run[1].vocab_size)) for run in runs]),
            _rate("unknown tokens", unknown[0], tokens[0], unknown[1], tokens[1], samples),
            _over_folds("known types", [(run[0].known_types, run[1].known_types) for run in runs]),
            _rate("tokens a line", tokens[0], ones, tokens[1], ones, samples)]


def _over_folds(name: str, pairs: list[tuple[float, float]]) -> Figure:
    a, b = np.array(pairs).T
    return Figure(name, float(a.mean()), float(b.mean()), float((b - a).mean()), float((b - a).min()),
                  float((b - a).max()), "folds")


def _rate(name: str, a: np.ndarray, a_of: np.ndarray, b: np.ndarray, b_of: np.ndarray, samples: int) -> Figure:
    """The difference of two ratios of sums, resampled by groups of neighbouring lines, all four sums together."""
    starts = np.unique(np.linspace(0, len(a), min(len(a), MOST), endpoint=False).astype(np.int64))
    sums = np.stack([np.add.reduceat(x.astype(np.float64), starts) for x in (a, a_of, b, b_of)])
    rng = np.random.default_rng(0)
    drawn = [sums[:, rng.integers(0, len(starts), len(starts))].sum(axis=1) for _ in range(samples)]
    resampled = np.array([_ratio(d[2], d[3]) - _ratio(d[0], d[1]) for d in drawn])
    low, high = np.quantile(resampled, [0.025, 0.975])
    total = sums.sum(axis=1)
    first, second = _ratio(total[0], total[1]), _ratio(total[2], total[3])
    return Figure(name, first, second, second - first, float(low), float(high), "lines")


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _number(figure: Figure, value: float, sign: str = "") -> str:
    form = {"unknown tokens": ".2%", "known types": ".2%", "vocabulary": ",.0f", "tokens a line": ",.2f"}
    return f"{value:{sign}{form.get(figure.name, ',.4f')}}"


def _shown(options: Options) -> str:
    return " ".join(f"{key}={value}" for key, value in options.items()) or "as it is"
