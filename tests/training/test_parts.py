"""Schedules, clipping and batches by themselves."""

import math
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from seqloom.errors import ConfigError
from seqloom.training.batches import Carried, Shuffled
from seqloom.training.config import TrainConfig
from seqloom.training.optimizers import Average, hidden_matrices, make_optimizer, orthogonal
from seqloom.training.trainable import Schedule
from seqloom.training.update import Clipper


def rates(steps=100, **options):
    schedule = Schedule(TrainConfig(lr=1.0, steps=steps, **options), steps)
    return [schedule.rate(step) for step in range(steps)]


def test_schedules():
    assert rates(schedule="constant", warmup=4.0)[:5] == [
        0.25,
        0.5,
        0.75,
        1.0,
        1.0,
    ]  # the first step is not lost
    assert rates(schedule="linear", warmup=0.0)[50] == pytest.approx(0.5)
    cosine = rates(schedule="cosine", warmup=0.1)
    assert cosine[10] == pytest.approx(1.0)
    assert cosine[55] == pytest.approx(0.51)
    assert cosine[99] < 0.025
    assert rates(schedule="step", warmup=0.0, decay=0.1, decay_every=30.0)[::30] == pytest.approx(
        [1, 0.1, 0.01, 0.001]
    )
    late = rates(
        schedule="step", warmup=10.0, decay=0.1, decay_every=30.0
    )  # what falls does so from the end of the warm-up on
    assert (late[9], late[39], late[40], late[70]) == (
        1.0,
        1.0,
        pytest.approx(0.1),
        pytest.approx(0.01),
    )
    assert rates(schedule="linear", warmup=20.0)[60] == pytest.approx(0.5)
    noam = rates(schedule="noam", warmup=25.0)
    assert noam[24] == max(noam) == 1.0
    assert noam[99] == pytest.approx(math.sqrt(25 / 100))


def test_plateau_falls_after_two_evaluations_without_gain():
    schedule = Schedule(TrainConfig(lr=1.0, schedule="plateau", warmup=0.0, decay=0.5), 10)
    seen = []
    for loss in (3.0, 2.0, 2.1, 2.2, 2.3, 1.0, 1.1, 1.2):
        schedule.evaluated(loss)
        seen.append(schedule.rate(5))
    assert seen == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25]
    again = Schedule(TrainConfig(lr=1.0, schedule="plateau", warmup=0.0), 10)
    again.restore(schedule.state())
    assert again.rate(5) == 0.25


def parameters(*gradients):
    found = []
    for i, gradient in enumerate(gradients):
        p = torch.nn.Parameter(torch.zeros(len(gradient)))
        p.grad = torch.tensor(gradient)
        found.append((f"p{i}", p))
    return found


def test_clipping_by_norm_keeps_the_direction():
    """The documents' example: a norm of 15 and a threshold of 5 scale by 1/3."""
    named = parameters([9.0, 0.0], [12.0])
    clipper = Clipper(TrainConfig(clip="norm", clip_at=5.0))
    assert clipper(named) == pytest.approx(15.0)
    assert torch.cat([p.grad for _, p in named]).tolist() == pytest.approx([3.0, 0.0, 4.0])
    assert clipper.report() == {"clipped": 1.0, "largest_in": ["p1"]}
    assert clipper(parameters([0.3, 0.4])) == pytest.approx(0.5)
    assert clipper.report()["clipped"] == 0.5


def test_clipping_by_value_does_not():
    named = parameters([9.0, -1.0], [0.5, -7.0])
    Clipper(TrainConfig(clip="value", clip_at=2.0))(named)
    assert torch.cat([p.grad for _, p in named]).tolist() == [2.0, -1.0, 0.5, -2.0]


def test_adaptive_clipping_lets_the_usual_pass():
    """E-07: an explosion is cut and does not raise the limit; ordinary norms are hardly ever touched."""
    rng = np.random.default_rng(0)
    clipper = Clipper(TrainConfig(clip="adaptive", clip_at=4.0))
    for norm in np.exp(rng.normal(0, 0.5, 500)):
        clipper(parameters([float(norm)]))
    assert clipper.report()["clipped"] < 0.02
    usual = clipper.mean_norm
    named = parameters([1000.0])
    clipper(named)
    assert float(named[0][1].grad) == pytest.approx(4.0 * usual, rel=1e-4)
    assert clipper.mean_norm < usual * 1.1


def test_adaptive_clipping_knows_no_limit_at_first():
    """Twenty steps; before that there is nothing usual."""
    clipper = Clipper(TrainConfig(clip="adaptive", clip_at=2.0))
    for norm in [1.0] * 10 + [50.0] + [1.0] * 9:
        named = parameters([norm])
        clipper(named)
        assert named[0][1].grad.tolist() == [norm]
    clipper(named := parameters([50.0]))
    assert named[0][1].grad.item() == pytest.approx(2 * (19 + 50) / 20)


