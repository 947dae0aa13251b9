"""`seqloom fit` of word vectors: results, bad input and sudden ends."""

import json
import signal

import pytest

from seqloom import load

from ..contract.test_embedders import lines
from .ends import SLOW, end, ended_with_checkpoint
from .test_faults import left

NAMES = ["word2vec", "fasttext", "charngram", "glove"]
SMALL = ("--min-count", 2, "--dimensions", 8, "--epochs", 4, "--window", 3, "-q")


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(lines(300)) + "\n")
    (tmp_path / "pairs.tsv").write_text("cat\tdog\t9\ncat\ttruck\t1\nbus\ttram\t8\ncow\tplane\t2\n")
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_fit_then_ask(seqloom, text, name):
    done = seqloom("fit", name, "text.txt", "-o", "m", *SMALL, "--valid", "pairs.tsv", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert told["words"] == len(load(text / "m").vectors.words)
    assert len(told["losses"]) == 4
    assert -1 <= told["valid"]["metrics"]["spearman"] <= 1
    assert seqloom("nearest", "m", "cat", "-n", 3).out.count("\n") >= 3
    assert seqloom("evaluate", "m", "--on", "pairs.tsv").code == 0
    assert f"model:{name}" in seqloom("evaluate", "m", "--on", "pairs.tsv").out.replace(
        "glove8", "glove"
    )
    assert load(text / "m").name == name
    assert left(text) == ["m", "pairs.tsv", "text.txt"]


@pytest.mark.parametrize("name", NAMES)
def test_memory_reaches_the_model(seqloom, text, monkeypatch, name):
    from seqloom import registry

    asked = []
    learn = registry.model_class(name).fit_corpus
    monkeypatch.setattr(
        registry.model_class(name),
        "fit_corpus",
        lambda self, corpus, how: (asked.append(how.memory), learn(self, corpus, how))[1],
    )
    assert seqloom("fit", name, "text.txt", "-o", "m", *SMALL, "--memory", "3M").code == 0
    assert asked == [3 * 2**20]


def test_going_on_with_new_text(seqloom, text):
    (text / "more.txt").write_text("a zebra eats green grass\n" * 9)
    assert seqloom("fit", "word2vec", "text.txt", "-o", "m", *SMALL).code == 0
    assert seqloom("fit", "word2vec", "more.txt", "-o", "n", "--start", "m", *SMALL).code == 0
    assert "zebra" in load(text / "n").words
    assert "cat" in load(text / "n").words
    assert (
        "dimensions is 9"
        in seqloom(
            "fit",
            "word2vec",
            "more.txt",
            "-o",
            "o",
            "--start",
            "m",
            *SMALL[:2],
            "--dimensions",
            9,
            "-q",
        ).one_line()
    )
    assert (
        "no saved model"
        in (
            line := seqloom(
                "fit", "word2vec", "more.txt", "-o", "o", "--start", "nowhere", *SMALL
            ).one_line()
        )
        or "nowhere" in line
    )


def test_standard_input_and_odd_text(seqloom, text):
    odd = "猫 が 好き 😀\r\n" * 6 + "猫 が 走る\r\n" * 6
    assert seqloom("fit", "word2vec", "-", "-o", "m", *SMALL, stdin=odd).code == 0
    assert set(load(text / "m").words) == {"猫", "が", "好き", "😀", "走る"}
    assert seqloom("embed", "m", "猫").code == 0
    alone = seqloom(
        "fit", "word2vec", "-", "-o", "one", "--min-count", 1, *SMALL[2:], stdin="alone"
    )
    assert "no two words of stdin are next to each other" in alone.one_line()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("text.txt", "--min-count", 9999), "a lower --min-count"),
        (("text.txt", "--tokenizer", "bpe"), "word vectors need words"),
        (("text.txt", "--loss", "hs", "--vectors", "sum"), "tree"),
        (("missing.txt",), "missing.txt"),
        (("text.txt", "--valid", "missing.tsv"), "missing.tsv"),
        (("text.txt", "--dimensions", 0), "dimensions"),
        (("text.txt", "--colour", "red"), "colour"),
        (("text.txt", "--lr", "1e30"), "lr"),
        (("text.txt", "--learning-rate", "0.1"), "It is --lr here."),
    ],
    ids=lambda x: " ".join(map(str, x[1:])) if isinstance(x, tuple) else "",
)
def test_bad_input(seqloom, text, args, says):
    failed = seqloom("fit", "word2vec", *args, "-o", "m", "-q")
    assert failed.code != 0
    assert says in failed.one_line()
    assert "m" not in left(text)


def test_vectors_given_as_a_corpus(seqloom, text):
    assert seqloom("fit", "word2vec", "text.txt", "-o", "m", *SMALL, "--dimensions", 12).code == 0
    assert seqloom("convert", "m", "v.bin", "--form", "word2vec-binary").code == 0
    failed = seqloom("fit", "word2vec", "v.bin", "-o", "n", "-q")
    assert "not text; convert it with `seqloom convert`" in failed.one_line()
    assert seqloom("convert", "m", "v.txt", "--form", "glove").code == 0
    failed = seqloom("fit", "glove", "v.txt", "-o", "n", "-q")
    assert failed.code != 0
    assert "v.txt holds vectors already" in failed.one_line()
    assert "n" not in left(text)


@pytest.mark.parametrize(
    ("name", "unit"), [("word2vec", "nats per prediction"), ("glove", "weighted squares per pair")]
)
def test_the_curve_of_training_says_what_its_loss_is(seqloom, text, name, unit):
    assert seqloom("fit", name, "text.txt", "-o", "m", *SMALL).code == 0
    assert unit in seqloom("plot", "m", "--by", "steps", "-o", "curve.svg").out
    assert unit in (text / "curve.svg").read_text()


# ---- sudden ends


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
@pytest.mark.parametrize("name", ["word2vec", "fasttext", "glove"])
def test_it_goes_on_to_the_bit_after_any_end(seqloom, text, name, how):
    args = [
        "fit",
        name,
        "text.txt",
        *SMALL,
        *(["--deterministic"] if name != "glove" else []),
        "-o",
    ]
    ended_with_checkpoint(
        end(SLOW.format(module="word_vectors.learning"), [*args, "m"], how, text, lines=5), how
    )
    assert left(text) == ["m.run", "pairs.tsv", "text.txt"]
    other = seqloom(*[9 if arg == 8 else arg for arg in args], "m")
    assert "m.run holds an unfinished run with other settings" in other.one_line()
    assert seqloom(*args, "m").code == 0
    assert seqloom(*args, "whole").code == 0
    for file in ("model.safetensors", "config.json", "training.jsonl"):
        assert (text / "m" / file).read_bytes() == (text / "whole" / file).read_bytes()
    assert left(text) == ["m", "pairs.tsv", "text.txt", "whole"]
