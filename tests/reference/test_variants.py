"""Variants of the cells that the literature describes: other functions, clamping, norms of states, other
forms of the plain RNN. Their equations unit by unit, finite differences, and torch's autograd.
"""

import math

import numpy as np
import pytest

from seqloom.errors import ConfigError
from seqloom.reference import GRU, LSTM, RNN, check_gradients, init_params, padding_mask
from tests.reference.cells import D, H, data

CLASSES = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
LEAVES = {"rnn": ("h",), "lstm": ("h", "c"), "gru": ("h",)}
FORMS = [
    {"recurrence": form, "activation": activation, **more}
    for form in ("pascanu", "continuous")
    for activation in ("tanh", "relu", "leaky-relu", "sigmoid")
    for more in ({}, {"time_step": 0.3})
]
SHARED = [
    {"activation": "leaky-relu"},
    {"clamp": 0.4},
    {"state_norm": True},
    {"clamp": 0.4, "state_norm": True, "activation": "sigmoid"},
]
GATED = [*SHARED, {"gate_activation": "hard-sigmoid"}]
GATED += [{"gate_activation": "hard-sigmoid", "activation": "relu", "clamp": 0.5}]
VARIANTS = [
    *(("rnn", options) for options in [*SHARED, *FORMS, {"time_step": 0.25}]),
    ("rnn", {"recurrence": "pascanu", "clamp": 0.3, "time_step": 0.5, "state_norm": True}),
    *(("lstm", options) for options in GATED),
    *(("gru", options) for options in GATED),
    ("gru", {"reset": "before", "gate_activation": "hard-sigmoid", "activation": "leaky-relu"}),
    ("gru", {"update": "replace", "state_norm": True}),
    ("gru", {"reset": "before", "update": "replace", "activation": "sigmoid", "clamp": 0.2}),
]
each = pytest.mark.parametrize(("kind", "options"), VARIANTS, ids=str)


def make(kind, options, seed=0):
    options = dict(options)
    params = init_params(kind, D, H, reset=options.get("reset", "after"), seed=seed)
    if options.pop("state_norm", False):
        for leaf in LEAVES[kind]:
            params[f"state_norm_{leaf}.weight"] = np.ones(H)
            params[f"state_norm_{leaf}.bias"] = np.zeros(H)
    rng = np.random.default_rng(seed + 1)
    for array in params.values():
        array += rng.normal(scale=0.4, size=array.shape)
    return CLASSES[kind](params, **options)


# ---- the equations, in scalars

FUNCTIONS = {
    "tanh": math.tanh,
    "relu": lambda a: max(a, 0.0),
    "leaky-relu": lambda a: a if a > 0 else 0.01 * a,
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)),
    "hard-sigmoid": lambda a: min(max(a / 6 + 0.5, 0.0), 1.0),
}


def sums(p, row, x, h):
    """w_x x, w_h h and b of one row."""
    from_x = sum(p["w_x"][row, d] * x[d] for d in range(D))
    return from_x, sum(p["w_h"][row, k] * h[k] for k in range(H)), p["b"][row]


def kept(p, leaf, values, clamp):
    """What is kept of a new state."""
    if clamp is not None:
        values = [min(max(v, -clamp), clamp) for v in values]
    if f"state_norm_{leaf}.weight" in p:
        mean = sum(values) / H
        scale = math.sqrt(sum((v - mean) ** 2 for v in values) / H + 1e-5)
        weight, bias = p[f"state_norm_{leaf}.weight"], p[f"state_norm_{leaf}.bias"]
        values = [(v - mean) / scale * weight[u] + bias[u] for u, v in enumerate(values)]
    return values


def rnn_step(p, x, h, activation="tanh", recurrence="elman", time_step=1.0, clamp=None):
    f, new = FUNCTIONS[activation], []
    for unit in range(H):
        from_x, from_h, b = sums(p, unit, x, [f(v) for v in h] if recurrence == "pascanu" else h)
        if recurrence == "elman":
            new.append(f(from_x + from_h + b))
        elif recurrence == "pascanu":
            new.append(from_h + from_x + b)
        else:
            new.append(f(from_h + b) + from_x)
    moved = [h[u] + time_step * (new[u] - h[u]) for u in range(H)]
    return (kept(p, "h", moved, clamp),)


def lstm_step(p, x, h, c, activation="tanh", gate_activation="sigmoid", clamp=None):
    f, gate = FUNCTIONS[activation], FUNCTIONS[gate_activation]
    new_c, new_h = [], []
    for u in range(H):
        i, keep, g, o = (sum(sums(p, block * H + u, x, h)) for block in range(4))
        total = gate(keep) * c[u] + gate(i) * f(g)
        if clamp is not None:
            total = min(max(total, -clamp), clamp)
        new_c.append(total)
        new_h.append(gate(o) * f(total))
    return kept(p, "h", new_h, clamp), kept(p, "c", new_c, clamp)


