"""Llama from GGUF: the same log-probabilities as its equations and as transformers, the tokenizer,
and what is refused.
"""

import json
import unicodedata

import numpy as np
import pytest

import seqloom
from seqloom import interop
from seqloom.errors import DataError, SeqloomError
from seqloom.text.boundaries import cut_before_letter
from tests.interop import llama_files
from tests.interop.llama_files import (
    BASE,
    BOS,
    CONTEXT,
    EOS,
    MARKS,
    TOKENS,
    llama_file,
    log_probs,
    logits,
    weights,
)

FEW = "the cat"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return interop.open(llama_file(tmp_path_factory.mktemp("llama") / "tiny.gguf"))


def expected(arrays, ids):
    """Of each token and of the end: the first after the end mark alone, the others after those
    before them.
    """
    ids = [*ids, EOS]
    first = log_probs(arrays, [EOS])[0, ids[0]]
    rest = log_probs(arrays, ids[:-1])
    return [first, *(rest[t - 1, ids[t]] for t in range(1, len(ids)))]


def test_scores_are_those_of_the_equations(model):
    pytest.importorskip("torch")
    ids = model.tokenizer.encode(FEW)
    assert len(ids) < CONTEXT
    assert np.allclose(model.token_scores(FEW), expected(weights(), ids), atol=2e-5)


def test_steps_are_those_of_the_equations(model):
    stepper, ids = model.stepper(), model.tokenizer.encode(FEW)
    state, first = stepper.start(1)
    assert np.allclose(first[0], log_probs(weights(), [EOS])[0], atol=2e-5)
    for t, token in enumerate(ids):
        state, found = stepper.step(state, np.array([token]))
        assert np.allclose(found[0], log_probs(weights(), ids[: t + 1])[-1], atol=2e-5)


def test_networks_and_steps_agree_on_long_texts_and_in_stretches(model):
    pytest.importorskip("torch")
    from seqloom.contracts.language import LanguageModel

    ids = np.random.default_rng(1).integers(3, len(TOKENS), 60)
    lengths = np.array([1, 2, 40, 17])
    assert np.allclose(
        model.sequence_log_probs(ids, lengths),
        LanguageModel.sequence_log_probs(model, ids, lengths),
        atol=1e-4,
    )
    whole = model.sequence_log_probs(ids, np.array([60]))
    for cuts in ([1], [2, 3], [12, 13, 30], [5, 25]):
        parts, state = [], None
        for part in np.split(ids, cuts):
            found, state = model.continue_log_probs(part, state)
            parts.append(found)
        assert np.allclose(np.concatenate(parts), whole, atol=1e-5)


def test_a_start_token_that_texts_had_is_seen_by_all(tmp_path):
    pytest.importorskip("torch")
    model = interop.open(llama_file(tmp_path / "x.gguf", tokenizer__ggml__add_bos_token=True))
    ids = model.tokenizer.encode(FEW)
    found = log_probs(weights(), [BOS, *ids])
    assert np.allclose(
        model.token_scores(FEW), [found[t, token] for t, token in enumerate([*ids, EOS])], atol=2e-5
    )
    assert np.allclose(model.stepper().prefill([ids])[1][0], found[-1], atol=2e-5)


def test_an_output_layer_of_its_own(tmp_path):
    pytest.importorskip("torch")
    arrays = weights(tied=False)
    model = interop.open(llama_file(tmp_path / "x.gguf", arrays))
    assert np.allclose(
        model.token_scores(FEW), expected(arrays, model.tokenizer.encode(FEW)), atol=2e-5
    )


def test_it_is_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "model")
    again = seqloom.load(tmp_path / "model")
    assert np.array_equal(again.stepper().start(1)[1], model.stepper().start(1)[1])
    assert again.tokenizer == model.tokenizer
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["learnt"]["start"] = len(TOKENS)
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(SeqloomError, match=f"start token {len(TOKENS)} is not in its vocabulary"):
        seqloom.load(tmp_path / "model")


