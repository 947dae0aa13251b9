"""Steps without torch against the equations: `reference` in float64 for recurrent cells, Bengio's
first for the NPLM.

`test_equals_nn` compares with torch's networks; here is that both are not wrong alike, and torch is
not needed.
"""

import numpy as np
import pytest

from seqloom.reference import GRU, LSTM, RNN
from seqloom.runtime import encoders
from seqloom.runtime.attention import Attention
from seqloom.runtime.language import NPLMNet, NPLMStepper, RecurrentNet, RecurrentStepper
from seqloom.runtime.outputs import FullSoftmax
from seqloom.runtime.weights import Recorder, Weights

V, E, H, EOS, ORDER = 11, 6, 5, 2, 4
IDS = np.random.default_rng(7).integers(0, V, (3, 9))  # three sequences of nine tokens
CLASSES = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
CELLS = [("rnn", {}), ("rnn", {"activation": "relu"}), ("lstm", {})]
CELLS += [
    ("gru", {"reset": r, "update": u}) for r in ("after", "before") for u in ("keep", "replace")
]
CELLS += [
    ("rnn", {"activation": "sigmoid"}),
    ("rnn", {"recurrence": "pascanu", "activation": "leaky-relu", "clamp": 0.6}),
    ("rnn", {"recurrence": "continuous", "time_step": 0.4}),
    ("lstm", {"gate_activation": "hard-sigmoid", "activation": "leaky-relu", "clamp": 0.5}),
    ("lstm", {"state_norm": True}),
    ("gru", {"gate_activation": "hard-sigmoid", "activation": "leaky-relu", "clamp": 0.5}),
    ("gru", {"reset": "before", "gate_activation": "hard-sigmoid", "state_norm": True}),
]


def drawn(take):
    """Random arrays of the shapes that a network takes."""
    recorder, rng = Recorder(), np.random.default_rng(0)
    take(recorder)
    return {
        name: rng.normal(0, 0.6, each.shape).astype(np.float32)
        for name, each in recorder.declared.items()
    }


def through(stepper, ids=IDS):
    """Log-probabilities before every token and after the last, (n, T + 1, V), and the features of each."""
    state, log_probs = stepper.start(len(ids))
    out, features = [log_probs], [stepper.features(state)]
    for t in range(ids.shape[1]):
        state, log_probs = stepper.step(state, ids[:, t])
        out.append(log_probs)
        features.append(stepper.features(state))
    return np.stack(out, 1), np.stack(features, 1)


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def far(found, expected):
    """How far apart they are, in units of the largest number, or of one: relu lets states grow."""
    return np.abs(found - expected).max() / max(np.abs(expected).max(), 1)


def recurrent(cell, *, tied=False, **options):
    norm = "states" if options.get("state_norm") else "none"

    def take(weights):
        return RecurrentNet(weights, V, E, H, 2, cell=cell, tied=tied, norm=norm, options=options)

    arrays = drawn(take)
    return arrays, RecurrentStepper(take(Weights(arrays)), EOS)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("cell", "options"), CELLS, ids=str)
def test_recurrent_steps(cell, options, tied):
    arrays, stepper = recurrent(cell, tied=tied, **options)
    exact = {name: array.astype(np.float64) for name, array in arrays.items()}
    x = exact["embedding.weight"][np.concatenate([np.full((3, 1), EOS), IDS], 1)]
    for layer in range(2):
        part = f"recurrent.layers.{layer}."
        params = {
            name.removeprefix(part): array for name, array in exact.items() if name.startswith(part)
        }
        own = {name: value for name, value in options.items() if name != "state_norm"}
        x = CLASSES[cell](params, **own).forward(x).h
    if tied:
        x = x @ exact["bridge.weight"].T + exact["bridge.bias"]
    logits = x @ exact["embedding.weight" if tied else "output.weight"].T + exact["output.bias"]
    for rows in (IDS, IDS[:1]):
        ours, features = through(stepper, rows)
        assert far(ours, log_softmax(logits)[: len(rows)]) < 3e-6
        assert far(features, x[: len(rows)]) < 3e-6


@pytest.mark.parametrize("direct", [False, True])
def test_nplm_steps(direct):
    def take(weights):
        return NPLMNet(weights, V, ORDER, E, H, direct=direct)

    arrays = drawn(take)
    a = {name: array.astype(np.float64) for name, array in arrays.items()}
    ours, features = through(NPLMStepper(take(Weights(arrays)), EOS))
    for row, ids in enumerate(IDS.tolist()):
        padded = [EOS, EOS, EOS, *ids]
        for t in range(len(ids) + 1):
            x = np.concatenate([a["embedding.weight"][token] for token in padded[t : t + 3]])
            hidden = np.tanh(a["hidden.bias"] + a["hidden.weight"] @ x)
            w, u = a["output.weight"][:, H:], a["output.weight"][:, :H]
            y = a["output.bias"] + u @ hidden + (w @ x if direct else 0)
            assert np.abs(ours[row, t] - log_softmax(y)).max() < 3e-6
            assert np.abs(features[row, t, :H] - hidden).max() < 3e-6


def test_a_broken_model_is_noticed():
    arrays, _ = recurrent("lstm")
    arrays["recurrent.layers.0.w_x"][3, 1] = np.nan
    network = RecurrentNet(Weights(arrays), V, E, H, 2, cell="lstm", tied=False)
    assert np.isnan(RecurrentStepper(network, EOS).start(1)[1]).all()


def test_tokens_that_are_never_written_leave_the_saved_bias_alone():
    arrays = {"weight": np.ones((3, 2), np.float32), "bias": np.zeros(3, np.float32)}
    log_probs = FullSoftmax(Weights(arrays), 2, 3, never=[1]).log_probs(np.ones((1, 2), np.float32))
    assert np.isneginf(log_probs[0]).tolist() == [False, True, False]
    assert arrays["bias"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("length", [encoders.ROTARY_ROOM + more for more in (-1, 0, 1)])
def test_every_step_has_a_row_in_the_tables_of_rotary_positions(length, monkeypatch):
    """The kernel does not look whether it has one."""
    real, rooms = encoders.rotary_tables, []
    monkeypatch.setattr(
        encoders,
        "rotary_tables",
        lambda room, *others: rooms.append(room) or real(2 * length, *others),
    )
    encoder = encoders.Transformer(
        Weights(drawn(lambda w: encoders.Transformer(w, 4, 8, 1))), 4, 8, 1
    )
    encoder(np.ones((length, 4), np.float32), np.array([0, length]))
    assert rooms[0] >= length


def test_what_reads_a_memory_has_inputs_of_16_bits():
    """Its errors would be in every step that looks at it; a query is used once."""
    attention = Attention(Weights(drawn(lambda w: Attention(w, 8, 2)), eight_bit=True), 8, 2)
    assert (attention.memory.inputs_16_bit, attention.query.inputs_16_bit) == (True, False)
