"""A directory as Hugging Face's transformers saves models: config.json, weights in safetensors
files, tokenizer files.

Tensors are read one by one when needed, and the size of each is checked against its file before it is
mapped. Weights in pickled `.bin` files are read by torch's loader for weights alone, which runs no code.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from seqloom import directories
from seqloom.arrays import write_arrays
from seqloom.errors import DataError, quoted
from seqloom.interop.values import TensorFile

CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"  # suffix of the name of weights that are in several files
WHAT = "a model of transformers"
MOST_TENSORS = 100_000
MOST_DIMENSIONS, MOST_LENGTH = 8, 1 << 40
LONGEST_HEADER = 16 << 20  # bytes; read, it takes twenty times as many
# families with names that the names of their tensors begin with
_NAMED_BY_WEIGHTS = ("bert", "roberta", "distilbert", "albert")
_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "U8": "u1",
    "BOOL": "?",
}


class Stored(NamedTuple):
    """The location of a tensor."""

    file: Path
    kind: str  # as in the header
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True)
class ModelDirectory(TensorFile):
    """`values` are those of config.json."""

    path: Path
    tensors: dict[str, Stored | np.ndarray]  # arrays of a pickled file, which is read at once

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    def array(self, name: str) -> np.ndarray:
        stored = self.tensors[name]
        if isinstance(stored, np.ndarray):
            return self.checked(name, stored.astype(np.float32))
        if not math.prod(stored.shape):
            return np.empty(stored.shape, np.float32)
        raw = np.memmap(
            stored.file, _TYPES[stored.kind], "r", offset=stored.start, shape=stored.shape
        )
        values = (
            (raw.astype(np.uint32) << 16).view(np.float32)
            if stored.kind == "BF16"
            else raw.astype(np.float32)
        )
        return self.checked(name, np.asarray(values))

    def digest(self) -> str:
        digest = hashlib.sha256()
        files = {stored.file for stored in self.tensors.values() if isinstance(stored, Stored)}
        for path in sorted(files or self.path.glob("pytorch_model*.bin")):
            with open(path, "rb") as raw:
                digest.update(hashlib.file_digest(raw, "sha256").digest())
        return digest.hexdigest()


def is_directory(path: Path) -> bool:
    """Return whether this is such a directory, by its config.json."""
    try:
        values = read_json(path / CONFIG)
    except DataError:
        return False
    return (
        not {"model_type", "hidden_size"}.isdisjoint(values) and values.get("format") != "seqloom"
    )


def read_directory(path: str | Path) -> ModelDirectory:
    """Read the values and tensor locations of a directory, all of them checked."""
    folder = Path(path)
    values = read_json(folder / CONFIG)
    if values.get("format") == "seqloom":
        raise DataError(f"{path}: a model of seqloom, not {WHAT}; seqloom.load opens it")
    directory = ModelDirectory(str(path), values, folder, {})
    for weights, pickled in ((WEIGHTS, False), (PICKLED, True)):
        names = _parts(directory, weights)
        for name in names:
            (_load_pickled if pickled else _read_header)(directory, folder / name)
        if names:
            break
    else:
        if "model_type" not in values:
            raise DataError(f"{folder / CONFIG}: names no model_type; this is not {WHAT}")
        directory.fail(
            f"there are no weights in it; expected {WEIGHTS}, {WEIGHTS}{INDEX} or {PICKLED}"
        )
    if "model_type" not in values:  # as in the first versions; then the weights say it
        families = {name.partition(".")[0] for name in directory.shapes} & set(_NAMED_BY_WEIGHTS)
        if len(families) != 1:
            raise DataError(
                f"{folder / CONFIG}: names no model_type; write into it the family that it is of, "
                "such as bert"
            )
        values["model_type"] = families.pop()
    return directory


def _parts(directory: ModelDirectory, weights: str) -> list[str]:
    """Return the files that hold the weights of this name: those of an index, itself, or none."""
    index = directory.path / f"{weights}{INDEX}"
    if not index.is_file():
        return [weights] if (directory.path / weights).is_file() else []
    files = read_json(index).get("weight_map")
    if (
        not isinstance(files, dict)
        or not files
        or not all(isinstance(name, str) and Path(name).name == name for name in files.values())
    ):
        directory.fail(f"{index.name} names no files of this directory; it is damaged")
    return sorted(set(files.values()))


def read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({error})") from None
    if not isinstance(values, dict):
        raise DataError(f"{path}: damaged; it must hold names and values")
    return values


def read_text(path: Path) -> str:
    """Read a file of values or words, which is never large."""
    try:
        return directories.read_small_file(path).decode("utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: damaged ({error})") from None


def _read_header(directory: ModelDirectory, path: Path) -> None:
    """Add the tensors of one safetensors file; refuse those that overlap or end beyond the file."""

    def fail(fault: str) -> NoReturn:
        raise DataError(f"{path}: {fault}; get a complete copy of the file")

    if not path.is_file():
        fail("is missing")
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            fail(
                f"damaged or cut off: its header would have {length:,} bytes, the file has {size:,}"
            )
        try:
            header = json.loads(file.read(length), object_pairs_hook=_once)
        except (ValueError, RecursionError):
            header = None
    if not isinstance(header, dict):
        fail("damaged: its header is not a list of tensors, each with one name")
    header.pop("__metadata__", None)
    if len(header) > MOST_TENSORS:
        fail(f"it has {len(header):,} tensors; at most {MOST_TENSORS:,} can be read")
    spans = []
    for name, entry in header.items():
        try:
            kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            valid = isinstance(kind, str) and all(
                type(n) is int and 0 <= n <= MOST_LENGTH for n in (*shape, start, end)
            )
            valid = valid and len(shape) <= MOST_DIMENSIONS
        except (LookupError, TypeError, ValueError):
            valid = False
        if not valid:
            fail(f"damaged: the tensor {quoted(name)} has no type, shape or place")
        if kind not in _TYPES:
            fail(
                f"the tensor {quoted(name)} is of the type {quoted(kind)}, which cannot be read "
                f"({', '.join(_TYPES)} can)"
            )
        if (
            end - start != math.prod(shape) * np.dtype(_TYPES[kind]).itemsize
            or end > size - 8 - length
        ):
            fail(
                f"damaged or cut off: the tensor {quoted(name)} of {' x '.join(map(str, shape))} "
                f"does not fit its place"
            )
        if name in directory.tensors:
            fail(f"the tensor {quoted(name)} is in another file too")
        spans.append((start, end))
        directory.tensors[name] = Stored(path, kind, shape, 8 + length + start)
    spans.sort()
    if any(end > start for (_, end), (start, _) in pairwise(spans)):
        fail("damaged: two tensors overlap")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name appears twice")
    return values


def _load_pickled(directory: ModelDirectory, path: Path) -> None:
    """Add the tensors of one file that torch wrote."""
    import torch

    if not path.is_file():
        raise DataError(f"{path}: is missing; get a complete copy of the directory")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickles that torch did not write
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the file holds
        message = " ".join(str(error).split())
        message = (message.partition("WeightsUnpickler error: ")[2] or message).partition(
            " Check the documentation"
        )[0]
        reason = message[:100].partition(". ")[0]  # without torch's advice
        raise DataError(
            f"{path}: cannot be read as weights alone ({reason}); convert it to safetensors elsewhere"
        ) from None
    if not isinstance(loaded, dict) or not all(
        isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_quantized
        for value in loaded.values()
    ):
        raise DataError(f"{path}: holds something else than named tensors")
    if len(loaded) > MOST_TENSORS:
        raise DataError(
            f"{path}: it has {len(loaded):,} tensors; at most {MOST_TENSORS:,} can be read"
        )
    directory.tensors.update(
        {str(name): tensor.detach().float().numpy() for name, tensor in loaded.items()}
    )


def write_directory(
    target: str | Path, values: dict[str, Any], arrays: dict[str, np.ndarray], files: dict[str, str]
) -> None:
    """Write a directory as a whole or not at all; `files` are further ones by name, such as
    tokenizer.json.
    """
    with directories.writing(target, WHAT, lambda path: not any(path.iterdir())) as folder:
        for name, text in {CONFIG: json.dumps(values, indent=2) + "\n", **files}.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        write_arrays(folder / WEIGHTS, arrays)
