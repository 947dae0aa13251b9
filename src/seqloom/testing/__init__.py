"""Checks that a model of your own keeps the contract of its task; seqloom's own models are held to
the same list.

    from seqloom.testing import check_language_model
    check_language_model(MyModel())

Each takes a model, fitted or not, and optionally data to fit it on. An unfitted one is copied,
never changed. A broken rule is an AssertionError that names it. A model that is fitted already is
not fitted again unless data is given, so rules on fitting are then left out.
"""

from seqloom.testing.answering import check_answerer as check_answerer
from seqloom.testing.classification import check_classifier as check_classifier
from seqloom.testing.forecasting import check_forecaster as check_forecaster
from seqloom.testing.language import check_language_model as check_language_model
from seqloom.testing.masked import check_masked_model as check_masked_model
from seqloom.testing.sentence_vectors import check_text_embedder as check_text_embedder
from seqloom.testing.tagging import check_tagger as check_tagger
from seqloom.testing.translation import check_translator as check_translator

__all__ = [
    "check_answerer",
    "check_classifier",
    "check_forecaster",
    "check_language_model",
    "check_masked_model",
    "check_tagger",
    "check_text_embedder",
    "check_translator",
]
