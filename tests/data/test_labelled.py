"""Labelled texts: forms, columns, streams, and what is refused with its line."""

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data import documents
from seqloom.data.classification import Labelled, as_labelled, read_labelled, stream_labelled
from seqloom.errors import ConfigError, DataError

ROWS = [
    ("a fine film", "good"),
    ('dull , "very" dull', "bad"),
    ("שלום 😀 naïve", "good"),
    ("x", "bad"),
]
TEXTS, LABELS = [text for text, _ in ROWS], [label for _, label in ROWS]


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def as_csv(
    rows=ROWS, header=("text", "label"), end="\n", separator=",", quoting=csv.QUOTE_MINIMAL
) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator=end, delimiter=separator, quoting=quoting).writerows(
        [header, *rows] if header else rows
    )
    return file.getvalue()


def as_tsv(rows=ROWS, header=("text", "label")) -> str:
    return "".join(
        f"{text}\t{label}\n" for text, label in ([header] if header else []) + list(rows)
    )


def as_jsonl(rows=ROWS) -> str:
    return "".join(
        json.dumps({"id": i, "text": text, "label": label}) + "\n"
        for i, (text, label) in enumerate(rows)
    )


def as_lines(rows=ROWS) -> str:
    return "".join(f"{label} {text}\n" for text, label in rows)


def as_fasttext(rows=ROWS) -> str:
    return "".join(f"__label__{label} {text}\n" for text, label in rows)


FILES = {
    "a.csv": as_csv,
    "a.tsv": as_tsv,
    "a.jsonl": as_jsonl,
    "a.train": as_lines,
    "a.txt": as_fasttext,
}


# ---- further columns


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_further_columns_are_kept_as_text(tmp_path, name):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "stars": [5, 1, 4, 2],
            "text": [text.replace("\n", " ") for text in TEXTS],
            "label": LABELS,
            "from": ["web", " mail ", None, "web"],
        }
    )
    path = tmp_path / name
    {
        "a.csv": frame.write_csv,
        "a.jsonl": frame.write_ndjson,
        "a.parquet": frame.write_parquet,
        "a.tsv": lambda place: write(
            place,
            "stars\ttext\tlabel\tfrom\n"
            + "".join("\t".join(str(cell or "") for cell in row) + "\n" for row in frame.rows()),
        ),
    }[name](path)
    found = read_labelled(path, columns=["from", "stars", "from"])
    assert found.columns == {"from": ["web", "mail", "", "web"], "stars": ["5", "1", "4", "2"]}
    assert read_labelled(path).columns == {}
    assert found.fingerprint == read_labelled(path).fingerprint
    assert as_labelled(path, columns=["stars"]).columns == {"stars": ["5", "1", "4", "2"]}
    with pytest.raises(DataError, match=r"has no column 'form'.*did you mean 'from'"):
        read_labelled(path, columns=["form"])


# ---- forms


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: "\n" + text + "\n\n",
    ],
)
def test_forms(tmp_path, name, change, said):
    data = read_labelled(write(tmp_path / name, change(FILES[name]())))
    assert (data.texts, data.labels, data.name) == (TEXTS, LABELS, name)
    assert (data.classes, len(data)) == (["bad", "good"], 4)
    assert said == [f"{tmp_path / name}: the first word of each line is taken as its label"] * (
        name == "a.train"
    )


