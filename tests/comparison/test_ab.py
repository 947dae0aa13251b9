"""A/B: what may be compared and what is refused, and the figures against plain counting."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from click.testing import CliRunner

from seqloom import NGram
from seqloom.cli.main import main
from seqloom.comparison.ab import ab
from seqloom.comparison.language import LanguageLadder
from seqloom.config import option
from seqloom.data.corpus import Corpus
from seqloom.errors import ConfigError, DataError
from seqloom.models.language.ngram import NGramConfig
from tests.comparison.folding import folds


@pytest.fixture(scope="module")
def lines(shakespeare: str) -> list[str]:
    return shakespeare[:40_000].split("\n")


def test_the_documents_experiment(lines: list[str]) -> None:
    """With and without stemming: fewer words, fewer unknown ones, as many tokens; and no likelihood."""
    found = ab(
        lines,
        both={"tokenizer": "word"},
        a={"normalize": "topic"},
        b={"normalize": "topic,stem=porter"},
        folds=3,
    )
    assert found["vocabulary"].b < found["vocabulary"].a
    assert found["vocabulary"].high < 0
    assert found["unknown tokens"].high < 0
    assert found["unknown tokens"].clear
    assert found["known types"].low > 0
    assert found["tokens a line"].difference == pytest.approx(0, abs=0.02)
    assert [f.name for f in found.figures] == [
        "unknown tokens",
        "tokens a line",
        "vocabulary",
        "known types",
    ]
    (note,) = found.notes
    assert note.startswith("no likelihood")
    assert "topic,stem=porter" in note
    assert "\n" not in note
    stopped = ab(
        lines,
        both={"tokenizer": "word", "normalize": "case=lower"},
        b={"normalize": "case=lower,stopwords=remove"},
        folds=2,
    )
    assert stopped["tokens a line"].b < 0.8 * stopped["tokens a line"].a


def test_counts_are_those_of_plain_counting(lines: list[str]) -> None:
    found = ab(
        lines, both={"tokenizer": "whitespace"}, b={"normalize": "case=lower"}, folds=3, samples=50
    )
    for side, change in (("a", str), ("b", str.lower)):
        unknown = tokens = 0
        sizes, known = [], []
        for train, test in folds(LanguageLadder(), lines, 3):
            seen = {word for line in train.lines() for word in change(line).split()}
            asked = [word for line in test.lines() for word in change(line).split()]
            unknown += sum(word not in seen for word in asked)
            tokens += len(asked)
            sizes.append(len(seen) + 2)
            known.append(len(seen & set(asked)) / len(set(asked)))
        assert getattr(found["unknown tokens"], side) == pytest.approx(unknown / tokens)
        n_lines = len(list(Corpus.from_texts(lines).lines()))
        assert getattr(found["tokens a line"], side) == pytest.approx(tokens / n_lines)
        assert getattr(found["vocabulary"], side) == pytest.approx(np.mean(sizes))
        assert getattr(found["known types"], side) == pytest.approx(np.mean(known))


def test_lossless_settings_are_compared_by_bytes(lines: list[str]) -> None:
    found = ab(lines, both={"tokenizer": "byte"}, a={"order": 2}, b={"order": 4}, folds=2)
    bits = {}
    for order in (2, 4):
        spent = size = 0.0
        for train, test in folds(LanguageLadder(), lines, 2):
            result = NGram(order=order, tokenizer="byte").fit(train).evaluate(test, samples=0)
            spent += result["bits_per_byte"] * result["bytes"]
            size += result["bytes"]
        bits[order] = spent / size
    figure = found["bits per byte"]
    assert (figure.a, figure.b) == (pytest.approx(bits[2]), pytest.approx(bits[4]))
    assert figure.difference == pytest.approx(bits[4] - bits[2])
    assert figure.low < figure.difference < figure.high < 0
    assert figure.p_value is not None
    assert figure.p_value < 0.01
    assert found["unknown tokens"].a == 0
    mixed = ab(
        lines,
        a={"tokenizer": "byte"},
        b={"tokenizer": "bpe", "vocab_size": 300},
        both={"order": 3},
        folds=2,
    )
    assert mixed["bits per byte"].a > 0  # other tokens, but nothing is lost


def test_the_same_tokens_are_compared_by_tokens(lines: list[str]) -> None:
    found = ab(lines, both={"order": 2}, a={"smoothing": "add-k"}, folds=2)
    assert found["nats per token"].high < 0
    assert found["vocabulary"].difference == 0
    assert not found["vocabulary"].clear
    assert "the same" in found.table()
    assert not found.notes


def test_other_units_are_refused(lines: list[str]) -> None:
    found = ab(lines, both={"order": 2}, a={"unit": "line"}, b={"unit": "stream"}, folds=2)
    assert "by line and" in found.notes[0]


def test_folds_are_contiguous_and_whole() -> None:
    lines = [f"line {i}" for i in range(20)]
    parts = folds(LanguageLadder(), lines, 4)
    assert [line for _, test in parts for line in test.lines()] == lines
    for train, test in parts:
        assert sorted([*train.lines(), *test.lines()]) == sorted(lines)
    for k, text in ((4, lines[:7]), (1, lines)):
        with pytest.raises(DataError, match="folds of"):
            folds(LanguageLadder(), text, k)
    with pytest.raises(DataError, match="too uneven"):
        folds(LanguageLadder(), ["x" * 10_000, *lines], 4)


@dataclass(frozen=True, kw_only=True)
class SeededConfig(NGramConfig):
    seed: int = option(0, "start of random numbers")


class Seeded(NGram):
    config_class = SeededConfig

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        noise = np.random.default_rng(self.config.seed).uniform(0, 1, len(ids)).astype(np.float32)
        return super().sequence_log_probs(ids, lengths) - noise


def test_seeds_are_averaged(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.comparison.ab.model_class", lambda name: Seeded)
    one, three = (
        ab(lines, both={"order": 2}, a={"smoothing": "add-k"}, folds=4, seeds=seeds)
        for seeds in ([1], [1, 2, 3])
    )
    assert three.runs == "last of 4 folds, 3 seeds"
    assert one["nats per token"].a != three["nats per token"].a
    assert one["nats per token"].difference == pytest.approx(
        three["nats per token"].difference, abs=1e-5
    )  # same noise


def test_refusals(lines: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"are the same; .*b=\.\.\..*case=lower for normalize"):
        ab(lines, a={"order": 2}, b={"order": 2})
    with pytest.raises(ConfigError, match="did you mean 'order'"):
        ab(lines, a={"ordr": 2})
    with pytest.raises(ConfigError, match="no seed"):
        ab(lines, a={"order": 2}, seeds=[1])
    with pytest.raises(ConfigError, match="unknown model"):
        ab(lines, a={"order": 2}, model="ngrm")


def test_command(lines: list[str], tmp_path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    arguments = [
        "ab",
        str(path),
        "--both",
        "tokenizer=word",
        "--b",
        "normalize=case=lower,stem=porter",
        "--folds",
        "2",
        "-q",
    ]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.output
    assert "unknown tokens" in shown.output
    values = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).output)
    assert values["b"] == {"tokenizer": "word", "normalize": "case=lower,stem=porter"}
    typed = CliRunner().invoke(
        main,
        [
            "ab",
            str(path),
            "--both",
            "order=3",
            "--a",
            "prune=0,0,1",
            "--b",
            "min-count=2",
            "--b",
            "prune-entropy=0.1",
            "--both",
            "vocab-size=none",
            "--folds",
            "2",
            "--json",
            "-q",
        ],
    )
    assert json.loads(typed.output)["a"] == {"order": 3, "vocab_size": None, "prune": [0, 0, 1]}
    wrong = CliRunner().invoke(main, ["ab", str(path), "--a", "order", "-q"])
    assert isinstance(wrong.exception, ConfigError)
