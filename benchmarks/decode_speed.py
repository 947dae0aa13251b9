"""Drawing one sequence on a CPU: LSTM against a loop over torch.nn.LSTM, GPT against Hugging Face generate.

Both sides have the same weights (the largest difference of their log-probabilities is printed) and
draw the next token at temperature 1. What 8-bit weights cost is measured on held-out text with a
network trained here for a few steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, bundled_text, collect, peer, sized, table

Row = tuple[str, str, str, str]
VOCABULARY = sized(10_000, 50)
GPT_WIDTH = sized(384, 24)
EOS = 0


def run(quick: bool, only: str) -> None:
    try:
        import torch
    except ImportError:
        print("(skipped: torch is not installed)")
        return
    torch.manual_seed(0)
    suites = {"lstm": lstm, "gpt": gpt, "8-bit cost": cost}
    rows = collect({name: partial(suite, quick) for name, suite in suites.items()}, only)
    threads = f"{torch.get_num_threads()} threads for torch, NumPy's BLAS as it comes"
    table(f"Drawing text, one sequence ({threads})", rows, ("what", "peer", "seqloom", "ratio"))


def lstm(quick: bool) -> Iterator[Row]:
    import torch

    from seqloom.runtime.language import RecurrentNet, RecurrentStepper
    from seqloom.runtime.weights import Weights

    for width, tokens in sized(((200, 400), (650, 150)), ((16, 5),)):
        parts = torch_lstm(width)
        embedding, net, output = parts
        plain = from_torch(*parts)
        with torch.inference_mode():
            ids = torch.randint(0, VOCABULARY, (1, 30))
            ids[0, 0] = EOS
            expected = torch.log_softmax(output(net(embedding(ids))[0]), -1)[0].numpy()
        for bits in (32, 8):
            network = RecurrentNet(
                Weights(plain, eight_bit=bits == 8),
                VOCABULARY,
                width,
                width,
                2,
                cell="lstm",
                tied=False,
            )
            name = f"LSTM 2 x {width}, V = {VOCABULARY:,}, {bits} bits"
            yield from _compare(
                name,
                "torch.nn.LSTM, Linear, multinomial",
                RecurrentStepper(network, EOS),
                partial(draw_with_torch, parts, tokens),
                ids[0].numpy(),
                expected,
                2 if quick else 5,
                tokens,
            )


def torch_lstm(width: int, vocabulary: int = VOCABULARY) -> tuple[Any, Any, Any]:
    """Embedding, two layers and output as one writes them with torch."""
    import torch

    return (
        torch.nn.Embedding(vocabulary, width),
        torch.nn.LSTM(width, width, 2, batch_first=True),
        torch.nn.Linear(width, vocabulary),
    )


def draw_with_torch(parts: tuple[Any, Any, Any], tokens: int) -> float:
    """Seconds of the loop that one would write."""
    import torch

    embedding, net, output = parts
    start = time.perf_counter()
    with torch.inference_mode():
        ids, state = torch.full((1, 1), EOS), None
        for _ in range(tokens):
            y, state = net(embedding(ids), state)
            ids = torch.multinomial(torch.softmax(output(y[:, -1]), -1), 1)
    return time.perf_counter() - start


def from_torch(embedding: Any, net: Any, output: Any) -> dict[str, np.ndarray]:
    """The weights of such a network by our names; it has two biases where we have one."""
    arrays = {
        "embedding.weight": embedding.weight,
        "output.weight": output.weight,
        "output.bias": output.bias,
    }
    for i, (w_x, w_h, b, b_h) in enumerate(net.all_weights):
        arrays |= {
            f"recurrent.layers.{i}.w_x": w_x,
            f"recurrent.layers.{i}.w_h": w_h,
            f"recurrent.layers.{i}.b": b + b_h,
        }
    return {name: value.detach().numpy() for name, value in arrays.items()}


def gpt(quick: bool) -> Iterator[Row]:
    import torch

    from seqloom.nn import transformer as nn
    from seqloom.runtime.language import GPTStepper
    from seqloom.runtime.transformer import GPTNet
    from seqloom.runtime.weights import Weights

    tokens, vocabulary, context = sized((240, 8000, 256), (5, 50, 32))
    ids = torch.randint(0, vocabulary, (1, 30))
    ids[0, 0] = EOS
    net = hugging_face_gpt(vocabulary, context)
    with torch.inference_mode():
        if net is None:
            own = nn.GPTNet(vocabulary, context, GPT_WIDTH, 6, 6).eval()
            arrays = {name: value.numpy() for name, value in own.state_dict().items()}
            logits = own.features(ids)[0] @ own.output_weight.T
        else:
            arrays, logits = from_hugging_face(net.state_dict(), 6), net(ids).logits
        expected = torch.log_softmax(logits, -1)[0].numpy()
    for bits in (32, 8):
        network = GPTNet(Weights(arrays, eight_bit=bits == 8), vocabulary, context, GPT_WIDTH, 6, 6)
        name = f"GPT 6 x {GPT_WIDTH}, V = {vocabulary:,}, {tokens} tokens, {bits} bits"
        theirs = net and partial(draw_with_hugging_face, net, tokens)
        yield from _compare(
            name,
            "Hugging Face generate, cache",
            GPTStepper(network, EOS),
            theirs,
            ids[0].numpy(),
            expected,
            2 if quick else 5,
            tokens,
        )


def hugging_face_gpt(vocabulary: int, context: int) -> Any:
    """GPT-2 of 6 layers x 384 with random weights, or None."""
    if (there := peer("transformers")) is None:
        return None
    config = there.GPT2Config(
        vocab_size=vocabulary,
        n_positions=context,
        n_embd=384,
        n_layer=6,
        n_head=6,
        bos_token_id=EOS,
        eos_token_id=None,
        pad_token_id=EOS,
    )
    return there.GPT2LMHeadModel(config).eval()


def draw_with_hugging_face(net: Any, tokens: int) -> float:
    import torch

    start = time.perf_counter()
    with torch.inference_mode():
        net.generate(
            torch.full((1, 1), EOS), do_sample=True, top_k=0, max_new_tokens=tokens, use_cache=True
        )
    return time.perf_counter() - start


def from_hugging_face(weights: dict[str, Any], n_layers: int) -> dict[str, np.ndarray]:
    """GPT-2's weights by our names; its matrices are transposed."""
    found = {
        "embedding.weight": "transformer.wte.weight",
        "position.weight": "transformer.wpe.weight",
        "norm.weight": "transformer.ln_f.weight",
        "norm.bias": "transformer.ln_f.bias",
    }
    parts = {
        "norm1": "ln_1",
        "norm2": "ln_2",
        "attention.qkv": "attn.c_attn",
        "attention.out": "attn.c_proj",
        "mlp.up": "mlp.c_fc",
        "mlp.down": "mlp.c_proj",
    }
    for i in range(n_layers):
        for ours, theirs in parts.items():
            for kind in ("weight", "bias"):
                found[f"blocks.{i}.{ours}.{kind}"] = f"transformer.h.{i}.{theirs}.{kind}"
    arrays = {ours: weights[theirs].detach().numpy() for ours, theirs in found.items()}
    return {
        name: array.T.copy() if name.startswith("blocks") and array.ndim == 2 else array.copy()
        for name, array in arrays.items()
    }


