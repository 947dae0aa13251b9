"""Gates that are held: against the equations in NumPy with the gate overwritten."""

import numpy as np
import pytest

import seqloom
from seqloom.contracts.transforming import tokens_before
from seqloom.errors import ConfigError
from seqloom.kernels.maths import ACTIVATIONS, activate
from seqloom.models.network.clamping import held, inverse
from seqloom.models.network.recurrence import layers_of
from seqloom.traces import Trace
from tests.runtime.networks import language
from tests.saved import NEWEST

TEXT = "to be or not to be"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def bits_by_hand(model, gate, value, unit=None, layers=(0,)):
    """One token after another in float64, and each gate overwritten after its activation."""
    w = {name: np.asarray(array, np.float64) for name, array in model.weights.items()}
    ids = np.asarray(model.encode(TEXT)[0])
    kind, width = model.name, model.config.d_hidden
    states = [[np.zeros(width), np.zeros(width)] for _ in range(model.config.n_layers)]
    bits = []
    for token, after in zip(tokens_before(model, ids), ids):
        x = w["embedding.weight"][token]
        for k, state in enumerate(states):
            own = {name: w[f"recurrent.layers.{k}.{name}"] for name in ("w_x", "w_h", "b")}
            from_x, from_h = own["w_x"] @ x + own["b"], own["w_h"] @ state[0]
            names = "ifgo" if kind == "lstm" else "rzn"

            def overwritten(name, numbers, k=k):
                if name == gate and k in layers:
                    numbers[slice(None) if unit is None else unit] = value
                return numbers

            parts = {
                name: (from_x[j * width :][:width], from_h[j * width :][:width])
                for j, name in enumerate(names)
            }
            if kind == "lstm":
                i, f, o = (overwritten(name, sigmoid(sum(parts[name]))) for name in "ifo")
                g = overwritten("g", np.tanh(sum(parts["g"])))
                state[1] = f * state[1] + i * g
                state[0] = o * np.tanh(state[1])
            else:
                r, z = (overwritten(name, sigmoid(sum(parts[name]))) for name in "rz")
                b_h = w[f"recurrent.layers.{k}.b_h"]
                n = overwritten("n", np.tanh(parts["n"][0] + r * (parts["n"][1] + b_h)))
                state[0] = z * state[0] + (1 - z) * n
            x = state[0]
        scores = w["embedding.weight"] @ x + w["output.bias"]
        scores -= scores.max()
        bits.append((np.log(np.exp(scores).sum()) - scores[after]) / np.log(2))
    return np.array(bits)


@pytest.mark.parametrize(
    ("kind", "gate", "value"),
    [(kind, gate, value) for kind, gates in (("lstm", "ifgo"), ("gru", "rzn")) for gate in gates
     for value in (0, 1)],
)  # fmt: skip
def test_the_cost_is_that_of_the_equations(kind, gate, value):
    model = language(kind, n_layers=2)
    options = {"gate": gate, "value": str(value)}
    found = seqloom.inspect.clamp(model, TEXT, layer=1, **options).data
    own = bits_by_hand(model, None, 0)
    np.testing.assert_allclose(found["own"], own, atol=1e-4)
    expected = bits_by_hand(model, gate, value, layers=(1,))
    np.testing.assert_allclose(found["costs"][f"{gate}={value}"], expected, atol=1e-4)
    assert found["rows"][0]["more"] == pytest.approx((expected - own).mean(), abs=1e-5)
    of_one = seqloom.inspect.clamp(model, TEXT, layer=0, unit=3, **options).data
    expected = bits_by_hand(model, gate, value, unit=3)
    np.testing.assert_allclose(of_one["costs"][f"{gate}={value}"], expected, atol=1e-4)


def test_a_mean_is_that_of_each_unit():
    model = language("lstm")
    mean = seqloom.inspect.gates(model, TEXT).data["gates.f"].mean(0)
    found = seqloom.inspect.clamp(model, TEXT, gate="f", value="mean").data
    np.testing.assert_allclose(found["costs"]["f=mean"], bits_by_hand(model, "f", mean), atol=1e-4)


VARIANTS = [
    ("lstm", {"layer_norm": True}),
    ("lstm", {"norm": "states", "gate_activation": "hard-sigmoid", "activation": "leaky-relu"}),
    ("lstm", {"d_projection": 20, "learned_start": True, "clamp": 0.5}),
    ("gru", {"layer_norm": True, "reset": "before", "update": "replace"}),
    ("gru", {"gate_activation": "hard-sigmoid", "activation": "sigmoid"}),
]


@pytest.mark.parametrize(("kind", "options"), VARIANTS, ids=str)
def test_in_every_variant_the_gate_is_the_value_and_the_others_still_read(kind, options):
    model = language(kind, **options)
    (layer,) = layers_of(model)
    ids = tokens_before(model, np.asarray(model.encode(TEXT)[0]))[:2]  # the state is then the same
    own = Trace("*.gates.*")
    model.runtime().read(ids[:1], np.array([0, 1]), own)
    for gate in layer.cell.gate_names:
        for value in (0.0, 0.25, 1.0):
            trace = Trace("*.gates.*")
            held(model, [layer], gate, value).read(ids, np.array([0, 2]), trace)
            np.testing.assert_allclose(trace[f"{layer.name}.gates.{gate}"], value, atol=1e-6)
            for other in set(layer.cell.gate_names) - {gate, "n"}:  # n reads r
                name = f"{layer.name}.gates.{other}"
                np.testing.assert_allclose(trace[name][0], own[name][0], atol=1e-6)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu", "leaky-relu", "hard-sigmoid"])
def test_inverses(activation):
    values = np.array([0.0, 0.2, 0.7, 1.0])
    numbers = inverse(activation, values).astype(np.float32)[None]
    kind = ACTIVATIONS.index(activation)
    np.testing.assert_allclose(activate(numbers, kind)[0], values, atol=1e-6)


def test_what_cannot_be_held_is_said():
    model = language("lstm")
    with pytest.raises(ConfigError, match="unknown gate 'z'"):
        seqloom.inspect.clamp(model, TEXT, gate="z")
    with pytest.raises(ConfigError, match="unit must be from 0 to 35"):
        seqloom.inspect.clamp(model, TEXT, unit=36)
    with pytest.raises(ConfigError, match="no view 'clamp'"):
        seqloom.inspect.clamp(language("rnn"), TEXT)
    rounded = seqloom.inspect.clamp(seqloom.load(NEWEST / "lstm-4-bit"), "the cat", gate="f")
    assert any("rounded" in line for line in rounded.summary)
