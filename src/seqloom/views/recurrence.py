"""Gates, cell and hidden states of a recurrent network along a text, and what each unit remembers.

Half-life: a unit that keeps the share s of its value at each step has half of it left after
log(1/2) / log(s) steps; 1 / (1 - s) is its time constant. s is the mean over the text of f in an LSTM and
of what a GRU keeps: z, or 1 - z with `update="replace"`. A plain RNN has no such gate; there s is how far
the state of one step is that of the step before (the correlation of neighbours).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqloom.charts.page import Sheet
from seqloom.charts.shares import MAX_TOKENS, coloured_tokens
from seqloom.charts.states import memory_chart, state_chart
from seqloom.errors import ConfigError
from seqloom.models.network.recurrence import Layer, arrays_of, layers_of
from seqloom.views.catalogue import view
from seqloom.views.configs import CompareGatesOptions, GatesOptions, LayerOptions, UnitsOptions
from seqloom.views.hidden import visible
from seqloom.views.reading import remarks
from seqloom.views.reading import traced as read_traced

LOW, HIGH = 0.1, 0.9  # a gate beyond these counts as closed or open (Karpathy et al. 2015)
MAX_ROWS = 40  # lines of a table in a terminal
FIRES_ON = 3  # tokens that are named of a unit
TITLES = {
    "gates.i": "i: how much of the new is written",
    "gates.f": "f: how much of the old is kept",
    "gates.g": "g: the new",
    "gates.o": "o: how much is shown",
    "gates.r": "r: how much of the old state the new one sees",
    "gates.z": "z: the share of the old state that stays",
    "gates.n": "n: the new",
    "c": "c: the cell",
    "h": "h: the state that is shown",
}


class Reading(NamedTuple):
    """A text as one layer of a network read it."""

    layer: Layer
    steps: list[str]
    arrays: dict[str, np.ndarray]

    @property
    def state(self) -> np.ndarray:
        """Return what a unit is followed by: tanh of the cell, or the state where there is none, (T, H)."""
        return np.tanh(self.arrays["c"]) if "c" in self.arrays else self.arrays["h"]

    def shares(self) -> np.ndarray:
        """Return the mean share of its value that each unit keeps, (H,)."""
        kept = self.layer.kept(self.arrays)
        return neighbours_alike(self.state) if kept is None else kept.mean(0, dtype=np.float64)

    def order(self) -> np.ndarray:
        """Return the units, those with the longest memory first."""
        return np.argsort(-self.shares(), kind="stable")


def readings_of(model: Any, example: Any) -> list[Reading]:
    """Return what every layer and direction computes while it reads an example."""
    layers, traced = layers_of(model), read_traced(model, example)
    found = [
        Reading(layer, traced.steps(layer.name), arrays_of(layer, traced.arrays))
        for layer in layers
        if f"{layer.name}.h" in traced.arrays
    ]
    if not found or not len(found[0].steps):
        raise ConfigError("the text has no tokens, so there is no state to show")
    # Of documents, the upper level reads sentences.
    return [
        each if len(each.steps) == len(each.arrays["h"]) else each._replace(steps=numbered(each))
        for each in found
    ]


def numbered(reading: Reading) -> list[str]:
    return list(map(str, range(len(reading.arrays["h"]))))


def choose(readings: list[Reading], options: LayerOptions) -> Reading:
    """Return the reading of the layer that the options name."""
    layer = choose_layer([each.layer for each in readings], options.layer)
    return next(each for each in readings if each.layer is layer)


def choose_layer(layers: list[Layer], number: int | None) -> Layer:
    """Return the layer of that number, the last without one, or say which there are."""
    chosen = len(layers) - 1 if number is None else number
    if chosen >= len(layers):
        named = ", ".join(f"{i}: {each.name}" for i, each in enumerate(layers))
        raise ConfigError(
            f"layer must be from 0 to {len(layers) - 1} ({named}); got {chosen}", ["layer"]
        )
    return layers[chosen]


def check_unit(unit: int, width: int) -> int:
    """Return the unit, or say which there are."""
    if unit >= width:
        raise ConfigError(f"unit must be from 0 to {width - 1}; got {unit}", ["unit"])
    return unit


def half_lives(shares: np.ndarray) -> np.ndarray:
    """Return after how many steps half of a value is left, of which a share stays at each.

    >>> half_lives(np.array([0.5, 0.99, 0.0, 1.0])).round(2).tolist()
    [1.0, 68.97, 0.0, inf]
    """
    with np.errstate(divide="ignore"):
        return np.log(2) / np.abs(np.log(np.clip(shares, 0.0, 1.0)))


def time_constants(shares: np.ndarray) -> np.ndarray:
    """Return 1 / (1 - share), the mean number of steps that a value stays."""
    with np.errstate(divide="ignore"):
        return 1 / (1 - np.clip(shares, 0.0, 1.0))


def neighbours_alike(states: np.ndarray) -> np.ndarray:
    """Return the correlation of each unit's state with that of the step before, (H,), at least 0."""
    table = states.astype(np.float64)
    if len(table) < 3:
        return np.zeros(table.shape[1])
    before, after = table[:-1] - table[:-1].mean(0), table[1:] - table[1:].mean(0)
    scale = np.sqrt((before**2).sum(0) * (after**2).sum(0))
    both = (before * after).sum(0)
    return np.clip(np.divide(both, scale, out=np.zeros_like(both), where=scale > 0), 0.0, 1.0)


