"""GloVe: vectors whose dot products approximate log co-occurrence counts (Pennington, Socher and
Manning 2014).

Minimises the sum over all cells of f(x) (w.c + b_w + b_c - log x)^2 / 2, f(x) = min((x /
x_max)^alpha, 1): equations 8 and 9, by AdaGrad, cell by cell. The reported loss is this sum divided
by the number of cells, each before its update, as in the authors' program.

The order of cells is not that of the paper. Words are divided into P parts, so that cells fall into
P x P blocks whose rows fit into the cache. The P blocks (p, p + s) of round s share neither words nor
contexts, so threads work on them in parallel and the result is bit for bit the same for any number
of threads (Gemulla et al. 2011, "Large-scale matrix factorization with distributed stochastic
gradient descent"). A visit takes only a share of the cells of a block, because quality suffers when
a word sees the same contexts for long; an epoch consists of several sweeps over all blocks. Parts,
rounds and the cells of a block are shuffled each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.word_vectors import Embedder
from seqloom.errors import ConfigError
from seqloom.kernels.parallel import parallel_map, parallel_run
from seqloom.models.word_vectors.configs import GloveConfig
from seqloom.models.word_vectors.cooccurrence import Cells, count_cells
from seqloom.models.word_vectors.learning import Passes, learn
from seqloom.models.word_vectors.reading import aligned, combined
from seqloom.models.word_vectors.trained import TrainedVectors, TrainingText
from seqloom.models.workspace import Workspace

PART_BYTES = 5 << 19  # of the rows of a part: two parts per thread stay in the cache
MOST_WORDS = 1 << 16  # of a part: indices in it have 16 bits
# This many parts, for many threads, if there are so many cells for each.
PARTS, PART_CELLS = 24, 1 << 16
SWEEPS = 8  # over all blocks in an epoch
LANES = 8  # of a vector register; widths of rows are multiples
SHARES = 32  # of the cells that are sorted into blocks in parallel

Which = Literal["input", "output", "sum"]


class Glove(TrainedVectors, Embedder):
    name = "glove"
    config_class = GloveConfig
    biases: np.ndarray  # float32 (2, V), of words and of contexts

    def label(self) -> str:
        return f"glove{self.config.dimensions}"

    def _learn(
        self, text: TrainingText, options: FitOptions, earlier: Self | None, facts: dict[str, Any]
    ) -> None:
        """Learn from the pairs of the text, from the words, contexts and biases of an earlier model if
        there is one; AdaGrad starts anew.
        """
        c, stream = self.config, text.stream
        if c.alpha == 0 and c.x_max != GloveConfig().x_max:
            raise ConfigError(
                "x_max has no effect with alpha 0, where all pairs weigh the same; leave x_max out"
            )
        cells = count_cells(
            stream.ids,
            len(stream.words),
            window=c.window,
            symmetric=c.symmetric,
            weighting=c.weighting,
            memory=options.memory,
        )
        learning = Factorisation(cells, c, options.memory)
        self.fit_info["cells"] = cells.count
        del cells
        if earlier is not None:
            learning.begin(text.earlier_index, earlier.input, earlier.output, earlier.biases)
        passes = Passes(
            "learning vectors", learning.rounds(), c.epochs, "cells", "weighted squares per pair"
        )
        losses = learn(
            passes,
            learning.round,
            learning.tables,
            deterministic=True,
            run=options.run,
            facts=facts,
        )
        self.input, self.output, self.biases = learning.result()
        self.fit_info |= {"epochs": len(losses), "losses": losses}

    def _reorder(self, order: np.ndarray) -> None:
        super()._reorder(order)
        self.biases = self.biases[:, order]

    # ---- what it learnt

    def matrix(self, which: Which) -> np.ndarray:
        """Return w, c or w + c of every word, (V, D)."""
        self.check_fitted()
        if which not in ("input", "output", "sum"):
            raise ConfigError(f"vectors must be one of input, output, sum; got {which!r}")
        return combined(which, self.input, self.output)

    @property
    def parameters(self) -> int:
        return 2 * self.input.size + self.biases.size if self.fitted else 0

    def arrays(self) -> dict[str, np.ndarray]:
        return {**super().arrays(), "biases": self.biases}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return {
            **super().array_specs(length),
            "biases": Spec("float32", (2, length("offsets") - 1)),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        super().restore_arrays(arrays)
        self.biases = arrays["biases"]


class Factorisation:
    """The cells in blocks, and the two tables that are learnt; `kernels/glove.py` has their layout."""

    def __init__(self, cells: Cells, config: GloveConfig, memory: int | None = None) -> None:
        self.config, self.vocab_size = config, len(cells.offsets) - 1
        self.width = -(-(config.dimensions + 2) // LANES) * LANES
        self.parts = max(
            -(-self.vocab_size * self.width * 8 // PART_BYTES),
            -(-self.vocab_size // MOST_WORDS),
            min(PARTS, len(cells.columns) // PART_CELLS + 1, self.vocab_size),
        )
        self.part = -(-self.vocab_size // self.parts)  # words of a part
        self.blocks = Blocks.of(cells, self.parts, config, memory)
        ids = np.arange(self.vocab_size)
        self.row_of_word = ids % self.parts * self.part + ids // self.parts
        draw = np.random.default_rng(config.seed)
        d = config.dimensions
        self.tables = {
            "words": self._table(draw, d, d + 1),
            "contexts": self._table(draw, d + 1, d),
        }
        self.starts = self._starts(d, d + 1), self._starts(d + 1, d)

    def _table(self, draw: np.random.Generator, bias_column: int, one_column: int) -> np.ndarray:
        """Make a table of small random vectors and biases."""
        d, rows = self.config.dimensions, self.parts * self.part
        table = aligned(rows * 2 * self.width)
        shaped = table.reshape(rows, 2 * self.width)
        shaped[self.row_of_word, :d] = (draw.random((self.vocab_size, d), np.float32) - 0.5) / d
        shaped[self.row_of_word, bias_column] = (draw.random(self.vocab_size, np.float32) - 0.5) / d
        shaped[:, one_column] = 1
        return table

    def begin(
        self, indices: np.ndarray, words: np.ndarray, contexts: np.ndarray, biases: np.ndarray
    ) -> None:
        """Start from these vectors and biases for the words at `indices`."""
        d, rows = self.config.dimensions, self.row_of_word[indices]
        for name, vectors, bias, column in (
            ("words", words, biases[0], d),
            ("contexts", contexts, biases[1], d + 1),
        ):
            table = self.tables[name].reshape(-1, 2 * self.width)
            table[rows, :d], table[rows, column] = vectors, bias

    def _starts(self, bias_column: int, one_column: int) -> np.ndarray:
        """Return the initial sums of squares: eta g / sqrt(1 + sum (eta g)^2) is
        g / sqrt(1 / eta^2 + sum g^2).
        """
        starts = np.full(self.width, 1 / self.config.lr**2, np.float32)
        starts[bias_column], starts[one_column] = 1 / self.config.bias_rate**2, np.inf
        return starts

    def rounds(self) -> list[int]:
        """Return the number of cells in each round, averaged over all orders."""
        cells, extra = divmod(self.blocks.visited, self.parts * SWEEPS)
        return [cells + (i < extra) for i in range(self.parts * SWEEPS)]

    def round(self, epoch: int, number: int) -> tuple[float, int]:
        """Train on one share of every block of one round; return (loss, cells)."""
        from seqloom.kernels.glove import train_block

        sweep, shift = divmod(number, self.parts)
        seeds = np.random.default_rng([self.config.seed, epoch]).integers(
            0, 1 << 62, (self.parts, self.parts)
        )
        draw = np.random.default_rng([self.config.seed, epoch, sweep])
        words, contexts = draw.permutation(self.parts), draw.permutation(self.parts)
        tables, b = (self.tables["words"], self.tables["contexts"]), self.blocks

        def visit(i: int) -> tuple[float, int]:
            w, c = int(words[i]), int(contexts[(i + shift) % self.parts])
            begin, end, swapped = b.where(w, c)
            low, high = ((end - begin) * k // SWEEPS for k in (sweep, sweep + 1))
            loss = train_block(
                *tables,
                self.width,
                w * self.part,
                c * self.part,
                b.pairs,
                b.facts,
                begin,
                end,
                low,
                high,
                swapped,
                *self.starts,
                seeds[w, c],
            )
            return loss, high - low

        losses, counts = zip(*parallel_map(visit, range(self.parts)))
        return sum(losses), sum(counts)

    def result(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the vectors of words, the vectors of contexts, and the biases of both."""
        d = self.config.dimensions
        w, c = (
            table.reshape(-1, 2 * self.width)[self.row_of_word] for table in self.tables.values()
        )
        return w[:, :d].copy(), c[:, :d].copy(), np.stack([w[:, d], c[:, d + 1]])


