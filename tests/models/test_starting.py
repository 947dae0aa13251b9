"""Training that starts from a saved model, of every network: what is taken over, what is refused, and that it
resumes."""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import seqloom
from seqloom import registry
from seqloom.errors import ConfigError, DataError, ModelError, NotFitted, SeqloomError
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.testing.forecasting import hours
from seqloom.text.tokenizer import Tokenizer
from seqloom.training import loop, update
from seqloom.training.config import TrainConfig
from tests.models.test_composition import make_encoder
from tests.models.test_fine_tuning import said  # noqa: F401

TEXT = "the cat sat on the mat\na dog met the cat on the road\nthe road led to the sea\n" * 4
MORE = "the dog sat on the road\nthe sea met the cat on a mat\nan owl slept\n" * 4
LABELLED = [
    ("good fun and a good cat", "+"),
    ("dull and long", "-"),
    ("a good day", "+"),
    ("so dull a road", "-"),
]
MORE_LABELLED = [("a long fun day", "+"), ("the owl is dull", "-"), ("good owl", "+")]
TAGGED = [
    (["Ada", "met", "Bob", "Ray"], ["B-P", "O", "B-P", "I-P"]),
    (["so", "it", "is"], ["O", "O", "O"]),
    (["Bob", "slept"], ["B-P", "O"]),
]
MORE_TAGGED = [
    (["Bob", "Ray", "met", "an", "owl"], ["B-P", "I-P", "O", "O", "O"]),
    (["it", "slept"], ["O", "O"]),
]
QUESTIONS = [
    ("who met Bob", "Ada met Bob on the road", "Ada"),
    ("where did it end", "the road led to the sea", "the sea"),
    ("who slept", "an owl sat", None),
]
MORE_QUESTIONS = [
    ("who slept", "an owl slept", "an owl"),
    ("where did Ada go", "Ada went to the sea", "the sea"),
]
PAIRS = [(text, text[::-1]) for text in ("abc", "ab", "cab", "bca cab", "a b")]
MORE_PAIRS = [(text, text[::-1]) for text in ("bb", "acb ab", "xa", "bcabcacb")]
SERIES, MORE_SERIES = hours(150), hours(120, seed=3)

SMALL = {
    "rnn": {"d_hidden": 8, "layer_norm": True},
    "lstm": {"n_layers": 2, "d_hidden": 8, "softmax": "adaptive"},
    "gru": {"d_hidden": 8, "d_embed": 5, "dropout": 0.3},
    "nplm": {"d_hidden": 8, "order": 3, "softmax": "sampled"},
    "gpt": {"d_model": 8, "n_layers": 1, "context": 12},
    "classifier": {"encoder": "gru", "d_hidden": 6, "characters": "cnn", "d_characters": 4},
    "tagger": {"encoder": "lstm", "d_hidden": 6, "d_characters": 4},
    "answerer": {"d_hidden": 6, "d_embed": 4},
    "forecaster": {"horizon": 5, "d_hidden": 6},
    "seq2seq": {"tokenizer": "char", "d_embed": 6, "d_hidden": 8},
    "transformer": {
        "tokenizer": "char",
        "d_model": 8,
        "n_heads": 2,
        "n_layers": 1,
        "n_decoder_layers": 1,
    },
}
DATA = {
    "language model": (TEXT, MORE),
    "classifier": (LABELLED, MORE_LABELLED),
    "tagger": (TAGGED, MORE_TAGGED),
    "answerer": (QUESTIONS, MORE_QUESTIONS),
    "forecaster": (SERIES, MORE_SERIES),
    "translator": (PAIRS, MORE_PAIRS),
}
NAMES = [
    name
    for name, entry in registry.MODELS.items()
    if entry.fitted and "start" in registry.config_class(name).fit_arguments
]
STEPS = {"steps": 3, "lr": 0.02, "batch_size": 2}


def data(name):
    return DATA[registry.MODELS[name].task]


def small(name, **options):
    language = {"tokenizer": "whitespace"} if registry.MODELS[name].task == "language model" else {}
    return registry.model_class(name)(**{**language, **SMALL[name], **options})


