"""The reader of rows against Python's csv and json on whole files, on right and on damaged input."""

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seqloom.data import documents
from seqloom.data.documents import Document
from seqloom.data.rows import Delimited, JsonLines, open_rows
from seqloom.data.tables import Table
from seqloom.errors import DataError
from tests.twins.rows import csv_texts, json_texts, tsv_texts

characters = st.text(
    st.characters(codec=None, exclude_categories=()), max_size=12
)  # halves of pairs among them
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), characters)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "0", "é\n", 'q"\\']), inner, max_size=3),
    ),
    max_leaves=8,
)
rows = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "c", "0"]), values, max_size=4), max_size=5
)
paths = st.lists(st.sampled_from(["a", "b", "0", "1", "é\n", 'q"\\']), min_size=1, max_size=3).map(
    tuple
)


def read(table: Table) -> list[tuple[int, str]] | int:
    """Rows and texts, or the line that is wrong."""
    found = []
    try:
        for piece in table.pieces():
            assert piece.data.endswith(b"\n")
            assert piece.ends[-1] == len(piece.data)
            low = 0
            for high, row in zip(piece.ends.tolist(), piece.rows.tolist()):
                found.append((row, piece.data[low:high].decode()))
                low = high
    except DataError as error:
        number = re.search(r"line (\d+)", str(error))
        assert number, error
        return int(number[1])
    return found


def closed(found):
    """As readers give it: each text ends with a newline."""
    return (
        found
        if isinstance(found, int)
        else [(row, text if text.endswith("\n") else text + "\n") for row, text in found]
    )


@contextmanager
def small_blocks(chunk: int, size: int = 1) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.data.documents.CHUNK", chunk)
        patch.setattr(documents.line_blocks, "__defaults__", (size,))
        yield


def damaged(data: bytes, at: int, byte: int) -> bytes:
    """A byte left out, or another in its place."""
    at %= len(data) + 1
    return data[:at] + (bytes([byte]) if byte < 128 else b"") + data[at + 1 :]


def json_table(data: bytes, steps: tuple[str, ...]) -> Table:
    column = ".".join(steps)
    return Table(
        JsonLines(Document("x.jsonl", data=data), {}, (column,), frozenset(), dict), column
    )


def delimited(data: bytes, names: list[str], column: str, separator: str) -> Table:
    return Table(
        Delimited(
            Document("x", data=data), {}, (column,), names, True, separator, separator == ","
        ),
        column,
    )


@given(
    rows=rows,
    steps=paths,
    ascii=st.booleans(),
    indent=st.sampled_from(["", " ", "\r", "\n", "\n \n"]),
)
@settings(max_examples=300, deadline=None)
def test_json(rows, steps, ascii, indent):
    lines = [json.dumps(row, ensure_ascii=ascii).encode("utf-8", "replace") for row in rows]
    data = b"".join(line + indent.encode() + b"\n" for line in lines)
    assert read(json_table(data, steps)) == closed(json_texts(data, steps))


@given(
    rows=rows,
    steps=paths,
    at=st.integers(0, 300),
    byte=st.one_of(st.integers(0, 128), st.sampled_from(b'"\\{}[],:0\n')),
)
@example(rows=[{"a": 0}], steps=("b",), at=6, byte=ord("-"))
@settings(max_examples=600, deadline=None)
def test_damaged_json(rows, steps, at, byte):
    data = damaged(b"".join(json.dumps(row).encode() + b"\n" for row in rows), at, byte)
    with small_blocks(
        1
    ):  # one line each, as a line that is no JSON is met before values of its block that are no text
        assert read(json_table(data, steps)) == closed(json_texts(data, steps))


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "-0",
        "01",
        "-",
        "1.",
        ".5",
        "1.5e",
        "1e5",
        "1E+5",
        "1e-",
        "-Infinity",
        "Infinity",
        "+1",
        "NaN",
        "-NaN",
        "nul",
        "nulls",
        "true",
        "tru",
        "True",
        "false",
        "[",
        "]",
        "[]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{}",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        "{,}",
        "{1:2}",
        '"\\x"',
        '"\\u12"',
        '"\\u12g4"',
        '"',
        '"\\',
        '"\t"',
        '"\x7f"',
        "'a'",
        "1 1",
        "",
        "[[[[]]]]",
        "[}",
        "{]",
        '{"a" 1}',
        '{"a"::1}',
    ],
)
def test_json_grammar(value):
    line = b'{"x": ' + value.encode() + b', "a": "found"}\n'
    assert read(json_table(b'{"a": "1"}\n' + line, ("a",))) == closed(
        json_texts(b'{"a": "1"}\n' + line, ("a",))
    )
    bare = value.encode() + b"\n"
    assert read(json_table(bare, ("a",))) == closed(json_texts(bare, ("a",)))


