"""The models that are served, by name: loaded once, shared by all requests, replaced as a whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom import tasks
from seqloom.contracts import LanguageModel
from seqloom.errors import ConfigError, quoted
from seqloom.serving.configs import ServeConfig
from seqloom.serving.engine import Engine
from seqloom.serving.fields import Refused
from seqloom.serving.prompts import Prompts
from seqloom.storage import load
from seqloom.tasks.task import Verb

if TYPE_CHECKING:
    from seqloom.tasks.task import Task


class Served:
    """A loaded model, what it can be asked, and the thread that draws its text."""

    def __init__(self, name: str, source: Any, config: ServeConfig) -> None:
        """Load the model of a directory, or take a fitted one."""
        self.name = name
        self.path = str(source) if isinstance(source, (str, Path)) else None
        self.model: Any = source if self.path is None else load(self.path)
        self.model.check_fitted()
        self.task: Task = tasks.of(self.model)
        self.verbs: dict[str, Verb] = self.task.verbs()
        self.engine: Engine | None = None
        if isinstance(self.model, LanguageModel):
            self.engine = _engine(self.model, config)

    def close(self) -> None:
        """Take no more requests; running ones end."""
        if self.engine is not None:
            self.engine.close()


def _engine(model: LanguageModel, config: ServeConfig) -> Engine:
    generator = model.generator()
    limit = getattr(generator.whole, "context", None)  # of a Transformer, whose window is filled
    prompts = Prompts(
        generator,
        context=model.context if limit is None else None,
        limit=limit,
        fresh_lines=model.unit == "line" and not model.carry,
    )
    return Engine(prompts, max_rows=config.rows, max_waiting=config.queue)


class Catalogue:
    """All served models."""

    def __init__(self, sources: Mapping[str, Any], config: ServeConfig) -> None:
        """Load models: directories, or fitted models, by name."""
        self.config = config
        self._lock = threading.Lock()
        self._models = {name: Served(name, source, config) for name, source in sources.items()}

    def __iter__(self) -> Iterator[Served]:
        return iter(list(self._models.values()))

    def waits_for(self, name: str) -> bool:
        """Return whether the model of that name is to be opened before it is found."""
        return False

    def open(self, name: str) -> None:
        """Open the model of that name; in a thread, as it may take long."""

    def find(self, name: str | None, wanted: str, suits: Any) -> Served:
        """Return the model of that name; without one, the only one that suits."""
        if name is None:
            fitting = [served for served in self if suits(served)]
            if len(fitting) == 1:
                return fitting[0]
            names = ", ".join(served.name for served in fitting)
            which = f"; give one of {names}" if fitting else f", and no model here {wanted}"
            raise Refused(f"model is missing{which}", field="model")
        served = self._models.get(name)
        if served is None:
            raise Refused(
                f"there is no model {quoted(name)}; there are {', '.join(self._models)}",
                status=404,
                field="model",
                code="model_not_found",
            )
        if not suits(served):
            writes = ["v1/completions"] if served.engine is not None else []
            others = ", ".join(f"/{path}" for path in writes + sorted(served.verbs))
            raise Refused(
                f"{name} is {served.task.phrase} ({served.model.name}), which does not do this"
                + (f"; ask {others}" if others else ""),
                field="model",
            )
        return served

    def reload(self, name: str) -> Served:
        """Load a model's directory anew; requests that run end on the old one."""
        if not self._lock.acquire(blocking=False):
            raise ConfigError("a model is being loaded already")
        try:
            old = self._models[name]
            if old.path is None:
                raise ConfigError(f"{name} was not loaded from a directory")
            new = self._models[name] = Served(name, old.path, self.config)
        finally:
            self._lock.release()
        old.close()
        return new

    def close(self) -> None:
        """Take no more requests."""
        for served in self:
            served.close()


def named_paths(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the directory of each model that is given as PATH or NAME=PATH.

    >>> list(named_paths(["models/small", "quick=models/small"]))
    [('small', 'models/small'), ('quick', 'models/small')]
    """
    seen: set[str] = set()
    for one in given:
        name, equals, path = one.partition("=")
        if not (equals and name and "/" not in name) or Path(one).exists():
            name, path = Path(one).resolve().name, one
        if name in seen:
            raise ConfigError(f"two models are called {name!r}; give one as NAME=PATH")
        seen.add(name)
        yield name, path
