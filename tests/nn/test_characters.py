"""Vectors of words from their characters."""

import pytest
import torch
from torch import nn

from seqloom.nn.readers import CharacterReader

WORDS = [[3, 1, 4, 1, 5], [2], [], [6, 5], [1, 2, 3, 4, 5, 6, 1]]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(7)


def padded(words):
    lengths = torch.tensor([len(word) for word in words])
    ids = torch.zeros(len(words), max(map(len, words)), dtype=torch.long)
    for row, word in enumerate(words):
        ids[row, : len(word)] = torch.tensor(word, dtype=torch.long)
    return ids, lengths


@pytest.mark.parametrize("kind", ["cnn", "lstm"])
def test_a_word_is_the_same_alone_and_in_a_batch(kind):
    reader = CharacterReader(7, 5, 6, kind).double()
    together = reader(*padded(WORDS))
    assert together.shape == (5, 6)
    for row, word in enumerate(WORDS):
        torch.testing.assert_close(together[row], reader(*padded([word]))[0])
    assert not together[2].any()
    assert len({tuple(row) for row in together.tolist()}) == 5


@pytest.mark.parametrize("kind", ["cnn", "lstm"])
def test_gradients_of_padding_are_zero_and_the_rest_are_finite_differences(kind):
    reader = CharacterReader(7, 2, 4, kind).double()
    names, values = zip(*reader.named_parameters())
    ids, lengths = padded(WORDS[:3])

    def run(*values):
        return torch.func.functional_call(reader, dict(zip(names, values)), (ids, lengths))

    (run(*values) ** 2).sum().backward()
    assert not reader.embedding.weight.grad[0].any()
    table = names.index("embedding.weight")
    rest = [value.detach().requires_grad_(index != table) for index, value in enumerate(values)]
    assert torch.autograd.gradcheck(run, rest)


def test_cnn_is_torchs_convolution():
    reader = CharacterReader(7, 5, 6, "cnn")
    peer = nn.Conv1d(5, 6, 3, padding=1)
    with torch.no_grad():
        peer.weight.copy_(reader.filters.weight.view(6, 3, 5).transpose(1, 2))
        peer.bias.copy_(reader.filters.bias)
    ids, lengths = padded(WORDS[:1])
    expected = peer(reader.embedding(ids).transpose(1, 2)).amax(2)
    torch.testing.assert_close(reader(ids, lengths), expected)


def test_lstm_gives_the_last_state_of_both_directions():
    reader = CharacterReader(7, 5, 6, "lstm")
    words = [word for word in WORDS if word]
    ids, lengths = padded(words)
    _, ((ahead, _, back, _),) = reader.recurrent(reader.embedding(ids), None, lengths)
    torch.testing.assert_close(reader(ids, lengths), torch.cat([ahead, back], 1))


@pytest.mark.parametrize("kind", ["cnn", "lstm"])
def test_no_words(kind):
    reader = CharacterReader(7, 5, 6, kind)
    assert reader(torch.zeros(0, 4, dtype=torch.long), torch.zeros(0, dtype=torch.long)).shape == (
        0,
        6,
    )
    assert (
        reader(torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, dtype=torch.long)).tolist()
        == [[0.0] * 6] * 2
    )


def test_faults_are_named():
    for bad, message in (
        (lambda: CharacterReader(7, 5, 5, "lstm"), "even"),
        (lambda: CharacterReader(7, 5, 5, "gru"), "cnn or lstm"),
        (lambda: CharacterReader(0, 5, 5), "at least 1"),
        (
            lambda: CharacterReader(7, 5, 5)(
                torch.zeros(2, 3, dtype=torch.long), torch.tensor([1])
            ),
            r"\(N,\)",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            bad()
