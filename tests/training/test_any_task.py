"""The engine with a task that has nothing to do with language: lines through points, of unequal
numbers and weights.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from seqloom.batching import pad
from seqloom.errors import TrainingError
from seqloom.training import loop
from seqloom.training.batches import Batch, Examples
from seqloom.training.checkpoint import Run, read_log
from seqloom.training.config import TrainConfig
from seqloom.training.trainable import Criterion

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
SERIES = [RNG.normal(size=(n, 3)).astype(np.float32) for n in (2, 7, 3, 5, 4, 9, 6)]
TRUE = np.array([0.5, -2.0, 1.0], np.float32)
PLAIN = {
    "optimizer": "sgd",
    "lr": 0.1,
    "schedule": "constant",
    "warmup": 0.0,
    "clip": "none",
    "weight_decay": 0.0,
}


class Lines:
    """Numbers from numbers; padded rows, and a weight for each number."""

    counted, unit = "values", "squared error"

    def __init__(self, batch_size=2, weights=None, criterion=None, valid=None):
        self.weights = [np.ones(len(s), np.float32) for s in SERIES] if weights is None else weights
        self.batches = Examples([len(s) for s in SERIES], self._collate, batch_size=batch_size)
        self.criterion, self.valid = criterion or Criterion("MSE"), valid

    def _collate(self, chosen):
        inputs, mask = pad([SERIES[i] for i in chosen])
        weights, _ = pad([self.weights[i] for i in chosen])
        return Batch({"inputs": inputs, "targets": inputs @ TRUE}, mask=mask, weights=weights)

    def build(self):
        made = nn.Linear(3, 1, bias=False)
        nn.init.zeros_(made.weight)
        return made

    def loss(self, network, batch, state):
        errors = (network(batch["inputs"])[..., 0] - batch["targets"]) ** 2
        return (errors * batch.weights)[batch.mask].sum(), None

    def evaluate(self, network):
        return None if self.valid is None else self.valid.pop(0)

    def readings(self, value, held_out):
        return {"root": value**0.5} if not held_out else {}


def fitted(task, place=None, **options):
    config = TrainConfig(**{"steps": 4, **PLAIN, **options})
    return loop.train(task, config, device=CPU, run=Run(place) if place else None)


def weight(report):
    return report.network.weight.detach().numpy()[0].copy()


def by_hand(weights, steps=1):
    """Gradient descent on the weighted mean of all targets at once."""
    x, w, theta = np.concatenate(SERIES), np.concatenate(weights), np.zeros(3)
    for _ in range(steps):
        theta = theta - 0.1 * (2 * w * (x @ theta - x @ TRUE)) @ x / w.sum()
    return theta


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7])
def test_padding_weights_and_unequal_batches_are_averaged_rightly(batch_size):
    """One update of all examples, dealt out in batches of any size: the gradient of the weighted
    mean of all targets.
    """
    weights = [RNG.uniform(0, 2, len(s)).astype(np.float32) for s in SERIES]
    batches = -(-len(SERIES) // batch_size)
    report = fitted(Lines(batch_size, weights), steps=1, accumulate=batches)
    assert np.allclose(weight(report), by_hand(weights), atol=1e-5)


def test_targets_without_weight_are_refused_rather_than_divided_by():
    with pytest.raises(TrainingError, match="no targets to train on"):
        fitted(Lines(weights=[np.zeros(len(s), np.float32) for s in SERIES]))


@pytest.mark.parametrize(("higher", "best"), [(True, 3), (False, 1)])
def test_best_is_what_the_criterion_says(higher, best, tmp_path):
    """F1 rises, squared error falls; patience, the best weights and the log follow it."""
    task = Lines(
        criterion=Criterion("F1" if higher else "MSE", higher_is_better=higher),
        valid=[0.1, 0.3, 0.9, 0.2, 0.2, 0.2],
    )
    report = fitted(task, tmp_path / "r", evaluate_every=1, steps=6, patience=3)
    assert (report.best_step, report.valid) == (best, 0.9 if higher else 0.1)
    assert report.steps == best + 3
    log = read_log(tmp_path / "r")
    assert [line["valid"] for line in log if "valid" in line][:3] == [0.1, 0.3, 0.9]
    assert {"values", "values_per_s", "root"} <= log[0].keys()
    assert not {"tokens", "bits_per_byte"} & log[0].keys()


def test_plateau_lowers_the_rate_where_more_is_better():
    task = Lines(criterion=Criterion("BLEU", higher_is_better=True), valid=[1.0, 2.0, 3.0, 4.0])
    steady = weight(fitted(task, schedule="plateau", evaluate_every=1))
    assert np.array_equal(steady, weight(fitted(Lines())))  # it rose all the time
    task = Lines(criterion=Criterion("BLEU", higher_is_better=True), valid=[4.0, 3.0, 2.0, 1.0])
    assert not np.array_equal(steady, weight(fitted(task, schedule="plateau", evaluate_every=1)))


def test_every_example_once_an_epoch_like_lengths_together():
    batches = Examples(
        [len(s) for s in SERIES], lambda chosen: Batch({"targets": chosen}), batch_size=3
    )
    cursor, seen = (4, 0), []
    while cursor[0] == 4:
        batch = batches.batch(cursor)
        assert batches.batch(cursor)["targets"].tolist() == batch["targets"].tolist()
        seen.append(batch["targets"].tolist())
        cursor = batch.following
    assert sorted(i for group in seen for i in group) == list(range(len(SERIES)))
    assert sorted(sorted(len(SERIES[i]) for i in group) for group in seen) == [
        [2],
        [3, 4, 5],
        [6, 7, 9],
    ]
    assert batches.length((0, 0)) == len(seen) == 3


def test_minutes_are_timed_with_the_very_step_that_trains(monkeypatch):
    from seqloom.training import loop

    steps = []
    monkeypatch.setattr(loop.Updater, "update", lambda self, step, *rest: steps.append(step))
    assert loop.decide_length(Lines(), TrainConfig(minutes=1.0), CPU).steps > 0
    assert len(steps) >= 10


SEVERAL = """
import os, sys
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2] + "/meet",
                                     rank=int(os.environ["RANK"]), world_size=2)
