"""Texts as `drift` compares them: measured, and small enough to be kept beside a model.

Words are known by a hash of 16 bits, so that a reference holds no text (though words can be guessed
from it). Whether a word is new is asked of other reference texts than those in the sample: their
words would be known by themselves.
"""

from __future__ import annotations

import base64
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqloom.errors import DataError

MOST_KEPT = 1000  # texts of a reference that are compared
MOST_READ = 10_000  # and those whose words count as known
MOST_WORDS = 100  # distinct words of a text
MOST_MEASURES = 20
LEAST = 10  # texts on either side
LONG = 16  # characters, from which a word is looked at by its trigrams: scripts without spaces
HASHES = 1 << 16

NEW_WORDS, LENGTH = "new words", "bytes"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Sample:
    """Some texts, measured. `columns`: of each measure the part and the whole of each text, (n, 2)."""

    columns: Mapping[str, np.ndarray]
    words: list[np.ndarray]  # hashes of each text's distinct words; none of numbers
    labels: list[tuple[str, ...]] | None  # what a model answered
    keys: np.ndarray  # hashes of the texts, by which repeated ones are known

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, rows: np.ndarray) -> Sample:
        return Sample(
            {name: column[rows] for name, column in self.columns.items()},
            [self.words[row] for row in rows] if self.words else [],
            None if self.labels is None else [self.labels[row] for row in rows],
            self.keys[rows],
        )

    def distinct(self) -> np.ndarray:
        """Return the first row of each text, in order."""
        return np.sort(np.unique(self.keys, return_index=True)[1])


@dataclass(frozen=True)
class Reference:
    """What the texts that come in are compared with."""

    sample: Sample
    known: np.ndarray  # whether a word with this hash is in other reference texts
    texts: int  # that it was made of
    name: str = ""


# ---- measuring


