"""Multi-head attention without torch, and the pages that store keys and values of tokens.

A page holds the keys and values of 64 tokens for all layers (`kernels/attention`), and their ids. A
sequence is a tuple of pages and a length. Slots that are filled never change: a token goes into the
next free slot of its sequence's last page or, if another sequence that shares this page has taken
that slot, into a copy. So states stay valid as long as they are referenced, rows may be reordered,
dropped, doubled and joined without copying, and memory is freed by reference counting.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqloom.kernels.attention import PAGE, copy_tokens
from seqloom.kernels.matmul import LANES
from seqloom.kernels.transformer import Heads, Tokens
from seqloom.runtime.weights import Linear, Weights


class Page:
    """64 slots for tokens, the first `filled` of them taken."""

    __slots__ = ("address", "array", "filled", "ids")

    def __init__(self, numbers: int) -> None:
        self.array = np.empty(numbers + LANES, np.float32)
        self.address = self.array.ctypes.data
        self.ids = np.zeros(PAGE, np.int64)
        self.filled = 0


class Cache(NamedTuple):
    """The tokens that rows have read, as part of a Stepper's state."""

    lengths: np.ndarray  # (n,) int64
    addresses: np.ndarray  # (n, P) int64, of the pages
    pages: np.ndarray  # (n,) objects: the tuple of pages of a row, which keeps them alive


class Pages:
    """Allocates and fills the pages of a network's sequences."""

    def __init__(self, n_layers: int, d_keys: int) -> None:
        self.n_layers, self.d_keys = n_layers, d_keys
        self.numbers = n_layers * 2 * d_keys * PAGE
        self._lock = threading.Lock()  # held while slots are taken

    def start(self, n: int) -> Cache:
        """Return n rows that have read nothing."""
        pages = np.empty(n, object)
        pages[:] = [()] * n
        return Cache(np.zeros(n, np.int64), np.zeros((n, 0), np.int64), pages)

    def extend(self, cache: Cache, ids: Sequence[np.ndarray] | np.ndarray) -> Cache:
        """Return the rows with slots for these tokens of each; the caller computes keys and values."""
        lengths, addresses, pages = cache
        longer = lengths + np.array([len(row) for row in ids], np.int64)
        need = -(-int(longer.max(initial=0)) // PAGE)
        changed: dict[int, tuple[Page, ...]] = {}
        with self._lock:
            for row, (tokens, length) in enumerate(zip(ids, lengths.tolist())):
                if not len(tokens):
                    continue
                held = pages[row]
                row_pages, at = self._with_slots(held, length, len(tokens)), length // PAGE
                if row_pages is not held:
                    changed[row] = row_pages
                for page in row_pages[at:]:
                    low = max(length - at * PAGE, 0)
                    part = tokens[at * PAGE + low - length :][: PAGE - low]
                    page.ids[low : low + len(part)] = part
                    at += 1
        if changed:
            addresses = np.zeros((len(lengths), max(need, addresses.shape[1])), np.int64)
            addresses[:, : cache.addresses.shape[1]] = cache.addresses
            pages = pages.copy()
            for row, row_pages in changed.items():
                addresses[row] = 0
                addresses[row, : len(row_pages)] = [page.address for page in row_pages]
                pages[row] = row_pages
        return Cache(longer, addresses, pages)

    def _with_slots(self, held: tuple[Page, ...], length: int, more: int) -> tuple[Page, ...]:
        """Return the pages of a row with slots for `more` tokens, marked as filled."""
        full, slot = divmod(length, PAGE)
        need = -(-(length + more) // PAGE)
        extended = list(held[: full + (slot > 0)])
        if slot and extended[-1].filled != slot:  # another row has taken the slot
            old, copy = extended[-1], Page(self.numbers)
            copy_tokens(old.address, copy.address, self.n_layers, self.d_keys, slot)
            copy.ids[:slot] = old.ids[:slot]
            extended[-1] = copy
        extended += [Page(self.numbers) for _ in range(need - len(extended))]
        for at in range(full, need):
            extended[at].filled = min(length + more - at * PAGE, PAGE)
        same = len(extended) == len(held) and all(a is b for a, b in zip(extended, held))
        return held if same else tuple(extended)

    def ids(self, cache: Cache, row: int) -> np.ndarray:
        """Return the tokens that a row has read."""
        length = int(cache.lengths[row])
        held = cache.pages[row][: -(-length // PAGE)]
        return (
            np.concatenate([page.ids for page in held])[:length] if held else np.zeros(0, np.int64)
        )


class Scratch:
    """Pages for sequences that are read once, contiguous in one array."""

    def __init__(self, offsets: np.ndarray, d_keys: int, n_layers: int = 1) -> None:
        lengths = np.diff(offsets)
        counts = -(-lengths // PAGE)
        numbers = n_layers * 2 * d_keys * PAGE
        # kept while the addresses are used
        self.array = np.empty(int(counts.sum()) * numbers + LANES, np.float32)
        first = np.cumsum(counts) - counts
        pages = first[:, None] + np.arange(max(int(counts.max(initial=0)), 1))
        addresses = self.array.ctypes.data + 4 * numbers * pages
        starts = np.ascontiguousarray(offsets[:-1], np.int64)
        self.tokens = Tokens(
            addresses.astype(np.int64), starts, lengths.astype(np.int64), lengths.astype(np.int64)
        )


class Attention:
    """`nn.attention.Attention` on saved weights."""

    def __init__(
        self,
        weights: Weights,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        scaled: bool = True,
        bias: bool = True,
        distances: int = 0,
        window: int | None = None,
    ) -> None:
        """Take the weights. `distances`: number of distances with a vector each; `window`: how many
        tokens back a token attends.
        """
        d_head = d_head or d_model // n_heads
        d_queries, d_keys = n_heads * d_head, (n_kv_heads or n_heads) * d_head
        self.heads = Heads(
            n_heads,
            d_head,
            d_keys,
            np.float32(d_head**-0.5 if scaled else 1.0),
            (1 << 40) if window is None else window,
        )
        self.qkv: Linear = weights.linear("qkv", d_queries + 2 * d_keys, d_model, bias=bias)
        self.out: Linear = weights.linear("out", d_model, d_queries, bias=bias)
        self.relative = np.empty((0, d_head), np.float32)
        if distances:
            self.relative = weights.take("relative.weight", distances, d_head, role="matrix")

    @property
    def query(self) -> Linear:
        """Return the layer of the queries alone, for attention to a memory."""
        return self.qkv.rows(slice(self.heads.n_heads * self.heads.d_head))

    @property
    def memory(self) -> Linear:
        """Return the layer of the keys and values of a memory."""
        return self.qkv.rows(
            slice(self.heads.n_heads * self.heads.d_head, None), inputs_16_bit=True
        )
