"""English contractions, written out (don't -> do not) or cut at the seam (do n't).

Some have two readings. `'s` is written out only after words that seldom own anything (it, he, who, there, ..) and
then as "is"; after a noun it is taken for the possessive and stays. `'d` becomes "would", `ain't` "is not". Cutting
follows the Penn Treebank: the negation is n't, so can't gives ca and n't.

    >>> expand("they're"), expand("can't"), expand("shouldn't've"), expand("the dog's")
    ('they are', 'cannot', 'should not have', "the dog's")
    >>> clitics("don't")
    ['do', "n't"]
"""

from __future__ import annotations

import re

_WHOLE = {"can't": "cannot", "won't": "will not", "shan't": "shall not", "ain't": "is not", "let's": "let us",
          "y'all": "you all", "'tis": "it is", "'twas": "it was", "'twere": "it were", "'twill": "it will"}
_ENDINGS = {"'ve": "have", "'ll": "will", "'re": "are", "'m": "am", "'d": "would", "'s": "is", "n't": "not"}
_PRONOUNS = frozenset("i you he she it we they who what that there this".split())
_WITH_IS = frozenset("he she it that this there here what who where when why how everything everyone something "
                     "someone nothing".split())
_AUXILIARIES = frozenset("is are was were do does did has have had could should would might must need ought dare "
                         "may".split())
_BASES = {"'m": frozenset(["i"]), "'d": _PRONOUNS, "'s": _WITH_IS, "n't": _AUXILIARIES}  # the others follow any word

_APOSTROPHE = "['\u2019]"
_CONTRACTED = re.compile(rf"(?<![\w'\u2019])(?:[^\W\d_]+(?:{_APOSTROPHE}[^\W\d_]+)+"
                         rf"|{_APOSTROPHE}t(?:is|was|were|will))(?!\w)", re.IGNORECASE)
_CLITIC = re.compile(rf"(?:n{_APOSTROPHE}t|{_APOSTROPHE}(?:ve|ll|re|m|d|s))\Z", re.IGNORECASE)


class _Expanded(dict[str, str]):
    """Every contraction is worked out once."""

    def __missing__(self, word: str) -> str:
        if len(self) > 100_000:  # a text with that many has none of the usual ones
            self.clear()
        self[word] = found = _expand_word(word)
        return found


_expanded = _Expanded()


def expand(text: str) -> str:
    """The text with its English contractions written out."""
    return _CONTRACTED.sub(lambda found: _expanded[found[0]], text)


def _expand_word(word: str) -> str:
    plain = word.replace("\u2019", "'")
    if plain.lower() in _WHOLE:
        return _in_case_of(plain, _WHOLE[plain.lower()])
    for ending, meaning in _ENDINGS.items():
        if not plain.lower().endswith(ending):
            continue
        base, tail = plain[:-len(ending)], plain[-len(ending):]
        bases = _BASES.get(ending)
        if base and (bases is None or base.lower() in bases):
            return f"{_expand_word(base)} {meaning.upper() if tail.isupper() else meaning}"
    return word


def _in_case_of(word: str, meaning: str) -> str:
    if word.isupper():
        return meaning.upper()
    return meaning.capitalize() if word.lstrip("'")[:1].isupper() else meaning


def clitics(word: str) -> list[str]:
    """The word and what leans on it, apart.

    >>> clitics("she'll"), clitics("rock'n'roll")
    (['she', "'ll"], ["rock'n'roll"])
    """
    found = _CLITIC.search(word)
    if not found or not found.start():
        return [word]
    return [*clitics(word[:found.start()]), found[0]]
