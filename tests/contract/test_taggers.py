"""Every registered tagger keeps the rules of `seqloom.testing`. A new one is tested here by being
in the registry.
"""

from functools import cache

import pytest

from seqloom import registry
from seqloom.contracts import Tagger
from seqloom.errors import ConfigError, NotFitted
from seqloom.testing.rules import check, specimen
from seqloom.testing.tagging import NER, POS, RULES

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "tagger"]


def make(name):
    """A network is small, so that it is learnt in little time."""
    return registry.model_class(name)(**({"d_hidden": 16} if name == "tagger" else {}))


@cache
def subject(name):
    return specimen(make(name), Tagger, None, POS, POS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, rule):
    check(rule, subject(name))


@pytest.mark.parametrize("name", NAMES)
def test_words_are_taken_as_they_are(name):
    with pytest.raises(NotFitted):
        _ = registry.model_class(name)().tokenizer
    with pytest.raises(ConfigError, match="take words as they are and have no tokenizer"):
        _ = subject(name).model.tokenizer


@pytest.mark.parametrize("name", NAMES)
def test_what_was_seen_is_mostly_right(name):
    model = make(name).fit(POS)
    assert sum(a == b for words, gold in POS for a, b in zip(model.predict(words), gold)) >= 15
    result = make(name).fit(NER).evaluate(NER)
    assert result["span_f1"] > 0.7
    assert "scheme:bio" in str(result.signature)
    assert any(
        "NEVER" in note for note in model.evaluate([(["the", "dog"], ["DET", "NEVER"])]).notes
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_tag_only_is_said(name, monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    make(name).fit([(["a", "b"], ["X", "X"])])
    assert any("only one tag, 'X'" in line for line in said)
