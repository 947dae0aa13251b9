"""Text in, text out, for every kind of tokenizer: spaces, healing, odd prompts, stop strings, suggestions."""

import math

import pytest

from seqloom import NGram
from seqloom.decoding.completion import attach, unfinished
from seqloom.errors import ConfigError

KINDS = ["whitespace", "word", "char", "byte", "bpe", "unigram", "wordpiece"]


@pytest.fixture(scope="module")
def models(shakespeare):
    text = shakespeare[:150_000]

    def fit(kind, unit):
        size = {"vocab_size": 1000} if kind in ("bpe", "unigram", "wordpiece") else {}
        return NGram(
            order=3 if size or kind in ("whitespace", "word") else 6,
            tokenizer=kind,
            unit=unit,
            **size,
        ).fit(text)

    return {(kind, unit): fit(kind, unit) for kind in KINDS for unit in ("line", "stream")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["line", "stream"])
@pytest.mark.parametrize(
    "prompt",
    [
        "",
        " ",
        "   ",
        "We are",
        "We are ",
        "We ar",
        "zqxj blorp",
        "zqxj",
        "\n",
        "We\nare ",
        "猫 👍🏽",
        "\t",
        "We are\r\n",
    ],
)
def test_any_prompt_is_continued(models, kind, unit, prompt):
    model = models[kind, unit]
    found = model.generate(prompt, max_tokens=8, seed=2)
    assert isinstance(found, str)
    assert found == "".join(model.stream(prompt, max_tokens=8, seed=2))
    assert "\ufffd" not in found or kind in ("byte", "bpe", "unigram")
    assert "<unk>" not in found
    assert "</s>" not in found
    if unit == "line":
        assert "\n" not in found
        assert found == model.generate(
            prompt.rpartition("\n")[2], max_tokens=8, seed=2
        )  # earlier lines do not count


@pytest.mark.parametrize("kind", ["whitespace", "word"])
def test_words_are_set_apart_by_one_space(models, kind):
    model = models[kind, "line"]
    for seed in range(5):
        after_word = model.generate("We are", max_tokens=5, min_tokens=3, seed=seed)
        after_space = model.generate("We are ", max_tokens=5, min_tokens=3, seed=seed)
        assert after_word.startswith(" ")
        assert not after_word.startswith("  ")
        assert after_space == after_word.removeprefix(" ")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_a_prompt_cut_in_a_word_or_at_a_space_is_healed(models, kind):
    """The likeliest continuation is that of the whole text, wherever the prompt is cut."""
    model = models[kind, "line"]
    whole = "First Citizen" if kind == "wordpiece" else "First Citizen:"
    for cut in range(4, 12):
        prompt = whole[:cut]
        expected = whole if cut > 6 else "First "  # before that "First Senator" is as likely
        assert (prompt + model.generate(prompt, max_tokens=12, temperature=0)).startswith(
            expected
        ), prompt


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_a_space_at_the_end_is_not_doubled(models, kind):
    for seed in range(10):
        text = models[kind, "line"].generate("What is the ", max_tokens=6, seed=seed)
        assert not text.startswith(" ")


def test_wordpieces_are_joined_to_words(models):
    model = models["wordpiece", "line"]
    text = " ".join(
        model.generate("What is the ", max_tokens=30, min_tokens=30, seed=s) for s in range(5)
    )
    assert "##" not in text
    known = {model.tokenizer.token(i) for i in range(model.tokenizer.vocab_size)}
    assert {word for word in text.split() if word in known}  # whole words are there too


