"""What is taken and what is refused, and how it is said: routes, fields, errors."""

import shutil
from urllib.parse import quote

import pytest

from seqloom.serving import verbs
from seqloom.serving.app import routes
from tests.serving.running import SAVED, running

NAMES = ("ngram", "gpt", "logistic", "word2vec", "sentence-encoder", "seasonal-naive", "bert")
NAMES += ("tagger", "seq2seq")


@pytest.fixture(scope="module")
def server():
    with running(*(SAVED[name] for name in NAMES), max_tokens=50, max_texts=20) as server:
        yield server


EXAMPLES = {
    "/v1/completions": {"model": "ngram", "prompt": "the", "max_tokens": 1},
    "/v1/chat/completions": None,  # there is no template here: tests/serving/test_texts.py
    "/v1/embeddings": {"model": "word2vec", "input": "cat"},
    "/tokenize": {"model": "gpt", "prompt": "the"},
    "/detokenize": {"model": "gpt", "tokens": [1]},
    "/admin/reload": {"model": "ngram"},
    "/score": {"model": "gpt", "inputs": ["the cat"]},
    "/predict": {"inputs": ["good"], "model": "logistic"},
    "/tag": {"inputs": ["Mary"]},
    "/translate": {"inputs": ["abc"]},
    "/fill": {"inputs": ["the [MASK]"]},
    "/forecast": {"inputs": [list(range(40))]},
    "/anomalies": {"inputs": [list(range(40))]},
    "/nearest": {"inputs": ["cat"], "model": "word2vec"},
    "/analogy": {"inputs": [["cat", "dog", "mat"]], "model": "word2vec"},
    "/similarity": {"inputs": [["cat", "dog"]], "model": "word2vec"},
}


def test_every_route_is_described_and_answers(server):
    table = [*routes()]
    described = server.get("/openapi.json").values
    assert described["openapi"].startswith("3.")
    paths = {
        (method.upper(), path) for path, methods in described["paths"].items() for method in methods
    }
    assert paths == {(route.method, route.path) for route in table} | {("GET", "/openapi.json")}
    for route in table:
        if route.method == "GET":
            query = "?model=gpt" if route.path == "/tokenizer_info" else ""
            answer = server.get(route.path.replace("{name}", "gpt") + query)
        elif EXAMPLES[route.path] is None:
            continue
        else:
            answer = server.post(route.path, EXAMPLES[route.path])
        assert answer.status == 200, (route.path, answer.body)


def test_the_description_names_what_is_taken(server):
    paths = server.get("/openapi.json").values["paths"]
    for path, example in EXAMPLES.items():
        content = paths[path]["post"]["requestBody"]["content"]["application/json"]
        properties = content["schema"]["properties"]
        assert set(example or ()) <= set(properties), path
        for name, schema in properties.items():
            assert schema == {} or {"type", "anyOf"} & schema.keys(), (path, name)


