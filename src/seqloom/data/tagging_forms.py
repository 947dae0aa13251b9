"""The forms of tagged text: CoNLL columns, CoNLL-U (universaldependencies.org/format.html), `word/TAG`, and
`lines`: the words of a sentence, a tab and as many tags in each line, or two files, one of words and one of
tags, line by line.

Each reader turns a document into `Sentences`, with the line number of every word for error messages.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from sys import intern
from typing import Any, Literal

from seqloom.data import columns
from seqloom.data.documents import Document, numbered_lines
from seqloom.data.kept import IN_MEMORY, KeptRows
from seqloom.data.pieces import COMPRESSED
from seqloom.errors import ConfigError, DataError, quoted, suggest

TagForm = Literal["auto", "conll", "conllu", "slash", "lines"]

_CONLLU = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_CONLLU_WIDTH = 10
_NOTHING = "_"  # an empty cell of CoNLL-U
_DOCUMENT = "-DOCSTART-"  # a line that begins a document in the files of CoNLL-2003
_HEAD_LINES = 50
SPAN_TAG = re.compile(r"O|[BIES]-\S+")


POINTERS = 16  # bytes of a word and its tag, each of which is stored once


@dataclass
class Sentences:
    """The content of a document: words and tags of each sentence, and the lines of all words in a row."""

    name: str
    words: Any = field(default_factory=list)  # lists of lists; of many `data.kept.KeptRows`
    tags: Any = field(default_factory=list)
    lines: array[int] = field(default_factory=lambda: array("Q"))
    memory: int | None = None  # bytes of words that may be held in memory
    held: int = 0

    def add(self, words: list[str], tags: list[str]) -> None:
        self.words.append(list(map(intern, words)))  # a frequent word is stored once
        self.tags.append(list(map(intern, tags)))
        self.held += POINTERS * len(words)
        if self.held > (IN_MEMORY if self.memory is None else self.memory) and isinstance(
            self.words, list
        ):
            self.words, self.tags = KeptRows(self.words), KeptRows(self.tags)


def read_sentences(
    document: Document, form: TagForm, column: str | int | None, memory: int | None = None
) -> Sentences:
    """Read all sentences of a document."""
    readers: dict[str, Callable[[Document, str | int | None, int | None], Sentences]] = {
        "conll": _conll,
        "conllu": _conllu,
        "slash": _slash,
        "lines": _words_and_tags,
    }
    if form != "auto" and form not in readers:
        raise ConfigError(
            f"form must be one of auto, {', '.join(readers)}; got {form!r}{suggest(str(form), readers)}"
        )
    sentences = readers[_form(document) if form == "auto" else form](document, column, memory)
    if not sentences.words:
        raise DataError(f"{document.name} has no sentence; give a file with some tagged text")
    return sentences


def _form(document: Document) -> str:
    """Return the form, recognised by the file extension or the first lines."""
    name = document.name.lower()
    for packed in COMPRESSED:
        name = name.removesuffix(packed)
    if name.endswith(".conllu"):
        return "conllu"
    head = [
        line for _, line in islice(_filled(document), _HEAD_LINES) if not line.startswith(_DOCUMENT)
    ]
    rows = [line.split("\t") for line in head if not line.startswith("#")]
    if rows and all(len(row) == _CONLLU_WIDTH and row[0][:1].isdecimal() for row in rows):
        return "conllu"
    several = [row for row in rows if len(_tokens(row[0])) > 1]
    parted = [row for row in several if _parted("\t".join(row)) is not None or _has_spans(row)]
    if 2 * len(parted) > len(several):
        return "lines"
    _refuse_texts(document.name, rows)
    tokens = [token for line in head for token in line.split()]
    slashed = sum("/" in token[1:-1] for token in tokens)
    # most are enough: the reader reports the others
    return "slash" if 2 * slashed > len(tokens) else "conll"


def _has_spans(row: list[str]) -> bool:
    """Return whether a second and last cell has nothing but tags of spans, perhaps too few of them."""
    return len(row) == 2 and _are_spans(_tokens(row[1]))


def _are_spans(tokens: list[str]) -> bool:
    """Return whether several tokens are all tags of spans."""
    return len(tokens) > 1 and all(map(SPAN_TAG.fullmatch, tokens))


def _refuse_texts(name: str, rows: list[list[str]]) -> None:
    """Refuse an evident table of texts and labels: its texts would be taken for words."""
    pairs = [row for row in rows if len(row) == 2]
    several = sum(len(row[0].split()) > 1 for row in pairs)
    named = (
        bool(pairs)
        and pairs[0][0].lower() in columns.TEXT_NAMES
        and pairs[0][1].lower() in columns.LABEL_NAMES
    )
    if len(pairs) == len(rows) and (named or 2 * several > len(pairs) > 1):
        shown = next((row[0] for row in pairs if len(row[0].split()) > 1), pairs[0][0])
        raise DataError(
            f"{name} looks like texts with labels, such as {quoted(shown)}; a tagger needs a word "
            f"and its tag in "
            "each line. Fit a classifier, or give form='conll' if these are words"
        )


def _lines(document: Document) -> Iterator[tuple[int, str]]:
    """Yield line numbers and lines without their ends; not split at other line ends of str.splitlines."""
    for first, lines in numbered_lines(document):
        yield from enumerate(lines, first)


def _filled(document: Document) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in _lines(document) if line and not line.isspace())


def _conll(document: Document, column: str | int | None, memory: int | None) -> Sentences:
    """Read columns separated by tabs or blanks: the word first, the tag last or in `column`; a
    blank line ends a sentence.
    """
    sentences = Sentences(document.name, memory=memory)
    shape = _Shape.of(document)
    tag_index = shape.tag_index(column)
    separator, width = shape.separator, shape.width
    words: list[str] = []
    tags: list[str] = []
    for number, line in _lines(document):
        if not line or line.isspace() or line.startswith(_DOCUMENT):
            if words:
                sentences.add(words, tags)
                words, tags = [], []
            continue
        cells = line.split(separator)
        if separator == " " and "" in cells:
            cells = [cell for cell in cells if cell]
        if len(cells) != width:
            if line.startswith("#") and not words:  # a comment before a sentence, as in CoNLL-2012
                continue
            raise DataError(
                f"{document.name}, line {number}: {_count(len(cells), 'column')} where line {shape.line} "
                f"has {width}; is something missing, or a blank line between sentences?"
            )
        if not cells[0] or not cells[tag_index]:
            raise DataError(
                f"{document.name}, line {number}: no {'tag' if cells[0] else 'word'} in column "
                f"{tag_index + 1 if cells[0] else 1}"
            )
        words.append(cells[0])
        tags.append(cells[tag_index])
        sentences.lines.append(number)
    if words:
        sentences.add(words, tags)
    return sentences


@dataclass(frozen=True)
class _Shape:
    """The layout of a CoNLL file, from its first line that is no comment."""

    document: Document
    line: int = 1
    width: int = 2
    separator: str = " "

    @classmethod
    def of(cls, document: Document) -> _Shape:
        lines = [
            line
            for line in islice(_filled(document), _HEAD_LINES)
            if not line[1].startswith(_DOCUMENT)
        ]
        if not lines:
            return cls(document)
        number, first = next((line for line in lines if not line[1].startswith("#")), lines[0])
        separator = "\t" if "\t" in first else " "
        width = (
            len(first.split(separator))
            if separator == "\t"
            else len([cell for cell in first.split(" ") if cell])
        )
        if width == 1:
            raise DataError(
                f"{document.name}, line {number}: one column; there must be a word and a tag in each line"
            )
        return cls(document, number, width, separator)

    def tag_index(self, column: str | int | None) -> int:
        """Return the index of the tag column; `column` counts from 1, or from the last one as -1."""
        if column is None:
            return self.width - 1
        text = str(column)
        if not text.removeprefix("-").isdecimal():
            raise DataError(
                f"{self.document.name} has columns without names; give the number of one, "
                f"from 1 to {self.width}, not {text!r}"
            )
        at = int(text)
        if not 1 <= abs(at) <= self.width:
            raise DataError(f"{self.document.name} has no column {at}; it has {self.width}")
        return at - 1 if at > 0 else self.width + at


def _conllu(document: Document, column: str | int | None, memory: int | None) -> Sentences:
    """Read the words of CoNLL-U and one column, or a feature, as their tags."""
    sentences = Sentences(document.name, memory=memory)
    name = "upos" if column is None else str(column)
    index = _CONLLU.get(name.lower(), -1)
    for rows in conllu_rows(document):
        cells = [row[index] if index >= 0 else row[5] for _, row in rows]
        sentences.add([row[1] for _, row in rows], cells)
        sentences.lines.extend(number for number, _ in rows)
    if index < 0:
        sentences.tags = _feature(document, sentences.tags, name)
    elif all(cell == _NOTHING for cells in sentences.tags for cell in cells) and sentences.tags:
        raise DataError(
            f"{document.name} has nothing in the column {name}; say which with tag_column=..."
        )
    return sentences


def conllu_rows(document: Document) -> Iterator[list[tuple[int, list[str]]]]:
    """Yield the words of each sentence of CoNLL-U: the number of the line and its cells; without
    multiword tokens (`3-4`) and empty nodes (`5.1`).
    """
    rows: list[tuple[int, list[str]]] = []
    for number, line in _lines(document):
        if not line or line.isspace():
            if rows:
                yield rows
                rows = []
            continue
        if line[0] == "#":
            continue
        row = line.split("\t")
        if len(row) != _CONLLU_WIDTH:
            raise DataError(
                f"{document.name}, line {number}: {_count(len(row), 'column')} where CoNLL-U has "
                f"{_CONLLU_WIDTH}, between tabs"
            )
        if not row[0].isdecimal():
            if row[0].replace("-", ".", 1).replace(".", "", 1).isdecimal():
                continue
            raise DataError(
                f"{document.name}, line {number}: {row[0]!r} in the first column, which must number the words"
            )
        rows.append((number, row))
    if rows:
        yield rows


def _feature(document: Document, cells: list[list[str]], name: str) -> list[list[str]]:
    """Return the value of one feature for each word, `_` if a word does not have it."""
    parsed = {
        cell: dict(part.partition("=")[::2] for part in cell.split("|") if "=" in part)
        for cell in {cell for sentence in cells for cell in sentence}
    }
    feature_names = sorted({key for features in parsed.values() for key in features})
    if name not in feature_names:
        available = [*_CONLLU, *feature_names]
        near = suggest(name, available)
        raise DataError(
            f"{document.name} has no column or feature {name!r}{f'{near} It' if near else '; it'} has "
            f"{columns.listed(available)}"
        )
    values = {cell: features.get(name, _NOTHING) for cell, features in parsed.items()}
    return [[values[cell] for cell in sentence] for sentence in cells]


def _slash(document: Document, column: str | int | None, memory: int | None) -> Sentences:
    """Read one sentence per line, `word/TAG` separated by blanks; the tag follows the last slash."""
    if column is not None:
        raise DataError(f"{document.name} has words as word/TAG and no column {column!r}")
    sentences = Sentences(document.name, memory=memory)
    for number, line in _filled(document):
        tokens = _tokens(line.replace("\t", " "))
        parts = [token.rpartition("/") for token in tokens]
        for token, (word, slash, tag) in zip(tokens, parts):
            if not word or not tag:
                what = (
                    "slash"
                    if not slash
                    else "word before the slash"
                    if tag
                    else "tag after the slash"
                )
                raise DataError(
                    f"{document.name}, line {number}: {token!r} has no {what}; each must be word/TAG"
                )
        sentences.add([part[0] for part in parts], [part[2] for part in parts])
        sentences.lines.extend([number] * len(parts))
    return sentences


# ---- words and tags line by line

_WORDS = (*columns.TEXT_NAMES, "words", "tokens", "query")  # names in a first line
_TAGS = (*columns.LABEL_NAMES, "tags", "labels", "slots", "ner_tags", "pos_tags")


def _tokens(text: str) -> list[str]:
    return [token for token in text.split(" ") if token]


def _parted(line: str) -> tuple[list[str], list[str]] | None:
    """Return the words before a tab and the tags after it; None if they are not as many."""
    words, tab, tags = line.partition("\t")
    parts = _tokens(words), _tokens(tags.strip())
    return parts if tab and "\t" not in tags.strip() and len(parts[0]) == len(parts[1]) else None


def without_tags(line: str, known: Container[str]) -> str:
    """Return the words of a line in which as many tags follow after a tab, most of them known; any
    other line as it is.

    >>> without_tags("to Rome\\tO B-city", {"O", "B-city"}), without_tags("to\\tRome", {"O"})
    ('to Rome', 'to\\tRome')
    """
    parted = _parted(line) if "\t" in line else None
    is_tagged = parted is not None and 2 * sum(tag in known for tag in parted[1]) > len(parted[1])
    return line.partition("\t")[0] if is_tagged else line


def _words_and_tags(document: Document, column: str | int | None, memory: int | None) -> Sentences:
    """Read one sentence per line: its words, a tab, their tags."""
    if column is not None:
        raise DataError(f"{document.name} has words and tags in each line and no column {column!r}")
    sentences = Sentences(document.name, memory=memory)
    for number, line in _filled(document):
        names = line.lower().split("\t")
        if not sentences.words and len(names) == 2 and names[0] in _WORDS and names[1] in _TAGS:
            continue  # a header
        parted = _parted(line)
        if parted is None:
            words, *tags = line.rstrip().split("\t")
            raise DataError(
                f"{document.name}, line {number}: "
                + (
                    f"{_count(len(_tokens(words)), 'word')} and {_count(len(_tokens(tags[0])), 'tag')}"
                    if len(tags) == 1
                    else f"{len(tags) or 'no'} tab{'s' * (len(tags) > 1)}"
                )
                + "; a line must have words, a tab and as many tags"
            )
        sentences.add(*parted)
        sentences.lines.extend([number] * len(parted[0]))
    return sentences


def read_pair(first: Document, second: Document) -> Sentences:
    """Read a file of words and one of tags, line by line."""
    sentences = Sentences(second.name)
    for words, tags in zip_longest(_lines(first), _lines(second)):
        number = (words or tags)[0]
        parts = [_tokens(side[1].replace("\t", " ")) if side else [] for side in (words, tags)]
        if len(parts[0]) != len(parts[1]):
            raise DataError(
                f"line {number}: {_count(len(parts[0]), 'word')} in {first.name}, but "
                f"{_count(len(parts[1]), 'tag')} in {second.name}; there must be one for each word, "
                "in the same line"
            )
        if parts[0]:
            sentences.add(*parts)
            sentences.lines.extend([number] * len(parts[0]))
    if not sentences.words:
        raise DataError(f"{first.name} has no sentence; give a file with some words")
    return sentences


def is_pair(first: Document, second: Document, form: TagForm = "auto") -> bool:
    """Return whether these are a file of words and one of tags: line by line as many of both, but not as
    many in every line, as columns are, unless one has nothing but tags of spans. `lines` leaves
    only the choice between a tab and two files.
    """
    heads = [list(islice(_lines(document), _HEAD_LINES)) for document in (first, second)]
    if form not in ("auto", "lines") or any("\t" in line for head in heads for _, line in head):
        return False
    sizes = [[len(_tokens(line)) for _, line in head] for head in heads]
    filled = [both for both in zip_longest(*sizes, fillvalue=0) if any(both)]
    equal = [a for a, b in filled if a == b]
    words, tags = ([token for _, line in head for token in _tokens(line)] for head in heads)
    slashed = sum("/" in tag[1:-1] for tag in tags)
    columns_alike = len(set(equal)) < 2 and _are_spans(words) == _are_spans(tags)
    doubtful = columns_alike or 2 * len(equal) <= len(filled) or 2 * slashed > len(tags)
    if form == "auto" and (doubtful or words == tags):
        return False
    if words and all(map(SPAN_TAG.fullmatch, words)):
        raise DataError(
            f"{first.name} holds tags; give the file of the words first, then {first.name}"
        )
    return True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
