"""Dynamic evaluation: what it gains, that it looks at nothing before it is scored, that the model
stays as it was.
"""

import copy
import json
import math

import numpy as np
import pytest

import seqloom
from seqloom import NGram, registry
from seqloom.errors import ConfigError, TrainingError
from seqloom.models.language.dynamic import DynamicEvaluation
from seqloom.training.config import TrainConfig

torch = pytest.importorskip("torch")

SMALL = {
    "nplm": {"d_hidden": 16, "d_embed": 8, "order": 3},
    "lstm": {"d_hidden": 16},
    "gpt": {"d_model": 16, "n_heads": 2, "n_layers": 1, "context": 32},
}
NAMES = list(SMALL)


def network(name, text, steps, **options):
    options = {"tokenizer": "char", **SMALL[name], **options}
    return registry.model_class(name)(**options).fit(
        text, train=TrainConfig(steps=steps, seed=1, optimizer="adamw")
    )


def walk(seed, jumps, length=1500):
    """Letters in a circle; each is followed by one of few that lie `jumps` further on."""
    rng, letter, found = np.random.default_rng(seed), 0, []
    for _ in range(length):
        letter = (letter + int(rng.choice(jumps))) % 12
        found.append("abcdefghijkl"[letter])
    return "".join(found)


@pytest.fixture(scope="module", params=NAMES)
def model(request):
    return network(request.param, walk(0, (1, 2)), steps=60)


def test_text_of_another_style_gains(model):
    """Trained on steps of one or two letters; read are steps of five or six, where it gains much,
    and the old ones.
    """
    for text, limit in ((walk(1, (5, 6)), 0.85), (walk(2, (1, 2)), 1.0)):
        static, dynamic = (
            model.evaluate(text, samples=0),
            model.evaluate(text, samples=0, dynamic=True, dynamic_lr=0.02),
        )
        assert dynamic["nats"] < limit * static["nats"]


def test_rate_zero_is_the_static_evaluation(model):
    text = walk(3, (1, 5), 400)
    static, still = model.evaluate(text), model.evaluate(text, dynamic=True, dynamic_lr=0.0)
    assert still["nats"] == pytest.approx(static["nats"], rel=1e-6)
    ids, lengths = model.encode(text)
    assert DynamicEvaluation(model, 0.0).text_log_probs(ids) == pytest.approx(
        model.sequence_log_probs(ids, lengths), abs=1e-5
    )


def test_where_the_pieces_are_the_same_rate_zero_is_the_same_to_the_bit():
    """One sequence and the window in which it scores anyway. (torch's LSTM rounds otherwise where
    gradients are kept.)
    """
    model = network("nplm", walk(0, (1, 2)), steps=5)
    ids, lengths = model.encode(walk(3, (1, 5), 700))
    assert np.array_equal(
        DynamicEvaluation(model, 0.0, 4096).text_log_probs(ids),
        model.sequence_log_probs(ids, lengths),
    )


def test_nothing_is_learnt_before_it_is_scored(model):
    """The first window costs what it costs statically; a change of the last token changes no other's cost."""
    ids, lengths = model.encode(walk(4, (5, 6), 200))
    found = DynamicEvaluation(model, 0.01).text_log_probs(ids)
    static = model.sequence_log_probs(ids, lengths)
    assert found[:32] == pytest.approx(static[:32], abs=1e-5)
    assert np.abs(found[40:] - static[40:]).max() > 0.01
    changed = ids.copy()
    changed[-2] = ids[-3]
    again = DynamicEvaluation(model, 0.01).text_log_probs(changed)
    assert again[:-2] == pytest.approx(found[:-2], abs=1e-5)


def test_the_model_is_as_before(model):
    text = walk(5, (5, 6), 300)
    before = {name: array.copy() for name, array in model.arrays().items()}
    scores = model.token_scores(text)
    first = model.evaluate(text, samples=0, dynamic=True)
    assert first["nats"] != pytest.approx(-sum(scores), rel=1e-4)
    assert all(np.array_equal(before[name], array) for name, array in model.arrays().items())
    assert all(p.grad is None for p in model.network().parameters())
    assert model.token_scores(text) == scores
    assert model.evaluate(text, samples=0, dynamic=True).metrics == first.metrics


