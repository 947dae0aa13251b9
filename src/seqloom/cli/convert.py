"""`seqloom convert SOURCE TARGET`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seqloom import tasks
from seqloom.cli.options import Choice, common, emit
from seqloom.errors import ConfigError

HUGGING_FACE = "hugging-face"  # as in interop/families


@click.command(name="convert", epilog="""\b
Examples:
  seqloom convert model.arpa.gz model            # ARPA to a seqloom model
  seqloom convert model model.arpa               # and back
  seqloom convert glove.6B.50d.txt vectors       # word2vec, GloVe or fastText vectors to a model that loads at once
  seqloom convert cc.en.300.bin english          # of fastText with its n-grams: unseen words have vectors, training goes on
  seqloom convert SmolLM2-135M-Instruct.Q4_1.gguf smollm2   # a Llama with its tokenizer, from a GGUF file
  seqloom convert gpt2-directory gpt2            # a GPT-2 or Llama that transformers saved
  seqloom convert gpt2 again --form hugging-face # and back
  seqloom convert opus-mt-en-de translator       # a Marian, T5 or BART that transformers saved
  seqloom convert g2p_en/checkpoint20.npz g2p    # the weights of g2p-en to a translator of words into phonemes
  seqloom convert model longer --context 1024    # the same gpt for longer texts
  seqloom convert vectors words.bin --form word2vec-binary
  seqloom convert glove.6B.50d.txt words.vec --form fasttext
""")
@click.argument("source")
@click.argument("target")
@click.option("--form", type=Choice([HUGGING_FACE, *(form for task in tasks.every() for form in task.file_forms)]),
              help="What to write instead of a model of seqloom: a directory for transformers, or word vectors in a file.")
@click.option("--task", help="What a converted encoder is for, where its family serves several tasks.", metavar="TASK")
@click.option("--context", type=click.IntRange(2, 1_000_000), metavar="N",
              help="Write a gpt model with the same weights for a longer context of N tokens, rope positions scaled to fit.")
@common
def command(source: str, target: str, form: str | None, task: str | None, context: int | None, as_json: bool) -> None:
    """Convert a file or directory of another program to a model directory, or back; with --form, to another format.

    n-gram models are ARPA files (plain or .gz); word vectors are files of word2vec, GloVe or fastText; Transformers are
    GGUF files of the Llama family, whose weights become float32, or directories of transformers; the weights of g2p-en become
    a translator.
    """
    from seqloom.interop import families
    from seqloom.interop.hugging_face import is_directory
    from seqloom.storage import check_target, load

    if context is not None and (is_directory(Path(source)) or not Path(source).is_dir()):
        raise ConfigError(f"--context is for models of seqloom; convert {source} to one first")
    if is_directory(Path(source)):
        if form is not None:
            raise ConfigError(f"{source} is a directory of transformers; leave --form out to make a model of seqloom of it")
        check_target(target)
        model = families.read_model(source, task)
        model.save(target)
    elif Path(source).is_dir():
        model = load(source)
        if context is not None:
            _check_extended(model, source, form)
            check_target(target)
            model = model.extended(context)
            model.save(target)
        elif form == HUGGING_FACE:
            families.write_model(model, source, target)
        else:
            tasks.of(model).write_file(model, source, target, form)
    else:
        if target.endswith((".arpa", ".arpa.gz")):
            raise ConfigError(f"{source} is not a model directory, so {target} cannot be made of it; "
                              "to read an ARPA file name a directory as the target")
        if form is None:
            check_target(target)
        able = [task for task in tasks.every() if task.recognises(Path(source))] or tasks.every()
        model = next(model for task in able if (model := task.import_file(Path(source))) is not None)
        if form is None:
            model.save(target)
        elif form == HUGGING_FACE:
            families.write_model(model, source, target)
        else:
            tasks.of(model).write_file(model, source, target, form)
    outcome = tasks.of(model).converted(model)
    emit({"source": source, "target": target, **(outcome.values or {})}) if as_json else click.echo(f"{target}: {outcome.text}")


def _check_extended(model: Any, source: str, form: str | None) -> None:
    if form is not None:
        raise ConfigError("--context makes a model of seqloom; leave out --form, and convert that model afterwards")
    if not hasattr(model, "extended"):
        raise ConfigError(f"--context is for gpt models; {source} is a {model.name} model")
