"""What of tags or labels a linear probe reads from each layer of a network, and how selective that is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.charts.by_layer import LayerPoint, layers_chart, short_layer
from seqloom.charts.page import Sheet
from seqloom.data.classification import Labelled, as_labelled, read_labelled
from seqloom.data.recognise import labels_in, tags_in
from seqloom.data.tagging import Tagged, read_tagged
from seqloom.errors import DataError
from seqloom.metrics.bootstrap import interval
from seqloom.models.classification.probing import control_targets, fit_probe
from seqloom.models.network.network import has_torch
from seqloom.models.network.word_layers import untrained, word_layers
from seqloom.views.catalogue import view
from seqloom.views.configs import ProbeOptions
from seqloom.views.reading import remarks

MODEL, RANDOM = "this model", "random weights"
FEWEST = 4  # units, so that both parts have some


@dataclass
class Items:
    """What is probed: for each word, or each text, its type, its class, and the sentence it stands in."""

    types: list[Any]
    targets: np.ndarray  # int64 (n,)
    units: np.ndarray  # int64 (n,): the sentence of a word; a text is its own


@view
def probe(model: Any, file: Any, options: ProbeOptions) -> Sheet:
    """Show, layer by layer, how well logistic regression tells tags of words, or labels of texts, from the
    vectors of a layer, beside the control task and a network with random weights.
    """
    data = probed_data(file, options.column)
    rng = np.random.default_rng(options.seed)
    tagged = isinstance(data, Tagged)
    sentences, targets = _chosen(data, options.words, rng)
    names = sorted({name for row in targets for name in row})
    if len(names) < 2:
        raise DataError(f"{data.name} has one class only ({names[0]!r}); a probe needs two")
    rows: list[dict[str, Any]] = []
    networks = {MODEL: model}
    if options.random and has_torch():
        networks[RANDOM] = untrained(model, options.seed)
    numbers = {name: i for i, name in enumerate(names)}
    held = _held_out(len(sentences), options.held_out, rng)
    control_seed = int(rng.integers(1 << 31))
    for network, probed in networks.items():
        items, layers = _vectors(probed, sentences, targets, numbers, tagged)
        control = control_targets(items.types, items.targets, np.random.default_rng(control_seed))
        test = held[items.units]
        if not test.any() or test.all():
            raise DataError(
                f"{data.name}: too few sentences have vectors for a part that is held out"
            )
        with progress.task(f"probing {network}", len(layers), "layers") as bar:
            for layer, vectors in layers.items():
                right = [
                    fit_probe(vectors[~test], classes[~test], options.C).predict(vectors[test])
                    == classes[test]
                    for classes in (items.targets, control)
                ]
                rows.append(
                    {"network": network, "layer": layer, "dimensions": vectors.shape[1]}
                    | _accuracies(right[0], right[1], items.units[test])
                )
                bar.advance()
    by_type = _by_type(items, test)
    common = Counter(items.targets[~test].tolist()).most_common(1)[0][0]
    majority = float((items.targets[test] == common).mean())
    many = "words" if tagged else "texts"
    best = max((row for row in rows if row["network"] == MODEL), key=lambda row: row["accuracy"])
    summary = [
        *remarks(model),
        f"{len(names):,} {'tags' if tagged else 'labels'}; probes learn from {int((~test).sum()):,} {many} "
        f"and are tested on {int(test.sum()):,} of other {'sentences' if tagged else 'texts'}.",
        f"Best layer: {best['layer']}, {best['accuracy']:.1%} ({best['low']:.1%} to {best['high']:.1%}), "
        f"selectivity {best['selectivity']:+.1%}.",
        f"Always the commonest: {majority:.1%}"
        + (f"; always the commonest of the word: {by_type:.1%}." if tagged else "."),
        "Control task: each word has a tag by chance, always the same; selectivity is the accuracy less "
        "that in the control task."
        if tagged
        else "Control task: texts with the same first word have one label by chance.",
    ]
    series = _series(rows, "tags" if tagged else "labels")
    return Sheet(
        f"{model.label()}: what a linear probe reads from each layer",
        lambda page: {
            "Accuracy of the probe": layers_chart(
                series,
                "accuracy on the held-out part",
                ".0%",
                dashed=[name for name in series if RANDOM in name],
                reference=(majority, "always the commonest"),
            )
        },
        {"rows": rows, "classes": names, "majority": majority, "by_word": by_type},
        summary,
        lines=_lines(rows),
    )


# ---- data


def probed_data(file: Any, column: str | None = None) -> Tagged | Labelled:
    """Return tagged sentences or labelled texts: what is given, or what a file of that name holds."""
    if isinstance(file, (Tagged, Labelled)):
        return file
    if not isinstance(file, (str, Path)):
        rows = list(file)
        pairs = rows and isinstance(rows[0], (tuple, list)) and len(rows[0]) == 2
        if pairs and isinstance(rows[0][0], (tuple, list)):
            return Tagged.of(rows)
        return as_labelled(rows)
    path = Path(file)
    if tags_in(path):
        return read_tagged(path, tag_column=column, scheme="none")
    if labels_in(path):
        return read_labelled(path, label_column=column)
    if not path.exists():
        raise DataError(f"there is no {path}; give a file of tagged sentences or labelled texts")
    raise DataError(
        f"{path} has neither words with tags nor texts with labels, as far as its name and its first lines "
        "tell; a probe needs them (.conll, .conllu, or .tsv with text and label)"
    )


def _chosen(
    data: Tagged | Labelled, words: int, rng: np.random.Generator
) -> tuple[list[Any], list[list[Any]]]:
    """Return sentences in random order with their classes, as many as have so many words, or texts."""
    if isinstance(data, Tagged):
        pairs = [(s, t) for s, t in zip(data.sentences, data.tags) if s]
    else:
        if any(not isinstance(text, str) for text in data.examples):
            raise DataError(f"{data.name} has examples that are no texts; a probe reads texts")
        if any(isinstance(label, tuple) for label in data.labels):
            raise DataError(f"{data.name} has several labels a text; a probe needs one each")
        pairs = [
            (text.split(), [label])
            for text, label in zip(data.examples, data.labels)
            if text.split()
        ]
    if len(pairs) < FEWEST:
        raise DataError(
            f"{data.name} has {len(pairs)} sentences or texts with words; a probe needs {FEWEST}"
        )
    found: list[tuple[Any, Any]] = []
    n = 0
    for at in rng.permutation(len(pairs)).tolist():
        if n >= words and len(found) >= FEWEST:
            progress.say(
                f"the probe reads {len(found):,} of {len(pairs):,} sentences or texts; words=... reads more"
            )
            break
        found.append(pairs[at])
        n += len(pairs[at][1])
    return [sentence for sentence, _ in found], [list(classes) for _, classes in found]


def _held_out(n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return which of so many units are held out, at least one and not all."""
    held = np.zeros(n, bool)
    held[rng.permutation(n)[: min(max(round(n * share), 1), n - 1)]] = True
    return held


