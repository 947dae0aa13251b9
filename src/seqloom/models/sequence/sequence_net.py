"""The torch network of a composed model, from its options and sizes, and its training task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.batching import there
from seqloom.encoder_table import find_encoder
from seqloom.errors import ConfigError
from seqloom.models.masked.encoder_net import build_encoder
from seqloom.models.sequence.configs import EncoderConfig, Sizes
from seqloom.models.sequence.inputs import Encoded
from seqloom.nn.bert import PrecomputedFeatures, split_reader_and_encoder
from seqloom.nn.encoders import Bag, Encoder
from seqloom.nn.readers import NumberReader, TokenReader
from seqloom.training.batches import Batch, Batches, Examples
from seqloom.training.config import TrainConfig
from seqloom.training.devices import Tensors
from seqloom.training.trainable import Criterion

if TYPE_CHECKING:
    from seqloom.models.network.first_layer import FirstLayer
    from seqloom.models.sequence.published import Published


PREDICT_STEPS = 1 << 13  # steps of a batch where nothing is learnt


def make_reader_and_encoder(
    c: EncoderConfig,
    sizes: Sizes,
    start: InitialWeights | None,
    published: Published | None,
    vocab_size: int,
) -> tuple[Any, Encoder]:
    """Make the reader and the encoder, with the weights of `start` or random ones; `vocab_size`:
    of a published encoder's tokenizer.
    """
    start = start or InitialWeights()
    if start.d_precomputed:
        return PrecomputedFeatures(start.d_precomputed), Bag(start.d_precomputed)
    if published is None:
        reader = make_reader(c, sizes, start)
        return reader, encoder_for(c, reader.d_out)
    layout = replace(published.layout, dropout=c.drops)
    first, encoder = split_reader_and_encoder(build_encoder(layout, vocab_size), layout.d_model)
    if start.weights is not None:
        both = nn.ModuleDict({"reader": first, "encoder": encoder})
        both.load_state_dict(
            {name: torch.from_numpy(np.array(weight)) for name, weight in start.weights.items()}
        )
    return first, encoder


def make_reader(
    c: EncoderConfig, sizes: Sizes, start: InitialWeights
) -> TokenReader | NumberReader:
    if sizes.columns:
        return NumberReader(
            sizes.columns, mean=start.mean, scale=start.scale, missing=sizes.missing
        )
    characters = None
    if c.characters != "none":
        from seqloom.nn.readers import CharacterReader

        characters = CharacterReader(
            sizes.characters, min(c.d_characters, 50), c.d_characters, kind=c.characters
        )
    reader = TokenReader(
        sizes.vocab_size,
        sizes.d_embed,
        further=sizes.further,
        characters=characters,
        d_characters=c.d_characters if characters is not None else 0,
        drop=start.drop,
        untrained=start.untrained,
        unk_id=start.unk_id,
        n_types=c.n_types,
    )
    if start.first is not None:
        start.first.fill(reader.embedding, frozen=c.pretrained_training == "frozen")
        if sizes.further:
            reader.get_buffer("further").copy_(torch.from_numpy(start.further))
    return reader


def encoder_for(c: EncoderConfig, d_in: int) -> Encoder:
    encoder: Encoder = find_encoder(c.encoder).make_network(
        d_in, c.d_hidden, c.n_layers, c.encoder_options, dropout=c.drops
    )
    return encoder


class InitialWeights:
    """What a network begins with and a restored one has in its weights: vectors, scales, probabilities
    of word dropout; the weights of a published encoder, or the width of the vectors that a frozen one
    computed once (`d_precomputed`).
    """

    def __init__(
        self,
        *,
        first: FirstLayer | None = None,
        further: np.ndarray | None = None,
        counts: np.ndarray | None = None,
        word_dropout: float = 0.0,
        unk_id: int | None = None,
        mean: np.ndarray | None = None,
        scale: np.ndarray | None = None,
        weights: Mapping[str, np.ndarray] | None = None,
        d_precomputed: int = 0,
    ) -> None:
        self.weights, self.d_precomputed = weights, d_precomputed
        self.first, self.further, self.unk_id = first, further, 0 if unk_id is None else unk_id
        self.mean = None if mean is None else torch.from_numpy(mean)
        self.scale = None if scale is None else torch.from_numpy(scale)
        self.drop: Tensor | None = None
        self.untrained = (
            torch.from_numpy(first.pretrained) if first is not None and word_dropout else None
        )
        if counts is not None and word_dropout and unk_id is not None:
            self.drop = torch.from_numpy(
                (word_dropout / (word_dropout + np.maximum(counts, 1))).astype(np.float32)
            )


def batches_of(
    network: Any, encoded: Encoded, most_steps: int = PREDICT_STEPS
) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield all examples in batches of similar length: their indices, and the batch on the network's
    device.
    """
    device = next(network.parameters()).device
    for chosen in encoded.buckets(most_steps):
        yield (
            chosen,
            {
                name: torch.from_numpy(array).to(device)
                for name, array in encoded.batch(chosen).items()
            },
        )


# ---- training

BATCH_SIZE, ENOUGH = 32, 30.0
# of a batch with its padding, so that a few very long examples fit into memory
MOST_STEPS = 1 << 14


@dataclass
class SequenceTraining:
    batches: Batches
    criterion: Criterion
    make: Callable[[], nn.Module]
    # the network and a batch to the sum of its losses
    losses: Callable[[Any, Tensors], torch.Tensor]
    # the network to the criterion on held-out data; None: nothing is held out
    held_out_score: Callable[[Any], float] | None
    counted: str = "examples"
    unit: str = "nats"
    enough_epochs: float = ENOUGH  # where the time suffices for them and the options set no number
    evaluations: int = 20  # on held-out data, at most

    def build(self) -> nn.Module:
        try:
            return self.make()
        except ValueError as error:  # options that do not go together
            raise ConfigError(str(error)) from error

    def loss(self, network: Any, batch: Tensors, state: Any) -> tuple[torch.Tensor, None]:
        return self.losses(network, batch), None

    def evaluate(self, network: nn.Module) -> float | None:
        return None if self.held_out_score is None else self.held_out_score(network)

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {}


def tagged_steps(batch: Mapping[str, Any]) -> Any:
    """Return the number of tagged steps of each example: its words, where a word is several steps."""
    return batch["word_counts"] if "word_counts" in batch else batch["lengths"]


def example_batches(
    encoded: Encoded,
    train: TrainConfig,
    targets: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> Examples:
    """Return batches of examples of similar length. `targets` of each example; without them those of
    the steps, which are among the arrays. `weights` of the examples' losses, independent of the rest
    of the batch.
    """

    def collate(chosen: np.ndarray) -> Batch:
        arrays = encoded.batch(chosen)
        if targets is not None:
            return Batch(
                {
                    **arrays,
                    "targets": targets[chosen],
                    **({} if weights is None else {"weights": weights[chosen]}),
                }
            )
        return Batch(arrays, mask=there(tagged_steps(arrays), arrays["targets"].shape[1]))

    return Examples(
        encoded.lengths,
        collate,
        batch_size=train.batch_size or BATCH_SIZE,
        most_steps=MOST_STEPS,
        seed=train.seed,
    )
