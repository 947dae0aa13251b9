"""`compare` on a small text: every number is what evaluating the kept model by hand gives."""

import json
import math
import os
import re
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import seqloom
from seqloom import Corpus, compare, progress
from seqloom.comparison import run as comparing
from seqloom.comparison import rungs, timing
from seqloom.comparison.bench import Bench
from seqloom.comparison.ladder import FRACTIONS
from seqloom.comparison.report import markdown, write_report
from seqloom.comparison.result import held, trim
from seqloom.comparison.run import stopped_learning
from seqloom.comparison.rungs import RUNGS, bpe_size, tokenizer_config
from seqloom.comparison.table import columns, size, visible
from seqloom.comparison.timing import TYPICAL, Plan
from seqloom.errors import ConfigError, DataError, SeqloomError
from seqloom.metrics import bootstrap

NAMES = ["uniform", "byte-1", "byte-4", "bpe-2", "byte-mixture"]


class Ear:
    """Keeps what is said and which jobs are begun."""

    def __init__(self):
        self.said, self.tasks = [], []

    def begin(self, label, total, unit):
        self.tasks.append(label)
        return type(
            "Bar", (), {"advance": lambda self, n=1: None, "note": lambda self, text: None}
        )()

    def end(self, task):
        pass

    def say(self, message):
        self.said.append(message)

    def trained(self):
        said = [m.removeprefix("training ") for m in self.said if m.startswith("training ")]
        return [m.split(" (")[0] for m in said]


def listened(data, **options):
    ear = Ear()
    with progress.reporting(ear):
        return compare(data, **options), ear


@pytest.fixture(scope="module")
def text(shakespeare):
    return Corpus.from_texts(shakespeare[:30_000], "piece")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def found(text, place):
    return compare(text, rungs=NAMES, work=place, seed=3)


def kept(place, name):
    return next(
        p.parent for p in place.rglob("result.json") if json.loads(p.read_text())["name"] == name
    )


def test_rows_come_in_the_order_of_the_ladder(found, text, place):
    assert [r.name for r in found.results] == NAMES
    assert found.skipped == []
    again = compare(text, rungs=["byte-4", "uniform"], work=place, seed=3)
    assert [r.name for r in again.results] == ["uniform", "byte-4"]


