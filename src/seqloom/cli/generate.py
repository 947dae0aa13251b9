"""`seqloom generate MODEL [PROMPT]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from seqloom import progress
from seqloom.cli.options import common, config_options, emit, given, stdin_lines
from seqloom.decoding.drafting import DRAFTED
from seqloom.decoding.sampling import SamplingConfig
from seqloom.errors import ConfigError
from seqloom.tasks import open_model


@click.command(
    name="generate",
    epilog="""\b
Examples:
  seqloom generate model "Once upon a time" --max-tokens 50 --temperature 0.8
  seqloom generate model -n 3 --seed 7 --json
  seqloom generate smollm2 --chat "Write one sentence about the sea."
  seqloom generate smollm2 --chat            # interactive: a message a line
""",
)
@click.argument("model")
@click.argument("prompt", required=False)
@click.option(
    "-n",
    "--number",
    default=1,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="Number of texts.",
)
@click.option(
    "--beams",
    type=click.IntRange(1, 10_000),
    help="Number of beams: search for the most likely text instead of sampling.",
)
@click.option(
    "--length-penalty",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, 30),
    help="With --beams: 0 favours short texts, 1 is neutral.",
)
@click.option(
    "--stop", multiple=True, metavar="TEXT", help="Stop before this text; may be repeated."
)
@click.option(
    "--eight-bit",
    is_flag=True,
    help="Networks: round weights to 8 bits; faster, slightly less accurate.",
)
@click.option(
    "--draft",
    metavar="DRAFT",
    help="A faster model with the same tokenizer that proposes tokens; MODEL checks "
    "several at a time, so texts are distributed as without it.",
)
@click.option(
    "--draft-tokens",
    type=click.IntRange(1, 1000),
    help="With --draft: tokens proposed at a time  [default: 4].",
)
@click.option(
    "--chat",
    is_flag=True,
    help="Models with a chat template: answer PROMPT; without PROMPT, each line of standard "
    "input is a message of one conversation. Temperature 0.2 and repetition penalty 1.1 unless given.",
)
@click.option(
    "--system", metavar="TEXT", help="With --chat: the system message, which says how to answer."
)
@config_options(SamplingConfig)
@common
def command(
    model: str,
    prompt: str | None,
    number: int,
    beams: int | None,
    length_penalty: float,
    stop: tuple[str, ...],
    eight_bit: bool,
    draft: str | None,
    draft_tokens: int | None,
    chat: bool,
    system: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Continue PROMPT (- reads it from stdin), or generate text from scratch without one.

    With --chat, prints the answer alone; --json has an object for each message, with its answer.
    """
    if beams is not None and number > 1:
        raise ConfigError("--beams finds the one likeliest text; drop -n")
    if draft is None and draft_tokens is not None:
        raise ConfigError("--draft-tokens is for --draft; name the model that proposes tokens")
    if system is not None and not chat:
        raise ConfigError("--system is for --chat")
    if chat and (number > 1 or beams is not None):
        raise ConfigError("--chat draws one answer to each message; drop -n and --beams")
    loaded = open_model("generate", model)
    settings = {"stop": stop, "eight_bit": eight_bit, **given(SamplingConfig, options)}
    if draft is not None:
        settings |= {
            "draft": open_model("generate", draft),
            "draft_tokens": draft_tokens or DRAFTED,
        }
    if chat:
        _chat(loaded, prompt, system, as_json, settings)
        return
    prompt = "\n".join(stdin_lines()) if prompt == "-" else prompt or ""
    if number == 1 and beams is None and not as_json:
        pieces = loaded.stream(prompt, **settings)
        click.echo(prompt, nl=False)
        for piece in pieces:
            click.echo(piece, nl=False)
        click.echo()
        return
    for text in loaded.generate(
        [prompt] * number, beams=beams, length_penalty=length_penalty, **settings
    ):
        emit({"prompt": prompt, "text": text}) if as_json else click.echo(prompt + text)


def _chat(
    model: Any, message: str | None, system: str | None, as_json: bool, settings: dict[str, Any]
) -> None:
    """Answer one message, or each that is typed or read, as one conversation."""
    if not hasattr(model, "chat"):
        raise ConfigError(f"--chat is for models with a chat template; this model is {model.name}")
    model.chat_template()  # refused before a message is asked for
    conversation = [] if system is None else [{"role": "system", "content": system}]
    for text in _messages(message, as_json):
        conversation.append({"role": "user", "content": text})
        answer = ""
        with progress.said_after():
            for piece in model.chat_stream(conversation, **settings):
                answer += piece
                if not as_json:
                    click.echo(piece, nl=False)
            if as_json:
                emit({"message": text, "answer": answer})
            else:
                click.echo()
        conversation.append({"role": "assistant", "content": answer})


def _messages(message: str | None, as_json: bool) -> Iterator[str]:
    if message == "-":
        yield "\n".join(stdin_lines())
    elif message is not None:
        yield message
    elif as_json or not sys.stdin.isatty():
        yield from (line for line in stdin_lines() if line.strip())
    else:
        click.echo("Type a message and press Enter; an empty line ends.", err=True)
        while True:
            click.echo("> ", nl=False, err=True)
            try:
                text = input()
            except EOFError:
                text = ""
            if not text:
                return
            yield text
