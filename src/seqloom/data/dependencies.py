"""Sentences with a head for each word: the columns HEAD and DEPREL of CoNLL-U."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from seqloom.data.documents import Document
from seqloom.data.sources import find_documents
from seqloom.data.tagging_forms import conllu_rows
from seqloom.errors import DataError

ROOT = -1  # the head of the word that has none


class Parsed(NamedTuple):
    """A sentence: its words, whether a blank follows each, the index of each word's head, and the relation
    between the two.
    """

    words: list[str]
    spaced: list[bool]
    heads: list[int]
    relations: list[str]

    def text(self, blanks: bool = False) -> tuple[str, list[tuple[int, int]]]:
        """Return the sentence as it is written, or with a blank after each word, and where its words are.

        >>> Parsed(["It", "is", "."], [True, False, False], [1, -1, 1], ["nsubj", "root", "punct"]).text()
        ('It is.', [(0, 2), (3, 5), (5, 6)])
        """
        text, places = "", []
        for word, spaced in zip(self.words, self.spaced):
            places.append((len(text), len(text) + len(word)))
            text += word + (" " if spaced or blanks else "")
        return text.rstrip(" "), places


def read_parsed(path: str, most: int | None = None) -> list[Parsed]:
    """Read sentences of a CoNLL-U file with heads, all or the first ones."""
    found: list[Parsed] = []
    for document in find_documents(path, "utf-8", strict=True):
        for sentence in _sentences(document):
            if most is not None and len(found) == most:
                return found
            found.append(sentence)
    if not found:
        raise DataError(f"{path} has no sentence; give a file of CoNLL-U")
    return found


def _sentences(document: Document) -> Iterator[Parsed]:
    for rows in conllu_rows(document):
        numbers = {row[0]: index for index, (_, row) in enumerate(rows)}
        heads = []
        for number, row in rows:
            if row[6] != "0" and row[6] not in numbers:
                raise DataError(
                    f"{document.name}, line {number}: {row[6]!r} as HEAD, column 7, which must be the "
                    "number of a word of the sentence, or 0"
                )
            heads.append(numbers.get(row[6], ROOT))
        yield Parsed(
            [row[1] for _, row in rows],
            ["SpaceAfter=No" not in row[9].split("|") for _, row in rows],
            heads,
            [row[7] for _, row in rows],
        )
