"""GloVe: vectors whose products tell how often words stand near each other (Pennington, Socher and
Manning 2014).

Minimises the sum over all cells of f(x) (w.c + b_w + b_c - log x)^2 / 2, f(x) = min((x /
x_max)^alpha, 1): equations 8 and 9, by AdaGrad, one cell after another. The loss that is reported
is this sum over the number of cells, each before it changes anything, as the authors' program
reports it.

What is not in the paper is the order. Words are dealt out to P parts, so that cells fall into P x P
blocks whose rows fit the cache. The P blocks (p, p + s) of a round s share neither words nor
contexts, so threads work on them at once and the result is the same to the bit for any number of
threads (Gemulla et al. 2011, "Large-scale matrix factorization with distributed stochastic gradient
descent"). A visit takes a share of the cells of a block, so that no word sees the same contexts for
long, which costs quality; an epoch is as many sweeps over all blocks. Parts, rounds and the cells
of a block come in another order each time.
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

PART_BYTES = 5 << 19  # of the rows of a part: two parts a thread stay in the cache
MOST_WORDS = 1 << 16  # of a part: places in it are 16 bits
PARTS, PART_CELLS = (
    24,
    1 << 16,
)  # as many parts, for many threads, where there are so many cells for each
SWEEPS = 8  # over all blocks in an epoch
LANES = 8  # numbers that the processor takes at once; rows are whole multiples
SHARES = 32  # of the cells, when they are put into blocks

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
        """Learn from the pairs of the text. With an earlier model, its words, contexts and biases are
        the starting point; AdaGrad starts anew.
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
            learning.begin(text.places, earlier.input, earlier.output, earlier.biases)
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
    """The cells in blocks, and the two tables that are learnt; see `kernels/glove.py` for what is in them."""

    def __init__(self, cells: Cells, config: GloveConfig, memory: int | None = None) -> None:
        self.config, self.vocab_size = config, len(cells.offsets) - 1
        self.width = -(-(config.dimensions + 2) // LANES) * LANES
        self.parts = max(
            -(-self.vocab_size * self.width * 8 // PART_BYTES),
            -(-self.vocab_size // MOST_WORDS),
            min(PARTS, len(cells.columns) // PART_CELLS + 1, self.vocab_size),
        )
        self.part = -(-self.vocab_size // self.parts)  # words of one
        self.blocks = Blocks.of(cells, self.parts, config, memory)
        ids = np.arange(self.vocab_size)
        self.places = ids % self.parts * self.part + ids // self.parts  # rows of the words
        draw = np.random.default_rng(config.seed)
        d = config.dimensions
        self.tables = {
            "words": self._table(draw, d, d + 1),
            "contexts": self._table(draw, d + 1, d),
        }
        self.starts = self._starts(d, d + 1), self._starts(d + 1, d)

    def _table(self, draw: np.random.Generator, bias: int, one: int) -> np.ndarray:
        """Make a table of small random vectors and biases."""
        d, rows = self.config.dimensions, self.parts * self.part
        table = aligned(rows * 2 * self.width)
        shaped = table.reshape(rows, 2 * self.width)
        shaped[self.places, :d] = (draw.random((self.vocab_size, d), np.float32) - 0.5) / d
        shaped[self.places, bias] = (draw.random(self.vocab_size, np.float32) - 0.5) / d
        shaped[:, one] = 1
        return table

    def begin(
        self, places: np.ndarray, words: np.ndarray, contexts: np.ndarray, biases: np.ndarray
    ) -> None:
        """Start from known vectors and biases for the words at `places`."""
        d, rows = self.config.dimensions, self.places[places]
        for name, known, bias, at in (
            ("words", words, biases[0], d),
            ("contexts", contexts, biases[1], d + 1),
        ):
            table = self.tables[name].reshape(-1, 2 * self.width)
            table[rows, :d], table[rows, at] = known, bias

    def _starts(self, bias: int, one: int) -> np.ndarray:
        """Return the initial sums of squares: eta g / sqrt(1 + sum (eta g)^2) is
        g / sqrt(1 / eta^2 + sum g^2).
        """
        starts = np.full(self.width, 1 / self.config.lr**2, np.float32)
        starts[bias], starts[one] = 1 / self.config.bias_rate**2, np.inf
        return starts

    def rounds(self) -> list[int]:
        """Return the number of cells in each round, averaged over all orders."""
        each, more = divmod(self.blocks.visited, self.parts * SWEEPS)
        return [each + (i < more) for i in range(self.parts * SWEEPS)]

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
        w, c = (table.reshape(-1, 2 * self.width)[self.places] for table in self.tables.values())
        return w[:, :d].copy(), c[:, :d].copy(), np.stack([w[:, d], c[:, d + 1]])


@dataclass(frozen=True)
class Blocks:
    """Cells by block, shuffled in each. Of a symmetric matrix block (a, b) is also block (b, a)."""

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
        """Return where the cells of a block start and end, and whether words and contexts are swapped."""
        swapped = self.symmetric and a > b
        at = (b, a) if swapped else (a, b)
        return int(self.ends[at] - self.sizes[at]), int(self.ends[at]), swapped

    @property
    def visited(self) -> int:
        """Return the number of cells of the whole matrix."""
        stored = int(self.sizes.sum())
        return 2 * stored - int(np.trace(self.sizes)) if self.symmetric else stored
