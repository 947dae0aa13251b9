"""Phrases as single words: `new york` becomes `new_york`, so that a model can learn its own meaning.

Two words that occur together far more often than by chance are a phrase (Mikolov et al. 2013, "Distributed
representations of words and phrases and their compositionality", section 4). With counts c, probabilities
p = c / tokens, and v distinct words and pairs together (as in gensim; the paper leaves the factor open):

    default   (c(ab) - min_count) / (c(a) c(b)) * v     threshold 10
    npmi      ln(p(ab) / (p(a) p(b))) / -ln p(ab)       threshold 0.5; -1 to 1 (Bouma 2009), if c >= min_count

A second pass finds longer phrases (`new_york_times`). Connecting words neither begin nor end a phrase, but
may be inside (`bank of america`). Tokens are separated by white space; no phrase crosses the end of a line.

    >>> text = "san francisco is large . i saw san francisco once\\n" * 5
    >>> text += "is it once large or was it small\\n" * 5
    >>> phrases = Phrases.learn(text, min_count=2, threshold=1.5)
    >>> phrases.join("he went to san francisco by train")
    'he went to san_francisco by train'
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from seqloom import progress
from seqloom.config import MAX_INTEGER, Config, make, option
from seqloom.directories import writing_file
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.text.boundaries import cut_before_space
from seqloom.text.coding import text_blocks, to_bytes
from seqloom.text.phrase_counts import Joiner, PairCounts

FORMAT = "seqloom phrases"
ENGLISH = (
    "a",
    "an",
    "the",
    "and",
    "or",
    "of",
    "for",
    "with",
    "without",
    "at",
    "from",
    "to",
    "in",
    "on",
    "by",
)
THRESHOLDS = {"default": 10.0, "npmi": 0.5}
_BLOCK = 4 << 20  # bytes


@dataclass(frozen=True, kw_only=True)
class PhrasesConfig(Config):
    min_count: int = option(
        5, "ignore pairs seen less often than this", minimum=1, maximum=MAX_INTEGER
    )
    threshold: float | None = option(
        None,
        "score that a phrase must exceed [default: 10, or 0.5 for npmi]",
        minimum=-1e12,
        maximum=1e12,
    )
    scoring: Literal["default", "npmi"] = option(
        "default", "score of Mikolov 2013, or normalised pointwise mutual information"
    )
    passes: int = option(
        1, "number of passes; two find phrases of up to four words", minimum=1, maximum=8
    )
    joiner: str = option("_", "separator between the words of a phrase")
    connectors: str = option(
        "none",
        "connecting words allowed inside a phrase: none, english, or a list",
        metavar="none|english|W,W,..",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.joiner or self.joiner != "".join(self.joiner.split()):
            raise ConfigError(
                f"joiner must be some characters without white space; got {self.joiner!r}"
            )
        if self.scoring == "npmi" and self.threshold is not None and not -1 <= self.threshold <= 1:
            raise ConfigError(
                f"threshold must be between -1 and 1 with the scoring npmi; got {self.threshold:g}"
            )

    @property
    def limit(self) -> float:
        return THRESHOLDS[self.scoring] if self.threshold is None else self.threshold

    @property
    def connecting(self) -> tuple[str, ...]:
        if self.connectors in ("none", ""):
            return ()
        return (
            ENGLISH
            if self.connectors == "english"
            else tuple(dict.fromkeys(self.connectors.replace(",", " ").split()))
        )


@dataclass(frozen=True)
class Phrase:
    words: tuple[str, ...]
    count: int
    score: float


class Phrases:
    """Phrases learnt from a text; `join` joins them in any text."""

    def __init__(
        self, config: PhrasesConfig, passes: list[list[Phrase]], info: dict[str, int]
    ) -> None:
        self.config = config
        self.passes = passes  # the phrases of each pass, the best first
        self.info = info  # number of tokens, distinct words and pairs in the first pass
        self._joiners = [
            Joiner([p.words for p in each], config.connecting, config.joiner) for each in passes
        ]

    @classmethod
    def learn(cls, corpus: Any, config: PhrasesConfig | None = None, **options: Any) -> Phrases:
        """Learn phrases from a corpus, a text, or a list of lines; options are those of PhrasesConfig."""
        chosen = make(PhrasesConfig, config, options)
        phrases = cls(chosen, [], {})
        for _ in range(chosen.passes):
            phrases = phrases._one_more(corpus)
        return phrases

    def _one_more(self, corpus: Any) -> Phrases:
        """Add the phrases of another pass over the text with the phrases of earlier passes joined."""
        size = getattr(corpus, "n_bytes", None)
        with progress.task(
            f"phrases, pass {len(self.passes) + 1}", 2 * size if size else None, "bytes"
        ) as bar:
            pairs = PairCounts(
                lambda: _watched(self.join_blocks(corpus), bar), self.config.connecting
            )
        info = self.info or {"tokens": pairs.tokens, "words": pairs.n_words, "pairs": pairs.n_pairs}
        return Phrases(self.config, [*self.passes, _scored(pairs, self.config)], info)

    def __len__(self) -> int:
        return sum(len(each) for each in self.passes)

    def __iter__(self) -> Iterator[Phrase]:
        return (phrase for each in self.passes for phrase in each)

    # ---- joining

    @overload
    def join(self, text: str) -> str: ...
    @overload
    def join(self, text: list[str]) -> list[str]: ...
    def join(self, text: str | list[str]) -> str | list[str]:
        """Return the text with its phrases joined; all other characters stay as they are."""
        if isinstance(text, str):
            return b"".join(self._through(iter([to_bytes(text)]))).decode("utf-8", "surrogatepass")
        return [self.join(line) for line in text]

    def join_blocks(self, corpus: Any) -> Iterator[bytes]:
        """Join the phrases of a text of any length, a part at a time."""
        return self._through(_closed_blocks(corpus))

    def _through(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for joiner in self._joiners:
            blocks = joiner.join(blocks)
        return blocks

    @property
    def joined(self) -> int:
        """Return how many phrases were joined in the last text."""
        return sum(joiner.count for joiner in self._joiners)

    # ---- on disk

    def save(self, path: str | Path) -> None:
        """Save to one JSON file."""
        values = {
            "format": FORMAT,
            "format_version": 1,
            "config": self.config.to_dict(),
            "info": self.info,
            "passes": [[[*p.words, p.count, p.score] for p in each] for each in self.passes],
        }
        with writing_file(path, DataError) as partial:
            partial.write_text(
                json.dumps(values, ensure_ascii=False, separators=(",", ":")).replace(
                    "],[", "],\n["
                ),
                encoding="utf-8",
                errors="surrogatepass",
            )

    @classmethod
    def load(cls, path: str | Path) -> Phrases:
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8", errors="surrogatepass"))
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise ModelError(f"{path}: not a file of phrases ({error})") from None
        if (
            not isinstance(values, dict)
            or values.get("format") != FORMAT
            or values.get("format_version") != 1
        ):
            raise ModelError(
                f"{path}: not a file of phrases that this seqloom can read; learn and save them again"
            )
        try:
            passes = [
                [Phrase(tuple(row[:-2]), int(row[-2]), float(row[-1])) for row in each]
                for each in values["passes"]
            ]
            if not all(
                isinstance(word, str) for each in passes for p in each for word in p.words
            ) or not all(len(p.words) > 1 for each in passes for p in each):
                raise ValueError("a phrase has at least two words")
            return cls(PhrasesConfig.from_dict(values["config"]), passes, dict(values["info"]))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelError(
                f"{path}: damaged ({error}); learn and save the phrases again"
            ) from None


def _scored(pairs: PairCounts, config: PhrasesConfig) -> list[Phrase]:
    """Return the pairs above the threshold, the best first."""
    firsts, lasts, counts = pairs.firsts, pairs.lasts, pairs.counts
    a, b = pairs.word_counts[firsts].astype(np.float64), pairs.word_counts[lasts].astype(np.float64)
    if config.scoring == "default":
        scores = (counts - config.min_count) / (a * b) * (pairs.n_words + pairs.n_pairs)
    else:
        n = float(pairs.tokens)
        with np.errstate(divide="ignore", invalid="ignore"):  # a text of one pair alone has p = 1
            scores = np.log((counts / n) / ((a / n) * (b / n))) / -np.log(counts / n)
        scores = np.where(counts >= config.min_count, scores, -np.inf)
    chosen = np.flatnonzero(scores > config.limit)
    named = [
        Phrase(pairs.words_of(int(k)), int(counts[k]), float(scores[k])) for k in chosen.tolist()
    ]
    return sorted(named, key=lambda phrase: (-phrase.score, phrase.words))


def _closed_blocks(corpus: Any) -> Iterator[bytes]:
    """Yield blocks of the text, with a newline after a file that does not end with one."""
    if not hasattr(corpus, "blocks"):
        yield from text_blocks(corpus, cut_before_space, _BLOCK)
        return
    for block in corpus.blocks(cut_before_space, _BLOCK):
        open_end = block.ends_document and not block.data.endswith(b"\n")
        yield block.data + b"\n" if open_end else block.data


def _watched(blocks: Iterable[bytes], bar: Any) -> Iterator[bytes]:
    for block in blocks:
        yield block
        bar.advance(len(block))
