"""Stepping through a recurrent encoder-decoder without torch, for translating on a CPU.

The weights are those of `nn.seq2seq.Seq2Seq` by name, so this is the same network: a test holds both to the same numbers. The
sources are read once, without padding; their vectors and keys stay where they are, and a row of the state has the number of its
source. A single source is read in one call for each layer, many together a step at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from seqloom.kernels.decode import add_tanh
from seqloom.kernels.seq2seq import attend_memory
from seqloom.models.network.recurrent_layer import Cell, RecurrentLayer, State
from seqloom.models.network.step_weights import Panels, Weights
from seqloom.models.sequence.encoded import Encoded
from seqloom.models.sequence.quick import Layer, encoder_layers
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.translate.configs import Seq2SeqConfig
from seqloom.models.translate.encoder_steps import read_sources, recurrent_encoder, rotary_encoder, walk
from seqloom.models.translate.greedy import GreedyWriter
from seqloom.models.translate.pairs import in_source_order

RECURRENT = ("rnn", "lstm", "gru", "birnn", "bilstm", "bigru")
SMALL = 256  # tokens of a vocabulary, as of characters, whose products with the first layer are made beforehand
FEW = 2  # sources up to which a recurrent encoder reads them one after the other


class Seq2SeqState(NamedTuple):
    source: np.ndarray  # (n,) int64: which of the sources a row belongs to
    layers: tuple[State, ...]
    fed: np.ndarray  # (n, D): the last readout, where there is input feeding; else (n, 0)
    coverage: np.ndarray  # (n, S): what each source step was given so far, where it is used; else (n, 0)
    looked: np.ndarray  # (n, S): weights of the source steps behind the last log-probabilities; (n, 0) without attention


class Memory(NamedTuple):
    """What the decoder knows of the sources."""

    vectors: np.ndarray  # (N, D): what each step of all sources adds to a readout that looks at it alone
    keys: np.ndarray  # (N, Q)
    known: np.ndarray  # (B, G H): what the summary of a source adds to the gates of the first layer, or (B, 0)
    start: tuple[State, ...]  # of the decoder's layers


class Affine:
    """A layer that all steps of the sources, or their summaries, go through."""

    def __init__(self, weights: Weights, name: str, columns: slice = slice(None), *, bias: bool = True) -> None:
        self.matrix = Panels(weights.arrays[f"{name}.weight"][:, columns])
        self.bias = weights.vector(f"{name}.bias" if bias else "")

    def __call__(self, x: np.ndarray) -> np.ndarray:
        out = self.matrix(x)
        if len(self.bias):
            out += self.bias
        return out


class Seq2SeqSteps:
    """The weights as stepping needs them, made once for a model; `arrays` by the names of its saved file."""

    def __init__(self, c: Seq2SeqConfig, sizes: Sizes, arrays: Mapping[str, np.ndarray], eos_id: int) -> None:
        self.c, self.sizes, self.eos_id = c, sizes, eos_id
        self.backwards = c.reverse_source and not sizes.columns
        self.weights = weights = Weights(dict(arrays), eight_bit=False)
        self.embedding, self.output = weights.vector("embedding.weight"), weights.output()
        cell: Cell = c.cell
        tokens = slice(self.embedding.shape[1])  # of the first layer's inputs; beside them summary and readout
        self.layers = [RecurrentLayer.load(weights, f"decoder.layers.{i}.", cell, columns=slice(None) if i else tokens)
                       for i in range(c.n_decoder_layers)]
        small = len(self.embedding) <= SMALL
        self.token_gates = self.layers[0].project(self.embedding) if small else None  # what each token adds to the first gates
        self.initial = None if c.one_network else Affine(weights, "initial")
        fed = self._output_width if c.input_feeding else 0
        self.w_fed = weights.matrix("decoder.layers.0.w_x", columns=slice(-fed, None)) if fed else None
        width = arrays["decoder.layers.0.w_x"].shape[1]
        self.w_known = (weights.matrix("decoder.layers.0.w_x", columns=slice(tokens.stop, width - fed))
                        if c.bottleneck == "every-step" else None)
        self.narrow = Affine(weights, "narrow") if "narrow.weight" in weights else None
        self.key = Affine(weights, "attention.key") if "attention.key.weight" in weights else None
        self.query = weights.matrix("attention.query.weight") if "attention.query.weight" in weights else None
        self.energy, self.covered = weights.vector("attention.energy"), weights.vector("attention.covered")
        self.scale = np.float32(c.d_hidden ** -0.5 if c.attention == "scaled" else 1.0)
        self.attends = c.attention != "none"
        self.readout = weights.matrix("readout.weight", columns=slice(c.d_hidden)) if "readout.weight" in weights else None
        self.read_context = (Affine(weights, "readout", slice(c.d_hidden, None), bias=False) if self.attends
                             else None)
        self.readout_bias = weights.vector("readout.bias")
        self._one_by_one, self._together = self._encoder()

    @cached_property
    def writer(self) -> GreedyWriter | None:
        """Greedy search in one call, where there is one for such a decoder."""
        return GreedyWriter(self) if GreedyWriter.can_write(self) else None

    @property
    def _output_width(self) -> int:
        return self.c.d_embed if self.c.tied else self.c.d_hidden

    def decoder(self, encoded: Encoded) -> Seq2SeqStepper:
        return Seq2SeqStepper(self, encoded)

    # ---- reading

    def _encoder(self) -> tuple[list[Layer], list[list[RecurrentLayer]]]:
        """The encoder for one source at a time, and a recurrent one for many."""
        c = self.c
        if c.one_network or c.encoder == "transformer":
            return [], []
        one_by_one = encoder_layers(c.encoder, c.n_layers, c.window, self.weights.arrays)
        if c.encoder not in RECURRENT:
            return one_by_one, []
        cell: Any = c.encoder.removeprefix("bi")
        directions = ["", "reverse."] if c.encoder.startswith("bi") else [""]
        return one_by_one, [[RecurrentLayer.load(self.weights, f"encoder.stack.layers.{i}.{direction}", cell)
                             for direction in directions] for i in range(c.n_layers)]

    def encode(self, encoded: Encoded) -> Memory:
        borders = encoded.borders
        if self.initial is None:
            x = read_sources(self.weights, self.sizes, encoded)
            layers = []
            for layer in self.layers:
                x, last = walk(layer, x, borders)
                layers.append(last)
            summary, start = x[:0], tuple(layers)
        else:
            x = self._vectors(encoded)
            summary = self._summary(x, borders)
            start = self._first(summary)
        known = np.empty((len(encoded), 0), np.float32) if self.w_known is None else self.w_known(summary)
        if not self.attends:
            return Memory(x, x, known, start)
        assert self.read_context is not None
        x = x if self.narrow is None else self.narrow(x)
        return Memory(self.read_context(x), x if self.key is None else self.key(x), known, start)

    def _vectors(self, encoded: Encoded) -> np.ndarray:
        c, borders = self.c, encoded.borders
        x = read_sources(self.weights, self.sizes, encoded)
        if c.encoder == "transformer":
            return rotary_encoder(self.weights, x, borders, c.n_layers, c.n_heads)
        if self._together and len(encoded) > FEW:
            return recurrent_encoder(self._together, x, borders)
        parts = [slice(*part) for part in zip(borders[:-1].tolist(), borders[1:].tolist())]
        for layer in self._one_by_one:
            x = np.concatenate([layer(x[part]) for part in parts])
        return x

    def _summary(self, x: np.ndarray, borders: np.ndarray) -> np.ndarray:
        """`nn.seq2seq.summary_of`, (B, D)."""
        out = np.zeros((len(borders) - 1, x.shape[1]), np.float32)
        half = x.shape[1] // 2 if self.c.encoder.startswith("bi") else x.shape[1]
        for row, (start, stop) in enumerate(zip(borders[:-1].tolist(), borders[1:].tolist())):
            if start == stop:
                continue
            if self.c.encoder in RECURRENT:
                out[row, :half], out[row, half:] = x[stop - 1, :half], x[start, half:]
            else:
                out[row] = x[start:stop].mean(0)
        return out

    def _first(self, summary: np.ndarray) -> tuple[State, ...]:
        """The state in which the decoder begins, a part of one product for each layer and leaf."""
        assert self.initial is not None
        parts = iter(np.split(self.initial(summary), self.c.n_decoder_layers * len(self.layers[0].start), axis=1))
        return tuple(tuple(np.ascontiguousarray(next(parts)) for _ in layer.start) for layer in self.layers)


class Seq2SeqStepper:
    """The targets of these sources; row i of `start(n)` belongs to source i."""

    def __init__(self, steps: Seq2SeqSteps, encoded: Encoded) -> None:
        self.steps, self.eos_id, self.vocab_size = steps, steps.eos_id, len(steps.embedding)
        self.borders, self.lengths = np.ascontiguousarray(encoded.borders, np.int64), encoded.lengths
        self.memory = steps.encode(encoded)
        self.longest = int(self.lengths.max(initial=0)) if steps.attends else 0

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        steps = self.steps
        layers = tuple(tuple(leaf[:n].copy() for leaf in layer) for layer in self.memory.start)
        fed = np.zeros((n, steps._output_width if steps.w_fed is not None else 0), np.float32)
        coverage = np.zeros((n, self.longest if len(steps.covered) else 0), np.float32)
        return self.step(Seq2SeqState(np.arange(n), layers, fed, coverage, coverage[:, :0]), np.full(n, steps.eos_id))

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        steps = self.steps
        table = steps.token_gates
        gates = steps.layers[0].project(steps.embedding[ids]) if table is None else table[ids]
        if steps.w_known is not None:
            gates += self.memory.known[state.source]
        if steps.w_fed is not None:
            gates += steps.w_fed(state.fed)
        layers: list[State] = []
        for i, (layer, before) in enumerate(zip(steps.layers, state.layers, strict=True)):
            layers.append(layer.move(layer.project(layers[-1][0]) if i else gates, before))
        features, looked = self._read_out(state, layers[-1][0])
        fed = features if steps.w_fed is not None else state.fed
        return Seq2SeqState(state.source, tuple(layers), fed, state.coverage, looked), steps.output.log_probs(features)

    def greedy(self, n: int, max_tokens: int) -> list[tuple[np.ndarray, bool]] | None:
        """As `decoding.greedy` says; of many sources together a step is quicker."""
        writer = self.steps.writer if n <= FEW else None
        if writer is None:
            return None
        return [writer(self.memory, i, slice(*self.borders[i:i + 2].tolist()), max_tokens, self.eos_id) for i in range(n)]

    def _read_out(self, state: Seq2SeqState, hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What predicts the next token (n, D), and the weights of the source (n, S)."""
        steps, memory = self.steps, self.memory
        looked = np.zeros((len(hidden), self.longest), np.float32)
        if steps.readout is None:
            return hidden, looked
        features = steps.readout(hidden)
        if steps.read_context is not None:
            queries = hidden if steps.query is None else steps.query(hidden)
            attend_memory(queries, memory.vectors, memory.keys, self.borders, state.source, steps.energy, steps.scale,
                          steps.covered, state.coverage, features, looked)
        add_tanh(features, steps.readout_bias)
        return features, looked

    def attention(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """The weights of the source (n, S) behind the log-probabilities that came with this state, and the length of each row's
        source (n,)."""
        lengths = self.lengths[state.source]
        return in_source_order(state.looked, lengths) if self.steps.backwards else state.looked, lengths
