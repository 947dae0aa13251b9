"""The vectors of the words of a sentence at each layer of any network, and a network of the same shape
with random weights beside which they are judged.

A word that is several tokens has the vector of its last one: the only one at which a network that reads from
left to right has read the whole word.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.errors import ConfigError
from seqloom.models.network.network import require_torch
from seqloom.runtime.readers import read_sources

EMBEDDING = "embedding"  # the layer before the first: vectors of tokens, without their neighbours
MARKS = 3  # marks before a text that are looked for


def word_layers(model: Any, words: Sequence[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return which of the words have a vector, by number, and by layer the vectors (W, D) of these.

    Words beyond what a network reads at a time have none, nor have those that its tokenizer leaves out.
    """
    chosen, steps, layers = _steps(model, list(words))
    return chosen, {name: array[steps] for name, array in layers.items()}


def _steps(model: Any, words: list[str]) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return the numbers of words, the step at which each ends, and the layers of all steps."""
    if model.task == "tagger":
        encoded, _ = model.steps_of(words)
        examples = encoded.examples()
        layers = {EMBEDDING: model.runtime().read(examples)}
        layers |= _outputs(model.trace(words, "*.out").arrays)
        steps = np.arange(len(layers[EMBEDDING]))
        if examples.word_steps is not None:  # of a published encoder, which reads parts of words
            steps = np.asarray(examples.word_steps)
        return np.arange(len(steps)), steps, layers
    text = " ".join(words)
    if model.task == "translator":
        traced = model.trace(text, "encoder*.out", target="")
        located = model.tokenizers["source"].locate(text)
        names = list(map(model.tokenizers["source"].token, located.ids.tolist()))
    else:
        traced = model.trace(text, "*.out")
        located = model.tokenizer.locate(text)
        names = list(map(model.tokenizer.token, located.ids.tolist()))
    first = _marks_before(model, traced.tokens, names)
    layers = {EMBEDDING: _embedded(model, text, located.ids, first)} | _outputs(traced.arrays)
    n_steps = min(map(len, layers.values()))
    ends = np.cumsum([len(word) + 1 for word in words]) - 1  # after its last character
    begins = ends - [len(word) for word in words]
    # the last token that begins before the word ends; it must reach into the word
    last = np.searchsorted(located.starts, ends, side="left") - 1
    there = (last >= 0) & (last + first < n_steps)
    there[there] &= located.stops[last[there]] > begins[there]
    chosen = np.flatnonzero(there)
    return chosen, last[chosen] + first, layers


def _outputs(arrays: Any) -> dict[str, np.ndarray]:
    """Return the output of each layer by the layer's name, without those that have no step a token."""
    return {
        name.removesuffix(".out"): array
        for name, array in arrays.items()
        if not name.startswith("sentences.")
    }


def _marks_before(model: Any, tokens: list[str], names: list[str]) -> int:
    """Return the number of marks that a network reads before the first token of a text."""
    if model.task == "classifier":  # whose steps may be called otherwise
        return 1 if model.published is not None else 0
    for first in range(MARKS):
        if tokens[first : first + len(names)] == names[: len(tokens) - first]:
            return first
    raise ConfigError(f"the steps of {model.label()} are not the tokens of the text")


def _embedded(model: Any, text: str, ids: np.ndarray, first: int) -> np.ndarray:
    """Return the vectors (T, D) of the tokens of a text as the first layer gets them; of Transformers
    without their positions, and zeros for the `first` marks before the text.
    """
    network = model.runtime()
    if model.task == "translator":
        examples = model.encode_sources([text]).examples()
        return read_sources(network.reader, network.embedding, examples)
    if model.task == "classifier":
        return np.asarray(network.read(model.encode([text]).examples()))
    table = getattr(network, "encoder", network).embedding
    rows = np.asarray(table[ids], np.float32)
    return np.concatenate([np.zeros((first, rows.shape[1]), np.float32), rows])


def untrained(model: Any, seed: int = 0) -> Any:
    """Return a model of the same shape and vocabulary with random weights, as before training."""
    require_torch(model.name)
    import torch

    other = copy.copy(model)
    other.learnt = {name: value for name, value in model.learnt.items() if name != "bits"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = other.build_fitted()
    with torch.no_grad():
        for (
            name,
            buffer,
        ) in module.named_buffers():  # what is no weight stays: ranks, scales of numbers
            if name in model.weights:
                buffer.copy_(torch.from_numpy(np.array(model.weights[name])))
    other.net.keep(module.eval())
    return other
