"""Examples as arrays: the steps of all examples in flat arrays, from which padded batches are taken.
Texts (`TextInputs`) and arrays of numbers (`NumberInputs`) are encoded so for a composed network.

An example is one row, or several: the sentences or windows of a long document (`counts` says how
many). Each property of a step (id, spelling of its word, tag, values) is a flat array. Spellings
are stored once for each distinct word. Where a word is several steps, properties of words are in
separate arrays (`words`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from seqloom import progress
from seqloom.batching import like_lengths, offsets, pad_flat, ranges, runs
from seqloom.data.examples import as_float32, refuse_beyond
from seqloom.data.kept import KeptArrays, KeptTexts, mapped_parts, portions_of
from seqloom.errors import ConfigError, DataError
from seqloom.models.classification.features import check_texts, join
from seqloom.models.sequence.configs import Sizes
from seqloom.runtime.declarations import Examples
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import SPLITTERS, Vocabulary, classes_for, padded

PADDING = 0  # of characters


@dataclass(frozen=True)
class Spellings:
    """Characters of distinct words as ids (U, L) int32, padded with `PADDING`, and the length of each
    word (U,).
    """

    ids: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, words: Sequence[str], character_ids: Mapping[str, int], longest: int) -> Spellings:
        """Encode the characters of words: by `character_ids`, which are above 1; other characters are
        1. Only the first `longest` characters of a word are read.
        """
        cut = [word[:longest] for word in words or [""]]  # padded steps are of the first word
        lengths = np.fromiter(map(len, cut), np.int64, len(cut))
        ids = np.array([character_ids.get(char, 1) for word in cut for char in word], np.int32)
        return cls(pad_flat(ids, lengths, PADDING, least=1)[0], lengths)


@dataclass(frozen=True)
class Encoded:
    """`steps`: named arrays with a row for each step; `row_offsets` (R + 1,) of the rows in them."""

    steps: dict[str, np.ndarray]
    row_offsets: np.ndarray
    spellings: Spellings | None = None  # `words`, one of the steps' arrays, has indices into these
    counts: np.ndarray | None = None  # (E,): rows of each example; None: one each
    # a row for each example and a step for each word: `rows` and `positions` of its first step
    words: Encoded | None = None
    kept: bool = False  # whether the arrays of the steps are mapped files
    first_row: np.ndarray = field(init=False)  # (E + 1,)

    def __post_init__(self) -> None:
        rows = np.arange(len(self.row_offsets)) if self.counts is None else offsets(self.counts)
        object.__setattr__(self, "first_row", rows)

    def __len__(self) -> int:
        return len(self.first_row) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of steps of each example."""
        return np.diff(self.row_offsets[self.first_row])

    def part(self, chosen: np.ndarray) -> Encoded:
        """Return some of the examples in the given order, where each is one row.

        >>> some = Encoded({"ids": np.array([1, 2, 3, 4])}, np.array([0, 1, 3, 4])).part(np.array([2, 1]))
        >>> some.steps["ids"].tolist(), some.row_offsets.tolist()
        ([4, 2, 3], [0, 1, 3])
        """
        assert self.counts is None
        assert self.words is None
        if self.kept:
            parts = (self._rows(np.array(rows))[1] for rows in portions_of(chosen.tolist()))
            lengths = np.diff(self.row_offsets)[chosen]
            return Encoded(mapped_parts(parts), offsets(lengths), self.spellings, kept=True)
        lengths, steps = self._rows(chosen)
        return Encoded(steps, offsets(lengths), self.spellings)

    def _rows(self, rows: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the lengths of these rows, and their steps one after the other."""
        lengths = np.diff(self.row_offsets)[rows]
        indices = ranges(self.row_offsets[rows], lengths)
        return lengths, {name: values[indices] for name, values in self.steps.items()}

    def batch(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of a batch of these examples."""
        rows = chosen
        arrays: dict[str, np.ndarray] = {}
        if self.counts is not None:
            arrays["counts"] = self.counts[chosen].astype(np.int64)
            rows = ranges(self.first_row[chosen], arrays["counts"])
        arrays["lengths"], steps = self._rows(rows)
        for name, values in steps.items():
            values = values.astype(np.int64) if values.dtype.kind in "iu" else values
            arrays[name], _ = pad_flat(values, arrays["lengths"], least=1)
        if self.words is not None:
            of_words = self.words.batch(chosen)
            arrays |= {**of_words, "lengths": arrays["lengths"], "word_counts": of_words["lengths"]}
        if self.spellings is not None:
            used, where = np.unique(arrays["words"], return_inverse=True)
            lengths = self.spellings.lengths[used]
            arrays["words"] = where.reshape(arrays["words"].shape)
            arrays["spelling_lengths"] = lengths
            arrays["spellings"] = self.spellings.ids[
                used, : max(int(lengths.max(initial=0)), 1)
            ].astype(np.int64)
        return arrays

    def examples(self, low: int = 0, high: int | None = None) -> Examples:
        """Return the examples from `low` to `high` without padding, for the networks without torch."""
        high = len(self) if high is None else high
        first_row = self.first_row[low : high + 1]
        row_offsets = self.row_offsets[first_row[0] : first_row[-1] + 1]
        begin, end = int(row_offsets[0]), int(row_offsets[-1])
        steps = {name: values[begin:end] for name, values in self.steps.items()}
        word_positions = word_offsets = None
        if self.words is not None:
            word_offsets = self.words.row_offsets[low : high + 1]
            of_words = slice(int(word_offsets[0]), int(word_offsets[-1]))
            word_offsets = word_offsets - word_offsets[0]
            example = np.repeat(np.arange(high - low), np.diff(word_offsets))
            rows = first_row[example] + self.words.steps["rows"][of_words]
            word_positions = (
                self.row_offsets[rows] + self.words.steps["positions"][of_words] - begin
            )
        return Examples(
            steps,
            row_offsets - begin,
            first_row - first_row[0],
            self.spellings,
            word_positions,
            word_offsets,
        )

    def groups(self, most_steps: int = 1 << 11) -> list[tuple[int, int]]:
        """Return the bounds of groups of neighbouring examples that are read together; they depend on
        the examples alone.
        """
        return runs(self.lengths, most_steps)

    def buckets(self, most_steps: int = 1 << 13, most_rows: int = 256) -> list[np.ndarray]:
        """Return the indices of all examples in batches of similar length, the longest first, each of at
        most so many steps with its padding.
        """
        return like_lengths(self.lengths, most_steps, most_rows)


def in_portions(
    encode: Callable[[list[Any]], Encoded],
    examples: Sequence[Any],
    spellings: Callable[[], Spellings | None] = lambda: None,
) -> Encoded:
    """Encode examples that are kept in a file, some thousands at a time; the result is mapped too.
    `encode` is that of a list, and gives the same steps for an example whatever the others are.
    """
    arrays, lengths, counts = KeptArrays(), [np.zeros(0, np.int64)], []
    with progress.task("encoding", len(examples), "examples") as bar:
        for some in portions_of(examples):
            part = encode(some)
            arrays.add(part.steps)
            lengths.append(np.diff(part.row_offsets))
            counts += [] if part.counts is None else [part.counts]
            bar.advance(len(some))
    rows_of = np.concatenate(counts) if counts else None
    row_offsets = offsets(np.concatenate(lengths))
    return Encoded(arrays.mapped(), row_offsets, spellings(), rows_of, kept=True)


def flat(rows: Sequence[np.ndarray], dtype: type = np.int64) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate rows, and return them with their offsets."""
    row_offsets = offsets([len(row) for row in rows])
    return (np.concatenate(rows) if len(rows) else np.zeros(0, dtype)), row_offsets


# ---- texts

Long = Literal["truncate", "windows", "sentences"]
LONGEST_WORD = 30  # characters of a word that are read


class TextInputs:
    """Texts as ids of tokens and spellings of words. A text ends in `</s>`, so none is empty. A long
    one is cut (`truncate`), read in windows that overlap by half (`windows`), or by sentences.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: int,
        long: Long = "truncate",
        characters: Sequence[str] | None = None,
    ) -> None:
        """Set how texts are read; `characters`: the known ones, if the spelling of words is read too."""
        if characters is not None and tokenizer.kind not in SPLITTERS[:2]:
            raise ConfigError(
                f"characters need whole words, but the tokenizer is {tokenizer.kind}; give "
                f"tokenizer whitespace "
                "or word, or characters none"
            )
        self.tokenizer, self.max_length, self.long = tokenizer, max_length, long
        self.characters = (
            None if characters is None else {char: i for i, char in enumerate(characters, 2)}
        )

    def encode(self, texts: Sequence[str], different: dict[str, int] | None = None) -> Encoded:
        """Encode texts. `different`: the distinct words until then, by their index; it grows, and the words
        are then spelled by whoever gave it.
        """
        if isinstance(texts, KeptTexts):
            known: dict[str, int] = {}
            return in_portions(
                lambda some: self.encode(some, known),
                texts,
                lambda: None if self.characters is None else self.spellings(list(known)),
            )
        check_texts(texts)
        counts = None
        if self.long == "sentences":
            texts, counts = sentences_of(texts)
        ids, words, spelled = self.tokens(texts, different)
        spelled = spelled if different is None else None
        ends = np.flatnonzero(ids == self.tokenizer.eos_id) + 1
        row_offsets = np.concatenate([[0], ends]).astype(np.int64)
        steps = {"ids": ids, **({} if words is None else {"words": words})}
        starts, stops = row_offsets[:-1], row_offsets[1:]
        if self.long == "windows":
            starts, stops, counts = windows(starts, stops, self.max_length)
        if counts is not None or (stops - starts).max(initial=0) > self.max_length:
            stops = np.minimum(stops, starts + self.max_length)
            indices, row_offsets = ranges(starts, stops - starts), offsets(stops - starts)
            steps = {name: values[indices] for name, values in steps.items()}
        return Encoded(
            steps, row_offsets, None if spelled is None else self.spellings(spelled), counts
        )

    def tokens(
        self, texts: Sequence[str], different: dict[str, int] | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, list[str] | None]:
        """Return ids, each text with its `</s>`; with characters also the index of each word among the
        distinct words, and these. `different`: those until then, by their index; it grows.
        """
        blob = join(texts)
        if self.characters is None:
            return self.tokenizer.encode_block(blob, True), None, None
        words = words_of(self.tokenizer, blob)
        different = {} if different is None else different
        for word in words:
            different.setdefault(word, len(different))
        return (
            self.tokenizer.encode_block(blob, True),
            np.array([different[word] for word in words], np.int64),
            list(different),
        )

    def spellings(self, words: Sequence[str]) -> Spellings:
        assert self.characters is not None
        return Spellings.of(words, self.characters, LONGEST_WORD)


