"""What a run, a saved model or a comparison shows to be wrong or worth trying: `seqloom advise`.

A rule is a function of facts that returns a finding or nothing, and a line in `RULES`. A finding has the
figures behind it and one thing to try. What to try is meant to be measured on one's own data, by fitting
again or by `seqloom ab`; no rule says that one model is better than another.

    >>> report = {"norm": 9.0, "largest_norm": 9.0, "clipped": 0.6}
    >>> log = [{"step": step, "loss": 3 - step / 50, **report} for step in (50, 100)]
    >>> [finding.rule for finding in advice_of(RunLog("a", log)).findings]
    ['clipped', 'no-held-out']
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from seqloom.errors import ModelError
from seqloom.frames import as_frame
from seqloom.views import comparison_rules as of_comparisons
from seqloom.views import recurrent_rules as of_recurrence
from seqloom.views import run_rules as of_runs
from seqloom.views.findings import Finding
from seqloom.views.run_logs import RunLog, read_run

WIDTH = 100  # columns of a terminal
REPORT = "comparison.json"  # of `seqloom compare -o DIR`


class Rule(NamedTuple):
    """One thing that may be said: what it looks for, and the function of facts that finds it."""

    looks_for: str
    find: Callable[[Any], Finding | None]


RUN_RULES = {
    "diverged": Rule("a step that could not be made", of_runs.diverged),
    "overfitted": Rule(
        "held-out results that get worse while training gets better", of_runs.overfitted
    ),
    "gained-nothing": Rule("a long end without any gain", of_runs.gained_nothing),
    "still-learning": Rule("an end while held-out results still improve", of_runs.still_learning),
    "little-read": Rule("data that was never read", of_runs.little_read),
    "gap": Rule("a training loss far below the held-out one", of_runs.gap),
    "slow": Rule("a training loss that hardly falls", of_runs.slow),
    "clipped": Rule("gradients that are often clipped", of_runs.clipped),
    "spikes": Rule("single gradients far above the usual one", of_runs.spikes),
    "jumps": Rule("a training loss that jumps up again and again", of_runs.jumps),
    "vanishing-by-layer": Rule(
        "gradients that vanish on the way to the lower layers", of_runs.by_layer
    ),
    "no-gradient": Rule("a layer that gets no gradient", of_runs.no_gradient),
    "short-reach": Rule(
        "a plain recurrent network whose gradients vanish", of_recurrence.short_reach
    ),
    "growing-reach": Rule("gradients that grow from step to step", of_recurrence.growing_reach),
    "cut-off": Rule("back-propagation that is cut off too early", of_recurrence.cut_off),
    "saturated": Rule("gates or states at the ends of their range", of_recurrence.saturated),
    "forgetful": Rule("forget gates that are mostly closed", of_recurrence.forgetful),
    "no-held-out": Rule("no results on held-out data", of_runs.no_held_out),
    "interrupted": Rule("a run that was interrupted", of_runs.interrupted),
    "not-converged": Rule("Baum-Welch that was stopped early", of_runs.not_converged),
}
COMPARISON_RULES = {
    "smallest": Rule("a smaller model that is as good as the best", of_comparisons.smallest),
    "level": Rule("models that cannot be told from the best", of_comparisons.level),
    "memorised": Rule("networks that only memorised at the end", of_comparisons.memorised),
    "too-short": Rule("networks that read little of the data", of_comparisons.too_short),
    "more-data": Rule("a learning curve that still improves", of_comparisons.more_data),
    "overlap": Rule("test data that is also in the training part", of_comparisons.overlap),
}
RULES = RUN_RULES | COMPARISON_RULES


@dataclass(frozen=True)
class Advice:
    """What was found, the most important first."""

    of: str  # what was looked at
    findings: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # what could not be looked at, and why

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "of": self.of,
            "findings": [finding._asdict() for finding in self.findings],
            "remarks": self.remarks,
        }

    def to_frame(self) -> Any:
        """Return a row for each finding: a frame of pandas or polars where one is installed."""
        return as_frame(
            {"rule": one.rule, "finding": one.says, "advice": one.advice} for one in self.findings
        )

    def __str__(self) -> str:
        head = f"{self.of}: {len(self.findings) or 'no'} finding{'s' * (len(self.findings) != 1)}"
        parts = [head, *map(_shown, self.findings)]
        return "\n".join([*parts, *(fill(remark, WIDTH) for remark in self.remarks)])

    __repr__ = __str__


def _shown(finding: Finding) -> str:
    says = fill(f"{finding.says}.", WIDTH, initial_indent="- ", subsequent_indent="  ")
    tries = fill(f"try: {finding.advice}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    return f"\n{says}\n{tries}"


def advise(run: Any) -> Advice:
    """Return findings about a run, a saved or fitted model, or the directory of a comparison, each with the
    figures behind it and one thing to try.
    """
    if isinstance(run, (str, Path)) and (Path(run) / REPORT).is_file():
        return _of_comparison(Path(run))
    try:
        return advice_of(read_run(run))
    except ModelError as error:
        if (remark := _without_log(run)) is None:
            raise error from None
        return remark


def advice_of(log: RunLog) -> Advice:
    """Return the findings about the log of a run."""
    remarks = []
    if log.reports and not log.layers() and log.model != "hmm":
        remarks.append(
            "Its log has no gradients by layer, clipped steps and gates, which newer versions log; "
            "rules that need them were left out."
        )
    if log.process is not None:
        remarks.append(f"{log.name} is {log.state()}: what is said here may change.")
    return Advice(log.name, _found(RUN_RULES, log), remarks)


def _of_comparison(path: Path) -> Advice:
    try:
        facts = json.loads((path / REPORT).read_text(encoding="utf-8"))
        return Advice(str(path), _found(COMPARISON_RULES, facts))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{path / REPORT}: damaged ({type(error).__name__}: {error}); compare again with -o {path}"
        ) from None


def _found(rules: Mapping[str, Rule], facts: Any) -> list[Finding]:
    found = [(name, rule.find(facts)) for name, rule in rules.items()]
    return [finding._replace(rule=name) for name, finding in found if finding is not None]


def _without_log(run: Any) -> Advice | None:
    """Return what can be said of a model that was not trained step by step; None where it is no model."""
    name = label = str(run)
    if isinstance(run, (str, Path)):
        from seqloom.storage import CONFIG, read_config

        if not (Path(run) / CONFIG).is_file():
            return None
        name = read_config(run)["model"]
    elif hasattr(run, "label") and hasattr(run, "fit_info"):
        name, label = run.name, run.label()
    else:
        return None
    return Advice(
        label,
        remarks=[
            f"There is no log of steps: this {name} model was counted, or converted, or saved from Python, "
            "which keeps the log in the fitted model (seqloom.advise(model)). To choose among "
            "its options, measure: seqloom ab DATA --a OPTION=VALUE --b OPTION=VALUE; among models: "
            "seqloom compare DATA -o report, then seqloom advise report."
        ],
    )
