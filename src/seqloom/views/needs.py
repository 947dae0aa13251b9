"""Which models have a view: each function tells it of one fitted model, by its contract or by its network."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

# By what the weights of networks are called: where recurrent layers are, besides those that spell words.
PARTS = {
    "recurrent": tuple(
        f"{place}layers.0.w_x"
        for place in ("recurrent.", "encoder.stack.", "sentences.encoder.stack.", "decoder.")
    ),
    "attention": ("*attention.qkv.weight",),
}


def anything(model: Any) -> bool:
    """Tell that every model has it."""
    return True


def language_model(model: Any) -> bool:
    """Tell whether it is a language model."""
    from seqloom.contracts import LanguageModel

    return isinstance(model, LanguageModel)


def recurrent(model: Any) -> bool:
    """Tell whether it has recurrent layers, beside those that may spell its words."""
    return any(has_weights(model, pattern) for pattern in PARTS["recurrent"])


def parts_of_weights(names: Iterable[str]) -> list[str]:
    """Return of which parts a network is whose weights have these names.

    >>> parts_of_weights(["recurrent.layers.0.w_x", "output.bias"])
    ['recurrent']
    """
    known = list(names)
    return [
        part
        for part, patterns in PARTS.items()
        if any(fnmatchcase(name, pattern) for name in known for pattern in patterns)
    ]


def members(model: Any) -> bool:
    """Tell whether it is a mixture of language models."""
    from seqloom.models.language.mixture import Mixture

    return isinstance(model, Mixture)


def ngrams(model: Any) -> bool:
    """Tell whether it is a back-off model of n-grams."""
    from seqloom.models.language.ngram import NGram

    return isinstance(model, NGram)


def hidden_states(model: Any) -> bool:
    """Tell whether it is a hidden Markov model, of language or of tags."""
    from seqloom.models.language.hmm import HMM
    from seqloom.models.tagging.hmm_tagger import HMMTagger

    return isinstance(model, (HMM, HMMTagger))


def explained(model: Any) -> bool:
    """Tell whether what it read can be asked what it added to an answer."""
    from seqloom.models import explaining

    if getattr(model, "reads_numbers", False):
        return False
    if model.task == "classifier":
        return model.name != "majority" and len(model.classes) > 1
    if model.task == "tagger":
        return bool(explaining.methods_of_tagger(model))
    if model.task == "translator":
        return bool(explaining.methods_of_translator(model))
    return model.task == "answerer" and hasattr(model, "window_scores")


def recurrence(model: Any) -> bool:
    """Tell whether it has recurrent layers that can be traced along a text."""
    return hasattr(model, "trace") and recurrent(model)


def recurrent_language_model(model: Any) -> bool:
    """Tell whether it is a language model with recurrent layers."""
    return language_model(model) and recurrent_network(model)


def loss_by_position(model: Any) -> bool:
    """Tell whether the loss of a network that reads step by step can be differentiated by each of them."""
    if not network(model):
        return False
    if model.task == "language model":
        return hasattr(model, "layers") and hasattr(model.layers, "read_traced")
    if model.task == "classifier":
        return hasattr(model, "steps_of") and len(model.classes) > 1
    return model.task in ("tagger", "translator", "forecaster")


def gated_language_model(model: Any) -> bool:
    """Tell whether it is a language model with recurrent layers that have gates."""
    if not recurrent_language_model(model):
        return False
    shape = model.fitted_shapes().get("recurrent.layers.0.w_h")  # a cell may have none
    return shape is not None and bool(shape[0] > shape[1])


def recurrent_network(model: Any) -> bool:
    """Tell whether a language model's network is a stack of recurrent cells, whatever cell they are."""
    return has_weights(model, "recurrent.layers.*")


def attention(model: Any) -> bool:
    """Tell whether steps attend to each other, or those of a target to a source."""
    return hasattr(model, "trace") and (
        has_weights(model, PARTS["attention"][0])
        or getattr(model.config, "attention", "none") != "none"
    )


def heads_and_data(model: Any) -> bool:
    """Tell whether it has heads of attention that can be removed, and is measured on data."""
    tasks = (
        "language model",
        "masked language model",
        "classifier",
        "tagger",
        "answerer",
        "translator",
    )
    return (
        model.task in tasks
        and not getattr(model, "reads_numbers", False)
        and (has_weights(model, "*attention.out.weight") or has_weights(model, "*cross.out.weight"))
    )


def heads_and_text(model: Any) -> bool:
    """Tell whether its heads can be removed and one text says what that costs."""
    return heads_and_data(model) and model.task != "answerer"


def word_layers(model: Any) -> bool:
    """Tell whether it is a network that has vectors of the words of a text at each layer."""
    if getattr(model, "reads_numbers", False) or not hasattr(model, "trace"):
        return False
    if model.task == "language model":
        return hasattr(model.layers, "read_traced")
    return model.task not in ("answerer", "forecaster")


def network(model: Any) -> bool:
    """Tell whether it is a network, with weights by name."""
    return hasattr(model, "declared")


def has_weights(model: Any, pattern: str) -> bool:
    """Tell whether a network has weights with such a name, without loading them."""
    return hasattr(model, "declared") and any(
        fnmatchcase(name, pattern) for name in model.fitted_shapes()
    )
