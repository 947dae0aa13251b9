"""Training on windows, which word2vec and fastText share: subsampling, noise words, the tree of
hierarchical softmax, chunks of the text. The arithmetic is in kernels/word2vec.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.models.word_vectors.configs import WindowConfig
from seqloom.models.word_vectors.learning import Passes, learn
from seqloom.models.word_vectors.reading import END, WordStream, aligned, combined
from seqloom.models.word_vectors.words import Words

_FULL = 2**32 - 1


def keep_thresholds(counts: np.ndarray, sample: float) -> np.ndarray:
    """Return thresholds, uint32 (V,): a word is read if 32 random bits are not above its threshold.

    A word with share f is read with probability sqrt(sample / f) + sample / f, as in the program
    word2vec (its paper drops it with probability 1 - sqrt(sample / f)).
    """
    if sample == 0:
        return np.full(len(counts), _FULL, np.uint32)
    ratio = sample * counts.sum() / np.maximum(counts, 1)
    return (np.minimum(np.sqrt(ratio) + ratio, 1.0) * _FULL).astype(np.uint32)


def alias_table(counts: np.ndarray, exponent: float) -> tuple[np.ndarray, np.ndarray]:
    """Build the table of Walker's alias method for count^exponent: (alias int32, cut uint32), each
    (V,).

    Draw k uniformly and 32 more bits; the word is k if these are not above cut[k], else alias[k].
    """
    from seqloom.kernels.sampling import fill_alias

    seen = np.maximum(counts, 1).astype(np.float64)
    weights = np.exp(
        exponent * (np.log(seen) - np.log(seen.max(initial=1)))
    )  # 1 for the most frequent
    alias, share = (
        np.arange(len(counts), dtype=np.int32),
        weights / max(weights.sum(), 1e-300) * len(counts),
    )
    fill_alias(share, alias)
    return alias, (np.minimum(share, 1.0) * _FULL).astype(np.uint32)


def huffman(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the path from the root to every word in the Huffman tree, where frequent words have
    short paths.

    (ends int64 (V,), nodes int32, turns int8): word w passes nodes[ends[w - 1]:ends[w]], of V - 1,
    and turns 1 or 0 there.
    """
    from seqloom.kernels.sampling import build_tree, fill_paths

    size = len(counts)
    if size < 2:
        return np.zeros(size, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8)
    order = np.argsort(-counts, kind="stable")
    parents, turns = np.zeros(2 * size - 1, np.int64), np.zeros(2 * size - 1, np.int8)
    build_tree(counts[order].astype(np.int64), parents, turns)
    leaf = np.empty(size, np.int64)
    leaf[order] = np.arange(size)
    ends = np.empty(size, np.int64)
    total = fill_paths(parents, turns, leaf, ends, np.zeros(0, np.int32), np.zeros(0, np.int8))
    nodes, path_turns = np.empty(total, np.int32), np.empty(total, np.int8)
    fill_paths(parents, turns, leaf, ends, nodes, path_turns)
    return ends, nodes, path_turns


# ---- windows

CHUNK, CHUNKS = 1 << 15, 64  # ids of a chunk; minimum number of chunks if the text is long enough
LEAST_CHUNK = 256
LEAST_PIECE = 1024  # ids from one region, at the ends of which windows are cut
# Regions of a long text in one chunk; rows that many words share forget sooner.
WORD_REGIONS, NGRAM_REGIONS = 3, 12
LAST_RATE = 1e-4  # share of the initial learning rate at the end

KINDS = ("mean", "sum", "weighted", "attention", "own")  # the numbers of kernels/word2vec.py
NO_WEIGHTS = np.zeros(0, np.float32)
_MASK = (1 << 64) - 1


class Bags(NamedTuple):
    """The rows of each word, rows[ends[w - 1]:ends[w]], and how they become one vector."""

    ends: np.ndarray  # int64 (V,)
    rows: np.ndarray  # int32
    longest: int  # maximum number of rows of a word
    kind: int  # MEAN, SUM, WEIGHTED, ATTENTION or OWN of kernels/word2vec.py
    weights: np.ndarray  # float32, of every row, where the kind has weights


@dataclass(frozen=True)
class WordRows:
    """Rows of the input matrix: one for each word. Immutable: a model replaces it."""

    config: Any
    own: bool = True  # whether every word has a row

    def bags(self, words: Words) -> tuple[Bags, np.ndarray]:
        """Return the rows of each word, and the buckets of n-grams that have rows."""
        size, kind = len(words), KINDS.index("own")
        return Bags(
            np.arange(1, size + 1), np.arange(size, dtype=np.int32), 1, kind, NO_WEIGHTS
        ), np.zeros(0, np.int64)

    def copy_ngrams(
        self,
        earlier: Self,
        earlier_rows: np.ndarray,
        bags: Bags,
        buckets: np.ndarray,
        inputs: np.ndarray,
    ) -> None:
        """Copy the rows of n-grams of an earlier model."""

    def learnt(self, table: np.ndarray, bags: Bags, buckets: np.ndarray) -> Self:
        """Return the layout after training."""
        return self

    def reordered(self, order: np.ndarray) -> Self:
        return self

    def vectors(self, table: np.ndarray, output: np.ndarray) -> np.ndarray:
        """Return the vector of each word (V, D)."""
        return combined(self.config.vectors, table, output)

    def unseen(self, table: np.ndarray, words: list[str]) -> np.ndarray | None:
        """Return vectors of words without a row, if the layout can make them."""
        return None

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return {"input": Spec("float32", (length("offsets") - 1, self.config.dimensions))}

    def restored(self, arrays: dict[str, np.ndarray]) -> Self:
        return self


