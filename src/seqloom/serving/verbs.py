"""Our own verbs, vectors, tokens, and what a server says about itself."""

from __future__ import annotations

import base64
import time
from functools import partial
from typing import Any

import numpy as np

from seqloom.errors import ConfigError, DataError
from seqloom.serving.answering import Exchange, Handler
from seqloom.serving.catalogue import Served
from seqloom.serving.fields import Refused, whole
from seqloom.tasks.task import Verb


def verb(name: str) -> Handler:
    """Return what answers POST /NAME with the models whose task has that verb."""

    async def answer(exchange: Exchange) -> Any:
        fields, service = exchange.fields, exchange.service
        served = service.catalogue.find(
            fields.text("model"), f"can {name}", lambda one: name in one.verbs
        )
        exchange.model = served.name
        inputs = _inputs(exchange)
        chosen = served.verbs[name]
        options = fields.config(chosen.options, chosen.names)
        watched = (served.task.watched(served.model, one) for one in inputs)
        exchange.texts = [text for text in watched if text is not None]
        results = await exchange.until(
            service.in_thread(_answers, chosen, served.model, inputs, options)
        )
        exchange.labels = [one["label"] for one in results if "label" in one]
        return {"model": served.name, "results": results}

    return answer


def _answers(chosen: Verb, model: Any, inputs: list[Any], options: Any) -> list[dict[str, Any]]:
    try:
        return list(chosen.answer(model, inputs, options))
    except DataError as error:  # it is the inputs that it finds fault with
        raise Refused(" ".join(str(error).split()), field="inputs") from None


def _inputs(exchange: Exchange) -> list[Any]:
    fields = exchange.fields
    if "inputs" not in fields:
        raise Refused("inputs is missing: a list, with an answer for each", field="inputs")
    value = fields.raw("inputs")
    if not isinstance(value, list):
        if isinstance(value, str):
            value = [value]
        else:
            fields.refuse("inputs", "a list")
    fields.check_count("inputs", len(value), exchange.service.config.max_texts)
    return [whole(one) if isinstance(one, str) else one for one in value]


async def embed(exchange: Exchange) -> Any:
    """Answer /v1/embeddings."""
    fields, service = exchange.fields, exchange.service
    served = service.catalogue.find(
        fields.text("model"), "gives vectors of texts", lambda one: hasattr(one.model, "transform")
    )
    exchange.model = served.name
    value = fields.raw("input")
    if isinstance(value, list) and value and not all(isinstance(one, str) for one in value):
        raise Refused(
            "input must be a text or a list of texts; where a client sends token ids, such as "
            "langchain's OpenAIEmbeddings, set check_embedding_ctx_length=False",
            field="input",
        )
    if "input" not in fields:
        raise Refused("input is missing: a text or a list of texts", field="input")
    texts = fields.texts("input", service.config.max_texts)
    form = fields.text("encoding_format", "float")
    if form not in ("float", "base64"):
        fields.refuse("encoding_format", "float or base64")
    exchange.texts = texts
    try:
        vectors = await exchange.until(service.in_thread(served.model.transform, texts))
    except ConfigError as error:
        raise Refused(str(error), field="model") from None
    vectors = np.ascontiguousarray(vectors, "<f4")
    wanted = fields.integer("dimensions", vectors.shape[1], 1, 10**9)
    if wanted != vectors.shape[1]:
        raise Refused(
            f"the vectors of {served.name} have {vectors.shape[1]} dimensions", field="dimensions"
        )
    n_tokens = sum(len(text.split()) for text in texts)
    if hasattr(served.model, "tokenizers") and "text" in served.model.tokenizers:
        n_tokens = sum(len(served.model.tokenizer.encode(text)) for text in texts)
    exchange.prompt_tokens = n_tokens
    return {
        "object": "list",
        "model": served.name,
        "data": [
            {
                "object": "embedding",
                "index": at,
                "embedding": base64.b64encode(row.tobytes()).decode()
                if form == "base64"
                else row.tolist(),
            }
            for at, row in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
    }


# ---- tokens


def _has_tokenizer(served: Served) -> bool:
    return "text" in getattr(served.model, "tokenizers", {})


def _tokenizing(exchange: Exchange) -> Served:
    served = exchange.service.catalogue.find(
        exchange.fields.text("model"), "has one tokenizer", _has_tokenizer
    )
    exchange.model = served.name
    return served


async def tokenize(exchange: Exchange) -> Any:
    """Answer /tokenize: the ids of a text; the name of a mark alone, such as `</s>`, is that mark."""
    served = _tokenizing(exchange)
    fields, tokenizer = exchange.fields, served.model.tokenizer
    name = next((one for one in ("prompt", "content", "text") if one in fields), None)
    if name is None:
        raise Refused("prompt is missing: the text", field="prompt")
    text = fields.text(name) or ""
    marks = {tokenizer.token(tokenizer.eos_id): tokenizer.eos_id, **tokenizer.marks}
    if text in marks:
        ids = [marks[text]]
    else:
        by_line = getattr(served.model, "unit", None) == "line"  # as a prompt is read
        encode = partial(tokenizer.encode, text, newline_ends=by_line)
        ids = (await exchange.until(exchange.service.in_thread(encode))).tolist()
    limit = None if served.engine is None else served.engine.prompts.limit
    return {"tokens": ids, "count": len(ids), "max_model_len": limit}


async def detokenize(exchange: Exchange) -> Any:
    """Answer /detokenize: the text of ids."""
    served = _tokenizing(exchange)
    fields, size = exchange.fields, served.model.tokenizer.vocab_size
    ids = fields.raw("tokens")
    good = isinstance(ids, list) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one < size for one in ids
    )
    if not good:
        raise Refused(f"tokens must be a list of ids below {size:,}", field="tokens")
    by_line = getattr(served.model, "unit", None) == "line"

    def decode() -> str:
        return served.model.tokenizer.decode(ids, newline_ends=by_line)

    return {"prompt": await exchange.until(exchange.service.in_thread(decode))}


