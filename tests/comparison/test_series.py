"""Forecasters compared: what is in the table is what a backtest by hand gives; the report shows the forecast."""

import json

import numpy as np
import pytest

from seqloom import Naive, Series, compare
from seqloom.comparison import ladder as ladders
from seqloom.comparison.ab import ab
from seqloom.comparison.report import write_report
from seqloom.comparison.series import horizon_of
from seqloom.comparison.trials import SeriesTrials
from seqloom.errors import DataError
from seqloom.metrics import bootstrap
from seqloom.testing.forecaster import hours


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def found(place):
    return compare(hours(400), work=place, rungs=["naive", "seasonal-naive", "smoothing", "arima", "linear"])


def test_every_rung_against_a_backtest_by_hand(found):
    assert [r.name for r in found.results] == ["naive", "seasonal-naive", "smoothing", "arima", "linear"]
    assert (found.ladder.name, found.sizes) == ("forecasting", {"train": 280, "valid": 40, "test": 80})
    series = hours(400)
    for r in found.results:
        model = found.bench.fitted[r.name]
        values = series.tracks[0].values
        errors = []
        for origin in range(320, 400 - 24 + 1):
            part = Series.of(values[:origin], series.times(series.tracks[0])[:origin].tolist(), columns=["c0", "c1"])
            errors.append((model.forecast(part).values - values[origin:origin + 24]) / model.scale["std"])
        assert r.measures["mse"] == pytest.approx(np.mean(np.square(errors)), rel=1e-6)
        assert r.measures["forecasts"] == 57
    assert found.best.value < 0.5 * found.results[0].value


def test_differences_are_paired_over_stretches_of_time(found):
    a, b = (found.segments[name] for name in ("naive", "linear"))
    assert found.difference("naive", "linear") == bootstrap.paired(a[0], b[0], a[1])
    assert len(a[0]) == 3  # of the origins 320 to 376: up to 335, up to 359, and the rest


def test_the_report_shows_the_forecast(found, tmp_path):
    pytest.importorskip("vl_convert")
    write_report(found, tmp_path / "r")
    assert "Error by horizon" in (tmp_path / "r" / "report.html").read_text()
    assert "details" in json.loads((tmp_path / "r" / "comparison.json").read_text())


def test_parts_that_are_brought_follow_each_other(place):
    series = hours(300)
    first, second, third = (series.between(a, b).alone() for a, b in ((0, 200), (200, 240), (240, 300)))
    brought = compare(first, valid=second, test=third, rungs=["naive", "linear"], work=place)
    by_hand = brought.bench.fitted["linear"].evaluate(series.between(240, 300), samples=0)
    assert brought.results[1].value == pytest.approx(by_hand["mse"])
    own = compare(series, rungs=["naive", Naive(horizon=2)], work=place)
    assert "it forecasts 2 steps, this comparison 21" in own.skipped[0].reason


def test_the_horizon_is_a_season_of_the_data():
    assert horizon_of(hours(400)) == 24
    assert horizon_of(hours(100)) == 10
    assert horizon_of(Series.of(np.arange(500.0))) == 24
    months = Series.of(np.arange(144.0), [f"{1949 + m // 12}-{1 + m % 12:02}" for m in range(144)])
    assert horizon_of(months) == 12
    assert ladders.of_data(months)[0].name == "forecasting"
    with pytest.raises(DataError, match="too few to compare forecasters"):
        compare(np.arange(20.0), task="forecasting")


def test_folds_never_learn_from_what_comes_later():
    series = hours(200)
    parts = SeriesTrials(series).split(3)
    assert [(len(train), test.tracks[0].begin, len(test)) for train, test in parts] == [
        (50, 50, 50), (100, 100, 50), (150, 150, 50)]
    done = ab(series, a="naive", b="seasonal-naive", both={"horizon": 6}, folds=3)
    assert done.winner == "b"
    assert done.figures[1].name == "MAE"
