"""A trace against the search that it shows."""

import math
from itertools import pairwise

import numpy as np
import pytest

from seqloom import Copy, inspect
from seqloom.errors import ConfigError, DataError
from tests.views.test_exposure import SOURCES, TARGETS, Steps, Trigrams


class Attentive(Trigrams):
    """The same, looking at the source step whose number is that of the last token."""

    def decoder(self, sources):
        steps = Looking(
            self.table,
            np.array([len(source) % 3 for source in sources]),
            self.target_tokenizer.eos_id,
        )
        steps.lengths = np.array([len(source) + 1 for source in sources])
        return steps


class Looking(Steps):
    def attention(self, state):
        weights = np.full(
            (len(state[2]), int(self.lengths.max()) + 2), 0.01
        )  # the last two are padding
        weights[np.arange(len(weights)), state[2] % self.lengths[0]] = 0.8
        return weights, self.lengths[np.zeros(len(state[2]), int)]


@pytest.fixture(scope="module")
def model():
    return Attentive().fit(SOURCES, TARGETS)


@pytest.mark.parametrize("beams", [1, 2, 4])
def test_it_is_the_search_of_translate(model, beams):
    for source in SOURCES:
        data = inspect.trace(model, source, beams=beams, max_tokens=6).data
        best = model.translate(source, nbest=1, beams=beams, max_tokens=6)[0]
        assert (data["translation"], data["finished"]) == (best.text, best.finished)
        assert (data["score"], data["log_prob"]) == (best.score, best.log_prob)
        ended = [one for step in data["steps"] for one in step["ended"]]
        top = max(ended, key=lambda one: one["score"])
        assert (top["text"], top["score"]) == (best.text, pytest.approx(best.score))


def test_what_is_said_of_a_step(model):
    eos, table = model.target_tokenizer.eos_id, np.exp(model.table.astype(float))
    steps = inspect.trace(model, "abc", beams=3, top=2, max_tokens=6).data["steps"]
    first = steps[0]["hypotheses"]
    assert [(one["tokens"], one["log_prob"], one["best"]) for one in first] == [([], 0.0, True)]
    likely = np.argsort(-table[0, eos, eos], kind="stable")
    names = [model.target_tokenizer.token(int(token)) for token in likely]
    shown = first[0]["candidates"]
    assert [one["token"] for one in shown] == names[:3]  # all that go on, though two are asked for
    assert [one["probability"] for one in shown] == pytest.approx(table[0, eos, eos][likely[:3]])
    for step, after in pairwise(steps):
        written = {}
        for one in step["hypotheses"]:
            for candidate in one["candidates"]:
                if candidate["becomes"] == "open":
                    written[candidate["number"]] = (
                        [*one["tokens"], candidate["token"]],
                        one["log_prob"] + math.log(candidate["probability"]),
                    )
        assert [(one["tokens"], one["log_prob"]) for one in after["hypotheses"]] == [
            (tokens, pytest.approx(total, abs=1e-5))
            for _, (tokens, total) in sorted(written.items())
        ]
        ends = sum(c["becomes"] == "ends" for one in step["hypotheses"] for c in one["candidates"])
        assert len(written) + ends == (3 if step["step"] > 1 else len(shown))
        assert len(step["ended"]) == ends


def test_what_it_looks_at(model, tmp_path):
    sheet = inspect.trace(model, "abc", beams=2, max_tokens=6)
    names = sheet.data["source"]
    assert names == ["a", "b", "c", "</s>"]
    for step in sheet.data["steps"]:
        for one in step["hypotheses"]:
            last = (
                model.target_tokenizer.id(one["tokens"][-1])
                if one["tokens"]
                else model.target_tokenizer.eos_id
            )
            look = one["looks_at"][0]
            assert (look["position"], look["token"], look["weight"]) == (
                last % 4 + 1,
                names[last % 4],
                0.8,
            )
            assert len(one["looks_at"]) == 3
    assert list(sheet.charts) == ["Beam", "What it looked at"]
    for name in ("t.png", "t.svg", "t.html"):
        sheet.save(tmp_path / name)
    assert "every hypothesis and candidate" in (tmp_path / "t.html").read_text()


def test_a_translation_that_is_cut_off(model):
    data = inspect.trace(model, "a", beams=2, max_tokens=1).data
    assert {one["becomes"] for one in data["steps"][0]["hypotheses"][0]["candidates"]} <= {
        "cut off",
        "ends",
        "dropped",
    }
    assert len(data["steps"]) == 1
    assert "cut off" in inspect.trace(model, "a", beams=1, max_tokens=1).data["lines"][0]


def test_without_attention_and_what_is_refused(model):
    plain = Trigrams().fit(SOURCES, TARGETS)
    sheet = inspect.trace(plain, "abc")
    assert sheet.data["steps"][0]["hypotheses"][0]["looks_at"] == []
    assert list(sheet.charts) == ["Beam"]
    with pytest.raises(ConfigError, match="a trace shows beam search"):
        inspect.trace(plain, "abc", search="sample")
    with pytest.raises(ConfigError, match="copy models do not write token by token"):
        inspect.trace(Copy().fit(SOURCES, TARGETS), "abc")
    with pytest.raises(DataError, match="source 1 is int"):
        inspect.trace(plain, 3)
