"""The options of training, the same for every network; they load no torch, so `--help` stays quick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import MAX_INTEGER, MOST_MINUTES, MOST_SEED, Config, OnlyWith, option
from seqloom.errors import ConfigError, quoted

_RATES = {
    "muon": 1e-2,
    "adamw": 3e-3,
    "adam": 2e-3,
    "rmsprop": 1e-3,
    "sgd": 1.0,
    "momentum": 0.2,
    "asgd": 10.0,
}
MINUTES, OPTIMIZER = 5.0, "muon"  # where the options set no length, or no optimizer


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """Training options."""

    # average: not with asgd, which is a mean
    only_with: ClassVar[OnlyWith] = {
        "decay": {"schedule": ("step", "plateau")},
        "decay_every": {"schedule": ("step",)},
        "decay_steps": {"schedule": ("wsd", None)},
        "decay_plan": {"schedule": ("wsd", None)},
        "clip_at": {"clip": ("norm", "value", "adaptive")},
        "average": {"optimizer": ("muon", "adamw", "adam", "sgd", "momentum", "rmsprop", None)},
    }

    minutes: float | None = option(
        None,
        "training time in minutes [default: 5, or less where little data has been read often enough; unless "
        "steps or epochs are given]",
        minimum=0.01,
        maximum=MOST_MINUTES,
    )
    enough: bool = option(
        False,
        "end before the minutes are over when little data has been read often enough, as where no "
        "length is given",
    )
    steps: int | None = option(None, "number of updates", minimum=1, maximum=MAX_INTEGER)
    epochs: float | None = option(
        None, "number of passes over the text", minimum=0.001, maximum=1_000_000
    )
    batch_size: int | None = option(
        None,
        "sequences per batch [default: about 1024 tokens per batch]",
        minimum=1,
        maximum=1_000_000,
    )
    truncation: int = option(
        32,
        "tokens per sequence in each step, for truncated backpropagation through time",
        minimum=1,
        maximum=1_000_000,
    )
    random_truncation: bool = option(False, "vary the truncation from step to step (AWD-LSTM)")
    optimizer: Literal["muon", "adamw", "adam", "sgd", "momentum", "rmsprop", "asgd"] | None = (
        option(
            None,
            "optimizer; muon: orthogonalised updates of hidden matrices, AdamW for the rest "
            "[default: muon; adamw where a "
            "converted encoder is fine-tuned]",
        )
    )
    lr: float | None = option(
        None, "peak learning rate [default: by optimizer]", minimum=0.0, maximum=1e6
    )
    weight_decay: float = option(0.01, "weight decay of the matrices", minimum=0.0, maximum=1e6)
    schedule: Literal["constant", "step", "plateau", "linear", "cosine", "noam", "wsd"] | None = (
        option(
            None,
            "learning rate schedule; wsd: warm-up, stable, decay [default: cosine; wsd where the length is "
            "given in minutes]",
        )
    )
    warmup: float = option(
        0.02,
        "learning rate warmup: share of the steps, or number of steps if above 1",
        minimum=0.0,
        maximum=MAX_INTEGER,
    )
    decay: float = option(
        0.5, "factor by which step and plateau multiply the learning rate", minimum=0.0, maximum=1.0
    )
    decay_every: float = option(
        0.2,
        "schedule step: decay after this share of the steps, or number of steps if above 1",
        minimum=0.0,
        maximum=MAX_INTEGER,
    )
    decay_steps: int | None = option(
        None,
        "schedule wsd: steps at the end in which the learning rate falls [default: half of them]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    decay_plan: tuple[str, ...] = option(
        (),
        "schedule wsd: the learning rate falls from this step on so that it is lowest at that one; "
        "a later plan replaces the one before; may be repeated",
        metavar="FROM:TO",
        repeated=True,
    )
    planned_steps: int | None = option(
        None,
        "number of steps to which shares such as warmup refer [default: steps; of minutes an estimate]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    clip: Literal["norm", "value", "adaptive", "none"] = option("norm", "gradient clipping")
    clip_at: float | None = option(
        None,
        "clipping threshold: norm or value [default: 1], or multiple of the running mean norm "
        "(adaptive) [default: 3]",
        minimum=1e-6,
        maximum=1e12,
    )
    gradient_noise: float = option(
        0.0, "initial variance of gradient noise; decays as (1 + t)^-0.55", minimum=0.0, maximum=1e6
    )
    accumulate: int = option(
        1,
        "number of batches whose gradients are accumulated per update",
        minimum=1,
        maximum=1_000_000,
    )
    shards: int | None = option(
        None,
        "parts into which an update is cut, each on one process at a time; the bits depend on them, not on "
        "the processes [default: a part for each process]",
        minimum=1,
        maximum=4096,
    )
    batch_growth: float | None = option(
        None,
        "factor by which the number of batches per update grows from the first step to the last, at a "
        "constant rate, starting from accumulate",
        minimum=1.0,
        maximum=1_000_000,
    )
    average: Literal["none", "exponential", "tail"] = option(
        "none",
        "weight averaging: exponential (0.999), or over the decay of wsd, else the last quarter of the "
        "steps (tail)",
    )
    patience: int | None = option(
        None,
        "early stopping: stop after this many evaluations without improvement",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    evaluate_every: int | None = option(
        None,
        "steps between evaluations on the validation text [default: a twentieth of all steps]",
        minimum=1,
        maximum=MAX_INTEGER,
    )
    precision: Literal["float32", "bfloat16", "float16"] = option(
        "float32", "dtype of matrix products, if supported"
    )
    recompute: bool = option(False, "activation checkpointing: less memory, slower")
    seed: int = option(0, "random seed", minimum=0, maximum=MOST_SEED)
    tensorboard: bool = option(False, "write TensorBoard files next to the log")
    freeze: tuple[str, ...] = option(
        (),
        "weights that keep their values, by name; * stands for any part of a name; may be repeated",
        metavar="NAME",
        repeated=True,
    )
    delay: tuple[str, ...] = option(
        (),
        "weights that are frozen for this share of the steps, or number of steps if above 1; their "
        "learning rate then rises over as many; may be repeated",
        metavar="NAME=SHARE",
        repeated=True,
    )
    lr_scale: tuple[str, ...] = option(
        (),
        "weights whose learning rate is that of the others times a factor; may be repeated",
        metavar="NAME=FACTOR",
        repeated=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = [
            name for name in ("minutes", "steps", "epochs") if getattr(self, name) is not None
        ]
        if len(lengths) > 1:
            raise ConfigError(
                f"{' and '.join(lengths)} both say how long to train; give one of them", lengths
            )
        if self.enough and self.minutes is None:
            raise ConfigError("enough ends a run of minutes early; give minutes, or leave it out")
        if self.timed and self.schedule in ("linear", "cosine"):
            raise ConfigError(
                f"schedule {self.schedule} falls towards the last step, which minutes do not tell; give "
                "steps or epochs, or schedule wsd, which falls when the time comes"
            )
        if self.decay_plan and self.decay_steps is not None:
            raise ConfigError(
                "decay_steps and decay_plan both say when the rate falls; give one of them"
            )
        if self.timed and (self.decay_plan or self.decay_steps is not None):
            raise ConfigError(
                "decay_steps and decay_plan repeat a run of so many steps; give steps, not minutes"
            )
        self.falls()
        for name in ("delay", "lr_scale"):
            self.by_pattern(name)

    @property
    def timed(self) -> bool:
        """Return whether time, not a number of steps, says how long to train."""
        return self.steps is None and self.epochs is None

    @property
    def curve(self) -> str:
        """Return the schedule that is used."""
        planned = self.timed or self.decay_steps is not None or self.decay_plan
        return self.schedule or ("wsd" if planned else "cosine")

    def batches_of(self, step: int, steps: int) -> int:
        """Return how many batches update number `step` of `steps` has, counted from 0."""
        if self.batch_growth is None:
            return self.accumulate
        done = min(step / max(steps - 1, 1), 1.0)
        return round(self.accumulate * self.batch_growth**done)

    @property
    def usual_batches(self) -> float:
        """Return about how many batches an update has, in the mean over all of them."""
        growth = self.batch_growth or 1.0
        return self.accumulate * ((growth - 1) / math.log(growth) if growth > 1 else 1.0)

    def falls(self) -> list[tuple[int, int]]:
        """Return `decay_plan` as numbers."""
        falls = []
        for text in self.decay_plan:
            begin, _, end = text.partition(":")
            if not (begin.isdecimal() and end.isdecimal() and int(begin) <= int(end)):
                raise ConfigError(
                    f"decay_plan must be FROM:TO, such as 300:600 (steps); got {quoted(text)}"
                )
            falls.append((int(begin), int(end)))
        if falls != sorted(falls):
            raise ConfigError("decay_plan must go from earlier steps to later ones")
        return falls

    def by_pattern(self, option: str) -> dict[str, float]:
        """Return the numbers of `delay` or `lr_scale`, by pattern of names."""
        numbers: dict[str, float] = {}
        for text in getattr(self, option):
            pattern, _, number = text.rpartition("=")
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if not pattern or not 0.0 <= value <= MAX_INTEGER:
                raise ConfigError(
                    f"{option} must be NAME=NUMBER, such as embedding.*=0.3; got {quoted(text)}"
                )
            numbers[pattern] = value
        return numbers

    @property
    def limit(self) -> float:
        """Return the clipping threshold."""
        if self.clip_at is not None:
            return self.clip_at
        return 3.0 if self.clip == "adaptive" else 1.0

    @property
    def rule(self) -> str:
        """Return the optimizer, or the default one."""
        return self.optimizer or OPTIMIZER

    @property
    def rate(self) -> float:
        """Return the peak learning rate."""
        if self.lr is not None:
            return self.lr
        return _RATES[self.rule]
