"""Pairs as arrays: tokens or numbers of sources, tokens of targets, and batches of similar length on
both sides; the Stepper of a translation network without torch; and the preparation of training:
held-out pairs, tokenizers, and pairs that are too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.batching import cut, there
from seqloom.contracts.translations import ReadSources
from seqloom.data.examples import hashed_order
from seqloom.data.kept import Joined, KeptTexts
from seqloom.data.translation import Parallel, undivided
from seqloom.decoding.stepper import Stepper
from seqloom.errors import DataError
from seqloom.models.classification.features import check_texts, join
from seqloom.models.sequence.inputs import Encoded, in_portions
from seqloom.runtime.declarations import Examples
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.tokenizer_directory import choose_tokenizer
from seqloom.training.batches import WHOLE, Batch, Cursor, Part
from seqloom.training.batches import Examples as ExampleBatches

if TYPE_CHECKING:
    from seqloom.models.translation.model import TranslationModel


class EncodedPairs(NamedTuple):
    """Pairs, and both sides as the network reads them."""

    data: Parallel
    sources: Encoded
    targets: Encoded

    def part(self, chosen: np.ndarray) -> EncodedPairs:
        """Return some of the pairs."""
        return EncodedPairs(
            self.data.part(chosen), self.sources.part(chosen), self.targets.part(chosen)
        )


class EncodedSources(ReadSources):
    """Sources that were tokenised together."""

    model: TranslationModel  # that reads them

    @cached_property
    def encoded(self) -> Encoded:
        return self.model.encode_sources(self.sources)

    @cached_property
    def lengths(self) -> np.ndarray:
        return self.encoded.lengths - self.model.marks_of_sources

    def decoder(self, chosen: Sequence[int]) -> Stepper:
        encoded = self.encoded
        if len(chosen) < len(self.sources):  # all of them are a batch in their order
            encoded = encoded.part(np.array(chosen))
        return self.model.encoded_decoder(encoded)


def encode_texts(
    tokenizer: Tokenizer, texts: Sequence[str], *, reverse: bool = False, first: int | None = None
) -> Encoded:
    """Encode texts as ids, `</s>` at the end of each; `reverse`: the other tokens from right to left;
    `first`: a token before each text.
    """
    if isinstance(texts, KeptTexts):
        return in_portions(
            lambda some: encode_texts(tokenizer, some, reverse=reverse, first=first), texts
        )
    check_texts(texts)
    ids = tokenizer.encode_block(join(texts), True).astype(np.int64)
    row_offsets = np.concatenate([[0], np.flatnonzero(ids == tokenizer.eos_id) + 1])
    if reverse:
        for start, stop in zip(row_offsets[:-1].tolist(), row_offsets[1:].tolist()):
            ids[start : stop - 1] = ids[start : stop - 1][::-1].copy()
    if first is not None:
        ids, row_offsets = (
            np.insert(ids, row_offsets[:-1], first),
            row_offsets + np.arange(len(row_offsets)),
        )
    return Encoded({"ids": ids}, row_offsets)


def in_source_order(weights: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Put weights (n, S) over sources that were read right to left, `</s>` last, into text order.

    >>> in_source_order(np.array([[3, 2, 1, 4], [2, 1, 3, 0]]), np.array([4, 3])).tolist()
    [[1, 2, 3, 4], [1, 2, 3, 0]]
    """
    at, last = np.arange(weights.shape[1]), lengths[:, None] - 1
    return np.take_along_axis(weights, np.where(at < last, last - 1 - at, at), axis=1)


def without_start(weights: np.ndarray) -> np.ndarray:
    """Remove the first source step from weights (n, S), giving (n, S - 1); its share is spread
    over the others in proportion to their own.

    >>> without_start(np.array([[0.5, 0.125, 0.375], [1.0, 0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    others = weights[:, 1:]
    total = others.sum(1, keepdims=True)
    return np.where(total > 0, others / np.where(total > 0, total, 1), 1 / others.shape[1])


def target_arrays(
    targets: Encoded, chosen: np.ndarray, start: Sequence[int]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return `targets` (B, T) with their `inputs`, which begin with the tokens `start`, and a mask
    of the targets that are not padding. With several start tokens the inputs are longer than the
    targets, and the last input predicts the last target.
    """
    batch = targets.batch(chosen)
    ids = batch["ids"]
    inputs = np.concatenate(
        [np.tile(np.array(start, np.int64), (len(ids), 1)), ids[:, :-1]], axis=1
    )
    return {"targets": ids, "inputs": inputs}, there(batch["lengths"], ids.shape[1])


