"""Which member of a mixture paid for each token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from seqloom.charts.belief import belief_chart
from seqloom.charts.heat import short_name
from seqloom.charts.page import Charts, Sheet
from seqloom.charts.shares import coloured_tokens
from seqloom.config import Config
from seqloom.models.language.mixture import Mixture
from seqloom.views.catalogue import view
from seqloom.views.disagreement import two_names
from seqloom.views.hidden import visible
from seqloom.views.recurrence import joiner_of
from seqloom.views.token_costs import MAX_ROWS, window_of

COLUMNS = 40  # tokens of the picture


@view
def shares(model: Mixture, text: str, options: Config) -> Sheet:
    """Show for each token how much of its probability each member of a mixture gave: the weight after the
    token was seen, which sums to one over the members.
    """
    ids, lengths, said = window_of(model, text)
    log_probs, posteriors = model.shares(ids, lengths)
    names = two_names([member.label() for member in model.members])
    tokens = [model.tokenizer.token(int(i)) for i in ids]
    bits = -log_probs / math.log(2) + 0.0
    rows = [
        {
            "number": i + 1,
            "token": token,
            "bits": float(bits[i]),
            **{f"share of {name}": float(posteriors[i, m]) for m, name in enumerate(names)},
        }
        for i, token in enumerate(tokens)
    ]
    mean = posteriors.mean(0)
    said_of = [
        f"{name} has the weight {weight:.3f} and paid {share:.1%}"
        for name, weight, share in zip(names, model.weights.tolist(), mean.tolist())
    ]

    def draw(page: bool) -> Charts:
        shown = [f"{i + 1} {visible(token)}" for i, token in enumerate(tokens[:COLUMNS])]
        charts = {
            "Share of each member, token by token": belief_chart(
                posteriors[:COLUMNS], shown, names, title="member"
            )
        }
        if len(names) == 2:
            lean = (posteriors[:, 0] - model.weights[0]).tolist()
            charts["Who paid more than its weight"] = coloured_tokens(
                [(visible(token), value) for token, value in zip(tokens, lean)],
                (names[0], names[1]),
                joiner=joiner_of(model),
                unit="share above its weight",
            )
        return charts

    summary = ["; ".join(said_of) + f" of the {len(ids):,} tokens.", *said]
    if impossible := int(np.isinf(log_probs).sum()):
        summary.append(f"{impossible:,} tokens have the probability zero; there the weights stand.")
    if len(tokens) > COLUMNS:
        summary.append(f"The picture has the first {COLUMNS} tokens.")
    return Sheet(
        f"{model.label()}: shares",
        draw,
        {"members": names, "weights": model.weights, "shares": posteriors, "rows": rows},
        summary,
        lines=_lines(names, rows, posteriors),
    )


def _lines(names: list[str], rows: list[dict[str, Any]], posteriors: np.ndarray) -> list[str]:
    names = [short_name(name) for name in names]
    wide = max(8, *(len(name) + 2 for name in names))
    lines = [f"{'':>6}{'token':<16}{'bits':>8}" + "".join(f"{name:>{wide}}" for name in names)]
    for row, posterior in zip(rows[:MAX_ROWS], posteriors.tolist()):
        given = "".join(f"{share:>{wide}.1%}" for share in posterior)
        lines.append(f"{row['number']:>5} {row['token']!r:<16}{row['bits']:>8.2f}{given}")
    if len(rows) > MAX_ROWS:
        lines.append(f"      ... and {len(rows) - MAX_ROWS:,} more; to_frame() and JSON have all")
    return lines
