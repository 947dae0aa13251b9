"""What Python and scikit-learn ask about a model, made from its options: signature, docstring,
repr, tags; what an unknown option is called here, or where it belongs; and what differs between
two records of options.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Literal

from seqloom import progress
from seqloom.config import Config, defaults, field_types, in_words, parts
from seqloom.errors import ConfigError, suggest_known
from seqloom.foreign_names import NO_OPTION, OPTIONS, candidates, needless, our_option, word_of

_TRAIN, _SAMPLING = (
    "seqloom.training.config:TrainConfig",
    "seqloom.decoding.sampling:SamplingConfig",
)


class OptionsSignature:
    """`__signature__` of a class of models, made on first use: the options of its config,
    with types and defaults.
    """

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        config = getattr(owner, "config_class", None)
        if config is None:
            raise AttributeError("__signature__")
        kinds, keyword = field_types(config), inspect.Parameter.KEYWORD_ONLY
        first = inspect.Parameter(
            "config",
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None,
            annotation=config | None,
        )
        return inspect.Signature(
            [
                first,
                *(
                    inspect.Parameter(f.name, keyword, default=f.default, annotation=kinds[f.name])
                    for f in dataclasses.fields(config)
                ),
                *(
                    [
                        inspect.Parameter(
                            "train", keyword, default=None, annotation="TrainConfig | dict | None"
                        )
                    ]
                    if "train" in config.fit_arguments
                    else []
                ),
            ]
        )


def docstring(cls: type, config: type[Config]) -> str:
    """Return the class's own docstring, or else the first paragraph of its file if it is one of
    ours, and each option.
    """
    module = sys.modules.get(cls.__module__) if cls.__module__.startswith("seqloom.") else None
    own = (
        vars(cls).get("__doc__")
        or (getattr(module, "__doc__", None) or f"{cls.__name__}.").strip().partition("\n\n")[0]
    )
    kinds = field_types(config)
    lines = [
        inspect.cleandoc(own),
        "",
        "Parameters",
        "----------",
        f"config : {config.__name__}, default None",
        "    all options together, instead of keywords",
    ]
    for f in dataclasses.fields(config):
        lines += [
            f"{f.name} : {_type_name(kinds[f.name])}, default {f.default!r}",
            f"    {f.metadata.get('help', '')}",
        ]
    if "train" in config.fit_arguments:
        lines += [
            "train : TrainConfig | dict | None, default None",
            "    how fit trains, unless it is told there: train={'steps': 200}",
        ]
    return "\n".join(lines)


def public_names(cls: type) -> frozenset[str]:
    """Return what a class of models and its bases list as names for users, and `train` of networks."""
    listed = " ".join(vars(base).get("public_names", "") for base in cls.__mro__).split()
    training = getattr(cls, "config_class", Config).fit_arguments & {"train"}
    return frozenset(listed) | training


def shown_names(model: Any, names: Iterable[str]) -> list[str]:
    """Choose, of all names of a model, those that `dir` and so tab completion show: the public ones, and
    whatever a class that is not part of seqloom adds; all others can be used as well.
    """
    every = type(model).__mro__[:-1]
    ours = [cls for cls in every if cls.__module__.startswith("seqloom.")]
    hidden = {name for cls in ours for name in (*vars(cls), *inspect.get_annotations(cls))}
    if type(model) in ours:
        hidden |= vars(model).keys()
    added = {name for cls in every if cls not in ours for name in vars(cls)}
    shown = public_names(type(model)) | added
    return [name for name in names if name.startswith("_") or name in shown or name not in hidden]


def changed_options(config: Config) -> dict[str, Any]:
    """Return the options that differ from their default."""
    return {
        f.name: value
        for f in dataclasses.fields(config)
        if (value := getattr(config, f.name)) != f.default
    }


def train_config(values: Mapping[str, Any]) -> Any:
    """Make the options of training, a `TrainConfig`, by name, since that stands above the models."""
    return _resolve(_TRAIN)(**values)


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return what differs between two records of options, which may be grouped: each with the old
    and the new value.

    >>> old = {"options": {"beams": 5, "seed": 0}, "json": False}
    >>> differences(old, {"options": {"beams": 3, "seed": 0}, "json": True})
    ['beams was 5, is 3', 'json was off, is on']
    """
    old, new = _flat(before), _flat(now)
    return [
        f"{key[1]} was {in_words(old.get(key))}, is {in_words(new.get(key))}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    ]


def _flat(groups: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Return values by group and name; what is in no group is a group of its own."""
    return {
        (group, name): value
        for group, whole in groups.items()
        for name, value in (whole.items() if isinstance(whole, dict) else [(group, whole)])
    }


def renamed(new: str, value: Any, old: str, former: Any) -> Any:
    """Return the value of an option that had another name before, whichever name was used; both are
    refused."""
    if former is None:
        return value
    if value is not None:
        raise ConfigError(f"{old} is the former name of {new}; give one of them")
    progress.say(f"{old} is now called {new}")
    return former


def scikit_learn_tags(kind: str | None, *, transforms: bool) -> Any:
    """Return what scikit-learn asks of an estimator: its kind (classifier, or None), whether it
    is a step before another, and that it reads text and, unless it is such a step, needs labels.
    """
    from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags, TransformerTags

    return Tags(
        estimator_type=kind,
        target_tags=TargetTags(required=not transforms),
        transformer_tags=TransformerTags() if transforms else None,
        regressor_tags=None,
        classifier_tags=ClassifierTags() if kind == "classifier" else None,
        input_tags=InputTags(two_d_array=False, string=True),
    )


def _type_name(kind: Any) -> str:
    names = [
        " | ".join(map(repr, typing.get_args(part)))
        if typing.get_origin(part) is Literal
        else "None"
        if part is type(None)
        else getattr(part, "__name__", str(part))
        if typing.get_origin(part) is None
        else str(part)
        for part in parts(kind)
    ]
    return " | ".join(names)


# ---- an option in the wrong place


def explain_unknown(option: str, config: type[Config]) -> str:
    """Return what follows an option that this config does not have: what it is called here, where it
    belongs, what is near, or all that there are.
    """
    names = defaults(config)
    if (ours := our_option(option, names)) is not None:
        return f"; it is called {ours} here"
    if (why := needless(option, names)) is not None:
        return f"; it is not needed: {why}"
    rows = candidates(option, OPTIONS)
    for name in (option, *map(word_of, rows)):
        if (elsewhere := belongs_elsewhere(name, config)) is not None:
            called = "" if name == option else f"it is called {name} here; "
            return f"; {called}{elsewhere}"
    instead = next(iter(candidates(option, NO_OPTION)), None)
    return suggest_known(option, names) if instead is None else f"; {instead}"


def belongs_elsewhere(option: str, config: type[Config]) -> str | None:
    """Say where an option belongs that this config does not have, and how it is given there; None
    if nowhere.
    """
    # By name, since they stand above; only for the message of an error.
    models = import_module("seqloom.registry").MODELS
    own = f"{config.__module__}:{config.__qualname__}"
    if own in (_TRAIN, _SAMPLING):
        fitting = {
            name: entry
            for name, entry in models.items()
            if _has(entry.config, option)
            and (
                "train" in _resolve(entry.config).fit_arguments
                if own == _TRAIN
                else entry.task == "language model"
            )
        }
        if not fitting:
            return None
        target = next(iter(fitting.values())).target
        owner = target.partition(":")[2] if isinstance(target, str) else target.__name__
        return f"it belongs to the model, such as {owner}({option}=...)"
    task = next((entry.task for entry in models.values() if entry.config == own), None)
    if "train" in config.fit_arguments and _has(_TRAIN, option):
        return (
            f"it belongs to training: fit(data, {option}=...), or train=TrainConfig({option}=...)"
        )
    if option in config.fit_arguments or option == "valid":
        return f"it belongs to fit: fit(data, {option}=...)"
    if task == "language model" and _has(_SAMPLING, option):
        return f"it belongs to generate: generate(prompt, {option}=...)"
    owners = [
        name for name, entry in models.items() if entry.task == task and _has(entry.config, option)
    ]
    return f"it belongs to {' and '.join(owners)}" if owners else None


def _has(target: Any, option: str) -> bool:
    return any(f.name == option for f in dataclasses.fields(_resolve(target)))


def _resolve(target: Any) -> Any:
    """Return the class that is meant, or that was registered itself."""
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
