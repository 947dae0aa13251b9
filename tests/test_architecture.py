"""The levels of docs/design.md: a file imports only from lower levels or from its own folder."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "seqloom"
FILES = sorted(ROOT.rglob("*.py"))

LEVELS = {
    "cli": 11, "serve": 11,
    "tasks": 10,
    "inspect": 9,
    "comparison": 8, "interop": 8, "testing": 8,
    "models": 7,
    "training": 6,
    "contracts": 5,
    "decoding": 4, "metrics": 4, "storage": 4, "registry": 4,
    "data": 3,
    "text": 2,
    "nn": 2,
    "kernels": 1, "reference": 1, "charts": 1,
    "config": 0, "errors": 0, "progress": 0, "arrays": 0, "paths": 0, "directories": 0, "locks": 0,
    "frames": 0, "reporters": 0, "history": 0,
    "forks": 0, "describing": 0, "_version": 0,
}
SLOW = {"numba", "torch", "tokenizers", "rich", "zstandard", "safetensors", "altair", "polars"}  # to import
LONGEST = 450  # lines
OUTSIDE = {"__init__.py", "__main__.py"}  # they stand above all levels


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def place(path):
    """The folder or file right below the package."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path, *, top_only=False):
    """(line, module) of every import, also inside functions; not those for the type checker alone."""
    def walk(nodes):
        for node in nodes:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            if top_only and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name_of(path)}:{node.lineno} imports by a relative name"
                yield node.lineno, node.module
                if node.module == "seqloom":
                    yield from ((node.lineno, f"seqloom.{alias.name}") for alias in node.names)
            yield from walk(ast.iter_child_nodes(node))
    return list(walk(parsed(path).body))


def test_there_is_something_to_look_at():
    assert len(FILES) > 50
    assert any(module == "seqloom.kernels.ngram_count" for path in FILES for _, module in imports(path))


def test_the_design_shows_levels_and_imports():
    """Both tables of docs/design.md are the code's."""
    page = (ROOT.parent.parent / "docs" / "design.md").read_text(encoding="utf-8")
    for level, names in re.findall(r"^\| (\d+) \| ([a-z_, ]+) \|$", page, re.M):
        assert all(LEVELS[name] == int(level) for name in names.split(", ")), (level, names)
    graph: dict[str, set[str]] = {}
    for path in FILES:
        for _, module in imports(path) if name_of(path) not in OUTSIDE else ():
            parts = module.split(".")
            if parts[0] == "seqloom" and len(parts) > 1 and parts[1] != place(path) and LEVELS.get(parts[1], 0):
                graph.setdefault(place(path), set()).add(parts[1])
    table = page[page.index("| | imports |"):].split("\n\n")[0]
    assert {own: set(names.split(", ")) for own, names in re.findall(r"^\| ([a-z]+) \| ([a-z, ]+) \|$", table, re.M)} == graph


def test_every_folder_has_a_level():
    found = {place(path) for path in FILES} - {"__init__", "__main__"}
    assert found <= LEVELS.keys(), f"give a level to {sorted(found - LEVELS.keys())}"


@pytest.mark.parametrize("path", [p for p in FILES if name_of(p) not in OUTSIDE], ids=name_of)
def test_imports_go_down(path):
    own = place(path)
    for line, module in imports(path):
        parts = module.split(".")
        if parts[0] != "seqloom" or len(parts) == 1 or parts[1] == own:
            continue
        ours, theirs = LEVELS.get(own, 11), LEVELS[parts[1]]
        beside = path.parent == ROOT and (ROOT / f"{parts[1]}.py").exists() and ours == theirs  # files of the package itself
        assert theirs < ours or beside, f"{name_of(path)}:{line}: {own} (level {ours}) imports {module} (level {theirs})"


def test_one_model_does_not_import_another_unless_it_is_built_on_it():
    """Registered models, by file: only those that are named here, with their reason."""
    from seqloom.registry import MODELS

    files = {entry.target.partition(":")[0] for entry in MODELS.values()}
    vectors = "seqloom.models.vectors"
    built_on: dict[str, set[str]] = {  # a mixture takes any model, through storage
        **{f"{vectors}.{name}": {f"{vectors}.word_vectors"} for name in ("word2vec", "glove")},  # what they give
        f"{vectors}.fasttext": {f"{vectors}.word2vec"},  # word2vec with n-grams
        f"{vectors}.charngram": {f"{vectors}.fasttext"},  # fastText without words
    }
    for path in (ROOT / "models").rglob("*.py"):
        module = "seqloom." + name_of(path).removesuffix(".py").replace("/", ".")
        if module in files:
            others = {imported for _, imported in imports(path)} & files - {module}
            assert others <= built_on.get(module, set()), f"{module} imports {others}"


NOT_LANGUAGE = [path for path in (ROOT / "models").rglob("*.py") if path.parent.name != "language"]


def test_the_rule_on_language_models_holds_for_these():
    assert {"classify", "tag", "vectors", "hidden", "network"} <= {path.parent.name for path in NOT_LANGUAGE}


@pytest.mark.parametrize("path", NOT_LANGUAGE, ids=name_of)
def test_only_language_models_import_language_models(path):
    """What all networks share is in models/network; other tasks take it from there."""
    theirs = [module for _, module in imports(path) if module.startswith("seqloom.models.language")]
    assert not theirs, f"{name_of(path)} imports {theirs}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_what_is_slow_to_import_is_imported_when_needed(path):
    allowed = {"kernels": {"numba"}, "nn": {"torch"}, "training": {"torch"}}.get(place(path), set())
    at_once = {module.partition(".")[0] for _, module in imports(path, top_only=True)}
    if path.stem.endswith("_net"):
        allowed = {"torch"}
    assert not at_once & SLOW - allowed, f"{name_of(path)} imports {at_once & SLOW} at module level"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_small_habits(path):
    text = path.read_text(encoding="utf-8")
    tree = parsed(path)
    assert text.count("\n") <= LONGEST, "split the file"
    assert path.stem not in ("utils", "util", "helpers", "helper", "common", "misc")
    modules = {module.partition(".")[0] for _, module in imports(path)}
    assert not modules & {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal"}, "nothing is pickled"
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    prints = [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
    assert not prints or place(path) == "cli", "no prints in the library"
    assert not [c.lineno for c in calls if any(k.arg == "allow_pickle" for k in c.keywords)]
    if path.stem not in ("__init__", "_version"):
        assert ast.get_docstring(tree), "begin with what the file is"


@pytest.mark.parametrize("path", sorted((ROOT / "kernels").glob("*.py")), ids=name_of)
def test_kernels_keep_the_rules(path):
    """nogil and cached, never parallel=True, and only kernels of the same file: the cache does not see others.

    Intrinsics are single instructions, and the package holds a constant; neither changes."""
    ours = {m for _, m in imports(path) if m.startswith("seqloom.")}
    ours -= {"seqloom.kernels.intrinsics", "seqloom.kernels.amx", "seqloom.kernels", "seqloom.kernels.PAD"}
    assert not ours or path.stem in ("parallel", "compiling")  # which are no kernels
    for node in ast.walk(parsed(path)):
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") in ("njit", "jit"):
                options = {k.arg: ast.literal_eval(k.value) for k in decorator.keywords if k.arg != "fastmath"}
                assert options.get("nogil"), f"{path.name}: {node.name}"
                assert options.get("cache"), f"{path.name}: {node.name}"
                assert not options.get("parallel"), f"{path.name}: {node.name}"
            elif isinstance(decorator, ast.Name):
                assert decorator.id not in ("njit", "jit"), f"{path.name}: {node.name} is compiled without options"
