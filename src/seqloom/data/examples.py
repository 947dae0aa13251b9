"""What an example of labelled data is: a text, a pair of texts (a tuple of two), or an array of numbers;
how data in memory is read, which files and examples are held out, and what becomes of rows without a label.

Data in memory is a list, a generator, a NumPy array, or a column or frame of pandas or polars. Neither of
these is imported: a column is what has `to_list`, a frame what has `columns`.

    >>> extent("a cat"), extent(("a cat", "a dog")), in_one_line(("a cat", "a dog"))
    (5, 10, 'a cat | a dog')
    >>> values(np.array(["a", "b"])), list(units([["to", "be"], ["or", "not"]])[0])
    (['a', 'b'], ['to be', 'or not'])
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from seqloom import progress
from seqloom.arrays import MAX_WEIGHT
from seqloom.data.catalogue import is_name
from seqloom.data.columns import LABEL_NAMES, TEXT_NAMES, listed
from seqloom.errors import FEW, ConfigError, DataError, either, first_few, quoted
from seqloom.text.coding import to_bytes
from seqloom.text.file_names import refuse_file, written_as_file

_PORTION = 1 << 12  # texts that are hashed at a time


def is_pair(example: Any) -> bool:
    """Return whether an example is a pair of texts: a tuple, since a list holds words or examples."""
    return (
        isinstance(example, tuple)
        and len(example) == 2
        and all(isinstance(text, str) for text in example)
    )


def in_one_line(example: Any) -> str:
    """Return a text as it is, or a pair with a bar between its texts."""
    return " | ".join(example) if is_pair(example) else example


def extent(example: Any) -> int:
    """Return the number of characters of a text or of both texts of a pair, or of steps of a series."""
    return sum(map(len, example)) if is_pair(example) else len(example)


def check_examples(examples: list[Any], name: str) -> list[Any]:
    """Return the examples, checked: texts, pairs of texts, or arrays of numbers of equal width."""
    if (
        isinstance(examples[0], tuple)
        and len(examples[0]) == 2
        and any(isinstance(text, str) for text in examples[0])
    ):
        return [_pair(value, row, name) for row, value in enumerate(examples, 1)]
    if isinstance(examples[0], str) or not isinstance(examples[0], (np.ndarray, list, tuple)):
        return [_text(text, row, name) for row, text in enumerate(examples, 1)]
    arrays: list[np.ndarray] = []
    for row, value in enumerate(examples, 1):
        if isinstance(value, str):
            raise DataError(
                f"row {row} of {name} is a text, but the first one is an array of numbers; give either"
            )
        if (
            (isinstance(value, (list, tuple)) or np.ndim(value))
            and len(value)
            and isinstance(value[0], str)
        ):
            raise DataError(
                f"row {row} of {name} is a list of words; a classifier reads texts: join them with "
                "' '.join(words), or give a pair of texts as a tuple of two"
            )
        try:
            arrays.append(np.asarray(value, np.float32))
        except (ValueError, TypeError):
            raise DataError(
                f"row {row} of {name}: {value!r:.60} is not an array of numbers"
            ) from None
        if not arrays[-1].ndim or arrays[-1].shape[1:] != arrays[0].shape[1:]:
            raise DataError(
                f"row {row} of {name} has the shape {arrays[-1].shape}, the first one {arrays[0].shape}; all "
                "arrays must have the same width"
            )
    return arrays


def _text(value: Any, row: int, name: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"row {row} of {name}: {value!r:.60} is not text")
    if not value.isascii():
        to_bytes(value)  # refuses lone surrogates
    return value


def _pair(value: Any, row: int, name: str) -> tuple[str, str]:
    if not is_pair(value):
        raise DataError(
            f"row {row} of {name}: {value!r:.60} is not a pair of texts; give a tuple of two"
        )
    return _text(value[0], row, name), _text(value[1], row, name)


def digest(texts: Iterable[str]) -> bytes:
    """Return the SHA-256 of a list of texts: of their characters and of where they end."""
    hasher = hashlib.sha256(np.fromiter(map(len, texts), "<i8").tobytes())
    remaining = iter(texts)
    while some := list(islice(remaining, _PORTION)):
        hasher.update("".join(some).encode("utf-8", "surrogatepass"))
    return hasher.digest()


def digest_examples(examples: Sequence[Any]) -> bytes:
    if not examples or isinstance(examples[0], str):
        return digest(examples)
    if is_pair(examples[0]):
        return hashlib.sha256(b"pairs" + digest(list(chain.from_iterable(examples)))).digest()
    hasher = hashlib.sha256(repr([array.shape for array in examples]).encode())
    for array in examples:
        hasher.update(np.ascontiguousarray(array).data)
    return hasher.digest()


# ---- in memory


def refuse_name(text: str, reader: str = "seqloom.read") -> None:
    """Refuse a str that was meant as a file or as a dataset of the catalogue; `reader`: what reads it."""
    refuse_file(text, reader)
    if is_name(text):
        raise DataError(
            f"{quoted(text)} looks like a dataset, but a str is taken as the text itself; give "
            f"{reader}({quoted(text)})"
        )


def is_frame(data: Any) -> bool:
    """Return whether the data is a table of named columns, as in pandas and polars."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__") and not isinstance(data, type)


