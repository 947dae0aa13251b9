"""One update of the weights, the same in training and where steps are timed: carried states (nested
tuples of tensors), clipping of gradients, groups of weights that learn later, more slowly or not at
all, and the step itself (`Updater`).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from seqloom.errors import ConfigError, TrainingError, quoted, suggest
from seqloom.nn.recomputing import recompute
from seqloom.training import ranks
from seqloom.training.batches import Batch, Cursor, Part
from seqloom.training.config import TrainConfig
from seqloom.training.devices import autocast, on_device, scaler_for
from seqloom.training.optimizers import make_optimizer
from seqloom.training.shards import Shards
from seqloom.training.trainable import DelayedGroup, Trainable


def detached(state: Any) -> Any:
    """Detach the state from the graph, so that gradients stop at the edge of the window."""
    if isinstance(state, tuple):
        return tuple(detached(part) for part in state)
    return None if state is None else state.detach()


def leading(state: Any, rows: int) -> Any:
    """Return the state of the first rows: those that continue."""
    if isinstance(state, tuple):
        return tuple(leading(part, rows) for part in state)
    return None if state is None else state[:rows]


def leaves(state: Any) -> list[torch.Tensor]:
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in leaves(part)]
    return [] if state is None else [state]


def shape_of(state: Any) -> Any:
    """Return the nesting of the state as plain JSON: lists, 0 for a tensor, None."""
    if isinstance(state, tuple):
        return [shape_of(part) for part in state]
    return None if state is None else 0


def rebuilt(shape: Any, tensors: Iterator[torch.Tensor]) -> Any:
    if isinstance(shape, list):
        return tuple(rebuilt(part, tensors) for part in shape)
    return None if shape is None else next(tensors)


# ---- clipping

_WARM_UP, _MEMORY = 20, 0.99
_CAP = 2.0  # limits at which a norm is capped in the running mean


class Clipper:
    """Clips gradients, and records how often and in which parameter.

    By global norm (Pascanu et al. 2013) the direction is kept; by value it is not. Adaptive clipping
    allows a multiple of a running mean of the norm, without a limit during the first steps. Norms are
    capped in that mean at twice the limit: an explosion of any size then raises it by a few hundredths
    at most, a lasting rise is still followed, and ordinary norms are unchanged. (Were they capped at
    the limit itself, the mean would sink, and the limit with it.)
    """

    def __init__(self, config: TrainConfig) -> None:
        self.kind, self.at = config.clip, config.limit
        self.steps = self.clipped = 0
        self.mean_norm = 0.0  # running mean of the norm
        self.largest: Counter[str] = Counter()  # parameters with the largest gradient when clipped
        self.last: tuple[list[str], Sequence[torch.Tensor]] = ([], ())  # names and norms

    def __call__(self, named: Iterable[tuple[str, torch.nn.Parameter]]) -> float:
        """Clip gradients in place, unless their norm is not finite; return the norm before."""
        grads = {name: p.grad for name, p in named if p.grad is not None}
        norms = torch._foreach_norm(list(grads.values()))
        norm = float(torch.linalg.vector_norm(torch.stack(norms)))
        self.last = list(grads), norms
        self.steps += 1
        if self.kind == "none" or norm != norm or norm == float("inf"):
            return norm
        if self.kind == "value":
            self._count(
                norm, max(float(g.abs().max()) for g in grads.values()) > self.at, grads, norms
            )
            torch._foreach_clamp_min_(list(grads.values()), -self.at)
            torch._foreach_clamp_max_(list(grads.values()), self.at)
            return norm
        limit = self.at if self.kind == "norm" else self._adaptive_limit()
        self._count(norm, norm > limit, grads, norms)
        if norm > limit:
            torch._foreach_mul_(list(grads.values()), limit / norm)
        share = max(1 - _MEMORY, 1 / self.steps)
        self.mean_norm += share * (min(norm, _CAP * limit) - self.mean_norm)
        return norm

    def _adaptive_limit(self) -> float:
        return float("inf") if self.steps <= _WARM_UP else self.at * self.mean_norm

    def _count(
        self, norm: float, cut: bool, grads: dict[str, torch.Tensor], norms: Iterable[torch.Tensor]
    ) -> None:
        if cut:
            self.clipped += 1
            self.largest[max(zip(norms, grads), key=lambda pair: float(pair[0]))[1]] += 1

    def by_layer(self) -> dict[str, float]:
        """Return the gradient norm of each layer in the last update, before clipping."""
        squares: dict[str, float] = {}
        for name, norm in zip(*self.last):
            layer = layer_of(name)
            squares[layer] = squares.get(layer, 0.0) + float(norm) ** 2
        return {layer: math.sqrt(square) for layer, square in squares.items()}

    def report(self) -> dict[str, Any]:
        """Report how often gradients were clipped, and in which parameter they were then largest."""
        share = self.clipped / max(self.steps, 1)
        return {
            "clipped": round(share, 4),
            "largest_in": [name for name, _ in self.largest.most_common(3)],
        }

    def state(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "clipped": self.clipped,
            "usual": self.mean_norm,
            "largest": dict(self.largest),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.steps, self.clipped, self.mean_norm = state["steps"], state["clipped"], state["usual"]
        self.largest = Counter(state["largest"])


def layer_of(name: str) -> str:
    """Return the layer of a weight: its name up to the first number, or its first part.

    >>> layer_of("recurrent.layers.1.w_h"), layer_of("embedding.weight")
    ('recurrent.layers.1', 'embedding')
    """
    parts = name.split(".")
    end = next((i + 1 for i, part in enumerate(parts) if part.isdecimal()), 1)
    return ".".join(parts[:end])


# ---- groups

FROZEN = math.inf  # `frozen_for` of weights that never learn, however many steps there are
MAX_NAMES_SHOWN = 4  # in an error


def delayed_groups(
    network: nn.Module, groups: Sequence[DelayedGroup], config: TrainConfig
) -> list[DelayedGroup]:
    """Return groups with full names of weights, each in one group at most, from groups and options with
    patterns.

    A model has groups (pretrained vectors that are frozen at first, the layers of a published encoder); the
    training options `freeze`, `delay` and `lr_scale` override them weight by weight. Of several patterns that
    match a weight the first counts.
    """
    named = dict(network.named_parameters())
    learning = [name for name, weight in named.items() if weight.requires_grad]
    matched = [list(matching(group.patterns, named, "a group of weights")) for group in groups]
    resolved = [
        DelayedGroup(tuple(names), group.frozen_for, group.lr_scale, group.fraction)
        for names, group in zip(_without_repeats(matched), groups)
    ]
    if config.freeze or config.delay or config.lr_scale:
        resolved = _with_options(learning, named, resolved, config)
    waiting = {
        name
        for group in resolved
        if group.frozen_for or not group.lr_scale
        for name in group.patterns
    }
    if waiting.issuperset(learning):
        raise ConfigError(
            "all weights are frozen at first, so that there is nothing to learn; leave some "
            "out of freeze, delay and lr_scale"
        )
    return resolved


def matching(patterns: Iterable[str], names: Iterable[str], what: str) -> dict[str, str]:
    """Return the names that match a pattern, each with its first one; refuse a pattern without a match."""
    all_names = list(names)
    first_pattern: dict[str, str] = {}
    for pattern in patterns:
        chosen = [name for name in all_names if fnmatchcase(name, pattern)]
        if not chosen:
            examples = ", ".join(all_names[:MAX_NAMES_SHOWN]) + (
                ", ..." if len(all_names) > MAX_NAMES_SHOWN else ""
            )
            hint = suggest(pattern, all_names) or f"; there are {examples}"
            raise ConfigError(f"{what}: no weight has a name like {quoted(pattern)}{hint}")
        for name in chosen:
            first_pattern.setdefault(name, pattern)
    return first_pattern


def _without_repeats(groups: list[list[str]]) -> list[list[str]]:
    """Keep each name only in the first of the groups that have it."""
    seen: set[str] = set()
    out = []
    for names in groups:
        out.append([name for name in names if name not in seen])
        seen.update(names)
    return out


def _with_options(
    learning: Iterable[str],
    names: Iterable[str],
    groups: Sequence[DelayedGroup],
    config: TrainConfig,
) -> list[DelayedGroup]:
    """Regroup the weights after the training options have changed their settings."""
    settings = dict.fromkeys(learning, (0.0, 1.0, 1.0))  # frozen for, scale of the rate, fraction
    for group in groups:
        group_settings = group.frozen_for, group.lr_scale, group.fraction
        settings |= {name: group_settings for name in group.patterns if name in settings}
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
    by_settings: dict[tuple[float, float, float], list[str]] = {}
    for name, values in settings.items():
        by_settings.setdefault(values, []).append(name)
    return [
        DelayedGroup(tuple(members), *values)
        for values, members in by_settings.items()
        if values != (0.0, 1.0, 1.0)
    ]


# ---- update

_MAX_GROWTH = 3.0  # a loss so many times the first one, and greater by this much, has diverged


class Diverged(TrainingError):
    """The loss or the gradient has diverged."""


class Update(NamedTuple):
    loss: float  # mean over the targets
    norm: float  # of the gradient before clipping
    targets: float  # their number, each by its weight


def load_weights(network: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Load all weights and buffers of a network; refuse other names or shapes."""
    expected = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    for name in [*expected, *shapes]:
        if expected.get(name) != shapes.get(name):
            raise ConfigError(
                f"the weights to start from are of another network: {name} is "
                f"{shapes.get(name, 'not there')}, here {expected.get(name, 'not there')}"
            )
    network.load_state_dict(
        {name: torch.from_numpy(np.array(weight)) for name, weight in weights.items()}
    )


