"""The server of the page: its shelf, its routes, and what it refuses."""

import asyncio
import contextlib
import http.client
import json
import re
import shutil
import threading
import time

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

import seqloom
from seqloom import NGram
from seqloom.errors import ConfigError
from seqloom.serving.server import listen
from seqloom.studio import configs, page
from seqloom.studio.configs import StudioConfig
from seqloom.studio.server import open_studio, settled
from tests.studio.shelves import HOSTILE, TEXT


def ask(studio, path, body=None, **headers):
    connection = http.client.HTTPConnection(studio.address.partition("://")[2], timeout=120)
    with contextlib.closing(connection):
        data = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, data, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def values(studio, path, body=None):
    status, _, data = ask(studio, path, body)
    assert status == 200, data
    return json.loads(data)


def refusal(studio, path, body):
    status, _, data = ask(studio, path, body)
    return status, json.loads(data)["error"]["message"]


def test_nothing_is_loaded_for_the_first_paint(shelf_folder):
    with open_studio(shelf_folder) as studio:
        values(studio, "/studio/models")
        ask(studio, "/")
        assert list(studio.catalogue) == []
        opened = values(studio, "/studio/open", {"model": "byte-2"})
        assert "surprisal" in opened["views"]
        first = studio.catalogue.find("byte-2", "", lambda one: True).model
        values(studio, "/studio/next", {"model": "byte-2", "text": "to"})
        assert studio.catalogue.find("byte-2", "", lambda one: True).model is first


def test_the_page_comes_while_long_work_runs(studio):
    """Two views that compile, say: whoever opens the page need not wait for them."""
    workers, loop, begun, ended = studio.workers, asyncio.new_event_loop(), [], threading.Event()

    async def work():
        def wait():
            begun.append(True)
            ended.wait(60)

        running = [asyncio.ensure_future(workers.run(wait)) for _ in range(2)]
        while len(begun) < 2:
            await asyncio.sleep(0.001)
        try:
            for path in ("/", "/studio/models", "/studio/comparison"):
                assert (await asyncio.to_thread(ask, studio, path))[0] == 200
                assert not any(task.done() for task in running)
        finally:
            ended.set()
            await asyncio.gather(*running)

    loop.run_until_complete(asyncio.wait_for(work(), 50))
    loop.close()


def test_the_page_holds_the_table_and_escapes_names(studio):
    status, headers, data = ask(studio, "/")
    text = data.decode()
    assert status == 200
    assert "2.250" in text
    assert "3.400 to 3.600" in text
    assert HOSTILE not in text
    assert "&lt;img src=x" in text
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.HASH in policy


def test_a_page_that_is_kept_is_not_sent_again(studio):
    for path in ("/", "/studio/static/main.js"):
        _, headers, _ = ask(studio, path)
        status, _, data = ask(studio, path, **{"if-none-match": headers["etag"]})
        assert (status, data) == (304, b"")


@pytest.mark.parametrize("path", ["../page.py", "..%2fpage.py", "/etc/passwd", "nothing.js", ""])
def test_nothing_but_the_pages_files_is_sent(studio, path):
    assert ask(studio, f"/studio/static/{path}")[0] == 404


def test_inspect_is_the_librarys(studio, shelf_folder):
    model = seqloom.load(shelf_folder / "rungs" / "rung-0")
    other = seqloom.load(shelf_folder / "rungs" / "rung-2")
    found = values(
        studio, "/studio/inspect/surprisal", {"model": "byte-2", "text": "to be", "top": 2}
    )
    assert found["data"] == seqloom.inspect.surprisal(model, "to be", top=2).data
    asked = {"model": "byte-2", "other": "bpe-2", "text": "to be"}
    found = values(studio, "/studio/inspect/difference", asked)
    assert found["data"] == seqloom.inspect.difference(model, other, "to be").data
    found = values(studio, "/studio/inspect/trellis", {"model": "hmm", "text": "to be"})
    assert found["data"]
    assert found["title"]


