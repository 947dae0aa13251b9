"""Pretrained word vectors that a network begins with, opened and checked against its options, and
the default width and dropout of a network.

The vectors become part of the network's weights, so a saved model no longer needs their file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress, registry
from seqloom.errors import ConfigError, DataError
from seqloom.models.network.configs import Unknown
from seqloom.training.config import MINUTES, TrainConfig

if TYPE_CHECKING:
    from torch import nn

    from seqloom.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class FirstLayer:
    matrix: np.ndarray  # float32 (V, D)
    facts: dict[str, Any]  # for the model's record
    has_vector: np.ndarray | None = None  # bool (V,): the token is in the file; None: all are
    vectors: Any = None  # all words and vectors of the file

    @property
    def pretrained(self) -> np.ndarray:
        """Return the vectors that come from the file, float32 (V, D); NaN for tokens without one."""
        if self.has_vector is None:
            return self.matrix.astype(np.float32)
        return np.where(self.has_vector[:, None], self.matrix, np.float32(np.nan)).astype(
            np.float32
        )

    @property
    def dimensions(self) -> int:
        return self.matrix.shape[1]

    def fill(self, embedding: nn.Embedding, *, frozen: bool) -> None:
        """Set the embedding to begin with these vectors; `frozen`: it never learns."""
        import torch

        with torch.no_grad():
            embedding.weight.copy_(torch.from_numpy(self.matrix))
        embedding.weight.requires_grad_(not frozen)


def check_early(path: str | None, kind: str) -> None:
    """Refuse a missing file or a tokenizer that splits words before any text is read; `kind` of the
    tokenizer, or a saved one.
    """
    if path is None:
        return
    if not Path(path).exists():
        raise ConfigError(
            f"pretrained: {path}: no such directory or file; give saved word vectors, or a file "
            "of word2vec, GloVe or fastText"
        )
    if kind in ("byte", "bpe", "wordpiece", "unigram"):
        raise ConfigError(
            f"pretrained vectors need whole words, but the tokenizer {kind} splits words; "
            "give tokenizer whitespace or word"
        )


def same_width(option: str, width: int | None, path: str | None) -> Callable[[int], None]:
    """Return a check that refuses vectors of another width than an option asks for."""

    def check(dimensions: int) -> None:
        if width not in (None, dimensions):
            raise ConfigError(
                f"{option} is {width}, but the vectors of {path} have {dimensions} dimensions; "
                f"leave {option} "
                f"out or give {dimensions}"
            )

    return check


def open_first_layer(
    path: str | None,
    tokens: list[str],
    counts: np.ndarray,
    *,
    check_width: Callable[[int], None],
    unknown: Unknown = "random",
    seed: int = 0,
) -> FirstLayer | None:
    """Load a vector for each token from `path`, or None without a path; `counts` (V,) of the tokens
    in the training text.

    `check_width` refuses an unsuitable number of dimensions; `unknown`: what a token without a
    vector gets.
    """
    if path is None:
        return None
    from seqloom.nn.readers import table

    vectors = registry.open_vectors(path)
    check_width(vectors.vectors.dimensions)
    try:
        initial = table(vectors, tokens, unknown=unknown, seed=seed)
    except (ConfigError, DataError) as error:
        raise type(error)(f"pretrained: {path}: {error}") from None
    n_known, share = (
        int(initial.has_vector.sum()),
        float(counts[initial.has_vector].sum() / max(counts.sum(), 1)),
    )
    others = {
        "random": "the others are random",
        "mean": "the others are the mean of these",
        "subword": f"{int(initial.built.sum()):,} were built from their spelling",
    }[unknown]
    progress.say(
        f"pretrained: {n_known:,} of {len(tokens):,} tokens have a vector, {share:.1%} of the text; {others}"
        + _case_advice(vectors.vectors.words, tokens, initial.has_vector)
    )
    return FirstLayer(
        initial.matrix,
        {
            "found": n_known,
            "of": len(tokens),
            "built": int(initial.built.sum()),
            "text": round(share, 4),
            "vectors": hashlib.sha256(initial.matrix.data).hexdigest()[:16],
        },
        initial.has_vector,
        vectors.vectors,
    )


def token_spellings(tokenizer: Tokenizer) -> list[str]:
    """Return the tokens as word lists spell them: bytes that are not UTF-8 are lone surrogates;
    `</s>` and `<unk>` by name.
    """
    return [
        tokenizer.token_bytes(i).decode("utf-8", "surrogateescape") or tokenizer.token(i)
        for i in range(tokenizer.vocab_size)
    ]


def _case_advice(words: Any, tokens: list[str], has_vector: np.ndarray) -> str:
    """Return advice to lower-case the text where many more tokens would then have a vector."""
    lower = [tokens[i].lower() for i in np.flatnonzero(~has_vector).tolist()]
    more = int((words.find(lower) >= 0).sum())
    return (
        f"; {more:,} more would be found in lower case: normalize='case=lower'"
        if more > len(tokens) // 20
        else ""
    )


# ---- default sizes

WIDTHS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
SPEED = 25e9  # multiplications a second of two cores in training, forward and backward
_EPOCHS = 0.9  # over one million tokens; falls with the square root of their number


@dataclass(frozen=True)
class Size:
    width: int
    chosen: bool = False  # by default, not by an option
    d_embed: int | None = None  # of pretrained vectors
    dropout: float = 0.0  # where no option gives it


def choose_width(
    train: TrainConfig, tokens: int, cost: Callable[[int], float], *, multiple: int = 1
) -> int:
    """Choose the default width for so many tokens, or values; `cost`: multiplications of the forward
    pass for one of them, by width.

    The time allows a number of multiplications (SPEED), so a network twice as wide sees a quarter
    of the tokens; but a wide network that reads the data once or twice learns more from it than a
    narrow one that reads it often. So the width is the largest for which the time suffices for
    about one pass over a million tokens (more passes over less data).
    """
    widths = [w for w in WIDTHS if w % multiple == 0] or [
        WIDTHS[0] // multiple * multiple or multiple
    ]
    if train.steps is not None or train.epochs is not None:
        # the length is given in steps or epochs: assume patience for it
        seen = tokens * (train.epochs or 4.0)
        work = MINUTES * 60 * SPEED * max(seen / 4e6, 0.25)
    else:
        work = (train.minutes or MINUTES) * 60 * SPEED
    epochs = max(_EPOCHS * (1e6 / max(tokens, 1)) ** 0.5, 1.0)
    fitting = [w for w in widths if 3 * cost(w) * tokens * epochs <= work]
    # a network too large for its data only memorises it
    largest = max(64, 16 * tokens**0.25)
    fitting = [w for w in fitting if w <= largest] or widths[:1]
    return fitting[-1]


def passes(train: TrainConfig, tokens: int, cost: float, updates: float | None = None) -> float:
    """Return about how often the data is read; `cost`: multiplications for one token; `updates` in
    one pass.
    """
    if train.epochs is not None:
        return train.epochs
    if train.steps is not None:
        return train.steps / (updates or max(tokens, 1) / 1024)
    return (train.minutes or MINUTES) * 60 * SPEED / (3 * cost * max(tokens, 1))


def default_dropout(passes: float) -> float:
    """Choose the default dropout: data that is read once or twice cannot be memorised; data that is
    read often can.
    """
    return 0.0 if passes < 3 else 0.1 if passes < 8 else 0.2
