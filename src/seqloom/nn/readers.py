"""Readers turn the input into vectors (B, T, d_out) for an encoder: tokens by a table of vectors and
by their spelling, numbers by scaling; and pretrained word vectors as such a table (`table`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.errors import ConfigError, DataError
from seqloom.nn.initialisation import initialise
from seqloom.nn.recurrent import RecurrentStack

Arrays = Mapping[str, Tensor]


class TokenReader(nn.Module):
    """`ids` (B, T) of a batch to vectors (B, T, d_embed), followed by those of `characters`. `words`
    (B, T) are indices into the `spellings` (U, L) of the batch, with `spelling_lengths` (U,).

    An id at or above the size of the table is one of the `further` words, whose vectors are not
    trained: words of pretrained vectors that the training data lacks. In training, word dropout a
    treats a word seen n times as unseen with probability a / (a + n) (`drop`): it is read as `<unk>`
    (Kiperwasser and Goldberg 2016), or by its pretrained vector (`untrained`) where it has one. So
    the network learns to use words that it has not trained.

    `n_types`: the vector of a step's type, of which a batch has `types` (B, T), is added to that of its
    token.
    """

    drop: Tensor | None
    untrained: Tensor | None

    def __init__(
        self,
        vocab_size: int,
        d_embed: int,
        *,
        further: int = 0,
        characters: nn.Module | None = None,
        d_characters: int = 0,
        drop: Tensor | None = None,
        untrained: Tensor | None = None,
        unk_id: int = 0,
        n_types: int = 0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_embed)
        nn.init.normal_(self.embedding.weight, std=d_embed**-0.5)
        self.types = nn.Embedding(n_types, d_embed) if n_types else None
        if self.types is not None:
            nn.init.normal_(self.types.weight, std=d_embed**-0.5)
        self.register_buffer("further", torch.zeros(further, d_embed) if further else None)
        # (V,): probability of being read as unseen in training
        self.register_buffer("drop", drop, persistent=False)
        # (V, d_embed): as pretrained, else NaN
        self.register_buffer("untrained", untrained, persistent=False)
        self.characters, self.unk_id = characters, unk_id
        self.d_out = d_embed + d_characters

    def forward(self, batch: Arrays) -> Tensor:
        vectors = self.vectors(batch["ids"])
        if self.types is not None:
            vectors = vectors + self.types(batch["types"])
        if self.characters is None:
            return vectors
        spelled = self.characters(batch["spellings"], batch["spelling_lengths"])  # (U, d)
        return torch.cat([vectors, spelled[batch["words"]]], 2)

    def vectors(self, ids: Tensor) -> Tensor:
        size = self.embedding.num_embeddings
        table_ids, beyond = ids.clamp(max=size - 1), ids >= size
        unseen = torch.zeros_like(beyond)
        if self.training and self.drop is not None:
            unseen = (torch.rand(ids.shape, device=ids.device) < self.drop[table_ids]) & ~beyond
        vectors = self.embedding(ids.masked_fill(beyond | unseen, self.unk_id))
        if self.training and self.untrained is not None:
            pretrained = self.untrained[table_ids]
            vectors = torch.where(
                unseen.unsqueeze(2) & ~pretrained.isnan(), pretrained.nan_to_num(), vectors
            )
        if self.further is None:
            return vectors
        return torch.where(
            beyond.unsqueeze(2), self.get_buffer("further")[(ids - size).clamp(min=0)], vectors
        )


class NumberReader(nn.Module):
    """`values` (B, T, C), scaled by mean and deviation of the training data, with an indicator of
    missing values (NaN).
    """

    def __init__(
        self,
        n_columns: int,
        *,
        mean: Tensor | None = None,
        scale: Tensor | None = None,
        missing: bool = False,
    ) -> None:
        super().__init__()
        self.missing, self.d_out = missing, n_columns * (2 if missing else 1)
        self.register_buffer("mean", torch.zeros(n_columns) if mean is None else mean)
        self.register_buffer("scale", torch.ones(n_columns) if scale is None else scale)

    def forward(self, batch: Arrays) -> Tensor:
        values = batch["values"]
        absent = values.isnan()
        scaled = ((values - self.get_buffer("mean")) / self.get_buffer("scale")).masked_fill(
            absent, 0.0
        )
        return torch.cat([scaled, absent.to(scaled.dtype)], 2) if self.missing else scaled


# ---- characters

Kind = Literal["cnn", "lstm"]
PAD = 0  # the id after the end of a word


class CharacterReader(nn.Module):
    """Words as ids of characters (N, L), padded with 0, and their lengths (N,), to (N, d_out). An
    empty word gives zeros.

    cnn: filters over three neighbouring characters, and the largest value of each over the word
    (dos Santos and Zadrozny 2014; Ma and Hovy 2016). lstm: the last states of both directions
    (Lample et al. 2016). Spelling helps most where a word is rare, so it is read beside the word's
    own vector. Most words occur several times in a batch: pass each once, and gather the rows.
    """

    def __init__(self, n_chars: int, d_char: int, d_out: int, kind: Kind = "cnn") -> None:
        super().__init__()
        if min(n_chars, d_char, d_out) < 1:
            raise ValueError(
                f"n_chars {n_chars}, d_char {d_char} and d_out {d_out} must each be at least 1"
            )
        if kind not in ("cnn", "lstm"):
            raise ValueError(f"kind must be cnn or lstm; it is {kind!r}")
        if kind == "lstm" and d_out % 2:
            raise ValueError(
                f"d_out is {d_out}; for an lstm it must be even, half for each direction"
            )
        self.kind, self.d_out = kind, d_out
        self.embedding = nn.Embedding(n_chars, d_char, padding_idx=PAD)
        if kind == "cnn":
            self.filters = nn.Linear(3 * d_char, d_out)
        else:
            self.recurrent = RecurrentStack(d_char, d_out // 2, cell="lstm", bidirectional=True)
        initialise(self)
        with torch.no_grad():
            # a variance of 1 / d_char, so that a vector has about the length 1
            limit = math.sqrt(3 / d_char)
            self.embedding.weight.uniform_(-limit, limit)[PAD] = 0.0

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        if ids.dim() != 2 or lengths.shape != ids.shape[:1]:
            raise ValueError(
                f"ids must have the shape (N, L) and lengths (N,); they have {tuple(ids.shape)} and "
                f"{tuple(lengths.shape)}"
            )
        if ids.numel() == 0:
            return self.embedding.weight.new_zeros(len(ids), self.d_out)
        lengths = lengths.to(ids.device)
        inside = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(1)  # (N, L)
        x = self.embedding(ids).masked_fill(~inside.unsqueeze(2), 0.0)  # (N, L, d_char)
        pooled = self._convolve(x, inside) if self.kind == "cnn" else self._ends(x, lengths)
        return pooled.masked_fill((lengths == 0).unsqueeze(1), 0.0)

    def _convolve(self, x: Tensor, inside: Tensor) -> Tensor:
        """Apply the filters to each character with its neighbours, and return the largest value of
        each inside the word.
        """
        edged = nn.functional.pad(x, (0, 0, 1, 1))
        # (N, L, d_out)
        values: Tensor = self.filters(torch.cat([edged[:, :-2], x, edged[:, 2:]], 2))
        return values.masked_fill(~inside.unsqueeze(2), -math.inf).amax(1)

    def _ends(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return the outputs at which the directions end: at the last character and at the first."""
        outputs, _ = self.recurrent(x, None, lengths, final_state=False)  # (N, L, d_out)
        ahead, back = outputs.chunk(2, 2)
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, ahead.shape[2])
        return torch.cat([ahead.gather(1, last)[:, 0], back[:, 0]], 1)


