"""A long list of distinct words in three arrays that can be memory-mapped, with a hash table from words
to indices.

Bytes, offsets and hash slots, as in `text/vocabulary.py`, but without special tokens and in any
order: opening 400,000 words takes no longer than opening one. Bytes that are not UTF-8 are kept (as
lone surrogates in Python's strings), since published files have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import overload

import numpy as np

from seqloom.errors import DataError
from seqloom.text.coding import from_spelling, to_spelling
from seqloom.text.vocabulary import SPELLINGS, check_spellings, padded

_LONGEST_ASKED = 64  # bytes: LONGEST of kernels/alignment.py, which loads numba

_FIRST = np.zeros(1, np.int64)


class Words(Sequence[str]):
    def __init__(self, arena: np.ndarray, offsets: np.ndarray, slots: np.ndarray) -> None:
        self.arena, self.offsets, self.slots = arena, offsets, slots

    @classmethod
    def of(cls, words: Iterable[str]) -> Words:
        """Return a list of these words; refuse repeated ones."""
        listed = list(words)
        if not_strings := [word for word in listed if not isinstance(word, str)]:
            raise DataError(
                f"words are strings; {not_strings[0]!r} is {type(not_strings[0]).__name__}"
            )
        spelled = [to_spelling(word) for word in listed]
        offsets = np.zeros(len(spelled) + 1, np.int64)
        np.cumsum([len(s) for s in spelled], out=offsets[1:])
        table = cls.from_bytes(padded(b"".join(spelled)), offsets)
        if len(repeated := table.repeated()):
            raise DataError(
                f"the word {table[int(repeated[0])]!r} appears twice, at positions "
                f"{table.find([table[int(repeated[0])]])[0]} and {repeated[0]}; every word has one vector"
            )
        return table

    @classmethod
    def from_bytes(cls, arena: np.ndarray, offsets: np.ndarray) -> Words:
        """Return words from concatenated spellings in `arena` (with the spare bytes of `padded`)."""
        from seqloom.kernels.tokens import fill_slots

        slots = np.full(1 << (2 * len(offsets)).bit_length(), -1, np.int32)
        fill_slots(arena, offsets, 0, len(offsets) - 1, slots)
        return cls(arena, offsets, slots)

    # ---- from an index to its word

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def spelling(self, index: int) -> bytes:
        return self.arena[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def named(self, indices: Iterable[int]) -> list[str]:
        """Return the words at these indices."""
        # Memoryviews: indexing NumPy arrays would take as long as the rest.
        arena, offsets = self.arena.data, self.offsets.data
        return [from_spelling(bytes(arena[offsets[i] : offsets[i + 1]])) for i in indices]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"position {index} is out of range for {len(self):,} words")
        return from_spelling(self.spelling(index % len(self)))

    def __iter__(self) -> Iterator[str]:
        blob, ends = self.arena.tobytes(), self.offsets.tolist()
        return (from_spelling(blob[low:high]) for low, high in pairwise(ends))

    # ---- from a word to its index

    def find(self, words: Sequence[str]) -> np.ndarray:
        """Return the index of each word, -1 where there is no such word; int64."""
        spelled = [to_spelling(word) for word in words]
        row_offsets = np.zeros(len(spelled) + 1, np.int64)
        np.cumsum([len(s) for s in spelled], out=row_offsets[1:])
        indices = np.empty(len(spelled), np.int64)
        self._find_tokens(
            padded(b"".join(spelled)),
            row_offsets[:-1],
            row_offsets[1:],
            self.arena,
            self.offsets,
            self.slots,
            indices,
        )
        return np.maximum(indices, -1)

    def place(self, word: str) -> int:
        """Return the index of one word, or -1, as `find` does for many."""
        spelled = to_spelling(word)
        indices = np.empty(1, np.int64)
        self._find_tokens(
            padded(spelled),
            _FIRST,
            np.array([len(spelled)]),
            self.arena,
            self.offsets,
            self.slots,
            indices,
        )
        return max(int(indices[0]), -1)

    @cached_property
    def _find_tokens(self) -> Callable[..., None]:
        """Return the kernel, imported once: for one word an import takes as long as the search."""
        from seqloom.kernels.tokens import find_tokens

        return find_tokens

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.place(word) >= 0

    def repeated(self) -> np.ndarray:
        """Return the indices of words that also occur earlier in the list."""
        first_indices = np.empty(len(self), np.int64)
        self._find_tokens(
            self.arena,
            self.offsets[:-1],
            self.offsets[1:],
            self.arena,
            self.offsets,
            self.slots,
            first_indices,
        )
        return np.flatnonzero(first_indices != np.arange(len(self)))

    def near(self, word: str, most: int = 3) -> list[str]:
        """Find words with a similar spelling, nearest first, ties in the order of the list."""
        from seqloom.kernels.alignment import edit_distances

        other_case = [
            w for w in (word.lower(), word.capitalize(), word.upper()) if w != word and w in self
        ]
        if not 0 < len(to_spelling(word)) <= _LONGEST_ASKED:
            return other_case[:most]
        limit = 1 + len(to_spelling(word)) // 5
        distances = np.full(len(self), limit + 1, np.int64)
        for spelled in {to_spelling(word), to_spelling(word.lower())[:_LONGEST_ASKED]}:
            edits = np.empty(len(self), np.int64)
            edit_distances(padded(spelled)[: len(spelled)], self.arena, self.offsets, limit, edits)
            np.minimum(distances, edits, out=distances)
        close = np.flatnonzero(distances <= limit)
        close = close[np.argsort(distances[close], kind="stable")][:most]
        return list(dict.fromkeys([*other_case, *(self[i] for i in close.tolist())]))[:most]

    # ---- part of it, and on disk

    def take(self, indices: np.ndarray) -> Words:
        """Return the words at these indices, in this order."""
        from seqloom.kernels.decimals import gather_words
        from seqloom.kernels.tokens import PAD

        starts, stops = self.offsets[indices], self.offsets[indices + 1]
        offsets = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(stops - starts, out=offsets[1:])
        arena = np.zeros(int(offsets[-1]) + PAD, np.uint8)
        gather_words(self.arena, starts, stops, offsets, arena)
        return Words.from_bytes(arena, offsets)

    def arrays(self) -> dict[str, np.ndarray]:
        return dict(zip(SPELLINGS, (self.arena, self.offsets, self.slots)))

    @classmethod
    def restore(cls, arrays: dict[str, np.ndarray]) -> Words:
        """Return words from the arrays that `spelling_specs` describes, checked first, since the kernels
        trust their tables.
        """
        check_spellings(arrays)
        return cls(*(arrays[name] for name in SPELLINGS))
