"""Pairs of texts under a published encoder: read as transformers reads them, learnt, saved, refused
where they do not fit.
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import seqloom
from seqloom import (
    NaiveBayes,
    inspect,
    interop,
)
from seqloom.contracts.fitting import FitOptions
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.models.classification.majority import Majority
from seqloom.models.classification.neural_classifier import NeuralClassifier
from seqloom.models.sequence.model import held_out
from seqloom.models.sequence.published import PublishedInputs, open_encoder
from seqloom.testing.classification import check_classifier
from seqloom.training.config import TrainConfig
from tests.interop.encoder_files import FAMILIES, WORDS, make_config, make_network, save
from tests.models.test_composition import QUICK, check_round_trip, make_encoder
from tests.models.test_fine_tuning import said  # noqa: F401

PAIRS = [
    (("the cat sat", "the cat"), "+"),
    (("a log", "on the cat"), "-"),
    (("the cat on a log", "cat"), "+"),
    (("on", "sat sat"), "-"),
    (("", "the"), "+"),
    (("cat", ""), "-"),
]
ASKED = [pair for pair, _ in PAIRS]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("published") / "encoder")


@pytest.mark.parametrize(
    "options", [{}, {"n_types": 0}, {"n_types": 1}, {"d_embed": 6, "shared_layers": True}], ids=str
)
def test_what_the_head_reads_is_what_the_encoder_gives_for_a_pair(options, tmp_path):
    place = make_encoder(tmp_path / "encoder", **options)
    model = NeuralClassifier(encoder=place, frozen=True).fit(PAIRS, train=QUICK)
    network, batch = model.network(), model.encode(ASKED).batch(np.arange(len(ASKED)))
    with torch.inference_mode():
        arrays = {name: torch.from_numpy(array) for name, array in batch.items()}
        found, lengths = network.features(network.reader(arrays), arrays)
    for row, (length, wanted) in enumerate(
        zip(lengths.tolist(), seqloom.load(place).hidden(ASKED))
    ):
        assert length == len(wanted.vectors)
        np.testing.assert_allclose(found[row, :length].numpy(), wanted.vectors, atol=1e-5)


def test_the_texts_of_a_pair_are_told_apart(place):
    """By the types of their tokens, where the encoder has any."""
    opened = open_encoder(place)
    encoded = PublishedInputs(opened.published, opened.tokenizer).encode_pairs(
        [("the cat", "sat"), ("", "")]
    )
    first, second = (encoded.batch(np.array([i])) for i in range(2))
    assert [opened.tokenizer.token(i) for i in first["ids"][0]] == [
        "[CLS]",
        "the",
        "cat",
        "[SEP]",
        "sat",
        "[SEP]",
    ]
    assert first["types"][0].tolist() == [0, 0, 0, 0, 1, 1]
    assert [opened.tokenizer.token(i) for i in second["ids"][0]] == ["[CLS]", "[SEP]", "[SEP]"]
    model = NeuralClassifier(encoder=place, frozen=True).fit(PAIRS, train=QUICK)
    a, b = model.predict_proba([("the cat", "sat"), ("sat", "the cat")])
    assert not np.allclose(a, b)


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_those_of_transformers_with_every_length(family, tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.set_verbosity_error()
    interop.open(save(make_network(make_config(family)), tmp_path / "theirs")).save(
        tmp_path / "ours"
    )
    interop.write(seqloom.load(tmp_path / "ours"), tmp_path / "back")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    opened, draw = open_encoder(str(tmp_path / "ours")), random.Random(0)
    pairs = [
        tuple(" ".join(draw.choices(WORDS[5:], k=draw.randrange(9))) for _ in range(2))
        for _ in range(40)
    ]
    for longest in (6, 7, 10, 11, 19):
        encoded = PublishedInputs(
            opened.published, opened.tokenizer, max_length=longest
        ).encode_pairs(pairs)
        wanted = tokenizer(
            [a for a, _ in pairs], [b for _, b in pairs], truncation=True, max_length=longest
        )
        for i, ids in enumerate(wanted["input_ids"]):
            row = encoded.batch(np.array([i]))
            assert row["ids"][0].tolist() == ids
            if "token_type_ids" in wanted and opened.published.layout.n_types > 1:
                assert row["types"][0].tolist() == wanted["token_type_ids"][i]
    assert ("token_type_ids" in wanted) == (family in ("bert", "albert", "electra"))


def test_the_longer_text_is_cut_first_and_that_is_said(place, said):  # noqa: F811
    opened = open_encoder(place)
    inputs = PublishedInputs(opened.published, opened.tokenizer, max_length=9)
    row = inputs.encode_pairs([("the cat sat on a log", "sat"), ("cat", "cat")]).batch(
        np.array([0])
    )
    tokens = [opened.tokenizer.token(i) for i in row["ids"][0]]
    assert tokens == ["[CLS]", "the", "cat", "sat", "on", "a", "[SEP]", "sat", "[SEP]"]
    assert said == [
        "1 of 2 pairs are longer than the 9 tokens that are read at once; the ends of their longer "
        "texts are left "
        "out"
    ]


@pytest.mark.parametrize("options", [{"frozen": True}, {}, {"pooling": "attention"}], ids=str)
def test_learnt_saved_and_explained(options, place, tmp_path):
    model = NeuralClassifier(encoder=place, **options).fit(PAIRS, train=QUICK)
    check_round_trip(model, tmp_path / "m", lambda m: m.predict_proba(ASKED), ("", ""))
    assert seqloom.load(tmp_path / "m").reads_pairs
    assert model.summary() == "6 pairs, 2 classes"
    why = model.explain(("the cat", "sat"))
    assert [token for token, _ in why.tokens] == ["[CLS]", "the", "cat", "[SEP]", "sat", "[SEP]"]
    assert why.prior + sum(nats for _, nats in why.tokens) == pytest.approx(why.log_odds, abs=0.05)
    if options.get("pooling"):
        assert len(model.attention(("the cat", "sat"))) == 6
    assert list(inspect.explanation(model, ("the cat", "sat")).charts)[-1] == "Largest shares"
    assert len(inspect.explanation(model, ASKED[:2]).charts) == 2


def test_it_learns_what_only_both_texts_tell(tmp_path):
    """Whether the same word is in both: either text alone says nothing."""
    place = make_encoder(tmp_path / "encoder", d_model=16, context=24, n_heads=4)
    words = ["cat", "log", "sat", "on"]
    data = [
        ((a, b), "same" if a == b else "other")
        for a in words
        for b in words
        for _ in range(1 + 2 * (a == b))
    ]
    model = NeuralClassifier(encoder=place, encoder_lr=3e-3, dropout=0.0, hold_out=0.0).fit(
        data, train=TrainConfig(steps=150)
    )
    assert model.score(data) == 1.0
    result = model.evaluate(data, slice_by="length", latency=True)
    assert result["accuracy"] == 1.0


def test_every_rule_of_classifiers_holds(place):
    check_classifier(NeuralClassifier(encoder=place, frozen=True), PAIRS)
    check_classifier(Majority(), PAIRS)


def test_pairs_in_any_form_and_one_at_a_time(place):
    model = NeuralClassifier(encoder=place, frozen=True).fit(
        ASKED, [label for _, label in PAIRS], train=QUICK
    )
    assert model.predict(ASKED[0]) == model.predict(ASKED)[0] == model.predict(tuple(ASKED))[0]
    assert model.predict([]) == []
    errors = model.evaluate(PAIRS, samples=0).details["errors"]
    assert (
        any("the cat" in text for kind in errors for text in map(str, kind["examples"]))
        or not errors
    )


def test_equal_pairs_are_held_out_together(place):
    data = seqloom.Labelled.of(
        [((f"cat {'sat ' * (i % 30)}", "log"), "+-"[i % 2]) for i in range(120)]
    )
    model = NeuralClassifier(encoder=place, frozen=True)
    train, valid = held_out(
        model.config.hold_out, data, FitOptions(), data.examples, [(x,) for x in data.labels]
    )
    assert len(train) + len(valid) == 120
    assert not set(train.examples) & set(valid.examples)
    other = seqloom.Labelled.of(
        [((b, a), label) for (a, b), label in zip(data.examples, data.labels)]
    )
    assert other.fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.predict("the cat"), "reads pairs of texts, but example 1 is no pair"),
        (lambda m: m.predict([ASKED[0], "the cat"]), "example 2 is no pair"),
        (lambda m: m.predict([("a", "b", "c")]), "example 1 is no pair"),
        (lambda m: m.predict([("a", None)]), "example 1 is no pair"),
        (lambda m: m.evaluate([("the cat", "+")]), "reads pairs of texts, but"),
        (lambda m: m.explain("the cat"), "reads pairs of texts, but"),
        (lambda m: m.attention("the cat"), "reads pairs of texts, but"),
    ],
)
def test_single_texts_are_refused_by_a_model_of_pairs(call, message, place):
    model = NeuralClassifier(encoder=place, frozen=True).fit(PAIRS, train=QUICK)
    with pytest.raises(DataError, match=message) as error:
        call(model)
    assert "\n" not in str(error.value)


def test_pairs_are_refused_by_a_model_of_single_texts(place):
    model = NeuralClassifier(encoder=place, frozen=True).fit(
        [("cat", "+"), ("log", "-")], train=QUICK
    )
    for call in (
        lambda: model.predict([("a", "b")]),
        lambda: model.evaluate(PAIRS),
        lambda: model.explain(("a", "b")),
    ):
        with pytest.raises(DataError, match="reads single texts, but example 1 is a pair of them"):
            call()
    assert len(model.predict(("cat", "log"))) == 2  # a tuple of texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"encoder bilstm reads single texts; give the directory of a converted encoder"),
        ({"encoder": "{encoder}", "long": "windows"}, r"long windows has no effect on pairs"),
        ({"encoder": "{encoder}", "long": "sentences"}, r"long sentences has no effect on pairs"),
        (
            {"encoder": "{encoder}", "max_length": 4},
            r"no room for a token of each text among the encoder's 3 marks; give 5",
        ),
    ],
    ids=str,
)
def test_options_that_are_for_single_texts(options, message, place):
    given = {
        name: value.format(encoder=place) if isinstance(value, str) else value
        for name, value in options.items()
    }
    with pytest.raises(ConfigError, match=message):
        NeuralClassifier(**given).fit(PAIRS, train=QUICK)


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        ([("a", "b"), "c"], "xy", r"row 2 of texts: 'c' is not a pair of texts"),
        ([("a", None), ("a", "b")], "xy", r"row 1 of texts: \('a', None\) is not a pair"),
        ([("a", "b"), ("a", "b", "c")], "xy", r"row 2 .* is not a pair"),
        (["a", ("b", "c")], "xy", r"row 2 of texts: \('b', 'c'\) is not text"),
        (
            [["a", "b"], ["c", "d"]],
            "xy",
            r"list of words.*or give a pair of texts as a tuple of two",
        ),
        ([("a", "b")], "xy", r"1 texts and 2 labels"),
    ],
    ids=str,
)
def test_data_that_is_no_list_of_pairs(data, labels, message, place):
    with pytest.raises(DataError, match=message):
        NeuralClassifier(encoder=place).fit(data, list(labels), train=QUICK)


def test_other_models_and_held_out_data_of_another_kind(place):
    with pytest.raises(
        ConfigError,
        match=r"naive-bayes models read single texts; a classifier on a converted encoder",
    ):
        NaiveBayes().fit(PAIRS)
    with pytest.raises(
        DataError,
        match=r"training data \(texts\) has pairs of texts, the held-out data .* single texts",
    ):
        NeuralClassifier(encoder=place).fit(PAIRS, valid=[("cat", "+")], train=QUICK)
    with pytest.raises(ConfigError, match="pairs of texts; robustness perturbs single texts"):
        seqloom.robustness(
            NeuralClassifier(encoder=place, frozen=True).fit(PAIRS, train=QUICK), PAIRS
        )
    with pytest.raises(ConfigError, match="only classifiers on a converted encoder read"):
        seqloom.compare(seqloom.Labelled.of(PAIRS * 20), task="classification")


@pytest.mark.parametrize(
    "change", [{"encoder": "bilstm", "frozen": False}, {"long": "windows"}], ids=str
)
def test_a_damaged_model_of_pairs_is_refused(change, place, tmp_path):
    NeuralClassifier(encoder=place, frozen=True).fit(PAIRS, train=QUICK).save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config["config"].update(change)
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="damaged"):
        seqloom.load(tmp_path / "m")
