"""How often `drift` fires: 500 requests of a model's own kind, and 500 of which a fifth are foreign.

For each draw, requests are drawn from held-out texts that are not in the reference, and foreign ones
from another corpus. The aim: at most 5 of 100 draws without foreign texts fire, and at least 95 of
100 with 20 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.side_by_side import collect, data, sized, table
from seqloom.data.classification import Labelled, read_labelled
from seqloom.data.corpus import Corpus
from seqloom.data.tagging import read_tagged
from seqloom.metrics.drift import compare
from seqloom.metrics.reference import Sample
from seqloom.registry import model_class
from seqloom.tasks.watching import reference_of, sample_of
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
    return lines("tinyshakespeare/input.txt")[-2000:]


OTHERS = {"German captions": german, "web English": web, "Shakespeare": plays}


def halves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Divide held-out texts at random; their order in a file may mean something."""
    first, second = np.array_split(np.random.default_rng(1).permutation(n), 2)
    return first, second


def language(train: list[str], held: list[str]) -> tuple[Any, Any, list[Any]]:
    """Fit an n-gram model and return it, its reference and the texts that requests are drawn from."""
    corpus = Corpus.from_texts("\n".join(train) + "\n", "train")
    model = model_class("ngram")(order=5).fit(corpus, tokenizer=Tokenizer(kind="char").fit(corpus))
    half, rest = halves(len(held))
    text = "\n".join(held[i] for i in half) + "\n"
    return model, Corpus.from_texts(text, "reference"), [held[i] for i in rest]


def classifier(name: str) -> tuple[Any, Any, list[Any]]:
    train, held = sst2()
    options: dict[str, Any] = {}
    if name == "classifier":
        options = {"encoder": "lstm", "d_hidden": sized(64, 8)}
    model = model_class(name)(**options)
    if name == "classifier":
        model.fit(train, train=TrainConfig(epochs=sized(2, 1)))
    else:
        model.fit(train)
    half, rest = halves(len(held))
    return model, held.part(half), [held.examples[i] for i in rest]


def rows(name: str, quick: bool) -> Iterator[tuple[str, ...]]:
    if name == "ngram":
        train = lines("multi30k/train.en")[: sized(10_000, 200)]
        model, data_of_reference, own = language(train, captions())
        others = OTHERS | {"film reviews": lambda: sst2()[1].examples}
    else:
        model, data_of_reference, own = classifier(name)
        others = OTHERS | {"captions": captions}
    reference = reference_of(model, data_of_reference, "reference")
    own_sample = sample_of(model, own)
    rng = np.random.default_rng(0)
    n_draws = sized(DRAWS // (5 if quick else 1), 2)

    def fired(sample: Sample, share: float) -> str:
        draws = (draw(sample, len(own), share, rng) for _ in range(n_draws))
        return str(sum(compare(reference, requests).fires for requests in draws))

    kept = f"{len(reference.sample):,}"
    yield name, "none", kept, fired(own_sample, 0.0), *["-"] * len(SHARES)
    for kind, read in others.items():
        both = joined(own_sample, sample_of(model, read()[: len(own)]))
        yield name, kind, kept, "-", *(fired(both, share) for share in SHARES)


def joined(first: Sample, second: Sample) -> Sample:
    return Sample(
        {n: np.concatenate([first.columns[n], second.columns[n]]) for n in first.columns},
        first.words + second.words,
        None if first.labels is None else first.labels + (second.labels or []),
        np.concatenate([first.keys, second.keys]),
    )


def draw(both: Sample, n_own: int, share: float, rng: np.random.Generator) -> Sample:
    """Draw requests without replacement, a share of them foreign, in random order."""
    n_foreign = round(REQUESTS * share)
    picked = [
        rng.choice(n_own, REQUESTS - n_foreign, replace=n_own < REQUESTS),
        n_own + rng.choice(len(both) - n_own, n_foreign, replace=n_foreign > len(both) - n_own),
    ]
    return both.part(rng.permutation(np.concatenate(picked)))


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
            "reference",
            "own text",
            *(f"{share:.0%} foreign" for share in SHARES),
        ),
    )
