"""Texts as an encoder reads them: ids with the marks around one text or a pair, the type of each
token, and batches; and an encoder run over many texts.

One text is [CLS] a [SEP], a pair [CLS] a [SEP] b [SEP], in which the tokens of b and the last mark
are of the second type. RoBERTa puts two marks between the texts of a pair and has no types. Without
torch the texts are read without padding, in parallel; with it in batches of similar length. Results
are in the order of the texts.
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
from seqloom.traces import Trace, Traced, by_text

if TYPE_CHECKING:
    import torch

    from seqloom.nn import bert
    from seqloom.text.tokenizer import Tokenizer


TOKENS_PER_PASS = 1 << 13  # tokens, padding included, that are read in one pass

MARKS: dict[str, Kind] = {
    "cls": natural,
    "sep": natural,
    "pad": natural,
    "mask": optional(natural),
    "separators": one_of(1, 2),
}


class Input(NamedTuple):
    """One text or pair as the network reads it."""

    ids: np.ndarray  # int64 (T,)
    types: np.ndarray  # int64 (T,)


class Marks(NamedTuple):
    """Ids of the special tokens around texts; `separators`: how many are between the texts of a pair."""

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
        """Return the number of marks around one or two texts."""
        return 2 if texts == 1 else 2 + self.separators

    def join(self, row: Sequence[np.ndarray], n_types: int = 2) -> Input:
        """Join the ids of one or two texts with their marks; `n_types`: that of the network."""
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

    def hide(self, tokens: Input) -> Input:
        """Replace HIDDEN tokens by the mask token."""
        hidden = tokens.ids == HIDDEN
        if self.mask is None and hidden.any():
            raise DataError(
                "a token is hidden in the text, and this model has no mask token for it"
            )
        return tokens._replace(ids=np.where(hidden, self.mask or 0, tokens.ids))


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
    """Return ids and types (B, T) of rows padded on the right, and a mask of tokens, None where
    nothing was padded.
    """
    (ids, keep), (types, _) = (pad(part, value) for part, value in zip(zip(*inputs), (mark, 0)))
    return ids, types, None if keep.all() else keep


# ---- running

# tokens that go through the network together: enough for efficient matrix products, few enough for
# the processor's cache
GROUP = 256


def take_encoder(
    weights: Weights, c: EncoderLayout, vocab_size: int, *, blocks: Weights | None = None
) -> BertNet:
    """Take the encoder with this layout from weights; `blocks`: the weights of its blocks, if elsewhere."""
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
    row_offsets = offsets([len(each.ids) for each in inputs])
    ids, types = (np.concatenate(part) for part in zip(*inputs))
    return network(ids, row_offsets, types), row_offsets


def traced(network: BertNet, text: Input, tokenizer: Tokenizer, patterns: Sequence[str]) -> Traced:
    """Return what the network computes while it reads one text, and its tokens."""
    trace = Trace(*patterns)
    network(text.ids, np.array([0, len(text.ids)]), text.types, trace)
    return Traced([tokenizer.token(token) for token in text.ids.tolist()], by_text(trace))


def groups(inputs: Sequence[Input]) -> list[Sequence[Input]]:
    """Return groups of neighbouring texts that are read together; the division depends on the texts alone."""
    return [inputs[low:high] for low, high in runs([len(each.ids) for each in inputs], GROUP)]


class Read(NamedTuple):
    """The output of an encoder for one batch of texts."""

    indices: np.ndarray  # of the texts among all inputs
    hidden: torch.Tensor  # (B, T, D), on the network's device; padded on the right
    keep: torch.Tensor | None  # bool (B, T), False where padded; None: no padding


def read(
    network: bert.BertNet, inputs: Sequence[Input], mark: int, together: int = TOKENS_PER_PASS
) -> Iterator[Read]:
    """Yield the vectors of the last layer, batch by batch, with gradients unless the caller turns
    them off.
    """
    import torch

    device = network.embedding.weight.device
    for indices in like_lengths([len(each.ids) for each in inputs], together):
        ids, types, keep = pad_together([inputs[index] for index in indices], mark)
        keep_tensor = None if keep is None else torch.from_numpy(keep).to(device)
        yield Read(
            indices,
            network(
                torch.from_numpy(ids).to(device), torch.from_numpy(types).to(device), keep_tensor
            ),
            keep_tensor,
        )


def hidden_states(network: bert.BertNet, inputs: Sequence[Input], mark: int) -> list[np.ndarray]:
    """Return the vectors (T, D) of each text, those of its marks included."""
    import torch

    vectors: list[np.ndarray] = [np.empty((0, 0), np.float32)] * len(inputs)
    with torch.inference_mode():
        for indices, hidden, _ in read(network, inputs, mark):
            rows = hidden.float().cpu().numpy()
            for row, index in enumerate(indices):
                vectors[index] = rows[row, : len(inputs[index].ids)].copy()
    return vectors
