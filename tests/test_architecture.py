"""The levels of docs/design.md: a file imports only from lower levels or from its own folder."""

import ast
import re
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

import pytest

from seqloom.contracts.base import Model
from seqloom.contracts.language import LanguageModel
from seqloom.registry import MODELS, model_class

ROOT = Path(__file__).parent.parent / "src" / "seqloom"
FILES = sorted(ROOT.rglob("*.py"))

LEVELS = {
    "cli": 12,
    "studio": 11,
    "comparison": 10,
    "serving": 10,
    "scale": 10,
    "tasks": 9,
    "views": 8,
    "interop": 8,
    "testing": 8,
    "models": 7,
    "training": 6,
    "contracts": 5,
    "decoding": 4,
    "metrics": 4,
    "storage": 4,
    "cards": 4,
    "registry": 4,
    "data": 3,
    "text": 2,
    "nn": 2,
    "runtime": 2,
    "kernels": 1,
    "reference": 1,
    "charts": 1,
    "config": 0,
    "errors": 0,
    "progress": 0,
    "arrays": 0,
    "batching": 0,
    "directories": 0,
    "places": 0,
    "frames": 0,
    "reporters": 0,
    "numba_start": 0,
    "forks": 0,
    "describing": 0,
    "foreign_names": 0,
    "traces": 0,
    "encoder_table": 0,
    "_version": 0,
}
SLOW = {
    "numba",
    "torch",
    "tokenizers",
    "rich",
    "zstandard",
    "safetensors",
    "altair",
    "polars",
    "starlette",
    "uvicorn",
}  # to import
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
    found, left = [], list(parsed(path).body)
    while left:
        node = left.pop()
        if isinstance(node, ast.expr):  # which holds no statement
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if top_only and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno} imports by a relative name"
            found.append((node.lineno, node.module))
            if node.module == "seqloom":
                found += [(node.lineno, f"seqloom.{alias.name}") for alias in node.names]
        left += ast.iter_child_nodes(node)
    return sorted(found)


def each(paths):
    """Hold a rule for all these files in one test, which names those that break it: a test each takes longer
    than what it looks at.
    """
    paths = list(paths)
    assert paths

    def of_all(rule):
        def test():
            broken = []
            for path in paths:
                try:
                    rule(path)
                except AssertionError as error:
                    broken.append(f"{name_of(path)}: {error}")
            assert not broken, "\n".join(broken)

        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        return test

    return of_all


def test_there_is_something_to_look_at():
    assert len(FILES) > 50
    assert any(
        module == "seqloom.kernels.ngram_count" for path in FILES for _, module in imports(path)
    )


def test_the_design_shows_levels_and_imports():
    """Both tables of docs/design.md are the code's."""
    page = (ROOT.parent.parent / "docs" / "design.md").read_text(encoding="utf-8")
    for level, names in re.findall(r"^\| (\d+) \| ([a-z_, ]+) \|$", page, re.M):
        assert all(LEVELS[name] == int(level) for name in names.split(", ")), (level, names)
    graph: dict[str, set[str]] = {}
    for path in FILES:
        for _, module in imports(path) if name_of(path) not in OUTSIDE else ():
            parts = module.split(".")
            if (
                parts[0] == "seqloom"
                and len(parts) > 1
                and parts[1] != place(path)
                and LEVELS.get(parts[1], 0)
            ):
                graph.setdefault(place(path), set()).add(parts[1])
    table = page[page.index("| | imports |") :].split("\n\n")[0]
    assert {
        own: set(names.split(", "))
        for own, names in re.findall(r"^\| ([a-z]+) \| ([a-z, ]+) \|$", table, re.M)
    } == graph


