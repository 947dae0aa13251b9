"""Texts as rows of an array, as a step of a scikit-learn Pipeline gives them to the next: `transform`.

Word vectors give the mean vector of a text, sentence vectors its vector, and language models with a
hidden state its mean after each token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from seqloom import batching
from seqloom.data.examples import units
from seqloom.errors import DataError, quoted

if TYPE_CHECKING:
    from seqloom.contracts.base import Model
    from seqloom.contracts.language import LanguageModel

    Mixin = Model
else:
    Mixin = object

# Texts that are read at a time, and their characters, which limits the vectors of tokens in memory.
TEXTS_PER_BATCH, CHARACTERS_PER_BATCH = 1024, 1 << 15


class Hidden(NamedTuple):
    """The tokens of a text with their marks, and the vector of each."""

    tokens: list[str]
    vectors: np.ndarray  # float32 (T, D)


class TextTransformer(Mixin):
    """Written before Model in a contract: `class Embedder(TextTransformer, Model)`."""

    public_names = "transform fit_transform"
    # Whether `fit` learns from text; not where vectors or weights are finished.
    learns_text: ClassVar[bool] = True

    def text_vectors(self, texts: list[str]) -> np.ndarray:
        """Return a vector for each of these texts, float32 (n, D); written by the contract."""
        raise NotImplementedError

    def transform(self, texts: Any) -> np.ndarray:
        """Return an array with a row for each text, float32 (n, D); for scikit-learn and the like.

        `texts`: a list, generator, array or column of texts, or of lists of words.
        """
        self.check_fitted()
        rows = [self.text_vectors(group) for group in _portions(as_texts(texts))]
        return np.concatenate(rows) if rows else self.text_vectors([""])[:0]

    def fit_transform(self, texts: Any, labels: Any = None) -> np.ndarray:
        """Fit on the texts and return `transform` of them. Labels, which a Pipeline hands to each of
        its steps, have no effect; a model that does not learn from text stays as it is.
        """
        texts = as_texts(texts)
        if self.learns_text:
            self.fit(texts)
        return self.transform(texts)

    def __sklearn_clone__(self) -> Self:
        return super().__sklearn_clone__() if self.learns_text else self


def as_texts(data: Any) -> list[str]:
    """Return the texts of a list, generator, array or column; refuse anything else."""
    if isinstance(data, (str, bytes, dict)):
        raise DataError(f"expected a list of texts; got one {type(data).__name__}: {quoted(data)}")
    texts = list(units(data)[0])
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise DataError(f"text {number} of {len(texts):,} is no text: {quoted(text)}")
    return texts


def _portions(texts: list[str]) -> Iterator[list[str]]:
    return batching.portions(texts, CHARACTERS_PER_BATCH, TEXTS_PER_BATCH)


# ---- language models


def read_states(
    model: LanguageModel, texts: Sequence[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the ids of each text, `</s>` at the end of each unit, and the state before each, (T, D)."""
    encoded = [model.encode(text) for text in texts]
    lengths = np.array([len(ids) for ids, _ in encoded])
    sequences = lengths if model.carry else np.concatenate([parts for _, parts in encoded])
    states = model.hidden_states(np.concatenate([ids for ids, _ in encoded]), sequences)
    ends = np.cumsum(lengths)
    for (ids, _), low, high in zip(encoded, ends - lengths, ends):
        yield ids, states[low:high]


def tokens_before(model: LanguageModel, ids: np.ndarray) -> np.ndarray:
    """Return the token before each of these: a unit ends with `</s>`, and the next begins as if it, or
    another mark with which published weights begin, had just been read.
    """
    eos = model.tokenizer.eos_id
    start = getattr(model, "start_id", eos)
    read = np.concatenate([[start], ids[:-1]])
    if not model.carry:
        read[read == eos] = start
    return read


def hidden_of(model: LanguageModel, texts: str | Sequence[str]) -> Any:
    """Return the state after each token of a text, the mark before its first one included; for a
    list, a list.
    """
    model.check_fitted()
    single = isinstance(texts, str)
    result = []
    for group in _portions([texts] if isinstance(texts, str) else as_texts(texts)):
        for ids, states in read_states(model, group):
            read = tokens_before(model, ids)
            result.append(Hidden([model.tokenizer.token(token) for token in read.tolist()], states))
    return result[0] if single else result


def mean_states(model: LanguageModel, texts: list[str]) -> np.ndarray:
    """Return the mean of the states after each token of each text, float32 (n, D); of an empty text
    the state at its beginning.
    """
    return np.stack(
        [states[min(1, len(states) - 1) :].mean(axis=0) for _, states in read_states(model, texts)]
    )
