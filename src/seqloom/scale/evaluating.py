"""Evaluating with workers: a model reads its data and judges the answers here, workers answer the batches.

The batches are those of one process, so a network pads them alike and the results are the same. Whoever has
fewer examples than a batch gains nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom.contracts.answering import Found
from seqloom.contracts.reading import SHARED
from seqloom.errors import ConfigError
from seqloom.scale.cluster import Cluster
from seqloom.scale.work import Task, model_at

BATCH = "batch"  # file of what a worker is asked
ANSWER = "answer"  # file of what it answers


class Form(NamedTuple):
    """How the batches and answers of a method are written to files."""

    write_batch: Callable[[Path, Any], None]
    read_batch: Callable[[Path], Any]
    write_answer: Callable[[Path, Any], None]
    read_answer: Callable[[Path], Any]


def _write_array(path: Path, array: np.ndarray) -> None:
    with open(path, "wb") as file:
        np.save(file, array)


def _read_array(path: Path) -> np.ndarray:
    with open(path, "rb") as file:
        found: np.ndarray = np.load(file)
    return found


def _write_values(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, ensure_ascii=True), encoding="utf-8")


def _read_values(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _read_examples(path: Path) -> list[Any]:
    return [tuple(one) if isinstance(one, list) else one for one in _read_values(path)]


def _write_examples(path: Path, examples: list[Any]) -> None:
    if not all(isinstance(one, (str, tuple)) for one in examples):
        raise ConfigError("a cluster evaluates models of texts; this one reads numbers")
    _write_values(path, examples)


def _write_lists(path: Path, arrays: list[np.ndarray]) -> None:
    _write_values(path, [array.tolist() for array in arrays])


def _read_lists(path: Path) -> list[np.ndarray]:
    return [np.array(values, np.int64) for values in _read_values(path)]


def _write_spans(path: Path, spans: list[Any]) -> None:
    _write_values(
        path,
        [[value.item() if hasattr(value, "item") else value for value in one] for one in spans],
    )


def _read_spans(path: Path) -> list[Any]:
    return [Found(*values) for values in _read_values(path)]


FORMS = {
    "class_log_probs": Form(_write_examples, _read_examples, _write_array, _read_array),
    "tag_ids": Form(_write_values, _read_values, _write_lists, _read_lists),
    "find_spans": Form(_write_examples, _read_examples, _write_spans, _read_spans),
    "reading": Form(_write_array, _read_array, _write_array, _read_array),
}
TASKS = ("language model", "classifier", "tagger", "answerer")  # that evaluate in such batches


def share(model: Any, cluster: Cluster, work: Path, path: str, digest: str) -> None:
    """Let workers answer the batches of a model from now on."""
    if model.task not in TASKS:
        raise ConfigError(
            f"a cluster evaluates {', '.join(TASKS)}; {path} is for another task ({model.task})"
        )

    def each_batch(primitive: str, batches: Sequence[Any]) -> Iterator[Any]:
        form, tasks = FORMS[primitive], []
        for number, batch in enumerate(batches, 1):
            asked = work / f"{primitive}-{number}.{BATCH}"
            form.write_batch(asked, batch)
            arguments = {
                "model": path,
                "digest": digest,
                "primitive": primitive,
                "batch": str(asked),
                "contents": hashlib.sha256(asked.read_bytes()).hexdigest(),
            }
            label = f"batch {number:,} of the data"
            tasks.append(
                Task("seqloom.scale.evaluating:answer_batch", arguments, label, len(batch))
            )
        results = cluster.results(tasks, work, "evaluating", "examples")
        for _, task in zip(results, tasks):
            yield form.read_answer(work / task.name / ANSWER)

    setattr(model, SHARED, each_batch)


def answer_batch(
    folder: Path, model: str, digest: str, primitive: str, batch: str, contents: str
) -> dict[str, Any]:
    """Answer a batch, on a worker."""
    form = FORMS[primitive]
    loaded = model_at(model, digest)
    method = loaded.reading() if primitive == "reading" else getattr(loaded, primitive)
    answers = method(form.read_batch(Path(batch)))
    form.write_answer(folder / ANSWER, answers)
    return {}
