"""The saved-model directory: written beside its target and renamed, so that it is complete or not there.

    config.json         what it is: name, options, settings of tokenizers, what it learnt, how the fit went
    model.safetensors   the arrays, memory-mapped on load
    tokenizer.*         the file of the tokenizer named text
    tokenizers/NAME/    the same of any other
    README.md           a page for people
    members/            models inside a model (a mixture)
    results.json        what `evaluate --card` found
    training.jsonl      of a network: the log of its training, and tensorboard/ where that was wanted

Nothing is pickled, so loading a stranger's model cannot run code. docs/format.md says it all.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr  # shortens long values
from typing import Any

import numpy as np

from seqloom import directories
from seqloom._version import __version__
from seqloom.arrays import read_arrays, write_arrays
from seqloom.cards import CARD, RESULTS, card
from seqloom.data.foreign import reader_of
from seqloom.errors import ConfigError, MissingExtra, ModelError, SeqloomError, suggest
from seqloom.registry import MODELS, is_known, is_registered, model_class
from seqloom.text.tokenizer import Tokenizer

FORMAT_VERSION = 2
CONFIG, ARRAYS, MEMBERS, TOKENIZERS = (
    "config.json",
    "model.safetensors",
    "members",
    "tokenizers",
)
TEXT = "text"  # the tokenizer of a model of text, whose files other programs look for in the directory itself
TRAINING_LOG, EVENTS = "training.jsonl", "tensorboard"  # how a network's training went, for plots
COMPARISON = "result.json", "segments.safetensors"  # what `compare` keeps beside a model
WHAT = "a saved model"
DEEPEST, MOST_MODELS = 8, 200  # members in members, and how many models there are in one
NESTED = 30  # lists in lists of config.json

# Required keys of config.json: of all formats, and of each.
_KEYS = {"seqloom_version": str, "task": str, "model": str, "config": dict}
_KEYS_OF = {1: {"fit": dict}, 2: {"learnt": dict, "tokenizers": dict}}
_TOKENIZER_NAME = re.compile("[0-9A-Za-z_-]{1,50}")
_LEFT_BEHIND = re.compile(  # by a process that was killed while it wrote a result
    rf"\.({re.escape(CARD)}|{re.escape(RESULTS)})\.\d+-\d+\.partial"
)
_SURROGATES = re.compile("[\ud800-\udfff]")  # UTF-8 has none, so no model was saved with one
_DAMAGE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


@dataclass(frozen=True)
class Saved:
    """The parts of a saved model, as they were read."""

    config: dict[str, Any]
    learnt: dict[str, Any]
    fit: dict[str, Any]
    tokenizers: dict[str, Tokenizer]
    arrays: dict[str, np.ndarray]
    members: list[Any]


def save(model: Any, directory: str | Path, beside: Mapping[str, Path] | None = None) -> None:
    """Write a fitted model. An earlier seqloom directory of that name is replaced at the end, in one step.

    `beside`: files and directories that are copied into it, by their names there (the log of its training).
    """
    directories.remark_file_name(directory)
    with writing(directory) as partial:
        write_model(model, partial)
        _check_loads(model, partial)
        for name, source in (beside or {}).items():
            if source.exists():
                (shutil.copytree if source.is_dir() else shutil.copyfile)(source, partial / name)


def write_model(model: Any, directory: Path) -> None:
    _check_readable(model)
    arrays, learnt = model.saved_parts()
    config: dict[str, Any] = {
        "format": "seqloom",
        "format_version": FORMAT_VERSION,
        "seqloom_version": __version__,
        "task": model.task,
        "model": model.name,
        "config": model.config.to_dict(),
        "tokenizers": {},
        "learnt": learnt,
        "fit": model.fit_info,
    }
    for name, tokenizer in model.tokenizers.items():
        home = _tokenizer_home(directory, name)
        home.mkdir(parents=True, exist_ok=True)
        config["tokenizers"][name] = tokenizer.settings()
        tokenizer.write_files(home)
    write_arrays(directory / ARRAYS, arrays)
    for i, member in enumerate(model.members):
        inner = directory / MEMBERS / str(i)
        inner.mkdir(parents=True)
        write_model(member, inner)
    (directory / CONFIG).write_text(
        json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    options = model.config.effective_options(trained="train" in model.fit_info)
    page = card(config | {"config": options}, directory, [])
    (directory / CARD).write_text(page, encoding="utf-8")


def _check_readable(model: Any) -> None:
    """Refuse to save what could not be loaded: nothing but a registered name leads from a directory
    to a class.
    """
    cls = type(model)
    if not is_registered(cls):
        taken = (
            f"the name {model.name!r} is that of another model; give the class a name of its own and"
            if is_known(model.name)
            else "it is not registered, so it could not be loaded again;"
        )
        raise ModelError(
            f"cannot save a {cls.__name__}: {taken} register the class: @seqloom.register above it, or "
            f"seqloom.register({cls.__name__})"
        )
    for what, values in (
        ("option", model.config.to_dict()),
        ("learnt", model.learnt),
        ("fit_info", model.fit_info),
    ):
        for name, value in values.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                raise ModelError(
                    f"cannot save a {cls.__name__}: its {what} {name!r} holds {repr(value)}, which "
                    f"JSON does not have; use plain numbers, texts, lists and dicts"
                ) from None


def _check_loads(model: Any, directory: Path) -> None:
    """Load what was written before it replaces the target, so that nothing is saved that `load` refuses."""
    name = type(model).__name__
    try:
        options = load(directory).config
    except SeqloomError as error:
        reason = str(error).replace(f"{directory}: ", "").removesuffix(": the file is damaged")
        raise ModelError(f"cannot save a {name}: it could not be loaded again: {reason}") from error
    if options != model.config and not model.has_members:
        raise ModelError(
            f"cannot save a {name}: its options {model.config} would come back as {options}"
        )


def _tokenizer_home(directory: Path, name: str) -> Path:
    """Return where the files of a tokenizer are in a saved model."""
    if not _TOKENIZER_NAME.fullmatch(name):
        raise ModelError(
            f"{repr(name)} cannot be the name of a tokenizer: letters, digits, - and _, at most 50"
        )
    return directory if name == TEXT else directory / TOKENIZERS / name


def load(directory: str | Path, device: str | None = None) -> Any:
    """Load a saved model of any kind. Untrusted files are safe: every part is checked before it is used.

    `device`: where its networks run, such as cuda or mps; None: the CPU.
    """
    model = _load(Path(directory), [], 0)
    if device not in (None, "cpu") and not model.to_device(device):
        raise ConfigError(
            f"{model.name} models do not run on a device; leave device out, or give cpu"
        )
    return model


def _load(directory: Path, loaded: list[Path], depth: int) -> Any:
    """Load a model. `loaded`: what belongs to the same model so far; `depth` of a member in
    members.
    """
    loaded.append(directory)
    if depth > DEEPEST or len(loaded) > MOST_MODELS:
        # A member may be a link to the model that it is in.
        raise ModelError(
            f"{loaded[0]}: members in members, more than {DEEPEST} deep or {MOST_MODELS} in all; "
            "a mixture of so many cannot be read"
        )
    config = read_config(directory)
    if not is_known(config["model"]):
        raise ModelError(
            f"{directory}: no model named {config['model']!r} is known here; import the module that "
            f"registers its "
            f"class (@seqloom.register), or install the package that has it{suggest(config['model'], MODELS)}"
        )
    try:
        cls = model_class(config["model"])
        if cls.task != config["task"]:
            raise ModelError(
                f"{repr(config['task'])} is not what {cls.name} models do: {CONFIG} is damaged"
            )
        tokenizers = {
            name: Tokenizer.read_files(_tokenizer_home(directory, name), settings)
            for name, settings in config["tokenizers"].items()
        }
        numbers = sorted(int(p.name) for p in (directory / MEMBERS).glob("*") if p.name.isdecimal())
        members = [
            _load(directory / MEMBERS / str(number), loaded, depth + 1) for number in numbers
        ]
        model = cls.restore(
            Saved(
                config["config"],
                config["learnt"],
                config["fit"],
                tokenizers,
                read_arrays(directory / ARRAYS),
                members,
            )
        )
        model.log = _read_log(directory / TRAINING_LOG)
        return model
    except MissingExtra:
        raise
    except SeqloomError as error:
        if str(error).startswith((f"{loaded[0]}:", f"{loaded[0]}/")):
            raise
        if isinstance(error, ModelError):
            raise ModelError(f"{directory}: {error}") from error
        raise ModelError(
            f"{directory}: not a usable {config['model']} model ({error}); fit and save it again"
        ) from error
    except _DAMAGE as error:  # damage that no check foresaw
        raise ModelError(
            f"{directory}: not a usable {config['model']} model ({type(error).__name__}: {error}); "
            "fit and save it again"
        ) from error


def _read_log(path: Path) -> list[dict[str, Any]]:
    """Read the training log saved with a model; nothing relies on it, so damaged lines are left
    out.
    """
    lines = []
    with contextlib.suppress(OSError):
        for line in directories.read_small_file(path).decode("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                values = json.loads(line)
                if isinstance(values, dict) and all(
                    isinstance(value, (str, float, bool))
                    or (isinstance(value, int) and abs(value) < 1 << 62)
                    for value in values.values()
                ):
                    lines.append(values)
    return lines


def read_config(directory: str | Path) -> dict[str, Any]:
    """Read and check the `config.json` of a saved model; return it with the keys of the newest
    format. `fit` may have been anything.
    """
    path = Path(directory)
    if not path.exists():
        raise ModelError(
            f"{path}: no such directory; fit a model first: seqloom fit MODEL TEXT -o {path} "
            "(seqloom models lists them)"
        )
    if not path.is_dir():
        raise ModelError(
            f"{path}: not a directory; a saved model is a directory with {CONFIG}{_reader(path)}"
        )
    if not (path / CONFIG).is_file():
        raise ModelError(f"{path}: not a seqloom model: there is no {CONFIG} in it")
    try:
        config = json.loads(directories.read_small_file(path / CONFIG).decode("utf-8"))
    except OSError as error:
        raise ModelError(f"{path / CONFIG}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path / CONFIG}: damaged ({error}); fit and save the model again"
        ) from None
    if not isinstance(config, dict) or config.get("format") != "seqloom":
        published = isinstance(config, dict) and "model_type" in config
        raise ModelError(
            f"{path}: a model of another program, not of seqloom"
            f"{'; seqloom convert DIR OUT makes one of it' if published else ''}"
        )
    if isinstance(config.get("fit"), dict):
        config["fit"] = {
            key: value for key, value in config["fit"].items() if not _unusable({key: value})
        }
    if _unusable({key: value for key, value in config.items() if key != "fit"}):
        raise ModelError(
            f"{path / CONFIG}: damaged, nested too deeply or with half characters; fit and save "
            f"the model again"
        )
    version = config.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise ModelError(
            f"{path}: format {repr(version)}, written by seqloom {repr(config.get('seqloom_version'))}; "
            f"this is seqloom {__version__}, which reads up to {FORMAT_VERSION}: upgrade seqloom"
        )
    for key, kind in (_KEYS | _KEYS_OF[version]).items():
        if not isinstance(config.get(key), kind):
            wrong = f"is {repr(config[key])}" if key in config else "is missing"
            raise ModelError(
                f"{path / CONFIG}: damaged, {key!r} {wrong}; fit and save the model again"
            )
    if version == 1:
        try:
            return _from_format_1(config)
        except SeqloomError as error:
            raise ModelError(
                f"{path}: not a usable model ({error}); fit and save it again"
            ) from error
    return config | {"fit": config["fit"] if isinstance(config.get("fit"), dict) else {}}


def _from_format_1(config: dict[str, Any]) -> dict[str, Any]:
    """Convert from format 1, where `fit` held what was learnt too, a model had one tokenizer at
    most, and `lr` had two names.
    """
    learnt = {
        name: config["fit"][name]
        for name in model_class(config["model"]).learnt_values
        if name in config["fit"]
    }
    fit = {name: value for name, value in config["fit"].items() if name not in learnt}
    tokenizers = {TEXT: config["tokenizer"]} if "tokenizer" in config else {}
    unchanged = {key: value for key, value in config.items() if key != "tokenizer"}
    options = {
        "lr" if name == "learning_rate" else name: value for name, value in config["config"].items()
    }
    return unchanged | {"config": options, "tokenizers": tokenizers, "learnt": learnt, "fit": fit}


def _unusable(value: Any) -> bool:
    """Return whether JSON is nested too deeply to walk through, or has characters that cannot be
    written.
    """
    return _deeper(value, NESTED) or bool(_SURROGATES.search(json.dumps(value, ensure_ascii=False)))


def _deeper(value: Any, levels: int) -> bool:
    """Return whether JSON is nested deeper than `levels`."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(inner) and (not levels or any(_deeper(item, levels - 1) for item in inner))


