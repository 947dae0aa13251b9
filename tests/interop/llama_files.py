"""A tiny Llama as a GGUF file, and what it predicts, written out in NumPy with ggml's conventions."""

import numpy as np

from seqloom.text.subword import ALPHABET
from tests.interop.gguf_files import gguf

LAYERS, D, HEADS, KV_HEADS, D_MLP, CONTEXT, BASE, EPSILON = 2, 24, 6, 2, 20, 12, 100.0, 1e-4
MERGES = ["t h", "th e", "Ġ the", "Ġ c", "Ġc a", "Ġ Ġ", "1 2"]
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LACKING = (0x04, 0xFF)  # bytes without a token, as in SmolLM2
TOKENS = [
    *MARKS,
    *(character for byte, character in enumerate(ALPHABET) if byte not in LACKING),
    *(merge.replace(" ", "") for merge in MERGES),
]
BOS, EOS = 1, 2


def values(**changes):
    """What the file says; a key with two underscores for each dot, None leaves it out."""
    made = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": D,
        "llama.feed_forward_length": D_MLP,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.freq_base": BASE,
        "llama.rope.dimension_count": D // HEADS,
        "llama.attention.layer_norm_rms_epsilon": EPSILON,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.bos_token_id": BOS,
        "tokenizer.ggml.eos_token_id": EOS,
        "tokenizer.ggml.token_type": [3] * len(MARKS) + [1] * (len(TOKENS) - len(MARKS)),
    }
    made |= {key.replace("__", "."): value for key, value in changes.items()}
    return {key: value for key, value in made.items() if value is not None}


def weights(tied=True):
    rng, d_kv = np.random.default_rng(0), D // HEADS * KV_HEADS
    shapes = {
        "token_embd": (len(TOKENS), D),
        "output_norm": (D,),
        **({} if tied else {"output": (len(TOKENS), D)}),
    }
    for i in range(LAYERS):
        shapes |= {
            f"blk.{i}.{name}": shape
            for name, shape in {
                "attn_norm": (D,),
                "attn_q": (D, D),
                "attn_k": (d_kv, D),
                "attn_v": (d_kv, D),
                "attn_output": (D, D),
                "ffn_norm": (D,),
                "ffn_gate": (D_MLP, D),
                "ffn_up": (D_MLP, D),
                "ffn_down": (D, D_MLP),
            }.items()
        }
    return {
        f"{name}.weight": rng.normal(1.0 if "norm" in name else 0, 0.3, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def llama_file(path, arrays=None, **changes):
    path.write_bytes(gguf(values(**changes), list((arrays or weights()).items())))
    return path


def logits(arrays, ids):
    """(T, V) of one sequence: pairs of neighbours are turned, heads of a group share keys and values."""
    w = {name.removesuffix(".weight"): array.astype(np.float64) for name, array in arrays.items()}
    size, steps = D // HEADS, len(ids)
    angles = np.arange(steps)[:, None] * BASE ** (-np.arange(0, size, 2) / size)  # (T, d / 2)

    def norm(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight

    def turned(x):  # (T, heads, d) as complex numbers
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
        return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)

    x = w["token_embd"][ids]
    for i in range(LAYERS):
        block = {
            name.removeprefix(f"blk.{i}."): array
            for name, array in w.items()
            if name.startswith(f"blk.{i}.")
        }
        y = norm(x, block["attn_norm"])
        q, k, v = ((y @ block[f"attn_{name}"].T).reshape(steps, -1, size) for name in "qkv")
        q, k = turned(q), turned(k)
        mixed = np.empty_like(q)
        for head in range(HEADS):
            scores = q[:, head] @ k[:, head // (HEADS // KV_HEADS)].T / np.sqrt(size)
            scores[np.triu_indices(steps, 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, head] = (
                shares / shares.sum(-1, keepdims=True) @ v[:, head // (HEADS // KV_HEADS)]
            )
        x = x + mixed.reshape(steps, D) @ block["attn_output"].T
        y = norm(x, block["ffn_norm"])
        gate = y @ block["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ block["ffn_up"].T)) @ block["ffn_down"].T
    return norm(x, w["output_norm"]) @ w.get("output", w["token_embd"]).T


def log_probs(arrays, ids):
    scores = logits(arrays, ids)
    scores = scores - scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))