def test_wsd_rises_stays_and_falls():
    values = rates(schedule="wsd", warmup=10.0, decay_steps=40)
    assert values[9:61] == [1.0] * 52
    assert values[80] == pytest.approx(0.02 + 0.98 / 2)
    assert values[99] == pytest.approx(0.02 + 0.98 / 40)
    assert rates(warmup=10.0, decay_steps=40) == values  # which only wsd has
    assert rates(warmup=10.0, decay_plan=("60:100",)) == values


def test_a_later_plan_goes_on_from_the_rate_that_was_reached():
    values = rates(warmup=0.0, decay_plan=("60:100", "80:90"))
    assert values[:80] == rates(warmup=0.0, decay_plan=("60:100",))[:80]
    assert values[80] == pytest.approx(0.02 + 0.98 / 2)
    assert values[85] == pytest.approx(0.02 + 0.98 / 4)
    assert values[90:] == [0.02] * 10


def test_shares_refer_to_the_planned_steps():
    values = rates(schedule="wsd", warmup=0.1, planned_steps=200)
    assert values[18] < values[19] == 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minutes": 1.0, "schedule": "cosine"}, "give steps or epochs"),
        ({"minutes": 1.0, "decay_steps": 3}, "give steps, not minutes"),
        ({"steps": 9, "decay_steps": 3, "decay_plan": ("1:2",)}, "give one"),
        ({"steps": 9, "decay_plan": ("4",)}, "FROM:TO"),
        ({"steps": 9, "decay_plan": ("4:2",)}, "FROM:TO"),
        ({"steps": 9, "decay_plan": ("4:9", "2:9")}, "earlier"),
        ({"steps": 9, "schedule": "cosine", "decay_steps": 3}, "schedule"),
        ({"steps": 9, "enough": True}, "give minutes"),
    ],
    ids=str,
)
def test_lengths_and_schedules_that_do_not_go_together(options, words):
    with pytest.raises(ConfigError, match=words):
        TrainConfig(**options)


def test_the_exponential_mean_remembers_a_thousand_updates():
    """The plain mean of the first thousand, then 0.999 of what was and 0.001 of what is."""
    network = torch.nn.Linear(1, 1, bias=False).double()
    average, wanted = Average(TrainConfig(average="exponential"), network), 0.0
    for t in range(1500):
        torch.nn.init.constant_(network.weight, t)
        average.update(in_tail=False)
        wanted += max(0.001, 1 / (t + 1)) * (t - wanted)
    assert average.weights()["weight"].item() == pytest.approx(wanted)


@pytest.mark.parametrize(
    "optimizer", ["muon", "adamw", "adam", "sgd", "momentum", "rmsprop", "asgd"]
)
def test_weight_decay_is_for_matrices_alone(optimizer):
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    for p in network.parameters():
        torch.nn.init.ones_(p)
        p.grad = torch.zeros_like(p)
    made = make_optimizer(TrainConfig(optimizer=optimizer, lr=0.1, weight_decay=0.5), network)
    made.step()
    assert (network[0].weight < 1).all()
    for kept in (network[0].bias, network[1].weight, network[1].bias):
        assert (kept == 1).all()


