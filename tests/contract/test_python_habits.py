"""Habits from scikit-learn and gensim: texts and labels, typed labels, clone, cross-validation,
pipelines; lists of words.
"""

import copy
import json
import pickle

import numpy as np
import pytest

import seqloom
from seqloom import registry
from seqloom.data.classification import Labelled
from seqloom.errors import ConfigError, DataError, ModelError

CLASSIFIERS = [
    name
    for name, entry in registry.MODELS.items()
    if entry.task == "classifier" and name != "majority"
]
TAGGERS = [name for name, entry in registry.MODELS.items() if entry.task == "tagger"]
TEXTS = [
    "good fun",
    "a good day",
    "fine and good",
    "so good",
    "dull",
    "a dull day",
    "bad and dull",
    "so dull",
]
KINDS = {
    "int": [1, 1, 1, 1, 0, 0, 0, 0],
    "bool": [True] * 4 + [False] * 4,
    "str": ["pos"] * 4 + ["neg"] * 4,
    "numbers": [10] * 4 + [9] * 4,
}
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)


SMALL = {
    "classifier": {"encoder": "bag", "d_embed": 16},
    "tagger": {"d_hidden": 8, "d_embed": 8},
}  # learnt in little time


def make(name, **options):
    return registry.model_class(name)(**{**SMALL.get(name, {}), **options})


@every_classifier
@pytest.mark.parametrize("kind", KINDS)
def test_labels_keep_their_type(name, kind, tmp_path):
    labels = KINDS[kind]
    model = make(name).fit(TEXTS, labels)
    model.save(tmp_path / "m")
    for one in (model, seqloom.load(tmp_path / "m")):
        assert one.classes == sorted(set(labels))
        assert one.predict(TEXTS) == labels
        assert {
            type(label) for label in [*one.predict(TEXTS), one.predict("good"), *one.classes]
        } == {type(labels[0])}
        assert list(one.predict_proba("good")) == one.classes
        assert one.classes_.tolist() == one.classes
        assert one.score(TEXTS, labels) == 1
        assert one.evaluate(TEXTS, labels).details["confusion"]["classes"] == list(
            map(str, one.classes)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_the_majority_has_the_type_of_the_labels(kind, tmp_path):
    """The one classifier that does not learn these texts."""
    labels = [*KINDS[kind], KINDS[kind][0]]
    seqloom.Majority().fit([*TEXTS, "good"], labels).save(tmp_path / "m")
    predicted = seqloom.load(tmp_path / "m").predict("dull")
    assert (predicted, type(predicted)) == (labels[0], type(labels[0]))
    assert (
        seqloom.Majority().fit(TEXTS, KINDS[kind]).__sklearn_clone__().get_params()
        == seqloom.Majority().get_params()
    )


@every_classifier
def test_the_same_labels_from_a_file(name, tmp_path):
    """A file has text where a list has numbers; they are the same labels."""
    (tmp_path / "a.tsv").write_text(
        "label\ttext\n" + "".join(f"{n}\t{t}\n" for t, n in zip(TEXTS, KINDS["int"]))
    )
    assert make(name).fit(TEXTS, KINDS["int"]).score(tmp_path / "a.tsv") == 1
    by_file = make(name).fit(tmp_path / "a.tsv")
    assert by_file.classes == ["0", "1"]
    assert by_file.score(TEXTS, KINDS["int"]) == 1
    result = make(name).fit(TEXTS, KINDS["int"]).evaluate(["good", "dull"], ["1", "other"])
    assert result["accuracy"] == 0.5
    assert any("'other'" in note for note in result.notes)
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": t, "label": n}) + "\n" for t, n in zip(TEXTS, KINDS["bool"]))
    )
    assert make(name).fit(TEXTS, KINDS["bool"]).score(tmp_path / "a.jsonl") == 1
    assert make(name).fit(tmp_path / "a.jsonl").score(TEXTS, KINDS["bool"]) == 1


def test_held_out_labels_are_of_the_same_type(tmp_path):
    held_out = (["good", "dull", "good day"], ["1", "0", "0"])
    model = seqloom.NaiveBayes(calibrate="temperature").fit(TEXTS, KINDS["int"], valid=held_out)
    assert model.temperature != 1
    with pytest.raises(
        DataError, match="has the label 'neg', but the model learned labels such as 0"
    ):
        seqloom.NaiveBayes(calibrate="temperature").fit(
            TEXTS, KINDS["int"], valid=(TEXTS, KINDS["str"])
        )
    tuned = seqloom.FastTextClassifier(tune=True, minutes=0.01, epochs=2)
    tuned.fit(TEXTS, KINDS["bool"], valid=(TEXTS, KINDS["bool"]))
    assert tuned.predict("good") is True


