"""Encoders: vectors of concatenated sequences (N, D) to contextual vectors (N, d_out).

`nn.encoders` without torch, behind one interface. Those that stream can also go a step at a time:
`start` and `step`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.encoder_table import StackNorm
from seqloom.kernels.maths import GELU, activate
from seqloom.kernels.transformer import Rotation
from seqloom.runtime.attention import Attention, Scratch
from seqloom.runtime.cells import Sequences
from seqloom.runtime.position import positions_in, rotary_tables
from seqloom.runtime.recurrent import RecurrentStack
from seqloom.runtime.transformer import Block, BlockOptions, normed
from seqloom.runtime.weights import Linear, Weights
from seqloom.traces import Trace, within

ROTARY_ROOM = 64  # positions of the smallest rotary tables; doubled until they suffice


class Encoder:
    """`encoder(x (N, d_in), offsets (B + 1,))` gives (N, d_out)."""

    d_out: int

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        raise NotImplementedError

    def start(self, n: int) -> Any:
        """Return the states of n sequences before their first step; for encoders that stream."""
        return ()

    def step(self, x: np.ndarray, states: Any) -> tuple[np.ndarray, Any]:
        """Return the vectors of one more step of each (n, d_out) and the states after it;
        old states stay as they are.
        """
        return self(x, np.arange(len(x) + 1)), states


class Bag(Encoder):
    """Returns the vectors unchanged."""

    def __init__(self, weights: Weights, d_in: int, width: int = 0, n_layers: int = 0) -> None:
        self.d_out = d_in

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        return x


class Windows(Encoder):
    """Each step concatenated with its neighbours, through a layer."""

    def __init__(
        self,
        weights: Weights,
        d_in: int,
        width: int,
        n_layers: int,
        *,
        window: int = 1,
        every_layer: bool = False,
    ) -> None:
        self.d_out = width
        self.reach = [window if every_layer or not i else 0 for i in range(n_layers)]
        self.layers: list[Linear] = [
            weights.linear(f"layers.{i}", width, (2 * reach + 1) * (width if i else d_in))
            for i, reach in enumerate(self.reach)
        ]

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        for i, (layer, reach) in enumerate(zip(self.layers, self.reach)):
            y = activate(layer(neighbours(x, offsets, reach)), GELU)
            x = x + y if i else y
            if trace is not None:
                trace.add(f"layers.{i}.out", x)
        return x


def neighbours(x: np.ndarray, offsets: np.ndarray, reach: int) -> np.ndarray:
    """Return each step with those up to `reach` steps away, (N, (2 reach + 1) D), zeros beyond the
    ends.
    """
    if reach == 0:
        return x
    lengths = np.diff(offsets)
    position, length = positions_in(offsets), np.repeat(lengths, lengths)
    parts = []
    for shift in range(-reach, reach + 1):
        inside = (position + shift >= 0) & (position + shift < length)
        rows = np.where(inside, np.arange(len(x)) + shift, 0)
        parts.append(np.where(inside[:, None], x[rows], np.float32(0)))
    return np.concatenate(parts, axis=1)


class Recurrent(Encoder):
    """A recurrent stack in one direction or both."""

    def __init__(
        self,
        weights: Weights,
        d_in: int,
        width: int,
        n_layers: int,
        *,
        cell: str,
        bidirectional: bool,
        norm: StackNorm = "none",
        shrink: float = 1.0,
        **options: Any,
    ) -> None:
        """Take the weights; `options` are those of the cell."""
        self.stack = RecurrentStack(
            weights.within("stack"),
            d_in,
            width,
            n_layers,
            cell=cell,
            bidirectional=bidirectional,
            norm=norm,
            shrink=shrink,
            options=options,
        )
        self.d_out = self.stack.d_out

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        return self.stack.walk(x, Sequences.at(offsets), within(trace, "stack"))[0]

    def start(self, n: int) -> Any:
        return self.stack.start(n)

    def step(self, x: np.ndarray, states: Any) -> tuple[np.ndarray, Any]:
        return self.stack.step(x, states)


class Transformer(Encoder):
    """Blocks in which every step attends to every other, with rotary positions."""

    def __init__(
        self, weights: Weights, d_in: int, width: int, n_layers: int, *, n_heads: int = 4
    ) -> None:
        self.d_out, self.d_head = width, width // n_heads
        self.input: Linear = weights.linear("input", width, d_in)
        options = BlockOptions(width, 4 * width)
        self.blocks = []
        for i in range(n_layers):
            part = weights.within(f"blocks.{i}")
            self.blocks.append(
                Block(part, options, Attention(part.within("attention"), width, n_heads))
            )
        self.norm = options.take_norm(weights, "norm")

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        longest, room = int(np.diff(offsets).max(initial=1)), ROTARY_ROOM
        while room < longest:
            room *= 2
        rotation = Rotation(*rotary_tables(room, self.d_head), positions_in(offsets))
        x = read_all(self.blocks, self.input(x), offsets, rotation=rotation, trace=trace)
        return normed(x, self.norm) * np.float32(self.d_out**-0.5)


def read_all(
    blocks: list[Block],
    x: np.ndarray,
    offsets: np.ndarray,
    *,
    times: int | None = None,
    name: str = "blocks",
    trace: Trace | None = None,
    **options: Any,
) -> np.ndarray:
    """Run blocks in which the steps of each sequence attend to each other, in place on x (N, D).

    `times`: number of layers, where blocks are used more than once; `name`: their name in a trace.
    """
    scratch = Scratch(offsets, blocks[0].attention.heads.d_keys)
    for i in range(len(blocks) if times is None else times):
        blocks[i % len(blocks)](
            x, 0, scratch.tokens, causal=False, trace=within(trace, f"{name}.{i}"), **options
        )
    return x
