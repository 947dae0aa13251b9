"""Naive Bayes against scikit-learn and against sums by hand; streams, explanations, calibration,
bad input.
"""

import math
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest

from seqloom import Tokenizer, progress
from seqloom.data.classification import Labelled, stream_labelled
from seqloom.errors import ConfigError, DataError, ModelError, NotFitted
from seqloom.models.classification.naive_bayes import NaiveBayes
from seqloom.storage import Saved

TOY = Labelled.of(
    [
        ("a fine film , fine and warm", "good"),
        ("warm", "good"),
        ("dull dull film", "bad"),
        ("a dull , cold , cold end", "bad"),
        ("so so", "fair"),
        ("fine , but dull", "fair"),
        ("", "good"),
    ]
)
VARIANTS = ("multinomial", "bernoulli", "complement")


def generated(n: int, classes: str = "abc", seed: int = 0) -> Labelled:
    """Texts of 0 to 30 words whose frequencies depend on the class."""
    rng = np.random.default_rng(seed)
    labels = [classes[i] for i in rng.integers(0, len(classes), n)]
    shares = {c: np.random.default_rng(ord(c)).dirichlet(np.full(60, 0.8)) for c in classes}
    texts = [
        " ".join(f"w{w}" for w in rng.choice(60, rng.integers(0, 31), p=shares[c])) for c in labels
    ]
    return Labelled(texts, labels)


class Ear:
    """A reporter that remembers the remarks."""

    def __init__(self):
        self.heard = []

    def begin(self, label, total, unit):
        return progress._Silent()

    def end(self, task):
        pass

    def say(self, message):
        self.heard.append(message)


@contextmanager
def listening():
    ear = Ear()
    with progress.reporting(ear):
        yield ear.heard


# ---- agreement


def sklearn_log_probs(train, texts, *, variant, ngrams, features, k, prior):
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB

    cut = CountVectorizer(
        tokenizer=str.split,
        token_pattern=None,
        lowercase=False,
        ngram_range=(1, ngrams),
        binary=features == "presence",
    )
    kind = {"multinomial": MultinomialNB, "bernoulli": BernoulliNB, "complement": ComplementNB}[
        variant
    ]
    peer = kind(alpha=k, fit_prior=prior == "data").fit(
        cut.fit_transform(train.texts), train.labels
    )
    return peer.predict_log_proba(cut.transform(texts))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("ngrams", "features", "k", "prior"),
    [
        (1, "counts", 1.0, "data"),
        (2, "presence", 0.3, "uniform"),
        (3, "counts", 0.01, "data"),
        (1, "presence", 2.0, "data"),
    ],
)
def test_posterior_equals_scikit_learn(variant, ngrams, features, k, prior):
    options = {"variant": variant, "ngrams": ngrams, "features": features, "k": k, "prior": prior}
    train, texts = generated(400), generated(150, seed=1).texts
    texts = [
        f"{text} never-seen w1 w2" for text in texts
    ]  # unknown words, and none without a known one
    ours = NaiveBayes(tokenizer="whitespace", **options).fit(train).log_probs(texts)
    assert np.abs(ours - sklearn_log_probs(train, texts, **options)).max() < 1e-9


def test_multinomial_by_hand():
    """k = 2 and three different words, so a class of 3 words has 3 + 2 * 3 in the denominator."""
    data = Labelled.of([("x y", "p"), ("x", "p"), ("y z z", "q")])
    model = NaiveBayes(k=2.0).fit(data)
    p = 2 / 3 * ((2 + 2) / (3 + 6)) * ((0 + 2) / (3 + 6)) ** 2
    q = 1 / 3 * ((0 + 2) / (3 + 6)) * ((2 + 2) / (3 + 6)) ** 2
    assert model.predict_proba("x z z") == pytest.approx(
        {"p": p / (p + q), "q": q / (p + q)}, abs=1e-12
    )
    assert model.parameters == (3 + 1) * 2
    assert NaiveBayes(k=2.0, prior="uniform").fit(data).predict_proba(
        "nothing known"
    ) == pytest.approx({"p": 0.5, "q": 0.5})


def test_ngrams_do_not_reach_over_unknown_words_or_texts():
    data = Labelled.of([("a b", "p"), ("b a", "q")])
    names = {share.feature for share in NaiveBayes(ngrams=2).fit(data).top_features("p")}
    assert names == {"a", "b", "a b", "b a"}  # and not "b b", from text to text
    model = NaiveBayes(ngrams=2).fit(data)
    assert {s.feature for s in model.explain("a new b").shares} == {"a", "b"}
    assert {s.feature for s in model.explain("a\nb").shares} == {
        "a",
        "b",
        "a b",
    }  # a newline inside a text is a blank


