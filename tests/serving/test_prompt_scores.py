"""`echo` with `logprobs`, as lm-eval reads it: the first token has none, the others have those of
`token_scores`; offsets, the likeliest tokens, and numbers that JSON has not.
"""

import math
import threading

import numpy as np
import pytest

from seqloom import NGram
from seqloom.serving import completions, encoding, verbs
from tests.serving.running import SAVED, running
from tests.serving.test_texts import FAMILIES

TEXT = "the cat sat on the"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("counts") / "mle"
    NGram(order=2, smoothing="maximum-likelihood", tokenizer="whitespace").fit(
        "a b a b\nb a\n"
    ).save(place)
    with running(*(SAVED[name] for name in FAMILIES), place) as server:
        yield server


def echoed(server, name, prompt, **fields):
    fields = {"max_tokens": 0, "logprobs": 1, "echo": True, **fields}
    answer = server.post("/v1/completions", model=name, prompt=prompt, **fields)
    assert answer.status == 200, answer.body
    return answer.values["choices"][0]


def by_steps(model, ids):
    """Log-probabilities of all tokens at each place (T, V), one step after another."""
    stepper = model.generator().whole
    state, log_probs = stepper.start(1)
    rows = []
    for token in ids:
        rows.append(log_probs[0])
        state, log_probs = stepper.step(state, np.array([token]))
    return np.array(rows)


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_of_a_prompt(server, name):
    model = server.models[name]
    text = TEXT if model.tokenizer.kind != "byte" else "the"
    ids = model.tokenizer.encode(text).tolist()
    expected, rows = model.token_scores(text)[: len(ids)], by_steps(model, ids)
    eos = model.tokenizer.eos_id
    for prompt, first in ((text, 1), (ids, 1), ([eos, *ids], 0)):
        choice = echoed(server, name, prompt)
        scores = choice["logprobs"]
        assert scores["token_logprobs"][0] is None
        assert scores["top_logprobs"][0] is None
        found = scores["token_logprobs"][1:]
        np.testing.assert_allclose(found, expected[first:], atol=1e-4)
        tops = [list(top.values()) for top in scores["top_logprobs"][1:]]
        np.testing.assert_allclose(tops, rows[first:].max(1)[:, None], atol=1e-4)
        greedy = [bool(row[token] == row.max()) for token, row in zip(ids, rows)][first:]
        # the very float, as lm-eval compares them
        assert [score == top[0] for score, top in zip(found, tops)] == greedy
        assert choice["finish_reason"] == "length"
    with_text = echoed(server, name, [eos, *ids], max_tokens=3, temperature=0)
    assert len(with_text["logprobs"]["tokens"]) in range(len(ids) + 2, len(ids) + 5)
    assert with_text["logprobs"]["token_logprobs"][: len(ids) + 1] == scores["token_logprobs"]


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_the_same_in_company(server, name):
    fields = {"model": name, "prompt": "the cat", "max_tokens": 4, "seed": 1, "temperature": 0.9}
    fields |= {"logprobs": 3, "echo": True}
    alone = server.post("/v1/completions", **fields).values["choices"][0]["logprobs"]
    many = server.post("/v1/completions", **fields | {"prompt": ["the cat", "the", "on the"] * 5})
    choices = many.values["choices"]
    assert [choice["logprobs"] for choice in choices[::3]] == [alone] * 5
    streamed = server.post("/v1/completions", **fields, stream=True).events
    parts = [event["choices"][0]["logprobs"] for event in streamed]
    assert {key: [one for part in parts for one in part[key]] for key in alone} == alone


@pytest.mark.parametrize("name", ["ngram", "hmm", "lstm", "gpt"])
def test_offsets_count_the_characters_before(server, name):
    choice = echoed(server, name, "the cat", max_tokens=3, seed=2)
    scores = choice["logprobs"]
    lengths = np.cumsum([0, *map(len, scores["tokens"])])
    assert scores["text_offset"] == lengths[:-1].tolist()
    for offset, token in zip(scores["text_offset"], scores["tokens"]):
        if token not in ("</s>", "\n"):
            assert choice["text"][offset:].startswith(token)


