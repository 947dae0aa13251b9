"""What Python shows of every registered model: signature, help, repr; and what it says of an option
in the wrong place.
"""

import dataclasses
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seqloom
from seqloom import contracts, registry
from seqloom.config import Config, option
from seqloom.contracts import Classifier
from seqloom.describing import public_names
from seqloom.errors import ConfigError
from seqloom.models.language.configs import LSTMConfig
from tests.saved import NEWEST

NAMES = list(registry.MODELS)
DOCS = Path(__file__).parent.parent.parent / "docs"
CONTRACTS = [getattr(contracts, name) for name in dir(contracts) if name[0].isupper()]


@pytest.mark.parametrize("name", NAMES)
def test_signature_and_help(name):
    cls, config = registry.model_class(name), registry.config_class(name)
    shown = inspect.signature(cls).parameters
    fields = dataclasses.fields(config)
    trained = "train" in config.fit_arguments
    assert list(shown) == ["config", *(f.name for f in fields), *(["train"] if trained else [])]
    assert ("train : TrainConfig | dict" in cls.__doc__) == trained
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
            r"'lr'; it belongs to training: fit\(data, lr=\.\.\.\), or train=TrainConfig\(lr=\.\.\.\)",
        ),
        (
            lambda: LSTMConfig(epochs=1),
            r"'epochs'; it belongs to training: fit\(data, epochs=\.\.\.\), or train=TrainConfig\(",
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


# ---- options of training


@pytest.mark.parametrize("name", NAMES)
def test_options_of_training_are_parameters_of_networks(name):
    model = registry.model_class(name)()
    training = {f"train__{f.name}" for f in dataclasses.fields(seqloom.TrainConfig)} | {"train"}
    if not model.trained:
        assert not training & model.get_params().keys()
        with pytest.raises(ConfigError, match="unknown option 'train"):
            model.set_params(train__lr=0.5)
        return
    assert training < model.get_params().keys()
    assert training & model.get_params(deep=False).keys() == {"train"}
    assert model.train is None
    changed = model.set_params(train__lr=0.5, train__steps=3)
    assert repr(changed) == f"<{type(model).__name__}(train={{'steps': 3, 'lr': 0.5}}), not fitted>"
    for copy in (changed.__sklearn_clone__(), type(model)(**changed.get_params())):
        assert copy.train == seqloom.TrainConfig(lr=0.5, steps=3)
        assert copy.get_params()["train__lr"] == 0.5
        assert copy.config == model.config


def chosen(model, **arguments):
    train, training = arguments.pop("train", None), arguments
    return model.fit_options(None, train, None, None, training=training).train


def test_options_of_training_in_every_place():
    """Those of `fit` count more than those of the model, single ones more than `train`."""
    train = seqloom.TrainConfig
    model = seqloom.LSTM(train={"steps": 5, "lr": 0.1})
    assert chosen(seqloom.LSTM()) is None
    assert chosen(seqloom.LSTM(), steps=2) == train(steps=2)
    assert chosen(seqloom.LSTM(), train={"steps": 2}) == train(steps=2)
    assert chosen(seqloom.LSTM(), train={"steps": 2}, lr=0.5) == train(steps=2, lr=0.5)
    assert chosen(model) == train(steps=5, lr=0.1)
    assert chosen(model, train=train(lr=0.2), seed=7) == train(steps=5, lr=0.2, seed=7)
    assert chosen(model, minutes=1) == train(minutes=1, lr=0.1)
    assert chosen(model, train={"epochs": 2}, steps=3) == train(steps=3, lr=0.1)
    assert seqloom.LSTM(train__steps=2).train == train(steps=2)
    assert model.set_params(train__minutes=2).train == train(minutes=2, lr=0.1)
    assert model.set_params(train=None).train is None
    assert seqloom.LSTM(LSTMConfig(d_hidden=4), train={"steps": 2}).config.d_hidden == 4


@pytest.mark.parametrize(
    ("fit", "says"),
    [
        (
            lambda: seqloom.LSTM().fit("a", stepz=2),
            r"unknown option 'stepz'; did you mean 'steps'\?",
        ),
        (lambda: seqloom.LSTM().fit("a", train={"stepz": 2}), "unknown option 'stepz'"),
        (lambda: seqloom.LSTM(train={"stepz": 2}), "unknown option 'stepz'"),
        (lambda: seqloom.LSTM().fit("a", steps=0), "steps must be at least 1; got 0"),
        (lambda: seqloom.LSTM().fit("a", steps=1, epochs=1), "steps and epochs both say how long"),
        (
            lambda: seqloom.LSTM().fit("a", d_hidden=2),
            r"d_hidden is an option of lstm models: LSTM\(d_hidden=\.\.\.\)",
        ),
        (
            lambda: seqloom.LSTM().fit("a", train=5),
            r"train must be a TrainConfig or a dict such as \{'steps': 200\}; got 5",
        ),
        (lambda: seqloom.LSTM(train=LSTMConfig()), "train must be a TrainConfig or a dict"),
        (lambda: seqloom.NGram().fit("a", steps=2), "ngram models do not use steps in fit"),
        (lambda: seqloom.NGram().fit("a", order=2), "order is an option of ngram models"),
        (
            lambda: seqloom.FastTextClassifier().fit(["a", "b"], ["x", "y"], epochs=1),
            "epochs is an option of fasttext-classifier models",
        ),
        (lambda: seqloom.Arima().fit([1.0, 2.0], steps=1), "arima models do not use steps in fit"),
    ],
)
def test_a_wrong_option_of_training(fit, says):
    with pytest.raises(ConfigError, match=says):
        fit()


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


# ---- tab completion


def completed(model):
    return {name for name in dir(model) if not name.startswith("_")}


@pytest.mark.parametrize("name", NAMES)
def test_completion_shows_the_names_of_the_reference(name):
    """About 25, not the 60 to 100 that models and the engine use among themselves; all exist."""
    model = seqloom.load(NEWEST / name)
    shown = completed(model)
    assert shown == public_names(type(model))
    assert 15 <= len(shown) <= 38
    assert completed(type(model)()) <= shown
    assert {"fit", "evaluate", "save", "load", "get_params"} <= shown
    for other in shown:
        assert other in vars(model) or inspect.getattr_static(type(model), other) is not None
    page = (DOCS / "reference-python.md").read_text(encoding="utf-8")
    contract = next(base for base in type(model).__mro__ if base in CONTRACTS)
    parts = [
        page.partition(f"\n### {title}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
        for title in (contract.__name__, type(model).__name__)
    ]
    rows = re.findall(r"^\| `(\w+)|(?<=^Also: )(.*)\.$", "\n".join(parts), re.M)
    listed = {name for row in rows for text in row for name in re.findall(r"\w+", text)}
    assert listed == shown


def test_completion_of_a_model_of_ones_own():
    class Mine(Classifier):
        strength: float = option(0.5, "how strong")

        def fit_examples(self, data, options):
            self.seen = len(data)

        def class_log_probs(self, examples):
            raise NotImplementedError

    model = Mine().fit(["a", "b"], ["x", "y"])
    shown = completed(model)
    assert {"seen", "strength", "fit_examples", "class_log_probs", "predict"} <= shown
    assert not {"learning", "learnt", "log", "given_options", "array_specs"} & shown
    assert model.learnt["classes"] == ["x", "y"]  # hidden, and yet there


def test_pages_use_names_that_completion_shows():
    """Of models: variables that the pages call by such names."""
    models = [registry.model_class(name) for name in NAMES]
    public = set().union(*map(public_names, models))
    hidden = {name for cls in models for name in dir(cls) if not name.startswith("_")} - public
    pages = [
        *(page for page in DOCS.glob("*.md") if page.name != "design.md"),
        *DOCS.parent.glob("recipes/*.md"),
    ]
    found = {
        f"{page.name}: {name}"
        for page in pages
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
        for name in re.findall(r"\b(?:model|network|tagger|vectors|lm|hmm)\.([a-z]\w*)", block)
        if name in hidden
    }
    assert not found


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