def _compare(
    name: str,
    peer: str,
    stepper: Any,
    theirs: Callable[[], float] | None,
    ids: np.ndarray,
    expected: np.ndarray,
    times: int,
    tokens: int,
) -> Iterator[Row]:
    state, log_probs = stepper.start(1)
    difference = 0.0
    for t in range(len(ids)):
        difference = max(difference, float(np.abs(log_probs[0] - expected[t]).max()))
        if t + 1 < len(ids):
            state, log_probs = stepper.step(state, ids[t + 1 : t + 2])
    if theirs:
        theirs()
    for label, ours in (("", draw_tokens), (", through `sample`", sample_tokens)):
        ours(stepper, 10)
        ratio = alternate(lambda ours=ours: ours(stepper, tokens), theirs, times)  # type: ignore[misc]
        yield (
            f"{name}{label}; largest difference {difference:.0e}",
            f"{peer}: {_rate(tokens, ratio.peer)}",
            _rate(tokens, ratio.ours),
            str(ratio),
        )


def draw_tokens(stepper: Any, tokens: int) -> float:
    from seqloom.kernels.sampling import draw

    rng = np.random.default_rng(0)
    start = time.perf_counter()
    state, log_probs = stepper.start(1)
    for _ in range(tokens):
        state, log_probs = stepper.step(
            state, np.array([draw(log_probs[0], 1.0, 0, 1.0, rng.random())])
        )
    return time.perf_counter() - start


