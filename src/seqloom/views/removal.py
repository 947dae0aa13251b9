"""What a head or a layer is worth: the model is measured again without it.

A copy of the model has zeros where the head's vector enters the output projection of its attention. Without
a whole layer its attention and its perceptron add nothing. Nothing else changes and nothing is trained
again, so other heads may do the same: then each alone costs little, and all together much (Michel et al.
2019, "Are Sixteen Heads Really Better than One?").
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.charts.attention import costs_chart
from seqloom.charts.page import Sheet
from seqloom.data.classification import as_labelled
from seqloom.data.corpus import as_corpus
from seqloom.data.tagging import as_tagged
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.answering import answer_scores
from seqloom.metrics.bootstrap import interval_of_sums
from seqloom.metrics.tagging import span_counts
from seqloom.views.catalogue import view
from seqloom.views.configs import AblationOptions
from seqloom.views.reading import remarks

OUT = (".attention.out.weight", ".cross.out.weight")
STRETCH = 32  # tokens of a running text that are drawn together for an interval
SAMPLES = 1000
ALL_HEADS, LAYER = "all heads", "layer"
MAX_LINES = 60

# What becomes zero of a matrix: some columns, or all of them.
Columns = slice | Sequence[int] | None
# For each measure the sum and the count of each example (N, 2); the measure is the ratio of their sums.
Sums = dict[str, np.ndarray]


@view
def ablation(model: Any, data: Any, options: AblationOptions) -> Sheet:
    """Measure what the removal of each head and each layer costs on data."""
    measure, said = measure_of(model, data, options.examples)
    parts = parts_of(model)
    whole, rows = measure(model), []
    with progress.task("removals", len(parts)) as bar:
        for part in parts:
            left = measure(without_parts(model, part.names))
            row: dict[str, Any] = {"layer": part.layer, "part": part.part}
            for name in whole:
                low, high = _interval(name, whole[name], left[name])
                cost = _cost(name, whole[name].sum(0), left[name].sum(0))
                row |= {f"{name}_cost": cost, f"{name}_interval": [low, high]}
            rows.append(row)
            bar.advance()
    values = {name: float(_ratio(sums.sum(0))) for name, sums in whole.items()}
    return Sheet(
        f"{model.label()}: what each head and layer is worth",
        lambda page: {
            f"Cost of removing it ({UNITS[name]})": costs_chart(rows, f"{name}_cost")
            for name in values
        },
        {"rows": rows, "whole": values},
        [*remarks(model), *_sentences(rows, values, said)],
        lines=_lines(rows, next(iter(values))),
    )


# ---- removing


class Part(NamedTuple):
    """What is removed: its layer, its name, and by name of the weights the columns that become zero, None
    for all of them.
    """

    layer: str
    part: str
    names: dict[str, slice | None]


def parts_of(model: Any) -> list[Part]:
    """Return all heads, all attentions and all layers of a model."""
    shapes = model.fitted_shapes()
    size = getattr(model.config, "published", None) or model.config
    parts: list[Part] = []
    for name in shapes:
        if not name.endswith(OUT):
            continue
        attention = name.removesuffix(".out.weight")
        block = attention.rpartition(".")[0]
        width = shapes[name][1] // size.n_heads
        columns = [slice(head * width, (head + 1) * width) for head in range(size.n_heads)]
        parts += [Part(attention, str(head), {name: some}) for head, some in enumerate(columns)]
        both: dict[str, slice | None] = dict.fromkeys(_with_bias(shapes, name))
        parts.append(Part(attention, ALL_HEADS, both))
        if attention.endswith(".attention"):
            outs = [f"{block}.{part}.weight" for part in ("attention.out", "cross.out", "mlp.down")]
            every = dict.fromkeys(
                each for out in outs if out in shapes for each in _with_bias(shapes, out)
            )
            parts.append(Part(attention, LAYER, {**every}))
    return parts


def _with_bias(shapes: Mapping[str, Any], name: str) -> list[str]:
    bias = name.replace(".weight", ".bias")
    return [name, bias] if bias in shapes else [name]


def without_parts(model: Any, names: Mapping[str, Columns]) -> Any:
    """Return a copy of a model in which these columns of these weights are zero."""
    other = copy.copy(model)
    if model.bits:  # rounded weights as they are, but for those that become zero
        other.learnt = {name: value for name, value in model.learnt.items() if name != "bits"}
    weights = dict(model.weights)
    for name, columns in names.items():
        changed = np.array(weights[name])
        changed[..., slice(None) if columns is None else columns] = 0
        weights[name] = changed
    other.net.restore(weights)
    return other


# ---- measuring

UNITS = {
    "bits": "bits a token",
    "label_bits": "bits a label",
    "accuracy": "points of accuracy",
    "f1": "points of F1",
}


def measure_of(model: Any, data: Any, most: int) -> tuple[Callable[[Any], Sums], str]:
    """Return how a model is measured on the first examples of the data, and what is said of them."""
    if model.task not in MEASURES:
        raise ConfigError(
            f"{model.name} models are not measured on data, so nothing says what a head is worth"
        )
    measure, count, noun = MEASURES[model.task](model, data, most)
    if not count:
        raise DataError("the data has no examples; give some")
    return measure, f"{count:,} {noun}"


def _language(model: Any, data: Any, most: int) -> tuple[Callable[[Any], Sums], int, str]:
    lines = _lines_of(data, most)
    text = "\n".join(lines)
    tokens = len(model.encode(text)[0])

    def measure(one: Any) -> Sums:
        bits = -np.array(one.token_scores(text), np.float64) / math.log(2)
        starts = np.arange(0, len(bits), STRETCH)
        counts = np.diff(starts, append=len(bits))
        return {"bits": np.stack([np.add.reduceat(bits, starts), counts], axis=1)}

    return measure, tokens, f"tokens in {len(lines):,} lines"


def _masked(model: Any, data: Any, most: int) -> tuple[Callable[[Any], Sums], int, str]:
    lines = _lines_of(data, most)
    return lambda one: {"bits": _bits(one.token_scores(lines))}, len(lines), "lines"


def _classified(model: Any, data: Any, most: int) -> tuple[Callable[[Any], Sums], int, str]:
    labelled = as_labelled(data).like(model.classes, strict=False).part(slice(most))
    index = {name: at for at, name in enumerate(model.classes)}
    known = [
        row
        for row, label in enumerate(labelled.labels)
        if all(each in index for each in (label if labelled.multi_label else (label,)))
    ]
    if not known:
        raise DataError("no example has a label that this model knows; give others")
    labelled = labelled.part(known)
    gold = np.zeros((len(labelled.examples), len(index)), bool)
    for row, label in enumerate(labelled.labels):
        for each in label if labelled.multi_label else (label,):
            gold[row, index[each]] = True

    def measure(one: Any) -> Sums:
        log_probs = one.log_probs(labelled.examples).astype(np.float64)
        ones = np.ones(len(log_probs))
        if model.multi_label:
            probs = np.clip(np.exp(log_probs), 1e-12, 1 - 1e-12)
            bits = -np.log2(np.where(gold, probs, 1 - probs)).sum(1)
            right = ((probs > 0.5) == gold).all(1)
        else:
            bits = -np.where(gold, log_probs, 0).sum(1) / math.log(2)
            right = gold[np.arange(len(gold)), log_probs.argmax(1)]
        return {
            "label_bits": np.stack([bits, ones], axis=1),
            "accuracy": np.stack([right.astype(np.float64), ones], axis=1),
        }

    return measure, len(labelled.examples), "examples"


def _tagged(model: Any, data: Any, most: int) -> tuple[Callable[[Any], Sums], int, str]:
    tagged, scheme = as_tagged(data), model.learnt["scheme"]
    if tagged.scheme and scheme:
        tagged = tagged.converted(scheme)
    tagged = tagged.part(slice(most))
    if 2 * len({*tagged.tagset} & {*model.tags}) < len(tagged.tagset):
        raise DataError(
            f"the tags of the data ({tagged.tagset[0]}, ...) are not those of the model ({model.tags[0]}, "
            "...); give data with these, such as read_tagged(..., tag_column=...)"
        )

    def measure(one: Any) -> Sums:
        found = one.predict(tagged.sentences)
        right = [
            (sum(a == b for a, b in zip(tags, gold)), len(gold))
            for tags, gold in zip(found, tagged.tags)
        ]
        sums = {"accuracy": np.array(right, np.float64)}
        if tagged.scheme:
            sums = {"f1": span_counts(tagged.tags, found, tagged.scheme).astype(np.float64), **sums}
        return sums

    return measure, len(tagged), "sentences"


def _answered(model: Any, data: Any, most: int) -> tuple[Callable[[Any], Sums], int, str]:
    from seqloom.data.answering import as_questions

    questions = as_questions(data).part(slice(most))

    def measure(one: Any) -> Sums:
        scores = answer_scores(questions, [each.text for each in one.predict(questions.pairs)])
        return {"f1": np.stack([scores[:, 1], np.ones(len(scores))], axis=1)}

    return measure, len(questions), "questions"


def _translated(model: Any, data: Any, most: int) -> tuple[Callable[[Any], Sums], int, str]:
    from seqloom.data.translation import Parallel

    pairs = Parallel.of(data).part(slice(most))
    return (
        lambda one: {"bits": _bits(one.token_scores(pairs.sources, pairs.targets))},
        len(pairs),
        "pairs",
    )


MEASURES = {
    "language model": _language,
    "masked language model": _masked,
    "classifier": _classified,
    "tagger": _tagged,
    "answerer": _answered,
    "translator": _translated,
}


def _lines_of(data: Any, most: int) -> list[str]:
    lines = []
    for line in as_corpus(data).lines():
        if line.strip():
            lines.append(line.rstrip("\r\n"))
        if len(lines) == most:
            break
    if not lines:
        raise DataError("the data has no text; give some")
    return lines


def _bits(scores: Any) -> np.ndarray:
    return np.array([(-np.sum(each, dtype=np.float64) / math.log(2), len(each)) for each in scores])


def _ratio(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / np.maximum(sums[..., 1], 1e-12)


def _cost(name: str, whole: np.ndarray, left: np.ndarray) -> float:
    """Return what a removal costs: bits more, or points fewer."""
    return float((_ratio(left) - _ratio(whole)) * (1 if name.endswith("bits") else -100)) + 0.0


def _interval(name: str, whole: np.ndarray, left: np.ndarray) -> tuple[float | None, float | None]:
    sign = 1 if name.endswith("bits") else -100
    low, high = interval_of_sums(
        np.concatenate([whole, left], axis=1),
        lambda sums: sign * (_ratio(sums[..., 2:]) - _ratio(sums[..., :2])),
        samples=SAMPLES,
    )
    return (None, None) if math.isnan(low) else (low + 0.0, high + 0.0)


# ---- words


def _sentences(rows: list[dict[str, Any]], values: dict[str, float], said: str) -> list[str]:
    name = next(iter(values))
    shown = ", ".join(
        f"{value:.3f} {UNITS[key]}" if key.endswith("bits") else f"{key} {value:.1%}"
        for key, value in values.items()
    )
    key = f"{name}_cost"
    heads = [row for row in rows if row["part"] not in (ALL_HEADS, LAYER)]
    together = {row["layer"]: row[key] for row in rows if row["part"] == ALL_HEADS}
    free = sum(
        row[f"{name}_interval"][0] is not None and row[f"{name}_interval"][0] <= 0 for row in heads
    )
    sums = {layer: sum(row[key] for row in heads if row["layer"] == layer) for layer in together}
    most = max(together, key=lambda layer: together[layer] - sums[layer])
    return [
        f"The whole model on {said}: {shown}.",
        f"{free} of {len(heads)} heads can be removed without a cost that these data show (the 95 % interval "
        "of the cost reaches zero).",
        f"Removed one at a time, the heads of {most} cost {sums[most]:+.3f} {UNITS[name]} in sum; all of "
        f"them together {together[most]:+.3f}.",
    ]


def _lines(rows: list[dict[str, Any]], name: str) -> list[str]:
    width = max(len(row["layer"]) for row in rows) + 2
    lines = [f"{'layer':<{width}}{'without':<12}{'cost, ' + UNITS[name]:>26}   95 % interval"]
    for row in rows[:MAX_LINES]:
        low, high = row[f"{name}_interval"]
        between = "" if low is None else f"{low:+.3f} to {high:+.3f}"
        what = row["part"] if row["part"] in (ALL_HEADS, LAYER) else f"head {row['part']}"
        lines.append(f"{row['layer']:<{width}}{what:<12}{row[f'{name}_cost']:>+26.3f}   {between}")
    if len(rows) > MAX_LINES:
        lines.append(f"and {len(rows) - MAX_LINES:,} more")
    return lines
