"""The learning curve: its points are what training on that much text gives, kept, resumed and
inside the budget.
"""

import dataclasses
import json

import pytest

from seqloom import Corpus, NGram, compare, progress
from seqloom.comparison import curve as curves
from seqloom.comparison.bench import Attempt, Bench
from seqloom.comparison.curve import PARTS, CurvePoint, best_by_size, learning_curve, measure
from seqloom.comparison.language import LanguageLadder
from seqloom.comparison.rungs import RUNGS
from seqloom.comparison.table import curve_table

NAMES = ["uniform", "byte-2", "byte-4", "bpe-2", "byte-mixture"]
LADDER = LanguageLadder()
CHOSEN = [r for r in RUNGS if r.name in NAMES]


class Ear:
    def __init__(self):
        self.said = []

    def begin(self, label, total, unit):
        return type("Bar", (), {"advance": lambda self, n=1: None})()

    def end(self, task):
        pass

    def say(self, message):
        self.said.append(message)


@pytest.fixture(scope="module")
def text(shakespeare):
    return Corpus.from_texts(shakespeare[:40_000], "piece")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def found(text, place):
    return compare(text, rungs=NAMES, work=place, curve=True)


@pytest.fixture
def counted(monkeypatch):
    """Which rungs are trained for the curve."""
    seen = []
    honest = curves.measure
    monkeypatch.setattr(
        curves, "measure", lambda *given: seen.append(given[1].rung.name) or honest(*given)
    )
    return seen


def test_the_last_point_is_the_rung_itself(found, text):
    bench = LADDER.bench(text.split((0.8, 0.1, 0.1)))
    for rung in CHOSEN[1:]:  # the mixture needs the others, which `measure` leaves on the bench
        result = next(r for r in found.results if r.name == rung.name)
        last = found.curve[rung.name][-1]
        assert last == CurvePoint(found.sizes["train"], result.bits_per_byte, result.train_seconds)
        assert measure(LADDER, Attempt(rung, bench)).value == pytest.approx(last.value, abs=1e-6)


def test_points_are_what_training_on_the_beginning_gives(found, text):
    train, _, test = text.split((0.8, 0.1, 0.1))
    for part, point in zip(PARTS, found.curve["byte-4"]):
        start = train.text()[: point.size]
        assert len(train.text()) / part == pytest.approx(point.size, rel=0.1)
        assert start.endswith("\n")
        by_hand = NGram(order=4, tokenizer="byte", unit="stream").fit(start).bits_per_byte(test)
        assert point.value == pytest.approx(by_hand, abs=1e-6)


def test_more_text_is_better_and_every_rung_but_the_ruler_has_a_curve(found):
    assert list(found.curve) == ["byte-2", "byte-4", "bpe-2", "byte-mixture"]
    for points in found.curve.values():
        assert len(points) == len(PARTS) + 1
        assert [p.size for p in points] == sorted(p.size for p in points)
        assert points[0].value > points[-1].value


def test_the_tokenizer_has_not_seen_the_rest_of_the_text(text, monkeypatch):
    """A tokenizer trained on everything would flatter the small parts."""
    sizes = []
    bench = LADDER.bench(text.split((0.8, 0.1, 0.1)))
    honest = Bench.tokenizer
    monkeypatch.setattr(
        Bench,
        "tokenizer",
        lambda self, kind: sizes.append(self.splits.train.n_bytes) or honest(self, kind),
    )
    small = LADDER.smaller(bench.splits.train, 4)
    rung = next(r for r in RUNGS if r.name == "bpe-2")
    measure(LADDER, Attempt(rung, LADDER.bench(dataclasses.replace(bench.splits, train=small))))
    assert sizes == [small.n_bytes]


def test_a_second_run_reads_the_points(text, place, found, counted):
    again = compare(text, rungs=NAMES, work=place, curve=True)
    assert counted == []
    assert again.curve == found.curve


def test_it_goes_on_where_it_stopped(text, place, found, counted):
    """A missing and a damaged point are made again, the mixture's from models that are trained again too."""
    folder = next(place.glob("*/curve"))
    next(folder.glob("byte-2-*-8.json")).unlink()
    next(folder.glob("byte-4-*-16.json")).write_text("{")
    next(folder.glob("byte-mixture-*-4.json")).unlink()
    again = compare(text, rungs=NAMES, work=place, curve=True)
    assert sorted(counted) == ["byte-2", "byte-4", "byte-mixture"]
    for name, points in found.curve.items():
        assert [(p.size, p.value) for p in again.curve[name]] == [(p.size, p.value) for p in points]
    assert not list(folder.glob("*.partial"))


def test_an_interrupt_keeps_the_finished_points(text, tmp_path, monkeypatch):
    honest, seen = curves.measure, []

    def stop(ladder, attempt):
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(attempt.rung.name)
        return honest(ladder, attempt)

    monkeypatch.setattr(curves, "measure", stop)
    with pytest.raises(KeyboardInterrupt):
        compare(text, rungs=["byte-2", "byte-4"], work=tmp_path, curve=True)
    assert len(list(tmp_path.glob("*/curve/*.json"))) == 3
    monkeypatch.setattr(
        curves, "measure", lambda *given: seen.append(given[1].rung.name) or honest(*given)
    )
    assert (
        len(compare(text, rungs=["byte-2", "byte-4"], work=tmp_path, curve=True).curve["byte-4"])
        == 5
    )
    assert len(seen) == 2 * len(PARTS)


