"""What the log of a run holds besides losses: gradient norms by layer, clipped steps, gates; it costs
no bit of the result, and a resumed run logs what an uninterrupted one does.
"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from seqloom.errors import TrainingError
from seqloom.nn.recurrent import RecurrentStack
from seqloom.training import loop
from seqloom.training.checkpoint import Run, read_log
from seqloom.training.config import TrainConfig
from seqloom.training.update import Clipper, Updater, layer_of
from tests.training.test_engine import CPU, Toy, run, same, weights


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.vectors, self.out = nn.Embedding(6, 4), nn.Linear(8, 6)
        self.stack = RecurrentStack(4, 8, 2, cell="gru", dropout=0.3)

    def forward(self, ids, state):
        x, state = self.stack(self.vectors(ids), state)
        return self.out(x), state


class Recurrent(Toy):
    """The toy with our own layers."""

    def build(self):
        return Net()

    def loss(self, network, batch, state):
        self.calls += 1
        if self.calls == self.fail_at:
            raise RuntimeError("pulled the plug")
        logits, state = network(batch["inputs"], state)
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch["targets"].flatten(), reduction="sum"
        )
        return loss, state


def lines_of(place):
    """The log without what depends on the clock."""
    return [
        {k: v for k, v in line.items() if k not in ("seconds", "tokens_per_s")}
        for line in read_log(place)
    ]


def test_a_look_costs_no_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "APART", 3)
    looked = run(Recurrent(valid=True), place=tmp_path / "looked")
    monkeypatch.setattr(loop._Loop, "_watches", lambda self: False)
    blind = run(Recurrent(valid=True), place=tmp_path / "blind")
    assert same(weights(looked), weights(blind))
    assert looked.valid == blind.valid
    plain = [
        {k: v for k, v in line.items() if not k.startswith(("closed", "open", "satur", "reach"))}
        for line in lines_of(tmp_path / "looked")
    ]
    assert plain == lines_of(tmp_path / "blind")
    found = [line for line in lines_of(tmp_path / "looked") if "reach.stack.1" in line]
    assert found[-1]["step"] == 12
    assert 2 <= len(found) <= loop.WATCHES + 1
    monkeypatch.undo()
    run(Recurrent(valid=True), place=tmp_path / "short")  # too short for more than the last look
    assert [line["step"] for line in lines_of(tmp_path / "short") if "reach.stack.1" in line] == [
        12
    ]
    assert {"open.stack.layers.1.gates.z", "saturated.stack.layers.0.gates.n"} <= found[-1].keys()


def test_a_resumed_run_logs_the_same(tmp_path, monkeypatch):
    """Also what is summed between two reports: the plug is pulled between them."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(loop, "REPORTS", 4)
    options = {"steps": 12, "clip_at": 0.3}
    run(Recurrent(valid=True), place=tmp_path / "whole", **options)
    with pytest.raises(RuntimeError, match="plug"):
        run(Recurrent(valid=True, fail_at=9), place=tmp_path / "cut", **options)
    assert Run(tmp_path / "cut").load()[1]["step"] % 3  # not at a report
    run(Recurrent(valid=True), place=tmp_path / "cut", **options)
    assert lines_of(tmp_path / "cut") == lines_of(tmp_path / "whole")
    assert any(line["clipped"] > 0 for line in lines_of(tmp_path / "whole") if "clipped" in line)


def test_norms_by_layer_are_those_of_the_gradient():
    task = Recurrent()
    updater = Updater(task, TrainConfig(steps=1, lr=0.0, clip="none", optimizer="sgd"), CPU)
    grads = {}
    for name, weight in updater.network.named_parameters():
        weight.register_post_accumulate_grad_hook(
            lambda w, name=name: grads.__setitem__(name, w.grad.numpy().copy())
        )
    norm = updater.update(0, 1, 0.0).norm
    found = updater.clipper.by_layer()
    assert list(found) == ["vectors", "out", "stack.layers.0", "stack.layers.1"]
    for layer, value in found.items():
        own = [grad for name, grad in grads.items() if layer_of(name) == layer]
        assert value == pytest.approx(math.sqrt(sum((g**2).sum() for g in own)), rel=1e-5)
    assert norm == pytest.approx(math.sqrt(sum(v**2 for v in found.values())), rel=1e-5)
    assert Clipper(TrainConfig()).by_layer() == {}  # before the first update


@pytest.mark.parametrize(("limit", "share"), [(1e-3, 1.0), (1e3, 0.0)])
def test_clipped_steps_and_the_largest_norm(limit, share, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "REPORTS", 3)
    report = run(place=tmp_path / "r", clip_at=limit)
    lines = read_log(tmp_path / "r")
    assert [line["step"] for line in lines] == [4, 8, 12]
    assert {line["clipped"] for line in lines} == {share} == {report.facts["clipped"]}
    assert all(line["largest_norm"] >= line["norm"] > 0 for line in lines)
    assert [line["epochs"] for line in lines] == sorted(line["epochs"] for line in lines)
    assert lines[-1]["epochs"] == pytest.approx(report.facts["epochs"], abs=1e-3)


def test_the_share_between_reports_is_that_of_the_steps_between(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "REPORTS", 3)
    norms = []
    call = Clipper.__call__
    monkeypatch.setattr(Clipper, "__call__", lambda *a: norms.append(call(*a)) or norms[-1])
    run(place=tmp_path / "free", clip="none")
    limit = float(np.median(norms))
    norms.clear()
    run(place=tmp_path / "r", clip_at=limit)
    for number, line in enumerate(read_log(tmp_path / "r")):
        part = norms[4 * number : 4 * number + 4]
        assert line["clipped"] == sum(norm > limit for norm in part) / 4
        assert line["largest_norm"] == pytest.approx(max(part), abs=1e-4)


def test_why_a_run_broke_off_is_in_its_log(tmp_path):
    class Bad(Toy):
        def loss(self, *arguments):
            loss, state = super().loss(*arguments)
            return (loss * math.nan if self.calls == 6 else loss), state

    with pytest.raises(TrainingError, match="at step 6 the loss is nan"):
        run(Bad(), place=tmp_path / "r")
    last = read_log(tmp_path / "r")[-1]
    assert (last["step"], last["diverged"]) == (6, "the loss is nan")
