"""`seqloom plot RUN...` and `seqloom plot VECTORS`.

RUN: training curves. VECTORS: a map of words, an analogy, or the neighbours of a word.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import Choice, common, emit
from seqloom.config import MAX_INTEGER, MOST_SEED
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.charts.page import Sheet


AXES = ["steps", "tokens", "seconds"]


@click.command(
    name="plot",
    epilog="""\b
Examples:
  seqloom plot model
  seqloom plot small large.run --by tokens -o both.html
  seqloom plot vectors --top 300 --method tsne --clusters 6 -o map.html
  seqloom plot vectors --words fruit=apple,pear,plum --words animals=cat,dog,cow -o map.png
  seqloom plot vectors --near guitar -o guitar.png
  seqloom plot vectors --analogy man:king,woman:queen -o analogy.png
""",
)
@click.argument("runs", metavar="RUN...|VECTORS", nargs=-1, required=True)
@click.option(
    "-o", "--output", metavar="FILE", help="The picture: .png, .svg, .html.  [default: RUN.png]"
)
@click.option("--by", type=Choice(AXES), help="Training: x-axis of the curves.  [default: steps]")
@click.option(
    "--words",
    multiple=True,
    metavar="[NAME=]W,W,..|FILE",
    help="Vectors: map of these words; if repeated, each is "
    "a group with its own colour. A JSON file holds groups by name.",
)
@click.option(
    "--top",
    type=click.IntRange(2, 5000),
    metavar="N",
    help="Vectors: map of the first N words.  [default: 300]",
)
@click.option(
    "--near",
    metavar="WORD",
    help="Vectors: a word, its neighbours and their neighbours; with --method, a map of them.",
)
@click.option(
    "--analogy",
    metavar="A:B,C:D,..",
    help="Vectors: pairs as arrows, such as man:king,woman:queen.",
)
@click.option(
    "--method",
    type=Choice(["pca", "tsne"]),
    help="Maps: principal components or t-SNE.  [default: pca]",
)
@click.option(
    "--clusters",
    type=click.IntRange(2, 7),
    metavar="N",
    help="Maps: colour by this many clusters (k-means).",
)
@click.option(
    "-n",
    "--number",
    type=click.IntRange(1, 60),
    metavar="N",
    help="With --near: number of neighbours.  [default: 12]",
)
@click.option(
    "--among",
    type=click.IntRange(1, MAX_INTEGER),
    metavar="N",
    help="With --near: only among the first N words.",
)
@click.option(
    "-s",
    "--seed",
    type=click.IntRange(0, MOST_SEED),
    help="Random seed of t-SNE and clusters.  [default: 0]",
)
@common
def command(
    runs: tuple[str, ...], output: str | None, by: str | None, as_json: bool, **of_words: Any
) -> None:
    """Plot training curves or word vectors.

    RUN is a network's saved model, or the directory OUT.run of one that is still training: losses,
    learning rate and gradient norm of each. VECTORS is a saved model of word vectors, or a file of
    word2vec, GloVe or fastText: a map of words, an analogy, or the neighbourhood of a word; with
    --by, the training of such a model. With --json, the numbers are written instead, and a picture
    only if -o is given.
    """
    from seqloom.charts.theme import check_target

    names = list(dict.fromkeys(run.rstrip("/") or run for run in runs))
    target = output or (None if as_json else _default(names))
    given = [f"--{name}" for name, value in of_words.items() if value not in (None, ())]
    vectors = len(names) == 1 and by is None and holds_vectors(names[0])
    if given and not vectors:
        raise ConfigError(
            f"{given[0]} draws word vectors"
            + (
                "; leave out --by, which draws their training"
                if by is not None
                else f", of one model; {len(names)} are given"
                if len(names) > 1
                else f"; {names[0]} does not hold any"
                if Path(names[0]).exists()
                else f"; there is no {names[0]}"
            )
        )
    if vectors:
        check(of_words)
    if target is not None:
        check_target(target)
    if vectors:
        draw_words(names[0], target, of_words | {"seed": of_words["seed"] or 0}, as_json)
    else:
        _draw_runs(names, target, by or "steps", as_json)


def _draw_runs(names: list[str], target: str | None, by: str, as_json: bool) -> None:
    from seqloom.views import training_curves

    sheet = training_curves(names, by=by)
    if target is not None:
        sheet.save(target)
    if as_json:
        for numbers in sheet.data:
            emit(numbers | ({"picture": target} if target else {}))
    else:
        click.echo("\n".join([*sheet.summary, f"written to {target}"]))


def _default(names: list[str]) -> str:
    """Return the path beside the directory, with its name; of several runs the first gives it."""
    path = Path(names[0]).absolute()
    return f"{names[0]}.png" if names[0] not in (".", "..") else str(path.resolve()) + ".png"


# ---- word map

# One of these says what is drawn.
WHAT = {"words": "--words", "top": "--top", "near": "--near", "analogy": "--analogy"}


def holds_vectors(name: str) -> bool:
    """Return whether a name is a file of vectors or a saved model of them, and not a run in
    training.
    """
    from seqloom.storage import CONFIG, read_config

    path = Path(name)
    return path.is_file() or (
        (path / CONFIG).is_file() and "nearest" in tasks.get(read_config(path)["task"]).commands
    )


def check(options: dict[str, Any]) -> None:
    """Refuse options that do not go together, before anything is loaded."""
    chosen = [flag for name, flag in WHAT.items() if options[name]]
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(chosen)} draw different pictures; give one of them")
    if options["analogy"] and options["method"] == "tsne":
        raise ConfigError(
            "t-SNE does not keep directions, so an analogy is drawn by principal components; leave "
            "out --method"
        )
    if options["number"] is not None and not options["near"]:
        raise ConfigError("--number says how many neighbours --near draws; give --near WORD")
    if options["among"] is not None and not options["near"]:
        raise ConfigError("--among is for --near; give --top N for a map of the first words")
    if options["clusters"] is not None and (options["near"] or options["analogy"]):
        raise ConfigError("--clusters colours a map of words; give --words or --top")


def draw_words(path: str, target: str | None, options: dict[str, Any], as_json: bool) -> None:
    """Draw the picture to `target`, if there is to be one, and print its numbers."""
    from seqloom.interop.vectors import open_vectors

    sheet = _sheet(open_vectors(path), options)
    if target is not None:
        sheet.save(target)
    if as_json:
        emit({"vectors": path, **sheet.data, **({"picture": target} if target else {})})
    else:
        click.echo("\n".join([*sheet.summary, f"written to {target}"]))


def _sheet(model: Any, options: dict[str, Any]) -> Sheet:
    from seqloom.metrics.bias import as_pairs
    from seqloom.views.word_vectors import NEAR, analogies, neighbours, word_map

    if options["analogy"]:
        return analogies(model, as_pairs(options["analogy"]))
    if options["near"]:
        return neighbours(
            model,
            options["near"],
            options["number"] or NEAR,
            among=options["among"],
            method=options["method"],
            seed=options["seed"],
        )
    return word_map(
        model,
        _word_groups(options["words"]) if options["words"] else None,
        top=options["top"],
        method=options["method"] or "pca",
        clusters=options["clusters"],
        seed=options["seed"],
    )


def _word_groups(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Read each --words as a group: NAME=a,b,c, or a,b,c, or a file."""
    from seqloom.metrics.bias import WordLists, read_word_lists, word_list

    groups: dict[str, list[str]] = {}
    for number, text in enumerate(texts, 1):
        if Path(text).suffix.lower() == ".json" and Path(text).is_file():
            groups |= read_word_lists(text).lists
            continue
        name, equals, rest = text.partition("=")
        inner = rest if equals and name and rest else text
        name = name if inner is rest else "" if len(texts) == 1 else f"group {number}"
        words = (
            [inner]
            if "," not in inner and not Path(inner).is_file()
            else word_list(inner, WordLists())
        )
        groups[name] = groups.get(name, []) + words
    return groups
