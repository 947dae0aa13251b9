"""Text columns of tables as corpora: formats, columns, rows as documents, and what is refused."""

import csv as csv_module
import gzip
import io
import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from seqloom.data import documents, tables
from seqloom.data.classification import read_labelled
from seqloom.data.corpus import Corpus, overlap, read
from seqloom.data.encode import encode_corpus
from seqloom.errors import DataError, MissingExtra
from seqloom.text.boundaries import cut_before_space
from seqloom.text.tokenizer import Tokenizer

ROWS = [
    ("one", "first line\nsecond line"),
    ("two", 'a "quoted" word, and a comma'),
    ("three", "שלום עולם, مرحبا"),
    ("four", ""),
    ("five", "closed already\n"),
    ("six", "😀 naïve 第三行\ttab"),
]
TEXT = "".join(text if text.endswith("\n") else text + "\n" for _, text in ROWS if text)


def jsonl(rows=ROWS) -> bytes:
    return b"".join(
        json.dumps({"id": name, "n": 1, "body": text}).encode() + b"\n" for name, text in rows
    )


def csv(rows=ROWS, end: str = "\r\n") -> bytes:
    lines = ["id,n,body"] + [f'{name},1,"' + text.replace('"', '""') + '"' for name, text in rows]
    return "".join(line + end for line in lines).encode()


def parquet(rows=ROWS, **options) -> bytes:
    polars = pytest.importorskip("polars")
    file = io.BytesIO()
    polars.DataFrame(
        {
            "id": [name for name, _ in rows],
            "n": [1] * len(rows),
            "body": [text or None for _, text in rows],
        }
    ).write_parquet(file, **options)
    return file.getvalue()


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


FORMATS = {"a.jsonl": jsonl, "a.ndjson": jsonl, "a.csv": csv, "a.parquet": parquet}
PACKED = {
    "a.jsonl.gz": lambda: gzip.compress(jsonl()),
    "a.csv.gz": lambda: gzip.compress(csv()),
    "a.jsonl.zst": lambda: pytest.importorskip("zstandard").ZstdCompressor().compress(jsonl()),
}


# ---- a table is the text of its column, and knows its rows


@pytest.mark.parametrize("name", [*FORMATS, *PACKED])
def test_column(tmp_path: Path, name: str) -> None:
    corpus = read(write(tmp_path / name, (FORMATS | PACKED)[name]()), column="body")
    assert corpus.text() == corpus.text() == TEXT
    assert list(corpus.lines()) == TEXT.split("\n")[:-1]
    assert [text.rstrip("\n") for _, text in corpus.each_document()] == [
        t.rstrip("\n") for _, t in ROWS if t
    ]
    assert [Path(name).name for name, _ in corpus.each_document()] == [
        f"{name}:{row}" for row in (1, 2, 3, 5, 6)
    ]
    assert (corpus.ends_with_newline, corpus.open_lines, corpus.n_bytes) == (
        True,
        0,
        len(TEXT.encode()),
    )
    assert corpus.name == name


