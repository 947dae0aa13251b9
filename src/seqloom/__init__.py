"""seqloom: train, compare, explain and serve sequence models from n-grams to Transformers.

Names are loaded when they are first used, so `import seqloom` loads neither torch nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqloom._version import __version__

if TYPE_CHECKING:
    from seqloom import inspect as inspect
    from seqloom.comparison.run import compare as compare
    from seqloom.contracts import Classifier as Classifier
    from seqloom.contracts import Embedder as Embedder
    from seqloom.contracts import LanguageModel as LanguageModel
    from seqloom.contracts import Tagger as Tagger
    from seqloom.data.corpus import Corpus as Corpus
    from seqloom.data.corpus import bundled as bundled
    from seqloom.data.corpus import read as read
    from seqloom.data.labelled import Labelled as Labelled
    from seqloom.data.labelled import read_labelled as read_labelled
    from seqloom.data.tagged import Tagged as Tagged
    from seqloom.data.tagged import read_tagged as read_tagged
    from seqloom.interop.arpa import read_arpa as read_arpa
    from seqloom.interop.arpa import write_arpa as write_arpa
    from seqloom.interop.vectors import read_vectors as read_vectors
    from seqloom.interop.vectors import write_vectors as write_vectors
    from seqloom.metrics.bias import weat as weat
    from seqloom.models.classify.fasttext_classifier import FastTextClassifier as FastTextClassifier
    from seqloom.models.classify.naive_bayes import NaiveBayes as NaiveBayes
    from seqloom.models.hidden.chain import CategoricalHMM as CategoricalHMM
    from seqloom.models.hidden.em import baum_welch as baum_welch
    from seqloom.models.hidden.gaussian import GaussianHMM as GaussianHMM
    from seqloom.models.language.cache import Cache as Cache
    from seqloom.models.language.gpt import GPT as GPT
    from seqloom.models.language.hmm import HMM as HMM
    from seqloom.models.language.mixture import Mixture as Mixture
    from seqloom.models.language.neural_cache import NeuralCache as NeuralCache
    from seqloom.models.language.ngram import NGram as NGram
    from seqloom.models.language.nplm import NPLM as NPLM
    from seqloom.models.language.recurrent import GRU as GRU
    from seqloom.models.language.recurrent import LSTM as LSTM
    from seqloom.models.language.recurrent import RNN as RNN
    from seqloom.models.language.uniform import Uniform as Uniform
    from seqloom.models.tag.hmm_tagger import HMMTagger as HMMTagger
    from seqloom.models.vectors.charngram import CharNgram as CharNgram
    from seqloom.models.vectors.debias import bias_direction as bias_direction
    from seqloom.models.vectors.debias import debias as debias
    from seqloom.models.vectors.fasttext import FastText as FastText
    from seqloom.models.vectors.glove import Glove as Glove
    from seqloom.models.vectors.word2vec import Word2Vec as Word2Vec
    from seqloom.models.vectors.word_vectors import WordVectors as WordVectors
    from seqloom.storage import load as load
    from seqloom.text.phrases import Phrases as Phrases
    from seqloom.text.tokenizer import Tokenizer as Tokenizer
    from seqloom.training.config import TrainConfig as TrainConfig

_PUBLIC = {
    "Cache": "seqloom.models.language.cache",
    "CategoricalHMM": "seqloom.models.hidden.chain",
    "CharNgram": "seqloom.models.vectors.charngram",
    "Classifier": "seqloom.contracts",
    "Corpus": "seqloom.data.corpus",
    "Embedder": "seqloom.contracts",
    "FastText": "seqloom.models.vectors.fasttext",
    "FastTextClassifier": "seqloom.models.classify.fasttext_classifier",
    "GPT": "seqloom.models.language.gpt",
    "GRU": "seqloom.models.language.recurrent",
    "GaussianHMM": "seqloom.models.hidden.gaussian",
    "Glove": "seqloom.models.vectors.glove",
    "HMM": "seqloom.models.language.hmm",
    "HMMTagger": "seqloom.models.tag.hmm_tagger",
    "LSTM": "seqloom.models.language.recurrent",
    "Labelled": "seqloom.data.labelled",
    "LanguageModel": "seqloom.contracts",
    "Mixture": "seqloom.models.language.mixture",
    "NGram": "seqloom.models.language.ngram",
    "NPLM": "seqloom.models.language.nplm",
    "NaiveBayes": "seqloom.models.classify.naive_bayes",
    "NeuralCache": "seqloom.models.language.neural_cache",
    "Phrases": "seqloom.text.phrases",
    "RNN": "seqloom.models.language.recurrent",
    "Tagged": "seqloom.data.tagged",
    "Tagger": "seqloom.contracts",
    "Tokenizer": "seqloom.text.tokenizer",
    "TrainConfig": "seqloom.training.config",
    "Uniform": "seqloom.models.language.uniform",
    "Word2Vec": "seqloom.models.vectors.word2vec",
    "WordVectors": "seqloom.models.vectors.word_vectors",
    "baum_welch": "seqloom.models.hidden.em",
    "bias_direction": "seqloom.models.vectors.debias",
    "bundled": "seqloom.data.corpus",
    "compare": "seqloom.comparison.run",
    "debias": "seqloom.models.vectors.debias",
    "load": "seqloom.storage",
    "read": "seqloom.data.corpus",
    "read_arpa": "seqloom.interop.arpa",
    "read_labelled": "seqloom.data.labelled",
    "read_tagged": "seqloom.data.tagged",
    "read_vectors": "seqloom.interop.vectors",
    "weat": "seqloom.metrics.bias",
    "write_arpa": "seqloom.interop.arpa",
    "write_vectors": "seqloom.interop.vectors",
}

__all__ = ["__version__", "inspect", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name == "inspect":
        return import_module("seqloom.inspect")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'seqloom' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