def _reader(path: Path) -> str:
    """Say what reads a file that is no saved model."""
    if path.name in (CONFIG, ARRAYS) and (path.parent / CONFIG).is_file():
        return f"; give the directory that the file is in: {path.parent}"
    return reader_of(path)


def check_target(directory: str | Path) -> None:
    """Refuse, before a long job, a directory to which its result could not be written at the end."""
    directories.check_target(directory, WHAT, _replaceable)


def writing(directory: str | Path) -> AbstractContextManager[Path]:
    """Create a new directory beside the target, which it replaces when the block succeeds."""
    return directories.writing(directory, WHAT, _replaceable)


def _replaceable(target: Path) -> bool:
    """Return whether the target is an empty directory, or a saved model without other files
    beside it.
    """
    if not target.is_dir():
        return False
    names = {
        p.name
        for p in target.iterdir()
        if not p.name.startswith("tokenizer.") and not _LEFT_BEHIND.fullmatch(p.name)
    }
    with contextlib.suppress(ModelError):
        read_config(target)
        return names <= {
            CONFIG,
            ARRAYS,
            CARD,
            RESULTS,
            MEMBERS,
            TOKENIZERS,
            TRAINING_LOG,
            EVENTS,
            *COMPARISON,
            ".DS_Store",
        }
    return not any(target.iterdir())
