"""What the tokens of a text cost a language model, and what it expected instead of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from seqloom.charts.costs import along, token_bars
from seqloom.charts.page import Charts, Sheet
from seqloom.charts.passage import passage_chart
from seqloom.contracts import LanguageModel
from seqloom.decoding.sampling import top_indices
from seqloom.errors import DataError
from seqloom.models.language.distributions import distributions
from seqloom.progress import task
from seqloom.views.catalogue import view
from seqloom.views.configs import SurprisalOptions
from seqloom.views.hidden import visible
from seqloom.views.language import pieces_of
from seqloom.views.reading import remarks

WINDOW = 1 << 12  # tokens of a text that are looked at
MAX_ROWS = 60  # tokens in the table of a terminal
MAX_DRAWN, MAX_BARS = 1000, 30  # tokens of a passage, and of bars


@view
def surprisal(model: LanguageModel, text: str, options: SurprisalOptions) -> Sheet:
    """Show what each token of a text costs, its rank among all tokens, and the likeliest alternatives."""
    ids, lengths, said = window_of(model, text)
    rows = token_rows(model, ids, lengths, options.top)
    bits = np.array([row["bits"] for row in rows])

    def draw(page: bool) -> Charts:
        unit = "byte" if model.tokenizer.lossless else "token"
        shown = pieces_of(model, ids[:MAX_DRAWN], bits[:MAX_DRAWN])
        charts = {"Text": passage_chart({model.label(): shown}, unit=unit)}
        few = len(rows) <= MAX_BARS
        first = rows if few else sorted(rows, key=lambda row: -row["bits"])[:MAX_BARS]
        heading = "Token by token" if few else f"The {MAX_BARS} tokens that cost most"
        charts[heading] = token_bars([_bar(row) for row in first])
        if not few and np.isfinite(bits).any():
            charts["Cost along the text"] = along(bits, np.ones(len(bits)), unit="token")
        return charts

    summary = [_total(model, ids, bits), _ranks(rows), *said, *remarks(model)]
    if len(rows) > MAX_DRAWN:
        summary.append(f"Of the text, the first {MAX_DRAWN:,} tokens are drawn.")
    return Sheet(
        f"{model.label()}: surprisal",
        draw,
        {"rows": rows, "bits": float(bits.sum())},
        summary,
        lines=_lines(rows),
    )


def window_of(
    model: LanguageModel, text: str, most: int = WINDOW
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the ids of a text, the lengths of its sequences, and sentences that say what was left out:
    of a long text only the beginning is looked at.
    """
    ids, lengths = model.encode(text)
    if model.carry:
        lengths = np.array([len(ids)])
    if not text.strip():
        raise DataError("the text is empty; give one")
    said = []
    if len(ids) > most:
        said = [f"Of {len(ids):,} tokens, the first {most:,} are looked at."]
        ends = np.minimum(np.cumsum(lengths), most)
        ids, lengths = ids[:most], np.diff(ends, prepend=0)
        lengths = lengths[lengths > 0]
    tokenizer = model.tokenizer
    if tokenizer.has_oov and (unknown := int((ids == tokenizer.unk_id).sum())):
        said.append(f"{unknown:,} of {len(ids):,} tokens are words that the model does not know.")
    return ids, lengths, said


def token_rows(
    model: LanguageModel, ids: np.ndarray, lengths: np.ndarray, top: int
) -> list[dict[str, Any]]:
    """Return for each token its bits, its rank, and the `top` likeliest tokens with their probabilities."""
    spelled = model.tokenizer.token
    rows: list[dict[str, Any]] = [{} for _ in ids]
    with task("reading", len(ids), "tokens") as bar:
        for positions, log_probs in distributions(model, ids, lengths):
            tokens = ids[positions]
            own = log_probs[np.arange(len(tokens)), tokens]
            ranks = (log_probs > own[:, None]).sum(1) + 1
            best = top_indices(log_probs, min(max(top, 1), log_probs.shape[1]))[:, :top]
            for i, position in enumerate(positions.tolist()):
                rows[position] = {
                    "number": position + 1,
                    "token": spelled(int(tokens[i])),
                    "bits": float(-own[i] / math.log(2)) + 0.0,
                    "rank": int(ranks[i]),
                    "alternatives": [
                        [spelled(j), float(np.exp(log_probs[i, j]))] for j in best[i].tolist()
                    ],
                }
            bar.advance(len(positions))
    return rows


def _total(model: LanguageModel, ids: np.ndarray, bits: np.ndarray) -> str:
    total = float(bits.sum())
    if not math.isfinite(total):
        impossible = int(np.isinf(bits).sum())
        return f"{impossible:,} of {len(ids):,} tokens have the probability zero, so the text cannot occur."
    line = f"{len(ids):,} tokens cost {total:,.1f} bits, {total / len(ids):.2f} each"
    if model.tokenizer.lossless:
        size = sum(piece.weight for piece in pieces_of(model, ids, bits))
        line += f", {total / max(size, 1):.2f} for each byte"
    return f"{line}."


def _ranks(rows: list[dict[str, Any]]) -> str:
    ranks = np.array([row["rank"] for row in rows])
    return (
        f"{(ranks == 1).mean():.0%} of them were what the model expected most, {(ranks <= 10).mean():.0%} "
        f"among the ten it expected most; the median rank is {np.median(ranks):,.0f}."
    )


def _expected(row: dict[str, Any]) -> str:
    return ", ".join(f"{visible(token)} {prob:.0%}" for token, prob in row["alternatives"])


def _bar(row: dict[str, Any]) -> tuple[str, float, str]:
    expected = f"; expected {_expected(row)}" if row["alternatives"] and row["rank"] > 1 else ""
    return (
        f"{row['number']} {visible(row['token'])}",
        row["bits"],
        f"{row['bits']:.1f}, rank {row['rank']:,}{expected}",
    )


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'':>6}{'token':<16}{'bits':>8}{'rank':>8}  expected"]
    for row in rows[:MAX_ROWS]:
        expected = "  ".join(f"{token!r} {prob:.1%}" for token, prob in row["alternatives"])
        lines.append(
            f"{row['number']:>5} {row['token']!r:<16}{row['bits']:>8.2f}{row['rank']:>8,}  {expected}"
        )
    if len(rows) > MAX_ROWS:
        lines.append(f"      ... and {len(rows) - MAX_ROWS:,} more; to_frame() and JSON have all")
    return lines
