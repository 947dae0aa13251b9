"""One prediction of a language model, number by number: what its kind computes (`predicting`), and from its
state to the probability of the next token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from seqloom.charts.costs import token_bars
from seqloom.charts.page import Charts, Sheet
from seqloom.contracts import LanguageModel
from seqloom.decoding.sampling import top_indices
from seqloom.decoding.stepper import prefill
from seqloom.errors import ConfigError
from seqloom.views.catalogue import view
from seqloom.views.configs import PredictionOptions
from seqloom.views.predicting import SHOWN, Part, Place, Told, quoted
from seqloom.views.predicting_counts import of_hmm, of_mixture, of_ngram, of_uniform
from seqloom.views.predicting_networks import floats, of_cell, of_head, of_window
from seqloom.views.reading import remarks
from seqloom.views.recurrence import joiner_of
from seqloom.views.token_costs import window_of

TOP = 5

FAMILIES: dict[str, Callable[[Place], Told]] = {
    "ngram": of_ngram,
    "hmm": of_hmm,
    "mixture": of_mixture,
    **dict.fromkeys(("rnn", "lstm", "gru"), of_cell),
    "gpt": of_head,
    "nplm": of_window,
    "uniform": of_uniform,
}


@view
def prediction(model: LanguageModel, text: str, options: PredictionOptions) -> Sheet:
    """Show one prediction step by step, each number with its equation and the numbers in it."""
    ids, lengths, said = window_of(model, text)
    at = _chosen(len(ids), options.token)
    starts = np.cumsum(lengths) - lengths
    begin = int(starts[np.searchsorted(starts, at, side="right") - 1])
    stepper = model.sized_stepper()
    state, found = prefill(stepper, [np.asarray(ids[begin:at], np.int64)])
    log_probs = found[0].astype(np.float64)
    place = Place(model, text, ids, begin, at, _word(log_probs, ids, at, options), options)
    family, parts, chosen = FAMILIES.get(model.name, of_others)(place)
    for name in ("layer", "head", "unit"):
        given = getattr(options, name)
        if given is not None and name not in chosen:
            raise ConfigError(
                f"{model.name} models have 0 {name}s; leave out {name}={given}", [name]
            )
    parts += _from_state(place, stepper, state, log_probs)
    best = top_indices(log_probs[None], min(TOP, len(log_probs)))[0].tolist()
    following = [(place.name(i), float(np.exp(log_probs[i])) + 0.0) for i in best]
    p = float(np.exp(log_probs[place.word]))
    word = place.name(place.word)
    data: dict[str, Any] = {
        "family": family,
        "tokens": [place.name(i) for i in ids.tolist()],
        "joiner": joiner_of(model),
        "number": at + 1,
        "came": place.name(ids[at]),
        "token": word,
        "rank": int((log_probs > log_probs[place.word]).sum()) + 1,
        "probability": p,
        "bits": -math.log2(p) if p > 0 else math.inf,
        "next": following,
        "parts": [vars(part) for part in parts],
        **chosen,
    }
    known = "after nothing" if at == begin else f"after {at - begin:,} tokens"
    summary = [
        f"{model.label()} gives {quoted(word)}, {known}, the probability {p:.4g}: {data['bits']:.2f} bits, "
        f"rank {data['rank']:,}.",
        *said,
        *remarks(model),
    ]
    if not parts:
        summary.append(f"What {model.name} models compute on the way is not told apart here.")

    def draw(page: bool) -> Charts:
        bars = [(name, 100 * share, f"{share:.1%}") for name, share in following]
        if place.word not in best:
            bars.append((f"{word}, rank {data['rank']:,}", 100 * p, f"{100 * p:.2g}%"))
        return {"What comes next": token_bars(bars, "% of the probability")}

    return Sheet(
        f"{model.label()}: where p({word}) = {p:.4g} comes from",
        draw,
        data,
        summary,
        lines=_lines(parts, following),
    )


def of_others(place: Place) -> Told:
    """Return that nothing is told apart."""
    return place.model.name, [], {}


def _chosen(n: int, number: int | None) -> int:
    if number is not None and number > n:
        raise ConfigError(
            f"token must be from 1 to {n:,}, </s> included; got {number:,}", ["token"]
        )
    return n - 1 if number is None else number - 1


def _word(log_probs: np.ndarray, ids: np.ndarray, at: int, options: PredictionOptions) -> int:
    """Return the token that is explained: of a rank, or the one that came."""
    if options.rank is None:
        return int(ids[at])
    if options.rank > len(log_probs):
        raise ConfigError(
            f"rank must be from 1 to {len(log_probs):,}; got {options.rank:,}", ["rank"]
        )
    return int(top_indices(log_probs[None], options.rank)[0][-1])


def _from_state(place: Place, stepper: Any, state: Any, log_probs: np.ndarray) -> list[Part]:
    """Return how a network's output layer makes a probability of its state."""
    model, word = place.model, place.word
    output = getattr(model.runtime(), "output", None) if hasattr(model, "layers") else None
    if output is None or not hasattr(stepper, "features"):
        return []
    p, name = float(np.exp(log_probs[word])), place.name(word)
    if not hasattr(output, "linear"):  # an adaptive softmax has several
        part = Part(
            "From the state to the probability",
            "The output layer has a head of frequent tokens and clusters of rarer ones.",
            "p = p(cluster) p(w | cluster)",
        )
        part.add("p", "of the token", "", p)
        return [part]
    y = stepper.features(state)[0].astype(np.float64)
    row = floats(output.linear.weight[word : word + 1])[0].astype(np.float64)
    scores = output.linear(y[None].astype(np.float32))[0].astype(np.float64)
    bias = output.bias.astype(np.float64) if len(output.bias) else np.zeros(len(scores))
    scores = scores + bias
    terms = y * row
    order = np.argsort(-np.abs(terms), kind="stable")
    table = Part(
        f"What the state says of {quoted(name)}",
        f"The {len(y)} numbers that the output layer reads, times the token's row of its matrix; those "
        "that say most come first.",
        "logit = sum_u y_u W_u" + (" + b" if len(output.bias) else ""),
        ["y", "W", "y W"],
    )
    for u in order[:SHOWN].tolist():
        table.add_row(
            f"number {u}",
            ("y: what the output layer reads", "", float(y[u]), ()),
            ("W: the token's row of the output matrix", "", float(row[u]), ()),
            ("y W", f"{y[u]:.4f} * {row[u]:.4f}", float(terms[u]), ("y", "W")),
        )
    if len(y) > SHOWN:
        left = float(terms[order[SHOWN:]].sum())
        nothing = ("", "", None, ())
        table.add_row(
            f"{len(y) - SHOWN} others", nothing, nothing, ("sum of the other y W", "", left, ())
        )
    logit = float(scores[word])
    log_z = float(np.logaddexp.reduce(scores))
    part = Part(
        f"Softmax: the probability of {quoted(name)}",
        "The logit is set against those of all other tokens.",
        "p = exp(logit) / sum over all tokens of exp(logit)\n  = exp(logit - log_Z)",
    )
    if len(output.bias):
        part.add("b", "the token's bias", "", float(bias[word]))
    sums = " ".join(f"{line['numbers'][-1]['value']:+.4f}" for line in table.rows)
    equation = "sum of y W + b" if len(output.bias) else "sum of y W"
    tail = f" {bias[word]:+.4f}" if len(output.bias) else ""
    part.add("logit", equation, sums + tail, logit, *table.column("y W"))
    part.add("log_Z", f"log of the sum of exp(logit) of all {len(scores):,} tokens", "", log_z)
    part.add("p", "exp(logit - log_Z)", f"exp({logit:.4f} - {log_z:.4f})", math.exp(logit - log_z))
    return [table, part]


def _lines(parts: list[Part], following: list[tuple[str, float]]) -> list[str]:
    lines: list[str] = []
    for part in parts:
        lines += ["", part.title] if lines else [part.title]
        lines += [f"    {line}" for line in part.formula.split("\n") if line]
        wide = max([len(row["name"]) for row in part.rows], default=0)
        if part.columns:
            heads = "".join(f"{column:>12}" for column in part.columns)
            lines.append(f"  {'':<{wide}}{heads}")
        for row in part.rows:
            if part.columns:
                cells = "".join(f"{_number(one['value']):>12}" for one in row["numbers"])
                lines.append(f"  {row['name']:<{wide}}{cells}")
                continue
            one = row["numbers"][0]
            middle = "  =  ".join(filter(None, (one["equation"], one["numbers"])))
            lines.append(f"  {row['name']:<{wide}}  =  {middle}  =  {_number(one['value'])}")
    shown = "  ".join(f"{quoted(name)} {share:.1%}" for name, share in following)
    return [*lines, *([""] if lines else []), f"next: {shown}"]


def _number(value: float | int | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
