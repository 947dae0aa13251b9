"""Probes and senses: numbers that are known beforehand, other programs', and what is refused."""

import numpy as np
import pytest

import seqloom
from seqloom import progress
from seqloom.errors import ConfigError, DataError
from seqloom.models.classification.probing import control_targets, fit_probe
from seqloom.models.network.word_layers import untrained, word_layers
from seqloom.views.probing import probed_data
from seqloom.views.word_senses import compare_senses, read_uses
from tests.saved import NEWEST

pytest.importorskip("torch")


def test_the_probe_is_scikit_learns():
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, 300)
    x = (rng.standard_normal((300, 12)) + rng.standard_normal((4, 12))[classes]).astype(np.float32)
    found = fit_probe(x, classes, 0.1)
    scaled = (x - found.mean) / found.deviation
    theirs = linear.LogisticRegression(C=0.1, tol=1e-8, max_iter=2000).fit(scaled, classes)
    np.testing.assert_allclose(found.weights[:-1], theirs.coef_.T, atol=1e-2)
    assert (found.predict(x) == theirs.predict(scaled)).mean() > 0.99


def test_a_control_task_has_one_class_for_each_type():
    types = list("abcabcaab")
    drawn = control_targets(types, np.array([0, 1, 2] * 3), np.random.default_rng(1))
    assert len({(one, int(target)) for one, target in zip(types, drawn)}) == 3


def test_a_probe_reads_what_is_there_and_not_what_is_not():
    """A tag that the word decides is read from the embedding, one drawn for each use is not."""
    model = seqloom.load(NEWEST / "lstm")
    rng = np.random.default_rng(0)
    words = [rng.choice(["the", "cat", "sat", "on"], 6).tolist() for _ in range(60)]
    by_word = {"the": "D", "cat": "N", "sat": "V", "on": "P"}
    real = seqloom.inspect.probe(
        model, [(s, [by_word[w] for w in s]) for s in words], random=False, C=10
    )
    assert real.data["rows"][0]["layer"] == "embedding"
    assert real.data["rows"][0]["accuracy"] == 1.0
    assert real.data["by_word"] == 1.0
    chance = seqloom.inspect.probe(
        model, [(s, [rng.choice(["A", "B"]) for _ in s]) for s in words], random=False
    )
    assert abs(chance.data["rows"][0]["accuracy"] - 0.5) < 0.15
    assert chance.data["rows"][0]["selectivity"] < 0


def test_cosines_are_those_of_all_pairs():
    rng = np.random.default_rng(0)
    vectors, kinds = rng.standard_normal((9, 5)), np.array(list("aabbbccca"))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = {True: [], False: []}
    for i in range(9):
        for j in range(9):
            if i != j:
                pairs[bool(kinds[i] == kinds[j])].append(units[i] @ units[j])
    found = compare_senses(vectors, kinds)
    assert found["within"] == pytest.approx(np.mean(pairs[True]))
    assert found["across"] == pytest.approx(np.mean(pairs[False]))
    assert found["low"] <= found["gap"] <= found["high"]


def test_a_word_has_the_vector_of_its_last_token():
    model = seqloom.load(NEWEST / "lstm")
    traced = model.trace("the cat sat", "*.out")
    chosen, layers = word_layers(model, ["the", "cat", "sat"])
    assert chosen.tolist() == [0, 1, 2]
    assert traced.tokens[1:] == ["the", "cat", "sat"]
    name = "recurrent.layers.1"
    assert np.array_equal(layers[name], traced.arrays[f"{name}.out"][1:])
    ids = model.tokenizer.encode("the cat sat")
    assert np.array_equal(layers["embedding"], model.weights["embedding.weight"][ids])


def test_random_weights_are_drawn_by_their_seed():
    model = seqloom.load(NEWEST / "gpt")
    one, same, other = (untrained(model, seed).weights["embedding.weight"] for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert model.weights["embedding.weight"].shape == one.shape


@pytest.mark.parametrize(
    ("uses", "word", "says"),
    [
        ([("the cat sat", "a")], None, "asterisks"),
        ([("the cat sat", "a")], "dog", "'dog' is not in the sentence"),
        ("missing.tsv", None, "there is no file"),
    ],
)
def test_sentences_that_cannot_be_used(uses, word, says):
    with pytest.raises(DataError, match=says):
        read_uses(uses, word)


def test_one_sense_is_too_few():
    model = seqloom.load(NEWEST / "lstm")
    with pytest.raises(DataError, match="two senses"):
        seqloom.inspect.senses(model, [("the *cat*", "a"), ("a *cat*", "a")])


def test_a_file_without_tags_is_refused(tmp_path):
    (tmp_path / "text.txt").write_text("just words\n")
    with pytest.raises(DataError, match="neither words with tags nor texts with labels"):
        probed_data(tmp_path / "text.txt")
    with pytest.raises(DataError, match="there is no"):
        probed_data(tmp_path / "none.conll")


def test_a_model_without_layers_has_no_probe():
    with pytest.raises(ConfigError, match="no view 'probe'"):
        seqloom.inspect.probe(seqloom.NGram(order=2).fit("a b"), [])


class Heard:
    """Hears what is said beside the work."""

    def __init__(self):
        self.said = []

    def begin(self, label, total, unit):
        return self

    def end(self, task):
        pass

    def advance(self, amount=1):
        pass

    def note(self, text):
        pass

    def say(self, message):
        self.said.append(message)


def test_long_sentences_are_told_once():
    model = seqloom.load(NEWEST / "gpt")
    long = " ".join(["the cat sat on the log"] * 30)
    uses = [(f"the *cat* sat {long}", sense) for sense in "aabb"]
    tagged = [(f"the cat {long}".split(), ["D"] + ["N"] * 181)] * 6
    for view, data in (("senses", uses), ("probe", tagged)):
        heard = Heard()
        with progress.reporting(heard):
            getattr(seqloom.inspect, view)(model, data, random=False)
        assert not [message for message in heard.said if "read together" in message]
        assert len(heard.said) <= 2
