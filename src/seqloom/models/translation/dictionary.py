"""`dictionary`: word for word, by the translations that IBM model 1 finds for each word (`learn_table`).

Each word of the source is replaced by its likeliest translation, with blanks and order unchanged; a
word that was never seen is copied, which suits names and numbers. Probabilities are those of the
model: the source's words, and the empty word at the position of `</s>`, are equally likely to be
translated next; the number of target words is geometric, with a mean proportional to the length of
the source. Alignments are the shares of the source words in each target word.

    >>> pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
    >>> model = Dictionary().fit(pairs * 2)
    >>> model.translate("das  Buch, ein Haus!"), model.dictionary("Haus", 1)[0][0]
    ('the  book, a house!', 'house')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.translation import Translator
from seqloom.contracts.translations import Translation, TranslationConfig
from seqloom.data.translation import Parallel
from seqloom.errors import DataError, ModelError, quoted
from seqloom.models.translation.configs import DictionaryConfig
from seqloom.models.translation.pairs import encode_texts
from seqloom.text.tokenizer import Tokenizer

PAIRS = 1 << 21  # pairs of words in one block
MAX_CACHED = 1 << 27  # pairs of words up to which their table entries are cached, four bytes each


@dataclass(frozen=True, eq=False)
class Words:
    """The words of many sentences in one array, and where each sentence ends."""

    ids: np.ndarray  # int64 (N,)
    ends: np.ndarray  # int64 (n,)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> Words:
        ends = np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
        return cls(np.array([word for sentence in sentences for word in sentence], np.int64), ends)

    @property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], self.ends[:-1]])

    @property
    def lengths(self) -> np.ndarray:
        return self.ends - self.starts


@dataclass(frozen=True, eq=False)
class LexicalTable:
    """t(f | e) of target words that occur with a source word in a pair; all others have probability 0."""

    starts: np.ndarray  # int64 (E + 1,): where the target words of each source word begin
    words: np.ndarray  # int32 (M,): target words, rising within a source word
    probs: np.ndarray  # float32 (M,)
    n_targets: int

    @cached_property
    def keys(self) -> np.ndarray:
        """Return source and target word of each entry in one number, rising: int64 (M,)."""
        rows = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        return rows * self.n_targets + self.words

    def probabilities(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return t of each target word given each source word: float64 (T, S)."""
        keys = sources[None, :] * self.n_targets + targets[:, None]
        indices = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[indices] == keys, self.probs[indices], 0.0).astype(np.float64)

    def translations(self, source: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the target words of a source word and their probabilities."""
        low, high = self.starts[source], self.starts[source + 1]
        return self.words[low:high], self.probs[low:high]

    def knows(self, sources: np.ndarray) -> np.ndarray:
        """Return which source words have translations."""
        return self.starts[sources + 1] > self.starts[sources]

    def without_rare(self, least: float) -> LexicalTable:
        """Return the table without translations less probable than `least`, except the best of each
        word, normalised again.
        """
        rows, n_rows = (
            np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)),
            len(self.starts) - 1,
        )
        best = np.zeros(n_rows, self.probs.dtype)
        np.maximum.at(best, rows, self.probs)
        keep = (self.probs >= least) | (self.probs == best[rows])
        rows, probs = rows[keep], self.probs[keep].astype(np.float64)
        probs /= np.bincount(rows, probs, n_rows)[rows]
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))])
        return LexicalTable(starts, self.words[keep], probs.astype(np.float32), self.n_targets)


def learn_table(
    sources: Words, targets: Words, n_sources: int, n_targets: int, *, iterations: int
) -> tuple[LexicalTable, list[float]]:
    """Learn IBM model 1 by EM, and return the table with the log-likelihood before each iteration.

    Brown et al. 1993, "The Mathematics of Statistical Machine Translation", section 4.1: each target
    word is the translation of one word of the source, all equally likely, or of the empty word,
    which must be among the words of each source; t(f | e) are the only parameters. The likelihood
    has one maximum (apart from ties), so EM may begin anywhere: here all words that occur together
    are equally likely.

    >>> sources, targets = Words.of([[1, 2, 0], [1, 3, 0]]), Words.of([[1, 2], [1, 3]])
    >>> table = learn_table(sources, targets, 4, 4, iterations=50)[0]
    >>> round(float(table.probabilities(np.array([2]), np.array([2]))[0, 0]), 2)
    1.0
    """
    from seqloom.kernels.alignment import expected_counts

    keys = _met(sources, targets, n_targets)
    rows, words = keys // n_targets, (keys % n_targets).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_sources))])
    probs, likelihoods = 1.0 / np.diff(starts)[rows], []
    blocks = _PairBlocks(sources, targets, starts, words)
    with progress.task("learning translations of words", iterations, "iterations") as bar:
        for _ in range(iterations):
            counts = np.zeros(len(keys))
            likelihoods.append(
                sum(
                    float(
                        expected_counts(
                            sources.ends, targets.ends, first, last, some, probs, counts
                        )
                    )
                    for first, last, some in blocks
                )
            )
            probs = counts / np.bincount(rows, counts, n_sources)[rows]
            bar.advance()
    return LexicalTable(starts, words, probs.astype(np.float32), n_targets), likelihoods


class _PairBlocks:
    """Blocks of sentence pairs with the table index of each pair of words: cached, or looked up in
    each iteration where there are too many.
    """

    def __init__(
        self, sources: Words, targets: Words, starts: np.ndarray, words: np.ndarray
    ) -> None:
        self.sources, self.targets, self.starts, self.words = sources, targets, starts, words
        self.sizes = sources.lengths * targets.lengths
        self.blocks = _blocks(self.sizes)
        self.cached = (
            [self._find(*block) for block in self.blocks]
            if self.sizes.sum() <= MAX_CACHED
            else None
        )

    def __iter__(self) -> Iterator[tuple[int, int, np.ndarray]]:
        for number, (first, last) in enumerate(self.blocks):
            yield (
                first,
                last,
                self._find(first, last) if self.cached is None else self.cached[number],
            )

    def _find(self, first: int, last: int) -> np.ndarray:
        from seqloom.kernels.alignment import find_places

        indices = np.empty(self.sizes[first:last].sum(), np.int32)
        find_places(
            self.sources.ids,
            self.sources.ends,
            self.targets.ids,
            self.targets.ends,
            first,
            last,
            self.starts,
            self.words,
            indices,
        )
        return indices


def _blocks(sizes: np.ndarray) -> list[tuple[int, int]]:
    """Return the start and end of blocks of sentence pairs with about PAIRS pairs of words each."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // PAIRS)) + 1
    return list(pairwise([0, *cuts.tolist(), len(sizes)]))


def _met(sources: Words, targets: Words, n_targets: int) -> np.ndarray:
    """Return the sorted keys (source and target word in one number) of words that occur in one pair."""
    keys = np.zeros(0, np.int64)
    for first, last in _blocks(sources.lengths * targets.lengths):
        pair = np.repeat(np.arange(first, last), targets.lengths[first:last])  # of each target word
        source_lengths = sources.lengths[pair]
        source_indices = (
            np.arange(source_lengths.sum())
            - np.repeat(np.cumsum(source_lengths) - source_lengths, source_lengths)
            + np.repeat(sources.starts[pair], source_lengths)
        )
        target_words = np.repeat(
            targets.ids[targets.starts[first] : targets.ends[last - 1]], source_lengths
        )
        keys = _distinct(
            np.concatenate(
                [keys, _distinct(sources.ids[source_indices] * n_targets + target_words)]
            )
        )
    return keys


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Return each key once, rising; sorting is several times faster here than NumPy's hashing."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) != 0]


# ---- dictionary


class Dictionary(Translator):
    name = "dictionary"
    public_names = "dictionary"
    config_class = DictionaryConfig
    starts_without_numba = True
    table: LexicalTable
    rate: float  # target words for each source word, the empty word among them

    @property
    def parameters(self) -> int:
        return len(self.table.probs) if self.fitted else 0

    # ---- fitting

    def fit_pairs(self, data: Parallel, options: FitOptions) -> None:
        c = self.config
        for side, texts in (("source", data.source_texts), ("target", data.targets)):
            self.tokenizers[side] = Tokenizer(kind=c.tokenizer, min_count=c.min_count).fit(texts)
        sources, targets = (
            self._words("source", data.source_texts),
            self._words("target", data.targets, with_end=False),
        )
        sizes = [self.tokenizers[side].vocab_size for side in ("source", "target")]
        table, likelihoods = learn_table(sources, targets, *sizes, iterations=c.iterations)
        self.table = table.without_rare(c.least)
        self.rate = len(targets.ids) / len(sources.ids)
        self.fit_info |= {
            "log_likelihoods": likelihoods,
            "source_words": sizes[0],
            "target_words": sizes[1],
        }

    def _words(self, side: str, texts: list[str], *, with_end: bool = True) -> Words:
        tokenizer = self.tokenizers[side]
        encoded = encode_texts(tokenizer, texts)
        words = Words(encoded.steps["ids"], encoded.row_offsets[1:])
        if with_end:
            return words
        return Words(
            words.ids[words.ids != tokenizer.eos_id], words.ends - np.arange(1, len(texts) + 1)
        )

    # ---- translating

    def translate_batch(
        self, sources: list[str], how: TranslationConfig, nbest: int = 1
    ) -> list[list[Translation]]:
        return [[self._word_for_word(source)] for source in sources]

    def _word_for_word(self, source: str) -> Translation:
        read, target = self.tokenizers["source"], self.target_tokenizer
        parts, at, source_ids, target_ids = [], 0, [], []
        for word in split_words(source, self.config.tokenizer):
            start = source.index(word, at)
            source_ids.append(_id(read, word))
            best = self._best(source_ids[-1])
            target_ids.append(_id(target, word) if best is None else best)
            parts += [
                source[at:start],
                word if best is None else target.token_bytes(best).decode("utf-8", "replace"),
            ]
            at = start + len(word)
        ids = np.array(target_ids, np.int64)
        log_prob = float(
            self._log_probs(
                np.array([*source_ids, read.eos_id]), np.append(ids, target.eos_id)
            ).sum()
        )
        return Translation(
            "".join([*parts, source[at:]]), log_prob, log_prob / (len(ids) + 1), ids=ids
        )

    def _best(self, source: int) -> int | None:
        """Return the likeliest translation of a source word, of equal ones the most frequent; None if
        there is none.
        """
        words, probs = self.table.translations(source)
        if source == self.tokenizers["source"].unk_id or not len(words):
            return None
        best = int(words[probs.argmax()])
        return None if best == self.target_tokenizer.unk_id else best

    def dictionary(self, word: str, n: int = 10) -> list[tuple[str, float]]:
        """Return the likeliest translations of a word with their probabilities."""
        self.check_fitted()
        word_id = self.tokenizers["source"].id(word)
        if word_id is None:
            raise DataError(
                f"the dictionary has no word {quoted(word)}; it was not in the training data"
            )
        words, probs = self.table.translations(word_id)
        return [
            (self.target_tokenizer.token(int(words[i])), float(probs[i]))
            for i in np.argsort(-probs, kind="stable")[:n]
        ]

    # ---- probabilities

    def pair_log_probs(self, sources: list[str], targets: list[str]) -> list[np.ndarray]:
        return [
            self._log_probs(source, target) for source, target in self._encoded(sources, targets)
        ]

    def alignments(self, sources: list[str], targets: list[str]) -> list[np.ndarray]:
        """Return the share of each source word, and of the empty word in the position of `</s>`, in
        each target word.
        """
        aligned = []
        for source, target in self._encoded(sources, targets):
            shares = self._probabilities(source, target[:-1])
            end = np.eye(1, len(source), len(source) - 1)
            aligned.append(
                np.concatenate([shares / shares.sum(axis=1, keepdims=True), end]).astype(np.float32)
            )
        return aligned

    def _encoded(
        self, sources: list[str], targets: list[str]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        sides = [self._words("source", sources), self._words("target", targets)]
        return list(zip(*(np.split(side.ids, side.ends[:-1]) for side in sides)))

    def _log_probs(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Compute the log-probabilities of each target word and of the end."""
        end = 1.0 / (1.0 + self.rate * len(source))
        step = max(PAIRS // len(source), 1)  # of a long text all pairs of words are too many
        pieces = np.split(target[:-1], range(step, len(target) - 1, step))
        words = np.concatenate(
            [self._probabilities(source, piece).mean(axis=1) for piece in pieces]
        )
        return np.log(np.append((1.0 - end) * words, end)).astype(np.float32)

    def _probabilities(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Compute t(f | e), smoothed, (T, S); a source word without translations counts as the empty
        word.
        """
        share, read = self.config.smoothing, self.tokenizers["source"]
        sources = np.where(self.table.knows(source), source, read.eos_id)
        return (1.0 - share) * self.table.probabilities(sources, target) + share / (
            self.target_tokenizer.vocab_size - 1
        )

    # ---- saving

    def arrays(self) -> dict[str, np.ndarray]:
        table = self.table
        return {
            "starts": table.starts,
            "words": table.words,
            "probs": table.probs,
            "rate": np.array([self.rate]),
        }

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size, targets = length("words"), self.target_tokenizer.vocab_size
        return {
            "starts": Spec("int64", (self.tokenizers["source"].vocab_size + 1,), 0, size),
            "words": Spec("int32", (size,), 1, targets - 1),
            "probs": Spec("float32", (size,), 0, 1),
            "rate": Spec("float64", (1,), 1e-9, 1e9),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        starts, words = (np.array(arrays[name]) for name in ("starts", "words"))
        self.table = LexicalTable(
            starts, words, np.array(arrays["probs"]), self.target_tokenizer.vocab_size
        )
        self.rate = float(arrays["rate"][0])
        rises = (
            len(words) > 0
            and starts[0] == 0
            and starts[-1] == len(words)
            and (np.diff(starts) >= 0).all()
        )
        if not rises or (np.diff(self.table.keys) <= 0).any():
            raise ModelError(
                "the translations of its words contradict each other: the file is damaged"
            )


def _id(tokenizer: Tokenizer, word: str) -> int:
    word_id = tokenizer.id(word)
    if word_id is None:
        word_id = tokenizer.unk_id
    assert word_id is not None  # closed vocabularies have one
    return word_id


def split_words(text: str, kind: str) -> list[str]:
    """Split a text into the units that are translated one by one, as the tokenizers do."""
    if kind == "char":
        return list(text)
    from seqloom.text.segment import words

    return words(text)
