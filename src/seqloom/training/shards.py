"""An update cut into shards of rows, so that several processes make it together: the saved model has the
same bytes for any number of them.

A shard is computed by itself, whoever does it: its batches have every S-th row, its random numbers follow
from seed, step and its number, its carried state is its own. The gradients of all shards are then added
in the order of one binary tree. Each process adds a slice of them, and sends its sum to the others, so that
each sends and receives about as many bytes as there are weights. The matrices that Muon makes orthogonal,
which takes longer than all else after the gradient, are shared in the same way.

One shard is an update as it always was: nothing is copied, sent or seeded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from seqloom._version import __version__
from seqloom.arrays import digest
from seqloom.errors import ConfigError
from seqloom.training import ranks
from seqloom.training.batches import Part
from seqloom.training.optimizers import orthogonal

_ALIGNED = 16  # floats: each gradient begins at a cache line
_SHARDS = 104_729  # in the seed, so that shards do not repeat the random numbers of anything else


class Cut(NamedTuple):
    """How the updates of a run are cut; both numbers are kept with it, since the bits depend on them."""

    shards: int
    threads: int | None  # of a process; None: as many as it has anyway, where there is one shard

    def saved(self) -> dict[str, int]:
        """Return what is kept in the run: nothing of one shard, as before there were several."""
        return {} if self.threads is None else {"shards": self.shards, "threads": self.threads}


def check_same_work(cut: Cut, facts: Mapping[str, Any]) -> None:
    """Refuse processes that would not compute the same."""
    plain = json.dumps(facts, sort_keys=True, default=str).encode()
    same_command, same_version = "give all the same command", "install one version everywhere"
    ranks.check_alike(
        {
            "the version of seqloom": (__version__, same_version),
            "the version of torch": (torch.__version__, same_version),
            "the number of shards": (cut.shards, same_command),
            "the number of threads": (
                torch.get_num_threads(),
                "the bits depend on it, so set OMP_NUM_THREADS alike for all",
            ),
            "the model, its options or its data": (
                hashlib.sha256(plain).hexdigest()[:16],
                f"{same_command} and the same files",
            ),
        }
    )


def check_same_weights(network: nn.Module) -> None:
    """Refuse processes that do not begin with the same weights."""
    if ranks.count() > 1:
        weights = {name: weight.cpu().numpy() for name, weight in network.state_dict().items()}
        advice = "use machines of one kind, with the same versions and the same files"
        ranks.check_alike({"what the network begins with": (digest(weights), advice)})


def decide_cut(shards: int | None, fixed: Mapping[str, Any], where: str) -> Cut:
    """Return the cut of a run: as an earlier start has `fixed` it, as the options say, or a shard for each
    process.
    """
    kept = fixed.get("shards", 1) if "steps" in fixed else None
    if kept is not None:
        begun = f"{where} was begun with {kept} shard{'s' * (kept > 1)}"
        if shards not in (None, kept):
            raise ConfigError(
                f"{begun}, not {shards}; leave shards out to resume, or start over", ["shards"]
            )
        if kept % ranks.count():
            raise ConfigError(
                f"{begun}, which {ranks.count()} processes cannot share evenly; resume with a number of "
                f"processes that divides {kept}, or start over"
            )
    count = kept or shards or ranks.count()
    ranks.check_shards(count, ranks.count())
    return Cut(count, None if count == 1 else fixed.get("threads") or ranks.threads_of(count))


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let torch compute with so many threads."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if threads is not None:
            torch.set_num_threads(before)


class Shards:
    """The shards of each update, and which of them this process computes."""

    def __init__(self, count: int = 1, seed: int = 0) -> None:
        self.processes, self.rank = (1, 0) if count == 1 else (ranks.count(), ranks.number())
        ranks.check_shards(count, self.processes)
        self.count, self.seed = count, seed
        self.own = _own(count, self.processes, self.rank)
        self._sum: GradientSum | None = None

    @property
    def parts(self) -> list[Part]:
        """Return the parts of each batch that this process computes."""
        return [(number, self.count) for number in self.own]

    def draw(self, step: int, number: int | None = None) -> None:
        """Begin the random numbers of a shard, or of what follows all shards."""
        if self.count > 1:
            key = [_SHARDS, self.seed, step, self.count if number is None else number]
            seed = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
            torch.manual_seed(int(seed >> np.uint64(1)))

    def total(self, values: Sequence[float]) -> float:
        """Return the sum over all shards of a number, from those of its own."""
        if self.processes == 1:
            return sum(values)
        return sum(value for values in ranks.share(values) for value in values)

    def keep(self, number: int, parameters: Sequence[nn.Parameter]) -> None:
        """Take the gradient of a shard away from the parameters, which may be those of another update."""
        if self.count == 1:
            return
        if self._sum is None or not self._sum.fits(parameters):
            self._sum = GradientSum(parameters, self.count, self.processes, self.rank)
        self._sum.add(number)

    def give(self, losses: Sequence[float]) -> float:
        """Give the parameters the sum of all shards' gradients; return that of their losses."""
        if self._sum is None:
            return sum(losses)
        told = ranks.share([*losses, *map(float, self._sum.present)])
        own = len(self.own)
        self._sum.give([any(there) for there in zip(*(values[own:] for values in told))])
        return sum(loss for values in told for loss in values[:own])

    def orthogonal(self, matrices: Sequence[Tensor]) -> list[Tensor]:
        """Return `optimizers.orthogonal` of the matrices, dealt out to the shards: which of them are
        computed together, on which the bits may depend, is the same for any number of processes.
        """
        if self.count == 1 or not matrices:
            return orthogonal(matrices)
        dealt = _dealt([m.numel() * min(m.shape) for m in matrices], self.count)
        out: dict[int, Tensor] = {}
        for number in self.own:
            made = orthogonal([matrices[i] for i in dealt[number]])
            out |= {i: m.contiguous() for i, m in zip(dealt[number], made)}
        if self.processes > 1:
            owners = {
                i: n * self.processes // self.count for n, part in enumerate(dealt) for i in part
            }
            received = {
                i: torch.empty(m.shape, dtype=m.dtype, device=m.device)
                for i, m in enumerate(matrices)
                if owners[i] != self.rank
            }
            ranks.exchange(
                [(peer, out[i]) for peer in self._others() for i in sorted(out)],
                [(owners[i], m) for i, m in received.items()],
            )
            out |= received
        return [out[i] for i in range(len(matrices))]

    def _others(self) -> list[int]:
        return [rank for rank in range(self.processes) if rank != self.rank]


