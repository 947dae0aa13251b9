"""`seqloom models`."""

from __future__ import annotations

import click

from seqloom.cli.options import common, emit
from seqloom.registry import MODELS, load_plugins


@click.command(
    name="models",
    epilog="""\b
Examples:
  seqloom models
  seqloom models --json
""",
)
@common
def command(as_json: bool) -> None:
    """List the models that can be fitted and those that are read from a file."""
    load_plugins()
    if as_json:
        for name, entry in MODELS.items():
            emit(
                {"name": name, "task": entry.task, "fitted": entry.fitted, "summary": entry.summary}
            )
        return
    lines = {
        name: f"{name:<{max(map(len, MODELS))}}  {entry.task:<14}  {entry.summary}"
        for name, entry in MODELS.items()
    }
    click.echo("\n".join(line for name, line in lines.items() if MODELS[name].fitted))
    click.echo("\nNot fitted, but made from a file by seqloom convert:")
    click.echo("\n".join(line for name, line in lines.items() if not MODELS[name].fitted))
