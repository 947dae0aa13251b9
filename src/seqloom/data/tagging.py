"""Sentences with a tag for every word: parts of speech, names, chunks.

`read_tagged` takes CoNLL columns, CoNLL-U, `word/TAG`, and words and tags line by line. If the tags mark
spans, it detects their scheme (`data/spans.py`) or checks the declared one. Transitions that the scheme does
not allow are counted, the first is reported with its line, and all are read as conlleval reads them.

    >>> data = Tagged.of([(["Ada", "Lovelace", "wrote"], ["B-PER", "I-PER", "O"])])
    >>> data.scheme, data.tagset, data.converted("bioes").tags
    ('bio', ['B-PER', 'I-PER', 'O'], [['B-PER', 'E-PER', 'O']])
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seqloom import progress
from seqloom.config import parse_size
from seqloom.data import spans
from seqloom.data.classification import Source, dataset_name
from seqloom.data.examples import digest, is_frame, refuse_name, values
from seqloom.data.kept import Joined, alike, taken
from seqloom.data.showing import tagged_line
from seqloom.data.sources import find_documents, paths_of
from seqloom.data.spans import Scheme
from seqloom.data.tagging_forms import Sentences, TagForm, is_pair, read_pair, read_sentences
from seqloom.errors import DataError
from seqloom.text.coding import to_bytes

SchemeChoice = Scheme | Literal["auto", "none"] | None


@dataclass(frozen=True)
class Tagged:
    """Sentences and their tags, of equal lengths; `scheme` is None for plain tags such as parts of speech."""

    sentences: Any  # a list of lists; of many words `data.kept.KeptRows`
    tags: Any
    name: str = "sentences"
    scheme: Scheme | None = None

    @classmethod
    def of(
        cls, data: Any, tags: Any = None, *, name: str = "sentences", scheme: SchemeChoice = "auto"
    ) -> Tagged:
        """Build from (words, tags) of each sentence, or from sentences and their tags."""
        pairs: Iterable[Any] = (
            values(data, name) if tags is None else _paired(values(data, name), tags, name)
        )
        words: list[list[str]] = []
        named: list[list[str]] = []
        for number, pair in enumerate(pairs, 1):
            if (
                isinstance(pair, str)
                or not hasattr(pair, "__len__")
                or len(pair) != 2
                or any(isinstance(part, str) or not hasattr(part, "__len__") for part in pair)
            ):
                raise DataError(
                    f"sentence {number} of {name} must be a pair of lists: its words and their tags"
                )
            if len(pair[0]) != len(pair[1]):
                raise DataError(
                    f"sentence {number} of {name} has {len(pair[0])} words and {len(pair[1])} tags"
                )
            for part, column in zip(pair, (words, named)):
                column.append(list(values(part)))
                to_bytes(
                    "".join(_text(word, f"sentence {number} of {name}") for word in column[-1])
                )
        if not words:
            raise DataError(f"{name} has no sentence; give some")
        return cls(words, named, name, _choose_scheme([Sentences(name, words, named)], scheme))

    __repr__ = tagged_line

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def n_words(self) -> int:
        """Return the number of words of all sentences."""
        return sum(map(len, self.sentences))

    @property
    def tagset(self) -> list[str]:
        """Return the distinct tags, sorted."""
        return sorted(set(chain.from_iterable(self.tags)))

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of words, tags and where sentences end."""
        lengths = np.fromiter(map(len, self.sentences), "<i8", len(self.sentences))
        hasher = hashlib.sha256(lengths.tobytes())
        for part in (self.sentences, self.tags):
            hasher.update(digest(Joined(part)))
        return hasher.hexdigest()

    def part(self, rows: Sequence[int] | np.ndarray | slice) -> Tagged:
        """Return some of the sentences, by number, mask or slice."""
        chosen = np.arange(len(self))[rows].tolist()
        return replace(self, sentences=taken(self.sentences, chosen), tags=taken(self.tags, chosen))

    def converted(self, scheme: Scheme) -> Tagged:
        """Convert the spans to another scheme."""
        spans.check_scheme(scheme)
        if self.scheme is None:
            raise DataError(
                f"the tags of {self.name} mark no spans, so they cannot be written in {scheme}; "
                "declare their scheme if they do (scheme=...)"
            )
        return replace(
            self,
            tags=alike(self.tags, (spans.convert(tags, self.scheme, scheme) for tags in self.tags)),
            scheme=scheme,
        )


