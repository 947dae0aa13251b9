"""The worked examples of the text that this package teaches from, with its errors corrected.

The text's own rule for the backward pass is here too, as something to be told apart from the right one.
"""

import numpy as np
import pytest

from seqloom.reference import (
    LSTM,
    RNN,
    Output,
    chunks,
    clip_by_norm,
    count_parameters,
    init_params,
    numerical_gradient,
    padding_mask,
    relative_error,
    squared_error,
)

X = np.array([[[1.0, 0, 1], [0, 1, 0], [1, 1, 0]]])  # (1, 3, 3); the text gives only the first step
TARGET = np.ones((1, 3, 1))


@pytest.fixture
def net():
    cell = RNN(
        {
            "w_x": np.array([[0.4, 0.5, 0.6], [0.7, 0.8, 0.9]]),
            "w_h": np.array([[0.1, 0.2], [0.3, 0.1]]),
            "b": np.array([0.1, 0.1]),
        }
    )
    return cell, Output({"w_y": np.array([[0.5, 0.5]]), "b_y": np.array([0.1])})


def test_forward_of_the_first_step(net):
    cell, output = net
    trace = cell.forward(X)
    np.testing.assert_allclose(trace.a[0, 0], [1.1, 1.7])
    np.testing.assert_allclose(trace.h[0, 0], [0.8005, 0.9354], atol=5e-5)
    y = output.forward(trace.h)
    assert y[0, 0, 0] == pytest.approx(0.96795, abs=5e-6)
    assert squared_error(y[:, :1], TARGET[:, :1])[0] == pytest.approx(0.001027, abs=5e-7)


def test_error_at_the_last_step(net):
    """y_3 = 0.85 for a target of 1; nothing arrives from a step after the last one."""
    cell, output = net
    _, grad_y = squared_error(np.array([[[0.0], [0.0], [0.85]]]), TARGET)
    assert grad_y[0, 2, 0] == pytest.approx(-0.3)
    trace = cell.forward(X)
    _, grad_h = output.backward(trace.h, grad_y)
    grads = cell.backward(trace, grad_h)
    np.testing.assert_allclose(grads.states[0][0, 2], [-0.15, -0.15])


def text_rule(cell, trace, grad_h, slope_of):
    """The rule as printed: no slope in the sums, and, in one of two places, the slope of the wrong step."""
    w_h = cell.params["w_h"]
    wrong = {key: np.zeros_like(value) for key, value in cell.params.items()}
    later = np.zeros(2)
    for t in reversed(range(3)):
        slope = 1 - trace.h[0, min(t + slope_of, 2)] ** 2
        error = grad_h[0, t] + w_h.T @ (later * slope)
        wrong["w_h"] += np.outer(error, trace.h_before[0, t])
        wrong["w_x"] += np.outer(error, trace.x[0, t])
        wrong["b"] += error
        later = error
    return wrong


def test_our_rule_is_right_and_the_printed_one_is_not(net):
    cell, output = net

    def loss():
        return squared_error(output.forward(cell.forward(X).h), TARGET)[0]

    trace = cell.forward(X)
    _, grad_y = squared_error(output.forward(trace.h), TARGET)
    output_grads, grad_h = output.backward(trace.h, grad_y)
    ours = cell.backward(trace, grad_h).params
    for params, grads in ((cell.params, ours), (output.params, output_grads)):
        for key, grad in grads.items():
            assert relative_error(grad, numerical_gradient(loss, params[key])) < 1e-8, key
    for slope_of in (0, 1):  # the step whose slope the text takes, in its two versions
        printed = text_rule(cell, trace, grad_h, slope_of)
        wrong_by = {
            key: np.linalg.norm(printed[key] - ours[key]) / np.linalg.norm(ours[key])
            for key in ours
        }
        assert wrong_by["w_h"] == pytest.approx(1.47, abs=0.005)
        assert wrong_by["b"] == pytest.approx((1.64, 1.75)[slope_of], abs=0.005)
        assert wrong_by["w_x"] == pytest.approx((1.59, 1.68)[slope_of], abs=0.005)


