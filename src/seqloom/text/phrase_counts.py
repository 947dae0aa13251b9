"""The tables behind `phrases.py`: counts of the words and pairs of a text, and the joining of phrases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from seqloom.errors import DataError
from seqloom.text.coding import to_bytes
from seqloom.text.vocabulary import SPLITTERS, TokenCounts, classes_for, padded

END = 0xFFFFFFFF  # the id of the end of a line
_EMPTY = -1  # NOTHING of kernels/phrases.py, which loads numba
_LOW = (1 << 32) - 1
_SPLITTER = SPLITTERS.index("whitespace")


class PairCounts:
    """Counts of the words and pairs of a text that can be read twice.

    Results: `firsts`, `lasts` and `counts` of the pairs, `word_counts` by id, `tokens`, `n_words` (without
    connectors) and `n_pairs`.
    """

    def __init__(self, blocks: Callable[[], Iterator[bytes]], connectors: Sequence[str]) -> None:
        self._count_words(blocks())
        table = self._words
        if table.n == 0:
            raise DataError(
                "there is no word in this text to learn phrases from; is the input empty?"
            )
        self.word_counts = table.counts[: table.n]
        self.tokens = int(self.word_counts.sum())
        connects = np.zeros(table.n, np.bool_)
        ids = _find(
            [to_bytes(word) for word in connectors], table.arena, table.offsets, table.slots
        )
        connects[ids[ids >= 0]] = True
        self.n_words = int(np.count_nonzero(~connects))
        self._chains = _empty(1 << 10)
        pairs = self._count_pairs(blocks(), connects)
        rows = pairs[pairs[:, 0] != _EMPTY]
        rows = rows[
            np.argsort(rows[:, 0])
        ]  # an order that does not depend on the size of the table
        self._nodes, self.lasts, self.counts = rows[:, 0] >> 32, rows[:, 0] & _LOW, rows[:, 1]
        self.n_pairs = len(rows)
        self._parents = self._chain_keys()
        self.firsts = self._first_words()

    def _count_words(self, blocks: Iterator[bytes]) -> None:
        from seqloom.kernels.parallel import parallel_map

        self._words = TokenCounts("whitespace")
        for counts in parallel_map(lambda block: TokenCounts("whitespace").add(block), blocks):
            self._words.merge(counts)

    def _encode(self, block: bytes) -> np.ndarray:
        from seqloom.kernels.tokens import encode_tokens

        table, ids = self._words, np.empty(len(block), np.uint32)
        n = encode_tokens(
            padded(block),
            len(block),
            _SPLITTER,
            True,
            classes_for("whitespace"),
            table.arena,
            table.offsets,
            table.slots,
            END,
            END,
            ids,
        )
        return ids[:n]

    def _count_pairs(self, blocks: Iterator[bytes], connects: np.ndarray) -> np.ndarray:
        from seqloom.kernels.parallel import parallel_map
        from seqloom.kernels.phrases import add_keys, pair_keys

        table, used, node, n_chains = _empty(1 << 16), 0, _EMPTY, 0
        for ids in parallel_map(self._encode, blocks):
            keys, at = np.empty(len(ids), np.int64), 0
            while at < len(ids):
                at, node, n_chains, n = pair_keys(
                    ids, at, node, END, connects, self._chains, n_chains, keys
                )
                done = 0
                while done < n:
                    done, used = add_keys(keys, done, n, table, used)
                    table = _grown(table) if done < n else table
                if at < len(ids):
                    self._chains = _grown(self._chains)
        return table

    def _chain_keys(self) -> np.ndarray:
        """Return the key of each chain node, in the order of the node ids after those of the words."""
        rows = self._chains[self._chains[:, 0] != _EMPTY]
        return rows[np.argsort(rows[:, 1]), 0]

    def _first_words(self) -> np.ndarray:
        nodes, size = self._nodes.copy(), len(self.word_counts)
        while (inner := nodes >= size).any():
            nodes[inner] = self._parents[nodes[inner] - size] >> 32
        return nodes

    def words_of(self, pair: int) -> tuple[str, ...]:
        """Return the words of a pair, including the connectors between them."""
        words, node, size = [int(self.lasts[pair])], int(self._nodes[pair]), len(self.word_counts)
        while node >= size:
            words.append(int(self._parents[node - size]) & _LOW)
            node = int(self._parents[node - size]) >> 32
        offsets = self._words.offsets
        return tuple(
            self._words.arena[offsets[w] : offsets[w + 1]]
            .tobytes()
            .decode("utf-8", "surrogateescape")
            for w in (node, *reversed(words))
        )


class Joiner:
    """Joins the phrases of one pass, also across the ends of blocks."""

    def __init__(
        self, phrases: Sequence[Sequence[str]], connectors: Sequence[str], joiner: str
    ) -> None:
        numbers: dict[str, int] = {}
        for word in (*connectors, *(word for phrase in phrases for word in phrase)):
            numbers.setdefault(word, len(numbers))
        chains: dict[int, int] = {}
        pairs: list[int] = []
        for first, *middle, last in phrases:
            node = numbers[first]
            for word in middle:
                node = chains.setdefault((node << 32) | numbers[word], len(numbers) + len(chains))
            pairs.append((node << 32) | numbers[last])
        self.count = 0
        self._glue = np.frombuffer(to_bytes(joiner), np.uint8)
        self._connects = np.zeros(len(numbers), np.bool_)
        self._connects[: len(connectors)] = True
        self._chains, self._pairs = _filled(chains), _filled(dict.fromkeys(pairs, 1))
        spelled = [word.encode("utf-8", "surrogateescape") for word in numbers]
        self._arena, self._offsets, self._slots = _table(spelled)

    def join(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Join phrases block by block; what is undecided at the end of a block waits for the next."""
        self.count, waiting, block = 0, b"", b""
        for following in blocks:
            done, waiting = (
                self._joined(waiting + block, final=False) if block or waiting else (b"", b"")
            )
            if done:
                yield done
            block = following
        done, _ = self._joined(waiting + block, final=True)
        if done:
            yield done

    def _joined(self, data: bytes, *, final: bool) -> tuple[bytes, bytes]:
        from seqloom.kernels.phrases import mark_phrases, write_joined
        from seqloom.kernels.tokens import find_tokens, split_tokens

        array = padded(data)
        starts, stops = np.empty(len(data), np.int64), np.empty(len(data), np.int64)
        n, _ = split_tokens(
            array, len(data), 0, _SPLITTER, True, classes_for("whitespace"), starts, stops
        )
        starts, stops, words, glued = (
            starts[:n],
            stops[:n],
            np.empty(n, np.int64),
            np.empty(n, np.bool_),
        )
        find_tokens(array, starts, stops, self._arena, self._offsets, self._slots, words)
        open_at, count = mark_phrases(
            words, starts, stops, self._connects, self._chains, self._pairs, glued
        )
        self.count += count
        ready, end = (n, len(data)) if final or open_at == n else (open_at, int(starts[open_at]))
        out = np.empty(end + int(np.count_nonzero(glued)) * len(self._glue), np.uint8)
        size = write_joined(array, starts, stops, glued, ready, end, self._glue, out)
        return out[:size].tobytes(), data[end:]