def key_of(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def words_of(text: str) -> np.ndarray:
    """Return hashes of the first distinct words of a text; a long one counts as its trigrams.

    >>> len(words_of("To be, or not to be"))
    4
    """
    found: dict[str, None] = {}
    for match in _WORD.finditer(text):
        word = match[0].lower()
        pieces = (word,) if len(word) <= LONG else (word[i : i + 3] for i in range(len(word) - 2))
        for piece in pieces:
            found[piece] = None
            if len(found) == MOST_WORDS:
                break
        if len(found) == MOST_WORDS:
            break
    return np.array([key_of(word) % HASHES for word in found], dtype=np.uint16)


def measured(
    texts: Sequence[str],
    columns: Mapping[str, np.ndarray] | None = None,
    labels: Sequence[Sequence[Any]] | None = None,
) -> Sample:
    """Measure texts: their words and lengths, beside what a model made of them."""
    lengths = np.array([len(text.encode("utf-8", "surrogatepass")) for text in texts], dtype=float)
    return Sample(
        {**(columns or {}), LENGTH: np.stack([lengths, np.ones(len(texts))], axis=1)},
        [words_of(text) for text in texts],
        None if labels is None else [tuple(sorted({str(one) for one in some})) for some in labels],
        np.array([key_of(text) for text in texts], dtype=np.int64),
    )


def divided(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Divide n reference texts at random: those to compare with, and those whose words are known."""
    if n < 2 * LEAST:
        raise DataError(f"the reference has {n:,} texts; give at least {2 * LEAST}")
    order = np.random.default_rng(seed).permutation(n)
    kept = min(MOST_KEPT, n // 2)
    return np.sort(order[:kept]), order[kept : kept + MOST_READ]


def known_words(texts: Sequence[str]) -> np.ndarray:
    """Return of each hash whether a word of these texts has it."""
    known = np.zeros(HASHES, dtype=bool)
    for text in texts:
        known[words_of(text)] = True
    return known


# ---- as JSON


def packed(reference: Reference) -> dict[str, Any]:
    """Return a reference as plain values; hashes of words are the base64 of 16-bit numbers."""
    sample = reference.sample
    hashes = np.concatenate(sample.words) if sample.words else np.zeros(0)
    names = sorted({label for labels in sample.labels or () for label in labels})
    places = {name: i for i, name in enumerate(names)}
    labels = [[places[label] for label in some] for some in sample.labels or ()]
    return {
        "name": reference.name,
        "texts": reference.texts,
        "keys": sample.keys.tolist(),
        "measures": {
            name: [[float(f"{value:.5g}") for value in column] for column in rows.T.tolist()]
            for name, rows in sample.columns.items()
        },
        "words": _encoded(hashes.astype("<u2")),
        "words_of_text": [len(words) for words in sample.words],
        "known": _encoded(np.packbits(reference.known)),
        **({} if sample.labels is None else {"label_names": names, "labels": labels}),
    }


def unpacked(values: Any) -> Reference:
    """Read what `packed` wrote, which a stranger may have changed; a ValueError says what is wrong."""
    if not isinstance(values, dict):
        raise ValueError("the reference is no object")
    keys = _whole_numbers(values.get("keys"), "keys", 1 << 32)
    n = len(keys)
    if not LEAST <= n <= MOST_KEPT:
        raise ValueError(f"the reference has {n} texts")
    measures = values.get("measures")
    if not isinstance(measures, dict) or not 0 < len(measures) <= MOST_MEASURES:
        raise ValueError("the reference has no measures")
    columns = {}
    for name, both in measures.items():
        if not isinstance(both, list) or len(both) != 2 or any(len(_list(c)) != n for c in both):
            raise ValueError("a measure of the reference has the wrong length")
        if not all(type(v) in (int, float) and math.isfinite(v) for column in both for v in column):
            raise ValueError("a measure of the reference is no number")
        columns[str(name)] = np.array(both, dtype=np.float64).T
        if (columns[str(name)][:, 1] < 0).any():
            raise ValueError("a measure of the reference is below zero")
    lengths = _whole_numbers(values.get("words_of_text"), "words_of_text", MOST_WORDS + 1)
    hashes = np.frombuffer(_decoded(values.get("words"), 2 * int(lengths.sum())), dtype="<u2")
    if len(lengths) not in (0, n):
        raise ValueError("words_of_text of the reference has the wrong length")
    known = np.unpackbits(
        np.frombuffer(_decoded(values.get("known"), HASHES // 8), dtype=np.uint8)
    ).astype(bool)
    words = np.split(hashes.astype(np.uint16), np.cumsum(lengths)[:-1]) if len(lengths) else []
    name, texts = values.get("name"), values.get("texts")
    if not isinstance(name, str) or type(texts) is not int or not 0 < texts < 1 << 62:
        raise ValueError("the reference has no name or number of texts")
    sample = Sample(columns, list(words), _labels(values, n), keys)
    return Reference(sample, known, texts, name)


def _labels(values: dict[str, Any], n: int) -> list[tuple[str, ...]] | None:
    if "labels" not in values:
        return None
    names, rows = _list(values.get("label_names")), _list(values["labels"])
    if len(rows) != n or not all(isinstance(name, str) for name in names):
        raise ValueError("the labels of the reference are damaged")
    return [
        tuple(names[i] for i in _whole_numbers(row, "labels", max(len(names), 1))) if row else ()
        for row in rows
    ]


def _whole_numbers(values: Any, what: str, end: int) -> np.ndarray:
    """Return numbers from 0 to below `end`."""
    if not all(type(value) is int and 0 <= value < end for value in _list(values)):
        raise ValueError(f"{what} of the reference are damaged")
    return np.array(values, dtype=np.int64)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("the reference lacks a list")
    return value


def _encoded(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def _decoded(text: Any, size: int) -> bytes:
    data = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    if len(data) != size:
        raise ValueError("words of the reference are damaged")
    return data
