"""The loop on a network of a few weights: what it must do does not depend on the network."""

import math
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from seqloom.errors import ConfigError, TrainingError
from seqloom.training import devices, loop
from seqloom.training.batches import Carried
from seqloom.training.checkpoint import Run, read_log
from seqloom.training.config import TrainConfig
from seqloom.training.devices import check_precision, find_device, on_device
from seqloom.training.trainable import Criterion
from seqloom.training.update import Updater

IDS = np.random.default_rng(0).integers(0, 5, 600)
CPU = torch.device("cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.vectors, self.gru, self.out = (
            nn.Embedding(6, 4),
            nn.GRU(4, 8, batch_first=True),
            nn.Linear(8, 6),
        )
        self.drop = nn.Dropout(0.3)


class Toy:
    """Predicts the next of six ids with a carried state and dropout, so that resuming must get both right."""

    criterion, counted, unit = Criterion("nats"), "tokens", "nats"

    def __init__(self, valid=None, fail_at=None, **options):
        self.batches = Carried(IDS, 5, batch_size=4, truncation=10, **options)
        self.valid, self.calls, self.fail_at = valid, 0, fail_at

    def build(self):
        return Net()

    def loss(self, network, batch, state):
        self.calls += 1
        if self.calls == self.fail_at:
            raise RuntimeError("pulled the plug")
        out, h = network.gru(network.vectors(batch["inputs"]), None if state is None else state[0])
        logits = network.out(network.drop(out))
        return nn.functional.cross_entropy(
            logits.flatten(0, 1), batch["targets"].flatten(), reduction="sum"
        ), (h,)

    def readings(self, value, held_out):
        return {}

    def evaluate(self, network):
        if self.valid is None:
            return None
        value = self.valid.pop(0) if isinstance(self.valid, list) else None
        if value is not None:
            return value
        with torch.no_grad():
            batch = self.batches.batch((0, 0))
            return float(self.loss(network, on_device(batch, CPU), None)[0]) / batch.count


def run(task=None, *, place=None, **options):
    config = TrainConfig(**{"steps": 12, "lr": 0.01, **options})
    return loop.train(
        task or Toy(), config, device=CPU, run=Run(place) if place else None, facts={"a": 1}
    )


def weights(report):
    return {name: w.numpy() for name, w in report.network.state_dict().items()}


def same(a, b):
    return all(np.array_equal(x, b[name]) for name, x in a.items())


VARIED = [
    {},
    {"optimizer": "muon"},
    {"optimizer": "sgd"},
    {"optimizer": "momentum"},
    {"optimizer": "rmsprop"},
    {"optimizer": "adam"},
    {"optimizer": "asgd"},
    {"schedule": "plateau"},
    {"clip": "adaptive"},
    {"average": "exponential"},
    {"average": "tail"},
    {"accumulate": 2},
    {"accumulate": 2, "batch_growth": 3.0},
    {"gradient_noise": 0.01},
    {"patience": 3},
]


@pytest.mark.parametrize("options", VARIED, ids=str)
def test_cut_off_and_resumed_is_the_same_to_the_bit(options, tmp_path, monkeypatch):
    whole = run(Toy(valid=True, vary=True), **options)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)  # after every step
    for fail_at in (5, 4):  # twice, at different places
        with pytest.raises(RuntimeError, match="plug"):
            run(Toy(valid=True, vary=True, fail_at=fail_at), place=tmp_path / "r", **options)
    assert Run(tmp_path / "r").load()[1]["step"] > 0
    resumed = run(Toy(valid=True, vary=True), place=tmp_path / "r", **options)
    assert same(weights(whole), weights(resumed))
    assert whole.valid == resumed.valid
    assert whole.facts == resumed.facts
    steps = [line["step"] for line in read_log(tmp_path / "r") if "loss" in line]
    assert steps == sorted(set(steps))  # what was logged and then lost is not there twice


def test_a_resumed_run_ends_with_the_same_checkpoint(tmp_path, monkeypatch):
    """All that is kept, also what does not show in the weights yet: patience, first loss, what is
    usual, counts.
    """
    options = {
        "schedule": "plateau",
        "clip": "adaptive",
        "average": "tail",
        "patience": 5,
        "evaluate_every": 1,
    }
    values = [3.0, 3.1, 2.9, 3.0, 3.2, 2.8, 2.9, 3.0, 3.1, 3.2]
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    run(Toy(valid=list(values)), place=tmp_path / "whole", steps=10, **options)
    with pytest.raises(RuntimeError, match="plug"):
        run(Toy(valid=list(values), fail_at=9), place=tmp_path / "cut", steps=10, **options)
    assert Run(tmp_path / "cut").load()[1]["step"] == 8
    run(Toy(valid=values[8:]), place=tmp_path / "cut", steps=10, **options)
    (arrays, whole), (again, resumed) = (Run(tmp_path / name).load() for name in ("whole", "cut"))
    assert {**whole, "log": None} == {**resumed, "log": None}  # which has times in it
    assert whole["waited"] == 4
    assert whole["first_loss"] > 0
    assert whole["schedule"]["factor"] == 0.125
    assert same(arrays, again)