def test_muon_is_that_of_torch_for_hidden_matrices_and_adamw_for_the_rest():
    """torch's works in bfloat16, of which a step shows three digits."""
    torch.manual_seed(0)
    ours, theirs = (
        torch.nn.Sequential(
            OrderedDict(
                embedding=torch.nn.Embedding(7, 4),
                up=torch.nn.Linear(4, 12),
                down=torch.nn.Linear(12, 4),
                output=torch.nn.Linear(4, 3),
            )
        )
        for _ in range(2)
    )
    theirs.load_state_dict(ours.state_dict())
    first = {name: p.detach().clone() for name, p in ours.named_parameters()}
    config = TrainConfig(optimizer="muon", lr=0.02, weight_decay=0.1)
    made = make_optimizer(config, ours)
    hidden = {"up.weight", "down.weight"}
    assert hidden_matrices(ours) == hidden
    muon = torch.optim.Muon(
        [p for name, p in theirs.named_parameters() if name in hidden],
        lr=0.02,
        weight_decay=0.1,
        adjust_lr_fn="match_rms_adamw",
    )
    rest = [(name, p) for name, p in theirs.named_parameters() if name not in hidden]
    adamw = torch.optim.AdamW(
        [
            {"params": [p for _, p in rest if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for _, p in rest if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=0.02,
        betas=(0.9, 0.99),
    )
    for _ in range(5):
        for a, b in zip(ours.parameters(), theirs.parameters()):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        made.step()
        muon.step()
        adamw.step()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters()):
        moved = (a - first[name]).detach().abs().max()
        assert moved > 0.02
        torch.testing.assert_close(
            a, b, rtol=0, atol=float(moved) * (0.02 if name in hidden else 1e-5)
        )


def test_orthogonal_makes_singular_values_alike():
    draw = torch.Generator().manual_seed(3)
    matrices = [
        torch.randn(shape, generator=draw) for shape in ((5, 40), (40, 5), (16, 16), (5, 40))
    ]
    for matrix, made in zip(matrices, orthogonal(matrices), strict=True):
        assert made.shape == matrix.shape
        values = torch.linalg.svdvals(made)
        assert 0.6 < float(values.min()) <= float(values.max()) < 1.3
        u, _, v = torch.linalg.svd(matrix, full_matrices=False)
        assert float((made * (u @ v)).sum() / min(matrix.shape)) > 0.8


def test_adaptive_clipping_as_it_comes_neither_sinks_nor_jumps_and_follows():
    rng = np.random.default_rng(1)
    clipper, limits = Clipper(TrainConfig(clip="adaptive")), []
    for norm in np.exp(rng.normal(0, 0.5, 3000)):
        clipper(parameters([float(norm)]))
        limits.append(clipper.mean_norm * clipper.at)
    assert clipper.report()["clipped"] < 0.02
    assert (
        0.75 < min(limits[100:]) / limits[100] < max(limits[100:]) / limits[100] < 1.35
    )  # it stays put
    assert limits[-1] == pytest.approx(3 * math.exp(0.125), rel=0.2)  # thrice the true mean
    clipper(parameters([1000.0]))
    assert limits[-1] < clipper.mean_norm * clipper.at < 1.1 * limits[-1]
    for norm in np.exp(rng.normal(math.log(20), 0.5, 600)):  # a new level that lasts
        clipper(parameters([float(norm)]))
    before = clipper.clipped
    for norm in np.exp(rng.normal(math.log(20), 0.5, 300)):
        clipper(parameters([float(norm)]))
    assert clipper.clipped - before < 10


@given(st.integers(20, 400), st.integers(1, 6), st.integers(1, 40), st.booleans())
@settings(deadline=None, max_examples=40)
def test_carried_rows_are_read_once_and_in_order(n, rows, truncation, vary):
    ids = np.arange(n)
    batches = Carried(ids, -1, batch_size=rows, truncation=truncation, vary=vary)
    cursor, seen, first = (0, 0), [], True
    while cursor[0] == 0:
        batch = batches.batch(cursor)
        assert batch.fresh == first
        assert batches.batch(cursor)["targets"].tolist() == batch["targets"].tolist()
        seen.append(batch)
        cursor, first = batch.following, False
    targets = np.concatenate([b["targets"] for b in seen], axis=1)
    inputs = np.concatenate([b["inputs"] for b in seen], axis=1)
    assert targets.tolist() == ids[: rows * (n // rows)].reshape(rows, -1).tolist()
    assert (inputs[:, 0] == -1).all()
    assert (inputs[:, 1:] == targets[:, :-1]).all()


@given(st.integers(10, 300), st.integers(1, 30), st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_shuffled_windows_do_not_overlap_and_change_with_the_epoch(n, window, before):
    ids = np.arange(n)
    batches = Shuffled(ids, -1, batch_size=2, window=window, before=before)
    seen = []
    for epoch in (0, 1):
        cursor, targets = (epoch, 0), []
        while cursor[0] == epoch:
            batch = batches.batch(cursor)
            assert batch["inputs"].shape[1] == batch["targets"].shape[1] + before
            assert (batch["inputs"][:, before + 1 :] == batch["targets"][:, :-1]).all()
            assert (
                batch["inputs"][:, before]
                == np.where(batch["targets"][:, 0] > 0, batch["targets"][:, 0] - 1, -1)
            ).all()
            targets += batch["targets"].flatten().tolist()
            cursor = batch.following
        assert len(targets) == len(set(targets)) > n - 2 * window - 1
        seen.append(targets)
    assert n < 50 or window > 20 or seen[0] != seen[1]


def test_a_batch_larger_than_the_text_is_refused():
    with pytest.raises(
        ConfigError, match="batch_size 40 is too large for a text of 50 tokens; give at most 25"
    ):
        Carried(np.arange(50), 0, batch_size=40, truncation=8)
    assert Carried(np.arange(50), 0, batch_size=None, truncation=8).rows == 3
    assert Shuffled(np.arange(3), 0, batch_size=None, window=8).batch((0, 0))["targets"].shape == (
        1,
        3,
    )
