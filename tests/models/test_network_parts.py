"""What networks share, used by one that is no language model: a classifier of bags of words, made here."""

import json
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from seqloom import LSTM
from seqloom.arrays import check_arrays
from seqloom.contracts import FitOptions
from seqloom.errors import ConfigError, ModelError
from seqloom.models.language.neural import settled
from seqloom.models.network.first_layer import (
    WIDTHS,
    FirstLayer,
    choose_width,
    default_dropout,
    open_first_layer,
    passes,
    token_spellings,
)
from seqloom.models.network.network import (
    RANKS,
    TrainedNetwork,
    array_specs,
    check_held_out,
    prepare,
    refuse_unused,
    train_network,
)
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.runtime.declarations import Declared
from seqloom.runtime.outputs import take_output
from seqloom.runtime.weights import Recorder
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.batches import Batch, Examples
from seqloom.training.config import TrainConfig
from seqloom.training.trainable import (
    Criterion,
    DelayedGroup,
)

RNG = np.random.default_rng(0)
TEXTS, LABELS = RNG.integers(2, 10, (40, 6)), RNG.integers(0, 2, 40)
TEXTS[:, 0] = LABELS  # what tells the class
VECTORS = RNG.normal(size=(10, 4)).astype(np.float32)
DECLARED = {
    "embedding.weight": Declared((10, 4), "table"),
    "output.weight": Declared((2, 4), "output"),
    "output.bias": Declared((2,), "vector"),
}


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.output = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, ids):
        return self.output(self.embedding(ids).mean(1))


class Classify:
    criterion, counted, unit = Criterion("accuracy", higher_is_better=True), "texts", "nats"

    def __init__(self, *, frozen=False, evaluated=True):
        self.frozen, self.evaluated = frozen, evaluated
        self.batches = Examples(
            [6] * 40, lambda i: Batch({"ids": TEXTS[i], "targets": LABELS[i]}), batch_size=10
        )

    def build(self):
        made = Bags()
        FirstLayer(VECTORS, {}).fill(made.embedding, frozen=self.frozen)
        return made

    def loss(self, network, batch, state):
        return nn.functional.cross_entropy(
            network(batch["ids"]), batch["targets"], reduction="sum"
        ), None

    def evaluate(self, network):
        if not self.evaluated:
            return None
        with torch.no_grad():
            return float((network(torch.from_numpy(TEXTS)).argmax(1).numpy() == LABELS).mean())

    def readings(self, value, held_out):
        return {}


def trained(task, how=None, groups=(), **facts):
    how = how or FitOptions(train=TrainConfig(steps=60, lr=0.05))
    config, device = prepare("bags", how)
    return train_network(task, config, device, run=how.run, facts=facts, groups=groups)


def test_a_classifier_is_trained_recorded_and_restored():
    network, record = trained(Classify())
    assert record["valid_accuracy"] > 0.9
    assert record["train"]["steps"] == record["steps"] == 60
    kept = TrainedNetwork("bags", Bags)
    kept.keep(network)
    assert kept.module() is network
    assert kept.parameters == 10 * 4 + 2 * 4 + 2
    check_arrays(kept.weights, array_specs(DECLARED))
    loaded = TrainedNetwork("bags", Bags)
    loaded.restore(kept.weights)
    ids = torch.from_numpy(TEXTS)
    assert not loaded.module().training
    assert torch.equal(loaded.module()(ids), network(ids))
    assert loaded.module() is loaded.module()
    loaded.restore({name: 0 * weight for name, weight in kept.weights.items()})
    assert loaded.module()(ids).abs().max() == 0  # not the module of the weights before


def test_the_network_is_where_it_is_wanted():
    kept = TrainedNetwork("bags", Bags)
    kept._device = torch.device("meta")  # which to_device refuses
    kept.restore({name: weight.numpy() for name, weight in Bags().state_dict().items()})
    assert next(kept.module().parameters()).device.type == "meta"


def test_frozen_and_delayed_vectors():
    for steps, moved in ((3, False), (4, True)):
        how = FitOptions(train=TrainConfig(steps=steps, lr=0.05))
        network, _ = trained(
            Classify(evaluated=False), how, groups=[DelayedGroup(("embedding.weight",), 3.0)]
        )
        assert (not np.array_equal(network.embedding.weight.detach().numpy(), VECTORS)) == moved
    network, _ = trained(Classify(frozen=True))
    assert np.array_equal(network.embedding.weight.detach().numpy(), VECTORS)
    assert network.embedding.weight.requires_grad  # afterwards a weight like others


