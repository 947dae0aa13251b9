"""Encoders: vectors of a sequence (B, T, D) to vectors in context (B, T, d_out).

All have one interface, so that any of them fits any reader and any head. Rows are padded on the
right; with `lengths` padding does not change the outputs of a row, and the outputs there are zero.
`streams` says whether step t depends on steps up to t only: such an encoder can answer while a
sequence is still coming in; a bidirectional one cannot.

`bag` leaves the vectors unchanged (the head pools them); `window` is the feed-forward network over
neighbours (Bengio et al. 2003; Collobert et al. 2011), `cnn` reads neighbours in every layer,
`transformer` all steps (Vaswani et al. 2017).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqloom.encoder_table import StackNorm, find_encoder
from seqloom.nn.attention import UNMASKED, Attention, TokenPositions, padding_mask
from seqloom.nn.initialisation import scaled_residual, xavier
from seqloom.nn.layers import MakeLinear, dropout, original, own_weights
from seqloom.nn.position import rotary_angles
from seqloom.nn.recomputing import run_layer
from seqloom.nn.recording import holds
from seqloom.nn.recurrent import RecurrentStack
from seqloom.nn.transformer import ACTIVATIONS, MLP, Block
from seqloom.traces import Trace, within


class Encoder(nn.Module):
    """`forward(x (B, T, d_in), lengths (B,) or None, trace or None)` gives (B, T, d_out)."""

    d_out: int
    streams: bool


def make_encoder(
    name: str,
    d_in: int,
    width: int,
    n_layers: int = 1,
    *,
    dropout: float = 0.0,
    n_heads: int = 4,
    window: int = 1,
    linear: MakeLinear = nn.Linear,
    **options: Any,
) -> Encoder:
    """Make the encoder of that name in `encoder_table`. `width`: of a layer, in each direction;
    `window`: steps on either side that `window` and `cnn` look at; `dropout`: between layers,
    and inside a Transformer's; `options`: further ones, of cells.
    """
    options |= {"n_heads": n_heads, "window": window}
    encoder: Encoder = find_encoder(name).make_network(
        d_in, width, n_layers, options, dropout=dropout, linear=linear
    )
    return encoder


def present(x: Tensor, lengths: Tensor | None) -> Tensor | None:
    """Return which steps of x (B, T, D) are not padding, bool (B, T); None: all."""
    if lengths is None:
        return None
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device).unsqueeze(1)


def cleared(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return x with zeros at padding."""
    keep = present(x, lengths)
    return x if keep is None else x.masked_fill(~keep.unsqueeze(2), 0.0)


class Bag(Encoder):
    streams = True

    def __init__(
        self,
        d_in: int,
        width: int = 0,
        n_layers: int = 0,
        *,
        dropout: float = 0.0,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.d_out = d_in

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, trace: Trace | None = None
    ) -> Tensor:
        return cleared(x, lengths)


class Windows(Encoder):
    """Layers over each step concatenated with its neighbours, in the first layer or in `every_layer`."""

    def __init__(
        self,
        d_in: int,
        width: int,
        n_layers: int,
        *,
        window: int,
        every_layer: bool,
        dropout: float,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.reach = [window if every_layer or not i else 0 for i in range(n_layers)]
        self.streams = window == 0
        self.dropout, self.d_out, self.checkpoint = dropout, width, False
        self.layers = nn.ModuleList(
            linear((2 * reach + 1) * (width if i else d_in), width, bias=True)
            for i, reach in enumerate(self.reach)
        )
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            xavier(original(layer))
            nn.init.zeros_(layer.bias)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, trace: Trace | None = None
    ) -> Tensor:
        def convolved(
            layer: nn.Module, x: Tensor, reach: int, trace: Trace | None = None
        ) -> Tensor:
            return F.gelu(layer(neighbours(x, reach)), approximate="tanh")

        x = cleared(x, lengths)
        for i, (layer, reach) in enumerate(zip(self.layers, self.reach)):
            y = run_layer(self, convolved, layer, x, reach, trace=trace)
            x = cleared(dropout(x, self.dropout, self.training) + y if i else y, lengths)
            if trace is not None:
                trace.add(f"layers.{i}.out", x)
        return x


def neighbours(x: Tensor, reach: int) -> Tensor:
    """Concatenate every step of x (B, T, D) with those up to `reach` steps away, (B, T, (2 reach + 1)
    D); zeros beyond the ends.
    """
    if reach == 0:
        return x
    steps = x.shape[1]
    wide = F.pad(x, (0, 0, reach, reach))
    return torch.cat([wide[:, i : i + steps] for i in range(2 * reach + 1)], 2)


class Recurrent(Encoder):
    def __init__(
        self,
        d_in: int,
        width: int,
        n_layers: int,
        *,
        cell: str,
        bidirectional: bool,
        dropout: float,
        norm: StackNorm = "none",
        shrink: float = 1.0,
        linear: MakeLinear = nn.Linear,
        **options: Any,
    ) -> None:
        """Make the layers; `options` are those of the cell."""
        super().__init__()
        self.stack = RecurrentStack(
            d_in,
            width,
            n_layers,
            cell=cell,
            bidirectional=bidirectional,
            dropout=dropout,
            norm=norm,
            shrink=shrink,
            options=options,
            linear=linear,
        )
        self.streams, self.d_out = not bidirectional, self.stack.d_out

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, trace: Trace | None = None
    ) -> Tensor:
        out, _ = self.stack(x, lengths=lengths, final_state=False, trace=within(trace, "stack"))
        return out


class Transformer(Encoder):
    """Blocks in which every step sees every other, with rotary positions (Su et al. 2021)."""

    streams = False

    def __init__(
        self,
        d_in: int,
        width: int,
        n_layers: int,
        *,
        n_heads: int,
        dropout: float,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        if width % (2 * n_heads):
            raise ValueError(
                f"a Transformer of width {width} cannot have {n_heads} heads: give a multiple of "
                f"{2 * n_heads}"
            )
        self.d_out, self.d_head, self.dropout = width, width // n_heads, dropout
        self.checkpoint = False
        self.input = linear(d_in, width, bias=True)
        self.blocks = nn.ModuleList(
            Block(
                width,
                Attention(width, n_heads, dropout=dropout, linear=linear),
                MLP(width, 4 * width, ACTIVATIONS["gelu"], linear=linear),
                dropout=dropout,
            )
            for _ in range(n_layers)
        )
        self.norm = nn.LayerNorm(width)
        # of the outputs: with all entries of size one, the first steps of a head would be too large
        self.scale = width**-0.5
        xavier(original(self.input))
        nn.init.zeros_(self.input.bias)
        for name, weight in own_weights(self.blocks):
            if weight.ndim == 2:
                scaled_residual(
                    weight,
                    n_layers if name.endswith(("attention.out.weight", "mlp.down.weight")) else 0.5,
                )

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, trace: Trace | None = None
    ) -> Tensor:
        keep = present(x, lengths)
        mask = UNMASKED if keep is None or holds(keep) else padding_mask(keep)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        cos, sin = rotary_angles(positions, self.d_head)
        token_positions = TokenPositions(
            positions, None, x.shape[1], (cos[:, None].to(x.dtype), sin[:, None].to(x.dtype))
        )
        x = dropout(self.input(x), self.dropout, self.training)
        for i, block in enumerate(self.blocks):
            x, _ = run_layer(
                self, block, x, mask, token_positions, trace=within(trace, f"blocks.{i}")
            )
        return cleared(self.norm(x) * self.scale, lengths)
