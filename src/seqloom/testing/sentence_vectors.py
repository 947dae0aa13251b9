"""What every model of sentence vectors must do."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.contracts import TextEmbedder
from seqloom.errors import ConfigError, DataError, NotFitted
from seqloom.metrics.word_vectors import spearman
from seqloom.testing.rules import (
    SHARED,
    Rule,
    Specimen,
    fitting,
    loaded_again,
    refuses,
    refuses_data,
    require,
    run,
    same,
    specimen,
)

TEXT = "the cat sat on the mat\nthe dog sat on the log\na cat ran\nthe dog ran on a road\n"
TEXTS = [
    "the cat sat",
    "a zebra ran on the road",
    "",
    "dog",
    "the the the cat",
    "漢字 😀",
    "dog",
    "a line\nand another " * 20,
]
PAIRS = [
    ("the cat sat", "a cat sat", 5.0),
    ("the dog", "a log", 2.5),
    ("dog", "the cat ran", 1.0),
    ("a", "a", 4.0),
]


def check_text_embedder(model: TextEmbedder, data: Any = None) -> None:
    """Raise AssertionError if a model of sentence vectors breaks a rule of its contract. `data`:
    text, as `fit` takes it.
    """
    run(RULES, specimen(model, TextEmbedder, data, TEXT, PAIRS))


@fitting
def an_unfitted_model_refuses(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    for verb, call in (
        ("embed", lambda: model.embed("a")),
        ("similarity", lambda: model.similarity("a", "b")),
        ("nearest", lambda: model.nearest("a", among=["b"])),
        ("evaluate", lambda: model.evaluate(PAIRS)),
    ):
        refuses(call, NotFitted, f"{verb} of a model that is not fitted")


def every_text_has_a_vector(s: Specimen) -> None:
    vectors = s.model.embed(TEXTS)
    require(
        vectors.shape == (len(TEXTS), s.model.dimensions),
        f"{len(TEXTS)} texts with {s.model.dimensions} dimensions give vectors {vectors.shape}",
    )
    require(vectors.dtype == np.float32, f"vectors must be float32; they are {vectors.dtype}")
    require(np.isfinite(vectors).all(), "a vector has a value that is not a finite number")
    require(
        s.model.embed([]).shape == (0, s.model.dimensions),
        "embed of no texts must be an array (0, D)",
    )


def a_text_alone_is_embedded_as_in_a_list(s: Specimen) -> None:
    for text, vector in zip(TEXTS, s.model.embed(TEXTS)):
        same(
            s.model.embed(text),
            vector,
            f"in a list {text!r:.40} has another vector than alone",
            off=1e-4,
        )


def a_second_call_gives_the_same_answer(s: Specimen) -> None:
    require(
        (s.model.embed(TEXTS) == s.model.embed(TEXTS)).all(), "a second call gives other vectors"
    )


def similarity_is_the_cosine(s: Specimen) -> None:
    a, b = (s.model.embed(texts).astype(np.float64) for texts in (TEXTS, TEXTS[::-1]))
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    expected = (a * b).sum(axis=1) / np.where(lengths > 0, lengths, 1)
    same(s.model.similarity(TEXTS, TEXTS[::-1]), expected, "similarity is not the cosine", off=1e-4)
    same(
        s.model.similarity(TEXTS[0], TEXTS[1]),
        s.model.similarity([TEXTS[0]], [TEXTS[1]])[0],
        "similarity of two texts is not that of two lists",
        off=1e-4,
    )


def the_nearest_texts_have_the_largest_cosines(s: Specimen) -> None:
    query = TEXTS[1]
    neighbours = s.model.nearest(query, 3, among=iter(TEXTS))
    cosines = s.model.similarity([query] * len(TEXTS), TEXTS)
    require(
        len(neighbours) == 3 and all(text in TEXTS for text, _ in neighbours),
        f"nearest of {len(TEXTS)} texts gives {neighbours}",
    )
    same(
        [cosine for _, cosine in neighbours],
        np.sort(cosines)[::-1][:3],
        "nearest gives other cosines than similarity",
        off=1e-4,
    )
    same(
        [cosine for _, cosine in neighbours],
        s.model.similarity([query] * 3, [text for text, _ in neighbours]),
        "nearest gives a text with the cosine of another",
        off=1e-4,
    )
    several = s.model.nearest([query, "dog"], 2, among=TEXTS)
    same(
        [cosine for _, cosine in several[0]],
        [cosine for _, cosine in neighbours[:2]],
        "alone a query has other neighbours",
        off=1e-4,
    )


def evaluate_is_the_rank_correlation(s: Specimen) -> None:
    result = s.model.evaluate(PAIRS)
    cosines = s.model.similarity([a for a, _, _ in PAIRS], [b for _, b, _ in PAIRS])
    expected = spearman(cosines, np.array([score for _, _, score in PAIRS]))
    same(result["spearman"], expected, "spearman is not that of the cosines")
    require(
        result["pairs"] == len(PAIRS), f"evaluate counts {result['pairs']} of {len(PAIRS)} pairs"
    )


def what_needs_a_list_of_words_is_refused(s: Specimen) -> None:
    refuses(lambda: s.model.analogy("a", "b", "c"), ConfigError, "analogy")
    refuses(lambda: s.model.nearest("a"), ConfigError, "nearest without texts to search")
    refuses(lambda: s.model.vectors, ConfigError, "a list of words")


def what_is_no_text_is_refused(s: Specimen) -> None:
    for bad in ([7], 7, [None], [["a"]]):
        refuses(lambda: s.model.embed(bad), DataError, f"embed({bad!r})")  # noqa: B023
    refuses(lambda: s.model.evaluate([("a", "b")]), DataError, "a pair without a score")
    refuses(lambda: s.model.nearest("a", 0, among=["b"]), ConfigError, "k of 0")


def save_and_load_keep_every_bit(s: Specimen) -> None:
    with loaded_again(s) as again:
        require((again.embed(TEXTS) == s.model.embed(TEXTS)).all(), "embed gives other vectors")


@fitting
def bad_data_is_refused_in_one_line(s: Specimen) -> None:
    refuses_data(s, [7, b"bytes"], DataError)


RULES: list[Rule] = [
    an_unfitted_model_refuses,
    bad_data_is_refused_in_one_line,
    every_text_has_a_vector,
    a_text_alone_is_embedded_as_in_a_list,
    a_second_call_gives_the_same_answer,
    similarity_is_the_cosine,
    the_nearest_texts_have_the_largest_cosines,
    evaluate_is_the_rank_correlation,
    what_needs_a_list_of_words_is_refused,
    what_is_no_text_is_refused,
    save_and_load_keep_every_bit,
    *SHARED,
]
