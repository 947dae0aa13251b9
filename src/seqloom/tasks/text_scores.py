"""Scores of texts by language models: units that are scored together, or token by token."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from seqloom.tasks.task import Outcome, in_one_field

if TYPE_CHECKING:
    from seqloom.contracts import LanguageModel
    from seqloom.data.corpus import Corpus
    from seqloom.data.documents import Document
    from seqloom.data.tables import Table

BATCH = 10_000  # texts that are scored together
MOST = 1 << 22  # of their characters


def text_scores(model: LanguageModel, corpus: Corpus) -> Iterator[Outcome]:
    """The score of each line, or of what is longer."""
    key = "text" if model.unit == "line" else "name"
    return (
        Outcome(f"{value:.6f}\t{shown}", {"score": value, key: shown})
        for shown, value in _scores(model, corpus)
    )


def token_scores(model: Any, corpus: Corpus) -> Iterator[Outcome]:
    """The log-probability of each token; of n-gram models also the order that matched, and whether it is unknown."""
    for number, unit in enumerate(units(corpus, model.unit), 1):
        if hasattr(model, "full_scores"):
            for token, log_prob, order, oov in model.full_scores(unit):
                yield Outcome(
                    f"{in_one_field(token)}\t{log_prob:.6f}\t{order}" + ("\toov" if oov else ""),
                    {
                        "unit": number,
                        "token": token,
                        "log_prob": log_prob,
                        "order": order,
                        "oov": oov,
                    },
                )
            continue
        ids, _ = model.encode(unit)
        for token, log_prob in zip(ids, model.token_scores([unit])[0]):
            name = model.tokenizer.token(int(token))
            yield Outcome(
                f"{in_one_field(name)}\t{log_prob:.6f}",
                {"unit": number, "token": name, "log_prob": log_prob},
            )


def units(corpus: Corpus, unit: str) -> Iterator[str]:
    """What the model scores as one."""
    if unit == "line":
        return corpus.lines()
    return (
        iter([corpus.text()]) if unit == "stream" else (text for _, text in corpus.each_document())
    )


def _scores(model: LanguageModel, corpus: Corpus) -> Iterator[tuple[str, float]]:
    """A line, or the name of what is longer, and its score."""
    from seqloom.contracts.reading import tally
    from seqloom.data.corpus import Corpus

    if model.unit == "line":
        yield from _many(model, ((line, line) for line in corpus.lines()))
    elif model.unit == "stream":
        yield corpus.name, 0.0 - tally(model, corpus).nats
    else:
        for small, documents in itertools.groupby(corpus.documents, _small):
            if small:
                yield from _many(
                    model, (pair for document in documents for pair in document.documents())
                )
            else:
                yield from (
                    (d.name, 0.0 - tally(model, Corpus([d], d.name)).nats) for d in documents
                )


def _small(document: Document | Table) -> bool:
    """Whether it holds texts that can be scored many at a time."""
    from seqloom.data.tables import Table

    size = document.size()
    return isinstance(document, Table) or (size is not None and size < MOST)


def _many(model: LanguageModel, texts: Iterator[tuple[str, str]]) -> Iterator[tuple[str, float]]:
    """Names and scores of texts, scored together, but of long ones few."""
    batch: list[tuple[str, str]] = []
    size = 0
    for pair in itertools.chain(texts, [None]):
        if pair is not None:
            batch.append(pair)
            size += len(pair[1])
        if pair is None or len(batch) == BATCH or size > MOST:
            yield from zip((name for name, _ in batch), model.score([text for _, text in batch]))
            batch, size = [], 0
