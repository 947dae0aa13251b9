"""Data that is in memory: lists, generators, NumPy arrays, and the columns and frames of pandas and polars.

Neither pandas nor polars is imported: a column is what has `to_list`, a frame what has `columns`.

    >>> values(np.array(["a", "b"])), list(units([["to", "be"], ["or", "not"]])[0])
    (['a', 'b'], ['to be', 'or not'])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.catalogue import is_name
from seqloom.data.columns import LABEL_NAMES, TEXT_NAMES, listed
from seqloom.errors import DataError, quoted
from seqloom.text.file_names import refuse_file, written_as_file


def refuse_name(text: str, reader: str = "seqloom.read") -> None:
    """Refuse a str that was meant as a file or as a dataset of the catalogue; `reader`: what reads it."""
    refuse_file(text, reader)
    if is_name(text):
        raise DataError(
            f"{quoted(text)} looks like a dataset, but a str is taken as the text itself; give "
            f"{reader}({quoted(text)})"
        )


def is_frame(data: Any) -> bool:
    """Whether it is a table of named columns, as pandas and polars have them."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__") and not isinstance(data, type)


def is_column(data: Any) -> bool:
    """Whether it is a list of values: a list, an array, a column of a frame; a tuple may be a pair."""
    return isinstance(data, (list, np.ndarray)) or (not is_frame(data) and hasattr(data, "to_list"))


def values(data: Any, name: str = "data") -> list[Any]:
    """The values of a list, a generator, an array, a column, or a frame of one column, as Python has them."""
    if isinstance(data, (str, bytes, dict, Path)):
        raise DataError(
            f"{name}: expected a list or a column, got a {type(data).__name__}: {quoted(data)}"
        )
    if is_frame(data):
        if len(data.columns) != 1:
            raise DataError(
                f"{name} is a frame with the columns {listed(list(map(str, data.columns)))}; give one of them: "
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
    """The two columns of a frame that have usual names; of two columns it is enough that one has."""
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
    """Whether it is a frame with a column that is called as labels usually are, beside a text."""
    called = {str(name).lower() for name in data.columns} if is_frame(data) else set()
    return not called.isdisjoint(LABEL_NAMES) and (
        len(called) == 2 or not called.isdisjoint(TEXT_NAMES)
    )


def units(data: Any) -> tuple[Iterator[str], bool]:
    """Texts, one a unit, and whether they were given as lists of words, which are joined by blanks.

    A generator is read once. Refused are paths, and lists of nothing but names of files.
    """
    if is_frame(data) and len(data.columns) > 1:
        data = _only_text(data)
    rows: Iterable[Any] = data if isinstance(data, (list, Iterator)) else values(data)
    rest = iter(rows)
    first: list[Any] = []
    for row in rest:
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
    texts = chain(first, rest)
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
            f"the frame has {len(texts)} columns of text among {listed(list(map(str, columns)))}; give one of its "
            f"columns: frame[{(texts or list(columns))[0]!r}]"
        )
    return columns[texts[0]]


def _sentence(words: Any, number: int) -> str:
    """Words as they are, between blanks: none may have one inside."""
    if isinstance(words, str):
        raise DataError(
            f"sentence {number} is a text, the ones before are lists of words; give all in the same way"
        )
    wrong = [word for word in words if not isinstance(word, str)]
    if wrong:
        raise DataError(f"sentence {number} holds {quoted(wrong[0])}; words must be text")
    joined = " ".join(words)
    if len(joined.encode("utf-8", "surrogatepass").split()) != len(
        words
    ):  # as tokenizers do, at white space of ASCII
        word = next(
            word for word in words if len(word.encode("utf-8", "surrogatepass").split()) != 1
        )
        raise DataError(
            f"sentence {number} has the word {quoted(word)}; a word may not be empty or contain a space: join "
            "its parts with _, or give texts"
        )
    return joined
