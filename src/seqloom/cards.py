"""A saved model's README: what it is, what it was made of, how good it was found and how to use it;
and `results.json`, where `evaluate --card` keeps what it found.

The page is made of config.json, results.json and the sizes of the files, and is never read. Names,
labels and options may be anything, so they are escaped: no text in a model becomes a link, a heading
or a row of its own.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqloom import directories
from seqloom.errors import ModelError

CARD, RESULTS = "README.md", "results.json"
VERSION = 1
MOST_RESULTS = 50  # that one model keeps, the newest
LONGEST = 300  # characters of a value on the page
SHOWN = 12  # classes on the page
# Of contracts, and commands of the same name.
VERBS = ("predict", "generate", "complete", "translate", "forecast", "anomalies", "fill", "nearest")
_PLAIN = re.compile(r"[\w .,+/%()=-]*")
_MARKUP = re.compile(r"([!-/:-@\[-`{-~])")  # every ASCII punctuation, all of which may be escaped
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_RISKY = re.compile(r"\b_|_\b|www\.|^([-+=]|\d+\.(\s|$))", re.IGNORECASE)


def inert(value: Any) -> str:
    """Return a value as text that a page of Markdown shows as it is, in one line.

    >>> inert("a|b [here](http://x) <b>")
    'a\\\\|b \\\\[here\\\\]\\\\(http\\\\:\\\\/\\\\/x\\\\) \\\\<b\\\\>'
    """
    text = _UNSEEN.sub(" ", str(value)).strip()
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    if _PLAIN.fullmatch(text) and (not isinstance(value, str) or not _RISKY.search(text)):
        return text
    return _MARKUP.sub(r"\\\1", text)


# ---- results


def read_results(directory: str | Path) -> dict[str, Any]:
    """Return the `results` of a model and the `reference` of its texts; empty, where it has none."""
    path = Path(directory) / RESULTS
    if not path.exists():
        return {"results": [], "reference": None}
    try:
        values = json.loads(directories.read_small_file(path).decode("utf-8"))
        return _checked(values)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: damaged ({error}); remove it, and evaluate again") from None


def _checked(values: Any) -> dict[str, Any]:
    """Check what a stranger may have written; a ValueError says what is wrong."""
    if not isinstance(values, dict) or values.get("format") != "seqloom results":
        raise ValueError("no results of seqloom")
    if values.get("version") != VERSION:
        raise ValueError(f"version {values.get('version')!r:.20}, not {VERSION}")
    results = values.get("results")
    if not isinstance(results, list) or len(results) > MOST_RESULTS:
        raise ValueError("`results` is no list of a few")
    for one in results:
        if not isinstance(one, dict):
            raise ValueError("a result is no object")
        for key, kind in {"data": str, "metrics": dict, "signature": dict, "notes": list}.items():
            if not isinstance(one.get(key), kind):
                raise ValueError(f"{key!r} of a result is missing or wrong")
        if not isinstance(one.get("speed", {}), dict):
            raise ValueError("'speed' of a result is wrong")
        if not all(map(_simple, (*one["metrics"].values(), *one.get("speed", {}).values()))):
            raise ValueError("a metric is neither number nor text")
    if values.get("reference") is not None and not isinstance(values["reference"], dict):
        raise ValueError("`reference` is no object")
    return {"results": results, "reference": values.get("reference")}


def _simple(value: Any) -> bool:
    """Return whether a value is a number, a short text, or an interval."""
    if isinstance(value, list):
        return len(value) <= 2 and all(type(item) in (int, float, str) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return value is None or isinstance(value, (bool, int, float, str))


def add_result(
    model: Any,
    directory: str | Path,
    result: Mapping[str, Any],
    reference: Mapping[str, Any] | None = None,
) -> None:
    """Add a result to a saved model and write its README again. Each file is replaced in one step;
    an earlier result on the same data with the same settings is replaced.
    """
    from seqloom.storage import read_config

    place, config = Path(directory), read_config(directory)
    known = read_results(place)
    same = (result["data"], result["signature"])
    results = [one for one in known["results"] if (one["data"], one["signature"]) != same]
    values: dict[str, Any] = {
        "format": "seqloom results",
        "version": VERSION,
        "results": [*results, dict(result)][-MOST_RESULTS:],
        "reference": dict(reference) if reference is not None else known["reference"],
    }
    options = model.config.effective_options(trained="train" in config["fit"])
    with directories.writing_file(place / RESULTS, ModelError) as partial:
        partial.write_text(_written(values), encoding="utf-8")
    page = card(config | {"config": options}, place, values["results"])
    with directories.writing_file(place / CARD, ModelError) as partial:
        partial.write_text(page, encoding="utf-8")


def _written(values: dict[str, Any]) -> str:
    """Return JSON with a line for each result and for each part of the reference."""
    lines = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in values["results"])
    reference = values["reference"]
    parts = ",\n  ".join(
        f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in (reference or {}).items()
    )
    shown = f"{{\n  {parts}\n}}" if reference is not None else "null"
    return (
        f'{{"format": "{values["format"]}", "version": {VERSION},\n"results": [\n  {lines}\n],\n'
        f'"reference": {shown}}}\n'
    )


def machine() -> str:
    """Name the machine that a speed was measured on."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = re.search(r"^model name\s*:\s*(.+)$", file.read(100_000), re.MULTILINE)
            name = found[1] if found else name
    except OSError:  # other systems
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores, {platform.system()}"