@pytest.mark.parametrize("name", FILES)
def test_packed_encoded_and_from_standard_input(tmp_path, name, monkeypatch):
    text = FILES[name]()
    hashes = {read_labelled(write(tmp_path / name, text)).fingerprint}
    hashes.add(
        read_labelled(write(tmp_path / f"{name}.gz", gzip.compress(text.encode()))).fingerprint
    )
    hashes.add(
        read_labelled(
            write(tmp_path / f"wide.{name}", text.encode("utf-16")), encoding="utf-16"
        ).fingerprint
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    hashes.add((data := read_labelled("-")).fingerprint)
    assert hashes == {Labelled.of(ROWS).fingerprint}
    assert data.name == "stdin"


@pytest.mark.parametrize("name", FILES)
def test_bytes_that_are_no_text(tmp_path, name):
    text = FILES[name]([("fine", "x"), ("good", "y"), ("na!ve", "x")]).encode()
    line = text[: text.index(b"!")].count(b"\n") + 1
    path = write(tmp_path / name, text.replace(b"!", b"\xef"))
    with pytest.raises(
        DataError,
        match=rf"{name} is not UTF-8 text: line {line}, byte offset {text.index(b'!')} holds 0xEF",
    ):
        read_labelled(path)
    assert read_labelled(path, encoding="latin-1").texts[-1] == "naïve"


def test_badly_encoded_files_of_folders_are_skipped(tmp_path, said):
    for i, (text, label) in enumerate(ROWS):
        write(tmp_path / "d" / label / f"{i}.txt", text)
    write(tmp_path / "d" / "good" / "old.txt", "naïve".encode("latin-1"))
    assert sorted(zip((data := read_labelled(tmp_path / "d")).texts, data.labels)) == sorted(ROWS)
    assert said == [f"{tmp_path}/d/good: skipped 1 file: not valid UTF-8 (old.txt)"]
    with pytest.raises(DataError, match=r"old\.txt is not UTF-8 text: line 1"):
        read_labelled(tmp_path / "d", strict=True)
    write(tmp_path / "d" / "good" / "a.bin", b"\xff\0\1")
    with pytest.raises(DataError, match=r"a\.bin looks like a binary file"):
        read_labelled(tmp_path / "d", strict=True)
    write(tmp_path / "e" / "good" / "old.txt", "naïve".encode("latin-1"))
    with pytest.raises(DataError, match="name its encoding"):
        read_labelled(tmp_path / "e")


def test_folders(tmp_path, said):
    for i, (text, label) in enumerate(ROWS):
        write(tmp_path / "d" / label / f"{i}.txt", text)
    write(tmp_path / "d" / "bad" / "deep" / "9.txt.gz", gzip.compress(b"packed"))
    write(tmp_path / "d" / "good" / "9.txt", "\ufeffmarked\r\n")
    for hidden in (".hidden/x.txt", "bad/.x.txt", "bad/.deep/x.txt"):
        write(tmp_path / "d" / hidden, "hidden")
    write(tmp_path / "d" / "README", "beside")
    write(tmp_path / "d" / "good" / "x.bin", b"\xff\0\1")
    data = read_labelled(tmp_path / "d")
    assert sorted(zip(data.texts, data.labels)) == sorted(
        [*ROWS, ("packed", "bad"), ("marked\r\n", "good")]
    )
    assert data.labels == sorted(data.labels)
    assert said == [
        f"{tmp_path}/d: skipped 1 file next to the class folders",
        f"{tmp_path}/d/good: skipped 1 binary file",
    ]
    assert read_labelled(tmp_path / "d", form="folders").fingerprint == data.fingerprint
    (tmp_path / "d" / "README").unlink()
    with pytest.raises(
        DataError,
        match=rf"{tmp_path}/d has folders in it \(bad, good\) and no files; give the folder",
    ):
        read_labelled(tmp_path)
    with pytest.raises(DataError, match="has no folders in it"):
        read_labelled(tmp_path / "d" / "bad" / "deep", form="folders")
    with pytest.raises(DataError, match="holds folders per class and has no columns"):
        read_labelled(tmp_path / "d", text_column="text")
    with pytest.raises(DataError, match="is not a directory"):
        read_labelled(tmp_path / "d" / "bad" / "1.txt", form="folders")
    write(tmp_path / "d" / "good" / "z.txt", b"fine\nna\xefve\n")
    (tmp_path / "d" / "good" / "x.bin").unlink()
    with pytest.raises(DataError, match=r"good/z\.txt is not UTF-8 text: line 2, byte offset 7"):
        read_labelled(tmp_path / "d", strict=True)


def test_directory_of_files_and_several_files(tmp_path):
    for name, make in FILES.items():
        write(tmp_path / "d" / name, make())
    assert read_labelled(tmp_path / "d").texts == TEXTS * 5
    data = read_labelled([tmp_path / "d" / name for name in FILES])
    assert (data.texts, data.labels, data.name) == (TEXTS * 5, LABELS * 5, "5 files")
    with pytest.raises(DataError, match="the list of files is empty"):
        read_labelled([])
    with pytest.raises(DataError, match="no such file"):
        read_labelled(tmp_path / "none.csv")


def test_parquet(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"id": [1, 2, 3], "sentence": ["a", "", "c"], "label": [1, 0, 1]})
    frame.write_parquet(tmp_path / "a.parquet")
    data = read_labelled(tmp_path / "a.parquet")
    assert (data.texts, data.labels) == (["a", "", "c"], ["1", "0", "1"])
    polars.DataFrame({"text": ["a", "b"], "label": ["x", None]}).write_parquet(
        tmp_path / "b.parquet"
    )
    with pytest.raises(DataError, match=r"b\.parquet, row 2: no label in column 'label'"):
        read_labelled(tmp_path / "b.parquet")
    with pytest.raises(
        DataError, match=r"has no column 'lable'; did you mean 'label'\? It has text, label"
    ):
        read_labelled(tmp_path / "b.parquet", label_column="lable")
    with pytest.raises(DataError, match=r"c\.parquet: not a Parquet file"):
        read_labelled(write(tmp_path / "c.parquet", "no"))