def train(name, **options):
    truncated = {"truncation": 5} if name in ("rnn", "lstm", "gru", "nplm") else {}
    return TrainConfig(**{**STEPS, **truncated, **options})


FITTED = {}


def first(name):
    """A fitted model of that name, made once."""
    if name not in FITTED:
        FITTED[name] = small(name).fit(data(name)[0], train=train(name))
    return FITTED[name]


def answer(model):
    task = model.task
    if task == "language model":
        return np.array(model.token_scores("the cat met a dog on the sea\nan owl sat"))
    if task == "classifier":
        return model.class_log_probs([text for text, _ in LABELLED + MORE_LABELLED])
    if task == "tagger":
        scores = model.network().eval()
        encoded = model._encode([words for words, _ in TAGGED + MORE_TAGGED])
        batch = {
            key: torch.from_numpy(array)
            for key, array in encoded.batch(np.arange(len(encoded))).items()
        }
        return scores(batch).detach().numpy()
    if task == "answerer":
        return model.window_scores([pair[:2] for pair in QUESTIONS + MORE_QUESTIONS])[1]
    if task == "forecaster":
        return model.forecast(SERIES).tracks[0].values
    return np.concatenate(model.pair_log_probs(["abc", "cab ab"], ["cba", "ba bac"]))


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(array, b[key]) for key, array in a.items())


def test_all_networks_are_here():
    networks = {
        name for name in registry.MODELS if "train" in registry.config_class(name).fit_arguments
    }
    assert set(NAMES) == set(SMALL) == networks


@pytest.mark.parametrize("name", NAMES)
def test_training_goes_on_with_the_weights_tokens_and_options_of_a_saved_model(name, tmp_path):
    origin = first(name)
    origin.save(tmp_path / "old")
    before, cls = dict(origin.arrays()), registry.model_class(name)
    still = cls().fit(data(name)[1], start=tmp_path / "old", train=train(name, steps=1, lr=0.0))
    assert same(dict(still.weights), dict(origin.weights))
    if name not in ("forecaster", "tagger"):  # whose intervals are learnt anew
        assert np.array_equal(answer(still), answer(origin))
    assert still.config == origin.config
    assert {key: t.label() for key, t in still.tokenizers.items()} == {
        key: t.label() for key, t in origin.tokenizers.items()
    }
    further = cls().fit(data(name)[1], start=str(tmp_path / "old"), train=train(name))
    assert not same(dict(further.weights), dict(origin.weights))
    assert not np.array_equal(answer(further), answer(origin))
    assert same(origin.arrays(), before)  # which is not trained itself
    scratch = small(name).fit(data(name)[1], train=train(name))
    assert (
        not np.array_equal(answer(further), answer(scratch))
        if answer(further).shape == answer(scratch).shape
        else True
    )
    # the origin is recorded, named in signatures and in the README, and saved
    further.save(tmp_path / "new")
    loaded, card = seqloom.load(tmp_path / "new"), (tmp_path / "new" / "README.md").read_text()
    digest = loaded.fit_info["origin_weights"]
    assert len(digest) == 16
    assert f"| origin | {origin.label()} |" in card
    assert f"| origin_weights | {digest} |" in card
    assert f"|start:{origin.label()}@{digest[:8]}" in str(loaded.signature())
    assert "start:" not in str(origin.signature())
    assert np.array_equal(answer(loaded), answer(further))
    assert still.fit_info["origin_weights"] == digest


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_model_or_the_model_itself_may_be_given(name, tmp_path):
    origin = first(name)
    origin.save(tmp_path / "old")
    wanted = registry.model_class(name)().fit(
        data(name)[1], start=tmp_path / "old", train=train(name)
    )
    by_object = registry.model_class(name)().fit(
        data(name)[1], start=seqloom.load(tmp_path / "old"), train=train(name)
    )
    own = seqloom.load(tmp_path / "old")
    own.fit(data(name)[1], start=own, train=train(name))
    for model in (by_object, own):
        assert same(model.arrays(), wanted.arrays())
        assert model.fit_info["origin_weights"] == wanted.fit_info["origin_weights"]


