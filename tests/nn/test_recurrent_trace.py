"""Traces of recurrent layers: gates and states are those of the equations, whatever the options."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.nn.cells import Cell
from seqloom.nn.encoders import make_encoder
from seqloom.nn.recurrent import RecurrentStack
from seqloom.reference.gru import GRU
from seqloom.reference.lstm import LSTM
from seqloom.reference.rnn import RNN
from seqloom.traces import Trace

D, H, LAYERS, STEPS = 4, 5, 2, 6
GATES = {"lstm": "ifgo", "gru": "rzn", "rnn": ""}
PLAIN = [{"cell": cell} | extra for cell in GATES for extra in ({}, {"bidirectional": True})]
PLAIN += [
    {"cell": "gru", "update": "replace"},
    {"cell": "gru", "reset": "before"},
    {"cell": "rnn", "activation": "relu"},
    {"cell": "lstm", "bidirectional": True, "learned_start": True},
]
NORMED = [{"cell": cell, "layer_norm": True} for cell in GATES]
NORMED += [
    {"cell": "lstm", "d_projection": 3},
    {"cell": "lstm", "d_projection": 3, "layer_norm": True},
    {"cell": "gru", "reset": "before", "layer_norm": True, "update": "replace"},
    {"cell": "gru", "residual": True},
    {"cell": "lstm", "residual": True, "bidirectional": True},
]
ROWS = [None, [6, 2, 4], [6, 0, 3]]
X = torch.randn(3, STEPS, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def make(**options):
    torch.manual_seed(0)
    stack = RecurrentStack(D, H, LAYERS, **options).double().eval()
    with torch.no_grad():
        for p in stack.parameters():
            p.add_(0.4 * torch.randn_like(p))
    return stack


def run(stack, lengths, trace=None, **options):
    out, state = stack(
        X, None, None if lengths is None else torch.tensor(lengths), trace=trace, **options
    )
    return torch.cat([out.flatten(), *(leaf.flatten() for layer in state for leaf in layer)])


def inside(lengths):
    return torch.arange(STEPS) < torch.tensor(lengths or [STEPS] * 3)[:, None]


def directions(stack, trace):
    """Each cell with what it added, the layer's input, and whether it reads backwards."""
    x = X
    for index, layer in enumerate(stack.layers):
        view = trace.within(f"layers.{index}")
        yield layer, view, x, False
        if layer.reverse is not None:
            yield layer.reverse, view.within("reverse"), x, True
        x = view["out"]


def backwards(x, lengths):
    """Rows (B, T, ...) each from its own end; padding stays where it is."""
    rows = [torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, lengths or [STEPS] * 3)]
    return torch.stack(rows)


@pytest.mark.parametrize("lengths", ROWS, ids=str)
@pytest.mark.parametrize("options", PLAIN + NORMED, ids=str)
def test_a_trace_changes_nothing_and_has_every_part(options, lengths):
    stack = make(**options)
    for final_state in (True, False):
        trace = Trace()
        traced = run(stack, lengths, trace, final_state=final_state)
        torch.testing.assert_close(
            traced, run(stack, lengths, final_state=final_state), atol=1e-6, rtol=0
        )
        parts = [*(f"gates.{gate}" for gate in GATES[options["cell"]]), *stack.layers[0].leaves]
        sides = ["", "reverse."] if "bidirectional" in options else [""]
        expected = {
            f"layers.{i}.{side}{part}" for i in range(LAYERS) for side in sides for part in parts
        }
        assert set(trace) == expected | {f"layers.{i}.out" for i in range(LAYERS)}
        for name, value in trace.items():
            width = {"out": stack.d_out, "h": options.get("d_projection", H)}.get(
                name.rsplit(".", 1)[1], H
            )
            assert value.shape == (3, STEPS, width), name
            assert not value[~inside(lengths)].any(), name
        out = stack(X, None, None if lengths is None else torch.tensor(lengths))[0]
        torch.testing.assert_close(trace[f"layers.{LAYERS - 1}.out"], out)
        if "residual" not in options:
            for i in range(LAYERS):
                both = torch.cat([trace[f"layers.{i}.{side}h"] for side in sides], 2)
                torch.testing.assert_close(both, trace[f"layers.{i}.out"])


@pytest.mark.parametrize("lengths", ROWS, ids=str)
@pytest.mark.parametrize("options", PLAIN, ids=str)
def test_gates_and_states_are_those_of_the_reference(options, lengths):
    stack, trace = make(**options), Trace()
    run(stack, lengths, trace)
    mask = inside(lengths)
    for cell, view, x, reverse in directions(stack, trace):
        params = {name: getattr(cell, name).detach().numpy() for name in ("w_x", "w_h", "b")}
        if options["cell"] == "lstm":
            reference = LSTM(params)
        elif options["cell"] == "gru":
            extra = {} if cell.b_h is None else {"b_h": cell.b_h.detach().numpy()}
            reference = GRU({**params, **extra}, update=cell.update, reset=cell.reset)
        else:
            reference = RNN(params, activation=cell.activation)
        read = backwards(x, lengths) if reverse else x
        start = tuple(leaf.detach().numpy().copy() for leaf in cell.start(3))
        expected = reference.forward(read.detach().numpy(), start, mask.numpy())
        for name in view:
            if name.startswith("reverse") or name == "out":
                continue
            value = view[name].detach()
            value = backwards(value, lengths) if reverse else value
            theirs = getattr(expected, name.removeprefix("gates."))
            assert np.allclose(value[mask], theirs[mask.numpy()], atol=1e-12), name


