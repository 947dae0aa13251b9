"""Every list of models says what the registry says: the public names, the README, the commands, the
type checker's names.
"""

import ast
import re
from pathlib import Path

import pytest

import seqloom
from seqloom import registry, tasks
from seqloom.cli.main import commands

ROOT = Path(__file__).parent.parent
MODELS = {
    name: entry for name, entry in registry.MODELS.items() if entry.target.startswith("seqloom.")
}


def test_every_model_is_a_public_name():
    for name in MODELS:
        cls = registry.model_class(name)
        assert getattr(seqloom, cls.__name__) is cls
        assert cls.__name__ in dir(seqloom)


def test_the_type_checker_sees_the_public_names():
    """What `if TYPE_CHECKING` imports in __init__.py is what is there when it runs."""
    tree = ast.parse((ROOT / "src" / "seqloom" / "__init__.py").read_text())
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert {"__version__", *seen} == set(seqloom.__all__)
    for name, module in seen.items():
        assert name in ("inspect", "testing") or seqloom._public()[name] == module


@pytest.mark.parametrize("name", MODELS)
def test_the_class_says_what_the_registry_says(name):
    cls, entry = registry.model_class(name), MODELS[name]
    assert (cls.name, cls.task) == (name, entry.task)
    assert cls.config_class is registry.config_class(name)
    assert isinstance(cls(), cls)


def test_the_list_of_models_has_a_row_for_each():
    rows = re.findall(
        r"^\| (`[a-z0-9`, -]+`) \|.*\]\(../(src/[^)]+)\) \|$",
        (ROOT / "docs/models.md").read_text(),
        re.M,
    )
    assert {
        name: path for names, path in rows for name in re.findall(r"`([a-z0-9-]+)`", names)
    } == {
        name: "src/" + entry.target.partition(":")[0].replace(".", "/") + ".py"
        for name, entry in MODELS.items()
    }


def test_docs_name_every_model_and_every_command():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "recipes").glob("*.md")]
    docs = "".join(path.read_text() for path in pages)
    assert not [name for name in MODELS if f"`{name}`" not in docs and f"fit {name} " not in docs]
    assert not [name for name in commands() if f"seqloom {name}" not in docs]


def test_the_places_that_contributing_names_for_a_new_model_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index("## A new model") :].split("\n## ")[0]
    for place in re.findall(r"`([\w./-]+/[\w.-]+|registry\.py|docs/models\.md)`", section):
        assert (ROOT / place).exists() or (ROOT / "src" / "seqloom" / place).exists(), place


def test_every_task_has_a_model_and_every_model_a_task():
    assert {task.name for task in tasks.every()} == {entry.task for entry in MODELS.values()}
