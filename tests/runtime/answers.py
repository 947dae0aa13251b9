"""What a network says without torch, and what torch's says: pairs of arrays, for every kind of model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqloom.models.masked.inputs import Input, pad_together, read_inputs
from seqloom.models.translation.pairs import Decoder
from seqloom.traces import Trace
from tests.runtime.networks import WORDS

Pairs = Iterator[tuple[str, np.ndarray, np.ndarray]]  # what it is, without torch, with torch

SOURCES = ["abcde", "q", "", "deadbeefcab7", "bb"]
TEXTS = [
    "good fun",
    "",
    "dull and long. Very dull, so long. Ada met Bob",
    "seldom seen fun Xylo",
    "so",
]
SENTENCES = [["Ada", "met", "Bob", "unseen"], [], ["fun"], [*WORDS, "seldom", "Bob"] * 2]
LENGTHS = (4, 1, 0, 9, 2)


def draw(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def numbers(columns: int, gaps: bool) -> list[np.ndarray]:
    """Examples of unequal lengths, one of them empty, with some values missing."""
    made = [draw(length, columns, seed=length) for length in LENGTHS]
    if gaps:
        made[0][1, 0] = made[3][4:6] = np.nan
    return made


def tensors(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def flat(padded: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Rows (B, T, ...) one after the other, without what is padded."""
    return np.concatenate([row[:length] for row, length in zip(padded, lengths.tolist())])


# ---- language models


def draw_ids(model: Any, rows: int, steps: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, model.tokenizer.vocab_size, (rows, steps))


