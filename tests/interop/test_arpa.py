"""ARPA files: written and read back, by hand, pruned by others, and broken in every way."""

import gzip
import math
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seqloom import NGram, progress, read_arpa, write_arpa
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.models.language.uniform import Uniform

LN10 = math.log(10)
ODD = [
    "a",
    "b",
    "the",
    "<s>",
    "</s>",
    "<unk>",
    "\\",
    "\\<s>",
    "\\\\",
    "\\u{20}",
    "\\u{5c}<s>",
    "\\data\\",
    "\\end\\",
    "中文",
    "猫",
    "👍🏽",
    "👨‍👩‍👧",
    "x\u00a0y",
    "\u2028",
    "\u3000",
    "\x1c",
    "-1.5",
    "\ufeff",
    "é",
    "\\u{110000}",
]
WORDS = st.sampled_from(ODD) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3
)


def round_trip(model, path):
    write_arpa(model, path)
    return read_arpa(path)


@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
@pytest.mark.parametrize(
    "options",
    [
        {"order": 3},
        {"order": 1},
        {"order": 4, "prune": (0, 1)},
        {"order": 2, "smoothing": "witten-bell"},
        {"order": 2, "smoothing": "absolute"},
    ],
)
def test_round_trip(tmp_path, shakespeare, name, options):
    train, test = shakespeare[:20_000], shakespeare[20_000:24_000]
    model = NGram(**options).fit(train)
    again = round_trip(model, tmp_path / name)
    assert again.config.order == options["order"]
    ours, theirs = model.full_scores(test), again.full_scores(test)
    assert [s[0] for s in ours] == [s[0] for s in theirs]
    assert [s[2:] for s in ours] == [s[2:] for s in theirs]
    assert [s.log_prob for s in ours] == pytest.approx([s.log_prob for s in theirs], abs=1e-5)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    assert again.fit_info["ngrams"] == model.fit_info["ngrams"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(WORDS, max_size=5), min_size=1, max_size=5), st.integers(1, 3))
@example([["\\u{20}", "\\", "\\<unk>", "<unk>"]], 2)
@example([[word] for word in ODD], 2)
def test_round_trip_of_odd_words(tmp_path_factory, rows, order):
    lines = [" ".join(row).replace("\n", " ").replace("\r", " ") for row in rows]
    model = NGram(order=order, tokenizer="whitespace")
    try:
        model.fit(lines)
    except DataError:  # nothing but white space, or shorter than the order
        return
    again = round_trip(model, tmp_path_factory.mktemp("odd") / "m.arpa")
    for line in [*lines, "never seen", "a b"]:
        assert again.token_scores(line) == pytest.approx(model.token_scores(line), abs=1e-5)
    kept = [model.tokenizer.token(i) for i in range(model.tokenizer.vocab_size)]
    assert sorted(again.tokenizer.token(i) for i in range(again.tokenizer.vocab_size)) == sorted(
        kept
    )


@pytest.mark.parametrize("kind", ["byte", "char", "bpe", "wordpiece", "unigram"])
def test_every_token_of_every_kind_keeps_its_name_apart(tmp_path, shakespeare, kind):
    """The model that is read splits at white space, but its numbers are those of the tokens."""
    size = {"vocab_size": 400} if kind in ("bpe", "wordpiece", "unigram") else {}
    model = NGram(order=2, tokenizer=kind, unit="stream", **size).fit(
        shakespeare[:5000] + "\\x20 <unk> ##a a\0b 猫\n"
    )
    again = round_trip(model, tmp_path / "m.arpa")
    assert again.tokenizer.vocab_size - model.tokenizer.vocab_size in (
        0,
        1,
    )  # <unk> where there was none
    ours = np.sort(model.trie.log_probs[1 : model.tokenizer.vocab_size + 1])
    theirs = np.sort(again.trie.log_probs[1 : again.tokenizer.vocab_size + 1])[-len(ours) :]
    assert np.allclose(ours, theirs, atol=1e-5)
    assert len(again.trie.words) - len(model.trie.words) in (0, 1)


# ---- by hand

