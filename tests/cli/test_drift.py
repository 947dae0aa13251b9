"""`drift` on logs of a server, `evaluate --card`, and `models DIR`."""

import json
import random

import pytest

from seqloom import cards
from tests.fuzz.specimens import SPECIMENS

WORDS = ["the", "a", "cat", "dog", "king", "queen", "sat", "ran", "on", "house", "saw", "good"]
FOREIGN = ["der", "die", "Hund", "Katze", "lief", "saß", "im", "Haus", "und", "sah", "gut", "nicht"]


def lines(n, seed, words=WORDS):
    rng = random.Random(seed)
    return [" ".join(rng.choices(words, k=rng.randint(4, 9))) for _ in range(n)]


def labelled(path, texts):
    rows = (f"{'good' if 'good' in text else 'bad'}\t{text}" for text in texts)
    path.write_text("label\ttext\n" + "\n".join(rows) + "\n")


def log(path, texts, **more):
    entries = [
        {"time": 1.5, "model": "m", "route": "/x", "texts": [t], "status": 200} for t in texts
    ]
    path.write_text("".join(json.dumps(one | more) + "\n" for one in entries))


@pytest.fixture
def place(seqloom, tmp_path):
    """A classifier m with a card, an n-gram model n, logs of own and of foreign texts."""
    labelled(tmp_path / "train.tsv", lines(200, 0))
    labelled(tmp_path / "test.tsv", lines(200, 1))
    (tmp_path / "train.txt").write_text("\n".join(lines(200, 2)))
    (tmp_path / "test.txt").write_text("\n".join(lines(200, 3)))
    assert seqloom("fit", "naive-bayes", "train.tsv", "-o", "m", "-q").code == 0
    assert seqloom("fit", "ngram", "train.txt", "-o", "n", "-q").code == 0
    log(tmp_path / "own.jsonl", lines(80, 4))
    log(tmp_path / "mixed.jsonl", lines(64, 5) + lines(16, 6, FOREIGN))
    return tmp_path


def test_data_are_read_again_for_the_card_without_a_word(seqloom, place):
    (place / "plain.tsv").write_text((place / "test.tsv").read_text().partition("\n")[2])
    said = seqloom("evaluate", "m", "plain.tsv", "--card").err
    assert said.count("is taken as the label") == 1


def test_without_a_reference_the_two_ways_are_named(seqloom, place):
    line = seqloom("drift", "own.jsonl", "m").one_line()
    assert "--reference FILE" in line
    assert "seqloom evaluate m FILE --card" in line


@pytest.mark.parametrize(("model", "data"), [("m", "test.tsv"), ("n", "test.txt")])
def test_from_a_card_and_from_a_file_it_says_the_same(seqloom, place, model, data):
    assert seqloom("evaluate", model, data, "--card", "-q").code == 0
    results = cards.read_results(place / model)
    (one,) = results["results"]
    assert one["data"] == data
    assert one["speed"]["examples_per_second"] > 0
    shown = seqloom("evaluate", model, data, "--json", "-q").json()[0]
    assert one["metrics"] == shown["metrics"]
    assert one["signature"] == shown["signature"]
    for name, fires in (("own.jsonl", False), ("mixed.jsonl", True)):
        (by_card,) = seqloom("drift", name, model, "--json", "-q").json()
        (by_file,) = seqloom("drift", name, model, "--reference", data, "--json", "-q").json()
        assert by_card["fires"] is by_file["fires"] is fires
        measures = [[row["measure"] for row in r["whole"]["measures"]] for r in (by_card, by_file)]
        assert measures[0] == measures[1]
        for a, b in zip(by_card["whole"]["measures"], by_file["whole"]["measures"]):
            assert a["value"] == pytest.approx(b["value"], rel=1e-3)
    most = by_card["most_foreign"]
    assert all(set(one["text"].split()) <= set(FOREIGN) for one in most)
    assert len(most) == 5


def test_what_a_person_reads(seqloom, place):
    seqloom("evaluate", "n", "test.txt", "--card", "-q")
    ran = seqloom("drift", "mixed.jsonl", "n", "--window", "40", "--show", "2")
    assert ran.code == 0
    first = ran.out.splitlines()[0]
    assert first.startswith(
        "fires: 80 texts differ from the reference (test.txt, 200 texts); largest: "
    )
    assert " against " in first
    assert "it fires at most 1 % of the time" in first
    assert "1-40 " in ran.out
    assert "41-80  fires" in ran.out
    assert len(ran.out.partition("most foreign texts\n")[2].splitlines()) == 2
    quiet = seqloom("drift", "own.jsonl", "n").out
    assert quiet.startswith("quiet: nothing shows that 80 texts")


