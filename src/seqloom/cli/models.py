"""`seqloom models`."""

from __future__ import annotations

import click

from seqloom.cli.options import common, emit
from seqloom.registry import MODELS


@click.command(name="models", epilog="""\b
Examples:
  seqloom models
  seqloom models --json
""")
@common
def command(as_json: bool) -> None:
    """List the models that can be fitted."""
    for name, entry in MODELS.items():
        if as_json:
            emit({"name": name, "task": entry.task, "summary": entry.summary})
        else:
            click.echo(f"{name:<12} {entry.task:<15} {entry.summary}")
