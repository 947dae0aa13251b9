"""The options of a tokenizer: what a token is, and how many of them are kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from seqloom.config import MAX_INTEGER, MOST_TOKENS, Config, option
from seqloom.errors import ConfigError, quoted
from seqloom.text.coding import EOS, UNK
from seqloom.text.normalize import NormalizerConfig
from seqloom.text.vocabulary import SPLITTERS

MOST_MARKS = 10_000
LONGEST_MARK = 100  # characters

_RESERVED = (EOS, UNK, "[UNK]")  # names that vocabularies give themselves


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Config):
    kind: Literal["whitespace", "word", "char", "byte", "bpe", "wordpiece", "unigram"] = option(
        "byte", "kind of tokens"
    )
    vocab_size: int | None = option(
        None,
        "maximum vocabulary size, including special tokens but not marks [default: 8000 "
        "for subword kinds]",
        minimum=2,
        maximum=MOST_TOKENS,
    )
    min_count: int = option(
        1, "ignore tokens seen less often than this", minimum=1, maximum=MAX_INTEGER
    )
    vocab_file: str | None = option(
        None, "closed vocabulary from a file, one token per line", metavar="FILE"
    )
    normalize: str = option(
        "none",
        "preprocessing: none, topic, sentiment, or steps such as case=lower,stem=porter",
        metavar="PRESET|STEP=VALUE,..",
    )
    boundary: Literal["gpt2", "space"] = option(
        "gpt2",
        "bpe and unigram: tokens stay within GPT-2's pre-tokens, or only have "
        "no white space after their first character",
    )
    marks: tuple[str, ...] = option(
        (),
        "further tokens that no text produces, such as [MASK],[CLS]; their ids come last",
        metavar="MARK,..",
        saved=False,
    )  # the default is not saved: such files stay as they were before marks existed

    def __post_init__(self) -> None:
        super().__post_init__()
        NormalizerConfig.from_recipe(self.normalize)
        if self.kind == "byte" and self.vocab_size not in (None, 257):
            raise ConfigError(
                f"the byte kind has 257 tokens; vocab_size {self.vocab_size} does not apply"
            )
        if self.kind in ("bpe", "unigram") and (self.vocab_size or 257) < 257:
            raise ConfigError(
                f"{self.kind} needs a vocab_size of at least 257, all bytes and the end; "
                f"got {self.vocab_size}"
            )
        if self.kind == "unigram" and self.min_count > 1:
            raise ConfigError("min_count does not apply to unigram; use vocab_size")
        if self.vocab_file is not None and self.kind not in SPLITTERS:
            raise ConfigError(
                f"vocab_file is for the kinds {', '.join(SPLITTERS)}; got kind {self.kind!r}"
            )
        if self.vocab_file is not None and (self.min_count > 1 or self.vocab_size is not None):
            raise ConfigError(
                "a vocabulary from a file is taken whole; min_count and vocab_size do not apply"
            )
        check_marks(self.marks)


def check_marks(marks: tuple[str, ...]) -> None:
    """Refuse names that a flag cannot pass, that are not visible where tokens are shown, or are reserved."""
    if len(marks) > MOST_MARKS:
        raise ConfigError(f"there can be at most {MOST_MARKS:,} marks; got {len(marks):,}")
    for mark in marks:
        visible = mark.isprintable() and "," not in mark and not any(map(str.isspace, mark))
        if not visible or not 1 <= len(mark) <= LONGEST_MARK:
            raise ConfigError(
                f"a mark has 1 to {LONGEST_MARK} visible characters, without white space and commas; "
                f"got {quoted(mark)}"
            )
        if mark in _RESERVED:
            raise ConfigError(
                f"the mark {mark!r} has the name of a token that vocabularies have anyway; leave it out"
            )
    if len(set(marks)) < len(marks):
        twice, _ = Counter(marks).most_common(1)[0]
        raise ConfigError(f"the mark {twice!r} is given twice; leave one out")