def test_the_exit_code_tells_only_when_asked(seqloom, place):
    args = ("--reference", "test.tsv", "-q")
    assert seqloom("drift", "mixed.jsonl", "m", *args).code == 0
    assert seqloom("drift", "mixed.jsonl", "m", *args, "--fail").code == 1
    assert seqloom("drift", "own.jsonl", "m", *args, "--fail").code == 0


def test_logs_as_they_are(seqloom, place):
    """Half a line at the end, refusals, ids instead of text, empty texts, pairs, control characters."""
    good = (place / "own.jsonl").read_text()
    more = [
        {"model": "m", "texts": ["x"], "status": 429},
        {"model": "m", "texts": [[1, 2, 3], 7, None, ["a pair", "of texts"]], "status": 200},
        {"model": "m", "texts": ["", "  "], "status": 200},
        {"model": "m", "text": "a cat \x1b[31m saw \ud800"},
        {"model": "m"},
        [1],
    ]
    (place / "odd.jsonl").write_text(good + "\n".join(map(json.dumps, more)) + '\n{"texts": ["ha')
    ran = seqloom("drift", "odd.jsonl", "m", "--reference", "test.tsv", "--show", "100")
    assert ran.code == 0, ran.err
    for remark in (
        "1 requests that were",
        "5 inputs of another kind",
        "2 empty texts",
        "2 damaged lines",
    ):
        assert remark in ran.err
    assert "81 texts" in ran.out
    assert "\x1b" not in ran.out


def test_several_models_in_one_log(seqloom, place):
    a, b = (place / "own.jsonl").read_text(), (place / "mixed.jsonl").read_text()
    (place / "two.jsonl").write_text(a.replace('"m"', '"a"') + b.replace('"m"', '"b"'))
    args = ("--reference", "test.tsv", "--json", "-q")
    assert seqloom("drift", "two.jsonl", "m", *args, "--name", "a").json()[0]["fires"] is False
    assert seqloom("drift", "two.jsonl", "m", *args, "--name", "b").json()[0]["fires"] is True
    assert "choose by --name" in seqloom("drift", "two.jsonl", "m", *args).one_line()
    assert (
        "no requests to 'c'" in seqloom("drift", "two.jsonl", "m", *args, "--name", "c").one_line()
    )


def test_what_cannot_be_compared_is_one_line(seqloom, place):
    assert (
        "nowhere.jsonl: cannot be read"
        in seqloom("drift", "nowhere.jsonl", "m", "--reference", "test.tsv").one_line()
    )
    (place / "few.jsonl").write_text('{"texts": ["a cat"]}\n')
    assert (
        "few.jsonl: 1 texts; 10 are needed to say anything"
        in seqloom("drift", "few.jsonl", "m", "--reference", "test.tsv").one_line()
    )
    SPECIMENS["naive"]().save(place / "series")
    (place / "numbers.csv").write_text("x\n" + "\n".join(map(str, range(100))))
    assert (
        "a forecaster reads something else"
        in seqloom("drift", "own.jsonl", "series", "--reference", "numbers.csv", "-q").one_line()
    )
    seqloom("evaluate", "m", "test.tsv", "--card", "-q")
    results = json.loads((place / "m" / "results.json").read_text())
    results["reference"]["keys"] = [3]
    (place / "m" / "results.json").write_text(json.dumps(results))
    assert "results.json: damaged" in seqloom("drift", "own.jsonl", "m").one_line()


def test_a_card_of_what_came_through_a_pipe_has_no_reference(seqloom, place):
    ran = seqloom("evaluate", "n", "--card", stdin=(place / "test.txt").read_text())
    assert "no reference for drift" in ran.err
    known = cards.read_results(place / "n")
    assert known["results"][0]["data"] == "standard input"
    assert known["reference"] is None


def test_a_card_needs_a_directory(seqloom, place):
    (place / "v.txt").write_text("2 2\na 1 0\nb 0 1\n")
    (place / "q.txt").write_text("a b 3\nb a 3\n")
    assert "v.txt is a file" in seqloom("evaluate", "v.txt", "--on", "q.txt", "--card").one_line()


# ---- models DIR