def read_tagged(
    source: Source,
    *,
    form: TagForm = "auto",
    tag_column: str | int | None = None,
    scheme: SchemeChoice = "auto",
    encoding: str = "utf-8",
    strict: bool = False,
    memory: int | str | None = None,
) -> Tagged:
    """Read tagged sentences from a file, several files, a directory, a pattern, or `-` for
    standard input.

    Forms: `conll`, columns between blanks or tabs with the word first, the tag last or in
    `tag_column` (a number from 1), a blank line after each sentence; `conllu`, where `tag_column`
    is upos, xpos, deprel or the name of a feature such as Number; `slash`, word/TAG; `lines`, the
    words of a sentence, a tab and their tags in each line, or two files, the words and their tags.
    `scheme="none"` takes the tags as they are. Files may be compressed (.gz, .xz, .zst). In a
    directory or pattern, binary and badly encoded files are skipped and reported; `strict` refuses
    them. Words that take more bytes than `memory` (such as "800M") are kept in a temporary file.
    """
    sources, limit = paths_of(source, "read_tagged"), parse_size(memory)
    documents = [
        document for path in sources for document in find_documents(path, encoding, strict=strict)
    ]
    if not documents:
        raise DataError("the list of files is empty; name at least one")
    two = len(sources) == len(documents) == 2 and tag_column is None
    if two and is_pair(documents[0], documents[1], form):
        source, parts = sources[0], [read_pair(documents[0], documents[1])]
    else:
        parts = [read_sentences(document, form, tag_column, limit) for document in documents]
    chosen = _choose_scheme(parts, scheme)
    words, tags = parts[0].words, parts[0].tags
    for part in parts[1:]:
        words = alike(words, chain(words, part.words))
        tags = alike(tags, chain(tags, part.tags))
    return Tagged(
        words, tags, dataset_name(source, [document.name for document in documents]), chosen
    )


def as_tagged(data: Any, tags: Any = None) -> Tagged:
    """Convert what `fit` and `evaluate` of a tagger accept: a Tagged, a Path or several, sentences and
    their tags, or a list of (words, tags).
    """
    if isinstance(data, str):
        refuse_name(data, "seqloom.read_tagged")
    are_paths = isinstance(data, (tuple, list)) and {isinstance(one, Path) for one in data} == {
        True
    }
    if isinstance(data, (Tagged, Path)) or are_paths:
        if tags is not None:
            raise DataError(f"a {type(data).__name__} has tags of its own; leave tags out")
        return data if isinstance(data, Tagged) else read_tagged(data)
    if tags is None and is_frame(data):
        raise DataError(
            "cannot read tags from a frame; give its columns of words and tags: (frame['words'], "
            "frame['tags'])"
        )
    if isinstance(data, (str, bytes, dict)) or not isinstance(data, Iterable):
        raise DataError(
            f"cannot read tags from a {type(data).__name__}; give sentences and their tags, a list "
            f"of (words, "
            "tags), a Path, or what read_tagged returns"
        )
    return Tagged.of(data, tags)


def _paired(sentences: list[Any], tags: Any, name: str) -> Iterator[tuple[Any, Any]]:
    rows = values(tags, f"the tags of {name}")
    if len(rows) != len(sentences):
        raise DataError(f"{name} has {len(sentences)} sentences and the tags of {len(rows)}")
    return zip(sentences, rows)


def _choose_scheme(parts: list[Sentences], scheme: SchemeChoice) -> Scheme | None:
    """Return the scheme, detected or declared; refuse tags that do not fit it, report single faults."""
    if scheme is None or scheme == "none":
        return None
    detected = spans.detect(Joined([part.tags for part in parts]))
    if scheme == "auto":
        chosen = detected
    else:
        chosen = spans.check_scheme(scheme)
        foreign = {
            tag
            for part in parts
            for tags in part.tags
            for tag in tags
            if spans.is_foreign(tag, scheme)
        }
        if foreign:
            location, tag = next(faulty for part in parts for faulty in _occurrences(part, foreign))
            raise DataError(
                f"{location}: {tag} is not a tag of {scheme}, the declared scheme{_instead(detected, scheme)}"
            )
    if chosen is not None:
        _report(parts, chosen, detected, declared=scheme != "auto")
    return chosen


def _report(
    parts: list[Sentences], scheme: Scheme, detected: Scheme | None, *, declared: bool
) -> None:
    """Report how many transitions break the scheme; refuse a declared one that more than half of the spans
    break.
    """
    broken, first = 0, ""
    for part in parts:
        start = 0
        for number, tags in enumerate(part.tags, 1):
            if wrong := spans.check(tags, scheme):
                at, why = wrong[0]
                first = first or f"{_location(part, number, start + at)}: {why}"
                broken += len(wrong)
            start += len(tags)
    if not broken:
        return
    n_spans = sum(len(spans.spans(tags, scheme)) for part in parts for tags in part.tags)
    if declared and 2 * broken > n_spans:
        raise DataError(
            f"{first}; {broken:,} such places among {n_spans:,} spans: these tags are not in {scheme}, "
            f"the declared scheme{_instead(detected, scheme)}"
        )
    progress.say(
        f"warning: {first}; {broken:,} such place{'s' * (broken > 1)} among {n_spans:,} spans, "
        f"read as conlleval does (scheme {scheme})"
    )


def _instead(detected: Scheme | None, declared: str) -> str:
    if detected is None:
        return "; the tags look like plain ones (scheme='none')"
    return f"; they look like {detected} (scheme={detected!r})" if detected != declared else ""


def _occurrences(part: Sentences, chosen: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the location and name of each tag of a set."""
    start = 0
    for number, tags in enumerate(part.tags, 1):
        if not chosen.isdisjoint(tags):
            yield from (
                (_location(part, number, start + i), tag)
                for i, tag in enumerate(tags)
                if tag in chosen
            )
        start += len(tags)


def _location(part: Sentences, sentence: int, word: int) -> str:
    return (
        f"{part.name}, line {part.lines[word]}"
        if part.lines
        else f"sentence {sentence} of {part.name}"
    )


def _text(value: Any, location: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{location} holds {value!r}; words and tags must be text")
    return value
