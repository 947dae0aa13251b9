"""Where an n-gram model takes a probability from: what each order adds, and where the text had the longest
n-gram.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.charts.costs import token_bars
from seqloom.charts.heat import Cell, Side, heat_map, text_width, written
from seqloom.charts.page import Charts, Sheet
from seqloom.data.corpus import as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.errors import ConfigError
from seqloom.models.language.backing_off import OrderShare, continuations, order_shares
from seqloom.models.language.ngram import NGram
from seqloom.views.catalogue import view
from seqloom.views.configs import BackoffOptions
from seqloom.views.hidden import visible
from seqloom.views.token_costs import window_of

WIDEST, CELL, ROOM = 120, 46, 5  # pixels of a column of the picture, and digits in a cell
COLUMNS, SPACE = 20, 960  # tokens of the picture, and its pixels
LINE = 160  # characters of a line of the corpus


@view
def backoff(model: NGram, text: str, options: BackoffOptions) -> Sheet:
    """Show what each order adds to the probability of one token, and the same for every token of the text."""
    ids, lengths, said = window_of(model, text)
    at = _chosen(model, ids, options.token)
    starts = np.cumsum(lengths) - lengths
    begins = np.repeat(starts, lengths)
    tokens = [visible(model.tokenizer.token(int(i))) for i in ids]
    shares = order_shares(model, ids[begins[at] : begins[at] + lengths.max()], at - int(begins[at]))
    rows = [_row(model, one, int(ids[at])) for one in shares]
    probability = sum(one.share for one in shares)
    drawn = range(max(0, min(at - COLUMNS + 2, len(ids) - COLUMNS)), len(ids))[:COLUMNS]
    parts = [
        order_shares(model, ids[begins[i] : i + 1], i - int(begins[i]), counted=False)
        for i in drawn
    ]  # of each token that is drawn, the highest order first
    longest = next((one for one in shares if one.count != 0 and one.own > 0), shares[-1])
    data: dict[str, Any] = {
        "token": tokens[at],
        "number": at + 1,
        "probability": probability,
        "rows": rows,
        "tokens": tokens,
        "before": model.tokenizer.decode(ids[:at], newline_ends=model.unit == "line"),
    }
    summary = [_sentence(tokens, at, probability, rows), *said]
    if model.trie.order > 1 and all(row["count"] is None for row in rows):
        summary.append(_no_counts(model))
    if options.continuations:
        sequence = ids[begins[at] : begins[at] + lengths.max()]
        data["continuations"] = _continuations(
            model, sequence, at - int(begins[at]), options.continuations
        )
    if options.corpus is not None:
        found = _places(model, options, ids, at, longest)
        data["places"] = found
        summary.append(_found(found))

    def draw(page: bool) -> Charts:
        bars = [
            (
                f"{row['order']}-gram: {row['ngram']}",
                100 * max(row["share_of_probability"], 0.0),
                f"{row['share_of_probability']:.1%}",
            )
            for row in rows
        ]
        heading = f"What each order adds to {tokens[at]} ({at + 1})"
        return {
            heading: token_bars(bars, "% of the probability"),
            "Token by token: share of the probability by order": _map(
                model, parts, [f"{i + 1} {tokens[i]}" for i in drawn]
            ),
        }

    return Sheet(
        f"{model.label()}: where p({tokens[at]}) = {probability:.4g} comes from",
        draw,
        data,
        summary,
        lines=[
            *_lines(rows, probability),
            *_followed(data.get("continuations", ())),
            *_listed(data.get("places")),
        ],
    )


def _chosen(model: NGram, ids: np.ndarray, number: int | None) -> int:
    if number is None:
        return max(len(ids) - 2, 0) if ids[-1] == model.tokenizer.eos_id else len(ids) - 1
    if number > len(ids):
        raise ConfigError(
            f"token must be from 1 to {len(ids):,}, </s> included; got {number:,}", ["token"]
        )
    return number - 1


def _spelled(model: NGram, ids: tuple[int, ...]) -> str:
    bos = model.trie.vocab_size
    return " ".join("<s>" if i == bos else visible(model.tokenizer.token(i)) for i in ids)


def _row(model: NGram, one: OrderShare, word: int) -> dict[str, Any]:
    return {
        "order": one.order,
        "ngram": _spelled(model, (*one.context, word)),
        "known_context": one.known,
        "continuations": one.continuations,
        "count": one.count,
        "total": one.total,
        "discount": one.discount,
        "weight": one.weight,
        "own": one.own,
        "share": one.share,
        "share_of_probability": 0.0,
    }


def _continuations(model: NGram, ids: np.ndarray, at: int, most: int) -> list[dict[str, Any]]:
    name, spelled = model.tokenizer.token, model.tokenizer.piece
    return [
        {
            "order": one.order,
            "context": _spelled(model, one.context),
            "known": one.known,
            "total": one.total,
            "tokens": [
                {
                    "token": visible(name(token)),
                    "text": spelled(token, before=at > 0).decode("utf-8", "replace"),
                    "probability": probability,
                    "count": count,
                }
                for token, probability, count in one.tokens
            ],
        }
        for one in continuations(model, ids, at, most)
    ]


def _sentence(tokens: list[str], at: int, probability: float, rows: list[dict[str, Any]]) -> str:
    for row in rows:
        row["share_of_probability"] = row["share"] / probability if probability > 0 else 0.0
    best = max(rows, key=lambda row: row["share"])
    bits = -math.log2(probability) if probability > 0 else math.inf
    return (
        f"{tokens[at]} (token {at + 1}) has the probability {probability:.4g}, {bits:.2f} bits; "
        f"{best['share_of_probability']:.0%} of it comes from the {best['order']}-grams. The shares add up "
        "to it."
    )


def _no_counts(model: NGram) -> str:
    c = model.config
    if any(c.prune) or c.prune_entropy:
        return "The model was pruned, so its counts cannot be told; a corpus gives them."
    return f"A model with {c.smoothing} smoothing does not tell its counts; a corpus gives them."


def _lines(rows: list[dict[str, Any]], probability: float) -> list[str]:
    def number(value: Any) -> str:
        return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3f}"

    wide = max(len(row["ngram"]) for row in rows)
    lines = [
        f"{'order':>5}  {'n-gram':<{wide}}{'count':>8}{'of':>8}{'kinds':>7}{'discount':>10}{'back-off':>10}"
        f"{'own part':>10}{'share':>10}{'':>7}"
    ]
    for row in rows:
        weight = number(row["weight"]) if row["known_context"] and row["order"] > 1 else ""
        lines.append(
            f"{row['order']:>5}  {row['ngram']:<{wide}}{number(row['count']):>8}{number(row['total']):>8}"
            f"{number(row['continuations']):>7}{number(row['discount']):>10}{weight:>10}"
            f"{row['own']:>10.5f}{row['share']:>10.5f}{row['share_of_probability']:>7.0%}"
        )
    return [*lines, f"{'':>5}  {'sum':<{wide}}{'':>53}{probability:>10.5f}"]


def _map(model: NGram, parts: list[list[OrderShare]], names: list[str]) -> Any:
    orders = list(range(model.trie.order, 0, -1))
    width = min(max(CELL, *map(text_width, names)) + 6, WIDEST)
    if width * len(names) > SPACE:  # the names are turned then
        width = CELL
    cells = []
    for column, shares in enumerate(parts):
        total = sum(one.share for one in shares)
        for one in shares:
            share = max(one.share / total, 0.0) if total > 0 else 0.0
            cells.append(
                Cell(
                    orders.index(one.order),
                    column,
                    min(share, 1.0),
                    written(min(share, 1.0), ROOM),
                    f"{share:.4f}",
                )
            )
    return heat_map(cells, Side("order", list(map(str, orders)), 24), Side("tokens", names, width))


# ---- in the text


def _places(
    model: NGram, options: BackoffOptions, ids: np.ndarray, at: int, longest: OrderShare
) -> dict[str, Any]:
    """Find the n-gram of the longest order that added something in a corpus."""
    corpus = as_corpus(Path(str(options.corpus)))
    tokenizer = model.tokenizer
    text = encode_corpus(tokenizer, corpus, unit=model.unit).astype(np.int64)
    bos = model.trie.vocab_size
    gram = np.array([*longest.context, int(ids[at])], np.int64)
    begins = gram[0] == bos
    framed = np.concatenate([[tokenizer.eos_id], text])  # what is before the first token
    wanted = np.where(gram == bos, tokenizer.eos_id, gram)
    fits = np.ones(max(len(framed) - len(wanted) + 1, 0), bool)
    for k, token in enumerate(wanted.tolist()):
        fits &= framed[k : k + len(fits)] == token
    if not begins:
        fits[:1] = False
    where = np.flatnonzero(fits) + len(wanted) - 2  # of the last token, in the text
    ends = np.flatnonzero(text == tokenizer.eos_id)
    lines = []
    for place in where[: options.lines].tolist():
        unit = int(np.searchsorted(ends, place))
        low = int(ends[unit - 1]) + 1 if unit else 0
        high = int(ends[unit]) if unit < len(ends) else len(text)
        low, high = max(low, place - 60), min(high, place + 60)
        whole, first = tokenizer.decode(text[low:high]), max(place - len(gram) + 1 + begins, low)
        ends_at = [len(tokenizer.decode(text[low:end])) for end in (first, place + 1)]
        lines.append({"unit": unit + 1, "text": whole[:LINE], "at": ends_at})
    return {
        "ngram": _spelled(model, tuple(gram.tolist())),
        "count": len(where),
        "kind": model.unit,
        "lines": lines,
    }


def _found(found: dict[str, Any]) -> str:
    if not found["count"]:
        return f"The corpus has no {found['ngram']!r}."
    return f"The corpus has {found['ngram']!r} {found['count']:,} times; the first are listed."


def _followed(found: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for one in found:
        seen = "  ".join(
            f"{row['token']} {row['probability']:.1%}"
            + ("" if row["count"] is None else f" ({row['count']:,})")
            for row in one["tokens"]
        )
        lines.append(f"  after {one['context'] or 'nothing'!r}: {one['known']:,} kinds  {seen}")
    return ["", *lines] if lines else []


def _listed(found: dict[str, Any] | None) -> list[str]:
    if found is None or not found["lines"]:
        return []
    rows = [
        f"  {found['kind']} {line['unit']:,}: {visible_line(line['text'])}"
        for line in found["lines"]
    ]
    return ["", *rows]


def visible_line(text: str) -> str:
    """Return a text in one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
