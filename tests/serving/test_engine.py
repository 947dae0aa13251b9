"""The decoding thread, step by step: a Stepper that waits for the test before each of its steps."""

import asyncio
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from seqloom.decoding.generation import Generator
from seqloom.decoding.sampling import SamplingConfig
from seqloom.errors import ModelError
from seqloom.serving import engine
from seqloom.serving.engine import (
    LEAST_PROMPT_TOKENS,
    PROMPT_SECONDS,
    PROMPT_TOKENS,
    Engine,
)
from seqloom.serving.prompts import Prompts
from seqloom.serving.requests import Event, Full, Request
from seqloom.text.tokenizer import Tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENIZER = Tokenizer(kind="char").fit(LETTERS)
BROKEN, RAISES = TOKENIZER.encode("yz").tolist()


class Alphabet:
    """After a letter comes the next one, surely; after `y` nothing can be drawn, `z` raises."""

    vocab_size, eos_id = TOKENIZER.vocab_size, TOKENIZER.eos_id

    def __init__(self):
        self.calls = []  # the tokens of each step, by row
        self.entered, self.allowed = threading.Semaphore(0), threading.Semaphore(0)

    def start(self, n):
        return (np.zeros(n, np.int64),), self._after(np.zeros(n, np.int64))

    def step(self, state, ids):
        return self._advance(state, [[int(token)] for token in ids])

    def _advance(self, state, parts):
        assert len(state[0]) == len(parts)
        self.calls.append([[int(token) for token in part] for part in parts])
        self.entered.release()
        assert self.allowed.acquire(timeout=60)
        last = np.array([part[-1] for part in self.calls[-1]])
        if (last == RAISES).any():
            raise RuntimeError("no such letter")
        return (state[0] + [len(part) for part in parts],), self._after(last)

    def _after(self, last):
        letters = TOKENIZER.encode(LETTERS).tolist()
        following = dict(zip(letters, [*letters[1:], letters[0]]))
        log_probs = np.full((len(last), self.vocab_size), -np.inf, np.float32)
        for row, token in enumerate(last.tolist()):
            log_probs[row, following.get(token, letters[0])] = 0.0
            if token == BROKEN:
                log_probs[row] = np.nan
        return log_probs


class Reader(Alphabet):
    """One that takes in several tokens of a row at once."""

    def read_on(self, state, parts):
        return self._advance(state, parts)


class Driven:
    """An engine whose steps the test allows one by one."""

    def __init__(self, stepper, **options):
        self.stepper, self.now = stepper, 0.0
        options = {"max_rows": 4, "max_waiting": 4, **options}
        generator = Generator(stepper, TOKENIZER, by_line=False)
        self.engine = Engine(Prompts(generator), clock=lambda: self.now, **options)
        self.ended = threading.Condition()

    def submit(self, prompt="a", max_tokens=5, **options):
        def notify(request):
            with self.ended:
                self.ended.notify_all()

        config = SamplingConfig(max_tokens=max_tokens, temperature=0)
        request = Request(TOKENIZER.encode(prompt), config, notify, **options)
        self.engine.submit(request)
        return request

    def step(self, number=1):
        """Let so many steps happen, then wait until the next one is about to."""
        for _ in range(number):
            self.stepper.allowed.release()
            assert self.stepper.entered.acquire(timeout=60)
        return self.stepper.calls[-1]

    def first(self):
        """Wait for the first step."""
        assert self.stepper.entered.acquire(timeout=60)
        return self.stepper.calls[-1]

    def finish(self, *requests):
        """Let all steps happen that are wanted; return the texts."""
        for _ in range(10_000):
            self.stepper.allowed.release()
        with self.ended:
            assert self.ended.wait_for(lambda: all(one.done for one in requests), 60)
        return [text(request) for request in requests]


def text(request):
    return "".join(event.text for event in request.events)


def finishes(request):
    return [event.finish for event in request.events if event.finish]


@pytest.fixture
def driven():
    made = []

    def make(stepper=None, **options):
        made.append(Driven(stepper or Alphabet(), **options))
        return made[-1]

    yield make
    for one in made:
        one.engine.end_all()
        one.engine.close()
        for _ in range(10_000):
            one.stepper.allowed.release()
        one.engine.join(60)
        assert not one.engine._thread.is_alive()


