"""Forecasters against plain loops over the equations, against scikit-learn, and against numbers of
statsmodels.
"""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from seqloom import Arima, ExponentialSmoothing, LinearWindow, Naive, SeasonalNaive, Series, load
from seqloom.data.forecasting_windows import Prepared, Windows
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.testing.forecasting import hours

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "statsmodels.json").read_text())


def windows(past):
    past = np.asarray(past, float)
    return Windows(past, np.ones(past.shape, bool), np.zeros((len(past), past.shape[1] + 50, 0)))


def wave(n=120, season=12, seed=0):
    rng, t = np.random.default_rng(seed), np.arange(n)
    return 10 + 0.05 * t + 3 * np.sin(2 * np.pi * t / season) + 0.3 * rng.normal(size=n)


def test_repeating():
    series = Series.of(np.stack([wave(), wave(seed=1)], axis=1))
    assert (
        Naive(horizon=3).fit(series).forecast(series).values.tolist()
        == [series.tracks[0].values[-1].tolist()] * 3
    )
    model = SeasonalNaive(horizon=14, season=12).fit(series)
    last = series.tracks[0].values[-12:]
    np.testing.assert_allclose(model.forecast(series).values, np.concatenate([last, last[:2]]))
    assert model.label() == "seasonal-naive-12"


# ---- linear window


@pytest.mark.parametrize("weights", ["shared", "individual"])
@pytest.mark.parametrize("normalise", ["last", "mean", "none"])
def test_the_linear_window_is_ridge_regression(weights, normalise):
    linear_model = pytest.importorskip("sklearn.linear_model")
    series = hours(150)
    model = LinearWindow(horizon=5, window=7, ridge=0.3, weights=weights, normalise=normalise).fit(
        series, valid=series
    )
    scaled = (series.tracks[0].values - model.scale["mean"]) / model.scale["std"]
    rows = {c: ([], []) for c in range(2)}
    for origin in range(7, 150 - 5 + 1):
        for c in range(2):
            past = scaled[origin - 7 : origin, c]
            base = {"last": past[-1], "mean": past.mean(), "none": 0.0}[normalise]
            rows[c][0].append(past - base)
            rows[c][1].append(scaled[origin : origin + 5, c] - base)
    parts = {c: (np.array(x), np.array(y)) for c, (x, y) in rows.items()}
    whole = np.concatenate([parts[0][0], parts[1][0]]), np.concatenate([parts[0][1], parts[1][1]])
    for c in range(2):
        x, y = whole if weights == "shared" else parts[c]
        peer = linear_model.Ridge(alpha=(0.3 + 1e-9) * len(x)).fit(x, y)
        mine = model.weights[0 if weights == "shared" else c]
        np.testing.assert_allclose(mine[:-1].T, peer.coef_, atol=1e-6)
        np.testing.assert_allclose(mine[-1], peer.intercept_, atol=1e-6)


def test_a_level_that_was_never_seen_changes_nothing():
    series = hours(200)
    model = LinearWindow(horizon=4, window=24).fit(series)
    higher = series.tracks[0].values + 1000
    np.testing.assert_allclose(
        model.forecast(
            Series.of(higher, series.times(series.tracks[0]).tolist(), columns=["c0", "c1"])
        ).values,
        model.forecast(series).values + 1000,
        rtol=1e-6,
    )


def test_columns_known_in_advance_count():
    rng = np.random.default_rng(0)
    promotion = rng.integers(0, 2, 240).astype(float)
    sold = 50 + 20 * promotion + rng.normal(size=240)
    frame = {"sold": [*sold[:200], *[None] * 40], "promotion": promotion}
    series = Series.of(frame, known_columns=["promotion"])
    model = LinearWindow(horizon=10, window=5, ridge=1e-4).fit(series)
    np.testing.assert_allclose(model.forecast(series).values, sold[200:210], atol=5)
    blind = LinearWindow(horizon=10, window=5).fit(Series.of(sold[:200]))
    assert np.abs(blind.forecast(sold[:200]).values - sold[200:210]).max() > 8
    short = Series.of({"sold": sold, "promotion": promotion}, known_columns=["promotion"])
    with pytest.raises(
        DataError, match="promotion must be known 10 steps after the last value, and is for 0"
    ):
        model.forecast(short)


