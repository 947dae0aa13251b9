"""Reader, encoder and head as one network (`nn.composition`), without torch.

Documents may be read in two levels: rows are then their sentences, and a second encoder reads the
sentence vectors. Where a word is several steps, as with a published encoder, the head reads the first
step of each word.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from seqloom.kernels.maths import ACTIVATIONS, LAST, POOLING, TANH, activate, pool_rows
from seqloom.runtime.declarations import Examples
from seqloom.runtime.encoders import Encoder
from seqloom.runtime.weights import Linear, Weights
from seqloom.traces import Trace, within


class Pooling:
    """One vector for each row of steps: x (N, D) to (R, D); an empty row has zeros."""

    def __init__(
        self, weights: Weights, kind: str, d_in: int, *, bidirectional: bool = False
    ) -> None:
        self.kind, self.bidirectional = kind, bidirectional
        if kind == "attention":
            self.project: Linear = weights.linear("project", d_in, d_in)
            self.score: Linear = weights.linear("score", 1, d_in, bias=False)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the attention score of each step, before the softmax, (N,)."""
        return self.score(activate(self.project(x), TANH))[:, 0]

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        if self.kind == "first":  # where a reverse direction ends
            return pool_rows(np.ascontiguousarray(x), offsets, LAST, 0)
        if self.kind != "attention":
            half = x.shape[1] // 2 if self.bidirectional else x.shape[1]
            return pool_rows(np.ascontiguousarray(x), offsets, POOLING.index(self.kind), half)
        out = np.zeros((len(offsets) - 1, x.shape[1]), np.float32)
        nonempty = np.flatnonzero(np.diff(offsets))
        starts, lengths = offsets[:-1][nonempty], np.diff(offsets)[nonempty]
        if len(nonempty):
            scores = self.scores(x)
            weights = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
            weights /= np.repeat(np.add.reduceat(weights, starts), lengths)
            out[nonempty] = np.add.reduceat(x * weights[:, None], starts)
            if trace is not None:
                trace.add("weights", weights)
        return out


class RunningPool:
    """Pooling of one sequence a step at a time; of an attention mean the largest score and the sums
    relative to it are stored (Milakov and Gimelshein 2018).
    """

    def __init__(self, pooling: Pooling) -> None:
        self.pooling = pooling

    def add(self, sums: Sums | None, x: np.ndarray) -> Sums:
        """Return the sums with the vector of one more step (1, D)."""
        vector = x[0].astype(np.float64)
        kind = self.pooling.kind
        if sums is not None and kind == "first":
            return sums
        score = float(self.pooling.scores(x)[0]) if kind == "attention" else 0.0
        if sums is None or kind == "last":
            return Sums(vector, top=score)
        if kind == "max":
            return Sums(np.maximum(sums.vector, vector))
        top = max(sums.top, score)
        before, now = math.exp(sums.top - top), math.exp(score - top)
        return Sums(before * sums.vector + now * vector, before * sums.total + now, top)


class Sums(NamedTuple):
    """The pooled vector of the steps so far, `vector / total`."""

    vector: np.ndarray  # (D,) float64
    total: float = 1.0
    top: float = 0.0  # the largest score; weights are relative to it

    @property
    def mean(self) -> np.ndarray:
        return (self.vector / self.total).astype(np.float32)


class LabelHead:
    """Vectors of steps to scores of classes, (E, C); `layer`: the activation of a further layer."""

    def __init__(
        self, weights: Weights, d_in: int, n_classes: int, pooling: Pooling, layer: str = "none"
    ) -> None:
        self.pooling, self.activation = pooling, ACTIVATIONS.index(layer)
        self.linear: Linear = weights.linear("linear", n_classes, d_in, role="output")
        self.dense: Linear | None = weights.linear("dense", d_in, d_in) if self.activation else None

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        return self.scores(self.pooling(x, offsets, within(trace, "pooling")))

    def scores(self, pooled: np.ndarray) -> np.ndarray:
        """Return the scores of the classes of pooled vectors (E, D)."""
        if self.dense is not None:
            pooled = activate(self.dense(pooled), self.activation)
        return self.linear(pooled)


class TagHead:
    """Vectors of steps to scores of tags, (N, K); the caller decodes with the CRF, `field`."""

    def __init__(self, weights: Weights, d_in: int, n_tags: int, *, crf: bool = False) -> None:
        self.linear: Linear = weights.linear("linear", n_tags, d_in, role="output")
        self.field: tuple[np.ndarray, ...] | None = None  # start, transitions, end
        if crf:
            part = weights.within("crf")
            self.field = (
                part.take("start", n_tags),
                part.take("transitions", n_tags, n_tags),
                part.take("end", n_tags),
            )

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        return self.linear(x)


class SpanHead:
    """Vectors of steps to the scores of both ends of a span, (N, 2)."""

    def __init__(self, weights: Weights, d_in: int) -> None:
        self.linear: Linear = weights.linear("linear", 2, d_in, role="output")

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        return self.linear(x)


class Sentences:
    """The second level: pools the words of each sentence and encodes the sentences of a document."""

    def __init__(self, pooling: Pooling, encoder: Encoder) -> None:
        self.pooling, self.encoder = pooling, encoder


class SequenceNetwork:
    """The network of every classifier, tagger and answerer."""

    def __init__(
        self, reader: Any, encoder: Encoder, output: Any, *, sentences: Sentences | None = None
    ) -> None:
        self.reader, self.encoder, self.output, self.sentences = reader, encoder, output, sentences

    def read(self, examples: Examples) -> np.ndarray:
        """Return the reader's vectors of all steps."""
        return self.reader({**examples.steps, "offsets": examples.offsets}, examples.spellings)

    def features(
        self, examples: Examples, trace: Trace | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs of the head, and the offsets of the groups among them: rows, or the
        sentences of documents.
        """
        x = self.encoder(self.read(examples), examples.offsets, within(trace, "encoder"))
        if examples.word_steps is not None and examples.word_offsets is not None:
            return x[examples.word_steps], examples.word_offsets
        if self.sentences is None:
            return x, examples.offsets
        pooled = self.sentences.pooling(x, examples.offsets, within(trace, "sentences.pooling"))
        return self.sentences.encoder(
            pooled, examples.first_row, within(trace, "sentences.encoder")
        ), examples.first_row

    def __call__(self, examples: Examples, trace: Trace | None = None) -> np.ndarray:
        """Return the output of the head for the examples."""
        return self.output(*self.features(examples, trace), within(trace, "output"))
