"""One prediction: its numbers are the model's, and every equation gives the number beside it."""

import math

import numpy as np
import pytest

import seqloom
from seqloom import HMM, Mixture, NGram, reference
from seqloom.errors import ConfigError
from tests.runtime.networks import language

TEXT = "to be or not to be, that is the question 42"
PLAYS = 12 * "to be or not to be\nthe cat sat on the mat\nwhether tis nobler\n"
NETWORKS = [
    *((name, {}) for name in ("rnn", "lstm", "gru", "nplm")),
    ("lstm", {"n_layers": 2, "tied": False}),
    ("lstm", {"d_projection": 20}),
    ("gru", {"reset": "before", "update": "replace"}),
    ("lstm", {"softmax": "adaptive"}),
    ("nplm", {"direct": True}),
    *(("gpt", {"positions": p}) for p in ("learned", "sinusoidal", "rope", "alibi", "relative")),
    ("gpt", {"n_kv_heads": 1, "window": 4, "start_alone": True, "norm": "post"}),
    ("gpt", {"context": 16}),  # shorter than the text
]
WORDS = {"tanh": math.tanh, "exp": math.exp, "sigmoid": lambda z: 1 / (1 + math.exp(-z))}


@pytest.fixture(scope="module")
def counted():
    """Models without a network."""
    long = NGram(order=4, tokenizer="byte").fit(PLAYS)
    short = NGram(order=2, tokenizer="byte").fit(PLAYS, tokenizer=long.tokenizer)
    return {
        "ngram": long,
        "add-k": NGram(order=3, tokenizer="byte", smoothing="add-k").fit(PLAYS),
        "bell": NGram(order=3, tokenizer="byte", smoothing="witten-bell").fit(PLAYS),
        "word": NGram(order=3, tokenizer="word").fit(PLAYS),
        "hmm": HMM(states=11, iterations=3, tokenizer="byte").fit(PLAYS),
        "mixture": Mixture.of([long, short]).fit("the mat or the cat\n"),
        "uniform": seqloom.Uniform(tokenizer="byte").fit(PLAYS),
    }


def numbers_of(data):
    return [one for part in data["parts"] for row in part["rows"] for one in row["numbers"]]


def check(model, text, **options):
    """All that holds for every model; return the data."""
    data = seqloom.inspect.prediction(model, text, **options).data
    rows = seqloom.inspect.surprisal(model, text, top=5).data["rows"]
    row = rows[data["number"] - 1]
    if "rank" not in options:
        assert data["bits"] == pytest.approx(row["bits"], rel=1e-4, abs=1e-4)
    wanted = sorted((share for _, share in row["alternatives"]), reverse=True)
    assert [share for _, share in data["next"]] == pytest.approx(wanted, rel=1e-4, abs=1e-7)
    numbers = numbers_of(data)
    known = {one["id"]: one for one in numbers}
    assert len(known) == len(numbers)
    for one in numbers:
        assert set(one["of"]) <= known.keys() - {one["id"]}, one
        text = one["numbers"].replace(",", "")
        if text and "..." not in text:
            found, value = eval(text, {}, WORDS), one["value"]
            assert found == pytest.approx(value, rel=0.02, abs=2e-3), one
    if data["parts"] and "p" in known:
        assert known["p"]["value"] == pytest.approx(data["probability"], rel=1e-3, abs=1e-9)
    return data


@pytest.mark.parametrize(("name", "options"), NETWORKS, ids=str)
def test_of_networks(name, options):
    pytest.importorskip("torch")
    model = language(name, **options)
    data = check(model, TEXT, token=30)
    assert any(one["id"] == "p" for one in numbers_of(data))
    assert len(data["parts"]) > 2
    check(model, TEXT, token=1)
    assert check(model, TEXT, rank=3)["rank"] == 3


@pytest.mark.parametrize("name", ["ngram", "add-k", "bell", "word", "hmm", "mixture", "uniform"])
def test_of_counts(counted, name):
    model = counted[name]
    for token in (1, 9, None):
        data = check(
            model, "to be the mat\nnot a cat", **({} if token is None else {"token": token})
        )
        assert data["parts"][-1]["rows"][-1]["name"] == "p"


def test_a_back_off_chain_is_that_of_backoff(counted):
    data = seqloom.inspect.prediction(counted["ngram"], "to be or", token=6).data
    wanted = seqloom.inspect.backoff(counted["ngram"], "to be or", token=6).data
    shares = [row["numbers"][-1]["value"] for row in data["parts"][0]["rows"]]
    assert shares == pytest.approx([row["share"] for row in wanted["rows"]])
    assert sum(shares) == pytest.approx(data["probability"], rel=1e-4)


