"""Language models as Steppers, without torch, for drawing text on a CPU: recurrent networks, the NPLM
and GPT.

For one sequence, torch would spend most of the time on the overhead of small calls. Rows of a state
may be at different positions, and join and leave between steps; the result of a row does not depend
on the others, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from seqloom.batching import runs
from seqloom.encoder_table import StackNorm
from seqloom.kernels.maths import TANH, activate
from seqloom.runtime.attention import Cache
from seqloom.runtime.cells import Sequences
from seqloom.runtime.outputs import AdaptiveSoftmax, FullSoftmax, take_output
from seqloom.runtime.recurrent import RecurrentStack, States
from seqloom.runtime.transformer import GPTNet
from seqloom.runtime.weights import Linear, Weights
from seqloom.traces import Trace, within

Output = FullSoftmax | AdaptiveSoftmax
PROMPT_TOKENS_PER_PASS = 4096  # tokens of prompts read in one pass


def repeat_row(state: Any, n: int) -> Any:
    """Return the first row of a state n times."""
    if isinstance(state, tuple):
        leaves = [repeat_row(leaf, n) for leaf in state]
        return type(state)(*leaves) if hasattr(state, "_fields") else tuple(leaves)
    return state[np.zeros(n, np.int64)]


class Starting:
    """Begins n rows alike."""

    begun: tuple[Any, np.ndarray]  # one row, to be copied

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        """Return the state of n empty sequences and the log-probabilities of their first token, (n, V)."""
        state, log_probs = self.begun
        return repeat_row(state, n), log_probs[np.zeros(n, np.int64)]


# ---- recurrent networks


class RecurrentState(NamedTuple):
    layers: States
    features: np.ndarray  # (n, D): what the output layer saw


class RecurrentNet:
    """`models.language.recurrent_net.RecurrentNet` on saved weights."""

    def __init__(
        self,
        weights: Weights,
        vocab_size: int,
        d_embed: int,
        width: int,
        n_layers: int,
        *,
        cell: str,
        softmax: str = "full",
        tied: bool = True,
        d_projection: int | None = None,
        layer_norm: bool = False,
        residual: bool = False,
        learned_start: bool = False,
        norm: StackNorm = "none",
        shrink: float = 1.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Take the weights; `options` are those of the cell."""
        self.vocab_size = vocab_size
        self.embedding = weights.table("embedding.weight", vocab_size, d_embed)
        self.recurrent = RecurrentStack(
            weights.within("recurrent"),
            d_embed,
            width,
            n_layers,
            cell=cell,
            d_projection=d_projection,
            layer_norm=layer_norm,
            residual=residual,
            learned_start=learned_start,
            norm=norm,
            shrink=shrink,
            options=options,
        )
        d_out, tied = self.recurrent.d_out, tied and softmax != "adaptive"
        self.bridge: Linear | None = None
        if tied and d_out != d_embed:
            self.bridge = weights.linear("bridge", d_embed, d_out)
        self.output: Output = take_output(
            weights.within("output"),
            softmax,
            d_embed if tied else d_out,
            vocab_size,
            tied=self.embedding if tied else None,
        )

    def read(self, ids: np.ndarray, offsets: np.ndarray, trace: Trace | None = None) -> np.ndarray:
        """Return what the output layer reads after each token of concatenated sequences, (N, D)."""
        x = np.asarray(self.embedding[ids], np.float32)
        x = self.recurrent.walk(x, Sequences.at(offsets), within(trace, "recurrent"))[0]
        return x if self.bridge is None else self.bridge(x)

    def step(
        self, layers: States, ids: np.ndarray, trace: Trace | None = None
    ) -> tuple[np.ndarray, States]:
        """Return what the output layer reads, (n, D), and the states after the tokens ids (n,)."""
        x, layers = self.recurrent.step(
            np.asarray(self.embedding[ids], np.float32), layers, within(trace, "recurrent")
        )
        return (x if self.bridge is None else self.bridge(x)), layers


class RecurrentStepper(Starting):
    """A sequence begins as if `eos_id` had just been read."""

    def __init__(self, network: RecurrentNet, eos_id: int) -> None:
        self.network, self.vocab_size, self.eos_id = network, network.vocab_size, eos_id
        first = network.recurrent.start(1)
        self.begun = self.step(
            RecurrentState(first, np.empty((1, 0), np.float32)), np.array([eos_id])
        )

    def step(
        self, state: Any, ids: np.ndarray, trace: Trace | None = None
    ) -> tuple[Any, np.ndarray]:
        features, layers = self.network.step(state[0], ids, trace)
        return RecurrentState(layers, features), self.network.output.log_probs(features)

    def read_on(self, state: Any, parts: Sequence[np.ndarray]) -> tuple[Any, np.ndarray]:
        """Append to each row some tokens, at least one; return the new state and what follows the last
        ones, (n, V). The output layer, which takes most of a step, runs once.
        """
        counts = np.array([len(part) for part in parts], np.int64)
        layers, features, read = state[0], np.empty((0, 0), np.float32), 0
        for count in np.unique(counts).tolist():  # of rows that end together
            rows = np.flatnonzero(counts >= count)
            further = tuple(tuple(leaf[rows] for leaf in layer) for layer in layers)
            for at in range(read, count):
                ids = np.array([parts[row][at] for row in rows.tolist()], np.int64)
                x, further = self.network.step(further, ids)
            if read == 0:
                layers, features = further, x
            else:
                for leaf, new in zip(chain(*layers, [features]), chain(*further, [x])):
                    leaf[rows] = new
            read = count
        return RecurrentState(layers, features), self.network.output.log_probs(features)

    def features(self, state: Any) -> np.ndarray:
        """Return what the output layer saw, (n, D)."""
        return state.features


