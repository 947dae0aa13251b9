"""The options of the answerer, apart from the model, so that `--help` shows them without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from seqloom.config import MAX_INTEGER, OnlyWith, option
from seqloom.errors import ConfigError
from seqloom.models.classification.configs import TextsConfig
from seqloom.models.sequence.configs import TRAINED_HERE, EncoderConfig
from seqloom.text.normalize import NormalizerConfig

LEAST = 16  # tokens of a window


@dataclass(frozen=True, kw_only=True)
class NeuralAnswererConfig(EncoderConfig, TextsConfig):
    n_types: ClassVar[int] = 3  # question; context; context with a word of the question
    only_with: ClassVar[OnlyWith] = {
        name: TRAINED_HERE
        for name in ("tokenizer", "vocab_size", "min_count", "vocab_file", "normalize")
    }
    changeable: ClassVar[frozenset[str]] = frozenset({"max_length", "overlap", "max_answer"})

    normalize: str = option(
        "case=lower",
        "preprocessing: case=lower, or none; the answer is the text as it was given",
        metavar="none|case=lower",
    )
    max_length: int = option(
        384,
        "maximum number of tokens that are read at once, question included; a longer context is read "
        "in several windows",
        minimum=LEAST,
        maximum=MAX_INTEGER,
    )
    overlap: int | None = option(
        None,
        "tokens of the context that two neighbouring windows share, at most half of max_length  "
        "[default: a third of the context's tokens in a window]",
        minimum=0,
        maximum=MAX_INTEGER,
    )
    max_answer: int = option(
        30, "maximum number of tokens of an answer", minimum=1, maximum=MAX_INTEGER
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.overlap is not None and 2 * self.overlap > self.max_length:
            raise ConfigError(
                f"overlap {self.overlap} is more than half of max_length {self.max_length}; lower it",
                ("overlap", "max_length"),
            )
        recipe = NormalizerConfig.from_recipe(self.normalize).recipe()
        if recipe not in ("none", "case=lower"):
            raise ConfigError(
                f"normalize {self.normalize} changes the words of the context, but an answer is a part "
                "of it as it was given; give none or case=lower",
                ("normalize",),
            )