# ---- gates


@view
def gates(model: Any, example: Any, options: GatesOptions) -> Sheet:
    """Show the gates and states of one layer at each step of a text, and the ranges of all layers."""
    readings = readings_of(model, example)
    reading = choose(readings, options)
    shares, order = reading.shares(), reading.order()
    rows = [row for each in readings for row in range_rows(each)]
    shown = order[: options.units]
    data: dict[str, Any] = {
        "layer": reading.layer.name,
        "layers": [each.layer.name for each in readings],
        "tokens": reading.steps,
        **reading.arrays,
        "order": order,
        "half_life": half_lives(shares),
        "rows": rows,
    }
    coloured: list[tuple[str, float]] = []
    if options.unit is not None:
        followed = reading.state[:, check_unit(options.unit, reading.state.shape[1])]
        coloured = list(zip(map(visible, reading.steps), map(float, followed)))
        data |= {"unit": options.unit, "values": followed}

    def draw(page: bool) -> dict[str, Any]:
        charts = {}
        if coloured:
            sides = (f"unit {options.unit} above zero", "below zero")
            charts[f"The text by unit {options.unit}"] = coloured_tokens(
                coloured, sides, joiner=joiner_of(model), unit="value"
            )
        steps = list(map(visible, reading.steps))
        for name, array in reading.arrays.items():
            units = [unit for unit in shown.tolist() if unit < array.shape[1]]
            charts[title_of(name, reading.layer)] = state_chart(array[:, units], steps, units)
        return charts

    return Sheet(
        f"{model.label()}: {reading.layer.name}",
        draw,
        data,
        [*remarks(model), *_sentences(readings, reading, options, bool(coloured))],
        lines=[*range_lines(rows), *([""] if coloured else []), *value_lines(coloured)],
    )


def title_of(name: str, layer: Layer) -> str:
    """Return what a traced array is, in words."""
    if name == "gates.z" and layer.kind == "gru" and not layer.cell.keep:
        return "z: the share of the old state that is replaced"
    return TITLES.get(name, name) if layer.known else name


def joiner_of(model: Any) -> str:
    """Return what stands between two tokens of a text."""
    tokenizer = model.tokenizers.get("text")
    return " " if tokenizer is None or tokenizer.config.kind == "word" else ""


