"""`seqloom advise` and `seqloom inspect run` as commands: on saved models, runs in training, comparisons."""

import json

import pytest

LOG = [
    {"step": s, "loss": 3 - s / 500, "lr": 0.01, "norm": 2.0, "largest_norm": 2.0, "clipped": 1.0}
    for s in range(10, 101, 10)
]


def write(place, lines=LOG):
    place.mkdir(parents=True)
    (place / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_real_comparison(tmp_path, seqloom):
    data = tmp_path / "corpus.txt"
    data.write_text("the cat sat on the mat\nthe dog sat on the log\n" * 200)
    assert (
        seqloom("compare", data, "--rungs", "byte-3,byte-4", "-o", "report", "--no-curve").code == 0
    )
    answer = json.loads((tmp_path / "report" / "comparison.json").read_text())["answer"]
    (shown,) = seqloom("advise", "report/", "--json").json()
    rules = {one["rule"]: one for one in shown["findings"]}
    assert ("smallest" in rules) == (answer["smallest"] != answer["best"])
    assert "overlap" in rules  # its lines come again and again
    assert "finding" in seqloom("advise", "report").out


def test_findings_of_a_run_in_training(seqloom, tmp_path):
    write(tmp_path / "a.run")
    done = seqloom("advise", "a")  # not saved yet: its run is meant
    assert done.out.startswith("a.run: 3 findings\n\n- 100 % of the steps were clipped")
    assert "  try: a limit for exceptions only: --clip-at 6" in done.out
    (found,) = seqloom("advise", "a.run/", "--json").json()
    assert [one["rule"] for one in found["findings"]] == ["clipped", "no-held-out", "interrupted"]
    assert found["findings"][0]["figures"]["usual_norm"] == 2.0
    assert found["findings"][0]["options"] == {"clip_at": 6}
    assert found["findings"][1]["advice"] == "name held-out data: --valid FILE"


@pytest.mark.parametrize("command", [("advise",), ("inspect", "run")])
@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (None, "no such directory"),
        ([], "nothing has been logged yet; wait for the first steps"),
        ([{"step": 1}], "nothing has been logged yet"),
        ([{"step": 1, "loss": "high"}, {"step": 2, "loss": [1]}], "nothing has been logged yet"),
        ([{"step": 1, "loss": 1 << 70}], "nothing has been logged yet"),
    ],
)
def test_faults(command, lines, says, seqloom, tmp_path):
    if lines is not None:
        write(tmp_path / "a", lines)
    failed = seqloom(*command, "a")
    assert failed.code == 1
    assert says in failed.one_line()


def test_the_view_as_a_command(seqloom, tmp_path):
    write(tmp_path / "a.run")
    write(tmp_path / "b", [{**line, "loss": 2.0} for line in LOG])
    done = seqloom("inspect", "run", "a", "b", "--chart", "both.svg")
    assert "a.run: interrupted, 100 steps; the same command resumes." in done.out
    assert "Clipped steps" in (tmp_path / "both.svg").read_text()
    (found,) = seqloom("inspect", "run", "a", "b", "--json").json()
    assert [row["loss"] for row in found["runs"]] == [2.8, 2.0]
    assert len(found["rows"]) == 20
    assert "no run given" in seqloom("inspect", "run").one_line()
    assert "did you mean 'steps'" in seqloom("inspect", "run", "a", "--by", "step").one_line()
    assert "its log has no tokens" in seqloom("inspect", "run", "a", "--by", "tokens").one_line()