@pytest.mark.parametrize("name", NAMES)
def test_a_started_run_resumes_to_the_bit_and_only_from_the_same_start(name, tmp_path, monkeypatch):
    origin, cls = first(name), registry.model_class(name)
    other = small(name).fit(data(name)[0], train=train(name, seed=5))
    more = {"start": origin, "train": train(name, steps=6)}
    whole = cls().fit(data(name)[1], **more)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)  # after every step
    real, calls = update.Updater.update, []

    def cut(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            raise RuntimeError("pulled the plug")
        return real(self, *arguments)

    monkeypatch.setattr(update.Updater, "update", cut)
    with pytest.raises(RuntimeError, match="plug"):
        cls().fit(data(name)[1], **more, run=tmp_path / "run")
    with pytest.raises(
        ConfigError, match=r"unfinished run with other settings \(start was \w{16}, is \w{16}\)"
    ):
        cls().fit(data(name)[1], **{**more, "start": other}, run=tmp_path / "run")
    with pytest.raises(
        ConfigError, match=r"unfinished run with other settings .*start was \w{16}, is not given"
    ):
        copy.copy(cls(origin.config)).fit(data(name)[1], train=more["train"], run=tmp_path / "run")
    resumed = cls().fit(data(name)[1], **more, run=tmp_path / "run")
    assert len(calls) == 4 + 3  # three steps were there
    assert same(whole.arrays(), resumed.arrays())
    assert resumed.fit_info["origin_weights"] == whole.fit_info["origin_weights"]


# ---- options

CONTRADICTIONS = [
    ("lstm", {"n_layers": 1}, "n_layers is 1, but {} has 2"),  # though 1 is the default
    ("lstm", {"d_hidden": 12}, "d_hidden is 12, but {} has 8"),
    ("lstm", {"softmax": "full"}, "softmax is full, but {} has adaptive"),
    ("gru", {"d_embed": 6}, "d_embed is 6, but {} has 5"),
    ("gru", {"tied": False}, "tied is off, but {} has on"),
    ("gru", {"tokenizer": "char"}, "tokenizer is char, but {} has whitespace"),
    ("gru", {"normalize": "case=lower"}, "normalize is case=lower, but {} has none"),
    ("gru", {"vocab_size": 9}, "vocab_size is 9, but {} has none"),
    ("nplm", {"d_embed": 9}, "d_embed is 9, but {} has 64"),
    ("gpt", {"positions": "learned"}, "positions is learned, but {} has rope"),
    ("classifier", {"encoder": "lstm"}, "encoder is lstm, but {} has gru"),
    ("classifier", {"pooling": "mean"}, "pooling is mean, but {} has max"),
    ("classifier", {"d_embed": 9}, "d_embed is 9, but {} has 100"),
    ("tagger", {"crf": False}, "crf is off, but {} has on"),
    ("tagger", {"lowercase": False}, "lowercase is off, but {} has on"),
    ("forecaster", {"horizon": 6}, "horizon is 6, but {} has 5"),
    ("forecaster", {"window": 7}, "window is 7, but {} has 25"),
    ("forecaster", {"patch": 7}, "patch is 7, but {} has 2"),
    ("forecaster", {"season": 7}, "season is 7, but {} has 24"),
    ("seq2seq", {"target_tokenizer": "byte"}, "target_tokenizer is byte, but {} has none"),
    ("seq2seq", {"attention": "dot"}, "attention is dot, but {} has additive"),
    ("transformer", {"n_heads": 4}, "n_heads is 4, but {} has 2"),
]


@pytest.mark.parametrize(("name", "options", "message"), CONTRADICTIONS, ids=str)
def test_options_that_contradict_its_shape_are_refused(name, options, message, tmp_path):
    first(name).save(tmp_path / "old")
    model = registry.model_class(name)(**options)
    with pytest.raises(ConfigError) as error:
        model.fit(data(name)[1], start=tmp_path / "old", train=train(name))
    option = next(iter(options))
    assert (
        str(error.value)
        == f"{message.format(tmp_path / 'old')}; leave {option} out, or start from another model"
    )
    assert model.config == registry.model_class(name)(**options).config
    assert not model.fitted


FREE = [
    ("lstm", {"dropout": 0.4, "word_dropout": 0.1}),
    ("gru", {"unit": "line", "carry": False, "label_smoothing": 0.2}),
    ("gru", {"dropout": 0.0}),
    ("nplm", {"samples": 7, "softmax": "sampled"}),
    ("gpt", {"context": 20, "rope_scale": 2.0, "dropout": 0.2}),
    (
        "classifier",
        {"dropout": 0.1, "class_weights": "balanced", "label_smoothing": 0.1, "max_length": 4},
    ),
    ("tagger", {"word_dropout": 1.0, "hold_out": 0.0}),
    ("forecaster", {"dropout": 0.1}),
    ("seq2seq", {"scheduled_sampling": "linear", "select_by": "bleu", "label_smoothing": 0.0}),
    ("transformer", {"attention_dropout": 0.2, "max_length": 9}),
]


@pytest.mark.parametrize(("name", "options"), FREE, ids=str)
def test_options_that_only_say_how_to_train_may_be_others(name, options, tmp_path):
    origin = first(name)
    valid = data(name)[1] if name != "forecaster" else None
    model = registry.model_class(name)(**options).fit(
        data(name)[1], valid=valid, start=origin, train=train(name)
    )
    for option, value in {**origin.config.all_options(), **options}.items():
        assert getattr(model.config, option) == value
    model.save(tmp_path / "new")
    assert seqloom.load(tmp_path / "new").config == model.config


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lstm", {"d_hidden": 8, "n_layers": 2}),
        ("gru", {"tokenizer": "whitespace"}),
        ("forecaster", {"window": 25, "season": 24}),
        ("nplm", {"d_embed": 64}),
        ("classifier", {"pooling": "max", "d_embed": 100}),
    ],
    ids=str,
)
def test_the_same_options_may_be_repeated(name, options):
    model = registry.model_class(name)(**options).fit(
        data(name)[1], start=first(name), train=train(name)
    )
    assert same(
        {k: v.shape for k, v in model.weights.items()},
        {k: v.shape for k, v in first(name).weights.items()},
    )


