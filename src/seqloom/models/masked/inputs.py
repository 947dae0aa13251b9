"""Texts as an encoder reads them: ids with the marks around one text or a pair, the kind of each
token, and batches.

One text is [CLS] a [SEP], a pair [CLS] a [SEP] b [SEP], in which the tokens of b and the last mark
are of the second kind. RoBERTa puts two marks between the texts of a pair and tells them apart by
nothing else.

An encoder over many texts, the answers in the order asked: without torch side by side, with it by
like lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqloom.batching import like_lengths, offsets, pad, runs
from seqloom.contracts.saving import Kind, natural, one_of, optional
from seqloom.errors import DataError, ModelError
from seqloom.models.masked.configs import SHAPE, EncoderLayout
from seqloom.models.network.configs import options_of
from seqloom.runtime.bert import BertNet
from seqloom.runtime.declarations import Shapes, shapes_of
from seqloom.runtime.weights import Recorder, Weights
from seqloom.text.masks import HIDDEN

if TYPE_CHECKING:
    import torch

    from seqloom.nn import bert


TOKENS_PER_PASS = 1 << 13  # tokens, padding included, that are read in one pass

MARKS: dict[str, Kind] = {
    "cls": natural,
    "sep": natural,
    "pad": natural,
    "mask": optional(natural),
    "separators": one_of(1, 2),
}


class Input(NamedTuple):
    """One text or pair as the network takes it."""

    ids: np.ndarray  # int64 (T,)
    types: np.ndarray  # int64 (T,)


class Marks(NamedTuple):
    """Ids of the tokens that stand around texts; `separators`: how many stand between the texts of a pair."""

    cls: int
    sep: int
    pad: int
    mask: int | None
    separators: int

    @classmethod
    def of(cls, learnt: Mapping[str, Any], vocab_size: int) -> Marks:
        """Return the marks that a model has learnt (`MARKS`), checked against its vocabulary."""
        marks = cls(
            learnt["cls"], learnt["sep"], learnt["pad"], learnt.get("mask"), learnt["separators"]
        )
        if max(marks.cls, marks.sep, marks.pad, marks.mask or 0) >= vocab_size:
            raise ModelError(
                f"one of its marks {marks[:4]} is not in its vocabulary of {vocab_size:,}"
            )
        return marks

    def around(self, texts: int) -> int:
        """Return how many marks stand around one or two texts."""
        return 2 if texts == 1 else 2 + self.separators

    def join(self, row: Sequence[np.ndarray], n_types: int = 2) -> Input:
        """Join the ids of one or two texts with their marks; `n_types` as the network has them."""
        ids = np.array([self.cls, *row[0].tolist(), self.sep], np.int64)
        if len(row) == 1:
            return Input(ids, np.zeros_like(ids))
        ids = np.concatenate(
            [
                ids,
                np.array(
                    [*[self.sep] * (self.separators - 1), *row[1].tolist(), self.sep], np.int64
                ),
            ]
        )
        types = np.zeros_like(ids)
        if n_types > 1 and self.separators == 1:
            types[len(row[0]) + 2 :] = 1
        return Input(ids, types)

    def hide(self, given: Input) -> Input:
        """Put the mask wherever a token is HIDDEN."""
        hidden = given.ids == HIDDEN
        if self.mask is None and hidden.any():
            raise DataError(
                "a token is hidden in the text, and this model has no mask token for it"
            )
        return given._replace(ids=np.where(hidden, self.mask or 0, given.ids))


def cut_to(row: Sequence[np.ndarray], most: int) -> tuple[np.ndarray, ...]:
    """Cut one or two texts to at most so many tokens; of two, the end of the longer one goes
    first.

    >>> [part.tolist() for part in cut_to([np.arange(5), np.arange(2)], 4)]
    [[0, 1], [0, 1]]
    """
    if sum(map(len, row)) <= most:
        return tuple(row)
    if len(row) == 1:
        return (row[0][:most],)
    shorter = min(len(row[0]), len(row[1]), most // 2)
    first = shorter if len(row[0]) <= len(row[1]) else most - shorter
    return row[0][:first], row[1][: most - first]


def pad_together(
    inputs: Sequence[Input], mark: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return ids and types (B, T) of rows padded on the right, and which are tokens; None where
    nothing was padded.
    """
    (ids, keep), (types, _) = (pad(part, value) for part, value in zip(zip(*inputs), (mark, 0)))
    return ids, types, None if keep.all() else keep


# ---- running

# tokens that go through the network together: enough for the products, few enough to stay in the
# cache
GROUP = 256


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
    row_offsets = offsets([len(one.ids) for one in inputs])
    ids, types = (np.concatenate(part) for part in zip(*inputs))
    return network(ids, row_offsets, types), row_offsets


def groups(inputs: Sequence[Input]) -> list[Sequence[Input]]:
    """Return neighbouring texts that are read together; where they are divided depends on the texts alone."""
    return [inputs[low:high] for low, high in runs([len(one.ids) for one in inputs], GROUP)]


class Read(NamedTuple):
    """What an encoder made of some texts at once."""

    places: np.ndarray  # of the texts among those asked
    hidden: torch.Tensor  # (B, T, D), on the network's device; padded on the right
    keep: torch.Tensor | None  # bool (B, T), False where padded; None: nowhere


def read(
    network: bert.BertNet, inputs: Sequence[Input], mark: int, together: int = TOKENS_PER_PASS
) -> Iterator[Read]:
    """Yield the vectors of the last layer, batch by batch, with gradients unless the caller turns
    them off.
    """
    import torch

    device = network.embedding.weight.device
    for places in like_lengths([len(one.ids) for one in inputs], together):
        ids, types, keep = pad_together([inputs[place] for place in places], mark)
        kept = None if keep is None else torch.from_numpy(keep).to(device)
        yield Read(
            places,
            network(torch.from_numpy(ids).to(device), torch.from_numpy(types).to(device), kept),
            kept,
        )


def hidden_states(network: bert.BertNet, inputs: Sequence[Input], mark: int) -> list[np.ndarray]:
    """Return the vectors (T, D) of each text, those of its marks included."""
    import torch

    found: list[np.ndarray] = [np.empty((0, 0), np.float32)] * len(inputs)
    with torch.inference_mode():
        for places, hidden, _ in read(network, inputs, mark):
            rows = hidden.float().cpu().numpy()
            for row, place in enumerate(places):
                found[place] = rows[row, : len(inputs[place].ids)].copy()
    return found
