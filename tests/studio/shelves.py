"""A shelf of small models, some with hostile names, for the tests of the page and of its server."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import HMM, HMMTagger, NaiveBayes, NGram, SeasonalNaive, Word2Vec
from seqloom.decoding.stepper import prefill

TEXT = "".join(
    f"{line}\n"
    for line in (
        "to be or not to be that is the question",
        "the cat sat on the mat and the dog sat too",
        "whether it is nobler in the mind to suffer",
        "the slings and arrows of outrageous fortune",
        "or to take arms against a sea of troubles",
    )
    * 8
)
HOSTILE = "<img src=x onerror=alert(1)>"
EVIL_LINE = "<script>alert(1)</script> & \"quotes\" 'too' ${x} \u202e"


def after(model: Any, ids: Any) -> np.ndarray:
    """Log-probabilities of what a language model may draw after these tokens."""
    return prefill(model.generator().stepper, [np.array(ids, np.int64)])[1][0].astype(np.float64)


def result(name: str, bits: float) -> str:
    """A rung's result as a comparison keeps it."""
    return json.dumps(
        {
            "name": name,
            "family": "n-gram",
            "measures": {"bits_per_byte": bits},
            "interval": [bits - 0.1, bits + 0.1],
            "parameters": 1234,
            "disk": 5678,
            "train_seconds": 0.5,
        }
    )


def make_shelf(folder: Path) -> Path:
    """Save models below a folder."""
    made: dict[str, tuple[Any, float]] = {
        "byte-2": (NGram(order=2, tokenizer="byte").fit(TEXT), 3.5),
        "byte-4": (NGram(order=4, tokenizer="byte").fit(TEXT), 2.5),
        "bpe-2": (NGram(order=2, tokenizer="bpe", vocab_size=300).fit(TEXT), 2.25),
        "hmm": (HMM(states=3, iterations=4, tokenizer="bpe", vocab_size=300).fit(TEXT), 3.25),
        HOSTILE: (NGram(order=2, tokenizer="byte").fit(TEXT + 9 * EVIL_LINE), 3.75),
    }
    for at, (name, (model, bits)) in enumerate(made.items()):
        model.save(folder / "rungs" / f"rung-{at}")
        (folder / "rungs" / f"rung-{at}" / "result.json").write_text(result(name, bits))
    Word2Vec(dimensions=4, epochs=1, min_count=1).fit(TEXT).save(folder / "vectors")
    save_others(folder)
    return folder


LABELLED = [
    ("a good film", "good"),
    ("dull and long", "bad"),
    ("good fun", "good"),
    ("so dull", "bad"),
]
TAGGED = [
    (["the", "dog", "runs"], ["DET", "NOUN", "VERB"]),
    (["a", "cat", "sat"], ["DET", "NOUN", "VERB"]),
]


def save_others(folder: Path) -> None:
    """Save models of other tasks, and one that never ends its text."""
    NaiveBayes().fit(LABELLED).save(folder / "labels")
    HMMTagger().fit(TAGGED).save(folder / "tags")
    wave = [10 + 3 * math.sin(math.pi * t / 6) + 0.1 * (t % 5) for t in range(120)]
    SeasonalNaive(horizon=6, season=12).fit(wave).save(folder / "wave")
    NGram(order=3, tokenizer="byte", unit="stream").fit(TEXT).save(folder / "endless")
