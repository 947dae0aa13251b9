"""Views of gradient flow: gradients, neuron, reach, activations."""

import numpy as np
import pytest

import seqloom
from seqloom.errors import ConfigError, DataError, SeqloomError
from seqloom.models.network import reach_net
from seqloom.models.network.reach import Setting
from seqloom.views import one_neuron
from seqloom.views.configs import NeuronOptions
from tests.contract.test_views import check_sheet
from tests.saved import NEWEST

inspect = seqloom.inspect


def test_without_anything_it_demonstrates():
    sheet = inspect.gradients()
    check_sheet(sheet)
    assert len(sheet.data["rows"]) == 7


def test_fresh_cells():
    sheet = inspect.gradients(cell=("rnn", "lstm"), hidden=8, distance=12)
    check_sheet(sheet)
    assert [row["layer"] for row in sheet.data["layers"]] == ["rnn", "lstm"]
    assert len(sheet.data["rows"]) == 24


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_of_a_model(kind):
    model = seqloom.load(NEWEST / kind)
    sheet = inspect.gradients(model, "the cat sat on the log")
    check_sheet(sheet)
    parts = 1 + len(sheet.data["layers"])  # beside the layers, what is read
    assert len(sheet.data["positions"]) == len(sheet.data["tokens"]) * parts
    assert -sheet.data["nats"].sum() == pytest.approx(
        model.score("the cat sat on the log"), abs=1e-3
    )


def test_a_long_text_is_cut_and_that_is_said():
    model = seqloom.load(NEWEST / "lstm")
    sheet = inspect.gradients(model, "the cat sat " * 2000, distance=5)
    assert len(sheet.data["tokens"]) == 512
    assert any("first 512" in line for line in sheet.summary)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: inspect.gradients(m, "the cat", cell=("rnn",)), "not both"),
        (lambda m: inspect.gradients(m, "the cat", gain=2.0), "option of fresh cells"),
        (lambda m: inspect.gradients(cell=("lstmm",)), "lstm"),
        (lambda m: inspect.gradients(cell=("rnn",), distance=0), "distance"),
        (lambda m: inspect.reach(encoder=("grru",)), "gru"),
        (lambda m: inspect.reach(task=("recal",)), "recall"),
        (lambda m: inspect.reach(start=("odd",)), "orthogonal"),
        (lambda m: inspect.reach(hidden=12, encoder=("transformer",)), "hidden"),
        (lambda m: inspect.neuron(activation="relu"), "activation"),
    ],
)
def test_bad_options(call, message):
    with pytest.raises((ConfigError, DataError), match=message):
        call(seqloom.load(NEWEST / "lstm"))


def test_a_model_without_recurrence():
    """A Transformer has gradients by position, and no states; n-grams have neither."""
    sheet = inspect.gradients(seqloom.load(NEWEST / "gpt"), "the cat sat")
    check_sheet(sheet)
    assert not sheet.data["layers"]
    assert {row["layer"] for row in sheet.data["positions"]} == {"input", "blocks.0", "blocks.1"}
    with pytest.raises(SeqloomError, match="there is no view 'gradients'"):
        inspect.gradients(seqloom.load(NEWEST / "ngram"), "the cat")


@pytest.mark.parametrize("kind", ["lstm", "gpt"])
def test_how_far_the_last_token_reaches(kind):
    """Counted by hand in the positions of the data."""
    data = inspect.gradients(seqloom.load(NEWEST / kind), "the cat sat on the log the cat").data
    norms = [row["last"] for row in data["positions"] if row["layer"] == "input"]
    near = [t for t, norm in enumerate(norms) if norm >= 0.01 * max(norms)]
    assert data["reach"]["input"] == len(norms) - 1 - near[0]


# ---- one neuron


@pytest.mark.parametrize("activation", one_neuron.FUNCTIONS)
def test_fixed_points_by_brute_force(activation):
    """Sign changes on a fine grid find as many, at the same places."""
    f = one_neuron.FUNCTIONS[activation]
    rng = np.random.default_rng(0)
    for w, b in rng.uniform(-8, 8, (60, 2)):
        h = np.linspace(f.low, 1, 200_001)
        gap = f.value(w * h + b) - h
        places = h[np.flatnonzero(np.sign(gap[1:]) != np.sign(gap[:-1]))]
        found = one_neuron.fixed_points(w, b, activation)
        assert len(found) == len(places)
        np.testing.assert_allclose([p.h for p in found], places, atol=2e-5)
        for point in found:
            step = f.value(w * (point.h + np.array([1e-6, -1e-6])) + b)
            assert point.slope == pytest.approx((step[0] - step[1]) / 2e-6, abs=1e-5)