def test_the_package_hides_no_inspect_of_the_standard_library():
    """Python that is started in the package's folder looks there first; dataclasses need `inspect`."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import dataclasses, inspect; inspect.signature(dataclasses.dataclass)",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_folder_has_a_level():
    found = {place(path) for path in FILES} - {"__init__", "__main__"}
    assert found <= LEVELS.keys(), f"give a level to {sorted(found - LEVELS.keys())}"


@each(p for p in FILES if name_of(p) not in OUTSIDE)
def test_imports_go_down(path):
    own = place(path)
    for line, module in imports(path):
        parts = module.split(".")
        if parts[0] != "seqloom" or len(parts) == 1 or parts[1] == own:
            continue
        ours, theirs = LEVELS.get(own, 12), LEVELS[parts[1]]
        beside = (
            path.parent == ROOT and (ROOT / f"{parts[1]}.py").exists() and ours == theirs
        )  # files of the package itself
        assert theirs < ours or beside, (
            f"{name_of(path)}:{line}: {own} (level {ours}) imports {module} (level {theirs})"
        )


def test_one_model_does_not_import_another_unless_it_is_built_on_it():
    """Registered models, by file: only those that are named here, with their reason."""
    files = {entry.target.partition(":")[0] for entry in MODELS.values()}
    vectors = "seqloom.models.word_vectors"
    built_on: dict[str, set[str]] = {  # a mixture takes any model, through storage
        f"{vectors}.charngram": {f"{vectors}.fasttext"},  # words made of n-grams
    }
    for path in (ROOT / "models").rglob("*.py"):
        module = "seqloom." + name_of(path).removesuffix(".py").replace("/", ".")
        if module in files:
            others = {imported for _, imported in imports(path)} & files - {module}
            assert others <= built_on.get(module, set()), f"{module} imports {others}"


# ---- a model is its contract and has the rest

OWN = [name for name, entry in MODELS.items() if str(entry.target).startswith("seqloom.")]
CONTRACTS = {
    "Model",
    "LanguageModel",
    "Classifier",
    "Tagger",
    "Embedder",
    "TextEmbedder",
    "Forecaster",
    "Translator",
    "MaskedModel",
    "Answerer",
}
MIXINS = {
    "Arrayless",
    "NetworkModel",
    "NeuralLanguageModel",
    "Repeating",
    "SequenceModel",
    "TextTransformer",
    "TrainedVectors",
    "TranslationModel",
}


def ours(cls):
    return [base for base in cls.__bases__ if base.__module__.startswith("seqloom.")]


def levels(cls):
    """The longest way from a class up to one without a base of ours, in classes."""
    return 1 + max(map(levels, ours(cls)), default=0)


def test_levels_are_counted_by_the_longest_way():
    class A(Model): ...

    class B(LanguageModel): ...

    for cls in (A, B):
        cls.__module__ = "seqloom.models"
    assert [levels(cls) for cls in (Model, LanguageModel, A, B)] == [1, 2, 2, 3]


@pytest.mark.parametrize("name", OWN)
def test_a_model_is_at_most_three_levels_of_contracts_and_listed_mixins(name):
    model = model_class(name)
    assert levels(model) <= 3
    above = {base.__name__ for base in model.__mro__[1:] if base.__module__.startswith("seqloom.")}
    assert above <= MIXINS | CONTRACTS, "have it instead of being it"
    assert len([base for base in ours(model) if base.__name__ in MIXINS]) <= 1


def test_mixins_have_no_verbs():
    """They stand beside the contracts, not below them, and each is in use."""
    classes = {
        base for name in OWN for base in model_class(name).__mro__ if base.__name__ in MIXINS
    }
    assert {cls.__name__ for cls in classes} == MIXINS
    assert not any(issubclass(cls, Model) for cls in classes)


NOT_LANGUAGE = [path for path in (ROOT / "models").rglob("*.py") if path.parent.name != "language"]


def test_the_rule_on_language_models_holds_for_these():
    assert {"classification", "tagging", "word_vectors", "hidden", "network"} <= {
        path.parent.name for path in NOT_LANGUAGE
    }


@each(NOT_LANGUAGE)
def test_only_language_models_import_language_models(path):
    """What all networks share is in models/network; other tasks take it from there."""
    theirs = [module for _, module in imports(path) if module.startswith("seqloom.models.language")]
    assert not theirs, f"{name_of(path)} imports {theirs}"


@each(FILES)
def test_what_is_slow_to_import_is_imported_when_needed(path):
    allowed = {"kernels": {"numba"}, "nn": {"torch"}, "training": {"torch"}}.get(place(path), set())
    if place(path) == "serving" and path.stem in ("app", "server"):
        allowed = {"starlette", "uvicorn"}
    at_once = {module.partition(".")[0] for _, module in imports(path, top_only=True)}
    if path.stem.endswith("_net"):
        allowed = {"torch"}
    assert not at_once & SLOW - allowed, f"{name_of(path)} imports {at_once & SLOW} at module level"


@each(FILES)
def test_small_habits(path):
    text = path.read_text(encoding="utf-8")
    tree = parsed(path)
    assert text.count("\n") <= LONGEST, "split the file"
    assert path.stem not in ("utils", "util", "helpers", "helper", "common", "misc")
    modules = {module.partition(".")[0] for _, module in imports(path)}
    assert not modules & {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal"}, (
        "nothing is pickled"
    )
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    prints = [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
    assert not prints or place(path) == "cli", "no prints in the library"
    assert not [c.lineno for c in calls if any(k.arg == "allow_pickle" for k in c.keywords)]
    if path.stem not in ("__init__", "_version"):
        assert ast.get_docstring(tree), "begin with what the file is"


KERNELS = sorted((ROOT / "kernels").glob("*.py"))


@each(KERNELS)
def test_kernels_keep_the_rules(path):
    """Compiled functions are nogil and cached, never parallel=True; those of a team are cached
    within their callers.
    """
    bare = [
        node.name
        for node in ast.walk(parsed(path))
        for decorator in getattr(node, "decorator_list", [])
        if isinstance(decorator, ast.Name) and decorator.id in ("njit", "jit")
    ]
    assert not bare, f"{path.name}: {bare} are compiled without options"
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and called_name(node) in ("njit", "jit"):
            options = {
                k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg != "fastmath"
            }
            where = f"{path.name}:{node.lineno}"
            assert options.get("nogil"), where
            assert options.get("cache") or (
                path.name == "team.py" and options.get("cache") is False
            ), where
            assert not options.get("parallel"), where
            assert len(options) == len(node.keywords) - any(
                k.arg == "fastmath" for k in node.keywords
            ), where


# ---- each formula is written once below kernels/

MATHEMATICS = {
    "exp",
    "exp2",
    "expm1",
    "tanh",
    "sinh",
    "cosh",
    "erf",
    "erfc",
    "logaddexp",
    "sigmoid",
    "sqrt",
}
CALLERS = {  # who may call these, and what for if it is not in maths.py
    **dict.fromkeys(
        [
            "maths.sigmoid",
            "maths.gelu",
            "maths.gelu_erf",
            "maths.sigmoid_sum",
            "maths.tanh_sum",
            "maths.exp_row",
            "maths.exp_block",
            "maths.norm_row",
            "maths.activate_row",
        ],
        "its place",
    ),
    "recurrent.tanh_gated": "the candidate of a GRU, also in float64",
    "sampling.nucleus": "probabilities of log-probabilities that are normalised already",
    "hmm.log_sum": "float64, where sums of probabilities would underflow",
    "hmm.log_pass": "float64, back from logarithms",
    "hmm.exponentiate": "float64, and notices what would underflow",
    "ngram_estimate.mark_useless": "float64, of single log-probabilities",
    "ngram_estimate.new_backoffs": "float64, of single log-probabilities",
    "ngram_query.distributions": "float64, of single log-probabilities",
    "bag_classifier._learn_tree": "one exp for a sigmoid and its logarithm",
    "bag_classifier.tree_log_probs": "float64, the logarithm of a sigmoid",
    "glove.train_block": "the square root of AdaGrad",
    "vector_search.measure_rows": "the length of a vector, float64",
    "vector_search.shrink_rows": "the length of what was rounded away, float64",
    "vector_search.search_one": "the length of what was rounded away, float64",
}
ONCE = {  # where each stands, and nowhere else by this name
    **dict.fromkeys(
        ["exp", "tanh", "sigmoid", "gelu", "gelu_erf", "softmax", "log_softmax", "norm_row"],
        "maths",
    ),
    **dict.fromkeys(["lstm_cell", "gru_cell", "rnn_cell", "gru_reset", "gru_update"], "recurrent"),
    **dict.fromkeys(["attend", "attend_memory", "additive_score"], "attention"),
}


def called_name(call):
    return getattr(call.func, "id", None) or getattr(call.func, "attr", "")


def functions(tree):
    """Every function with its name; one inside another belongs to that."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def calls_of_mathematics(tree):
    """The functions that call one of MATHEMATICS by any door: np., math., or a name of ours."""
    for function in functions(tree):
        names = {called_name(node) for node in ast.walk(function) if isinstance(node, ast.Call)}
        if names & MATHEMATICS:
            yield function.name


