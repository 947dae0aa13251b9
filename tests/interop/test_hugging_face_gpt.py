"""GPT-2 and Llama of transformers: the same logits and continuations there and back, and what is refused."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import interop
from seqloom.errors import SeqloomError
from seqloom.training.config import TrainConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.interop.hugging_face_models import (
    PROMPT,
    V,
    changed,
    our_continuation,
    our_logits,
    saved,
    small_gpt2,
    small_llama,
    their_continuation,
    their_logits,
    write_tokenizer,
)
from tests.interop.tokenizer_directories import sentencepiece_file

CONFIGS = {
    "gpt2": lambda: small_gpt2(),
    "gpt2-relu": lambda: small_gpt2(activation_function="relu", n_inner=30),
    "gpt2-untied": lambda: small_gpt2(tie_word_embeddings=False, layer_norm_epsilon=1e-3),
    "llama": lambda: small_llama(),
    "llama-tied": lambda: small_llama(tie_word_embeddings=True, num_key_value_heads=4),
    "llama-biases": lambda: small_llama(attention_bias=True, mlp_bias=True),
    "llama-some-biases": lambda: small_llama(attention_bias=True, rms_norm_eps=1e-3),
}
IDS = np.random.default_rng(5).integers(0, V, 40)


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("theirs")
    saved(place, CONFIGS[request.param]())
    return place, interop.open(place)


def test_logits_and_continuations_are_equal(pair):
    place, model = pair
    assert np.abs(our_logits(model, IDS) - their_logits(place, IDS)).max() < 1e-4
    prompt = model.tokenizer.encode(PROMPT)
    assert our_continuation(model, prompt, 50) == their_continuation(place, prompt, 50)


def test_there_and_back(pair, tmp_path):
    place, model = pair
    model.save(tmp_path / "ours")
    again = seqloom.load(tmp_path / "ours")
    interop.write(again, tmp_path / "theirs")
    assert np.abs(their_logits(tmp_path / "theirs", IDS) - their_logits(place, IDS)).max() < 1e-5
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for text in (PROMPT, "naïve 北京\n\n  x12", " the"):
        assert tokenizer(text)["input_ids"] == model.tokenizer.encode(text).tolist()
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.eos_token_id == model.tokenizer.eos_id
    back = interop.open(tmp_path / "theirs")
    assert np.array_equal(our_logits(back, IDS), our_logits(model, IDS))
    assert (back.learnt, back.tokenizer.kind, back.tokenizer.lossless) == (
        model.learnt,
        "bpe",
        True,
    )


def test_scores_are_those_of_transformers(pair):
    place, model = pair
    ids = model.tokenizer.encode(PROMPT)
    log_probs = torch.log_softmax(torch.tensor(their_logits(place, ids)), -1).numpy()
    expected = [log_probs[t, token] for t, token in enumerate(ids[1:])]
    assert np.allclose(model.token_scores(PROMPT)[1:-1], expected, atol=1e-4)


def test_a_start_token_is_seen_by_all(tmp_path):
    saved(tmp_path, small_llama(), tokenizer=False)
    write_tokenizer(tmp_path, add_bos_token=True)
    model = interop.open(tmp_path)
    assert model.learnt["start"] == V - 1
    ids = model.tokenizer.encode(PROMPT)
    log_probs = torch.log_softmax(torch.tensor(their_logits(tmp_path, [V - 1, *ids])), -1).numpy()
    assert np.allclose(
        model.token_scores(PROMPT)[:-1],
        [log_probs[t, token] for t, token in enumerate(ids)],
        atol=1e-4,
    )
    interop.write(model, tmp_path / "again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert tokenizer(PROMPT)["input_ids"] == [V - 1, *ids.tolist()]


def test_a_llama_with_a_sentencepiece_model(tmp_path):
    """As the first ones were published: pieces of single bytes for what is unknown, <s> before every text."""
    pytest.importorskip("sentencepiece")
    theirs = sentencepiece_file(
        tmp_path / "tokenizer.model",
        "bpe",
        byte_fallback=True,
        vocab_size=340,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    saved(
        tmp_path,
        small_llama(vocab_size=theirs.get_piece_size(), bos_token_id=1, eos_token_id=2),
        tokenizer=False,
    )
    model = interop.open(tmp_path)
    assert (model.learnt["start"], model.tokenizer.eos_id, model.tokenizer.lossless) == (
        1,
        2,
        False,
    )
    interop.write(model, tmp_path / "again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    for text in (PROMPT, " the  cat", "naïve 日本"):
        assert tokenizer(text)["input_ids"] == [1, *theirs.encode(text)]
    assert np.abs(our_logits(model, IDS) - their_logits(tmp_path / "again", IDS)).max() < 1e-4
    assert interop.open(tmp_path / "again").learnt == model.learnt


# ---- files


@pytest.mark.parametrize("config", ["gpt2", "llama"])
def test_several_files(tmp_path, config):
    saved(tmp_path, CONFIGS[config](), max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert (
        np.abs(our_logits(interop.open(tmp_path), IDS) - their_logits(tmp_path, IDS)).max() < 1e-4
    )


@pytest.mark.parametrize("config", ["gpt2", "llama"])
def test_pickled_weights_of_the_older_form(tmp_path, config):
    """With what such files have and is not learnt: masks, wavelengths, the tied output layer."""
    net = saved(tmp_path, CONFIGS[config]())
    expected = their_logits(tmp_path, IDS)
    state = dict(net.state_dict())
    state[
        "transformer.h.0.attn.bias"
        if config == "gpt2"
        else "model.layers.0.self_attn.rotary_emb.inv_freq"
    ] = torch.ones(3)
    if config == "gpt2":
        state["transformer.h.1.attn.masked_bias"] = torch.tensor(-1e4)
    torch.save(state, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    assert np.abs(our_logits(interop.open(tmp_path), IDS) - expected).max() < 1e-4


def test_weights_without_the_prefix_of_the_head(tmp_path):
    """As the weights of GPT-2 were published."""
    saved(tmp_path, small_gpt2())
    expected = their_logits(tmp_path, IDS)

    def bare(arrays):
        for name in list(arrays):
            arrays[name.removeprefix("transformer.")] = arrays.pop(name)

    changed(tmp_path, bare)
    assert np.abs(our_logits(interop.open(tmp_path), IDS) - expected).max() < 1e-4


def test_half_precision(tmp_path):
    saved(tmp_path, small_llama(dtype="bfloat16")).to(torch.bfloat16).save_pretrained(tmp_path)
    model = interop.open(tmp_path)
    net = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    with torch.no_grad():
        assert (
            np.abs(our_logits(model, IDS) - net(torch.tensor(IDS[None])).logits[0].numpy()).max()
            < 1e-4
        )


def test_rows_that_no_token_uses(tmp_path):
    rows = -(-V // 64) * 64
    saved(tmp_path, small_llama(vocab_size=rows))
    model = interop.open(tmp_path)
    assert (model.tokenizer.vocab_size, model.tokenizer.lossless) == (rows, True)
    assert np.abs(our_logits(model, IDS) - their_logits(tmp_path, IDS)).max() < 1e-4
    saved(tmp_path, small_gpt2(vocab_size=rows))
    with pytest.raises(SeqloomError, match=f"{V} tokens, its embedding {rows} rows"):
        interop.open(tmp_path)


def test_convert_both_ways(tmp_path):
    from click.testing import CliRunner

    from seqloom.cli.main import main

    saved(tmp_path / "theirs", small_llama())
    for arguments in (
        ["convert", str(tmp_path / "theirs"), str(tmp_path / "ours")],
        ["convert", str(tmp_path / "ours"), str(tmp_path / "again"), "--form", "hugging-face"],
    ):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
    assert (
        np.abs(their_logits(tmp_path / "again", IDS) - their_logits(tmp_path / "theirs", IDS)).max()
        < 1e-5
    )


# ---- models of seqloom


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"positions": "learned"}, "byte"),
        ({"positions": "learned", "bias": False, "tied": False}, "bpe"),
        ({"positions": "learned", "activation": "relu"}, "unigram"),
        ({"norm_kind": "rms", "activation": "swiglu", "n_kv_heads": 2, "bias": False}, "byte"),
        ({"norm_kind": "rms", "activation": "swiglu"}, "bpe"),
    ],
    ids=str,
)
def test_a_trained_gpt_is_written(tmp_path, options, kind):
    text = "the cat sat on the mat\nthe dog sat on the log\n" * 30
    size = {} if kind == "byte" else {"vocab_size": 290}
    model = seqloom.GPT(d_model=16, n_layers=2, n_heads=4, context=24, **options).fit(
        text,
        tokenizer=seqloom.Tokenizer(kind=kind, **size).fit(text),
        train=TrainConfig(steps=3, batch_size=4),
    )
    interop.write(model, tmp_path / "theirs")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    ids = tokenizer("the cat")["input_ids"]
    assert ids == [model.tokenizer.eos_id, *model.tokenizer.encode("the cat").tolist()]
    assert np.abs(their_logits(tmp_path / "theirs", ids) - our_logits(model, ids)).max() < 1e-4
    back = interop.open(tmp_path / "theirs")
    assert np.allclose(back.token_scores("the cat"), model.token_scores("the cat"), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "tokenizer", "words"),
    [
        ({"positions": "alibi"}, {}, r"gpt2 has not: positions alibi \(there: learned\)"),
        ({"positions": "rope"}, {}, "gpt2 has not: positions rope"),
        ({"norm": "post", "positions": "learned"}, {}, "norm post"),
        (
            {"norm_kind": "rms", "activation": "relu"},
            {},
            r"llama has not: activation relu \(there: swiglu\)",
        ),
        ({"positions": "learned", "n_kv_heads": 1}, {}, "gpt2 has not: n_kv_heads 1"),
        ({"positions": "learned", "softmax": "adaptive"}, {}, "its softmax is adaptive"),
        ({"positions": "learned"}, {"kind": "whitespace"}, "tokens are of the kind 'whitespace'"),
        ({"positions": "learned"}, {"normalize": "case=lower"}, "case=lower"),
    ],
    ids=str,
)
def test_what_transformers_has_not_is_named(tmp_path, options, tokenizer, words):
    text = "the cat sat on the mat\n" * 300
    model = seqloom.GPT(d_model=8, n_layers=1, n_heads=2, context=8, **options).fit(
        text,
        tokenizer=seqloom.Tokenizer(**tokenizer).fit(text),
        train=TrainConfig(steps=1, batch_size=2),
    )
    with pytest.raises(SeqloomError, match=words) as caught:
        interop.write(model, tmp_path / "theirs")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "theirs").exists()


# ---- what is refused


def renamed(old, new):
    return lambda arrays: arrays.update({new: arrays.pop(old)})


@pytest.mark.parametrize(
    ("config", "values", "change", "words"),
    [
        ("gpt2", {"activation_function": "gelu"}, None, "activation_function is 'gelu'; gelu_new"),
        (
            "gpt2",
            {"scale_attn_by_inverse_layer_idx": True},
            None,
            "scale_attn_by_inverse_layer_idx is true",
        ),
        ("gpt2", {"add_cross_attention": True}, None, "add_cross_attention is true"),
        ("gpt2", {"n_head": 5}, None, "d_model 24 is not a multiple of 5"),
        ("gpt2", {"n_embd": "x"}, None, "n_embd is 'x'"),
        ("gpt2", {"n_layer": 3}, None, "lacks the tensors 'transformer.h.2.attn.c_attn.bias'"),
        ("gpt2", {"n_layer": 1}, None, "a plain gpt2 has not, the tensors 'transformer.h.1"),
        (
            "gpt2",
            {"n_positions": 79},
            None,
            "'transformer.wpe.weight' is 80 x 24 where its values ask for 79 x 24",
        ),
        ("gpt2", {"tie_word_embeddings": False}, None, "lacks the tensor 'lm_head.weight'"),
        (
            "gpt2",
            {},
            lambda arrays: arrays.update({"lm_head.weight": arrays["transformer.wte.weight"] + 1}),
            "true, and lm_head",
        ),
        (
            "gpt2",
            {},
            lambda arrays: arrays.pop("transformer.wte.weight"),
            "lacks the tensor 'transformer.wte.weight'",
        ),
        (
            "gpt2",
            {},
            renamed("transformer.h.0.ln_1.weight", "transformer.h.0.ln_3.weight"),
            "lacks the tensor .*ln_1",
        ),
        (
            "gpt2",
            {},
            lambda arrays: arrays["transformer.ln_f.weight"].fill(np.nan),
            "'transformer.ln_f.weight' has values",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}},
            None,
            r"positions are scaled \('llama3'\)",
        ),
        (
            "llama",
            {"rope_parameters": ..., "rope_scaling": {"type": "linear", "factor": 2}},
            None,
            r"are scaled \('linear'\)",
        ),
        ("llama", {"rope_parameters": {"rope_theta": 0}}, None, "rope_theta is 0; it must be"),
        ("llama", {"head_dim": 8}, None, "head_dim is 8, not 6"),
        ("llama", {"hidden_act": "relu"}, None, "hidden_act is 'relu'"),
        ("llama", {"num_key_value_heads": 3}, None, "n_kv_heads 3 does not divide"),
        (
            "llama",
            {"attention_bias": True},
            None,
            "lacks the tensors 'model.layers.0.self_attn.q_proj.bias'",
        ),
        ("llama", {"intermediate_size": 41}, None, "is 40 x 24 where its values ask for 41 x 24"),
        (
            "llama",
            {},
            renamed("model.norm.weight", "model.norm.bias"),
            "lacks the tensor 'model.norm.weight'",
        ),
        ("llama", {"model_type": "mamba"}, None, "the family 'mamba', which cannot be converted"),
    ],
)
def test_what_is_not_understood_is_named_in_one_line(tmp_path, config, values, change, words):
    saved(tmp_path, CONFIGS[config]())
    changed(tmp_path, change, **values)
    with pytest.raises(SeqloomError, match=words) as caught:
        interop.open(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_chat_template_comes_along_and_goes_back(tmp_path):
    place = tmp_path / "there"
    saved(place, small_llama())
    (place / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    model = interop.open(place)
    assert model.learnt["chat_template"].startswith("{% for m")
    interop.write(model, tmp_path / "back")
    assert interop.open(tmp_path / "back").learnt == model.learnt
    assert (
        transformers.AutoTokenizer.from_pretrained(tmp_path / "back").chat_template
        == model.learnt["chat_template"]
    )


def test_a_task_that_it_is_not_for(tmp_path):
    saved(tmp_path, small_gpt2())
    with pytest.raises(
        SeqloomError,
        match="a gpt2 cannot be converted for the task 'fill'; known: gpt, language-model",
    ):
        interop.open(tmp_path, "fill")


def test_the_older_form_of_the_base_of_positions(tmp_path):
    saved(tmp_path, small_llama())
    expected = our_logits(interop.open(tmp_path), IDS)
    changed(tmp_path, rope_parameters=..., rope_theta=500.0)
    assert np.array_equal(our_logits(interop.open(tmp_path), IDS), expected)


# ---- published weights


@pytest.mark.parametrize("name", ["IgLM-S", "IgLM"])
def test_iglm(tmp_path, name):
    place = Path(os.environ.get("SEQLOOM_WEIGHTS", "none"), "iglm", "iglm", "trained_models")
    if not place.is_dir():
        pytest.skip("no IgLM in $SEQLOOM_WEIGHTS")
    shutil.copytree(place / name, tmp_path / "theirs")
    shutil.copy(place / "vocab.txt", tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    model = interop.open(tmp_path / "theirs")
    ids = model.tokenizer.encode("E V Q L V E S G G G L V Q P G G S L R L S C A A S G F")
    assert model.tokenizer.token(model.tokenizer.eos_id) == "[SEP]"
    assert len(set(ids.tolist())) > 10
    assert (
        np.abs(our_logits(model, ids) - their_logits(tmp_path / "theirs", ids, "masked_bias")).max()
        < 1e-4
    )
    assert our_continuation(model, ids, 50) == their_continuation(tmp_path / "theirs", ids, 50)
