"""What a text costs a model when some of its heads of attention are switched off, token by token.

A head is removed as `ablation` removes it: a copy of the model has zeros where the head's vector enters the
output projection. What is measured is the model on one text: the bits of its tokens; for a classifier those
of the label that the whole model gives; for a tagger how many of its own tags change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seqloom.charts.costs import token_bars
from seqloom.charts.page import Charts, Sheet
from seqloom.charts.shares import coloured_tokens
from seqloom.errors import ConfigError, DataError
from seqloom.views.attending import layer_names, read_cut
from seqloom.views.catalogue import view
from seqloom.views.configs import WithoutOptions
from seqloom.views.hidden import visible
from seqloom.views.language import pieces_of
from seqloom.views.reading import remarks
from seqloom.views.removal import ALL_HEADS, Columns, parts_of, without_parts
from seqloom.views.token_costs import token_rows, window_of
from seqloom.views.translation import END

MAX_ROWS = 60  # in the table of a terminal
MAX_DRAWN = 1000
SIDES = "dearer without", "cheaper without"


@view
def without(model: Any, example: Any, options: WithoutOptions) -> Sheet:
    """Measure a text with and without some heads, or layers, of attention."""
    names, columns = chosen(model, options.off)
    other = without_parts(model, columns)
    if model.task == "tagger":
        return _tagged(model, other, example, names)
    rows, what, said = MEASURES[model.task](model, other, example)
    bits, left = (float(sum(row[key] for row in rows)) for key in ("bits", "bits without"))
    for row in rows:
        row["cost"] = _difference(row["bits"], row["bits without"])
    cost = _difference(bits, left)
    many = f", {cost / len(rows):+.3f} for each of {len(rows):,}" if len(rows) > 1 else ""
    summary = [
        f"Without {_listed(names)}, {what} costs {left:,.2f} bits instead of {bits:,.2f}: {cost:+,.2f}"
        f"{many}.",
        *said,
        *remarks(model),
    ]

    def draw(page: bool) -> Charts:
        if len(rows) == 1:
            values = [("whole", bits), ("without", left)]
            return {
                what: token_bars([(name, value, f"{value:.2f} bits") for name, value in values])
            }
        drawn = [(row["token"], _drawn(row["cost"])) for row in rows[:MAX_DRAWN]]
        joiner = "" if model.task == "language model" else " "
        return {"What it costs": coloured_tokens(drawn, SIDES, joiner=joiner, unit="bits")}

    return Sheet(
        f"{model.label()}: without {_listed(names)}",
        draw,
        {"off": names, "rows": rows, "bits": bits, "bits without": left, "cost": cost},
        summary,
        lines=_lines(rows),
    )


def chosen(model: Any, off: Sequence[str]) -> tuple[list[str], dict[str, Columns]]:
    """Return what LAYER.HEAD and LAYER name, as words, and by name of the weights the columns that become
    zero. Layers are counted as in the view `attention`.
    """
    layers = layer_names(model)
    parts = {(part.layer, part.part): part for part in parts_of(model)}
    last = sum(part != ALL_HEADS and layer == layers[0] for layer, part in parts) - 1
    if not off:
        raise ConfigError("off must name at least one head or layer; got none", ["off"])
    names: list[str] = []
    whole: dict[str, Columns] = {}
    several: dict[str, list[int]] = {}
    for one in off:
        number, dot, head = one.strip().partition(".")
        at = int(number) if number.isascii() and number.isdecimal() else len(layers)
        layer = layers[at] if at < len(layers) else ""
        part = parts.get(
            (layer, str(int(head)) if head.isdecimal() else head) if dot else (layer, ALL_HEADS)
        )
        if part is None or (dot and not head.isdecimal()):
            raise ConfigError(
                f"off must name layers from 0 to {len(layers) - 1}, or heads such as 0.{max(0, last)}; got "
                f"{one!r}",
                ["off"],
            )
        names.append(f"head {part.part} of {layer}" if dot else f"all heads of {layer}")
        for weights, some in part.names.items():
            if some is None or weights in whole:
                whole[weights] = None
            else:
                several.setdefault(weights, []).extend(range(some.start, some.stop))
    return names, {**several, **whole}


# ---- measuring: rows with the bits of both models, what costs them, and what must be said

Measured = tuple[list[dict[str, Any]], str, list[str]]


def _row(number: int, token: str, bits: float, left: float) -> dict[str, Any]:
    return {"number": number, "token": token, "bits": bits, "bits without": left}


def _language(model: Any, other: Any, text: str) -> Measured:
    ids, lengths, said = window_of(model, text)
    one, two = (
        pieces_of(model, ids, np.array([row["bits"] for row in token_rows(each, ids, lengths, 0)]))
        for each in (model, other)
    )
    rows = [_row(i + 1, a.text or END, a.bits, b.bits) for i, (a, b) in enumerate(zip(one, two))]
    return rows, "the text", said


def _of_scores(names: list[str], whole: Any, left: Any) -> list[dict[str, Any]]:
    bits = [(-np.asarray(each, np.float64) / math.log(2) + 0.0).tolist() for each in (whole, left)]
    return [_row(i + 1, *row) for i, row in enumerate(zip(names, *bits))]


def _masked(model: Any, other: Any, text: Any) -> Measured:
    names = [model.tokenizer.token(token) for row in model.encode(text) for token in row.tolist()]
    if not names:
        raise DataError("the text is empty; give one")
    rows = _of_scores(names, model.token_scores(text), other.token_scores(text))
    return rows, "the text, each token hidden in turn,", []


def _translated(model: Any, other: Any, example: Any) -> Measured:
    source, target = example if isinstance(example, tuple) else (example, model.translate(example))
    tokenizer = model.target_tokenizer
    names = [tokenizer.token(token) for token in model.target_ids([target])[0].tolist()[:-1]]
    scores = [one.token_scores([source], [target])[0] for one in (model, other)]
    what = "its translation" if isinstance(example, str) else "the translation"
    return _of_scores([*names, END], *scores), what, [f"Translation: {target}"]


def _classified(model: Any, other: Any, example: Any) -> Measured:
    whole, left = (one.log_probs([example])[0].astype(np.float64) for one in (model, other))
    answer = int(whole.argmax())
    rows = _of_scores([str(model.classes[answer])], whole[[answer]], left[[answer]])
    now = model.classes[int(left.argmax())]
    kept = (
        "It is still the answer." if now == model.classes[answer] else f"The answer is {now} now."
    )
    return rows, f"the answer {model.classes[answer]}", [kept]


MEASURES: dict[str, Callable[[Any, Any, Any], Measured]] = {
    "language model": _language,
    "masked language model": _masked,
    "translator": _translated,
    "classifier": _classified,
}


def _tagged(model: Any, other: Any, example: Any, names: list[str]) -> Sheet:
    """Show which tags change: the likeliest tags of a sentence have no bits of their own."""
    words = read_cut(model, example, "nothing").tokens
    one, two = model.predict(words), other.predict(words)
    rows = [
        {"number": i + 1, "token": word, "tag": a, "tag without": b, "cost": float(a != b)}
        for i, (word, a, b) in enumerate(zip(words, one, two))
    ]
    changed = sum(row["cost"] > 0 for row in rows)
    values = [(f"{row['token']}/{row['tag without']}", row["cost"]) for row in rows[:MAX_DRAWN]]
    return Sheet(
        f"{model.label()}: without {_listed(names)}",
        lambda page: {"What changes": coloured_tokens(values, ("changed", ""), unit="tags")},
        {"off": names, "rows": rows, "changed": changed},
        [f"Without {_listed(names)}, {changed:,} of {len(rows):,} tags change.", *remarks(model)],
        lines=[f"{'word':<18}{'tag':<10}without"]
        + [f"{r['token']!r:<18}{r['tag']:<10}{r['tag without']}" for r in rows[:MAX_ROWS]],
    )


# ---- words


def _listed(names: list[str]) -> str:
    return " and ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1:,} others"


def _difference(bits: float, left: float) -> float:
    return left - bits if left != bits else 0.0


def _drawn(cost: float) -> float:
    """Return a cost that can be drawn: one that is endless counts as 100 bits."""
    return max(-100.0, min(100.0, cost))


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'':>6}{'token':<16}{'bits':>9}{'without':>9}{'cost':>9}"]
    lines += [
        f"{row['number']:>5} {visible(row['token']):<16}{row['bits']:>9.2f}{row['bits without']:>9.2f}"
        f"{row['cost']:>+9.2f}"
        for row in rows[:MAX_ROWS]
    ]
    if len(rows) > MAX_ROWS:
        lines.append(f"      ... and {len(rows) - MAX_ROWS:,} more; to_frame() and JSON have all")
    return lines
