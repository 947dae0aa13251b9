"""`seqloom generate MODEL [PROMPT]`."""

from __future__ import annotations

from typing import Any

import click

from seqloom.cli.options import common, config_options, emit, given, stdin_lines
from seqloom.decoding.drafting import DRAFTED
from seqloom.decoding.sampling import SamplingConfig
from seqloom.errors import ConfigError
from seqloom.tasks import open_model


@click.command(name="generate", epilog="""\b
Examples:
  seqloom generate model "Once upon a time" --max-tokens 50 --temperature 0.8
  seqloom generate model -n 3 --seed 7 --json
""")
@click.argument("model")
@click.argument("prompt", required=False)
@click.option("-n", "--number", default=1, show_default=True, type=click.IntRange(1, 100_000), help="Number of texts.")
@click.option("--beams", type=click.IntRange(1, 10_000), help="Number of beams: search for the most likely text instead of "
                                                              "sampling.")
@click.option("--length-penalty", default=1.0, show_default=True, type=click.FloatRange(0, 30),
              help="With --beams: 0 favours short texts, 1 is neutral.")
@click.option("--stop", multiple=True, metavar="TEXT", help="Stop before this text; may be repeated.")
@click.option("--eight-bit", is_flag=True, help="Networks: round weights to 8 bits; faster, slightly less accurate.")
@click.option("--draft", metavar="DRAFT", help="A faster model with the same tokenizer that proposes tokens; MODEL checks "
                                               "several at a time, so texts are distributed as without it.")
@click.option("--draft-tokens", type=click.IntRange(1, 1000), help="With --draft: tokens proposed at a time  [default: 4].")
@config_options(SamplingConfig)
@common
def command(model: str, prompt: str | None, number: int, beams: int | None, length_penalty: float,
            stop: tuple[str, ...], eight_bit: bool, draft: str | None, draft_tokens: int | None, as_json: bool,
            **options: Any) -> None:
    """Continue PROMPT (- reads it from stdin), or generate text from scratch without one."""
    if beams is not None and number > 1:
        raise ConfigError("--beams finds the one likeliest text; drop -n")
    if draft is None and draft_tokens is not None:
        raise ConfigError("--draft-tokens is for --draft; name the model that proposes tokens")
    loaded = open_model("generate", model)
    prompt = "\n".join(stdin_lines()) if prompt == "-" else prompt or ""
    sampling = given(SamplingConfig, options)
    if draft is not None:
        sampling |= {"draft": open_model("generate", draft), "draft_tokens": draft_tokens or DRAFTED}
    if number == 1 and beams is None and not as_json:
        pieces = loaded.stream(prompt, stop=stop, eight_bit=eight_bit, **sampling)
        click.echo(prompt, nl=False)
        for piece in pieces:
            click.echo(piece, nl=False)
        click.echo()
        return
    texts = loaded.generate([prompt] * number, stop=stop, beams=beams, length_penalty=length_penalty, eight_bit=eight_bit,
                            **sampling)
    for text in texts:
        emit({"prompt": prompt, "text": text}) if as_json else click.echo(prompt + text)
