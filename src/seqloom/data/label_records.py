"""Text and label from records: JSON Lines and Parquet.

Labels may be numbers or true and false; they become the text that JSON has for them. Columns of JSON Lines may lie deeper,
as `meta.label`; a key that is written with dots goes first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from seqloom import progress
from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.json_lines import line_blocks, not_json
from seqloom.data.label_tables import Batch, Choice, choose_columns
from seqloom.errors import DataError
from seqloom.forks import needs_threads

_HEAD_ROWS = 100
_BLANK = " \t\r"
_KINDS = {bool: columns.FLAG, str: "text", int: "a number", float: "a number", dict: "an object", list: "a list"}


def read_jsonl(document: Document, choice: Choice) -> Iterator[Batch]:
    """An object a line."""
    paths: list[tuple[str, ...]] | None = None
    first, halves = 1, 0
    for block in line_blocks(document):
        lines = block.decode("utf-8").split("\n")
        if paths is None:
            paths = _paths(document, lines, choice)
        texts, labels = _at_once(lines, paths) or _one_by_one(document, first, lines, paths)
        halves += _replace_halves(texts) + _replace_halves(labels)
        first += len(lines) - 1
        if texts:
            yield texts, labels
    if halves:
        progress.say(f"{document.name}: replaced halves of surrogate pairs by U+FFFD in {halves:,} cells")


def _at_once(lines: list[str], paths: list[tuple[str, ...]]) -> Batch | None:
    """The rows of a block as one JSON array, twice as fast; None when any of them is not of the plainest kind."""
    if any(len(path) > 1 for path in paths):
        return None
    filled = [line for line in lines if line and not line.isspace()]
    (text,), (label,) = paths or [("",), ("",)]
    try:
        rows = json.loads(f"[{','.join(filled)}]")
        texts, labels = [row[text] for row in rows], [row[label] for row in rows]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    kinds = set(map(type, labels))
    if len(rows) != len(filled) or set(map(type, texts)) - {str} or "" in labels or (kinds != {int} and kinds - {str}):
        return None
    return texts, list(map(str, labels)) if kinds == {int} else labels


def _one_by_one(document: Document, first: int, lines: list[str], paths: list[tuple[str, ...]]) -> Batch:
    """Any rows, with a word about the first that is wrong."""
    texts: list[str] = []
    labels: list[str] = []
    for number, line in enumerate(lines, first):
        line = line.strip(_BLANK)
        if not line:
            continue
        row = _parse(document, number, line)
        text, label = (_look(row, path) for path in paths)
        if not isinstance(text, str):
            raise _refuse(document, number, "text", paths[0], text)
        texts.append(text)
        labels.append(label if isinstance(label, str) and label else _label(document, number, paths[1], label))
    return texts, labels


def _paths(document: Document, lines: list[str], choice: Choice) -> list[tuple[str, ...]]:
    """What to follow to text and label in each row."""
    head = [_parse(document, number, line) for number, line in
            islice(((n, line.strip(_BLANK)) for n, line in enumerate(lines, 1) if line.strip(_BLANK)), _HEAD_ROWS)]
    names = list(dict.fromkeys(key for row in head for key in row))
    deeper = [column for column in choice if column is not None and column not in names
              and any(_look(row, tuple(column.split("."))) is not None for row in head)]
    if choice.text is None and choice.label is None and not head:
        return []
    chosen = choose_columns(document.name, [*names, *deeper], choice)
    return [(column,) if column in names else tuple(column.split(".")) for column in chosen]


def _parse(document: Document, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise not_json(f"{document.name}, line {number}", line.encode("utf-8")) from None
    if type(row) is not dict:
        raise DataError(f'{document.name}, line {number}: not an object; there must be one a line, such as '
                        '{"text": "...", "label": "..."}')
    return row


def _look(row: Any, path: tuple[str, ...]) -> Any:
    """The value at the end of a path, or None."""
    for step in path:
        if isinstance(row, dict):
            row = row.get(step)
        elif isinstance(row, list) and step.isdecimal() and int(step) < len(row):
            row = row[int(step)]
        else:
            return None
    return row


def _label(document: Document, number: int, path: tuple[str, ...], value: Any) -> str:
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    raise _refuse(document, number, "label", path, value)


def _refuse(document: Document, number: int, what: str, path: tuple[str, ...], value: Any) -> DataError:
    place, name = f"{document.name}, line {number}", ".".join(path)
    if value is None or value == "":
        return DataError(f"{place}: no {what} in column {name!r}")
    several = "; one label a row" if isinstance(value, list) and what == "label" else ""
    return DataError(f"{place}, column {name!r}: {_KINDS[type(value)]}, not a {what}{several}")


def _replace_halves(cells: list[str]) -> int:
    """JSON can write half of a surrogate pair, which is no character; how many cells had one."""
    try:
        "".join(cells).encode("utf-8")
        return 0
    except UnicodeEncodeError:  # rare
        clean = ["".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in cell) for cell in cells]
        changed = sum(a != b for a, b in zip(cells, clean))
        cells[:] = clean
        return changed


def read_parquet(document: Document, choice: Choice) -> Iterator[Batch]:
    """Row after row, a batch of polars at a time."""
    import polars as pl

    needs_threads("polars")
    assert document.path is not None
    row = 0
    try:
        frame = pl.scan_parquet(document.path, glob=False)
        chosen = choose_columns(document.name, frame.collect_schema().names(), choice)
        pair = [pl.col(column).cast(pl.String).alias(what) for what, column in zip(("text", "label"), chosen)]
        for batch in frame.select(pair).collect_batches(maintain_order=True):
            for what, column in zip(("text", "label"), chosen):
                missing = batch[what].is_null() | (batch[what] == "" if what == "label" else False)
                if (at := missing.arg_max()) is not None and missing[at]:
                    raise DataError(f"{document.name}, row {row + at + 1}: no {what} in column {column!r}")
            row += len(batch)
            if len(batch):
                yield batch["text"].to_list(), batch["label"].to_list()
    except DataError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # there are a dozen kinds
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{document.name}: not a Parquet file with text and labels that can be read ({why})") from None
