"""Language models compared: bits per byte of the same held-out bytes, whatever the tokens."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqloom.charts.measure import BITS
from seqloom.comparison.bench import Bench, NotPossible, Rung
from seqloom.comparison.ladder import FRACTIONS, Column, Judged, Ladder, Parts
from seqloom.comparison.rungs import NETWORK_MINUTES, RUNGS, network_rung, tokenizer_config
from seqloom.data.corpus import Corpus, as_corpus, bundled, overlap
from seqloom.data.encode import encode_corpus
from seqloom.data.shift import shift
from seqloom.errors import DataError
from seqloom.metrics import bootstrap, likelihood
from seqloom.metrics.costs import segment_costs

if TYPE_CHECKING:
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison, RungResult

SMALLEST = 2000  # bytes; less text says nothing
LEAST = 500  # bytes of training text of a point of the learning curve


class TextLadder(Ladder):
    name, task, models = "text", "language model", "language models"
    measure = BITS
    notes = ("Bits per byte: cross-entropy of the held-out text per byte, counting every byte; the interval is a "
             "bootstrap over lines. Perplexity is per token and comparable only for the same tokens.")
    data_word, size_unit, score_unit, unit_heading = "text", "bytes", "tokens", "tok"
    shows_tokens, overlapping = True, "the longer test lines"
    columns = (Column("perplexity", "perplexity", ",.2f"),)
    commands = ('seqloom complete {path} "some text"', "seqloom generate {path}")
    python = "seqloom.load({path}).generate()"
    minutes, scale = NETWORK_MINUTES, math.log(2)
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
        if (data.n_bytes or 0) < SMALLEST:
            raise DataError(f"{data.name}: {data.n_bytes} bytes are too few to compare models; give at least {SMALLEST:,}")
        if (parts := self.brought(data, valid, test)) is None:
            splits = data.split(FRACTIONS)
            return Parts(splits.train, splits.valid, splits.test, splits.description)
        if parts.valid is not None:
            return parts
        train, first, second = data.split((0.9, 0.05, 0.05))  # networks and mixtures need a part to be chosen on
        tenth = Corpus([*first.documents, *second.documents], f"{data.name}:valid")
        return Parts(train, tenth, parts.test, f"the last tenth validates, {parts.description}")

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
        return "" if tokenizer.lossless else f"its bits per byte would be those of an easier text: {tokenizer.loses()}"

    def judge(self, model: Any, parts: Parts) -> Judged:
        tokenizer = model.tokenizer
        if why := self.refuses(model):
            raise NotPossible(why)
        try:
            ids = encode_corpus(tokenizer, parts.test, unit=model.unit)
        except DataError as error:  # of a vocabulary that lacks some bytes
            raise NotPossible(str(error)) from None
        start = time.perf_counter()
        log_probs = model.text_log_probs(ids)
        seconds = time.perf_counter() - start
        costs, weights = segment_costs(tokenizer, model.unit, parts.test, ids, log_probs)
        low, high = (x / math.log(2) for x in bootstrap.interval(costs, weights))
        measures = {"bits_per_byte": likelihood.bits_per_byte(log_probs, parts.test.n_bytes or 0),
                    "perplexity": likelihood.perplexity(log_probs), "tokens": len(ids)}
        return Judged(measures, (low, high), costs, weights, len(ids), seconds)

    def quality(self, model: Any, parts: Parts) -> float:
        return float(model.bits_per_byte(parts.test))

    def smaller(self, train: Corpus, part: int) -> Corpus | None:
        """To the end of a line or row."""
        if (train.n_bytes or 0) // part < LEAST:
            return None
        beginning = train.beginning(1 / part)
        return beginning if beginning is not None and (beginning.n_bytes or 0) >= LEAST else None

    def learnt_units(self, model: Any, parts: Parts) -> int:
        return model.recorded("tokens", 0)

    def signature(self, model: Any, parts: Parts) -> str:
        return str(model.signature(parts.test, parts.description))

    def sample(self, model: Any, rung: Rung, seed: int) -> str:
        return model.generate("", max_tokens=200, seed=seed) if rung.family != "calibration" else ""

    def group(self, result: RungResult) -> str:
        kind = (result.tokenizer or "").split("-")[0]
        return f"{kind} {result.family}" if result.family == "n-gram" else result.family

    def warm_up(self) -> None:
        from seqloom.models.language.ngram import NGram

        text = Corpus.from_texts("to be or not to be, that is the question\n")
        tiny = NGram(order=2, tokenizer="byte", unit="stream").fit(text)
        tiny.evaluate("to be\n", samples=0)
        tiny.generate("to", max_tokens=2)

    # ---- the report

    def remarks(self, comparison: Comparison) -> list[str]:
        best = {family: min((r for r in comparison.results if r.family == family), key=lambda r: r.value, default=None)
                for family in ("n-gram", "network")}
        first, second = best["n-gram"], best["network"]
        if first is None or second is None:
            return []
        ahead, behind = (first, second) if first.value <= second.value else (second, first)
        return [f"On this text, with this time, {'counting' if ahead is first else 'a network'} wins: {ahead.name} "
                f"reaches {ahead.value:.3f} bits per byte, {behind.name} {behind.value:.3f}."]

    def details(self, comparison: Comparison) -> Any:
        from seqloom.comparison.text_report import details

        return details(comparison)

    def details_json(self, details: Any) -> dict[str, Any]:
        return {"calibration": {name: one.to_dict() for name, one in details.calibrations.items()}} if details else {}

    def pictures(self, comparison: Comparison, details: Any) -> dict[str, Any]:
        from seqloom.comparison.text_report import pictures

        return pictures(comparison, details)

    def sections(self, page: Page, comparison: Comparison, details: Any) -> None:
        from seqloom.comparison.text_report import sections

        sections(page, comparison, details)
