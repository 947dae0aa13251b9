r"""Normalisation of text before it is tokenized: small named steps, all of them off by default.

A recipe is `PRESET` or `STEP=VALUE,..` or both, and is part of the tokenizer: `none` for language models,
`topic` for what a text is about, `sentiment` for how it is meant (keeps `!`, capitals and negation). Every
step loses something, so the likelihood of a normalised text says nothing about the bytes of the original.
Steps run in the order of the fields of `NormalizerConfig`. Newlines stay where they are, and no step looks
beyond the next blank, so that a text may be normalised in pieces (`cut`). `<unk>`, as in the Penn Treebank,
is never changed.

    >>> Normalizer("topic")("I have 25 apples; $3.14 was spent on #42!")
    'i have NUM apples MONEY was spent on NUM'
    >>> Normalizer("sentiment")("I don\u2019t LOVE it!!! \U0001f60a")
    'I do not LOVE it! SmilingFaceWithSmilingEyes'
    >>> Normalizer("case=lower,stopwords=remove,whitespace=collapse")("The cat sat on the mat.")
    'cat sat mat.'
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Literal

from seqloom.config import Config, option
from seqloom.errors import ConfigError, suggest
from seqloom.text.boundaries import beyond_ascii, cut_before_word
from seqloom.text.segment import expand


@dataclass(frozen=True, kw_only=True)
class NormalizerConfig(Config):
    unicode: Literal["keep", "nfc", "nfkc"] = option(
        "keep", "Unicode normalisation; nfkc also merges variants such as full-width letters"
    )
    case: Literal["keep", "lower"] = option("keep", "convert to lower case")
    contractions: Literal["keep", "expand"] = option(
        "keep", "expand English contractions: don't to do not"
    )
    stopwords: Literal["keep", "remove", "remove-all"] = option(
        "keep", "remove stop words; negation stays, unless all are removed"
    )
    stem: Literal["keep", "porter", "snowball", "lancaster"] = option(
        "keep", "reduce words to their stems"
    )
    lemma: Literal["keep", "dictionary"] = option("keep", "replace words by their dictionary form")
    numbers: Literal["keep", "placeholder"] = option(
        "keep", "replace numbers by NUM, amounts by MONEY"
    )
    symbols: Literal["keep", "name", "remove"] = option(
        "keep", "replace emoji and other symbols by their name, or remove them"
    )
    punctuation: Literal["keep", "standardise", "remove"] = option(
        "keep", "standardise: !!! to !, straight quotes, one kind of dash"
    )
    whitespace: Literal["keep", "collapse"] = option(
        "keep", "one space between words, none at line ends"
    )
    language: str = option(
        "en", "language of stop words, stems, lemmas and contractions, as a code such as de"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stem != "keep" and self.lemma != "keep":
            raise ConfigError("stem and lemma both replace words; choose one")
        if self.contractions == "expand" and self.language != "en":
            raise ConfigError(
                f"contractions are written out in English only; language is {self.language!r}"
            )

    @classmethod
    def from_recipe(cls, recipe: str) -> NormalizerConfig:
        """Parse a recipe: `topic`, `case=lower,stem=porter` or `topic,language=de,stopwords=remove`."""
        values: dict[str, str] = {}
        named: set[str] = set()
        steps = [f.name for f in fields(cls)]
        for number, item in enumerate(part.strip() for part in recipe.split(",")):
            step, equals, value = item.partition("=")
            if equals and step in steps:
                if step in named:
                    raise ConfigError(
                        f"normalize: {step!r} appears twice in {recipe!r}; give it once"
                    )
                values[step] = value
                named.add(step)
            elif not equals and number == 0 and item in PRESETS:
                values |= PRESETS[item]
            elif not equals and item in PRESETS:
                raise ConfigError(
                    f"normalize: the preset {item!r} must come first, and alone; got {recipe!r}"
                )
            else:
                candidates = steps if equals else [*PRESETS, *steps]
                raise ConfigError(
                    f"normalize: {item!r} is neither a preset ({', '.join(PRESETS)}) nor STEP=VALUE with "
                    f"a step of {', '.join(steps)}{suggest(step, candidates)}"
                )
        if values.get("language", "en") != "en" and "contractions=" not in recipe:
            values.pop("contractions", None)  # the preset has it for English only
        return cls(**values)  # type: ignore[arg-type]

    def recipe(self) -> str:
        """Return the active steps, as `from_recipe` reads them; not the preset, which may change later."""
        on = [
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if getattr(self, f.name) != f.default
        ]
        return ",".join(on) or "none"

    def label(self) -> str:
        """Return the shortest recipe: the nearest preset and the steps that differ from it."""
        shortest = self.recipe()
        for name in PRESETS:
            preset = NormalizerConfig.from_recipe(name)
            other = [
                f"{f.name}={getattr(self, f.name)}"
                for f in fields(self)
                if getattr(self, f.name) != getattr(preset, f.name)
            ]
            shortest = min(shortest, ",".join([name, *other]), key=len)
        return shortest


PRESETS: dict[str, dict[str, str]] = {
    "none": {},
    "topic": {
        "unicode": "nfkc",
        "case": "lower",
        "contractions": "expand",
        "numbers": "placeholder",
        "symbols": "remove",
        "punctuation": "remove",
        "whitespace": "collapse",
    },
    "sentiment": {
        "unicode": "nfc",
        "contractions": "expand",
        "symbols": "name",
        "punctuation": "standardise",
        "whitespace": "collapse",
    },
}

_UNK, _HIDDEN = "<unk>", "\ufdd0"  # a noncharacter stands for <unk> while the steps run

# Patterns begin with a plain class of rare characters and check what precedes it afterwards (look-behind), so
# that the search passes ordinary letters at the speed of a scan.
_CURRENCY = (
    "[$\u00a2-\u00a5\u058f\u060b\u09f2\u09f3\u0e3f\u17db\u20a0-\u20cf"
    "\ufe69\uff04\uffe0\uffe1\uffe5\uffe6]"
)
_DIGITS = r"\d++(?:[.,]\d++)*+"
_MONEY = re.compile(rf"{_CURRENCY} ?(?:{_DIGITS}|\.\d++)(?:[kmbtKMBT][nN]?)?(?!\w)")
_NUMBER = re.compile(
    rf"[\d.](?<!\w.)(?<!\d[.,].)(?:(?<=\d)\d*+|\d++)(?:[.,]\d++)*+(?: ?({_CURRENCY}))?(?!\w)"
)

_ASCII_MARKS = "!\"#%&'()*,\\-./:;?@\\[\\\\\\]_{}"  # category P; inside a character class
_ASCII_SYMBOLS = "$+<=>^`|~"
# modifiers of the emoji before them
_JOINERS = "\ufe0e\ufe0f\u200d\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
_EMOJI = re.compile("[\U0001f1e6-\U0001f1ff]{2}|.")  # two letters make a flag
_STRAIGHT = {
    "'": "\u2018\u2019\u201a\u201b\u2039\u203a",
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015",
    "...": "\u2026",
}
_REPEATED = re.compile(
    r"[!?\uff01\uff1f.,;-](?:(?<=[!?\uff01\uff1f])[!?\uff01\uff1f]+|(?<=([.,;-]))\1+)"
)
_INNER_APOSTROPHE = re.compile(r"['\u2019](?<=\w.)(?=\w)")
_BETWEEN_WORDS = re.compile(rb".*(?:(?=\n)|(?<=[0-9A-Za-z])(?= [0-9A-Za-z]))", re.DOTALL)


class Normalizer:
    """The steps of a config as a function from text to text."""

    def __init__(self, config: NormalizerConfig | str) -> None:
        self.config = NormalizerConfig.from_recipe(config) if isinstance(config, str) else config
        c = self.config
        self._words = None
        if (c.stopwords, c.stem, c.lemma) != ("keep", "keep", "keep"):
            from seqloom.text.word_forms import WordSteps

            self._words = WordSteps(
                stopwords=c.stopwords, stem=c.stem, lemma=c.lemma, language=c.language
            )

    @property
    def identity(self) -> bool:
        """Return whether no step is active."""
        return self.config.recipe() in ("none", f"language={self.config.language}")

    def __call__(self, text: str) -> str:
        c = self.config
        if c.unicode != "keep":
            text = unicodedata.normalize("NFC" if c.unicode == "nfc" else "NFKC", text)
        if c.case == "lower":
            text = text.lower()
        text = text.replace(_HIDDEN, "").replace(_UNK, _HIDDEN)
        if c.contractions == "expand":
            text = expand(text)
        if self._words is not None:
            text = self._words(text)
        if c.numbers == "placeholder":
            text = _NUMBER.sub(_placeholder, _MONEY.sub(_money, text))
        if c.symbols != "keep":
            text = _without_symbols(text) if c.symbols == "remove" else _named_symbols(text)
        if c.punctuation == "remove":
            text = _without_punctuation(text)
        elif c.punctuation == "standardise":
            text = _standardised(text)
        text = text.replace(_HIDDEN, _UNK)
        if c.whitespace == "collapse":
            text = "\n".join([" ".join(line.split()) for line in text.split("\n")])
        return text

    def of_bytes(self, data: bytes) -> bytes:
        """Apply the steps to UTF-8; bytes that are not UTF-8 stay as they are."""
        return self._decoded(data).encode("utf-8", "surrogateescape")

    def _decoded(self, data: bytes) -> str:
        return self(data.decode("utf-8", "surrogateescape"))

    def cut(self, data: bytes, final: bool, blanks_count: bool) -> int:
        """Return the last index where the raw bytes may be cut so that both sides are normalised and encoded
        as they are together; 0 if there is none.

        If white space is part of tokens (`blanks_count`), this is before a newline, if the next line is
        complete and, normalised, begins with a visible character; otherwise it may also be before a blank
        between two words.
        """
        if final:
            return len(data)
        if not blanks_count:
            match = _BETWEEN_WORDS.match(data)
            return match.end() if match else 0
        stop = data.rfind(b"\n")
        while stop > 0:
            start = data.rfind(b"\n", 0, stop)
            first = self._decoded(data[start + 1 : stop])[:1] if start > 0 else ""
            if (
                first
                and cut_before_word(b"x\n" + first.encode("utf-8", "surrogateescape"), False) == 1
            ):
                return start
            stop = start
        return 0


@lru_cache(256)
def _pattern(kind: str, extra: str) -> re.Pattern[str]:
    """Return the pattern of runs of symbols or punctuation; `extra`: those of the text beyond ASCII, so
    that the character class stays small.
    """
    if kind == "remove":
        return re.compile(
            rf"[{_ASCII_SYMBOLS}{extra}][{_ASCII_SYMBOLS}{extra}{_JOINERS}]*|\ufe0f?\u20e3"
        )
    if kind == "name":
        return re.compile(rf"[{extra}][{extra}{_JOINERS}]*")
    return re.compile(rf"[{_ASCII_MARKS}{extra}][{_ASCII_MARKS}{extra}]*")


def _gap(match: re.Match[str]) -> str:
    """Return the replacement of a removed match: a blank if two words would be joined otherwise."""
    text, start, stop = match.string, match.start(), match.end()
    between = (
        start > 0
        and stop < len(text)
        and not text[start - 1].isspace()
        and not text[stop].isspace()
    )
    return " " if between else ""


def _without_symbols(text: str) -> str:
    return _pattern("remove", beyond_ascii(text, "S")).sub(_gap, text)


def _without_punctuation(text: str) -> str:
    return _pattern("marks", beyond_ascii(text, "P")).sub(
        _mark_gap, _INNER_APOSTROPHE.sub("", text)
    )


def _mark_gap(match: re.Match[str]) -> str:
    text, at = match.string, match.start()
    if match[0] in (".", ",") and 0 < at < len(text) - 1:
        before, after = text[at - 1], text[at + 1]
        if before.isdigit() and after.isdigit():  # 3.14 and 1,000 keep theirs
            return match[0]
        alone = at == 1 or not (text[at - 2].isalnum() or text[at - 2] == "_")
        if (
            match[0] == "."
            and before.isalpha()
            and alone
            and after.isalpha()
            and text[at + 2 : at + 3] == "."
        ):
            return ""  # U.S.
    return _gap(match)


def _placeholder(match: re.Match[str]) -> str:
    return "MONEY" if match[1] else "NUM"


def _money(match: re.Match[str]) -> str:
    at = match.start()
    return " MONEY" if at and match.string[at - 1].isalnum() else "MONEY"  # US$5


def _standardised(text: str) -> str:
    for plain, variants in _STRAIGHT.items():
        for variant in variants:
            text = text.replace(variant, plain)
    return _REPEATED.sub(_one_mark, text)


def _one_mark(match: re.Match[str]) -> str:
    run = match[0]
    return "..." if run[0] == "." else "".join(dict.fromkeys(run))  # ?!?! to ?!, --- to -


def _named_symbols(text: str) -> str:
    symbols = beyond_ascii(text, "S")
    return _pattern("name", symbols).sub(_name_run, text) if symbols else text


def _name_run(match: re.Match[str]) -> str:
    names = [name for part in _EMOJI.findall(match[0]) if (name := _camel(part))]
    text, start, stop = match.string, match.start(), match.end()
    before = " " if start > 0 and not text[start - 1].isspace() else ""
    after = " " if stop < len(text) and not text[stop].isspace() else ""
    return before + " ".join(names) + after


@cache
def _camel(symbol: str) -> str:
    """Return SmilingFace for SMILING FACE, FlagDE for a flag: one word for every kind of tokenizer; an
    empty string for joiners.
    """
    if len(symbol) == 2:
        return "Flag" + "".join(chr(ord(letter) - 0x1F1E6 + ord("A")) for letter in symbol)
    if re.match(f"[{_JOINERS}]", symbol):
        return ""
    return "".join(
        word.capitalize() for word in re.findall("[A-Z0-9]+", unicodedata.name(symbol, ""))
    )
