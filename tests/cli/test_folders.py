"""Directories on the command line: what is skipped, what --strict refuses, and judging a model on
its training text.
"""

import pytest


@pytest.fixture
def notes(tmp_path):
    (tmp_path / "notes").mkdir()
    for i in range(3):
        (tmp_path / "notes" / f"{i}.txt").write_text(
            f"the note number {i}\nthe cat sat on the mat\n"
        )
    (tmp_path / "notes" / "old.txt").write_bytes("naïve\n".encode("latin-1"))
    return "notes"


def test_a_badly_encoded_file_is_skipped(seqloom, notes):
    done = seqloom("fit", "ngram", notes, "-o", "m", "--order", 2)
    assert done.code == 0
    assert "notes: skipped 1 file: not valid UTF-8 (old.txt)" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "ngram", "notes", "-o", "m"),
        ("tokenize", "notes", "--kind", "word"),
        ("data", "describe", "notes"),
        ("compare", "notes"),
        ("phrases", "notes"),
        ("ab", "notes", "--b", "normalize=case=lower"),
    ],
    ids=lambda c: c[0],
)
def test_strict_refuses_it(seqloom, notes, command):
    refusal = seqloom(*command, "--strict")
    assert refusal.code == 1
    assert refusal.err.splitlines()[-1].startswith(
        "seqloom: notes/old.txt is not UTF-8 text: line 1, byte offset 2 holds 0xEF"
    )


def test_strict_in_evaluate_and_score(seqloom, notes):
    seqloom("fit", "ngram", "notes/0.txt", "-o", "m", "--order", 2)
    for command in ("evaluate", "score"):
        assert seqloom(command, "m", notes).code == 0
        assert "not UTF-8 text" in seqloom(command, "m", notes, "--strict").err


def test_evaluating_on_training_text_is_said(seqloom, notes):
    seqloom("fit", "ngram", "notes/0.txt", "-o", "m", "--order", 2)
    assert "fitted on" not in seqloom("evaluate", "m", "notes/1.txt").err
    done = seqloom("evaluate", "m", "notes/0.txt", "--json")
    assert "warning: this ngram model was fitted on 0.txt" in done.err
    assert len(done.json()) == 1
