"""Reader, encoder and head as one network: the composition behind every classifier, tagger and forecaster.

A batch is a set of named tensors. Documents may be read in two levels (Yang et al. 2016): the rows of a batch are then their
sentences, `counts` says how many each document has, and a second encoder reads the vectors of the sentences. Where a word is
several steps, as of a published encoder, `places` says which of them the head reads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.nn.dropout import dropout
from seqloom.nn.encoders import Encoder
from seqloom.nn.pooling import Pooling
from seqloom.nn.published import of_words
from seqloom.nn.readers import Arrays
from seqloom.trace import Trace, within


class Sentences(nn.Module):
    """Vectors of words in rows that are sentences (R, T, D) to those of sentences in documents (B, S, D)."""

    def __init__(self, pooling: Pooling, encoder: Encoder) -> None:
        super().__init__()
        self.pooling, self.encoder, self.d_out = pooling, encoder, encoder.d_out

    def forward(
        self, x: Tensor, lengths: Tensor, counts: Tensor, trace: Trace | None = None
    ) -> Tensor:
        pooled = self.pooling(x, lengths, within(trace, "pooling"))  # (R, D)
        return self.encoder(rows_of(pooled, counts), counts, within(trace, "encoder"))


def rows_of(x: Tensor, counts: Tensor) -> Tensor:
    """x (R, D), so many rows for each example, as (B, most, D); the rest is zero."""
    most = int(counts.max())
    out = x.new_zeros(len(counts), most, x.shape[1])
    there = torch.arange(most, device=x.device) < counts.to(x.device).unsqueeze(1)
    return out.masked_scatter(there.unsqueeze(2), x)


def mean_by_example(x: Tensor, counts: Tensor) -> Tensor:
    """The mean of the rows (R, D) of each example, (B, D)."""
    examples = torch.repeat_interleave(
        torch.arange(len(counts), device=x.device), counts.to(x.device)
    )
    return x.new_zeros(len(counts), x.shape[1]).index_add(0, examples, x) / counts.to(
        x.device
    ).clamp(min=1).unsqueeze(1)


class SequenceNetwork(nn.Module):
    """`dropout`: on what the encoder reads and on what it gives."""

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
        """What the head makes of the batch; a trace gets `encoder...`, `sentences...` and `output...`."""
        return self.encode(self.reader(batch), batch, trace)

    def encode(self, x: Tensor, batch: Arrays, trace: Trace | None = None) -> Tensor:
        """The same from the vectors that the reader gave (B, T, D)."""
        x, lengths = self.features(x, batch, trace)
        return self.output(x, lengths, within(trace, "output"))

    def features(
        self, x: Tensor, batch: Arrays, trace: Trace | None = None
    ) -> tuple[Tensor, Tensor]:
        """What the head reads, and how much of it there is."""
        lengths = batch["lengths"]
        x = self.encoder(dropout(x, self.dropout, self.training), lengths, within(trace, "encoder"))
        x = dropout(x, self.dropout, self.training)
        if "places" in batch:
            return of_words(x, batch), batch["word_counts"]
        if self.sentences is None:
            return x, lengths
        counts = batch["counts"]
        x = self.sentences(x, lengths, counts, within(trace, "sentences"))
        return dropout(x, self.dropout, self.training), counts
