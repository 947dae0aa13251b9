"""What Python shows of every registered model: signature, help, repr; and what it says of an option
in the wrong place.
"""

import dataclasses
import inspect
import pydoc
import re
import subprocess
import sys

import pytest

import seqloom
from seqloom import registry
from seqloom.config import Config, option
from seqloom.contracts import Classifier
from seqloom.errors import ConfigError
from seqloom.models.language.configs import LSTMConfig
from tests.saved import NEWEST

NAMES = list(registry.MODELS)


@pytest.mark.parametrize("name", NAMES)
def test_signature_and_help(name):
    cls, config = registry.model_class(name), registry.config_class(name)
    shown = inspect.signature(cls).parameters
    fields = dataclasses.fields(config)
    assert list(shown) == ["config", *(f.name for f in fields)]
    for f in fields:
        assert shown[f.name].default == f.default
        assert shown[f.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"{f.name} : " in cls.__doc__
        assert f.metadata["help"] in cls.__doc__
    assert len(cls.__doc__.partition("\n")[0]) > 20
    assert not cls.__doc__.startswith("Parameters")


def test_types_and_defaults_are_shown():
    text = str(inspect.signature(seqloom.LSTM))
    assert "n_layers: int = " in text
    assert "unit: Literal['line', 'document', 'stream'] = 'stream'" in text
    page = pydoc.plain(pydoc.render_doc(seqloom.LSTM))
    assert "Long short-term memory as a language model" in page
    assert "unit : 'line' | 'document' | 'stream', default 'stream'" in page
    assert "vocab_size : int | None, default None" in page


@pytest.mark.parametrize("name", NAMES)
def test_params_and_repr(name):
    cls = registry.model_class(name)
    model = cls()
    assert repr(model) == f"<{cls.__name__}(), not fitted>"
    assert cls(**model.get_params()).config == model.config
    assert model.set_params() is model
    if "min_count" in model.get_params():
        assert model.set_params(min_count=3) is model
        assert model.config.min_count == model.get_params(deep=False)["min_count"] == 3
        assert repr(model) == f"<{cls.__name__}(min_count=3), not fitted>"
        with pytest.raises(ConfigError, match="min_count must be at least 1"):
            model.set_params(min_count=0)
    with pytest.raises(ConfigError, match="unknown option 'colour'"):
        model.set_params(colour="red")


def test_a_fitted_model_says_so_and_forgets_with_other_options():
    model = seqloom.NGram(order=2).fit("a b a b c\n")
    assert repr(model) == "<NGram(order=2), fitted: whitespace-5, 6 tokens>"
    model.set_params(order=1)
    assert repr(model) == "<NGram(order=1), not fitted>"
    assert model.fit("a b\n").fitted
    model = seqloom.NaiveBayes().fit(["a", "b"], ["x", "y"])
    assert repr(model) == "<NaiveBayes(), fitted: 2 texts, 2 classes>"


@pytest.mark.parametrize("name", NAMES)
def test_every_fitted_model_has_a_repr(name):
    assert re.fullmatch(r"<\w+\(.*\), fitted: .+>", repr(seqloom.load(NEWEST / name)))


def test_a_mixture_keeps_its_members():
    mixed = seqloom.Mixture.of([seqloom.NGram(order=n).fit("a b a b c\n") for n in (1, 2)]).fit(
        "a b\n"
    )
    members = mixed.members
    assert mixed.__sklearn_clone__().members == members
    assert mixed.set_params(tolerance=1e-3).members == members
    assert mixed.fit("a b\n").score("a b") < 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: seqloom.LSTM(lr=1),
            r"'lr'; it belongs to TrainConfig: fit\(data, train=TrainConfig\(lr=\.\.\.\)\)",
        ),
        (
            lambda: LSTMConfig(epochs=1),
            r"'epochs'; it belongs to TrainConfig: fit\(data, train=TrainConfig\(epochs=\.\.\.\)\)",
        ),
        (
            lambda: seqloom.LSTM(device="cpu"),
            r"'device'; it belongs to fit: fit\(data, device=\.\.\.\)",
        ),
        (
            lambda: seqloom.NGram(temperature=1),
            r"'temperature'; it belongs to generate: generate\(prompt, temperature=\.\.\.\)",
        ),
        (
            lambda: seqloom.TrainConfig(d_hidden=4),
            r"'d_hidden'; it belongs to the model, such as \w+\(d_hidden=\.\.\.\)",
        ),
        (lambda: seqloom.LSTM(n_heads=4), "'n_heads'; it belongs to gpt$"),
        (
            lambda: seqloom.NaiveBayes(beta=1),
            "'beta'; known: tokenizer, vocab_size, .*calibrate$",
        ),
        (
            lambda: seqloom.NaiveBayes(variannt="x"),
            r"'variannt'; did you mean 'variant'\? \(known: tokenizer, ",
        ),
        (lambda: seqloom.NGram(order=1).fit("a b\n").generate(lr=1), "'lr'; known: max_tokens, "),
        (lambda: seqloom.TrainConfig(colour=1), "'colour'; (known|did you mean)"),
    ],
)
def test_an_option_in_the_wrong_place(make, says):
    with pytest.raises(ConfigError, match=f"unknown option {says}"):
        make()


def test_a_model_of_ones_own():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class OwnConfig(Config):
        strength: float = option(0.5, "how strong")

    class Own(Classifier):
        name, config_class = "own", OwnConfig
        fit_examples = class_log_probs = arrays = array_specs = restore_arrays = None

    assert str(inspect.signature(Own)).endswith("*, strength: float = 0.5)")
    assert "strength : float, default 0.5\n    how strong" in Own.__doc__
    assert Own.__doc__.startswith(
        "Own.\n\nParameters"
    )  # not with what the script, or IPython, says of itself
    with pytest.raises(ConfigError, match="unknown option 'lr'; known: strength"):
        Own(lr=1)


def test_nothing_of_it_is_loaded_at_once():
    """`import seqloom` and the options for --help load neither NumPy nor what describes a model."""
    code = (
        "import sys, seqloom; from seqloom import registry; registry.config_class('lstm')(); "
        "print([m for m in ('numpy', 'inspect', 'seqloom.describing', 'sklearn') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "seqloom.describing" not in run.stdout
    assert "numpy" not in run.stdout
    assert "sklearn" not in run.stdout
