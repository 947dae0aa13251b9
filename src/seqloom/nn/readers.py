"""Readers: what comes in, as vectors (B, T, d_out) for an encoder. Tokens by a table, numbers as they are.

Tokens may have, beside the vectors that are trained, a table of further ones that stay as they are: words of pretrained vectors
that the training data lacks. Of a word seen n times, `word_dropout` a makes `<unk>` with probability a / (a + n) in training
(Kiperwasser and Goldberg 2016), so that the vector of unknown words is learnt too. The spelling of words can be read along.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

Arrays = Mapping[str, Tensor]


class TokenReader(nn.Module):
    """`ids` (B, T) of a batch to (B, T, d_embed), with those of `characters` behind. An id at or above the size of the table is
    one of the further words. `words` (B, T) are places among the `spellings` (U, L) of the batch, with `spelling_lengths` (U,).
    """

    drop: Tensor | None

    def __init__(self, vocab_size: int, d_embed: int, *, further: int = 0, characters: nn.Module | None = None,
                 d_characters: int = 0, drop: Tensor | None = None, unk_id: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_embed)
        nn.init.normal_(self.embedding.weight, std=d_embed ** -0.5)
        self.register_buffer("further", torch.zeros(further, d_embed) if further else None)
        self.register_buffer("drop", drop, persistent=False)  # (V,): the probability of each to become <unk> in training
        self.characters, self.unk_id = characters, unk_id
        self.d_out = d_embed + d_characters

    def forward(self, batch: Arrays) -> Tensor:
        vectors = self.vectors(batch["ids"])
        if self.characters is None:
            return vectors
        spelled = self.characters(batch["spellings"], batch["spelling_lengths"])  # (U, d)
        return torch.cat([vectors, spelled[batch["words"]]], 2)

    def vectors(self, ids: Tensor) -> Tensor:
        size = self.embedding.num_embeddings
        if self.training and self.drop is not None:
            dropped = torch.rand(ids.shape, device=ids.device) < self.drop[ids.clamp(max=size - 1)]
            ids = ids.masked_fill(dropped & (ids < size), self.unk_id)
        further = self.get_buffer("further") if self.further is not None else None
        if further is None:
            return self.embedding(ids)
        beyond = ids >= size
        vectors = self.embedding(ids.masked_fill(beyond, self.unk_id))
        return torch.where(beyond.unsqueeze(2), further[(ids - size).clamp(min=0)], vectors)


class NumberReader(nn.Module):
    """`values` (B, T, C), scaled by what the training data had, with a mark for each value that is missing (NaN)."""

    def __init__(self, n_columns: int, *, mean: Tensor | None = None, scale: Tensor | None = None,
                 missing: bool = False) -> None:
        super().__init__()
        self.missing, self.d_out = missing, n_columns * (2 if missing else 1)
        self.register_buffer("mean", torch.zeros(n_columns) if mean is None else mean)
        self.register_buffer("scale", torch.ones(n_columns) if scale is None else scale)

    def forward(self, batch: Arrays) -> Tensor:
        values = batch["values"]
        absent = values.isnan()
        scaled = ((values - self.get_buffer("mean")) / self.get_buffer("scale")).masked_fill(absent, 0.0)
        return torch.cat([scaled, absent.to(scaled.dtype)], 2) if self.missing else scaled
