"""From texts to features: the words of a text and its n-grams of words, exact and never hashed together.

A feature occurred in training at least `min_count` times (`feature_counts.py` counts them); other
words, and n-grams that contain them, are ignored. Its row is the id of the word, or for an n-gram
the size of the vocabulary plus its index among the keys (`kernels/features.py`). The tokenizer reads
many texts at a time, as lines, in threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from seqloom.errors import DataError, ModelError
from seqloom.models.classification.configs import NaiveBayesConfig, WordNgramsConfig
from seqloom.text.coding import to_bytes
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import SPLITTERS


def check_texts(texts: Sequence[str]) -> None:
    if not set(map(type, texts)) <= {str}:
        for row, text in enumerate(texts, 1):
            if not isinstance(text, str):
                raise DataError(
                    f"text {row} must be a str; got {type(text).__name__}: {str(text)[:40]!r}"
                )


def join(texts: Sequence[str]) -> bytes:
    """Join texts as lines of UTF-8; a newline inside one becomes a blank."""
    blob = "\n".join([*texts, ""])
    if blob.count("\n") != len(texts):
        blob = "\n".join([*(text.replace("\n", " ") for text in texts), ""])
    return to_bytes(blob)


class Features:
    """The features of a fitted model, found in new texts."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        keys: np.ndarray,
        frequent: np.ndarray,
        longest: int,
        *,
        presence: bool = False,
    ) -> None:
        """Index the n-grams of `keys`; frequent (V,): which words are features; `presence`: `score`
        takes each once per text.
        """
        from seqloom.kernels.features import UNKNOWN, fill_slots

        self.tokenizer, self.keys, self.longest = tokenizer, keys, longest
        self.presence = presence
        self.ids = word_ids(tokenizer)
        self.ids[(self.ids >= 0) & ~frequent] = UNKNOWN
        # (F,): which rows are features.
        self.usable = np.append(self.ids >= 0, np.ones(len(keys), bool))
        self.slots = empty_slots(len(keys))
        fill_slots(keys, len(keys), self.slots)

    def score(
        self, texts: Sequence[str], weights: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield for each batch the sums (n, C) of the weights (F, C) of each text's features, and the
        number of its features (n,).
        """
        from seqloom.kernels.features import score_documents
        from seqloom.kernels.parallel import parallel_map, text_batches

        check_texts(texts)

        def work(batch: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            scores, n_features = (
                np.zeros((len(batch), weights.shape[1])),
                np.zeros(len(batch), np.int64),
            )
            stamps = np.zeros(len(weights) if self.presence else 0, np.int32)
            score_documents(
                self._encode(batch),
                self.longest,
                self.presence,
                len(self.ids),
                self.keys,
                self.slots,
                weights,
                stamps,
                scores,
                n_features,
            )
            return scores, n_features

        return parallel_map(work, text_batches(texts))

    def of(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of a text's features, ascending, and how often each occurs in it."""
        rows, times, _ = self.count([text])
        order = np.argsort(rows)
        return rows[order].astype(np.int64), times[order].astype(np.int64)

    def count(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of the features of each text and how often each occurs in it, int32, text
        after text, and where each text's end: int64 (n,).
        """
        from seqloom.kernels.features import list_features, merge_features

        ids = self._encode(texts)
        rows, ends = np.empty(len(ids) * self.longest, np.int32), np.zeros(len(texts), np.int64)
        list_features(ids, self.longest, len(self.ids), self.keys, self.slots, rows, ends)
        times = np.empty(ends[-1], np.int32)
        n = merge_features(rows, ends, np.zeros(len(self.usable), np.int32), times)
        return rows[:n], times[:n], ends

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        return self.ids[self.tokenizer.encode_block(join(texts), True)]

    def name(self, row: int) -> str:
        """Return the words of a feature."""
        words: list[int] = []
        while row >= len(self.ids):
            code, word = split_keys(self.keys[row - len(self.ids)])
            words.append(int(word))
            row = int(code)
        return self.tokenizer.joiner.decode().join(
            map(self.tokenizer.token, [row, *reversed(words)])
        )


def grows(config: WordNgramsConfig) -> bool:
    """Return whether the vocabulary can grow with the texts; else the tokenizer must be fitted
    first.
    """
    return config.tokenizer in SPLITTERS and config.vocab_file is None


def once(config: NaiveBayesConfig) -> bool:
    """Return whether a feature counts once per text."""
    return config.features == "presence" or config.variant == "bernoulli"


def word_ids(tokenizer: Tokenizer) -> np.ndarray:
    """Return each id itself, END for the end of a text, UNKNOWN for `<unk>`: int32 (V,)."""
    from seqloom.kernels.features import END, UNKNOWN

    ids = np.arange(tokenizer.vocab_size, dtype=np.int32)
    ids[tokenizer.eos_id] = END
    if tokenizer.unk_id is not None:
        ids[tokenizer.unk_id] = UNKNOWN
    return ids


def split_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split the keys of n-grams into code and last word, int64."""
    return (keys >> np.uint64(32)).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def check_keys(keys: np.ndarray, tokenizer: Tokenizer) -> None:
    """Refuse keys of n-grams that contain words which the tokenizer does not have."""
    v, (codes, words) = tokenizer.vocab_size, split_keys(keys)
    specials = [tokenizer.eos_id, -1 if tokenizer.unk_id is None else tokenizer.unk_id]
    if (
        (codes >= v + np.arange(len(keys))).any()
        or (words >= v).any()
        or np.isin([codes, words], specials).any()
    ):
        raise ModelError("its n-grams contain words that it does not have: the file is damaged")


def make_keys(codes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return codes.astype(np.uint64) << np.uint64(32) | words.astype(np.uint64)


def empty_slots(n: int) -> np.ndarray:
    """Return an empty hash table that n keys fill to at most one half."""
    return np.full(1 << max(2 * n, 1).bit_length(), -1, np.int32)
