"""Stepping through an encoder-decoder Transformer without torch, for translating on a CPU.

The weights are those of `nn.encoder_decoder.EncoderDecoder` by name, so this is the same network: a test holds both to the same
numbers. The sources are read once, without padding, and their keys and values for each layer of the decoder stay where they
are. Keys and values of target tokens lie in a pool that grows with every step; of a row the state only has the numbers of its
slots there, so that a search may reorder rows without copying them (`kernels/translate`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom.errors import DataError
from seqloom.kernels.decode import add_row
from seqloom.kernels.translate import ACTIVATIONS, ONE, attend_slots, attend_sources, decode
from seqloom.models.network.step_weights import SEVERAL, Linear, Softmax, Weights
from seqloom.models.sequence.encoded import Encoded
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.translate.configs import TransformerConfig
from seqloom.models.translate.encoder_steps import (
    Style,
    biases_around,
    biases_back,
    places,
    read_sources,
    sinusoids,
    transformer_block,
)

ROOM = 32  # tokens that a row has place for at first; doubled whenever it is full


class Pool:
    """Keys and values (P, L, 2K) of target tokens, of which the first `used` are in use; shared by the states of one start."""

    def __init__(self, rows: int, n_layers: int, width: int) -> None:
        self.array = np.empty((rows, n_layers, width), np.float32)
        self.used, self.lock = 0, threading.Lock()

    def take(self, rows: int) -> int:
        """The first of so many new slots side by side; the caller holds the lock until it has written to them."""
        first, need = self.used, self.used + rows
        if need > len(self.array):
            wider = np.empty((max(need, 2 * len(self.array)), *self.array.shape[1:]), np.float32)
            wider[:first] = self.array[:first]
            self.array = wider
        self.used = need
        return first


class TransformerState(NamedTuple):
    source: np.ndarray  # (n,) int64: which of the sources a row belongs to
    slots: np.ndarray  # (n, C) int64: where each of its tokens is in the pool
    lengths: np.ndarray  # (n,) int64: how many it has
    pool: np.ndarray  # (n,) objects: the Pool, as long as a row needs it
    looked: np.ndarray  # (n, S): weights of the source steps behind the last log-probabilities


class TransformerSteps:
    """The weights as stepping needs them, made once for a model; `arrays` by the names of its saved file.

    A target comes after the tokens `start`, or else after `</s>`; those of `never` have no probability.
    """

    def __init__(self, c: TransformerConfig, sizes: Sizes, arrays: Mapping[str, np.ndarray], eos_id: int,
                 start: Sequence[int] | None = None, never: Sequence[int] = ()) -> None:
        self.c, self.sizes, self.eos_id, self.start = c, sizes, eos_id, list(start or [eos_id])
        self.weights = weights = Weights(arrays, eight_bit=False)
        d_head = c.d_head or c.d_model // c.n_heads
        self.d_queries = c.n_heads * d_head
        self.style = Style(c.n_heads, np.float32(d_head ** -0.5 if c.scaled_attention else 1), c.norm == "pre",
                           c.norm_kind == "rms", np.float32(c.norm_epsilon), ACTIVATIONS.index(c.activation))
        self.scale = np.float32(math.sqrt(c.d_model) if c.scaled_embedding else 1)

        def stacked(name: str, part: slice = slice(None)) -> np.ndarray | list[Linear]:
            names = [f"decoder.{i}.{name}" for i in range(c.n_decoder_layers)]
            if names[0] in weights.quantised:
                return [weights.matrix(each, part) for each in names]
            return np.stack([arrays[each][part] for each in names]).astype(np.float32)

        def affine(name: str, part: slice = slice(None)) -> tuple[Any, Any]:
            weight = stacked(f"{name}.weight", part)
            some = f"decoder.0.{name}.bias" in arrays
            return weight, stacked(f"{name}.bias", part) if some else np.zeros((len(weight), len(weight[0])), np.float32)

        queries, self.memory = slice(self.d_queries), affine("cross.qkv", slice(self.d_queries, None))
        self.layers = (*affine("norm1"), *affine("attention.qkv"), *affine("attention.out"),
                       *affine("norm_cross"), *affine("cross.qkv", queries), *affine("cross.out"),
                       *affine("norm2"), *affine("mlp.up"), *affine("mlp.down"))  # as `kernels.translate.decode` takes them
        self.in_one_kernel = not weights.quantised  # otherwise weights are lists of matrices, one for each layer
        self.embedding = weights.table("embedding.weight")
        self.norm, self.entrance_norm = self._norm("decoder_norm"), self._norm("decoder_entrance.norm")
        self.output = weights.output()
        if len(never):
            assert isinstance(self.output, Softmax)
            self.output.bias = weights.vector_or_zeros("output.bias", len(self.embedding)).copy()
            self.output.bias[list(never)] = -np.inf
        self.positions = weights.vector("decoder_entrance.position.weight")  # (context, D)
        if c.positions == "sinusoidal":
            self.positions = sinusoids(np.arange(ROOM), c.d_model)
        self.by_distance = (biases_back(arrays["decoder_entrance.bias.weight"], c.max_distance) if c.positions == "t5"
                            else np.empty((c.n_heads, 0), np.float32))

    def _norm(self, name: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Its weight and bias, if there is one of this name."""
        if f"{name}.weight" not in self.weights:
            return None
        return self.weights.vector(f"{name}.weight"), self.weights.vector_or_zeros(f"{name}.bias", self.c.d_model)

    def decoder(self, encoded: Encoded) -> TransformerStepper:
        return TransformerStepper(self, encoded)

    def encode(self, encoded: Encoded) -> np.ndarray:
        """Keys and values of all source steps for each layer of the decoder, (L, N, 2K)."""
        c, weights, borders = self.c, self.weights, encoded.borders
        x = read_sources(weights, self.sizes, encoded)
        if "input.weight" in weights:
            x = weights.times("input.weight", x) + weights.vector("input.bias")
        x, bias = x * self.scale, None
        if c.positions == "sinusoidal":
            x += sinusoids(places(borders), c.d_model)
        elif c.positions == "learned":
            x += weights.vector("encoder_entrance.position.weight")[places(borders)]
        else:
            bias = biases_around(weights.arrays["encoder_entrance.bias.weight"], c.max_distance,
                                 int(encoded.lengths.max(initial=0)))
        x = self._normed(x, self._norm("encoder_entrance.norm"))
        for i in range(c.n_layers):
            transformer_block(weights, f"encoder.{i}.", x, borders, self.style, bias=bias)
        x = self._normed(x, self._norm("encoder_norm"))
        weight, bias = self.memory
        memory = np.matmul(x, weight.swapaxes(1, 2)) if self.in_one_kernel else np.stack([each.finely()(x) for each in weight])
        memory += bias[:, None]
        return memory

    def embed(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Vectors (n, D) of tokens before which each row has so many."""
        x, longest = self.embedding[ids] * self.scale, int(lengths.max(initial=0))
        if self.c.positions == "t5":
            return self._normed(x, self.entrance_norm)
        if longest >= len(self.positions):
            if self.c.positions == "learned":
                raise DataError(f"a target is longer than the {self.c.context:,} positions of this model")
            self.positions = sinusoids(np.arange(2 * longest), self.c.d_model)
        return self._normed(x + self.positions[lengths], self.entrance_norm)

    def _normed(self, x: np.ndarray, norm: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        return x if norm is None else self.style.norm(x, *norm, x)

    def log_probs(self, x: np.ndarray) -> np.ndarray:
        """Of the next token, after the last layer."""
        x = self._normed(x, self.norm)
        return self.output.log_probs(x * np.float32(self.c.d_model ** -0.5) if self.c.scaled_output else x)


class TransformerStepper:
    """The targets of these sources; row i of `start(n)` belongs to source i."""

    def __init__(self, steps: TransformerSteps, encoded: Encoded) -> None:
        self.steps, self.eos_id, self.vocab_size = steps, steps.eos_id, len(steps.embedding)
        self.borders, self.lengths = np.ascontiguousarray(encoded.borders, np.int64), encoded.lengths
        self.memory = steps.encode(encoded)
        self.longest = int(self.lengths.max(initial=0))

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        c = self.steps.c
        pools = np.empty(n, object)
        pools[:] = Pool(ROOM * n, c.n_decoder_layers, 2 * self.steps.d_queries)
        state = TransformerState(np.arange(n), np.zeros((n, ROOM), np.int64), np.zeros(n, np.int64), pools,
                                 np.empty((n, 0), np.float32))
        for token in self.steps.start[:-1]:
            state, _ = self.step(state, np.full(n, token))
        return self.step(state, np.full(n, self.steps.start[-1]))

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        n, steps = len(ids), self.steps
        looked = np.zeros((n, self.longest), np.float32)
        if not n:
            return state._replace(looked=looked), np.empty((0, self.vocab_size), np.float32)
        state = in_one_pool(state)
        x, slots = steps.embed(ids, state.lengths), state.slots
        if state.lengths.max() == slots.shape[1]:
            slots = np.pad(slots, ((0, 0), (0, slots.shape[1])))
        pool = state.pool[0]
        with pool.lock:
            first = pool.take(n)
            if n <= SEVERAL and steps.in_one_kernel:
                decode(x, pool.array, slots, state.lengths, first, self.memory, self.borders, state.source, steps.layers,
                       steps.style, steps.by_distance, looked)
            else:
                self._layers(x, pool.array, slots, state.lengths, first, state.source, looked)
        return TransformerState(state.source, slots, state.lengths + 1, state.pool, looked), steps.log_probs(x)

    def _layers(self, x: np.ndarray, pool: np.ndarray, slots: np.ndarray, lengths: np.ndarray, first: int, source: np.ndarray,
                looked: np.ndarray) -> None:
        """`kernels.translate.decode` for many rows or quantised weights, in place on x (n, D)."""
        steps, style = self.steps, self.steps.style
        heads, scale, pre, y = style.n_heads, style.scale, style.pre, np.empty_like(x)
        share, mixed = ONE / np.float32(len(self.memory) * heads), np.empty((len(x), steps.d_queries), np.float32)

        def before(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
            return style.norm(x, weight, bias, y) if pre else x

        def after(weight: np.ndarray, bias: np.ndarray) -> None:
            if not pre:
                style.norm(x, weight, bias, x)

        for layer, (norm1, shift1, qkv_w, qkv_b, out_w, out_b, norm2, shift2, q_w, q_b, cross_w, cross_b, norm3, shift3, up_w,
                    up_b, down_w, down_b) in enumerate(zip(*steps.layers)):
            qkv = times(before(norm1, shift1), qkv_w)
            qkv += qkv_b
            attend_slots(qkv, pool, layer, slots, lengths, first, heads, scale, steps.by_distance, mixed)
            add_row(x, times(mixed, out_w), out_b)
            after(norm1, shift1)
            queries = times(before(norm2, shift2), q_w)
            queries += q_b
            attend_sources(queries, self.memory[layer], self.borders, source, heads, scale, share, mixed, looked)
            add_row(x, times(mixed, cross_w), cross_b)
            after(norm2, shift2)
            add_row(x, times(style.activated(times(before(norm3, shift3), up_w), up_b), down_w), down_b)
            after(norm3, shift3)

    def attention(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """The weights of the source (n, S) behind the log-probabilities that came with this state, the mean over heads and
        layers, and the length of each row's source (n,)."""
        return state.looked, self.lengths[state.source]


def times(x: np.ndarray, weight: np.ndarray | Linear) -> np.ndarray:
    """Rows x (n, K) times the transpose of weights (R, K)."""
    return x @ weight.T if isinstance(weight, np.ndarray) else weight(x)


def in_one_pool(state: TransformerState) -> TransformerState:
    """The same state; rows from several starts, which were joined, get a pool of their own."""
    pools = state.pool.tolist()
    if all(pool is pools[0] for pool in pools):
        return state
    lengths = state.lengths
    own = Pool(2 * int(lengths.sum()), *pools[0].array.shape[1:])
    slots = np.zeros_like(state.slots)
    for row, (pool, length) in enumerate(zip(pools, lengths.tolist())):
        first = own.take(length)
        own.array[first:own.used] = pool.array[state.slots[row, :length]]
        slots[row, :length] = np.arange(first, own.used)
    together = np.empty(len(pools), object)
    together[:] = own
    return state._replace(slots=slots, pool=together)
