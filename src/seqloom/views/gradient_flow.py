"""How gradients flow through time: in a recurrent language model, in fresh cells, and in the
demonstrations of vanishing and exploding gradients, with the figures that are measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.charts.gradients import distance_chart, position_chart
from seqloom.charts.page import Sheet
from seqloom.encoder_table import find_cell
from seqloom.errors import ConfigError
from seqloom.models.network.flow import (
    HORIZON,
    SEEDS,
    Flow,
    constant_slope_ratios,
    measure,
    medians_of,
    tanh_ratios,
)
from seqloom.models.network.network import require_torch
from seqloom.views.catalogue import view
from seqloom.views.configs import GradientsOptions
from seqloom.views.hidden import visible
from seqloom.views.reading import remarks

SHOWN = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # distances in the table of a terminal
INPUT = "input"  # what is read, among the layers
# The loss of the last answer, and of all: what each is called.
LOSSES = {
    "language model": ("loss of the last token", "loss of the whole text"),
    "classifier": ("loss of the label", ""),
    "tagger": ("loss of the last tag", "loss of all tags"),
    "translator": ("loss of the last token of the translation", "loss of the whole translation"),
    "forecaster": ("error of the last step that is forecast", "error of the whole forecast"),
}
MOST_CELLS = 7  # lines that colours tell apart
FEW_SEEDS = 20  # of the demonstration: whose medians are compared
SCALES, GAINS = (0.5, 3.0), (0.5, 1.0, 1.5, 3.0, 6.0)
FRESH = {"hidden", "start", "gain", "forget_bias", "noise", "seed"}  # options of fresh cells


@view
def gradients(model: Any, example: Any, options: GradientsOptions) -> Sheet:
    """Show how far back a change of the state reaches, and of a model how far back its loss does."""
    if model is not None:
        if options.cell:
            raise ConfigError("give a model or cell=..., not both")
        return _of_model(model, example, options)
    if options.cell:
        return _of_cells(options)
    return _demonstrations()


# ---- fresh cells


def _of_cells(options: GradientsOptions) -> Sheet:
    names = list(dict.fromkeys(options.cell))
    if len(names) > MOST_CELLS:
        raise ConfigError(f"cell has {len(names)} names; give at most {MOST_CELLS}")
    for name in names:
        find_cell(name)
    require_torch("gradients")
    from seqloom.models.network.flow_net import drive_fresh_cell

    flows = {}
    for name in names:
        layer = drive_fresh_cell(
            name,
            width=options.hidden,
            steps=options.distance + options.distance // 2,
            start=options.start,
            gain=options.gain,
            forget_bias=options.forget_bias,
            noise=options.noise,
            seed=options.seed,
        )
        layer.name = name
        flows[name] = measure(layer, options.distance)
    return _sheet(
        f"Gradients of fresh cells, {options.hidden} units, {options.start} start",
        flows,
        [_sentence(name, flow) for name, flow in flows.items()],
    )


# ---- a model


def _of_model(model: Any, example: Any, options: GradientsOptions) -> Sheet:
    changed = [name for name in sorted(FRESH) if getattr(options, name) != _default(name)]
    if changed:
        raise ConfigError(
            f"{changed[0]} is an option of fresh cells; give cell=... or leave it out"
        )
    require_torch(model.name)
    from seqloom.models.network.loss_gradients_net import loss_gradients

    read = loss_gradients(model, example)
    flows = {layer.name: measure(layer, options.distance) for layer in read.flows}
    norms = {
        name: (np.linalg.norm(whole, axis=1), np.linalg.norm(read.last[name], axis=1))
        for name, whole in read.whole.items()
        if len(whole) == len(read.tokens)  # of documents, the upper level reads sentences
    }
    positions = [
        {
            "layer": name,
            "position": t,
            "token": token,
            "whole": float(all_answers[t]),
            "last": float(last_answer[t]),
        }
        for name, (all_answers, last_answer) in norms.items()
        for t, token in enumerate(read.tokens)
    ]
    reached = {name: reach_of(last) for name, (_, last) in norms.items()}
    what, whole = LOSSES[model.task]
    summary = [
        *remarks(model),
        *read.remarks,
        *(_sentence(name, flow) for name, flow in flows.items()),
        *_reaches(reached, read, norms, what),
    ]
    sheet = _sheet(f"{model.label()}: gradients", flows, summary)
    names = {"whole": whole, "last": what}
    if model.task == "classifier":  # which predicts once
        del names["whole"]
    title = "Gradient of the loss by the vector that is read at each position, and by each layer"

    drawn = spread(list(norms))
    if len(drawn) < len(norms):
        summary.append(f"Shown: {', '.join(map(short, drawn))}; the data has all.")

    def draw(page: bool) -> dict[str, Any]:
        shown = [visible(token) for token in read.tokens]
        rows = [
            row | {"layer": short(str(row["layer"]))} for row in positions if row["layer"] in drawn
        ]
        return {**(sheet.draw(page) if flows else {}), title: position_chart(rows, shown, names)}

    data = {
        **sheet.data,
        "positions": positions,
        "tokens": read.tokens,
        "answer": read.answer,
        "nats": read.losses,
        "reach": reached,
    }
    lines = [*sheet.lines, ""] if flows else []
    return Sheet(
        sheet.title,
        draw,
        data,
        summary,
        lines=[*lines, *_position_lines({name: norms[name] for name in drawn}, read.tokens)],
    )


def spread(names: list[str]) -> list[str]:
    """Return as many of the layers as colours tell apart: the first, the last, and some between.

    >>> spread([f"blocks.{i}" for i in range(13)])[:3]
    ['blocks.0', 'blocks.2', 'blocks.4']
    """
    places = np.linspace(0, len(names) - 1, min(len(names), MOST_CELLS)).round().astype(int)
    return [names[i] for i in places.tolist()]


def reach_of(norms: np.ndarray) -> int:
    """Return how many steps before the last one the gradient is at least 1 % of its largest norm.

    >>> reach_of(np.array([1e-6, 0.02, 0.3, 1.0, 0.5]))
    3
    """
    near = np.flatnonzero(norms >= HORIZON * norms.max()) if norms.any() else np.zeros(0, int)
    return int(len(norms) - 1 - near[0]) if len(near) else 0


def _reaches(
    reached: Mapping[str, int], read: Any, norms: Mapping[str, Any], what: str
) -> list[str]:
    """Say how far back the loss of the last answer reaches among what was read."""
    last, steps = norms[INPUT][1], len(read.tokens)
    if not last.sum():
        return []
    said = (
        f"The {what}, {visible(read.answer)}, reaches back {reached[INPUT]:,} of {steps - 1:,} steps: as far "
        "as its gradient by the vectors that are read is at least 1 % of its largest."
    )
    if steps < 10:
        return [said]
    share = last[-max(steps // 10, 1) :].sum() / last.sum()
    return [f"{said} {share:.0%} of it is in the last tenth of the positions (by norm)."]


def _position_lines(norms: Mapping[str, Any], tokens: Sequence[str]) -> list[str]:
    """Return the table of the gradients of the last answer's loss, by distance from the last position."""
    names = list(norms)
    heads = [short(name) for name in names]
    widths = [max(len(head), 10) for head in heads]
    lines = ["back  " + "  ".join(f"{head:>{width}}" for head, width in zip(heads, widths))]
    lines[0] += "  token"
    for k in sorted({*(k for k in (0, *SHOWN) if k < len(tokens)), len(tokens) - 1}):
        cells = [f"{norms[name][1][-1 - k]:>{width}.2e}" for name, width in zip(names, widths)]
        lines.append(f"{k:>4}  {'  '.join(cells)}  {visible(tokens[-1 - k])}")
    return lines


