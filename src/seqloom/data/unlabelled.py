"""Examples without labels, row by row with their numbers: what `predict` reads.

Every line of a text and every row of a table is one, also where it has no text, so that answers can be
joined to rows. What comes through a pipe is there as soon as it has arrived. `write_table` writes the
answers as CSV, TSV or Parquet.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from seqloom import progress
from seqloom.data import columns
from seqloom.data.classification_forms import choose_texts
from seqloom.data.documents import Document, numbered_lines
from seqloom.data.pieces import COMPRESSED
from seqloom.data.rows import Block, Rows, open_rows, table_kind
from seqloom.data.sources import find_documents
from seqloom.data.tables import form_of_table
from seqloom.directories import writing_file
from seqloom.errors import ConfigError, DataError, MissingExtra

T = TypeVar("T")


class Row(NamedTuple):
    """An example without a label, and where it stands."""

    number: int  # the line of a text or of JSON Lines, else the row of data; from 1
    example: Any  # a text, or a tuple of texts; None: the table has none there
    file: str | None = None  # where there are several
    kept: tuple[Any, ...] = ()  # values of the columns that answers repeat

    @property
    def blank(self) -> bool:
        """Return whether there is nothing to answer: no text, or half of a pair is missing."""
        if isinstance(self.example, tuple):
            return None in self.example or not any(text.strip() for text in self.example)
        return not self.example or self.example.isspace()


class Unlabelled(NamedTuple):
    """Rows in runs; those of one run may be answered together, those of a file are one run, those of a
    pipe are as many as had arrived.
    """

    runs: Iterator[Iterator[Row]]
    n_bytes: int | None  # of all, where known

    def texts(self) -> Iterator[Iterator[str]]:
        """Yield the texts alone, in runs; where there is none it is empty."""
        return ((row.example or "" for row in run) for run in self.runs)


def after(runs: Iterable[Iterator[T]], done: int) -> Iterator[Iterator[T]]:
    """Yield the runs without the rows that were answered before."""
    left = done
    for run in runs:
        left -= sum(1 for _ in itertools.islice(run, left))
        yield run
    if left:
        raise DataError(
            f"the text has {done - left:,} rows, but {done:,} are answered already: it is another text"
        )


def read_unlabelled(
    paths: Sequence[str],
    reader: Callable[[Document], Iterator[list[Row]]],
    *,
    encoding: str,
    strict: bool,
    tables_only: bool = False,
) -> Unlabelled:
    """Read all rows of files, directories, patterns and pipes; none, or `-`, is standard input.

    `reader` opens a document and yields its rows, some thousand of a file at a time.
    """
    documents = [
        document
        for path in paths or ("-",)
        for document in find_documents(
            path, encoding, tables_only=tables_only, strict=strict, arriving=True
        )
    ]
    if all(
        document.size() == 0 or (document.pipe and not document.head()) for document in documents
    ):
        raise DataError(f"{documents[0].name} is empty; give a file with some text")
    groups: Iterator[list[Row]] = itertools.chain.from_iterable(
        [_named(document.name, reader(document)) for document in documents]
        if len(documents) > 1 or any(getattr(path, "of_several", False) for path in paths)
        else [reader(documents[0])]
    )
    sizes = [None if table_kind(one.name) else one.size() for one in documents]
    return Unlabelled(
        map(iter, groups)
        if any(document.pipe for document in documents)
        else iter([itertools.chain.from_iterable(groups)]),
        None if None in sizes else sum(size or 0 for size in sizes),
    )


def _named(name: str, groups: Iterator[list[Row]]) -> Iterator[list[Row]]:
    return ([row._replace(file=name) for row in group] for group in groups)


def read_lines(document: Document, keep: Sequence[str] = ()) -> Iterator[list[Row]]:
    """Yield the lines of a document, whatever its name."""
    if keep:
        raise DataError(f"{document.name} is read line by line and has no column {keep[0]!r}")
    return (
        [Row(number, line) for number, line in enumerate(lines, first)]
        for first, lines in numbered_lines(document)
    )


def read_texts(
    document: Document, column: str | None = None, keep: Sequence[str] = ()
) -> Iterator[list[Row]]:
    """Yield the lines of a text, or the texts of a table with the columns to keep.

    >>> table = Document("a.csv", data=b"id,text\\n7,to be\\n8,\\n")
    >>> [(row.number, row.example, row.kept) for row in next(read_texts(table, "text", ["id"]))]
    [(1, 'to be', ('7',)), (2, '', ('8',))]
    """
    kind = form_of_table(document, next((name for name in (column, *keep) if name), None))
    if kind is None:
        return read_lines(document)
    rows = _open(document, kind, (column, *keep))
    if not rows.kinds:
        raise DataError(f"{document.name} is empty; give a file with some text")
    text, *kept = rows.requested
    kinds = {name: kind for name, kind in rows.kinds.items() if text or name not in kept}
    chosen = columns.choose(document.name, kinds, text, untyped=rows.untyped)
    if text is None:
        progress.say(f"{document.name}: reading the column {chosen!r}")
    return _table(rows, [chosen], kept)


def read_pairs(
    document: Document,
    text_column: str | None = None,
    pair_column: str | None = None,
    keep: Sequence[str] = (),
) -> Iterator[list[Row]]:
    """Yield the pairs of a table, by default of its only two columns besides those to keep.

    Without a telling file extension, a file whose first line begins with a brace is JSON Lines, else TSV.

    >>> pairs = Document("stdin", data=b"is it so?\\tit is\\nwho?\\tnobody\\n")
    >>> [row.example for rows in read_pairs(pairs) for row in rows]
    [('is it so?', 'it is'), ('who?', 'nobody')]
    """
    kind = table_kind(document.name)
    if kind is None:
        brace = next(document.preview().chunks(), b"").lstrip()[:1] == b"{"
        kind = "jsonl" if brace else "tsv"
    rows = _open(document, kind, (text_column, pair_column, *keep), doubtful=False)
    if not rows.kinds:
        return iter(())
    kept = rows.requested[2:]
    kinds = {
        name: kind
        for name, kind in rows.kinds.items()
        if name not in kept or name in rows.requested[:2]
    }
    return _table(rows, choose_texts(document.name, kinds, rows.requested[:2]), kept)


def _open(document: Document, kind: str, requested: Sequence[str | None], **how: bool) -> Rows:
    """Open a table by what may be read before its rows."""
    rows: Any = open_rows(document.preview(), kind, requested, **how)
    return replace(rows, document=document)


def _table(rows: Rows, chosen: list[str], keep: Sequence[str | None]) -> Iterator[list[Row]]:
    """Yield the rows with the texts of the chosen columns, one or two, and the values of those to keep."""
    name, width = rows.document.name, len(chosen)
    kept = [columns.check_name(name, rows.kinds, str(column)) for column in keep]

    def read() -> Iterator[list[Row]]:
        halves = 0
        for block in rows.blocks([*chosen, *kept]):
            halves += block.halves
            texts = [_texts(block, k, column) for k, column in enumerate(chosen)]
            examples = texts[0] if width == 1 else zip(*texts)
            values = zip(*block.values[width:]) if kept else itertools.repeat(())
            yield [Row(*row) for row in zip(block.rows, examples, itertools.repeat(None), values)]
        if halves:
            progress.say(
                f"{name}: replaced {halves:,} lone surrogate{'s' * (halves > 1)} by U+FFFD"
            )

    return read()


def _texts(block: Block, k: int, column: str) -> list[str | None]:
    """Return the values of the k-th column of a block: texts, or None where there is none."""
    for at, value in enumerate(block.values[k]):
        if not isinstance(value, (str, type(None))):
            raise columns.wrong_value(block.location(at), column, value, "text")
    return block.values[k]


# ---- answers


def as_record(values: Mapping[str, Any]) -> str:
    """Return an answer as a line of JSON with plain columns: `probabilities.yes` for an entry of a
    mapping, and null for what JSON lacks.

    >>> as_record({"row": 1, "probabilities": {"no": 0.25, "yes": 0.75}})
    '{"row": 1, "probabilities.no": 0.25, "probabilities.yes": 0.75}'
    """
    record: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            record |= {f"{name}.{key}": entry for key, entry in value.items()}
        else:
            record[name] = value
    odd = [n for n, value in record.items() if isinstance(value, float) and not isfinite(value)]
    return json.dumps(record | dict.fromkeys(odd), ensure_ascii=False)


def write_table(records: Path, target: Path, kind: str) -> None:
    """Write records, a line of JSON each, as a table of that kind, completely or not at all."""
    with writing_file(target) as partial:
        if kind == "parquet":
            _write_parquet(records, partial)
            return
        with records.open(encoding="utf-8") as lines:
            names = list(dict.fromkeys(itertools.chain.from_iterable(map(json.loads, lines))))
        with (
            records.open(encoding="utf-8") as lines,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.writer(file, lineterminator="\n")
            for row in itertools.chain([dict(zip(names, names))], map(json.loads, lines)):
                cells = [_cell(row.get(name)) for name in names]
                if kind == "csv":
                    writer.writerow(cells)
                else:  # has no quotes
                    file.write("\t".join(" ".join(cell.split()) for cell in cells) + "\n")


def _cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _write_parquet(records: Path, target: Path) -> None:
    import polars as pl

    if not records.stat().st_size:
        pl.DataFrame({"row": pl.Series([], dtype=pl.Int64)}).write_parquet(target)
        return
    frame = pl.read_ndjson(records, infer_schema_length=None)
    frame.with_columns(pl.selectors.by_dtype(pl.Null).cast(pl.String)).write_parquet(target)


def check_table(target: str) -> str | None:
    """Return which kind of table a file is to be, by its name; refuse what could not be written."""
    kind = table_kind(target)
    if Path(target).suffix in COMPRESSED:
        raise ConfigError(f"{target}: answers are written uncompressed; leave out the ending")
    if kind == "parquet" and find_spec("polars") is None:
        raise MissingExtra(
            f"{target}: writing Parquet needs polars; pip install 'seqloom[parquet]'"
        )
    return kind
