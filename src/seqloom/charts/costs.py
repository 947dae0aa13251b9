"""What a text costs: along its length, and token by token."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.charts import theme

WINDOWS = 200  # points along a text


def along(bits: np.ndarray, weights: np.ndarray, *, unit: str) -> Any:
    """Draw the mean cost of each of 200 stretches of the text, in reading order; `unit` is what
    the weights count.
    """
    import altair as alt

    rows = windows(bits, weights)
    mean = float(np.sum(bits) / np.sum(weights))
    base = alt.Chart(theme.table(rows)).encode(
        x=alt.X(
            "at:Q",
            title=f"{unit}s from the beginning",
            scale=alt.Scale(nice=False, zero=False),
            axis=alt.Axis(labelExpr="format(datum.value, '~s')", tickCount=8),
        ),
        y=alt.Y("cost:Q", title=f"bits per {unit}", scale=alt.Scale(zero=False)),
    )
    tips = [
        alt.Tooltip("at:Q", title=f"{unit}s before", format=","),
        alt.Tooltip("cost:Q", title=f"bits per {unit}", format=".2f"),
    ]
    line = base.mark_line(color=theme.HUES[0], strokeWidth=1.5).encode(tooltip=tips)
    if not math.isfinite(mean):  # a token of probability zero
        return line.properties(height=220)
    level = alt.Chart(theme.table([{"mean": mean, "shown": f"mean {mean:.3f}"}]))
    rule = level.mark_rule(color=theme.HUES[1], strokeWidth=1.5).encode(y="mean:Q")
    inks = {"stroke": "white", "strokeWidth": 5}, {"color": theme.HUES[1]}  # a halo, then the text
    halo, text = (
        level.mark_text(align="right", baseline="bottom", dy=-4, fontWeight="bold", **ink).encode(
            x=alt.value("width"), y="mean:Q", text="shown:N"
        )
        for ink in inks
    )
    return alt.layer(line, rule, halo, text).properties(height=220)


def windows(bits: np.ndarray, weights: np.ndarray, count: int = WINDOWS) -> list[dict[str, float]]:
    """Split the text into `count` stretches of like weight: where each begins and its mean cost.

    >>> windows(np.array([1.0, 3.0, 5.0, 5.0]), np.ones(4), 2)
    [{'at': 0.0, 'cost': 2.0}, {'at': 2.0, 'cost': 5.0}]
    """
    starts = np.cumsum(weights) - weights
    window = np.minimum((starts * count / np.sum(weights)).astype(np.int64), count - 1)
    sums, sizes = np.bincount(window, bits, count), np.bincount(window, weights, count)
    first = np.full(count, np.inf)
    np.minimum.at(first, window, starts)
    return [
        {"at": float(first[i]), "cost": float(sums[i] / sizes[i])}
        for i in np.flatnonzero(sizes > 0)
        if math.isfinite(sums[i])
    ]


def histogram(bits: np.ndarray) -> Any:
    """Draw how many tokens cost how much, and which of them the whole cost comes from."""
    import altair as alt

    rows = cost_shares(bits)
    names = ["of the tokens", "of the bits"]
    values = [
        {"cost": row["cost"], "share": row[key], "of": name}
        for row in rows
        for key, name in zip(("tokens", "bits"), names)
    ]
    colour = alt.Color(
        "of:N",
        title="share",
        sort=names,
        scale=alt.Scale(domain=names, range=list(theme.HUES[:2])),
        legend=alt.Legend(symbolOpacity=1, titleOrient="left"),
    )
    order = [row["cost"] for row in rows]
    return (
        alt.Chart(theme.table(values))
        .mark_bar()
        .encode(
            x=alt.X(
                "cost:N", sort=order, title="cost of a token (bits)", axis=alt.Axis(labelAngle=0)
            ),
            xOffset=alt.XOffset("of:N", sort=names),
            color=colour,
            y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%")),
            tooltip=[
                alt.Tooltip("cost:N", title="bits"),
                alt.Tooltip("share:Q", format=".1%"),
                alt.Tooltip("of:N", title="share"),
            ],
        )
        .properties(height=220)
    )


def cost_shares(
    bits: np.ndarray, bounds: Sequence[float] = (0.5, 1, 2, 4, 6, 8, 12, 16)
) -> list[dict[str, Any]]:
    """Return for each range of cost its share of the tokens and of all finite bits.

    >>> cost_shares(np.array([1.0, 3.0]), [2])
    [{'cost': '< 2', 'tokens': 0.5, 'bits': 0.25}, {'cost': '2+', 'tokens': 0.5, 'bits': 0.75}]
    """
    where = np.searchsorted(bounds, bits, side="right")
    finite = np.where(np.isfinite(bits), bits, 0.0)
    tokens, sums = (
        np.bincount(where, minlength=len(bounds) + 1),
        np.bincount(where, finite, len(bounds) + 1),
    )
    names = [
        f"< {bounds[0]:g}",
        *(f"{a:g}–{b:g}" for a, b in itertools.pairwise(bounds)),
        f"{bounds[-1]:g}+",
    ]
    return [
        {"cost": name, "tokens": float(n / len(bits)), "bits": float(s / max(finite.sum(), 1e-12))}
        for name, n, s in zip(names, tokens, sums)
    ]


ROW, SHOWN = 20, 52  # pixels of a bar, and characters beside it


def token_bars(rows: Sequence[tuple[str, float, str]], unit: str = "bits") -> Any:
    """Draw a bar for each token (name, cost, what is written beside it), in the given order; one that
    cannot occur has no bar.
    """
    import altair as alt

    from seqloom.charts.heat import name_axis

    names = [name for name, _, _ in rows]
    values: list[dict[str, Any]] = [
        {
            "place": i,
            "name": name,
            "cost": cost if math.isfinite(cost) else 0.0,
            "shown": text if len(text) <= SHOWN else f"{text[: SHOWN - 1].rstrip()}…",
        }
        for i, (name, cost, text) in enumerate(rows)
    ]
    far = max((row["cost"] for row in values), default=0.0) or 1.0
    longest = max((len(row["shown"]) for row in values), default=0)
    room = 1.05 + 0.024 * longest  # for what is written beside the longest bar
    base = alt.Chart(theme.table(values)).encode(
        y=alt.Y("place:O", title=None, axis=name_axis(alt, names, grid=False)),
        x=alt.X(
            "cost:Q",
            title=unit,
            scale=alt.Scale(domain=[0, room * far], nice=False),
            axis=alt.Axis(values=_up_to(far)),
        ),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("cost:Q", title=unit, format=".2f")],
    )
    text = base.mark_text(align="left", dx=4).encode(text="shown:N")
    return alt.layer(base.mark_bar(color=theme.HUES[0]), text).properties(
        height=max(ROW * len(values), 60)
    )


def by_setting(points: Sequence[tuple[float, float]], setting: str, unit: str) -> Any:
    """Draw a cost over the setting that it depends on."""
    import altair as alt

    rows = [{"at": x, "cost": y} for x, y in points]
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point={"color": theme.HUES[0]}, color=theme.HUES[0], strokeWidth=1.5)
        .encode(
            x=alt.X("at:Q", title=setting, scale=alt.Scale(nice=False)),
            y=alt.Y("cost:Q", title=unit, scale=alt.Scale(zero=False)),
            tooltip=[
                alt.Tooltip("at:Q", title=setting, format=".3~g"),
                alt.Tooltip("cost:Q", title=unit, format=".4f"),
            ],
        )
    )


def _up_to(far: float) -> list[float]:
    """Return round ticks from zero to a value, some five of them; none lie where only words stand.

    >>> _up_to(14.9), _up_to(97.4)
    ([0.0, 5.0, 10.0], [0.0, 20.0, 40.0, 60.0, 80.0])
    """
    rough = far / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [round(step * i, 12) for i in range(int(far / step * 1.001) + 1)]
