"""Texts that came in and a reference for them, measured with a model of any task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom import tasks

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


def in_words(example: Any) -> str:
    """Return an example as one text: both of a pair, or the words of a sentence."""
    return example if isinstance(example, str) else " ".join(map(str, example))


def unknown_words(model: Any, texts: list[Any]) -> dict[str, Any]:
    """Count the tokens of each text that the tokenizer of a model does not know, if it may lack some."""
    import numpy as np

    tokenizer = next(iter(model.tokenizers.values()), None)
    if tokenizer is None or not tokenizer.has_oov:
        return {}
    ids = [tokenizer.encode(in_words(text)) for text in texts]
    counts = [(float(np.count_nonzero(one == tokenizer.unk_id)), float(len(one))) for one in ids]
    return {"unknown words": np.array(counts).reshape(-1, 2)}
