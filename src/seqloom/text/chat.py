"""Conversations as token ids, by the chat template of published weights (Jinja, as in transformers).

A template writes marks such as `<|im_start|>` around messages; these become the tokens of that name.
The same characters in a message stay characters: before rendering, the first and the last character of
every mark are replaced in all messages by characters that occur nowhere else, and restored after the marks
have been found. So a mark always begins and ends with characters of the template, whatever the template
does to the message; but a template that searches a message for such characters does not find them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.errors import DataError, MissingExtra, ModelError
from seqloom.text.tokenizer import Tokenizer

MOST_CHARACTERS = 1 << 20  # of a template
PATIENCE = 20.0  # seconds of wall time for a rendering; its CPU time is limited in `chat_worker`
WORKER = Path(__file__).with_name("chat_worker.py")
ROLES = ("system", "user", "assistant")
_PRIVATE = range(0xF0000, 0xFFFFD)  # a private use area of Unicode

Message = Mapping[str, str]


def checked_messages(messages: str | Sequence[Message]) -> list[dict[str, str]]:
    """Return a checked list of messages with role and content; a text is the user's first message."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    checked = []
    for number, message in enumerate(messages, 1):
        good = (
            isinstance(message, Mapping)
            and message.keys() == {"role", "content"}
            and all(isinstance(value, str) for value in message.values())
        )
        if not good:
            raise DataError(
                f"message {number} of the conversation is not a dict of two texts, role and content"
            )
        if message["role"] not in ROLES:
            raise DataError(
                f"message {number} has the role {message['role']!r:.40}; roles are {', '.join(ROLES)}"
            )
        checked.append(dict(message))
    if not checked:
        raise DataError("the conversation is empty; give at least one message")
    return checked


class ChatTemplate:
    """A template and the tokenizer that has its marks; `specials`: the variables of special tokens that a
    template may use, such as bos_token.
    """

    def __init__(self, source: str, tokenizer: Tokenizer, specials: Mapping[str, str]) -> None:
        self.source, self.tokenizer, self.specials = source, tokenizer, dict(specials)
        self.marks = tokenizer.marks
        by_length = sorted(self.marks, key=len, reverse=True)
        self._mark_pattern = (
            re.compile("(" + "|".join(map(re.escape, by_length)) + ")")
            if by_length
            else re.compile("(?!)()")
        )

    def encode(self, messages: Sequence[Message], *, answer: bool = True) -> np.ndarray:
        """Encode a conversation as ids; `answer`: followed by the opening of the assistant's next message."""
        return np.array([i for part in self._parts(messages, answer) for i in part], np.int64)

    def end_of_turn(self) -> int | None:
        """Return the id of the mark that follows a message of the assistant; None if there is none."""
        content = "\N{BALLOT BOX}"
        messages = [{"role": "user", "content": "-"}, {"role": "assistant", "content": content}]
        ids, content_ids = (
            self.encode(messages, answer=False).tolist(),
            self.tokenizer.encode(content).tolist(),
        )
        starts = [i for i in range(len(ids)) if ids[i : i + len(content_ids)] == content_ids]
        numbers = set(self.marks.values())
        return next((i for i in ids[starts[-1] :] if i in numbers), None) if starts else None

    def _parts(self, messages: Sequence[Message], answer: bool) -> list[list[int]]:
        ends = {
            character for mark in self.marks for character in (mark.strip()[0], mark.strip()[-1])
        }
        used = {*self.source, *(c for message in messages for c in message["content"])}
        free = (chr(code) for code in _PRIVATE if chr(code) not in used)
        hidden = dict(zip(sorted(ends), free))
        hide, show = (
            str.maketrans(hidden),
            str.maketrans({substitute: original for original, substitute in hidden.items()}),
        )
        shown = [{**message, "content": message["content"].translate(hide)} for message in messages]
        text = self._render(
            {
                "messages": shown,
                "add_generation_prompt": answer,
                "tools": None,
                "documents": None,
                **self.specials,
            }
        )
        return [
            [self.marks[part]]
            if number % 2
            else self.tokenizer.encode(part.translate(show)).tolist()
            for number, part in enumerate(self._mark_pattern.split(text))
            if part
        ]

    def _render(self, values: dict[str, Any]) -> str:
        fault = "the chat template of this model cannot be used"
        task = json.dumps({"template": self.source, "values": values}).encode("ascii")
        try:
            done = subprocess.run(
                [sys.executable, "-P", str(WORKER)],
                input=task,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
            answer = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            raise ModelError(f"{fault}: it takes longer than {PATIENCE:g} seconds") from None
        except OSError as error:
            raise ModelError(
                f"{fault}: no process can be started to render it ({error.strerror})"
            ) from None
        except ValueError:  # no output: the system killed it for its time or memory
            raise ModelError(f"{fault}: it takes too much time or memory") from None
        if "missing" in answer:
            raise MissingExtra(
                "chat templates need jinja2; install it: pip install 'seqloom[chat]'"
            )
        if "error" in answer:
            raise ModelError(f"{fault}: {answer['error']}")
        return answer["text"]
