"""`predict --stream`: an answer to each line of standard input before the next line is there."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("torch")

from seqloom import NaiveBayes, NeuralClassifier, NeuralTagger, TrainConfig, load
from seqloom.cli.main import main
from seqloom.errors import ConfigError
from tests.models.test_composition import SENTENCES, SERIES, TEXTS, small

from .ends import PATIENCE


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made, train = tmp_path_factory.mktemp("streams"), TrainConfig(steps=20, batch_size=3)
    NeuralTagger(**small("gru", crf=False, d_characters=4)).fit(SENTENCES, train=train).save(
        made / "tagger"
    )
    NeuralClassifier(**small("lstm")).fit(TEXTS, train=train).save(made / "texts")
    NeuralClassifier(encoder="gru", d_hidden=4).fit(
        [x for x, _ in SERIES], [y for _, y in SERIES], train=train
    ).save(made / "series")
    NeuralClassifier(**small("bilstm")).fit(TEXTS, train=train).save(made / "both-ways")
    NaiveBayes().fit(TEXTS).save(made / "naive-bayes")
    return made


def ask(place, *args, given=""):
    return CliRunner().invoke(main, ["predict", str(place), "--stream", *args], input=given)


def test_tags(place):
    found = ask(place / "tagger", given="Ada met\nBob\nRay\n\nso\nit is")
    tags = [
        load(place / "tagger").predict(words.split()) for words in ("Ada met Bob Ray", "so it is")
    ]
    words = [word.split("\t") for word in found.stdout.split("\n")]
    assert words == [[word, tag] for word, tag in zip(["Ada", "met", "Bob", "Ray"], tags[0])] + [
        [""]
    ] + [[word, tag] for word, tag in zip(["so", "it", "is"], tags[1])] + [[""]]
    assert [
        json.loads(line)
        for line in ask(place / "tagger", "--json", given="Ada\n\n").stdout.splitlines()
    ] == [{"word": "Ada", "tag": load(place / "tagger").predict(["Ada"])[0]}]


def test_classes(place):
    model = load(place / "texts")
    found = ask(place / "texts", "--proba", "--json", given="good\nfun\n\nso dull\n")
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    for answer, text, said in zip(
        answers, ["good", "good fun", "so dull"], ["good", "fun", "so dull"], strict=True
    ):
        assert answer["text"] == said
        assert answer["label"] == model.predict(text)
        assert answer["probabilities"] == pytest.approx(model.predict_proba(text), abs=1e-6)
    lines = ask(place / "texts", "--proba", given="\ngood\nfun\n").stdout.splitlines()
    assert lines[:2] == ["label\t+\t-\ttext", ""]
    assert [line.split("\t")[-1] for line in lines[2:]] == ["good", "fun"]


def test_rows_of_numbers(place):
    model, rows = load(place / "series"), [[0.5, 1.0], [2.0, np.nan], [-1.0, 3.0]]
    found = ask(place / "series", "--json", "--proba", given="0.5,1\n2,\n-1,3\n")
    for i, line in enumerate(found.stdout.splitlines(), 1):
        assert json.loads(line)["probabilities"] == pytest.approx(
            model.predict_proba(np.array(rows[:i])), abs=1e-6
        )
    assert "line 2: 'x' is not a number" in str(ask(place / "series", given="1,2\nx,3\n").exception)


def test_an_answer_comes_before_the_next_line(place):
    child = subprocess.Popen(
        [sys.executable, "-m", "seqloom", "predict", str(place / "tagger"), "--stream"],
        env=os.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        for word in ("Ada", "met"):
            child.stdin.write(f"{word}\n")
            assert child.stdout.readline().startswith(f"{word}\t")
    finally:
        child.communicate(timeout=PATIENCE)
    assert child.returncode == 0


@pytest.mark.parametrize(
    ("model", "args", "said"),
    [
        (
            "both-ways",
            [],
            "--stream: a bidirectional encoder (bilstm) reads the whole sequence before it answers; "
            "fit a model with --encoder gru, or leave --stream out",
        ),
        (
            "naive-bayes",
            [],
            "--stream answers within a text, but naive-bayes models read one as a whole; leave --stream out: "
            "each line of a pipe is answered as it comes",
        ),
        ("texts", ["some.txt"], "--stream reads standard input; leave TEXT out"),
        (
            "texts",
            ["--explain"],
            "--explain has no effect with --stream; it is for use without --stream,",
        ),
        ("tagger", ["--column", "text"], "--column has no effect with --stream;"),
    ],
)
def test_refused_in_one_line(place, model, args, said):
    found = ask(place / model, *args, given="good\n")
    assert found.exit_code != 0
    assert isinstance(found.exception, ConfigError)
    assert str(found.exception).startswith(said)
    assert "\n" not in str(found.exception)
    assert not found.stdout
