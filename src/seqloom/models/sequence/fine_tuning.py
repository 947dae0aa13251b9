"""Training on a published encoder: all of it, gently (Devlin et al. 2019, appendix A.3), layer by layer from the last one down
(Howard and Ruder 2018, section 3.3), or a head alone on vectors that the encoder gives once.

The encoder's weights know much already, so they learn at a rate of their own, far below that of the head, which is new. AdamW
takes the place of Muon unless that is asked for: making the updates of wide matrices orthogonal would cost more than the short
texts themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress
from seqloom.models.encode.running import encoder_shapes
from seqloom.models.sequence.configs import EncoderConfig
from seqloom.models.sequence.encoded import Encoded
from seqloom.models.sequence.published import Published, named
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.training.schedules import DelayedGroup

HEAD_RATE = 1e-3
MINUTES, EPOCHS = 30.0, 2.0  # at most, where nothing is said about length
EVALUATIONS = 6  # fewer than of other networks, since each costs as much as a tenth of an epoch


def fine_tuning(train: TrainConfig) -> TrainConfig:
    """The options of training with what suits an encoder where nothing else was asked for."""
    given = (train.minutes, train.steps, train.epochs) != (None, None, None)
    optimizer = train.optimizer or "adamw"
    adam = optimizer in (
        "muon",
        "adamw",
        "adam",
    )  # which all move a weight about as far at the same rate
    return replace(
        train,
        minutes=train.minutes if given else MINUTES,
        optimizer=optimizer,
        lr=HEAD_RATE if adam and train.lr is None else train.lr,
    )


def slower(published: Published, config: EncoderConfig, train: TrainConfig) -> list[DelayedGroup]:
    """The weights of the encoder, which learn at their own rate; `gradual`: one layer after the other, the last one first and
    the token vectors last, each as long after the one above it."""
    from seqloom.training.schedules import DelayedGroup

    factor = config.encoder_lr / train.rate if train.rate else 0.0
    names = [named(name) for name in encoder_shapes(published.layout, 1)]
    if not config.gradual:
        return [DelayedGroup(tuple(names), 0.0, factor)]
    layers: dict[int, list[str]] = {}  # by number; -1: what is below the first
    for name in names:
        layers.setdefault(
            int(name.split(".")[2]) if name.startswith("encoder.blocks.") else -1, []
        ).append(name)
    return [
        DelayedGroup(tuple(layers[layer]), config.frozen_for, factor, fraction=above / len(layers))
        for above, layer in enumerate(sorted(layers, reverse=True), 1)
    ]


def frozen_features(
    reader: Any, encoder: Any, device: torch.device | str, pool: Callable[[Any, Any], Any] | None
) -> Callable[[Encoded], Encoded]:
    """What turns examples into the vectors that the encoder gives: of each step; of each word, where words are several steps;
    with `pool` (vectors (R, T, D) and lengths to (R, D)) one of each row."""
    import torch

    from seqloom.models.sequence.building_net import batches_of
    from seqloom.nn.composition import SequenceNetwork

    network = SequenceNetwork(reader, encoder, torch.nn.Identity()).to(device).eval()

    def features(encoded: Encoded) -> Encoded:
        rows = encoded if encoded.words is None else encoded.words  # what the vectors belong to
        pools = pool is not None and encoded.words is None
        borders = np.arange(len(rows.borders)) if pools else rows.borders
        values = np.zeros((int(borders[-1]), encoder.d_out), np.float32)
        with progress.task("encoding", len(encoded), "examples") as bar, torch.inference_mode():
            for chosen, batch in batches_of(network, encoded):
                x, lengths = network.features(network.reader(batch), batch)
                if pools:
                    assert pool is not None
                    x, lengths = pool(x, lengths).unsqueeze(1), torch.ones_like(lengths)
                there = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device).unsqueeze(
                    1
                )
                places = [
                    np.arange(borders[rows.first_row[i]], borders[rows.first_row[i + 1]])
                    for i in chosen.tolist()
                ]
                values[np.concatenate(places)] = x[there].float().cpu().numpy()
                bar.advance(len(chosen))
        more = (
            {}
            if encoded.words is None
            else {
                name: value
                for name, value in encoded.words.steps.items()
                if name not in ("rows", "places")
            }
        )
        return Encoded({"values": values, **more}, borders, counts=rows.counts)

    return features
