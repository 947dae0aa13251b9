"""Every command: what it prints where, in both forms, and how it refuses."""

import dataclasses
import gzip
import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time

import click
import pytest

from seqloom import NGram, _version, load
from seqloom.cli import main as cli
from seqloom.cli.fit import fitted
from seqloom.decoding.sampling import SamplingConfig
from seqloom.registry import MODELS, model_class
from seqloom.text.tokenizer import Tokenizer, TokenizerConfig

from .conftest import Ran
from .ends import PATIENCE

COMMANDS = [[name] for name in cli.commands()] + [["fit", name] for name in fitted()]


def command(path):
    """The click command, and the context it runs in."""
    context = click.Context(cli.main, info_name="seqloom", **cli.main.context_settings)
    found = cli.main
    for name in path:
        found = found.get_command(context, name)
        context = click.Context(found, info_name=name, parent=context)
    return found, context


def names(context):
    return context.command_path.split()[1:]


# ---- help, names, flags


@pytest.mark.parametrize("path", [[], *COMMANDS], ids=lambda p: " ".join(["seqloom", *p]))
def test_help_ends_with_examples_that_can_be_run(seqloom, path):
    for flag in ("--help", "-h"):
        shown = seqloom(*path, flag)
        assert (shown.code, shown.err) == (0, "")
    lines = [
        line.split("#")[0].strip() for line in shown.out.partition("Examples:")[2].splitlines()
    ]
    examples = [line.partition("| ")[2] or line for line in lines if line]
    assert len(examples) >= 2
    assert any(example.startswith(" ".join(["seqloom", *path])) for example in examples)
    for example in examples:
        name, *words = shlex.split(example.split(" < ")[0])
        if name == "curl" and path == ["serve"]:  # what is served is asked by other programs
            continue
        assert name == "seqloom"
        if "--help" in words or path == []:
            continue
        found, context = command([])
        while isinstance(found, click.Group):
            found, context = command([*names(context), words.pop(0)])
        found.parse_args(context, words)  # raises where a flag or an argument is wrong


def test_every_command_has_its_file():
    here = os.path.dirname(cli.__file__)
    files = {f"{cli.FILES.get(name, name)}.py" for name in cli.commands()}
    assert files <= set(os.listdir(here))


@pytest.mark.parametrize(
    ("path", "config"),
    [
        *((["fit", n], model_class(n).config_class) for n in fitted()),
        (["generate"], SamplingConfig),
        (["tokenize"], TokenizerConfig),
    ],
)
def test_flags_are_the_fields_of_the_config(path, config):
    options = {p.name: p for p in command(path)[0].params if isinstance(p, click.Option)}
    for field in dataclasses.fields(config):
        flag = "--" + field.name.replace("_", "-")
        assert flag in options[field.name].opts
        assert field.metadata["help"] in options[field.name].help


def test_every_command_has_json_quiet_and_debug():
    for path in COMMANDS:
        found, _ = command(path)
        flags = {flag for p in found.params for flag in p.opts}
        assert isinstance(found, click.Group) or {"--json", "-q", "--quiet", "--debug"} <= flags, (
            path
        )


def test_version_and_no_arguments(seqloom):
    assert _version.__version__ in seqloom("--version").out
    for path in ([], ["fit"]):
        bare = seqloom(*path)
        assert (bare.code, bare.out) == (2, "")
        assert bare.err.startswith("Usage: ")
        assert bare.err.rstrip().endswith(seqloom(*path, "--help").out.rstrip())


