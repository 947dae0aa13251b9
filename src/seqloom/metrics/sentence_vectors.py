"""Pairs of texts with the similarity that people saw in them, as in STS (Cer et al. 2017) and SICK
(Marelli et al. 2014).

A file is a table with tabs. With a line of headings the columns are found by their names:
sentence1, sentence2 and score (STS), or sentence_A, sentence_B and relatedness_score (SICK).
Without one, a line is two texts and a number; or it is as in STS-B: five columns of which the last
is the score, then the texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from seqloom.errors import DataError, quoted
from seqloom.metrics.word_vectors import Questions, as_number

_FIRST, _SECOND = (
    ("sentence1", "sentence_a", "text1", "text_a"),
    ("sentence2", "sentence_b", "text2", "text_b"),
)
_SCORE = ("score", "similarity", "similarity_score", "relatedness_score", "label")
_STS_B = (5, 6, 4)  # columns of the texts and of the score
_TAKES = "sentence vectors are tested on pairs of texts with scores"

Pair = tuple[str, str, float]


def as_pairs(data: Any) -> Questions:
    """Return pairs as they are, from a list of (text, text, score), or from a file, which is a
    Path.

    >>> as_pairs([("a cat", "a dog", 3)]).pairs
    [('a cat', 'a dog', 3.0)]
    """
    if isinstance(data, Questions):
        if data.kind != "similarity":
            raise DataError(f"{_TAKES}; {data.name} has analogies")
        return data
    if isinstance(data, Path):
        try:
            return read_pairs(data.read_bytes(), str(data))
        except OSError as error:
            raise DataError(f"cannot read {data}: {error.strerror}") from None
    if isinstance(data, str):
        raise DataError(f"{_TAKES}; give Path({quoted(data)}) or a list of (text, text, score)")
    if not isinstance(data, Iterable):
        raise DataError(f"{_TAKES}; got {type(data).__name__}")
    return _questions([_checked(row) for row in data], "pairs")


def read_pairs(raw: bytes, name: str) -> Questions:
    pairs: list[Pair] = []
    columns: tuple[int, int, int] | None = None
    # Other ends of lines may be part of a text.
    lines = raw.decode("utf-8-sig", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        fields = line.rstrip("\r").split("\t")
        if not line.strip():
            continue
        if columns is None:
            columns = _named(fields)
            if columns is not None:
                continue  # the line of headings
            columns = (
                (0, 1, 2) if _score(fields, 2) is not None or _score(fields, 4) is None else _STS_B
            )
        score = _score(fields, columns[2]) if len(fields) > max(columns) else None
        if score is None:
            raise DataError(
                f"{name}, line {number}: not two texts and a number, separated by tabs: {quoted(line[:60])}"
            )
        pairs.append((fields[columns[0]].strip(), fields[columns[1]].strip(), score))
    return _questions(pairs, name)


def _named(fields: list[str]) -> tuple[int, int, int] | None:
    """Find the columns in a line of headings."""
    names = [field.strip().lower() for field in fields]
    columns = [
        next((names.index(name) for name in headings if name in names), None)
        for headings in (_FIRST, _SECOND, _SCORE)
    ]
    first, second, score = columns
    return None if first is None or second is None or score is None else (first, second, score)


def _score(fields: list[str], column: int) -> float | None:
    return as_number(fields[column].strip()) if len(fields) > column else None


def _checked(row: Any) -> Pair:
    if isinstance(row, (tuple, list)) and len(row) == 3:
        a, b, score = row
        if (
            isinstance(a, str)
            and isinstance(b, str)
            and isinstance(score, (int, float))
            and score == score
        ):
            return a, b, float(score)
    raise DataError(f"{_TAKES}; expected (text, text, score), got {quoted(row)}")


def _questions(pairs: list[Pair], name: str) -> Questions:
    if not pairs:
        raise DataError(f"{name}: no pairs of texts in it")
    written = "\n".join(f"{a}\t{b}\t{score!r}" for a, b, score in pairs)
    digest = hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
    return Questions("similarity", Path(name).name, digest, pairs=pairs)
