"""What whole walks of recurrent layers hand out: the numbers of the reference in float64, and to the bit
those of the same cell, step by step.
"""

import numpy as np
import pytest

from seqloom.batching import offsets
from seqloom.reference import GRU, LSTM, RNN
from seqloom.runtime.cells import Sequences
from seqloom.runtime.recurrent import RecurrentStack, walk_by_cell
from seqloom.runtime.weights import Recorder, Weights
from seqloom.traces import Trace

D, H, LENGTHS = 6, 37, [5, 9, 1, 7]
SEQUENCES = Sequences.at(offsets(np.array(LENGTHS)))
X = np.random.default_rng(3).normal(size=(sum(LENGTHS), D)).astype(np.float32)
CLASSES = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
CASES = [
    ("rnn", {}),
    ("rnn", {"activation": "relu"}),
    ("lstm", {}),
    *(("gru", {"reset": r, "update": u}) for r in ("after", "before") for u in ("keep", "replace")),
]


def made(cell, options, **more):
    recorder, rng = Recorder(), np.random.default_rng(0)
    RecurrentStack(recorder, D, H, 2, cell=cell, options=options, **more)
    arrays = {
        name: rng.normal(0, 0.4, each.shape).astype(np.float32)
        for name, each in recorder.declared.items()
    }
    return arrays, RecurrentStack(Weights(arrays), D, H, 2, cell=cell, options=options, **more)


@pytest.mark.parametrize("both", [False, True], ids=["one", "both"])
@pytest.mark.parametrize(("cell", "options"), CASES, ids=str)
def test_gates_and_states_are_those_of_the_reference(cell, options, both):
    arrays, stack = made(cell, options, bidirectional=both, learned_start=True)
    trace = Trace()
    assert np.array_equal(stack.walk(X, SEQUENCES, trace)[0], stack.walk(X, SEQUENCES)[0])
    x = X
    for layer in range(2):
        for side in ["", "reverse."][: 1 + both]:
            part = f"layers.{layer}.{side}"
            params = {
                name: arrays[part + name].astype(np.float64)
                for name in ("w_x", "w_h", "b", "b_h")
                if part + name in arrays
            }
            found = trace.within(part.removesuffix("."))
            for low, high in zip(SEQUENCES.offsets, SEQUENCES.offsets[1:]):
                way = slice(None, None, -1) if side else slice(None)
                start = tuple(
                    arrays[f"{part}start_{leaf}"][None] for leaf in "hc"[: 1 + (cell == "lstm")]
                )
                expected = CLASSES[cell](params, **options).forward(x[low:high][way][None], start)
                for name in found:
                    if name == "out" or name.startswith("reverse."):
                        continue
                    right = getattr(expected, name.removeprefix("gates."))[0][way]
                    far = np.abs(found[name][low:high] - right).max()
                    assert far < 1e-5 * max(np.abs(right).max(), 1), (part, name)
        x = trace[f"layers.{layer}.out"]


@pytest.mark.parametrize(
    "wanted", [(), ("*.gates.*",), ("*.c", "*.h"), ("*reverse.gates.z", "*.gates.f")]
)
@pytest.mark.parametrize("cell", CLASSES)
def test_one_call_hands_out_what_steps_do(cell, wanted):
    _, stack = made(cell, {}, bidirectional=True)
    assert all(direction.plain for layer in stack.layers for direction in layer)
    ours = Trace(*wanted)
    stack.walk(X, SEQUENCES, ours)
    theirs, x = Trace(*wanted), X
    for i, layer in enumerate(stack.layers):
        x, _ = walk_by_cell(layer, x, SEQUENCES, theirs.within(f"layers.{i}"))
        theirs.add(f"layers.{i}.out", x)
    assert sorted(ours) == sorted(theirs)
    assert cell == "rnn" or ours
    for name, array in ours.items():
        assert np.array_equal(array, theirs[name]), name


@pytest.mark.parametrize("options", [{}, {"layer_norm": True}], ids=str)
def test_inputs_and_their_part_of_the_sums_are_there_when_asked_for(options):
    _, stack = made("lstm", {}, **options)
    everything, asked = Trace(), Trace("layers.1.x", "layers.*.from_x")
    stack.walk(X, SEQUENCES, everything)
    stack.walk(X, SEQUENCES, asked)
    assert not {"layers.1.x", "layers.0.from_x"} & set(everything)
    assert sorted(asked) == ["layers.0.from_x", "layers.1.from_x", "layers.1.x"]
    assert np.array_equal(asked["layers.1.x"], everything["layers.0.out"])
    cell = stack.layers[1][0]
    assert np.array_equal(asked["layers.1.from_x"], cell.project(asked["layers.1.x"]))
    states, steps = stack.start(1), []
    for t in range(LENGTHS[0]):
        at = Trace("*x")
        _, states = stack.step(X[t : t + 1], states, at)
        steps.append(at["layers.1.from_x"][0])
    np.testing.assert_allclose(np.stack(steps), asked["layers.1.from_x"][: LENGTHS[0]], atol=1e-6)
