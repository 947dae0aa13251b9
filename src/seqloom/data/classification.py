"""Texts with one label each, from files of many forms or from memory.

`read_labelled` takes TSV, CSV, JSON Lines, Parquet, `label sentence` lines, fastText's `__label__`
lines and one folder per class; it recognises most of these by itself. `stream_labelled` yields the
same rows in parts, for data that does not fit into memory. A row without a label is an error that
names file and line, or skipped; an empty text stays. How many there are is reported.

    >>> data = Labelled.of([("a fine film", "good"), ("dull", "bad")])
    >>> data.classes, len(data), data.part([1]).texts
    (['bad', 'good'], 2, ['dull'])
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import index
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.config import parse_size
from seqloom.data.catalogue import PREFIX, full_name
from seqloom.data.classification_forms import (
    Batch,
    Choice,
    Form,
    check_form,
    has_folders,
    read_folders,
    read_rows,
    unlike_places,
)
from seqloom.data.documents import check_encoding
from seqloom.data.examples import (
    MissingLabels,
    UnlabelledChoice,
    check_examples,
    digest,
    digest_examples,
    is_column,
    is_frame,
    is_pair,
    refuse_name,
    text_and_label,
    values,
)
from seqloom.data.kept import Gathering, taken
from seqloom.data.showing import labelled_line
from seqloom.data.sources import find_documents, paths_of
from seqloom.errors import ConfigError, DataError, quoted, suggest_known

Source = str | Path | Iterable[str | Path]
Label = str | int | bool
MAX_LABEL = 2**63  # labels that are whole numbers must fit into int64


@dataclass(frozen=True)
class Labelled:
    """Examples and their labels, of equal length. An example is a text or, for models that accept it,
    a pair of texts (a tuple) or an array of numbers. A label is a name, a whole number or a boolean, or a
    tuple of those where an example may have several (or none). All labels have one type; those of files
    are names. `columns`: further values of each example by name, such as its source; no model learns from
    them, but results can be grouped by them.
    """

    examples: Any  # a list; of many texts `data.kept.KeptTexts`
    labels: list[Any]
    name: str = "texts"
    columns: Mapping[str, list[str]] = field(default_factory=dict)
    # of the rows in their file; empty: from 1 on
    numbers: Sequence[int] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(
        cls,
        data: Any,
        labels: Any = None,
        *,
        name: str = "texts",
        columns: Mapping[str, Any] | None = None,
    ) -> Labelled:
        """Build from examples and labels (lists, arrays, columns), a tuple of the two, a list of
        (example, label), or a frame with such columns. A label that is a list, tuple or set stands
        for several labels. `columns`: further values of the examples.
        """
        if labels is not None:
            examples, labels = values(data, name), _label_values(labels, name)
        elif is_frame(data):
            examples, labels = text_and_label(data)
        elif isinstance(data, tuple) and len(data) == 2 and all(map(is_column, data)):
            examples, labels = values(data[0], name), _label_values(data[1], name)
        else:
            pairs = values(data, name)
            for row, pair in enumerate(pairs, 1):
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    raise DataError(
                        f"row {row} of {name} must be a pair of text and label; got {pair!r:.60}"
                    )
            examples, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if len(examples) != len(labels):
            raise DataError(f"{name} has {len(examples)} texts and {len(labels)} labels")
        if not examples:
            raise DataError(f"{name} has no texts; give some")
        several = any(isinstance(label, (list, tuple, set, frozenset)) for label in labels)
        parse = _labels if several else _label
        extra = {
            str(key): list(map(str, values(column, f"column {key}")))
            for key, column in (columns or {}).items()
        }
        if wrong := [key for key, column in extra.items() if len(column) != len(examples)]:
            raise DataError(
                f"{name} has {len(examples)} texts, but column {quoted(wrong[0])} "
                f"{len(extra[wrong[0]])} values"
            )
        read_labels = [parse(label, row, name) for row, label in enumerate(labels, 1)]
        labelled = cls(check_examples(examples, name), read_labels, name, extra)
        labelled._check_types()
        return labelled

    def _check_types(self) -> None:
        kinds = [
            (row, label)
            for row, labels in enumerate(self.labels, 1)
            for label in (labels if isinstance(labels, tuple) else (labels,))
        ]
        for row, label in kinds:
            if type(label) is not type(kinds[0][1]):
                raise DataError(
                    f"row {row} of {self.name}: the label is {label!r:.60}, that of row {kinds[0][0]} is "
                    f"{kinds[0][1]!r:.60}; all must be text, all whole numbers, or all true and false"
                )

    __repr__ = labelled_line

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def texts(self) -> Any:
        """Return the examples, for models that read texts."""
        if self.pairs:
            raise DataError(
                f"the examples of {self.name} are pairs of texts; this model reads single texts"
            )
        if not isinstance(self.examples[0] if len(self) else "", str):
            raise DataError(
                f"the examples of {self.name} are arrays of numbers; this model reads texts"
            )
        return self.examples

    @property
    def pairs(self) -> bool:
        """Return whether the examples are pairs of texts."""
        return len(self.examples) > 0 and is_pair(self.examples[0])

    @property
    def multi_label(self) -> bool:
        """Return whether an example may have several labels."""
        return bool(self.labels) and isinstance(self.labels[0], tuple)

    @cached_property
    def classes(self) -> list[Any]:
        """Return the distinct labels, sorted."""
        return sorted(set(chain.from_iterable(self.labels) if self.multi_label else self.labels))

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of all examples and labels."""
        hasher = hashlib.sha256(digest_examples(self.examples))
        if self.multi_label:
            hasher.update(np.fromiter(map(len, self.labels), "<i8", len(self)).tobytes())
        hasher.update(
            digest(
                list(
                    map(str, chain.from_iterable(self.labels) if self.multi_label else self.labels)
                )
            )
        )
        return hasher.hexdigest()

    def like(self, classes: Sequence[Label], *, strict: bool = True) -> Labelled:
        """Convert labels to the type of `classes` (a file has text); `strict` refuses others."""
        if not classes or not self.classes or type(self.classes[0]) is type(classes[0]):
            return self
        converted = {label: _converted(label, classes) for label in self.classes}
        unconvertible = [label for label, value in converted.items() if value is None]
        if unconvertible and strict:
            raise DataError(
                f"{self.name} has the label {quoted(unconvertible[0])}, but the model learned labels such as "
                f"{quoted(classes[0])}; give labels of the same type"
            )
        converted |= {label: label for label in unconvertible}
        several = self.multi_label
        return replace(
            self,
            labels=[
                tuple(converted[single] for single in label) if several else converted[label]
                for label in self.labels
            ],
        )

    def part(self, rows: Sequence[int] | np.ndarray | slice) -> Labelled:
        """Return some of the rows, by number, mask or slice."""
        chosen = np.arange(len(self))[rows].tolist()
        return replace(
            self,
            examples=taken(self.examples, chosen),
            labels=[self.labels[i] for i in chosen],
            columns={name: [column[i] for i in chosen] for name, column in self.columns.items()},
            numbers=[self.numbers[i] for i in chosen] if self.numbers else (),
        )


