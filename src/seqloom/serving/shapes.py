"""The texts of an answer as OpenAI's clients parse them, with log-probabilities beside them."""

from __future__ import annotations

import math
from typing import Any

from seqloom.errors import ModelError
from seqloom.serving.catalogue import Served
from seqloom.serving.requests import Request, TokenScore

IMPOSSIBLE = -9999.0  # the log-probability of what has none, where clients expect a number


class Spelled:
    """The text of tokens one after another, for clients that put log-probabilities beside them."""

    def __init__(self, served: Served) -> None:
        self.tokenizer, self.by_line = served.model.tokenizer, served.model.unit == "line"
        self.offset = 0
        self._before = False

    def next(self, token: int) -> tuple[str, int]:
        """Return the text that a token adds, and where it begins."""
        text, at = self.shown(token), self.offset
        self.offset += len(text)
        self._before = bool(text) and not text[-1].isspace()
        return text, at

    def shown(self, token: int) -> str:
        """Return the text of a token at this place; its name where it has none."""
        data = self.data(token)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    def data(self, token: int) -> bytes:
        """Return the same as bytes, which may be a part of a letter."""
        if data := self.tokenizer.piece(token, before=self._before):
            return data
        ends_line = token == self.tokenizer.eos_id and self.by_line
        return b"\n" if ends_line else self.tokenizer.token(token).encode("utf-8", "replace")


def _number(log_prob: float) -> float:
    if math.isnan(log_prob):
        raise ModelError("a log-probability of the model is not a number; fit or convert it again")
    return log_prob if math.isfinite(log_prob) else IMPOSSIBLE


def completion_choice(
    number: int,
    text: str,
    spelled: Spelled,
    scores: list[TokenScore],
    request: Request,
    finish: str | None,
    streamed: bool,
) -> dict[str, Any]:
    """Return a text of /v1/completions, or a piece of one."""
    logprobs: dict[str, list[Any]] | None = None
    if request.top is not None:
        logprobs = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for score in scores:
            tops: dict[str, float] = {}
            for other, log_prob in reversed(score.top):  # the likelier one of equal texts stays
                tops[spelled.shown(other)] = _number(log_prob)
            shown, offset = spelled.next(score.token)
            logprobs["tokens"].append(shown)
            logprobs["text_offset"].append(offset)
            first = score.log_prob is None
            logprobs["token_logprobs"].append(None if first else _number(score.log_prob or 0.0))
            logprobs["top_logprobs"].append(None if first else tops)
    return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": finish}


def chat_choice(
    number: int,
    text: str,
    spelled: Spelled,
    scores: list[TokenScore],
    request: Request,
    finish: str | None,
    streamed: bool,
) -> dict[str, Any]:
    """Return an answer of /v1/chat/completions, or a piece of one."""
    logprobs = None
    if request.top is not None:
        content = []
        for score in scores:
            tops = [_chat_token(spelled, other, log_prob) for other, log_prob in score.top]
            content.append(
                {**_chat_token(spelled, score.token, score.log_prob or 0.0), "top_logprobs": tops}
            )
            spelled.next(score.token)
        logprobs = {"content": content}
    message = {"role": "assistant", "content": text}
    return {
        "index": number,
        "delta" if streamed else "message": message,
        "logprobs": logprobs,
        "finish_reason": finish,
    }


def _chat_token(spelled: Spelled, token: int, log_prob: float) -> dict[str, Any]:
    data = list(spelled.data(token))
    return {"token": spelled.shown(token), "logprob": _number(log_prob), "bytes": data}
