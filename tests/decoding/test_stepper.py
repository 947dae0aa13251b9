from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding.stepper import join, prefill, select

from .toy import Attentive, Bigrams, log_probs_after, random_bigrams


def test_select_copies_every_leaf():
    state = (np.arange(3), (np.arange(6.0).reshape(3, 2), ()))
    taken = select(state, np.array([0, 1, 2]))
    taken[0][:] = -1
    taken[1][0][:] = -1
    assert state[0].tolist() == [0, 1, 2]
    assert state[1][0].ravel().tolist() == [0, 1, 2, 3, 4, 5]


def test_select_keeps_named_tuples_and_order():
    pair = namedtuple("pair", "a b")
    taken = select(pair(np.array([5, 6, 7]), np.array([[1], [2], [3]])), np.array([2, 0, 2]))
    assert taken.a.tolist() == [7, 5, 7]
    assert taken.b.tolist() == [[3], [1], [3]]


def test_join_pads_on_the_right():
    short, long = (
        (np.ones((1, 2), np.int32), np.array([2])),
        (np.full((2, 3), 4, np.int32), np.array([3, 3])),
    )
    joined, lengths = join([short, long])
    assert joined.tolist() == [[1, 1, 0], [4, 4, 4], [4, 4, 4]]
    assert joined.dtype == np.int32
    assert lengths.tolist() == [2, 3, 3]


def test_join_lets_tensors_make_their_own_kind():
    class Tensor(np.ndarray):
        def new_zeros(self, shape):
            return np.zeros(shape, self.dtype).view(Tensor)

    joined = join([np.ones((1, 1)).view(Tensor), np.ones((1, 2)).view(Tensor)])
    assert type(joined) is Tensor
    assert joined.tolist() == [[1, 0], [1, 1]]


def test_torch_leaves():
    torch = pytest.importorskip("torch")
    leaf = torch.arange(6.0).reshape(3, 2)
    taken = select((leaf,), np.array([2, 0])[::-1])[0]
    assert taken.tolist() == [[0, 1], [4, 5]]
    taken += 1
    assert leaf.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert join([(leaf,), (torch.ones(1, 3),)])[0].tolist() == [
        [0, 1, 0],
        [2, 3, 0],
        [4, 5, 0],
        [1, 1, 1],
    ]


prompts_of_five = st.lists(st.lists(st.integers(0, 4), max_size=6), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(prompts_of_five, st.integers(0, 4))
def test_prefill_equals_one_row_at_a_time(prompts, following):
    stepper = Attentive(5, seed=1)
    state, log_probs = prefill(stepper, [np.array(p, np.int64) for p in prompts])
    assert log_probs.dtype == np.float32
    assert (log_probs == [log_probs_after(stepper, p) for p in prompts]).all()
    ids = np.full(len(prompts), following)
    _, log_probs = stepper.step(state, ids)  # the states are right as well
    assert (log_probs == [log_probs_after(stepper, [*p, following]) for p in prompts]).all()


def test_prefill_of_nothing():
    stepper = random_bigrams(4)
    _, log_probs = prefill(stepper, [])
    assert log_probs.shape == (0, 4)


def test_prefill_does_not_step_rows_that_have_ended():
    stepper = random_bigrams(4)
    prefill(stepper, [np.array([1, 2, 3]), np.array([1])])
    assert stepper.tokens_stepped == 4


def test_own_prefill_is_used():
    class Quick(Bigrams):
        def prefill(self, prompts):
            last = np.array([p[-1] for p in prompts])
            return (last,), self.table[last] - 1

    stepper = Quick(np.full((3, 2), 0.5))
    _, log_probs = prefill(stepper, [np.array([0, 1])])
    assert log_probs[0] == pytest.approx(np.log(0.5) - 1)
    assert stepper.tokens_stepped == 0


@pytest.mark.parametrize("prompt", [[4], [-1], [[1]]])
def test_bad_prompts_are_refused(prompt):
    with pytest.raises(ValueError, match="prompt 1"):
        prefill(random_bigrams(4), [np.array([0]), np.array(prompt)])
