"""What the options of the neural classifier change, each on data where it matters."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.contracts.fitting import FitOptions
from seqloom.data.classification import as_labelled
from seqloom.errors import ConfigError, DataError
from seqloom.models.classification.decisions import best_shift, best_temperature, shifted
from seqloom.models.classification.explanation import token_shares
from seqloom.models.classification.neural_classifier import NeuralClassifier
from seqloom.models.sequence.inputs import TextInputs, windows
from seqloom.models.sequence.model import held_out
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.config import TrainConfig

ORDER = [
    (" ".join(words), "yes" if words.index("a") < words.index("b") else "no")
    for words in itertools.permutations(["a", "b", "c", "d"])
]
WORDS = [
    ("good fun", "+"),
    ("dull", "-"),
    ("fun", "+"),
    ("so dull", "-"),
    ("good", "+"),
    ("dull day", "-"),
] * 3


def fitted(data, steps=60, valid=None, **options):
    options = {"d_embed": 16, "dropout": 0.0, "word_dropout": 0.0, **options}
    return NeuralClassifier(**options).fit(
        data, valid=valid, train=TrainConfig(steps=steps, batch_size=8)
    )


def test_order_matters_to_an_lstm_and_not_to_a_bag():
    assert fitted(ORDER, encoder="bilstm", d_hidden=16).score(ORDER) == 1.0
    assert fitted(ORDER, encoder="bag", pooling="mean").score(ORDER) < 0.7


def test_words_never_seen_are_known_by_their_spelling():
    train = [
        (f"{stem}{'ing' if i % 2 else 'ed'}", "ing" if i % 2 else "ed")
        for i, stem in enumerate(
            ["walk", "talk", "jump", "call", "play", "work", "kick", "lift"] * 4
        )
    ]
    new = [("barking", "ing"), ("barked", "ed"), ("milling", "ing"), ("milled", "ed")]
    options = {"encoder": "bag", "word_dropout": 5.0}
    assert fitted(train, **options, characters="cnn", d_characters=16, steps=120).score(new) == 1.0
    assert fitted(train, **options).score(new) == 0.5


def test_numbers_of_any_length_with_gaps():
    rng = np.random.default_rng(0)
    slow, fast = (
        [np.sin(speed * np.arange(20 + i) + rng.normal())[:, None] for i in range(12)]
        for speed in (0.2, 1.5)
    )
    fast[0][3] = np.nan
    model = NeuralClassifier(encoder="cnn", d_hidden=16, dropout=0.0).fit(
        [*slow, *fast], ["slow"] * 12 + ["fast"] * 12, train=TrainConfig(steps=60)
    )
    assert model.predict([np.sin(0.2 * np.arange(30)), np.sin(1.5 * np.arange(30))]) == [
        "slow",
        "fast",
    ]
    assert model.sizes.missing
    assert model.summary() == "24 series, 2 classes"
    with pytest.raises(DataError, match="2 columns"):
        model.predict([np.zeros((4, 2))])
    with pytest.raises(DataError, match="is text"):
        model.predict(["a"])
    with pytest.raises(DataError, match="infinite"):
        model.predict([np.array([1.0, np.inf])])


def test_long_runs_of_missing_numbers():
    """They tell nothing but that they are missing; where training had none, they are read as the mean."""
    rng = np.random.default_rng(0)
    rows = [np.sin((0.2, 1.5)[i % 2] * np.arange(60) + rng.normal()) for i in range(24)]
    gaps = [row.copy() for row in rows]
    for gap in gaps:
        gap[8:52] = np.nan
    gaps[0][:] = np.nan
    labels, options = ["slow", "fast"] * 12, {"encoder": "gru", "d_hidden": 8, "dropout": 0.0}
    model = NeuralClassifier(**options).fit(gaps, labels, train=TrainConfig(steps=80))
    assert model.score(gaps[1:], labels[1:]) > 0.8
    assert np.isfinite(model.class_log_probs([np.full(500, np.nan)])).all()
    whole = NeuralClassifier(**options).fit(rows, labels, train=TrainConfig(steps=5))
    mean = np.where(np.isnan(gaps[1]), float(whole.net.weights["reader.mean"][0]), gaps[1])
    np.testing.assert_allclose(
        whole.class_log_probs([gaps[1]]), whole.class_log_probs([mean]), atol=1e-5
    )
    with pytest.raises(DataError, match="hold no numbers"):
        NeuralClassifier(**options).fit(
            [np.full(5, np.nan)] * 12, labels[:12], train=TrainConfig(steps=5)
        )


def test_several_labels_each_on_its_own():
    data = [("a", ["x"]), ("b", ["y"]), ("a b", ["x", "y"]), ("c", [])] * 6
    model = fitted(data, encoder="bag", steps=150)
    assert model.predict(["a", "b", "b a", "c"]) == [["x"], ["y"], ["x", "y"], []]
    assert model.evaluate(data)["exact_match"] == 1.0


def test_rare_classes_count_as_much_when_balanced():
    rng = np.random.default_rng(1)
    data = [(f"w{rng.integers(5)}", "often") for _ in range(90)] + [
        (f"w{rng.integers(5)}", "rare") for _ in range(10)
    ]
    plain, balanced = (
        fitted(data, encoder="bag", class_weights=how, valid=data) for how in ("none", "balanced")
    )
    share = [
        np.mean(np.array(model.predict([text for text, _ in data])) == "rare")
        for model in (plain, balanced)
    ]
    assert share[0] < 0.1
    assert plain.predict_proba("w9")["rare"] < balanced.predict_proba("w9")["rare"]


def test_long_texts_are_cut_or_read_in_windows():
    tokenizer = Tokenizer(kind="whitespace").fit("a b c d e f g h\n")
    cut = TextInputs(tokenizer, max_length=4).encode(["a b c d e f g h", "a"])
    assert cut.lengths.tolist() == [4, 2]
    read = TextInputs(tokenizer, max_length=4, long="windows").encode(["a b c d e f g h", "a"])
    assert read.counts.tolist() == [4, 1]
    assert read.lengths.tolist() == [4 + 4 + 4 + 3, 2]
    first, stops, counts = windows(np.array([0]), np.array([9]), 4)
    assert list(zip(first.tolist(), stops.tolist())) == [(0, 4), (2, 6), (4, 8), (6, 9)]
    assert counts.tolist() == [4]
    sentences = TextInputs(tokenizer, max_length=4, long="sentences").encode(["a b. C d.", "a"])
    assert sentences.counts.tolist() == [2, 1]


def test_what_stands_at_the_end_of_a_long_text_is_seen_in_windows_alone():
    data = [(f"{'x ' * 20}{word}", word) for word in ("left", "right")] * 8
    assert fitted(data, encoder="bag", long="windows", max_length=6).score(data) == 1.0
    assert fitted(data, encoder="bag", max_length=6).score(data) == 0.5


def test_long_arrays_are_read_in_windows_and_have_no_sentences():
    labels = ["up", "down"] * 12
    rows = [
        np.concatenate([np.zeros((20 + i % 3, 2)), np.full((2, 2), 1.0 if label == "up" else -1.0)])
        for i, label in enumerate(labels)
    ]
    model = fitted(list(zip(rows, labels)), encoder="cnn", d_hidden=8, long="windows", max_length=6)
    assert model.encode([rows[0], rows[0][:0]]).counts.tolist() == [7, 1]
    assert model.predict(rows) == labels
    assert model.predict(rows[0]) == "up"
    with pytest.raises(
        ConfigError, match="long sentences reads texts, but texts has numbers; give long windows"
    ):
        fitted(list(zip(rows, labels)), encoder="cnn", long="sentences")


def test_a_document_of_10_000_tokens():
    model = fitted(WORDS, encoder="bilstm", d_hidden=8, long="windows", max_length=64, steps=5)
    assert len(model.predict(["dull " * 10_000])) == 1


def test_shares_of_words_add_up_to_the_log_odds():
    model = fitted(WORDS, encoder="bigru", d_hidden=8)
    shares, whole, nothing = token_shares(model, "good but dull", 0, 1, points=400)
    assert len(shares) == 4  # with </s>
    assert shares.sum() == pytest.approx(whole - nothing, abs=2e-2)
    explanation = model.explain("good fun", n=1)
    assert (explanation.label, explanation.against) == ("+", "-")
    assert explanation.shares[0].feature in ("good", "fun")
    assert explanation.log_odds == pytest.approx(
        explanation.prior + explanation.shares[0].nats + explanation.others + explanation.difference
    )
    assert abs(explanation.difference) < 5e-3  # of averaging over finitely many points
    log_odds = np.subtract(*np.log([model.predict_proba("good fun")[label] for label in "+-"]))
    assert explanation.log_odds == pytest.approx(log_odds, abs=1e-4)
    with pytest.raises(ConfigError, match="unknown class 'x'"):
        model.explain("good", label="x")


@pytest.mark.parametrize("long", ["windows", "sentences"])
def test_words_of_long_texts_are_explained_in_the_order_of_the_text(long):
    model = fitted(WORDS, encoder="bag", pooling="mean", long=long, max_length=4)
    text = "Good film Zebra. The dull. A good film."
    explanation = model.explain(text, n=100)
    words = [*text.replace(".", " .").split(), "</s>"]
    if long == "sentences":
        words = [
            w
            for sentence in text.split(". ")
            for w in [*sentence.rstrip(".").split(), ".", "</s>"][:4]
        ]
    assert [word for word, _ in explanation.tokens] == words
    nats = dict(explanation.tokens)
    assert nats["dull"] == min(nats.values()) < 0 < nats["good"] == max(nats.values())
    assert sum(nats for _, nats in explanation.tokens) == pytest.approx(
        explanation.log_odds - explanation.prior, abs=1e-3
    )


def test_an_explanation_has_the_calibrated_log_odds():
    model = fitted(WORDS, encoder="bag")
    model.learnt |= {"temperature": 2.0, "shift": [0.3, 0.0]}
    found = model.explain("good dull", label="+", against="-")
    log_odds = np.subtract(*np.log([model.predict_proba("good dull")[label] for label in "+-"]))
    assert found.log_odds == pytest.approx(log_odds, abs=1e-4)
    assert sum(share.nats for share in found.shares) + found.prior == pytest.approx(
        log_odds, abs=1e-3
    )


def test_one_of_several_labels_is_explained_against_its_absence():
    data = [("ball", ["sport"]), ("vote", ["law"]), ("ball vote", ["sport", "law"])] * 6
    model = fitted(data, encoder="bag")
    found = model.explain("ball", label="sport")
    p = model.predict_proba("ball")["sport"]
    assert (found.against, found.log_odds) == (
        "not sport",
        pytest.approx(np.log(p / (1 - p)), abs=1e-4),
    )
    assert max(found.tokens, key=lambda token: token[1])[0] == "ball"


def test_attention_is_shared_out_among_the_words():
    model = fitted(WORDS, encoder="bag", pooling="attention", steps=150)
    weights = dict(model.attention("so dull Zebra"))
    assert list(weights) == ["so", "dull", "Zebra", "</s>"]
    assert sum(weights.values()) == pytest.approx(1)
    assert max(weights, key=weights.get) == "dull"
    with pytest.raises(ConfigError, match="pooling attention"):
        fitted(WORDS, encoder="bag", steps=1).attention("so")


def test_balanced_classes_also_choose_the_weights():
    """Never to predict the rare class has the best plain accuracy, so by that the weights of such a
    step would be kept.
    """
    rng = np.random.default_rng(0)
    rare = rng.random(400) < 0.1
    data = [
        (
            " ".join(rng.choice(["a", "b"], 5, p=[1 / 3, 2 / 3] if one else [2 / 3, 1 / 3])),
            "-" if one else "+",
        )
        for one in rare
    ]
    model = fitted(
        data, encoder="bag", pooling="mean", class_weights="balanced", dropout=0.4, steps=100
    )
    found = model.predict([text for text, label in data if label == "-"]).count("-") / rare.sum()
    assert found > 0.5


def test_temperature_is_that_of_the_least_loss():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (400, 3))
    truth = np.array([rng.choice(3, p=np.exp(row) / np.exp(row).sum()) for row in logits])
    sharp = 3 * logits
    log_probs = sharp - np.logaddexp.reduce(sharp, axis=1, keepdims=True)
    assert best_temperature(log_probs, truth, False) == pytest.approx(3, rel=0.25)
    calm = shifted(log_probs, 3.0, None, False)
    assert np.allclose(np.exp(calm).sum(1), 1)
    assert (calm.argmax(1) == log_probs.argmax(1)).all()


def test_threshold_is_where_f1_is_best():
    probs = np.array([0.05, 0.1, 0.2, 0.3, 0.35, 0.4])
    truth = np.array(
        [0, 0, 0, 1, 0, 1]
    )  # the second class is rarer; F1 is best when all above 0.25 are taken
    log_probs = np.log(np.stack([1 - probs, probs], 1))
    shift = best_shift(log_probs, truth, False)
    assert (shifted(log_probs, 1.0, shift, False).argmax(1) == [0, 0, 0, 1, 1, 1]).all()
    several = best_shift(np.log(probs)[:, None], truth[:, None], True)
    assert (
        (np.exp(shifted(np.log(probs)[:, None], 1.0, several, True)) > 0.5)[:, 0]
        == [0, 0, 0, 1, 1, 1]
    ).all()
    assert best_shift(np.zeros((2, 3)), np.zeros(2, np.int64), False) is None


def test_both_are_kept_in_the_model(tmp_path):
    import seqloom

    model = fitted(
        WORDS, encoder="bag", valid=WORDS, calibrate="temperature", tune_threshold=True, steps=10
    )
    assert {"temperature", "shift"} <= set(model.learnt)
    model.save(tmp_path / "m")
    texts = [text for text, _ in WORDS]
    assert np.array_equal(
        seqloom.load(tmp_path / "m").predict_proba(texts), model.predict_proba(texts)
    )


def test_pretrained_vectors_frozen_or_not_and_of_words_never_seen(tmp_path):
    vectors = WordVectors.of(
        ["good", "fine", "dull", "bad"], [[1.0, 0], [0.9, 0.1], [-1, 0], [-0.9, 0.1]]
    )
    vectors.save(tmp_path / "v")
    options = {
        "encoder": "bag",
        "pooling": "mean",
        "pretrained": str(tmp_path / "v"),
        "d_embed": None,
    }
    model = fitted([("good", "+"), ("dull", "-")] * 9, **options, pretrained_training="frozen")
    place = model.tokenizer.id("good")
    assert model.weights["reader.embedding.weight"][place].tolist() == [1.0, 0.0]
    assert model.sizes.further == 2
    assert model.predict(["fine", "bad"]) == ["+", "-"]
    tuned = fitted(WORDS, **options)
    assert tuned.weights["reader.embedding.weight"][place].tolist() != [1.0, 0.0]
    assert fitted(WORDS, **options, pretrained_words=0).sizes.further == 0
    with pytest.raises(ConfigError, match="d_embed is 3"):
        fitted(WORDS, encoder="bag", pretrained=str(tmp_path / "v"), d_embed=3)


def test_options_that_cannot_work_together():
    with pytest.raises(ConfigError, match="whole words"):
        fitted(WORDS, tokenizer="char", characters="cnn", steps=1)
    with pytest.raises(ConfigError, match="truncation has no effect"):
        NeuralClassifier().fit(WORDS, train=TrainConfig(truncation=8))
    with pytest.raises(ConfigError, match="multiple of 8"):
        fitted(WORDS, encoder="transformer", d_hidden=12, steps=1)
    with pytest.raises(ConfigError, match="n_heads has no effect"):
        NeuralClassifier(n_heads=2)


def test_bucketed_batches_waste_little():
    from seqloom.models.sequence.sequence_net import example_batches

    rng = np.random.default_rng(0)
    lengths = np.maximum(
        rng.lognormal(2.8, 0.6, 3000).astype(int), 1
    )  # words of sentences, about as in EWT
    tokenizer = Tokenizer(kind="whitespace").fit("a\n")
    encoded = TextInputs(tokenizer, max_length=512).encode(["a " * (n - 1) for n in lengths])
    batches, cursor, used = (
        example_batches(encoded, TrainConfig(), np.zeros(3000, np.int64)),
        (0, 0),
        [],
    )
    while cursor[0] == 0:
        batch = batches.batch(cursor)
        used.append((batch["ids"].size, batch["lengths"].sum()))
        cursor = batch.following
    padded, real = np.sum(used, axis=0)
    assert real == encoded.lengths.sum()
    assert 1 - real / padded < 0.1


def test_classes_of_one_example_are_learnt_not_held_out():
    single = [(f"only{i}", f"class{i}") for i in range(6)]
    model = fitted(
        [*[(f"w{i} good", "+") for i in range(60)], *single],
        encoder="bag",
        class_weights="balanced",
        steps=200,
    )
    assert [model.predict(text) for text, _ in single] == [label for _, label in single]


@pytest.mark.parametrize(("share", "kept"), [(0.0, 0), (0.1, 6), (0.3, 18)])
def test_a_share_of_the_examples_is_held_out(share, kept):
    """The rest is trained on; with nothing held out the last weights are the result."""
    pairs = [(f"word{i} {'good' if i % 2 else 'dull'}", str(i % 2)) for i in range(60)]
    model = NeuralClassifier(encoder="bag", d_embed=4, hold_out=share).fit(
        pairs, train=TrainConfig(steps=3, batch_size=64)
    )
    assert model.fit_info["epochs"] == 3
    assert (model.fit_info["best_step"] is not None) == bool(kept)
    data = as_labelled(pairs)
    train, held = held_out(
        share, data, FitOptions(), data.examples, [(label,) for label in data.labels]
    )
    assert (len(train), 0 if held is None else len(held)) == (60 - kept, kept)
