"""GloVe: its loss and its steps against NumPy in double precision, the same bits whatever happens,
and what it learns.
"""

import numpy as np
import pytest

import seqloom
from seqloom.errors import DataError, TrainingError
from seqloom.models.word_vectors import glove, learning
from seqloom.models.word_vectors.configs import GloveConfig
from seqloom.models.word_vectors.cooccurrence import Cells, count_cells
from seqloom.models.word_vectors.glove import Factorisation, Glove


def random_ids(n=20_000, vocab_size=90):
    return np.minimum(np.random.default_rng(3).zipf(1.4, n) - 1, vocab_size - 1).astype(np.uint32)


@pytest.fixture
def many_parts(monkeypatch):
    """Blocks and threads also where there is little to do."""
    monkeypatch.setattr(glove, "PART_CELLS", 50)
    monkeypatch.setattr(glove, "PARTS", 7)
    monkeypatch.setattr(glove, "SWEEPS", 2)
    monkeypatch.setenv("SEQLOOM_THREADS", "2")


def weight(x, x_max=100.0, alpha=0.75):
    return np.minimum((x / x_max) ** alpha, 1)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("parts", [1, 7])
def test_every_cell_is_visited_once_and_the_loss_is_the_formula(
    many_parts, monkeypatch, symmetric, parts
):
    """With steps of next to nothing an epoch only measures."""
    monkeypatch.setattr(glove, "PARTS", parts)
    cells = count_cells(random_ids(), 90, window=3, symmetric=symmetric)
    config = GloveConfig(dimensions=13, lr=1e-9, bias_rate=1e-9, x_max=20.0, symmetric=symmetric)
    learner = Factorisation(cells, config)
    assert learner.parts == parts
    w, c, biases = (part.astype(np.float64) for part in learner.result())
    table = np.zeros((90, 90))
    table[np.repeat(np.arange(90), np.diff(cells.offsets)), cells.columns] = cells.values
    if symmetric:
        table = np.maximum(table, table.T)
    error = w @ c.T + biases[0][:, None] + biases[1] - np.log(np.where(table > 0, table, 1))
    expected = (weight(table, 20.0) * error**2 / 2).sum()
    for epoch in range(3):
        losses, counts = zip(*(learner.round(epoch, i) for i in range(parts * glove.SWEEPS)))
        assert sum(counts) == cells.count == np.count_nonzero(table) == sum(learner.rounds())
        assert sum(losses) == pytest.approx(expected, rel=1e-5)


def test_steps_are_those_of_adagrad():
    """One cell at a time, against NumPy: eta g / sqrt(1 + sum of (eta g)^2), both sides from the
    values before.
    """
    eta, of_biases, d = 0.05, 0.3, 5
    draw = np.random.default_rng(0)
    for symmetric in (False, True):
        x = float(draw.uniform(0.2, 300))
        cells = Cells(
            np.array([0, 0, 1, 1]), np.array([2], np.uint32), np.array([x], np.float32), symmetric
        )
        learner = Factorisation(
            cells, GloveConfig(dimensions=d, lr=eta, bias_rate=of_biases, symmetric=symmetric)
        )
        w, c, (b_w, b_c) = (part.astype(np.float64) for part in learner.result())
        squares = [np.ones((3, d)), np.ones((3, d)), np.ones(3), np.ones(3)]
        for epoch in range(20):
            for i in range(glove.SWEEPS):
                learner.round(epoch, i)
            for i, j in [(1, 2), (2, 1)][: 1 + symmetric]:
                slope = weight(x) * (w[i] @ c[j] + b_w[i] + b_c[j] - np.log(x))
                steps = eta * slope * c[j], eta * slope * w[i], of_biases * slope, of_biases * slope
                for values, sums, step, at in zip((w, c, b_w, b_c), squares, steps, (i, j, i, j)):
                    values[at] -= step / np.sqrt(sums[at])
                    sums[at] += step * step
        found = learner.result()
        for ours, theirs in zip(found, (w, c, np.stack([b_w, b_c]))):
            assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)


TOPICS = ("bread butter flour oven dough salt", "ship sail harbour wind anchor deck")


