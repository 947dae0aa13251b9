"""`seqloom convert SOURCE TARGET`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seqloom import interop, tasks
from seqloom.cli.options import Choice, common, emit
from seqloom.errors import ConfigError
from seqloom.interop.opening import FORM, ONNX, form_of, quantised


@click.command(
    name="convert",
    epilog="""\b
Examples:
  seqloom convert model.arpa.gz model            # ARPA to a seqloom model
  seqloom convert model model.arpa               # and back
  seqloom convert glove.6B.50d.txt vectors       # word2vec, GloVe or fastText vectors to a model \
that loads at once
  seqloom convert cc.en.300.bin english          # of fastText with its n-grams: unseen words have \
vectors, training goes on
  seqloom convert SmolLM2-135M-Instruct.Q4_1.gguf smollm2   # a Llama with its tokenizer, from a GGUF file
  seqloom convert SmolLM2-135M-Instruct.Q4_1.gguf small --bits 4   # the same with 4 bits per weight
  seqloom convert gpt2-directory gpt2            # a GPT-2 or Llama that transformers saved
  seqloom convert gpt2 again --form hugging-face # and back
  seqloom convert distilbert-sst2 sentiment      # a classifier or tagger with its labels
  seqloom convert opus-mt-en-de translator       # a Marian, T5 or BART that transformers saved
  seqloom convert g2p_en/checkpoint20.npz g2p    # the weights of g2p-en to a translator of words \
into phonemes
  seqloom convert model longer --context 1024    # the same gpt for longer texts
  seqloom convert model model.onnx               # a network for onnxruntime, with its tokenizer and \
a script
  seqloom convert vectors words.bin --form word2vec-binary
  seqloom convert glove.6B.50d.txt words.vec --form fasttext
""",
)
@click.argument("source")
@click.argument("target")
@click.option(
    "--form",
    type=Choice([FORM, *(form for task in tasks.every() for form in task.file_forms)]),
    help="What to write instead of a model of seqloom: a directory for transformers, or word "
    "vectors in a file.",
)
@click.option(
    "--task",
    help="What a converted encoder is for, where its family serves several tasks, if not what its head "
    "is for; pairs: a classifier of pairs of texts.",
    metavar="TASK",
)
@click.option(
    "--context",
    type=click.IntRange(2, 1_000_000),
    metavar="N",
    help="Give a gpt model with the same weights a longer context of N tokens, rope positions scaled to fit.",
)
@click.option(
    "--bits",
    type=Choice(["8", "4"]),
    help="Quantise the weights of a network of any kind: fewer bits per weight, on disk and in memory.",
)
@common
def command(
    source: str,
    target: str,
    form: str | None,
    task: str | None,
    context: int | None,
    bits: str | None,
    as_json: bool,
) -> None:
    """Convert a file or directory of another program to a model directory, or back; with --form, to
    another format.

    n-gram models are ARPA files (plain or .gz); word vectors are files of word2vec, GloVe or
    fastText; Transformers are GGUF files of the Llama family, or directories of transformers, whose
    weights become float32 unless --bits is given; the weights of g2p-en become a translator. A
    target that ends in .onnx is a network that runs without seqloom, checked in onnxruntime.
    """
    from seqloom.storage import check_target, load

    changed = context is not None or bits is not None
    to_onnx = form is None and target.endswith(ONNX)
    if to_onnx and bits is not None:
        raise ConfigError(
            "--bits is for models of seqloom; an ONNX file has its weights as float32"
        )
    if form is not None and changed:
        raise ConfigError(
            "--context and --bits make a model of seqloom, --form a file of another program; convert twice"
        )
    foreign = not Path(source).is_dir() or form_of(source) is not None
    if foreign and target.endswith((".arpa", ".arpa.gz")):
        raise ConfigError(
            f"{source} is not a model directory, so {target} cannot be made of it; "
            "to read an ARPA file name a directory as the target"
        )
    to_model = form is None and (foreign or changed) and not to_onnx
    if to_model:
        check_target(target)
    fewer = None if bits is None else int(bits)
    model = interop.open(source, task, fewer) if foreign else load(source)
    if context is not None:
        model = _extended(model, source, context)
    if fewer is not None and not foreign:
        model = quantised(model, fewer, source)
    if to_model:
        model.save(target)
    elif to_onnx:
        interop.write_onnx(model, target, source)
    elif form == FORM:
        interop.write(model, target, source)
    else:
        tasks.of(model).write_file(model, source, target, form)
    outcome = tasks.of(model).converted(model)
    emit({"source": source, "target": target, **(outcome.values or {})}) if as_json else click.echo(
        f"{target}: {outcome.text}"
    )


def _extended(model: Any, path: str, context: int) -> Any:
    if not hasattr(model, "extended"):
        raise ConfigError(f"--context is for gpt models; {path} is a {model.name} model")
    return model.extended(context)
