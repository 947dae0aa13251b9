"""Views of recurrent networks: their numbers are those of the reference, of torch, and of brute force."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import seqloom
from seqloom import progress, reference
from seqloom.charts import theme
from seqloom.errors import ConfigError, DataError
from seqloom.models.network.recurrence import agree, layers_of, numbers_of
from seqloom.runtime import cells
from seqloom.traces import Trace
from seqloom.views.recurrence import half_lives, neighbours_alike, readings_of, time_constants
from seqloom.views.unrolling import below_of
from tests.fuzz.specimens import WAVE
from tests.runtime.networks import composed, language, translator
from tests.saved import NEWEST

TEXT = "to be or not to be, that is the question 42"
CLASSES = {"rnn": reference.RNN, "lstm": reference.LSTM, "gru": reference.GRU}
PLAIN = [
    ("rnn", {}),
    ("rnn", {"activation": "relu"}),
    ("lstm", {"n_layers": 2}),
    ("lstm", {"learned_start": True}),
    *(("gru", {"reset": r, "update": u}) for r in ("after", "before") for u in ("keep", "replace")),
]
FURTHER = [
    ("rnn", {"layer_norm": True}),
    ("lstm", {"layer_norm": True}),
    ("lstm", {"d_projection": 20}),
    ("lstm", {"d_projection": 20, "layer_norm": True}),
    ("gru", {"layer_norm": True, "update": "replace"}),
    ("gru", {"layer_norm": True, "reset": "before"}),
]


def weights_of(model, layer):
    return {
        name.removeprefix(f"{layer}."): array.astype(np.float64)
        for name, array in model.weights.items()
        if name.startswith(f"{layer}.") and "reverse" not in name.removeprefix(f"{layer}.")
    }


def cell_options(model):
    return {
        key: getattr(model.config, key)
        for key in ("activation", "reset", "update")
        if hasattr(model.config, key)
    }


# ---- gates


@pytest.mark.parametrize(("cell", "options"), PLAIN + FURTHER, ids=str)
def test_gates_are_those_of_torch(cell, options):
    torch = pytest.importorskip("torch")
    model = language(cell, **options)
    ids, _ = model.encode(TEXT)
    read = np.concatenate([[model.tokenizer.eos_id], ids[:-1]]).astype(np.int64)
    theirs = Trace()
    with torch.inference_mode():
        model.network()(torch.from_numpy(read)[None], None, theirs)
    for layer in range(model.config.n_layers):
        found = seqloom.inspect.gates(model, TEXT, layer=layer).data
        names = [name for name in theirs if name.startswith(f"recurrent.layers.{layer}.")]
        for name in names:
            part = name.removeprefix(f"recurrent.layers.{layer}.")
            if part != "out":
                right = theirs[name][0].numpy()
                far = np.abs(found[part][: len(right)] - right).max()
                assert far < 1e-5 * max(1, np.abs(right).max()), name


@pytest.mark.parametrize("name", ["bilstm", "bigru", "rnn"])
def test_all_layers_and_directions(name):
    model = composed("tagger", "tokens", encoder=name, n_layers=2)
    readings = readings_of(model, "Ada met Bob so good")
    assert len(readings) == (4 if name.startswith("bi") else 2)
    for reading in readings:
        params = weights_of(model, reading.layer.name)
        x = model.runtime().read(model.steps_of("Ada met Bob so good")[0].examples())
        if ".1" in reading.layer.name:
            below = [r.arrays["h"] for r in readings if ".layers.0" in r.layer.name]
            x = np.concatenate(below, axis=1)
        way = slice(None, None, -1) if reading.layer.reverse else slice(None)
        expected = CLASSES[name.removeprefix("bi")](params).forward(x[way][None].astype(np.float64))
        for part, values in reading.arrays.items():
            right = getattr(expected, part.removeprefix("gates."))[0][way]
            assert np.abs(values - right).max() < 1e-5, part


def test_encoders_and_decoders_of_translators():
    model = translator("seq2seq", encoder="bigru", cell="lstm")
    sheet = seqloom.inspect.gates(model, ("abc", "de"))
    assert sheet.data["layers"] == [
        "encoder.stack.layers.0",
        "encoder.stack.layers.0.reverse",
        "decoder.layers.0",
    ]
    assert len(sheet.data["tokens"]) == len(sheet.data["c"]) == 3  # the mark, d, e
    one = translator("seq2seq", one_network=True, shared_vocabulary=True, cell="gru")
    assert seqloom.inspect.gates(one, ("abc", "de")).data["layers"] == [
        "encoder.layers.0",
        "decoder.layers.0",
    ]
    assert sum(row["parameters"] for row in seqloom.inspect.unrolled(one).data["rows"]) > 0


def test_a_forecaster_reads_the_window_that_its_forecast_comes_from():
    """Patch by patch by the reference; what is after the last step gives the forecast of `forecast`."""
    model = seqloom.load(NEWEST / "forecaster")
    traced, weights = model.trace(WAVE), model.weights
    past = (np.array(WAVE[-model.window :]) - model.scale["mean"]) / model.scale["std"]
    x = past[:, None] - past[-1]
    read = np.maximum(x @ weights["reader.weight"].T + weights["reader.bias"], 0)
    layer = "encoder.stack.layers.0"
    expected = reference.GRU(weights_of(model, layer)).forward(read[None].astype(np.float64))
    for part in ("r", "z", "n"):
        found = traced.arrays[f"{layer}.gates.{part}"]
        assert np.abs(found - getattr(expected, part)[0]).max() < 1e-5
    last = traced.arrays[f"{layer}.h"][-1]
    assert np.abs(last - expected.h[0, -1]).max() < 1e-5
    ahead = weights["head.weight"] @ last + weights["head.bias"]
    ahead = ahead.reshape(model.horizon, 3)[:, 0] + weights["highway.weight"] @ x[:, 0]
    forecast = (ahead + past[-1]) * model.scale["std"] + model.scale["mean"]
    assert forecast == pytest.approx(model.forecast(WAVE).tracks[0].values[:, 0], abs=1e-4)
    assert traced.tokens == [str(t) for t in range(len(WAVE) - model.window, len(WAVE))]
    gates = seqloom.inspect.gates(model, WAVE).data
    assert np.array_equal(gates["h"], traced.arrays[f"{layer}.h"])
    with pytest.raises(ConfigError, match="unknown column"):
        model.trace(WAVE, column="no")


def test_ranges_and_saturation():
    model = language("lstm")
    data = seqloom.inspect.gates(model, TEXT).data
    rows = {row["name"]: row for row in data["rows"]}
    assert list(rows) == ["i", "f", "g", "o", "c", "h"]
    f, g = data["gates.f"], data["gates.g"]
    assert rows["f"]["open"] == pytest.approx(np.mean([v > 0.9 for v in f.ravel()]))
    assert rows["f"]["closed"] == pytest.approx(np.mean([v < 0.1 for v in f.ravel()]))
    assert rows["g"]["closed"] == pytest.approx(np.mean([v < -0.9 for v in g.ravel()]))
    assert rows["g"]["highest"] == pytest.approx(max(g.ravel()))
    assert rows["o"]["5 %"] == pytest.approx(
        np.sort(data["gates.o"].ravel())[int(0.05 * data["gates.o"].size)], abs=0.01
    )


def test_a_text_coloured_by_a_unit():
    model = language("lstm")
    sheet = seqloom.inspect.gates(model, TEXT, unit=7)
    np.testing.assert_allclose(sheet.data["values"], np.tanh(sheet.data["c"][:, 7]), atol=1e-6)
    assert "The text by unit 7" in sheet.charts
    assert any(line.endswith("'q'") for line in sheet.lines) or len(sheet.data["tokens"]) > 40
    gru = seqloom.inspect.gates(language("gru"), TEXT, unit=7).data
    np.testing.assert_array_equal(gru["values"], gru["h"][:, 7])


# ---- half-lives


def test_half_lives_are_those_of_repeated_products():
    for share in (0.5, 0.9, 0.993):
        left, steps = 1.0, 0
        while left > 0.5:
            left, steps = left * share, steps + 1
        assert math.ceil(half_lives(np.array([share]))[0] - 1e-9) == steps
        stays = sum(share**k for k in range(20_000))
        assert time_constants(np.array([share]))[0] == pytest.approx(stays)


@pytest.mark.parametrize(("update", "sign"), [("keep", 1), ("replace", -1)])
def test_what_a_gru_keeps_follows_its_convention(update, sign):
    """z is the share that is kept, or that is replaced; a unit with an open or closed z shows it."""
    model = language("gru", update=update)
    weights = {name: array.copy() for name, array in model.weights.items()}
    d = model.config.d_hidden
    for name in ("w_x", "w_h"):
        weights[f"recurrent.layers.0.{name}"][d : 2 * d] = 0
    weights["recurrent.layers.0.b"][d : 2 * d] = -4.0
    weights["recurrent.layers.0.b"][d + 5] = sign * math.log(0.98 / 0.02)  # unit 5 keeps 98 %
    weights["recurrent.layers.0.b"][d + 6] = -sign * math.log(0.98 / 0.02)
    model.net.restore(weights)
    rows = {row["unit"]: row for row in seqloom.inspect.units(model, TEXT).data["rows"]}
    assert rows[5]["half_life"] == pytest.approx(math.log(0.5) / math.log(0.98), rel=1e-4)
    assert rows[5]["time_constant"] == pytest.approx(50, rel=1e-3)
    assert rows[5]["open"] == 1
    assert rows[6]["closed"] == 1


def test_without_a_gate_the_correlation_of_neighbours_counts():
    rng, states = np.random.default_rng(0), np.zeros((4000, 2))
    for t in range(1, 4000):
        states[t] = states[t - 1] * np.array([0.9, 0.0]) + rng.normal(size=2)
    found = neighbours_alike(states)
    right = np.corrcoef(states[:-1, 0], states[1:, 0])[0, 1]
    assert found[0] == pytest.approx(right)
    assert found[1] < 0.05
    assert neighbours_alike(np.ones((5, 2))).tolist() == [0, 0]
    said = " ".join(seqloom.inspect.units(language("rnn"), TEXT).summary)
    assert "No gate of this cell is known to keep" in said


def test_what_a_unit_fires_on():
    model = language("lstm")
    [reading] = readings_of(model, TEXT)
    rows = seqloom.inspect.units(model, TEXT).data["rows"]
    assert [row["half_life"] for row in rows] == sorted(
        (row["half_life"] for row in rows), reverse=True
    )
    for row in rows[:5]:
        values = np.tanh(reading.arrays["c"][:, row["unit"]])
        by_token = {}
        for token, value in zip(reading.steps, values):
            by_token.setdefault(token, []).append(value)
        often = [token for token in by_token if len(by_token[token]) > 1]
        best = max(often, key=lambda token: abs(np.mean(by_token[token]) - values.mean()))
        assert row["fires_on"][0][0] == best
        assert row["fires_on"][0][1] == pytest.approx(np.mean(by_token[best]), abs=1e-6)


# ---- one step


@pytest.mark.parametrize("at", [0, 7])
@pytest.mark.parametrize(("cell", "options"), PLAIN, ids=str)
def test_a_step_is_that_of_the_reference(cell, options, at):
    """From x and the state before alone, with the saved weights."""
    model = language(cell, **options)
    data = seqloom.inspect.step(model, TEXT, at=at).data
    params = weights_of(model, data["layer"])
    params = {name: params[name] for name in ("w_x", "w_h", "b", "b_h") if name in params}
    theirs = CLASSES[cell](params, **cell_options(model))
    state = tuple(data[f"{leaf}_before"][None] for leaf in ("h", "c")[: 1 + (cell == "lstm")])
    if at == 0 and "learned_start" not in options:
        assert not any(leaf.any() for leaf in state)
    expected = theirs.step(data["x"][None], state, np.ones(1, bool))
    names = {"i", "f", "g", "o", "kept", "learnt", "squashed", "c", "h", "r", "z", "n"}
    shared = [name for name in names & set(data) if hasattr(expected, name)]
    assert {"rnn": {"h"}, "lstm": {"f", "kept", "squashed", "h"}, "gru": {"z", "n", "h"}}[
        cell
    ] <= set(shared)
    for name in shared:
        right = getattr(expected, name)[0]
        assert np.abs(data[name] - right).max() < 1e-5 * max(1, np.abs(right).max()), name
    if cell == "gru":  # what is multiplied by r, or r h by the matrix, and the two parts of h
        keep = expected.z if model.config.update == "keep" else 1 - expected.z
        np.testing.assert_allclose(data["kept"], (keep * state[0])[0], atol=1e-5)
        np.testing.assert_allclose(data["learnt"], ((1 - keep) * expected.n)[0], atol=1e-5)
    if cell == "gru" and model.config.reset == "after":
        np.testing.assert_allclose(data["inner"], expected.gated[0], atol=1e-5)


def normed(x, weight, bias):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weight + bias


@pytest.mark.parametrize(("cell", "options"), FURTHER, ids=str)
def test_a_step_with_norms_and_projections(cell, options):
    model = language(cell, **options)
    data = seqloom.inspect.step(model, TEXT, at=5).data
    assert not [line for line in data["rows"] if line["name"] in ("from_x",)]
    p, h = weights_of(model, data["layer"]), data["h_before"]
    x, product, d = p["w_x"] @ data["x"], p["w_h"] @ h, model.config.d_hidden
    if cell == "rnn":
        right = np.tanh(normed(x + p["b"] + product, p["norm_h.weight"], p["norm_h.bias"]))
        np.testing.assert_allclose(data["h"], right, atol=1e-5)
        return
    if "norm_h.weight" in p:
        x = normed(x, p["norm_x.weight"], p["norm_x.bias"])
        if getattr(model.config, "reset", "after") == "after":
            product = normed(product, p["norm_h.weight"], p["norm_h.bias"])
    sums = (x + p["b"]).reshape(-1, d)
    if cell == "lstm":
        a = sums + product.reshape(-1, d)
        i, f, o = (1 / (1 + np.exp(-a[k])) for k in (0, 1, 3))
        c = f * data["c_before"] + i * np.tanh(a[2])
        np.testing.assert_allclose(data["c"], c, atol=1e-5)
        shown = normed(c, p["norm_c.weight"], p["norm_c.bias"]) if "norm_c.weight" in p else c
        after = o * np.tanh(shown)
        np.testing.assert_allclose(data["unprojected"], after, atol=1e-5)
        np.testing.assert_allclose(data["h"], p["w_p"] @ after if "w_p" in p else after, atol=1e-5)
        return
    if model.config.reset == "before":
        gates, new = slice(2 * d), slice(2 * d, None)
        rz = normed((p["w_h"] @ h)[gates], p["norm_h.weight"][gates], p["norm_h.bias"][gates])
        r, z = 1 / (1 + np.exp(-(sums[:2] + rz.reshape(2, d))))
        inner = normed(
            (p["w_h"] @ np.tile(r * h, 1))[new], p["norm_h.weight"][new], p["norm_h.bias"][new]
        )
        n = np.tanh(sums[2] + inner)
    else:
        a = product.reshape(-1, d)
        r, z = 1 / (1 + np.exp(-(sums[:2] + a[:2])))
        n = np.tanh(sums[2] + r * (a[2] + p["b_h"]))
    keep = z if model.config.update == "keep" else 1 - z
    np.testing.assert_allclose(data["h"], keep * h + (1 - keep) * n, atol=1e-5)


def test_the_equations_beside_the_numbers_add_up():
    """What a reader computes from a row's numbers is the row's value."""
    for cell, options in (
        ("lstm", {}),
        ("gru", {}),
        ("gru", {"reset": "before", "update": "replace"}),
    ):
        rows = seqloom.inspect.step(language(cell, **options), TEXT, at=9, unit=3).data["rows"]
        functions = {"sigmoid": lambda a: 1 / (1 + math.exp(-a)), "tanh": math.tanh}
        for row in rows:
            if row["numbers"]:
                found = eval(row["numbers"], {"__builtins__": {}}, functions)
                assert found == pytest.approx(row["value"], abs=3e-4), row
        assert sum(bool(row["numbers"]) for row in rows) >= 8


def test_names_of_long_and_short_term_memory():
    model = language("lstm")
    usual, ltm = (
        seqloom.inspect.step(model, TEXT, names=n).data["rows"] for n in ("standard", "ltm")
    )
    assert [row["value"] for row in usual] == [row["value"] for row in ltm]
    assert [*dict.fromkeys(row["part"] for row in ltm)] == [
        "forget gate",
        "learn gate",
        "remember gate",
        "use gate",
    ]
    by_name = {row["name"]: row for row in ltm}
    assert by_name["LTM"]["equation"] == "kept + learnt"
    assert by_name["STM"]["equation"] == "o shown"
    assert by_name["learnt"]["equation"] == "i N"  # the learn gate is i and the candidate
    with pytest.raises(ConfigError, match="names=ltm are those of an LSTM"):
        seqloom.inspect.step(language("gru"), TEXT, names="ltm")


def test_both_directions_and_decoders_have_steps():
    model = composed("tagger", "tokens", encoder="bilstm", n_layers=2)
    for layer in range(4):
        data = seqloom.inspect.step(model, "Ada met Bob", layer=layer, at=1).data
        reading = readings_of(model, "Ada met Bob")[layer]
        before = reading.arrays["c"][2 if reading.layer.reverse else 0]
        np.testing.assert_allclose(data["c_before"], before, atol=1e-6)
        theirs = reference.LSTM(weights_of(model, data["layer"]))
        right = theirs.step(
            data["x"][None], (data["h_before"][None], data["c_before"][None]), np.ones(1, bool)
        )
        np.testing.assert_allclose(data["h"], right.h[0], atol=1e-5)
    fed = translator("seq2seq", input_feeding=True, n_decoder_layers=2, cell="gru")
    sheet = seqloom.inspect.step(fed, ("abc", "de"), layer=2)
    assert sheet.data["layer"] == "decoder.layers.0"
    assert len(sheet.data["rows"]) > 5


class OtherLSTM(cells.LSTMCell):
    """A cell that another package made of ours."""


def test_a_cell_from_another_package_is_shown_by_its_trace():
    from seqloom.views import cell_steps

    layer = layers_of(language("lstm"))[0]
    arrays = {name: np.ones((3, 36), np.float32) for name in ("gates.i", "c", "h")}
    other = layer._replace(cell=object.__new__(OtherLSTM))
    other.cell.__dict__ |= vars(layer.cell)
    assert layer.known
    assert not other.known
    assert other.kind == "OtherLSTM"
    rows = cell_steps.plain_rows(numbers_of(other, arrays, 1), 0)
    assert {row.name for row in rows} == {"i", "c", "h", "c_before", "h_before"}
    assert not any(row.equation for row in rows)


def test_equations_that_do_not_hold_are_not_shown():
    model = language("lstm")
    [layer] = layers_of(model)
    data = seqloom.inspect.step(model, TEXT).data
    numbers = {name: value for name, value in data.items() if isinstance(value, np.ndarray)}
    assert agree(layer, numbers)
    assert not agree(layer, numbers | {"f": np.clip(0.2 * numbers["z_f"] + 0.5, 0, 1)})


# ---- two models, similar places, the unrolled network


def test_two_models_on_one_text():
    lstm, gru = language("lstm", n_layers=2), language("gru")
    sheet = seqloom.inspect.compare_gates(lstm, gru, TEXT, steps=1)
    assert [row["cell"] for row in sheet.data["rows"]] == ["lstm", "lstm", "gru"]
    life = np.array([row["half_life"] for row in seqloom.inspect.units(gru, TEXT).data["rows"]])
    last = sheet.data["rows"][-1]
    assert last["median_half_life"] == pytest.approx(np.median(life))
    assert last["above"] == pytest.approx(np.mean(life > 1))
    kept = seqloom.inspect.gates(gru, TEXT).data["gates.z"]
    assert last["open"] == pytest.approx((kept > 0.9).mean())
    same = seqloom.inspect.compare_gates(gru, gru, TEXT)
    assert len(same.data["half_lives"]) == 2


@pytest.mark.parametrize("unit", [None, 4])
def test_similar_places_are_those_of_brute_force(unit, tmp_path):
    model = language("lstm")
    lines = ["to be or not", "that is to be", "be that as it is", "so it is"] * 3
    (tmp_path / "c.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sheet = seqloom.inspect.similar(
        model, "it is to be", unit=unit, corpus=str(tmp_path / "c.txt"), steps=2, count=6
    )
    wanted = readings_of(model, "it is to be")[0].state[-2:]
    state = readings_of(model, "\n".join(lines) + "\n")[0].state
    chosen = slice(None) if unit is None else slice(unit, unit + 1)
    distance = {
        t: math.sqrt(np.mean((state[t - 1 : t + 1, chosen] - wanted[:, chosen]).astype(float) ** 2))
        for t in range(1, len(state))
    }
    best, kept = sorted(distance, key=distance.get), []
    for t in best:
        if all(abs(t - k) >= 2 for k in kept):
            kept.append(t)
    assert [row["distance"] for row in sheet.data["rows"]] == pytest.approx(
        [distance[t] for t in kept[:6]], abs=1e-6
    )
    assert len(sheet.lines) == 7
    (chart,) = sheet.charts.values()
    cells = [row for rows in chart.to_dict()["datasets"].values() for row in rows]
    if unit is None:  # of the whole state the tokens that are compared are coloured
        assert sum(row["fill"] != "#ffffff" for row in cells) == 2 * len(sheet.data["rows"])
    else:
        assert len({row["fill"] for row in cells}) > 2
    with pytest.raises(DataError, match="there is no such file"):
        seqloom.inspect.similar(model, "it", corpus=str(tmp_path / "none.txt"))


@pytest.mark.parametrize("cell", CLASSES)
def test_the_unrolled_network_has_the_model_s_shape(cell):
    model = language(cell, n_layers=2, d_embed=10, tied=False)
    few, many = (seqloom.inspect.unrolled(model, steps=n).data for n in (2, 7))
    for row, d_in in zip(few["rows"], (10, 36)):
        counted = reference.count_parameters(cell, d_in, 36) + (36 if cell == "gru" else 0)
        assert (row["reads"], row["units"], row["parameters"]) == (d_in, 36, counted)
    assert few["parameters"] == many["parameters"]
    assert len(many["boxes"]) == 7 * 4  # input, two layers, answer
    along = [way for way in many["ways"] if way["carries"]]
    assert len(along) == 2 * 6
    assert {way["carries"] for way in along} == {"h, c" if cell == "lstm" else "h"}


def test_the_unrolled_network_of_both_directions():
    model = composed("classifier", "tokens", encoder="bilstm", n_layers=2, pooling="last")
    data = seqloom.inspect.unrolled(model, steps=3).data
    back = [way for way in data["ways"] if way["carries"] and way["start"][0] > way["end"][0]]
    assert {way["start"][1] for way in back} == {2, 4}
    answers = [way["start"] for way in data["ways"] if way["end"] == (2, 5)]
    assert sorted(answers) == [(0, 4), (2, 3)]  # the ends of both directions
    assert below_of(3, 2) == [1, 2]
    pooled = composed("classifier", "tokens", encoder="gru", pooling="mean")
    read = [w for w in seqloom.inspect.unrolled(pooled, steps=3).data["ways"] if w["end"][1] == 2]
    assert len(read) == 3


# ---- bad input


@pytest.mark.parametrize(
    ("view", "options", "said"),
    [
        ("gates", {"layer": 2}, r"layer must be from 0 to 1 \(0: recurrent.layers.0, 1: .*got 2"),
        ("gates", {"unit": 36}, "unit must be from 0 to 35; got 36"),
        ("units", {"layer": 9}, "layer must be from 0 to 1"),
        ("step", {"at": 44}, "at must be from 0 to 43, the steps of this text; got 44"),
        ("step", {"unit": 36}, "unit must be from 0 to 35; got 36"),
        ("similar", {"unit": 99}, "unit must be from 0 to 35; got 99"),
    ],
)
def test_what_does_not_exist_is_said_in_one_line(view, options, said):
    with pytest.raises(ConfigError, match=said):
        getattr(seqloom.inspect, view)(language("lstm", n_layers=2), TEXT, **options)


def test_a_long_text_is_cut_and_said():
    said = []
    reporter = SimpleNamespace(
        begin=lambda *args: SimpleNamespace(advance=lambda n=1: None, note=lambda t: None),
        end=lambda task: None,
        say=said.append,
    )
    with progress.reporting(reporter):
        sheet = seqloom.inspect.gates(language("gru", d_hidden=36), "to be " * 1500)
    assert len(sheet.data["tokens"]) == 4096
    assert any("the first 4,096 are read together" in line for line in said)
    for chart in sheet.charts.values():
        theme.specification(chart)  # which refuses more than 5,000 rows


def test_what_a_classifier_does_not_read_is_said():
    long = [("a good dull road " * 20, "a"), ("so it is " * 20, "b")]
    for kind in ("lstm", "transformer"):
        model = seqloom.NeuralClassifier(encoder=kind, d_hidden=8, max_length=16).fit(long, steps=1)
        for view in ("gates", "explanation") if kind == "lstm" else ("attention", "shapes"):
            said = getattr(seqloom.inspect, view)(model, long[0][0]).summary
            assert said[-1].startswith("Of 81 tokens, the first 16 are read"), view
            assert (
                "are read" not in getattr(seqloom.inspect, view)(model, "a good road").summary[-1]
            )
