"""Networks of every model with random weights, none of them trained: what the tests of this folder
go through.

`CASES` has makers of fitted models by name, a name being the model and the options that differ from
those of `SMALL`. All weights are drawn anew, larger than a network begins with, so that nothing is
hidden by a zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np

from seqloom import Tokenizer
from seqloom.encoder_table import ENCODERS
from seqloom.models.masked.configs import EncoderLayout
from seqloom.models.masked.inputs import Marks
from seqloom.models.sequence.configs import Sizes
from seqloom.models.sequence.published import Published
from seqloom.registry import model_class
from tests.fuzz.specimens import random_encoder

Maker = Callable[[], Any]

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,;"
WORDS = ["good", "fun", "dull", "and", "long", "so", "very", "Ada", "met", "Bob"]
FURTHER = ["seldom", "seen"]
TAGS = ["B-P", "I-P", "O"]
SMALL: dict[str, dict[str, Any]] = {
    "rnn": {"d_hidden": 36},
    "lstm": {"d_hidden": 36},
    "gru": {"d_hidden": 36},
    "nplm": {"d_hidden": 36, "d_embed": 10, "order": 4},
    "gpt": {"d_model": 36, "n_heads": 3, "n_layers": 2, "context": 80, "d_mlp": 40},
    "seq2seq": {"d_embed": 20, "d_hidden": 12},
    "transformer": {"d_model": 36, "n_heads": 3, "n_layers": 2, "n_decoder_layers": 2, "d_mlp": 40},
    "bert": {"context": 80, "d_model": 36, "n_layers": 3, "n_heads": 3, "d_mlp": 40},
    "sentence-encoder": {"context": 80, "d_model": 36, "n_layers": 3, "n_heads": 3, "d_mlp": 40},
    "classifier": {"d_embed": 20, "d_hidden": 12},
    "tagger": {"d_embed": 20, "d_hidden": 12},
    "answerer": {"d_embed": 20, "d_hidden": 12, "max_length": 24},
    "forecaster": {"d_hidden": 12, "horizon": 5, "window": 13},
}


# ---- weights


def draw_weights(model: Any, seed: int = 0) -> Any:
    """Give a model whose other parts are complete random weights; return it."""
    module, rng = model.build_fitted(), np.random.default_rng(seed)
    made = {
        name: _drawn(rng, name, tuple(value.shape), value.dtype.is_floating_point)
        for name, value in module.state_dict().items()
    }
    model.net.restore(made)
    model.fitted = True
    return model


def _drawn(
    rng: np.random.Generator, name: str, shape: tuple[int, ...], floating: bool
) -> np.ndarray:
    if not floating:  # ranks of tokens
        return rng.permutation(shape[0])
    if name.endswith("reader.scale"):
        return rng.uniform(0.5, 2, shape).astype(np.float32)
    size = min(1.5 / math.sqrt(shape[-1]), 0.5) if len(shape) == 2 else 0.4
    centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
    return (centre + rng.normal(0, size, shape)).astype(np.float32)


# ---- makers


@cache
def characters() -> Tokenizer:
    return Tokenizer(kind="char").fit([LETTERS])


def language(
    name: str, *, vectors: int | None = None, start_alone: bool = False, **options: Any
) -> Any:
    """`vectors`: the width of pretrained ones that it began with."""
    model = model_class(name)(tokenizer="char", **{**SMALL[name], **options})
    model.tokenizer = characters()
    model.learnt = {"width": getattr(model.config, model.layers.width_option)}
    if vectors is not None:
        model.learnt["d_embed"] = vectors
    if start_alone:
        model.learnt["start_alone"] = True
    return draw_weights(model)


def translator(name: str, *, columns: int = 0, **options: Any) -> Any:
    """`columns`: of sources that are numbers."""
    model = model_class(name)(tokenizer="char", **{**SMALL[name], **options})
    model.tokenizers = {"target": characters()} | ({} if columns else {"source": characters()})
    sizes = (
        Sizes(columns=columns, missing=True)
        if columns
        else Sizes(characters().vocab_size, model.d_embed)
    )
    model.learnt = {"sizes": sizes.to_dict(), "longest_source": 9, "longest_target": 9}
    return draw_weights(model)


def encoder(name: str, **options: Any) -> Any:
    return draw_weights(random_encoder(name, **{**SMALL[name], **options}))


READERS = ("tokens", "further", "cnn", "lstm", "numbers", "missing")


def composed(name: str, reader: str, *, several: bool = False, **options: Any) -> Any:
    """`reader`: one of READERS, or a layout of a published encoder; `several`: labels of an example."""
    spelled = (
        {"characters": reader, "d_characters": 6}
        if reader in ("cnn", "lstm")
        else {"characters": "none"}
    )
    if reader in ("numbers", "missing") or reader in LAYOUTS:
        spelled = {}
    given = {**SMALL[name], **spelled, **options}
    kept = (
        given
        if "encoder" not in given or ENCODERS[given["encoder"]].layered
        else {**given, "d_hidden": None}
    )
    if reader in LAYOUTS:
        kept = {
            key: value for key, value in given.items() if key not in ("d_hidden", "d_embed")
        } | {"encoder": "."}
    model = model_class(name)(**{key: value for key, value in kept.items() if value is not None})
    words = [*WORDS, *(FURTHER if reader == "further" else ())]
    d_embed, known = SMALL[name]["d_embed"], sorted(set("".join(WORDS)))
    if name in ("classifier", "answerer"):
        model.tokenizer = Tokenizer(kind="word").fit([" ".join(words)])
        size = model.tokenizer.vocab_size
        model.learnt = {"classes": ["+", "-", "?"], **({"multi_label": True} if several else {})}
        if name == "answerer":
            model.learnt = {"threshold": 0.5}
    else:
        model.rows = {word: i for i, word in enumerate(["<unk>", *words])}
        size = len(model.rows)
        model.learnt = {
            "tags": TAGS,
            "working_tags": TAGS,
            "scheme": "bio",
            "working_scheme": "bio",
        }
    further = len(FURTHER) if reader == "further" else 0
    sizes = Sizes(
        size - further, d_embed, further, len(known) + 2 if spelled.get("d_characters") else 0
    )
    if spelled.get("d_characters"):
        model.learnt["characters"] = known
    if reader in ("numbers", "missing"):
        sizes = Sizes(columns=3, missing=reader == "missing")
    if reader in LAYOUTS:
        first = random_encoder("bert", **{**SMALL["bert"], "context": 14, **LAYOUTS[reader]})
        layout = EncoderLayout(
            **{
                key: value
                for key, value in asdict(first.config).items()
                if key in EncoderLayout.__dataclass_fields__
            }
        )
        size = first.tokenizer.vocab_size
        model.tokenizer, model.learnt["published"] = (
            first.tokenizer,
            Published(layout, Marks.of(first.learnt, size)).to_dict(),
        )
        sizes = Sizes(size if name != "tagger" else len(model.rows), layout.d_model)
    model.learnt["sizes"] = sizes.to_dict()
    return draw_weights(model)


def forecaster(
    *,
    columns: int = 2,
    known: int = 0,
    missing: bool = False,
    step: str = "row",
    patch: int = 3,
    **options: Any,
) -> Any:
    """`columns` of separate or joint ones is an option too: `together`."""
    together = options.pop("together", False)
    model = model_class("forecaster")(
        **{**SMALL["forecaster"], "columns": "together" if together else "separate", **options}
    )
    model.learnt = {
        "columns": [f"c{i}" for i in range(columns)],
        "known_columns": [f"k{i}" for i in range(known)],
        "season": 1,
        "window": model.config.window,
        "step": [1, step],
        "patch": patch,
        "missing": missing,
    }
    return draw_weights(model)


# ---- what is made


def _one_by_one(**choices: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Yield each value of each option alone."""
    for name, values in choices.items():
        yield from ({name: value} for value in values)


