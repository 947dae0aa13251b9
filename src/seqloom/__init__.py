"""seqloom: train, compare, explain and serve sequence models from n-grams to Transformers.

Names are loaded when they are first used, so `import seqloom` loads neither torch nor numba.
"""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and {("-m", "seqloom"), ("-m", "seqloom.cli")}.intersection(
    zip(sys.orig_argv, sys.orig_argv[1:])
):
    # `python -m seqloom` begins here, and a signal may come from now on
    import seqloom.cli.beginning  # noqa: F401
from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqloom._version import __version__ as __version__

if TYPE_CHECKING:
    from seqloom import testing as testing
    from seqloom import views as inspect  # noqa: F401
    from seqloom.comparison.ab import ab as ab
    from seqloom.comparison.robustness import robustness as robustness
    from seqloom.comparison.run import compare as compare
    from seqloom.comparison.scaling import scaling as scaling
    from seqloom.comparison.scaling_result import scaling_of as scaling_of
    from seqloom.config import Config as Config
    from seqloom.config import SeriesConfig as SeriesConfig
    from seqloom.config import TextConfig as TextConfig
    from seqloom.config import option as option
    from seqloom.contracts import Answerer as Answerer
    from seqloom.contracts import Classifier as Classifier
    from seqloom.contracts import Embedder as Embedder
    from seqloom.contracts import Forecaster as Forecaster
    from seqloom.contracts import LanguageModel as LanguageModel
    from seqloom.contracts import MaskedModel as MaskedModel
    from seqloom.contracts import Tagger as Tagger
    from seqloom.contracts import TextEmbedder as TextEmbedder
    from seqloom.contracts import Translator as Translator
    from seqloom.data.answering import Questions as Questions
    from seqloom.data.answering import read_questions as read_questions
    from seqloom.data.classification import Labelled as Labelled
    from seqloom.data.classification import read_labelled as read_labelled
    from seqloom.data.corpus import Corpus as Corpus
    from seqloom.data.corpus import bundled as bundled
    from seqloom.data.corpus import read as read
    from seqloom.data.forecasting import Series as Series
    from seqloom.data.forecasting import read_series as read_series
    from seqloom.data.tagging import Tagged as Tagged
    from seqloom.data.tagging import read_tagged as read_tagged
    from seqloom.data.translation import Parallel as Parallel
    from seqloom.data.translation import read_parallel as read_parallel
    from seqloom.interop.arpa import read_arpa as read_arpa
    from seqloom.interop.arpa import write_arpa as write_arpa
    from seqloom.interop.vectors import read_vectors as read_vectors
    from seqloom.interop.vectors import write_vectors as write_vectors
    from seqloom.metrics.bias import weat as weat
    from seqloom.models.answering.neural_answerer import NeuralAnswerer as NeuralAnswerer
    from seqloom.models.classification.fasttext_classifier import (
        FastTextClassifier as FastTextClassifier,
    )
    from seqloom.models.classification.logistic import Logistic as Logistic
    from seqloom.models.classification.majority import Majority as Majority
    from seqloom.models.classification.naive_bayes import NaiveBayes as NaiveBayes
    from seqloom.models.classification.neural_classifier import NeuralClassifier as NeuralClassifier
    from seqloom.models.forecasting.arima import Arima as Arima
    from seqloom.models.forecasting.exponential_smoothing import (
        ExponentialSmoothing as ExponentialSmoothing,
    )
    from seqloom.models.forecasting.forecaster import NeuralForecaster as NeuralForecaster
    from seqloom.models.forecasting.linear_window import LinearWindow as LinearWindow
    from seqloom.models.forecasting.repeating import Naive as Naive
    from seqloom.models.forecasting.repeating import SeasonalNaive as SeasonalNaive
    from seqloom.models.hidden.chain import CategoricalHMM as CategoricalHMM
    from seqloom.models.hidden.chain import baum_welch as baum_welch
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
    from seqloom.models.masked.bert import Bert as Bert
    from seqloom.models.masked.sentence_encoder import SentenceEncoder as SentenceEncoder
    from seqloom.models.tagging.hmm_tagger import HMMTagger as HMMTagger
    from seqloom.models.tagging.most_frequent_tag import MostFrequentTag as MostFrequentTag
    from seqloom.models.tagging.neural_tagger import NeuralTagger as NeuralTagger
    from seqloom.models.translation.copying import Copy as Copy
    from seqloom.models.translation.dictionary import Dictionary as Dictionary
    from seqloom.models.translation.seq2seq import Seq2Seq as Seq2Seq
    from seqloom.models.translation.transformer import Transformer as Transformer
    from seqloom.models.word_vectors.charngram import CharNgram as CharNgram
    from seqloom.models.word_vectors.debias import bias_direction as bias_direction
    from seqloom.models.word_vectors.debias import debias as debias
    from seqloom.models.word_vectors.fasttext import FastText as FastText
    from seqloom.models.word_vectors.glove import Glove as Glove
    from seqloom.models.word_vectors.word2vec import Word2Vec as Word2Vec
    from seqloom.models.word_vectors.word_vectors import WordVectors as WordVectors
    from seqloom.registry import register as register
    from seqloom.serving.server import serve as serve
    from seqloom.storage import load as load
    from seqloom.studio.server import open_studio as open_studio
    from seqloom.text.phrases import Phrases as Phrases
    from seqloom.text.tokenizer import Tokenizer as Tokenizer
    from seqloom.training.config import TrainConfig as TrainConfig
    from seqloom.views.advice import advise as advise

