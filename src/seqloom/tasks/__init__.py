"""Every task by name, one object each: what its data is, how it is read, evaluated, used and drawn.

The command line asks these objects and never the name of a task, so a new task is one file (see
`task.Task`) and one line here. Another package registers its own:
`tasks.register(MyTask())`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqloom import registry
from seqloom.errors import ConfigError, either, suggest

if TYPE_CHECKING:
    from seqloom.tasks.task import Task

_BUILT_IN = {
    "language model": "seqloom.tasks.language:LanguageModeling",
    "classifier": "seqloom.tasks.classification:Classification",
    "tagger": "seqloom.tasks.tagging:Tagging",
    "answerer": "seqloom.tasks.answering:Answering",
    "word vectors": "seqloom.tasks.word_vectors:WordVectorsTask",
    "sentence vectors": "seqloom.tasks.sentence_vectors:SentenceVectorsTask",
    "forecaster": "seqloom.tasks.forecasting:Forecasting",
    "translator": "seqloom.tasks.translation:Translating",
    "masked language model": "seqloom.tasks.masked:MaskedModeling",
}
_registered: dict[str, Task] = {}


def register(task: Task) -> None:
    """Make a task known, for this process; a package does it when its entry point `seqloom.models`
    is loaded.
    """
    if _registered.get(task.name, task).__class__ is not task.__class__ or task.name in _BUILT_IN:
        raise ConfigError(f"there is already a task named {task.name!r}; give yours another name")
    _registered[task.name] = task


def get(name: str) -> Task:
    """Return the task of that name."""
    if name in _BUILT_IN and name not in _registered:
        module, _, attribute = _BUILT_IN[name].partition(":")
        _registered[name] = getattr(import_module(module), attribute)()
    if name not in _registered:
        registry.load_plugins()
    if name not in _registered:
        raise ConfigError(f"unknown task {name!r}{suggest(name, _BUILT_IN)}")
    return _registered[name]


def of(model: Any) -> Task:
    """Return the task of a model."""
    return get(model.task)


def every() -> Iterator[Task]:
    """Return all tasks, the built-in ones first."""
    registry.load_plugins()
    return map(get, dict.fromkeys([*_BUILT_IN, *_registered]))


def with_command(command: str) -> list[Task]:
    """Return the tasks whose models a command is for."""
    return [task for task in every() if command in task.commands]


def open_model(command: str, path: str) -> Any:
    """Open the saved model in a directory, or the model in another program's file, if the command
    is for its task.
    """
    from pathlib import Path

    from seqloom.storage import load

    candidates = with_command(command)
    if Path(path).is_file():
        for task in candidates or [task for task in every() if task.recognises(Path(path))]:
            if (model := task.open_file(Path(path))) is not None:
                return model
    model = load(path)
    if candidates and command not in of(model).commands:
        raise ConfigError(
            f"{command} is for {either(task.phrase for task in candidates)}; {path} is {of(model).phrase} "
            f"({model.name})"
        )
    return model