def test_the_ruler_is_straight(found):
    """The 20 bits of the end symbol on 3,000 bytes are all that the uniform rung may be off."""
    uniform = found.results[0]
    assert uniform.bits_per_byte == pytest.approx(8 + 20 / found.sizes["test"], abs=1e-4)
    assert uniform.bits_per_byte == pytest.approx(8, abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_each_row_is_what_the_kept_model_says(found, text, place, name):
    row = next(r for r in found.results if r.name == name)
    model = seqloom.load(kept(place, name))
    test = text.split(FRACTIONS).test
    result = model.evaluate(test, split=found.split)
    assert row.bits_per_byte == pytest.approx(result["bits_per_byte"], rel=1e-9)
    assert list(row.interval) == pytest.approx(result["bits_per_byte_interval"], rel=1e-9)
    assert row.perplexity == pytest.approx(result["perplexity"], rel=1e-9)
    assert row.tokens == result["tokens"]
    assert row.signature == str(result.signature)
    assert row.parameters == model.parameters
    assert row.disk == sum(
        f.stat().st_size for f in kept(place, name).rglob("*") if f.is_file()
    ) - sum(
        (kept(place, name) / extra).stat().st_size
        for extra in ("result.json", "segments.safetensors")
    )
    assert row.sample == (model.generate("", max_tokens=200, seed=3) if name != "uniform" else "")
    bits, n_bytes = found.rows[name].sum(axis=0)
    assert bits / n_bytes == pytest.approx(row.bits_per_byte, rel=1e-6)


def test_test_text_is_not_trained_on(found, text):
    train, valid, test = text.split(FRACTIONS)
    assert found.sizes == {"train": train.n_bytes, "valid": valid.n_bytes, "test": test.n_bytes}
    assert train.text() + valid.text() + test.text() == text.text()


def test_paired_differences(found):
    assert found.best == min(found.results, key=lambda r: r.bits_per_byte)
    better = found.difference("byte-4", "byte-1")
    rows = {r.name: r for r in found.results}
    assert better.difference == pytest.approx(
        rows["byte-4"].bits_per_byte - rows["byte-1"].bits_per_byte, rel=1e-6
    )
    assert better.high < 0
    assert better.p_value < 0.01
    opposite = found.difference("byte-1", "byte-4")
    assert opposite.difference == pytest.approx(-better.difference)
    assert isinstance(opposite, bootstrap.Paired)


def test_mixture_is_about_as_good_as_the_best_of_its_members(found):
    rows = {r.name: r for r in found.results}
    members = [
        r.bits_per_byte
        for r in found.results
        if r.tokenizer == rows["byte-mixture"].tokenizer and r.family == "n-gram"
    ]
    assert rows["byte-mixture"].bits_per_byte < min(members) + 0.02


def test_report_and_json(found, tmp_path):
    write_report(found, tmp_path / "deep" / "report")
    values = json.loads((tmp_path / "deep" / "report" / "comparison.json").read_text())
    expected = json.loads(json.dumps(found.to_dict()))
    assert {key: values[key] for key in expected} == expected
    assert [r["name"] for r in values["rungs"]] == NAMES
    assert values["best"] == found.best.name
    for row in values["rungs"]:
        assert (row["name"] == found.best.name) == ("versus_best" not in row)
        assert row.get("versus_best", {"difference": 1})["difference"] > 0
    page = (tmp_path / "deep" / "report" / "report.md").read_text()
    assert page.startswith("# Language models compared on piece")
    table = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(table) == 1 + len(NAMES)
    assert all(line.count("|") == len(columns(found.ladder, found)) + 1 for line in table)
    for row in found.results:
        assert f"`{row.signature}`" in page
        assert f"{row.bits_per_byte:.3f}" in page
    assert (
        sorted(p.name for p in (tmp_path / "deep" / "report").iterdir() if p.name.startswith("."))
        == []
    )
    (tmp_path / "file").write_text("")
    with pytest.raises(SeqloomError, match="cannot be written"):
        write_report(found, tmp_path / "file" / "report")


def test_two_comparisons_on_one_text(found, text, place):
    """The second is refused with the number of the first, and nobody removes what is in use."""
    here = kept(place, "uniform").parent
    with ThreadPoolExecutor(1) as other, held(here):
        refused = other.submit(compare, text, rungs=["uniform"], work=place, seed=3)
        with pytest.raises(
            SeqloomError,
            match=f"process {os.getpid()} is comparing models on this text there; wait",
        ):
            refused.result()
        other.submit(trim, place, place / "another", 0).result()
        assert here.exists()
    trim(here.parent, here, 0)
    assert kept(place, "uniform").parent == here


def test_samples_cannot_play_tricks():
    assert visible(" a\x1b[2Jb\x07\r\tc\n\x85") == "a\ufffd[2Jb\ufffd\ufffd\tc"


def test_finished_rungs_are_used_again(found, text, place):
    def files():
        return {p: p.stat().st_mtime_ns for p in place.glob("*/*/**/*")}  # of rungs

    before = files()
    again, ear = listened(text, rungs=NAMES, work=place, seed=3)
    assert before
    assert ear.trained() == []
    assert again.to_dict() == json.loads(json.dumps(found.to_dict())) | {
        "rungs": again.to_dict()["rungs"]
    }
    assert again.results == found.results
    assert files() == before


def test_other_text_other_seed_and_damaged_rungs_are_trained_again(text, tmp_path):
    work = tmp_path / "work"
    assert listened(text, rungs=["byte-1"], work=work)[1].trained() == ["byte-1"]
    other = Corpus.from_texts(text.text()[:20_000], "piece")
    assert listened(other, rungs=["byte-1"], work=work)[1].trained() == ["byte-1"]
    assert listened(text, rungs=["byte-1"], work=work, seed=9)[1].trained() == ["byte-1"]
    assert listened(text, rungs=["byte-1"], work=work)[1].trained() == []
    for path in work.rglob("model.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    again, ear = listened(text, rungs=["byte-1"], work=work)
    assert ear.trained() == ["byte-1"]
    assert (
        again.results[0].bits_per_byte
        == compare(text, rungs=["byte-1"], work=work).results[0].bits_per_byte
    )


def test_a_mixture_of_other_rungs_is_another_mixture(text, tmp_path):
    work = tmp_path / "work"
    small, _ = listened(text, rungs=["byte-1", "byte-2", "byte-mixture"], work=work)
    larger, ear = listened(text, rungs=["byte-1", "byte-2", "byte-4", "byte-mixture"], work=work)
    assert ear.trained() == ["byte-4", "byte-mixture"]
    assert larger.best.bits_per_byte < small.best.bits_per_byte
    assert listened(text, rungs=["byte-1", "byte-2", "byte-mixture"], work=work)[1].trained() == []


def test_what_takes_too_long_is_skipped_and_said(text, tmp_path):
    shown = []
    found = compare(
        text, rungs=["uniform", "byte-8"], limit=1e-9, work=tmp_path, on_rung=shown.append
    )
    assert found.results == []
    assert [s.name for s in found.skipped] == ["uniform", "byte-8"] == [s.name for s in shown]
    assert all("would need about" in s.reason for s in found.skipped)
    assert found.to_dict()["best"] is None
    assert found.to_dict()["answer"] is None
    assert "No rung was trained" in markdown(found)
    compare(text, rungs=["byte-1"], work=tmp_path)
    kept_on, ear = listened(text, rungs=["byte-1", "byte-8"], limit=1e-9, work=tmp_path)
    assert [r.name for r in kept_on.results] == ["byte-1"]  # what is there costs nothing
    assert ear.trained() == []


def test_time_is_measured_on_a_part_and_only_where_it_may_be_long(text, tmp_path, monkeypatch):
    def timed(**options):
        found, ear = listened(
            text, rungs=["byte-1", "byte-2"], work=tmp_path / str(len(options)), **options
        )
        return [r.name for r in found.results], [m for m in ear.said if m.startswith("timing")]

    assert timed() == (["byte-1", "byte-2"], [])
    monkeypatch.setattr(timing, "SLOWEST", 1.0)  # now anything may take hours
    clock = iter(range(1000))
    monkeypatch.setattr(
        timing, "time", type("Clock", (), {"perf_counter": staticmethod(lambda: next(clock))})
    )
    done, said = timed(limit=1.0)  # a second for a sixteenth is 16 seconds for all
    assert done == ["byte-1", "byte-2"]
    assert said == [
        "timing byte-1 on 1/16 of the text",
        "timing byte-2 on 1/16 of the text",
    ]  # 1/64 would be too little
    found = compare(text, rungs=["byte-3"], work=tmp_path, limit=0.25)
    assert "would need about 16" in found.skipped[0].reason


def test_a_mixture_needs_something_to_mix(text, tmp_path):
    found = compare(text, rungs=["uniform", "byte-mixture"], work=tmp_path)
    assert [r.name for r in found.results] == ["uniform"]
    assert "nothing to mix" in found.skipped[0].reason


def test_repeated_text_is_warned_of(shakespeare, tmp_path):
    found, ear = listened(shakespeare[:4000] * 5, rungs=["byte-1"], work=tmp_path)
    assert found.overlap > 0.9
    assert any("also occur in the training part" in m for m in ear.said)
    assert "Warning" in markdown(found)
    clean, ear = listened(shakespeare[:20_000], rungs=["byte-1"], work=tmp_path)
    assert clean.overlap < 0.01
    assert not any("warning" in m for m in ear.said)
    assert "Warning" not in markdown(clean)


def test_a_test_part_of_another_kind_is_warned_of(shakespeare, tmp_path):
    other = "".join(f"zq{i % 997}xv{i % 89}\n" for i in range(4000))
    _, ear = listened(shakespeare[:160_000] + other, rungs=["uniform"], work=tmp_path)
    assert any("the test is of another kind of text" in m for m in ear.said)


def test_too_little_text_and_wrong_names(tmp_path):
    with pytest.raises(
        DataError, match="12 bytes are too few to compare models; give at least 2,000"
    ):
        compare("twelve bytes", work=tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'byte-3'"):
        compare("x " * 5000, rungs=["byte3"], work=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_compressed_text_and_text_without_lines(text, tmp_path):
    import gzip

    (tmp_path / "piece.gz").write_bytes(gzip.compress(text.text().encode()))
    packed = compare(tmp_path / "piece.gz", rungs=["byte-1"], work=tmp_path / "work")
    assert (
        packed.results[0].bits_per_byte
        == compare(text, rungs=["byte-1"], work=tmp_path / "work").results[0].bits_per_byte
    )
    flat = compare(text.text().replace("\n", " "), rungs=["byte-2"], work=tmp_path / "work")
    assert 0 < flat.results[0].interval[0] < flat.results[0].interval[1]


def test_work_is_kept_in_the_cache_by_default(text, tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "c"))
    compare(text, rungs=["uniform"])
    assert len(list((tmp_path / "c").rglob("uniform-*/result.json"))) == 1


def test_a_single_segment_has_no_interval_and_that_is_valid_json(shakespeare, tmp_path):
    """Rows are never cut, so the test part of a table can be one short line: nothing to resample."""
    rows = [
        shakespeare[:1500].replace("\n", " "),
        shakespeare[1500:2000].replace("\n", " "),
        "ten bytes",
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"t": row}) + "\n" for row in rows))
    for _ in range(2):  # trained, then read from what was kept
        found = compare(
            tmp_path / "rows.jsonl", rungs=["byte-1", "byte-2"], work=tmp_path / "work", curve=True
        )
        assert all(len(rows) == 1 for rows in found.rows.values())
        assert all(math.isnan(end) for r in found.results for end in r.interval)
    write_report(found, tmp_path / "report")

    def strict(constant):
        raise AssertionError(constant)

    for path in (tmp_path / "report" / "comparison.json", *(tmp_path / "work").rglob("*.json")):
        json.loads(path.read_text(), parse_constant=strict)
    row = json.loads((tmp_path / "report" / "comparison.json").read_text())["rungs"][0]
    assert row["interval"] == ["nan", "nan"]
    for name in ("report.html", "report.md"):
        shown = re.sub(
            r"<script.*?</script>", "", (tmp_path / "report" / name).read_text(), flags=re.DOTALL
        )
        assert not re.search(r"\bnan\b", shown, re.IGNORECASE)
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_cache_is_bounded(text, tmp_path, monkeypatch):
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "c"))
    folder = tmp_path / "c" / "compare"

    def used(*parts):
        for part in parts:
            before = set(folder.glob("*"))
            compare(text.text()[:part], rungs=["byte-1"])
            (new,) = set(folder.iterdir()) - before
            os.utime(new, (part, part))  # long ago
        return {p.name for p in folder.iterdir()}

    first, both = used(5000), used(6000)
    assert len(both) == 2
    size = max(sum(f.stat().st_size for f in p.rglob("*") if f.is_file()) for p in folder.iterdir())
    monkeypatch.setattr("seqloom.comparison.result.MAX_CACHE_BYTES", int(1.5 * size))
    ear = Ear()
    with progress.reporting(ear):
        assert len(used(7000)) == 2
    assert not first & {p.name for p in folder.iterdir()}  # the one used longest ago
    assert both - first <= {p.name for p in folder.iterdir()}
    assert any("removed a comparison" in message for message in ear.said)
    assert (
        listened(text.text()[:7000], rungs=["byte-1"])[1].trained() == []
    )  # the current one stays
    given = tmp_path / "work"
    for part in (5000, 6000, 7000, 8000):
        compare(text.text()[:part], rungs=["byte-1"], work=given)
    assert len(list(given.iterdir())) == 4  # a directory that was given is the user's


