"""Options of `compare` that only one task has; apart from the ladders, so that `--help` imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

from seqloom.config import MOST, Config, option


@dataclass(frozen=True, kw_only=True)
class SeriesComparing(Config):
    """How forecasters are compared: the words are those of `fit` and `evaluate`."""

    horizon: int | None = option(None, "Number of steps to forecast  [default: a season, at most 200 and a tenth of the "
                                       "training data].", minimum=1, maximum=10_000)
    season: int | None = option(None, "Steps of the cycle that repeats  [default: by the data: a day of hours, a week of days, "
                                      "a year of months].", minimum=1, maximum=1_000_000)
    since: str | int | None = option(
        None, "Test forecasts from this time on; what comes before is for training and validation  [default: "
        "the last 20 % of the time].", minimum=0, maximum=MOST, metavar="TIME")
