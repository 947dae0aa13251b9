"""The recurrent encoder-decoder (Sutskever et al. 2014; Cho et al. 2014) with attention (Bahdanau,
Luong et al. 2015).

A reader and an encoder make a memory of the source; its summary is the decoder's initial state. Each
target token updates the decoder's state h; attention computes a context c for it; the readout tanh(W
[h; c]) predicts the next token. Since the next state does not need c, all steps of a given target
are one pass of the fused recurrence and one of attention. With `input_feeding` (Luong et al. 2015,
section 3.3) the readout is part of the next input, and steps are computed one by one.

Without attention the decoder has only that summary of the source, as its initial state, and also as
input at `every_step` (Cho et al. 2014). `encoder=None`: one recurrent network reads the source and
then writes the target.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqloom.encoder_table import find_cell
from seqloom.nn.cells import Cell, State
from seqloom.nn.encoders import Encoder, Recurrent, present
from seqloom.nn.initialisation import xavier
from seqloom.nn.layers import MakeLinear, dropout, original
from seqloom.nn.memory import BY_WIDTH, MemoryAttention, Score
from seqloom.nn.outputs import FullSoftmax
from seqloom.nn.readers import Arrays
from seqloom.nn.recording import holds, over_steps
from seqloom.nn.recurrent import RecurrentStack, States
from seqloom.traces import Trace, within


class Memory(NamedTuple):
    """The encoded sources; without attention the first three are not used."""

    vectors: Tensor  # (B, S, D)
    keys: Tensor  # (B, S, Q)
    present: Tensor | None  # bool (B, S)
    summary: Tensor  # (B, E)
    start: States

    def rows(self, chosen: Tensor) -> Memory:
        """Return the memory of these sources, in this order."""
        return Memory(
            self.vectors[chosen],
            self.keys[chosen],
            None if self.present is None else self.present[chosen],
            self.summary[chosen],
            tuple(tuple(leaf[chosen] for leaf in layer) for layer in self.start),
        )


class DecoderState(NamedTuple):
    """The state after some target tokens."""

    layers: States
    last_readout: Tensor  # (B, D), with input feeding; else (B, 0)
    coverage: Tensor  # (B, S), if it is used; else (B, 0)


class Seq2Seq(nn.Module):
    """`reader` None: sources have the targets' vocabulary and vectors; `encoder` None: the decoder
    reads them itself.
    """

    def __init__(
        self,
        reader: nn.Module | None,
        encoder: Encoder | None,
        vocab_size: int,
        d_embed: int,
        d_hidden: int,
        n_layers: int = 1,
        *,
        cell: str = "gru",
        attention: Score | None = "additive",
        coverage: bool = False,
        input_feeding: bool = False,
        every_step: bool = False,
        tied: bool = True,
        dropout: float = 0.0,
        label_smoothing: float = 0.0,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        if encoder is None and (reader is not None or every_step or input_feeding):
            raise ValueError(
                "one network that reads and writes takes no other reader, no input feeding, and no "
                "summary at "
                "every step"
            )
        if attention is None and (input_feeding or coverage):
            raise ValueError("input feeding and coverage need attention")
        self.input_feeding, self.every_step, self.dropout = input_feeding, every_step, dropout
        self.embedding = nn.Embedding(vocab_size, d_embed)
        nn.init.normal_(self.embedding.weight, std=d_embed**-0.5)
        self.reader, self.encoder = reader, encoder
        d_memory = d_hidden if encoder is None else encoder.d_out
        d_out = d_embed if tied else d_hidden
        self.decoder = RecurrentStack(
            d_embed + (d_out if input_feeding else 0) + (d_memory if every_step else 0),
            d_hidden,
            n_layers,
            cell=cell,
            dropout=dropout,
            linear=linear,
        )
        leaves = len(find_cell(cell).network_class().leaves)
        self.initial = (
            None if encoder is None else linear(d_memory, n_layers * leaves * d_hidden, bias=True)
        )
        narrower = attention in BY_WIDTH and d_memory != d_hidden
        self.narrow = linear(d_memory, d_hidden, bias=True) if narrower else None
        self.attention = None
        if attention is not None:
            d_memory = d_hidden if self.narrow is not None else d_memory
            self.attention = MemoryAttention(
                attention, d_hidden, d_memory, coverage=coverage, linear=linear
            )
            d_read = d_hidden + d_memory
        else:
            d_read = d_hidden
        self.readout = (
            linear(d_read, d_out, bias=True) if attention is not None or d_read != d_out else None
        )
        self.output = FullSoftmax(
            d_out,
            vocab_size,
            tied=self.embedding if tied else None,
            label_smoothing=label_smoothing,
        )
        for layer in (self.initial, self.narrow, self.readout):
            if layer is not None:
                xavier(original(layer))
                nn.init.zeros_(layer.bias)

    # ---- reading

    def encode(self, batch: Arrays, trace: Trace | None = None) -> Memory:
        """Encode sources given as `ids` (B, S) or `values` (B, S, C), with their `lengths` (B,).

        A trace gets what the encoder adds, as `encoder...`, also where the decoder reads the sources itself.
        """
        lengths = batch["lengths"]
        x = self.embedding(batch["ids"]) if self.reader is None else self.reader(batch)
        x = dropout(x, self.dropout, self.training)
        if self.encoder is None:
            vectors, start = self.decoder(x, lengths=lengths, trace=within(trace, "encoder"))
            summary = vectors[:, 0]
        else:
            vectors = self.encoder(x, lengths, within(trace, "encoder"))
            summary = summary_of(self.encoder, vectors, lengths)
            start = self._first(dropout(summary, self.dropout, self.training))
        if self.attention is None:
            return Memory(vectors[:, :0], vectors[:, :0], None, summary, start)
        keep = present(vectors, lengths)
        assert keep is not None
        vectors = dropout(vectors, self.dropout, self.training)
        vectors = vectors if self.narrow is None else self.narrow(vectors)
        return Memory(
            vectors,
            self.attention.keys(vectors),
            None if holds(keep) else keep,
            summary,
            start,
        )

    def _first(self, summary: Tensor) -> States:
        """Return the decoder's initial state: one product, split into layers and leaves."""
        assert self.initial is not None
        parts = iter(self.initial(summary).split(self._width, 1))
        return tuple(
            tuple(next(parts).contiguous() for _ in layer.leaves) for layer in self._layers
        )

    @property
    def _layers(self) -> list[Cell]:
        return [layer for layer in self.decoder.layers if isinstance(layer, Cell)]

    @property
    def _width(self) -> int:
        return self._layers[0].d_hidden

    # ---- writing

    def features(self, memory: Memory, inputs: Tensor, trace: Trace | None = None) -> Tensor:
        """Return the features for the output layer after each of the tokens `inputs` (B, T) of a given
        target, (B, T, D).

        A trace gets what the decoder adds, as `decoder...`, and `cross.weights` (B, 1, T, S), as of one head.
        """
        if self.input_feeding and trace is not None:
            return self._traced_steps(memory, inputs, trace)
        if self.input_feeding:
            return self._step_by_step(memory, inputs)
        outputs, _ = self.decoder(
            self._inputs(memory, inputs), memory.start, trace=within(trace, "decoder")
        )
        features, weights = self._read_out(memory, dropout(outputs, self.dropout, self.training))
        if trace is not None and weights is not None:
            trace.add("cross.weights", weights.unsqueeze(1))
        return features

    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first token."""
        n, summary = memory.summary.shape[0], memory.summary
        d_readout = self.output.matrix().shape[1] if self.input_feeding else 0
        steps = (
            memory.vectors.shape[1]
            if self.attention is not None and self.attention.covered is not None
            else 0
        )
        return DecoderState(
            memory.start, summary.new_zeros(n, d_readout), summary.new_zeros(n, steps)
        )

    def step(
        self, memory: Memory, state: DecoderState, ids: Tensor, trace: Trace | None = None
    ) -> tuple[Tensor, DecoderState]:
        """Read one more token of each row (B,); return the features for the next one (B, D), and the
        state. `trace` is as in `features`, with T = 1.
        """
        x = self._inputs(memory, ids.unsqueeze(1))
        if self.input_feeding:
            x = torch.cat([x, state.last_readout.unsqueeze(1)], 2)
        outputs, layers = self.decoder(x, state.layers, trace=within(trace, "decoder"))
        features, state, weights = self._after(memory, state, outputs, layers)
        if trace is not None and weights is not None:
            trace.add("cross.weights", weights[:, None, None])
        return features, state

    def _after(
        self, memory: Memory, state: DecoderState, outputs: Tensor, layers: States
    ) -> tuple[Tensor, DecoderState, Tensor | None]:
        covered = state.coverage if state.coverage.shape[1] else None
        features, weights = self._read_out(
            memory, dropout(outputs, self.dropout, self.training), covered
        )
        coverage = state.coverage
        if weights is not None:
            coverage = coverage if covered is None else coverage + weights[:, 0]
            weights = weights[:, 0]
        readout = features[:, 0] if self.input_feeding else state.last_readout
        return features[:, 0], DecoderState(layers, readout, coverage), weights

    def _traced_steps(self, memory: Memory, inputs: Tensor, trace: Trace) -> Tensor:
        """Compute the features token by token, and join the traces of the steps."""
        state, steps, features = self.start(memory), [], []
        for ids in inputs.unbind(1):
            steps.append(trace.empty())
            read, state = self.step(memory, state, ids, steps[-1])
            features.append(read)
        for name in steps[0]:
            # (B, T, H) or (B, 1, T, S)
            trace.add(name, torch.cat([step[name] for step in steps], -2))
        return torch.stack(features, 1)

    def _step_by_step(self, memory: Memory, inputs: Tensor) -> Tensor:
        """Compute the features step by step, but the first layer's product with the tokens at once,
        since it does not depend on the step before.
        """
        first, state = self._layers[0], self.start(memory)
        x = self._inputs(memory, inputs).transpose(0, 1)  # (T, B, E)
        d_tokens = x.shape[2]
        # once: adapters compute them on every access
        matrices = [(cell.w_x, cell.w_h) for cell in self._layers]
        w_x = matrices[0][0]
        projected = F.linear(x, w_x[:, :d_tokens], first.b)
        w_fed = w_x[:, d_tokens:]
        leaves = len(first.leaves)
        present = () if memory.present is None else (memory.present,)

        def advance(step: Tensor, *values: Tensor) -> tuple[Tensor, State]:
            """Take a step from the readout, the coverage and the leaves of all layers."""
            readout, coverage, *flat = values[: 2 + leaves * len(matrices)]
            vectors, keys, *keep = values[2 + len(flat) :]
            below = step + F.linear(readout, w_fed)
            layers: list[State] = []
            for i, (cell, (w_x, w_h)) in enumerate(zip(self._layers, matrices)):
                if i:
                    below = cell.project(dropout(layers[-1][0], self.dropout, self.training), w_x)
                before = tuple(flat[i * leaves : (i + 1) * leaves])
                layers.append(cell.step(below, before, w_h, None))
            attended = Memory(vectors, keys, keep[0] if keep else None, readout, ())
            read, after, _ = self._after(
                attended,
                DecoderState((), readout, coverage),
                layers[-1][0].unsqueeze(1),
                tuple(layers),
            )
            return read, (
                after.last_readout,
                after.coverage,
                *(leaf for layer in after.layers for leaf in layer),
            )

        features, _ = over_steps(
            advance,
            (projected,),
            (state.last_readout, state.coverage, *(x for layer in state.layers for x in layer)),
            (memory.vectors, memory.keys, *present),
        )
        return features.transpose(0, 1)

    def _inputs(self, memory: Memory, ids: Tensor) -> Tensor:
        """Return the vectors of the tokens, (B, T, ...), with the summary of the source if `every_step`."""
        x = dropout(self.embedding(ids), self.dropout, self.training)
        if not self.every_step:
            return x
        return torch.cat([x, memory.summary.unsqueeze(1).expand(-1, ids.shape[1], -1)], 2)

    def _read_out(
        self, memory: Memory, hidden: Tensor, coverage: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        weights = None
        if self.attention is not None:
            context, weights = self.attention(
                hidden, memory.vectors, memory.keys, memory.present, coverage
            )
            hidden = torch.cat([hidden, context], 2)
        if self.readout is None:
            return hidden, weights
        return dropout(torch.tanh(self.readout(hidden)), self.dropout, self.training), weights


def summary_of(encoder: Encoder, vectors: Tensor, lengths: Tensor) -> Tensor:
    """Return one vector (B, D) for each source: the final output of a recurrent encoder, each
    direction at its own end; for others the mean over the steps.
    """
    if not isinstance(encoder, Recurrent):
        return vectors.sum(1) / lengths.clamp(min=1).to(vectors.dtype).unsqueeze(1)
    rows = torch.arange(vectors.shape[0], device=vectors.device)
    last = vectors[rows, (lengths - 1).clamp(min=0)]
    if encoder.streams:
        return last
    half = vectors.shape[2] // 2
    return torch.cat([last[:, :half], vectors[:, 0, half:]], 1)
