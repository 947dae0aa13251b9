"""Logistic regression on TF-IDF against scikit-learn's; explanations, options, bad input."""

import numpy as np
import pytest

from seqloom import Logistic
from seqloom.errors import ConfigError, DataError
from tests.models.test_naive_bayes import TOY, generated, listening


@pytest.mark.parametrize(
    ("classes", "options", "theirs"),
    [
        ("ab", {}, {}),
        ("abc", {}, {}),
        ("abcd", {"C": 20.0, "ngrams": 2}, {"C": 20.0}),
        ("ab", {"C": 0.01}, {"C": 0.01}),
        ("abc", {"C": 0.001}, {"C": 0.001}),
        ("ab", {"sublinear": True, "class_weights": "balanced"}, {"class_weight": "balanced"}),
    ],
)
def test_probabilities_equal_scikit_learns(classes, options, theirs):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    from sklearn.linear_model import LogisticRegression

    train, test = generated(400, classes), generated(100, classes, seed=1)
    if "class_weights" in options or "C" in options:  # one class is rare
        train = train.part(
            [i for i, label in enumerate(train.labels) if label == "a" or i % 5 == 0]
        )
    words = text.TfidfVectorizer(
        token_pattern=r"\S+",
        lowercase=False,
        ngram_range=(1, options.get("ngrams", 1)),
        sublinear_tf=options.get("sublinear", False),
    )
    other = LogisticRegression(tol=1e-8, max_iter=2000, **theirs)
    other.fit(words.fit_transform(train.texts), train.labels)
    model = Logistic(tokenizer="whitespace", **options).fit(train)
    expected = other.predict_proba(words.transform(test.texts))
    assert model.classes == list(other.classes_)
    assert np.abs(model.predict_proba(test.texts) - expected).max() < 1e-3


def test_the_gradient_is_zero_at_the_weights():
    """By hand, without scikit-learn: C sum (p - y) x + W = 0, and the intercepts have no penalty."""
    model = Logistic(tokenizer="whitespace", C=2.0).fit(TOY)
    words = sorted({word for text in TOY.texts for word in text.split()})
    counts = np.array([[text.split().count(word) for word in words] for text in TOY.texts])
    tfidf = counts * (np.log((1 + len(counts)) / (1 + (counts > 0).sum(axis=0))) + 1)
    x = tfidf / np.maximum(np.linalg.norm(tfidf, axis=1, keepdims=True), 1e-9)
    wrong = model.predict_proba(TOY.texts) - np.equal.outer(TOY.labels, model.classes)
    weights = np.array([model._weights[model.tokenizer.id(word)] for word in words])
    assert np.abs(2.0 * x.T @ wrong + weights).max() < 1e-2
    assert np.abs(wrong.sum(axis=0)).max() < 1e-2


def test_threads_and_chunks_do_not_change_a_bit(monkeypatch):
    from seqloom.models.classification import logistic

    data = generated(200)
    expected = Logistic().fit(data).predict_proba(data.texts)
    monkeypatch.setattr(logistic, "CHUNK", 50)
    for threads in ("1", "3"):
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        assert (Logistic().fit(data).predict_proba(data.texts) == expected).all()


def test_explanations_add_up():
    model = Logistic(tokenizer="whitespace", ngrams=2, C=10.0).fit(TOY)
    text = "a dull film , dull"
    why = model.explain(text, 2)
    log_probs = model.class_log_probs([text])[0]
    best, second = np.sort(log_probs)[::-1][:2]
    assert why.label == model.predict(text) == "bad"
    assert why.log_odds == pytest.approx(best - second)
    total = sum(share.nats for share in why.shares) + why.others + why.prior
    assert total == pytest.approx(why.log_odds)
    assert {share.feature: share.count for share in why.shares}["dull"] == 2
    assert "dull" in [share.feature for share in model.top_features("bad", 3)]
    with pytest.raises(ConfigError, match="unknown class 'god'; did you mean 'good'"):
        model.explain(text, label="god")


def test_odd_texts():
    model = Logistic().fit(TOY)
    with listening() as heard:
        rows = model.predict_proba(["", "unseen words", "dull"])
    assert heard == [
        "2 of 3 texts have no known word (rows 1, 2); there the intercept alone decides"
    ]
    assert (rows[0] == rows[1]).all()
    assert rows.sum(axis=1) == pytest.approx(1)
    assert Logistic().fit([("a", "x"), ("b", "x")]).predict("a") == "x"
    with pytest.raises(DataError, match="no word occurs 9 times or more; lower min_count"):
        Logistic(min_count=9).fit(TOY)
    with pytest.raises(ConfigError, match="C must be at least"):
        Logistic(C=0.0)


def test_weights_that_do_not_settle_are_said(monkeypatch):
    from seqloom.models.classification import logistic

    monkeypatch.setattr(logistic, "MAX_STEPS", 2)
    with listening() as heard:
        Logistic(C=100.0).fit(generated(100))
    assert any("not settled after 2 steps; a smaller C needs fewer" in line for line in heard)
