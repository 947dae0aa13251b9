"""Every reader with every encoder and every head: it learns, predicts, and comes back from the disk
as it was.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import seqloom
from seqloom.encoder_table import ENCODERS
from seqloom.models.answering.neural_answerer import NeuralAnswerer
from seqloom.models.classification.neural_classifier import NeuralClassifier
from seqloom.models.forecasting.forecaster import NeuralForecaster
from seqloom.models.tagging.neural_tagger import NeuralTagger
from seqloom.nn.composition import POOLINGS
from seqloom.testing.answering import QUESTIONS
from seqloom.testing.forecasting import hours
from seqloom.training.config import TrainConfig

RNG = np.random.default_rng(0)
TEXTS = [
    ("good fun", "+"),
    ("dull and long. Very dull.", "-"),
    ("fun", "+"),
    ("so dull", "-"),
    ("", "+"),
]
SERIES = [(RNG.normal(i % 2, 1, (3 + i, 2)), "ab"[i % 2]) for i in range(5)]
SENTENCES = [
    (["Ada", "met", "Bob", "Ray"], ["B-P", "O", "B-P", "I-P"]),
    (["so", "it", "is"], ["O", "O", "O"]),
    (["Bob"], ["B-P"]),
    ([], []),
]
QUICK = TrainConfig(steps=2, batch_size=3)


def small(encoder, **options):
    """Options of a small network; those that would have no effect are left out."""
    have = {"d_embed": 6, **({} if encoder == "bag" else {"d_hidden": 8})}
    have |= {"n_heads": 2} if encoder == "transformer" else {}
    return {"encoder": encoder, **have, **options}


def check_round_trip(model, place, answer, empty):
    """Saved and loaded it answers alike, also to many empty examples at once; the declared shapes are
    those of the network.
    """
    shapes = {name: tuple(value.shape) for name, value in model.network().state_dict().items()}
    assert model.fitted_shapes() == shapes
    model.save(place)
    again = seqloom.load(place)
    assert type(again) is type(model)
    before, after = answer(model), answer(again)
    assert np.array_equal(before, after) if isinstance(before, np.ndarray) else before == after
    one = model.predict([empty])[0]
    for many in (0, 3, 16, 300):  # by the network without torch, and by torch in one batch and more
        assert list(again.predict([empty] * many)) == [one] * many


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_texts_to_labels(encoder, pooling, tmp_path):
    model = NeuralClassifier(**small(encoder, pooling=pooling)).fit(TEXTS, train=QUICK)
    check_round_trip(
        model, tmp_path / "m", lambda m: m.predict_proba([text for text, _ in TEXTS]), ""
    )


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("long", ["windows", "sentences"])
def test_long_texts_to_labels(encoder, long, tmp_path):
    model = NeuralClassifier(
        **small(
            encoder, long=long, max_length=3, characters="cnn", d_characters=4, pooling="attention"
        )
    ).fit(TEXTS, train=QUICK)
    check_round_trip(
        model, tmp_path / "m", lambda m: m.predict_proba([text for text, _ in TEXTS]), ""
    )


@pytest.mark.parametrize("encoder", ENCODERS)
def test_numbers_to_labels(encoder, tmp_path):
    options = {name: value for name, value in small(encoder).items() if name != "d_embed"}
    model = NeuralClassifier(**options).fit(
        [x for x, _ in SERIES], [y for _, y in SERIES], train=QUICK
    )
    check_round_trip(
        model, tmp_path / "m", lambda m: m.predict_proba([x for x, _ in SERIES]), np.zeros((0, 2))
    )


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize("characters", ["none", "cnn", "lstm"])
def test_words_to_tags(encoder, crf, characters, tmp_path):
    spelled = {} if characters == "none" else {"d_characters": 4}
    model = NeuralTagger(**small(encoder, crf=crf, characters=characters, **spelled)).fit(
        SENTENCES, train=QUICK
    )
    check_round_trip(
        model, tmp_path / "m", lambda m: m.predict([words for words, _ in SENTENCES]), []
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A tiny encoder with random weights, as `convert` saves published ones."""
    return make_encoder(tmp_path_factory.mktemp("published") / "encoder")


def make_encoder(place, **options):
    from tests.fuzz.specimens import random_encoder

    sizes = {
        "context": 12,
        "d_model": 8,
        "n_layers": 2,
        "n_heads": 2,
        "d_mlp": 12,
        "pooler": True,
        **options,
    }
    random_encoder("bert", **sizes).save(place)
    return str(place)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("long", ["truncate", "windows", "sentences"])