# ---- streams


def same(one: NaiveBayes, other: NaiveBayes) -> bool:
    pairs = zip(one.arrays().items(), other.arrays().items(), strict=True)
    return (
        one.classes == other.classes
        and one.tokenizer == other.tokenizer
        and all(a == b and x.dtype == y.dtype and np.array_equal(x, y) for (a, x), (b, y) in pairs)
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"min_count": 3, "ngrams": 3},
        {"variant": "bernoulli", "ngrams": 2, "vocab_size": 30},
        {"features": "presence", "min_count": 2, "ngrams": 2},
        {"tokenizer": "byte"},
    ],
)
def test_partial_fit_equals_fit(options, monkeypatch):
    data = generated(300)
    order = np.argsort(data.labels, kind="stable")  # so that words and classes appear late
    data = data.part(order[::-1])
    whole = NaiveBayes(**options).fit(data)
    monkeypatch.setattr("seqloom.models.classification.feature_counts._BATCH", 500)
    parts = NaiveBayes(**options)
    for low, high in ((0, 1), (1, 40), (40, 299)):
        parts.partial_fit(data.part(slice(low, high)))
        parts.predict("w1 w2")  # learning on after an answer
    parts.partial_fit(iter([data.part([299])]))
    parts.check_fitted()
    assert same(whole, parts)
    assert parts.fit_info["texts"] == 300
    if "tokenizer" not in options:
        by_itself = Tokenizer(
            kind="word", min_count=whole.config.min_count, vocab_size=whole.config.vocab_size
        )
        assert whole.tokenizer == by_itself.fit(data.texts)
    monkeypatch.setenv("SEQLOOM_THREADS", "3")
    assert same(whole, NaiveBayes(**options).fit(data))


def test_many_words(monkeypatch):
    """So many that tables grow, batches know each other's words, and every slot is hit."""
    monkeypatch.setattr("seqloom.models.classification.feature_counts._BATCH", 50_000)
    rng = np.random.default_rng(0)
    texts = [" ".join(f"x{w}" for w in row) for row in rng.integers(0, 60_000, (3000, 40))]
    labels = [str(i % 3) for i in range(3000)]
    counts = Counter((word, label) for text, label in zip(texts, labels) for word in text.split())
    model = NaiveBayes().fit((texts, labels))
    found = {
        (share.feature, label): share.count
        for label in "012"
        for share in model.top_features(label, 99_999)
    }
    assert {pair: n for pair, n in found.items() if n} == counts
    assert model.fit_info["features"] == len({word for word, _ in counts})


def test_partial_fit_from_a_file_and_after_loading(tmp_path):
    data = generated(200)
    data = Labelled([text or "w1" for text in data.texts], data.labels)
    path = tmp_path / "data.tsv"
    path.write_text(
        "text\tlabel\n" + "".join(f"{t}\t{c}\n" for t, c in zip(data.texts, data.labels))
    )
    for options in ({"ngrams": 3}, {"features": "presence", "ngrams": 2}):
        whole = NaiveBayes(**options).fit(data)
        streamed = NaiveBayes(**options).partial_fit(stream_labelled(path, size=70))
        streamed.check_fitted()
        assert same(whole, streamed)
        NaiveBayes(**options).partial_fit(data.part(slice(0, 90))).save(tmp_path / "half")
        later = NaiveBayes.load(tmp_path / "half").partial_fit(data.part(slice(90, 200)))
        later.check_fitted()
        assert same(whole, later)
        fitted = (
            NaiveBayes(**options)
            .fit(data.part(slice(0, 90)))
            .partial_fit(data.part(slice(90, 200)))
        )
        fitted.check_fitted()
        assert same(whole, fitted)


def test_min_count_is_applied_at_the_end_and_to_ngrams():
    data = Labelled.of([("a b c", "p"), ("a b", "q"), ("c d", "q")])
    model = NaiveBayes(min_count=2, ngrams=2)
    for i in range(3):
        model.partial_fit(data.part([i]))
    assert {s.feature for s in model.top_features("p", 99)} == {"a", "b", "c", "a b"}
    with pytest.raises(ConfigError, match="dropped rare words"):
        NaiveBayes(min_count=2).fit(data).partial_fit(data)


def test_partial_fit_refuses_a_tokenizer_that_must_see_all():
    with pytest.raises(ConfigError, match="finished"):
        NaiveBayes(tokenizer="bpe").partial_fit(TOY)
    model = NaiveBayes(tokenizer="bpe", vocab_size=300, ngrams=2).fit(TOY)
    assert model.predict("a fine film") == "good"


