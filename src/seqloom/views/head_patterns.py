"""All heads of attention beside each other: how sharply each looks, how far, and in which pattern.

How much weight lies where a pattern says is compared with what equal weights would put there:

    strength = (share - share of equal weights) / (1 - share of equal weights)

so 1 is all weight, 0 no more than by chance. Steps with few tokens to choose from say little and are left
out. The patterns are those of Clark et al. 2019 ("What Does BERT Look At?"): the token before or after, the
first token, the same word elsewhere, the neighbourhood (diagonal), one token for all steps (stripe), and
evenly over all (diffuse).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.charts.attention import MOST_HEADS, SMALL, HeadMap, by_layer_chart, heads_chart, tiles
from seqloom.charts.page import Sheet
from seqloom.errors import ConfigError
from seqloom.views.attending import Layer, layer_names, layers_of
from seqloom.views.catalogue import view
from seqloom.views.configs import HeadsOptions
from seqloom.views.head_tasks import arc_charts, arc_lines, arcs_of, pair_lines, pairs_of
from seqloom.views.reading import remarks

NAMED_FROM = 0.4  # strength from which on a head is named after a pattern
EVEN = 0.8  # share of the largest entropy from which on a head is diffuse
CHOICE = 4  # tokens that a step must be able to look at, to be counted
NEAR = 2  # tokens to each side that are the neighbourhood
POSITIONS = {"previous": -1, "itself": 0, "next": 1}
MAX_LINES = 60  # heads in the table of a terminal


@view
def heads(model: Any, example: Any, options: HeadsOptions) -> Sheet:
    """Show all heads: entropy, distance and pattern over a text; with `tagged` or `pairs` also which
    words of a sentence each finds.
    """
    data: dict[str, Any] = {}
    charts: dict[str, Any] = {}
    summary, lines = list(remarks(model)), []
    if example is not None or model.task == "forecaster":
        rows, maps, steps = every_head(model, example)
        data |= {"rows": rows, "tokens": steps}
        lines += _lines(rows)
        summary += _sentences(rows, len(steps))
    elif not (options.tagged or options.pairs):
        raise ConfigError("heads need a text, or data with tagged=... or pairs=...")
    if options.tagged:
        data["arcs"] = arcs_of(model, options.tagged, options.sentences)
        lines += arc_lines(data["arcs"], bool(lines))
    if options.pairs:
        data["pairs"] = pairs_of(model, options.pairs)
        more, said = pair_lines(data["pairs"], bool(lines))
        lines, summary = lines + more, [*summary, *said]

    def draw(page: bool) -> dict[str, Any]:
        if example is not None:
            charts["Every head"] = heads_chart(maps)
            charts["How evenly each head looks, by layer"] = by_layer_chart(
                rows, "entropy", "entropy (bits)"
            )
            charts["How far each head looks, by layer"] = by_layer_chart(
                rows, "distance", "mean distance (tokens)"
            )
        return charts | arc_charts(data)

    return Sheet(f"{model.label()}: heads of attention", draw, data, summary, lines=lines)


# ---- patterns


def every_head(
    model: Any, example: Any, most_tiles: int = SMALL
) -> tuple[list[dict[str, Any]], list[HeadMap], list[str]]:
    """Return what is known of each head over a text, small maps of the first heads, and the text's tokens."""
    rows: list[dict[str, Any]] = []
    maps: list[HeadMap] = []
    steps: list[str] = []
    with progress.task("layers of attention", len(layer_names(model))) as bar:
        for layer in layers_of(model, example):
            steps = steps or layer.keys
            seen = Seen.of(layer)
            for head, weights in enumerate(layer.weights):
                rows.append({"layer": layer.name, "head": head, **describe(weights, seen)})
                if len(maps) < MOST_HEADS:
                    shown = tiles(weights, most_tiles)[0]
                    maps.append(HeadMap(layer.name, head, rows[-1]["pattern"], shown))
            bar.advance()
    return rows, maps, steps


class Seen(NamedTuple):
    """What the steps of a layer can look at: the number of tokens for each (T,), the steps that are counted
    (T,), pairs of the same word (T, S), distances (T, S), and whether it is of a sequence to itself.
    """

    many: np.ndarray
    counted: np.ndarray
    same: np.ndarray
    apart: np.ndarray
    itself: bool
    keys: Sequence[str]

    @classmethod
    def of(cls, layer: Layer) -> Seen:
        _, steps, keys = layer.weights.shape
        causal = layer.itself and not any(np.triu(each, 1).any() for each in layer.weights)
        many = np.arange(1, steps + 1) if causal else np.full(steps, keys)
        counted = many >= min(CHOICE, int(many.max()))
        numbers: dict[str, int] = {}
        looks, looked = (
            np.array([numbers.setdefault(name, len(numbers)) for name in names])
            for names in (layer.steps, layer.keys)
        )
        same = looks[:, None] == looked[None, :]  # (T, S)
        if layer.itself:
            np.fill_diagonal(same, False)
        if causal:
            same = np.tril(same)
        apart = np.abs(np.arange(steps)[:, None] - np.arange(keys)[None, :]).astype(np.float32)
        return cls(many, counted, same, apart, layer.itself, layer.keys)