def body_without_names(function):
    """What a function does: its arguments and variables are numbered as they come, its docstring is
    left out.
    """
    numbers = {}
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    copy = ast.parse(ast.unparse(ast.Module(body, type_ignores=[])))
    for argument in function.args.args:
        numbers.setdefault(argument.arg, len(numbers))
    for node in ast.walk(copy):
        if isinstance(node, ast.Name):
            node.id = f"v{numbers.setdefault(node.id, len(numbers))}"
        elif isinstance(node, ast.arg):
            node.arg, node.annotation = f"v{numbers.setdefault(node.arg, len(numbers))}", None
    return ast.dump(copy)


def copies(trees):
    """Names of functions with the same body, in pairs."""
    seen = {}
    for stem, tree in trees:
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                name, body = f"{stem}.{function.name}", body_without_names(function)
                if body in seen:
                    yield seen[body], name
                seen[body] = name


def test_mathematics_is_called_by_listed_functions_alone():
    found = {
        f"{path.stem}.{name}" for path in KERNELS for name in calls_of_mathematics(parsed(path))
    }
    assert found == CALLERS.keys(), "use kernels/maths, or say in CALLERS why not"


def test_no_two_kernels_are_the_same():
    assert not list(copies((path.stem, parsed(path)) for path in KERNELS))


