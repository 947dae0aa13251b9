"""Where each step of a text looks: weights of attention of any layer and head, as a map and as arcs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.charts.attention import NAMED, arcs_chart, weights_chart
from seqloom.charts.page import Sheet
from seqloom.errors import ConfigError, DataError
from seqloom.traces import Traced
from seqloom.views.catalogue import view
from seqloom.views.configs import AttentionOptions
from seqloom.views.hidden import visible
from seqloom.views.reading import remarks
from seqloom.views.reading import traced as read_traced

WEIGHTS = ("*attention.weights", "*cross.weights", "cross.weights")
AT_ONCE = 1 << 26  # weights of all layers up to which one pass collects them
MOST = 2048  # words that a model without a limit of its own reads
MAX_LINES = 40  # tokens in the table of a terminal
MAX_LAYERS = 6  # that are listed by name


@view
def attention(model: Any, example: Any, options: AttentionOptions) -> Sheet:
    """Show the weights of one layer, of one head or the mean of all."""
    layer = layer_of(model, example, options.layer)
    if options.head is not None and options.head >= len(layer.weights):
        raise ConfigError(
            f"head must be from 0 to {len(layer.weights) - 1}; got {options.head}", ["head"]
        )
    weights = layer.weights.mean(0) if options.head is None else layer.weights[options.head]
    keys, steps = list(map(visible, layer.keys)), list(map(visible, layer.steps))
    which = (
        f"mean of {len(layer.weights)} heads" if options.head is None else f"head {options.head}"
    )

    def draw(page: bool) -> dict[str, Any]:
        charts = {"Weights": weights_chart(weights, keys, steps)}
        if max(len(keys), len(steps)) <= NAMED and len(keys) > 1:
            sides = ": back at the right, ahead at the left" if layer.itself else ""
            charts[f"What each token looks at most{sides}"] = arcs_chart(weights, keys, steps)
        return charts

    return Sheet(
        f"{model.label()}: {layer.name}, {which}",
        draw,
        {
            "layer": layer.name,
            "layers": layer.names,
            "head": options.head,
            "tokens": layer.keys,
            "steps": layer.steps,
            "weights": weights,
        },
        [
            *remarks(model),
            f"Each row of weights says where one token looks; it sums to 1. {which.capitalize()}, layer "
            f"{layer.name} of {len(layer.names)}: {_listed(layer.names)}.",
        ],
        lines=_lines(weights, keys, steps, layer.itself),
    )


class Layer(NamedTuple):
    """The weights of one layer (heads, T, S), what looks and what is looked at, and all layers' names."""

    name: str
    weights: np.ndarray
    steps: list[str]
    keys: list[str]
    names: list[str]

    @property
    def itself(self) -> bool:
        """Tell whether a sequence looks at itself."""
        return "cross" not in self.name


def layer_names(model: Any) -> list[str]:
    """Return the layers of attention of a model by what they are called in a trace, without reading."""
    shapes = model.fitted_shapes()
    names = [
        name.removesuffix(".out.weight")
        for name in shapes
        if name.endswith(("attention.out.weight", "cross.out.weight"))
    ]
    config = model.config
    published = getattr(config, "published", None) or config
    if (
        getattr(published, "shared_layers", False) and len(names) == 1
    ):  # one block, used again and again
        names = [names[0].replace(".0.", f".{i}.") for i in range(published.n_layers)]
    if model.task == "translator" and getattr(config, "attention", "none") != "none":
        names.append("cross")
    return names


def read_cut(model: Any, example: Any, *patterns: str) -> Traced:
    """Return the trace of an example; of the words of a tagger, which reads any number, the first."""
    if model.task == "tagger":
        words = example.split() if isinstance(example, str) else list(example)
        if len(words) > MOST:
            progress.say(f"of {len(words):,} words, the first {MOST:,} are read together and shown")
            example = words[:MOST]
    return read_traced(model, example, *patterns)


def layer_of(model: Any, example: Any, number: int | None) -> Layer:
    """Return one layer by its number, the last without one."""
    names = layer_names(model)
    chosen = len(names) - 1 if number is None else number
    if chosen >= len(names):
        raise ConfigError(f"layer must be from 0 to {len(names) - 1}; got {chosen}", ["layer"])
    traced = read_cut(model, example, f"{names[chosen]}.weights")
    return _layer(traced, names[chosen], names)


def layers_of(model: Any, example: Any) -> Iterator[Layer]:
    """Yield all layers of attention; those of a long text one at a time, so that one fits into memory."""
    names = layer_names(model)
    first = read_cut(model, example, f"{names[0]}.weights")
    lowest = _layer(first, names[0], names)  # what is said of a long text is said once, of this one
    heads, steps, keys = lowest.weights.shape
    many = model.task != "translator" and heads * steps * keys * len(names) > AT_ONCE
    yield lowest
    traced = None
    for name in names[1:]:
        with progress.unsaid():
            if traced is None or many:
                traced = read_cut(model, example, *((f"{name}.weights",) if many else WEIGHTS))
            layer = _layer(traced, name, names)
        yield layer


def _layer(traced: Traced, name: str, names: list[str]) -> Layer:
    array = traced.arrays[f"{name}.weights"]
    steps = traced.steps(name)
    if "cross" not in name and array.shape[1] > array.shape[2]:  # read in several windows
        progress.say(
            f"of {len(steps):,} tokens, the first {array.shape[2]:,} are read together and shown"
        )
        array, steps = array[:, : array.shape[2]], steps[: array.shape[2]]
    if not steps:
        raise DataError("nothing of this text is read, so nothing is looked at; give a longer one")
    return Layer(name, array, steps, traced.tokens if "cross" in name else steps, names)


def _listed(names: list[str]) -> str:
    """Name all layers; of many the first and the last, with their numbers."""
    if len(names) <= MAX_LAYERS:
        return ", ".join(names)
    return f"{names[0]} (0) to {names[-1]} ({len(names) - 1})"


def _lines(weights: np.ndarray, keys: list[str], steps: list[str], itself: bool) -> list[str]:
    """Return a line for each of the first tokens: what it looks at most."""
    lines = [f"{'token':<18}looks at"]
    for step, row in zip(steps[:MAX_LINES], weights):
        best = np.argsort(-row, kind="stable")[:3]
        shown = "  ".join(
            f"{keys[i]!r} {row[i]:.0%}" if row[i] >= 0.005 else f"{keys[i]!r} {row[i]:.1g}"
            for i in best.tolist()
            if row[i] >= 0.005 or row[best[0]] < 0.005
        )
        lines.append(f"{step!r:<18}{shown}")
    if len(steps) > MAX_LINES:
        lines.append(f"and {len(steps) - MAX_LINES:,} more tokens")
    return lines