class PairBatches(ExampleBatches):
    """Batches of pairs for the training engine, in a new order in each epoch.

    A batch is padded to the longest source and the longest target in it, so pairs are sorted by the
    length of the target, and those of one target length by that of the source, alternately rising
    and falling, so that neighbours are always similar. The size of a batch is limited by its number
    of tokens with padding: a batch of short pairs has more of them.
    """

    def __init__(
        self,
        sources: Encoded,
        targets: Encoded,
        start: Sequence[int],
        *,
        most_tokens: int,
        batch_size: int | None = None,
        seed: int = 0,
    ) -> None:
        """Set what batches are made of. `start`: tokens that the decoder reads before a target;
        `most_tokens`: of both sides of a batch with its padding; `batch_size`: the number of pairs,
        instead.
        """
        super().__init__(
            np.stack([sources.lengths, targets.lengths], 1),
            self.pairs,
            batch_size=batch_size,
            most_steps=most_tokens if batch_size is None else None,
            seed=seed,
        )
        self.sources, self.targets, self.start = sources, targets, start

    def batch(self, cursor: Cursor, part: Part = WHOLE) -> Batch:
        batch = super().batch(cursor, part)
        epochs = np.array([cursor[0] + self.share(cursor)], np.float32)
        return replace(batch, arrays={**batch.arrays, "epochs": epochs})

    def pairs(self, chosen: np.ndarray) -> Batch:
        """Return the batch of these pairs."""
        arrays, mask = target_arrays(self.targets, chosen, self.start)
        return Batch({**self.sources.batch(chosen), **arrays}, mask=None if mask.all() else mask)

    def deal(self, rng: np.random.Generator) -> list[np.ndarray]:
        sources, targets = self.lengths.T
        by_source = np.where(targets % 2, sources, -sources) + rng.random(len(targets))
        order = np.lexsort((by_source, targets))
        return [order[low:high] for low, high in cut(self.lengths[order], *self.most)]

    def waste(self, epoch: int = 0) -> float:
        """Return the share of padding in all batches of an epoch."""
        filled = sum(len(group) * self.lengths[group].max(0).sum() for group in self.groups(epoch))
        return 1 - float(self.lengths.sum() / max(filled, 1))


# ---- decoder


class Decoder:
    """A Stepper for the targets of these sources, which are encoded once; row i of `start(n)` belongs
    to source i.
    """

    def __init__(
        self,
        network: Any,
        sources: Examples,
        eos_id: int,
        *,
        start: Sequence[int],
        backwards: bool = False,
    ) -> None:
        """Encode the sources with `network` of `runtime.seq2seq` or `runtime.encoder_decoder`. A
        target comes after the tokens `start`; `backwards`: sources are read from right to left.
        """
        self.network, self.eos_id, self.vocab_size = network, eos_id, network.vocab_size
        self.first, self.backwards = list(start), backwards
        self.lengths = np.diff(sources.offsets)
        self.memory = network.encode(sources)

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        """Return the states of the first n sources before their first token, and the
        log-probabilities of it.
        """
        state = self.network.start(self.memory, n)
        for token in self.first:
            features, state = self.network.step(self.memory, state, np.full(n, token))
        return state, self.network.output.log_probs(features)

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        features, state = self.network.step(self.memory, state, ids)
        return state, self.network.output.log_probs(features)

    def attention(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of the source (n, S) behind the log-probabilities that came with this
        state, of a Transformer the mean over heads and layers, and the length of each row's source
        (n,).
        """
        lengths = self.lengths[state.source]
        return in_source_order(
            state.attention_weights, lengths
        ) if self.backwards else state.attention_weights, lengths


# ---- preparing

# share of the pairs that is held out, and their number at most
HELD_OUT, MOST_HELD_OUT = 0.05, 1000
MIN_PAIRS_TO_HOLD_OUT = 50  # pairs, below which nothing is held out
SUBWORDS = ("bpe", "unigram", "wordpiece")


def hold_out(data: Parallel, valid: Parallel | None) -> tuple[Parallel, Parallel | None]:
    """Return training and held-out pairs: as given, or a few held out in hashed order, with equal
    sources kept together unless they are labels.
    """
    if valid is not None and len(valid):
        return data, valid
    if len(data) < MIN_PAIRS_TO_HOLD_OUT:
        return data, None
    order, may_begin = hashed_order(undivided(data))
    n_train = len(order) - min(round(len(order) * HELD_OUT), MOST_HELD_OUT)
    cut = next((i for i in range(n_train, len(order)) if may_begin[i]), len(order))
    if cut == len(order):
        return data, None
    progress.say(
        f"holding out {len(order) - cut:,} of {len(order):,} pairs to choose the best weights; "
        f"valid=... gives others"
    )
    return data.part(np.sort(order[:cut])), data.part(np.sort(order[cut:]))


def short_enough(pairs: EncodedPairs, max_length: int) -> EncodedPairs:
    """Return the pairs that are not longer than `max_length` on either side."""
    sources, targets, name = pairs.sources.lengths, pairs.targets.lengths, pairs.data.name
    if not sources.min():
        raise DataError(
            f"source {int(sources.argmin()) + 1} of {name} has no steps; leave this pair out"
        )
    short = np.flatnonzero(np.maximum(sources, targets) <= max_length)
    if not len(short):
        raise DataError(
            f"all pairs of {name} are longer than max_length {max_length}; give a larger one"
        )
    if len(short) == len(sources):
        return pairs
    progress.say(
        f"{len(sources) - len(short):,} of {len(sources):,} pairs have more than {max_length} tokens and are "
        "left out; max_length=... sets this"
    )
    return pairs.part(short)


def subword_size(characters: int) -> int:
    """Return the default number of subwords: twice as many for four times the text, so that each is
    seen often enough to be learnt.

    >>> subword_size(2_000_000)
    4000
    """
    return int(min(max(4000 * (characters / 2e6) ** 0.5, 500), 16_000))


def make_tokenizer(kind: str, sides: Sequence[Sequence[str]], c: Any) -> Tokenizer:
    """Return a tokenizer fitted on the texts of one or both sides, or a saved one."""
    characters = sum(sum(map(len, texts)) for texts in sides) if kind in SUBWORDS else 0
    size = c.vocab_size or (subword_size(characters) if kind in SUBWORDS else None)
    return choose_tokenizer(
        kind, Joined(sides), vocab_size=size, min_count=c.min_count, marks=c.marks
    )