class Outputs(NamedTuple):
    """What predicting a word needs: noise by Walker's alias method, or its path in a Huffman tree."""

    kind: int  # NEGATIVE, TREE or ALL
    longest: int  # maximum number of output rows of a word
    negatives: int
    alias: np.ndarray  # int32 (V,)
    cut: np.ndarray  # uint32 (V,)
    ends: np.ndarray  # int64 (V,)
    nodes: np.ndarray  # int32
    turns: np.ndarray  # int8, the target of each node


class Chunks(NamedTuple):
    """Chunks of a text. A long text is divided into regions and a chunk has a piece of each, so that no
    topic dominates the vectors for long; a short one is read from beginning to end.
    """

    total: int  # ids of the text
    n_regions: int
    piece: int  # ids of a chunk from one region

    @classmethod
    def of(cls, total: int, n_regions: int) -> Chunks:
        size = max(LEAST_CHUNK, min(CHUNK, total // CHUNKS))
        return (
            cls(total, n_regions, size // n_regions)
            if size >= n_regions * LEAST_PIECE
            else cls(total, 1, size)
        )

    @property
    def _region(self) -> int:
        return -(-self.total // self.n_regions)

    @property
    def number(self) -> int:
        return -(-self._region // self.piece)

    def _bounds(self, chunk: int) -> list[tuple[int, int]]:
        starts = [i * self._region for i in range(self.n_regions)]
        ends = [min(start + self._region, self.total) for start in starts]
        low, high = chunk * self.piece, (chunk + 1) * self.piece
        return [(min(start + low, end), min(start + high, end)) for start, end in zip(starts, ends)]

    def size(self, chunk: int) -> int:
        return sum(high - low for low, high in self._bounds(chunk))

    def ids(self, ids: np.ndarray, chunk: int) -> np.ndarray:
        end = np.array([END], np.uint32)
        return np.concatenate(
            [piece_ids for low, high in self._bounds(chunk) for piece_ids in (ids[low:high], end)]
        )


def make_outputs(counts: np.ndarray, loss: str, negatives: int, noise_exponent: float) -> Outputs:
    noise = alias_table(counts if loss == "ns" else counts[:0], noise_exponent)
    tree = huffman(counts if loss == "hs" else counts[:0])
    longest = int(np.diff(tree[0], prepend=0).max()) if loss == "hs" else 1 + negatives
    return Outputs(("ns", "hs", "softmax").index(loss), longest, negatives, *noise, *tree)


def tables() -> tuple[np.ndarray, np.ndarray]:
    """Return tables of sigmoid and softplus (log(1 + e^x)) for the kernel, at the edges of its cells."""
    from seqloom.kernels.word2vec import BOUND, CELLS

    x = np.linspace(-BOUND, BOUND, CELLS + 1)
    return (1 / (1 + np.exp(-x))).astype(np.float32), np.log1p(np.exp(x)).astype(np.float32)


def train_windows(
    stream: WordStream,
    bags: Bags,
    inputs: np.ndarray,
    outputs: np.ndarray,
    noise_counts: np.ndarray,
    config: WindowConfig,
    *,
    run: Path | None,
    facts: dict[str, Any],
) -> list[float]:
    """Update `inputs` and `outputs` (see `rows`) in place; return the mean loss of each epoch.

    The loss is that of one prediction: of the word and its negatives (ns), or -log p(word) (hs,
    softmax).
    """
    from seqloom.kernels.word2vec import train

    c = config
    target, (sigmoid, softplus) = (
        make_outputs(noise_counts, c.loss, c.negatives, c.noise_exponent),
        tables(),
    )
    keep = keep_thresholds(stream.counts, c.sample)
    chunks = Chunks.of(
        len(stream.ids), WORD_REGIONS if bags.kind == KINDS.index("own") else NGRAM_REGIONS
    )

    def work(epoch: int, chunk: int) -> tuple[float, int]:
        step = epoch * chunks.number + chunk
        rate = c.rate * max(1 - step / (c.epochs * chunks.number), LAST_RATE)
        return train(
            chunks.ids(stream.ids, chunk),
            c.architecture == "cbow",
            inputs,
            bags,
            outputs,
            target,
            keep,
            c.window,
            c.shrink,
            np.float32(rate),
            np.uint64(_mix(c.seed, step)),
            sigmoid,
            softplus,
        )

    arrays = {"input": inputs, "output": outputs} | (
        {"weights": bags.weights} if len(bags.weights) else {}
    )
    passes = Passes("training vectors", [chunks.size(i) for i in range(chunks.number)], c.epochs)
    return learn(passes, work, arrays, deterministic=c.deterministic, run=run, facts=facts)


def rows(n: int, dimensions: int) -> np.ndarray:
    """Return zeros (n, dimensions plus padding), each row at the start of a cache line."""
    from seqloom.kernels.word2vec import LANES

    width = -(-dimensions // LANES) * LANES
    return aligned(n * width).reshape(n, width)


def random_rows(n: int, dimensions: int, seed: int) -> np.ndarray:
    """Return initial input vectors: small, and different for every word."""
    vectors, random = (
        rows(n, dimensions),
        np.random.default_rng(seed).random((n, dimensions), np.float32),
    )
    random -= np.float32(0.5)
    np.multiply(random, np.float32(2 / dimensions), out=vectors[:, :dimensions])
    return vectors


def output_rows(config: WindowConfig, n_words: int) -> np.ndarray:
    """Return zeros for every word, or for every inner node of the tree."""
    return rows(max(n_words - 1, 1) if config.loss == "hs" else n_words, config.dimensions)


def _mix(seed: int, step: int) -> int:
    """Return 64 bits that differ for every pair (splitmix64); never 0, where the generator would stay."""
    z = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) or 1