@pytest.mark.parametrize(
    ("args", "neighbour"),
    [
        (["compar"], "'compare'"),
        (["fit", "ngrm", "x"], "'ngram'"),
        (["fit", "ngram", "x", "-o", "m", "--ordr", "3"], "--order"),
        (["fit", "ngram", "x", "-o", "m", "--smoothing", "knesser-ney"], "'kneser-ney'"),
        (["fit", "ngram", "{toy}", "-o", "m", "--tokenizer", "wrod"], "'word'"),
        (["fit", "ngram", "{toy}", "-o", "m", "--encoding", "latn-1"], "latin"),
        (["tokenize", "{toy}", "--kind", "chars"], "'char'"),
        (["compare", "{toy}", "--rungs", "byte-3,byt-4"], "'byte-4'"),
    ],
)
def test_a_wrong_name_is_told_its_neighbour(seqloom, saved, args, neighbour):
    failed = seqloom(*[a.format(toy=saved / "toy.txt") for a in args])
    assert failed.code == (1 if "--encoding" in args else 2)
    message = failed.one_line()
    assert "did you mean" in message.lower()
    assert neighbour in message.lower().partition("did you mean")[2]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["fit", "ngram", "{toy}", "-o", "m", "--order", "0"], "order must be at least 1; got 0"),
        (["fit", "ngram", "{toy}", "-o", "m", "--order", "x"], "'x' is not a valid integer"),
        (["fit", "ngram", "{toy}"], "--output"),
        (["fit", "ngram", "{toy}", "-o", "m", "--memory", "lots"], "800M"),
        (["fit", "ngram", "{toy}", "-o", "m", "--memory", "-5"], "800M"),
        (["fit", "ngram", "{toy}", "-o", "m", "--prune", "0,a"], "'0,a' is not a list"),
        (
            ["fit", "ngram", "{toy}", "-o", "m", "--tokenizer", "{words}", "--vocab-size", "20"],
            "--vocab-size cannot change",
        ),
        (["fit", "mixture", "{toy}", "-o", "m", "--members", "{words}"], "at least two"),
        (
            ["fit", "mixture", "{toy}", "-o", "m", "--members", "{words},{bytes}"],
            "share one tokenizer",
        ),
        (["generate", "{words}", "--temperature", "-1"], "temperature must be at least 0"),
        (["generate", "{words}", "--top-p", "1.5"], "--top-p must be at most 1"),
        (["generate", "{words}", "--stop", ""], "must not be empty"),
        (
            ["generate", "{words}", "--beams", "2", "--top-k", "5"],
            "--top-k has no effect; drop it or --beams",
        ),
        (["generate", "{words}", "--beams", "2", "-n", "3"], "-n"),
        (["compare", "{toy}", "--minutes", "0"], "--minutes"),
        (["convert", "{words}", "out"], ".arpa"),
        (["convert", "{toy}", "out.arpa"], "not a model directory"),
        (["convert", "{addk}", "out.arpa"], "add-k cannot be written as ARPA"),
        (["convert", "{uniform}", "out.arpa"], "uniform"),
        (
            ["convert", "{uniform}", "out.onnx"],
            "kind uniform, which is not a network, and ONNX holds networks",
        ),
        (
            ["convert", "{words}", "out.onnx"],
            "kind ngram, which is not a network, and ONNX holds networks",
        ),
        (["fit", "bert", "{toy}", "-o", "out"], "bert is not fitted here but converted from"),
        (["compare", "{toy}", "--rungs", "copy"], "of translators: --task translation"),
        (["evaluate", "{uniform}", "{toy}", "--sparsity"], "--sparsity is for n-gram models"),
        (["evaluate", "{words}", "{toy}", "--against", "{bytes}"], "cannot be compared"),
        (["tokenize", "{toy}", "--tokenizer", "{words}", "--kind", "char"], "drop --kind"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(seqloom, saved, args, says, tmp_path):
    places = {name: saved / name for name in ("words", "bytes", "addk", "uniform")}
    failed = seqloom(*[a.format(toy=saved / "toy.txt", **places) for a in args])
    assert says in failed.one_line()
    assert failed.code == 2
    assert [p.name for p in tmp_path.iterdir() if p.name != "cache"] == []


def test_debug_shows_the_trace(seqloom, process):
    assert "Traceback" not in seqloom("info", "nothing").err
    shown = process("info", "nothing", "--debug")
    assert shown.code == 1
    assert "Traceback (most recent call last)" in shown.err
    assert (
        shown.err.rstrip()
        .splitlines()[-1]
        .startswith("seqloom.errors.ModelError: nothing: no such directory")
    )


def test_an_unexpected_error_is_one_line_too(seqloom, saved, monkeypatch):
    def broken(*args):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("seqloom.storage.load", broken)
    failed = seqloom("generate", saved / "words")
    assert failed.code == 1
    assert "--debug" in failed.one_line()
    assert "RuntimeError: two lines" in failed.one_line()


def test_interrupt_is_130(seqloom, saved, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("seqloom.storage.load", interrupted)
    stopped = seqloom("generate", saved / "words")
    assert stopped.code == 130
    assert stopped.out == ""
    assert "interrupted" in stopped.err


# ---- fit and info


def test_fit_saves_and_says_so(seqloom, saved, toy_text):
    done = seqloom(
        "fit",
        "ngram",
        saved / "toy.txt",
        "-o",
        "m",
        "--order",
        3,
        "--smoothing",
        "witten-bell",
        "-q",
    )
    assert (done.code, done.err) == (0, "")
    assert re.match(
        r"m: ngram3-witten-bell, whitespace-\d+, \d+ tokens, [\d,]+ parameters, [\d.]+ s\n$",
        done.out,
    )
    assert load("m").score("the cat") == NGram(order=3, smoothing="witten-bell").fit(
        toy_text
    ).score("the cat")
    shown = seqloom("info", "m").out
    assert "witten-bell" in shown
    assert "toy.txt" in shown
    assert seqloom("info", "m", "--json").json()[0]["config"]["order"] == 3


def test_fit_in_json_with_held_out_text(seqloom, saved):
    done = seqloom(
        "fit",
        "ngram",
        saved / "toy.txt",
        "-o",
        "m",
        "--order",
        2,
        "--valid",
        saved / "toy.txt",
        "--json",
    )
    (values,) = done.json()
    assert values["tokens"] == load("m").fit_info["tokens"]
    assert values["valid"]["metrics"]["perplexity"] == pytest.approx(
        load("m").perplexity((saved / "toy.txt").read_text())
    )
    assert "fallbacks" in values
    assert "too few counts" in done.err  # talk, not result


def test_a_missing_held_out_file_is_noticed_before_the_work(seqloom, saved, tmp_path):
    assert (
        "no such file"
        in seqloom("fit", "ngram", saved / "toy.txt", "-o", "m", "--valid", "none.txt").one_line()
    )
    assert not (tmp_path / "m").exists()


def test_a_directory_with_the_name_of_a_kind_is_not_a_tokenizer(seqloom, saved):
    seqloom("fit", "ngram", saved / "toy.txt", "-o", "whitespace", "--order", 2, "--vocab-size", 5)
    seqloom("fit", "ngram", saved / "toy.txt", "-o", "m", "--order", 2)
    assert load("m").tokenizer.vocab_size > 5
    seqloom(
        "fit", "ngram", saved / "toy.txt", "-o", "n", "--order", 2, "--tokenizer", "./whitespace"
    )
    assert load("n").tokenizer.vocab_size == 5


def test_stdin_and_several_files_and_patterns(seqloom, saved, toy_text, tmp_path):
    seqloom("fit", "ngram", "-o", "a", "--order", 2, stdin=toy_text)
    seqloom("fit", "ngram", "-", "-o", "b", "--order", 2, stdin=toy_text)
    lines = toy_text.splitlines(keepends=True)
    (tmp_path / "1.txt").write_text("".join(lines[:3]))
    (tmp_path / "2.txt").write_text("".join(lines[3:]))
    (tmp_path / "all.gz").write_bytes(gzip.compress(toy_text.encode()))
    for i, sources in enumerate((["1.txt", "2.txt"], ["?.txt"], ["all.gz"])):
        assert seqloom("fit", "ngram", *sources, "-o", f"c{i}", "--order", 2).code == 0
    scores = {load(name).score("the cat sat on a log") for name in ("a", "b", "c0", "c1", "c2")}
    assert len(scores) == 1


def test_mixture_and_cache_from_the_command_line(seqloom, saved):
    assert (
        seqloom(
            "fit", "cache", saved / "toy.txt", "-o", "cache", "--tokenizer", saved / "words"
        ).code
        == 0
    )
    members = f"{saved / 'words'},cache"
    done = seqloom(
        "fit", "mixture", "-o", "mix", "--members", members, "--json", stdin="the cat and the cat\n"
    )
    weights = done.json()[0]["weights"]
    assert sum(weights.values()) == pytest.approx(1, abs=1e-5)
    assert load("mix").label().startswith("mixture(ngram3-")


# ---- score and evaluate


def test_score_of_lines(seqloom, saved):
    model = load(saved / "words")
    scored = seqloom("score", saved / "words", stdin="the cat\n\na zebra")
    assert scored.err == ""
    assert scored.out == "".join(f"{model.score(t):.6f}\t{t}\n" for t in ("the cat", "", "a zebra"))
    rows = seqloom("score", saved / "words", "-", "--json", stdin="the cat\n\na zebra").json()
    assert rows == [{"score": model.score(t), "text": t} for t in ("the cat", "", "a zebra")]


def test_score_of_a_text_that_is_given(seqloom, saved, tmp_path):
    model = load(saved / "words")
    scored = seqloom("score", saved / "words", "the cat", "a zebra?")
    assert scored.err == ""
    assert scored.out == "".join(f"{model.score(t):.6f}\t{t}\n" for t in ("the cat", "a zebra?"))
    (tmp_path / "one.txt").write_text("the cat\n")
    rows = seqloom("score", saved / "words", "one.txt", "data: a dog", "see a.csv", "--json").json()
    assert [row["text"] for row in rows] == ["the cat", "data: a dog", "see a.csv"]
    word = seqloom("score", saved / "words", "zebra")
    assert word.out == f"{model.score('zebra'):.6f}\tzebra\n"
    assert word.err == "no file is called 'zebra', so it is scored as a text\n"
    assert (
        "no such file: missing.txt" in seqloom("score", saved / "words", "missing.txt").one_line()
    )
    assert "'' is empty" in seqloom("score", saved / "words", "").one_line()
    tokens = seqloom("score", saved / "words", "the cat", "--tokens").out.splitlines()
    assert [line.split("\t")[0] for line in tokens] == ["the", "cat", "</s>"]
    rows = seqloom("score", saved / "bytes", "the cat", "a dog", "--json").json()
    assert [row["name"] for row in rows] == ["'the cat'", "'a dog'"]
    assert [row["score"] for row in rows] == pytest.approx(
        [load(saved / "bytes").score(text) for text in ("the cat", "a dog")]
    )
    assert "the cat" in seqloom("score", saved / "bytes", "the cat", "--colour").out


def test_score_of_streams_and_documents(seqloom, saved, tmp_path):
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text(f"the cat {name[:3]}\n")
    stream, document = load(saved / "bytes"), load(saved / "documents")
    (whole,) = seqloom("score", saved / "bytes", "one.txt", "two.txt", "--json").json()
    assert whole["score"] == pytest.approx(stream.score("the cat one\nthe cat two\n"))
    rows = seqloom("score", saved / "documents", "one.txt", "two.txt", "--json").json()
    assert [r["name"] for r in rows] == ["one.txt", "two.txt"]
    assert [r["score"] for r in rows] == pytest.approx(
        [document.score("the cat one\n"), document.score("the cat two\n")]
    )
    assert (
        seqloom("score", saved / "documents", "one.txt").out == f"{rows[0]['score']:.6f}\tone.txt\n"
    )


def test_score_of_tokens(seqloom, saved):
    scored = seqloom("score", saved / "words", "--tokens", stdin="the zebra\na </s>\n")
    rows = [line.split("\t") for line in scored.out.splitlines()]
    assert [r[0] for r in rows] == ["the", "<unk>", "</s>", "a", "<unk>", "</s>"]
    assert [r[3:] for r in rows] == [[], ["oov"], [], [], ["oov"], []]
    full = load(saved / "words").full_scores("the zebra")
    assert [float(r[1]) for r in rows[:3]] == pytest.approx([s.log_prob for s in full], abs=1e-6)
    assert [int(r[2]) for r in rows[:3]] == [s.order for s in full]
    as_json = seqloom(
        "score", saved / "words", "--tokens", "--json", stdin="the zebra\na </s>\n"
    ).json()
    assert [r["unit"] for r in as_json] == [1, 1, 1, 2, 2, 2]
    plain = seqloom("score", saved / "mixture", "--tokens", stdin="the zebra\n").out.splitlines()
    assert [line.split("\t")[0] for line in plain] == ["the", "<unk>", "</s>"]
    odd = seqloom("score", saved / "bytes", "--tokens", stdin="a\tb\\\n").out.splitlines()
    assert [line.split("\t")[0] for line in odd] == ["a", "\\t", "b", "\\\\", "\\n", "</s>"]


def test_evaluate(seqloom, saved, toy_text):
    text = seqloom("evaluate", saved / "bytes", saved / "toy.txt")
    assert (
        text.err
        == "warning: this ngram model was fitted on toy.txt; results on it are too optimistic\n"
    )
    (values,) = seqloom("evaluate", saved / "bytes", "--json", stdin=toy_text).json()
    result = load(saved / "bytes").evaluate(toy_text)
    assert values["metrics"]["bits_per_byte"] == result["bits_per_byte"]
    assert f"{result['bits_per_byte']:.4f}" in text.out
    assert str(result.signature) in text.out


def test_infinite_perplexity_is_valid_json(seqloom, saved):
    seqloom(
        "fit",
        "ngram",
        saved / "toy.txt",
        "-o",
        "ml",
        "--smoothing",
        "maximum-likelihood",
        "--order",
        2,
    )
    seqloom("fit", "ngram", saved / "toy.txt", "-o", "mkn", "--tokenizer", "ml", "--order", 2)

    def strict(constant):
        raise AssertionError(constant)

    for extra in ([], ["--against", "mkn"]):
        out = seqloom("evaluate", "ml", "--json", *extra, stdin="the zebra\nthe cat\na dog\n").out
        assert json.loads(out, parse_constant=strict)["metrics"]["perplexity"] == "inf"
    assert (
        "probability zero"
        in seqloom("evaluate", "ml", "--against", "mkn", stdin="the zebra\na dog\n").out
    )


def test_evaluate_against_another_model(seqloom, saved):
    seqloom(
        "fit", "ngram", saved / "toy.txt", "-o", "one", "--order", 1, "--tokenizer", saved / "words"
    )
    better = seqloom("evaluate", saved / "words", saved / "toy.txt", "--against", "one")
    last = better.out.splitlines()[-1]
    assert re.match(
        rf"difference  -[\d.]+ nats per token \(.* to .*\), p = [\d.]+: {re.escape(str(saved / 'words'))} "
        "is better",
        last,
    )
    (values,) = seqloom(
        "evaluate", "one", saved / "toy.txt", "--against", saved / "words", "--json"
    ).json()
    assert values["difference"]["difference"] > 0
    assert values["against"]["metrics"]["nats"] < values["metrics"]["nats"]
    (same,) = seqloom("evaluate", "one", saved / "toy.txt", "--against", "one", "--json").json()
    assert same["difference"]["difference"] == 0
    assert (
        seqloom("evaluate", "one", saved / "toy.txt", "--against", "one")
        .out.splitlines()[-1]
        .startswith("difference  none")
    )


def test_sparsity(seqloom, saved):
    rows = load(saved / "words").sparsity("the cat sat on the sea\n")
    (values,) = seqloom(
        "evaluate", saved / "words", "--sparsity", "--json", stdin="the cat sat on the sea\n"
    ).json()
    assert values["sparsity"] == [r._asdict() for r in rows]
    table = seqloom(
        "evaluate", saved / "words", "--sparsity", stdin="the cat sat on the sea\n"
    ).out.partition("order ")[2]
    cells = [line.split() for line in table.splitlines()[1:]]
    assert [int(c[0]) for c in cells] == [1, 2, 3]
    assert [float(c[1]) for c in cells] == pytest.approx([r.possible for r in rows], rel=1e-5)
    assert [int(c[2].replace(",", "")) for c in cells] == [r.in_model for r in rows]
    assert [float(c[3].rstrip("%")) for c in cells] == pytest.approx(
        [100 * r.seen_in_test for r in rows], abs=0.05
    )


# ---- generate and complete


def test_generate(seqloom, saved):
    model = load(saved / "words")
    options = [
        "--max-tokens",
        6,
        "--seed",
        4,
        "--temperature",
        0.7,
        "--top-k",
        5,
        "--top-p",
        0.9,
        "--repetition-penalty",
        1.2,
    ]
    expected = model.generate(
        "the", max_tokens=6, seed=4, temperature=0.7, top_k=5, top_p=0.9, repetition_penalty=1.2
    )
    assert seqloom("generate", saved / "words", "the", *options).out == f"the{expected}\n"
    assert (
        seqloom("generate", saved / "words", "-", *options, stdin="the\n").out == f"the{expected}\n"
    )
    assert seqloom("generate", saved / "words", "the", *options, "--json").json() == [
        {"prompt": "the", "text": expected}
    ]
    three = seqloom("generate", saved / "words", "-n", 3, "--seed", 7).out.splitlines()
    assert three == model.generate([""] * 3, seed=7)
    best = model.generate("the", beams=3, max_tokens=5, length_penalty=0.5)
    shown = seqloom(
        "generate", saved / "words", "the", "--beams", 3, "--max-tokens", 5, "--length-penalty", 0.5
    )
    assert shown.out == f"the{best}\n"
    stopped = seqloom(
        "generate", saved / "bytes", "the", "--stop", "t", "--stop", "a", "--seed", 1
    ).out
    assert not set("ta") & set(stopped.removeprefix("the"))


def test_complete(seqloom, saved):
    found = load(saved / "words").complete("the ", 3)
    assert seqloom("complete", saved / "words", "the ", "-n", 3).out == "".join(
        f"{p:.4f}\t{w}\n" for w, p in found
    )
    rows = seqloom("complete", saved / "words", "-n", 3, "--json", stdin="the \na d\n").json()
    assert [row["prompt"] for row in rows] == ["the ", "a d"]
    assert [(row["text"], row["probability"]) for row in rows[0]["suggestions"]] == found
    assert rows[1]["suggestions"][0]["text"] == "dog"
    assert seqloom("complete", saved / "words", "-n", 3, "--json", "the ").json() == rows[:1]
    blocks = seqloom("complete", saved / "words", "-n", 1, stdin="the \na d\n").out.split("\n\n")
    assert len(blocks) == 2


def test_complete_interactively(saved):
    """On a terminal: text, then a number takes a suggestion, then an empty line ends."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(
            sys.executable,
            [sys.executable, "-m", "seqloom.cli", "complete", str(saved / "words"), "-n", "2"],
        )

    def until(sign, seconds=PATIENCE):
        text, end = "", time.monotonic() + seconds
        while sign not in text:
            ready, _, _ = select.select([terminal], [], [], max(end - time.monotonic(), 0))
            assert ready, f"waited for {sign!r}, got {text!r}"
            text += os.read(terminal, 4096).decode()
        return text

    try:
        until("\n|")
        os.write(terminal, b"a d\n")
        assert "1. dog" in until("a d|")
        os.write(terminal, b"1\n")
        until("a dog |")
        os.write(terminal, b"1\n")
        word = load(saved / "words").complete("a dog ", 1)[0].text
        until(f"a dog {word} |")
        os.write(terminal, b"\n")
        assert until(f"a dog {word}\r\n").replace("\x1b[0m", "").rstrip().endswith(f"a dog {word}")
        assert os.waitpid(pid, 0)[1] == 0
    finally:
        os.close(terminal)


# ---- tokenize, convert, models


def test_marks_are_declared_by_a_flag(seqloom, saved):
    marks = ["--marks", "[MASK],<|user|>"]
    assert (
        seqloom("tokenize", saved / "toy.txt", "--kind", "bpe", *marks, "--save", "tok").code == 0
    )
    assert Tokenizer.load("tok").config.marks == ("[MASK]", "<|user|>")
    ids = seqloom(
        "tokenize", "-", "--tokenizer", "tok", "--ids", "--json", stdin="a [MASK]\n"
    ).json()[0]
    assert max(ids) < Tokenizer.load("tok").mark_id("[MASK]")
    assert seqloom("fit", "ngram", saved / "toy.txt", "-o", "m", "--order", 2, *marks).code == 0
    assert load("m").tokenizer.config.marks == load("m").config.marks == ("[MASK]", "<|user|>")
    assert (
        "'[MASK]' is given twice"
        in seqloom("tokenize", saved / "toy.txt", "--marks", "[MASK],[MASK]").one_line()
    )


def test_tokenize(seqloom, saved, tmp_path):
    assert (
        seqloom("tokenize", "--kind", "word", stdin="It's here, now.\n").out
        == "It's here , now .\n"
    )
    assert seqloom("tokenize", "-", "--kind", "char", "--json", stdin="a b\n").json() == [
        ["a", " ", "b"]
    ]
    made = seqloom(
        "tokenize", saved / "toy.txt", "--kind", "bpe", "--vocab-size", 300, "--save", "tok"
    )
    assert "vocab_size 300" in made.out
    ids = seqloom("tokenize", saved / "toy.txt", "--tokenizer", "tok", "--ids", "--json").json()
    assert all(isinstance(i, int) and 0 <= i < 300 for row in ids for i in row)
    (values,) = seqloom(
        "tokenize", saved / "toy.txt", "--tokenizer", "tok", "--ids-file", "toy.ids", "--json"
    ).json()
    assert values["tokens"] == sum(len(row) + 1 for row in ids)
    assert (tmp_path / "toy.ids").stat().st_size == 2 * values["tokens"]
    assert seqloom("tokenize", "--tokenizer", saved / "words", stdin="the cat\n").out == "the cat\n"


def test_convert_there_and_back(seqloom, saved):
    out = seqloom("convert", saved / "words", "m.arpa.gz")
    assert re.match(r"m\.arpa\.gz: order 3, \d+ n-grams\n$", out.out)
    (back,) = seqloom("convert", "m.arpa.gz", "m", "--json").json()
    assert back["ngrams"] == load(saved / "words").fit_info["ngrams"]
    assert load("m").score("the cat sat") == pytest.approx(
        load(saved / "words").score("the cat sat"), abs=1e-4
    )


def test_models(seqloom):
    rows = seqloom("models", "--json").json()
    assert [r["name"] for r in rows] == list(MODELS)
    converted = [r["name"] for r in rows if not r["fitted"]]
    assert converted == ["vectors", "bert", "sentence-encoder"]
    fitted, apart = seqloom("models").out.split("\n\n")
    assert [line.split()[0] for line in fitted.splitlines()] == [
        name for name in MODELS if name not in converted
    ]
    head, *lines = apart.splitlines()
    assert "seqloom convert" in head
    assert [line.split()[0] for line in lines] == converted
    assert (
        len({line.index(MODELS[line.split()[0]].summary) for line in fitted.splitlines()}) == 1
    )  # columns stand straight


# ---- compare


def test_compare(seqloom, tmp_path, shakespeare):
    (tmp_path / "text.txt").write_text(shakespeare[:8000])
    args = ["compare", "text.txt", "--rungs", "uniform,byte-2", "--work", "work"]
    done = seqloom(*args, "-o", "report")
    uniform = next(
        line.split() for line in done.out.splitlines() if line.split()[:1] == ["uniform"]
    )
    assert float(uniform[1]) == pytest.approx(8, abs=0.03)  # 20 bits for the end, on 800 bytes
    assert "best: byte-2" in done.out
    assert "--- byte-2" in done.out
    assert "training byte-2" in done.err
    assert "training byte-2" not in done.out
    (values,) = seqloom(*args, "--json", "-q").json()
    assert (
        values["rungs"]
        == json.loads((tmp_path / "report" / "comparison.json").read_text())["rungs"]
    )
    assert "--- byte-2" not in seqloom(*args, "--no-samples").out
    assert seqloom(*args, "-q").err == ""


def test_compare_with_nothing_to_show(seqloom, tmp_path, shakespeare):
    (tmp_path / "text.txt").write_text(shakespeare[:8000])
    none = seqloom("compare", "text.txt", "--rungs", "byte-mixture", "--json", "-q")
    assert none.code == 2
    assert "nothing to mix" in none.one_line()


# ---- pipes and terminals


@pytest.mark.parametrize(
    "args",
    [
        ["score", "{m}", "long.txt"],
        ["score", "{m}", "long.txt", "--tokens"],
        ["tokenize", "long.txt"],
        ["generate", "{m}", "-n", "3000", "--max-tokens", "30"],
    ],
)
def test_a_reader_that_goes_away_is_no_error(process, saved, toy_text, tmp_path, args):
    (tmp_path / "long.txt").write_text(toy_text * 3000)
    words = " ".join(a.format(m=saved / "words") for a in args)
    code = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'seqloom.cli', "
        f"*{words!r}.split()], "
        "stdout=subprocess.PIPE, stderr=subprocess.PIPE); p.stdout.readline(); p.stdout.close(); "
        "err = p.stderr.read().decode(); sys.stderr.write(err); sys.exit(p.wait())"
    )
    assert process(python=code) == Ran(0, "", "")


def test_a_narrow_terminal_encoding_is_no_error(process):
    shown = process(
        "tokenize",
        "--kind",
        "word",
        stdin="cafe 猫\n".encode(),
        env={"PYTHONIOENCODING": "latin-1"},
    )
    assert (shown.code, shown.out, shown.err) == (0, "cafe \\u732b\n", "")


def test_bad_bytes_on_stdin_are_named(seqloom, saved):
    for name in ("generate", "complete"):
        args = [name, saved / "words"] + (["-"] if name == "generate" else [])
        failed = seqloom(*args, stdin=b"ok\ncaf\xe9\n")
        assert "stdin is not UTF-8 text: line 2" in failed.err
        assert failed.code == 1


def test_python_runs_the_package():
    shown = subprocess.run(
        [sys.executable, "-m", "seqloom", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == f"seqloom, version {_version.__version__}\n"
