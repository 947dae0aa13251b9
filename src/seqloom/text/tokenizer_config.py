"""The options of a tokenizer: what a token is, and how many of them are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seqloom.config import MOST, MOST_TOKENS, Config, option
from seqloom.errors import ConfigError
from seqloom.text.normalize import NormalizerConfig
from seqloom.text.vocabulary import SPLITTERS


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Config):
    kind: Literal["whitespace", "word", "char", "byte", "bpe", "wordpiece", "unigram"] = option(
        "byte", "kind of tokens")
    vocab_size: int | None = option(None, "maximum vocabulary size, including special tokens [default: 8000 for subword kinds]",
                                    minimum=2, maximum=MOST_TOKENS)
    min_count: int = option(1, "ignore tokens seen less often than this", minimum=1, maximum=MOST)
    vocab_file: str | None = option(None, "closed vocabulary from a file, one token per line", metavar="FILE")
    normalize: str = option("none", "preprocessing: none, topic, sentiment, or steps such as case=lower,stem=porter",
                            metavar="PRESET|STEP=VALUE,..")
    boundary: Literal["gpt2", "space"] = option("gpt2", "bpe and unigram: tokens stay within GPT-2's pre-tokens, or only have "
                                                "no white space after their first character")

    def __post_init__(self) -> None:
        super().__post_init__()
        NormalizerConfig.from_recipe(self.normalize)
        if self.kind == "byte" and self.vocab_size not in (None, 257):
            raise ConfigError(f"the byte kind has 257 tokens; vocab_size {self.vocab_size} does not apply")
        if self.kind in ("bpe", "unigram") and (self.vocab_size or 257) < 257:
            raise ConfigError(f"{self.kind} needs a vocab_size of at least 257, all bytes and the end; "
                              f"got {self.vocab_size}")
        if self.kind == "unigram" and self.min_count > 1:
            raise ConfigError("min_count does not apply to unigram; use vocab_size")
        if self.vocab_file is not None and self.kind not in SPLITTERS:
            raise ConfigError(f"vocab_file is for the kinds {', '.join(SPLITTERS)}; got kind {self.kind!r}")
        if self.vocab_file is not None and (self.min_count > 1 or self.vocab_size is not None):
            raise ConfigError("a vocabulary from a file is taken whole; min_count and vocab_size do not apply")
