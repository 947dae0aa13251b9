"""Readers: inputs to vectors (N, d_out) for an encoder (`nn.readers` and the reader of `nn.bert`
without torch).

Steps are flat named arrays with a row for each step: `ids`, `values`, `words` (the index of each word
among the spellings).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np

from seqloom.batching import offsets, there
from seqloom.kernels.maths import LAST, character_maxima, pool_rows
from seqloom.runtime.bert import BertNet
from seqloom.runtime.cells import Sequences
from seqloom.runtime.declarations import Examples
from seqloom.runtime.recurrent import RecurrentStack
from seqloom.runtime.weights import Weights

Steps = Mapping[str, np.ndarray]
ZERO = np.float32(0)


class CharacterReader:
    """The spelling of words as vectors, by filters over three characters or by an LSTM in both directions."""

    def __init__(
        self, weights: Weights, n_chars: int, d_char: int, d_out: int, kind: Literal["cnn", "lstm"]
    ) -> None:
        self.embedding = weights.take("embedding.weight", n_chars, d_char, role="table")
        self.d_out, self.kind = d_out, kind
        if kind == "cnn":
            self.filters = weights.take("filters.weight", d_out, 3 * d_char, role="matrix")
            self.bias = weights.take("filters.bias", d_out)
        else:
            self.recurrent = RecurrentStack(
                weights.within("recurrent"), d_char, d_out // 2, cell="lstm", bidirectional=True
            )

    @cached_property
    def taps(self) -> np.ndarray:
        """Return the vectors of the characters times the three parts of the filters, (3, C, F)."""
        return np.stack([self.embedding @ part.T for part in np.split(self.filters, 3, axis=1)])

    def __call__(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the vectors (U, d_out) of words, ids (U, L) of their characters."""
        if self.kind == "cnn":
            out = np.zeros((len(ids), self.d_out), np.float32)
            character_maxima(ids, lengths, self.taps, self.bias, out)
            return out
        row_offsets, inside = offsets(lengths), there(lengths, ids.shape[1])
        states, _ = self.recurrent.walk(self.embedding[ids[inside]], Sequences.at(row_offsets))
        return pool_rows(states, row_offsets, LAST, self.d_out // 2)


class TokenReader:
    """Vectors of tokens, plus those of their types where there are some, followed by those of their
    characters; ids from `vocab_size` on are rows of the table `further`.
    """

    def __init__(
        self,
        weights: Weights,
        vocab_size: int,
        d_embed: int,
        *,
        further: int = 0,
        n_chars: int = 0,
        d_characters: int = 0,
        characters: Literal["none", "cnn", "lstm"] = "none",
        n_types: int = 0,
    ) -> None:
        self.embedding = weights.table("embedding.weight", vocab_size, d_embed)
        self.types = weights.table("types.weight", n_types, d_embed) if n_types else None
        self.further = weights.table("further", further, d_embed) if further else None
        self.vocab_size, self.characters, self.d_out = vocab_size, None, d_embed
        if characters != "none":
            self.characters = CharacterReader(
                weights.within("characters"),
                n_chars,
                min(d_characters, 50),
                d_characters,
                characters,
            )
            self.d_out += d_characters

    def __call__(self, steps: Steps, spellings: Any = None) -> np.ndarray:
        """Return the vectors of all steps; `spellings` has the characters of the distinct words, `ids`
        and `lengths`.
        """
        ids = steps["ids"]
        vectors = np.asarray(self.embedding[np.minimum(ids, self.vocab_size - 1)], np.float32)
        if self.further is not None:
            beyond = np.flatnonzero(ids >= self.vocab_size)
            vectors[beyond] = self.further[ids[beyond] - self.vocab_size]
        if self.types is not None:
            vectors = vectors + self.types[steps["types"]]
        if self.characters is None or spellings is None:
            return vectors
        if len(spellings.lengths) <= len(ids):  # most of the spellings occur
            spelled = self.characters(spellings.ids, spellings.lengths)[steps["words"]]
        else:
            used, inverse = np.unique(steps["words"], return_inverse=True)
            spelled = self.characters(spellings.ids[used], spellings.lengths[used])[
                inverse.reshape(ids.shape)
            ]
        return np.concatenate([vectors, spelled], axis=1)


class NumberReader:
    """Numbers, scaled by the training data's mean and deviation, with indicators of missing ones (NaN)."""

    def __init__(self, weights: Weights, n_columns: int, *, missing: bool = False) -> None:
        self.missing, self.d_out = missing, n_columns * (2 if missing else 1)
        self.mean, self.scale = weights.take("mean", n_columns), weights.take("scale", n_columns)

    def __call__(self, steps: Steps, spellings: Any = None) -> np.ndarray:
        values = steps["values"]
        absent = np.isnan(values)
        scaled = np.where(absent, ZERO, (values - self.mean) / self.scale).astype(np.float32)
        return (
            np.concatenate([scaled, absent.astype(np.float32)], axis=1) if self.missing else scaled
        )


class PublishedReader:
    """The first layer of a published encoder: reads ids with special tokens and, of pairs, `types`."""

    def __init__(self, first: BertNet) -> None:
        self.first, self.d_out = first, first.d_model

    def __call__(self, steps: Steps, spellings: Any = None) -> np.ndarray:
        return self.first.embed(steps["ids"], steps["offsets"], steps.get("types"))


def read_sources(reader: Any, embedding: Any, examples: Examples) -> np.ndarray:
    """Return the vectors of all steps of sources: those of their reader or, without one, those of the
    targets' embedding.
    """
    if reader is None:
        return np.asarray(embedding[examples.steps["ids"]], np.float32)
    vectors: np.ndarray = reader(
        {**examples.steps, "offsets": examples.offsets}, examples.spellings
    )
    return vectors
