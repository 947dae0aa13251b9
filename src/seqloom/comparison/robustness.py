"""One model on the same data with typing errors, in another case, cut, lengthened, with its words shuffled.

Each row has the metric of the changed data and the difference to the data as it is, paired by
example. That words can be shuffled at no cost says that their order does not matter for the task,
or not to this model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

from seqloom import progress
from seqloom.comparison import ladder as ladders
from seqloom.comparison.ladder import Evaluation, Ladder, Parts
from seqloom.contracts import Classifier, Tagger
from seqloom.data.classification import Labelled, as_labelled
from seqloom.data.perturb import PERTURBATIONS, TYPO_RATE, perturb_labelled, perturb_tagged
from seqloom.data.tagging import Tagged, as_tagged
from seqloom.errors import ConfigError, suggest_known
from seqloom.frames import as_frame, flat_row
from seqloom.metrics.bootstrap import paired_rows, ratio
from seqloom.metrics.result import Result
from seqloom.metrics.slices import as_names
from seqloom.metrics.tables import report


class Robustness(Result):
    """A result that a notebook shows with its perturbations, which are the rows of its frame."""

    def __repr__(self) -> str:
        return f"{self}\n\n{report(self)}"

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}<pre>{escape(report(self))}</pre>"

    def to_frame(self) -> Any:
        """Return a row for each perturbation: a frame of pandas or polars where one is installed."""
        rows = self.details["robustness"]
        return as_frame([flat_row({"model": self.signature.model, **row}) for row in rows])


@progress.remarking_once()
def robustness(
    model: Any,
    data: Any,
    labels: Any = None,
    *,
    perturb: str | Sequence[str] = PERTURBATIONS,
    typo_rate: float = TYPO_RATE,
    seed: int = 0,
    samples: int = 1000,
) -> Robustness:
    """Measure how much worse a classifier or tagger becomes when its data is perturbed, each way
    on its own.

    `data` and `labels` (or tags): as `evaluate` takes them. `perturb`: some of typos, lower, upper,
    truncated, lengthened, shuffled; `typo_rate`: share of the letters with a typing error;
    `samples`: of the bootstrap. `details["robustness"]` has a row for each: the metric, the paired
    difference with its interval and p-value, which share of the examples was changed at all, and
    for classifiers how many answers changed.

    >>> from seqloom import Majority
    >>> model = Majority().fit([("fun", "+"), ("dull", "-"), ("good", "+")])
    >>> rows = robustness(model, [("Good", "+"), ("Bad", "-")])
    >>> [(row["perturbation"], row["difference"]) for row in rows.details["robustness"]][:2]
    [('typos', 0.0), ('lower', 0.0)]
    """
    perturb = as_names(perturb)
    if unknown := [kind for kind in perturb if kind not in PERTURBATIONS]:
        raise ConfigError(
            f"unknown perturbation {unknown[0]!r}{suggest_known(unknown[0], PERTURBATIONS)}"
        )
    if not 0 <= typo_rate <= 1:
        raise ConfigError(f"typo_rate must be between 0 and 1; got {typo_rate}")
    if not isinstance(model, (Classifier, Tagger)):
        raise ConfigError("robustness is for classifiers and taggers")
    model.check_fitted()
    original: Any = (
        _tagged(model, data, labels)
        if isinstance(model, Tagger)
        else _labelled(model, data, labels)
    )
    change: Any = perturb_tagged if isinstance(model, Tagger) else perturb_labelled
    model.remark_training_data(original.name, original.fingerprint)
    ladder = ladders.of_task(model.task).specialised_for(Parts(original, None, original, ""))
    clean, rows = _evaluate(ladder, model, original), []
    with progress.task("perturbing", len(perturb), "kinds") as bar:
        for kind in perturb:
            changed = change(original, kind, typo_rate=typo_rate, seed=seed)
            rows.append(
                {
                    "perturbation": kind,
                    **_row(clean, _evaluate(ladder, model, changed), samples),
                    "changed": _share(_examples(original), _examples(changed)),
                }
            )
            bar.advance()
    signature = model.signature(original)
    extras = (
        {**signature.extras, "typo_rate": typo_rate} if "typos" in perturb else signature.extras
    )
    unit = "sentences" if isinstance(model, Tagger) else "texts"
    return Robustness(
        {**_metric(clean), unit: len(original)},
        replace(signature, seed=seed, extras=extras),
        details={"robustness": rows},
    )


def _evaluate(ladder: Ladder, model: Any, data: Any) -> Evaluation:
    return ladder.evaluate(model, Parts(None, None, data, ""))


def _metric(evaluation: Evaluation) -> dict[str, float]:
    score = evaluation.scores[0]
    return {score.name.replace(" ", "_").lower(): ratio(score.rows)}


def _row(clean: Evaluation, changed: Evaluation, samples: int) -> dict[str, Any]:
    difference = paired_rows(changed.scores[0].rows, clean.scores[0].rows, samples=samples)
    row = {
        **_metric(changed),
        "difference": difference.difference,
        "difference_interval": (difference.low, difference.high),
        "p_value": difference.p_value,
    }
    if clean.answers is not None and changed.answers is not None:
        row["answers_changed"] = _share(clean.answers, changed.answers)
    return row


def _share(before: Sequence[Any], after: Sequence[Any]) -> float:
    """Return the share of answers that changed."""
    return sum(a != b for a, b in zip(before, after)) / len(before)


def _labelled(model: Classifier, data: Any, labels: Any) -> Labelled:
    labelled = as_labelled(data, labels).like(model.classes, strict=False)
    if not all(isinstance(example, str) for example in labelled.examples):
        what = "pairs of texts" if labelled.pairs else "arrays of numbers"
        raise ConfigError(
            f"the examples of {labelled.name} are {what}; robustness perturbs single texts"
        )
    if labelled.multi_label and not model.multi_label:
        raise ConfigError(
            f"{labelled.name} has examples with several labels, but this model predicts one per example"
        )
    return labelled


def _tagged(model: Tagger, data: Any, tags: Any) -> Tagged:
    tagged, scheme = as_tagged(data, tags), model.learnt["scheme"]
    tagged = tagged.part([i for i, words in enumerate(tagged.sentences) if words])
    return tagged.converted(scheme) if tagged.scheme and scheme else tagged


def _examples(data: Labelled | Tagged) -> list[Any]:
    return data.sentences if isinstance(data, Tagged) else data.examples
