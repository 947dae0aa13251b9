"""The Transformer decoder of GPT (Radford et al. 2018, 2019): blocks of causal self-attention and a two-layer perceptron.

Where a recurrent network squeezes the past into one vector, this one keeps every past token's keys and values and looks
up what it needs, so the path between any two tokens is one layer long. `norm="pre"` is GPT-2's order, which trains without
warm-up; `norm="post"` is the original one (Vaswani et al. 2017; GPT-1), without a last norm, which its blocks end
in. Initialisation is GPT-2's: normal 0.02, what is added to the residual stream smaller by sqrt(2 n_layers).
The loss is outside: `features` gives the vectors whose product with `output_weight` are the logits.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from seqloom.nn.attention import CausalSelfAttention, KeysValues, Past, Sight, look
from seqloom.nn.dropout import dropout
from seqloom.nn.position import alibi_slopes, rotary_angles, sinusoids

Positions = Literal["learned", "sinusoidal", "rope", "alibi"]
Norm = Literal["pre", "post"]
Activation = Literal["gelu", "relu"]


class MLP(nn.Module):
    def __init__(self, d_model: int, d_mlp: int, activation: Activation, bias: bool) -> None:
        super().__init__()
        self.activation = activation
        self.up = nn.Linear(d_model, d_mlp, bias=bias)
        self.down = nn.Linear(d_mlp, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(x)
        return self.down(F.gelu(h, approximate="tanh") if self.activation == "gelu" else F.relu(h))


class Block(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_mlp: int, *, norm: Norm, activation: Activation, dropout: float,
                 bias: bool) -> None:
        super().__init__()
        self.norm, self.dropout = norm, dropout
        self.norm1 = nn.LayerNorm(d_model, bias=bias)
        self.attention = CausalSelfAttention(d_model, n_heads, dropout=dropout, bias=bias)
        self.norm2 = nn.LayerNorm(d_model, bias=bias)
        self.mlp = MLP(d_model, d_mlp, activation, bias)

    def forward(self, x: Tensor, sight: Sight, cache: KeysValues | None = None) -> tuple[Tensor, KeysValues]:
        if self.norm == "pre":
            y, kept = self.attention(self.norm1(x), sight, cache)
            x = x + self._drop(y)
            return x + self._drop(self.mlp(self.norm2(x))), kept
        y, kept = self.attention(x, sight, cache)
        x = self.norm1(x + self._drop(y))
        return self.norm2(x + self._drop(self.mlp(x))), kept

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class GPTNet(nn.Module):
    """`context` is the length of a learned position table; other positions may go beyond it."""

    slopes: Tensor | None

    def __init__(self, vocab_size: int, context: int, d_model: int, n_layers: int, n_heads: int, *, d_mlp: int | None = None,
                 positions: Positions = "learned", norm: Norm = "pre", activation: Activation = "gelu", dropout: float = 0.0,
                 tied: bool = True, bias: bool = True, checkpoint: bool = False) -> None:
        super().__init__()
        self.context, self.d_model, self.n_heads = context, d_model, n_heads
        self.positions, self.dropout = positions, dropout
        self.checkpoint = checkpoint  # recompute each block in the backward pass instead of keeping its activations
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(context, d_model) if positions == "learned" else None
        self.blocks = nn.ModuleList(Block(d_model, n_heads, d_mlp or 4 * d_model, norm=norm, activation=activation,
                                          dropout=dropout, bias=bias) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model, bias=bias) if norm == "pre" else None
        self.output = None if tied else nn.Linear(d_model, vocab_size, bias=False)
        self.register_buffer("slopes", alibi_slopes(n_heads) if positions == "alibi" else None, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * len(self.blocks)) if residual else 0.02)
            elif "norm" not in name:
                nn.init.zeros_(parameter)

    @property
    def output_weight(self) -> Tensor:
        """(V, D): the embedding's own when tied."""
        return self.embedding.weight if self.output is None else self.output.weight

    def start(self, n: int) -> Past:
        """The past of n rows that have read nothing."""
        weight = self.embedding.weight
        empty = weight.new_empty(n, self.n_heads, 0, self.d_model // self.n_heads)
        return Past(torch.zeros(n, dtype=torch.int64, device=weight.device), tuple((empty, empty) for _ in self.blocks))

    def features(self, ids: Tensor, past: Past | None = None) -> tuple[Tensor, Past | None]:
        """The vectors that predict the token after each of `ids` (B, T), as (B, T, D), and the past with `ids` read.

        The memory of `past` is reused. Prompts of unequal length are padded on the right; afterwards their true
        lengths go into the past: `past._replace(lengths=...)`. With gradients enabled there is no past.
        """
        keep = not torch.is_grad_enabled()
        if past is not None and not keep:
            raise ValueError("a past is written in place and has no gradient; call under torch.no_grad()")
        before = None if past is None else past.lengths.tolist()
        x, sight = self._embed(ids, before)
        layers: list[KeysValues] = []
        for i, block in enumerate(self.blocks):
            if self.checkpoint and not keep:
                x, kept = recomputed(block, x, sight, use_reentrant=False)
            else:
                x, kept = block(x, sight, None if past is None else past.layers[i])
            if keep:
                layers.append(kept)
        hidden = x if self.norm is None else self.norm(x)
        if not keep:
            return hidden, None
        read = ids.new_full((len(ids),), ids.shape[1]) if past is None else past.lengths + ids.shape[1]
        return hidden, Past(read, tuple(layers))

    def _embed(self, ids: Tensor, before: list[int] | None) -> tuple[Tensor, Sight]:
        positions = torch.arange(ids.shape[1], device=ids.device)[None]  # (1, T)
        if before is not None:
            positions = positions + torch.tensor(before, device=ids.device)[:, None]  # (B, T)
        x = self.embedding(ids)  # (B, T, D)
        rotation = None
        if self.position is not None:
            last = ids.shape[1] + max(before or [0])
            if last > self.context:
                raise ValueError(f"a sequence of {last} tokens is longer than the position table of {self.context}; "
                                 f"shorten it, or train with a larger context, or with rope or alibi positions")
            x = x + self.position(positions)
        elif self.positions == "sinusoidal":
            # Scaled up as in the paper, or the sinusoids, of size one, would drown the embeddings.
            x = x * math.sqrt(self.d_model) + sinusoids(positions, self.d_model).to(x.dtype)
        elif self.positions == "rope":
            cos, sin = rotary_angles(positions, self.d_model // self.n_heads)
            rotation = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)  # (B, 1, T, d_head / 2), alike for all heads
        x = dropout(x, self.dropout, self.training)
        return x, look(positions, before, self.slopes, rotation)
