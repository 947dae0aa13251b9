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
  seqloom convert g2p_en/checkpoint20.npz g2p    # the weights of g2p-en to a translator of words into phonemes
  seqloom convert vectors words.bin --form word2vec-binary
  seqloom convert glove.6B.50d.txt words.vec --form fasttext
""")
@click.argument("source")
@click.argument("target")
@click.option("--form", type=Choice([HUGGING_FACE, *(form for task in tasks.every() for form in task.file_forms)]),
              help="What to write instead of a model of seqloom: a directory for transformers, or word vectors in a file.")
@click.option("--task", help="What a converted encoder is for, where its family serves several tasks.", metavar="TASK")
@click.option("--bits", type=Choice(["8", "4"]), help="Quantise the weights of a Transformer (gpt, sentence-encoder): fewer "
              "bits per weight, on disk and in memory.")
@common
def command(source: str, target: str, form: str | None, task: str | None, bits: str | None, as_json: bool) -> None:
    """Convert a file or directory of another program to a model directory, or back; with --form, to another format.

    n-gram models are ARPA files (plain or .gz); word vectors are files of word2vec, GloVe or fastText; Transformers are
    GGUF files of the Llama family with byte-level BPE, or directories of transformers, whose weights become float32 unless
    --bits is given; the weights of g2p-en become a translator.
    """
    if form is not None and bits is not None:
        raise ConfigError("--bits makes a model of seqloom, --form a file of another program; give one of them")
    from seqloom.interop import families
    from seqloom.interop.gguf import is_gguf
    from seqloom.interop.hugging_face import is_directory
    from seqloom.storage import check_target, load

    if is_directory(Path(source)):
        if form is not None:
            raise ConfigError(f"{source} is a directory of transformers; leave --form out to make a model of seqloom of it")
        check_target(target)
        model = _with_bits(families.read_model(source, task), source, bits)
        model.save(target)
    elif Path(source).is_dir():
        if bits is not None:
            check_target(target)
        model = _with_bits(load(source), source, bits)
        if bits is not None:
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
        if bits is not None and is_gguf(source):
            from seqloom.interop.llama import read_llama

            model = read_llama(source, int(bits))  # blocks of the file that have as many bits stay as they are
        else:
            model = _with_bits(_imported(Path(source)), source, bits)
        if form is None:
            model.save(target)
        elif form == HUGGING_FACE:
            families.write_model(model, source, target)
        else:
            tasks.of(model).write_file(model, source, target, form)
    outcome = tasks.of(model).converted(model)
    emit({"source": source, "target": target, **(outcome.values or {})}) if as_json else click.echo(f"{target}: {outcome.text}")


def _imported(path: Path) -> Any:
    """The model in a file of another program."""
    able = [task for task in tasks.every() if task.recognises(path)] or tasks.every()
    return next(model for task in able if (model := task.import_file(path)) is not None)


def _with_bits(model: Any, place: str, bits: str | None) -> Any:
    if bits is None:
        return model
    if not hasattr(model, "quantised") or "bits" not in model.learnt_values:
        raise ConfigError(f"--bits quantises models of kind gpt or sentence-encoder; {place} is of kind {model.name}")
    return model.quantised(int(bits))
