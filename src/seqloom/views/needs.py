"""Which models have a view: each function tells it of one fitted model, by its contract or by its network."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any


def anything(model: Any) -> bool:
    """Tell that every model has it."""
    return True


def language_model(model: Any) -> bool:
    """Tell whether it is a language model."""
    from seqloom.contracts import LanguageModel

    return isinstance(model, LanguageModel)


def recurrence(model: Any) -> bool:
    """Tell whether it has recurrent layers that can be traced."""
    return hasattr(model, "trace") and has_weights(model, "*.w_h")


def attention(model: Any) -> bool:
    """Tell whether steps attend to each other, or those of a target to a source."""
    return hasattr(model, "trace") and (
        has_weights(model, "*attention.qkv.weight")
        or getattr(model.config, "attention", "none") != "none"
    )


def word_layers(model: Any) -> bool:
    """Tell whether it is a network that has vectors of the words of a text at each layer."""
    if getattr(model, "reads_numbers", False) or not hasattr(model, "trace"):
        return False
    if model.task == "language model":
        return hasattr(model.layers, "read_traced")
    return model.task != "answerer"


def network(model: Any) -> bool:
    """Tell whether it is a network, with weights by name."""
    return hasattr(model, "declared")


def has_weights(model: Any, pattern: str) -> bool:
    """Tell whether a network has weights with such a name, without loading them."""
    return hasattr(model, "declared") and any(
        fnmatchcase(name, pattern) for name in model.fitted_shapes()
    )
