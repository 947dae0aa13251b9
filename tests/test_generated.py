"""Pages that are made from the code say what the code says."""

import pytest

import seqloom
from tests.generated import COMMAND, DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name):
    written = (DOCS / name).read_text(encoding="utf-8") if (DOCS / name).exists() else ""
    assert written == PAGES[name](), f"docs/{name} is not current; run: {COMMAND}"


def test_every_command_and_every_flag_of_fit_is_there():
    from seqloom.cli.fit import _command_for
    from seqloom.cli.main import commands

    page = PAGES["reference-cli.md"]()
    for name in commands():
        assert f"\n## seqloom {name}\n" in page
    for option in _command_for("lstm").params:
        if option.param_type_name == "option":
            assert option.opts[-1] in page, option.name


def test_every_public_name_is_there():
    page = PAGES["reference-python.md"]()
    for name in seqloom.__all__:
        if not name.startswith("__"):
            assert f"\n### {name}\n" in page or f"\n## seqloom.{name}\n" in page, name
