"""Readers: what comes in, as vectors (B, T, d_out) for an encoder. Tokens by a table, numbers as they are.

Tokens may have, beside the vectors that are trained, a table of further ones that stay as they are:
words of pretrained vectors that the training data lacks. In training, `word_dropout` a reads a word
seen n times as if it had not been seen, with the probability a / (a + n): as `<unk>` (Kiperwasser
and Goldberg 2016), or by its pretrained vector where it has one. So the network learns what to do
with words that it has not trained. The spelling of words can be read along.

What the spelling of a word says: a vector from its characters, by a CNN or by an LSTM.

cnn: filters over three neighbouring characters, and the largest value of each over the word (dos
Santos and Zadrozny 2014; Ma and Hovy 2016). lstm: the last states of both directions (Lample et al.
2016). Spelling helps most where a word is rare, so this stands beside the word's own vector.

Most words of a batch come more than once: hand over each once, and gather the rows that come out.

Word vectors as the first layer of a network: a row for each of its tokens.

The vectors were learnt from more text than the network will see, so it begins with what that text
knew about its words (Collobert et al. 2011, "Natural Language Processing (almost) from Scratch",
section 4). A token without a vector gets one of three things: a random vector as long as the
others, one built from its spelling where the embedder can do that (fastText), or the mean of those
that were found.

    >>> from seqloom.models.word_vectors.word_vectors import WordVectors
    >>> vectors = WordVectors.of(["cat", "dog"], [[1.0, 0.0], [0.0, 1.0]])
    >>> made = table(vectors, ["dog", "zebra"], unknown="mean")
    >>> made.matrix.tolist(), made.known.tolist()
    ([[0.0, 1.0], [0.0, 1.0]], [True, False])

In a module of one's own: `torch.nn.Embedding.from_pretrained(torch.from_numpy(made.matrix), freeze=True)`.
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
    """`ids` (B, T) of a batch to (B, T, d_embed), with those of `characters` behind. An id at or
    above the size of the table is one of the further words. `words` (B, T) are places among the
    `spellings` (U, L) of the batch, with `spelling_lengths` (U,).
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
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_embed)
        nn.init.normal_(self.embedding.weight, std=d_embed**-0.5)
        self.register_buffer("further", torch.zeros(further, d_embed) if further else None)
        self.register_buffer(
            "drop", drop, persistent=False
        )  # (V,): how likely each is read as unseen in training
        self.register_buffer(
            "untrained", untrained, persistent=False
        )  # (V, d_embed): as pretrained, else NaN
        self.characters, self.unk_id = characters, unk_id
        self.d_out = d_embed + d_characters

    def forward(self, batch: Arrays) -> Tensor:
        vectors = self.vectors(batch["ids"])
        if self.characters is None:
            return vectors
        spelled = self.characters(batch["spellings"], batch["spelling_lengths"])  # (U, d)
        return torch.cat([vectors, spelled[batch["words"]]], 2)

    def vectors(self, ids: Tensor) -> Tensor:
        size = self.embedding.num_embeddings
        places, beyond = ids.clamp(max=size - 1), ids >= size
        unseen = torch.zeros_like(beyond)
        if self.training and self.drop is not None:
            unseen = (torch.rand(ids.shape, device=ids.device) < self.drop[places]) & ~beyond
        vectors = self.embedding(ids.masked_fill(beyond | unseen, self.unk_id))
        if self.training and self.untrained is not None:
            pretrained = self.untrained[places]
            vectors = torch.where(
                unseen.unsqueeze(2) & ~pretrained.isnan(), pretrained.nan_to_num(), vectors
            )
        if self.further is None:
            return vectors
        return torch.where(
            beyond.unsqueeze(2), self.get_buffer("further")[(ids - size).clamp(min=0)], vectors
        )


class NumberReader(nn.Module):
    """`values` (B, T, C), scaled by what the training data had, with a mark for each value that is
    missing (NaN).
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
PAD = 0  # the character that stands beyond a word's end


class CharacterReader(nn.Module):
    """Words as ids of characters (N, L), padded with 0, and their lengths (N,), to (N, d_out). No
    characters give zeros.
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
            limit = math.sqrt(
                3 / d_char
            )  # a variance of 1 / d_char, so that a vector has about the length 1
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
        found = self._convolve(x, inside) if self.kind == "cnn" else self._ends(x, lengths)
        return found.masked_fill((lengths == 0).unsqueeze(1), 0.0)

    def _convolve(self, x: Tensor, inside: Tensor) -> Tensor:
        """Apply one product to each character with its neighbours, and return the largest value inside
        the word.
        """
        edged = nn.functional.pad(x, (0, 0, 1, 1))
        values: Tensor = self.filters(
            torch.cat([edged[:, :-2], x, edged[:, 2:]], 2)
        )  # (N, L, d_out)
        return values.masked_fill(~inside.unsqueeze(2), -math.inf).amax(1)

    def _ends(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return the output where each direction stops reading: one at the last character, the other
        at the first.
        """
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
    known: np.ndarray  # bool (V,): the token has a vector of its own
    built: np.ndarray  # bool (V,): its vector was built from its spelling


def table(
    vectors: Source, tokens: Sequence[str], *, unknown: Unknown = "random", seed: int = 0
) -> Table:
    """Look up the vector of each token by its exact spelling; raise an error if no row is found.

    `unknown`: what a token without a vector gets. `random`: normal around zero, of the mean square
    of those found. `subword`: built from its spelling; `random` where that gives nothing. `mean`:
    of those found.
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
    """Show the last three: the first tokens of a vocabulary are marks that have no vectors."""
    return ", ".join(map(repr, words[-3:]))
