"""Reader, encoder and head as one network: the composition behind every classifier, tagger, answerer and
forecaster.

A batch is a set of named tensors. Documents may be read in two levels (Yang et al. 2016): the rows
of a batch are then their sentences, `counts` has the number of each document's, and a second encoder
reads the vectors of the sentences. Where a word is several steps, as with a published encoder,
`positions` has the one that the head reads. Heads predict one or several labels for the sequence, a
tag for each step, or the two ends of a span; their losses are weighted sums over examples or steps,
as the training engine expects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqloom.nn.bert import of_words
from seqloom.nn.encoders import Encoder, present
from seqloom.nn.initialisation import xavier
from seqloom.nn.layers import MakeLinear, dropout, original
from seqloom.nn.readers import Arrays
from seqloom.nn.transformer import ACTIVATIONS
from seqloom.traces import Trace, within

PoolingName = Literal["last", "first", "mean", "max", "attention"]
POOLINGS = ("last", "first", "mean", "max", "attention")


class Pooling(nn.Module):
    """One vector for a sequence: x (B, T, D) and lengths (B,) to (B, D). `last`: the last state, of a
    bidirectional encoder the ends of both directions; `first`: that of the first step, the mark that
    BERT and its kin put before a text; `mean`; `max` of each feature; `attention` (Yang et al. 2016,
    "Hierarchical Attention Networks"; Bahdanau et al. 2015): each step is scored by a small network
    and a learned vector, and the softmax of the scores weights the mean, which also shows which steps
    mattered. Padding is ignored; an empty sequence gives zeros.
    """

    def __init__(
        self,
        kind: PoolingName,
        d_in: int,
        *,
        bidirectional: bool = False,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        if kind not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}; it is {kind!r}")
        self.kind, self.bidirectional = kind, bidirectional
        if kind == "attention":
            self.project = linear(d_in, d_in, bias=True)
            self.score = linear(d_in, 1, bias=False)
            xavier(original(self.project))
            nn.init.zeros_(self.project.bias)
            nn.init.normal_(original(self.score), std=d_in**-0.5)

    def forward(self, x: Tensor, lengths: Tensor, trace: Trace | None = None) -> Tensor:
        """Return the pooled vectors; a trace gets the `weights` (B, T) of attention."""
        empty = (lengths == 0).to(x.device).unsqueeze(1)
        return self._pooled(x, lengths.to(x.device), trace).masked_fill(empty, 0.0)

    def _pooled(self, x: Tensor, lengths: Tensor, trace: Trace | None) -> Tensor:
        if self.kind == "last":
            rows = torch.arange(x.shape[0], device=x.device)
            last = x[rows, (lengths - 1).clamp(min=0)]
            half = x.shape[2] // 2
            return torch.cat([last[:, :half], x[:, 0, half:]], 1) if self.bidirectional else last
        if self.kind == "first":
            return x[:, 0]
        if self.kind == "attention":
            weights = self.weights(x, lengths)
            if trace is not None:
                trace.add("weights", weights)
            return (weights.unsqueeze(2) * x).sum(1)
        keep = present(x, lengths)
        assert keep is not None
        if self.kind == "max":
            return x.masked_fill(~keep.unsqueeze(2), -math.inf).amax(1)
        return x.masked_fill(~keep.unsqueeze(2), 0.0).sum(1) / lengths.clamp(min=1).unsqueeze(1)

    def weights(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return the attention weight of each step, (B, T); rows sum to one, or are zero where a
        sequence is empty.
        """
        scores = self.score(torch.tanh(self.project(x))).squeeze(2)
        keep = present(x, lengths)
        assert keep is not None
        scores = scores.masked_fill(~(keep | (lengths == 0).to(x.device).unsqueeze(1)), -math.inf)
        return torch.softmax(scores, 1).masked_fill(~keep, 0.0)


# ---- heads

LAYER_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, **ACTIVATIONS}


def xavier_linear(d_in: int, d_out: int, linear: MakeLinear = nn.Linear) -> nn.Linear:
    """Make a linear layer initialised by Xavier's method, with a bias of zeros."""
    layer = linear(d_in, d_out, bias=True)
    xavier(original(layer))
    nn.init.zeros_(layer.bias)
    return layer