def test_saved_models_by_task_with_their_results(seqloom, place):
    seqloom("evaluate", "m", "test.tsv", "--card", "-q")
    (place / "broken").mkdir()
    (place / "broken" / "config.json").write_text('{"format": "seqloom"')
    (place / "broken" / "model.safetensors").write_text("")
    (place / "other").mkdir()
    (place / "other" / "config.json").write_text('{"model_type": "bert"}')
    ran = seqloom("models", ".")
    assert ran.code == 0
    tables = dict(part.split("\n", 1) for part in ran.out.strip().split("\n\n"))
    assert list(tables) == ["classifier", "language model", "damaged"]
    row = tables["classifier"].splitlines()[-1].split()
    assert row[:3] == ["m", "naive-bayes", "accuracy"]
    assert tables["language model"].splitlines()[-1].split()[:4] == ["n", "ngram", "-", "-"]
    assert tables["damaged"].splitlines()[0].startswith("broken: config.json: damaged")
    assert "other" not in ran.out
    found = {one["path"]: one for one in seqloom("models", ".", "m", "--json").json()}
    assert set(found) == {"m", "n", "broken"}
    metrics = cards.read_results(place / "m")["results"][0]["metrics"]
    assert found["m"]["value"] == metrics["accuracy"]
    assert found["m"]["interval"] == metrics["accuracy_interval"]
    assert "damaged" in found["broken"]["error"]


def test_members_belong_to_their_mixture_and_damaged_results_are_told(seqloom, place):
    SPECIMENS["mixture"]().save(place / "all" / "mixture")
    (place / "all" / "mixture" / "results.json").write_text("{")
    assert [one["path"] for one in seqloom("models", "all", "--json").json()] == ["all/mixture"]
    assert "results.json: damaged" in seqloom("models", "all").out
    (place / "empty").mkdir()
    assert seqloom("models", "empty").out == "no saved models in empty\n"
    assert "nowhere: no such directory" in seqloom("models", "nowhere").one_line()


def test_names_cannot_play_tricks_on_a_terminal(seqloom, place):
    config = json.loads((place / "n" / "config.json").read_text())
    config["task"] = "evil\x1b[2J"
    (place / "n" / "config.json").write_text(json.dumps(config))
    assert "\x1b" not in seqloom("models", ".").out


# ---- every task that reads texts


def test_an_answerer_is_watched(seqloom, tmp_path):
    """By its questions and contexts, and by how often it finds an answer."""
    held = [{"question": "who sat", "context": text, "answer": ""} for text in lines(120, 7)]
    (tmp_path / "held.jsonl").write_text("\n".join(map(json.dumps, held)))
    SPECIMENS["answerer"]().save(tmp_path / "m")
    assert seqloom("evaluate", "m", "held.jsonl", "--card", "-q").code == 0
    known = cards.read_results(tmp_path / "m")
    assert known["results"][0]["speed"]["examples_per_second"] > 0
    for name, words, fires in (("own", WORDS, False), ("foreign", FOREIGN, True)):
        log(tmp_path / f"{name}.jsonl", [["who sat", text] for text in lines(50, 8, words)])
        (found,) = seqloom("drift", f"{name}.jsonl", "m", "--json", "-q").json()
        assert found["fires"] is fires
        measures = {row["measure"] for row in found["whole"]["measures"]}
        assert {"words used", "bytes"} <= measures
        assert measures & {"label no answer", "label an answer", "label other labels"}


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"label\ttext\nx\ty\n", b"\x00\xff\x1f\x8b" * 50, b"[]", b"7"]
)
@pytest.mark.parametrize("model", ["m", "n"])
def test_a_file_that_is_no_log(seqloom, place, model, content):
    (place / "odd").write_bytes(content)
    reference = {"m": "test.tsv", "n": "test.txt"}[model]
    line = seqloom("drift", "odd", model, "--reference", reference, "-q").one_line()
    assert "odd: 0 texts; 10 are needed to say anything" in line
    assert "serve --log" in line


@pytest.mark.parametrize(
    ("name", "data", "measures"),
    [
        ("most-frequent-tag", "tagged.conll", {"unknown words"}),
        ("copy", "pairs.tsv", {"new words"}),
        ("bert", "lines.txt", {"new words"}),
        ("vectors", "lines.txt", {"new words"}),
        ("hmm", "lines.txt", {"new words"}),
    ],
)
def test_models_of_other_tasks(seqloom, tmp_path, name, data, measures):
    texts = lines(120, 7)
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    (tmp_path / "pairs.tsv").write_text("\n".join(f"{text}\t{text}" for text in texts))
    rows = ("".join(f"{word}\tNN\n" for word in text.split()) for text in texts)
    (tmp_path / "tagged.conll").write_text("\n".join(rows))
    SPECIMENS[name]().save(tmp_path / "m")
    log(tmp_path / "own.jsonl", lines(50, 8))
    log(tmp_path / "foreign.jsonl", lines(50, 9, FOREIGN))
    args = ("--reference", data, "--json", "-q")
    (own,) = seqloom("drift", "own.jsonl", "m", *args).json()
    (foreign,) = seqloom("drift", "foreign.jsonl", "m", *args).json()
    assert foreign["fires"]
    assert not own["fires"]
    assert measures | {"words used", "bytes"} <= {r["measure"] for r in own["whole"]["measures"]}
