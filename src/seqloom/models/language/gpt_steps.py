"""Stepping through a Transformer decoder (GPT: Radford et al. 2018, 2019; Llama) without torch, for drawing text on a CPU.

The weights are those of `nn.transformer.GPTNet` by name, so this is the same network: a test holds both to the same
numbers. The keys and values of past tokens are part of the state, with room to grow, so a step copies nothing; a
prompt is read in one pass (`prefill`).

A sequence begins with a start token in position 0, or, where that is alone (`start_alone`), the first token is
predicted from it and then takes its place, as models need it whose training text had no start token. The network sees
at most `context` tokens. When that many have been read and one more comes, the older half is dropped and what is kept
is read anew as if the text began there, in positions 0, 1, ..., whatever the kind of positions: keys and values of
kept tokens still held traces of the dropped ones, and now all that was predicted is what the network says about a
text it has seen whole. So token t is predicted from the window [k d, k d + context) with d = ceil(context / 2) and
the smallest k that reaches it, and batches of such windows, d apart, give the same log-probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from seqloom.decoding.stepper import select
from seqloom.kernels.decode import add_gelu, add_relu, add_row, add_swiglu, attend, causal_softmax, norm_rows, rms_rows, rotate
from seqloom.models.network.step_weights import NONE, Linear, Weights

ROOM = 64  # tokens that a new cache has place for; doubled whenever it is full
TOGETHER = 4096  # tokens of prompts that are read in one pass
QUERIES = 128  # tokens of a prompt whose scores are there at a time, so that they stay small for a long one


class GPTState(NamedTuple):
    keys: np.ndarray  # (n, n_layers, C, K), the first lengths[row] of C are in use
    values: np.ndarray  # (n, n_layers, C, K)
    ids: np.ndarray  # (n, C) the tokens in the window
    lengths: np.ndarray  # (n,)
    features: np.ndarray  # (n, D)


class Affine(NamedTuple):
    matrix: Linear
    bias: np.ndarray


class Norm(NamedTuple):
    weight: np.ndarray
    bias: np.ndarray | None  # None: RMSNorm
    epsilon: np.float32

    def __call__(self, x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        if self.bias is None:
            rms_rows(x, self.weight, out, self.epsilon)
        else:
            norm_rows(x, self.weight, self.bias, out, self.epsilon)
        return out


class Block(NamedTuple):
    norm1: Norm
    qkv: Affine
    out: Affine
    norm2: Norm
    up: Affine
    down: Affine


class GPTStepper:
    """The decode path of a GPT; `arrays` by the names of its saved file. It starts with `start_id`, or else `eos_id`."""

    def __init__(self, arrays: Mapping[str, np.ndarray], *, n_layers: int, n_heads: int, context: int,
                 positions: Literal["learned", "sinusoidal", "rope", "alibi"], norm: Literal["pre", "post"],
                 activation: Literal["gelu", "relu", "swiglu"], eos_id: int, start_id: int | None = None,
                 start_alone: bool = False, n_kv_heads: int | None = None, rope_base: float = 10000.0,
                 norm_kind: Literal["layer", "rms"] = "layer", norm_epsilon: float = 1e-5, eight_bit: bool = False) -> None:
        self.n_layers, self.n_heads, self.n_kv_heads, self.context = n_layers, n_heads, n_kv_heads or n_heads, context
        self.eos_id, self.start_id, self.start_alone = eos_id, eos_id if start_id is None else start_id, start_alone
        self.pre = norm == "pre"
        self.activate = {"gelu": add_gelu, "relu": add_relu, "swiglu": add_swiglu}[activation]
        weights = Weights(arrays, eight_bit=eight_bit)
        self.embedding = weights.table("embedding.weight")
        self.vocab_size, self.width = self.embedding.shape
        self.d_kv = self.width // n_heads * self.n_kv_heads
        norms = partial(_norm, weights, norm_kind, np.float32(norm_epsilon))
        self.blocks = [_block(weights, norms, f"blocks.{i}.") for i in range(n_layers)]
        self.norm = norms("norm") if self.pre else None
        self.output = weights.output()
        self.scale, self.added = np.float32(1), weights.vector("position.weight")  # (context, D)
        self.cos = self.sin = self.slopes = NONE
        if positions == "sinusoidal":
            self.scale, self.added = np.float32(math.sqrt(self.width)), np.empty((context, self.width), np.float32)
            self.added[:, 1::2], self.added[:, 0::2] = _angles(context, self.width)
        elif positions == "rope":
            self.cos, self.sin = _angles(context, self.width // n_heads, rope_base)
        elif positions == "alibi":
            self.slopes = _slopes(n_heads)
        elif positions != "learned":
            raise ValueError(f"positions are {positions!r}; they must be learned, sinusoidal, rope or alibi")

        self.begun = self.prefill([np.empty(0, np.int64)])  # one row, to be copied

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        state, log_probs = self.begun
        rows = np.zeros(n, np.int64)
        return select(state, rows), log_probs[rows]

    def prefill(self, prompts: Sequence[np.ndarray]) -> tuple[Any, np.ndarray]:
        """The state after each prompt and the log-probabilities of what follows, in one pass."""
        windows = [self._window(np.asarray(prompt, np.int64)) for prompt in prompts]
        lengths = np.array([len(window) for window in windows], np.int64)
        state = self._room(self._empty(len(windows)), int(lengths.max(initial=1)))
        for row, window in enumerate(windows):
            state.ids[row, : len(window)] = window
        state = state._replace(lengths=lengths)
        self._read(state, np.arange(len(windows)))
        if self.start_alone:  # it has said what comes first and is not seen again
            state = state._replace(lengths=np.where([len(prompt) > 0 for prompt in prompts], lengths, 0))
        return state, self.output.log_probs(state.features)

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        full = np.flatnonzero(state.lengths >= self.context)
        if len(full):
            state = self._slide(state, full)
        lengths, rows = state.lengths, np.arange(len(ids))
        state = self._room(state, int(lengths.max(initial=0)) + 1)
        state.ids[rows, lengths] = ids

        def attention(layer: int, qkv: np.ndarray) -> np.ndarray:
            out = np.empty((len(qkv), self.width), np.float32)
            attend(qkv, state.keys, state.values, layer, lengths, self.n_heads, self.slopes, out)
            return out

        features = self._blocks(ids, lengths, attention)
        return state._replace(lengths=lengths + 1, features=features), self.output.log_probs(features)

    def features(self, state: Any) -> np.ndarray:
        """What the output layer saw, (n, D)."""
        return state.features

    def _blocks(self, ids: np.ndarray, positions: np.ndarray,
                attention: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
        """Tokens (N,) at their positions to the vectors (N, D) that predict what follows each."""
        x = self.embedding[ids] * self.scale  # (N, D)
        if len(self.added):
            x += self.added[positions]
        for layer, block in enumerate(self.blocks):
            qkv = block.qkv.matrix(block.norm1(x) if self.pre else x)  # (N, D + 2K)
            qkv += block.qkv.bias
            if len(self.cos):
                rotate(qkv, positions, self.n_heads + self.n_kv_heads, self.cos, self.sin)  # queries and keys lie side by side
            add_row(x, block.out.matrix(attention(layer, qkv)), block.out.bias)
            if not self.pre:
                x = block.norm1(x)
            inner = block.up.matrix(block.norm2(x) if self.pre else x)  # (N, 4D)
            inner = self.activate(inner, block.up.bias)
            add_row(x, block.down.matrix(inner), block.down.bias)
            if not self.pre:
                x = block.norm2(x)
        return x if self.norm is None else self.norm(x)

    def _read(self, state: GPTState, rows: np.ndarray) -> None:
        """Fill keys, values and features of these rows from their ids, several rows in one pass."""
        ends = np.cumsum(state.lengths[rows])
        for group in np.split(rows, np.flatnonzero(np.diff(ends // TOGETHER)) + 1):
            spans = [(row, int(state.lengths[row])) for row in group.tolist()]
            ids = np.concatenate([state.ids[row, :length] for row, length in spans] or [np.empty(0, np.int64)])
            positions = np.concatenate([np.arange(length) for _, length in spans] or [np.empty(0, np.int64)])
            if len(ids) == 0:
                continue

            def attention(layer: int, qkv: np.ndarray, spans: list[tuple[int, int]] = spans) -> np.ndarray:
                out, at = np.empty((len(qkv), self.width), np.float32), 0
                for row, length in spans:
                    part = slice(at, at + length)
                    _, state.keys[row, layer, :length], state.values[row, layer, :length] = np.split(
                        qkv[part], [self.width, self.width + self.d_kv], axis=1)
                    out[part] = self._causal(qkv[part])
                    at += length
                return out

            hidden = self._blocks(ids, positions, attention)
            lasts = np.cumsum([length for _, length in spans]) - 1
            state.features[group] = hidden[lasts]

    def read(self, windows: np.ndarray) -> np.ndarray:
        """Windows of text (B, T), each from position 0, to the vectors (B, T, D) that predict what follows each token."""
        rows, steps = windows.shape

        def attention(_: int, qkv: np.ndarray) -> np.ndarray:
            return np.concatenate([self._causal(part) for part in np.split(qkv, rows)])

        return self._blocks(windows.ravel(), np.tile(np.arange(steps), rows), attention).reshape(rows, steps, -1)

    def _causal(self, qkv: np.ndarray) -> np.ndarray:
        """Attention of each token of one sequence, (T, D + 2K), to itself and those before: (T, D)."""
        steps, groups = len(qkv), self.n_kv_heads
        heads = qkv.reshape(steps, self.n_heads + 2 * groups, -1).transpose(1, 0, 2)
        q, k, v = np.split(heads, [self.n_heads, self.n_heads + groups])
        q = q.reshape(groups, -1, steps, q.shape[2])  # (groups, heads of a group, T, d); k and v are (groups, T, d)
        out = np.empty((steps, self.width), np.float32)
        for low in range(0, steps, QUERIES):
            high = min(low + QUERIES, steps)
            scores = q[:, :, low:high] @ k[:, None, :high].swapaxes(2, 3)
            causal_softmax(scores.reshape(-1, high - low, high), np.float32(1 / math.sqrt(q.shape[3])), self.slopes)
            out[low:high] = (scores @ v[:, None, :high]).transpose(2, 0, 1, 3).reshape(high - low, -1)
        return out

    def _window(self, prompt: np.ndarray) -> np.ndarray:
        """What is left of the start and the prompt after as many slides as steps would have made."""
        whole = prompt if self.start_alone and len(prompt) else np.concatenate([[self.start_id], prompt])
        dropped = math.ceil(self.context / 2)
        slides = max(math.ceil((len(whole) - self.context) / dropped), 0)
        return whole[slides * dropped :]

    def _slide(self, state: GPTState, rows: np.ndarray) -> GPTState:
        """Drop the older half of these rows and read the rest anew."""
        kept = self.context // 2
        state.ids[rows, :kept] = state.ids[rows, self.context - kept : self.context]
        lengths = state.lengths.copy()
        lengths[rows] = kept
        state = state._replace(lengths=lengths, features=state.features.copy())
        if kept:
            self._read(state, rows)
        return state

    def _empty(self, n: int) -> GPTState:
        shape = (n, self.n_layers, 0, self.d_kv)
        return GPTState(np.empty(shape, np.float32), np.empty(shape, np.float32), np.empty((n, 0), np.int64),
                        np.zeros(n, np.int64), np.zeros((n, self.width), np.float32))

    def _room(self, state: GPTState, length: int) -> GPTState:
        """The same state with place for `length` tokens a row."""
        have = state.keys.shape[2]
        if length <= have:
            return state
        more = [(0, 0), (0, 0), (0, min(max(length, ROOM, 2 * have), self.context) - have), (0, 0)]
        return state._replace(keys=np.pad(state.keys, more), values=np.pad(state.values, more),
                              ids=np.pad(state.ids, more[1:3]))


def _block(weights: Weights, norm: Callable[[str], Norm], place: str) -> Block:
    def affine(name: str) -> Affine:
        matrix = weights.matrix(f"{place}{name}.weight")
        return Affine(matrix, weights.vector_or_zeros(f"{place}{name}.bias", len(matrix)))

    return Block(norm(f"{place}norm1"), affine("attention.qkv"), affine("attention.out"),
                 norm(f"{place}norm2"), affine("mlp.up"), affine("mlp.down"))


def _norm(weights: Weights, kind: str, epsilon: np.float32, name: str) -> Norm:
    scale = weights.vector(f"{name}.weight")
    return Norm(scale, None if kind == "rms" else weights.vector_or_zeros(f"{name}.bias", len(scale)), epsilon)


def _angles(context: int, width: int, base: float = 10000.0) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of position x frequency, each (context, width / 2)."""
    frequencies = base ** (np.arange(0, width, 2) / -width)
    angles = np.arange(context)[:, None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _slopes(n_heads: int) -> np.ndarray:
    """ALiBi's slopes (Press et al. 2022); between powers of two every other one of the next power is added."""
    whole = 2 ** int(math.log2(n_heads))
    slopes = [2.0 ** (-8 * (i + 1) / whole) for i in range(whole)]
    slopes += [2.0 ** (-4 * (2 * i + 1) / whole) for i in range(n_heads - whole)]
    return np.array(slopes, np.float32)