HAND = """\
made by hand
\\data\\
ngram 1=5
ngram 2=4
ngram 3=1

\\1-grams:
-99\t<s>\t-0.25
-1.0\t</s>
-0.5\ta\t-0.125
-0.75\tb\t-0.5
-2.0\t<unk>

\\2-grams:
-0.3\t<s> a\t-0.0625
-0.6\ta b\t-0.03125
-0.9 b a
-0.2\tb </s>

\\3-grams:
-0.1\t<s> a b

\\end\\
"""

# (sentence, log10 probability of each token and </s>, matched orders), worked out on paper
BY_HAND = [
    ("a b", [-0.3, -0.1, -0.03125 - 0.2], [2, 3, 2]),  # p(</s>|a b) = bo(a b) + p(</s>|b)
    (
        "a a",
        [-0.3, -0.0625 - 0.125 - 0.5, -0.125 - 1.0],
        [2, 1, 1],
    ),  # p(a|<s> a) = bo(<s> a) + bo(a) + p(a)
    (
        "b a b",
        [-0.25 - 0.75, -0.9, -0.6, -0.03125 - 0.2],
        [1, 2, 2, 2],
    ),  # p(b|<s>) = bo(<s>) + p(b)
    ("zebra b", [-0.25 - 2.0, -0.75, -0.2], [1, 1, 2]),  # <unk> has no back-off weight
    ("", [-0.25 - 1.0], [1]),
]


def written(tmp_path, text, name="hand.arpa"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_worked_out_by_hand(tmp_path):
    model = read_arpa(written(tmp_path, HAND))
    for sentence, expected, orders in BY_HAND:
        found = model.full_scores(sentence)
        assert [s.log_prob / LN10 for s in found] == pytest.approx(expected, abs=1e-5), sentence
        assert [s.order for s in found] == orders
    assert model.full_scores("zebra")[0].oov


def test_zero_probability_and_missing_unk(tmp_path):
    text = (
        HAND.replace("-2.0\t<unk>\n", "")
        .replace("ngram 1=5", "ngram 1=4")
        .replace("-0.75\tb", "-99\tb")
    )
    said = []

    class Ear:
        def begin(self, *args):
            return type("Bar", (), {"advance": lambda self, n=1: None})()

        def end(self, task):
            pass

        def say(self, message):
            said.append(message)

    with progress.reporting(Ear()):
        model = read_arpa(written(tmp_path, text))
    assert ["no <unk>" in m for m in said] == [True]
    assert model.token_scores("b")[0] == -math.inf
    assert model.token_scores("zebra")[0] / LN10 == pytest.approx(-0.25 - 100)


# ---- files of pruned models


def brute_force(grams, order, context, word):
    """log10 p(word | context) as the format defines it; `grams`: {words: (log10 p, back-off)}."""
    context = tuple(context)[max(len(context) - order + 1, 0) :]
    if (*context, word) in grams:
        return grams[(*context, word)][0], len(context) + 1
    if not context:
        raise KeyError(word)
    log_prob, matched = brute_force(grams, order, context[1:], word)
    return grams.get(context, (0, 0.0))[1] + log_prob, matched


def arpa_text(grams, order):
    levels = [[g for g in grams if len(g) == k] for k in range(1, order + 1)]
    lines = ["\\data\\", *(f"ngram {k}={len(level)}" for k, level in enumerate(levels, 1))]
    for k, level in enumerate(levels, 1):
        lines += ["", f"\\{k}-grams:"]
        lines += [
            f"{grams[g][0]}\t{' '.join(g)}" + (f"\t{grams[g][1]}" if k < order else "")
            for g in level
        ]
    return "\n".join([*lines, "", "\\end\\", ""])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 4), st.floats(0.05, 0.6))
