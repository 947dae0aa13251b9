"""Every part of a network for one text: the shape of what it computes, its weights, and its multiplications.

A part is what has weights of its own, by their name (`blocks.0.mlp.up`), and besides the weights of
attention, which have none. Multiplications are those of products of matrices and vectors; what is multiplied
element by element (gates, norms, scales) is not counted, and a row that is looked up is no product. In
attention that sees only what was before, and no further back than its window, only these pairs count.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from seqloom.traces import Trace, Traced, by_text

FLOAT = 4  # bytes of a number of a result


class Part(NamedTuple):
    """A part of a network, and what it does with one text."""

    name: str
    output: tuple[int, ...]  # the shape of its result, without an axis for the batch
    parameters: int
    multiplications: int
    bytes: int  # of the weights, as they are saved
    output_bytes: int


class Counts(NamedTuple):
    """How many rows the parts of a network work on."""

    steps: int  # of a text, a source or a window of numbers
    targets: int = 0  # steps of a decoder
    heads: int = 1  # vectors that the last layer reads
    rows: int = 1  # sentences or windows that a text is read in
    characters: int = 0  # of the spellings of words
    decoder: int = 0  # steps of a decoder's layers, which may also read the source


def trace_window(model: Any) -> Traced:
    """Return what a forecaster computes of one window, which has always the same size."""
    network, trace = model.runtime(), Trace()
    values = np.zeros((1, network.window, network.n_columns), np.float32)
    known = np.zeros((1, network.window + network.horizon, network.n_known), np.float32)
    network(values, known if network.n_known else None, np.zeros_like(values), trace)
    return Traced(list(map(str, range(network.steps))), by_text(trace))


def parts_of(model: Any, example: Any, traced: Traced) -> list[Part]:
    """Return the parts of a model's network in the order in which they are declared; `traced`: what the
    network computed while it read the example, layers and attention.
    """
    declared, arrays = model.declared(), dict(traced.arrays)
    counts = _counts(model, example, traced)
    saved = {name: array.nbytes for name, array in model.net.arrays().items()}
    groups: dict[str, list[str]] = {}
    for name in declared:
        groups.setdefault(name.rpartition(".")[0] or name, []).append(name)
    parts: list[Part] = []
    for group, names in groups.items():
        shapes = {name: declared[name].shape for name in names}
        products = 0
        output: tuple[int, ...] = ()
        for name, shape in shapes.items():
            role = declared[name].role
            rows = _rows(model, name, counts) * _times(name, declared, arrays)
            if role in ("matrix", "output") and not name.endswith("relative.weight"):
                products += _product(name, shape, rows, counts)
                output = output or (_rows(model, name, counts), shape[0])
            elif role == "table" or name.endswith("position.weight"):
                output = (rows, shape[1])
        state = f"{group}.h"
        if state in arrays:
            output = arrays[state].shape
        elif not output:
            output = (_rows(model, names[0], counts), max(s[-1] for s in shapes.values()))
        held = sum(
            size
            for name, size in saved.items()
            if any(name == n or name.startswith(f"{n}.") for n in names)
        )
        parameters = sum(math.prod(shape) for shape in shapes.values())
        parts += _attention(model, group, declared, arrays, counts)
        parts.append(Part(group, output, parameters, products, held, FLOAT * math.prod(output)))
    return _with_tied_output(parts, model, declared, counts)


def _counts(model: Any, example: Any, traced: Traced) -> Counts:
    steps, targets = len(traced.tokens), len(traced.targets)
    if model.task == "translator":
        encoded = model.encode_sources([example[0] if isinstance(example, tuple) else example])
        read = targets + (steps if model.runtime().encoder is None else 0)
        return Counts(steps, targets, targets, 1, _characters(encoded), read)
    if model.task in ("classifier", "tagger", "answerer"):
        encoded, _ = model.steps_of(example)
        examples = encoded.examples()
        rows = int(examples.first_row[-1])
        words = steps if examples.word_steps is None else len(examples.word_steps)
        return Counts(
            steps, 0, words if model.task == "tagger" else steps, rows, _characters(encoded)
        )
    return Counts(steps, 0, steps)


def _characters(encoded: Any) -> int:
    """Return the number of characters of the spellings that are read."""
    spellings = encoded.examples().spellings
    return 0 if spellings is None else int(spellings.lengths.sum())


def _rows(model: Any, name: str, counts: Counts) -> int:
    """Return how many vectors the part with these weights reads."""
    if ".characters." in name:
        return counts.characters
    if "pooler." in name:  # kept for other programs; no model here reads it
        return 0
    if model.task == "translator":
        return _rows_of_translator(name, counts)
    if model.task == "forecaster":
        once = {"ahead": model.runtime().horizon, "head": 1, "highway": model.runtime().n_columns}
        return once.get(name.split(".")[0], counts.steps)
    if name.startswith("sentences.encoder"):
        return counts.rows
    if name.startswith("output.") and model.task in ("classifier", "tagger", "answerer"):
        by_sentence = (
            model.task == "classifier" and getattr(model.config, "long", "") == "sentences"
        )
        if ".pooling." in name:
            return counts.rows if by_sentence else counts.steps
        if model.task == "classifier":
            return 1 if by_sentence else counts.rows
        return counts.heads
    return counts.steps


def _rows_of_translator(name: str, counts: Counts) -> int:
    first = name.split(".")[0]
    if first == "decoder" and ".attention." not in name:
        return counts.decoder
    if first in ("reader", "encoder", "encoder_entrance", "encoder_norm", "input", "narrow"):
        return counts.steps
    if first in ("initial", "summary"):
        return 1
    return counts.steps if name.startswith("attention.key") else counts.targets


def _times(name: str, declared: Any, arrays: Any) -> int:
    """Return how often a block is used: more than once where all layers share one."""
    before, middle, _ = name.rpartition("blocks.0.")
    if not middle or f"{before}blocks.1.norm1.weight" in declared:
        return 1
    return max(sum(n.startswith(f"{before}blocks.") and n.endswith(".out") for n in arrays), 1)


def _product(name: str, shape: tuple[int, ...], rows: int, counts: Counts) -> int:
    """Return the multiplications of rows with a matrix."""
    size = math.prod(shape)
    if name.endswith("cross.qkv.weight"):  # queries of the target, keys and values of the source
        queries = shape[0] // 3
        return shape[1] * (queries * counts.targets + (shape[0] - queries) * counts.steps)
    return size * rows


def _attention(model: Any, group: str, declared: Any, arrays: Any, counts: Counts) -> list[Part]:
    """Return the weights of the attention that ends with this group, as a part of their own."""
    parts = []
    if group.endswith((".attention.out", ".cross.out")):
        width = declared[f"{group}.weight"].shape[1]  # of all heads together
        own = group.removesuffix(".out")
        relative = f"{own}.relative.weight" in declared
        layers = [f"{own}.weights"]
        if _times(f"{group}.weight", declared, arrays) > 1:
            before, _, after = own.partition("blocks.0.")
            layers = [
                f"{before}blocks.{i}.{after}.weights"
                for i in range(_times(f"{group}.weight", declared, arrays))
            ]
        for name in layers:
            heads, queries, keys = arrays[name].shape
            pairs = queries * keys
            if own.endswith(".attention") and (
                own.startswith("decoder") or model.task == "language model"
            ):
                window = getattr(model.config, "window", None) or keys
                pairs = sum(min(t, window) for t in range(1, queries + 1))
            products = (3 if relative else 2) * pairs * width
            parts.append(
                Part(name, (heads, queries, keys), 0, products, 0, FLOAT * heads * queries * keys)
            )
    elif group == "readout" and "cross.weights" in arrays:  # of a recurrent decoder
        _, queries, keys = arrays["cross.weights"].shape
        d_hidden = arrays[
            next(n for n in reversed(arrays) if n.startswith("decoder") and n.endswith(".h"))
        ].shape[1]
        d_memory = declared["readout.weight"].shape[1] - d_hidden
        pairs = queries * keys
        products = pairs * (d_hidden + d_memory)
        parts.append(
            Part("cross.weights", (1, queries, keys), 0, products, 0, FLOAT * queries * keys)
        )
    return parts


def _with_tied_output(parts: list[Part], model: Any, declared: Any, counts: Counts) -> list[Part]:
    """Return the parts with the output layer, also where its matrix is that of the token vectors."""
    head = "head." if model.task == "masked language model" else ""
    written = model.task in ("language model", "translator", "masked language model")
    own = any(
        name.startswith(f"{head}output.") and declared[name].role == "output" for name in declared
    )
    if own or not written or (head and "head.dense.weight" not in declared):
        return parts
    vocab, width = declared["embedding.weight"].shape
    rows, name = counts.heads, f"{head}output"
    bias = next((part for part in parts if part.name == name), None)
    whole = Part(
        f"{name} (with the matrix of the embedding)",
        (rows, vocab),
        0 if bias is None else bias.parameters,
        rows * vocab * width,
        0 if bias is None else bias.bytes,
        FLOAT * rows * vocab,
    )
    return [part for part in parts if part is not bias] + [whole]