def test_whatever_a_rung_was_made_of_is_in_its_key(text, tmp_path, monkeypatch):
    """Other minutes are another network and so another mixture; other options of a model or a
    tokenizer are others too.
    """

    def trained(names, **options):
        return listened(text, rungs=names, work=tmp_path, **options)[1].trained()

    names = ["bpe-1", "gru", "bpe-mixture"]
    assert trained(names, minutes=0.01) == names
    assert trained(names, minutes=0.02) == ["gru", "bpe-mixture"]
    assert trained(names, minutes=0.01) == []  # both are kept
    counted = ["bpe-1", "bpe-mixture"]
    assert trained(counted) == ["bpe-mixture"]  # of one member less
    monkeypatch.setitem(rungs.RECENT, "window", 100)
    assert trained(counted) == ["bpe-mixture"]
    monkeypatch.setattr(rungs, "MAX_BPE", 500)
    assert trained(counted) == counted  # other tokens
    monkeypatch.setattr(comparing, "__version__", "next")
    assert trained(counted) == counted


def test_an_unfinished_network_of_other_minutes_is_not_in_the_way(text, tmp_path, monkeypatch):
    from seqloom.training import loop

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop._Loop, "_take_best", stop)
        with pytest.raises(KeyboardInterrupt):
            compare(text, rungs=["gru"], minutes=0.01, work=tmp_path)
    assert len(list(tmp_path.glob("*/*.run"))) == 1
    assert len(compare(text, rungs=["gru"], minutes=0.02, work=tmp_path).results) == 1
    assert (
        len(compare(text, rungs=["gru"], minutes=0.01, work=tmp_path).results) == 1
    )  # and this one goes on
    assert not list(tmp_path.glob("*/*.run"))