def is_column(data: Any) -> bool:
    """Return whether the data is a list, an array, or a column of a frame; a tuple may be a pair instead."""
    return isinstance(data, (list, np.ndarray)) or (not is_frame(data) and hasattr(data, "to_list"))


def values(data: Any, name: str = "data") -> list[Any]:
    """Return the values of a list, a generator, an array, a column, or a one-column frame as
    Python objects.
    """
    if isinstance(data, (str, bytes, dict, Path)):
        raise DataError(
            f"{name}: expected a list or a column, got a {type(data).__name__}: {quoted(data)}"
        )
    if is_frame(data):
        if len(data.columns) != 1:
            raise DataError(
                f"{name} is a frame with the columns {listed(list(map(str, data.columns)))}; give "
                f"one of them: "
                f"frame[{data.columns[0]!r}]"
            )
        return values(data[data.columns[0]], name)
    if hasattr(data, "to_list"):
        return data.to_list()
    if not isinstance(data, (list, np.ndarray)) and hasattr(data, "__array__"):
        data = np.asarray(data)
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "USOT":
            return list(data) if data.ndim > 1 else data.tolist()
        return (data[:, 0] if data.ndim == 2 and data.shape[1] == 1 else data).tolist()
    if not isinstance(data, Iterable):
        raise DataError(f"{name}: expected a list or a column, got {type(data).__name__}")
    return data if isinstance(data, list) else list(data)


def text_and_label(frame: Any) -> tuple[list[Any], list[Any]]:
    """Return the columns of a frame with usual names; of two columns only one needs such a name."""
    names = list(frame.columns)
    called = {str(name).lower(): name for name in reversed(names)}
    text, label = (
        next((called[usual] for usual in usuals if usual in called), None)
        for usuals in (TEXT_NAMES, LABEL_NAMES)
    )
    if len(names) == 2 and (text is None) != (label is None):
        other = names[1 - names.index(label if text is None else text)]
        text, label = (other, label) if text is None else (text, other)
    if text is None or label is None:
        raise DataError(
            f"the frame has the columns {listed(list(map(str, names)))}; give the two to use: "
            "(frame['text'], frame['label'])"
        )
    return values(frame[text], "texts"), values(frame[label], "labels")


def has_labels(data: Any) -> bool:
    """Return whether the data is a frame with a usual label column beside a text."""
    called = {str(name).lower() for name in data.columns} if is_frame(data) else set()
    return not called.isdisjoint(LABEL_NAMES) and (
        len(called) == 2 or not called.isdisjoint(TEXT_NAMES)
    )