def read_labelled(
    source: Source,
    *,
    form: Form = "auto",
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    columns: Sequence[str] = (),
    encoding: str = "utf-8",
    strict: bool = False,
    unlabelled: UnlabelledChoice = "refuse",
    memory: int | str | None = None,
) -> Labelled:
    """Read labelled texts from a file, several files, a directory, a pattern, or `-` for standard
    input.

    Forms: `tsv`, `csv`, `jsonl` and `parquet`, where columns are found by usual names or named
    (without a header by number, from 1); `lines`, `label sentence`; `fasttext`, `__label__x text`;
    `folders`, a directory a class. `auto` goes by the end of the name and by the first lines.
    `pair_column`: the column of the second texts, where an example is a pair of texts; `columns`:
    further columns of a table to keep, as text. Files may be compressed (.gz, .xz, .zst). In a
    directory or pattern, binary and badly encoded files are skipped and reported; `strict` refuses
    them. `unlabelled`: whether rows without a label are refused, or skipped and counted. `memory`: bytes
    of texts (or "800M") beyond which they are in a temporary file.
    """
    names = tuple(dict.fromkeys(columns))
    choice = Choice(text_column, label_column, pair_column, names)
    name, batches = _open(source, form, choice, encoding, strict, unlabelled)
    gathering, labels, numbers = Gathering(parse_size(memory)), list[str](), array("q")
    extra: dict[str, list[str]] = {column: [] for column in names}
    for batch in batches:
        gathering.extend(batch.texts)
        labels += map(intern, batch.labels)  # each label is stored once
        numbers.extend(batch.numbers)
        for column, cells in zip(names, batch.more):
            extra[column] += cells
    return Labelled(gathering.texts, labels, name, extra, unlike_places(numbers, len(labels)))


