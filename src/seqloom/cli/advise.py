"""`seqloom advise MODEL|RUN`."""

from __future__ import annotations

import click

from seqloom.cli.options import common, emit


@click.command(
    name="advise",
    epilog="""\\b
Examples:
  seqloom advise model
  seqloom advise model.run        # while it trains
  seqloom compare corpus.txt -o report && seqloom advise report
""",
)
@click.argument("run", metavar="MODEL|RUN|REPORT")
@common
def command(run: str, as_json: bool) -> None:
    """Say what a training log or a comparison shows, with the figures behind it, and one thing to try for
    each finding.

    MODEL is a saved model, RUN the directory OUT.run of one that is training or was interrupted, REPORT
    what `seqloom compare -o REPORT` wrote. Rules look at lengths, clipping, gradients by layer and
    distance, gates, and held-out results; which model suits the data is answered by measuring, with
    `seqloom ab` and `seqloom compare`.
    """
    from seqloom.views.advice import advise

    advice = advise(run.rstrip("/") or run)
    emit(advice.to_dict()) if as_json else click.echo(str(advice))
