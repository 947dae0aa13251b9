"""Several processes that train one network: a group of torch.distributed, in which each has a number, its
rank. The first decides and writes files; the others get its decisions (`from_first`).

Who starts the processes says in their environment how they find each other: torchrun as it always does
(MASTER_ADDR, ...), the launcher of `--processes` by a file, so that nothing listens on a port. The library
itself forms no group; the command does (`joined`), and whoever calls it from a program of several processes.

Without a group, or in a group of one, everything here answers at once, and torch is not imported.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.errors import ConfigError, SeqloomError, TrainingError
from seqloom.kernels.parallel import core_count

if TYPE_CHECKING:
    from torch import Tensor

Arrays = dict[str, np.ndarray]

MEETING = "SEQLOOM_MEETING"  # variable with the file by which the processes of the launcher meet
SAVED = ".saved"  # ending of the file beside it that says that the model is saved
ATTEMPT = "TORCHELASTIC_RESTART_COUNT"  # variable of torchrun, and of the launcher: how many starts failed
_MEETING_SECONDS = 300  # to wait until all processes have come
# One that has died is noticed at once; this is for a machine that is cut off, while another evaluates.
_SILENT_SECONDS = 3600
_ASKED_SECONDS = 60  # to end with a checkpoint
_HEAD = 1024  # bytes that are sent without asking how many there are


class RankLost(TrainingError):
    """Another process of the group has ended, or cannot be reached. A launcher starts all of them again."""

    exit_code = 75  # of sysexits.h: a failure that is temporary


def _group() -> Any:
    """Return torch.distributed if there is a group of several processes, else None."""
    torch = sys.modules.get("torch")
    module = getattr(torch, "distributed", None)
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return module if module.get_world_size() > 1 else None


def count() -> int:
    """Return the number of processes of the group."""
    group = _group()
    return 1 if group is None else int(group.get_world_size())


def number() -> int:
    """Return the rank of this process, 0 for the first."""
    group = _group()
    return 0 if group is None else int(group.get_rank())


def is_first() -> bool:
    """Return whether this is the first process of its group; also true without a group."""
    return number() == 0


def expected() -> int:
    """Return the number of processes that the environment tells, started by torchrun or by the launcher."""
    size = os.environ.get("WORLD_SIZE", "")
    return int(size) if size.isdigit() and "RANK" in os.environ else 1


def on_this_machine() -> int:
    """Return how many processes of the group are on this machine."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(local) if local.isdigit() and int(local) else count()


