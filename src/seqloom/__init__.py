"""seqloom: train, compare, explain and serve sequence models from n-grams to Transformers.

Names are loaded when they are first used, so `import seqloom` loads neither torch nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqloom._version import __version__

if TYPE_CHECKING:
    from seqloom.comparison.run import compare as compare
    from seqloom.contracts import LanguageModel as LanguageModel
    from seqloom.data.corpus import Corpus as Corpus
    from seqloom.data.corpus import bundled as bundled
    from seqloom.data.corpus import read as read
    from seqloom.interop.arpa import read_arpa as read_arpa
    from seqloom.interop.arpa import write_arpa as write_arpa
    from seqloom.models.language.cache import Cache as Cache
    from seqloom.models.language.gpt import GPT as GPT
    from seqloom.models.language.mixture import Mixture as Mixture
    from seqloom.models.language.ngram import NGram as NGram
    from seqloom.models.language.nplm import NPLM as NPLM
    from seqloom.models.language.recurrent import GRU as GRU
    from seqloom.models.language.recurrent import LSTM as LSTM
    from seqloom.models.language.recurrent import RNN as RNN
    from seqloom.models.language.uniform import Uniform as Uniform
    from seqloom.storage import load as load
    from seqloom.text.tokenizer import Tokenizer as Tokenizer
    from seqloom.training.config import TrainConfig as TrainConfig

_PUBLIC = {
    "Cache": "seqloom.models.language.cache",
    "Corpus": "seqloom.data.corpus",
    "GPT": "seqloom.models.language.gpt",
    "GRU": "seqloom.models.language.recurrent",
    "LSTM": "seqloom.models.language.recurrent",
    "LanguageModel": "seqloom.contracts",
    "Mixture": "seqloom.models.language.mixture",
    "NGram": "seqloom.models.language.ngram",
    "NPLM": "seqloom.models.language.nplm",
    "RNN": "seqloom.models.language.recurrent",
    "Tokenizer": "seqloom.text.tokenizer",
    "TrainConfig": "seqloom.training.config",
    "Uniform": "seqloom.models.language.uniform",
    "bundled": "seqloom.data.corpus",
    "compare": "seqloom.comparison.run",
    "load": "seqloom.storage",
    "read": "seqloom.data.corpus",
    "read_arpa": "seqloom.interop.arpa",
    "write_arpa": "seqloom.interop.arpa",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'seqloom' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
