"""`seqloom models [DIR...]`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from seqloom.cli.options import common, emit, finite
from seqloom.errors import DataError, SeqloomError
from seqloom.registry import MODELS, load_plugins


class Found(NamedTuple):
    """A saved model below a directory, or why it is none."""

    path: str
    values: dict[str, Any]
    problem: str | None = None


@click.command(
    name="models",
    epilog="""\b
Examples:
  seqloom models
  seqloom models saved other/model --json
""",
)
@click.argument("directories", nargs=-1, metavar="[DIR]...")
@common
def command(directories: tuple[str, ...], as_json: bool) -> None:
    """List the models that can be fitted and those that are read from a file; with DIR, the saved
    models in and below it, by task, with the results that `evaluate --card` added to them.
    """
    load_plugins()
    if directories:
        _saved(directories, as_json)
        return
    if as_json:
        for name, entry in MODELS.items():
            emit(
                {"name": name, "task": entry.task, "fitted": entry.fitted, "summary": entry.summary}
            )
        return
    lines = {
        name: f"{name:<{max(map(len, MODELS))}}  {entry.task:<14}  {entry.summary}"
        for name, entry in MODELS.items()
    }
    click.echo("\n".join(line for name, line in lines.items() if MODELS[name].fitted))
    click.echo("\nNot fitted, but made from a file by seqloom convert:")
    click.echo("\n".join(line for name, line in lines.items() if not MODELS[name].fitted))


def _saved(directories: Sequence[str], as_json: bool) -> None:
    for directory in directories:
        if not Path(directory).is_dir():
            raise DataError(f"{directory}: no such directory")
    found = [_described(path) for path in _below(directories)]
    if as_json:
        for one in found:
            problem = {} if one.problem is None else {"error": one.problem}
            emit({"path": one.path, **one.values, **problem})
        return
    tables = [_table(task, rows) for task, rows in _by_task(found).items()]
    damaged = [f"{one.path}: {one.problem}" for one in found if one.problem is not None]
    if damaged:
        tables.append("damaged\n" + "\n".join(map(_visible, damaged)))
    click.echo("\n\n".join(tables) or f"no saved models in {', '.join(directories)}")


def _below(directories: Sequence[str]) -> Iterator[Path]:
    """Yield directories with a config.json of seqloom, each once, in order; what is inside a saved
    model belongs to it.
    """
    seen = set()
    for top in directories:
        for place, inside, files in os.walk(top):
            inside.sort()
            if "config.json" not in files or not _ours(Path(place)):
                continue
            inside.clear()
            if (real := os.path.realpath(place)) not in seen:
                seen.add(real)
                yield Path(place)


def _ours(place: Path) -> bool:
    """Return whether this may be a saved model: its config.json says so, or is no JSON beside arrays."""
    from seqloom.directories import read_small_file

    try:
        config = json.loads(read_small_file(place / "config.json"))
    except (OSError, ValueError, RecursionError):
        return (place / "model.safetensors").exists()
    return isinstance(config, dict) and config.get("format") == "seqloom"


def _described(place: Path) -> Found:
    from seqloom.cards import main_metric, read_results
    from seqloom.storage import ARRAYS, read_config

    path = place.as_posix()
    try:
        config = read_config(place)
        if not (place / ARRAYS).is_file():
            return Found(path, {}, f"{ARRAYS} is missing")
        results = read_results(place)["results"]
        size = sum(f.stat().st_size for f in place.rglob("*") if f.is_file())
    except (SeqloomError, OSError) as error:
        return Found(path, {}, str(error).removeprefix(f"{path}: ").removeprefix(f"{path}/"))
    values = {
        "task": config["task"],
        "model": config["model"],
        "size": size,
        "trained_on": config["fit"].get("data_hash"),
        "results": results,
    }
    if results and (best := main_metric(results[-1]["metrics"])) is not None:
        name, value, interval = best
        values |= {"metric": name, "value": value, "interval": interval}
        values |= {"on": results[-1]["data"], "speed": results[-1].get("speed")}
    return Found(path, finite(values))


def _by_task(found: list[Found]) -> dict[str, list[Found]]:
    tasks: dict[str, list[Found]] = {}
    for one in found:
        if one.problem is None:
            tasks.setdefault(one.values["task"], []).append(one)
    return dict(sorted(tasks.items()))


def _table(task: str, rows: list[Found]) -> str:
    from seqloom.comparison.table import Column, chosen, lines, short, size

    def text(key: str) -> Any:
        return lambda one: _visible("-" if one.values.get(key) is None else str(one.values[key]))

    def interval(one: Found) -> str:
        ends = one.values.get("interval")
        return " to ".join(map(_number, ends)) if ends else "-"

    def speed(one: Found) -> str:
        rate = (one.values.get("speed") or {}).get("examples_per_second")
        return short(rate) if isinstance(rate, (int, float)) else "-"

    columns = [
        Column("saved in", 100, lambda one: _visible(one.path), True),
        Column("model", 95, text("model"), True),
        Column("metric", 98, lambda one: text("metric")(one).replace("_", " "), True),
        Column("value", 99, lambda one: _number(one.values.get("value"))),
        Column("95 %", 90, interval, True),
        Column("on", 70, text("on"), True),
        Column("size", 80, lambda one: size(one.values["size"])),
        Column("trained on", 50, lambda one: text("trained_on")(one)[:8], True),
        Column("examples/s", 60, speed),
    ]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    shown: list[Column] = chosen(columns, rows, width)
    return "\n".join([_visible(task), *lines(shown, rows)])


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else _visible(str(value))


def _visible(text: str) -> str:
    from seqloom.comparison.table import visible

    return " ".join(visible(text).split())
