"""Ids in, ids out: one call for drawing and for beam search over any Stepper.

Row i of `stepper.start(n)` is where prompt i begins. A language model begins all rows alike; a translator begins row i with
source i, and its prompts are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from seqloom.decoding.beam import BeamConfig, beam_search
from seqloom.decoding.sampling import SamplingConfig, sample
from seqloom.decoding.stepper import Stepper
from seqloom.errors import ConfigError


def search(
    stepper: Stepper,
    prompts: Sequence[np.ndarray],
    config: SamplingConfig,
    *,
    beams: int | None = None,
    length_penalty: float = 1.0,
    first_allowed: Sequence[np.ndarray | None] | None = None,
) -> list[list[int]]:
    """What follows each prompt, with the end symbol if it was reached: drawn as the config says, or the best of `beams`."""
    if beams is None:
        drawn = list(sample(stepper, prompts, config, first_allowed=first_allowed))
        return [[int(ids[row]) for ids in drawn if ids[row] >= 0] for row in range(len(prompts))]
    used = ("max_tokens", "min_tokens", "seed", "allow_eos")
    idle = [
        f.name
        for f in fields(config)
        if f.name not in used and getattr(config, f.name) != f.default
    ]
    if idle:
        raise ConfigError(
            f"beam search does not sample, so {', '.join(idle)} has no effect; drop it or beams"
        )
    how = BeamConfig(
        beams=beams,
        max_tokens=config.max_tokens,
        min_tokens=config.min_tokens,
        length_penalty=length_penalty,
    )
    hypotheses = beam_search(stepper, prompts, how, first_allowed=first_allowed)
    return [[*best.ids.tolist(), *[stepper.eos_id] * best.finished] for best, *_ in hypotheses]
