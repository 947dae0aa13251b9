"""Published heads agree with transformers, in and out: recorded logits of three families, and all of
them where transformers is installed.
"""

import json
import shutil
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

import seqloom
from seqloom import interop
from seqloom.errors import ConfigError, DataError
from seqloom.interop.layouts import HEADS
from seqloom.models.sequence.model import outputs
from seqloom.training.config import TrainConfig
from tests.fuzz.specimens import random_encoder
from tests.golden import head_answers
from tests.interop.encoder_files import FAMILIES, make_config, make_network, save

torch = pytest.importorskip("torch")
KINDS = ("SequenceClassification", "TokenClassification", "MultipleChoice", "QuestionAnswering")
LABELS = ["O", "B-PER", "I-PER"]
PAIR = ("the cat", "a dog ran")


def scores(model, examples, *, with_torch=False):
    """The logits of classes or tags, by either network; and the rows that they are of."""
    if model.name == "answerer":
        windows, found = model.window_scores(examples)
        if with_torch:
            found = model._scores(model.network(), windows.encoded)
        return found, windows.encoded
    encoded = model._encode(examples) if model.name == "tagger" else model.encode(examples)
    if not with_torch:
        return np.concatenate([found for _, found in outputs(model, encoded)]), encoded
    from seqloom.models.sequence.sequence_net import batches_of

    found = [np.zeros(0)] * len(encoded)
    many = None if encoded.words is None else encoded.words.lengths
    with torch.inference_mode():
        for chosen, batch in batches_of(model.network(), encoded):
            for i, row in zip(chosen.tolist(), model.network()(batch).numpy()):
                found[i] = row[None] if many is None else row[: many[i]]
    return np.concatenate(found), encoded


# ---- recorded


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", head_answers.FAMILIES)
def test_recorded_logits(family, kind, tmp_path):
    expected = head_answers.write(tmp_path / "theirs", family, kind)
    interop.open(tmp_path / "theirs").save(tmp_path / "ours")
    model = seqloom.load(tmp_path / "ours")
    rows = head_answers.rows(family, kind)
    if kind == "TokenClassification":
        examples = [text.split() for text in head_answers.TEXTS]
        assert model.learnt["tags"] == LABELS
        assert model.learnt["scheme"] == "bio"
        keep = [1, 2, 3, *(5 + i for i in (1, 2, 3, 4, 5, 6, 8))]  # mats is two subwords
        expected = expected[keep]
        best = [LABELS[i] for i in expected.argmax(1)]
        assert model.predict(examples) == [best[:3], best[3:]]
    elif kind == "QuestionAnswering":
        examples = [(head_answers.CONTEXT, choice) for choice in head_answers.CHOICES]
        assert model.threshold == 0.5
        assert all(
            answer.text in context
            for answer, (_, context) in zip(model.predict(examples), examples)
        )
    elif kind == "MultipleChoice":
        examples = [(head_answers.CONTEXT, choice) for choice in head_answers.CHOICES]
        probs = np.exp(expected[:, 0]) / np.exp(expected[:, 0]).sum()
        ranked = sorted(zip(head_answers.CHOICES, probs), key=lambda one: -one[1])
        found = model.choose(head_answers.CONTEXT, head_answers.CHOICES)
        assert [choice for choice, _ in found] == [choice for choice, _ in ranked]
        assert [p for _, p in found] == pytest.approx([p for _, p in ranked], abs=1e-5)
    else:
        examples = head_answers.TEXTS
        probs = np.exp(expected) / np.exp(expected).sum(1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(examples), probs, atol=1e-5)
        assert model.predict(examples) == [LABELS[i] for i in expected.argmax(1)]
    for with_torch in (False, True):
        found, encoded = scores(model, examples, with_torch=with_torch)
        assert encoded.steps["ids"].tolist() == list(chain(*(ids for ids, _ in rows)))
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_weights_there_and_back(kind, tmp_path):
    from safetensors.numpy import load_file

    head_answers.write(tmp_path / "theirs", "roberta", kind)
    interop.write(interop.open(tmp_path / "theirs"), tmp_path / "back")
    theirs, back = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "back"))
    assert theirs.keys() == back.keys()
    assert all((theirs[name] == back[name]).all() for name in theirs)
    first, second = (
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("theirs", "back")
    )
    assert first["architectures"] == second["architectures"]
    if kind in ("SequenceClassification", "TokenClassification"):
        assert first["id2label"] == second["id2label"]


