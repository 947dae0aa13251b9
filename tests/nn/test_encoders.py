"""Encoders, pooling and readers: padding changes nothing, streaming ones do not look ahead,
attention by finite differences.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from seqloom.encoder_table import ENCODERS
from seqloom.nn.composition import (
    POOLINGS,
    Pooling,
    rows_of,
)
from seqloom.nn.encoders import make_encoder, neighbours
from seqloom.nn.readers import NumberReader, TokenReader

LENGTHS = torch.tensor([7, 4, 1])


@pytest.fixture(scope="module")
def x():
    return torch.randn(3, 7, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ENCODERS)
def test_a_row_comes_out_as_if_it_were_alone(name, x):
    torch.manual_seed(1)
    encoder = make_encoder(name, 8, 16, 2, n_heads=2)
    together = encoder(x, LENGTHS)
    assert together.shape == (3, 7, encoder.d_out)
    for i, length in enumerate(LENGTHS.tolist()):
        alone = encoder(x[i : i + 1, :length], LENGTHS[i : i + 1])
        assert torch.allclose(together[i, :length], alone[0], atol=1e-5)
        assert (together[i, length:] == 0).all()


@pytest.mark.parametrize("name", ENCODERS)
def test_streaming_encoders_do_not_look_ahead(name, x):
    torch.manual_seed(1)
    encoder = make_encoder(name, 8, 16, 2, n_heads=2)
    same = torch.allclose(encoder(x[:, :5], None), encoder(x, None)[:, :5], atol=1e-5)
    assert same == encoder.streams == ENCODERS[name].streams


def test_unknown_names_and_heads():
    with pytest.raises(ValueError, match="encoder must be one of bag"):
        make_encoder("bilstmm", 8, 8)
    with pytest.raises(ValueError, match="multiple of 8"):
        make_encoder("transformer", 8, 12, n_heads=4)
    with pytest.raises(ValueError, match="pooling must be one of last"):
        Pooling("median", 8)  # type: ignore[arg-type]


def test_neighbours_are_side_by_side():
    x = torch.arange(1.0, 5.0).view(1, 4, 1)
    assert neighbours(x, 1)[0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0]]


@pytest.mark.parametrize("kind", POOLINGS)
def test_pooling_is_what_it_says_and_ignores_padding(kind, x):
    torch.manual_seed(2)
    pooling = Pooling(kind, 8)
    out = pooling(x, LENGTHS)
    rows = [x[i, :length] for i, length in enumerate(LENGTHS.tolist())]
    if kind == "attention":
        scores = [
            torch.softmax(pooling.score(torch.tanh(pooling.project(row)))[:, 0], 0) for row in rows
        ]
        expected = [weights @ row for weights, row in zip(scores, rows)]
        assert torch.allclose(pooling.weights(x, LENGTHS).sum(1), torch.ones(3))
    else:
        expected = [
            {"last": row[-1], "first": row[0], "mean": row.mean(0), "max": row.amax(0)}[kind]
            for row in rows
        ]
    assert torch.allclose(out, torch.stack(expected), atol=1e-6)
    assert (pooling(x, torch.tensor([7, 0, 1]))[1] == 0).all()


def test_last_of_two_directions_is_where_each_ends(x):
    out = Pooling("last", 8, bidirectional=True)(x, LENGTHS)
    assert torch.equal(out[1], torch.cat([x[1, 3, :4], x[1, 0, 4:]]))


def test_gradient_of_attention_pooling():
    torch.manual_seed(3)
    pooling = Pooling("attention", 4).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    parameters = tuple(pooling.parameters())
    assert torch.autograd.gradcheck(
        lambda x, *_: pooling(x, torch.tensor([3, 2])), (x, *parameters)
    )


def test_token_reader_knows_further_words_and_drops_rare_ones():
    reader = TokenReader(4, 3, further=2, drop=torch.tensor([0.0, 0.0, 1.0, 0.0]), unk_id=1)
    reader.further.copy_(torch.tensor([[1.0, 2, 3], [4, 5, 6]]))
    ids = torch.tensor([[2, 5, 4]])
    table = reader.embedding.weight
    assert torch.equal(
        reader.eval()({"ids": ids})[0],
        torch.stack([table[2], reader.further[1], reader.further[0]]),
    )
    assert torch.equal(
        reader.train()({"ids": ids})[0],
        torch.stack([table[1], reader.further[1], reader.further[0]]),
    )


def test_a_dropped_word_is_read_by_its_pretrained_vector_where_it_has_one():
    pretrained = torch.tensor([[torch.nan] * 3, [torch.nan] * 3, [7.0, 8, 9], [torch.nan] * 3])
    reader = TokenReader(
        4, 3, drop=torch.tensor([0.0, 0.0, 1.0, 1.0]), untrained=pretrained, unk_id=1
    )
    table, ids = reader.embedding.weight, torch.tensor([[0, 2, 3]])
    assert torch.equal(
        reader.train()({"ids": ids})[0], torch.stack([table[0], pretrained[2], table[1]])
    )
    assert torch.equal(reader.eval()({"ids": ids})[0], table[ids[0]])


def test_number_reader_scales_and_marks_what_is_missing():
    reader = NumberReader(
        2, mean=torch.tensor([1.0, 0]), scale=torch.tensor([2.0, 1]), missing=True
    )
    out = reader({"values": torch.tensor([[[3.0, torch.nan], [1.0, 5.0]]])})
    assert out.tolist() == [[[1, 0, 0, 1], [0, 5, 0, 0]]]


def test_rows_go_to_their_documents():
    out = rows_of(torch.arange(1.0, 7).view(3, 2), torch.tensor([1, 0, 2]))
    assert out.tolist() == [[[1, 2], [0, 0]], [[0, 0], [0, 0]], [[3, 4], [5, 6]]]
