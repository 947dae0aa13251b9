"""One step of a recurrent cell: every number between its inputs and its new state, beside the equations.

`names="ltm"` calls the parts of an LSTM as textbooks with a long-term and a short-term memory do: the
event E is x, STM is h, LTM is c; the forget gate takes f and LTM, the learn gate i and the candidate N,
the remember gate adds what they give and has no weights, the use gate shows tanh(LTM) through o.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqloom.charts.page import Sheet
from seqloom.charts.states import step_chart
from seqloom.errors import ConfigError
from seqloom.models.network.recurrence import (
    Layer,
    activation_of,
    agree,
    arrays_of,
    layers_of,
    numbers_of,
    patterns_of,
)
from seqloom.views.catalogue import view
from seqloom.views.configs import StepOptions
from seqloom.views.hidden import visible
from seqloom.views.reading import remarks
from seqloom.views.reading import traced as read_traced
from seqloom.views.recurrence import check_unit, choose_layer

Numbers = dict[str, np.ndarray]
DRAWN = 40  # units


class Row(NamedTuple):
    """A number of one unit: the part of the cell, its name, how it comes about, the same in numbers."""

    part: str
    name: str
    equation: str
    numbers: str
    value: float


@view
def step(model: Any, example: Any, options: StepOptions) -> Sheet:
    """Show one step of one layer with all its numbers, and for one unit the equations beside them."""
    layer = choose_layer(layers_of(model), options.layer)
    if options.names == "ltm" and layer.kind != "lstm":
        raise ConfigError(
            f"names=ltm are those of an LSTM; {layer.name} is a cell of kind {layer.kind}"
        )
    traced = read_traced(model, example, *patterns_of(layer))
    arrays = arrays_of(layer, traced.arrays)
    steps = len(arrays["h"]) if "h" in arrays else 0
    if not steps:
        raise ConfigError("the text has no tokens, so there is no step to show")
    at = steps - 1 if options.at is None else options.at
    if at >= steps:
        raise ConfigError(
            f"at must be from 0 to {steps - 1}, the steps of this text; got {at}", ["at"]
        )
    numbers = numbers_of(layer, arrays, at)
    state = "c" if "c" in numbers else "h"
    width = len(numbers[state])
    changed = np.abs(numbers[state] - numbers[f"{state}_before"])
    unit = int(changed.argmax()) if options.unit is None else check_unit(options.unit, width)
    follows = layer.known and agree(layer, numbers)
    rows = equations(layer, numbers, unit, options.names) if follows else plain_rows(numbers, unit)
    names = traced.steps(layer.name)
    name = names[at] if len(names) == steps else str(at)
    token = visible(name)
    said = [
        f"{layer.name} ({layer.kind}), step {at} of 0 to {steps - 1}, which reads {name!r}; unit {unit} of "
        f"0 to {width - 1}" + (" (it changes most)." if options.unit is None else "."),
    ]
    if not follows:
        said.append(
            f"The equations of this cell ({layer.kind}) are not known here, so only what it traced is shown."
        )
    else:
        read, before = ("E", "STM' and LTM'") if options.names == "ltm" else ("x", "h' and c'")
        before = before if "c" in numbers else "h'"
        said.append(f"{read} is what the layer reads; {before}: of the step before.")
    if follows and getattr(layer.cell, "w_p", None) is not None:
        said.append(f"h is W_p times these {width} values: {len(numbers['h'])} numbers.")
    return Sheet(
        f"{model.label()}: one step of {layer.name}",
        lambda page: {
            f"What {state} is made of, by unit; the black line is {state} after the step": step_chart(
                *parts_of(numbers, state)
            )
        },
        {
            "layer": layer.name,
            "cell": layer.kind,
            "at": at,
            "token": token,
            "unit": unit,
            "rows": [row._asdict() for row in rows],
            **numbers,
        },
        [*remarks(model), *said],
        lines=lines_of(rows),
    )


def parts_of(numbers: Numbers, state: str) -> tuple[list[int], dict[str, np.ndarray], np.ndarray]:
    """Return the units that change most, what their new state is the sum of, and that state."""
    units = np.argsort(-np.abs(numbers[state] - numbers[f"{state}_before"]), kind="stable")[:DRAWN]
    if "kept" in numbers:
        names = {"kept of the old": "kept", "new": "learnt"}
        parts = {said: numbers[name][units] for said, name in names.items()}
    else:
        parts = {"before": numbers[f"{state}_before"][units], "after": numbers[state][units]}
    return units.tolist(), parts, numbers[state][units]


def plain_rows(numbers: Numbers, unit: int) -> list[Row]:
    """Return what a cell traced of a unit, without equations."""
    return [
        Row("", name, "", "", float(values[unit]))
        for name, values in numbers.items()
        if unit < len(values) and name not in ("x", "from_x", "from_h")
    ]


def equations(layer: Layer, numbers: Numbers, unit: int, names: str) -> list[Row]:
    """Return the equations of a unit with their numbers."""
    at = {name: float(values[unit]) for name, values in numbers.items() if unit < len(values)}
    d = layer.cell.d_hidden
    x, h = numbers["from_x"].reshape(-1, d)[:, unit], numbers["from_h"].reshape(-1, d)[:, unit]
    rows: list[Row] = []

    def add(part: str, name: str, equation: str, terms: str, value: float) -> None:
        rows.append(Row(part, name, equation, terms, value))

    if layer.kind == "lstm":
        _lstm(add, layer, at, x, h, names)
    elif layer.kind == "gru":
        _gru(add, layer, at, x, h)
    else:
        normed = len(layer.cell.norm_h.weight) > 0
        equation = "norm(W_x x + b + W_h h')" if normed else "W_x x + b + W_h h'"
        add("state", "z", equation, "" if normed else f"{x[0]:+.4f} {h[0]:+.4f}", at["z_h"])
        apply = activation_of(layer)
        add("state", "h", f"{apply}(z)", f"{apply}({at['z_h']:.4f})", at["h"])
    return rows


def _lstm(add: Any, layer: Layer, at: dict[str, float], x: Any, h: Any, names: str) -> None:
    ltm = names == "ltm"
    event, short, long, new = ("E", "STM'", "LTM'", "N") if ltm else ("x", "h'", "c'", "g")
    normed = len(layer.cell.norm_h.weight) > 0
    parts = {"f": "forget gate", "i": "learn gate" if ltm else "input gate"}
    parts |= {"g": "learn gate" if ltm else "candidate", "o": "use gate" if ltm else "output gate"}
    for gate in "figo":
        k, said = "ifgo".index(gate), new if gate == "g" else gate
        product = (
            f"norm(W_{said} {event}) + b_{said} + norm(V_{said} {short})"
            if normed
            else f"W_{said} {event} + b_{said} + V_{said} {short}"
        )
        add(parts[gate], f"z_{said}", product, f"{x[k]:+.4f} {h[k]:+.4f}", at[f"z_{gate}"])
        apply = "tanh" if gate == "g" else "sigmoid"
        add(parts[gate], said, f"{apply}(z_{said})", f"{apply}({at[f'z_{gate}']:.4f})", at[gate])
        if gate == "f":
            terms = f"{at['f']:.4f} * {at['c_before']:.4f}"
            add(parts[gate], "kept", f"f {long}", terms, at["kept"])
        if gate == "g":
            terms = f"{at['i']:.4f} * {at['g']:.4f}"
            add(parts[gate], "learnt", f"i {new}", terms, at["learnt"])
            terms = f"{at['kept']:.4f} {at['learnt']:+.4f}"
            add("remember gate" if ltm else "cell", long[:-1], "kept + learnt", terms, at["c"])
    inside = f"norm({long[:-1]})" if len(layer.cell.norm_c.weight) else long[:-1]
    add(parts["o"], "shown", f"tanh({inside})", "", at["squashed"])
    terms = f"{at['o']:.4f} * {at['squashed']:.4f}"
    name = short[:-1] if layer.cell.w_p is None else "before W_p"
    add(parts["o"], name, "o shown", terms, at["unprojected"])


def _gru(add: Any, layer: Layer, at: dict[str, float], x: Any, h: Any) -> None:
    left, right = ("norm(", ")") if len(layer.cell.norm_h.weight) else ("", "")
    for k, (gate, part) in enumerate((("r", "reset gate"), ("z", "update gate"))):
        product = f"{left}W_{gate} x{right} + b_{gate} + {left}V_{gate} h'{right}"
        add(part, f"z_{gate}", product, f"{x[k]:+.4f} {h[k]:+.4f}", at[f"z_{gate}"])
        add(part, gate, f"sigmoid(z_{gate})", f"sigmoid({at[f'z_{gate}']:.4f})", at[gate])
    if len(layer.cell.b_h):
        terms = f"{h[2]:+.4f} {at['inner'] - h[2]:+.4f}"
        add("candidate", "inner", f"{left}V_n h'{right} + b_hn", terms, at["inner"])
        product = f"{left}W_n x{right} + b_n + r inner"
        terms = f"{x[2]:+.4f} + {at['r']:.4f} * {at['inner']:.4f}"
    else:
        product = f"{left}W_n x{right} + b_n + {left}V_n (r h'){right}"
        terms = f"{x[2]:+.4f} {h[2]:+.4f}"
    add("candidate", "z_n", product, terms, at["z_n"])
    add("candidate", "n", "tanh(z_n)", f"tanh({at['z_n']:.4f})", at["n"])
    keep, new = ("z", "(1 - z)") if layer.cell.keep else ("(1 - z)", "z")
    share = at["z"] if layer.cell.keep else 1 - at["z"]
    add("state", "kept", f"{keep} h'", f"{share:.4f} * {at['h_before']:.4f}", at["kept"])
    add("state", "learnt", f"{new} n", f"{1 - share:.4f} * {at['n']:.4f}", at["learnt"])
    add("state", "h", "kept + learnt", f"{at['kept']:.4f} {at['learnt']:+.4f}", at["h"])


def lines_of(rows: list[Row]) -> list[str]:
    """Return the rows as columns, the name of a part where it begins."""
    lines, part = [], ""
    widths = [max(map(len, column)) for column in zip(*(row[:4] for row in rows))]
    for row in rows:
        head = row.part if row.part != part else ""
        part = row.part
        columns = (
            head,
            row.name,
            row.equation and f"= {row.equation}",
            row.numbers and f"= {row.numbers}",
        )
        sizes = (widths[0], widths[1], widths[2] + 2, widths[3] + 2)
        text = "  ".join(f"{column:<{size}}" for column, size in zip(columns, sizes))
        lines.append(f"{text}  = {row.value:+.4f}")
    return lines
