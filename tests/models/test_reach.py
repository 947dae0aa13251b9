"""The ladder of lags: who climbs, how the time is shared, what is kept; and its tasks."""

import numpy as np
import pytest

from seqloom.models.network.reach import Kept, Rung, Setting, climb, compare_orders

LAGS = (5, 10, 20)


class Learner:
    """Learns up to a lag that the encoder's name says; each rung takes a second of its own clock."""

    def __init__(self, seconds=1.0):
        self.now, self.seconds, self.calls = 0.0, seconds, []

    def clock(self):
        return self.now

    def __call__(self, setting, lag, until, weights, begun):
        self.calls.append((setting.encoder, lag, None if weights is None else int(weights["lag"])))
        if self.now >= until:
            return Rung(lag, 0.0, 0, "time"), None
        self.now = min(self.now + self.seconds, until)
        if self.now >= until and self.seconds > 1:
            return Rung(lag, 0.1, 1, "time"), None
        learned = lag <= int(setting.encoder)
        return Rung(lag, float(learned), 1, "learned" if learned else "updates"), {
            "lag": np.array(lag)
        }


def test_each_goes_as_far_as_it_can_from_the_weights_below():
    learner = Learner()
    climbs = climb([Setting("10", "t"), Setting("99", "t"), Setting("0", "t")], LAGS, 5, learner,
                   clock=learner.clock)  # fmt: skip
    assert [(one.reach, one.ended) for one in climbs] == [
        (10, "updates"),
        (20, "learned"),
        (0, "updates"),
    ]
    assert learner.calls == [
        ("10", 5, None), ("99", 5, None), ("0", 5, None), ("10", 10, 5), ("99", 10, 5),
        ("10", 20, 10), ("99", 20, 10),
    ]  # fmt: skip


def test_the_minutes_are_a_promise():
    learner = Learner(seconds=50)
    climbs = climb(
        [Setting("99", "t", seed=i) for i in range(4)], LAGS, 1, learner, clock=learner.clock
    )
    assert learner.now <= 60
    assert {one.ended for one in climbs} == {"time"}


def test_who_is_cut_goes_on_with_the_time_that_others_leave():
    """A slow one needs two seconds at a lag, and its share is one."""
    calls, now = [], [0.0]

    def learn(setting, lag, until, weights, begun):
        calls.append((setting.encoder, lag, begun))
        needs = (2.0 if setting.encoder == "slow" else 0.1) - begun
        if now[0] + needs > until:
            made, now[0] = begun + until - now[0], until
            return Rung(lag, 0.1, made, "time"), {"made": np.array(made)}
        assert weights is None or lag > 5 or float(weights["made"]) == begun
        now[0] += needs
        return Rung(lag, 1.0, begun + needs, "learned"), {"made": np.array(0.0)}

    settings = [Setting("slow", "t"), *(Setting("quick", "t", seed=i) for i in range(2))]
    climbs = climb(settings, [5], 3 / 60, learn, clock=lambda: now[0])
    assert [one.reach for one in climbs] == [0, 5, 5]  # one second, and a third of what was left
    assert calls[-1] == ("slow", 5, pytest.approx(1.0))
    assert climbs[0].rungs[0].updates == pytest.approx(1 + 1.8 / 3)
    assert len(climbs[0].rungs) == 1
    now[0] = 0.0
    assert [one.reach for one in climb(settings, [5], 4.5 / 60, learn, clock=lambda: now[0])] == [
        5
    ] * 3


def test_what_is_finished_is_kept(tmp_path):
    learner, again = Learner(), Learner()
    settings = [Setting("10", "t"), Setting("99", "t")]
    first = climb(settings, LAGS[:2], 5, learner, kept=Kept(tmp_path), clock=learner.clock)
    file = tmp_path / "reach.jsonl"
    file.write_text(file.read_text() + '{"of": "cut o', encoding="utf-8")
    second = climb(settings, LAGS, 5, again, kept=Kept(tmp_path), clock=again.clock)
    assert again.calls == [("10", 20, 10), ("99", 20, 10)]  # nothing below is learned again
    assert [one.rungs[:2] for one in second] == [one.rungs for one in first]
    other = Learner()
    climb(settings, (5, 20), 5, other, kept=Kept(tmp_path), clock=other.clock)
    assert ("99", 20, 5) in other.calls  # of another ladder, whose lower rung is learned again
    assert ("99", 5, None) in other.calls


