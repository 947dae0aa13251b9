"""From texts to bags of rows (words, hashed n-grams of words and, if wanted, the character n-grams of
words), and training on them.

`BagReader` finds the features of texts; `FeatureRows` says which of them have a row. Only features
that were seen in training have one: an n-gram that was never learnt adds nothing, instead of
something random, and empty buckets take no memory. `Learning` trains the matrices; the arithmetic
is in kernels/bag_classifier.py, threads and checkpoints are those of the word vectors
(models/word_vectors/learning.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, TrainingError
from seqloom.models.classification.configs import FastTextClassifierConfig
from seqloom.models.classification.features import check_texts, join, word_ids
from seqloom.models.word_vectors.learning import Passes, learn
from seqloom.models.word_vectors.windows import huffman
from seqloom.models.word_vectors.windows import rows as aligned_rows
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import SPLITTERS, Vocabulary, classes_for, padded


@dataclass(frozen=True)
class Bags:
    """The rows of many texts: rows[row_offsets[i]:row_offsets[i + 1]]."""

    rows: np.ndarray  # int32
    row_offsets: np.ndarray  # int64 (n + 1,)

    def __len__(self) -> int:
        return len(self.row_offsets) - 1


class FeatureRows:
    """Which features have a row: `numbers` (R,), ascending, uint32 (see kernels/features.py)."""

    def __init__(self, numbers: np.ndarray, max_features: int) -> None:
        """Index the features that have a row; `max_features`: how many numbers are possible."""
        from seqloom.kernels.features import mark, rank

        self.numbers = numbers
        self.bits = np.zeros(max_features // 64 + 1, np.uint64)
        self.ranks = np.zeros(max_features // 64 + 1, np.int32)
        mark(numbers, self.bits)
        rank(self.bits, self.ranks)

    @classmethod
    def seen(cls, features: Sequence[np.ndarray], max_features: int) -> FeatureRows:
        """Give a row to each feature that occurs."""
        from seqloom.kernels.features import mark, marked, rank

        bits = np.zeros(max_features // 64 + 1, np.uint64)
        for part in features:
            mark(part, bits)
        numbers = np.empty(rank(bits, np.empty(len(bits), np.int32)), np.uint32)
        marked(bits, numbers)
        return cls(numbers, max_features)

    def __len__(self) -> int:
        return len(self.numbers)

    def find(self, features: np.ndarray, row_offsets: np.ndarray) -> np.ndarray:
        """Find the rows of features, int32; features without a row are left out, and `row_offsets`
        is adjusted in place.
        """
        from seqloom.kernels.features import find_rows

        rows = np.empty(len(features), np.int32)
        return rows[: find_rows(features, row_offsets, self.bits, self.ranks, rows)]


class BagReader:
    """The features of texts, by the options of a model."""

    def __init__(self, config: FastTextClassifierConfig, tokenizer: Tokenizer) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.ids = word_ids(tokenizer)
        uses_buckets = config.ngrams > 1 or config.max_ngram > 0
        self.max_features = tokenizer.vocab_size + (config.buckets if uses_buckets else 0)
        if self.max_features >= 1 << 32:
            raise ConfigError(
                f"{tokenizer.vocab_size:,} words and {config.buckets:,} buckets are too many; give "
                f"fewer buckets"
            )
        if config.max_ngram and not self._splits():
            raise ConfigError(
                f"character n-grams need words; tokenizer {tokenizer.kind!r} has none: use "
                f"{', '.join(SPLITTERS[:2])}, or max_ngram 0"
            )

    def _splits(self) -> bool:
        return (
            isinstance(self.tokenizer._fitted, Vocabulary) and self.tokenizer.kind in SPLITTERS[:2]
        )

    def features(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of all features of the texts, uint32, and their offsets (n + 1,)."""
        from seqloom.kernels.features import list_bag_features

        c = self.config
        spelled, ends = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if c.max_ngram:
            ids, spelled, ends = self.spell(texts)
        else:
            ids = self.ids[self.tokenizer.encode_block(join(texts), True)]
        out, row_offsets = (
            np.empty(len(ids) * c.ngrams + len(spelled), np.uint32),
            np.zeros(len(texts) + 1, np.int64),
        )
        n = list_bag_features(
            ids,
            self.tokenizer.eos_id,
            c.ngrams,
            self.tokenizer.vocab_size,
            c.buckets,
            spelled,
            ends,
            out,
            row_offsets,
        )
        return out[:n], row_offsets

    def spell(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ids, the buckets of the character n-grams of every word, including unknown ones, and
        where each word's buckets end.
        """
        from seqloom.kernels.features import END, UNKNOWN, gather, ngram_buckets
        from seqloom.kernels.tokens import find_tokens, split_tokens

        c, vocabulary, kind = self.config, self.tokenizer._fitted, self.tokenizer.kind
        assert isinstance(vocabulary, Vocabulary)
        blob = join(texts)
        blob = (
            blob if self.tokenizer.normalizer is None else self.tokenizer.normalizer.of_bytes(blob)
        )
        data, starts, stops = (
            padded(blob),
            np.empty(len(blob) + 1, np.int64),
            np.empty(len(blob) + 1, np.int64),
        )
        n, _ = split_tokens(
            data, len(blob), 0, SPLITTERS.index(kind), True, classes_for(kind), starts, stops
        )
        starts, stops, tokens = starts[:n], stops[:n], np.empty(n, np.int64)
        find_tokens(
            data, starts, stops, vocabulary.arena, vocabulary.offsets, vocabulary.slots, tokens
        )
        ids = np.where(tokens >= 0, self.ids[np.maximum(tokens, 0)], UNKNOWN)
        at_end = starts == stops
        ids[at_end] = END
        words = np.flatnonzero(~at_end)
        arena, offsets = (
            padded(bytes(int((stops - starts).sum()))),
            np.zeros(len(words) + 1, np.int64),
        )
        gather(data, starts, stops, words, arena, offsets)
        buckets, ends = ngram_buckets(arena, offsets, c.min_ngram, c.max_ngram, c.buckets)
        all_ends = np.concatenate([[0], ends])[np.cumsum(~at_end)]
        return ids.astype(np.int32), buckets, all_ends

    def learn(
        self, texts: list[str], extra_numbers: np.ndarray | None = None
    ) -> tuple[FeatureRows, Bags]:
        """Return rows for the features of these texts (and for `extra_numbers`), and the texts as bags
        of rows.
        """
        from seqloom.kernels.parallel import parallel_map, parallel_run, text_batches

        check_texts(texts)
        parts: list[tuple[np.ndarray, np.ndarray]] = []
        with progress.task("encoding", len(texts), "texts") as bar:
            for part in parallel_map(self.features, text_batches(texts, 1 << 20)):
                parts.append(part)
                bar.advance(len(part[1]) - 1)
        rows = FeatureRows.seen(
            [part[0] for part in parts] + ([] if extra_numbers is None else [extra_numbers]),
            self.max_features,
        )
        sizes = np.cumsum([0, *(len(part[0]) for part in parts)])
        all_rows = np.empty(sizes[-1], np.int32)

        def find_rows_of_part(k: int) -> None:
            all_rows[sizes[k] : sizes[k + 1]] = rows.find(*parts[k])  # all have a row: offsets stay

        parallel_run(find_rows_of_part, range(len(parts)))
        row_offsets = np.concatenate([[0], *(low + part[1][1:] for low, part in zip(sizes, parts))])
        return rows, Bags(all_rows, row_offsets)

    def scored(
        self, texts: Sequence[str], rows: FeatureRows, score: Callable[[Bags], np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Score new texts in batches, in threads: yield the scores, and which texts have no feature
        but their end.
        """
        from seqloom.kernels.parallel import parallel_map, text_batches

        check_texts(texts)

        def work(batch: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            features, row_offsets = self.features(batch)
            bags = Bags(rows.find(features, row_offsets), row_offsets)
            return score(bags), np.diff(row_offsets) < 2

        return parallel_map(work, text_batches(texts))


# ---- bag training

# Fewer features than this are learnt by one thread: about a second, and always the same bits.
IN_ORDER = 1 << 20
_CHUNK, _MOST_CHUNKS = 1 << 16, 256  # features of a chunk, and how many there are at most
_FEW_TEXTS, _LEAST_EPOCHS, _MOST_EPOCHS = 25_000, 5, 200  # see `default_epochs`


class OutOfTime(TrainingError):
    """The time limit was reached."""


class Tree(NamedTuple):
    """The path to class c: nodes[ends[c - 1]:ends[c]]; empty without a tree."""

    ends: np.ndarray
    nodes: np.ndarray
    turns: np.ndarray


def tree_of(config: FastTextClassifierConfig, counts: np.ndarray) -> Tree:
    """Build the Huffman tree of the loss "hs", else an empty one; `counts`: how many texts each
    class has.
    """
    return Tree(*huffman(counts if config.loss == "hs" else counts[:0]))


def default_epochs(texts: int) -> int:
    """Return the number of epochs: the fewer texts, the more passes over them."""
    return min(max(_LEAST_EPOCHS, _FEW_TEXTS // max(texts, 1)), _MOST_EPOCHS)


class Learning:
    """The matrices of a classifier in training: X (R, D) of features, Y (C, D) of classes or
    (C - 1, D) of nodes.
    """

    def __init__(
        self,
        config: FastTextClassifierConfig,
        bags: Bags,
        n_rows: int,
        labels: np.ndarray,
        n_classes: int,
    ) -> None:
        from seqloom.kernels.bag_classifier import fill_random
        from seqloom.kernels.parallel import chunk_bounds, parallel_run

        self.config, self.bags, self.labels = config, bags, labels
        self.epochs = config.epochs or default_epochs(len(bags))
        self.tree = tree_of(config, np.bincount(labels, minlength=n_classes))
        self.X = aligned_rows(n_rows, config.dimensions)
        self.Y = aligned_rows(
            max(n_classes - 1, 1) if config.loss == "hs" else n_classes, config.dimensions
        )
        seed = np.uint64((config.seed * 0x9E3779B97F4A7C15 + 0x94D049BB133111EB) & (1 << 64) - 1)
        parallel_run(
            lambda part: fill_random(self.X[part[0] : part[1]], config.dimensions, part[0], seed),
            chunk_bounds(n_rows, 1 << 16),
        )
        self._orders: dict[int, np.ndarray] = {}

    def run(
        self, run: Path | None, facts: dict[str, Any], deadline: float = math.inf
    ) -> tuple[list[float], bool]:
        """Train, and return the mean loss of every epoch and whether training was completed; Ctrl-C
        without `run` ends it early.

        `deadline`: when OutOfTime is raised, by time.monotonic.
        """
        from seqloom.kernels.bag_classifier import train

        c, bags, n = self.config, self.bags, len(self.bags)
        chunks = min(max(len(bags.rows) // _CHUNK, 1), _MOST_CHUNKS, n)
        bounds = np.linspace(0, n, chunks + 1).astype(np.int64)
        total, done = self.epochs * chunks, 0

        def work(epoch: int, chunk: int) -> tuple[float, int]:
            nonlocal done
            if time.monotonic() > deadline:
                raise OutOfTime("the time is over")
            step = epoch * chunks + chunk
            done = max(done, step + 1)
            order = self._order(epoch)[bounds[chunk] : bounds[chunk + 1]]
            first, last = (c.lr * (1 - done_steps / total) for done_steps in (step, step + 1))
            return train(
                order,
                bags.rows,
                bags.row_offsets,
                self.labels,
                self.X,
                self.Y,
                *self.tree,
                first,
                last,
            )

        passes = Passes("training", np.diff(bounds).tolist(), self.epochs, "texts")
        losses = learn(
            passes,
            work,
            {"input": self.X, "output": self.Y},
            run=run,
            facts=facts,
            deterministic=c.deterministic or len(bags.rows) < IN_ORDER,
        )
        return losses, done == total or run is not None

    def _order(self, epoch: int) -> np.ndarray:
        """Return the texts in an order that differs in every epoch: files are often sorted by class."""
        order = self._orders.get(epoch)
        if order is None:
            order = np.random.default_rng([self.config.seed, epoch]).permutation(len(self.bags))
            self._orders = {k: v for k, v in self._orders.items() if k >= epoch - 1} | {
                epoch: order
            }
        return order

    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """Return X and Y as they are saved, without the padding of rows; X is overwritten."""
        from seqloom.kernels.bag_classifier import narrow

        n, wide = self.X.shape
        width = self.config.dimensions
        flat = self.X.reshape(-1)
        if wide != width:
            narrow(flat, n, wide, width)
        return flat[: n * width].reshape(n, width), self.Y[:, :width].copy()
