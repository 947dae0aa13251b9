"""The smoke run of the benchmarks (`make bench ARGS=--smoke`, in CI) leaves nothing out."""

import ast
from pathlib import Path

from benchmarks.__main__ import LONG, SUITES

HERE = Path(__file__).parents[1] / "benchmarks"


def test_every_suite_is_registered():
    """A function that takes `quick` and `only` and is called run, or run_..., is a suite."""
    suites = {
        f"{path.stem}.{node.name}"
        for path in HERE.glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("run")
        and [argument.arg for argument in node.args.args] == ["quick", "only"]
    }
    assert suites == set(SUITES.values())
    assert set(LONG) <= set(SUITES)


def test_every_module_is_a_suite_or_used_by_one():
    modules = {path.stem: path.read_text("utf-8") for path in HERE.glob("*.py")}
    imported = {
        name
        for text in modules.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for name in [
            (node.module or "").removeprefix("benchmarks."),
            *(alias.name for alias in node.names),
        ]
    }
    suites = {function.partition(".")[0] for function in SUITES.values()}
    assert set(modules) <= suites | imported | {"__init__", "__main__"}
