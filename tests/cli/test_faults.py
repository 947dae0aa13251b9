"""Bad input, broken models, full disks and sudden ends: one clear line, a code that is not 0,
nothing half-written.
"""

import json
import resource
import shutil
import signal

import pytest

from seqloom import NGram, Tokenizer, load
from seqloom.contracts import LanguageModel
from seqloom.errors import DataError

from .ends import end

INNOCENT = {"cache"}  # the fixture's own directory


def left(place):
    return sorted(p.name for p in place.iterdir() if p.name not in INNOCENT)


# ---- input that cannot be used


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.txt", None, "no such file: none.txt"),
        ("folder", {}, "no text file in the directory folder"),
        ("folder", {"a.bin": b"\0\xff\xfe" * 500}, "no text file in the directory folder"),
        ("binary", b"\x7fELF\0\0\xff\xfe" * 500, "binary looks like a binary file"),
        ("latin", b"first\ncaf\xe9 au lait\n", "line 2, byte offset 9 holds 0xE9"),
        ("wide", "wide text\n".encode("utf-16"), "UTF-16"),
        ("empty", b"", "empty is empty"),
        ("blank", b"\n\n \n", "no token in this text"),
        ("short", b"a b\nc\n", "its longest unit has 4 tokens with <s> and </s>, the order is 5"),
        ("cut.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03abc", "broken .gz data"),
    ],
)
def test_bad_corpora(seqloom, tmp_path, name, content, says):
    if isinstance(content, dict):
        (tmp_path / name).mkdir()
        for file, data in content.items():
            (tmp_path / name / file).write_bytes(data)
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    failed = seqloom("fit", "ngram", name, "-o", "m", "-q")
    assert says in failed.one_line()
    assert failed.code == 1
    assert "m" not in left(tmp_path)
    if content is not None and name not in ("short", "blank"):
        NGram(order=1).fit("a b\n").save(tmp_path / "ok")
        for verb in ("score", "evaluate"):
            assert says in seqloom(verb, "ok", name, "-q").one_line()


@pytest.mark.parametrize(
    "content",
    [
        b"one line without an end",
        b"a\r\nb c\r\n",
        "我们去吃饭\n我们\n".encode(),
        "👍🏽 👨‍👩‍👧\n🇨🇭\n".encode(),
        b"a",
        b"\xef\xbb\xbfmarked\n",
        b"nul\0byte\n",
    ],
    ids=["line", "crlf", "chinese", "emoji", "letter", "mark", "nul"],
)
@pytest.mark.parametrize("source", ["file", "folder", "stdin"])
def test_odd_but_good_corpora(seqloom, tmp_path, content, source):
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "a.txt").write_bytes(content)
    shutil.copy(tmp_path / "folder" / "sub" / "a.txt", tmp_path / "file")
    for kind in ("whitespace", "word", "char", "byte", "bpe"):
        size = ["--vocab-size", 300] if kind == "bpe" else []
        args = [
            "fit",
            "ngram",
            "-" if source == "stdin" else source,
            "-o",
            kind,
            "--order",
            2,
            "--tokenizer",
            kind,
            *size,
        ]
        assert seqloom(*args, stdin=content).code == 0
        scored = seqloom("score", kind, "file", "--json").json()
        assert all(-100 < row["score"] < 0 for row in scored)
        assert seqloom("generate", kind, "--max-tokens", 5).code == 0
        assert seqloom("complete", kind, "我", "-n", 2).code == 0


def test_a_one_shot_generator():
    """It is read once, and kept; a tokenizer alone, which may read twice, refuses it."""
    assert (
        NGram(order=1).fit(line for line in ("a", "b")).fit_info
        == NGram(order=1).fit(["a", "b"]).fit_info
    )
    with pytest.raises(DataError, match="can be read only once"):
        Tokenizer(kind="word").fit(line for line in ("a", "b"))


def test_a_file_that_breaks_off_in_the_middle(seqloom, tmp_path):
    """The bad byte is far behind what was looked at first; nothing is saved, and the line is right."""
    (tmp_path / "late").write_bytes(b"good line\n" * 200_000 + b"bad \xff line\n")
    failed = seqloom("fit", "ngram", "late", "-o", "m", "--order", 2, "-q")
    assert "line 200001" in failed.one_line()
    assert left(tmp_path) == ["late"]


# ---- models that cannot be used


