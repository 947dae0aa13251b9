"""Verbs of every network that try what training would take and bring, and leave the model as it is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from seqloom.describing import changed_options
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.training.estimate import Estimate


def estimate(self: Any, *data: Any, **arguments: Any) -> Estimate:
    """Return what `fit` with these arguments would take, in memory and time. The data is read and the
    tokenizer made, and some updates are tried on a network that is thrown away; nothing is
    trained or written, and this model stays as it is.
    """
    from seqloom.models.network.network import require_torch

    require_torch(self.name)
    from seqloom.training.asking import ESTIMATE
    from seqloom.training.estimate import Estimated

    try:
        with ESTIMATE.made():
            self.__sklearn_clone__().fit(*data, **{**arguments, "run": None})
    except Estimated as answer:
        return answer.estimate
    raise ConfigError(f"{self.name} models train no network, so there is nothing to estimate")


def sweep(
    self: Any, batch_sizes: Sequence[int], *data: Any, **arguments: Any
) -> list[dict[str, Any]]:
    """Train once with each batch size, with these arguments of `fit`, and return what it brought: the
    criterion on held-out data, steps, seconds, targets per second, and the noise scale of the
    gradient in rows, above which larger batches bring little. This model stays as it is.
    """
    from seqloom.models.network.network import require_torch

    require_torch(self.name)
    from seqloom.training.asking import NOISE

    train = self.own_train if arguments.get("train") is None else arguments["train"]
    options = train or {}
    options = dict(options) if isinstance(options, Mapping) else changed_options(options)
    rows = []
    for size in batch_sizes:
        model, begun = self.__sklearn_clone__(), time.perf_counter()
        own = {**arguments, "train": {**options, "batch_size": size}, "run": None}
        with NOISE.made():
            model.fit(*data, **own)
        seconds = time.perf_counter() - begun
        rates = [
            (name, line[name]) for line in model.log for name in line if name.endswith("_per_s")
        ]
        names = [name for name in model.fit_info if name.startswith("valid_")]
        rows.append(
            {
                "batch_size": size,
                "steps": model.fit_info["steps"],
                "epochs": model.fit_info["epochs"],
                "seconds": round(seconds, 3),
                **{name: model.fit_info[name] for name in names},
                **({rates[0][0]: round(median(r for _, r in rates))} if rates else {}),
                "noise_scale": model.fit_info["noise_scale"],
            }
        )
    return rows
