"""Ways to damage a saved model, each chosen by a random generator and described in a few words."""

from __future__ import annotations

import json
import reprlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.arrays import read_arrays, write_arrays

Draw = np.random.Generator
ODD: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    3,
    7,
    1 << 31,
    (1 << 32) - 2,
    1 << 62,
    10**30,
    -(10**30),
    0.5,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "bpe",
    "word",
    "0",
    "\ud800",
    "a" * 2000,
    [],
    [1],
    ["x", "x"],
    [[]],
    {},
    {"x": 1},
    [None],
    "../..",
    "/",
    "hs",
    "adaptive",
    "imported",
]
FLOATS = [np.nan, np.inf, -np.inf, 1e38, -1e38, 1e12, 3.0, -3.0, 0.0, 1.0]


def pick(draw: Draw, items: Any) -> Any:
    items = list(items)
    return items[int(draw.integers(len(items)))]


# ---- arrays


def _resize(draw: Draw, array: np.ndarray) -> np.ndarray:
    if not array.ndim:
        return array.reshape(1)
    axis = int(draw.integers(array.ndim))
    size = array.shape[axis]
    wanted = pick(draw, [0, 1, max(size - 1, 0), size // 2, size + 1, 2 * size, size + 1000])
    return (
        np.take(array, np.arange(wanted) % max(size, 1), axis)
        if size
        else np.zeros_like(array, shape=(1,) * array.ndim)
    )


def _retype(draw: Draw, array: np.ndarray) -> np.ndarray:
    kind = pick(draw, ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
    with np.errstate(all="ignore"):
        return array.astype(kind)


def _rerank(draw: Draw, array: np.ndarray) -> np.ndarray:
    shapes = [
        array.reshape(-1),
        array[None],
        array[..., None],
        array.reshape(-1)[:1].reshape(()) if array.size else array,
        array.T if array.ndim > 1 else array[None, None],
    ]
    return pick(draw, shapes)


def _noise(draw: Draw, array: np.ndarray) -> np.ndarray:
    """Random bytes in some places, or everywhere."""
    raw = bytearray(array.tobytes())
    if not raw:
        return array
    few = draw.random() < 0.7
    for at in draw.integers(len(raw), size=int(draw.integers(1, 5)) if few else len(raw)):
        raw[at] = int(draw.integers(256))
    return np.frombuffer(bytes(raw), array.dtype).reshape(array.shape).copy()


def _extreme(draw: Draw, array: np.ndarray) -> np.ndarray:
    """A value that no array should hold, in one place, in a few or in all."""
    if not array.size or array.dtype == bool:
        return array
    made = array.copy()
    flat = made.reshape(-1)
    places = (
        draw.integers(flat.size, size=int(draw.integers(1, 4)))
        if draw.random() < 0.8
        else np.arange(flat.size)
    )
    if array.dtype.kind == "f":
        flat[places] = pick(draw, FLOATS)
        return made
    limits = np.iinfo(array.dtype)
    for at in places:
        near = [
            int(at) - 1,
            int(at),
            int(at) // 4 - 1,
            int(flat[at]) + 1,
            int(flat[at]) - 1,
            int(flat.max()),
        ]
        value = pick(
            draw,
            [
                0,
                -1,
                1,
                int(limits.min),
                int(limits.max),
                *near,
                len(array),
                len(array) - 1,
                1 << 31,
            ],
        )
        flat[at] = (
            np.array(value).astype(array.dtype) if limits.min <= value <= limits.max else limits.max
        )
    return made


def _shuffled(draw: Draw, array: np.ndarray) -> np.ndarray:
    return draw.permutation(array.reshape(-1)).reshape(array.shape)


ARRAYS = [_resize, _retype, _rerank, _noise, _noise, _extreme, _extreme, _extreme, _shuffled]


def damage_arrays(draw: Draw, place: Path) -> str:
    files = [
        file
        for file in (place / "model.safetensors", place / "tokenizer.safetensors")
        if file.is_file()
    ]
    file = pick(draw, files)
    arrays = {name: np.array(array) for name, array in read_arrays(file).items()}
    if not arrays:
        arrays["x"] = np.zeros(3)
        what = "an array where there was none"
    else:
        name = pick(draw, sorted(arrays))
        way = int(draw.integers(len(ARRAYS) + 4))
        if way < len(ARRAYS):
            arrays[name], what = ARRAYS[way](draw, arrays[name]), f"{ARRAYS[way].__name__} {name}"
        elif way == len(ARRAYS):
            del arrays[name]
            what = f"{name} missing"
        elif way == len(ARRAYS) + 1:
            arrays[f"{name}2"], what = arrays[name], f"{name} twice"
        else:
            other = pick(draw, sorted(arrays))
            arrays[name], arrays[other] = arrays[other], arrays[name]
            what = f"{name} and {other} exchanged"
    write_arrays(file, arrays)
    return f"{file.name}: {what}"


def damage_bytes(draw: Draw, place: Path) -> str:
    """A file cut off, made longer, empty, with other bytes, or with an edited header."""
    file = pick(draw, sorted(f for f in place.iterdir() if f.is_file() and f.name != "README.md"))
    raw = bytearray(file.read_bytes())
    way = pick(draw, ["cut", "longer", "empty", "noise", "noise", "missing", "header", "directory"])
    if way == "missing" or way == "directory":
        file.unlink()
        if way == "directory":
            file.mkdir()
        return f"{file.name} {way}"
    if way == "cut":
        raw = raw[: int(draw.integers(len(raw) + 1))]
    elif way == "longer":
        raw += bytes(draw.integers(256, size=int(draw.integers(1, 100)), dtype=np.uint8))
    elif way == "empty":
        raw = bytearray()
    elif way == "noise":
        for at in draw.integers(max(len(raw), 1), size=int(draw.integers(1, 6))):
            raw[at] = int(draw.integers(256))
    elif file.suffix == ".safetensors":
        raw = _edit_header(draw, raw)
    file.write_bytes(raw)
    return f"{file.name} {way}"


def _edit_header(draw: Draw, raw: bytearray) -> bytearray:
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    names = [name for name in header if name != "__metadata__"]
    if names:
        entry = header[pick(draw, names)]
        key = pick(draw, sorted(entry))
        entry[key] = pick(
            draw,
            [*ODD[:20], [0], [1 << 40], [-1, 4], [0, 1 << 60], "F64", "I8", [*entry["shape"], 0]],
        )
    text = json.dumps(header).encode()
    return bytearray(len(text).to_bytes(8, "little") + text + raw[8 + size :])


# ---- JSON


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [
        found
        for key, inner in list(items)[:40]
        for found in ((*path, key), *_paths(inner, (*path, key)))
    ]


def edit_json(draw: Draw, value: Any) -> str:
    """Change, take away or add one thing somewhere inside."""
    path = pick(draw, _paths(value))
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    way = pick(draw, ["change", "change", "change", "delete", "add", "nest"])
    if way == "delete":
        del inner[path[-1]]
    elif way == "add" and isinstance(inner, dict):
        inner[pick(draw, ["x", "", "order", "config", "type", "id", "../x", "source"])] = pick(
            draw, ODD
        )
    elif way == "nest":
        deep: Any = 1
        for _ in range(3000 if draw.random() < 0.3 else 3):
            deep = [deep]
        inner[path[-1]] = deep
    else:
        old = inner[path[-1]]
        near = (
            [old + 1, old - 1, old * 2, -old]
            if isinstance(old, int | float) and not isinstance(old, bool)
            else []
        )
        inner[path[-1]] = pick(draw, [*near, *near, *ODD])
    now = reprlib.repr(inner.get(path[-1])) if isinstance(inner, dict) else ""
    return f"{way} {'.'.join(map(str, path))} {now}"


def damage_config(draw: Draw, place: Path) -> str:
    file = place / "config.json"
    value = json.loads(file.read_text("utf-8"))
    section = pick(draw, ["config", "config", "learnt", "fit", "tokenizers", "tokenizer", ""])
    inner = value[section] if value.get(section) else value
    what = edit_json(draw, inner)
    file.write_text(to_json(value), "utf-8")
    return f"config.json {section}: {what}"


def to_json(value: Any) -> str:
    """Also of what is nested deeper than the library writes."""

    def written(value: Any) -> str:
        depth = 0
        while isinstance(value, list) and len(value) == 1:
            depth, value = depth + 1, value[0]
        if isinstance(value, dict):
            text = (
                "{"
                + ", ".join(f"{json.dumps(key)}: {written(inner)}" for key, inner in value.items())
                + "}"
            )
        elif isinstance(value, list):
            text = "[" + ", ".join(map(written, value)) + "]"
        else:
            text = json.dumps(value)
        return "[" * depth + text + "]" * depth

    return written(value)


def damage_tokenizer(draw: Draw, place: Path) -> str:
    """A tokenizer.json with one thing changed, often where the library looks; else the arrays."""
    file = place / "tokenizer.json"
    if not file.is_file():
        return damage_arrays(draw, place)
    value = json.loads(file.read_text("utf-8"))
    model = value["model"]
    way = int(draw.integers(8))
    what = ["", "an id", "prefix", "a merge", "unknown", "longest word", "added", "normalizer"][way]
    if way == 1 and isinstance(model["vocab"], dict):
        model["vocab"][pick(draw, sorted(model["vocab"]))] = pick(
            draw, [4294967294, -1, 0, 1, 10**7, 1.5, "x", None]
        )
    elif way == 2:
        model["continuing_subword_prefix"] = pick(draw, ["##", "aaaa", "é", "", 5, "\u0120"])
    elif way == 3 and model.get("merges"):
        merges = model["merges"]
        odd = [["a", "zz"], ["", ""], "a b c", ["a"], 5, None, ["a", "b"], [[], {}]]
        merges[int(draw.integers(len(merges)))] = pick(draw, odd)
    elif way == 4:
        model[pick(draw, ["unk_token", "unk_id"])] = pick(draw, ["nope", 10**9, -1, None, "a", 0])
    elif way == 5:
        model["max_input_chars_per_word"] = pick(draw, [10**18, 0, -1, "x", 5])
    elif way == 6:
        flags = {
            name: bool(draw.integers(2))
            for name in ("single_word", "lstrip", "rstrip", "normalized", "special")
        }
        token = {
            "id": pick(draw, [4294967294, 5, 300, 0]),
            "content": pick(draw, ["a", "zzz", "", "the"]),
            **flags,
        }
        value["added_tokens"] = [*value["added_tokens"], token]
    elif way == 7:
        value[pick(draw, ["normalizer", "pre_tokenizer", "decoder", "post_processor"])] = pick(
            draw,
            [
                None,
                {"type": "Lowercase"},
                {"type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": "x"},
                {"type": "x"},
                5,
                {"type": "Strip", "content": "a", "start": 9, "stop": 9},
                {"type": "Metaspace", "replacement": "_"},
                {
                    "type": "Split",
                    "pattern": {"Regex": "("},
                    "behavior": "Removed",
                    "invert": False,
                },
                {"type": "WordPiece"},
                {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
                {"type": "Sequence", "pretokenizers": []},
            ],
        )
    else:
        what = edit_json(draw, pick(draw, [value, model]))
    file.write_text(to_json(value), "utf-8")
    return f"tokenizer.json: {what}"


# ---- members


def damage_members(draw: Draw, place: Path, specimens: Path) -> str:
    members = place / "members"
    have = sorted(members.iterdir()) if members.is_dir() else []
    way = pick(draw, ["missing", "exchanged", "another's", "loop", "deep", "config"])
    members.mkdir(exist_ok=True)
    if way == "missing" and have:
        shutil.rmtree(pick(draw, have))
    elif way == "exchanged" and len(have) > 1:
        have[0].rename(members / "spare")
        have[1].rename(have[0])
        (members / "spare").rename(have[1])
    elif way == "loop":
        for name in ("0", "1")[: int(draw.integers(1, 3))]:
            shutil.rmtree(members / name, ignore_errors=True)
            (members / name).symlink_to(place, target_is_directory=True)
    elif way == "deep":
        whole = place.parent / "whole"
        shutil.copytree(place, whole, symlinks=True)
        for _ in range(60):
            target = members / "0"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(whole, target, symlinks=True)
            members = target / "members"
            members.mkdir(exist_ok=True)
        shutil.rmtree(whole)
    else:
        other = pick(draw, sorted(specimens.iterdir()))
        name = pick(draw, ["0", "1", "2", "17"])
        shutil.rmtree(members / name, ignore_errors=True)
        shutil.copytree(other, members / name)
        way = f"{other.name} as {name}"
    return f"members: {way}"


def damage(draw: Draw, place: Path, specimens: Path) -> str:
    """Damage a copy of a saved model, or one of its members, once or twice."""
    ways: list[Callable[[Draw, Path], str]] = [
        damage_arrays,
        damage_arrays,
        damage_arrays,
        damage_config,
        damage_config,
        damage_tokenizer,
        damage_bytes,
    ]
    done = []
    for _ in range(1 if draw.random() < 0.8 else 2):
        inner = [
            place,
            *sorted(path.parent for path in place.rglob("config.json") if path.parent != place),
        ]
        where = pick(draw, inner) if draw.random() < 0.5 else place
        if draw.random() < (0.25 if len(inner) > 1 else 0.02):
            done.append(damage_members(draw, where, specimens))
            break
        try:
            done.append(f"{where.relative_to(place)} {pick(draw, ways)(draw, where)}")
        except Exception as error:  # what was damaged before may not be readable any more
            if not done:
                raise
            done.append(f"({type(error).__name__})")
            break
    return "; ".join(done)
