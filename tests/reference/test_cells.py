"""The cells themselves: equations spelled out unit by unit, views, padding, conventions, bad input."""

import math

import numpy as np
import pytest

from seqloom.errors import ConfigError
from seqloom.reference import GRU, LSTM, RNN, init_params, padding_mask
from tests.reference.cells import CELLS, D, H, data, make


def s(a):
    return 1 / (1 + math.exp(-a))


def rows(params, gate, x, h, unit):
    """w_x x and w_h h, of one unit of one gate, by a plain loop."""
    row = gate * H + unit
    return (
        sum(params["w_x"][row, d] * x[d] for d in range(D)) + params["b"][row],
        sum(params["w_h"][row, k] * h[k] for k in range(H)),
    )


def one_step(name, cell, x, state):
    """The new state of one sequence, in scalars, from the equations of the papers."""
    p, h = cell.params, state[0]
    if name.startswith("rnn"):
        f = {"tanh": math.tanh, "sigmoid": s, "relu": lambda a: max(a, 0.0)}[cell.activation]
        return ([f(sum(rows(p, 0, x, h, u))) for u in range(H)],)
    if name == "lstm":
        i, f, o = ([s(sum(rows(p, gate, x, h, u))) for u in range(H)] for gate in (0, 1, 3))
        g = [math.tanh(sum(rows(p, 2, x, h, u))) for u in range(H)]
        c = [f[u] * state[1][u] + i[u] * g[u] for u in range(H)]
        return [o[u] * math.tanh(c[u]) for u in range(H)], c
    r, z = ([s(sum(rows(p, gate, x, h, u))) for u in range(H)] for gate in (0, 1))
    if cell.reset == "after":
        n = [
            math.tanh(rows(p, 2, x, h, u)[0] + r[u] * (rows(p, 2, x, h, u)[1] + p["b_h"][u]))
            for u in range(H)
        ]
    else:
        n = [math.tanh(sum(rows(p, 2, x, [r[k] * h[k] for k in range(H)], u))) for u in range(H)]
    if cell.update == "keep":
        return ([z[u] * h[u] + (1 - z[u]) * n[u] for u in range(H)],)
    return ([(1 - z[u]) * h[u] + z[u] * n[u] for u in range(H)],)


