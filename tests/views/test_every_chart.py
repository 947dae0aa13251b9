"""Every kind of chart on real data, at its real size: the bundled plays as text, as speeches with their
speaker, as words with their kind, as a series of lengths, and as words to spell.
"""

import inspect as python
import pkgutil
import re
import sys
from datetime import UTC, datetime, timedelta
from functools import wraps
from importlib import import_module

import pytest

import seqloom
from seqloom import charts, inspect
from seqloom.charts import theme
from seqloom.data.describe import describe
from seqloom.models.word_vectors.debias import bias_direction, debias, report
from seqloom.views.catalogue import VIEWS
from seqloom.views.catalogue import run as run_view
from tests.legible import lying_on_each_other, written
from tests.views.test_legible import WIDEST

SHORT = {"steps": 6, "evaluate_every": 3}


@pytest.fixture(scope="module")
def plays(shakespeare):
    return shakespeare[:90_000]


@pytest.fixture(scope="module")
def speeches(plays):
    """Speeches of the four who speak most, and who spoke."""
    pairs = re.findall(r"^([A-Z][A-Za-z ]+):\n(.+?)\n\n", plays, re.MULTILINE | re.DOTALL)
    speakers = [speaker for speaker, _ in pairs]
    most = sorted(set(speakers), key=speakers.count)[-4:]
    kept = [(speaker, text) for speaker, text in pairs if speaker in most]
    return seqloom.Labelled([text for _, text in kept], [speaker for speaker, _ in kept])


@pytest.fixture(scope="module")
def kinds(plays):
    """Words with a tag as long as those of a treebank."""

    def tag(word):
        return "PUNCT" if not word[0].isalpha() else "PROPN" if word[0].isupper() else "NOUN"

    lines = [re.findall(r"\w+|[^\w\s]", line) for line in plays[:20_000].split("\n")]
    sentences = [line for line in lines if line]
    return seqloom.Tagged(sentences, [[tag(word) for word in line] for line in sentences])


@pytest.fixture(scope="module")
def days(plays, tmp_path_factory):
    """The length of a line for each day, of letters, words, commas and capitals."""
    lines = [line for line in plays.split("\n") if line][:200]
    rows = [
        f"{datetime(2023, 1, 29, tzinfo=UTC).date() + i * timedelta(days=1)},{len(line)},"
        f"{len(line.split())},{line.count(',') + i / 90:.2f},{sum(map(str.isupper, line)) + i % 7}"
        for i, line in enumerate(lines)
    ]
    path = tmp_path_factory.mktemp("series") / "lines.csv"
    path.write_text("\n".join(["day,letters,words,commas,capitals", *rows, ""]))
    return seqloom.read_series(path)


@pytest.fixture(scope="module")
def spellings(plays):
    words = list(dict.fromkeys(re.findall(r"[a-z]{3,12}", plays)))[:400]
    return [(" ".join(word), " ".join(re.sub("[aeiou]", "", word) or word)) for word in words]


def _language(plays, tmp):
    hmm = seqloom.HMM(states=4, iterations=3).fit(plays[:30_000])
    words = seqloom.NGram(order=3, tokenizer="byte", unit="stream").fit(plays)
    run = tmp / "gpt.run"
    small = {"d_model": 16, "n_heads": 2, "n_layers": 1, "vocab_size": 300}
    seqloom.GPT(**small).fit(plays[:20_000], train=SHORT, run=run)
    return {
        "states": lambda: inspect.states(hmm, "the king is dead"),
        "portrait": lambda: inspect.portrait(words, plays[:9_000]),
        "training_curves": lambda: inspect.training_curves(run),
        "description": lambda: inspect.description(
            describe(plays, kinds=("word", "bpe"), sizes=(300, 1000))
        ),
        "comparison": lambda: inspect.comparison(
            seqloom.compare(plays, rungs=["byte-1", "byte-3"], curve=True, work=tmp / "text")
        ),
    }


def _labels(speeches, kinds, tmp):
    bayes, tagger = seqloom.NaiveBayes().fit(speeches), seqloom.HMMTagger().fit(kinds)
    network = seqloom.NeuralClassifier(encoder="bag", pooling="attention", d_embed=4)
    network.fit(speeches, train=SHORT, run=tmp / "network.run")
    return {
        "explanation": lambda: inspect.explanation(network, speeches.texts[0][:200]),
        "errors": lambda: inspect.errors(bayes.evaluate(speeches, slice_by=["length", "class"])),
        "robustness": lambda: inspect.robustness(
            seqloom.robustness(bayes, speeches, perturb=["upper", "typos"])
        ),
        "errors of a tagger": lambda: inspect.errors(tagger.evaluate(kinds)),
        "states of a tagger": lambda: inspect.states(tagger),
        "training_curves by accuracy": lambda: inspect.training_curves(tmp / "network.run"),
        "comparison of classifiers": lambda: inspect.comparison(
            seqloom.compare(speeches, rungs=["majority", "bayes-1"], work=tmp / "labels")
        ),
    }


def _series(days, tmp):
    model = seqloom.SeasonalNaive(season=7, horizon=14).fit(days)
    return {
        "forecast": lambda: inspect.forecast(model, days, backtest=True),
        "anomalies": lambda: inspect.anomalies(model.anomalies(days, rate=0.05), "naive"),
        "comparison of forecasters": lambda: inspect.comparison(
            seqloom.compare(days, rungs=["naive", "linear"], work=tmp / "series")
        ),
    }