@pytest.mark.parametrize("options", PLAIN + NORMED, ids=str)
def test_states_follow_from_the_gates(options):
    """With norms, projections and residuals too: c from i, f, g; h from o and c, or from z and n."""
    lengths = [6, 2, 4]
    stack, trace = make(**options), Trace()
    run(stack, lengths, trace)
    for cell, view, _, reverse in directions(stack, trace):
        value = {
            name: backwards(view[name], lengths) if reverse else view[name] for name in cell.traced
        }
        start = dict(zip(cell.leaves, cell.start(3)))
        before = {
            leaf: torch.cat([start[leaf][:, None], value[leaf][:, :-1]], 1) for leaf in cell.leaves
        }
        if options["cell"] == "lstm":
            c = value["gates.f"] * before["c"] + value["gates.i"] * value["gates.g"]
            h = value["gates.o"] * torch.tanh(c if cell.norm_c is None else cell.norm_c(c))
            h = h if cell.w_p is None else h @ cell.w_p.T
            torch.testing.assert_close(value["c"][inside(lengths)], c[inside(lengths)])
        elif options["cell"] == "gru":
            z = value["gates.z"] if cell.update == "keep" else 1 - value["gates.z"]
            h = z * before["h"] + (1 - z) * value["gates.n"]
        else:
            continue
        torch.testing.assert_close(value["h"][inside(lengths)], h[inside(lengths)])


@pytest.mark.parametrize("cell", GATES)
def test_float32_is_within_a_millionth(cell):
    torch.manual_seed(0)
    stack, x = RecurrentStack(20, 30, 2, cell=cell, bidirectional=True), torch.randn(4, 25, 20)
    torch.testing.assert_close(stack(x, trace=Trace())[0], stack(x)[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("option", ["recurrent_dropout", "weight_drop", "dropout"])
@pytest.mark.parametrize("cell", GATES)
def test_what_is_dropped_is_drawn_alike(cell, option):
    stack = make(cell=cell, **{option: 0.3}).train()
    outputs = []
    for trace in (None, Trace()):
        torch.manual_seed(3)
        outputs.append(run(stack, None, trace))
    torch.testing.assert_close(*outputs)
    assert not torch.allclose(outputs[0], run(stack, None))  # another draw is another result


def test_only_what_is_wanted_is_computed(monkeypatch):
    stack = make(cell="lstm", bidirectional=True)
    walked = []
    walk = Cell.walk

    def watched(self, *args, **options):
        walked.append(self)
        return walk(self, *args, **options)

    monkeypatch.setattr(Cell, "walk", watched)
    for pattern, names, n in [
        ("*.out", {"layers.0.out", "layers.1.out"}, 0),
        ("layers.1.c", {"layers.1.c"}, 1),
        ("*.reverse.gates.f", {f"layers.{i}.reverse.gates.f" for i in range(2)}, 2),
    ]:
        walked.clear()
        trace = Trace(pattern)
        run(stack, [6, 2, 4], trace)
        assert len(walked) == n
        assert set(trace) == names
    walked.clear()
    run(stack, [6, 2, 4], Trace())
    assert len(walked) == 4
    walked.clear()
    run(stack, [6, 2, 4])
    assert not walked


def test_a_state_that_is_carried_on_continues_the_trace():
    stack = make(cell="lstm")
    whole, left, right = Trace(), Trace(), Trace()
    stack(X, trace=whole)
    _, state = stack(X[:, :2], trace=left)
    stack(X[:, 2:], state, trace=right)
    for name, value in whole.items():
        torch.testing.assert_close(torch.cat([left[name], right[name]], 1), value)


@pytest.mark.parametrize("name", ["bilstm", "gru", "window", "cnn"])
def test_encoders_name_their_layers(name):
    torch.manual_seed(0)
    encoder, trace = make_encoder(name, D, 8, 2).double(), Trace()
    lengths = torch.tensor([6, 2, 4])
    out = encoder(X, lengths, trace)
    torch.testing.assert_close(out, encoder(X, lengths))
    place = "stack.layers" if name in ("bilstm", "gru") else "layers"
    torch.testing.assert_close(trace[f"{place}.1.out"], out)
    saved = {key.rsplit(".", 1)[0] for key in encoder.state_dict()}
    assert {key.rsplit(".", 1)[0].removesuffix(".gates") for key in trace} == saved
