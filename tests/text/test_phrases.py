"""Phrases against plain Python and gensim; the same text wherever blocks end; what is saved and refused."""

import json
import math
import random
from collections import Counter

import pytest

from seqloom.data.corpus import Corpus, read
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.text import phrases as module
from seqloom.text.phrases import ENGLISH, Phrases, PhrasesConfig
from tests.golden import gensim_answers
from tests.golden.gensim_answers import PHRASES, sentences

HEAD = {"format": module.FORMAT, "format_version": 1}


def slow_counts(lines, connectors):
    words, pairs, tokens = Counter(), Counter(), 0
    for line in lines:
        tokens += len(line)
        begun = None
        for word in line:
            if word in connectors:
                begun = begun and [*begun, word]
                continue
            words[word] += 1
            if begun:
                pairs[(*begun, word)] += 1
            begun = [word]
    return words, pairs, tokens


def slow_scores(lines, config):
    words, pairs, n = slow_counts(lines, config.connecting)
    found = {}
    for pair, count in pairs.items():
        a, b = words[pair[0]], words[pair[-1]]
        if config.scoring == "default":
            score = (count - config.min_count) / (a * b) * (len(words) + len(pairs))
        else:
            score = (
                math.log(count / n / (a / n * b / n)) / -math.log(count / n)
                if count >= config.min_count
                else -math.inf
            )
        if score > config.limit:
            found[pair] = (count, score)
    return found


def slow_join(line, phrases, connectors, joiner):
    done, i = [], 0
    while i < len(line):
        end = i + 1
        while end < len(line) and line[end] in connectors:
            end += 1
        if line[i] not in connectors and end < len(line) and tuple(line[i : end + 1]) in phrases:
            done.append(joiner.join(line[i : end + 1]))
            i = end + 1
        else:
            done.append(line[i])
            i += 1
    return done


OPTIONS = [*PHRASES, {"threshold": -1e9}]


@pytest.mark.parametrize("options", OPTIONS)
def test_equal_to_plain_python(options):
    lines = sentences(0, 400)
    made = Phrases.learn([" ".join(line) for line in lines], **options)
    config = PhrasesConfig(**options)
    wanted = slow_scores(lines, config)
    assert {p.words: p.count for p in made} == {
        words: count for words, (count, _) in wanted.items()
    }
    for p in made:
        assert p.score == pytest.approx(wanted[p.words][1], rel=1e-9)
    assert [p.score for p in made] == sorted((p.score for p in made), reverse=True)
    text = "\n".join(" ".join(line) for line in lines)
    assert made.join(text) == "\n".join(
        " ".join(slow_join(line, wanted, config.connecting, config.joiner)) for line in lines
    )


@pytest.mark.parametrize("source", ["recorded", "live"])
@pytest.mark.parametrize("number", range(len(PHRASES)))
def test_equal_to_gensim(number, source):
    peer = gensim_answers.recorded()["phrases"]
    config, lines = PhrasesConfig(**PHRASES[number]), peer["lines"]
    joined, applied = peer["joined"][number], peer["scores"][number]
    if source == "live":
        joined, applied = gensim_answers.phrases([line.split() for line in lines], config)
    made = Phrases.learn(lines, config)
    assert [made.join(line) for line in lines] == joined
    scores = {config.joiner.join(p.words): p.score for p in made}
    assert applied
    assert all(scores[name] == pytest.approx(score, rel=1e-9) for name, score in applied.items())