# ---- pretrained

Unknown = Literal["random", "subword", "mean"]


class Source(Protocol):
    """Any embedder of seqloom."""

    @property
    def vectors(self) -> Any:
        """Return the words with their matrix: a WordVectors."""
        ...

    def unseen(self, words: list[str]) -> np.ndarray | None:
        """Return vectors (n, D) of words that are not in the list; None: it has none for them."""
        ...


class Table(NamedTuple):
    matrix: np.ndarray  # float32 (V, D), a row for each token
    has_vector: np.ndarray  # bool (V,): the token is among the pretrained words
    built: np.ndarray  # bool (V,): its vector was built from its spelling


def table(
    vectors: Source, tokens: Sequence[str], *, unknown: Unknown = "random", seed: int = 0
) -> Table:
    """Look up the vector of each token by its exact spelling; raise an error if there is none at all.

    The vectors were learnt from more text than the network will see, so it begins with what that
    text knew about its words (Collobert et al. 2011, "Natural Language Processing (almost) from
    Scratch", section 4). `unknown`: what a token without a vector gets. `random`: normal around
    zero, with the mean square of the pretrained ones. `subword`: built from its spelling, where the
    embedder can do that (fastText), else `random`. `mean`: of the pretrained ones.

    >>> from seqloom.models.word_vectors.word_vectors import WordVectors
    >>> vectors = WordVectors.of(["cat", "dog"], [[1.0, 0.0], [0.0, 1.0]])
    >>> first = table(vectors, ["dog", "zebra"], unknown="mean")
    >>> first.matrix.tolist(), first.has_vector.tolist()
    ([[0.0, 1.0], [0.0, 1.0]], [True, False])

    In your own module: `torch.nn.Embedding.from_pretrained(torch.from_numpy(first.matrix), freeze=True)`.
    """
    if unknown not in ("random", "subword", "mean"):
        raise ConfigError(f"unknown must be one of random, subword, mean; got {unknown!r}")
    pretrained = vectors.vectors
    rows = pretrained.words.find(tokens)
    has_vector = rows >= 0
    if not has_vector.any():
        raise DataError(
            f"none of the {len(tokens):,} tokens, such as {_some(tokens)}, is among the "
            f"{len(pretrained.words):,} words that have vectors, such as {_some(pretrained.words[:3])}; "
            "they must be spelled alike"
        )
    matrix = np.array(pretrained.matrix[np.maximum(rows, 0)], np.float32)  # (V, D), a copy
    if not np.isfinite(matrix[has_vector]).all():
        bad = int(np.flatnonzero(has_vector & ~np.isfinite(matrix).all(axis=1))[0])
        raise DataError(f"the vector of {tokens[bad]!r} has a value that is not a finite number")
    built = np.zeros(len(tokens), bool)
    if unknown == "mean":
        matrix[~has_vector] = matrix[has_vector].mean(axis=0, dtype=np.float64)
        return Table(matrix, has_vector, built)
    scale = np.sqrt(np.square(matrix[has_vector], dtype=np.float64).mean())
    missing = np.flatnonzero(~has_vector)
    matrix[missing] = np.random.default_rng(seed).normal(
        0.0, scale, (len(missing), matrix.shape[1])
    )
    if unknown == "subword" and len(missing):
        subword_vectors = vectors.unseen([tokens[i] for i in missing.tolist()])
        if subword_vectors is None:
            raise ConfigError(
                "these vectors have nothing to build those of unknown words from; take an embedder with "
                "subwords, such as fasttext, or unknown tokens as random or mean"
            )
        nonzero = np.any(subword_vectors != 0, axis=1)
        matrix[missing[nonzero]], built[missing[nonzero]] = subword_vectors[nonzero], True
    return Table(matrix, has_vector, built)


def _some(words: Sequence[str]) -> str:
    """Return the last three words: the first tokens of a vocabulary are marks without vectors."""
    return ", ".join(map(repr, words[-3:]))