def range_rows(reading: Reading) -> list[dict[str, Any]]:
    """Return for each gate and state its mean, its range, and how much of it is saturated: beyond 0.1 and
    0.9 of a gate, beyond -0.9 and 0.9 of what goes through tanh.
    """
    rows = []
    for name, array in reading.arrays.items():
        values = array.astype(np.float64)
        signed = name in ("c", "h", "gates.g", "gates.n")
        rows.append(
            {
                "layer": reading.layer.name,
                "name": name.removeprefix("gates."),
                "mean": float(values.mean()),
                "lowest": float(values.min()),
                "5 %": float(np.quantile(values, 0.05)),
                "95 %": float(np.quantile(values, 0.95)),
                "highest": float(values.max()),
                "closed": float((values < (-HIGH if signed else LOW)).mean()),
                "open": float((values > HIGH).mean()),
            }
        )
    return rows


def range_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines, layer = [], ""
    for row in rows:
        if row["layer"] != layer:
            layer = row["layer"]
            lines.append(f"{layer:<34}  mean  lowest     5 %    95 %  highest  closed   open")
        numbers = "".join(
            f"{row[key]:>8.3f}" for key in ("mean", "lowest", "5 %", "95 %", "highest")
        )
        lines.append(f"  {row['name']:<30}{numbers}{row['closed']:>8.1%}{row['open']:>7.1%}")
    return lines


def value_lines(values: list[tuple[str, float]]) -> list[str]:
    """Return a line for each step of the beginning of a text: the value, a bar, the token."""
    lines = []
    for token, value in values[:MAX_ROWS]:
        bar = "#" * round(10 * min(abs(value), 1.0))
        sides = f"{bar if value < 0 else '':>10}|{bar if value >= 0 else '':<10}"
        lines.append(f"{value:>+7.3f}  {sides}  {token!r}")
    if len(values) > MAX_ROWS:
        lines.append(f"... and {len(values) - MAX_ROWS:,} more steps, which the data has")
    return lines


def _sentences(
    readings: list[Reading], reading: Reading, options: GatesOptions, coloured: bool
) -> list[str]:
    shares, order = reading.shares(), reading.order()
    longest = half_lives(shares)
    names = ", ".join(each.layer.name for each in readings)
    said = [
        f"{len(reading.steps):,} steps; layers and directions, from 0: {names}. "
        f"Shown: {reading.layer.name}, the {min(options.units, len(order))} of {len(order)} units with "
        "the longest memory, longest first.",
        "Longest half-lives: "
        + ", ".join(f"unit {unit} {longest[unit]:,.1f} steps" for unit in order[:3].tolist())
        + f"; the median of all is {float(np.median(longest)):,.2f}.",
        f"closed: below {LOW}, or below -{HIGH} of what has a sign; open: above {HIGH}.",
    ]
    if coloured and len(reading.steps) > MAX_TOKENS:
        said.append(f"The text is coloured up to step {MAX_TOKENS:,}.")
    return said


# ---- units


@view
def units(model: Any, example: Any, options: UnitsOptions) -> Sheet:
    """Show a line for each unit of a layer: half-life, saturation, mean, and what it fires on most."""
    reading = choose(readings_of(model, example), options)
    rows = unit_rows(reading)
    lines = [f"{'unit':>6}{'half-life':>11}{'closed':>8}{'open':>7}{'mean':>8}  fires on"]
    for row in rows[: options.count]:
        fires = "  ".join(f"{visible(token)!r} {value:+.2f}" for token, value in row["fires_on"])
        lines.append(
            f"{row['unit']:>6}{row['half_life']:>11,.2f}{row['closed']:>8.1%}{row['open']:>7.1%}"
            f"{row['mean']:>+8.3f}  {fires}"
        )
    followed = "tanh of its cell" if "c" in reading.arrays else "its state"
    said = [
        f"{reading.layer.name}: {len(rows):,} units over {len(reading.steps):,} steps, those with the "
        f"longest memory first. Mean and what a unit fires on are of {followed}: the tokens at which it is "
        "farthest from its mean, of those that come twice. closed and open: how often what it keeps is "
        f"below {LOW} or above {HIGH}.",
    ]
    if reading.layer.kept(reading.arrays) is None:
        said.append(
            "No gate of this cell is known to keep: half-lives are those of the correlation of neighbouring "
            f"steps, and closed and open are of the state, beyond -{HIGH} and {HIGH}."
        )
    return Sheet(
        f"{model.label()}: units of {reading.layer.name}",
        lambda page: {
            "How long the units remember": memory_chart(
                {reading.layer.name: np.maximum(half_lives(reading.shares()), 1e-3)}
            )
        },
        {"layer": reading.layer.name, "rows": rows},
        [*remarks(model), *said],
        lines=lines,
    )


