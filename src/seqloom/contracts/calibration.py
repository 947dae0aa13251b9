"""How wide intervals are, and what is unusual: learnt from errors on a held-out part.

Errors are taken in units of how large they were lately. How large they are comes from the held-out part alone, since a model
may remember its training data. The shape of their distribution does not: where the held-out part is short, its tails are a
matter of luck, so the last errors of the training part, made as large as the held-out ones, count beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seqloom.contracts import series_scale
from seqloom.data.forecasting import Series
from seqloom.data.forecasting_windows import Prepared
from seqloom.errors import DataError

if TYPE_CHECKING:
    from seqloom.contracts.forecaster import Forecaster

ENOUGH = 3000  # forecasts that intervals come from; of more, evenly spread ones

Part = tuple[Prepared, np.ndarray]  # a series and the origins of forecasts


def learn(model: Forecaster, learnt: Series, kept: Series) -> dict[str, np.ndarray]:
    """The quantiles of errors by horizon and column, and of the score of single steps, from the held-out series `kept`."""
    parts = [
        (one, origins)
        for one in model.prepared(kept)
        if len(origins := model.origins(one, 1, ENOUGH))
    ]
    if not parts:
        raise DataError(f"{kept.name} has no steps to learn intervals from; give more")
    first, residuals, typical = _errors(model, parts)
    if learnt is not kept and (more := ENOUGH - sum(len(origins) for _, origins in parts)) > 0:
        parts = [
            (one, whole[-more:])
            for one in model.prepared(learnt)
            if len(whole := (every := model.origins(one, 1))[every >= model.window])
        ]
        if parts:
            before = _errors(model, parts)[1]
            factor = series_scale.positive_means(np.abs(residuals)) / series_scale.positive_means(
                np.abs(before)
            )
            residuals = np.concatenate([factor * before, residuals])
    return {
        "residuals": series_scale.error_quantiles(residuals),
        "typical": typical,
        **series_scale.step_errors(first),
    }


def _errors(model: Forecaster, parts: list[Part]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors (n, C) one step ahead; those of all steps (n, H, C) in units of recent ones; and the mean size in each column, in
    units of the spread that the model expects."""
    answers = [model.answers(prepared, origins, model.horizon) for prepared, origins in parts]
    errors = np.concatenate(
        [
            prepared.truth(origins, model.horizon) - one.point
            for (prepared, origins), one in zip(parts, answers)
        ]
    )
    raw = errors / np.concatenate([one.spread for one in answers])
    typical = series_scale.positive_means(np.abs(raw))
    lately = np.concatenate([one.recent(typical) for one in answers])
    return errors[:, 0], raw / lately[:, None], typical
