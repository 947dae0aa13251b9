"""Training of the classifier over bags of rows: matrices, order of the texts, passes. The arithmetic is in
kernels/bag_classifier.py, threads and checkpoints are those of the word vectors (models/vectors/learning.py)."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom.errors import TrainingError
from seqloom.models.classify.bags import Bags
from seqloom.models.classify.configs import FastTextClassifierConfig
from seqloom.models.vectors.learning import Passes, learn
from seqloom.models.vectors.sampling import huffman
from seqloom.models.vectors.windows import rows as aligned_rows

IN_ORDER = (
    1 << 20
)  # features; fewer are learnt by one thread, which takes about a second and gives the same bits always
_CHUNK, _MOST_CHUNKS = 1 << 16, 256  # features of a chunk, and how many there are at most
_FEW_TEXTS, _LEAST_EPOCHS, _MOST_EPOCHS = 25_000, 5, 200  # see `default_epochs`


class OutOfTime(TrainingError):
    """The time that was allowed is over."""


class Tree(NamedTuple):
    """The way to class c: nodes[ends[c - 1]:ends[c]]; empty without a tree."""

    ends: np.ndarray
    nodes: np.ndarray
    turns: np.ndarray


def tree_of(config: FastTextClassifierConfig, counts: np.ndarray) -> Tree:
    """`counts`: how many texts each class has."""
    return Tree(*huffman(counts if config.loss == "hs" else counts[:0]))


def default_epochs(texts: int) -> int:
    """Passes that show enough texts: few of them are shown more often."""
    return min(max(_LEAST_EPOCHS, _FEW_TEXTS // max(texts, 1)), _MOST_EPOCHS)


class Learning:
    """The matrices of a classifier while it learns: X (R, D) of features, Y (C, D) of classes or (C - 1, D) of nodes."""

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
        """The mean loss of every epoch, and whether all was done; Ctrl-C without `run` ends it early.

        `deadline`, by time.monotonic: OutOfTime after it.
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
            first, last = (c.lr * (1 - at / total) for at in (step, step + 1))
            return train(
                order, bags.rows, bags.borders, self.labels, self.X, self.Y, *self.tree, first, last
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
        """The texts in an order that is another in every epoch: files are often sorted by class."""
        order = self._orders.get(epoch)
        if order is None:
            order = np.random.default_rng([self.config.seed, epoch]).permutation(len(self.bags))
            self._orders = {k: v for k, v in self._orders.items() if k >= epoch - 1} | {
                epoch: order
            }
        return order

    def matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """X and Y as they are saved, without the zeros at the ends of rows; what was here is used up."""
        from seqloom.kernels.bag_classifier import narrow

        n, wide = self.X.shape
        width = self.config.dimensions
        flat = self.X.reshape(-1)
        if wide != width:
            narrow(flat, n, wide, width)
        return flat[: n * width].reshape(n, width), self.Y[:, :width].copy()
