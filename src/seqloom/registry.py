"""Every model by name. Adding a model is adding a line here; the contract tests then run on it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from seqloom.errors import ConfigError, suggest


@dataclass(frozen=True)
class Entry:
    target: str  # "module:Class", imported when it is first used
    task: str
    summary: str


MODELS: dict[str, Entry] = {
    "uniform": Entry("seqloom.models.language.uniform:Uniform", "language model",
                     "every token equally likely: the calibration rung"),
    "ngram": Entry("seqloom.models.language.ngram:NGram", "language model",
                   "n-gram model of any order with six smoothing methods"),
    "cache": Entry("seqloom.models.language.cache:Cache", "language model",
                   "unigram of the recent past; a member for mixtures"),
    "mixture": Entry("seqloom.models.language.mixture:Mixture", "language model",
                     "weighted mean of other language models, weights by EM"),
}


def model_class(name: str) -> Any:
    """The class behind a registered name."""
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}{suggest(name, MODELS)} Known: {', '.join(MODELS)}")
    module, attribute = MODELS[name].target.split(":")
    return getattr(import_module(module), attribute)
