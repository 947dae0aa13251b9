"""Language models compared: bits per byte of the same held-out bytes, whatever the tokens."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.comparison import BITS
from seqloom.charts.passage import SCRIPT, STYLE, passage_chart, passage_html
from seqloom.comparison.bench import Attempt, Bench, NotPossible, Rung
from seqloom.comparison.ladder import (
    FRACTIONS,
    Column,
    Count,
    Evaluation,
    Ladder,
    Parts,
    Score,
    Trial,
    columns,
    cuts,
)
from seqloom.comparison.pictures import best_of_groups, shown_first
from seqloom.comparison.rungs import NETWORK_MINUTES, RUNGS, network_rung, tokenizer_config
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import Corpus, as_corpus, bundled, overlap
from seqloom.data.describe import known_types, shift
from seqloom.data.encode import encode_corpus
from seqloom.errors import DataError
from seqloom.metrics import language
from seqloom.metrics.language import segment_costs
from seqloom.text.tokenizer import Tokenizer
from seqloom.views.calibration import Calibration, calibration, calibration_chart
from seqloom.views.language import Passage, head, passage

if TYPE_CHECKING:
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison, RungResult

MIN_BYTES = 2000  # bytes; less text says nothing
MIN_CURVE_BYTES = 500  # bytes of training text of a point of the learning curve
EXCERPT = 600  # characters of held-out text that are kept with a comparison
MOST_CALIBRATED = 4  # lines in the reliability diagram


@dataclass
class Details:
    """What is computed for the report alone, from the fitted models."""

    passage: Passage | None = None
    calibrations: dict[str, Calibration] = field(default_factory=dict)


class LanguageLadder(Ladder):
    name, task, models = "text", "language model", "language models"
    measure = BITS
    notes = (
        "Bits per byte: cross-entropy of the held-out text per byte, counting every byte; the interval is a "
        "bootstrap over lines. Perplexity is per token and comparable only for the same tokens."
    )
    data_word, size_unit, score_unit, unit_heading = "text", "bytes", "tokens", "tok"
    resampled = "lines"
    shows_tokens, overlapping = True, "the longer test lines"
    columns = (Column("perplexity", "perplexity", ",.2f"),)
    commands = ('seqloom complete {path} "some text"', "seqloom generate {path}")
    python = "seqloom.load({path}).generate()"
    minutes = NETWORK_MINUTES
    curve_families = ("n-gram", "hidden", "network", "mixture")

    @property
    def rungs(self) -> Sequence[Rung]:
        return RUNGS

    def further_rung(self, name: str) -> Rung | None:
        return network_rung(name)

    def recognises(self, data: Any) -> str:
        return "it is text" if data is None or isinstance(data, (str, Corpus)) else ""

    def read(self, data: Any) -> Corpus:
        return bundled() if data is None else as_corpus(data)

    def split(self, data: Corpus, valid: Corpus | None, test: Corpus | None) -> Parts:
        data.read_through()  # which tells the size of compressed files too
        if (data.n_bytes or 0) < MIN_BYTES:
            raise DataError(
                f"{data.name}: {data.n_bytes} bytes are too few to compare models; give at least "
                f"{MIN_BYTES:,}"
            )
        if (parts := self.given_splits(data, valid, test)) is None:
            splits = data.split(FRACTIONS)
            return Parts(splits.train, splits.valid, splits.test, splits.description)
        if parts.valid is not None:
            return parts
        # Networks and mixtures need a part to be chosen on.
        train, first, second = data.split((0.9, 0.05, 0.05))
        tenth = Corpus([*first.documents, *second.documents], f"{data.name}:valid")
        return Parts(train, tenth, parts.test, f"the last tenth validates, {parts.description}")

    def folds(self, data: Corpus, n: int | None) -> list[Parts]:
        """Return contiguous parts of like size in bytes, which end where a line does."""
        lines = list(data.lines())
        ranges = cuts(np.array([len(line) + 1 for line in lines]), n, self.resampled)
        return [
            Parts(
                Corpus.from_texts(lines[:low] + lines[high:]),
                None,
                Corpus.from_texts(lines[low:high]),
                "",
            )
            for low, high in ranges
        ]

    def size(self, part: Corpus) -> int:
        return part.n_bytes or 0

    def overlap(self, parts: Parts) -> float:
        return overlap(parts.train, parts.test)

    def warnings(self, parts: Parts) -> list[str]:
        distance = shift(parts.train, parts.test)
        return [distance.warning()] if distance.far else []

    def bench(self, parts: Parts) -> Bench:
        return Bench(parts, tokenizer_config, minutes=self.minutes)

    def refuses(self, model: Any) -> str:
        tokenizer = model.tokenizer
        return (
            ""
            if tokenizer.lossless
            else f"its bits per byte would be those of an easier text: {tokenizer.loses()}"
        )

    def evaluate(self, model: Any, parts: Parts) -> Evaluation:
        tokenizer = model.tokenizer
        try:
            ids = encode_corpus(tokenizer, parts.test, unit=model.unit)
        except DataError as error:  # of a vocabulary that lacks some bytes
            raise NotPossible(str(error)) from None
        start = time.perf_counter()
        log_probs = model.text_log_probs(ids)
        seconds = time.perf_counter() - start
        nats, weights = segment_costs(tokenizer, model.unit, parts.test, ids, log_probs)
        score = (
            Score("bits per byte", columns(nats / math.log(2), weights), better="lower")
            if tokenizer.lossless
            else Score("nats per token", columns(nats, weights), better="lower")
        )
        measures = {
            "bits_per_byte": language.bits_per_byte(log_probs, parts.test.n_bytes or 0),
            "perplexity": language.perplexity(log_probs),
            "tokens": len(ids),
        }
        return Evaluation(measures, [score], len(ids), seconds)

    def trial(self, attempts: Sequence[Attempt], parts: Parts, **fit: Sequence[Any]) -> Trial:
        """Add what can be said of any two tokenizers; where one loses text and the other is
        different, it is all.
        """
        models, test = [attempt.model for attempt in attempts], parts.test
        tokenizers = [model.make_tokenizer(parts.train) for model in models]
        why = different_texts(models, tokenizers)
        scores = [] if why else super().trial(attempts, parts, tokenizer=tokenizers, **fit).scores
        scores += zip(*(_token_scores(tokenizer, test) for tokenizer in tokenizers))
        a, b = tokenizers
        counts = [
            Count("vocabulary", (a.vocab_size, b.vocab_size)),
            Count("known types", (_known_share(a, test), _known_share(b, test))),
        ]
        return Trial(scores, counts, (f"no likelihood: {why}",) if why else ())

    def quality(self, model: Any, parts: Parts) -> float:
        return float(model.bits_per_byte(parts.test))

    def smaller(self, train: Corpus, part: int) -> Corpus | None:
        """Return the beginning of the text, to the end of a line or row."""
        if (train.n_bytes or 0) // part < MIN_CURVE_BYTES:
            return None
        beginning = train.beginning(1 / part)
        return (
            beginning
            if beginning is not None and (beginning.n_bytes or 0) >= MIN_CURVE_BYTES
            else None
        )

    def learnt_units(self, model: Any, parts: Parts) -> int:
        return model.recorded("tokens", 0)

    def signature(self, model: Any, parts: Parts) -> str:
        return str(model.signature(parts.test, parts.description))

    def excerpt(self, parts: Parts) -> str:
        lines = head(parts.test, 4 * EXCERPT).decode("utf-8", "replace").split("\n")
        text = "\n".join(lines[1:] if len(lines) > 2 else lines)  # the first is rarely whole
        return text[:EXCERPT].rpartition("\n")[0] or text[:EXCERPT]

    def sample(self, model: Any, rung: Rung, seed: int) -> str:
        return model.generate("", max_tokens=200, seed=seed) if rung.family != "calibration" else ""

    def group(self, result: RungResult) -> str:
        kind = (result.tokenizer or "").split("-")[0]
        return f"{kind} {result.family}" if result.family == "n-gram" else result.family

    def warm_up(self) -> None:
        from seqloom.models.language.ngram import NGram

        text = Corpus.from_texts("to be or not to be, that is the question\n")
        tiny = NGram(order=2, tokenizer="byte", unit="stream").fit(text)
        tiny.evaluate("to be\n", samples=0)  # samples are drawn when a rung has been measured

    # ---- the report

    def remarks(self, comparison: Comparison) -> list[str]:
        best = {
            family: min(
                (r for r in comparison.results if r.family == family),
                key=lambda r: r.value,
                default=None,
            )
            for family in ("n-gram", "network")
        }
        first, second = best["n-gram"], best["network"]
        if first is None or second is None:
            return []
        ahead, behind = (first, second) if first.value <= second.value else (second, first)
        return [
            f"On this text, with this time, {'counting' if ahead is first else 'a network'} wins: "
            f"{ahead.name} reaches {ahead.value:.3f} bits per byte, {behind.name} {behind.value:.3f}."
        ]

    def details(self, comparison: Comparison) -> Details:
        """Compute the coloured passage under every rung, and the calibration of the best rung of each
        group.
        """
        fitted, test = comparison.fitted, comparison.test
        chosen = best_of_groups(comparison)[:MOST_CALIBRATED]
        return Details(
            passage(fitted, test, guide=comparison.best.name),
            {r.name: calibration(fitted[r.name], test) for r in chosen},
        )

    def details_json(self, details: Any) -> dict[str, Any]:
        return (
            {"calibration": {name: one.to_dict() for name, one in details.calibrations.items()}}
            if details
            else {}
        )

    def pictures(self, comparison: Comparison, details: Details) -> dict[str, Any]:
        charts = {}
        if details.passage is not None:
            charts["passage"] = passage_chart(
                {name: details.passage.pieces[name] for name in shown_first(comparison)}
            )
        if details.calibrations:
            charts["calibration"] = calibration_chart(details.calibrations)
        return charts

    def sections(self, page: Page, comparison: Comparison, details: Details | None) -> None:
        if details is None:
            return
        if details.passage is not None:
            page.heading("Which rung predicts what")
            page.text(
                f"A passage of the test part (from byte {details.passage.start:,}), each token "
                f"coloured by its cost "
                "for each of its bytes. Choose two rungs; point at a token to see what both paid for it."
            )
            page.raw(
                passage_html(details.passage.pieces, shown_first(comparison)),
                style=STYLE,
                script=SCRIPT,
            )
        if details.calibrations:
            page.heading("Calibration")
            page.chart(
                calibration_chart(details.calibrations),
                "how often forecasts of each probability came true",
            )
            page.text(
                "All tokens of the vocabulary at sampled positions, grouped by the probability "
                "that they were given, "
                "against how often they came; bars are 95 % intervals. On the dashed line a model "
                "is as sure as it may be; below it, things come less often than it says.",
                kind="faint",
            )
            page.table(
                ["rung", "misplaced probability", "by chance alone", "positions"],
                [
                    [name, f"{k.error:.1%}", f"{k.chance:.1%}", f"{k.positions:,}"]
                    for name, k in details.calibrations.items()
                ],
            )


def different_texts(models: Sequence[LanguageModel], tokenizers: Sequence[Tokenizer]) -> str:
    """Say why the likelihoods of two settings are of different texts; empty where they are not."""
    if all(tokenizer.lossless for tokenizer in tokenizers):
        return ""
    if tokenizers[0] == tokenizers[1] and models[0].unit == models[1].unit:
        return ""
    cut = " and ".join(f"{t.label()} by {m.unit}" for m, t in zip(models, tokenizers))
    return (
        f"the settings cut the text differently ({cut}) and lose part of it, "
        "so they are of different texts"
    )


def _token_scores(tokenizer: Tokenizer, test: Corpus) -> list[Score]:
    """How many tokens of each line are unknown, and how many it has."""
    ids = encode_corpus(tokenizer, test, unit="line")
    ends = ids == tokenizer.eos_id
    line = np.cumsum(ends) - ends
    tokens = np.bincount(line, ~ends)
    unknown = np.bincount(line, ids == (-1 if tokenizer.unk_id is None else tokenizer.unk_id))
    return [
        Score("unknown tokens", columns(unknown, tokens), better=""),
        Score("tokens a line", columns(tokens), better=""),
    ]


def _known_share(tokenizer: Tokenizer, test: Corpus) -> float:
    """Return the share of the distinct words of a text that the tokenizer knows."""
    if tokenizer.kind not in ("whitespace", "word", "char"):
        return 1.0
    own = Tokenizer(
        **{**tokenizer.config.to_dict(), "vocab_size": None, "min_count": 1, "vocab_file": None}
    )
    return known_types(tokenizer, own.fit(test))
