"""What an example of labelled data is: a text, a pair of texts (a tuple of two), or an array of numbers.

>>> extent("a cat"), extent(("a cat", "a dog")), in_one_line(("a cat", "a dog"))
(5, 10, 'a cat | a dog')
"""

from __future__ import annotations

import hashlib
from itertools import chain
from typing import Any

import numpy as np

from seqloom.errors import DataError
from seqloom.text.coding import to_bytes


def is_pair(example: Any) -> bool:
    """Whether an example is a pair of texts: a tuple, as a list is a list of words or of examples."""
    return (
        isinstance(example, tuple)
        and len(example) == 2
        and all(isinstance(text, str) for text in example)
    )


def in_one_line(example: Any) -> str:
    """A text as it is, a pair with a bar between its texts."""
    return " | ".join(example) if is_pair(example) else example


def extent(example: Any) -> int:
    """Characters of a text or of both texts of a pair, steps of a series."""
    return sum(map(len, example)) if is_pair(example) else len(example)


def check_examples(given: list[Any], name: str) -> list[Any]:
    """Texts, pairs of texts, or arrays of numbers that have the same width."""
    if (
        isinstance(given[0], tuple)
        and len(given[0]) == 2
        and any(isinstance(text, str) for text in given[0])
    ):
        return [_pair(value, row, name) for row, value in enumerate(given, 1)]
    if isinstance(given[0], str) or not isinstance(given[0], (np.ndarray, list, tuple)):
        return [_text(text, row, name) for row, text in enumerate(given, 1)]
    arrays: list[np.ndarray] = []
    for row, value in enumerate(given, 1):
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
        to_bytes(value)  # refuses what is no character
    return value


def _pair(value: Any, row: int, name: str) -> tuple[str, str]:
    if not is_pair(value):
        raise DataError(
            f"row {row} of {name}: {value!r:.60} is not a pair of texts; give a tuple of two"
        )
    return _text(value[0], row, name), _text(value[1], row, name)


def digest(texts: list[str]) -> bytes:
    """SHA-256 of a list of texts: of their characters and of where they end."""
    ends = np.fromiter(map(len, texts), "<i8", len(texts))
    whole = hashlib.sha256(ends.tobytes())
    whole.update("".join(texts).encode("utf-8", "surrogatepass"))
    return whole.digest()


def digest_examples(examples: list[Any]) -> bytes:
    if not examples or isinstance(examples[0], str):
        return digest(examples)
    if is_pair(examples[0]):
        return hashlib.sha256(b"pairs" + digest(list(chain.from_iterable(examples)))).digest()
    whole = hashlib.sha256(repr([array.shape for array in examples]).encode())
    for array in examples:
        whole.update(np.ascontiguousarray(array).data)
    return whole.digest()