# ---- explanations


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("features", ["counts", "presence"])
def test_explanations_add_up(variant, features):
    data = generated(200)
    model = NaiveBayes(variant=variant, features=features, ngrams=2, calibrate="temperature").fit(
        data, valid=generated(100, seed=3)
    )
    assert model.temperature != 1
    for text in [*generated(20, seed=2).texts, "", "w1 w1 w1 new"]:
        for n in (2, 100):
            for label, against in ((None, None), ("c", "a")):
                found = model.explain(text, n, label=label, against=against)
                total = (
                    found.prior + found.absent + sum(s.nats for s in found.shares) + found.others
                )
                assert total == pytest.approx(found.log_odds, abs=1e-9)
                assert [word for word, _ in found.tokens] == text.split()
                assert sum(
                    nats for _, nats in found.tokens
                ) + found.prior + found.absent == pytest.approx(total, abs=1e-9)
                assert found.log_odds >= 0 or label
                probs = model.predict_proba(text)
                assert found.log_odds == pytest.approx(
                    math.log(probs[found.label] / probs[found.against]), abs=1e-9
                )
        assert found.others == 0
    shares = {s.feature: s.count for s in model.explain("w1 w1 w1 new").shares}
    assert shares["w1"] == 3
    assert "new" not in shares


def test_explanation_and_top_features_name_the_words():
    model = NaiveBayes().fit(TOY)
    with pytest.raises(ConfigError, match="label and against are both 'bad'"):
        model.explain("dull", label="bad", against="bad")
    with pytest.raises(ConfigError, match="unknown class 'xyz'; known: bad, "):
        model.explain("dull", label="xyz")
    found = model.explain("dull and cold", label="bad", against="good", n=1)
    assert (found.label, found.against, found.shares[0].feature) == ("bad", "good", "dull")
    assert found.shares[0].nats == pytest.approx(
        math.log((3 + 1) / (10 + 11)) - math.log(1 / (8 + 11))
    )
    top = model.top_features("bad", 2)
    assert [(s.feature, s.count) for s in top] == [
        ("cold", 2),
        ("dull", 3),
    ]  # "fair" has a "dull" too
    fair, good = math.log(1 / (6 + 11)), math.log(1 / (8 + 11))
    assert top[0].nats == pytest.approx(math.log((2 + 1) / (10 + 11)) - (fair + good) / 2)
    with pytest.raises(ConfigError, match="did you mean 'good'"):
        model.top_features("goood")


# ---- calibration


def test_temperature_is_the_best_on_valid():
    data, valid = generated(60), generated(400, seed=1)
    valid = Labelled(
        [f"{t} {t} {t}" for t in valid.texts], [*valid.labels[:-9], *"abcabcabc"]
    )  # too sure: words come thrice
    model = NaiveBayes(calibrate="temperature").fit(data, valid=valid)
    plain = NaiveBayes().fit(data)
    assert model.temperature > 1
    assert model.predict(valid.texts) == plain.predict(valid.texts)

    def cost(temperature: float) -> float:
        scores = plain.log_probs(valid.texts) / temperature
        log_probs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        return -log_probs[
            np.arange(len(valid)), [plain.classes.index(c) for c in valid.labels]
        ].mean()

    assert model.evaluate(valid, samples=10)["nats_per_text"] == pytest.approx(
        cost(model.temperature), abs=1e-9
    )
    assert cost(model.temperature) < min(
        cost(model.temperature * 1.01), cost(model.temperature / 1.01)
    )
    with pytest.raises(ConfigError, match="needs held-out texts"):
        NaiveBayes(calibrate="temperature").fit(data)
    with pytest.raises(DataError, match="share its classes"):
        NaiveBayes(calibrate="temperature").fit(data, valid=[("w1", "other")])
    streamed = NaiveBayes(calibrate="temperature").partial_fit(data.part(slice(0, 30)), valid=valid)
    assert streamed.partial_fit(data.part(slice(30, 60))).predict("w1") == model.predict("w1")
    assert streamed.temperature == model.temperature


# ---- saving


@pytest.mark.parametrize(
    "options",
    [
        {"ngrams": 3, "calibrate": "temperature"},
        {"variant": "bernoulli"},
        {"tokenizer": "char"},
        {"normalize": "case=lower,stem=porter", "variant": "complement"},
    ],
)
def test_saved_model_answers_the_same_to_the_bit(options, tmp_path):
    data = generated(100)
    valid = data if "calibrate" in options else None
    model = NaiveBayes(**options).fit(data, valid=valid)
    model.save(tmp_path / "m")
    again = NaiveBayes.load(tmp_path / "m")
    assert same(model, again)
    texts = [*generated(50, seed=5).texts, "", "W1 caf\u00e9"]
    assert np.array_equal(model.log_probs(texts), again.log_probs(texts))
    assert again.explain(texts[0]) == model.explain(texts[0])
    assert again.label() == model.label()


