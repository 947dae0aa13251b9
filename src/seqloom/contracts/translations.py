"""What a translation is, how it is searched for, and sources as a model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.decoding.beam import beam_search, forced_log_probs, greedy
from seqloom.decoding.configs import TranslationConfig as TranslationConfig
from seqloom.decoding.constraints import Without
from seqloom.decoding.sampling import SamplingConfig, sample
from seqloom.errors import ConfigError
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


def framed(sources: list[Any]) -> list[Any]:
    """Convert each source that is a vector of features to an array of one step."""
    return [
        source[None] if isinstance(source, np.ndarray) and source.ndim == 1 else source
        for source in sources
    ]


def token_counts(tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """Count the tokens of each text, all at once: int64 (n,).

    >>> token_counts(Tokenizer(kind="byte"), ["ab", "", "a\\nb"]).tolist()
    [2, 0, 3]
    """
    lines = "".join(f"{text.replace(chr(10), ' ')}\n" for text in texts)
    ids = tokenizer.encode_block(to_bytes(lines), True)
    return np.diff(np.flatnonzero(ids == tokenizer.eos_id), prepend=-1) - 1


def search_batch(
    model: Translator,
    stepper: Stepper,
    numbers: Sequence[int],
    how: TranslationConfig,
    nbest: int,
    scored: bool = True,
) -> list[list[Translation]]:
    """Return the best translations of each source of a Stepper; `numbers`: of the sources among all,
    by which they are drawn. `scored` False: `log_prob` and `score` may be NaN.
    """
    if marks := model.target_tokenizer.declared_ids:  # which are no text
        stepper = Without(stepper, marks)
    if (
        not scored
        and how.search == "beam"
        and how.beams == 1
        and not how.coverage_penalty
        and not how.prefix
    ):
        rows = greedy(stepper, len(numbers), how.max_tokens or model.most_tokens)
        return [
            [Translation(model.target_tokenizer.decode(ids), np.nan, np.nan, finished, ids)]
            for ids, finished in rows
        ]
    nothing = [np.zeros(0, np.int64)] * len(numbers)
    if how.search == "sample":
        return [[translation] for translation in _drawn(model, stepper, nothing, numbers, how)]
    prefixes = (
        [_prefix_ids(model.target_tokenizer, how.prefix)] * len(numbers) if how.prefix else None
    )
    hypotheses = beam_search(stepper, nothing, model.beam_config(how, nbest), prefixes=prefixes)
    return [
        [
            Translation(
                model.target_tokenizer.decode(h.ids), h.log_prob, h.score, h.finished, h.ids
            )
            for h in best
        ]
        for best in hypotheses
    ]


def _drawn(
    model: Translator,
    stepper: Stepper,
    prompts: list[np.ndarray],
    numbers: Sequence[int],
    how: TranslationConfig,
) -> list[Translation]:
    config = SamplingConfig(
        max_tokens=model.token_limit(how),
        temperature=how.temperature,
        top_k=how.top_k,
        top_p=how.top_p,
        seed=how.seed,
    )
    drawn = list(sample(stepper, prompts, config, numbers=numbers))
    rows = [
        np.array([int(ids[row]) for ids in drawn if ids[row] >= 0], np.int64)
        for row in range(len(prompts))
    ]
    log_probs = [float(some.sum()) for some in forced_log_probs(stepper, rows)]
    finished = [bool(len(ids)) and ids[-1] == stepper.eos_id for ids in rows]
    ids = [row[:-1] if ended else row for row, ended in zip(rows, finished)]
    return [
        Translation(model.target_tokenizer.decode(some), total, total, ended, some)
        for some, total, ended in zip(ids, log_probs, finished)
    ]


def _prefix_ids(tokenizer: Tokenizer, prefix: str) -> np.ndarray:
    """Encode what every translation is to begin with; refuse what the model has no tokens for."""
    ids = tokenizer.encode(prefix)
    if tokenizer.unk_id in ids.tolist():
        raise ConfigError(
            f"prefix: {prefix!r} is not made of this model's target tokens "
            f"({tokenizer.label()}), so no translation can begin with it"
        )
    return ids
