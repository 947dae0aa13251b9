"""Jacobians of recurrent cells against the NumPy reference, torch.func.jacrev and finite differences."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.encoder_table import CELLS
from seqloom.models.network import flow, flow_net
from seqloom.nn.recurrent import RecurrentStack
from seqloom.reference import GRU, LSTM, RNN

REFERENCES = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
WIDTH, STEPS = 6, 9


def stack_of(cell, seed=3, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        stack = RecurrentStack(WIDTH, WIDTH, cell=cell, **options).double()
        flow_net.begin(stack, start="normal", gain=1.3)
        x = torch.randn(STEPS, WIDTH, dtype=torch.float64)
    return stack.requires_grad_(False), x


@pytest.mark.parametrize("cell", REFERENCES)
def test_one_step_against_the_reference(cell):
    """Central differences of the NumPy reference's step."""
    stack, x = stack_of(cell)
    layer = flow_net._unroll(stack, x)[1][0].flow()
    weights = {name: w.numpy() for name, w in stack.layers[0].named_parameters()}
    reference = REFERENCES[cell](weights)

    def after(state, t):
        leaves = tuple(state[None, part] for part in layer.leaves.values())
        return np.concatenate(
            [
                leaf[0]
                for leaf in reference.step(x[t : t + 1].numpy(), leaves, np.ones(1, bool)).state
            ]
        )

    for t, jacobian in enumerate(layer.jacobians(0, STEPS)):
        numeric = np.stack(
            [
                (after(layer.states[t] + h, t) - after(layer.states[t] - h, t)) / 2e-6
                for h in 1e-6 * np.eye(len(jacobian))
            ],
            axis=1,
        )
        np.testing.assert_allclose(jacobian, numeric, atol=1e-8)


@pytest.mark.parametrize("cell", CELLS)
def test_products_are_the_derivative_through_many_steps(cell):
    """torch.func.jacrev of the state after k steps, by the state before them."""
    stack, x = stack_of(cell)
    cell_module = stack.layers[0]
    layer = flow_net._unroll(stack, x)[1][0].flow()
    projected = cell_module.project(x[:, None])

    def through(state):
        leaves = tuple(state[None, part] for part in layer.leaves.values())
        for t in range(2, STEPS):
            leaves = cell_module.step(projected[t], leaves, cell_module.w_h, None)
        return torch.cat([leaf[0] for leaf in leaves])

    whole = torch.func.jacrev(through)(torch.from_numpy(layer.states[2])).numpy()
    product = np.eye(len(whole))
    for jacobian in layer.jacobians(2, STEPS):
        product = jacobian @ product
    np.testing.assert_allclose(product, whole, atol=1e-12)
    measured = flow.measure(layer, STEPS - 2)
    h = layer.leaves["h"]
    assert measured.distances == [*range(1, STEPS - 1)]
    assert measured.singular == pytest.approx(
        np.median([np.linalg.norm(j, 2) for j in layer.jacobians(0, STEPS)]), rel=1e-6
    )
    by_hand = []
    for end in (7, 8, 9):
        product = np.eye(len(whole))
        for jacobian in layer.jacobians(end - 4, end):
            product = jacobian @ product
        by_hand.append(np.linalg.norm(product[h, h], 2))
    assert measured.curves["dh/dh"][3] == pytest.approx(np.median(by_hand), rel=1e-6)


def test_the_direct_path_of_an_lstm_is_its_forget_gates_and_the_whole_is_not():
    layer = flow_net.drive_fresh_cell("lstm", width=16, steps=30)
    c = layer.leaves["c"]
    measured = flow.measure(layer, 20)
    at = measured.distances.index(20)
    products = [
        np.prod(layer.forget[end - 20 : end], axis=0).max()
        for end in sorted(set(np.linspace(20, 30, flow.ENDS).astype(int).tolist()))
    ]
    assert measured.curves["forget gates"][at] == pytest.approx(np.median(products))
    assert measured.curves["dc/dc"][at] > 2 * measured.curves["forget gates"][at]
    stack, x = stack_of("lstm")
    stack.layers[0].w_h.zero_()  # with h cut off only the direct path is left
    cut = flow_net._unroll(stack, x)[1][0].flow()
    for jacobian, gates in zip(cut.jacobians(0, STEPS), cut.forget):
        np.testing.assert_allclose(jacobian[c.start - 10 :, c.start - 10 :][:6, :6], np.diag(gates))


