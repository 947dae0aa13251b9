"""What word2vec, its descendants and GloVe share: words with an input and an output matrix, learnt from
text; training can be continued on other text.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from seqloom import storage
from seqloom.arrays import Length, Spec
from seqloom.contracts.fitting import FitOptions, data_record
from seqloom.contracts.word_vectors import Embedder
from seqloom.data.corpus import Corpus, as_corpus
from seqloom.errors import ConfigError, DataError
from seqloom.models.word_vectors.reading import WordStream, check_text, read_words
from seqloom.models.word_vectors.windows import WordRows, output_rows, random_rows, train_windows
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.models.word_vectors.words import Words
from seqloom.text.vocabulary import spelling_specs

if TYPE_CHECKING:
    Mixin = Embedder
else:
    Mixin = object


class TrainingText(NamedTuple):
    """A text to learn from."""

    stream: WordStream
    counts: np.ndarray  # int64 (V,), of this text and those read before
    earlier_index: np.ndarray  # index of each word of the earlier model in `stream.words`


class TrainedVectors(Mixin):
    """Written before the contract: `class Glove(TrainedVectors, Embedder)`. It learns from windows,
    unless `_learn` is overridden.
    """

    public_names = "partial_fit"
    # Options that cannot change later.
    fixed_options: ClassVar[tuple[str, ...]] = ("dimensions", "tokenizer", "normalize")
    words: Words
    counts: np.ndarray  # int64 (V,)
    input: np.ndarray  # float32 (V, D); fastText: more rows, for n-grams
    output: np.ndarray  # float32 (V, D), or (V - 1, D) for the nodes of a tree

    def _forget(self) -> None:
        super()._forget()
        self._vectors: WordVectors | None = None
        self.layout = self._new_layout()

    def _new_layout(self) -> WordRows:
        """Return the layout of the rows of `input`, before anything is learnt."""
        return WordRows(self.config)

    def label(self) -> str:
        kind = "sg" if self.config.architecture == "skip-gram" else "cbow"
        return f"{self.name}-{kind}-{self.config.loss}{self.config.dimensions}"

    # ---- learning

    def _learn(
        self, text: TrainingText, options: FitOptions, earlier: Self | None, facts: dict[str, Any]
    ) -> None:
        """Learn the words of a text, from an earlier model or from scratch; `facts` identify the
        checkpoints.
        """
        c, words, earlier_index = self.config, text.stream.words, text.earlier_index
        bags, buckets = self.layout.bags(words)
        inputs = random_rows(len(words) * self.layout.own + len(buckets), c.dimensions, c.seed)
        outputs = output_rows(c, len(words))
        if earlier is not None:
            if self.layout.own:
                inputs[earlier_index, : c.dimensions] = earlier.input[: len(earlier_index)]
            self.layout.copy_ngrams(earlier.layout, earlier.input, bags, buckets, inputs)
            # A tree is trained from scratch, since its nodes differ.
            if c.loss != "hs" and earlier.config.loss != "hs":
                outputs[earlier_index, : c.dimensions] = earlier.output
        losses = train_windows(
            text.stream, bags, inputs, outputs, text.counts, c, run=options.run, facts=facts
        )
        self.input, self.output = (
            inputs[:, : c.dimensions].copy(),
            outputs[:, : c.dimensions].copy(),
        )
        self.layout = self.layout.learnt(self.input, bags, buckets)
        self.fit_info["losses"] = losses

    def fit_corpus(self, corpus: Corpus, options: FitOptions) -> None:
        start = self.config.start
        earlier = storage.load(start) if start is not None else None
        if earlier is not None and type(earlier) is not type(self):
            raise ConfigError(f"start must be a saved {self.name} model; {start} is {earlier.name}")
        self._train_on(
            corpus, options, earlier, earlier.recorded("data_hash", "") if earlier else None
        )

    def partial_fit(
        self, data: Any, *, memory: int | str | None = None, run: str | Path | None = None
    ) -> Self:
        """Continue training on new text: known words keep their vectors as a start, new ones are added,
        none is dropped.

        If training fails, the model stays unchanged.
        """
        if not self.fitted:
            return self.fit(data, memory=memory, run=run)
        corpus, before, start = as_corpus(data), dict(self.__dict__), self.recorded("data_hash", "")
        self.fit_info = {}
        try:
            self._train_on(corpus, self.fit_options(memory, None, None, run), self, start)
            self.fit_info = {**data_record(corpus), **self.fit_info}
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)  # arrays are replaced, never changed in place
            raise
        return self

    def _train_on(
        self, corpus: Corpus, options: FitOptions, earlier: Self | None, start: str | None
    ) -> None:
        """Train on the corpus. `start`: the hash of the data that was learnt before."""
        check_text(corpus)
        tokenizer, earlier_index = self._make_tokenizer(corpus), np.zeros(0, np.int64)
        if earlier is not None:
            self._check_like(earlier)
            tokenizer = tokenizer.extended(
                [earlier.words.spelling(i) for i in range(len(earlier.words))]
            )
        stream = read_words(corpus, tokenizer, self.config.unit, options.memory)
        if not stream.has_neighbours():
            raise DataError(
                f"no two words of {corpus.name} are next to each other in one {self.config.unit}; "
                f"give more text, "
                "a lower min_count or a larger unit (unit=...)"
            )
        counts = stream.counts
        if earlier is not None:
            earlier_index, counts = stream.words.find(earlier.words[:]), counts.copy()
            counts[earlier_index] += earlier.counts
        facts = {
            "model": self.name,
            "config": self.config.to_dict(),
            "data": corpus.fingerprint[:16],
            "words": len(stream.words),
            "start": start,
        }
        self._learn(TrainingText(stream, counts, earlier_index), options, earlier, facts)
        self.tokenizer, self.words, self.counts, self._vectors = (
            tokenizer,
            stream.words,
            counts,
            None,
        )
        self.fit_info |= {
            "words": len(stream.words),
            "tokens": stream.n_words,
            "dimensions": self.config.dimensions,
        }
        if earlier is not None:
            self.fit_info["start"] = start
            self._reorder(np.argsort(-counts, kind="stable"))

    def _check_like(self, earlier: Self) -> None:
        """Refuse to continue from a model with other fixed options."""
        pairs = [
            (name, getattr(self.config, name), getattr(earlier.config, name))
            for name in self.fixed_options
        ]
        if differences := [
            f"{name} is {mine}, but the model to go on from has {had}"
            for name, mine, had in pairs
            if mine != had
        ]:
            raise ConfigError(f"{', '.join(differences)}; give the same")

    def _reorder(self, order: np.ndarray) -> None:
        """Sort the words again, frequent ones first."""
        self.words, self.counts, self.layout = (
            self.words.take(order),
            self.counts[order],
            self.layout.reordered(order),
        )
        if self.layout.own:
            self.input = np.concatenate([self.input[order], self.input[len(order) :]])
        if len(self.output) == len(order):  # not a tree, which has nodes
            self.output = self.output[order]

    # ---- what it learnt

    def unseen(self, words: list[str]) -> np.ndarray | None:
        return self.layout.unseen(self.input, words)

    @property
    def parameters(self) -> int:
        return self.input.size + self.output.size if self.fitted else 0

    @property
    def vectors(self) -> WordVectors:
        self.check_fitted()
        if self._vectors is None:
            self._vectors = WordVectors.of(
                self.words,
                self.layout.vectors(self.input, self.output),
                self.counts,
                source=self.recorded("data", "memory"),
            )
        return self._vectors

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            **self.words.arrays(),
            "counts": self.counts,
            "input": self.input,
            "output": self.output,
            **self.layout.arrays(),
        }

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size = length("offsets") - 1
        nodes = max(size - 1, 1) if getattr(self.config, "loss", None) == "hs" else size
        return {
            **spelling_specs(length),
            "counts": Spec("int64", (size,), low=0),
            **self.layout.array_specs(length),
            "output": Spec("float32", (nodes, self.config.dimensions)),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.words, self._vectors, self.layout = (
            Words.restore(arrays),
            None,
            self.layout.restored(arrays),
        )
        self.counts, self.input, self.output = (
            arrays[name] for name in ("counts", "input", "output")
        )
