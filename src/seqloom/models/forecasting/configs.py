"""The options of the forecasters, apart from the models, so that `--help` shows them without
loading anything, and the default length of a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seqloom.config import CONTINUES, MOST_WIDTH, OnlyWith, SeriesConfig, option
from seqloom.encoder_table import ENCODER_NAMES, encoders_with
from seqloom.models.network.configs import VARIANTS, EncoderVariants

MOST_WINDOW = 100_000
REACH = 1  # patches on either side that the encoders window and cnn look at


@dataclass(frozen=True, kw_only=True)
class NaiveConfig(SeriesConfig):
    pass


@dataclass(frozen=True, kw_only=True)
class SeasonalNaiveConfig(SeriesConfig):
    pass


@dataclass(frozen=True, kw_only=True)
class ExponentialSmoothingConfig(SeriesConfig):
    trend: Literal["none", "additive", "damped"] = option(
        "damped", "trend that a forecast continues"
    )
    seasonal: bool = option(True, "add a value for each place in the season")
    window: int | None = option(
        None,
        "number of steps that are smoothed  [default: 14 seasons, or 200 steps]",
        minimum=4,
        maximum=MOST_WINDOW,
    )


@dataclass(frozen=True, kw_only=True)
class ArimaConfig(SeriesConfig):
    ar: int = option(
        2, "number of preceding values that a value depends on (p)", minimum=0, maximum=50
    )
    differences: int | None = option(
        None,
        "how often the series is differenced (d)  [default: 0 or 1, whichever leaves less "
        "variance]",
        minimum=0,
        maximum=2,
    )
    ma: int = option(
        1, "number of preceding errors that a value depends on (q)", minimum=0, maximum=20
    )
    seasonal: bool = option(
        True, "difference by a season and let the error of a season ago count (D = Q = 1)"
    )
    window: int | None = option(
        None,
        "number of steps that a forecast starts from  [default: 14 seasons, or 200 steps]",
        minimum=4,
        maximum=MOST_WINDOW,
    )


@dataclass(frozen=True, kw_only=True)
class LinearWindowConfig(SeriesConfig):
    window: int | None = option(
        None,
        "number of steps that a forecast is made from  [default: 14 seasons, or 48 steps, but no "
        "more than a sixth of the data]",
        minimum=1,
        maximum=MOST_WINDOW,
    )
    ridge: float = option(
        0.01, "penalty of large weights, in variances of the data", minimum=0.0, maximum=1e9
    )
    weights: Literal["shared", "individual"] = option(
        "shared", "one set of weights for all columns, or one for each"
    )
    normalise: Literal["last", "mean", "none"] = option(
        "last", "what is subtracted from a window and added to its forecast"
    )


@dataclass(frozen=True, kw_only=True)
class NeuralForecasterConfig(EncoderVariants, SeriesConfig):
    fit_arguments: ClassVar[frozenset[str]] = CONTINUES
    only_with: ClassVar[OnlyWith] = {"n_heads": {"encoder": encoders_with("n_heads")}}
    changeable: ClassVar[frozenset[str]] = frozenset({"dropout"})

    encoder: str = option("gru", "what reads the window, patch after patch", known=ENCODER_NAMES)
    d_hidden: int = option(
        64, "hidden size of a layer, in each direction", minimum=1, maximum=MOST_WIDTH
    )
    n_layers: int = option(1, "number of layers of the encoder", minimum=1, maximum=100)
    n_heads: int = option(4, "number of attention heads", minimum=1, maximum=1000)
    dropout: float = option(
        0.5, "dropout of patches, between layers and before the output", minimum=0.0, maximum=0.95
    )
    window: int | None = option(
        None,
        "number of steps that a forecast is made from  [default: 14 seasons, or 48 steps, but no "
        "more than a sixth of the data]",
        minimum=1,
        maximum=MOST_WINDOW,
    )
    patch: int | None = option(
        None,
        "steps that the encoder reads at once  [default: a fourteenth of the window]",
        minimum=1,
        maximum=MOST_WINDOW,
    )
    columns: Literal["separate", "together"] = option(
        "separate", "read each column on its own with the same weights, or all together"
    )
    normalise: Literal["last", "instance", "none"] = option(
        "last",
        "what is subtracted from a window and added to its forecast: its last value; instance: its "
        "mean, and it is "
        "divided by its standard deviation",
    )
    highway: bool = option(
        True, "add a weighted sum of the window to the forecast, beside the encoder"
    )
    calendar: bool = option(False, "read hour, day of the week and day of the year")

    @property
    def encoder_options(self) -> dict[str, Any]:
        """Return what encoders of the table take beside sizes, each those that it has."""
        return {
            "window": REACH,
            **{name: getattr(self, name) for name in ("n_heads", *VARIANTS)},
        }


# ---- default length of a window

SEASONS = 14
MAX_WINDOW = 1000  # steps; a day of minutes is a season of 1,440


def seasons_back(season: int, without: int) -> int:
    """Return the number of steps in 14 seasons, fewer where seasons are long but at least two of
    them; `without`: the number where there is no season.
    """
    return without if season == 1 else max(min(SEASONS * season, MAX_WINDOW), 2 * season)
