"""Forecasters compared: what is in the table is what a backtest by hand gives; the report shows the
forecast.
"""

import json

import numpy as np
import pytest

from seqloom import Naive, SeasonalNaive, Series, compare
from seqloom.comparison import ladder as ladders
from seqloom.comparison.ab import ab
from seqloom.comparison.forecasting import ForecastingLadder, horizon_of
from seqloom.comparison.report import write_report
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import bootstrap
from seqloom.testing.forecasting import hours
from tests.comparison.folding import folds


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def found(place):
    return compare(
        hours(400), work=place, rungs=["naive", "seasonal-naive", "smoothing", "arima", "linear"]
    )


def test_every_rung_against_a_backtest_by_hand(found):
    assert [r.name for r in found.results] == [
        "naive",
        "seasonal-naive",
        "smoothing",
        "arima",
        "linear",
    ]
    assert (found.ladder.name, found.sizes) == (
        "forecasting",
        {"train": 280, "valid": 40, "test": 80},
    )
    series = hours(400)
    for r in found.results:
        model = found.bench.fitted[r.name]
        values = series.tracks[0].values
        errors = []
        for origin in range(320, 400 - 24 + 1):
            part = Series.of(
                values[:origin],
                series.times(series.tracks[0])[:origin].tolist(),
                columns=["c0", "c1"],
            )
            errors.append(
                (model.forecast(part).values - values[origin : origin + 24]) / model.scale["std"]
            )
        assert r.measures["mse"] == pytest.approx(np.mean(np.square(errors)), rel=1e-6)
        assert r.measures["forecasts"] == 57
    assert found.best.value < 0.5 * found.results[0].value


def test_differences_are_paired_over_stretches_of_time(found):
    a, b = (found.rows[name] for name in ("naive", "linear"))
    assert found.difference("naive", "linear") == bootstrap.paired(a[:, 0], b[:, 0], a[:, 1])
    assert len(a) == 3  # of the origins 320 to 376: up to 335, up to 359, and the rest


def test_the_report_shows_the_forecast(found, tmp_path):
    pytest.importorskip("vl_convert")
    write_report(found, tmp_path / "r")
    assert "Error by horizon" in (tmp_path / "r" / "report.html").read_text()
    assert "details" in json.loads((tmp_path / "r" / "comparison.json").read_text())


def test_parts_that_are_brought_follow_each_other(place):
    series = hours(300)
    first, second, third = (
        series.between(a, b).alone() for a, b in ((0, 200), (200, 240), (240, 300))
    )
    given_splits = compare(first, valid=second, test=third, rungs=["naive", "linear"], work=place)
    by_hand = given_splits.bench.fitted["linear"].evaluate(series.between(240, 300), samples=0)
    assert given_splits.results[1].value == pytest.approx(by_hand["mse"])
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


def test_horizon_and_season_are_those_that_were_asked_for(place):
    own = Naive(horizon=30)
    for horizon in (
        6,
        12,
    ):  # in the same place: what is kept for one horizon is not taken for the other
        found = compare(
            hours(400), horizon=horizon, season=12, rungs=["seasonal-naive", own], work=place
        )
        made = found.bench.fitted["seasonal-naive"]
        assert (made.config.horizon, made.season) == (horizon, 12)
        for model, r in zip((made, found.bench.fitted[found.results[1].name]), found.results):
            assert r.value == pytest.approx(
                model.evaluate(found.bench.splits.test, horizon=horizon, samples=0)["mse"]
            )
            assert r.measures["forecasts"] == 80 - horizon + 1
        assert f"{horizon} steps ahead" in found.split


def test_the_learning_curve_has_one_horizon(place):
    series = hours(560)  # half of its 392 training steps alone would be forecast by 19
    found = compare(series, rungs=["seasonal-naive"], curve=True, work=place)
    half = SeasonalNaive(horizon=24).fit(series.between(0, 392).between(0.5, 1.0).alone())
    by_hand = half.evaluate(series.between(448, 560), horizon=24, samples=0)["mse"]
    assert [point.size for point in found.curve["seasonal-naive"]] == [196, 392]
    assert found.curve["seasonal-naive"][0].value == pytest.approx(by_hand)


def test_the_test_part_begins_where_it_is_told(place):
    series = hours(400)
    found = compare(series, since="2024-01-11", rungs=["naive"], work=place)
    assert found.sizes == {"train": 210, "valid": 30, "test": 160}
    assert found.split.startswith("from 2024-01-11 on")
    with pytest.raises(ConfigError, match="leave one out"):
        compare(series, test=hours(80), since="2024-01-11", work=place)
    with pytest.raises(DataError, match="the test part has 80 steps, too few to forecast 90"):
        compare(series, horizon=90, work=place)
    with pytest.raises(
        ConfigError, match="forecasters has no option 'horzon'; did you mean 'horizon'"
    ):
        compare(series, horzon=90, work=place)
    with pytest.raises(
        ConfigError, match="language models has no option 'horizon'; it is for forecasters"
    ):
        compare("text", horizon=90, work=place)


def test_folds_never_learn_from_what_comes_later():
    series = hours(200)
    parts = folds(ForecastingLadder(), series, 3)
    assert [(len(train), test.tracks[0].begin, len(test)) for train, test in parts] == [
        (50, 50, 50),
        (100, 100, 50),
        (150, 150, 50),
    ]
    done = ab(series, a="naive", b="seasonal-naive", both={"horizon": 6}, folds=3)
    assert done.winner == "b"
    assert done.figures[1].name == "MAE"
