"""What every registered classifier must do. A new one is tested here by being in the registry."""

import numpy as np
import pytest

import seqloom
from seqloom import registry
from seqloom.contracts import Classifier
from seqloom.data.labelled import Labelled
from seqloom.errors import ConfigError, DataError, NotFitted

from .test_language_models import refuses_damage, tree

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "classifier"]
PAIRS = [("a lovely warm film", "good"), ("what a lovely story", "good"), ("warm and funny", "good"),
         ("a dull cold film", "bad"), ("cold and boring story", "bad"), ("what a dull thing", "bad"), ("so so", "neutral")]
HELD_OUT = [("a warm lovely story", "good"), ("cold dull film", "bad"), ("nothing here was ever seen", "bad")]


@pytest.fixture(scope="module", params=NAMES)
def model(request):
    return registry.model_class(request.param)().fit(PAIRS)


@pytest.mark.parametrize("name", NAMES)
def test_unfitted_refuses_and_fit_returns_self(name):
    fresh = registry.model_class(name)()
    assert isinstance(fresh, Classifier)
    for verb in (lambda: fresh.predict("a"), lambda: fresh.predict_proba(["a"]), lambda: fresh.evaluate(PAIRS)):
        with pytest.raises(NotFitted, match="fit"):
            verb()
    assert fresh.fit(PAIRS) is fresh


def test_probabilities_sum_to_one_and_name_every_class(model):
    assert model.classes == ["bad", "good", "neutral"]
    texts = [text for text, _ in PAIRS + HELD_OUT] + ["", "\n", "漢字 😀"]
    log_probs = model.class_log_probs(texts)
    assert log_probs.dtype == np.float64
    assert np.abs(np.logaddexp.reduce(log_probs, axis=1)).max() < 1e-9
    probs = model.predict_proba(texts)
    assert probs.shape == (len(texts), 3)
    assert np.allclose(probs, np.exp(log_probs))
    one = model.predict_proba(texts[0])
    assert list(one) == model.classes
    assert list(one.values()) == pytest.approx(probs[0].tolist())


def test_one_text_or_a_list(model):
    texts = [text for text, _ in PAIRS]
    many = model.predict(texts)
    assert many == [model.predict(text) for text in texts]
    assert many == [model.classes[i] for i in model.class_log_probs(texts).argmax(axis=1)]
    assert sum(found == label for found, (_, label) in zip(many, PAIRS)) >= (3 if model.name == "majority" else 6)
    assert model.predict([]) == []
    assert model.predict_proba([]).shape == (0, 3)


def test_evaluate_counts_what_predict_says(model):
    result = model.evaluate(HELD_OUT)
    right = sum(model.predict(text) == label for text, label in HELD_OUT)
    assert result["accuracy"] == pytest.approx(right / len(HELD_OUT))
    assert sum(map(sum, result.details["confusion"]["counts"])) == len(HELD_OUT)
    assert "train:" in str(result.signature)
    assert result.to_dict()["details"]["classes"][0]["class"] == "bad"


def test_no_samples_no_interval(model):
    found, usual = model.evaluate(HELD_OUT, samples=0), model.evaluate(HELD_OUT)
    assert {**usual.metrics} == {**found.metrics, "accuracy_interval": usual["accuracy_interval"]}


def test_save_and_load_keep_every_bit(model, tmp_path):
    model.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    texts = [text for text, _ in PAIRS + HELD_OUT]
    assert (again.class_log_probs(texts) == model.class_log_probs(texts)).all()
    assert again.classes == model.classes
    assert str(again.signature()) == str(model.signature())
    assert type(again).load(tmp_path / "m").predict(texts) == model.predict(texts)
    with pytest.raises(ConfigError, match="not"):
        seqloom.NGram.load(tmp_path / "m")
    again.save(tmp_path / "n")
    assert tree(tmp_path / "m") == tree(tmp_path / "n")


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_gives_the_same_files(name, tmp_path):
    for run in ("a", "b"):
        registry.model_class(name)().fit(PAIRS).save(tmp_path / run)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize("name", NAMES)
def test_what_data_may_be(name, tmp_path):
    path = tmp_path / "data.tsv"
    path.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in PAIRS))
    forms = [PAIRS, ([t for t, _ in PAIRS], [label for _, label in PAIRS]), Labelled.of(PAIRS), path]
    found = [registry.model_class(name)().fit(data).predict_proba(HELD_OUT[0][0]) for data in forms]
    assert all(probs == found[0] for probs in found)


@pytest.mark.parametrize("name", NAMES)
def test_bad_input(name, tmp_path):
    make = registry.model_class(name)
    for bad in ([], [("text", None)], [("only text",)], 7, {"a": "b"}, tmp_path / "missing.tsv"):
        with pytest.raises((DataError, ConfigError)):
            make().fit(bad)
    with pytest.raises(ConfigError, match="unknown option"):
        make(colour="red")
    if "run" in registry.config_class(name).fit_arguments:
        make().fit(PAIRS, run=tmp_path / "run")
    else:
        with pytest.raises(ConfigError, match="has no use for run"):
            make().fit(PAIRS, run=tmp_path / "run")
    broken = make()
    with pytest.raises(DataError):
        broken.fit([("a", "x"), (None, "y")])
    with pytest.raises(NotFitted):
        broken.save(tmp_path / "m")


@pytest.mark.parametrize("name", NAMES)
def test_one_class_only_is_said_and_always_the_answer(name, monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    model = registry.model_class(name)().fit([("a b", "x"), ("c", "x")])
    assert any("one class only" in line for line in said)
    assert model.predict_proba(["a", ""]).tolist() == [[1.0], [1.0]]


def test_a_damaged_model_is_refused(model, tmp_path):
    refuses_damage(model, tmp_path / "m")
