"""`seqloom fit MODEL TEXT -o DIR`."""

from __future__ import annotations

import time
from typing import Any

import click

from seqloom import progress, tasks
from seqloom.cli.clusters import refuse_work, workers
from seqloom.cli.fitting import (
    SectionedCommand,
    fit_and_save,
    fit_sections,
    fitting_options,
    make_model,
    prepare,
    show_estimate,
    show_sweep,
)
from seqloom.cli.options import common, config_options, emit, given
from seqloom.errors import suggest
from seqloom.registry import MODELS, Entry, config_class, load_plugins

EXAMPLES = {
    "ngram": "  seqloom fit ngram corpus.txt -o model --order 5\n"
    "  cat *.txt | seqloom fit ngram - -o chars --tokenizer char --unit stream --order 6\n"
    "  seqloom fit ngram crawl/*.txt -o model --cluster 8            # eight processes count",
    "mixture": "  seqloom fit mixture heldout.txt -o mix --members model3,model5\n"
    "  seqloom fit mixture heldout.txt -o mix --members model,cache --valid test.txt",
    "cache": "  seqloom fit cache corpus.txt -o cache --tokenizer model      # the tokenizer of a "
    "saved model\n"
    "  seqloom fit cache corpus.txt -o cache --window 2000 --unit stream",
    "neural-cache": "  seqloom fit neural-cache heldout.txt -o cached --member model\n"
    "  seqloom fit neural-cache heldout.txt -o cached --member model --window 500 --valid test.txt",
    "lstm": "  seqloom fit lstm corpus.txt -o model --minutes 10\n"
    "  seqloom fit lstm corpus.txt -o chars --tokenizer byte --d-hidden 256 --epochs 5\n"
    "  seqloom fit lstm more.txt -o model2 --start model      # goes on with the weights of a model",
    "hmm": "  seqloom fit hmm corpus.txt -o model --states 32\n"
    "  seqloom fit hmm corpus.txt -o model --tokenizer bpe --states 64 --restarts 3",
    "naive-bayes": "  seqloom fit naive-bayes reviews.tsv -o model --ngrams 2\n"
    "  seqloom fit naive-bayes train.jsonl -o model --label-column stars --valid test.jsonl",
    "logistic": "  seqloom fit logistic reviews.tsv -o model --ngrams 2 --C 10\n"
    "  seqloom fit logistic tickets.jsonl -o model --label-column queue --class-weights balanced",
    "fasttext-classifier": "  seqloom fit fasttext-classifier reviews.tsv -o model --ngrams 2 --quantise\n"
    "  seqloom fit fasttext-classifier train.tsv -o model --valid dev.tsv --tune --minutes 2",
    "classifier": "  seqloom fit classifier reviews.tsv -o model --encoder cnn --valid dev.tsv\n"
    "  seqloom fit classifier reviews.tsv -o model --encoder bilstm --pretrained glove.txt --minutes 5\n"
    "  seqloom fit classifier reviews.tsv -o model --encoder converted --frozen      # by seqloom convert\n"
    "  seqloom fit classifier nli.tsv -o model --encoder converted --text-column a --pair-column b\n"
    "  seqloom fit classifier heartbeats.tsv -o model --form numbers --encoder bigru",
    "tagger": "  seqloom fit tagger train.conllu -o model --valid dev.conllu --minutes 5\n"
    "  seqloom fit tagger names.conll -o model --pretrained glove.txt",
    "answerer": "  seqloom fit answerer train.json -o model --valid dev.json --minutes 10\n"
    "  seqloom fit answerer questions.jsonl -o model --encoder converted      # by seqloom convert",
    "forecaster": "  seqloom fit forecaster load.csv -o model --horizon 24\n"
    "  seqloom fit forecaster load.csv -o model --encoder transformer --window 336",
    "hmm-tagger": "  seqloom fit hmm-tagger train.conllu -o model --valid dev.conllu\n"
    "  seqloom fit hmm-tagger names.conll -o model --scheme iob1",
    "linear-window": "  seqloom fit linear-window load.csv -o model --horizon 24 --window 336\n"
    "  seqloom fit linear-window sales.csv -o model --key-column shop --known-columns holiday",
    "word2vec": "  seqloom fit word2vec corpus.txt -o vectors --tokenizer word --normalize case=lower\n"
    "  seqloom fit word2vec corpus.txt -o vectors --architecture cbow --epochs 10 --valid "
    "questions-words.txt\n"
    "  seqloom fit word2vec more.txt -o vectors2 --start vectors",
    "glove": "  seqloom fit glove corpus.txt -o vectors --dimensions 50\n"
    "  seqloom fit glove corpus.txt -o vectors --window 10 --memory 2G",
    "fasttext": "  seqloom fit fasttext corpus.txt -o vectors --tokenizer word --normalize case=lower\n"
    "  seqloom fit fasttext corpus.txt -o vectors --min-ngram 2 --max-ngram 5",
    "uniform": "  seqloom fit uniform corpus.txt -o uniform\n"
    "  seqloom fit uniform corpus.txt -o uniform --tokenizer word --unit line",
}


