"""The help of `fit`: options under headings, the usual ones first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from seqloom.config import TextConfig

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.tasks.task import Task

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
    """A command whose options are listed by section; what no section names stands in the last."""

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
    """The options of `fit` by what they are about, which is said by the config that they come from."""
    from seqloom.training.config import TrainConfig

    data = [*_names(task.reading), *_names(TextConfig)]
    own = [name for name in _names(config) if name not in data]
    training = ([*_names(TrainConfig), "device"] if "train" in config.fit_arguments else []) + [
        "memory",
        "restart",
    ]
    training += ["start"] if "start" in config.fit_arguments else []
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