def test_what_cannot_be_is_null(tmp_path):
    NGram(order=2, tokenizer="byte", smoothing="maximum-likelihood").fit("ab\n" * 9).save(
        tmp_path / "mle"
    )
    with open_studio(tmp_path) as studio:
        found = values(studio, "/studio/passage", {"model": "mle", "text": "az"})
        assert None in [piece["bits"] for piece in found["pieces"]]
        found = values(studio, "/studio/inspect/surprisal", {"model": "mle", "text": "az"})
        assert None in [row["bits"] for row in found["data"]["rows"]]


def test_refusals_are_one_line(studio):
    for path, body, status, word in (
        ("/studio/inspect/suprisal", {"model": "byte-2"}, 404, "surprisal"),
        ("/studio/inspect/surprisal", {"model": "byte-2", "text": "a", "tpo": 3}, 400, "top"),
        ("/studio/inspect/surprisal", {"model": "byte-2", "text": "a", "top": "x"}, 400, "top"),
        ("/studio/inspect/surprisal", {"model": "byte-2"}, 400, "text"),
        ("/studio/inspect/gates", {"model": "byte-2", "text": "a"}, 400, "no view"),
        (
            "/studio/inspect/backoff",
            {"model": "byte-2", "text": "ab", "corpus": "/etc/passwd"},
            400,
            "corpus",
        ),
        ("/studio/next", {"model": "nobody", "text": "a"}, 404, "nobody"),
        ("/studio/next", {"model": "vectors", "text": "a"}, 400, "no language model"),
        ("/studio/passage", {"model": "byte-2", "text": " "}, 400, "empty"),
        ("/studio/next", {"model": "byte-2", "text": "x" * 300_000}, 413, "300,000"),
    ):
        got, message = refusal(studio, path, body)
        assert (got, "\n" in message) == (status, False), (path, message)
        assert word in message


def test_a_page_of_another_origin_may_not_ask(studio):
    assert ask(studio, "/studio/models", Origin="http://example.org")[0] == 403
    assert ask(studio, "/", Host="example.org")[0] == 400


def test_openai_routes_open_models_too(studio):
    asked = {"model": "byte-4", "prompt": "to be", "max_tokens": 4, "seed": 1}
    assert len(values(studio, "/v1/completions", asked)["choices"]) == 1


def test_models_that_go_and_come(tmp_path):
    model = NGram(order=2, tokenizer="byte").fit(TEXT)
    model.save(tmp_path / "one")
    model.save(tmp_path / "two")
    with open_studio(tmp_path) as studio:
        before = values(studio, "/studio/next", {"model": "one", "text": "to"})
        NGram(order=3, tokenizer="byte").fit(TEXT).save(tmp_path / "one")
        after = values(studio, "/studio/next", {"model": "one", "text": "to"})
        assert before["entropy"] != after["entropy"]
        values(studio, "/studio/next", {"model": "two", "text": "to"})
        shutil.rmtree(tmp_path / "two")
        status, message = refusal(studio, "/studio/next", {"model": "two", "text": "to"})
        assert status == 410
        assert "removed" in message
        assert [one["name"] for one in values(studio, "/studio/models")["models"]] == ["one"]
        model.save(tmp_path / "three")
        assert values(studio, "/studio/next", {"model": "three", "text": "to"})["model"] == "three"


def test_a_damaged_model_is_refused_and_others_go_on(tmp_path):
    model = NGram(order=2, tokenizer="byte").fit(TEXT)
    for name in ("good", "bad"):
        model.save(tmp_path / name)
    (tmp_path / "bad" / "model.safetensors").write_bytes(b"nothing")
    with open_studio(tmp_path) as studio:
        status, message = refusal(studio, "/studio/next", {"model": "bad", "text": "to"})
        assert status == 400
        assert "bad cannot be opened" in message
        values(studio, "/studio/next", {"model": "good", "text": "to"})


def test_models_of_one_name_are_told_apart(tmp_path):
    model = NGram(order=2, tokenizer="byte").fit(TEXT)
    for folder in ("a", "b"):
        model.save(tmp_path / folder / "model")
    with open_studio(tmp_path) as studio:
        assert [one["name"] for one in values(studio, "/studio/models")["models"]] == [
            "model",
            "b/model",
        ]


