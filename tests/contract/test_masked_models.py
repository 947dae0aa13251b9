"""Every registered masked language model keeps the rules of `seqloom.testing`, as it is: published
weights are not fitted.
"""

from functools import cache

import pytest

from seqloom import registry
from seqloom.contracts import MaskedModel
from seqloom.errors import ConfigError
from seqloom.testing.masked import HELD_OUT, RULES, TEXT
from seqloom.testing.rules import check, fits, specimen
from tests.fuzz.specimens import SPECIMENS

pytest.importorskip("torch")
NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "masked language model"]


@cache
def subject(name):
    return specimen(SPECIMENS[name](), MaskedModel, None, TEXT, HELD_OUT)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if not fits(rule)], ids=lambda rule: rule.__name__
)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, rule):
    check(rule, subject(name))


@pytest.mark.parametrize("name", NAMES)
def test_fit_says_where_such_models_come_from(name):
    with pytest.raises(ConfigError, match="convert"):
        registry.model_class(name)().fit("a text")