def test_what_is_constant_and_what_is_a_tanh():
    """F2-06 inside its ranges, F2-07 within a factor of ten and its slopes within 0.03."""
    small, large = map(flow.constant_slope_ratios, (0.5, 3.0))
    assert 1.4e-60 < np.median(small) < 1.8e-60
    assert np.quantile(small, 0.025) > 2.5e-61
    assert np.quantile(small, 0.975) < 4.5e-60
    assert 4.5e22 < np.median(large) < 6.5e22
    assert np.quantile(large, 0.025) > 1.5e21
    assert np.quantile(large, 0.975) < 2.5e23
    known = {
        0.5: (7e-49, 0.59),
        1: (2e-21, 0.54),
        1.5: (1e-7, 0.46),
        3: (8e9, 0.28),
        6: (4e22, 0.14),
    }
    for gain, (ratio, slope) in known.items():
        ratios, measured = flow.tanh_ratios(gain)
        assert ratio / 10 < np.median(ratios) < ratio * 10
        assert abs(measured - slope) < 0.03
    few = flow.medians_of(ratios, 20)  # of a gain of 6
    assert few[0] == np.median(ratios[:20])
    assert few.max() > 10 * few.min()  # which is why 20 seeds are not enough for the bar


def test_going_back_through_tanh_step_by_step():
    """One seed, a step at a time, and its gradient by autograd."""
    ratios, slope = flow.tanh_ratios(1.5, seeds=2, width=5, steps=7)
    rng = np.random.default_rng(1)
    matrix = torch.from_numpy(rng.standard_normal((5, 5)) * 1.5 / np.sqrt(5))
    noise = torch.from_numpy(rng.standard_normal((7, 5)))
    upstream = torch.from_numpy(rng.standard_normal(5))
    start = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    h = start
    for row in noise:
        h = torch.tanh(matrix @ h + row)
    (gradient,) = torch.autograd.grad(h @ upstream, start)
    assert ratios[1] == pytest.approx(float(gradient.norm() / upstream.norm()), rel=1e-12)
    assert 0 < slope < 1


def test_a_linear_chain_grows_before_it_vanishes():
    """A matrix that is not normal: spectral radius 0.5, yet a change grows at first; by hand."""
    matrix = np.array([[0.5, 4.0], [0.0, 0.5]])
    layer = flow_net.LayerFlow(
        "linear",
        {"h": slice(0, 2)},
        40,
        lambda low, high: np.repeat(matrix[None], high - low, axis=0),
        np.zeros((40, 2)),
        recurrent=matrix[None],
    )
    measured = flow.measure(layer, 20)
    by_hand = [np.linalg.norm(np.linalg.matrix_power(matrix, k), 2) for k in measured.distances]
    np.testing.assert_allclose(measured.curves["dh/dh"], by_hand, rtol=1e-6)
    assert measured.radius == pytest.approx(0.5, abs=1e-6)
    assert measured.growth == (pytest.approx(max(by_hand)), 1 + int(np.argmax(by_hand)))
    assert measured.exponent == pytest.approx(np.log(by_hand[-1]) / 20)
    assert measured.horizon == next(
        k for k, norm in zip(measured.distances, by_hand) if norm < 0.01 * by_hand[0]
    )


def test_a_thousand_steps_stay_numbers():
    layer = flow_net.drive_fresh_cell("rnn", width=8, steps=1000, start="normal", gain=0.2)
    measured = flow.measure(layer, 1000)
    assert measured.curves["dh/dh"][-1] == 0  # below what can be written
    assert -3 < measured.exponent < -1
    assert np.isfinite(list(measured.curves.values())).all()


def test_orthogonal_keeps_more_than_a_normal_start():
    """The identity of a linear chain: with relu and no input, an orthogonal start keeps the norm."""
    norms = {
        start: flow.measure(
            flow_net.drive_fresh_cell("rnn", width=32, steps=75, start=start, noise=0.01, gain=1.0),
            50,
        ).curves["dh/dh"][-1]
        for start in ("orthogonal", "normal")
    }
    assert norms["orthogonal"] > 0.9
    assert norms["orthogonal"] != pytest.approx(norms["normal"], rel=0.2)