def damage(place, kind):
    config = json.loads((place / "config.json").read_text())
    if kind == "newer":
        (place / "config.json").write_text(
            json.dumps(config | {"format_version": 99, "seqloom_version": "9.9"})
        )
    elif kind == "foreign":
        (place / "config.json").write_text(
            '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}'
        )
    elif kind == "unknown model":
        (place / "config.json").write_text(json.dumps(config | {"model": "ngrams"}))
    elif kind == "cut config":
        (place / "config.json").write_text((place / "config.json").read_text()[:50])
    elif kind == "no config":
        (place / "config.json").unlink()
    elif kind == "no tokenizer":
        (place / "tokenizer.safetensors").unlink()
    elif kind in ("cut arrays", "cut tokenizer"):
        path = place / ("model.safetensors" if kind == "cut arrays" else "tokenizer.safetensors")
        path.write_bytes(path.read_bytes()[:-7])
    elif kind == "other arrays":
        shutil.copy(place / "tokenizer.safetensors", place / "model.safetensors")
    elif kind == "wrong numbers":
        path = place / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
        path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("newer", "upgrade seqloom"),
        ("foreign", "another program"),
        ("unknown model", "did you mean 'ngram'"),
        ("cut config", "damaged"),
        ("no config", "there is no config.json"),
        ("no tokenizer", "tokenizer.safetensors"),
        ("cut arrays", "model.safetensors"),
        ("cut tokenizer", "tokenizer.safetensors"),
        ("other arrays", "is missing"),
        ("wrong numbers", "damaged"),
    ],
)
def test_broken_models(seqloom, saved, tmp_path, kind, says):
    shutil.copytree(saved / "words", tmp_path / "m")
    damage(tmp_path / "m", kind)
    failed = seqloom("score", "m", stdin="the cat\n")
    message = failed.one_line()
    assert says in message
    assert message.startswith("m")
    assert failed.code == 1


def test_a_mixture_without_a_member(seqloom, saved, tmp_path):
    shutil.copytree(saved / "mixture", tmp_path / "m")
    shutil.rmtree(tmp_path / "m" / "members" / "1")
    failed = seqloom("score", "m", stdin="the cat\n")
    assert "2 weights for 1 members" in failed.one_line()
    assert failed.code == 1


# ---- places that cannot be written


@pytest.mark.parametrize("place", ["file/m", "/proc/m", "file", "full", "/dev/null"])
def test_unwritable_places_are_refused_before_the_work(
    seqloom, saved, tmp_path, monkeypatch, place
):
    (tmp_path / "file").write_text("text\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine\n")
    before = left(tmp_path)

    def never(*args, **options):
        raise AssertionError("the work has begun")

    monkeypatch.setattr(LanguageModel, "fit", never)
    failed = seqloom("fit", "ngram", saved / "toy.txt", "-o", place)
    assert failed.one_line().startswith(place)
    assert failed.code == 1
    assert left(tmp_path) == before
    assert (tmp_path / "full" / "notes.txt").read_text() == "mine\n"


def test_a_model_with_other_peoples_files_in_it_is_not_replaced(seqloom, saved, tmp_path):
    shutil.copytree(saved / "words", tmp_path / "m")
    (tmp_path / "m" / "notes.txt").write_text("mine\n")
    assert (
        "not a saved model, or not only"
        in seqloom("fit", "ngram", saved / "toy.txt", "-o", "m").one_line()
    )
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("limit", "signals"), [(3_000, "default"), (40_000, "ignored")]
)  # in the first file, in a later one
def test_a_full_disk(process, saved, tmp_path, shakespeare, signals, limit):
    """A limit on the size of files stands for the full disk; the earlier model stays."""
    (tmp_path / "text").write_text(shakespeare[:60_000])
    assert (
        process("fit", "ngram", "text", "-o", "m", "--order", 2).code == 0
    )  # also compiles what is needed
    before = load(tmp_path / "m").score("the king")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if signals == "ignored":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    for target in ("m", "new"):
        failed = process(
            "fit", "ngram", "text", "-o", target, "--order", 3, "-q", preexec_fn=limited
        )
        assert failed.code == 1
        assert "File too large" in failed.one_line()
    assert load(tmp_path / "m").score("the king") == before
    failed = process("convert", "m", "m.arpa", "-q", preexec_fn=limited)
    assert "m.arpa: cannot be written (File too large)" in failed.one_line()
    assert left(tmp_path) == ["m", "text"]


def test_no_room_for_temporary_files(process, tmp_path, shakespeare):
    (tmp_path / "text").write_text(shakespeare[:60_000])
    args = ("fit", "ngram", "text", "-o", "m", "--order", 3, "--memory", "200K", "-q")
    assert process(*args).code == 0
    shutil.rmtree(tmp_path / "m")
    failed = process(
        *args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    )
    assert failed.code == 1
    assert "TMPDIR" in failed.one_line()
    assert left(tmp_path) == ["text"]


