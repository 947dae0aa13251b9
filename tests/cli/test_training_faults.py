"""Training on the command line when something is wrong: one clear line, a code that is not 0,
nothing lost.
"""

import errno
import json
import os
import shutil
import signal

import pytest

torch = pytest.importorskip("torch")

from seqloom import load
from seqloom.training import checkpoint, loop

from .ends import end, ended_with_checkpoint

NPLM = (
    "fit",
    "nplm",
    "text",
    "-o",
    "m",
    "--tokenizer",
    "byte",
    "--order",
    3,
    "--d-embed",
    8,
    "--d-hidden",
    8,
    "-q",
)
GPT = (
    "fit",
    "gpt",
    "text",
    "-o",
    "m",
    "--tokenizer",
    "byte",
    "--d-model",
    8,
    "--n-layers",
    1,
    "--n-heads",
    2,
    "--context",
    8,
    "-q",
)
LSTM = ("fit", "lstm", "text", "-o", "m", "--tokenizer", "byte", "--d-hidden", 8, "-q")
SHORT = ("--steps", 6, "--batch-size", 4, "--truncation", 8)
WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
from seqloom.cli.main import run
run()
"""


@pytest.fixture(autouse=True)
def text(tmp_path, toy_text):
    (tmp_path / "text").write_text(toy_text * 4)
    return tmp_path / "text"


def left(place):
    return sorted(p.name for p in place.iterdir() if p.name not in ("cache", "text"))


def contents(place):
    """The saved model as bytes; the log has clocks in it."""
    return {
        p.name: p.read_bytes()
        for p in sorted(place.iterdir())
        if p.is_file() and p.name != "training.jsonl"
    }


# ---- what is refused before the text is read


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (
            [*NPLM, "--minutes", 1, "--steps", 5],
            2,
            "--minutes and --steps both say how long to train; give one of them",
        ),
        ([*NPLM, *SHORT, "--device", "gpu17"], 2, "device 'gpu17' cannot be used"),
        ([*NPLM, *SHORT, "--device", "cuda:99"], 2, "device 'cuda:99' cannot be used"),
        ([*NPLM, *SHORT, "--precision", "float16"], 2, "this CPU has no float16 units"),
        ([*NPLM, "--steps", 0], 2, "steps must be at least 1"),
        ([*NPLM, "--lr", "nan"], 2, "lr must be"),
        ([*NPLM, "--optimizer", "adamm"], 2, "did you mean 'adam"),
        (
            [*GPT, *SHORT, "--n-heads", 3],
            2,
            "--d-model 8 is not a multiple of 6, as 3 heads and rope positions need",
        ),
        (
            [*GPT, *SHORT, "--n-heads", 3, "--positions", "alibi"],
            2,
            "--d-model 8 is not a multiple of 3",
        ),
    ],
)
def test_refused_at_once(seqloom, tmp_path, monkeypatch, options, code, says):
    monkeypatch.setattr(
        "seqloom.contracts.LanguageModel.fit", lambda *a, **k: pytest.fail("the work has begun")
    )
    failed = seqloom(*options)
    assert says in failed.one_line()
    assert failed.code == code
    assert left(tmp_path) == []


def test_without_torch(process, seqloom, tmp_path):
    """Fitting says what to install; drawing text and plotting need none, and scoring goes by steps."""
    assert seqloom(*NPLM, *SHORT).code == 0
    blocked = WITHOUT.format(names=["torch"])
    for args in ((*NPLM[:4], "new", *NPLM[5:]), ("evaluate", "m", "text", "--dynamic", "-q")):
        failed = process(*args, python=blocked)
        assert (
            failed.one_line()
            == "the nplm model needs torch, which is not installed: pip install 'seqloom[nn]'"
        )
        assert failed.code == 1
    stepped, usual = (
        process("score", "m", "text", "--json", python=blocked),
        seqloom("score", "m", "text", "--json", "-q"),
    )
    assert [row["score"] for row in stepped.json()] == pytest.approx(
        [row["score"] for row in usual.json()], abs=1e-3
    )
    assert stepped.err.count("token by token, which is slow: pip install 'seqloom[nn]'") == 1
    assert process("generate", "m", "the", "--max-tokens", 3, "-q", python=blocked).code == 0
    assert left(tmp_path) == ["m"]


@pytest.mark.parametrize(
    "content",
    [{"notes.txt": "mine"}, {"run.json": "{}", "notes.txt": "mine"}, "mine"],
    ids=["directory", "with a run.json", "file"],
)
@pytest.mark.parametrize("restart", [[], ["--restart"]], ids=["", "restart"])
def test_what_is_in_the_place_of_the_run_stays(seqloom, tmp_path, content, restart):
    place = tmp_path / "m.run"
    if isinstance(content, str):
        place.write_text(content)
    else:
        place.mkdir()
        for name, its in content.items():
            (place / name).write_text(its)
    failed = seqloom(*NPLM, *SHORT, *restart)
    assert failed.one_line().startswith("m.run: exists and is not a training run")
    assert failed.code == 1
    assert left(tmp_path) == ["m.run"]
    assert isinstance(content, str) or sorted(content) == sorted(p.name for p in place.iterdir())


# ---- training that cannot go on


def test_a_batch_larger_than_the_corpus(seqloom, tmp_path):
    failed = seqloom(*NPLM, "--steps", 5, "--batch-size", 5000)
    assert (
        "--batch-size 5000 is too large for a text of 773 tokens; give at most 386"
        in failed.one_line()
    )
    assert failed.code == 2
    assert left(tmp_path) == []


def test_options_that_do_not_go_together(seqloom, tmp_path):
    """Found when the network is built, after the text was read; no empty run is left."""
    for options, says in (
        ((*NPLM, "--recompute"), "recompute has no effect on nplm: it has one layer"),
        ((*LSTM, "--residual", "--d-embed", 4, "--no-tied"), "residual needs"),
    ):
        failed = seqloom(*options, *SHORT)
        assert failed.one_line().startswith(says)
        assert failed.code == 2
        assert left(tmp_path) == []


@pytest.mark.parametrize("early", [True, False])
def test_divergence(seqloom, tmp_path, monkeypatch, early):
    """Without a checkpoint there is nothing to lose: a lower rate just begins. With one, it takes
    --restart.
    """
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 60.0 if early else -1.0)
    base = (
        *NPLM,
        *SHORT,
        "--steps",
        15,
        "--warmup",
        0,
        "--optimizer",
        "sgd",
        "--clip",
        "none",
        "--schedule",
        "constant",
    )
    failed = seqloom(*base, "--lr", 1e5)
    message = failed.one_line()
    assert message.startswith("at step ")
    assert "try a lower lr (now 1e+05)" in message
    assert failed.code == 1
    assert ("the last good checkpoint is in m.run; other settings need --restart" in message) == (
        not early
    )
    assert (tmp_path / "m.run" / "last.safetensors").exists() == (not early)
    again = seqloom(*base, "--lr", 0.1)
    if not early:
        assert "lr" in again.one_line()
        again = seqloom(*base, "--lr", 0.1, "--restart")
    assert again.code == 0, again.err
    assert left(tmp_path) == ["m"]


def test_a_loss_that_is_no_number(seqloom, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    update = loop._Loop._update

    def broken(self, rate):
        if self.step == 4:
            with torch.no_grad():
                next(self.network.parameters()).fill_(float("nan"))
        return update(self, rate)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "_update", broken)
        failed = seqloom(*NPLM, *SHORT)
    assert failed.one_line().startswith("at step 5 the loss is nan: try a lower lr")
    assert failed.code == 1
    assert checkpoint.Run(tmp_path / "m.run").load()[1]["step"] == 4
    assert seqloom(*NPLM, *SHORT).code == 0  # goes on from before it broke


def test_a_run_of_other_settings(seqloom, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with monkeypatch.context() as patch:
        patch.setattr(
            loop._Loop, "_evaluate", lambda self: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        assert seqloom(*NPLM, *SHORT, "--valid", "text", "--evaluate-every", 3).code == 130
    before = (tmp_path / "m.run" / "last.safetensors").read_bytes()
    for other in (["--lr", 0.5], ["--d-hidden", 9], ["--seed", 1]):
        failed = seqloom(*NPLM, *SHORT, "--valid", "text", "--evaluate-every", 3, *other)
        message = failed.one_line()
        assert message.startswith("m.run holds an unfinished run with other settings (")
        assert f"({other[0]} was " in message
        assert f", is {other[1]})" in message
        assert "--restart" in message
        assert len(message) < 300
        assert failed.code == 2
    (tmp_path / "text").write_text("another text\n" * 40)
    assert (
        "(data was " in seqloom(*NPLM, *SHORT, "--valid", "text", "--evaluate-every", 3).one_line()
    )
    assert (tmp_path / "m.run" / "last.safetensors").read_bytes() == before
    assert seqloom(*NPLM, *SHORT, "--d-hidden", 9, "--restart").code == 0
    assert load(tmp_path / "m").config.d_hidden == 9
    assert left(tmp_path) == ["m"]


# ---- sudden ends

CHILD = """
import sys
from seqloom.training import loop
loop.CHECKPOINT_SECONDS = -1.0
update = loop._Loop._update

