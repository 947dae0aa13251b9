"""The trellis of hidden Markov models, against all paths of a tiny model."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

import seqloom
from seqloom import inspect
from seqloom.models.hidden.chain import CategoricalHMM
from seqloom.models.hidden.lattice import of_chain, of_tags

SENTENCES = [
    (["the", "run", "ends"], ["D", "N", "V"]),
    (["dogs", "run"], ["N", "V"]),
    (["the", "dogs", "run"], ["D", "N", "V"]),
    (["run", "the", "ends"], ["V", "D", "N"]),
]


def compare(found, paths, weights, moves):
    """All numbers of a lattice, from the weights of all paths."""
    total = weights.sum()
    n_steps, n_states = found.smoothed.shape
    smoothed, between = np.zeros((n_steps, n_states)), np.zeros((n_steps - 1, n_states, n_states))
    for path, weight in zip(paths, weights / total):
        for t, state in enumerate(path):
            smoothed[t, state] += weight
        for t, (a, b) in enumerate(pairwise(path)):
            between[t, a, b] += weight
    assert found.smoothed == pytest.approx(smoothed, abs=1e-9)
    assert found.moves == pytest.approx(between, abs=1e-9)
    best = int(weights.argmax())
    assert found.path.tolist() == list(paths[best])
    assert found.path_share == pytest.approx(weights[best] / total)
    assert moves == pytest.approx(np.log(total))


def test_of_a_chain():
    chain = CategoricalHMM.random(3, 4, seed=1)
    ids = np.array([0, 3, 1, 2])
    paths = list(product(range(3), repeat=4))
    weights = np.array([weight_of(chain, path, ids) for path in paths])
    found = of_chain(chain, ids)
    compare(found, paths, weights, found.log_prob)
    for t in range(4):
        shorter = list(product(range(3), repeat=t + 1))
        then = np.array([weight_of(chain, path, ids[: t + 1]) for path in shorter])
        expected = [then[[p[-1] == s for p in shorter]].sum() / then.sum() for s in range(3)]
        assert found.filtered[t] == pytest.approx(expected)


def weight_of(chain, path, ids):
    weight = chain.start[path[0]] * chain.emissions[path[0], ids[0]]
    for a, b, symbol in zip(path, path[1:], ids[1:]):
        weight *= chain.transitions[a, b] * chain.emissions[b, symbol]
    return weight


@pytest.mark.parametrize("order", [1, 2])
def test_of_tags(order):
    model = seqloom.HMMTagger(order=order).fit(SENTENCES)
    words = ["the", "run", "dogs", "walks"]
    log_transitions, emissions = model.log_scores(words)
    end, n_tags = emissions.shape[1], len(model.tags)

    def weight(path, last=True):
        framed = [end, end, *path] + [end] * last
        moves = sum(log_transitions[u, v, w] for u, v, w in zip(framed, framed[1:], framed[2:]))
        return np.exp(moves + sum(emissions[t, tag] for t, tag in enumerate(path)))

    paths = list(product(range(n_tags), repeat=4))
    weights = np.array([weight(path) for path in paths])
    (path,) = model.tag_ids([words])
    found = of_tags(log_transitions, emissions, path)
    compare(found, paths, weights, found.log_prob)
    for t in range(4):
        shorter = list(product(range(n_tags), repeat=t + 1))
        then = np.array([weight(path, last=False) for path in shorter])
        expected = [then[[p[-1] == s for p in shorter]].sum() / then.sum() for s in range(n_tags)]
        assert found.filtered[t] == pytest.approx(expected)


def test_the_view_of_both():
    model = seqloom.HMM(states=2, iterations=5).fit("the cat sat\nthe dog sat\n" * 4)
    sheet = inspect.trellis(model, "the dog sat\nthe cat sat")
    assert "Of 2 sequences, the first is shown." in sheet.summary
    assert sheet.data["filter"].sum(1) == pytest.approx(1)
    assert sheet.data["smoothing"].sum(1) == pytest.approx(1)
    assert sheet.data["forgetting"] == pytest.approx(sorted(sheet.data["forgetting"])[::-1])
    tagger = seqloom.HMMTagger().fit(SENTENCES)
    tagged = inspect.trellis(tagger, "the dogs run")
    assert tagged.data["path"] == tagger.predict(["the", "dogs", "run"])
    with pytest.raises(seqloom.errors.ConfigError, match="first must be from 1 to 3"):
        inspect.trellis(tagger, "the dogs run", first=4)


def test_changed_tables(tmp_path):
    """What is given stays, the rest of its row makes room; the trellis is that of a chain with them."""
    model = seqloom.HMM(states=3, iterations=5, tokenizer="word").fit(
        "the cat sat\na dog ran\n" * 4
    )
    place = tmp_path / "tables.json"
    place.write_text(
        '{"start": {"0": 0.5}, "transitions": {"1": {"0": 0.9, "2": 0.6}}, "emissions": {"2": {"cat": 0.25}}}'
    )
    found = inspect.trellis(model, "the cat", tables=str(place))
    assert any("3 rows are changed" in line for line in found.summary)
    start, transitions, emissions = (np.array(one) for one in model.chain.arrays().values())
    start[1:] *= 0.5 / start[1:].sum()
    start[0] = 0.5
    transitions[1] = [0.6, 0, 0.4]  # more than one is divided by its sum
    cat = model.tokenizer.id("cat")
    others = np.arange(emissions.shape[1]) != cat
    emissions[2, others] *= 0.75 / emissions[2, others].sum()
    emissions[2, cat] = 0.25
    chain = CategoricalHMM(start, transitions, emissions)
    ids, _ = model.encode("the cat")
    expected = of_chain(chain, np.asarray(ids))
    assert found.data["log_prob"] == pytest.approx(expected.log_prob)
    assert found.data["smoothing"] == pytest.approx(expected.smoothed)
    words = found.data["tables"]["words"]
    assert found.data["tables"]["emissions"][2][words.index("cat")] == pytest.approx(0.25)
    for text, message in (
        ('{"start": {"9": 0.5}}', "no column 9"),
        ('{"transitions": {"7": {"0": 1}}}', "no state 7"),
        ('{"emissions": {"0": {"zebra": 1}}}', "no token"),
        ('{"start": {"0": 2}}', "from 0 to 1"),
        ('{"begin": {}}', "start, transitions, emissions"),
        ("[", "not JSON"),
    ):
        place.write_text(text)
        with pytest.raises(seqloom.errors.ConfigError, match=message):
            inspect.trellis(model, "the cat", tables=str(place))
    place.write_text('{"emissions": {"0": {"cat": 0}, "1": {"cat": 0}, "2": {"cat": 0}}}')
    with pytest.raises(seqloom.errors.DataError, match="cannot occur: token 2"):
        inspect.trellis(model, "the cat", tables=str(place))