def test_formulas_are_defined_once():
    defined = [
        (function.name, path.stem)
        for path in KERNELS
        for function in ast.walk(parsed(path))
        if isinstance(function, ast.FunctionDef) and function.name in ONCE
    ]
    assert sorted(defined) == sorted(ONCE.items())


def test_copies_would_be_noticed():
    """A softmax of one's own, and one of other names, as the tests above look at them."""
    again = ast.parse('''
def shares(values):
    """Whatever it says."""
    inverse = exponentials(values)
    for place in range(len(values)):
        values[place] *= inverse

def hidden_away(x):
    def inner(y):
        return np.exp(y)
    return inner(x)

def harmless(x):
    return x * x
''')
    assert list(calls_of_mathematics(again)) == ["hidden_away"]
    maths = parsed(ROOT / "kernels" / "maths.py")
    assert list(copies([("maths", maths), ("again", again)])) == [("maths.softmax", "again.shares")]
    for door in ("np.tanh(x)", "math.erf(x)", "tanh(x)", "maths.exp(x)"):
        assert list(calls_of_mathematics(ast.parse(f"def f(x):\n    return {door}"))) == ["f"]


# ---- names: one word a task, and none of the standard library's

TASKS = {
    "language",
    "classification",
    "tagging",
    "word_vectors",
    "sentence_vectors",
    "forecasting",
    "translation",
    "masked",
    "answering",
}
OTHER_WORDS = {  # for the same tasks, once
    "classifier", "classify", "labelled", "labels", "tagger", "tagged", "tags", "embedder", "vectors",
    "text_embedder", "sentences", "forecaster", "series", "translator", "translate", "parallel", "pairs",
    "answerer", "questions", "answers",
}  # fmt: skip