def gru_step(
    p, x, h, activation="tanh", gate_activation="sigmoid", clamp=None, reset="after", update="keep"
):
    f, gate = FUNCTIONS[activation], FUNCTIONS[gate_activation]
    r = [gate(sum(sums(p, u, x, h))) for u in range(H)]
    new = []
    for u in range(H):
        z = gate(sum(sums(p, H + u, x, h)))
        if reset == "after":
            from_x, from_h, b = sums(p, 2 * H + u, x, h)
            n = f(from_x + b + r[u] * (from_h + p["b_h"][u]))
        else:
            n = f(sum(sums(p, 2 * H + u, x, [r[k] * h[k] for k in range(H)])))
        new.append(z * h[u] + (1 - z) * n if update == "keep" else (1 - z) * h[u] + z * n)
    return (kept(p, "h", new, clamp),)


STEPS = {"rnn": rnn_step, "lstm": lstm_step, "gru": gru_step}


@each
def test_forward_is_the_equations_unit_by_unit(kind, options):
    cell = make(kind, options)
    x, start = data(cell)
    trace = cell.forward(x, start)
    options = {name: value for name, value in options.items() if name != "state_norm"}
    for b in range(len(x)):
        state = tuple(part[b] for part in start)
        for t in range(x.shape[1]):
            state = STEPS[kind](cell.params, x[b, t], *state, **options)
            for got, expected in zip(trace.state, state, strict=True):
                np.testing.assert_allclose(got[b, t], expected, rtol=1e-11, atol=1e-14)


# ---- gradients


@each
def test_backward_is_what_finite_differences_say(kind, options):
    cell = make(kind, options)
    x, start = data(cell)
    errors = check_gradients(cell, x, start)
    assert max(errors.values()) < 1e-6, errors


@each
def test_padding_does_not_move_the_state(kind, options):
    cell = make(kind, options)
    x, start = data(cell, batch=3)
    lengths = [5, 2, 4]
    mask = padding_mask(lengths)
    x[~mask] = np.nan
    weights = np.where(mask[..., None], np.random.default_rng(0).normal(size=(3, 5, H)), 0)
    trace = cell.forward(x, start, mask)
    grads = cell.backward(trace, weights)
    total = {name: np.zeros_like(value) for name, value in cell.params.items()}
    for b, length in enumerate(lengths):
        alone = cell.forward(x[b : b + 1, :length], tuple(part[b : b + 1] for part in start))
        its_grads = cell.backward(alone, weights[b : b + 1, :length])
        np.testing.assert_allclose(trace.h[b, :length], alone.h[0], rtol=1e-12)
        for got, expected in zip(grads.start, its_grads.start, strict=True):
            np.testing.assert_allclose(got[b], expected[0], rtol=1e-10, atol=1e-14)
        for name in total:
            total[name] += its_grads.params[name]
    for name, value in total.items():
        np.testing.assert_allclose(grads.params[name], value, rtol=1e-10, atol=1e-13)


@each
def test_the_cell_in_torch_has_the_same_steps_and_gradients(kind, options):
    torch = pytest.importorskip("torch")
    from seqloom.nn.recurrent import RecurrentStack

    cell = make(kind, options)
    own = {name: value for name, value in options.items() if name != "state_norm"}
    norm = "states" if "state_norm" in options else "none"
    stack = RecurrentStack(D, H, cell=kind, norm=norm, options=own).double()
    theirs = stack.layers[0]
    named = dict(theirs.named_parameters())
    assert named.keys() == cell.params.keys()
    with torch.no_grad():
        for name, value in cell.params.items():
            named[name].copy_(torch.from_numpy(value))
    x, start = data(cell, batch=3, steps=7)
    trace = cell.forward(x, start)
    x_t = torch.from_numpy(x).requires_grad_()
    start_t = tuple(torch.from_numpy(part).requires_grad_() for part in start)
    out, (last,) = stack(x_t, (start_t,))
    np.testing.assert_allclose(trace.h, out.detach().numpy(), rtol=1e-9, atol=1e-12)
    for got, expected in zip(trace.last, last, strict=True):
        np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    rng = np.random.default_rng(1)
    on_h = rng.normal(size=trace.h.shape)
    on_last = tuple(rng.normal(size=part.shape) for part in trace.last)
    loss = (out * torch.from_numpy(on_h)).sum()
    for weight, part in zip(on_last, last, strict=True):
        loss = loss + (part * torch.from_numpy(weight)).sum()
    loss.backward()
    grads = cell.backward(trace, on_h, on_last)
    # torch's slope of the hard sigmoid is 1/6 in float32, whatever its input is
    close = 1e-5 if "gate_activation" in options else 1e-8
    np.testing.assert_allclose(grads.x, x_t.grad.numpy(), rtol=close, atol=close / 1000)
    for got, part in zip(grads.start, start_t, strict=True):
        np.testing.assert_allclose(got, part.grad.numpy(), rtol=close, atol=close / 1000)
    for name, parameter in named.items():
        found = grads.params[name]
        expected = parameter.grad.numpy()
        np.testing.assert_allclose(found, expected, rtol=close, atol=close / 1000)


