"""The README and the tutorial are run: Python blocks as doctests, console blocks as commands.

A block that begins with ```python NAME.py is (a part of) a module that the doctests of the page
import and its commands run.
"""

import doctest
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import interop

from .forked_commands import served
from .interop.llama_files import llama_file
from .timed_lines import without_timed_lines

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "recipes").glob("*.md")),
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def write_published(page: Path, place: Path, used: tuple[str, ...] = ()) -> None:
    """A small random model where a page uses the weights of MiniLM, which not everybody has; saved
    as `used`, too.
    """
    if "seqloom convert all-MiniLM-L6-v2" in "".join(blocks(page, "console")):
        from seqloom import interop
        from tests.fuzz.specimens import SPECIMENS

        model = SPECIMENS["sentence-encoder"]()
        interop.write(model, place / "all-MiniLM-L6-v2")
        for name in used:
            model.save(place / name)


def write_modules(page: Path, place: Path) -> list[str]:
    """Write the modules that a page shows; their names."""
    names = dict.fromkeys(
        re.findall(r"^```python (\w+)\.py$", page.read_text(encoding="utf-8"), re.MULTILINE)
    )
    for name in names:
        (place / f"{name}.py").write_text(
            "\n\n".join(blocks(page, f"python {name}.py")), encoding="utf-8"
        )
    return list(names)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_python_blocks(page, tmp_path, monkeypatch, own_registry):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    write_published(page, tmp_path, ("minilm",))
    for module in write_modules(page, tmp_path):
        monkeypatch.delitem(sys.modules, module, raising=False)
    text = "\n".join(blocks(page, "python"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert test.examples, "Python blocks are written with >>> so that they are checked"
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(test, out=output.append).failed == 0, "".join(output)


def shortened(line: str) -> str:
    """A command of a page, but with a shorter training, and a shorter test of what a script wrote: whether
    it works does not depend on that, and an untrained translator never ends a line of its own.
    """
    if re.fullmatch(r"python \w+\.py", line):
        return f"{line}\n[ ! -e test.tsv ] || sed -i '30,$d' test.tsv"
    line = re.sub(r"(\bsteps[ =])\d{2,}\b", r"\g<1>10", line)
    line = re.sub(r"(--epochs )\d+\b", r"\g<1>1", line)
    return re.sub(r"(inspect (?:reach|activations) .*--minutes )[\d.]+", r"\g<1>0.02", line)


@pytest.fixture(scope="module")
def commands():
    with tempfile.TemporaryDirectory(prefix="seqloom-") as place, served(Path(place)) as found:
        yield found


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=lambda p: p.name)
def test_console_blocks(page, tmp_path, commands):
    """Lines after `$ ` are run in one shell, in an empty directory with a corpus.txt; all must succeed."""
    from seqloom import bundled

    write_modules(page, tmp_path)
    write_published(page, tmp_path)
    (tmp_path / "corpus.txt").write_text(bundled().text()[:60_000], encoding="utf-8")
    (tmp_path / "test.txt").write_text(bundled().text()[60_000:70_000], encoding="utf-8")
    lines = [
        shortened(line[2:])
        for block in blocks(page, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    lines = [line for line in lines if not line.startswith("make")]
    installed = Path(
        sys.executable
    ).parent  # what the README shows is run as installed, the longer pages by forks
    path = [
        *([] if page.name == "README.md" else [str(commands)]),
        str(installed),
        os.environ["PATH"],
    ]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": os.pathsep.join(path)},
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr


def test_a_forked_command_is_as_one_in_a_shell(commands, tmp_path):
    """Else a line of a page that fails might not be seen: exit code, stderr, directory, environment
    and pipes.
    """
    lines = (
        "seqloom info nothing || echo $?",
        "mkdir -p sub && cd sub && echo the cat > text",
        "seqloom describe-nothing",
        "cat text | seqloom tokenize - | tr a-z A-Z",
        "COLUMNS=50 seqloom --help | wc -L",
    )
    installed = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    forked, real = (
        subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "COLUMNS": "120", "PATH": path},
        )
        for path in (f"{commands}{os.pathsep}{installed}", installed)
    )
    assert forked.stdout == real.stdout
    assert without_timed_lines(forked.stderr) == without_timed_lines(real.stderr)
    assert forked.stdout.startswith("1\nTHE CAT\n")
    assert "nothing: no such directory" in forked.stderr


def test_new_calls_beside_old_ones_are_run():
    """Every call in the right column of "Coming from ..." stands in a block that is run."""
    page = ROOT / "docs/vectors.md"
    run = "\n".join(blocks(page, "python") + blocks(page, "console"))
    text = page.read_text(encoding="utf-8").partition("\n## Coming from")[2]
    rows = [
        line.rstrip(" |").rpartition(" | ")[2]
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    calls = [call for row in rows for call in re.findall(r"`([^`]+)`", row)]
    assert len(calls) > 30
    for call in calls:
        assert call in run or call.startswith("--vectors "), call


def test_the_calls_beside_those_of_other_programs_are_run(tmp_path, monkeypatch, commands):
    """The right column of "Coming from other programs"."""
    rows = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
    cells = [row.rsplit(" | ", 1)[1] for row in rows.splitlines() if row.startswith("| ")]
    calls = [call for cell in cells for call in re.findall(r"`([^`]+)`", cell)]
    assert len(calls) == 15
    monkeypatch.chdir(tmp_path)
    llama_file(tmp_path / "model.gguf")
    interop.write(interop.open(tmp_path / "model.gguf"), tmp_path / "DIR")
    lines = seqloom.bundled().text()[:30_000].splitlines()
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    (tmp_path / "train.txt").write_text(
        "".join(f"__label__{len(line) > 30} {line}\n" for line in lines if line)
    )
    names = {name: getattr(seqloom, name) for name in seqloom.__all__} | {
        "seqloom": seqloom,
        "sentences": [[*line.lower().split(), "people"] for line in lines],
        "texts": lines,
        "labels": [len(line) > 30 for line in lines],
        "start": [0.5, 0.5],
        "transitions": np.full((2, 2), 0.5),
        "emissions": np.eye(2),
        "x": np.array([0, 1, 1]),
    }
    for call in calls:
        if call.startswith("seqloom "):
            command = call.replace("--minutes 5", "--steps 2")
            done = subprocess.run(
                ["bash", "-c", command],
                capture_output=True,
                text=True,
                timeout=300,
                env={**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"},
            )
            assert done.returncode == 0, (command, done.stderr)
        elif call.startswith("model."):
            assert eval(call, names | {"model": names["made"]})
        else:
            names["made"] = eval(call, names)


def test_readme_begins_with_three_lines_of_python_and_the_two_commands():
    page = ROOT / "README.md"
    assert page.read_text(encoding="utf-8").index("```python") < page.read_text(
        encoding="utf-8"
    ).index("```console")
    assert blocks(page, "python")[0].count(">>>") == 3
    first = blocks(page, "console")[0]
    assert first.splitlines()[0].startswith("$ make compare")
    assert first.splitlines()[1].startswith("$ make test")


def test_the_tree_of_the_design_names_existing_places():
    """Every file and folder of the annotated tree is there."""
    tree = next(b for b in blocks(ROOT / "docs/design.md", "text") if "src/seqloom/" in b)
    base = ROOT / "src/seqloom"
    for line in tree.splitlines()[1:]:
        name = line.split()[0] if line.startswith("  ") and line.split() else ""
        if name:
            assert (base / name).exists(), name
