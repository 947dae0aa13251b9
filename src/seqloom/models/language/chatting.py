"""Answers in a conversation, for models whose weights came with a chat template; what of a long text they do not see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seqloom import progress
from seqloom.errors import ConfigError
from seqloom.text.chat import MOST_CHARACTERS, ChatTemplate, checked_messages

if TYPE_CHECKING:
    import numpy as np

    from seqloom.text.tokenizer import Tokenizer

Messages = str | Sequence[Mapping[str, str]]  # one, or a conversation
ANSWER = 500  # tokens that an answer may have, by default


def template_text(value: Any) -> bool:
    """What a chat template must be to be saved."""
    return isinstance(value, str) and 0 < len(value) <= MOST_CHARACTERS


def make_template(name: str, tokenizer: Tokenizer, learnt: Mapping[str, Any]) -> ChatTemplate:
    """Make the template that the model of that name has learnt; refused where it has none."""
    if "chat_template" not in learnt:
        raise ConfigError(
            f"this {name} model has no chat template, so it continues texts but holds no conversations; "
            "use generate without chat"
        )
    specials = {"eos_token": tokenizer.token(tokenizer.eos_id)}
    if (bos := learnt.get("chat_bos")) is not None:
        specials["bos_token"] = tokenizer.token(bos)
    return ChatTemplate(learnt["chat_template"], tokenizer, specials)


def encode_chat(template: ChatTemplate, messages: Messages, start: int | None) -> np.ndarray:
    """Encode messages, without the start token, which the model begins with anyway."""
    ids = template.encode(checked_messages(messages))
    return ids[1:] if len(ids) and ids[0] == start else ids


def remark_length(what: str, n_tokens: int, context: int) -> None:
    """Say that a text is longer than what the model sees."""
    if n_tokens > context:
        progress.say(
            f"warning: the {what} has {n_tokens:,} tokens; the model sees at most the last {context:,}"
        )