# ---- exponential smoothing


def smoothed(values, alpha, beta, gamma, phi, cycle, level, trend, season, horizon):
    """The equations, one number at a time; season of the next steps first."""
    season = list(season)
    for y in values:
        error = y - (level + phi * trend + season[0])
        level, trend = level + phi * trend + alpha * error, phi * trend + beta * error
        season = [*season[1:], season[0] + gamma * error]
    ahead = []
    for h in range(1, horizon + 1):
        ahead.append(level + sum(phi**i for i in range(1, h + 1)) * trend + season[(h - 1) % cycle])
    return ahead


@pytest.mark.parametrize(
    ("trend", "seasonal"), [("damped", True), ("additive", True), ("none", True), ("damped", False)]
)
def test_smoothing_follows_the_equations(trend, seasonal):
    values = wave()
    model = ExponentialSmoothing(
        horizon=9, season=12, trend=trend, seasonal=seasonal, window=50
    ).fit(values)
    alpha, beta, gamma, phi = model.constants[:, 0]
    assert (beta == 0) == (trend == "none")
    assert (phi == 1) == (trend == "additive")
    assert (gamma == 0) == (not seasonal)
    past = (values[-50:] - model.scale["mean"]) / model.scale["std"]
    cycle = 12 if seasonal else 1
    if seasonal:
        means = past[:12].mean(), past[12:24].mean()
        slope = (means[1] - means[0]) / 12
        level = means[0] - slope * 6.5
        season = [
            (past[k] - level - slope * (k + 1) + past[12 + k] - level - slope * (k + 13)) / 2
            for k in range(12)
        ]
    else:
        slope = (past[3] - past[0]) / 3
        level, season = past[:4].mean() - slope * 2.5, [0.0]
    wanted = smoothed(
        past, alpha, beta, gamma, phi, cycle, level, slope if trend != "none" else 0.0, season, 9
    )
    np.testing.assert_allclose(
        model.forecast_windows(windows([past[:, None]]), 9)[0, :, 0], wanted, rtol=1e-9
    )


def test_the_constants_are_about_the_best():
    """No point of a coarse grid is better by more than a little on the windows that they were chosen by."""
    values = wave(240)
    model = ExponentialSmoothing(horizon=6, season=12, window=48).fit(values)
    ((past, truth),) = [
        (part.past, after) for part, after in model.windows_of(Series.of(values), most=60)
    ]
    mine = np.mean((model.forecast_windows(windows(past), 6) - truth) ** 2)
    for alpha in (0.05, 0.3, 0.8):
        for gamma in (0.001, 0.1, 0.4):
            model.constants = np.array([[alpha], [0.001], [gamma], [0.98]])
            assert mine < 1.03 * np.mean((model.forecast_windows(windows(past), 6) - truth) ** 2)


def test_smoothing_agrees_with_statsmodels():
    """The equations, which the model follows, give the numbers of its Holt-Winters with a damped
    trend from the same constants and start (tests/golden/statsmodels_answers.py); its forecast of
    the twelfth step leaves out the last change of the season.
    """
    case = GOLDEN["smoothing"]
    given = [case[name] for name in ("alpha", "beta", "gamma", "phi")]
    start = case["level"], case["trend"], case["season"]
    for n, wanted in (
        (0, case["fitted"][0]),
        (1, case["fitted"][1]),
        (57, case["fitted"][57]),
        (95, case["fitted"][95]),
    ):
        assert smoothed(case["values"][:n], *given, 12, *start, 1)[0] == pytest.approx(wanted)
    np.testing.assert_allclose(
        smoothed(case["values"], *given, 12, *start, 11), case["forecast"][:11], rtol=1e-6
    )


# ---- ARIMA


