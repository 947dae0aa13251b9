"""A sequence read as it comes in: one step in, one answer out, and the same work for every step, however many came before.

What was read is kept as the states of the recurrent layers (`network/recurrent_layer`) and, for a class, as the pooled vector
so far; an attention-weighted mean is kept by its largest score and the sums relative to it (Milakov and Gimelshein 2018). So
the answers are those that `predict` would give for what was read, and what would need later steps is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np

from seqloom.data.spans import OUTSIDE, Scheme, convert
from seqloom.errors import ConfigError, DataError
from seqloom.models.network.recurrent_layer import Cell, RecurrentLayer, State
from seqloom.models.network.step_weights import Weights
from seqloom.models.sequence.configs import EncoderConfig
from seqloom.models.sequence.quick import QuickNetwork
from seqloom.text.tokenizer import Tokenizer

States = tuple[State, ...]  # of the layers
INSTEAD = "; fit a model with encoder gru (--encoder gru), or call predict"


def check_encoder(c: EncoderConfig) -> None:
    """Refuse an encoder whose vector of a step depends on later ones."""
    ahead = c.window * (c.n_layers if c.encoder == "cnn" else 1)
    if c.published:
        why = f"the converted encoder {Path(c.encoder).name} reads the whole text before it answers"
    elif c.both_ways:
        why = f"a bidirectional encoder ({c.encoder}) reads the whole sequence before it answers"
    elif c.encoder == "transformer":
        why = "the transformer encoder reads the whole sequence before it answers"
    elif c.encoder in ("window", "cnn") and ahead:
        why = f"the {c.encoder} encoder looks {ahead} step{'s' * (ahead > 1)} ahead"
    else:
        return
    raise ConfigError(f"stream: {why}{INSTEAD}")


def check_pieces(tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that gives other tokens for the pieces of a text, one by one, than for all of it."""
    kind, steps = tokenizer.kind, tokenizer.normalizer
    if kind not in ("whitespace", "word", "char", "byte"):
        raise ConfigError(f"stream: the tokens of a {kind} tokenizer depend on what follows; fit a model with tokenizer word "
                          "or char (--tokenizer word), or call predict")
    if steps is not None and (kind in ("char", "byte") or steps.config.numbers != "keep"):
        raise ConfigError(f"stream: with normalize {steps.config.label()} the tokens of a text depend on what follows; fit a "
                          "model without it, or call predict")


class Steps:
    """The encoder of a fitted model, a step at a time. States are never changed, so a step may be tried."""

    def __init__(self, c: EncoderConfig, network: QuickNetwork) -> None:
        weights, cell = Weights(network.weights, eight_bit=False), cast(Cell, c.encoder)
        recurrent = c.n_layers if cell in get_args(Cell) else 0
        self.layers = [RecurrentLayer.load(weights, f"encoder.stack.layers.{i}.", cell) for i in range(recurrent)]
        self.pointwise = [] if self.layers else network.layers  # each step by itself

    def start(self) -> States:
        return tuple(layer.start_rows(1) for layer in self.layers)

    def step(self, states: States, x: np.ndarray) -> tuple[States, np.ndarray]:
        """From vectors of the reader (1, D): the states afterwards, and the vector of the encoder (1, d_out)."""
        after = []
        for layer, state in zip(self.layers, states):
            after.append(layer.move(layer.project(x), tuple(leaf.copy() for leaf in state)))
            x = after[-1][0]
        for apart in self.pointwise:
            x = apart(x)
        return tuple(after), x


class Sums(NamedTuple):
    """The vectors of the steps so far as one, `vector / total`."""

    vector: np.ndarray  # (d_out,) float64
    total: float = 1.0
    top: float = 0.0  # the largest score; weights are relative to it


class RunningPool:
    """`nn.pooling.Pooling` of an encoder in one direction, a step at a time."""

    def __init__(self, kind: str, weights: Mapping[str, np.ndarray]) -> None:
        self.kind, self.weights = kind, weights

    def add(self, sums: Sums | None, x: np.ndarray) -> Sums:
        """With the vector of one more step (1, d_out)."""
        vector = x[0].astype(np.float64)
        if sums is None or self.kind == "last":
            return Sums(vector, top=self._score(x))
        if self.kind == "max":
            return Sums(np.maximum(sums.vector, vector))
        score = self._score(x)
        top = max(sums.top, score)
        before, now = math.exp(sums.top - top), math.exp(score - top)
        return Sums(before * sums.vector + now * vector, before * sums.total + now, top)

    def _score(self, x: np.ndarray) -> float:
        if self.kind != "attention":
            return 0.0
        weight, bias, score = (self.weights[f"output.pooling.{name}"] for name in ("project.weight", "project.bias",
                                                                                   "score.weight"))
        return float(np.tanh(x[0] @ weight.T + bias) @ score[0])


class TagStream:
    """The tags of a sentence, word by word; another sentence needs another stream."""

    def __init__(self, steps: Steps, read: Callable[[str], np.ndarray], name: Callable[[np.ndarray], str],
                 inside: Scheme | None, outside: Scheme | None) -> None:
        """`read`: the vector of a word; `name`: the tag that a vector of the encoder has, in the scheme `inside`."""
        self._steps, self._states = steps, steps.start()
        self._read, self._name, self._schemes, self._before = read, name, (inside, outside), OUTSIDE

    def feed(self, word: str) -> str:
        """Read one more word; its tag, from this word and those before it."""
        if not isinstance(word, str) or len(word.split()) > 1:
            raise DataError(f"feed takes one word at a time, without spaces; got {str(word)[:40]!r}")
        self._states, x = self._steps.step(self._states, self._read(word))
        before, self._before = self._before, self._name(x)
        inside, outside = self._schemes
        if inside is None or outside is None or inside == outside:
            return self._before
        return convert([before, self._before], inside, outside)[1]  # all that BIO and IOB1 depend on


class ClassStream:
    """The probabilities of the classes, step by step; another example needs another stream."""

    def __init__(self, steps: Steps, pool: RunningPool, read: Callable[[Any], np.ndarray],
                 probs: Callable[[np.ndarray], dict[Any, float]], end: np.ndarray | None = None,
                 most: int | None = None) -> None:
        """`read`: vectors of what is fed (k, D); `end`: that of the end of a text; `most`: how many steps are read at all."""
        self._steps, self._pool, self._read, self._probs, self._end, self._most = steps, pool, read, probs, end, most
        self._states, self._count = steps.start(), 0
        self._sums: Sums | None = None

    def feed(self, step: Any) -> dict[Any, float]:
        """Read one more word (a piece of text where tokens are characters), or one more row of numbers; the probability of
        each class if the sequence ended here."""
        for x in self._read(step):
            if self._most is not None and self._count >= self._most:
                break
            self._states, features = self._steps.step(self._states, x[None])
            self._sums, self._count = self._pool.add(self._sums, features), self._count + 1
        sums = self._sums
        if self._end is not None and (self._most is None or self._count < self._most):
            sums = self._pool.add(sums, self._steps.step(self._states, self._end)[1])
        assert sums is not None
        return self._probs((sums.vector / sums.total).astype(np.float32))
