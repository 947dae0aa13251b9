"""The saved-model directory: written beside its place and renamed, so that it is there whole or not at all.

    config.json         what it is: model name, options, tokenizer settings, how it was fitted
    model.safetensors   the arrays, memory-mapped on load
    tokenizer.*         the tokenizer's own file
    README.md           a short card for people
    members/            models inside a model (a mixture)

Nothing is pickled, so loading a stranger's model cannot run code.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seqloom._version import __version__
from seqloom.arrays import read_arrays, write_arrays
from seqloom.errors import ModelError
from seqloom.registry import model_class
from seqloom.text.tokenizer import Tokenizer

FORMAT_VERSION = 1
CONFIG, ARRAYS, CARD, MEMBERS = "config.json", "model.safetensors", "README.md", "members"
COMPARISON = "result.json", "segments.safetensors"  # what `compare` keeps beside a model

_numbers = itertools.count()
_ours: set[str] = set()  # directories that this process is writing


def save(model: Any, directory: str | Path) -> None:
    """Write a fitted model. An earlier seqloom directory of that name is replaced at the end, in one step."""
    with writing(directory) as place:
        write_model(model, place)


def write_model(model: Any, place: Path) -> None:
    config: dict[str, Any] = {
        "format": "seqloom", "format_version": FORMAT_VERSION, "seqloom_version": __version__,
        "task": model.task, "model": model.name, "config": model.config.to_dict(), "fit": model.fit_info,
    }
    if model.tokenizer is not None:
        config["tokenizer"] = model.tokenizer.settings()
        model.tokenizer.write_files(place)
    write_arrays(place / ARRAYS, model.arrays())
    for i, member in enumerate(model.members):
        inner = place / MEMBERS / str(i)
        inner.mkdir(parents=True)
        write_model(member, inner)
    (place / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (place / CARD).write_text(card(config), encoding="utf-8")


def load(directory: str | Path) -> Any:
    """The model that was saved there, of whatever kind."""
    place = Path(directory)
    config = read_config(place)
    try:
        cls = model_class(config["model"])
        tokenizer = Tokenizer.read_files(place, config["tokenizer"]) if "tokenizer" in config else None
        numbers = sorted(int(p.name) for p in (place / MEMBERS).glob("*") if p.name.isdigit())
        members = [load(place / MEMBERS / str(number)) for number in numbers]
        return cls.restore(config["config"], config["fit"], tokenizer, read_arrays(place / ARRAYS), members)
    except ModelError as error:
        if str(error).startswith(str(place)):
            raise
        raise ModelError(f"{place}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{place}: not a usable {config['model']} model ({error}); fit and save it again") from error


def read_config(directory: str | Path) -> dict[str, Any]:
    """The checked `config.json` of a saved model."""
    place = Path(directory)
    if not place.exists():
        raise ModelError(f"{place}: no such directory; fit a model first, for example: "
                         f"seqloom fit ngram TEXT -o {place}")
    if not place.is_dir():
        raise ModelError(f"{place}: not a directory; a saved model is a directory with {CONFIG}{_foreign(place)}")
    if not (place / CONFIG).is_file():
        raise ModelError(f"{place}: not a seqloom model: there is no {CONFIG} in it")
    try:
        config = json.loads((place / CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{place / CONFIG}: damaged ({error}); fit and save the model again") from None
    if not isinstance(config, dict) or config.get("format") != "seqloom":
        raise ModelError(f"{place}: a model of another program, not of seqloom")
    version = config.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelError(f"{place}: format {version}, written by seqloom {config.get('seqloom_version')}; "
                         f"this is seqloom {__version__}, which reads up to {FORMAT_VERSION}: upgrade seqloom")
    for key in ("model", "config", "fit"):
        if key not in config:
            raise ModelError(f"{place / CONFIG}: damaged, {key!r} is missing; fit and save the model again")
    return config


def _foreign(path: Path) -> str:
    with open(path, "rb") as file:
        head = file.read(64)
    if head.startswith(b"mmap lm"):
        return "; this is a KenLM binary: convert its ARPA file instead (seqloom convert model.arpa OUT)"
    if path.name.endswith((".arpa", ".arpa.gz")) or head.startswith(b"\\data\\"):
        return "; this looks like an ARPA file: seqloom convert FILE OUT makes a model of it"
    return ""


def check_target(directory: str | Path) -> None:
    """Refuse, before a long job, a place where its result could not be written at the end."""
    target = Path(os.path.realpath(directory))
    if target.exists() and not _replaceable(target):
        raise ModelError(f"{directory}: exists and is not a saved model, or not only; choose another name or remove it")
    parent = next(p for p in target.parents if p.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".seqloom-", dir=parent))  # permissions alone do not tell
    except OSError as error:
        raise ModelError(f"{directory}: cannot be written, nothing can be made in {parent} "
                         f"({error.strerror}); choose another place") from None


@contextmanager
def writing(directory: str | Path) -> Iterator[Path]:
    """A new directory beside the wanted one, which takes its place when the block ends well."""
    check_target(directory)
    target = Path(os.path.realpath(directory))
    place = target.parent / f".{target.name}.{os.getpid()}-{next(_numbers)}.partial"
    _ours.add(place.name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        place.mkdir()
        yield place
        for file in place.rglob("*"):
            if file.is_file():
                _sync(file)
        _sync(place)
        _replace(place, target)
        _sync(target.parent)
    except OSError as error:
        raise ModelError(f"{directory}: cannot be written ({error.strerror or error}); "
                         "nothing was changed there") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
        _ours.discard(place.name)


def _replaceable(target: Path) -> bool:
    """An empty directory, or a saved model and nothing of somebody else's beside it."""
    if not target.is_dir():
        return False
    names = {p.name for p in target.iterdir() if not p.name.startswith("tokenizer.")}
    with contextlib.suppress(ModelError):
        read_config(target)
        return names <= {CONFIG, ARRAYS, CARD, MEMBERS, *COMPARISON, ".DS_Store"}
    return not any(target.iterdir())


