"""Shards of an update in one process: whose rows they are, what they add up to, and in which order."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.errors import ConfigError, TrainingError
from seqloom.training import loop
from seqloom.training.batches import Carried, Corrupted, Separate, Shuffled
from seqloom.training.checkpoint import Run
from seqloom.training.config import TrainConfig
from seqloom.training.ranks import check_shards
from seqloom.training.shards import GradientSum, Shards, Tree, branches
from seqloom.training.update import Updater

from .several import hashes
from .test_any_task import CPU, Lines, by_hand, weight
from .test_any_task import fitted as fit_lines
from .test_engine import VARIED, Toy, same, weights
from .test_engine import run as run_toy

IDS = np.random.default_rng(3).integers(1, 8, 700)
IDS[np.random.default_rng(4).integers(0, 700, 40)] = 0
LAYOUTS = {
    "carried": lambda: Carried(IDS, 0, batch_size=7, truncation=9, vary=True),
    "shuffled": lambda: Shuffled(IDS, 0, batch_size=5, window=8, before=2),
    "separate": lambda: Separate(IDS, 0, batch_size=6, window=4, carried=True),
}


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_parts_of_a_batch_are_its_rows(layout, count):
    batches = LAYOUTS[layout]()
    cursor = (0, 0)
    for _ in range(30):
        whole = batches.batch(cursor)
        parts = [batches.batch(cursor, (k, count)) for k in range(count)]
        assert {part.following for part in parts} == {whole.following}
        assert {part.fresh for part in parts} == {whole.fresh}
        assert sum(part.count for part in parts) == whole.count
        seen = [
            tuple(row[mask]) if part.mask is not None else tuple(row)
            for part in parts
            for row, mask in zip(
                part["targets"], part.mask if part.mask is not None else [None] * part.rows
            )
        ]
        all_rows = [
            tuple(row if whole.mask is None else row[whole.mask[i]])
            for i, row in enumerate(whole["targets"])
        ]
        assert sorted(seen) == sorted(all_rows)
        cursor = whole.following


def test_a_row_that_is_carried_on_stays_in_its_part():
    """Rows that end are the last ones of their part too."""
    batches = LAYOUTS["separate"]()
    before, cursor = {}, (0, 0)
    for _ in range(40):
        for k in range(3):
            part = batches.batch(cursor, (k, 3))
            if part.rows and not part.fresh:
                assert part.rows <= before[k].rows
                ends = before[k]["targets"][: part.rows, -1]
                assert (part["inputs"][:, 0] == ends).all()
            before[k] = part
        cursor = batches.batch(cursor).following


def test_noise_of_a_part_is_its_own_and_the_same_again():
    def drawn(batch, rng):
        return type(batch)({**batch.arrays, "noise": rng.random((batch.rows, 1))})

    noisy = Corrupted(LAYOUTS["shuffled"](), drawn, seed=2)
    first = [noisy.batch((0, 0), (k, 2))["noise"] for k in (0, 1)]
    assert not np.array_equal(first[0][:2], first[1][:2])
    assert np.array_equal(first[1], noisy.batch((0, 0), (1, 2))["noise"])


def test_examples_fewer_than_parts_leave_some_empty():
    task = Lines(batch_size=2)
    rows = [task.batches.batch((0, 0), (k, 4)).rows for k in range(4)]
    assert sorted(rows) == [0, 0, 1, 1]


# ---- sums


@pytest.mark.parametrize("count", range(1, 14))
def test_whoever_adds_the_sum_has_the_same_bits(count):
    """Branches that were added elsewhere, in blocks of any size, against leaf by leaf."""
    rng = torch.Generator().manual_seed(count)
    scales = 10.0 ** torch.randint(-4, 5, (count, 1), generator=rng)
    leaves = torch.randn(count, 50, generator=rng) * scales

    def branch(first, size):
        return (
            leaves[first].clone()
            if size == 1
            else (branch(first, size // 2) + branch(first + size // 2, size // 2))
        )

    tree = Tree()
    for number in range(count):
        tree.add(number, 1, leaves[number].clone())
    total = tree.total()
    assert torch.allclose(total, leaves.sum(0), rtol=1e-3, atol=1e-3)
    for processes in (n for n in range(1, count + 1) if count % n == 0):
        share, shared = count // processes, Tree()
        for rank in range(processes):
            for first, size in branches(range(rank * share, (rank + 1) * share)):
                shared.add(first, size, branch(first, size))
        assert torch.equal(total, shared.total()), processes


def test_gradients_that_no_shard_has_stay_none():
    used, unused = torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(5))
    added = GradientSum([used, unused], 4, 1, 0)
    for turn in range(2):  # with the tensors of the turn before
        for number in range(4):
            used.grad = torch.full((3, 2), float(number + turn)) if number != 2 else None
            added.add(number)
            assert used.grad is None
        assert added.present == [True, False]
        added.give(added.present)
        assert used.grad.tolist() == [[4.0 + 3 * turn] * 2] * 3
        assert unused.grad is None
        used.grad = None


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_of_an_update_are_weighed_by_their_targets(count):
    """Unequal lengths and weights: the gradient of the weighted mean of all targets, however cut."""
    given = [
        np.random.default_rng(1).uniform(0, 2, n).astype(np.float32) for n in (2, 7, 3, 5, 4, 9, 6)
    ]
    report = fit_lines(Lines(3, given), steps=1, accumulate=3, shards=count)
    assert np.allclose(weight(report), by_hand(given), atol=1e-5)


def test_targets_without_weight_are_refused():
    with pytest.raises(TrainingError, match="no targets to train on"):
        fit_lines(Lines(weights=[np.zeros(n, np.float32) for n in (2, 7, 3, 5, 4, 9, 6)]), shards=2)


def test_an_update_in_shards_is_the_update_as_a_whole():
    """Without random numbers the gradients are the same up to rounding: of a recurrent network with its
    state carried on, for all optimisers of matrices."""
    options = {"steps": 6, "lr": 0.01}
    models = {}
    for count in (1, 2, 4):
        task = Toy()
        build = task.build

        def without_dropout(build=build):
            network = build()
            network.drop.p = 0.0
            return network

        task.build = without_dropout
        models[count] = weights(run_toy(task, shards=count, optimizer="adam", **options))
    for count in (2, 4):
        for name, array in models[1].items():
            assert np.allclose(array, models[count][name], atol=2e-4), name


@pytest.mark.parametrize("options", VARIED, ids=str)
def test_cut_off_and_resumed_is_the_same_to_the_bit(options, tmp_path, monkeypatch):
    whole = run_toy(Toy(valid=True, vary=True), shards=2, **options)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(RuntimeError, match="plug"):
        run_toy(Toy(valid=True, vary=True, fail_at=9), place=tmp_path / "r", shards=2, **options)
    resumed = run_toy(
        Toy(valid=True, vary=True), place=tmp_path / "r", **options
    )  # shards are kept
    assert same(weights(whole), weights(resumed))
    assert whole.facts == resumed.facts
    assert whole.facts["shards"] == 2


def test_loss_is_scaled_before_it_is_cut(monkeypatch):
    """The scale leaves the sum of the shards again before it is clipped."""
    plain = run_toy(shards=2, clip_at=0.1)
    monkeypatch.setattr(
        "seqloom.training.update.scaler_for",
        lambda config, device: torch.amp.GradScaler("cpu", init_scale=2.0**10),
    )
    scaled = run_toy(shards=2, clip_at=0.1)
    for name, array in weights(plain).items():
        assert np.allclose(array, weights(scaled)[name], atol=1e-6)


def test_dropout_depends_on_step_and_shard():
    first = hashes(["gpt"], {"steps": 2, "shards": 2})
    assert first == hashes(["gpt"], {"steps": 2, "shards": 2})
    assert first != hashes(["gpt"], {"steps": 2, "shards": 4})
    assert first != hashes(["gpt"], {"steps": 2, "shards": 2, "seed": 1})


def test_matrices_are_orthogonal_whoever_makes_them():
    from seqloom.training.optimizers import orthogonal

    torch.manual_seed(0)
    matrices = [torch.randn(*shape) for shape in ((8, 3), (5, 5), (3, 8), (5, 5), (8, 3), (2, 9))]
    for count in (1, 2, 4, 9):
        for alone, shared in zip(orthogonal(matrices), Shards(count).orthogonal(matrices)):
            assert torch.allclose(alone, shared, atol=1e-5)
    assert Shards(2).orthogonal([]) == []


# ---- what is kept, and refused


def test_shards_cannot_change_in_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(RuntimeError, match="plug"):
        run_toy(Toy(fail_at=5), place=tmp_path / "r", shards=2)
    with pytest.raises(ConfigError, match=r"r was begun with 2 shards, not 4; leave shards out"):
        run_toy(Toy(), place=tmp_path / "r", shards=4)
    run_toy(Toy(), place=tmp_path / "r", shards=2)


def test_a_run_in_one_piece_has_one_shard_when_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(RuntimeError, match="plug"):
        run_toy(Toy(fail_at=5), place=tmp_path / "r")
    with pytest.raises(ConfigError, match="begun with 1 shard, not 2"):
        run_toy(Toy(), place=tmp_path / "r", shards=2)
    assert "shards" not in run_toy(Toy(), place=tmp_path / "r").facts
    assert Run(tmp_path / "r").load()[1]["step"] == 12


def test_threads_are_kept_with_the_run(tmp_path, monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(RuntimeError, match="plug"):
        run_toy(Toy(fail_at=5), place=tmp_path / "r", shards=2)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert run_toy(Toy(), place=tmp_path / "r").facts["threads"] == 2
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("shards", "processes", "advice"), [(2, 4, "as 4"), (6, 4, "as 8"), (3, 2, "as 4")]
)
def test_shards_that_cannot_be_shared(shards, processes, advice):
    with pytest.raises(ConfigError, match=f"{shards} shards .* by {processes} processes.*{advice}"):
        check_shards(shards, processes)


def test_batches_of_other_packages_need_no_parts():
    """Where an update is one piece, a method `batch(cursor)` is enough."""

    class Old:
        def __init__(self, batches):
            self.batches = batches

        def batch(self, cursor):
            return self.batches.batch(cursor)

        def length(self, cursor):
            return self.batches.length(cursor)

    task = Toy()
    task.batches = Old(task.batches)
    updater = Updater(task, TrainConfig(steps=2), CPU)
    assert updater.update(0, 2, 0.1).targets > 0
