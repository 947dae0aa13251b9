"""BLEU of a corpus against one reference each, as sacrebleu computes it.

Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation": the geometric mean of the precisions
of n-grams of one to four tokens, times a penalty where the whole is shorter than the references. Numbers of different
tokenisations cannot be compared, so it goes by the tokens of NIST's mteval-v13a, with the smoothing of the same program, and
has the signature that sacrebleu would print (Post 2018, "A Call for Clarity in Reporting BLEU Scores"). Texts are given as
people write them, not tokenised before.

    >>> score = bleu(["the cat sat on the mat"], ["the cat sat on a mat"])
    >>> round(score.value, 4), score.signature
    (53.7285, 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np

from seqloom.errors import ConfigError, suggest_known
from seqloom.metrics.corpus_score import CorpusScore, check_texts
from seqloom.metrics.ngram_overlap import ngram_overlap, numbered

Tokenization = Literal["13a", "char", "none"]

SACREBLEU = "2.6.0"  # the version whose numbers these are (tests/golden)
ORDERS = 4

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_MARKS = re.compile(
    r"[!-&(-+/:-@\[-`{-~]"
)  # of ASCII, all but the four that may be inside a word or number: ' , - .
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
    """BLEU from 0 to 100. `tokenize`: `char` suits scripts without spaces, `none` text that is tokenised already.

    `each` is sentence BLEU, for which orders without n-grams are left out. Details: precisions, brevity_penalty,
    length_ratio.
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
    signature = f"nrefs:1|case:{'lc' if lowercase else 'mixed'}|eff:no|tok:{tokenize}|smooth:exp|version:{SACREBLEU}"
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
    """BLEU of sums (..., 10): lengths of hypotheses and references, then shared and all n-grams of each order."""
    precisions = _precisions(sums) / 100.0
    known = precisions > 0
    logs = np.log(np.where(known, precisions, 1.0)).sum(axis=-1)
    used = known.sum(axis=-1) if effective_order else ORDERS
    complete = known.any(axis=-1) if effective_order else known.all(axis=-1)
    return np.where(
        complete, 100.0 * _brevity_penalty(sums) * np.exp(logs / np.maximum(used, 1)), 0.0
    )


def tokenize_13a(texts: Sequence[str]) -> list[list[str]]:
    """Tokens as mteval-v13a has them, of all texts at once.

    >>> tokenize_13a(["Hello, 3.5-inch (new) &quot;disks&quot;."])
    [['Hello', ',', '3.5', '-', 'inch', '(', 'new', ')', '"', 'disks', '"', '.']]
    """
    lines = [
        text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
        for text in texts
    ]
    whole = " " + " \n ".join(lines) + " "  # no rule looks further than the blanks around a text
    if "&" in whole:
        for entity, character in _ENTITIES:
            whole = whole.replace(entity, character)
    whole = _MARKS.sub(r" \g<0> ", whole)
    for pattern, spaced in _RULES:
        whole = pattern.sub(spaced, whole)
    return [line.split() for line in whole.split("\n")]


def _splitter(tokenize: str) -> Callable[[Sequence[str]], list[list[str]]]:
    ways: dict[str, Callable[[Sequence[str]], list[list[str]]]] = {
        "13a": tokenize_13a,
        "char": lambda texts: [list("".join(text.split())) for text in texts],
        "none": lambda texts: [text.split() for text in texts],
    }
    if tokenize not in ways:
        raise ConfigError(f"unknown tokenisation {tokenize!r}{suggest_known(str(tokenize), ways)}")
    return ways[tokenize]


def _precisions(sums: np.ndarray) -> np.ndarray:
    """In percent (..., 4). An order without matches counts as half a match, the next as a quarter, and so on; where nothing
    at all matches, or from the first order on that no hypothesis is long enough for, they are 0."""
    shared, all_of = sums[..., 2 : 2 + ORDERS], sums[..., 2 + ORDERS :]
    halvings = np.cumsum((shared == 0) & (all_of > 0), axis=-1)
    matches = np.where(shared > 0, shared, 0.5**halvings)
    there = (all_of > 0) & (shared > 0).any(axis=-1, keepdims=True)
    return np.where(there, 100.0 * matches / np.maximum(all_of, 1), 0.0)


def _brevity_penalty(sums: np.ndarray) -> np.ndarray:
    length, wanted = sums[..., 0], sums[..., 1]
    return np.where(
        length > 0,
        np.exp(np.minimum(1.0 - wanted / np.maximum(length, 1), 0.0)),
        (wanted == 0) * 1.0,
    )
