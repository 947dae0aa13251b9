"""OpenAI's requests for text: completions and chat, whole or as a stream of events.

The shapes are those that the clients openai, llm, langchain and lm-eval parse. Where nothing else is
said, texts are those of `model.generate` with the same options: choice i of a prompt is text i there.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from seqloom.config import defaults
from seqloom.decoding.sampling import ANSWER, SamplingConfig
from seqloom.errors import ConfigError, DataError, quoted
from seqloom.serving.answering import Exchange
from seqloom.serving.catalogue import Served
from seqloom.serving.encoding import encode_long
from seqloom.serving.engine import Engine
from seqloom.serving.fields import Refused, whole
from seqloom.serving.limits import check_size
from seqloom.serving.requests import Event, Full, Request, Row
from seqloom.serving.shapes import Spelled, chat_choice, completion_choice

SAMPLING = [name for name in defaults(SamplingConfig) if name != "max_tokens"]
# Fields that ask for what is not done here, with the values that ask for nothing.
UNSUPPORTED: dict[str, Collection[Any]] = {
    "suffix": ("",),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "grammar": ("",),
    "min_p": (0,),
    # of `seqloom generate`
    "beams": (),
    "length_penalty": (1,),
    "eight_bit": (False,),
    "draft": (),
    "draft_tokens": (),
}
# of names and of seeds that nobody gave; to ask the system each time lets other threads run before us
RANDOM = random.Random()
USUAL_TOKENS = 16  # of a completion, as OpenAI's
# what is done beside the event loop: prompts of so many characters, answers with so many numbers
LONG_PROMPT, MANY_SCORES = 4000, 4000
MOST_OF_EVENT = 1000  # log-probabilities of one event of a stream
MOST_STOPS, MOST_STOP_CHARACTERS, MOST_TOP = 64, 1000, 1000


async def complete(exchange: Exchange) -> Any:
    """Answer /v1/completions."""
    fields, limits = exchange.fields, exchange.service.config
    served = exchange.service.catalogue.find(fields.text("model"), "writes text", _writes)
    exchange.model = served.name
    fields.refuse_unsupported(UNSUPPORTED)
    prompts = await exchange.look(_prompts, exchange, served)
    n = fields.integer("n", 1, 1, min(limits.max_texts, limits.rows)) or 1
    if fields.raw("best_of", n) != n:
        raise Refused("best_of is not supported here; leave it out", field="best_of")
    most_texts = min(limits.max_texts, limits.queue)
    if n * len(prompts) > most_texts:
        raise Refused(
            f"these are {n * len(prompts):,} texts (prompts times n); this server writes at most "
            f"{most_texts:,} for a request",
            field="prompt",
        )
    top = fields.integer("logprobs", None, 0, MOST_TOP)
    most = fields.integer("max_tokens", min(USUAL_TOKENS, limits.max_tokens), 0, 10**9) or 0
    config = _sampling(exchange, most, {})
    echo = fields.flag("echo")
    writer = Writer(exchange, served, "text_completion", "cmpl", completion_choice)
    requests = [
        writer.request(prompt, config, n=n, write=most > 0, top=top, echo=echo)
        for prompt in prompts
    ]
    return await writer.run(requests)


async def chat(exchange: Exchange) -> Any:
    """Answer /v1/chat/completions."""
    fields, limits = exchange.fields, exchange.service.config
    served = exchange.service.catalogue.find(fields.text("model"), "writes text", _writes)
    exchange.model = served.name
    fields.refuse_unsupported(UNSUPPORTED)
    if not hasattr(served.model, "chat_tokens"):
        raise Refused(f"{served.name} has no chat template; ask /v1/completions", field="model")
    messages = _messages(fields.raw("messages"))
    exchange.texts = [message["content"] for message in messages if message["role"] == "user"]
    try:
        ids, ends = await exchange.until(
            exchange.service.in_thread(served.model.chat_tokens, messages)
        )
    except ConfigError as error:
        raise Refused(f"{error}; ask /v1/completions for text", field="messages") from None
    except DataError as error:  # such as of a role that there is not
        raise Refused(str(error), field="messages") from None
    n = fields.integer("n", 1, 1, min(limits.max_texts, limits.rows)) or 1
    top = None
    if fields.flag("logprobs"):
        top = fields.integer("top_logprobs", 0, 0, MOST_TOP)
    elif "top_logprobs" in fields:
        raise Refused("top_logprobs needs logprobs: true", field="top_logprobs")
    name = "max_completion_tokens" if "max_completion_tokens" in fields else "max_tokens"
    most = fields.integer(name, min(int(ANSWER["max_tokens"]), limits.max_tokens), 1, 10**9) or 1
    config = _sampling(exchange, most, ANSWER)
    writer = Writer(exchange, served, "chat.completion", "chatcmpl", chat_choice)
    tokens = frozenset(token for token in ends if token is not None)
    request = writer.request(ids, config, n=n, top=top, ends=tokens, cut_loops=True)
    return await writer.run([request])


def _writes(served: Served) -> bool:
    return served.engine is not None


def _sampling(exchange: Exchange, most: int, usual: dict[str, Any]) -> SamplingConfig:
    """Return how to draw; without a seed, a new one."""
    fields, limit = exchange.fields, exchange.service.config.max_tokens
    if most > limit:
        raise Refused(
            f"max_tokens is {most:,}; this server writes at most {limit:,} tokens",
            field="max_tokens",
        )
    defaults = {key: value for key, value in usual.items() if key not in fields}
    seed = {} if "seed" in fields else {"seed": RANDOM.getrandbits(48)}
    given = {**defaults, **seed, "max_tokens": max(most, 1)}
    config = fields.config(SamplingConfig, SAMPLING, **given)
    if config.min_tokens <= config.max_tokens:
        return config
    return replace(config, min_tokens=config.max_tokens)


def _prompts(exchange: Exchange, served: Served) -> list[str | np.ndarray]:
    """Return the prompts: a text, token ids, or a list of either."""
    value = exchange.fields.raw("prompt", "")
    if isinstance(value, str) or (isinstance(value, list) and value and _is_id(value[0])):
        value = [value]
    if not isinstance(value, list) or not value:
        exchange.fields.refuse("prompt", "a text, a list of token ids, or a list of either")
    exchange.fields.check_count("prompt", len(value), exchange.service.config.max_texts)
    size = served.model.tokenizer.vocab_size
    prompts: list[str | np.ndarray] = []
    for at, one in enumerate(value):
        if isinstance(one, str):
            prompts.append(whole(one))
        elif isinstance(one, list) and all(_is_id(token) and 0 <= token < size for token in one):
            prompts.append(np.array(one, np.int64))
        else:
            raise Refused(
                f"prompt[{at}] must be a text or token ids below {size:,}; got {quoted(one)}",
                field="prompt",
            )
    return prompts


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown_prompt(served: Served, prompt: str | np.ndarray) -> str:
    if isinstance(prompt, str):
        return prompt
    by_line = served.model.unit == "line"
    return served.model.tokenizer.decode(prompt, newline_ends=by_line)


def _messages(value: Any) -> list[dict[str, str]]:
    """Return the messages of a conversation; parts of a content are joined if they are text."""
    if not isinstance(value, list) or not value:
        raise Refused("messages must be a list of {role, content}", field="messages")
    messages = []
    for at, message in enumerate(value):
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list) and all(
            isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
        ):
            content = "".join(part["text"] for part in content)
        if not isinstance(role, str) or not isinstance(content, str):
            raise Refused(
                f"messages[{at}] must have a role and a content that is text", field="messages"
            )
        role = "system" if role == "developer" else role
        messages.append({"role": role, "content": whole(content)})
    return messages


# ---- writing


class Writer:
    """The texts of one HTTP request: submitted together, sent as one answer or as a stream."""

    def __init__(
        self,
        exchange: Exchange,
        served: Served,
        kind: str,
        prefix: str,
        shape: Callable[..., dict[str, Any]],
    ) -> None:
        assert served.engine is not None
        self.exchange, self.served, self.kind, self.shape = exchange, served, kind, shape
        self.engine: Engine = served.engine
        self.id = f"{prefix}-{RANDOM.getrandbits(96):024x}"
        self.created = int(time.time())
        self.streamed = exchange.fields.flag("stream")
        self.prefixes: list[str] = []  # of the texts, by prompt
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        options = exchange.fields.raw("stream_options", {})
        if not isinstance(options, dict) or options.get("include_usage") not in (None, True, False):
            exchange.fields.refuse("stream_options", "an object with include_usage: true or false")
        self.usage_wanted = self.streamed and bool(options.get("include_usage"))

    def request(self, prompt: str | np.ndarray, config: SamplingConfig, **options: Any) -> Request:
        """Return a request to the engine."""
        stops = self.exchange.fields.texts("stop", MOST_STOPS)
        if any(len(stop) > MOST_STOP_CHARACTERS for stop in stops) or "" in stops:
            self.exchange.fields.refuse(
                "stop", f"texts of 1 to {MOST_STOP_CHARACTERS:,} characters"
            )
        return Request(
            prompt,
            config,
            self._notify,
            stop=stops,
            streamed=self.streamed,
            group=self,
            deadline=self.engine.clock() + self.exchange.service.config.timeout,
            **options,
        )

    def _notify(self, request: Request) -> None:
        self.exchange.service.bell.call(self._loop, self._wake.set)

    async def run(self, requests: list[Request]) -> Any:
        """Submit requests and send what becomes of them."""
        exchange = self.exchange
        try:
            if sum(len(request.prompt) for request in requests) > LONG_PROMPT:
                rows = await exchange.until(exchange.service.in_thread(self._prepare, requests))
            else:
                rows = self._prepare(requests)
            check_size(requests, exchange.service.config)
            self._submit(rows)
            if self.streamed:
                return await self._stream(requests)
            while not all(request.done for request in requests):
                await exchange.until_set(self._wake)
                _raise_errors(requests)
            _raise_errors(requests)
            if sum(map(_n_numbers, requests)) > MANY_SCORES:
                return await exchange.until(exchange.service.in_thread(self._encoded, requests))
            return self._whole(requests)
        finally:
            for request in requests:
                self.engine.cancel(request)
            self._count(requests)

    def _prepare(self, requests: list[Request]) -> list[Row]:
        """Find the tokens of prompts, and their texts where they are shown or written down."""
        exchange, rows = self.exchange, []
        kept = exchange.service.keeps_texts and not exchange.texts
        for request in requests:
            rows.append(self.engine.prompts.prepare(request))
            shown = _shown_prompt(self.served, request.prompt) if request.echo or kept else ""
            self.prefixes.append(shown if request.echo else "")
            if kept:
                exchange.texts.append(shown)
        return rows

    def _submit(self, rows: list[Row]) -> None:
        try:
            for row in rows:
                self.engine.submit(row.request, row)
        except Full:
            waiting = self.engine.waiting_rows
            raise Refused.busy(f"{waiting:,} texts wait already; try again later") from None

    def _count(self, requests: list[Request]) -> None:
        exchange, measures, model = self.exchange, self.exchange.service.measures, self.served.name
        exchange.prompt_tokens = sum(request.prompt_tokens for request in requests)
        exchange.generated_tokens = sum(request.drawn_tokens for request in requests)
        measures.add("seqloom_prompt_tokens_total", exchange.prompt_tokens, model=model)
        measures.add("seqloom_generated_tokens_total", exchange.generated_tokens, model=model)
        for request in requests:
            if request.first_drawn is not None:
                seconds = request.first_drawn - request.arrived
                measures.observe("seqloom_first_token_seconds", seconds, model=model)

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.served.name}

    def _usage(self, requests: Sequence[Request]) -> dict[str, int]:
        prompt = sum(request.prompt_tokens for request in requests)
        drawn = sum(request.drawn_tokens for request in requests)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": drawn,
            "total_tokens": prompt + drawn,
        }

    def _encoded(self, requests: list[Request]) -> bytes:
        return encode_long(self._whole(requests))

    def _whole(self, requests: list[Request]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        for at, request in enumerate(requests):
            for number in range(request.n):
                events = [event for event in request.events if event.number == number]
                text = self.prefixes[at] + "".join(event.text for event in events)
                scores = [score for event in events for score in event.scores]
                spelled = Spelled(self.served)
                choices.append(
                    self.shape(
                        len(choices), text, spelled, scores, request, events[-1].finish, False
                    )
                )
        return {**self._head(self.kind), "choices": choices, "usage": self._usage(requests)}

    async def _stream(self, requests: list[Request]) -> None:
        exchange = self.exchange
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        head = self._head(self.kind + (".chunk" if self.kind.startswith("chat") else ""))
        rest = {"usage": None} if self.usage_wanted else {}
        spelled: dict[int, Spelled] = {}
        while not any(request.events or request.done for request in requests):
            await exchange.until_set(self._wake)
        _raise_errors(requests)  # before the head is sent, as an ordinary error
        await exchange.start(200, "text/event-stream; charset=utf-8", headers)
        ended = False
        while not ended:  # what comes while events are sent sets the event again
            ended = all(request.done for request in requests)
            at = 0
            # those that are here now, in one piece: what comes meanwhile is sent in the next
            chunks: list[Any] = []
            n_scores = 0
            for place, request in enumerate(requests):
                for _ in range(len(request.events)):
                    event: Event = request.events.popleft()
                    number = at + event.number
                    if number not in spelled:
                        spelled[number] = Spelled(self.served)
                        event = event._replace(text=self.prefixes[place] + event.text)
                    for part in _parts(event, request.top or 0):
                        choice = self.shape(
                            number,
                            part.text,
                            spelled[number],
                            part.scores,
                            request,
                            part.finish,
                            True,
                        )
                        chunks.append({**head, "choices": [choice], **rest})
                        n_scores += len(part.scores) * ((request.top or 0) + 1)
                        if n_scores > MOST_OF_EVENT:  # others come between
                            await exchange.events(chunks)
                            await asyncio.sleep(0)
                            chunks, n_scores = [], 0
                at += request.n
            await exchange.events(chunks)
            _raise_errors(requests)
            if not ended:
                # the others' turn: what is set already, as is a socket that takes all, is not waited for
                await asyncio.sleep(0)
                await exchange.until_set(self._wake)
        usage = (
            [{**head, "choices": [], "usage": self._usage(requests)}] if self.usage_wanted else []
        )
        await exchange.events([*usage, "[DONE]"], last=True)


def _n_numbers(request: Request) -> int:
    """Return how many log-probabilities an answer has, or texts of tokens beside them."""
    n_tokens = request.drawn_tokens + request.prompt_tokens * request.echo * request.n
    return 0 if request.top is None else n_tokens * (request.top + 1)


def _parts(event: Event, top: int) -> Iterator[Event]:
    """Yield an event in parts, each with so few log-probabilities that it holds up nobody: that of a prompt
    has those of all its tokens.
    """
    size, text, scores = max(MOST_OF_EVENT // (top + 1), 1), event.text, event.scores
    while len(scores) > size:
        yield Event(event.number, text, scores[:size], None)
        text = ""
        del scores[:size]  # to let go of all at once takes long, too
    yield event._replace(text=text)


def _raise_errors(requests: list[Request]) -> None:
    for request in requests:
        if request.error is not None:
            raise request.error
