"""An encoder without torch, for texts on a CPU: the tokens of several texts lie side by side and nothing is padded.

The weights are those of `nn.bert.BertNet` by name, so this is the same network: a test holds both to the same numbers. All
products take the tokens of a group of texts at once; only attention looks at each text by itself (`kernels/encode`). For one
short text the calls of torch would take longer than the work, and a batch of sentences is half padding. Weights may be of 8 or
4 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from seqloom.kernels.decode import add_gelu, add_relu, norm_rows
from seqloom.kernels.encode import add_and_norm, add_gelu_erf, attend_texts
from seqloom.models.encode.configs import EncoderLayout
from seqloom.models.encode.inputs import Input
from seqloom.models.network.step_weights import Weights, Wide

ACTIVATE = {"gelu-erf": add_gelu_erf, "gelu": add_gelu, "relu": add_relu}
GROUP = 256  # tokens that go through the network together: enough for the products, few enough to stay in the cache


class Affine(NamedTuple):
    matrix: Wide
    bias: np.ndarray

    @classmethod
    def of(cls, weights: Weights, name: str) -> Affine:
        return cls(weights.wide(f"{name}.weight"), weights.vector(f"{name}.bias"))


class Norm(NamedTuple):
    weight: np.ndarray
    bias: np.ndarray

    @classmethod
    def of(cls, weights: Weights, name: str) -> Norm:
        return cls(weights.vector(f"{name}.weight"), weights.vector(f"{name}.bias"))


class Block(NamedTuple):
    qkv: Affine
    out: Affine
    norm1: Norm
    up: Affine
    down: Affine
    norm2: Norm


class EncoderSteps:
    """`arrays` by the names of the saved file."""

    def __init__(self, config: EncoderLayout, arrays: Mapping[str, np.ndarray]) -> None:
        c, weights = config, Weights(arrays, eight_bit=False)
        self.n_layers, self.n_heads, self.epsilon = c.n_layers, c.n_heads, np.float32(c.norm_epsilon)
        self.activate = ACTIVATE[c.activation]
        self.embedding = weights.table("embedding.weight")
        self.positions = weights.vector("position.weight")[c.position_offset:]  # (context, E)
        self.types = weights.vector("types.weight") if c.n_types else None
        self.norm = Norm.of(weights, "norm")
        self.projection = Affine.of(weights, "projection") if c.d_embed else None
        self.blocks = [Block(Affine.of(weights, f"blocks.{i}.attention.qkv"), Affine.of(weights, f"blocks.{i}.attention.out"),
                             Norm.of(weights, f"blocks.{i}.norm1"), Affine.of(weights, f"blocks.{i}.mlp.up"),
                             Affine.of(weights, f"blocks.{i}.mlp.down"), Norm.of(weights, f"blocks.{i}.norm2"))
                       for i in range(1 if c.shared_layers else c.n_layers)]

    def read(self, inputs: Sequence[Input]) -> tuple[np.ndarray, np.ndarray]:
        """The vectors (N, D) of all tokens of these texts, and the borders (B + 1,) between the texts."""
        borders = np.zeros(len(inputs) + 1, np.int64)
        np.cumsum([len(one.ids) for one in inputs], out=borders[1:])
        x = self.embedding[np.concatenate([one.ids for one in inputs])]  # (N, E), a new array
        x += np.concatenate([self.positions[: len(one.ids)] for one in inputs])
        if self.types is not None:
            x += self.types[np.concatenate([one.types for one in inputs])]
        norm_rows(x, *self.norm, x, self.epsilon)
        if self.projection is not None:
            x = self.projection.matrix(x)
            x += self.projection.bias
        seen = np.empty_like(x)
        for i in range(self.n_layers):
            block = self.blocks[i % len(self.blocks)]
            attend_texts(block.qkv.matrix(x), block.qkv.bias, borders, self.n_heads, seen)
            add_and_norm(x, block.out.matrix(seen), block.out.bias, *block.norm1, self.epsilon)
            inner = self.activate(block.up.matrix(x), block.up.bias)
            add_and_norm(x, block.down.matrix(inner), block.down.bias, *block.norm2, self.epsilon)
        return x, borders


def groups(inputs: Sequence[Input]) -> Iterator[Sequence[Input]]:
    """Neighbouring texts that are read together; the borders depend on the texts alone."""
    start = tokens = 0
    for i, one in enumerate(inputs):
        if i > start and tokens + len(one.ids) > GROUP:
            yield inputs[start:i]
            start, tokens = i, 0
        tokens += len(one.ids)
    if start < len(inputs):
        yield inputs[start:]
