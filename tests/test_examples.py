"""Examples in docstrings give what they say they give, in every module that has some."""

import doctest
import importlib
from pathlib import Path

import pytest

import seqloom

ROOT = Path(seqloom.__file__).parent
EXTRAS = {"charts": "altair", "text.word_forms": "lemminflect", "nn": "torch"}  # what they need
MODULES = [
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def test_there_are_examples():
    assert len(MODULES) > 50


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    for prefix, extra in EXTRAS.items():
        if name.startswith(prefix):
            pytest.importorskip(extra)
    module = importlib.import_module(f"seqloom.{name}".removesuffix(".__init__"))
    outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0
    assert outcome.failed == 0