def test_the_order_is_told_where_it_holds_and_where_not():
    learner = Learner()
    climbs = climb([Setting("10", "a"), Setting("99", "a"), Setting("10", "b"), Setting("5", "b")], LAGS, 5,
                   learner, clock=learner.clock)  # fmt: skip
    holds, fails, still_open = compare_orders(climbs, "10", ["99"])
    assert holds == ["a with clipping, seed 0 (10 10, 99 20)"]
    assert fails == still_open == []
    assert compare_orders(climbs, "10", ["5"])[1] == ["b with clipping, seed 0 (10 10, 5 5)"]
    learner = Learner()
    cut = climb([Setting("10", "t"), Setting("99", "t")], LAGS, 0.01, learner, clock=learner.clock)
    assert [len(found) for found in compare_orders(cut, "10", ["99"])] == [0, 0, 1]


@pytest.mark.parametrize("lag", [1, 5, 50])
def test_the_tasks(lag):
    """What is asked for stands exactly `lag` steps before the answer."""
    pytest.importorskip("torch")
    from seqloom.models.network.reach_net import TASKS

    rng = np.random.default_rng(0)
    x, answers = TASKS["recall"].make(rng, 20, lag)
    assert x.shape == (20, lag + 1, 16)
    assert (x[:, 0].argmax(1) == answers[:, 0]).all()
    assert (x[:, 1:].argmax(2) >= 8).all()
    x, answers = TASKS["copying"].make(rng, 20, max(lag, 3))
    assert (x[:, :3].argmax(2) == answers).all()
    assert (x[:, -3:].argmax(2) == 9).all()
    x, answers = TASKS["adding"].make(rng, 20, lag)
    assert (x[..., 1].sum(1) == 2).all()
    np.testing.assert_allclose(((x[..., 0] + 0.5) * x[..., 1]).sum(1) - 1, answers[:, 0], atol=1e-6)


def test_a_rung_is_learned_and_repeats_itself():
    pytest.importorskip("torch")
    from seqloom.models.network.reach_net import TASKS, LagNet, learn

    setting = Setting("rnn", "recall", hidden=32)
    (rung, weights), (again, _) = (learn(setting, 5, np.inf) for _ in range(2))
    assert rung.ended == "learned"
    assert rung == again
    halves = learn(Setting("rnn", "recall", hidden=32, updates=10), 5, np.inf)
    begun = learn(Setting("rnn", "recall", hidden=32, updates=15), 5, np.inf, halves[1], 10)
    assert (halves[0].updates, begun[0].updates) == (10, 15)
    assert learn(setting, 5, 0.0, weights, 7)[0] == Rung(5, 0.0, 7, "time")
    network = LagNet(setting, TASKS["recall"])
    assert weights.keys() == network.state_dict().keys()
    bag, _ = learn(Setting("bag", "recall", hidden=32, updates=50), 5, np.inf)
    assert bag.ended == "updates"  # it sees the last token alone
    assert bag.score < 0.5


def test_without_a_forget_gate_a_cell_only_adds():
    torch = pytest.importorskip("torch")
    from seqloom.models.network.reach import WITHOUT_FORGETTING
    from seqloom.models.network.reach_net import TASKS, LagNet
    from seqloom.traces import Trace

    network = LagNet(Setting(WITHOUT_FORGETTING, "recall", hidden=16), TASKS["recall"])
    trace = Trace("*.f")
    network.encoder(torch.randn(2, 30, 16), trace=trace)
    assert (trace["layers.0.gates.f"] == 1).all()
    network(torch.randn(2, 30, 16)).sum().backward()
    gates = network.encoder.layers[0].w_h.grad.view(4, 16, 16)
    assert (gates[1] == 0).all()
    assert (gates[0] != 0).any()
