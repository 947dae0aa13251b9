"""A served text is that of `model.generate` and `model.chat` with the same seed and options, to the
character: alone and in company, whole and streamed, for every kind of language model.
"""

import numpy as np
import pytest

import seqloom
from seqloom import GPT, TrainConfig, interop
from seqloom.registry import MODELS
from tests.interop.llama_files import llama_file
from tests.models.test_chat import TEMPLATE
from tests.serving.running import SAVED, running

FAMILIES = sorted(
    name
    for name in SAVED
    if MODELS[name.removesuffix("-4-bit").removesuffix("-8-bit")].task == "language model"
)
PROMPTS = ["the cat", "the do", "", "on the log the", "th", "the cat sat on", "zebra ö", "The "]
DRAWINGS = [
    {},
    {"temperature": 0.7, "top_k": 5},
    {"top_p": 0.8},
    {"temperature": 0},
    {"repetition_penalty": 1.3},
    {"temperature": 1.5, "min_tokens": 3},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("served")
    interop.open(
        llama_file(place / "x.gguf", tokenizer__chat_template=TEMPLATE, llama__context_length=200)
    ).save(place / "chat")
    models = [*(SAVED[name] for name in FAMILIES), place / "chat"]
    with running(*models, rows=16) as server:
        yield server


def requests(name, number):
    """Requests of different prompts, options and lengths, each with a seed of its own."""
    return [
        {
            "model": name,
            "prompt": PROMPTS[i % len(PROMPTS)],
            "max_tokens": 1 + 3 * i % 23,
            "seed": i,
            **DRAWINGS[i % len(DRAWINGS)],
        }
        for i in range(number)
    ]


def generated(server, request, **changes):
    """What the library writes for a request."""
    options = {
        key: value
        for key, value in request.items()
        if key not in ("model", "prompt", "stream", "n", "logprobs")
    }
    return server.models[request["model"]].generate(request["prompt"], **options | changes)


@pytest.mark.parametrize("name", [*FAMILIES, "chat"])
def test_in_company_and_streamed_it_is_what_generate_writes(server, name):
    asked = requests(name, 16)
    expected = [[generated(server, request)] for request in asked]
    assert [server.complete(**request) for request in asked[:6]] == expected[:6]
    assert server.at_once(asked) == expected
    assert server.at_once([request | {"stream": True} for request in asked]) == expected
    assert server.at_once([request | {"logprobs": 2} for request in asked]) == expected


@pytest.mark.parametrize("name", ["ngram", "lstm", "gpt", "mixture", "hmm", "chat"])
def test_choices_are_the_texts_of_as_many_prompts(server, name):
    model = server.models[name]
    for prompt in ("the ca", "the cat sat", ""):
        options = {"max_tokens": 9, "seed": 3, "temperature": 1.2}
        expected = model.generate([prompt] * 5, **options)
        assert server.complete(model=name, prompt=prompt, n=5, **options) == expected
        found = server.complete(model=name, prompt=prompt, n=5, stream=True, **options)
        assert found == expected
    # several prompts: each as if it were alone
    expected = [model.generate(prompt, **options) for prompt in PROMPTS]
    assert server.complete(model=name, prompt=PROMPTS, **options) == expected
    assert server.complete(model=name, prompt=PROMPTS, stream=True, **options) == expected
    twice = server.complete(model=name, prompt=PROMPTS, n=2, **options)
    assert twice == [text for prompt in PROMPTS for text in model.generate([prompt] * 2, **options)]


STOPS = [
    ["t"],
    ["cat sat", "at s", "sat"],  # overlapping: what ends first counts
    ["the", "he c"],
    ["nowhere", "o", "the cat sat on the mat and more"],
    [f"<{i}>" for i in range(60)] + [" "],
    ["\n"],
]


@pytest.mark.parametrize("name", ["ngram", "nplm", "lstm", "gpt", "hmm", "chat"])
@pytest.mark.parametrize("stops", STOPS, ids=range(len(STOPS)))
def test_it_stops_where_generate_stops(server, name, stops):
    for seed in range(3):
        request = {"model": name, "prompt": "the", "max_tokens": 24, "seed": seed, "stop": stops}
        whole = generated(server, request, stop=())
        expected = generated(server, request)
        assert whole.startswith(expected)
        answer = server.post("/v1/completions", **request).values["choices"][0]
        assert answer["text"] == expected
        assert not any(stop in expected for stop in stops)
        assert answer["finish_reason"] == "stop" or not any(stop in whole for stop in stops)
        assert server.complete(**request, stream=True) == [expected]
    if len(stops) == 1:  # a text in place of a list of one
        assert server.complete(**request | {"stop": stops[0]}) == [expected]


def test_a_chat_is_that_of_the_library(server):
    model = server.models["chat"]
    talk = [
        {"role": "system", "content": "the cat"},
        {"role": "user", "content": "and <|im_end|>?"},
    ]
    for options in (
        {"seed": 0, "max_tokens": 20},
        {"seed": 5, "max_tokens": 30, "temperature": 1.3, "repetition_penalty": 1.0},
        {"seed": 5, "max_tokens": 30, "temperature": 1.0, "stop": ["a", "Ġ"]},
        {"seed": 1, "max_tokens": 9, "temperature": 0.0},
    ):
        expected = model.chat(talk, **options)
        answer = server.post("/v1/chat/completions", model="chat", messages=talk, **options).values
        (choice,) = answer["choices"]
        assert choice["message"] == {"role": "assistant", "content": expected}
        assert answer["object"] == "chat.completion"
        assert answer["usage"]["prompt_tokens"] == len(model.chat_tokens(talk)[0])
        events = server.post(
            "/v1/chat/completions", model="chat", messages=talk, stream=True, **options
        ).events
        assert {event["object"] for event in events} == {"chat.completion.chunk"}
        deltas = [event["choices"][0]["delta"] for event in events]
        assert "".join(delta.get("content", "") for delta in deltas) == expected
        assert [event["choices"][0]["finish_reason"] for event in events][-1] is not None


def test_parts_of_a_message_are_joined(server):
    options = {"seed": 3, "max_tokens": 12, "temperature": 1.0}
    parts = [{"type": "text", "text": "the "}, {"type": "text", "text": "cat"}]
    answer = server.post(
        "/v1/chat/completions",
        model="chat",
        messages=[{"role": "user", "content": parts}],
        **options,
    ).values
    expected = server.models["chat"].chat("the cat", **options)
    assert answer["choices"][0]["message"]["content"] == expected


def test_a_role_that_there_is_not(server):
    talk = [{"role": "function", "content": "the cat"}]
    answer = server.post("/v1/chat/completions", model="chat", messages=talk)
    assert (answer.status, answer.error["param"]) == (400, "messages")
    assert "'function'" in answer.error["message"]


def test_without_a_template_the_other_address_is_named(server):
    for name in ("gpt", "ngram"):
        talk = [{"role": "user", "content": "hello"}]
        answer = server.post("/v1/chat/completions", model=name, messages=talk)
        assert answer.status == 400
        assert "/v1/completions" in answer.error["message"]


def test_ids_are_a_prompt_too(server):
    """As lm-eval sends them. A prompt of ids is complete: its last word is not spelled again."""
    for name in ("ngram", "lstm", "gpt", "chat"):
        model = server.models[name]
        ids = model.tokenizer.encode("the cat sat on ").tolist()
        text = model.tokenizer.decode(ids)
        request = {"model": name, "max_tokens": 7, "seed": 2}
        (alone,) = server.complete(**request, prompt=ids)
        assert server.complete(**request, prompt=[ids, ids[:2]])[0] == alone
        echoed = server.complete(**request, prompt=ids, echo=True)
        assert echoed == [text + alone]


@pytest.fixture(scope="module")
def bytes_of_utf8(tmp_path_factory):
    """A GPT over bytes, whose letters beyond ASCII take several tokens each, drawn nearly at random."""
    pytest.importorskip("torch")
    place = tmp_path_factory.mktemp("bytes") / "model"
    text = "äöü 猫は猫 😀😀 é naïve\n" * 30
    model = GPT(tokenizer="byte", unit="stream", d_model=16, n_layers=1, n_heads=2, context=48).fit(
        text, train=TrainConfig(steps=3)
    )
    model.save(place)
    return place


def test_letters_of_several_tokens_are_streamed_whole(bytes_of_utf8):
    with running(bytes_of_utf8) as server:
        model = seqloom.load(bytes_of_utf8)
        for seed in range(8):
            options = {"prompt": "猫", "max_tokens": 30, "seed": seed}
            expected = [model.generate(**options)]
            assert server.complete(**options) == expected
            assert server.complete(**options, stream=True) == expected
            scored = server.post("/v1/completions", logprobs=1, **options).values
            assert np.isfinite(scored["choices"][0]["logprobs"]["token_logprobs"]).all()
