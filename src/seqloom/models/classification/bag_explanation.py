"""What each feature of a bag adds to the scores of fastText's classifier, by the spelling of the feature:
the mean of rows and a linear layer add up exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from seqloom.models.classification.bags import BagReader, FeatureRows
from seqloom.models.classification.features import join
from seqloom.models.sequence.inputs import spelled_tokens


def feature_shares(
    reader: BagReader,
    features: FeatureRows,
    text: str,
    vectors: Callable[[np.ndarray], np.ndarray],
    output: np.ndarray,
) -> tuple[dict[str, int], np.ndarray]:
    """Return the features of a text with how often each occurs, and what it adds to the score of each class,
    (features, C). A word has its own row and those of its character n-grams.
    """
    numbers, names = named(reader, text)
    known = np.isin(numbers, features.numbers)
    rows = features.find(numbers, np.array([0, len(numbers)]))
    nats = vectors(rows).astype(np.float64) @ output.T.astype(np.float64)
    places_of: dict[str, int] = {}
    places = [
        places_of.setdefault(name, len(places_of)) for name, has_row in zip(names, known) if has_row
    ]
    added = np.zeros((len(places_of), len(output)))
    np.add.at(added, places, nats / max(len(rows), 1))
    occurrences = np.bincount(np.array(places, np.int64), minlength=len(places_of)).tolist()
    return dict(zip(places_of, occurrences)), added


def named(reader: BagReader, text: str) -> tuple[np.ndarray, list[str]]:
    """Return the numbers of the features of a text, and the spelling of each: a word, or words with the
    joiner between them, in the order of `list_bag_features`.
    """
    from seqloom.kernels.features import UNKNOWN

    c, tokenizer = reader.config, reader.tokenizer
    numbers, _ = reader.features([text])
    if c.max_ngram:
        ids, _, ends = reader.spell([text])
        pieces = np.diff(ends, prepend=0)
    else:
        ids = reader.ids[tokenizer.encode_block(join([text]), True)]
        pieces = np.zeros(len(ids), np.int64)
    joiner, words, names = tokenizer.joiner.decode(), spelled_tokens(tokenizer, text), []
    known = ids != UNKNOWN
    for i, word in enumerate(words):
        names += [word] * (int(known[i]) + int(pieces[i]))
        for j in range(i + 1, min(i + c.ngrams, len(ids))):
            if ids[i] < 0 or not known[j]:
                break
            names.append(joiner.join(words[i : j + 1]))
    return numbers, names
