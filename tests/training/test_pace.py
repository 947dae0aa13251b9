"""Runs of so many minutes end in time, whatever the machine does meanwhile, and can be repeated."""

import pytest

from seqloom.training.pace import TOLERANCE, Pace
from seqloom.training.trainable import DECAY


def run_through(pace, duration, evaluation=0.0):
    """Let a run go through whose step number s takes duration(s, seconds spent) seconds; return its steps."""
    step = 0
    while not pace.ends(step):
        step += 1
        pace.stepped(step, duration(step, pace.spent))
        if step % pace.evaluate_every == 0:
            pace.evaluated(evaluation)
    return step


def test_a_steady_machine_ends_in_time_with_the_whole_decay():
    pace = Pace(60, 25)
    steps = run_through(pace, lambda step, spent: 0.1, evaluation=0.5)
    ((begin, end),) = pace.plan
    assert steps == end
    assert end - begin == pytest.approx(DECAY * steps, abs=2)
    assert pace.spent + pace.evaluation == pytest.approx(60, abs=1)


@pytest.mark.parametrize("when", [0.1, 0.3, 0.49, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("factor", [0.25, 0.5, 2, 4])
def test_a_machine_that_changes_ends_in_time(when, factor):
    pace = Pace(60, 25)
    run_through(
        pace, lambda step, spent: 0.1 if spent < 60 * when else 0.1 * factor, evaluation=0.2
    )
    assert 60 * (1 - TOLERANCE) - 0.5 <= pace.spent <= 60 * (1 + TOLERANCE) + 0.5


def test_a_change_before_the_decay_moves_the_decay():
    pace = Pace(60, 25)
    steps = run_through(pace, lambda step, spent: 0.1 if spent < 10 else 0.2)
    ((begin, end),) = pace.plan
    assert end == steps
    assert end - begin == pytest.approx(DECAY * steps, rel=0.1)


def test_a_change_in_the_decay_changes_its_end_a_few_times():
    pace = Pace(60, 25)
    steps = run_through(pace, lambda step, spent: 0.1 if spent < 40 else 0.2)
    assert 2 <= len(pace.plan) < 10
    assert pace.plan[0][1] > pace.plan[-1][1] == steps


def test_the_first_evaluation_may_be_the_last():
    """It is counted as it was timed before the run."""
    pace = Pace(60, 10_000, evaluation=12.0)
    run_through(pace, lambda step, spent: 0.1)
    assert pace.spent + 12.0 == pytest.approx(60, abs=1)


def test_a_run_without_decay_ends_once():
    pace = Pace(10, 5, decays=False, evaluation=4.0)
    steps = run_through(pace, lambda step, spent: 0.5, evaluation=4.0)
    pace.evaluated(0.1)  # which would have left time for more
    assert pace.left > 0
    assert pace.ends(steps)


def test_evaluations_are_part_of_the_time():
    pace = Pace(60, 10)
    run_through(pace, lambda step, spent: 0.1, evaluation=1.0)
    assert pace.spent + pace.evaluation == pytest.approx(60, abs=1.5)


def test_without_a_decay_it_ends_when_the_time_does():
    pace = Pace(60, 25, decays=False)
    steps = run_through(pace, lambda step, spent: 0.1)
    assert steps == pytest.approx(600, abs=1)
    assert pace.plan == [(steps, steps)]  # an end, and no step of a decay


def test_a_state_goes_on_to_the_same_decisions():
    def durations(step, spent):
        return 0.1 + 0.05 * (step % 7) * (step > 150)

    whole, first, second = Pace(60, 25), Pace(60, 25), Pace(60, 25)
    steps = run_through(whole, durations)
    for step in range(1, 201):
        first.stepped(step, durations(step, 0))
    second.restore(first.state())
    for step in range(201, steps + 1):
        assert not second.ends(step - 1)
        second.stepped(step, durations(step, 0))
    assert second.ends(steps)
    assert second.state() == whole.state()
