"""Every verb of every task gives what the library gives; tasks of other packages are served too."""

import base64
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from seqloom import SeasonalNaive, TrainConfig, tasks
from seqloom.tasks.task import Verb
from tests.fuzz.specimens import SPECIMENS, WAVE
from tests.serving.running import SAVED, running

TOYS = Path(__file__).parent.parent / "toys"


@pytest.fixture(scope="module")
def server():
    with running(*SAVED.values()) as server:
        yield server


def results(server, verb, name, inputs, **options):
    answer = server.post(f"/{verb}", model=name, inputs=inputs, **options)
    assert answer.status == 200, answer.body
    assert answer.values["model"] == name
    return answer.values["results"]


def served(server, task):
    return [name for name, model in server.models.items() if model.task == task]


def test_every_verb_of_every_model_is_tried_here(server):
    """A new verb needs a test of its own."""
    known = {"predict", "tag", "translate", "score", "fill", "forecast", "anomalies", "nearest"}
    known |= {"analogy", "similarity"}
    for one in server.catalogue:
        assert set(one.verbs) <= known


def test_classes(server):
    texts = ["a good dull road", "the bad sea", "good"]
    for name in served(server, "classifier"):
        model = server.models[name]
        found = results(server, "predict", name, texts, proba=True)
        assert [one["label"] for one in found] == list(model.predict(texts))
        for one, expected in zip(found, model.predict_proba(texts)):
            assert list(one["probabilities"].values()) == pytest.approx(list(expected), abs=1e-9)
        assert [one["text"] for one in results(server, "predict", name, texts)] == texts
    explained = results(server, "predict", "naive-bayes", texts[:1], explain=True)
    assert explained[0]["label"] == server.models["naive-bayes"].predict(texts[0])


def test_answers_and_what_the_log_keeps(tmp_path):
    SPECIMENS["answerer"]().save(tmp_path / "answerer")
    SPECIMENS["classifier-pairs"]().save(tmp_path / "pairs")
    log = tmp_path / "requests.jsonl"
    asked = [["who saw it ?", "Mary saw New York ."], ["who left ?", "Mary"]]
    with running(tmp_path / "answerer", tmp_path / "pairs", log=str(log)) as server:
        found = results(server, "predict", "answerer", asked)
        ours = server.models["answerer"].predict([tuple(pair) for pair in asked])
        assert [one["answer"] for one in found] == [answer.text for answer in ours]
        named = [{"question": question, "context": context} for question, context in asked]
        assert results(server, "predict", "answerer", named) == found
        for wrong in ("who saw it ?", ["who"], ["who", 3], {"question": "who"}, 7, None):
            refused = server.post("/predict", model="answerer", inputs=[wrong])
            assert refused.status == 400
            assert "inputs[0] must be a question and its context" in refused.error["message"]
        results(server, "predict", "pairs", [["a", "b"], {"text": "c", "pair": "d"}])
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["texts"] for one in kept if one["status"] == 200] == [
        asked,
        asked,
        [["a", "b"], ["c", "d"]],
    ]


def test_tags(server):
    sentences = ["Mary saw New York", "John", ""]
    for name in served(server, "tagger"):
        model = server.models[name]
        for verb in ("tag", "predict"):
            found = [one["tags"] for one in results(server, verb, name, sentences)]
            words = [sentence.split() for sentence in sentences[:2]]
            assert found == [*map(list, model.predict(words)), []]


def test_translations(server):
    sources = ["abc", "b a"]
    for name in served(server, "translator"):
        model = server.models[name]
        found = results(server, "translate", name, sources)
        assert [one["text"] for one in found] == model.translate(sources)
        best = results(server, "translate", name, sources, nbest=2, beams=3)
        assert all(1 <= len(one["translations"]) <= 2 for one in best)
        pairs = [["abc", "cab"], ["b", "b"]]
        scores = [one["score"] for one in results(server, "score", name, pairs)]
        expected = model.score(*map(list, zip(*pairs)))
        assert scores == [
            None if score == -np.inf else pytest.approx(score, abs=1e-6) for score in expected
        ]


def test_scores(server):
    texts = ["the cat sat", "on the log", ""]
    for name in (*served(server, "language model"), "bert", "bert-4-bit"):
        model = server.models[name]
        given = texts if model.task == "language model" else texts[:2]
        found = results(server, "score", name, given)
        assert [one["score"] for one in found] == pytest.approx(model.score(given), abs=1e-5)
    tokens = results(server, "score", "lstm", texts[:1], tokens=True)[0]["tokens"]
    assert [token["token"] for token in tokens] == ["the", "cat", "sat", "</s>"]
    found = [token["log_prob"] for token in tokens]
    assert found == pytest.approx(server.models["lstm"].token_scores(texts[0]), abs=1e-6)


