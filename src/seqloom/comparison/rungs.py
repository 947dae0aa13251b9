"""The rungs of the ladder: which models `compare` trains, in what order.

A rung says which model it is, not yet fitted, on a `Bench` (the split text and the tokenizers that rungs share). From
that model's own options come both its fitting and its `key`, under which a finished rung is kept: so it is found again
only where all that it was made of is the same. Later families add their rungs to `RUNGS`. All rungs use tokenizers that
can spell every byte, so that bits per byte mean the same for all.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqloom.contracts import LanguageModel
from seqloom.data.corpus import Splits
from seqloom.errors import MissingExtra, SeqloomError
from seqloom.models.language.cache import Cache
from seqloom.models.language.hmm import HMM
from seqloom.models.language.mixture import Mixture
from seqloom.models.language.ngram import NGram
from seqloom.models.language.uniform import Uniform
from seqloom.registry import model_class
from seqloom.text.tokenizer import Tokenizer, TokenizerConfig
from seqloom.training.checkpoint import Run
from seqloom.training.config import TrainConfig

BYTE_ORDERS, BPE_ORDERS = range(1, 9), range(1, 6)
NETWORKS = {
    "nplm": "words are vectors, so what was never seen is like something that was",
    "rnn": "a state in place of a window, which in practice reaches back a few tokens",
    "gru": "gates that keep the state over longer stretches",
    "lstm": "a cell behind gates, changed by addition, which remembers longest",
    "gpt": "looks back at every token of its context, and learns where",
}
NETWORK_TOKENS = "bpe"
QUICK: dict[str, Any] = {"softmax": "sampled", "samples": 512}  # most of a step would be the softmax over all tokens
SHORT: dict[str, Any] = {"context": 64, "n_layers": 2}  # in a minute a GPT learns little from more
NETWORK_MINUTES = 0.6
HIDDEN_STATES, HIDDEN_ROUNDS = 32, 30
RECENT: dict[str, Any] = {"window": 2000}  # tokens that the cache in a mixture remembers
MAX_BPE = 8000


@dataclass
class Bench:
    """What the rungs share: the text and the tokenizers, and the models that a mixture can use."""

    splits: Splits
    tokenizers: dict[str, tuple[Tokenizer, float]] = field(default_factory=dict)  # with the seconds it took
    fitted: dict[str, LanguageModel] = field(default_factory=dict)
    minutes: float = NETWORK_MINUTES  # that a network trains
    place: Path | None = None  # for checkpoints of networks
    seed: int = 0

    def tokenizer(self, kind: str) -> Tokenizer:
        if kind not in self.tokenizers:
            start = time.perf_counter()
            tokenizer = Tokenizer(self.tokenizer_config(kind)).fit(self.splits.train)
            self.tokenizers[kind] = tokenizer, time.perf_counter() - start
        return self.tokenizers[kind][0]

    def tokenizer_config(self, kind: str) -> TokenizerConfig:
        size = bpe_size(self.splits.train.n_bytes or 0) if kind == "bpe" else None
        return TokenizerConfig.from_dict({"kind": kind, "vocab_size": size})

    @property
    def train(self) -> TrainConfig:
        """How networks are trained."""
        return TrainConfig(minutes=self.minutes, seed=self.seed)


class NotPossible(SeqloomError):
    """A rung that cannot be trained here, and why."""


@dataclass(frozen=True)
class Rung:
    name: str
    family: str
    tokenizer: str  # the kind it is trained with
    make: Callable[[Bench], LanguageModel]  # the model, not yet fitted
    work: int  # passes over the training text, to estimate its time before it starts; 0: it takes the time given
    adds: str  # in a sentence
    on_others: bool = False  # made of the rungs before it, so it is another one where those are others

    def key(self, bench: Bench, others: Iterable[Rung] = ()) -> str:
        """A short hash of all that makes this rung what it is, besides the text; `others` are the rungs it could mix."""
        model = Mixture() if self.on_others else self.make(bench)
        facts: dict[str, Any] = {"rung": self.name, "model": model.name, "config": model.config.to_dict(), "seed": bench.seed,
                                 "tokenizer": bench.tokenizer_config(self.tokenizer).to_dict()}
        if model.trained:
            facts["train"] = bench.train.to_dict()
        if self.on_others:
            facts |= {"cache": RECENT, "members": [rung.key(bench) for rung in others if self.mixes(rung)]}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    def mixes(self, other: Rung) -> bool:
        """Whether that one is a member, where this is a mixture."""
        return other.tokenizer == self.tokenizer and other.family not in ("calibration", "mixture")

    def fit(self, bench: Bench) -> LanguageModel:
        model = self.make(bench)
        if self.on_others:
            return model.fit(bench.splits.valid)  # the weights are learnt on text that no member has seen
        tokenizer = bench.tokenizer(self.tokenizer)
        if not model.trained:
            return model.fit(bench.splits.train, tokenizer=tokenizer)
        run = None if bench.place is None else bench.place / f"{self.name}-{self.key(bench)}.run"
        with nullcontext() if run is None else Run(run).held():
            try:
                model.fit(bench.splits.train, valid=bench.splits.valid, tokenizer=tokenizer, run=run, train=bench.train)
            except MissingExtra as error:
                raise NotPossible(str(error)) from None
            if run is not None:
                Run(run).clear()
        return model


def bpe_size(n_bytes: int) -> int:
    """A vocabulary that suits the amount of text: about one token for every 200 bytes, from 512 to 8,000."""
    return int(min(max(n_bytes // 200, 512), MAX_BPE))


def _uniform(bench: Bench) -> LanguageModel:
    return Uniform(tokenizer="byte", unit="stream")


def _ngram(kind: str, order: int) -> Callable[[Bench], LanguageModel]:
    return lambda bench: NGram(order=order, tokenizer=kind, unit="stream")


def _hidden(bench: Bench) -> LanguageModel:
    return HMM(states=HIDDEN_STATES, iterations=HIDDEN_ROUNDS, tokenizer=NETWORK_TOKENS, unit="stream", seed=bench.seed)


def _network(name: str) -> Callable[[Bench], LanguageModel]:
    options = QUICK | (SHORT if name == "gpt" else {})
    return lambda bench: model_class(name)(tokenizer=NETWORK_TOKENS, unit="stream", **options)


def _mixture(kind: str) -> Callable[[Bench], LanguageModel]:
    def make(bench: Bench) -> LanguageModel:
        """All models of one tokenizer with a cache."""
        members = [m for m in bench.fitted.values() if m.tokenizer.kind == kind and not isinstance(m, (Uniform, Mixture))]
        if not members:
            raise NotPossible(f"no other rung of {kind} tokens was asked for or trained, so there is nothing to mix")
        cache = Cache(tokenizer=kind, unit="stream", **RECENT)
        return Mixture.of([*members, cache.fit(bench.splits.valid, tokenizer=bench.tokenizer(kind))])
    return make


def _longer(one: str, many: str, order: int) -> str:
    if order == 1:
        return f"how often each {one} occurs"
    return f"looks at the {one} before" if order == 2 else f"looks at the {order - 1} {many} before"


RUNGS: tuple[Rung, ...] = (
    Rung("uniform", "calibration", "byte", _uniform, 1, "nothing: it must read 8.000"),
    *(Rung(f"byte-{n}", "n-gram", "byte", _ngram("byte", n), n, _longer("byte", "bytes", n)) for n in BYTE_ORDERS),
    *(Rung(f"bpe-{n}", "n-gram", "bpe", _ngram("bpe", n), n, _longer("piece", "pieces of words", n))
      for n in BPE_ORDERS),
    Rung("hmm", "hidden", NETWORK_TOKENS, _hidden, HIDDEN_ROUNDS, "hidden classes that follow one another, with own pieces"),
    *(Rung(name, "network", NETWORK_TOKENS, _network(name), 0, adds) for name, adds in NETWORKS.items()),
    *(Rung(f"{kind}-mixture", "mixture", kind, _mixture(kind), 2, f"asks all others of {what} and what was said lately",
           on_others=True) for kind, what in (("byte", "bytes"), ("bpe", "pieces of words"))),
)