def test_equal_rows_have_equal_hashes(tmp_path: Path) -> None:
    hashes = {
        read(write(tmp_path / name, make()), column="body").fingerprint
        for name, make in (FORMATS | PACKED).items()
    }
    assert len(hashes) == 1
    plain = read(write(tmp_path / "a.txt", TEXT))
    assert plain.fingerprint not in hashes
    joined = [("x", ROWS[0][1] + "\n" + ROWS[1][1]), *ROWS[2:]]  # the same text in other rows
    other = read(write(tmp_path / "b.jsonl", jsonl(joined)), column="body")
    assert other.text() == TEXT
    assert other.fingerprint not in hashes


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["byte", "char", "whitespace", "word", "bpe"])
def test_units(tmp_path: Path, name: str, kind: str) -> None:
    """As lines and as a stream a table is its text; as documents each row is one."""
    table, plain = (
        read(write(tmp_path / name, FORMATS[name]()), column="body"),
        Corpus.from_texts(TEXT),
    )
    tokenizer = Tokenizer(kind=kind, **({"vocab_size": 300} if kind == "bpe" else {})).fit(plain)
    assert Tokenizer(tokenizer.config).fit(table) == tokenizer
    for unit in ("line", "stream"):
        assert (
            encode_corpus(tokenizer, table, unit=unit) == encode_corpus(tokenizer, plain, unit=unit)
        ).all()
    expected = [
        token
        for _, text in table.each_document()
        for token in [*tokenizer.encode(text), tokenizer.eos_id]
    ]
    assert encode_corpus(tokenizer, table, unit="document").tolist() == expected
    path = tmp_path / "ids"
    assert encode_corpus(tokenizer, table, unit="document", path=path).tolist() == expected
    lower = Tokenizer(
        kind=kind, normalize="case=lower", **({"vocab_size": 300} if kind == "bpe" else {})
    ).fit(table)
    expected = [
        token for _, text in table.each_document() for token in [*lower.encode(text), lower.eos_id]
    ]
    assert encode_corpus(lower, table, unit="document").tolist() == expected


def test_documents_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(str(i), f"document {i} " * (i % 7 + 1)) for i in range(100)]
    table = read(write(tmp_path / "a.jsonl", jsonl(rows)), column="body")
    whole = encode_corpus(Tokenizer(), table, unit="document").tolist()
    assert whole.count(256) == 100
    monkeypatch.setattr("seqloom.data.encode._BLOCK", 50)
    monkeypatch.setattr(documents, "CHUNK", 7)
    assert encode_corpus(Tokenizer(), table, unit="document").tolist() == whole
    blocks = list(table.blocks(cut_before_space, 50))
    assert blocks == list(table.blocks(cut_before_space, 50))
    assert sum(len(block.ends) for block in blocks) == 100
    assert [block.ends_document for block in blocks] == [False] * (len(blocks) - 1) + [True]


def test_split_at_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        (str(i), "\n".join([f"line number {k} of row {i}" for k in range(40)])) for i in range(50)
    ]
    corpus = read(write(tmp_path / "a.jsonl", jsonl(rows)), column="body")
    splits = corpus.split((0.5, 0.3, 0.2))
    documents_of = [[text for _, text in part.each_document()] for part in splits]
    assert [*chain(*documents_of)] == [text + "\n" for _, text in rows]
    assert list(map(len, documents_of)) == [25, 15, 10]
    assert "".join(part.text() for part in splits) == corpus.text()
    inner = splits.train.split((0.4, 0.4, 0.2))
    assert [len(list(part.each_document())) for part in inner] == [10, 10, 5]
    assert splits.test.n_bytes == len(splits.test.text().encode())
    assert overlap(corpus, splits.test) == 1.0
    monkeypatch.setattr(tables, "_MOST_ENDS", 8)  # very many rows: some ends are enough
    thinned = read(tmp_path / "a.jsonl", column="body").split((0.5, 0.3, 0.2))
    assert [text for part in thinned for _, text in part.each_document()] == [
        text + "\n" for _, text in rows
    ]
    with pytest.raises(DataError, match="has too few rows to split into three parts at their ends"):
        read(write(tmp_path / "b.jsonl", jsonl(rows[:2])), column="body").split()


