"""fastText's classifier: learning, quantisation, tuning, and the peer where it is installed."""

import math
from itertools import pairwise

import numpy as np
import pytest

import seqloom
from seqloom import progress, reporters
from seqloom.data.classification import Labelled
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.models.classification import bags as bag_training
from seqloom.models.classification import fasttext_classifier, tuning
from seqloom.models.classification.fasttext_classifier import FastTextClassifier
from seqloom.models.word_vectors import learning
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.storage import Saved
from tests.golden import fasttext_models
from tests.golden.fasttext_models import topic_texts


def texts(n, seed=0, length=8):
    return Labelled.of(topic_texts(n, seed, length))


@pytest.fixture(scope="module")
def data():
    return texts(600), texts(300, 1)


@pytest.fixture(scope="module")
def fitted(data):
    return FastTextClassifier(dimensions=32, ngrams=2).fit(data[0])


def accuracy(model, valid):
    return np.mean(np.array(model.predict(valid.texts)) == np.array(valid.labels))


# ---- learning


@pytest.mark.parametrize("loss", ["softmax", "hs"])
def test_it_learns_from_sorted_texts(data, loss):
    train, test = data
    model = FastTextClassifier(dimensions=20, loss=loss, epochs=20).fit(train)
    assert accuracy(model, test) > 0.9
    losses = model.fit_info["losses"]
    assert len(losses) == 20
    assert losses[-1] < 0.2 < losses[0] <= math.log(3) * 1.05


def test_the_loss_is_the_mean_of_minus_log_p(data):
    """With a step that changes nothing any more, what training says is what the model says."""
    train, _ = data
    model = FastTextClassifier(dimensions=10, epochs=3).fit(train)
    reader = model._reader
    rows, bags = reader.learn(train.texts)
    assert (rows.numbers == model.features.numbers).all()
    labels = np.array([model.classes.index(label) for label in train.labels], np.int32)
    still = FastTextClassifier(dimensions=10, epochs=1, lr=1e-8).config
    run = bag_training.Learning(still, bags, len(rows), labels, 3)
    run.X[:, :10], run.Y[:, :10] = model.input, model.output
    (found,), whole = run.run(None, {})
    assert whole
    assert found == pytest.approx(
        -model.log_probs(train.texts)[np.arange(600), labels].mean(), rel=1e-5
    )


def test_the_order_is_another_in_every_epoch_and_seed(fitted, data):
    _, bags = fitted._reader.learn(data[0].texts)
    labels = np.zeros(len(bags), np.int32)
    one, two = (
        bag_training.Learning(FastTextClassifier(seed=seed).config, bags, 10, labels, 2)
        for seed in (0, 1)
    )
    orders = [one._order(0), one._order(1), two._order(0)]
    assert all(sorted(order) == list(range(600)) for order in orders)
    assert len({tuple(order[:20]) for order in orders}) == 3
    assert not (one.X == two.X).all()


def test_few_texts_are_shown_more_often():
    assert [bag_training.default_epochs(n) for n in (1, 1000, 10**6)] == [200, 25, 5]
    assert FastTextClassifier().fit([("a", "x"), ("b", "y")]).fit_info["epochs"] == 200


def test_word_order_counts_with_ngrams():
    pairs = [("dog bites man", "news")] * 20 + [("man bites dog", "odd")] * 20
    for ngrams, right in ((1, 0.5), (2, 1.0)):
        model = FastTextClassifier(ngrams=ngrams, dimensions=10).fit(pairs)
        assert accuracy(model, Labelled.of(pairs)) == right


def test_character_ngrams_reach_words_never_seen(data):
    train, _ = data
    model = FastTextClassifier(max_ngram=5, dimensions=20, epochs=20).fit(train)
    asked = ["sailing sails saltiest", "clouds winds birds", "hills roads horses"]
    assert model.predict(asked) == ["sea", "sky", "land"]
    plain = FastTextClassifier(dimensions=20, epochs=20).fit(train)
    probs = plain.predict_proba(asked)
    assert (probs == probs[0]).all()  # nothing is known of these words
    (features, row_offsets), (word,) = (
        model._reader.features(["sail", "zzsail"]),
        model._reader.features(["sail"])[:1],
    )
    known, unknown = (set(features[a:b].tolist()) for a, b in pairwise(row_offsets))
    assert known == set(word.tolist())
    assert len(known & unknown) == 1 + 6  # the end; sai ail il> sail ail> sail>


