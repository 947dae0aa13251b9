"""`seqloom fit MODEL TEXT -o DIR`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress
from seqloom.cli.fitting import counting_options, prepare, train_and_save, training_options
from seqloom.cli.options import common, config_options, emit, given, read_corpus, reading
from seqloom.errors import suggest
from seqloom.registry import MODELS, config_class, model_class

if TYPE_CHECKING:
    from seqloom.data.corpus import Corpus

EXAMPLES = {
    "ngram": "  seqloom fit ngram corpus.txt -o model --order 5\n"
             "  cat *.txt | seqloom fit ngram - -o chars --tokenizer char --unit stream --order 6",
    "mixture": "  seqloom fit mixture heldout.txt -o mix --members model3,model5\n"
               "  seqloom fit mixture heldout.txt -o mix --members model,cache --valid test.txt",
    "cache": "  seqloom fit cache corpus.txt -o cache --tokenizer model      # the tokenizer of a saved model\n"
             "  seqloom fit cache corpus.txt -o cache --window 2000 --unit stream",
    "neural-cache": "  seqloom fit neural-cache heldout.txt -o cached --member model\n"
                    "  seqloom fit neural-cache heldout.txt -o cached --member model --window 500 --valid test.txt",
    "lstm": "  seqloom fit lstm corpus.txt -o model --minutes 10\n"
            "  seqloom fit lstm corpus.txt -o chars --tokenizer byte --d-hidden 256 --epochs 5",
    "uniform": "  seqloom fit uniform corpus.txt -o uniform\n"
               "  seqloom fit uniform corpus.txt -o uniform --tokenizer word --unit line",
}


class ModelGroup(click.Group):
    """One sub-command for each registered model, its options made from the model's config."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODELS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command_for(cmd_name) if cmd_name in MODELS else None

    def resolve_command(self, ctx: click.Context,
                        args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in MODELS and not args[0].startswith("-"):
            raise click.UsageError(f"unknown model {args[0]!r}{suggest(args[0], MODELS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl([(name, entry.summary) for name, entry in MODELS.items()])


@click.group(cls=ModelGroup, name="fit", epilog="""\b
Examples:
  seqloom fit ngram corpus.txt -o model
  seqloom fit ngram --help
""")
def command() -> None:
    """Train a model on text and save it."""


def _command_for(name: str) -> click.Command:
    entry, options_class = MODELS[name], config_class(name)
    example = EXAMPLES.get(name, f"  seqloom fit {name} corpus.txt -o model\n  seqloom fit {name} - -o model < a.txt")
    about = f"Fit: {entry.summary}.\n\nTEXT: files, directories or patterns; none, or -, is standard input."

    @click.command(name=name, help=about, epilog=f"\b\nExamples:\n{example}\n")
    @click.argument("text", nargs=-1)
    @click.option("-o", "--output", required=True, metavar="DIR", help="Where the model is saved.")
    @click.option("--valid", metavar="FILE", help="Held-out text: its perplexity is reported after fitting.")
    @reading
    @config_options(options_class)
    @(training_options if entry.trained else counting_options)
    @common
    def fit(text: tuple[str, ...], output: str, valid: str | None, encoding: str, column: str | None, as_json: bool,
            **options: Any) -> None:
        from seqloom.storage import check_target

        model = model_class(name)(**given(options_class, options))
        check_target(output)
        how = prepare(name, output, options) if entry.trained else None
        corpus = read_corpus(text, encoding, column)
        held_out = None if valid is None else _held_out(valid, encoding, column)
        start = time.perf_counter()
        if how is not None:
            train_and_save(model, corpus, held_out, output, how)
        else:
            model.fit(corpus, memory=options["memory"])
            model.save(output)
        _show(model, output, time.perf_counter() - start, held_out, as_json)

    return fit


def _show(model: Any, output: str, spent: float, held_out: Corpus | None, as_json: bool) -> None:
    if orders := model.fit_info.get("fallbacks"):
        progress.say(f"too few counts to estimate all discounts of order {', '.join(orders)}; "
                     f"what was used instead: seqloom info {output}")
    result = None if held_out is None else model.evaluate(held_out)
    if as_json:
        values = {"model": output, "label": model.label(), "seconds": round(spent, 3), **model.fit_info}
        emit(values | ({"valid": result.to_dict()} if result else {}))
        return
    click.echo(f"{output}: {model.label()}, {model.tokens().label()}, {model.fit_info['tokens']:,} tokens, "
               f"{model.parameters:,} parameters, {spent:.1f} s")
    if result:
        click.echo(str(result))


def _held_out(valid: str, encoding: str, column: str | None) -> Corpus:
    """The text of --valid; the column is meant for it too where it is a table."""
    from seqloom.data.tables import table_kind

    return read_corpus((valid,), encoding, column if table_kind(valid) else None)
