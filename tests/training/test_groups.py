"""Weights that learn later, more slowly or not at all, noise and means, on a loss whose gradient is one: all
has a closed form.
"""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from seqloom.errors import ConfigError
from seqloom.training import loop
from seqloom.training.batches import Carried
from seqloom.training.config import TrainConfig
from seqloom.training.trainable import (
    Criterion,
    DelayedGroup,
)

STEPS, RATE = 10, 0.5


def trained(group, **options):
    """The two weights after some steps; `seen`: which of them asked for gradients in each step."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.early, self.table = (
                nn.Parameter(torch.zeros(1, 2)),
                nn.Parameter(torch.zeros(1, 2)),
            )

    def loss(network, batch, state):
        seen.append(network.table.requires_grad)
        return (network.early.sum() + network.table.sum()) * batch["targets"].numel(), None

    seen = []
    task = SimpleNamespace(
        batches=Carried(np.arange(600) % 5, 5, batch_size=4, truncation=10),
        build=Net,
        loss=loss,
        evaluate=lambda network: None,
        readings=lambda value, held_out: {},
        criterion=Criterion(),
        counted="tokens",
        unit="nats",
    )
    plain = {
        "steps": STEPS,
        "lr": RATE,
        "schedule": "constant",
        "warmup": 0.0,
        "clip": "none",
        "weight_decay": 0.0,
    }
    config = TrainConfig(**{**plain, "optimizer": "sgd", **options})
    network = loop.train(
        task, config, device=torch.device("cpu"), groups=[] if group is None else [group]
    ).network
    return network.early.detach().numpy(), network.table.detach().numpy(), seen


@pytest.mark.parametrize(
    ("frozen_for", "shares"),
    [
        (0.3, [0, 0, 0, 1 / 3, 2 / 3, 1, 1, 1, 1, 1]),
        (4.0, [0, 0, 0, 0, 1 / 4, 2 / 4, 3 / 4, 1, 1, 1]),
        (0.0, [1] * 10),
        (1.0, [0] * 10),
        (1000.0, [0] * 10),
    ],
    ids=str,
)
def test_they_wait_and_then_their_rate_rises(frozen_for, shares):
    early, table, seen = trained(DelayedGroup(("table",), frozen_for))
    assert np.allclose(early, -RATE * STEPS, atol=1e-6)
    assert np.allclose(table, -RATE * sum(shares), atol=1e-6)
    assert seen == [share > 0 for share in shares]  # no gradient is computed before its time


def test_without_groups_all_learn_alike():
    early, table, _ = trained(None)
    assert np.array_equal(early, table)


def test_waiting_weights_do_not_count_in_the_norm():
    """Clipped to a norm of 1: two gradients of one share it as long as the other two are asleep."""
    early, table, _ = trained(DelayedGroup(("table",), 1.0), clip="norm", clip_at=1.0)
    assert np.allclose(early, -RATE * STEPS / np.sqrt(2), atol=1e-5)
    assert not table.any()


def test_weight_decay_waits_too():
    early, table, _ = trained(
        DelayedGroup(("table",), 0.5), optimizer="adamw", weight_decay=0.1, lr=0.01
    )
    assert table.any()
    assert abs(table).max() < abs(early).max()
    assert not trained(DelayedGroup(("table",), 1.0), optimizer="adamw", weight_decay=0.1)[1].any()


# ---- groups by patterns, and by the options of training


def test_a_pattern_stands_for_all_names_that_match():
    _, table, _ = trained(DelayedGroup(("t*",), 1.0))
    assert not table.any()
    early, table, _ = trained(DelayedGroup(("*a*",), lr_scale=0.25))  # both have an a
    assert np.allclose(early, -RATE * STEPS / 4)
    assert np.array_equal(early, table)


@pytest.mark.parametrize(
    ("options", "early", "table"),
    [
        ({"freeze": ["table"]}, 10, 0),
        ({"freeze": ["t*"]}, 10, 0),
        ({"lr_scale": ["ta*=0.5"]}, 10, 5),
        ({"lr_scale": ["e*=2", "*=0.5"]}, 20, 5),  # the first pattern counts
        ({"delay": ["table=0.3"]}, 10, 6),
        ({"delay": ["table=4"]}, 10, 4.5),
        ({"delay": ["table=0.3"], "lr_scale": ["*=0.5"]}, 5, 3),
        ({"freeze": ["table"], "lr_scale": ["*=0.5"]}, 5, 0),
    ],
    ids=str,
)
def test_options_of_training_freeze_delay_and_slow(options, early, table):
    found = trained(None, **options)
    assert np.allclose(found[0], -RATE * early, atol=1e-6)
    assert np.allclose(found[1], -RATE * table, atol=1e-6)


def test_options_overrule_the_groups_of_a_model():
    own = DelayedGroup(("table",), 0.3, 0.5)
    assert np.allclose(trained(own)[1], -RATE * 3, atol=1e-6)
    assert np.allclose(trained(own, lr_scale=["table=1"])[1], -RATE * 6, atol=1e-6)
    assert np.allclose(trained(own, delay=["table=0"])[1], -RATE * 5, atol=1e-6)
    assert not trained(own, freeze=["table"])[1].any()


@pytest.mark.parametrize(
    ("group", "options", "message"),
    [
        (
            DelayedGroup(("tabel",)),
            {},
            r"a group of weights: no weight has a name like 'tabel'; did you mean 'table'\?",
        ),
        (
            None,
            {"freeze": ["decoder.*"]},
            "freeze: no weight has a name like 'decoder.*'; there are early, table",
        ),
        (None, {"delay": ["x=0.5"]}, "delay: no weight has a name like 'x'"),
        (None, {"lr_scale": ["early=1", "x=0.5"]}, "lr_scale: no weight has a name like 'x'"),
        (None, {"freeze": ["*"]}, "all weights are frozen at first"),
        (None, {"delay": ["*=0.1"]}, "all weights are frozen"),
        (None, {"lr_scale": ["*=0"]}, "all weights are frozen"),
        (None, {"delay": ["table"]}, "delay must be NAME=NUMBER"),
        (None, {"delay": ["table=soon"]}, "such as embedding.*=0.3; got 'table=soon'"),
        (None, {"lr_scale": ["=1"]}, "lr_scale must be NAME=NUMBER"),
        (None, {"lr_scale": ["table=-1"]}, "got 'table=-1'"),
        (None, {"lr_scale": ["table=nan"]}, "got 'table=nan'"),
    ],
    ids=str,
)
def test_patterns_that_match_nothing_and_values_that_are_none(group, options, message):
    with pytest.raises(ConfigError, match=message.replace(".*'", r"\.\*'")) as error:
        trained(group, **options)
    assert "\n" not in str(error.value)


# ---- the same closed forms for what all weights share


def test_noise_on_gradients_falls_with_the_steps(monkeypatch):
    """Its deviation is the square root of variance / (1 + t)^0.55; noise of one everywhere shows it."""
    monkeypatch.setattr(torch, "randn_like", torch.ones_like)
    early, _, _ = trained(None, gradient_noise=0.3)
    assert np.allclose(
        early, -RATE * sum(1 + np.sqrt(0.3 / (1 + t) ** 0.55) for t in range(STEPS)), atol=1e-5
    )


@pytest.mark.parametrize(
    ("options", "mean"),
    [
        ({}, 10),
        ({"average": "exponential"}, 5.5),
        ({"average": "tail"}, 9),
        ({"optimizer": "asgd"}, 9),
    ],
    ids=str,
)
def test_means_of_the_weights(options, mean):
    """After update t the weights are -rate x t. A run as short as this has the plain mean as its exponential
    one; the tail is what comes after three quarters: updates 8, 9 and 10."""
    assert np.allclose(trained(None, **options)[0], -RATE * mean, atol=1e-5)