def arma_forecast(values, phi, theta, last, cycle, differences, horizon):
    """Plain loops: differences, errors, predictions, and back again."""
    y = list(values)
    u = [y[t] - y[t - cycle] for t in range(cycle, len(y))] if cycle > 1 else y
    w, kept = u, []
    for _ in range(differences):
        kept.append(w[-1])
        w = [b - a for a, b in pairwise(w)]
    weights = {0: 1.0, **{j + 1: x for j, x in enumerate(theta)}}
    if cycle > 1:
        for lag, x in list(weights.items()):
            weights[lag + cycle] = weights.get(lag + cycle, 0.0) + last * x
    errors = []
    for t in range(len(w) + horizon):
        known = t >= len(phi)
        said = (
            sum(phi[i] * w[t - 1 - i] for i in range(len(phi)))
            + sum(x * errors[t - lag] for lag, x in weights.items() if 0 < lag <= t)
            if known
            else 0.0
        )
        if t == len(w):
            w = [*w, said]
            errors.append(0.0)
        else:
            errors.append(w[t] - said if known else 0.0)
    ahead = w[-horizon:]
    for level in reversed(kept):
        ahead = [level + sum(ahead[: h + 1]) for h in range(horizon)]
    if cycle > 1:
        whole = y[-cycle:]
        for step in ahead:
            whole.append(step + whole[-cycle])
        ahead = whole[cycle:]
    return ahead


@pytest.mark.parametrize(
    ("ar", "differences", "ma", "seasonal"),
    [(2, 0, 1, True), (1, 1, 2, True), (0, 2, 1, False), (3, 0, 0, False), (0, 1, 0, True)],
)
def test_arima_follows_the_equations(ar, differences, ma, seasonal):
    values = wave()
    model = Arima(
        horizon=15, season=12, ar=ar, differences=differences, ma=ma, seasonal=seasonal, window=60
    ).fit(values)
    past = (values[-60:] - model.scale["mean"]) / model.scale["std"]
    found = model.coefficients[:, 0]
    wanted = arma_forecast(
        past,
        found[:ar],
        found[ar : ar + ma],
        found[-1] if seasonal else 0.0,
        12 if seasonal else 1,
        differences,
        15,
    )
    np.testing.assert_allclose(
        model.forecast_windows(windows([past[:, None]]), 15)[0, :, 0], wanted, rtol=1e-8, atol=1e-10
    )


def test_arima_agrees_with_statsmodels():
    """From the same coefficients the same forecast; its own, at the maximum of the likelihood, have
    no smaller squares.
    """
    case = GOLDEN["arima"]
    values, theirs = np.array(case["values"]), np.array(case["coefficients"])[:, None]
    model = Arima(horizon=12, ar=2, differences=0, ma=1, seasonal=False, window=200).fit(
        values, valid=values
    )
    ((past, _),) = [
        (part.past, after) for part, after in model.windows_of(Series.of(values), most=60)
    ]
    squares = [(model._errors(past, some) ** 2).sum() for some in (model.coefficients, theirs)]
    assert 0.99 * squares[1] < squares[0] < squares[1]
    model.coefficients = theirs
    np.testing.assert_allclose(model.forecast(values).values, case["forecast"], rtol=2e-3)


def test_arima_chooses_differences():
    rng = np.random.default_rng(0)
    walk, noise = np.cumsum(rng.normal(size=300)), rng.normal(size=300)
    assert [Arima(horizon=2).fit(values).differences for values in (walk, noise)] == [1, 0]
    with pytest.raises(DataError, match="too short for this ARIMA"):
        Arima(horizon=2, season=12, window=12).fit(wave())


# ---- intervals and anomalies


def test_intervals_hold_as_often_as_they_say():
    values = wave(5000)
    for model in (
        SeasonalNaive(horizon=6, season=12),
        LinearWindow(horizon=6, season=12, window=24),
    ):
        result = model.fit(values[:4000]).evaluate(values[4000:])
        assert abs(result["coverage_80"] - 0.8) < 0.05
        assert abs(result["coverage_95"] - 0.95) < 0.03
        assert result["mase"] < 1.2


