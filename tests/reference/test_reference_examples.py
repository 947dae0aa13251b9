import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "activations",
        "attention",
        "bptt",
        "checks",
        "gru",
        "lstm",
        "output",
        "parameters",
        "rnn",
        "sequences",
        "transformer_block",
    ],
)
def test_examples_in_docstrings(name: str) -> None:
    outcome = doctest.testmod(
        importlib.import_module(f"seqloom.reference.{name}"), optionflags=doctest.ELLIPSIS
    )
    assert outcome.attempted > 0
    assert outcome.failed == 0
