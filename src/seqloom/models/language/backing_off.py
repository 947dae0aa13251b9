"""Where the probability of a token comes from in an n-gram model: what each order adds to it.

Interpolated smoothing (Chen and Goodman 1998) mixes the relative frequencies of all orders. With the context
c, its last word dropped at the front c', a count a, a total T and a discount D

    p(w | c) = (a - D) / T + gamma(c) p(w | c')

so that an order's share is its own part, (a - D) / T, times the weights gamma of all longer contexts, and
the shares add up to the probability. A model keeps p and gamma; own parts are differences of them, and the
counts are found again where whole numbers fit them all. Without interpolation (add-k, maximum likelihood,
models of other programs, models that were pruned by entropy) the longest context that knows the word gives
it all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seqloom.models.language.trie import Trie

if TYPE_CHECKING:
    from seqloom.models.language.ngram import NGram

NEAR_WHOLE = 0.02  # how far what should be a count may be from a whole number
MOST_TRIED = 300  # counts of the rarest continuation that are tried


Told = tuple[int | None, int | None, float | None]  # count, total, discount, where they can be told


@dataclass(frozen=True)
class OrderShare:
    """What one order adds to the probability of a token."""

    order: int
    context: tuple[int, ...]  # ids; the vocabulary's size stands for <s>
    known: bool  # the model has the context
    continuations: int  # different tokens that follow it in the model
    weight: float  # what it leaves to the shorter context, 1 where it is unknown
    own: float  # (a - D) / T, before the weights of longer contexts
    share: float  # of the probability
    count: int | None  # a, if it can be told
    total: int | None  # T
    discount: float | None  # D


def order_shares(model: NGram, ids: np.ndarray, at: int) -> list[OrderShare]:
    """Return what each order adds to the probability of the token ids[at], the highest order first; `ids`
    are of one sequence.
    """
    trie, word = model.trie, int(ids[at])
    before = [trie.vocab_size, *map(int, ids[:at])][-(trie.order - 1) :] if trie.order > 1 else []
    contexts = [tuple(before[len(before) - k :]) for k in range(len(before), -1, -1)]
    nodes = [_node(trie, context) for context in contexts]
    probs = [_probability(trie, nodes[i:], word) for i in range(len(nodes))]
    interpolated = _interpolated(model)
    above, shares, found = 1.0, [], False
    for i, (context, node) in enumerate(zip(contexts, nodes)):
        known = node is not None
        weight = float(np.exp(np.float64(trie.backoffs[node]))) if known and context else 1.0
        children = int(trie.first[node + 1] - trie.first[node]) if node is not None else 0
        own = 0.0
        if interpolated:
            own = probs[i] - (weight * probs[i + 1] if context else 0.0)
        elif not found and _gives_all(trie, node, word):
            own, found = probs[i], True
        counts: Told = None, None, None
        if node is not None and children:
            counts = _counts(model, node, context, word, own)
        weight = weight if context else 0.0
        shares.append(
            OrderShare(
                len(context) + 1, context, known, children, weight, own, above * own, *counts
            )
        )
        if trie.chained or not found:
            above *= weight if trie.chained else 1.0
    return shares


def _interpolated(model: NGram) -> bool:
    c = model.config
    return model.trie.chained and c.smoothing != "imported" and not c.prune_entropy


def _node(trie: Trie, context: tuple[int, ...]) -> int | None:
    """Return the node of a context, None if the model does not have it."""
    if not context:
        return 0
    node: int | None = context[0] + 1
    for token in context[1:]:
        node = None if node is None else _child(trie, node, token)
    return node


def _child(trie: Trie, node: int, token: int) -> int | None:
    if node >= len(trie.backoffs):
        return None
    low, high = int(trie.first[node]), int(trie.first[node + 1])
    at = low + int(np.searchsorted(trie.words[low:high], token))
    return at if at < high and trie.words[at] == token else None


def _gives_all(trie: Trie, node: int | None, word: int) -> bool:
    """Tell whether this context decides alone: it knows the word, or nothing backs off from it."""
    if node is None:
        return False
    if _child(trie, node, word) is not None:
        return True
    return not trie.chained and trie.first[node] < trie.first[node + 1]


def _probability(trie: Trie, nodes: list[int | None], word: int) -> float:
    """Return p(word) after the first of these contexts, each one word shorter than that before it."""
    log_prob = 0.0
    for node in nodes:
        if node is None:
            continue
        child = _child(trie, node, word)
        if child is not None:
            return float(np.exp(log_prob + np.float64(trie.log_probs[child])))
        log_prob += float(trie.backoffs[node])
        if not trie.chained and trie.first[node] < trie.first[node + 1]:
            break
    return float(np.exp(log_prob))


# ---- counts


def _counts(model: NGram, node: int, context: tuple[int, ...], word: int, own: float) -> Told:
    """Return count, total and discount of a word in a context, None where the model does not tell them."""
    c, trie = model.config, model.trie
    nothing = None, None, None
    if any(c.prune) or c.prune_entropy or c.smoothing == "imported":
        return nothing
    if not context:
        return nothing
    if c.smoothing in ("add-k", "maximum-likelihood"):
        return _whole_totals(model, node, word)
    low, high = int(trie.first[node]), int(trie.first[node + 1])
    words, weight = trie.words[low:high], float(np.exp(np.float64(trie.backoffs[node])))
    lower = _lower_probs(trie, context[1:])[words]
    parts = np.exp(trie.log_probs[low:high].astype(np.float64)) - weight * lower
    if c.smoothing == "witten-bell":
        found = _fitting(parts, np.zeros(3), len(words) / weight, len(words))
    else:
        discounts = model.fit_info.get("discounts", {}).get(str(len(context) + 1))
        if discounts is None:
            return nothing
        found = _by_discounts(parts, np.array(discounts), weight)
    if found is None:
        return nothing
    counts, total = found
    at = np.flatnonzero(words == word)
    if not len(at):
        return 0, total, 0.0
    count = int(counts[at[0]])
    if c.smoothing == "witten-bell":
        return count, total, 0.0
    return count, total, float(discounts[min(count, 3) - 1])


def _whole_totals(model: NGram, node: int, word: int) -> Told:
    """Return the count where a context alone decides: (a + k) / (T + k V)."""
    trie, c = model.trie, model.config
    if c.smoothing == "maximum-likelihood":
        return None, None, None  # only ratios are kept
    denominator = c.k / float(np.exp(np.float64(trie.backoffs[node])))
    total = denominator - c.k * trie.vocab_size
    child = _child(trie, node, word)
    count = 0.0 if child is None else float(np.exp(trie.log_probs[child])) * denominator - c.k
    if max(abs(total - round(total)), abs(count - round(count))) > NEAR_WHOLE:
        return None, None, None
    return round(count), round(total), -c.k


def _lower_probs(trie: Trie, context: tuple[int, ...]) -> np.ndarray:
    """Return the probabilities (V + 1,) of all words after a context that the model knows, `<s>` last."""
    node = _node(trie, context)
    state = node if node is not None and _live(trie, node) else _state(trie, context[1:])
    log_probs, _ = trie.distributions(np.array([state], np.int64))
    return np.append(np.exp(log_probs[0].astype(np.float64)), 0.0)


def _state(trie: Trie, context: tuple[int, ...]) -> int:
    """Return the node of the longest suffix of a context with continuations."""
    for begin in range(len(context) + 1):
        node = _node(trie, context[begin:])
        if node is not None and (node == 0 or _live(trie, node)):
            return node
    return 0


def _live(trie: Trie, node: int) -> bool:
    return bool(trie.first[node] < trie.first[node + 1] or trie.backoffs[node] != 0)


def _by_discounts(
    parts: np.ndarray, discounts: np.ndarray, weight: float
) -> tuple[np.ndarray, int] | None:
    """Find the whole counts that fit own parts (a - D) / T and the weight that they leave, trying counts of
    the rarest word; None where none fit, or several do.
    """
    rarest, found = float(parts.min()), None
    for count in range(1, MOST_TRIED):
        above = count - discounts[min(count, 3) - 1]
        if rarest <= 1e-12 or above <= 0:
            continue
        fitting = _fitting(parts, discounts, above / rarest, 0)
        if fitting is None:
            continue
        left = discounts[np.minimum(fitting[0], 3) - 1].sum() / fitting[1]
        if abs(left - weight) < 1e-4:
            if found is not None and found[1] != fitting[1]:
                return None  # several counts fit, as where discounts are multiples of each other
            found = fitting
    return found


def _fitting(
    parts: np.ndarray, discounts: np.ndarray, denominator: float, types: int
) -> tuple[np.ndarray, int] | None:
    """Return the counts and their sum if these parts times the denominator are whole numbers with that
    sum, after the discounts.
    """
    total = round(denominator - types)
    if total < 1 or abs(denominator - types - total) > NEAR_WHOLE * max(1.0, total / 1000):
        return None
    scaled = parts * (total + types)
    options = np.stack([np.full(len(parts), 1.0), np.full(len(parts), 2.0), scaled + discounts[2]])
    errors = np.abs(options - discounts[:, None] - scaled)
    errors[2] = np.where(np.round(options[2]) >= 3, np.abs(options[2] - np.round(options[2])), 1)
    counts = np.round(options[errors.argmin(0), np.arange(len(parts))]).astype(np.int64)
    fits = errors.min(0).max() <= NEAR_WHOLE and int(counts.sum()) == total
    return (counts, total) if fits else None
