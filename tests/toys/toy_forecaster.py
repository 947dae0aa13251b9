"""A forecaster as another package would bring it: numbers in, numbers out, no tokenizer, trained by
the engine.

A line through the last few values. It registers a task, a model and a command of its own, without
an edit in seqloom.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import click
import numpy as np

from seqloom import registry, tasks
from seqloom.arrays import Spec
from seqloom.cli.options import common, emit
from seqloom.config import TRAINS, Config, option
from seqloom.contracts.base import Model
from seqloom.errors import DataError
from seqloom.metrics.result import Result, Signature
from seqloom.models.network.network import prepare, train_network
from seqloom.tasks.task import Command, Task
from seqloom.training.batches import Batch, Examples
from seqloom.training.config import TrainConfig


@dataclass(frozen=True)
class Series:
    values: np.ndarray  # float32 (T,)
    name: str = "series"

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.values.tobytes()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class SeriesReading(Config):
    value_column: str = option("value", "The column with the numbers.", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class ToyForecasterConfig(Config):
    fit_arguments: ClassVar[frozenset[str]] = TRAINS

    window: int = option(4, "how many steps back it sees", minimum=1, maximum=1000)


class ToyForecaster(Model):
    task, name, config_class = "toy forecaster", "toy-forecaster", ToyForecasterConfig
    learnt_values: ClassVar = {"scale": lambda value: isinstance(value, float) and value > 0}

    def fit(
        self,
        data: Series,
        *,
        valid: Series | None = None,
        memory: Any = None,
        train: TrainConfig | None = None,
        device: str | None = None,
        run: Any = None,
    ) -> ToyForecaster:
        options = self.fit_options(memory, train, device, run, valid)
        config, place = prepare(self.name, options)
        with self.learning():
            self.learnt = {"scale": float(np.abs(data.values).max()) or 1.0}
            self.fit_info = {
                "data": data.name,
                "data_hash": data.fingerprint[:16],
                "steps_seen": len(data.values),
            }
            network, record = train_network(
                _LinearTask(self, data, valid),
                config,
                place,
                run=options.run,
                facts={"data": data.fingerprint, **self.config.to_dict()},
            )
            self.weights = {
                name: w.detach().cpu().numpy() for name, w in network.state_dict().items()
            }
            self.fit_info |= record
        return self

    def windows(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All windows (n, W) and what follows each (n,), scaled."""
        scaled = (values / self.learnt["scale"]).astype(np.float32)
        seen = np.lib.stride_tricks.sliding_window_view(scaled, self.config.window + 1)
        return seen[:, :-1].copy(), seen[:, -1].copy()

    def forecast(self, history: Any, horizon: int) -> list[float]:
        self.check_fitted()
        values = list(np.asarray(history, np.float64) / self.learnt["scale"])
        for _ in range(horizon):
            values.append(
                float(
                    self.weights["weight"][0] @ np.array(values[-self.config.window :])
                    + self.weights["bias"][0]
                )
            )
        return (np.array(values[-horizon:]) * self.learnt["scale"]).tolist()

    def evaluate(self, data: Series) -> Result:
        inputs, targets = self.windows(data.values)
        errors = (
            inputs @ self.weights["weight"][0] + self.weights["bias"][0] - targets
        ) * self.learnt["scale"]
        return Result(
            {"mse": float((errors**2).mean()), "values": len(targets)},
            Signature(model=self.label(), data=data.fingerprint[:8]),
        )

    def summary(self) -> str:
        return f"{self.recorded('steps_seen', 0):,} values"

    def arrays(self) -> dict[str, np.ndarray]:
        return self.weights

    def array_specs(self, length: Any) -> dict[str, Spec]:
        return {"weight": Spec("float32", (1, self.config.window)), "bias": Spec("float32", (1,))}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights = arrays


class _LinearTask:
    """The toy as the training engine sees it."""

    counted, unit = "values", "squared error"

    def __init__(self, model: ToyForecaster, data: Series, valid: Series | None) -> None:
        from seqloom.training.trainable import Criterion

        self.criterion, self.window = Criterion("MSE"), model.config.window
        self.inputs, self.targets = model.windows(data.values)
        self.valid = None if valid is None else model.windows(valid.values)
        self.batches = Examples(np.ones(len(self.targets)), self._collate, batch_size=16)

    def _collate(self, chosen: np.ndarray) -> Batch:
        return Batch({"inputs": self.inputs[chosen], "targets": self.targets[chosen]})

    def build(self) -> Any:
        from torch import nn

        return nn.Linear(self.window, 1)

    def loss(self, network: Any, batch: Any, state: Any) -> tuple[Any, Any]:
        return ((network(batch["inputs"])[:, 0] - batch["targets"]) ** 2).sum(), None

    def evaluate(self, network: Any) -> float | None:
        import torch

        if self.valid is None:
            return None
        with torch.inference_mode():
            return float(
                (
                    (
                        network(torch.from_numpy(self.valid[0]))[:, 0]
                        - torch.from_numpy(self.valid[1])
                    )
                    ** 2
                ).mean()
            )

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {}


class ToyForecasting(Task):
    name, phrase = "toy forecaster", "a toy forecaster"
    data_help = "a CSV file with a column of numbers."
    reading = SeriesReading
    commands: ClassVar = {
        "toy-forecast": Command("toy_forecaster:command", "What comes next in a series.")
    }

    def read(self, paths: tuple[str, ...], reading: SeriesReading) -> Series:
        (path,) = paths
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if not rows or reading.value_column not in rows[0]:
            raise DataError(
                f"{path} has no column {reading.value_column!r}; name it with --value-column"
            )
        return Series(
            np.array([float(row[reading.value_column]) for row in rows], np.float32),
            Path(path).name,
        )


@click.command(name="toy-forecast")
@click.argument("model")
@click.argument("path")
@click.option("--horizon", default=3)
@common
def command(model: str, path: str, horizon: int, as_json: bool) -> None:
    """The next values of a series."""
    loaded = tasks.open_model("toy-forecast", model)
    values = loaded.forecast(ToyForecasting().read((path,), SeriesReading()).values, horizon)
    emit({"forecast": values}) if as_json else click.echo(
        "\n".join(f"{value:.3f}" for value in values)
    )


tasks.register(ToyForecasting())
registry.register_entry(
    "toy-forecaster",
    registry.Entry(
        "toy_forecaster:ToyForecaster",
        "toy_forecaster:ToyForecasterConfig",
        "toy forecaster",
        "a line through the last few values",
    ),
)