def test_contradicting_tables_are_refused():
    model = NaiveBayes(ngrams=2).fit(TOY)
    good = model.arrays()
    beyond = good["keys"] | np.uint64(1 << 40)
    for name, bad in (
        ("weights", good["weights"][1:]),
        ("seen", good["seen"][1:]),
        ("keys", beyond),
    ):
        with pytest.raises(ModelError, match="damaged"):
            NaiveBayes.restore(
                Saved(
                    model.config.to_dict(),
                    model.learnt,
                    {},
                    model.tokenizers,
                    {**good, name: bad},
                    [],
                )
            )


# ---- bad input


def test_texts_without_a_known_word_fall_back_to_the_prior():
    for variant in ("multinomial", "complement"):
        model = NaiveBayes(variant=variant).fit(TOY)
        with listening() as heard:
            probs = model.predict_proba(["zzz", "", "fine", "  "])
        assert heard == [
            "3 of 4 texts have no known word (rows 1, 2, 4); there the prior alone decides"
        ]
        for row in (0, 1, 3):
            assert probs[row] == pytest.approx([2 / 7, 2 / 7, 3 / 7], abs=1e-12)
    with listening() as heard:
        assert NaiveBayes(variant="bernoulli").fit(TOY).predict("zzz") == "good"
    assert heard == ["1 of 1 texts has no known word; there the prior and what is absent decide"]


def test_one_class_and_no_words():
    for variant in VARIANTS:
        model = NaiveBayes(variant=variant, ngrams=2).fit([("a b", "only"), ("c", "only")])
        assert model.predict_proba("a b zzz") == {"only": 1.0}
        assert model.top_features("only", 1)
        with pytest.raises(ConfigError, match="only one class"):
            model.explain("a")
    with pytest.raises(DataError, match="no token"):
        NaiveBayes().fit([("", "a"), (" ", "b")])
    model = NaiveBayes(min_count=5)
    with pytest.raises(DataError, match="lower min_count"):
        model.fit(TOY)
    five = [("x " * 5, "a"), ("y " * 5, "b")]
    assert {s.feature for s in model.partial_fit(five).top_features("a")} == {
        "x",
        "y",
    }  # nothing is left of the failed fit


def test_bad_input_is_named():
    model = NaiveBayes()
    with pytest.raises(NotFitted):
        model.predict("a")
    with pytest.raises(DataError, match="row 2"):
        model.fit([("a", "x"), ("b", None)])
    with pytest.raises(DataError, match="row 1"):
        model.fit(([3, "b"], ["x", "y"]))
    model.fit(TOY)
    with pytest.raises(DataError, match="must be a str; got int: '7'"):
        model.predict(["fine", 7])
    with pytest.raises(DataError, match="surrogate"):
        model.predict("\ud800")
    with pytest.raises(ConfigError, match="calibrate must be one of"):
        NaiveBayes(calibrate="platt")
    before = model.log_probs(["fine"])
    with pytest.raises(DataError, match="must be a str"):
        model.partial_fit(Labelled(["fine", None], ["good", "bad"]))
    assert np.array_equal(model.log_probs(["fine"]), before)
    with pytest.raises(DataError, match="surrogate"):
        model.partial_fit(Labelled(["fine", "\ud800"], ["good", "bad"]))
    with pytest.raises(NotFitted):  # nobody knows how much of it was counted
        model.predict("fine")
    assert model.fit(TOY).predict([]) == []


def test_vocabulary_from_a_file_and_literal_unk(tmp_path):
    (tmp_path / "words.txt").write_text("fine\ndull\nnever\n")
    model = NaiveBayes(vocab_file=str(tmp_path / "words.txt"), ngrams=2).fit(TOY)
    assert {s.feature for s in model.top_features("bad", 99)} == {
        "dull",
        "fine",
        "dull dull",
    }  # what was never seen is nothing
    model = NaiveBayes(tokenizer="whitespace").fit([("a <unk> <unk> b", "x"), ("b <unk>", "y")])
    assert {s.feature for s in model.top_features("x", 99)} == {"a", "b"}


def test_valid_texts_that_are_all_right_leave_the_temperature_alone(monkeypatch):
    """Without an error the surer the better: the best temperature would be zero."""
    said: list[str] = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    data = [("warm kind", "good"), ("cold mean", "bad")]
    assert NaiveBayes(calibrate="temperature").fit(data, valid=data).temperature == 1
    assert "every text" in said[0]
