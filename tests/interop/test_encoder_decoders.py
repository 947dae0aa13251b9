"""T5, BART and Marian of transformers: the same numbers and the same texts, there and back, and
what is wrong in one line.
"""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers

import seqloom
from seqloom import interop
from seqloom.cli.main import main
from seqloom.errors import ConfigError, DataError
from seqloom.interop.tensors import alternating
from seqloom.models.translation.transformer import Transformer
from seqloom.nn.position import distance_buckets
from seqloom.training.config import TrainConfig

from .tokenizer_directories import sentencepiece_file

SOURCES = ["the cat sat", "a", "", "on the mat the dog sat on the cat and the mat", "dogs"]
TARGETS = ["the dog", "", "cat on a mat", "and", "sat"]
SPECIALS = {
    "t5": ["<pad>", "</s>", "<unk>"],
    "bart": ["<s>", "<pad>", "</s>", "<unk>"],
    "marian": ["</s>", "<unk>", "<pad>"],
}
PIECES = [
    "▁",
    *"abcdefghijklmnopqrstuvwxyz",
    "▁the",
    "▁cat",
    "at",
    "og",
    "▁on",
    "▁a",
    "nd",
    "s",
    "<extra>",
]
PIECES = list(dict.fromkeys(PIECES))
SIDES = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in (("attention_heads", 3), ("ffn_dim", 20))
} | {"encoder_layers": 2, "decoder_layers": 3}
KINDS = {
    "t5-1.0": ("t5", {"d_kv": 5}),
    "t5-even": (
        "t5",
        {
            "d_kv": 4,
            "num_decoder_layers": 1,
            "relative_attention_max_distance": 20,
            "relative_attention_num_buckets": 8,
        },
    ),
    "t5-1.1": ("t5", {"d_kv": 5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "t5-silu": ("t5", {"d_kv": 3, "feed_forward_proj": "gated-silu"}),
    "bart": ("bart", {}),
    "bart-scaled": (
        "bart",
        {"scale_embedding": True, "activation_function": "relu", "forced_bos_token_id": 0},
    ),
    "marian": (
        "marian",
        {"activation_function": "swish", "scale_embedding": True, "bad_words_ids": [[2]]},
    ),
    "marian-gelu": ("marian", {}),
}


def engine(family):
    """A tokenizer of unigram pieces with the special tokens of a family."""
    specials = SPECIALS[family]
    made = Engine(
        models.Unigram(
            [
                *((token, 0.0) for token in specials),
                *((piece, -float(i) / 9 - 1) for i, piece in enumerate(PIECES)),
            ],
            unk_id=specials.index("<unk>"),
        )
    )
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.add_special_tokens(specials)
    return made


def published(path, kind, **values):
    """A tiny model of random weights as transformers saves it, with a tokenizer; the network."""
    family, own = KINDS[kind]
    specials, torch_seed = SPECIALS[family], 3
    ids = {
        f"{name}_token_id": specials.index(token)
        for name, token in (("pad", "<pad>"), ("eos", "</s>"), ("bos", "<s>"))
        if token in specials
    }
    ids["decoder_start_token_id"] = ids["eos_token_id"] if family == "bart" else ids["pad_token_id"]
    shared = {
        "vocab_size": len(specials) + len(PIECES),
        "d_model": 12,
        **ids,
        "forced_eos_token_id": None,
    }
    sizes = (
        {"num_layers": 2, "num_heads": 3, "d_ff": 20}
        if family == "t5"
        else {**SIDES, "max_position_embeddings": 90 if family == "bart" else 512}
    )
    config_class, network_class = {
        "t5": (transformers.T5Config, transformers.T5ForConditionalGeneration),
        "bart": (transformers.BartConfig, transformers.BartForConditionalGeneration),
        "marian": (transformers.MarianConfig, transformers.MarianMTModel),
    }[family]
    torch.manual_seed(torch_seed)
    network = network_class(config_class(**{**shared, **sizes, **own, **values})).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embed_positions" not in name or family == "bart":
                parameter.normal_(0, 0.35)
        if family != "t5":
            network.final_logits_bias.normal_(0, 0.5)
        elif not network.config.scale_decoder_outputs:
            network.lm_head.weight = torch.nn.Parameter(torch.randn_like(network.lm_head.weight))
    network.save_pretrained(path)
    engine(family).save(str(path / "tokenizer.json"))
    return network


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """The directory, the network of transformers in it and our model of it, saved and loaded."""
    path = tmp_path_factory.mktemp("published") / "model"
    network = published(path, request.param)
    model = interop.open(path)
    model.save(path.parent / "ours")
    return path, network, seqloom.load(path.parent / "ours")


def source_batch(model):
    """Ids, padded, and which are there."""
    encoded = model.encode_sources(SOURCES)
    batch = encoded.batch(np.arange(len(SOURCES)))
    there = np.arange(batch["ids"].shape[1]) < batch["lengths"][:, None]
    return torch.from_numpy(batch["ids"]), torch.from_numpy(there.astype(np.int64))


def forced(model, network):
    """The log-probabilities that transformers gives to each token of the targets."""
    ids, there = source_batch(model)
    targets = model.target_ids(TARGETS)
    start, longest = model.start_ids, max(map(len, targets))
    inputs = np.full((len(targets), len(start) + longest - 1), model.target_tokenizer.eos_id)
    for row, target in enumerate(targets):
        inputs[row, : len(start) + len(target) - 1] = [*start, *target[:-1]]
    with torch.no_grad():
        logits = network(
            input_ids=ids, attention_mask=there, decoder_input_ids=torch.from_numpy(inputs)
        ).logits
    never = model.learnt.get("never", [])
    logits[..., never] = -torch.inf
    scores = torch.log_softmax(logits[:, len(start) - 1 :], -1)
    return [
        scores[row, np.arange(len(target)), target].numpy() for row, target in enumerate(targets)
    ]


def test_known_targets_have_the_same_scores(pair):
    _, network, model = pair
    for ours, theirs in zip(
        model.token_scores(SOURCES, TARGETS), forced(model, network), strict=True
    ):
        assert np.allclose(ours, theirs, atol=1e-4)


def test_steps_without_torch_have_the_same_scores(pair):
    from seqloom.decoding.beam import forced_log_probs

    _, network, model = pair
    by_steps = forced_log_probs(model.decoder(SOURCES), model.target_ids(TARGETS))
    for ours, theirs in zip(by_steps, forced(model, network), strict=True):
        assert np.allclose(ours, theirs, atol=1e-4)


def test_fifty_tokens_are_the_same(pair):
    _, network, model = pair
    ids, there = source_batch(model)
    start = model.start_ids
    with torch.no_grad():
        theirs = network.generate(
            ids, attention_mask=there, num_beams=1, do_sample=False, max_new_tokens=49 + len(start)
        )
    eos = model.target_tokenizer.eos_id
    ours = model.translate(SOURCES, nbest=1, beams=1, max_tokens=50)
    for row, best in zip(theirs[:, len(start) :].tolist(), ours):
        expected = row[: row.index(eos)] if eos in row else row
        assert best[0].ids.tolist() == expected[:50]
    assert max(len(best[0].ids) for best in ours) == 50


def test_a_written_directory_loads_there_and_is_the_same(pair, tmp_path):
    path, network, model = pair
    interop.write(model, tmp_path / "back")
    again, info = type(network).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    before, after = (
        load_file(path / "model.safetensors"),
        load_file(tmp_path / "back" / "model.safetensors"),
    )
    assert before.keys() == after.keys()
    for name, array in before.items():
        unused = (
            2
            if model.config.positions == "learned" and name.endswith("embed_positions.weight")
            else 0
        )
        assert np.array_equal(array[unused:], after[name][unused:]), name
    ids, there = source_batch(model)
    with torch.no_grad():
        arguments = {"input_ids": ids, "attention_mask": there, "decoder_input_ids": ids}
        assert torch.equal(again.eval()(**arguments).logits, network(**arguments).logits)
        options = {
            "attention_mask": there,
            "num_beams": 1,
            "do_sample": False,
            "max_new_tokens": 20,
        }
        assert torch.equal(again.generate(ids, **options), network.generate(ids, **options))
    third = interop.open(tmp_path / "back")
    assert third.config == model.config
    assert third.learnt == model.learnt
    assert third.tokenizers == model.tokenizers
    assert all(np.array_equal(third.weights[name], array) for name, array in model.weights.items())
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert (
        tokenizer(SOURCES[0]).input_ids == model.encode_sources(SOURCES[:1]).steps["ids"].tolist()
    )
    assert (
        tokenizer(SOURCES, padding=True, return_tensors="pt").attention_mask.tolist()
        == there.tolist()
    )


def test_on_the_command_line(tmp_path, capsys):
    published(tmp_path / "theirs", "marian")
    (tmp_path / "text").write_text("the cat\n")
    for command in (
        ["convert", "theirs", "ours"],
        ["translate", "ours", "text", "--max-tokens", "5"],
        ["convert", "ours", "back", "--form", "hugging-face"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(
                [
                    str(tmp_path / word) if word in ("theirs", "ours", "back", "text") else word
                    for word in command
                ]
            )
        assert ended.value.code == 0, command
    assert transformers.MarianMTModel.from_pretrained(tmp_path / "back").config.d_model == 12
    assert "marian" in (tmp_path / "back" / "config.json").read_text()
    capsys.readouterr()


def test_buckets_are_those_of_transformers():
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-700, 701)
    for buckets, far in ((32, 128), (8, 16), (64, 600), (4, 3), (30, 77)):
        for causal in (True, False):
            expected = T5Attention._relative_position_bucket(
                distance, bidirectional=not causal, num_buckets=buckets, max_distance=far
            )
            assert torch.equal(distance_buckets(distance, buckets, far, causal=causal), expected)


def test_weights_that_files_have_twice_or_not_at_all(tmp_path):
    """Old files have tied vectors several times; those of a bare BART have no prefix and no output."""
    network = published(tmp_path / "bart", "bart")
    arrays = load_file(tmp_path / "bart" / "model.safetensors")
    bare = {
        name.removeprefix("model."): array
        for name, array in arrays.items()
        if name != "final_logits_bias"
    }
    bare |= {
        "encoder.embed_tokens.weight": bare["shared.weight"].copy(),
        "encoder.version": np.zeros(1, np.float32),
    }
    save_file(bare, tmp_path / "bart" / "model.safetensors")
    with torch.no_grad():
        network.final_logits_bias.zero_()
    model = interop.open(tmp_path / "bart")
    for ours, theirs in zip(
        model.token_scores(SOURCES, TARGETS), forced(model, network), strict=True
    ):
        assert np.allclose(ours, theirs, atol=1e-4)

    published(tmp_path / "t5", "t5-1.0")
    arrays = load_file(tmp_path / "t5" / "model.safetensors")
    save_file(
        {**arrays, "lm_head.weight": arrays["shared.weight"].copy()},
        tmp_path / "t5" / "model.safetensors",
    )
    assert interop.open(tmp_path / "t5").config.tied


def test_rows_of_t5_beyond_its_tokenizer_are_kept(tmp_path):
    network = published(tmp_path / "t5", "t5-1.0", vocab_size=48)
    model = interop.open(tmp_path / "t5")
    assert model.target_tokenizer.vocab_size == 48
    for ours, theirs in zip(
        model.token_scores(SOURCES, TARGETS), forced(model, network), strict=True
    ):
        assert np.allclose(ours, theirs, atol=1e-4)


def test_a_model_of_ours_is_written_for_marian(tmp_path):
    """Fitted here, with the norms where Marian has them and an own tokenizer."""
    pairs = [("the cat sat on the mat", "die katze"), ("a dog", "ein hund")] * 20
    model = Transformer(
        vocab_size=270,
        shared_vocabulary=True,
        norm="post",
        d_model=12,
        n_heads=2,
        n_layers=1,
        n_decoder_layers=1,
    ).fit(pairs, train=TrainConfig(steps=3))
    interop.write(model, tmp_path / "theirs")
    network = transformers.MarianMTModel.from_pretrained(tmp_path / "theirs").eval()
    for ours, theirs in zip(
        model.token_scores(SOURCES, TARGETS), forced(model, network), strict=True
    ):
        assert np.allclose(ours, theirs, atol=1e-4)
    again = interop.open(tmp_path / "theirs")
    assert again.score("a dog", "ein hund") == pytest.approx(
        model.score("a dog", "ein hund"), abs=1e-4
    )
    assert again.translate("a dog", max_tokens=9) == model.translate("a dog", max_tokens=9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"norm": "pre"},
            "this transformer model has norm pre, and Marian of transformers has post",
        ),
        (
            {"norm": "post", "tokenizer": "char"},
            "its tokens are of the kind 'char'; byte, bpe, unigram and wordpiece can",
        ),
        (
            {"norm": "post", "activation": "geglu", "vocab_size": 270},
            "has the activation geglu, which BART and Marian have not",
        ),
        (
            {"positions": "t5"},
            "this transformer model has norm_kind layer, and T5 of transformers has rms",
        ),
    ],
    ids=str,
)
def test_what_transformers_has_not_is_not_written(options, message, tmp_path):
    small = {
        "shared_vocabulary": True,
        "d_model": 8,
        "n_heads": 2,
        "n_layers": 1,
        "n_decoder_layers": 1,
    }
    model = Transformer(**{**small, **options})
    model.fit([("ab", "ba"), ("abc", "cba")] * 4, train=TrainConfig(steps=1))
    with pytest.raises(ConfigError, match=message):
        interop.write(model, tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_marian_with_a_sentencepiece_model_for_each_side(tmp_path):
    """As published: texts of sources and targets are cut in two ways into tokens of one vocabulary."""
    pytest.importorskip("sentencepiece")
    tmp_path = tmp_path / "marian"
    source = sentencepiece_file(tmp_path / "source.spm", "unigram", vocab_size=70)
    target = sentencepiece_file(tmp_path / "target.spm", "unigram", vocab_size=60)
    pieces = sorted(
        {
            model.id_to_piece(i)
            for model in (source, target)
            for i in range(3, model.get_piece_size())
        }
    )
    vocabulary = {token: i for i, token in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "en", "target_lang": "de"})
    )
    size = len(vocabulary)
    published(
        tmp_path,
        "marian",
        vocab_size=size,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        bad_words_ids=[[size - 1]],
    )
    (tmp_path / "tokenizer.json").unlink()
    network = transformers.MarianMTModel.from_pretrained(tmp_path).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    model = interop.open(tmp_path)
    texts = ["the cat sat on the mat", "a dog", "don't stop!"]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    for text, ids, there in zip(texts, batch.input_ids.tolist(), batch.attention_mask.tolist()):
        assert model.encode_sources([text]).steps["ids"].tolist() == ids[: sum(there)]
        labels = tokenizer(text_target=text).input_ids
        assert model.target_ids([text])[0].tolist() == labels
    with torch.no_grad():
        written = network.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=30)
    theirs = tokenizer.batch_decode(written, skip_special_tokens=True)
    assert model.translate(texts, beams=1, max_tokens=30) == theirs
    interop.write(model, tmp_path.parent / "back")
    again = interop.open(tmp_path.parent / "back")
    assert again.tokenizers == model.tokenizers
    assert again.translate(texts, beams=1, max_tokens=30) == theirs


