"""Tiny random models of transformers, saved with a byte-level tokenizer, and what transformers
makes of a directory.
"""

import json

import numpy as np
from safetensors.numpy import load_file, save_file

from seqloom.text.subword import ALPHABET
from seqloom.text.subword_lists import added_token, byte_level, byte_level_spec

MERGES = ["t h", "th e", "Ġ the", "c a", "ca t"]
TOKENS = [*ALPHABET, *(merge.replace(" ", "") for merge in MERGES), "<|endoftext|>"]
V = len(TOKENS)
PROMPT = "the cat sat"


def small_gpt2(**options):
    import transformers

    return transformers.GPT2Config(
        **{
            "vocab_size": V,
            "n_embd": 24,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 80,
            "bos_token_id": V - 1,
            "eos_token_id": V - 1,
            "initializer_range": 0.2,
            **options,
        }
    )


def small_llama(**options):
    import transformers

    return transformers.LlamaConfig(
        **{
            "vocab_size": V,
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 40,
            "max_position_embeddings": 80,
            "bos_token_id": V - 1,
            "eos_token_id": V - 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
            "initializer_range": 0.2,
            **options,
        }
    )


def saved(place, config, *, seed=0, tokenizer=True, **saving):
    """A directory with random weights, biases too, of the model that config names."""
    import torch
    import transformers

    torch.manual_seed(seed)
    net = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter += 0.1 * torch.randn_like(parameter) * (parameter.ndim == 1 or "wpe" in name)
    net.save_pretrained(place, **saving)
    if tokenizer:
        write_tokenizer(place)
    return net


def write_tokenizer(place, **settings):
    ids = {token: i for i, token in enumerate(TOKENS)}
    spec = byte_level_spec(ids, MERGES, [byte_level()], [added_token(V - 1, TOKENS[-1])])
    (place / "tokenizer.json").write_text(json.dumps(spec), encoding="utf-8")
    (place / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": TOKENS[-1],
                "eos_token": TOKENS[-1],
                **settings,
            }
        )
    )


def their_logits(place, ids, unknown=""):
    """Of transformers on the directory, (T, V); it must miss no tensor and know all, but those
    whose names end so.
    """
    import torch
    import transformers

    net, info = transformers.AutoModelForCausalLM.from_pretrained(place, output_loading_info=True)
    assert not info["missing_keys"]
    assert not [
        name for name in info["unexpected_keys"] if not unknown or not name.endswith(unknown)
    ]
    assert not info["mismatched_keys"]
    with torch.no_grad():
        return net.eval()(torch.tensor(np.asarray(ids)[None])).logits[0].numpy()


def their_continuation(place, ids, n):
    """The n ids after these that transformers finds most likely, each from all before it."""
    import torch
    import transformers

    net = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
    ids = list(ids)
    for _ in range(n):
        with torch.no_grad():
            ids.append(int(net(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[-n:]


def our_logits(model, ids):
    import torch

    with torch.no_grad():
        net = model.network()
        features, _ = net(torch.tensor(np.asarray(ids)[None]))
        weight = net.embedding.weight if model.config.tied else net.output.weight
        return (features @ weight.T)[0].numpy()


def our_continuation(model, ids, n):
    """The same by the steps of the model, without torch."""
    stepper = model.stepper()
    state, log_probs = stepper.prefill([np.asarray(ids)])
    found = []
    for _ in range(n):
        found.append(int(log_probs[0].argmax()))
        state, log_probs = stepper.step(state, np.array(found[-1:]))
    return found


def changed(place, change=None, **values):
    """Other values in config.json, and other tensors."""
    config = json.loads((place / "config.json").read_text())
    config = {name: value for name, value in {**config, **values}.items() if value is not ...}
    (place / "config.json").write_text(json.dumps(config))
    if change is not None:
        arrays = load_file(place / "model.safetensors")
        change(arrays)
        save_file(arrays, place / "model.safetensors")
