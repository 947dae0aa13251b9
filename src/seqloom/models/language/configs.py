"""The options of the language models, apart from the models, so that `--help` shows them without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import (
    COUNTS,
    ITERATES,
    MOST,
    MOST_SEED,
    Config,
    OnlyWith,
    TextConfig,
    Unit,
    option,
)
from seqloom.errors import ConfigError

SmoothingName = Literal[
    "modified-kneser-ney",
    "kneser-ney",
    "absolute",
    "witten-bell",
    "add-k",
    "maximum-likelihood",
    "imported",
]


@dataclass(frozen=True, kw_only=True)
class UniformConfig(TextConfig):
    tokenizer: str = option(
        "byte",
        "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
        metavar="KIND|PATH",
    )
    unit: Unit = option(
        "stream",
        "what counts as one sequence: a line, a document (file), or the whole text as a stream",
    )


@dataclass(frozen=True, kw_only=True)
class NGramConfig(TextConfig):
    fit_arguments: ClassVar[frozenset[str]] = COUNTS
    only_with: ClassVar[OnlyWith] = {"k": {"smoothing": ("add-k",)}}

    order: int = option(5, "length of the longest n-grams", minimum=1, maximum=60)
    smoothing: SmoothingName = option("modified-kneser-ney", "smoothing method")
    k: float = option(1.0, "pseudo-count of add-k smoothing", minimum=1e-9, maximum=1e9)
    prune: tuple[int, ...] = option(
        (),
        "for each order, drop n-grams seen at most this often (0,0,1); the last value holds "
        "for higher orders",
        minimum=0,
        maximum=MOST,
    )
    prune_entropy: float = option(
        0.0,
        "drop n-grams whose removal raises perplexity by less than this fraction (1e-8 is mild)",
        minimum=0.0,
        maximum=1.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prune:
            if self.prune[0] != 0:
                raise ConfigError(
                    f"prune must begin with 0: words are not pruned (use min_count); got {list(self.prune)}"
                )
            if list(self.prune) != sorted(self.prune):
                raise ConfigError(
                    f"prune must not fall from order to order; got {list(self.prune)}"
                )
            if len(self.prune) > self.order:
                raise ConfigError(f"prune has {len(self.prune)} values for order {self.order}")
        if self.prune_entropy and self.smoothing in ("add-k", "maximum-likelihood"):
            raise ConfigError(
                f"prune_entropy needs a smoothing that backs off, which {self.smoothing} does not"
            )


@dataclass(frozen=True, kw_only=True)
class HMMConfig(TextConfig):
    fit_arguments: ClassVar[frozenset[str]] = ITERATES

    states: int = option(32, "number of hidden states", minimum=1, maximum=4096)
    iterations: int = option(
        50, "maximum number of Baum-Welch iterations", minimum=1, maximum=1_000_000
    )
    tolerance: float = option(
        1e-4,
        "stop when the relative gain in log-likelihood falls below this",
        minimum=0.0,
        maximum=1e6,
    )
    restarts: int = option(
        1, "number of random initialisations; the best result is kept", minimum=1, maximum=10_000
    )
    k: float = option(0.01, "pseudo-count of every transition and token", minimum=0.0, maximum=1e9)
    seed: int = option(0, "random seed", minimum=0, maximum=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class CacheConfig(TextConfig):
    window: int = option(500, "number of past tokens to remember", minimum=1, maximum=10_000_000)
    floor: float = option(0.01, "weight of the uniform distribution", minimum=1e-6, maximum=1.0)


@dataclass(frozen=True, kw_only=True)
class MixtureConfig(Config):
    members: tuple[str, ...] = option((), "directories of the models to mix", metavar="MODEL")
    iterations: int = option(100, "maximum number of EM iterations", minimum=1, maximum=1_000_000)
    tolerance: float = option(
        1e-6, "stop when no weight changes by more than this", minimum=0.0, maximum=1e6
    )


@dataclass(frozen=True, kw_only=True)
class NeuralCacheConfig(Config):
    member: str | None = option(None, "directory of the trained network", metavar="MODEL")
    window: int = option(2000, "number of past tokens to remember", minimum=1, maximum=1_000_000)
    theta: float | None = option(
        None,
        "how strongly similar states are preferred; 0: all count alike [default: tuned on the "
        "text]",
        minimum=0.0,
        maximum=1e6,
    )
    share: float | None = option(
        None, "weight of the cache [default: tuned on the text]", minimum=0.0, maximum=0.99
    )
