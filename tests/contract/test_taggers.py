"""What every registered tagger must do. A new one is tested here by being in the registry."""

import numpy as np
import pytest

import seqloom
from seqloom import registry
from seqloom.contracts import Tagger
from seqloom.data.tagged import Tagged
from seqloom.errors import ConfigError, DataError, NotFitted

from .test_language_models import refuses_damage, tree

NAMES = [name for name, entry in registry.MODELS.items() if entry.task == "tagger"]
POS = [("the dog sleeps", "DET NOUN VERB"), ("a cat runs", "DET NOUN VERB"), ("dogs run", "NOUN VERB"),
       ("the old cat sees the dog", "DET ADJ NOUN VERB DET NOUN"), ("Anna sleeps", "PROPN VERB"), ("run", "VERB")]
NER = [("Anna Smith lives in Paris", "B-PER I-PER O O B-LOC"), ("Paris is old", "B-LOC O O"),
       ("she met Bob and Anna", "O O B-PER O B-PER"), ("New York wins", "B-LOC I-LOC O"), ("nothing here", "O O")]


def sentences(pairs):
    return [(words.split(), tags.split()) for words, tags in pairs]


@pytest.fixture(scope="module", params=NAMES)
def model(request):
    return registry.model_class(request.param)().fit(sentences(POS))


@pytest.mark.parametrize("name", NAMES)
def test_unfitted_refuses_and_fit_returns_self(name):
    fresh = registry.model_class(name)()
    assert isinstance(fresh, Tagger)
    for verb in (lambda: fresh.predict("a b"), lambda: fresh.evaluate(sentences(POS))):
        with pytest.raises(NotFitted, match="fit"):
            verb()
    with pytest.raises(NotFitted):
        _ = fresh.tokenizer
    assert fresh.fit(sentences(POS)) is fresh
    with pytest.raises(ConfigError, match="takes words as they are and has no tokenizer"):
        _ = fresh.tokenizer


def test_one_tag_for_every_word(model):
    rows = [words for words, _ in sentences(POS)] + [["unseen", "漢字", "😀", "Dogs", "42"], ["the"], []]
    found = model.predict(rows)
    assert [len(tags) for tags in found] == [len(words) for words in rows]
    assert {tag for tags in found for tag in tags} <= set(model.tags)
    ids = model.tag_ids(rows)
    assert [[model.tags[i] for i in row.tolist()] for row in ids] == found
    assert all(np.issubdtype(row.dtype, np.integer) for row in ids)
    assert found == [model.predict(words) for words in rows]
    assert model.predict("the dog sleeps") == model.predict(["the", "dog", "sleeps"])
    assert model.predict([]) == []
    assert sum(a == b for tags, (_, gold) in zip(found, sentences(POS)) for a, b in zip(tags, gold)) >= 15


def test_evaluate_counts_what_predict_says(model):
    result = model.evaluate(sentences(POS))
    pairs = [(a, b) for words, gold in sentences(POS) for a, b in zip(model.predict(words), gold)]
    assert result["accuracy"] == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert result["words"] == len(pairs)
    assert "span_f1" not in result.metrics


@pytest.mark.parametrize("name", NAMES)
def test_spans_are_answered_in_the_scheme_of_the_data(name):
    gold = Tagged.of(sentences(NER))
    assert gold.scheme == "bio"
    model = registry.model_class(name)().fit(gold)
    assert set(tag[0] for tags in model.predict(gold.sentences) for tag in tags) <= set("BIO")
    result = model.evaluate(gold)
    assert result["span_f1"] > 0.7
    again = model.evaluate(gold.converted("bioes"))  # data in another scheme is read as well
    assert again["span_f1"] == result["span_f1"]
    assert again["accuracy"] == result["accuracy"]
    assert "scheme:bio" in str(result.signature)


def test_save_and_load_keep_every_bit(model, tmp_path):
    model.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert again.predict("the unseen Dogs run") == model.predict("the unseen Dogs run")
    assert again.tags == model.tags
    assert str(again.signature()) == str(model.signature())
    again.save(tmp_path / "n")
    assert tree(tmp_path / "m") == tree(tmp_path / "n")


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_gives_the_same_files(name, tmp_path):
    for run in ("a", "b"):
        registry.model_class(name)().fit(sentences(POS)).save(tmp_path / run)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize("name", NAMES)
def test_bad_input(name, tmp_path):
    make = registry.model_class(name)
    for bad in ([], [([], [])], [(["a", "b"], ["X"])], [("a b", "X Y")], 7, tmp_path / "missing.conll"):
        with pytest.raises(DataError):
            make().fit(bad)
    with pytest.raises(ConfigError, match="unknown option"):
        make(colour="red")
    broken = make()
    with pytest.raises(DataError):
        broken.fit([])
    with pytest.raises(NotFitted):
        broken.save(tmp_path / "m")


def test_what_is_no_sentence_is_refused(model):
    """Texts in a list would be taken for the words of one sentence."""
    for bad, says in ((["the dog runs", "a cat"], "list of text is one sentence"), ([1, 2], "words must be text"),
                      ([["the", None]], "words must be text"), ([["the"], "dog"], "words must be text")):
        with pytest.raises(DataError, match=says):
            model.predict(bad)


@pytest.mark.parametrize("name", NAMES)
def test_one_tag_only_is_said_and_always_the_answer(name, monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    model = registry.model_class(name)().fit([(["a", "b"], ["X", "X"])])
    assert any("one tag only, 'X'" in line for line in said)
    assert model.predict("b never") == ["X", "X"]


def test_no_samples_no_intervals(model):
    found = model.evaluate(sentences(POS), samples=0)
    assert not [name for name in found.metrics if name.endswith("_interval")]
    assert found["accuracy"] == model.evaluate(sentences(POS))["accuracy"]


def test_a_tag_never_seen_in_training_counts_as_wrong(model):
    result = model.evaluate([(["the", "dog"], ["DET", "NEVER"])])
    assert result["accuracy"] == pytest.approx(0.5)
    assert any("NEVER" in note for note in result.notes)


def test_a_damaged_model_is_refused(model, tmp_path):
    refuses_damage(model, tmp_path / "m")