def sentences_of(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return all sentences of texts, and how many each text has."""
    from seqloom.text.segment import sentences

    parts = [list(sentences(text)) or [text] for text in texts]
    return [sentence for part in parts for sentence in part], np.array(
        [len(part) for part in parts], np.int64
    )


def words_of(tokenizer: Tokenizer, blob: bytes) -> list[str]:
    """Return the words of lines as they are spelled, known or not; the end of a line is an empty
    word.
    """
    from seqloom.kernels.tokens import split_tokens

    assert isinstance(tokenizer._fitted, Vocabulary)
    blob, kind = tokenizer._normalized(blob), tokenizer.kind
    starts, stops = np.empty(len(blob) + 1, np.int64), np.empty(len(blob) + 1, np.int64)
    n, _ = split_tokens(
        padded(blob), len(blob), 0, SPLITTERS.index(kind), True, classes_for(kind), starts, stops
    )
    return [
        blob[a:b].decode("utf-8", "replace")
        for a, b in zip(starts[:n].tolist(), stops[:n].tolist())
    ]


def spelled_tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the tokens of a text as spelled in it, unknown ones too where tokens are whole words;
    `</s>` is the last.
    """
    blob = join([text])
    names = [tokenizer.token(i) for i in tokenizer.encode_block(blob, True).tolist()]
    if tokenizer.kind in SPLITTERS[:2]:
        names = [word or name for word, name in zip(words_of(tokenizer, blob), names)]
    return names


def windows(
    starts: np.ndarray, stops: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut each text into windows of at most `size` steps that overlap by half; return their starts and
    stops, and the number per text.
    """
    step = max(size // 2, 1)
    begins = [
        np.arange(a, max(b - size, a) + step, step) if b - a > size else np.array([a])
        for a, b in zip(starts.tolist(), stops.tolist())
    ]
    counts = np.array([len(some) for some in begins], np.int64)
    first = np.concatenate(begins) if begins else starts
    return first, np.minimum(first + size, np.repeat(stops, counts)), counts


def character_list(words: Sequence[str], least: int = 2) -> list[str]:
    """Return the characters that at least so many of the words have, sorted."""
    seen: dict[str, int] = {}
    for word in words:
        for char in dict.fromkeys(word):
            seen[char] = seen.get(char, 0) + 1
    return sorted(char for char, many in seen.items() if many >= least) or sorted(seen)


# ---- numbers


def is_numbers(value: Any) -> bool:
    """Return whether the value is a single example: an array (T, C), or a flat one of numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub" and value.ndim <= 2
    return (
        isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], (int, float))
    )


