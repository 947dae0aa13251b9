"""How wide a network should be when the user does not say: as the text and the time allow.

In the time given the machine makes about so many multiplications; a network twice as wide sees a quarter of the tokens.
A text should be read several times and not too often, so the width is the largest of a short list with which the
time suffices for a number of epochs that falls as the text grows (a small text needs more of them, a large one fewer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seqloom.models.language.neural_configs import NPLM_EMBED
from seqloom.training.config import MINUTES, TrainConfig

WIDTHS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
SPEED = 25e9  # multiplications a second that two cores make in training, forward and backward
_EPOCHS = 4.0  # of one million tokens; the wish falls with the square root of the text's size


@dataclass(frozen=True)
class Size:
    width: int
    chosen: bool = False
    option: str = ""
    d_embed: int | None = None  # of vectors that the network begins with


def choose_size(config: Any, train: TrainConfig, tokens: int, vocab_size: int, d_embed: int | None = None) -> Size:
    """The width that was given, or one that suits; `d_embed` of vectors that the network begins with."""
    name = "d_model" if hasattr(config, "d_model") else "d_hidden"
    given = d_embed if d_embed and name == "d_model" else getattr(config, name)
    if given is not None:
        return Size(given, d_embed=d_embed)
    multiple = getattr(config, "multiple", 1)
    widths = [w for w in WIDTHS if w % multiple == 0] or [WIDTHS[0] // multiple * multiple or multiple]
    if train.steps is not None or train.epochs is not None:
        seen = tokens * (train.epochs or 4.0)
        work = MINUTES * 60 * SPEED * max(seen / 4e6, 0.25)  # length was given otherwise: assume patience for it
    else:
        work = (train.minutes or MINUTES) * 60 * SPEED
    epochs = max(_EPOCHS * (1e6 / max(tokens, 1)) ** 0.5, 1.0)
    fitting = [w for w in widths if 3 * _multiplications(config, w, vocab_size) * tokens * epochs <= work]
    largest = max(64, 16 * tokens ** 0.25)  # more weights than a small text can fill only learn it by heart
    fitting = [w for w in fitting if w <= largest] or widths[:1]
    return Size(fitting[-1], chosen=True, option=name, d_embed=d_embed)


def _multiplications(config: Any, width: int, vocab_size: int) -> float:
    """Of one token, forward."""
    words = min(vocab_size, config.samples) if config.softmax in ("sampled", "nce") else vocab_size
    if hasattr(config, "d_model"):
        return 12 * config.n_layers * width * width + words * width
    if hasattr(config, "order"):
        return (config.order - 1) * (config.d_embed or NPLM_EMBED) * width + words * width
    return 8 * config.n_layers * width * width + words * width
