"""Word-level rungs whose bits per byte are honest: what is no known word is spelled in bytes and
pays for each.
"""

import math

import pytest

from seqloom import Corpus, NGram, Tokenizer, compare, load

TEXT = "the cat sat on the mat, the cat!\n" * 3 + "dog"


@pytest.fixture(scope="module")
def words():
    return Tokenizer.whole_words(TEXT, vocab_size=1000, min_count=2)


def test_known_words_are_one_token_and_others_are_bytes(words):
    pieces = [words.token_bytes(i) for i in words.encode("the cat bat\n")]
    assert pieces == [b"the", b" cat", b" ", b"b", b"a", b"t", b"\n"]
    assert [words.token_bytes(i) for i in words.encode("dog")] == [b"d", b"o", b"g"]  # seen once
    assert words.vocab_size == 257 + len([b"the", b" the", b" cat", b" sat", b" on", b" mat"])


@pytest.mark.parametrize("text", [TEXT, "", "née ☃ 你好 🙂\r\n\t  x", b"\xff\xfe the cat \x80"])
def test_every_byte_is_kept(words, text):
    data = text.encode() if isinstance(text, str) else text
    assert words.lossless
    assert words.decode_bytes(words.encode(data)) == data


def test_it_is_saved_and_repeatable(words, tmp_path):
    words.save(tmp_path / "t")
    again = Tokenizer.load(tmp_path / "t")
    assert again == words == Tokenizer.whole_words(TEXT, vocab_size=1000, min_count=2)
    assert again.label() == "wordbyte-263"
    assert again.encode("the bat").tolist() == words.encode("the bat").tolist()
    assert Tokenizer(kind="bpe", vocab_size=300).fit(TEXT).label().startswith("bpe-")


def test_the_vocabulary_has_the_most_frequent_words():
    small = Tokenizer.whole_words(TEXT, vocab_size=258)
    assert [small.token_bytes(i) for i in small.encode("the the cat")][1:2] == [
        b" the"
    ] or small.vocab_size == 258
    assert small.vocab_size == 258


def test_word_rungs_pay_for_every_byte(shakespeare, tmp_path):
    text = Corpus.from_texts(shakespeare[:30_000])
    found = compare(
        text, rungs=["byte-1", "word-1", "word-2", "bpe-1", "bpe-mixture"], work=tmp_path
    )
    rows = {r.name: r for r in found.results}
    model = load(found.places["word-2"])
    test = found.bench.splits.test
    assert rows["word-2"].value == pytest.approx(model.bits_per_byte(test), rel=1e-9)
    assert -model.score(test.text()) / math.log(2) / test.n_bytes == pytest.approx(
        rows["word-2"].value, rel=1e-6
    )
    assert model.tokenizer.decode_bytes(model.tokenizer.encode(test.text())) == test.text().encode()
    assert rows["word-2"].value < rows["word-1"].value
    assert (
        "wordbyte" not in rows["bpe-mixture"].signature
    )  # it mixes models of its own tokens alone
    by_hand = NGram(order=2, tokenizer="bpe", unit="stream").fit(
        found.bench.splits.train, tokenizer=model.tokenizer
    )
    assert by_hand.bits_per_byte(test) == pytest.approx(rows["word-2"].value, rel=1e-9)
