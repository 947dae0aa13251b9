"""Every registered answerer keeps the rules of `seqloom.testing`. A new one is tested here by being
in the registry.
"""

from functools import cache

import pytest

from seqloom import registry
from seqloom.contracts import Answerer
from seqloom.testing.answering import QUESTIONS, RULES
from seqloom.testing.rules import check, specimen

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "answerer"]


@cache
def subject(name):
    model = registry.model_class(name)(d_hidden=16, d_embed=16, max_length=32)
    return specimen(model, Answerer, None, QUESTIONS, QUESTIONS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, rule):
    check(rule, subject(name))
