r"""Running text split into sentences and words by readable rules; English contractions expanded or split.

A sentence ends after `.`, `!`, `?` or an ellipsis followed by white space, unless the dot belongs to an
abbreviation, an initial or the number of a list item, or a small letter follows. Closing quotes and brackets
belong to the sentence that they close; a blank line always ends one, and so do Chinese and Japanese full
stops. Abbreviations (`data/bundled/abbreviations.toml`) and frequent first words of sentences are listed for
some languages; for others the remaining rules hold. (The statistical way, Kiss and Strunk 2006,
"Unsupervised multilingual sentence boundary detection", needs a training text.)

Words are those of the tokenizer kind `word`: runs of letters, marks and digits; every other visible
character is one by itself, and so are Chinese and Japanese characters, as these languages do not separate
words.

    >>> sentences("Dr. Smith paid $3.14. \"Why?\" he asked.")
    ['Dr. Smith paid $3.14.', '"Why?" he asked.']
    >>> words("I don't."), words("I don't.", contractions="split"), words("I don't.", contractions="clitic")
    (['I', "don't", '.'], ['I', 'don', "'", 't', '.'], ['I', 'do', "n't", '.'])
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal

from seqloom.errors import ConfigError
from seqloom.text.boundaries import IDEOGRAPHS, character_ranges
from seqloom.text.bundled import read_tables
from seqloom.text.word_forms import LANGUAGES, stop_words

_COUNTED = {"en": {"no", "nos"}}  # before a number alone: "No. 5"; but "He said no. She left."

_CLOSING = "\"'\u2019\u201d\u00bb)\\]}\u300d\u300f\uff09\u3011\u300b"
_OPENING = "\"'\u2018\u201c\u00ab\u201e\u00bf\u00a1(\\[{\u300c\u300e\uff08\u3010\u300a"
_MARKS = ".!?\u2026\u0964\u0965\u061f\u06d4"
_END = re.compile(
    rf"""
    (?P<wide>[\u3002\uff01\uff1f\uff61]+[{_CLOSING}]*\s*)              # Chinese and Japanese: always
  | (?P<mark>(?<![{_MARKS}])[{_MARKS}]++)
    (?P<close>(?:[{_CLOSING}]|\ [:;=]['-]?[()DPp/|*]+(?!\w)            # also a smile after it
      |\ [)\]}}\u2019\u201d.](?=\s|\Z))*+)
    (?P<space>\s+)
  | (?P<paragraph>\n\s*\n\s*)
    """,
    re.VERBOSE,
)
_BEFORE = re.compile(rf"(?:^|[\s{_OPENING}\u2014-])([^\s{_OPENING}]*)\Z")
_NEXT = re.compile(rf"[{_OPENING}\s\u2014\u2013-]*([^\s{_CLOSING}.,;:!?]*)")
_INITIAL = re.compile(r"(?:[^\W\d_](?:\.-?|-))?[^\W\d_]")
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")


def sentences(text: str, language: str = "en") -> list[str]:
    """Split a text into sentences, without the white space between them."""
    return list(_sentences(text, language))


def _sentences(text: str, language: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(text):
        if match["wide"] or match["paragraph"] or _ends(text, start, match, language):
            sentence = text[start : match.end()].strip()
            if sentence:
                yield sentence
            start = match.end()
    if remainder := text[start:].strip():
        yield remainder


def _ends(text: str, start: int, match: re.Match[str], language: str) -> bool:
    """Return whether a mark with white space after it ends the sentence that began at `start`."""
    if match.end() == len(text) or re.search(r"\n\s*\n", match["space"]):
        return True
    following = _NEXT.match(text, match.end())
    word = following[1] if following else ""
    if word[:1].islower():
        return False
    if match["mark"] != ".":
        return True
    last = _BEFORE.search(text[max(start, match.start() - 40) : match.start()])
    before = last[1] if last else ""
    if not before.strip() or match["close"]:
        return True
    if before.isdigit():  # "1." opens a list, "3." counts a day in German
        alone = not text[start : match.start()].strip().strip(before)
        return not alone and not (language == "de" and len(before) <= 2)
    titles, endings = _abbreviations(language)
    if before.lower() in titles or (
        before.lower() in _COUNTED.get(language, ()) and word[:1].isdigit()
    ):
        return False
    starter = word.lower() in _starters(language)
    if before in endings or before.lower() in endings or _ACRONYM.fullmatch(before):
        return starter
    if _INITIAL.fullmatch(before) and before[:1].isupper():  # "J. Smith"; but "so did I. He left."
        return before == "I" and starter
    return True


@cache
def _abbreviations(language: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the abbreviations after which no sentence ends, and those that may also end one."""
    tables = read_tables("abbreviations")
    titles = tables["titles"].get(language, "")
    endings = tables["endings"].get(language, "")
    return frozenset(titles.split()), frozenset(endings.split())