def test_sentences_of_sst(tmp_path):
    data = read_labelled(
        write(tmp_path / "stsa.binary.dev", "0 one long string of cliches .\n1 fine \n1\n0\ttab\n")
    )
    assert data.labels == ["0", "1", "1", "0"]
    assert data.texts == ["one long string of cliches .", "fine ", "", "tab"]


def test_lines_are_cut_at_newlines_only(tmp_path):
    data = read_labelled(write(tmp_path / "a", "0 a\u2028b\x0bc\x85d\n1 e\x0cf\n"))
    assert data.texts == ["a\u2028b\x0bc\x85d", "e\x0cf"]


def test_running_text_is_not_taken_for_labels(tmp_path):
    path = write(tmp_path / "a.txt", "".join(f"w{i} is a word\n" for i in range(20)))
    with pytest.raises(
        DataError,
        match=r"does not look like labelled text: its first 20 lines begin with 20 different words",
    ):
        read_labelled(path)
    assert len(read_labelled(path, form="lines").classes) == 20


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
labels = st.text("ab,\"é;'\\", min_size=1, max_size=3)


@given(
    st.lists(st.tuples(cells, labels), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([1, 3, 10_000]),
)
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, rows, end, size):
    """Any text in CSV and JSON Lines, whatever the chunks and batches."""
    folder = tmp_path_factory.mktemp("forms")
    patch = pytest.MonkeyPatch()
    patch.setattr(documents, "CHUNK", 5)
    patch.setattr(documents.line_blocks, "__defaults__", (size,))
    try:
        for name, text in {
            "a.csv": as_csv(rows, end=end, quoting=csv.QUOTE_ALL),
            "a.jsonl": as_jsonl(rows),
        }.items():
            data = read_labelled(write(folder / name, text))
            assert list(zip(data.texts, data.labels)) == rows
            parts = list(stream_labelled(folder / name, size=size))
            assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
            assert [text for part in parts for text in part.texts] == data.texts
            assert [label for part in parts for label in part.labels] == data.labels
    finally:
        patch.undo()


def test_stream(tmp_path, monkeypatch):
    rows = [(f"text {i}", str(i % 3)) for i in range(1000)]
    monkeypatch.setattr("seqloom.data.documents.line_blocks.__defaults__", (200,))
    monkeypatch.setattr(documents, "CHUNK", 100)
    write(tmp_path / "1.tsv", as_tsv(rows[:600]))
    write(tmp_path / "2.jsonl", as_jsonl(rows[600:]))
    parts = list(stream_labelled([tmp_path / "1.tsv", tmp_path / "2.jsonl"], size=70))
    assert [len(part) for part in parts] == [70] * 14 + [20]
    assert [pair for part in parts for pair in zip(part.texts, part.labels)] == rows
    assert {part.name for part in parts} == {"2 files"}
    with pytest.raises(ConfigError, match="size must be at least 1"):
        stream_labelled(tmp_path / "1.tsv", size=0)
    with pytest.raises(DataError, match="no such file"):  # at once, not when it is read
        stream_labelled(tmp_path / "3.tsv")


def test_streams_do_not_read_ahead(tmp_path):
    """What is wrong in the middle is met after the parts before it."""
    path = write(tmp_path / "a.csv", as_csv([("t" * 200, "l")] * 25_000 + [("t", "")]))
    stream = stream_labelled(path, size=5000)
    assert [len(next(stream)) for _ in range(3)] == [5000] * 3
    with pytest.raises(DataError, match=r"a\.csv, line 25002: no label in column 'label'"):
        list(stream)


# ---- which columns


@pytest.mark.parametrize(
    "header",
    [
        ("Review", "Class"),
        ("sentence", "category"),
        ("text", "target"),
        ("body", "anything"),
        ("anything", "label"),
    ],
)
def test_usual_names(tmp_path, header, said):
    assert read_labelled(write(tmp_path / "a.csv", as_csv(header=header))).texts == TEXTS
    assert read_labelled(write(tmp_path / "a.tsv", as_tsv(header=header))).labels == LABELS
    assert (
        read_labelled(write(tmp_path / "b.csv", as_csv(header=header, separator=";"))).texts
        == TEXTS
    )
    rows = "".join(json.dumps(dict(zip(header, row))) + "\n" for row in ROWS)
    assert read_labelled(write(tmp_path / "a.jsonl", rows)).labels == LABELS
    assert said == []