def main_metric(metrics: Mapping[str, Any]) -> tuple[str, Any, list[Any] | None] | None:
    """Return the metric that a result is known by, with its interval: of spans their F1, else the
    first that has an interval.
    """
    names = [name for name in metrics if isinstance(metrics.get(f"{name}_interval"), list)]
    names.sort(key=lambda name: name != "span_f1")
    if names:
        return names[0], metrics[names[0]], metrics[f"{names[0]}_interval"]
    first = next((n for n, v in metrics.items() if type(v) in (int, float)), None)
    return None if first is None else (first, metrics[first], None)


# ---- the page


def card(config: dict[str, Any], directory: Path, results: list[dict[str, Any]]) -> str:
    """Write a page for people who find the directory."""
    sections = [
        f"# {inert(config['model'])} {inert(config['task'])}\n\n"
        f"Made by seqloom {inert(config['seqloom_version'])}.",
        f"## Use\n\n{_use(config['model'])}",
        _results(results),
        f"## Limits\n\n{_limits(config, results)}",
        f"## Size\n\n{_size(directory)}",
        _table("## Options\n\n| option | value |", config["config"]),
        _table("## Data and fit\n\n| fitted | |", _fitted(config)),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _use(name: str) -> str:
    """Say how to use a model: by the verbs that its class has, which are commands too."""
    from seqloom.registry import is_known, model_class

    cls = model_class(name) if is_known(name) else None
    verbs = [verb for verb in VERBS if hasattr(cls, verb)]
    commands = "".join(f"seqloom {verb} DIRECTORY ...\n" for verb in (*verbs, "evaluate", "info"))
    commands += "seqloom serve DIRECTORY\n"
    calls = "".join(f"model.{verb}(...)\n" for verb in verbs)
    return (
        f"```sh\n{commands}```\n\n```python\nimport seqloom\n\n"
        f'model = seqloom.load("DIRECTORY")\n{calls}```'
    )


def _table(heading: str, values: Mapping[str, Any]) -> str:
    rows = (
        f"| {inert(key)} | {inert(value)} |" for key, value in values.items() if value is not None
    )
    return "\n".join([heading, "|---|---|", *rows])


def _fitted(config: dict[str, Any]) -> dict[str, Any]:
    """Return what was learnt and how the fit went, without lists and long texts."""
    return {
        key: value
        for key, value in (config["learnt"] | config["fit"]).items()
        if not isinstance(value, (dict, list)) and "\n" not in str(value)
    }  # a chat template is no row of a table


def _results(results: list[dict[str, Any]]) -> str:
    if not results:
        return (
            "## Results\n\nNone yet: `seqloom evaluate DIRECTORY DATA --card` adds what it finds."
        )
    lines = ["## Results"]
    for one in results:
        lines.append(f"### On {inert(one['data'])}")
        rows = {
            name: _number(value)
            for name, value in one["metrics"].items()
            if not name.endswith("_interval")
        }
        table = ["| metric | value | 95 % |", "|---|---|---|"]
        for name, value in rows.items():
            ends = one["metrics"].get(f"{name}_interval")
            spread = " to ".join(map(_number, ends)) if isinstance(ends, list) else ""
            table.append(f"| {inert(name)} | {value} | {spread} |")
        lines.append("\n".join(table))
        lines.append(f"Signature: {_signature(one['signature'])}")
        lines += [f"Note: {inert(note)}" for note in one["notes"]]
        if speed := one.get("speed"):
            shown = ", ".join(
                f"{inert(key.replace('_', ' '))} {_number(value)}" for key, value in speed.items()
            )
            lines.append(f"Speed: {shown}.")
    return "\n\n".join(lines)


def _signature(values: Mapping[str, Any]) -> str:
    """Return the signature as code, in which only a backtick is markup."""
    parts = ("tok" if key == "tokenizer" else key for key in values)
    line = "|".join(f"{key}:{value}" for key, value in zip(parts, values.values()))
    return "`" + _UNSEEN.sub(" ", line).replace("`", "'")[: 2 * LONGEST] + "`"


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "-" if value is None else inert(value)


def _limits(config: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """Say what the files tell about what the model cannot do."""
    lines, learnt, fit = [], config["learnt"], config["fit"]
    classes = learnt.get("classes", learnt.get("tags"))
    if isinstance(classes, list) and classes:
        shown = ", ".join(map(inert, classes[:SHOWN]))
        more = f" and {len(classes) - SHOWN:,} more" if len(classes) > SHOWN else ""
        lines.append(f"It answers with these only, whatever it reads: {shown}{more}.")
    lengths = fit.get("lengths")
    if isinstance(lengths, dict) and type(lengths.get("longest")) is int:
        lines.append(
            f"Its longest training example had a length of {lengths['longest']:,}, half of them "
            f"{inert(lengths.get('median'))} or less."
        )
    if type(config["config"].get("context")) is int:
        lines.append(f"It sees at most {config['config']['context']:,} tokens.")
    if fit.get("data_hash"):
        lines.append(
            f"It knows what its training data has (fingerprint {inert(fit['data_hash'])}), in its "
            "language and from its field; texts of another kind are answered all the same: "
            "`seqloom drift` tells how far they are."
        )
    lines.append(
        "The results hold for data like that they were measured on."
        if results
        else "How good it is has not been recorded."
    )
    return "\n".join(f"- {line}" for line in lines)


def _size(directory: Path) -> str:
    """Say how large the files are that the model needs, which are the same whenever it is saved."""
    sizes = [
        (path.relative_to(directory).as_posix(), path.stat().st_size)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and (path.suffix == ".safetensors" or path.name in ("config.json", "tokenizer.json"))
        and path.name != "segments.safetensors"
    ]
    return f"{sum(size for _, size in sizes):,} bytes in {len(sizes)} files."