def test_every_interval_holds_its_forecast():
    """A walk that only ever rises: repeating the last value is always too low, and all errors have
    one sign.
    """
    values = np.cumsum(1 + np.random.default_rng(0).random(300))
    for sign in (1, -1):
        model = Naive(horizon=3, season=1).fit(sign * values[:200])
        made = model.forecast(sign * values[:200])
        (low, high), (lower, higher) = made.band(80), made.band(95)
        assert (
            (lower <= low) & (low <= made.values) & (made.values <= high) & (high <= higher)
        ).all()
        assert (low < high).all()
        done = model.backtest(sign * values[200:])
        assert ((done.bands[1] <= done.point) & (done.point <= done.bands[5])).all()
        assert (np.diff(done.bands, axis=0) >= 0).all()
        raw = model.scale["residuals"]
        assert (sign * raw > 0).all()  # what was learnt stays as it was; other quantiles too
        assert (sign * (done.bands[3] - done.point) > 0).all()


def test_intervals_of_held_out_data_are_wider_than_those_of_the_training_data():
    """The tail that intervals are learnt from is not learnt from, else a model that learnt by heart
    would be too sure.
    """
    rng = np.random.default_rng(0)
    noise = rng.normal(size=260)
    model = LinearWindow(horizon=4, window=40, ridge=0.0, normalise="none").fit(noise)
    fooled = LinearWindow(horizon=4, window=40, ridge=0.0, normalise="none").fit(
        noise, valid=noise[:]
    )
    widths = [
        float((one.scale["residuals"][5] - one.scale["residuals"][1]).mean())
        for one in (model, fooled)
    ]
    assert widths[0] > 1.1 * widths[1]


def test_intervals_from_a_short_held_out_part_take_their_shape_from_the_training_part():
    """Held-out steps happen to be all of one size, as a few may; in training they were not."""
    rng = np.random.default_rng(0)
    training, held_out = np.cumsum(rng.normal(size=400)), np.cumsum(rng.choice([-1.0, 1.0], 40))
    residuals = Naive(horizon=1, season=1).fit(training, valid=held_out).scale["residuals"][:, 0, 0]
    assert (
        residuals[6] > 2 * residuals[4]
    )  # quantiles of 97.5 and 75 %; of the held-out part alone they are equal


def test_what_is_unusual_is_found():
    values = wave(600)
    values[[450, 520]] += [6, -6]
    model = SeasonalNaive(horizon=6, season=12).fit(values[:400])
    found = model.anomalies(values[400:], rate=0.005)
    at = {one.time for one in found.found}
    assert {50, 120} <= at
    assert len(at) <= 6  # the season after each is off too
    assert found.rows()[0]["score"] > found.threshold
    assert "steps are above the threshold" in str(found)
    with pytest.raises(ConfigError, match=r"rate must be between 0.0001 and 0.5"):
        model.anomalies(values, rate=0.9)


@pytest.mark.parametrize(
    "gap", [slice(0, 100), slice(150, 250), slice(340, 400), slice(60, 200)], ids=str
)
@pytest.mark.parametrize("kind", [Naive, SeasonalNaive, ExponentialSmoothing, LinearWindow, Arima])
def test_long_runs_of_missing_values(kind, gap):
    """Read as the last value before them and never judged; forecasts and intervals stay numbers."""
    values = wave(400)
    values[gap] = np.nan
    model = kind(horizon=6, season=12).fit(values)
    made = model.forecast(values)
    low, high = made.band(95)
    assert (low < high).all()
    assert np.isfinite([made.values, low, high]).all()
    filled = values.copy()
    filled[gap] = values[gap.start - 1] if gap.start else np.nanmean(values)
    np.testing.assert_allclose(made.values, model.forecast(filled).values)
    judged = model.backtest(values, since=300 if gap.stop <= 300 else 320)
    assert np.isnan(judged.truth).any() == (gap.stop == 400)
    assert np.isfinite(judged.point).all()
    assert np.isfinite(model.evaluate(values, since=300 if gap.stop <= 300 else 320)["mse"])


