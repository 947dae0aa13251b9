"""Pictures of views that the pages show: `python -m tests.pictures` trains what they need and draws them.

    python -m tests.pictures                  # all, some minutes on two cores
    python -m tests.pictures run gates        # those whose file is called so

Each is a recipe of the size of its models: small ones for the test that every recipe still draws, those of
the pages for the command.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import seqloom
from seqloom.charts.page import Sheet

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
COMMAND = "python -m tests.pictures"
LINE = "O Romeo, Romeo, wherefore art thou Romeo?"
KING = "What says my lord? The king is come, and the king is gone."


class Size(NamedTuple):
    """How much of the bundled text the models read, and how long networks train."""

    characters: int
    share: float  # of the steps of the pages

    def text(self, characters: int = 2_000_000) -> str:
        """Return the beginning of the bundled text, at most so many characters."""
        return seqloom.bundled().text()[: min(characters, self.characters)]

    def steps(self, whole: int) -> int:
        return max(round(whole * self.share), 2)


PAGES = Size(2_000_000, 1.0)
SMALL = Size(6_000, 0.004)  # for the test


class Picture(NamedTuple):
    """How a picture is made, and which of the numbers of its sheet stand in it."""

    sheet: Callable[[Size], Sheet]
    numbers: Callable[[Sheet], list[float]]


# ---- models


@cache
def words(size: Size) -> seqloom.NGram:
    return seqloom.NGram(order=4, tokenizer="word", min_count=1).fit(size.text())


@cache
def characters(size: Size) -> seqloom.LSTM:
    model = seqloom.LSTM(tokenizer="char", d_hidden=96, n_layers=2)
    return model.fit(size.text(400_000), steps=size.steps(500))


@cache
def transformer(size: Size) -> seqloom.GPT:
    model = seqloom.GPT(
        tokenizer="word",
        min_count=2,
        unit="stream",
        context=64,
        d_model=64,
        n_layers=3,
        n_heads=4,
    )
    return model.fit(size.text(), steps=size.steps(300))


# ---- recipes


def surprisal(size: Size) -> Sheet:
    return seqloom.inspect.surprisal(words(size), LINE, top=2)


def backoff(size: Size) -> Sheet:
    return seqloom.inspect.backoff(words(size), "O Romeo, wherefore art thou")


def gates(size: Size) -> Sheet:
    return seqloom.inspect.gates(characters(size), LINE[9:], unit=5, units=8)


def unrolled(size: Size) -> Sheet:
    return seqloom.inspect.unrolled(characters(size), steps=3)


def gradients(size: Size) -> Sheet:
    distance, hidden = (100, 64) if size == PAGES else (8, 8)
    cells = ("rnn", "lstm", "gru")
    return seqloom.inspect.gradients(cell=cells, distance=distance, hidden=hidden)


def neuron(size: Size) -> Sheet:
    return seqloom.inspect.neuron()


def heads(size: Size) -> Sheet:
    return seqloom.inspect.heads(transformer(size), KING)


@cache
def reader(size: Size) -> seqloom.GPT:
    """Return the model of recipes/attention.md, which learns for five minutes."""
    model = seqloom.GPT(
        tokenizer="word",
        min_count=2,
        unit="stream",
        context=64,
        d_model=96,
        n_layers=4,
        n_heads=4,
    )
    lasts = {"minutes": 5} if size == PAGES else {"steps": 2}
    return model.fit(size.text(), **lasts)


def attention_heads(size: Size) -> Sheet:
    return seqloom.inspect.heads(reader(size), KING)


def attention_ablation(size: Size) -> Sheet:
    lines = seqloom.bundled().text().splitlines(keepends=True)[-300 if size == PAGES else -30 :]
    return seqloom.inspect.ablation(reader(size), "".join(lines))


def explanation(size: Size) -> Sheet:
    films = [
        ("a lovely warm film", "good"),
        ("a dull cold film", "bad"),
        ("warm and funny", "good"),
        ("cold and boring", "bad"),
    ]
    return seqloom.inspect.explanation(seqloom.NaiveBayes().fit(films), "a warm but boring film")


def trellis(size: Size) -> Sheet:
    options = {"states": 5, "iterations": size.steps(30), "tokenizer": "word"}
    return seqloom.inspect.trellis(
        seqloom.HMM(**options).fit(size.text(200_000)), "the king shall die, and all his men"
    )


def run(size: Size) -> Sheet:
    text = seqloom.bundled().text()[:60_000]
    model = seqloom.LSTM(tokenizer="byte", d_hidden=192 if size == PAGES else 8, dropout=0.0)
    with TemporaryDirectory() as folder:
        model.fit(text, steps=size.steps(700), run=Path(folder, "over.run"))
        return seqloom.inspect.run(model)


def numbers_of(*names: str) -> Callable[[Sheet], list[float]]:
    """Return a function for the numbers of these columns of a sheet's rows."""
    return lambda sheet: [row[name] for row in sheet.data["rows"] for name in names]


PICTURES = {
    "inspect-surprisal": Picture(surprisal, numbers_of("bits")),
    "inspect-backoff": Picture(
        backoff, lambda sheet: [100 * row["share_of_probability"] for row in sheet.data["rows"]]
    ),
    "gates": Picture(gates, lambda sheet: list(sheet.data["values"])),
    "unrolled": Picture(unrolled, numbers_of("units")),
    "gradients": Picture(gradients, numbers_of("dh/dh")),
    "neuron": Picture(neuron, numbers_of("h")),
    "inspect-heads": Picture(heads, numbers_of("entropy", "distance")),
    "attention-heads": Picture(attention_heads, numbers_of("entropy", "distance")),
    "attention-ablation": Picture(
        attention_ablation,
        lambda sheet: [float(f"{row['bits_cost']:.4g}") for row in sheet.data["rows"]],
    ),
    "inspect-explanation": Picture(explanation, numbers_of("nats")),
    "inspect-trellis": Picture(trellis, lambda sheet: sheet.data["forgetting"]),
    "run": Picture(run, lambda sheet: list(sheet.data["runs"][0]["norms"].values())),
}


def draw(*names: str) -> None:
    """Draw these pictures of the pages, all without a name."""
    for name in names or PICTURES:
        print(f"{name}: ", end="", flush=True)
        PICTURES[name].sheet(PAGES).save(IMAGES / f"{name}.png")
        print("drawn")