def test_named_columns(tmp_path):
    rows = [("1", "one", "x", "p"), ("2", "two", "y", "q")]
    for name, text in {
        "a.csv": as_csv(rows, ("id", "text", "about", "kind")),
        "a.jsonl": "".join(
            json.dumps(dict(zip(("id", "text", "about", "kind"), row))) + "\n" for row in rows
        ),
    }.items():
        path = write(tmp_path / name, text)
        assert read_labelled(path, label_column="kind").labels == ["p", "q"]
        assert read_labelled(path, text_column="about", label_column="kind").texts == ["x", "y"]
        with pytest.raises(
            DataError,
            match=r"has the columns id, text, about, kind; say which holds the label with "
            r"--label-column \(label_column=\.\.\.\)",
        ):
            read_labelled(path)
        with pytest.raises(
            DataError,
            match=r"has no column 'knd'; did you mean 'kind'\? It has id, text, about, kind$",
        ):
            read_labelled(path, label_column="knd")
        with pytest.raises(DataError, match="the column 'text' cannot be both text and label"):
            read_labelled(path, label_column="text")
    assert read_labelled(tmp_path / "a.csv", label_column="4").labels == ["p", "q"]
    with pytest.raises(DataError, match="has 2 columns called 'kind'; rename one"):
        read_labelled(write(tmp_path / "b.csv", "text,kind,kind\na,b,c\n"), label_column="kind")
    with pytest.raises(DataError, match="is of the form lines and has no columns"):
        read_labelled(write(tmp_path / "b.txt", as_lines()), label_column="kind")


def test_without_header(tmp_path, said):
    path = write(tmp_path / "a.tsv", as_tsv(header=None))
    assert read_labelled(path).labels == LABELS
    assert said == [f"{path}: column '2' is taken as the label, as it has fewer distinct values"]
    other = write(tmp_path / "b.csv", as_csv([(label, text) for text, label in ROWS], header=None))
    assert read_labelled(other).labels == LABELS
    assert "column '1'" in said[-1]
    said.clear()
    wide = write(tmp_path / "c.csv", '3,"a title","a body"\n4,t,b\n')  # as AG News
    assert read_labelled(wide, text_column="3", label_column="1").texts == ["a body", "b"]
    with pytest.raises(DataError, match="has the columns 1, 2, 3; say which holds the text"):
        read_labelled(wide)
    with pytest.raises(DataError, match=r"has no column '4'.* has 1, 2, 3"):
        read_labelled(wide, text_column="4", label_column="1")
    assert said == []


def test_few_rows_without_header(tmp_path):
    """Nothing of a short file is lost to a header."""
    for name, separator in {"a.tsv": "\t", "a.csv": ","}.items():
        one = f"a great film{separator}pos\n"
        assert read_labelled(write(tmp_path / name, one)).labels == ["pos"]
        assert read_labelled(write(tmp_path / name, f"{one}so dull{separator}neg\n")).labels == [
            "pos",
            "neg",
        ]
    long = (
        "opinion\tverdict" + " " * (1 << 21) + "\ngood\t1\nbad\t0\n"
    )  # a first row that fills the first block
    assert read_labelled(write(tmp_path / "a.tsv", long)).labels == ["1", "0"]


def test_blanks_around_labels_do_not_count(tmp_path):
    """Three texts of which one comes twice, and two labels, one of them with blanks."""
    rows = [("dull", "pos"), ("dull", "neg"), ("fine", "pos "), ("good", " pos")]
    assert read_labelled(write(tmp_path / "a.tsv", as_tsv(rows, None))).labels == [
        "pos",
        "neg",
        "pos",
        "pos",
    ]


def test_as_many_labels_as_texts(tmp_path, said):
    path = write(tmp_path / "a.tsv", "a fine day\tgood\n")
    assert read_labelled(path).labels == ["good"]
    assert said == [f"{path}: column '2' is taken as the label, as its values are shorter"]


