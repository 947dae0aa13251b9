"""An n-gram model as arrays: a back-off trie in level order (see kernels/ngram_query for its layout).

It scores, steps and gives distributions, and knows ids only, no text. `estimation` makes it from counts,
`explicit` from given probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from seqloom.errors import ModelError

SCORE_CHUNK = 1 << 17


@dataclass(frozen=True)
class Trie:
    words: np.ndarray  # uint32 (nodes): last word of each n-gram
    log_probs: np.ndarray  # float32 (nodes): natural log
    links: np.ndarray  # uint32 (nodes): where to go on after a miss
    first: np.ndarray  # uint32 (inner nodes + 1): children
    backoffs: np.ndarray  # float32 (inner nodes): natural log
    level_starts: np.ndarray  # int64 (order + 2): first node of each level, level 0 being the empty context
    chained: bool  # an unseen word asks the lower order

    @property
    def order(self) -> int:
        return len(self.level_starts) - 2

    @property
    def vocab_size(self) -> int:
        return int(self.level_starts[2] - self.level_starts[1]) - 1

    @property
    def bos_state(self) -> int:
        bos = self.vocab_size + 1
        live = self.order > 1 and (self.first[bos] < self.first[bos + 1] or self.backoffs[bos] != 0)
        return bos if live else 0

    def arrays(self) -> dict[str, np.ndarray]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "chained"}

    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]:
        return self.words, self.log_probs, self.first, self.backoffs, self.links, self.chained

    def score(self, ids: np.ndarray, eos_id: int, *, orders: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Log-probability (float32) and, with `orders`, matched order (uint8) of each id.

        Each unit ends with `eos_id` and begins in the `<s>` state.
        """
        from seqloom.kernels.ngram_query import score_span
        from seqloom.kernels.parallel import chunk_bounds, parallel_run

        ids = np.ascontiguousarray(ids, np.uint32)
        out = np.empty(len(ids), np.float32)
        nodes = np.empty(len(ids) if orders else 0, np.uint32)

        def run(span: tuple[int, int]) -> None:
            score_span(*self._tables(), ids, *span, self.order, eos_id, self.bos_state, out, nodes)

        parallel_run(run, chunk_bounds(len(ids), SCORE_CHUNK))
        return out, self.order_of(nodes)

    def order_of(self, nodes: np.ndarray) -> np.ndarray:
        return (np.searchsorted(self.level_starts, nodes, side="right") - 1).astype(np.uint8)

    def advance(self, states: np.ndarray, ids: np.ndarray) -> np.ndarray:
        from seqloom.kernels.ngram_query import step_states

        out = np.empty(len(states), np.int64)
        step_states(*self._tables(), states, np.ascontiguousarray(ids, np.int64), out)
        return out

    def distributions(self, states: np.ndarray) -> np.ndarray:
        from seqloom.kernels.ngram_query import distributions

        out = np.empty((len(states), self.vocab_size), np.float32)
        distributions(*self._tables(), self.vocab_size, states, out)
        return out


def check(trie: Trie, vocab_size: int) -> None:
    """Refuse tables that do not fit each other, so that no kernel reads outside them or runs in a circle."""
    starts, total = trie.level_starts, len(trie.words)
    inner = int(starts[-2]) if len(starts) > 2 else -1
    sound = (len(starts) > 2 and starts[0] == 0 and starts[1] == 1 and starts[-1] == total
             and bool((np.diff(starts) >= 0).all()) and trie.vocab_size == vocab_size
             and len(trie.log_probs) == len(trie.links) == total
             and len(trie.backoffs) == inner == len(trie.first) - 1 and trie.first[0] == 1 and trie.first[-1] == total)
    if sound:
        from seqloom.kernels.ngram_query import check_tables

        sound = check_tables(trie.first, trie.links, total)
    if not sound:
        raise ModelError("its tables do not fit each other: the file is damaged")