@pytest.mark.parametrize("source", ["recorded", "live"])
def test_two_passes_equal_gensim_twice(source):
    peer = gensim_answers.recorded()["phrases"]
    lines = peer["lines"]
    wanted = (
        peer["two_passes"]
        if source == "recorded"
        else gensim_answers.two_passes([line.split() for line in lines])
    )
    made = Phrases.learn(lines, threshold=3, passes=2)
    assert [made.join(line) for line in lines] == wanted
    assert ("new_york", "times") in {p.words for p in made.passes[1]}
    assert made.join("the new york times") == "the new_york_times"


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_blocks_may_end_anywhere(size, monkeypatch, tmp_path):
    """Long lines cut into many blocks, tables that must grow, several files: the same counts and
    the same text.
    """
    lines = sentences(3, 60)
    text = (
        "  ".join(" ".join(line) for line in lines[:30])
        + "\n"
        + "\n".join("\t".join(line) for line in lines[30:])
        + "\n"
    )
    options = {"threshold": 0.5, "connectors": "english", "min_count": 2, "passes": 2}
    whole = Phrases.learn(text, **options)
    monkeypatch.setattr(module, "_BLOCK", size)
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    corpus = read(tmp_path / "text.txt")
    cut = Phrases.learn(corpus, **options)
    assert cut.passes == whole.passes
    assert cut.info == whole.info
    parts = list(cut.join_blocks(corpus))
    assert b"".join(parts).decode() == whole.join(text)
    assert cut.joined > 20
    assert len(parts) > 1
    (tmp_path / "a").write_text(
        "new york", encoding="utf-8"
    )  # files that do not end with a newline do not run together
    (tmp_path / "b").write_text("times new", encoding="utf-8")
    several = read([tmp_path / "a", tmp_path / "b"])
    assert Phrases.learn(several, threshold=-1e9, min_count=1).passes[0] == [
        *Phrases.learn(["new york", "times new"], threshold=-1e9, min_count=1).passes[0]
    ]


def test_everything_else_stays_as_it_is():
    made = Phrases.learn(
        ["new york is large"] * 9 + ["is it new", "york was large"] * 3, threshold=0.01, min_count=3
    )
    for text in (
        "",
        "\n",
        "  new\tyork  \r\n",
        "new  york\n\nnew\nyork",
        "york new",
        "new york new york",
        "\x00 new york",
    ):
        joined = made.join(text)
        assert joined.replace("new_york", "") == text.replace("new  york", "").replace(
            "new york", ""
        ).replace("new\tyork", "")
    assert made.join("new  york") == "new_york"
    assert made.join("new\nyork") == "new\nyork"
    assert made.join(["new york", "a"]) == ["new_york", "a"]
    assert made.join("new new york york") == "new new_york york"


def test_many_pairs_grow_the_tables():
    rng = random.Random(0)
    line = " ".join(
        rng.choice("abcdefgh") + str(rng.randint(0, 999)) + rng.choice([" of", ""])
        for _ in range(120_000)
    )
    made = Phrases.learn(line, min_count=1, connectors="of", threshold=1e12)
    words, pairs, tokens = slow_counts([line.split()], {"of"})
    assert made.info == {"tokens": tokens, "words": len(words), "pairs": len(pairs)}
    assert len(pairs) > 70_000


def test_saved_and_loaded(tmp_path):
    lines = [" ".join(line) for line in sentences(4, 400)]
    made = Phrases.learn(lines, threshold=1, passes=2, connectors="english")
    made.save(tmp_path / "p.json")
    again = Phrases.load(tmp_path / "p.json")
    assert (again.passes, again.config, again.info) == (made.passes, made.config, made.info)
    assert again.join(lines) == made.join(lines)
    assert again.config.connecting == ENGLISH


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a file of phrases"),
        ("{}", "not a file of phrases that this"),
        (json.dumps(HEAD | {"config": {}, "info": {}, "passes": [[["a", 1, 2.0]]]}), "two words"),
        (json.dumps(HEAD | {"config": {"min": 3}, "info": {}, "passes": []}), "damaged"),
        (json.dumps(HEAD | {"config": {}, "passes": []}), "damaged"),
    ],
)
def test_bad_files(tmp_path, text, said):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(ModelError, match=said):
        Phrases.load(tmp_path / "p.json")


def test_refused():
    for options, said in (
        ({"joiner": " "}, "joiner"),
        ({"joiner": ""}, "joiner"),
        ({"min_count": 0}, "min_count"),
        ({"scoring": "npmi", "threshold": 10.0}, "between -1 and 1"),
        ({"scoring": "pmi"}, "scoring"),
        ({"mincount": 3}, "it is called min_count here"),
    ):
        with pytest.raises(ConfigError, match=said):
            Phrases.learn("a b", **options)
    with pytest.raises(DataError, match="no word in this text"):
        Phrases.learn(Corpus.from_texts([" ", ""]))
    with pytest.raises(DataError, match="only once"):
        Phrases.learn(iter(["a b"]))
    assert len(Phrases.learn("alone")) == 0
