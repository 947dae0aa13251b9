"""Truncation, the shares of the steps, clipping."""

import numpy as np
import pytest

from seqloom.reference import (
    chunks,
    clip_by_norm,
    recurrent_shares,
    recurrent_shares_by_loss,
    relative_error,
    truncated_bptt,
)
from tests.reference.cells import CELLS, H, data, make


def weighted(weights):
    """A loss that is a weighted sum of the states."""
    return lambda h, steps: (float((weights[:, steps] * h).sum()), weights[:, steps])


@pytest.fixture(params=CELLS)
def case(request):
    cell = make(request.param)
    x, start = data(cell, steps=7)
    return cell, x, start, np.random.default_rng(9).normal(size=(2, 7, H))


def test_within_a_chunk_it_is_full_bptt(case):
    """Each chunk's gradient is that of the chunk alone, from the state that was carried; and states
    are exact.
    """
    cell, x, start, weights = case
    whole = cell.forward(x, start)
    state = start
    seen = []
    for chunk in truncated_bptt(cell, x, weighted(weights), length=3, state=start):
        alone = cell.forward(x[:, chunk.steps], state)
        expected = cell.backward(alone, weights[:, chunk.steps])
        for key, value in expected.params.items():
            np.testing.assert_array_equal(chunk.gradients.params[key], value)
        np.testing.assert_array_equal(chunk.trace.h, whole.h[:, chunk.steps])
        state = chunk.trace.last
        seen.append((chunk.steps.start, chunk.steps.stop))
    assert seen == [(0, 3), (3, 6), (6, 7)]


def test_one_chunk_is_the_whole(case):
    cell, x, start, weights = case
    full = cell.backward(cell.forward(x, start), weights)
    (chunk,) = truncated_bptt(cell, x, weighted(weights), length=7, state=start)
    np.testing.assert_array_equal(chunk.gradients.params["w_h"], full.params["w_h"])


def test_what_truncation_drops_is_the_error_at_the_border(case):
    """Handing each chunk's `start` gradient to the chunk before gives full BPTT; without, something
    is missing.
    """
    cell, x, start, weights = case
    full = cell.backward(cell.forward(x, start), weights).params
    cut = list(truncated_bptt(cell, x, weighted(weights), length=3, state=start))
    truncated = {key: sum(chunk.gradients.params[key] for chunk in cut) for key in full}
    assert relative_error(truncated["w_h"], full["w_h"]) > 1e-3

    handed = {key: np.zeros_like(value) for key, value in full.items()}
    error = None
    for chunk in reversed(cut):
        grads = cell.backward(chunk.trace, weights[:, chunk.steps], error)
        error = grads.start
        for key in handed:
            handed[key] += grads.params[key]
    for key, value in full.items():
        np.testing.assert_allclose(handed[key], value, rtol=1e-10, atol=1e-13)


def test_truncation_with_padding():
    cell = make("lstm")
    x, start = data(cell, steps=7)
    mask = np.arange(7) < np.array([[7], [4]])
    weights = np.where(mask[..., None], 1.0, 0.0) * np.ones((2, 7, H))
    *_, last = truncated_bptt(cell, x, weighted(weights), length=3, state=start, mask=mask)
    np.testing.assert_array_equal(last.trace.last[1], cell.forward(x, start, mask).last[1])


def test_parameters_may_change_between_chunks():
    """As in training: the second chunk runs with the updated weights, from the state that the old
    ones left.
    """
    cell = make("gru-keep-after")
    x, start = data(cell, steps=6)
    weights = np.ones((2, 6, H))
    carried = cell.forward(x[:, :3], start).last
    for chunk in truncated_bptt(cell, x, weighted(weights), length=3, state=start):
        last = chunk.trace.h
        if chunk.steps.stop == 3:
            for key, grad in chunk.gradients.params.items():
                cell.params[key] -= 0.1 * grad
    np.testing.assert_array_equal(last, cell.forward(x[:, 3:], carried).h)


def test_shares_add_up_to_the_gradient(case):
    cell, x, start, weights = case
    trace = cell.forward(x, start)
    grads = cell.backward(trace, weights)
    shares = recurrent_shares(trace, grads)
    assert shares.shape == (7, *cell.params["w_h"].shape)
    np.testing.assert_allclose(shares.sum(axis=0), grads.params["w_h"], rtol=1e-10, atol=1e-13)


def test_the_share_of_a_step_is_the_gradient_of_the_matrix_used_there(case):
    """Against finite differences: w_h is changed at step 3 only."""
    cell, x, start, weights = case
    trace = cell.forward(x, start)
    share = recurrent_shares(trace, cell.backward(trace, weights))[3]
    untouched = cell.params["w_h"]

    def loss(change):
        before = cell.forward(x[:, :3], start)
        cell.params = {**cell.params, "w_h": untouched + change}
        at = cell.forward(x[:, 3:4], before.last)
        cell.params = {**cell.params, "w_h": untouched}
        after = cell.forward(x[:, 4:], at.last)
        h = np.concatenate([before.h, at.h, after.h], axis=1)
        return float((weights * h).sum())

    rng = np.random.default_rng(0)
    for _ in range(4):
        direction = rng.normal(size=untouched.shape)
        numeric = (loss(1e-5 * direction) - loss(-1e-5 * direction)) / 2e-5
        assert (share * direction).sum() == pytest.approx(numeric, rel=1e-6, abs=1e-9)


def test_the_double_sum(case):
    """Over t and over k <= t; the first term alone (k = 1) is not the gradient."""
    cell, x, start, weights = case
    trace = cell.forward(x, start)
    grads = cell.backward(trace, weights)
    table = recurrent_shares_by_loss(cell, trace, weights)
    assert table.shape == (7, 7, *cell.params["w_h"].shape)
    for t in range(7):
        assert not table[t, t + 1 :].any()
        assert table[t, t].any()
    np.testing.assert_allclose(
        table.sum(axis=0), recurrent_shares(trace, grads), rtol=1e-9, atol=1e-12
    )
    assert relative_error(table[:, 0].sum(axis=0), grads.params["w_h"]) > 0.1


def test_chunks_cover_the_text():
    assert chunks(20, 10) == [slice(0, 10), slice(10, 20)]
    assert chunks(3, 10) == [slice(0, 3)]
    assert chunks(0, 10) == []
    with pytest.raises(ValueError, match="at least one"):
        chunks(20, 0)


def test_clipping_scales_all_alike_and_leaves_small_ones():
    gradients = {"a": np.array([2.0, 10.0]), "b": np.array([[11.0]])}  # norm 15
    clipped, scale = clip_by_norm(gradients, 5.0)
    assert scale == pytest.approx(1 / 3)
    np.testing.assert_allclose(clipped["b"], 11 / 3)
    assert np.sqrt(sum((g**2).sum() for g in clipped.values())) == pytest.approx(5.0)
    same, scale = clip_by_norm(gradients, 15.0)
    assert scale == 1.0
    np.testing.assert_array_equal(same["a"], gradients["a"])