def test_null_is_absent_and_unknown_fields_are_ignored(server):
    plain = {"model": "ngram", "prompt": "the", "max_tokens": 5, "seed": 3}
    expected = server.complete(**plain)
    nulls = dict.fromkeys(
        ("logprobs", "stop", "n", "stream", "echo", "suffix", "best_of", "top_p", "user", "tools")
    )
    assert server.complete(**plain, **nulls) == expected
    assert server.complete(**plain, user="me", metadata={"a": [1]}, whatever=3) == expected
    harmless = {"presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "best_of": 1}
    assert server.complete(**plain, **harmless, suffix="") == expected
    assert server.complete(**plain | {"max_tokens": 5.0}) == expected


WRONG = [
    {"max_tokens": "5"},
    {"max_tokens": 1.5},
    {"max_tokens": -1},
    {"max_tokens": True},
    {"max_tokens": 10**9},
    {"max_tokens": 51},
    {"temperature": "warm"},
    {"temperature": -0.1},
    {"temperature": []},
    {"top_p": -0.1},
    {"top_p": 1.1},
    {"top_k": 0.5},
    {"seed": "x"},
    {"seed": -1},
    {"n": 0},
    {"n": 21},
    {"n": "two"},
    {"stop": 3},
    {"stop": [3]},
    {"stop": ""},
    {"stop": ["a"] * 65},
    {"stream": "yes"},
    {"stream_options": []},
    {"stream_options": {"include_usage": "yes"}},
    {"echo": 1},
    {"logprobs": True},
    {"logprobs": -1},
    {"prompt": 3},
    {"prompt": {}},
    {"prompt": []},
    {"prompt": [10**6]},
    {"prompt": [-1]},
    {"prompt": ["a", 1]},
    {"prompt": [[1], [True]]},
    {"prompt": ["a"] * 21},
    {"model": 3},
    {"model": ["ngram"]},
    {"repetition_penalty": "high"},
    # known elsewhere, not done here
    {"suffix": "end"},
    {"logit_bias": {"3": 5}},
    {"best_of": 3},
    {"presence_penalty": 0.5},
    {"frequency_penalty": -1},
    {"tools": [{}]},
    {"response_format": {"type": "json_object"}},
    {"grammar": "root ::= x"},
    {"min_p": 0.1},
    {"beams": 4},
    {"draft": "ngram"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_wrong_is_named(server, wrong):
    (field,) = wrong
    answer = server.post("/v1/completions", {"model": "ngram", "prompt": "the", **wrong})
    assert answer.status == 400, answer.body
    error = answer.error
    assert error["param"] == field
    assert error["type"] == "invalid_request_error"
    assert field in error["message"]
    assert "\n" not in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


CHAT_WRONG = [
    {"messages": "hi"},
    {"messages": []},
    {"messages": ["hi"]},
    {"messages": [{"role": "user"}]},
    {"messages": [{"role": 1, "content": "x"}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
]


@pytest.mark.parametrize("wrong", CHAT_WRONG, ids=str)
def test_conversations(server, wrong):
    answer = server.post("/v1/chat/completions", model="gpt", **wrong)
    assert (answer.status, answer.error["param"]) == (400, "messages")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/predict", {"model": "logistic"}, "inputs"),
        ("/predict", {"model": "logistic", "inputs": 3}, "inputs"),
        ("/predict", {"model": "logistic", "inputs": [3]}, "inputs"),
        ("/predict", {"model": "logistic", "inputs": ["x"] * 21}, "inputs"),
        ("/predict", {"model": "logistic", "inputs": ["x"], "proba": "yes"}, "proba"),
        ("/predict", {"model": "gpt", "inputs": ["x"]}, "model"),
        ("/forecast", {"inputs": ["x"]}, "inputs"),
        ("/forecast", {"inputs": [["x"]]}, "inputs"),
        ("/forecast", {"inputs": [[]]}, "inputs"),
        ("/forecast", {"inputs": [[1, 2, 3]], "horizon": 0}, "horizon"),
        ("/score", {"model": "seq2seq", "inputs": ["x"]}, "inputs"),
        ("/score", {"model": "gpt", "inputs": [None]}, "inputs"),
        ("/nearest", {"model": "word2vec", "inputs": ["zebra"]}, "inputs"),
        ("/fill", {"inputs": ["no mask"]}, "inputs"),
        ("/v1/embeddings", {"model": "word2vec"}, "input"),
        ("/v1/embeddings", {"model": "word2vec", "input": 3}, "input"),
        (
            "/v1/embeddings",
            {"model": "word2vec", "input": "a", "encoding_format": "x"},
            "encoding_format",
        ),
        ("/v1/embeddings", {"model": "word2vec", "input": "a", "dimensions": 3}, "dimensions"),
        ("/v1/embeddings", {"model": "logistic", "input": "a"}, "model"),
        ("/tokenize", {"model": "gpt"}, "prompt"),
        ("/tokenize", {"model": "gpt", "prompt": 3}, "prompt"),
        ("/detokenize", {"model": "gpt", "tokens": "x"}, "tokens"),
        ("/v1/completions", {"prompt": "two models could write this"}, "model"),
    ],
    ids=str,
)
def test_other_requests(server, path, body, field):
    answer = server.post(path, body)
    assert answer.status == 400, answer.body
    assert answer.error["param"] == field, answer.error


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"3", b'"x"', b"\xff\xfe", b"{'a': 1}", b'{"a": NaN}'),
        b"[" * 100_000,
        b'{"a":' * 40 + b"1" + b"}" * 40,
    ],
)
def test_bodies_that_are_none(server, body):
    answer = server.ask("POST", "/v1/completions", body)
    assert answer.status == 400
    assert "the body" in answer.error["message"]


