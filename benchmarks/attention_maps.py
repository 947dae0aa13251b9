"""A map of one head over a long text, and all heads of it: seconds until the picture is a file, and its size.

A GPT of 6 layers of 384 with 6 heads reads 2,048 tokens. Its weights are as they are after one step of
training: what they are changes neither time nor, by much, the size of a map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.side_by_side import bundled_text, collect, seconds, sized, table

TOKENS = sized(2048, 96)
SHAPE: dict[str, int] = sized(
    {"n_layers": 6, "d_model": 384, "n_heads": 6}, {"n_layers": 2, "d_model": 24, "n_heads": 2}
)
Row = tuple[str, str, str, str]


def run(quick: bool, only: str) -> None:
    try:
        import altair  # noqa: F401
        import torch  # noqa: F401
    except ImportError:
        print("(skipped: torch or altair is not installed)")
        return
    rows = collect({"maps": lambda: maps(2 if quick else 7)}, only)
    table("Maps of attention", rows, ("picture", "file", "seconds (median; least)", "megabytes"))


def maps(times: int) -> Iterator[Row]:
    import seqloom
    from seqloom.training.config import TrainConfig

    text = bundled_text()[: TOKENS - 1]
    model: Any = seqloom.GPT(tokenizer="char", context=TOKENS, unit="stream", **SHAPE)
    model.fit(text * 2, train=TrainConfig(steps=1, batch_size=1))
    pictures = {
        "one head": lambda: seqloom.inspect.attention(model, text, layer=1, head=1),
        "all heads": lambda: seqloom.inspect.heads(model, text),
    }
    with TemporaryDirectory() as directory:
        for name, picture in pictures.items():
            for kind in ("png", "svg", "html"):
                if name == "all heads" and kind != "html":
                    continue
                path = Path(directory) / f"map.{kind}"
                picture().save(path)  # once to compile
                taken = _times(picture, path, times if name == "one head" else 1)
                size = path.stat().st_size / 1e6
                yield (
                    f"{name}, {TOKENS:,} tokens",
                    f".{kind}",
                    f"{taken[len(taken) // 2]:.2f}; {taken[0]:.2f}",
                    f"{size:.2f}",
                )


def _times(picture: Callable[[], Any], path: Path, times: int) -> list[float]:
    return sorted(seconds(lambda: picture().save(path)) for _ in range(times))
