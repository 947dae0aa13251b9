"""Every registered forecaster keeps the rules of `seqloom.testing`. A new one is tested here by
being in the registry.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from seqloom import Series, registry
from seqloom.contracts import Forecaster
from seqloom.errors import ConfigError, DataError
from seqloom.testing.forecasting import HELD_OUT, RULES, SERIES, hours
from seqloom.testing.rules import check, fit, specimen

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "forecaster"]
QUICK = {"forecaster": {"window": 48, "d_hidden": 8}}


def made(name, **options):
    return registry.model_class(name)(**{**QUICK.get(name, {}), **options})


@cache
def subject(name):
    return specimen(made(name, horizon=6), Forecaster, None, SERIES, HELD_OUT)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, rule):
    check(rule, subject(name))


@pytest.mark.parametrize("name", NAMES)
def test_several_series_are_each_answered_alone(name):
    a, b = hours(200, seed=3), hours(150, seed=4)
    both = replace(a, tracks=(replace(a.tracks[0], key="a"), replace(b.tracks[0], key="b")))
    model = fit(made(name, horizon=6), both)
    found = model.forecast(both)
    assert [track.key for track in found.tracks] == ["a", "b"]
    for track, series in zip(found.tracks, (a, b)):
        np.testing.assert_allclose(track.values, model.forecast(series).values, rtol=1e-5)
    assert {row["key"] for row in found.rows()} == {"a", "b"}


@pytest.mark.parametrize("name", NAMES)
def test_the_data_is_what_was_learnt(name):
    model = subject(name).model
    track = SERIES.tracks[0]
    daily = Series.of(
        track.values,
        [f"2024-{1 + d // 28:02}-{1 + d % 28:02}" for d in range(300)],
        columns=["c0", "c1"],
    )
    with pytest.raises(DataError, match=r"steps of 1 day, the model learned from steps of 1 hour"):
        model.forecast(daily)
    with pytest.raises(DataError, match="has no column 'c0'"):
        model.forecast(replace(SERIES, columns=("x", "y")))
    with pytest.raises(DataError, match="too few to learn to forecast 6"):
        fit(made(name, horizon=6), [1.0, 2.0, 3.0])
    with pytest.raises(ConfigError, match="season 200 needs 400 steps"):
        fit(made(name, horizon=6, season=200), SERIES)


@pytest.mark.parametrize("name", NAMES)
def test_where_the_training_data_ended_the_judgement_begins(name, monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    model = fit(made(name, horizon=6), SERIES.between(0, 200))
    by_itself, asked = model.backtest(SERIES), model.backtest(SERIES.between(200, 300))
    assert any("where the training data ended" in line for line in said)
    np.testing.assert_array_equal(by_itself.point, asked.point)
    assert by_itself.origins.min() == 200
    shown = SERIES.clock.show(int(SERIES.times(SERIES.tracks[0])[250]))
    assert model.backtest(SERIES, since=shown).origins.min() == 250
    with pytest.raises(DataError, match="ends before"):
        model.backtest(SERIES, since="2030-01-01")


def test_the_former_name_of_since(monkeypatch):
    from seqloom import inspect

    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    model = registry.model_class("naive")(horizon=4).fit(SERIES.between(0, 200))
    since = SERIES.clock.show(int(SERIES.times(SERIES.tracks[0])[250]))
    for ask in (
        lambda **time: model.forecast(SERIES, **time).rows(),
        lambda **time: model.backtest(SERIES, **time).point.tolist(),
        lambda **time: model.evaluate(SERIES, samples=0, **time).to_dict(),
        lambda **time: model.anomalies(SERIES, **time).to_dict(),
        lambda **time: inspect.forecast(model, SERIES, **time).data,
    ):
        del said[:]
        new = ask(since=since)
        assert "start is now called since" not in said
        assert ask(start=since) == new
        assert said.count("start is now called since") == 1
        with pytest.raises(
            ConfigError, match="start is the former name of since; give one of them"
        ):
            ask(since=since, start=since)


def test_a_planted_future_is_of_no_use():
    """A column that holds what another will be in six steps: a model that could look ahead would be
    without error.

    Fitted and judged on it, no rung is better than on the same data without the plant; one that is
    told the future in a column known in advance is.
    """
    rng = np.random.default_rng(0)
    noise = rng.normal(size=406)  # nothing can be known about it
    values = noise[:400]
    plant = np.stack([values, noise[6:]], axis=1)
    alone, planted = (Series.of(v.reshape(400, -1)) for v in (values, plant))
    for name in NAMES:
        errors = []
        for series in (alone, planted):
            model = fit(made(name, horizon=6), series.between(0, 300))
            done = model.backtest(series.between(300, 400))
            errors.append(float(np.nanmean((done.truth - done.point)[..., 0] ** 2)))
        assert errors[1] > 0.6 * errors[0], name
    told = Series.of({"v": values, "next": values}, known_columns=["next"])
    cheat = made("linear-window", horizon=6, window=4, ridge=1e-6, normalise="none").fit(
        told.between(0, 300)
    )
    assert cheat.evaluate(told.between(300, 400))["mse"] < 1e-3