def test_one_step_against_equation(model):
    """Two windows: the second is scored by weights that were moved as the docstring says, here in
    plain NumPy.
    """
    if model.name == "lstm":
        pytest.skip("its state was made by the old weights; the others show the step")
    ids = model.encode(walk(6, (5, 6), 63))[0]
    if model.name == "gpt":
        ids = ids[:48]  # 32 tokens in the first window, the rest in the second
    lr = 0.02
    network = copy.deepcopy(model.network())
    pieces = list(model.layers.flat_features(model, network, ids, np.array([len(ids)]), 32))
    places, features = pieces[0]
    torch.nn.functional.cross_entropy(
        network.output.log_probs(features), torch.from_numpy(ids[places])
    ).backward()
    with torch.no_grad():
        for weight in network.parameters():
            g = weight.grad.numpy()
            weight -= torch.from_numpy(lr * g / (np.abs(g) + np.abs(g).mean() + 1e-12))
    found = DynamicEvaluation(model, lr).text_log_probs(ids)
    with torch.no_grad():
        expected = model.flat_log_probs(network, ids, np.array([len(ids)]))
    assert found[32:] == pytest.approx(expected[32:], abs=1e-4)
    assert (
        np.abs(found[32:] - model.sequence_log_probs(ids, np.array([len(ids)]))[32:]).max() > 0.005
    )


def test_units_are_read_in_the_order_of_the_text():
    """Lines of unlike length, without carry: each learns from those above it and no other."""
    lines = [walk(seed, (5, 6), 5 + 7 * (seed % 4)) for seed in range(12)]
    model = network("lstm", walk(0, (1, 2)), steps=20, unit="line", carry=False)
    whole = DynamicEvaluation(model, 0.01).text_log_probs(model.encode("\n".join(lines))[0])
    part = DynamicEvaluation(model, 0.01).text_log_probs(model.encode("\n".join(lines[:6]))[0])
    assert whole[: len(part)] == pytest.approx(part, abs=1e-6)


def test_signature_says_so_and_others_are_refused(model):
    result = model.evaluate("abc", samples=0, dynamic=True, dynamic_lr=0.002)
    assert result.signature.to_dict()["dynamic"] == "rms,lr=0.002,window=32"
    assert "dynamic" not in model.evaluate("abc", samples=0).signature.to_dict()
    with pytest.raises(ConfigError, match=r"for networks.*ngram"):
        NGram(order=2).fit("a b").evaluate("a", dynamic=True)
    with pytest.raises(ConfigError, match="turn it on with dynamic"):
        model.evaluate("abc", dynamic_lr=0.1)
    for wrong in (-0.1, math.inf, math.nan):
        with pytest.raises(ConfigError, match="from 0 to"):
            model.evaluate("abc", dynamic=True, dynamic_lr=wrong)
    with pytest.raises(TrainingError, match="lower dynamic_lr"):
        model.evaluate(walk(0, (1, 2), 300), dynamic=True, dynamic_lr=1e6)


@pytest.mark.parametrize("softmax", ["adaptive", "sampled"])
def test_other_output_layers(softmax):
    model = network("lstm", walk(0, (1, 2)), steps=30, softmax=softmax)
    text = walk(1, (5, 6), 600)
    assert (
        model.evaluate(text, samples=0, dynamic=True, dynamic_lr=0.005)["nats"]
        < model.evaluate(text, samples=0)["nats"]
    )


def test_on_the_command_line(tmp_path):
    from click.testing import CliRunner

    from seqloom.cli.main import main

    network("lstm", walk(0, (1, 2)), steps=5).save(tmp_path / "m")
    (tmp_path / "text.txt").write_text(walk(1, (5, 6), 300))
    args = ["evaluate", str(tmp_path / "m"), str(tmp_path / "text.txt"), "--json", "-q"]
    found = [
        json.loads(CliRunner().invoke(main, [*args, *more]).stdout)
        for more in ([], ["--dynamic"], ["--dynamic", "--dynamic-lr", "0.02"])
    ]
    assert found[1]["signature"]["dynamic"] == "rms,lr=0.001,window=32"
    assert len({round(f["metrics"]["nats"], 3) for f in found}) == 3
    assert (
        found[0]["metrics"]["nats"]
        == seqloom.load(tmp_path / "m").evaluate(tmp_path / "text.txt")["nats"]
    )
    refused = CliRunner().invoke(main, [*args, "--dynamic", "--against", str(tmp_path / "m")])
    assert refused.exit_code != 0
