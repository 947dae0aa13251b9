"""Two models on the same text."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.contracts import LanguageModel
from seqloom.contracts.reading import tally
from seqloom.data.corpus import as_corpus
from seqloom.errors import ConfigError
from seqloom.metrics import bootstrap
from seqloom.metrics.costs import SegmentCosts


def paired_difference(first: LanguageModel, second: LanguageModel, data: Any) -> tuple[str, bootstrap.Paired]:
    """How much the first model's cost differs from the second's on the same text: unit, and the paired test.

    Below zero the first is better. Tokenizers may differ where both can spell every byte.
    """
    corpus = as_corpus(data)
    by_bytes = first.tokenizer.lossless and second.tokenizer.lossless
    if not by_bytes and (first.tokenizer != second.tokenizer or first.unit != second.unit):
        raise ConfigError("the models cut the text into different tokens and at least one loses bytes, so their "
                          "likelihoods cannot be compared: " + " and ".join(
                              f"{m.tokenizer.label()} by {m.unit}" for m in (first, second)))
    costs = []
    for model in (first, second):
        segments = SegmentCosts(model.tokenizer, model.unit, corpus)
        tally(model, corpus, costs=segments)
        values, weights = segments.result()
        costs.append(values / np.log(2) if by_bytes else values)
    unit = "bits per byte" if by_bytes else "nats per token"
    return unit, bootstrap.paired(costs[0], costs[1], weights)