@pytest.mark.parametrize(
    ("name", "had", "given", "left"),
    [
        ("gru", {"unit": "line", "carry": False}, {"unit": "stream"}, {"carry": True}),
        (
            "seq2seq",
            {"scheduled_sampling": "linear", "sampling_half": 3.0},
            {"scheduled_sampling": "none"},
            {"sampling_half": 10.0},
        ),
        (
            "classifier",
            {"gradual": True, "encoder_lr": 1e-3, "frozen_for": 0.2},
            {"frozen": True},
            {"gradual": False},
        ),
    ],
    ids=str,
)
def test_inherited_options_without_effect_beside_given_ones_are_dropped(
    name, had, given, left, tmp_path
):
    if name == "classifier":
        options = {"encoder": make_encoder(tmp_path / "encoder")}
        origin = registry.model_class(name)(**options, **had)
    else:
        options, origin = {}, small(name, **had)
    origin.fit(data(name)[0], train=train(name))
    model = registry.model_class(name)(**options, **given).fit(
        data(name)[1], start=origin, train=train(name)
    )
    assert {option: getattr(model.config, option) for option in (*given, *left)} == {
        **given,
        **left,
    }


def test_a_width_that_was_chosen_is_kept(monkeypatch):
    origin = small("gru", d_hidden=None, d_embed=None).fit(TEXT, train=train("gru"))
    monkeypatch.setattr(
        "seqloom.models.language.neural.choose_width", lambda *rest, **options: 96
    )  # of this text
    model = registry.model_class("gru")().fit(MORE, start=origin, train=train("gru"))
    assert origin.config.d_hidden is None
    assert model.learnt["width"] == origin.learnt["width"] == 64
    with pytest.raises(
        ConfigError, match="d_hidden is 65, but the gru-1x64 model to start from has 64"
    ):
        registry.model_class("gru")(d_hidden=65).fit(MORE, start=origin, train=train("gru"))


