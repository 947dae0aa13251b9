"""Tests of word vectors: analogies (Mikolov et al. 2013) and similarities with human ratings.

An analogy file has four words a line, sections begin with `: name` (Google's set); a line of five
with a tag as fourth column is MSR's form. A similarity file has two words and a number a line
(WordSim-353, SimLex-999, Rare Words): the first column after the words that is a number, separated
by tabs, commas or blanks. Words are taken as they are, else lower-cased; what has no vector is left
out and counted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seqloom.errors import DataError, quoted
from seqloom.metrics.bootstrap import correlation
from seqloom.metrics.result import Value

Evaluation = tuple[dict[str, Value], dict[str, Any], tuple[str, ...]]


@dataclass(frozen=True)
class Questions:
    kind: Literal["analogies", "similarity"]
    name: str
    fingerprint: str
    sections: dict[str, list[tuple[str, str, str, str]]] = field(default_factory=dict)
    pairs: list[tuple[str, str, float]] = field(default_factory=list)


def as_questions(data: Any) -> Questions:
    """Return questions as they are, or read from a file, which is a Path."""
    if isinstance(data, Questions):
        return data
    if isinstance(data, str):
        raise DataError(
            f"word vectors are tested on a file of analogies or similarities; give Path({quoted(data)})"
        )
    if not isinstance(data, Path):
        raise DataError(
            f"word vectors are tested on a file of analogies or similarities; got {type(data).__name__}"
        )
    try:
        raw = Path(data).read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {data}: {error.strerror}") from None
    return read_questions(raw, str(data))


def read_questions(raw: bytes, name: str) -> Questions:
    sections: dict[str, list[tuple[str, str, str, str]]] = {}
    pairs: list[tuple[str, str, float]] = []
    section = "all"
    for number, line in enumerate(raw.decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith(("#", "//")):
            continue
        if text.startswith(":"):
            section = text[1:].strip() or "all"
            continue
        fields = _fields(text)
        score = next((value for value in map(as_number, fields[2:]) if value is not None), None)
        if score is not None:
            pairs.append((fields[0], fields[1], score))
        elif len(fields) in (4, 5) and not pairs:
            a, b, c, d = fields if len(fields) == 4 else (*fields[:3], fields[4])
            sections.setdefault(section if len(fields) == 4 else fields[3], []).append((a, b, c, d))
        elif number > 1:
            raise DataError(
                f"{name}, line {number}: neither four words nor two words and a number: {text[:60]!r}"
            )
    if pairs:
        sections = {}  # a heading of four words, as SimLex-999 has, looked like an analogy
    if not pairs and not sections:
        raise DataError(
            f"{name}: no analogies (four words per line) and no similarities (two words and a number) in it"
        )
    digest = hashlib.sha256(raw).hexdigest()
    return Questions(
        "similarity" if pairs else "analogies", Path(name).name, digest, sections, pairs
    )


Spell = Callable[[str], str | None]  # the word as the model has it, None where it does not
Answer = Callable[[list[str], list[str], list[str]], list[str]]
Similarity = Callable[[list[str], list[str]], np.ndarray]


def analogy_outcomes(questions: Questions, spell: Spell, answer: Answer) -> np.ndarray:
    """Return for each question in the order of the file 1 where the answer is right, 0 where not,
    NaN where a word is missing.
    """
    outcomes: list[float] = []
    forms: dict[str, str | None] = {}
    for lines in questions.sections.values():
        spelled = [tuple(_form(word, spell, forms) for word in line) for line in lines]
        answerable = [words for words in spelled if None not in words]
        answers = iter(
            answer(*(list(column) for column in list(zip(*answerable))[:3])) if answerable else []
        )
        outcomes += [
            math.nan if None in words else float(next(answers) == words[3]) for words in spelled
        ]
    return np.array(outcomes)


def pair_cosines(questions: Questions, spell: Spell, similarity: Similarity) -> np.ndarray:
    """Return the cosine of each pair in the order of the file; NaN where a word is missing."""
    forms: dict[str, str | None] = {}
    spelled = [(_form(a, spell, forms), _form(b, spell, forms)) for a, b, _ in questions.pairs]
    answerable = [i for i, words in enumerate(spelled) if None not in words]
    cosines = np.full(len(spelled), math.nan)
    if answerable:
        cosines[answerable] = similarity(
            [str(spelled[i][0]) for i in answerable], [str(spelled[i][1]) for i in answerable]
        )
    return cosines


def evaluate_analogies(questions: Questions, spell: Spell, answer: Answer) -> Evaluation:
    """Share of right answers in each section and in all."""
    outcomes, table, start = analogy_outcomes(questions, spell, answer), [], 0
    for section, lines in questions.sections.items():
        its = outcomes[start : start + len(lines)]
        start, answered = start + len(lines), int(np.count_nonzero(~np.isnan(its)))
        table.append(
            {
                "section": section,
                "accuracy": float(np.nansum(its)) / answered if answered else None,
                "asked": answered,
                "missing": len(lines) - answered,
            }
        )
    answered = int(np.count_nonzero(~np.isnan(outcomes)))
    missing = len(outcomes) - answered
    return (
        {
            "accuracy": float(np.nansum(outcomes)) / answered if answered else None,
            "asked": answered,
            "missing": missing,
        },
        {"sections": table},
        _left_out(missing, "question"),
    )


def evaluate_pairs(questions: Questions, spell: Spell, similarity: Similarity) -> Evaluation:
    """Rank correlation of the cosines with people's scores."""
    cosines = pair_cosines(questions, spell, similarity)
    answered = ~np.isnan(cosines)
    scores, n = (
        np.array([score for _, _, score in questions.pairs]),
        int(np.count_nonzero(answered)),
    )
    rho = spearman(cosines[answered], scores[answered]) if n > 1 else None
    missing = len(cosines) - n
    return {"spearman": rho, "pairs": n, "missing": missing}, {}, _left_out(missing, "pair")


def _left_out(n: int, what: str) -> tuple[str, ...]:
    return (f"skipped {n:,} {what}{'s' * (n > 1)} with a word that has no vector",) if n else ()


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Compute the correlation of the ranks; ties have their mean rank.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    return correlation(np.stack([ranks(a), ranks(b)], axis=1))


def ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of each value, from 1; ties have their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _form(
    word: str, spell: Callable[[str], str | None], forms: dict[str, str | None]
) -> str | None:
    """Return the word, else its lower-case form, else nothing; remembered, since the same words
    come again and again.
    """
    if word not in forms:
        forms[word] = spell(word) or spell(word.lower())
    return forms[word]


def _fields(text: str) -> list[str]:
    for separator in ("\t", ",", ";"):
        if text.count(separator) >= 2:
            return [part.strip() for part in text.split(separator)]
    return text.split()


def as_number(text: str) -> float | None:
    try:
        return float(text) if any(map(str.isdigit, text)) else None  # nan and inf may be words
    except ValueError:
        return None