SOFTMAXES = ("adaptive", "sampled", "nce")
RECURRENT = [
    {},
    *_one_by_one(
        n_layers=(2,),
        layer_norm=(True,),
        learned_start=(True,),
        residual=(True,),
        tied=(False,),
        d_embed=(10,),
        softmax=SOFTMAXES,
        vectors=(7,),
    ),
    {"n_layers": 3, "residual": True, "layer_norm": True, "learned_start": True, "d_embed": 10},
    {"n_layers": 2, "tied": False, "d_embed": 40},
    *({"norm": norm, "n_layers": 2} for norm in ("inputs", "between", "outputs", "states")),
    {"shrink": 0.5, "n_layers": 3},
    {"shrink": 0.6, "n_layers": 2, "norm": "between", "tied": False},
    {"norm": "states", "layer_norm": True, "learned_start": True},
    {"norm": "inputs", "residual": True, "n_layers": 2},
    *_one_by_one(clamp=(0.3,), activation=("relu", "leaky-relu", "sigmoid")),
    {"activation": "leaky-relu", "clamp": 0.5, "learned_start": True},
]
GATED: list[dict[str, Any]] = [
    {"gate_activation": "hard-sigmoid"},
    {"gate_activation": "hard-sigmoid", "activation": "leaky-relu", "clamp": 0.5, "n_layers": 2},
    {"gate_activation": "hard-sigmoid", "layer_norm": True, "learned_start": True},
]
OWN: dict[str, list[dict[str, Any]]] = {
    "rnn": [
        {"activation": "relu", "layer_norm": True, "n_layers": 2},
        *(
            {"recurrence": form, "activation": activation, **more}
            for form in ("elman", "pascanu", "continuous")
            for activation in ("tanh", "sigmoid", "leaky-relu")
            for more in ({"time_step": 0.3}, {"layer_norm": True, "n_layers": 2})
        ),
        {"recurrence": "pascanu", "learned_start": True},
        {"recurrence": "continuous", "clamp": 0.5},
    ],
    "lstm": [
        *GATED,
        {"d_projection": 20, "clamp": 0.3},
        {"d_projection": 20, "norm": "states", "gate_activation": "hard-sigmoid"},
        {"d_projection": 12, "shrink": 0.5, "n_layers": 2, "norm": "outputs"},
        {"d_projection": 20},
        {"d_projection": 20, "layer_norm": True, "learned_start": True, "n_layers": 2},
        {"d_projection": 36, "residual": True, "n_layers": 2},
        {"d_projection": 50},
        {"d_projection": 20, "tied": False},
        {"d_projection": 20, "softmax": "adaptive"},
    ],
    "gru": [
        *GATED,
        *({"reset": "before", **one} for one in GATED),
        {"update": "replace", "activation": "sigmoid"},
        {"reset": "before"},
        {"update": "replace"},
        {"reset": "before", "update": "replace", "n_layers": 2},
        {"reset": "before", "layer_norm": True, "learned_start": True},
        {"update": "replace", "layer_norm": True},
    ],
}
NPLM = [
    {},
    *_one_by_one(order=(2, 7), direct=(True,), softmax=SOFTMAXES, vectors=(7,)),
    {"direct": True, "softmax": "adaptive"},
]
POSITIONS = ("learned", "sinusoidal", "rope", "alibi", "relative", "none")
LLAMA = {
    "norm_kind": "rms",
    "norm_epsilon": 0.3,
    "activation": "swiglu",
    "n_heads": 6,
    "n_kv_heads": 2,
    "rope_base": 50.0,
    "bias": False,
}
GPT = [
    *(
        {"positions": positions, **more}
        for positions in POSITIONS
        for more in ({}, {"norm": "post", "activation": "relu", "tied": False, "bias": False})
    ),
    *_one_by_one(
        norm_kind=("rms",),
        norm_epsilon=(0.3,),
        activation=("relu", "swiglu"),
        bias=(False,),
        d_mlp=(7,),
        softmax=SOFTMAXES,
        n_kv_heads=(1,),
        rope_scale=(2.5,),
        rope_base=(50.0,),
        window=(1, 5, 70),
    ),
    LLAMA,
    {**LLAMA, "window": 3},
    {**LLAMA, "softmax": "adaptive"},
    {"positions": "relative", "max_distance": 3, "n_heads": 6, "n_kv_heads": 2},
    {"positions": "alibi", "window": 4},
    {"positions": "relative", "window": 2},
    {"norm": "post", "norm_kind": "rms"},
    {"tied": False, "bias": False},
    {"positions": "sinusoidal", "softmax": "adaptive"},
    {"positions": "alibi", "n_heads": 6, "n_kv_heads": 3},
    {"start_alone": True},
    {"start_alone": True, "positions": "learned"},
]
ATTENTIONS = ("none", "additive", "dot", "general", "concat", "scaled")
SHARED = {"shared_vocabulary": True}
ONE = {"one_network": True, **SHARED}
SEQ2SEQ = [
    *(
        {"attention": attention, "cell": cell, **more}
        for attention, cell in itertools.product(ATTENTIONS, ("rnn", "lstm", "gru"))
        for more in ({}, *({"coverage": True} for _ in range(attention != "none")))
    ),
    *(
        {
            "encoder": name,
            "cell": cell,
            "attention": attention,
            **({"n_layers": 2} if name != "bag" else {}),
            **({"n_heads": 2} if name == "transformer" else {}),
        }
        for (name, cell), attention in zip(
            itertools.product(ENCODERS, ("rnn", "lstm", "gru")), itertools.cycle(ATTENTIONS)
        )
    ),
    *(
        {"input_feeding": True, "n_decoder_layers": 2, "attention": attention, "coverage": True}
        for attention in ATTENTIONS[1:]
    ),
    {"input_feeding": True, "bottleneck": "every-step", "cell": "lstm", "tied": False},
    {"input_feeding": True},
    {"input_feeding": True, "cell": "lstm", "n_decoder_layers": 3},
    {"bottleneck": "every-step"},
    {"bottleneck": "every-step", "attention": "none", "d_embed": 12},
    {"bottleneck": "every-step", "attention": "none", "cell": "rnn"},
    {"tied": False, "reverse_source": True},
    {"attention": "none", "d_embed": 12},
    {"attention": "none", "tied": False},
    SHARED,
    {**SHARED, "tied": False},
    {"encoder": "cnn", "window": 2},
    {"encoder": "window", "window": 0},
    {"encoder": "window", "window": 3, "n_layers": 3},
    {**ONE, "cell": "lstm", "n_decoder_layers": 2},
    {**ONE, "attention": "none"},
    {**ONE, "cell": "rnn"},
    {**ONE, "coverage": True, "attention": "dot"},
    {**ONE, "attention": "none", "tied": False},
    {"columns": 3},
    {"columns": 3, "encoder": "transformer", "n_heads": 2},
    {"columns": 3, "attention": "none"},
]
T5 = {
    "positions": "t5",
    "norm_kind": "rms",
    "bias": False,
    "scaled_attention": False,
    "scaled_embedding": False,
    "scaled_output": True,
}
TRANSFORMER = [
    *(
        {"positions": positions, "norm": norm}
        for positions in ("sinusoidal", "learned", "t5")
        for norm in ("pre", "post")
    ),
    *_one_by_one(
        norm_kind=("rms",),
        norm_epsilon=(0.5,),
        embedding_norm=(True,),
        d_head=(3, 20),
        d_mlp=(7,),
        activation=("gelu", "gelu-erf", "swish", "geglu", "swiglu"),
        bias=(False,),
        tied=(False,),
        scaled_attention=(False,),
        scaled_embedding=(False,),
        scaled_output=(True,),
        columns=(3, 36),
        shared_vocabulary=(True,),
    ),
    {"norm_kind": "rms", "norm_epsilon": 0.5, "norm": "post"},
    {"activation": "swiglu", "bias": False, "norm": "post"},
    {"bias": False, "tied": False, "norm": "post"},
    {"positions": "t5", "buckets": 6, "max_distance": 4},
    {"n_layers": 1, "n_decoder_layers": 3},
    {"n_layers": 3, "n_decoder_layers": 1, **SHARED},
    {**T5, "d_head": 5, "activation": "geglu", "d_model": 11, **SHARED},
    {
        "positions": "learned",
        "norm": "post",
        "embedding_norm": True,
        "activation": "gelu-erf",
        **SHARED,
    },
    {"columns": 3, "positions": "learned", "embedding_norm": True, "norm_kind": "rms"},
]
LAYOUTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"position_offset": 2, "n_types": 1},
    "distilbert": {"n_types": 0, "activation": "relu"},
    "albert": {"shared_layers": True, "d_embed": 10, "activation": "gelu"},
    "electra": {"d_embed": 10, "pooler": True},
}
HEADS = [{}, {"tied": False}, {"head_activation": "relu"}, {"head": False}]
POOLS = ("last", "mean", "max", "attention")


