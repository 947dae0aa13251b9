"""Exposure bias against the formula in plain Python, on a model whose every token depends on the
two before it.
"""

import numpy as np
import pytest

import seqloom
from seqloom import inspect
from seqloom.contracts import Translator
from seqloom.decoding.beam import forced_log_probs
from seqloom.errors import ConfigError
from tests.own_models import Backwards

SOURCES = ["a", "bb", "abc", "abab", "b", "cc", "abcab"]
TARGETS = ["abcabc", "", "cab", "abcabcabcabc", "a", "bcb", "ccc"]


class Trigrams(Translator):
    """Random probabilities of a token by the two before it and the length of the source."""

    def fit_pairs(self, data, how):
        self.tokenizers = {
            side: seqloom.Tokenizer(kind="char").fit(data.targets) for side in ("source", "target")
        }
        v, rng = self.target_tokenizer.vocab_size, np.random.default_rng(1)
        logits = rng.normal(size=(3, v, v, v)) * 2
        logits[..., self.target_tokenizer.eos_id] -= 1
        letters = [self.target_tokenizer.id(letter) for letter in "abc"]
        logits[..., np.setdiff1d(np.arange(v), [*letters, self.target_tokenizer.eos_id])] = -30
        self.table = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)

    def decoder(self, sources):
        return Steps(
            self.table,
            np.array([len(source) % 3 for source in sources]),
            self.target_tokenizer.eos_id,
        )


class Steps:
    def __init__(self, table, kinds, eos_id):
        self.table, self.kinds, self.vocab_size, self.eos_id = table, kinds, table.shape[-1], eos_id

    def start(self, n):
        before = np.full(n, self.eos_id)
        return (self.kinds[:n], before, before), self.table[self.kinds[:n], before, before]

    def step(self, state, ids):
        kinds, _, before = state
        return (kinds, before, ids), self.table[kinds, before, ids]


def plain(model, source, target):
    """Costs of the target's tokens after its own history and after the greedy one, at the positions
    that both have.
    """
    table, eos = model.table[len(source) % 3], model.target_tokenizer.eos_id
    ids, greedy = model.target_ids([target])[0].tolist(), [eos, eos]
    while len(greedy) < len(ids) + 2 and (len(greedy) == 2 or greedy[-1] != eos):
        greedy.append(int(table[greedy[-2], greedy[-1]].argmax()))
    true, both = [eos, eos, *ids], min(len(ids), len(greedy) - 2)
    return [
        [-float(table[history[t], history[t + 1], ids[t]]) for t in range(both)]
        for history in (true, greedy)
    ]


@pytest.fixture(scope="module")
def model():
    return Trigrams().fit(SOURCES, TARGETS)


def test_the_formula(model, tmp_path):
    found = inspect.exposure_bias(model, SOURCES, TARGETS).data
    each = [plain(model, *pair) for pair in zip(SOURCES, TARGETS)]
    forced, free = ([cost for pair in each for cost in pair[side]] for side in (0, 1))
    references = sum(len(target) + 1 for target in TARGETS)
    assert (found["pairs"], found["tokens"], found["reference_tokens"]) == (
        7,
        len(forced),
        references,
    )
    assert len(forced) < references  # some translations end early
    assert found["teacher_forcing"] == pytest.approx(np.mean(forced), rel=1e-6)
    assert found["free_running"] == pytest.approx(np.mean(free), rel=1e-6)
    assert found["gap"] == pytest.approx(np.mean(free) - np.mean(forced), rel=1e-5)
    assert found["excess"] == pytest.approx(np.mean(free) / np.mean(forced) - 1, rel=1e-5)
    low, high = found["gap_interval"]
    assert low < found["gap"] < high
    first, second = found["positions"][:2]
    assert (first["position"], first["tokens"], second["position"]) == ("1", 7, "2-3")
    assert (
        first["teacher_forcing"]
        == first["free_running"]
        == pytest.approx(np.mean([pair[0][0] for pair in each]))
    )
    inside = [cost for pair in each for cost in pair[1][1:3]]
    assert (second["tokens"], second["free_running"]) == (
        len(inside),
        pytest.approx(np.mean(inside)),
    )


def test_it_is_drawn_and_said(model, tmp_path):
    sheet = inspect.exposure_bias(model, SOURCES, TARGETS, samples=0)
    assert "gap_interval" not in sheet.data
    assert (
        sheet.summary[1]
        == f"exposure-bias gap {sheet.data['gap']:.4f}, {sheet.data['excess']:+.1%}"
    )
    sheet.save(tmp_path / "e.svg")
    assert "free running" in (tmp_path / "e.svg").read_text()


def test_no_gap_where_the_model_writes_the_references(model):
    said = model.translate(SOURCES, beams=1, max_tokens=9)
    found = inspect.exposure_bias(model, SOURCES, said).data
    assert found["tokens"] > len(SOURCES)
    assert found["gap"] == 0


def test_greedy_histories_end_where_the_model_ends(model):
    ids = model.target_ids(TARGETS)
    free, forced = (
        forced_log_probs(model.decoder(SOURCES), ids, greedy=True),
        forced_log_probs(model.decoder(SOURCES), ids),
    )
    for source, target, own, true in zip(SOURCES, TARGETS, free, forced):
        np.testing.assert_allclose(-own, plain(model, source, target)[1], rtol=1e-6)
        assert len(true) == len(target) + 1


def test_what_is_refused(model):
    with pytest.raises(ConfigError, match="copy models do not write token by token"):
        inspect.exposure_bias(seqloom.Copy().fit(SOURCES, TARGETS), SOURCES, TARGETS)


def test_history_does_not_matter_to_a_model_that_ignores_it():
    model = Backwards().fit([("abc", "cba"), ("ab", "ba")])
    assert inspect.exposure_bias(model, ["abc", "ab"], ["abb", "aa"]).data["gap"] == 0
