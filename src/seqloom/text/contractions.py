"""English contractions, written out (don't -> do not) or cut at the seam (do n't).

Some have two readings. `'s` is written out only after words that seldom own anything (it, he, who, there, ..) and
then as "is"; after a noun it is taken for the possessive and stays. `'d` becomes "would", `ain't` "is not". Cutting
follows the Penn Treebank: the negation is n't, so can't gives ca and n't. What stands for what is in
`data/bundled/contractions.toml`.

    >>> expand("they're"), expand("can't"), expand("shouldn't've"), expand("the dog's")
    ('they are', 'cannot', 'should not have', "the dog's")
    >>> clitics("don't")
    ['do', "n't"]
"""

from __future__ import annotations

import re
from functools import cache

from seqloom.text.bundled import read_tables

_APOSTROPHE = "['\u2019]"
_INSIDE = re.compile(rf"{_APOSTROPHE}(?=[^\W\d_])")
_REST = re.compile(rf"(?:{_APOSTROPHE}[^\W\d_]+)++(?!\w)")
_OPENING = re.compile(rf"{_APOSTROPHE}t(?:is|was|were|will)(?!\w)", re.IGNORECASE)
_CLITIC = re.compile(rf"(?:n{_APOSTROPHE}t|{_APOSTROPHE}(?:ve|ll|re|m|d|s))\Z", re.IGNORECASE)


class _Expanded(dict[str, str]):
    """Every contraction is worked out once."""

    def __missing__(self, word: str) -> str:
        if len(self) > 100_000:  # a text with that many has none of the usual ones
            self.clear()
        self[word] = expansion = _expand_word(word)
        return expansion


_expanded = _Expanded()


def expand(text: str) -> str:
    """The text with its English contractions written out."""
    pieces: list[str] = []
    done = 0
    for apostrophe in _INSIDE.finditer(text):  # they are few, so words are found from them
        start = apostrophe.start()
        if start < done:
            continue
        while start > done and text[start - 1].isalpha():
            start -= 1
        if start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_'\u2019"):
            continue
        match = (_REST if start < apostrophe.start() else _OPENING).match(text, apostrophe.start())
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
    """Return the words that an ending follows; None: any word."""
    listed = read_tables("contractions")["bases"].get(ending)
    return None if listed is None else frozenset(listed.split())


def _in_case_of(word: str, meaning: str) -> str:
    if word.isupper():
        return meaning.upper()
    return meaning.capitalize() if word.lstrip("'")[:1].isupper() else meaning


def clitics(word: str) -> list[str]:
    """The word and what leans on it, apart.

    >>> clitics("she'll"), clitics("rock'n'roll")
    (['she', "'ll"], ["rock'n'roll"])
    """
    match = _CLITIC.search(word)
    if not match or not match.start():
        return [word]
    return [*clitics(word[: match.start()]), match[0]]
