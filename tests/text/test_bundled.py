"""The word lists of the package: whole, in their order, and read only when somebody asks for them."""

import hashlib
import json
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from seqloom.text.bundled import read_tables
from seqloom.text.segment import _abbreviations
from seqloom.text.word_forms import LANGUAGES

# words, and what they are with their order: as they were when they were part of the source
LISTS = {
    "stopwords": (2448, "2c500ee0435a6ea5"),
    "abbreviations": (357, "fdbf91ae5a091bb6"),
    "contractions": (76, "a61cd237f230060d"),
    "bias": (481, "6c8426eb07255029"),
}


@pytest.mark.parametrize("name", LISTS)
def test_every_word_is_there(name):
    words = {
        table: {
            key: value.split() if isinstance(value, str) else value for key, value in values.items()
        }
        for table, values in read_tables(name).items()
    }
    count = sum(len(some) for values in words.values() for some in values.values())
    digest = hashlib.sha256(json.dumps(words, ensure_ascii=False).encode()).hexdigest()
    assert (count, digest[:16]) == LISTS[name]


def test_languages_are_those_of_the_lists():
    tables = read_tables("stopwords")
    assert list(LANGUAGES) == list(tables["words"]) == list(tables["negation"])
    titles, endings = _abbreviations("en")
    assert "dr" in titles
    assert "etc" in endings
    assert _abbreviations("xx") == (frozenset(), frozenset())


def test_all_of_them_are_part_of_the_package():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    assert "data/bundled/*" in project["tool"]["setuptools"]["package-data"]["seqloom"]
    there = {file.name for file in resources.files("seqloom.data").joinpath("bundled").iterdir()}
    assert {f"{name}.toml" for name in [*LISTS, "catalogue"]} <= there


def test_importing_reads_none():
    code = (
        "import seqloom.cli.main, seqloom.text.segment, seqloom.text.normalize, seqloom.metrics.bias, "
        "seqloom.data.catalogue\nfrom seqloom.text.bundled import read_tables\n"
        "assert not read_tables.cache_info().currsize"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
