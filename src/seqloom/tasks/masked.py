"""Masked language models: text with hidden tokens in, what they may be out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from seqloom.config import Config, option
from seqloom.tasks.reading import TextReading, read_held_out_text, read_text, text_batches
from seqloom.tasks.task import Command, Outcome, Task, Verb, in_one_field, shown, texts_in

if TYPE_CHECKING:
    from seqloom.contracts import MaskedModel
    from seqloom.contracts.masked import Fill


@dataclass(frozen=True, kw_only=True)
class MaskedEvaluation(Config):
    """Nothing to choose."""


@dataclass(frozen=True, kw_only=True)
class Filling(Config):
    """Options of a request to fill masks."""

    number: int = option(5, "Number of ways to fill a text.", minimum=1, maximum=1000)


def fill_record(fill: Fill) -> dict[str, Any]:
    """Return one way to fill a text, as plain values."""
    return {
        "text": fill.text,
        "tokens": list(fill.tokens),
        "probability": math.exp(fill.score),
        "score": fill.score,
    }


def _fill_inputs(
    model: MaskedModel, inputs: list[Any], options: Filling
) -> Iterator[dict[str, Any]]:
    texts = texts_in(inputs)
    for text, fills in zip(texts, model.fill(texts, options.number)):
        yield {"text": text, "fills": [fill_record(fill) for fill in fills]}


def _score_inputs(
    model: MaskedModel, inputs: list[Any], options: Config
) -> Iterator[dict[str, Any]]:
    texts = texts_in(inputs)
    return (
        {"score": math.fsum(scores), "text": text}
        for text, scores in zip(texts, model.token_scores(texts))
    )


class MaskedModeling(Task):
    name, phrase = "masked language model", "a masked language model"
    data, data_help = (
        "TEXT",
        "files, directories or patterns, a text a line; none, or -, is standard input.",
    )
    valid_help = "Held-out text to evaluate the model on after fitting."
    reading, evaluation, scoring = TextReading, MaskedEvaluation, TextReading
    commands: ClassVar = {
        "fill": Command("seqloom.cli.fill:command", "What may stand where a text has a mask."),
        "score": Command("seqloom.cli.score:command", "Log-probability of each line or token."),
    }

    def verbs(self) -> dict[str, Verb]:
        return {
            "fill": Verb(
                _fill_inputs,
                "What may stand where a text has a mask.",
                "a text",
                Filling,
                ("number",),
            ),
            "score": Verb(_score_inputs, "The pseudo-log-likelihood of each text.", "a text"),
        }

    read = staticmethod(read_text)
    read_valid = staticmethod(read_held_out_text)

    def evaluate(
        self,
        model: MaskedModel,
        model_path: str,
        paths: tuple[str, ...],
        reading: TextReading,
        evaluation: Any,
    ) -> Outcome:
        return shown(model.evaluate(self.read(paths, reading)))

    def score(
        self, model: MaskedModel, paths: tuple[str, ...], options: TextReading, tokens: bool
    ) -> Iterator[Outcome]:
        """Yield the pseudo-log-likelihood of each line, or of its tokens, each hidden in turn."""
        number = 0
        for texts in text_batches(paths, options):
            for text, scores in zip(texts, model.token_scores(texts)):
                number += 1
                if not tokens:
                    yield Outcome(
                        f"{sum(scores):.6f}\t{text}", {"score": float(sum(scores)), "text": text}
                    )
                    continue
                for token, log_prob in zip(model.encode(text)[0].tolist(), scores):
                    name = model.tokenizer.token(token)
                    yield Outcome(
                        f"{in_one_field(name)}\t{log_prob:.6f}",
                        {"unit": number, "token": name, "log_prob": log_prob},
                    )

    def examples(self, data: Any) -> list[str]:
        return [line for line in data.lines() if line.strip()]

    def converted(self, model: Any) -> Outcome:
        head = "" if model.config.head else ", without the layer that guesses hidden tokens"
        return Outcome(
            f"{model.label()}, {model.parameters:,} parameters, {model.tokenizer.vocab_size:,} tokens{head}",
            {
                "model": model.name,
                "parameters": model.parameters,
                "vocab_size": model.tokenizer.vocab_size,
                "head": model.config.head,
            },
        )
