"""Forward and gradients of torch.nn.RNN, LSTM and GRU, through the conversion of their weights."""

import numpy as np
import pytest

from seqloom.errors import ConfigError
from seqloom.reference import (
    GRU,
    LSTM,
    RNN,
    check_gradients,
    count_parameters,
    from_torch,
    to_torch,
)
from tests.reference.cells import D, H, data, make

torch = pytest.importorskip("torch")

LAYERS = {
    "rnn-tanh": ("rnn", lambda **o: torch.nn.RNN(D, H, batch_first=True, **o), RNN),
    "rnn-relu": (
        "rnn",
        lambda **o: torch.nn.RNN(D, H, nonlinearity="relu", batch_first=True, **o),
        lambda p: RNN(p, activation="relu"),
    ),
    "lstm": ("lstm", lambda **o: torch.nn.LSTM(D, H, batch_first=True, **o), LSTM),
    "gru-keep": ("gru", lambda **o: torch.nn.GRU(D, H, batch_first=True, **o), GRU),
    "gru-replace": (
        "gru",
        lambda **o: torch.nn.GRU(D, H, batch_first=True, **o),
        lambda p: GRU(p, update="replace"),
    ),
}


def layer_of(name, **options):
    torch.manual_seed(0)
    kind, build, ours = LAYERS[name]
    return kind, build(**options).double(), ours


def arrays(layer):
    return {key: value.numpy() for key, value in layer.state_dict().items()}


def update_of(name):
    return "replace" if name == "gru-replace" else "keep"


def run(layer, x, state):
    """Outputs and last state of the torch layer, with gradients wanted of x and state."""
    x = torch.from_numpy(x).requires_grad_()
    state = tuple(torch.from_numpy(part[None]).requires_grad_() for part in state)
    h, last = layer(x, state if len(state) == 2 else state[0])
    return x, state, h, last if len(state) == 2 else (last,)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_forward_and_backward_agree(name, bias):
    kind, layer, ours = layer_of(name, bias=bias)
    cell = ours(from_torch(kind, arrays(layer), update=update_of(name)))
    x, state = data(cell, batch=3, steps=7)
    trace = cell.forward(x, state)
    x_t, state_t, h_t, last_t = run(layer, x, state)
    np.testing.assert_allclose(trace.h, h_t.detach().numpy(), rtol=1e-10, atol=1e-12)
    for got, expected in zip(trace.last, last_t, strict=True):
        np.testing.assert_allclose(got, expected[0].detach().numpy(), rtol=1e-10, atol=1e-12)

    rng = np.random.default_rng(1)
    on_h, on_last = (
        rng.normal(size=trace.h.shape),
        tuple(rng.normal(size=part.shape) for part in trace.last),
    )
    grads = cell.backward(trace, on_h, on_last)
    loss = (h_t * torch.from_numpy(on_h)).sum()
    for weight, part in zip(on_last, last_t, strict=True):
        loss = loss + (part[0] * torch.from_numpy(weight)).sum()
    loss.backward()
    np.testing.assert_allclose(grads.x, x_t.grad.numpy(), rtol=1e-9, atol=1e-12)
    for got, expected in zip(grads.start, state_t, strict=True):
        np.testing.assert_allclose(got, expected.grad[0].numpy(), rtol=1e-9, atol=1e-12)

    theirs = {key: value.grad.numpy() for key, value in layer.named_parameters()}
    sign = (
        np.repeat([1, -1 if name == "gru-replace" else 1, 1], H) if kind == "gru" else np.ones(1)
    )  # of the z rows
    np.testing.assert_allclose(
        grads.params["w_x"], theirs["weight_ih_l0"] * sign[:, None], rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        grads.params["w_h"], theirs["weight_hh_l0"] * sign[:, None], rtol=1e-9, atol=1e-12
    )
    if bias:
        np.testing.assert_allclose(
            grads.params["b"], theirs["bias_ih_l0"] * sign, rtol=1e-9, atol=1e-12
        )
        if kind == "gru":
            np.testing.assert_allclose(
                grads.params["b_h"], theirs["bias_hh_l0"][2 * H :], rtol=1e-9, atol=1e-12
            )