def test_a_comparison_keeps_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    comparison = seqloom.compare(TEXT * 6, rungs=["uniform", "byte-3"])
    with open_studio() as studio:
        found = values(studio, "/studio/comparison")
        assert [row["model"] for row in found["rungs"]] == ["uniform", "byte-3"]
        assert found["answer"]["text"] == comparison.answer.text
        assert found["held_out"]
        assert found["held_out"] in TEXT * 6
        assert found["rungs"][1]["bits_per_byte"] == comparison.results[1].value


def test_no_model_at_all(tmp_path):
    """Nothing is trained unless the newest comparison was asked for, and the page says that there is none."""
    with open_studio(tmp_path) as studio:
        assert values(studio, "/studio/models") == {
            "models": [], "comparisons": [], "training": None,
        }  # fmt: skip
        assert b"No comparison" in ask(studio, "/")[2]
    with pytest.raises(ConfigError, match="no such directory"):
        open_studio(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="no key"):
        StudioConfig(key="secret")


def test_links_outlive_the_server(monkeypatch):
    """The command's port is the same each time, unless another holds it or one is given."""
    config = StudioConfig()
    with contextlib.closing(listen(config)) as bound:
        monkeypatch.setattr(configs, "USUAL", bound.getsockname()[1])
        assert settled(config).port == 0
    assert settled(config).port == configs.USUAL
    given = StudioConfig(port=1 if configs.USUAL != 1 else 2)
    assert settled(given) is given


def finished(studio):
    """How a comparison that runs here ended."""
    studio._studio.comparing._reader.join(300)
    return values(studio, "/studio/models")["training"]


def test_a_small_set_is_trained_where_there_is_none(tmp_path, monkeypatch):
    from seqloom.studio import comparing

    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(comparing.small_set, "__defaults__", (("uniform", "byte-2"),))
    with open_studio() as studio:
        assert values(studio, "/studio/models")["training"]["running"]
        ended = finished(studio)
        assert (ended["running"], ended["done"], ended["of"], ended["error"]) == (False, 2, 2, "")
        found = values(studio, "/studio/models")
        assert sorted(one["name"] for one in found["models"]) == ["byte-2", "uniform"]
        assert not values(studio, "/studio/comparison")["running"]


def test_a_dropped_file_is_compared_beside_the_page(tmp_path, monkeypatch):
    """Its rungs come while it runs, a second one has to wait, and what is no data is refused in one line."""
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    rows = "".join(f"{word} day {i % 7}\t{word}\n" for i in range(60) for word in ("good", "bad"))
    asked = {"files": [{"name": "../days.tsv", "content": "text\tlabel\n" + rows}], "minutes": 0.01}
    with open_studio(tmp_path / "empty") as studio:
        headers = {"content-type": "application/json"}
        assert ask(studio, "/studio/compare", asked)[0] == 415
        foreign = {**headers, "Origin": "http://example.org"}
        assert ask(studio, "/studio/compare", asked, **foreign)[0] == 403
        assert ask(studio, "/studio/compare", asked, **headers)[0] == 200
        assert ask(studio, "/studio/compare", asked, **headers)[0] == 409
        while not values(studio, "/studio/models")["training"]["done"]:
            time.sleep(0.1)
        (line,) = values(studio, "/studio/models")["comparisons"]
        assert line["models"] == "classifiers"
        seen = values(studio, f"/studio/comparison/{line['name']}")
        assert seen["measure"] in seen["rungs"][0]
        values(studio, "/studio/stop", {})
        ended = values(studio, "/studio/models")["training"]
        assert (ended["running"], ended["stopped"], ended["error"]) == (False, True, "")
        short = {"files": [{"name": "numpy.py", "content": "import os"}]}
        assert ask(studio, "/studio/compare", short, **headers)[0] == 200
        error = finished(studio)["error"]
        assert error.startswith("numpy.py: 9 bytes are too few")
        large = {"files": [{"name": "a.txt", "content": "x" * 20_000_001}]}
        status, _, data = ask(studio, "/studio/compare", large, **headers)
        assert (status, b"20 MB" in data) == (413, True)


def test_every_route_is_described(studio):
    described = values(studio, "/openapi.json")["paths"]
    assert {"/studio/next", "/studio/models", "/studio/inspect/{name}"} <= set(described)
    assert all(re.fullmatch(r"/[\w/{}.:-]*", path) for path in described)
