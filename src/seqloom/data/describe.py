"""What a corpus is made of, before any model: words, how far a vocabulary reaches, how long things are.

Everything is counted on the first part of the text and asked of the last (as `compare` splits it),
or of a held-out text that is given. A vocabulary of the most frequent words is a prefix of the
longest one, so one pass gives the coverage and the unknown words of every size.

    >>> report = describe(["to be or not to be"] * 40, held_out=["to be or to do"], kinds=["word"])
    >>> report.types, report.rows[0].oov_rate
    (4, 0.2)

Whether held-out text is of another kind than the training text.

Measured are words that the training text lacks: of the held-out text, and of a random tenth of the
training text, each against the other nine tenths. Text of one kind gives two rates of the same
size; another language, or code beside prose, gives a rate far above. The tenth is drawn in runs of
200 words, the files mixed, so it is what a lucky split would have given. Where words are not
written with blanks between them, characters are counted instead. Of long texts a part is read; of
short ones nothing is said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqloom.data.corpus import Corpus, as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.errors import DataError
from seqloom.frames import html_table
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import SPLITTERS

if TYPE_CHECKING:
    from seqloom.data.corpus import Corpus


KINDS = ("whitespace", "word", "char", "byte", "bpe")
SIZES = (1000, 8000, 32000)
BINS = 20  # of a histogram


@dataclass(frozen=True)
class Lengths:
    """How long things of one sort are."""

    name: str
    count: int
    mean: float
    median: int
    p90: int
    p99: int
    longest: int
    histogram: list[
        tuple[int, int, int]
    ]  # from, to (both included), how many; the last reaches to the longest


@dataclass(frozen=True)
class Coverage:
    """Which share of the running words the most frequent `types` are."""

    types: int
    train: float
    held_out: float | None


@dataclass(frozen=True)
class TokenizerRow:
    """One tokenizer, learnt from the training part and measured on the held-out one."""

    kind: str
    vocab_size: int
    tokens: int
    bytes_per_token: float
    tokens_per_line: float
    oov_rate: float  # share of the tokens that are <unk>
    known_types: (
        float | None
    )  # share of the different tokens that the vocabulary has; for kinds that can miss


class Table(NamedTuple):
    """Cells as text, the first row above the others."""

    title: str
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Description:
    """The report as plain data."""

    name: str
    fingerprint: str
    normalize: str
    n_bytes: int
    documents: int
    lines: int
    words: int  # of the training part, as are the next two
    types: int
    once: int  # types seen once
    held_out: str  # which text that is; empty where there is none
    coverage: list[Coverage]
    rows: list[TokenizerRow]
    lengths: list[Lengths]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def summary(self) -> list[str]:
        """Return the first lines of the report."""
        normalized = "" if self.normalize == "none" else f", normalised by {self.normalize}"
        return [
            f"{self.name}: {self.n_bytes:,} bytes, {_many(self.documents, 'document')}, {self.lines:,} lines",
            f"{self.words:,} words to learn from, {self.types:,} different ones, {self.once:,} of them once"
            f"{normalized}",
        ]

    def tables(self) -> list[Table]:
        """Return the tables of the report."""
        shown = [
            c for c in self.coverage if str(c.types).strip("0") == "1" or c is self.coverage[-1]
        ]
        tables = [
            Table(
                "most frequent words cover",
                [("words", "of the text", "of held-out")]
                + [(f"{c.types:,}", f"{c.train:.1%}", _share(c.held_out)) for c in shown],
            )
        ]
        if self.rows:
            tables.append(
                Table(
                    f"tokenizers on held-out text ({self.held_out})",
                    [
                        (
                            "kind",
                            "vocabulary",
                            "tokens",
                            "bytes/token",
                            "tokens/line",
                            "unknown",
                            "known types",
                        )
                    ]
                    + [
                        (
                            r.kind,
                            f"{r.vocab_size:,}",
                            f"{r.tokens:,}",
                            f"{r.bytes_per_token:.2f}",
                            f"{r.tokens_per_line:.1f}",
                            _share(r.oov_rate, 2),
                            _share(r.known_types),
                        )
                        for r in self.rows
                    ],
                )
            )
        return [
            *tables,
            Table(
                "lengths",
                [("of", "mean", "median", "90 %", "99 %", "longest")]
                + [
                    (
                        n.name,
                        f"{n.mean:,.1f}",
                        f"{n.median:,}",
                        f"{n.p90:,}",
                        f"{n.p99:,}",
                        f"{n.longest:,}",
                    )
                    for n in self.lengths
                ],
            ),
        ]

    def table(self) -> str:
        """Return the report as text."""
        return "\n\n".join(["\n".join(self.summary()), *map(_columns, self.tables())])

    def _repr_html_(self) -> str:
        shown = [
            html_table(table.rows[0], table.rows[1:], before=[table.title])
            for table in self.tables()
        ]
        return "".join([f"<div>{escape(line)}</div>" for line in self.summary()] + shown)


def describe(
    data: Any,
    *,
    held_out: Any = None,
    kinds: Sequence[str] = KINDS,
    sizes: Sequence[int] = SIZES,
    normalize: str = "none",
) -> Description:
    """Count a corpus; `data` and `held_out` as in `fit`. Without `held_out` a tenth of the text is,
    as `split` does it.
    """
    corpus = as_corpus(data)
    train, test, name = _parts(corpus, held_out)
    words = Tokenizer(kind="word", normalize=normalize).fit(train)
    counts, word_lines = _counted(words, train)
    ordinary = _ordinary(words)
    asked = None if test is None else encode_corpus(words, test, unit="line")
    rows = [] if test is None else list(_rows(train, test, kinds, sizes, normalize))
    spellings = np.array([len(words.token(i)) for i in range(ordinary, words.vocab_size)])
    line_bytes = [len(line.encode()) for line in corpus.lines()]
    document_bytes = [len(text.encode()) for _, text in corpus.each_document()]
    lengths = [
        _lengths("lines, in bytes", np.array(line_bytes)),
        _lengths("lines, in words", word_lines),
        _lengths("words, in characters", np.repeat(spellings, counts[ordinary:])),
    ]
    if len(document_bytes) > 1:
        lengths.insert(0, _lengths("documents, in bytes", np.array(document_bytes)))
    return Description(
        name=corpus.name,
        fingerprint=corpus.fingerprint[:16],
        normalize=normalize,
        n_bytes=corpus.n_bytes or 0,
        documents=len(document_bytes),
        lines=len(line_bytes),
        words=int(counts[ordinary:].sum()),
        types=words.vocab_size - ordinary,
        once=int(np.count_nonzero(counts[ordinary:] == 1)),
        held_out=name,
        coverage=_coverage(words, counts, asked),
        rows=rows,
        lengths=lengths,
    )


def _parts(corpus: Corpus, held_out: Any) -> tuple[Corpus, Corpus | None, str]:
    if held_out is not None:
        other = as_corpus(held_out)
        return corpus, other, other.name
    try:
        splits = corpus.split((0.8, 0.1, 0.1))
    except DataError:  # too small for figures about unseen text
        return corpus, None, ""
    return (
        splits.train,
        splits.test,
        "a tenth of the files" if splits.description.startswith("whole") else "last tenth",
    )


def _ordinary(tokenizer: Tokenizer) -> int:
    """Return the first id that is not a special token; later ids are ordered by frequency."""
    return 2 if tokenizer.has_oov else 1


def _counted(tokenizer: Tokenizer, corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """Count the occurrences of each id and the tokens of each line."""
    ids = encode_corpus(tokenizer, corpus, unit="line")
    ends = np.flatnonzero(ids == tokenizer.eos_id)
    return np.bincount(ids, minlength=tokenizer.vocab_size), np.diff(ends, prepend=-1) - 1


def _coverage(words: Tokenizer, counts: np.ndarray, asked: np.ndarray | None) -> list[Coverage]:
    first = _ordinary(words)
    seen = np.cumsum(counts[first:])
    again = None
    if asked is not None:
        again = np.cumsum(np.bincount(asked, minlength=words.vocab_size)[first:])
    running = 0 if asked is None else int(np.count_nonzero(asked != words.eos_id))
    steps = sorted({min(k * 10**e, len(seen)) for e in range(9) for k in (1, 2, 3, 5, 7)})
    return [
        Coverage(
            k,
            float(seen[k - 1] / seen[-1]),
            None if again is None or not running else float(again[k - 1] / running),
        )
        for k in steps
    ]


def _rows(
    train: Corpus, test: Corpus, kinds: Sequence[str], sizes: Sequence[int], normalize: str
) -> Iterator[TokenizerRow]:
    """Yield one row for each kind and each size that the text can fill."""
    for kind in kinds:
        if kind == "byte":
            yield _row(Tokenizer(kind="byte", normalize=normalize), test, None)
            continue
        full = Tokenizer(kind=kind, normalize=normalize).fit(train) if kind in SPLITTERS else None
        wanted = [
            size for size in sizes if kind != "char" and (full is None or size < full.vocab_size)
        ]
        last = 0
        for size in wanted:
            made = Tokenizer(kind=kind, vocab_size=size, normalize=normalize).fit(train)
            if made.vocab_size > last:  # a small text cannot fill the larger ones
                yield _row(made, test, normalize if full is not None else None)
            last = made.vocab_size
        if full is not None:
            yield _row(full, test, normalize)


def _row(tokenizer: Tokenizer, test: Corpus, normalize: str | None) -> TokenizerRow:
    ids = encode_corpus(tokenizer, test, unit="line")
    ends = int(np.count_nonzero(ids == tokenizer.eos_id))
    tokens = len(ids) - ends
    unknown = 0 if tokenizer.unk_id is None else int(np.count_nonzero(ids == tokenizer.unk_id))
    missing = (
        test.open_lines
    )  # newlines; asking reads the text, which tells the size of compressed files too
    return TokenizerRow(
        kind=tokenizer.kind,
        vocab_size=tokenizer.vocab_size,
        tokens=tokens,
        bytes_per_token=((test.n_bytes or 0) + missing - ends) / max(tokens, 1),
        tokens_per_line=tokens / max(ends, 1),
        oov_rate=unknown / max(tokens, 1),
        known_types=None
        if normalize is None
        else known_types(tokenizer, Tokenizer(kind=tokenizer.kind, normalize=normalize).fit(test)),
    )


def known_types(tokenizer: Tokenizer, other: Tokenizer) -> float:
    """Return the share of another tokenizer's distinct tokens (of the same kind) that this one
    knows.
    """
    known = {tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)}
    asked = {other.token_bytes(i) for i in range(other.vocab_size)} - {b""}
    return len(asked & known) / max(len(asked), 1)


def _lengths(name: str, values: np.ndarray) -> Lengths:
    values = np.sort(values) if len(values) else np.zeros(1, np.int64)
    median, p90, p99 = (int(values[math.ceil(q * len(values)) - 1]) for q in (0.5, 0.9, 0.99))
    width = max(1, -(-(p99 + 1) // BINS))
    bins = min(BINS, p99 // width + 1)
    counts = np.bincount(np.minimum(values // width, bins - 1), minlength=bins)
    stops = [*range(width - 1, width * (bins - 1), width), max(int(values[-1]), width * bins - 1)]
    histogram = [
        (k * width, stop, int(count)) for k, (stop, count) in enumerate(zip(stops, counts))
    ]
    return Lengths(
        name, len(values), float(values.mean()), median, p90, p99, int(values[-1]), histogram
    )


def _columns(table: Table) -> str:
    widths = [max(map(len, column)) for column in zip(*table.rows)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))]
        )
        for row in table.rows
    ]
    return "\n".join([table.title, *lines])


def _share(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}%}"


def _many(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


# ---- shift

_RUN = 200  # words
_SHARE = 10  # one run in so many of the training text is compared with the others
_MAX_BYTES = 32 << 20  # bytes that are looked at; of longer texts every second, third, ... megabyte
_LONG_WORD = 25  # bytes a word on average: a script without blanks
_MIN_WORDS = 1000  # words, of which a rate would say little
_FACTOR, _MARGIN = 2.0, 0.15
_WORD = re.compile(r"\w+")


class Shift(NamedTuple):
    """Shares of words that are not in the training text: of the held-out text, and of a part of the
    training text.
    """

    unseen: float
    expected: float

    @property
    def far(self) -> bool:
        """Return whether more than twice the expected share is unseen, by more than 15 points."""
        return self.unseen > max(_FACTOR * self.expected, self.expected + _MARGIN)

    def warning(self) -> str:
        return (
            f"warning: {self.unseen:.0%} of the test part's words are not in the training part, against "
            f"{self.expected:.0%} of a random tenth of it: the test is of another kind of text"
        )


def shift(train: Corpus, test: Corpus) -> Shift:
    """Measure how far the test text is from the training text."""
    rng = np.random.default_rng(0)
    known: set[str] = set()
    drawn: list[str] = []
    by_character = _without_blanks(train)
    for run in _runs(train, by_character):
        if rng.integers(_SHARE):
            known.update(run)
        else:
            drawn += run
    asked = [word for run in _runs(test, by_character) for word in run]
    if min(len(asked), len(drawn)) < _MIN_WORDS:
        return Shift(0.0, 0.0)
    return Shift(_unseen(asked, known), _unseen(drawn, known))


def _unseen(words: list[str], known: set[str]) -> float:
    return sum(word not in known for word in words) / len(words)


def _without_blanks(corpus: Corpus) -> bool:
    head = next((piece.data for document in corpus.documents for piece in document.pieces()), b"")
    return len(head) > _LONG_WORD * len(head.split())


def _runs(corpus: Corpus, by_character: bool) -> Iterator[list[str]]:
    stride = -(-(corpus.n_bytes or 0) // _MAX_BYTES) or 1
    number = 0
    for document in corpus.documents:
        for piece in document.pieces():
            number += 1
            if number % stride == 0 or stride == 1:
                text = piece.data.decode("utf-8")
                words = list("".join(text.split())) if by_character else _WORD.findall(text.lower())
                yield from (words[at : at + _RUN] for at in range(0, len(words), _RUN))
