"""The gradient of a model's loss by what it reads and by what its layers make of that, at each position.

A change is added to the vectors of the tokens, to the states of recurrent cells after each step, and to what
each block of a Transformer puts out; it is zero, and the loss is differentiated by it. The loss is that of
what comes true (the tokens of a text, the end of a series), or of the model's own answer (its label, tags or
translation), in double precision.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.batching import there
from seqloom.contracts.transforming import tokens_before
from seqloom.errors import DataError
from seqloom.models.network.flow_net import LayerFlow, Walk, follow
from seqloom.models.network.tracing import names_of_source
from seqloom.nn.recurrent import RecurrentStack
from seqloom.nn.transformer import Block

MOST_STEPS = 512  # of a text, from its beginning
INPUT = "input"  # the name of the vectors that are read
IMPOSSIBLE = -1e30
APART = ("decoder", "reader")  # parts whose steps are not those that are read


class Loss(NamedTuple):
    """What is differentiated: the nats (or squared errors) of all predictions, and the last one of them."""

    each: Tensor  # (n,)
    last: Tensor


class Problem(NamedTuple):
    """A model in double precision in front of one example."""

    tokens: list[str]  # what is read
    inputs: nn.Module  # whose first result are the vectors (rows, T, D) of these
    loss: Callable[[], Loss]
    answer: str  # what the last prediction is of
    lengths: np.ndarray  # (rows,)
    remarks: tuple[str, ...] = ()  # on what is left out


@dataclass
class LossGradients:
    """Gradients by position of all parts, in the order in which they are computed."""

    tokens: list[str]
    losses: np.ndarray  # (n,) of the predictions, in nats or squared errors
    answer: str
    whole: Mapping[str, np.ndarray]  # (T, S) by part: of the sum of the losses
    last: Mapping[str, np.ndarray]  # of the last one
    flows: list[LayerFlow]  # of recurrent layers that read one row
    remarks: tuple[str, ...]


def loss_gradients(model: Any, example: Any) -> LossGradients:
    """Let a model read an example, and differentiate its loss."""
    network = copy.deepcopy(model.network()).double().requires_grad_(False).eval()
    read = PROBLEMS[model.task](model, network.cpu(), example)
    if not read.tokens:
        raise DataError("the text is empty; give one, or a file that has one")
    parts, walks = _changes(network, read)
    found = read.loss()
    changes = {name: change for name, change in parts.items() if change.numel()}
    changes |= {walk.name: walk.change for walk in walks()}
    whole, last = (
        torch.autograd.grad(loss, list(changes.values()), retain_graph=True, allow_unused=True)
        for loss in (found.each.sum(), found.last)
    )
    return LossGradients(
        read.tokens,
        found.each.detach().numpy(),
        read.answer,
        _by_position(changes, whole, read.lengths),
        _by_position(changes, last, read.lengths),
        [walk.flow() for walk in walks()],
        read.remarks,
    )


def _changes(
    network: nn.Module, read: Problem
) -> tuple[dict[str, Tensor], Callable[[], list[Walk]]]:
    """Add changes to what the parts of a network put out when they next do; return them, filled when it
    has been run, and a function that returns the walks of its recurrent layers.
    """
    parts, stacks = {INPUT: torch.zeros(0)}, []

    def hook(name: str) -> Callable[..., Any]:
        def add(module: nn.Module, inputs: Any, output: Any) -> Any:
            if parts[name].numel():  # of a second text, such as a target
                return output
            vectors = output[0] if isinstance(output, tuple) else output
            change = torch.zeros_like(vectors, requires_grad=True)
            parts[name] = change
            return (
                (vectors + change, *output[1:]) if isinstance(output, tuple) else vectors + change
            )

        return add

    read.inputs.register_forward_hook(hook(INPUT))
    for name, module in network.named_modules():
        reads = (
            name == "decoder" and getattr(network, "encoder", APART) is None
        )  # the source itself
        if name.split(".")[0] in APART and not reads:
            continue
        if isinstance(module, RecurrentStack):
            stacks.append(follow(module, "encoder" if reads else name))
        elif isinstance(module, Block):
            parts[name] = torch.zeros(0)
            module.register_forward_hook(hook(name))
    return parts, lambda: [walk for stack in stacks for walk in _once(stack)]


def _once(walks: list[Walk]) -> list[Walk]:
    """Return the walks of the first time that a stack read."""
    first: dict[str, Walk] = {}
    for walk in walks:
        first.setdefault(walk.name, walk)
    return list(first.values())


def _by_position(
    changes: Mapping[str, Tensor], gradients: tuple[Tensor | None, ...], lengths: np.ndarray
) -> dict[str, np.ndarray]:
    """Return gradients as (T, S), the steps of all rows one after the other, in the order of the text."""
    found = {}
    for (name, change), gradient in zip(changes.items(), gradients):
        array = (torch.zeros_like(change) if gradient is None else gradient).numpy()
        if array.ndim == 3:
            array = array[there(lengths, array.shape[1])]
        found[name] = array[::-1] if name.endswith(".reverse") else array
    return found


# ---- what a model of each task predicts


def _of_text(model: Any, network: Any, text: str) -> Problem:
    encoded, lengths = model.encode(text)
    ids = np.asarray(encoded, np.int64)
    if not len(ids):
        raise DataError("the text is empty; give one, or a file that has one")
    inputs, most, said = tokens_before(model, ids), MOST_STEPS, list[str]()
    if not model.carry and len(lengths) > 1:
        chosen = int(np.argmax(lengths))
        low = int(np.sum(lengths[:chosen]))
        ids, inputs = (array[low : low + int(lengths[chosen])] for array in (ids, inputs))
        said.append(
            f"Of {len(lengths):,} units the longest is shown; the state does not cross them."
        )
    most = min(most, getattr(model.config, "context", None) or most)
    if len(ids) > most:
        said.append(f"Of {len(ids):,} tokens the first {most:,} are shown.")
    inputs, ids = inputs[:most], ids[:most]

    def loss() -> Loss:
        features = network(torch.from_numpy(inputs)[None])[0][0]  # (T, D)
        nats = _nats(network.output.log_probs(features), ids)
        return Loss(nats, nats[-1])

    names = [model.tokenizer.token(token) for token in inputs.tolist()]
    last = model.tokenizer.token(int(ids[-1]))
    return Problem(names, network.embedding, loss, last, np.array([len(names)]), tuple(said))


def _nats(log_probs: Tensor, answers: np.ndarray) -> Tensor:
    return -log_probs.gather(1, torch.from_numpy(answers.astype(np.int64))[:, None])[:, 0]


def _of_label(model: Any, network: Any, example: Any) -> Problem:
    encoded, names = model.steps_of(example)
    batch = _batch(encoded)

    def loss() -> Loss:
        scores = model.example_scores(network(batch), batch)[:1]
        if network.output.several:
            signs = scores.detach().sign()
            nats = -nn.functional.logsigmoid(signs * scores)[0]
        else:
            nats = -torch.log_softmax(scores, 1).amax(1)
        return Loss(nats, nats.sum())

    with torch.no_grad():
        scores = model.example_scores(network(batch), batch)[0].numpy()
    several = network.output.several
    chosen = [str(model.classes[i]) for i in np.flatnonzero(scores > 0)] if several else []
    label = ", ".join(chosen) or "none" if several else str(model.classes[int(scores.argmax())])
    return Problem(names, network.reader, loss, label, batch["lengths"].numpy())


def _of_tags(model: Any, network: Any, example: Any) -> Problem:
    (words,), _ = model.sequences(example)
    said = [f"Of {len(words):,} words the first {MOST_STEPS:,} are shown."]
    said = said if len(words) > MOST_STEPS else []
    encoded, names = model.steps_of(words[:MOST_STEPS])
    if not names:
        raise DataError("the sentence has no words; give one")
    batch, field = _batch(encoded), network.output.crf
    lengths = batch.get("word_counts", batch["lengths"])
    with torch.no_grad():
        tags = network.output.decode(network(batch), lengths)[0][: int(lengths[0])]

    def loss() -> Loss:
        scores = network(batch)  # (1, W, K)
        if field is None:
            nats = _nats(torch.log_softmax(scores[0], 1), tags)
            return Loss(nats, nats[-1])
        right = torch.zeros_like(scores, dtype=torch.bool)
        right[0, torch.arange(len(tags)), torch.from_numpy(tags.astype(np.int64))] = True
        last = right.clone()
        last[0, :-1] = True
        total = field.log_partitions(scores, lengths)
        whole, end = (
            total - field.log_partitions(scores.masked_fill(~only, IMPOSSIBLE), lengths)
            for only in (right, last)
        )
        return Loss(whole, end[0])

    last = str(list(model.tags)[int(tags[-1])])
    return Problem(names, network.reader, loss, last, batch["lengths"].numpy(), tuple(said))


def _of_translation(model: Any, network: Any, example: Any) -> Problem:
    source, target = example if isinstance(example, tuple) else (example, None)
    target = model.translate(source) if target is None else target
    tokenizer, encoded = model.target_tokenizer, model.encode_sources([source])
    model.check_lengths(encoded, "source")
    ids = np.array([*tokenizer.encode(target), tokenizer.eos_id], np.int64)
    before = torch.tensor([[*model.start_ids, *ids[:-1].tolist()]])
    batch = _batch(encoded)

    def loss() -> Loss:
        features = network.features(network.encode(batch), before)[0]
        nats = _nats(network.output.log_probs(features[-len(ids) :]), ids)
        return Loss(nats, nats[-1])

    names = names_of_source(model, encoded)
    inputs = network.embedding if network.reader is None else network.reader
    return Problem(names, inputs, loss, tokenizer.token(int(ids[-1])), batch["lengths"].numpy())


def _of_series(model: Any, network: Any, example: Any) -> Problem:
    arrays, truth, names = model.last_window(example, before=model.horizon)
    values, known, absent = (torch.from_numpy(array).double() for array in arrays)
    after = torch.from_numpy(truth)

    def loss() -> Loss:
        expected = network(
            values,
            known if network.n_known else None,
            absent if network.missing else None,
        )[0, :, :, 0]
        errors = (expected - after)[after.isfinite()] ** 2
        if not len(errors):
            raise DataError("the end of the series has no values to compare a forecast with")
        return Loss(errors, errors[-1])

    return Problem(names, network.reader, loss, "last step", np.array([len(names)]))


def _batch(encoded: Any) -> dict[str, Tensor]:
    arrays = {name: torch.from_numpy(array) for name, array in encoded.batch(np.arange(1)).items()}
    return {
        name: array.double() if array.is_floating_point() else array
        for name, array in arrays.items()
    }


PROBLEMS: dict[str, Callable[[Any, Any, Any], Problem]] = {
    "language model": _of_text,
    "classifier": _of_label,
    "tagger": _of_tags,
    "translator": _of_translation,
    "forecaster": _of_series,
}