def test_a_belief_is_moved_and_corrected(counted):
    """By brute force."""
    model, text = counted["hmm"], "the cat"
    chain, ids = model.chain, model.encode(text)[0]
    belief = chain.start
    for i in ids[:4]:
        belief = belief * chain.emissions[:, i]
        belief = belief / belief.sum()
        before, belief = belief, belief @ chain.transitions
    table = seqloom.inspect.prediction(model, text, token=5).data["parts"][0]["rows"]
    for row in table[:-1]:
        state = int(row["name"].split(":")[0])
        b, moved, emission, product, after = (one["value"] for one in row["numbers"])
        joint = belief * chain.emissions[:, ids[4]]
        assert (b, moved) == pytest.approx((before[state], belief[state]))
        assert (emission, product) == pytest.approx((chain.emissions[state, ids[4]], joint[state]))
        assert after == pytest.approx(joint[state] / joint.sum())
    assert sum(row["numbers"][1]["value"] for row in table) == pytest.approx(1)


def test_what_members_say_is_what_they_say_alone(counted):
    model = counted["mixture"]
    rows = seqloom.inspect.prediction(model, "the cat", token=6).data["parts"][0]["rows"]
    for member, row in zip(model.members, rows):
        bits = seqloom.inspect.surprisal(member, "the cat").data["rows"][5]["bits"]
        assert row["numbers"][1]["value"] == pytest.approx(2**-bits, rel=1e-4)


def test_an_lstms_rows_are_those_of_step():
    pytest.importorskip("torch")
    model = language("lstm")
    data = seqloom.inspect.prediction(model, TEXT, token=12, unit=5).data
    rows = seqloom.inspect.step(model, TEXT, at=11, unit=5).data["rows"]
    found = {one["id"]: one["value"] for one in numbers_of(data)}
    for row in rows:
        assert found[row["name"]] == pytest.approx(row["value"])


@pytest.mark.parametrize("layer", [0, 1])
def test_a_head_is_the_one_of_plain_numpy(layer):
    """From the saved weights, and the reference's attention."""
    pytest.importorskip("torch")
    model = language("gpt", positions="learned")
    head, d, n = 1, 12, 20
    w = {name: array.astype(np.float64) for name, array in model.weights.items()}
    ids = np.concatenate([[model.tokenizer.eos_id], model.encode(TEXT)[0][: n - 1]])
    x = w["embedding.weight"][ids] + w["position.weight"][:n]

    def norm(x, name):
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    if layer:
        x = model.trace(TEXT, "blocks.0.out").arrays["blocks.0.out"][:n].astype(np.float64)
    name = f"blocks.{layer}"
    both = norm(x, f"{name}.norm1") @ w[f"{name}.attention.qkv.weight"].T
    both += w[f"{name}.attention.qkv.bias"]
    q, k, v = (both[:, at + head * d :][:, :d] for at in (0, 36, 72))
    wanted = reference.attend(q, k, v, np.tri(n, dtype=bool))
    data = seqloom.inspect.prediction(model, TEXT, token=n, layer=layer, head=head, unit=4).data
    products, mix, total = data["parts"][:3]
    for row in products["rows"][:-1]:
        i = int(row["name"].split()[1])
        assert row["numbers"][0]["value"] == pytest.approx(q[-1, i], abs=1e-4)
    for row in mix["rows"][:-1]:
        j = int(row["name"].split()[0])
        dot, s, a, value, product = (one["value"] for one in row["numbers"])
        assert dot == pytest.approx(q[-1] @ k[j], abs=1e-3)
        assert s == pytest.approx(wanted.scores[-1, j], abs=1e-3)
        assert a == pytest.approx(wanted.weights[-1, j], abs=1e-4)
        assert value == pytest.approx(v[j, 4], abs=1e-4)
        assert product == pytest.approx(a * value)
    assert total["rows"][0]["numbers"][0]["value"] == pytest.approx(wanted.out[-1, 4], abs=1e-3)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"token": 99}, "token must be from 1 to"), ({"rank": 999}, "rank must be"), ({"head": 7}, "head"),
     ({"layer": 7}, "layer"), ({"unit": 99}, "unit")],
)  # fmt: skip
def test_what_is_not_there_is_refused(options, said, counted):
    pytest.importorskip("torch")
    with pytest.raises(ConfigError):
        seqloom.inspect.prediction(counted["hmm"], TEXT, **options)
    with pytest.raises(ConfigError, match=said):
        seqloom.inspect.prediction(language("gpt"), TEXT, **options)


def test_places_like_a_step_of_the_text():
    pytest.importorskip("torch")
    model = language("lstm")
    here = seqloom.inspect.similar(model, TEXT, unit=3, at=9).data
    state = np.tanh(seqloom.inspect.gates(model, TEXT).data["c"])
    assert here["wanted"][:, 0] == pytest.approx(state[7:10, 3])
    assert here["rows"][0]["step"] == 9  # the place itself
    with pytest.raises(ConfigError, match="at must be from 0 to"):
        seqloom.inspect.similar(model, TEXT, at=99)


def test_the_picture_has_the_token_that_is_explained(counted):
    for rank, shown in ((9, True), (1, False)):
        sheet = seqloom.inspect.prediction(counted["word"], "to be or not", rank=rank)
        (chart,) = sheet.charts.values()
        rows = [row for rows in chart.to_dict()["datasets"].values() for row in rows]
        assert (f"{sheet.data['token']}, rank {sheet.data['rank']}" in str(rows)) == shown
