"""`seqloom scaling`: output, picture, JSON, saved networks, and what is refused in one line."""

import json

import pytest
from click.testing import CliRunner

from seqloom import LSTM, Tokenizer, bundled
from seqloom.cli.main import main
from seqloom.errors import SeqloomError


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("cli-scaling")
    (place / "corpus.txt").write_text(bundled().text()[:60_000], encoding="utf-8")
    return place


def call(place, *args):
    work = ["--work", str(place / "work")]
    return CliRunner().invoke(main, ["scaling", *args, *work], catch_exceptions=True)


def test_table_picture_and_json(place):
    corpus, picture = str(place / "corpus.txt"), place / "scaling.svg"
    done = call(
        place, corpus, "--model", "ngram", "--set", "order=4", "--check", "-o", str(picture)
    )
    assert done.exit_code == 0, done.output
    assert "4x the text would bring" in done.stdout
    assert "held-out larger run" in done.stdout
    assert "held-out run" in picture.read_text(encoding="utf-8")
    again = call(place, corpus, "--model", "ngram", "--set", "order=4", "--check", "--json")
    values = json.loads(again.stdout)
    assert len(values["runs"]) == 9
    assert values["held_out"]["size"] > 3.9 * max(run["size"] for run in values["runs"])
    assert all(line in done.stdout for line in values["answers"])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--model", "ngram", "--widths", "8,16,32"], "has no width"),
        (["--model", "lstm", "--set", "epochs=2"], "the plan sets epochs"),
        (["--model", "hmm-tagger"], "for language models"),
        (["--model", "lstn"], "lstm"),
        (["--shares", "much"], "no list of numbers"),
        (["-o", "picture.gif"], "png"),
    ],
)
def test_refusals(place, args, said):
    done = call(place, str(place / "corpus.txt"), *args)
    assert done.exit_code != 0
    assert said in (str(done.exception) + done.output)
    assert isinstance(done.exception, (SeqloomError, SystemExit))


def test_saved_networks_are_read_and_too_few_refused(place):
    text = bundled().text()[:6000]
    tokenizer = Tokenizer(kind="byte").fit(text)
    names = []
    for width in (4, 8):
        model = LSTM(d_hidden=width, tokenizer="byte")
        model.fit(text, valid=text[-1500:], tokenizer=tokenizer, steps=2)
        model.save(place / f"lstm-{width}")
        names.append(str(place / f"lstm-{width}"))
    done = call(place, *names)
    assert "was not measured on held-out text in bits per byte; give --valid" in str(done.exception)
    (place / "valid.txt").write_text(text[:500], encoding="utf-8")
    done = call(place, *names, "--valid", str(place / "valid.txt"))
    assert "2 runs of different size or length are too few" in str(done.exception)
    done = call(place, *names, "--check")
    assert "leave them out for saved models" in str(done.exception)
