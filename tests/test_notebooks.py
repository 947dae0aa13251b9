"""What a notebook shows of models, results and charts, without a notebook: methods, MIME types and
their content.
"""

import base64
import sys
from html.parser import HTMLParser

import pytest

import seqloom
from seqloom import HMM, NaiveBayes, NGram, Word2Vec
from seqloom.comparison.ab import ab
from seqloom.data.describe import describe
from seqloom.errors import NotFitted
from seqloom.frames import Table, as_frame, html_table


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