def test_a_task_has_one_name_in_every_folder():
    for folder in ("contracts", "tasks"):
        assert {path.stem for path in (ROOT / folder).glob("*.py")} >= TASKS, folder
    for folder in (
        "contracts",
        "tasks",
        "comparison",
        "testing",
        "data",
        "metrics",
        "views",
        "models",
    ):
        named = {path.stem for path in (ROOT / folder).iterdir()}
        assert not named & OTHER_WORDS, f"{folder}: {named & OTHER_WORDS}"


@each([*FILES, *(p for p in ROOT.iterdir() if p.is_dir())])
def test_nothing_hides_the_standard_library(path):
    """From whoever starts Python in that folder."""
    assert path.stem not in sys.stdlib_module_names


# ---- budgets: what the house may weigh. A commit that raises one of them says why.

MAX_FILES = (
    590  # scaling laws; a cluster; ranks, shards, their launcher; what training takes, kept texts
)
MAX_KILOTOKENS = {  # thousands of Python tokens of a folder; "" are the files of the package itself
    "": 26,  # files elsewhere
    "charts": 46,  # runs and bands of a scaling law
    "cli": 42,  # scaling; the launcher of several processes; parts of predict, score, .. for workers
    "comparison": 40,  # kept after every rung, for whoever watches; plan, runs and answers of scaling
    "contracts": 37,
    "data": 70,  # stretches of files, and files elsewhere; texts and words that are kept in files
    "decoding": 17,
    "interop": 46,  # windows and rows of questions in ONNX graphs, so that their scripts are short
    "kernels": 52,
    "metrics": 35,  # scaling laws: fit and posterior
    "models": 168,  # gradients of the loss of every task, held gates, one head by numbers, given discounts
    "nn": 38,
    "reference": 11,
    "runtime": 26,  # recurrent networks read pieces of prompts
    "scale": 14,  # tasks whose results are files, parts of many files, counting in ranges
    "serving": 24,  # turns by request, long answers in pieces, scores of a long prompt in parts
    "studio": 15,  # comparisons of dropped files, lessons, maps, runs, series, planes
    "tasks": 17,  # verbs of analogies and similarity
    "testing": 14,
    "text": 29,  # spellings of a published vocabulary without a loop over characters, at each start
    "training": 28,  # updates that several processes share; what a run will take
    "views": 70,  # one prediction, discounts, changed tables, clamp, without, gradients of every task
}


def test_the_house_keeps_its_budgets():
    assert len(FILES) <= MAX_FILES
    tokens = dict.fromkeys(MAX_KILOTOKENS, 0)
    for path in FILES:
        tokens["" if path.parent == ROOT else place(path)] += count_tokens(path)
    over = {name: n for name, n in tokens.items() if n > 1000 * MAX_KILOTOKENS[name]}
    assert not over, "make room, or raise the budget and say why in the commit"


def count_tokens(path):
    with path.open("rb") as file:
        return sum(token.type not in BLANK for token in tokenize.tokenize(file.readline))


BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


FLAG = re.compile(r"(?<![\w`-])--[a-z][a-z-]+")
BY_COMMANDS = ("cli", "tasks", "interop", "serving", "studio")  # what only commands use
COMMAND = re.compile(r"seqloom [a-z]+ ")  # a command line that a message or a docstring spells out


@each(FILES)
def test_the_library_names_arguments_not_flags(path):
    """The command line turns `valid=...` into its flag (`cli/flags.in_flags`); in Python there is none."""
    if place(path) in BY_COMMANDS or path.name == "foreign_names.py":  # which lists commands too
        return
    described = {
        id(node.body[0].value)
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(parsed(path)):
        said = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if said and id(node) not in described and not COMMAND.search(node.value):
            assert not FLAG.search(node.value), f"{name_of(path)}:{node.lineno}: {node.value}"
