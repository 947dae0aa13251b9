"""A few examples are answered without torch, many with it, and both alike."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.encoder_table import ENCODERS
from seqloom.models.classification.neural_classifier import NeuralClassifier
from seqloom.models.sequence.model import MAX_EXAMPLES_WITHOUT_TORCH, without_torch
from seqloom.models.tagging.neural_tagger import NeuralTagger
from seqloom.training.config import TrainConfig
from tests.models.test_composition import SENTENCES, SERIES, TEXTS, make_encoder, small

TRAIN = TrainConfig(steps=3, batch_size=3)


def both(model, examples, monkeypatch):
    """Answers one by one without torch, and all together with it."""
    assert without_torch(model, 1)
    assert not without_torch(model, MAX_EXAMPLES_WITHOUT_TORCH + 1)
    alone = np.concatenate([model.class_log_probs([example]) for example in examples])
    monkeypatch.setattr("seqloom.models.sequence.model.MAX_EXAMPLES_WITHOUT_TORCH", 0)
    return alone, model.class_log_probs(examples)


@pytest.mark.parametrize("long", ["truncate", "windows", "sentences"])
@pytest.mark.parametrize("encoder", ["bag", "bigru", "transformer"])
def test_texts(encoder, long, monkeypatch):
    model = NeuralClassifier(
        **small(encoder, long=long, max_length=4, characters="cnn", d_characters=4)
    ).fit(TEXTS, train=TRAIN)
    alone, together = both(model, [text for text, _ in TEXTS] + ["Xylo unknown"], monkeypatch)
    assert np.allclose(alone, together, atol=2e-6)


def test_several_labels_and_numbers_with_gaps(monkeypatch):
    series = [x.copy() for x, _ in SERIES]
    series[0][1, 0] = np.nan
    model = NeuralClassifier(encoder="cnn", d_hidden=8).fit(
        series, [(y,) if y == "a" else ("a", y) for _, y in SERIES], train=TRAIN
    )
    assert model.multi_label
    alone, together = both(model, series, monkeypatch)
    assert np.allclose(alone, together, atol=2e-6)


@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_tags(encoder, crf, monkeypatch):
    model = NeuralTagger(**small(encoder, crf=crf, d_characters=4)).fit(SENTENCES, train=TRAIN)
    sentences = [words for words, _ in SENTENCES]
    alone = [model.predict(words) for words in sentences]
    monkeypatch.setattr("seqloom.models.sequence.model.MAX_EXAMPLES_WITHOUT_TORCH", 0)
    assert model.predict(sentences) == alone


def test_a_published_encoder(tmp_path, monkeypatch):
    make_encoder(tmp_path / "encoder")
    model = NeuralClassifier(encoder=str(tmp_path / "encoder")).fit(TEXTS, train=TRAIN)
    alone, together = both(model, [text for text, _ in TEXTS], monkeypatch)
    assert np.allclose(alone, together, atol=2e-6)


@pytest.mark.parametrize("bits", [8, 4])
def test_quantised_ones_never_need_torch(bits):
    model = NeuralClassifier(**small("bilstm")).fit(TEXTS, train=TRAIN)
    rounded = model.quantised(bits)
    assert without_torch(rounded, 1000)
    texts = [text for text, _ in TEXTS] * 4
    assert np.abs(rounded.class_log_probs(texts) - model.class_log_probs(texts)).max() < 0.3


def test_torch_is_not_imported_for_a_few(tmp_path):
    NeuralClassifier(**small("transformer")).fit(TEXTS, train=TRAIN).save(tmp_path / "m")
    NeuralTagger(**small("bilstm", d_characters=4)).fit(SENTENCES, train=TRAIN).quantised(8).save(
        tmp_path / "t"
    )
    program = (
        "import sys, seqloom\nmodel, tagger = (seqloom.load(path) for path in sys.argv[1:])\n"
        "print(model.predict('good fun'), tagger.predict(['Ada', 'met']), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "m"), str(tmp_path / "t")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == "False"