def test_options_set_later_and_in_a_config_count_as_given():
    cls = registry.model_class("lstm")
    for model in (cls().set_params(n_layers=1), cls(cls.config_class(n_layers=3))):
        with pytest.raises(ConfigError, match=r"n_layers is \d, but .* has 2"):
            model.fit(MORE, start=first("lstm"), train=train("lstm"))
    assert (
        cls(cls.config_class()).fit(MORE, start=first("lstm"), train=train("lstm")).config.n_layers
        == 2
    )


def test_a_failed_fit_leaves_the_options_as_they_were():
    model = registry.model_class("classifier")()
    with pytest.raises(SeqloomError):
        model.fit([("a", "+"), (np.zeros((2, 2)), "-")], start=first("classifier"))
    with pytest.raises(ConfigError, match="patience need held-out data"):
        model.fit(MORE_LABELLED, start=first("classifier"), train=train("classifier", patience=1))
    assert model.config == registry.model_class("classifier")().config
    assert not model.fitted


# ---- what cannot be started from


def test_other_kinds_missing_and_unfitted_models_are_refused(tmp_path):
    first("gru").save(tmp_path / "gru")
    lstm = registry.model_class("lstm")
    for start, error, message in (
        (tmp_path / "gru", ConfigError, r"start must be a saved lstm model; \S+gru is gru"),
        (first("gru"), ConfigError, "the gru-1x8 model to start from is gru"),
        (tmp_path / "none", ModelError, "no such directory"),
        (7, ConfigError, "what was given is 7"),
        (lstm(), NotFitted, "has not been fitted"),
    ):
        with pytest.raises(error, match=str(message).replace("(", r"\(")) as raised:
            lstm().fit(TEXT, start=start, train=train("lstm"))
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["gpt", "transformer"])
def test_quantised_models_are_refused_with_advice(name, tmp_path):
    first(name).quantised(8).save(tmp_path / "small")
    with pytest.raises(
        ConfigError,
        match="has 8 bits a weight, which cannot be trained; give the model that it was quantised "
        "from, or convert again without bits",
    ):
        registry.model_class(name)().fit(data(name)[1], start=tmp_path / "small", train=train(name))


def test_a_tokenizer_and_pretrained_vectors_are_refused_beside_it(tmp_path):
    tokenizer = Tokenizer(kind="char").fit([TEXT])
    with pytest.raises(ConfigError, match="start and tokenizer cannot be given together"):
        registry.model_class("gru")().fit(
            MORE, start=first("gru"), tokenizer=tokenizer, train=train("gru")
        )
    WordVectors.of(["the", "cat"], np.ones((2, 5), np.float32)).save(tmp_path / "vectors")
    for name in ("gru", "classifier", "tagger"):
        with pytest.raises(
            ConfigError, match="start and pretrained both say what the network begins with"
        ):
            registry.model_class(name)(pretrained=str(tmp_path / "vectors")).fit(
                data(name)[1], start=first(name), train=train(name)
            )


def test_models_that_are_no_networks_say_what_to_do():
    with pytest.raises(ConfigError, match="ngram models do not use start in fit; leave it out"):
        seqloom.NGram().fit(TEXT, start="old")
    with pytest.raises(
        ConfigError, match=r"start is an option of word2vec models: Word2Vec\(start=...\)"
    ):
        seqloom.Word2Vec().fit(TEXT, start="old")
    with pytest.raises(
        ConfigError, match=r"unknown option 'start'; it belongs to fit: fit\(data, start=...\)"
    ):
        seqloom.LSTM(start="old")
    with pytest.raises(ConfigError, match="bert models are not trained here"):
        registry.model_class("bert")().fit(TEXT, start="old")