def _sequence_cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield model, reader and options: every reader with every encoder, and every encoder with every head."""
    heads = [{"pooling": pool} for pool in POOLS]
    heads += [{"pooling": pool, "long": "sentences", "max_length": 4} for pool in POOLS]
    heads += [
        {"pooling": "attention", "long": "windows", "max_length": 4},
        {"pooling": "max", "several": True},
    ]
    heads += [{"pooling": "last", "long": "sentences", "n_sentence_layers": 2}]
    turns = itertools.cycle(heads)
    for (i, name), reader in itertools.product(enumerate(ENCODERS), READERS):
        more = {"n_layers": 2} if i % 2 and ENCODERS[name].layered else {}
        more |= {"n_heads": 2} if "n_heads" in ENCODERS[name].options else {}
        head = next(turns)
        if reader in ("numbers", "missing"):
            head = next(one for one in turns if one.get("long") != "sentences")
            yield "classifier", reader, {"encoder": name, "d_embed": None, **more, **head}
            continue
        yield "classifier", reader, {"encoder": name, **more, **head}
        yield "tagger", reader, {"encoder": name, "crf": bool(i % 2), **more}
    turns_of_readers = itertools.cycle(READERS[:4])
    for name, head in itertools.product(ENCODERS, heads):
        more = {"n_heads": 3} if "n_heads" in ENCODERS[name].options else {}
        yield "classifier", next(turns_of_readers), {"encoder": name, **more, **head}
    for window, (name, layers) in itertools.product(
        (0, 2), (("window", 1), ("window", 3), ("cnn", 1), ("cnn", 3))
    ):
        yield "classifier", "tokens", {"encoder": name, "window": window, "n_layers": layers}
        yield "tagger", "cnn", {"encoder": name, "window": window, "n_layers": layers}
    for name, variant in itertools.product(("classifier", "tagger", "answerer"), ENCODER_VARIANTS):
        yield name, "tokens", variant
    for layout, head in itertools.product(LAYOUTS, heads):
        yield "classifier", layout, head
    for layout, crf in itertools.product(LAYOUTS, (True, False)):
        yield "tagger", layout, {"crf": crf}
    for name, reader in itertools.product(ENCODERS, ("tokens", "further", "cnn", "lstm")):
        more = {"n_heads": 3} if "n_heads" in ENCODERS[name].options else {}
        yield "answerer", reader, {"encoder": name, **more}
    for layout in LAYOUTS:
        yield "answerer", layout, {}


ENCODER_VARIANTS: list[dict[str, Any]] = [
    {"encoder": "rnn", "recurrence": "pascanu"},
    {"encoder": "birnn", "recurrence": "continuous", "time_step": 0.5, "activation": "sigmoid"},
    {"encoder": "bilstm", "gate_activation": "hard-sigmoid", "norm": "states"},
    {"encoder": "lstm", "activation": "leaky-relu", "clamp": 0.4},
    {"encoder": "bigru", "shrink": 0.5, "n_layers": 3, "norm": "between"},
    {"encoder": "gru", "norm": "inputs", "gate_activation": "hard-sigmoid"},
    {"encoder": "bigru", "norm": "outputs", "clamp": 0.3},
]


def _forecasters() -> Iterator[dict[str, Any]]:
    for name in ENCODERS:
        more = {"n_heads": 2} if "n_heads" in ENCODERS[name].options else {}
        yield {"encoder": name, **more}
        yield {
            "encoder": name,
            "n_layers": 2,
            "together": True,
            "missing": True,
            "known": 2,
            "normalise": "instance",
            **more,
        }
    yield from _one_by_one(
        together=(True,),
        normalise=("instance", "none"),
        highway=(False,),
        missing=(True,),
        known=(1, 3),
        patch=(1, 4, 13),
        horizon=(1, 9),
    )
    yield {"calendar": True, "step": "second"}
    yield {
        "calendar": True,
        "step": "day",
        "known": 2,
        "missing": True,
        "together": True,
        "columns": 3,
    }
    yield {"calendar": True, "step": "row", "highway": False}
    yield from ENCODER_VARIANTS


def _named(name: str, options: dict[str, Any], *before: str) -> str:
    said = [f"{key}={value}" for key, value in options.items() if value is not None]
    return " ".join([name, *before, *said])


LANGUAGE: dict[str, Maker] = {
    _named(name, options): partial(language, name, **options)
    for name, every in (
        *((name, RECURRENT + OWN[name]) for name in OWN),
        ("nplm", NPLM),
        ("gpt", GPT),
    )
    for options in every
}
TRANSLATORS: dict[str, Maker] = {
    _named(name, options): partial(translator, name, **options)
    for name, every in (("seq2seq", SEQ2SEQ + ENCODER_VARIANTS), ("transformer", TRANSFORMER))
    for options in every
}
BERT: dict[str, Maker] = {
    _named("bert", {**LAYOUTS[layout], **head}): partial(encoder, "bert", **LAYOUTS[layout], **head)
    for layout, head in itertools.product(LAYOUTS, HEADS)
}
SENTENCE_ENCODERS: dict[str, Maker] = {
    _named("sentence-encoder", options): partial(encoder, "sentence-encoder", **options)
    for options in LAYOUTS.values()
}
COMPOSED: dict[str, Maker] = {
    _named(name, options, reader): partial(composed, name, reader, **options)
    for name, reader, options in _sequence_cases()
}
FORECASTERS: dict[str, Maker] = {
    _named("forecaster", options): partial(forecaster, **options) for options in _forecasters()
}
CASES: dict[str, Maker] = {
    **LANGUAGE,
    **TRANSLATORS,
    **BERT,
    **SENTENCE_ENCODERS,
    **COMPOSED,
    **FORECASTERS,
}
