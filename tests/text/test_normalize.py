"""Normalisers: the document's examples, each step, and that a text may be normalised in pieces."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings

import seqloom
from seqloom import NGram
from seqloom.cli.main import main
from seqloom.data.corpus import Corpus
from seqloom.data.encode import encode_corpus
from seqloom.errors import ConfigError
from seqloom.text.normalize import PRESETS, Normalizer, NormalizerConfig
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.tokenizer_directory import SETTINGS_FILE
from tests.text.strategies import byte_strings

EXAMPLES = [  # of "Text Preprocessing Techniques", the first document on recurrent networks
    (
        "case=lower",
        "The Quick Brown Fox Jumps Over The Lazy Dog",
        "the quick brown fox jumps over the lazy dog",
    ),
    (
        "case=lower,punctuation=remove",
        "Hello, world! How are you? I'm fine; thanks.",
        "hello world how are you im fine thanks",
    ),
    (
        "topic",
        "I ♥ natural language processing 😊 #NLP rocks!",
        "i natural language processing nlp rocks",
    ),
    ("punctuation=standardise", "I love this movie!!!", "I love this movie!"),
    ("sentiment", "The service was good?", "The service was good?"),
    # E-17: the document prints the same text twice; this is what it means
    (
        "whitespace=collapse",
        "text  with \t irregular\u00a0   spacing ",
        "text with irregular spacing",
    ),
    (
        "contractions=expand",
        "don't can't won't I'm they're",
        "do not cannot will not I am they are",
    ),
    (
        "case=lower,numbers=placeholder",
        "I have 25 apples and $3.14 was spent on 42 oranges",
        "i have NUM apples and MONEY was spent on NUM oranges",
    ),
    (
        "case=lower,stopwords=remove,whitespace=collapse",
        "The cat sat on the mat while the dog watched from the corner.",
        "cat sat mat dog watched corner.",
    ),
    # E-15: lists in use do hold "not"; here it stays because negation is kept
    (
        "case=lower,stopwords=remove,whitespace=collapse",
        "The movie was not very good.",
        "movie not good.",
    ),
    ("case=lower,stopwords=remove,whitespace=collapse", "The movie was very good.", "movie good."),
    (
        "case=lower,stopwords=remove-all,whitespace=collapse",
        "The movie was not very good.",
        "movie good.",
    ),
]

STEPS = [
    ("unicode=nfc", "cafe\u0301 ﬁt", "café ﬁt"),
    ("unicode=nfkc", "ｆｕｌｌ ﬁt ①", "full fit 1"),
    (
        "contractions=expand",
        "Don’t SHE'LL Can't WON'T shouldn't've it's Let's 'Twas the dog's o'clock OK'd",
        "Do not SHE WILL Cannot WILL NOT should not have it is Let us It was the dog's o'clock OK'd",
    ),
    (
        "numbers=placeholder",
        "1,000.50 .5 21st B2B 3D €5 5 € US$3bn $ 4 v1.2.3 12:30 -7% 3.14pm",
        "NUM NUM 21st B2B 3D MONEY MONEY US MONEY MONEY v1.2.3 NUM:NUM -NUM% 3.14pm",
    ),
    ("symbols=remove", "a♥b 😊 c+d 👍🏽! ❤️ 1️⃣ x", "a b  c d !  1 x"),
    (
        "symbols=name",
        "I😊 ok 👍🏽 🇩🇪🇫🇷 © $5",
        "I SmilingFaceWithSmilingEyes ok ThumbsUpSign FlagDE FlagFR CopyrightSign $5",
    ),
    (
        "punctuation=standardise",
        "“Hi”—she said… ‘no’?!?! well,, a--b ...... ！！ No.!! ,-;",
        "\"Hi\"-she said... 'no'?! well, a-b ... ！ No.! ,-;",
    ),
    (
        "punctuation=remove",
        "U.S. e.g. well-known 3.14 1,000 a.b (x) «y» @me dogs' end.",
        "US eg well known 3.14 1,000 a b x y me dogs end",
    ),
    ("whitespace=collapse", "  a \t b\r\n\n c\u2003d  ", "a b\n\nc d"),
    (
        "stem=porter",
        "Running dogs' studies, the dog's 3Ds x_runs",
        "run dog' studi, the dog 3Ds x_runs",
    ),
    ("stem=snowball,language=de", "Die Häuser", "die haus"),
    ("stopwords=remove,language=de", "Das ist nicht gut", "  nicht gut"),
    ("stopwords=remove", "See it. Go", "See . Go"),
    ("topic,stopwords=remove", "Don't you LIKE it?", "not like"),
    ("topic", "<unk> of the <unk>-based N.V. group", "<unk> of the <unk> based nv group"),
    ("topic", "नमस्ते, दुनिया!", "नमस्ते दुनिया"),
    ("topic", "你好，世界。", "你好 世界"),
    ("stem=porter", "हिन्दी", "हिन्दी"),
]


@pytest.mark.parametrize(("recipe", "text", "expected"), EXAMPLES + STEPS)
def test_examples(recipe: str, text: str, expected: str) -> None:
    assert Normalizer(recipe)(text) == expected
    assert Normalizer("none")(text) == text


def test_index_example() -> None:
    """E-17: [1, 2, 3, 4, 1, 5] needs small letters and no full stop, which the document does not say."""
    tokenizer = Tokenizer(kind="word", normalize="topic").fit(["The cat sat on the mat."])
    ids = tokenizer.encode("The cat sat on the mat.").tolist()
    order = list(dict.fromkeys(ids))
    assert [order.index(i) + 1 for i in ids] == [1, 2, 3, 4, 1, 5]
    plain = Tokenizer(kind="word").fit(["The cat sat on the mat."])
    assert len(set(plain.encode("The cat sat on the mat.").tolist())) == 7


def test_sentiment_keeps_what_matters() -> None:
    assert (
        Normalizer("sentiment")("NOT good!!! I don't like it…  :(")
        == "NOT good! I do not like it... :("
    )


def test_recipes() -> None:
    for recipe in (
        *PRESETS,
        "topic,stem=porter",
        "case=lower",
        "sentiment,case=lower",
        "topic,language=de",
        "lemma=dictionary,language=en",
        "unicode=nfc,stem=lancaster",
    ):
        config = NormalizerConfig.from_recipe(recipe)
        assert NormalizerConfig.from_recipe(config.recipe()) == config
        assert NormalizerConfig.from_recipe(config.label()) == config
    assert NormalizerConfig.from_recipe("topic, stem=porter").label() == "topic,stem=porter"
    assert NormalizerConfig.from_recipe("topic,language=de").contractions == "keep"
    assert Normalizer("none").identity
    assert Normalizer("language=de").identity
    assert not Normalizer("topic").identity


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("topc", "did you mean 'topic'"),
        ("stem=porte", "did you mean 'porter'"),
        ("steem=porter", "did you mean 'stem'"),
        ("topic,stem=porter,stem=keep", "'stem' appears twice"),
        ("case=lower,topic", "must come first"),
        ("stem=porter,lemma=dictionary", "choose one"),
        ("", "neither a preset"),
        ("contractions=expand,language=de", "English only"),
        ("stopwords=remove,language=xx", "no stop words"),
        ("stem=porter,language=de", "use snowball"),
        ("stem=snowball,language=xx", "no stemmer"),
    ],
)
def test_wrong_recipes(recipe: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Tokenizer(kind="word", normalize=recipe)


# ---- in pieces

RECIPES = [
    "topic",
    "sentiment",
    "case=lower",
    "topic,stopwords=remove,stem=porter",
    "whitespace=collapse",
    "punctuation=remove,symbols=name",
    "unicode=nfkc,numbers=placeholder,stopwords=remove-all",
]
KINDS = ["whitespace", "word", "char", "byte", "bpe", "wordpiece"]
TRAINING = (
    """The cook cooks, the cooker cooked; they're cooking!!\n\n  indented   text\tand tabs \n
