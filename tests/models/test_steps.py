"""The decode path without torch against the networks of `nn`, the equations of `reference`, and torch.nn."""

import numpy as np
import pytest
from seqloom.models.language.gpt_steps import GPTStepper
from seqloom.models.language.nplm_steps import NPLMStepper
from seqloom.models.language.recurrent_steps import RecurrentStepper
from seqloom.models.network.step_weights import Matrix

from seqloom.decoding.stepper import join, prefill_by_steps, select
from seqloom.kernels import decode

V, E, H, EOS = 11, 6, 5, 2
IDS = np.random.default_rng(7).integers(0, V, (3, 9))  # three sequences of nine tokens


def random_arrays(shapes, seed=0, scale=0.6):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, scale, shape).astype(np.float32) for name, shape in shapes.items()}


def through(stepper, ids=IDS):
    """Log-probabilities before every token and after the last, (n, T + 1, V), and the features of each."""
    state, log_probs = stepper.start(len(ids))
    out, features = [log_probs.copy()], [stepper.features(state)]
    for t in range(ids.shape[1]):
        state, log_probs = stepper.step(state, ids[:, t])
        out.append(log_probs.copy())
        features.append(stepper.features(state))
    return np.stack(out, 1), np.stack(features, 1)


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def with_eos(ids=IDS):
    return np.concatenate([np.full((len(ids), 1), EOS), ids], 1)


def recurrent_arrays(cell, *, output=True, before=False):
    gates = {"rnn": 1, "lstm": 4, "gru": 3}[cell]
    shapes = {"embedding.weight": (V, E), "output.bias": (V,)}
    if output:
        shapes["output.weight"] = (V, H)
    else:
        shapes |= {"bridge.weight": (E, H), "bridge.bias": (E,)}
    for layer, width in enumerate((E, H)):
        place = f"recurrent.layers.{layer}."
        shapes |= {f"{place}w_x": (gates * H, width), f"{place}w_h": (gates * H, H), f"{place}b": (gates * H,)}
        if cell == "gru" and not before:
            shapes[f"{place}b_h"] = (H,)
    return random_arrays(shapes)


CELLS = [("rnn", {}), ("rnn", {"activation": "relu"}), ("lstm", {})]
CELLS += [("gru", {"reset": r, "update": u}) for r in ("after", "before") for u in ("keep", "replace")]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("cell", "options"), CELLS, ids=str)
def test_recurrent_steps_follow_the_equations(cell, options, tied):
    from seqloom.reference import GRU, LSTM, RNN

    arrays = recurrent_arrays(cell, output=not tied, before=options.get("reset") == "before")
    exact = {name: array.astype(np.float64) for name, array in arrays.items()}
    x = exact["embedding.weight"][with_eos()]
    for layer in range(2):
        place = f"recurrent.layers.{layer}."
        params = {name.removeprefix(place): array for name, array in exact.items() if name.startswith(place)}
        x = {"rnn": RNN, "lstm": LSTM, "gru": GRU}[cell](params, **options).forward(x).h
    if tied:
        x = x @ exact["bridge.weight"].T + exact["bridge.bias"]
    logits = x @ exact["embedding.weight" if tied else "output.weight"].T + exact["output.bias"]
    stepper = RecurrentStepper(arrays, cell=cell, n_layers=2, eos_id=EOS, **options)
    for rows in (IDS, IDS[:1]):  # many sequences and one take different products
        ours, features = through(stepper, rows)
        assert np.abs(ours - log_softmax(logits)[: len(rows)]).max() < 3e-6
        assert np.abs(features - x[: len(rows)]).max() < 3e-6