def test_lock_free_learns_as_well_and_one_thread_gives_the_same_bits(data, monkeypatch):
    train, test = data
    monkeypatch.setattr(bag_training, "IN_ORDER", 0)
    monkeypatch.setattr(bag_training, "_CHUNK", 256)
    monkeypatch.setenv("SEQLOOM_THREADS", "2")
    options = {"dimensions": 16, "epochs": 12}
    one, two = (FastTextClassifier(**options, deterministic=True).fit(train) for _ in range(2))
    assert (one.input == two.input).all()
    assert (one.output == two.output).all()
    free = FastTextClassifier(**options).fit(train)
    assert accuracy(free, test) > accuracy(one, test) - 0.05


def test_it_goes_on_from_a_checkpoint_to_the_bit(data, tmp_path, monkeypatch):
    train, _ = data
    monkeypatch.setattr(bag_training, "_CHUNK", 512)
    monkeypatch.setattr(learning, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(learning, "SHARE_OF_TIME", math.inf)
    whole = FastTextClassifier(epochs=4, dimensions=16).fit(train)
    order, calls = bag_training.Learning._order, []

    def fails(self, epoch):
        calls.append(epoch)
        if len(calls) == 30:
            raise OSError("the machine is gone")
        return order(self, epoch)

    monkeypatch.setattr(bag_training.Learning, "_order", fails)
    with pytest.raises(OSError, match="gone"):
        FastTextClassifier(epochs=4, dimensions=16).fit(train, run=tmp_path / "run")
    again = FastTextClassifier(epochs=4, dimensions=16).fit(train, run=tmp_path / "run")
    assert len(calls) < 30 + 4 * 13
    assert (again.input == whole.input).all()
    assert again.fit_info == whole.fit_info
    with pytest.raises(ConfigError, match="other settings"):
        FastTextClassifier(epochs=5, dimensions=16).fit(train, run=tmp_path / "run")


def test_words_begin_with_pretrained_vectors(data, tmp_path):
    train, _ = data
    draw = np.random.default_rng(0)
    words = [*sorted({word for text in train.texts for word in text.split()}), "ocean"]
    matrix = draw.normal(size=(len(words), 12)).astype(np.float32)
    lean = [
        sum(
            1 if label == "sea" else -1
            for text, label in zip(train.texts, train.labels)
            if word in text.split()
        )
        for word in words
    ]
    matrix[:, 0] = 3 * np.sign(lean)  # one dimension tells the two apart
    matrix[-1] = np.eye(12)[0] * 3
    WordVectors.of(words, matrix).save(tmp_path / "v")
    still = FastTextClassifier(
        pretrained=str(tmp_path / "v"), dimensions=12, epochs=1, lr=1e-8
    ).fit(train)
    rows = [
        int(np.searchsorted(still.features.numbers, still.tokenizer.id(word))) for word in words
    ]
    assert np.allclose(still.input[rows], matrix, atol=1e-5)
    learnt = FastTextClassifier(pretrained=str(tmp_path / "v"), dimensions=12, epochs=5).fit(train)
    assert (
        learnt.predict("ocean") == "sea"
    )  # never seen in training, but where words of the sea are
    with pytest.raises(ConfigError, match="vectors of 12 dimensions"):
        FastTextClassifier(pretrained=str(tmp_path / "v"), dimensions=13).fit(train)


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_other_tokens(data, tokenizer):
    train, test = data
    model = FastTextClassifier(
        tokenizer=tokenizer,
        ngrams=4,
        dimensions=16,
        epochs=10,
        **({"vocab_size": 400} if tokenizer == "bpe" else {}),
    ).fit(train)
    assert accuracy(model, test) > 0.8
    with pytest.raises(ConfigError, match="character n-grams need words"):
        FastTextClassifier(tokenizer=tokenizer, max_ngram=4).fit(train)


def test_bad_input(data, tmp_path):
    with pytest.raises(DataError, match="lower min_count"):
        FastTextClassifier(min_count=10_000).fit(data[0])
    with pytest.raises(ConfigError, match="min_ngram 3 is more than max_ngram 2"):
        FastTextClassifier(max_ngram=2)
    with pytest.raises(ConfigError, match="it is for quantise on"):
        FastTextClassifier(cutoff=5)
    with pytest.raises(seqloom.errors.TrainingError, match="lr"):
        FastTextClassifier(lr=1e6).fit(data[0])


def restored(model, arrays):
    return FastTextClassifier.restore(
        Saved(model.config.to_dict(), model.learnt, {}, model.tokenizers, arrays, [])
    )


def test_a_file_that_contradicts_itself_is_refused(fitted):
    arrays = fitted.arrays()
    for name, bad in (
        ("features", arrays["features"][::-1].copy()),
        ("features", arrays["features"][:-1]),
        ("features", arrays["features"] + np.uint32(2_100_000)),
        ("output", arrays["output"][:2]),
        ("input", arrays["input"][:, :3]),
        ("counts", arrays["counts"][:2]),
    ):
        with pytest.raises(ModelError, match="damaged"):
            restored(fitted, {**arrays, name: bad})


# ---- smaller


@pytest.mark.parametrize("dimensions", [32, 15])
def test_a_quantised_model_is_smaller_and_nearly_as_good(data, dimensions, tmp_path):
    train, test = data
    model = FastTextClassifier(dimensions=dimensions, ngrams=2).fit(train)
    small = model.quantised()
    assert accuracy(small, test) >= accuracy(model, test) - 0.02
    assert (
        np.mean(np.array(small.predict(test.texts)) == np.array(model.predict(test.texts))) > 0.97
    )
    sizes = [sum(array.nbytes for array in m.arrays().values()) for m in (model, small)]
    assert sizes[1] < sizes[0] * (
        0.4 if dimensions == 15 else 0.3
    )  # the centroids weigh much in a model this small
    small.save(tmp_path / "q")
    again = seqloom.load(tmp_path / "q")
    assert (again.class_log_probs(test.texts) == small.class_log_probs(test.texts)).all()
    assert again.config.quantise
    told = FastTextClassifier(dimensions=dimensions, ngrams=2, quantise=True).fit(train)
    assert (told.class_log_probs(test.texts) == small.class_log_probs(test.texts)).all()
    with pytest.raises(ConfigError, match="already"):
        small.quantised()


def test_codes_are_scored_as_the_rows_that_they_stand_for(fitted, data):
    small = fitted.quantised()
    rows = small.input.rows(np.arange(len(small.features)))
    apart = np.linalg.norm(rows - fitted.input, axis=1) / np.linalg.norm(fitted.input, axis=1)
    assert apart.mean() < 0.1
    unpacked = restored(fitted, {**fitted.arrays(), "input": rows})
    found, wanted = (model.class_log_probs(data[1].texts) for model in (small, unpacked))
    assert abs(found - wanted).max() < 1e-4


def test_cutoff_keeps_the_longest_vectors(fitted, data):
    small = fitted.quantised(cutoff=300)
    assert len(small.features) == len(small.input) == 300
    assert fitted.tokenizer.eos_id in small.features.numbers
    lengths = np.linalg.norm(fitted.input, axis=1)
    kept = np.isin(fitted.features.numbers, small.features.numbers)
    assert lengths[kept][1:].min() >= np.sort(lengths)[-301]  # the first is the end of texts
    assert accuracy(small, data[1]) > accuracy(fitted, data[1]) - 0.1
    assert len(fitted.features) > 300  # the model itself stays as it was


def test_kmeans_is_better_than_the_points_that_it_began_with():
    draw = np.random.default_rng(0)
    points = draw.normal(size=(4000, 2)).astype(np.float32)

    def apart(places):
        return ((points[:, None] - places) ** 2).sum(axis=2).min(axis=1).mean()

    assert apart(fasttext_classifier._learn(points, np.random.default_rng(1))) < 0.75 * apart(
        points[:256]
    )


# ---- tuning


def test_tuning_keeps_the_better_of_two_settings(data, monkeypatch):
    train, test = data
    good, bad = {"lr": 0.5, "epochs": 20}, {"lr": 1e-4, "epochs": 1}
    spans = {name: tuning.Range(values=(1,)) for name in good}
    monkeypatch.setattr(tuning, "ranges", lambda config, n: spans)
    for order in ([bad, good], [good, bad]):
        monkeypatch.setattr(tuning.Tuning, "_proposals", lambda self, order=order: iter(order))
        model = FastTextClassifier(dimensions=10, tune=True).fit(train, valid=test)
        assert (model.config.lr, model.config.epochs, model.config.tune) == (0.5, 20, False)
        told = model.fit_info["tuning"]
        assert told["settings"] == good
        assert accuracy(model, test) == told["accuracy"] > 0.6
        assert told["accuracy_before"] <= told["accuracy"]
        steps = [line["step"] for line in model.log]
        assert steps == sorted(set(steps))  # of the trial that won, not of all
        assert model.log[-1]["epoch"] == 20


def test_tuning_searches_in_its_time_and_leaves_what_was_given(data, tmp_path):
    train, test = data
    model = FastTextClassifier(dimensions=10, ngrams=2, tune=True, minutes=0.02, quantise=True).fit(
        train, valid=test
    )
    told, best = model.fit_info["tuning"], model.fit_info["tuning"]["settings"]
    assert told["trials"] > 1
    assert told["accuracy"] >= told["accuracy_before"]
    assert not {"dimensions", "ngrams"} & best.keys()
    assert (model.config.lr, model.config.epochs) == (best["lr"], best["epochs"])
    assert (model.config.dimensions, model.config.ngrams, model.config.quantise) == (10, 2, True)
    model.save(tmp_path / "m")
    assert accuracy(seqloom.load(tmp_path / "m"), test) == accuracy(model, test)


def test_an_interrupt_keeps_the_best_so_far(data, monkeypatch):
    train, test = data
    learn, calls = FastTextClassifier.learn, []

    def interrupted(self, *args, **options):
        calls.append(self.config.lr)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(self, *args, **options)

    monkeypatch.setattr(FastTextClassifier, "learn", interrupted)
    model = FastTextClassifier(dimensions=10, tune=True).fit(train, valid=test)
    assert len(calls) == 3
    assert model.fit_info["tuning"]["trials"] == 2
    assert model.config.lr in calls[:2]
    calls.clear()
    calls.extend([0, 0])
    with pytest.raises(KeyboardInterrupt):  # before there is any
        FastTextClassifier(tune=True).fit(train, valid=test)


def test_tuning_needs_texts_to_judge_by(data):
    with pytest.raises(ConfigError, match="give valid"):
        FastTextClassifier(tune=True).fit(data[0])
    with pytest.raises(DataError, match="no label that was seen"):
        FastTextClassifier(tune=True).fit(data[0], valid=[("a", "elsewhere")])


def test_proposals_come_nearer_to_the_best():
    spans = {"lr": tuning.Range(0.01, 10, integer=False), "epochs": tuning.Range(1, 100)}
    search = tuning.Search({"lr": 1.0, "epochs": 10}, spans, 0)
    assert search.record({"lr": 0.1, "epochs": 5}, 0.5)
    assert not search.record({"lr": 9.0, "epochs": 5}, 0.4)
    away = []
    for spent in (0.0, 1.0):
        found = [search.propose(spent) for _ in range(300)]
        assert all(0.01 <= s["lr"] <= 10 and 1 <= s["epochs"] <= 100 for s in found)
        away.append(np.median([abs(math.log(s["lr"] / 0.1)) for s in found]))
    assert away[1] < away[0] / 3


# ---- against fastText


@pytest.mark.parametrize("source", ["recorded", "live"])
def test_as_good_as_fasttext(source, tmp_path):
    theirs = fasttext_models.accuracy(source, tmp_path)
    train, test = (Labelled.of(rows) for rows in fasttext_models.classified())
    ours = FastTextClassifier(tokenizer="whitespace", lr=0.3, epochs=4, dimensions=20).fit(train)
    assert accuracy(ours, test) > theirs - 0.02
    assert theirs > 0.5


def test_minutes_are_for_tuning():
    with pytest.raises(ConfigError, match="minutes has no effect with tune off; it is for tune on"):
        FastTextClassifier(minutes=2).fit(Labelled(["good", "bad"], ["a", "b"]))


def test_texts_without_a_known_word_are_told_once_for_all_batches_of_a_call(
    data, fitted, monkeypatch, capsys
):
    monkeypatch.setattr("seqloom.contracts.classification.BATCH", 3)
    with progress.reporting(reporters.reporter_for(False)):
        fitted.predict(["", "qqq", *data[0].texts[:4], "\t", "qqq"])
    assert capsys.readouterr().err.splitlines() == [
        "4 of 8 texts have no known word (rows 1, 2, 7, 8); only the end of the text counts there"
    ]
