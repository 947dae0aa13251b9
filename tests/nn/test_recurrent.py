"""Recurrent layers: the fast paths, the cells step by step, torch.nn and finite differences say the same."""

import pytest
import torch
from torch import nn

from seqloom.nn import fused
from seqloom.nn.recurrent import RecurrentStack

TORCH = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(7)


def noisy(stack, scale=0.4):
    """Parameters away from zero and from each other, biases and norms too, so that a mistake in any
    of them shows.
    """
    with torch.no_grad():
        for value in stack.parameters():
            value.add_(torch.randn_like(value) * scale)
    return stack


def by_steps(monkeypatch):
    monkeypatch.setattr(fused, "can_fuse", lambda *_: False)


def copied(stack, peer):
    """The stack's weights in torch's module."""
    half = {"": lambda cell: cell, "_reverse": lambda cell: cell.reverse}
    with torch.no_grad():
        for index, layer in enumerate(stack.layers):
            for suffix, direction in half.items():
                cell = direction(layer)
                if cell is None:
                    continue
                end = f"l{index}{suffix}"
                getattr(peer, f"weight_ih_{end}").copy_(cell.w_x)
                getattr(peer, f"weight_hh_{end}").copy_(cell.w_h)
                getattr(peer, f"bias_ih_{end}").copy_(cell.b)
                getattr(peer, f"bias_hh_{end}").zero_()
                if stack_kind(stack) == "GRUCell":
                    getattr(peer, f"bias_hh_{end}")[-cell.d_hidden :] = cell.b_h
                if cell.w_p is not None:
                    getattr(peer, f"weight_hr_{end}").copy_(cell.w_p)
    return peer


def stack_kind(stack):
    return type(stack.layers[0]).__name__


