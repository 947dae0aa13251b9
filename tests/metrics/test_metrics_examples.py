import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "result",
        "likelihood",
        "bootstrap",
        "segments",
        "costs",
        "slices",
        "fairness",
        "latency",
        "error_words",
        "multilabel",
        "corpus_score",
        "ngram_overlap",
        "bleu",
        "chrf",
        "rouge",
        "edits",
        "translation",
    ],
)
def test_examples_in_docstrings(name):
    outcome = doctest.testmod(importlib.import_module(f"seqloom.metrics.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