def test_a_hidden_markov_model_is_a_rung_and_a_member(text, tmp_path):
    found = compare(text, rungs=["bpe-1", "hmm", "bpe-mixture"], work=tmp_path)
    rows = {r.name: r for r in found.results}
    assert list(rows) == ["bpe-1", "hmm", "bpe-mixture"]
    assert rows["hmm"].bits_per_byte < rows["bpe-1"].bits_per_byte  # it knows what came before
    assert "hmm32" in rows["bpe-mixture"].signature


def test_the_ladder():
    assert [r.name for r in RUNGS[:9]] == ["uniform", *(f"byte-{n}" for n in range(1, 9))]
    assert {f"bpe-{n}" for n in range(1, 6)} | {"byte-mixture", "bpe-mixture"} <= {
        r.name for r in RUNGS
    }
    assert len({r.name for r in RUNGS}) == len(RUNGS)
    assert [bpe_size(n) for n in (0, 900_000, 10**9)] == [512, 1000, 8000]


def test_sizes_for_people():
    assert [size(n) for n in (None, 0, 999, 1000, 1_234_567, 5e9, 2e13)] == [
        "-",
        "0 B",
        "999 B",
        "1.0 kB",
        "1.2 MB",
        "5.0 GB",
        "20000.0 GB",
    ]