def test_pruned_files_that_lack_prefixes_and_suffixes(tmp_path_factory, seed, order, share):
    """Any set of n-grams at all gives what the recursion gives."""
    rng = random.Random(seed)
    words = ["a", "b", "c", "</s>", "<unk>"]

    def numbers():
        return round(-rng.random() * 3, 3), round(-rng.random(), 3) if rng.random() < 0.7 else 0.0

    grams = {(w,): numbers() for w in ["<s>", *words]}
    contexts = [("<s>",), *((w,) for w in words if w != "</s>")]
    for _ in range(2, order + 1):
        for gram in [(*c, w) for c in contexts for w in words]:
            if rng.random() < share:
                grams[gram] = numbers()
        contexts = [(*c, w) for c in contexts for w in words if w != "</s>"]
    path = written(tmp_path_factory.mktemp("pruned"), arpa_text(grams, order), "p.arpa")
    model = read_arpa(path)
    again = round_trip(model, path.with_name("again.arpa"))
    for _ in range(12):
        sentence = [rng.choice(["a", "b", "c", "new"]) for _ in range(rng.randrange(7))]
        known = [w if (w,) in grams else "<unk>" for w in sentence]
        expected = [
            brute_force(grams, order, ["<s>", *known[:i]], w)
            for i, w in enumerate([*known, "</s>"])
        ]
        for read in (model, again):
            scores = read.token_scores(" ".join(sentence))
            assert [s / LN10 for s in scores] == pytest.approx(
                [p for p, _ in expected], abs=1e-4
            ), sentence
    state, row = model.stepper().start(1)
    for word in ("b", "a"):
        for w in ("a", "b", "c"):
            context = {"b": ["<s>"], "a": ["<s>", "b"]}[word]
            expected, _ = brute_force(grams, order, context, w)
            assert row[0, model.tokenizer.id(w)] / LN10 == pytest.approx(expected, abs=1e-4)
        state, row = model.stepper().step(state, np.array([model.tokenizer.id(word)]))


# ---- broken files


def fails(path):
    with pytest.raises(DataError) as error:
        read_arpa(path)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(path))
    return str(error.value)


def line_of(text, part):
    return next(i for i, line in enumerate(text.split("\n"), 1) if part in line)


