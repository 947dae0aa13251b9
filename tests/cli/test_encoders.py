"""Encoders from the command line, without transformers: a saved one goes to its form and back, and
every command answers.
"""

import json

import pytest

from tests.fuzz.specimens import SPECIMENS

pytest.importorskip("torch")


@pytest.fixture
def saved(tmp_path):
    SPECIMENS["bert"]().save(tmp_path / "model")
    SPECIMENS["bert-without-head"]().save(tmp_path / "headless")
    (tmp_path / "text").write_text("the cat sat\non the log\n")
    return tmp_path


def test_there_and_back_and_every_command(seqloom, saved):
    assert seqloom("convert", "model", "theirs", "--form", "hugging-face").code == 0
    assert json.loads((saved / "theirs" / "config.json").read_text())["architectures"] == [
        "BertForMaskedLM"
    ]
    (found,) = seqloom("convert", "theirs", "again", "--json").json()
    assert (found["model"], found["head"]) == ("bert", True)
    first, second = (
        seqloom("fill", place, "the [MASK] sat", "-k", 3) for place in ("model", "again")
    )
    assert first.code == 0
    assert first.out == second.out
    assert len(first.out.splitlines()) == 3
    piped = seqloom("fill", "model", "--json", stdin="the [MASK] sat\n[MASK] [MASK]\n").json()
    assert [len(answer["fills"]) for answer in piped] == [5, 5]
    assert len(piped[1]["fills"][0]["tokens"]) == 2
    (values,) = seqloom("evaluate", "model", "text", "--json").json()
    assert values["metrics"]["tokens"] == 6
    scores = seqloom("score", "model", "text", "--json").json()
    tokens = seqloom("score", "model", "text", "--tokens", "--json").json()
    assert sum(one["score"] for one in scores) == pytest.approx(
        sum(one["log_prob"] for one in tokens), abs=1e-4
    )
    assert "masked" in seqloom("info", "model").out


def test_blank_lines_have_empty_answers(seqloom, saved):
    lines = "\r\nthe [MASK] sat\r\n \n[MASK] sat\n"
    piped = seqloom("fill", "model", "--json", "-k", 2, stdin=lines).json()
    assert [answer["text"] for answer in piped] == ["", "the [MASK] sat", " ", "[MASK] sat"]
    assert [len(answer["fills"]) for answer in piped] == [0, 2, 0, 2]
    printed = seqloom(
        "fill", "model", "-k", 1, stdin=lines
    ).out.splitlines()  # answers with a blank line in between
    assert [bool(line) for line in printed] == [False, True, False, False, True]
    assert seqloom("fill", "model", stdin="\n\n").out == "\n"
    assert "has no [MASK]" in seqloom("fill", "model", "").one_line()


def test_refusals_are_one_line(seqloom, saved):
    assert "has no [MASK]" in seqloom("fill", "model", "the cat").one_line()
    assert "at most 22" in seqloom("fill", "model", "[MASK]" + " cat" * 30).one_line()
    assert "published without the layer" in seqloom("fill", "headless", "the [MASK]").one_line()
    assert "published without the layer" in seqloom("evaluate", "headless", "text").one_line()
    assert seqloom("convert", "model", "theirs", "--form", "hugging-face").code == 0
    assert "the task 'poetry'" in seqloom("convert", "theirs", "out", "--task", "poetry").one_line()
    (saved / "theirs" / "model.safetensors").write_bytes(b"cut")
    assert "cut off" in seqloom("convert", "theirs", "out").one_line()
    assert not (saved / "out").exists()


@pytest.mark.parametrize("bits", ["8", "4"])
def test_fewer_bits(seqloom, saved, bits):
    assert f"bert-2x8-{bits}bit" in seqloom("convert", "model", "small", "--bits", bits).out
    assert json.loads(seqloom("info", "small", "--json").out)["learnt"]["bits"] == int(bits)
    assert len(seqloom("fill", "small", "the [MASK] sat", "-k", 3).out.splitlines()) == 3
    (values,) = seqloom("evaluate", "small", "text", "--json").json()
    assert values["metrics"]["tokens"] == 6
    assert "bits a weight already" in seqloom("convert", "small", "more", "--bits", "4").one_line()
    assert seqloom("convert", "small", "theirs", "--form", "hugging-face").code == 0
    assert f"bert-2x8-{bits}bit" in seqloom("convert", "theirs", "again", "--bits", bits).out
    first, second = (
        seqloom("fill", place, "the [MASK] sat", "--json").json() for place in ("small", "again")
    )
    assert first == second
