"""Word vectors, sentence vectors and language models as steps of a scikit-learn Pipeline."""

import numpy as np
import pytest

import seqloom
from seqloom import HMM, TextEmbedder, TrainConfig, Word2Vec, registry
from seqloom.errors import ConfigError, DataError, NotFitted
from tests.saved import NEWEST

GOOD, BAD = (
    ["good fun", "a good day", "fine and good", "so good"],
    ["dull", "a dull day", "so dull"],
)
TEXTS, LABELS = (GOOD + BAD) * 4, [1, 1, 1, 1, 0, 0, 0] * 4
TASKS = ("language model", "word vectors", "sentence vectors")
STATELESS = {"uniform", "ngram", "cache", "mixture"}
NAMES = [name for name, entry in registry.MODELS.items() if entry.task in TASKS]
STATES = [
    name
    for name in NAMES
    if registry.MODELS[name].task == "language model" and name not in STATELESS
]


class Counted(TextEmbedder):
    """How often each letter of the first text occurs; learns which letters there are."""

    letters: np.ndarray

    def fit_corpus(self, corpus, options):
        self.letters = np.array(sorted(map(ord, set(corpus.text()))))

    def embed_texts(self, texts):
        return np.array([[t.count(chr(c)) for c in self.letters] for t in texts], np.float32)


def vectors():
    return Word2Vec(min_count=1, dimensions=8, epochs=20, deterministic=True)


@pytest.mark.parametrize("make", [vectors, Counted, lambda: HMM(states=3, iterations=5)])
def test_a_pipeline_is_fitted_cross_validated_and_searched(make):
    pipeline = pytest.importorskip("sklearn.pipeline")
    linear = pytest.importorskip("sklearn.linear_model")
    selection = pytest.importorskip("sklearn.model_selection")
    whole = pipeline.Pipeline([("texts", make()), ("classes", linear.LogisticRegression(C=100))])
    assert whole.fit(np.array(TEXTS), LABELS).score(TEXTS, LABELS) > 0.6
    assert whole.predict(["good"]).shape == (1,)
    scores = selection.cross_val_score(whole, TEXTS, LABELS, cv=2, error_score="raise")
    assert scores.min() > 0.4
    search = selection.GridSearchCV(whole, {"classes__C": [1, 2]}, cv=2, error_score="raise")
    assert search.fit(TEXTS, LABELS).best_params_["classes__C"] in (1, 2)
    both = pipeline.make_union(make(), vectors()).fit_transform(TEXTS)
    assert len(both) == len(TEXTS)


def test_what_is_finished_stays_as_it_is_when_cloned():
    base = pytest.importorskip("sklearn.base")
    frozen = pytest.importorskip("sklearn.frozen")
    pipeline = pytest.importorskip("sklearn.pipeline")
    linear = pytest.importorskip("sklearn.linear_model")
    selection = pytest.importorskip("sklearn.model_selection")
    model = vectors().fit(TEXTS)
    assert not base.clone(model).fitted
    for step in (model.vectors, frozen.FrozenEstimator(model)):
        whole = pipeline.make_pipeline(step, linear.LogisticRegression(C=100))
        assert (
            selection.cross_val_score(whole, TEXTS, LABELS, cv=2, error_score="raise").min() > 0.6
        )
    assert base.clone(model.vectors) is model.vectors
    encoder = seqloom.load(NEWEST / "sentence-encoder")
    assert base.clone(encoder) is encoder
    assert (encoder.fit_transform(TEXTS, LABELS) == encoder.transform(TEXTS)).all()


def test_tags():
    utils = pytest.importorskip("sklearn.utils")
    tags = utils.get_tags(vectors())
    assert tags.transformer_tags is not None
    assert not tags.target_tags.required
    assert utils.get_tags(seqloom.NaiveBayes()).target_tags.required


@pytest.mark.parametrize("name", sorted(set(NAMES) - STATELESS))
def test_a_row_for_each_text(name):
    model = seqloom.load(NEWEST / name)
    rows = model.transform(["the cat", "", "the cat sat\non the mat"] * 2)
    assert rows.dtype == np.float32
    assert rows.shape[0] == 6
    assert np.isfinite(rows).all()
    assert np.allclose(rows[:3], rows[3:], atol=1e-5)
    assert np.allclose(rows[0], model.transform(iter(["the cat"]))[0], atol=1e-5)
    assert model.transform([]).shape == (0, rows.shape[1])
    with pytest.raises(NotFitted):
        registry.model_class(name)().transform(["a"])


def test_words_without_a_vector_are_left_out():
    model = vectors().fit(TEXTS)
    rows = model.transform(["good zebra day", "zebra", ["good", "day"]][:2])
    assert np.allclose(rows[0], (model["good"] + model["day"]) / 2)
    assert not rows[1].any()
    assert np.allclose(model.transform([["good", "day"]]), rows[:1])  # lists of words


@pytest.mark.parametrize("wrong", ["a text", b"bytes", [1, 2], ["a", None], None, 3, {"a": 1}])
def test_what_is_no_list_of_texts_is_refused(wrong):
    with pytest.raises(DataError, match=r"expected a list|is no text"):
        vectors().fit(TEXTS).transform(wrong)


# ---- hidden states


@pytest.mark.parametrize("name", STATES)
def test_hidden_states_are_those_of_stepping(name):
    model = seqloom.load(NEWEST / name)
    text = "the cat sat"
    tokens, states = model.hidden(text)
    ids = model.encode(text)[0]
    assert tokens[1:] == [model.tokenizer.token(i) for i in ids[:-1].tolist()]
    stepper = model.stepper()
    features = getattr(getattr(stepper, "member", stepper), "features", lambda state: state[0])
    state, _ = stepper.start(1)
    expected = []
    for token in ids.tolist():
        expected.append(features(state[0] if name == "neural-cache" else state)[0])
        state, _ = stepper.step(state, np.array([token]))
    assert np.allclose(states, expected, atol=1e-4)
    assert np.allclose(model.transform([text])[0], states[1:].mean(axis=0), atol=1e-5)
    (again, empty) = model.hidden([text, ""])
    assert again.tokens == tokens
    assert np.allclose(again.vectors, states, atol=1e-5)
    assert len(empty.tokens) == len(empty.vectors) == 1
    assert np.allclose(model.transform([""]), empty.vectors, atol=1e-5)


def test_hidden_states_of_lines_begin_anew():
    model = seqloom.GPT(
        unit="line", carry=False, tokenizer="char", context=6, d_model=8, n_heads=2, n_layers=1
    ).fit("ab\nba\n" * 9, train=TrainConfig(steps=1))
    both, second = model.hidden("ab\nba"), model.hidden("ba")
    assert both.tokens == ["</s>", "a", "b", "</s>", "b", "a"]
    assert np.allclose(both.vectors[3:], second.vectors, atol=1e-5)


def test_hidden_states_of_quantised_weights_and_without_torch(monkeypatch):
    model = seqloom.load(NEWEST / "lstm")
    expected = model.hidden("the cat").vectors
    monkeypatch.setattr(type(model), "reads_by_steps", lambda self: True)
    assert np.allclose(model.hidden("the cat").vectors, expected, atol=1e-4)


@pytest.mark.parametrize("name", sorted(STATELESS))
def test_models_without_a_state_say_so(name):
    model = seqloom.load(NEWEST / name)
    for call in (lambda: model.hidden("a"), lambda: model.transform(["a"])):
        with pytest.raises(ConfigError, match=f"{name} models have no hidden state; take an nplm"):
            call()
