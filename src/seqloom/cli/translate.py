"""`seqloom translate MODEL [TEXT]`.

A file of translations is written line by line and can be continued after an interruption. While it is
incomplete it has the ending `.part` and, beside it, a small `.part.json` that says what
it is made of, so that it is never continued with another model, other options or another text.
Lines are written as soon as they are known; whatever ends the process, the complete lines stay, and
half a line at the end is written again. The finished file takes its name at the end.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress, tasks
from seqloom.cli.options import common, config_options, finite, given, no_bars, reading
from seqloom.decoding.configs import TranslationConfig
from seqloom.describing import differences
from seqloom.directories import locked
from seqloom.errors import ConfigError, DataError
from seqloom.tasks.task import TextReading, text_units

if TYPE_CHECKING:
    from seqloom.contracts import Translator
    from seqloom.contracts.translations import Translation


HASHED = ("model", "text")  # what is recorded by its contents


def write_resumable(
    target: str,
    sources: Iterator[Any],
    n_bytes: int | None,
    job: Job,
    facts: dict[str, Any],
    resume: bool,
) -> None:
    """Translate all sources, of so many bytes, into the file; `facts`: what a continued file must
    have in common with its beginning.
    """
    path = Path(target)
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(
            f"{target} is a directory; name a file"
            if path.is_dir()
            else f"{path.parent} is no directory; make it, or name another file"
        )
    part, record = (path.with_name(path.name + end) for end in (".part", ".part.json"))
    with locked(
        path.with_name(f".{path.name}.lock"),
        lambda who: f"{target} is being written by {who}; wait for it",
    ):
        done, size = _begin(part, record, facts, resume)
        if done:
            progress.say(f"continuing {target} after line {done:,}")
            _skip(sources, done, target)
        count = done
        try:
            with part.open("r+b") as file:
                file.truncate(size)
                file.seek(size)
                for count, source, best in job.answers(sources, n_bytes, done=done):
                    file.write(
                        "".join(f"{line}\n" for line in job.lines(count, source, best)).encode(
                            "utf-8", "replace"
                        )
                    )
                    file.flush()
        except KeyboardInterrupt as error:
            raise type(error)(
                f"interrupted; {count:,} lines are in {part}; run the same command with --resume to "
                "continue"
            ) from None
        os.replace(part, path)
        record.unlink(missing_ok=True)
    progress.say(f"{target}: {count:,} lines")


def _begin(part: Path, record: Path, facts: dict[str, Any], resume: bool) -> tuple[int, int]:
    """Return how many sources are done, and the bytes that they take; ensure that the files exist."""
    if part.exists() and record.exists():
        if not resume:
            raise ConfigError(
                f"{part} is an unfinished translation; continue it with --resume, or delete it to begin anew"
            )
        _check_same(part, record, facts)
        return _complete(part.read_bytes(), numbered=bool(facts["nbest"]) and not facts["json"])
    part.write_bytes(b"")
    temporary = record.with_name(f".{record.name}.new")
    temporary.write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, record)
    return 0, 0


def _check_same(part: Path, record: Path, facts: dict[str, Any]) -> None:
    try:
        before = dict(json.loads(record.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise DataError(
            f"{record} cannot be read, so {part} cannot be continued; delete both to begin anew"
        ) from None
    now = json.loads(json.dumps(facts))
    other = [f"another {name}" for name in HASHED if before.get(name) != now[name]]
    if options := differences(
        *({k: v for k, v in one.items() if k not in HASHED} for one in (before, now))
    ):
        other.append(f"other options ({'; '.join(options)})")
    if other:
        raise ConfigError(
            f"{part} was begun with {' and '.join(other)}; give the same as before, or delete it "
            f"to begin anew"
        )


def _complete(data: bytes, *, numbered: bool) -> tuple[int, int]:
    """Count the sources with all their lines written, and the bytes of these lines. Some of the n
    best of the last source may be missing.

    >>> _complete("eins\\nzwei\\ndr".encode(), numbered=False)
    (2, 10)
    >>> _complete(b"1\\t-0.1\\ta\\n1\\t-0.2\\tb\\n2\\t-0.1\\tc\\n2\\t-0", numbered=True)
    (1, 18)
    """
    lines = data.split(b"\n")[:-1]
    if numbered:
        numbers = [int(line.split(b"\t", 1)[0]) for line in lines]
        lines = lines[: numbers.index(numbers[-1])] if numbers else []
        done = numbers[len(lines)] - 1 if numbers else 0
    return done if numbered else len(lines), sum(len(line) + 1 for line in lines)


def contents(*names: str) -> list[str]:
    """Return a hash of the contents of each file or directory; for others, such as standard input,
    the name.
    """
    digests = []
    for name in names:
        hasher, path = hashlib.sha256(), Path(name)
        files = (
            [path]
            if path.is_file()
            else sorted(part for part in path.rglob("*") if part.is_file())
            if path.is_dir()
            else []
        )
        for part in files:
            with part.open("rb") as file:
                hasher.update(hashlib.file_digest(file, "sha256").digest())
        digests.append(hasher.hexdigest()[:16] if files else name)
    return digests


def _skip(sources: Iterator[Any], done: int, target: str) -> None:
    skipped = sum(1 for _ in itertools.islice(sources, done))
    if skipped < done:
        raise DataError(
            f"the text has {skipped:,} lines, but {done:,} of {target} are translated already: it is "
            f"another text"
        )


# ---- translate

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
        sources: Iterator[Any],
        n_bytes: int | None = None,
        *,
        portion: int | None = None,
        done: int = 0,
    ) -> Iterator[tuple[int, Any, list[Translation]]]:
        """Yield the number, the source (a line or an array) and the best translations of each source,
        in order and with progress over all their bytes; `done`: sources before these.
        """
        before = done
        long = cut = 0
        with progress.task("translating", n_bytes, "bytes") as bar:
            while lines := list(itertools.islice(sources, portion or PORTION)):
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

    def facts(self) -> dict[str, Any]:
        """Return what a resumed translation must share with its beginning, besides models and text."""
        return {"options": self.config.to_dict(), "nbest": self.nbest, "json": self.as_json}


@click.command(
    name="translate",
    epilog="""\b
Examples:
  echo "two dogs run" | seqloom translate model
  seqloom translate model news.en -o news.de --beams 5
  seqloom translate model news.en -o news.de --resume     # goes on where it was interrupted
  seqloom translate model news.en --nbest 3 --json
  seqloom translate model news.en --with model2 --with model3
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
    opened = [tasks.open_model("translate", path) for path in (model, *others)]
    job = Job(opened[0], opened[1:], config, nbest, as_json)
    sources, n_bytes = _arrays(text, texts) if opened[0].reads_numbers else text_units(text, texts)
    if chart is not None:
        _draw(job, sources, chart)
    elif output is not None:
        facts = {
            "model": contents(model, *others),
            "text": contents(*text),
            **job.facts(),
            "reading": texts.to_dict(),
        }
        write_resumable(output, sources, n_bytes, job, facts, resume)
    else:
        typed = sys.stdin.isatty() and (not text or "-" in text)
        with no_bars() if sys.stdout.isatty() else nullcontext():
            for number, source, best in job.answers(sources, n_bytes, portion=1 if typed else None):
                for line in job.lines(number, source, best):
                    click.echo(line)


def _arrays(paths: tuple[str, ...], texts: TextReading) -> tuple[Iterator[Any], None]:
    """Read the sources of a model that reads numbers; how many there are is not known."""
    from seqloom.data.translation_forms import number_sources

    return number_sources(paths, encoding=texts.encoding, column=texts.column), None


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
