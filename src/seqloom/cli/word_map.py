"""`seqloom plot` for word vectors: a map of words, an analogy, or the surroundings of a word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import emit
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.charts.sheet import Sheet

WHAT = {
    "words": "--words",
    "top": "--top",
    "near": "--near",
    "analogy": "--analogy",
}  # one of these says what is drawn


def holds_vectors(place: str) -> bool:
    """Whether a name is a file of vectors or a saved model of them, and not a run that is training."""
    from seqloom.storage import CONFIG, read_config

    path = Path(place)
    return path.is_file() or (
        (path / CONFIG).is_file() and "nearest" in tasks.get(read_config(path)["task"]).commands
    )


def check(options: dict[str, Any]) -> None:
    """What does not go together is refused before anything is loaded."""
    chosen = [flag for name, flag in WHAT.items() if options[name]]
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(chosen)} draw different pictures; give one of them")
    if options["analogy"] and options["method"] == "tsne":
        raise ConfigError(
            "t-SNE does not keep directions, so an analogy is drawn by principal components; leave out --method"
        )
    if options["number"] is not None and not options["near"]:
        raise ConfigError("--number says how many neighbours --near draws; give --near WORD")
    if options["among"] is not None and not options["near"]:
        raise ConfigError("--among is for --near; give --top N for a map of the first words")
    if options["clusters"] is not None and (options["near"] or options["analogy"]):
        raise ConfigError("--clusters colours a map of words; give --words or --top")


def draw_words(place: str, target: str | None, options: dict[str, Any], as_json: bool) -> None:
    """The picture to `target`, if there is to be one, and its numbers."""
    from seqloom.interop.vectors import open_vectors

    sheet = _sheet(open_vectors(place), options)
    if target is not None:
        sheet.save(target)
    if as_json:
        emit({"vectors": place, **sheet.data, **({"picture": target} if target else {})})
    else:
        click.echo("\n".join([*sheet.summary, f"written to {target}"]))


def _sheet(model: Any, options: dict[str, Any]) -> Sheet:
    from seqloom.metrics.bias_words import as_pairs
    from seqloom.views.vectors import NEAR, analogies, neighbours, word_map

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
        _given(options["words"]) if options["words"] else None,
        top=options["top"],
        method=options["method"] or "pca",
        clusters=options["clusters"],
        seed=options["seed"],
    )


def _given(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Each --words is a group: NAME=a,b,c, or a,b,c, or a file."""
    from seqloom.metrics.bias_words import WordLists, read_word_lists, word_list

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