def test_a_file_of_ids_that_cannot_be_written(seqloom, process, saved, tmp_path, monkeypatch):
    """The name that was given is in the message, and nothing is trained before."""
    (tmp_path / "folder").mkdir()
    before = left(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(
            "seqloom.text.tokenizer.Tokenizer.fit",
            lambda *_: (_ for _ in ()).throw(AssertionError("begun")),
        )
        for place, says in (
            ("none/ids", "none/ids: there is no directory none; make it first"),
            ("folder", "folder: not a file; choose another name"),
            ("/proc/ids", "/proc/ids: cannot be written ("),
        ):
            failed = seqloom("tokenize", saved / "toy.txt", "--ids-file", place)
            assert failed.one_line().startswith(says)
            assert failed.code == 1
        said = seqloom("tokenize", saved / "toy.txt", "--save", saved / "words").one_line()
        assert "exists and is not a saved tokenizer" in said
    assert left(tmp_path) == before
    (tmp_path / "text").write_text("a b c d e f g\n" * 5000)
    failed = process(
        "tokenize",
        "text",
        "--ids-file",
        "text.ids",
        "-q",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert failed.one_line() == "text.ids: cannot be written (File too large)"
    assert "text.ids" not in left(tmp_path)


# ---- sudden ends

SLOW = """
import sys
import seqloom.cli.options, seqloom.storage
from seqloom.reporters import SilentReporter

def stop(where):
    print("now", where, flush=True)
    sys.stdin.readline()

class Slow(SilentReporter):
    def begin(self, label, total, unit):
        if label.startswith({label!r}):
            stop(label)
        return super().begin(label, total, unit)

    def say(self, message):
        if message.startswith({label!r}):
            stop(message)

seqloom.cli.options.reporter_for = lambda quiet: Slow()
write = seqloom.storage.write_arrays

def half_written(path, arrays):
    write(path, arrays)
    if {label!r} == "saving":
        stop("saving")

seqloom.storage.write_arrays = half_written
from seqloom.cli.main import run
run()
"""


def end_in(label, how, place, *args):
    """Start the command, wait until it is in that piece of work, end it; gives code and stderr."""
    return end(SLOW.format(label=label), args, how, place, begins=b"now " + label.encode())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
@pytest.mark.parametrize("label", ["encoding", "counting", "estimating", "saving"])
@pytest.mark.parametrize("earlier", [True, False], ids=["replacing", "new"])
def test_the_end_while_fitting_and_saving(seqloom, saved, tmp_path, how, label, earlier):
    if label == "encoding" and not earlier:
        pytest.skip("as with counting")
    if earlier:
        shutil.copytree(saved / "words", tmp_path / "m")
        before = load(tmp_path / "m").score("the cat")
    code, err = end_in(
        label, how, tmp_path, "fit", "ngram", saved / "toy.txt", "-o", "m", "--order", 2
    )
    assert code == (130 if how == signal.SIGINT else -signal.SIGKILL)
    if how == signal.SIGINT:
        assert err.strip() == "interrupted; what was finished is kept"
    assert (tmp_path / "m").exists() == earlier
    if earlier:
        assert load(tmp_path / "m").score("the cat") == before
    rest = [name for name in left(tmp_path) if name != "m"]
    assert len(rest) == (how == signal.SIGKILL and label == "saving")  # what nobody could remove
    assert all(name.startswith(".m.") for name in rest)
    assert seqloom("fit", "ngram", saved / "toy.txt", "-o", "m", "--order", 2).code == 0
    assert left(tmp_path) == ["m"]
    assert load(tmp_path / "m").config.order == 2


def same(comparison):
    """A comparison without what a clock or the machine decides."""
    clocks = {
        "train_seconds",
        "train_tokens_per_second",
        "score_tokens_per_second",
        "peak_memory",
        "tokenizer_seconds",
    }
    return [{k: v for k, v in row.items() if k not in clocks} for row in comparison["rungs"]]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_the_end_of_a_comparison_keeps_finished_rungs(seqloom, tmp_path, shakespeare, how):
    (tmp_path / "text").write_text(shakespeare[:6000])
    args = ["compare", "text", "--rungs", "uniform,byte-1,byte-2,bpe-1,byte-mixture"]
    code, _ = end_in("training bpe-1", how, tmp_path, *args, "--work", "work")
    assert code == (130 if how == signal.SIGINT else -signal.SIGKILL)
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / "work").rglob("result.json")}
    assert sorted(p.parent.name.rpartition("-")[0] for p in kept) == ["byte-1", "byte-2", "uniform"]
    resumed = seqloom(*args, "--work", "work", "--json")
    begun = [line for line in resumed.err.splitlines() if line.startswith("training")]
    assert [line.partition(",")[0] for line in begun] == [
        "training bpe-1 (4 of 5",
        "training byte-mixture (5 of 5",
    ]
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    fresh = seqloom(*args, "--work", "other", "--json")
    assert same(resumed.json()[0]) == same(fresh.json()[0])