def test_nothing_but_missing_values_is_refused():
    with pytest.raises(DataError, match="has no numbers in value"):
        Naive(horizon=2).fit(np.full(50, np.nan))
    with pytest.raises(
        DataError, match="no 6 steps in a row without a missing value; give a smaller horizon"
    ):
        LinearWindow(horizon=6, season=12).fit(np.where(np.arange(400) % 5, wave(400), np.nan))


def test_windows_hold_nothing_of_the_future_and_fill_from_the_past():
    series = Series.of([1.0, None, 3.0, 4.0, None, 6.0])
    scale = {
        "mean": np.zeros(1),
        "std": np.ones(1),
        "known_mean": np.zeros(0),
        "known_std": np.ones(0),
    }
    prepared = Prepared.of(series, series.tracks[0], scale, 3, 2)
    ((origins, found),) = prepared.windows(prepared.origins(1))
    assert origins.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(
        found.past[..., 0], [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 3], [1, 3, 4], [3, 4, 4]]
    )
    np.testing.assert_array_equal(
        found.present[..., 0], [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]]
    )
    np.testing.assert_array_equal(
        prepared.truth(np.array([0, 4]), 2)[..., 0], [[1, np.nan], [np.nan, 6]]
    )
    np.testing.assert_array_equal(prepared.truth(np.array([5]), 2)[..., 0], [[6, np.nan]])


def test_what_is_forecast_well_is_not_an_anomaly_however_far_from_the_mean():
    rng = np.random.default_rng(0)
    values = np.cumsum(rng.normal(0, 0.3, 1500))
    values -= np.convolve(
        np.pad(values, (60, 60), mode="edge"), np.ones(121) / 121, "valid"
    )  # returns to its mean
    later = np.concatenate([values[-200:], values[-1] + np.linspace(0, 12, 300)])
    assert len(Naive(horizon=1, season=1).fit(values).anomalies(later, rate=0.001)) < 5
    trend = np.linspace(0, 50, 1000) + rng.normal(0, 0.5, 1000)
    assert len(Naive(horizon=1, season=1).fit(trend[:700]).anomalies(trend[700:], rate=0.001)) < 10


def test_scores_are_errors_in_units_of_the_usual_one_whatever_spread_a_model_expects():
    class Unsure(Naive):
        def spread_windows(self, windows, horizon):
            return np.exp(windows.past[:, -1:] * np.ones((1, horizon, 1)))

    values = wave(600)
    model, unsure = (kind(horizon=6, season=12).fit(values[:400]) for kind in (Naive, Unsure))
    ((times, scores),) = model.anomalies(values[400:]).scores.values()
    learnt, later = (np.abs(np.diff(part)) for part in (values[:400], values[400:]))
    np.testing.assert_allclose(scores, later[times - 1] / np.median(learnt))
    np.testing.assert_allclose(unsure.anomalies(values[400:]).scores[""][1], scores)


@pytest.mark.parametrize("columns", [1, 3])
def test_the_rate_of_anomalies_is_that_of_usual_steps(columns):
    """A step is as unexpected as the most unexpected of its columns."""
    noise = np.random.default_rng(0).normal(size=(12_000, columns))
    model = LinearWindow(horizon=1, season=1, window=10).fit(noise[:6000])
    for rate in (0.005, 0.05):
        assert len(model.anomalies(noise[6000:], rate=rate)) / 6000 == pytest.approx(rate, rel=0.4)


