"""Where each step of a text looks: weights of attention of any layer and head."""

from __future__ import annotations

from typing import Any

from seqloom.charts.page import Sheet
from seqloom.charts.translation import alignment_chart
from seqloom.errors import ConfigError
from seqloom.views.catalogue import view
from seqloom.views.configs import AttentionOptions
from seqloom.views.hidden import visible
from seqloom.views.reading import traced as read_traced


@view
def attention(model: Any, example: Any, options: AttentionOptions) -> Sheet:
    """Show the weights of one layer, of one head or the mean of all."""
    traced = read_traced(model, example, "*attention.weights", "*cross.weights")
    names = list(traced.arrays)
    chosen = len(names) - 1 if options.layer is None else options.layer
    if chosen >= len(names):
        raise ConfigError(f"layer must be from 0 to {len(names) - 1}; got {chosen}")
    weights = traced.arrays[names[chosen]]  # (heads, T, S)
    if options.head is not None and options.head >= len(weights):
        raise ConfigError(f"head must be from 0 to {len(weights) - 1}; got {options.head}")
    shown = weights.mean(0) if options.head is None else weights[options.head]
    steps = traced.steps(names[chosen])
    keys = traced.tokens if "cross" in names[chosen] else steps
    return Sheet(
        f"{model.label()}: {names[chosen]}",
        lambda page: {
            "Weights": alignment_chart(shown, list(map(visible, keys)), list(map(visible, steps)))
        },
        {"layer": names[chosen], "tokens": keys, "steps": steps, "weights": shown},
        [f"{len(names)} layers with {len(weights)} heads: {', '.join(names)}."],
    )
