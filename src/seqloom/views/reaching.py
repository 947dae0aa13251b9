"""How far back networks learn, lag by lag, and what the activation of a plain RNN does to its gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from statistics import median
from typing import Any

import numpy as np

from seqloom.charts.gradients import reach_chart
from seqloom.charts.page import Sheet
from seqloom.encoder_table import CELLS, ENCODERS, has_cell, has_encoder
from seqloom.errors import ConfigError, suggest
from seqloom.models.network.flow import measure
from seqloom.models.network.network import require_torch
from seqloom.models.network.reach import (
    LAGS,
    SOLVED,
    WITHOUT_FORGETTING,
    Climb,
    Kept,
    Setting,
    climb,
    compare_orders,
)
from seqloom.views.catalogue import view
from seqloom.views.configs import ActivationsOptions, ReachOptions

TITLES = {
    "recall": "First token recalled",
    "adding": "Two numbers added",
    "copying": "Three tokens copied",
}
REASONS = {
    "learned": "top of the ladder",
    "updates": "not learned in the updates",
    "diverged": "diverged",
    "time": "time was over",
}
SATURATED = 0.95  # of the largest value of tanh and sigmoid, and of their distance from the least


@view
def reach(options: ReachOptions) -> Sheet:
    """Train every encoder at growing lags and show the largest that each learns."""
    require_torch("reach")
    from seqloom.models.network.reach_net import TASKS, learn

    encoders = _encoders(options.encoder)
    if "transformer" in encoders and options.hidden % 8:
        raise ConfigError(
            f"hidden must be a multiple of 8 for transformer; got {options.hidden}", ["hidden"]
        )
    tasks = _among("task", options.task or tuple(TASKS), TASKS)
    starts = _among("start", options.start, ("orthogonal", "normal", "identity"))
    settings = [
        Setting(
            encoder,
            task,
            clip,
            seed,
            start,
            bias,
            hidden=options.hidden,
            updates=options.updates,
            noise=noise,
        )
        for seed in range(options.seed, options.seed + options.seeds)
        for task in tasks
        for encoder in encoders
        for noise in dict.fromkeys(options.noise)
        for start, bias in _beginnings(encoder, starts, options.forget_bias)
        for clip in ((True, False) if options.clip == "both" else (options.clip == "norm",))
    ]
    lags = options.lags or LAGS
    climbs = climb(settings, lags, options.minutes, learn, kept=Kept(options.work))
    several = len(starts) > 1, len(set(options.forget_bias)) > 1, set(options.noise) != {0.0}
    labels = [_label(one.setting, *several) for one in climbs]
    rows = [
        {
            "encoder": label,
            "task": one.setting.task,
            "clip": one.setting.clip,
            "seed": one.setting.seed,
            "noise": one.setting.noise,
            "reach": one.reach,
            "ended": one.ended,
        }
        for label, one in zip(labels, climbs)
    ]
    rungs = [
        {"encoder": label, "task": one.setting.task, "clip": one.setting.clip,
         "seed": one.setting.seed, **vars(rung)}
        for label, one in zip(labels, climbs)
        for rung in one.rungs
    ]  # fmt: skip
    return Sheet(
        "How far back networks learn",
        lambda page: {
            TITLES[task]: reach_chart([r for r in rows if r["task"] == task], lags)
            for task in tasks
        },
        {"rows": rows, "rungs": rungs, "lags": list(lags)},
        _said(climbs, options),
        lines=_lines(rows, tasks),
    )


def _encoders(names: Sequence[str]) -> list[str]:
    """Return the given encoders, or all of the table but those of both directions: at the last step the
    backward one has read nothing else.
    """
    for name in names:
        if name != WITHOUT_FORGETTING and not has_cell(name) and not has_encoder(name):
            known = [*ENCODERS, WITHOUT_FORGETTING]
            raise ConfigError(
                f"encoder must be of {', '.join(known)}; got {name!r}{suggest(name, known)}",
                ["encoder"],
            )
    if names:
        return list(dict.fromkeys(names))
    has_encoder("")  # asks packages that may add to the table
    both = {name for name, entry in ENCODERS.items() if ("bidirectional", True) in entry.fixed}
    single = [name for name in ENCODERS if name not in both]
    single.sort(key=lambda name: (name not in CELLS, list(ENCODERS).index(name)))
    at = single.index("lstm") + 1
    return [*single[:at], WITHOUT_FORGETTING, *single[at:]]


def _beginnings(
    encoder: str, starts: Sequence[str], biases: Sequence[float]
) -> list[tuple[str, float]]:
    """Return the initial weights that make a difference to an encoder."""
    if encoder not in CELLS and encoder != WITHOUT_FORGETTING:
        return [(starts[0], biases[0])]
    return list(product(starts, dict.fromkeys(biases) if encoder == "lstm" else biases[:1]))


def _among(name: str, values: Sequence[str], known: Iterable[str]) -> list[str]:
    for value in values:
        if value not in known:
            raise ConfigError(
                f"{name} must be of {', '.join(known)}; got {value!r}{suggest(value, list(known))}",
                [name],
            )
    return list(dict.fromkeys(values))


def _label(setting: Setting, starts: bool, biases: bool, noises: bool) -> str:
    name = "lstm, no forget gate" if setting.encoder == WITHOUT_FORGETTING else setting.encoder
    cell = setting.encoder in CELLS or setting.encoder == WITHOUT_FORGETTING
    parts = [name]
    parts += [f"{setting.start} start"] if starts and cell else []
    parts += (
        [f"forget bias {setting.forget_bias:g}"] if biases and setting.encoder == "lstm" else []
    )
    return ", ".join([*parts, *([f"noise {setting.noise:g}"] if noises else [])])


def _said(climbs: Sequence[Climb], options: ReachOptions) -> list[str]:
    s = climbs[0].setting
    summary = [
        f"{s.hidden} units, at most {s.updates:,} updates of 32 sequences at each lag, which begins "
        f"with the weights of the lag below; learned: {SOLVED:.0%} right, or of the variance."
    ]
    holds, fails, still_open = compare_orders(climbs, "rnn", ("gru", "lstm"))
    if holds or fails:
        summary.append(
            f"rnn reaches less far than gru and lstm in {len(holds)} of {len(holds + fails)}."
        )
    if fails:
        summary.append(f"It does not with {'; '.join(fails)}.")
    if still_open:
        summary.append(
            f"In {len(still_open)} the time was over before gru and lstm could pass rnn."
        )
    cut = sum(one.ended == "time" for one in climbs)
    if cut:
        summary.append(
            f"{cut} of {len(climbs)} were cut off by the {options.minutes:g} minutes: theirs is at least "
            "what is shown. More minutes, or fewer encoders or tasks, let them go on."
        )
    return summary


def _lines(rows: Sequence[dict[str, Any]], tasks: Sequence[str]) -> list[str]:
    """Return the table of a terminal: the largest lag learned, the median of the seeds."""
    clips = list(dict.fromkeys(row["clip"] for row in rows))
    columns = [(task, clip) for task in tasks for clip in clips]
    heads = [f"{task}{'' if clip else ', no clip'}" for task, clip in columns]
    names = list(dict.fromkeys(row["encoder"] for row in rows))
    width = max(map(len, names)) + 2
    lines = [" " * width + "".join(f"{head:>18}" for head in heads)]
    for name in names:
        cells = []
        for task, clip in columns:
            mine = [r for r in rows if (r["encoder"], r["task"], r["clip"]) == (name, task, clip)]
            cells.append(_cell(mine))
        lines.append(f"{name:<{width}}" + "".join(f"{cell:>18}" for cell in cells))
    return [*lines, "", "Largest lag that was learned; > cut off by the time, * diverged."]


def _cell(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    shown = f"{median(row['reach'] for row in rows):g}"
    marks = {"time": ">", "diverged": "*"}
    return next((marks[r["ended"]] for r in rows if r["ended"] in marks), "") + shown


# ---- activations


@view
def activations(options: ActivationsOptions) -> Sheet:
    """Compare the activations of a plain RNN: saturation, size of the state, gradient, and reach."""
    require_torch("activations")
    from seqloom.models.network import reach_net

    variants = [(name, "orthogonal") for name in reach_net.activations()]
    variants.append(("relu", "identity"))
    settings = [
        Setting("rnn", "recall", True, options.seed, start, activation=name, hidden=options.hidden,
                updates=options.updates)
        for name, start in variants
    ]  # fmt: skip
    climbs = climb(settings, options.lags or LAGS, options.minutes, reach_net.learn)
    rows = [
        {**_fresh(name, start, options), "reach": one.reach, "ended": one.ended}
        for (name, start), one in zip(variants, climbs)
    ]
    cut = [row["activation"] for row in rows if row["ended"] == "time"]
    charts = [{**row, "encoder": row["activation"], "clip": True} for row in rows]
    return Sheet(
        "Activations of a plain RNN",
        lambda page: {"First token recalled": reach_chart(charts, options.lags or LAGS)},
        {"rows": rows},
        [
            f"Fresh networks of {options.hidden} units that read noise, after {options.distance} steps; "
            "reach is the largest lag at which the first token is recalled after training.",
            f"Saturated: a state within {1 - SATURATED:.0%} of the end of its range, or of relu at zero.",
            *([f"The time cut off {', '.join(cut)}; more minutes let them go on."] if cut else []),
        ],
        lines=_activation_lines(rows, options.distance),
    )


def _fresh(name: str, start: str, options: ActivationsOptions) -> dict[str, Any]:
    """Return the measures of a fresh network with that activation."""
    from seqloom.models.network.flow_net import drive_fresh_cell

    layer = drive_fresh_cell(
        "rnn",
        width=options.hidden,
        steps=2 * options.distance,
        start=start,
        seed=options.seed,
        options={"activation": name},
    )
    flow = measure(layer, options.distance)
    states = layer.states[options.distance :]
    return {
        "activation": name if start == "orthogonal" else f"{name}, {start} start",
        "saturated": _saturated(name, states),
        "state": float(np.median(np.linalg.norm(states, axis=1))),
        "gradient": flow.curves["dh/dh"][-1],
        "lyapunov": flow.exponent,
        "horizon": flow.horizon,
    }


def _saturated(name: str, states: np.ndarray) -> float:
    """Return the share of states (T, H) where the activation is flat."""
    if name == "sigmoid":
        states = 2 * states - 1
    flat = states <= 0 if "relu" in name else np.abs(states) >= SATURATED
    return float(flat.mean())


def _activation_lines(rows: Sequence[dict[str, Any]], distance: int) -> list[str]:
    lines = [
        f"{'':<22}{'saturated':>10}{'state norm':>12}{f'gradient at {distance}':>18}{'Lyapunov':>10}"
        f"{'reach':>8}"
    ]
    for row in rows:
        mark = ">" if row["ended"] == "time" else ""
        lines.append(
            f"{row['activation']:<22}{row['saturated']:>10.0%}{row['state']:>12.3g}"
            f"{row['gradient']:>18.1e}{row['lyapunov']:>10.3f}{mark + str(row['reach']):>8}"
        )
    return lines
