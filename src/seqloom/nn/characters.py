"""What the spelling of a word says: a vector from its characters, by a CNN or by an LSTM.

cnn: filters over three neighbouring characters, and the largest value of each over the word (dos Santos and Zadrozny 2014;
Ma and Hovy 2016). lstm: the last states of both directions (Lample et al. 2016). Spelling helps most where a word is rare,
so this stands beside the word's own vector.

Most words of a batch come more than once: hand over each once, and gather the rows that come out.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.nn.initialisation import initialise
from seqloom.nn.recurrent import RecurrentStack

Kind = Literal["cnn", "lstm"]
PAD = 0  # the character that stands beyond a word's end


class CharacterReader(nn.Module):
    """Words as ids of characters (N, L), padded with 0, and their lengths (N,), to (N, d_out). No characters give zeros."""

    def __init__(self, n_chars: int, d_char: int, d_out: int, kind: Kind = "cnn") -> None:
        super().__init__()
        if min(n_chars, d_char, d_out) < 1:
            raise ValueError(
                f"n_chars {n_chars}, d_char {d_char} and d_out {d_out} must each be at least 1"
            )
        if kind not in ("cnn", "lstm"):
            raise ValueError(f"kind must be cnn or lstm; it is {kind!r}")
        if kind == "lstm" and d_out % 2:
            raise ValueError(
                f"d_out is {d_out}; for an lstm it must be even, half for each direction"
            )
        self.kind, self.d_out = kind, d_out
        self.embedding = nn.Embedding(n_chars, d_char, padding_idx=PAD)
        if kind == "cnn":
            self.filters = nn.Linear(3 * d_char, d_out)
        else:
            self.recurrent = RecurrentStack(d_char, d_out // 2, cell="lstm", bidirectional=True)
        initialise(self)
        with torch.no_grad():
            limit = math.sqrt(
                3 / d_char
            )  # a variance of 1 / d_char, so that a vector has about the length 1
            self.embedding.weight.uniform_(-limit, limit)[PAD] = 0.0

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        if ids.dim() != 2 or lengths.shape != ids.shape[:1]:
            raise ValueError(
                f"ids must have the shape (N, L) and lengths (N,); they have {tuple(ids.shape)} and "
                f"{tuple(lengths.shape)}"
            )
        if ids.numel() == 0:
            return self.embedding.weight.new_zeros(len(ids), self.d_out)
        lengths = lengths.to(ids.device)
        inside = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(1)  # (N, L)
        x = self.embedding(ids).masked_fill(~inside.unsqueeze(2), 0.0)  # (N, L, d_char)
        found = self._convolve(x, inside) if self.kind == "cnn" else self._ends(x, lengths)
        return found.masked_fill((lengths == 0).unsqueeze(1), 0.0)

    def _convolve(self, x: Tensor, inside: Tensor) -> Tensor:
        """One product with each character between its neighbours, and the largest value inside the word."""
        edged = nn.functional.pad(x, (0, 0, 1, 1))
        values: Tensor = self.filters(
            torch.cat([edged[:, :-2], x, edged[:, 2:]], 2)
        )  # (N, L, d_out)
        return values.masked_fill(~inside.unsqueeze(2), -math.inf).amax(1)

    def _ends(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Where each direction stops reading: the one at the last character, the other at the first."""
        outputs, _ = self.recurrent(x, None, lengths, final_state=False)  # (N, L, d_out)
        ahead, back = outputs.chunk(2, 2)
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, ahead.shape[2])
        return torch.cat([ahead.gather(1, last)[:, 0], back[:, 0]], 1)
