"""How often `drift` fires: 500 requests of a model's own kind, and 500 of which a fifth are foreign.

For each draw, held-out texts are divided anew into a reference and those that requests are drawn
from; foreign ones come from another corpus. The aim: at most 5 of 100 draws without foreign texts
fire, and at least 95 of 100 with 20 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.side_by_side import collect, data, sized, table
from seqloom.data.classification import Labelled, read_labelled
from seqloom.data.corpus import Corpus, bundled
from seqloom.data.tagging import read_tagged
from seqloom.metrics.drift import compare
from seqloom.metrics.reference import HASHES, Reference, Sample, divided
from seqloom.registry import model_class
from seqloom.tasks.watching import sample_of
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.config import TrainConfig

REQUESTS, FOREIGN = sized(500, 60), 0.2
DRAWS = 100
SHARES = (0.1, FOREIGN)


def lines(*names: str) -> list[str]:
    return [
        line
        for name in names
        for line in data(name).read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]


def sst2() -> tuple[Labelled, Labelled]:
    """Train, and held-out texts: those of dev and test."""
    train = read_labelled(data("sst2/stsa.binary.train"))
    dev, test = (read_labelled(data(f"sst2/stsa.binary.{part}")) for part in ("dev", "test"))
    return train, Labelled(dev.examples + test.examples, dev.labels + test.labels, "dev and test")


def captions() -> list[str]:
    return lines("multi30k/val.en", "multi30k/test_2016_flickr.en")


def german() -> list[str]:
    return lines("multi30k/val.de", "multi30k/test_2016_flickr.de")


def web() -> list[str]:
    return [
        " ".join(s) for s in read_tagged(data("ud_english_ewt/en_ewt-ud-test.conllu")).sentences
    ]


def plays() -> list[str]:
    return [line for line in bundled().lines() if line.strip()][-1000:]


OTHERS = {"German captions": german, "web English": web, "Shakespeare": plays}


def language() -> tuple[Any, list[Any]]:
    """Fit an n-gram model of captions; return it and held-out ones."""
    corpus = Corpus.from_texts("\n".join(lines("multi30k/train.en")[: sized(10_000, 200)]), "train")
    model = model_class("ngram")(order=5).fit(corpus, tokenizer=Tokenizer(kind="char").fit(corpus))
    return model, captions()


def classifier(name: str) -> tuple[Any, list[Any]]:
    """Fit a classifier of film reviews; return it and held-out ones."""
    train, held = sst2()
    if name == "classifier":
        model = model_class(name)(encoder="lstm", d_hidden=sized(64, 8))
        model.fit(train, train=TrainConfig(epochs=sized(2, 1)))
    else:
        model = model_class(name)().fit(train)
    return model, held.examples


def rows(name: str, quick: bool) -> Iterator[tuple[str, ...]]:
    if name == "ngram":
        model, held = language()
        others = OTHERS | {"film reviews": lambda: sst2()[1].examples}
    else:
        model, held = classifier(name)
        others = OTHERS | {"captions": captions}
    own = sample_of(model, held)  # what a model says of a text is computed once, and drawn from
    n_draws = sized(DRAWS // (5 if quick else 1), 2)
    yield name, "none", fired(own, None, 0.0, n_draws), *["-"] * len(SHARES)
    for kind, read in others.items():
        foreign = sample_of(model, read()[:1000])
        yield name, kind, "-", *(fired(own, foreign, share, n_draws) for share in SHARES)


def fired(own: Sample, foreign: Sample | None, share: float, n_draws: int) -> str:
    """Count the draws that fire: the same ones, whatever else is counted."""
    rng = np.random.default_rng(0)
    return str(sum(compare(*draw(own, foreign, share, rng)).fires for _ in range(n_draws)))


def joined(first: Sample, second: Sample) -> Sample:
    return Sample(
        {n: np.concatenate([first.columns[n], second.columns[n]]) for n in first.columns},
        first.words + second.words,
        None if first.labels is None else first.labels + (second.labels or []),
        np.concatenate([first.keys, second.keys]),
    )


def draw(
    own: Sample, foreign: Sample | None, share: float, rng: np.random.Generator
) -> tuple[Reference, Sample]:
    """Divide held-out texts at random into a reference and what requests are drawn from, some of
    which are foreign.
    """
    first, second = np.array_split(rng.permutation(len(own)), 2)
    kept, rest = divided(len(first), int(rng.integers(1 << 30)))
    known = np.zeros(HASHES, dtype=bool)
    known[np.concatenate([own.words[i] for i in first[rest]])] = True
    reference = Reference(own.part(first[kept]), known, len(first), "held out")
    n_foreign = round(REQUESTS * share)
    requests = own.part(rng.choice(second, REQUESTS - n_foreign, replace=len(second) < REQUESTS))
    if foreign is not None:
        some = rng.choice(len(foreign), n_foreign, replace=n_foreign > len(foreign))
        requests = joined(requests, foreign.part(some))
    return reference, requests


def run(quick: bool, only: str) -> None:
    suites = {
        name: partial(rows, name, quick)
        for name in ("ngram", "naive-bayes", "fasttext-classifier", "classifier")
    }
    table(
        f"drift: draws of {REQUESTS} requests that fire, of {DRAWS // (5 if quick else 1)}",
        collect(suites, only),
        (
            "model",
            "foreign text",
            "own text",
            *(f"{share:.0%} foreign" for share in SHARES),
        ),
    )