def _translators(spellings, tmp):
    dictionary = seqloom.Dictionary(iterations=3).fit(spellings)
    network = seqloom.Seq2Seq(tokenizer="bpe", vocab_size=270, d_embed=8, d_hidden=8)
    network.fit(spellings, train=SHORT)
    source = spellings[5][0]
    return {
        "alignment": lambda: inspect.alignment(network, source),
        "trace": lambda: inspect.trace(network, source, beams=3, max_tokens=30),
        "exposure_bias": lambda: inspect.exposure_bias(network, spellings[:40]),
        "quality_by_length": lambda: inspect.quality_by_length(dictionary.evaluate(spellings)),
        "comparison of translators": lambda: inspect.comparison(
            seqloom.compare(
                spellings, task="translation", rungs=["copy", "dictionary"], work=tmp / "pairs"
            )
        ),
    }


def _vectors(plays):
    vectors = seqloom.Word2Vec(dimensions=12, min_count=5, epochs=2, normalize="case=lower")
    vectors.fit(plays)
    line = bias_direction(vectors, [("he", "she")])
    neutral = ["noble", "lord", "tribunes", "people"]
    lean = report(vectors, debias(vectors, neutral, [], line), direction=line, neutral=neutral)
    return {
        "word_map": lambda: inspect.word_map(vectors, top=80, clusters=3),
        "neighbours": lambda: inspect.neighbours(vectors, "rome"),
        "analogies": lambda: inspect.analogies(vectors, [("he", "his"), ("they", "their")]),
        "leaning": lambda: inspect.leaning(lean),
    }


LINE = "First Citizen:\nBefore we proceed any further, hear me speak."


# Views that train or read data: tests/views draws them.
ELSEWHERE = {"reach", "activations", "ablation", "probe", "senses"}
CHARTS_ELSEWHERE = {  # of these, of heads against tagged sentences, of several runs, of scaling laws
    ("attention", "costs_chart"),
    ("attention", "relations_chart"),
    ("by_layer", "layers_chart"),
    ("gradients", "range_chart"),
    ("gradients", "reach_chart"),
    ("monitoring", "shares_over"),
    ("scaling", "law_chart"),
}


def _views(plays, speeches, kinds, spellings, tmp):
    """Each view, of the first of these models that has it."""
    text = plays[:20_000]
    small = [seqloom.NGram(order=order, tokenizer="byte").fit(text) for order in (2, 3)]
    models = [
        *small,
        seqloom.LSTM(d_hidden=24, n_layers=2).fit(text, train=SHORT, run=tmp / "lstm.run"),
        seqloom.GPT(d_model=16, n_heads=2, n_layers=2, vocab_size=300).fit(text, train=SHORT),
        seqloom.NeuralClassifier(encoder="bilstm", d_hidden=12).fit(speeches, train=SHORT),
        seqloom.NeuralTagger(d_hidden=12).fit(kinds, train=SHORT),
        seqloom.Seq2Seq(tokenizer="char", d_hidden=8).fit(spellings, train=SHORT),
        seqloom.HMM(states=4, iterations=3).fit(text),
        seqloom.Mixture.of(small).fit(plays[20_000:30_000]),
    ]

    def inputs_of(view):
        if not view.inputs:
            return []
        if view.inputs == ("runs",):
            return [[tmp / "lstm.run"]]
        model = next(model for model in models if view.fits(model))
        example = spellings[5][0] if model.task == "translator" else LINE
        found = {"model": model, "other": model, "text": example}
        return [found[kind] for kind in view.inputs]

    return {
        name.replace("-", "_"): lambda name=name, view=view: run_view(name, *inputs_of(view))
        for name, view in VIEWS.items()
        if name not in ELSEWHERE
    }


@pytest.fixture(scope="module")
def calls(plays, speeches, kinds, days, spellings, tmp_path_factory):
    tmp = tmp_path_factory.mktemp("drawn")
    return {
        **_language(plays, tmp),
        **_labels(speeches, kinds, tmp),
        **_series(days, tmp),
        **_translators(spellings, tmp),
        **_vectors(plays),
        **_views(plays, speeches, kinds, spellings, tmp),
    }


def functions():
    """Every function that draws by (file, name); what it returns is altair's."""
    return {
        (module.name, name): one
        for module in pkgutil.iter_modules(charts.__path__)
        for its in [import_module(f"seqloom.charts.{module.name}")]
        for name, one in python.getmembers(its, python.isfunction)
        if one.__annotations__.get("return") == "Any" and not name.startswith("_")
        if one.__module__ == its.__name__ and module.name != "page"  # which arranges charts
    }


@pytest.fixture
def drawn(monkeypatch):
    """(file, name) of the functions that draw, as they are called, under whichever name."""
    seen = set()
    noted = {id(one): noting(one, seen, place) for place, one in functions().items()}
    for module in [m for name, m in sys.modules.items() if name.startswith("seqloom.")]:
        for name, one in list(vars(module).items()):
            if id(one) in noted:
                monkeypatch.setattr(module, name, noted[id(one)])
    return seen


def noting(function, seen, place):
    @wraps(function)
    def noted(*args, **kwargs):
        seen.add(place)
        return function(*args, **kwargs)

    return noted


def test_every_kind_of_chart_can_be_read(calls, drawn):
    for name, call in calls.items():
        sheet = call()
        svg = theme.svg(sheet.picture())  # which has each of its charts
        for text in (sheet.title, *sheet.summary):
            assert text in written(svg), (name, text)
        assert lying_on_each_other(svg) == [], name
        assert float(re.search(r'<svg[^>]* width="([\d.]+)', svg)[1]) <= WIDEST, name
    assert {name.split(" ")[0] for name in calls} == set(inspect.__all__) - {"surprise"} - ELSEWHERE
    missing = sorted(functions().keys() - drawn - CHARTS_ELSEWHERE)
    assert not missing, str(missing)