# ---- what is wrong with a directory


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    place = tmp_path_factory.mktemp("directories")
    for kind in ("t5-1.0", "bart", "marian"):
        published(place / kind, kind)
    return place


def broken(directories, tmp_path, kind, change=None, **values):
    shutil.copytree(directories / kind, tmp_path / "broken")
    config = json.loads((tmp_path / "broken" / "config.json").read_text())
    (tmp_path / "broken" / "config.json").write_text(json.dumps({**config, **values}))
    if change is not None:
        arrays = load_file(tmp_path / "broken" / "model.safetensors")
        change(arrays)
        save_file(arrays, tmp_path / "broken" / "model.safetensors")
    with pytest.raises(DataError) as caught:
        interop.open(tmp_path / "broken")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{tmp_path / 'broken'}: ")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("t5-1.0", "encoder.final_layer_norm.weight"),
        ("bart", "model.shared.weight"),
        ("marian", "model.decoder.layers.2.encoder_attn.k_proj.bias"),
    ],
)
def test_tensors_that_are_missing_surplus_or_of_another_shape(kind, name, directories, tmp_path):
    lost = broken(directories, tmp_path / "a", kind, lambda arrays: arrays.pop(name))
    assert lost == f"it lacks the tensor '{name}'"
    more = broken(
        directories,
        tmp_path / "b",
        kind,
        lambda arrays: arrays.update(extra=np.zeros(3, np.float32)),
    )
    family = {"t5-1.0": "T5", "bart": "BART", "marian": "Marian"}[kind]
    assert more == f"it has, and a plain {family} has not, the tensor 'extra'"
    other = broken(
        directories,
        tmp_path / "c",
        kind,
        lambda arrays: arrays.update({name: np.zeros((3, 3), np.float32)}),
    )
    assert other.startswith(f"the tensor '{name}' is 3 x 3 where its values ask for ")


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (
            "bart",
            {"decoder_attention_heads": 2},
            "encoder_attention_heads is 3 and decoder_attention_heads 2; both ",
        ),
        ("bart", {"activation_function": "tanh"}, "activation_function is 'tanh'; relu, gelu, "),
        (
            "bart",
            {"vocab_size": 30},
            "the tensor 'model.shared.weight' is 39 x 12 where its values ask for 30 x 12",
        ),
        (
            "t5-1.0",
            {"vocab_size": 9_999_992},
            "the tensor 'shared.weight' is 38 x 12 where its values ask for 9999992 x 12",
        ),
        (
            "t5-1.0",
            {"eos_token_id": 2},
            "the end token of config.json is 2, that of its tokenizer 1; they do not belong together",
        ),
        (
            "t5-1.0",
            {"feed_forward_proj": "gated-tanh"},
            "feed_forward_proj is 'gated-tanh'; relu, gelu, ",
        ),
        ("t5-1.0", {"relative_attention_num_buckets": 7}, "buckets 7 must be even"),
        (
            "t5-1.0",
            {"num_heads": "many"},
            "num_heads is 'many'; it must be a whole number from 1 to 1,000",
        ),
        ("marian", {"d_model": 13}, "d_model is 13; its sinusoidal positions need an even width"),
        ("marian", {"d_model": 14}, "d_model 14 must be even and a multiple of n_heads 3"),
    ],
    ids=str,
)
def test_values_that_cannot_be(kind, values, message, directories, tmp_path):
    assert broken(directories, tmp_path, kind, **values).startswith(message)


