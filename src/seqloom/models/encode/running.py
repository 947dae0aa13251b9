"""An encoder over many texts, the answers in the order asked: without torch side by side, with it by like lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seqloom.models.encode.configs import SHAPE, EncoderLayout
from seqloom.models.encode.inputs import TOGETHER, Input, batches, pad_together
from seqloom.models.network.configs import options_of
from seqloom.runtime.bert import BertNet
from seqloom.runtime.declarations import Shapes, shapes_of
from seqloom.runtime.weights import Recorder, Weights

if TYPE_CHECKING:
    import torch

    from seqloom.nn import bert


GROUP = 256  # tokens that go through the network together: enough for the products, few enough to stay in the cache


def take_encoder(
    weights: Weights, c: EncoderLayout, vocab_size: int, *, blocks: Weights | None = None
) -> BertNet:
    """Take the encoder with this layout; `blocks`: where the weights of its blocks are, if elsewhere."""
    return BertNet(
        weights,
        vocab_size,
        c.context,
        c.d_model,
        c.n_layers,
        c.n_heads,
        blocks=blocks,
        **options_of(c, SHAPE),
    )


def encoder_shapes(layout: EncoderLayout, vocab_size: int) -> Shapes:
    """Return the shapes of an encoder's weights by name, without a head."""
    recorder = Recorder()
    take_encoder(recorder, layout, vocab_size)
    return shapes_of(recorder.declared)


def read_inputs(network: BertNet, inputs: Sequence[Input]) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors (N, D) of all tokens of these texts, and the offsets (B + 1,) of the texts."""
    offsets = np.zeros(len(inputs) + 1, np.int64)
    np.cumsum([len(one.ids) for one in inputs], out=offsets[1:])
    ids, types = (np.concatenate(part) for part in zip(*inputs))
    return network(ids, offsets, types), offsets


def groups(inputs: Sequence[Input]) -> Iterator[Sequence[Input]]:
    """Yield neighbouring texts that are read together; where they are divided depends on the texts alone."""
    start = tokens = 0
    for i, one in enumerate(inputs):
        if i > start and tokens + len(one.ids) > GROUP:
            yield inputs[start:i]
            start, tokens = i, 0
        tokens += len(one.ids)
    if start < len(inputs):
        yield inputs[start:]


class Read(NamedTuple):
    """What an encoder made of some texts at once."""

    places: list[int]  # of the texts among those asked
    hidden: torch.Tensor  # (B, T, D), on the network's device; padded on the right
    keep: torch.Tensor | None  # bool (B, T), False where padded; None: nowhere


def read(
    network: bert.BertNet, inputs: Sequence[Input], pad: int, together: int = TOGETHER
) -> Iterator[Read]:
    """The vectors of the last layer, batch by batch. With gradients unless the caller turns them off."""
    import torch

    device = network.embedding.weight.device
    for places in batches([len(one.ids) for one in inputs], together):
        ids, types, keep = pad_together((inputs[place] for place in places), pad)
        kept = None if keep is None else torch.from_numpy(keep).to(device)
        yield Read(
            places,
            network(torch.from_numpy(ids).to(device), torch.from_numpy(types).to(device), kept),
            kept,
        )


def hidden_states(network: bert.BertNet, inputs: Sequence[Input], pad: int) -> list[np.ndarray]:
    """The vectors (T, D) of each text, those of its marks included."""
    import torch

    found: list[np.ndarray] = [np.empty((0, 0), np.float32)] * len(inputs)
    with torch.inference_mode():
        for places, hidden, _ in read(network, inputs, pad):
            rows = hidden.float().cpu().numpy()
            for row, place in enumerate(places):
                found[place] = rows[row, : len(inputs[place].ids)].copy()
    return found