def test_a_run_is_continued_only_with_the_same_facts(tmp_path):
    how = FitOptions(train=TrainConfig(steps=3), run=tmp_path / "run")
    trained(Classify(), how, data="a")
    trained(Classify(), how, data="a")
    with pytest.raises(ConfigError, match="unfinished run with other settings"):
        trained(Classify(), how, data="b")
    facts = json.loads((tmp_path / "run" / "run.json").read_text())["facts"]
    assert (
        not {"freeze", "delay", "lr_scale"} & facts["train"].keys()
    )  # as in the runs of earlier versions


def test_the_caller_says_what_a_token_costs():
    def width(tokens, minutes, cost=lambda width: 8 * width * width, **options):
        return choose_width(TrainConfig(minutes=minutes), tokens, cost, **options)

    assert width(10**6, 1) < width(10**6, 30)
    assert width(10**7, 600, lambda width: 1.0) > width(10**7, 600, lambda width: 1e5 * width)
    assert width(10**4, 600) <= 160  # few tokens
    assert width(10**6, 5, multiple=7) % 7 == 0
    assert width(10**9, 0.01) == WIDTHS[0]


def test_refused_before_training():
    refuse_unused("bags", None, {"recompute": "it is small"})
    refuse_unused("bags", TrainConfig(), {"recompute": "it is small"})
    with pytest.raises(ConfigError, match="recompute has no effect on bags: it is small"):
        refuse_unused("bags", TrainConfig(recompute=True), {"recompute": "it is small"})
    check_held_out(TrainConfig())
    with pytest.raises(ConfigError, match="patience and schedule plateau need held-out data"):
        check_held_out(TrainConfig(patience=2, schedule="plateau"))
    with pytest.raises(ConfigError, match="device 'nowhere' cannot be used"):
        prepare("bags", FitOptions(device="nowhere"))


def test_ranks_are_integers_that_all_differ():
    recorder = Recorder()
    take_output(recorder.within("output"), "adaptive", 4, 10)
    specs = array_specs(recorder.declared)
    assert (specs[RANKS].dtype, specs[RANKS].shape, specs[RANKS].low, specs[RANKS].high) == (
        "int64",
        (10,),
        0,
        9,
    )
    with pytest.raises(ModelError, match="same rank"):
        TrainedNetwork("bags", Bags).restore({RANKS: np.array([0, 0, 1])})


def test_vectors_are_checked_before_a_table_is_made(tmp_path):
    WordVectors.of(["cat", "dog"], np.eye(2)).save(tmp_path / "v")
    tokenizer, widths = Tokenizer(kind="whitespace").fit("cat dog bird\n"), []
    counts = np.ones(tokenizer.vocab_size)
    first = open_first_layer(
        str(tmp_path / "v"),
        token_spellings(tokenizer),
        counts,
        check_width=widths.append,
        unknown="mean",
    )
    assert widths == [first.dimensions] == [2]
    assert first.matrix[tokenizer.id("dog")].tolist() == [0.0, 1.0]
    assert first.matrix[tokenizer.id("bird")].tolist() == [0.5, 0.5]
    assert open_first_layer(None, [], counts, check_width=widths.append) is None


def test_they_load_neither_language_models_nor_torch():
    code = (
        "import sys\n"
        "from seqloom.models.network import configs, first_layer, network\n"
        "print([m for m in sys.modules if m == 'torch' or m.startswith('seqloom.models.language')])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_dropout_follows_the_passes_over_the_data():
    assert [default_dropout(n) for n in (0.5, 2.9, 3, 7, 8, 100)] == [0.0, 0.0, 0.1, 0.1, 0.2, 0.2]
    assert passes(TrainConfig(epochs=2.5), 10**6, 1e5) == 2.5
    assert passes(TrainConfig(steps=600), 10**6, 1e5, updates=300) == 2
    long, short = (passes(TrainConfig(minutes=minutes), 10**6, 1e5) for minutes in (4, 1))
    assert long == pytest.approx(4 * short)
    assert passes(TrainConfig(minutes=1), 10**6, 1e6) == pytest.approx(short / 10)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0.2, 0.1)),
        ({"dropout": 0.5}, (0.5, 0.25)),
        ({"dropout": 0.5, "input_dropout": 0.0}, (0.5, 0.0)),
    ],
)
def test_what_is_given_is_not_chosen(options, expected):
    model = LSTM(tokenizer="byte", **options)
    found = settled(model.config, model.size_for(TrainConfig(epochs=9), 10**5, 257))
    assert (found.dropout, found.input_dropout) == expected
    assert model.config.dropout == options.get(
        "dropout"
    )  # what the user said stays what the user said
