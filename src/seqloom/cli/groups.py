"""Commands that are loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

from seqloom.errors import suggest
from seqloom.tasks.task import Command


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for."""

    heading = "Commands"

    def entries(self) -> Mapping[str, Command]:
        """Its commands by name."""
        raise NotImplementedError

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (entry := self.entries().get(cmd_name)) is None:
            return None
        module, _, attribute = entry.target.partition(":")
        return getattr(import_module(module), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (known := self.entries()) and not args[0].startswith("-"):
            raise click.UsageError(
                f"unknown {self.heading.lower()[:-1]} {args[0]!r}{suggest(args[0], known)}", ctx
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(self.heading):
            formatter.write_dl([(name, command.help) for name, command in self.entries().items()])
