"""The options of the language models, apart from the models, so that `--help` shows them without loading anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import COUNTS, ITERATES, MOST, MOST_SEED, Config, OnlyWith, TextConfig, Unit, option
from seqloom.errors import ConfigError

SmoothingName = Literal["modified-kneser-ney", "kneser-ney", "absolute", "witten-bell", "add-k", "maximum-likelihood",
                        "imported"]


@dataclass(frozen=True, kw_only=True)
class UniformConfig(TextConfig):
    tokenizer: str = option("byte", "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
                            metavar="KIND|PATH")
    unit: Unit = option("stream", "what one sequence is: a line, a document (file), or the whole stream")


@dataclass(frozen=True, kw_only=True)
class NGramConfig(TextConfig):
    fit_arguments: ClassVar[frozenset[str]] = COUNTS
    only_with: ClassVar[OnlyWith] = {"k": {"smoothing": ("add-k",)}}

    order: int = option(5, "length of the longest n-grams", minimum=1, maximum=60)
    smoothing: SmoothingName = option("modified-kneser-ney", "how unseen n-grams get probability")
    k: float = option(1.0, "what add-k adds to each count", minimum=1e-9, maximum=1e9)
    prune: tuple[int, ...] = option((), "for each order, leave out n-grams seen at most so often (0 0 1); the last "
                                    "holds for higher orders", minimum=0, maximum=MOST)
    prune_entropy: float = option(0.0, "leave out n-grams whose loss raises perplexity by less than this share (1e-8 is mild)",
                                  minimum=0.0, maximum=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prune:
            if self.prune[0] != 0:
                raise ConfigError(f"prune must begin with 0: words are not pruned (use min_count); got {list(self.prune)}")
            if list(self.prune) != sorted(self.prune):
                raise ConfigError(f"prune must not fall from order to order; got {list(self.prune)}")
            if len(self.prune) > self.order:
                raise ConfigError(f"prune has {len(self.prune)} values for order {self.order}")
        if self.prune_entropy and self.smoothing in ("add-k", "maximum-likelihood"):
            raise ConfigError(f"prune_entropy needs a smoothing that backs off, which {self.smoothing} does not")


@dataclass(frozen=True, kw_only=True)
class HMMConfig(TextConfig):
    fit_arguments: ClassVar[frozenset[str]] = ITERATES

    states: int = option(32, "hidden classes", minimum=1, maximum=4096)
    iterations: int = option(50, "most rounds of Baum-Welch", minimum=1, maximum=1_000_000)
    tolerance: float = option(1e-4, "stop when the likelihood rises by less than this share of itself",
                              minimum=0.0, maximum=1e6)
    restarts: int = option(1, "random beginnings; the likeliest result is kept", minimum=1, maximum=10_000)
    k: float = option(0.01, "pseudo-count of every transition and token", minimum=0.0, maximum=1e9)
    seed: int = option(0, "of the random beginnings", minimum=0, maximum=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class CacheConfig(TextConfig):
    window: int = option(500, "how many tokens back it remembers", minimum=1, maximum=10_000_000)
    floor: float = option(0.01, "share of the uniform distribution", minimum=1e-6, maximum=1.0)


@dataclass(frozen=True, kw_only=True)
class MixtureConfig(Config):
    members: tuple[str, ...] = option((), "directories of the models to mix", metavar="MODEL")
    iterations: int = option(100, "most rounds of EM", minimum=1, maximum=1_000_000)
    tolerance: float = option(1e-6, "stop when no weight moves further than this", minimum=0.0, maximum=1e6)


@dataclass(frozen=True, kw_only=True)
class NeuralCacheConfig(Config):
    member: str | None = option(None, "directory of the trained network", metavar="MODEL")
    window: int = option(2000, "how many tokens back it remembers", minimum=1, maximum=1_000_000)
    theta: float | None = option(None, "how much more a vector counts the nearer it is to the present one; 0: all alike "
                                 "[default: chosen on the text]", minimum=0.0, maximum=1e6)
    share: float | None = option(None, "weight of the cache [default: chosen on the text]", minimum=0.0, maximum=0.99)
