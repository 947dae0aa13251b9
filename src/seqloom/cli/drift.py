"""`seqloom drift REQUESTS MODEL`."""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import common, emit, options_of, task_options
from seqloom.errors import ConfigError, DataError, either, quoted
from seqloom.progress import say

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.metrics.drift import Drift, Row, Window
    from seqloom.metrics.reference import Reference
    from seqloom.tasks.task import Task

RATE = 0.01
WIDTH = 100  # characters of a text that is shown
MOST_WINDOWS = 100


def _configs(task: Task) -> tuple[type[Config], ...]:
    return (task.reading,)


@click.command(
    name="drift",
    epilog="""\b
Examples:
  seqloom drift requests.jsonl model
  seqloom drift requests.jsonl model --reference test.tsv --window 500
  seqloom drift requests.jsonl model --last 1000 --fail --quiet
""",
)
@click.argument("requests")
@click.argument("model")
@click.option(
    "--reference",
    metavar="FILE",
    help="Held-out data of the model's task to compare with.  [default: that of evaluate --card]",
)
@click.option(
    "--window",
    type=click.IntRange(20, 1_000_000),
    metavar="N",
    help="Also test each N texts by themselves, in order.",
)
@click.option(
    "--last",
    type=click.IntRange(10, 1_000_000),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Only the last N texts.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.0001, 0.5),
    default=RATE,
    show_default=True,
    help="How often it may fire although nothing differs.",
)
@click.option(
    "--name", metavar="NAME", help="Of a log of several models, the requests to this one."
)
@click.option(
    "--show",
    type=click.IntRange(0, 1000),
    default=5,
    show_default=True,
    metavar="N",
    help="Show this many of the most foreign texts.",
)
@click.option("--fail", is_flag=True, help="Exit with 1 if it fires.")
@task_options(_configs)
@common
def command(
    requests: str,
    model: str,
    reference: str | None,
    window: int | None,
    last: int,
    rate: float,
    name: str | None,
    show: int,
    fail: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Test whether the texts that came in differ from those a model was evaluated on.

    REQUESTS is the log of `serve --log`: JSON Lines, of which `texts` (or `text`) is read. Compared
    are, as far as the model's task has them: bits per byte, words that the model or the reference
    does not know, which words are used, lengths, the labels that the model answers and how sure it
    is. The options below --fail say how --reference is read, as those of evaluate do.
    """
    from seqloom.metrics.drift import compare
    from seqloom.metrics.reference import LEAST
    from seqloom.tasks.watching import sample_of

    loaded = tasks.open_model("drift", model)
    task = tasks.of(loaded)
    (reading,) = options_of(task, model, _configs(task), options, _configs)
    known = _reference(loaded, model, reference, reading)
    read = partial(task.watched, loaded)
    texts = _texts(requests, read, name or Path(model).resolve().name, name is not None, last)
    if len(texts) < LEAST:
        raise DataError(
            f"{requests}: {len(texts)} texts; {LEAST} are needed to say anything, of lines such as "
            'serve --log writes, {"texts": ["a text"]}'
        )
    if window and len(texts) > MOST_WINDOWS * window:
        raise ConfigError(f"--window {window} makes more than {MOST_WINDOWS}; give a larger one")
    result = compare(known, sample_of(loaded, texts), rate=rate, window=window or 0)
    foreign = _most_foreign(result, texts, show)
    if as_json:
        emit(_values(result, foreign))
    else:
        click.echo(_report(result, foreign))
    if fail and result.fires:
        raise SystemExit(1)


def _reference(model: Any, path: str, given: str | None, reading: Config) -> Reference:
    """Return the reference: a file's, else that of the model's card."""
    from seqloom.cards import RESULTS, read_results
    from seqloom.metrics.reference import unpacked
    from seqloom.tasks.watching import reference_of

    if given is not None:
        task = tasks.of(model)
        return reference_of(model, task.read((given,), reading), Path(given).name)
    kept = read_results(path)["reference"] if Path(path).is_dir() else None
    if kept is None:
        raise ConfigError(
            f"{path} has no reference to compare with: give --reference FILE with held-out data, or "
            f"add one by seqloom evaluate {path} FILE --card"
        )
    try:
        return unpacked(kept)
    except ValueError as error:
        raise DataError(
            f"{Path(path) / RESULTS}: damaged ({error}); remove it, and evaluate again with --card"
        ) from None


# ---- the log


def _texts(path: str, read: Callable[[Any], Any], name: str, chosen: bool, last: int) -> list[Any]:
    """Return the last texts of the requests to a model that were answered; say what was left out.
    `read` returns what the model reads of an input, None if nothing.
    """
    texts: dict[str, deque[Any]] = {}
    left: Counter[str] = Counter()
    for entry in _entries(path, left):
        if entry.get("status", 200) != 200:
            left["requests that were refused"] += 1
            continue
        to = entry.get("model")
        some = texts.setdefault(to if isinstance(to, str) else "", deque(maxlen=last))
        found = entry.get("texts", entry.get("text"))
        for text in found if isinstance(found, list) else [found]:
            if (example := read(text)) is None:
                left["inputs of another kind"] += 1
            elif not "".join(example).strip():
                left["empty texts"] += 1
            else:
                single = isinstance(example, str)
                some.append(_whole(example) if single else tuple(map(_whole, example)))
    for what, n in left.items():
        say(f"{n:,} {what} left out")
    if chosen and name not in texts:
        raise ConfigError(f"{path} has no requests to {quoted(name)}{_served(texts)}")
    if name in texts:
        return list(texts[name])
    if len(texts) > 1:
        raise ConfigError(
            f"{path} has requests to several models; choose by --name{_served(texts)}"
        )
    return list(next(iter(texts.values()), ()))


def _whole(text: str) -> str:
    """Replace halves of characters, which JSON may have."""
    return text.encode("utf-8", "replace").decode()


def _served(texts: dict[str, deque[Any]]) -> str:
    names = sorted(filter(None, texts))
    return f": {either(map(quoted, names[:10]))}" if names else ""


def _entries(path: str, left: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a log; a line that is none, such as a last one half written, is counted."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError):
                    entry = None
                if isinstance(entry, dict):
                    yield entry
                elif line.strip():
                    left["damaged lines"] += 1
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


# ---- the answer


def _most_foreign(result: Drift, texts: list[Any], show: int) -> list[dict[str, Any]]:
    """Return the most foreign texts, each once."""
    order = sorted(range(len(texts)), key=lambda i: -result.foreign[i])
    firsts: dict[Any, int] = {}
    for i in order:
        firsts.setdefault(texts[i], i)
    return [
        {"text": text, "number": i + 1, "foreign": float(result.foreign[i])}
        for text, i in itertools.islice(firsts.items(), show)
    ]


def _values(result: Drift, foreign: list[dict[str, Any]]) -> dict[str, Any]:
    def shown(window: Window) -> dict[str, Any]:
        return {
            "first": window.first,
            "last": window.last,
            "distinct": window.distinct,
            "fires": window.fires,
            "measures": [row.to_dict() for row in window.rows],
        }

    return {
        "fires": result.fires,
        "rate": result.rate,
        "reference": {
            "name": result.reference.name,
            "texts": result.reference.texts,
            "compared": len(result.reference.sample),
        },
        "whole": shown(result.whole),
        "windows": [shown(window) for window in result.windows],
        "most_foreign": foreign,
    }


def _report(result: Drift, foreign: list[dict[str, Any]]) -> str:
    from seqloom.comparison.table import Column, lines

    columns = [
        Column("measure", 100, lambda row: _one_line(row.measure), True),
        Column("came in", 90, lambda row: _number(row, row.value)),
        Column("reference", 90, lambda row: _number(row, row.expected)),
        Column("difference, 95 %", 80, _interval, True),
        Column("p", 70, lambda row: f"{row.p_value:.4f}"),
        Column("", 60, lambda row: "fires" if row.fires else "", True),
    ]
    parts = [_sentence(result), "\n".join(lines(columns, result.whole.rows))]
    if result.windows:
        windows = [
            Column("texts", 100, lambda one: f"{one.first:,}-{one.last:,}", True),
            Column("", 90, lambda one: "fires" if one.fires else "-", True),
            Column("largest", 80, lambda one: _difference(one.largest), True),
            Column("p", 70, lambda one: f"{one.largest.p_value:.4f}"),
        ]
        parts.append("\n".join(lines(windows, result.windows)))
    if foreign:
        shown = [f"{one['number']:>7,}  {_one_line(_text(one['text']))}" for one in foreign]
        parts.append("\n".join(["most foreign texts", *shown]))
    return "\n\n".join(parts)


def _sentence(result: Drift) -> str:
    whole, reference = result.whole, result.reference
    came = f"{whole.last:,} texts"
    if whole.distinct < whole.last:
        came += f" ({whole.distinct:,} distinct, each counted once)"
    against = f"the reference ({_one_line(reference.name)}, {reference.texts:,} texts)"
    if not result.fires:
        return (
            f"quiet: nothing shows that {came} differ from {against}; "
            f"closest: {_difference(whole.largest)}"
        )
    firing = next(window for window in (whole, *result.windows) if window.fires)
    place = "" if firing is whole else f" of texts {firing.first:,}-{firing.last:,}"
    return (
        f"fires: {came} differ from {against}; largest{place}: {_difference(firing.largest)}; "
        f"if nothing differs, it fires at most {100 * result.rate:g} % of the time"
    )


def _difference(row: Row) -> str:
    name = _one_line(row.measure)
    return (
        f"{name} {_number(row, row.value)} against {_number(row, row.expected)} ({_interval(row)})"
    )


def _share(row: Row) -> bool:
    from seqloom.metrics.drift import SHARES

    return row.measure in SHARES or row.measure.startswith("label ")


def _number(row: Row, value: float) -> str:
    return f"{value:.1%}".replace("%", " %") if _share(row) else f"{value:.3g}"


def _interval(row: Row) -> str:
    scale, form, unit = (100, "+.1f", " %") if _share(row) else (1, "+.3g", "")
    return f"{scale * row.low:{form}} to {scale * row.high:{form}}{unit}"


def _text(text: Any) -> str:
    return text if isinstance(text, str) else " | ".join(text)


def _one_line(text: str) -> str:
    from seqloom.comparison.table import visible

    shown = " ".join(visible(text).split())
    return shown if len(shown) <= WIDTH else f"{shown[: WIDTH - 3]}..."
