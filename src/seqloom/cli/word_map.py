"""`seqloom plot` for word vectors: a map of words, an analogy, or the surroundings of a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seqloom import tasks
from seqloom.cli.options import emit
from seqloom.errors import ConfigError

TOP = 300  # words of a map, unless told otherwise
NEAR = 12  # neighbours
HINT = "The wheel zooms, dragging moves, a double click goes back. Names appear where there is room; each point has its own."
WHAT = {"words": "--words", "top": "--top", "near": "--near", "analogy": "--analogy"}  # one of these says what is drawn


def holds_vectors(place: str) -> bool:
    """Whether a name is a file of vectors or a saved model of them, and not a run that is training."""
    from seqloom.storage import CONFIG, read_config

    path = Path(place)
    return path.is_file() or ((path / CONFIG).is_file() and "nearest" in tasks.get(read_config(path)["task"]).commands)


def check(options: dict[str, Any]) -> None:
    """What does not go together is refused before anything is loaded."""
    chosen = [flag for name, flag in WHAT.items() if options[name]]
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(chosen)} draw different pictures; give one of them")
    if options["analogy"] and options["method"] == "tsne":
        raise ConfigError("t-SNE does not keep directions, so an analogy is drawn by principal components; leave out --method")
    if options["number"] is not None and not options["near"]:
        raise ConfigError("--number says how many neighbours --near draws; give --near WORD")
    if options["among"] is not None and not options["near"]:
        raise ConfigError("--among is for --near; give --top N for a map of the first words")
    if options["clusters"] is not None and (options["near"] or options["analogy"]):
        raise ConfigError("--clusters colours a map of words; give --words or --top")


def draw_words(place: str, target: str | None, options: dict[str, Any], as_json: bool) -> None:
    """The picture to `target`, if there is to be one, and its numbers."""
    from seqloom.interop.opening import open_vectors

    model = open_vectors(place)
    page = target is not None and target.lower().endswith(".html")
    if options["analogy"]:
        chart, told, numbers = _analogy(model, options, page)
    elif options["near"] and options["method"] is None:
        chart, told, numbers = _star(model, options, page)
    else:
        chart, told, numbers = _map(model, options, page)
    if target is not None:
        _save(chart, target, told)
    if as_json:
        emit({"vectors": place, **numbers, **({"picture": target} if target else {})})
    else:
        click.echo(f"{told}\nwritten to {target}")


def _save(chart: Any, target: str, told: str) -> None:
    from seqloom.charts import files
    from seqloom.charts.page import Page

    if files.check_target(target) == "html":
        files.write(target, Page("Word vectors").text(told).chart(chart, told).text(HINT, kind="faint").html().encode())
    else:
        files.save(chart, target)


def _analogy(model: Any, options: dict[str, Any], page: bool) -> tuple[Any, str, dict[str, Any]]:
    from seqloom.charts.word_graph import analogy_chart
    from seqloom.metrics.bias_words import as_pairs
    from seqloom.models.vectors.projection import map_pairs

    arrows, titles = map_pairs(model, as_pairs(options["analogy"]))
    told = ", ".join(f"{a.start} to {a.end}" for a in arrows[:4]) + (f" and {len(arrows) - 4} more" if len(arrows) > 4 else "")
    return analogy_chart(arrows, titles, page=page), told, {"pairs": [a._asdict() for a in arrows]}


def _star(model: Any, options: dict[str, Any], page: bool) -> tuple[Any, str, dict[str, Any]]:
    from seqloom.charts.word_graph import star_chart
    from seqloom.models.vectors.projection import surroundings

    word = options["near"]
    branches = surroundings(model, word, options["number"] or NEAR, among=options["among"])
    told = f"{word}, its {len(branches)} nearest, and theirs"
    numbers = {"word": word, "near": [{"word": b.word, "cosine": b.cosine, "near": [
        {"word": w, "cosine": c} for w, c in b.further]} for b in branches]}
    return star_chart(word, branches, page=page), told, numbers


def _map(model: Any, options: dict[str, Any], page: bool) -> tuple[Any, str, dict[str, Any]]:
    from seqloom.charts.word_map import word_map
    from seqloom.models.vectors.projection import map_words

    method: Any = options["method"] or "pca"
    groups = _groups(model, options)
    spots, titles = map_words(model, groups, method=method, seed=options["seed"])
    told = f"{len(spots):,} words, " + ("t-SNE" if method == "tsne" else f"{titles[0]}, {titles[1]}")
    numbers = {"method": method, "words": [{"word": s.word, "x": s.x, "y": s.y, "group": s.group} for s in spots]}
    return word_map(spots, titles, page=page), told, numbers


def _groups(model: Any, options: dict[str, Any]) -> dict[str, list[str]]:
    """Words by the name of their group."""
    if word := options["near"]:
        found = [name for name, _ in model.nearest(word, options["number"] or NEAR, among=options["among"])]
        return {word: [word], "near": found} if model.knows(word) else {"near": found}
    given = _given(options["words"]) if options["words"] else {"": _first(model, options["top"] or TOP)}
    if options["clusters"] is None:
        return given
    every = list(dict.fromkeys(word for words in given.values() for word in words))
    clusters = model.vectors.clusters(options["clusters"], every, seed=options["seed"])
    return {", ".join(words[:3]): words for words in clusters}


def _given(texts: tuple[str, ...]) -> dict[str, list[str]]:
    """Each --words is a group: NAME=a,b,c, or a,b,c, or a file."""
    from seqloom.metrics.bias_words import WordLists, read_word_lists, word_list

    found: dict[str, list[str]] = {}
    for number, text in enumerate(texts, 1):
        if Path(text).suffix.lower() == ".json" and Path(text).is_file():
            found |= read_word_lists(text).lists
            continue
        name, equals, rest = text.partition("=")
        inner = rest if equals and name and rest else text
        name = name if inner is rest else "" if len(texts) == 1 else f"group {number}"
        words = [inner] if "," not in inner and not Path(inner).is_file() else word_list(inner, WordLists())
        found[name] = found.get(name, []) + words
    return found


def _first(model: Any, n: int) -> list[str]:
    """The first words that have a letter: frequent tokens are often signs and numbers."""
    found: list[str] = []
    for word in model.vectors.words:
        if len(found) == n:
            break
        if any(map(str.isalpha, word)):
            found.append(word)
    return found
