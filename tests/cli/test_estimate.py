"""`seqloom fit --dry-run`: what training would take, and nothing else."""

import pytest

pytest.importorskip("torch")

LSTM = ("fit", "lstm", "text", "-o", "m", "--tokenizer", "byte", "--d-hidden", 8, "--steps", 4)


def test_models_without_a_network_have_no_estimate(seqloom, tmp_path):
    (tmp_path / "text").write_text("a b c\n" * 50)
    ran = seqloom("fit", "ngram", "text", "-o", "m", "--dry-run")
    assert ran.code == 2
    assert "--dry-run" in ran.err


def test_the_command_writes_nothing(seqloom, tmp_path):
    (tmp_path / "text").write_text("a b c d e f\n" * 50)
    shown = seqloom(*LSTM, "--dry-run", "-q")
    assert shown.code == 0
    assert shown.out.startswith("lstm: nothing was trained or written\n")
    (said,) = seqloom(*LSTM, "--dry-run", "--json", "-q").json()
    assert said["model"] == "lstm"
    assert said["steps"] == 4
    assert said["peak"] > said["weights"] == 4 * said["parameters"]
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_more_memory_than_there_is_is_a_warning(seqloom, tmp_path, monkeypatch):
    from seqloom.training import estimate

    (tmp_path / "text").write_text("a b c d e f\n" * 50)
    monkeypatch.setattr(estimate, "_available", lambda device, held: 1 << 20)
    ran = seqloom(*LSTM, "--dry-run")
    assert ran.code == 0
    assert "warning: this is more memory than there is" in ran.err


def test_batch_sizes_are_swept(seqloom, tmp_path):
    (tmp_path / "text").write_text("a b c d e f\n" * 300)
    (said,) = seqloom(*LSTM, "--sweep", 2, "--sweep", 4, "--json", "-q").json()
    assert [row["batch_size"] for row in said["sweep"]] == [2, 4]
    shown = seqloom(*LSTM, "--sweep", 2, "-q").out.splitlines()
    assert shown[0] == "lstm: nothing was written"
    assert shown[1].split()[0] == "batch_size"
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
