"""A token is drawn by inverting the cumulative distribution."""

import numpy as np
import pytest

from seqloom.kernels.parallel import TEAM, new_team
from seqloom.kernels.sampling import draw, draw_rows, rule_out_in
from tests.sharing import helped, shared_by


@pytest.mark.parametrize("size", [3, 256, 700])
def test_draw_inverts_the_distribution(size):
    rng = np.random.default_rng(size)
    logits = rng.normal(0, 3, size)
    log_probs = (logits - np.logaddexp.reduce(logits)).astype(np.float32)
    log_probs[size // 2] = -np.inf
    probs = np.exp(log_probs.astype(np.float64))
    probs /= probs.sum()
    border = np.cumsum(probs)
    for uniform in [0.0, *rng.random(200), 1 - 2**-53]:
        token = draw(log_probs, 1.0, 0, 1.0, uniform)
        assert probs[token] > 0
        assert border[token] > uniform - 1e-6
        assert border[token] - probs[token] < uniform + 1e-6


@pytest.mark.parametrize("size", [5, 256, 3000])
def test_rows_are_drawn_alike_by_one_thread_and_by_several(size):
    rng = np.random.default_rng(size)
    logits = rng.normal(0, 3, (9, size))
    log_probs = (logits - np.logaddexp.reduce(logits, axis=1)[:, None]).astype(np.float32)
    temperatures = np.array([0, 1, 1, 0.5, 2, 1, 1, 0.7, 1], np.float64)
    top_ks = np.array([0, 0, 3, 0, 2, 0, 0, 1, 0], np.int64)
    top_ps = np.array([1, 1, 1, 1, 0.9, 0.5, 1, 1, 1], np.float64)
    given = (log_probs, temperatures, top_ks, top_ps, rng.random(9))
    alone = [draw(*(values[row] for values in given)) for row in range(9)]
    assert alone[0] == log_probs[0].argmax()
    assert alone[7] == log_probs[7].argmax()
    assert draw_rows(*given, new_team()).tolist() == alone
    with shared_by(2):
        for ids in helped(lambda: draw_rows(*given, TEAM)):
            assert ids.tolist() == alone


def test_tokens_are_ruled_out_unless_nothing_else_is_left():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        given = rng.normal(size=(6, 7)).astype(dtype)
        given[1, [0, 1, 2, 4, 6]] = -np.inf  # only those that are to be ruled out are left
        given[2, [3, 5, 6]] = -np.inf
        rows, tokens = np.array([0, 1, 2, 4]), np.array([3, 5])
        found, expected = given.copy(), given.copy()
        rule_out_in(found, rows, tokens)
        for row in (0, 2, 4):
            expected[row, tokens] = -np.inf
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("size", [7, 1024, 3000])
def test_tokens_are_drawn_rightly_where_hardly_any_probability_is_left(size):
    """As where a model is sure of the end symbol, which is ruled out: e^-90 is 0 in what it sums."""
    log_probs = np.full(size, -np.inf, np.float32)
    log_probs[[size // 2, size - 1]] = -90, -91
    likelier = 1 / (1 + np.exp(-1))
    for uniform in (0.0, likelier - 1e-6, likelier + 1e-6, 1 - 2**-53):
        expected = size // 2 if uniform < likelier else size - 1
        assert draw(log_probs, 1.0, 0, 1.0, uniform) == expected


@pytest.mark.parametrize("temperature", [1e-3, 1e-306, 1e-308, 5e-324])
@pytest.mark.parametrize("size", [4, 3000])
def test_filters_hold_at_temperatures_near_zero(size, temperature):
    equal = np.full(size, -np.log(size), np.float32)
    drawn = {int(draw(equal, temperature, 2, 1.0, u)) for u in np.linspace(0, 0.999, 50)}
    assert drawn == {0, 1}
    equal[2] += 1e-4 if temperature == 1e-3 else 1.0
    assert draw(equal, temperature, 0, 0.0, 0.999) == 2
