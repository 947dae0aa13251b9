"""Exposure bias: what it costs a translator to continue its own text instead of the true one.

In training and in scores each token of a target y is predicted after the true tokens before it (teacher forcing). When it
translates, the model reads its own tokens. With z, its greedy translation of the source x, and the positions t that both y
and z have, end symbols included,

    teacher forcing  =  mean of -log p(y_t | x, y_1 .. y_t-1)      in nats per token
    free running     =  mean of -log p(y_t | x, z_1 .. z_t-1)      over the same tokens
    gap              =  free running - teacher forcing
    excess           =  free running / teacher forcing - 1

The excess is that of Arora et al. 2022 ("Why Exposure Bias Matters") with the references in the place of their
oracle. Up to the first token that is not the reference's both histories are equal, and so are the costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.page import Sheet
from seqloom.charts.translation import band_chart
from seqloom.data.translation import Parallel
from seqloom.decoding.beam import forced_log_probs
from seqloom.metrics.bootstrap import interval_of_sums

if TYPE_CHECKING:
    from seqloom.contracts import Translator

HEADING = "Nats per token by position in the target"


def exposure_bias(
    model: Translator, pairs: Any, targets: Any = None, *, samples: int = 1000
) -> Sheet:
    """Nats per token of references after the true tokens and after the model's own, their gap and excess, as a whole and by
    position. `pairs` as in `evaluate`; `samples`: of the bootstrap over pairs, 0 for no interval of the gap."""
    data = Parallel.of(pairs, targets)
    model.check_writes("exposure bias is measured")
    costs = model.of_pairs(
        lambda sources, texts: _costs(model, sources, texts), data.sources, data.targets
    )
    sums = np.array([[*each.sum(axis=1), each.shape[1]] for each in costs], np.float64)  # (n, 3)
    forced, free, tokens = sums.sum(axis=0).tolist()
    found: dict[str, Any] = {
        "teacher_forcing": forced / tokens,
        "free_running": free / tokens,
        "gap": (free - forced) / tokens,
        "excess": free / forced - 1 if forced else None,
    }
    if samples:
        found["gap_interval"] = interval_of_sums(
            sums, lambda s: (s[..., 1] - s[..., 0]) / s[..., 2], samples=samples
        )
    references = sum(len(ids) for ids in model.target_ids(data.targets))
    rows = by_position(costs)
    found |= {
        "pairs": len(data),
        "tokens": int(tokens),
        "reference_tokens": references,
        "positions": rows,
    }
    return Sheet(
        f"{model.label()}: exposure bias",
        lambda page: {
            HEADING: band_chart(
                {
                    "teacher forcing": [{**row, "nats": row["teacher_forcing"]} for row in rows],
                    "free running": [{**row, "nats": row["free_running"]} for row in rows],
                },
                "nats",
                "nats per token",
                ".2f",
                by="position",
                many="tokens",
            )
        },
        found,
        _summary(found),
    )


def by_position(costs: list[np.ndarray]) -> list[dict[str, Any]]:
    """Both costs in bands of positions that are twice as wide each time; `costs` (2, T) of each pair.

    >>> [row["position"] for row in by_position([np.zeros((2, 9))])]
    ['1', '2-3', '4-7', '8-9']
    """
    every = np.concatenate(costs, axis=1)
    positions = np.concatenate([np.arange(1, each.shape[1] + 1) for each in costs])
    rows, last = [], int(positions.max())
    for low in (1 << k for k in range(last.bit_length())):
        high = min(2 * low - 1, last)
        inside = (positions >= low) & (positions <= high)
        forced, free = every[:, inside].mean(axis=1, dtype=np.float64).tolist()
        rows.append(
            {
                "position": str(low) if low == high else f"{low}-{high}",
                "tokens": int(inside.sum()),
                "teacher_forcing": forced,
                "free_running": free,
            }
        )
    return rows


def _costs(model: Translator, sources: list[Any], targets: list[str]) -> list[np.ndarray]:
    """Nats of the tokens of each target after the true ones and after the model's own: (2, T)."""
    stepper, ids = model.decoder(sources), model.target_ids(targets)
    free = forced_log_probs(stepper, ids, greedy=True)
    forced = forced_log_probs(stepper, ids)
    return [-np.stack([true[: len(own)], own]) for true, own in zip(forced, free)]


def _summary(found: dict[str, Any]) -> list[str]:
    excess = "" if found["excess"] is None else f", {found['excess']:+.1%}"
    low, high = found.get("gap_interval", (np.nan, np.nan))
    interval = "" if np.isnan(low) else f" (95 %: {low:.4f} to {high:.4f})"
    return [
        f"{found['teacher_forcing']:.4f} nats per token after the true tokens (teacher forcing), "
        f"{found['free_running']:.4f} after its own (free running)",
        f"exposure-bias gap {found['gap']:.4f}{interval}{excess}",
        f"{found['tokens']:,} of {found['reference_tokens']:,} target tokens in {found['pairs']:,} pairs; the others are "
        "beyond the end of the model's translations",
    ]
