"""How the texts of commands are read: whole, or row by row as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seqloom.config import Config, option

if TYPE_CHECKING:
    from seqloom.data.unlabelled import Row, Unlabelled

# Texts that are predicted together, and the most of their characters.
BATCH, MAX_CHARACTERS = 10_000, 1 << 22


def strict_option() -> Any:
    """Return the --strict option of every task."""
    return option(
        False,
        "Refuse binary and badly encoded files in a directory or pattern instead of skipping them.",
        negatable=False,
    )


@dataclass(frozen=True, kw_only=True)
class TextReading(Config):
    """How text is read."""

    encoding: str = option("utf-8", "Encoding of the text files.")
    column: str | None = option(
        None,
        "Tables (.csv, .tsv, .jsonl, .parquet): the column to read, or a path such as "
        "messages.0.content; each row is a document.",
        metavar="NAME",
    )
    strict: bool = strict_option()


def read_text(paths: tuple[str, ...], reading: TextReading) -> Any:
    """Read the text of these files; none, or `-`, is standard input."""
    from seqloom.data.corpus import open_corpus

    _say_if_typed(paths)
    sources = list(paths) or ["-"]
    return open_corpus(
        sources if len(sources) > 1 else sources[0],
        encoding=reading.encoding,
        column=reading.column,
        strict=reading.strict,
    )


def text_of(argument: str) -> str:
    """Return the text that an argument is, or that is in the file which it names; of `-` standard input."""
    import glob

    from seqloom.text.file_names import looks_like_file

    if argument != "-" and not looks_like_file(argument) and not glob.glob(argument):
        return argument
    corpus = read_text((argument,), TextReading())
    return "".join(chunk.decode() for part in corpus.documents for chunk in part.chunks())


def _say_if_typed(paths: tuple[str, ...]) -> None:
    import sys

    from seqloom.progress import say

    if (not paths or "-" in paths) and sys.stdin.isatty():
        say("reading standard input; end it with Ctrl-D")


def text_rows(
    paths: tuple[str, ...], reading: TextReading, keep: tuple[str, ...] = ()
) -> Unlabelled:
    """Read texts one by one: lines, or the rows of tables with the columns to keep."""
    from seqloom.data.unlabelled import read_texts

    return rows_by(
        lambda document: read_texts(document, reading.column, keep),
        paths,
        reading,
        tables_only=reading.column is not None,
    )


def rows_by(
    reader: Callable[[Any], Any], paths: tuple[str, ...], reading: TextReading, **which: bool
) -> Unlabelled:
    """Read the rows of documents by a reader."""
    from seqloom.data.unlabelled import read_unlabelled

    _say_if_typed(paths)
    return read_unlabelled(paths, reader, encoding=reading.encoding, strict=reading.strict, **which)


def text_batches(paths: tuple[str, ...], reading: TextReading) -> Iterator[list[str]]:
    """Yield all texts in batches; of a pipe those that have arrived."""
    rows = text_rows(paths, reading)
    return ([row.example or "" for row in batch] for batch in batched(rows.runs, rows.n_bytes))


def batched(runs: Iterable[Iterable[Row]], n_bytes: int | None) -> Iterator[list[Row]]:
    """Yield batches of the rows of each run, so small that memory does not depend on how many there
    are or how long; with progress over all of them.
    """
    from seqloom.batching import portions
    from seqloom.progress import task

    def size(row: Row, length: Callable[[str], int] = len) -> int:
        if isinstance(row.example, str):
            return length(row.example)
        return sum(length(text) for text in row.example or () if text is not None)

    def n_bytes_of(text: str) -> int:
        return len(text) + 1 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) + 1

    done = 0
    with task("predicting", n_bytes, "bytes") as bar:
        for run in runs:
            for batch in portions(run, MAX_CHARACTERS, BATCH, size):
                yield batch
                done += len(batch)
                bar.note(f"{done:,} rows")
                bar.advance(sum(size(row, n_bytes_of) for row in batch))


def read_held_out_text(path: str, reading: TextReading) -> Any:
    """Read the text of one file; the column applies to it only where it is a table."""
    from dataclasses import replace

    from seqloom.data.tables import table_kind

    return read_text((path,), reading if table_kind(path) else replace(reading, column=None))


def two_texts(value: Any, names: tuple[str, str]) -> list[str] | None:
    """Return the two texts that an input of a request is, a list or an object with these names; None
    if it is something else.

    >>> two_texts({"text": "a", "pair": "b"}, ("text", "pair")), two_texts(["a", 1], ("text", "pair"))
    (['a', 'b'], None)
    """
    some: Any = [value.get(name) for name in names] if isinstance(value, dict) else value
    good = isinstance(some, list) and len(some) == 2 and all(isinstance(one, str) for one in some)
    return some if good else None
