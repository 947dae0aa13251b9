"""n-grams counted by workers: each counts those that begin in its range, and levels are merged in a tree.

An n-gram belongs to the range in which it begins, so a range is counted with the ids that follow it. Sorted
levels are merged as those of one process that works on disk are (`models/language/counting`), so the model is
the same to the bit, whatever the number of ranges.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.arrays import read_arrays, write_arrays
from seqloom.contracts.fitting import text_record
from seqloom.models.language.counting import Level, Levels, count_ngrams, memory_needed, merge
from seqloom.models.language.ngram import NGram
from seqloom.models.workspace import Workspace
from seqloom.scale.corpora import Encoded, SharedCorpus, ids_of
from seqloom.scale.work import Task

LEVELS = "levels.safetensors"
FAN_IN = 8  # runs that are merged at a time; more would make finding the smallest head slow


def fit_ngrams(model: NGram, corpus: SharedCorpus, memory: int | None = None) -> NGram:
    """Fit an n-gram model as `fit` does, with workers that read, encode, count and merge.

    `memory`: what a worker may use before it works on disk, and this process when it estimates.
    """
    with model.learning():
        model.tokenizer = model.make_tokenizer(corpus)
        encoded = corpus.encode(model.tokenizer, model.unit)
        tokens = sum(one.tokens for one in encoded)
        model.fit_info = text_record(corpus, tokens, sum(one.units for one in encoded))
        model.check_longest(longest_unit(encoded))
        counted = count(model, corpus, encoded, memory)
        need = memory_needed(tokens, model.config.order)
        on_disk = memory is not None and need > memory
        model.estimate(counted, Workspace.within(memory or 0) if on_disk else Workspace())
    return model


def longest_unit(encoded: list[Encoded]) -> int:
    """Return the tokens of the longest unit, the end included; units may reach over ranges."""
    longest = begun = 0
    for one in encoded:
        if one.units:
            longest, begun = max(longest, begun + one.first, one.longest), one.rest
        else:
            begun += one.tokens
    return longest


def count(model: NGram, corpus: SharedCorpus, encoded: list[Encoded], memory: int | None) -> Levels:
    """Count all n-grams of the encoded ranges."""
    order, tokenizer = model.config.order, model.tokenizer
    common = {
        "order": order,
        "vocab_size": tokenizer.vocab_size,
        "eos_id": tokenizer.eos_id,
        "memory": memory,
    }
    tasks = []
    for number, one in enumerate(encoded):
        after: list[dict[str, Any]] = []
        for following in encoded[number + 1 :]:
            if sum(other["tokens"] for other in after) >= order - 1:
                break
            after.append(asdict(following))
        before = asdict(encoded[number - 1]) if number else None
        arguments = {"before": before, "ids": asdict(one), "after": after, **common}
        label = f"range {number + 1:,} of the text"
        tasks.append(Task("seqloom.scale.counting:count_range", arguments, label, one.tokens))
    label = f"counting n-grams of order 1 to {order}"
    corpus.cluster.do(tasks, corpus.work, label, "tokens")
    while len(tasks) > 1:
        groups = [tasks[low : low + FAN_IN] for low in range(0, len(tasks), FAN_IN)]
        merges = [
            Task(
                "seqloom.scale.counting:merge_runs",
                {"runs": [str(corpus.work / run.name / LEVELS) for run in group], **common},
                f"merging run {number * FAN_IN + 1:,} and those after it",
                sum(run.weight for run in group),
            )
            for number, group in enumerate(groups)
            if len(group) > 1
        ]
        corpus.cluster.do(merges, corpus.work, "merging", "tokens")
        tasks = merges + [group[0] for group in groups if len(group) == 1]
    return read_levels(corpus.work / tasks[0].name / LEVELS, tokenizer.vocab_size)


# ---- on workers


def _workspace(memory: int | None, tokens: int, order: int) -> Workspace:
    if memory is None or memory_needed(tokens, order) <= memory:
        return Workspace()
    return Workspace.within(memory)


def count_range(
    folder: Path,
    before: dict[str, Any] | None,
    ids: dict[str, Any],
    after: list[dict[str, Any]],
    order: int,
    vocab_size: int,
    eos_id: int,
    memory: int | None,
) -> dict[str, Any]:
    """Count the n-grams that begin in a range: the id before it says whether a unit begins."""
    own = ids_of(ids)
    last = ids_of(before)[-1:] if before is not None else own[:0]
    following = np.concatenate([own[:0], *(ids_of(one)[: order - 1] for one in after)])
    stretch = np.concatenate([last, own, following[: order - 1]])
    workspace = _workspace(memory, len(own), order)
    span = (len(last), len(last) + len(own))
    counted = count_ngrams(stretch, order, vocab_size, eos_id, workspace, span)
    return write_levels(folder / LEVELS, counted)


def merge_runs(
    folder: Path,
    runs: list[str],
    order: int,
    vocab_size: int,
    eos_id: int,
    memory: int | None,
) -> dict[str, Any]:
    """Merge the levels of some ranges."""
    opened = [read_levels(Path(run), vocab_size) for run in runs]
    tokens = sum(int(one.levels[0].counts.sum(dtype=np.int64)) for one in opened)
    return write_levels(folder / LEVELS, merge(opened, order, _workspace(memory, tokens, order)))


def write_levels(path: Path, counted: Levels) -> dict[str, Any]:
    """Write levels to a file; return their sizes."""
    arrays = {
        "bos_begin": np.array(counted.bos_begin, np.int64),
        "1.counts": counted.levels[0].counts,
    }
    for k, level in enumerate(counted.levels[1:], 2):
        arrays |= {f"{k}.{name}": array for name, array in vars(level).items()}
    write_arrays(path, arrays)
    return {"sizes": [len(level) for level in counted.levels]}


def read_levels(path: Path, vocab_size: int) -> Levels:
    """Map levels from a file."""
    arrays = read_arrays(path)
    words = np.arange(vocab_size + 1, dtype=np.uint32)
    zeros = np.zeros(vocab_size + 1, np.uint32)
    levels = [Level(words, arrays["1.counts"], zeros, zeros)]
    for k in range(2, len(arrays["bos_begin"]) + 1):
        levels.append(Level(*(arrays[f"{k}.{name}"] for name in Level.__dataclass_fields__)))
    return Levels(vocab_size, levels, arrays["bos_begin"].tolist())
