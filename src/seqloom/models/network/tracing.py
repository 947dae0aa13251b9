"""What networks compute while they read one text, without torch: methods `trace` of models."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom import progress
from seqloom.contracts.transforming import tokens_before
from seqloom.errors import ConfigError
from seqloom.runtime.cells import StepTrace
from seqloom.traces import Trace, Traced, by_text

MAX_TRACED = 1 << 12  # tokens of a text of which everything that is computed is kept


def trace_text(model: Any, text: str, *patterns: str) -> Traced:
    """Return what the network computes while it reads a text: gates, states and weights of attention
    (`seqloom.traces` has their names), after the mark before the first token and after each token; of a
    long text the first part, with a message.

    `patterns`: the wanted names, such as `*.gates.f`; none: all.
    """
    model.check_fitted()
    if not hasattr(model.layers, "read_traced"):
        raise ConfigError(
            f"{model.name} models have neither a state nor attention, so there is nothing to trace"
        )
    ids, lengths = model.encode(text)
    read = tokens_before(model, np.asarray(ids, np.int64))[:MAX_TRACED]
    sizes = np.array([len(ids)]) if model.carry else np.asarray(lengths)
    ends = np.minimum(np.cumsum(sizes), len(read))
    sizes, trace = np.diff(ends, prepend=0), Trace(*patterns)
    n_read = model.layers.read_traced(model, read, sizes[sizes > 0], trace)
    if n_read < len(ids):
        progress.say(f"of {len(ids):,} tokens, the first {n_read:,} are read together and shown")
    names = [model.tokenizer.token(token) for token in read[:n_read].tolist()]
    return Traced(names, by_text(trace))


def trace_pair(model: Any, source: Any, *patterns: str, target: str | None = None) -> Traced:
    """Return what the network computes while it reads a source and writes a target, its own translation
    unless one is given: gates, states and weights of attention (`seqloom.traces` has their names). A step
    of the target is what is computed from the token before it.

    `patterns`: the wanted names, such as `*cross.weights`; none: all.
    """
    model.check_fitted()
    target = model.translate(source) if target is None else target
    encoded, tokenizer = model.encode_sources([source]), model.target_tokenizer
    model.check_lengths(encoded, "source")
    ids = tokenizer.encode(target)
    trace, network = Trace(*patterns), model.runtime()
    read = np.concatenate([model.start_ids, ids]).astype(np.int64)
    memory = network.encode(encoded.examples(), trace)
    state, collected = network.start(memory, 1), StepTrace(trace, len(read))
    for t in range(len(read)):
        step = trace.empty()
        _, state = network.step(memory, state, read[t : t + 1], step)
        collected.put(np.array([t]), step)
    collected.hand_over()
    names = [tokenizer.token(token) for token in read.tolist()]
    return Traced(names_of_source(model, encoded), by_text(trace), names)


def names_of_source(model: Any, encoded: Any) -> list[str]:
    """Return a name for each step of one encoded source, in the order in which it is read."""
    if "ids" not in encoded.steps:
        return list(map(str, range(int(encoded.row_offsets[-1]))))
    tokenizer = model.tokenizers["source"]
    return [tokenizer.token(token) for token in encoded.steps["ids"].tolist()]
