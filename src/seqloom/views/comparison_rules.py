"""The rules of `seqloom advise` for comparisons: what `comparison.json` says, read for one thing each."""

from __future__ import annotations

import math
from typing import Any

from seqloom.views.findings import Finding, percent, short

UNREAD = 0.9  # passes: less, and some of the data was never read
CLEAR = 0.05  # p-value of a clear difference
OVERLAP = 0.01  # of the test part
GAIN = 0.02  # from half of the data to all of it


def _rung(facts: dict[str, Any], name: str) -> dict[str, Any]:
    return next(rung for rung in facts["rungs"] if rung["name"] == name)


def _value(facts: dict[str, Any], rung: dict[str, Any]) -> str:
    return f"{float(rung[facts['measure']]):.4g} {facts['measure'].replace('_', ' ')}"


def smallest(facts: dict[str, Any]) -> Finding | None:
    answer = facts.get("answer")
    if not answer or answer["smallest"] == answer["best"]:
        return None
    best, small = _rung(facts, answer["best"]), _rung(facts, answer["smallest"])
    return Finding(
        f"the smallest model within the interval of the best is {small['name']}: {_value(facts, small)} in "
        f"{small['disk']:,} bytes; the best, {best['name']}, has {_value(facts, best)} in {best['disk']:,}",
        {
            "smallest": small["name"],
            "best": best["name"],
            "disk": [small["disk"], best["disk"]],
            facts["measure"]: [small[facts["measure"]], best[facts["measure"]]],
            "interval": best["interval"],
        },
        f"{small['name']}, where size counts",
    )


def level(facts: dict[str, Any]) -> Finding | None:
    near = [
        rung
        for rung in facts["rungs"]
        if (paired := rung.get("versus_best"))
        and not rung.get("pretrained")
        and math.isfinite(float(paired["p_value"]))
        and float(paired["p_value"]) >= CLEAR
    ]
    if not near or not facts.get("best"):
        return None
    names = ", ".join(
        f"{rung['name']} (p {float(rung['versus_best']['p_value']):.2f})" for rung in near
    )
    return Finding(
        f"the difference to the best, {facts['best']}, is not clear for {names}",
        {"best": facts["best"], "p_values": {r["name"]: r["versus_best"]["p_value"] for r in near}},
        "more test data, or several seeds, before choosing between them by quality",
    )


def memorised(facts: dict[str, Any]) -> Finding | None:
    found = [rung for rung in facts["rungs"] if rung.get("stopped_learning") is not None]
    if not found:
        return None
    names = ", ".join(
        f"{r['name']} after step {r['stopped_learning']:,} of {r['steps']:,}" for r in found
    )
    return Finding(
        f"networks only memorised at the end: {names}",
        {r["name"]: [r["stopped_learning"], r["steps"]] for r in found},
        "fewer minutes; the weights are those of that step anyway",
    )


def too_short(facts: dict[str, Any]) -> Finding | None:
    found = [rung for rung in facts["rungs"] if rung.get("passes") and rung["passes"] < UNREAD]
    if not found:
        return None
    rung = min(found, key=lambda rung: rung["passes"])
    minutes = rung["train_seconds"] / rung["passes"] / 60 if rung["train_seconds"] else None
    so = (
        f"minutes={short(minutes)}, which is one pass of {rung['name']}"
        if minutes
        else "more minutes"
    )
    return Finding(
        "networks read less than the data once: "
        + ", ".join(f"{r['name']} {short(r['passes'])} passes" for r in found),
        {r["name"]: r["passes"] for r in found},
        so,
    )


def more_data(facts: dict[str, Any]) -> Finding | None:
    points = (facts.get("curve") or {}).get(facts.get("best"))
    if not points or len(points) < 2:
        return None
    measure = facts["measure"]
    size = next(key for key in points[0] if key not in (measure, "seconds"))
    before, last = points[-2], points[-1]
    change = abs(last[measure] - before[measure]) / max(abs(before[measure]), 1e-12)
    # The curve is that of the best, so what it gained is in the direction of the other rungs' differences.
    better = _is_lower(facts) == (last[measure] < before[measure])
    if not better or change < GAIN:
        return None
    return Finding(
        f"{facts['best']} gained {percent(change)} from {before[size]:,} to {last[size]:,} {size}, from "
        f"{before[measure]:.4g} to {last[measure]:.4g}: its curve has not levelled off",
        {"from": before[measure], "to": last[measure], size: [before[size], last[size]]},
        "more data, before more options",
    )


def _is_lower(facts: dict[str, Any]) -> bool:
    """Tell whether less of the measure is better: the best rung has the least."""
    values = [
        float(rung[facts["measure"]]) for rung in facts["rungs"] if not rung.get("pretrained")
    ]
    return float(_rung(facts, facts["best"])[facts["measure"]]) <= min(values)


def overlap(facts: dict[str, Any]) -> Finding | None:
    if facts.get("overlap", 0.0) <= OVERLAP:
        return None
    return Finding(
        f"{percent(facts['overlap'])} of the test part is also in the training part: results are too good",
        {"overlap": facts["overlap"]},
        "a test part from elsewhere: test=FILE",
    )
