"""What `fit` offers for models that count, for those that iterate, and for networks that are
trained by steps; and its help, with options under headings, the usual ones first.

The checkpoints of the last two kinds are in OUT.run beside OUT; the same command resumes from them after
any interruption. The training log is saved with the model; then the checkpoints are removed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress
from seqloom.cli.options import config_options, emit, given
from seqloom.config import TextConfig
from seqloom.errors import ConfigError, TrainingError
from seqloom.frames import Table
from seqloom.registry import model_class
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.contracts import Model
    from seqloom.tasks.task import Task


SEVERAL = ("processes", "restarts")  # options of training in several processes
MOST = 1024


def _several_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of training in several processes."""
    function = click.option(
        "--restarts",
        type=click.IntRange(0, 1_000_000),
        default=3,
        help="How often --processes are started again from the last checkpoint after one has died.  "
        "[default: 3]",
    )(function)
    return click.option(
        "--processes",
        type=click.IntRange(1, MOST),
        help="Processes of this machine that share every update; torchrun starts them on several.  "
        "[default: 1]",
    )(function)


def fitting_options(config: type[Config]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of fitting that this model can use."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if "run" in config.fit_arguments:
            function = click.option(
                "--restart", is_flag=True, help="Start over instead of resuming an unfinished run."
            )(function)
        if "start" in config.fit_arguments:
            function = click.option(
                "--start",
                metavar="DIR",
                help="Saved model of this kind to continue training from, with its "
                "tokenizer and options.",
            )(function)
        if "train" in config.fit_arguments:
            function = click.option(
                "--device",
                metavar="NAME",
                help="cpu, cuda, cuda:1, mps  [default: a GPU if there is one]",
            )(function)
            function = click.option(
                "--dry-run",
                is_flag=True,
                help="Train and write nothing; say how much memory and time training would take.",
            )(function)
            function = click.option(
                "--sweep",
                type=click.IntRange(1, 1_000_000),
                multiple=True,
                metavar="ROWS",
                help="Batch size to try, as long as the other options say; nothing is written; may be "
                "repeated.",
            )(function)
            function = config_options(TrainConfig)(function)
            function = _several_options(function)
        if "cluster" in config.fit_arguments:
            from seqloom.cli.clusters import cluster_options

            function = click.option(
                "--parts",
                type=click.IntRange(1, 1 << 20),
                help="With --cluster: cut the text into about so many parts; the model does not depend on "
                "it.  [default: one a worker, of 64 MB at most]",
            )(function)
            function = cluster_options(function)
        if "memory" in config.fit_arguments:
            function = click.option(
                "--memory",
                metavar="SIZE",
                help="Memory limit for counting (800M, 2G); beyond it, work on disk.",
            )(function)
        return function

    return decorate


@dataclass(frozen=True)
class FitPlan:
    """The arguments of a fit, checked as far as possible before the data is read."""

    options: dict[str, Any]  # of `fit`
    run: Path | None = None
    restart: bool = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the checkpoints for this process while open; an interrupt says how to resume."""
        if self.run is None:
            yield
            return
        from seqloom.training.checkpoint import Run

        run = Run(self.run)
        try:
            with run.held():
                if self.restart:
                    run.clear()
                yield
        except KeyboardInterrupt as error:
            raise type(error)(
                f"interrupted; progress is kept in {self.run}; run the same command to resume"
                if run.has_checkpoint()
                else "interrupted before the first checkpoint; the same command starts over"
            ) from None


def make_model(
    name: str, config_class: type[Config], options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the model that is to be fitted, and as an argument of `fit` the model that it starts from, if
    any."""
    chosen = given(config_class, options)
    start = options["start"] if "start" in config_class.fit_arguments else None
    if start is None:
        return model_class(name)(**chosen), {}
    from seqloom.contracts.starting import new_model

    model, origin = new_model(model_class(name), start, chosen)
    return model, {"start": origin}


def prepare(name: str, config_class: type[Config], output: str, options: dict[str, Any]) -> FitPlan:
    """Return the options of fitting; refuse here what this machine cannot do, not after an hour of
    tokenizing.
    """
    arguments: dict[str, Any] = (
        {"memory": options["memory"]} if "memory" in config_class.fit_arguments else {}
    )
    if "run" not in config_class.fit_arguments:
        return FitPlan(arguments)
    from seqloom.places import is_remote

    if is_remote(output):
        raise ConfigError(
            f"{output}: checkpoints need a directory on this machine; fit to one, then copy the model"
        )
    if "train" in config_class.fit_arguments:
        from seqloom.models.network.network import require_torch

        config = TrainConfig(**given(TrainConfig, options))
        require_torch(name)
        from seqloom.training.devices import check_precision, find_device
        from seqloom.training.log import check_tensorboard

        check_precision(config, find_device(options["device"]))
        check_tensorboard(config)
        arguments |= {"train": config, "device": options["device"]}
        if options["dry_run"] or options["sweep"]:
            return FitPlan(arguments)
    from seqloom.training.ranks import started_again

    # The processes of a run that began anew go on when they are started again.
    restart = options["restart"] and not started_again()
    return FitPlan(arguments, Path(f"{output.rstrip('/')}.run"), restart)


def show_estimate(
    model: Any, data: Any, valid: Any, plan: FitPlan, start: dict[str, Any], as_json: bool
) -> None:
    """Say what the fit would take."""
    if not hasattr(model, "estimate"):
        raise ConfigError(
            f"{model.name} models cannot say what training takes; leave out --dry-run"
        )
    found = model.estimate(data, valid=valid, **plan.options, **start)
    if as_json:
        emit({"model": model.name, **found.to_dict()})
        return
    click.echo(f"{model.name}: nothing was trained or written\n{found}")
    if not found.fits:
        progress.say(
            "warning: this is more memory than there is; a smaller --batch-size or --truncation, "
            "--accumulate or --recompute need less"
        )


def show_sweep(
    model: Any,
    data: Any,
    valid: Any,
    sizes: Sequence[int],
    plan: FitPlan,
    start: dict[str, Any],
    as_json: bool,
) -> None:
    """Train with each batch size, and show what it brought."""
    rows = model.sweep(sizes, data, valid=valid, **plan.options, **start)
    if as_json:
        emit({"model": model.name, "sweep": rows})
        return
    click.echo(f"{model.name}: nothing was written\n{Table(rows)}")


def fit_and_save(
    model: Model, data: Any, valid: Any, output: str, plan: FitPlan, start: dict[str, Any]
) -> None:
    """Fit, with checkpoints beside the output where the model has some, then save.

    `start`: the model to start from, as `make_model` gave it.
    """
    if plan.run is None:
        model.fit(data, valid=valid, **plan.options)
        model.save(output)
        return
    from seqloom.storage import EVENTS, TRAINING_LOG, save
    from seqloom.training.checkpoint import LOG, Run
    from seqloom.training.ranks import is_first, note_saved

    run = Run(plan.run)
    try:
        model.fit(data, valid=valid, run=plan.run, **plan.options, **start)
    except ConfigError:
        if not run.has_checkpoint() and not (plan.run / LOG).exists():
            run.clear()  # nothing was trained yet
        raise
    except TrainingError as error:
        again = "; other settings need --restart" if run.has_checkpoint() else ""
        raise type(error)(f"{error}{again}") from error
    if not is_first():
        return
    save(model, output, {TRAINING_LOG: plan.run / LOG, EVENTS: plan.run / EVENTS})
    run.clear()
    note_saved()


# ---- sections

# Of each model those that it has, in this order; --output and --valid stand before them.
USUAL = (
    "members",
    "member",
    "tokenizer",
    "encoder",
    "order",
    "smoothing",
    "states",
    "dimensions",
    "window",
    "ngrams",
    "d_hidden",
    "d_model",
    "n_layers",
    "dropout",
    "epochs",
    "minutes",
    "lr",
    "tune",
    "scheme",
)
MOST_USUAL, FIRST_TO_GO = 10, ("window", "n_layers")


class SectionedCommand(click.Command):
    """A command with its options listed by section; those of no section come in the last."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        records = {
            param.name: record
            for param in self.get_params(ctx)
            if (record := param.get_help_record(ctx))
        }
        named = {name for names in self.sections.values() for name in names}
        rest = [name for name in records if name not in named]
        last = list(self.sections)[-1]
        for title, names in self.sections.items():
            shown = [
                records[name]
                for name in [*names, *(rest if title == last else [])]
                if name in records
            ]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


def fit_sections(config: type[Config], task: Task) -> dict[str, list[str]]:
    """Return the options of `fit` by topic, which is that of the config they come from."""
    from seqloom.training.config import TrainConfig

    data = [*_names(task.reading), *_names(TextConfig)]
    own = [name for name in _names(config) if name not in data]
    training = [*_names(TrainConfig), *SEVERAL, "device"] if "train" in config.fit_arguments else []
    training += ["memory"] if "memory" in config.fit_arguments else []  # else of the data
    training += ["restart", "cluster", "work", "parts"]
    training += ["start"] if "start" in config.fit_arguments else []
    training += ["dry_run", "sweep"] if "train" in config.fit_arguments else []
    usual = ["output", "valid", *(name for name in USUAL if name in {*own, *training, *data})]
    spare = FIRST_TO_GO[: max(len(usual) - MOST_USUAL, 0)]
    usual = [name for name in usual if name not in spare]
    sections = {
        f"{'Network' if 'train' in config.fit_arguments else 'Model'} options": own,
        "Training options": training,
        "Data and tokenizer options": data,
    }
    return {
        "Usual options": usual,
        **{
            title: [name for name in names if name not in usual]
            for title, names in sections.items()
        },
        "Output options": [],
    }


def _names(config: type[Config]) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]