def test_lstm_is_torch_s():
    torch = pytest.importorskip("torch")
    arrays = recurrent_arrays("lstm")
    net = torch.nn.LSTM(E, H, 2, batch_first=True)
    for layer in range(2):
        for theirs, name in (("weight_ih", "w_x"), ("weight_hh", "w_h"), ("bias_ih", "b")):
            getattr(net, f"{theirs}_l{layer}").data = torch.from_numpy(arrays[f"recurrent.layers.{layer}.{name}"])
        getattr(net, f"bias_hh_l{layer}").data.zero_()
    with torch.no_grad():
        y, _ = net(torch.from_numpy(arrays["embedding.weight"][with_eos()]))
    logits = y.numpy() @ arrays["output.weight"].T + arrays["output.bias"]
    ours, _ = through(RecurrentStepper(arrays, cell="lstm", n_layers=2, eos_id=EOS))
    assert np.abs(ours - log_softmax(logits)).max() < 3e-6


STACKS = [("rnn", {"layer_norm": True}), ("rnn", {"activation": "relu", "layer_norm": True, "learned_start": True}),
          ("lstm", {"layer_norm": True}), ("lstm", {"d_projection": 3, "learned_start": True}), ("lstm", {"residual": True}),
          ("gru", {"layer_norm": True, "learned_start": True}), ("gru", {"residual": True, "update": "replace"}),
          ("gru", {"layer_norm": True, "reset": "before", "update": "replace"})]


@pytest.mark.parametrize(("cell", "options"), STACKS, ids=str)
def test_recurrent_options_are_those_of_the_stack(cell, options):
    torch = pytest.importorskip("torch")
    from seqloom.nn.recurrent import RecurrentStack

    torch.manual_seed(0)
    stack = RecurrentStack(E, H, 3, cell=cell, **options).eval()
    for parameter in stack.parameters():  # norms and starts do something only away from where they begin
        torch.nn.init.normal_(parameter, 0.2, 0.6)
    arrays = {f"recurrent.{name}": array.numpy() for name, array in stack.state_dict().items()}
    arrays |= random_arrays({"embedding.weight": (V, E), "output.weight": (V, stack.d_out), "output.bias": (V,)})
    with torch.no_grad():
        y = stack(torch.from_numpy(arrays["embedding.weight"][with_eos()]))[0].numpy()
    known = {name: value for name, value in options.items() if name in ("activation", "reset", "update", "residual")}
    stepper = RecurrentStepper(arrays, cell=cell, n_layers=3, eos_id=EOS, **known)
    for rows in (IDS, IDS[:1]):
        ours, features = through(stepper, rows)
        assert np.abs(features - y[: len(rows)]).max() < 1e-5
        assert np.abs(ours - log_softmax(y @ arrays["output.weight"].T + arrays["output.bias"])[: len(rows)]).max() < 1e-5


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "alibi", "relative", "none"])
@pytest.mark.parametrize(("norm", "activation", "tied", "bias"),
                         [("pre", "gelu", True, True), ("post", "relu", False, False), ("pre", "swiglu", True, True)])
def test_gpt_steps_are_the_network(positions, norm, activation, tied, bias):
    net, stepper, _ = gpt(positions, norm=norm, activation=activation, tied=tied, bias=bias)
    theirs, hidden = whole(net, with_eos())
    for rows in (IDS, IDS[:1]):
        ours, features = through(stepper, rows)
        assert np.abs(ours - theirs[: len(rows)]).max() < 1e-5
        assert np.abs(features - hidden[: len(rows)]).max() < 1e-5


LLAMA = {"norm_kind": "rms", "norm_epsilon": 0.3, "activation": "swiglu", "n_heads": 6, "n_kv_heads": 2, "rope_base": 50.0}
NEAR = {"window": 3}


@pytest.mark.parametrize("positions", ["rope", "alibi", "relative", "none"])
@pytest.mark.parametrize("options", [LLAMA, {"norm_epsilon": 0.3}, {"norm_kind": "rms"}, {"n_heads": 6, "n_kv_heads": 1}, NEAR,
                                     {"n_heads": 6, "n_kv_heads": 2, "window": 1}], ids=str)