async def tokenizer_info(exchange: Exchange) -> Any:
    """Answer /tokenizer_info, as lm-eval asks for it."""
    query = exchange.scope["query_string"].decode("latin-1")
    name = next((part[6:] for part in query.split("&") if part.startswith("model=")), None)
    served = exchange.service.catalogue.find(name, "has one tokenizer", _has_tokenizer)
    tokenizer = served.model.tokenizer
    template = getattr(served.model, "learnt", {}).get("chat_template")
    return {
        "tokenizer_class": tokenizer.label(),
        "eos_token": tokenizer.token(tokenizer.eos_id),
        "bos_token": None,
        "vocab_size": tokenizer.vocab_size,
        "chat_template": template,
        "lossless": tokenizer.lossless,
    }


# ---- about the server

STARTED = int(time.time())


async def list_models(exchange: Exchange) -> Any:
    """Answer /v1/models."""
    return {"object": "list", "data": [_described(one) for one in exchange.service.catalogue]}


async def show_model(exchange: Exchange) -> Any:
    """Answer /v1/models/NAME."""
    name = exchange.scope["path_params"]["name"]
    return _described(exchange.service.catalogue.find(name, "is called so", lambda one: True))


def _described(served: Served) -> dict[str, Any]:
    return {
        "id": served.name,
        "object": "model",
        "created": STARTED,
        "owned_by": "seqloom",
        "task": served.task.name,
        "kind": served.model.name,
        "max_model_len": None if served.engine is None else served.engine.prompts.limit,
        "verbs": sorted(served.verbs),
    }


async def health(exchange: Exchange) -> Any:
    """Answer /health: the process lives."""
    return {"status": "ok"}


async def ready(exchange: Exchange) -> Any:
    """Answer /ready: requests are taken."""
    if exchange.service.draining:
        raise Refused("the server is shutting down", status=503)
    return {"status": "ready"}


async def metrics(exchange: Exchange) -> None:
    """Answer /metrics, for Prometheus."""
    service = exchange.service
    gauges: list[tuple[str, dict[str, str], float]] = [
        ("seqloom_in_flight_requests", {}, service.in_flight - 1),
        ("seqloom_draining", {}, service.draining),
    ]
    for name, count in (("waiting", "waiting_rows"), ("running", "running_rows")):
        for served in service.catalogue:
            if served.engine is not None:
                rows = float(getattr(served.engine, count))
                gauges.append((f"seqloom_{name}_rows", {"model": served.name}, rows))
    body = service.measures.render(gauges).encode()
    await exchange.answer(200, body, "text/plain; version=0.0.4; charset=utf-8")


async def reload(exchange: Exchange) -> Any:
    """Answer /admin/reload: a model's directory is loaded anew."""
    service = exchange.service
    served = service.catalogue.find(exchange.fields.text("model"), "is called so", lambda one: True)
    exchange.model = served.name
    try:
        new = await service.in_thread(service.catalogue.reload, served.name)
    except Exception as error:
        message = " ".join(str(error).split())
        raise Refused(f"{message}; the loaded model stays in service", status=409) from None
    return _described(new)
