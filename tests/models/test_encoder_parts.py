"""The parts of encoders: published numbers of parameters, marks around texts, batches, hidden
tokens in a text.
"""

import itertools
import math

import numpy as np
import pytest

from seqloom import Tokenizer
from seqloom.batching import like_lengths
from seqloom.errors import ModelError
from seqloom.models.masked.configs import EncoderLayout
from seqloom.models.masked.inputs import Input, Marks, cut_to, encoder_shapes, pad_together
from seqloom.text.masks import HIDDEN, encode_masked, write_tokens
from tests.fuzz.specimens import random_encoder

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("vocab_size", "options", "count"),
    [
        (30522, {"pooler": True}, 109_482_240),  # BERT-base
        (
            30522,
            {"pooler": True, "d_model": 1024, "n_layers": 24, "n_heads": 16},
            335_141_888,
        ),  # BERT-large
        (50265, {"pooler": True, "n_types": 1, "position_offset": 2}, 124_645_632),  # RoBERTa-base
        (30522, {"n_layers": 6, "n_types": 0}, 66_362_880),  # DistilBERT-base
        (30000, {"pooler": True, "d_embed": 128, "shared_layers": True}, 11_683_584),  # ALBERT-base
        (
            30522,
            {"d_model": 256, "n_heads": 4, "d_embed": 128, "d_mlp": 1024},
            13_483_008,
        ),  # ELECTRA-small, its body
    ],
)
def test_published_numbers_of_parameters(vocab_size, options, count):
    from seqloom.models.masked.encoder_net import build_encoder

    with torch.device("meta"):
        network = build_encoder(EncoderLayout(**options), vocab_size)
    assert sum(parameter.numel() for parameter in network.parameters()) == count
    assert (
        sum(map(math.prod, encoder_shapes(EncoderLayout(**options), vocab_size).values())) == count
    )


def test_marks_and_types():
    ids = np.array([7, 8]), np.array([9])
    bert, roberta = Marks(1, 2, 0, 3, 1), Marks(1, 2, 0, 3, 2)
    assert [part.tolist() for part in bert.join(ids[:1])] == [[1, 7, 8, 2], [0, 0, 0, 0]]
    assert [part.tolist() for part in bert.join(ids)] == [[1, 7, 8, 2, 9, 2], [0, 0, 0, 0, 1, 1]]
    assert [part.tolist() for part in roberta.join(ids)] == [[1, 7, 8, 2, 2, 9, 2], [0] * 7]
    assert bert.join(ids, 0).types.max() == 0
    for marks in (bert, roberta):
        assert [len(marks.join(ids[:n]).ids) - sum(map(len, ids[:n])) for n in (1, 2)] == [
            marks.around(1),
            marks.around(2),
        ]
    with pytest.raises(ModelError, match="vocabulary"):
        Marks.of({"cls": 5, "sep": 1, "pad": 0, "separators": 1}, 5)


def test_pairs_are_cut_at_the_longer_text_first():
    for a, b, most in itertools.product(range(6), range(6), range(8)):
        lengths = [a, b]
        while sum(lengths) > most:
            lengths[0 if lengths[0] > lengths[1] else 1] -= 1
        found = list(map(len, cut_to([np.arange(a), np.arange(b)], most)))
        assert sum(found) == sum(lengths)
        assert abs(found[0] - lengths[0]) <= (
            min(a, b) > most // 2
        )  # which of two equal ones goes first is free


def test_batches_hold_every_row_once_and_not_too_many_tokens():
    lengths = np.random.default_rng(0).integers(1, 50, 200).tolist()
    groups = like_lengths(lengths, 120)
    assert sorted(place for group in groups for place in group) == list(range(200))
    assert all(len(group) * max(lengths[place] for place in group) <= 120 for group in groups)
    assert sum(
        len(group) * max(lengths[place] for place in group) for group in groups
    ) < 1.15 * sum(lengths)


def test_padding_is_at_the_right():
    rows = [Input(np.array([5, 6, 7]), np.array([0, 1, 1])), Input(np.array([8]), np.array([0]))]
    ids, types, keep = pad_together(rows, 9)
    assert ids.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert types.tolist() == [[0, 1, 1], [0, 0, 0]]
    assert keep.tolist() == [[True] * 3, [True, False, False]]
    assert pad_together(rows[:1], 9)[2] is None


def test_hidden_tokens_in_a_text():
    tokenizer = random_encoder("bert", context=24, d_model=8, n_layers=1, n_heads=2).tokenizer
    ids = encode_masked(tokenizer, "The [MASK] [CLS]", "[MASK]")
    assert ids[:2].tolist() == [tokenizer.id("the"), HIDDEN]
    assert len(ids) > 4  # [CLS] is text: a bracket, letters, a bracket
    assert tokenizer.id("[CLS]") not in ids.tolist()
    cat, s = tokenizer.id("cat"), tokenizer.id("##s")
    assert write_tokens(tokenizer, "The [MASK] [MASK]!", "[MASK]", [cat, s]) == "The cats!"
    words = Tokenizer.from_tokens(["a", "b"])
    assert encode_masked(words, "a [MASK] b", "[MASK]").tolist() == [
        words.id("a"),
        HIDDEN,
        words.id("b"),
    ]


def test_what_is_too_long_is_cut_and_said_or_scored_in_parts(monkeypatch):
    model = random_encoder("bert", context=8, d_model=8, n_layers=1, n_heads=2)
    lines = []
    monkeypatch.setattr("seqloom.progress.say", lines.append)
    assert len(model.hidden("the cat sat on the log the cat").tokens) == 8
    assert "1 of 1 texts are longer than the 8 tokens" in lines[0]
    parts = [model.token_scores(text) for text in ("the cat sat on", "the log the cat")]
    assert model.token_scores("the cat sat on the log the cat") == pytest.approx(
        parts[0] + parts[1], abs=1e-5
    )
    assert "scored in parts" in model.evaluate("the cat sat on the log the cat").notes[0]
