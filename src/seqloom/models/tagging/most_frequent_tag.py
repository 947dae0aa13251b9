"""The most frequent tag of each word, whatever its context: the baseline of the other taggers.

A word that was not in the training data gets the most frequent tag of the words that occur once there
(they are most like words that never occur), or else the most frequent of all. Of tags that are
equally frequent, the first by name is taken.

    >>> model = MostFrequentTag().fit([(["the", "run"], ["DET", "NOUN"]),
    ...                                (["run", "the", "run"], ["VERB", "DET", "NOUN"])])
    >>> model.predict(["the", "run", "ended"])
    ['DET', 'NOUN', 'DET']
"""

from __future__ import annotations

import numpy as np

from seqloom.arrays import Length, Spec, pack_words, unpack_words
from seqloom.contracts import FitOptions, Tagger
from seqloom.data.tagging import Tagged
from seqloom.models.tagging.configs import MostFrequentTagConfig


class MostFrequentTag(Tagger):
    name = "most-frequent-tag"
    config_class = MostFrequentTagConfig
    rows: dict[str, int]  # index of each word in `best`
    best: np.ndarray  # int64 (words + 1,): the tag of each, and last that of unknown words

    @property
    def parameters(self) -> int:
        return len(self.best) if self.fitted else 0

    def knows(self, word: str) -> bool:
        return word in self.rows

    def fit_sentences(self, data: Tagged, options: FitOptions) -> None:
        tags = {tag: i for i, tag in enumerate(self.tags)}
        self.rows = {}
        words = np.array(
            [
                self.rows.setdefault(word, len(self.rows))
                for words in data.sentences
                for word in words
            ],
            np.int64,
        )
        ids = np.array([tags[tag] for sentence in data.tags for tag in sentence], np.int64)
        pairs, counts = np.unique(words * len(tags) + ids, return_counts=True)
        order = np.lexsort((pairs, -counts))  # the most frequent first, then by word and tag
        _, first = np.unique(pairs[order] // len(tags), return_index=True)
        once = np.bincount(words)[words] == 1
        unknown = np.bincount(ids[once] if once.any() else ids, minlength=len(tags)).argmax()
        self.best = np.append(pairs[order][first] % len(tags), unknown)
        self.fit_info["different_words"] = len(self.rows)

    def tag_ids(self, sentences: list[list[str]]) -> list[np.ndarray]:
        unknown = len(self.rows)
        return [
            self.best[[self.rows.get(word, unknown) for word in words]]
            if words
            else np.empty(0, np.int64)
            for words in sentences
        ]

    def arrays(self) -> dict[str, np.ndarray]:
        return {**pack_words(self.rows), "best": self.best}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size, words = length("words"), length("word_ends")
        return {
            "words": Spec("uint8", (size,)),
            "word_ends": Spec("int64", (words,), 0, size),
            "best": Spec("int64", (words + 1,), 0, len(self.tags) - 1),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.rows = {word: i for i, word in enumerate(unpack_words(arrays))}
        self.best = np.array(arrays["best"])
