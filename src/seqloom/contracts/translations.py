"""What a translation is, how it is searched for, and sources as a model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.decoding.configs import TranslationConfig as TranslationConfig
from seqloom.text.coding import to_bytes
from seqloom.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from seqloom.contracts.translation import Translator
    from seqloom.decoding.stepper import Stepper


@dataclass(frozen=True, eq=False)
class Translation:
    """One translation of a source."""

    text: str
    log_prob: float  # natural log of its probability, the end symbol included
    score: float  # what it was ranked by
    finished: bool = True  # False: it was cut off after max_tokens
    ids: np.ndarray | None = None  # its tokens, without the end symbol

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "text": self.text,
            "log_prob": self.log_prob,
            "score": self.score,
            "finished": self.finished,
        }


class Answers(list[list[Translation]]):
    """The best translations of each source, best first, in the order of the sources."""

    long_sources: int = 0  # how many are longer than any in training

    @property
    def cut_off(self) -> int:
        """Count the best translations that did not end."""
        return sum(not best[0].finished for best in self)


class ReadSources:
    """Sources as a model reads them: how long they are, and Steppers over the targets of some.

    This one leaves the reading to `decoder`. A model that makes ids of all sources at once has its
    own, so that each is tokenised once.
    """

    def __init__(self, model: Translator, sources: list[Any]) -> None:
        self.model, self.sources = model, sources

    @cached_property
    def lengths(self) -> np.ndarray:
        """Return the steps of each source: tokens, or rows of numbers (n,)."""
        if self.model.reads_numbers:
            return np.array([len(source) for source in self.sources])
        return token_counts(self.model.tokenizers["source"], self.sources)

    def decoder(self, chosen: Sequence[int]) -> Stepper:
        """Return a Stepper for these sources."""
        return self.model.decoder([self.sources[i] for i in chosen])


def token_counts(tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """Count the tokens of each text, all at once: int64 (n,).

    >>> token_counts(Tokenizer(kind="byte"), ["ab", "", "a\\nb"]).tolist()
    [2, 0, 3]
    """
    lines = "".join(f"{text.replace(chr(10), ' ')}\n" for text in texts)
    ids = tokenizer.encode_block(to_bytes(lines), True)
    return np.diff(np.flatnonzero(ids == tokenizer.eos_id), prepend=-1) - 1
