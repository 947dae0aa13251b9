"""A score of many sentences that is a formula of sums: BLEU, chrF, word error rate.

Each sentence contributes a row of numbers; the score is a formula of the sums of the rows. So the
score of a part of the sentences (the long ones, say), its confidence interval and the comparison of
two systems need no second look at the texts. BLEU and the counting of n-grams that it shares with
chrF and ROUGE are here; the other scores are in `translation`.

    >>> score = CorpusScore("accuracy", np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]), mean_of)
    >>> round(score.value, 4), score.on([0, 1]), score.each.tolist()
    (0.6667, 0.5, [1.0, 0.0, 1.0])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from seqloom.errors import ConfigError, DataError, suggest_known
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
    # Numbers beside it, such as the brevity penalty.
    details: Mapping[str, Any] = field(default_factory=dict)
    sentence_formula: Formula | None = None  # of single sentences, where it is another

    @cached_property
    def value(self) -> float:
        """Return the score of all sentences."""
        return float(self.formula(self.statistics.sum(axis=0)))

    @property
    def each(self) -> np.ndarray:
        """Return the score of every sentence by itself; for BLEU and the like, their mean is not
        `value`.
        """
        return (self.sentence_formula or self.formula)(self.statistics)

    def on(self, rows: Sequence[int] | np.ndarray | slice) -> float:
        """Return the score of some sentences, by number, mask or slice."""
        return float(self.formula(self.statistics[rows].sum(axis=0)))

    def interval(
        self, *, level: float = 0.95, samples: int = 1000, seed: int = 0
    ) -> tuple[float, float]:
        """Return the confidence interval of the score at this level, by resampling sentences."""
        return interval_of_sums(
            self.statistics, self.formula, level=level, samples=samples, seed=seed
        )

    def against(
        self, other: CorpusScore, *, level: float = 0.95, samples: int = 1000, seed: int = 0
    ) -> Paired:
        """Compare two systems on the same sentences: return this score minus the other, with its
        interval and a p-value.
        """
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
    """Return the first of two sums divided by the second, which is a count."""
    return sums[..., 0] / np.maximum(sums[..., 1], 1)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> CorpusScore:
    """Compute the share of hypotheses that equal their references, ignoring white space around
    them.

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
            f"there must be one reference for each hypothesis, and some; got {len(hypotheses):,} "
            f"hypotheses and {len(references):,} references"
        )


# ---- ngram overlap


class Symbols(NamedTuple):
    """Sentences as numbers, one after the other."""

    ids: np.ndarray  # int64
    ends: np.ndarray  # (sentences + 1,) of the sentences, 0 first

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ends)


class Overlap(NamedTuple):
    """Counts of n-grams of each sentence, int64 (sentences, orders)."""

    shared: np.ndarray  # as often as in the one where there are fewer
    in_hypotheses: np.ndarray
    in_references: np.ndarray


def numbered(*sides: Sequence[Sequence[str]]) -> list[Symbols]:
    """Convert words to numbers, the same in all sides."""
    ids: dict[str, int] = {}
    numbers = []
    for sentences in sides:
        words = list(chain.from_iterable(sentences))
        for word in dict.fromkeys(words):
            ids.setdefault(word, len(ids))
        numbers.append(
            Symbols(
                np.fromiter(map(ids.__getitem__, words), np.int64, len(words)), _ends(sentences)
            )
        )
    return numbers


def characters(texts: Sequence[str]) -> Symbols:
    """Convert characters to their code points."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return Symbols(points.astype(np.int64), _ends(texts))


def ngram_overlap(hypotheses: Symbols, references: Symbols, orders: int) -> Overlap:
    """Count the n-grams of 1 to `orders` symbols that two lists of sentences share, by sentence.

    An n-gram is numbered, sentence by sentence, as the pair of the (n-1)-gram that it begins with
    and its last symbol; those that only one side has cannot become shared ones and are dropped.

    >>> hypotheses, references = numbered([["a", "b", "a"]], [["a", "a", "b"]])
    >>> overlap = ngram_overlap(hypotheses, references, 2)
    >>> overlap.shared.tolist(), overlap.in_hypotheses.tolist()
    ([[3, 1]], [[3, 2]])
    """
    n_sentences, split = len(hypotheses.ends) - 1, len(hypotheses.ids)
    symbols = _ranked(np.concatenate([hypotheses.ids, references.ids]))[1]
    width = int(symbols.max(initial=0)) + 1
    every = np.concatenate([hypotheses.lengths, references.lengths])
    sentence = np.repeat(np.tile(np.arange(n_sentences), 2), every)
    stops = np.repeat(np.cumsum(every), every)
    starts, grams = np.arange(len(symbols)), sentence
    shared = np.zeros((n_sentences, orders), np.int64)
    for n in range(orders):
        inside = starts + n < stops[starts]
        starts, grams = starts[inside], grams[inside]
        if not len(starts):
            break
        some, grams = _ranked(grams * width + symbols[starts + n])
        left = starts < split
        fewer = np.minimum(
            np.bincount(grams[left], minlength=len(some)),
            np.bincount(grams[~left], minlength=len(some)),
        )
        shared[:, n] = np.bincount(sentence[starts[some]], fewer, n_sentences)
        matched = fewer[grams] > 0
        starts, grams = starts[matched], grams[matched]
    fewer_by = np.arange(orders)
    return Overlap(
        shared,
        *(np.maximum(side.lengths[:, None] - fewer_by, 0) for side in (hypotheses, references)),
    )


def _ranked(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of one of each of the different keys, and the rank of every key among
    them; faster than `np.unique`.
    """
    order = np.argsort(keys)
    new = np.diff(keys[order], prepend=-1) != 0
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.cumsum(new) - 1
    return order[new], ranks


