"""Published models that are damaged: converted, and used if that works.

Sound little ones are written by `convert --form hugging-face` from models of every family, and as
GGUF files; a copy has its tensors, config.json, tokenizer or bytes changed as a saved model's are
in `damage`. Only `convert` reads such files, and it must work or be refused in one line, in bounded
time and memory; what comes of it is used once.
"""

from __future__ import annotations

import json
import os
import random
import reprlib
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.registry import model_class
from seqloom.training.config import TrainConfig
from tests.interop.gguf_files import gguf
from tests.interop.llama_files import llama_file, values, weights

from .command_worker import Ended, Worker
from .counts import Counts
from .damages import ODD, damage_arrays, damage_bytes, damage_tokenizer, edit_json, pick, to_json
from .specimens import LABELLED, REVERSED, TAGGED, TEXT, random_encoder

SMALL: dict[str, Any] = {"d_model": 8, "n_heads": 2, "n_layers": 1}
ENCODER: dict[str, Any] = {**SMALL, "context": 24, "d_mlp": 12}
TRANSLATOR: dict[str, Any] = {
    **SMALL,
    "n_decoder_layers": 1,
    "tokenizer": "bpe",
    "vocab_size": 270,
    "shared_vocabulary": True,
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "marian": {"norm": "post"},
    "bart": {"norm": "post", "positions": "learned", "context": 250, "embedding_norm": True},
    "t5": {
        "positions": "t5",
        "norm_kind": "rms",
        "bias": False,
        "scaled_attention": False,
        "scaled_embedding": False,
        "scaled_output": True,
    },
}
GPT2: dict[str, Any] = {
    **SMALL,
    "context": 8,
    "positions": "learned",
    "tokenizer": "bpe",
    "vocab_size": 270,
}
LLAMA: dict[str, Any] = {
    **SMALL,
    "context": 8,
    "tokenizer": "bpe",
    "vocab_size": 270,
    "bias": False,
    "norm_kind": "rms",
    "activation": "swiglu",
}
USES = {
    "gpt": ["generate", "{out}", "the cat", "--max-tokens", "5", "-q"],
    "bert": ["fill", "{out}", "the [MASK] sat", "-q"],
    "sentence-encoder": ["embed", "{out}", "the cat sat", "-q"],
    "transformer": ["translate", "{out}", "{text}", "-q"],
    "classifier": ["predict", "{out}", "{text}", "-q"],
    "tagger": ["predict", "{out}", "{text}", "-q"],
}


def make_models() -> dict[str, Any]:
    """A model for each family that `convert --form hugging-face` writes."""
    made: dict[str, Any] = {}
    train = TrainConfig(steps=1, batch_size=2)
    made["gpt2"] = model_class("gpt")(**GPT2).fit(TEXT, train=train)
    made["llama"] = model_class("gpt")(**LLAMA).fit(TEXT, train=train)
    for name, options in TRANSLATORS.items():
        made[name] = model_class("transformer")(**TRANSLATOR, **options).fit(REVERSED, train=train)
    made["bart"].learnt |= {"source_start": 3}
    made["bert"] = random_encoder("bert", **ENCODER)
    made["albert"] = random_encoder(
        "bert", **ENCODER, shared_layers=True, d_embed=6, activation="gelu"
    )
    with tempfile.TemporaryDirectory() as place:
        made["bert"].save(f"{place}/encoder")
        on_encoder = {"encoder": f"{place}/encoder"}
        made["labels"] = model_class("classifier")(
            **on_encoder, pooling="first", head_layer="tanh"
        ).fit(LABELLED, train=train)
        made["tags"] = model_class("tagger")(**on_encoder, crf=False).fit(TAGGED, train=train)
    made["sentences"] = random_encoder("sentence-encoder", **ENCODER, activation="gelu")
    return made


def make_all(place: Path) -> dict[str, str]:
    """A directory or file of each family; the name of the model that each becomes."""
    from seqloom import interop

    made = make_models()
    for name, model in made.items():
        interop.write(model, place / name)
    llama_file(
        place / "llama.gguf",
        tokenizer__chat_template="{% for m in messages %}{{ m.content }}{% endfor %}",
    )
    return {name: model.name for name, model in made.items()} | {"llama.gguf": "gpt"}


