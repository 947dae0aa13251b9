"""Multi-head attention without torch, and the pages in which keys and values of tokens lie.

A page holds the keys and values of 64 tokens for all layers (`kernels/attention`), and their ids. A sequence
is a tuple of pages and a length. Pages are never changed where some sequence has read: a token goes into the
next free place of its sequence's last page, or, where another sequence that shares this page has taken that
place, into a copy. So states stay valid for as long as somebody has them, rows may be reordered, dropped,
doubled and joined without copying, and memory is given back by itself.
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
    """Room for 64 tokens, of which the first `filled` are taken."""

    __slots__ = ("address", "array", "filled", "ids")

    def __init__(self, numbers: int) -> None:
        self.array = np.empty(numbers + LANES, np.float32)
        self.address = self.array.ctypes.data
        self.ids = np.zeros(PAGE, np.int64)
        self.filled = 0


class Cache(NamedTuple):
    """What rows have read, as part of a Stepper's state."""

    lengths: np.ndarray  # (n,) int64
    addresses: np.ndarray  # (n, P) int64, of the pages
    pages: np.ndarray  # (n,) objects: the tuple of pages of a row, which keeps them alive


class Pages:
    """Makes and fills the pages of a network's sequences."""

    def __init__(self, n_layers: int, d_keys: int) -> None:
        self.n_layers, self.d_keys = n_layers, d_keys
        self.numbers = n_layers * 2 * d_keys * PAGE
        self._lock = threading.Lock()  # of who takes the next place in a page

    def start(self, n: int) -> Cache:
        """Return n rows that have read nothing."""
        pages = np.empty(n, object)
        pages[:] = [()] * n
        return Cache(np.zeros(n, np.int64), np.zeros((n, 0), np.int64), pages)

    def extend(self, cache: Cache, ids: Sequence[np.ndarray] | np.ndarray) -> Cache:
        """Return the rows with room for these tokens of each, which the caller then computes."""
        lengths, addresses, pages = cache
        longer = lengths + np.array([len(row) for row in ids], np.int64)
        need = -(-int(longer.max(initial=0)) // PAGE)
        changed: dict[int, tuple[Page, ...]] = {}
        with self._lock:
            for row, (tokens, length) in enumerate(zip(ids, lengths.tolist())):
                if not len(tokens):
                    continue
                held = pages[row]
                kept, at = self._with_place(held, length, len(tokens)), length // PAGE
                if kept is not held:
                    changed[row] = kept
                for page in kept[at:]:
                    low = max(length - at * PAGE, 0)
                    part = tokens[at * PAGE + low - length :][: PAGE - low]
                    page.ids[low : low + len(part)] = part
                    at += 1
        if changed:
            addresses = np.zeros((len(lengths), max(need, addresses.shape[1])), np.int64)
            addresses[:, : cache.addresses.shape[1]] = cache.addresses
            pages = pages.copy()
            for row, kept in changed.items():
                addresses[row] = 0
                addresses[row, : len(kept)] = [page.address for page in kept]
                pages[row] = kept
        return Cache(longer, addresses, pages)

    def _with_place(self, held: tuple[Page, ...], length: int, more: int) -> tuple[Page, ...]:
        """Return the pages of a row with room for so many more tokens, which are taken."""
        full, slot = divmod(length, PAGE)
        need = -(-(length + more) // PAGE)
        kept = list(held[: full + (slot > 0)])
        if slot and kept[-1].filled != slot:  # another row went on in this page
            old, copy = kept[-1], Page(self.numbers)
            copy_tokens(old.address, copy.address, self.n_layers, self.d_keys, slot)
            copy.ids[:slot] = old.ids[:slot]
            kept[-1] = copy
        kept += [Page(self.numbers) for _ in range(need - len(kept))]
        for at in range(full, need):
            kept[at].filled = min(length + more - at * PAGE, PAGE)
        same = len(kept) == len(held) and all(a is b for a, b in zip(kept, held))
        return held if same else tuple(kept)

    def ids(self, cache: Cache, row: int) -> np.ndarray:
        """Return the tokens that a row has read."""
        length = int(cache.lengths[row])
        held = cache.pages[row][: -(-length // PAGE)]
        return (
            np.concatenate([page.ids for page in held])[:length] if held else np.zeros(0, np.int64)
        )


class Scratch:
    """Pages for sequences that are read once, side by side in one array."""

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
        """Take the weights. `distances`: how many have a vector of their own; `window`: how far back a
        token sees.
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
        """Return the layer that makes only the queries, for attention to a memory."""
        return self.qkv.rows(slice(self.heads.n_heads * self.heads.d_head))

    @property
    def memory(self) -> Linear:
        """Return the layer that makes the keys and values of a memory."""
        return self.qkv.rows(
            slice(self.heads.n_heads * self.heads.d_head, None), inputs_16_bit=True
        )
