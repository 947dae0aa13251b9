"""Counting features by class, all at once or as a stream.

`FeatureCounts` grows while it reads: threads split the texts into words, and their results are added
batch by batch, so a stream of any length needs memory for its distinct features only. `counted`
sorts by the counts alone (words by rank, n-grams by their keys), so the result does not depend on
the portions in which the texts came, nor on the number of threads.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from seqloom.models.classification.configs import WordNgramsConfig
from seqloom.models.classification.features import (
    empty_slots,
    grows,
    join,
    make_keys,
    split_keys,
    word_ids,
)
from seqloom.text.normalize import Normalizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import SPLITTERS, TokenCounts, Vocabulary, classes_for, padded

_BATCH = 1 << 21  # characters; more than for scoring, so that a batch repeats its words
_FIRST = 1 << 12  # rows of a table at the beginning


@dataclass(frozen=True)
class Counted:
    """Final counts. The rows are the V tokens of the tokenizer, then the G n-grams, shorter
    ones first.
    """

    tokenizer: Tokenizer
    classes: list[str]  # sorted
    documents: np.ndarray  # (C,) of each class
    keys: np.ndarray  # (G,) uint64, see kernels/features.py
    counts: np.ndarray  # (V + G, C) uint32, or int64 where that is too narrow
    seen: np.ndarray  # (V + G,) occurrences


class _Tally:
    """Counts of features by class, with room to grow; `stamps` and `seen` only where a feature counts
    once per text.
    """

    def __init__(self, presence: bool) -> None:
        self.presence = presence
        self.counts = np.zeros((0, 0), np.uint32)
        self.seen, self.stamps = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def grow(self, rows: int, classes: int, wide: bool) -> None:
        """Make room for `rows` and `classes`; `wide`: 32 bits may no longer be enough."""
        height, width = self.counts.shape
        dtype = np.int64 if wide else self.counts.dtype
        if rows > height or classes > width or dtype != self.counts.dtype:
            counts = np.zeros(
                (height if rows <= height else max(rows, 2 * height), max(width, classes)), dtype
            )
            counts[:height, :width] = self.counts
            self.counts = counts
            if self.presence:
                self.seen, self.stamps = (
                    np.append(a, np.zeros(len(counts) - height, np.int64))
                    for a in (self.seen, self.stamps)
                )

    def occurrences(self, n: int) -> np.ndarray:
        """Return how often each was seen: int64 (n,)."""
        return self.seen[:n] if self.presence else self.counts[:n].sum(axis=1, dtype=np.int64)


class FeatureCounts:
    """Features of texts by class, counted as they come.

    `tokenizer`: a fitted one; without it the vocabulary is learnt from the texts. `presence`: a
    feature counts once per text.
    """

    def __init__(
        self, config: WordNgramsConfig, tokenizer: Tokenizer | None = None, *, presence: bool
    ) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.presence = presence
        self.labels: dict[str, int] = {}
        self.documents = np.zeros(0, np.int64)
        self.n_texts = self.n_tokens = self.n_grams = 0
        self.words, self.grams = _Tally(self.presence), _Tally(self.presence)
        self._grow_keys(_FIRST, np.zeros(0, np.uint64))
        if tokenizer is None:
            self.spellings = TokenCounts(config.tokenizer)
            self.known = TokenCounts(config.tokenizer)  # a copy, see `_assign_ids`
            self.normalizer = Normalizer(config.normalize)
        else:
            self.word_ids = word_ids(tokenizer)

    def add(self, texts: list[str], labels: list[str]) -> Iterator[int]:
        """Count the texts; yield the number of texts of each batch when it is done.

        Which words a thread knows already depends on timing, and so do the ids of new words; the
        counts do not.
        """
        from seqloom.kernels.parallel import parallel_map, text_batches

        for label in dict.fromkeys(labels):
            self.labels.setdefault(label, len(self.labels))
        numbers = np.fromiter(map(self.labels.__getitem__, labels), np.int64, len(labels))
        self.documents = np.bincount(numbers, minlength=len(self.labels)) + np.pad(
            self.documents, (0, len(self.labels) - len(self.documents))
        )
        done = 0
        cut = self._cut_known if self.tokenizer else self._cut_new
        for n, ids, first, new_words in parallel_map(cut, text_batches(texts, _BATCH)):
            if new_words is not None:
                self._assign_ids(ids, first, new_words)
            self._add_ids(ids, numbers[done : done + n])
            done += n
            yield n

    def _cut_known(self, texts: Sequence[str]) -> tuple[int, np.ndarray, int, None]:
        assert self.tokenizer is not None
        ids = self.tokenizer.encode_block(join(texts), True)
        return len(texts), self.word_ids[ids], 0, None

    def _cut_new(self, texts: Sequence[str]) -> tuple[int, np.ndarray, int, TokenCounts]:
        """Return the ids of the words, and a table of the words that are new; their ids follow those of
        the known words.
        """
        from seqloom.kernels.features import END, gather
        from seqloom.kernels.tokens import find_tokens, split_tokens

        kind, known_words, blob = self.config.tokenizer, self.known, join(texts)
        blob = blob if self.normalizer.identity else self.normalizer.of_bytes(blob)
        data, starts, stops = (
            padded(blob),
            np.empty(len(blob) + 1, np.int64),
            np.empty(len(blob) + 1, np.int64),
        )
        n, _ = split_tokens(
            data, len(blob), 0, SPLITTERS.index(kind), True, classes_for(kind), starts, stops
        )
        starts, stops, ids = starts[:n], stops[:n], np.empty(n, np.int64)
        find_tokens(
            data, starts, stops, known_words.arena, known_words.offsets, known_words.slots, ids
        )
        ends = starts == stops
        unknown = np.flatnonzero((ids < 0) & ~ends)
        ids[ends] = END
        occurrences, new_words = TokenCounts(kind), TokenCounts(kind)
        occurrences.n, occurrences.counts = len(unknown), np.ones(len(unknown), np.int64)
        occurrences.arena = padded(bytes(int((stops[unknown] - starts[unknown]).sum())))
        occurrences.offsets = np.zeros(len(unknown) + 1, np.int64)
        gather(data, starts, stops, unknown, occurrences.arena, occurrences.offsets)
        new_words.merge(occurrences)
        ids[unknown] = known_words.n + _numbers(occurrences, new_words)
        return len(texts), ids.astype(np.int32), known_words.n, new_words

    def _assign_ids(self, ids: np.ndarray, first: int, new_words: TokenCounts) -> None:
        """Add the new words of a batch to `spellings`, and replace their ids by those in it."""
        self.spellings.merge(new_words)
        new = np.flatnonzero(ids >= first)
        ids[new] = _numbers(new_words, self.spellings)[ids[new] - first]
        # A copy, since threads read it while `spellings` grows; renewed when that is 1/64 larger.
        if self.spellings.n > self.known.n + self.known.n // 64:
            self.known = copy.deepcopy(self.spellings)

    def _add_ids(self, ids: np.ndarray, labels: np.ndarray) -> None:
        from seqloom.kernels.features import add_documents

        c, width = self.config, len(self.labels)
        self.n_tokens += len(ids)
        wide = self.n_tokens >= 1 << 32
        self.words.grow(
            self.spellings.n if self.tokenizer is None else self.tokenizer.vocab_size, width, wide
        )
        room = self.n_grams + len(ids) * (c.ngrams - 1)
        if room > len(self.keys):
            self._grow_keys(max(room, 2 * len(self.keys)), self.keys)
        self.grams.grow(len(self.keys) if c.ngrams > 1 else 0, width, wide)
        w, g = self.words, self.grams
        self.n_grams = add_documents(
            ids,
            labels,
            self.n_texts + 1,
            c.ngrams,
            self.presence,
            w.counts,
            w.seen,
            w.stamps,
            self.keys,
            self.slots,
            g.counts,
            g.seen,
            g.stamps,
            self.n_grams,
        )
        self.n_texts += len(labels)

    def _grow_keys(self, room: int, keys: np.ndarray) -> None:
        """Make room for `room` n-grams; `keys`: those of the first ones."""
        from seqloom.kernels.features import fill_slots

        self.keys = np.concatenate([keys, np.zeros(room - len(keys), np.uint64)])
        self.slots = empty_slots(room)
        fill_slots(self.keys, self.n_grams, self.slots)

    def counted(self) -> Counted:
        """Return the counts in their final order, without rare features."""
        tokenizer, rows = self._final_words()
        v, n, classes = tokenizer.vocab_size, self.n_grams, sorted(self.labels)
        columns = np.array([self.labels[name] for name in classes])
        gram_seen = self.grams.occurrences(n)
        gram_rows, keys = self._final_grams(
            np.where(rows == tokenizer.unk_id, -1, rows), v, gram_seen
        )
        counts = np.zeros((v + len(gram_rows), len(classes)), self.words.counts.dtype)
        seen = np.zeros(v + len(gram_rows), np.int64)
        chosen = np.flatnonzero(rows >= 0)
        counts[rows[chosen]] = self.words.counts[np.ix_(chosen, columns)]
        seen[rows[chosen]] = self.words.occurrences(len(rows))[chosen]
        if n:
            counts[v:], seen[v:] = (
                self.grams.counts[np.ix_(gram_rows, columns)],
                gram_seen[gram_rows],
            )
        return Counted(tokenizer, classes, self.documents[columns], keys, counts, seen)

    def _final_words(self) -> tuple[Tokenizer, np.ndarray]:
        """Return the tokenizer, and its id of each word so far, negative where it was left out."""
        c = self.config
        if self.tokenizer is not None:
            return self.tokenizer, np.arange(self.tokenizer.vocab_size)
        self.spellings.counts[: self.spellings.n] = self.words.occurrences(self.spellings.n)
        vocabulary = Vocabulary.from_counts(self.spellings, c.min_count, c.vocab_size)
        tokenizer = Tokenizer(
            kind=c.tokenizer, vocab_size=c.vocab_size, min_count=c.min_count, normalize=c.normalize
        )
        tokenizer._fitted = vocabulary
        return tokenizer, _numbers(self.spellings, vocabulary)

    def _final_grams(
        self, rows: np.ndarray, v: int, seen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the n-grams that are kept, in their final order, and their keys; length by length,
        since the key of an n-gram contains the row of the n-gram without its last word.
        """
        from seqloom.kernels.features import GROWING

        codes, words = split_keys(self.keys[: self.n_grams])
        longer = codes >= GROWING
        parents = np.where(longer, codes - GROWING, 0)
        final_rows = np.full(self.n_grams, -1, np.int64)  # -1: left out
        length = np.where(longer, 0, 2)
        chosen, keys = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        for n in range(2, self.config.ngrams + 1):
            if n > 2:
                length[longer & (length[parents] == n - 1)] = n
            candidates = np.flatnonzero(length == n)
            before = rows[codes[candidates]] if n == 2 else final_rows[parents[candidates]]
            last = rows[words[candidates]]
            frequent = (before >= 0) & (last >= 0) & (seen[candidates] >= self.config.min_count)
            new_keys = make_keys(before[frequent], last[frequent])
            order = np.argsort(new_keys)
            chosen.append(candidates[frequent][order])
            keys.append(new_keys[order])
            final_rows[chosen[-1]] = np.arange(v, v + len(order))
            v += len(order)
        return np.concatenate(chosen), np.concatenate(keys)

    @classmethod
    def resume(cls, config: WordNgramsConfig, done: Counted, *, presence: bool) -> FeatureCounts:
        """Continue from final counts; exact if nothing was left out."""
        from seqloom.kernels.features import GROWING

        counts = cls(config, None if grows(config) else done.tokenizer, presence=presence)
        v, first = done.tokenizer.vocab_size, 0
        if counts.tokenizer is None:
            spellings = [done.tokenizer.token_bytes(i) for i in range(v)]
            # Special tokens come first and have no spelling.
            first = next((i for i, spelling in enumerate(spellings) if spelling), v)
            known_words = TokenCounts(config.tokenizer)
            known_words.n, known_words.counts = v - first, done.seen[first:v].astype(np.int64)
            known_words.arena = padded(b"".join(spellings))
            known_words.offsets = np.cumsum([0, *map(len, spellings[first:])])
            counts.spellings.merge(known_words)
        counts.labels = {name: i for i, name in enumerate(done.classes)}
        counts.documents = done.documents.astype(np.int64)
        counts.n_texts, counts.n_tokens, counts.n_grams = (
            int(done.documents.sum()),
            int(done.seen[:v].sum()),
            len(done.keys),
        )
        for tally, low, high in ((counts.words, first, v), (counts.grams, v, len(done.seen))):
            tally.grow(high - low, len(done.classes), done.counts.dtype == np.int64)
            tally.counts[: high - low] = done.counts[low:high]
            if counts.presence:
                tally.seen[: high - low] = done.seen[low:high]
        codes, words = split_keys(done.keys)
        counts._grow_keys(
            len(codes),
            make_keys(np.where(codes < v, codes - first, codes - v + GROWING), words - first),
        )
        return counts


def _numbers(source: TokenCounts, target: TokenCounts | Vocabulary) -> np.ndarray:
    """Return the number in `target` of each spelling of `source`, negative where it has none:
    int64 (n,).
    """
    from seqloom.kernels.tokens import find_tokens

    numbers = np.empty(source.n, np.int64)
    find_tokens(
        source.arena,
        source.offsets[: source.n],
        source.offsets[1 : source.n + 1],
        target.arena,
        target.offsets,
        target.slots,
        numbers,
    )
    return numbers
