"""Word lists for measuring and removing bias, and the reading of own ones.

The lists of the tests are those of Caliskan, Bryson and Narayanan 2017 (`Semantics derived automatically from language
corpora contain human-like biases`, supplement), the defining pairs those of Bolukbasi et al. 2016 (`Man is to computer
programmer as woman is to homemaker?`, appendix), names included. A file of own lists is a JSON object:

    {"career": ["office", "salary"], "family": ["home", "wedding"], ...}      lists, as WEFE has them
    {"pairs": [["he", "she"], ["man", "woman"]]}                              pairs
    {"tests": {"work": ["career", "family", "he", "she"]}}                    a test: the names of X, Y, A and B
    {"X": [...], "Y": [...], "A": [...], "B": [...]}                          one test alone, or several such objects by name
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqloom.errors import ConfigError, DataError, suggest_known
from seqloom.text.bundled import read_tables

Pairs = list[tuple[str, str]]
FOUR = ("X", "Y", "A", "B")  # two lists of targets, two of attributes

_NEUTRAL = "occupations career family math arts science arts_2"  # which ought not to lean, but for the people among them


@dataclass(frozen=True)
class WordLists:
    """Lists, pairs and tests by name."""

    lists: dict[str, list[str]] = field(default_factory=dict)
    pairs: dict[str, Pairs] = field(default_factory=dict)
    tests: dict[str, tuple[str, str, str, str]] = field(default_factory=dict)

    def test(self, name: str) -> tuple[list[str], list[str], list[str], list[str]]:
        """X, Y, A and B of a test: by its name, or by the names of the four lists, with commas."""
        names = self.tests.get(name) or tuple(part.strip() for part in name.split(","))
        if len(names) == 1:
            raise ConfigError(
                f"unknown test {name!r}{suggest_known(name, self.tests)}; or name four lists, X,Y,A,B"
            )
        if len(names) != 4:
            raise ConfigError(f"a test compares four lists X,Y,A,B; {name!r} names {len(names)}")
        x, y, a, b = (self.words(part) for part in names)
        return x, y, a, b

    def words(self, name: str) -> list[str]:
        if name not in self.lists:
            raise ConfigError(f"unknown list {name!r}{suggest_known(name, self.lists)}")
        return self.lists[name]


def built_in() -> WordLists:
    """Return the lists of `data/bundled/bias.toml`, and one of all words that ought not to lean."""
    tables = read_tables("bias")
    lists = {name: words.split() for name, words in tables["lists"].items()}
    lists["neutral"] = list(
        dict.fromkeys(word for name in _NEUTRAL.split() for word in lists[name] if word.islower())
    )
    pairs = {name: [_pair(pair) for pair in some.split()] for name, some in tables["pairs"].items()}
    tests = {name: (x, y, a, b) for name, (x, y, a, b) in tables["tests"].items()}
    return WordLists(lists, pairs, tests)


def read_word_lists(path: str | Path) -> WordLists:
    """What a JSON file holds; `tests` may also name built-in lists, which an own list of that name replaces."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path}: not a JSON file of word lists ({error})") from None
    if isinstance(content, list):
        content = {Path(path).stem: content}
    if not isinstance(content, dict) or not content:
        raise DataError(
            f'{path}: a JSON object of word lists is needed, such as {{"career": ["office", "salary"], ..}}'
        )
    made = WordLists()
    if set(FOUR) <= content.keys():
        content = {
            **{key: value for key, value in content.items() if key not in FOUR},
            Path(path).stem: {key: content[key] for key in FOUR},
        }
    for name, value in content.items():
        if name == "tests" and isinstance(value, dict):
            for test, four in value.items():
                _take_test(made, str(path), test, four)
        elif isinstance(value, dict):
            _take_test(made, str(path), name, value)
        else:
            _take_list(made, str(path), name, value)
    return made


def with_built_in(own: WordLists | None) -> WordLists:
    """Own lists take the place of built-in ones of the same name."""
    known = built_in()
    return (
        known
        if own is None
        else WordLists(known.lists | own.lists, known.pairs | own.pairs, known.tests | own.tests)
    )


def _take_list(made: WordLists, path: str, name: str, value: Any) -> None:
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        made.lists[name] = list(dict.fromkeys(value))
    elif (
        isinstance(value, list)
        and value
        and all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(word, str) for word in pair)
            for pair in value
        )
    ):
        made.pairs[name] = [(first, second) for first, second in value]
    else:
        raise DataError(f"{path}: {name!r} is neither a list of words nor a list of pairs of words")


def _take_test(made: WordLists, path: str, name: str, value: Any) -> None:
    """The names of four lists, or the four lists themselves."""
    four = [value.get(key) for key in FOUR] if isinstance(value, dict) else value
    if not isinstance(four, list) or len(four) != 4 or not all(four):
        raise DataError(f"{path}: the test {name!r} needs four lists, X, Y, A and B")
    names = []
    for key, part in zip(FOUR, four):
        if isinstance(part, list):
            _take_list(made, path, f"{name} {key}", part)
        names.append(part if isinstance(part, str) else f"{name} {key}")
    made.tests[name] = (names[0], names[1], names[2], names[3])


def as_pairs(text: str) -> Pairs:
    """`he,she` is one pair, `he:she,man:woman` are several.

    >>> as_pairs("he,she"), as_pairs("he:she, man:woman")
    ([('he', 'she')], [('he', 'she'), ('man', 'woman')])
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if ":" not in text and len(parts) == 2:
        return [(parts[0], parts[1])]
    bad = [part for part in parts if part.count(":") != 1 or not all(_pair(part))]
    if bad or not parts:
        raise ConfigError(f"{text!r} is not a pair he,she nor a list of pairs he:she,man:woman")
    return [_pair(part) for part in parts]


def _pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition(":")
    return first.strip(), second.strip()


def word_list(text: str, known: WordLists) -> list[str]:
    """Words by the name of a list, from a file (JSON, or one word a line), or written out with commas."""
    if text in known.lists:
        return known.lists[text]
    if Path(text).is_file():
        if Path(text).suffix.lower() == ".json":
            return sorted(
                {word for words in read_word_lists(text).lists.values() for word in words}
            )
        return _lines(text)
    if "," in text:
        return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    raise ConfigError(
        f"{text}: neither a list of words nor a file{suggest_known(text, known.lists)}"
    )


def _lines(path: str) -> list[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path} as a list of words: {error}") from None
    words = list(
        dict.fromkeys(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    )
    if not words:
        raise DataError(f"{path} is empty; it must hold one word per line")
    return words
