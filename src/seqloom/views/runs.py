"""How training went: losses, learning rate and gradient norm from the logs of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom.charts.page import Sheet
from seqloom.charts.training import Curves, judged, losses, norms, panels, rates
from seqloom.errors import ConfigError, ModelError, suggest

Lines = list[dict[str, Any]]
KEYS = {"steps": "step", "tokens": "tokens", "seconds": "seconds"}


def training_curves(runs: str | Path | Sequence[str | Path], *, by: str = "steps") -> Sheet:
    """Of networks' saved models, or of the directories of runs, against steps, tokens or seconds."""
    if by not in KEYS:
        raise ConfigError(f"by must be one of {', '.join(KEYS)}; got {by!r}{suggest(by, KEYS)}")
    logs = {
        str(run): _read(str(run)) for run in ([runs] if isinstance(runs, (str, Path)) else runs)
    }
    if not logs:
        raise ConfigError("no run given; nothing to draw")
    in_bits = all("bits_per_byte" in line for lines in logs.values() for line in lines)
    curves = [_curves(name, lines, by, in_bits) for name, lines in logs.items()]
    units = {
        line.get("unit", "nats per token")
        for lines in logs.values()
        for line in lines
        if "loss" in line
    }
    unit = "bits per byte" if in_bits else " or ".join(sorted(units))
    summary = [
        f"{run.name}: {lines[-1]['step']:,} steps, least {'held-out' if run.held_out else 'training'} loss "
        f"{run.best[1]:.4f} {unit}"
        for run, lines in zip(curves, logs.values())
        if run.best is not None
    ]
    criteria = sorted(
        {line["criterion"] for lines in logs.values() for line in lines if "criterion" in line}
    )
    other = " or ".join(criteria)  # what runs are judged by, where it is not the loss
    return Sheet(
        "Training of " + ", ".join(logs),
        lambda page: {
            "Loss": losses(curves, by=by, unit=unit),
            **({f"Held-out {other}": judged(curves, by=by, criterion=other)} if other else {}),
            "Learning rate": rates(curves, by=by),
            "Gradient norm": norms(curves, by=by),
        },
        [_numbers(run, lines, by, unit) for run, lines in zip(curves, logs.values())],
        summary,
        panels,
    )


def _read(name: str) -> Lines:
    """The log of that run; also where the model is not saved yet and NAME.run is meant."""
    from seqloom.training.checkpoint import read_log

    if not Path(name).exists() and Path(f"{name}.run").is_dir():
        name = f"{name}.run"
    if not Path(name).exists():
        raise ModelError(
            f"{name}: no such directory; give a network's saved model, or its OUT.run while it trains"
        )
    lines = [line for line in read_log(name) if "loss" in line or "valid" in line]
    if not lines:
        raise ModelError(f"{name}: nothing has been logged yet; wait for the first steps")
    return lines


def _curves(name: str, lines: Lines, by: str, in_bits: bool) -> Curves:
    key = KEYS[by]
    if not all(key in line for line in lines):
        raise ConfigError(f"{name}: its log has no {by}; plot it by steps")

    def points(having: str, value: str) -> list[tuple[float, float]]:
        pairs = [
            (float(line[key]), float(line[value]))
            for line in lines
            if having in line and value in line
        ]
        return [p for p in pairs if math.isfinite(p[1])]

    held_out = points("valid", "bits_per_byte" if in_bits else "valid")
    other = any("criterion" in line for line in lines)  # what it is judged by is not the loss
    return Curves(
        name,
        points("loss", "bits_per_byte" if in_bits else "loss"),
        [] if other else held_out,
        points("lr", "lr"),
        points("norm", "norm"),
        held_out if other else [],
    )


def _numbers(run: Curves, lines: Lines, by: str, unit: str) -> dict[str, Any]:
    best = None if run.best is None else {by: run.best[0], "loss": run.best[1]}
    return {
        "run": run.name,
        "unit": unit.replace(" ", "_"),
        "best": best,
        "training": [line for line in lines if "loss" in line],
        "held_out": [line for line in lines if "valid" in line],
    }
