"""Readers: what comes in, as vectors (B, T, d_out) for an encoder. Tokens by a table, numbers as they are.

Tokens may have, beside the vectors that are trained, a table of further ones that stay as they are: words of pretrained vectors
that the training data lacks. In training, `word_dropout` a reads a word seen n times as if it had not been seen, with the
probability a / (a + n): as `<unk>` (Kiperwasser and Goldberg 2016), or by its pretrained vector where it has one. So the
network learns what to do with words that it has not trained. The spelling of words can be read along.
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
    untrained: Tensor | None

    def __init__(
        self,
        vocab_size: int,
        d_embed: int,
        *,
        further: int = 0,
        characters: nn.Module | None = None,
        d_characters: int = 0,
        drop: Tensor | None = None,
        untrained: Tensor | None = None,
        unk_id: int = 0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_embed)
        nn.init.normal_(self.embedding.weight, std=d_embed**-0.5)
        self.register_buffer("further", torch.zeros(further, d_embed) if further else None)
        self.register_buffer(
            "drop", drop, persistent=False
        )  # (V,): how likely each is read as unseen in training
        self.register_buffer(
            "untrained", untrained, persistent=False
        )  # (V, d_embed): as pretrained, else NaN
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
        places, beyond = ids.clamp(max=size - 1), ids >= size
        unseen = torch.zeros_like(beyond)
        if self.training and self.drop is not None:
            unseen = (torch.rand(ids.shape, device=ids.device) < self.drop[places]) & ~beyond
        vectors = self.embedding(ids.masked_fill(beyond | unseen, self.unk_id))
        if self.training and self.untrained is not None:
            pretrained = self.untrained[places]
            vectors = torch.where(
                unseen.unsqueeze(2) & ~pretrained.isnan(), pretrained.nan_to_num(), vectors
            )
        if self.further is None:
            return vectors
        return torch.where(
            beyond.unsqueeze(2), self.get_buffer("further")[(ids - size).clamp(min=0)], vectors
        )


class NumberReader(nn.Module):
    """`values` (B, T, C), scaled by what the training data had, with a mark for each value that is missing (NaN)."""

    def __init__(
        self,
        n_columns: int,
        *,
        mean: Tensor | None = None,
        scale: Tensor | None = None,
        missing: bool = False,
    ) -> None:
        super().__init__()
        self.missing, self.d_out = missing, n_columns * (2 if missing else 1)
        self.register_buffer("mean", torch.zeros(n_columns) if mean is None else mean)
        self.register_buffer("scale", torch.ones(n_columns) if scale is None else scale)

    def forward(self, batch: Arrays) -> Tensor:
        values = batch["values"]
        absent = values.isnan()
        scaled = ((values - self.get_buffer("mean")) / self.get_buffer("scale")).masked_fill(
            absent, 0.0
        )
        return torch.cat([scaled, absent.to(scaled.dtype)], 2) if self.missing else scaled
