"""What a corpus consists of, before any model: words, the coverage of vocabularies, lengths; and whether
held-out text is of another kind (`shift`).

Everything is counted on the training part and measured on the test part (as `compare` splits them) or
on a given held-out text. A vocabulary of the most frequent words is a prefix of the longest one, so
one pass gives the coverage and the unknown words of every size.

    >>> report = describe(["to be or not to be"] * 40, held_out=["to be or to do"], kinds=["word"])
    >>> report.types, report.rows[0].oov_rate
    (4, 0.2)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

from seqloom.data.corpus import Corpus, as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.errors import DataError
from seqloom.frames import html_table
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import SPLITTERS

KINDS = ("whitespace", "word", "char", "byte", "bpe")
SIZES = (1000, 8000, 32000)
BINS = 20  # of a histogram


@dataclass(frozen=True)
class Lengths:
    """The distribution of the lengths of lines, words or documents."""

    name: str
    count: int
    mean: float
    median: int
    p90: int
    p99: int
    longest: int
    # first and last length of each bin, and its count; the last bin extends to the longest
    histogram: list[tuple[int, int, int]]


@dataclass(frozen=True)
class Coverage:
    """The share of the running words that the most frequent `types` cover."""

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
    )  # share of the distinct tokens in the vocabulary; for kinds with <unk>


class Table(NamedTuple):
    """Cells as text; the first row is the header."""

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
            f"{self.name}: {self.n_bytes:,} bytes, {_plural(self.documents, 'document')}, "
            f"{self.lines:,} lines",
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
    """Describe a corpus; `data` and `held_out` as in `fit`. By default `split` holds out a tenth."""
    corpus = as_corpus(data)
    train, test, held_out_name = _parts(corpus, held_out)
    words = Tokenizer(kind="word", normalize=normalize).fit(train)
    counts, word_lines = _counted(words, train)
    ordinary = _ordinary(words)
    held_out_ids = None if test is None else encode_corpus(words, test, unit="line")
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
        held_out=held_out_name,
        coverage=_coverage(words, counts, held_out_ids),
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


def _coverage(
    words: Tokenizer, counts: np.ndarray, held_out_ids: np.ndarray | None
) -> list[Coverage]:
    first = _ordinary(words)
    covered = np.cumsum(counts[first:])
    held_out_covered = None
    if held_out_ids is not None:
        held_out_covered = np.cumsum(np.bincount(held_out_ids, minlength=words.vocab_size)[first:])
    running = 0 if held_out_ids is None else int(np.count_nonzero(held_out_ids != words.eos_id))
    steps = sorted({min(k * 10**e, len(covered)) for e in range(9) for k in (1, 2, 3, 5, 7)})
    return [
        Coverage(
            k,
            float(covered[k - 1] / covered[-1]),
            None
            if held_out_covered is None or not running
            else float(held_out_covered[k - 1] / running),
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
        fillable = [
            size for size in sizes if kind != "char" and (full is None or size < full.vocab_size)
        ]
        previous_size = 0
        for size in fillable:
            tokenizer = Tokenizer(kind=kind, vocab_size=size, normalize=normalize).fit(train)
            if tokenizer.vocab_size > previous_size:  # a small text cannot fill the larger ones
                yield _row(tokenizer, test, normalize if full is not None else None)
            previous_size = tokenizer.vocab_size
        if full is not None:
            yield _row(full, test, normalize)


def _row(tokenizer: Tokenizer, test: Corpus, normalize: str | None) -> TokenizerRow:
    ids = encode_corpus(tokenizer, test, unit="line")
    ends = int(np.count_nonzero(ids == tokenizer.eos_id))
    tokens = len(ids) - ends
    unknown = 0 if tokenizer.unk_id is None else int(np.count_nonzero(ids == tokenizer.unk_id))
    # read before n_bytes: reading the text gives the size of compressed files, too
    open_lines = test.open_lines
    return TokenizerRow(
        kind=tokenizer.kind,
        vocab_size=tokenizer.vocab_size,
        tokens=tokens,
        bytes_per_token=((test.n_bytes or 0) + open_lines - ends) / max(tokens, 1),
        tokens_per_line=tokens / max(ends, 1),
        oov_rate=unknown / max(tokens, 1),
        known_types=None
        if normalize is None
        else known_types(tokenizer, Tokenizer(kind=tokenizer.kind, normalize=normalize).fit(test)),
    )


def known_types(tokenizer: Tokenizer, other: Tokenizer) -> float:
    """Return the share of the distinct tokens of another tokenizer (of the same kind) that this one has."""
    tokens = {tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)}
    other_tokens = {other.token_bytes(i) for i in range(other.vocab_size)} - {b""}
    return len(other_tokens & tokens) / max(len(other_tokens), 1)


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


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


# ---- shift

_RUN = 200  # words
_SHARE = 10  # one run in so many of the training text is compared with the others
_MAX_BYTES = 32 << 20  # bytes that are read; of longer texts every second, third, ... megabyte
_LONG_WORD = 25  # average bytes of a word, above which the script has no blanks between words
_MIN_WORDS = 1000  # of fewer words a rate would say little
_FACTOR, _MARGIN = 2.0, 0.15
_WORD = re.compile(r"\w+")


class Shift(NamedTuple):
    """Shares of words unseen in training: of the held-out text, and of a sample of the training text."""

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
    """Measure whether the test text is of another kind than the training text.

    Counted are words that nine tenths of the training text lack: in the test text, and in the remaining
    random tenth. Text of one kind gives two similar rates; another language, or code beside prose, a far
    higher one. The tenth is drawn in runs of 200 words from all files, as a lucky split would give it.
    Characters are counted where words are not separated by blanks. Texts that are too short give 0 and 0.
    """
    rng = np.random.default_rng(0)
    training_words: set[str] = set()
    sample: list[str] = []
    by_character = _without_blanks(train)
    for run in _runs(train, by_character):
        if rng.integers(_SHARE):
            training_words.update(run)
        else:
            sample += run
    test_words = [word for run in _runs(test, by_character) for word in run]
    if min(len(test_words), len(sample)) < _MIN_WORDS:
        return Shift(0.0, 0.0)
    return Shift(_unseen(test_words, training_words), _unseen(sample, training_words))


def _unseen(words: list[str], vocabulary: set[str]) -> float:
    return sum(word not in vocabulary for word in words) / len(words)


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
