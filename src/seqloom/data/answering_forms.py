"""The forms of questions on contexts: SQuAD's JSON (Rajpurkar et al. 2016, 2018), JSON Lines and tables.

A row of a table has a question, a context and, where it is known, an answer: a text, several, or what the
`datasets` library writes (`text` and `answer_start` side by side). An empty answer means that the context
has none. Where an answer stands may be left out or wrong: it is then looked for.

    >>> place("to be or not to be", "be", None), place("to be or not to be", "be", 15)
    (3, 16)
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.rows import open_rows, table_kind
from seqloom.data.unlabelled import Row
from seqloom.errors import DataError, quoted

NAMES = {
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "document", "text"),
    "answer": ("answers", "answer", "target"),
}
START = "answer_start"


class Span(NamedTuple):
    """An answer, and the character of the context where it begins; None: it is not in there."""

    text: str
    start: int | None


class Asked(NamedTuple):
    """A question on a context; `answers` is empty where there is none, and None where it is not said."""

    question: str
    context: str
    answers: tuple[Span, ...] | None
    number: int = 0
    place: str = ""  # for messages
    kept: tuple[Any, ...] = ()


Columns = dict[str, str | None]  # of question, context and answer, as they were given


def place(context: str, text: str, start: int | None) -> int | None:
    """Return where a text stands in a context: at `start`, else the nearest to it, else the first."""
    if not text:
        return None
    if start is not None and start >= 0 and context.startswith(text, start):
        return start
    return min(_occurrences(context, text), key=lambda k: abs(k - (start or 0)), default=None)


def _occurrences(context: str, text: str) -> Iterator[int]:
    at = context.find(text)
    while at >= 0:
        yield at
        at = context.find(text, at + 1)


def spans_of(value: Any, start: Any, context: str, location: str) -> tuple[Span, ...]:
    """Return the answers that a value stands for; those without a text are none."""
    if isinstance(value, dict):
        if "text" not in value:
            raise DataError(f"{location}: an answer without its text; give text and {START}")
        return spans_of(value["text"], value.get(START, start), context, location)
    if isinstance(value, (list, tuple)):
        starts = start if isinstance(start, (list, tuple)) else [start] * len(value)
        if len(starts) != len(value):
            raise DataError(f"{location}: {len(value)} answers, but {len(starts)} times {START}")
        return tuple(
            span for one, at in zip(value, starts) for span in spans_of(one, at, context, location)
        )
    if value is None or value == "":
        return ()
    if not isinstance(value, str):
        raise columns.wrong_value(location, "answer", value, "text")
    return (Span(value, place(context, value, _number(start, location))),)


def _number(start: Any, location: str) -> int | None:
    if start is None or start == "" or isinstance(start, bool):
        return None
    try:
        return int(start)
    except (TypeError, ValueError):
        raise DataError(f"{location}: {START} {quoted(start)} is not a whole number") from None


# ---- files


def read_asked(
    document: Document, chosen: Columns, keep: Sequence[str] = ()
) -> Iterator[list[Asked]]:
    """Yield the questions of a file, some at a time."""
    kind = table_kind(document.name)
    if kind is not None:
        return _table(document, kind, chosen, keep)
    beginning = next(document.preview().chunks(), b"").lstrip()
    if beginning[:1] not in (b"{", b"["):
        return _table(document, "tsv", chosen, keep)
    if _is_row(beginning.partition(b"\n")[0]):
        return _table(document, "jsonl", chosen, keep)
    return iter([list(_whole(document, keep))])


def rows_of(document: Document, chosen: Columns, keep: Sequence[str]) -> Iterator[list[Row]]:
    """Yield the questions of a file as rows that `predict` answers."""
    return (
        [Row(one.number, (one.question, one.context), None, one.kept) for one in group]
        for group in read_asked(document, chosen, keep)
    )


def _is_row(line: bytes) -> bool:
    """Return whether a first line is an object by itself, and no file of SQuAD in one line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "data" not in value


def _whole(document: Document, keep: Sequence[str]) -> Iterator[Asked]:
    """Yield the questions of a JSON file: SQuAD's, or a list of objects."""
    try:
        value = json.loads(b"".join(document.chunks()))
    except RecursionError:
        raise DataError(f"{document.name}: nested too deeply") from None
    except ValueError as error:
        raise DataError(f"{document.name}: not valid JSON ({error})") from None
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        objects = _squad(document.name, value["data"])
    elif isinstance(value, list):
        objects = iter(value)
    else:
        raise DataError(
            f'{document.name}: neither SQuAD\'s form, {{"data": [{{"paragraphs": [...]}}]}}, nor a list '
            "of objects with question and context"
        )
    for number, one in enumerate(objects, 1):
        yield of_object(one, number, f"{document.name}, question {number}", keep)


