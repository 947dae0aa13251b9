"""What a notebook shows of models, results and charts, without a notebook: methods, MIME types and
their content.
"""

import base64
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import seqloom
from seqloom import (
    HMM,
    Corpus,
    Labelled,
    NaiveBayes,
    NGram,
    Parallel,
    Series,
    Tagged,
    Word2Vec,
    progress,
)
from seqloom.comparison.ab import ab
from seqloom.data.describe import describe
from seqloom.errors import NotFitted
from seqloom.frames import Table, as_frame, html_table
from seqloom.reporters import PlainReporter


class Cells(HTMLParser):
    """The text of all cells; also that tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.cells[-1] += data


@pytest.fixture
def plain(monkeypatch):
    """Neither pandas nor polars."""
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)


def test_a_light_table(plain):
    table = as_frame([{"step": i, "loss": i / 3} for i in range(100)])
    assert isinstance(table, Table)
    assert (table.columns, len(table)) == (["step", "loss"], 100)
    assert table.to_dict()["step"] == list(range(100))
    shown = table._repr_html_()
    assert Cells(shown).cells[:4] == ["step", "loss", "0", "0"]
    assert "…" in shown
    assert "100 rows" in shown
    with pytest.raises(KeyError, match="no column 'x'"):
        _ = table["x"]
    assert as_frame([]).columns == []


@pytest.mark.parametrize("name", ["polars", "pandas"])
def test_a_frame_of_an_installed_library(monkeypatch, name):
    library = pytest.importorskip(name)
    for other in {"polars", "pandas"} - {name}:
        monkeypatch.setitem(sys.modules, other, None)
    frame = as_frame([{"step": 1, "loss": 2.0}, {"step": 2, "valid": 3}])
    assert isinstance(frame, library.DataFrame)
    assert list(frame.columns) == ["step", "loss", "valid"]
    assert list(frame["step"]) == [1, 2]


def test_history_of_counts_vectors_and_hmms(plain, toy_text, tmp_path):
    assert len(NGram(order=2).fit(toy_text).history) == 0
    hmm = HMM(states=2, iterations=4, tolerance=0).fit(toy_text)
    assert hmm.history["step"] == [1, 2, 3, 4]
    assert hmm.history["log_likelihood"] == pytest.approx(hmm.fit_info["log_likelihoods"][:4])
    hmm.save(tmp_path / "hmm")
    loaded = seqloom.load(tmp_path / "hmm").history
    assert loaded["log_likelihood"] == pytest.approx(hmm.fit_info["log_likelihoods"])
    vectors = Word2Vec(dimensions=4, min_count=1, epochs=3).fit(toy_text * 30)
    assert vectors.history["epoch"][-1] == 3
    assert all(0 < loss < 20 for loss in vectors.history["loss"])
    vectors.save(tmp_path / "vectors")
    assert seqloom.load(tmp_path / "vectors").history.to_dict() == {
        "epoch": [1, 2, 3],
        "loss": vectors.fit_info["losses"],
    }
    with pytest.raises(NotFitted, match="not been fitted"):
        _ = Word2Vec().history


def test_history_of_a_network_and_of_a_run_that_goes_on(plain, toy_text, tmp_path):
    pytest.importorskip("torch")
    from seqloom import LSTM, TrainConfig
    from seqloom.storage import TRAINING_LOG, save
    from seqloom.training.checkpoint import LOG

    how = {"train": TrainConfig(steps=4), "valid": toy_text, "run": tmp_path / "run"}
    model = LSTM(d_hidden=4, tokenizer="byte").fit(toy_text * 5, **how)
    history = model.history
    assert [step for step, loss in zip(history["step"], history["loss"]) if loss is not None] == [
        1,
        2,
        3,
        4,
    ]
    assert [value is not None for value in history["valid"]].count(True) >= 1
    again = LSTM(d_hidden=4, tokenizer="byte").fit(
        toy_text * 5, **how
    )  # there is nothing left to do
    assert again.history["loss"] == history["loss"]
    save(model, tmp_path / "model", {TRAINING_LOG: tmp_path / "run" / LOG})
    assert seqloom.load(tmp_path / "model").history.to_dict() == history.to_dict()
    (tmp_path / "model" / TRAINING_LOG).write_text(
        '{"step": 1, "loss": 2.0}\n{"step": [1]}\n{"ste\n[1]\n' + "[" * 100_000
    )
    assert seqloom.load(tmp_path / "model").history.to_dict() == {"step": [1], "loss": [2.0]}


def test_results_are_tables(toy_text):
    rows = [(f"good {i}", "a <b>") for i in range(30)] + [(f"bad {i}", "c") for i in range(30)]
    result = NaiveBayes().fit(rows).evaluate(rows)
    cells = Cells(result._repr_html_()).cells
    assert cells[:2] == ["accuracy", "1.0000"]
    assert str(result.signature) in result._repr_html_()
    found = ab(rows, model="naive-bayes", b={"ngrams": 2})
    shown = Cells(found._repr_html_()).cells
    assert shown[:4] == ["", "A", "B", "B - A"]
    assert "accuracy" in shown
    report = describe(toy_text * 5, kinds=["word"])
    shown = Cells(report._repr_html_()).cells
    assert "whitespace" not in shown
    assert {"word", "lengths"} & set(shown) == {"word"}
    assert html_table((), [["<i>"]]) == "<table><tbody><tr><td>&lt;i&gt;</td></tr></tbody></table>"


def test_charts_show_themselves(toy_text, monkeypatch):
    altair = pytest.importorskip("altair")
    sheet = seqloom.inspect.states(HMM(states=2, iterations=2).fit(toy_text), "the dog")
    bundle = sheet._repr_mimebundle_()
    vega = f"application/vnd.vegalite.{altair.SCHEMA_VERSION.split('.')[0]}+json"
    assert set(bundle) == {"text/plain", vega, "image/png"}
    assert bundle["text/plain"].startswith(sheet.title)
    assert {"$schema", "config"} <= bundle[vega].keys()
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert set(sheet._repr_mimebundle_(include={"image/png"})) == {"image/png"}
    assert "image/png" not in sheet._repr_mimebundle_(exclude={"image/png"})
    other = seqloom.inspect.states(HMM(states=2, iterations=2).fit(toy_text), "the dog")
    monkeypatch.setitem(sys.modules, "altair", None)
    alone = other._repr_mimebundle_()
    assert set(alone) == {"text/plain"}
    assert "pip install 'seqloom[charts]'" in alone["text/plain"]


def test_a_comparison_is_a_table_with_its_answer(toy_text, tmp_path):
    result = seqloom.compare(toy_text * 40, rungs=["byte-1", "byte-3"], work=tmp_path)
    shown = result._repr_html_()
    cells = Cells(shown).cells
    assert {"rung", "byte-1", "byte-3", f"{result.best.value:.3f}"} <= set(cells)
    assert "The best is byte-3" in shown


LONG = "word " * 100_000
BIG = {
    "texts": (
        Labelled.of([LONG, "b"] * 50, list(range(100)), columns={"source": ["x"] * 100}),
        ["100 texts", "0 (1)", "and 95 more", "column: 'source'", "first: 'word word", "-> 0>"],
    ),
    "several labels": (
        Labelled.of([("a", "b\n")] * 3, [["x", "y"], ["x"], []]),
        ["3 pairs of texts", "'x' (2), 'y' (1)", r"('a', 'b\n') -> ('x', 'y')>"],
    ),
    "arrays": (
        Labelled.of([np.zeros((300, 2), np.float32)] * 2, ["x", "y"]),
        ["2 arrays", "first: array (300, 2) -> 'x'"],
    ),
    "sentences": (
        Tagged.of([(["the", "dog"], ["D", "N"])] * 3, name="a\nname"),
        [r"'a\nname'", "3 sentences, 6 words", "'D' (3), 'N' (3)", "first: 'the/D dog/N'"],
    ),
    "pairs": (
        Parallel.of([(LONG, LONG)] * 3, source="en", target="fr"),
        ["3 pairs", "first: 'word word"],
    ),
    "frames": (
        Parallel.of([np.zeros((4, 2))] * 2, ["a", "b"]),
        ["2 pairs", "source -> target", "array (4, 2) -> 'a'"],
    ),
    "series": (
        Series.of({"time": ["2020-01-01", "2020-01-02", "2020-01-03"], "x": [1.5, 2, 3]}),
        ["3 steps of 1 day", "column: 'x'", "first: 2020-01-01: [1.5]"],
    ),
    "many columns": (
        Series.of(np.zeros((5, 400))),
        ["5 steps of 1 row", "'value 1', ", "and 395 more"],
    ),
    "text": (
        Corpus.from_texts([LONG, "b"]),
        ["2 lines", "500,003 bytes", "first: 'word word"],
    ),
}


@pytest.mark.parametrize("kind", BIG)
def test_data_shows_itself_in_one_line(kind):
    data, facts = BIG[kind]
    shown = repr(data)
    assert shown.startswith(f"<{type(data).__name__} ")
    assert len(shown) < 500
    assert shown.isprintable()
    for fact in facts:
        assert fact in shown


def test_a_text_in_files_shows_itself_without_being_read(tmp_path):
    (tmp_path / "a.txt").write_text("to be\nor not\n")
    (tmp_path / "b.csv").write_text("id,text\n1,good\n2,\n")
    said = []
    with progress.reporting(Listener(said)):
        assert repr(seqloom.read(tmp_path / "a.txt")).endswith("a.txt': 13 bytes; first: 'to be'>")
        assert repr(seqloom.read(tmp_path / "b.csv", column="text")).endswith(
            "b.csv': column: 'text'; first: 'good'>"
        )
        gone = seqloom.read(tmp_path / "a.txt")
        (tmp_path / "a.txt").unlink()
        assert repr(gone).startswith("<Corpus ")
    assert said == []


class Listener(PlainReporter):
    def __init__(self, said):
        self.say = said.append


def test_results_print_their_table_and_have_a_frame(plain, toy_text, tmp_path):
    rows = [(f"good {i}", "+") for i in range(30)] + [(f"bad {i}", "-") for i in range(30)]
    result = NaiveBayes().fit(rows).evaluate(rows)
    assert repr(result) == str(result)
    assert repr(result).startswith("accuracy ")
    frame = result.to_frame()
    assert frame.columns[:4] == [
        "model",
        "accuracy",
        "accuracy_interval_low",
        "accuracy_interval_high",
    ]
    assert frame["accuracy"] == [1.0]
    found = ab(rows, model="naive-bayes", b={"ngrams": 2})
    assert repr(found) == str(found) == found.table()
    assert found.to_frame()["name"][0] == "accuracy"
    assert found.to_frame()["difference"] == [figure.difference for figure in found.figures]
    compared = seqloom.compare(toy_text * 40, rungs=["byte-1", "byte-3"], work=tmp_path)
    shown = repr(compared).split("\n")
    assert shown[1].startswith("rung ")
    assert "The best is byte-3" in repr(compared)
    assert max(map(len, shown[:5])) <= 120
    frame = compared.to_frame()
    assert frame["name"] == ["byte-1", "byte-3"]
    assert frame["bits_per_byte"] == [row.bits_per_byte for row in compared.results]
    best = compared.best.value
    assert frame["versus_best_difference"] == [
        pytest.approx(frame["bits_per_byte"][0] - best),
        None,
    ]
    series = np.arange(60.0) % 7
    model = seqloom.Naive(horizon=50).fit(series)
    ahead = model.forecast(series)
    assert len(ahead.to_frame()) == 50
    assert "print shows all" in repr(ahead)
    assert len(repr(ahead).split("\n")) == 43
    assert repr(model.anomalies(series)) == str(model.anomalies(series))
