import doctest
import importlib

import pytest

EXTRAS = {"lemmas": "lemminflect"}


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer",
        "marks",
        "bundled",
        "normalize",
        "contractions",
        "stopwords",
        "stems",
        "lemmas",
        "segment",
    ],
)
def test_examples_in_docstrings(name: str) -> None:
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    outcome = doctest.testmod(importlib.import_module(f"seqloom.text.{name}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
