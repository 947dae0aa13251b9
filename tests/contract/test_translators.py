"""Every registered translator keeps the rules of `seqloom.testing`. A new one is tested here by
being in the registry.
"""

from functools import cache

import pytest

from seqloom import registry
from seqloom.contracts import Translator
from seqloom.testing.rules import check, specimen
from seqloom.testing.translation import HELD_OUT, PAIRS, RULES

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "translator"]
QUICK = {
    "seq2seq": {"tokenizer": "char", "d_embed": 8, "d_hidden": 8},
    "transformer": {
        "tokenizer": "char",
        "d_model": 8,
        "n_heads": 2,
        "n_layers": 1,
        "n_decoder_layers": 1,
    },
}


@cache
def subject(name):
    return specimen(
        registry.model_class(name)(**QUICK.get(name, {})), Translator, None, PAIRS, HELD_OUT
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, rule):
    check(rule, subject(name))