# ---- Bengio's network


class NPLMNet:
    """`models.language.nplm_net.NPLMNet` on saved weights (Bengio et al. 2003):
    y = b + W x + U tanh(d + H x).

    x are the vectors of the last order - 1 tokens, oldest first, side by side;
    W, the direct connections, is optional and stands beside U in the output layer.
    """

    def __init__(
        self,
        weights: Weights,
        vocab_size: int,
        order: int,
        d_embed: int,
        width: int,
        *,
        direct: bool = False,
        softmax: str = "full",
    ) -> None:
        if order < 2:
            raise ValueError(
                f"order is {order}; a network needs at least one token of context, so at least 2"
            )
        self.vocab_size, self.order, self.direct = vocab_size, order, direct
        self.d_window = d_window = (order - 1) * d_embed
        self.embedding = weights.table("embedding.weight", vocab_size, d_embed)
        self.hidden: Linear = weights.linear("hidden", width, d_window)
        self.output: Output = take_output(
            weights.within("output"), softmax, width + (d_window if direct else 0), vocab_size
        )

    def features(self, context: np.ndarray) -> np.ndarray:
        """Return what the output layer reads after tokens (n, order - 1)."""
        x = np.asarray(self.embedding[context], np.float32).reshape(len(context), self.d_window)
        hidden = activate(self.hidden(x), TANH)
        return np.concatenate([hidden, x], axis=1) if self.direct else hidden


class NPLMStepper(Starting):
    """The state has the last tokens and the features; before the beginning all tokens are `eos_id`."""

    def __init__(self, network: NPLMNet, eos_id: int) -> None:
        self.network, self.vocab_size, self.eos_id = network, network.vocab_size, eos_id
        self.begun = self._read(np.full((1, network.order - 1), eos_id, np.int64))

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        return self._read(
            np.concatenate([state[0][:, 1:], np.asarray(ids, np.int64)[:, None]], axis=1)
        )

    def read_on(self, state: Any, parts: Sequence[np.ndarray]) -> tuple[Any, np.ndarray]:
        """Append to each row some tokens, at least one; return the new state and what follows the last
        ones, (n, V).
        """
        rows = [np.concatenate([row, part])[-len(row) :] for row, part in zip(state[0], parts)]
        return self._read(np.array(rows, np.int64))

    def features(self, state: Any) -> np.ndarray:
        """Return what the output layer saw, (n, D)."""
        return state[1]

    def _read(self, context: np.ndarray) -> tuple[Any, np.ndarray]:
        features = self.network.features(context)
        return (context, features), self.network.output.log_probs(features)


# ---- GPT


class GPTState(NamedTuple):
    cache: Cache
    features: np.ndarray  # (n, D): what the output layer saw