def units(data: Any) -> tuple[Iterator[str], bool]:
    """Return texts, one per unit, and whether they were lists of words, which are joined by blanks.

    A generator is read once. Paths, and lists of nothing but file names, are refused.
    """
    if is_frame(data) and len(data.columns) > 1:
        data = _only_text(data)
    rows: Iterable[Any] = data if isinstance(data, (list, Iterator)) else values(data)
    remaining = iter(rows)
    first: list[Any] = []
    for row in remaining:
        first.append(row)
        if not isinstance(row, Path) and not (isinstance(row, str) and written_as_file(row)):
            break
    else:
        if first:
            name = quoted(str(first[0]))
            raise DataError(
                f"{name} looks like a file name, but a list holds the texts themselves; give "
                f"seqloom.read([{name}, ...])"
            )
    texts = chain(first, remaining)
    if first and isinstance(first[-1], (list, tuple, np.ndarray)):
        return (_sentence(words, number) for number, words in enumerate(texts, 1)), True
    return texts, False


def _only_text(frame: Any) -> list[Any]:
    columns = {name: values(frame[name]) for name in frame.columns}
    texts = [
        name
        for name, column in columns.items()
        if isinstance(next((v for v in column if v is not None), None), str)
    ]
    if len(texts) != 1:
        raise DataError(
            f"the frame has {len(texts)} columns of text among {listed(list(map(str, columns)))}; "
            f"give one of its "
            f"columns: frame[{(texts or list(columns))[0]!r}]"
        )
    return columns[texts[0]]


def _sentence(words: Any, number: int) -> str:
    """Join words, unchanged, by blanks: no word may contain one."""
    if isinstance(words, str):
        raise DataError(
            f"sentence {number} is a text, the ones before are lists of words; give all in the same way"
        )
    wrong = [word for word in words if not isinstance(word, str)]
    if wrong:
        raise DataError(f"sentence {number} holds {quoted(wrong[0])}; words must be text")
    joined = " ".join(words)
    # bytes.split cuts at ASCII white space, as the tokenizers do
    if len(joined.encode("utf-8", "surrogatepass").split()) != len(words):
        word = next(
            word for word in words if len(word.encode("utf-8", "surrogatepass").split()) != 1
        )
        raise DataError(
            f"sentence {number} has the word {quoted(word)}; a word may not be empty or contain a "
            f"space: join "
            "its parts with _, or give texts"
        )
    return joined


# ---- numbers