def test_several_files(tmp_path: Path, said: list[str]) -> None:
    write(tmp_path / "d" / "1.jsonl", jsonl(ROWS[:2]))
    write(tmp_path / "d" / "2.csv", csv(ROWS[2:4]))
    write(tmp_path / "d" / "3.parquet", parquet(ROWS[4:]))
    assert (
        read(
            [tmp_path / "d" / name for name in ("1.jsonl", "2.csv", "3.parquet")], column="body"
        ).text()
        == TEXT
    )
    assert read(str(tmp_path / "d" / "*"), column="body").text() == TEXT
    write(tmp_path / "d" / "notes.txt", "not a table\n")
    assert (
        read(tmp_path / "d", column="body").text() == TEXT
    )  # in a directory a column means: the tables
    left_out = f"{tmp_path}/d/2.csv: skipped 1 row without text in column 'body'"
    assert said == [
        left_out,
        left_out,
        f"{tmp_path}/d: skipped 1 file that is not a table",
        left_out,
    ]
    mixed = read([tmp_path / "d" / "notes.txt", write(tmp_path / "one.csv", "text\nhello\n")])
    assert mixed.text() == "not a table\nhello\n"
    assert [len(part.documents) for part in (mixed,)] == [2]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(jsonl())))
    assert read("-", column="body").text() == TEXT
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"plain text\n")))
    with pytest.raises(DataError, match=r"stdin is plain text and has no column 'body'.*\.jsonl"):
        read("-", column="body")
    assert read(write(tmp_path / "a.json", jsonl()), column="body").text() == TEXT
    assert (
        read(tmp_path / "a.json").text() == jsonl().decode()
    )  # without a column it is what it always was
    with pytest.raises(DataError, match=r"b\.json is one JSON array, .* write one object per line"):
        read(write(tmp_path / "b.json", '[{"t": "x"},\n {"t": "y"}]'), column="t")


# ---- which column


def test_the_only_column_of_text_is_found(tmp_path: Path, said: list[str]) -> None:
    assert (
        read(
            write(tmp_path / "a.jsonl", b'{"id": 7, "body": "x", "ok": true, "tags": [1]}\n')
        ).text()
        == "x\n"
    )
    assert (
        read(write(tmp_path / "a.csv", b"id,date,body,share\n7,2024-01-05,x y,3.5%\n")).text()
        == "x y\n"
    )
    assert read(write(tmp_path / "a.tsv", b"body\n7\n")).text() == "7\n"
    polars = pytest.importorskip("polars")
    polars.DataFrame({"id": [7], "body": ["x"]}).write_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").text() == "x\n"
    assert said == [
        f"a.{kind}: reading the column 'body'" for kind in ("jsonl", "csv", "tsv", "parquet")
    ]
    for name in FORMATS:
        with pytest.raises(
            DataError, match=rf"{name} has 2 columns of text: id, body; say which with column="
        ):
            read(write(tmp_path / name, FORMATS[name]()))
    with pytest.raises(DataError, match="has no column of text; it has id"):
        read(write(tmp_path / "a.jsonl", b'{"id": 7}\n'))


@pytest.mark.parametrize("name", FORMATS)
def test_missing_column(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, FORMATS[name]())
    with pytest.raises(
        DataError, match=rf"{name} has no column 'boddy'; did you mean 'body'\? It has id, n, body$"
    ):
        read(path, column="boddy")
    for digits in ("9" * 5000, "body." + "9" * 5000):  # more than Python reads
        with pytest.raises(
            DataError, match=rf"^[^\n]*{name} has no column '[^\n]*9 \.\.\. 9+'[^\n]*$"
        ):
            read(path, column=digits)
    with pytest.raises(DataError, match=r"has no column 'body\.0'"):
        read(path, column="body.0")


def test_column_that_is_no_text(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        b'{"n": 1, "meta": {"lang": "en", "deep": {"x": "y"}}, "list": ["a"], "t": "x"}\n',
    )
    for column, message in {
        "n": "'n' of .*a.jsonl holds numbers, not text; text is in meta.lang, meta.deep.x, list.0, t",
        "meta": "'meta' of .* holds objects, not text; its text is in meta.lang, meta.deep.x$",
        "list": "'list' of .* holds lists, not text; its text is in list.0",
    }.items():
        with pytest.raises(DataError, match=message):
            read(path, column=column)
    polars = pytest.importorskip("polars")
    polars.DataFrame(
        {
            "n": [1],
            "d": [{"x": "y"}],
            "t": ["x"],
            "day": polars.Series(["2024-01-05"]).str.to_date(),
            "raw": [b"x"],
        }
    ).write_parquet(tmp_path / "a.parquet")
    for column, message in {
        "n": "holds numbers, not text",
        "d": "holds objects, not text; its text is in d.x",
        "day": "holds dates",
        "raw": "holds bytes, not text",
    }.items():
        with pytest.raises(DataError, match=message):
            read(tmp_path / "a.parquet", column=column)
    assert (
        read(write(tmp_path / "a.csv", b"n,t\n1,x\n"), column="n").text() == "1\n"
    )  # in CSV everything is text
    with pytest.raises(
        DataError,
        match=r"a\.txt is plain text and has no column 't'; columns are in files that end in",
    ):
        read(write(tmp_path / "a.txt", "t\n"), column="t")


