"""Every model by name. Adding a model is adding a line here; the contract tests then run on it.

A script adds a class of its own by `seqloom.register`; a package does so in a module that it names
as entry point `seqloom.models`. A saved model holds the name alone, so nothing is imported that was
not made known before.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from seqloom.errors import ConfigError, quoted, suggest_known

C = TypeVar("C", bound=type)

# entry points: modules of other packages that register models and tasks when imported
PLUGINS = "seqloom.models"


@dataclass(frozen=True)
class Entry:
    target: Any  # "module:Class", imported when it is first used, or the class itself
    config: Any  # the same for its options, which load nothing heavy
    task: str
    summary: str
    fitted: bool = True  # by `seqloom fit`; finished vectors are read from files


def _language(target: str, summary: str) -> Entry:
    return _entry(f"language.{target}", "language model", summary)


def _entry(target: str, task: str, summary: str, *, fitted: bool = True) -> Entry:
    """Return the entry of a model `folder.file:Class`; its options are ClassConfig in the folder's
    configs.
    """
    home, _, name = target.partition(":")
    folder = home.partition(".")[0]
    return Entry(
        f"seqloom.models.{target}",
        f"seqloom.models.{folder}.configs:{name}Config",
        task,
        summary,
        fitted,
    )


MODELS: dict[str, Entry] = {
    "uniform": _language("uniform:Uniform", "uniform distribution over tokens, for calibration"),
    "ngram": _language("ngram:NGram", "n-gram model of any order with six smoothing methods"),
    "hmm": _language("hmm:HMM", "hidden Markov model with its own word distribution in each state"),
    "cache": _language("cache:Cache", "unigram of the recent past; a member for mixtures"),
    "nplm": _language("nplm:NPLM", "feed-forward n-gram network on word vectors (Bengio 2003)"),
    "rnn": _language("recurrent:RNN", "simple recurrent network (Elman)"),
    "lstm": _language("recurrent:LSTM", "recurrent network with a gated memory cell"),
    "gru": _language("recurrent:GRU", "recurrent network with two gates and no cell"),
    "gpt": _language("gpt:GPT", "Transformer that attends to all tokens of its context"),
    "neural-cache": _language(
        "neural_cache:NeuralCache", "trained network with a continuous cache of its recent states"
    ),
    "mixture": _language(
        "mixture:Mixture", "weighted mean of other language models, with weights from EM"
    ),
    "majority": _entry(
        "classification.majority:Majority",
        "classifier",
        "always the most frequent class: the baseline",
    ),
    "naive-bayes": _entry(
        "classification.naive_bayes:NaiveBayes",
        "classifier",
        "naive Bayes on words and n-grams: multinomial, Bernoulli or complement",
    ),
    "logistic": _entry(
        "classification.logistic:Logistic",
        "classifier",
        "logistic regression on the TF-IDF of words and n-grams: the usual linear baseline",
    ),
    "fasttext-classifier": _entry(
        "classification.fasttext_classifier:FastTextClassifier",
        "classifier",
        "linear classifier on the mean of word and n-gram vectors",
    ),
    "classifier": _entry(
        "classification.neural_classifier:NeuralClassifier",
        "classifier",
        "network of choice: bag, CNN, LSTM, GRU or Transformer, on texts or numbers",
    ),
    "vectors": _entry(
        "word_vectors.word_vectors:WordVectors",
        "word vectors",
        "words and their vectors, read from a file",
        fitted=False,
    ),
    "word2vec": _entry(
        "word_vectors.word2vec:Word2Vec",
        "word vectors",
        "vectors that predict a word from its neighbours: skip-gram or CBOW",
    ),
    "fasttext": _entry(
        "word_vectors.fasttext:FastText",
        "word vectors",
        "word2vec with character n-grams, also for unseen words",
    ),
    "charngram": _entry(
        "word_vectors.charngram:CharNgram",
        "word vectors",
        "vectors from spelling alone, by character n-grams",
    ),
    "glove": _entry(
        "word_vectors.glove:Glove", "word vectors", "vectors from word co-occurrence counts"
    ),
    "most-frequent-tag": _entry(
        "tagging.most_frequent_tag:MostFrequentTag",
        "tagger",
        "the most frequent tag of each word: the baseline",
    ),
    "hmm-tagger": _entry(
        "tagging.hmm_tagger:HMMTagger",
        "tagger",
        "hidden Markov model; tags unknown words by suffix and shape",
    ),
    "tagger": _entry(
        "tagging.neural_tagger:NeuralTagger",
        "tagger",
        "network of choice with character features and a conditional random field",
    ),
    "answerer": _entry(
        "answering.neural_answerer:NeuralAnswerer",
        "answerer",
        "network of choice that answers questions by a part of a text, or not at all",
    ),
    "bert": _entry(
        "masked.bert:Bert",
        "masked language model",
        "encoder that guesses hidden tokens: BERT, RoBERTa, DistilBERT, ALBERT, ELECTRA; by convert",
        fitted=False,
    ),
    "sentence-encoder": _entry(
        "masked.sentence_encoder:SentenceEncoder",
        "sentence vectors",
        "encoder with a vector for each text, such as MiniLM; by convert",
        fitted=False,
    ),
    "naive": _entry(
        "forecasting.repeating:Naive", "forecaster", "the last value again: the baseline"
    ),
    "seasonal-naive": _entry(
        "forecasting.repeating:SeasonalNaive", "forecaster", "the last season again"
    ),
    "exponential-smoothing": _entry(
        "forecasting.exponential_smoothing:ExponentialSmoothing",
        "forecaster",
        "level, damped trend and season, each smoothed (Holt-Winters)",
    ),
    "arima": _entry(
        "forecasting.arima:Arima",
        "forecaster",
        "differences predicted from their last values and errors",
    ),
    "linear-window": _entry(
        "forecasting.linear_window:LinearWindow",
        "forecaster",
        "weighted sum of the last values, for each step to come",
    ),
    "forecaster": _entry(
        "forecasting.forecaster:NeuralForecaster",
        "forecaster",
        "network of choice on patches of the last values, with quantiles",
    ),
    "copy": _entry("translation.copying:Copy", "translator", "the source again: the baseline"),
    "dictionary": _entry(
        "translation.dictionary:Dictionary",
        "translator",
        "word for word, by the translations that IBM model 1 finds",
    ),
    "seq2seq": _entry(
        "translation.seq2seq:Seq2Seq",
        "translator",
        "recurrent encoder-decoder, with attention or without",
    ),
    "transformer": _entry(
        "translation.transformer:Transformer", "translator", "encoder-decoder Transformer"
    ),
}


def register(model: C) -> C:
    """Register your own model class by its `name`, so that saved models can be loaded; also a class
    decorator.

    A class that is defined anew, as in a notebook, replaces the earlier one.
    """
    known: Any = model
    if not isinstance(model, type) or not {"task", "name", "config_class"} <= set(dir(model)):
        raise ConfigError(
            f"register takes a class made from seqloom.LanguageModel, Classifier, Tagger, Answerer, "
            f"Embedder, TextEmbedder, Forecaster, Translator or MaskedModel; got {quoted(model)}"
        )
    summary = (model.__doc__ or "").strip().partition("\n")[0].rstrip(
        "."
    ) or f"a model of {model.__module__}"
    register_entry(known.name, Entry(known, known.config_class, known.task, summary))
    return model


def register_entry(name: str, entry: Entry) -> None:
    """Register a class that is imported only when it is used, so that `--help` loads nothing heavy
    of its package.
    """
    if _address(MODELS.get(name, entry).target) != _address(entry.target):
        raise ConfigError(f"there is already a model named {name!r}; give yours another name")
    MODELS[name] = entry


def is_known(name: str) -> bool:
    """Return whether there is a model of this name."""
    if name not in MODELS:
        load_plugins()
    return name in MODELS


def is_registered(model: type) -> bool:
    """Return whether what this class saves would be loaded as this class."""
    name = getattr(model, "name", "")
    return is_known(name) and _address(MODELS[name].target) == _address(model)


def _address(target: Any) -> str:
    return target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"


failures: list[str] = []  # why the models of other packages could not be loaded


@cache
def load_plugins() -> None:
    """Import what other packages name as `seqloom.models` among their entry points; it registers itself."""
    if not any(map(_names_plugins, sys.path)):
        return
    from importlib.metadata import entry_points  # takes as long to import as the whole command line

    for point in entry_points(group=PLUGINS):
        try:
            point.load()
        except Exception as error:
            # A module of another package may raise anything; the built-in models work without it.
            package = point.dist.name if point.dist else "a package"
            failures.append(
                f"{package}: its models cannot be loaded ({type(error).__name__}: {error}); fix or "
                f"uninstall it"
            )


def _names_plugins(directory: str) -> bool:
    """Return whether a package installed in this directory has such an entry point."""
    try:
        packages = [
            entry.path
            for entry in os.scandir(directory or ".")
            if entry.name.endswith(("dist-info", ".egg-info"))
        ]
    except OSError:
        return False
    for package in packages:
        with suppress(OSError), open(os.path.join(package, "entry_points.txt"), "rb") as file:
            if PLUGINS.encode() in file.read():
                return True
    return False


def model_class(name: str) -> Any:
    """Return the class behind a registered name."""
    return _resolve(find(name).target)


def config_class(name: str) -> Any:
    """Return the class of a model's options, without loading the model."""
    return _resolve(find(name).config)


def open_vectors(path: str) -> Any:
    """Open an embedder from a directory or a foreign file. It is found by name, like the models:
    what reads files stands above them.
    """
    return _resolve("seqloom.interop.vectors:open_vectors")(path)


def find(name: str) -> Entry:
    """Return what is known of a model."""
    if not is_known(name):
        raise ConfigError(f"unknown model {name!r}{suggest_known(name, MODELS)}")
    return MODELS[name]


def _resolve(target: Any) -> Any:
    if not isinstance(target, str):
        return target
    module, attribute = target.split(":")
    return getattr(import_module(module), attribute)
