"""What every model promises. A model writes the primitive of its task; the verbs are written here, once, for all.

LanguageModel   a stepper                      score, perplexity, bits_per_byte, generate, complete, evaluate
Classifier      class_log_probs(texts)         predict, predict_proba, evaluate
Tagger          tag_ids(sentences)             predict, evaluate
Embedder        vectors                        nearest, analogy, similarity, embed, evaluate
TextEmbedder    embed_texts(texts)             embed, similarity, nearest among texts, evaluate
Forecaster      forecast_windows(windows)      forecast, anomalies, evaluate
Translator      decoder(sources)               translate, score, evaluate
MaskedModel     mask_log_probs(rows)           fill, score, evaluate
"""

from seqloom.contracts.base import Fitting as Fitting
from seqloom.contracts.base import Model as Model
from seqloom.contracts.classifier import Classifier as Classifier
from seqloom.contracts.embedder import Embedder as Embedder
from seqloom.contracts.forecaster import Forecaster as Forecaster
from seqloom.contracts.language import LanguageModel as LanguageModel
from seqloom.contracts.masked import MaskedModel as MaskedModel
from seqloom.contracts.tagger import Tagger as Tagger
from seqloom.contracts.text_embedder import TextEmbedder as TextEmbedder
from seqloom.contracts.translator import Translator as Translator