def test_headers_with_strange_names(tmp_path, said):
    path = write(
        tmp_path / "a.csv", "phrase,score\nfine,1\ndull,0\nbad,0\n"
    )  # a word above numbers
    assert read_labelled(path).labels == ["1", "0", "0"]
    assert said == [
        f"{path}: column 'score' is taken as the label, as it has fewer distinct values"
    ]
    said.clear()
    rows = [("phrase", "verdict"), *((f"text {i}", "good" if i % 2 else "bad") for i in range(20))]
    path = write(tmp_path / "b.tsv", as_tsv(rows, None))  # cannot be known, so it is said
    assert read_labelled(path).classes == ["bad", "good", "verdict"]
    assert said == [
        f"{path}: the first row is taken as data; if it is a header, give columns by name",
        f"{path}: column '2' is taken as the label, as it has fewer distinct values",
    ]
    assert read_labelled(path, text_column="phrase").classes == ["bad", "good"]
    assert read_labelled(path, text_column="1", label_column="2").classes == [
        "bad",
        "good",
        "verdict",
    ]
    assert len(said) == 2
    data = read_labelled(
        write(tmp_path / "c.tsv", "x\ttarget\ny\tother\nz\ttarget\n")
    )  # a usual name as a class
    assert data.labels == ["target", "other", "target"]


def test_values_of_json(tmp_path, said):
    rows = [
        '{"text": "a", "label": 1}',
        '{"text": "b", "label": true}',
        ' {"text": "c", "label": 0.5} ',
        '{"text": "d", "label": "x", "text2": null}',
        "",
        '{"text": "\\ud800e", "label": "y"}',
    ]
    data = read_labelled(write(tmp_path / "a.jsonl", "\n".join(rows)))
    assert data.labels == ["1", "true", "0.5", "x", "y"]
    assert data.texts == ["a", "b", "c", "d", "\ufffde"]
    assert said == [f"{tmp_path}/a.jsonl: replaced 1 lone surrogate by U+FFFD"]
    deep = write(tmp_path / "b.jsonl", '{"m": [{"t": "a"}], "y": {"k": 3}, "x.y": "u"}\n')
    assert read_labelled(deep, text_column="m.0.t", label_column="y.k").labels == ["3"]
    assert read_labelled(deep, text_column="m.0.t", label_column="x.y").labels == ["u"]


# ---- what is refused, and what is counted


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.csv",
            'text,label\na,x\n"b\nb",y\n\nc\n',
            r"a\.csv, line 6: 1 fields where the first row has 2",
        ),
        ("a.csv", 'text,label\n"a\n\na",x\nb, \n', r"a\.csv, line 5: no label in column 'label'"),
        ("a.csv", 'text,label\na,x\n"b\nb"c,y\n', r"a\.csv, line 4: text after a closing quote"),
        (
            "a.csv",
            'text,label\n"a\na",x\n"b,y\nc,z\n',
            r"a\.csv, line 4: an opening quote is never closed",
        ),
        ("a.csv", "a\nb\n", "has one column, '1'; there must be one of text and one of labels"),
        (
            "a.tsv",
            'text\tlabel\n"a\tx\nb\ty\tz\n',
            r"a\.tsv, line 3: 3 fields where the first row has 2",
        ),
        ("a.tsv", "text\tlabel\na\tx\r\n\r\nb\t\r\n", r"a\.tsv, line 4: no label"),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n{"text": "b"}\n',
            r"a\.jsonl, line 2: no label in column 'label'",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n\n{"text": "b", "label": ""}\n',
            r"line 3: no label in column 'label'",
        ),
        ("a.jsonl", '{"text": 3, "label": "x"}', r"line 1, column 'text': a number, not text"),
        (
            "a.jsonl",
            '{"text": "a", "label": ["x", "y"]}',
            r"line 1, column 'label': a list, not a label; one label a row",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n{"text": "a", "label": "x"\n',
            r"line 2: not valid JSON \(",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}{"text": "a", "label": "x"}\n',
            r"line 1: not valid JSON \(Extra data",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n["a", "x"]\n',
            r"line 2: a list, not an object; there must be one per line",
        ),
        ("a.txt", "0 a\n 1 b\n", r"a\.txt, line 2: no label; the line begins with a space"),
        (
            "a.txt",
            "__label__x a\nb c\n",
            r"a\.txt, line 2: no label; it must begin with __label__ and a name",
        ),
        ("a.txt", "__label__x a\n__label__ b\n", r"line 2: no label"),
        (
            "a.txt",
            "__label__x a\n\n__label__x __label__y b\n",
            r"line 3: several labels; a text can have one here",
        ),
        ("a.txt", "__label__x a\n__label__x b __label__y\n", r"line 2: several labels"),
        ("a.csv", "", "a.csv has no labelled text"),
        ("a.csv", "text,label\n", "has no labelled text"),
        ("a.jsonl", "\n", "has no labelled text"),
        ("a.txt", " \n", "has no labelled text"),
        ("a.tsv", "", "has no labelled text"),
    ],
)
def test_bad_files(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message) as error:
        read_labelled(write(tmp_path / name, text))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", FILES)
