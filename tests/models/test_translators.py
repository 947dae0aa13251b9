"""The networks that translate: weights as declared, scores as the steps give them, batches, training."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import seqloom
from seqloom.data.translation import Parallel
from seqloom.decoding.beam import forced_log_probs
from seqloom.decoding.stepper import select
from seqloom.errors import ConfigError, DataError
from seqloom.models.sequence.configs import Sizes
from seqloom.models.sequence.inputs import Encoded
from seqloom.models.translation.model import TranslationModel
from seqloom.models.translation.pairs import PairBatches, encode_texts, hold_out, subword_size
from seqloom.models.translation.seq2seq import Seq2Seq
from seqloom.models.translation.transformer import Transformer
from seqloom.models.translation.translation_net import draw, mixed_inputs, true_share
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.config import TrainConfig

RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("abcde"), n)) for n in RNG.integers(2, 7, 60)]
PAIRS = [(word, word[::-1]) for word in WORDS]
SMALL = {
    "seq2seq": (Seq2Seq, {"d_embed": 12, "d_hidden": 8}),
    "transformer": (
        Transformer,
        {"d_model": 12, "n_heads": 2, "n_layers": 1, "n_decoder_layers": 2, "d_mlp": 16},
    ),
}
SHORT = TrainConfig(steps=3, batch_size=8)


def fitted(name, pairs=PAIRS, *, train=SHORT, valid=None, **options):
    cls, small = SMALL[name]
    return cls(**{"tokenizer": "char", **small, **options}).fit(pairs, train=train, valid=valid)


@pytest.fixture(scope="module", params=SMALL)
def model(request):
    return fitted(request.param)


# ---- weights


def variants():
    """Options that change the shapes of weights."""
    for name, tied, shared in itertools.product(SMALL, (True, False), (True, False)):
        yield name, {"tied": tied, "shared_vocabulary": shared}
    yield from (
        ("transformer", options)
        for options in (
            {"norm": "post"},
            {"n_layers": 2},
            {"d_mlp": None},
            {"d_head": 5},
            {"bias": False},
            {"norm_kind": "rms"},
            {"activation": "geglu"},
            {"positions": "learned", "embedding_norm": True, "norm": "post"},
            {
                "positions": "t5",
                "norm_kind": "rms",
                "bias": False,
                "d_head": 3,
                "activation": "swiglu",
            },
        )
    )
    for encoder, attention in itertools.product(
        ("bag", "window", "cnn", "gru", "bilstm", "transformer"), ("none", "dot")
    ):
        yield "seq2seq", {"encoder": encoder, "attention": attention}
    for attention, options in itertools.product(
        ("additive", "general", "concat", "scaled"),
        (
            {},
            {"coverage": True, "cell": "rnn"},
            {"input_feeding": True, "tied": False, "n_decoder_layers": 2},
            {"bottleneck": "every-step", "cell": "lstm"},
            {"one_network": True, "shared_vocabulary": True, "cell": "lstm"},
        ),
    ):
        yield "seq2seq", {"attention": attention, **options}
    yield (
        "seq2seq",
        {"attention": "none", "one_network": True, "shared_vocabulary": True, "d_embed": 8},
    )
    yield "seq2seq", {"attention": "none", "bottleneck": "every-step", "tied": False}


@pytest.mark.parametrize(
    "sizes", [Sizes(6, 12), Sizes(columns=3, missing=True)], ids=["texts", "numbers"]
)
def test_saved_shapes_are_those_of_the_network(sizes):
    tried = set()
    for name, options in variants():
        if sizes.columns and options.get("shared_vocabulary"):
            continue
        cls, small = SMALL[name]
        model = cls(**{"tokenizer": "char", **small, **options})
        width = model.d_embed
        model.learnt = {"sizes": (sizes if sizes.columns else Sizes(6, width)).to_dict()}
        model.tokenizers = {"target": Tokenizer(kind="char").fit(["abcd"])}
        expected = {
            key: tuple(value.shape) for key, value in model.build_fitted().state_dict().items()
        }
        assert model.fitted_shapes() == expected, (name, options)
        tried.add(frozenset(expected.items()))
    assert len(tried) > 15


@pytest.mark.parametrize(
    "options",
    [
        ("seq2seq", {"shared_vocabulary": True, "one_network": True}),
        ("seq2seq", {"tokenizer": "bpe", "vocab_size": 270}),
        ("seq2seq", {"source_tokenizer": "byte", "attention": "none"}),
        ("transformer", {"shared_vocabulary": True}),
    ],
    ids=str,
)
def test_saved_and_loaded_it_is_the_same(options, tmp_path):
    model = fitted(options[0], **options[1])
    model.save(tmp_path / "model")
    again = seqloom.load(tmp_path / "model")
    assert (
        again.translate(WORDS[:5], nbest=2)[0][0].score
        == model.translate(WORDS[:5], nbest=2)[0][0].score
    )
    assert again.score(*PAIRS[0]) == model.score(*PAIRS[0])
    assert again.tokenizers.keys() == {"source", "target"}


# ---- scores and steps


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"coverage": True},
        {"input_feeding": True},
        {"attention": "none"},
        {"reverse_source": True},
        {"one_network": True, "shared_vocabulary": True},
        {"encoder": "transformer", "attention": "dot", "n_heads": 2},
        None,
    ],
    ids=str,
)
def test_targets_score_as_their_steps_do(options):
    model = fitted("transformer") if options is None else fitted("seq2seq", **options)
    sources, targets = ["abcde", "a", "", "deadbeef"], ["edcba", "", "bcd", "e"]
    by_steps = forced_log_probs(model.decoder(sources), model.target_ids(targets))
    for ours, theirs in zip(model.pair_log_probs(sources, targets), by_steps, strict=True):
        assert np.allclose(ours, theirs, atol=1e-5)
    alone = model.pair_log_probs(sources[1:2], targets[1:2])[0]
    assert np.allclose(alone, by_steps[1], atol=1e-5)


def test_rows_are_dropped_and_copied_without_their_sources(model):
    stepper = model.decoder(["abc", "de", "eeee"])
    state, first = stepper.start(3)
    chosen = np.array([2, 2, 0])
    moved, _ = stepper.step(select(state, chosen), np.array([3, 4, 5]))
    assert moved.source.tolist() == [2, 2, 0]
    _, log_probs = stepper.step(moved, np.array([4, 4, 4]))
    for row, (source, tokens) in enumerate((("eeee", [3, 4]), ("eeee", [4, 4]), ("abc", [5, 4]))):
        alone = model.decoder([source])
        state, expected = alone.start(1)
        assert np.allclose(expected[0], first[chosen[row]], atol=1e-5)
        for token in tokens:
            state, expected = alone.step(state, np.array([token]))
        assert np.allclose(log_probs[row], expected[0], atol=1e-5)


def test_a_stepper_shows_what_it_looks_at(model):
    stepper = model.decoder(["abc", "d"])
    state, _ = stepper.start(2)
    weights, lengths = stepper.attention(state)
    assert lengths.tolist() == [4, 2]  # with </s>
    assert np.allclose(weights.sum(1), 1, atol=1e-5)
    assert not weights[1, 2:].any()
    first = model.alignments(["abc", "d"], ["cba", "d"])
    assert np.allclose(first[1][0], weights[1, :2], atol=1e-5)


def test_alignments_are_of_target_by_source_tokens(model):
    found = model.alignments(["abc", "de"], ["c", "edde"])
    assert [one.shape for one in found] == [(2, 4), (5, 3)]
    assert all(np.allclose(one.sum(1), 1, atol=1e-5) for one in found)
    assert fitted("seq2seq", attention="none").alignments(["a"], ["a"]) is None


def test_alignments_of_one_head_average_to_those_of_all():
    model = fitted("transformer")
    every = [
        model.alignments(["abc"], ["cb"], layer=layer, head=head)[0]
        for layer in (0, 1)
        for head in (0, 1)
    ]
    assert np.allclose(np.mean(every, 0), model.alignments(["abc"], ["cb"])[0], atol=1e-6)
    with pytest.raises(ConfigError, match="head must be from 0 to 1; got 2"):
        model.alignments(["abc"], ["cb"], head=2)


def test_reversed_sources_are_aligned_in_their_own_order():
    model = fitted("seq2seq", reverse_source=True)
    plain = fitted("seq2seq")
    plain.net.restore(model.weights)
    ours, theirs = model.alignments(["abcd"], ["x"])[0], plain.alignments(["dcba"], ["x"])[0]
    assert np.allclose(ours, theirs[:, [3, 2, 1, 0, 4]], atol=1e-6)
    sources = ["abcd", "ab"]
    for stepper in (
        model.decoder(sources),
        model.network_decoder(model.network(), model.encode_sources(sources)),
    ):
        weights, lengths = stepper.attention(stepper.start(2)[0])
        for row, length, aligned in zip(
            weights, lengths, model.alignments(sources, ["x", "x"]), strict=True
        ):
            assert np.allclose(row[:length], aligned[0], atol=1e-5)
    encoded = encode_texts(model.tokenizers["source"], ["ab", "cde"], reverse=True).steps["ids"]
    assert model.tokenizers["source"].decode(encoded) == "baedc"


# ---- data


def lengths_of(*rows):
    return Encoded({"ids": np.zeros(sum(rows), np.int64)}, np.concatenate([[0], np.cumsum(rows)]))


def test_batches_hold_a_budget_of_tokens_with_little_padding():
    rng = np.random.default_rng(1)
    targets = rng.poisson(14, 4000) + 2
    sources = np.maximum(targets + rng.integers(-5, 6, len(targets)), 1)
    batches = PairBatches(lengths_of(*sources), lengths_of(*targets), [0], most_tokens=2048)
    groups = batches.groups(0)
    assert sorted(np.concatenate(groups).tolist()) == list(range(4000))
    assert all(len(g) * (sources[g].max() + targets[g].max()) <= 2048 for g in groups)
    assert batches.waste() < 0.1
    unsorted = [np.arange(low, min(low + 60, 4000)) for low in range(0, 4000, 60)]
    batches._epoch = (0, unsorted)
    assert batches.waste() > 0.3
    assert [
        len(g)
        for g in PairBatches(
            lengths_of(*sources), lengths_of(*targets), [0], most_tokens=1, batch_size=50
        ).groups(0)
    ] == [50] * 80


def test_a_batch_is_what_its_cursor_says():
    tokenizer = Tokenizer(kind="char").fit(WORDS)
    make = lambda: PairBatches(  # noqa: E731
        encode_texts(tokenizer, WORDS),
        encode_texts(tokenizer, WORDS),
        [tokenizer.eos_id],
        most_tokens=60,
        seed=3,
    )
    one, other = make(), make()
    other.batch((0, 0))
    batch, again = one.batch((1, 2)), other.batch((1, 2))
    assert all(np.array_equal(batch[name], again[name]) for name in batch.arrays)
    assert not np.array_equal(one.groups(0)[0], one.groups(1)[0])
    assert batch["inputs"][0, 0] == tokenizer.eos_id
    assert np.array_equal(batch["inputs"][:, 1:], batch["targets"][:, :-1])
    assert 1 < batch["epochs"][0] < 2


def test_held_out_pairs_share_no_source_with_the_others():
    data = Parallel.of([(str(i // 2), str(i)) for i in range(400)])
    train, held = hold_out(data, None)
    assert len(train) + len(held) == 400
    assert 0 < len(held) <= 20
    assert not set(train.sources) & set(held.sources)
    assert hold_out(data.part(slice(0, 20)), None)[1] is None
    assert hold_out(data, train) == (data, train)


def test_of_labels_some_targets_are_held_out_and_no_label():
    data = Parallel.of([(label, f"{label}{i % 90}") for label in "abc" for i in range(100)])
    train, held = hold_out(data, None)
    assert 0 < len(held) <= 20
    assert set(train.sources) == set("abc")
    assert len(set(held.sources)) > 1
    assert not set(zip(train.sources, train.targets)) & set(zip(held.sources, held.targets))


def test_long_pairs_are_left_out_and_said(monkeypatch):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    fitted("seq2seq", [*PAIRS, ("a" * 30, "a"), ("b", "b" * 40)], max_length=20, valid=PAIRS[:9])
    assert (
        "2 of 62 pairs have more than 20 tokens and are left out; max_length=... sets this" in said
    )
    with pytest.raises(DataError, match="all pairs of pairs are longer than max_length 1"):
        fitted("seq2seq", max_length=1)


def test_sources_may_be_arrays():
    rng = np.random.default_rng(0)
    sources = [rng.normal(size=(n, 3)).astype(np.float32) for n in (4, 1, 6, 2) * 4]
    sources[0][1, 1] = np.nan
    data = list(zip(sources, ["a", "bc", "cab", "bb"] * 4))
    for name in SMALL:
        model = fitted(name, data)
        assert model.reads_numbers
        together, alone = (
            model.token_scores(sources[:3], ["a", "bc", "b"]),
            model.token_scores(sources[1:2], ["bc"]),
        )
        assert np.allclose(together[1], alone[0], atol=1e-5)
        assert len(model.translate(sources[:2])) == 2
        with pytest.raises(ConfigError, match="sources of pairs are numbers, which have no tokens"):
            fitted(name, data, shared_vocabulary=True)


def test_a_source_may_be_a_vector():
    vectors = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    targets = ["ab", "c"] * 10
    model = fitted("seq2seq", Parallel.of(vectors, targets))
    each = model.translate(list(vectors[:3]))
    assert (
        [model.translate(vector) for vector in vectors[:3]]
        == each
        == model.translate(vectors[:3, None])
    )
    assert model.score(vectors[0], "ab") == pytest.approx(model.score(vectors[:1, None], ["ab"])[0])
    with pytest.raises(DataError, match="fitted on single vectors; source 1 has 3 steps"):
        model.translate(vectors[:3])


def test_the_number_of_subwords_follows_from_the_text():
    assert [subword_size(n) for n in (0, 500_000, 2_000_000, 8_000_000, 10**9)] == [
        500,
        2000,
        4000,
        8000,
        16000,
    ]
    words = [f"{a}{b}" for a in WORDS for b in WORDS]
    model = fitted("seq2seq", [(a, b) for a, b in zip(words, words[::-1])], target_tokenizer="bpe")
    assert model.target_tokenizer.vocab_size == 500
    assert (
        fitted("seq2seq", target_tokenizer="bpe", vocab_size=260).target_tokenizer.vocab_size == 260
    )


def test_refusals():
    with pytest.raises(ConfigError, match="a shared vocabulary has one tokenizer"):
        Seq2Seq(shared_vocabulary=True, source_tokenizer="char")
    with pytest.raises(ConfigError, match="one_network has no effect with shared_vocabulary off"):
        Seq2Seq(one_network=True)
    with pytest.raises(ConfigError, match="d_model 10 must be even and a multiple of n_heads 4"):
        Transformer(d_model=10)
    with pytest.raises(ConfigError, match="coverage has no effect with attention none"):
        Seq2Seq(attention="none", coverage=True)
    with pytest.raises(ConfigError, match="is neither one of"):
        fitted("seq2seq", tokenizer="charr")


# ---- training


@pytest.mark.parametrize("name", SMALL)
def test_it_learns_to_turn_words_around(name):
    big = {
        "seq2seq": {"d_hidden": 32, "d_embed": 32},
        "transformer": {"d_model": 32, "n_decoder_layers": 1},
    }[name]
    model = fitted(
        name, PAIRS[:30], train=TrainConfig(steps=150, batch_size=30), dropout=0.0, **big
    )
    assert model.translate([source for source, _ in PAIRS[:30]]) == [
        target for _, target in PAIRS[:30]
    ]
    attention_weights = model.alignments(["abcde"], ["edcba"])[0]
    if name == "seq2seq":
        assert attention_weights.shape == (6, 6)


@pytest.mark.parametrize("options", [{}, {"scheduled_sampling": "linear", "dropout": 0.3}])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(options, tmp_path, monkeypatch):
    from seqloom.training import loop

    train = TrainConfig(steps=8, batch_size=8, evaluate_every=4)
    whole = fitted("seq2seq", train=train, valid=PAIRS[:9], **options)
    original = loop._Loop._update

    def stops(self, rate):
        if self.step == 5:
            self._checkpoint()
            raise KeyboardInterrupt
        return original(self, rate)

    monkeypatch.setattr(loop._Loop, "_update", stops)
    cls, small = SMALL["seq2seq"]
    with pytest.raises(KeyboardInterrupt):
        cls(tokenizer="char", **small, **options).fit(
            PAIRS, train=train, valid=PAIRS[:9], run=tmp_path / "run"
        )
    monkeypatch.setattr(loop._Loop, "_update", original)
    again = cls(tokenizer="char", **small, **options).fit(
        PAIRS, train=train, valid=PAIRS[:9], run=tmp_path / "run"
    )
    assert all(
        np.array_equal(again.weights[name], weight) for name, weight in whole.weights.items()
    )


def test_the_share_of_true_inputs():
    for decay in ("linear", "exponential", "inverse-sigmoid"):
        shares = [true_share(decay, epochs, 4.0) for epochs in (0.0, 2.0, 4.0, 8.0, 1e6)]
        assert shares[0] > 0.98
        assert shares == sorted(shares, reverse=True)
        assert shares[2] == pytest.approx(0.5)
        assert shares[-1] < 1e-6
    assert true_share("linear", 2.0, 4.0) == 0.75
    assert true_share("exponential", 8.0, 4.0) == 0.25
    assert true_share("inverse-sigmoid", 0.0, 4.0) == pytest.approx(100 / 101)


def test_scheduled_inputs_are_true_or_drawn_by_their_probability(model):
    network = model.network()
    batch = {
        name: torch.from_numpy(array)
        for name, array in model.encode_sources(["abc"]).batch(np.array([0])).items()
    }
    memory = network.encode(batch)
    inputs = torch.tensor([[model.target_tokenizer.eos_id, 3, 4]])
    assert torch.equal(mixed_inputs(network, memory, inputs, 1.0), inputs)
    torch.manual_seed(0)
    with torch.no_grad():
        features = network.features(memory, inputs)
        expected = network.output.log_probs(features[:, 0]).exp()[0]
        drawn = draw(network, features[:, :1].expand(-1, 4000, -1))
    assert torch.allclose(
        torch.bincount(drawn[0], minlength=len(expected)) / 4000, expected, atol=0.04
    )
    mixed = torch.stack([mixed_inputs(network, memory, inputs, 0.0)[0] for _ in range(200)])
    assert (mixed[:, 0] == inputs[0, 0]).all()
    counts = torch.bincount(mixed[:, 1], minlength=len(expected)) / 200
    assert torch.allclose(counts, expected, atol=0.15)


def test_bleu_chooses_the_weights_where_asked():
    model = fitted(
        "seq2seq",
        valid=PAIRS[:9],
        train=TrainConfig(steps=4, batch_size=8, evaluate_every=2),
        select_by="bleu",
    )
    assert 0 <= model.fit_info["valid_bleu"] <= 100
    assert "valid_nats" in fitted("seq2seq", valid=PAIRS[:9]).fit_info


def test_the_highest_bleu_is_the_best(monkeypatch):
    found = iter([1.0, 5.0, 3.0, 2.0])
    monkeypatch.setattr(TranslationModel, "_greedy_bleu", lambda self, network, pairs: next(found))
    model = fitted(
        "seq2seq",
        valid=PAIRS[:9],
        train=TrainConfig(steps=4, batch_size=8, evaluate_every=1),
        select_by="bleu",
    )
    assert model.fit_info["valid_bleu"] == 5
