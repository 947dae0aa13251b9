"""Recurrent language models: a state that each token changes, trained by truncated back-propagation
through time.

`rnn` is Elman's (1990) network; its gradients vanish or explode with distance. `lstm` (Hochreiter
and Schmidhuber 1997; forget gate: Gers et al. 2000) adds a cell that is changed by addition, so that
gradients last. `gru` (Cho et al. 2014) does much of that with two gates and no cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.batching import longest_first, offsets, there
from seqloom.contracts.language import LanguageModel
from seqloom.encoder_table import find_cell
from seqloom.errors import ConfigError
from seqloom.models.language.configs import RECURRENT_SHAPE, GRUConfig, LSTMConfig, RNNConfig
from seqloom.models.language.neural import Layers, NeuralLanguageModel, Past, settled
from seqloom.models.network.configs import options_of
from seqloom.models.network.first_layer import Size
from seqloom.runtime.language import RecurrentNet, RecurrentStepper
from seqloom.runtime.weights import Weights
from seqloom.traces import Trace
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.training.batches import Batches

CHUNK = 256  # tokens of each sequence that are scored at a time
ROWS = 64  # sequences side by side


@dataclass(frozen=True)
class RecurrentLayers(Layers):
    cell: str  # its name in `encoder_table`

    def check_options(self, config: Any) -> None:
        if not config.variational and config.dropout == config.input_dropout == 0:
            raise ConfigError(
                "variational has no effect where dropout and input_dropout are 0; leave it out, or "
                "give dropout"
            )

    def build(
        self, model: NeuralLanguageModel, size: Size, counts: torch.Tensor | None = None
    ) -> torch.nn.Module:
        from seqloom.models.language import language_net

        return language_net.RecurrentNet(
            settled(model.config, size),
            self.cell,
            model.tokenizer.vocab_size,
            size.width,
            counts,
            size.d_embed,
        )

    def take_runtime(self, model: NeuralLanguageModel, weights: Weights) -> RecurrentNet:
        c, size = model.config, model.fitted_size
        options = {
            name: getattr(c, name) for name in find_cell(self.cell).options if hasattr(c, name)
        }
        return RecurrentNet(
            weights,
            model.tokenizer.vocab_size,
            size.d_embed or c.d_embed or size.width,
            size.width,
            c.n_layers,
            cell=self.cell,
            softmax=c.softmax,
            tied=c.tied,
            options=options,
            **options_of(c, RECURRENT_SHAPE),
        )

    def body_cost(self, config: Any, width: int) -> float:
        return 8 * config.n_layers * width * width

    def batches(self, model: NeuralLanguageModel, ids: np.ndarray, train: TrainConfig) -> Batches:
        from seqloom.training.batches import Carried, Separate

        if not model.carry:
            return Separate(
                ids,
                model.tokenizer.eos_id,
                batch_size=train.batch_size,
                window=train.truncation,
                carried=True,
                vary=train.random_truncation,
                seed=train.seed,
            )
        return Carried(
            ids,
            model.tokenizer.eos_id,
            batch_size=train.batch_size,
            truncation=train.truncation,
            vary=train.random_truncation,
            seed=train.seed,
        )

    def stepper(self, model: NeuralLanguageModel, network: Any) -> RecurrentStepper:
        return RecurrentStepper(network, model.tokenizer.eos_id)

    def read_traced(
        self, model: NeuralLanguageModel, ids: np.ndarray, lengths: np.ndarray, trace: Trace
    ) -> int:
        model.runtime().read(ids, offsets(lengths), trace)
        return len(ids)

    def flat_features(
        self,
        model: NeuralLanguageModel,
        network: Any,
        ids: np.ndarray,
        lengths: np.ndarray,
        max_tokens: int | None = None,
        past: Past | None = None,
    ) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        """Yield features of sequences of similar length in parallel, window by window; a row is dropped
        when its sequence ends.
        """
        import torch

        from seqloom.training.update import detached, leading

        device = next(network.parameters()).device
        eos, starts, chunk = (
            model.tokenizer.eos_id,
            np.cumsum(lengths) - lengths,
            max_tokens or CHUNK,
        )
        for group in np.array_split(longest_first(lengths), max(-(-len(lengths) // ROWS), 1)):
            state, before = (past.state, past.ids) if past else (None, ids[:0])
            for offset in range(0, int(lengths[group].max(initial=0)), chunk):
                group = group[lengths[group] > offset]
                sizes = np.minimum(lengths[group] - offset, chunk)
                positions = (
                    starts[group][:, None]
                    + offset
                    + np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
                )  # (B, T)
                targets = ids[positions].astype(np.int64)
                inputs = np.roll(targets, 1, axis=1)
                inputs[:, 0] = (
                    ids[starts[group] + offset - 1]
                    if offset
                    else before[-1]
                    if len(before)
                    else eos
                )
                state = None if state is None else detached(leading(state, len(group)))
                features, state = network(torch.from_numpy(inputs).to(device), state)
                valid = there(sizes)
                yield positions[valid], features[torch.from_numpy(valid).to(device)]
            if past:
                past.state = detached(state)
                past.advance(ids, 1)


class RNN(NeuralLanguageModel, LanguageModel):
    """Elman's recurrent network as a language model: a state that each token changes."""

    name = "rnn"
    layers = RecurrentLayers("rnn")
    config_class = RNNConfig


class LSTM(NeuralLanguageModel, LanguageModel):
    """Long short-term memory as a language model: a recurrent network with a gated cell."""

    name = "lstm"
    layers = RecurrentLayers("lstm")
    config_class = LSTMConfig


class GRU(NeuralLanguageModel, LanguageModel):
    """Gated recurrent unit as a language model: a recurrent network with two gates and no cell."""

    name = "gru"
    layers = RecurrentLayers("gru")
    config_class = GRUConfig
