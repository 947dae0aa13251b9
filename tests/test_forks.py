"""Models in a forked process, after they were used in its parent: the answer, or one clear line;
never a hang.
"""

import multiprocessing
import os
import sys

import numpy as np
import pytest

from seqloom import NGram, read
from seqloom.decoding import generation
from seqloom.errors import SeqloomError
from seqloom.interop.vectors import write_vectors
from seqloom.registry import model_class

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="where forking is usual")
TEXT = "the cat sat on the mat\nthe dog sat on the log\n" * 20


def forked(question):
    """What a forked process answers, within a minute."""
    here, there = multiprocessing.Pipe()
    pid = os.fork()
    if pid == 0:
        try:
            there.send(question())
        except SeqloomError as error:
            there.send(error)
        finally:
            os._exit(0)
    try:
        assert here.poll(60), "it hangs"
        return here.recv()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lstm", {"d_hidden": 64}),
        ("nplm", {"d_hidden": 64, "order": 3}),
        ("gpt", {"d_model": 64, "n_layers": 1, "n_heads": 2, "context": 32}),
    ],
)
def test_a_network_scores_and_learns(name, options):
    torch = pytest.importorskip("torch")
    from seqloom.training.config import TrainConfig

    def fitted():
        return model_class(name)(tokenizer="byte", unit="stream", **options).fit(
            TEXT, train=TrainConfig(steps=2)
        )

    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # with one thread there is none to miss
    try:
        model = fitted()
        here = model.score("the cat"), model.perplexity(TEXT)
        there = forked(
            lambda: (model.score("the cat"), model.perplexity(TEXT), fitted().score("the cat"))
        )
    finally:
        torch.set_num_threads(threads)
    assert np.allclose(there, (*here, here[0]), rtol=1e-4)


@pytest.mark.parametrize(
    "name", ["word2vec", "glove", "hmm", "fasttext-classifier", "naive-bayes", "ngram"]
)
def test_other_models_learn_and_answer(name, monkeypatch):
    monkeypatch.setenv("SEQLOOM_THREADS", "2")
    options = {"min_count": 1, "dimensions": 4} if name in ("word2vec", "glove") else {}
    data = (
        [("good fun", "+"), ("dull", "-")] * 4
        if name in ("fasttext-classifier", "naive-bayes")
        else TEXT
    )

    def answer(model):
        if name in ("word2vec", "glove"):
            return [word for word, _ in model.nearest("cat", 3)]
        return model.predict("good") if data is not TEXT else model.score("the cat")

    model = model_class(name)(**options).fit(data)
    again, new = forked(lambda: (answer(model), answer(model_class(name)(**options).fit(data))))
    assert again == answer(model)
    assert type(new) is type(again)


def test_a_decoder_that_was_being_made_is_made_anew():
    """The thread that was making it, and held the lock, does not come along."""
    used, unused = NGram(order=2).fit(TEXT), NGram(order=2).fit(TEXT)
    here = used.generate("the", max_tokens=5)
    with generation._making:
        assert forked(
            lambda: (used.generate("the", max_tokens=5), unused.generate("the", max_tokens=5))
        ) == (here, here)
    assert unused.generate("the", max_tokens=5) == here


def test_tables_and_pictures_are_refused_at_once(tmp_path):
    """polars and vl-convert wait for threads that are not there."""
    import altair
    import polars

    from seqloom.charts.theme import png

    polars.DataFrame({"text": ["a b", "c d"]}).write_parquet(tmp_path / "t.parquet")
    chart = altair.Chart(altair.Data(values=[{"a": 1}])).mark_point()
    vectors = model_class("word2vec")(min_count=1, dimensions=4).fit(TEXT).vectors
    for library, use in (
        ("polars", lambda: read(tmp_path / "t.parquet").text()),
        ("vl-convert", lambda: png(chart)),
        ("polars", lambda: write_vectors(vectors, tmp_path / "v.txt")),
    ):
        use()
        said = str(forked(use))
        assert said.startswith(f"this process was forked after {library} was used")
        assert "spawn" in said
    assert forked(lambda: NGram(order=2).fit(TEXT).score("the cat")) < 0
