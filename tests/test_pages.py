"""Links lead somewhere, every page is found from the README, and prose makes no promise that ages."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "recipes").glob("*.md"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
GENERATED = {"reference-cli.md", "reference-python.md"}


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the files and anchors of a page's relative links."""
    text = re.sub(r"`[^`\n]*`", "code", prose(page))
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    parts = [target.partition("#") for target in targets]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in parts]


def anchors(page: Path) -> set[str]:
    """Return the names that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.name}")
def test_relative_links_lead_somewhere(page):
    for path, anchor in links(page):
        assert path.exists(), path
        assert not anchor or anchor in anchors(path), f"{path.name}#{anchor}"


def test_every_page_is_two_clicks_from_the_readme():
    near = {path for path, _ in links(ROOT / "README.md")}
    reached = near | {path for page in near if page.suffix == ".md" for path, _ in links(page)}
    assert not set(DOCS) - reached
    assert (
        set(DOCS) - {ROOT / "docs/README.md"}
        <= {path for name in ("docs", "recipes") for path, _ in links(ROOT / name / "README.md")}
        | near
    )


def test_pages_that_code_and_text_name_exist():
    files = [*SOURCES, *(ROOT / "benchmarks").rglob("*.py"), *PAGES, ROOT / "Makefile"]
    for path in files:
        for name in re.findall(r"\b(?:docs|recipes)/[\w-]+\.md", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path.name} names {name}"


# ---- what ages

# After these, "so far" says what a loop has come to.
RUNNING = (
    "best",
    "tokens",
    "sequence",
    "text",
    "given",
    "read",
    "vector",
    "got",
    "word",
    "windows",
    "state",
    "symbols",
    "steps",
    "model",
    "were",
    "parameters",
    "received",
    "input",
    "step",
)
SO_FAR = "".join(f"(?<!{word} )" for word in RUNNING) + "so far(?! apart| away)"
PROMISE = re.compile(rf"\b(not built|not yet(?! fitted)|{SO_FAR})\b", re.IGNORECASE)


def docstrings(path: Path) -> str:
    """Return the docstrings of a file, one after the other."""
    nodes = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    )
    return "\n".join(ast.get_docstring(node) or "" for node in nodes)


def test_nothing_is_called_unfinished():
    texts = {path: prose(path) for path in PAGES} | {path: docstrings(path) for path in SOURCES}
    found = {
        str(path.relative_to(ROOT)): match[0]
        for path, text in texts.items()
        if (match := PROMISE.search(" ".join(text.split())))
    }
    assert not found


NUMBER = r"(?:three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|[1-9]\d{0,2})"
COUNTED = (
    r"models|recipes|commands|data ?sets|tasks|encoders|cells|families|tokenizers|metrics|contracts"
    r"|attacks|fuzz tests|extras|optimi[sz]ers|schedules|rungs|ladders|views|variants|shapes"
    r"|forecasters|translators"
)
EXPERIMENTS = {
    "three models",
    "three published models",
}  # how many were measured, which does not change


def test_prose_counts_only_what_is_checked():
    pattern = re.compile(rf"\b{NUMBER}(?: [a-z]{{2,}})?? (?:{COUNTED})\b", re.IGNORECASE)
    pages = [page for page in PAGES if page.name not in GENERATED]
    texts = [*map(prose, pages), *map(docstrings, SOURCES)]
    found = {match.lower() for text in texts for match in pattern.findall(" ".join(text.split()))}
    assert found == {"five shapes", *EXPERIMENTS}
    shapes = (ROOT / "recipes/shapes.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| (?!shape\b)\w.*\|$", shapes, re.MULTILINE)) == 5


def test_the_lstm_has_six_lines():
    page = (ROOT / "docs/lstm-in-six-lines.md").read_text(encoding="utf-8")
    step = re.search(r"^>>> def step\(.*\n((?:\.\.\. .*\n)+)", page, re.MULTILINE)
    assert step is not None
    assert len(step[1].splitlines()) == 6


# ---- tables


def test_cells_of_the_benchmarks_are_short():
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    cells = [cell for line in page.splitlines() if line.startswith("|") for cell in line.split("|")]
    assert not [cell for cell in cells if len(cell.split()) > 20]


def test_the_readme_fits_on_two_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 75
