"""The tasks by distance: what decides stands where it is said to stand, nothing else does, and
models can use them.
"""

from collections import Counter

import pytest

from seqloom.data.synthetic import NOUNS, agreement_task, copy_task
from seqloom.errors import ConfigError

TASKS = {"copy": copy_task, "agreement": agreement_task}
FORMS = {form: number for pair in NOUNS for number, form in enumerate(pair)}


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5, 17, 100])
def test_what_decides_stands_that_far_back(distance):
    for item in copy_task(50, distance).lines():
        words = item.split()
        assert words[-1] == words[-2 - distance]
        assert words[-2] == "again"
        assert words[-1] not in words[1:-1]
    for item in agreement_task(50, distance).lines():
        words = item.split()
        assert words[-1] == ("was", "were")[FORMS[words[-2 - distance]]]
        assert len(words) == distance + 3


@pytest.mark.parametrize("name", TASKS)
def test_all_follows_from_the_seed(name):
    task = TASKS[name]
    assert task(30, 5, seed=1).lines() == task(30, 5, seed=1).lines() != task(30, 5, seed=2).lines()
    several = task(30, [2, 9, 4])
    assert Counter(several.distances) == {2: 10, 9: 10, 4: 10}
    assert len(several) == 30
    data = several.labelled()
    assert data.columns["distance"] == [str(d) for d in several.distances]
    assert [f"{text} {label}" for text, label in zip(data.texts, data.labels)] == several.lines()


def test_nothing_but_the_first_word_tells_the_answer():
    """The last noun before the verb agrees with it in half of the items."""
    probe = agreement_task(2000, 12)
    nouns = [[word for word in words[2:] if word in FORMS] for words in probe.contexts]
    agree = sum(
        FORMS[words[-1]] == ("was", "were").index(answer)
        for words, answer in zip(nouns, probe.answers)
    )
    assert 0.45 < agree / 2000 < 0.55
    assert 0.45 < probe.answers.count("were") / 2000 < 0.55
    symbols = Counter(copy_task(2000, 3, symbols=4).answers)
    assert len(symbols) == 4
    assert min(symbols.values()) > 400


def test_models_that_look_far_enough_and_models_that_do_not():
    from seqloom import NaiveBayes, NGram

    near, far = copy_task(400, 2, seed=1), copy_task(400, 6, seed=1)
    model = NGram(order=4, tokenizer="whitespace", unit="line").fit(near.lines() + far.lines())
    assert copy_task(100, 2).accuracy(model.score)[2] > 0.95
    assert copy_task(100, 6).accuracy(model.score)[6] < 0.4
    both = copy_task(100, [2, 6]).accuracy(model.score)
    assert both[2] > 0.9
    assert both[6] < 0.5
    classifier = NaiveBayes().fit(agreement_task(500, 0, seed=1).labelled())
    assert classifier.evaluate(agreement_task(200, 0).labelled()).metrics["accuracy"] > 0.99


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: copy_task(0, 3), "a task of 0 items"),
        (lambda: copy_task(3, 0), "distance is 0; give a number from 1 on"),
        (lambda: agreement_task(3, -1), "distance is -1; give a number from 0"),
        (lambda: agreement_task(3, []), "distance is"),
        (lambda: copy_task(3, 3, symbols=1), "symbols is 1; it must be from 2"),
    ],
)
def test_what_is_refused(call, said):
    with pytest.raises(ConfigError, match=said) as error:
        call()
    assert "\n" not in str(error.value)