def test_partial_fit():
    whole = seqloom.NaiveBayes().fit(TEXTS, KINDS["int"])
    by_parts = seqloom.NaiveBayes().partial_fit(TEXTS[:5], KINDS["int"][:5])
    by_parts.partial_fit(zip(TEXTS[5:], map(str, KINDS["int"][5:])))
    portions = seqloom.NaiveBayes().partial_fit(
        Labelled.of([pair]) for pair in zip(TEXTS, KINDS["int"])
    )
    for other in (by_parts, portions):
        assert other.classes == [0, 1]
        assert (other.predict_proba(TEXTS) == whole.predict_proba(TEXTS)).all()
    assert whole.explain("good").label == 1
    assert whole.top_features(1)[0].feature == whole.top_features("1")[0].feature == "good"
    with pytest.raises(ConfigError, match="unknown class 7; known: 0, 1"):
        whole.top_features(7)


@every_classifier
def test_a_file_with_classes_of_several_types_is_refused(name, tmp_path):
    make(name).fit(TEXTS, KINDS["int"]).save(tmp_path / "m")
    place = tmp_path / "m" / "config.json"
    config = json.loads(place.read_text())
    assert config["learnt"]["classes"] == [0, 1]
    for wrong in ([0, True], [0, "1"], [0.0, 1.0], [0, 0], [None, 1], []):
        place.write_text(json.dumps({**config, "learnt": {"classes": wrong}}))
        with pytest.raises(ModelError, match="classes"):
            seqloom.load(tmp_path / "m")


# ---- texts


@every_classifier
def test_texts_of_every_kind(name):
    model = make(name).fit(np.array(TEXTS), np.array(KINDS["int"]))
    for texts in (
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, object),
        (text for text in TEXTS),
    ):
        assert model.predict(texts) == KINDS["int"]
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"text": TEXTS, "label": KINDS["int"]})
    assert (
        model.predict(frame["text"])
        == make(name).fit(frame).predict(frame[["text"]])
        == KINDS["int"]
    )
    assert make(name).fit(frame["text"], frame["label"]).score(frame) == 1


@every_classifier
def test_a_name_is_not_a_text(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = make(name).fit(TEXTS, KINDS["str"])
    for verb in (model.evaluate, model.score, make(name).fit):
        with pytest.raises(
            DataError, match=r"give Path\('missing.tsv'\) or seqloom\.read_labelled"
        ):
            verb("missing.tsv")
    assert model.predict("missing.tsv") in model.classes  # one text; nobody would open it
    (tmp_path / "there.tsv").write_text("x")
    for verb in (model.predict, model.predict_proba):
        with pytest.raises(DataError, match=r"'there\.tsv' is the name of a file"):
            verb("there.tsv")
    assert model.predict(["there.tsv"])


def test_language_models_and_vectors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = seqloom.NGram(order=2, tokenizer="char").fit("abc abc\n")
    for verb in (
        model.fit,
        model.perplexity,
        model.evaluate,
        model.bits_per_byte,
        seqloom.Word2Vec().fit,
    ):
        with pytest.raises(
            DataError, match=r"give Path\('missing.txt'\) or seqloom\.read\('missing.txt'\)"
        ):
            verb("missing.txt")
    assert model.score("missing.txt") < 0
    assert model.score("a.b") < 0
    (tmp_path / "there.txt").write_text("abc")
    for verb in (model.score, model.token_scores):
        with pytest.raises(DataError, match=r"'there\.txt' is the name of a file"):
            verb("there.txt")
    assert len(model.score(["there.txt"])) == 1
    vectors = seqloom.Word2Vec(min_count=1, dimensions=4, epochs=1).fit(
        [["to", "be"], ["not", "to", "be"]]
    )
    with pytest.raises(DataError, match=r"give Path\('pairs.tsv'\)"):
        vectors.evaluate("pairs.tsv")


def test_words_that_are_given():
    sentences = [["don't", "look", "e-mail"], ["don't", "go"]]
    for model in (
        seqloom.NGram(order=2).fit(sentences),
        seqloom.NGram(order=2).fit(iter(sentences)),
        seqloom.Word2Vec(min_count=1, dimensions=4, epochs=1, deterministic=True).fit(sentences),
    ):
        assert {"don't", "e-mail"} < set(
            map(model.tokenizer.token, range(model.tokenizer.vocab_size))
        )
    assert seqloom.NGram(order=2).fit(sentences).perplexity(sentences) > 1
    with pytest.raises(
        ConfigError, match=r"tokenizer 'word' would split words given.*tokenizer='whitespace'"
    ):
        seqloom.NGram(tokenizer="word").fit(sentences)


@pytest.mark.parametrize("name", TAGGERS)
def test_sentences_and_tags(name, tmp_path):
    sentences, tags = [["the", "dog"], ["a", "dog"], ["dogs"]], [["D", "N"], ["D", "N"], ["N"]]
    model = make(name).fit(sentences, tags)
    assert model.predict(sentences) == make(name).fit(zip(sentences, tags)).predict(iter(sentences))
    assert (
        model.score(sentences, tags) == model.evaluate(list(zip(sentences, tags)))["accuracy"] == 1
    )
    with pytest.raises(DataError, match=r"give Path\('missing.conllu'\) or seqloom\.read_tagged"):
        model.evaluate("missing.conllu")
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"words": sentences, "tags": tags})
    with pytest.raises(DataError, match="give its columns of words and tags"):
        make(name).fit(frame)
    assert make(name).fit(frame["words"], frame["tags"]).predict(frame["words"]) == model.predict(
        sentences
    )