def test_fills(server):
    for name in ("bert", "bert-4-bit"):
        (found,) = results(server, "fill", name, ["the [MASK] sat"], number=3)
        expected = server.models[name].fill("the [MASK] sat", 3)
        assert [one["text"] for one in found["fills"]] == [fill.text for fill in expected]


def test_forecasts(server):
    series = [list(WAVE)[:50], list(WAVE)[10:45]]
    for name in served(server, "forecaster"):
        model = server.models[name]
        found = results(server, "forecast", name, series, horizon=3)
        for one, values in zip(found, series):
            assert one["rows"] == list(model.forecast(values, 3).rows())
        marked = results(server, "anomalies", name, series, top=2)
        for one, values in zip(marked, series):
            assert one == model.anomalies(values, top=2).to_dict()


def test_numbers_without_times_are_refused_by_a_model_of_months(tmp_path):
    times = [f"{year}-{month:02}" for year in (2000, 2001) for month in range(1, 13)]
    columns = {"time": times, "sold": [float(i % 12) for i in range(24)]}
    SeasonalNaive(season=12, horizon=2).fit(columns).save(tmp_path / "sales")
    with running(tmp_path / "sales") as server:
        answer = server.post("/forecast", inputs=[columns["sold"]])
        assert (answer.status, answer.error["param"]) == (400, "inputs")
        told = "steps of 1 month; give an object of columns, one of them times: 'time', 'sold'"
        assert told in answer.error["message"]
        (found,) = results(server, "forecast", "sales", [columns])
        assert [row["forecast"] for row in found["rows"]] == [0.0, 1.0]


def test_neighbours(server):
    for name in served(server, "word vectors"):
        (found,) = results(server, "nearest", name, ["cat"], number=3)
        expected = server.models[name].nearest("cat", 3)
        assert [one["text"] for one in found["nearest"]] == [word for word, _ in expected]
        cosines = [one["cosine"] for one in found["nearest"]]
        assert cosines == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
    among = ["the dog", "a log"]
    (found,) = results(server, "nearest", "sentence-encoder", ["cat"], among=among, number=1)
    expected = server.models["sentence-encoder"].nearest("cat", 1, among=among)
    assert found["nearest"][0]["text"] == expected[0][0]


def test_analogies_and_similarities(server):
    model = server.models["word2vec"]
    (found,) = results(server, "analogy", "word2vec", [["cat", "dog", "sea"]], number=2)
    expected = model.analogy("cat", "dog", "sea", 2)
    assert [one["text"] for one in found["answers"]] == [word for word, _ in expected]
    for name in ("word2vec", "sentence-encoder"):
        (found,) = results(server, "similarity", name, [["cat", "dog"]])
        cosine = server.models[name].similarity("cat", "dog")
        assert found == {"texts": ["cat", "dog"], "cosine": pytest.approx(cosine, abs=1e-6)}
    refused = server.post("/analogy", model="word2vec", inputs=[["cat", "dog"]])
    assert refused.status == 400
    assert "three words" in refused.error["message"]


@pytest.mark.parametrize("name", ["sentence-encoder", "word2vec", "lstm"])
def test_embeddings_of_both_forms_are_equal(server, name):
    texts = ["the cat", "on the log"]
    expected = np.asarray(server.models[name].transform(texts), np.float32)
    answers = {
        form: server.post("/v1/embeddings", model=name, input=texts, encoding_format=form).values
        for form in ("float", "base64")
    }
    plain = np.array([one["embedding"] for one in answers["float"]["data"]], np.float32)
    coded = [base64.b64decode(one["embedding"]) for one in answers["base64"]["data"]]
    assert (plain == expected).all()
    assert (np.array([np.frombuffer(one, "<f4") for one in coded]) == expected).all()
    assert answers["float"]["usage"]["prompt_tokens"] > 0
    single = server.post("/v1/embeddings", model=name, input=texts[0]).values["data"]
    assert np.allclose(single[0]["embedding"], expected[0], atol=1e-6)