def test_counts():
    assert count_parameters("lstm", 100, 256) == 365_568
    assert count_parameters("gru", 100, 256) == 274_176
    assert count_parameters("lstm", 100, 256, biases="two") == 366_592
    assert count_parameters("gru", 100, 256, biases="two") == 274_944
    assert count_parameters("lstm", 100, 256, biases="none") == 364_544
    assert count_parameters("gru", 100, 256, biases="none") == 273_408
    assert count_parameters("lstm", 300, 512) == 1_665_024
    assert count_parameters("lstm", 200, 128) == 168_448
    assert count_parameters("lstm", 7, 5) == 4 * count_parameters("rnn", 7, 5)


@pytest.mark.parametrize(
    ("kind", "reset", "more"),
    [("rnn", "after", 0), ("lstm", "after", 0), ("gru", "before", 0), ("gru", "after", 256)],
)
def test_counts_are_those_of_the_arrays(kind, reset, more):
    params = init_params(kind, 100, 256, reset=reset)
    assert sum(array.size for array in params.values()) == count_parameters(kind, 100, 256) + more


def test_shape_of_a_gate():
    """300 in, 512 hidden: each gate reads 812 numbers."""
    params = init_params("lstm", 300, 512)
    assert np.concatenate([params["w_h"][:512], params["w_x"][:512]], axis=1).shape == (512, 812)


def test_forget_bias_is_one_once():
    b = init_params("lstm", 3, 4)["b"]
    assert b.tolist() == [0] * 4 + [1] * 4 + [0] * 8


def test_clip_masks_and_chunks():
    assert clip_by_norm({"w": np.array([15.0])}, 5.0)[1] == pytest.approx(1 / 3)
    assert ["".join(str(int(m)) for m in row) for row in padding_mask([5, 3, 4])] == [
        "11111",
        "11100",
        "11110",
    ]
    assert [(c.start + 1, c.stop) for c in chunks(20, 10)] == [(1, 10), (11, 20)]


@pytest.mark.parametrize(("weight", "left"), [(0.5, 9.77e-4), (1.5, 57.665)])
def test_ten_steps_of_a_factor(weight, left):
    """What is left of the error after ten steps of a linear network."""
    cell = RNN(
        {"w_x": np.zeros((1, 1)), "w_h": np.array([[weight]]), "b": np.zeros(1)}, activation="relu"
    )
    trace = cell.forward(np.zeros((1, 10, 1)), (np.ones((1, 1)),))
    grads = cell.backward(trace, np.zeros((1, 10, 1)), (np.ones((1, 1)),))
    assert grads.start[0].item() == pytest.approx(left, rel=1e-3)
    assert grads.start[0].item() == pytest.approx(weight**10)


@pytest.mark.parametrize("input_gate", [-20.0, 0.0])
def test_a_thousand_steps_along_the_cell(input_gate):
    """A forget gate of 0.99 leaves 0.99^1000, whether or not the input gate is closed."""
    params = {
        "w_x": np.ones((4, 1)),
        "w_h": np.zeros((4, 1)),
        "b": np.array([input_gate, np.log(99.0), 0.0, 0.0]),
    }
    params["w_x"][1] = 0  # the forget gate does not look at the input
    cell = LSTM(params)
    trace = cell.forward(np.random.default_rng(0).normal(size=(1, 1000, 1)))
    np.testing.assert_allclose(trace.f, 0.99)
    grads = cell.backward(trace, np.zeros((1, 1000, 1)), (np.zeros((1, 1)), np.ones((1, 1))))
    assert grads.start[1].item() == pytest.approx(4.317e-5, rel=1e-3)
    assert grads.start[1].item() == pytest.approx(np.prod(trace.f))
