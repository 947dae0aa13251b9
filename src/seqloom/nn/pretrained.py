"""Word vectors as the first layer of a network: a row for each of its tokens.

The vectors were learnt from more text than the network will see, so it begins with what that text knew about its words
(Collobert et al. 2011, "Natural Language Processing (almost) from Scratch", section 4). A token without a vector gets one
of three things: a random vector as long as the others, one built from its spelling where the embedder can do that
(fastText), or the mean of those that were found.

    >>> from seqloom.models.vectors.word_vectors import WordVectors
    >>> vectors = WordVectors.of(["cat", "dog"], [[1.0, 0.0], [0.0, 1.0]])
    >>> made = table(vectors, ["dog", "zebra"], unknown="mean")
    >>> made.matrix.tolist(), made.known.tolist()
    ([[0.0, 1.0], [0.0, 1.0]], [True, False])

In a module of one's own: `torch.nn.Embedding.from_pretrained(torch.from_numpy(made.matrix), freeze=True)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from seqloom.errors import ConfigError, DataError

Unknown = Literal["random", "subword", "mean"]


class Source(Protocol):
    """Any embedder of seqloom."""

    @property
    def vectors(self) -> Any:
        """Words with their matrix: a WordVectors."""
        ...

    def unseen(self, words: list[str]) -> np.ndarray | None:
        """Vectors (n, D) of words that are not in the list; None: it has none for them."""
        ...


class Table(NamedTuple):
    matrix: np.ndarray  # float32 (V, D), a row for each token
    known: np.ndarray  # bool (V,): the token has a vector of its own
    built: np.ndarray  # bool (V,): its vector was built from its spelling


def table(
    vectors: Source, tokens: Sequence[str], *, unknown: Unknown = "random", seed: int = 0
) -> Table:
    """The vector of each token by its spelling as it stands; a table of which no row was found is an error.

    `unknown`: what a token without a vector gets. `random`: normal around zero, of the mean square of those found.
    `subword`: built from its spelling; `random` where that gives nothing. `mean`: of those found.
    """
    if unknown not in ("random", "subword", "mean"):
        raise ConfigError(f"unknown must be one of random, subword, mean; got {unknown!r}")
    pretrained = vectors.vectors
    places = pretrained.words.find(tokens)
    known = places >= 0
    if not known.any():
        raise DataError(
            f"none of the {len(tokens):,} tokens, such as {_some(tokens)}, is among the "
            f"{len(pretrained.words):,} words that have vectors, such as {_some(pretrained.words[:3])}; "
            "they must be spelled alike"
        )
    matrix = np.array(
        pretrained.matrix[np.maximum(places, 0)], np.float32
    )  # (V, D), in memory of its own
    if not np.isfinite(matrix[known]).all():
        bad = int(np.flatnonzero(known & ~np.isfinite(matrix).all(axis=1))[0])
        raise DataError(f"the vector of {tokens[bad]!r} has a value that is not a finite number")
    built = np.zeros(len(tokens), bool)
    if unknown == "mean":
        matrix[~known] = matrix[known].mean(axis=0, dtype=np.float64)
        return Table(matrix, known, built)
    scale = np.sqrt(np.square(matrix[known], dtype=np.float64).mean())
    missing = np.flatnonzero(~known)
    matrix[missing] = np.random.default_rng(seed).normal(
        0.0, scale, (len(missing), matrix.shape[1])
    )
    if unknown == "subword" and len(missing):
        made = vectors.unseen([tokens[i] for i in missing.tolist()])
        if made is None:
            raise ConfigError(
                "these vectors have nothing to build those of unknown words from; take an embedder with "
                "subwords, such as fasttext, or unknown tokens as random or mean"
            )
        some = np.any(made != 0, axis=1)
        matrix[missing[some]], built[missing[some]] = made[some], True
    return Table(matrix, known, built)


def _some(words: Sequence[str]) -> str:
    """The last three: the first tokens of a vocabulary are marks that have no vectors."""
    return ", ".join(map(repr, words[-3:]))
