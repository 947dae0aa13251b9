"""Closed vocabularies of words or characters: counted, ordered and looked up by the kernels in
`kernels/tokens.py`.

Ids: 0 is `</s>`, then `<unk>`, then the spellings by descending count, ties by their bytes. If the text
itself contains the word `<unk>`, as the Penn Treebank does, that word is the unknown word and there is no
second one. The hash table has ordinary spellings only, so a literal `</s>` in a text is a word like any
other and never the end of a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from seqloom.arrays import Length, Spec, check_arrays, lengths, read_arrays, write_arrays
from seqloom.errors import DataError, ModelError
from seqloom.kernels import HASH_PRIME, HASH_SEED, PAD
from seqloom.progress import Bar
from seqloom.text.boundaries import Cut, character_classes, cut_before_space, cut_between_characters
from seqloom.text.coding import (
    EOS,
    UNK,
    Located,
    characters_of,
    from_spelling,
    to_bytes,
    to_spelling,
)

FILE = "tokenizer.safetensors"
SPELLINGS = "bytes", "offsets", "slots"  # the arrays of a table of spellings
SPLITTERS = ("whitespace", "word", "char")  # the numbers of kernels/tokens.py
CUTS: dict[str, Cut] = {
    "whitespace": cut_before_space,
    "word": cut_before_space,
    "char": cut_between_characters,
}

_ALL = (1 << 64) - 1
_NO_CLASSES = np.zeros(0, np.uint8)


class TokenCounts:
    """A growing table of spellings and how often each was seen."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.n = 0
        self.arena = np.zeros(1 << 16, np.uint8)
        self.offsets = np.zeros((1 << 13) + 1, np.int64)
        self.counts = np.zeros(1 << 13, np.int64)
        self.slots = np.full(1 << 14, -1, np.int32)

    def add(self, data: bytes) -> TokenCounts:
        """Count the tokens of a block."""
        from seqloom.kernels.tokens import count_tokens

        array, splitter = padded(data), SPLITTERS.index(self.kind)
        self._fill(
            len(data),
            lambda at: count_tokens(
                array,
                len(data),
                at,
                splitter,
                classes_for(self.kind),
                self.arena,
                self.offsets,
                self.counts,
                self.slots,
                self.n,
            ),
        )
        return self

    def merge(self, other: TokenCounts) -> None:
        """Add the counts of another table."""
        from seqloom.kernels.tokens import merge_counts

        self._fill(
            other.n,
            lambda at: merge_counts(
                other.arena,
                other.offsets,
                other.counts,
                at,
                other.n,
                self.arena,
                self.offsets,
                self.counts,
                self.slots,
                self.n,
            ),
        )

    def _fill(self, size: int, step: Callable[[int], tuple[int, int]]) -> None:
        """Run a kernel that stops when the table is full, and grow the table until it has done everything."""
        at = 0
        while at < size:
            at, self.n = step(at)
            if at < size:
                self._grow()

    def _grow(self) -> None:
        from seqloom.kernels.tokens import fill_slots

        if self.n < len(self.counts):  # then it was the arena that was full
            self.arena = _doubled(self.arena)
            return
        self.counts = _doubled(self.counts)
        self.offsets = np.concatenate([self.offsets, np.zeros(len(self.counts) // 2, np.int64)])
        self.slots = np.full(2 * len(self.slots), -1, np.int32)
        fill_slots(self.arena, self.offsets, 0, self.n, self.slots)

    def ranked(self, min_count: int, limit: int | None, keep: bytes = b"") -> list[bytes]:
        """Return spellings by descending count, ties by bytes; `keep` stays in the list whatever its
        rank.
        """
        counts = self.counts[: self.n]
        threshold = min_count
        if limit is not None and 0 < limit < self.n:
            threshold = max(threshold, int(np.partition(counts, self.n - limit)[self.n - limit]))
        blob, offsets = self.arena.tobytes(), self.offsets.tolist()
        chosen = np.flatnonzero(counts >= threshold)
        spellings = {blob[offsets[k] : offsets[k + 1]]: int(counts[k]) for k in chosen.tolist()}
        by_count = sorted(spellings)
        # a stable sort keeps the order of the bytes within ties
        by_count.sort(key=spellings.__getitem__, reverse=True)
        top = by_count if limit is None else by_count[: max(limit, 0)]
        if not keep or keep in top:
            return top
        return [*(top if limit is None else top[: max(limit, 1) - 1]), keep]

    def holds(self, spelling: bytes) -> bool:
        return find(spelling, self.arena, self.offsets, self.slots) is not None


def count_blocks(
    kind: str, blocks: Iterable[bytes], normalized: Callable[[bytes], bytes], bar: Bar
) -> TokenCounts:
    """Count the tokens of all blocks."""
    from seqloom.kernels.parallel import parallel_map

    total = TokenCounts(kind)

    def count(block: bytes) -> tuple[int, TokenCounts]:
        return len(block), TokenCounts(kind).add(normalized(block))

    for size, counts in parallel_map(count, blocks):
        total.merge(counts)
        bar.advance(size)
    return total


class Vocabulary:
    """Ids of a frozen list of spellings, as bytes, offsets and hash slots that can be memory-mapped."""

    def __init__(
        self, kind: str, arena: np.ndarray, offsets: np.ndarray, slots: np.ndarray, unk_id: int
    ) -> None:
        self.kind, self._splitter = kind, SPLITTERS.index(kind)
        self.arena, self.offsets, self.slots = arena, offsets, slots
        self.size = len(offsets) - 1
        self.eos_id, self.unk_id = 0, unk_id
        self.lossless = False
        self.joiner = b"" if kind == "char" else b" "

    @classmethod
    def from_counts(cls, counts: TokenCounts, min_count: int, size: int | None) -> Vocabulary:
        """Make a vocabulary of the most frequent spellings; a literal `<unk>` among them always stays."""
        if counts.n == 0:
            raise DataError(
                "there is no token in this text to learn a vocabulary from; is the input empty?"
            )
        literal = UNK.encode() if counts.holds(UNK.encode()) else b""
        limit = None if size is None else size - (1 if literal else 2)
        return cls.build(counts.kind, counts.ranked(min_count, limit, literal))

    @classmethod
    def build(cls, kind: str, spellings: list[bytes]) -> Vocabulary:
        """Build a vocabulary of `</s>`, then `<unk>` unless it is among the spellings, then these in
        their order.
        """
        from seqloom.kernels.tokens import fill_slots

        literal = UNK.encode()
        first = 1 if literal in spellings else 2
        lengths = np.array([0] * first + [len(s) for s in spellings], np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        arena = np.frombuffer(b"".join([*spellings, bytes(PAD)]), np.uint8).copy()
        slots = np.full(1 << (2 * len(offsets)).bit_length(), -1, np.int32)
        fill_slots(arena, offsets, first, len(offsets) - 1, slots)
        return cls(
            kind, arena, offsets, slots, first + spellings.index(literal) if first == 1 else 1
        )

    def encode(self, data: bytes, newline_ends: bool) -> np.ndarray:
        """Encode a block as uint32 ids."""
        ids = np.empty(len(data), np.uint32)  # pages that are never touched take no memory
        n = self._encode_tokens(
            padded(data),
            len(data),
            self._splitter,
            newline_ends,
            self._classes,
            self.arena,
            self.offsets,
            self.slots,
            self.unk_id,
            self.eos_id,
            ids,
        )
        return ids[:n].copy()

    def locate(self, text: str) -> Located:
        from seqloom.kernels.tokens import split_tokens

        data = to_bytes(text)
        starts, stops = np.empty((2, len(data) + 1), np.int64)
        n, _ = split_tokens(
            padded(data), len(data), 0, self._splitter, False, self._classes, starts, stops
        )
        ids, characters = self.encode(data, False).astype(np.int64), characters_of(data)
        return Located(ids, characters[starts[:n]], characters[stops[:n]])

    @cached_property
    def _encode_tokens(self) -> Callable[..., int]:
        """Return the kernel, imported once: for a short text an import costs as much as the work."""
        from seqloom.kernels.tokens import encode_tokens

        return encode_tokens

    @cached_property
    def _classes(self) -> np.ndarray:
        return classes_for(self.kind)

    def decode(self, ids: list[int]) -> bytes:
        return self.joiner.join(self.piece(i, False) for i in ids)

    def piece(self, token: int, before: bool) -> bytes:
        spelling = b"" if token == self.eos_id else self.spelling(token) or UNK.encode()
        return self.joiner + spelling if before and spelling else spelling

    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets).astype(np.int32)

    def cut(self, data: bytes, final: bool) -> int:
        return CUTS[self.kind](data, final)

    def spelling(self, token: int) -> bytes:
        """Return the bytes of a token; none for the special tokens."""
        return self.arena[self.offsets[token] : self.offsets[token + 1]].tobytes()

    def find(self, spelling: bytes) -> int | None:
        """Return the id of an ordinary spelling, else of the special token of that name."""
        token = find(spelling, self.arena, self.offsets, self.slots)
        return (
            {EOS.encode(): self.eos_id, UNK.encode(): self.unk_id}.get(spelling)
            if token is None
            else token
        )

    def name(self, token: int) -> str:
        """Return what a token looks like."""
        if token == self.eos_id:
            return EOS
        text = self.spelling(token).decode("utf-8", "backslashreplace")
        return text or UNK

    def content(self) -> Iterable[bytes]:
        """Return what decides the ids, for the fingerprint."""
        return (f"{self.kind} {self.unk_id}".encode(), self.arena.tobytes(), self.offsets.tobytes())

    def write(self, directory: Path) -> None:
        write_arrays(directory / FILE, dict(zip(SPELLINGS, (self.arena, self.offsets, self.slots))))

    @classmethod
    def read(cls, directory: Path, kind: str) -> Vocabulary:
        path = directory / FILE
        arrays = read_arrays(path)
        try:
            check_arrays(arrays, spelling_specs(lengths(arrays)))
            check_spellings(arrays, least=2)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
        arena, offsets, slots = (arrays[name] for name in SPELLINGS)
        unk_id = find(UNK.encode(), arena, offsets, slots)
        return cls(kind, arena, offsets, slots, 1 if unk_id is None else unk_id)


def read_list(path: Path, kind: str) -> list[bytes]:
    """Read the spellings of a vocabulary file, one a line; each must be a single token of this
    kind.
    """
    from seqloom.kernels.tokens import split_tokens

    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"cannot read the vocabulary file {path}: {error.strerror}") from None
    splitter = SPLITTERS.index(kind)
    line_numbers: dict[bytes, int] = {}
    starts, stops = np.empty(2, np.int64), np.empty(2, np.int64)
    for number, line in enumerate(lines, 1):
        line = line.removesuffix(b"\r")
        if not line:
            continue
        n, _ = split_tokens(
            padded(line), len(line), 0, splitter, False, classes_for(kind), starts, stops
        )
        is_token = n == 1 and starts[0] == 0 and stops[0] == len(line)
        if not is_token and line == UNK.encode():
            continue  # the kind cannot produce this word, and has an unknown word anyway
        shown = line.decode("utf-8", "backslashreplace")
        if not is_token:
            raise DataError(
                f"{path}, line {number}: {shown!r} is not one token of the kind {kind!r}"
            )
        if line in line_numbers:
            raise DataError(
                f"{path}, line {number}: {shown!r} is already on line {line_numbers[line]}; remove one"
            )
        line_numbers[line] = number
    if not line_numbers:
        raise DataError(f"the vocabulary file {path} is empty; it must hold one token per line")
    return list(line_numbers)


def split(text: str, kind: str) -> list[str]:
    """Split a text into tokens, known or not.

    >>> split("Don't, 北京", "word")
    ["Don't", ',', '北', '京']
    """
    from seqloom.kernels.tokens import split_tokens

    data = to_spelling(text)
    starts, stops = np.empty(len(data) + 1, np.int64), np.empty(len(data) + 1, np.int64)
    n, _ = split_tokens(
        padded(data), len(data), 0, SPLITTERS.index(kind), False, classes_for(kind), starts, stops
    )
    return [from_spelling(data[a:b]) for a, b in zip(starts[:n].tolist(), stops[:n].tolist())]


def find(spelling: bytes, arena: np.ndarray, offsets: np.ndarray, slots: np.ndarray) -> int | None:
    """Find the token of one spelling, as `kernels.tokens.find_tokens` finds many: loading numba takes longer
    than some look-ups.
    """
    mask = len(slots) - 1
    slot = spelling_hash(spelling) & mask
    while (token := int(slots[slot])) >= 0:
        if arena[offsets[token] : offsets[token + 1]].tobytes() == spelling:
            return token
        slot = (slot + 1) & mask
    return None


def spelling_hash(spelling: bytes) -> int:
    """Compute the hash of a spelling, eight bytes at a time, the last ones padded with zeros."""
    h = HASH_SEED ^ (len(spelling) * HASH_PRIME & _ALL)
    for i in range(0, len(spelling), 8):
        h = (h ^ int.from_bytes(spelling[i : i + 8], "little")) * HASH_PRIME & _ALL
        h ^= h >> 32
    return (h * HASH_PRIME & _ALL) >> 32


def distinct(data: bytes, row_offsets: np.ndarray) -> tuple[list[bytes], np.ndarray]:
    """Return the distinct slices of the data between the offsets `row_offsets`, and the index of each slice
    among them.
    """
    from seqloom.kernels.tokens import find_tokens

    every, table = TokenCounts("whitespace"), TokenCounts("whitespace")
    every.arena, every.offsets, every.n = padded(data), row_offsets, len(row_offsets) - 1
    every.counts = np.ones(every.n, np.int64)
    table.merge(every)
    indices = np.empty(every.n, np.int64)
    find_tokens(
        every.arena,
        row_offsets[:-1],
        row_offsets[1:],
        table.arena,
        table.offsets,
        table.slots,
        indices,
    )
    blob, ends = table.arena.tobytes(), table.offsets[: table.n + 1].tolist()
    return [blob[low:high] for low, high in pairwise(ends)], indices


def padded(data: bytes) -> np.ndarray:
    """Return the bytes as an array followed by the spare bytes that the kernels need."""
    spare = bytearray(len(data) + PAD)  # writable, as the arena is: one compiled kernel serves both
    spare[: len(data)] = data
    return np.frombuffer(spare, np.uint8)


def _doubled(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, np.zeros_like(array)])


def classes_for(kind: str) -> np.ndarray:
    return character_classes() if kind == "word" else _NO_CLASSES


def spelling_specs(length: Length) -> dict[str, Spec]:
    """Return what the arrays of a saved table of spellings must be; `check_spellings` checks their
    contents.
    """
    return {
        "bytes": Spec("uint8", (length("bytes"),)),
        "offsets": Spec("int64", (length("offsets"),), 0, length("bytes")),
        "slots": Spec("int32", (length("slots"),), -1, length("offsets") - 2),
    }


def check_spellings(arrays: Mapping[str, np.ndarray], least: int = 1) -> None:
    """Check tables from a file, which the kernels will trust: every spelling lies inside the bytes, and a
    search through the slots ends. `least`: the smallest number of spellings.
    """
    arena, offsets, slots = (arrays[name] for name in SPELLINGS)
    good = len(offsets) > least and offsets[0] == 0 and bool((offsets[1:] >= offsets[:-1]).all())
    good = good and offsets[-1] + PAD <= len(arena)
    good = (
        good and len(slots) >= 2 and len(slots) & (len(slots) - 1) == 0 and int(slots.min()) == -1
    )
    if not good:
        raise ModelError("the tables of its words contradict each other: the file is damaged")