def test_paths(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    rows = [
        {
            "meta": {"body": "a"},
            "messages": [{"role": "user", "content": "b"}, {"role": "it", "content": "c"}],
        },
        {"meta": {"body": "d"}, "messages": []},
        {"meta": None, "messages": [{"role": "user", "content": "e"}]},
    ]
    write(tmp_path / "a.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    polars.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        assert read(tmp_path / name, column="meta.body").text() == "a\nd\n"
        assert read(tmp_path / name, column="messages.0.content").text() == "b\ne\n"
        assert read(tmp_path / name, column="messages.1.content").text() == "c\n"
        with pytest.raises(DataError, match=r"did you mean 'messages.0.content'"):
            read(tmp_path / name, column="messages.0.contents")
    dotted = write(tmp_path / "b.jsonl", b'{"a.b": "name", "a": {"b": "path"}}\n')
    assert read(dotted, column="a.b").text() == "name\n"
    assert read(write(tmp_path / "c.jsonl", b'["x", "y"]\n["z"]\n'), column="1").text() == "y\n"
    with pytest.raises(DataError, match=r"c\.jsonl has no column '9+ \.\.\. 9+'; it has 0, 1$"):
        read(tmp_path / "c.jsonl", column="9" * 5000)


def test_tables_without_header(tmp_path: Path, said: list[str]) -> None:
    """One rule for all data: `data/rows.py`."""
    numbers = write(tmp_path / "a.csv", "1,hello there\n2,good bye\n")  # a number above numbers
    assert read(numbers).text() == read(numbers, column="2").text() == "hello there\ngood bye\n"
    again = write(tmp_path / "b.tsv", "yes\nno\nyes\n")  # a cell that comes again
    assert read(again).text() == "yes\nno\nyes\n"
    assert said == ["a.csv: reading the column '2'", "b.tsv: reading the column '1'"]
    assert read(again, column="yes").text() == "no\nyes\n"  # a name settles it
    said.clear()
    unknown = write(tmp_path / "c.csv", "phrase\nhello there\ngood bye\n")
    assert read(unknown).text() == "hello there\ngood bye\n"
    assert said == [
        f"{unknown}: the first row is taken as the header: 'phrase'; if it is not, give columns by number",
        "c.csv: reading the column 'phrase'",
    ]
    read(write(tmp_path / "f.csv", "\x1b[2Jphrase\nhello\n"))
    assert r": '\x1b[2Jphrase';" in said[2]  # what would clear the terminal
    assert read(unknown, column="1").text() == "phrase\nhello there\ngood bye\n"
    assert (
        read(write(tmp_path / "e.csv", "hello there\n")).text() == "hello there\n"
    )  # nothing stands below
    named = write(tmp_path / "d.csv", "text,n\nhello,1\n")
    assert read(named, column="1").text() == "hello\n"
    with pytest.raises(DataError, match="has no column '3'; it has text, n"):
        read(named, column="3")


def test_parquet_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", parquet())
    monkeypatch.setitem(sys.modules, "polars", None)
    for reader in (lambda: read(path, column="body"), lambda: read_labelled(path)):
        with pytest.raises(
            MissingExtra,
            match=r"a\.parquet: reading Parquet needs polars; pip install 'seqloom\[parquet\]'",
        ):
            reader()


def test_polars_is_for_parquet_alone(tmp_path: Path) -> None:
    for name, make in (
        ("a.csv", csv),
        ("a.jsonl", jsonl),
        ("a.tsv", lambda: b"id\tbody\nx\ty\nz\ty\n"),
    ):
        write(tmp_path / name, make())
    code = (
        "import sys, seqloom\nfor name in sys.argv[1:]:\n    seqloom.read(name, column='body').text()\n"
        "    seqloom.read_labelled(name, text_column='body', label_column='id')\nassert 'polars' "
        "not in sys.modules"
    )
    subprocess.run(
        [
            sys.executable,
            "-c",
            code,
            *(str(tmp_path / name) for name in ("a.csv", "a.jsonl", "a.tsv")),
        ],
        check=True,
    )


# ---- what a row may hold


def test_rows_without_text_are_left_out_and_counted(tmp_path: Path, said: list[str]) -> None:
    path = write(
        tmp_path / "a.jsonl", b'{"t": "x"}\n\n{"t": ""}\n{"t": null}\n{"u": 1}\n  \r\n{"t": "y"}'
    )
    corpus = read(path, column="t")
    next(corpus.each_document())
    assert said == []
    assert [name.rpartition(":")[2] for name, _ in corpus.each_document()] == ["1", "7"]
    assert said == [
        f"{path}: skipped 3 rows without text in column 't'"
    ]  # whoever reads it to the end
    assert corpus.fingerprint
    assert corpus._part(0, 4, "all rows").fingerprint
    assert len(said) == 1  # once
    assert (
        read(write(tmp_path / "a.csv", b'n,t\n1,x\n2,\n\n3,""\n4,y\n'), column="t").text()
        == "x\ny\n"
    )
    for data in (b'{"t": ""}\n', b'{"t": null}\n'):
        with pytest.raises(DataError, match=r"no row of b.jsonl has text in column t"):
            list(read(write(tmp_path / "b.jsonl", data), column="t").blocks(cut_before_space))
    with pytest.raises(DataError, match=r"no row of b.csv has text"):
        list(read(write(tmp_path / "b.csv", "t\n"), column="t").blocks(cut_before_space))
    for name in ("e.jsonl", "e.csv", "e.tsv"):
        with pytest.raises(DataError, match=f"{name} is empty"):
            read(write(tmp_path / name, b"\n"))


def test_marks_and_line_ends(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    assert (
        read(
            write(tmp_path / "a.jsonl", mark + b'{"t": "x"}\r\n{"t": "y"}\n{"t": "z"}'), column="t"
        ).text()
        == "x\ny\nz\n"
    )
    mixed = mark + b't,u\r\nx,1\ny,2\r"a\r\nb",3\n'
    assert (
        read(write(tmp_path / "a.csv", mixed), column="t").text() == "x\ny\na\r\nb\n"
    )  # inside quotes nothing is changed
    assert (
        read(write(tmp_path / "a.tsv", mark + b"t\tu\r\nx\t1\ny\ty\r\n"), column="u").text()
        == "1\ny\n"
    )
    wide = "t,u\nnaïve,1\n".encode("utf-16")
    assert read(write(tmp_path / "w.csv", wide), column="t", encoding="utf-16").text() == "naïve\n"
    with pytest.raises(DataError, match="is UTF-16 text"):
        read(tmp_path / "w.csv", column="t")


def test_tabs_know_no_quotes(tmp_path: Path) -> None:
    data = b'id\ttext\n1\t"Hi" she said\n2\t"open\n3\ta, b; c\n4\t\\t\\n\n5\tlone \r here\n'
    assert (
        read(write(tmp_path / "a.tsv", data), column="text").text()
        == '"Hi" she said\n"open\na, b; c\n\\t\\n\nlone \r here\n'
    )


def test_semicolons(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", 'id;"a;b"\n1;"x, y"\n'), column="a;b").text() == "x, y\n"
    assert read(write(tmp_path / "b.csv", "a;b,c\n1;2,x\n"), column="c").text() == "x\n"


def test_nul_and_surrogates(tmp_path: Path, said: list[str]) -> None:
    path = write(
        tmp_path / "a.jsonl",
        rb'{"t": "a\u0000b"}' b"\n" rb'{"t": "\ud83d\ude00 \ud83d \ude00\ud83d"}' b"\n",
    )
    corpus = read(path, column="t")
    assert corpus.text() == "a\0b\n😀 \ufffd \ufffd\ufffd\n"
    assert corpus.fingerprint
    assert said == [f"{path}: replaced 3 lone surrogates by U+FFFD"]
    assert read(write(tmp_path / "a.csv", b"t,u\na\0b,1\n"), column="t").text() == "a\0b\n"
    with pytest.raises(
        DataError,
        match=r"b\.jsonl, line 2: not valid JSON \(Invalid control character at, character 8\)",
    ):
        read(write(tmp_path / "b.jsonl", b'{"t": "x"}\n{"t": "\0"}\n'), column="t")
    with pytest.raises(DataError, match=r"c\.jsonl is not UTF-8 text: line 2, byte offset 18"):
        read(write(tmp_path / "c.jsonl", b'{"t": "x"}\n{"t": "\xff"}\n'), column="t")


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_one_line_of_100_megabytes(tmp_path: Path, name: str) -> None:
    size = 100 << 20
    before, after = {
        "a.jsonl": (b'{"n": 1, "t": "', b'"}\n{"t": "end"}\n'),
        "a.csv": (b't,u\n"', b'",1\nend,2\n'),
        "a.tsv": (b"t\tu\n", b"\t1\nend\t2\n"),
    }[name]
    with open(tmp_path / name, "wb") as file:
        file.write(before)
        file.writelines([b"0123456789abcdef" * 65536] * (size >> 20))
        file.write(after)
    corpus = read(tmp_path / name, column="t")
    assert corpus.n_bytes is None
    assert corpus.fingerprint
    assert corpus.n_bytes == size + 5


def test_one_line_of_100_megabytes_as_plain_text(tmp_path: Path) -> None:
    size = 100 << 20
    with open(tmp_path / "a.txt", "wb") as file:
        file.writelines([b"0123456789 abcde " * 61681] * (size // (17 * 61681)))
    corpus = read(tmp_path / "a.txt")
    words = Tokenizer(kind="whitespace").fit(corpus)
    assert len(encode_corpus(words, corpus, unit="line")) == 2 * (corpus.n_bytes or 0) // 17 + 1
    assert [len(line) for line in corpus.lines()] == [corpus.n_bytes]


# ---- what is refused, and where


def test_wrong_rows_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = b"".join(b'{"t": "row %d"}\n' % i for i in range(1, 1000))
    monkeypatch.setattr("seqloom.data.documents.line_blocks.__defaults__", (300,))
    monkeypatch.setattr(documents.Document._raw, "__defaults__", (0, 100))
    for last, message in {
        b'{"t": 5}': r"a\.jsonl, line 1000, column 't': a number, not text",
        b'{"t": ["x"]}': r"line 1000, column 't': a list, not text",
        b'{"t": {}}': r"line 1000, column 't': an object, not text",
        b'{"t": false}': r"line 1000, column 't': true or false, not text",
        b'{"t": "x" "y"}': r"line 1000: not valid JSON \(Expecting ',' delimiter, character 11\); "
        r".* one object per line",
        b'{"t": "x"': r"line 1000: not valid JSON \(Expecting ',' delimiter, character 10\)",
        b'{"t": "x': r"line 1000: not valid JSON \(Unterminated string starting at, character 7\)",
        b'{"t": "\xc3\xa9"} 1': r"line 1000: not valid JSON \(Extra data, character 12\)",
        b'{"t": "x", "u": ' + b"[" * 2000: "line 1000: nested too deeply",
    }.items():
        corpus = read(write(tmp_path / "a.jsonl", many + last + b"\n" + many), column="t")
        with pytest.raises(DataError, match=message):
            corpus.text()


def test_not_one_object_a_line(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"line 1: not valid JSON \(Expecting property name .* must be one object per line",
    ):
        read(write(tmp_path / "a.jsonl", '{\n  "t": "x"\n}\n'), column="t")
    with pytest.raises(
        DataError, match="line 2: a text, not an object; there must be one per line"
    ):
        read(write(tmp_path / "a.jsonl", '\n"text"\n'), column="t")


def test_ragged_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.data.documents.line_blocks.__defaults__", (100,))
    monkeypatch.setattr(documents.Document._raw, "__defaults__", (0, 50))
    many = b'"two\nlines",x\n' * 500
    for last, message in {
        b"1": r"a\.csv, line 1002: 1 fields where the first row has 2",
        b"1,2,3": r"line 1002: 3 fields where the first row has 2",
        b'1,"open': r"line 1002: an opening quote is never closed",
        b'"a" b,1': r"line 1002: text after a closing quote; .* twice",
    }.items():
        corpus = read(write(tmp_path / "a.csv", b"t,u\n" + many + last + b"\n"), column="t")
        with pytest.raises(DataError, match=message):
            corpus.text()
    with pytest.raises(DataError, match=r"a\.tsv, line 4: 3 fields where the first row has 2"):
        read(write(tmp_path / "a.tsv", b"t\tu\n1\t2\n\n1\t2\t3\n"), column="t").text()
    with pytest.raises(DataError, match="has 2 columns called 't'; rename one"):
        read(write(tmp_path / "a.csv", b"t,t\n1,2\n"), column="t")


def test_rows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quote that is never closed must not fill the memory."""
    for limit in ("rows.MAX_FIELD_BYTES", "documents.MAX_LINE_BYTES"):
        monkeypatch.setattr(f"seqloom.data.{limit}", 1 << 20)
    csv_module.field_size_limit(1 << 20)
    with pytest.raises(
        DataError, match=r"line 2: an opening quote is never closed \(field larger than field limit"
    ):
        read(write(tmp_path / "a.csv", b't,u\n"' + b"x,y\n" * (4 << 20)), column="t").text()
    with pytest.raises(DataError, match="has a line of more than 1 MB"):
        read(write(tmp_path / "a.jsonl", b'{"t": "' + b"x" * (3 << 20)), column="t").text()


def test_not_parquet(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    whole = parquet()
    for data in (b"no", b"not a table at all, but long enough", whole[:-20], whole[:20]):
        with pytest.raises(
            DataError,
            match=r"a\.parquet: not a Parquet file that can be read .*; get a complete copy",
        ):
            read(write(tmp_path / "a.parquet", data), column="body").text()
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "b.parquet", column="body")


def test_parquet_in_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    rows = [(str(i), f"row {i}" if i % 3 else "") for i in range(5000)]
    write(tmp_path / "a.parquet", parquet(rows, row_group_size=300))
    monkeypatch.setattr("seqloom.data.tables._BLOCK", 1000)
    corpus = read(tmp_path / "a.parquet", column="body")
    assert corpus.text() == "".join(text + "\n" for _, text in rows if text)
    assert [name.rpartition(":")[2] for name, _ in corpus.each_document()] == [
        str(i + 1) for i in range(5000) if i % 3
    ]
    frame = polars.DataFrame({"t": polars.Series(["x", "y"], dtype=polars.Categorical)})
    frame.write_parquet(tmp_path / "b.parquet")
    assert read(tmp_path / "b.parquet").text() == "x\ny\n"


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="no way to ask for another process's memory")
def test_memory_does_not_grow(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        with open(tmp_path / "a.jsonl", "wb") as file:
            file.writelines(
                [(b'{"id": 1, "text": "' + b"some words " * 90 + b'"}\n') * 1000] * rows
            )
        code = f"import seqloom; print(seqloom.read({str(tmp_path / 'a.jsonl')!r}).fingerprint)"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    small, large = peak(40), peak(160)  # 40 and 160 MB
    assert large - small < 30 << 20
