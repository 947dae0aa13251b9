"""`seqloom inspect neighbours|word-map|analogies|leaning`: the pictures of word vectors, by name.

`seqloom plot` and `seqloom bias` draw the same, with all their options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import common, emit
from seqloom.interop.vectors import open_vectors

if TYPE_CHECKING:
    from seqloom.charts.page import Sheet

chart_option = click.option("--chart", metavar="FILE", help="Draw it: .png, .svg, .html.")


@click.command(
    name="neighbours",
    epilog="\b\nExamples:\n  seqloom inspect neighbours vectors guitar --chart guitar.png\n",
)
@click.argument("model", metavar="VECTORS")
@click.argument("word")
@click.option(
    "-n", "--number", type=click.IntRange(1, 60), default=12, show_default=True, help="How many."
)
@chart_option
@common
def neighbours_command(
    model: str, word: str, number: int, chart: str | None, as_json: bool
) -> None:
    """Show a word, its nearest words, and theirs. VECTORS: a saved model, or a file of vectors."""
    _check(chart)
    from seqloom.views.word_vectors import neighbours

    sheet = neighbours(open_vectors(model), word, number)
    lines = [
        f"{near['word']:<20}{near['cosine']:>7.3f}   "
        + ", ".join(far["word"] for far in near["near"])
        for near in sheet.data["near"]
    ]
    _show(sheet, lines, chart, as_json)


@click.command(
    name="word-map",
    epilog="\b\nExamples:\n  seqloom inspect word-map vectors --chart map.html\n"
    "  seqloom inspect word-map vectors apple pear cat dog --chart map.png\n",
)
@click.argument("model", metavar="VECTORS")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@chart_option
@common
def word_map_command(model: str, words: tuple[str, ...], chart: str | None, as_json: bool) -> None:
    """Show where words lie in the plane of their first two principal components: those that are given, or
    the first 300. VECTORS: a saved model, or a file of vectors.
    """
    _check(chart)
    from seqloom.views.word_vectors import word_map

    sheet = word_map(open_vectors(model), list(words) or None)
    lines = [f"{one['word']:<20}{one['x']:>9.3f}{one['y']:>9.3f}" for one in sheet.data["words"]]
    _show(sheet, lines, chart, as_json)


@click.command(
    name="analogies",
    epilog="\b\nExamples:\n  seqloom inspect analogies vectors man:king,woman:queen --chart analogy.png\n",
)
@click.argument("model", metavar="VECTORS")
@click.argument("pairs", metavar="A:B,C:D,..")
@chart_option
@common
def analogies_command(model: str, pairs: str, chart: str | None, as_json: bool) -> None:
    """Show pairs of words as arrows, which are parallel if their differences are the same. VECTORS: a saved
    model, or a file of vectors.
    """
    _check(chart)
    from seqloom.metrics.bias import as_pairs
    from seqloom.views.word_vectors import analogies

    sheet = analogies(open_vectors(model), as_pairs(pairs))
    _show(sheet, [], chart, as_json)


@click.command(
    name="leaning",
    epilog="\b\nExamples:\n  seqloom inspect leaning vectors he:she nurse engineer --chart leaning.png\n",
)
@click.argument("model", metavar="VECTORS")
@click.argument("pairs", metavar="A:B,C:D,..")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@chart_option
@common
def leaning_command(
    model: str, pairs: str, words: tuple[str, ...], chart: str | None, as_json: bool
) -> None:
    """Show how far words lean along a direction such as he to she: those that are given, or occupations.
    VECTORS: a saved model, or a file of vectors. `seqloom bias` measures and removes it.
    """
    _check(chart)
    from seqloom.metrics.bias import as_pairs, with_built_in
    from seqloom.views.word_vectors import leaning_along

    chosen = list(words) or with_built_in(None).words("occupations")
    sheet = leaning_along(open_vectors(model).vectors, as_pairs(pairs), chosen)
    lines = [
        f"{word:<20}" + "".join(f"{value:>9.3f}" for value in values)
        for word, values in sheet.data.items()
    ]
    _show(sheet, lines, chart, as_json)


def _check(chart: str | None) -> None:
    """Refuse a bad name of a picture before anything is loaded."""
    from seqloom.charts.theme import check_target

    if chart is not None:
        check_target(chart)


def _show(sheet: Sheet, lines: list[str], chart: str | None, as_json: bool) -> None:
    if chart is not None:
        sheet.save(chart)
    data: Any = sheet.data
    if as_json:
        emit(data)
    else:
        click.echo("\n".join([*lines, *sheet.summary]))