def test_empty_texts_are_kept_and_counted(tmp_path, name, said):
    data = read_labelled(write(tmp_path / name, FILES[name]([("", "x"), ("a", "y"), ("", "y")])))
    assert (data.texts, data.labels) == (["", "a", ""], ["x", "y", "y"])
    assert said[-1] == f"{tmp_path}/{name}: 2 of 3 texts are empty"


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("a.csv", 'text,label\na,x\nb,\n"c\n",\nd,y\n', "lines 3, 4"),
        ("a.tsv", "text\tlabel\na\tx\nb\t \nc\t\nd\ty\n", "lines 3, 4"),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n{"text": "b"}\n{"text": "c", "label": null}\n'
            '{"text": "d", "label": "y"}\n',
            "lines 2, 3",
        ),
        ("a.train", "x a\n b\n\n c\ny d\n", "lines 2, 4"),
        ("a.txt", "__label__x a\nb\n__label__ c\n__label__y d\n", "lines 2, 3"),
    ],
)
def test_rows_without_a_label_are_skipped_if_asked(tmp_path, said, name, text, where):
    path = write(tmp_path / name, text)
    with pytest.raises(DataError, match=r"no label.*unlabelled='skip'"):
        read_labelled(path)
    data = read_labelled(path, unlabelled="skip")
    assert (data.texts, data.labels) == (["a", "d"], ["x", "y"])
    assert said[-1] == f"{path}: 2 of 4 rows have no label and were skipped ({where})"
    (part,) = stream_labelled(path, unlabelled="skip")
    assert part.labels == data.labels


def test_skipped_rows_take_their_further_columns_along_and_the_first_are_named(tmp_path, said):
    rows = "".join(f"t{i},{'' if i % 2 else 'x'},s{i}\n" for i in range(40))
    path = write(tmp_path / "a.csv", "text,label,source\n" + rows)
    data = read_labelled(path, unlabelled="skip", columns=["source"])
    assert data.columns["source"] == [f"s{i}" for i in range(0, 40, 2)]
    assert said == [
        f"{path}: 20 of 40 rows have no label and were skipped (lines 3, 5, 7, 9, 11, ...)"
    ]


def test_rows_keep_their_numbers_where_some_are_left_out(tmp_path):
    table = write(tmp_path / "a.csv", "text,label\na,x\nb,\nc,x\nd,y\n")
    data = read_labelled(table, unlabelled="skip")
    assert (list(data.numbers), list(data.part([0, 2]).numbers)) == ([1, 3, 4], [1, 4])
    lines = write(tmp_path / "a.train", "x a\n\ny b\n")
    assert list(read_labelled(lines).numbers) == [1, 3]
    assert not read_labelled([table, lines], unlabelled="skip").numbers  # of two files
    assert not read_labelled(write(tmp_path / "b.csv", "text,label\na,x\nb,y\n")).numbers


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_missing_text_is_an_empty_one_as_in_csv(tmp_path, said, name):
    rows = [{"text": "a", "label": "x"}, {"text": None, "label": "y"}]
    if name == "a.parquet":
        pytest.importorskip("polars").DataFrame(rows).write_parquet(tmp_path / name)
    else:
        write(tmp_path / name, "".join(f"{json.dumps(row)}\n" for row in rows) + '{"label": "x"}\n')
    data = read_labelled(tmp_path / name)
    assert data.texts == ["a", "", ""][: len(data)]
    assert said[-1] in (
        f"{tmp_path / name}: {n} texts {are} empty"
        for n, are in (("1 of 2", "is"), ("2 of 3", "are"))
    )


