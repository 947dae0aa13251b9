"""Small saved models of every format that was ever written, one of each registered kind and some
that are quantised, with what they answered.

    python -m tests.saved      # write those of the newest format again, after a change of the
    format or a new model
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from seqloom.storage import FORMAT_VERSION
from tests.fuzz.specimens import SAVED, SPECIMENS, WAVE

NEWEST = SAVED / f"format-{FORMAT_VERSION}"
ANSWERS = "answers.json"
QUANTISED = (
    "gpt-8-bit",
    "gpt-4-bit",
    "bert-4-bit",
    "transformer-8-bit",  # the first of these were written before the others
    "lstm-4-bit",
    "classifier-8-bit",
    "tagger-4-bit",
    "seq2seq-8-bit",
    "forecaster-8-bit",
)  # could be quantised


def ask(model: Any) -> dict[str, Any]:
    """One question to a model of each task."""
    if model.task == "language model":
        return {"score": model.score("the cat sat on the log")}
    if model.task == "classifier":
        return {"predict_proba": model.predict_proba("a good dull road")}
    if model.task == "tagger":
        return {"predict": model.predict("Mary saw New York")}
    if model.task == "answerer":
        answer = model.predict("who saw it ?", "Mary saw New York .")
        return {"predict": [answer.text, answer.start, answer.end], "score": answer.score}
    if model.task == "translator":
        return {"score": model.score("abc", "cab")}
    if model.task == "masked language model":
        return {"score": model.score("the cat sat on the log")}
    if model.task == "sentence vectors":
        return {"similarity": model.similarity("the cat sat", "on the log")}
    if model.task == "forecaster":
        return {"forecast": model.forecast(WAVE).rows()}
    return {"nearest": [list(pair) for pair in model.nearest("cat", 3)]}


def answers(folder: Path) -> dict[str, Any]:
    """What the models of a format answered when they were saved, by name."""
    return json.loads((folder / ANSWERS).read_text("utf-8"))


def write() -> None:
    """The models of the newest format, and their answers."""
    from seqloom.registry import MODELS

    shutil.rmtree(NEWEST, ignore_errors=True)
    found = {}
    for name in (*MODELS, *QUANTISED):
        model = SPECIMENS[name]()
        model.save(NEWEST / name)
        found[name] = ask(model)
    (NEWEST / ANSWERS).write_text(json.dumps(found, indent=1) + "\n", "utf-8")