@dataclass(frozen=True)
class Blocks:
    """Cells by block, shuffled in each; block (a, b) of a symmetric matrix is also block (b, a)."""

    pairs: np.ndarray  # uint32 (3 n,)
    facts: np.ndarray  # the same memory as float32
    ends: np.ndarray  # int64 (P, P)
    sizes: np.ndarray  # int64 (P, P)
    symmetric: bool

    @classmethod
    def of(cls, cells: Cells, parts: int, config: GloveConfig, memory: int | None) -> Blocks:
        from seqloom.kernels.glove import block_sizes, fill_blocks, shuffle_block

        cuts = np.searchsorted(cells.offsets, np.linspace(0, len(cells.columns), SHARES + 1)[1:-1])
        rows = [0, *cuts.tolist(), len(cells.offsets) - 1]
        shares = list(pairwise(rows))
        counts = np.zeros((len(shares), parts, parts), np.int64)
        matrix = cells.offsets, cells.columns
        parallel_run(
            lambda i: block_sizes(*matrix, *shares[i], parts, cells.symmetric, counts[i]),
            range(len(shares)),
        )
        sizes = counts.sum(axis=0)
        ends = np.cumsum(sizes).reshape(sizes.shape)
        starts = ends - sizes + np.cumsum(counts, axis=0) - counts  # where each share writes
        room = 3 * int(sizes.sum())
        pairs = Workspace(memory, memory is not None and 8 * room > memory).empty(room, np.uint32)
        facts = pairs.view(np.float32)
        parallel_run(
            lambda i: fill_blocks(
                *matrix,
                cells.values,
                *shares[i],
                parts,
                cells.symmetric,
                config.x_max,
                config.alpha,
                starts[i],
                pairs,
                facts,
            ),
            range(len(shares)),
        )
        seeds = np.random.default_rng([config.seed, 1 << 32]).integers(0, 1 << 62, sizes.size)
        parallel_run(
            lambda i: shuffle_block(pairs, ends.flat[i] - sizes.flat[i], ends.flat[i], seeds[i]),
            range(sizes.size),
        )
        return cls(pairs, facts, ends, sizes, cells.symmetric)

    def where(self, a: int, b: int) -> tuple[int, int, bool]:
        """Return start and end of the cells of a block, and whether words and contexts are swapped."""
        swapped = self.symmetric and a > b
        block = (b, a) if swapped else (a, b)
        return int(self.ends[block] - self.sizes[block]), int(self.ends[block]), swapped

    @property
    def visited(self) -> int:
        """Return the number of cells of the whole matrix."""
        stored = int(self.sizes.sum())
        return 2 * stored - int(np.trace(self.sizes)) if self.symmetric else stored
