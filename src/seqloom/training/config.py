"""The options of training, the same for every network; they load no torch, so `--help` stays quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import MOST, MOST_MINUTES, MOST_SEED, Config, OnlyWith, option
from seqloom.errors import ConfigError

_RATES = {"muon": 1e-2, "adamw": 3e-3, "adam": 2e-3, "rmsprop": 1e-3, "sgd": 1.0, "momentum": 0.2, "asgd": 10.0}
MINUTES = 5.0  # when the user says nothing about length


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """Training options."""

    only_with: ClassVar[OnlyWith] = {"decay": {"schedule": ("step", "plateau")}, "decay_every": {"schedule": ("step",)},
                 "clip_at": {"clip": ("norm", "value", "adaptive")},
                 "average": {"optimizer": ("muon", "adamw", "adam", "sgd", "momentum", "rmsprop")}}  # asgd is a mean itself

    minutes: float | None = option(None, "how long to train; becomes a number of steps after a few timed ones "
                                   "[default: 5, unless steps or epochs are given]", minimum=0.01, maximum=MOST_MINUTES)
    steps: int | None = option(None, "how many updates", minimum=1, maximum=MOST)
    epochs: float | None = option(None, "how many passes over the text", minimum=0.001, maximum=1_000_000)
    batch_size: int | None = option(None, "sequences side by side [default: of about 1024 tokens in all]",
                                    minimum=1, maximum=1_000_000)
    truncation: int = option(32, "tokens of each sequence in one step, through which gradients flow",
                             minimum=1, maximum=1_000_000)
    random_truncation: bool = option(False, "vary the truncation from step to step (AWD-LSTM)")
    optimizer: Literal["muon", "adamw", "adam", "sgd", "momentum", "rmsprop", "asgd"] = option(
        "muon", "how gradients move weights; muon: orthogonal steps of the matrices between layers, AdamW for the rest")
    lr: float | None = option(None, "learning rate at its highest [default: by optimizer]", minimum=0.0, maximum=1e6)
    weight_decay: float = option(0.01, "pull of the matrices towards zero at each step", minimum=0.0, maximum=1e6)
    schedule: Literal["constant", "step", "plateau", "linear", "cosine", "noam"] = option(
        "cosine", "how the learning rate falls")
    warmup: float = option(0.02, "share of the steps, or number of them if above 1, in which it rises",
                           minimum=0.0, maximum=MOST)
    decay: float = option(0.5, "what step and plateau multiply the learning rate with", minimum=0.0, maximum=1.0)
    decay_every: float = option(0.2, "step: after this share of the steps, or number of them if above 1",
                                minimum=0.0, maximum=MOST)
    clip: Literal["norm", "value", "adaptive", "none"] = option("norm", "how large gradients are cut")
    clip_at: float | None = option(None, "the largest norm or value [default: 1], or multiple of the usual norm (adaptive) "
                                   "[default: 3]", minimum=1e-6, maximum=1e12)
    gradient_noise: float = option(0.0, "variance of noise on the gradient at the first step; it falls as (1 + t)^-0.55",
                                   minimum=0.0, maximum=1e6)
    accumulate: int = option(1, "add the gradients of this many batches before an update", minimum=1, maximum=1_000_000)
    average: Literal["none", "exponential", "tail"] = option(
        "none", "keep a mean of the weights: exponential (0.999), or of the last quarter of the steps")
    patience: int | None = option(None, "stop after this many evaluations without gain", minimum=1, maximum=MOST)
    evaluate_every: int | None = option(None, "steps between evaluations on the valid text "
                                        "[default: a twentieth of all]", minimum=1, maximum=MOST)
    precision: Literal["float32", "bfloat16", "float16"] = option("float32", "of products, where the hardware has it")
    recompute: bool = option(False, "keep fewer activations and compute them again (checkpointing): less memory, slower")
    seed: int = option(0, "of every random choice", minimum=0, maximum=MOST_SEED)
    tensorboard: bool = option(False, "write TensorBoard files beside the log")

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = [name for name in ("minutes", "steps", "epochs") if getattr(self, name) is not None]
        if len(lengths) > 1:
            raise ConfigError(f"{' and '.join(lengths)} both say how long to train; give one of them")

    @property
    def limit(self) -> float:
        """What `clip` compares with."""
        if self.clip_at is not None:
            return self.clip_at
        return 3.0 if self.clip == "adaptive" else 1.0

    @property
    def rate(self) -> float:
        """The highest learning rate."""
        if self.lr is not None:
            return self.lr
        return _RATES[self.optimizer]