def through(stepper: Any, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities before every token and after the last, (n, T + 1, V), and the features of each."""
    state, log_probs = stepper.start(len(ids))
    out, features = [log_probs], [stepper.features(state)]
    for t in range(ids.shape[1]):
        state, log_probs = stepper.step(state, ids[:, t])
        out.append(log_probs)
        features.append(stepper.features(state))
    return np.stack(out, 1), np.stack(features, 1)


def whole_text(model: Any, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by torch, from its network over whole rows; of gpt by its definition, a window for
    each token.
    """
    network = model.network()
    with torch.inference_mode():
        features = (
            _windowed(model, network, ids)
            if model.name == "gpt"
            else network(torch.from_numpy(_begun(model, ids)))[0]
        )
        log_probs = network.output.log_probs(features.flatten(0, 1)).unflatten(
            0, features.shape[:2]
        )
    return log_probs.numpy(), features.numpy()


def _begun(model: Any, ids: np.ndarray) -> np.ndarray:
    before = model.config.order - 1 if model.name == "nplm" else 1
    return np.concatenate([np.full((len(ids), before), model.tokenizer.eos_id), ids], 1)


def _windowed(model: Any, network: Any, ids: np.ndarray) -> Tensor:
    alone = model.learnt.get("start_alone", False)
    context, steps = model.config.context, ids.shape[1] + 1
    start = np.full((len(ids), 1), model.start_id)
    read = ids if alone else np.concatenate([start, ids], 1)
    found: list[Tensor] = []
    begin = 0
    for t in range(steps):
        end = t if alone else t + 1
        while end - begin > context:
            begin += -(-context // 2)
        if end == begin:
            found.append(network(torch.from_numpy(start))[0][:, -1])
        elif t + 1 == steps or end - begin == context:  # the last of this window, or of all
            known = network(torch.from_numpy(read[:, begin:end]))[0]
            found += known.unbind(1)[len(found) - steps + (steps - begin) - int(alone) :]
    return torch.stack(found, 1)


def language_pairs(model: Any, steps: int | None = None) -> Pairs:
    steps = steps or (70 if model.name == "gpt" else 12)
    ids, stepper = draw_ids(model, 3, steps), model.stepper()
    log_probs, features = whole_text(model, ids)
    for rows in (3, 1):
        ours, seen = through(stepper, ids[:rows])
        yield f"{rows} rows", ours, log_probs[:rows]
        yield f"features of {rows} rows", seen, features[:rows]
    if model.name != "gpt":
        return
    lengths = [3, 0, steps, steps - 4, 1]
    prompts = [ids[i % 3, :length] for i, length in enumerate(lengths)]
    expected = np.stack([log_probs[i % 3, length] for i, length in enumerate(lengths)])
    state, ours = stepper.prefill(prompts)
    yield "prompts", ours, expected
    rows = [row for row in (0, 1, 4) if lengths[row] + 5 <= steps]
    state = stepper.prefill([prompts[row] for row in rows])[0]
    more = np.stack([ids[row % 3, lengths[row] : lengths[row] + 5] for row in rows])
    states, ours = stepper.extend(state, more)
    read = len(states)
    yield (
        "several tokens",
        ours,
        np.stack([log_probs[row % 3, lengths[row] + 1 :][:read] for row in rows]),
    )
    yield (
        "their features",
        stepper.features(states[-1]),
        np.stack([features[row % 3, lengths[row] + read] for row in rows]),
    )


# ---- translators


def sources_of(model: Any) -> list[Any]:
    return numbers(model.sizes.columns, True) if model.sizes.columns else SOURCES


def translation_pairs(model: Any, steps: int = 7) -> Pairs:
    """Steps with forced targets, and what was looked at before each."""
    encoded, network = model.encode_sources(sources_of(model)), model.network()
    n, first = len(encoded), model.start_ids
    targets = np.random.default_rng(2).integers(0, model.target_tokenizer.vocab_size, (n, steps))
    inputs = np.concatenate([np.tile(first, (n, 1)), targets], 1)
    trace = Trace("*cross.weights")
    with torch.inference_mode():
        features = network.features(
            network.encode(tensors(encoded.batch(np.arange(n)))), torch.from_numpy(inputs), trace
        )
        expected = network.output.log_probs(features.flatten(0, 1)).unflatten(
            0, features.shape[:2]
        )[:, len(first) - 1 :]
    ours, attention_weights = _forced(model, encoded.examples(), targets)
    yield "log-probabilities", ours, expected.numpy()
    if trace:
        weights = torch.cat(list(trace.values()), 1).mean(1)[:, len(first) - 1 :]  # (B, T, S)
        yield "looked at", attention_weights, weights[:, :, : attention_weights.shape[2]].numpy()
        assert not weights[:, :, attention_weights.shape[2] :].any()
    for i in (0, 2):
        alone, _ = _forced(model, encoded.examples(i, i + 1), targets[i : i + 1])
        yield f"source {i} alone", alone, expected.numpy()[i : i + 1]


def _forced(model: Any, sources: Any, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    decoder = Decoder(
        model.runtime(), sources, model.target_tokenizer.eos_id, start=model.start_ids
    )
    state, log_probs = decoder.start(len(targets))
    found, attention_weights = [log_probs], [state.attention_weights]
    for t in range(targets.shape[1]):
        state, log_probs = decoder.step(state, targets[:, t])
        found.append(log_probs)
        attention_weights.append(state.attention_weights)
    return np.stack(found, 1), np.stack(attention_weights, 1)


# ---- encoders


def draw_inputs(model: Any) -> list[Input]:
    """Texts and pairs of unequal lengths, marks included, one longer than a page of keys."""
    rng, marks, size = np.random.default_rng(3), model.marks, model.tokenizer.vocab_size
    texts = [(4,), (0,), (70,), (1,), (3, 5), (9, 1)]
    return [
        marks.join([rng.integers(5, size, length) for length in row], model.config.n_types)
        for row in texts
    ]


def encoder_pairs(model: Any) -> Pairs:
    inputs, network = draw_inputs(model), model.network()
    ids, types, keep = pad_together(inputs, model.marks.pad)
    assert keep is not None
    ours = model.runtime()
    vectors, offsets = read_inputs(getattr(ours, "encoder", ours), inputs)
    lengths = np.diff(offsets)
    with torch.inference_mode():
        hidden = network(*map(torch.from_numpy, (ids, types, keep)))
        yield "vectors", vectors, flat(hidden.numpy(), lengths)
        if getattr(ours, "head", None) is not None:
            guessed = torch.log_softmax(network.logits(hidden), -1)
            yield "guesses", ours.head.log_probs(vectors), flat(guessed.numpy(), lengths)
    alone, _ = read_inputs(getattr(ours, "encoder", ours), inputs[3:4])
    yield "one text", alone, hidden.numpy()[3, : len(alone)]


# ---- reader, encoder and head


def encode_examples(model: Any) -> Any:
    if model.name == "tagger":
        return model._encode(SENTENCES)
    if model.name == "answerer":
        return model._encode([(text, 3 * TEXTS[2]) for text in TEXTS]).encoded
    return model.encode(numbers(3, model.sizes.missing) if model.sizes.columns else TEXTS)


def composed_pairs(model: Any) -> Pairs:
    encoded, network, ours = encode_examples(model), model.network(), model.runtime()
    batch = encoded.batch(np.arange(len(encoded)))
    with torch.inference_mode():
        expected = network(tensors(batch)).numpy()
    if model.name == "tagger":
        expected = flat(expected, batch["word_counts" if "word_counts" in batch else "lengths"])
    if model.name == "answerer":
        expected = flat(expected, batch["lengths"])
    yield "all examples", ours(encoded.examples()), expected
    parts = [ours(encoded.examples(i, i + 1)) for i in range(len(encoded))]
    yield "one by one", np.concatenate(parts), expected


# ---- forecasters


def forecaster_inputs(model: Any, n: int = 4) -> list[np.ndarray]:
    net = model.runtime()
    values = draw(n, net.window, net.n_columns) + 2
    absent = (draw(n, net.window, net.n_columns, seed=2) > 1).astype(np.float32)
    return [values, draw(n, net.window + net.horizon, net.n_known, seed=3), absent]


def forecaster_pairs(model: Any) -> Pairs:
    arrays = forecaster_inputs(model)
    with torch.inference_mode():
        expected = model.network()(*map(torch.from_numpy, arrays)).numpy()
    yield "all windows", model.runtime()(*arrays), expected
    yield "one window", model.runtime()(*(array[2:3] for array in arrays)), expected[2:3]


def pairs(model: Any) -> Pairs:
    """All of them for a model of any kind."""
    if model.task == "language model":
        return language_pairs(model)
    if model.task == "translator":
        return translation_pairs(model)
    if model.task == "forecaster":
        return forecaster_pairs(model)
    return (
        encoder_pairs(model)
        if model.name in ("bert", "sentence-encoder")
        else composed_pairs(model)
    )


# ---- traces: torch's arrays are (B, T, ...), weights of attention (B, heads, T, S); those without
# torch (N, ...),
# (N, heads, S)


def rows_first(name: str, traced: Tensor) -> np.ndarray:
    """What torch traced as (B, T, ...)."""
    heads = name.endswith(("attention.weights", "cross.weights"))
    return (traced.transpose(1, 2) if heads else traced).numpy()


def flattened(name: str, traced: Tensor, lengths: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """What torch traced as it lies without torch; sources are cut to the longest that is `wanted`,
    as padding has no weight.
    """
    found = flat(rows_first(name, traced), lengths)
    if name.endswith(("attention.weights", "cross.weights")):
        assert not found[..., wanted.shape[-1] :].any()
        found = found[..., : wanted.shape[-1]]
    return found


def traced_pairs(model: Any) -> Pairs:
    """What is added to traces on the way to the answers of any model but NPLMs, which have nothing
    to show.
    """
    if model.task == "language model":
        yield from _traced_gpt(model) if model.name == "gpt" else _traced_recurrent(model)
    elif model.task == "translator":
        yield from _traced_translation(model)
    elif model.task == "forecaster":
        arrays, theirs, ours = forecaster_inputs(model), Trace(), Trace()
        with torch.inference_mode():
            model.network()(*map(torch.from_numpy, arrays), theirs)
        model.runtime()(*arrays, ours)
        steps = np.full(len(arrays[0]), model.runtime().steps)
        yield from same_names(ours, theirs, lambda name: steps)
    elif model.name in ("bert", "sentence-encoder"):
        yield from _traced_encoder(model)
    else:
        yield from _traced_composed(model)


def same_names(ours: Trace, theirs: Trace, lengths: Any) -> Pairs:
    """Two traces with the same names; `lengths` of the rows of each."""
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        yield name, ours[name], flattened(name, theirs[name], lengths(name), ours[name])


def _traced_recurrent(model: Any) -> Pairs:
    ids, theirs = draw_ids(model, 3, 6), Trace()
    with torch.inference_mode():
        model.network()(torch.from_numpy(_begun(model, ids)), None, theirs)
    stepper = model.stepper()
    state, _ = stepper.start(3)
    for t in range(ids.shape[1]):
        ours = Trace()
        state, _ = stepper.step(state, ids[:, t], ours)
        assert sorted(ours) == sorted(theirs)
        for name in ours:
            yield f"{name} at step {t}", ours[name], theirs[name][:, t + 1].numpy()


def _traced_gpt(model: Any) -> Pairs:
    ids, lengths, theirs, ours = draw_ids(model, 3, 70), np.array([9, 70, 4]), Trace(), Trace()
    with torch.inference_mode():
        model.network()(torch.from_numpy(ids), None, theirs)
    network, stepper = model.runtime(), model.stepper()
    rows = [row[:length] for row, length in zip(ids, lengths)]
    cache = network.pages.extend(network.pages.start(3), rows)
    network.features(np.concatenate(rows), cache, lengths, ours)
    yield from same_names(ours, theirs, lambda name: lengths)
    if model.learnt.get("start_alone"):
        return
    begun = np.concatenate([np.full((3, 1), model.start_id), ids[:, :6]], 1)
    with torch.inference_mode():
        model.network()(torch.from_numpy(begun), None, theirs)
    state, _ = stepper.prefill(list(ids[:, :5]))
    ours = Trace()
    stepper.step(state, ids[:, 5], ours)
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        yield f"{name} of a step", ours[name], rows_first(name, theirs[name])[:, 6]


def _traced_translation(model: Any) -> Pairs:
    encoded, network, ours = (
        model.encode_sources(sources_of(model)),
        model.network(),
        model.runtime(),
    )
    n, theirs, own = len(encoded), Trace(), Trace()
    inputs = np.random.default_rng(2).integers(0, model.target_tokenizer.vocab_size, (n, 4))
    with torch.inference_mode():
        memory = network.encode(tensors(encoded.batch(np.arange(n))), theirs)
    memory_of_ours = ours.encode(encoded.examples(), own)
    yield from same_names(own, theirs, lambda name: encoded.lengths)
    theirs = Trace()
    with torch.inference_mode():
        network.features(memory, torch.from_numpy(inputs), theirs)
    state = ours.start(memory_of_ours, n)
    for t in range(inputs.shape[1]):
        own = Trace()
        _, state = ours.step(memory_of_ours, state, inputs[:, t], own)
        assert sorted(own) == sorted(theirs)
        for name in own:
            expected = rows_first(name, theirs[name])[:, t]
            width = own[name].shape[-1]
            if name.endswith("attention.weights"):
                assert not expected[..., width:].any()
            yield f"{name} at step {t}", own[name], expected[..., :width]


def _traced_encoder(model: Any) -> Pairs:
    inputs, theirs, ours = draw_inputs(model), Trace(), Trace()
    ids, types, keep = pad_together(inputs, model.marks.pad)
    assert keep is not None
    with torch.inference_mode():
        model.network()(*map(torch.from_numpy, (ids, types, keep)), theirs)
    lengths = np.array([len(one.ids) for one in inputs])
    network = getattr(model.runtime(), "encoder", model.runtime())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    network(
        np.concatenate([one.ids for one in inputs]),
        offsets,
        np.concatenate([one.types for one in inputs]),
        ours,
    )
    yield from same_names(ours, theirs, lambda name: lengths)


def _traced_composed(model: Any) -> Pairs:
    encoded, theirs, ours = encode_examples(model), Trace(), Trace()
    batch = encoded.batch(np.arange(len(encoded)))
    with torch.inference_mode():
        model.network()(tensors(batch), theirs)
    model.runtime()(encoded.examples(), ours)

    def lengths(name: str) -> np.ndarray:
        if name.startswith("sentences.encoder"):
            return batch["counts"]
        of_documents = name.startswith("output") and model.runtime().sentences is not None
        return batch["counts" if of_documents else "lengths"]

    yield from same_names(ours, theirs, lengths)
