"""`seqloom inspect VIEW MODEL [TEXT]`: what is inside a model and what it does, view by view; and
`seqloom inspect MODEL`, which lists the views that a model has.

A view is a line of `views.catalogue`, from which its command is made, or a command of a task whose name
has two words, such as `inspect trace`.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import LazyGroup, common, config_options, emit, given
from seqloom.errors import ConfigError, DataError
from seqloom.tasks.reading import text_of
from seqloom.tasks.task import Command, Task
from seqloom.views.catalogue import VIEWS, View, check, run, views_of

if TYPE_CHECKING:
    from seqloom.charts.page import Sheet

PREFIX = "inspect "
WIDTH = 100  # columns of sentences on the terminal
# Arguments of the command line for what a view looks at: metavar, and how many.
ARGUMENTS = {
    "model": ("MODEL", 1),
    "other": ("OTHER", 1),
    "text": ("[TEXT]...", -1),
    "data": ("[DATA]...", -1),
    "file": ("FILE", 1),
    "runs": ("RUN...", -1),
}
LOOKS_AT = {
    "text": "TEXT is the text itself, or a file; a pair is two. Without it, standard input is read.",
    "data": "DATA are files of the model's task; without them, standard input is read.",
    "runs": "RUN is a network's saved model, or the directory OUT.run of one that is still training.",
}


class Views(LazyGroup):
    heading = "Views"

    def entries(self) -> dict[str, Command]:
        made = {name: Command("", view.help) for name, view in VIEWS.items()}
        return dict(sorted((made | commands_of_tasks()).items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in VIEWS:
            return command_of(cmd_name, VIEWS[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.entries() and Path(args[0]).exists():
            return "views", list_command, args
        return super().resolve_command(ctx, args)


def views_of_task(task: Task) -> dict[str, Command]:
    """Return the views that are commands of a task, by name."""
    return {
        name.removeprefix(PREFIX): command
        for name, command in task.commands.items()
        if name.startswith(PREFIX)
    }


def other_views(model: Any) -> dict[str, Command]:
    """Return the views that are commands of a model's task and that it has."""
    found = views_of_task(tasks.of(model))
    return {name: one for name, one in found.items() if not one.needs or getattr(model, one.needs)}


def commands_of_tasks() -> dict[str, Command]:
    """Return the views that are commands of tasks, by name."""
    return {name: found for task in tasks.every() for name, found in views_of_task(task).items()}


@click.group(
    cls=Views,
    name="inspect",
    subcommand_metavar="VIEW|MODEL [ARGS]...",
    epilog="""\b
Examples:
  seqloom inspect model
  seqloom inspect surprisal model "to be or not to be"
  seqloom inspect gates model "to be or not to be" --chart gates.html
""",
)
def command() -> None:
    """Look into a model: what it does step by step, and why. `seqloom inspect MODEL` lists the views
    that a model has.
    """


@click.command(name="views", hidden=True)
@click.argument("model")
@common
def list_command(model: str, as_json: bool) -> None:
    """List the views that a model has, with a line for each."""
    loaded = tasks.open_model("inspect", model)
    found = {name: view.help for name, view in views_of(loaded).items()}
    found |= {name: entry.help for name, entry in other_views(loaded).items()}
    if as_json:
        emit({"model": loaded.name, "views": found})
        return
    if not found:
        click.echo(f"{model} ({loaded.label()}) has no views")
        return
    width = max(map(len, found))
    lines = [f"  {name:<{width}}  {help}" for name, help in sorted(found.items())]
    click.echo("\n".join([f"{model} ({loaded.label()}) has these views:", *lines]))
    click.echo(f"\nseqloom inspect VIEW {model} ...; seqloom inspect VIEW --help says more.")


def command_of(name: str, view: View) -> click.Command:
    """Make the command of a view."""

    def show(chart: str | None, as_json: bool, **values: Any) -> None:
        from seqloom.charts.theme import check_target

        if chart is not None:
            check_target(chart)
        options = given(view.options, values)
        sheet = run(name, *read_inputs(name, values, options), **options)
        if chart is not None:
            sheet.save(chart)
        if as_json:
            emit(sheet.data)
        else:
            click.echo(shown(sheet))

    sentences = [view.help, *(text for kind, text in LOOKS_AT.items() if kind in view.inputs)]
    sentences += [view.file] if view.file else []
    examples = "\n".join(f"  {example}" for example in view.examples)
    made = common(show)
    made = config_options(view.options)(made)
    made = click.option("--chart", metavar="FILE", help="Draw it: .png, .svg, .html.")(made)
    for kind in reversed(view.inputs):
        metavar, count = ARGUMENTS[kind]
        if view.optional and count == 1:
            made = click.argument(kind, metavar=f"[{metavar}]", required=False)(made)
        else:
            made = click.argument(kind, metavar=metavar, nargs=count)(made)
    return click.command(
        name=name,
        help="\n\n".join(sentences),
        epilog=f"\b\nExamples:\n{examples}\n" if examples else None,
    )(made)


def read_inputs(name: str, values: dict[str, Any], options: dict[str, Any]) -> list[Any]:
    """Return what a view looks at, from the arguments of its command and the options that are given."""
    view = VIEWS[name]
    inputs: list[Any] = []
    if view.optional and not values[view.inputs[0]]:
        return inputs
    for kind in view.inputs:
        value = values[kind]
        if kind in ("model", "other"):
            model = tasks.open_model("inspect", value)
            check(name, model, other_views(model))
            inputs.append(model)
        elif kind == "text" and not value and any(options.get(name) for name in view.instead):
            inputs.append(None)
        elif kind == "text":
            inputs.append(read_example(inputs[0], value))
        elif kind == "data":
            task = tasks.of(inputs[0])
            inputs.append(task.read(value, task.reading()))
        elif kind == "file":
            inputs.append(Path(value))
        else:
            inputs.append(list(value))
    return inputs


def read_example(model: Any, texts: tuple[str, ...]) -> Any:
    """Return the example that the texts of a command are: one text, or a pair; of a forecaster a series, or
    nothing, since its window has one size.
    """
    if model.task == "forecaster":
        task = tasks.of(model)
        return task.read(texts, task.reading()) if texts else None
    if getattr(model, "reads_numbers", False):
        raise ConfigError(
            f"this {model.name} model reads numbers, which are no text; use seqloom.inspect in Python"
        )
    read = [text_of(text) for text in texts or ("-",)]
    if not any(text.strip() for text in read):
        raise DataError("the text is empty; give one, or a file that has one")
    return read[0] if len(read) == 1 else tuple(read)


def shown(sheet: Sheet) -> str:
    """Return what a terminal shows of a sheet."""
    sentences = [fill(line, WIDTH) for line in sheet.summary]
    return "\n".join([*sheet.lines, *([""] if sheet.lines and sentences else []), *sentences])
