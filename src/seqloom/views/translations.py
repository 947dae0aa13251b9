"""What a translator looks at: source against target tokens, and how good translations are by the length of their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.page import Sheet
from seqloom.charts.translation import alignment_chart, length_chart
from seqloom.errors import ConfigError
from seqloom.views.hidden import visible

if TYPE_CHECKING:
    from seqloom.contracts import Translator
    from seqloom.metrics.result import Result

END = "</s>"
CHARTS = {
    "bleu": ("BLEU by length of the source", "BLEU", ".1f"),
    "chrf": ("chrF by length of the source", "chrF", ".1f"),
    "exact_match": ("Exact matches by length of the source", "exact matches", ".1%"),
}


def alignment(
    model: Translator,
    source: Any,
    target: str | None = None,
    *,
    head: int | None = None,
    layer: int | None = None,
) -> Sheet:
    """Which source tokens each token of a target comes from, by the model's attention; of its own translation unless a target
    is given. `head` and `layer` of a Transformer (from 0); otherwise the mean over all of them. The data has the entropy of
    each target token's weights in nats: 0 where it looks at one source token, ln(source tokens) where at all alike."""
    model.check_fitted()
    target = model.translate(source) if target is None else target
    if isinstance(source, np.ndarray) and source.ndim == 1:  # of features: one step
        source = source[None]
    wanted = {
        name: value for name, value in (("head", head), ("layer", layer)) if value is not None
    }
    if wanted and not wanted.keys() <= signature(model.alignments).parameters.keys():
        raise ConfigError(
            f"{model.name} models have no {' and '.join(wanted)} of attention; leave it out"
        )
    found = model.alignments([source], [target], **wanted)
    if found is None:
        raise ConfigError(
            f"this {model.label()} model does not say which source tokens it looks at (it has no attention)"
        )
    weights, names = found[0], (source_tokens(model, source), target_tokens(model, target))
    each = entropy(weights)
    where = "".join(f", {name} {value}" for name, value in wanted.items())
    summary = [
        f"mean entropy of the weights {each.mean():.2f} nats, of at most {np.log(weights.shape[1]):.2f}"
    ]
    return Sheet(
        f"{model.label()}: alignment{where}",
        lambda page: {"Alignment": alignment_chart(weights, *names)},
        {"source": names[0], "target": names[1], "weights": weights, "entropy": each},
        summary,
    )


def entropy(weights: np.ndarray) -> np.ndarray:
    """Of each row of shares, in nats.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4).tolist()
    [0.0, 0.6931]
    """
    shares = np.asarray(weights, np.float64)
    return -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=-1) + 0.0


def source_tokens(model: Translator, source: Any) -> list[str]:
    """What each column of an alignment stands for; of an array the number of the step."""
    if model.reads_numbers:
        return [str(step) for step in range(1, len(source) + 1)]
    tokenizer = model.tokenizers["source"]
    return [*(visible(tokenizer.token(token)) for token in tokenizer.encode(source).tolist()), END]


def target_tokens(model: Translator, target: str) -> list[str]:
    """What each row stands for."""
    return [
        *(
            visible(model.target_tokenizer.token(token))
            for token in model.target_ids([target])[0].tolist()[:-1]
        ),
        END,
    ]


def quality_by_length(results: Result | Mapping[str, Result]) -> Sheet:
    """BLEU, chrF and exact matches by length of the source, of one result of `Translator.evaluate` or of several by name."""
    named: Mapping[str, Any] = (
        results if isinstance(results, Mapping) else {results.signature.model: results}
    )
    rows: dict[str, Sequence[Mapping[str, Any]]] = {
        name: result.details.get("lengths", ()) for name, result in named.items()
    }
    if not rows or not all(rows.values()):
        raise ConfigError(
            "there is no quality by length in this result; give what evaluate of a translator returns"
        )
    return Sheet(
        "Quality by length of the source",
        lambda page: {
            heading: length_chart(rows, metric, title, form)
            for metric, (heading, title, form) in CHARTS.items()
        },
        rows,
    )
