"""Which tags a word can have, known or not: a chain of guesses, each smoothed by the more general one behind it.

    the word -> its lower-case form -> its shape and last n letters, n-1 letters, ... -> its shape -> tags of rare words

    p_i(tag) = (count_i(tag) + k_i p_{i+1}(tag)) / (count_i + k_i)

Endings are learnt from rare words, one vote for each word and tag, since unknown words are like rare ones (Brants 2000,
"TnT", section 2.3, and Samuelsson 1993). An HMM needs p(word | tag); by Bayes that is p(tag | word) p(word) / p(tag),
and p(word) is the same for all tags, so `scores` leaves it out.
"""

from __future__ import annotations

import numpy as np

from seqloom.models.tag.configs import HMMTaggerConfig

KEPT = 200_000  # words whose scores are remembered


def shape(word: str) -> str:
    """What kind of token it is, by its characters.

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
    """Counts of tags by word, (W, S), and what follows from them."""

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
        self._known: dict[str, np.ndarray] = {}

    def __contains__(self, word: str) -> bool:
        return word in self.rows

    def probs(self, word: str) -> np.ndarray:
        """p(tag | word), (S,): above zero for every tag."""
        guess = self.general
        for key in self._endings(word):
            guess = _smoothed(self.endings.get(key), guess, self.config.suffix_k)
        guess = _smoothed(self.lower.get(word.lower()), guess, self.config.lower_k)
        row = self.rows.get(word)
        return _smoothed(None if row is None else self.counts[row], guess, self.config.word_k)

    def scores(self, word: str) -> np.ndarray:
        """log p(word | tag) but for a constant of the word, (S,)."""
        scores = self._known.get(word)
        if scores is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            scores = self._known[word] = np.log(self.probs(word)) - np.log(self.prior)
        return scores

    def _endings(self, word: str) -> list[tuple[str, str]]:
        """Shape and ending, from the most general to the longest; never the whole word."""
        kind, form = shape(word), word.lower()
        longest = min(self.config.suffix, len(form) - 1)
        return [(kind, ""), *((kind, form[-n:]) for n in range(1, longest + 1))]


def _smoothed(counts: np.ndarray | None, guess: np.ndarray, k: float) -> np.ndarray:
    return guess if counts is None else (counts + k * guess) / (counts.sum() + k)