@pytest.mark.parametrize("name", ["rnn-tanh", "lstm", "gru-keep-after", "gru-replace-after"])
def test_our_weights_in_torch(name):
    """To torch and back; the torch layer computes the same."""
    cell = make(name)
    kind, update = name.split("-")[0], "replace" if "replace" in name else "keep"
    theirs = to_torch(kind, cell.params, update=update)
    layer = layer_of(
        {"gru-keep-after": "gru-keep", "gru-replace-after": "gru-replace"}.get(name, name)
    )[1]
    layer.load_state_dict({key: torch.from_numpy(value) for key, value in theirs.items()})
    x, state = data(cell)
    np.testing.assert_allclose(
        run(layer, x, state)[2].detach().numpy(), cell.forward(x, state).h, rtol=1e-10, atol=1e-12
    )
    for key, value in from_torch(kind, theirs, update=update).items():
        np.testing.assert_array_equal(value, cell.params[key])


def test_layers_and_directions_of_a_stack():
    """A bidirectional stack of two, built from single cells."""
    torch.manual_seed(0)
    stack = torch.nn.LSTM(D, H, num_layers=2, bidirectional=True, batch_first=True).double()
    x = np.random.default_rng(0).normal(size=(2, 6, D))
    h = x
    for layer in range(2):
        right = LSTM(from_torch("lstm", arrays(stack), layer=layer)).forward(h).h
        left = (
            LSTM(from_torch("lstm", arrays(stack), layer=layer, reverse=True))
            .forward(h[:, ::-1])
            .h[:, ::-1]
        )
        h = np.concatenate([right, left], axis=2)  # (B, T, 2H)
    np.testing.assert_allclose(
        h, stack(torch.from_numpy(x))[0].detach().numpy(), rtol=1e-10, atol=1e-12
    )


def test_padding_agrees_with_packed_sequences():
    kind, layer, ours = layer_of("gru-keep")
    cell = ours(from_torch(kind, arrays(layer)))
    x, _ = data(cell, batch=3, steps=5)
    lengths = [5, 3, 4]
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        torch.from_numpy(x), lengths, batch_first=True, enforce_sorted=False
    )
    _, last = layer(packed)
    trace = cell.forward(x, mask=np.arange(5) < np.array(lengths)[:, None])
    np.testing.assert_allclose(trace.last[0], last[0].detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_counts_are_those_of_torch(kind):
    build = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind]
    for biases, option in (("two", True), ("none", False)):
        layer = build(100, 256, bias=option)
        assert count_parameters(kind, 100, 256, biases=biases) == sum(
            p.numel() for p in layer.parameters()
        )


def test_what_cannot_be_converted_is_refused():
    with pytest.raises(ConfigError, match="resets after the product"):
        to_torch("gru", make("gru-keep-before").params)
    projected = torch.nn.LSTM(D, H, proj_size=2).double()
    with pytest.raises(ConfigError, match="projection"):
        from_torch("lstm", arrays(projected))
    gru = torch.nn.GRU(D, H).double()
    with pytest.raises(ConfigError, match="not that of a layer of kind 'lstm'"):
        from_torch("lstm", arrays(gru))
    with pytest.raises(ConfigError, match="no weight_hh_l1"):
        from_torch("gru", arrays(gru), layer=1)


def test_converted_weights_are_copies():
    """Finite differences and updates move a cell's weights; the torch layer must not follow."""
    _, layer, _ = layer_of("lstm")
    before = {key: value.clone() for key, value in layer.state_dict().items()}
    cell = LSTM(from_torch("lstm", arrays(layer)))
    assert max(check_gradients(cell, *data(cell)).values()) < 1e-6
    for array in cell.params.values():
        array += 1
    assert all(torch.equal(before[key], value) for key, value in layer.state_dict().items())
