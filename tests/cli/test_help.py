"""What `--help` shows at 80 columns: options by section, and of options that tasks share the help of each."""

import re

import pytest
from click.testing import CliRunner

from seqloom.cli.evaluate import command as evaluate
from seqloom.cli.fit import _command_for, fitted
from seqloom.cli.main import main


def shown(*args):
    done = CliRunner().invoke(main, [*args, "--help"], env={"COLUMNS": "80"}, terminal_width=80)
    assert done.exit_code == 0
    return done.output


def sections(text):
    """Flags by heading."""
    parts = re.split(r"^(\w[\w ]* options):\n", text.partition("Examples:")[0], flags=re.MULTILINE)[
        1:
    ]
    return {
        title: re.findall(r"^  (?:-\w, )?--([\w-]+)", body, re.MULTILINE)
        for title, body in zip(parts[::2], parts[1::2])
    }


@pytest.mark.parametrize("name", list(fitted()))
def test_every_option_stands_in_one_section(name):
    text = shown("fit", name)
    assert max(map(len, text.partition("Examples:")[0].splitlines())) <= 80
    flags = [flag for group in sections(text).values() for flag in group]
    offered = [
        option.opts[-1].removeprefix("--")
        for option in _command_for(name).params
        if option.param_type_name == "option"
    ]
    assert sorted(flags) == sorted([*offered, "help"])
    assert next(iter(sections(text))) == "Usual options"
    assert sections(text)["Usual options"][:2] == ["output", "valid"]
    assert len(sections(text)["Usual options"]) <= 10
    assert sections(text)["Output options"] == ["json", "quiet", "debug", "help"]


def test_the_sections_of_a_network():
    groups = sections(shown("fit", "lstm"))
    assert list(groups) == [
        "Usual options",
        "Network options",
        "Training options",
        "Data and tokenizer options",
        "Output options",
    ]
    assert groups["Usual options"] == [
        "output",
        "valid",
        "tokenizer",
        "d-hidden",
        "n-layers",
        "dropout",
        "epochs",
        "minutes",
        "lr",
    ]
    assert {"tied", "forget-bias", "softmax"} <= set(groups["Network options"])
    assert {"optimizer", "clip", "seed", "device", "restart"} <= set(groups["Training options"])
    assert {"encoding", "column", "strict", "vocab-size", "normalize", "unit", "marks"} == {
        *groups["Data and tokenizer options"]
    } - {"min-count", "vocab-file"}


def test_models_that_count_have_model_options():
    groups = sections(shown("fit", "ngram"))
    assert groups["Usual options"] == ["output", "valid", "tokenizer", "order", "smoothing"]
    assert groups["Model options"] == ["k", "prune", "prune-entropy"]
    assert groups["Training options"] == ["memory", "cluster", "work", "parts"]


def test_options_that_tasks_share_have_the_help_of_each():
    text = " ".join(shown("evaluate").split())
    assert (
        "For a classifier: format of the data: tsv, csv, jsonl, parquet, lines, fasttext, folders, "
        "numbers (a label and a "
        "series of numbers a line); auto: by name and content. [default: auto] For a tagger: "
        "format of the data: conll, "
        "conllu, slash, lines (words, a tab and their tags; or two files, words and tags); auto: by "
        "name and content."
    ) in text
    assert "For a language model: draw bits along the text" in text
    assert "For a classifier or a tagger: draw the errors" in text
    assert text.count("Encoding of the text files.") == 1  # all tasks say the same
    assert len([option for option in evaluate.params if option.name == "form"]) == 1


def test_a_switch_that_is_only_turned_on_shows_no_default():
    text = shown("evaluate")
    assert "[default: False]" not in text
    assert "[default: off]" in shown("fit", "lstm")


def test_many_choices_are_named_in_the_help():
    text = re.sub(r"- (?=\w)", "-", " ".join(shown("fit", "ngram").split()))
    assert (
        "--smoothing NAME smoothing method: modified-kneser-ney, kneser-ney, absolute, witten-bell, "
        "add-k, maximum-likelihood [default: modified-kneser-ney]"
    ) in text
    assert "--form NAME For a classifier: format of the data" in " ".join(shown("evaluate").split())
