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
from seqloom.contracts import LanguageModel
from seqloom.encoder_table import find_cell
from seqloom.errors import ConfigError, DataError
from seqloom.models.network.flow import (
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

MOST_TOKENS = 512  # of a text, from its beginning
SHOWN = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # distances in the table of a terminal
MOST_CELLS = 7  # lines that colours tell apart
FEW_SEEDS = 20  # of the demonstration: whose medians are compared
SCALES, GAINS = (0.5, 3.0), (0.5, 1.0, 1.5, 3.0, 6.0)
FRESH = {"hidden", "start", "gain", "forget_bias", "noise", "seed"}  # options of fresh cells


@view
def gradients(model: LanguageModel | None, text: str | None, options: GradientsOptions) -> Sheet:
    """Show how far back a change of the state reaches, and of a model how far back its loss does."""
    if model is not None:
        if options.cell:
            raise ConfigError("give a model or cell=..., not both")
        return _of_model(model, text or "", options)
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


def _of_model(model: LanguageModel, text: str, options: GradientsOptions) -> Sheet:
    changed = [name for name in sorted(FRESH) if getattr(options, name) != _default(name)]
    if changed:
        raise ConfigError(
            f"{changed[0]} is an option of fresh cells; give cell=... or leave it out"
        )
    require_torch(model.name)
    from seqloom.models.network.flow_net import read_language_model

    inputs, targets, remark = _window(model, text)
    layers, nats = read_language_model(model, inputs, targets)
    flows = {layer.name: measure(layer, options.distance) for layer in layers}
    tokens = [model.tokenizer.token(token) for token in inputs.tolist()]
    positions = [
        {
            "layer": layer.name,
            "position": t,
            "token": tokens[t],
            "whole": float(np.linalg.norm(layer.loss[t])),
            "last": float(np.linalg.norm(layer.last_loss[t])),
        }
        for layer in layers
        for t in range(len(tokens))
    ]
    last = model.tokenizer.token(int(targets[-1]))
    summary = [
        *remarks(model),
        *remark,
        *(_sentence(name, flow) for name, flow in flows.items()),
        *_recency(positions, last),
    ]
    sheet = _sheet(f"{model.label()}: gradients", flows, summary)
    charts = {
        "Gradient of the loss by the state at each position": position_chart(
            positions, [visible(token) for token in tokens]
        )
    }
    data = {**sheet.data, "positions": positions, "tokens": tokens, "nats": nats}
    return Sheet(
        sheet.title,
        lambda page: {**sheet.draw(page), **charts},
        data,
        summary,
        lines=sheet.lines,
    )


def _window(model: Any, text: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the tokens that are read, those that are predicted, and what is to be said of the choice."""
    from seqloom.contracts.transforming import tokens_before

    encoded, lengths = model.encode(text)
    ids = np.asarray(encoded, np.int64)
    if not len(ids):
        raise DataError("the text is empty; give one, or a file that has one")
    inputs, remark = tokens_before(model, ids), []
    if not model.carry and len(lengths) > 1:
        chosen = int(np.argmax(lengths))
        low = int(np.sum(lengths[:chosen]))
        ids, inputs = (array[low : low + int(lengths[chosen])] for array in (ids, inputs))
        remark.append(
            f"Of {len(lengths):,} units the longest is shown; the state does not cross them."
        )
    if len(ids) > MOST_TOKENS:
        remark.append(f"Of {len(ids):,} tokens the first {MOST_TOKENS:,} are shown.")
    return inputs[:MOST_TOKENS], ids[:MOST_TOKENS], remark


def _recency(positions: Sequence[Mapping[str, Any]], last: str) -> list[str]:
    """Say how much of the gradient of the last token's loss is in the last tenth of the positions."""
    top = [row for row in positions if row["layer"] == positions[-1]["layer"]]
    norms = np.array([row["last"] for row in top])
    if len(norms) < 10 or not norms.sum():
        return []
    share = norms[-max(len(norms) // 10, 1) :].sum() / norms.sum()
    return [
        f"Of the gradient of the loss of the last token, {visible(last)}, {share:.0%} is in the last tenth "
        "of the positions (in the top layer, by norm)."
    ]


def _default(name: str) -> Any:
    return GradientsOptions.__dataclass_fields__[name].default


# ---- what both have


def _sheet(title: str, flows: Mapping[str, Flow], summary: Sequence[str]) -> Sheet:
    rows = [
        {"layer": name, "distance": k, **{what: values[i] for what, values in flow.curves.items()}}
        for name, flow in flows.items()
        for i, k in enumerate(flow.distances)
    ]
    curves = {
        (name, what): list(zip(flow.distances, values))
        for name, flow in flows.items()
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
    return f"{name}: {'; '.join(parts)}."


def _lines(flows: Mapping[str, Flow]) -> list[str]:
    """Return the table of a terminal: norms by distance, and below it the measures of each layer."""
    columns = [
        (name, what) for name, flow in flows.items() for what in flow.curves if what != "state"
    ]
    heads = [f"{name} {what}" for name, what in columns]
    widths = [max(len(head), 10) for head in heads]
    lines = ["distance  " + "  ".join(f"{head:>{width}}" for head, width in zip(heads, widths))]
    distances = sorted({k for flow in flows.values() for k in flow.distances})
    for k in (k for k in distances if k in SHOWN or k == distances[-1]):
        cells = []
        for (name, what), width in zip(columns, widths):
            values = dict(zip(flows[name].distances, flows[name].curves[what]))
            cells.append(f"{values[k]:>{width}.2e}" if k in values else " " * width)
        lines.append(f"{k:>8,}  " + "  ".join(cells))
    lines += ["", f"{'':<18}{'largest singular value':>24}{'spectral radius':>17}{'Lyapunov':>10}"]
    for name, flow in flows.items():
        lines.append(
            f"{name + ' J_t':<18}{flow.singular:>24.3f}{flow.radius:>17.3f}{flow.exponent:>10.3f}"
        )
        if flow.recurrent:
            r = flow.recurrent
            lines.append(f"{name + ' W_h':<18}{r['singular']:>24.3f}{r['radius']:>17.3f}")
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
            f"The median of so few as {FEW_SEEDS} seeds is a matter of luck: at a gain of {GAINS[-1]:g} it is "
            f"from {min(rows[-1]['medians']):.0e} to {max(rows[-1]['medians']):.0e}, by which {FEW_SEEDS}.",
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
