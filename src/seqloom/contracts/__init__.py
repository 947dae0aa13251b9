"""What every model promises. A model writes the primitive of its task; the verbs are written here,
once, for all.

LanguageModel   a stepper                      score, perplexity, bits_per_byte, generate, complete, evaluate
Classifier      class_log_probs(texts)         predict, predict_proba, evaluate
Tagger          tag_ids(sentences)             predict, evaluate
Answerer        find_spans(pairs)              predict, evaluate
Embedder        vectors                        nearest, analogy, similarity, embed, evaluate
TextEmbedder    embed_texts(texts)             embed, similarity, nearest among texts, evaluate
Forecaster      forecast_windows(windows)      forecast, anomalies, evaluate
Translator      decoder(sources)               translate, score, evaluate
MaskedModel     mask_log_probs(rows)           fill, score, evaluate
"""

from seqloom.contracts.answering import Answerer as Answerer
from seqloom.contracts.base import Model as Model
from seqloom.contracts.classification import Classifier as Classifier
from seqloom.contracts.fitting import FitOptions as FitOptions
from seqloom.contracts.forecasting import Forecaster as Forecaster
from seqloom.contracts.language import LanguageModel as LanguageModel
from seqloom.contracts.masked import MaskedModel as MaskedModel
from seqloom.contracts.sentence_vectors import TextEmbedder as TextEmbedder
from seqloom.contracts.tagging import Tagger as Tagger
from seqloom.contracts.translation import Translator as Translator
from seqloom.contracts.word_vectors import Embedder as Embedder
