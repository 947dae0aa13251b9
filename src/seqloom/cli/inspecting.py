"""`seqloom inspect VIEW MODEL`: what is inside a model and what it does, view by view.

A view is a command of a task whose name has two words, such as `inspect trace`; adding one there is
all it takes.
"""

from __future__ import annotations

import click

from seqloom import tasks
from seqloom.cli.options import LazyGroup
from seqloom.tasks.task import Command

PREFIX = "inspect "


class Views(LazyGroup):
    heading = "Views"

    def entries(self) -> dict[str, Command]:
        return {
            name.removeprefix(PREFIX): command
            for task in tasks.every()
            for name, command in task.commands.items()
            if name.startswith(PREFIX)
        }


@click.group(
    cls=Views,
    name="inspect",
    subcommand_metavar="VIEW [ARGS]...",
    epilog="""\b
Examples:
  seqloom inspect trace model "two dogs run"
  seqloom inspect exposure-bias model test.tsv
""",
)
def command() -> None:
    """Look into a model: what it does step by step, and why."""
