"""Writes networks as ONNX files, which run without seqloom and without torch.

    interop.write_onnx(model, "model.onnx")

Beside the file are what it needs to be used (`interop/onnx_files`). It is written by torch's recorder
(TorchScript): torch's newer exporter fixes the sizes of plain and bidirectional recurrences. What a
recording has fixed by mistake shows only on other batches, so the file is run in onnxruntime, on
several batch sizes and lengths, and moved into place only if it gives what our network gives.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.directories import writing_file
from seqloom.errors import ConfigError, MissingExtra, ModelError

OPSET = 17  # of 2022, which the runtimes of today have
CLOSE = 1e-4  # of log-probabilities, and of other numbers relative to the largest
BATCHES, LENGTHS = (1, 2, 5), (1, 4, 11)
MOST_BYTES = 2**31 - 2**20  # of a file of protobuf


def write_onnx(model: Any, target: str | Path, source: str = "this model") -> None:
    """Write a fitted network as an ONNX file, with its tokenizer, its labels and a script beside it;
    `source`: where it was, for messages.
    """
    if not hasattr(model, "network") or not hasattr(model, "quantised"):
        raise ConfigError(
            f"{source} is of kind {model.name}, which is not a network, and ONNX holds networks; "
            "fit a network on the same data, or use seqloom itself"
        )
    model.check_fitted()
    if not Path(target).parent.is_dir():
        raise ConfigError(f"{target}: there is no directory {Path(target).parent}")
    if 4 * model.parameters > MOST_BYTES:
        raise ConfigError(
            f"{source} has {model.parameters:,} parameters; an ONNX file holds at most "
            f"{MOST_BYTES // 4:,}, so use seqloom itself, or convert it with --form hugging-face"
        )
    _require_packages()
    from seqloom.interop.onnx_files import files_beside
    from seqloom.interop.onnx_net import make_graph

    if model.bits:
        progress.say(
            f"ONNX has no weights of {model.bits} bits as these are: they are written as float32, as exact "
            "as before and as large as those of the model that they were made of"
        )
    graph = make_graph(model, source)
    beside = files_beside(model, Path(target), graph)
    if taken := [path for path in beside if path.exists() and not Path(target).exists()]:
        raise ConfigError(
            f"{taken[0]} is in the way: it would stand beside {Path(target).name}; choose another "
            "name, or move it"
        )
    with writing_file(target, ModelError) as partial:
        export(graph, partial)
        check_export(graph, partial, str(target))
        for path, text in beside.items():
            with writing_file(path, ModelError) as file:
                file.write_text(text, encoding="utf-8")


def _require_packages() -> None:
    for name in ("torch", "onnx", "onnxruntime"):
        try:
            __import__(name)
        except ImportError:
            raise MissingExtra(
                f"writing ONNX needs {name}, which is not installed: pip install 'seqloom[nn,onnx]'"
            ) from None


def export(graph: Any, path: Path) -> None:
    """Record the network on a small batch, and write it."""
    import torch

    from seqloom.nn.recording import recording

    batch = graph.draw(2, _steps(graph, 4), np.random.default_rng(0))
    axes = {
        name: {i: axis for i, axis in enumerate(names) if axis}
        for name, names in {**graph.inputs, **graph.outputs}.items()
    }
    module = graph.module.cpu().eval()
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    for weight in trained:  # a recorded loop has them as numbers
        weight.requires_grad_(False)
    try:
        with warnings.catch_warnings(), torch.no_grad(), recording():
            warnings.simplefilter("ignore")  # of what is fixed, which is checked afterwards
            torch.onnx.export(
                module,
                tuple(torch.from_numpy(batch[name]) for name in graph.inputs),
                str(path),
                dynamo=False,
                opset_version=OPSET,
                input_names=list(graph.inputs),
                output_names=list(graph.outputs),
                dynamic_axes=axes,
            )
    except (torch.onnx.errors.OnnxExporterError, RuntimeError) as reason:
        raise ModelError(
            f"torch cannot write this network as ONNX: {str(reason).splitlines()[0][:200]}; use seqloom "
            "itself, and report it"
        ) from reason
    finally:
        for weight in trained:
            weight.requires_grad_(True)


def check_export(graph: Any, path: Path, name: str) -> float:
    """Run the file on several batches; return the greatest difference to our own network, and raise an
    error if it is too large.
    """
    session, greatest = open_session(path), 0.0
    for rows in BATCHES:
        for steps in {_steps(graph, steps) for steps in LENGTHS}:
            batch = graph.draw(rows, steps, np.random.default_rng(rows * 100 + steps))
            try:
                found = session.run(None, batch)
            except Exception as reason:
                raise ModelError(
                    f"{name}: onnxruntime cannot run it on {rows} rows of {steps} steps, so it was not "
                    f"written: {str(reason).splitlines()[0][:200]}"
                ) from reason
            difference = greatest_difference(found, outputs_of(graph, batch))
            greatest = max(greatest, difference)
            if not difference <= CLOSE:
                raise ModelError(
                    f"{name}: on {rows} rows of {steps} steps onnxruntime differs by {difference:.2g} "
                    "from this model, so it was not written; use seqloom itself, and report it"
                )
    return greatest


def open_session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs_of(graph: Any, batch: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return what our own network gives for a batch."""
    import torch

    with torch.inference_mode():
        outputs = graph.module(*(torch.from_numpy(batch[name]) for name in graph.inputs))
    return [x.numpy() for x in (outputs if isinstance(outputs, tuple) else (outputs,))]


def greatest_difference(found: list[np.ndarray], ours: list[np.ndarray]) -> float:
    """Return the greatest difference of numbers, relative to the largest where that is above one;
    infinite where shapes, ids or infinities differ.
    """
    greatest = 0.0
    for one, other in zip(found, ours, strict=True):
        if one.shape != other.shape:
            return math.inf
        finite = np.isfinite(other)
        if other.dtype.kind in "iu" or not (one[~finite] == other[~finite]).all():
            if not np.array_equal(one, other):
                return math.inf
            continue
        scale = max(float(np.abs(other[finite]).max(initial=0.0)), 1.0)
        worst = float(np.abs(one[finite] - other[finite]).max(initial=0.0))
        greatest = max(greatest, math.inf if math.isnan(worst) else worst / scale)
    return greatest


def _steps(graph: Any, steps: int) -> int:
    """Return a length that the network takes, near this one."""
    steps = graph.shortest - 1 + steps
    return steps if graph.longest is None else min(steps, graph.longest)