# ---- scikit-learn


@every_classifier
@pytest.mark.parametrize("kind", ["int", "str", "bool"])
def test_cross_validation(name, kind):
    selection = pytest.importorskip("sklearn.model_selection")
    y = KINDS[kind]
    for texts, labels in ((TEXTS, y), (np.array(TEXTS), np.array(y))):
        assert selection.cross_val_score(make(name), texts, labels, cv=2).mean() > 0.7
    assert selection.cross_val_predict(make(name), TEXTS, y, cv=2).tolist() == y
    if kind == "int":
        scores = selection.cross_validate(
            make(name), TEXTS, y, cv=2, scoring=["roc_auc", "f1", "neg_log_loss"]
        )
        assert scores["test_roc_auc"].tolist() == [1, 1]


@every_classifier
def test_search_over_options(name):
    selection = pytest.importorskip("sklearn.model_selection")
    search = selection.GridSearchCV(
        make(name), {"min_count": [1, 2], "tokenizer": ["char", "word"]}, cv=2, error_score="raise"
    )
    search.fit(TEXTS, KINDS["str"])
    assert set(search.best_params_) == {"min_count", "tokenizer"}
    assert search.best_estimator_.config.min_count == search.best_params_["min_count"]
    assert search.predict(["good"]) == ["pos"]
    assert search.classes_.tolist() == ["neg", "pos"]


@every_classifier
def test_pipeline(name):
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    lower = preprocessing.FunctionTransformer(lambda texts: [text.lower() for text in texts])
    whole = pipeline.Pipeline([("lower", lower), ("model", make(name))]).fit(
        list(map(str.upper, TEXTS)), KINDS["int"]
    )
    assert whole.predict(["GOOD", "Dull"]) == [1, 0]
    assert whole.score(TEXTS, KINDS["int"]) == 1
    assert whole.classes_.tolist() == [0, 1]
    assert whole.set_params(model__min_count=2).get_params()["model__min_count"] == 2
    assert registry.model_class(name).__name__ in whole._repr_html_()


@every_classifier
def test_clone_and_copies(name):
    base = pytest.importorskip("sklearn.base")
    validation = pytest.importorskip("sklearn.utils.validation")
    model = make(name, min_count=2).fit(TEXTS, KINDS["int"])
    assert not hasattr(make(name), "classes_")
    other = base.clone(model)
    assert other is not model
    assert other.get_params() == model.get_params()
    assert not other.fitted
    assert base.is_classifier(other)
    validation.check_is_fitted(model)
    with pytest.raises(Exception, match="not fitted"):
        validation.check_is_fitted(other)
    for same in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
    ):  # as joblib does for several processes
        assert (same.predict_proba(TEXTS) == model.predict_proba(TEXTS)).all()


@pytest.mark.parametrize("name", TAGGERS)
def test_cross_validation_of_taggers(name):
    selection = pytest.importorskip("sklearn.model_selection")
    sentences, tags = [["the", "dog"], ["a", "dog"]] * 2, [["D", "N"], ["D", "N"]] * 2
    assert selection.cross_val_score(make(name), sentences, tags, cv=2).tolist() == [1, 1]


def test_options_of_training_in_searches():
    """scikit-learn reaches them by `train__`; a learning rate of next to nothing learns nothing."""
    pytest.importorskip("torch")
    selection = pytest.importorskip("sklearn.model_selection")
    clone = pytest.importorskip("sklearn.base").clone
    model = make("classifier", train={"steps": 20})
    assert clone(model).get_params() == model.get_params()
    search = selection.GridSearchCV(model, {"train__lr": [1e-9, 0.05]}, cv=2)
    search.fit(TEXTS * 2, KINDS["int"] * 2)
    assert search.best_params_ == {"train__lr": 0.05}
    assert search.cv_results_["mean_test_score"].tolist() == [0.5, 1.0]
    assert search.best_estimator_.fit_info["train"]["steps"] == 20
    given = {"train": {"steps": 1, "lr": 1e-9}}
    scores = selection.cross_val_score(model, TEXTS * 2, KINDS["int"] * 2, cv=2, params=given)
    assert scores.tolist() == [0.5, 0.5]
    fitted = make("classifier").fit(TEXTS, KINDS["int"], steps=2)
    assert fitted.fit_info["train"]["steps"] == 2