class GPTStepper(Starting):
    """A sequence begins with a start token in position 0. With `start_alone` the first token is predicted
    from it and then takes position 0 itself, for models without a start token in their training text.

    The network attends to at most `context` tokens. When one more comes, the older half is dropped and
    the rest read again as if the text began there, in positions 0, 1, ..., whatever the kind of positions:
    keys and values of the rest were computed with the dropped tokens in view; now every prediction is
    that of the network for a text it has read completely. So token t is predicted from the window
    [k d, k d + context) with d = ceil(context / 2) and the smallest k that reaches it, and batches of such
    windows, d apart, give the same log-probabilities.
    """

    def __init__(
        self,
        network: GPTNet,
        eos_id: int,
        *,
        start_id: int | None = None,
        start_alone: bool = False,
    ) -> None:
        self.network, self.output, self.eos_id = network, network.output, eos_id
        self.vocab_size, self.context, self.width = (
            len(network.embedding),
            network.context,
            network.d_model,
        )
        self.start_id, self.start_alone = eos_id if start_id is None else start_id, start_alone
        self.begun = self.prefill([np.empty(0, np.int64)])

    def prefill(self, prompts: Sequence[np.ndarray]) -> tuple[Any, np.ndarray]:
        """Return the state after each prompt and the log-probabilities of what follows, in one pass."""
        windows = [self.window(np.asarray(prompt, np.int64)) for prompt in prompts]
        state = self._read(windows)
        if self.start_alone:  # the start token only predicts the first token
            read = np.array([len(prompt) > 0 for prompt in prompts], bool)
            cache = state.cache
            state = state._replace(cache=cache._replace(lengths=np.where(read, cache.lengths, 0)))
        return state, self.output.log_probs(state.features)

    def step(
        self, state: Any, ids: np.ndarray, trace: Trace | None = None
    ) -> tuple[Any, np.ndarray]:
        ids = np.asarray(ids, np.int64)
        state = self._with_room(state)
        cache = self.network.pages.extend(state.cache, ids.reshape(len(ids), 1))
        features = self.network.features(ids, cache, np.ones(len(ids), np.int64), trace)
        return GPTState(cache, features), self.output.log_probs(features)

    def read_on(self, state: Any, parts: Sequence[np.ndarray]) -> tuple[Any, np.ndarray]:
        """Append to each row some tokens, at least one; return the new state and what follows the last
        ones, (n, V), in one pass. The window of a row must have room for more than one token.
        """
        state = self._with_room(state)
        counts = np.array([len(part) for part in parts], np.int64)
        cache = self.network.pages.extend(state.cache, parts)
        hidden = self.network.features(np.concatenate(parts), cache, counts)
        features = hidden[np.cumsum(counts) - 1]
        return GPTState(cache, features), self.output.log_probs(features)

    def branch(self, state: Any) -> Any:
        """Return the state itself: a step leaves it valid."""
        return state

    def extend(self, state: Any, ids: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Return the states after one, two, ... of the tokens (n, k) and what follows each, (n, k, V),
        in one pass; up to the token with which the window of a row is full.
        """
        state = self._with_room(state)
        lengths = state.cache.lengths
        ids = np.ascontiguousarray(ids[:, : self.context - int(lengths.max(initial=0))])
        n, k = ids.shape
        cache = self.network.pages.extend(state.cache, ids)
        hidden = self.network.features(ids.ravel(), cache, np.full(n, k, np.int64))
        features = hidden.reshape(n, k, -1)
        states = [
            GPTState(cache._replace(lengths=lengths + t + 1), features[:, t].copy())
            for t in range(k)
        ]
        return states, self.output.log_probs(hidden).reshape(n, k, -1)

    def features(self, state: Any) -> np.ndarray:
        """Return what the output layer saw, (n, D)."""
        return state.features

    def read(self, windows: np.ndarray, trace: Trace | None = None) -> np.ndarray:
        """Return the vectors (B, T, D) that predict the next token at each position of windows of text
        (B, T), each from position 0.
        """
        rows, steps = windows.shape
        cache = self.network.pages.extend(self.network.pages.start(rows), windows)
        return self.network.features(
            windows.ravel(), cache, np.full(rows, steps, np.int64), trace
        ).reshape(rows, steps, -1)

    def _read(self, windows: list[np.ndarray]) -> GPTState:
        """Return the state after these windows, several of them in one pass."""
        pages, counts = self.network.pages, np.array([len(window) for window in windows], np.int64)
        cache = pages.extend(pages.start(len(windows)), windows)
        features = np.zeros((len(windows), self.width), np.float32)
        for low, high in runs(counts, PROMPT_TOKENS_PER_PASS):
            rows = low + np.flatnonzero(counts[low:high])
            if len(rows):
                part = Cache(*(leaf[rows] for leaf in cache))
                hidden = self.network.features(
                    np.concatenate([windows[row] for row in rows.tolist()]), part, counts[rows]
                )
                features[rows] = hidden[np.cumsum(counts[rows]) - 1]
        return GPTState(cache, features)

    def _with_room(self, state: GPTState) -> GPTState:
        """Return a state in which no window is full: a full one loses its older half and the rest is
        read again.
        """
        full = np.flatnonzero(state.cache.lengths >= self.context)
        if not len(full):
            return state
        n_kept, pages = self.context // 2, self.network.pages
        again = self._read(
            [pages.ids(state.cache, row)[self.context - n_kept :] for row in full.tolist()]
        )
        lengths, addresses, held = (leaf.copy() for leaf in state.cache)
        lengths[full], held[full] = again.cache.lengths, again.cache.pages
        addresses[full] = 0
        width = min(addresses.shape[1], again.cache.addresses.shape[1])
        addresses[full, :width] = again.cache.addresses[:, :width]
        features = state.features.copy()
        features[full] = again.features
        return GPTState(Cache(lengths, addresses, held), features)

    def window(self, prompt: np.ndarray) -> np.ndarray:
        """Return the window that remains of start token and prompt after sliding as steps would have."""
        tokens = prompt
        if not (self.start_alone and len(prompt)):
            tokens = np.concatenate([[self.start_id], prompt]).astype(np.int64)
        dropped = math.ceil(self.context / 2)
        slides = max(math.ceil((len(tokens) - self.context) / dropped), 0)
        return tokens[slides * dropped :]