class LabelHead(nn.Module):
    """Pools (B, T, D) and scores classes (B, C): one class by a softmax, or `several` by sigmoids.
    `layer`: the activation of a further layer between both.
    """

    def __init__(
        self,
        d_in: int,
        n_classes: int,
        pooling: Pooling,
        *,
        several: bool = False,
        label_smoothing: float = 0.0,
        layer: str = "none",
        dropout: float = 0.0,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.pooling, self.linear = pooling, xavier_linear(d_in, n_classes, linear)
        self.dense = None if layer == "none" else xavier_linear(d_in, d_in, linear)
        self.several, self.label_smoothing = several, label_smoothing
        self.layer, self.dropout = layer, dropout

    def forward(self, x: Tensor, lengths: Tensor, trace: Trace | None = None) -> Tensor:
        pooled = self.pooling(x, lengths, within(trace, "pooling"))
        if self.dense is not None:
            pooled = LAYER_ACTIVATIONS[self.layer](self.dense(pooled))
            pooled = dropout(pooled, self.dropout, self.training)
        return self.linear(pooled)

    def loss(self, scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the sum over the examples, each by its weight (B,).

        Targets: (B,) of one class each, or soft ones (B, C) that sum to one; of several labels (B, C) from 0
        to 1.
        """
        soft = targets.to(scores.dtype) if targets.ndim == 2 else targets
        if self.several:
            each = F.binary_cross_entropy_with_logits(scores, soft, reduction="none")  # (B, C)
        else:
            smoothing = self.label_smoothing
            # (B,)
            each = F.cross_entropy(scores, soft, reduction="none", label_smoothing=smoothing)
        if weights is None:
            return each.sum()
        return (each * (weights[:, None] if self.several else weights)).sum()

    def log_probs(self, scores: Tensor) -> Tensor:
        return F.logsigmoid(scores) if self.several else torch.log_softmax(scores, 1)


class TagHead(nn.Module):
    """(B, T, D) to the scores of tags (B, T, K); `crf`: a conditional random field (`nn.crf`), which
    scores whole sequences of tags and excludes illegal ones.
    """

    def __init__(
        self, d_in: int, n_tags: int, *, crf: Any = None, linear: MakeLinear = nn.Linear
    ) -> None:
        super().__init__()
        self.linear, self.crf = xavier_linear(d_in, n_tags, linear), crf

    def forward(self, x: Tensor, lengths: Tensor, trace: Trace | None = None) -> Tensor:
        return self.linear(x)

    def loss(
        self, scores: Tensor, targets: Tensor, lengths: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Return the sum over the steps that are not padding, each by its weight (B, T).

        Targets: tags (B, T), or soft ones (B, T, K); a CRF, which scores whole sequences, takes neither these
        nor weights.
        """
        if self.crf is not None:
            if weights is not None or targets.ndim != 2:
                raise ValueError(
                    "a CRF scores whole sequences of tags; soft targets and weights of steps "
                    "need a head without"
                )
            loss: Tensor = self.crf(scores, targets, lengths)
            return loss
        keep = torch.arange(scores.shape[1], device=scores.device) < lengths.to(
            scores.device
        ).unsqueeze(1)
        if weights is None:
            return F.cross_entropy(scores[keep], targets[keep], reduction="sum")
        return (
            F.cross_entropy(scores[keep], targets[keep], reduction="none") * weights[keep]
        ).sum()

    def decode(self, scores: Tensor, lengths: Tensor) -> np.ndarray:
        """Return the best tags (B, T); those beyond a row's length are arbitrary."""
        best: np.ndarray = (
            scores.argmax(2).cpu().numpy() if self.crf is None else self.crf.decode(scores, lengths)
        )
        return best


class SpanHead(nn.Module):
    """(B, T, D) to two scores of each step (B, T, 2): that the answer begins there, and that it ends
    there (Devlin et al. 2019, section 4.2). Both ends at the first step mean that there is no answer.
    """

    def __init__(self, d_in: int, *, linear: MakeLinear = nn.Linear) -> None:
        super().__init__()
        self.linear = xavier_linear(d_in, 2, linear)

    def forward(self, x: Tensor, lengths: Tensor, trace: Trace | None = None) -> Tensor:
        return self.linear(x)

    def loss(self, scores: Tensor, targets: Tensor, allowed: Tensor) -> Tensor:
        """Return the sum over the rows of the negative log-probability of both ends, targets (B, 2).

        `allowed` (B, T): the steps among which the ends are, so neither those of the question nor padding.
        """
        ends = scores.masked_fill(~allowed.bool().unsqueeze(2), -math.inf)
        return F.cross_entropy(
            ends.transpose(1, 2).flatten(0, 1), targets.flatten(), reduction="sum"
        )


# ---- composition


class Sentences(nn.Module):
    """Vectors of words in sentences (R, T, D) to vectors of sentences in documents (B, S, D)."""

    def __init__(self, pooling: Pooling, encoder: Encoder) -> None:
        super().__init__()
        self.pooling, self.encoder, self.d_out = pooling, encoder, encoder.d_out

    def forward(
        self, x: Tensor, lengths: Tensor, counts: Tensor, trace: Trace | None = None
    ) -> Tensor:
        pooled = self.pooling(x, lengths, within(trace, "pooling"))  # (R, D)
        return self.encoder(rows_of(pooled, counts), counts, within(trace, "encoder"))


def rows_of(x: Tensor, counts: Tensor) -> Tensor:
    """Split x (R, D), so many rows for each example, into (B, most, D), padded with zeros."""
    counts = counts.to(x.device)
    most: Any = counts.max()  # not int(most), which a recorded network would keep
    places = torch.arange(most, device=x.device)
    rows = (torch.cumsum(counts, 0) - counts).unsqueeze(1) + places  # (B, most)
    hidden = places >= counts.unsqueeze(1)
    return x[rows.masked_fill(hidden, 0)].masked_fill(hidden.unsqueeze(2), 0.0)


def mean_by_example(x: Tensor, counts: Tensor) -> Tensor:
    """Return the mean of the rows (R, D) of each example, (B, D)."""
    counts = counts.to(x.device)
    rows, ends = torch.arange(x.shape[0], device=x.device), torch.cumsum(counts, 0).unsqueeze(1)
    own = (rows < ends) & (rows >= ends - counts.unsqueeze(1))  # (B, R)
    return own.to(x.dtype) @ x / counts.clamp(min=1).unsqueeze(1)


class SequenceNetwork(nn.Module):
    """`dropout`: on the inputs and the outputs of the encoder."""

    def __init__(
        self,
        reader: nn.Module,
        encoder: Encoder,
        output: nn.Module,
        *,
        sentences: Sentences | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.reader, self.encoder, self.sentences, self.output, self.dropout = (
            reader,
            encoder,
            sentences,
            output,
            dropout,
        )

    def forward(self, batch: Arrays, trace: Trace | None = None) -> Tensor:
        """Return the head's output for the batch; a trace gets `encoder...`, `sentences...` and
        `output...`.
        """
        return self.encode(self.reader(batch), batch, trace)

    def encode(self, x: Tensor, batch: Arrays, trace: Trace | None = None) -> Tensor:
        """Return the head's output for the reader's vectors (B, T, D)."""
        x, lengths = self.features(x, batch, trace)
        return self.output(x, lengths, within(trace, "output"))

    def features(
        self, x: Tensor, batch: Arrays, trace: Trace | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the vectors that the head reads, and their number in each row."""
        lengths = batch["lengths"]
        x = self.encoder(dropout(x, self.dropout, self.training), lengths, within(trace, "encoder"))
        x = dropout(x, self.dropout, self.training)
        if "positions" in batch:
            return of_words(x, batch), batch["word_counts"]
        if self.sentences is None:
            return x, lengths
        counts = batch["counts"]
        x = self.sentences(x, lengths, counts, within(trace, "sentences"))
        return dropout(x, self.dropout, self.training), counts
