"""Which words are typical of errors: log-odds with a prior, as in Monroe, Colaresi and Quinn 2008, "Fightin' Words: Lexical
Feature Selection and Evaluation for Identifying the Content of Political Conflict", equations 16 and 22.

    delta_w = log (a_w + k_w) / (A + k - a_w - k_w)  -  log (b_w + k_w) / (B + k - b_w - k_w),   z_w = delta_w / its deviation

a_w of A texts with an error have the word, b_w of B texts without. The prior k_w follows the frequency of the word in both
together, one text a word on average, so a word that is merely rare does not come first. Words are what stands between white
space, in lower case and without punctuation around them, and count once a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

SURE = 1.96  # deviations; words with less are left out
FEWEST = 2  # texts with an error that have the word
AROUND = ".,;:!?\"'()[]{}<>«»“”‘’…-–—*/\\"


def text_counts(texts: Iterable[str]) -> Counter[str]:
    """In how many texts each word is.

    >>> sorted(text_counts(["So, so dull!", "dull"]).items())
    [('dull', 2), ('so', 1)]
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({word for raw in text.lower().split() if (word := raw.strip(AROUND))})
    return counts


def characteristic_words(
    inside: Counter[str], outside: Counter[str], most: int
) -> list[dict[str, Any]]:
    """The words that are more frequent inside than chance allows, the surest first.

    >>> characteristic_words(Counter(not_=9, film=9), Counter(film=90, fine=80), 3)
    [{'word': 'not_', 'count': 9, 'z': 2.57}]
    """
    words = sorted(word for word, count in inside.items() if count >= FEWEST)
    if not words or not outside:
        return []
    total_inside, total_outside = inside.total(), outside.total()
    a, b = (np.array([counts[word] for word in words], np.float64) for counts in (inside, outside))
    prior_total = len(inside | outside)
    prior = (a + b) * prior_total / (total_inside + total_outside)
    odds = [
        np.log(n + prior) - np.log(total + prior_total - n - prior)
        for n, total in ((a, total_inside), (b, total_outside))
    ]
    z = (odds[0] - odds[1]) / np.sqrt(1 / (a + prior) + 1 / (b + prior))
    best = [i for i in np.argsort(-z, kind="stable").tolist() if z[i] > SURE][:most]
    return [{"word": words[i], "count": int(a[i]), "z": round(float(z[i]), 2)} for i in best]


def words_of_errors(
    errors: Sequence[dict[str, Any]],
    texts: Sequence[str],
    gold: Sequence[str],
    predicted: Sequence[str],
    most: int,
) -> list[dict[str, Any]]:
    """The kinds of errors with their words: against the texts of the same class that were recognised."""
    places: dict[tuple[str, str], list[int]] = {}
    for i, pair in enumerate(zip(gold, predicted)):
        places.setdefault(pair, []).append(i)
    right = {
        name: text_counts(texts[i] for i in places.get((name, name), []))
        for name in {kind["gold"] for kind in errors}
    }
    return [
        {
            **kind,
            "words": characteristic_words(
                text_counts(texts[i] for i in places[kind["gold"], kind["predicted"]]),
                right[kind["gold"]],
                most,
            ),
        }
        for kind in errors
    ]