@given(st.lists(st.text("abc", max_size=30), min_size=1, max_size=30), st.integers(1, 200))
@settings(max_examples=50, deadline=None)
def test_json_blocks_do_not_matter(texts, size):
    data = b"".join(json.dumps({"a": text}).encode() + b"\n" for text in texts)
    with small_blocks(7, size):
        assert read(json_table(data, ("a",))) == closed(json_texts(data, ("a",)))


tables = st.lists(
    st.tuples(*[st.text(st.sampled_from('ab,;"\t\n\r é\0'), max_size=6)] * 3), max_size=6
)


@given(
    rows=tables,
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    size=st.sampled_from([1, 10, 1 << 20]),
)
@settings(max_examples=300, deadline=None)
def test_csv(rows, quoting, end, size):
    file = io.StringIO()
    csv.writer(file, quoting=quoting, lineterminator=end).writerows([("x", "text", "y"), *rows])
    data = file.getvalue().encode()
    with small_blocks(5, size):
        assert read(delimited(data, ["x", "text", "y"], "text", ",")) == closed(
            csv_texts(data, "text")
        )
        if quoting == csv.QUOTE_ALL:
            assert [text for _, text in csv_texts(data, "text")] == [
                row[1] for row in rows if row[1]
            ]


@given(text=st.text(st.sampled_from('ab,"\n\r é'), max_size=40), last=st.booleans())
@example(text='"a"b,c', last=True)
@example(text='a,"b', last=True)
@settings(max_examples=400, deadline=None)
def test_any_csv(text, last):
    data = b"x,y\n" + text.encode() + (b"\n" if last else b"")
    with small_blocks(3, 1):
        found, expected = read(delimited(data, ["x", "y"], "y", ",")), closed(csv_texts(data, "y"))
    if isinstance(expected, int) and isinstance(found, int):
        assert (
            found >= expected
        )  # quotes that are wrong are met before a ragged row of the same block
    else:
        assert found == expected


@given(
    text=st.text(st.sampled_from('ab\t\t"\n\r é'), max_size=40),
    last=st.booleans(),
    size=st.sampled_from([1, 10, 1 << 20]),
)
@settings(max_examples=300, deadline=None)
def test_any_tsv(text, last, size):
    data = b"x\ty\n" + text.encode() + (b"\n" if last else b"")
    with small_blocks(3, size):
        assert read(delimited(data, ["x", "y"], "y", "\t")) == closed(tsv_texts(data, "y"))


def test_several_columns_missing_and_empty():
    """What parallel text and series will read: null and absent are None, an empty text is one."""
    rows = open_rows(
        Document(
            "a.jsonl", data=b'{"de": "ja", "en": "yes", "t": 1.5}\n\n{"de": "", "en": null}\n'
        ),
        "jsonl",
    )
    assert rows.kinds == {"de": "text", "en": "text", "t": "number"}
    (block,) = rows.blocks(["en", "de", "t"])
    assert block.values == [["yes", None], ["ja", ""], [1.5, None]]
    assert (list(block.rows), block.location(1)) == ([1, 3], "a.jsonl, line 3")
    rows = open_rows(
        Document("a.csv", data=b'date,x\n2024-01-05,"1\n"\n\n2024-01-06,\n'), "csv", ["2"]
    )
    assert (rows.kinds, rows.requested) == ({"date": "number", "x": "number"}, ("x",))
    (block,) = rows.blocks(["x", "date"])
    assert block.values == [["1\n", ""], ["2024-01-05", "2024-01-06"]]
    assert (list(block.rows), block.location(1)) == ([1, 2], "a.csv, line 5")


@pytest.mark.parametrize(("kind", "separator"), [("csv", ","), ("tsv", "\t")])
def test_rows_of_too_many_cells(kind, separator):
    """A small packed file can hold millions of separators, of which nothing may be made."""
    wide = "x".join(separator * 99_999).encode()
    assert len(open_rows(Document("a", data=wide + b"\n" + wide), kind).kinds) == 100_000
    data = b"\n" + wide + separator.encode() + b"\n" + wide
    with pytest.raises(DataError, match=r"^a, line 2: 100,001 fields; a row can have 100,000$"):
        open_rows(Document("a", data=data), kind)


def test_rows_that_are_lists():
    """All entries are columns; of a list inside, the first."""
    rows = open_rows(Document("a.jsonl", data=b'["good", 1]\n["bad", 0, ["x", "y"]]\n'), "jsonl")
    assert rows.kinds == {"0": "text", "1": "number", "2": "list", "2.0": "text"}