def short(name: str) -> str:
    """Return the name of a layer without the part of the network that it is in, where there is one stack.

    >>> short("encoder.stack.layers.0.reverse"), short("blocks.3"), short("sentences.encoder.stack.layers.0")
    ('layers.0.reverse', 'blocks.3', 'sentences.encoder.stack.layers.0')
    """
    for place in ("recurrent.", "encoder.stack.", "encoder."):
        if name.startswith(place):
            return name.removeprefix(place)
    return name


def _default(name: str) -> Any:
    return GradientsOptions.__dataclass_fields__[name].default


# ---- what both have


def _sheet(title: str, flows: Mapping[str, Flow], summary: Sequence[str]) -> Sheet:
    rows = [
        {"layer": name, "distance": k, **{what: values[i] for what, values in flow.curves.items()}}
        for name, flow in flows.items()
        for i, k in enumerate(flow.distances)
    ]
    drawn = spread(list(flows))
    curves = {
        (short(name), what): list(zip(flow.distances, values))
        for name, flow in flows.items()
        if name in drawn
        for what, values in flow.curves.items()
        if what != "state"
    }
    return Sheet(
        title,
        lambda page: {"What is left of a change after so many steps": distance_chart(curves)},
        {"rows": rows, "layers": [flow.measures() for flow in flows.values()]},
        list(summary),
        lines=_lines(flows),
    )


