"""`seqloom evaluate MODEL TEXT`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.judging import judge, show_result
from seqloom.cli.options import common, emit
from seqloom.cli.sources import ALL_OPTIONS, read_for
from seqloom.cli.vectors import TASK, load_vectors
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.contracts import LanguageModel
    from seqloom.data.corpus import Corpus


@click.command(name="evaluate", epilog="""\b
Examples:
  seqloom evaluate model test.txt
  seqloom evaluate model test.txt --against other-model --json
  seqloom evaluate model test.txt --chart costs.html
  seqloom evaluate network test.txt --dynamic --dynamic-lr 0.0005
  seqloom evaluate tagger test.conllu --chart confusion.png
  seqloom evaluate vectors --on questions-words.txt
""")
@click.argument("model")
@click.argument("text", nargs=-1)
@click.option("--against", metavar="MODEL", help="A second model: both on the same text, and their paired difference.")
@click.option("--sparsity", is_flag=True,
              help="For n-gram models: how many n-grams could be, how many the model has, and how many of TEXT's.")
@click.option("--chart", metavar="FILE",
              help="Draw bits along the text, costs of tokens and calibration, or a confusion matrix: .png, .svg, .html.")
@click.option("--dynamic", is_flag=True, help="For networks: learn from each stretch of TEXT after it was scored; the saved "
              "model stays as it is.")
@click.option("--dynamic-lr", type=click.FloatRange(0, 1e6), help="How fast it learns then  [default: 0.001]")
@click.option("--on", metavar="FILE", help="For word vectors: analogies (Google's form) or pairs with a similarity.")
@ALL_OPTIONS
@common
def command(model: str, text: tuple[str, ...], against: str | None, sparsity: bool, chart: str | None, dynamic: bool,
            dynamic_lr: float | None, on: str | None, as_json: bool, **reading: Any) -> None:
    """How good a model is on held-out data.

    A language model: perplexity with and without unknown words, and bits per byte with an interval. A classifier or a
    tagger: accuracy with an interval, precision, recall and F1 of each class, F1 of spans, confusion, errors by kind with
    examples. Without TEXT, or with -, standard input is read. Word vectors (saved, or a file of word2vec, GloVe or fastText):
    accuracy of analogies by section, or rank correlation of similarities, of the words in --on FILE.
    """
    from seqloom.storage import load

    if chart is not None:
        from seqloom.charts.files import check_target

        check_target(chart)
    if dynamic and (against is not None or chart is not None):
        raise ConfigError("--against and --chart score as the model is saved; leave out --dynamic, or evaluate one at a time")
    first = load_vectors("evaluate", model) if on is not None and Path(model).is_file() else load(model)
    if (on is not None) != (first.task == TASK):
        raise ConfigError(f"{model} holds word vectors; give --on FILE with analogies or similarities" if on is None else
                          f"--on is for word vectors; {model} is a {first.task}")
    if on is not None:
        if text or chart is not None or against is not None or sparsity or dynamic or dynamic_lr is not None:
            raise ConfigError("word vectors are judged by --on FILE alone; leave out TEXT and other options")
        show_result(first.evaluate(on), as_json)
        return
    if first.task != "language model":
        if against is not None or sparsity or dynamic or dynamic_lr is not None:
            raise ConfigError(f"--against, --sparsity and --dynamic are for language models; {model} is a {first.task}")
        judge(first, text, reading, chart, as_json)
        return
    second = load(against) if against is not None else None
    if sparsity and not hasattr(first, "sparsity"):
        raise ConfigError(f"--sparsity is for n-gram models; {model} is a {first.name} model")
    corpus = read_for(first.task, text, reading)
    difference = _difference(first, second, corpus) if second is not None else None
    result = first.evaluate(corpus, dynamic=dynamic, dynamic_lr=dynamic_lr)
    rows = [row._asdict() for row in first.sparsity(corpus)] if sparsity else []
    if chart is not None:
        from seqloom.inspect import portrait

        portrait(first, corpus).save(chart)
    if as_json:
        values = result.to_dict() | ({"sparsity": rows} if sparsity else {})
        if second is not None:
            values |= {"model": model, "against": {"model": against, **second.evaluate(corpus).to_dict()},
                       "difference": difference}
        emit(values)
        return
    click.echo(f"{model}\n{result}" if second is not None else str(result))
    if sparsity:
        click.echo("\norder           possible      in model  share of the text's seen")
        for order, possible, in_model, seen in (row.values() for row in rows):
            click.echo(f"{order:>5}  {possible:>17.6g}  {in_model:>12,}  {seen:>24.1%}")
    if second is not None and difference is not None:
        click.echo(f"\n{against}\n{second.evaluate(corpus)}\n\n{_sentence(difference, model, str(against))}")


def _difference(first: LanguageModel, second: LanguageModel, corpus: Corpus) -> dict[str, Any]:
    from seqloom.comparison.paired import paired_difference

    unit, paired = paired_difference(first, second, corpus)
    return {"unit": unit, **paired._asdict()}


def _sentence(d: dict[str, Any], model: str, against: str) -> str:
    if not math.isfinite(d["difference"]):
        return f"difference  {d['difference']} {d['unit']}: a token of probability zero, nothing more can be said"
    if d["difference"] == 0:
        return f"difference  none ({d['unit']})"
    spread = "" if math.isnan(d["low"]) else f" ({d['low']:+.4f} to {d['high']:+.4f}), p = {d['p_value']:.3g}"
    sure = not spread or d["p_value"] < 0.05
    better = model if d["difference"] < 0 else against
    return (f"difference  {d['difference']:+.4f} {d['unit']}{spread}: {better} is better"
            + ("" if sure else ", not significantly"))
