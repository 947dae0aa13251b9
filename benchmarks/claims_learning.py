"""The rows of `claims` for which something is trained: far dependencies, word order, position
schemes, parts of a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import SMOKE, bundled_text, sized

Row = tuple[str, str, str]
ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "recipes/transformers-and-recurrence.md", ROOT / "docs/images/distance.png"

TESTED = (4, 8, 16, 24, 32, 48, 96)
TASKS = {
    "copy": (range(1, 25), TESTED),
    "agreement": (range(1, 25), TESTED),  # distances of training, and of the test
    "copy from afar": (range(72, 97), (24, 48, 72, 84, 96, 144)),
}
SIZES = {
    "rnn": 190,
    "lstm": 84,
    "gru": 100,
    "transformer": 64,
}  # hidden sizes at which each has about 50,000 parameters
SEEDS = sized((0, 1, 2), (0,))

SCHEMES = ("learned", "sinusoidal", "rope", "alibi", "relative", "none")
CONTEXT, GPT_STEPS, SCORED = 64, 300, sized(20_000, 1_000)  # bytes, updates, bytes

BLOCK_STEPS, SMOOTHED = 300, sized(50, 2)
PARTS = {
    "all parts": {},
    "without norm": {"norm": False},
    "without residuals": {"residual": False},
    "one head": {"n_heads": 1},
    "one head, unscaled": {"n_heads": 1, "scaled": False},
}  # one head of 64: the scale matters most where d_k is large
RATES = {"all parts": (3e-3, 1e-2), "without norm": (3e-3, 1e-2)}
TARGETS = (3.6, 3.4, 3.2)  # bits per byte


def suites(quick: bool) -> dict[str, Callable[[], Iterator[Row]]]:
    found: dict[str, Callable[[], Iterator[Row]]] = {"order": partial(order, quick)}
    found |= {f"positions {name}": partial(positions, name, quick) for name in SCHEMES}
    found |= {
        f"distance {task} {model} seed {seed}": partial(distance, task, model, seed, quick)
        for seed in SEEDS
        for task in TASKS
        for model in SIZES
    }
    found |= {
        f"parts {name} {rate:g}": partial(parts, name, rate, quick)
        for name in PARTS
        for rate in RATES.get(name, (3e-3,))
    }
    return found | {"chart": chart}


# ---- accuracy against distance


def distance(task: str, model: str, seed: int, quick: bool) -> Iterator[Row]:
    """A classifier of the last state: accuracy at each distance."""
    from seqloom import NeuralClassifier, TrainConfig
    from seqloom.data.synthetic import agreement_task, copy_task

    make, (trained, tested) = agreement_task if task == "agreement" else copy_task, TASKS[task]
    how = TrainConfig(steps=sized(30 if quick else 600, 2), batch_size=32, seed=seed)
    fitted = NeuralClassifier(
        encoder=model,
        pooling="last",
        d_hidden=SIZES[model],
        d_embed=64,
        dropout=0.0,
        word_dropout=0.0,
    ).fit(make(sized(8000, 64), trained, seed=seed).labelled(), train=how)
    right = [
        fitted.evaluate(make(sized(300, 10), d, seed=100 + seed).labelled())["accuracy"]
        for d in tested
    ]
    yield (
        f"{task} / {model}",
        " / ".join(f"{value:.2f}" for value in right),
        f"accuracy at distances {', '.join(map(str, tested))}; trained on {trained[0]} to "
        f"{trained[-1]}; seed {seed}",
    )


def chart() -> Iterator[Row]:
    """The picture of the tables of the page, so that both always say the same; dashed: the ends of
    the trained distances.
    """
    import altair as alt

    from seqloom.charts import theme
    from seqloom.charts.theme import png, write

    lines = PAGE.read_text(encoding="utf-8").splitlines()
    colours = alt.Scale(domain=list(SIZES), range=list(theme.HUES[: len(SIZES)]))
    panels = []
    for task, (trained, tested) in TASKS.items():
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in lines
            if line.startswith(f"| {task} |")
        ]
        values = [
            {"model": model, "distance": d, "accuracy": float(cell)}
            for _, model, *cells in rows
            for d, cell in zip(tested, cells, strict=True)
        ]
        across = alt.X(
            "distance:Q",
            title="words between (log scale)",
            axis=alt.Axis(values=list(tested)),
            scale=alt.Scale(type="log", domain=[tested[0], tested[-1]]),
        )
        drawn = (
            alt.Chart(alt.InlineData(values=values))
            .mark_line(point=True)
            .encode(
                x=across,
                y=alt.Y("accuracy:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="~%")),
                color=alt.Color("model:N", scale=colours, title=None),
            )
        )
        ends = [{"distance": d} for d in (trained[0], trained[-1]) if d >= tested[0]]
        border = (
            alt.Chart(alt.InlineData(values=ends))
            .mark_rule(strokeDash=[4, 4], color=theme.FAINT)
            .encode(x=across)
        )
        panels.append(alt.layer(drawn, border).properties(width=230, height=220, title=task))
    drawn = png(alt.hconcat(*panels))
    if not SMOKE:
        write(PICTURE, drawn)
    yield ("chart", str(PICTURE.relative_to(ROOT)), f"the tables of {PAGE.name}")


# ---- order


def order(quick: bool) -> Iterator[Row]:
    """Blocks without positions on shuffled input, and a classifier that must say which of two marks
    comes first.
    """
    import torch

    kinds = {
        "no positions": (False, False),
        "rotary positions": (True, False),
        "no positions, causal": (False, True),
    }
    for name, (rotary, causal) in kinds.items():
        torch.manual_seed(0)
        net = _Order(rotary, causal)
        ids = torch.randint(2, 16, (64, 12))
        shuffle = torch.randperm(12)
        with torch.no_grad():
            apart = float((net.hidden(ids)[:, shuffle] - net.hidden(ids[:, shuffle])).abs().max())
        yield (
            f"order, {name}: largest change of an output when the input is shuffled",
            f"{apart:.1e}",
            "2 blocks, seed 0",
        )
        right = _learn_order(net, sized(30 if quick else 300, 3))
        yield (
            f"order, {name}: accuracy in telling which of two marks comes first",
            f"{right:.3f}",
            "12 tokens, 2 blocks of width 32, mean of all outputs, 300 steps; 2,000 others; chance "
            "0.5; seed 0",
        )


def _marked(n: int) -> tuple[Any, Any]:
    """Tokens 2 to 15 with one 0 and one 1 among them; whether the 0 comes first."""
    import torch

    ids = torch.randint(2, 16, (n, 12))
    places = torch.rand(n, 12).argsort(1)[:, :2]
    ids.scatter_(1, places, torch.tensor([[0, 1]]).expand(n, 2))
    return ids, (places[:, 0] < places[:, 1]).long()


def _learn_order(net: Any, steps: int) -> float:
    import torch
    import torch.nn.functional as F

    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for _ in range(steps):
        ids, first = _marked(64)
        optimiser.zero_grad()
        F.cross_entropy(net(ids), first).backward()
        optimiser.step()
    ids, first = _marked(2000)
    with torch.no_grad():
        return float((net(ids).argmax(1) == first).float().mean())


def _Order(rotary: bool, causal: bool) -> Any:
    import torch
    from torch import nn

    from seqloom.nn.attention import Attention, Mask, TokenPositions
    from seqloom.nn.position import rotary_angles
    from seqloom.nn.transformer import ACTIVATIONS, MLP, Block

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(16, 32), nn.Linear(32, 2)
            self.blocks = nn.ModuleList(
                Block(32, Attention(32, 4), MLP(32, 128, ACTIVATIONS["gelu"])) for _ in range(2)
            )

        def hidden(self, ids: Any) -> Any:
            x, positions = self.embedding(ids), torch.arange(ids.shape[1])[None]
            rotation = (
                tuple(part[:, None] for part in rotary_angles(positions, 8)) if rotary else None
            )
            for block in self.blocks:
                x, _ = block(
                    x, Mask(causal=causal), TokenPositions(positions, None, ids.shape[1], rotation)
                )  # type: ignore[arg-type]
            return x

        def forward(self, ids: Any) -> Any:
            return self.head(self.hidden(ids).mean(1))

    return Net()


# ---- positions beyond the trained length


def positions(name: str, quick: bool) -> Iterator[Row]:
    """A small byte-level gpt of the bundled text, scored with its own context, with twice and with
    four times as much.
    """
    import seqloom
    from seqloom.errors import ConfigError

    text = bundled_text()
    held = text[-(4000 if quick else SCORED) :]
    model = seqloom.GPT(
        positions=name,
        tokenizer="byte",
        context=CONTEXT,
        d_model=64,
        n_layers=2,
        n_heads=4,
        dropout=0.0,
    )
    steps = sized(20 if quick else GPT_STEPS, 2)
    how = seqloom.TrainConfig(steps=steps, batch_size=16, seed=0, evaluate_every=steps)
    model.fit(text[:-SCORED], train=how)
    begun = model.bits_per_byte(held)
    ways: dict[str, float | None] = {name: None}
    if name == "rope":
        ways = {"rope, not divided": 1.0, "rope, divided": None}
    for label, scale in ways.items():
        try:
            bits = [
                begun,
                *(model.extended(times * CONTEXT, scale).bits_per_byte(held) for times in (2, 4)),
            ]
            shown = ", ".join(f"{value:.3f}" for value in bits)
        except ConfigError as error:
            shown = f"{begun:.3f}; refused: {error}"
        yield (
            f"positions {label}: bits per byte with 1, 2, 4 times the trained context",
            shown,
            f"2 x 64, {steps} steps, seed 0",
        )


# ---- parts of a block


def parts(name: str, rate: float, quick: bool) -> Iterator[Row]:
    """Bits per byte of training on bytes that were not seen before, with one part of the blocks taken out."""
    import torch
    import torch.nn.functional as F

    ids = torch.tensor(np.frombuffer(bundled_text().encode(), np.uint8)).long()
    torch.manual_seed(0)
    net = stripped(**PARTS[name])  # type: ignore[arg-type]
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate)
    steps, losses = sized(60 if quick else BLOCK_STEPS, 4), []
    windows = ids[: steps * 8 * 65].view(steps, 8, 65)[torch.randperm(steps)]
    for rows in windows:
        optimiser.zero_grad()
        hidden, _ = net.features(rows[:, :-1])
        loss = F.cross_entropy((hidden @ net.output_weight.T).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item() / math.log(2))
    means = running(losses, SMOOTHED)
    reached = {
        target: next((SMOOTHED + i for i, mean in enumerate(means) if mean <= target), None)
        for target in TARGETS
    }
    yield (
        f"parts, {name}, rate {rate:g}: bits per byte, mean of the last {SMOOTHED} of {steps} steps",
        f"{means[-1]:.3f}",
        "steps to "
        + ", ".join(f"{target}: {at or 'never'}" for target, at in reached.items())
        + "; seed 0",
    )


def running(values: Sequence[float], n: int) -> list[float]:
    return np.convolve(values, np.full(n, 1 / n), "valid").tolist()


def stripped(
    norm: bool = True, residual: bool = True, scaled: bool = True, n_heads: int = 4
) -> Any:
    """A GPT of 4 x 64 whose blocks lack a part. All start alike, from weights that keep the size of
    what they are given: GPT-2's small ones rely on the norm.
    """
    from torch import nn

    from seqloom.nn.attention import Attention
    from seqloom.nn.transformer import ACTIVATIONS, MLP, Block, GPTNet

    class Bare(Block):
        def _add(self, x: Any, y: Any, norm: nn.Module) -> Any:
            return x + y if residual else y

    width, layers = 64, 4
    net = GPTNet(256, 64, width, layers, n_heads, positions="rope", tied=False)
    new_norm = nn.LayerNorm if norm else lambda d: nn.Identity()
    net.blocks = nn.ModuleList(
        Bare(
            width,
            Attention(width, n_heads, scaled=scaled),
            MLP(width, 4 * width, ACTIVATIONS["gelu"]),
            make_norm=new_norm,
        )
        for _ in range(layers)
    )
    net.norm = new_norm(width)
    for key, weight in net.named_parameters():
        if key == "embedding.weight":
            nn.init.normal_(weight)
        elif weight.ndim == 2 and key != "output.weight":
            last = residual and key.endswith(("attention.out.weight", "mlp.down.weight"))
            nn.init.normal_(
                weight, std=weight.shape[1] ** -0.5 / (math.sqrt(2 * layers) if last else 1.0)
            )
        elif weight.ndim == 1 and key.endswith("bias"):
            nn.init.zeros_(weight)
    return net
