"""The same examples with typing errors, in another case, shorter, longer, or with words in another order.

Labels and tags stay right: a text keeps its label, a word its tag. A text is lengthened by another one
of the same class, a sentence by any other; the words of a span move together. Everything follows from
the seed.

    >>> data = Labelled.of([("a fine film", "good"), ("dull", "bad"), ("so good", "good")])
    >>> perturb_labelled(data, "upper").texts, perturb_labelled(data, "lengthened").texts
    (['A FINE FILM', 'DULL', 'SO GOOD'], ['a fine film so good', 'dull dull', 'so good a fine film'])
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from seqloom.data.classification import Labelled
from seqloom.data.spans import spans
from seqloom.data.tagging import Tagged

Perturbation = Literal["typos", "lower", "upper", "truncated", "lengthened", "shuffled"]
PERTURBATIONS: tuple[str, ...] = get_args(Perturbation)
TYPO_RATE = 0.05  # of the letters

_WORD = re.compile(r"\S+")


def perturb_labelled(
    data: Labelled, kind: str, *, typo_rate: float = TYPO_RATE, seed: int = 0
) -> Labelled:
    """Perturb texts in one way, keeping their labels. `truncated` keeps the first half of the
    words (at least one).
    """
    rng = random.Random(f"{kind} {seed}")
    if change := _word_change(kind, typo_rate, rng):
        return replace(data, examples=[_each_word(text, change) for text in data.texts])
    if kind == "lengthened":
        partners = _partners(data.labels, rng)
        return replace(
            data,
            examples=[f"{text} {data.texts[other]}" for text, other in zip(data.texts, partners)],
        )
    return replace(
        data, examples=[" ".join(_moved(text.split(), kind, rng)) for text in data.texts]
    )


def perturb_tagged(
    data: Tagged, kind: str, *, typo_rate: float = TYPO_RATE, seed: int = 0
) -> Tagged:
    """Perturb sentences in one way, together with their tags."""
    rng = random.Random(f"{kind} {seed}")
    if change := _word_change(kind, typo_rate, rng):
        return replace(
            data, sentences=[[change(word) for word in words] for words in data.sentences]
        )
    if kind == "lengthened":
        partners = _partners([0] * len(data), rng)
        longer = [
            [row + rows[other] for row, other in zip(rows, partners)]
            for rows in (data.sentences, data.tags)
        ]
        return replace(data, sentences=longer[0], tags=longer[1])
    sentences, tags = [], []
    for words, names in zip(data.sentences, data.tags):
        order = [i for unit in _moved(_units(names, data.scheme), kind, rng) for i in unit]
        sentences.append([words[i] for i in order])
        tags.append([names[i] for i in order])
    return replace(data, sentences=sentences, tags=tags)


def with_typos(word: str, rate: float, rng: random.Random) -> str:
    """Swap letters with the next, drop or double them, each with this probability; a word never
    vanishes.

    >>> with_typos("sequence", 1.0, random.Random(3)), with_typos("42", 1.0, random.Random(3))
    ('sseeqqeuec', '42')
    """
    letters, i = list(word), 0
    done: list[str] = []
    while i < len(letters):
        letter = letters[i]
        i += 1
        if not letter.isalpha() or rng.random() >= rate:
            done.append(letter)
            continue
        fault = rng.choice(("swap", "drop", "double"))
        if fault == "swap" and i < len(letters) and letters[i].isalpha():
            done += [letters[i], letter]
            i += 1
        elif fault == "drop" and len(letters) > 1 and (done or i < len(letters)):
            continue
        else:
            done += [letter, letter]
    return "".join(done)


def _each_word(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to every word, leaving white space as it is."""
    return _WORD.sub(lambda match: change(match[0]), text)


def _word_change(kind: str, rate: float, rng: random.Random) -> Callable[[str], str] | None:
    """Return the function that changes each word; None if the kind changes no words."""
    changes: dict[str, Callable[[str], str]] = {
        "typos": lambda word: with_typos(word, rate, rng),
        "lower": str.lower,
        "upper": str.upper,
    }
    if kind not in PERTURBATIONS:
        raise ValueError(f"unknown perturbation {kind!r}; known: {', '.join(PERTURBATIONS)}")
    return changes.get(kind)


def _moved(parts: Sequence[Any], kind: str, rng: random.Random) -> list[Any]:
    """Return the first half of the parts, or all of them in another order."""
    if kind == "truncated":
        return list(parts[: (len(parts) + 1) // 2])
    return rng.sample(parts, len(parts))


def _units(tags: list[str], scheme: Any) -> list[range]:
    """Return the words that must stay together: those of a span; each other word alone."""
    if scheme is None:
        return [range(i, i + 1) for i in range(len(tags))]
    units: list[range] = []
    for _, start, stop in spans(tags, scheme):
        done = units[-1].stop if units else 0
        units += [range(i, i + 1) for i in range(done, start)] + [range(start, stop)]
    return units + [range(i, i + 1) for i in range(units[-1].stop if units else 0, len(tags))]


def _partners(keys: Sequence[Hashable], rng: random.Random) -> list[int]:
    """Choose for each example another one with the same key, or itself if there is no other."""
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    partners = list(range(len(keys)))
    for members in groups.values():
        order = rng.sample(members, len(members))
        for a, b in zip(order, order[1:] + order[:1]):
            partners[a] = b
    return partners