def describe(weights: np.ndarray, seen: Seen) -> dict[str, Any]:
    """Return entropy in bits, mean distance, the strength of each pattern, and the pattern of a head with
    weights (T, S).
    """
    rows = np.flatnonzero(seen.counted)
    many = seen.many[rows]
    entropies = entropy_bits(weights)[rows]
    most = float(np.log2(many).mean())
    strengths = _strengths(weights, seen, rows)
    stripe = int(strengths.pop("stripe at"))
    named = {name: value for name, value in strengths.items() if name not in ("diagonal", "stripe")}
    best = max(named, key=named.__getitem__)
    pattern = "diffuse" if entropies.mean() >= EVEN * most else "mixed"
    for name in ("stripe", "diagonal", best):
        if strengths[name] >= NAMED_FROM:
            pattern = name
    return {
        "pattern": pattern,
        "entropy": float(entropies.mean()),
        "largest_entropy": most,
        "distance": float(np.einsum("ts,ts->t", weights, seen.apart)[rows].mean(dtype=np.float64)),
        **{name.replace(" ", "_"): value for name, value in strengths.items()},
        "stripe_token": seen.keys[stripe],
    }


def entropy_bits(weights: np.ndarray) -> np.ndarray:
    """Return the entropy of each row of shares, in bits.

    >>> entropy_bits(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 1.0]
    """
    logs = np.log2(np.where(weights > 0, weights, 1))
    return -np.einsum("ts,ts->t", weights, logs).astype(np.float64) + 0.0


def _strengths(weights: np.ndarray, seen: Seen, rows: np.ndarray) -> dict[str, float]:
    even = 1 / seen.many
    steps, keys = weights.shape
    columns = np.arange(steps)
    if not seen.itself and steps > 1:  # a diagonal of unequal sides
        columns = np.rint(columns * (keys - 1) / (steps - 1)).astype(np.int64)
    last = seen.many - 1

    def along(offset: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of each step on the token at an offset, and whether it can see it."""
        at = columns + offset
        inside = (at >= 0) & (at <= last)
        return np.where(inside, weights[np.arange(steps), np.where(inside, at, 0)], 0.0), inside

    found: dict[str, float] = {}
    if seen.itself:
        for name, offset in POSITIONS.items():
            share, inside = along(offset)
            found[name] = _strength(share, inside * even, rows, inside)
    found["first"] = _strength(weights[:, 0], even, rows)
    count = seen.same.sum(1)
    share = np.einsum("ts,ts->t", weights, seen.same)
    found["same word"] = _strength(share, count * even, rows, count > 0)
    near = [along(offset) for offset in range(-NEAR, NEAR + 1)]
    shares, insides = (np.sum(part, axis=0) for part in zip(*near))
    found["diagonal"] = _strength(shares, insides * even, rows)
    # Which token gets most of all steps that can see it, of those that at least half of the steps see.
    sums = weights[rows].sum(0, dtype=np.float64)
    seeing = (last[rows][:, None] >= np.arange(keys)).sum(0) if len(set(last)) > 1 else len(rows)
    means = np.where(2 * seeing >= len(rows), sums / np.maximum(seeing, 1), 0.0)
    means[0] = 0.0
    column = int(means.argmax())
    chance = float(even[rows][last[rows] >= column].mean()) if column else 1.0
    found["stripe"] = (float(means[column]) - chance) / (1 - chance) if chance < 1 else 0.0
    return {**found, "stripe at": float(column)}


def _strength(
    share: np.ndarray, chance: np.ndarray, rows: np.ndarray, where: np.ndarray | None = None
) -> float:
    """Return how far mean shares lie between those of equal weights, 0, and all weight, 1."""
    chosen = rows if where is None else rows[where[rows]]
    if not len(chosen):
        return 0.0
    expected = float(chance[chosen].mean())
    mean = float(share[chosen].mean(dtype=np.float64))
    return (mean - expected) / (1 - expected) if expected < 1 else 0.0


# ---- words


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    width = max(len(row["layer"]) for row in rows[:MAX_LINES]) + 2
    named = [
        name
        for name in ("previous", "next", "first", "same_word")
        if any(row.get(name) for row in rows)
    ]
    head = "".join(f"{name.replace('_', ' '):>11}" for name in named)
    lines = [f"{'layer':<{width}}head  {'pattern':<10}{'entropy':>9}{'distance':>10}{head}"]
    for row in rows[:MAX_LINES]:
        values = "".join(f"{round(row.get(name, 0.0), 2) + 0.0:>11.2f}" for name in named)
        lines.append(
            f"{row['layer']:<{width}}{row['head']:>4}  {row['pattern']:<10}{row['entropy']:>9.2f}"
            f"{row['distance']:>10.1f}{values}"
        )
    if len(rows) > MAX_LINES:
        lines.append(f"and {len(rows) - MAX_LINES:,} more heads")
    return lines


def _sentences(rows: list[dict[str, Any]], tokens: int) -> list[str]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["pattern"]] = counts.get(row["pattern"], 0) + 1
    listed = ", ".join(
        f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])
    )
    stripes = sorted({repr(row["stripe_token"]) for row in rows if row["pattern"] == "stripe"})
    said = [f"{len(rows)} heads over {tokens:,} tokens: {listed}."]
    if stripes:
        said.append(f"Stripes lie at: {', '.join(stripes[:8])}.")
    return said
