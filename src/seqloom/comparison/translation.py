"""Translators compared: BLEU of their translations of the same held-out sources, or exact matches
where targets are short; where a source has many targets, as a label has, how probable they find the
held-out ones.

Networks translate by greedy search, so that a comparison takes its time for training and not for searching.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom.charts.comparison import Measure
from seqloom.charts.translation import length_chart
from seqloom.comparison.bench import Bench, Rung, unfitted
from seqloom.comparison.ladder import FRACTIONS, Column, Evaluation, Ladder, Parts, Score
from seqloom.data.examples import hashed_order, hashed_parts
from seqloom.data.recognise import pairs_in
from seqloom.data.translation import (
    Parallel,
    has_many_targets,
    known_pairs,
    repeats_sources,
    undivided,
)
from seqloom.data.translation_report import count_words
from seqloom.encoder_table import has_cell
from seqloom.metrics import bootstrap
from seqloom.metrics.text_scores import CorpusScore, Formula, bleu_of, mean_of
from seqloom.metrics.translation import by_length, lengths_of, text_scores
from seqloom.registry import model_class

if TYPE_CHECKING:
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison

SHORT = (
    4  # words of a usual target, below which BLEU, which counts four words at a time, says nothing
)
SPELLED = 5  # words of usual sources and targets, below which networks read and write characters
TRANSLATIONS_SHOWN = 8  # translations in the report


def _network(name: str, **options: Any) -> Callable[[Bench], Any]:
    """Return a function that makes a network of characters where texts are short, as dates and
    names are, and otherwise of subwords.
    """

    def make(bench: Bench) -> Any:
        train = bench.splits.train
        sides = [train.targets] if train.numeric else [train.sources, train.targets]
        spelled = all(_usual_length(side) < SPELLED for side in sides)
        return model_class(name)(**options, **({"tokenizer": "char"} if spelled else {}))

    return make


RUNGS = (
    Rung("copy", "trivial", "", unfitted("copy"), 1, "nothing: the source again"),
    Rung(
        "dictionary",
        "word for word",
        "",
        unfitted("dictionary"),
        20,
        "the likeliest translation of each word by itself",
    ),
    Rung(
        "plain",
        "network",
        "",
        _network("seq2seq", attention="none"),
        0,
        "a network that reads the whole source into one vector and writes from that",
    ),
    Rung(
        "attention",
        "network",
        "",
        _network("seq2seq"),
        0,
        "a look back at every word of the source, for each that is written",
    ),
    Rung(
        "transformer",
        "network",
        "",
        _network("transformer"),
        0,
        "attention in the place of recurrence",
    ),
)
NETWORKS = RUNGS[2:]  # which read arrays of numbers too


class TranslationLadder(Ladder):
    name, task, models = "translation", "translator", "translators"
    measure = Measure("bleu", "BLEU", "BLEU", lower=False, form=".1f")
    notes = (
        "BLEU as sacrebleu computes it (13a tokens, mixed case) and chrF, both up to 100; the "
        "interval is a bootstrap "
        "over pairs. Exact: share of translations that equal their references; length: tokens of "
        "the translations over those of the references. Networks translate by greedy search."
    )
    size_unit, score_unit, unit_heading, resampled = "pairs", "pairs", "pairs", "pairs"
    overlapping, bundled, recognised = "the test sources", "data with pairs", "the data has pairs"
    data_class, as_data = Parallel, staticmethod(Parallel.of)
    columns: tuple[Column, ...] = (
        Column("chrF", "chrf", ".1f"),
        Column("exact", "exact_match", ".1%"),
        Column("length", "length_ratio", ".2f"),
    )
    commands: tuple[str, ...] = (
        "seqloom translate {path} FILE",
        'echo "some text" | seqloom translate {path}',
    )
    python: str = 'seqloom.load({path}).translate("some text")'
    rungs: Sequence[Rung] = RUNGS
    formula: Formula = staticmethod(bleu_of)
    # How the translations of the report are searched for.
    shown: ClassVar[dict[str, Any]] = {"beams": 1}

    def further_rung(self, name: str) -> Rung | None:
        if not has_cell(name):
            return None
        return Rung(
            name,
            "network",
            "",
            _network("seq2seq", cell=name, encoder=f"bi{name}"),
            0,
            f"attention between networks of the cell {name}",
        )

    def recognises_file(self, path: Path) -> str:
        return pairs_in(path)

    def recognises_values(self, data: Any) -> str:
        return (
            pairs_in(data)
            if isinstance(data, tuple) and all(isinstance(path, Path) for path in data)
            else ""
        )

    def specialised_for(self, parts: Parts) -> Ladder:
        ladder = (
            ManyLadder()
            if has_many_targets(parts.train)
            else ShortLadder()
            if _usual_length(parts.train.targets) < SHORT
            else copy.copy(self)
        )
        if parts.train.numeric:
            ladder.rungs, ladder.python = NETWORKS, "seqloom.load({path}).translate(array)"
            ladder.commands = (ladder.commands[0].replace("FILE", "FILE.npy"),)
        return ladder

    def cut(self, data: Parallel) -> Parts:
        train, held, last = (data.part(rows) for rows in hashed_parts(undivided(data), FRACTIONS))
        together = "equal pairs" if repeats_sources(data) else "equal sources"
        return Parts(train, held, last, f"80/10/10 by pairs in hashed order, {together} together")

    def units(self, data: Parallel) -> tuple[np.ndarray, np.ndarray, Sequence[bool]]:
        """Return pairs in the order of their hashes; those that must not be divided stay together."""
        order, may_begin = hashed_order(undivided(data))
        return np.array(order, np.int64), np.ones(len(order)), may_begin

    def overlap(self, parts: Parts) -> float:
        return float(known_pairs(parts.test, parts.train).mean())

    def evaluate(self, model: Any, parts: Parts) -> Evaluation:
        test = parts.test
        start = time.perf_counter()
        translations = model.translate(test.sources, beams=1)
        seconds = time.perf_counter() - start
        scores = text_scores(translations, test.targets)
        first = scores[self.measure.key]
        measures = {
            name: score.value for name, score in {self.measure.key: first, **scores}.items()
        }
        measures |= {"length_ratio": scores["bleu"].details["length_ratio"], "pairs": len(test)}
        named = {
            self.measure.key: first,
            **{key: scores[key] for key in ("bleu", "chrf", "exact_match")},
        }
        return Evaluation(measures, [_score(one) for one in named.values()], len(test), seconds)

    def signature(self, model: Any, parts: Parts) -> str:
        from seqloom.decoding.configs import TranslationConfig

        return str(model.signature(parts.test, TranslationConfig(beams=1)))

    def interval(self, rows: np.ndarray) -> tuple[float, float]:
        return bootstrap.interval_of_sums(rows, self.formula)

    def difference(self, a: np.ndarray, b: np.ndarray) -> bootstrap.Paired:
        return bootstrap.paired_sums(a, b, self.formula)

    def warm_up(self) -> None:
        pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
        for rung in [rung for rung in RUNGS if rung.work]:
            text_scores(
                rung.make(Bench(None)).fit(pairs).translate(["a dog", "a cow"]),
                ["ein Hund", "eine Kuh"],
            )

    # ---- the report

    def details(self, comparison: Comparison) -> dict[str, Any]:
        """Compute quality by length of the source, and some translations by every rung."""
        lengths, unit = lengths_of(comparison.test.sources)
        score = partial(CorpusScore, self.measure.key, formula=self.formula)
        rows = {
            r.name: by_length({self.measure.key: score(comparison.rows[r.name])}, lengths, unit)
            for r in comparison.results
        }
        return {"lengths": rows, "examples": self.examples(comparison)}

    def examples(self, comparison: Comparison) -> list[dict[str, str]]:
        some = comparison.test.part(slice(0, TRANSLATIONS_SHOWN))
        translations = {
            r.name: comparison.fitted[r.name].translate(some.sources, **self.shown)
            for r in comparison.results
        }
        return [
            {
                "source": source if isinstance(source, str) else f"{len(source)} frames",
                "target": target,
                **{name: texts[i] for name, texts in translations.items()},
            }
            for i, (source, target) in enumerate(zip(some.sources, some.targets))
        ]

    def pictures(self, comparison: Comparison, details: Any) -> dict[str, Any]:
        form = ".1~%" if self.measure.form.endswith("%") else ".1~f"
        return {
            "lengths": length_chart(details["lengths"], self.measure.key, self.measure.title, form)
        }

    def sections(self, page: Page, comparison: Comparison, details: Any) -> None:
        if not details:
            return
        for picture in self.pictures(comparison, details).values():
            page.heading("Quality by length of the source")
            page.chart(picture, f"{self.measure.title} of each rung by length of the source")
        page.heading("Translations")
        for example in details["examples"]:
            page.table(
                ["", example["source"]],
                [[name, text] for name, text in example.items() if name != "source"],
            )


class ShortLadder(TranslationLadder):
    """The ladder where targets are a word or two, such as dates and names."""

    measure = Measure("exact_match", "exact matches", "exact", lower=False, form=".1%")
    notes = (
        "Exact matches: share of the translations that equal their references; the interval is a "
        "bootstrap over pairs. "
        "CER: character edits over the characters of the references; chrF: shared character "
        "n-grams, up to 100. Networks translate by greedy search."
    )
    columns = (Column("CER", "cer", ".3f"), Column("chrF", "chrf", ".1f"))
    formula = staticmethod(mean_of)


class ManyLadder(TranslationLadder):
    """Where a source has many targets, as a label has: none is the right one, so what is measured
    is their probability.
    """

    measure = Measure(
        "bits_per_character", "bits per character", "bits/char", lower=True, unit="bits"
    )
    notes = (
        "Sources repeat with many different targets, so no translation is the right one, and BLEU "
        "and exact matches would "
        "say nothing. Bits per character: how improbable the model finds the held-out targets, the "
        "end of each counted "
        "as one more character; less is better; the interval is a bootstrap over pairs. Nats per "
        "token: the same in the model's own tokens, comparable between models with the same ones."
    )
    columns = (Column("nats/token", "nats_per_token", ".3f"),)
    commands: tuple[str, ...] = (
        "seqloom translate {path} FILE --search sample",
        'echo "some label" | seqloom translate {path} --search sample',
    )
    python = 'seqloom.load({path}).translate("some label", search="sample")'
    rungs: Sequence[Rung] = (
        NETWORKS  # the others give no probability to a target that they have not seen
    )
    formula = staticmethod(mean_of)
    shown: ClassVar[dict[str, Any]] = {"search": "sample"}

    def evaluate(self, model: Any, parts: Parts) -> Evaluation:
        test = parts.test
        start = time.perf_counter()
        log_probs = model.token_scores(test.sources, test.targets)
        seconds = time.perf_counter() - start
        nats = np.array([-float(some.sum()) for some in log_probs])
        rows = np.column_stack([nats / math.log(2), [len(target) + 1 for target in test.targets]])
        score = CorpusScore(self.measure.title, rows, mean_of, higher_is_better=False)
        measures = {
            self.measure.key: score.value,
            "nats_per_token": float(nats.sum()) / sum(map(len, log_probs)),
            "pairs": len(test),
        }
        return Evaluation(measures, [_score(score)], len(test), seconds)

    def signature(self, model: Any, parts: Parts) -> str:
        return str(model.signature(parts.test))

    def details(self, comparison: Comparison) -> dict[str, Any]:
        """Sample some targets from every rung; the length of a label says nothing."""
        return {"examples": self.examples(comparison)}

    def pictures(self, comparison: Comparison, details: Any) -> dict[str, Any]:
        return {}


def _score(score: CorpusScore) -> Score:
    return Score(
        score.name,
        score.statistics,
        lambda rows: float(score.formula(rows.sum(axis=0))),
        "higher" if score.higher_is_better else "lower",
    )


def _usual_length(texts: Sequence[str]) -> float:
    return float(np.median([count_words(text) for text in texts]))
