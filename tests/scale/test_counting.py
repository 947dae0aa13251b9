"""n-grams counted by two workers: the same model as in one process, to the byte, however the text is cut."""

import os
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from seqloom.data.corpus import bundled
from tests.cli.conftest import seqloom  # noqa: F401


def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder of texts, one of them a table, one packed, one not text, one without a last newline."""
    import gzip

    place = tmp_path_factory.mktemp("corpus")
    text = bundled().text()
    (place / "all").mkdir()
    (place / "all" / "a.txt").write_text(text[:50_000])
    (place / "all" / "b.txt").write_text("ein Ende ohne Zeile")
    (place / "all" / "c.txt.gz").write_bytes(gzip.compress(text[50_000:70_000].encode()))
    (place / "all" / "d.txt").write_bytes("süß\n".encode("latin-1"))
    (place / "all" / "e.txt").write_text("")
    (place / "one.txt").write_text(text[:40_000])
    (place / "rows.csv").write_text("text\n" + "".join(f'"{n} be\nor {n}"\n' for n in range(200)))
    return place


@pytest.mark.parametrize("parts", [1, 3, 8, 64])
def test_the_model_does_not_depend_on_the_parts(seqloom, corpus, address, tmp_path, parts):  # noqa: F811
    os.chdir(corpus)
    options = ("--order", "4", "--tokenizer", "word", "-q")
    assert seqloom("fit", "ngram", "one.txt", "-o", tmp_path / "one", *options).code == 0
    common = ("fit", "ngram", "one.txt", "-o", tmp_path / "two", "--cluster", address, *options)
    ran = seqloom(*common, "--parts", parts)
    assert ran.code == 0, ran.err
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


@pytest.mark.parametrize(
    "command",
    [
        "all --tokenizer word --order 3",
        "all one.txt --tokenizer whitespace --unit stream --order 5",
        "all --tokenizer char --unit document --order 6",
        "one.txt --tokenizer byte --unit stream --order 6",
        "one.txt --tokenizer bpe --vocab-size 300 --unit line --order 3",
        "one.txt --tokenizer word --normalize case=lower --order 3 --prune 0,0,1",
        "rows.csv one.txt --tokenizer word --unit document --order 3 --smoothing witten-bell",
        "one.txt --tokenizer word --order 4 --memory 1M",
        "one.txt --tokenizer word --order 1",
    ],
)
def test_every_kind_of_text_is_counted_as_in_one_process(
    seqloom,  # noqa: F811
    corpus,
    address,
    tmp_path,
    command,
):
    os.chdir(corpus)
    words = command.split()
    one = seqloom("fit", "ngram", *words, "-o", tmp_path / "one", "--json")
    two = seqloom(
        "fit", "ngram", *words, "-o", tmp_path / "two", "--json", "--cluster", address, "--parts", 5
    )
    assert one.code == two.code == 0, (one.err, two.err)
    skipped = [line for line in one.err.splitlines() if "skipped" in line]
    assert [line for line in two.err.splitlines() if "skipped" in line] == skipped
    assert files(tmp_path / "one") == files(tmp_path / "two")
    told = [{**ran.json()[0], "seconds": 0, "model": ""} for ran in (one, two)]
    assert told[0] == told[1]


def test_what_one_process_refuses_is_refused(seqloom, corpus, address, tmp_path):  # noqa: F811
    os.chdir(tmp_path)
    (tmp_path / "short.txt").write_text("a b\n")
    for options, why in [
        (("short.txt", "--order", "9"), "the corpus is shorter than the order"),
        ((corpus / "all" / "d.txt",), "is not UTF-8 text: line 1, byte offset 1"),
        ((corpus / "all" / "e.txt",), "is empty"),
    ]:
        said = [
            seqloom("fit", "ngram", *options, "-o", "out", *how).one_line()
            for how in [(), ("--cluster", address)]
        ]
        assert why in said[0]
        assert why in said[1]
        assert not (tmp_path / "out").exists()
