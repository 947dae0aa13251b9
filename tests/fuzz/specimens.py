"""Small fitted models to be attacked: every registered model, with the options that change what its
file holds, and those that earlier versions saved.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from seqloom import Tokenizer
from seqloom.models.language.mixture import Mixture
from seqloom.models.language.neural_cache import NeuralCache
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.registry import model_class
from seqloom.storage import FORMAT_VERSION
from seqloom.testing.language import TEXT as TOY
from seqloom.text.subword import Subword
from seqloom.text.subword_file import make_engine
from seqloom.training.config import TrainConfig

SAVED = Path(__file__).parents[1] / "saved"
TEXT = TOY * 3
LABELLED = [
    ("good fun and a good cat", "+"),
    ("dull and long", "-"),
    ("a good day", "+"),
    ("so dull a road", "-"),
    ("what is this", "?"),
    ("the dog is what", "?"),
]
TAGGED = [
    (["Mary", "saw", "New", "York"], ["B-PER", "O", "B-LOC", "I-LOC"]),
    (["she", "left", "Rome"], ["O", "O", "B-LOC"]),
]
QUESTIONS = [
    ("who saw it ?", "Mary saw New York .", "Mary"),
    ("what did Mary see ?", "Mary saw New York .", "New York"),
    ("who left ?", "Mary saw New York .", None),
]
WAVE = [round(math.sin(i / 2) + i / 50, 3) for i in range(60)]  # with a season of about 12
REVERSED = [(text, text[::-1]) for text in ("abc", "ab", "cab", "bca cab")]
TRANSLATED = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
PARTS = [
    (["the", "cat", "sat"], ["D", "N", "V"]),
    (["a", "dog", "met", "the", "cat"], ["D", "N", "V", "D", "N"]),
]

Maker = Callable[[], Any]


def _language(name: str, **options: Any) -> Maker:
    return lambda: model_class(name)(**options).fit(TEXT)


def _network(name: str, **options: Any) -> Maker:
    """A network after one step: what it says does not matter."""
    options = {"tokenizer": "whitespace", **options}
    train = {"steps": 1, "batch_size": 2, **({} if name == "gpt" else {"truncation": 4})}
    return lambda: model_class(name)(**options).fit(
        TEXT, train=TrainConfig(**train), valid=TEXT[:60]
    )


def _labelled(name: str, **options: Any) -> Maker:
    return lambda: model_class(name)(**options).fit(LABELLED)


def _sequence(name: str, data: Any, **options: Any) -> Maker:
    """A composed network after one step."""
    return lambda: model_class(name)(**options).fit(data, train=TrainConfig(steps=1, batch_size=2))


def _converted() -> Any:
    """A translator with what converted weights bring with them."""
    model = _sequence(
        "transformer",
        REVERSED,
        tokenizer="char",
        d_model=8,
        n_heads=2,
        n_layers=1,
        n_decoder_layers=1,
        positions="learned",
        context=250,
        norm="post",
        embedding_norm=True,
        activation="gelu-erf",
    )()
    model.learnt |= {"start": [3, 2], "source_start": 3, "never": [1]}
    return model


def _numbers() -> list[Any]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(n, 2)), "+-"[n % 2]) for n in (3, 5, 2, 4)]


def _frames() -> list[Any]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(n, 2)).astype(np.float32), "abc"[:n]) for n in (3, 2, 1, 3)]


def _tagged(data: Any, name: str = "hmm-tagger", **options: Any) -> Maker:
    return lambda: model_class(name)(**options).fit(data)


def _series(name: str, data: Any = WAVE, **options: Any) -> Maker:
    return lambda: model_class(name)(horizon=4, **options).fit(data)


def _forecaster(**options: Any) -> Maker:
    options = {"horizon": 4, "window": 8, "d_hidden": 8, **options}
    return lambda: model_class("forecaster")(**options).fit(
        WAVE, train=TrainConfig(steps=1, batch_size=4)
    )


def _vectors(name: str, **options: Any) -> Maker:
    options = {"min_count": 1, "dimensions": 6, "epochs": 1, **options}
    return lambda: model_class(name)(**options).fit(TEXT)


def _plain_vectors() -> Any:
    words = ["cat", "dog", "sea", "road", "log", "mat", "the", "a"]
    return WordVectors.of(words, np.random.default_rng(0).normal(size=(8, 5)), np.arange(8, 0, -1))


def _mixture() -> Any:
    shared = Tokenizer(kind="whitespace").fit(TEXT)
    members = [
        model_class(name)(**options).fit(TEXT, tokenizer=shared)
        for name, options in (("ngram", {"order": 2}), ("cache", {}), ("ngram", {"order": 3}))
    ]
    inner = Mixture.of(members[:2]).fit(TEXT[:60])
    return Mixture.of([inner, members[2]]).fit(TEXT[:60])


def _encoder(name: str, bits: int | None = None, **options: Any) -> Maker:
    """With random weights: published ones are converted, none is trained."""

    def make() -> Any:
        model = random_encoder(
            name,
            **{"context": 24, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_mlp": 12, **options},
        )
        return model.quantised(bits) if bits else model

    return make


def random_encoder(name: str, **options: Any) -> Any:
    """A model on an encoder of these options, whose tokenizer knows a few words and all letters."""
    letters = [chr(ord("a") + i) for i in range(26)]
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "the",
        "cat",
        "sat",
        "on",
        "log",
        *letters,
        *(f"##{letter}" for letter in letters),
    ]
    spec = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "post_processor": None,
        "decoder": None,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "added_tokens": [
            {
                "id": i,
                "content": words[i],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i in range(5)
        ],
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: i for i, word in enumerate(words)},
        },
    }
    model = model_class(name)(**options)
    model.tokenizer = Tokenizer.of_subwords(
        Subword(make_engine(json.dumps(spec), "specimen"), "[SEP]")
    )
    model.learnt = {"cls": 2, "sep": 3, "pad": 0, "mask": 4, "separators": 1}
    model.fit_info = {"data": "random", "data_hash": "0" * 16, "source": "specimens"}
    rng = np.random.default_rng(0)
    model.net.restore(
        {
            key: (rng.normal(size=shape) * 0.3 + ("norm" in key and key.endswith("weight"))).astype(
                np.float32
            )
            for key, shape in model.fitted_shapes().items()
        }
    )
    model.fitted = True
    return model


def _on_encoder(name: str, data: Any, **options: Any) -> Maker:
    """On such an encoder, after one step."""

    def make() -> Any:
        with TemporaryDirectory() as place:
            random_encoder("bert", context=24, d_model=8, n_layers=1, n_heads=2, d_mlp=12).save(
                f"{place}/encoder"
            )
            made = model_class(name)(encoder=f"{place}/encoder", **options)
            return made.fit(data, train=TrainConfig(steps=1, batch_size=2))

    return make


def _rounded(name: str, bits: int) -> Maker:
    """Another specimen with so many bits a weight."""
    return lambda: SPECIMENS[name]().quantised(bits)


def _neural_cache() -> Any:
    return NeuralCache.of(_network("gru", d_hidden=6)(), window=5).fit(TEXT[:90])


SPECIMENS: dict[str, Maker] = {
    "uniform": _language("uniform", tokenizer="byte"),
    "ngram": _language("ngram", order=3),
    "ngram-1": _language("ngram", order=1, tokenizer="char"),
    "ngram-add-k": _language("ngram", order=4, smoothing="add-k", tokenizer="bpe", vocab_size=270),
    "ngram-marks": _language(
        "ngram", order=2, tokenizer="bpe", vocab_size=270, marks=("[MASK]", "<|user|>")
    ),
    "ngram-unigram": _language("ngram", order=2, tokenizer="unigram", vocab_size=270),
    "hmm": _language("hmm", states=3, iterations=2, tokenizer="wordpiece", vocab_size=60),
    "cache": _language("cache", window=7, tokenizer="word"),
    "nplm": _network("nplm", order=3, d_embed=4, d_hidden=6, direct=True),
    "nplm-adaptive": _network("nplm", order=3, d_embed=4, d_hidden=6, softmax="adaptive"),
    "rnn": _network("rnn", d_hidden=6, layer_norm=True, activation="relu", learned_start=True),
    "lstm": _network(
        "lstm", d_hidden=6, n_layers=2, d_projection=4, layer_norm=True, learned_start=True
    ),
    "lstm-marks": _network("lstm", d_hidden=6, marks=("[MASK]", "<|user|>")),
    "lstm-plain": _network("lstm", d_hidden=6, tied=False),
    "gru": _network("gru", d_hidden=6, n_layers=2, d_embed=4),
    "rnn-varied": _network(
        "rnn", d_hidden=6, n_layers=2, shrink=0.5, recurrence="pascanu", clamp=2.0, norm="states"
    ),
    "lstm-varied": _network(
        "lstm", d_hidden=6, gate_activation="hard-sigmoid", activation="leaky-relu", norm="states"
    ),
    "gru-varied": _network("gru", d_hidden=6, n_layers=2, norm="between", clamp=2.0),
    "gru-before": _network(
        "gru", d_hidden=6, reset="before", layer_norm=True, tokenizer="bpe", vocab_size=270
    ),
    "gpt": _network("gpt", d_model=8, n_heads=2, n_layers=2, context=8),
    "gpt-learned": _network(
        "gpt",
        d_model=8,
        n_heads=2,
        n_layers=1,
        context=8,
        positions="learned",
        norm="post",
        tied=False,
    ),
    "gpt-8-bit": lambda: _network(
        "gpt", d_model=40, n_heads=2, n_layers=1, context=8, tied=False
    )().quantised(8),
    "gpt-4-bit": lambda: _network("gpt", d_model=40, n_heads=2, n_layers=1, context=8)().quantised(
        4
    ),
    "rnn-8-bit": _rounded("rnn", 8),
    "lstm-4-bit": lambda: _network(
        "lstm", d_hidden=40, n_layers=2, d_projection=36, layer_norm=True
    )().quantised(4),
    "gru-8-bit": _rounded("gru-before", 8),
    "nplm-4-bit": _rounded("nplm-adaptive", 4),
    "gpt-alibi": _network(
        "gpt", d_model=8, n_heads=2, n_layers=1, context=8, positions="alibi", softmax="adaptive"
    ),
    "gpt-relative": _network(
        "gpt",
        d_model=8,
        n_heads=2,
        n_layers=1,
        context=8,
        positions="relative",
        max_distance=3,
        window=4,
    ),
    "sentence-encoder": _encoder("sentence-encoder"),
    "sentence-encoder-8-bits": _encoder(
        "sentence-encoder", 8, pooling="max", n_types=0, unit_length=False
    ),
    "sentence-encoder-shared": _encoder(
        "sentence-encoder",
        4,
        pooling="cls",
        shared_layers=True,
        d_embed=6,
        activation="gelu",
        pooler=True,
    ),
    "neural-cache": _neural_cache,
    "mixture": _mixture,
    "majority": _labelled("majority"),
    "naive-bayes": _labelled("naive-bayes", ngrams=2),
    "naive-bayes-bernoulli": _labelled(
        "naive-bayes", variant="bernoulli", tokenizer="bpe", vocab_size=270
    ),
    "logistic": _labelled("logistic", ngrams=2),
    "fasttext-classifier": _labelled("fasttext-classifier", ngrams=2, buckets=50, dimensions=4),
    "fasttext-classifier-hs": _labelled(
        "fasttext-classifier", loss="hs", max_ngram=3, buckets=50, dimensions=4
    ),
    "fasttext-classifier-quantised": _labelled("fasttext-classifier", dimensions=5, quantise=True),
    "classifier": _sequence(
        "classifier",
        LABELLED,
        d_hidden=6,
        d_embed=4,
        characters="cnn",
        d_characters=4,
        pooling="attention",
    ),
    "classifier-transformer": _sequence(
        "classifier",
        LABELLED,
        encoder="transformer",
        d_hidden=16,
        d_embed=4,
        tokenizer="char",
        long="windows",
        max_length=5,
    ),
    "classifier-numbers": _sequence("classifier", _numbers(), encoder="cnn", d_hidden=6),
    "classifier-published": _on_encoder("classifier", LABELLED, pooling="attention"),
    "classifier-head": _on_encoder("classifier", LABELLED, pooling="first", head_layer="tanh"),
    "classifier-pairs": _on_encoder(
        "classifier", [((text, text[::-1]), label) for text, label in LABELLED], frozen=True
    ),
    "classifier-8-bit": _rounded("classifier", 8),
    "classifier-4-bit": _rounded("classifier-published", 4),
    "vectors": _plain_vectors,
    "word2vec": _vectors("word2vec"),
    "word2vec-hs": _vectors("word2vec", loss="hs", normalize="case=lower"),
    "fasttext": _vectors("fasttext", buckets=200),
    "charngram": _vectors("charngram", buckets=200, aggregate="attention"),
    "glove": _vectors("glove"),
    "most-frequent-tag": _tagged(TAGGED, "most-frequent-tag"),
    "hmm-tagger": _tagged(TAGGED),
    "hmm-tagger-1": _tagged(PARTS, order=1),
    "tagger": _sequence("tagger", TAGGED, d_hidden=6, d_embed=4, d_characters=4),
    "tagger-gru": _sequence(
        "tagger",
        PARTS,
        encoder="gru",
        d_hidden=6,
        d_embed=4,
        characters="lstm",
        d_characters=4,
        crf=False,
    ),
    "tagger-published": _on_encoder("tagger", TAGGED, frozen=True),
    "tagger-8-bit": _rounded("tagger-gru", 8),
    "tagger-4-bit": _rounded("tagger", 4),
    "answerer": _sequence("answerer", QUESTIONS, d_hidden=6, d_embed=4),
    "answerer-characters": _sequence(
        "answerer",
        QUESTIONS,
        encoder="gru",
        d_hidden=6,
        d_embed=4,
        characters="cnn",
        d_characters=4,
        max_length=16,
    ),
    "answerer-published": _on_encoder("answerer", QUESTIONS),
    "answerer-8-bit": _rounded("answerer", 8),
    "copy": lambda: model_class("copy")().fit(REVERSED),
    "dictionary": lambda: model_class("dictionary")().fit(TRANSLATED),
    "dictionary-char": lambda: model_class("dictionary")(tokenizer="char", min_count=2).fit(
        REVERSED
    ),
    "seq2seq": _sequence("seq2seq", REVERSED, tokenizer="char", d_embed=6, d_hidden=4),
    "seq2seq-deep": _sequence(
        "seq2seq",
        REVERSED,
        tokenizer="char",
        shared_vocabulary=True,
        d_embed=6,
        d_hidden=4,
        cell="lstm",
        n_decoder_layers=2,
        attention="dot",
        input_feeding=True,
        coverage=True,
        tied=False,
    ),
    "seq2seq-numbers": _sequence(
        "seq2seq",
        _frames(),
        tokenizer="char",
        d_embed=6,
        d_hidden=4,
        attention="none",
        bottleneck="every-step",
    ),
    "seq2seq-8-bit": _rounded("seq2seq-deep", 8),
    "seq2seq-4-bit": _rounded("seq2seq", 4),
    "transformer": _sequence(
        "transformer",
        REVERSED,
        tokenizer="char",
        d_model=8,
        n_heads=2,
        n_layers=1,
        n_decoder_layers=2,
        d_mlp=12,
    ),
    "transformer-shared": _sequence(
        "transformer",
        REVERSED,
        tokenizer="bpe",
        vocab_size=265,
        shared_vocabulary=True,
        d_model=8,
        n_heads=2,
        n_layers=1,
        n_decoder_layers=1,
        norm="post",
        tied=False,
    ),
    "transformer-t5": _sequence(
        "transformer",
        REVERSED,
        tokenizer="char",
        d_model=7,
        n_heads=2,
        d_head=3,
        n_layers=2,
        n_decoder_layers=1,
        positions="t5",
        buckets=4,
        max_distance=5,
        norm_kind="rms",
        bias=False,
        activation="geglu",
        scaled_attention=False,
        scaled_embedding=False,
        scaled_output=True,
    ),
    "transformer-converted": _converted,
    "transformer-8-bit": lambda: _converted().quantised(8),
    "transformer-4-bit": lambda: _sequence(
        "transformer",
        REVERSED,
        tokenizer="char",
        d_model=40,
        n_heads=2,
        n_layers=1,
        n_decoder_layers=2,
        positions="t5",
        tied=False,
    )().quantised(4),
    "bert": _encoder("bert"),
    "bert-albert": _encoder(
        "bert", shared_layers=True, d_embed=6, pooler=True, activation="gelu", tied=False
    ),
    "bert-without-head": _encoder("bert", head=False, n_types=0, position_offset=2),
    "bert-8-bit": _encoder("bert", 8, d_model=40),
    "bert-4-bit": _encoder("bert", 4, d_embed=6, pooler=True, tied=False),
    "naive": _series("naive"),
    "seasonal-naive": _series("seasonal-naive", season=12),
    "exponential-smoothing": _series("exponential-smoothing", season=12, window=30),
    "arima": _series("arima", season=12, window=30),
    "linear-window": _series("linear-window", window=8),
    "forecaster": _forecaster(),
    "forecaster-transformer": _forecaster(
        encoder="transformer", n_heads=2, normalise="instance", patch=3
    ),
    "forecaster-8-bit": _rounded("forecaster", 8),
    "forecaster-4-bit": _rounded("forecaster-transformer", 4),
    "linear-window-individual": _series(
        "linear-window", [[x, 2 * x + 1] for x in WAVE], window=6, weights="individual"
    ),
}


def make_all(place: Path) -> None:
    """Save each of them in a directory of its name; those of earlier formats are copied."""
    for name, make in SPECIMENS.items():
        make().save(place / name)
    for earlier in (path.parent for path in SAVED.glob("format-*/*/config.json")):
        if earlier.parent.name != f"format-{FORMAT_VERSION}":
            shutil.copytree(earlier, place / f"{earlier.name}-{earlier.parent.name}")
