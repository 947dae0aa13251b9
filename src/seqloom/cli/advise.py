"""`seqloom advise MODEL|RUN`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from seqloom.cli.options import common, emit

if TYPE_CHECKING:
    from seqloom.views.advice import Advice
    from seqloom.views.findings import Finding

ARGUMENT = re.compile(r"\b([a-z]+(?:_[a-z]+)*)=([^\s,;()]+)")


@click.command(
    name="advise",
    epilog="""\b
Examples:
  seqloom advise model
  seqloom advise model.run        # while it trains
  seqloom advise report           # of seqloom compare -o report
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

    advice = as_flags(advise(run.rstrip("/") or run))
    emit(advice.to_dict()) if as_json else click.echo(str(advice))


def as_flags(advice: Advice) -> Advice:
    """Return the advice with options as flags, where it is not a whole command."""

    def flag(match: re.Match[str]) -> str:
        name = f"--{match[1].replace('_', '-')}"
        return name if match[2] == "True" else f"{name} {match[2]}"

    def flagged(finding: Finding) -> Finding:
        if "seqloom " in finding.advice:
            return finding
        return finding._replace(advice=ARGUMENT.sub(flag, finding.advice))

    return replace(advice, findings=[flagged(finding) for finding in advice.findings])
