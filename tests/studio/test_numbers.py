"""What follows a prompt, summed over spellings, against sums over all of them; and pieces of a text."""

import math

import numpy as np
import pytest

from seqloom import NGram
from seqloom.studio.following import coloured, following
from tests.studio.shelves import TEXT, after


@pytest.fixture(scope="module")
def bpe():
    return NGram(order=2, tokenizer="bpe", vocab_size=300).fit(TEXT)


def spelt(model, text):
    """The probability that a text begins so: the sum over all ways to spell it, by brute force."""
    tokens = {
        i: model.tokenizer.piece(i, before=True)
        for i in range(model.tokenizer.vocab_size)
        if model.tokenizer.token_bytes(i)
    }

    def rest(ids, left):
        if not left:
            return 1.0
        probs = np.exp(after(model, ids))
        total = 0.0
        for i, data in tokens.items():
            if left.startswith(data):
                total += probs[i] * rest([*ids, i], left[len(data) :])
            elif data.startswith(left):
                total += probs[i]
        return total

    return rest([], text.encode())


@pytest.mark.parametrize("prompt", ["the q", "to be", "sa"])
def test_next_characters_are_sums_over_all_spellings(bpe, prompt):
    """Also where the prompt ends inside a token."""
    found = following(bpe, prompt)
    whole = spelt(bpe, prompt)
    for text, log_prob in found["characters"][:4]:
        if text not in ("</s>", "\n"):
            wanted = spelt(bpe, prompt + text) / whole
            assert math.exp(log_prob) == pytest.approx(wanted, rel=2e-3), text


def test_of_bytes_it_is_the_models_own_distribution():
    model = NGram(order=3, tokenizer="byte").fit(TEXT)
    found = following(model, "the ")
    own = after(model, model.tokenizer.encode("the "))
    by_text = {text: log_prob for text, _, log_prob in found["pieces"]}
    for letter in "cdsm":
        token = int(model.tokenizer.encode(letter)[0])
        assert by_text[letter] == pytest.approx(own[token], abs=1e-5)
    probs, newline = np.exp(own), int(model.tokenizer.encode("\n", newline_ends=False)[0])
    if model.unit == "line":  # the end of a line and its sign are one text
        probs[newline] += probs[model.tokenizer.eos_id]
        probs[model.tokenizer.eos_id] = 0
    bits = -(probs[probs > 0] * np.log2(probs[probs > 0])).sum()
    assert found["entropy"] == pytest.approx(bits, abs=1e-4)
    assert found["rest"] == 0


def test_what_is_left_out_has_a_sum(bpe):
    few = following(bpe, "the ", most=3)
    everything = following(bpe, "the ")
    assert len(few["pieces"]) == 3
    assert few["n"] == len(everything["pieces"])
    assert few["rest"] == pytest.approx(
        sum(math.exp(one[2]) for one in everything["pieces"][3:]), abs=1e-9
    )


@pytest.mark.parametrize("text", ["to be\nor not\n", "caf\u00e9 \u732b!", "<b>&amp;</b>"])
def test_pieces_are_the_text_and_cost_what_it_costs(bpe, text):
    found = coloured(bpe, text, 3)
    assert "".join(piece["text"] for piece in found["pieces"]).removesuffix(
        "\n"
    ) == text.removesuffix("\n")
    tokens = [token for piece in found["pieces"] for token in piece["tokens"]]
    assert [token["number"] for token in tokens] == list(range(1, len(tokens) + 1))
    for piece in found["pieces"]:
        assert piece["bits"] == pytest.approx(sum(token["bits"] for token in piece["tokens"]))
    assert found["bits"] == pytest.approx(-bpe.score(text) / math.log(2), rel=1e-5)


def test_an_excerpt_does_not_pay_for_the_end_of_its_document():
    model = NGram(order=2, tokenizer="byte", unit="document").fit(TEXT)
    whole, part = coloured(model, "to be", 1), coloured(model, "to be", 1, excerpt=True)
    assert part["pieces"] == whole["pieces"][:-1]
    assert whole["bits"] - part["bits"] == pytest.approx(whole["pieces"][-1]["bits"])
