"""`seqloom serve MODEL...`."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import common, config_options, emit, given
from seqloom.progress import say
from seqloom.serving.configs import ServeConfig

if TYPE_CHECKING:
    from seqloom.serving.catalogue import Catalogue


@click.command(
    name="serve",
    epilog="""\b
Examples:
  seqloom serve model
  seqloom serve plays=models/lstm sentiment --port 9000
  seqloom serve model --host 0.0.0.0 --key secret
  seqloom serve model --log requests.jsonl      # for seqloom drift
  curl localhost:8000/v1/completions -d '{"prompt": "To be", "max_tokens": 20}'
  curl localhost:8000/predict -d '{"inputs": ["what a lovely film"]}'
""",
)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@config_options(ServeConfig)
@common
def command(models: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Serve saved models over HTTP, for OpenAI's clients and by one request for each command.

    MODEL is a directory, called by its last name, or NAME=DIRECTORY. SIGTERM and Ctrl-C end it: running
    requests have --drain seconds to end.
    """
    gc.disable()  # imports and models are here to stay; the server turns it on
    from seqloom.serving.server import run

    chosen = given(ServeConfig, options)
    if (key := os.environ.get("SEQLOOM_KEY")) is not None:
        chosen.setdefault("key", key)

    def started(address: str, catalogue: Catalogue) -> None:
        if as_json:
            emit({"address": address, "models": [served.name for served in catalogue]})
        for served in catalogue:
            say(f"{served.name}: {served.task.phrase} ({served.model.label()})")
        say(f"listening on {address} (Ctrl-C ends)")

    run(models, ServeConfig(**chosen), started)
