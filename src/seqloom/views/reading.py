"""How views read a text by a network: one text, or for a translator a source and perhaps its target."""

from __future__ import annotations

from typing import Any

from seqloom.models.sequence.inputs import spelled_tokens
from seqloom.traces import Traced


def traced(model: Any, example: Any, *patterns: str) -> Traced:
    """Return what a network computes while it reads an example: a text, or what else the model reads; of a
    translator a source, or a source and the target that it is to write.
    """
    if model.task == "translator" and isinstance(example, tuple):
        source, target = example
        return model.trace(source, *patterns, target=target)
    return model.trace(example, *patterns)


def left_out(model: Any, example: Any) -> list[str]:
    """Say how much of a text a network of labels reads, where that is less than the text."""
    cuts = model.task == "classifier" and getattr(model.config, "long", "") == "truncate"
    if not cuts or not isinstance(example, str):
        return []
    many, (_, read) = len(spelled_tokens(model.tokenizer, example)), model.steps_of(example)
    if many <= len(read):
        return []
    return [
        f"Of {many:,} tokens, the first {len(read):,} are read, as for each answer (max_length)."
    ]


def remarks(model: Any) -> list[str]:
    """Return what must be said of any picture of this model's network."""
    if getattr(model, "bits", None):
        return [
            f"The weights are rounded to {model.bits} bits, and what is shown was computed with these."
        ]
    return []