def test_where_two_fixed_points_appear():
    """tanh: three from b = +-(sqrt(w (w - 1)) - arcosh(sqrt w)) inwards (by hand), for w above 1."""
    for w in (1.5, 2.0, 3.0):
        edge = np.sqrt(w * (w - 1)) - np.arccosh(np.sqrt(w))
        for b in (edge, -edge):
            assert len(one_neuron.fixed_points(w, 0.99 * b, "tanh")) == 3
            assert len(one_neuron.fixed_points(w, 1.01 * b, "tanh")) == 1


@pytest.mark.parametrize("activation", one_neuron.FUNCTIONS)
def test_the_gradient_of_the_loss_surface(activation):
    """Central differences."""
    options = NeuronOptions(activation=activation, steps=12)
    w, b, h = np.array([2.0, -3.0, 0.5]), np.array([-1.0, 0.5, 0.2]), 1e-6
    _, norms = one_neuron.loss_surface(options, w, b)
    by_w = [one_neuron.loss_surface(options, w + d, b)[0] for d in (h, -h)]
    by_b = [one_neuron.loss_surface(options, w, b + d)[0] for d in (h, -h)]
    numeric = np.hypot(by_w[0] - by_w[1], by_b[0] - by_b[1]) / (2 * h)
    np.testing.assert_allclose(norms, numeric, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"activation": "tanh", "w": -2.0, "b": 0.3}, {"w": 50.0}])
def test_neuron(options):
    check_sheet(inspect.neuron(**options))


# ---- reach


def test_reach(tmp_path):
    options = {"lags": (2, 4), "hidden": 8, "updates": 30, "minutes": 5.0, "task": ("recall",)}
    sheet = inspect.reach(work=str(tmp_path), **options)
    check_sheet(sheet)
    names = [row["encoder"] for row in sheet.data["rows"]]
    assert {"rnn", "lstm", "lstm, no forget gate", "gru", "transformer", "bag"} <= set(names)
    assert "bilstm" not in names
    again = inspect.reach(work=str(tmp_path), **options)
    assert again.data == sheet.data


def test_starts_and_forget_biases_side_by_side():
    sheet = inspect.reach(
        lags=(2,), hidden=8, updates=1, task=("adding",), encoder=("rnn", "lstm"), clip="norm",
        start=("orthogonal", "normal"), forget_bias=(0.0, 2.0), seeds=2,
    )  # fmt: skip
    names = list(dict.fromkeys(row["encoder"] for row in sheet.data["rows"]))
    assert names == [
        "rnn, orthogonal start", "rnn, normal start",
        "lstm, orthogonal start, forget bias 0", "lstm, orthogonal start, forget bias 2",
        "lstm, normal start, forget bias 0", "lstm, normal start, forget bias 2",
    ]  # fmt: skip
    assert {row["seed"] for row in sheet.data["rows"]} == {0, 1}


def test_noise_is_on_all_that_is_read():
    """The same sequences, with numbers of that deviation added; the answers stay."""
    clean, noisy = (
        reach_net.make(Setting("rnn", "recall", noise=noise), np.random.default_rng(0), 200, 20)
        for noise in (0.0, 0.5)
    )
    assert (clean[1] == noisy[1]).all()
    added = noisy[0] - clean[0]
    assert added.std() == pytest.approx(0.5, rel=0.02)
    assert abs(added.mean()) < 0.01
    sheet = inspect.reach(
        lags=(2,),
        hidden=8,
        updates=1,
        task=("recall",),
        encoder=("rnn",),
        clip="norm",
        noise=(0, 1),
    )
    assert [row["encoder"] for row in sheet.data["rows"]] == ["rnn, noise 0", "rnn, noise 1"]


@pytest.mark.usefixtures("toy_cell")
def test_a_cell_of_another_package_joins():
    sheet = inspect.reach(lags=(2,), hidden=8, updates=1, task=("recall",), clip="norm")
    assert "mingru" in [row["encoder"] for row in sheet.data["rows"]]
    assert inspect.gradients(cell=("mingru",), hidden=8, distance=5).data["rows"]


def test_activations():
    sheet = inspect.activations(lags=(2,), hidden=8, updates=25, distance=10)
    check_sheet(sheet)
    rows = {row["activation"]: row for row in sheet.data["rows"]}
    assert {"tanh", "relu", "relu, identity start"} <= rows.keys()
    assert all(0 <= row["saturated"] <= 1 for row in rows.values())