_MODULES = {
    "comparison.ab": "ab",
    "comparison.robustness": "robustness",
    "comparison.run": "compare",
    "comparison.scaling": "scaling",
    "comparison.scaling_result": "scaling_of",
    "config": "Config SeriesConfig TextConfig option",
    "contracts": "Answerer Classifier Embedder Forecaster LanguageModel MaskedModel Tagger TextEmbedder "
    "Translator",
    "data.answering": "Questions read_questions",
    "data.corpus": "Corpus bundled read",
    "data.classification": "Labelled read_labelled",
    "data.translation": "Parallel read_parallel",
    "data.forecasting": "Series read_series",
    "data.tagging": "Tagged read_tagged",
    "interop.arpa": "read_arpa write_arpa",
    "interop.vectors": "read_vectors write_vectors",
    "metrics.bias": "weat",
    "models.hidden.chain": "CategoricalHMM baum_welch",
    "models.hidden.gaussian": "GaussianHMM",
    "models.word_vectors.debias": "bias_direction debias",
    "registry": "register",
    "serving.server": "serve",
    "storage": "load",
    "studio.server": "open_studio",
    "text.phrases": "Phrases",
    "text.tokenizer": "Tokenizer",
    "training.config": "TrainConfig",
    "views.advice": "advise",
}


def _public() -> dict[str, str]:
    """Map each public name to its module: those above, and the class of every registered model."""
    from seqloom.registry import MODELS

    targets = [
        entry.target.partition(":")
        for entry in MODELS.values()
        if str(entry.target).startswith("seqloom.")
    ]
    return {
        name: f"seqloom.{module}" for module, names in _MODULES.items() for name in names.split()
    } | {name: module for module, _, name in targets}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name in ("inspect", "testing"):
        # No folder is called inspect: in src/seqloom it would hide the standard library's.
        return import_module("seqloom.views" if name == "inspect" else "seqloom.testing")
    public = {} if name.startswith("__") else _public()
    if name not in public:
        from seqloom.errors import suggest
        from seqloom.foreign_names import answer_public

        answer = answer_public(name)
        near = "" if name.startswith("_") else suggest(name, public)
        hint = near if answer is None else f"; {answer}"
        raise AttributeError(f"module 'seqloom' has no attribute {name!r}{hint}")
    return getattr(import_module(public[name]), name)


def __dir__() -> list[str]:
    return sorted(["__version__", "inspect", "testing", *_public()])
