"""Part-of-speech and name tagging by a hidden Markov model whose states are the tags (Church 1988;
Brants 2000, "TnT").

    best tags = argmax over tags of  sum log p(tag | the one or two before)  +  log p(word | tag)

Both come from counts of tagged sentences (`follow_probs` and `Lexicon`), so learning is one pass. The
sentence boundary is a tag. A tag is tried for a word only if the lexicon gives it at least
`MIN_RELATIVE_PROB` of the best tag's probability, which saves time; only transitions that outweigh
such a factor could make another one win.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.arrays import Length, Spec, pack_words, unpack_words
from seqloom.contracts import FitOptions, Tagger
from seqloom.data.spans import Scheme
from seqloom.data.tagging import Tagged
from seqloom.errors import ConfigError, ModelError
from seqloom.models.hidden.passes import viterbi_pairs
from seqloom.models.tagging.configs import HMMTaggerConfig


def count_tags(sequences: list[np.ndarray], n_tags: int) -> np.ndarray:
    """Count how often each tag follows each pair, (S + 1, S + 1, S + 1), sentence ends included."""
    size, parts = n_tags + 1, []
    for tags in sequences:
        framed = np.concatenate([[n_tags, n_tags], tags, [n_tags]]).astype(np.int64)
        parts.append((framed[:-2] * size + framed[1:-1]) * size + framed[2:])
    codes = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return np.bincount(codes, minlength=size**3).reshape(size, size, size)


def follow_probs(counts: np.ndarray, order: int) -> np.ndarray:
    """Compute p(tag | the tag before), (S + 1, S + 1), or p(tag | the two before),
    (S + 1, S + 1, S + 1), smoothed after Witten and Bell. The last tag is the sentence boundary.

        p(c | a b) = (count(a b c) + d(a b) p(c | b)) / (count(a b) + d(a b))

    with d, the number of distinct tags seen after a b; and likewise from pairs to single tags.
    """
    single = counts.sum(axis=(0, 1)) + 0.1
    pairs = _witten_bell(counts.sum(axis=0), single / single.sum())
    return pairs if order == 1 else _witten_bell(counts, pairs)


def _witten_bell(counts: np.ndarray, lower: np.ndarray) -> np.ndarray:
    total, distinct = counts.sum(axis=-1, keepdims=True), (counts > 0).sum(axis=-1, keepdims=True)
    return np.where(total > 0, (counts + distinct * lower) / np.maximum(total + distinct, 1), lower)


# ---- lexicon

MAX_CACHED_WORDS = 200_000


def shape(word: str) -> str:
    """Return the kind of a token, by its characters.

    >>> [shape(word) for word in ("Paris", "USA", "I", "42", "3.5", "F16", "well-known", "dog", ",", "")]
    ['Aa', 'AA', 'A', '0', '0.', '0a', 'a-', 'a', '.', '.']
    """
    if word.isdigit():
        return "0"
    letters = any(map(str.isalpha, word))
    if any(map(str.isdigit, word)):
        return "0a" if letters else "0."
    if not letters:
        return "."
    if word.isupper():
        return "A" if len(word) == 1 else "AA"
    if word[0].isupper():
        return "Aa"
    return "a-" if "-" in word else "a"


class Lexicon:
    """Which tags a word can have, known or not, from counts of tags by word (W, S): a chain of
    estimates, each smoothed by the next, more general one.

        the word -> its lower-case form -> its shape and last n letters, n-1 letters, ... -> its shape
        -> tags of rare words

        p_i(tag) = (count_i(tag) + k_i p_{i+1}(tag)) / (count_i + k_i)

    Endings are learnt from rare words, one vote for each word and tag, since unknown words are like
    rare ones (Brants 2000, section 2.3, and Samuelsson 1993).
    """

    def __init__(self, words: list[str], counts: np.ndarray, config: HMMTaggerConfig) -> None:
        self.config = config
        self.counts = counts
        self.rows = {word: row for row, word in enumerate(words)}
        total = counts.sum(axis=0)
        self.prior = total / total.sum()  # (S,), no tag of a tagset is without a word
        seen = counts.sum(axis=1)
        lower: dict[str, list[int]] = {}
        endings: dict[tuple[str, str], list[int]] = {}
        for word, row in self.rows.items():
            lower.setdefault(word.lower(), []).append(row)
            if seen[row] <= config.rare:
                for key in self._endings(word):
                    endings.setdefault(key, []).append(row)
        votes = np.minimum(counts, 1)
        self.lower = {form: counts[rows].sum(axis=0) for form, rows in lower.items()}
        self.endings = {key: votes[rows].sum(axis=0) for key, rows in endings.items()}
        rare = counts[seen <= config.rare].sum(axis=0)
        self.general = (rare + self.prior) / (rare.sum() + 1.0)  # (S,), all above zero
        self._cache: dict[str, np.ndarray] = {}

    def __contains__(self, word: str) -> bool:
        return word in self.rows

    def probs(self, word: str) -> np.ndarray:
        """Return p(tag | word), (S,): above zero for every tag."""
        guess = self.general
        for key in self._endings(word):
            guess = _smoothed(self.endings.get(key), guess, self.config.suffix_k)
        guess = _smoothed(self.lower.get(word.lower()), guess, self.config.lower_k)
        row = self.rows.get(word)
        return _smoothed(None if row is None else self.counts[row], guess, self.config.word_k)

    def scores(self, word: str) -> np.ndarray:
        """Return log p(word | tag), (S,), up to log p(word), which is the same for all tags: by Bayes
        p(word | tag) = p(tag | word) p(word) / p(tag).
        """
        scores = self._cache.get(word)
        if scores is None:
            if len(self._cache) >= MAX_CACHED_WORDS:
                self._cache.clear()
            scores = self._cache[word] = np.log(self.probs(word)) - np.log(self.prior)
        return scores

    def _endings(self, word: str) -> list[tuple[str, str]]:
        """Return shape and ending, from the empty ending to the longest; never the whole word."""
        kind, form = shape(word), word.lower()
        longest = min(self.config.suffix, len(form) - 1)
        return [(kind, ""), *((kind, form[-n:]) for n in range(1, longest + 1))]


def _smoothed(counts: np.ndarray | None, guess: np.ndarray, k: float) -> np.ndarray:
    return guess if counts is None else (counts + k * guess) / (counts.sum() + k)


# ---- tagger

MOST_TAGS = 200  # the table of three tags in a row has the cube of this
MOST_SEEN = 1 << 40  # largest count, so that no sum overflows
MIN_RELATIVE_PROB = (
    1e-5  # a tag with less than this share of the best tag's probability is not tried
)


class HMMTagger(Tagger):
    name = "hmm-tagger"
    config_class = HMMTaggerConfig
    lexicon: Lexicon
    follows: np.ndarray  # (S + 1, S + 1, S + 1) how often each tag follows each pair

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._log_transitions: np.ndarray | None = None

    @property
    def works_in(self) -> Scheme | None:
        return None if self.config.work_in == "data" else self.config.work_in

    @property
    def parameters(self) -> int:
        follows = self.follows if self.config.order == 2 else self.follows.sum(axis=0)
        return (
            int(np.count_nonzero(self.lexicon.counts) + np.count_nonzero(follows))
            if self.fitted
            else 0
        )

    def label(self) -> str:
        return f"hmm-tagger{self.config.order}"

    def knows(self, word: str) -> bool:
        return word in self.lexicon

    # ---- learning

    def fit_sentences(self, data: Tagged, options: FitOptions) -> None:
        tags = {tag: i for i, tag in enumerate(self.tags)}
        if len(tags) > MOST_TAGS:
            raise ConfigError(
                f"{data.name} has {len(tags)} different tags; an hmm-tagger takes at most {MOST_TAGS}: "
                "choose a coarser column"
            )
        rows: dict[str, int] = {}
        words = np.array(
            [rows.setdefault(word, len(rows)) for words in data.sentences for word in words],
            np.int64,
        )
        tag_ids = [np.array([tags[tag] for tag in sentence], np.int64) for sentence in data.tags]
        codes = words * len(tags) + np.concatenate(tag_ids)
        counts = np.bincount(codes, minlength=len(rows) * len(tags)).reshape(len(rows), len(tags))
        self._learnt(list(rows), counts, count_tags(tag_ids, len(tags)))
        self.fit_info["different_words"] = len(rows)

    def _learnt(self, words: list[str], counts: np.ndarray, follows: np.ndarray) -> None:
        self.lexicon, self.follows, self._log_transitions = (
            Lexicon(words, counts, self.config),
            follows,
            None,
        )

    # ---- tagging

    def tag_ids(self, sentences: list[list[str]]) -> list[np.ndarray]:
        lengths = np.array([len(words) for words in sentences], np.int64)
        rows: dict[str, int] = {}
        ids = np.array(
            [rows.setdefault(word, len(rows)) for words in sentences for word in words], np.int64
        )
        if not len(ids):
            return [np.empty(0, np.int64) for _ in sentences]
        scores = np.stack([self.lexicon.scores(word) for word in rows])  # (U, S)
        likely = scores + np.log(self.lexicon.prior)
        possible = likely >= likely.max(axis=1, keepdims=True) + np.log(MIN_RELATIVE_PROB)
        tag_offsets = np.concatenate([[0], np.cumsum(possible.sum(axis=1)[ids])])
        path, _ = viterbi_pairs(
            self._transitions(), scores[ids], lengths, (tag_offsets, np.nonzero(possible[ids])[1])
        )
        return np.split(path, np.cumsum(lengths)[:-1])

    def log_scores(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(w | u, v), (S + 1, S + 1, S + 1), the boundary last, and log p(word | tag) of each
        word, (T, S), up to log p(word).
        """
        return self._transitions(), np.stack([self.lexicon.scores(word) for word in words])

    def _transitions(self) -> np.ndarray:
        """Return [u, v, w] = log p(w | u, v), computed once, and laid out in memory by v, w and u, as
        the kernel reads it.
        """
        if self._log_transitions is None:
            probs = np.log(follow_probs(self.follows, self.config.order))
            probs = np.broadcast_to(probs, (len(probs),) * 3)  # of order 1: the same for every u
            self._log_transitions = np.ascontiguousarray(probs.transpose(1, 2, 0)).transpose(
                2, 0, 1
            )
        return self._log_transitions

    # ---- on disk: counts alone, from which the rest follows

    def arrays(self) -> dict[str, np.ndarray]:
        rows, tags = np.nonzero(self.lexicon.counts)
        return {
            **pack_words(self.lexicon.rows),
            "rows": rows,
            "tags": tags,
            "counts": self.lexicon.counts[rows, tags],
            "follows": self.follows,
        }

    def array_specs(self, length: Length) -> dict[str, Spec]:
        tags, pairs, size = len(self.tags), (length("counts"),), length("words")
        if tags > MOST_TAGS:
            raise ModelError(f"{tags} tags; an hmm-tagger has at most {MOST_TAGS}")
        return {
            "words": Spec("uint8", (size,)),
            "word_ends": Spec("int64", (length("word_ends"),), 0, size),
            "rows": Spec("int64", pairs, 0, length("word_ends") - 1),
            "tags": Spec("int64", pairs, 0, tags - 1),
            "counts": Spec("int64", pairs, 1, MOST_SEEN),
            "follows": Spec("int64", (tags + 1,) * 3, 0, MOST_SEEN),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        words = unpack_words(arrays)
        counts = np.zeros((len(words), len(self.tags)), np.int64)
        counts[arrays["rows"], arrays["tags"]] = arrays["counts"]
        if not counts.any(axis=0).all():
            raise ModelError("its words contradict its tags: the file is damaged")
        self._learnt(words, counts, np.array(arrays["follows"]))
