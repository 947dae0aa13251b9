"""Word vectors: a map of words, the surroundings of a word, analogies, and how far words lean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seqloom.charts.page import Page, Sheet, with_headings
from seqloom.charts.word_graph import analogy_chart, star_chart
from seqloom.charts.word_graph import leaning as leaning_chart
from seqloom.charts.word_map import word_map as word_map_chart
from seqloom.contracts import Embedder
from seqloom.errors import ConfigError
from seqloom.models.word_vectors.projection import Method, map_pairs, map_words, surroundings

TITLE = "Word vectors"
TOP = 300  # words of a map by default
NEAR = 12  # neighbours
HINT = (
    "The wheel zooms, dragging moves, a double click goes back. Names appear where there is room; "
    "each point has its own."
)


def word_map(
    vectors: Embedder,
    words: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
    *,
    top: int | None = None,
    method: Method = "pca",
    clusters: int | None = None,
    seed: int = 0,
) -> Sheet:
    """Draw words, groups of words by name with their colours, or the first `top` words in a plane.

    With `clusters` the colours are so many clusters of the vectors (k-means).
    """
    if words is not None and top is not None:
        raise ConfigError("words and top draw different maps; give one of them")
    chosen = first_words(vectors, TOP if top is None else top) if words is None else words
    groups = chosen if isinstance(chosen, Mapping) else {"": chosen}
    if clusters is not None:
        every = list(dict.fromkeys(word for group in groups.values() for word in group))
        groups = {
            ", ".join(group[:3]): group
            for group in vectors.vectors.clusters(clusters, every, seed=seed)
        }
    return _map(vectors, groups, method, seed)


def neighbours(
    vectors: Embedder,
    word: str,
    n: int = NEAR,
    *,
    among: int | None = None,
    method: Method | None = None,
    seed: int = 0,
) -> Sheet:
    """Draw a word, its nearest, and theirs as a star; with a method, a map of the word and its
    nearest.
    """
    if method is not None:
        near = [name for name, _ in vectors.nearest(word, n, among=among)]
        return _map(
            vectors,
            {word: [word], "near": near} if vectors.knows(word) else {"near": near},
            method,
            seed,
        )
    branches = surroundings(vectors, word, n, among=among)
    return _sheet(
        lambda page: star_chart(word, branches, page=page),
        f"{word}, its {len(branches)} nearest, and theirs",
        {
            "word": word,
            "near": [
                {
                    "word": b.word,
                    "cosine": b.cosine,
                    "near": [{"word": w, "cosine": c} for w, c in b.further],
                }
                for b in branches
            ],
        },
    )


def analogies(vectors: Embedder, pairs: Sequence[tuple[str, str]]) -> Sheet:
    """Draw pairs such as (man, king) and (woman, queen) as arrows, parallel if the difference is
    the same.
    """
    arrows, titles = map_pairs(vectors, pairs)
    more = f" and {len(arrows) - 4} more" if len(arrows) > 4 else ""
    summary = ", ".join(f"{a.start} to {a.end}" for a in arrows[:4]) + more
    return _sheet(
        lambda page: analogy_chart(arrows, titles, page=page),
        summary,
        {"pairs": [a._asdict() for a in arrows]},
    )


def leaning(report: Mapping[str, Any]) -> Sheet:
    """Draw how far words lean, from the `report` of `seqloom.models.word_vectors.debias`."""
    leans = report["neutral"]["leans"] if "neutral" in report else {}
    if not leans:
        raise ConfigError(
            "none of the words has a vector, or no direction was given; there is nothing to draw"
        )
    ends = report["direction"]["pairs"][0]
    title = f"Leaning towards {ends[0]} and {ends[1]}"
    return Sheet(title, lambda page: {title: leaning_chart(leans, ends)}, leans)


def leaning_along(
    vectors: Embedder, pairs: Sequence[tuple[str, str]], words: Sequence[str]
) -> Sheet:
    """Draw how far words lean along the direction of some pairs, such as (he, she)."""
    from seqloom.models.word_vectors.debias import bias_direction, report

    line = bias_direction(vectors, list(pairs))
    return leaning(report(vectors.vectors, None, tests={}, direction=line, neutral=list(words)))


def _map(
    vectors: Embedder, groups: Mapping[str, Sequence[str]], method: Method, seed: int
) -> Sheet:
    spots, titles = map_words(vectors, groups, method=method, seed=seed)
    what = "texts" if vectors.task == "sentence vectors" else "words"
    summary = f"{len(spots):,} {what}, " + (
        "t-SNE" if method == "tsne" else f"{titles[0]}, {titles[1]}"
    )
    return _sheet(
        lambda page: word_map_chart(spots, titles, page=page),
        summary,
        {
            "method": method,
            "words": [{"word": s.word, "x": s.x, "y": s.y, "group": s.group} for s in spots],
        },
    )


def _sheet(draw: Callable[[bool], Any], summary: str, data: dict[str, Any]) -> Sheet:
    return Sheet(TITLE, lambda page: {TITLE: draw(page)}, data, [summary], page=_zoomable)


def _zoomable(sheet: Sheet) -> Page:
    return with_headings(sheet).text(HINT, kind="faint")


def first_words(vectors: Embedder, n: int) -> list[str]:
    """Return the first words that have a letter: frequent tokens are often signs and numbers."""
    words: list[str] = []
    for word in vectors.vectors.words:
        if len(words) == n:
            break
        if any(map(str.isalpha, word)):
            words.append(word)
    return words