def test_a_large_vocabulary_is_sampled_and_a_small_one_is_not():
    def made(n_bytes, name="lstm"):
        splits = SimpleNamespace(train=SimpleNamespace(n_bytes=n_bytes))
        (rung,) = (r for r in RUNGS if r.name == name)
        return rung.make(Bench(splits, recipe=tokenizer_config))

    assert (made(900_000).config.softmax, made(9_000_000).config.softmax) == ("full", "sampled")
    assert made(900_000, "gpt").config.n_layers == 2


def test_the_report_says_steps_and_passes_of_networks(tmp_path, shakespeare):
    pytest.importorskip("torch")
    result = compare(
        shakespeare[:20_000], rungs=["byte-2", "rnn"], minutes=0.01, work=tmp_path / "w"
    )
    counting, network = result.results
    assert (counting.steps, counting.passes) == (None, None)
    assert network.steps > 0 < network.passes
    assert result.to_dict()["rungs"][1]["steps"] == network.steps
    row = next(line for line in markdown(result).splitlines() if line.startswith("| rnn"))
    assert f" {network.steps:,} | {network.passes:.1f} |" in row


# ---- the plan


def test_the_plan_comes_first_and_the_rest_of_the_time_with_each_rung(tmp_path, text):
    _, first = listened(text, rungs=["byte-2", "byte-3", "rnn"], minutes=0.01, work=tmp_path)
    plan = next(line for line in first.said if line.startswith("plan"))
    assert "3 rungs" in plan
    assert "byte-2, byte-3" in plan
    assert "rnn: 0.01 minutes each" in plan
    announced = [line for line in first.said if line.startswith("training ")]
    assert first.said.index(plan) < first.said.index(announced[0])
    assert "training byte-3 (2 of 3, about" in announced[1]
    _, second = listened(text, rungs=["byte-2", "byte-3"], minutes=0.01, work=tmp_path)
    assert "kept from before: byte-2, byte-3" in "\n".join(second.said)


def test_rungs_that_take_longer_than_planned_lengthen_the_rest():
    rungs = [
        SimpleNamespace(name=name, work=work, on_others=False, finished=False)
        for name, work in (("a", 1), ("b", 1), ("net", 0))
    ]
    plan = Plan(rungs, SimpleNamespace(minutes=1.0), int(100 * TYPICAL), set())
    assert plan.total == 260
    assert "about 4 minutes left" in plan.announce("a")
    plan.measured("a", 301.0)
    assert "2 of 3, about 6 minutes left" in plan.announce("b")
    assert "3 of 3, about 60 seconds left" in plan.announce("net")


def test_a_network_that_only_memorises_is_marked():
    def log(valid, loss):
        return [
            line
            for step, (v, x) in enumerate(zip(valid, loss), 1)
            for line in ({"step": step, "loss": x}, {"step": step, "valid": v})
        ]

    falling = [5.0, 4.0, 3.0, 2.0, 1.0]
    assert stopped_learning(log([3.0, 2.0, 2.1, 2.2, 2.3], falling), 2) == 2
    assert stopped_learning(log([3.0, 2.0, 2.1, 2.2, 2.3], [5.0, 4.0, 4.0, 4.1, 4.2]), 2) is None
    assert (
        stopped_learning(log([3.0, 2.5, 2.0, 2.2, 2.3], falling), 3) is None
    )  # too few evaluations
    assert stopped_learning(log(falling, falling), 5) is None
    assert stopped_learning([], None) is None
