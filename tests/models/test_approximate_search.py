"""Approximate search against brute force: recall, the same numbers, the same rules for what is left
out, and its refusals.
"""

import sys

import numpy as np
import pytest

import seqloom
from seqloom import progress
from seqloom.errors import ConfigError, MissingExtra
from seqloom.models.word_vectors import search as module
from seqloom.models.word_vectors.word_vectors import WordVectors

SIZE = 3000


@pytest.fixture(scope="module")
def vectors():
    pytest.importorskip("usearch")
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(SIZE, 12)) * rng.uniform(0.1, 5, (SIZE, 1))
    matrix[[17, 18, 2999]] = 0  # words without a direction
    matrix[40] = matrix[39] * 2  # the same direction twice
    return WordVectors.of([f"w{i}" for i in range(SIZE)], matrix)


def best(vectors, query, k, among=None, without=()):
    """Words and cosines by sorting all of them, in double precision."""
    matrix, query = vectors.matrix[:among].astype(np.float64), query.astype(np.float64)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(query)
    cosines = matrix @ query / np.where(lengths > 0, lengths, 1)
    cosines[list(without)] = -9
    order = np.argsort(-cosines, kind="stable")[:k]
    return [(f"w{i}", cosines[i]) for i in order]


def recall(found, wanted):
    return np.mean(
        [len({w for w, _ in a} & {w for w, _ in b}) / len(b) for a, b in zip(found, wanted)]
    )


@pytest.mark.parametrize("among", [None, 2900, 600, 100])
def test_nearly_all_neighbours_are_found_with_their_exact_cosines(vectors, among):
    """Among 600 of 3,000 more is asked for than is wanted; among 100 the search is exact."""
    queries = np.random.default_rng(1).normal(size=(100, 12)).astype(np.float32)
    found = vectors.nearest(queries, 10, among=among, approximate=True)
    wanted = [best(vectors, query, 10, among) for query in queries]
    assert recall(found, wanted) >= (1.0 if among == 100 else 0.98)
    for query, answer in zip(queries, found):
        rows = vectors[[word for word, _ in answer]].astype(np.float64)
        cosines = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
        assert len({word for word, _ in answer}) == 10
        assert [score for _, score in answer] == pytest.approx(cosines, abs=1e-6)
        assert sorted((score for _, score in answer), reverse=True) == [
            score for _, score in answer
        ]


def test_words_of_the_question_are_never_the_answer(vectors):
    words = [f"w{i}" for i in range(60) if i not in (17, 18)]
    together = vectors.nearest(words, 10, approximate=True)
    wanted = [best(vectors, vectors[word], 10, without=[int(word[1:])]) for word in words]
    assert recall(together, wanted) >= 0.98
    assert all(
        word not in {w for w, _ in answer} and len(answer) == 10
        for word, answer in zip(words, together)
    )
    assert vectors.nearest("w39", 1, approximate=True)[0] == ("w40", pytest.approx(1, abs=1e-6))
    assert [vectors.nearest(word, 10, approximate=True) for word in words[:5]] == [
        [(w, pytest.approx(score, abs=1e-6)) for w, score in answer] for answer in together[:5]
    ]


def test_analogy(vectors):
    names = [[f"w{i + j}" for i in range(100, 150)] for j in (0, 50, 100)]
    found = vectors.analogy(*names, 5, approximate=True)
    assert recall(found, vectors.analogy(*names, 5)) >= 0.98
    assert not any({a, b, c} & {w for w, _ in answer} for a, b, c, answer in zip(*names, found))
    assert (
        vectors.analogy("w1", "w2", "w3", 5, approximate=True)
        == vectors.analogy(["w1"], ["w2"], ["w3"], 5, approximate=True)[0]
    )
    with pytest.raises(ConfigError, match="does not support the method mul"):
        vectors.analogy("w1", "w2", "w3", method="mul", approximate=True)


def test_what_the_graph_cannot_answer_is_answered_exactly(vectors):
    assert vectors.nearest("w17", 3, approximate=True) == [("w0", 0.0), ("w1", 0.0), ("w2", 0.0)]
    every = vectors.nearest("w5", SIZE, approximate=True)
    assert [w for w, _ in every] == [w for w, _ in vectors.nearest("w5", SIZE)]
    zeros = WordVectors.of(["a", "b", "c"], np.zeros((3, 4)))
    assert zeros.nearest("b", 5, approximate=True) == [("a", 0.0), ("c", 0.0)]
    assert vectors.nearest([], approximate=True) == []


def test_a_graph_that_offers_too_few_of_the_part():
    """All neighbours lie behind `among`, so none of what is offered may be taken."""
    pytest.importorskip("usearch")
    direction = np.random.default_rng(2).normal(size=12)
    matrix = np.concatenate(
        [
            -direction + 0.1 * np.random.default_rng(3).normal(size=(200, 12)),
            direction + 0.1 * np.random.default_rng(4).normal(size=(800, 12)),
        ]
    )
    made = WordVectors.of([f"w{i}" for i in range(1000)], matrix)
    query = direction.astype(np.float32)
    assert made.nearest(query, 10, among=200, approximate=True) == made.nearest(
        query, 10, among=200
    )


def test_built_once_and_alike_in_every_run(vectors):
    class Reporter:
        labels, done = [], 0

        def begin(self, label, total, unit):
            self.labels.append((label, total))
            return self

        def advance(self, amount=1):
            self.done += amount

        def end(self, task): ...

    again, reporter = WordVectors.of(vectors.words, vectors.matrix), Reporter()
    with progress.reporting(reporter):
        queries = np.random.default_rng(6).normal(size=(200, 12)).astype(np.float32)
        one = again.nearest(queries, 30, approximate=True)
        again.nearest(queries[0], approximate=True)
    assert reporter.labels == [("joining neighbours", SIZE)]
    assert reporter.done == SIZE - 3
    assert again.approximate_index() is again.approximate_index(threads=2)
    assert vectors.nearest(queries, 30, approximate=True) == one
    with pytest.raises(ConfigError, match="threads must be at least 1"):
        WordVectors.of(["a"], [[1.0]]).approximate_index(threads=0)


def test_mapped_vectors_and_vectors_that_were_replaced(vectors, tmp_path):
    vectors.save(tmp_path / "v")
    back = seqloom.load(tmp_path / "v")
    assert back.nearest("w5", approximate=True) == vectors.nearest("w5", approximate=True)
    back.fit((["a", "b", "c"], np.array([[1.0, 0], [1, 0.1], [0, 1]])))
    assert back.nearest("a", approximate=True)[0][0] == "b"


def test_several_threads_find_the_same_neighbours(vectors):
    made = WordVectors.of(vectors.words, vectors.matrix)
    made.approximate_index(threads=3)
    queries = np.random.default_rng(7).normal(size=(100, 12)).astype(np.float32)
    assert recall(made.nearest(queries, 10, approximate=True), made.nearest(queries, 10)) >= 0.98


def test_without_usearch(monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    made = WordVectors.of(["a", "b"], np.eye(2))
    with pytest.raises(
        MissingExtra, match=r"needs usearch; install it: pip install 'seqloom\[approximate\]'"
    ):
        made.nearest("a", approximate=True)
    assert made.nearest("a") == [("b", 0.0)]


def test_runs_of_rows():
    kept = np.array([0, 1, 1, 0, 0, 1, 0, 1], bool)
    assert list(module._runs(kept)) == [(1, 3), (5, 6), (7, 8)]
    assert list(module._runs(np.ones(4, bool))) == [(0, 4)]
    assert list(module._runs(np.zeros(4, bool))) == []
