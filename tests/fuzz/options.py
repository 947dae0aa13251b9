"""Odd options and combinations for every command: each works, or is refused in one line, and soon.

The options come from the commands themselves, so a new one is attacked without a word here. Values
are ordinary, at the border, or absurd (nothing, other scripts, words for numbers, infinity). Every
attempt runs in a worker process, which is replaced when it takes too long or dies.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from seqloom.registry import MODELS
from seqloom.views.catalogue import VIEWS
from tests.fuzz.command_worker import Worker
from tests.fuzz.counts import Counts
from tests.fuzz.specimens import SPECIMENS
from tests.interop.llama_files import llama_file

MEMORY = 2 << 30  # bytes that an attempt may take

TEXT = (
    "the cat sat on the mat\nthe dog met a cat on the road\nthe road led to the sea\n\nA Dog "
    "barked at the sea\n" * 12
)
LABELLED = (
    "good\ta lovely warm film\nbad\ta dull cold film\ngood\twarm and funny\nbad\tcold and boring\n"
    * 4
)
SERIES = "date,load\n" + "".join(
    f"2024-{1 + d // 28:02}-{1 + d % 28:02},{d % 7 + d / 50}\n" for d in range(112)
)
PAIRS = (
    "the cat\tdie Katze\nthe dog\tder Hund\na cat sat\teine Katze sass\nthe dog met a cat\tder "
    "Hund traf eine Katze\n" * 4
)
TAGGED = "the DET\ndog NOUN\nsleeps VERB\n\na DET\ncat NOUN\nruns VERB\n\n" * 4

DATA = {
    "classifier": "labelled.tsv",
    "tagger": "tagged.conll",
    "forecaster": "series.csv",
    "translator": "pairs.tsv",
}
SMALL = {
    "gpt": ("--d-model", "8", "--n-layers", "1", "--context", "8"),
    "nplm": ("--d-hidden", "8"),
    **{name: ("--d-hidden", "8") for name in ("rnn", "lstm", "gru")},
    "hmm": ("--states", "2", "--iterations", "2"),
    **{name: ("--d-hidden", "8") for name in ("classifier", "tagger", "forecaster")},
    "seq2seq": ("--d-hidden", "8", "--d-embed", "8"),
    "transformer": ("--d-model", "8", "--n-layers", "1", "--n-heads", "2"),
    "mixture": ("--members", "ngram,other"),
    "neural-cache": ("--member", "lstm"),
    **{
        name: ("--dimensions", "4", "--epochs", "1", "--min-count", "1")
        for name in ("word2vec", "fasttext", "charngram", "glove")
    },
}
BASES = {  # arguments of a run that works
    "compare": (
        "text",
        "--rungs",
        "byte-1,byte-2,byte-mixture",
        "--work",
        "work",
        "--minutes",
        "0.05",
        "--limit",
        "0.05",
    ),
    "ab": ("text", "--model", "ngram", "--b", "order=2", "--folds", "2"),
    "scaling": ("text", "--model", "ngram", "--work", "work", "--minutes", "0.05"),
    "plot": ("lstm", "-o", "picture.svg"),
    "advise": ("lstm",),
    "evaluate": ("ngram", "text"),
    "predict": ("naive-bayes", "text"),
    "score": ("ngram", "text"),
    "generate": ("ngram", "the cat", "--max-tokens", "5"),
    "complete": ("ngram", "the c"),
    "nearest": ("word2vec", "cat"),
    "analogy": ("word2vec", "cat", "dog", "sea"),
    "embed": ("word2vec", "cat"),
    "bias": ("word2vec", "--direction", "cat,dog"),
    "phrases": ("text",),
    "tokenize": ("text", "--kind", "word"),
    "convert": ("word2vec", "out.vec"),
    "models": (),
    "info": ("ngram",),
    "forecast": ("seasonal-naive", "series.csv"),
    "anomalies": ("seasonal-naive", "series.csv"),
    "translate": ("dictionary", "text"),
    "fill": ("bert", "the [MASK] sat"),
    "robustness": ("naive-bayes", "labelled.tsv"),
    # Options are read before the model, which is none, so nothing goes on listening.
    "serve": ("text",),
    "studio": ("text",),
    "drift": ("requests.jsonl", "ngram", "--reference", "text"),
    "trace": ("seq2seq", "the cat"),
    "exposure-bias": ("seq2seq", "pairs.tsv"),
}
BASES |= {
    "neighbours": ("word2vec", "cat"),
    "word-map": ("word2vec", "cat", "dog", "sea"),
    "analogies": ("word2vec", "cat:dog,road:sea"),
    "leaning": ("word2vec", "cat,dog", "sea", "road"),
}
LOOKED_AT = {"model": "lstm", "other": "ngram", "text": "the cat", "data": "text", "runs": "lstm"}
LOOKED_AT["file"] = "tagged.conll"
BASES |= {name: tuple(LOOKED_AT[kind] for kind in view.inputs) for name, view in VIEWS.items()}
BASES |= {
    "backoff": ("ngram", "the cat"),
    "discounts": ("ngram", "the cat", "--corpus", "text", "--steps", "2"),
    "difference": ("ngram", "other", "the cat"),
    "explanation": ("naive-bayes", "a warm film"),
    "trellis": ("hmm-tagger", "the dog runs"),
}
OTHERS = {
    "generate": ("lstm", "gpt-4-bit"),
    "score": ("lstm", "gpt-4-bit", "bert"),
    "predict": ("hmm-tagger", "classifier"),
    "evaluate": (
        "lstm",
        "naive-bayes",
        "hmm-tagger",
        "word2vec",
        "bert",
        "sentence-encoder",
        "classifier",
    ),
    "explanation": ("classifier", "hmm-tagger", "seq2seq", "ngram"),
    "info": ("lstm", "word2vec", "hmm-tagger", "bert", "gpt-4-bit"),
    "plot": ("word2vec",),
    "embed": ("sentence-encoder",),
    "nearest": ("sentence-encoder",),
    "translate": ("seq2seq", "copy"),
    "convert": ("bert", "sentence-encoder", "gpt-4-bit", "llama.gguf"),
}  # instead of the first

WORDS = (
    "",
    " ",
    "x",
    "-",
    "漢字",
    "😀",
    "no/such/file",
    "text",
    ".",
    "/dev/null",
    "a,b",
    "a=b",
    "0",
    "None",
    "cat",
    "case=lower",
    "\u202e",
    "x" * 300,
)
ORDINARY = ("0", "1", "2", "3", "5", "0.5", "0.1", "1.5")
ODD = (
    "-1",
    "-0.5",
    "",
    "x",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e-400",
    "٣",
    "１２",
    "0x10",
    "1_0",
    "½",
    "1,5",
    "None",
    "true",
    "00",
    "+1",
    "1e2",
)
ENORMOUS = (
    "1000000000000000000",
    "99999999999999999999999999",
    "1e18",
    "-1000000000000000000",
    "4294967296",
    "1e308",
)


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that call it."""
    from seqloom.cli import main as cli

    context = click.Context(cli.main, **cli.main.context_settings)
    for name in cli.commands():
        command = cli.main.get_command(context, name)
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                if found is not None and name != "data":  # that one goes to the network
                    yield (name, inner), found
        elif command is not None:
            yield (name,), command


