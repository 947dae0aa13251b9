"""The Transformer's block (Vaswani et al. 2017), for encoders and decoders, and GPT (Radford et al.
2018, 2019) made of it.

Where a recurrent network compresses the past into one vector, this one keeps the keys and values of
every past token and attends to them, so the path between any two tokens is one layer long. A block is
given its attention, and with each call the mask, so it serves encoders and decoders. `norm="pre"` is
GPT-2's order, which trains without warm-up; `norm="post"` is the original one, without a last norm,
since its blocks end in one.

The initialisation is GPT-2's: normal 0.02, divided by sqrt(2 n_layers) for matrices that write into
the residual stream. The loss is outside: the product of `features` with `output_weight` gives the
logits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqloom.nn.attention import (
    UNMASKED,
    Attention,
    KeysValues,
    Mask,
    Past,
    TokenPositions,
    seen_keys,
)
from seqloom.nn.layers import MakeLinear, dropout, own_weights
from seqloom.nn.position import alibi_bias, alibi_slopes, rotary_angles, sinusoids
from seqloom.nn.recomputing import run_layer
from seqloom.nn.recording import recorded
from seqloom.traces import Trace, within

Positions = Literal["learned", "sinusoidal", "rope", "alibi", "relative", "none"]
Norm = Literal["pre", "post"]
NormKind = Literal["layer", "rms"]
Activation = Literal["gelu", "gelu-erf", "relu", "swish"]

# gelu is GPT's form with tanh, gelu-erf that of BERT, x times Phi(x)
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": partial(F.gelu, approximate="tanh"),
    "gelu-erf": F.gelu,
    "relu": F.relu,
    "swish": F.silu,
}
GATES = {"swiglu": "swish", "geglu": "gelu"}  # activation of the gates, by kind of gated perceptron


class MLP(nn.Module):
    def __init__(
        self,
        d_model: int,
        d_mlp: int,
        activation: Callable[[Tensor], Tensor],
        *,
        bias: bool = True,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.up = linear(d_model, d_mlp, bias=bias)
        self.down = linear(d_mlp, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.activation(self.up(x)))


class SwiGLU(nn.Module):
    """A perceptron in which each inner unit is multiplied by a gate (Shazeer 2020); one product
    computes the gates and, after them, the units. The gates are swish, or another `activation`.
    """

    def __init__(
        self,
        d_model: int,
        d_mlp: int,
        activation: Callable[[Tensor], Tensor] = F.silu,
        *,
        bias: bool = True,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.up = linear(d_model, 2 * d_mlp, bias=bias)
        self.down = linear(d_mlp, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        gates, units = self.up(x).chunk(2, -1)
        return self.down(self.activation(gates) * units)


class RMSNorm(nn.RMSNorm):
    """torch's norm (Zhang and Sennrich 2019), by its parts where another program has no such norm."""

    def forward(self, x: Tensor) -> Tensor:
        if not recorded():
            return super().forward(x)
        assert self.eps is not None
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def make_norm(
    kind: NormKind, d_model: int, *, epsilon: float = 1e-5, bias: bool = True
) -> nn.Module:
    """Make a layer norm, or RMSNorm (Zhang and Sennrich 2019), which only divides by the root mean
    square.
    """
    return (
        RMSNorm(d_model, eps=epsilon)
        if kind == "rms"
        else nn.LayerNorm(d_model, eps=epsilon, bias=bias)
    )