def topic_text(n=600):
    """One word in ten is of the other topic: of pairs that never meet GloVe learns nothing."""
    draw = np.random.default_rng(2)
    words = np.array([topic.split() for topic in TOPICS])  # (2, 6)
    rows = (np.arange(n)[:, None] + (draw.random((n, 8)) < 0.1)) % 2
    return "".join(
        " ".join(line) + " and the\n" for line in words[rows, draw.integers(0, 6, (n, 8))]
    )


@pytest.fixture(scope="module")
def fitted():
    return Glove(dimensions=10, epochs=40, window=5, min_count=2).fit(topic_text())


def test_two_topics_separate(fitted):
    losses = fitted.fit_info["losses"]
    assert len(losses) == 40
    assert losses[-1] < losses[0] / 10
    assert fitted.fit_info["words"] == 14
    for topic in TOPICS:
        for word in topic.split():
            assert {other for other, _ in fitted.nearest(word, 5)} == set(topic.split()) - {word}


def test_which_vectors(fitted):
    assert (
        fitted.vectors.matrix.tobytes()
        == (fitted.matrix("input") + fitted.matrix("output")).tobytes()
    )
    for which in ("input", "output"):
        again = Glove(dimensions=10, epochs=40, window=5, min_count=2, vectors=which).fit(
            topic_text()
        )
        assert again.vectors.matrix.tobytes() == fitted.matrix(which).tobytes()
    assert fitted.parameters == 2 * 14 * 10 + 2 * 14


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = seqloom.load(tmp_path / "model")
    assert isinstance(again, Glove)
    assert again.label() == "glove10"
    for name, array in fitted.arrays().items():
        assert again.arrays()[name].tobytes() == array.tobytes()
    assert again.nearest("bread", 3) == fitted.nearest("bread", 3)
    assert again.vectors.counts.sum() == fitted.fit_info["tokens"]


OPTIONS = {"dimensions": 12, "epochs": 4, "window": 4, "min_count": 1}


def bits(model):
    return b"".join(array.tobytes() for array in model.arrays().values())


def test_the_same_bits_for_any_number_of_threads_and_any_memory(
    many_parts, monkeypatch, shakespeare
):
    text, made = shakespeare[:60_000], []
    for threads, memory in (("1", None), ("2", None), ("5", None), ("2", 50_000)):
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        made.append(bits(Glove(**OPTIONS).fit(text, memory=memory)))
    assert made[1:] == made[:-1]
    assert bits(Glove(**OPTIONS, seed=9).fit(text)) != made[0]


def test_broken_off_it_goes_on_to_the_same_bits(many_parts, monkeypatch, shakespeare, tmp_path):
    text, rounds, whole = shakespeare[:60_000], [], Factorisation.round
    straight = bits(Glove(**OPTIONS).fit(text))
    monkeypatch.setattr(
        learning._State, "due", lambda state: state.done >= 9 and not state.keeper.has_checkpoint()
    )

    def dies(self, epoch, number):
        rounds.append((epoch, number))
        if len(rounds) == 17:
            raise RuntimeError("killed")
        return whole(self, epoch, number)

    monkeypatch.setattr(Factorisation, "round", dies)
    with pytest.raises(RuntimeError, match="killed"):
        Glove(**OPTIONS).fit(text, run=tmp_path / "run")
    model = Glove(**OPTIONS).fit(text, run=tmp_path / "run")
    assert bits(model) == straight
    assert len(rounds) < 17 + 56 - 7
    assert rounds[-1] == (3, 13)
    assert len(model.fit_info["losses"]) == 4


def test_what_is_refused():
    with pytest.raises(
        DataError, match="seen 5 times or more; give more text or a lower min_count"
    ):
        Glove().fit("a b c\n")
    with pytest.raises(DataError, match=r"no two words .* are next to each other in one line"):
        Glove(min_count=1).fit("a\nb\nc\n")
    with pytest.raises(TrainingError, match=r"not a finite number any more.*lower the lr"):
        Glove(min_count=1, lr=1e6, dimensions=4).fit(topic_text(50))