@pytest.mark.parametrize("pooling", [None, "attention"])
def test_a_published_encoder_to_labels(published, frozen, long, pooling, tmp_path):
    model = NeuralClassifier(
        encoder=published, frozen=frozen, long=long, pooling=pooling, max_length=6
    )
    model.fit(TEXTS, train=QUICK)
    before = seqloom.load(published).weights
    kept = all(
        np.array_equal(before[name], model.weights[f"encoder.{name}"])
        for name in before
        if name.startswith("blocks")
    )
    assert kept == frozen
    check_round_trip(
        model, tmp_path / "m", lambda m: m.predict_proba([text for text, _ in TEXTS]), ""
    )


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("crf", [False, True])
def test_a_published_encoder_to_tags(published, frozen, crf, tmp_path):
    sentences = [*SENTENCES, (["elephants"] * 5, ["O"] * 4 + ["B-P"])]  # longer than the context
    model = NeuralTagger(encoder=published, frozen=frozen, crf=crf).fit(sentences, train=QUICK)
    check_round_trip(
        model, tmp_path / "m", lambda m: m.predict([words for words, _ in sentences]), []
    )


HEADS = {
    "label": lambda: (NeuralClassifier(dropout=0.3), TEXTS),
    "several labels": lambda: (
        NeuralClassifier(dropout=0.3),
        [(text, [label, "any"]) for text, label in TEXTS],
    ),
    "tags": lambda: (NeuralTagger(dropout=0.3, d_hidden=8, crf=False), SENTENCES),
    "field": lambda: (NeuralTagger(dropout=0.3, d_hidden=8), SENTENCES),
    "spans": lambda: (NeuralAnswerer(dropout=0.3, d_hidden=8, max_length=16), QUESTIONS * 4),
    "tuned": lambda: (NeuralClassifier(encoder=_home()), TEXTS),
    "frozen": lambda: (NeuralClassifier(encoder=_home(), frozen=True), TEXTS),
    "tuned tags": lambda: (NeuralTagger(encoder=_home()), SENTENCES),
    "quantiles": lambda: (
        NeuralForecaster(dropout=0.3, horizon=4, window=20, d_hidden=8),
        hours(150),
    ),
}


def _home():
    """An encoder that a killed process and the one that goes on both find."""
    import os

    return os.environ["SEQLOOM_TEST_ENCODER"]


EIGHT = TrainConfig(steps=8, batch_size=2)
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from tests.models.test_composition import EIGHT, HEADS
import torch._dynamo  # which every fork would import by itself
from seqloom.models.sequence import sequence_net
from seqloom.training import loop

loop.CHECKPOINT_SECONDS, real, calls = -1.0, loop._Loop._update, []

def update(self, rate):
    calls.append(rate)
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, rate)

loop._Loop._update = update
for head, make in HEADS.items():
    child = os.fork()
    if not child:
        model, data = make()
        model.fit(data, train=EIGHT, run=f"{sys.argv[2]}/{head}")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, head
"""  # forks of a process that has torch but has not computed anything


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Runs of every head that were ended by kill -9 at the sixth step of eight."""
    place = tmp_path_factory.mktemp("killed")
    root = str(Path(__file__).parents[2])
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(
            "SEQLOOM_TEST_ENCODER", make_encoder(tmp_path_factory.mktemp("published") / "killed")
        )
        done = subprocess.run(
            [sys.executable, "-c", KILLED, root, str(place)],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield place


@pytest.mark.parametrize("head", HEADS)
def test_after_kill_9_every_head_goes_on_to_the_same_bits(head, killed, monkeypatch):
    from seqloom.training import loop

    (whole, data), (resumed, _) = HEADS[head](), HEADS[head]()
    whole.fit(data, train=EIGHT)
    real, calls = loop._Loop._update, []
    monkeypatch.setattr(
        loop._Loop, "_update", lambda self, rate: (calls.append(rate), real(self, rate))[1]
    )
    resumed.fit(data, train=EIGHT, run=killed / head)
    assert len(calls) == 3
    for name, value in whole.net.weights.items():
        assert np.array_equal(value, resumed.net.weights[name]), name


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("characters", ["a"], "vectors of characters"),
        ("shift", [0.5], "1 shifts for 2 classes"),
        ("sizes", None, "for a vocabulary of"),
    ],
)
def test_a_model_whose_parts_do_not_fit_is_refused(name, value, said, tmp_path):
    import json

    from seqloom.errors import ModelError

    NeuralClassifier(**small("bag", characters="cnn", d_characters=4)).fit(TEXTS, train=QUICK).save(
        tmp_path / "m"
    )
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    if name == "sizes":
        config["learnt"]["sizes"]["further"] += 1
    else:
        config["learnt"][name] = value
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=said):
        seqloom.load(tmp_path / "m")


def test_a_copy_of_a_forecaster_is_fitted_apart():
    import copy

    model = seqloom.NeuralForecaster(d_hidden=4, horizon=2).fit(
        [float(i % 5) for i in range(80)], train=QUICK
    )
    other = copy.deepcopy(model)
    assert other.net.build.__self__ is other


def test_recomputing_is_refused_where_it_would_do_nothing():
    from seqloom.errors import ConfigError

    with pytest.raises(ConfigError, match="recompute has no effect"):
        NeuralClassifier(encoder="bag").fit(TEXTS, train=TrainConfig(recompute=True))
