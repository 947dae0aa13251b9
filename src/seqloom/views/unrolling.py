"""A recurrent network unrolled in time, drawn from the model's own shape: what each step reads, the cells of
all layers and directions, the states that go from step to step, and what the outputs are read from.
"""

from __future__ import annotations

import math
from typing import Any

from seqloom.charts.page import Sheet
from seqloom.charts.unrolled import Box, Way, unrolled_chart
from seqloom.models.network.recurrence import Layer, layers_of, stacks_of
from seqloom.views.catalogue import view
from seqloom.views.configs import UnrolledOptions
from seqloom.views.reading import remarks

OUTPUTS = {
    "language model": "next token",
    "classifier": "label",
    "tagger": "tag",
    "answerer": "ends of the answer",
    "forecaster": "forecast",
}


@view
def unrolled(model: Any, options: UnrolledOptions) -> Sheet:
    """Show the network unrolled over some steps, and the size of each of its layers."""
    layers, steps = layers_of(model), options.steps
    rows = [_row(model, layer) for layer in layers]
    boxes: list[Box] = []
    ways: list[Way] = []
    column = 0
    places = list(stacks_of(model))
    for number, place in enumerate(places):
        own = [layer for layer in layers if layer.name.startswith(f"{place}.layers.")]
        _draw(model, place, own, steps, column, number == len(places) - 1, boxes, ways)
        if number:
            top = max(box.row for box in boxes if box.column < column)
            said = "the source" if place == "decoder" else "the words of a sentence"
            ways.append(Way((column - 2, top), (column, 1), said))
        column += steps + 1
    total = sum(row["parameters"] for row in rows)
    return Sheet(
        f"{model.label()}, unrolled over {steps} steps",
        lambda page: {"Unrolled in time": unrolled_chart(boxes, ways)},
        {
            "rows": rows,
            "steps": steps,
            "parameters": total,
            "boxes": [box._asdict() for box in boxes],
            "ways": [way._asdict() for way in ways],
        },
        [
            *remarks(model),
            f"{total:,} numbers in the cells, the same ones at every step: as many for {steps} steps as for "
            "1,000.",
        ],
        lines=[*diagram(layers, steps), "", *_lines(rows)],
    )


def _row(model: Any, layer: Layer) -> dict[str, Any]:
    """Return the sizes of a layer's cell, and the number of its parameters."""
    cell = layer.cell
    return {
        "layer": layer.name,
        "cell": layer.kind,
        "reads": columns_of(cell.w_x),
        "units": cell.d_hidden,
        "gives": cell.d_out,
        "carries": " and ".join(cell.leaves),
        "parameters": parameters_of(model, layer),
    }


def columns_of(linear: Any) -> int:
    return int(linear.weight.shape[1])


def parameters_of(model: Any, layer: Layer) -> int:
    """Return how many numbers of a layer are learnt."""
    shapes = model.fitted_shapes()
    names = [layer.name, layer.name.replace("encoder.", "decoder.", 1)]  # one stack may be both
    counts = [
        sum(
            math.prod(shape)
            for key, shape in shapes.items()
            if key.startswith(f"{name}.") and not key.startswith(f"{name}.reverse.")
        )
        for name in names
    ]
    return counts[0] or counts[1]


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"{'layer':<36}{'cell':<8}{'reads':>7}{'units':>7}{'gives':>7}{'numbers':>12}  carries"
    ]
    for row in rows:
        lines.append(
            f"{row['layer']:<36}{row['cell']:<8}{row['reads']:>7,}{row['units']:>7,}{row['gives']:>7,}"
            f"{row['parameters']:>12,}  {row['carries']}"
        )
    return lines


def diagram(layers: list[Layer], steps: int) -> list[str]:
    """Return the unrolled network in characters, the top layer first."""
    lines = []
    for layer in reversed(layers):
        name = f"[{layer.kind} {layer.cell.d_hidden}]"
        arrow = "<--" if layer.reverse else "-->"
        state = ", ".join(layer.cell.leaves)
        chain = arrow.join([name] * min(steps, 4)) + (" ..." if steps > 4 else "")
        lines.append(f"{chain}   {state}   {layer.name}")
    inputs = "".join(f"{f'x_{t}':^{len(name) + 3}}" for t in range(1, min(steps, 4) + 1))
    return [*lines, inputs.rstrip()]


def _draw(
    model: Any,
    place: str,
    layers: list[Layer],
    steps: int,
    column: int,
    last: bool,
    boxes: list[Box],
    ways: list[Way],
) -> None:
    """Add the boxes and ways of one stack, whose first step stands in a column."""
    writes = place == "decoder"
    reads = "sentence" if place.startswith("sentences") else "y" if writes else "x"
    width = columns_of(layers[0].cell.w_x)
    directions = 2 if any(layer.reverse for layer in layers) else 1
    for t in range(steps):
        said = f"{reads}_{t if writes else t + 1}"
        boxes.append(Box(column + t, 0, said, f"{width} numbers", "input"))
        for row, layer in enumerate(layers, 1):
            side = "back" if layer.reverse else "cell"
            boxes.append(
                Box(column + t, row, layer.kind.upper(), f"{layer.cell.d_hidden} units", side)
            )
            for below in below_of(row, directions):
                ways.append(Way((column + t, below), (column + t, row), ""))
            if t + 1 < steps:
                ends = (column + t, row), (column + t + 1, row)
                ways.append(
                    Way(*(ends[::-1] if layer.reverse else ends), ", ".join(layer.cell.leaves))
                )
    if not last:
        return
    top, told = len(layers) + 1, OUTPUTS.get(model.task, "output")
    once = model.task in ("classifier", "forecaster")  # one answer, from the last column
    from_ends = once and answers_from_ends(model)
    for t in range(steps):
        to = column + (steps - 1 if once else t)
        if to == column + t:
            boxes.append(Box(to, top, f"y_{t + 1}" if writes else told, "", "output"))
        for row in below_of(top, directions):
            if not from_ends or t == (0 if layers[row - 1].reverse else steps - 1):
                ways.append(Way((column + t, row), (to, top), ""))


def answers_from_ends(model: Any) -> bool:
    """Tell whether one answer is read from the last step of each direction alone."""
    if model.task == "forecaster":
        return bool(model.runtime().last)
    return model.config.pools == "last"


def below_of(row: int, directions: int) -> list[int]:
    """Return the rows that a row reads: the input, or all directions of the layer below.

    >>> below_of(1, 2), below_of(2, 2), below_of(3, 2), below_of(4, 2), below_of(2, 1)
    ([0], [0], [1, 2], [1, 2], [1])
    """
    level = (row - 1) // directions
    return [level * directions - k for k in reversed(range(directions))] if level else [0]
