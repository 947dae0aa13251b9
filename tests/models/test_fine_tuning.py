"""A published encoder under a classifier or tagger: what it reads, what learns, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import seqloom
from seqloom import progress
from seqloom.errors import ConfigError, ModelError
from seqloom.models.classification.neural_classifier import NeuralClassifier
from seqloom.models.sequence.published import PublishedInputs, fine_tuning, open_encoder, slower
from seqloom.models.tagging.neural_tagger import NeuralTagger
from seqloom.training.config import TrainConfig
from seqloom.training.trainable import DelayedGroup
from tests.models.test_composition import QUICK, SENTENCES, TEXTS, make_encoder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("published") / "encoder")


@pytest.fixture
def said():
    from seqloom.reporters import RemarksOnly

    class Heard:
        def __init__(self):
            self.lines = []

        def say(self, text):
            self.lines.append(text)

    heard = Heard()
    with progress.reporting(RemarksOnly(heard)):
        yield heard.lines


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shared_layers": True, "n_layers": 3},
        {"d_embed": 6, "n_types": 0},
        {"position_offset": 2},
    ],
    ids=str,
)
def test_its_vectors_are_those_of_the_encoder_itself(options, tmp_path):
    place = make_encoder(tmp_path / "encoder", **options)
    encoder, texts = seqloom.load(place), ["the cat sat", "on a log", "", "cat"]
    model = NeuralClassifier(encoder=place, frozen=True).fit(TEXTS, train=QUICK)
    network, batch = model.network(), model.encode(texts).batch(np.arange(4))
    with torch.inference_mode():
        arrays = {name: torch.from_numpy(array) for name, array in batch.items()}
        found, lengths = network.features(network.reader(arrays), arrays)
    for row, (length, wanted) in enumerate(zip(lengths.tolist(), encoder.hidden(texts))):
        assert length == len(wanted.vectors)
        np.testing.assert_allclose(found[row, :length].numpy(), wanted.vectors, atol=1e-5)
        assert not found[row, length:].any()


def test_a_frozen_encoder_gives_what_the_whole_network_gives(place):
    """Cached features under the trained head are the predictions of the saved model."""
    opened = open_encoder(place)
    model = NeuralClassifier(encoder=place, frozen=True).fit(TEXTS, train=QUICK)
    texts = [text for text, _ in TEXTS]
    cached = model._reading(opened, torch.device("cpu"))(texts).steps["values"]
    scores = cached @ model.weights["output.linear.weight"].T + model.weights["output.linear.bias"]
    expected = scores - np.logaddexp.reduce(scores, 1, keepdims=True)
    np.testing.assert_allclose(model.class_log_probs(texts), expected, atol=1e-5)


def test_the_encoder_is_read_once_and_not_in_every_epoch(place, monkeypatch):
    from seqloom.nn.bert import PublishedEncoder

    real, calls = PublishedEncoder.forward, []
    monkeypatch.setattr(
        PublishedEncoder,
        "forward",
        lambda self, x, *others: (calls.append(len(x)), real(self, x, *others))[1],
    )
    NeuralClassifier(encoder=place, frozen=True).fit(
        TEXTS, train=TrainConfig(epochs=5, batch_size=2)
    )
    assert sum(calls) == len(TEXTS)


def test_the_first_subword_of_each_word_has_its_tag(place):
    opened = open_encoder(place)
    inputs, names = PublishedInputs(opened.published, opened.tokenizer), opened.tokenizer.token
    sentences = [["the", "cats", "sat"], ["ab"] * 7, [], ["\u200b", "on"]]
    encoded = inputs.encode_words(sentences)
    assert encoded.counts.tolist() == [1, 2, 1, 1]  # fourteen subwords do not fit into ten
    batch = encoded.batch(np.arange(4))
    starts = np.cumsum(batch["counts"]) - batch["counts"]
    firsts = [
        [
            names(batch["ids"][starts[i] + batch["rows"][i, j], batch["positions"][i, j]])
            for j in range(len(words))
        ]
        for i, words in enumerate(sentences)
    ]
    assert firsts == [
        ["the", "cat", "sat"]
        if names(opened.tokenizer.encode("cats")[0]) == "cat"
        else ["the", "c", "sat"],
        ["a"] * 7,
        [],
        ["[UNK]", "on"],
    ]
    assert batch["ids"].shape[1] <= 12


def test_words_are_read_as_the_sentence_would_be(place):
    opened = open_encoder(place)
    words = ["the", "cat", "sat", "off"]
    ids = PublishedInputs(opened.published, opened.tokenizer).encode_words([words]).steps["ids"]
    assert ids[1:-1].tolist() == opened.tokenizer.encode(" ".join(words)).tolist()


def test_the_encoder_learns_more_slowly_than_the_head(place):
    before = open_encoder(place).weights
    moved = {}
    for rate in (0.0, 1e-5, 1e-3):
        model = NeuralClassifier(encoder=place, encoder_lr=rate).fit(TEXTS, train=QUICK)
        moved[rate] = max(
            float(np.abs(model.weights[name] - weight).max()) for name, weight in before.items()
        )
    assert moved[0.0] == 0 < moved[1e-5] < 5e-5 < moved[1e-3]
    group = DelayedGroup(("a",), 0.5, 0.1)
    assert [round(group.share(step, 8), 3) for step in range(8)] == [
        0,
        0,
        0,
        0,
        0.025,
        0.05,
        0.075,
        0.1,
    ]


@pytest.mark.parametrize(
    "options", [{}, {"shared_layers": True, "n_layers": 3}, {"d_embed": 6, "n_types": 0}], ids=str
)
def test_layers_are_released_from_the_last_one_down(options, tmp_path):
    """Of three equal parts, and the head before them; what is released learns, what is not stays to
    the bit.
    """
    place = make_encoder(tmp_path / "encoder", **{"n_layers": 2, **options})
    opened = open_encoder(place)
    config = NeuralClassifier(encoder=place, gradual=True, frozen_for=0.6).config
    groups = slower(opened.published, config, TrainConfig(lr=1e-3))
    blocks = 1 if options.get("shared_layers") else 2
    assert [{name.split(".")[2] for name in part.patterns} for part in groups[:-1]] == [
        {"1"},
        {"0"},
    ][-blocks:]
    assert all(name.startswith("reader.first.") for name in groups[-1].patterns)
    assert sorted(name for part in groups for name in part.patterns) == sorted(opened.weights)
    awake = [next(step for step in range(12) if part.share(step, 10) > 0) for part in groups]
    assert awake == ([2, 4, 6] if blocks == 2 else [3, 6])
    assert all(part.share(30, 10) == pytest.approx(config.encoder_lr / 1e-3) for part in groups)
    for steps, moving in ((awake[0], 0), (awake[0] + 1, 1), (10, len(groups))):
        exact = NeuralClassifier(
            encoder=place, gradual=True, frozen_for=float(awake[-1]), hold_out=0.0
        )
        model = exact.fit(TEXTS, train=TrainConfig(steps=steps, batch_size=3))
        moved = [
            any(
                not np.array_equal(model.weights[name], opened.weights[name])
                for name in part.patterns
            )
            for part in groups
        ]
        assert moved == [i < moving for i in range(len(groups))]


@pytest.mark.parametrize("stop", [1, 3, 5, 8])
def test_a_gradual_run_is_continued_to_the_bit(stop, place, tmp_path, monkeypatch):
    """Stopped while some parts are frozen, while their rates rise, and after."""
    from seqloom.training import loop

    def fit(run):
        return NeuralClassifier(encoder=place, gradual=True).fit(
            TEXTS, train=TrainConfig(steps=10, batch_size=2), run=run
        )

    whole, real = fit(tmp_path / "whole"), loop._Loop._update

    def stopping(self, rate):
        if self.step == stop:
            self._checkpoint()
            raise KeyboardInterrupt
        return real(self, rate)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "_update", stopping)
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path / "run")
    again = fit(tmp_path / "run")
    assert all(
        np.array_equal(again.weights[name], weight) for name, weight in whole.weights.items()
    )
    plain = NeuralClassifier(encoder=place).fit(TEXTS, train=TrainConfig(steps=10, batch_size=2))
    assert any(
        not np.array_equal(plain.weights[name], weight) for name, weight in whole.weights.items()
    )


def test_defaults_of_fine_tuning_give_way_to_what_is_asked_for():
    plain = fine_tuning(TrainConfig())
    assert (plain.optimizer, plain.lr, plain.minutes) == ("adamw", 1e-3, 30)
    asked = fine_tuning(TrainConfig(optimizer="sgd", epochs=1))
    assert (asked.optimizer, asked.lr, asked.minutes, asked.epochs) == ("sgd", None, None, 1)
    assert fine_tuning(TrainConfig(lr=0.5)).lr == 0.5
    muon = fine_tuning(TrainConfig(optimizer="muon"))
    assert (muon.optimizer, muon.lr) == ("muon", 1e-3)


@pytest.mark.parametrize(
    ("options", "asked", "used"),
    [
        ({}, None, "adamw"),
        ({}, "muon", "muon"),
        ({}, "adamw", "adamw"),
        ({"frozen": True}, None, "muon"),
        ({"gradual": True}, "muon", "muon"),
    ],
    ids=str,
)
def test_the_optimizer_that_was_asked_for_is_used_and_recorded(
    options, asked, used, place, monkeypatch
):
    from seqloom.training import update

    made, real = [], update.make_optimizer
    monkeypatch.setattr(
        update, "make_optimizer", lambda *given: made.append(real(*given)) or made[-1]
    )
    model = NeuralClassifier(encoder=place, **options).fit(
        TEXTS, train=TrainConfig(steps=2, optimizer=asked)
    )
    assert model.fit_info["train"]["optimizer"] == used
    assert type(made[0]).__name__ == {"adamw": "AdamW", "muon": "Muon"}[used]
    if used == "muon" and not options.get("frozen"):
        assert any(group["muon"] and group["delayed"] for group in made[0].param_groups)


def test_it_learns(tmp_path):
    place = make_encoder(tmp_path / "encoder", d_model=16, context=24)
    data = [("the cat sat", "+"), ("the log", "-"), ("on the cat", "+"), ("a log on", "-")] * 8
    for frozen, train in ((True, TrainConfig(steps=150)), (False, TrainConfig(steps=60))):
        rate = {} if frozen else {"encoder_lr": 3e-3}
        model = NeuralClassifier(encoder=place, frozen=frozen, **rate).fit(data, train=train)
        assert model.score(data[:4]) == 1.0
    tagged = [(["the", "cat", "sat"], ["D", "N", "V"]), (["the", "log"], ["D", "N"])] * 8
    model = NeuralTagger(encoder=place, encoder_lr=3e-3).fit(tagged, train=TrainConfig(steps=60))
    assert model.predict(["the", "cat", "sat"]) == ["D", "N", "V"]
    assert model.knows("Cat")
    assert not model.knows("dog")


def test_a_saved_model_needs_the_directory_no_more(tmp_path):
    import shutil

    place = make_encoder(tmp_path / "encoder")
    for model, asked in (
        (NeuralClassifier(encoder=place, frozen=True).fit(TEXTS, train=QUICK), "cat"),
        (NeuralTagger(encoder=place).fit(SENTENCES, train=QUICK), ["cat"]),
    ):
        model.save(tmp_path / "m")
        shutil.rmtree(place, ignore_errors=True)
        assert seqloom.load(tmp_path / "m").predict(asked) == model.predict(asked)
        make_encoder(tmp_path / "encoder")


def test_several_labels_calibration_and_explanations_work_as_ever(place):
    model = NeuralClassifier(
        encoder=place, frozen=True, calibrate="temperature", tune_threshold=True
    )
    model.fit(TEXTS, valid=TEXTS, train=QUICK)
    assert {"temperature", "shift"} <= set(model.learnt)
    assert {share.feature for share in model.explain("the cat").shares} >= {
        "[CLS]",
        "the",
        "cat",
        "[SEP]",
    }
    several = NeuralClassifier(encoder=place).fit(
        [(text, [label, "any"]) for text, label in TEXTS], train=QUICK
    )
    assert several.predict_proba(["cat"]).shape == (1, 3)
    attended = (
        NeuralClassifier(encoder=place, pooling="attention")
        .fit(TEXTS, train=QUICK)
        .attention("the cat")
    )
    assert [name for name, _ in attended] == ["[CLS]", "the", "cat", "[SEP]"]


def test_a_label_seen_once_is_learnt(place):
    model = NeuralClassifier(encoder=place, frozen=True).fit(
        [*TEXTS * 12, ("log", "once")], train=QUICK
    )
    assert model.classes == ["+", "-", "once"]


def test_what_is_too_long_is_said(place, said):
    long = [("the cat sat on the log " * 9, "+"), ("cat", "-")]
    NeuralClassifier(encoder=place, frozen=True).fit(long, train=QUICK)
    assert any(
        "1 of 2 texts are longer than the 12 tokens" in line and "long='windows'" in line
        for line in said
    )
    said.clear()
    NeuralClassifier(encoder=place, frozen=True, long="windows").fit(long, train=QUICK)
    assert not any("longer" in line for line in said)
    NeuralTagger(encoder=place).fit([(["cat"] * 30, ["N"] * 30)], train=QUICK)
    assert any(
        "1 of 1 sentences are longer than the 12 tokens" in line and "in parts" in line
        for line in said
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"encoder": "bilstn"},
            r"bilstn is neither a directory nor one of bag, .*did you mean 'bilstm'",
        ),
        (
            {"encoder": "bilstn", "d_hidden": 4},
            r"bilstn is neither a directory nor one of bag, .*did you mean 'bilstm'",
        ),
        (
            {"encoder": "nosuch", "characters": "cnn"},
            r"nosuch is neither a directory nor one of bag, ",
        ),
        ({"encoder": "{empty}"}, r"published weights are converted first: seqloom convert"),
        ({"encoder": "{ngram}"}, r"holds the model ngram, not an encoder"),
        ({"encoder": "{encoder}", "max_length": 2}, r"no room for a token"),
        ({"encoder": "{encoder}", "characters": "cnn"}, r"characters has no effect with encoder"),
        ({"encoder": "{encoder}", "d_hidden": 5}, r"d_hidden has no effect with encoder"),
        ({"encoder": "{encoder}", "tokenizer": "char"}, r"tokenizer has no effect with encoder"),
        (
            {"encoder": "{encoder}", "frozen": True, "encoder_lr": 0.1},
            r"encoder_lr has no effect with frozen on",
        ),
        (
            {"encoder": "{encoder}", "frozen": True, "gradual": True},
            r"gradual has no effect with frozen on",
        ),
        ({"encoder": "{encoder}", "frozen_for": 0.5}, r"frozen_for has no effect with gradual off"),
        (
            {"encoder": "cnn", "gradual": True},
            r"gradual has no effect with encoder cnn; it is for the directory",
        ),
        (
            {"encoder": "cnn", "frozen": True},
            r"frozen has no effect with encoder cnn; it is for the directory",
        ),
        ({"encoder_lr": 0.1}, r"encoder_lr has no effect with encoder bilstm"),
    ],
    ids=str,
)
def test_what_is_refused(options, message, place, tmp_path):
    (tmp_path / "empty").mkdir()
    seqloom.NGram(order=1).fit("a b\n").save(tmp_path / "ngram")
    homes = {"encoder": place, "empty": tmp_path / "empty", "ngram": tmp_path / "ngram"}
    given = {
        name: value.format(**homes) if isinstance(value, str) else value
        for name, value in options.items()
    }
    with pytest.raises(ConfigError, match=message) as error:
        NeuralClassifier(**given).fit(TEXTS, train=QUICK)
    assert "\n" not in str(error.value)


def test_numbers_are_refused(place):
    with pytest.raises(ConfigError, match="reads texts, but"):
        NeuralClassifier(encoder=place).fit([np.zeros(3), np.ones(4)], ["a", "b"], train=QUICK)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["learnt"].pop("published"), "does not go with its learned values"),
        (
            lambda c: c["config"].update(encoder="bilstm", frozen=False),
            "does not go with its learned values",
        ),
        (lambda c: c["learnt"]["published"].update(cls=10_000), "is not in its vocabulary"),
        (
            lambda c: c["learnt"]["published"]["layout"].update(d_model=7),
            "invalid learned value: 'published'",
        ),
        (lambda c: c["learnt"]["published"]["layout"].update(n_layers=1), "blocks.1"),
        (lambda c: c["learnt"]["published"].pop("sep"), "invalid learned value: 'published'"),
    ],
)
def test_a_damaged_model_is_refused(change, message, place, tmp_path):
    NeuralClassifier(encoder=place, frozen=True).fit(TEXTS, train=QUICK).save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    change(config)
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=message):
        seqloom.load(tmp_path / "m")


def test_a_run_is_not_continued_on_another_encoder(tmp_path, monkeypatch):
    """The same path, but other weights in it."""
    from seqloom.training import loop

    place, run = make_encoder(tmp_path / "encoder"), tmp_path / "run"

    def fail(self, rate):
        self._checkpoint()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "_update", fail)
        with pytest.raises(KeyboardInterrupt):
            NeuralClassifier(encoder=place).fit(TEXTS, train=QUICK, run=run)
    other = seqloom.load(place)
    other.net.restore({name: array + 1 for name, array in other.weights.items()})
    other.save(place)
    with pytest.raises(ConfigError, match="holds an unfinished run with other settings"):
        NeuralClassifier(encoder=place).fit(TEXTS, train=QUICK, run=run)
