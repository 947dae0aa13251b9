"""`seqloom convert SOURCE TARGET`."""

from __future__ import annotations

from pathlib import Path

import click

from seqloom.cli.options import common, emit
from seqloom.errors import ConfigError


@click.command(name="convert", epilog="""\b
Examples:
  seqloom convert model.arpa.gz model      # ARPA to a seqloom model
  seqloom convert model model.arpa         # and back
""")
@click.argument("source")
@click.argument("target")
@common
def command(source: str, target: str, as_json: bool) -> None:
    """Turn an ARPA file (plain or .gz) into a model directory, or a model directory into an ARPA file."""
    from seqloom.interop.arpa import read_arpa, write_arpa
    from seqloom.storage import check_target, load

    if Path(source).is_dir():
        if not target.endswith((".arpa", ".arpa.gz")):
            raise ConfigError(f"{target}: a model can be turned into ARPA; the name must end in .arpa or .arpa.gz")
        model = load(source)
        write_arpa(model, target)
    else:
        if target.endswith((".arpa", ".arpa.gz")):
            raise ConfigError(f"{source} is not a model directory, so {target} cannot be made of it; "
                              "to read an ARPA file name a directory as the target")
        check_target(target)
        model = read_arpa(source)
        model.save(target)
    done = {"source": source, "target": target, "ngrams": model.fit_info["ngrams"]}
    if as_json:
        emit(done)
    else:
        click.echo(f"{target}: order {model.config.order}, {sum(done['ngrams'].values()):,} n-grams")
