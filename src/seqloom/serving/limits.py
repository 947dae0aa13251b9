"""How much one request for texts may ask for."""

from __future__ import annotations

from collections.abc import Sequence

from seqloom.serving.configs import ServeConfig
from seqloom.serving.fields import Refused
from seqloom.serving.requests import Request

MOST_WRITTEN, MOST_SCORES = 1_000_000, 500_000  # tokens and log-probabilities of one answer


def check_size(requests: Sequence[Request], limits: ServeConfig) -> None:
    """Refuse what would take more memory or time than one answer may have."""
    longest = max(request.prompt_tokens for request in requests)
    if longest > limits.max_prompt:
        raise Refused(
            f"the prompt has {longest:,} tokens; this server reads at most {limits.max_prompt:,}",
            field="prompt",
        )
    written = sum(request.n * request.config.max_tokens for request in requests)
    if written > MOST_WRITTEN:
        raise Refused(
            f"all texts together may have {written:,} tokens; this server writes at most "
            f"{MOST_WRITTEN:,} for a request",
            field="max_tokens",
        )
    scores = sum(_n_scores(request) for request in requests)
    if scores > MOST_SCORES:
        raise Refused(
            f"these may be {scores:,} log-probabilities; this server gives at most "
            f"{MOST_SCORES:,} for a request",
            field="logprobs",
        )


def _n_scores(request: Request) -> int:
    """Return how many log-probabilities an answer may hold."""
    if request.top is None:
        return 0
    n_tokens = request.config.max_tokens + request.echo * request.prompt_tokens
    return request.n * n_tokens * (request.top + 1)