def test_options_of_llama_are_the_network_s(positions, options, monkeypatch):
    monkeypatch.setattr("seqloom.models.language.gpt_steps.QUERIES", 4)  # the scores of a prompt in several parts
    net, stepper, _ = gpt(positions, **options, d_mlp=7, bias=options is not LLAMA, max_distance=3)
    plain = gpt(positions, n_heads=options.get("n_heads", 3))[1]
    theirs, hidden = whole(net, with_eos())
    ours, features = through(stepper)
    assert np.abs(ours - theirs).max() < 1e-5
    assert np.abs(features - hidden).max() < 1e-5
    assert np.abs(stepper.prefill(list(IDS))[1] - theirs[:, -1]).max() < 1e-5
    assert stepper.start(1)[0].keys.shape[3] == 2 * options.get("n_kv_heads", options.get("n_heads", 3)) * (
        1 if options.get("n_heads") == 6 else 2)
    assert np.abs(ours - through(plain)[0]).max() > 1e-3  # the options matter


def test_scaled_rotary_positions_are_the_network_s():
    net, stepper, _ = gpt("rope", rope_scale=2.5)
    theirs, _ = whole(net, with_eos())
    assert np.abs(through(stepper)[0] - theirs).max() < 1e-5
    assert np.abs(stepper.prefill(list(IDS))[1] - theirs[:, -1]).max() < 1e-5
    assert np.abs(theirs - whole(gpt("rope")[0], with_eos())[0]).max() > 1e-2