@pytest.mark.parametrize(
    ("old", "new", "says", "at"),
    [
        (
            "ngram 1=5",
            "ngram 1=6",
            "header promises 6 1-grams and this is number 6",
            "-2.0\t<unk>+1",
        ),
        ("ngram 1=5", "ngram 1=4", "number of 1-grams in the header may be wrong", "-2.0\t<unk>"),
        (
            "ngram 2=4",
            "ngram 2=99999999999999",
            "99,999,999,999,999 2-grams and this is number 5",
            "-0.2\tb </s>+1",
        ),
        ("ngram 3=1", "ngram 3=0", "\\end\\", "-0.1\t<s> a b"),
        ("ngram 2=4\n", "", "ngram 2=COUNT", "ngram 3"),
        ("ngram 3=1\n", "", "no back-off weight at the highest order", "<s> a\t"),
        ("\\end\\\n", "", "\\end\\", ""),
        ("\\1-grams:", "\\2-grams:", "\\1-grams:", "\\2-grams"),
        ("\\2-grams:", "\\3-grams:", "\\2-grams:", "\\3-grams"),
        ("-0.6\ta b", "-0.6\ta q", "'q' is not among the unigrams", "a q"),
        ("-0.6\ta b", "-0.6\t<s> a", "stands there twice", "-0.6\t<s> a"),
        ("-0.75\tb", "-0.75\ta", "'a' appears twice among the unigrams", "-0.75\ta"),
        ("-0.6\ta b", "O.6\ta b", "not a number: 'O.6", "O.6"),
        ("a b\t-0.03125", "a b\tx", "not a number: '-0.6 x'", "a b\tx"),
        (
            "a b\t-0.03125",
            "a b\t-0.03125 7",
            "expected a probability, 2 words and a back-off weight",
            "-0.03125 7",
        ),
        (
            "-0.1\t<s> a b",
            "-0.1\t<s> a b\t-0.5",
            "expected a probability, 3 words",
            "-0.1\t<s> a b\t-0.5",
        ),
        ("-0.6\ta b", "0.6\ta b", "above 0", "0.6\ta b"),
        ("-0.6\ta b", "nan\ta b", "nan", "nan\ta b"),
        ("b\t-0.5", "b\tinf", "inf", "b\tinf"),
        ("\t</s>", "\tend", "unigrams lack </s>", None),
        ("\\data\\", "\\dat\\", "not an ARPA file", None),
        ("made by hand", "made by hand\n" * 2000, "not an ARPA file", None),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path, old, new, says, at):
    assert old in HAND
    text = HAND.replace(old, new, 1)
    if says.startswith("unigrams lack"):
        text = text.replace("b </s>", "b b")
    message = fails(written(tmp_path, text))
    assert says in message
    if at == "":
        assert f"line {text.count(chr(10)) + 1}:" in message
    elif at is not None:
        place, _, more = at.partition("+")
        assert f"line {line_of(text, place) + int(more or 0)}:" in message


def test_a_file_cut_anywhere_is_refused(tmp_path):
    body = HAND.rstrip()
    for length in range(0, len(body), 7):
        fails(written(tmp_path, body[:length]))


def test_damaged_gzip(tmp_path):
    whole = gzip.compress(HAND.encode())
    for data in (
        whole[:-40],
        whole[:40] + b"\xff\xff\xff" + whole[43:],
        whole[:10],
        whole[:-8] + bytes(8),
    ):
        path = tmp_path / "m.arpa.gz"
        path.write_bytes(data)
        assert "damaged" in fails(path)


def test_other_files(tmp_path):
    binary = tmp_path / "m.binary"
    binary.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0" + bytes(200))
    assert "KenLM binary" in fails(binary)
    assert "ARPA file that it was built from" in fails(binary)
    latin = tmp_path / "latin.arpa"
    latin.write_bytes(HAND.replace("\tb", "\tcaf\xe9").encode("latin-1"))
    assert "not UTF-8" in fails(latin)
    assert "no such file" in fails(tmp_path / "none.arpa")
    assert "no such file" in fails(tmp_path)


# ---- what cannot be written, and where


@pytest.mark.parametrize("smoothing", ["add-k", "maximum-likelihood"])
def test_some_smoothings_have_no_back_off(tmp_path, toy_text, smoothing):
    with pytest.raises(ConfigError, match=f"{smoothing} cannot be written"):
        write_arpa(NGram(order=2, smoothing=smoothing).fit(toy_text), tmp_path / "m.arpa")
    assert list(tmp_path.iterdir()) == []


def test_only_ngram_models(tmp_path, toy_text):
    with pytest.raises(ConfigError, match="this model is uniform"):
        write_arpa(Uniform().fit(toy_text), tmp_path / "m.arpa")


def test_unwritable_place_and_failure_in_the_middle(tmp_path, toy_text, monkeypatch):
    model = NGram(order=2).fit(toy_text)
    file = written(tmp_path, "text", "file")
    for bad in (file / "m.arpa", tmp_path / "no" / "such" / "m.arpa"):
        with pytest.raises(ModelError, match="cannot be written"):
            write_arpa(model, bad)
    target = written(tmp_path, "before", "m.arpa")

    def full(*args):
        raise OSError(28, "No space left on device")
        yield

    monkeypatch.setattr("seqloom.interop.arpa._lines", full)
    with pytest.raises(ModelError, match="No space left"):
        write_arpa(model, target)
    assert target.read_text() == "before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "m.arpa"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("probability", "weight"),
    [
        ("-1e39", "0"),
        ("-0.5", "-1e39"),
        ("-1e308", "-1e308"),
        ("-0.5", "1e39"),
        ("-0.5", "inf"),
        ("nan", "0"),
        ("-0.5", "1e308"),
    ],
)
def test_numbers_beyond_float32_are_never_or_refused(tmp_path, probability, weight):
    path = tmp_path / "m.arpa"
    path.write_text(
        "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-1\t<s>\t-0.3\n-1\t</s>\n-1\t<unk>\n"
        f"{probability}\ta\t{weight}\n\n"
        "\\2-grams:\n-0.2\t<s> a\n\n\\end\\\n"
    )
    if weight[0] in "1i" or probability == "nan":
        with pytest.raises(DataError, match=r"line 9: .*back-off weight"):
            read_arpa(path)
    else:
        scores = [score.log_prob for score in read_arpa(path).full_scores("a a b")]
        assert not np.isnan(scores).any()