def unit_rows(reading: Reading) -> list[dict[str, Any]]:
    """Return what is said of each unit, those with the longest memory first."""
    shares, states = reading.shares(), reading.state.astype(np.float64)
    kept = reading.layer.kept(reading.arrays)
    closed = (states < -HIGH if kept is None else kept < LOW).mean(0)
    opened = (states if kept is None else kept) > HIGH
    life, constant = half_lives(shares), time_constants(shares)
    tokens, which = np.unique(np.array(reading.steps, object).astype(str), return_inverse=True)
    counts = np.bincount(which, minlength=len(tokens))
    means = np.zeros((len(tokens), states.shape[1]))
    np.add.at(means, which, states)
    means /= counts[:, None]
    away = np.abs(means - states.mean(0))
    if (counts > 1).any():  # what came once says little
        away[counts == 1] = -1.0
    rows = []
    for unit in reading.order().tolist():
        if unit >= states.shape[1]:
            continue
        best = np.argsort(-away[:, unit], kind="stable")[:FIRES_ON]
        rows.append(
            {
                "unit": unit,
                "half_life": float(life[unit]),
                "time_constant": float(constant[unit]),
                "closed": float(closed[unit]),
                "open": float(opened.mean(0)[unit]),
                "mean": float(states[:, unit].mean()),
                "lowest": float(states[:, unit].min()),
                "highest": float(states[:, unit].max()),
                "fires_on": [
                    [str(tokens[i]), float(means[i, unit])]
                    for i in best.tolist()
                    if away[i, unit] >= 0
                ],
            }
        )
    return rows


# ---- two models


@view
def compare_gates(model: Any, other: Any, example: Any, options: CompareGatesOptions) -> Sheet:
    """Show how long the units of two recurrent networks remember, and how open their gates are, on one
    text.
    """
    curves, rows, lines = {}, [], []
    for number, each in enumerate((model, other)):
        for reading in readings_of(each, example):
            label = f"{each.label()} {reading.layer.name}"
            label = f"{label} ({number + 1})" if label in curves else label
            life = half_lives(reading.shares())
            kept = reading.layer.kept(reading.arrays)
            value = reading.state if kept is None else kept
            curves[label] = np.maximum(life, 1e-3)
            rows.append(
                {
                    "model": each.label(),
                    "layer": reading.layer.name,
                    "cell": reading.layer.kind,
                    "units": len(life),
                    "steps": len(reading.steps),
                    "median_half_life": float(np.median(life)),
                    "longest_half_life": float(life.max()),
                    "above": float((life > options.steps).mean()),
                    "closed": float((np.abs(value) < LOW).mean()),
                    "open": float((np.abs(value) > HIGH).mean()),
                }
            )
    lines.append(
        f"{'':<40}{'units':>6}{'median':>9}{'longest':>10}{f'over {options.steps}':>9}"
        f"{'closed':>8}{'open':>7}"
    )
    for label, row in zip(curves, rows):
        lines.append(
            f"{label:<40}{row['units']:>6}{row['median_half_life']:>9.2f}"
            f"{row['longest_half_life']:>10,.1f}{row['above']:>9.1%}{row['closed']:>8.1%}{row['open']:>7.1%}"
        )
    return Sheet(
        f"{model.label()} and {other.label()}: what the units keep",
        lambda page: {"Half-lives of the units": memory_chart(curves)},
        {"rows": rows, "half_lives": {name: value.tolist() for name, value in curves.items()}},
        [
            *dict.fromkeys([*remarks(model), *remarks(other)]),
            "Half-lives in steps, by the mean share that a unit keeps: f of an LSTM, z of a GRU (1 - z with "
            "update=replace); without such a gate, by the correlation of neighbouring steps. closed and "
            f"open: below {LOW} and above {HIGH}.",
        ],
        lines=lines,
    )