def damage(draw: np.random.Generator, place: Path) -> str:
    """Once or twice; a GGUF file in its header, a directory in any of its files."""
    if place.is_file():
        return _damage_gguf(draw, place)
    ways = [
        damage_arrays,
        damage_arrays,
        _damage_values,
        _damage_values,
        damage_tokenizer,
        damage_bytes,
    ]
    done = []
    for _ in range(1 if draw.random() < 0.8 else 2):
        try:
            done.append(pick(draw, ways)(draw, place))
        except Exception as error:  # what was damaged before may not be readable any more
            if not done:
                raise
            done.append(f"({type(error).__name__})")
    return "; ".join(done)


def _damage_values(draw: np.random.Generator, place: Path) -> str:
    file = pick(
        draw, sorted(file for file in place.rglob("*.json") if file.name != "tokenizer.json")
    )
    value = json.loads(file.read_text("utf-8")) or {"x": 1}
    what = edit_json(draw, value)
    file.write_text(to_json(value), "utf-8")
    return f"{file.relative_to(place)}: {what}"


def _damage_gguf(draw: np.random.Generator, file: Path) -> str:
    raw = bytearray(file.read_bytes())
    way = pick(draw, ["cut", "noise", "number", "number", "number", "value", "value", "value"])
    at = int(draw.integers(len(raw) - 8))
    if way == "cut":
        raw = raw[:at]
    elif way == "noise":
        for place in draw.integers(len(raw), size=int(draw.integers(1, 6))):
            raw[place] = int(draw.integers(256))
    elif (
        way == "number"
    ):  # one of the sizes, offsets and types, which are where most of the first bytes are
        at = int(draw.integers(16_000))
        form, odd = pick(
            draw,
            [("<q", [-1, 0, 1, 1 << 20, 1 << 40, (1 << 63) - 1]), ("<i", [-1, 0, 2, 14, 1 << 30])],
        )
        raw[at : at + struct.calcsize(form)] = struct.pack(form, pick(draw, odd))
    else:
        changed = values()
        key = pick(draw, sorted(changed))
        changed[key] = pick(
            draw, [*(value for value in ODD if _fits(value)), [0, 1], ["a", "a"], "llama"]
        )
        file.write_bytes(gguf(changed, list(weights().items())))
        return f"{key} = {reprlib.repr(changed[key])}"
    file.write_bytes(raw)
    return f"{way} at {at}"


def _fits(value: Any) -> bool:
    """Whether a GGUF file can say it: texts, numbers without sign of 32 bits, and floats of 32."""
    if isinstance(value, int):
        return 0 <= value < 1 << 32
    return (
        abs(value) < 1e38
        if isinstance(value, float)
        else isinstance(value, str) and value.isprintable()
    )


def run(count: int, seed: int) -> Counts:
    counts = Counts()
    with tempfile.TemporaryDirectory(prefix="seqloom-fuzz-") as folder:
        home = Path(folder)
        (home / "sound").mkdir()
        made = make_all(home / "sound")
        (home / "text").write_text("abc\n\nzebra 漢\n", "utf-8")
        worker = Worker(folder)
        try:
            for number in range(count):
                _attempt(number, seed, home, made, worker, counts)
        finally:
            worker.stop()
    return counts


def _attempt(
    number: int, seed: int, home: Path, made: dict[str, str], worker: Worker, counts: Counts
) -> None:
    draw, rng = np.random.default_rng([seed, number]), random.Random(f"{seed} {number}")
    name = rng.choice(list(made))
    with tempfile.TemporaryDirectory(dir=home) as folder:
        sound, place, out = (
            home / "sound" / name,
            Path(folder) / name,
            os.path.relpath(f"{folder}/out", home),
        )
        (shutil.copytree if sound.is_dir() else shutil.copyfile)(sound, place)
        done = damage(draw, place)
        bits = ["--bits", rng.choice("84")] if rng.random() < 0.2 else []
        ended = worker.run(["convert", os.path.relpath(place, home), out, *bits, "-q"])
        if ended.code == 0 and ended.fault() is None:
            kind = json.loads(Path(folder, "out", "config.json").read_text("utf-8"))["model"]
            ended = worker.run([arg.format(out=out, text="text") for arg in USES[kind]])
    _note(ended, f"attempt {number}: {name} {' '.join(bits)}, {done}", counts)


def _note(ended: Ended, done: str, counts: Counts) -> None:
    fault = ended.fault()
    if fault is not None:
        counts.wrong.append(f"{done}: {fault}")
    elif ended.code:
        counts.refused += 1
    else:
        counts.worked += 1
