"""How data shows itself: its `repr` is one line, whatever its size.

>>> from seqloom.data.classification import Labelled
>>> Labelled.of(["good fun", "so dull", "good"], ["+", "-", "+"])
<Labelled 'texts': 3 texts; labels: '+' (2), '-' (1); first: 'good fun' -> '+'>
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from seqloom.data.documents import Document
from seqloom.data.tables import Table
from seqloom.errors import DataError, quoted, shortened

if TYPE_CHECKING:
    from seqloom.data.answering import Questions
    from seqloom.data.classification import Labelled
    from seqloom.data.corpus import Corpus
    from seqloom.data.forecasting import Series
    from seqloom.data.tagging import Tagged
    from seqloom.data.translation import Parallel

MOST = 5  # labels or columns that are named
_WIDTH = 80  # characters of an example


def corpus_line(corpus: Corpus) -> str:
    """Show a text by what is known without reading all of it."""
    documents = corpus._candidates
    columns = [document.column for document in documents if isinstance(document, Table)]
    lines = size = first = ""
    with suppress(DataError, OSError):  # showing itself is no place to fail
        if not columns and (n_bytes := corpus.n_bytes) is not None:
            size = f"{n_bytes:,} bytes"
        if all(isinstance(one, Document) and one.path is None for one in documents):  # in memory
            lines = f"{sum(1 for _ in corpus.lines()):,} lines"
        head = next(documents[0].pieces()).data[: 4 * _WIDTH]
        first = f"first: {quoted(head.decode('utf-8', 'ignore').partition(chr(10))[0])}"
    return _line(
        corpus,
        f"{len(documents):,} documents" if len(documents) > 1 else "",
        lines,
        size,
        _named("column", dict.fromkeys(columns)),
        first,
    )


def labelled_line(data: Labelled) -> str:
    """Show labelled examples."""
    labels = chain.from_iterable(data.labels) if data.multi_label else data.labels
    what = "pairs of texts" if data.pairs else "texts"
    if data.examples and not data.pairs and not isinstance(data.examples[0], str):
        what = "arrays"
    return _line(
        data,
        f"{len(data):,} {what}",
        _counted("label", labels),
        _named("column", data.columns),
        *(f"first: {_example(x)} -> {quoted(y)}" for x, y in zip(data.examples[:1], data.labels)),
    )


def tagged_line(data: Tagged) -> str:
    """Show tagged sentences."""
    first = [f"{w}/{t}" for s, tags in zip(data.sentences[:1], data.tags) for w, t in zip(s, tags)]
    return _line(
        data,
        f"{len(data):,} sentences, {data.n_words:,} words",
        f"scheme: {data.scheme}" if data.scheme else "",
        _counted("tag", chain.from_iterable(data.tags)),
        f"first: {quoted(' '.join(first))}" if first else "",
    )


def questions_line(data: Questions) -> str:
    """Show questions on contexts."""
    return _line(
        data,
        f"{len(data):,} questions on {len(set(data.contexts)):,} contexts",
        f"{data.n_unanswerable:,} without an answer" if data.n_unanswerable else "",
        f"first: {quoted(data.questions[0])}",
    )


def parallel_line(data: Parallel) -> str:
    """Show pairs of sources and targets."""
    return _line(
        data,
        f"{len(data):,} pairs",
        f"{data.source_name} -> {data.target_name}",
        *(f"first: {_example(x)} -> {quoted(y)}" for x, y in zip(data.sources[:1], data.targets)),
    )


def series_line(data: Series) -> str:
    """Show series."""
    first = data.tracks[0] if data.tracks else None
    several = f"{len(data.tracks):,} series, " if len(data.tracks) > 1 else ""
    begin = (
        f"{data.clock.show(first.first)}: {first.values[0].tolist()}" if first is not None else ""
    )
    return _line(
        data,
        f"{several}{len(data):,} steps of {data.step}",
        _named("column", data.columns),
        _named("known column", data.known_columns),
        f"first: {shortened(begin, _WIDTH)}" if begin else "",
    )


def _line(data: Any, *facts: str) -> str:
    return f"<{type(data).__name__} {quoted(data.name)}: {'; '.join(filter(None, facts))}>"


def _example(example: Any) -> str:
    shape = getattr(example, "shape", None)
    return quoted(example) if shape is None else f"array {shape}"


def _counted(what: str, labels: Iterable[Any]) -> str:
    counts = Counter(labels)
    return _listed(
        what, [f"{quoted(label)} ({n:,})" for label, n in counts.most_common(MOST)], len(counts)
    )


def _named(what: str, names: Iterable[str]) -> str:
    every = list(names)
    return _listed(what, [quoted(name) for name in every[:MOST]], len(every))


def _listed(what: str, shown: list[str], total: int) -> str:
    more = f" and {total - len(shown):,} more" if total > len(shown) else ""
    return f"{what}{'s' * (total != 1)}: {', '.join(shown)}{more}" if shown else ""