def test_missing_labels_of_other_programs(tmp_path, said):
    polars = pytest.importorskip("polars")
    path = tmp_path / "a.parquet"
    frame = polars.DataFrame({"text": ["a", "b", "c"], "label": [1.0, float("nan"), None]})
    frame.write_parquet(path)
    with pytest.raises(DataError, match="row 2: no label in column 'label'"):
        read_labelled(path)  # NaN was a class of its own
    assert read_labelled(path, unlabelled="skip").labels == ["1.0"]
    assert said[-1].endswith("2 of 3 rows have no label and were skipped (rows 2, 3)")
    bad = write(tmp_path / "b.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "label": []}\n')
    with pytest.raises(DataError, match="line 2, column 'label': a list"):
        read_labelled(bad, unlabelled="skip")
    series = write(tmp_path / "c.txt", "x 1 2\n,1,2\ny 3 4\n")
    assert read_labelled(series, form="numbers", unlabelled="skip").labels == ["x", "y"]
    with pytest.raises(DataError, match="no labelled text"):
        read_labelled(write(tmp_path / "d.csv", "text,label\na,\n"), unlabelled="skip")
    with pytest.raises(ConfigError, match="unlabelled must be refuse or skip; got 'drop'"):
        read_labelled(path, unlabelled="drop")


def test_long_fields(tmp_path):
    long = "word " * 100_000
    path = write(tmp_path / "a.csv", as_csv([(long, "x"), ("a", "y")]))
    for limit in (1 << 17, 1 << 29):  # is raised, never lowered: other threads may be reading
        csv.field_size_limit(limit)
        assert read_labelled(path).texts == [long, "a"]
        assert csv.field_size_limit() == max(limit, 1 << 28)
    csv.field_size_limit(1 << 28)


def test_bad_arguments(tmp_path):
    path = write(tmp_path / "a.csv", as_csv())
    with pytest.raises(
        ConfigError, match=r"form must be one of auto, tsv, csv, .*; got 'cvs'; did you mean 'csv'"
    ):
        read_labelled(path, form="cvs")
    with pytest.raises(DataError, match="unknown encoding"):
        read_labelled(path, encoding="utf-9")


# ---- in memory


def test_of():
    data = Labelled.of(ROWS, name="mine")
    assert (data.texts, data.labels, data.name) == (TEXTS, LABELS, "mine")
    assert Labelled.of((TEXTS, LABELS), name="mine") == data
    assert (
        Labelled.of(ROWS[:2]).texts == Labelled.of(tuple(ROWS[:2])).texts == TEXTS[:2]
    )  # two pairs are no columns
    assert Labelled.of(TEXTS, LABELS, name="mine") == data
    assert Labelled.of((["a", "b"], np.array([1, 0]))).labels == [1, 0]
    assert Labelled.of([("a", np.int64(3))]).labels == [3]
    assert data.part([2, 0]).texts == [TEXTS[2], TEXTS[0]]
    assert data.part(np.array([True, False, False, True])).labels == ["good", "bad"]
    assert data.part(slice(1, 3)).texts == TEXTS[1:3]
    assert len(data.part([])) == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((["a"], ["x", "y"]), "texts has 1 texts and 2 labels"),
        ([("a", "x"), "by"], "row 2 of texts must be a pair of text and label; got 'by'"),
        ([("a", "x", 1)], "row 1 of texts must be a pair"),
        (("a", "x"), "row 1 of texts must be a pair"),
        ([("a", "x"), (1, "x")], "row 2 of texts: 1 is not text"),
        ([("a", "")], "row 1 of texts: the label is ''; it must be non-empty text"),
        ([("a", None)], "the label is None"),
        ([("a", 0.5)], r"the label is 0\.5"),
        ([("a", 2**64)], "the label is 18446744073709551616"),
        (
            [("a", "x"), ("b", 1)],
            "row 2 of texts: the label is 1, that of row 1 is 'x'; all must be text, all whole numbers",
        ),
        ([("a", True), ("b", 1)], "row 2 of texts: the label is 1, that of row 1 is True"),
        ([("a", [1]), ("b", ["x"])], "row 2 of texts: the label is 'x', that of row 1 is 1"),
        (
            [([1.0, 2.0], "x"), ("a b", "y")],
            r"row 2 of texts is a text, but the first one is an array of numbers; give either",
        ),
        (
            [([1.0, 2.0], "x"), (None, "y")],
            r"row 2 of texts has the shape \(\), the first one \(2,\)",
        ),
        (
            [(["a", "b"], "x")],
            r"row 1 of texts is a list of words; a classifier reads texts: join them with ' '\.join",
        ),
        ([("\ud800", "x")], "half of a surrogate pair"),
        ([], "texts has no texts; give some"),
    ],
)
def test_bad_pairs(data, message):
    with pytest.raises(DataError, match=message):
        Labelled.of(data)


def test_fingerprint():
    base = Labelled.of([("ab", "x"), ("c", "y")])
    assert base.fingerprint == Labelled.of([("ab", "x"), ("c", "y")], name="other").fingerprint
    others = [
        [("a", "x"), ("bc", "y")],
        [("ab", "y"), ("c", "x")],
        [("c", "y"), ("ab", "x")],
        [("ab", "xy"), ("c", "y")],
    ]
    assert len({base.fingerprint, *(Labelled.of(rows).fingerprint for rows in others)}) == 5
    assert len(base.fingerprint) == 64


