"""`seqloom info DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seqloom.cli.options import common, emit


@click.command(name="info", epilog="""\b
Examples:
  seqloom info model
  seqloom info model --json
""")
@click.argument("model")
@common
def command(model: str, as_json: bool) -> None:
    """What a saved model is, with which options and from what text it was made."""
    from seqloom.storage import read_config

    config = read_config(model)
    config["disk"] = sum(f.stat().st_size for f in Path(model).rglob("*") if f.is_file())
    if as_json:
        emit(config)
        return
    click.echo(f"{config['model']} {config['task']}, {config['disk']:,} bytes, "
               f"seqloom {config['seqloom_version']} (format {config['format_version']})")
    for section in ("config", "tokenizer", "fit"):
        if config.get(section):
            click.echo(f"\n{section}")
            _show(config[section], "  ")


def _show(values: dict[str, Any], indent: str) -> None:
    for key, value in values.items():
        if isinstance(value, dict):
            click.echo(f"{indent}{key}")
            _show(value, indent + "  ")
        elif value not in (None, "", []):
            click.echo(f"{indent}{key:<16} {f'{value:,}' if type(value) is int else value}")
