"""The `seqloom` command: finds the sub-command's file, and turns errors into one line.

Commands are loaded when they are called, so `--help` is quick. Results go to stdout, talk to stderr.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import NoReturn

import click

from seqloom import registry, tasks
from seqloom._version import __version__
from seqloom.cli.interruptions import CODES, Interruptions
from seqloom.cli.options import LazyGroup
from seqloom.errors import SeqloomError, Terminated, lacks_memory, shortened
from seqloom.foreign_names import answer_command, answer_flag
from seqloom.tasks.task import Command

FIRST = {
    "compare": "Train every rung on one text and compare them in one table.",
    "fit": "Train a model on your data and save it.",
    "evaluate": "How good a model is on held-out data.",
    "ab": "Two models, or one with and without a step, paired.",
    "scaling": "How far more text, a larger network or more time would help.",
    "plot": "Draw how training went, or a map of word vectors.",
    "inspect": "Look into a model: what it does step by step.",
    "advise": "What a run or a comparison shows, and one thing to try.",
}
LAST = {
    "phrases": "Join words that belong together: new_york.",
    "tokenize": "Train or apply a tokenizer.",
    "data": "Known datasets, and what a text is like.",
    "convert": "ARPA, word vectors, published weights to a model and back.",
    "serve": "Answer requests over HTTP with saved models.",
    "studio": "A page on which models think about the same text, side by side.",
    "drift": "How far what comes in is from what a model was evaluated on.",
    "models": "List the models that can be fitted, or your saved ones.",
    "info": "What a saved model is and how it was made.",
}

# Files that are called otherwise, as they would hide the standard library's from their neighbours.
FILES = {"inspect": "inspecting", "tokenize": "tokenizing"}


def commands() -> dict[str, Command]:
    """Return all commands by name: the general ones, and between them those of each task. Names of
    two words are views of `inspect`.
    """
    first, last = (
        {
            name: Command(f"seqloom.cli.{FILES.get(name, name)}:command", help)
            for name, help in part.items()
        }
        for part in (FIRST, LAST)
    )
    between = {
        name: command
        for task in tasks.every()
        for name, command in task.commands.items()
        if " " not in name
    }
    return first | between | last


class Commands(LazyGroup):
    def entries(self) -> dict[str, Command]:
        return commands()

    def answer(self, word: str) -> str | None:
        return answer_command(word)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  seqloom compare                               # the bundled text
  seqloom fit ngram corpus.txt -o model
  seqloom generate model "Once upon"
""",
)
@click.version_option(__version__, prog_name="seqloom")
def main() -> None:
    """Train, compare and use sequence models on your own text, on your own machine."""


def run() -> None:
    """Run the command line: one line for errors and for signals, the traceback with --debug."""
    with Interruptions() as interruptions:
        _run(interruptions)


def _run(interruptions: Interruptions) -> None:
    debug = "--debug" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            # A terminal that cannot show a character is no error.
            stream.reconfigure(errors="backslashreplace")
    try:
        registry.load_plugins()
        for line in registry.failures:
            click.echo(f"seqloom: {shortened(line)}", err=True)
        code = main.main(standalone_mode=False)
        raise SystemExit(code if isinstance(code, int) else 0)
    except SystemExit:
        raise
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        raise SystemExit(2) from None
    except (KeyboardInterrupt, click.Abort) as error:
        if debug:
            raise
        cause = error.__cause__ if isinstance(error, click.Abort) else error  # click wraps Ctrl-C
        _interrupted(
            str(cause or ""), signal.SIGTERM if isinstance(cause, Terminated) else signal.SIGINT
        )
    except click.ClickException as error:
        if debug:
            raise
        _show_usage_error(error)
        raise SystemExit(error.exit_code) from None
    except Exception as error:
        if debug:
            raise
        if interruptions.heard is not None and not isinstance(error, SeqloomError):
            # Other code has turned the interrupt into another error.
            _interrupted("", interruptions.heard)
        click.echo(f"seqloom: {shortened(_one_line(error))}", err=True)
        raise SystemExit(error.exit_code if isinstance(error, SeqloomError) else 1) from None


def _interrupted(message: str, number: int) -> NoReturn:
    click.echo(message or "interrupted; what was finished is kept", err=True)
    from seqloom.kernels.parallel import abandoned

    code = CODES[number]
    if abandoned():  # a thread that Python, when it ends, would tear out of its library
        sys.stdout.flush()
        os._exit(code)
    exec(
        ""
        # CPython remembers a KeyboardInterrupt that left an exec and would end by SIGINT instead; this
        # makes it forget
    )
    raise SystemExit(code) from None


def _show_usage_error(error: click.ClickException) -> None:
    """Show Click's message with its suggestion, without the usage block around it."""
    where = getattr(error, "ctx", None)
    path = where.command_path if where is not None else "seqloom"
    message = " ".join(error.format_message().splitlines())
    if isinstance(error, click.NoSuchOption) and where is not None:
        known = {parameter.name or "": parameter.opts[0] for parameter in where.command.params}
        if (answer := answer_flag(error.option_name, known)) is not None:
            message = f"No such option {error.option_name!r}. {answer}"
    click.echo(f"seqloom: {shortened(message)} (see {path} --help)", err=True)


def _one_line(error: BaseException) -> str:
    if isinstance(error, SeqloomError):
        return " ".join(str(error).splitlines())
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG):
        return (
            f"the disk is full ({error.filename or 'while writing'}); "
            "make room and run the same command again"
        )
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'input or output'}: {error.strerror}"
    if lacks_memory(error):
        return (
            "not enough memory; choose smaller sizes, use less text, or give fit --memory so that "
            "counting works on disk"
        )
    return (
        f"unexpected {type(error).__name__}: {' '.join(str(error).split())} "
        "(run again with --debug for the trace)"
    )