def _squad(name: str, articles: list[Any]) -> Iterator[dict[str, Any]]:
    for article in articles:
        for paragraph in _list(article, "paragraphs", name):
            for question in _list(paragraph, "qas", name):
                context = paragraph.get("context")
                answers = question.get("answers")
                if question.get("is_impossible"):
                    answers = []
                yield {**question, "context": context, "answers": answers}


def _list(value: Any, key: str, name: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DataError(f"{name}: in SQuAD's form there must be a list of objects {key!r}")
    return found


def of_object(value: Any, number: int, location: str, keep: Sequence[str] = ()) -> Asked:
    """Read one question from an object with the usual keys."""
    if not isinstance(value, dict):
        raise DataError(f"{location}: not an object with question and context")
    texts: list[str] = []
    for what in ("question", "context"):
        key = next((name for name in NAMES[what] if name in value), what)
        text = value.get(key)
        if not isinstance(text, str):
            raise DataError(f"{location}: there is no text {key!r}")
        texts.append(text)
    answer = next((name for name in NAMES["answer"] if name in value), None)
    answers: tuple[Span, ...] | None = None
    if value.get("is_impossible"):
        answers = ()
    elif answer is not None and value[answer] is not None:
        answers = spans_of(value[answer], value.get(START), texts[1], location)
    kept = tuple(value.get(name) for name in keep)
    return Asked(texts[0], texts[1], answers, number, location, kept)


def _table(
    document: Document, kind: str, chosen: Columns, keep: Sequence[str]
) -> Iterator[list[Asked]]:
    question, context, answer, start = _choose(document, kind, chosen)
    requested = [name for name in (question, context, answer, start) if name is not None]
    opened: Any = open_rows(document.preview(), kind, [*requested, *keep], doubtful=False)
    rows = replace(opened, document=document)
    if not rows.kinds:
        return iter(())
    names = [columns.check_name(document.name, rows.kinds, name) for name in rows.requested]

    def read() -> Iterator[list[Asked]]:
        for block in rows.blocks(names):
            group = []
            for k, values in enumerate(zip(*block.values)):
                location = block.location(k)
                texts = [
                    _text(value, name, location) for value, name in zip(values, (question, context))
                ]
                answers = None
                if answer is not None:
                    at = values[3] if start is not None else None
                    answers = spans_of(values[2], at, texts[1], location)
                kept = values[len(requested) :]
                group.append(Asked(texts[0], texts[1], answers, block.rows[k], location, kept))
            yield group

    return read()


def _text(value: Any, column: str, location: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise columns.wrong_value(location, column, value, "text")
    return value


def _choose(
    document: Document, kind: str, chosen: Columns
) -> tuple[str, str, str | None, str | None]:
    """Return the columns of question, context, answer and its beginning; the last two may be missing."""
    names = _names(document, kind)
    lower = {name.lower(): name for name in reversed(names)}
    found = {
        what: chosen.get(what) or next((lower[one] for one in usual if one in lower), None)
        for what, usual in NAMES.items()
    }
    if found["question"] is None and found["context"] is None and kind in ("csv", "tsv"):
        if len(names) not in (2, 3):
            raise DataError(
                f"{document.name} has {len(names)} column{'s' * (len(names) != 1)}; there must be a "
                "question and a context, which a tab or a comma separates, and perhaps an answer"
            )
        return "1", "2", "3" if len(names) == 3 else None, None
    for what in ("question", "context"):
        if found[what] is None:
            raise DataError(
                f"{document.name} has the columns {columns.listed(names)}; say which holds the "
                f"{what} with --{what}-column ({what}_column=...)"
            )
    question, context = str(found["question"]), str(found["context"])
    return question, context, found["answer"], lower.get(START) if found["answer"] else None


def _names(document: Document, kind: str) -> list[str]:
    """Return the names of the columns; of CSV and TSV the cells of the first line."""
    if kind not in ("csv", "tsv"):
        return list(open_rows(document.preview(), kind).kinds)
    head = next(document.preview().chunks(), b"").lstrip(b"\r\n").decode("utf-8", "ignore")
    line = head.replace("\r", "\n").partition("\n")[0]
    if kind == "tsv":
        return [cell.strip() for cell in line.split("\t")]
    separator = ";" if "," not in line and ";" in line else ","
    try:
        return [
            cell.strip() for cell in next(csv.reader(io.StringIO(line), delimiter=separator), [])
        ]
    except csv.Error:
        return []
