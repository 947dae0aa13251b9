"""What runs beside the event loop: wake-ups that must not be lost, work that is given up."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
import weakref
from collections import deque
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

from seqloom.serving import answering, completions
from seqloom.serving.answering import Bell
from seqloom.serving.completions import Writer
from seqloom.serving.encoding import encode, encode_long
from seqloom.serving.fields import Fields, Refused, parse
from seqloom.serving.requests import Event
from seqloom.serving.workers import Workers
from tests.serving.running import SAVED, running

WAIT = 60.0


def test_an_event_that_comes_while_another_is_sent_is_not_missed():
    """The last piece of a text arrives while the one before is sent; nobody rings again."""
    pieces = []

    async def send_all():
        request = SimpleNamespace(
            events=deque([Event(0, "a", [], None), Event(0, "b", [], None)]),
            n=1,
            done=False,
            error=None,
            top=None,
        )

        class Exchange:
            fields, service = Fields({"stream": True}), SimpleNamespace(bell=Bell())

            async def until_set(self, event):
                await event.wait()
                event.clear()

            async def start(self, *arguments):
                pass

            async def events(self, those, last=False):
                pieces.append(list(those))
                if len(pieces) == 1:
                    request.events.append(Event(0, "c", [], "length"))
                    request.done = True
                    writer._notify(request)
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)

        def shape(number, text, spelled, scores, request, finish, streamed):
            return {"text": text, "finish_reason": finish}

        model = SimpleNamespace(tokenizer=None, unit="line")
        served = SimpleNamespace(name="m", engine=object(), model=model)
        writer = Writer(Exchange(), served, "text_completion", "cmpl", shape)
        writer.prefixes = [""]
        await asyncio.wait_for(writer._stream([request]), WAIT)

    asyncio.run(send_all())
    *texts, end = pieces
    assert [[event["choices"][0]["text"] for event in piece] for piece in texts] == [
        ["a", "b"],  # what is there goes in one piece: a client that has left is told of once
        ["c"],
    ]
    assert end == ["[DONE]"]


def test_a_thread_that_calls_on_and_on_leaves_the_loop_its_turn():
    async def ask():
        loop, bell, calls = asyncio.get_running_loop(), Bell(), []

        def again():
            calls.append(len(calls))
            if len(calls) < 1000:
                bell.call(loop, again)

        bell.call(loop, again)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return len(calls)

    assert asyncio.run(ask()) < 10


def endless(begun, ended):
    try:
        begun.set()
        while True:
            sum(range(100))
    finally:
        ended.set()


def test_work_that_nobody_waits_for_is_given_up():
    async def ask():
        workers = Workers(1)
        begun, ended = threading.Event(), threading.Event()
        task = asyncio.ensure_future(workers.run(endless, begun, ended))
        waiting = asyncio.ensure_future(workers.run(endless, begun, ended))
        await asyncio.to_thread(begun.wait, WAIT)
        assert workers.n_jobs == 2
        waiting.cancel()  # before it began
        task.cancel()
        await asyncio.wait({task, waiting})
        assert await asyncio.to_thread(ended.wait, WAIT)
        assert workers.n_jobs == 0
        assert await asyncio.wait_for(workers.run(sum, [1, 2]), WAIT) == 3

    asyncio.run(ask())


def test_giving_up_hits_the_work_that_was_given_up_alone():
    """Whenever it comes: work before and after it gives its answers."""

    async def ask():
        workers = Workers(2)
        answers = []
        for number in range(600):
            task = asyncio.ensure_future(workers.run(sum, range(number)))
            await asyncio.sleep(0)
            if number % 2:
                task.cancel()
                await asyncio.wait({task})
            else:
                answers.append(await asyncio.wait_for(task, WAIT))
        assert answers == [sum(range(number)) for number in range(0, 600, 2)]

    asyncio.run(ask())


def test_an_import_is_not_stopped_halfway(tmp_path, monkeypatch):
    """Half a torch would stay in `sys.modules`: the work goes on until the module is there."""
    slow = "import time\nfor _ in range(20):\n    time.sleep(0.01)\nwhole = True\n"
    (tmp_path / "slowly_imported.py").write_text(slow)
    monkeypatch.syspath_prepend(str(tmp_path))
    begun = threading.Event()

    def work():
        begun.set()
        import slowly_imported  # noqa: F401 # type: ignore[import-not-found]

        endless(threading.Event(), ended)

    async def ask():
        workers = Workers(1)
        task = asyncio.ensure_future(workers.run(work))
        await asyncio.to_thread(begun.wait, WAIT)
        await asyncio.sleep(0.03)
        task.cancel()
        await asyncio.wait({task})
        assert await asyncio.to_thread(ended.wait, WAIT)
        assert sys.modules["slowly_imported"].whole

    ended = threading.Event()
    asyncio.run(ask())
    monkeypatch.delitem(sys.modules, "slowly_imported")


def test_the_compiler_is_not_stopped_halfway():
    """What its callbacks do not get is not in the cache."""
    begun, go_on, ended = (threading.Event() for _ in range(3))
    compiled = []
    code = "begun.set()\nwhile not go_on.is_set(): pass\ncompiled.append(True)"
    compiler = compile(code, os.path.join("site-packages", "numba", "core.py"), "exec")

    def work():
        exec(compiler, {"begun": begun, "go_on": go_on, "compiled": compiled})
        endless(threading.Event(), ended)

    async def ask():
        task = asyncio.ensure_future(Workers(1).run(work))
        await asyncio.to_thread(begun.wait, WAIT)
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(0.05)
        go_on.set()
        assert await asyncio.to_thread(ended.wait, WAIT)

    asyncio.run(ask())
    assert compiled


def test_errors_come_back_and_all_work_can_be_ended():
    async def ask():
        workers = Workers(1)
        with pytest.raises(ZeroDivisionError):
            await workers.run(divmod, 1, 0)
        begun, ended = threading.Event(), threading.Event()
        task = asyncio.ensure_future(workers.run(endless, begun, ended))
        await asyncio.to_thread(begun.wait, WAIT)
        workers.end_all(ValueError("the end"))
        with pytest.raises(ValueError, match="the end"):
            await task
        assert await asyncio.to_thread(ended.wait, WAIT)

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[" * 4_000_000, "nested more than 32 deep"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "nested more than 32 deep"),
        (b"\xff", "not UTF-8: byte 0"),
        (b"[]", "must be an object"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b"", "not JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not JSON"),
    ],
)
def test_bodies_are_refused_in_one_line(body, message):
    with pytest.raises(Refused, match=message) as refused:
        parse(body)
    assert len(str(refused.value).splitlines()) == 1


def test_brackets_in_strings_are_not_nested_and_surrogates_are_replaced():
    text = "[{" * 1000
    assert parse(json.dumps({"a": text}).encode()).raw("a") == text
    values = parse(b'{"a": ["\\ud800x", {"\\uDC00": "\\ud83d\\ude00"}]}').raw("a")
    assert values == ["\ufffdx", {"\ufffd": "😀"}]


def test_long_answers_are_written_in_pieces():
    """Together the pieces are what json writes at once."""
    values = {
        "ä": [{"a": 0.1 + i, "\n": None} for i in range(50)],
        "flat": [1.5, -9999.0, None, float("inf")],
        "nothing": [[], {}, [[]], {"x": {}}],
        "b": True,
    }
    assert encode_long(values) == encode(values)
    assert json.loads(encode_long(values))["flat"] == [1.5, -9999.0, None, None]
    assert encode_long([]) == b"[]"


class Slow(threading.Thread):
    """Its start takes as long as one wants, as on a busy machine."""

    def __init__(self, begun, go_on):
        super().__init__(daemon=True)
        was = self._started

        class Started:
            def wait(self):
                begun.set()
                assert go_on.wait(WAIT)
                was.wait()

            def __getattr__(self, name):
                return getattr(was, name)

        self._started = Started()


def test_a_thread_that_is_being_started_is_not_hit():
    """Work that is given up while it starts a thread, such as a model's: the exception would end that one."""

    async def check():
        workers, begun, go_on, after = Workers(1), *(threading.Event() for _ in range(3))

        def work():
            Slow(begun, go_on).start()
            after.set()
            while True:
                time.sleep(0.001)

        task = asyncio.ensure_future(workers.run(work))
        assert await asyncio.to_thread(begun.wait, WAIT)
        task.cancel()
        await asyncio.sleep(0.3)  # the exception would come at once, were it raised
        go_on.set()
        assert await asyncio.to_thread(after.wait, WAIT)
        assert await asyncio.wait_for(workers.run(sum, [1, 2]), WAIT) == 3  # it was given up then

    asyncio.run(check())


# ---- memory


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "the cat", "max_tokens": 4, "n": 2},
        {"prompt": "the cat", "max_tokens": 4, "stream": True},
        {"prompt": "the cat", "max_tokens": 0, "echo": True, "logprobs": 2},
    ],
)
def test_an_answered_request_is_let_go_at_once(monkeypatch, body):
    """What refers to each other is kept until Python looks for cycles, which a server of large models does
    seldom: its memory grew with each request, and others waited while a million numbers were let go.
    """
    kept = []

    def remembered(cls):
        def make(*arguments, **options):
            one = cls(*arguments, **options)
            kept.append(weakref.ref(one))
            return one

        return make

    monkeypatch.setattr(completions, "Request", remembered(completions.Request))
    monkeypatch.setattr(answering, "Exchange", remembered(answering.Exchange))
    with running(SAVED["lstm"]) as server:
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                assert server.post("/v1/completions", **body).status == 200
            assert len(kept) == 6
            for _ in range(3000):  # the event loop may have something left to do
                if not any(one() for one in kept):
                    break
                time.sleep(0.02)
            assert [type(one()).__name__ for one in kept if one() is not None] == []
        finally:
            gc.enable()