def threads_of(shards: int) -> int:
    """Return the threads with which a process computes where an update has so many shards: what
    $OMP_NUM_THREADS says, or this machine's cores for each of its shards. This does not depend on how many
    processes share the shards, and the bits depend on it.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given):
        return int(given)
    return max(core_count() * count() // (shards * on_this_machine()), 1)


def check_shards(count: int, processes: int) -> None:
    """Refuse shards that the processes cannot share evenly."""
    if count % processes:
        raise ConfigError(
            f"{count} shards of an update cannot be shared evenly by {processes} processes; give as many "
            f"shards or a multiple, such as {processes * math.ceil(count / processes)}, or a number of "
            "processes that divides them"
        )


# ---- forming a group


@contextmanager
def joined(device: str | None = None) -> Iterator[None]:
    """Be one process of the group that the environment tells; a group of one is none."""
    size = expected()
    if size == 1 or _group() is not None:
        yield
        return
    import seqloom.nn  # noqa: F401  (before torch)

    import torch  # isort: skip
    import torch.distributed as dist  # isort: skip

    met = threading.Event()
    if MEETING in os.environ:
        threading.Thread(target=_end_with_launcher, args=(met,), daemon=True).start()
    rank = int(os.environ["RANK"])
    gpus = _gpus(device)
    os.environ.setdefault("SEQLOOM_THREADS", str(max(core_count() // on_this_machine(), 1)))
    if gpus:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)) % gpus)
    wait = timedelta(seconds=_MEETING_SECONDS)
    try:
        store = dist.PrefixStore(f"seqloom-{os.environ.get(ATTEMPT, '0')}", _store(size, wait))
        if store.add(f"rank {rank}", 1) > 1:
            raise ConfigError(
                f"rank {rank} has been started twice; start ranks 0 to {size - 1} once each"
            )
        store.wait([f"rank {each}" for each in range(size)], wait)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if gpus else "gloo",
            store=store,
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=_SILENT_SECONDS),
        )
    except (RuntimeError, ValueError) as error:
        if isinstance(error, SeqloomError):
            raise
        raise RankLost(
            f"the {size} processes of this run do not find each other ({_first_line(error)}); start all of "
            f"them, ranks 0 to {size - 1} once each, on a port that nobody else uses (MASTER_PORT)"
        ) from error
    met.set()
    yield
    dist.destroy_process_group()  # not after an error, where it may wait for whoever is gone


def _end_with_launcher(met: threading.Event) -> None:
    """End this process when its launcher, which holds the other end of stdin, is gone: asked to, once it has
    something to keep. Who waits inside torch for others to come hears no signal.
    """
    try:
        while os.read(0, 1):
            pass
    except OSError:  # no standard input: nobody holds its other end
        return
    if met.is_set():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_ASKED_SECONDS)
    os._exit(128 + signal.SIGTERM)


def started_again() -> bool:
    """Return whether the processes were started again after one had died."""
    return os.environ.get(ATTEMPT, "0") != "0"


def note_saved() -> None:
    """Tell the launcher that the model is saved, so that nothing that happens now is worth another start."""
    if MEETING in os.environ and is_first():
        with open(os.environ[MEETING] + SAVED, "wb"):
            pass


def _gpus(device: str | None) -> int:
    """Return how many GPUs of NVIDIA this process sees and may use."""
    import torch

    if device not in (None, "cpu", "cuda"):
        raise ConfigError(
            f"device {device!r} cannot be shared by several processes; give cuda, for a GPU each, or cpu"
        )
    if device == "cpu" or not torch.cuda.is_available():
        return 0
    local = on_this_machine() if _group() else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if local > torch.cuda.device_count():
        raise ConfigError(
            f"{local} processes on a machine with {torch.cuda.device_count()} GPUs: give at most one process "
            "for each GPU, or device cpu"
        )
    return int(torch.cuda.device_count())


def _store(size: int, wait: timedelta) -> Any:
    import torch.distributed as dist

    if MEETING in os.environ:
        if sys.platform == "linux":  # or gloo listens on the address of this machine's name
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        return dist.FileStore(os.environ[MEETING], size)
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ConfigError(
            f"RANK and WORLD_SIZE are set, but not {' and '.join(missing)}; start the processes with "
            "torchrun -m seqloom fit ..., or one alone without these variables"
        )
    return next(iter(dist.rendezvous("env://", timeout=wait)))[0]


def _first_line(error: BaseException) -> str:
    """Return what an error says first, without the place in its source."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[^]]*\] *|\. This is .*", "", line)[:160]


@contextmanager
def _reaching() -> Iterator[None]:
    """Turn the errors of torch.distributed into one line."""
    try:
        yield
    except RuntimeError as error:
        raise RankLost(
            f"another process of this run has ended or cannot be reached ({_first_line(error)})"
        ) from error


# ---- what all of them know


def _place(group: Any) -> str:
    return "cuda" if group.get_backend() == "nccl" else "cpu"


def share(values: Sequence[float]) -> list[list[float]]:
    """Return the values of each process, in their order; all give as many."""
    group = _group()
    if group is None:
        return [list(values)]
    import torch

    mine = torch.tensor(list(values), dtype=torch.float64, device=_place(group))
    every = [torch.empty_like(mine) for _ in range(group.get_world_size())]
    with _reaching():
        group.all_gather(every, mine)
    return [one.tolist() for one in every]


def largest(*values: float) -> list[float]:
    """Return the largest of each value among the processes."""
    return [max(column) for column in zip(*share(values))]


def from_first(decide: Callable[[], Any]) -> Any:
    """Return the decision of the first process, plain JSON; the others wait for it."""
    group = _group()
    if group is None:
        return decide()
    answer: dict[str, Any] | None = None
    if is_first():
        try:
            answer = {"value": decide()}
        except Exception as error:
            _send_all(group, json.dumps({"error": _first_line(error)}).encode())
            raise
    data = _send_all(group, None if answer is None else json.dumps(answer, default=float).encode())
    answer = json.loads(data)
    if "error" in answer:
        raise TrainingError(f"the first process has ended: {answer['error']}")
    return answer["value"]


