"""fit, evaluate and predict of an answerer on the command line, with bad data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from seqloom.cli.main import main
from seqloom.errors import SeqloomError
from tests.fuzz.specimens import QUESTIONS

SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": context,
                    "qas": [
                        {"id": f"q{i}", "question": question, "is_impossible": True}
                        if answer is None
                        else {
                            "id": f"q{i}",
                            "question": question,
                            "answers": [{"text": answer, "answer_start": context.index(answer)}],
                        }
                    ],
                }
            ]
        }
        for i, (question, context, answer) in enumerate(QUESTIONS)
    ]
}


def run(*arguments: str, input: str | None = None) -> str:
    done = CliRunner().invoke(main, [str(one) for one in arguments], input=input)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("answering")
    (made / "train.json").write_text(json.dumps(SQUAD))
    small = ("--d-hidden", "6", "--d-embed", "4", "--steps", "2")
    run("fit", "answerer", made / "train.json", "-o", made / "model", *small)
    return made


def test_evaluate_gives_exact_match_and_f1(place: Path) -> None:
    result = json.loads(run("evaluate", place / "model", place / "train.json", "--json"))
    assert {"exact_match", "exact_match_interval", "f1", "no_answer_accuracy"} <= set(
        result["metrics"]
    )
    assert result["metrics"]["questions"] == 3
    assert result["signature"]["data"]


def test_predict_has_one_answer_for_each_row(place: Path) -> None:
    lines = run("predict", place / "model", place / "train.json", "--json", "--keep", "id")
    answers = [json.loads(line) for line in lines.splitlines()]
    assert [one["id"] for one in answers] == ["q0", "q1", "q2"]
    for one, (question, context, _) in zip(answers, QUESTIONS):
        assert one["question"] == question
        assert 0 <= one["no_answer"] <= 1
        if one["start"] is not None:
            assert context[one["start"] : one["end"]] == one["answer"]


def test_lines_of_a_pipe_are_a_question_a_tab_and_a_context(place: Path) -> None:
    lines = "who saw it ?\tMary saw New York .\nwho ?\t\n\t\n"
    answers = run("predict", place / "model", "--json", input=lines).splitlines()
    assert [json.loads(one)["row"] for one in answers] == [1, 2, 3]
    assert json.loads(answers[2])["answer"] is None
    by_object = '{"question": "who saw it ?", "context": "Mary saw New York ."}\n'
    again = json.loads(run("predict", place / "model", "--json", input=by_object))
    assert again == json.loads(answers[0])
    shown = run("predict", place / "model", input=by_object)
    assert shown == f"{again['answer']}\twho saw it ?\n"


def test_what_is_wrong_is_one_line(place: Path) -> None:
    for arguments, message in (
        (("predict", place / "model", place / "train.json", "--column", "x"), "--question-column"),
        (("fit", "answerer", place / "none.json", "-o", place / "m"), "none.json"),
    ):
        done = CliRunner().invoke(main, [str(one) for one in arguments])
        assert isinstance(done.exception, SeqloomError)
        assert message in str(done.exception)
