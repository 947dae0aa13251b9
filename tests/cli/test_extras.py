"""The core without extras: it trains, evaluates, generates and compares; what needs an extra says
which in one line.
"""

import json
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parents[1] / "saved"

EXTRAS = [
    "altair",
    "vl_convert",
    "torch",
    "polars",
    "pandas",
    "sklearn",
    "scipy",
    "zstandard",
    "usearch",
    "tensorboard",
    "nltk",
    "lemminflect",
    "simplemma",
    "jsonschema",
    "narwhals",
    "jinja2",
]

BLOCK = """
import sys
for name in {names!r}:
    sys.modules[name] = None
"""
COMMANDS = (
    BLOCK
    + """
import json, shlex
from click.testing import CliRunner
from seqloom.cli.main import main
for line in {lines!r}:
    done = CliRunner().invoke(main, shlex.split(line))
    error = "" if done.exception is None or isinstance(done.exception, SystemExit) else str(done.exception)
    print(json.dumps([line, done.exit_code, error, done.stdout[:200]]))
"""
)


@pytest.fixture(autouse=True)
def text(tmp_path, toy_text):
    (tmp_path / "text").write_text(toy_text * 12)
    (tmp_path / "labels.tsv").write_text("text\tlabel\n" + "a fine film\tgood\nso dull\tbad\n" * 10)


def ran(process, lines, names=EXTRAS):
    done = process(python=COMMANDS.format(names=names, lines=lines))
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_the_core_works_without_extras(process):
    lines = [
        "fit ngram text -o m --order 3 -q",
        "evaluate m text -q",
        "generate m the --max-tokens 3 -q",
        "score m text -q",
        "fit hmm text -o hmm --states 2 --iterations 2 -q",
        "fit word2vec text -o v --min-count 1 --dimensions 4 -q",
        "nearest v cat -q",
        "fit naive-bayes labels.tsv -o nb -q",
        "evaluate nb labels.tsv -q",
        "predict nb text -q",
        "compare text --rungs byte-2,byte-3 -q",
        "data describe text -q",
        "ab text --b order=2 --a order=3 -q",
    ]
    for line, code, error, out in ran(process, lines):
        assert (code, error) == (0, ""), line
        assert out, line


def test_charts_are_refused_before_the_work_begins(process):
    lines = [
        "fit ngram text -o m --order 2 -q",
        "evaluate m text --chart x.png",
        "compare text -o report --rungs byte-2",
        "data describe text --chart x.svg",
        "plot m -o x.html",
    ]
    for line, code, error, _ in ran(process, lines)[1:]:
        assert code == 1, line
        assert (
            error
            == "charts need altair and vl-convert, which are not installed: pip install 'seqloom[charts]'"
        ), line


STEPPED = (
    BLOCK
    + """
import json
from pathlib import Path
import seqloom
from seqloom import progress
from seqloom.reporters import PlainReporter
with progress.reporting(PlainReporter()):
    values = {{}}
    for name in {models!r}:
        model = seqloom.load({place!r} + "/" + name)
        result = model.evaluate({text!r}, samples=0)
        scores = model.token_scores({lines!r})
        values[name] = [result["perplexity"], [list(map(float, row)) for row in scores]]
print(json.dumps(values))
"""
)


@pytest.mark.parametrize("portion", [None, 7])
def test_networks_are_scored_by_steps_without_torch(process, toy_text, portion):
    """The same values as with torch, also where a text is scored in portions; said once for each
    kind of model.
    """
    pytest.importorskip("torch")
    import seqloom

    models = ["lstm", "gru", "rnn", "gpt", "nplm"]
    lines = toy_text.splitlines()[:3]
    code = STEPPED.format(
        names=["torch"], models=models, place=str(HERE / "format-2"), text=toy_text, lines=lines
    )
    if portion:
        code = code.replace(
            "import seqloom\n",
            f"import seqloom\nimport seqloom.models.language.neural as n\n"
            f"n.PORTION_BY_STEPS = {portion}\n",
            1,
        )
    done = process(python=code)
    assert done.code == 0, done.err
    for name, (perplexity, scores) in json.loads(done.out.splitlines()[-1]).items():
        model = seqloom.load(HERE / "format-2" / name)
        assert perplexity == pytest.approx(
            model.evaluate(toy_text, samples=0)["perplexity"], rel=1e-4
        ), name
        for stepped, usual in zip(scores, model.token_scores(lines)):
            assert np.abs(np.array(stepped) - usual).max() < 1e-4, name
        said = f"so the {name} model reads the text token by token, which is slow: pip install 'seqloom[nn]'"
        assert done.err.count(said) == 1