# ---- with transformers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_in_and_out(family, kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.set_verbosity_error()
    labels = {"id2label": dict(enumerate(LABELS)), "label2id": {x: i for i, x in enumerate(LABELS)}}
    labelled = kind in ("SequenceClassification", "TokenClassification")
    config = make_config(family, **(labels if labelled else {}))
    network = make_network(config, f"AutoModelFor{kind}")
    model = interop.open(save(network, tmp_path / "theirs"))
    names = {"TokenClassification": "tagger", "QuestionAnswering": "answerer"}
    assert model.name == names.get(kind, "classifier")
    examples = {
        "SequenceClassification": ["the cat sat", "", "a dog ran on the mats ."] * 4,
        "MultipleChoice": [PAIR, ("", "the"), ("the mats .", "on")] * 4,
        "QuestionAnswering": [PAIR, ("the mats .", "on a dog")] * 6,
        "TokenClassification": [["the", "cats", "sat"], ["mats"], ["a", "dog", "ran"]] * 4,
    }[kind]
    found, encoded = scores(model, examples)
    np.testing.assert_allclose(found, scores(model, examples, with_torch=True)[0], atol=1e-5)

    def logits_of(network):
        logits = []
        for low, high in zip(encoded.row_offsets, encoded.row_offsets[1:]):
            given = {"input_ids": torch.from_numpy(encoded.steps["ids"][low:high])[None]}
            if "types" in encoded.steps and model.published.layout.n_types > 1:
                kinds = torch.from_numpy(encoded.steps["types"][low:high])[None]
                given["token_type_ids"] = kinds
            if kind == "MultipleChoice":
                given = {name: row[None] for name, row in given.items()}
            with torch.no_grad():
                said = network(**given)
            if kind == "QuestionAnswering":
                logits.append(torch.stack([said.start_logits, said.end_logits], -1)[0].numpy())
            else:
                logits.append(said.logits[0].numpy())
        if kind == "QuestionAnswering":
            return np.concatenate(logits)
        if kind != "TokenClassification":
            return np.stack(logits)
        firsts = np.split(encoded.words.steps["positions"], encoded.words.row_offsets[1:-1])
        return np.concatenate([row[first] for row, first in zip(logits, firsts)])

    expected = logits_of(network)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-4)
    interop.write(model, tmp_path / "back")
    again, told = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(
        tmp_path / "back", output_loading_info=True
    )
    assert not any(told[one] for one in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert again.config.model_type == family
    np.testing.assert_allclose(logits_of(again.eval()), expected, atol=1e-4)
    if labelled:
        assert again.config.id2label == dict(enumerate(LABELS))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    texts = {
        "TokenClassification": " ".join(examples[0]),
        "SequenceClassification": examples[0],
    }
    given = tokenizer(*([texts[kind]] if labelled else PAIR))["input_ids"]
    assert given == encoded.steps["ids"][: encoded.row_offsets[1]].tolist()
    third = interop.open(tmp_path / "back")
    assert third.learnt == model.learnt
    assert replace(third.config, encoder="x") == replace(model.config, encoder="x")


# ---- trained here


@pytest.fixture
def encoder(tmp_path):
    random_encoder("bert", context=24, d_model=8, n_layers=1, n_heads=2, d_mlp=12).save(
        tmp_path / "encoder"
    )
    return str(tmp_path / "encoder")


TEXTS = [("the cat", "cat"), ("a log", "log"), ("the cat sat", "cat"), ("on the log", "log")] * 4
QUICK = TrainConfig(steps=3, batch_size=4)


def test_a_tuned_classifier_is_written_and_opened(encoder, tmp_path):
    options = {"pooling": "first", "head_layer": "tanh", "max_length": 12}
    model = seqloom.NeuralClassifier(
        encoder=encoder, calibrate="temperature", tune_threshold=True, **options
    ).fit(TEXTS, valid=TEXTS[:4], train=QUICK)
    model.learnt |= {"temperature": 1.7, "shift": [0.4, 0.0]}
    interop.write(model, tmp_path / "theirs")
    again = interop.open(tmp_path / "theirs")
    texts = [text for text, _ in TEXTS]
    np.testing.assert_allclose(again.predict_proba(texts), model.predict_proba(texts), atol=1e-5)
    assert again.classes == ["cat", "log"]
    settings = json.loads((tmp_path / "theirs" / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == 12
    tuned = seqloom.NeuralClassifier().fit(TEXTS, start=again, train=QUICK)
    interop.write(tuned, tmp_path / "tuned")
    assert interop.open(tmp_path / "tuned").predict(texts) == tuned.predict(texts)


def test_a_tuned_classifier_in_transformers(encoder, tmp_path):
    transformers = pytest.importorskip("transformers")
    several = [(text, (label, "any")) for text, label in TEXTS[:8]] + [("sat", ())] * 4
    model = seqloom.NeuralClassifier(encoder=encoder, pooling="first", head_layer="gelu-erf").fit(
        several, train=QUICK
    )
    interop.write(model, tmp_path / "theirs")
    network = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "theirs")
    assert network.config.model_type == "electra"  # the family with this activation
    assert network.config.problem_type == "multi_label_classification"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    texts = ["the cat sat", "log"]
    with torch.no_grad():
        logits = network.eval()(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    np.testing.assert_allclose(logits.sigmoid().numpy(), model.predict_proba(texts), atol=1e-5)
    assert interop.open(tmp_path / "theirs").multi_label


def test_a_tuned_tagger_is_written_and_opened(encoder, tmp_path):
    data = [(["the", "cat"], ["O", "B-X"]), (["on", "the", "log"], ["O", "O", "B-X"])] * 4
    tagger = seqloom.NeuralTagger(encoder=encoder, crf=False).fit(data, train=QUICK)
    interop.write(tagger, tmp_path / "theirs")
    again = interop.open(tmp_path / "theirs")
    assert again.tags == tagger.tags
    assert again.learnt["scheme"] == "bioes"  # what it worked in
    sentences = [words for words, _ in data]
    for with_torch in (False, True):
        found, _ = scores(again, sentences, with_torch=with_torch)
        np.testing.assert_allclose(found, scores(tagger, sentences)[0], atol=1e-5)
    result = again.evaluate(data)
    assert result["unknown_share"] == 0
    tuned = seqloom.NeuralTagger().fit(data, start=again, train=QUICK)
    interop.write(tuned, tmp_path / "tuned")


QUESTIONS = [("the cat", "a dog ran on the mats", "dog"), ("a dog", "the cat sat", None)] * 6


@pytest.mark.parametrize("name", ["classifier", "tagger", "answerer"])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_tuned_here_is_the_same_in_transformers(family, name, tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.set_verbosity_error()
    save(make_network(make_config(family), "AutoModel"), tmp_path / "theirs")
    interop.open(tmp_path / "theirs", "bert").save(tmp_path / "encoder")
    options = {"encoder": str(tmp_path / "encoder")}
    if name == "classifier":
        activation = HEADS["ForSequenceClassification"][family].activation
        options |= {"pooling": "first", "head_layer": activation}
        model = seqloom.NeuralClassifier(**options).fit(TEXTS, train=QUICK)
        kind, examples = "SequenceClassification", [text for text, _ in TEXTS[:4]]
    elif name == "tagger":
        data = [(["the", "cat"], ["O", "B-X"]), (["on", "the", "mats"], ["O", "O", "B-X"])] * 4
        model = seqloom.NeuralTagger(crf=False, **options).fit(data, train=QUICK)
        kind, examples = "TokenClassification", [words for words, _ in data[:2]]
    else:
        model = seqloom.NeuralAnswerer(**options).fit(QUESTIONS, train=QUICK)
        kind, examples = "QuestionAnswering", [row[:2] for row in QUESTIONS[:2]]
    interop.write(model, tmp_path / "back")
    network, told = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(
        tmp_path / "back", output_loading_info=True
    )
    assert not any(told[one] for one in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    found, encoded = scores(model, examples)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    texts = [" ".join(words) for words in examples] if name == "tagger" else examples
    given = tokenizer(*(map(list, zip(*texts)) if name == "answerer" else [texts]))
    assert list(chain(*given["input_ids"])) == encoded.steps["ids"].tolist()
    padded = tokenizer.pad(given, return_tensors="pt")
    with torch.no_grad():
        said = network.eval()(**padded)
    keep = padded["attention_mask"].bool()
    if name == "classifier":
        expected = said.logits.numpy()
    elif name == "answerer":
        expected = torch.stack([said.start_logits, said.end_logits], -1)[keep].numpy()
    else:
        rows = np.repeat(np.arange(len(examples)), encoded.words.lengths)
        expected = said.logits.numpy()[rows, encoded.words.steps["positions"]]
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pooling first, head_layer tanh .* this one pooling mean, head_layer none"),
        ({"pooling": "first", "head_layer": "relu"}, "head_layer relu"),
        ({"pooling": "first", "head_layer": "tanh", "long": "windows"}, "long windows"),
        ({"encoder": "bag"}, "has the encoder bag, which transformers has not"),
    ],
)
def test_classifiers_that_transformers_has_not(encoder, tmp_path, options, message):
    model = seqloom.NeuralClassifier(**{"encoder": encoder, **options}).fit(TEXTS, train=QUICK)
    with pytest.raises(ConfigError, match=message) as caught:
        interop.write(model, tmp_path / "theirs")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "theirs").exists()


def test_a_random_field_is_refused(encoder, tmp_path):
    tagger = seqloom.NeuralTagger(encoder=encoder).fit([(["the"], ["X"])] * 4, train=QUICK)
    with pytest.raises(ConfigError, match=r"conditional random field.*--no-crf"):
        interop.write(tagger, tmp_path / "theirs")


# ---- what a directory says


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    place = tmp_path_factory.mktemp("sound")
    for kind in KINDS:
        head_answers.write(place / kind, "bert", kind)
    return place


def changed(sound, kind, place, tensors=None, **values):
    from safetensors.numpy import load_file, save_file

    shutil.copytree(sound / kind, place)
    if tensors is not None:
        save_file(tensors(load_file(place / "model.safetensors")), place / "model.safetensors")
    config = json.loads((place / "config.json").read_text()) | values
    config = {key: value for key, value in config.items() if value is not None}
    (place / "config.json").write_text(json.dumps(config))
    return place


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("SequenceClassification", {"id2label": {"0": "a", "1": "a", "2": "b"}}, "id2label is"),
        ("SequenceClassification", {"id2label": {"0": "a", "2": "b"}}, "id2label is"),
        ("SequenceClassification", {"id2label": ["a", "b", "c"]}, "id2label is"),
        ("SequenceClassification", {"id2label": {"0": "a"}}, "1 labels, its head scores 3"),
        ("TokenClassification", {"id2label": {"0": 7, "1": 8, "2": 9}}, "id2label is"),
        ("SequenceClassification", {"problem_type": "regression"}, "regression"),
        ("SequenceClassification", {"problem_type": ["x"]}, "problem_type is"),
        ("SequenceClassification", {"architectures": "Bert"}, "architectures is 'Bert'"),
        ("SequenceClassification", {"architectures": [3]}, "architectures is"),
        ("SequenceClassification", {"reads_pairs": "yes"}, "reads_pairs is 'yes'"),
        ("TokenClassification", {"num_attention_heads": 3}, "not a multiple of n_heads 3"),
    ],
)
def test_values_that_do_not_suit(sound, tmp_path, kind, values, message):
    with pytest.raises(DataError, match=message) as caught:
        interop.open(changed(sound, kind, tmp_path / "bad", **values))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {k: x for k, x in t.items() if k != "classifier.weight"}, "lacks the tensor"),
        (lambda t: {k: x for k, x in t.items() if k != "classifier.bias"}, "lacks the tensor"),
        (lambda t: {k: x for k, x in t.items() if ".pooler." not in k}, "lacks the tensors"),
        (lambda t: t | {"classifier.weight": np.zeros((3, 5), np.float32)}, "is 3 x 5 where"),
        (lambda t: t | {"classifier.weight": np.zeros(3, np.float32)}, "lacks the tensor"),
        (lambda t: t | {"classifier.bias": np.full(3, np.nan, np.float32)}, "not finite"),
        (
            lambda t: t | {f"classifier.{k}": t[f"classifier.{k}"][:1] for k in ("weight", "bias")},
            "regression",
        ),
    ],
)
def test_tensors_that_do_not_suit(sound, tmp_path, change, message):
    with pytest.raises(DataError, match=message) as caught:
        interop.open(changed(sound, "SequenceClassification", tmp_path / "bad", change))
    assert "\n" not in str(caught.value)