def test_weights_are_those_of_transformers(model):
    """Its rows of queries and keys are in the order of Hugging Face, so they are copied as they are."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    net = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(TOKENS),
            hidden_size=llama_files.D,
            intermediate_size=llama_files.D_MLP,
            num_hidden_layers=2,
            num_attention_heads=llama_files.HEADS,
            num_key_value_heads=llama_files.KV_HEADS,
            max_position_embeddings=CONTEXT,
            rms_norm_eps=llama_files.EPSILON,
            rope_theta=BASE,
            rope_parameters={"rope_type": "default", "rope_theta": BASE},
            tie_word_embeddings=True,
            attention_bias=False,
        )
    ).eval()
    d, d_kv, ours = (
        llama_files.D,
        llama_files.D // llama_files.HEADS * llama_files.KV_HEADS,
        model.weights,
    )
    state = {
        "model.embed_tokens.weight": ours["embedding.weight"],
        "model.norm.weight": ours["norm.weight"],
        "lm_head.weight": ours["embedding.weight"],
    }
    for i in range(2):
        q, k, v = np.split(ours[f"blocks.{i}.attention.qkv.weight"], [d, d + d_kv])
        gate, up = np.split(ours[f"blocks.{i}.mlp.up.weight"], 2)
        state |= {
            f"model.layers.{i}.{name}.weight": array
            for name, array in {
                "self_attn.q_proj": q,
                "self_attn.k_proj": k,
                "self_attn.v_proj": v,
                "mlp.gate_proj": gate,
                "mlp.up_proj": up,
                "self_attn.o_proj": ours[f"blocks.{i}.attention.out.weight"],
                "mlp.down_proj": ours[f"blocks.{i}.mlp.down.weight"],
                "input_layernorm": ours[f"blocks.{i}.norm1.weight"],
                "post_attention_layernorm": ours[f"blocks.{i}.norm2.weight"],
            }.items()
        }
    net.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in state.items()})
    ids = np.random.default_rng(3).integers(0, len(TOKENS), 11)
    with torch.no_grad():
        theirs = net(torch.from_numpy(ids[None])).logits[0].numpy()
        features, _ = model.network()(torch.from_numpy(ids[None]))
        assert (
            np.abs((features @ model.network().embedding.weight.T)[0].numpy() - theirs).max() < 1e-4
        )
    assert np.abs(logits(weights(), ids) - theirs).max() < 1e-4


# ---- tokenizer


def test_tokens(model):
    t = model.tokenizer
    assert [t.token(i) for i in t.encode("the the cat  12 2")] == [
        "the",
        " the",
        " ca",
        "t",
        "  ",
        "1",
        "2",
        " ",
        "2",
    ]
    assert (t.vocab_size, t.eos_id, t.unk_id, t.kind, t.lossless) == (
        len(TOKENS),
        EOS,
        None,
        "bpe",
        True,
    )
    assert all(t.token_bytes(i) == b"" for i in range(len(MARKS)))
    assert not {*range(len(MARKS))} & {
        *t.encode("".join(MARKS)).tolist()
    }  # markup in a text is text
    assert t.decode(t.encode("naïve 日本 the\n")) == "naïve 日本 the\n"
    with pytest.raises(DataError, match="the byte 0x04, for which this vocabulary has no token"):
        t.encode("a\x04b")
    with pytest.raises(DataError, match="the byte 0xff"):
        t.encode(b"a\xffb")


def test_numbers_stay_whole_where_the_rule_says_so(tmp_path):
    t = interop.open(llama_file(tmp_path / "x.gguf", tokenizer__ggml__pre="gpt-2")).tokenizer
    assert [t.token(i) for i in t.encode("the 12")] == ["the", " ", "12"]


def test_tokens_that_users_added_are_found_in_a_text(tmp_path):
    types = [3, 4, 3] + [1] * (len(TOKENS) - 3)
    t = interop.open(llama_file(tmp_path / "x.gguf", tokenizer__ggml__token_type=types)).tokenizer
    assert t.encode("the<|im_start|>").tolist() == [TOKENS.index("the"), 1]


def test_a_long_text_is_cut_where_its_ids_do_not_change(model):
    t = model.tokenizer
    texts = [
        "the  12 the",
        "a ² b",
        "a  ٣ c",
        "x \u0663",
        "日本  日",
        "a\n\nthe 1",
        "12  x",
        "a  b",
        "5  the",
        "é  é",
        "  1 a",
    ]
    text = "".join(texts).encode()
    for end in range(1, len(text) + 1):
        cut = t.cut(text[:end], False)
        assert np.array_equal(
            np.concatenate([t.encode(text[:cut]), t.encode(text[cut:])]), t.encode(text)
        )
    assert t.cut(b"the cat  12", False) == 3
    assert t.cut(b"the cat x12 c", False) == 11


def test_a_cut_is_never_before_a_number_or_a_blank():
    characters = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    cut = [c for c in characters if cut_before_letter(f"a {c}".encode(), False) == 1]
    assert len(cut) > 30_000
    assert not [c for c in cut if unicodedata.category(c)[0] == "N" or c.isspace()]


# ---- what is refused


def changed(name, array):
    return {**weights(), name: array}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general__architecture": "bert"}, "architecture 'bert'; llama can be converted"),
        ({"general__architecture": None}, "general.architecture is missing"),
        ({"llama__block_count": None}, "llama.block_count is missing"),
        ({"llama__block_count": 0}, "must be a whole number"),
        ({"llama__block_count": 3}, "lacks the tensors 'blk.2.attn_q.weight'"),
        ({"llama__block_count": 1}, "llama has not,"),
        ({"llama__embedding_length": 25}, "d_model 25 is not a multiple"),
        ({"llama__context_length": 1}, "context"),
        ({"llama__attention__head_count_kv": 4}, "n_kv_heads 4 does not divide"),
        ({"llama__attention__head_count": 3}, "rope.dimension_count is not 8"),
        ({"llama__rope__scaling__type": "linear"}, "scaled"),
        ({"llama__feed_forward_length": 21}, "20 x 24 where .* ask for 21 x 24"),
        ({"llama__attention__layer_norm_rms_epsilon": "x"}, "must be a number"),
        ({"tokenizer__ggml__model": "t5"}, "of the kind 't5'; gpt2"),
        ({"tokenizer__ggml__pre": "bloom"}, "rule 'bloom'"),
        ({"tokenizer__ggml__pre": None}, "tokenizer.ggml.pre is missing"),
        ({"tokenizer__ggml__tokens": [*TOKENS[:-1], "t"]}, "'t' appears twice"),
        (
            {"tokenizer__ggml__tokens": [*TOKENS, "more"], "tokenizer__ggml__token_type": None},
            "where its values ask for",
        ),
        ({"tokenizer__ggml__tokens": ["a"]}, "has 1 tokens"),
        ({"tokenizer__ggml__tokens": 7}, "must be a list of texts"),
        ({"tokenizer__ggml__merges": ["t h e"]}, "not a pair"),
        ({"tokenizer__ggml__merges": ["z z"]}, "not in its vocabulary"),
        ({"tokenizer__ggml__token_type": [1, 2]}, "as many numbers as there are tokens"),
        ({"tokenizer__ggml__eos_token_id": len(TOKENS)}, "eos_token_id"),
        ({"tokenizer__ggml__eos_token_id": None}, "is missing"),
        (
            {"tokenizer__ggml__add_bos_token": True, "tokenizer__ggml__bos_token_id": 99999},
            "bos_token_id",
        ),
        ({"arrays": changed("rope_freqs.weight", np.ones(2, np.float32))}, "'rope_freqs.weight'"),
        ({"arrays": changed("output_norm.weight", np.full(llama_files.D, np.nan))}, "not finite"),
        ({"arrays": changed("output_norm.weight", np.full(llama_files.D, 1e20))}, "beyond 1e"),
        (
            {"arrays": changed("output_norm.weight", np.ones(5))},
            "'output_norm.weight' is 5 where its values ask for 24",
        ),
    ],
    ids=str,
)
def test_what_is_not_understood_is_named_in_one_line(tmp_path, changes, words):
    with pytest.raises(SeqloomError, match=words) as caught:
        interop.open(llama_file(tmp_path / "x.gguf", **changes))
    assert "x.gguf" in str(caught.value)
    assert "\n" not in str(caught.value)
