"""Questions on contexts in every form, read as the same data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqloom import Questions, read_questions
from seqloom.errors import DataError

CONTEXT = "Ada lives in Rome. Bob, too, lives in Rome."
ROWS = [
    ("Who lives in Rome?", CONTEXT, [("Ada", 0), ("Bob", 19)]),
    ("Where does Bob live?", CONTEXT, [("Rome", 38)]),
    ("Where does Carl live?", CONTEXT, []),
]


def squad(rows: list, **more: object) -> dict:
    questions = [
        {
            "id": str(i),
            "question": question,
            "answers": [{"text": text, "answer_start": start} for text, start in answers],
            **({} if answers else {"is_impossible": True}),
        }
        for i, (question, _, answers) in enumerate(rows)
    ]
    return {"version": "v2.0", "data": [{"paragraphs": [{"context": CONTEXT, "qas": questions}]}]}


def expected() -> Questions:
    return Questions.of(
        [
            {"question": q, "context": c, "answers": [{"text": t, "answer_start": s} for t, s in a]}
            for q, c, a in ROWS
        ]
    )


def test_squad_json_lines_and_lists_are_the_same_data(tmp_path: Path) -> None:
    rows = [
        {
            "question": q,
            "context": c,
            "answers": {"text": [t for t, _ in a], "answer_start": [s for _, s in a]},
        }
        for q, c, a in ROWS
    ]
    files = {
        "squad.json": json.dumps(squad(ROWS)),
        "indented.json": json.dumps(squad(ROWS), indent=2),
        "list.json": json.dumps(rows),
        "lines.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "lines.json": "".join(json.dumps(row) + "\n" for row in rows),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        read = read_questions(tmp_path / name)
        assert read.fingerprint == expected().fingerprint, name
        assert read.n_unanswerable == 1
    assert [span.start for span in read.answers[1]] == [38]


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_tables_have_an_answer_or_none(tmp_path: Path, separator: str, header: bool) -> None:
    file = tmp_path / f"table.{'csv' if separator == ',' else 'tsv'}"
    rows = [("Who?", "Ada lives in Rome.", "Ada"), ("Why?", "Ada lives in Rome.", "")]
    lines = [["question", "context", "answer"]] * header + [list(row) for row in rows]
    file.write_text("".join(separator.join(line) + "\n" for line in lines), encoding="utf-8")
    data = read_questions(file)
    assert data.pairs == [row[:2] for row in rows]
    assert [[span.text for span in spans] for spans in data.answers] == [["Ada"], []]


def test_columns_may_be_named(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("a,q,c,at\nRome,where?,Rome is Rome,8\n", encoding="utf-8")
    data = read_questions(file, question_column="q", context_column="c", answer_column="a")
    assert data.answers[0][0].start == 0  # there is no column answer_start
    file.write_text("answer,question,context,answer_start\nRome,where?,Rome is Rome,8\n")
    assert read_questions(file).answers[0][0].start == 8


def test_a_wrong_start_is_the_nearest_place(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("seqloom.progress.say", said.append)
    data = Questions.of(
        [
            {
                "question": "q",
                "context": "x ab y ab",
                "answers": [{"text": "ab", "answer_start": 6}],
            },
            ("q", "no such word", "ab"),
        ]
    )
    assert [spans[0].start for spans in data.answers] == [7, None]
    assert len(data.learnable()) == 1
    assert "the answers of 1 of 2 questions are not in their context" in said[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ('{"data": 3}', "neither SQuAD's form"),
        ('{"data": [3]}', "list of objects 'paragraphs'"),
        ('{"data": [{"paragraphs": [{"context": "c"}]}]}', "list of objects 'qas'"),
        ('[{"question": "q", "context": "c"}]', "no answer"),
        ('[{"question": "q", "answers": []}]', "no text 'context'"),
        ('[{"question": "q", "context": "c", "answers": [{"x": 1}]}]', "answer without its text"),
        ('[{"question": "q", "context": "c", "answer": "c", "answer_start": "x"}]', "whole number"),
        ("[]", "has no question"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as error:
        read_questions(tmp_path / "bad.json")
    assert "\n" not in str(error.value)


def test_a_table_without_a_context_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("question,other\nwho?,x\n", encoding="utf-8")
    with pytest.raises(DataError, match="say which holds the context with --context-column"):
        read_questions(tmp_path / "t.csv")