def test_requests_join_and_leave_between_steps(driven):
    run = driven()
    first = run.submit("a", 6)
    widths = [len(run.first())]
    second = run.submit("c", 2)
    widths += [len(run.step()) for _ in range(5)]
    # the second reads one token and one that it drew; with its last one it leaves
    assert widths == [1, 2, 2, 1, 1, 1]
    assert run.finish(first, second) == ["bcdefg", "de"]
    assert finishes(first) == finishes(second) == ["length"]


def test_one_that_left_is_in_no_further_step(driven):
    run = driven()
    stays, leaves = run.submit("a", 8), run.submit("n", 8)
    assert len(run.first()) in (1, 2)  # the second may come a step later
    assert len(run.step(2)) == 2
    run.engine.cancel(leaves)
    assert len(run.step()) == 1
    assert run.finish(stays) == ["bcdefghi"]
    assert not finishes(leaves)


def test_one_that_left_while_it_waited_never_begins(driven):
    run = driven(max_rows=1)
    runs = run.submit("a", 4)
    run.first()
    waits, last = run.submit("n", 4), run.submit("d", 3)
    run.engine.cancel(waits)
    assert run.finish(runs, last) == ["bcde", "efg"]
    letter = int(TOKENIZER.encode("n")[0])
    assert not any([letter] in call for call in run.stepper.calls)


def test_a_deadline_ends_a_text_as_it_is(driven):
    run = driven()
    late, other = run.submit("a", 9, deadline=5.0), run.submit("k", 9)
    run.first()
    run.step(3)
    run.now = 6.0
    found = run.finish(late, other)
    assert found[1] == "lmnopqrst"
    assert found[0] in ("bc", "bcd", "bcde")
    assert finishes(late) == ["length"]


def test_a_deadline_during_the_prompt_is_an_error(driven):
    run = driven()
    late = run.submit("abcdefghijkl", deadline=5.0)
    run.first()
    run.step(2)
    run.now = 6.0
    run.finish(late)
    assert isinstance(late.error, TimeoutError)


def test_more_than_may_wait_is_refused(driven):
    run = driven(max_rows=1, max_waiting=3)
    runs = run.submit("a", 3)
    run.first()
    waiting = [run.submit("b", 2), run.submit("c", 2, n=2)]
    assert run.engine.waiting_rows == 3
    with pytest.raises(Full):
        run.submit("d")
    assert run.finish(runs, *waiting) == ["bcd", "cd", "dede"]
    again = run.submit("d", 1)
    assert run.finish(again) == ["e"]


def test_a_row_from_which_nothing_can_be_drawn_ends_only_its_request(driven):
    run = driven()
    requests = [run.submit("a", 4), run.submit("w", 6), run.submit("d", 4)]  # w, x, y: broken
    run.first()
    found = run.finish(*requests)
    assert (found[0], found[2]) == ("bcde", "efgh")
    assert isinstance(requests[1].error, ModelError)
    assert requests[0].error is requests[2].error is None


def test_a_step_that_raises_ends_its_requests_and_not_the_thread(driven):
    run = driven()
    bad = run.submit("z")
    run.first()
    run.finish(bad)
    assert str(bad.error) == "no such letter"
    after = run.submit("a", 3)
    assert run.finish(after) == ["bcd"]


def test_a_prompt_whose_scores_cannot_be_read_ends_its_request(driven):
    class Scorer(Alphabet):
        def extend(self, state, ids):
            raise MemoryError("no room for so many")

    run = driven(Scorer())
    other = run.submit("a", 5)
    run.first()
    scored = run.submit("abc", top=1, echo=True, write=False)
    assert run.finish(other, scored)[0] == "bcdef"
    assert other.error is None
    assert isinstance(scored.error, MemoryError)


