"""Texts as the steps of a composed network: ids of their tokens, the spelling of their words, and what to do with long ones.

A text ends in `</s>`, so none is empty. A long one is cut (`truncate`), read in windows that overlap by half (`windows`), or
sentence by sentence (`sentences`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from seqloom.errors import ConfigError
from seqloom.models.classify.features import check_texts, join
from seqloom.models.sequence.encoded import Encoded, Spellings, flat
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import SPLITTERS, Vocabulary, classes_for, padded

Long = Literal["truncate", "windows", "sentences"]
LONGEST_WORD = 30  # characters of a word that are read


class TextInputs:
    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: int,
        long: Long = "truncate",
        characters: Sequence[str] | None = None,
    ) -> None:
        """`characters`: those that are known, where words are read by spelling as well."""
        if characters is not None and tokenizer.kind not in SPLITTERS[:2]:
            raise ConfigError(
                f"characters need whole words, but the tokenizer is {tokenizer.kind}; give tokenizer whitespace "
                "or word, or characters none"
            )
        self.tokenizer, self.max_length, self.long = tokenizer, max_length, long
        self.characters = (
            None if characters is None else {char: i for i, char in enumerate(characters, 2)}
        )

    def encode(self, texts: Sequence[str]) -> Encoded:
        check_texts(texts)
        counts = None
        if self.long == "sentences":
            texts, counts = sentences_of(texts)
        ids, words, spelled = self.tokens(texts)
        ends = np.flatnonzero(ids == self.tokenizer.eos_id) + 1
        borders = np.concatenate([[0], ends]).astype(np.int64)
        steps = {"ids": ids, **({} if words is None else {"words": words})}
        starts, stops = borders[:-1], borders[1:]
        if self.long == "windows":
            starts, stops, counts = windows(starts, stops, self.max_length)
        if counts is not None or (stops - starts).max(initial=0) > self.max_length:
            stops = np.minimum(stops, starts + self.max_length)
            places, borders = flat(
                [np.arange(a, b) for a, b in zip(starts.tolist(), stops.tolist())]
            )
            steps = {name: values[places] for name, values in steps.items()}
        return Encoded(steps, borders, None if spelled is None else self.spellings(spelled), counts)

    def tokens(
        self, texts: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray | None, list[str] | None]:
        """Ids, each text with its `</s>`; with characters also the place of each word among the different ones, and those."""
        blob = join(texts)
        if self.characters is None:
            return self.tokenizer.encode_block(blob, True), None, None
        words = words_of(self.tokenizer, blob)
        different = {word: i for i, word in enumerate(dict.fromkeys(words))}
        return (
            self.tokenizer.encode_block(blob, True),
            np.array([different[word] for word in words], np.int64),
            list(different),
        )

    def spellings(self, words: Sequence[str]) -> Spellings:
        assert self.characters is not None
        return Spellings.of(words, self.characters, LONGEST_WORD)


def sentences_of(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """All sentences of texts, and how many each has."""
    from seqloom.text.segment import sentences

    parts = [list(sentences(text)) or [text] for text in texts]
    return [sentence for part in parts for sentence in part], np.array(
        [len(part) for part in parts], np.int64
    )


def words_of(tokenizer: Tokenizer, blob: bytes) -> list[str]:
    """The words of lines as they are spelled, known or not; the end of a line is an empty one."""
    from seqloom.kernels.tokens import split_tokens

    assert isinstance(tokenizer._fitted, Vocabulary)
    blob, kind = tokenizer._normalized(blob), tokenizer.kind
    starts, stops = np.empty(len(blob) + 1, np.int64), np.empty(len(blob) + 1, np.int64)
    n, _ = split_tokens(
        padded(blob), len(blob), 0, SPLITTERS.index(kind), True, classes_for(kind), starts, stops
    )
    return [
        blob[a:b].decode("utf-8", "replace")
        for a, b in zip(starts[:n].tolist(), stops[:n].tolist())
    ]


def spelled_tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    """The tokens of a text as they stand in it, the unknown ones too where they are whole words; `</s>` is the last."""
    blob = join([text])
    names = [tokenizer.token(i) for i in tokenizer.encode_block(blob, True).tolist()]
    if tokenizer.kind in SPLITTERS[:2]:
        names = [word or name for word, name in zip(words_of(tokenizer, blob), names)]
    return names


def windows(
    starts: np.ndarray, stops: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows of at most `size` steps over each text, half of one before the next begins: starts, stops, number per text."""
    step = max(size // 2, 1)
    begins = [
        np.arange(a, max(b - size, a) + step, step) if b - a > size else np.array([a])
        for a, b in zip(starts.tolist(), stops.tolist())
    ]
    counts = np.array([len(some) for some in begins], np.int64)
    first = np.concatenate(begins) if begins else starts
    return first, np.minimum(first + size, np.repeat(stops, counts)), counts


def character_list(words: Sequence[str], least: int = 2) -> list[str]:
    """The characters of different words, those of at least so many words, sorted."""
    seen: dict[str, int] = {}
    for word in words:
        for char in dict.fromkeys(word):
            seen[char] = seen.get(char, 0) + 1
    return sorted(char for char, many in seen.items() if many >= least) or sorted(seen)
