"""The neural forecaster: every encoder, shapes by options alone, and what it reads."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom import NeuralForecaster, SeasonalNaive, Series, TrainConfig
from seqloom.encoder_table import ENCODERS
from seqloom.errors import ConfigError, MissingExtra
from seqloom.models.forecasting.forecaster_net import losses
from seqloom.testing.forecasting import hours

SMALL = {"horizon": 4, "window": 20, "d_hidden": 8}
FEW = TrainConfig(steps=2, batch_size=8)


def known():
    values = hours(150, 1).tracks[0].values[:, 0]
    rows = [None if i % 11 == 5 else float(v) for i, v in enumerate(values)]
    return Series.of({"v": rows, "w": values[::-1], "x": np.arange(150) % 2}, known_columns=["x"])


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    "options", [{}, {"columns": "together", "calendar": True, "normalise": "instance", "patch": 3}]
)
def test_every_encoder_forecasts_and_has_the_shapes_that_its_options_say(
    encoder, options, tmp_path
):
    model = NeuralForecaster(encoder=encoder, **SMALL, **options).fit(hours(150), train=FEW)
    assert {name: value.shape for name, value in model.net.weights.items()} == model.fitted_shapes()
    model.save(tmp_path / "m")
    again = NeuralForecaster.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again.forecast(hours(100, seed=2)).values, model.forecast(hours(100, seed=2)).values
    )


@pytest.mark.parametrize("columns", ["separate", "together"])
def test_missing_values_and_columns_known_in_advance_are_read(columns):
    series = known()
    model = NeuralForecaster(columns=columns, **SMALL).fit(series.between(0, 140), train=FEW)
    assert {name: value.shape for name, value in model.net.weights.items()} == model.fitted_shapes()
    assert (model.learnt["missing"], model.n_known) == (True, 1)
    told = series.between(0, 140)
    made = model.forecast(told).values
    turned = known().tracks[0].known.copy()
    turned[140:] = 1 - turned[140:]  # what is to come, otherwise
    from dataclasses import replace

    other = replace(told, tracks=(replace(told.tracks[0], known=turned),))
    assert np.abs(model.forecast(other).values - made).max() > 1e-6
    values = told.tracks[0].values.copy()
    filled = values.copy()
    gaps = np.flatnonzero(np.isnan(values[:, 0]))
    filled[gaps, 0] = values[gaps - 1, 0]  # what is read in their place; only the mark differs
    seen = replace(told, tracks=(replace(told.tracks[0], values=filled),))
    assert np.abs(model.forecast(seen).values - made).max() > 1e-9


def test_the_loss_is_squared_error_and_pinball_loss_of_what_is_there():
    output, targets = torch.randn(3, 4, 2, 3), torch.randn(3, 4, 2)
    targets[1, 2, 0] = float("nan")
    wanted = []
    for i, h, c in np.ndindex(3, 4, 2):
        y = float(targets[i, h, c])
        if np.isfinite(y):
            point, low, high = map(float, output[i, h, c])
            wanted.append(
                (point - y) ** 2
                + max(0.1 * (y - low), -0.9 * (y - low))
                + max(0.9 * (y - high), -0.1 * (y - high))
            )
    np.testing.assert_allclose(losses(output, targets).numpy(), wanted, rtol=1e-5)


def test_a_level_that_was_never_seen_changes_nothing():
    series = hours(150)
    model = NeuralForecaster(**SMALL).fit(series, train=FEW)
    track = series.tracks[0]
    higher = Series.of(track.values + 500, series.times(track).tolist(), columns=["c0", "c1"])
    np.testing.assert_allclose(
        model.forecast(higher).values, model.forecast(series).values + 500, rtol=1e-4
    )


def test_it_learns():
    series = hours(700, 1)
    train, test = series.between(0, 500), series.between(500, 700)
    model = NeuralForecaster(horizon=6, window=48, d_hidden=32, dropout=0.0)
    model.fit(train, train=TrainConfig(steps=200, batch_size=64))
    naive = SeasonalNaive(horizon=6).fit(train)
    assert model.evaluate(test)["mse"] < 0.8 * naive.evaluate(test)["mse"]
    assert "valid_MSE" in model.fit_info


def test_what_does_not_go_together_is_refused(monkeypatch):
    with pytest.raises(ConfigError, match="cannot have 3 heads"):
        NeuralForecaster(encoder="transformer", n_heads=3, **SMALL).fit(hours(150), train=FEW)
    with pytest.raises(ConfigError, match="truncation has no effect on forecaster"):
        NeuralForecaster(**SMALL).fit(hours(150), train=TrainConfig(steps=2, truncation=9))
    monkeypatch.setattr("seqloom.models.network.network.has_torch", lambda: False)
    with pytest.raises(MissingExtra, match=r"pip install 'seqloom\[nn\]'"):
        NeuralForecaster(**SMALL).fit(hours(150))
