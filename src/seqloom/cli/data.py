"""`seqloom data list|get|path|describe`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from seqloom.cli.options import common, emit
from seqloom.errors import suggest

LAZY = {"describe": "What a text is like: types, coverage, lengths, unknown words."}


class DataGroup(click.Group):
    """`describe` is loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *(name for name in LAZY if find_spec(f"seqloom.cli.{name}"))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in LAZY and cmd_name in self.list_commands(ctx):
            return import_module(f"seqloom.cli.{cmd_name}").command
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(f"unknown command {args[0]!r}{suggest(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, command.get_short_help_str(100)) for name, command in self.commands.items()]
        rows += [(name, LAZY[name]) for name in self.list_commands(ctx) if name in LAZY]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(
    cls=DataGroup,
    name="data",
    epilog="""\b
Examples:
  seqloom data list
  seqloom fit ngram data:tinyshakespeare -o model
""",
)
def command() -> None:
    """List and get datasets by name: use data:NAME or data:NAME/PART wherever text is read.

    They are looked up in $SEQLOOM_DATA, then in the user's cache ($SEQLOOM_CACHE).
    """


@command.command(
    "list",
    epilog="""\b
Examples:
  seqloom data list
  seqloom data list --json
""",
)
@common
def list_command(as_json: bool) -> None:
    """List all known datasets and where they are."""
    from seqloom.data.catalogue import entries

    width = max(map(len, entries()))
    for name, entry in entries().items():
        path = _storage_path(entry)
        if as_json:
            emit(
                {
                    "name": name,
                    "about": entry.about,
                    "licence": entry.licence,
                    "bytes": entry.size,
                    "parts": [file.part for file in entry.files],
                    "place": path,
                    "download": entry.url is not None,
                }
            )
            continue
        state = path or ("can be downloaded" if entry.url else "not here; set SEQLOOM_DATA")
        click.echo(f"{name:<{width}}  {entry.size / 1e6:6.1f} MB  {state}")
        click.echo(f"{'':<{width}}  {entry.about} ({entry.licence})")


@command.command(
    "get",
    epilog="""\b
Examples:
  seqloom data get wikitext-2
  seqloom data get names tinyshakespeare --json
""",
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@common
def get_command(names: tuple[str, ...], as_json: bool) -> None:
    """Download datasets into the user's cache, unless they are already on this machine, and verify them."""
    from seqloom.data.catalogue import get, split_name

    for name in names:
        split_name(name)  # a wrong name is refused before anything is fetched
    for name in names:
        for path in get(name):
            emit({"name": name, "path": str(path)}) if as_json else click.echo(str(path))


@command.command(
    "path",
    epilog="""\b
Examples:
  seqloom data path tinyshakespeare
  wc -w "$(seqloom data path ptb/train)"
""",
)
@click.argument("name")
@common
def path_command(name: str, as_json: bool) -> None:
    """Print where a dataset is on this machine: its directory, or the file of the given part."""
    from seqloom.data.catalogue import locate, missing, split_name

    entry, part = split_name(name)
    path = locate(entry, entry.file(part))
    if path is None:
        raise missing(entry)
    printed = path if part or len(entry.files) == 1 else path.parent
    emit({"name": name, "path": str(printed)}) if as_json else click.echo(str(printed))


def _storage_path(entry: Any) -> str | None:
    """Return the directory of a dataset that is complete, or None."""
    from seqloom.data.catalogue import locate

    folders = [path.parent for file in entry.files if (path := locate(entry, file))]
    return str(folders[0]) if len(folders) == len(entry.files) else None
