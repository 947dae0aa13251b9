"""n-gram counting and smoothing the slow, obvious way: dictionaries of tuples, formulas as they
stand in the paper.
"""

import math
from collections import Counter

BOS = "<s>"


def count(units, order):
    """{k: Counter of k-grams}; each unit is a list that ends in its end symbol."""
    out = {}
    for k in range(1, order + 1):
        out[k] = Counter(tuple([BOS, *u][i : i + k]) for u in units for i in range(len(u) + 2 - k))
    return out


def adjusted(counts, order):
    """Kneser-Ney: below the highest order count different words to the left, except after <s>."""
    out = {order: counts[order]}
    for k in range(1, order):
        left = Counter(g[1:] for g in counts[k + 1])
        out[k] = {g: (c if g[0] == BOS else left[g]) for g, c in counts[k].items()}
    return out


def modified_discounts(counts):
    n = Counter(min(c, 5) for c in counts if c)
    y = n[1] / (n[1] + 2 * n[2])
    return [0.0] + [j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3)]


class Model:
    """Interpolated smoothing by recursion. `discounts(k) -> [D0, D1, D2, D3]`, or None for Witten-Bell."""

    def __init__(self, units, order, vocabulary, *, method, k=1.0):
        raw = count(units, order)
        self.method, self.k, self.order, self.vocabulary = method, k, order, vocabulary
        self.counts = (
            adjusted(raw, order) if method in ("modified-kneser-ney", "kneser-ney") else raw
        )
        self.followers = {}
        for table in self.counts.values():
            for gram, c in table.items():
                if gram != (BOS,):
                    self.followers.setdefault(gram[:-1], {})[gram[-1]] = c
        self.discount = {
            n: self._discounts([c for g, c in t.items() if g != (BOS,)])
            for n, t in self.counts.items()
        }

    def _discounts(self, counts):
        n = Counter(counts)
        if self.method == "modified-kneser-ney":
            return modified_discounts(counts)
        if self.method in ("kneser-ney", "absolute"):
            return [0.0] + [n[1] / (n[1] + 2 * n[2])] * 3
        return [0.0] * 4

    def prob(self, word, context):
        context = tuple(context)[-(self.order - 1) :] if self.order > 1 else ()
        if self.method in ("maximum-likelihood", "add-k"):
            while context and context not in self.followers:
                context = context[1:]
            seen = self.followers[context]
            k = self.k if self.method == "add-k" else 0.0
            return (seen.get(word, 0) + k) / (sum(seen.values()) + k * len(self.vocabulary))
        return self._interpolated(word, context)

    def _interpolated(self, word, context):
        lower = self._interpolated(word, context[1:]) if context else 1 / len(self.vocabulary)
        seen = self.followers.get(context)
        if not seen:
            return lower
        total = sum(seen.values())
        if self.method == "witten-bell":
            return (seen.get(word, 0) + len(seen) * lower) / (total + len(seen))
        d = self.discount[len(context) + 1]
        gamma = sum(d[min(c, 3)] for c in seen.values()) / total
        c = seen.get(word, 0)
        return (c - d[min(c, 3)]) / total + gamma * lower if c else gamma * lower

    def log_probs(self, units):
        out = []
        for unit in units:
            context = [BOS]
            for word in unit:
                p = self.prob(word, context)
                out.append(math.log(p) if p > 0 else -math.inf)
                context.append(word)
        return out
