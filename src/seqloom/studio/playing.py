"""What a model can be asked, for the playground: the verbs of its task with their options, as JSON Schema."""

from __future__ import annotations

from typing import Any

from seqloom import tasks
from seqloom.serving.catalogue import Served
from seqloom.serving.openapi import fields_of
from seqloom.tasks.task import Verb


def _different(verbs: dict[str, Verb]) -> dict[str, Verb]:
    """Return the verbs without further names of the same one."""
    first = {id(verb): name for name, verb in reversed(verbs.items())}
    return {name: verb for name, verb in verbs.items() if first[id(verb)] == name}


def abilities(served: Served) -> dict[str, Any]:
    """Return whether a model writes text, answers conversations, and the verbs that its task has."""
    learnt = getattr(served.model, "learnt", {})
    return {
        "writes": served.engine is not None,
        "chats": hasattr(served.model, "chat_tokens") and bool(learnt.get("chat_template")),
        "verbs": [
            {
                "name": name,
                "help": verb.help,
                "input": verb.input,
                "numbers": verb.numbers,
                "options": fields_of(verb.options, verb.names),
            }
            for name, verb in _different(served.verbs).items()
        ],
    }


def answers(model: Any, verb: str, inputs: list[Any], **options: Any) -> list[dict[str, Any]]:
    """Return what a verb of a model's task answers to inputs, as the server's POST /VERB does."""
    chosen = tasks.of(model).verbs()[verb]
    return list(chosen.answer(model, inputs, chosen.options(**options)))
