"""n-gram models against KenLM's numbers, against the formulas in plain Python, and against themselves."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqloom
from seqloom import NGram
from seqloom.errors import ConfigError, DataError
from seqloom.models.language.estimation import smoothing_named
from tests.twins.ngrams import Model

GOLDEN = Path(__file__).parent.parent / "golden"
METHODS = [
    "modified-kneser-ney",
    "kneser-ney",
    "absolute",
    "witten-bell",
    "add-k",
    "maximum-likelihood",
]


@pytest.fixture(scope="module")
def kenlm_text(shakespeare):
    """The text that KenLM was given: lower case, words and punctuation apart, the last tenth of the
    lines held out.
    """
    lines = [
        " ".join(re.findall(r"[a-z']+|[^\sa-z']", line)) for line in shakespeare.lower().split("\n")
    ]
    lines = [line for line in lines if line]
    cut = 29_499
    return lines[:cut], lines[cut:]


@pytest.mark.parametrize(
    ("name", "order", "prune"),
    [("order3", 3, ()), ("order5", 5, ()), ("order4_pruned", 4, (0, 0, 1, 2))],
)
def test_every_token_equals_kenlm(kenlm_text, name, order, prune):
    train, test = kenlm_text
    model = NGram(order=order, prune=prune).fit(train)
    golden = [line.split("\t") for line in (GOLDEN / f"kenlm_{name}.tsv").read_text().splitlines()]
    ours = [s for line in test[:400] for s in model.full_scores(line)][: len(golden)]
    assert [s.order for s in ours] == [int(g[1]) for g in golden]
    assert max(abs(s.log_prob / math.log(10) - float(g[2])) for s, g in zip(ours, golden)) < 1e-5
    unknown = set(w for line in test for w in line.split()) - set(
        w for line in train for w in line.split()
    )
    assert [s.oov for s in ours] == [g[0] in unknown for g in golden]


def test_discounts_equal_kenlm(kenlm_text):
    model = NGram(order=5).fit(kenlm_text[0])
    for line in (GOLDEN / "kenlm_order5_discounts.txt").read_text().splitlines():
        order, count, *discounts = line.split()
        assert model.fit_info["ngrams"][order] == int(count)
        assert model.fit_info["discounts"][order] == pytest.approx(
            [float(d.split("=")[1]) for d in discounts], abs=1e-4
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_smoothing_equals_the_formulas(method, order):
    rng = np.random.default_rng(7)
    units = [[f"w{min(rng.zipf(1.4), 400)}" for _ in range(rng.integers(1, 9))] for _ in range(650)]
    train, test = units[:600], units[600:]
    model = NGram(order=order, smoothing=method, **({"k": 0.5} if method == "add-k" else {})).fit(
        [" ".join(u) for u in train]
    )
    assert "fallbacks" not in model.fit_info
    vocabulary = {w for u in train for w in u} | {"</s>", "<unk>"}
    twin = Model([[*u, "</s>"] for u in train], order, vocabulary, method=method, k=0.5)
    ours = [x for u in test for x in model.token_scores(" ".join(u))]
    assert ours == pytest.approx(twin.log_probs([[*u, "</s>"] for u in test]), abs=2e-5)


def test_a_distribution_is_the_scores_of_all_tokens(toy_text):
    model = NGram(order=3, smoothing="witten-bell").fit(toy_text)
    _, start = model.stepper().start(1)
    state = model.stepper().start(1)[0]
    tokenizer = model.tokenizer
    for word in ("the", "cat"):
        state, row = model.stepper().step(state, np.array([tokenizer.id(word)]))
    for i in range(tokenizer.vocab_size):
        if i not in (tokenizer.eos_id, tokenizer.unk_id):
            scored = model.token_scores(f"the cat {tokenizer.token(i)}")
            assert row[0, i] == pytest.approx(scored[2], abs=1e-5)
    assert start[0, tokenizer.id("the")] == pytest.approx(model.token_scores("the")[0], abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab "), max_size=8), min_size=1, max_size=8),
    st.integers(1, 4),
    st.sampled_from(METHODS),
)
def test_sums_to_one_on_tiny_corpora(lines, order, method):
    model = NGram(order=order, smoothing=method, tokenizer="byte", unit="stream")
    try:
        model.fit(lines)
    except DataError as error:
        assert "shorter than the order" in str(error)
        return
    stepper = model.stepper()
    state, row = stepper.start(1)
    for byte in b"ab ba\xff":
        assert abs(np.logaddexp.reduce(row[0].astype(np.float64))) < 1e-4
        state, row = stepper.step(state, np.array([byte]))


def test_all_but_maximum_likelihood_are_finite():
    for method in METHODS:
        result = NGram(order=3, smoothing=method).fit("a b c\na b d\n").evaluate("a z\nq\n")
        assert math.isinf(result["perplexity"]) == (method == "maximum-likelihood")
        assert (result["zero_tokens"] > 0) == (method == "maximum-likelihood")
        assert result["oov_tokens"] == 2


def test_maximum_likelihood_is_relative_frequency():
    model = NGram(order=2, smoothing="maximum-likelihood").fit("a b\na c\na b\nb a\n")
    assert math.exp(model.token_scores("a b")[1]) == pytest.approx(2 / 4)  # after a: b b c </s>
    assert math.exp(model.token_scores("a b")[0]) == pytest.approx(3 / 4)


def test_unigram_ignores_order():
    model = NGram(order=1).fit("dog bites man\nman eats dog\n")
    assert model.score("dog bites man") == pytest.approx(model.score("man bites dog"), abs=1e-6)


def test_tiny_corpora_take_a_stated_fallback(toy_text):
    model = NGram(order=4).fit(toy_text)
    assert model.fit_info["fallbacks"]
    assert all("discount" in note for note in model.fit_info["fallbacks"].values())


def test_discounts_where_counts_of_counts_are_missing():
    """n[j]: n-grams seen j times. One discount where the third cannot be had or leaves its range,
    then fixed ones.
    """
    modified, plain = smoothing_named("modified-kneser-ney"), smoothing_named("kneser-ney")
    y = 60 / (60 + 2 * 20)
    usual = modified.weights(np.array([0, 60, 20, 10, 5, 0]), 99)
    assert usual.discounts == pytest.approx(
        (1 - 2 * y * 20 / 60, 2 - 3 * y * 10 / 20, 3 - 4 * y * 5 / 10)
    )
    assert not usual.note
    for few in ([0, 6, 2, 0, 5, 0], [0, 6, 2, 9, 5, 0]):  # 2 - 3 y 9 / 2 is below zero
        found = modified.weights(np.array(few), 99)
        assert found.discounts == (0.6, 0.6, 0.6)
        assert "one discount, 0.600" in found.note
    for none in ([0, 0, 2, 1, 1, 0], [0, 6, 0, 1, 1, 0]):
        assert modified.weights(np.array(none), 99).discounts == (0.5, 1.0, 1.5)
        assert plain.weights(np.array(none), 99).discounts == (0.5, 0.5, 0.5)


def test_characters_of_shakespeare(shakespeare):
    """Order 6 over characters, last tenth held out: about 1.52 nats."""
    cut = len(shakespeare) * 9 // 10
    model = NGram(order=6, tokenizer="char", unit="stream").fit(shakespeare[:cut])
    result = model.evaluate(shakespeare[cut:], samples=0)
    assert result["nats"] / result["tokens"] == pytest.approx(1.52, abs=0.005)


@pytest.mark.parametrize("smoothing", ["modified-kneser-ney", "add-k"])
@pytest.mark.parametrize("order", [1, 2, 5])
def test_long_texts_are_scored_by_an_index_to_the_same_bits(kenlm_text, smoothing, order):
    """Long texts use a hash table of wide contexts and many segments; single lines neither; both
    must agree.
    """
    train, test = kenlm_text
    model = NGram(order=order, smoothing=smoothing).fit(train)
    lines = (test * 4)[:6000]
    one_by_one = [model.token_scores(line) for line in lines[:1500]]
    assert "index" not in model.trie.__dict__
    together = model.token_scores(lines)
    assert (len(model.trie.index) > 1000) == (order > 1)
    assert together[:1500] == one_by_one
    assert [model.token_scores(line) for line in lines[:200]] == one_by_one[
        :200
    ]  # now with the index


def test_memory_limit_gives_the_identical_model(shakespeare):
    text = shakespeare[:200_000]
    a, b = NGram(order=4).fit(text), NGram(order=4).fit(text, memory="1M")
    for name, array in a.arrays().items():
        assert np.array_equal(array, b.arrays()[name]), name


def test_threads_do_not_change_the_model(shakespeare, monkeypatch):
    a = NGram(order=3).fit(shakespeare[:200_000])
    monkeypatch.setenv("SEQLOOM_THREADS", "1")
    b = NGram(order=3).fit(shakespeare[:200_000])
    assert all(np.array_equal(x, b.arrays()[name]) for name, x in a.arrays().items())


def test_pruning_needs_a_sensible_list():
    for bad in ((1, 1), (0, 2, 1), (0, 0, 0, 0)):
        with pytest.raises(ConfigError, match="prune"):
            NGram(order=3, prune=bad)


def test_pruned_model_is_smaller_and_sums_to_one(shakespeare):
    text = shakespeare[:100_000]
    full, pruned = NGram(order=3).fit(text), NGram(order=3, prune=(0, 1, 1)).fit(text)
    assert pruned.parameters < full.parameters / 2
    stepper = pruned.stepper()
    state, _ = stepper.start(1)
    for word in ("You", "are", "all"):
        state, row = stepper.step(state, np.array([pruned.tokenizer.id(word)]))
        assert abs(np.logaddexp.reduce(row[0].astype(np.float64))) < 1e-4


def test_literal_specials_are_words():
    model = NGram(order=2).fit("<s> a </s> b\n<s> b </s> a\n")
    tokens = [s.token for s in model.full_scores("<s> a </s>")]
    assert tokens == ["<s>", "a", "</s>", "</s>"]
    assert all(not s.oov for s in model.full_scores("<s> a </s>"))
    scores = model.token_scores("a </s> b")  # the word </s> does not end the unit
    assert len(scores) == 4


def test_literal_unk_is_the_unknown_word():
    model = NGram(order=2).fit("a <unk> b\nb <unk> a\n")
    assert model.token_scores("a <unk>")[1] == pytest.approx(model.token_scores("a zebra")[1])
    assert model.signature().to_dict()["tokenizer"].endswith("closed")
    assert model.evaluate("a zebra\n")["oov_tokens"] == 0


def test_order_above_the_corpus_is_refused():
    with pytest.raises(DataError, match="shorter than the order"):
        NGram(order=7).fit("a b c\n")


@pytest.mark.parametrize(
    "options", [{"order": 0}, {"smoothing": "knesser-ney"}, {"ordr": 3}, {"k": 0}]
)
def test_wrong_options_name_the_problem(options):
    with pytest.raises(ConfigError) as error:
        NGram(**options)
    assert next(iter(options)) in str(error.value)
    if "ordr" in options:
        assert "did you mean 'order'" in str(error.value)


def test_sampled_text_follows_the_model(toy_text):
    """Frequencies of the first word over many samples approach the model's own distribution."""
    model = NGram(order=2).fit(toy_text)
    texts = model.generate([""] * 4000, max_tokens=1, seed=3)
    share = sum(t == "the" for t in texts) / len(texts)
    p = math.exp(model.token_scores("the")[0])
    assert share == pytest.approx(p, abs=0.03)


def test_sparsity_report(toy_text):
    """How many n-grams could be, are, and were met in the test text."""
    model = NGram(order=3).fit(toy_text)
    rows = model.sparsity("the cat sat on the sea\n")
    assert model.sparsity("the zebra\n")[0].seen_in_test == pytest.approx(2 / 3)
    assert [r.order for r in rows] == [1, 2, 3]
    v = model.tokenizer.vocab_size
    assert [r.possible for r in rows] == [v - 1, (v - 1) * v, (v - 1) * v**2]
    assert rows[0].seen_in_test == 1.0
    assert rows[2].seen_in_test == pytest.approx(
        5 / 6
    )  # (<s> the cat) .. (on the sea) new, (the sea </s>) seen


def test_load_is_the_same_model(tmp_path, toy_text):
    model = NGram(order=3).fit(toy_text)
    model.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert again.token_scores(toy_text) == model.token_scores(toy_text)
