"""`seqloom info DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seqloom.cli.options import common, emit
from seqloom.errors import ConfigError
from seqloom.registry import MODELS, model_class

LISTED = 10  # values of a list that are shown


@click.command(name="info", epilog="""\b
Examples:
  seqloom info model
  seqloom info model --json
  seqloom info hmm --chart hmm.html --text "the king is dead"
""")
@click.argument("model")
@click.option("--chart", metavar="FILE", help="Hidden Markov models: draw moves between states and, of an hmm, beliefs along a "
              "text and how fast it forgets: .png, .svg, .html.")
@click.option("--text", help="The text for the beliefs.  [default: one that the model writes]")
@common
def command(model: str, chart: str | None, text: str | None, as_json: bool) -> None:
    """What a saved model is, with which options and from what data it was made; of an hmm also the words of its states."""
    from seqloom.storage import read_config

    config = read_config(model)
    if chart is not None or text is not None:
        _draw(model, chart, text)
    if config["model"] in MODELS and hasattr(model_class(config["model"]), "top_words"):
        from seqloom.inspect.hidden import state_words
        from seqloom.storage import load

        config["states"] = state_words(load(model))
    config["disk"] = sum(f.stat().st_size for f in Path(model).rglob("*") if f.is_file())
    if as_json:
        emit(config)
        return
    click.echo(f"{config['model']} {config['task']}, {config['disk']:,} bytes, "
               f"seqloom {config['seqloom_version']} (format {config['format_version']})")
    for section in ("config", "tokenizers", "learnt", "fit", "states"):
        if config.get(section):
            click.echo(f"\n{section}")
            _show(config[section], "  ")


def _draw(model: str, chart: str | None, text: str | None) -> None:
    from seqloom.charts.files import check_target
    from seqloom.inspect import states
    from seqloom.storage import load

    if chart is None:
        raise ConfigError("--text says what --chart draws; give --chart FILE too")
    check_target(chart)
    states(load(model), text).save(chart)


def _show(values: dict[str, Any], indent: str) -> None:
    for key, value in values.items():
        if isinstance(value, dict):
            click.echo(f"{indent}{key}")
            _show(value, indent + "  ")
        elif value not in (None, "", []):
            click.echo(f"{indent}{key:<16} {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        some = value if len(value) <= LISTED else [*value[: LISTED - 1], "...", value[-1]]
        return ", ".join(map(_shown, some)) + (f"  ({len(value):,})" if len(some) < len(value) else "")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.8g}"
