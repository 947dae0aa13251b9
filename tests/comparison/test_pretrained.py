"""Models that were trained elsewhere as rungs: judged on the same bytes, marked, and never called
the best without the mark.
"""

import json

import pytest

import seqloom
from seqloom import NaiveBayes, NGram, compare
from seqloom.errors import SeqloomError

LINE = "to be or not to be, that is the question {}\n"
TEXT = "".join(LINE.format(i % 7) for i in range(120))
RUNGS = ["byte-1", "byte-2"]


@pytest.fixture
def saved(tmp_path):
    """A strong model that has seen everything, and a weak one."""
    NGram(order=6, tokenizer="bpe", vocab_size=300).fit(TEXT).save(tmp_path / "strong")
    NGram(order=1, tokenizer="byte").fit("xyz\n" * 50).save(tmp_path / "weak")
    return tmp_path


def test_a_stronger_one_is_marked_and_not_called_the_best(saved):
    found = compare(
        TEXT, rungs=RUNGS, pretrained=[saved / "strong", saved / "weak"], work=saved / "work"
    )
    assert [r.name for r in found.results] == [*RUNGS, "strong", "weak"]
    strong = found.results[2]
    assert strong.pretrained
    assert not found.results[0].pretrained
    assert strong.value < found.best.value
    assert found.best.name == found.answer.best == "byte-2"  # of those that were trained here
    assert found.answer.pretrained == "strong"
    assert "The best that was trained here is byte-2" in found.answer.text
    assert (
        f"strong * has {strong.value:.3f}; it was trained elsewhere, on unknown text that may "
        f"contain the test" in found.answer.text
    )
    assert (strong.train_seconds, strong.train_speed, strong.peak_memory, strong.steps) == (
        None,
        None,
        None,
        None,
    )
    assert strong.disk > 0
    assert found.difference("strong", "byte-2").difference < 0
    assert found.places["strong"] == str(saved / "strong")
    found.save(saved / "best")
    assert seqloom.load(saved / "best").config.order == 2


def test_bits_per_byte_are_those_of_the_model_on_the_same_bytes(saved):
    found = compare(TEXT, rungs=RUNGS, pretrained=[saved / "strong"], work=saved / "work")
    test = found.bench.splits.test
    assert found.results[-1].bits_per_byte == pytest.approx(
        seqloom.load(saved / "strong").bits_per_byte(test)
    )
    assert found.results[-1].bits_per_byte * test.n_bytes == pytest.approx(
        found.rows["strong"][:, 0].sum()
    )


def test_a_name_that_is_taken_gets_a_number(saved):
    NGram(order=2, tokenizer="byte").fit(TEXT).save(saved / "byte-1")
    found = compare(
        TEXT, rungs=RUNGS, pretrained=[saved / "byte-1", saved / "byte-1"], work=saved / "work"
    )
    assert [r.name for r in found.results] == [*RUNGS, "byte-1-2", "byte-1-3"]


def test_a_tiny_gpt_is_judged_as_it_is(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from seqloom.comparison.bench import Bench

    tiny = seqloom.GPT(
        context=16, d_model=16, n_layers=1, n_heads=2, tokenizer="byte", unit="document"
    )
    tiny.fit("some other text " * 50, train=seqloom.TrainConfig(steps=5)).save(tmp_path / "tiny")
    asked = []
    monkeypatch.setattr(
        Bench,
        "tokenizer",
        lambda self, kind, make=Bench.tokenizer: asked.append(kind) or make(self, kind),
    )
    found = compare(TEXT, rungs=["byte-1"], pretrained=[tmp_path / "tiny"], work=tmp_path / "work")
    assert set(asked) == {"byte"}  # none is made for it
    assert found.results[1].bits_per_byte > 0
    again = compare(TEXT, rungs=["byte-1"], pretrained=[tmp_path / "tiny"], work=tmp_path / "work")
    assert again.results[1].bits_per_byte == found.results[1].bits_per_byte


def test_what_cannot_be_compared_is_one_line(saved):
    NGram(order=2, tokenizer="whitespace").fit(TEXT).save(saved / "lossy")
    NaiveBayes().fit([("a b", "x"), ("c d", "y")]).save(saved / "classifier")
    for name, words in (
        ("lossy", "lossy cannot be compared: its bits per byte would be those of an easier text"),
        ("classifier", "cannot be compared with language models: its task is 'classifier'"),
        ("nothing", "no such directory"),
    ):
        with pytest.raises(SeqloomError, match=words) as error:
            compare(TEXT, rungs=RUNGS, pretrained=[saved / name], work=saved / "work")
        assert "\n" not in str(error.value)


def test_bytes_that_a_vocabulary_lacks_skip_the_rung(tmp_path):
    from seqloom import interop
    from tests.interop.llama_files import llama_file

    interop.open(llama_file(tmp_path / "x.gguf")).save(tmp_path / "llama")
    found = compare(
        TEXT + LINE.format("\x04") * 5,
        rungs=RUNGS,
        pretrained=[tmp_path / "llama"],
        work=tmp_path / "work",
    )
    assert found.skipped[0].name == "llama"
    assert "0x04" in found.skipped[0].reason


def test_classifiers_too(tmp_path):
    data = [(f"a warm film {i}", "good") for i in range(100)] + [
        (f"so dull and long {i}", "bad") for i in range(80)
    ]
    NaiveBayes().fit(data).save(tmp_path / "mine")
    found = compare(
        data, rungs=["majority"], pretrained=[tmp_path / "mine"], work=tmp_path / "work"
    )
    assert found.best.name == "majority"
    assert found.results[1].accuracy == 1.0
    assert "mine * has 100.0%; it was trained elsewhere" in found.answer.text


def test_table_report_and_json_carry_the_mark(saved):
    from seqloom.comparison.report import markdown

    found = compare(TEXT, rungs=RUNGS, pretrained=[saved / "strong"], work=saved / "work")
    note = (
        "* trained elsewhere, on unknown text that may contain the test part, "
        "so its result may be too good."
    )
    page = markdown(found)
    assert "| strong * | " in page
    assert note in page
    assert "**byte-2**" in page
    values = json.loads(json.dumps(found.to_dict()))
    assert values["best"] == "byte-2"
    assert values["answer"]["pretrained"] == "strong"
    assert [row["pretrained"] for row in values["rungs"]] == [False, False, True]
    assert "strong *" in found._repr_html_()
    assert note in found._repr_html_()