def test_labels_without_names_and_a_pooler_that_nothing_reads(sound, tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr("seqloom.progress.say", lines.append)

    def pooled(tensors):
        extra = {"bert.pooler.dense.weight": np.ones((8, 8), np.float32)}
        return tensors | extra | {"cls.seq.bias": np.ones(2, np.float32)}

    place = changed(sound, "TokenClassification", tmp_path / "old", pooled, id2label=None)
    model = interop.open(place)
    assert model.tags == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert model.learnt["scheme"] is None
    assert lines == [f"{place}: left out, as they are for other tasks: cls.seq.bias"]


def test_the_task_decides(sound, tmp_path):
    place = sound / "SequenceClassification"
    assert interop.open(place, "bert").name == "bert"
    assert interop.open(place, "sentence vectors").name == "sentence-encoder"
    assert not interop.open(place).reads_pairs
    assert interop.open(place, "pairs").reads_pairs
    with pytest.raises(
        DataError, match="'BertForSequenceClassification', which has no head of a tag"
    ):
        interop.open(place, "tagger")
    unnamed = changed(sound, "TokenClassification", tmp_path / "unnamed", architectures=None)
    assert interop.open(unnamed).name == "bert"
    assert interop.open(unnamed, "tagger").name == "tagger"


@pytest.mark.parametrize(
    "values",
    [
        {"id2label": {"0": "ENTAILMENT", "1": "neutral", "2": "contradiction"}},
        {"finetuning_task": "MNLI"},
        {"reads_pairs": True},
    ],
)
def test_a_classifier_of_pairs_is_recognised(sound, tmp_path, values):
    model = interop.open(changed(sound, "SequenceClassification", tmp_path / "pairs", **values))
    assert model.reads_pairs
    assert model.predict(PAIR) in model.classes
    single = interop.open(tmp_path / "pairs", "classifier")
    assert single.predict("the cat") in model.classes
    interop.write(model, tmp_path / "back")
    assert interop.open(tmp_path / "back").reads_pairs


def test_several_labels(sound, tmp_path):
    problem = {"problem_type": "multi_label_classification"}
    model = interop.open(changed(sound, "SequenceClassification", tmp_path / "several", **problem))
    one = interop.open(sound / "SequenceClassification")
    odds = scores(one, ["the cat"])[0][0]
    found = model.predict_proba("the cat")
    assert list(found.values()) == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-5)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_quantised_while_it_is_read(sound, kind, bits):
    found = interop.open(sound / kind, bits=bits)
    whole = interop.open(sound / kind).quantised(bits)
    arrays = found.arrays()
    assert arrays.keys() == whole.arrays().keys()
    assert all(np.array_equal(arrays[key], array) for key, array in whole.arrays().items())


