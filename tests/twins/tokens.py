"""Slow, obvious versions of `kernels/tokens.py` and of the vocabulary made from it."""

import re
import unicodedata
from collections import Counter


def characters(data: bytes) -> list[str]:
    """Code points; a byte that is not UTF-8 is a character of its own (written as a lone surrogate)."""
    return list(data.decode("utf-8", "surrogateescape"))


def back(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_ONE = (
    "CJK UNIFIED",
    "CJK COMPATIBILITY IDEOGRAPH",
    "HIRAGANA",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "HENTAIGANA",
    "COMBINING KATAKANA",
    "IDEOGRAPHIC ITERATION",
    "IDEOGRAPHIC CLOSING",
    "IDEOGRAPHIC NUMBER",
    "VERTICAL KANA",
    "VERTICAL IDEOGRAPHIC",
    "HANGZHOU",
    "MASU",
)


def is_word_of_one(character: str) -> bool:
    return 0x20000 <= ord(character) < 0x40000 or unicodedata.name(character, "").startswith(_ONE)


def split(data: bytes, kind: str) -> list[bytes]:
    """The tokens of a text in which a newline is an ordinary character."""
    if kind == "whitespace":
        return re.findall(rb"[^ \t\n\r\v\f]+", data)
    if kind == "char":
        return [back(character) for character in characters(data)]
    return [back(word) for word in words(characters(data))]


def words(text: list[str]) -> list[str]:
    found: list[str] = []
    inside = False
    for i, character in enumerate(text):
        letter = is_letter(character)
        if letter or is_digit(character):
            if inside:
                found[-1] += character
            else:
                found.append(character)
            inside = True
        elif (
            character in "'’"
            and inside
            and is_letter(text[i - 1])
            and i + 1 < len(text)
            and is_letter(text[i + 1])
        ):
            found[-1] += character
        else:
            inside = False
            if not character.isspace():
                found.append(character)
    return found


def is_letter(character: str) -> bool:
    plain = unicodedata.category(character)[0] in "LM" and ord(character) < 0x20000
    return plain and not is_word_of_one(character)


def is_digit(character: str) -> bool:
    return (
        unicodedata.category(character)[0] == "N"
        and ord(character) < 0x20000
        and not is_word_of_one(character)
    )


def vocabulary(
    data: bytes, kind: str, min_count: int = 1, size: int | None = None
) -> list[bytes | None]:
    """Spelling of every id; None for the specials."""
    counts = Counter(split(data, kind))
    literal = b"<unk>" in counts
    specials: list[bytes | None] = [None] if literal else [None, None]
    kept = sorted((w for w in counts if counts[w] >= min_count), key=lambda w: (-counts[w], w))
    room = len(kept) if size is None else size - len(specials)
    kept = kept[:room]
    if literal and b"<unk>" not in kept:
        kept = [*(kept[: room - 1] if size is not None else kept), b"<unk>"]
    return [*specials, *kept]


def encode(data: bytes, kind: str, spellings: list[bytes | None], newline_ends: bool) -> list[int]:
    ids = {spelling: i for i, spelling in enumerate(spellings) if spelling is not None}
    unknown = ids.get(b"<unk>", 1)
    lines = data.split(b"\n") if newline_ends else [data]
    out: list[int] = []
    for number, line in enumerate(lines):
        out += [0] if number else []
        out += [ids.get(token, unknown) for token in split(line, kind)]
    return out
