"""Translators: pairs of sources and targets in, targets of new sources out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seqloom.config import Config, defaults, option
from seqloom.decoding.configs import TranslationConfig
from seqloom.errors import ConfigError, quoted
from seqloom.tasks.task import Command, Outcome, Task, Verb, in_one_field, texts_in

if TYPE_CHECKING:
    from seqloom.charts.page import Sheet
    from seqloom.contracts import Translator
    from seqloom.data.translation import Parallel
    from seqloom.metrics.result import Result

SCORED = 1000  # pairs that are scored together


@dataclass(frozen=True, kw_only=True)
class PairsReading(Config):
    form: Literal["auto", "lines", "tsv", "csv", "jsonl", "parquet"] = option(
        "auto",
        "Format of the data: lines (two files, line by line), tsv, csv, jsonl, parquet; auto: by "
        "name and content.",
    )
    source: str | None = option(
        None,
        "The column of the sources, by name or number, or what the first of two files is called  "
        "[default: by name, else the first].",
        metavar="NAME|N",
    )
    target: str | None = option(
        None, "The same of the targets  [default: by name, else the second].", metavar="NAME|N"
    )
    separator: str | None = option(None, "Lines of source, this separator, target.", metavar="TEXT")
    encoding: str = option("utf-8", "Encoding of the text files.")
    memory: str | None = option(
        None,
        "Texts of more bytes (800M, 2G) are kept in a temporary file  [default: 2G].",
        metavar="SIZE",
    )


@dataclass(frozen=True, kw_only=True)
class PairsFiltering(PairsReading):
    """Where pairs are learnt from."""

    drop: Literal["nothing", "empty", "duplicates", "copies", "all"] = option(
        "nothing",
        "Pairs to leave out: empty (with an empty side); duplicates or copies (the target is the "
        "source), and empty ones; all of these. What was dropped is said.",
    )


@dataclass(frozen=True, kw_only=True)
class PairsEvaluation(TranslationConfig):
    """Options of `evaluate`: how to translate, and the chart."""

    chart: str | None = option(
        None, "Draw the quality by length of the source: .png, .svg, .html.", metavar="FILE"
    )


@dataclass(frozen=True, kw_only=True)
class Translated(TranslationConfig):
    """Options of a request to translate."""

    nbest: int | None = option(
        None, "The best N translations of each source.", minimum=1, maximum=1000
    )


def _sources(model: Translator, values: list[Any]) -> Any:
    """Return the sources of a request: texts, or arrays where the model reads numbers."""
    if not model.reads_numbers:
        return texts_in(values)
    import numpy as np

    try:
        return [np.array(value, np.float32) for value in values]
    except (TypeError, ValueError):
        raise ConfigError(
            "inputs must be lists of numbers, or of rows of them", ["inputs"]
        ) from None


def _translate_inputs(
    model: Translator, inputs: list[Any], options: Translated
) -> Iterator[dict[str, Any]]:
    if options.nbest and options.search == "sample":
        raise ConfigError(
            "nbest is for beam search; leave out nbest or search", ["nbest", "search"]
        )
    values = options.all_options()
    nbest = values.pop("nbest")
    best = model.translations(
        _sources(model, inputs), TranslationConfig(**values), nbest or 1, scored=True
    )
    for translations in best:
        records = [one.to_dict() for one in translations]
        yield {"translations": records} if nbest else records[0]


def _score_inputs(
    model: Translator, inputs: list[Any], options: Config
) -> Iterator[dict[str, Any]]:
    for at, pair in enumerate(inputs):
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str)):
            raise ConfigError(
                f"inputs[{at}] must be a list of a source and a target; got {quoted(pair)}",
                ["inputs"],
            )
    sources, targets = [pair[0] for pair in inputs], [pair[1] for pair in inputs]
    scores = model.token_scores(_sources(model, sources), targets)
    return ({"score": float(one.sum()), "target": target} for one, target in zip(scores, targets))


class Translating(Task):
    name, phrase = "translator", "a translator"
    ladder = "seqloom.comparison.translation:TranslationLadder"
    data_help = (
        "pairs: a table (.tsv, .csv, .jsonl, .parquet) with a column of sources and one of "
        "targets, or two files "
        "with a source and its target in the same line; none, or -, is standard input."
    )
    reading, evaluation, scoring = PairsFiltering, PairsEvaluation, PairsReading
    commands: ClassVar = {
        "translate": Command("seqloom.cli.translate:command", "Translate each line of a text."),
        "score": Command("seqloom.cli.score:command", "Log-probability of each line of a text."),
        "inspect trace": Command(
            "seqloom.cli.translation_views:trace_command",
            "A translation token by token: beam, candidates, attention.",
            "writes_tokens",
        ),
        "inspect exposure-bias": Command(
            "seqloom.cli.translation_views:exposure_command",
            "Teacher forcing against free running, in nats per token.",
            "writes_tokens",
        ),
    }

    def verbs(self) -> dict[str, Verb]:
        return {
            "translate": Verb(
                _translate_inputs,
                "The translation of each source, or the best few.",
                "a source; for a model that reads numbers, a list of them or of rows of them",
                Translated,
                tuple(defaults(Translated)),
            ),
            "score": Verb(
                _score_inputs,
                "The natural-log probability of each target given its source.",
                "a list of a source and a target",
            ),
        }

    def read(self, paths: tuple[str, ...], reading: PairsReading) -> Parallel:
        from seqloom.data.translation import read_parallel

        options = reading.to_dict()
        drop = options.pop("drop", "nothing")
        data = read_parallel(list(paths) or ["-"], **options)
        if drop == "nothing":
            return data
        from seqloom.data.translation_report import filter_pairs

        return filter_pairs(
            data,
            drop_copies=drop in ("copies", "all"),
            drop_duplicates=drop in ("duplicates", "all"),
        )

    def read_valid(self, path: str, reading: PairsReading) -> Parallel:
        """Read held-out pairs; nothing is left out."""
        return self.read(
            (path,),
            PairsReading(
                **{key: value for key, value in reading.to_dict().items() if key != "drop"}
            ),
        )

    def evaluate_paths(
        self,
        model: Translator,
        paths: tuple[str, ...],
        reading: PairsReading,
        evaluation: PairsEvaluation,
    ) -> Result:
        return model.evaluate(self.read(paths, reading), how=evaluation)

    def chart(self, result: Result) -> Sheet:
        from seqloom.views import quality_by_length

        return quality_by_length(result)

    def score(
        self, model: Translator, paths: tuple[str, ...], reading: PairsReading, tokens: bool
    ) -> Iterator[Outcome]:
        """Yield the score of each target given its source, or of each of its tokens."""
        data = self.read(paths, reading)
        for start in range(0, len(data), SCORED):
            some = data.part(slice(start, start + SCORED))
            each = zip(some.sources, some.targets, model.token_scores(some.sources, some.targets))
            for number, (source, target, scores) in enumerate(each, start + 1):
                if tokens:
                    yield from _by_token(model, number, target, scores.tolist())
                    continue
                shown = {"source": source} if isinstance(source, str) else {}
                text = "\t".join([f"{scores.sum():.6f}", *shown.values(), target])
                yield Outcome(text, {"score": float(scores.sum()), **shown, "target": target})

    def examples(self, data: Parallel) -> list[Any]:
        return super().examples(data) if data.numeric else data.source_texts

    def use(self, model: Translator) -> Any:
        return model.translate

    # ---- files of other programs

    foreign_forms: ClassVar[tuple[str, ...]] = ("g2p",)

    def open_file(self, path: Path) -> Any:
        from seqloom import interop

        return interop.open(path) if self.recognises(path) else None

    def converted(self, model: Translator) -> Outcome:
        sizes = {side: tokenizer.vocab_size for side, tokenizer in model.tokenizers.items()}
        return Outcome(
            f"{model.label()}, tokens of {', '.join(f'{side}s: {n:,}' for side, n in sizes.items())}",
            {"model": model.name, "tokens": sizes},
        )


def _by_token(
    model: Translator, number: int, target: str, scores: list[float]
) -> Iterator[Outcome]:
    for token, log_prob in zip(model.target_ids([target])[0].tolist(), scores):
        name = model.target_tokenizer.token(token)
        yield Outcome(
            f"{in_one_field(name)}\t{log_prob:.6f}",
            {"unit": number, "token": name, "log_prob": log_prob},
        )
