"""Word vectors that a network begins with: opened, checked against its options, and how many of its tokens have one.

The vectors become part of the network's weights; a saved model needs their file no more.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress, registry
from seqloom.errors import ConfigError, DataError
from seqloom.models.language.neural_configs import NetworkConfig

if TYPE_CHECKING:
    from seqloom.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class FirstLayer:
    matrix: np.ndarray  # float32 (V, D)
    facts: dict[str, Any]  # for the model's record

    @property
    def dimensions(self) -> int:
        return self.matrix.shape[1]


def check_early(config: NetworkConfig, kind: str) -> None:
    """Refuse, before a text is read, what would be refused afterwards; `kind` of the tokenizer, or a saved one."""
    if config.pretrained is None:
        return
    if not Path(config.pretrained).exists():
        raise ConfigError(f"pretrained: {config.pretrained}: no such directory or file; give saved word vectors, or a file "
                          "of word2vec, GloVe or fastText")
    if kind in ("byte", "bpe", "wordpiece", "unigram"):
        raise ConfigError(f"pretrained vectors are those of words, but the tokenizer {kind} makes pieces of them; "
                          "give tokenizer whitespace or word")


def open_first_layer(config: NetworkConfig, tokenizer: Tokenizer, counts: np.ndarray, seed: int) -> FirstLayer | None:
    """The table that the config asks for, if it does; `counts` (V,) of the tokens in the training text."""
    if config.pretrained is None:
        return None
    from seqloom.nn.pretrained import table

    check_early(config, tokenizer.kind)
    vectors = registry.open_vectors(config.pretrained)
    _check_width(config, vectors.vectors.dimensions)
    tokens = [_spelling(tokenizer, i) for i in range(tokenizer.vocab_size)]
    try:
        made = table(vectors, tokens, unknown=config.pretrained_unknown, seed=seed)
    except (ConfigError, DataError) as error:
        raise type(error)(f"pretrained: {config.pretrained}: {error}") from None
    found, text = int(made.found.sum()), float(counts[made.found].sum() / max(counts.sum(), 1))
    rest = {"random": "the others are random", "mean": "the others are the mean of these",
            "subword": f"{int(made.built.sum()):,} were built from their spelling"}[config.pretrained_unknown]
    progress.say(f"pretrained: {found:,} of {len(tokens):,} tokens have a vector, {text:.1%} of the text; {rest}"
                 + _case_advice(vectors.vectors.words, tokens, made.found))
    if config.pretrained_training == "frozen" and getattr(config, "tied", False) and config.softmax != "adaptive":
        progress.say("the output layer uses the token vectors, so it is frozen as well; --no-tied gives it weights of its own")
    return FirstLayer(made.matrix, {"found": found, "of": len(tokens), "built": int(made.built.sum()), "text": round(text, 4),
                                    "vectors": hashlib.sha256(made.matrix.data).hexdigest()[:16]})


def _check_width(config: Any, dimensions: int) -> None:
    name = "d_model" if hasattr(config, "d_model") else "d_embed"
    given = getattr(config, name)
    if given not in (None, dimensions):
        raise ConfigError(f"{name} is {given}, but the vectors of {config.pretrained} have {dimensions} dimensions; leave "
                          f"{name} out or give {dimensions}")
    if dimensions % getattr(config, "multiple", 1):
        raise ConfigError(f"the vectors of {config.pretrained} have {dimensions} dimensions, which is no multiple of "
                          f"{config.multiple}, as {config.n_heads} heads and {config.positions} positions need; "
                          "try another number of n_heads")


def _spelling(tokenizer: Tokenizer, token: int) -> str:
    """As word lists have it: bytes that are not UTF-8 are lone surrogates; `</s>` and `<unk>` by name."""
    return tokenizer.token_bytes(token).decode("utf-8", "surrogateescape") or tokenizer.token(token)


def _case_advice(words: Any, tokens: list[str], found: np.ndarray) -> str:
    """Where many more would be found in lower case."""
    lower = [tokens[i].lower() for i in np.flatnonzero(~found).tolist()]
    more = int((words.find(lower) >= 0).sum())
    return f"; {more:,} more would be found in lower case: --normalize case=lower" if more > len(tokens) // 20 else ""