# ---- data that does not suit it


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        (
            "classifier",
            [*MORE_LABELLED, ("what", "?")],
            r"has the label '\?', which the gru-classifier model to start from does not have; "
            r"leave it out, or fit "
            "without start",
        ),
        (
            "classifier",
            [("a day", ("+", "-")), ("b", ("+",))],
            "examples with several labels, but the gru-classifier model",
        ),
        (
            "classifier",
            [(np.zeros((3, 2)), "+"), (np.ones((2, 2)), "-")],
            "are numbers, but the model to start from reads texts",
        ),
        (
            "classifier",
            [(("a", "b"), "+"), (("c", "d"), "-")],
            "reads single texts, but example 1 is a pair",
        ),
        (
            "tagger",
            [(["Ada", "sat"], ["B-X", "O"])],
            "has the tag 'S-X', which the lstm-tagger model to start from does not have",
        ),
        (
            "tagger",
            [(["Ada", "sat"], ["NOUN", "VERB"])],
            "mark no spans, unlike those of the lstm-tagger model to start from",
        ),
        (
            "forecaster",
            hours(120, columns=3),
            "has the column 'c2', which the gru-6 model to start from does not have",
        ),
        ("forecaster", hours(120, columns=1), "has no column 'c1', which the model learned from"),
        (
            "forecaster",
            np.arange(240.0).reshape(120, 2),
            "has steps of 1 row, the model learned from steps of 1 hour",
        ),
        ("forecaster", hours(6), "has 6 steps, too few to learn to forecast 5"),
        (
            "seq2seq",
            [(np.zeros((2, 3)), "a"), (np.ones((4, 3)), "b")],
            "the sources of .* are numbers, but the model to start",
        ),
    ],
    ids=str,
)
def test_new_labels_tags_and_columns_are_refused(name, bad, message):
    with pytest.raises(DataError, match=message) as error:
        registry.model_class(name)().fit(bad, start=first(name), train=train(name))
    assert "\n" not in str(error.value)


def test_fewer_labels_and_unknown_words_are_no_fault():
    origin = first("classifier")
    model = registry.model_class("classifier")().fit(
        [("quite unheard of", "+")], start=origin, train=train("classifier")
    )
    assert model.classes == origin.classes == ["+", "-"]
    assert model.tokenizer.vocab_size == origin.tokenizer.vocab_size
    tagger = registry.model_class("tagger")().fit(
        [(["Zoe", "met", "Ada"], ["B-P", "O", "B-P"])], start=first("tagger"), train=train("tagger")
    )
    assert tagger.tags == first("tagger").tags
    assert tagger.rows == first("tagger").rows
    assert not tagger.knows("Zoe")


def test_labels_of_another_type_and_several_labels():
    cls = registry.model_class("classifier")
    numbers = cls(encoder="bag", d_embed=4).fit([("a b", 1), ("c", 2)], train=train("classifier"))
    assert cls().fit(
        [("b", "2"), ("a", "1")], start=numbers, train=train("classifier")
    ).classes == [1, 2]
    several = cls(encoder="bag", d_embed=4).fit(
        [("a b", ("x", "y")), ("c", ("x",))], train=train("classifier")
    )
    model = cls().fit([("b", "y"), ("a", "x")], start=several, train=train("classifier"))
    assert model.multi_label
    assert isinstance(model.predict("a"), list)


def test_temperature_and_threshold_are_chosen_anew():
    cls, plain = (
        registry.model_class("classifier"),
        {"calibrate": "temperature", "tune_threshold": True},
    )
    origin = cls(encoder="bag", d_embed=4, **plain).fit(
        LABELLED, valid=MORE_LABELLED, train=train("classifier")
    )
    assert {"temperature", "shift"} <= origin.learnt.keys()
    model = cls(calibrate="none", tune_threshold=False).fit(
        MORE_LABELLED, start=origin, train=train("classifier")
    )
    assert not {"temperature", "shift"} & model.learnt.keys()


