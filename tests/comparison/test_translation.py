"""Translators compared: BLEU of the table is that of the same sentences by hand, differences are
paired over them.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from seqloom import Copy, Dictionary, Parallel, Seq2Seq, TrainConfig, compare, read_parallel
from seqloom.comparison import ladder as ladders
from seqloom.comparison.ab import ab
from seqloom.comparison.report import write_report
from seqloom.comparison.translation import RUNGS, ManyLadder, ShortLadder, TranslationLadder
from seqloom.data.recognise import pairs_in
from seqloom.data.translation import has_many_targets
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.text_scores import bleu
from tests.comparison.folding import folds

NOUNS = [
    ("dog", "Hund"),
    ("boy", "Junge"),
    ("man", "Mann"),
    ("friend", "Freund"),
    ("bird", "Vogel"),
]
VERBS = [("sees", "sieht"), ("hears", "hört"), ("finds", "findet"), ("likes", "mag")]
ENDS = [("today", "heute"), ("now", "jetzt"), ("here", "hier")]
PAIRS = [
    (f"the {a} {v} the {b} {e}", f"der {x} {w} den {y} {z}")
    for a, x in NOUNS
    for v, w in VERBS
    for b, y in NOUNS
    for e, z in ENDS
]


@pytest.fixture(scope="module")
def data():
    return Parallel.of(PAIRS)


@pytest.fixture(scope="module")
def found(data, tmp_path_factory):
    return compare(data, work=tmp_path_factory.mktemp("work"), rungs=["copy", "dictionary"])


def test_every_rung_against_a_score_by_hand(found, data):
    parts = TranslationLadder().split(data, None, None)
    assert found.sizes == {
        "train": len(parts.train),
        "valid": len(parts.valid),
        "test": len(parts.test),
    }
    assert not set(parts.train.sources) & set(parts.test.sources)
    models = {"copy": Copy(), "dictionary": Dictionary()}
    scores = {}
    for result in found.results:
        said = models[result.name].fit(parts.train).translate(parts.test.sources)
        scores[result.name] = bleu(said, parts.test.targets)
        assert result.value == scores[result.name].value
        assert result.interval == scores[result.name].interval()
    assert found.best.name == "dictionary"
    assert found.best.measures["wer"] < 0.3  # of six words one: "the" has two translations
    paired = found.difference("copy", "dictionary")
    assert paired == scores["copy"].against(scores["dictionary"])
    assert paired.p_value < 0.01


def test_the_report_has_lengths_and_translations(found, tmp_path):
    write_report(found, tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Quality by length of the source" in page
    details = json.loads((tmp_path / "report" / "comparison.json").read_text())["details"]
    assert sum(row["pairs"] for row in details["lengths"]["copy"]) == found.sizes["test"]
    assert details["examples"][0]["copy"] == details["examples"][0]["source"]
    assert (tmp_path / "report" / "lengths.png").stat().st_size > 1000


def test_short_targets_are_judged_by_exact_matches(tmp_path):
    dates = [(f"{d}.{m}.1999", f"1999-{m:02}-{d:02}") for d in range(10, 29) for m in range(10, 13)]
    found = compare(Parallel.of(dates), work=tmp_path, rungs=["copy"])
    assert isinstance(found.ladder, ShortLadder)
    assert (found.best.value, next(iter(found.best.measures))) == (0.0, "exact_match")
    bench = type("", (), {"splits": TranslationLadder().split(Parallel.of(dates), None, None)})
    for rung in RUNGS[2:]:
        assert rung.make(bench).config.tokenizer == "char"


def test_sources_that_were_trained_on_are_said(tmp_path, monkeypatch, data):
    said = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    compare(data, test=data.part(slice(0, 50)), work=tmp_path, rungs=["copy"])
    assert any(
        "100.0% of the test sources also occur in the training part" in line for line in said
    )


def test_which_data_has_pairs(tmp_path, data):
    assert ladders.of_data(data)[0].name == "translation"
    table = tmp_path / "t.tsv"
    table.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    assert "two columns of texts" in pairs_in(table)
    assert ladders.of_data(table)[0].name == "translation"
    named = tmp_path / "t.jsonl"
    named.write_text(
        "".join(json.dumps({"translation": {"en": a, "de": b}}) + "\n" for a, b in PAIRS)
    )
    assert "'translation.en' and 'translation.de'" in pairs_in(named)
    named.write_text(
        "".join(
            json.dumps({"id": i, "translation": {"en": a, "de": b}}) + "\n"
            for i, (a, b) in enumerate(PAIRS)
        )
    )
    assert "'translation.en' and 'translation.de'" in pairs_in(named)
    for name, rows in (
        ("labels.tsv", [f"{a}\t{'good' if i % 2 else 'bad'}" for i, (a, _) in enumerate(PAIRS)]),
        ("numbers.tsv", [f"{a}\t{i}" for i, (a, _) in enumerate(PAIRS)]),
        ("plain.txt", [a for a, _ in PAIRS]),
    ):
        (tmp_path / name).write_text("\n".join(rows) + "\n")
        assert pairs_in(tmp_path / name) == ""
    assert (
        pairs_in((Path("a/train.en"), Path("a/train.de")))
        == "train.en and train.de are two sides of one text"
    )
    assert pairs_in((Path("train.en"), Path("train.de.gz")))
    for names in (("a.txt", "b.txt"), ("a.en", "b.de"), ("one.py", "one.txt")):
        assert pairs_in(tuple(map(Path, names))) == ""


def test_labels_are_in_all_parts():
    data = Parallel.of([(label, f"{label} {i}") for label in ("x", "y") for i in range(40)])
    parts = TranslationLadder().split(data, None, None)
    assert {source for part in (parts.train, parts.test) for source in part.sources} == {"x", "y"}
    assert set(parts.train.sources) == {"x", "y"}
    assert "equal pairs together" in parts.description
    assert TranslationLadder().overlap(parts) == 0.0


def test_many_targets_of_a_source_are_judged_by_their_probability(tmp_path):
    """Names by label: no name is the right one. A model may still know how names are spelled."""
    pytest.importorskip("torch")
    names = [
        (label, f"{a}{b}{end}")
        for label, end in (("x", "us"), ("y", "ia"))
        for a in "bdfglm"
        for b in "aeiou"
    ]
    data = Parallel.of(names)
    parts = TranslationLadder().split(data, None, None)
    assert type(TranslationLadder().specialised_for(parts)) is ManyLadder
    own = Seq2Seq(tokenizer="char", d_hidden=8, d_embed=8).fit(
        parts.train, train=TrainConfig(steps=5)
    )
    found = compare(data, work=tmp_path / "work", rungs=[own])
    bits = sum(-own.score(s, t) for s, t in zip(parts.test.sources, parts.test.targets)) / np.log(2)
    assert found.best.value == pytest.approx(
        bits / sum(len(t) + 1 for t in parts.test.targets), rel=1e-4
    )
    assert found.best.measures["nats_per_token"] == pytest.approx(
        found.best.value * np.log(2), rel=1e-4
    )  # a token a character
    write_report(found, tmp_path / "report")
    assert "bits per character" in (tmp_path / "report" / "report.html").read_text()
    assert [rung.name for rung in ManyLadder().rungs] == ["plain", "attention", "transformer"]


def test_one_target_that_is_repeated_is_not_many():
    """Two sources with one target each, however often."""
    data = Parallel.of(
        [("a b", "one two three four five"), ("c d", "five four three two one")] * 30
    )
    assert not has_many_targets(data)
    assert has_many_targets(Parallel.of([("a", f"name {i}") for i in range(20)]))


def test_arrays_are_compared_without_rungs_that_need_words(tmp_path):
    pytest.importorskip("torch")
    vectors = np.random.default_rng(0).normal(size=(40, 3))
    for texts, ladder in (
        (["one two three four"] * 40, TranslationLadder),
        (["one", "two"] * 20, ShortLadder),
    ):
        np.save(tmp_path / "x.npy", vectors)
        (tmp_path / "y.txt").write_text("\n".join(texts))
        place = tmp_path / "x.npy", tmp_path / "y.txt"
        assert pairs_in(place) == "x.npy has arrays, for which y.txt may have texts"
        parts = TranslationLadder().split(read_parallel(place), None, None)
        assert [rung.name for rung in TranslationLadder().specialised_for(parts).rungs] == [
            "plain",
            "attention",
            "transformer",
        ]
        assert type(TranslationLadder().specialised_for(parts)) is ladder
    own = Seq2Seq(tokenizer="char", d_hidden=8, d_embed=8).fit(
        parts.train, train=TrainConfig(steps=2)
    )
    found = compare(read_parallel(place), work=tmp_path / "work", rungs=[own])
    assert found.best.measures["pairs"] == 4
    with pytest.raises(ConfigError, match="unknown rung 'copy'"):
        compare(read_parallel(place), work=tmp_path / "work", rungs=["copy"])


def test_too_few_pairs_are_refused(tmp_path):
    with pytest.raises(DataError, match="3 pairs are too few"):
        compare(Parallel.of(PAIRS[:3]), work=tmp_path)
    with pytest.raises(DataError, match="no bundled data with pairs"):
        compare(task="translation", work=tmp_path)


def test_two_translators_by_cross_validation(data):
    done = ab(data, a="copy", b="dictionary", folds=3)
    assert (done.winner, done.runs) == ("b", "3 folds")
    parts = folds(TranslationLadder(), data, 3)
    assert all(not set(train.sources) & set(test.sources) for train, test in parts)
    said = [
        text for train, test in parts for text in Dictionary().fit(train).translate(test.sources)
    ]
    right = bleu(said, [target for _, test in parts for target in test.targets])
    assert done["BLEU"].b == pytest.approx(right.value)
    assert [figure.over for figure in done.figures] == ["pairs"] * 3