def sample_tokens(stepper: Any, tokens: int) -> float:
    """The same through what `generate` uses."""
    from seqloom.decoding.sampling import SamplingConfig, sample

    start = time.perf_counter()
    for _ in sample(Endless(stepper), [np.empty(0, np.int64)], SamplingConfig(max_tokens=tokens)):
        pass
    return time.perf_counter() - start


class Endless:
    """A stepper whose texts do not end, so that every run draws as many tokens."""

    eos_id = -1

    def __init__(self, stepper: Any) -> None:
        self.start, self.step, self.vocab_size = stepper.start, stepper.step, stepper.vocab_size


def cost(quick: bool) -> Iterator[Row]:
    """What rounding to 8 bits costs: a byte-level GPT and LSTM, trained here, on text that they
    have not seen.
    """
    import torch

    from seqloom.nn import transformer as nn
    from seqloom.runtime import transformer as runtime
    from seqloom.runtime.language import GPTStepper, RecurrentNet, RecurrentStepper
    from seqloom.runtime.weights import Weights

    text = np.frombuffer(bundled_text().encode(), np.uint8).astype(np.int64)
    train, held_out = (
        torch.from_numpy(text[: len(text) * 9 // 10].copy()),
        text[len(text) * 9 // 10 :],
    )
    steps = 5 if quick else 120
    net = nn.GPTNet(256, 128, GPT_WIDTH, 6, 6)
    _train(
        lambda ids: net.features(ids)[0] @ net.output_weight.T, list(net.parameters()), train, steps
    )
    arrays = {name: value.detach().numpy() for name, value in net.state_dict().items()}
    gpts = [
        GPTStepper(
            runtime.GPTNet(Weights(arrays, eight_bit=eight_bit), 256, 128, GPT_WIDTH, 6, 6), EOS
        )
        for eight_bit in (False, True)
    ]
    yield _cost_row(f"GPT 6 x {GPT_WIDTH}, bytes, {steps} steps", gpts, held_out)

    embedding, rnn, output = torch_lstm(200, 256)
    weights = [*embedding.parameters(), *rnn.parameters(), *output.parameters()]
    _train(lambda ids: output(rnn(embedding(ids))[0]), weights, train, 2 * steps)
    arrays = from_torch(embedding, rnn, output)
    nets = [
        RecurrentNet(
            Weights(arrays, eight_bit=eight_bit), 256, 200, 200, 2, cell="lstm", tied=False
        )
        for eight_bit in (False, True)
    ]
    lstms = [RecurrentStepper(net, EOS) for net in nets]
    yield _cost_row(f"LSTM 2 x 200, bytes, {2 * steps} steps", lstms, held_out)


def _train(
    logits: Callable[[Any], Any], parameters: list[Any], text: Any, steps: int, length: int = 128
) -> None:
    import torch

    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min((step + 1) / 20, 1.0)
        at = torch.randint(0, len(text) - length - 1, (8, 1), generator=generator) + torch.arange(
            length + 1
        )
        ids = text[at]
        loss = torch.nn.functional.cross_entropy(
            logits(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()


def _cost_row(
    name: str, pair: list[Any], text: np.ndarray, rows: int = 32, length: int = 127
) -> Row:
    """Nats a byte on `rows` stretches of held-out text, in 32 and in 8 bits."""
    at = np.linspace(0, len(text) - length, rows).astype(np.int64)
    nats = []
    for stepper in pair:
        state, log_probs = stepper.start(rows)
        total = 0.0
        for t in range(length):
            now = text[at + t]
            total -= float(log_probs[np.arange(rows), now].astype(np.float64).sum())
            state, log_probs = stepper.step(state, now)
        nats.append(total / rows / length)
    more = nats[1] - nats[0]
    return (
        f"cost of 8 bits: {name}, {rows * length:,} held-out bytes",
        f"32 bits: {nats[0]:.4f} nats a byte",
        f"8 bits: {nats[1]:.4f}",
        f"{more:+.5f} nats, {more / np.log(2):+.5f} bits a byte",
    )


def _rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds:,.0f} tokens/s"
