"""Weights of attention are those of transformers with eager attention, on the same network."""

import numpy as np
import pytest

import seqloom
from seqloom import interop

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.interop.encoder_files import FAMILIES, make_config, make_network, save
from tests.interop.hugging_face_models import PROMPT, saved, small_gpt2, small_llama
from tests.interop.test_encoder_decoders import KINDS, published

TEXT = "the cat sat on the mat"
NEAR = 1e-5


def check(name, ours, theirs):
    assert ours.shape == theirs.shape, name
    assert np.abs(ours - theirs).max() < NEAR, name
    assert np.abs(ours.sum(-1) - 1).max() < NEAR, name


def every_layer(model, example):
    """The weights of all layers by name, each read by the view of one head at a time."""
    names = seqloom.inspect.attention(model, example).data["layers"]
    heads = getattr(model.config, "published", model.config).n_heads
    return {
        name: np.stack(
            [
                seqloom.inspect.attention(model, example, layer=i, head=head).data["weights"]
                for head in range(heads)
            ]
        )
        for i, name in enumerate(names)
    }


@pytest.mark.parametrize("config", [small_gpt2, small_llama])
def test_gpt(config, tmp_path):
    network = saved(tmp_path, config())
    model = interop.open(tmp_path)
    network.set_attn_implementation("eager")
    ids, _ = model.encode(PROMPT)
    read = np.concatenate([[model.start_id], ids[:-1]])
    with torch.no_grad():
        theirs = network(torch.tensor(read[None]), output_attentions=True).attentions
    assert len(read) > 3
    for (name, ours), their in zip(every_layer(model, PROMPT).items(), theirs, strict=True):
        check(name, ours, their[0].numpy())


@pytest.mark.parametrize("family", FAMILIES)
def test_encoders(family, tmp_path):
    network = make_network(make_config(family))
    model = interop.open(save(network, tmp_path / "theirs"))
    network.set_attn_implementation("eager")
    row = model.marks.join(model.encode(TEXT), model.config.n_types)
    with torch.no_grad():
        theirs = network(torch.tensor(row.ids[None]), output_attentions=True).attentions
    for (name, ours), their in zip(every_layer(model, TEXT).items(), theirs, strict=True):
        check(name, ours, their[0].numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_encoders_and_decoders(kind, tmp_path):
    network = published(tmp_path, kind)
    model = interop.open(tmp_path)
    network.set_attn_implementation("eager")
    source, target = TEXT, "the dog"
    ids = model.encode_sources([source]).batch(np.arange(1))["ids"]
    read = np.concatenate([model.start_ids, model.target_tokenizer.encode(target)])
    with torch.no_grad():
        theirs = network(
            input_ids=torch.from_numpy(ids),
            decoder_input_ids=torch.from_numpy(read[None].astype(np.int64)),
            output_attentions=True,
        )
    of = {
        ("encoder", "attention"): theirs.encoder_attentions,
        ("decoder", "attention"): theirs.decoder_attentions,
        ("decoder", "cross"): theirs.cross_attentions,
    }
    ours = every_layer(model, (source, target))
    assert len(ours) == sum(map(len, of.values()))
    for name, weights in ours.items():
        side, number, part = name.split(".")
        check(name, weights, of[side, part][int(number)][0].numpy())
