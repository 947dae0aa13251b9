"""Limits belong to the options: every number has a largest and a smallest value, and no message is long."""

import dataclasses
import importlib
import math
import pkgutil
import re
import subprocess
import sys

import click
import numpy as np
import pytest

import seqloom
from seqloom import NGram, progress
from seqloom.cli.main import main
from seqloom.config import Config, field_types
from seqloom.errors import (
    MAX_MESSAGE_LENGTH,
    ConfigError,
    DataError,
    SeqloomError,
    TrainingError,
    lacks_memory,
    quoted,
)
from seqloom.models.language.mixture import DEEPEST, Mixture

from .conftest import TOY


def configs():
    for module in pkgutil.walk_packages(seqloom.__path__, "seqloom."):
        if module.name.startswith("seqloom.tasks.") or module.name.rpartition(".")[2] in (
            "configs",
            "neural_configs",
            "config",
            "sampling",
            "tokenizer",
            "phrases",
        ):
            importlib.import_module(module.name)
    waiting = [Config]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            waiting.append(cls)
            if cls.__module__.startswith("seqloom."):
                yield cls


def numbers():
    """Config and field of every numeric option."""
    for cls in sorted(set(configs()), key=lambda c: c.__name__):
        kinds = field_types(cls)
        for field in dataclasses.fields(cls):
            words = str(kinds[field.name])
            if "Literal" not in words and re.search(r"\b(int|float)\b", words):
                yield cls, field


NUMBERS = list(numbers())


def test_there_are_numbers():
    assert len(NUMBERS) > 150
    assert {"vocab_size", "warmup", "prune", "top_k", "n_layers", "threshold"} <= {
        field.name for _, field in NUMBERS
    }


@pytest.mark.parametrize(
    ("cls", "field"), NUMBERS, ids=lambda x: getattr(x, "name", getattr(x, "__name__", ""))
)
def test_every_number_has_limits_and_the_value_outside_is_refused_in_one_line(cls, field):
    low, high = field.metadata["minimum"], field.metadata["maximum"]
    assert low is not None
    assert high is not None
    assert math.isfinite(low)
    assert math.isfinite(high)
    several, whole = (
        "tuple" in str(field_types(cls)[field.name]),
        "float" not in str(field_types(cls)[field.name]),
    )
    outside = [high + 1, 10**18, 10**5000, low - 1]
    if not whole:
        outside += [
            math.nextafter(high, math.inf),
            math.inf,
            -math.inf,
            1e308,
            math.nextafter(low, -math.inf),
        ]
    for value in outside:
        if low <= value <= high:  # a number of seeds is that large
            continue
        with pytest.raises(ConfigError) as caught:
            cls(**{field.name: (0, value) if several else value})
        assert field.name in str(caught.value)
        assert len(str(caught.value)) < 200
        assert "\n" not in str(caught.value)


def commands(group, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_numbers_of_commands_have_limits_too():
    fields = {field.name for _, field in NUMBERS}
    found = 0
    for path, command in commands(main):
        for param in command.params:
            if isinstance(param.type, (click.IntRange, click.FloatRange)):
                found += 1
                assert param.type.min is not None, (path, param.name)
                assert param.type.max is not None, (path, param.name)
            elif param.type in (click.INT, click.FLOAT):
                assert param.name in fields, (path, param.name)
    assert found > 10


@pytest.mark.parametrize(
    "options",
    [
        {"tokenizer": "z" * 10**6},
        {"order": "9" * 10**6},
        {"smoothing": "kneser" * 10**5},
        {"x" * 10**6: 1},
        {"normalize": "step=" * 10**5},
    ],
)
def test_no_message_is_long(options):
    assert len(str(SeqloomError("x" * 10**6))) == MAX_MESSAGE_LENGTH
    with pytest.raises(ConfigError) as caught:
        NGram(**options).fit(TOY)
    assert len(str(caught.value)) <= MAX_MESSAGE_LENGTH


def test_both_ends_of_a_long_message_stay():
    assert str(DataError(f"bad {'y' * 10**6}; do this instead")).startswith("bad yyy")
    assert str(DataError(f"bad {'y' * 10**6}; do this instead")).endswith("; do this instead")
    assert str(DataError("short")) == "short"
    assert quoted({"a": 1}) == "{'a': 1}"
    assert (
        quoted([[*range(500)]]) == f"{str([[*range(500)]])[:56]} ... {str([[*range(500)]])[-19:]}"
    )


def test_what_is_not_shown_is_not_written():
    """A list of a million numbers takes longer than a server should stand still."""
    written = []

    class One:
        def __repr__(self):
            written.append(1)
            return "1"

    many = [One()] * 100_000
    quoted([many, many])
    assert len(written) < 1000


def test_remarks_are_short_too():
    said = []

    class Reporter:
        def say(self, message):
            said.append(message)

    with progress.reporting(Reporter()):
        progress.say("x" * 10**6)
    assert len(said[0]) <= MAX_MESSAGE_LENGTH


def test_usage_errors_are_short_and_one_line():
    done = subprocess.run(
        [sys.executable, "-m", "seqloom.cli", "fit", "ngram", "-o", "m", "--order", "9" * 100_000],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr) < 1000
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        np._core._exceptions._ArrayMemoryError((10**9,), np.dtype(float)),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
            "memory: you tried to "
            "allocate 400000000000000 bytes. Error code 12 (Cannot allocate memory)"
        ),
    ],
)
def test_what_cannot_be_allocated_is_one_clear_line(error, monkeypatch):
    assert lacks_memory(error)
    model = NGram(order=2)
    monkeypatch.setattr(NGram, "fit_ids", lambda *_: (_ for _ in ()).throw(error))
    with pytest.raises(TrainingError, match="not enough memory to fit this ngram model"):
        model.fit(TOY)
    assert not model.fit_info
    assert not lacks_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_what_numpy_cannot_allocate_is_recognised():
    with pytest.raises(MemoryError) as caught:
        np.empty(10**15)
    assert lacks_memory(caught.value)
    with pytest.raises(ValueError, match=r"array is too big|dimension") as too_big:
        np.empty(2**62)
    assert lacks_memory(too_big.value)


def test_mixtures_inside_one_another_are_limited():
    model = NGram(order=1).fit(TOY)
    for _ in range(DEEPEST):
        model = Mixture.of([model, NGram(order=1).fit(TOY)])
    with pytest.raises(ConfigError, match=f"more than {DEEPEST} deep"):
        Mixture.of([model, model])