def test_as_labelled(tmp_path):
    data = Labelled.of(ROWS)
    assert as_labelled(data) is data
    assert as_labelled(ROWS) == as_labelled((TEXTS, LABELS)) == data
    path = write(tmp_path / "a.tsv", as_tsv())
    assert as_labelled(path).texts == TEXTS
    assert as_labelled(iter(ROWS)) == data
    assert as_labelled(iter(TEXTS), iter(LABELS)) == data
    for wrong in ({"a": "x"}, b"a", 3, "a text"):
        with pytest.raises(DataError, match=r"cannot read labels from a .*; give texts and labels"):
            as_labelled(wrong)
    for twice in (data, path):
        with pytest.raises(DataError, match="has labels of its own"):
            as_labelled(twice, LABELS)


@pytest.mark.parametrize(
    "name", ["missing.tsv", "data/missing.jsonl", "/nowhere/at/all", "~/reviews.csv"]
)
def test_a_str_is_never_a_file(name):
    with pytest.raises(
        DataError, match=rf"looks like a file name.*Path\('{name}'\) or seqloom\.read_labelled"
    ):
        as_labelled(name)


# ---- types of labels


def test_labels_are_sorted_as_what_they_are():
    assert Labelled.of(["a", "b", "c"], [10, 9, -1]).classes == [-1, 9, 10]
    assert Labelled.of(["a", "b"], np.array([True, False])).classes == [False, True]
    assert Labelled.of(["a", "b"], np.array(["x", "y"])).labels == ["x", "y"]
    assert all(
        type(label) is str
        for label in Labelled.of(np.array(["a", "b"]), np.array(["x", "y"])).labels
    )
    assert Labelled.of(["a", "b"], [[2, 10], [2]]).labels == [(2, 10), (2,)]


def test_fingerprints_of_numbers_are_those_of_their_text():
    """So a file of labels and a list of them are seen to be the same data."""
    assert (
        Labelled.of(["a", "b"], [1, 0]).fingerprint
        == Labelled.of(["a", "b"], ["1", "0"]).fingerprint
    )


def test_like():
    def of(*labels):
        return Labelled.of(["text"] * len(labels), list(labels))

    assert of("1", "-2").like([5]).labels == [1, -2]
    assert of(1, -2).like(["1"]).labels == ["1", "-2"]
    assert of("true", "False").like([False, True]).labels == [True, False]
    assert of(True, False).like(["false", "true"]).labels == ["true", "false"]
    assert of(["1", "2"]).like([1]).labels == [(1, 2)]
    data = of("x")
    assert data.like(["a"]) is data
    with pytest.raises(
        DataError, match="has the label '01', but the model learned labels such as 1; give labels"
    ):
        of("01").like([1])
    assert of("01", "7").like([1], strict=False).labels == ["01", 7]


def test_series_of_numbers_with_labels(tmp_path):
    (tmp_path / "ucr.tsv").write_text("1.0000000e+00\t0.5\t-1\t2\tnan\n2\t1\t2\t3\t4\t5\n")
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.progress.say", said.append)
        data = read_labelled(tmp_path / "ucr.tsv")
    assert "label and a series of numbers" in said[0]
    assert data.labels == ["1", "2"]
    assert [series.tolist()[:3] for series in data.examples] == [[0.5, -1.0, 2.0], [1.0, 2.0, 3.0]]
    assert np.isnan(data.examples[0][3])
    assert [len(series) for series in data.examples] == [4, 5]
    (tmp_path / "blanks.txt").write_text("walk 1 2 3\nrun 3 ? 1\n")
    assert read_labelled(tmp_path / "blanks.txt", form="numbers").labels == ["walk", "run"]
    (tmp_path / "wrong.csv").write_text("a,1,2\nb,1,x\n")
    with pytest.raises(DataError, match="line 2: 'x' is not a number"):
        read_labelled(tmp_path / "wrong.csv", form="numbers")
    (tmp_path / "beyond.csv").write_text("a,1,2\nb,1,1e300\n")
    with pytest.raises(DataError, match=r"line 2: the series holds .* infinite or beyond 1e\+15"):
        read_labelled(tmp_path / "beyond.csv", form="numbers")
    (tmp_path / "short.csv").write_text("a,1,2\nb\n")
    with pytest.raises(DataError, match="line 2: no values"):
        read_labelled(tmp_path / "short.csv", form="numbers")