def _vectors(
    model: Any,
    sentences: Sequence[Any],
    targets: Sequence[Sequence[Any]],
    numbers: dict[Any, int],
    tagged: bool,
) -> tuple[Items, dict[str, np.ndarray]]:
    """Return the vectors of all words by layer, or the mean vectors of texts."""
    layers: dict[str, list[np.ndarray]] = defaultdict(list)
    types: list[Any] = []
    classes: list[int] = []
    units: list[int] = []
    missing = 0
    with progress.task("reading", len(sentences), "sentences") as bar:
        for unit, (words, names) in enumerate(zip(sentences, targets)):
            with progress.unsaid():
                chosen, found = word_layers(model, words)
            missing += len(words) - len(chosen)
            if len(chosen):
                if tagged:
                    types += [words[i] for i in chosen.tolist()]
                    classes += [numbers[names[i]] for i in chosen.tolist()]
                    units += [unit] * len(chosen)
                else:
                    found = {
                        name: array.mean(axis=0, keepdims=True) for name, array in found.items()
                    }
                    types.append(words[0])
                    classes.append(numbers[names[0]])
                    units.append(unit)
                for name, array in found.items():
                    layers[name].append(array)
            bar.advance()
    if missing:
        progress.say(
            f"{missing:,} words lie beyond what the network reads at a time and are left out"
        )
    if not classes:
        raise DataError("no word has a vector; is the tokenizer of the model for this text?")
    items = Items(types, np.array(classes, np.int64), np.array(units, np.int64))
    return items, {name: np.concatenate(arrays) for name, arrays in layers.items()}


# ---- results


def _accuracies(right: np.ndarray, control: np.ndarray, units: np.ndarray) -> dict[str, float]:
    """Return both accuracies and their difference, with intervals over sentences."""
    _, of = np.unique(units, return_inverse=True)
    weights = np.bincount(of).astype(np.float64)
    a, b = np.bincount(of, right), np.bincount(of, control)
    values: dict[str, float] = {}
    for name, sums in (("accuracy", a), ("control", b), ("selectivity", a - b)):
        low, high = interval(sums, weights)
        before = "" if name == "accuracy" else f"{name}_"
        values |= {
            name: float(sums.sum() / weights.sum()),
            f"{before}low": low,
            f"{before}high": high,
        }
    return values


def _by_type(items: Items, test: np.ndarray) -> float:
    """Return the accuracy of the commonest class of each type, and of all for types never seen."""
    seen: dict[Any, Counter[int]] = defaultdict(Counter)
    for one, target in zip(
        (items.types[i] for i in np.flatnonzero(~test)), items.targets[~test].tolist()
    ):
        seen[one][target] += 1
    common = Counter(items.targets[~test].tolist()).most_common(1)[0][0]
    best = {one: counts.most_common(1)[0][0] for one, counts in seen.items()}
    found = [best.get(items.types[i], common) for i in np.flatnonzero(test)]
    return float((np.array(found) == items.targets[test]).mean())


def _series(rows: Sequence[dict[str, Any]], of: str) -> dict[str, list[LayerPoint]]:
    series: dict[str, list[LayerPoint]] = {}
    for name, task, before in ((of, "accuracy", ""), ("control task", "control", "control_")):
        for network in dict.fromkeys(row["network"] for row in rows):
            series[name if network == MODEL else f"{name}, {network} (dashes)"] = [
                LayerPoint(row["layer"], row[task], row[f"{before}low"], row[f"{before}high"])
                for row in rows
                if row["network"] == network
            ]
    return series


def _lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"{'network':<16}{'layer':<14}{'accuracy':>10}{'95 % interval':>18}{'control':>10}{'selectivity':>13}"
    ]
    for row in rows:
        between = f"{row['low']:.1%} to {row['high']:.1%}"
        lines.append(
            f"{row['network']:<16}{short_layer(row['layer']):<14}{row['accuracy']:>10.1%}{between:>18}"
            f"{row['control']:>10.1%}{row['selectivity']:>+13.1%}"
        )
    return lines
