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
_PRONOUNS = {"i", "you", "he", "she", "it", "we", "they", "who", "what", "that", "there", "this"}
_WITH_IS = {"he", "she", "it", "that", "this", "there", "here", "what", "who", "where", "when", "why", "how",
            "everything", "everyone", "something", "someone", "nothing"}
_AUXILIARIES = {"is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "could", "should", "would",
                "might", "must", "need", "ought", "dare", "may"}
_BASES = {"'m": {"i"}, "'d": _PRONOUNS, "'s": _WITH_IS, "n't": _AUXILIARIES}  # the others follow any word

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
            pieces += (text[done:start], _expanded[text[start:match.end()]])
            done = match.end()
    return "".join([*pieces, text[done:]]) if pieces else text


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
    match = _CLITIC.search(word)
    if not match or not match.start():
        return [word]
    return [*clitics(word[:match.start()]), match[0]]
