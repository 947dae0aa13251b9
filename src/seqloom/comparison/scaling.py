"""`seqloom scaling`: how far more text, a larger network or more time would help a language model.

A plan of small runs, three widths by three lengths of text, each trained by its own full schedule (the
middle of a longer one is no shorter run); the smallest is repeated with two other seeds, which measures
the noise. A shorter text is taken from all over the longer one: its beginning would also be of another
kind. Models that count have one size, so they learn from nine lengths, and no seed, so nothing is repeated.
All runs
share one tokenizer and are measured in bits per byte on the same held-out text; the law and how sure it
is are `metrics/scaling`. With `check` a larger run, of four times the compute, is then trained and held
against what the law had said.

The plan and every finished run are kept, so an interrupted one goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from seqloom import progress, storage
from seqloom._version import __version__
from seqloom.comparison.ab import setting_of
from seqloom.comparison.language import MIN_CURVE_BYTES
from seqloom.comparison.result import held
from seqloom.comparison.rungs import FULL, SHORT, bpe_size
from seqloom.comparison.scaling_result import Scaled, Scaling
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import Corpus, as_corpus, bundled
from seqloom.directories import cache_directory, writing_file
from seqloom.errors import ConfigError, DataError, SeqloomError, TrainingError
from seqloom.metrics.scaling import MOST_PASSES
from seqloom.models.network.network import NetworkModel
from seqloom.registry import model_class
from seqloom.text.tokenizer import Tokenizer

MINUTES = 20.0
FRACTIONS = (0.9, 0.05, 0.05)
HELD_OUT = 200_000  # bytes of held-out text that are scored after each run, at most
VALID = 50_000  # and of that on which its training is judged
STEP, LENGTH_STEP = 4.0, 8**0.5  # between neighbouring sizes, and lengths
COUNTED, COUNTED_STEP = 9, 2**0.5  # lengths of a model that counts
REPEATS = 2  # further seeds of the smallest run
CHECK = 4.0  # times the compute of the largest run
WEIGHT_BYTES = 8.0  # tokens that the largest run reads for each of its weights, at least
UPDATES = 300  # of the shortest runs, at least, where batches can be so small
LEAST_BATCH, USUAL_BATCH, TOKENS = 128, 256, 1024  # tokens: of a batch, when timed, and by default
PIECES, PIECE = 256, 200  # that a shorter text is made of, at most; bytes of one in the shortest
TIMED = 12  # updates by which the speed is measured
WIDEST = 1024
NETWORK_DEFAULTS: dict[str, Any] = {"unit": "stream", "dropout": 0.0}


@dataclass(frozen=True)
class Plan:
    """What is run: every width with every share of the training text."""

    widths: tuple[int, ...]  # empty: a model without
    shares: tuple[float, ...]  # of the training text
    passes: int = 1
    batch_size: int | None = None
    pieces: int = 1  # that a shorter text is made of

    def runs(self, seed: int) -> Iterator[tuple[int | None, float, int]]:
        """Yield width, share and seed of each run, the smallest first; of networks that one again."""
        for width in self.widths or (None,):
            for share in self.shares:
                yield width, share, seed
        for extra in range(1, REPEATS + 1) if self.widths else ():
            yield self.widths[0], self.shares[0], seed + extra


@progress.remarking_once()
def scaling(
    data: Any = None,
    *,
    model: str = "lstm",
    minutes: float = MINUTES,
    widths: Sequence[int] = (),
    shares: Sequence[float] = (),
    options: Mapping[str, Any] | None = None,
    valid: Any = None,
    check: bool = False,
    work: str | Path | None = None,
    seed: int = 0,
    device: str | None = None,
    on_run: Callable[[Scaled], None] | None = None,
) -> Scaling:
    """Train small runs of a language model and fit a scaling law to them; `data` as in `fit`, the
    bundled text by default.

    `minutes`: how long all runs together may take; widths and lengths are chosen by it, unless `widths`
    (three or more) and `shares` of the training text are given. `options` are those of the model and of
    its training, the same for all runs. The loss is measured on `valid`, else on the last part of the
    text. `check` also trains a run of four times the compute of the largest, which takes about two and a
    half times as long again. `work`: the directory that keeps plan and runs (the user's cache by default).
    """
    corpus = bundled() if data is None else as_corpus(data)
    corpus.read_through()
    maker = _Maker(model, corpus, dict(options or {}), valid, device)
    folder = Path(work) if work else cache_directory() / "scaling"
    directory = folder / maker.key()
    directory.mkdir(parents=True, exist_ok=True)
    with held(directory):
        asked = _hash([minutes, list(widths), list(shares), check])
        plan = _kept(
            directory / f"plan-{asked}.json",
            Plan,
            lambda: maker.plan(minutes, widths, shares, check),
        )
        plan = replace(plan, widths=tuple(plan.widths), shares=tuple(plan.shares))
        wanted = list(plan.runs(seed))
        progress.say(
            f"plan: {len(wanted)} runs of {model}, "
            + (f"widths {', '.join(map(str, plan.widths))}, " if plan.widths else "")
            + f"{', '.join(maker.shown(share) for share in plan.shares)} of text"
        )
        done: list[Scaled] = []
        with progress.task("scaling", len(wanted), "runs") as bar:
            for width, share, each in wanted:
                one = maker.run(plan, width, share, each, directory)
                if one is not None:
                    done.append(one)
                    if on_run is not None:
                        on_run(one)
                bar.advance()
        result = Scaling.of(model, corpus.name, corpus.fingerprint, done, maker.text)
        if check:
            larger = maker.larger(plan)
            progress.say(f"checking by a larger run: {maker.shown(larger[1])} of text")
            result = replace(result, held_out=maker.run(plan, *larger, seed, directory))
    return result


# ---- making the runs


class _Maker:
    """Plans and makes the runs of one model on one text."""

    def __init__(
        self, name: str, corpus: Corpus, options: dict[str, Any], valid: Any, device: str | None
    ) -> None:
        kind = model_class(name)
        if kind.task != LanguageModel.task:
            raise ConfigError(
                f"scaling is for language models; {name} is a model of the task {kind.task!r}"
            )
        self.network = issubclass(kind, NetworkModel)
        self.width_option = kind.layers.width_option if self.network else ""
        if lengths := [
            one for one in ("minutes", "steps", "epochs", self.width_option) if one in options
        ]:
            raise ConfigError(f"the plan sets {lengths[0]} of each run; leave it out")
        if valid is None:
            split = corpus.split(FRACTIONS)
            self.train, choosing, test = split.train, split.valid, split.test
        else:
            self.train, test = corpus, as_corpus(valid)
            test.read_through()
            choosing = test
        self.train.read_through()
        self.test, self.choosing = _most(test, HELD_OUT), _most(choosing, VALID)
        self.text = self.train.n_bytes or 0
        defaults = _defaults(kind, name, self.text)
        if "tokenizer" in options:
            defaults.pop("vocab_size", None)
        self.setting = setting_of({**defaults, **options}, {}, name, device)
        self._tokenizer: Tokenizer | None = None

    def key(self) -> str:
        """Return a short hash of all on which a run depends, besides its size, length and seed."""
        train = None if self.setting.train is None else self.setting.train.to_dict()
        texts = [self.train.fingerprint, self.test.fingerprint]
        made = [self.setting.model.name, self.setting.options, train]
        return _hash([*texts, *made, __version__, storage.FORMAT_VERSION])

    def text_of(self, share: float, plan: Plan) -> Corpus:
        """Return that share of the training text, from all over it."""
        return self.train if share >= 1 else self.train.spread(share, plan.pieces)

    def shown(self, share: float) -> str:
        return f"{share * self.text / 1e6:.3g} MB"

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of all runs."""
        if self._tokenizer is None:
            made: Any = self.setting.model(**self.setting.options)
            self._tokenizer = made.make_tokenizer(self.train)
        return self._tokenizer

    # ---- plan

    def plan(
        self, minutes: float, widths: Sequence[int], shares: Sequence[float], check: bool
    ) -> Plan:
        """Choose widths and lengths that take about so many minutes."""
        if shares and not all(0 < share <= 1 for share in shares):
            raise ConfigError(f"shares of the text are above 0 and at most 1; got {list(shares)}")
        if widths and not self.network:
            raise ConfigError(f"{self.setting.model.name} has no width; leave widths out")
        if not self.network:
            top = 1 / CHECK if check else 1.0
            counted = [top / COUNTED_STEP**i for i in range(COUNTED - 1, -1, -1)]
            return self._checked(Plan((), tuple(sorted(shares)) or tuple(counted)))
        room = CHECK**-0.5 if check else 1.0
        if widths and shares:
            return self._checked(
                self._with_batches(tuple(sorted(widths)), tuple(sorted(shares)), 1)
            )
        tokens = self._tokens()
        steps = (1.0, 1 / LENGTH_STEP, LENGTH_STEP**-2)
        speeds = self._speeds()
        evaluated = (self.test.n_bytes or 0) / self.text * tokens / 3

        def longest(chosen: Sequence[int]) -> float:
            """Return how many tokens the longest runs may read."""
            each = [speeds(width) for width in chosen]
            spent = evaluated * (len(steps) * sum(each) + REPEATS * each[0])
            rate = sum(steps) * sum(each) + REPEATS * steps[-1] * each[0]
            return max(60 * minutes - spent, 6 * minutes) / rate

        candidates = [tuple(sorted(widths))] if widths else list(self._widths())
        for chosen in reversed(candidates):
            read = min(longest(chosen), MOST_PASSES * room * tokens)
            if read >= WEIGHT_BYTES * self._cost(chosen[-1]) or chosen == candidates[0]:
                break
        passes = max(int(np.ceil(read / (room * tokens))), 1)
        top = min(read / passes / tokens, room)
        lengths = tuple(sorted(shares)) or tuple(top * step for step in reversed(steps))
        return self._checked(self._with_batches(chosen, lengths, passes))

    def _checked(self, plan: Plan) -> Plan:
        if plan.shares[0] * self.text < MIN_CURVE_BYTES:
            raise DataError(
                f"the shortest run would read {plan.shares[0] * self.text:.0f} bytes, too few to learn from; "
                "give more text, or more minutes"
            )
        pieces = int(min(max(plan.shares[0] * self.text / PIECE, 1), PIECES))
        return replace(plan, pieces=pieces)

    def _with_batches(
        self, widths: tuple[int, ...], shares: tuple[float, ...], passes: int
    ) -> Plan:
        """Return the plan with batches so small that the shortest run has some updates."""
        assert self.setting.train is not None
        if self.setting.train.batch_size is not None:
            return Plan(widths, shares, passes)
        in_batch = max(min(shares[0] * passes * self._tokens() / UPDATES, TOKENS), LEAST_BATCH)
        return Plan(widths, shares, passes, self._rows(in_batch))

    def _rows(self, tokens: float) -> int:
        """Return how many sequences of a batch have about so many tokens."""
        assert self.setting.train is not None
        length = self.setting.options.get("context") or self.setting.train.truncation
        return max(int(tokens / length), 1)

    def _tokens(self) -> float:
        """Return how many tokens the training text has, about."""
        part = _most(self.train, HELD_OUT)
        ids = self.tokenizer.encode(part.text())
        return len(ids) * self.text / max(part.n_bytes or 1, 1)

    def _multiple(self) -> int:
        config = self.setting.model(**self.setting.options).config
        return int(np.lcm(getattr(config, "multiple", 1), 8))

    def _cost(self, width: int) -> float:
        """Return about how many weights a network of this width has, which is also its work for a token."""
        made: Any = self.setting.model(**self.setting.options)
        body: float = made.layers.body_cost(made.config, width)
        return body + self.tokenizer.vocab_size * width

    def _widths(self) -> Iterator[tuple[int, ...]]:
        """Yield widths that have STEP times the weights of the one before, from narrow to wide."""
        multiple = self._multiple()
        every = range(multiple, WIDEST + 1, multiple)
        for first in (16, 24, 32, 48, 64, 96, 128, 192, 256):
            chosen = [w for w in every if w >= first][:1]
            while chosen and len(chosen) < 3:
                least = STEP * self._cost(chosen[-1])
                chosen += [w for w in every if self._cost(w) >= least][:1] or [0]
            if chosen and chosen[-1]:
                yield tuple(chosen)

    def _speeds(self) -> Callable[[int], float]:
        """Measure how long a token takes; return the seconds by width."""
        progress.say("measuring the speed of a narrow and a wide network")
        narrow, wide = (self._speed(width) for width in (32, 128))
        costs = [self._cost(width) for width in (32, 128)]
        slope = max((wide - narrow) / (costs[1] - costs[0]), 0.0)
        start = max(narrow - slope * costs[0], 0.1 * narrow)
        return lambda width: start + slope * self._cost(width)

    def _speed(self, width: int) -> float:
        multiple = self._multiple()
        width = -(-width // multiple) * multiple
        assert self.setting.train is not None
        made, batch_size = (
            self._made(width),
            self.setting.train.batch_size or self._rows(USUAL_BATCH),
        )
        train = replace(
            self.setting.train, steps=TIMED, evaluate_every=TIMED, batch_size=batch_size
        )
        with progress.reporting(None):
            made.fit(
                _most(self.train, HELD_OUT),
                valid=_most(self.choosing, 4096),
                tokenizer=self.tokenizer,
                train=train,
                **(self.setting.fit or {}),
            )
        speeds = sorted(line["tokens_per_s"] for line in made.log if "tokens_per_s" in line)
        return 1 / max(speeds[len(speeds) // 2], 1)

    # ---- runs

    def larger(self, plan: Plan) -> tuple[int | None, float]:
        """Return width and share of a run with CHECK times the compute of the largest."""
        top = plan.shares[-1]
        if not plan.widths:
            return None, self._within(top * CHECK)
        share = self._within(top * CHECK**0.5)
        multiple, widest = self._multiple(), plan.widths[-1]
        weights = CHECK * top / share * self._cost(widest)
        width = next(
            w
            for w in range(-(-widest // multiple) * multiple, 16 * WIDEST, multiple)
            if self._cost(w) >= weights
        )
        return width, share

    def _within(self, share: float) -> float:
        if share > 1 + 1e-9:
            raise ConfigError(
                f"the check would need {share:.1f} times the text that there is; give shorter shares"
            )
        return min(share, 1.0)

    def _made(self, width: int | None) -> Any:
        more = {} if width is None else {self.width_option: width}
        return self.setting.model(**{**self.setting.options, **more})

    def run(
        self, plan: Plan, width: int | None, share: float, seed: int, directory: Path
    ) -> Scaled | None:
        """Return a run as it is kept, or make it; None where it cannot be trained, which is said."""
        how = _hash([share, plan.pieces, plan.passes, plan.batch_size])[:8]
        name = f"{width or 'counted'}-{self.shown(share).replace(' ', '')}-{how}-{seed}"
        try:
            checkpoints = directory / f"{name}.run"
            done = _kept(
                directory / f"{name}.json",
                Scaled,
                lambda: self._trained(plan, width, share, seed, checkpoints),
            )
            shutil.rmtree(checkpoints, ignore_errors=True)
            return cast("Scaled", done)
        except TrainingError as error:
            progress.say(f"left out the run of width {width} on {self.shown(share)}: {error}")
            return None

    def _trained(self, plan: Plan, width: int | None, share: float, seed: int, run: Path) -> Scaled:
        text = self.text_of(share, plan)
        made, extra, start = self._made(width), dict(self.setting.fit or {}), time.perf_counter()
        if self.setting.train is not None:
            batch: dict[str, Any] = (
                {} if plan.batch_size is None else {"batch_size": plan.batch_size}
            )
            extra |= {
                "valid": self.choosing,
                "run": run,
                "train": replace(
                    self.setting.train,
                    epochs=plan.passes,
                    seed=seed,
                    evaluate_every=10**9,  # once, at the end
                    **batch,
                ),
            }
        made.fit(text, tokenizer=self.tokenizer, **extra)
        seconds = made.log[-1]["seconds"] if self.network else time.perf_counter() - start
        loss = made.bits_per_byte(self.test)
        size, weights = text.n_bytes or 0, made.parameters if self.network else None
        passes = float(plan.passes)
        return Scaled(width, weights, size, passes, seed, float(loss), float(seconds), share)


def _hash(facts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _defaults(kind: type, name: str, n_bytes: int) -> dict[str, Any]:
    """Return options of all runs where none are given: what suits small runs."""
    if issubclass(kind, NetworkModel):
        pieces = {"tokenizer": "bpe", "vocab_size": min(bpe_size(n_bytes), FULL)}
        return NETWORK_DEFAULTS | pieces | (SHORT if name == "gpt" else {})
    return {"unit": "stream"} | ({"tokenizer": "byte", "order": 6} if name == "ngram" else {})


def _most(corpus: Corpus, n_bytes: int) -> Corpus:
    """Return the beginning of a text where it is longer than that."""
    share = n_bytes / max(corpus.n_bytes or 1, 1)
    return corpus if share >= 1 else corpus.beginning(share) or corpus


def _kept(path: Path, kind: Any, make: Callable[[], Any]) -> Any:
    """Return what a file holds, or make it and write the file."""
    try:
        return kind(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        made = make()
    with writing_file(path, SeqloomError) as partial:
        partial.write_text(json.dumps(asdict(made)) + "\n", encoding="utf-8")
    return made