@pytest.mark.parametrize("context", [2, 4, 5, 16])
def test_a_start_that_stands_alone_is_not_seen_by_the_others(context):
    net, stepper, _ = gpt("rope", context=context, start_alone=True)
    ours, features = through(stepper)
    dropped = -(-context // 2)
    for t in range(IDS.shape[1] + 1):
        begin = 0
        while t - begin > context:
            begin += dropped
        log_probs, hidden = whole(net, IDS[:, begin:t] if t else np.full((3, 1), EOS))
        assert np.abs(ours[:, t] - log_probs[:, -1]).max() < 1e-5
        assert np.abs(features[:, t] - hidden[:, -1]).max() < 1e-5
    prompts = [IDS[0, :3], IDS[1, :0], IDS[2], IDS[1, :1]]
    state, log_probs = stepper.prefill(prompts)
    by_steps, theirs = prefill_by_steps(stepper, prompts)
    assert np.abs(log_probs - theirs).max() < 1e-5
    assert np.array_equal(state.lengths, by_steps.lengths)
    assert np.abs(stepper.step(state, IDS[0, :4])[1] - stepper.step(by_steps, IDS[0, :4])[1]).max() < 1e-5


def gpt(positions="learned", *, context=16, n_heads=3, eight_bit=False, norm="pre", activation="gelu", start_alone=False,
        **options):
    torch = pytest.importorskip("torch")
    from seqloom.nn.transformer import GPTNet

    torch.manual_seed(0)
    net = GPTNet(V, context, 12, 2, n_heads, positions=positions, norm=norm, activation=activation, **options).eval()
    for parameter in net.parameters():  # at the size of their start the parts would hardly matter
        torch.nn.init.normal_(parameter, 0.1, 0.4)
    arrays = {name: array.numpy() for name, array in net.state_dict().items()}
    stepper = GPTStepper(arrays, n_layers=2, n_heads=n_heads, context=context, positions=positions, norm=norm,
                         activation=activation, eos_id=EOS, start_alone=start_alone, eight_bit=eight_bit,
                         **{name: value for name, value in options.items() if name in (*LLAMA, "window", "rope_scale")})
    return net, stepper, arrays


def whole(net, ids):
    import torch

    with torch.no_grad():
        hidden, _ = net.features(torch.from_numpy(ids))
        return torch.log_softmax(hidden @ net.output_weight.T, -1).numpy(), hidden.numpy()


@pytest.mark.parametrize("context", [1, 4, 5])
@pytest.mark.parametrize("positions", ["learned", "rope", "relative", "none"])
def test_gpt_beyond_its_context_sees_windows_half_a_context_apart(positions, context):
    net, stepper, _ = gpt(positions, context=context, n_heads=1)
    ours, features = through(stepper)
    dropped = -(-context // 2)
    for t in range(IDS.shape[1] + 1):
        begin = 0
        while t - begin >= context:
            begin += dropped
        log_probs, hidden = whole(net, with_eos()[:, begin : t + 1])
        assert np.abs(ours[:, t] - log_probs[:, -1]).max() < 1e-5
        assert np.abs(features[:, t] - hidden[:, -1]).max() < 1e-5


@pytest.mark.parametrize("context", [5, 16])
@pytest.mark.parametrize("positions", ["learned", "rope", "alibi", "relative", "none"])
def test_gpt_prompts_in_one_pass_equal_steps(positions, context, monkeypatch):
    monkeypatch.setattr("seqloom.models.language.gpt_steps.TOGETHER", 6)  # some prompts in one pass, some not
    _, stepper, _ = gpt(positions, context=context)
    prompts = [IDS[0, :3], IDS[1, :0], IDS[2], IDS[1, :7]]
    state, ours = stepper.prefill(prompts)
    by_steps, theirs = prefill_by_steps(stepper, prompts)
    assert np.abs(ours - theirs).max() < 1e-5
    assert np.array_equal(state.lengths, by_steps.lengths)
    for token in range(6):  # both states go on alike, rows of different lengths side by side, over a slide
        state, ours = stepper.step(state, np.full(4, token))
        by_steps, theirs = stepper.step(by_steps, np.full(4, token))
        assert np.abs(ours - theirs).max() < 1e-5


def test_gpt_room_grows(monkeypatch):
    monkeypatch.setattr("seqloom.models.language.gpt_steps.ROOM", 2)
    net, stepper, _ = gpt()
    assert stepper.start(1)[0].keys.shape[2] == 2
    assert np.abs(through(stepper)[0] - whole(net, with_eos())[0]).max() < 1e-5


def nplm_arrays(direct):
    return random_arrays({"embedding.weight": (V, E), "hidden.weight": (H, 3 * E), "hidden.bias": (H,),
                          "output.weight": (V, H + 3 * E if direct else H), "output.bias": (V,)})


@pytest.mark.parametrize("direct", [False, True])
def test_nplm_steps_are_equation_one(direct):
    arrays = nplm_arrays(direct)
    a = {name: array.astype(np.float64) for name, array in arrays.items()}
    ours, features = through(NPLMStepper(arrays, order=4, eos_id=EOS, direct=direct))
    for row, ids in enumerate(IDS.tolist()):
        padded = [EOS, EOS, EOS, *ids]
        for t in range(len(ids) + 1):
            x = np.concatenate([a["embedding.weight"][token] for token in padded[t : t + 3]])
            hidden = np.tanh(a["hidden.bias"] + a["hidden.weight"] @ x)
            w, u = a["output.weight"][:, H:], a["output.weight"][:, :H]
            y = a["output.bias"] + u @ hidden + (w @ x if direct else 0)
            assert np.abs(ours[row, t] - log_softmax(y)).max() < 3e-6
            assert np.abs(features[row, t, :H] - hidden).max() < 3e-6


def steppers(eight_bit=False):
    yield RecurrentStepper(recurrent_arrays("lstm"), cell="lstm", n_layers=2, eos_id=EOS, eight_bit=eight_bit)
    arrays = recurrent_arrays("gru", output=False, before=True)
    yield RecurrentStepper(arrays, cell="gru", n_layers=2, eos_id=EOS, reset="before", eight_bit=eight_bit)
    yield NPLMStepper(nplm_arrays(True), order=4, eos_id=EOS, direct=True, eight_bit=eight_bit)
    yield gpt(eight_bit=eight_bit)[1]


@pytest.mark.parametrize("which", range(4))
def test_a_state_is_a_value(which):
    """A copy goes its own way, rows joined from elsewhere go on as before, and kept features do not change."""
    stepper = list(steppers())[which]
    expected, expected_features = through(stepper)
    state, log_probs = stepper.start(3)
    assert log_probs.dtype == np.float32
    assert log_probs.shape == (3, stepper.vocab_size) == (3, V)
    for t in range(4):
        state, _ = stepper.step(state, IDS[:, t])
    kept = stepper.features(state)
    copy = select(state, np.array([2, 0]))
    stepper.step(state, IDS[:, 0])  # spends the state
    assert np.allclose(kept, expected_features[:, 4], atol=1e-6)
    fresh, _ = stepper.start(1)
    both = join([copy, fresh])
    state, log_probs = stepper.step(both, np.array([IDS[2, 4], IDS[0, 4], IDS[1, 0]]))
    assert np.allclose(log_probs, [expected[2, 5], expected[0, 5], expected[1, 1]], atol=1e-5)
    assert stepper.start(0)[1].shape == (0, V)


@pytest.mark.parametrize("which", range(4))
def test_eight_bits_are_close_and_the_same_for_one_and_many(which):
    exact, rounded = list(steppers())[which], list(steppers(eight_bit=True))[which]
    ours, _ = through(rounded)
    assert np.abs(np.exp(ours).sum(-1) - 1).max() < 1e-5
    assert 1e-5 < np.abs(ours - through(exact)[0]).max() < 0.25
    assert np.allclose(through(rounded, IDS[:1])[0], ours[:1], atol=1e-5)
    assert np.allclose(through(rounded, np.repeat(IDS, 3, 0))[0], np.repeat(ours, 3, 0), atol=1e-5)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("large", [False, True])
def test_matrix(n, large, monkeypatch):
    monkeypatch.setattr("seqloom.models.network.step_weights.SMALL", 0 if large else 1 << 30)
    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(13, 40)).astype(np.float32), rng.normal(size=(n, 40)).astype(np.float32)
    ours = Matrix(weight)(x)
    assert ours.dtype == np.float32
    assert np.allclose(ours, x.astype(np.float64) @ weight.T, atol=1e-5)


def test_exponential_and_what_is_made_of_it():
    x = np.linspace(-80, 80, 40001).astype(np.float32)
    ours = np.array([decode.exp(value) for value in x[::40]])
    assert np.abs(ours / np.exp(x[::40].astype(np.float64)) - 1).max() < 3e-7
    for function, expected in ((decode.add_tanh, np.tanh), (decode.add_relu, lambda a: np.maximum(a, 0)),
                               (decode.add_gelu, lambda a: a / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (a + 0.044715 * a**3))))):
        values = x[None, 19000:21000].copy()  # -4 to 4
        function(values, np.full(2000, 0.5, np.float32))
        assert np.abs(values[0] - expected(x[19000:21000].astype(np.float64) + 0.5)).max() < 1e-6


def test_a_broken_model_is_noticed():
    arrays = recurrent_arrays("lstm")
    arrays["recurrent.layers.0.w_x"][3, 1] = np.nan
    _, log_probs = RecurrentStepper(arrays, cell="lstm", n_layers=2, eos_id=EOS).start(1)
    assert np.isnan(log_probs).all()


@pytest.mark.parametrize("size", [3, 256, 700])
def test_draw_inverts_the_distribution(size):
    rng = np.random.default_rng(size)
    log_probs = log_softmax(rng.normal(0, 3, size)).astype(np.float32)
    log_probs[size // 2] = -np.inf
    probs = np.exp(log_probs.astype(np.float64))
    probs /= probs.sum()
    border = np.cumsum(probs)
    for uniform in [0.0, *rng.random(200), 1 - 2**-53]:
        token = decode.draw(log_probs, uniform)
        assert probs[token] > 0
        assert border[token] > uniform - 1e-6
        assert border[token] - probs[token] < uniform + 1e-6