@cache
def _starters(language: str) -> frozenset[str]:
    return stop_words(language, negation="remove") if language in LANGUAGES else frozenset()


def words(text: str, contractions: Literal["keep", "split", "clitic"] = "keep") -> list[str]:
    """Split a text into words, with contractions kept (don't), split at the apostrophe, or split into word
    and clitic (do n't).
    """
    if contractions not in ("keep", "split", "clitic"):
        raise ConfigError(f"contractions must be one of keep, split, clitic; got {contractions!r}")
    tokens = _word_pattern(contractions != "split").findall(text)
    if contractions != "clitic":
        return tokens
    return [
        part
        for word in tokens
        for part in (clitics(word) if "'" in word or "\u2019" in word else (word,))
    ]


@cache
def _word_pattern(inner_apostrophe: bool) -> re.Pattern[str]:
    wide = (
        "".join(f"{chr(first)}-{chr(last - 1)}" for first, last in IDEOGRAPHS)
        + "\U00020000-\U0003ffff"
    )
    letter, digit = character_ranges("LM"), character_ranges("N")
    apostrophe = rf"|(?<=[{letter}])['\u2019](?=[{letter}])" if inner_apostrophe else ""
    return re.compile(rf"[{wide}]|[{letter}{digit}](?:[{letter}{digit}]{apostrophe})*|\S")


# ---- contractions

_APOSTROPHE = "['\u2019]"
_INSIDE = re.compile(rf"{_APOSTROPHE}(?=[^\W\d_])")
_REST = re.compile(rf"(?:{_APOSTROPHE}[^\W\d_]+)++(?!\w)")
_OPENING_CONTRACTION = re.compile(rf"{_APOSTROPHE}t(?:is|was|were|will)(?!\w)", re.IGNORECASE)
_CLITIC = re.compile(rf"(?:n{_APOSTROPHE}t|{_APOSTROPHE}(?:ve|ll|re|m|d|s))\Z", re.IGNORECASE)


class _Expanded(dict[str, str]):
    """A cache of expanded contractions."""

    def __missing__(self, word: str) -> str:
        if len(self) > 100_000:  # these are not the usual contractions, which are few
            self.clear()
        self[word] = expansion = _expand_word(word)
        return expansion


_expanded = _Expanded()


def expand(text: str) -> str:
    """Return the text with its English contractions written out, by `data/bundled/contractions.toml`.

    Some have two readings. `'s` becomes "is" only after words that seldom own anything (it, he, who, there,
    ..); after a noun it is taken for the possessive and stays. `'d` becomes "would", `ain't` "is not".

    >>> expand("they're"), expand("can't"), expand("shouldn't've"), expand("the dog's")
    ('they are', 'cannot', 'should not have', "the dog's")
    """
    pieces: list[str] = []
    done = 0
    for apostrophe in _INSIDE.finditer(text):  # faster than testing every word, as they are few
        start = apostrophe.start()
        if start < done:
            continue
        while start > done and text[start - 1].isalpha():
            start -= 1
        if start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_'\u2019"):
            continue
        match = (_REST if start < apostrophe.start() else _OPENING_CONTRACTION).match(
            text, apostrophe.start()
        )
        if match:
            pieces += (text[done:start], _expanded[text[start : match.end()]])
            done = match.end()
    return "".join([*pieces, text[done:]]) if pieces else text


def _expand_word(word: str) -> str:
    plain, tables = word.replace("\u2019", "'"), read_tables("contractions")
    if plain.lower() in tables["whole"]:
        return _in_case_of(plain, tables["whole"][plain.lower()])
    for ending, meaning in tables["endings"].items():
        if not plain.lower().endswith(ending):
            continue
        base, tail = plain[: -len(ending)], plain[-len(ending) :]
        bases = _bases(ending)
        if base and (bases is None or base.lower() in bases):
            return f"{_expand_word(base)} {meaning.upper() if tail.isupper() else meaning}"
    return word


@cache
def _bases(ending: str) -> frozenset[str] | None:
    """Return the words that an ending may follow; None: any word."""
    listed = read_tables("contractions")["bases"].get(ending)
    return None if listed is None else frozenset(listed.split())


def _in_case_of(word: str, meaning: str) -> str:
    if word.isupper():
        return meaning.upper()
    return meaning.capitalize() if word.lstrip("'")[:1].isupper() else meaning


def clitics(word: str) -> list[str]:
    """Split a word from its clitics as in the Penn Treebank: the negation is n't, so can't gives ca and n't.

    >>> clitics("don't"), clitics("she'll"), clitics("rock'n'roll")
    (['do', "n't"], ['she', "'ll"], ["rock'n'roll"])
    """
    match = _CLITIC.search(word)
    if not match or not match.start():
        return [word]
    return [*clitics(word[: match.start()]), match[0]]
