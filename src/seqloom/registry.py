"""Every model by name. Adding a model is adding a line here; the contract tests then run on it.

A package of somebody else's adds its own by `register`, from a module that is named as entry point `seqloom.models`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from seqloom.errors import ConfigError, suggest_known

PLUGINS = "seqloom.models"  # entry points: modules of other packages that register models and tasks when imported


@dataclass(frozen=True)
class Entry:
    target: str  # "module:Class", imported when it is first used
    config: str  # the same for its options, which load nothing heavy
    task: str
    summary: str
    fitted: bool = True  # by `seqloom fit`; finished vectors are read from files


def _language(target: str, summary: str, configs: str = "configs") -> Entry:
    """A language model `file:Class` of models/language; its options are ClassConfig in a file beside it."""
    home = "seqloom.models.language."
    return Entry(home + target, f"{home}{configs}:{target.partition(':')[2]}Config", "language model", summary)


def _network(target: str, summary: str) -> Entry:
    return _language(target, summary, "neural_configs")


def _other(target: str, task: str, summary: str, *, fitted: bool = True) -> Entry:
    """A model `folder.file:Class` of another task; its options are ClassConfig in the folder's configs."""
    home, _, name = target.partition(":")
    folder = home.partition(".")[0]
    return Entry(f"seqloom.models.{target}", f"seqloom.models.{folder}.configs:{name}Config", task, summary, fitted)


MODELS: dict[str, Entry] = {
    "uniform": _language("uniform:Uniform", "every token equally likely: the calibration rung"),
    "ngram": _language("ngram:NGram", "n-gram model of any order with six smoothing methods"),
    "hmm": _language("hmm:HMM", "hidden Markov model: hidden classes, each with its own words"),
    "cache": _language("cache:Cache", "unigram of the recent past; a member for mixtures"),
    "nplm": _network("nplm:NPLM", "n-gram of word vectors with one hidden layer (Bengio 2003)"),
    "rnn": _network("recurrent:RNN", "plain recurrent network: a state that each token changes"),
    "lstm": _network("recurrent:LSTM", "recurrent network with a gated memory cell"),
    "gru": _network("recurrent:GRU", "recurrent network with two gates and no cell"),
    "gpt": _network("gpt:GPT", "Transformer that attends to all tokens of its context"),
    "neural-cache": _language("neural_cache:NeuralCache", "a trained network that also remembers what followed like states"),
    "mixture": _language("mixture:Mixture", "weighted mean of other language models, weights by EM"),
    "naive-bayes": _other("classify.naive_bayes:NaiveBayes", "classifier",
                          "words count for or against a class, each on its own; multinomial, Bernoulli or complement"),
    "fasttext-classifier": _other("classify.fasttext_classifier:FastTextClassifier", "classifier",
                                  "the mean of the vectors of words and word n-grams, and a linear layer"),
    "vectors": _other("vectors.word_vectors:WordVectors", "word vectors", "words and their vectors, read from a file",
                      fitted=False),
    "word2vec": _other("vectors.word2vec:Word2Vec", "word vectors",
                       "vectors that predict a word from its neighbours: skip-gram or CBOW"),
    "fasttext": _other("vectors.fasttext:FastText", "word vectors",
                       "word2vec with character n-grams: also for words never seen"),
    "charngram": _other("vectors.charngram:CharNgram", "word vectors", "vectors from spelling alone, by character n-grams"),
    "glove": _other("vectors.glove:Glove", "word vectors", "vectors that tell how often words stand near each other"),
    "hmm-tagger": _other("tag.hmm_tagger:HMMTagger", "tagger",
                         "tags follow tags and words follow tags; guesses unknown words by ending and shape"),
}


def register(name: str, entry: Entry) -> None:
    """Make a model of another package known by its name."""
    if MODELS.get(name, entry) != entry:
        raise ConfigError(f"there is already a model named {name!r}; give yours another name")
    MODELS[name] = entry


failures: list[str] = []  # of packages whose models cannot be loaded


@cache
def load_plugins() -> None:
    """Import what other packages name as `seqloom.models` among their entry points; it registers itself."""
    if not any(map(_names_plugins, sys.path)):
        return
    from importlib.metadata import entry_points  # takes as long to import as the whole command line

    for point in entry_points(group=PLUGINS):
        try:
            point.load()
        except Exception as error:  # whatever a stranger's module does; the built-in models work without it
            package = point.dist.name if point.dist else "a package"
            failures.append(f"{package}: its models cannot be loaded ({type(error).__name__}: {error}); mend or uninstall it")


def _names_plugins(place: str) -> bool:
    """Whether a package installed in this directory has such an entry point."""
    try:
        packages = [entry.path for entry in os.scandir(place or ".") if entry.name.endswith(("dist-info", ".egg-info"))]
    except OSError:
        return False
    for package in packages:
        with suppress(OSError), open(os.path.join(package, "entry_points.txt"), "rb") as file:
            if PLUGINS.encode() in file.read():
                return True
    return False


def model_class(name: str) -> Any:
    """The class behind a registered name."""
    return _resolve(find(name).target)


def config_class(name: str) -> Any:
    """The class of its options, without loading the model."""
    return _resolve(find(name).config)


def open_vectors(path: str) -> Any:
    """An embedder from a directory or a foreign file. By name, like the models: what reads files stands above them."""
    return _resolve("seqloom.interop.opening:open_vectors")(path)


def find(name: str) -> Entry:
    """What is known of a model."""
    if name not in MODELS:
        load_plugins()
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}{suggest_known(name, MODELS)}")
    return MODELS[name]


def _resolve(target: str) -> Any:
    module, attribute = target.split(":")
    return getattr(import_module(module), attribute)