# ---- what they are for


def test_pascanus_form_is_elmans_network_seen_before_its_function():
    """With h' = f(h) the two are one network: what differs is which of the two is called the state."""
    params = make("rnn", {}).params
    x = np.random.default_rng(0).normal(size=(2, 6, D))
    inner = RNN(params, recurrence="pascanu").forward(x).h
    np.testing.assert_allclose(np.tanh(inner), RNN(params).forward(x).h, rtol=1e-12)


def test_one_step_of_pascanus_jacobian():
    """W diag(f'(h)), as the paper writes it."""
    cell = make("rnn", {"recurrence": "pascanu"})
    _, start = data(cell, batch=1)
    rows = []
    for unit in range(H):
        on_last = np.eye(H)[unit][None]
        trace = cell.forward(np.zeros((1, 1, D)), start)
        rows.append(cell.backward(trace, np.zeros((1, 1, H)), (on_last,)).start[0][0])
    expected = cell.params["w_h"] @ np.diag(1 - np.tanh(start[0][0]) ** 2)
    np.testing.assert_allclose(rows, expected, rtol=1e-10)


def test_a_neuron_in_continuous_time_ends_at_its_fixed_point():
    """h = f(w h + b) without input, whatever the step; a smaller one takes longer."""
    params = {"w_x": np.zeros((1, 1)), "w_h": np.array([[0.5]]), "b": np.array([0.3])}
    ends = []
    for time_step in (1.0, 0.1):
        cell = RNN(params, activation="sigmoid", recurrence="continuous", time_step=time_step)
        h = cell.forward(np.zeros((1, 400, 1))).h[0, :, 0]
        assert math.isclose(h[-1], FUNCTIONS["sigmoid"](0.5 * h[-1] + 0.3), rel_tol=1e-12)
        ends.append(int(np.argmax(np.abs(h - h[-1]) < 1e-3)))
    assert ends == [2, 69]


def test_a_norm_of_the_cell_forgets_what_a_forget_gate_of_one_keeps():
    """The constant error carousel is broken: the size of what is stored is lost at the first step."""
    b = np.repeat([-50.0, 50.0, 0.0, 50.0], 2)
    params = {"w_x": np.zeros((8, 1)), "w_h": np.zeros((8, 2)), "b": b}
    start = np.zeros((1, 2)), np.array([[3.0, 5.0]])
    plain = LSTM(params).forward(np.ones((1, 4, 1)), start)
    np.testing.assert_allclose(plain.c[0, -1], [3, 5])
    norms = {
        f"state_norm_{leaf}.{part}": np.full(2, float(part == "weight"))
        for leaf in "hc"
        for part in ("weight", "bias")
    }
    normed = LSTM({**params, **norms}).forward(np.ones((1, 4, 1)), start)
    np.testing.assert_allclose(normed.c[0], [[-1, 1]] * 4, atol=1e-4)


def test_outside_its_band_a_hard_gate_passes_nothing_back():
    """A forget gate at 1 keeps the cell, and its own weights learn nothing; the sigmoid's still do."""
    b = np.repeat([-1.0, 4.0, 0.0, 1.0], H)
    params = {"w_x": np.zeros((4 * H, D)), "w_h": np.zeros((4 * H, H)), "b": b}
    start = np.zeros((1, H)), np.ones((1, H))
    found = {}
    for gate in ("sigmoid", "hard-sigmoid"):
        cell = LSTM(params, gate_activation=gate)
        trace = cell.forward(np.ones((1, 3, D)), start)
        grads = cell.backward(trace, np.ones((1, 3, H)))
        found[gate] = np.abs(grads.params["b"][H : 2 * H]).max()
    assert found["hard-sigmoid"] == 0 < found["sigmoid"]


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("rnn", {"recurrence": "pascano"}, "did you mean 'pascanu'"),
        ("rnn", {"time_step": 0.0}, "above 0"),
        ("rnn", {"clamp": -1.0}, "above zero"),
        ("lstm", {"gate_activation": "hard"}, "not one of sigmoid, hard-sigmoid"),
        ("lstm", {"activation": "gelu"}, "not one of tanh"),
        ("gru", {"clamp": 0.0}, "above zero"),
        ("gru", {"activation": "leaky_relu"}, "did you mean 'leaky-relu'"),
    ],
)
def test_wrong_options_are_refused_in_one_line(kind, options, words):
    with pytest.raises(ConfigError, match=words) as error:
        make(kind, options)
    assert "\n" not in str(error.value)
