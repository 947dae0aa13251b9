"""What is loaded before any work is asked for. Times are the bench's business; here it is counted
what is imported.
"""

import json

import pytest

HEAVY = {
    "torch",
    "numba",
    "llvmlite",
    "tokenizers",
    "rich",
    "safetensors",
    "zstandard",
    "scipy",
    "pandas",
}

RUN = """
import json, sys
bare = set(sys.modules)
sys.argv = ["seqloom", *{args!r}]
try:
    import seqloom
    if {args!r}:
        from seqloom.cli.main import run
        run()
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + json.dumps(sorted(set(sys.modules) - bare)))
"""


@pytest.mark.parametrize(
    ("args", "most"),
    [
        ([], 20),
        (["--help"], 120),
        (["--version"], 150),
        (["models"], 160),
        (["fit", "--help"], 160),
        (["fit", "ngram", "--help"], 420),
        (["generate", "--help"], 420),
        (["compare", "--help"], 160),
    ],
)
def test_little_is_imported(process, args, most):
    done = process(python=RUN.format(args=args))
    assert done.code == 0, done.err
    modules = json.loads(done.out.splitlines()[-1])
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert len(modules) <= most, len(modules)
    if not args or args[0] == "--help":
        assert "numpy" not in modules


def test_public_names_are_loaded_when_used(process):
    done = process(
        python="import seqloom, sys; a = 'numpy' in sys.modules; seqloom.NGram; b = 'numpy' in sys.modules; "
        "c = 'numba' in sys.modules; seqloom.NGram(order=1).fit('a b'); "
        "print(a, b, c, 'numba' in sys.modules)"
    )
    assert done.out == "False True False True\n"


def test_every_public_name_exists():
    import seqloom

    assert {"NGram", "Tokenizer", "load", "read", "compare"} <= set(dir(seqloom))
    for name in seqloom.__all__:
        assert getattr(seqloom, name) is not None
    with pytest.raises(AttributeError, match="no_such"):
        _ = seqloom.no_such