def _send_all(group: Any, data: bytes | None) -> bytes:
    """Send bytes of the first process to all; most are few, and go in one message."""
    import torch

    head = np.zeros(8 + _HEAD, np.uint8)
    if data is not None:
        head[:8] = np.frombuffer(len(data).to_bytes(8, "little"), np.uint8)
        head[8 : 8 + min(len(data), _HEAD)] = np.frombuffer(data[:_HEAD], np.uint8)
    sent = torch.from_numpy(head).to(_place(group))
    with _reaching():
        group.broadcast(sent, src=0)
        head = sent.cpu().numpy()
        length = int.from_bytes(head[:8].tobytes(), "little")
        if length <= _HEAD:
            return head[8 : 8 + length].tobytes()
        whole = np.zeros(length, np.uint8) if data is None else np.frombuffer(data, np.uint8).copy()
        sent = torch.from_numpy(whole).to(_place(group))
        group.broadcast(sent, src=0)
        return sent.cpu().numpy().tobytes()


def arrays_from_first(
    load: Callable[[], tuple[Arrays, dict[str, Any]] | None],
) -> tuple[Arrays, dict[str, Any]] | None:
    """Return what the first process loads, named arrays and plain JSON, or None."""
    group = _group()
    if group is None:
        return load()
    loaded: list[Any] = []

    def described() -> Any:
        loaded.append(load())
        if loaded[0] is None:
            return None
        arrays, meta = loaded[0]
        return {"arrays": _described(arrays), "meta": meta}

    told = from_first(described)
    if told is None:
        return None
    arrays = loaded[0][0] if loaded else _empty(told["arrays"])
    with _reaching():
        for name in told["arrays"]:
            arrays[name] = _moved(group, arrays[name], lambda sent: group.broadcast(sent, src=0))
    return arrays, told["meta"]


def arrays_to_first(arrays: Arrays) -> list[Arrays]:
    """Return the arrays of each process, in their order; in others than the first an empty list."""
    group = _group()
    if group is None:
        return [arrays]
    if not is_first():
        text = json.dumps(_described(arrays)).encode()
        with _reaching():
            for array in (np.array([len(text)]), np.frombuffer(text, np.uint8), *arrays.values()):
                _moved(group, array, lambda sent: group.send(sent, dst=0))
        return []
    every = [arrays]
    with _reaching():
        for rank in range(1, group.get_world_size()):

            def received(array: np.ndarray, rank: int = rank) -> np.ndarray:
                return _moved(group, array, lambda sent: group.recv(sent, src=rank))

            length = int(received(np.zeros(1, np.int64))[0])
            text = received(np.zeros(length, np.uint8)).tobytes()
            theirs = _empty(json.loads(text))
            every.append({name: received(array) for name, array in theirs.items()})
    return every


def _described(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}


def _empty(described: Mapping[str, Any]) -> Arrays:
    return {name: np.zeros(shape, dtype) for name, (dtype, shape) in described.items()}


def _moved(group: Any, array: np.ndarray, move: Callable[[Tensor], Any]) -> np.ndarray:
    """Send or receive an array as bytes."""
    import torch

    if not array.size:
        return array
    flat = np.array(array, order="C").reshape(-1)
    sent = torch.from_numpy(flat.view(np.uint8)).to(_place(group))
    move(sent)
    moved: np.ndarray = sent.cpu().numpy().view(array.dtype).reshape(array.shape)
    return moved


def exchange(sent: Sequence[tuple[int, Tensor]], received: Sequence[tuple[int, Tensor]]) -> None:
    """Send tensors to other processes and receive theirs; between two of them in the order given."""
    group = _group()
    if group is None:
        return
    work: list[Any] = []
    tags: dict[Any, int] = {}
    for operation, pairs in ((group.irecv, received), (group.isend, sent)):
        for rank, tensor in pairs:
            tag = tags[operation, rank] = tags.get((operation, rank), -1) + 1
            work.append(group.P2POp(operation, tensor, rank, tag=tag))
    with _reaching():
        for one in group.batch_isend_irecv(work) if work else []:
            one.wait()


def check_alike(facts: Mapping[str, tuple[Any, str]]) -> None:
    """Refuse processes that differ in these facts: short values, and what to do where they differ."""
    if _group() is None:
        return
    mine = json.dumps([value for value, _ in facts.values()]).encode().ljust(_HEAD)
    every = [json.loads(bytes(map(int, values))) for values in share(list(map(float, mine)))]
    for k, (name, (_, advice)) in enumerate(facts.items()):
        for rank, theirs in enumerate(every):
            if theirs[k] != every[0][k]:
                raise ConfigError(
                    f"{name} differs between the processes of this run: {every[0][k]} in rank 0, "
                    f"{theirs[k]} in rank {rank}; {advice}"
                )