def stream_labelled(
    source: Source,
    *,
    form: Form = "auto",
    text_column: str | None = None,
    label_column: str | None = None,
    encoding: str = "utf-8",
    strict: bool = False,
    unlabelled: UnlabelledChoice = "refuse",
    size: int = 50_000,
) -> Iterator[Labelled]:
    """Yield the rows of `read_labelled` in the same order, `size` at a time, perhaps fewer at the end."""
    if size < 1:
        raise ConfigError(f"size must be at least 1; got {size}")
    choice = Choice(text_column, label_column)
    return _parts(*_open(source, form, choice, encoding, strict, unlabelled), size)


def as_labelled(data: Any, labels: Any = None, *, columns: Sequence[str] = ()) -> Labelled:
    """Convert what `fit` and `evaluate` of a classifier accept: a Labelled, a Path, texts and
    labels, a list of (text, label), or a frame; texts and labels are lists, generators, arrays
    or columns. `columns`: further columns that the data must have.
    """
    if isinstance(data, str):
        refuse_name(data, "seqloom.read_labelled")
    if isinstance(data, (Labelled, Path)):
        if labels is not None:
            raise DataError(f"a {type(data).__name__} has labels of its own; leave labels out")
        return (
            _check_columns(data, columns)
            if isinstance(data, Labelled)
            else read_labelled(data, columns=columns)
        )
    if isinstance(data, (str, bytes, dict)) or not (isinstance(data, Iterable) or is_frame(data)):
        raise DataError(
            f"cannot read labels from a {type(data).__name__}; give texts and labels, a list of "
            f"(text, label), a "
            "Path, or what read_labelled returns"
        )
    if labels is None and is_frame(data):
        return Labelled.of(
            data,
            columns={
                name: data[_check_column(list(data.columns), name, "the frame")] for name in columns
            },
        )
    return _check_columns(Labelled.of(data, labels), columns)


def _check_columns(data: Labelled, columns: Sequence[str]) -> Labelled:
    for name in columns:
        _check_column(list(data.columns), name, data.name)
    return data


def _check_column(names: Sequence[Any], name: str, of: str) -> str:
    if name not in names:
        hint = (
            suggest_known(name, map(str, names))
            if names
            else "; give it as Labelled.of(texts, labels, columns=...)"
        )
        raise DataError(f"{of} has no column {quoted(name)}{hint}")
    return name


def dataset_name(source: Source, documents: Sequence[str]) -> str:
    """Return the name of the data in results: that of its file, or the number of files."""
    if not isinstance(source, (str, Path)):
        return documents[0] if len(documents) == 1 else f"{len(documents)} files"
    first = str(source)
    if first == "-":
        return "stdin"
    return full_name(first) if first.startswith(PREFIX) else Path(first).name or first


