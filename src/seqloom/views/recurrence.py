"""Gates, cell and hidden states of a recurrent network along a text."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.charts.belief import belief_chart
from seqloom.charts.page import Sheet
from seqloom.errors import ConfigError
from seqloom.views.catalogue import view
from seqloom.views.configs import GatesOptions
from seqloom.views.hidden import visible
from seqloom.views.reading import remarks
from seqloom.views.reading import traced as read_traced


@view
def gates(model: Any, example: Any, options: GatesOptions) -> Sheet:
    """Show the gates and states of one layer at each step of a text."""
    traced = read_traced(model, example)
    layers = layers_of(traced.arrays)
    names = list(layers)
    chosen = len(names) - 1 if options.layer is None else options.layer
    if chosen >= len(names):
        raise ConfigError(f"layer must be from 0 to {len(names) - 1}; got {chosen}")
    arrays = layers[names[chosen]]
    return Sheet(
        f"{model.label()}: {names[chosen]}",
        lambda page: {
            name: belief_chart(
                np.abs(array[:, : options.units]),
                list(map(visible, traced.steps(names[chosen]))),
                list(map(str, range(min(array.shape[1], options.units)))),
            )
            for name, array in arrays.items()
        },
        {"layer": names[chosen], "tokens": traced.tokens, **arrays},
        [
            *remarks(model),
            f"{len(traced.tokens):,} steps, {len(names)} layers and directions: {', '.join(names)}.",
        ],
    )


def layers_of(arrays: Any) -> dict[str, dict[str, np.ndarray]]:
    """Return the traced arrays of each layer and direction that has a state."""
    names = [name.removesuffix(".h") for name in arrays if name.endswith(".h")]
    return {
        layer: {
            name.removeprefix(f"{layer}."): array
            for name, array in arrays.items()
            if name.startswith((f"{layer}.gates.", f"{layer}.h", f"{layer}.c"))
        }
        for layer in names
    }