def test_numbers_are_scaled_as_before():
    rng, cls = np.random.default_rng(0), registry.model_class("classifier")
    origin = cls(encoder="gru", d_hidden=4).fit(
        [(rng.normal(5, 2, (4, 2)), "a"), (rng.normal(3, 1, (3, 2)), "b")],
        train=train("classifier"),
    )
    model = cls().fit([(rng.normal(90, 9, (4, 2)), "b")], start=origin, train=train("classifier"))
    for name in ("reader.mean", "reader.scale"):
        assert np.array_equal(model.weights[name], origin.weights[name])
    with pytest.raises(DataError, match="3 columns; this model was fitted on 2"):
        cls().fit([(rng.normal(size=(4, 3)), "b")], start=origin, train=train("classifier"))


def test_a_forecaster_keeps_its_scale_and_learns_its_intervals_anew():
    origin = first("forecaster")
    model = registry.model_class("forecaster")().fit(
        MORE_SERIES, start=origin, train=train("forecaster")
    )
    for name in ("mean", "std", "known_mean", "known_std"):
        assert np.array_equal(model.scale[name], origin.scale[name])
    assert not np.array_equal(model.scale["residuals"], origin.scale["residuals"])
    assert model.learnt["until"] == MORE_SERIES.last_time != origin.learnt["until"]
    assert {k: v for k, v in model.learnt.items() if k != "until"} == {
        k: v for k, v in origin.learnt.items() if k != "until"
    }


def test_a_translator_remembers_the_longest_of_both():
    origin = first("seq2seq")
    shorter = registry.model_class("seq2seq")().fit(
        [("a", "b")] * 3, start=origin, train=train("seq2seq")
    )
    longer = registry.model_class("seq2seq")().fit(
        [("a" * 30, "b" * 30)] * 3, start=origin, train=train("seq2seq")
    )
    for name in ("longest_source", "longest_target"):
        assert shorter.learnt[name] == origin.learnt[name] < longer.learnt[name]


# ---- what a start had of its own


@pytest.mark.parametrize("name", ["gru", "classifier", "tagger"])
@pytest.mark.parametrize("training", ["tuned", "frozen", "gradual"])
def test_a_start_with_pretrained_vectors_needs_their_file_no_more(
    name,
    training,
    tmp_path,
    said,  # noqa: F811
):
    rng, words = np.random.default_rng(0), ["the", "cat", "good", "ada", "owl", "zebra"]
    WordVectors.of(words, rng.normal(size=(6, 5)).astype(np.float32)).save(tmp_path / "vectors")
    own = {**SMALL[name], **({"d_embed": None} if name == "gru" else {})}
    origin = registry.model_class(name)(
        **own,
        **({"tokenizer": "whitespace"} if name != "tagger" else {}),
        pretrained=str(tmp_path / "vectors"),
        pretrained_training=training,
    ).fit(data(name)[0], train=train(name))
    shutil.rmtree(tmp_path / "vectors")
    del said[:]
    model = registry.model_class(name)().fit(data(name)[1], start=origin, train=train(name))
    assert any("freeze=('*embedding.weight',) keeps them" in line for line in said) == (
        training == "frozen"
    )
    assert model.config.pretrained is None
    embedding = next(key for key in model.weights if key.endswith("embedding.weight"))
    assert not np.array_equal(model.weights[embedding], origin.weights[embedding])
    if name != "gru":
        assert model.sizes == origin.sizes
        assert model.sizes.further > 0
        assert np.array_equal(model.weights["reader.further"], origin.weights["reader.further"])
    model.save(tmp_path / "new")
    assert np.array_equal(answer(seqloom.load(tmp_path / "new")), answer(model))
    kept = registry.model_class(name)().fit(
        data(name)[1], start=origin, train=train(name, freeze=["*embedding.weight"])
    )
    assert np.array_equal(kept.weights[embedding], origin.weights[embedding])
    assert not np.array_equal(answer(kept), answer(origin))


