"""Variants of recurrent cells and stacks: what surrounds the cells, which path they take, what is refused.
The cells' own equations are compared in tests/reference/test_variants.py.
"""

import pytest
import torch
from torch.nn import functional

from seqloom.nn import fused
from seqloom.nn.encoders import make_encoder
from seqloom.nn.recurrent import RecurrentStack
from tests.nn.test_recurrent import noisy

VARIED = [
    {"cell": "rnn", "options": {"activation": "sigmoid"}},
    {"cell": "rnn", "options": {"recurrence": "pascanu"}},
    {"cell": "rnn", "options": {"recurrence": "continuous", "activation": "leaky-relu"}},
    {"cell": "rnn", "options": {"time_step": 0.3}},
    {"cell": "lstm", "options": {"gate_activation": "hard-sigmoid"}},
    {"cell": "lstm", "options": {"activation": "leaky-relu"}},
    {"cell": "lstm", "options": {"clamp": 0.3}, "d_projection": 3},
    {"cell": "lstm", "norm": "states", "learned_start": True},
    {"cell": "gru", "options": {"gate_activation": "hard-sigmoid", "reset": "before"}},
    {"cell": "gru", "options": {"activation": "relu", "clamp": 0.5}},
    {"cell": "gru", "norm": "states", "layer_norm": True},
]
AROUND = [
    {"norm": "inputs"},
    {"norm": "between"},
    {"norm": "outputs"},
    {"shrink": 0.5},
    {"norm": "between", "shrink": 0.5, "cell": "gru"},
]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


