"""Streaming: a sequence is read step by step, with an answer after each step at constant cost; and
reader and encoder without torch (with torch: `sequence_net`).

The past is stored as the states of the encoder (`runtime/encoders`) and, for a class, as the pooled
vector so far (`runtime.composition.RunningPool`). So the answers are those of `predict` for the steps
so far, and models that need later steps are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.data.spans import OUTSIDE, Scheme, convert
from seqloom.encoder_table import find_encoder
from seqloom.errors import ConfigError, DataError
from seqloom.models.masked.inputs import take_encoder
from seqloom.models.sequence.configs import EncoderConfig, Sizes
from seqloom.runtime.bert import PublishedEncoder
from seqloom.runtime.composition import RunningPool, Sums
from seqloom.runtime.encoders import Encoder
from seqloom.runtime.readers import NumberReader, PublishedReader, TokenReader
from seqloom.runtime.weights import Weights
from seqloom.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from seqloom.models.sequence.configs import EncoderConfig
    from seqloom.models.sequence.published import Published


def take_reader_and_encoder(
    weights: Weights, c: EncoderConfig, sizes: Sizes, published: Published | None, vocab_size: int
) -> tuple[Any, Encoder]:
    """Take the reader and the encoder from weights; `vocab_size`: of a published encoder's
    tokenizer.
    """
    if published is not None:
        network = take_encoder(
            weights.within("reader.first"),
            published.layout,
            vocab_size,
            blocks=weights.within("encoder"),
        )
        return PublishedReader(network), PublishedEncoder(network)
    reader = take_reader(weights.within("reader"), c, sizes)
    encoder: Encoder = find_encoder(c.encoder).take(
        weights.within("encoder"),
        reader.d_out,
        c.d_hidden,
        c.n_layers,
        c.encoder_options,
    )
    return reader, encoder


def take_reader(weights: Weights, c: EncoderConfig, sizes: Sizes) -> TokenReader | NumberReader:
    """Take the reader of tokens or numbers from weights."""
    if sizes.columns:
        return NumberReader(weights, sizes.columns, missing=sizes.missing)
    return TokenReader(
        weights,
        sizes.vocab_size,
        sizes.d_embed,
        further=sizes.further,
        n_chars=sizes.characters,
        d_characters=c.d_characters,
        characters=c.characters,
        n_types=c.n_types,
    )


# ---- streaming

INSTEAD = "; fit a model with encoder='gru', or call predict"


def check_encoder(c: EncoderConfig) -> None:
    """Refuse an encoder in which the vector of a step depends on later steps."""
    ahead = c.window * (c.n_layers if c.encoder == "cnn" else 1)
    windowed = not c.published and "window" in find_encoder(c.encoder).options
    if c.published:
        why = f"the converted encoder {Path(c.encoder).name} reads the whole text before it answers"
    elif c.both_ways:
        why = f"a bidirectional encoder ({c.encoder}) reads the whole sequence before it answers"
    elif find_encoder(c.encoder).streams or (windowed and not ahead):
        return
    elif windowed:
        why = f"the {c.encoder} encoder looks {ahead} step{'s' * (ahead > 1)} ahead"
    else:
        why = f"the {c.encoder} encoder reads the whole sequence before it answers"
    raise ConfigError(f"stream: {why}{INSTEAD}", ("stream",))


def check_pieces(tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that gives different tokens for the pieces of a text than for the whole text."""
    kind, steps = tokenizer.kind, tokenizer.normalizer
    if kind not in ("whitespace", "word", "char", "byte"):
        raise ConfigError(
            f"stream: the tokens of a {kind} tokenizer depend on what follows; fit a model with "
            "tokenizer='word', or call predict",
            ("stream",),
        )
    if steps is not None and (kind in ("char", "byte") or steps.config.numbers != "keep"):
        raise ConfigError(
            f"stream: with normalize {steps.config.label()} the tokens of a text depend on what "
            "follows; fit a model without it, or call predict",
            ("stream",),
        )


class TagStream:
    """The tags of a sentence, word by word; another sentence needs another stream."""

    def __init__(
        self,
        encoder: Encoder,
        read: Callable[[str], np.ndarray],
        name: Callable[[np.ndarray], str],
        inside: Scheme | None,
        outside: Scheme | None,
    ) -> None:
        """Start a stream; `read` gives the vector of a word, `name` the tag of an encoder's vector in
        the scheme `inside`; `outside`: the scheme of the answers.
        """
        self._encoder, self._states = encoder, encoder.start(1)
        self._read, self._name, self._schemes, self._before = read, name, (inside, outside), OUTSIDE

    def feed(self, word: str) -> str:
        """Read one more word, and return its tag, from this word and those before it."""
        if not isinstance(word, str) or len(word.split()) > 1:
            raise DataError(
                f"feed takes one word at a time, without spaces; got {str(word)[:40]!r}"
            )
        x, self._states = self._encoder.step(self._read(word), self._states)
        before, self._before = self._before, self._name(x)
        inside, outside = self._schemes
        if inside is None or outside is None or inside == outside:
            return self._before
        # a tag of BIO or IOB1 depends on the one before alone
        return convert([before, self._before], inside, outside)[1]


class ClassStream:
    """The probabilities of the classes, step by step; another example needs another stream."""

    def __init__(
        self,
        encoder: Encoder,
        pool: RunningPool,
        read: Callable[[Any], np.ndarray],
        probs: Callable[[np.ndarray], dict[Any, float]],
        end: np.ndarray | None = None,
        most: int | None = None,
    ) -> None:
        """Start a stream; `read` gives the vectors (k, D) of a step; `end`: the vector of the end of a
        text; `most`: the number of steps after which the rest is ignored.
        """
        self._encoder, self._pool, self._read, self._probs, self._end, self._most = (
            encoder,
            pool,
            read,
            probs,
            end,
            most,
        )
        self._states, self._count = encoder.start(1), 0
        self._sums: Sums | None = None

    def feed(self, step: Any) -> dict[Any, float]:
        """Read one more word (a piece of text where tokens are characters) or row of numbers, and
        return the probability of each class if the sequence ended here.
        """
        for x in self._read(step):
            if self._most is not None and self._count >= self._most:
                break
            features, self._states = self._encoder.step(x[None], self._states)
            self._sums, self._count = self._pool.add(self._sums, features), self._count + 1
        sums = self._sums
        if self._end is not None and (self._most is None or self._count < self._most):
            sums = self._pool.add(sums, self._encoder.step(self._end, self._states)[0])
        assert sums is not None
        return self._probs(sums.mean)
