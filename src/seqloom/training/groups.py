"""Which weights of a network learn later, more slowly or not at all: patterns of names become groups.

A model has groups of its own (pretrained vectors that are frozen at first, the layers of a published
encoder); the options `freeze`, `delay` and `lr_scale` of training overrule them weight by weight. Of several
patterns that match a weight the first counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from torch import nn

from seqloom.errors import ConfigError, quoted, suggest
from seqloom.training.config import TrainConfig
from seqloom.training.schedules import DelayedGroup

FROZEN = 1.0  # `frozen_for` of what never learns: a share of all steps
SHOWN = 4  # names that an error lists


def delayed_groups(
    network: nn.Module, groups: Sequence[DelayedGroup], config: TrainConfig
) -> list[DelayedGroup]:
    """Return groups with full names of weights, none of them in two, from groups and options with
    patterns."""
    named = dict(network.named_parameters())
    learning = [name for name, weight in named.items() if weight.requires_grad]
    own = [list(matching(group.patterns, named, "a group of weights")) for group in groups]
    made = [
        DelayedGroup(tuple(names), group.frozen_for, group.lr_scale, group.fraction)
        for names, group in zip(_apart(own), groups)
    ]
    if config.freeze or config.delay or config.lr_scale:
        made = _overruled(learning, named, made, config)
    waiting = {
        name for group in made if group.frozen_for or not group.lr_scale for name in group.patterns
    }
    if waiting.issuperset(learning):
        raise ConfigError(
            "all weights are frozen at first, so that there is nothing to learn; leave some "
            "out of freeze, delay and lr_scale"
        )
    return made


def matching(patterns: Iterable[str], names: Iterable[str], what: str) -> dict[str, str]:
    """Return the names that match a pattern, each with the first; a pattern that matches none is refused."""
    known = list(names)
    found: dict[str, str] = {}
    for pattern in patterns:
        chosen = [name for name in known if fnmatchcase(name, pattern)]
        if not chosen:
            others = ", ".join(known[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
            hint = suggest(pattern, known) or f"; there are {others}"
            raise ConfigError(f"{what}: no weight has a name like {quoted(pattern)}{hint}")
        for name in chosen:
            found.setdefault(name, pattern)
    return found


def _apart(groups: list[list[str]]) -> list[list[str]]:
    """Leave each name only in the first of the groups that have it."""
    seen: set[str] = set()
    out = []
    for names in groups:
        out.append([name for name in names if name not in seen])
        seen.update(names)
    return out


def _overruled(
    learning: Iterable[str],
    names: Iterable[str],
    groups: Sequence[DelayedGroup],
    config: TrainConfig,
) -> list[DelayedGroup]:
    """Regroup the weights after the options of training have changed what groups say of them."""
    settings = dict.fromkeys(learning, (0.0, 1.0, 1.0))  # frozen for, scale of the rate, fraction
    for group in groups:
        own = group.frozen_for, group.lr_scale, group.fraction
        settings |= {name: own for name in group.patterns if name in settings}
    scales, delays = config.by_pattern("lr_scale"), config.by_pattern("delay")
    for name, pattern in matching(scales, names, "lr_scale").items():
        if name in settings:
            frozen_for, _, fraction = settings[name]
            settings[name] = frozen_for, scales[pattern], fraction
    for name, pattern in matching(delays, names, "delay").items():
        if name in settings:
            settings[name] = delays[pattern], settings[name][1], 1.0
    for name in matching(config.freeze, names, "freeze"):
        if name in settings:
            settings[name] = FROZEN, 1.0, 1.0
    alike: dict[tuple[float, float, float], list[str]] = {}
    for name, values in settings.items():
        alike.setdefault(values, []).append(name)
    return [
        DelayedGroup(tuple(some), *values)
        for values, some in alike.items()
        if values != (0.0, 1.0, 1.0)
    ]