def test_models_without_vectors_are_not_in_question():
    """A model of counts has no hidden state, so where it stands beside vectors nobody need name these."""
    with running(SAVED["ngram"], SAVED["word2vec"]) as server:
        answer = server.post("/v1/embeddings", input="cat")
        assert answer.status == 200, answer.body
        assert answer.values["model"] == "word2vec"
        refused = server.post("/v1/embeddings", input="cat", model="ngram")
        assert (refused.status, refused.error["param"]) == (400, "model")
        assert refused.error["message"].endswith("does not do this; ask /v1/completions, /score")
        refused = server.post("/fill", inputs=["the [MASK]"])
        assert refused.error["message"] == "model is missing, and no model here answers /fill"


def test_ids_are_not_embedded(server):
    for ids in ([1, 2, 3], [[1, 2], [3]]):
        answer = server.post("/v1/embeddings", model="word2vec", input=ids)
        assert answer.status == 400
        assert answer.error["param"] == "input"
        assert "check_embedding_ctx_length=False" in answer.error["message"]


def test_tokens_and_back(server):
    for name in ("lstm", "ngram", "hmm", "gpt", "bert", "uniform"):
        tokenizer = server.models[name].tokenizer
        end = server.post("/tokenize", model=name, prompt=tokenizer.token(tokenizer.eos_id))
        assert end.values["tokens"] == [tokenizer.eos_id]
        for field in ("prompt", "content", "text"):
            found = server.post("/tokenize", model=name, **{field: "the cat sat"}).values
            assert found["tokens"] == tokenizer.encode("the cat sat").tolist()
            assert found["count"] == len(found["tokens"])
        back = server.post("/detokenize", model=name, tokens=found["tokens"]).values
        assert back == {"prompt": tokenizer.decode(found["tokens"])}
        info = server.get(f"/tokenizer_info?model={name}").values
        assert info["eos_token"] == tokenizer.token(tokenizer.eos_id)
        bad = server.post("/detokenize", model=name, tokens=[10**6])
        assert (bad.status, bad.error["param"]) == (400, "tokens")


@pytest.fixture
def toy(own_registry, monkeypatch):
    """The forecaster of tests/toys, registered for one test."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(TOYS))
    known = dict(tasks._registered)
    yield importlib.import_module("toy_forecaster")
    tasks._registered.clear()
    tasks._registered.update(known)


def test_a_task_of_another_package_is_served(toy, tmp_path, monkeypatch):
    """Its own verb, with its own options, described and answered without an edit here."""

    def continued(model, inputs, options):
        return [{"next": model.forecast(values, options.window)} for values in inputs]

    verb = Verb(continued, "What comes next.", "numbers", toy.ToyForecasterConfig, ("window",))
    monkeypatch.setattr(toy.ToyForecasting, "verbs", lambda self: {"continue": verb})
    values = np.sin(np.arange(60) / 3).astype(np.float32)
    model = toy.ToyForecaster().fit(toy.Series(values), train=TrainConfig(steps=2))
    model.save(tmp_path / "toy")
    with running(tmp_path / "toy", SAVED["lstm"]) as server:
        series = [values[:9].tolist(), values[:20].tolist()]
        answer = server.post("/continue", inputs=series, window=2)
        expected = [{"next": model.forecast(one, 2)} for one in series]
        assert answer.values == {"model": "toy", "results": expected}
        refused = server.post("/continue", inputs=series, window=0)
        assert (refused.status, refused.error["param"]) == (400, "window")
        described = server.get("/openapi.json").values["paths"]["/continue"]["post"]
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        assert schema["properties"]["window"]["minimum"] == 1
        (listed,) = [one for one in server.get("/v1/models").values["data"] if one["id"] == "toy"]
        assert listed["verbs"] == ["continue"]
        other = server.post("/continue", inputs=series, model="lstm")
        assert (other.status, other.error["param"]) == (400, "model")


def test_a_cell_of_another_package_writes(tmp_path, toy_cell):
    """minGRU of tests/toys, in company, as `generate` does."""
    pytest.importorskip("torch")
    text = "the cat sat on the mat\nthe dog sat on the log\n" * 20
    model = toy_cell.MinGRULanguageModel(tokenizer="word", d_hidden=8).fit(
        text, train=TrainConfig(steps=3)
    )
    model.save(tmp_path / "mingru")
    with running(tmp_path / "mingru") as server:
        asked = [{"prompt": "the", "max_tokens": 3 + i, "seed": i} for i in range(8)]
        assert server.at_once(asked) == [[model.generate(**one)] for one in asked]
