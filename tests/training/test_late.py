"""Weights that begin to learn after the rest, noise and means, on a loss whose gradient is one: all has a closed form."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from seqloom.training import loop  # noqa: E402
from seqloom.training.config import TrainConfig  # noqa: E402
from seqloom.training.schedules import Late  # noqa: E402
from seqloom.training.task import Criterion  # noqa: E402
from seqloom.training.windows import Carried  # noqa: E402

STEPS, RATE = 10, 0.5


def trained(late, **options):
    """The two weights after some steps; `seen`: which of them asked for gradients in each step."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.early, self.table = nn.Parameter(torch.zeros(1, 2)), nn.Parameter(torch.zeros(1, 2))

    def loss(network, batch, state):
        seen.append(network.table.requires_grad)
        return (network.early.sum() + network.table.sum()) * batch["targets"].numel(), None

    seen = []
    task = SimpleNamespace(batches=Carried(np.arange(600) % 5, 5, batch_size=4, truncation=10), build=Net, loss=loss,
                           evaluate=lambda network: None, readings=lambda value, held_out: {}, criterion=Criterion(),
                           counted="tokens", unit="nats")
    plain = {"steps": STEPS, "lr": RATE, "schedule": "constant", "warmup": 0.0, "clip": "none", "weight_decay": 0.0}
    config = TrainConfig(**{**plain, "optimizer": "sgd", **options})
    network = loop.train(task, config, device=torch.device("cpu"), late=[] if late is None else [late]).network
    return network.early.detach().numpy(), network.table.detach().numpy(), seen


@pytest.mark.parametrize(("frozen_for", "shares"), [
    (0.3, [0, 0, 0, 1 / 3, 2 / 3, 1, 1, 1, 1, 1]), (4.0, [0, 0, 0, 0, 1 / 4, 2 / 4, 3 / 4, 1, 1, 1]), (0.0, [1] * 10),
    (1.0, [0] * 10), (1000.0, [0] * 10)], ids=str)
def test_they_wait_and_then_their_rate_rises(frozen_for, shares):
    early, table, seen = trained(Late(("table",), frozen_for))
    assert np.allclose(early, -RATE * STEPS, atol=1e-6)
    assert np.allclose(table, -RATE * sum(shares), atol=1e-6)
    assert seen == [share > 0 for share in shares]  # no gradient is computed before its time


def test_without_late_weights_all_learn_alike():
    early, table, _ = trained(None)
    assert np.array_equal(early, table)


def test_waiting_weights_do_not_count_in_the_norm():
    """Clipped to a norm of 1: two gradients of one share it as long as the other two are asleep."""
    early, table, _ = trained(Late(("table",), 1.0), clip="norm", clip_at=1.0)
    assert np.allclose(early, -RATE * STEPS / np.sqrt(2), atol=1e-5)
    assert not table.any()


def test_weight_decay_waits_too():
    early, table, _ = trained(Late(("table",), 0.5), optimizer="adamw", weight_decay=0.1, lr=0.01)
    assert table.any()
    assert abs(table).max() < abs(early).max()
    assert not trained(Late(("table",), 1.0), optimizer="adamw", weight_decay=0.1)[1].any()


# ---- the same closed forms for what all weights share

def test_noise_on_gradients_falls_with_the_steps(monkeypatch):
    """Its deviation is the square root of variance / (1 + t)^0.55; noise of one everywhere shows it."""
    monkeypatch.setattr(torch, "randn_like", torch.ones_like)
    early, _, _ = trained(None, gradient_noise=0.3)
    assert np.allclose(early, -RATE * sum(1 + np.sqrt(0.3 / (1 + t) ** 0.55) for t in range(STEPS)), atol=1e-5)


@pytest.mark.parametrize(("options", "mean"), [
    ({}, 10), ({"average": "exponential"}, 5.5), ({"average": "tail"}, 9), ({"optimizer": "asgd"}, 9)], ids=str)
def test_means_of_the_weights(options, mean):
    """After update t the weights are -rate x t. A run as short as this has the plain mean as its exponential one; the tail is
    what comes after three quarters: updates 8, 9 and 10."""
    assert np.allclose(trained(None, **options)[0], -RATE * mean, atol=1e-5)
