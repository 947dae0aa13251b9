"""The noise of the gradient, and what batches of several sizes bring."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from seqloom import LSTM, NeuralClassifier
from seqloom.training.batches import Batch, Examples
from seqloom.training.config import TrainConfig
from seqloom.training.noise import noise_scale
from seqloom.training.trainable import Criterion
from seqloom.training.update import Updater
from tests.conftest import TOY

TEXTS = [(f"a fine film {i % 7}", "good") if i % 2 else (f"dull {i % 5}", "bad") for i in range(80)]
WIDTH, DEVIATION = 20, 3.0


class Mean:
    """Learns the mean of vectors: the gradient of a row is the weights less the row, so its variance is
    known: WIDTH times DEVIATION squared, and its mean is the weights less one.
    """

    criterion, counted, unit = Criterion("distance"), "rows", "squares"

    def __init__(self, rows):
        rng = np.random.default_rng(0)
        self.data = (1 + DEVIATION * rng.normal(size=(4096, WIDTH))).astype(np.float32)
        self.batches = Examples(
            np.ones(len(self.data)),
            lambda chosen: Batch({"x": self.data[chosen], "targets": np.zeros(len(chosen))}),
            batch_size=rows,
        )

    def build(self):
        return nn.ParameterDict({"mean": nn.Parameter(torch.zeros(WIDTH))})

    def loss(self, network, batch, state):
        return 0.5 * (network["mean"] - batch["x"]).square().sum(), None


@pytest.mark.parametrize("rows", [4, 32])
def test_it_is_what_it_is_known_to_be_whatever_the_batch(rows):
    updater = Updater(Mean(rows), TrainConfig(steps=1), torch.device("cpu"))
    expected = WIDTH * DEVIATION**2 / WIDTH  # variance of a row by the square of the mean
    assert noise_scale(updater, 4096 // rows) == pytest.approx(expected, rel=0.15)


def test_without_a_mean_it_is_infinite():
    task = Mean(4)
    task.data -= task.data.mean(0)
    updater = Updater(task, TrainConfig(steps=1), torch.device("cpu"))
    assert noise_scale(updater, 1024) > 1000 or math.isinf(noise_scale(updater, 1024))


def test_every_size_is_tried_and_the_model_stays_as_it_is():
    model = NeuralClassifier(encoder="bag")
    rows = model.sweep([4, 16], TEXTS, train={"epochs": 2})
    assert not model.fitted
    assert [row["batch_size"] for row in rows] == [4, 16]
    assert rows[0]["steps"] == pytest.approx(4 * rows[1]["steps"], rel=0.1)
    assert all(row["noise_scale"] > 0 and row["valid_accuracy"] >= 0 for row in rows)


def test_a_network_with_a_state_is_swept_too():
    (row,) = LSTM(tokenizer="whitespace", d_hidden=8).sweep([4], TOY * 200, train={"steps": 3})
    assert row["valid_nats"] > 0
    assert row["tokens_per_s"] > 0