def test_another_set_of_rungs_is_another_mixture(text, place, found):
    fewer = compare(text, rungs=["byte-2", "bpe-2", "byte-mixture"], work=place, curve=True)
    assert fewer.curve["byte-mixture"][0].value != found.curve["byte-mixture"][0].value


def test_points_that_would_take_too_long_are_left_out_and_said(text, tmp_path):
    bench = LADDER.bench(text.split((0.8, 0.1, 0.1)))
    slow = {"byte-2": CurvePoint(32_000, 3.0, 1600.0)}  # 100 s for the smallest part
    ear = Ear()
    with progress.reporting(ear):
        curve = learning_curve(LADDER, CHOSEN, bench, slow, tmp_path, minutes=1)
    assert curve == {"byte-2": [slow["byte-2"]]}
    assert len(ear.said) == len(PARTS)
    assert "byte-2 on 1/16" in ear.said[0]


def test_little_text_has_a_short_curve():
    tiny = compare("to be or not to be, that is the question\n" * 80, rungs=["byte-2"], curve=True)
    assert [p.size for p in tiny.curve["byte-2"]] == sorted({p.size for p in tiny.curve["byte-2"]})
    assert (
        len(tiny.curve["byte-2"]) == 3
    )  # 2,600 bytes of training text: a quarter is 650, an eighth too little


def test_a_table_of_long_rows_has_a_curve(shakespeare, tmp_path):
    """Rows are not cut, so some parts are nothing and some are the same."""
    rows = [shakespeare[i : i + 3000] for i in range(0, 30_000, 3000)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"t": row}) + "\n" for row in rows))
    found = compare(tmp_path / "rows.jsonl", rungs=["byte-2"], work=tmp_path / "work", curve=True)
    assert [p.size for p in found.curve["byte-2"]] == [
        len(row) * 3001 for row in ("r", "rr", "rrrr", "rrrrrrrr")
    ]
    rows = [shakespeare[:9000], rows[0][:1000], rows[1][:800]]
    (tmp_path / "three.jsonl").write_text("".join(json.dumps({"t": row}) + "\n" for row in rows))
    short = compare(tmp_path / "three.jsonl", rungs=["byte-2"], work=tmp_path / "work", curve=True)
    assert len(short.curve["byte-2"]) == 1  # the training part is one row


def test_without_being_asked_there_is_none(text, place):
    plain = compare(text, rungs=["byte-2"], work=place)
    assert plain.curve == {}
    assert "curve" not in plain.to_dict()


def test_tables_and_json(found):
    header, rows = curve_table(found)
    assert len(header) == len(PARTS) + 2
    assert [row[0] for row in rows] == list(found.curve)
    assert rows[0][-1] == f"{found.curve['byte-2'][-1].value:.3f}"
    values = json.loads(json.dumps(found.to_dict()))["curve"]["byte-4"]
    first = found.curve["byte-4"][0]
    assert values[0] == {
        "bytes": first.size,
        "bits_per_byte": first.value,
        "seconds": first.seconds,
    }
    crossing = {
        "a": [CurvePoint(1, 5.0, 0), CurvePoint(2, 3.0, 0)],
        "b": [CurvePoint(1, 4.0, 0), CurvePoint(2, 3.5, 0)],
    }
    assert best_by_size(crossing, lower=True) == [(1, "b", 4.0), (2, "a", 3.0)]
    assert best_by_size(crossing, lower=False) == [(1, "a", 5.0), (2, "b", 3.5)]


def test_a_network_has_the_same_minutes_on_each_part(text, tmp_path, monkeypatch):
    """Only the data differs; and that it takes as long on each is known when time is short."""
    seen = []

    def measured(ladder, attempt):
        train = attempt.rung.train(attempt.bench)
        seen.append((attempt.rung.name, train.minutes, attempt.bench.splits.train.n_bytes))
        return CurvePoint(attempt.bench.splits.train.n_bytes, 3.0, 60.0)

    monkeypatch.setattr(curves, "measure", measured)
    rungs = [next(r for r in RUNGS if r.name == "lstm")]
    bench = dataclasses.replace(LADDER.bench(text.split((0.8, 0.1, 0.1))), minutes=1.0)
    finished = {"lstm": CurvePoint(32_000, 3.0, 60.0)}
    curve = learning_curve(LADDER, rungs, bench, finished, tmp_path / "all", minutes=10)
    assert [minutes for _, minutes, _ in seen] == [1.0] * len(PARTS)
    assert len({size for _, _, size in seen}) == len(PARTS)
    assert len(curve["lstm"]) == len(PARTS) + 1
    short = learning_curve(LADDER, rungs, bench, finished, tmp_path / "short", minutes=2.5)
    assert len(short["lstm"]) == 2 + 1  # two of a minute, and the rung itself
