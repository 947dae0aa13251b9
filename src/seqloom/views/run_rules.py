"""The rules of `seqloom advise` for runs: each looks at a log for one thing, and says it with its figures.

Every threshold is a share, so that it means the same for any unit and length of run.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median
from typing import Any

from seqloom.views.findings import Finding, percent, short, to_try
from seqloom.views.run_logs import RunLog

MIN_EVALUATIONS = 3  # after the best that make a trend, not chance
MIN_REPORTS = 10
RISE = 0.01  # of the best result: less is no change
QUIET_END = 0.4  # of the steps
LATE, GAIN = 0.25, 0.02  # in the last quarter of the steps, a gain that more steps would continue
UNREAD = 0.1  # of the data
GAP = 0.3  # of the training loss
SLOW = 0.03  # of the first loss
OFTEN = 0.25  # of the steps
SPIKE, EXPLODED = 30, 10  # times the usual gradient
BEFORE = 20  # reports: a gradient is compared with their median
JUMP, JUMPS = 0.3, 0.05  # of the first loss, in such a share of the reports
VANISHED = 0.01  # of the gradient one step back, or in the highest layer


# ---- help


def _costs(log: RunLog) -> list[tuple[int, float]]:
    """Return steps and results on held-out data, less being better."""
    sign = 1.0 if log.lower else -1.0
    return [
        (int(line["step"]), sign * line["valid"])
        for line in log.evaluations
        if math.isfinite(line["valid"])
    ]


def _shown(log: RunLog, cost: float) -> str:
    name = log.criterion
    value = abs(cost)
    return f"{value:.4g}" if name is None else f"{value:.4g} {name}"


def _after_best(log: RunLog) -> tuple[int, float, list[tuple[int, float]]] | None:
    """Return the step and cost of the best evaluation, and the later ones."""
    costs = _costs(log)
    if not costs:
        return None
    step, best = min(costs, key=lambda pair: pair[1])
    return step, best, [pair for pair in costs if pair[0] > step]


def _noise(costs: list[tuple[int, float]]) -> float:
    """Return what may be chance: twice the usual change from one evaluation to the next."""
    return 2 * median([abs(b - a) for (_, a), (_, b) in pairwise(costs)] or [0.0])


def _passes(log: RunLog, step: int) -> float | None:
    return None if log.epochs is None else log.epochs * step / max(log.steps, 1)


def _losses(log: RunLog) -> list[tuple[int, float]]:
    return [
        (int(line["step"]), line["loss"]) for line in log.reports if math.isfinite(line["loss"])
    ]


def _usual_norm(log: RunLog) -> float:
    return median([line["norm"] for line in log.reports if "norm" in line] or [0.0])


# ---- length of training


def diverged(log: RunLog) -> Finding | None:
    last = log.lines[-1]
    if "diverged" not in last:
        return None
    lr = log.lr
    norms: list[float] = [
        line.get("largest_norm") or line.get("norm") or 0.0 for line in log.reports
    ]
    largest = max(norms, default=0.0)
    figures = {"step": last["step"], "lr": lr, "largest_norm": largest}
    says = f"training broke off at step {last['step']:,}: {last['diverged']} (lr {lr:.3g})"
    if log.train.get("clip") == "none" and largest > EXPLODED * _usual_norm(log) > 0:
        return to_try(says, figures, "clip gradients: {}", clip="norm")
    return to_try(says, figures, "a tenth of the learning rate: {}", lr=short(lr / 10))


def overfitted(log: RunLog) -> Finding | None:
    found, losses = _after_best(log), _losses(log)
    if found is None or len(found[2]) < MIN_EVALUATIONS or not losses:
        return None
    step, best, later = found
    last = median(cost for _, cost in later[-MIN_EVALUATIONS:])
    before = [loss for at, loss in losses if at <= step]
    if (
        not before
        or last - best < max(RISE * abs(best), _noise(later))
        or losses[-1][1] >= before[-1]
    ):
        return None
    passes = _passes(log, step)
    figures = {
        "best_step": step,
        "best": abs(best),
        "last": abs(last),
        "loss_then": before[-1],
        "loss_last": losses[-1][1],
        "passes": passes,
    }
    direction = "risen" if log.lower else "fallen"
    says = (
        f"the held-out result has {direction} since step {step:,}, from {_shown(log, best)} to "
        f"{_shown(log, last)}, while the training loss fell from {before[-1]:.4g} to {losses[-1][1]:.4g}"
    )
    if not passes:
        return to_try(says, figures, "stop there: {}", patience=MIN_EVALUATIONS)
    enough = f"{says}: {short(passes)} passes would have been enough"
    if not log.config.get("dropout"):
        return to_try(
            enough, figures, "that length ({}), or more dropout (dropout=0.2) and the same length",
            epochs=short(passes),
        )  # fmt: skip
    return to_try(
        enough, figures, "that length: {}; what else would help is more data", epochs=short(passes)
    )


def gained_nothing(log: RunLog) -> Finding | None:
    found = _after_best(log)
    if found is None or len(found[2]) < MIN_EVALUATIONS or not log.finished:
        return None
    step, best, _ = found
    rest = log.steps - step
    if rest < QUIET_END * log.steps or overfitted(log) is not None:
        return None
    return to_try(
        f"the best result, {_shown(log, best)}, was that of step {step:,} of {log.steps:,}; the "
        f"{percent(rest / log.steps)} of the steps after it gained nothing",
        {"best_step": step, "steps": log.steps, "share": rest / log.steps},
        "stop by itself: {}",
        patience=MIN_EVALUATIONS,
    )


def still_learning(log: RunLog) -> Finding | None:
    costs = _costs(log)
    if len(costs) <= MIN_EVALUATIONS or not log.finished:
        return None
    earlier = [cost for step, cost in costs if step <= (1 - LATE) * log.steps]
    if not earlier or min(costs, key=lambda pair: pair[1]) != costs[-1]:
        return None
    gain = (earlier[-1] - costs[-1][1]) / max(abs(earlier[-1]), 1e-12)
    if gain < GAIN:
        return None
    name = next((n for n in ("minutes", "epochs") if log.train.get(n)), "steps")
    length = log.train.get(name) or log.steps
    return to_try(
        f"the held-out result was best at the end, and gained {percent(gain)} in the last quarter of the "
        f"steps, from {_shown(log, earlier[-1])} to {_shown(log, costs[-1][1])}: it was still learning",
        {"gain": gain, "steps": log.steps, "before": abs(earlier[-1]), "last": abs(costs[-1][1])},
        "twice as long: {}",
        **{name: short(2 * length)},
    )


def little_read(log: RunLog) -> Finding | None:
    if not log.finished or not log.epochs or log.epochs > 1 - UNREAD:
        return None
    seconds = log.lines[-1].get("seconds")
    time = f"; one pass takes about {short(seconds / log.epochs / 60)} minutes" if seconds else ""
    return to_try(
        f"{short(log.epochs)} passes: {percent(1 - log.epochs)} of the data was never read{time}",
        {"passes": log.epochs, "seconds": seconds},
        "one whole pass: {}",
        epochs=1,
    )


def gap(log: RunLog) -> Finding | None:
    best = log.best()
    if best is None or log.criterion is not None:
        return None
    before = [loss for step, loss in _losses(log) if step <= best["step"]]
    if not before or before[-1] <= 0 or best["valid"] < (1 + GAP) * before[-1]:
        return None
    rate = log.config.get("dropout") or 0.0
    return to_try(
        f"at its best the held-out loss, {best['valid']:.4g}, is {percent(best['valid'] / before[-1] - 1)} "
        f"above the training loss, {before[-1]:.4g}: much of what it learns holds for the training data only",
        {"valid": best["valid"], "loss": before[-1], "dropout": rate},
        "more dropout: {}; or fewer weights, or more data",
        dropout=min(short(rate + 0.2), 0.5),
    )


def slow(log: RunLog) -> Finding | None:
    losses = _losses(log)
    if len(losses) < MIN_REPORTS or "origin" in log.record or losses[0][1] <= 0:
        return None
    lowest = min(loss for _, loss in losses)
    fall = 1 - lowest / losses[0][1]
    if fall >= SLOW:
        return None
    return to_try(
        f"in {log.steps:,} steps the training loss fell by {percent(max(fall, 0.0))}, from "
        f"{losses[0][1]:.4g} to {lowest:.4g} (lr {log.lr:.3g})",
        {"fall": fall, "first": losses[0][1], "lowest": lowest, "lr": log.lr},
        "ten times the learning rate: {}",
        lr=short(10 * log.lr),
    )


# ---- gradients


def clipped(log: RunLog) -> Finding | None:
    share = log.clipped
    if share is None or share < OFTEN:
        return None
    limit, usual = log.train.get("clip_at") or 1.0, _usual_norm(log)
    where = log.record.get("largest_in") or []
    largest = f", where it was largest in {where[0]}" if where else ""
    figures = {"clipped": share, "limit": limit, "usual_norm": usual, "largest_in": where}
    says = f"{percent(share)} of the steps were clipped{largest}"
    if log.train.get("clip", "norm") == "norm" and usual > limit:
        return to_try(
            f"{says}; the usual gradient, {short(usual)}, is above the limit of {short(limit)}, so that "
            "ordinary steps are cut",
            figures,
            "a limit for exceptions only: {}",
            clip_at=short(3 * usual),
        )
    return to_try(says, figures, "a third of the learning rate: {}", lr=short(log.lr / 3))


def spikes(log: RunLog) -> Finding | None:
    lines = [line for line in log.reports if "largest_norm" in line]
    norms = [line["norm"] for line in lines]
    times = []
    for number, line in enumerate(lines):
        # what was usual until then: gradients become smaller where everything is learnt
        before = norms[max(number - BEFORE, 0) : number]
        usual = median(before) if len(before) >= MIN_EVALUATIONS else 0.0
        if usual > 0:
            times.append((line["largest_norm"] / usual, usual, line))
    if not times or max(times, key=lambda each: each[0])[0] < SPIKE:
        return None
    share, usual, line = max(times, key=lambda each: each[0])
    largest, step = line["largest_norm"], line["step"]
    if largest < max(norms[: max(len(norms) // 10, 1)]):
        return None  # nothing beside what it began with
    figures = {"largest_norm": largest, "usual_norm": usual, "step": step, "times": share}
    says = (
        f"the gradient reached {short(largest)} up to step {step:,}, {short(share)} times what was usual "
        f"until then, {short(usual)}"
    )
    if log.train.get("clip") == "none":
        return to_try(says, figures, "clip it: {}", clip="norm", clip_at=short(3 * usual))
    return to_try(says, figures, "warm up for longer: {}", warmup=0.1)


def jumps(log: RunLog) -> Finding | None:
    losses = _losses(log)
    if len(losses) < MIN_REPORTS:
        return None
    rises = [b - a for (_, a), (_, b) in pairwise(losses)]
    high = [rise for rise in rises if rise > JUMP * abs(losses[0][1])]
    if len(high) < max(2, JUMPS * len(rises)):
        return None
    return to_try(
        f"the training loss jumped up {len(high)} times, by {short(max(high))} at most; it began at "
        f"{losses[0][1]:.4g} (lr {log.lr:.3g})",
        {"jumps": len(high), "largest": max(high), "lr": log.lr},
        "a third of the learning rate: {}",
        lr=short(log.lr / 3),
    )


def by_layer(log: RunLog) -> Finding | None:
    stacks: dict[str, dict[int, float]] = {}
    for layer, points in log.layers().items():
        stack, _, number = layer.rpartition(".")
        if number.isdecimal():
            later = [value for _, value in points[len(points) // 2 :]]
            stacks.setdefault(stack, {})[int(number)] = median(later)
    for stack, norms in stacks.items():
        low, high = min(norms), max(norms)
        share = norms[low] / norms[high] if norms[high] else 1.0
        if low == high or not 0 < share < VANISHED:
            continue
        figures = {"lowest": norms[low], "highest": norms[high], "share": share}
        says = f"the gradient in {stack}.{low} is {percent(share)} of that in {stack}.{high}"
        if log.config.get("residual") is False:
            return Finding(says, figures, "connect the layers: residual=True", {"residual": True})
        if log.config.get("norm") == "post":
            return to_try(says, figures, "normalise before each part: {}", norm="pre")
        return to_try(says, figures, "fewer layers: {}", n_layers=max(high // 2, 1))
    return None


def no_gradient(log: RunLog) -> Finding | None:
    dead = [
        layer
        for layer, points in log.layers().items()
        if len(points) >= MIN_EVALUATIONS
        and not any(value for _, value in points[-len(points) // 2 :])
    ]
    if not dead:
        return None
    return to_try(
        f"no gradient comes to {', '.join(dead[:3])}: it stopped learning",
        {"layers": dead},
        "a third of the learning rate, so that units do not die: {}",
        lr=short(log.lr / 3),
    )


# ---- what is missing


def no_held_out(log: RunLog) -> Finding | None:
    if log.evaluations or len(log.reports) < 2 or "log_likelihood" in log.reports[-1]:
        return None
    if not log.finished and log.steps < (log.planned or 0) // 10:
        return None  # the first evaluation is still to come
    return Finding(
        "nothing was held out, so nobody sees when it begins to memorise",
        {"evaluations": 0},
        "name held-out data: valid=FILE",
    )


def interrupted(log: RunLog) -> Finding | None:
    if log.finished or log.process is not None or "diverged" in log.lines[-1]:
        return None
    return Finding(
        f"the run was interrupted at step {log.steps:,}",
        {"step": log.steps, "planned": log.planned},
        "the same command again, which continues from its last checkpoint",
    )


def not_converged(log: RunLog) -> Finding | None:
    steps: list[Any] = [line["log_likelihood"] for line in log.reports if "log_likelihood" in line]
    if log.record.get("converged") is not False or len(steps) < MIN_EVALUATIONS:
        return None
    gain = (steps[-1] - steps[-2]) / abs(steps[-2])
    return to_try(
        f"Baum-Welch was stopped after {len(steps)} iterations; the last one still gained {percent(gain)} of "
        "the log-likelihood",
        {"iterations": len(steps), "gain": gain},
        "twice as many: {}",
        iterations=2 * len(steps),
    )