def arguments(words: tuple[str, ...], command: click.Command, draw: random.Random) -> list[str]:
    """One attempt: a run that works, with one to four options added."""
    name = words[-1]
    if words[0] == "fit":
        data = DATA.get(MODELS[name].task, "text")
        steps = (
            ("--steps", "2")
            if any(p.name == "steps" for p in command.params) and draw.random() < 0.8
            else ()
        )
        steps = steps or (
            ("--minutes", "0.01") if any(p.name == "steps" for p in command.params) else ()
        )
        start = [*words, data, "-o", "out", *SMALL.get(name, ()), *steps]
    else:
        start = [*words, *BASES[name]]
        if name in OTHERS and draw.random() < 0.5:
            start[len(words)] = draw.choice(OTHERS[name])
    options = [
        p
        for p in command.params
        if isinstance(p, click.Option)
        and p.name not in ("help", "debug", "output", "work", "quiet")
    ]
    tame = draw.random() < 0.5  # ordinary values, so that what is odd is how they go together
    for option in draw.sample(options, min(len(options), draw.randint(1, 4))):
        start += given(option, tame, draw)
    return [*start, "-q"]


def given(option: click.Option, tame: bool, draw: random.Random) -> list[str]:
    flag = draw.choice([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return [flag]
    return [flag, value(option, tame, draw)]


def value(option: click.Option, tame: bool, draw: random.Random) -> str:
    numbers = list(ORDINARY) if tame else [*ORDINARY, *ODD, *ENORMOUS]
    if option.type.name.startswith("integer") and tame:
        numbers = [n for n in numbers if n.isdigit()]
    if isinstance(option.type, click.Choice):
        return draw.choice([*option.type.choices, *(() if tame else WORDS)])
    if option.type.name in ("integer", "float", "integer range", "float range"):
        if option.name == "minutes":  # else it would be asked to take them
            numbers = ["0.01"] if tame else list(ODD)
        return draw.choice(numbers)
    if option.metavar == "N,N,..":
        return ",".join(draw.choice(numbers) for _ in range(draw.randint(0, 3)))
    if option.name == "encoding":
        return draw.choice(
            ["utf-8", "latin-1", "utf-16", "idna", "rot13", "hex", "undefined", "UTF8", *WORDS]
        )
    return draw.choice([*WORDS, *numbers])


def prepare(worker: Worker, place: Path) -> None:
    """The files and models that the runs use."""
    (place / "text").write_text(TEXT)
    (place / "labelled.tsv").write_text(LABELLED)
    (place / "requests.jsonl").write_text(
        "".join(json.dumps({"text": line}) + "\n" for line in TEXT.splitlines() if line)
    )
    (place / "tagged.conll").write_text(TAGGED)
    (place / "series.csv").write_text(SERIES)
    (place / "pairs.tsv").write_text(PAIRS)
    for name, out, *options in (
        ("ngram", "ngram", "--order", "2"),
        ("ngram", "other", "--order", "1"),
        ("lstm", "lstm", *SMALL["lstm"], "--tokenizer", "char", "--steps", "3"),
        ("naive-bayes", "naive-bayes"),
        ("hmm-tagger", "hmm-tagger"),
        ("seasonal-naive", "seasonal-naive", "--horizon", "7"),
        ("dictionary", "dictionary"),
        ("copy", "copy"),
        ("seq2seq", "seq2seq", *SMALL["seq2seq"], "--steps", "3"),
        ("word2vec", "word2vec", *SMALL["word2vec"]),
    ):
        ended = worker.run(
            ["fit", name, DATA.get(MODELS[name].task, "text"), "-o", out, *options, "-q"]
        )
        if ended.code:
            raise RuntimeError(f"preparing {name}: {ended.err}")
    for name in ("bert", "sentence-encoder", "gpt-4-bit"):
        SPECIMENS[name]().save(place / name)
    SPECIMENS["classifier-published"]().save(place / "classifier")
    llama_file(place / "llama.gguf")


def run(count: int, seed: int) -> Counts:
    draw, counts, known = random.Random(seed), Counts(), list(commands())
    with tempfile.TemporaryDirectory(prefix="seqloom-fuzz-") as name:
        os.environ |= {"SEQLOOM_CACHE": name, "SEQLOOM_DATA": name}
        worker = Worker(name, memory=MEMORY)
        prepare(worker, Path(name))
        for number in range(count):
            words, command = known[number % len(known)]
            argv = arguments(words, command, draw)
            ended = worker.run(argv)
            if fault := ended.fault():
                counts.wrong.append(
                    f"attempt {number}: seqloom {' '.join(map(repr, argv))}: {fault}"
                )
            elif ended.code == 0:
                counts.worked += 1
            else:
                counts.refused += 1
        worker.stop()
    return counts
