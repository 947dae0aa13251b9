"""What the models of each task read: text, labelled texts or tagged sentences, and the options that say how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from seqloom.cli.options import Choice, read_corpus, reading
from seqloom.errors import ConfigError

LABEL_FORMS = ("auto", "tsv", "csv", "jsonl", "parquet", "lines", "fasttext", "folders")
TAG_FORMS = ("auto", "conll", "conllu", "slash")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

TEXT_COLUMN = click.option("--text-column", metavar="NAME|N", help="Of a table: the column with the text.")
LABEL_COLUMN = click.option("--label-column", metavar="NAME|N", help="Of a table: the column with the label.")
TAG_COLUMN = click.option("--tag-column", metavar="NAME|N", help="CoNLL: the number of the tag's column [default: the last]; "
                          "CoNLL-U: upos, xpos, deprel or a feature  [default: upos].")
SCHEME = click.option("--scheme", type=Choice(["auto", "bio", "iob1", "bioes", "none"]), default="auto",
                      help="How tags mark spans; none: they do not.  [default: auto]")
ENCODING = click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the text files.")


def _form(forms: tuple[str, ...]) -> Decorator:
    return click.option("--form", type=Choice(list(forms)), default="auto", help="Of the data: " + ", ".join(forms[1:])
                        + ".  [default: by name and content]")


def _together(*decorators: Decorator) -> Decorator:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function
    return decorate


@dataclass(frozen=True)
class Source:
    """How the data of a task is named in help, and read."""

    metavar: str
    about: str
    options: Decorator
    names: tuple[str, ...]  # of the options
    read: Callable[[tuple[str, ...], dict[str, Any]], Any]
    valid: str  # what `fit --valid` is
    questions: bool = False  # the model is judged by a file of its own kind, not by held-out data

    def held_out(self, valid: str, how_read: dict[str, Any]) -> Any:
        """The data of --valid; the column is meant for it too where it is a table."""
        from seqloom.data.tables import table_kind

        if self.questions:
            from seqloom.metrics.vectors import as_questions

            return as_questions(Path(valid))
        if "column" in how_read and not table_kind(valid):
            how_read = {**how_read, "column": None}
        return self.read((valid,), how_read)


def _text(paths: tuple[str, ...], options: dict[str, Any]) -> Any:
    return read_corpus(paths, options["encoding"], options["column"])


def _labelled(paths: tuple[str, ...], options: dict[str, Any]) -> Any:
    from seqloom.data.labelled import read_labelled

    return read_labelled(list(paths) or ["-"], form=options["form"], text_column=options["text_column"],
                         label_column=options["label_column"], encoding=options["encoding"])


def _tagged(paths: tuple[str, ...], options: dict[str, Any]) -> Any:
    from seqloom.data.tagged import read_tagged

    return read_tagged(list(paths) or ["-"], form=options["form"], tag_column=options["tag_column"],
                       scheme=options["scheme"], encoding=options["encoding"])


SOURCES = {
    "language model": Source("TEXT", "files, directories or patterns; none, or -, is standard input.", reading,
                             ("encoding", "column"), _text, "Held-out text: the model is judged on it after fitting."),
    "word vectors": Source("TEXT", "files, directories or patterns; none, or -, is standard input.", reading,
                           ("encoding", "column"), _text, "Analogies or pairs of words with similarities: the vectors are "
                           "judged on it after fitting.", questions=True),
    "classifier": Source("DATA", "texts with labels: .tsv, .csv, .jsonl, .parquet, `label text` lines, fastText's "
                         "`__label__x text`, or a directory with one folder a class; none, or -, is standard input.",
                         _together(_form(LABEL_FORMS), TEXT_COLUMN, LABEL_COLUMN, ENCODING),
                         ("form", "text_column", "label_column", "encoding"), _labelled,
                         "Held-out data: the model is judged on it after fitting."),
    "tagger": Source("DATA", "sentences with tags: CoNLL columns, CoNLL-U, or word/TAG; none, or -, is standard input.",
                     _together(_form(TAG_FORMS), TAG_COLUMN, SCHEME, ENCODING),
                     ("form", "tag_column", "scheme", "encoding"), _tagged,
                     "Held-out data: the model is judged on it after fitting."),
}
ALL_OPTIONS = _together(_form(tuple(dict.fromkeys(LABEL_FORMS + TAG_FORMS))), TEXT_COLUMN, LABEL_COLUMN, TAG_COLUMN, SCHEME,
                        reading)


def read_for(task: str, paths: tuple[str, ...], options: dict[str, Any]) -> Any:
    """The data for a model of that task; options that belong to another task are refused."""
    source = SOURCES[task]
    for name, value in options.items():
        if name not in source.names and value not in (None, "auto"):
            raise ConfigError(f"{_flag(name)} does not apply to a {task}; what does: {', '.join(map(_flag, source.names))}")
    return source.read(paths, options)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
