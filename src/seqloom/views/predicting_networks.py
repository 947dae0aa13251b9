"""What networks compute of one prediction: the equations of a recurrent unit, a head of attention, a hidden
unit of a feed-forward network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.errors import ConfigError
from seqloom.models.network.one_head import head_numbers
from seqloom.models.network.recurrence import agree, arrays_of, layers_of, numbers_of, patterns_of
from seqloom.views.attending import layer_names
from seqloom.views.cell_steps import equations, plain_rows
from seqloom.views.predicting import SHOWN, WORD, Part, Place, Told, quoted
from seqloom.views.reading import traced
from seqloom.views.recurrence import check_unit, choose_layer
from seqloom.views.unrolling import columns_of

# ---- recurrent networks

SAID = {
    "forget gate": "How much of the old cell is kept.",
    "input gate": "How much of the new is written.",
    "candidate": "What is new.",
    "cell": "The old and the new together.",
    "output gate": "How much of the cell is shown.",
    "reset gate": "How much of the old state the new one sees.",
    "update gate": "How the old and the new are mixed.",
    "state": "The state after the token.",
}


def of_cell(place: Place) -> Told:
    """Return the equations of one unit of one layer."""
    model = place.model
    layers = layers_of(model)
    layer = choose_layer(layers, place.options.layer)
    arrays = arrays_of(layer, traced(model, place.text, *patterns_of(layer)).arrays)
    own = {name: array[place.begin :] for name, array in arrays.items()}
    step = place.at - place.begin
    if step >= len(own["h"]):
        raise ConfigError(f"of this text, the first {len(arrays['h']):,} tokens are traced")
    numbers = numbers_of(layer, own, step)
    state = "c" if "c" in numbers else "h"
    changed = np.abs(numbers[state] - numbers[f"{state}_before"])
    unit = place.options.unit
    unit = int(changed.argmax()) if unit is None else check_unit(unit, len(changed))
    read = place.ids[place.at - 1] if step else model.tokenizer.eos_id
    first = Part(
        f"Unit {unit} before {quoted(place.name(read))} is read",
        f"The state of the step before. The layer reads x, of {columns_of(layer.cell.w_x)} numbers"
        + (
            f", from layer {layers.index(layer) - 1}."
            if layers.index(layer)
            else ", the token's vector."
        ),
    )
    before = [name for name in ("h", "c") if f"{name}_before" in numbers]
    for name in before:
        if unit < len(numbers[f"{name}_before"]):
            value = float(numbers[f"{name}_before"][unit])
            first.add(f"{name}'", f"{name} of the step before", "", value)
    parts = [first]
    known = layer.known and agree(layer, numbers)
    rows = equations(layer, numbers, unit, "standard") if known else plain_rows(numbers, unit)
    names = {row["name"] for row in first.rows}
    title = None
    for row in rows:
        if row.part != title:
            title = row.part
            parts.append(Part((title or "what it traced").capitalize(), SAID.get(title, "")))
        part = parts[-1]
        named = [one for one in WORD.findall(row.equation) if one in names and one != row.name]
        local = {r["name"] for r in part.rows}
        part.add(
            row.name,
            row.equation,
            row.numbers,
            row.value,
            *(one for one in dict.fromkeys(named) if one not in local),
        )
        names.add(row.name)
    chosen = {
        "layers": [each.name for each in layers],
        "layer": layers.index(layer),
        "units": len(changed),
        "unit": unit,
    }
    return layer.kind, parts, chosen


# ---- Transformers


def of_head(place: Place) -> Told:
    """Return query, keys, softmax and mix of one head."""
    model = place.model
    layers = layer_names(model)
    layer = len(layers) - 1 if place.options.layer is None else place.options.layer
    if layer >= len(layers):
        raise ConfigError(f"layer must be from 0 to {len(layers) - 1}; got {layer}", ["layer"])
    heads, head = model.runtime().n_heads, place.options.head or 0
    if head >= heads:
        raise ConfigError(f"head must be from 0 to {heads - 1}; got {head}", ["head"])
    n = head_numbers(model, place.before, layer, head)
    width = len(n.query)
    unit = check_unit(place.options.unit or 0, width)
    chosen = {
        "layers": layers,
        "layer": layer,
        "heads": heads,
        "head": head,
        "units": width,
        "unit": unit,
    }
    if not n.follows:
        return "gpt", [], chosen
    seen = np.argsort(-n.weights, kind="stable")
    count_seen = int(np.isfinite(n.scores).sum())  # a window hides what is further back
    shown, rest = sorted(seen[: min(SHOWN, count_seen)].tolist()), seen[SHOWN:count_seen].tolist()
    best = int(seen[0])
    names = [f"{i} {place.name(token)}" for i, token in enumerate(n.ids.tolist())]
    has_added = bool(np.any(n.added))
    query = Part(
        f"The query of {quoted(names[-1])} and the key of {quoted(names[best])}",
        "What the last token asks for, times what that token offers: number by number, then the sum. Of "
        "all tokens, it gets the most weight.",
        "q = W_q x\nk_j = W_k x_j\nq . k_j = sum over the numbers of a head",
        ["q", "k", "q k"],
    )
    order = np.argsort(-np.abs(n.query * n.keys[best]), kind="stable")
    for i in order[:SHOWN].tolist():
        q, k = float(n.query[i]), float(n.keys[best, i])
        query.add_row(
            f"number {i}",
            ("q = W_q x", "", q, ()),
            ("k = W_k x_j", "", k, ()),
            ("q k", f"{q:.4f} * {k:.4f}", q * k, ("q", "k")),
        )
    if width > SHOWN:
        left = float((n.query * n.keys[best])[order[SHOWN:]].sum())
        nothing = ("", "", None, ())
        query.add_row(
            f"{width - SHOWN} others", nothing, nothing, ("sum of the other q k", "", left, ())
        )
    s = f"{n.scale:.4g}"
    mix = Part(
        "Scores, softmax, mix",
        f"Each token's product is divided by the root of {width}; the softmax makes shares of it; the mix is "
        f"the mean of the values with these shares. Of the values, number {unit} is shown.",
        "s_j = q . k_j / sqrt(d)" + (" + b(distance)" if has_added else "") + "\n"
        "a_j = exp(s_j) / sum_l exp(s_l)\no = sum_j a_j v_j",
        ["q . k", *(["b"] if has_added else []), "s", "a", "v", "a v"],
    )
    dots = {best: query.column("q k")}
    exps = np.exp(n.scores - n.scores.max())
    count = len(shown) + bool(rest)
    for j in shown:
        a, v = float(n.weights[j]), float(n.values[j, unit])
        text = f"{n.products[j]:.4f} * {s}" + (f" {n.added[j]:+.4f}" if has_added else "")
        cells: list[tuple[str, str, float | None, Sequence[str]]] = [
            ("q . k_j", "", float(n.products[j]), dots.get(j, ())),
            (
                "s = q . k / sqrt(d)",
                text,
                float(n.scores[j]),
                ("q . k", *(["b"] if has_added else [])),
            ),
            (
                "a = exp(s) / sum of exp(s), all with the largest s taken off",
                f"{exps[j]:.4g} / {exps.sum():.4g}",
                a,
                [f"s.{i}" for i in range(count)],
            ),
            (f"v_{unit} = (W_v x_j)_{unit}", "", v, ()),
            ("a v", f"{a:.4f} * {v:.4f}", a * v, ("a", "v")),
        ]
        if has_added:
            cells.insert(1, ("b: by how far back the token is", "", float(n.added[j]), ()))
        mix.add_row(names[j], *cells)
    if rest:
        gone: tuple[str, str, float | None, Sequence[str]] = ("", "", None, ())
        a = float(n.weights[rest].sum())
        product = float((n.weights * n.values[:, unit])[rest].sum())
        cells = [gone] * (len(mix.columns) - 3)
        cells += [("sum of a of the others", "", a, ()), gone, ("sum of a v", "", product, ())]
        mix.add_row(f"{len(rest)} others", *cells)
    total = Part(
        f"Number {unit} of the mix",
        f"The {width} numbers of each of the {heads} heads go through W_o and are added to x; a perceptron "
        "follows, then the next layer.",
        "o = sum_j a_j v_j\nx + W_o (o of all heads)",
    )
    terms = " ".join(f"{row['numbers'][-1]['value']:+.4f}" for row in mix.rows)
    total.add("o", "sum of a v", terms, float(n.mix[unit]), *mix.column("a v"))
    return "gpt", [query, mix, total], chosen


# ---- feed-forward networks


def of_window(place: Place) -> Told:
    """Return what each token of the window adds to one hidden unit."""
    model, network = place.model, place.model.runtime()
    n = network.order - 1
    window = np.concatenate([np.full(n, model.tokenizer.eos_id, np.int64), place.before])[-n:]
    x = np.asarray(network.embedding[window], np.float64)  # (n, d)
    matrix = floats(network.hidden.weight).astype(np.float64)
    offsets = network.hidden.bias
    parts = np.einsum("und,nd->un", matrix.reshape(len(matrix), n, -1), x)
    bias = offsets.astype(np.float64) if len(offsets) else np.zeros(len(matrix))
    sums = parts.sum(1) + bias
    unit = place.options.unit
    unit = int(np.abs(sums).argmax()) if unit is None else check_unit(unit, len(matrix))
    part = Part(
        f"What each token adds to hidden unit {unit}",
        "The vectors of the last tokens stand side by side; each has its own part of the matrix H.",
        "z = d + sum_i H_i x_i\nh = tanh(z)",
        ["H_i x_i"],
    )
    for i, token in enumerate(window.tolist()):
        back = n - i
        part.add_row(
            f"{back} back: {place.name(token)}",
            (
                "H_i x_i: the vector of this token times its part of H",
                "",
                float(parts[unit, i]),
                (),
            ),
        )
    total = Part(f"Hidden unit {unit}", "The sum goes through tanh.")
    total.add("d", "the unit's bias", "", float(bias[unit]))
    terms = f"{bias[unit]:.4f} " + " ".join(f"{value:+.4f}" for value in parts[unit])
    total.add("z", "d + sum of H_i x_i", terms, float(sums[unit]), *part.column("H_i x_i"))
    total.add("h", "tanh(z)", f"tanh({sums[unit]:.4f})", float(np.tanh(sums[unit])))
    return "nplm", [part, total], {"units": len(matrix), "unit": unit}


def floats(weight: Any) -> np.ndarray:
    """Return a matrix of weights as float32, also one that is rounded to fewer bits."""
    return np.asarray(weight if isinstance(weight, np.ndarray) else weight.floats(), np.float32)
