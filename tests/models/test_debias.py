"""Hard debiasing: its promises by formula, on random vectors and on some of GloVe's."""

from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bias import built_in
from seqloom.models.word_vectors.debias import (
    bias_direction,
    debias,
    equalise,
    known_pairs,
    neutralise,
    report,
)
from seqloom.models.word_vectors.word_vectors import WordVectors

PAIRS = [("she", "he"), ("woman", "man"), ("girl", "boy")]
NEUTRAL = [f"job{i}" for i in range(30)]


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(8)
    gender = np.zeros(12)
    gender[0] = 1
    words, rows = [], []
    for i, pair in enumerate(PAIRS):
        base = rng.normal(size=12)
        for word, sign in zip(pair, (1, -1)):
            words.append(word)
            rows.append((base + sign * 1.5 * gender + 0.2 * rng.normal(size=12)) * (i + 1))
    for word in NEUTRAL:
        words.append(word)
        rows.append(rng.normal(size=12) * 3)
    return WordVectors.of(words, np.array(rows), np.arange(len(words))[::-1])


def cosines(a, b):
    return (a / np.linalg.norm(a, axis=-1, keepdims=True)) @ (
        b / np.linalg.norm(b, axis=-1, keepdims=True)
    ).T


def test_direction_is_the_first_component_of_centred_pairs(vectors):
    """The covariance of the paper, eigenvectors instead of singular values."""
    found = bias_direction(vectors, PAIRS)
    covariance = np.zeros((12, 12))
    for pair in PAIRS:
        rows = np.stack([vectors[word] / np.linalg.norm(vectors[word]) for word in pair]).astype(
            np.float64
        )
        covariance += (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0)) / 2
    values, lines = np.linalg.eigh(covariance)
    assert abs(lines[:, -1] @ found.vector) == pytest.approx(1, abs=1e-6)
    assert found.explained == pytest.approx(values[-1] / values.sum(), abs=1e-6)
    assert (
        found.cosines(vectors, ["she", "woman", "girl"]).min()
        > found.cosines(vectors, ["he", "man", "boy"]).max()
    )
    one = bias_direction(vectors, [("She", "HE")])
    expected = vectors["she"] / np.linalg.norm(vectors["she"]) - vectors["he"] / np.linalg.norm(
        vectors["he"]
    )
    assert one.vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-6)
    assert one.explained == 1.0


def test_neutralised_words_lean_nowhere(vectors):
    line = bias_direction(vectors, PAIRS)
    made = neutralise(vectors, NEUTRAL, line)
    assert np.abs(line.cosines(made, NEUTRAL)).max() < 1e-6
    assert np.abs(line.cosines(vectors, NEUTRAL)).max() > 0.1
    assert np.linalg.norm(made[NEUTRAL], axis=1) == pytest.approx(
        np.linalg.norm(vectors[NEUTRAL], axis=1), rel=1e-6
    )
    flat = vectors[NEUTRAL] - np.outer(vectors[NEUTRAL] @ line.vector, line.vector)
    assert np.diag(cosines(made[NEUTRAL], flat)) == pytest.approx(
        1, abs=1e-6
    )  # nothing else has changed
    assert (made[["she", "he"]] == vectors[["she", "he"]]).all()
    assert (made.counts == vectors.counts).all()


def test_equalised_pairs_are_equally_far_from_every_neutral_word(vectors):
    line = bias_direction(vectors, PAIRS)
    made = debias(vectors, NEUTRAL, PAIRS)
    for first, second in PAIRS:
        away = [np.linalg.norm(made[NEUTRAL] - made[word], axis=1) for word in (first, second)]
        assert away[0] == pytest.approx(away[1], abs=2e-6)
        assert cosines(made[NEUTRAL], made[first]) == pytest.approx(
            cosines(made[NEUTRAL], made[second]), abs=1e-6
        )
        leans = line.cosines(made, [first, second])
        assert leans[0] == pytest.approx(-leans[1], abs=1e-6)
        assert leans[0] > 0.1
        before = [
            np.linalg.norm(vectors[NEUTRAL] - vectors[word], axis=1) for word in (first, second)
        ]
        assert np.abs(before[0] - before[1]).max() > 0.1
    assert made.fit_info["neutralised"] == 30
    assert made.fit_info["equalised"] == 6


def test_an_equalised_pair_is_that_of_the_paper(vectors):
    """nu + sqrt(1 - |nu|^2) (w_B - mu_B) / |w_B - mu_B| on vectors of length one."""
    line = bias_direction(vectors, PAIRS)
    made = equalise(vectors, PAIRS[:1], line)
    units = [vectors[word] / np.linalg.norm(vectors[word]) for word in PAIRS[0]]
    mean = (units[0] + units[1]) / 2
    mean_part = (mean @ line.vector) * line.vector
    for word, unit in zip(PAIRS[0], units):
        part = (unit @ line.vector) * line.vector - mean_part
        expected = (
            mean
            - mean_part
            + np.sqrt(1 - np.sum((mean - mean_part) ** 2)) * part / np.linalg.norm(part)
        )
        assert made[word] / np.linalg.norm(made[word]) == pytest.approx(expected, abs=1e-6)
    assert np.linalg.norm(made["he"]) == pytest.approx(
        np.linalg.norm(vectors[["he", "she"]], axis=1).mean(), rel=1e-6
    )