def _open(
    source: Source,
    form: Form,
    choice: Choice,
    encoding: str,
    strict: bool,
    unlabelled: UnlabelledChoice,
) -> tuple[str, Iterator[Batch]]:
    """Return the name of the data and its rows; raise the errors that are known before reading."""
    check_form(form)
    encoding = check_encoding(encoding)
    opened: list[tuple[str, Iterator[Batch], MissingLabels]] = []
    for path in paths_of(source, "read_labelled"):
        folder = Path(path).expanduser()
        if form == "folders" and not folder.is_dir():
            raise DataError(
                f"{path} is not a directory; the format folders needs one with a folder for each class"
            )
        if (
            folder.is_dir()
            and form in ("auto", "folders")
            and (form == "folders" or has_folders(folder))
        ):
            if choice.named():
                raise DataError(
                    f"{path} holds folders per class and has no columns; leave out the column names"
                )
            rows = read_folders(folder, encoding, strict)
            opened.append((str(path), rows, MissingLabels(unlabelled)))
            continue
        for document in find_documents(path, encoding, strict=strict):
            skipped = MissingLabels(unlabelled)
            opened.append((document.name, read_rows(document, form, choice, skipped), skipped))
    if not opened:
        raise DataError("the list of files is empty; name at least one")
    return dataset_name(source, [name for name, *_ in opened]), _all_rows(opened)


def _all_rows(opened: list[tuple[str, Iterator[Batch], MissingLabels]]) -> Iterator[Batch]:
    for name, batches, unlabelled in opened:
        rows = n_texts = empty = 0
        for batch in batches:
            texts = [
                text
                for example in batch.texts
                for text in (example if is_pair(example) else (example,))
                if isinstance(text, str)
            ]
            rows, n_texts = rows + len(batch.texts), n_texts + len(texts)
            empty += sum(not text.strip() for text in texts)
            yield batch
        unlabelled.report(name, rows)
        if not rows:
            raise DataError(f"{name} has no labelled text; give a file with some")
        if empty:
            are = "is" if empty == 1 else "are"
            progress.say(f"{name}: {empty:,} of {n_texts:,} texts {are} empty")


def _parts(name: str, batches: Iterator[Batch], size: int) -> Iterator[Labelled]:
    texts: list[str] = []
    labels: list[str] = []
    for batch in batches:
        texts += batch.texts
        labels += batch.labels
        n_complete = len(texts) - len(texts) % size
        for start in range(0, n_complete, size):
            yield Labelled(texts[start : start + size], labels[start : start + size], name)
        texts, labels = texts[n_complete:], labels[n_complete:]
    if texts:
        yield Labelled(texts, labels, name)


def _label_values(labels: Any, name: str) -> list[Any]:
    if getattr(labels, "ndim", 1) != 1:
        raise DataError(
            f"{name} has labels in {labels.ndim} dimensions; give a list of names, or of lists of names "
            "where an example has several"
        )
    return values(labels, f"the labels of {name}")


def _labels(value: Any, row: int, name: str) -> tuple[Label, ...]:
    """Return several labels in a fixed order."""
    single = not isinstance(value, (list, tuple, set, frozenset))
    different = {_label(label, row, name) for label in ([value] if single else value)}
    return tuple(sorted(different, key=lambda label: (type(label).__name__, label)))


def _label(value: Any, row: int, name: str) -> Label:
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is bool:
        return value
    if isinstance(value, str) and value:
        return str(value)
    with suppress(TypeError):
        if -MAX_LABEL <= index(value) < MAX_LABEL:
            return index(value)
    raise DataError(
        f"row {row} of {name}: the label is {quoted(value)}; it must be non-empty text, a whole number, "
        "or true or false"
    )


def _converted(label: Label, classes: Sequence[Label]) -> Label | None:
    """Convert a label to the type of these classes; return None if that is impossible."""
    kind, text = type(classes[0]), str(label)
    if kind is str:  # JSON has true for True
        return text.lower() if text.lower() in classes and text not in classes else text
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower())
    whole = len(text) < 20 and text.removeprefix("-").isdecimal() and str(int(text)) == text
    return int(text) if whole else None