don't ‘quote’ 12 eggs for $3.14 你好 世界 ♥ naïve\xa0café \r\n</s> <unk> a  b   c    d\n\n\n x\n y\n"""
    * 20
)


@pytest.fixture(scope="module")
def fitted() -> dict[tuple[str, str], Tokenizer]:
    sizes = {"bpe": 320, "wordpiece": 150}
    return {
        (kind, recipe): Tokenizer(kind=kind, vocab_size=sizes.get(kind), normalize=recipe).fit(
            TRAINING
        )
        for kind in KINDS
        for recipe in RECIPES
    }


@pytest.mark.parametrize("kind", KINDS)
@given(data=byte_strings, more=byte_strings)
@settings(max_examples=60, deadline=None)
def test_both_sides_of_a_cut_encode_alone(
    fitted: dict, kind: str, data: bytes, more: bytes
) -> None:
    data = data + b"\n" + more + b"\nend of it"
    for recipe in RECIPES:
        tokenizer = fitted[kind, recipe]
        cuts = {tokenizer.cut(data[:n], False) for n in range(len(data) + 1)}
        for newline_ends in (False, True):
            whole = tokenizer.encode(data, newline_ends=newline_ends).tolist()
            for at in cuts:
                left = tokenizer.encode(data[:at], newline_ends=newline_ends).tolist()
                assert (
                    left + tokenizer.encode(data[at:], newline_ends=newline_ends).tolist() == whole
                ), (recipe, at)


@given(data=byte_strings)
@settings(max_examples=100, deadline=None)
def test_newlines_stay(data: bytes) -> None:
    for recipe in RECIPES:
        assert Normalizer(recipe).of_bytes(data).count(b"\n") == data.count(b"\n")