def _sweep(target: Path) -> None:
    """Put right what a killed process left beside the target; what another one is writing stays."""
    for stale in target.parent.glob(f".{glob.escape(target.name)}.*.partial*"):
        found = re.fullmatch(rf"\.{re.escape(target.name)}\.(\d+)-\d+\.partial(\.old)?", stale.name)
        if not found or stale.name in _ours or (int(found[1]) != os.getpid() and _alive(int(found[1]))):
            continue
        if found[2] and not target.exists():  # it died between two renames, and this is the earlier model
            os.replace(stale, target)
        else:
            shutil.rmtree(stale, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(place: Path, target: Path) -> None:
    """Rename over the target; an existing directory is exchanged in one system call where there is one."""
    if not target.exists() or not any(target.iterdir()):
        os.replace(place, target)
        return
    if not _exchange(place, target):
        old = place.with_name(place.name + ".old")
        os.replace(target, old)
        try:
            os.replace(place, target)
        except BaseException:
            os.replace(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Linux renameat2 with RENAME_EXCHANGE; False where it cannot be had."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here = -100  # AT_FDCWD
    return rename(here, os.fsencode(a), here, os.fsencode(b), 2) == 0


def card(config: dict[str, Any]) -> str:
    """A page for people who find the directory."""
    plain = {key: value for key, value in config["fit"].items() if not isinstance(value, (dict, list))}
    fit = "\n".join(f"| {key} | {value} |" for key, value in plain.items())
    options = "\n".join(f"| {key} | {value} |" for key, value in config["config"].items() if value is not None)
    return (f"# {config['model']} {config['task']}\n\n"
            f"Made by seqloom {config['seqloom_version']}. Load it with `seqloom.load(\"this directory\")`, "
            "look at it with `seqloom info`.\n\n"
            f"| option | value |\n|---|---|\n{options}\n\n| fitted | |\n|---|---|\n{fit}\n")
