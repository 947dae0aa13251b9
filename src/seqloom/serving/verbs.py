"""Our own verbs, vectors, tokens, and what a server says about itself."""

from __future__ import annotations

import base64
import time
from typing import Any
from urllib.parse import parse_qs

import numpy as np

from seqloom.contracts import LanguageModel
from seqloom.errors import ConfigError, DataError
from seqloom.serving.answering import Exchange, Handler
from seqloom.serving.catalogue import Served
from seqloom.serving.encoding import encode, encode_long
from seqloom.serving.fields import Refused, whole

MOST_ANSWER = 64_000_000  # bytes of an answer to many inputs


def verb(name: str) -> Handler:
    """Return what answers POST /NAME with the models whose task has that verb."""

    async def answer(exchange: Exchange) -> Any:
        fields, service = exchange.fields, exchange.service
        served = service.catalogue.find(
            fields.text("model"), f"answers /{name}", lambda one: name in one.verbs
        )
        exchange.model = served.name
        inputs = await exchange.look(_inputs, exchange)
        chosen = served.verbs[name]
        options = fields.config(chosen.options, chosen.names)
        if service.keeps_texts:
            watched = (served.task.watched(served.model, one) for one in inputs)
            exchange.texts = [text for text in watched if text is not None]
        labels, body = await exchange.until(
            service.in_thread(_answer, served, name, inputs, options)
        )
        exchange.labels = labels
        return body

    return answer


def _answer(served: Served, name: str, inputs: list[Any], options: Any) -> tuple[list[Any], bytes]:
    """Return the labels of an answer, if it has any, and all of it as JSON."""
    labels, results, size = [], [], 0
    try:
        for one in served.verbs[name].answer(served.model, inputs, options):
            labels += [one["label"]] if "label" in one else []
            results.append(encode(one))
            size += len(results[-1])
            if size > MOST_ANSWER:
                raise Refused(
                    f"the answer has more than {MOST_ANSWER:,} bytes; ask with fewer inputs at a time",
                    field="inputs",
                )
    except DataError as error:  # it is the inputs that it finds fault with
        raise Refused(" ".join(str(error).split()), field="inputs") from None
    head = encode({"model": served.name, "results": []}).removesuffix(b"]}")
    return labels, head + b", ".join(results) + b"]}"


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
    served = service.catalogue.find(fields.text("model"), "gives vectors of texts", _has_vectors)
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
    width = fields.integer("dimensions", None, 1, 10**9)
    exchange.texts = texts
    try:
        exchange.prompt_tokens, body = await exchange.until(
            service.in_thread(_vectors, served, texts, form, width)
        )
    except ConfigError as error:
        raise Refused(str(error), field="model") from None
    return body


def _has_vectors(served: Served) -> bool:
    model = served.model
    if isinstance(model, LanguageModel):  # such as an n-gram model, which counts
        return type(model).hidden_states is not LanguageModel.hidden_states
    return hasattr(model, "transform")


def _vectors(
    served: Served, texts: list[str], form: str | None, width: int | None
) -> tuple[int, bytes]:
    """Return the number of tokens of texts, of words where there is no tokenizer, and the answer as JSON."""
    split = served.model.tokenizer.encode if _has_tokenizer(served) else str.split
    n_tokens = sum(len(split(text)) for text in texts)
    vectors = np.ascontiguousarray(served.model.transform(texts), "<f4")
    if width not in (None, vectors.shape[1]):
        raise Refused(
            f"the vectors of {served.name} have {vectors.shape[1]} dimensions", field="dimensions"
        )
    data = [
        {
            "object": "embedding",
            "index": at,
            "embedding": base64.b64encode(row.tobytes()).decode()
            if form == "base64"
            else row.tolist(),
        }
        for at, row in enumerate(vectors)
    ]
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    return n_tokens, encode_long(
        {"object": "list", "model": served.name, "data": data, "usage": usage}
    )


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
    by_line = getattr(served.model, "unit", None) == "line"  # as a prompt is read
    limit = None if served.engine is None else served.engine.prompts.limit

    def encoded() -> bytes:
        known = marks.get(text)
        ids = (
            [known] if known is not None else tokenizer.encode(text, newline_ends=by_line).tolist()
        )
        return encode({"tokens": ids, "count": len(ids), "max_model_len": limit})

    return await exchange.until(exchange.service.in_thread(encoded))


async def detokenize(exchange: Exchange) -> Any:
    """Answer /detokenize: the text of ids."""
    served = _tokenizing(exchange)
    fields, size = exchange.fields, served.model.tokenizer.vocab_size
    ids = fields.raw("tokens")

    def are_ids() -> bool:
        return isinstance(ids, list) and all(
            isinstance(one, int) and not isinstance(one, bool) and 0 <= one < size for one in ids
        )

    if not await exchange.look(are_ids):
        raise Refused(f"tokens must be a list of ids below {size:,}", field="tokens")
    by_line = getattr(served.model, "unit", None) == "line"

    def decode() -> str:
        return served.model.tokenizer.decode(ids, newline_ends=by_line)

    return {"prompt": await exchange.until(exchange.service.in_thread(decode))}


async def tokenizer_info(exchange: Exchange) -> Any:
    """Answer /tokenizer_info, as lm-eval asks for it."""
    query = parse_qs(exchange.scope["query_string"].decode("latin-1"))
    name = query.get("model", [None])[0]
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
