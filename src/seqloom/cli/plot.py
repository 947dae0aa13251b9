"""`seqloom plot RUN...` and `seqloom plot VECTORS`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import Choice, common, emit
from seqloom.cli.word_map import check, draw_words, holds_vectors
from seqloom.config import MOST, MOST_SEED
from seqloom.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from seqloom.charts.training import Curves

Lines = list[dict[str, Any]]
KEYS = {"steps": "step", "tokens": "tokens", "seconds": "seconds"}


@click.command(name="plot", epilog="""\b
Examples:
  seqloom plot model
  seqloom plot small large.run --by tokens -o both.html
  seqloom plot vectors --top 300 --method tsne --clusters 6 -o map.html
  seqloom plot vectors --words fruit=apple,pear,plum --words animals=cat,dog,cow -o map.png
  seqloom plot vectors --near guitar -o guitar.png
  seqloom plot vectors --analogy man:king,woman:queen -o analogy.png
""")
@click.argument("runs", metavar="RUN...|VECTORS", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="The picture: .png, .svg, .html.  [default: RUN.png]")
@click.option("--by", type=Choice(list(KEYS)), help="Training: what the curves run along.  [default: steps]")
@click.option("--words", multiple=True, metavar="[NAME=]W,W,..|FILE", help="Vectors: a map of these words; repeated, each is a "
              "group with its colour. A JSON file holds groups by name.")
@click.option("--top", type=click.IntRange(2, 5000), metavar="N", help="Vectors: a map of the first N words.  [default: 300]")
@click.option("--near", metavar="WORD", help="Vectors: a word, its nearest, and their nearest; with --method a map of them.")
@click.option("--analogy", metavar="A:B,C:D,..", help="Vectors: pairs as arrows, such as man:king,woman:queen.")
@click.option("--method", type=Choice(["pca", "tsne"]), help="Of a map: principal components or t-SNE.  [default: pca]")
@click.option("--clusters", type=click.IntRange(2, 7), metavar="N", help="Of a map: colours by so many clusters (k-means).")
@click.option("-n", "--number", type=click.IntRange(1, 60), metavar="N", help="With --near: how many.  [default: 12]")
@click.option("--among", type=click.IntRange(1, MOST), metavar="N", help="With --near: of the first N words only.")
@click.option("-s", "--seed", type=click.IntRange(0, MOST_SEED), help="Of t-SNE and clusters.  [default: 0]")
@common
def command(runs: tuple[str, ...], output: str | None, by: str | None, as_json: bool, **of_words: Any) -> None:
    """Draw how training went, or word vectors.

    RUN is a network's saved model, or the directory OUT.run of one that is still training: losses, learning rate and
    gradient norm of each. VECTORS is a saved model of word vectors, or a file of word2vec, GloVe or fastText: a map of words,
    an analogy, or the surroundings of a word; with --by the training of such a model is drawn. With --json the numbers are
    written instead, and a picture only where -o is given.
    """
    from seqloom.charts.files import check_target

    names = list(dict.fromkeys(run.rstrip("/") or run for run in runs))
    target = output or _default(names)
    given = [f"--{name}" for name, value in of_words.items() if value not in (None, ())]
    vectors = len(names) == 1 and by is None and holds_vectors(names[0])
    if given and not vectors:
        raise ConfigError(f"{given[0]} draws word vectors" + (
            "; leave out --by, which draws their training" if by is not None else f", of one model; {len(names)} are given"
            if len(names) > 1 else f"; {names[0]} does not hold any" if Path(names[0]).exists() else
            f"; there is no {names[0]}"))
    if vectors:
        check(of_words)
    if output is not None or not as_json:
        check_target(target)
    if vectors:
        wanted = target if output is not None or not as_json else None
        draw_words(names[0], wanted, of_words | {"seed": of_words["seed"] or 0}, as_json)
    else:
        _draw_runs(names, target, output, by or "steps", as_json)


def _draw_runs(names: list[str], target: str, output: str | None, by: str, as_json: bool) -> None:
    logs = {name: _read(name) for name in names}
    in_bits = all("bits_per_byte" in line for lines in logs.values() for line in lines)
    curves = [_curves(name, lines, by, in_bits) for name, lines in logs.items()]
    units = {line.get("unit", "nats per token") for lines in logs.values() for line in lines}
    unit = "bits per byte" if in_bits else " or ".join(sorted(units))
    if output is not None or not as_json:
        _draw(curves, target, by, unit)
    for run, lines in zip(curves, logs.values()):
        if as_json:
            emit(_numbers(run, lines, by, in_bits) | ({"picture": output} if output else {}))
        elif run.best is not None:
            which = "held-out" if run.held_out else "training"
            click.echo(f"{run.name}: {lines[-1]['step']:,} steps, least {which} loss {run.best[1]:.4f} {unit}")
    if not as_json:
        click.echo(f"written to {target}")


def _default(names: list[str]) -> str:
    """Beside the directory, with its name; of several runs the first gives it."""
    place = Path(names[0]).absolute()
    return f"{names[0]}.png" if names[0] not in (".", "..") else str(place.resolve()) + ".png"


def _read(name: str) -> Lines:
    """The log of that run; also where the model is not saved yet and NAME.run is meant."""
    from seqloom.training.checkpoint import read_log

    if not Path(name).exists() and Path(f"{name}.run").is_dir():
        name = f"{name}.run"
    if not Path(name).exists():
        raise ModelError(f"{name}: no such directory; give a network's saved model, or its OUT.run while it trains")
    lines = [line for line in read_log(name) if "loss" in line or "valid" in line]
    if not lines:
        raise ModelError(f"{name}: nothing has been logged yet; wait for the first steps")
    return lines


def _curves(name: str, lines: Lines, by: str, in_bits: bool) -> Curves:
    from seqloom.charts.training import Curves

    key = KEYS[by]
    if not all(key in line for line in lines):
        raise ConfigError(f"{name}: its log does not say {by}; give --by steps")

    def points(having: str, value: str) -> list[tuple[float, float]]:
        found = [(float(line[key]), float(line[value])) for line in lines if having in line and value in line]
        return [p for p in found if math.isfinite(p[1])]

    return Curves(name, points("loss", "bits_per_byte" if in_bits else "loss"),
                  points("valid", "bits_per_byte" if in_bits else "valid"), points("lr", "lr"), points("norm", "norm"))


def _draw(curves: list[Curves], target: str, by: str, unit: str) -> None:
    from seqloom.charts import files
    from seqloom.charts.page import Page
    from seqloom.charts.training import losses, norms, rates, sheet

    charts = {"Loss": losses(curves, by=by, unit=unit), "Learning rate": rates(curves, by=by),
              "Gradient norm": norms(curves, by=by)}
    if files.check_target(target) != "html":
        files.save(sheet(list(charts.values())), target)
        return
    page = Page("Training of " + ", ".join(run.name for run in curves))
    for title, chart in charts.items():
        page.heading(title).chart(chart, title)
    files.write(target, page.html().encode())


def _numbers(run: Curves, lines: Lines, by: str, in_bits: bool) -> dict[str, Any]:
    best = None if run.best is None else {by: run.best[0], "loss": run.best[1]}
    return {"run": run.name, "unit": "bits_per_byte" if in_bits else "nats_per_token", "best": best,
            "training": [line for line in lines if "loss" in line], "held_out": [line for line in lines if "valid" in line]}
