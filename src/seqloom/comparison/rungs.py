"""The rungs of the ladder of language models: which ones `compare` trains, in what order.

Later families add their rungs to `RUNGS`. All rungs use tokenizers that can spell every byte, so
that bits per byte mean the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seqloom.comparison.bench import WORDS, Bench, NotPossible, Rung
from seqloom.contracts import LanguageModel
from seqloom.models.language.cache import Cache
from seqloom.models.language.hmm import HMM
from seqloom.models.language.mixture import Mixture
from seqloom.models.language.ngram import NGram
from seqloom.models.language.uniform import Uniform
from seqloom.models.network.network import NetworkModel
from seqloom.registry import MODELS, is_known, model_class
from seqloom.text.tokenizer import TokenizerConfig

BYTE_ORDERS, BPE_ORDERS, WORD_ORDERS = range(1, 9), range(1, 6), range(1, 5)
NETWORKS = {
    "nplm": "words are vectors, so what was never seen is like something that was",
    "rnn": "a state in place of a window, which in practice reaches back a few tokens",
    "gru": "gates that keep the state over longer stretches",
    "lstm": "a cell behind gates, changed by addition, which remembers longest",
    "gpt": "looks back at every token of its context, and learns where",
}
NETWORK_TOKENS = "bpe"
# Otherwise most of a step is the softmax over all tokens.
SAMPLED: dict[str, Any] = {"softmax": "sampled", "samples": 512}
FULL = 2000  # tokens up to which the full softmax is used
SHORT: dict[str, Any] = {"context": 64, "n_layers": 2}  # in a minute a GPT learns little from more
TRAINING: dict[str, dict[str, Any]] = {  # chosen on the valid part of the bundled text
    "gru": {"optimizer": "adamw", "lr": 0.01, "batch_size": 32, "truncation": 16},
    "lstm": {"lr": 0.02},
}
NETWORK_MINUTES = 0.6
HIDDEN_STATES, HIDDEN_ROUNDS = 32, 30
RECENT: dict[str, Any] = {"window": 2000}  # tokens that the cache in a mixture remembers
MAX_BPE = 8000
MAX_WORDS = 100_000  # seen twice or more; others are spelled in bytes


def tokenizer_config(kind: str, n_bytes: int) -> TokenizerConfig:
    """Return the config of that kind of tokenizer for so much text."""
    if kind == WORDS:
        return TokenizerConfig(kind="bpe", vocab_size=MAX_WORDS, min_count=2)
    return TokenizerConfig.from_dict(
        {"kind": kind, "vocab_size": bpe_size(n_bytes) if kind == "bpe" else None}
    )


def bpe_size(n_bytes: int) -> int:
    """Choose a vocabulary size for the amount of text: about one token per 900 bytes, from 512 to
    8,000.
    """
    return int(min(max(n_bytes // 900, 512), MAX_BPE))


def _uniform(bench: Bench) -> LanguageModel:
    return Uniform(tokenizer="byte", unit="stream")


def _ngram(kind: str, order: int) -> Callable[[Bench], LanguageModel]:
    return lambda bench: NGram(
        order=order, tokenizer="bpe" if kind == WORDS else kind, unit="stream"
    )


def _hidden(bench: Bench) -> LanguageModel:
    return HMM(
        states=HIDDEN_STATES,
        iterations=HIDDEN_ROUNDS,
        tokenizer=NETWORK_TOKENS,
        unit="stream",
        seed=bench.seed,
    )


def _network(name: str) -> Callable[[Bench], LanguageModel]:
    def make(bench: Bench) -> LanguageModel:
        large = (bench.tokenizer_config(NETWORK_TOKENS).vocab_size or 0) > FULL
        return model_class(name)(
            tokenizer=NETWORK_TOKENS,
            unit="stream",
            **(SAMPLED if large else {}),
            **(SHORT if name == "gpt" else {}),
        )

    return make


def network_rung(name: str) -> Rung | None:
    """Return the rung of a network that is registered elsewhere, such as one with a cell of your own."""
    if (
        not is_known(name)
        or model_class(name).task != LanguageModel.task
        or not issubclass(model_class(name), NetworkModel)
    ):
        return None
    return Rung(name, "network", NETWORK_TOKENS, _network(name), 0, MODELS[name].summary)


def _mixture(kind: str) -> Callable[[Bench], LanguageModel]:
    def make(bench: Bench) -> LanguageModel:
        """Mix all models of one tokenizer with a cache."""
        shared = bench.tokenizer(kind) if kind in bench.tokenizers else None
        members = [
            m
            for name, m in bench.fitted.items()
            if name not in bench.own
            and m.tokenizer == shared
            and not isinstance(m, (Uniform, Mixture))
        ]
        if not members:
            raise NotPossible(
                f"no other rung of {kind} tokens was asked for or trained, so there is nothing to mix"
            )
        cache = Cache(tokenizer=kind, unit="stream", **RECENT)
        return Mixture.of(
            [*members, cache.fit(bench.splits.valid, tokenizer=bench.tokenizer(kind))]
        )

    make.options = {"cache": RECENT}  # type: ignore[attr-defined]
    return make


def _longer(one: str, many: str, order: int) -> str:
    if order == 1:
        return f"how often each {one} occurs"
    return f"looks at the {one} before" if order == 2 else f"looks at the {order - 1} {many} before"


RUNGS: tuple[Rung, ...] = (
    Rung("uniform", "calibration", "byte", _uniform, 1, "nothing: it must read 8.000"),
    *(
        Rung(f"byte-{n}", "n-gram", "byte", _ngram("byte", n), n, _longer("byte", "bytes", n))
        for n in BYTE_ORDERS
    ),
    *(
        Rung(
            f"bpe-{n}", "n-gram", "bpe", _ngram("bpe", n), n, _longer("piece", "pieces of words", n)
        )
        for n in BPE_ORDERS
    ),
    *(
        Rung(f"word-{n}", "n-gram", WORDS, _ngram(WORDS, n), n, _longer("word", "words", n))
        for n in WORD_ORDERS
    ),
    Rung(
        "hmm",
        "hidden",
        NETWORK_TOKENS,
        _hidden,
        HIDDEN_ROUNDS,
        "hidden classes that follow one another, with own pieces",
    ),
    *(
        Rung(
            name,
            "network",
            NETWORK_TOKENS,
            _network(name),
            0,
            adds,
            training=TRAINING.get(name, {}),
        )
        for name, adds in NETWORKS.items()
    ),
    *(
        Rung(
            f"{kind}-mixture",
            "mixture",
            kind,
            _mixture(kind),
            2,
            f"asks all others of {what} and what was said lately",
            on_others=True,
        )
        for kind, what in (("byte", "bytes"), ("bpe", "pieces of words"))
    ),
)
