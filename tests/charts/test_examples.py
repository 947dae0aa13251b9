import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "charts.theme",
        "charts.spec",
        "charts.files",
        "charts.labels",
        "charts.pieces",
        "charts.terminal",
        "charts.costs",
        "charts.calibration",
        "comparison.calibration",
        "charts.shares",
        "inspect.costs",
        "inspect.explanations",
        "inspect",
        "models.classify.explanation",
    ],
)
def test_examples_in_docstrings(name):
    outcome = doctest.testmod(importlib.import_module(f"seqloom.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
