"""The torch network of a translator: as a Stepper, over given targets, and in training, with the loss
of a batch of pairs and scheduled sampling.

Trained on true targets, a decoder never sees its own mistakes. Scheduled sampling (Bengio et al.
2015) replaces more and more of its inputs by its own predictions. They are drawn for all steps at
once from a first pass over the true target (Duckworth et al. 2019, "Parallel Scheduled Sampling"),
so that it costs one more pass, not a sequence of single steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.batching import like_lengths
from seqloom.models.network.output_net import summed_loss
from seqloom.models.sequence.inputs import Encoded
from seqloom.models.translation.pairs import in_source_order, target_arrays
from seqloom.traces import Trace
from seqloom.training.devices import Tensors


class NetworkState(NamedTuple):
    source: np.ndarray  # (n,) int64: index of each row's source
    inner: Any  # state of the network
    # (n, S): weights of the source steps behind the last log-probabilities; (n, 0) without
    # attention
    attention_weights: Tensor


class NetworkDecoder:
    """A Stepper for the targets of a batch of sources, which are encoded once; row i of `start(n)`
    belongs to source i. The state has the index of each row's source, so that the memory of the
    sources is not moved while a search drops, copies and reorders rows.
    """

    def __init__(
        self,
        network: Any,
        batch: Mapping[str, np.ndarray],
        vocab_size: int,
        eos_id: int,
        *,
        start: Sequence[int] | None = None,
        backwards: bool = False,
    ) -> None:
        """Encode the sources. A target comes after the tokens `start`, or else after `</s>`;
        `backwards`: sources are read from right to left.
        """
        self.network, self.vocab_size, self.eos_id, self.backwards = (
            network,
            vocab_size,
            eos_id,
            backwards,
        )
        self.first, *self.further = start or [eos_id]
        self.device = next(network.parameters()).device
        self.lengths = batch["lengths"]
        with torch.inference_mode():
            self.memory = network.encode(
                {name: torch.from_numpy(array).to(self.device) for name, array in batch.items()}
            )
        self._last_rows = np.arange(len(self.lengths)), self.memory  # the last choice of sources

    def start(self, n: int) -> tuple[NetworkState, np.ndarray]:
        source = np.arange(n)
        with torch.inference_mode():
            state, log_probs = self._advance(
                source, self.network.start(self._rows(source)), np.full(n, self.first)
            )
            for token in self.further:
                state, log_probs = self._advance(source, state.inner, np.full(n, token))
            return state, log_probs

    def step(self, state: NetworkState, ids: np.ndarray) -> tuple[NetworkState, np.ndarray]:
        with torch.inference_mode():
            return self._advance(state.source, state.inner, ids)

    def _advance(
        self, source: np.ndarray, inner: Any, ids: np.ndarray
    ) -> tuple[NetworkState, np.ndarray]:
        trace = Trace("*cross.weights")
        tokens = torch.from_numpy(np.ascontiguousarray(ids, np.int64)).to(self.device)
        features, inner = self.network.step(self._rows(source), inner, tokens, trace)
        log_probs = self.network.output.log_probs(features).float().cpu().numpy()
        weights = torch.cat(list(trace.values()), 1).mean((1, 2)) if trace else features[:, :0]
        return NetworkState(source, inner, weights), log_probs

    def _rows(self, source: np.ndarray) -> Any:
        """Return the memory of these sources, gathered again only if they differ from the step before."""
        last_source, memory = self._last_rows
        if not np.array_equal(last_source, source):
            memory = self.memory.rows(torch.from_numpy(source).to(self.device))
            self._last_rows = source.copy(), memory
        return memory

    def attention(self, state: NetworkState) -> tuple[np.ndarray, np.ndarray]:
        """Return the attention weights of the source (n, S) behind the log-probabilities that came
        with this state, the mean over heads and layers, and the length of each row's source (n,).
        """
        weights, lengths = state.attention_weights.float().cpu().numpy(), self.lengths[state.source]
        return in_source_order(weights, lengths) if self.backwards else weights, lengths


PAIRS = 256  # at most in one pass


def forced_features(
    network: Any,
    sources: Encoded,
    targets: Encoded,
    start: Sequence[int],
    most_tokens: int,
    trace: Trace | None = None,
) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """Yield batches of given targets, of at most so many tokens (teacher forcing): the indices of the
    pairs, the features of each token (N, D), and the tokens (N,). The trace has all steps, from the
    first of `start` on.
    """
    device = next(network.parameters()).device
    with torch.inference_mode():
        for chosen in like_lengths(sources.lengths + targets.lengths, most_tokens, PAIRS):
            arrays, target_mask = target_arrays(targets, chosen, start)
            batch = {
                name: torch.from_numpy(array).to(device)
                for name, array in sources.batch(chosen).items()
            }
            inputs, token_ids, mask = (
                torch.from_numpy(array).to(device)
                for array in (arrays["inputs"], arrays["targets"], target_mask)
            )
            # predictions of the further start tokens are dropped
            before = inputs.shape[1] - token_ids.shape[1]
            features = network.features(network.encode(batch), inputs, trace)[:, before:]
            yield chosen, features[mask], token_ids[mask]


# ---- training

ROWS = 1024  # positions for which predictions are drawn at a time


def pair_loss(network: Any, batch: Tensors, sampling: str = "none", half: float = 1.0) -> Tensor:
    """Return the sum of the losses of the target tokens."""
    memory, inputs = network.encode(batch.arrays), batch["inputs"]
    # inputs before the one that predicts the first target
    begin = inputs.shape[1] - batch["targets"].shape[1]
    if sampling != "none" and network.training:
        share = true_share(sampling, float(batch["epochs"][0]), half)
        inputs = mixed_inputs(network, memory, inputs, share, begin)
    return summed_loss(network.output, network.features(memory, inputs)[:, begin:], batch)


def true_share(decay: str, epochs: float, half: float) -> float:
    """Return the share of true inputs after so many epochs: 1 at first, 0.5 after `half`.

    linear: 1 - e / (2 half), down to 0; exponential: 0.5 ^ (e / half); inverse sigmoid: k / (k +
    exp(x)) with k = 100 and an x that is proportional to e.

    >>> [round(true_share("inverse-sigmoid", e, 10), 2) for e in (0, 10, 20)]
    [0.99, 0.5, 0.01]
    """
    if decay == "linear":
        return max(1.0 - epochs / (2 * half), 0.0)
    if decay == "exponential":
        return float(0.5 ** (epochs / half))
    return 1 / (1 + math.exp(min(math.log(100) * (epochs / half - 1), 700.0)))


@torch.no_grad()
def mixed_inputs(network: Any, memory: Any, inputs: Tensor, share: float, begin: int = 0) -> Tensor:
    """Return inputs (B, T): each after the first `begin` + 1 is true with probability `share`, else drawn
    from the network's prediction after the true ones before it."""
    drawn = draw(network, network.features(memory, inputs))
    predicted = torch.rand(inputs.shape, device=inputs.device) >= share
    predicted[:, : begin + 1] = False
    return torch.where(predicted, torch.roll(drawn, 1, 1), inputs)


def draw(network: Any, features: Tensor) -> Tensor:
    """Sample a token for each of features (B, T, D) by its probability."""
    flat, parts = features.flatten(0, 1), []
    for low in range(0, len(flat), ROWS):
        log_probs = network.output.log_probs(flat[low : low + ROWS])
        # the smallest of exponential variables with rates p is the one of a token with probability p
        noise = torch.empty_like(log_probs).exponential_().log_()
        parts.append((log_probs - noise).argmax(1))
    return torch.cat(parts).view(features.shape[:2])
