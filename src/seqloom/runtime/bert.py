"""BERT and related encoders without torch (`nn.bert`), on concatenated texts without padding.

All products take the tokens of a group of texts at once; only attention treats each text by itself.
For one short text the calls of torch would take longer than the work, and a batch of sentences is
half padding.
"""

from __future__ import annotations

import numpy as np

from seqloom.kernels.maths import ACTIVATIONS, activate
from seqloom.runtime.attention import Attention
from seqloom.runtime.encoders import Encoder, read_all
from seqloom.runtime.outputs import FullSoftmax
from seqloom.runtime.position import positions_in
from seqloom.runtime.transformer import Block, BlockOptions, normed, take_norm
from seqloom.runtime.weights import Linear, Weights
from seqloom.traces import Trace


class BertNet:
    """The vectors of tokens and positions, and blocks over them; `blocks`: the weights of the blocks,
    if they are elsewhere.
    """

    def __init__(
        self,
        weights: Weights,
        vocab_size: int,
        context: int,
        d_model: int,
        n_layers: int,
        n_heads: int,
        *,
        d_mlp: int | None = None,
        d_embed: int | None = None,
        n_types: int = 2,
        position_offset: int = 0,
        shared_layers: bool = False,
        activation: str = "gelu-erf",
        norm_epsilon: float = 1e-12,
        pooler: bool = False,
        blocks: Weights | None = None,
    ) -> None:
        width = d_embed or d_model
        self.d_model, self.n_layers, self.position_offset = d_model, n_layers, position_offset
        self.embedding = weights.table("embedding.weight", vocab_size, width)
        self.position = weights.take("position.weight", context + position_offset, width)
        self.types = weights.take("types.weight", n_types, width) if n_types else None
        self.norm = take_norm(weights, "norm", width, epsilon=norm_epsilon)
        self.projection: Linear | None = (
            weights.linear("projection", d_model, d_embed) if d_embed else None
        )
        options = BlockOptions(
            d_model, d_mlp or 4 * d_model, "post", "layer", norm_epsilon, activation
        )
        self.blocks = []
        for i in range(1 if shared_layers else n_layers):
            part = (blocks or weights).within(f"blocks.{i}")
            self.blocks.append(
                Block(part, options, Attention(part.within("attention"), d_model, n_heads))
            )
        self.pooler: Linear | None = weights.linear("pooler", d_model, d_model) if pooler else None

    def embed(
        self, ids: np.ndarray, offsets: np.ndarray, types: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the vectors (N, D) of the tokens of concatenated texts, before the first block."""
        x = np.asarray(self.embedding[ids], np.float32)
        x = x + self.position[positions_in(offsets) + self.position_offset]
        if self.types is not None:
            x += self.types[0] if types is None else self.types[types]
        normed(x, self.norm)
        return x if self.projection is None else self.projection(x)

    def relate(self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None) -> np.ndarray:
        """Send the vectors through the blocks, in place."""
        return read_all(self.blocks, x, offsets, times=self.n_layers, trace=trace)

    def __call__(
        self,
        ids: np.ndarray,
        offsets: np.ndarray,
        types: np.ndarray | None = None,
        trace: Trace | None = None,
    ) -> np.ndarray:
        """Return the vectors (N, D) of the last layer."""
        return self.relate(self.embed(ids, offsets, types), offsets, trace)


class PublishedEncoder(Encoder):
    """The blocks of a published encoder, as the encoder of a composed network."""

    def __init__(self, network: BertNet) -> None:
        self.network, self.d_out = network, network.d_model

    def __call__(
        self, x: np.ndarray, offsets: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        return self.network.relate(x.copy(), offsets, trace)


class MaskedHead:
    """Predicts masked tokens: a layer, a norm, and the product with the token vectors or, if not
    tied, with an output matrix.
    """

    def __init__(
        self,
        weights: Weights,
        network: BertNet,
        vocab_size: int,
        d_embed: int,
        activation: str,
        *,
        norm_epsilon: float = 1e-12,
        tied: bool = True,
    ) -> None:
        self.activation = ACTIVATIONS.index(activation)
        self.dense: Linear = weights.linear("dense", d_embed, network.d_model)
        self.norm = take_norm(weights, "norm", d_embed, epsilon=norm_epsilon)
        bias = weights.take("bias", vocab_size)
        part = weights.within("output")
        self.output = FullSoftmax(
            part, d_embed, vocab_size, tied=network.embedding if tied else None, bias=False
        )
        self.output.bias = bias

    def log_probs(self, hidden: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of the tokens at these vectors (n, D), float32 (n, V)."""
        return self.output.log_probs(
            normed(activate(self.dense(hidden), self.activation), self.norm)
        )