def test_another_seed_or_no_state_is_another_result():
    """So that the test above could fail."""
    base = weights(run())
    assert not same(base, weights(run(seed=1)))
    assert same(base, weights(run()))

    class Forgetful(Toy):
        def loss(self, network, batch, state):
            return super().loss(network, batch, None)

    assert not same(base, weights(run(Forgetful())))


def test_sigkill_and_resume(tmp_path):
    """A real one, in another process, while it trains."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from tests.training.test_engine import *\n"
        "loop.CHECKPOINT_SECONDS = -1.0\n"
        "update = loop._Loop._update\n"
        "def waiting(self, rate):\n"
        "    if self.step == 20: print('now', flush=True); sys.stdin.readline()\n"
        "    return update(self, rate)\n"
        "loop._Loop._update = waiting\n"
        "run(Toy(valid=True), place=sys.argv[1], steps=400)\n"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "r"), root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
    )
    assert child.stdout.readline() == b"now\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    step = Run(tmp_path / "r").load()[1]["step"]
    assert 0 < step < 400
    assert same(
        weights(run(Toy(valid=True), steps=400)),
        weights(run(Toy(valid=True), place=tmp_path / "r", steps=400)),
    )


def test_ctrl_c_finishes_the_step_and_keeps_it(tmp_path):
    class Pressed(Toy):
        def loss(self, *arguments):
            if self.calls == 6:
                os.kill(os.getpid(), signal.SIGINT)
            return super().loss(*arguments)

    with pytest.raises(KeyboardInterrupt):
        run(Pressed(), place=tmp_path / "r")
    assert Run(tmp_path / "r").load()[1]["step"] == 7
    assert same(weights(run()), weights(run(place=tmp_path / "r")))


def test_the_best_weights_are_restored():
    values = [3.0, 2.0, 2.5, 2.6]
    best = run(Toy(valid=list(values)), evaluate_every=3)
    assert (best.valid, best.best_step) == (2.0, 6)
    config = {"schedule": "constant", "warmup": 0.0}
    assert same(
        weights(run(Toy(valid=list(values)), evaluate_every=3, **config)),
        weights(run(steps=6, **config)),
    )


def test_patience_stops():
    report = run(Toy(valid=[2.0, 2.1, 2.2, 1.0]), evaluate_every=3, patience=2)
    assert report.steps == 9
    assert report.valid == 2.0


def test_a_gain_renews_patience():
    """Never two evaluations without gain one after the other, though three in all."""
    report = run(Toy(valid=[3.0, 3.1, 2.0, 2.1, 1.0, 1.1]), evaluate_every=2, patience=2)
    assert report.steps == 12
    assert report.valid == 1.0


def test_accumulated_gradients_are_those_of_the_larger_batch():
    """Two batches, one update: the mean of their gradients (SGD shows it in the weights)."""
    task = Toy()
    options = {
        "optimizer": "sgd",
        "lr": 0.5,
        "schedule": "constant",
        "warmup": 0.0,
        "clip": "none",
        "weight_decay": 0.0,
    }
    torch.manual_seed(0)
    network = Net()
    before = {name: w.detach().clone() for name, w in network.named_parameters()}
    network.drop.p = 0.0
    state, cursor, total = None, (0, 0), 0.0
    for _ in range(2):
        batch = task.batches.batch(cursor)
        loss, state = task.loss(network, on_device(batch, CPU), state)
        state, cursor, total = (
            tuple(s.detach() for s in state),
            batch.following,
            total + loss / batch.count / 2,
        )
    total.backward()
    expected = {name: before[name] - 0.5 * w.grad for name, w in network.named_parameters()}

    class NoDrop(Toy):
        def build(self):
            made = Net()
            made.drop.p = 0.0
            return made

    found = weights(run(NoDrop(), steps=1, accumulate=2, **options))
    assert all(
        np.allclose(found[name], value.detach(), atol=1e-6) for name, value in expected.items()
    )


def test_batches_grow_from_the_first_step_to_the_last(monkeypatch):
    sizes = []
    original = Updater._batches

    def look(updater, number):
        sizes.append(number)
        return original(updater, number)

    monkeypatch.setattr(Updater, "_batches", look)
    run(steps=9, accumulate=2, batch_growth=4.0)
    assert sizes[0] == 2
    assert sizes[-1] == 8
    assert sizes == sorted(sizes)
    assert sizes[4] == 4  # half way, at a constant rate
    usual = TrainConfig(steps=9, accumulate=2, batch_growth=4.0).usual_batches
    assert usual == pytest.approx(np.mean(sizes), rel=0.1)


def test_growing_batches_make_as_many_passes_as_were_asked_for():
    task = Toy()
    report = run(task, steps=None, epochs=4, batch_growth=4.0)
    assert report.facts["epochs"] == pytest.approx(4, rel=0.1)
    assert report.facts["steps"] < run(Toy(), steps=None, epochs=4).facts["steps"] / 2


def test_a_loss_that_is_no_number_stops_with_advice(tmp_path, monkeypatch):
    class Bad(Toy):
        def loss(self, *arguments):
            loss, state = super().loss(*arguments)
            return (loss * math.nan if self.calls == 6 else loss), state

    with pytest.raises(
        TrainingError, match=r"at step 6 the loss is nan: try a lower lr .* or more warmup$"
    ):
        run(Bad(), place=tmp_path / "r")  # it has not come to a checkpoint
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(
        TrainingError, match=r"at step 6 the loss is nan: try a lower lr .* checkpoint is in"
    ):
        run(Bad(), place=tmp_path / "r")
    with pytest.raises(TrainingError, match=r"has grown from 1.* nats|loss is|gradient is"):
        run(optimizer="sgd", lr=1e4, clip="none", steps=60, warmup=0.0)


def test_a_run_of_other_settings_is_not_continued(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with pytest.raises(RuntimeError, match="plug"):
        run(Toy(fail_at=5), place=tmp_path / "r")
    with pytest.raises(
        ConfigError, match=r"other settings .*a was 1, is 2.*remove .* to start over"
    ):
        loop.train(
            Toy(), TrainConfig(steps=12), device=CPU, run=Run(tmp_path / "r"), facts={"a": 2}
        )


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


class Timed(Toy):
    """A toy on a machine of which the clock says how long each batch takes, twice as long from `busy` on."""

    def __init__(self, clock, busy=None, **options):
        super().__init__(valid=True, **options)
        self.clock, self.busy = clock, busy

    def loss(self, network, batch, state):
        result = super().loss(network, batch, state)
        seconds = (6 + int(batch["inputs"].sum()) % 5) / 128  # exact on any clock
        late = self.busy is not None and self.clock.now >= self.busy
        self.clock.now += seconds * (2 if late else 1)
        return result


def timed(*, busy=None, place=None, clock=None, fail_at=None, **options):
    clock = clock or Clock(100.0)
    task = Timed(clock, busy=busy, fail_at=fail_at)
    config = TrainConfig(**{"minutes": 0.1, "lr": 0.01, **options})
    return loop.train(
        task, config, device=CPU, run=Run(place) if place else None, facts={"a": 1}, clock=clock
    )


@pytest.mark.parametrize(
    "options", [{}, {"average": "tail"}, {"delay": ("vectors.*=0.2",)}], ids=str
)
@pytest.mark.parametrize("busy", [None, 101.0, 103.0, 105.0])
def test_the_numbers_that_are_recorded_repeat_a_run_of_minutes(busy, options):
    """Without its clock, to the bit, whether the machine got busier or not."""
    clock = Clock(100.0)
    report = timed(busy=busy, clock=clock, **options)
    assert 0.95 * 6 < clock.now - 100 < 1.05 * 6
    repeated = report.facts["repeated_by"]
    assert repeated["steps"] == report.steps == report.facts["steps"]
    assert ("decay_steps" in repeated) is (busy is None)
    plan = tuple(repeated.pop("decay_plan", ()))
    again = run(Toy(valid=True), decay_plan=plan, **repeated, **options)
    assert same(weights(report), weights(again))
    assert report.valid == again.valid


def test_a_run_of_minutes_without_a_decay_is_repeated_too():
    clock = Clock(100.0)
    report = timed(clock=clock, schedule="plateau", lr=0.5, evaluate_every=7)
    assert 0.95 * 6 < clock.now - 100 < 1.05 * 6
    again = run(Toy(valid=True), schedule="plateau", **(report.facts["repeated_by"] | {"lr": 0.5}))
    assert same(weights(report), weights(again))


def test_frozen_weights_stay_frozen_beyond_the_steps_that_were_planned():
    first = run(freeze=("vectors.*",), steps=1)
    options = {"freeze": ("vectors.*",), "planned_steps": 10}
    for report in (run(steps=30, **options), timed(**options)):
        assert report.steps > 10
        assert np.array_equal(weights(report)["vectors.weight"], weights(first)["vectors.weight"])
    assert not np.array_equal(weights(run())["vectors.weight"], weights(first)["vectors.weight"])


def test_a_run_of_minutes_that_patience_ended_is_repeated_too():
    report = timed(patience=1, evaluate_every=3, lr=3.0)
    repeated = report.facts["repeated_by"]
    assert report.steps == repeated["steps"] < 20
    plan = tuple(repeated.pop("decay_plan"))
    again = run(Toy(valid=True), patience=1, decay_plan=plan, **(repeated | {"lr": 3.0}))
    assert same(weights(report), weights(again))


def test_a_run_of_minutes_goes_on_to_the_same_bits_with_the_time_that_was_left(
    tmp_path, monkeypatch
):
    whole = timed()
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    for fail_at, start in ((31, 500.0), (40, 9000.0)):  # another clock each time
        with pytest.raises(RuntimeError, match="plug"):
            timed(place=tmp_path / "r", clock=Clock(start), fail_at=fail_at)
    assert Run(tmp_path / "r").load()[1]["step"] > 40
    resumed = timed(place=tmp_path / "r", clock=Clock(0.0))
    assert same(weights(whole), weights(resumed))
    assert whole.facts == resumed.facts
    assert whole.valid == resumed.valid


def test_less_than_a_tenth_of_a_pass_is_said_before_and_after(capsys, monkeypatch):
    from seqloom import progress

    said = []
    monkeypatch.setattr(progress, "say", said.append)
    clock = Clock(0.0)
    task = Timed(clock)
    task.batches = Carried(np.tile(IDS, 500), 5, batch_size=4, truncation=10)
    loop.train(task, TrainConfig(minutes=0.1), device=CPU, clock=clock)
    warnings = [line for line in said if "one pass takes about" in line]
    assert len(warnings) == 2


def test_minutes_that_are_given_are_used_also_for_little_data():
    clock = Clock(0.0)
    task = Timed(clock)
    task.enough_epochs = 1.0
    little = loop.train(task, TrainConfig(minutes=0.2, enough=True), device=CPU, clock=clock)
    assert little.steps == 100  # the fewest
    assert clock.now < 0.9 * 12
    again = run(Toy(valid=True), **(little.facts["repeated_by"] | {"lr": None}))
    assert same(weights(little), weights(again))
    clock.now = 0.0
    loop.train(task, TrainConfig(minutes=0.2), device=CPU, clock=clock)
    assert 0.95 * 12 < clock.now < 1.05 * 12


def test_epochs_become_steps():
    assert run(steps=None, epochs=2.0).steps == 2 * 15  # 600 ids in 4 rows of 150, 10 at a time


def test_instructions_that_end_the_program_are_refused(monkeypatch):
    """As in a virtual machine whose CPU names units that programs may not use."""
    monkeypatch.setattr("torch.cpu._is_avx512_bf16_supported", lambda: True)
    for code in (-4, 0):  # an illegal instruction, and none
        devices._multiplies.cache_clear()
        monkeypatch.setattr(
            devices.subprocess, "run", lambda *_, code=code, **__: SimpleNamespace(returncode=code)
        )
        with (
            pytest.raises(ConfigError, match="their instructions end the program")
            if code
            else nullcontext()
        ):
            check_precision(TrainConfig(precision="bfloat16"), CPU)
    devices._multiplies.cache_clear()


def test_emulated_precision_and_unknown_devices_are_refused():
    with pytest.raises(ConfigError, match="no float16 units"):
        check_precision(TrainConfig(precision="float16"), CPU)
    with pytest.raises(ConfigError, match="'gpu17' cannot be used"):
        find_device("gpu17")
    assert find_device("cpu") == CPU


def test_out_of_memory_says_what_to_lower():
    class Huge(Toy):
        def loss(self, *arguments):
            torch.empty(1 << 50)
            return super().loss(*arguments)

    with pytest.raises(TrainingError, match=r"not enough memory .* lower batch_size"):
        run(Huge())
