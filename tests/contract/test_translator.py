"""The verbs of a translator, on a model of a few lines that writes its source backwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqloom.contracts import Fitting, Translator
from seqloom.contracts.translator import forced_log_probs
from seqloom.data.parallel import Parallel
from seqloom.errors import ConfigError, DataError
from seqloom.text.tokenizer import Tokenizer

PAIRS = [("abc", "cba"), ("ab", "ba"), ("cab", "bac"), ("a", "a")]
SURE = 0.9


class Backwards(Translator):
    """Gives the right next character the probability 0.9 and shares the rest among the others."""

    def fit_pairs(self, data: Parallel, how: Fitting) -> None:
        self.tokenizers = {"source": Tokenizer(kind="char").fit(data.source_texts),
                           "target": Tokenizer(kind="char").fit(data.targets)}

    def decoder(self, sources: list[Any]) -> Any:
        return _Writer(self.target_ids([source[::-1] for source in sources]), self.target_tokenizer)


class _Writer:
    def __init__(self, targets: list[np.ndarray], tokenizer: Tokenizer) -> None:
        self.targets, self.vocab_size, self.eos_id = targets, tokenizer.vocab_size, tokenizer.eos_id

    def start(self, n: int) -> Any:
        return self._state(np.arange(n), np.zeros(n, np.int64))

    def step(self, state: Any, ids: np.ndarray) -> Any:
        return self._state(state[0], state[1] + 1)

    def _state(self, source: np.ndarray, at: np.ndarray) -> Any:
        probs = np.full((len(at), self.vocab_size), (1 - SURE) / (self.vocab_size - 1), np.float32)
        for row, (i, t) in enumerate(zip(source.tolist(), at.tolist())):
            probs[row, self.targets[i][min(t, len(self.targets[i]) - 1)]] = SURE
        return (source, at), np.log(probs)


@pytest.fixture(scope="module")
def model() -> Backwards:
    return Backwards().fit(PAIRS)


def test_translates_one_or_many_in_their_order(model: Backwards) -> None:
    assert model.translate("cab") == "bac"
    sources = ["abc", "a", "", "cccbbbaaa", "ab"]
    assert model.translate(sources) == [source[::-1] for source in sources]
    assert model.translate(sources, beams=1) == [source[::-1] for source in sources]


def test_n_best_are_in_order_and_different(model: Backwards) -> None:
    best = model.translate("ab", nbest=3)
    assert len({one.text for one in best}) == 3
    assert best[0].text == "ba"
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
    assert best[0].log_prob == pytest.approx(3 * np.log(SURE), abs=1e-5)
    assert model.translate(["ab"], nbest=3)[0][0].text == "ba"


def test_a_translation_that_never_ends_is_cut_off_and_said(model: Backwards, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    assert model.translate("abcabcabc", max_tokens=2) == "cb"
    assert "1 of 1 translations did not end and were cut off after 2 tokens" in said[0]


def test_score_is_the_sum_over_tokens_with_the_end(model: Backwards) -> None:
    assert model.score("ab", "ba") == pytest.approx(3 * np.log(SURE), abs=1e-5)
    first, second = model.score(["ab", "abc"], ["ba", "a"])
    assert first == pytest.approx(3 * np.log(SURE), abs=1e-5)
    assert second < np.log(0.1)
    stepper = model.decoder(["ab", "abc"])
    assert [len(some) for some in forced_log_probs(stepper, model.target_ids(["ba", "cba"]))] == [3, 4]


def test_draws_differ_by_seed_and_not_by_batch(model: Backwards) -> None:
    drawn = [model.translate(["abcabcabc"], search="sample", temperature=4.0, seed=seed)[0] for seed in range(8)]
    assert len(set(drawn)) > 1
    assert model.translate("abcabcabc", search="sample", temperature=4.0, seed=3) == drawn[3]


def test_evaluates(model: Backwards) -> None:
    result = model.evaluate([("ab", "ba"), ("abc", "xyz")], samples=0)
    assert result["exact_match"] == 0.5
    assert result["pairs"] == 2
    assert "beams:5" in str(result.signature)


def test_what_is_refused(model: Backwards) -> None:
    with pytest.raises(ConfigError, match="nbest"):
        model.translate("ab", nbest=0)
    with pytest.raises(ConfigError, match="temperature"):
        model.translate("ab", temperature=2.0)
    with pytest.raises(DataError, match="source 2 is int"):
        model.translate(["ab", 3])
    with pytest.raises(DataError, match="2 sources and 1 targets"):
        model.score(["ab", "a"], ["b"])
    with pytest.raises(TypeError, match="neither decoder nor translate_batch"):
        type("Empty", (Translator,), {"fit_pairs": lambda self, data, how: None})()
