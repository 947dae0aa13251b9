"""docs/reference-python.md: every public name of `seqloom`, with its signature and the first
paragraph of its docstring.
"""

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Collection
from typing import Any

import seqloom
from seqloom.contracts.base import Model
from seqloom.describing import public_names
from seqloom.registry import MODELS

HEAD = """# Reference: Python

Generated from `seqloom.__all__` by `python -m tests.generated`; a test keeps it current. \
`help(seqloom.NAME)` shows more. The
options of models are those of [`seqloom fit`](reference-cli.md#seqloom-fit), explained there. \
Of a model the names are those that
`dir(model)`, and so tab completion, shows; what a model of your own writes is on [its page](own-model.md).
"""
WIDTH = 110


def names_page() -> str:
    public = {name: getattr(seqloom, name) for name in seqloom.__all__ if not name.startswith("__")}
    contracts = {name: value for name, value in public.items() if _is_contract(value)}
    models = {
        name: value for name, value in public.items() if _is_model(value) and name not in contracts
    }
    functions = {name: value for name, value in public.items() if inspect.isroutine(value)}
    modules = {name: value for name, value in public.items() if inspect.ismodule(value)}
    classes = {
        name: value
        for name, value in public.items()
        if name not in {*contracts, *models, *functions, *modules}
    }
    parts = [HEAD, "## Functions", *(_function(name, value) for name, value in functions.items())]
    for name, module in modules.items():
        inside = {key: getattr(module, key) for key in module.__all__}
        parts += [
            f"## seqloom.{name}",
            _first(module),
            *(
                _function(key, value, f"seqloom.{name}.")
                for key, value in inside.items()
                if callable(value)
            ),
        ]
    parts += [
        "## Data, tokenizers and training",
        *(_class(name, value) for name, value in classes.items()),
    ]
    parts += [
        "## Contracts",
        "What all models of a task can do.",
        *(_class(name, value) for name, value in contracts.items()),
    ]
    parts += ["## Models"]
    for name, model in models.items():
        contract = next(
            key for base in model.__mro__ for key, value in contracts.items() if value is base
        )
        parts.append(_model(name, model, contracts[contract]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _is_model(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, Model)


def _is_contract(value: Any) -> bool:
    return _is_model(value) and inspect.isabstract(value) and "name" not in vars(value)


def _function(name: str, value: Any, before: str = "seqloom.") -> str:
    return f"### {name}\n\n{_block(before + name + _signature(value))}\n\n{_first(value)}"


def _block(call: str) -> str:
    lines = textwrap.wrap(
        call, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(["```text", *lines, "```"])


def _class(name: str, cls: Any) -> str:
    bases = [base for base in reversed(cls.__mro__) if base.__module__.startswith("seqloom.")]
    parts = [
        f"### {name}",
        _block(f"seqloom.{name}{_signature(cls)}"),
        _first(cls),
        _methods(cls, bases),
    ]
    return "\n\n".join(part for part in parts if part)


def _model(name: str, model: Any, contract: Any) -> str:
    options = ", ".join(
        [
            *(f"{f.name}={f.default!r}" for f in dataclasses.fields(model.config_class)),
            *(["train=None"] if "train" in model.config_class.fit_arguments else []),
        ]
    )
    entry = MODELS.get(model.name)
    summary = _first(model) if vars(model).get("__doc__") else entry.summary if entry else ""
    what = f"{summary[:1].upper()}{summary[1:].rstrip('.')}."
    parts = [
        f"### {name}",
        _block(f"seqloom.{name}({options})"),
        f"{what} A model of the contract [{contract.__name__}](#{contract.__name__.lower()}).",
        _methods(model, [model], public_names(contract)),
    ]
    return "\n\n".join(part for part in parts if part)


def _methods(cls: Any, bases: list[Any], known: Collection[str] = ()) -> str:
    """The public methods and properties with a docstring that these classes write; of a model those
    that `dir` shows.
    """
    every = public_names(cls) if _is_model(cls) else {name for base in bases for name in vars(base)}
    names = dict.fromkeys(
        name
        for base in bases
        for name in vars(base)
        if not name.startswith("_") and name in every and name not in known
    )
    rows: list[str] = []
    described_names: set[str] = set()
    for name in names:
        value = inspect.getattr_static(cls, name)
        value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        described = value.fget if isinstance(value, property) else getattr(value, "func", value)
        if inspect.isfunction(described) and described.__doc__:
            call = name if described is not value else f"{name}{_signature(value)}"
            described_names.add(name)
            rows.append(f"| `{_cell(call)}` | {_cell(_first(described))} |")
    table = "\n".join(["| | |", "|---|---|", *rows]) if rows else ""
    if not _is_model(cls):
        return table
    others = sorted(every - set(known) - described_names)
    return f"{table}\n\nAlso: {', '.join(f'`{name}`' for name in others)}." if others else table


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _signature(value: Any) -> str:
    """Names and defaults; annotations are for `help`."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return "(...)"
    bare = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in found.parameters.values()
        if p.name not in ("self", "cls")
    ]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _first(value: Any) -> str:
    """The first paragraph of a docstring, as one line."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    if text.startswith(
        f"{getattr(value, '__name__', '')}("
    ):  # which dataclasses make of their fields
        return ""
    return re.sub(r"(?<!`)(<\w+>|\bdict\[\w+)(?!`)", r"`\1`", text)