class Block(nn.Module):
    """Self-attention, attention to a memory if there is a `cross` attention, and a perceptron."""

    def __init__(
        self,
        d_model: int,
        attention: Attention,
        mlp: nn.Module,
        *,
        cross: Attention | None = None,
        norm: Norm = "pre",
        make_norm: Callable[[int], nn.Module] = nn.LayerNorm,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm, self.dropout = norm, dropout
        self.norm1 = make_norm(d_model)
        self.attention = attention
        self.norm2 = make_norm(d_model)
        self.mlp = mlp
        self.cross = cross
        self.norm_cross = make_norm(d_model) if cross is not None else None

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        token_positions: TokenPositions | None = None,
        cache: KeysValues | None = None,
        memory: KeysValues | None = None,
        memory_mask: Mask = UNMASKED,
        trace: Trace | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """Map x (B, T, D) to the same shape, and return the keys and values of `attention` with it;
        `memory`: the result of `cross.project`.

        A trace gets `attention.weights`, `cross.weights` and `out`.
        """
        pre_norm = self.norm == "pre"
        queries = self.norm1(x) if pre_norm else x
        y, keys_values = self.attention(
            queries, mask, token_positions, cache, within(trace, "attention")
        )
        x = self._add(x, y, self.norm1)
        if self.cross is not None and self.norm_cross is not None:
            assert memory is not None, "a block with cross-attention needs a memory"
            queries = self.norm_cross(x) if pre_norm else x
            y = self.cross.cross(queries, memory, memory_mask, within(trace, "cross"))
            x = self._add(x, y, self.norm_cross)
        y = self.mlp(self.norm2(x) if pre_norm else x)
        x = self._add(x, y, self.norm2)
        if trace is not None:
            trace.add("out", x)
        return x, keys_values

    def _add(self, x: Tensor, y: Tensor, norm: nn.Module) -> Tensor:
        x = x + dropout(y, self.dropout, self.training)
        return x if self.norm == "pre" else norm(x)


class GPTNet(nn.Module):
    """`context` is the length of a learned position table; other positions may go beyond it.
    `rope_scale` divides rotary positions, `max_distance` is the last relative distance with its own
    vector, and `window` the greatest distance at which a token sees another in a block.

    GPT-2 has learned positions, gelu and biases. Llama (Touvron et al. 2023) has rotary positions,
    norms of the kind `rms`, swiglu, groups of heads that share keys and values, and no biases.
    """

    slopes: Tensor | None

    def __init__(
        self,
        vocab_size: int,
        context: int,
        d_model: int,
        n_layers: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_mlp: int | None = None,
        positions: Positions = "learned",
        rope_base: float = 10000.0,
        rope_scale: float = 1.0,
        max_distance: int = 64,
        window: int | None = None,
        norm: Norm = "pre",
        norm_kind: NormKind = "layer",
        norm_epsilon: float = 1e-5,
        activation: Literal["gelu", "relu", "swiglu"] = "gelu",
        dropout: float = 0.0,
        tied: bool = True,
        bias: bool = True,
        checkpoint: bool = False,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.context, self.d_model, self.n_heads, self.n_kv_heads = (
            context,
            d_model,
            n_heads,
            n_kv_heads or n_heads,
        )
        self.positions, self.rope_base, self.rope_scale, self.dropout = (
            positions,
            rope_base,
            rope_scale,
            dropout,
        )
        self.window = window
        # recompute each block in the backward pass instead of keeping its activations
        self.checkpoint = checkpoint
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(context, d_model) if positions == "learned" else None
        new_norm = partial(make_norm, norm_kind, epsilon=norm_epsilon, bias=bias)

        def block() -> Block:
            attention = Attention(
                d_model,
                n_heads,
                n_kv_heads=n_kv_heads,
                dropout=dropout,
                bias=bias,
                distances=range(max_distance + 1) if positions == "relative" else None,
                linear=linear,
            )
            inner = d_mlp or 4 * d_model
            mlp = (
                SwiGLU(d_model, inner, bias=bias, linear=linear)
                if activation == "swiglu"
                else MLP(d_model, inner, ACTIVATIONS[activation], bias=bias, linear=linear)
            )
            return Block(d_model, attention, mlp, norm=norm, make_norm=new_norm, dropout=dropout)

        self.blocks = nn.ModuleList(block() for _ in range(n_layers))
        self.norm = new_norm(d_model) if norm == "pre" else None
        self.output = None if tied else nn.Linear(d_model, vocab_size, bias=False)
        self.register_buffer(
            "slopes", alibi_slopes(n_heads) if positions == "alibi" else None, persistent=False
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in own_weights(self):
            if parameter.ndim == 2:
                residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
                nn.init.normal_(
                    parameter, std=0.02 / math.sqrt(2 * len(self.blocks)) if residual else 0.02
                )
            elif "norm" not in name:
                nn.init.zeros_(parameter)

    @property
    def output_weight(self) -> Tensor:
        """Return the output weight (V, D), the embedding's if tied."""
        return self.embedding.weight if self.output is None else self.output.weight

    def start(self, n: int) -> Past:
        """Return the initial state of n rows."""
        weight = self.embedding.weight
        empty = weight.new_empty(n, self.n_kv_heads, 0, self.d_model // self.n_heads)
        return Past(
            torch.zeros(n, dtype=torch.int64, device=weight.device),
            tuple((empty, empty) for _ in self.blocks),
        )

    def features(
        self, ids: Tensor, past: Past | None = None, trace: Trace | None = None
    ) -> tuple[Tensor, Past | None]:
        """Return the vectors (B, T, D) that predict the token after each of `ids` (B, T), and the past
        with `ids` read.

        The memory of `past` is reused. Prompts of unequal length are padded on the right;
        afterwards their true lengths go into the past: `past._replace(lengths=...)`. With gradients
        enabled there is no past.

        A trace gets what the blocks add, as `blocks.0...`.
        """
        keep = not torch.is_grad_enabled()
        if past is not None and not keep:
            raise ValueError(
                "a past is written in place and has no gradient; call under torch.no_grad()"
            )
        before = None if past is None else past.lengths.tolist()
        x, mask, token_positions = self._embed(ids, before)
        layers: list[KeysValues] = []
        for i, block in enumerate(self.blocks):
            cache = None if past is None else past.layers[i]
            x, keys_values = run_layer(
                self, block, x, mask, token_positions, cache, trace=within(trace, f"blocks.{i}")
            )
            if keep:
                layers.append(keys_values)
        hidden = x if self.norm is None else self.norm(x)
        if not keep:
            return hidden, None
        read = (
            ids.new_full((len(ids),), ids.shape[1]) if past is None else past.lengths + ids.shape[1]
        )
        return hidden, Past(read, tuple(layers))

    def _embed(self, ids: Tensor, before: list[int] | None) -> tuple[Tensor, Mask, TokenPositions]:
        positions = torch.arange(ids.shape[1], device=ids.device)[None]  # (1, T)
        if before is not None:
            positions = positions + torch.tensor(before, device=ids.device)[:, None]  # (B, T)
        x = self.embedding(ids)  # (B, T, D)
        rotation = None
        if self.position is not None:
            last = ids.shape[1] + max(before or [0])
            if last > self.context:
                raise ValueError(
                    f"a sequence of {last} tokens is longer than the position table of {self.context}; "
                    f"shorten it, or train with a larger context, or with other positions"
                )
            x = x + self.position(positions)
        elif self.positions == "sinusoidal":
            # Scaled up as in the paper, or the sinusoids, of size one, would dominate the embeddings.
            x = x * math.sqrt(self.d_model) + sinusoids(positions, self.d_model).to(x.dtype)
        elif self.positions == "rope":
            cos, sin = rotary_angles(
                positions, self.d_model // self.n_heads, self.rope_base, self.rope_scale
            )
            # (B, 1, T, d_head / 2), alike for all heads
            rotation = (cos[:, None].to(x.dtype), sin[:, None].to(x.dtype))
        x = dropout(x, self.dropout, self.training)
        mask, token_positions = causal_positions(
            positions,
            before,
            self.slopes,
            rotation,
            window=self.window,
            relative=self.positions == "relative",
        )
        return x, mask, token_positions


def causal_positions(
    positions: Tensor,
    before: list[int] | None = None,
    slopes: Tensor | None = None,
    rotation: tuple[Tensor, Tensor] | None = None,
    *,
    window: int | None = None,
    relative: bool = False,
) -> tuple[Mask, TokenPositions]:
    """Return the mask and positions of tokens that see themselves and earlier ones; `before`: number of
    tokens that each row has read; `slopes` of ALiBi; `window`: how far back they see; `relative`: with
    the distances.
    """
    steps = positions.shape[1]
    longest = max(before) if before else 0
    first = longest if not before or min(before) == longest else None
    end = longest + steps
    keys = torch.arange(end, device=positions.device)
    # None if it hides nothing
    window = None if window is not None and not recorded() and window >= end - 1 else window
    # blocks of a window have sizes that a recorded network does not know
    if first == 0 and (window is None or not recorded()):
        mask = Mask(causal=True, window=window)
    elif first is None or steps > 1 or window is not None:
        mask = Mask(seen_keys(positions, keys, causal=True, window=window))
    else:
        mask = Mask()
    if slopes is not None:
        mask = mask.with_bias(alibi_bias(slopes, positions, keys))
    return mask, TokenPositions(
        positions, first, end, rotation, positions[:, :, None] - keys if relative else None
    )
