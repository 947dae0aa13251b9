"""What spoke for an answer, against captum, exact marginals, scores and models whose shares are known."""

from __future__ import annotations

import numpy as np
import pytest

import seqloom
from seqloom import TrainConfig, inspect
from seqloom.errors import ConfigError
from seqloom.models.classification.explanation import methods_of, token_shares
from seqloom.models.explaining import explain_span, explain_tag, explain_token
from tests.saved import NEWEST

LABELLED = [("good fun", "+"), ("dull and long", "-"), ("good", "+"), ("not good", "-")] * 8
TEXT = "a good not so dull day"
QUICK = TrainConfig(steps=20)


def network(encoder="lstm", **options):
    return seqloom.NeuralClassifier(encoder=encoder, **options).fit(LABELLED, train=QUICK)


CLASSIFIERS = {
    "naive-bayes": lambda: seqloom.NaiveBayes().fit(LABELLED),
    "bernoulli": lambda: seqloom.NaiveBayes(variant="bernoulli").fit(LABELLED),
    "logistic": lambda: seqloom.Logistic().fit(LABELLED),
    "fasttext": lambda: seqloom.FastTextClassifier(dimensions=8, ngrams=2, max_ngram=4).fit(
        LABELLED
    ),
    "tree": lambda: seqloom.FastTextClassifier(dimensions=8, loss="hs").fit(LABELLED),
    "quantised": lambda: seqloom.FastTextClassifier(dimensions=8, quantise=True).fit(LABELLED),
    "bag": lambda: network("bag"),
    "lstm": network,
    "transformer": lambda: network("transformer"),
    "attentive": lambda: network("cnn", pooling="attention"),
}
METHODS = {
    "tree": ["occlusion"],
    "bag": ["gradients", "occlusion"],
    "lstm": ["gradients", "occlusion"],
    "transformer": ["gradients", "occlusion", "attention"],
    "attentive": ["gradients", "occlusion", "attention"],
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_contributions_add_up_to_the_log_odds(kind):
    model = CLASSIFIERS[kind]()
    proba = model.predict_proba(TEXT)
    for method in METHODS.get(kind, ["weights", "occlusion"]):
        sheet = inspect.explanation(model, TEXT, label="-", against="+", method=method, top=3)
        (one,) = sheet.data["explanations"]
        log_odds = np.log(proba["-"]) - np.log(proba["+"])
        assert one["log_odds"] == pytest.approx(log_odds, abs=1e-3)
        if method == "attention":
            assert sum(row["weight"] for row in sheet.data["rows"]) == pytest.approx(1, abs=1e-5)
        else:
            assert one["sum"] == pytest.approx(one["log_odds"], abs=5e-3)
            assert "the terms add up to" in sheet.summary[0]
    refused = next(m for m in ("attention", "weights") if m not in METHODS.get(kind, ["weights"]))
    with pytest.raises(ConfigError, match=f"no explanation by {refused}"):
        inspect.explanation(model, TEXT, method=refused)


def test_weights_of_naive_bayes_are_what_leaving_out_shows():
    model = seqloom.NaiveBayes().fit(LABELLED)
    weights, left_out = (
        dict(model.explain(TEXT, method=m).tokens) for m in ("weights", "occlusion")
    )
    assert weights == pytest.approx(left_out, abs=1e-9)


def test_occlusion_of_a_mean_is_its_gradient():
    model = network("bag", pooling="mean")
    found = [token_shares(model, TEXT, 0, 1, method=m)[0] for m in ("gradients", "occlusion")]
    assert found[0] == pytest.approx(found[1], abs=1e-4)


@pytest.mark.parametrize("encoder", ["bag", "cnn", "lstm", "bigru", "transformer"])
def test_integrated_gradients_are_those_of_captum(encoder):
    captum = pytest.importorskip("captum.attr")
    import torch

    model = network(encoder)
    net = model.network()
    batch = {k: torch.from_numpy(v) for k, v in model.encode([TEXT]).batch(np.arange(1)).items()}

    def forward(x):
        return net.encode(x, {"lengths": batch["lengths"].repeat(len(x))})

    with torch.no_grad():
        x = net.reader(batch)
    difference = lambda v: forward(v)[:, 0] - forward(v)[:, 1]  # noqa: E731
    theirs = captum.IntegratedGradients(difference).attribute(
        x, n_steps=512, method="riemann_middle", internal_batch_size=64
    )
    ours, full, nothing = token_shares(model, TEXT, 0, 1, points=512)
    assert ours == pytest.approx(theirs.sum(2)[0].detach().numpy(), abs=1e-4)
    assert ours.sum() == pytest.approx(full - nothing, abs=1e-3)


def test_a_classifier_of_ones_own_is_explained_by_leaving_words_out():
    class Shouting(seqloom.Classifier):
        def fit_examples(self, data, options):
            self.rate = 1.0

        def class_log_probs(self, examples):
            p = np.array([0.1 + 0.8 * ("!" in text) for text in examples])
            return np.log(np.stack([p, 1 - p], 1))

    model = Shouting().fit([("a !", "loud"), ("b", "still")])
    one = inspect.explanation(model, "well ! then").data["explanations"][0]
    tokens = dict(one["tokens"])
    assert tokens["!"] == pytest.approx(2 * np.log(9))
    assert tokens["well"] == tokens["then"] == 0


@pytest.mark.parametrize("crf", [True, False])
def test_log_odds_of_a_tag_are_those_of_its_marginals(crf):
    data = [(["the", "run", "ends"], ["D", "N", "V"]), (["dogs", "run"], ["N", "V"])] * 8
    model = seqloom.NeuralTagger(crf=crf).fit(data, train=QUICK)
    words = ["the", "dogs", "run"]
    encoded, _ = model.steps_of(words)
    scores = model.runtime()(encoded.examples())
    if crf:
        marginals = model._chain().marginals(scores[None], np.array([3]))[0]
    else:
        marginals = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    for word in (1, 3):
        one = explain_tag(model, words, word)
        a, b = model.tags.index(one.label), model.tags.index(one.against)
        assert one.label == model.predict(words)[word - 1]
        assert one.log_odds == pytest.approx(
            np.log(marginals[word - 1, a] / marginals[word - 1, b]), abs=1e-3
        )
        assert one.sum == pytest.approx(one.log_odds, abs=5e-3)
    with pytest.raises(ConfigError, match="word must be from 1 to 3"):
        explain_tag(model, words, 4)


def test_a_tag_of_a_hidden_markov_model():
    model = seqloom.load(NEWEST / "hmm-tagger")
    sheet = inspect.explanation(model, "Mary saw New York", word=3)
    one = sheet.data["explanations"][0]
    assert one["sum"] == pytest.approx(one["log_odds"])
    trellis = inspect.trellis(model, "Mary saw New York").data
    odds = trellis["smoothing"][2]
    names = trellis["states"]
    expected = np.log(odds[names.index(one["label"])] / odds[names.index(one["against"])])
    assert one["log_odds"] == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["seq2seq", "transformer"])
