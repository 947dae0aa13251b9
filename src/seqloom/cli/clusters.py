"""`--cluster` and `--work`, for commands whose work is done by several processes or machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.scale.cluster import Cluster

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(function: F) -> F:
    """Add --cluster and --work."""
    for option in (
        click.option(
            "--work",
            metavar="DIR",
            help="With --cluster: directory of partial results, which all workers see  "
            "[default: beside the output]",
        ),
        click.option(
            "--cluster",
            metavar="N|ADDRESS",
            help="Let others work: so many local processes, or those of a Dask scheduler "
            "(tls://head:8786, or its scheduler file). The same command goes on after an interruption.",
        ),
    ):
        function = option(function)
    return function


@dataclass(frozen=True)
class Work:
    """A cluster and the directory of its partial results."""

    cluster: Cluster
    folder: Path

    def answers(
        self,
        function: str,
        paths: Sequence[str],
        common: dict[str, Any],
        label: str,
        **how: Any,
    ) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Let workers answer the rows of files by a function of a command; `how` is for `parts.plan`."""
        from seqloom.scale import parts

        planned = parts.plan(self.cluster, self.folder, paths, **how)
        return parts.answer(self.cluster, self.folder, function, planned, common, label)


@contextmanager
def workers(cluster: str, work: str | None, output: str | None) -> Iterator[Work]:
    """Yield workers and the directory of a job; without an output and --work it is a temporary one."""
    from seqloom.scale.cluster import Cluster
    from seqloom.scale.work import working

    given = Cluster(cluster)  # refused before anything is written
    with working(output, work) as folder:
        try:
            with given as opened:
                yield Work(opened, folder)
        except KeyboardInterrupt as error:
            kept = f"; what is finished is kept in {folder}: run the same command to go on"
            raise type(error)(f"interrupted{kept if output or work else ''}") from None


def refuse_work(cluster: str | None, work: str | None, parts: int | None = None) -> None:
    """Refuse --work and --parts where there is no cluster."""
    if cluster is None and (work is not None or parts is not None):
        flag = "--work" if work is not None else "--parts"
        raise ConfigError(f"{flag} is for --cluster; leave it out, or name a cluster")


def model_facts(path: str) -> dict[str, str]:
    """Return what a worker needs to open the model of a command: its path and a hash of its contents."""
    import os

    from seqloom.places import is_remote
    from seqloom.scale.work import contents

    return {
        "model": path if is_remote(path) else os.path.abspath(path),
        "digest": contents(path)[0],
    }
