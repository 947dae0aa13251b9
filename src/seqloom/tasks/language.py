"""Language models: text in, likelihoods and text out; scores of units, many together, or of tokens."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from seqloom.config import Config, OnlyWith, option
from seqloom.errors import ConfigError
from seqloom.tasks.reading import TextReading, read_held_out_text, read_text, rows_by
from seqloom.tasks.task import Command, Outcome, Task, Verb, check_chart, in_one_field, texts_in

if TYPE_CHECKING:
    from seqloom.contracts import LanguageModel
    from seqloom.data.corpus import Corpus
    from seqloom.data.documents import Document
    from seqloom.data.tables import Table


BATCH = 10_000  # texts that are scored together
MAX_CHARACTERS = 1 << 22  # of their characters
MOST_NATS = (
    50.0  # that a token counts when texts are compared: one of probability zero hides nothing
)


def text_scores(model: LanguageModel, scored: Iterator[tuple[str, float]]) -> Iterator[Outcome]:
    """Yield the score of each line, or of what is longer."""
    key = "text" if model.unit == "line" else "name"
    return (
        Outcome(f"{value:.6f}\t{shown}", {"score": value, key: shown}) for shown, value in scored
    )


def token_scores(model: Any, texts: Iterator[str]) -> Iterator[Outcome]:
    """Yield the log-probability of each token; of n-gram models also the order that matched, and
    whether it is unknown.
    """
    for number, unit in enumerate(texts, 1):
        if hasattr(model, "full_scores"):
            for token, log_prob, order, oov in model.full_scores(unit):
                yield Outcome(
                    f"{in_one_field(token)}\t{log_prob:.6f}\t{order}" + ("\toov" if oov else ""),
                    {
                        "unit": number,
                        "token": token,
                        "log_prob": log_prob,
                        "order": order,
                        "oov": oov,
                    },
                )
            continue
        ids, _ = model.encode(unit)
        for token, log_prob in zip(ids, model.token_scores([unit])[0]):
            name = model.tokenizer.token(int(token))
            yield Outcome(
                f"{in_one_field(name)}\t{log_prob:.6f}",
                {"unit": number, "token": name, "log_prob": log_prob},
            )


def units(corpus: Corpus, unit: str) -> Iterator[str]:
    """Yield what the model scores as one."""
    if unit == "line":
        return corpus.lines()
    return (
        iter([corpus.text()]) if unit == "stream" else (text for _, text in corpus.each_document())
    )


def _scores(model: LanguageModel, corpus: Corpus) -> Iterator[tuple[str, float]]:
    """Yield each line, or the name of what is longer, and its score."""
    from seqloom.contracts.reading import tally
    from seqloom.data.corpus import Corpus

    if model.unit == "line":
        yield from _scored_together(model, ((line, line) for line in corpus.lines()))
    elif model.unit == "stream":
        yield corpus.name, 0.0 - tally(model, corpus).nats
    else:
        for small, documents in itertools.groupby(corpus.documents, _small):
            if small:
                yield from _scored_together(
                    model, (pair for document in documents for pair in document.documents())
                )
            else:
                yield from (
                    (d.name, 0.0 - tally(model, Corpus([d], d.name)).nats) for d in documents
                )


def _small(document: Document | Table) -> bool:
    """Return whether the document holds texts that can be scored many at a time."""
    from seqloom.data.tables import Table

    size = document.size()
    return isinstance(document, Table) or (size is not None and size < MAX_CHARACTERS)


def _scored_together(
    model: LanguageModel, texts: Iterator[tuple[str, str]]
) -> Iterator[tuple[str, float]]:
    """Yield names and scores of texts, scored together, but long ones only a few at a time."""
    batch: list[tuple[str, str]] = []
    size = 0
    for pair in itertools.chain(texts, [None]):
        if pair is not None:
            batch.append(pair)
            size += len(pair[1])
        if pair is None or len(batch) == BATCH or size > MAX_CHARACTERS:
            yield from zip((name for name, _ in batch), model.score([text for _, text in batch]))
            batch, size = [], 0


# ---- language


@dataclass(frozen=True, kw_only=True)
class LanguageEvaluation(Config):
    only_with: ClassVar[OnlyWith] = {"dynamic_lr": {"dynamic": (True,)}}

    against: str | None = option(
        None,
        "A second language model to evaluate on the same text, with the paired difference.",
        metavar="MODEL",
    )
    sparsity: bool = option(
        False,
        "For n-gram models: how many n-grams are possible, how many the model has, and how many of "
        "the text's it has.",
        negatable=False,
    )
    chart: str | None = option(
        None,
        "Draw bits along the text, token costs and calibration, or a confusion matrix: .png, "
        ".svg, .html.",
        metavar="FILE",
    )
    dynamic: bool = option(
        False,
        "For networks: dynamic evaluation, which learns from each stretch of text after scoring it; "
        "the saved model does not change.",
        negatable=False,
    )
    dynamic_lr: float | None = option(
        None, "Learning rate of --dynamic  [default: 0.001]", minimum=0, maximum=1e6
    )


@dataclass(frozen=True, kw_only=True)
class Scoring(Config):
    """Options of a request to score."""

    tokens: bool = option(False, "Also the log-probability of each token.", negatable=False)


def _score_inputs(
    model: LanguageModel, inputs: list[Any], options: Scoring
) -> Iterator[dict[str, Any]]:
    texts = texts_in(inputs)
    for text, scores in zip(texts, model.token_scores(texts)):
        values: dict[str, Any] = {"score": math.fsum(scores), "text": text}
        if options.tokens:
            ids, _ = model.encode(text)
            values["tokens"] = [
                {"token": model.tokenizer.token(int(token)), "log_prob": log_prob}
                for token, log_prob in zip(ids, scores)
            ]
        yield values


class LanguageModeling(Task):
    name, phrase = "language model", "a language model"
    ladder = "seqloom.comparison.language:LanguageLadder"
    data, data_help = "TEXT", "files, directories or patterns; none, or -, is standard input."
    valid_help = "Held-out text to evaluate the model on after fitting."
    reading, evaluation, scoring = TextReading, LanguageEvaluation, TextReading
    commands: ClassVar = {
        "score": Command("seqloom.cli.score:command", "Log-probability of each line of a text."),
        "generate": Command("seqloom.cli.generate:command", "Write text with a model."),
        "complete": Command(
            "seqloom.cli.complete:command", "Suggest next words, one text or interactively."
        ),
    }

    read = staticmethod(read_text)
    read_valid = staticmethod(read_held_out_text)

    def verbs(self) -> dict[str, Verb]:
        return {
            "score": Verb(
                _score_inputs,
                "The natural-log probability of each text.",
                "a text",
                Scoring,
                ("tokens",),
            )
        }

    def evaluate(
        self,
        model: LanguageModel,
        model_path: str,
        paths: tuple[str, ...],
        reading: TextReading,
        evaluation: LanguageEvaluation,
    ) -> Outcome:
        second = self._check(model, evaluation)
        corpus = self.read(paths, reading)
        difference = None if second is None else _difference(model, second, corpus)
        result = model.evaluate(
            corpus, dynamic=evaluation.dynamic, dynamic_lr=evaluation.dynamic_lr
        )
        rows: list[dict[str, Any]] = []
        if evaluation.sparsity:
            rows = [row._asdict() for row in model.sparsity(corpus)]  # type: ignore[attr-defined]
        if evaluation.chart is not None:
            from seqloom.views import portrait

            portrait(model, corpus).save(evaluation.chart)
        text = str(result) + (f"\n\n{_sparsity_table(rows)}" if rows else "")
        values = result.to_dict() | ({"sparsity": rows} if rows else {})
        if second is None or difference is None or evaluation.against is None:
            return Outcome(text, values)
        other = second.evaluate(corpus)
        return Outcome(
            f"{model_path}\n{text}\n\n{evaluation.against}\n{other}\n\n"
            f"{_sentence(difference, model_path, evaluation.against)}",
            values
            | {
                "model": model_path,
                "difference": difference,
                "against": {"model": evaluation.against, **other.to_dict()},
            },
        )

    def score(
        self, model: LanguageModel, paths: tuple[str, ...], options: TextReading, tokens: bool
    ) -> Iterator[Outcome]:
        if model.unit == "line" and paths in ((), ("-",)) and options.column is None:
            from seqloom.data.unlabelled import read_lines

            runs = rows_by(read_lines, paths, options).texts()  # as they come through a pipe
            if tokens:
                return token_scores(model, itertools.chain.from_iterable(runs))
            pairs = (((line, line) for line in run) for run in runs)
            scored = (pair for run in pairs for pair in _scored_together(model, run))
            return text_scores(model, scored)
        corpus = self.read(paths, options)
        if tokens:
            return token_scores(model, units(corpus, model.unit))
        return text_scores(model, _scores(model, corpus))

    def examples(self, data: Corpus) -> list[str]:
        return [line for line in data.lines() if line.strip()]

    def observe(
        self, model: LanguageModel, texts: list[str]
    ) -> tuple[dict[str, Any], list[Any] | None]:
        import numpy as np

        scores = [np.maximum(one, -MOST_NATS) for one in model.token_scores(texts)]
        nats = np.array([-one.sum() for one in scores])
        if model.tokenizer.lossless:
            n_bytes = [len(text.encode("utf-8", "surrogatepass")) + 1.0 for text in texts]
            costs = {"bits per byte": np.stack([nats / math.log(2), np.array(n_bytes)], axis=1)}
        else:
            n_tokens = np.array([float(len(one)) for one in scores])
            costs = {"nats per token": np.stack([nats, n_tokens], axis=1)}
        return costs | super().observe(model, texts)[0], None

    def use(self, model: LanguageModel) -> Any:
        return model.score

    foreign_forms: ClassVar[tuple[str, ...]] = ("arpa", "gguf")

    def write_file(self, model: Any, model_path: str, target: str, form: str | None) -> None:
        from seqloom.interop.arpa import write_arpa
        from seqloom.interop.opening import FORM, WRITERS

        if form is not None:
            raise ConfigError(f"--form is for word vectors; {model_path} is a language model")
        if model.name in WRITERS:
            raise ConfigError(
                f"{target}: a {model.name} model is written as a directory for transformers: --form {FORM}"
            )
        if not hasattr(model, "sizes"):
            raise ConfigError(
                f"{model_path} is a model of kind {model.name}, which cannot be converted to a file of "
                f"another program; of language models, n-grams can (ARPA) and gpt (--form {FORM})"
            )
        if not target.endswith((".arpa", ".arpa.gz")):
            raise ConfigError(
                f"{target}: an n-gram model is written as ARPA; the name must end in .arpa or .arpa.gz"
            )
        write_arpa(model, target)

    def converted(self, model: Any) -> Outcome:
        if not hasattr(model, "sizes"):
            return Outcome(
                f"{model.label()}, {model.parameters:,} parameters, {model.tokenizer.vocab_size:,} tokens",
                {
                    "model": model.name,
                    "parameters": model.parameters,
                    "vocab_size": model.tokenizer.vocab_size,
                },
            )
        return Outcome(
            f"order {model.config.order}, {sum(model.sizes.values()):,} n-grams",
            {"ngrams": model.sizes},
        )

    def _check(self, model: LanguageModel, evaluation: LanguageEvaluation) -> LanguageModel | None:
        """Refuse, before anything is read, what this model cannot do; the second model, if there is one."""
        check_chart(evaluation.chart)
        if evaluation.dynamic and (evaluation.against is not None or evaluation.chart is not None):
            raise ConfigError(
                "--against and --chart use the model as saved; leave out --dynamic, or evaluate one at a "
                "time"
            )
        if evaluation.sparsity and not hasattr(model, "sparsity"):
            raise ConfigError(f"--sparsity is for n-gram models; this model is {model.name}")
        if evaluation.against is None:
            return None
        from seqloom.storage import load

        second = load(evaluation.against)
        if second.task != self.name:
            raise ConfigError(
                f"--against compares language models; {evaluation.against} is for another "
                f"task ({second.task})"
            )
        return second


def _sparsity_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"{order:>5}  {possible:>17.6g}  {in_model:>12,}  {seen:>24.1%}"
        for order, possible, in_model, seen in (row.values() for row in rows)
    ]
    return "\n".join(["order           possible      in model  share of the text's seen", *lines])


def _difference(first: LanguageModel, second: LanguageModel, corpus: Corpus) -> dict[str, Any]:
    """How much the first model's cost differs from the second's on the same text; below zero the
    first is better.

    Tokenizers may differ where both can spell every byte.
    """
    import numpy as np

    from seqloom.contracts.reading import tally
    from seqloom.metrics.bootstrap import paired
    from seqloom.metrics.language import SegmentCosts

    by_bytes = first.tokenizer.lossless and second.tokenizer.lossless
    if not by_bytes and (first.tokenizer != second.tokenizer or first.unit != second.unit):
        raise ConfigError(
            "the models cut the text into different tokens and at least one loses bytes, so their "
            "likelihoods cannot be compared: "
            + " and ".join(f"{m.tokenizer.label()} by {m.unit}" for m in (first, second))
        )
    costs = []
    for model in (first, second):
        segments = SegmentCosts(model.tokenizer, model.unit, corpus)
        tally(model, corpus, costs=segments)
        values, weights = segments.result()
        costs.append(values / np.log(2) if by_bytes else values)
    return {
        "unit": "bits per byte" if by_bytes else "nats per token",
        **paired(costs[0], costs[1], weights)._asdict(),
    }


def _sentence(d: dict[str, Any], model: str, against: str) -> str:
    if not math.isfinite(d["difference"]):
        return (
            f"difference  {d['difference']} {d['unit']}: a token of probability zero, "
            "nothing more can be said"
        )
    if d["difference"] == 0:
        return f"difference  none ({d['unit']})"
    spread = (
        ""
        if math.isnan(d["low"])
        else f" ({d['low']:+.4f} to {d['high']:+.4f}), p = {d['p_value']:.3g}"
    )
    sure = not spread or d["p_value"] < 0.05
    better = model if d["difference"] < 0 else against
    return f"difference  {d['difference']:+.4f} {d['unit']}{spread}: {better} is better" + (
        "" if sure else ", not significantly"
    )