def as_float32(value: Any) -> np.ndarray:
    """Convert numbers for a network; those that are too large become infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(value, np.float32)


def refuse_beyond(array: np.ndarray, what: str) -> None:
    """Refuse numbers so large that a network could not store their mean. `what`: for the message."""
    if (np.abs(array) > MAX_WEIGHT).any():
        raise DataError(
            f"{what} holds a number that is infinite or beyond {MAX_WEIGHT:g}; give it in another unit, "
            "or as NaN if it is missing"
        )


# ---- splitting

TOLERANCE = 2.0  # factor by which the size of a part may differ from the requested one


def whole_files(
    digests: Sequence[str], sizes: Sequence[int], fractions: tuple[float, float, float]
) -> tuple[list[int], list[int], list[int]] | None:
    """Choose the files for training, validation and test, by index; None if whole files miss the
    fractions by too much.

    Files come in the order of the hashes of their contents, so that names do not matter and copies stay
    together. The test part takes each file that brings it nearer to its size, then the validation part;
    the others are trained on. So a large file never ends up in a small part.

    >>> whole_files(["c", "a", "b", "d"], [50, 10, 10, 30], (0.8, 0.1, 0.1))
    ([0, 3], [2], [1])
    >>> whole_files(["c", "a", "b"], [10, 10, 10], (0.8, 0.1, 0.1)) is None
    True
    """
    total, groups = sum(sizes), _groups(digests, sizes)
    parts: list[list[int]] = []
    for fraction in (fractions[2], fractions[1]):
        target, size_so_far, chosen, remaining = fraction * total, 0, [], []
        for group in groups:
            size = _size(group, sizes)
            if abs(size_so_far + size - target) < abs(size_so_far - target):
                chosen += group
                size_so_far += size
            else:
                remaining.append(group)
        parts.append(chosen)
        groups = remaining
    test, valid = parts
    train = [index for group in groups for index in group]
    for part, fraction in zip((train, valid, test), fractions):
        if not fraction * total / TOLERANCE <= _size(part, sizes) <= fraction * total * TOLERANCE:
            return None
    return train, valid, test


def example_digest(example: Any) -> bytes:
    """Return the digest of an array, a text or a pair of texts; only the words of texts count, not blanks."""
    if is_pair(example):
        return hashlib.sha256(b"".join(map(example_digest, example))).digest()
    if isinstance(example, str):
        return hashlib.sha256(" ".join(example.split()).encode("utf-8", "surrogatepass")).digest()
    return hashlib.sha256(np.ascontiguousarray(example).tobytes()).digest()


def hashed_order(examples: Iterable[Any]) -> tuple[list[int], list[bool]]:
    """Return the examples ordered by hash, which mixes classes whatever the order of the file, and
    whether a part may begin at each position of that order: equal examples are never separated.
    """
    digests = example_digests(examples)
    order = np.lexsort(digests.T[::-1])  # stable: equal ones stay in their order
    different = (digests[order][1:] != digests[order][:-1]).any(1)
    return order.tolist(), [True, *different.tolist()][: len(order)]


def example_digests(examples: Iterable[Any]) -> np.ndarray:
    """Return the digest of each example as four numbers, (n, 4), which are ordered as the digests are."""
    joined = bytearray()
    for example in examples:
        joined += example_digest(example)
    return np.frombuffer(joined, ">u8").reshape(-1, 4).astype(np.uint64)


def count_different(examples: Iterable[Any]) -> int:
    return len(np.unique(example_digests(examples), axis=0))


def hashed_parts(examples: Sequence[Any], fractions: Sequence[float]) -> list[np.ndarray]:
    """Return the indices of the examples of each part, in hashed order; equal examples share a
    part, and no part is empty.

    >>> [len(part) for part in hashed_parts([f"text {i // 2}" for i in range(40)], (0.8, 0.1, 0.1))]
    [32, 4, 4]
    """
    order, may_begin = hashed_order(examples)
    bounds = [0]
    for share in np.cumsum(fractions)[:-1]:
        at = min(max(round(share * len(order)), bounds[-1] + 1), len(order) - 1)
        bounds.append(next((i for i in range(at, len(order)) if may_begin[i]), len(order) - 1))
    parts = [np.array(order[a:b], np.int64) for a, b in pairwise([*bounds, len(order)])]
    if not all(map(len, parts)):
        raise DataError(
            "too few of the examples differ from each other to hold some out; give data with more "
            "different ones, "
            "or give held-out data"
        )
    return parts


def _groups(digests: Sequence[str], sizes: Sequence[int]) -> list[list[int]]:
    """Group files of the same content, ordered by hash, leaving out empty files."""
    groups: dict[str, list[int]] = {}
    for index in sorted((i for i, size in enumerate(sizes) if size), key=lambda i: digests[i]):
        groups.setdefault(digests[index], []).append(index)
    return list(groups.values())


def _size(indices: Sequence[int], sizes: Sequence[int]) -> int:
    return sum(sizes[index] for index in indices)


# ---- rows without a label

UnlabelledChoice = Literal["refuse", "skip"]


class NoLabel(DataError):
    """A row that has no label."""


class MissingLabels:
    """The rows of a file that have no label: refused, or skipped and counted."""

    def __init__(self, choice: UnlabelledChoice) -> None:
        if choice not in (known := get_args(UnlabelledChoice)):
            raise ConfigError(f"unlabelled must be {either(known)}; got {quoted(choice)}")
        self.skip, self.count, self.word = choice == "skip", 0, "line"
        self.first: list[int] = []  # numbers of the first such lines or rows

    def add(self, error: DataError, number: int, word: str = "line") -> None:
        """Count the row of that number, or raise the error of having no label."""
        if not self.skip:
            raise DataError(f"{error}; unlabelled='skip' leaves such rows out")
        self.count, self.word = self.count + 1, word
        self.first += [number] * (len(self.first) < FEW)

    def report(self, name: str, labelled: int) -> None:
        """Say how many rows were skipped, and which were the first."""
        if self.count:
            skipped = "has no label and was" if self.count == 1 else "have no label and were"
            progress.say(
                f"{name}: {self.count:,} of {self.count + labelled:,} rows {skipped} skipped "
                f"({first_few(self.word, self.first, self.count)})"
            )
