"""What a class of models declares: its name, its options among its attributes, and the primitive of
its task.

    >>> from seqloom.config import option
    >>> class Smoothed:
    ...     k: float = option(1.0, "what is added to each count", minimum=0)
    >>> made = config_with(Config, Smoothed, declared_options(Smoothed))
    >>> made(k=2).to_dict()
    {'k': 2.0}
    >>> model_name("BackoffBigram")
    'backoff-bigram'
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import TYPE_CHECKING, Any

from seqloom.config import Config

if TYPE_CHECKING:
    from seqloom.contracts.base import Model


def declared_options(cls: type) -> dict[str, tuple[Any, Any]]:
    """Find the fields made by `option` among the attributes of a class, each with its type."""
    types_of = inspect.get_annotations(cls)
    fields = {
        name: value for name, value in vars(cls).items() if isinstance(value, dataclasses.Field)
    }
    if untyped := [name for name in fields if name not in types_of]:
        raise TypeError(
            f"the option {untyped[0]} of {cls.__name__} has no type; write {untyped[0]}: float = "
            f"option(...), or int, str, bool"
        )
    return {name: (types_of[name], value) for name, value in fields.items()}


def config_with(
    base: type[Config], owner: type, options: dict[str, tuple[Any, Any]]
) -> type[Config]:
    """Make the config of a model class that declares these options itself, besides those of
    `base`.
    """
    config_class = dataclasses.make_dataclass(
        f"{owner.__name__}Config",
        [(name, *rest) for name, rest in options.items()],
        bases=(base,),
        frozen=True,
        kw_only=True,
        namespace={"__module__": owner.__module__},
    )
    config_class.__qualname__ = (
        f"{owner.__qualname__}.config_class"  # where copies in other processes look for it
    )
    return config_class


def model_name(name: str) -> str:
    """Convert the name of a class to that of a model: BackoffBigram is backoff-bigram."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).strip("_").lower()


def check_primitive(cls: type[Model]) -> None:
    """Refuse a class that writes none of the primitive methods of its task."""
    contract = next(base for base in cls.__mro__ if "primitives" in vars(base))
    if cls.primitives and all(
        getattr(cls, name) is getattr(contract, name) for name in cls.primitives
    ):
        raise TypeError(
            f"{cls.__name__} writes neither {' nor '.join(cls.primitives)}; write one of them"
        )


def show_option(cls: type[Model], name: str, known: bool) -> None:
    """Let an option that a class declares be read as `self.name`; `known`: one of its base, with
    another default.
    """
    delattr(cls, name)
    if known:
        return
    if callable(getattr(cls, name, None)) or name in (
        "config",
        "members",
        "fitted",
        "tokenizers",
        "learnt",
        "fit_info",
    ):
        raise TypeError(
            f"{cls.__name__} cannot have an option named {name}: every model already has an "
            f"attribute of that name"
        )
    setattr(cls, name, property(lambda self: getattr(self.config, name)))
