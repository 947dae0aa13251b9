"""/openapi.json, from the options that are declared already."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from seqloom._version import __version__
from seqloom.config import Config, choices, defaults, field_types, parts
from seqloom.decoding.sampling import ANSWER, SamplingConfig
from seqloom.serving.completions import USUAL_TOKENS

if TYPE_CHECKING:
    from seqloom.serving.app import Route
    from seqloom.tasks.task import Verb

TEXT, FLAG, COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "integer", "minimum": 0}
TEXTS = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
IDS = {"type": "array", "items": COUNT}
MODEL = {"type": "string", "description": "Its name; may be left out where only one suits."}


def fields_of(cls: type[Config], names: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of some options of a config."""
    kinds = field_types(cls)
    by_name = {field.name: field for field in dataclasses.fields(cls)}
    return {name: _schema(kinds[name], by_name[name]) for name in names}


def _schema(kind: Any, field: dataclasses.Field[Any]) -> dict[str, Any]:
    meta = field.metadata
    schema: dict[str, Any] = {"description": str(meta["help"])}
    if words := choices(kind):
        schema |= {"type": "string", "enum": list(words)}
    else:
        kinds = [part for part in parts(kind) if part is not type(None)]
        schema |= _plain(kinds[0])
    bounds = {"minimum": meta.get("minimum"), "maximum": meta.get("maximum")}
    if schema.get("type") in ("integer", "number"):
        schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    if isinstance(field.default, (bool, int, float, str)):
        schema["default"] = field.default
    return schema


def _plain(kind: Any) -> dict[str, Any]:
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        literal = typing.get_origin(item) is Literal
        inner = {"type": "string", "enum": list(typing.get_args(item))} if literal else _plain(item)
        return {"type": "array", "items": inner}
    return {"type": {bool: "boolean", int: "integer", float: "number"}.get(kind, "string")}


def _object(properties: dict[str, Any], required: Iterable[str] = ()) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {"model": MODEL, **properties}}
    return schema | ({"required": list(required)} if required else {})


def _writing(usual: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of what both requests for text take, with the defaults of one of them."""
    sampling = fields_of(SamplingConfig, defaults(SamplingConfig))
    for name, default in usual.items():
        sampling[name] = {**sampling[name], "default": default}
    return {
        **sampling,
        "n": {"type": "integer", "minimum": 1, "default": 1, "description": "Number of texts."},
        "stop": {**TEXTS, "description": "Stop before any of these texts."},
        "stream": {**FLAG, "description": "Send events as the text is drawn."},
        "stream_options": {"type": "object", "properties": {"include_usage": FLAG}},
    }


_answer = _writing(ANSWER)
SCHEMAS: dict[str, dict[str, Any]] = {
    "/v1/completions": _object(
        {
            "prompt": {"anyOf": [TEXT, {"type": "array", "items": {"anyOf": [TEXT, IDS, COUNT]}}]},
            **_writing({"max_tokens": USUAL_TOKENS}),
            "echo": {**FLAG, "description": "Repeat the prompt, with logprobs also its own."},
            "logprobs": {**COUNT, "description": "Log-probabilities, with so many alternatives."},
        }
    ),
    "/v1/chat/completions": _object(
        {
            "messages": {
                "type": "array",
                "items": {"type": "object", "properties": {"role": TEXT, "content": {}}},
            },
            **_answer,
            "max_completion_tokens": _answer["max_tokens"],
            "logprobs": FLAG,
            "top_logprobs": COUNT,
        },
        ["messages"],
    ),
    "/v1/embeddings": _object(
        {
            "input": TEXTS,
            "encoding_format": {"type": "string", "enum": ["float", "base64"]},
            "dimensions": COUNT,
        },
        ["input"],
    ),
    "/tokenize": _object({"prompt": TEXT, "content": TEXT, "text": TEXT}),
    "/detokenize": _object({"tokens": IDS}, ["tokens"]),
    "/admin/reload": _object({}),
}


def verb_schema(users: dict[str, Verb]) -> dict[str, Any]:
    """Return the schema of a verb of ours: inputs, and the options of all tasks that have it."""
    inputs = "; ".join(f"for {phrase} {verb.input}" for phrase, verb in users.items())
    properties: dict[str, Any] = {
        "inputs": {"type": "array", "items": {}, "description": f"An answer for each; {inputs}."}
    }
    for verb in users.values():
        properties |= fields_of(verb.options, verb.names)
    return _object(properties, ["inputs"])


def document(table: Iterable[Route]) -> dict[str, Any]:
    """Return the description of all routes."""
    paths: dict[str, Any] = {}
    answer = {"description": "The answer.", "content": {"application/json": {"schema": {}}}}
    for route in table:
        operation: dict[str, Any] = {
            "summary": route.help,
            "responses": {"200": answer, "default": {"description": "An error, with its field."}},
        }
        if route.body is not None:
            content = {"application/json": {"schema": route.body}}
            operation["requestBody"] = {"required": True, "content": content}
        if "{" in route.path:
            name = {"name": "name", "in": "path", "required": True, "schema": TEXT}
            operation["parameters"] = [name]
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "seqloom", "version": __version__},
        "paths": paths,
    }
