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
  seqloom convert SmolLM2-135M-Instruct.Q4_1.gguf small --bits 4   # the same with 4 bits per weight
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
              help="Give a gpt model with the same weights a longer context of N tokens, rope positions scaled to fit.")
@click.option("--bits", type=Choice(["8", "4"]), help="Quantise the weights of a Transformer (gpt, bert, sentence-encoder, "
              "transformer): fewer bits per weight, on disk and in memory.")
@common
def command(source: str, target: str, form: str | None, task: str | None, context: int | None, bits: str | None,
            as_json: bool) -> None:
    """Convert a file or directory of another program to a model directory, or back; with --form, to another format.

    n-gram models are ARPA files (plain or .gz); word vectors are files of word2vec, GloVe or fastText; Transformers are
    GGUF files of the Llama family, or directories of transformers, whose weights become float32 unless --bits is given; the
    weights of g2p-en become a translator.
    """
    from seqloom.interop import families
    from seqloom.interop.hugging_face import is_directory
    from seqloom.storage import check_target, load

    changed = context is not None or bits is not None
    if form is not None and changed:
        raise ConfigError("--context and --bits make a model of seqloom, --form a file of another program; convert twice")
    foreign = not Path(source).is_dir() or is_directory(Path(source))
    if foreign and target.endswith((".arpa", ".arpa.gz")):
        raise ConfigError(f"{source} is not a model directory, so {target} cannot be made of it; "
                          "to read an ARPA file name a directory as the target")
    to_model = form is None and (foreign or changed)
    if to_model:
        check_target(target)
    model = _imported(Path(source), task, bits) if foreign else load(source)
    model = _changed(model, source, context, None if foreign and "bits" in model.learnt else bits)
    if to_model:
        model.save(target)
    elif form == HUGGING_FACE:
        families.write_model(model, source, target)
    else:
        tasks.of(model).write_file(model, source, target, form)
    outcome = tasks.of(model).converted(model)
    emit({"source": source, "target": target, **(outcome.values or {})}) if as_json else click.echo(f"{target}: {outcome.text}")


def _imported(path: Path, task: str | None, bits: str | None) -> Any:
    """The model in a file or directory of another program."""
    if path.is_dir():
        from seqloom.interop.families import read_model

        return read_model(path, task)
    from seqloom.interop.gguf import is_gguf

    if bits is not None and is_gguf(path):
        from seqloom.interop.llama import read_llama

        return read_llama(path, int(bits))  # blocks of the file that have as many bits stay as they are
    able = [task for task in tasks.every() if task.recognises(path)] or tasks.every()
    return next(model for task in able if (model := task.import_file(path)) is not None)


def _changed(model: Any, place: str, context: int | None, bits: str | None) -> Any:
    """The same with a longer context or fewer bits."""
    if context is not None:
        if not hasattr(model, "extended"):
            raise ConfigError(f"--context is for gpt models; {place} is a {model.name} model")
        model = model.extended(context)
    if bits is not None:
        if not hasattr(model, "quantised") or "bits" not in model.learnt_values:
            raise ConfigError("--bits quantises models of kind gpt, bert, sentence-encoder or transformer; "
                              f"{place} is of kind {model.name}")
        model = model.quantised(int(bits))
    return model
