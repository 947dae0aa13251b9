"""docs/reference-cli.md: every command with its arguments and options, from click.

What all models of `fit` share (training, data, tokenizer) is written once; of each model its own
options are, and the shared ones of which it says something else.
"""

import dataclasses
import re

import click

from seqloom import tasks
from seqloom.cli import main as cli
from seqloom.cli.fit import _command_for
from seqloom.cli.options import config_options
from seqloom.config import TextConfig
from seqloom.registry import MODELS, config_class
from seqloom.training.config import TrainConfig

HEAD = """# Reference: the command line

Generated from the commands by `python -m tests.generated`; a test keeps it current. \
`seqloom COMMAND --help` shows the same.
Results go to standard output, messages to standard error. \
Exit codes: 0, 1 (an error, in one line), 2 (wrong usage).
"""
EVERY = ("as_json", "quiet", "debug")  # options that all commands have
Rows = dict[str, tuple[str, str]]  # by parameter: the flag, and what it does


def commands_page() -> str:
    with _context(cli.main, "seqloom") as ctx:
        parts = [
            HEAD,
            "## Options of every command",
            _table(_rows(cli.main.get_command(ctx, "models"), EVERY)),
        ]
        for name in cli.main.list_commands(ctx):
            command = cli.main.get_command(ctx, name)
            assert command is not None
            parts += _fit() if name == "fit" else _command(command, f"seqloom {name}")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _context(command: click.Command, path: str | None = None) -> click.Context:
    """Return a context as `seqloom` makes it: a command keeps the names of its help option from the
    first that it sees.
    """
    return click.Context(command, info_name=path, **cli.main.context_settings)


def _command(command: click.Command, path: str, level: str = "##") -> list[str]:
    parts = [f"{level} {path}", _usage(command, path), _prose(command.help or "")]
    parts.append(_table({name: row for name, row in _rows(command).items() if name not in EVERY}))
    if isinstance(command, click.Group):
        with _context(command, path) as ctx:
            for name in command.list_commands(ctx):
                below = command.get_command(ctx, name)
                assert below is not None
                parts += _command(below, f"{path} {name}", level + "#")
    return [part for part in [*parts, _examples(command)] if part]


def _fit() -> list[str]:
    own = [
        name
        for name, entry in MODELS.items()
        if entry.fitted and entry.target.startswith("seqloom.")
    ]
    shared: Rows = {}
    parts = [
        "## seqloom fit",
        "`seqloom fit MODEL [DATA]... -o DIR`",
        "Train a model on text, labelled texts or tagged sentences, and save it.",
    ]
    first = _rows(_command_for("lstm"))
    groups = {
        "Options of every model": {name: first[name] for name in ("output", "valid")},
        "Training": _config_rows(TrainConfig)
        | {name: first[name] for name in ("device", "restart", "start")}
        | {"memory": _rows(_command_for("ngram"))["memory"]},
        "Tokenizer and units": _config_rows(TextConfig),
    }
    readings = {
        task.reading: task.phrase
        for task in reversed(list(tasks.every()))
        if task.name in {MODELS[name].task for name in own}
    }
    groups |= {
        f"Data of {phrase}": _config_rows(reading) for reading, phrase in reversed(readings.items())
    }
    for title, rows in groups.items():
        parts += [f"### {title}", _table(rows)]
        shared |= {name: row for name, row in rows.items() if name not in shared}
    for name in own:
        command = _command_for(name)
        reading = _config_rows(tasks.get(MODELS[name].task).reading)
        known = shared | reading
        rows = {
            key: row
            for key, row in _rows(command).items()
            if key not in (*EVERY, "valid") and known.get(key) != row
        }
        takes = config_class(name).fit_arguments
        more = (
            "the training options"
            if "train" in takes
            else " and ".join(
                f"`{flag}`"
                for key, flag in (("memory", "--memory"), ("run", "--restart"))
                if key in takes
            )
        )
        parts += [
            f"### seqloom fit {name}",
            _prose(command.help or ""),
            *([f"It takes {more}."] if more else []),
            _table(rows),
            _examples(command),
        ]
    return [part for part in parts if part]


def _config_rows(config: type) -> Rows:
    @config_options(config)
    def nothing() -> None:
        pass

    rows = _rows(click.command(nothing))
    return {field.name: rows[field.name] for field in dataclasses.fields(config)}


def _rows(command: click.Command | None, only: tuple[str, ...] = ()) -> Rows:
    assert command is not None
    rows: Rows = {}
    with _context(command) as ctx:
        for option in command.params:
            shown = isinstance(option, click.Option) and not option.hidden
            if (
                isinstance(option, click.Option)
                and shown
                and option.name
                and (not only or option.name in only)
            ):
                value = "" if option.is_flag else " " + option.make_metavar(ctx)
                flags = (
                    ", ".join(option.opts)
                    + value
                    + ("".join(f" / {flag}" for flag in option.secondary_opts))
                )
                default = (
                    f"  [default: {option.default}]"
                    if option.show_default and option.default is not None
                    else ""
                )
                required = "  [required]" if option.required else ""
                rows[option.name] = f"`{flags}`", f"{option.help or ''}{default}{required}"
    return rows


def _table(rows: Rows) -> str:
    lines = ["| option | |", "|---|---|"]
    lines += [f"| {_cell(flag)} | {_cell(text)} |" for flag, text in rows.values()]
    return "\n".join(lines) if rows else ""


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return re.sub(r"<(/?\w+)>", r"`<\1>`", text)


def _usage(command: click.Command, path: str) -> str:
    with _context(command, path) as ctx:
        return f"`{' '.join([path, *command.collect_usage_pieces(ctx)])}`"


def _prose(text: str) -> str:
    return "\n\n".join(_cell(part).replace("\\|", "|") for part in text.split("\n\n"))


def _examples(command: click.Command) -> str:
    lines = (command.epilog or "").replace("\b\n", "").partition("Examples:\n")[2].splitlines()
    return "\n".join(["```text", *(line.strip() for line in lines), "```"]) if lines else ""
