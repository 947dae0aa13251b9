import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    ["stepper", "sampling", "healing", "stops", "beam", "constraints", "coverage", "ensemble"],
)
def test_examples_in_docstrings(name):
    outcome = doctest.testmod(importlib.import_module(f"seqloom.decoding.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