from tests.training.test_any_task import *
report = fitted(Lines(valid=[3.0, 2.0]), sys.argv[2] + "/run", steps=6, evaluate_every=3, accumulate=2)
np.save(sys.argv[2] + "/weights" + os.environ["RANK"], weight(report))
torch.distributed.barrier()
"""


def test_of_several_processes_only_the_first_writes(tmp_path):
    """Two that train one network in one directory: one log, one checkpoint, no quarrel about the
    lock, the same weights.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", SEVERAL, root, str(tmp_path)],
            cwd=root,
            text=True,
            stderr=subprocess.PIPE,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    errors = [child.communicate(timeout=300)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], errors
    assert len(read_log(tmp_path / "run")) == 8  # six steps, two evaluations
    first, second = (np.load(tmp_path / f"weights{rank}.npy") for rank in range(2))
    assert np.array_equal(first, second)
    alone = fitted(Lines(valid=[3.0, 2.0]), steps=6, evaluate_every=3, accumulate=2, shards=2)
    assert np.array_equal(first, weight(alone))


def test_a_first_evaluation_that_is_no_number_is_never_the_best():
    for higher in (True, False):
        task = Lines(
            criterion=Criterion("X", higher_is_better=higher), valid=[float("nan"), 0.3, 0.3, 0.3]
        )
        report = fitted(task, evaluate_every=1)
        assert (report.best_step, report.valid) == (4, 0.3)  # of equal ones the last


def test_variables_of_a_launcher_without_a_group_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    fitted(Lines(), tmp_path / "r")
    assert read_log(tmp_path / "r")


def test_targets_are_counted_alike_with_a_mask_and_without():
    """Three values at each place, of which the mask and the weights know only the place."""
    targets, mask = np.zeros((2, 5, 3)), np.ones((2, 5), bool)
    assert Batch({"targets": targets}).count == Batch({"targets": targets}, mask=mask).count == 30
    assert Batch({"targets": targets}, mask=mask, weights=np.array([1.0, 0.5])).count == 22.5
    mask[0, 2:] = False
    assert Batch({"targets": targets}, mask=mask).count == 21


def test_a_loss_that_is_not_in_nats_may_vary_by_more():
    task = Lines(batch_size=1, weights=None)
    task.batches.collate = lambda chosen: Batch(
        {"inputs": SERIES[0][None], "targets": np.full((1, 2), 10.0 ** chosen[0], np.float32)},
        mask=np.ones((1, 2), bool),
        weights=np.ones((1, 2), np.float32),
    )
    fitted(task, steps=7, lr=1e-12)
