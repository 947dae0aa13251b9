"""An encoder over many texts: those of like length together, so that little is padded, and the answers in the order asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seqloom.models.encode.inputs import TOGETHER, Input, batches, pad_together

if TYPE_CHECKING:
    import torch

    from seqloom.nn.bert import BertNet


class Read(NamedTuple):
    """What an encoder made of some texts at once."""

    places: list[int]  # of the texts among those asked
    hidden: torch.Tensor  # (B, T, D), on the network's device; padded on the right
    keep: torch.Tensor | None  # bool (B, T), False where padded; None: nowhere


def read(network: BertNet, inputs: Sequence[Input], pad: int, together: int = TOGETHER) -> Iterator[Read]:
    """The vectors of the last layer, batch by batch. With gradients unless the caller turns them off."""
    import torch

    device = network.embedding.weight.device
    for places in batches([len(one.ids) for one in inputs], together):
        ids, types, keep = pad_together((inputs[place] for place in places), pad)
        kept = None if keep is None else torch.from_numpy(keep).to(device)
        yield Read(places, network(torch.from_numpy(ids).to(device), torch.from_numpy(types).to(device), kept), kept)


def hidden_states(network: BertNet, inputs: Sequence[Input], pad: int) -> list[np.ndarray]:
    """The vectors (T, D) of each text, those of its marks included."""
    import torch

    found: list[np.ndarray] = [np.empty((0, 0), np.float32)] * len(inputs)
    with torch.inference_mode():
        for places, hidden, _ in read(network, inputs, pad):
            rows = hidden.float().cpu().numpy()
            for row, place in enumerate(places):
                found[place] = rows[row, : len(inputs[place].ids)].copy()
    return found