def test_a_directory_with_the_name_of_an_encoder(sound, tmp_path):
    shutil.copytree(sound / "TokenClassification", tmp_path / "lstm")
    interop.open(tmp_path / "lstm").save(tmp_path / "ours")
    assert seqloom.load(tmp_path / "ours").label() == "lstm-tagger"


def test_choose_is_for_multiple_choice(sound):
    model = interop.open(sound / "MultipleChoice")
    for choices in ("the", []):
        with pytest.raises(ConfigError, match="a list of choices"):
            model.choose("the cat", choices)
    with pytest.raises(ConfigError, match="not published for multiple choice"):
        interop.open(sound / "SequenceClassification").choose("the cat", ["a"])
    assert model.choose("the cat", ["on"]) == [("on", 1.0)]


def test_the_threshold_of_no_answer_is_kept(sound, tmp_path):
    model = interop.open(sound / "QuestionAnswering")
    model.learnt["threshold"] = 0.25
    interop.write(model, tmp_path / "back")
    assert interop.open(tmp_path / "back", "answerer").threshold == 0.25
    bad = changed(sound, "QuestionAnswering", tmp_path / "bad", no_answer_threshold=2)
    with pytest.raises(
        DataError, match="no_answer_threshold is 2; it must be a number from 0 to 1"
    ):
        interop.open(bad)
    four = {"qa_outputs.weight": np.zeros((4, 8), np.float32)}
    worse = changed(sound, "QuestionAnswering", tmp_path / "worse", lambda t: t | four)
    with pytest.raises(DataError, match="is 4 x 8 where its values ask for 2 x 8"):
        interop.open(worse)


def test_every_family_has_every_head():
    assert all(set(heads) == set(FAMILIES) for heads in HEADS.values())