def frozen_network(task: Trainable) -> nn.Module | None:
    """Return the second network of a task, if it has one."""
    return getattr(task, "frozen_network", None)


def _freeze(frozen: nn.Module, trained: nn.Module, device: torch.device) -> None:
    """Prepare the second network of a task, which is not trained, on the device of the first."""
    trained_ids = set(map(id, trained.parameters()))
    if any(id(weight) in trained_ids for weight in frozen.parameters()):
        raise ValueError(
            "the frozen network shares weights with the trained one; give it a copy of them"
        )
    frozen.to(device).eval().requires_grad_(False)


class Updater:
    """The network and all that changes with each update, except the learning rate."""

    def __init__(
        self,
        task: Trainable,
        config: TrainConfig,
        device: torch.device,
        groups: Sequence[DelayedGroup] = (),
        initial: Mapping[str, np.ndarray] | None = None,
        shards: int = 1,
    ) -> None:
        """Build the network and its optimizer. `initial`: weights by name that replace the initial ones
        of the network; `shards`: into how many an update is cut.
        """
        torch.manual_seed(config.seed)
        self.task, self.config, self.device = task, config, device
        network = task.build()
        if config.recompute:
            try:
                recompute(network)
            except ValueError as error:
                raise ConfigError(str(error)) from None
        if initial is not None:
            load_weights(network, initial)
        self.network = network.to(device)
        if (frozen := frozen_network(task)) is not None:
            _freeze(frozen, self.network, device)
        self.groups = delayed_groups(self.network, groups, config)
        self.shards = Shards(shards, config.seed)
        self.optimizer = make_optimizer(
            config,
            self.network,
            [group.patterns for group in self.groups],
            self.shards.orthogonal,
        )
        self.clipper, self.scaler = Clipper(config), scaler_for(config, device)
        self.carried: list[Any] = [None for _ in self.shards.own]  # the state of each own shard
        self.cursor: Cursor = (0, 0)
        self.first_loss = math.inf

    def update(self, step: int, steps: int, rate: float) -> Update:
        """Make update number `step` of `steps`, at this learning rate."""
        # Factors of the learning rate; the first is that of weights in no group.
        shares = [1.0, *(group.share(step, steps) for group in self.groups)]
        for delayed, share in zip(self.groups, shares[1:]):
            for name in delayed.patterns:
                self.network.get_parameter(name).requires_grad_(share > 0)
        parts = self._batches(self.config.batches_of(step, steps))
        count = self.shards.total([sum(batch.count for batch in part) for part in parts])
        if not count:
            raise TrainingError(
                "a batch has no targets to train on: their mask or weights are all zero"
            )
        learning = [p for p in self.network.parameters() if p.requires_grad]
        losses = []
        for index, (number, part) in enumerate(zip(self.shards.own, parts)):
            self.shards.draw(step, number)
            losses.append(self._backward(index, part, count))
            self.shards.keep(number, learning)
        total = self.shards.give(losses)
        self.shards.draw(step)
        self.cursor = parts[0][-1].following
        self._check(total / count)
        self.scaler.unscale_(self.optimizer)
        if self.config.gradient_noise:
            # Neelakantan et al. 2015
            self._add_noise(math.sqrt(self.config.gradient_noise / (1 + step) ** 0.55))
        norm = self.clipper(self.network.named_parameters())
        if not math.isfinite(norm) and not self.scaler.is_enabled():
            raise Diverged(f"the gradient is {norm}")
        for group in self.optimizer.param_groups:
            group["lr"] = rate * shares[group["delayed"]]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return Update(total / count, norm, count)

    def _batches(self, number: int) -> list[list[Batch]]:
        """Return so many batches of one update, of each own shard its parts of them."""
        whole = self.shards.count == 1  # batches of other packages may know no parts
        return [list(self._parts(number, () if whole else (part,))) for part in self.shards.parts]

    def _parts(self, number: int, part: tuple[Part, ...]) -> Iterator[Batch]:
        cursor = self.cursor
        for _ in range(number):
            batch = self.task.batches.batch(cursor, *part)
            yield batch
            cursor = batch.following

    def _backward(self, index: int, batches: Sequence[Batch], count: float) -> float:
        """Add the gradient of a shard; return its loss."""
        total = 0.0
        for batch in batches:
            if not batch.rows:
                continue
            before = None if batch.fresh else leading(self.carried[index], batch.rows)
            with autocast(self.config, self.device):
                loss, state = self.task.loss(self.network, on_device(batch, self.device), before)
            total += float(loss.detach())
            # every target of the update has the same weight, however they are divided into batches
            self.scaler.scale(loss / count).backward()
            self.carried[index] = detached(state)
        return total

    def all_carried(self) -> Any:
        """Return the carried state, of several shards that of each, in the first process."""
        if self.shards.count == 1:
            return self.carried[0]
        arrays = {}
        for number, state in zip(self.shards.own, self.carried):
            shape = json.dumps(shape_of(state)).encode()
            arrays[f"{number}"] = np.frombuffer(shape, np.uint8)
            for i, leaf in enumerate(leaves(state)):
                arrays[f"{number}.{i}"] = leaf.cpu().numpy()
        every: list[Any] = []
        for theirs in ranks.arrays_to_first(arrays):
            tensors = (torch.from_numpy(a) for name, a in theirs.items() if "." in name)
            shapes = [json.loads(a.tobytes()) for name, a in theirs.items() if "." not in name]
            every += [rebuilt(shape, tensors) for shape in shapes]
        return tuple(every)

    def restore_carried(self, state: Any) -> None:
        """Continue with what `all_carried` gave, in any number of processes."""
        self.carried = (
            [state] if self.shards.count == 1 else [state[number] for number in self.shards.own]
        )

    def _add_noise(self, deviation: float) -> None:
        for p in self.network.parameters():
            if p.grad is not None:
                p.grad.add_(torch.randn_like(p.grad), alpha=deviation)

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise Diverged(f"the loss is {loss}")
        if math.isinf(self.first_loss):
            self.first_loss = loss
        elif self.task.unit == "nats" and loss > max(
            _MAX_GROWTH * self.first_loss, self.first_loss + _MAX_GROWTH
        ):
            raise Diverged(
                f"the loss has grown from {self.first_loss:.2f} to {loss:.2f} {self.task.unit}"
            )
