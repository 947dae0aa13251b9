"""`seqloom translate MODEL [TEXT]`."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress, tasks
from seqloom.cli.clusters import cluster_options, model_facts, refuse_work, workers
from seqloom.cli.options import common, config_options, finite, given, no_bars, reading
from seqloom.cli.resumable import contents, write_resumable
from seqloom.decoding.configs import TranslationConfig
from seqloom.errors import ConfigError
from seqloom.tasks.reading import TextReading, text_rows

if TYPE_CHECKING:
    from seqloom.contracts import Translator
    from seqloom.contracts.translations import Translation

PORTION = 320  # lines that are translated before any of them is written


@dataclass(frozen=True)
class Job:
    """The models that translate together, and the options of their search."""

    model: Translator
    ensemble: list[Translator]
    config: TranslationConfig
    nbest: int | None
    as_json: bool

    def answers(
        self,
        runs: Iterable[Iterator[Any]],
        n_bytes: int | None = None,
        *,
        done: int = 0,
    ) -> Iterator[tuple[int, Any, list[Translation]]]:
        """Yield the number, the source (a line or an array) and the best translations of each source
        of all runs, in order and with progress over all their bytes; `done`: sources before these.
        """
        before = done
        long = cut = 0
        with progress.task("translating", n_bytes, "bytes") as bar:
            for lines in itertools.chain.from_iterable(map(_portions, runs)):
                with no_bars():
                    translations = self.model.translations(
                        lines,
                        self.config,
                        self.nbest or 1,
                        self.ensemble,
                        first=done,
                        scored=bool(self.as_json or self.nbest),
                    )
                yield from zip(itertools.count(done + 1), lines, translations)
                done += len(lines)
                long += translations.long_sources
                cut += translations.cut_off
                bar.advance(sum(map(_size, lines)))
        self.model.remark_cut_off(cut, done - before, self.config)
        self.model.remark_long_sources(long, done - before)

    def lines(self, number: int, source: Any, best: list[Translation]) -> Iterator[str]:
        """Yield what is written for the source in line `number`."""
        if self.as_json:
            records = [one.to_dict() for one in best]
            values: dict[str, Any] = {"source": source} if isinstance(source, str) else {}
            values |= {"translations": records} if self.nbest else records[0]
            yield json.dumps(finite(values), ensure_ascii=False, allow_nan=False)
        elif self.nbest:
            yield from (f"{number}\t{one.score:.6f}\t{_one_line(one.text)}" for one in best)
        else:
            yield _one_line(best[0].text)

    def written(
        self, runs: Iterable[Iterator[Any]], n_bytes: int | None, done: int
    ) -> Iterator[str]:
        """Yield what is written for each source after those that are done."""
        from seqloom.data.unlabelled import after

        for answer in self.answers(after(runs, done), n_bytes, done=done):
            yield "".join(f"{line}\n" for line in self.lines(*answer))

    def facts(self) -> dict[str, Any]:
        """Return what a resumed translation must share with its beginning, besides models and text."""
        options = self.config.to_dict()
        del options["max_source"]  # which decides whether a line is translated, not how
        return {"options": options, "nbest": self.nbest, "json": self.as_json}


@click.command(
    name="translate",
    epilog="""\b
Examples:
  echo "two dogs run" | seqloom translate model
  seqloom translate model news.en -o news.de --beams 5
  seqloom translate model news.en -o news.de --resume     # goes on where it was interrupted
  seqloom translate model news.en --nbest 3 --json
  seqloom translate model news.en --with model2 --with model3
  seqloom translate model news.en -o news.de --cluster 4  # four processes
  echo "two dogs run" | seqloom translate model --chart alignment.png
  seqloom translate captions features.npy                 # a model whose sources are arrays of numbers
""",
)
@click.argument("model")
@click.argument("text", nargs=-1)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the translations to this file, a line for each line of TEXT.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="With --output: continue an interrupted translation at the line where it stopped.",
)
@click.option(
    "--nbest",
    type=click.IntRange(1, 1000),
    help="The best N translations of each line, each with the number of the line and its score.",
)
@click.option(
    "--with",
    "others",
    multiple=True,
    metavar="MODEL",
    help="Translate with this model too, by the mean of the probabilities; may be repeated.",
)
@click.option(
    "--chart",
    metavar="FILE",
    help="One line of text: draw which source tokens each token of the translation comes "
    "from: .png, .svg, .html.",
)
@cluster_options
@config_options(TranslationConfig)
@reading
@common
def command(
    model: str,
    text: tuple[str, ...],
    output: str | None,
    resume: bool,
    nbest: int | None,
    others: tuple[str, ...],
    chart: str | None,
    cluster: str | None,
    work: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Translate each line of TEXT.

    A line is one source; with --column, each row of a table is one. Without TEXT, or with -,
    standard input is read. If the model reads numbers, TEXT is a file of NumPy (.npy, .npz), or
    each line is a vector: numbers, or a list in JSON.
    """
    if resume and output is None:
        raise ConfigError("--resume continues a file; name it with --output")
    config = TranslationConfig(**given(TranslationConfig, options))
    if nbest and config.search == "sample":
        raise ConfigError("--nbest is for beam search; leave out --search sample")
    texts = TextReading(**given(TextReading, options))
    refuse_work(cluster, work)
    opened = [tasks.open_model("translate", path) for path in (model, *others)]
    job = Job(opened[0], opened[1:], config, nbest, as_json)
    if cluster is not None:
        if chart is not None or resume:
            raise ConfigError(
                f"--cluster is for whole files; leave out {'--chart' if chart else '--resume'}"
            )
        _translate_on(cluster, work, (model, *others), text, job, texts, output)
        return
    runs, n_bytes = _arrays(text, texts) if opened[0].reads_numbers else _lines(text, texts)
    if chart is not None:
        _draw(job, itertools.chain.from_iterable(runs), chart)
    elif output is not None:
        facts = {
            "model": contents(model, *others),
            "text": contents(*text),
            **job.facts(),
            "reading": texts.to_dict(),
        }
        write_resumable(
            output,
            partial(job.written, runs, n_bytes),
            facts,
            resume,
            inputs=text,
            numbered=bool(nbest) and not as_json,
        )
    else:
        with no_bars() if sys.stdout.isatty() else nullcontext():
            for lines in job.written(runs, n_bytes, 0):
                click.echo(lines, nl=False)


