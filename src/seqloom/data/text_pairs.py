"""Pairs of texts in tables: a question and an answer, a premise and a hypothesis, two sentences that may mean the same.

Labelled pairs are read like labelled texts (`data/label_forms.py`); `read_pairs` reads those that have no label yet. Without a
name that says what it is, a file is JSON Lines if its first line begins with a brace, else TSV.

    >>> list(read_pairs(Document("stdin", data=b"is it so?\\tit is\\nwho?\\tnobody\\n")))
    [[('is it so?', 'it is'), ('who?', 'nobody')]]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.lines import line_blocks
from seqloom.data.rows import Block, open_rows, table_kind
from seqloom.errors import DataError

FLAGS = ("--text-column", "--pair-column")


def read_pairs(
    document: Document, text_column: str | None = None, pair_column: str | None = None
) -> Iterator[list[Any]]:
    """The pairs of a table, some thousands at a time; columns that are not named are the two that there are."""
    kind = table_kind(document.name)
    if kind is None:
        head = next(line_blocks(document, 1), b"").lstrip()
        kind = "jsonl" if head.startswith(b"{") else "tsv"
    rows = open_rows(document, kind, (text_column, pair_column), doubtful=False)
    if not rows.kinds:
        return
    chosen = _choose(document.name, rows.kinds, rows.asked)
    for block in rows.blocks(chosen):
        yield joined(block, chosen)


def joined(block: Block, names: list[str]) -> list[Any]:
    """The pairs of some rows, whose first two values are those of these columns."""
    firsts, seconds = (texts_of(block, k, name) for k, name in enumerate(names))
    return list(zip(firsts, seconds))


def texts_of(block: Block, k: int, column: str) -> list[str]:
    """The values of the k-th column that was asked for, which must be texts."""
    texts = block.values[k]
    if set(map(type, texts)) - {str}:
        at = next(row for row, value in enumerate(texts) if not isinstance(value, str))
        raise columns.wrong_value(block.place(at), column, texts[at], "text")
    return texts


def _choose(name: str, kinds: Mapping[str, str], asked: tuple[str | None, ...]) -> list[str]:
    """The columns of the two texts."""
    chosen = [
        None if column is None else columns.check_name(name, kinds, column) for column in asked
    ]
    if None in chosen and len(kinds) == 2:
        rest = [column for column in kinds if column not in chosen]
        chosen = [rest.pop(0) if column is None else column for column in chosen]
    if len(kinds) == 1:
        raise DataError(
            f"{name} has one column; this model reads pairs of texts: two columns, which a tab separates"
        )
    if None in chosen:
        which = (
            "the pair"
            if chosen == [None, None]
            else "the first text"
            if chosen[0] is None
            else "the second text"
        )
        flags = " and ".join(flag for flag, column in zip(FLAGS, chosen) if column is None)
        raise DataError(
            f"{name} has the columns {columns.listed(kinds)}; this model reads pairs of texts: say which holds "
            f"{which} with {flags}"
        )
    if chosen[0] == chosen[1]:
        raise DataError(f"{name}: the column {chosen[0]!r} cannot be both texts of a pair")
    return [column for column in chosen if column is not None]