def _empty(size: int) -> np.ndarray:
    table = np.zeros((size, 2), np.int64)  # a key and a number in each row
    table[:, 0] = _EMPTY
    return table


def _grown(table: np.ndarray) -> np.ndarray:
    from seqloom.kernels.phrases import copy_rows

    larger = _empty(4 * len(table))
    copy_rows(table, larger)
    return larger


def _filled(values: dict[int, int]) -> np.ndarray:
    from seqloom.kernels.phrases import copy_rows

    table = _empty(1 << max(2 * len(values), 1).bit_length())
    copy_rows(np.array([*values.items()], np.int64).reshape(-1, 2), table)
    return table


def _table(spelled: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    from seqloom.kernels.tokens import fill_slots

    offsets = np.zeros(len(spelled) + 1, np.int64)
    np.cumsum([len(s) for s in spelled], out=offsets[1:])
    arena = padded(b"".join(spelled))
    slots = np.full(1 << max(2 * len(offsets), 2).bit_length(), -1, np.int32)
    fill_slots(arena, offsets, 0, len(spelled), slots)
    return arena, offsets, slots


def _find(
    spelled: list[bytes], arena: np.ndarray, offsets: np.ndarray, slots: np.ndarray
) -> np.ndarray:
    from seqloom.kernels.tokens import find_tokens

    row_offsets = np.zeros(len(spelled) + 1, np.int64)
    np.cumsum([len(s) for s in spelled], out=row_offsets[1:])
    tokens = np.empty(len(spelled), np.int64)
    find_tokens(
        padded(b"".join(spelled)), row_offsets[:-1], row_offsets[1:], arena, offsets, slots, tokens
    )
    return tokens
