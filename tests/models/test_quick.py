"""One example without torch gives what the network gives, for every encoder, pooling and reader."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.models.classify.neural_classifier import NeuralClassifier  # noqa: E402
from seqloom.models.sequence import quick  # noqa: E402
from seqloom.models.tag.neural_tagger import NeuralTagger  # noqa: E402
from seqloom.encoder_table import ENCODERS  # noqa: E402
from seqloom.nn.pooling import POOLINGS  # noqa: E402
from seqloom.training.config import TrainConfig  # noqa: E402
from tests.models.test_composition import SENTENCES, SERIES, TEXTS, small  # noqa: E402

QUICK = [encoder for encoder in ENCODERS if encoder != "transformer"]
TRAIN = TrainConfig(steps=3, batch_size=3)


def both(model, examples, monkeypatch):
    """Answers one by one without torch, and all together with it."""
    assert model.quickly(1)
    assert not model.quickly(quick.FEW + 1)
    alone = np.concatenate([model.class_log_probs([example]) for example in examples])
    monkeypatch.setattr(type(model), "quickly", lambda self, many: False)
    return alone, model.class_log_probs(examples)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("encoder", QUICK)
def test_texts(encoder, pooling, monkeypatch):
    characters = "lstm" if pooling == "last" else "cnn"
    model = NeuralClassifier(**small(encoder, pooling=pooling, characters=characters, d_characters=4, n_layers=1
                                     if encoder == "bag" else 2)).fit(TEXTS, train=TRAIN)
    alone, together = both(model, [text for text, _ in TEXTS] + ["Xylo unknown"], monkeypatch)
    assert np.allclose(alone, together, atol=2e-6)


@pytest.mark.parametrize("encoder", QUICK)
def test_numbers_with_gaps(encoder, monkeypatch):
    options = {name: value for name, value in small(encoder).items() if name != "d_embed"}
    series = [x.copy() for x, _ in SERIES]
    series[0][1, 0] = np.nan
    model = NeuralClassifier(**options).fit(series, [y for _, y in SERIES], train=TRAIN)
    alone, together = both(model, series, monkeypatch)
    assert np.allclose(alone, together, atol=2e-6)


@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize("encoder", QUICK)
def test_tags(encoder, crf, monkeypatch):
    model = NeuralTagger(**small(encoder, crf=crf, d_characters=4)).fit(SENTENCES, train=TRAIN)
    sentences = [words for words, _ in SENTENCES]
    alone = [model.predict(words) for words in sentences]
    scores = [model.quick().features(model._encode([words]), 0) for words in sentences if words]
    with torch.inference_mode():
        encoded = model._encode(sentences)
        batch = {name: torch.from_numpy(array) for name, array in encoded.batch(np.arange(len(encoded))).items()}
        features, _ = model.network().features(model.network().reader(batch), batch)
    for one, many in zip(scores, features.numpy()):
        assert np.allclose(one, many[:len(one)], atol=2e-6)
    monkeypatch.setattr(NeuralTagger, "quickly", lambda self, many: False)
    assert model.predict(sentences) == alone
