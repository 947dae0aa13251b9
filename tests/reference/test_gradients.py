"""Backward passes against finite differences, in float64; and that the check would notice."""

import numpy as np
import pytest

from seqloom.reference import (
    LSTM,
    RNN,
    Output,
    check_gradients,
    cross_entropy,
    numerical_gradient,
    relative_error,
)
from seqloom.reference.sequences import ACTIVATIONS
from tests.reference.cells import CELLS, D, H, data, make

MASK = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0]], bool)  # padding at the end, and a gap


@pytest.mark.parametrize("padding", [None, MASK], ids=["whole", "padded"])
@pytest.mark.parametrize("name", CELLS)
def test_backward_agrees_with_finite_differences(name, padding):
    cell = make(name)
    x, state = data(cell)
    errors = check_gradients(cell, x, state, padding)
    assert set(errors) == {*cell.params, "x", "h", *(["c"] if name == "lstm" else [])}
    assert max(errors.values()) < 1e-6, errors


@pytest.mark.parametrize("name", CELLS)
def test_gradients_have_the_shape_of_what_they_belong_to(name):
    cell = make(name)
    x, state = data(cell)
    trace = cell.forward(x, state)
    grads = cell.backward(trace, np.ones_like(trace.h))
    assert {k: v.shape for k, v in grads.params.items()} == {
        k: v.shape for k, v in cell.params.items()
    }
    assert grads.x.shape == x.shape
    assert [part.shape for part in grads.start] == [part.shape for part in state]
    assert [part.shape for part in grads.states] == [trace.h.shape] * len(state)


@pytest.mark.parametrize("name", CELLS)
def test_the_error_on_its_way_back_is_the_gradient_of_each_state(name):
    """`states` at step t is the gradient of the rest of the sequence with respect to the state that
    it starts from.
    """
    cell = make(name)
    x, state = data(cell)
    weights = np.random.default_rng(5).normal(size=(2, 5, H))
    trace = cell.forward(x, state)
    grads = cell.backward(trace, weights)
    middle = tuple(part[:, 1].copy() for part in trace.state)

    def loss():
        """From step 2 on, with the state after step 1 free; that step's own loss is on its h."""
        return float(
            (weights[:, 2:] * cell.forward(x[:, 2:], middle).h).sum()
            + (weights[:, 1] * middle[0]).sum()
        )

    parts = [numerical_gradient(loss, part) for part in middle]
    if name == "lstm":  # h_t depends on c_t too
        parts[1] += parts[0] * trace.o[:, 1] * (1 - trace.squashed[:, 1] ** 2)
    for got, expected in zip(grads.states, parts, strict=True):
        np.testing.assert_allclose(got[:, 1], expected, rtol=1e-6, atol=1e-9)


def test_the_check_notices_a_wrong_backward(monkeypatch):
    """Without the slope, and with the gate order swapped."""
    rnn = make("rnn-tanh")
    monkeypatch.setitem(ACTIVATIONS, "tanh", ACTIVATIONS["tanh"]._replace(slope=np.ones_like))
    assert max(check_gradients(rnn, *data(rnn)).values()) > 0.1
    lstm = make("lstm")
    right = LSTM.backward
    monkeypatch.setattr(
        LSTM, "backward", lambda self, trace, *rest: right(self, trace._replace(i=trace.f), *rest)
    )
    assert max(check_gradients(lstm, *data(lstm)).values()) > 0.01


def test_finite_differences_refuse_float32():
    cell = RNN(
        {
            "w_x": np.ones((H, D), np.float32),
            "w_h": np.ones((H, H), np.float32),
            "b": np.ones(H, np.float32),
        }
    )
    with pytest.raises(ValueError, match="need float64"):
        check_gradients(cell, *data(cell))


def test_output_layer_and_cross_entropy():
    rng = np.random.default_rng(0)
    h, ids = rng.normal(size=(2, 3, H)), rng.integers(0, 5, (2, 3))
    mask = np.array([[1, 1, 1], [1, 1, 0]], bool)
    output = Output({"w_y": rng.normal(size=(5, H)), "b_y": rng.normal(size=5)})
    y = output.forward(h)
    loss, grad_y = cross_entropy(y, ids, mask)
    by_hand = -sum(
        np.log(np.exp(y[b, t, ids[b, t]]) / np.exp(y[b, t]).sum())
        for b, t in zip(*np.nonzero(mask))
    )
    assert loss == pytest.approx(by_hand)
    params, grad_h = output.backward(h, grad_y)
    for array, grad in ((h, grad_h), *((output.params[name], params[name]) for name in params)):
        assert (
            relative_error(
                grad,
                numerical_gradient(lambda: cross_entropy(output.forward(h), ids, mask)[0], array),
            )
            < 1e-6
        )


def test_two_layers_chain():
    """The gradient of the upper layer's input is what the lower layer is asked for."""
    lower, x = make("gru-keep-after"), data(make("lstm"))[0]
    upper = LSTM(
        {
            "w_x": np.random.default_rng(3).normal(size=(4 * H, H)),
            **{k: make("lstm").params[k] for k in ("w_h", "b")},
        }
    )
    weights = np.random.default_rng(4).normal(size=(2, 5, H))
    below = lower.forward(x)
    above = upper.forward(below.h)
    grads = lower.backward(below, upper.backward(above, weights).x)
    numeric = numerical_gradient(
        lambda: float((weights * upper.forward(lower.forward(x).h).h).sum()), lower.params["w_h"]
    )
    assert relative_error(grads.params["w_h"], numeric) < 1e-6
