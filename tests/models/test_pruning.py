"""Entropy pruning against the definition: the relative entropy of the model with and without an n-gram."""

import math

import numpy as np
import pytest

from seqloom import NGram
from seqloom.errors import ConfigError
from tests.conftest import TOY


def distribution(model, words):
    stepper = model.stepper()
    state, row = stepper.start(1)
    for word in words:
        state, row = stepper.step(state, np.array([model.tokenizer.id(word)]))
    return row[0].astype(np.float64)


def test_change_of_one_bigram_by_definition():
    """Of a bigram model, remove exactly the n-grams whose removal costs less than the threshold,
    worked out in full.
    """
    model = NGram(order=2).fit(TOY)
    trie, tokenizer = model.trie, model.tokenizer
    v = tokenizer.vocab_size
    unigrams = np.exp(trie.log_probs[1 : v + 1].astype(np.float64))
    changes = {}
    for h in range(v + 1):
        context = 1.0 if h == v else unigrams[h]
        lo, hi = int(trie.first[h + 1]), int(trie.first[h + 2])
        explicit = {int(trie.words[t]): math.exp(trie.log_probs[t]) for t in range(lo, hi)}
        full = unigrams * math.exp(trie.backoffs[h + 1])
        for w, p in explicit.items():
            full[w] = p
        for w in explicit:
            rest = {x: p for x, p in explicit.items() if x != w}
            alpha = (1 - sum(rest.values())) / (1 - sum(unigrams[x] for x in rest))
            without = unigrams * alpha
            for x, p in rest.items():
                without[x] = p
            seen = full > 0
            changes[h, w] = math.expm1(
                context * float((full[seen] * np.log(full[seen] / without[seen])).sum())
            )
    threshold = float(np.median(list(changes.values())))
    pruned = NGram(order=2, prune_entropy=threshold).fit(TOY).trie
    kept = {
        (h, int(pruned.words[t]))
        for h in range(v + 1)
        for t in range(pruned.first[h + 1], pruned.first[h + 2])
    }
    expected = {pair for pair, change in changes.items() if change >= threshold * (1 + 1e-4)}
    border = {
        pair for pair, change in changes.items() if abs(change - threshold) <= threshold * 1e-4
    }
    assert expected <= kept <= expected | border
    assert 0 < len(kept) < len(changes)


@pytest.mark.parametrize("threshold", [1e-7, 1e-5, 1e-3])
def test_pruned_models_sum_to_one_and_get_smaller(shakespeare, threshold):
    text = shakespeare[:100_000]
    full, pruned = NGram(order=4).fit(text), NGram(order=4, prune_entropy=threshold).fit(text)
    assert pruned.parameters < full.parameters
    for words in ([], ["You", "are"], ["the", "people"], ["I", "will", "not"]):
        assert abs(np.logaddexp.reduce(distribution(pruned, words))) < 1e-4


def test_a_threshold_of_nothing_changes_nothing_and_more_prunes_more(shakespeare):
    train, test = shakespeare[:300_000], shakespeare[300_000:330_000]
    sizes, perplexities = [], []
    for threshold in (0.0, 1e-8, 1e-6, 1e-4):
        model = NGram(order=3, prune_entropy=threshold).fit(train)
        sizes.append(model.parameters)
        perplexities.append(model.perplexity(test))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 3
    assert perplexities[1] == pytest.approx(perplexities[0], rel=0.01)
    assert perplexities[-1] > perplexities[1]


def test_pruned_model_saves_and_loads(tmp_path):
    model = NGram(order=3, prune_entropy=1e-4).fit(TOY)
    model.save(tmp_path / "m")
    assert NGram.load(tmp_path / "m").token_scores(TOY) == model.token_scores(TOY)


def test_needs_back_off():
    with pytest.raises(ConfigError, match="prune_entropy"):
        NGram(smoothing="add-k", prune_entropy=1e-6)