def test_a_prompt_beyond_the_context_is_told_both_numbers(server):
    context = server.models["gpt"].context
    n = context + 5
    for prompt in ("the " * n, [1] * n):
        for more in ({}, {"logprobs": 1, "echo": True}, {"stream": True}):
            answer = server.post("/v1/completions", model="gpt", prompt=prompt, **more)
            assert (answer.status, answer.error["param"]) == (400, "prompt")
            assert f"{n} tokens" in answer.error["message"]
            assert f"has {context}" in answer.error["message"]
    most = server.post("/v1/completions", model="gpt", prompt=[1] * (context - 1), max_tokens=3)
    assert most.status == 200
    long = server.post("/v1/completions", model="ngram", prompt="the cat " * 500, max_tokens=1)
    assert long.status == 200  # it has no window that could be full


def test_no_tokens_at_all(server):
    answer = server.post("/v1/completions", model="gpt", prompt="the cat", max_tokens=0).values
    assert answer["choices"][0]["text"] == ""
    assert answer["usage"]["completion_tokens"] == 0
    echoed = server.complete(model="gpt", prompt="the cat", max_tokens=0, echo=True)
    assert echoed == ["the cat"]


def test_the_usual_number_of_tokens_is_within_the_limit():
    with running(SAVED["ngram"], max_tokens=4) as server:
        answer = server.post("/v1/completions", prompt="the", seed=1)
        assert answer.status == 200, answer.body
        assert answer.values["usage"]["completion_tokens"] <= 4


def test_the_description_has_the_defaults_of_each_request(server):
    paths = server.get("/openapi.json").values["paths"]
    for path, most, temperature in (
        ("/v1/completions", 16, 1.0),
        ("/v1/chat/completions", 500, 0.2),
    ):
        content = paths[path]["post"]["requestBody"]["content"]["application/json"]
        properties = content["schema"]["properties"]
        assert properties["max_tokens"]["default"] == most
        assert properties["temperature"]["default"] == temperature


def test_an_answer_has_a_size(server, monkeypatch):
    """Many inputs with long answers must not take all memory."""
    monkeypatch.setattr(verbs, "MOST_ANSWER", 2000)
    series = list(range(40))
    assert server.post("/forecast", inputs=[series], horizon=3).status == 200
    answer = server.post("/forecast", inputs=[series] * 20, horizon=3)
    assert (answer.status, answer.error["param"]) == (400, "inputs")
    assert "2,000 bytes" in answer.error["message"]


def test_names_with_other_letters_than_those_of_an_address(tmp_path):
    place = tmp_path / "my mödel+1"
    shutil.copytree(SAVED["ngram"], place)
    with running(place, SAVED["lstm"]) as server:
        name = quote(place.name)
        assert server.get(f"/v1/models/{name}").values["id"] == place.name
        info = server.get(f"/tokenizer_info?model={quote(place.name, safe='')}")
        assert info.status == 200, info.body
        assert server.post("/tokenize", model=place.name, prompt="the").status == 200


def test_names(server):
    for path, body in (
        ("/v1/completions", {"prompt": "x"}),
        ("/predict", {"inputs": ["x"]}),
        ("/v1/embeddings", {"input": "x"}),
        ("/tokenize", {"prompt": "x"}),
        ("/admin/reload", {}),
    ):
        answer = server.post(path, {"model": "nobody", **body})
        assert answer.status == 404
        assert answer.error["code"] == "model_not_found"
        assert answer.error["param"] == "model"
    assert server.get("/v1/models/nobody").status == 404
    assert server.get("/nowhere").status == 404
    wrong = server.get("/v1/completions")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert wrong.error["type"] == "invalid_request_error"


def test_lone_surrogates_are_replaced(server):
    answer = server.ask(
        "POST", "/v1/completions", b'{"model": "gpt", "prompt": "\\ud800 the", "echo": true}'
    )
    assert answer.status == 200
    assert answer.values["choices"][0]["text"].startswith("\ufffd the")
