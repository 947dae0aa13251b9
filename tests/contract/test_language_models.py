"""Every registered language model keeps the rules of `seqloom.testing`, and those of saving that
need a trick to be seen.

A new model is tested here by being in the registry.
"""

import json
import shutil
from functools import cache

import pytest

import seqloom
from seqloom import registry, storage
from seqloom.contracts import LanguageModel
from seqloom.errors import ModelError
from seqloom.models.language.mixture import Mixture
from seqloom.models.language.neural_cache import NeuralCache
from seqloom.testing.language import HELD_OUT, RULES
from seqloom.testing.language import TEXT as TOY
from seqloom.testing.rules import check, fit, fits, specimen, tree

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "language model"]
SMALL = {
    "nplm": {"d_hidden": 12, "d_embed": 6, "order": 3},
    "rnn": {"d_hidden": 12},
    "lstm": {"d_hidden": 12},
    "gru": {"d_hidden": 12},
    "gpt": {"d_model": 12, "n_heads": 2, "n_layers": 2, "context": 16},
}


def build(name: str, **options: object) -> LanguageModel:
    if name == "mixture":
        members = [
            registry.model_class(n)(**{"tokenizer": "whitespace", **options}).fit(TOY)
            for n in ("ngram", "cache")
        ]
        return Mixture.of(members)
    if name == "neural-cache":
        pytest.importorskip("torch")
        member = fit(build("gru", **{"tokenizer": "whitespace", **options}), TOY)
        return NeuralCache.of(member, window=20, theta=3.0, share=0.3)
    if "train" in registry.config_class(name).fit_arguments:
        pytest.importorskip("torch")
        options = {"tokenizer": "whitespace", **SMALL[name], **options}
    return registry.model_class(name)(**options)


@cache
def subject_of(name, tokenizer="whitespace", unit="line"):
    """One for all tests of a kind: a fitted model is read-only."""
    return specimen(build(name, tokenizer=tokenizer, unit=unit), LanguageModel, None, TOY, HELD_OUT)


@pytest.fixture(
    scope="module",
    ids="-".join,
    params=[
        (name, tok, unit)
        for name in NAMES
        for tok, unit in (("whitespace", "line"), ("byte", "stream"))
    ],
)
def subject(request):
    return subject_of(*request.param)


@pytest.fixture
def model(subject):
    return subject.model


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if not fits(rule)], ids=lambda rule: rule.__name__
)
def test_contract(subject, rule):
    check(rule, subject)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if fits(rule)], ids=lambda rule: rule.__name__
)
@pytest.mark.parametrize("name", NAMES)
def test_contract_of_fitting(name, rule):
    check(rule, subject_of(name))


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "train" in registry.config_class(name).fit_arguments]
)
def test_a_second_run_on_two_threads_gives_the_same_files(name, tmp_path):
    torch = pytest.importorskip("torch")
    size = "d_model" if name == "gpt" else "d_hidden"
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # the tests run on one
    try:
        for run in ("a", "b"):
            fit(build(name, **{size: 64}), TOY * 10).save(tmp_path / run)
    finally:
        torch.set_num_threads(threads)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


def test_damaged_directories_are_refused(saved, tmp_path):
    def broken(change):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(saved, copy)
        change(copy)
        with pytest.raises(ModelError) as error:
            seqloom.load(copy)
        assert "\n" not in str(error.value)
        return str(error.value)

    def edit(**values):
        def change(copy):
            path = copy / "config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | values))

        return change

    def cut(copy):
        path = copy / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1] if path.stat().st_size > 60 else b"")

    assert "upgrade" in broken(edit(format_version=99))
    assert "another program" in broken(edit(format="other"))
    assert "config.json" in broken(lambda c: (c / "config.json").unlink())
    assert "damaged" in broken(lambda c: (c / "config.json").write_text("{"))
    assert "model.safetensors" in broken(lambda c: (c / "model.safetensors").unlink())
    assert "model.safetensors" in broken(cut)
    assert broken(edit(config={"no_such": 1}))


def test_writing_never_leaves_half_a_directory(saved, model, monkeypatch):
    good = tree(saved)

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "card", fail)
    with pytest.raises(ModelError, match="No space left"):
        model.save(saved)
    assert tree(saved) == good
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_several_files_without_final_newlines_are_charged_for_them(model, tmp_path):
    """Each line is paid for with its newline, also where a file lacks the last one."""
    (tmp_path / "a.txt").write_text("the cat")
    (tmp_path / "b.txt").write_text("the dog sat\na cat")
    files = seqloom.read([tmp_path / "a.txt", tmp_path / "b.txt"])
    result = model.evaluate(files)
    if model.unit == "line":
        assert result["bytes"] == 7 + 17 + 2
        texts = (
            ["the cat\nthe dog sat\na cat"] if model.carry else ["the cat", "the dog sat", "a cat"]
        )
        assert result["nats"] == pytest.approx(-sum(model.score(texts)), rel=1e-5)
    else:
        assert result["bytes"] == 7 + 17


def test_portions_do_not_change_the_evaluation(model, monkeypatch):
    text = TOY * 3 + HELD_OUT
    one = model.evaluate(text).to_dict()
    monkeypatch.setattr(type(model), "portion", property(lambda self: 40))
    many = model.evaluate(text).to_dict()
    assert many["signature"] == one["signature"]
    for name, value in one["metrics"].items():
        assert many["metrics"][name] == (
            value if value is None else pytest.approx(value, rel=1e-6)
        ), name
