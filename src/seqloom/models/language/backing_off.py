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


@dataclass(frozen=True)
class Continuations:
    """What follows the context of one order, the likeliest first."""

    order: int
    context: tuple[int, ...]
    known: int  # different tokens that follow it in the model
    total: int | None  # how often it occurred, if it can be told
    tokens: list[
        tuple[int, float, int | None]
    ]  # token, its probability, its count if it can be told


def continuations(model: NGram, ids: np.ndarray, at: int, most: int) -> list[Continuations]:
    """Return the likeliest tokens that the model has seen after each suffix of what is before ids[at], the
    longest first.
    """
    trie, found = model.trie, []
    for context in _contexts(trie, ids, at):
        node = _node(trie, context)
        low, high = (0, 0) if node is None else trie.first[node : node + 2].tolist()
        words, probs = trie.words[low:high], np.exp(trie.log_probs[low:high].astype(np.float64))
        best = np.argsort(-probs, kind="stable")[:most]
        best = best[probs[best] > 0]  # <s> follows nothing
        told = _all_counts(model, node, context) if node is not None and low < high else None
        counts = [None] * len(words) if told is None else told[1].tolist()
        found.append(
            Continuations(
                len(context) + 1,
                context,
                int((probs > 0).sum()),
                None if told is None else told[2],
                [(int(words[i]), float(probs[i]), counts[i]) for i in best.tolist()],
            )
        )
    return found


def _contexts(trie: Trie, ids: np.ndarray, at: int) -> list[tuple[int, ...]]:
    """Return what is before ids[at], with fewer and fewer tokens, down to none."""
    before = [trie.vocab_size, *map(int, ids[:at])][-(trie.order - 1) :] if trie.order > 1 else []
    return [tuple(before[len(before) - k :]) for k in range(len(before), -1, -1)]


def order_shares(
    model: NGram, ids: np.ndarray, at: int, *, counted: bool = True
) -> list[OrderShare]:
    """Return what each order adds to the probability of the token ids[at], the highest order first; `ids`
    are of one sequence. Finding the counts takes most of the time.
    """
    trie, word = model.trie, int(ids[at])
    contexts = _contexts(trie, ids, at)
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
        if counted and node is not None and children:
            counts = _counts(model, node, context, word)
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


def _counts(model: NGram, node: int, context: tuple[int, ...], word: int) -> Told:
    """Return count, total and discount of a word in a context, None where the model does not tell them."""
    found = _all_counts(model, node, context)
    if found is None:
        return None, None, None
    words, counts, total, discounts = found
    at = np.flatnonzero(words == word)
    count = int(counts[at[0]]) if len(at) else 0
    return count, total, float(discounts[min(count, 3)])


Counted = tuple[np.ndarray, np.ndarray, int, np.ndarray]


def _all_counts(model: NGram, node: int, context: tuple[int, ...]) -> Counted | None:
    """Return the words that follow a context, their counts, the sum of these, and what is subtracted from a
    count of 0, 1, 2, and 3 or more; None where the model does not tell them.
    """
    c, trie = model.config, model.trie
    pruned = any(c.prune) or c.prune_entropy
    if pruned or not context or c.smoothing in ("imported", "maximum-likelihood"):
        return None  # maximum likelihood keeps ratios only
    low, high = int(trie.first[node]), int(trie.first[node + 1])
    words, weight = trie.words[low:high], float(np.exp(np.float64(trie.backoffs[node])))
    probs = np.exp(trie.log_probs[low:high].astype(np.float64))
    if c.smoothing == "add-k":
        found = _of_add_k(probs, c.k, c.k / weight, trie.vocab_size)
        return None if found is None else (words, *found, np.full(4, -c.k))
    parts = probs - weight * _lower_probs(trie, context[1:])[words]
    if c.smoothing == "witten-bell":
        found, discounts = (
            _fitting(parts, np.zeros(3), len(words) / weight, len(words)),
            np.zeros(3),
        )
    else:
        known = model.fit_info.get("discounts", {}).get(str(len(context) + 1))
        if known is None:
            return None
        discounts = np.array(known)
        found = _by_discounts(parts, discounts, weight)
    return None if found is None else (words, *found, np.append(0.0, discounts))


def _of_add_k(
    probs: np.ndarray, k: float, denominator: float, vocab_size: int
) -> tuple[np.ndarray, int] | None:
    """Return the counts where a context alone decides: (a + k) / (T + k V)."""
    total, counts = denominator - k * vocab_size, probs * denominator - k
    whole = np.round(counts)
    if max(abs(total - round(total)), np.abs(counts - whole).max(initial=0.0)) > NEAR_WHOLE:
        return None
    return whole.astype(np.int64), round(total)


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
