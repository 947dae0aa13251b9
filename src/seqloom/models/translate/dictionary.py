"""`dictionary`: word for word, by the translations that IBM model 1 finds for each word (`lexical_table`).

Each word of the source is replaced in its place by its likeliest translation, so that blanks and order stay; a word that was
never seen is copied, which suits names and numbers. Probabilities are those of the model: the source's words, and the empty
word in the place of `</s>`, are equally likely to be translated next; the number of target words is geometric, and its mean
grows with the length of the source. Alignments are the shares of the source words in each target word.

    >>> model = Dictionary().fit([("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")] * 2)
    >>> model.translate("das  Buch, ein Haus!"), model.dictionary("Haus", 1)[0][0]
    ('the  book, a house!', 'house')
"""

from __future__ import annotations

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts.base import Fitting
from seqloom.contracts.translations import Translation, TranslationConfig
from seqloom.contracts.translator import Translator
from seqloom.data.translation import Parallel
from seqloom.errors import DataError, ModelError, quoted
from seqloom.models.translate.configs import DictionaryConfig
from seqloom.models.translate.lexical_table import LexicalTable, Words, learn_table
from seqloom.models.translate.pairs import encode_texts
from seqloom.text.tokenizer import Tokenizer


class Dictionary(Translator):
    name = "dictionary"
    config_class = DictionaryConfig
    starts_without_numba = True
    table: LexicalTable
    rate: float  # target words for each source word, the empty word among them

    @property
    def parameters(self) -> int:
        return len(self.table.probs) if self.fitted else 0

    # ---- fitting

    def fit_pairs(self, data: Parallel, how: Fitting) -> None:
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
        words = Words(encoded.steps["ids"], encoded.borders[1:])
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
        """The likeliest translation of a source word; of equal ones the commonest; None where there is none."""
        words, probs = self.table.translations(source)
        if source == self.tokenizers["source"].unk_id or not len(words):
            return None
        best = int(words[probs.argmax()])
        return None if best == self.target_tokenizer.unk_id else best

    def dictionary(self, word: str, n: int = 10) -> list[tuple[str, float]]:
        """The likeliest translations of a word with their probabilities."""
        self.check_fitted()
        known = self.tokenizers["source"].id(word)
        if known is None:
            raise DataError(
                f"the dictionary has no word {quoted(word)}; it was not in the training data"
            )
        words, probs = self.table.translations(known)
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
        """The share of each source word, and of the empty word in the place of `</s>`, in each target word."""
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
        """Of each target word and of the end."""
        end = 1.0 / (1.0 + self.rate * len(source))
        words = self._probabilities(source, target[:-1]).mean(axis=1)
        return np.log(np.append((1.0 - end) * words, end)).astype(np.float32)

    def _probabilities(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """t(f | e), smoothed, (T, S); a source word without translations counts as the empty word."""
        share, read = self.config.smoothing, self.tokenizers["source"]
        known = np.where(self.table.knows(source), source, read.eos_id)
        return (1.0 - share) * self.table.probabilities(known, target) + share / (
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
    known = tokenizer.id(word)
    if known is None:
        known = tokenizer.unk_id
    assert known is not None  # closed vocabularies have one
    return known


def split_words(text: str, kind: str) -> list[str]:
    """What is translated one by one, as the tokenizers see it."""
    if kind == "char":
        return list(text)
    from seqloom.text.segment import words

    return words(text)
