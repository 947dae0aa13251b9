"""The rules of `seqloom advise` for recurrent layers: how far gradients reach, and what gates do."""

from __future__ import annotations

from collections.abc import Sequence

from seqloom.views.findings import Finding, percent, short, to_try
from seqloom.views.run_logs import RunLog

VANISHED = 0.01  # of the gradient one step back
ALIVE = 0.25  # of it, where back-propagation ends
GROWN = 10
NEAR_END, HALF = 0.9, 0.5  # of the values of a gate
_RECURRENT = ("rnn", "lstm", "gru")


def _is_plain(log: RunLog) -> bool:
    """Tell whether its recurrence has no gates."""
    return "rnn" in (log.model, log.config.get("cell")) or log.config.get("encoder") in (
        "rnn",
        "birnn",
    )


def _first_below(points: Sequence[tuple[float, float]], share: float) -> tuple[int, float] | None:
    return next(((int(d), value) for d, value in points if value < share), None)


def short_reach(log: RunLog) -> Finding | None:
    if not _is_plain(log):
        return None
    for stack, points in log.reach().items():
        if (found := _first_below(points, VANISHED)) is not None:
            distance, share = found
            return Finding(
                f"the gradient at distance {distance} is {percent(share)} of that at distance 1 in {stack}: "
                "what is further back is hardly learnt",
                {"distance": distance, "share": share, "by_distance": dict(points)},
                "a network with gates, measured on this data: " + _lstm_instead(log),
            )
    return None


def _lstm_instead(log: RunLog) -> str:
    if log.model == "rnn":
        return "seqloom ab DATA --a rnn --b lstm --both steps=500 --seeds 1,2,3"
    name = "encoder" if "encoder" in log.config else "cell"
    both = "bi" if str(log.config.get(name)).startswith("bi") else ""
    model, plain, gated = log.model or "MODEL", f"{name}={both}rnn", f"{name}={both}lstm"
    return "seqloom ab DATA --model {} --a {} --b {} --seeds 1,2,3".format(model, plain, gated)  # noqa: UP032


def growing_reach(log: RunLog) -> Finding | None:
    for stack, points in log.reach().items():
        distance, share = max(points, key=lambda point: point[1])
        if share > GROWN:
            return to_try(
                f"the gradient at distance {int(distance)} is {short(share)} times that at distance 1 in "
                f"{stack}: it grows on its way back",
                {"distance": distance, "times": share, "by_distance": dict(points)},
                "a third of the learning rate: {}",
                lr=short(log.lr / 3),
            )
    return None


def cut_off(log: RunLog) -> Finding | None:
    window = log.train.get("truncation")
    if log.model not in _RECURRENT or not window:
        return None
    for stack, points in log.reach().items():
        inside = [(int(d), share) for d, share in points if d <= window]
        if len(inside) < 2 or points[-1][0] < window:
            continue
        distance, share = inside[-1]
        if share >= ALIVE:
            return to_try(
                f"the gradient at distance {distance} is still {percent(share)} of that at distance 1 in "
                f"{stack}, and back-propagation is cut off after {window} steps",
                {"distance": distance, "share": share, "truncation": window},
                "twice the window: {}",
                truncation=2 * window,
            )
    return None


def saturated(log: RunLog) -> Finding | None:
    bars = log.gates()
    if not bars:
        return None
    name, bar = max(bars.items(), key=lambda item: item[1].low + item[1].high)
    share = bar.low + bar.high
    if share < NEAR_END:
        return None
    return to_try(
        f"{percent(share)} of the values of {name} lie in the outermost tenth of their range on either side, "
        "where hardly any gradient passes",
        {"gate": name, "closed_or_at_an_end": bar.low, "open": bar.high},
        "a third of the learning rate: {}",
        lr=short(log.lr / 3),
    )


def forgetful(log: RunLog) -> Finding | None:
    for name, bar in log.gates().items():
        if name.endswith("gates.f") and bar.low >= HALF:
            return to_try(
                f"{percent(bar.low)} of the forget gates of {name.removesuffix('.gates.f')} are closed: the "
                "cell keeps nothing",
                {"gate": name, "closed": bar.low, "open": bar.high},
                "begin with open ones: {}",
                forget_bias=2,
            )
    return None