def _sentence(name: str, flow: Flow) -> str:
    """Say what was measured of one layer."""
    factor, at = flow.growth
    parts = [
        f"the gradient at distance {flow.horizon} is below 1 % of that at distance 1"
        if flow.horizon
        else f"at distance {flow.distances[-1]} the gradient is still above 1 % of that at distance 1"
    ]
    if flow.exponents and math.isfinite(flow.exponent):
        parts.append(f"it changes by a factor of {math.exp(flow.exponent):.3g} a step")
    if factor > 1.05:
        parts.append(f"at first it grows, to {factor:.3g} times at distance {at}")
    return f"{short(name)}: {'; '.join(parts)}."


def _lines(flows: Mapping[str, Flow]) -> list[str]:
    """Return the table of a terminal: norms by distance, and below it the measures of each layer."""
    columns = [
        (name, what) for name, flow in flows.items() for what in flow.curves if what != "state"
    ]
    heads = [f"{short(name)} {what}" for name, what in columns]
    widths = [max(len(head), 10) for head in heads]
    lines = ["distance  " + "  ".join(f"{head:>{width}}" for head, width in zip(heads, widths))]
    distances = sorted({k for flow in flows.values() for k in flow.distances})
    for k in (k for k in distances if k in SHOWN or k == distances[-1]):
        cells = []
        for (name, what), width in zip(columns, widths):
            values = dict(zip(flows[name].distances, flows[name].curves[what]))
            cells.append(f"{values[k]:>{width}.2e}" if k in values else " " * width)
        lines.append(f"{k:>8,}  " + "  ".join(cells))
    wide = max((len(short(name)) for name in flows), default=0) + 5
    lines += [
        "",
        f"{'':<{wide}}{'largest singular value':>24}{'spectral radius':>17}{'Lyapunov':>10}",
    ]
    for name, flow in flows.items():
        lines.append(
            f"{short(name) + ' J_t':<{wide}}{flow.singular:>24.3f}{flow.radius:>17.3f}"
            f"{flow.exponent:>10.3f}"
        )
        if flow.recurrent:
            r = flow.recurrent
            lines.append(
                f"{short(name) + ' W_h':<{wide}}{r['singular']:>24.3f}{r['radius']:>17.3f}"
            )
    return lines


# ---- demonstrations


def _demonstrations() -> Sheet:
    """Show how gradients vanish and explode in 100 steps back, with a constant slope and with tanh."""
    rows: list[dict[str, Any]] = []
    with progress.task("demonstrations", len(SCALES) + len(GAINS), "settings") as bar:
        for scale in SCALES:
            rows.append(
                _demonstrated("constant slope 0.5", scale, constant_slope_ratios(scale), 0.5)
            )
            bar.advance(1)
        for gain in GAINS:
            ratios, slope = tanh_ratios(gain)
            rows.append(_demonstrated("tanh, driven by noise", gain, ratios, slope))
            rows[-1]["medians"] = medians_of(ratios, FEW_SEEDS).tolist()
            bar.advance(1)
    lines = [f"{'':<24}{'gain':>6}{'left after 100 steps':>22}{'middle 95 %':>24}{'slope':>8}"]
    lines += [
        f"{row['what']:<24}{row['gain']:>6g}{row['median']:>22.1e}"
        f"{row['low']:>14.0e} to {row['high']:.0e}{row['slope']:>8.2f}"
        for row in rows
    ]
    return Sheet(
        "What is left of a gradient after 100 steps back",
        lambda page: {"What is left of a gradient after 100 steps back": _range_chart(rows)},
        {"rows": rows},
        [
            "64 units, W_h Gaussian with standard deviation gain / 8. With a constant slope: one matrix, "
            f"2,000 gradients. With tanh: the seeds 0 to {SEEDS - 1}, the slope is measured.",
            f"The median of so few as {FEW_SEEDS} seeds is a matter of luck: at a gain of {GAINS[-1]:g} it "
            f"is from {min(rows[-1]['medians']):.0e} to {max(rows[-1]['medians']):.0e}.",
            "tanh saturates where W_h is large, so a gain of 1.5 still vanishes, though its W_h has a "
            "largest singular value of about 3: above 1 is necessary for exploding, not enough.",
        ],
        lines=lines,
    )


def _demonstrated(what: str, gain: float, ratios: np.ndarray, slope: float) -> dict[str, Any]:
    low, median, high = np.quantile(ratios, [0.025, 0.5, 0.975]).tolist()
    return {"what": what, "gain": gain, "median": median, "low": low, "high": high, "slope": slope}


def _range_chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    from seqloom.charts.gradients import range_chart

    return range_chart(rows)
