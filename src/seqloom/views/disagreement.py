"""Where two language models disagree on a text: what each part of it costs them, the largest differences
first. Models with different tokenizers are compared between the places where tokens of both end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from seqloom.charts.heat import short_name
from seqloom.charts.page import Charts, Sheet
from seqloom.charts.passage import Piece
from seqloom.charts.shares import bars_of_shares, coloured_tokens
from seqloom.contracts import LanguageModel
from seqloom.errors import ConfigError
from seqloom.views.catalogue import view
from seqloom.views.configs import DifferenceOptions
from seqloom.views.language import pieces
from seqloom.views.reading import remarks
from seqloom.views.token_costs import window_of

MAX_CHARACTERS = 16_384  # of a text that are compared
MAX_DRAWN = 1000


@view
def difference(
    model: LanguageModel, other: LanguageModel, text: str, options: DifferenceOptions
) -> Sheet:
    """Show two models side by side on one text, the largest disagreements first."""
    said = window_of(model, text)[2] if len(text) <= MAX_CHARACTERS else []
    if len(text) > MAX_CHARACTERS:
        said = [f"Of {len(text):,} characters, the first {MAX_CHARACTERS:,} are compared."]
        text = text[:MAX_CHARACTERS]
    labels = [model.label(), other.label()]
    if labels[0] == labels[1] and model.tokenizer != other.tokenizer:
        labels = [f"{one.label()}, {one.tokenizer.label()}" for one in (model, other)]
    names = two_names(labels)
    parts = side_by_side(pieces(model, text), pieces(other, text))
    rows: list[dict[str, Any]] = [
        {
            "number": i + 1,
            "text": part,
            "bits": one,
            "bits of other": two,
            "difference": two - one if one != two else 0.0,
        }
        for i, (part, one, two) in enumerate(parts)
    ]
    rows.sort(key=lambda row: -abs(row["difference"]))
    totals = sum(one for _, one, _ in parts), sum(two for _, _, two in parts)
    better = sum(one < two for _, one, two in parts)
    summary = [
        f"{names[0]} pays {totals[0]:,.1f} bits for the text, {names[1]} {totals[1]:,.1f}; "
        f"{names[0]} is cheaper in {better:,} of {len(parts):,} places.",
        *said,
        *dict.fromkeys([*remarks(model), *remarks(other)]),
    ]
    if model.tokenizer != other.tokenizer:
        summary.append(
            "Their tokenizers differ: a place reaches from where tokens of both begin to where both end."
        )

    def draw(page: bool) -> Charts:
        values = [(part, _drawn(two, one)) for part, one, two in parts[:MAX_DRAWN]]
        bars = [
            (f"{row['number']} {_shown(row['text'])}", _drawn(row["bits of other"], row["bits"]))
            for row in rows[: options.top]
        ]
        sides = f"cheaper for {names[0]}", f"cheaper for {names[1]}"
        return {
            "Text": coloured_tokens(values, sides, joiner="", unit="bits"),
            "Largest disagreements": bars_of_shares(bars, sides, "difference in bits"),
        }

    return Sheet(
        f"{names[0]} and {names[1]}: difference",
        draw,
        {"models": names, "bits": list(totals), "rows": rows},
        summary,
        lines=_lines(names, rows[: options.top]),
    )


def side_by_side(one: Sequence[Piece], two: Sequence[Piece]) -> list[tuple[str, float, float]]:
    """Return the text between the places where pieces of both end, and its cost in each.

    >>> one = [Piece("to", 1.0), Piece(" be", 2.0)]
    >>> side_by_side(one, [Piece("t", 1.0), Piece("o", 0.5), Piece(" be", 1.0)])
    [('to', 1.0, 1.5), (' be', 2.0, 1.0)]
    """
    text, other = ("".join(piece.text for piece in its) for its in (one, two))
    if text.removesuffix("\n") != other.removesuffix("\n"):
        raise ConfigError(
            "the tokenizers of the two models spell the text differently (unknown words, small letters), so "
            "it cannot be laid side by side; compare models with one tokenizer, or with lossless ones"
        )
    if [piece.text for piece in one] == [piece.text for piece in two]:
        return [(a.text, a.bits, b.bits) for a, b in zip(one, two)]
    whole = max(text, other, key=len)
    ends = [list(accumulate(len(piece.text) for piece in its)) for its in (one, two)]
    stops = sorted((set(ends[0]) & set(ends[1])) - {0, len(text), len(other)})
    stops.append(len(whole))  # a mark of the end that only one has is part of the last place
    costs = [[0.0] * len(stops), [0.0] * len(stops)]
    for its, its_ends, cost in zip((one, two), ends, costs):
        for piece, end in zip(its, its_ends):
            cost[min(bisect_left(stops, end), len(stops) - 1)] += piece.bits
    texts = [whole[low:high] for low, high in zip([0, *stops], stops)]
    return list(zip(texts, *costs))


def two_names(labels: Sequence[str]) -> list[str]:
    """Return the labels, numbered where they are alike.

    >>> two_names(["gpt", "gpt"]), two_names(["gpt", "lstm"])
    (['gpt (1)', 'gpt (2)'], ['gpt', 'lstm'])
    """
    return [
        label if labels.count(label) == 1 else f"{label} ({i})" for i, label in enumerate(labels, 1)
    ]


def _drawn(two: float, one: float) -> float:
    """Return a difference that can be drawn: one that is endless counts as 100 bits."""
    return 0.0 if one == two else max(-100.0, min(100.0, two - one))


def _shown(text: str) -> str:
    """Return a place for a list, without the space that most words begin with."""
    bare = text.strip(" ") or "␣" * len(text)
    return "".join(c if c.isprintable() else "↵" for c in bare) or "</s>"


def _lines(names: list[str], rows: list[dict[str, Any]]) -> list[str]:
    one, two = (short_name(name) for name in names)
    wide = max(10, len(one) + 2, len(two) + 2)
    lines = [f"{'':>7}{'text':<20}{one:>{wide}}{two:>{wide}}{'difference':>12}"]
    lines += [
        f"{row['number']:>6} {_shown(row['text'])[:19]:<20}{row['bits']:>{wide}.2f}"
        f"{row['bits of other']:>{wide}.2f}{row['difference']:>+12.2f}"
        for row in rows
    ]
    return lines