@pytest.mark.parametrize(("kind", "rows"), [("bart", 39), ("t5-1.0", 38)])
def test_a_vocabulary_that_is_larger_than_the_embedding(kind, rows, directories, tmp_path):
    shutil.copytree(directories / kind, tmp_path / "broken")
    made = engine(KINDS[kind][0])
    made.add_tokens(["more"])
    made.save(str(tmp_path / "broken" / "tokenizer.json"))
    with pytest.raises(
        DataError,
        match=f"its tokenizer has {rows + 1} tokens, its embedding {rows} rows; they do not belong",
    ):
        interop.open(tmp_path / "broken")


def test_a_tokenizer_of_another_family(directories, tmp_path):
    shutil.copytree(directories / "marian", tmp_path / "broken")
    engine("t5").save(str(tmp_path / "broken" / "tokenizer.json"))
    with pytest.raises(
        DataError,
        match=r"the end token of config\.json is 0, that of its tokenizer 1; they do not belong",
    ):
        interop.open(tmp_path / "broken")
    (tmp_path / "broken" / "tokenizer.json").unlink()
    with pytest.raises(DataError, match="there is no tokenizer in it"):
        interop.open(tmp_path / "broken")


def test_a_pickled_file_is_read_as_weights_alone(directories, tmp_path):
    shutil.copytree(directories / "t5-1.0", tmp_path / "pickled")
    network = transformers.T5ForConditionalGeneration.from_pretrained(directories / "t5-1.0").eval()
    (tmp_path / "pickled" / "model.safetensors").unlink()
    torch.save(
        network.state_dict(), tmp_path / "pickled" / "pytorch_model.bin"
    )  # with all copies of tied vectors
    model = interop.open(tmp_path / "pickled")
    for ours, theirs in zip(
        model.token_scores(SOURCES, TARGETS), forced(model, network), strict=True
    ):
        assert np.allclose(ours, theirs, atol=1e-4)


def test_start_tokens_beyond_the_vocabulary(directories, tmp_path):
    shutil.copytree(directories / "marian", tmp_path / "broken")
    (tmp_path / "broken" / "generation_config.json").write_text(
        json.dumps({"decoder_start_token_id": 1000})
    )
    with pytest.raises(
        DataError, match="decoder_start_token_id is 1000; it must be a whole number from 0 to 37"
    ):
        interop.open(tmp_path / "broken")


def test_the_order_of_sinusoids():
    width, place = 8, torch.arange(5)
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    from seqloom.nn.position import sinusoids

    theirs = MarianSinusoidalPositionalEmbedding(5, width).create_weight()
    assert torch.allclose(theirs[:, alternating(width)], sinusoids(place, width), atol=1e-6)
