"""The recurrent encoder-decoder with attention (`nn.seq2seq`, `nn.memory`) without torch,
for translating on a CPU.

The sources are read once; a row of the state has the number of its source instead of copies of
vectors and keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from seqloom.encoder_table import ENCODERS, find_cell
from seqloom.kernels.attention import read_memory
from seqloom.kernels.maths import TANH, activate
from seqloom.runtime.cells import Sequences
from seqloom.runtime.composition import Pooling
from seqloom.runtime.declarations import Examples
from seqloom.runtime.encoders import Encoder
from seqloom.runtime.outputs import FullSoftmax
from seqloom.runtime.readers import read_sources
from seqloom.runtime.recurrent import RecurrentStack, States
from seqloom.runtime.weights import NONE, Linear, Weights
from seqloom.traces import Trace, within

SMALL = 1 << 22  # numbers up to which the gates of the first layer are tabulated for all tokens
BY_WIDTH = ("dot", "scaled")  # attention that needs queries and memory of one width


class DecoderState(NamedTuple):
    """State after some target tokens; its rows are what a search reorders."""

    source: np.ndarray  # (n,) int64: which of the sources a row belongs to
    layers: States
    fed: np.ndarray  # (n, D): the last readout, with input feeding; else (n, 0)
    coverage: np.ndarray  # (n, S): total attention to each source step, if used; else (n, 0)
    # (n, S): weights of the source steps behind the last log-probabilities; (n, 0) without attention
    attention_weights: np.ndarray


class Memory(NamedTuple):
    """The encoded sources, as the decoder uses them."""

    vectors: np.ndarray  # (N, D): steps of all sources, projected to what each adds to a readout
    keys: np.ndarray  # (N, Q)
    # (B, G H): a source summary's part of the first layer's gates, or (B, 0)
    source_gates: np.ndarray
    start: States  # of the decoder's layers
    offsets: np.ndarray  # (B + 1,)


class MemoryAttention:
    """Scores a query against each step of a source, and reads the weighted mean."""

    def __init__(
        self, weights: Weights, score: str, d_query: int, d_memory: int, *, coverage: bool = False
    ) -> None:
        additive = score in ("additive", "concat")
        self.query: Linear | None = None
        if additive:
            self.query = weights.linear("query", d_query, d_query, bias=False)
        self.key: Linear | None = None
        if score not in BY_WIDTH:
            self.key = weights.linear("key", d_query, d_memory, bias=score == "additive")
        self.energy = weights.take("energy", d_query) if additive else NONE
        self.covered = weights.take("covered", d_query) if coverage else NONE
        self.scale = np.float32(d_query**-0.5 if score == "scaled" else 1.0)

    def keys(self, memory: np.ndarray) -> np.ndarray:
        return memory if self.key is None else self.key(memory)

    def __call__(
        self,
        hidden: np.ndarray,
        readout: Linear,
        memory: Memory,
        source: np.ndarray,
        coverage: np.ndarray,
        weights: np.ndarray,
    ) -> np.ndarray:
        """Return the readout (n, D) of hidden states (n, H) and their attention contexts; write the
        weights (n, S).
        """
        hidden = np.ascontiguousarray(hidden, np.float32)  # a custom cell may return another type
        query = readout if self.query is None else self.query
        return read_memory(
            hidden,
            readout.packed,
            query.packed,
            memory.vectors,
            memory.keys,
            memory.offsets,
            source,
            self.energy,
            self.scale,
            self.covered,
            coverage,
            weights,
        )


class Seq2Seq:
    """`nn.seq2seq.Seq2Seq` on saved weights; `reader` None: sources and targets share the token
    vectors; `encoder` None: the decoder's stack also reads the sources.
    """

    def __init__(
        self,
        weights: Weights,
        reader: Any,
        encoder: str | None,
        vocab_size: int,
        d_embed: int,
        d_hidden: int,
        n_layers: int = 1,
        *,
        cell: str = "gru",
        attention: str | None = "additive",
        coverage: bool = False,
        input_feeding: bool = False,
        every_step: bool = False,
        tied: bool = True,
        n_encoder_layers: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Take the weights; `options` are those of the encoder."""
        self.embedding = weights.table("embedding.weight", vocab_size, d_embed)
        self.vocab_size, self.reader = vocab_size, reader
        self.encoder: Encoder | None = None
        d_memory, d_out = d_hidden, d_embed if tied else d_hidden
        if encoder is not None:
            entry = ENCODERS[encoder]
            d_in = reader.d_out if reader is not None else d_embed
            encoder_weights = weights.with_16_bit_inputs().within("encoder")
            self.encoder = entry.take(
                encoder_weights, d_in, d_hidden, n_encoder_layers, options or {}
            )
            assert self.encoder is not None
            d_memory = self.encoder.d_out
            kind = "mean" if entry.last_state == "mean" else "last"
            self.summary = Pooling(
                weights, kind, d_memory, bidirectional=entry.last_state == "ends"
            )
        widths = (d_embed, d_memory if every_step else 0, d_out if input_feeding else 0)
        self.d_fed = widths[2]
        self.decoder = RecurrentStack(
            weights.within("decoder"), sum(widths), d_hidden, n_layers, cell=cell
        )
        first = self.decoder.layers[0][0]
        # columns of the first layer's inputs: token, summary, last readout
        parts = np.cumsum([0, *widths]).tolist()
        self.first = first
        self.split = sum(map(bool, widths)) > 1
        self.w_token = first.w_x.columns(slice(*parts[:2])) if self.split else first.w_x
        self.w_summary = first.w_x.columns(slice(*parts[1:3]), bias=False) if every_step else None
        self.w_fed = first.w_x.columns(slice(*parts[2:4]), bias=False) if input_feeding else None
        leaves = len(find_cell(cell).runtime_class().leaves)
        self.initial: Linear | None = None
        if encoder is not None:
            self.initial = weights.linear("initial", n_layers * leaves * d_hidden, d_memory)
        self.narrow: Linear | None = None
        if attention in BY_WIDTH and d_memory != d_hidden:
            self.narrow = weights.linear("narrow", d_hidden, d_memory)
        self.attention: MemoryAttention | None = None
        self.readout: Linear | None = None
        self.read_context: Linear | None = None
        if attention is not None:
            d_memory = d_hidden if self.narrow is not None else d_memory
            self.attention = MemoryAttention(
                weights.within("attention"), attention, d_hidden, d_memory, coverage=coverage
            )
            readout = weights.linear("readout", d_out, d_hidden + d_memory)
            self.readout = readout.columns(slice(d_hidden))
            self.read_context = readout.columns(slice(d_hidden, None), bias=False)
        elif d_out != d_hidden:
            self.readout = weights.linear("readout", d_out, d_hidden)
        self.output = FullSoftmax(
            weights.within("output"), d_out, vocab_size, tied=self.embedding if tied else None
        )

    @cached_property
    def token_gates(self) -> np.ndarray | None:
        """Return the table of each token's part of the first gates, or None if it would be large."""
        if self.vocab_size * len(self.first.w_x.weight) > SMALL:
            return None
        return self._project(np.asarray(self.embedding[np.arange(self.vocab_size)], np.float32))

    def _project(self, x: np.ndarray) -> np.ndarray:
        """Return the part of the first layer's gates that comes from token vectors."""
        return self.w_token(x) if self.split else self.first.project(x)

    # ---- reading

    def encode(self, examples: Examples, trace: Trace | None = None) -> Memory:
        """Read sources, a row of steps each."""
        offsets = np.ascontiguousarray(examples.offsets, np.int64)
        x = read_sources(self.reader, self.embedding, examples)
        if self.encoder is None or self.initial is None:
            x, start = self.decoder.walk(x, Sequences.at(offsets), within(trace, "encoder"))
            source_gates = np.empty((len(offsets) - 1, 0), np.float32)
        else:
            x = self.encoder(x, offsets, within(trace, "encoder"))
            summary = self.summary(x, offsets)
            start = self._first(summary)
            source_gates = (
                np.empty((len(summary), 0), np.float32)
                if self.w_summary is None
                else self.w_summary(summary)
            )
        if self.attention is None or self.read_context is None:
            return Memory(x, x, source_gates, start, offsets)
        x = x if self.narrow is None else self.narrow(x)
        return Memory(self.read_context(x), self.attention.keys(x), source_gates, start, offsets)

    def _first(self, summary: np.ndarray) -> States:
        """Return the initial states of the decoder: slices of one product, by layer and leaf."""
        assert self.initial is not None
        n_leaves = sum(len(layer[0].leaves) for layer in self.decoder.layers)
        parts = self.initial(summary).reshape(len(summary), n_leaves, self.first.d_hidden)
        leaves = iter(parts.swapaxes(0, 1).copy())
        return tuple(tuple(next(leaves) for _ in layer[0].leaves) for layer in self.decoder.layers)

    # ---- writing

    def start(self, memory: Memory, n: int) -> DecoderState:
        """Return the states of the first n sources before their first token."""
        layers = tuple(tuple(leaf[:n].copy() for leaf in layer) for layer in memory.start)
        longest = (
            max(np.diff(memory.offsets).tolist(), default=0) if self.attention is not None else 0
        )
        covers = self.attention is not None and len(self.attention.covered) > 0
        return DecoderState(
            np.arange(n),
            layers,
            np.zeros((n, self.d_fed), np.float32),
            np.zeros((n, longest if covers else 0), np.float32),
            np.zeros((n, longest), np.float32),
        )

    def step(
        self, memory: Memory, state: DecoderState, ids: np.ndarray, trace: Trace | None = None
    ) -> tuple[np.ndarray, DecoderState]:
        """Return the features of each row's next token, (n, D), and the state after the tokens ids (n,)."""
        table = self.token_gates
        gates = (
            self._project(np.asarray(self.embedding[ids], np.float32))
            if table is None
            else table[ids]
        )
        if self.w_summary is not None:
            gates += memory.source_gates[state.source]
        if self.w_fed is not None:
            gates += self.w_fed(state.fed)
        features, layers = self.decoder.step_gates(gates, state.layers, within(trace, "decoder"))
        coverage, attention_weights = (
            state.coverage.copy(),
            np.zeros(state.attention_weights.shape, np.float32),
        )
        if self.readout is not None and self.attention is not None:
            features = self.attention(
                features, self.readout, memory, state.source, coverage, attention_weights
            )
        elif self.readout is not None:
            features = activate(self.readout(features), TANH)
        if trace is not None and self.attention is not None:
            trace.add("cross.weights", attention_weights[:, None])  # as of one head
        fed = features if self.w_fed is not None else state.fed
        return features, DecoderState(state.source, layers, fed, coverage, attention_weights)
