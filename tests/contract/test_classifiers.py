"""Every registered classifier keeps the rules of `seqloom.testing`. A new one is tested here by
being in the registry.
"""

from functools import cache

import pytest

import seqloom
from seqloom import registry
from seqloom.contracts import Classifier
from seqloom.errors import ConfigError
from seqloom.testing.classification import HELD_OUT, PAIRS, RULES
from seqloom.testing.rules import check, specimen

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "classifier"]


def make(name):
    """A network is small, so that it is learnt in little time."""
    return registry.model_class(name)(**({"d_hidden": 16} if name == "classifier" else {}))


@cache
def subject(name):
    return specimen(make(name), Classifier, None, PAIRS, HELD_OUT)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, rule):
    check(rule, subject(name))


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name != "majority"]
)  # which answers the same for every text
def test_what_was_seen_is_mostly_right(name):
    model = make(name).fit(PAIRS)
    assert model.classes == ["bad", "good", "neutral"]
    assert sum(model.predict(text) == label for text, label in PAIRS) >= 6
    result = model.evaluate(HELD_OUT)
    assert "train:" in str(result.signature)
    assert result.to_dict()["details"]["classes"][0]["class"] == "bad"


@pytest.mark.parametrize("name", NAMES)
def test_what_fit_and_load_have_no_use_for_is_refused(name, tmp_path):
    kind = registry.model_class(name)
    if "run" in registry.config_class(name).fit_arguments:
        make(name).fit(PAIRS, run=tmp_path / "run")
    else:
        with pytest.raises(ConfigError, match="do not use run"):
            make(name).fit(PAIRS, run=tmp_path / "run")
    subject(name).model.save(tmp_path / "m")
    assert type(kind.load(tmp_path / "m")) is kind
    with pytest.raises(ConfigError, match="not"):
        seqloom.NGram.load(tmp_path / "m")


@pytest.mark.parametrize("name", NAMES)
def test_one_class_only_is_said(name, monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    make(name).fit([("a b", "x"), ("c", "x")])
    assert any("only one class" in line for line in said)
