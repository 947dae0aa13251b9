"""`seqloom fit fasttext-classifier` from labelled lines to labels."""

import os
import random
import signal

import pytest

from .ends import end

WORDS = {"good": ["fine", "lovely", "warm", "great"], "bad": ["dull", "cold", "slow", "poor"]}


def lines(n, seed):
    draw = random.Random(seed)
    return "".join(
        f"{label}\t{draw.choice(words)} {draw.choice(['film', 'day', 'book'])} {draw.choice(words)}\n"
        for label, words in (draw.choice(list(WORDS.items())) for _ in range(n))
    )


@pytest.fixture
def place(tmp_path):
    (tmp_path / "train.tsv").write_text("label\ttext\n" + lines(80, 0))
    (tmp_path / "dev.tsv").write_text("label\ttext\n" + lines(30, 1))
    return tmp_path


def test_from_fit_to_evaluate(seqloom, place):
    said = seqloom(
        "fit",
        "fasttext-classifier",
        "train.tsv",
        "-o",
        "m",
        "--valid",
        "dev.tsv",
        "--dimensions",
        10,
        "--ngrams",
        2,
        "--json",
    ).json()[0]
    assert said["valid"]["metrics"]["accuracy"] == 1
    assert said["losses"][-1] < said["losses"][0]
    assert sorted(os.listdir(place)) == ["dev.tsv", "m", "train.tsv"]  # the checkpoints are gone
    assert seqloom("evaluate", "m", "dev.tsv", "--json").json()[0] == said["valid"]
    assert (
        seqloom("predict", "m", stdin="a lovely warm day\nso dull\n").out
        == "good\ta lovely warm day\nbad\tso dull\n"
    )
    assert "fasttext-classifier-2grams-d10" in seqloom("evaluate", "m", "dev.tsv").out
    assert seqloom("info", "m").code == 0
    assert " rather than " in seqloom("predict", "m", "--explain", stdin="a\n").out


def test_tuned_and_quantised(seqloom, place):
    ran = seqloom(
        "fit",
        "fasttext-classifier",
        "train.tsv",
        "-o",
        "m",
        "--valid",
        "dev.tsv",
        "--tune",
        "--minutes",
        0.01,
        "--quantise",
        "--json",
    )
    said = ran.json()[0]
    assert said["tuning"]["accuracy"] == said["valid"]["metrics"]["accuracy"] == 1
    assert "trial 1, " in ran.err
    config = seqloom("info", "m", "--json").json()[0]["config"]
    assert config["quantise"]
    assert config["epochs"] == said["tuning"]["settings"]["epochs"]
    assert "trials" in seqloom("info", "m").out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tune"], "--tune needs held-out texts to judge settings by; give --valid"),
        (["--cutoff", "5"], "--cutoff has no effect without --quantise; it is for --quantise, or"),
        (["--max-ngram", "2"], "--min-ngram 3 is more than --max-ngram 2"),
        (["--loss", "soft"], "did you mean 'softmax'?"),
        (["--pretrained", "nothing"], "nothing"),
    ],
)
def test_wrong_options(seqloom, place, options, says):
    failed = seqloom("fit", "fasttext-classifier", "train.tsv", "-o", "m", "-q", *options)
    assert says in failed.one_line()
    assert failed.code in (1, 2)
    assert sorted(os.listdir(place)) == ["dev.tsv", "train.tsv"]


SLOW = """
import sys
import seqloom.models.word_vectors.learning as learning
import seqloom.models.classification.bags as bag_training

learning.CHECKPOINT_SECONDS, learning.SHARE_OF_TIME = 0.0, 1e9
order = bag_training.Learning._order

def slowly(self, epoch):
    print("now", flush=True)
    sys.stdin.readline()
    return order(self, epoch)

bag_training.Learning._order = slowly
from seqloom.cli.main import run
run()
"""


def test_killed_it_goes_on_to_the_bit(seqloom, place):
    args = [
        "fit",
        "fasttext-classifier",
        "train.tsv",
        "--epochs",
        30,
        "--dimensions",
        10,
        "-q",
        "-o",
    ]
    end(SLOW, [*args, "m"], signal.SIGKILL, place, lines=12)
    assert (place / "m.run" / "last.safetensors").exists()
    assert seqloom(*args, "m").code == 0
    assert seqloom(*args, "whole").code == 0
    for name in ("model.safetensors", "config.json"):
        assert (place / "m" / name).read_bytes() == (place / "whole" / name).read_bytes()
    assert not (place / "m.run").exists()


def test_a_trial_without_words_does_not_end_the_tuning(seqloom, place, monkeypatch):
    """Of six texts no word comes five times."""
    from seqloom.models.classification import tuning

    (place / "few.tsv").write_text(
        "label\ttext\n" + "".join(f"{k}\t{w}\n" for k, words in WORDS.items() for w in words[:3])
    )
    proposed = iter([{"min_count": 5}, {"min_count": 1}])
    monkeypatch.setattr(
        tuning.Tuning,
        "_proposals",
        lambda self: ({**self.first, **other} for other in [{}, *proposed]),
    )
    done = seqloom(
        "fit", "fasttext-classifier", "few.tsv", "-o", "m", "--valid", "few.tsv", "--tune", "--json"
    )
    assert done.code == 0, done.err
    assert done.json()[0]["tuning"]["trials"] == 2
