"""How wide a network should be when the user does not say: as the data and the time allow.

In the time given the machine makes about so many multiplications; a network twice as wide sees a quarter of the tokens. A wide
network that reads the data once or twice learns more from it than a narrow one that reads it often. So the width is the largest
of a short list with which the time suffices for about one pass over a million tokens (more over less data). Dropout is for data
that is read often, and follows from the passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from seqloom.training.config import MINUTES, TrainConfig

WIDTHS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
SPEED = 25e9  # multiplications a second that two cores make in training, forward and backward
_EPOCHS = 0.9  # over one million tokens; the wish falls with the square root of their number


@dataclass(frozen=True)
class Size:
    width: int
    chosen: bool = False  # not given
    d_embed: int | None = None  # of vectors that the network begins with
    dropout: float = 0.0  # where none is given


def choose_width(
    train: TrainConfig, tokens: int, cost: Callable[[int], float], *, multiple: int = 1
) -> int:
    """For so many tokens, or values; `cost` of one: multiplications of the forward pass by width."""
    widths = [w for w in WIDTHS if w % multiple == 0] or [
        WIDTHS[0] // multiple * multiple or multiple
    ]
    if train.steps is not None or train.epochs is not None:
        seen = tokens * (train.epochs or 4.0)
        work = (
            MINUTES * 60 * SPEED * max(seen / 4e6, 0.25)
        )  # length was given otherwise: assume patience for it
    else:
        work = (train.minutes or MINUTES) * 60 * SPEED
    epochs = max(_EPOCHS * (1e6 / max(tokens, 1)) ** 0.5, 1.0)
    fitting = [w for w in widths if 3 * cost(w) * tokens * epochs <= work]
    largest = max(
        64, 16 * tokens**0.25
    )  # more weights than little data can fill only learn it by heart
    fitting = [w for w in fitting if w <= largest] or widths[:1]
    return fitting[-1]


def passes(train: TrainConfig, tokens: int, cost: float, updates: float | None = None) -> float:
    """About how often the data is read: one token costs so many multiplications, one pass takes so many updates."""
    if train.epochs is not None:
        return train.epochs
    if train.steps is not None:
        return train.steps / (updates or max(tokens, 1) / 1024)
    return (train.minutes or MINUTES) * 60 * SPEED / (3 * cost * max(tokens, 1))


def default_dropout(passes: float) -> float:
    """What is read once or twice cannot be learnt by heart; what is read often can."""
    return 0.0 if passes < 3 else 0.1 if passes < 8 else 0.2