@pytest.mark.parametrize("kind", KINDS)
def test_stop_strings_end_the_text_and_are_left_out(models, kind):
    model = models[kind, "stream"]
    for options in ({"seed": 1}, {"beams": 3}):
        whole = model.generate("First", max_tokens=40, **options)
        stop = whole[len(whole) // 2 : len(whole) // 2 + 2]
        cut = model.generate("First", max_tokens=40, stop=[stop, "never there"], **options)
        assert cut == whole[: whole.index(stop)]


def test_a_character_that_was_not_finished_is_not_shown():
    model = NGram(order=6, tokenizer="byte", unit="stream").fit("猫猫猫猫猫猫猫猫\n" * 20)
    for n in range(1, 12):
        text = model.generate("猫", max_tokens=n, temperature=0)
        assert text == "猫" * (n // 3)
    assert model.generate("猫", max_tokens=5, beams=2) == "猫"


def test_beams_refuse_what_they_would_ignore(models):
    with pytest.raises(ConfigError, match="temperature, top_k"):
        models["byte", "line"].generate("a", beams=2, temperature=0.5, top_k=3)


# ---- suggestions


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["line", "stream"])
@pytest.mark.parametrize(
    "text", ["", " ", "What is the ", "What is th", "zqxj blorp", "a\nb", "KING", "猫"]
)
def test_suggestions_are_whole_likely_words(models, kind, unit, text):
    found = models[kind, unit].complete(text, 4)
    assert 0 < len(found) <= 4
    assert len({word for word, _ in found}) == len(found)
    assert all(word and not any(c.isspace() for c in word) for word, _ in found)
    assert all(0 < p <= 1 + 1e-6 for _, p in found)
    assert sum(p for _, p in found) <= 1 + 1e-6
    assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unfinished_word_is_finished(models, kind):
    words = [word for word, _ in models[kind, "line"].complete("What is th", 5)]
    assert words[0] == "the"
    assert all(word.startswith("th") for word in words)


@pytest.mark.parametrize("kind", ["char", "byte", "bpe", "unigram"])
def test_probability_of_a_word_is_that_of_its_spellings(models, kind):
    """p(word) = p(its bytes) times p(white space or the end follows), summed by hand from scores."""
    model = models[kind, "line"]
    word, p = model.complete("What is the ", 1)[0]
    if kind in ("char", "byte"):
        scored = model.token_scores("What is the " + word)
        inside = sum(scored[len("What is the ") : -1])
        after = [model.token_scores(f"What is the {word}{c}")[-2] for c in " \t\x0b\x0c"] + [
            scored[-1]
        ]
        assert p == pytest.approx(math.exp(inside) * sum(math.exp(a) for a in after), rel=1e-3)
    else:
        canonical = math.exp(
            model.score("What is the " + word) - sum(model.token_scores("What is the")[:-1])
        )
        assert p > canonical  # the end of the line is only one of the ways to end it


def test_suggestions_where_no_space_parts_words():
    model = NGram(order=3, tokenizer="char", unit="line").fit(
        ["我们去吃饭", "我们去看书", "你们去吃饭"] * 5
    )
    assert [s.text for s in model.complete("我们", 1)] == ["去"]
    assert {s.text for s in model.complete("我们去", 2)} == {"吃", "看"}
    by_bytes = NGram(order=8, tokenizer="byte", unit="line").fit(
        ["我们去吃饭", "我们去看书", "你们去吃饭"] * 5
    )
    assert {s.text for s in by_bytes.complete("我们去", 2)} == {"吃", "看"}


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("to be or no", "not", "to be or not"),
        ("to be", "or", "to be or"),
        ("to be ", "or", "to be or"),
        ("", "To", "To"),
        ("no", "no", "no"),
        ("我们", "去", "我们去"),
        ("We", "eat", "We eat"),
    ],
)
def test_attach(text, word, expected):
    assert attach(text, word) == expected


def test_unfinished():
    assert [unfinished(t) for t in ("", "a", "a ", "a b", "我们", "我们 ab", "a\n")] == [
        "",
        "a",
        "",
        "b",
        "",
        "ab",
        "",
    ]


class Ending:
    """After every token the end is by far the likeliest."""

    vocab_size, eos_id = 257, 256

    def start(self, n):
        import numpy as np

        probs = np.full((n, 257), 1e-6 / 256, np.float32)
        probs[:, 256] = 1 - 1e-6
        return (np.zeros(n, np.int64),), np.log(probs)

    def step(self, state, ids):
        return self.start(len(ids))


def test_a_stream_does_not_end_unless_asked():
    from seqloom import Tokenizer
    from seqloom.decoding.generation import Generator
    from seqloom.decoding.sampling import SamplingConfig

    tokenizer = Tokenizer(kind="byte")
    stream = Generator(Ending(), tokenizer, by_line=False, endless=True)
    config = SamplingConfig(max_tokens=30, top_k=20)
    assert len(stream.generate([""], config)[0]) > 5
    assert len("".join(stream.stream("", config))) > 5
    assert len(stream.generate([""], SamplingConfig(max_tokens=30), beams=2)[0]) > 5
    assert stream.generate([""], SamplingConfig(max_tokens=30, allow_eos=True)) == [""]
    assert stream.generate([""], SamplingConfig(max_tokens=30, allow_eos=True), beams=2) == [""]
    assert Generator(Ending(), tokenizer, by_line=False).generate(
        [""], SamplingConfig(max_tokens=30)
    ) == [""]


def test_whether_a_text_may_end_follows_from_the_unit(models):
    assert models["byte", "stream"].generator().endless
    assert not models["byte", "line"].generator().endless
