"""IBM model 1 as it is written down: every target word by every source word of its pair, in dictionaries."""

import math
from collections import defaultdict


def model_one(pairs, iterations, null="NULL"):
    """t(f | e) by (e, f) after so many iterations, and the log-likelihood before each; `pairs`:
    lists of words.
    """
    pairs = [([*source, null], target) for source, target in pairs]
    met = {(e, f) for source, target in pairs for e in source for f in target}
    n = defaultdict(int)
    for e, _ in met:
        n[e] += 1
    t = {(e, f): 1 / n[e] for e, f in met}
    likelihoods = []
    for _ in range(iterations):
        counts, totals, likelihood = defaultdict(float), defaultdict(float), 0.0
        for source, target in pairs:
            for f in target:
                whole = sum(t[e, f] for e in source)
                likelihood += math.log(whole / len(source))
                for e in source:
                    counts[e, f] += t[e, f] / whole
                    totals[e] += t[e, f] / whole
        t = {(e, f): count / totals[e] for (e, f), count in counts.items()}
        likelihoods.append(likelihood)
    return t, likelihoods
