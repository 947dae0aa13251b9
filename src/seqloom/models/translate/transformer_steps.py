"""Stepping through an encoder-decoder Transformer without torch, for translating on a CPU.

The weights are those of `nn.encoder_decoder.EncoderDecoder` by name, so this is the same network: a test holds both to the same
numbers. The sources are read once, without padding, and their keys and values for each layer of the decoder stay where they
are. Keys and values of target tokens lie in a pool that grows with every step; of a row the state only has the numbers of its
slots there, so that a search may reorder rows without copying them (`kernels/translate`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from seqloom.kernels.decode import add_gelu, add_relu, add_row, norm_rows
from seqloom.kernels.translate import ONE, attend_slots, attend_sources, decode
from seqloom.models.network.step_weights import SEVERAL, Weights
from seqloom.models.sequence.encoded import Encoded
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.translate.configs import TransformerConfig
from seqloom.models.translate.encoder_steps import places, read_sources, sinusoids, transformer_block

ROOM = 32  # tokens that a row has place for at first; doubled whenever it is full


class Pool:
    """Keys and values (P, L, 2D) of target tokens, of which the first `used` are in use; shared by the states of one start."""

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
    """The weights as stepping needs them, made once for a model; `arrays` by the names of its saved file."""

    def __init__(self, c: TransformerConfig, sizes: Sizes, arrays: Mapping[str, np.ndarray], eos_id: int) -> None:
        self.c, self.sizes, self.eos_id = c, sizes, eos_id
        self.weights = weights = Weights(dict(arrays), eight_bit=False)
        self.pre, self.relu = c.norm == "pre", c.activation == "relu"

        def stacked(name: str, part: slice = slice(None)) -> np.ndarray:
            return np.stack([arrays[f"decoder.{i}.{name}"][part] for i in range(c.n_decoder_layers)]).astype(np.float32)

        def affine(name: str, part: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
            return stacked(f"{name}.weight", part), stacked(f"{name}.bias", part)

        queries, self.memory = slice(c.d_model), affine("cross.qkv", slice(c.d_model, None))
        self.layers = (*affine("norm1"), *affine("attention.qkv"), *affine("attention.out"),
                       *affine("norm_cross"), *affine("cross.qkv", queries), *affine("cross.out"),
                       *affine("norm2"), *affine("mlp.up"), *affine("mlp.down"))  # as `kernels.translate.decode` takes them
        self.embedding = weights.vector("embedding.weight")
        self.norm = weights.vector("decoder_norm.weight"), weights.vector("decoder_norm.bias")
        self.output = weights.output()
        self.positions = sinusoids(np.arange(ROOM), c.d_model)

    def decoder(self, encoded: Encoded) -> TransformerStepper:
        return TransformerStepper(self, encoded)

    def encode(self, encoded: Encoded) -> np.ndarray:
        """Keys and values of all source steps for each layer of the decoder, (L, N, 2D)."""
        c, weights, borders = self.c, self.weights, encoded.borders
        x = read_sources(weights, self.sizes, encoded)
        if "input.weight" in weights:
            x = x @ weights.arrays["input.weight"].T + weights.vector("input.bias")
        x = x * np.float32(math.sqrt(c.d_model)) + sinusoids(places(borders), c.d_model)
        for i in range(c.n_layers):
            transformer_block(weights, f"encoder.{i}.", x, borders, c.n_heads, pre=self.pre, relu=self.relu)
        if self.pre:
            norm_rows(x, weights.vector("encoder_norm.weight"), weights.vector("encoder_norm.bias"), x)
        weight, bias = self.memory
        memory: np.ndarray = np.matmul(x, weight.transpose(0, 2, 1))
        memory += bias[:, None]
        return memory

    def embed(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Vectors (n, D) of tokens before which each row has so many."""
        longest = int(lengths.max(initial=0))
        if longest >= len(self.positions):
            self.positions = sinusoids(np.arange(2 * longest), self.c.d_model)
        return self.embedding[ids] * np.float32(math.sqrt(self.c.d_model)) + self.positions[lengths]


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
        pools[:] = Pool(ROOM * n, c.n_decoder_layers, 2 * c.d_model)
        state = TransformerState(np.arange(n), np.zeros((n, ROOM), np.int64), np.zeros(n, np.int64), pools,
                                 np.empty((n, 0), np.float32))
        return self.step(state, np.full(n, self.steps.eos_id))

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
            if n <= SEVERAL:
                decode(x, pool.array, slots, state.lengths, first, self.memory, self.borders, state.source, steps.layers,
                       steps.c.n_heads, steps.pre, steps.relu, looked)
            else:
                self._layers(x, pool.array, slots, state.lengths, first, state.source, looked)
        x = _normed(x, *steps.norm, x, steps.pre)
        return TransformerState(state.source, slots, state.lengths + 1, state.pool, looked), steps.output.log_probs(x)

    def _layers(self, x: np.ndarray, pool: np.ndarray, slots: np.ndarray, lengths: np.ndarray, first: int, source: np.ndarray,
                looked: np.ndarray) -> None:
        """`kernels.translate.decode` for many rows, in place on x (n, D)."""
        steps, heads = self.steps, self.steps.c.n_heads
        pre, y = steps.pre, np.empty_like(x)
        share = ONE / np.float32(len(self.memory) * heads)
        for layer, (norm1, shift1, qkv_w, qkv_b, out_w, out_b, norm2, shift2, q_w, q_b, cross_w, cross_b, norm3, shift3, up_w,
                    up_b, down_w, down_b) in enumerate(zip(*steps.layers)):
            qkv = _normed(x, norm1, shift1, y, pre) @ qkv_w.T
            qkv += qkv_b
            attend_slots(qkv, pool, layer, slots, lengths, first, heads, y)
            add_row(x, y @ out_w.T, out_b)
            _normed(x, norm1, shift1, x, not pre)
            queries = _normed(x, norm2, shift2, y, pre) @ q_w.T
            queries += q_b
            attend_sources(queries, self.memory[layer], self.borders, source, heads, share, y, looked)
            add_row(x, y @ cross_w.T, cross_b)
            _normed(x, norm2, shift2, x, not pre)
            inner = _normed(x, norm3, shift3, y, pre) @ up_w.T
            (add_relu if steps.relu else add_gelu)(inner, up_b)
            add_row(x, inner @ down_w.T, down_b)
            _normed(x, norm3, shift3, x, not pre)

    def attention(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """The weights of the source (n, S) behind the log-probabilities that came with this state, the mean over heads and
        layers, and the length of each row's source (n,)."""
        return state.looked, self.lengths[state.source]


def _normed(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, out: np.ndarray, wanted: bool) -> np.ndarray:
    """The layer norm of x, written to `out`; x itself where none is wanted here."""
    if not wanted:
        return x
    norm_rows(x, weight, bias, out)
    return out


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