def _lines(
    paths: tuple[str, ...], texts: TextReading
) -> tuple[Iterator[Iterator[str]], int | None]:
    """Read the texts, in runs that may be translated together, and the bytes of all, where known."""
    rows = text_rows(paths, texts)
    return rows.texts(), rows.n_bytes


def _arrays(paths: tuple[str, ...], texts: TextReading) -> tuple[Iterator[Iterator[Any]], None]:
    """Read the sources of a model that reads numbers; how many there are is not known."""
    from seqloom.data.translation_forms import number_sources

    return iter([number_sources(paths, encoding=texts.encoding, column=texts.column)]), None


def _portions(run: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield the sources of a run, so many at a time that memory does not depend on how many there are."""
    return iter(lambda: list(itertools.islice(run, PORTION)), [])


def _size(source: Any) -> int:
    """Return the size in bytes."""
    return (
        len(source.encode("utf-8", "surrogatepass")) + 1
        if isinstance(source, str)
        else int(source.nbytes)
    )


def _one_line(text: str) -> str:
    """Join the lines of a text, so that lines of the output match those of the input."""
    return text.replace("\n", " ").replace("\r", " ")


def _draw(job: Job, sources: Iterator[Any], chart: str) -> None:
    """Draw one line with its alignment."""
    from seqloom.charts.theme import check_target
    from seqloom.views import alignment

    check_target(chart)
    lines = list(itertools.islice(sources, 2))
    if len(lines) != 1 or job.ensemble or job.nbest:
        raise ConfigError(
            "--chart draws one line of text, translated by one model; give one line, without "
            "--with and --nbest"
        )
    best = job.model.translations(lines, job.config)[0]
    job.model.remark_cut_off(int(not best[0].finished), 1, job.config)
    alignment(job.model, lines[0], best[0].text).save(chart)
    for line in job.lines(1, lines[0], best):
        click.echo(line)


# ---- on a cluster


def _translate_on(
    cluster: str,
    work: str | None,
    paths: tuple[str, ...],
    text: tuple[str, ...],
    job: Job,
    texts: TextReading,
    output: str | None,
) -> None:
    """Let workers translate, and put their translations together."""
    from seqloom.scale import parts

    if job.model.reads_numbers:
        raise ConfigError("--cluster translates text; this model reads arrays of numbers")
    if output is not None:
        parts.check_output(output, text)
    with workers(cluster, work, output) as given:
        answered = given.answers(
            "seqloom.cli.translate:translate_part",
            text,
            {
                "models": [list(model_facts(path).values()) for path in paths],
                "config": job.config.to_dict(),
                "nbest": job.nbest,
                "as_json": job.as_json,
                "reading": texts.to_dict(),
            },
            "translating",
            encoding=texts.encoding,
            strict=texts.strict,
            tables_only=texts.column is not None,
            by_lines=texts.column is None,
            rows=PORTION,
        )
        if output is None:
            parts.print_all(answered)
        else:
            parts.write_all(answered, output)


def translate_part(
    folder: Path,
    part: dict[str, Any],
    models: list[list[str]],
    config: dict[str, Any],
    nbest: int | None,
    as_json: bool,
    reading: dict[str, Any],
) -> dict[str, Any]:
    """Translate the lines of a part, on a worker."""
    from seqloom.scale import parts
    from seqloom.scale.work import model_at

    first, *others = (model_at(*one) for one in models)
    job = Job(first, others, TranslationConfig.from_dict(config), nbest, as_json)
    before = part["before"]
    if before is None and (job.config.search == "sample" or (nbest and not as_json)):
        raise ConfigError(
            "--nbest and --search sample go by the number of the line; with --cluster give plain text, or "
            "one file"
        )
    runs, n_bytes = _lines(parts.opened(part), TextReading.from_dict(reading))
    answers = job.answers(runs, n_bytes, done=before or 0)
    lines = ("".join(f"{line}\n" for line in job.lines(*answer)) for answer in answers)
    rows = parts.write_lines(folder, lines)
    parts.check(part)
    return {"rows": rows}