def as_steps(example: Any, name: str) -> np.ndarray:
    """Convert an example to float32 (T, C); `name`: what error messages call it."""
    if isinstance(example, str):
        raise DataError(f"{name} is text, but this model reads arrays of numbers")
    try:
        values = as_float32(example)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"{name} is not an array of numbers with rows of equal length: {str(example)[:60]}"
        ) from None
    if values.ndim not in (1, 2):
        raise DataError(f"{name} has {values.ndim} axes; give (steps,) or (steps, columns)")
    refuse_beyond(values, name)
    return values[:, None] if values.ndim == 1 else values


def as_row(step: Any) -> np.ndarray:
    """Return one step, a number or one for each column, as an example (1, C)."""
    row = as_steps(step if np.ndim(step) else [step], "the row")
    if row.shape[1] != 1:
        raise DataError(
            f"feed takes one row at a time, a number for each column; got an array {row.shape}"
        )
    return row.T


def check_numbers(examples: Sequence[Any], name: str) -> tuple[Sizes, np.ndarray, np.ndarray]:
    """Check training examples, and return their sizes, and the mean and scale of each column."""
    rows = [as_steps(example, f"example {i} of {name}") for i, example in enumerate(examples, 1)]
    widths = {row.shape[1] for row in rows}
    if len(widths) > 1:
        odd = next(i for i, row in enumerate(rows, 1) if row.shape[1] != rows[0].shape[1])
        raise DataError(
            f"example {odd} of {name} has {rows[odd - 1].shape[1]} columns, the first {rows[0].shape[1]}; "
            "all must have as many"
        )
    values = np.concatenate(rows).astype(np.float64)
    present = ~np.isnan(values)
    if not present.any():
        raise DataError(f"the examples of {name} hold no numbers")
    counts = np.maximum(present.sum(0), 1)
    mean = np.where(present, values, 0).sum(0) / counts
    scale = np.sqrt(np.where(present, (values - mean) ** 2, 0).sum(0) / counts)
    scale = np.where(scale > 0, scale, 1.0)
    return (
        Sizes(columns=values.shape[1], missing=not bool(present.all())),
        mean.astype(np.float32),
        scale.astype(np.float32),
    )