def gradients(module, x, out):
    weights = torch.sin(torch.arange(out.numel(), dtype=out.dtype)).view(
        out.shape
    )  # a different one for every output
    names, values = zip(*module.named_parameters())
    found = torch.autograd.grad((out * weights).sum(), [x, *values])
    return found[0], dict(zip(names, found[1:]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bidirectional": True},
        {"cell": "gru"},
        {"cell": "gru", "bidirectional": True},
        {"cell": "rnn"},
        {"cell": "rnn", "activation": "relu"},
        {"d_projection": 3},
        {"d_projection": 3, "bidirectional": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("padded", [False, True])
def test_equal_to_torch(options, padded):
    kind = options.get("cell", "lstm")
    stack = noisy(RecurrentStack(6, 5, 2, **options))
    settings = {"proj_size": options.get("d_projection", 0)} if kind == "lstm" else {}
    if kind == "rnn":
        settings = {"nonlinearity": options.get("activation", "tanh")}
    peer = copied(
        stack,
        TORCH[kind](
            6, 5, 2, batch_first=True, bidirectional="bidirectional" in options, **settings
        ),
    )
    x = torch.randn(4, 7, 6, requires_grad=True)
    lengths = torch.tensor([3, 7, 1, 5]) if padded else None
    first = tuple(tuple(torch.randn_like(leaf) for leaf in layer) for layer in stack.start(4))
    n = len(stack.layers[0].leaves)
    packed = [
        torch.stack([layer[i] for layer in first for i in range(leaf, len(layer), n)])
        for leaf in range(n)
    ]
    hidden = tuple(packed) if kind == "lstm" else packed[0]
    if padded:
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        theirs, last = peer(rows, hidden)
        theirs = nn.utils.rnn.pad_packed_sequence(theirs, batch_first=True, total_length=7)[0]
    else:
        theirs, last = peer(x, hidden)
    ours, state = stack(x, first, lengths)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for leaf, values in enumerate(last if kind == "lstm" else (last,)):
        mine = torch.stack([layer[i] for layer in state for i in range(leaf, len(layer), n)])
        torch.testing.assert_close(mine, values, atol=1e-5, rtol=1e-5)
    dx, mine = gradients(stack, x, ours)
    dx_theirs, theirs = gradients(peer, x, theirs)
    torch.testing.assert_close(dx, dx_theirs, atol=1e-5, rtol=1e-5)
    for layer in range(2):
        for suffix, part in {"": "", "_reverse": "reverse."}.items():
            if f"weight_ih_l{layer}{suffix}" in theirs:
                end, own = f"l{layer}{suffix}", f"layers.{layer}.{part}"
                for a, b in {"w_x": "weight_ih", "w_h": "weight_hh", "b": "bias_ih"}.items():
                    torch.testing.assert_close(
                        mine[own + a], theirs[f"{b}_{end}"], atol=2e-5, rtol=1e-5
                    )
                if kind == "gru":
                    torch.testing.assert_close(
                        mine[own + "b_h"], theirs[f"bias_hh_{end}"][-5:], atol=2e-5, rtol=1e-5
                    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"d_projection": 3},
        {"cell": "gru"},
        {"cell": "gru", "update": "replace"},
        {"cell": "rnn"},
        {"cell": "rnn", "activation": "relu"},
        {"cell": "gru", "bidirectional": True, "learned_start": True},
        {"learned_start": True, "residual": True},
        {"cell": "rnn", "bidirectional": True, "residual": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("padded", [False, True])
def test_fast_path_equals_the_steps(options, padded, monkeypatch):
    stack = noisy(RecurrentStack(6, 5, 3, **options))
    x = torch.randn(4, 7, 6, requires_grad=True)
    lengths = torch.tensor([3, 7, 1, 5]) if padded else None

    def everything():
        out, state = stack(x, None, lengths)
        whole = torch.cat([out.flatten(), *(leaf.flatten() for layer in state for leaf in layer)])
        return whole, gradients(stack, x, whole)

    assert all(fused.can_fuse(layer, x.transpose(0, 1)) for layer in stack.layers)
    fast, (dx, of) = everything()
    by_steps(monkeypatch)
    slow, (dx_slow, of_slow) = everything()
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(dx, dx_slow, atol=2e-5, rtol=1e-5)
    for name in of:
        torch.testing.assert_close(
            of[name],
            of_slow[name],
            atol=3e-5,
            rtol=1e-5,
            msg=lambda text, name=name: f"{name}: {text}",
        )


EVERY = [
    {"cell": cell} | extra
    for cell in ("lstm", "gru", "rnn")
    for extra in (
        {},
        {"layer_norm": True},
        {"bidirectional": True},
        {"learned_start": True, "residual": True},
    )
]
EVERY += [
    {"cell": "gru", "reset": "before"},
    {"cell": "gru", "reset": "before", "layer_norm": True, "update": "replace"},
    {"d_projection": 2},
    {"d_projection": 2, "layer_norm": True},
    {"d_projection": 5},
    {"d_projection": 7},
]


@pytest.mark.parametrize("options", EVERY, ids=str)
def test_a_padded_row_is_as_if_alone(options):
    stack = noisy(RecurrentStack(4, 5, 2, **options)).double()
    x = torch.randn(4, 6, 4, dtype=torch.float64)
    lengths = torch.tensor([2, 6, 0, 4])
    out, state = stack(x, None, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone, after = stack(x[row : row + 1, :length])
        torch.testing.assert_close(out[row, :length], alone[0])
        assert not out[row, length:].any()
        for layer, own in zip(state, after):
            for leaf, expected in zip(layer, own, strict=True):
                torch.testing.assert_close(leaf[row], expected[0])


@pytest.mark.parametrize(
    "options",
    [
        *EVERY,
        {"bidirectional": True, "layer_norm": True},
        {"bidirectional": True, "d_projection": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("lengths", [[2, 6, 1, 4], [2, 0, 5, 0]], ids=str)
def test_without_the_final_state_the_outputs_and_gradients_stay(options, lengths):
    stack = noisy(RecurrentStack(4, 5, 2, **options)).double()
    x = torch.randn(4, 6, 4, dtype=torch.float64, requires_grad=True)
    with_state, _ = stack(x, None, torch.tensor(lengths))
    without, state = stack(x, None, torch.tensor(lengths), final_state=False)
    assert state == ()
    torch.testing.assert_close(without, with_state)
    dx, of = gradients(stack, x, without)
    dx_with, of_with = gradients(stack, x, with_state)
    torch.testing.assert_close(dx, dx_with)
    for name in of:
        torch.testing.assert_close(
            of[name], of_with[name], msg=lambda text, name=name: f"{name}: {text}"
        )


def test_without_the_final_state_no_lstm_is_packed(monkeypatch):
    monkeypatch.setattr(fused, "pack_padded_sequence", None)
    stack = RecurrentStack(4, 5, bidirectional=True)
    stack(torch.randn(2, 3, 4), None, torch.tensor([3, 1]), final_state=False)
    with pytest.raises(TypeError):
        stack(torch.randn(2, 3, 4), None, torch.tensor([3, 1]))


@pytest.mark.parametrize(
    "options",
    [
        {"cell": "gru"},
        {"cell": "gru", "update": "replace"},
        {"cell": "gru", "reset": "before"},
        {"cell": "rnn"},
        {"cell": "gru", "layer_norm": True},
        {"layer_norm": True},
        {"cell": "rnn", "layer_norm": True},
        {"d_projection": 2},
        {"bidirectional": True},
        {"cell": "gru", "bidirectional": True},
    ],
    ids=str,
)
def test_gradients_by_finite_differences(options):
    stack = noisy(RecurrentStack(2, 3, 1, learned_start=True, **options)).double()
    x = torch.randn(2, 4, 2, dtype=torch.float64, requires_grad=True)
    names, values = zip(*stack.named_parameters())
    lengths = torch.tensor([4, 2])

    def run(x, *values):
        out, state = torch.func.functional_call(stack, dict(zip(names, values)), (x, None, lengths))
        return out, state[0][-1]

    assert torch.autograd.gradcheck(run, (x, *values))


def test_state_carries_over():
    """Two halves with the state in between are the whole."""
    for options in EVERY:
        if options.get("bidirectional"):
            continue
        stack = RecurrentStack(4, 5, 2, **options)
        x = torch.randn(3, 8, 4)
        whole, last = stack(x)
        left, between = stack(x[:, :3])
        right, end = stack(x[:, 3:], between)
        torch.testing.assert_close(torch.cat([left, right], 1), whole, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(end, last, atol=1e-6, rtol=1e-5)


def test_replace_is_keep_with_negated_gate():
    keep = noisy(RecurrentStack(4, 5, cell="gru", update="keep"))
    replace = RecurrentStack(4, 5, cell="gru", update="replace")
    replace.load_state_dict(keep.state_dict())
    x = torch.randn(2, 6, 4)
    assert (replace(x)[0] - keep(x)[0]).abs().max() > 0.01
    with torch.no_grad():
        for name in ("w_x", "w_h", "b"):
            getattr(replace.layers[0], name)[5:10].neg_()
    torch.testing.assert_close(replace(x)[0], keep(x)[0])


def test_reset_before_is_the_papers_formula():
    cell = noisy(RecurrentStack(3, 4, cell="gru", reset="before", update="replace")).layers[0]
    assert cell.b_h is None
    x, h = torch.randn(2, 3), torch.randn(2, 4)
    (a_r, a_z, a_n), (u_r, u_z, u_n), (b_r, b_z, b_n) = (
        w.chunk(3) for w in (cell.w_x, cell.w_h, cell.b)
    )
    r = torch.sigmoid(x @ a_r.t() + h @ u_r.t() + b_r)
    z = torch.sigmoid(x @ a_z.t() + h @ u_z.t() + b_z)
    n = torch.tanh(x @ a_n.t() + (r * h) @ u_n.t() + b_n)
    torch.testing.assert_close(cell.walk(x[None], (h,), cell.w_h)[1][0], (1 - z) * h + z * n)


def test_layer_norm_leaves_the_memory_alone():
    """With the forget gate open and the input gate shut c must stay as it is, however large (E-24)."""
    stack = RecurrentStack(3, 4, layer_norm=True)
    cell = stack.layers[0]
    with torch.no_grad():
        cell.b.copy_(torch.tensor([-40.0, 40.0, 0.0, 0.0]).repeat_interleave(4))
    c = torch.tensor([[100.0, -3.0, 0.5, 7.0]])
    _, ((h, after),) = stack(torch.randn(1, 5, 3), ((torch.zeros(1, 4), c),))
    torch.testing.assert_close(after, c)
    shown = torch.tanh(torch.nn.functional.layer_norm(c, (4,)))
    assert ((h / shown) > 0).all()
    assert ((h / shown) < 1).all()


def test_layer_norm_ignores_the_scale_of_the_weights():
    for cell in ("lstm", "gru"):
        stack = noisy(RecurrentStack(8, 9, cell=cell, layer_norm=True))
        x = torch.randn(2, 5, 8)
        before = stack(x)[0]
        with torch.no_grad():
            stack.layers[0].w_x.mul_(20.0)
            stack.layers[0].w_h.mul_(20.0)
        torch.testing.assert_close(
            stack(x)[0], before, atol=2e-3, rtol=1e-3
        )  # not exactly: layer norm's epsilon


def test_names_and_shapes_are_the_saved_format():
    def shapes(**options):
        return {
            name: tuple(value.shape)
            for name, value in RecurrentStack(3, 5, **options).named_parameters()
        }

    assert shapes() == {"layers.0.w_x": (20, 3), "layers.0.w_h": (20, 5), "layers.0.b": (20,)}
    assert shapes(cell="gru") == {
        "layers.0.w_x": (15, 3),
        "layers.0.w_h": (15, 5),
        "layers.0.b": (15,),
        "layers.0.b_h": (5,),
    }
    assert shapes(cell="gru", reset="before").keys() == {
        "layers.0.w_x",
        "layers.0.w_h",
        "layers.0.b",
    }
    assert shapes(d_projection=2)["layers.0.w_p"] == (2, 5)
    assert shapes(d_projection=2)["layers.0.w_h"] == (20, 2)
    full = shapes(layer_norm=True, learned_start=True, bidirectional=True)
    assert (
        full["layers.0.norm_c.weight"]
        == full["layers.0.start_c"]
        == full["layers.0.reverse.start_h"]
        == (5,)
    )
    assert full["layers.0.norm_x.bias"] == full["layers.0.reverse.norm_h.weight"] == (20,)


def test_documented_parameter_counts():
    """Spec W6 and W7: one bias a gate."""

    def count(module):
        return sum(p.numel() for p in module.parameters())

    assert count(RecurrentStack(100, 256)) == 365_568
    assert count(RecurrentStack(100, 256, cell="gru", reset="before")) == 274_176
    assert count(RecurrentStack(300, 512)) == 1_665_024


def test_start_state():
    assert not any(leaf.any() for layer in RecurrentStack(3, 4, 2).start(5) for leaf in layer)
    stack = noisy(RecurrentStack(3, 4, learned_start=True, d_projection=2, bidirectional=True))
    (state,) = stack.start(5)
    assert [tuple(leaf.shape) for leaf in state] == [(5, 2), (5, 4), (5, 2), (5, 4)]
    torch.testing.assert_close(state[3][4], stack.layers[0].reverse.start_c)
    out, _ = stack(torch.randn(5, 2, 3))
    out.sum().backward()
    assert stack.layers[0].start_c.grad.abs().sum() > 0


def test_residual_adds_where_widths_agree():
    stack = RecurrentStack(4, 5, 2, residual=True)
    first, second = RecurrentStack(4, 5), RecurrentStack(5, 5)
    for index, one in enumerate((first, second)):
        one.layers[0].load_state_dict(stack.layers[index].state_dict())
    x = torch.randn(2, 3, 4)
    between = first(x)[0]
    torch.testing.assert_close(stack(x)[0], between + second(between)[0])


def test_diverged_weights_are_seen():
    """A NaN must come out as one, or a broken run goes on unseen."""
    for cell in ("lstm", "gru", "rnn"):
        stack = RecurrentStack(4, 16, cell=cell)
        with torch.no_grad():
            stack.layers[0].w_x[0, 0] = float("nan")
        assert stack(torch.randn(2, 3, 4))[0].isnan().any()


def test_large_inputs_saturate():
    stack = RecurrentStack(1, 8, cell="gru")
    with torch.no_grad():
        stack.layers[0].w_x.copy_(torch.linspace(-60, 60, 24).view(-1, 1))
    out, _ = stack(torch.full((1, 50, 1), 100.0))
    assert out.isfinite().all()
    assert out.abs().max() <= 1.0


def test_empty_and_wrong_input():
    stack = RecurrentStack(4, 5, 2, cell="gru")
    out, state = stack(torch.randn(3, 0, 4))
    assert out.shape == (3, 0, 5)
    assert state[0][0].shape == (3, 5)
    assert stack(torch.randn(0, 3, 4))[0].shape == (0, 3, 5)
    for bad, message in (
        (lambda: stack(torch.randn(3, 4)), r"\(B, T, 4\)"),
        (lambda: stack(torch.randn(3, 2, 5)), r"\(B, T, 4\)"),
        (lambda: stack(torch.randn(3, 2, 4), None, torch.tensor([1, 3, 1])), "0..2"),
        (lambda: stack(torch.randn(3, 2, 4), None, torch.tensor([1])), "one entry a row"),
        (lambda: stack(torch.randn(3, 2, 4), stack.start(3)[:1]), "1 layers"),
        (lambda: RecurrentStack(4, 5, cell="gru", d_projection=3), "LSTM"),
        (lambda: RecurrentStack(4, 5, dropout=1.0), "below 1"),
        (lambda: RecurrentStack(4, 5, residual=True), "width"),
        (lambda: RecurrentStack(4, 5, cell="mlp"), "mlp"),
        (lambda: RecurrentStack(4, 0), "at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
