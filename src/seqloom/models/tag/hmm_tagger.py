"""Part-of-speech and name tagging by a hidden Markov model whose states are the tags (Church 1988; Brants 2000, "TnT").

    best tags = argmax over tags of  sum log p(tag | the one or two before)  +  log p(word | tag)

Both come from counts of tagged sentences (`transitions.py`, `lexicon.py`), so learning is one pass. The sentence's borders
count as tags. Only tags that the lexicon finds possible for a word are tried, which changes nothing but the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts import Fitting, Tagger
from seqloom.data.spans import Scheme
from seqloom.data.tagging import Tagged
from seqloom.errors import ConfigError, ModelError
from seqloom.models.hidden.pairs import viterbi_pairs
from seqloom.models.tag.configs import HMMTaggerConfig
from seqloom.models.tag.lexicon import Lexicon
from seqloom.models.tag.transitions import count_tags, follow_probs
from seqloom.models.tag.words import pack_words, unpack_words

MOST_TAGS = 200  # the table of three tags in a row has its cube
MOST_SEEN = 1 << 40  # of a count, so that no sum overflows
POSSIBLE = 1e-5  # a tag that is so much less likely than the word's best is not tried


class HMMTagger(Tagger):
    name = "hmm-tagger"
    config_class = HMMTaggerConfig
    lexicon: Lexicon
    follows: np.ndarray  # (S + 1, S + 1, S + 1) how often each tag follows each pair

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._log_moves: np.ndarray | None = None

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

    def fit_sentences(self, data: Tagged, how: Fitting) -> None:
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
        self.lexicon, self.follows, self._log_moves = (
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
        possible = likely >= likely.max(axis=1, keepdims=True) + np.log(POSSIBLE)
        firsts = np.concatenate([[0], np.cumsum(possible.sum(axis=1)[ids])])
        path, _ = viterbi_pairs(
            self._moves(), scores[ids], lengths, (firsts, np.nonzero(possible[ids])[1])
        )
        return np.split(path, np.cumsum(lengths)[:-1])

    def _moves(self) -> np.ndarray:
        """[u, v, w] = log p(w | u, v), made once and laid out in memory as the kernel reads it, by v, w and u."""
        if self._log_moves is None:
            probs = np.log(follow_probs(self.follows, self.config.order))
            probs = np.broadcast_to(probs, (len(probs),) * 3)  # of order 1: the same for every u
            self._log_moves = np.ascontiguousarray(probs.transpose(1, 2, 0)).transpose(2, 0, 1)
        return self._log_moves

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
