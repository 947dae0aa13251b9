"""`seqloom data`, --column and data: on the command line."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from seqloom.data import catalogue
from seqloom.data.catalogue import Entry, File
from tests.data.server import serving

ROWS = [
    {"id": i, "title": f"title {i}", "meta": {"body": f"the cat sat on mat number {i}\nand slept"}}
    for i in range(80)
]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.delenv("SEQLOOM_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "rows.csv").write_text(
        "body\n" + "".join(f'"{row["meta"]["body"]}"\n' for row in ROWS)
    )
    (tmp_path / "valid.txt").write_text("the cat slept\n")


@pytest.mark.usefixtures("table")
def test_column_everywhere_text_is_read(seqloom):
    column = ("--column", "meta.body", "-q")
    assert (
        seqloom(
            "fit", "ngram", "rows.jsonl", "-o", "m", "--order", "2", "--valid", "valid.txt", *column
        ).code
        == 0
    )
    assert (
        seqloom(
            "fit",
            "ngram",
            "rows.jsonl",
            "-o",
            "d",
            "--order",
            "2",
            "--tokenizer",
            "byte",
            "--unit",
            "document",
            *column,
        ).code
        == 0
    )
    (info,) = seqloom("info", "d", "--json").json()
    assert info["fit"]["units"] == 80
    (of_table,) = seqloom("evaluate", "m", "rows.jsonl", "--json", *column).json()
    (of_other,) = seqloom("evaluate", "m", "rows.csv", "--json", "-q").json()
    assert of_table == of_other
    assert len(seqloom("score", "m", "rows.jsonl", *column).out.splitlines()) == 160  # lines
    scored = seqloom("score", "d", "rows.jsonl", *column).out.splitlines()
    assert [line.split("\t")[1] for line in scored] == [
        f"rows.jsonl:{i}" for i in range(1, 81)
    ]  # rows
    assert seqloom("tokenize", "rows.jsonl", *column).out.splitlines()[1] == "and slept"
    compared = seqloom(
        "compare", "rows.jsonl", "--rungs", "uniform,byte-1", "--no-samples", "--json", *column
    )
    assert compared.json()[0]["bytes"]["test"] > 100
    assert seqloom("compare", "--column", "x").one_line().startswith("--column is for a table")


@pytest.mark.usefixtures("table")
def test_wrong_columns_are_one_line(seqloom):
    found = seqloom("evaluate", "m", "rows.jsonl", "--column", "x")
    assert found.code == 1
    assert "no saved model" in found.one_line() or "m" in found.one_line()
    found = seqloom("fit", "ngram", "rows.jsonl", "-o", "m", "--column", "meta.boddy")
    assert found.one_line() == (
        "rows.jsonl has no column 'meta.boddy'; did you mean 'meta.body'? "
        "It has id, title, meta, meta.body"
    )
    found = seqloom("fit", "ngram", "rows.jsonl", "-o", "m")
    assert (
        found.one_line()
        == "rows.jsonl has 2 columns of text: title, meta.body; say which with --column"
    )
    found = seqloom("tokenize", "rows.csv")
    assert found.err == "rows.csv: reading the column 'body'\n"


@pytest.mark.usefixtures("table")
def test_list(seqloom, tmp_path, monkeypatch):
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "names.txt").write_text("emma\n")
    monkeypatch.setenv("SEQLOOM_DATA", str(tmp_path))
    rows = {row["name"]: row for row in seqloom("data", "list", "--json").json()}
    assert list(rows) == list(catalogue.entries())
    assert rows["names"]["place"] == str(tmp_path / "names")
    assert rows["tinyshakespeare"]["place"].endswith("bundled")
    assert (rows["ptb"]["place"], rows["ptb"]["download"], rows["ptb"]["parts"]) == (
        None,
        False,
        ["train", "valid", "test"],
    )
    text = seqloom("data", "list").out
    assert "not here; set SEQLOOM_DATA" in text
    assert "can be downloaded" in text
    assert "Penn Treebank" in text


@pytest.mark.usefixtures("table")
def test_path_and_names(seqloom, tmp_path):
    assert seqloom("data", "path", "tinyshakespeare").out.strip().endswith("tinyshakespeare.txt")
    assert (
        seqloom("data", "path", "data:tinyshakespeare", "--json")
        .json()[0]["path"]
        .endswith("tinyshakespeare.txt")
    )
    said = seqloom("data", "path", "names").one_line()
    assert said == "the dataset 'names' is not on this machine; run: seqloom data get names"
    assert "cannot be downloaded" in seqloom("data", "path", "ptb/train").one_line()
    assert (
        seqloom("data", "get", "nmaes")
        .one_line()
        .startswith("unknown dataset 'nmaes'; did you mean 'names'?")
    )
    assert "did you mean 'list'" in seqloom("data", "lits").err
    said = seqloom("fit", "ngram", "data:tinyshakespear", "-o", "m").one_line()
    assert said.startswith("unknown dataset 'tinyshakespear'; did you mean 'tinyshakespeare'?")


@pytest.mark.usefixtures("table")
def test_get(seqloom, monkeypatch):
    data = b"to be or not to be\n" * 50
    with serving({"a.txt": data}) as server:
        file = File("text", "a.txt", len(data), hashlib.sha256(data).hexdigest())
        monkeypatch.setattr(
            catalogue,
            "entries",
            lambda: {"toy": Entry("toy", "a toy", "free", (file,), server.url)},
        )
        server.cut = 100
        assert (
            seqloom("data", "get", "toy", "-q")
            .one_line()
            .startswith("the connection was cut after 100 of 950 bytes")
        )
        server.cut = 0
        path = Path(os.environ["SEQLOOM_CACHE"]) / "data" / "toy" / "a.txt"
        assert seqloom("data", "get", "toy").out == f"{path}\n"
        assert seqloom("data", "path", "toy").out == f"{path}\n"
    assert seqloom("data", "get", "toy", "--json").json() == [
        {"name": "toy", "path": str(path)}
    ]  # no server any more
    assert seqloom("fit", "ngram", "data:toy", "-o", "m", "--order", "2").code == 0
    assert seqloom("evaluate", "m", "data:toy").code == 0


def test_help(seqloom):
    text = seqloom("data", "--help").out
    assert "list" in text
    assert "data:NAME" in text
    for name in ("list", "get", "path"):
        assert "Examples:" in seqloom("data", name, "--help").out