def slow(self, rate):
    if self.step == 9:
        print("now", flush=True)
        sys.stdin.readline()
    return update(self, rate)

loop._Loop._update = slow
from seqloom.cli.main import run
run()
"""


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name
)
def test_the_end_while_training(seqloom, tmp_path, how):
    args = (
        *NPLM,
        "--steps",
        30,
        "--batch-size",
        4,
        "--truncation",
        8,
        "--evaluate-every",
        7,
        "--valid",
        "text",
    )
    ended_with_checkpoint(end(CHILD, args, how, tmp_path), how)
    assert left(tmp_path) == ["m.run"]
    assert 9 <= checkpoint.Run(tmp_path / "m.run").load()[1]["step"] < 30
    assert seqloom(*args).code == 0
    resumed, log = contents(tmp_path / "m"), checkpoint.read_log(tmp_path / "m")
    shutil.rmtree(tmp_path / "m")
    assert seqloom(*args).code == 0
    assert contents(tmp_path / "m") == resumed

    def timeless(lines):
        return [
            {k: v for k, v in line.items() if k not in ("seconds", "tokens_per_s")}
            for line in lines
        ]

    assert timeless(log) == timeless(checkpoint.read_log(tmp_path / "m"))
    assert left(tmp_path) == ["m"]


def test_a_full_disk(seqloom, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    write, calls = checkpoint.write_arrays, []

    def full(path, arrays):
        calls.append(path)
        if len(calls) == 4:
            path.write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_arrays", full)
        failed = seqloom(*NPLM, *SHORT)
    assert failed.one_line() == (
        "the disk is full (m.run/last.safetensors.partial); make room and run the same command again"
    )
    assert failed.code == 1
    assert sorted(p.name for p in (tmp_path / "m.run").iterdir()) == [
        "last.safetensors",
        "log.jsonl",
        "run.json",
    ]
    assert checkpoint.Run(tmp_path / "m.run").load()[1]["step"] == 3
    assert seqloom(*NPLM, *SHORT).code == 0
    resumed = contents(tmp_path / "m")
    shutil.rmtree(tmp_path / "m")
    assert seqloom(*NPLM, *SHORT).code == 0
    assert contents(tmp_path / "m") == resumed


@pytest.mark.parametrize("name", ["run.json", "last.safetensors"])
def test_a_damaged_run(seqloom, tmp_path, monkeypatch, name):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    with monkeypatch.context() as patch:
        patch.setattr(
            "seqloom.storage.write_model",
            lambda *a: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")),
        )
        failed = seqloom(*NPLM, *SHORT)
    assert "m: cannot be written (full)" in failed.one_line()
    whole = (tmp_path / "m.run" / name).read_bytes()
    (tmp_path / "m.run" / name).write_bytes(whole[:30])
    failed = seqloom(*NPLM, *SHORT)
    assert failed.one_line().startswith(f"m.run/{name}: damaged")
    assert "--restart" in failed.one_line()
    assert failed.code == 1
    (tmp_path / "m.run" / name).write_bytes(whole)
    monkeypatch.setattr(loop._Loop, "_update", lambda *a: pytest.fail("trained again"))
    assert seqloom(*NPLM, *SHORT).code == 0  # all steps were done; it only had to be saved
    assert left(tmp_path) == ["m"]


# ---- saved networks


def test_the_tokenizer_of_another_model(seqloom, tmp_path):
    char = (*NPLM[:6], "char", *NPLM[7:], *SHORT)
    assert seqloom(*char).code == 0
    (tmp_path / "text").write_text("abc\n" * 100)
    assert seqloom(*char[:4], "other", *char[5:]).code == 0
    shutil.copy(tmp_path / "other" / "tokenizer.safetensors", tmp_path / "m")
    for args in (("score", "m", "text"), ("generate", "m")):
        failed = seqloom(*args)
        assert failed.one_line().startswith("m: ")
        assert "tokenizer and weights are of different models" in failed.err
        assert failed.code == 1


@pytest.mark.parametrize("key", ["d_hidden", "order", "d_embed"])
def test_weights_of_another_config(seqloom, tmp_path, key):
    assert seqloom(*NPLM, *SHORT).code == 0
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config["config"][key] = 5
    config["learnt"]["width"] = 5 if key == "d_hidden" else 8
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    failed = seqloom("score", "m", "text", "-q")
    assert "damaged" in failed.one_line()
    assert failed.code == 1


@pytest.mark.parametrize(
    "positions", ["learned", "sinusoidal", "rope", "alibi", "relative", "none"]
)
def test_a_prompt_longer_than_the_context_slides(seqloom, tmp_path, positions):
    assert seqloom(*GPT, "--steps", 3, "--positions", positions).code == 0
    drawn = seqloom("generate", "m", "the cat sat on the mat " * 5, "--max-tokens", 20, "--json")
    assert drawn.code == 0
    assert seqloom("complete", "m", "the cat sat on the mat " * 5).code == 0
    assert seqloom("score", "m", "text").code == 0
    model = load(tmp_path / "m")
    assert model.generate("x" * 50 + "the cat sat", seed=3) == model.generate(
        "y" * 50 + "the cat sat", seed=3
    )


def test_a_model_for_longer_texts(seqloom, tmp_path):
    assert seqloom(*GPT, "--steps", 3).code == 0
    context = load(tmp_path / "m").config.context
    assert seqloom("convert", "m", "longer", "--context", 4 * context).code == 0
    longer = load(tmp_path / "longer").config
    assert (longer.context, longer.rope_scale) == (4 * context, 4.0)
    assert seqloom("evaluate", "longer", "text").code == 0
    for command, said in (
        (("m", "other", "--context", 2), "a context of 2 is not longer"),
        (("m", "other", "--context", 512, "--form", "hugging-face"), "convert twice"),
    ):
        assert said in seqloom("convert", *command).one_line()
    assert seqloom("fit", "ngram", "text", "-o", "n").code == 0
    assert (
        "--context is for gpt models; n is a ngram model"
        in seqloom("convert", "n", "other", "--context", 512).one_line()
    )


# ---- odd texts


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        (b"one short line", 15),
        (b"a", 2),
        (b"a\n", 3),
        ("我们去吃饭\n我们\n".encode(), 24),
        (b"a b\r\nc d\r\n" * 30, 301),
    ],
    ids=["line", "token", "token and newline", "chinese", "crlf"],
)
@pytest.mark.parametrize("fit", [NPLM, LSTM, GPT], ids=["nplm", "lstm", "gpt"])
def test_odd_but_good_texts(seqloom, tmp_path, text, content, tokens, fit):
    text.write_bytes(content)
    done = seqloom(*fit, "--steps", 3, "--valid", "text", "--json")
    assert done.code == 0, done.err
    assert done.json()[0]["tokens"] == tokens
    assert 0 < done.json()[0]["valid"]["metrics"]["bits_per_byte"] < 20
    assert seqloom("generate", "m", "我", "--max-tokens", 4).code == 0


@pytest.mark.parametrize("kind", ["bpe", "word", "char", "whitespace"])
def test_one_word_in_every_tokenizer(seqloom, text, kind):
    text.write_text("word\n")
    done = seqloom(*NPLM[:6], kind, *NPLM[7:], "--steps", 2)
    assert done.code == 0, done.err