def _own(count: int, processes: int, rank: int) -> range:
    return range(rank * count // processes, (rank + 1) * count // processes)


def _dealt(costs: Sequence[float], count: int) -> list[list[int]]:
    """Deal things out by falling cost, each to whoever has least.

    >>> _dealt([5, 1, 4, 3], 2)
    [[0, 1], [2, 3]]
    """
    dealt: list[list[int]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for i in sorted(range(len(costs)), key=lambda i: -costs[i]):
        least = loads.index(min(loads))
        dealt[least].append(i)
        loads[least] += costs[i]
    return dealt


# ---- the sum of gradients


class Tree:
    """Adds tensors of shards in the order of a binary tree: neighbours first, then pairs, ...; of a number
    of shards that is no power of two, the rest from right to left.

    Sums of whole branches may come instead of their leaves, so that it does not matter who added these.
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, Tensor]] = []  # first shard, number of shards, sum
        self.free: list[Tensor] = []  # tensors that are no longer needed

    def add(self, first: int, size: int, tensor: Tensor) -> None:
        self.nodes.append((first, size, tensor))
        while len(self.nodes) > 1 and joins(self.nodes[-2][:2], self.nodes[-1][:2]):
            self._join()

    def total(self) -> Tensor:
        while len(self.nodes) > 1:
            self._join()
        return self.nodes.pop()[2]

    def _join(self) -> None:
        _, size, right = self.nodes.pop()
        first, left_size, left = self.nodes.pop()
        left.add_(right)
        self.free.append(right)
        self.nodes.append((first, left_size + size, left))


def joins(left: tuple[int, int], right: tuple[int, int]) -> bool:
    """Return whether two neighbouring branches, first shard and size, are the halves of a larger one."""
    return left[1] == right[1] and left[0] % (2 * left[1]) == 0 and sum(left) == right[0]


def branches(shards: range) -> list[tuple[int, int]]:
    """Return the largest branches of the tree in a range of shards, first shard and size.

    >>> branches(range(0, 3)), branches(range(3, 6))
    ([(0, 2), (2, 1)], [(3, 1), (4, 2)])
    """
    found: list[tuple[int, int]] = []
    for number in shards:
        found.append((number, 1))
        while len(found) > 1 and joins(found[-2], found[-1]):
            found[-2:] = [(found[-2][0], 2 * found[-2][1])]
    return found


class GradientSum:
    """Gradients of some parameters side by side in one tensor a shard, which is added up by slices."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], shards: int, processes: int, rank: int
    ) -> None:
        self.parameters = list(parameters)
        self.shards, self.processes, self.rank = shards, processes, rank
        self.begins, end = [], 0
        for p in self.parameters:
            self.begins.append(end)
            end += -(-p.numel() // _ALIGNED) * _ALIGNED
        self.slice = -(-end // (processes * _ALIGNED)) * _ALIGNED  # floats that a process adds up
        self.tree = Tree()
        self.present = [False] * len(self.parameters)

    def fits(self, parameters: Sequence[nn.Parameter]) -> bool:
        return len(parameters) == len(self.parameters) and all(
            p is q for p, q in zip(parameters, self.parameters)
        )

    def add(self, number: int) -> None:
        """Add the gradient of a shard, and remove it from the parameters."""
        side_by_side = self._empty()
        copies, grads = [], []
        for k, (p, view) in enumerate(zip(self.parameters, self._views(side_by_side))):
            if p.grad is None:
                view.zero_()
                continue
            self.present[k] = True
            copies.append(view)
            grads.append(p.grad)
            p.grad = None
        if copies:
            torch._foreach_copy_(copies, grads)
        self.tree.add(number, 1, side_by_side)

    def give(self, present: Sequence[bool]) -> None:
        """Give each parameter the sum over all shards as its gradient, where any shard has one."""
        total = self._total()
        for p, view, there in zip(self.parameters, self._views(total), present):
            p.grad = view.to(p.dtype) if there else None
        self.tree.free.append(total)  # for the next update, when this one is done with it
        self.present = [False] * len(self.parameters)

    def _empty(self) -> Tensor:
        if self.tree.free:
            return self.tree.free.pop()
        p = self.parameters[0]
        # zeros: what stands between two gradients is added too
        return torch.zeros(self.slice * self.processes, dtype=p.dtype, device=p.device)

    def _views(self, side_by_side: Tensor) -> list[Tensor]:
        return [
            side_by_side[begin : begin + p.numel()].view(p.shape)
            for begin, p in zip(self.begins, self.parameters)
        ]

    def _total(self) -> Tensor:
        if self.processes == 1:
            return self.tree.total()
        own, self.tree.nodes = [tensor for _, _, tensor in self.tree.nodes], []
        others = [rank for rank in range(self.processes) if rank != self.rank]
        theirs = {
            rank: [
                own[0].new_empty(self.slice)
                for _ in branches(_own(self.shards, self.processes, rank))
            ]
            for rank in others
        }
        ranks.exchange(
            [(rank, self._slice(one, rank)) for rank in others for one in own],
            [(rank, one) for rank in others for one in theirs[rank]],
        )
        tree = Tree()
        for rank in range(self.processes):
            summands = theirs.get(rank) or [self._slice(one, rank) for one in own]
            for branch, one in zip(branches(_own(self.shards, self.processes, rank)), summands):
                tree.add(*branch, one)
        whole = own[0]
        self._slice(whole, self.rank).copy_(tree.total())
        ranks.exchange(
            [(rank, self._slice(whole, self.rank)) for rank in others],
            [(rank, self._slice(whole, rank)) for rank in others],
        )
        self.tree.free += own[1:]
        return whole

    def _slice(self, side_by_side: Tensor, rank: int) -> Tensor:
        return side_by_side[rank * self.slice : (rank + 1) * self.slice]
