"""The character classes of the word splitter, and where a byte stream may be cut.

A long text is encoded in pieces. A cut is allowed only where encoding the two sides separately gives the
same ids as encoding them together, so each kind of tokenizer has its own rule. For the byte-level regular
expression of GPT-2 (Radford et al. 2019) a cut before the last white space of a run is safe: that character
begins the next pre-token, and the text before it ends as it would at the end of a text. Inside a run, or
after it, a cut would change how the run is split.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

import numpy as np

Cut = Callable[[bytes, bool], int]

_TABLE_SIZE = (
    0x20000  # above it the kernel takes planes 2 and 3 for ideographs, all others for symbols
)
IDEOGRAPHS = [  # each of these is a word of one character: Han, iteration marks, kana
    (0x3005, 0x3008),
    (0x3021, 0x302A),
    (0x3031, 0x3036),
    (0x3038, 0x303D),
    (0x3041, 0x3097),
    (0x3099, 0x30FB),
    (0x30FC, 0x3100),
    (0x31F0, 0x3200),
    (0x3400, 0x4DC0),
    (0x4E00, 0xA000),
    (0xF900, 0xFB00),
    (0xFF66, 0xFFA0),
    (0x1AFF0, 0x1B170),
]

# A space or newline and then a character that is not white space, written out over the bytes of UTF-8. White
# space beyond ASCII: U+0085, U+00A0, U+1680, U+2000-200A, U+2028, U+2029, U+202F, U+205F, U+3000; 1C-1F are
# white space to some programs. Invalid or incomplete sequences do not match, which is the safe side.
_BEFORE_LAST_SPACE = re.compile(
    rb"""
    .*(?=[ \n](?:
        [\x00-\x08\x0e-\x1b!-\x7f]
      | \xc2[\x80-\x84\x86-\x9f\xa1-\xbf] | [\xc3-\xdf][\x80-\xbf]
      | \xe0[\xa0-\xbf][\x80-\xbf] | \xe1[\x80-\x99\x9b-\xbf][\x80-\xbf]
      | \xe2(?:\x80[\x90-\xa7\xb0-\xbf] | [\x82-\xbf][\x80-\xbf])
      | \xe3(?:\x80[\x81-\xbf] | [\x81-\xbf][\x80-\xbf])
      | [\xe4-\xec\xee\xef][\x80-\xbf]{2} | \xed[\x80-\x9f][\x80-\xbf]
      | \xf0[\x90-\xbf][\x80-\xbf]{2} | [\xf1-\xf3][\x80-\xbf]{3} | \xf4[\x80-\x8f][\x80-\xbf]{2}
    ))""",
    re.DOTALL | re.VERBOSE,
)
# The same before characters that are surely no numbers: ASCII, scripts up to U+063F, kana, Han, Hangul.
_BEFORE_LETTER = re.compile(
    rb"""
    .*(?=[ \n](?:
        [!-/:-~] | [\xc3-\xd8][\x80-\xbf] | \xe3[\x81-\x83][\x80-\xbf] | [\xe4-\xe9\xeb\xec][\x80-\xbf]{2}
    ))""",
    re.DOTALL | re.VERBOSE,
)
_BEFORE_ANY_SPACE = re.compile(rb".*(?=[\t-\r ])", re.DOTALL)


def cut_between_characters(data: bytes, final: bool) -> int:
    """Cut before a code point that is not complete yet."""
    if not final:
        for back in range(1, min(4, len(data) + 1)):
            byte = data[-back]
            if byte >= 0xC0:  # a first byte: complete if as many bytes follow as it announces
                size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                return len(data) - back if back < size else len(data)
            if byte < 0x80:
                break
    return len(data)


def cut_before_space(data: bytes, final: bool) -> int:
    """Cut before white space, for tokens that never contain ASCII white space."""
    return _last(_BEFORE_ANY_SPACE, data, final)


def cut_before_word(data: bytes, final: bool) -> int:
    """Cut before the last white space of a run, if a visible character follows: for tokens that may begin
    with one white space.
    """
    return _last(_BEFORE_LAST_SPACE, data, final)


def cut_before_letter(data: bytes, final: bool) -> int:
    """Cut before a word that is no number, for tokenizers that split off numbers first: they keep the
    blanks before a number together.
    """
    return _last(_BEFORE_LETTER, data, final)


def cut_nowhere(data: bytes, final: bool) -> int:
    """Cut nowhere, for tokenizers with unknown rules."""
    return len(data) if final else 0


def word_bounds(data: np.ndarray, newline_ends: bool) -> np.ndarray:
    """Return offsets, from 0 to the end, where `cut_before_word` allows a cut: before a blank that a
    letter follows.

    With `newline_ends` also before and after each newline. The letter must be a visible ASCII character, or
    a complete one of the scripts up to U+07FF, of kana, Han or Hangul; before others there is no cut.
    """
    size = len(data)
    spaces = np.flatnonzero((data[:-1] == 32) | ((data[:-1] == 10) & (not newline_ends)))
    # the three bytes after each; past the end, the last byte again
    after = data.take(spaces[:, None] + np.arange(1, 4), mode="clip").astype(np.int16)
    first, second, third = after.T
    continued = (second & 0xC0) == 0x80
    ideograph = (first >= 0xE4) & (first <= 0xEC) | (first == 0xE3) & (second >= 0x81)
    visible = (
        (first > 32) & (first < 127)
        | (first >= 0xC3) & (first <= 0xDF) & continued
        | ideograph & continued & ((third & 0xC0) == 0x80) & (spaces + 3 < size)
    )
    marks = np.zeros(size + 1, bool)
    marks[spaces[visible]] = True
    if newline_ends:
        newlines = np.flatnonzero(data == 10)
        marks[newlines] = marks[newlines + 1] = True
    marks[0] = marks[size] = True
    return np.flatnonzero(marks)


def _last(pattern: re.Pattern[bytes], data: bytes, final: bool) -> int:
    if final:
        return len(data)
    match = pattern.match(data)
    return match.end() if match else 0


@cache
def character_classes() -> np.ndarray:
    """Return the class of every code point below 0x20000, for the word kernel."""
    from seqloom.kernels.tokens import APOSTROPHE, DIGIT, IDEOGRAPH, LETTER, SPACE, SYMBOL

    by_category = {"L": LETTER, "M": LETTER, "N": DIGIT}
    table = np.full(_TABLE_SIZE, SYMBOL, np.uint8)
    for code in range(_TABLE_SIZE):
        character = chr(code)
        if character.isspace():
            table[code] = SPACE
        else:
            table[code] = by_category.get(unicodedata.category(character)[0], SYMBOL)
    for first, last in IDEOGRAPHS:
        table[first:last] = IDEOGRAPH
    table[[0x27, 0x2019]] = APOSTROPHE
    return table


@cache
def character_ranges(categories: str) -> str:
    """Return the ranges of code points of these categories (L, M, N, ..) without ideographs, for a
    character class that agrees with the kernel.
    """
    wide = {code for first, last in IDEOGRAPHS for code in range(first, last)}
    ranges: list[tuple[int, int]] = []
    for code in range(_TABLE_SIZE):
        if code in wide or unicodedata.category(chr(code))[0] not in categories:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return "".join(
        f"{chr(first)}-{chr(last)}" if last > first else chr(first) for first, last in ranges
    )


def beyond_ascii(text: str, category: str) -> str:
    """Return the text's characters of that category beyond ASCII, ready for a character class."""
    if text.isascii():
        return ""
    return "".join(
        sorted(c for c in set(text) if c > "\x7f" and unicodedata.category(c)[0] == category)
    )
