"""What a task may have besides a network, batches and a loss: weights to start from, a second network that is
frozen, and batches that are corrupted anew in each epoch; all of it resumes to the bit."""

import copy
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from seqloom.errors import ConfigError
from seqloom.training import loop
from seqloom.training.batches import Batch, Carried, Corrupted, Examples, Separate, Shuffled
from seqloom.training.checkpoint import Run
from seqloom.training.config import TrainConfig
from seqloom.training.trainable import Criterion

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(23, 4)).astype(np.float32)


class Noisy(nn.Module):
    """A network that would change in train mode: dropout, and statistics of batches."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop, self.last = (
            nn.Linear(4, 6),
            nn.BatchNorm1d(6),
            nn.Dropout(0.5),
            nn.Linear(6, 3),
        )

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def noise(batch, rng):
    return replace(
        batch,
        arrays={
            **batch.arrays,
            "inputs": batch["inputs"]
            + rng.normal(size=batch["inputs"].shape).astype(np.float32) / 4,
        },
    )


class Distil:
    """A small network learns the distributions that a frozen one gives for noisy inputs."""

    counted, unit, criterion = "examples", "nats", Criterion("nats")

    def __init__(self, teacher=None, *, fail_at=None, corrupt=noise, seed=0):
        examples = Examples(
            [1] * len(INPUTS),
            lambda i: Batch({"inputs": INPUTS[i], "targets": i}),
            batch_size=5,
            seed=seed,
        )
        self.batches = Corrupted(examples, corrupt, seed=seed)
        if teacher is not None:
            self.frozen_network = teacher
        self.fail_at, self.calls, self.answers = fail_at, 0, []

    def build(self):
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))

    def loss(self, network, batch, state):
        self.calls += 1
        if self.calls == self.fail_at:
            raise RuntimeError("pulled the plug")
        with torch.no_grad():
            wanted = self.frozen_network(batch["inputs"]).softmax(1)
        self.answers.append(wanted)
        return nn.functional.cross_entropy(network(batch["inputs"]), wanted, reduction="sum"), None

    def evaluate(self, network):
        return None

    def readings(self, value, held_out):
        return {}


def run(task, place=None, initial=None, **options):
    config = TrainConfig(**{"steps": 12, "lr": 0.01, **options})
    return loop.train(
        task, config, device=CPU, run=Run(place) if place else None, facts={"a": 1}, initial=initial
    )


def arrays(network):
    return {name: weight.detach().numpy().copy() for name, weight in network.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(array, b[name]) for name, array in a.items())


def teacher(seed=1):
    torch.manual_seed(seed)
    return Noisy()


def test_the_second_network_answers_and_never_changes_by_a_bit(tmp_path):
    frozen = teacher()
    before, task = arrays(frozen), Distil(frozen)
    report = run(task, tmp_path / "r")
    assert same(arrays(frozen), before)  # nor the statistics of its norm
    assert not frozen.training
    assert all(weight.grad is None and not weight.requires_grad for weight in frozen.parameters())
    with torch.no_grad():
        expected = frozen(torch.from_numpy(task.batches.batch((0, 0))["inputs"])).softmax(1)
    assert torch.equal(task.answers[0], expected)  # without dropout
    assert set(arrays(report.network)) == {"0.weight", "0.bias", "3.weight", "3.bias"}
    saved, _ = Run(tmp_path / "r").load()
    assert not any("norm" in name or "first" in name for name in saved)
    assert sum(name.startswith("weights.") for name in saved) == 4


def test_it_goes_where_the_first_one_goes(monkeypatch):
    moved, real = [], nn.Module.to
    monkeypatch.setattr(
        nn.Module,
        "to",
        lambda self, *args, **rest: (moved.append((type(self), args)), real(self, *args, **rest))[
            1
        ],
    )
    run(Distil(teacher()), steps=1)
    assert [(kind, args) for kind, args in moved if kind in (Noisy, nn.Sequential)] == [
        (nn.Sequential, (CPU,)),
        (Noisy, (CPU,)),
    ]


def test_weights_of_both_are_refused():
    task = Distil(teacher())
    task.build = lambda: nn.Sequential(task.frozen_network, nn.Linear(3, 3))
    with pytest.raises(ValueError, match="shares weights with the trained one"):
        run(task)


def test_it_resumes_to_the_bit_with_noise_and_only_with_the_same_second_network(
    tmp_path, monkeypatch
):
    whole = run(Distil(teacher()))
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    for fail_at in (5, 4):
        with pytest.raises(RuntimeError, match="plug"):
            run(Distil(teacher(), fail_at=fail_at), tmp_path / "r")
    with pytest.raises(
        ConfigError, match=r"other settings \(frozen_network was \w{16}, is \w{16}\)"
    ):
        run(Distil(teacher(2)), tmp_path / "r")
    resumed = run(Distil(teacher()), tmp_path / "r")
    assert same(arrays(whole.network), arrays(resumed.network))
    assert not same(
        arrays(whole.network),
        arrays(run(Distil(teacher(), corrupt=lambda batch, rng: batch)).network),
    )


# ---- corrupted batches

IDS = RNG.integers(0, 9, 200)
LAYOUTS = {
    "carried": lambda: Carried(IDS, 8, batch_size=4, truncation=7),
    "shuffled": lambda: Shuffled(IDS, 8, batch_size=3, window=10),
    "separate": lambda: Separate(IDS, 8, batch_size=3, window=10),
}


def hide(batch, rng):
    """A fifth of the inputs is hidden, and the loss counts only those."""
    hidden = rng.random(batch["inputs"].shape) < 0.2
    arrays = {
        **batch.arrays,
        "inputs": np.where(hidden, -1, batch["inputs"]),
        "drawn": rng.random(1),
    }
    return replace(
        batch, arrays=arrays, mask=hidden, following=(9, 9), fresh=False
    )  # what belongs to the layout stays that of the layout


@pytest.mark.parametrize("layout", LAYOUTS)
def test_noise_is_a_function_of_seed_and_cursor(layout):
    plain, noisy = LAYOUTS[layout](), Corrupted(LAYOUTS[layout](), hide, seed=3)
    cursor, seen = (0, 0), []
    while cursor[0] < 2:
        batch, before = noisy.batch(cursor), plain.batch(cursor)
        assert np.array_equal(batch["inputs"], noisy.batch(cursor)["inputs"])
        assert np.array_equal(batch["targets"], before["targets"])
        assert np.array_equal(batch["inputs"] == -1, batch.mask)
        assert (batch.following, batch.fresh) == (before.following, before.fresh)
        assert (noisy.length(cursor), noisy.share(cursor)) == (
            plain.length(cursor),
            plain.share(cursor),
        )
        seen.append(batch["drawn"].item())
        cursor = batch.following
    seen.append(Corrupted(LAYOUTS[layout](), hide, seed=4).batch((0, 0))["drawn"].item())
    assert (
        len(set(seen)) == len(seen) > 8
    )  # other numbers in each batch, in each epoch and with each seed


# ---- weights to start from


def test_training_begins_with_the_weights_that_are_given():
    first = arrays(run(Distil(teacher())).network)
    still = run(Distil(teacher()), initial=first, lr=0.0, steps=3)
    assert same(arrays(still.network), first)
    assert not same(arrays(run(Distil(teacher()), initial=first, steps=3).network), first)
    assert all(array.flags.writeable for array in first.values())
    copied = copy.deepcopy(first)
    run(Distil(teacher()), initial=first, steps=3)
    assert same(first, copied)  # what was given is not trained in place


def test_a_run_from_given_weights_resumes_to_the_bit(tmp_path, monkeypatch):
    first = arrays(run(Distil(teacher())).network)
    whole = run(Distil(teacher(), seed=1), initial=first)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(RuntimeError, match="plug"):
        run(Distil(teacher(), seed=1, fail_at=6), tmp_path / "r", initial=first)
    assert same(
        arrays(run(Distil(teacher(), seed=1), tmp_path / "r", initial=first).network),
        arrays(whole.network),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("3.bias"), r"3.bias is not there, here \(3,\)"),
        (lambda w: w.update({"9.bias": w["3.bias"]}), r"9.bias is \(3,\), here not there"),
        (lambda w: w.update({"3.bias": np.zeros(4, np.float32)}), r"3.bias is \(4,\), here \(3,\)"),
    ],
)
def test_weights_of_another_network_are_refused(change, message):
    first = arrays(run(Distil(teacher()), steps=1).network)
    change(first)
    with pytest.raises(ConfigError, match=message):
        run(Distil(teacher()), initial=first)


# ---- weights and masks of tokens in the losses of models


@pytest.mark.parametrize("weights", [None, (6, 5), (6,)], ids=str)
@pytest.mark.parametrize("masked", [True, False])
def test_the_sum_of_losses_by_mask_and_weight(weights, masked):
    from seqloom.models.network.output_net import summed_loss
    from seqloom.nn.outputs import FullSoftmax
    from seqloom.training.devices import on_device

    torch.manual_seed(0)
    output, features = FullSoftmax(4, 9), torch.randn(6, 5, 4)
    targets, mask = RNG.integers(0, 9, (6, 5)), RNG.random((6, 5)) < 0.6
    weights = None if weights is None else RNG.random(weights).astype(np.float32)
    batch = Batch({"targets": targets}, mask=mask if masked else None, weights=weights)
    each = (
        -output.log_probs(features)
        .gather(2, torch.from_numpy(targets)[..., None])[..., 0]
        .detach()
        .numpy()
    )
    counted = (
        np.ones((6, 5)) if weights is None else np.broadcast_to(weights.reshape(6, -1), (6, 5))
    )
    counted = counted * mask if masked else counted
    loss = summed_loss(output, features, on_device(batch, CPU)).detach()
    assert float(loss) == pytest.approx((each * counted).sum(), rel=1e-5)
    assert batch.count == pytest.approx(counted.sum(), rel=1e-6)


def test_of_several_batches_one_may_have_nothing_to_learn_from():
    from seqloom.models.network.output_net import summed_loss
    from seqloom.nn.outputs import FullSoftmax
    from seqloom.training.devices import on_device

    output, features, targets = (
        FullSoftmax(4, 9),
        torch.randn(6, 5, 4, requires_grad=True),
        np.zeros((6, 5), np.int64),
    )
    for empty in (
        Batch({"targets": targets}, mask=np.zeros((6, 5), bool)),
        Batch({"targets": targets}, weights=np.zeros((6, 5), np.float32)),
    ):
        loss = summed_loss(output, features, on_device(empty, CPU))
        loss.backward()
        assert float(loss.detach()) == 0
        assert not features.grad.any()