@pytest.mark.parametrize("name", CELLS)
def test_forward_is_the_equations_unit_by_unit(name):
    cell = make(name)
    x, start = data(cell)
    trace = cell.forward(x, start)
    for b in range(len(x)):
        state = tuple(part[b] for part in start)
        for t in range(x.shape[1]):
            state = one_step(name, cell, x[b, t], state)
            for got, expected in zip(trace.state, state, strict=True):
                np.testing.assert_allclose(got[b, t], expected, rtol=1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_padding_does_not_move_the_state(name):
    """A masked batch gives what each sequence gives alone, whatever stands in the padding."""
    cell = make(name)
    x, start = data(cell, batch=3, steps=5)
    lengths = [5, 3, 4]
    mask = padding_mask(lengths)
    x[~mask] = np.nan
    weights = np.where(mask[..., None], np.random.default_rng(0).normal(size=(3, 5, H)), 0)
    trace = cell.forward(x, start, mask)
    grads = cell.backward(trace, weights)
    total = {key: np.zeros_like(value) for key, value in cell.params.items()}
    for b, length in enumerate(lengths):
        alone = cell.forward(x[b : b + 1, :length], tuple(part[b : b + 1] for part in start))
        alone_grads = cell.backward(alone, weights[b : b + 1, :length])
        np.testing.assert_allclose(trace.h[b, :length], alone.h[0], rtol=1e-12)
        for got, expected in zip(trace.last, alone.last, strict=True):
            np.testing.assert_allclose(got[b], expected[0], rtol=1e-12)
        for got, expected in zip(grads.start, alone_grads.start, strict=True):
            np.testing.assert_allclose(got[b], expected[0], rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(grads.x[b, :length], alone_grads.x[0], rtol=1e-10, atol=1e-14)
        assert not grads.x[b, length:].any()
        for key in total:
            total[key] += alone_grads.params[key]
    for key, value in total.items():
        np.testing.assert_allclose(grads.params[key], value, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", CELLS)
def test_a_sequence_may_be_read_in_pieces(name):
    cell = make(name)
    x, start = data(cell)
    whole = cell.forward(x, start)
    first = cell.forward(x[:, :2], start)
    second = cell.forward(x[:, 2:], first.last)
    np.testing.assert_array_equal(np.concatenate([first.h, second.h], axis=1), whole.h)
    one = cell.step(x[:, 0], start, np.ones(2, bool))
    np.testing.assert_array_equal(one.h, whole.h[:, 0])


def test_four_gates_are_views_of_the_lstm():
    cell = make("lstm")
    x, start = data(cell)
    trace = cell.forward(x, start)
    pairs = [
        (trace.forget.gate, trace.f),
        (trace.forget.memory, trace.c_before),
        (trace.learn.gate, trace.i),
        (trace.learn.candidate, trace.g),
        (trace.remember.long_term, trace.c),
        (trace.use.gate, trace.o),
        (trace.use.short_term, trace.h),
        (trace.remember.kept, trace.forget.kept),
    ]
    assert all(a is b for a, b in pairs)
    np.testing.assert_array_equal(trace.c_before[:, 0], start[1])
    np.testing.assert_array_equal(trace.c_before[:, 1:], trace.c[:, :-1])
    np.testing.assert_allclose(trace.forget.kept, trace.f * trace.c_before)
    np.testing.assert_allclose(trace.learn.learnt, trace.i * trace.g)
    np.testing.assert_allclose(
        trace.remember.long_term, trace.remember.kept + trace.remember.learnt
    )
    np.testing.assert_allclose(
        trace.use.short_term, trace.use.gate * np.tanh(trace.remember.long_term)
    )


def test_a_forget_gate_of_seven_tenths_keeps_seven_tenths():
    params = init_params("lstm", D, H)
    for array in params.values():
        array[:] = 0
    params["b"][H : 2 * H] = math.log(0.7 / 0.3)
    trace = LSTM(params).forward(np.zeros((1, 1, D)), (np.zeros((1, H)), np.full((1, H), 2.0)))
    np.testing.assert_allclose(trace.forget.kept, 1.4)


@pytest.mark.parametrize("reset", ["after", "before"])
def test_the_two_updates_are_one_model_with_z_negated(reset):
    keep = make(f"gru-keep-{reset}")
    x, start = data(keep)
    turned = {key: value.copy() for key, value in keep.params.items()}
    unlike = GRU(turned, update="replace", reset=reset).forward(x, start).h
    assert np.abs(unlike - keep.forward(x, start).h).max() > 0.05
    for key in ("w_x", "w_h", "b"):
        turned[key][H : 2 * H] *= -1
    np.testing.assert_allclose(
        GRU(turned, update="replace", reset=reset).forward(x, start).h, keep.forward(x, start).h
    )


def test_the_two_resets_are_two_models():
    after = make("gru-keep-after")
    after.params["b_h"][:] = 0
    x, start = data(after)
    before = GRU(
        {key: value for key, value in after.params.items() if key != "b_h"}, reset="before"
    )
    assert np.abs(before.forward(x, start).h - after.forward(x, start).h).max() > 0.05


def test_parameters_do_not_depend_on_the_length_and_float32_stays_float32():
    cell = LSTM({key: value.astype(np.float32) for key, value in make("lstm").params.items()})
    for steps in (1, 50):
        trace = cell.forward(np.ones((1, steps, D), np.float32))
        assert trace.h.shape == (1, steps, H)
        assert (
            trace.h.dtype
            == cell.backward(trace, np.ones_like(trace.h)).params["w_h"].dtype
            == np.float32
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.pop("b"), r"\['w_h', 'w_x'\]; they must be"),
        (lambda p: p.update(b_h=np.zeros(H)), "they must be"),
        (lambda p: p.update(b=np.zeros(2)), r"b has shape \(2,\)"),
        (lambda p: p.update(w_h=np.zeros((2 * H, H))), "w_h has shape"),
        (lambda p: p.update(w_x=np.zeros((H + 1, D))), "w_x has shape"),
    ],
)
def test_wrong_parameters_are_named(change, words):
    params = init_params("rnn", D, H)
    change(params)
    with pytest.raises(ValueError, match=words):
        RNN(params)


def test_wrong_input_is_named():
    cell = make("lstm")
    for x in (np.zeros((2, 5)), np.zeros((2, 0, D)), np.zeros((2, 5, D + 1))):
        with pytest.raises(ValueError, match=r"it must be \(batch, steps, 3\)"):
            cell.forward(x)
    with pytest.raises(ValueError, match="a tuple of 2"):
        cell.forward(np.zeros((2, 5, D)), (np.zeros((2, H)),))
    with pytest.raises(ValueError, match="one value a step"):
        cell.forward(np.zeros((2, 5, D)), mask=np.ones((2, 4), bool))
    with pytest.raises(ConfigError, match="did you mean 'tanh'"):
        RNN(init_params("rnn", D, H), activation="tahn")
    with pytest.raises(ConfigError, match="neither 'keep' nor 'replace'"):
        GRU(init_params("gru", D, H), update="torch")
    with pytest.raises(ConfigError, match="neither 'after' nor 'before'"):
        GRU(init_params("gru", D, H), reset="never")
