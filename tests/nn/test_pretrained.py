"""Word vectors as a table for the tokens of a network."""

import numpy as np
import pytest

from seqloom.errors import ConfigError, DataError
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.nn.readers import table

WORDS = [f"w{i}" for i in range(50)]
MATRIX = (np.random.default_rng(1).normal(size=(50, 40)) * 3).astype(np.float32)
VECTORS = WordVectors.of(WORDS, MATRIX)
TOKENS = ["</s>", "<unk>", *WORDS[10:30:3], "strange", *WORDS[:3], *(f"odd{i}" for i in range(40))]
KNOWN = np.array([token in WORDS for token in TOKENS])


class Spelled:
    """An embedder that builds vectors from lengths of words; none for marks."""

    vectors = VECTORS

    def unseen(self, words):
        return np.array(
            [np.full(40, 0.0 if word.startswith("<") else len(word)) for word in words], np.float32
        )


@pytest.mark.parametrize("unknown", ["random", "mean"])
def test_known_rows_are_the_vectors(unknown):
    made = table(VECTORS, TOKENS, unknown=unknown)
    assert made.matrix.dtype == np.float32
    assert np.array_equal(made.has_vector, KNOWN)
    assert not made.built.any()
    for token, row, known in zip(TOKENS, made.matrix, KNOWN):
        assert not known or np.array_equal(row, MATRIX[WORDS.index(token)])
    made.matrix[:] = 0  # memory of its own
    assert np.array_equal(VECTORS.matrix, MATRIX)


def test_random_rows_have_the_scale_of_the_others_and_hang_on_the_seed():
    first, again, other = (table(VECTORS, TOKENS, seed=seed).matrix for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    lengths = np.linalg.norm(first, axis=1)
    assert abs(lengths[~KNOWN].mean() / lengths[KNOWN].mean() - 1) < 0.1
    assert len(np.unique(first[~KNOWN], axis=0)) == (~KNOWN).sum()


def test_mean_rows():
    made = table(VECTORS, TOKENS, unknown="mean").matrix
    wanted = np.mean([MATRIX[WORDS.index(token)] for token in TOKENS if token in WORDS], axis=0)
    assert np.allclose(made[~KNOWN], wanted, atol=1e-6)


def test_subword_rows_are_built_and_random_where_there_is_nothing_to_build_from():
    made = table(Spelled(), TOKENS, unknown="subword", seed=3)
    assert np.array_equal(made.built, ~KNOWN & ~np.char.startswith(TOKENS, "<"))
    for token, row, built in zip(TOKENS, made.matrix, made.built):
        assert not built or np.array_equal(row, np.full(40, len(token)))
    assert np.array_equal(made.matrix[:2], table(VECTORS, TOKENS, seed=3).matrix[:2])
    assert np.abs(made.matrix[:2]).min() > 0


def test_refused():
    with pytest.raises(ConfigError, match="have nothing to build those of unknown words from"):
        table(VECTORS, TOKENS, unknown="subword")
    assert table(VECTORS, WORDS[:2], unknown="subword").has_vector.all()  # nothing to build
    with pytest.raises(
        DataError,
        match="none of the 2 tokens, such as 'x', 'y', is among the 50 words that have vectors, such "
        "as 'w0', 'w1', 'w2'",
    ):
        table(VECTORS, ["x", "y"])
    with pytest.raises(
        ConfigError, match="unknown must be one of random, subword, mean; got 'zero'"
    ):
        table(VECTORS, TOKENS, unknown="zero")
    broken = WordVectors.of(["a", "b"], [[1.0], [2.0]])
    broken.matrix[1] = np.nan
    with pytest.raises(
        DataError, match="the vector of 'b' has a value that is not a finite number"
    ):
        table(broken, ["b", "a"])
    assert table(broken, ["a", "c"]).has_vector.tolist() == [True, False]