def _ends(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    return np.concatenate(
        [[0], np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)))]
    )


# ---- bleu

Tokenization = Literal["13a", "char", "none"]

SACREBLEU = "2.6.0"  # the version whose numbers these are (tests/golden)
ORDERS = 4

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
# ASCII punctuation but the four marks that may be inside a word or number: ' , - .
_MARKS = re.compile(r"[!-&(-+/:-@\[-`{-~]")
_RULES = (
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])-"), r"\1 - "),
)


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: Tokenization = "13a",
    lowercase: bool = False,
) -> CorpusScore:
    """Compute BLEU from 0 to 100 against one reference each, as sacrebleu does. `tokenize`: `char` suits
    scripts without spaces, `none` text that is tokenised already.

    Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation": the
    geometric mean of the precisions of n-grams of one to four tokens, times a penalty where the whole
    is shorter than the references. Numbers of different tokenisations cannot be compared, so the
    default are the tokens of NIST's mteval-v13a, with the smoothing of the same program, and the score
    has the signature that sacrebleu would print (Post 2018, "A Call for Clarity in Reporting BLEU
    Scores"). Texts are given as people write them, not tokenised before.

    `each` is sentence BLEU, for which orders without n-grams are left out. Details: precisions,
    brevity_penalty, length_ratio.

    >>> score = bleu(["the cat sat on the mat"], ["the cat sat on a mat"])
    >>> round(score.value, 4), score.signature
    (53.7285, 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0')
    """
    check_texts(hypotheses, references)
    split = _splitter(tokenize)
    sides = [
        split([text.lower() if lowercase else text for text in side])
        for side in (hypotheses, references)
    ]
    ours, theirs = numbered(*sides)
    overlap = ngram_overlap(ours, theirs, ORDERS)
    statistics = np.column_stack(
        [
            overlap.in_hypotheses[:, 0],
            overlap.in_references[:, 0],
            overlap.shared,
            overlap.in_hypotheses,
        ]
    ).astype(np.float64)
    sums = statistics.sum(axis=0)
    signature = (
        f"nrefs:1|case:{'lc' if lowercase else 'mixed'}|eff:no|tok:{tokenize}|smooth:exp|"
        f"version:{SACREBLEU}"
    )
    details = {
        "precisions": [float(p) for p in _precisions(sums)],
        "brevity_penalty": float(_brevity_penalty(sums)),
        "length_ratio": float(sums[0] / max(sums[1], 1)),
    }
    return CorpusScore(
        "BLEU",
        statistics,
        bleu_of,
        signature,
        details=details,
        sentence_formula=partial(bleu_of, effective_order=True),
    )


def bleu_of(sums: np.ndarray, effective_order: bool = False) -> np.ndarray:
    """Compute BLEU from sums (..., 10): lengths of hypotheses and references, then shared and all
    n-grams of each order.
    """
    precisions = _precisions(sums) / 100.0
    positive = precisions > 0
    logs = np.log(np.where(positive, precisions, 1.0)).sum(axis=-1)
    used = positive.sum(axis=-1) if effective_order else ORDERS
    complete = positive.any(axis=-1) if effective_order else positive.all(axis=-1)
    return np.where(
        complete, 100.0 * _brevity_penalty(sums) * np.exp(logs / np.maximum(used, 1)), 0.0
    )


def tokenize_13a(texts: Sequence[str]) -> list[list[str]]:
    """Split all texts at once into tokens as mteval-v13a has them.

    >>> tokenize_13a(["Hello, 3.5-inch (new) &quot;disks&quot;."])
    [['Hello', ',', '3.5', '-', 'inch', '(', 'new', ')', '"', 'disks', '"', '.']]
    """
    lines = [
        text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
        for text in texts
    ]
    joined = " " + " \n ".join(lines) + " "  # no rule looks further than the blanks around a text
    if "&" in joined:
        for entity, character in _ENTITIES:
            joined = joined.replace(entity, character)
    joined = _MARKS.sub(r" \g<0> ", joined)
    for pattern, spaced in _RULES:
        joined = pattern.sub(spaced, joined)
    return [line.split() for line in joined.split("\n")]


def _splitter(tokenize: str) -> Callable[[Sequence[str]], list[list[str]]]:
    splitters: dict[str, Callable[[Sequence[str]], list[list[str]]]] = {
        "13a": tokenize_13a,
        "char": lambda texts: [list("".join(text.split())) for text in texts],
        "none": lambda texts: [text.split() for text in texts],
    }
    if tokenize not in splitters:
        raise ConfigError(
            f"unknown tokenisation {tokenize!r}{suggest_known(str(tokenize), splitters)}"
        )
    return splitters[tokenize]


def _precisions(sums: np.ndarray) -> np.ndarray:
    """Return precisions in percent (..., 4). An order without matches counts as half a match, the
    next as a quarter, and so on; where nothing at all matches, or from the first order on that
    no hypothesis is long enough for, they are 0.
    """
    shared, all_of = sums[..., 2 : 2 + ORDERS], sums[..., 2 + ORDERS :]
    halvings = np.cumsum((shared == 0) & (all_of > 0), axis=-1)
    matches = np.where(shared > 0, shared, 0.5**halvings)
    counted = (all_of > 0) & (shared > 0).any(axis=-1, keepdims=True)
    return np.where(counted, 100.0 * matches / np.maximum(all_of, 1), 0.0)


def _brevity_penalty(sums: np.ndarray) -> np.ndarray:
    length, reference_length = sums[..., 0], sums[..., 1]
    return np.where(
        length > 0,
        np.exp(np.minimum(1.0 - reference_length / np.maximum(length, 1), 0.0)),
        (reference_length == 0) * 1.0,
    )
