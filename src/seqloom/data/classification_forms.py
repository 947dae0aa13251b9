"""The forms of labelled text, and how a form is recognised.

In a table two columns are read, text and label: the requested ones, or those with usual names
(`text`, `review`, ...; `label`, `class`, ...). Of two columns with other names the one with fewer distinct
values is the label, which is reported. With a second text column an example is a pair of texts, such
as a question and an answer or a premise and a hypothesis. Numbers and booleans as labels, or in further
columns, become the text that JSON has for them.

`lines` has a label, a blank and a sentence in each line (as the Stanford Sentiment Treebank); `fasttext`
the same with `__label__` before its one label (fasttext.cc/docs/en/supervised-tutorial.html); `folders`
one directory per class and one file per text; `numbers` a label and a series in each line.
"""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seqloom import progress
from seqloom.data import columns
from seqloom.data.columns import LABEL_NAMES, TEXT_NAMES
from seqloom.data.documents import Document, line_blocks, numbered_lines
from seqloom.data.examples import MissingLabels, NoLabel
from seqloom.data.pieces import COMPRESSED
from seqloom.data.rows import KINDS, Block, Rows, open_rows, table_kind
from seqloom.data.sources import report_skipped
from seqloom.data.translation_sides import cells_of, label_of, looks_numeric, parse_values
from seqloom.errors import ConfigError, DataError, EncodingError, quoted, suggest

Form = Literal["auto", "tsv", "csv", "jsonl", "parquet", "lines", "fasttext", "folders", "numbers"]

MARK = "__label__"

_FORMS = ("auto", "tsv", "csv", "jsonl", "parquet", "lines", "fasttext", "folders", "numbers")
_HEAD_LINES = 100
_HEAD_ROWS = 1000  # rows in which distinct values are counted to find the label column
_MAX_FEW_CLASSES = 8  # so many classes are accepted however few lines there are
_FILES = 1000  # files of a folder in one batch


class Batch(NamedTuple):
    """Some rows."""

    texts: list[Any]  # or pairs of texts, or series of numbers
    labels: list[str]
    more: Sequence[list[str]] = ()  # the values of each further column that was requested
    numbers: Sequence[int] = ()  # of the rows, or lines, in the file


def unlike_places(numbers: Sequence[int], total: int) -> Sequence[int]:
    """Return the numbers of all rows of one file if some between them were left out; else none."""
    rise = len(numbers) == total and all(a < b for a, b in pairwise(numbers))
    return numbers if rise and numbers and numbers[-1] > total else ()


class Choice(NamedTuple):
    """The requested columns: text, label (None: to be found), the second text of pairs, further ones."""

    text: str | None = None
    label: str | None = None
    pair: str | None = None
    more: tuple[str, ...] = ()

    def named(self) -> dict[str, str]:
        """Return the columns requested by name, as a map from purpose to column."""
        pairs = [
            ("text", self.text),
            ("pair", self.pair),
            ("label", self.label),
            *(("further", column) for column in self.more),
        ]
        return {what: column for what, column in pairs if column is not None}


def check_form(form: str) -> None:
    """Refuse an unknown form."""
    if form not in _FORMS:
        raise ConfigError(
            f"form must be one of {', '.join(_FORMS)}; got {form!r}{suggest(str(form), _FORMS)}"
        )


def read_rows(
    document: Document, form: Form, choice: Choice, unlabelled: MissingLabels
) -> Iterator[Batch]:
    """Yield the texts and labels of a document, some thousands at a time."""
    kind = recognise(document) if form == "auto" else form
    if kind in KINDS.values():
        return _table(document, kind, choice, unlabelled)
    for what, column in choice.named().items():
        raise DataError(
            f"{document.name} is of the form {kind} and has no columns; leave out the {what} column "
            f"{quoted(column)}, or say that it is a table (form='tsv', 'csv' or 'jsonl')"
        )
    parse = {"lines": _line, "fasttext": _fasttext_line, "numbers": _numbers_line}[kind]
    return _by_line(document, parse, unlabelled)


