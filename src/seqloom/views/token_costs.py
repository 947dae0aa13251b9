"""What the tokens of a text cost a language model, and what it expected instead of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from seqloom.charts.page import Sheet
from seqloom.charts.passage import passage_chart
from seqloom.contracts import LanguageModel
from seqloom.decoding.stepper import Stepper
from seqloom.views.catalogue import view
from seqloom.views.configs import SurprisalOptions
from seqloom.views.language import pieces

MAX_ROWS = 60  # tokens in the table of a terminal


@view
def surprisal(model: LanguageModel, text: str, options: SurprisalOptions) -> Sheet:
    """Show what each token of a text costs, its rank among all tokens, and the likeliest alternatives."""
    rows = token_rows(model, text, options.top)
    bits = sum(row["bits"] for row in rows)
    summary = [f"{len(rows):,} tokens cost {bits:,.1f} bits, {bits / max(len(rows), 1):.2f} each."]
    return Sheet(
        f"{model.label()}: surprisal",
        lambda page: {"Text": passage_chart({model.label(): pieces(model, text)})},
        {"rows": rows, "bits": bits},
        summary,
        lines=_lines(rows),
    )


def token_rows(model: LanguageModel, text: str, top: int) -> list[dict[str, Any]]:
    """Return for each token its bits, its rank, and the `top` likeliest tokens with their bits."""
    ids, lengths = model.encode(text)
    stepper: Stepper = model.stepper()
    rows: list[dict[str, Any]] = []
    position = 0
    state: Any = None
    for length in lengths.tolist():
        state, log_probs = stepper.start(1)
        for token in ids[position : position + length].tolist():
            rows.append(_row(model, log_probs[0], token, top))
            state, log_probs = stepper.step(state, np.array([token]))
        position += length
    return rows


def _row(model: LanguageModel, log_probs: np.ndarray, token: int, top: int) -> dict[str, Any]:
    spelled = model.tokenizer.token
    best = np.argsort(-log_probs, kind="stable")[:top].tolist()
    return {
        "token": spelled(token),
        "bits": float(-log_probs[token] / math.log(2)) + 0.0,
        "rank": int((log_probs > log_probs[token]).sum()) + 1,
        "alternatives": [[spelled(i), float(np.exp(log_probs[i]))] for i in best],
    }


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'token':<16}{'bits':>8}{'rank':>8}  expected"]
    for row in rows[:MAX_ROWS]:
        expected = "  ".join(f"{token!r} {prob:.1%}" for token, prob in row["alternatives"])
        lines.append(f"{row['token']!r:<16}{row['bits']:>8.2f}{row['rank']:>8,}  {expected}")
    return lines
