"""The command line names flags where the library, in Python, names arguments."""

import pytest

from seqloom import NGram, TrainConfig, read
from seqloom.cli.flags import in_flags
from seqloom.errors import ConfigError, DataError

FLAGS = {
    "min_count": "--min-count",
    "valid": "--valid",
    "order": "--order",
    "crf": "--crf",
    "form": "--form",
    "restart": "--restart",
}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("give valid=...", "give --valid"),
        ("say form='tsv', or crf=False", "say --form tsv, or --no-crf"),
        ("a lower min_count.", "a lower --min-count."),
        ("order must be at least 1", "--order must be at least 1"),
        (
            "min_count.txt and my_min_count and 'min_count'",
            "min_count.txt and my_min_count and 'min_count'",
        ),
        ("column=... stays", "column=... stays"),  # no flag of this command
        ("remove m.run to start over", "give --restart to start over"),
        ("LSTM(order=3)", "LSTM(order=3)"),
        (
            "no effect with crf on; it must",
            "no effect with --crf; it must",
        ),  # switches take no value
        ("no effect with crf off; it must", "no effect without --crf; it must"),
        ("it must be: it is for crf off, or", "it must be: it is for use without --crf, or"),
        (
            "fit a model with encoder='gru', or",
            "fit a model with --encoder gru, or",
        ),  # of another command
        ("convert again without bits", "convert again without --bits"),
    ],
)
def test_what_becomes_a_flag(message, shown):
    assert in_flags(message, FLAGS, ["order", "crf"] if "must" in message else ()) == shown


def test_both_sides_of_an_error(seqloom, tmp_path):
    text, table, model = "t.txt", "t.tsv", "m"  # in the directory that the command runs in
    (tmp_path / text).write_text("a b c\nb c a\n")
    (tmp_path / table).write_text("label\ttext\na b\tc d\n")
    cases = [
        (
            lambda: NGram(min_count=0),
            ["fit", "ngram", text, "-o", model, "--min-count", 0],
            ConfigError,
            "min_count must be at least 1; got 0",
            "--min-count must be at least 1; got 0",
        ),
        (
            lambda: TrainConfig(steps=1, epochs=1),
            ["fit", "lstm", text, "-o", model, "--steps", 1, "--epochs", 1],
            ConfigError,
            "steps and epochs both say how long to train; give one of them",
            "--steps and --epochs both say how long to train; give one of them",
        ),
        (
            lambda: read(table),
            ["fit", "ngram", table, "-o", model],
            DataError,
            f"{table} has 2 columns of text: label, text; say which with column=...",
            f"{table} has 2 columns of text: label, text; say which with --column",
        ),
    ]
    for in_python, arguments, kind, message, shown in cases:
        with pytest.raises(kind) as error:
            in_python()
        assert str(error.value) == message
        assert seqloom(*arguments).one_line() == shown
