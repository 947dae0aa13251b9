"""Texts that came in and a reference for them, measured with a model of any task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom import tasks
from seqloom.tasks.task import in_words

if TYPE_CHECKING:
    from seqloom.metrics.reference import Reference, Sample


def sample_of(model: Any, texts: list[Any]) -> Sample:
    """Measure texts with a model; none of them is blank."""
    from seqloom.metrics.reference import measured

    columns, labels = tasks.of(model).observe(model, texts)
    return measured([in_words(text) for text in texts], columns, labels)


def reference_of(model: Any, data: Any, name: str) -> Reference:
    """Measure held-out data of a model's task as a reference: part of it to compare with, the words
    of the rest as known.
    """
    from seqloom.metrics.reference import Reference, divided, known_words

    texts = [text for text in tasks.of(model).examples(data) if in_words(text).strip()]
    kept, rest = divided(len(texts))
    return Reference(
        sample_of(model, [texts[i] for i in kept]),
        known_words([in_words(texts[i]) for i in rest]),
        len(texts),
        name,
    )