def test_ordinary_text_is_cut_near_its_end(fitted: dict) -> None:
    data = TRAINING.encode()[:1000]
    for (kind, _), tokenizer in fitted.items():
        assert (
            (850 if kind in ("char", "byte", "bpe") else 980) < tokenizer.cut(data, False) <= 1000
        )
        assert tokenizer.cut(data, True) == 1000
        assert tokenizer.cut(b"", False) == 0
    words, letters = fitted["word", "topic"], fitted["char", "topic"]
    assert words.cut(b"one two three", False) == 7  # one long line of words
    assert words.cut(b"one, two, three", False) == 0
    assert letters.cut(b"one two three", False) == 0  # blanks count there, so only lines
    assert (
        letters.cut(b"one\ntwo\n!!\nthree", False) == 3
    )  # a line of which nothing is left could join others


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_blocks_and_threads_do_not_matter(
    kind: str, shakespeare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Corpus.from_texts(shakespeare[:40_000])
    found = []
    for size, threads in ((1 << 20, "1"), (3000, "1"), (3000, "2")):
        monkeypatch.setattr("seqloom.text.tokenizer._BLOCK", size)
        monkeypatch.setattr("seqloom.data.encode._BLOCK", size)
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        tokenizer = Tokenizer(kind=kind, vocab_size=500, normalize="topic,stem=porter").fit(corpus)
        found.append((tokenizer.fingerprint, encode_corpus(tokenizer, corpus, unit="line")))
    assert all(found[0][0] == other and np.array_equal(found[0][1], ids) for other, ids in found)


def test_hostile_text_takes_no_longer() -> None:
    """Runs on which a careless pattern would need a day."""
    n = 20_000
    texts = [
        "a. " * n,
        " " * n + "x",
        "\n " * n,
        "." * n + "x",
        "a." * n + "b",
        "a'" * n + "1",
        "1." * n + "x",
        "$1," * n + "x",
        "'" * n,
        "!?" * n,
        "a-" * n,
        "😊" * n,
        "\u200d" * n,
        "\u0301" * n,
    ]
    for recipe in ("topic,stem=porter", "sentiment,stopwords=remove"):
        normalizer = Normalizer(recipe)
        for text in texts:
            normalizer(text)


# ---- part of the tokenizer


def test_it_is_saved_with_the_tokenizer(tmp_path: Path) -> None:
    tokenizer = Tokenizer(kind="word", normalize="topic").fit("The cat, the CAT!")
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again == tokenizer
    assert again.encode("CAT?").tolist() == tokenizer.encode("cat").tolist()
    assert again.label() == "word-4+topic"
    stored = json.loads((tmp_path / SETTINGS_FILE).read_text())["normalize"]
    assert stored.startswith(
        "unicode=nfkc,case=lower"
    )  # what the preset did, should it ever mean something else


def test_older_tokenizers_load(tmp_path: Path) -> None:
    Tokenizer(kind="word").fit("The cat").save(tmp_path)
    settings = json.loads((tmp_path / SETTINGS_FILE).read_text())
    assert settings.pop("normalize") == "none"
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(settings))
    assert Tokenizer.load(tmp_path).normalizer is None


def test_it_decides_the_fingerprint() -> None:
    plain, lower = (
        Tokenizer(kind="word", normalize=recipe).fit("a b") for recipe in ("none", "case=lower")
    )
    assert plain != lower
    assert (
        Tokenizer(kind="byte").fingerprint
        == Tokenizer(kind="byte", normalize="language=de").fingerprint
    )


@pytest.mark.parametrize("kind", ["byte", "bpe"])
def test_bits_per_byte_are_refused(kind: str, shakespeare: str) -> None:
    model = NGram(order=2, tokenizer=kind, normalize="case=lower").fit(shakespeare[:5000])
    assert not model.tokenizer.lossless
    with pytest.raises(ConfigError, match=r"preprocessing \(case=lower\)"):
        model.bits_per_byte(shakespeare[5000:6000])
    result = model.evaluate(shakespeare[5000:6000], samples=10)
    assert result["bits_per_byte"] is None
    assert "preprocessing" in result.notes[0]


def test_a_model_carries_it(tmp_path: Path, shakespeare: str) -> None:
    model = NGram(order=2, normalize="topic").fit(shakespeare[:5000])
    model.save(tmp_path / "model")
    again = seqloom.load(tmp_path / "model")
    assert again.score("FIRST citizen!") == model.score("first citizen")
    assert "+topic" in str(again.signature())
    with pytest.raises(ConfigError, match="cannot change the finished tokenizer"):
        NGram(order=2, tokenizer=str(tmp_path / "model"), normalize="topic").fit("a b")
    with pytest.raises(ConfigError, match="did you mean 'topic'"):
        NGram(normalize="topc")


def test_it_is_a_flag(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("Don't PANIC!!!\n", encoding="utf-8")
    shown = CliRunner().invoke(
        main, ["tokenize", str(path), "--kind", "word", "--normalize", "topic", "-q"]
    )
    assert shown.output == "do not panic\n"
    done = CliRunner().invoke(
        main,
        [
            "fit",
            "ngram",
            str(path),
            "-o",
            str(tmp_path / "m"),
            "-q",
            "--normalize",
            "topic,stem=porter",
        ],
    )
    assert done.exit_code == 0, done.output
    assert seqloom.load(tmp_path / "m").tokenizer.label() == "whitespace-5+topic,stem=porter"