def fitted() -> dict[str, Entry]:
    """Return the models that can be fitted, including those of other packages."""
    load_plugins()
    return {name: entry for name, entry in MODELS.items() if entry.fitted}


class ModelGroup(click.Group):
    """One sub-command for each registered model, its options made from the model's config."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(fitted())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command_for(cmd_name) if cmd_name in fitted() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in fitted() and not args[0].startswith("-"):
            if args[0] in MODELS:
                raise click.UsageError(
                    f"{args[0]} is not fitted here but converted from a file or directory of another "
                    "program: seqloom convert SOURCE TARGET",
                    ctx,
                )
            raise click.UsageError(f"unknown model {args[0]!r}{suggest(args[0], fitted())}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl([(name, entry.summary) for name, entry in fitted().items()])


@click.group(
    cls=ModelGroup,
    name="fit",
    epilog="""\b
Examples:
  seqloom fit ngram corpus.txt -o model
  seqloom fit ngram --help
""",
)
def command() -> None:
    """Train a model on text, labelled texts, tagged sentences or series, and save it."""


def _command_for(name: str) -> click.Command:
    options_class, task = config_class(name), tasks.get(MODELS[name].task)
    usual = "series.csv" if MODELS[name].task == "forecaster" else "corpus.txt"
    example = EXAMPLES.get(
        name, f"  seqloom fit {name} {usual} -o model\n  seqloom fit {name} - -o model < {usual}"
    )
    about = f"Fit {name}: {MODELS[name].summary}.\n\n{task.data}: {task.data_help}"

    @click.command(
        cls=SectionedCommand,
        name=name,
        help=about,
        epilog=f"\b\nExamples:\n{example}\n",
        sections=fit_sections(options_class, task),
    )
    @click.argument("paths", nargs=-1, metavar=f"[{task.data}]...")
    @click.option(
        "-o", "--output", required=True, metavar="DIR", help="Directory to save the model in."
    )
    @click.option("--valid", metavar="FILE", help=task.valid_help)
    @config_options(task.reading)
    @config_options(options_class)
    @fitting_options(options_class)
    @common
    def fit(
        paths: tuple[str, ...], output: str, valid: str | None, as_json: bool, **options: Any
    ) -> None:
        from seqloom.cli.several import one_of_several, started_several
        from seqloom.storage import check_target
        from seqloom.training.ranks import is_first

        if started_several(name, paths, output, options):
            return
        with one_of_several(options.get("device")):
            reading = task.reading(**given(task.reading, options))
            model, start = make_model(name, options_class, options)
            check_target(output)
            plan = prepare(name, options_class, output, options)
            cluster, work, parts = (options.get(each) for each in ("cluster", "work", "parts"))
            refuse_work(cluster, work, parts)
            with plan.held():
                learnt = task.read(paths, reading)
                held_out = None if valid is None else task.read_valid(valid, reading)
                if options.get("dry_run"):
                    show_estimate(model, learnt, held_out, plan, start, as_json)
                    return
                if sizes := options.get("sweep"):
                    show_sweep(model, learnt, held_out, sizes, plan, start, as_json)
                    return
                begun = time.perf_counter()
                if cluster is None:
                    fit_and_save(model, learnt, held_out, output, plan, start)
                else:
                    begun = _fit_on(cluster, work, parts, model, learnt, output, options["memory"])
                spent = time.perf_counter() - begun
            if is_first():
                _show(model, output, spent, held_out, as_json)

    return fit


def _fit_on(
    cluster: str,
    work: str | None,
    parts: int | None,
    model: Any,
    corpus: Any,
    output: str,
    memory: str | None,
) -> float:
    """Let workers count, then save; return when they had started."""
    from seqloom.config import parse_size
    from seqloom.scale.corpora import SharedCorpus
    from seqloom.scale.counting import fit_ngrams

    limit = None if memory is None else parse_size(memory)
    with workers(cluster, work, output) as given_workers:
        begun = time.perf_counter()
        shared = SharedCorpus.of(corpus, given_workers.cluster, given_workers.folder, parts)
        fit_ngrams(model, shared, limit)
        model.save(output)
    return begun


def _show(model: Any, output: str, spent: float, held_out: Any, as_json: bool) -> None:
    if orders := model.fit_info.get("fallbacks"):
        progress.say(
            f"too few counts to estimate all discounts of order {', '.join(orders)}; "
            f"see seqloom info {output} for what was used instead"
        )
    if model.fit_info.get("tuning"):
        progress.say(
            "the settings were tuned on the --valid data, so its results are optimistic; evaluate "
            "on other data"
        )
    result = None if held_out is None else model.evaluate(held_out)
    if as_json:
        values = {
            "model": output,
            "label": model.label(),
            "seconds": round(spent, 3),
            **model.learnt,
            **model.fit_info,
        }
        emit(values | ({"valid": result.to_dict()} if result else {}))
        return
    click.echo(
        f"{output}: {model.label()}, {model.summary()}, {model.parameters:,} parameters, {spent:.1f} s"
    )
    if result:
        click.echo(str(result))