@pytest.mark.parametrize("options", [*VARIED, *AROUND], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_row_gives_the_same_in_a_batch_with_padding_as_alone(options, bidirectional):
    stack = noisy(RecurrentStack(4, 6, 3, bidirectional=bidirectional, **options)).double()
    x, lengths = torch.randn(3, 7, 4, dtype=torch.float64), torch.tensor([7, 2, 5])
    out, state = stack(x, lengths=lengths)
    free, _ = stack(x, lengths=lengths, final_state=False)
    torch.testing.assert_close(free, out)
    assert out.shape == (3, 7, stack.d_out)
    for row, length in enumerate(lengths.tolist()):
        alone, its_state = stack(x[row : row + 1, :length])
        torch.testing.assert_close(out[row, :length], alone[0])
        assert not out[row, length:].any()
        for layer, its_layer in zip(state, its_state):
            for leaf, its_leaf in zip(layer, its_layer):
                torch.testing.assert_close(leaf[row], its_leaf[0])


@pytest.mark.parametrize("options", VARIED, ids=str)
def test_variants_go_step_by_step_and_a_sequence_may_be_read_in_pieces(options, monkeypatch):
    stack = noisy(RecurrentStack(4, 5, 2, **options)).double()
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    monkeypatch.setattr(fused, "run", lambda *_: pytest.fail("it has no fused form"))
    whole, last = stack(x)
    first, state = stack(x[:, :2])
    second, end = stack(x[:, 2:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(end, last)


@pytest.mark.parametrize("options", [{}, *AROUND], ids=str)
def test_the_usual_cells_stay_on_the_fast_path(options, monkeypatch):
    calls = []
    run = fused.run
    monkeypatch.setattr(fused, "run", lambda *given: calls.append(1) or run(*given))
    RecurrentStack(4, 6, 3, **options)(torch.randn(2, 5, 4))
    assert len(calls) == 3


@pytest.mark.parametrize("options", VARIED, ids=str)
def test_gradients_are_what_finite_differences_say(options):
    stack = noisy(RecurrentStack(3, 4, 2, **options)).double()
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    values = list(stack.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: stack(x)[0], (x, *values), atol=1e-6)


def test_norms_stand_where_they_are_asked_for():
    """Against layers of one each, with the norms between them by hand."""
    x = torch.randn(2, 5, 4)
    places = {"inputs": [0], "between": [1, 2], "outputs": [3], "none": []}
    for norm, boundaries in places.items():
        stack = noisy(RecurrentStack(4, 6, 3, norm=norm))
        assert list(stack.norms) == [str(i) for i in boundaries]
        y = x
        for i in range(4):
            if i in boundaries:
                by = stack.norms[str(i)]
                y = functional.layer_norm(y, (y.shape[2],), by.weight, by.bias)
            if i < 3:
                one = RecurrentStack(y.shape[2], 6)
                one.layers[0].load_state_dict(stack.layers[i].state_dict())
                y = one(y)[0]
        torch.testing.assert_close(stack(x)[0], y)


def test_a_norm_of_states_is_of_h_and_of_c_after_each_step():
    """As `LayerNormLSTMCell` of the literature: an LSTM's step, then a norm of each."""
    stack, cell = noisy(RecurrentStack(4, 5, norm="states")), torch.nn.LSTMCell(4, 5)
    ours = stack.layers[0]
    with torch.no_grad():
        cell.weight_ih.copy_(ours.w_x)
        cell.weight_hh.copy_(ours.w_h)
        cell.bias_ih.copy_(ours.b)
        cell.bias_hh.zero_()
    x = torch.randn(2, 6, 4)
    h, c = torch.zeros(2, 5), torch.zeros(2, 5)
    for t in range(6):
        h, c = cell(x[:, t], (h, c))
        h, c = ours.state_norm_h(h), ours.state_norm_c(c)
    torch.testing.assert_close(stack(x)[0][:, -1], h)
    torch.testing.assert_close(stack(x)[1][0][1], c)


def test_layers_shrink():
    stack = RecurrentStack(10, 512, 3, shrink=0.5)
    assert [layer.d_hidden for layer in stack.layers] == [512, 256, 128]
    assert stack.d_out == 128
    assert RecurrentStack(3, 4, 3, shrink=0.1, bidirectional=True).d_out == 2


def test_clamped_states_stay_within_their_bound():
    for cell, activation in (("rnn", "relu"), ("lstm", "relu"), ("gru", "relu")):
        options = {"activation": activation, "clamp": 0.25}
        stack = noisy(RecurrentStack(4, 5, cell=cell, options=options), scale=2.0)
        out, state = stack(torch.randn(3, 30, 4) * 5)
        assert out.abs().max() == 0.25
        assert all(leaf.abs().max() <= 0.25 for leaf in state[0])


def test_recurrent_weights_begin_as_asked():
    for cell, gates in (("rnn", 1), ("lstm", 4), ("gru", 3)):
        made = RecurrentStack(3, 40, cell=cell, options={"recurrent_init": "identity"})
        for block in made.layers[0].w_h.chunk(gates):
            assert torch.equal(block, torch.eye(40))
        made = RecurrentStack(3, 40, cell=cell, options={"recurrent_init": "normal"})
        assert made.layers[0].w_h.std().item() == pytest.approx(40**-0.5, rel=0.1)
        usual = RecurrentStack(3, 40, cell=cell).layers[0].w_h.chunk(gates)[0]
        torch.testing.assert_close(usual @ usual.T, torch.eye(40), atol=1e-5, rtol=0)


def test_a_relu_network_that_begins_as_the_identity_keeps_its_state():
    """Le, Jaitly and Hinton 2015: what was once read stays."""
    options = {"recurrent_init": "identity", "activation": "relu"}
    stack = RecurrentStack(3, 4, cell="rnn", options=options)
    first = torch.rand(1, 4)
    out, _ = stack(torch.zeros(1, 50, 3), ((first,),))
    torch.testing.assert_close(out[0, -1], first[0])


def test_encoders_have_them():
    encoder = make_encoder("birnn", 4, 6, 2, recurrence="pascanu", shrink=0.5, norm="states")
    assert encoder.stack.layers[1].recurrence == "pascanu"
    assert encoder.d_out == 6
    assert make_encoder("cnn", 4, 6, 2, recurrence="pascanu").d_out == 6  # it has no such option


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"norm": "between"}, "norm between has no effect with one layer"),
        ({"shrink": 0.5}, "shrink has no effect with one layer"),
        ({"n_layers": 2, "shrink": 0.5, "residual": True}, "residual .* widths are 4, 6, 3"),
        ({"norm": "everywhere"}, "norm must be one of none, inputs"),
        ({"options": {"activation": "gelu"}}, "activation must be one of tanh"),
        ({"options": {"gate_activation": "step"}}, "gate_activation must be one of sigmoid"),
        ({"cell": "rnn", "options": {"recurrence": "elmo"}}, "recurrence must be one of elman"),
        ({"options": {"recurrent_init": "zeros"}}, "recurrent_init must be one of orthogonal"),
    ],
    ids=str,
)
def test_what_has_no_meaning_is_refused_in_one_line(options, words):
    with pytest.raises(ValueError, match=words) as error:
        RecurrentStack(4, 6, **options)
    assert "\n" not in str(error.value)
