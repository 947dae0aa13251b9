"""The parts of one prediction: what a kind of model computes between the tokens that it has read and the
probability of the next one. Each number has an equation, the same in numbers, and the numbers in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from seqloom.errors import ConfigError
from seqloom.models.language.backing_off import OrderShare, order_shares
from seqloom.models.language.uniform import END
from seqloom.models.network.one_head import head_numbers
from seqloom.models.network.recurrence import agree, arrays_of, layers_of, numbers_of, patterns_of
from seqloom.views.attending import layer_names
from seqloom.views.cell_steps import equations, plain_rows
from seqloom.views.configs import PredictionOptions
from seqloom.views.disagreement import two_names
from seqloom.views.hidden import IN_NAME, visible
from seqloom.views.recurrence import check_unit, choose_layer
from seqloom.views.unrolling import columns_of

SHOWN = 8  # rows of a table; the others are one row
WORD = re.compile(r"[A-Za-z_]\w*'?")


class Number(NamedTuple):
    """A number: how it is called, its equation, the same in numbers, and which numbers it is made of."""

    id: str
    equation: str
    numbers: str
    value: float | None
    of: tuple[str, ...] = ()


@dataclass
class Part:
    """Some numbers under a title: a list, a number in each row; or a table with named columns."""

    title: str
    said: str
    formula: str = ""
    columns: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, equation: str, numbers: str, value: float, *of: str) -> None:
        """Add a number to a list; it is made of those of its list that its equation names, and of `of`."""
        known = {row["name"] for row in self.rows}
        named = [one for one in WORD.findall(equation) if one in known and one != name]
        number = Number(name, equation, numbers, value, (*dict.fromkeys(named), *of))
        self.rows.append({"name": name, "numbers": [number._asdict()]})

    def add_row(self, name: str, *cells: tuple[str, str, float | None, Sequence[str]]) -> None:
        """Add a row to a table: of each cell its equation, the same in numbers, its value, and what it is
        made of: columns of this row, or other numbers by their whole name.
        """
        at = len(self.rows)
        numbers = [
            Number(
                f"{column}.{at}",
                equation,
                text,
                value,
                tuple(f"{one}.{at}" if one in self.columns else one for one in of),
            )._asdict()
            for column, (equation, text, value, of) in zip(self.columns, cells)
        ]
        self.rows.append({"name": name, "numbers": numbers})

    def column(self, name: str) -> tuple[str, ...]:
        """Return the ids of the numbers in a column."""
        at = self.columns.index(name)
        return tuple(row["numbers"][at]["id"] for row in self.rows)


class Place(NamedTuple):
    """Where in a text a token is predicted, and which one."""

    model: Any
    text: str
    ids: np.ndarray  # of the whole text
    begin: int  # of its sequence
    at: int  # the position that is predicted
    word: int  # the token whose probability is explained
    options: PredictionOptions

    @property
    def before(self) -> np.ndarray:
        """Return the tokens of the sequence that were read."""
        return self.ids[self.begin : self.at]

    def name(self, token: int) -> str:
        """Return a token as it is shown."""
        return visible(self.model.tokenizer.token(int(token)))


def quoted(name: str) -> str:
    """Return the name of a token between quotation marks."""
    return f"'{name}'"


Told = tuple[str, list[Part], dict[str, Any]]  # the family, its parts, what can be chosen


def parts_of(place: Place) -> Told:
    """Return what kind of model it is, and the parts of its prediction."""
    name = place.model.name
    family = "network" if name in ("rnn", "lstm", "gru") else name
    found = FAMILIES.get(family)
    return (name, [], {}) if found is None else found(place)


# ---- n-grams


def of_ngram(place: Place) -> Told:
    """Return the back-off chain."""
    model = place.model
    ids = np.append(place.before, place.word)
    shares = order_shares(model, ids, len(ids) - 1)
    chain = abs(_chained(shares) - sum(one.share for one in shares)) < 1e-9
    part = Part(
        "The back-off chain",
        "Each order adds what it counted, less a discount; what the discounts took goes to the shorter "
        "context with the weight gamma. With Kneser-Ney smoothing the lower orders count different tokens "
        "before."
        if chain
        else "The longest context that knows the token decides alone.",
        "p(w | c) = (a - D) / T + gamma(c) p(w | c')"
        if chain
        else "p(w | c) of the longest c with w",
        ["count a", "of T", "discount D", "own part", "gamma", "times", "share"],
    )
    times, sum_name = 1.0, "p"
    for i, one in enumerate(shares):
        context = " ".join(_spelled(model, token) for token in one.context) or "(no context)"
        told = one.count and one.total is not None and one.discount is not None
        own, written = "own = (a - D) / T", ""
        if told and model.config.smoothing == "add-k":
            own, size = "own = (a + k) / (T + k V)", model.trie.vocab_size
            k = model.config.k
            written = f"({one.count} + {k:g}) / ({one.total} + {k:g} * {size})" if one.own else ""
        elif told and model.config.smoothing == "witten-bell":
            own = "own = a / (T + kinds of tokens after it)"
            written = f"{one.count} / ({one.total} + {one.continuations})"
        elif told:
            written = f"({one.count} - {one.discount:.4g}) / {one.total}"
        above = [f"gamma.{j}" for j in range(i)] if chain else []
        part.add_row(
            f"{one.order}: {context}",
            ("a: how often the token came after this context", "", one.count, ()),
            ("T: how often the context came", "", one.total, ()),
            ("D: what is taken from each count", "", one.discount, ()),
            (own, written, one.own, ("count a", "discount D", "of T") if written else ()),
            (
                "gamma: what is left to the shorter context",
                "",
                one.weight if one.context else None,
                (),
            ),
            (
                "times = product of gamma of all longer contexts",
                " * ".join(f"{other.weight:.4f}" for other in shares[:i]),
                times if chain else None,
                above,
            ),
            (
                "share = times * own",
                f"{times:.4g} * {one.own:.4g}" if chain else "",
                one.share,
                ("times", "own part") if chain else (),
            ),
        )
        times *= one.weight
    total = Part("The sum", "The shares of all orders add up to the probability.")
    terms = " + ".join(f"{one.share:.4g}" for one in shares)
    total.add(
        sum_name, "sum of shares", terms, sum(one.share for one in shares), *part.column("share")
    )
    return "ngram", [part, total], {}


def _chained(shares: Sequence[OrderShare]) -> float:
    total, times = 0.0, 1.0
    for one in shares:
        total += times * one.own
        times *= one.weight
    return total


def _spelled(model: Any, token: int) -> str:
    return "<s>" if token == model.trie.vocab_size else visible(model.tokenizer.token(token))


# ---- hidden Markov models


def of_hmm(place: Place) -> Told:
    """Return the belief, its move, and its correction by the token."""
    chain, before = place.model.chain, place.before
    belief = chain.filter(before)[0][-1] if len(before) else None
    moved = np.asarray(chain.start if belief is None else chain.predict(belief), np.float64)
    emitted = np.asarray(chain.emissions[:, place.word], np.float64)
    joint = moved * emitted
    p = float(joint.sum())
    after = joint / p if p > 0 else moved
    names = [
        f"{i}: {' '.join(visible(word) for word, _ in words)}"
        for i, words in enumerate(place.model.top_words(IN_NAME))
    ]
    order = np.argsort(-(joint + moved * 1e-9), kind="stable")
    part = Part(
        "Predict, then correct",
        "The belief about the state moves by the transitions A; each state promises the token with its "
        "emission B; once the token is seen, states that promised it gain.",
        "m(s) = sum_r b(r) A(r, s)\np = sum_s m(s) B(s, w)\nafter(s) = m(s) B(s, w) / p",
        ["belief b", "moved m", "emission B", "product", "after"],
    )
    shown, rest = order[:SHOWN], order[SHOWN:]
    rows = [([s], names[s]) for s in shown.tolist()]
    if len(rest):
        rows.append((rest.tolist(), f"{len(rest)} other states"))
    for states, name in rows:
        one = states[0] if len(states) == 1 else None
        then = None if belief is None else float(belief[states].sum())
        terms = ""
        if one is not None and belief is not None:
            flows = belief * chain.transitions[:, one]
            top = np.argsort(-flows, kind="stable")[:3].tolist()
            terms = " + ".join(f"{belief[r]:.3f} * {chain.transitions[r, one]:.3f}" for r in top)
            terms += " + ..." if chain.n_states > 3 else ""
        m, product, later = (float(a[states].sum()) for a in (moved, joint, after))
        b = None if one is None else float(emitted[one])
        part.add_row(
            name,
            ("b: what was believed after the tokens before", "", then, ()),
            (
                "m = sum_r b(r) A(r, s)"
                if belief is not None
                else "m: what every sequence begins with",
                terms,
                m,
                [f"belief b.{i}" for i in range(len(rows))] if belief is not None else (),
            ),
            ("B: how often this state says the token", "", b, ()),
            (
                "m B" if one is not None else "sum of m B of these states",
                "" if b is None else f"{m:.4g} * {b:.4g}",
                product,
                ("moved m", "emission B"),
            ),
            ("after = m B / p", f"{product:.4g} / {p:.4g}", later, ("product", "p")),
        )
    total = Part("The sum", "All states together give the probability.")
    values = [row["numbers"][3]["value"] for row in part.rows]
    terms = " + ".join(f"{value:.4g}" for value in values)
    total.add("p", "sum of products", terms, p, *part.column("product"))
    return "hmm", [part, total], {}


# ---- mixtures


def of_mixture(place: Place) -> Told:
    """Return what each member expected, and what it paid."""
    model = place.model
    ids, lengths = np.append(place.before, place.word), np.array([len(place.before) + 1])
    log_probs, posteriors = model.shares(ids, lengths)
    p = float(np.exp(log_probs[-1]))
    names = two_names([member.label() for member in model.members])
    part = Part(
        "What each member expects",
        "Every member predicts for itself; the weights are the same at every token, what a member paid "
        "of the probability is not.",
        "p(w) = sum_m lambda_m p_m(w)\nshare_m = lambda_m p_m(w) / p(w)",
        ["weight", "its p", "product", "share"],
    )
    for m, name in enumerate(names):
        weight, share = float(model.weights[m]), float(posteriors[-1, m])
        product = share * p
        own = product / weight if weight > 0 else 0.0
        part.add_row(
            name,
            ("lambda: learnt on held-out text", "", weight, ()),
            ("p_m: what this member alone says", "", own, ()),
            ("lambda p_m", f"{weight:.4f} * {own:.4g}", product, ("weight", "its p")),
            ("share = product / p", f"{product:.4g} / {p:.4g}", share, ("product", "p")),
        )
    total = Part("The sum", "The products add up to the probability.")
    terms = " + ".join(f"{row['numbers'][2]['value']:.4g}" for row in part.rows)
    total.add("p", "sum of products", terms, p, *part.column("product"))
    return "mixture", [part, total], {}


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
    from seqloom.views.reading import traced

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
        raise ConfigError(f"layer must be from 0 to {len(layers) - 1}; got {layer}")
    heads, head = model.runtime().n_heads, place.options.head or 0
    if head >= heads:
        raise ConfigError(f"head must be from 0 to {heads - 1}; got {head}")
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


def of_uniform(place: Place) -> Told:
    """Return the few numbers that it knows."""
    size, ends = place.model.tokenizer.vocab_size, place.word == place.model.tokenizer.eos_id
    part = Part(
        "Every token alike",
        "It has learnt nothing but how many tokens there are; the end has a fixed share.",
        "p = (1 - e) / (V - 1), and e of the end",
    )
    part.add("V", "tokens in the vocabulary", "", size)
    part.add("e", "the share of the end", "", END)
    if ends:
        part.add("p", "e", "", END)
    else:
        part.add(
            "p", "(1 - e) / (V - 1)", f"(1 - {END:.4g}) / ({size:,} - 1)", (1 - END) / (size - 1)
        )
    return "uniform", [part], {}


FAMILIES: dict[str, Callable[[Place], Told]] = {
    "ngram": of_ngram,
    "hmm": of_hmm,
    "mixture": of_mixture,
    "network": of_cell,
    "gpt": of_head,
    "nplm": of_window,
    "uniform": of_uniform,
}