def token_totals(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> np.ndarray:
    """Return how often each token is read in these texts, int64 (V,)."""
    inputs = TextInputs(tokenizer, max_length=max_length)
    totals = np.zeros(tokenizer.vocab_size, np.int64)
    for some in portions_of(texts):
        totals += np.bincount(inputs.encode(some).steps["ids"], minlength=tokenizer.vocab_size)
    return totals


class NumberInputs:
    """Arrays of numbers, (T,) or (T, C) for each example, of any length; NaN is missing. An array is
    read whole, or in windows that overlap by half, as texts are.
    """

    def __init__(self, sizes: Sizes, window: int | None = None) -> None:
        """Set the columns and the length of a window; None: no windows."""
        self.columns, self.window = sizes.columns, window

    def encode(self, examples: Sequence[Any]) -> Encoded:
        rows = [as_steps(example, f"example {i}") for i, example in enumerate(examples, 1)]
        for i, row in enumerate(rows, 1):
            if row.shape[1] != self.columns:
                raise DataError(
                    f"example {i} has {row.shape[1]} columns; this model was fitted on {self.columns}"
                )
        counts = None
        if self.window is not None:
            lengths = np.array([len(row) for row in rows], np.int64)
            starts, stops, counts = windows(np.zeros_like(lengths), lengths, self.window)
            owners = np.repeat(np.arange(len(rows)), counts)
            rows = [
                rows[i][a:b] for i, a, b in zip(owners.tolist(), starts.tolist(), stops.tolist())
            ]
        values, row_offsets = flat(rows, np.float32)
        return Encoded({"values": values.reshape(-1, self.columns)}, row_offsets, counts=counts)
