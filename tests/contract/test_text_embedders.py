"""Every registered model of sentence vectors keeps the rules of `seqloom.testing`: as it is, and
with 8 bits.
"""

from functools import cache

import pytest

from seqloom import registry
from seqloom.contracts import Embedder, TextEmbedder
from seqloom.errors import ConfigError
from seqloom.testing.rules import check, fits, specimen
from seqloom.testing.sentence_vectors import PAIRS, RULES, TEXT
from tests.fuzz.specimens import SPECIMENS

REGISTERED = [name for name, entry in registry.MODELS.items() if entry.task == "sentence vectors"]
NAMES = [name for name in SPECIMENS if name.startswith(tuple(REGISTERED))]


@cache
def subject(name):
    return specimen(SPECIMENS[name](), TextEmbedder, None, TEXT, PAIRS)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if not fits(rule)], ids=lambda rule: rule.__name__
)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, rule):
    check(rule, subject(name))


@pytest.mark.parametrize("name", REGISTERED)
def test_fit_says_where_such_models_come_from(name):
    with pytest.raises(ConfigError, match="convert"):
        registry.model_class(name)().fit("a text")


@pytest.mark.parametrize("name", REGISTERED)
def test_they_are_embedders_though_they_share_none_of_their_code(name):
    cls = registry.model_class(name)
    assert issubclass(cls, Embedder)
    assert isinstance(cls(), Embedder)
    assert Embedder not in cls.__mro__