@pytest.mark.parametrize("name", ["classifier", "tagger"])
@pytest.mark.parametrize(
    "frozen", [(False, False), (False, True), (True, False), (True, True)], ids=str
)
def test_a_start_on_a_published_encoder(name, frozen, tmp_path):
    """Whether only its head is trained may change; its directory is needed no more."""
    place, cls = make_encoder(tmp_path / "encoder"), registry.model_class(name)
    origin = cls(encoder=place, frozen=frozen[0]).fit(data(name)[0], train=train(name))
    shutil.rmtree(place)
    options = {"encoder": place, "frozen": frozen[1]}
    still = cls(**options).fit(data(name)[1], start=origin, train=train(name, lr=0.0))
    assert same(dict(still.weights), dict(origin.weights))
    model = cls(**options).fit(data(name)[1], start=origin, train=train(name))
    moved = {
        key for key in model.weights if not np.array_equal(model.weights[key], origin.weights[key])
    }
    assert any(key.startswith("output.") for key in moved)
    assert any(key.startswith("encoder.") for key in moved) == (not frozen[1])
    model.save(tmp_path / "new")
    assert np.array_equal(answer(seqloom.load(tmp_path / "new")), answer(model))
    again = cls().fit(data(name)[1], start=origin, train=train(name))
    assert again.config.frozen == frozen[0]


def test_evaluating_on_the_data_of_the_start_is_remarked(said):  # noqa: F811
    model = registry.model_class("gru")().fit(MORE, start=first("gru"), train=train("gru"))
    chained = registry.model_class("gru")().fit(MORE + TEXT, start=model, train=train("gru"))
    for one in (model, chained):
        del said[:]
        one.evaluate(TEXT, samples=0)
        assert any("this gru model was fitted on" in line for line in said)


def test_converted_weights_begin_texts_with_their_own_token():
    """As they are scored: a gpt whose start token is not </s>, and a transformer whose targets start with two
    tokens."""
    gpt = copy.copy(first("gpt"))
    gpt.learnt = {**gpt.learnt, "start": 3}
    model = registry.model_class("gpt")(unit="line", carry=False).fit(
        MORE, start=gpt, train=train("gpt")
    )
    assert model.start_id == 3
    assert model.fit_info["origin"] == "gpt-1x8"  # beside the start token, which is learnt
    batch = model.layers.batches(model, model.encode("the cat\nthe dog")[0], train("gpt")).batch(
        (0, 0)
    )
    assert set(batch["inputs"][:, 0].tolist()) == {3}
    other = copy.copy(first("transformer"))
    other.learnt = {**other.learnt, "start": [2, 4], "source_start": 1}
    seen, cls = [], registry.model_class("transformer")
    from seqloom.nn.encoder_decoder import EncoderDecoder

    real = EncoderDecoder.features
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            EncoderDecoder,
            "features",
            lambda self, memory, inputs, *rest: (
                seen.append(inputs),
                real(self, memory, inputs, *rest),
            )[1],
        )
        sampling = {
            "scheduled_sampling": "linear",
            "sampling_half": 0.01,
        }  # soon all inputs are its own
        model = cls(**sampling).fit(PAIRS, start=other, train=train("transformer", steps=12))
    assert all(inputs[:, :2].tolist() == [[2, 4]] * len(inputs) for inputs in seen)
    assert model.start_ids == [2, 4]
    lengths = [len(scores) for scores in model.pair_log_probs(["abc"], ["cba"])]
    assert lengths == [4]


def test_the_loss_of_targets_that_start_with_several_tokens_is_what_scoring_says():
    from seqloom.models.translation.pairs import PairBatches, encode_texts
    from seqloom.models.translation.translation_net import pair_loss
    from seqloom.training.devices import on_device

    model = copy.copy(first("transformer"))
    model.config = model.config.from_dict({**model.config.to_dict(), "label_smoothing": 0.0})
    model.learnt = {**model.learnt, "start": [2, 4]}
    sources, targets = [a for a, _ in PAIRS], [b for _, b in PAIRS]
    batches = PairBatches(
        model.encode_sources(sources),
        encode_texts(model.target_tokenizer, targets),
        model.start_ids,
        most_tokens=9999,
    )
    with torch.no_grad():
        loss = pair_loss(model.network(), on_device(batches.batch((0, 0)), torch.device("cpu")))
    assert float(loss) == pytest.approx(
        -sum(part.sum() for part in model.pair_log_probs(sources, targets)), rel=1e-5
    )