def test_the_thread_outlives_those_who_wait(driven):
    """Whoever asked may be gone with its event loop."""
    from seqloom.serving.answering import Bell
    from seqloom.serving.completions import Writer

    loop = asyncio.new_event_loop()
    loop.close()
    run = driven()
    gone = run.submit("a", 3)
    exchange = SimpleNamespace(service=SimpleNamespace(bell=Bell()))
    writer = SimpleNamespace(_loop=loop, _wake=asyncio.Event(), exchange=exchange)
    gone.notify = partial(Writer._notify, writer)
    run.first()
    assert run.finish(run.submit("k", 9)) == ["lmnopqrst"]
    assert text(gone) == "bcd"


def test_a_long_prompt_holds_nobody_up(driven):
    """It is read in pieces, beside a token of each text that is being written."""
    run = driven(Reader())
    writes = run.submit("a", 6)
    run.first()
    long = run.submit("ab" * 500, 2)
    calls = [run.step() for _ in range(5)]
    assert all(len(call[0]) == 1 for call in calls)
    assert {len(call[1]) for call in calls if len(call) > 1} == {PROMPT_TOKENS}
    assert run.finish(writes, long) == ["bcdefg", "cd"]
    read = [part for call in run.stepper.calls for part in call if len(part) > 1]
    assert [token for part in read for token in part] == TOKENIZER.encode("ab" * 500).tolist()
    assert len(read) == -(-1000 // PROMPT_TOKENS)


def test_a_prompt_takes_little_time_of_each_turn_of_those_who_write(driven):
    class Slow(Reader):
        def read_on(self, state, parts):
            run.now += 0.001 * sum(map(len, parts))
            return super().read_on(state, parts)

    run = driven(Slow())
    writes = run.submit("a", 12)
    run.first()
    long = run.submit("ab" * 200, 2)
    sizes = [len(call[1]) for call in (run.step() for _ in range(5)) if len(call) > 1]
    assert sizes[0] == PROMPT_TOKENS
    assert all(LEAST_PROMPT_TOKENS <= size <= 1000 * PROMPT_SECONDS for size in sizes[1:])
    assert run.finish(writes, long) == ["bcdefghijklm", "cd"]


def test_prompts_share_what_may_be_read_in_a_turn(driven):
    run = driven(Reader())
    first = run.submit("a", 20)
    run.first()
    prompts = [run.submit("ab" * 100, 1) for _ in range(3)]
    for call in (run.step() for _ in range(6)):
        assert len(call[0]) == 1
        assert sum(map(len, call[1:])) <= PROMPT_TOKENS + 2  # a row reads at least one token
    assert run.finish(first, *prompts)[1:] == ["c", "c", "c"]


def test_a_short_request_does_not_wait_for_a_long_one(driven):
    run = driven()
    long = run.submit("a", 3000)
    run.first()
    short = run.submit("c", 2)
    run.step(4)
    assert short.done
    assert text(short) == "de"
    assert not long.done
    run.engine.cancel(long)


def ended(requests):
    """Note which requests end, in order."""
    order = []

    def note(usual, request):
        order.append(request)
        usual(request)

    for request in requests:
        request.notify = partial(note, request.notify)
    return order


def test_requests_begin_in_the_order_of_their_arrival(driven):
    run = driven(max_rows=2, max_waiting=100)
    requests = [run.submit("a", 3, n=2) for _ in range(5)]
    order = ended(requests)
    run.finish(*requests)
    assert [id(one) for one in dict.fromkeys(order)] == [id(one) for one in requests]
    assert all(len(call) <= 2 for call in run.stepper.calls)


def test_nobody_waits_for_all_texts_of_somebody_else(driven):
    run = driven(max_rows=1, max_waiting=100)
    running = run.submit("a", 3)
    run.first()
    many = [run.submit("k", 2, group="many") for _ in range(3)]
    late = [run.submit("p", 2), run.submit("q", 2, group="two"), run.submit("q", 2, group="two")]
    order = ended([*many, *late])
    assert run.finish(running, *many, *late) == ["bcd", "lm", "lm", "lm", "qr", "rs", "rs"]
    wanted = [many[0], late[0], late[1], many[1], late[2], many[2]]
    assert list(map(id, order)) == list(map(id, wanted))


def test_many_texts_of_a_request_leave_room(driven):
    run = driven(max_rows=4, max_waiting=100)
    many = run.submit("a", 20, n=4, streamed=True)
    run.first()
    prompts = [run.submit("a", 20, group="prompts") for _ in range(4)]
    widths = [len(run.step()) for _ in range(3)]
    assert max(widths) == 3  # half, half of the rest, and one is free
    small = run.submit("k", 2)
    run.step(4)
    assert small.done
    assert not many.done
    run.finish(many, *prompts)
    assert {text(prompt) for prompt in prompts} == {"bcdefghijklmnopqrstu"}
    pieces = [[event.text for event in many.events if event.number == at] for at in range(4)]
    assert {"".join(one) for one in pieces} == {"bcdefghijklmnopqrstu"}


def test_texts_that_wait_for_their_turn_end_as_they_are(driven):
    run = driven(max_rows=4, max_waiting=100)
    late, left = run.submit("a", 9, n=4, deadline=5.0), run.submit("k", 9, n=4)
    run.first()
    run.step(2)
    assert run.engine.waiting_rows == 5
    run.engine.cancel(left)
    assert run.engine.waiting_rows == 2
    run.now = 6.0
    run.finish(late)
    assert finishes(late) == ["length"] * 4
    assert late.error is None


def test_an_error_of_a_text_ends_those_that_wait(driven):
    run = driven()
    broken = run.submit("w", 6, n=4)  # w, x, y: nothing can be drawn
    run.first()
    run.finish(broken)
    assert isinstance(broken.error, ModelError)
    assert run.engine.waiting_rows == 0
    assert run.finish(run.submit("a", 3)) == ["bcd"]


def test_states_that_wait_are_no_more_than_rows(driven):
    run = driven(max_rows=2, max_waiting=100)
    requests = [run.submit("a", 3 + at, n=3) for at in range(5)]
    most = [0]
    usual = run.stepper.step

    def step(state, ids):
        waiting = {id(row.request) for row in run.engine._waiting if row.begun is not None}
        most.append(len(waiting))
        return usual(state, ids)

    run.stepper.step = step
    run.first()
    run.finish(*requests)
    assert 1 < max(most) <= 2


def test_what_a_client_does_not_read_is_sent_in_fewer_events(driven, monkeypatch):
    monkeypatch.setattr(engine, "MOST_UNREAD", 4)
    run = driven()
    stalls = run.submit("a", 20, streamed=True)
    run.first()
    assert run.finish(stalls) == ["bcdefghijklmnopqrstu"]
    assert [event.text for event in stalls.events] == ["b", "c", "d", "e", "fghijklmnopqrstu"]


def test_a_flood_of_events_leaves_the_event_loop_its_turn():
    """Signals and other requests come, though there is always more to send, and nothing to wait for."""
    from seqloom.serving.completions import Writer

    writer, request, sent = Writer.__new__(Writer), Request("", SamplingConfig(), print, open=1), []

    class Exchange:
        async def start(self, *head):
            pass

        async def until_set(self, event):
            pass

        async def events(self, those, last=False):
            sent.extend(those)
            assert len(sent) < 1000
            if not request.done:
                request.events.append(Event(0, "a", [], None))

    async def others():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        request.open = 0

    async def both():
        await asyncio.gather(writer._stream([request]), others())

    request.events.append(Event(0, "a", [], None))
    model = SimpleNamespace(tokenizer=TOKENIZER, unit="stream")
    writer.exchange, writer.served = Exchange(), SimpleNamespace(model=model)
    writer.shape = lambda *parts: {}
    writer.kind, writer.usage_wanted, writer.prefixes = "text", False, [""]
    writer._head, writer._wake = lambda kind: {}, None
    asyncio.run(both())
    assert sent[-1] == "[DONE]"


def test_a_closed_engine_ends_what_it_has(driven):
    run = driven()
    has = run.submit("a", 4)
    run.first()
    run.engine.close()
    late = run.submit("k", 2)  # of a client that found the model before it was replaced
    assert run.finish(has, late) == ["bcde", "lm"]
    run.engine.join(60)
    assert not run.engine._thread.is_alive()
    assert run.finish(run.submit("p", 2)) == ["qr"]