@pytest.mark.parametrize(
    "model", [Naive(horizon=1, season=1), LinearWindow(horizon=1, season=1, window=10)]
)
def test_thresholds_come_from_all_blocks_not_from_a_quiet_end(model):
    """Each block is forecast by a model that learnt from the others."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=6000) * np.where(np.arange(6000) < 4800, 1.0, 0.3)
    later = rng.normal(size=4000)
    assert len(model.fit(noise).anomalies(later, rate=0.005)) / 4000 < 0.01
    given = model.fit(noise[:4800], valid=noise[4800:])  # which alone is then what is usual
    assert len(given.anomalies(later, rate=0.005)) / 4000 > 0.1


def test_blocks_are_not_learnt_from():
    """A model that learns noise by heart: in its training data it would see no errors at all."""
    noise = np.random.default_rng(0).normal(size=260)
    model = LinearWindow(horizon=1, season=1, window=60, ridge=0.0, normalise="none").fit(noise)
    remembered = model.anomalies(noise).scores[""][1]
    assert np.median(remembered) < 0.8  # in units of the usual error


def test_far_more_marks_than_the_rate_allows_are_explained(monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    rng = np.random.default_rng(0)
    noise, later = rng.normal(size=3000), rng.normal(size=1000)
    model = Naive(horizon=1, season=1).fit(noise)
    assert model.fit_info["usual_steps"] == 2999
    model.anomalies(later, rate=0.01)
    assert said == []
    model.anomalies(4 * later, rate=0.01)
    assert re.match(
        r"\d+\.\d% of the steps are marked, the rate is 1\.00%: by their median", said[0]
    )
    assert "errors are 4." in said.pop()
    spikes = later + 20 * (np.arange(1000) % 20 == 0)
    model.anomalies(spikes, rate=0.01)
    assert "half of the errors are as small as in the training data" in said.pop()
    assert model.anomalies(spikes, rate=0.01).marked < 130
    assert "or errors rarer than its 2,999 steps could show" in said.pop()
    model.anomalies(noise, rate=0.01)
    assert "was fitted on series" in said.pop()


def test_errors_of_several_columns_are_not_larger_because_the_largest_counts(monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    rng = np.random.default_rng(0)
    noise, later = rng.normal(size=(3000, 7)), rng.normal(size=(1000, 7))
    model = Naive(horizon=1, season=1).fit(noise)
    later[::20, 0] += 20
    later[300:305] = np.nan  # which are no small errors
    found = model.anomalies(later, rate=0.01)
    assert np.median(found.scores[""][1]) > 2
    assert "half of the errors are as small as in the training data" in said.pop()
    model.anomalies(2 * rng.normal(size=(1000, 7)), rate=0.01)
    assert re.search(r"errors are 2\.[01] times as large", said.pop())


def test_the_marks_with_the_highest_scores():
    values = wave(600)
    values[[450, 470, 520]] += [5, 9, -7]
    model = Naive(horizon=1, season=1).fit(values[:400])
    every, two = (model.anomalies(values[400:], rate=0.01, top=top) for top in (None, 2))
    assert [one.time for one in two.found] == [70, 71]  # where it comes and where it goes
    assert two.found == tuple(sorted(every.found, key=lambda one: -one.score)[:2])
    assert (len(two), two.marked, two.to_dict()["marked"]) == (2, len(every), len(every))
    assert "these are the 2 with the highest scores" in str(two)
    assert "highest" not in str(every)
    with pytest.raises(ConfigError, match="top must be at least 1"):
        model.anomalies(values, top=0)


# ---- several seasons


def half_hours(weeks, seed=0):
    """A day of 48 steps, and weekends that are another kind of day."""
    t = np.arange(336 * weeks)
    day, weekend = np.sin(2 * np.pi * t / 48), (t // 48) % 7 >= 5
    noise = np.random.default_rng(seed).normal(0, 0.6, len(t))
    return 20 + 3 * day - 4 * weekend * np.maximum(day, 0) + noise


@pytest.mark.parametrize(
    ("kind", "options"),
    [(Naive, {}), (SeasonalNaive, {}), (ExponentialSmoothing, {}), (LinearWindow, {"window": 96})],
    ids=["naive", "seasonal-naive", "smoothing", "linear-window"],
)
def test_intervals_of_several_seasons_hold_on_average(kind, options):
    """Over several series, as a single one has too few independent weeks."""
    shares = []
    for seed in range(4):
        values = half_hours(11, seed)
        model = kind(horizon=48, seasons=(48, 336), **options).fit(values[: 336 * 8])
        result = model.evaluate(values, since=336 * 8, samples=0)
        shares.append(result["coverage_80"])
    assert 0.75 < np.mean(shares) < 0.85


def test_several_seasons(tmp_path):
    """The mean course of the week is subtracted before and added after; intervals still hold."""
    values = half_hours(13)
    for kind in (SeasonalNaive, Naive):
        one, both = (
            kind(horizon=48, **options).fit(values[: 336 * 8])
            for options in ({"season": 48}, {"seasons": (336, 48)})
        )
        worse, better = (model.evaluate(values, since=336 * 8, samples=0) for model in (one, both))
        assert both.season == 48
        assert better["mse"] < 0.7 * worse["mse"]
        assert 0.75 < better["coverage_80"] < 0.85
    both.save(tmp_path / "m")
    again = load(tmp_path / "m")
    wanted = both.forecast(values[: 336 * 9])
    np.testing.assert_array_equal(again.forecast(values[: 336 * 9]).values, wanted.values)
    assert np.abs(wanted.values - values[336 * 9 :][:48]).max() < 3
    assert ((wanted.band(80)[0] < wanted.values) & (wanted.values < wanted.band(80)[1])).all()
    odd = values.copy()
    odd[336 * 9 + 5] += 10
    found = min(both.anomalies(odd, since=336 * 8, top=2).found, key=lambda one: one.time)
    assert (found.time, found.value) == (336 * 9 + 5, odd[336 * 9 + 5])
    assert abs(found.expected - values[336 * 9 + 5]) < 3
    with pytest.raises(ConfigError, match="give season or seasons, not both"):
        Naive(season=48, seasons=(48, 336)).fit(values)
    with pytest.raises(ConfigError, match="season 3000 needs 6000 steps"):
        Naive(seasons=(48, 3000)).fit(values)


def test_the_course_of_a_season_follows_the_calendar():
    """Data may begin anywhere: the place in the week is that of its time."""
    days = np.arange(7 * 20)
    times = [np.datetime64("2024-01-01") + np.timedelta64(int(d), "D") for d in days]
    values = 10.0 * (days % 7 == 3) + days % 2
    series = Series.of(values, times)
    model = Naive(horizon=7, seasons=(2, 7)).fit(series)
    later = Series.of(values[45:100], times[45:100])
    np.testing.assert_allclose(model.forecast(later).values.argmax(), (3 - 100) % 7)


def test_mase_is_by_the_season_of_the_data():
    series = Series.of(half_hours(4), [1.7e9 + 1800 * k for k in range(336 * 4)])
    scales = [
        kind(horizon=6, season=season).fit(series).scale["naive"]
        for kind, season in ((Naive, None), (SeasonalNaive, 336), (SeasonalNaive, 7))
    ]
    values = series.tracks[0].values[:, 0]
    np.testing.assert_allclose(scales, np.abs(values[48:] - values[:-48]).mean())
    rows = Series.of(values)  # nothing is known of their season but what the model is told
    assert SeasonalNaive(horizon=6, season=48).fit(rows).scale["naive"] == pytest.approx(scales[0])


def test_a_model_of_an_earlier_version_loads_and_says_that_its_scores_were_others(tmp_path):
    model = Naive(horizon=2, season=1).fit(wave(100))
    usual, thresholds = model.scale.pop("step_error"), model.scale.pop("thresholds")
    model.scale |= {"usual": usual, "level": usual, "alarms": thresholds}
    model.save(tmp_path / "old")
    old = load(tmp_path / "old")
    np.testing.assert_array_equal(old.forecast(wave(100)).values, model.forecast(wave(100)).values)
    with pytest.raises(ModelError, match=r"fitted by an earlier version of seqloom.*fit it again"):
        old.anomalies(wave(100))