def test_a_token_of_a_translation(kind):
    model = seqloom.load(NEWEST / kind)
    target = model.translate("abc") or "a"
    stepper, ids = model.decoder(["abc"]), model.target_tokenizer.encode(target)
    state, log_probs = stepper.start(1)
    if len(ids):
        state, log_probs = stepper.step(state, np.array(ids[:1], np.int64))
    names = [model.target_tokenizer.token(i) for i in range(model.target_tokenizer.vocab_size)]
    for method in ("gradients", "occlusion", "attention"):
        one = explain_token(model, "abc", target, 2, method)
        a, b = names.index(one.label), names.index(one.against)
        assert one.log_odds == pytest.approx(float(log_probs[0, a] - log_probs[0, b]), abs=1e-3)
        if method == "attention":
            assert sum(weight for _, weight in one.tokens) == pytest.approx(1, abs=1e-4)
        else:
            assert one.sum == pytest.approx(one.log_odds, abs=5e-3)
    with pytest.raises(ConfigError, match="step must be from 1 to"):
        explain_token(model, "abc", target, 99)


def test_the_span_of_an_answer():
    model = seqloom.load(NEWEST / "answerer")
    question, context = "who saw it ?", "Mary saw New York ."
    (found,) = model.find_spans([(question, context)])
    one = explain_span(model, question, context)
    assert one.label == context[found.start : found.end]
    assert one.log_odds == pytest.approx(np.log(1 / found.no_answer - 1), abs=1e-3)
    assert one.sum == pytest.approx(one.log_odds, abs=5e-3)


def test_options_are_for_their_tasks():
    model = seqloom.load(NEWEST / "naive-bayes")
    with pytest.raises(ConfigError, match="word is for taggers"):
        inspect.explanation(model, "a road", word=1)
    with pytest.raises(ConfigError, match="there is no view 'explanation' of majority"):
        inspect.explanation(seqloom.load(NEWEST / "majority"), "a road")
    assert methods_of(seqloom.load(NEWEST / "classifier"))[0] == "gradients"


@pytest.mark.parametrize("kind", ["hmm-tagger", "tagger"])
def test_a_tag_in_a_long_text_is_explained_by_the_words_around_it(kind, monkeypatch):
    model = seqloom.load(NEWEST / kind)
    sentence = ["Mary", "saw", "New", "York", "."] * 20_000
    monkeypatch.setattr("seqloom.models.explaining.MOST_WORDS", 16)
    for word, low in ((1, 0), (50_000, 49_991), (100_000, 99_984)):
        found = inspect.explanation(model, sentence, word=word).data["explanations"]
        near = inspect.explanation(model, sentence[low : low + 16], word=word - low)
        assert found == near.data["explanations"]
        assert len(found[0]["tokens"]) == 16
