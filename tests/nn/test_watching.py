"""What is read of recurrent layers in training: shares of gates against NumPy, gradients against finite
differences, and nothing else changed.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn

from seqloom.nn import watching
from seqloom.nn.recurrent import RecurrentStack
from seqloom.nn.watching import DISTANCES, ROWS, STEPS, keeping_inputs, watch


class Holder(nn.Module):
    def __init__(self, *args, **options):
        super().__init__()
        self.stack = RecurrentStack(*args, **options)


def made(*args, scale=1.0, **options):
    torch.manual_seed(0)
    network = Holder(*args, **options).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(scale)
    return network


def kept(network, x, *args, **named):
    with keeping_inputs(network) as inputs, torch.inference_mode():
        network.stack(x, *args, **named)
    return inputs


def numbers(rows, steps, width, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, steps, width)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_shares_of_gates_are_those_of_the_equations():
    network = made(3, 5, cell="lstm", scale=3.0)
    x = numbers(ROWS, 12, 3)
    found = watch(network, kept(network, x))
    cell = network.stack.layers[0]
    w_x, w_h, b = (getattr(cell, name).detach().numpy() for name in ("w_x", "w_h", "b"))
    h, c = np.zeros((ROWS, 5)), np.zeros((ROWS, 5))
    gates = {name: [] for name in "ifgo"}
    for t in range(12):
        i, f, g, o = np.split(x[:, t].numpy() @ w_x.T + h @ w_h.T + b, 4, axis=1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        for name, value in zip("ifgo", (i, f, g, o)):
            gates[name].append(value)
    for name in "ifo":
        values = np.array(gates[name])
        assert found[f"closed.stack.layers.0.gates.{name}"] == pytest.approx(
            (values < 0.1).mean(), abs=1e-6
        )
        assert found[f"open.stack.layers.0.gates.{name}"] == pytest.approx(
            (values > 0.9).mean(), abs=1e-6
        )
    share = (np.abs(np.array(gates["g"])) > 0.8).mean()
    assert 0 < share < 1
    assert found["saturated.stack.layers.0.gates.g"] == pytest.approx(share, abs=1e-6)
    assert not any(key.startswith("saturated.") and key.endswith(".h") for key in found)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("layers", [1, 2])
def test_reach_is_that_of_finite_differences(cell, layers):
    network = made(3, 4, layers, cell=cell)
    x = numbers(2, 9, 3)
    found = watch(network, kept(network, x))
    signs = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], 4))

    def end(x):
        with torch.no_grad():
            return network.stack(x)[0][:, -1] @ signs

    norms = {}
    for distance in (1, *(d for d in DISTANCES if d <= 8)):
        square = torch.zeros(2, dtype=torch.float64)
        for unit in range(3):
            step = torch.zeros_like(x)
            step[:, 8 - distance, unit] = 1e-5
            square += ((end(x + step) - end(x - step)) / 2e-5) ** 2
        norms[distance] = float(square.sqrt().mean())
    assert found["reach.stack.1"] == 1
    assert len([key for key in found if key.startswith("reach.")]) == len(norms)
    for distance, norm in norms.items():
        assert found[f"reach.stack.{distance}"] == pytest.approx(norm / norms[1], abs=2e-6)


def test_a_plain_network_has_its_states():
    network = made(3, 5, cell="rnn", scale=4.0)
    x = numbers(2, 10, 3)
    found = watch(network, kept(network, x))
    with torch.no_grad():
        states = network.stack(x)[0]
    share = float((states.abs() > 0.8).double().mean())
    assert found["saturated.stack.layers.0.h"] == pytest.approx(share, abs=1e-6)
    relu = made(3, 5, cell="rnn", activation="relu")
    assert not any(key.startswith("saturated") for key in watch(relu, kept(relu, x)))


def test_both_directions_have_gates_but_no_reach():
    network = made(3, 4, cell="gru", bidirectional=True)
    found = watch(network, kept(network, numbers(2, 6, 3)))
    assert "closed.stack.layers.0.reverse.gates.z" in found
    assert "closed.stack.layers.0.gates.r" in found
    assert not any(key.startswith("reach.") for key in found)


def test_few_rows_without_padding():
    network = made(3, 4)
    lengths = torch.tensor([3, 9, 2, 7, 8, 6])
    x = numbers(6, 9, 3)
    (rows,) = kept(network, x, None, lengths).values()
    assert rows.shape == (ROWS, 8, 3)  # the longest, as long as the shortest of them
    assert torch.equal(rows, x[[1, 4], :8])
    (rows,) = kept(network, x, lengths=lengths).values()
    assert rows.shape == (ROWS, 8, 3)
    (pieces,) = kept(network, numbers(1, 500, 3)).values()
    assert pieces.shape == (ROWS, STEPS, 3)
    assert kept(network, numbers(4, 1, 3)) == {}  # one step has no gradient to earlier ones


def test_nothing_else_changes():
    network = made(3, 4, 2)
    before = {name: w.clone() for name, w in network.state_dict().items()}
    random = torch.get_rng_state()
    inputs = kept(network, numbers(2, 9, 3))
    first = watch(network, inputs)
    assert first == watch(network, inputs)
    assert torch.equal(random, torch.get_rng_state())
    assert all(w.grad is None for w in network.parameters())
    assert all(torch.equal(before[name], w) for name, w in network.state_dict().items())
    assert not network.stack._forward_pre_hooks  # it is let go
    assert watching.watch(network, {}) == {}
