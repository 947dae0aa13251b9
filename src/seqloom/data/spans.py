"""Spans in tags: BIO, IOB1 and BIOES read, checked, detected and converted into each other.

A tag is `O`, outside, or a letter and the label of a span, as in `B-PER`; if there is only one kind of
span, the letter alone. In `bio` (Sang and Veenstra 1999 call it IOB2) each span begins with B; in `iob1`
(Ramshaw and Marcus 1995) only a span that follows another of the same label does, all others begin with
I; in `bioes` the last word has E, and a single word S. Tags that break these rules are read as the
conlleval script of the CoNLL shared tasks reads them, so that scores are comparable: an I without a span
before it begins one. E and S, which the first script does not know in this sense, are read as in its
later versions and in seqeval.

    >>> spans(["B-PER", "I-PER", "O", "I-LOC"], "bio")
    [('PER', 0, 2), ('LOC', 3, 4)]
    >>> convert(["I-PER", "I-PER", "O", "I-LOC"], "iob1", "bioes")
    ['B-PER', 'E-PER', 'O', 'S-LOC']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Literal, cast, get_args

import numpy as np

from seqloom.errors import ConfigError, suggest

Scheme = Literal["bio", "iob1", "bioes"]
Span = tuple[str, int, int]  # label, first word, word after the last

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
OUTSIDE = "O"

_LETTERS = {"bio": "BI", "iob1": "BI", "bioes": "BIES"}
_END = ""  # what follows the last tag
_MEMORY = 1 << 16  # size of the caches of pairs of neighbouring tags


def spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """Return the spans of one sentence as (label, start, stop), as conlleval reads them; in order,
    never overlapping.
    """
    check_scheme(scheme)
    result: list[Span] = []
    before, start, label = OUTSIDE, -1, ""
    for i, tag in enumerate(tags):
        if tag == before == OUTSIDE:
            continue
        ends, begins, kind = _boundary(before, tag)
        if ends and start >= 0:
            result.append((label, start, i))
            start = -1
        if begins:
            start, label = i, kind
        before = tag
    if start >= 0:
        result.append((label, start, len(tags)))
    return result


def write(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """Return the tags of a sentence with these spans."""
    check_scheme(scheme)
    tags, last, stopped = [OUTSIDE] * length, "", 0
    for label, start, stop in spans:
        for i in range(start, stop):
            tags[i] = _join("I", label)
        if scheme != "iob1" or (start == stopped > 0 and label == last):
            tags[start] = _join("B", label)
        if scheme == "bioes":
            tags[stop - 1] = _join("E" if stop - start > 1 else "S", label)
        last, stopped = label, stop
    return tags


def convert(tags: Sequence[str], old: Scheme, new: Scheme) -> list[str]:
    """Convert the spans to another scheme; faulty tags become those of the spans that conlleval reads."""
    return write(spans(tags, old), len(tags), new)


def check(tags: Sequence[str], scheme: Scheme) -> list[tuple[int, str]]:
    """Return where one sentence breaks the rules of its scheme, and how; an empty list if nowhere."""
    check_scheme(scheme)
    neighbours = zip(chain((OUTSIDE,), tags), tags)
    faults = [
        (i, why)
        for i, (before, tag) in enumerate(neighbours)
        if (why := fault(before, tag, scheme))
    ]
    if tags and (why := fault(tags[-1], _END, scheme)):
        faults.append((len(tags) - 1, why))
    return faults


def legal_transitions(tags: Sequence[str], scheme: Scheme) -> np.ndarray:
    """Return which tag may follow which, boolean [before, after] (K + 1, K + 1); the last row and
    column are the sentence boundary.

    >>> legal = legal_transitions(["O", "B-PER", "I-PER"], "bio").astype(int)
    >>> legal[[0, 2, 3]]  # after O, after I-PER, at the beginning
    array([[1, 1, 0, 1],
           [1, 1, 1, 1],
           [1, 1, 0, 1]])
    """
    check_scheme(scheme)
    for tag in tags:
        if is_foreign(tag, scheme):
            raise ConfigError(f"{tag} is not a {scheme} tag; say the scheme of these tags, or none")
    return np.array(
        [[not fault(before, tag, scheme) for tag in (*tags, _END)] for before in (*tags, OUTSIDE)]
    )


def detect(tags: Sequence[str] | Iterable[Sequence[str]]) -> Scheme | None:
    """Return the scheme of one or many sentences; None if the tags are not of this kind, such as
    parts of speech.

    If tags break both `bio` and `iob1`, it is the scheme that fewer of them break.
    """
    single = isinstance(tags, Sequence) and len(tags) and isinstance(tags[0], str)
    sentences = cast(Iterable[Sequence[str]], [tags] if single else tags)
    kinds = set(chain.from_iterable(sentences))
    if not kinds or any(is_foreign(tag, "bioes") for tag in kinds):
        return None
    if any(tag[0] in "ES" for tag in kinds):
        return "bioes"
    pairs: Counter[tuple[str, str]] = Counter()
    for sentence in sentences:
        pairs.update(zip(chain((OUTSIDE,), sentence), sentence))
    broken = {
        scheme: sum(n for (before, tag), n in pairs.items() if fault(before, tag, scheme))
        for scheme in ("bio", "iob1")
    }
    return "iob1" if broken["iob1"] < broken["bio"] else "bio"


def check_scheme(scheme: str) -> Scheme:
    """Return the name unchanged if it is that of a scheme."""
    if scheme not in _LETTERS:
        raise ConfigError(
            f"scheme must be one of {', '.join(SCHEMES)}; got {scheme!r}{suggest(str(scheme), SCHEMES)}"
        )
    return cast(Scheme, scheme)


@lru_cache(_MEMORY)
def is_foreign(tag: str, scheme: str) -> bool:
    """Return whether a tag is not one of the scheme."""
    return tag != OUTSIDE and _split(tag)[0] not in tuple(_LETTERS[scheme])


@lru_cache(_MEMORY)
def fault(before: str, tag: str, scheme: str) -> str:
    """Return what is wrong with a tag after another in a scheme, or an empty string."""
    if tag != _END and is_foreign(tag, scheme):
        return f"{tag} is not a {scheme} tag"
    (old, old_label), (new, label) = _split(before), _split(tag)
    goes_on = old in ("B", "I") and old_label == label
    if scheme == "bio" and new == "I" and not goes_on:
        return f"{tag} after {before}, where a span begins with {_join('B', label)}"
    if scheme == "iob1" and new == "B" and not goes_on:
        return f"{tag} after {before}, where a span begins with {_join('I', label)}"
    if scheme == "bioes" and old in ("B", "I") and not (goes_on and new in ("I", "E")):
        position = f"before {tag}" if tag else "at the end"
        return f"{before} {position}, where its span needs {_join('E', old_label)}"
    if scheme == "bioes" and new in ("I", "E") and not goes_on:
        return f"{tag} after {before}, where a span begins with {_join('B', label)} or {_join('S', label)}"
    return ""


@lru_cache(_MEMORY)
def _boundary(before: str, tag: str) -> tuple[bool, bool, str]:
    """Return whether a span ends before this tag, whether one begins with it, and its label, as the two
    functions of conlleval do.
    """
    (old, old_label), (new, label) = _split(before), _split(tag)
    changed = old_label != label
    ends = (
        old in ("E", "S")
        or (old in ("B", "I") and new in ("B", "S", "O"))
        or (old not in ("O", ".") and changed)
    )
    begins = (
        new in ("B", "S")
        or (old in ("E", "S", "O") and new in ("E", "I"))
        or (new not in ("O", ".") and changed)
    )
    return ends, begins, label


def _split(tag: str) -> tuple[str, str]:
    letter, _, label = tag.partition("-")
    return letter, label


def _join(letter: str, label: str) -> str:
    return f"{letter}-{label}" if label else letter
