"""What models without a network compute of one prediction: the back-off chain of an n-gram, the belief of a
hidden Markov model, the members of a mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.models.language.backing_off import OrderShare, order_shares
from seqloom.models.language.uniform import END
from seqloom.views.disagreement import two_names
from seqloom.views.hidden import IN_NAME, visible
from seqloom.views.predicting import SHOWN, Part, Place, Told

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
