"""What a translator looks at: source against target tokens; how good translations are by the length of
their sources; and exposure bias, what it costs to continue its own text instead of the true one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.attention import weights_chart
from seqloom.charts.page import Sheet
from seqloom.charts.translation import MAX_TOKENS, alignment_chart, band_chart, length_chart
from seqloom.data.translation import Parallel
from seqloom.decoding.beam import forced_log_probs
from seqloom.errors import ConfigError
from seqloom.metrics.bootstrap import interval_of_sums
from seqloom.views.hidden import visible

if TYPE_CHECKING:
    from seqloom.contracts import Translator
    from seqloom.metrics.result import Result


END = "</s>"
CHARTS = {
    "bleu": ("BLEU by length of the source", "BLEU", ".1~f"),
    "chrf": ("chrF by length of the source", "chrF", ".1~f"),
    "exact_match": ("Exact matches by length of the source", "exact matches", ".1~%"),
}


def alignment(
    model: Translator,
    source: Any,
    target: str | None = None,
    *,
    head: int | None = None,
    layer: int | None = None,
) -> Sheet:
    """Show which source tokens each token of a target comes from, by the model's attention; of its
    own translation unless a target is given. `head` and `layer` of a Transformer (from 0);
    otherwise the mean over all of them. The data has the entropy of each target token's weights
    in nats: 0 if it attends to one source token, ln(source tokens) if to all alike.
    """
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
    alignments = model.alignments([source], [target], **wanted)
    if alignments is None:
        raise ConfigError(
            f"this {model.label()} model does not say which source tokens it looks at (it has no attention)"
        )
    weights, names = alignments[0], (source_tokens(model, source), target_tokens(model, target))
    each = entropy(weights)
    where = "".join(f", {name} {value}" for name, value in wanted.items())
    summary = [
        f"mean entropy of the weights {each.mean():.2f} nats, of at most {np.log(weights.shape[1]):.2f}"
    ]
    draw: Callable[..., Any] = alignment_chart
    if max(weights.shape) > MAX_TOKENS:
        draw = weights_chart
        summary.append(f"Of more than {MAX_TOKENS} tokens a map without their names is drawn.")
    return Sheet(
        f"{model.label()}: alignment{where}",
        lambda page: {"Alignment": draw(weights, *names)},
        {"source": names[0], "target": names[1], "weights": weights, "entropy": each},
        summary,
    )


def entropy(weights: np.ndarray) -> np.ndarray:
    """Return the entropy of each row of shares, in nats.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(4).tolist()
    [0.0, 0.6931]
    """
    shares = np.asarray(weights, np.float64)
    return -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=-1) + 0.0


def source_tokens(model: Translator, source: Any) -> list[str]:
    """Return what each column of an alignment stands for; for an array, the number of the step."""
    if model.reads_numbers:
        return [str(step) for step in range(1, len(source) + 1)]
    tokenizer = model.tokenizers["source"]
    return [*(visible(tokenizer.token(token)) for token in tokenizer.encode(source).tolist()), END]


def target_tokens(model: Translator, target: str) -> list[str]:
    """Return what each row of an alignment stands for."""
    return [
        *(
            visible(model.target_tokenizer.token(token))
            for token in model.target_ids([target])[0].tolist()[:-1]
        ),
        END,
    ]


def quality_by_length(results: Result | Mapping[str, Result]) -> Sheet:
    """Draw BLEU, chrF and exact matches by source length, of one result of `Translator.evaluate`
    or of several by name.
    """
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


# ---- exposure

HEADING = "Nats per token by position in the target"


def exposure_bias(
    model: Translator, pairs: Any, targets: Any = None, *, samples: int = 1000
) -> Sheet:
    """Measure nats per token of references after the true tokens and after the model's own, their
    gap and excess, overall and by position. `pairs` as in `evaluate`; `samples`: of the
    bootstrap over pairs, 0 for no interval of the gap.

    In training and in scores each token of a target y is predicted after the true tokens before it
    (teacher forcing). When it translates, the model reads its own tokens. With z, its greedy
    translation of the source x, and the positions t that both y and z have, end symbols included,

        teacher forcing  =  mean of -log p(y_t | x, y_1 .. y_t-1)      in nats per token
        free running     =  mean of -log p(y_t | x, z_1 .. z_t-1)      over the same tokens
        gap              =  free running - teacher forcing
        excess           =  free running / teacher forcing - 1

    The excess is that of Arora et al. 2022 ("Why Exposure Bias Matters") with the references instead
    of their oracle. Up to the first token that differs from the reference both histories are equal,
    and so are the costs.
    """
    data = Parallel.of(pairs, targets)
    model.check_writes("exposure bias is measured")
    costs = model.of_pairs(
        lambda sources, texts: _costs(model, sources, texts), data.sources, data.targets
    )
    sums = np.array([[*each.sum(axis=1), each.shape[1]] for each in costs], np.float64)  # (n, 3)
    forced, free, tokens = sums.sum(axis=0).tolist()
    curves: dict[str, Any] = {
        "teacher_forcing": forced / tokens,
        "free_running": free / tokens,
        "gap": (free - forced) / tokens,
        "excess": free / forced - 1 if forced else None,
    }
    if samples:
        curves["gap_interval"] = interval_of_sums(
            sums, lambda s: (s[..., 1] - s[..., 0]) / s[..., 2], samples=samples
        )
    references = sum(len(ids) for ids in model.target_ids(data.targets))
    rows = by_position(costs)
    curves |= {
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
                ".2~f",
                by="position",
                many="tokens",
            )
        },
        curves,
        _summary(curves),
    )


def by_position(costs: list[np.ndarray]) -> list[dict[str, Any]]:
    """Return both costs in bands of positions that double in width; `costs` (2, T) of each pair.

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
    """Return nats of the tokens of each target after the true ones and after the model's own:
    (2, T).
    """
    stepper, ids = model.decoder(sources), model.target_ids(targets)
    free = forced_log_probs(stepper, ids, greedy=True)
    forced = forced_log_probs(stepper, ids)
    return [-np.stack([true[: len(own)], own]) for true, own in zip(forced, free)]


def _summary(curves: dict[str, Any]) -> list[str]:
    excess = "" if curves["excess"] is None else f", {curves['excess']:+.1%}"
    low, high = curves.get("gap_interval", (np.nan, np.nan))
    interval = "" if np.isnan(low) else f" (95 %: {low:.4f} to {high:.4f})"
    return [
        f"{curves['teacher_forcing']:.4f} nats per token after the true tokens (teacher forcing), "
        f"{curves['free_running']:.4f} after its own (free running)",
        f"exposure-bias gap {curves['gap']:.4f}{interval}{excess}",
        f"{curves['tokens']:,} of {curves['reference_tokens']:,} target tokens in {curves['pairs']:,} "
        f"pairs; the others are beyond the end of the model's translations",
    ]