def test_saved_and_loaded(vectors, tmp_path):
    made = debias(vectors, NEUTRAL, PAIRS)
    made.save(tmp_path / "d")
    assert (seqloom.load(tmp_path / "d").matrix == made.matrix).all()
    assert (
        debias(seqloom.load(tmp_path / "d"), NEUTRAL, PAIRS).matrix != vectors.matrix
    ).any()  # a mapped file is not written


def test_report_before_and_after(vectors, tmp_path):
    (tmp_path / "pairs.txt").write_text("she he 9\njob1 job2 3\njob3 job4 2\n")
    line = bias_direction(vectors, PAIRS)
    after = debias(vectors, NEUTRAL, PAIRS)
    four = (NEUTRAL[:8], NEUTRAL[8:16], ["she", "girl"], ["he", "boy"])
    found = report(
        vectors,
        after,
        tests={"t": four},
        direction=line,
        neutral=[*NEUTRAL, "nowhere"],
        on=[tmp_path / "pairs.txt"],
    )
    assert found["tests"]["t"]["partitions"] == 12870
    assert len(found["tests"]["t"]["effect_size"]) == 2
    assert found["neutral"]["missing"] == ["nowhere"]
    before, now = found["neutral"]["direct_bias"]
    assert before == pytest.approx(np.abs(line.cosines(vectors, NEUTRAL)).mean(), abs=1e-9)
    assert now < 1e-6 < before
    assert found["neutral"]["mean_projection"][0] == pytest.approx(
        np.abs(vectors[NEUTRAL] @ line.vector).mean(), rel=1e-6
    )
    assert [r["spearman"] for r in found["cost"][str(tmp_path / "pairs.txt")]] == [
        v.evaluate(tmp_path / "pairs.txt")["spearman"] for v in (vectors, after)
    ]
    assert len(report(vectors, direction=line, neutral=NEUTRAL)["neutral"]["direct_bias"]) == 1


def test_refused(vectors):
    line = bias_direction(vectors, PAIRS)
    with pytest.raises(DataError, match="no vector for 'shee'; did you mean 'she'"):
        bias_direction(vectors, [("shee", "he")])
    assert known_pairs(vectors, [("shee", "he"), *PAIRS]) == PAIRS
    with pytest.raises(ConfigError, match="at least one pair"):
        bias_direction(vectors, [])
    with pytest.raises(DataError, match="same direction"):
        bias_direction(vectors, [("he", "he")])
    with pytest.raises(DataError, match="no vector for 'jub1'; did you mean 'job1'"):
        neutralise(vectors, ["jub1"], line)
    with pytest.raises(
        ConfigError, match="'he' is both among the words to neutralise and in a pair"
    ):
        debias(vectors, ["job1", "he"], PAIRS)
    with pytest.raises(ConfigError, match="'she' is in two pairs"):
        equalise(vectors, [*PAIRS, ("she", "boy")], line)
    along = WordVectors.of(["a", "b", "c"], [[1.0, 0], [-1, 0.0], [2, 0]])
    with pytest.raises(DataError, match="nothing is left of 'c'"):
        neutralise(along, ["c"], bias_direction(along, [("a", "b")]))


def test_glove_leans_as_published():
    """Caliskan et al. 2017, table 1, found every one of these on GloVe (840B, d 1.06 to 1.81); here
    6B of 50 dimensions.
    """
    with np.load(Path(__file__).parent.parent / "golden" / "glove_6B_50d.npz") as golden:
        glove = WordVectors.of(golden["words"].tolist(), golden["matrix"].astype(np.float32))
    known = built_in()
    names = ["instruments-weapons", "career-family", "math-arts", "science-arts"]
    pairs = known_pairs(glove, known.pairs["gender_equal"])
    line = bias_direction(glove, known.pairs["gender"])
    after = debias(glove, known.words("neutral"), pairs, line)
    found = report(
        glove,
        after,
        tests={name: known.test(name) for name in names},
        direction=line,
        neutral=known.words("occupations"),
    )
    for name in names:
        assert 1.0 < found["tests"][name]["effect_size"][0] < 1.9
        assert found["tests"][name]["p_value"][0] < 0.001
    for name in names[1:]:
        assert found["tests"][name]["effect_size"][1] < found["tests"][name]["effect_size"][0] - 0.4
    leans = found["neutral"]["leans"]
    assert leans["nurse"][0] > 0.1
    assert leans["captain"][0] < -0.1