def test_lines_begin_anew(server):
    """A model of lines scores each as the beginning of a sequence, in ids as in text."""
    for name in ("ngram", "hmm", "mixture"):
        model = server.models[name]
        text = "the cat\nthe dog sat"
        ids = model.tokenizer.encode(text, newline_ends=True).tolist()
        expected = model.token_scores(text)[:-1]
        for prompt in (text, ids):
            found = echoed(server, name, prompt)["logprobs"]["token_logprobs"]
            np.testing.assert_allclose(found[1:], expected[1:], atol=1e-4)


def test_what_cannot_be_is_a_number_there_and_null_here(server):
    scores = echoed(server, "mle", "b b a")["logprobs"]
    assert scores["token_logprobs"][1] == -9999.0
    assert math.isfinite(scores["token_logprobs"][2])
    result = server.post("/score", model="mle", inputs=["b b a", "a b"], tokens=True).values
    impossible, fine = result["results"]
    assert impossible["score"] is None
    assert [token["log_prob"] for token in impossible["tokens"]][1] is None
    assert fine["score"] == pytest.approx(server.models["mle"].score("a b"))
    top = echoed(server, "mle", "b b a", logprobs=4)["logprobs"]["top_logprobs"][1]
    assert -9999.0 in top.values()


def test_a_prompt_without_tokens(server):
    for prompt in ("", [[]]):
        assert echoed(server, "lstm", prompt)["logprobs"]["tokens"] == []


# ---- much of it, which must hold up nobody


def test_scores_of_a_long_prompt_are_streamed_in_parts(server, monkeypatch):
    monkeypatch.setattr(completions, "MOST_OF_EVENT", 10)
    fields = {"model": "lstm", "prompt": "the cat sat on the mat " * 4, "echo": True, "logprobs": 3}
    for more in ({"max_tokens": 0}, {"max_tokens": 5, "seed": 2, "min_tokens": 5}):
        whole = server.post("/v1/completions", **fields, **more).values["choices"][0]
        events = server.post("/v1/completions", **fields, **more, stream=True).events
        parts = [event["choices"][0] for event in events]
        assert max(len(part["logprobs"]["tokens"]) for part in parts) == 2  # of four numbers each
        assert "".join(part["text"] for part in parts) == whole["text"]
        assert [part["finish_reason"] for part in parts[:-1]] == [None] * (len(parts) - 1)
        assert parts[-1]["finish_reason"] == whole["finish_reason"] == "length"
        for key, values in whole["logprobs"].items():
            assert [one for part in parts for one in part["logprobs"][key]] == values


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "the cat sat", "echo": True, "logprobs": 20, "max_tokens": 0},
        {"prompt": "the cat sat", "echo": True, "logprobs": 0, "max_tokens": 0, "n": 20},
        {"prompt": "the", "logprobs": 0, "max_tokens": 60, "min_tokens": 60},
    ],
)
def test_many_scores_are_written_beside_the_event_loop(server, monkeypatch, fields):
    """However they come about: many tokens, many alternatives, many texts."""
    threads = []

    def note(values):
        threads.append(threading.current_thread().name)
        return encoding.encode_long(values)

    monkeypatch.setattr(completions, "MANY_SCORES", 50)
    monkeypatch.setattr(completions, "encode_long", note)
    answer = server.post("/v1/completions", model="lstm", **fields)
    assert answer.status == 200
    assert threads == ["answering"]


def test_large_requests_are_looked_through_beside_the_event_loop(server, monkeypatch):
    threads = []

    def noted(function):
        def note(*arguments):
            threads.append(threading.current_thread().name)
            return function(*arguments)

        return note

    monkeypatch.setattr(completions, "_prompts", noted(completions._prompts))
    monkeypatch.setattr(verbs, "_inputs", noted(verbs._inputs))
    answer = server.post("/v1/completions", model="lstm", prompt=[0] * 40_000 + ["x"])
    assert answer.error["param"] == "prompt"
    answer = server.post("/score", model="lstm", inputs=["the cat"] * 10_000)
    assert answer.error["param"] == "inputs"
    assert threads == ["answering"] * 2