def recognise(document: Document) -> str:
    """Return the form, recognised by the file extension and the first lines."""
    kind = table_kind(document.name)
    if kind == "parquet":
        return kind
    block = next(line_blocks(document, 1), b"").decode("utf-8")
    head = [line for line in islice(block.split("\n"), _HEAD_LINES) if line and not line.isspace()]
    if head and head[0].lstrip().startswith(MARK):
        return "fasttext"
    if kind in (None, "tsv", "csv") and looks_numeric(document):
        progress.say(f"{document.name}: each line is taken as a label and a series of numbers")
        return "numbers"
    if kind is not None or not head:
        return kind or "lines"
    if head[0].lstrip().startswith("{"):
        return "jsonl"
    tabs = {line.count("\t") for line in head}
    if len(tabs) == 1 and tabs != {0}:
        return "tsv"
    names = {cell.strip(' "\r').lower() for cell in head[0].replace(";", ",").split(",")}
    if names & set(TEXT_NAMES) and names & set(LABEL_NAMES):
        return "csv"
    classes = {line.split(None, 1)[0] for line in head}
    if len(classes) > max(_MAX_FEW_CLASSES, len(head) // 2):
        raise DataError(
            f"{document.name} does not look like labelled text: its first {len(head)} lines begin with "
            f"{len(classes)} different words; say what it is with form=...: {', '.join(_FORMS[1:])}"
        )
    progress.say(f"{document.name}: the first word of each line is taken as its label")
    return "lines"


def _table(
    document: Document, kind: str, choice: Choice, unlabelled: MissingLabels
) -> Iterator[Batch]:
    """Yield text, label and further columns of a table; only the label may not be empty."""
    requested = [choice.text, choice.label, choice.pair, *choice.more]
    rows = open_rows(
        document, kind, requested, doubtful=False
    )  # a text and its label look like names
    if not rows.kinds:
        return
    pair, further = (
        rows.requested[2],
        [
            columns.check_name(document.name, rows.kinds, column)
            for column in rows.requested[3:]
            if column is not None
        ],
    )
    kinds = (
        rows.kinds
        if pair is None
        else columns.without(document.name, rows.kinds, pair, rows.requested[:2])
    )
    text, label = columns.choose_pair(document.name, kinds, rows.requested[:2]) or _by_values(
        rows, kinds
    )
    texts_in = [text] if pair is None else [text, pair]
    halves = 0
    for block in rows.blocks([*texts_in, label, *further]):
        labels = _plain_labels(block.values[len(texts_in)], rows.untyped)
        if "" in labels or set(map(type, labels)) - {str}:
            block = _with_labels(block, labels, label, unlabelled)
            labels = [value for value in labels if value]
        texts: list[Any] = texts_of(block, 0, text) if pair is None else joined(block, texts_in)
        more = block.values[len(texts_in) + 1 :]
        halves += block.halves
        yield Batch(
            texts,
            labels,
            [
                [_plain(value, block, k, column) for k, value in enumerate(cells)]
                for column, cells in zip(further, more)
            ],
            block.rows,
        )
    if halves:
        progress.say(
            f"{document.name}: replaced {halves:,} lone surrogate{'s' * (halves > 1)} by U+FFFD"
        )


def _plain_labels(values: list[Any], untyped: bool) -> list[Any]:
    """Return labels as text; NaN, by which other programs mark a missing value, becomes None."""
    if untyped:
        return list(map(str.strip, values))
    if not set(map(type, values)) - {str}:
        return values
    return [
        None
        if value != value
        else json.dumps(value)
        if isinstance(value, (bool, int, float))
        else value
        for value in values
    ]


def _with_labels(block: Block, labels: list[Any], column: str, unlabelled: MissingLabels) -> Block:
    """Return the rows that have a label, unless one without is refused."""
    for k, value in enumerate(labels):
        if value is None or value == "":
            unlabelled.add(
                columns.wrong_value(block.location(k), column, value, "label"),
                block.rows[k] if block.lines is None else block.lines[k],
                "row" if block.lines is None else "line",
            )
        elif not isinstance(value, str):
            raise columns.wrong_value(block.location(k), column, value, "label")
    kept = [k for k, value in enumerate(labels) if value]
    return block._replace(
        values=[[cells[k] for k in kept] for cells in block.values],
        rows=[block.rows[k] for k in kept],
        lines=None if block.lines is None else [block.lines[k] for k in kept],
    )


def _plain(value: Any, block: Block, k: int, column: str) -> str:
    """Return a value of a further column as text; None becomes empty text."""
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if isinstance(value, (dict, list, bytes)):
        raise columns.wrong_value(block.location(k), column, value, "single value")
    return json.dumps(value) if isinstance(value, (bool, int, float)) else str(value)


def _by_values(rows: Rows, kinds: Mapping[str, str]) -> list[str]:
    """Choose the label of two columns: fewer distinct values or, if equal, shorter ones."""
    pair = [column for column, kind in kinds.items() if kind not in (columns.OBJECT, columns.LIST)]
    head = next(rows.blocks(pair), None)
    values = [list(map(str, column[:_HEAD_ROWS])) for column in head.values] if head else [[], []]
    sizes = [
        (len(set(map(str.strip, column) if rows.untyped else column)), sum(map(len, column)))
        for column in values
    ]
    label = 0 if sizes[0] <= sizes[1] else 1
    why = "it has fewer distinct values" if sizes[0][0] != sizes[1][0] else "its values are shorter"
    progress.say(f"{rows.document.name}: column {pair[label]!r} is taken as the label, as {why}")
    return [pair[1 - label], pair[label]]


def _by_line(
    document: Document,
    parse: Callable[[str, Document, int], tuple[str, Any]],
    unlabelled: MissingLabels,
) -> Iterator[Batch]:
    """Read a label and an example from each line that is not blank."""
    for first, lines in numbered_lines(document):
        examples: list[Any] = []
        labels: list[str] = []
        numbers: list[int] = []
        for number, line in enumerate(lines, first):
            if not line or line.isspace():
                continue
            try:
                label, example = parse(line, document, number)
            except NoLabel as error:
                unlabelled.add(error, number)
                continue
            labels.append(label)
            examples.append(example)
            numbers.append(number)
        if examples:
            yield Batch(examples, labels, numbers=numbers)


def _line(line: str, document: Document, number: int) -> tuple[str, str]:
    """Part `label sentence`; a label alone has an empty text."""
    if line[0].isspace():
        raise NoLabel(f"{document.name}, line {number}: no label; the line begins with a space")
    label, *text = line.split(None, 1)
    return label, text[0] if text else ""


def _fasttext_line(line: str, document: Document, number: int) -> tuple[str, str]:
    """Part `__label__x text`."""
    label, *rest = line.split(None, 1)
    text = rest[0] if rest else ""
    if not label.startswith(MARK) or label == MARK:
        raise NoLabel(
            f"{document.name}, line {number}: no label; it must begin with {MARK} and a name"
        )
    if MARK in text and any(word.startswith(MARK) for word in text.split()):
        raise DataError(
            f"{document.name}, line {number}: several labels; a text can have one here, so "
            "choose one, or write a line for each"
        )
    return label.removeprefix(MARK), text


def _numbers_line(line: str, document: Document, number: int) -> tuple[str, Any]:
    """Part a label and the values of a series."""
    label, *cells = cells_of(line)
    if not label or not cells:
        raise (DataError if label else NoLabel)(
            f"{document.name}, line {number}: no {'values' if label else 'label'}; a line "
            "is a label and its values"
        )
    return label_of(label), parse_values(cells, f"{document.name}, line {number}")


def has_folders(path: Path) -> bool:
    """Return whether a directory contains directories."""
    return any(True for _ in _subfolders(path))


def read_folders(path: Path, encoding: str, strict: bool = False) -> Iterator[Batch]:
    """Read each file below a directory as a text, labelled by the directory right below `path`."""
    classes = sorted(_subfolders(path))
    if not classes:
        raise DataError(f"{path} has no folders in it; the format folders needs one for each class")
    loose = sum(entry.is_file() and not entry.name.startswith(".") for entry in os.scandir(path))
    if loose:
        progress.say(f"{path}: skipped {loose:,} file{'s' * (loose > 1)} next to the class folders")
    for label in classes:
        nested = sorted(_subfolders(path / label))
        if nested and not any(entry.is_file() for entry in (path / label).iterdir()):
            raise DataError(
                f"{path / label} has folders in it ({', '.join(nested[:3])}) and no files; give the folder "
                "whose folders are the classes"
            )
        yield from _folder(path / label, label, encoding, strict)


def _folder(path: Path, label: str, encoding: str, strict: bool) -> Iterator[Batch]:
    """Yield the texts of one class; skip and report files that are not text, or refuse them."""
    names = sorted(
        os.path.join(folder, name)
        for folder, _, files in os.walk(path)
        for name in files
        if not name.startswith(".") and "/." not in folder[len(str(path)) :].replace(os.sep, "/")
    )
    binary, misread = 0, []
    for start in range(0, len(names), _FILES):
        texts = []
        for name in names[start : start + _FILES]:
            try:
                text = _file_text(name, encoding, strict)
            except EncodingError as error:
                if strict:
                    raise
                misread.append((name, error))
                continue
            if text is None:
                binary += 1
            else:
                texts.append(text)
        yield Batch(texts, [label] * len(texts))
    report_skipped(str(path), binary, [name for name, _ in misread], encoding)
    if misread and len(misread) + binary == len(names):
        raise misread[0][1]
    if binary == len(names):
        raise DataError(f"there is no text file in the directory {path}")


def _file_text(name: str, encoding: str, strict: bool) -> str | None:
    """Return the text of a file; None if it is binary, which `strict` refuses.

    Most files are small and opening them dominates the cost, so the usual case opens a file once.
    """
    document = Document(name, Path(name), encoding=encoding)
    if encoding == "utf-8" and not name.endswith(COMPRESSED):
        try:
            with open(name, "rb") as file:
                data = file.read()
            if b"\0" not in data:
                return data.removeprefix(BOM_UTF8).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            pass  # reading it as a document raises the right error
    if not strict and encoding == "utf-8" and document.looks_binary():
        return None
    document.check_head()
    return next(document.documents())[1]


def _subfolders(path: Path) -> Iterator[str]:
    try:
        return iter(
            [
                entry.name
                for entry in os.scandir(path)
                if entry.is_dir() and not entry.name.startswith(".")
            ]
        )
    except OSError as error:
        raise DataError(f"cannot read the directory {path}: {error.strerror}") from None


# ---- text pairs

FLAGS = ("text_column=...", "pair_column=...")


def joined(block: Block, names: list[str]) -> list[Any]:
    """Return the pairs of some rows; the first two columns of the block have these names."""
    firsts, seconds = (texts_of(block, k, name) for k, name in enumerate(names))
    return list(zip(firsts, seconds))


def texts_of(block: Block, k: int, column: str) -> list[str]:
    """Return the values of the k-th column of a block, which must be texts; none is an empty one, as an
    empty cell of a CSV file is.
    """
    texts = ["" if text is None else text for text in block.values[k]]
    if set(map(type, texts)) - {str}:
        at = next(row for row, value in enumerate(texts) if not isinstance(value, str))
        raise columns.wrong_value(block.location(at), column, texts[at], "text")
    return texts


def choose_texts(
    name: str, kinds: Mapping[str, str], requested: tuple[str | None, ...]
) -> list[str]:
    """Choose the columns of the two texts."""
    chosen = [
        None if column is None else columns.check_name(name, kinds, column) for column in requested
    ]
    if None in chosen and len(kinds) == 2:
        remaining = [column for column in kinds if column not in chosen]
        chosen = [remaining.pop(0) if column is None else column for column in chosen]
    if len(kinds) == 1:
        raise DataError(
            f"{name} has one column; this model reads pairs of texts: two columns, which a tab separates"
        )
    if None in chosen:
        which = "the first text" if chosen[0] is None else "the second text"
        which = "the pair" if chosen == [None, None] else which
        flags = " and ".join(flag for flag, column in zip(FLAGS, chosen) if column is None)
        raise DataError(
            f"{name} has the columns {columns.listed(kinds)}; this model reads pairs of texts: say "
            f"which holds {which} with {flags}"
        )
    if chosen[0] == chosen[1]:
        raise DataError(f"{name}: the column {chosen[0]!r} cannot be both texts of a pair")
    return [column for column in chosen if column is not None]
