"""Every rule of `seqloom advise`: a run in which it fires, with its figure, and one in which it must not."""

import json
import math
from pathlib import Path

import pytest

import seqloom
from seqloom.cli.options import finite
from seqloom.config import field_types
from seqloom.errors import ModelError
from seqloom.registry import MODELS, config_class
from seqloom.training.config import TrainConfig
from seqloom.views.advice import COMPARISON_RULES, RULES, RUN_RULES, advice_of, advise
from seqloom.views.run_logs import RunLog

STEPS = range(10, 401, 10)


def falling(step):
    return 2 + 2 * math.exp(-step / 60)


def log_of(loss=falling, valid=None, *, norm=0.5, largest=None, clipped=0.0, layers=None, watched=None,
           model="lstm", train=(), config=(), epochs=2.0, extra=(), **known):  # fmt: skip
    """The log of a run of 400 steps, sound unless something is said."""
    lines = []
    for step in STEPS:
        top = 2 * norm if largest is None else largest(step)
        lines.append(
            {"step": step, "loss": loss(step), "lr": 0.01, "norm": norm, "largest_norm": top}
            | {"clipped": clipped, "epochs": epochs * step / 400, "seconds": step / 10}
            | {f"norm.{name}": value for name, value in (layers or {"embedding": 0.1}).items()}
        )
        if valid is not False and step % 40 == 0:
            value = (valid or (lambda s: loss(s) + 0.1))(step)
            held_out = {"step": step, "valid": value, "seconds": step / 10}
            lines.append(held_out | (dict(watched) if watched and step == 400 else {}))
    lines += extra
    settings = {"lr": 0.01, "clip": "norm", "truncation": 32, "steps": 400, **dict(train)}
    options = {"dropout": 0.1, **dict(config)}
    return RunLog("run", lines, model, options, settings, **known)


def found(log, rule):
    """The finding of that rule."""
    return next((one for one in advice_of(log).findings if one.rule == rule), None)


def reach(*shares):
    return {f"reach.recurrent.{d}": share for d, share in zip((1, 2, 4, 8, 16, 32), (1.0, *shares))}


def gate(name, closed, opened):
    key = f"recurrent.layers.0.gates.{name}"
    return {f"closed.{key}": closed, f"open.{key}": opened}


def rising(step):
    """Held-out results that are best at step 160."""
    return 2.5 + (step - 160) ** 2 / 100_000


def flat(step):
    """Hardly any change after step 120."""
    return 2.5 + max(120 - step, 0) / 100 + (step > 120) * 0.001


HMM = {"step": 1, "loss": 3.0}
IMPROVING = [
    HMM | {"step": step, "log_likelihood": -1000 + 20 * step, "loss": 2.0} for step in (1, 2, 3, 4)
]

# rule: (a run in which it fires, what it says, what it gives to try, a run in which it must not)
CASES = {
    "diverged": (
        log_of(extra=[{"step": 401, "diverged": "the loss is nan", "lr": 0.01}], finished=False),
        "broke off at step 401: the loss is nan",
        {"lr": 0.001},
        log_of(),
    ),
    "overfitted": (
        log_of(valid=rising),
        "risen since step 160, from 2.5 to 2.9",
        {"epochs": 0.8},
        log_of(loss=lambda step: 2.0 + step / 1000, valid=rising),  # training got worse as well
    ),
    "gained-nothing": (
        log_of(valid=flat),
        "was that of step 120 of 400; the 70 % of the steps after it gained nothing",
        {"patience": 3},
        log_of(valid=rising),
    ),
    "still-learning": (
        log_of(loss=lambda step: 4 - step / 200),
        "gained 22 % in the last quarter of the steps",
        {"steps": 800},
        log_of(),
    ),
    "little-read": (
        log_of(epochs=0.25),
        "0.25 passes: 75 % of the data was never read; one pass takes about 2.67 minutes",
        {"epochs": 1},
        log_of(epochs=1.0),
    ),
    "gap": (
        log_of(valid=lambda step: falling(step) * 1.5),
        "is 50 % above the training loss",
        {"dropout": 0.3},
        log_of(valid=lambda step: falling(step) * 1.2),
    ),
    "slow": (
        log_of(loss=lambda step: 5.5 - step / 5000),
        "fell by 1.4 %, from 5.498 to 5.42",
        {"lr": 0.1},
        log_of(),
    ),
    "clipped": (
        log_of(clipped=0.41),
        "41 % of the steps were clipped",
        {"lr": 0.00333},
        log_of(clipped=0.1),
    ),
    "spikes": (
        log_of(largest=lambda step: 60.0 if step == 200 else 1.0),
        "reached 60 up to step 200, 120 times what was usual until then, 0.5",
        {"warmup": 0.1},
        log_of(largest=lambda step: 5.0 if step == 200 else 1.0),
    ),
    "jumps": (
        log_of(loss=lambda step: falling(step) + 2 * (step % 70 == 0)),
        "jumped up 5 times",
        {"lr": 0.00333},
        log_of(loss=lambda step: falling(step) + 0.1 * (step % 70 == 0)),
    ),
    "vanishing-by-layer": (
        log_of(layers={"embedding": 1e-4, "blocks.0": 0.001, "blocks.1": 0.02, "blocks.2": 0.5}),
        "the gradient in blocks.0 is 0.2 % of that in blocks.2",
        {"n_layers": 1},
        log_of(layers={"embedding": 1e-4, "blocks.0": 0.1, "blocks.1": 0.2}),
    ),
    "no-gradient": (
        log_of(layers={"embedding": 0.2, "hidden": 0.0}),
        "no gradient comes to hidden",
        {"lr": 0.00333},
        log_of(layers={"embedding": 0.2, "hidden": 1e-9}),
    ),
    "short-reach": (
        log_of(model="rnn", watched=reach(0.5, 0.1, 0.008, 1e-4, 1e-7)),
        "the gradient at distance 8 is 0.8 % of that at distance 1",
        {},
        log_of(model="lstm", watched=reach(0.5, 0.1, 0.008, 1e-4, 1e-7)),  # it has gates already
    ),
    "growing-reach": (
        log_of(model="rnn", watched=reach(1.5, 2.0, 4.0, 16.0, 200.0)),
        "the gradient at distance 32 is 200 times that at distance 1",
        {"lr": 0.00333},
        log_of(model="rnn", watched=reach(0.9, 0.8, 0.7, 0.6, 0.5)),
    ),
    "cut-off": (
        log_of(watched=reach(0.9, 0.8, 0.7, 0.6, 0.5)),
        "at distance 32 is still 50 % of that at distance 1 in recurrent, and back-propagation is cut off",
        {"truncation": 64},
        log_of(watched=reach(0.9, 0.6, 0.3, 0.1, 0.05)),
    ),
    "saturated": (
        log_of(watched=gate("i", 0.5, 0.45)),
        "95 % of the values of recurrent.layers.0.gates.i",
        {"lr": 0.00333},
        log_of(watched=gate("i", 0.3, 0.3)),
    ),
    "forgetful": (
        log_of(watched=gate("f", 0.6, 0.1)),
        "60 % of the forget gates of recurrent.layers.0 are closed",
        {"forget_bias": 2},
        log_of(watched=gate("i", 0.6, 0.1)),
    ),
    "no-held-out": (log_of(valid=False), "nothing was held out", {}, log_of()),
    "interrupted": (
        log_of(finished=False, planned=1000),
        "interrupted at step 400",
        {},
        log_of(finished=False, planned=1000, process=1),
    ),
    "not-converged": (
        RunLog("h", IMPROVING, "hmm", record={"converged": False}),
        "stopped after 4 iterations; the last one still gained 2.1 %",
        {"iterations": 8},
        RunLog("h", IMPROVING, "hmm", record={"converged": True}),
    ),
}


@pytest.mark.parametrize("rule", RUN_RULES)
def test_a_rule_fires_and_does_not(rule):
    fires, says, options, sound = CASES[rule]
    finding = found(fires, rule)
    assert finding is not None
    assert says in finding.says
    assert finding.options == options
    assert finding.figures
    assert all(f"{name}={value}" in finding.advice for name, value in options.items())
    assert found(sound, rule) is None


def test_a_sound_run_has_no_findings():
    assert advice_of(log_of()).findings == []
    assert str(advice_of(log_of())) == "run: no findings"


def test_what_is_to_be_tried_are_options_that_exist():
    known = set(field_types(TrainConfig))
    for name in MODELS:
        known |= set(field_types(config_class(name)))
    for fires, _, options, _ in CASES.values():
        assert options.keys() <= known
        for one in advice_of(fires).findings:
            json.dumps(finite(one._asdict()), allow_nan=False)


@pytest.mark.parametrize(
    ("log", "rule", "says", "advice"),
    [
        (
            log_of(train={"clip": "none"}, largest=lambda s: 9.0, extra=[{"step": 401, "diverged": "x"}]),
            "diverged", "", "clip=norm",
        ),
        (log_of(clipped=1.0, norm=4.0), "clipped", "4, is above the limit of 1", "clip_at=12"),
        (
            log_of(train={"clip": "none"}, largest=lambda s: 60.0),
            "spikes", "120 times", "clip=norm, clip_at=1.5",
        ),
        (log_of(valid=rising, config={"dropout": 0.0}), "overfitted", "0.8 passes", "dropout=0.2"),
        (
            log_of(layers={"r.layers.0": 1e-4, "r.layers.1": 0.5}, config={"residual": False}),
            "vanishing-by-layer", "", "residual=True",
        ),
        (
            log_of(layers={"blocks.0": 1e-4, "blocks.1": 0.5}, config={"norm": "post"}),
            "vanishing-by-layer", "", "norm=pre",
        ),
        (
            log_of(model="classifier", config={"encoder": "birnn"}, watched=reach(0.1, 0.001)),
            "short-reach", "distance 4", "--a encoder=birnn --b encoder=bilstm",
        ),
        (log_of(loss=lambda s: 4 - s / 200, train={"minutes": 3.0}), "still-learning", "", "minutes=6"),
    ],
)  # fmt: skip
def test_what_is_to_be_tried_depends_on_the_run(log, rule, says, advice):
    finding = found(log, rule)
    assert says in finding.says
    assert advice in finding.advice


def test_a_spike_is_one_beside_what_is_usual_at_that_time():
    log = log_of()
    for line in log.reports:
        line["norm"] = 1.0 if line["step"] < 100 else 0.001
        line["largest_norm"] = 0.5 if line["step"] == 300 else line["norm"]
    assert found(log, "spikes") is None  # below the gradients that it began with
    log.reports[-11]["largest_norm"] = 7.0
    assert found(log, "spikes").figures["times"] == pytest.approx(7000)


def test_chance_is_no_trend():
    """Held-out results that go up and down as much as they have got worse."""

    def noisy(step):
        return 2.5 + 0.03 * (step != 160) + 0.05 * (step // 40 % 2)

    assert found(log_of(valid=noisy), "overfitted") is None


def test_a_criterion_of_which_more_is_better():
    def share(step):
        return 1 - rising(step) / 4

    log = log_of(valid=share)
    log.lines[:] = [
        line | {"criterion": "accuracy"} if "valid" in line else line for line in log.lines
    ]
    assert log.best()["step"] == 160
    assert "fallen since step 160, from 0.375 accuracy to 0.2" in found(log, "overfitted").says
    assert found(log, "gap") is None  # its unit is not that of the loss


# ---- comparisons

PAIRED = {"difference": 0.5, "low": 0.4, "high": 0.6, "p_value": 0.001}


def rung(name, value, disk, p_value=0.001, **more):
    return {
        "name": name, "bits_per_byte": value, "disk": disk, "interval": [value - 0.02, value + 0.02],
        "versus_best": PAIRED | {"p_value": p_value}, "passes": None, "steps": None, "train_seconds": 6.0,
        "stopped_learning": None, "pretrained": False, **more,
    }  # fmt: skip


def report(*more, smallest="best", **facts):
    best = {k: v for k, v in rung("best", 2.4, 13_000).items() if k != "versus_best"}
    return {
        "measure": "bits_per_byte", "best": "best", "answer": {"best": "best", "smallest": smallest},
        "rungs": [best, rung("byte-2", 3.6, 20), *more], "overlap": 0.0, **facts,
    }  # fmt: skip


def curve(*values):
    points = [
        {"bytes": 1000 * 2**i, "bits_per_byte": v, "seconds": 1} for i, v in enumerate(values)
    ]
    return {"best": points}


COMPARISONS = {
    "smallest": (
        report(rung("byte-6", 2.41, 6_000), smallest="byte-6"),
        "the smallest model within the interval of the best is byte-6: 2.41 bits per byte in 6,000 bytes",
        report(),
    ),
    "level": (
        report(rung("gpt", 2.41, 6_000, p_value=0.4)),
        "the difference to the best, best, is not clear for gpt (p 0.40)",
        report(rung("gpt", 2.41, 6_000, p_value="nan")),  # it cannot be known
    ),
    "memorised": (
        report(rung("lstm", 2.5, 9, stopped_learning=300, steps=1700)),
        "lstm after step 300 of 1,700",
        report(rung("lstm", 2.5, 9, steps=1700)),
    ),
    "too-short": (
        report(rung("gpt", 2.5, 9, passes=0.2, steps=100, train_seconds=36.0)),
        "read less than the data once: gpt 0.2 passes",
        report(rung("gpt", 2.5, 9, passes=1.5, steps=100)),
    ),
    "more-data": (
        report(curve=curve(3.0, 2.7, 2.4)),
        "best gained 11 % from 2,000 to 4,000 bytes, from 2.7 to 2.4",
        report(curve=curve(2.45, 2.42, 2.4)),
    ),
    "overlap": (report(overlap=0.07), "7.0 % of the test part", report(overlap=0.001)),
}


@pytest.mark.parametrize("rule", COMPARISON_RULES)
def test_a_rule_of_comparisons_fires_and_does_not(rule, tmp_path):
    fires, says, sound = COMPARISONS[rule]
    for name, facts in (("fires", fires), ("sound", sound)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "comparison.json").write_text(json.dumps(facts))
    (finding,) = (one for one in advise(tmp_path / "fires").findings if one.rule == rule)
    assert says in finding.says
    assert finding.figures
    assert finding.advice
    assert advise(tmp_path / "sound").findings == []


def test_a_curve_that_got_worse_is_no_gain(tmp_path):
    (tmp_path / "comparison.json").write_text(json.dumps(report(curve=curve(2.0, 2.2, 2.4))))
    assert advise(tmp_path).findings == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"rungs": 3}'])
def test_a_damaged_comparison_is_one_line(text, tmp_path):
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(ModelError, match=r"comparison.json: damaged .*compare again with -o"):
        advise(tmp_path)


# ---- real ones


def test_real_runs(toy_text):
    pytest.importorskip("torch")
    from seqloom import RNN

    def rules(**train):
        model = RNN(tokenizer="byte", d_hidden=16).fit(toy_text, valid=toy_text, **train)
        assert model.log
        return {one.rule: one for one in seqloom.advise(model).findings}

    small = rules(steps=30, clip_at=1e-3, lr=1e-6)
    assert small["clipped"].says.startswith("100 % of the steps were clipped")
    assert small["slow"].figures["fall"] < 0.03
    assert (
        "short-reach" not in small
    )  # it begins with an orthogonal matrix, which passes gradients on
    trained = rules(steps=60, lr=0.03)
    assert trained["short-reach"].figures["share"] < 0.01
    assert not trained.keys() & {"slow", "diverged"}


def test_real_models_without_a_log(tmp_path):
    counted = seqloom.NGram(order=2).fit("the cat sat")
    counted.save(tmp_path / "counted")
    for model in (counted, tmp_path / "counted"):
        advice = seqloom.advise(model)
        assert advice.findings == []
        assert "this ngram model was counted" in str(advice)
    with pytest.raises(ModelError, match="no such directory"):
        seqloom.advise(tmp_path / "none")
    with pytest.raises(seqloom.errors.ConfigError, match="got int"):
        seqloom.advise(3)


def test_a_real_hidden_markov_model():
    text = "the cat sat on the mat\nthe dog sat on the log\n" * 5
    short = seqloom.HMM(states=3, iterations=3, tolerance=0).fit(text)
    assert "not-converged" in {one.rule for one in seqloom.advise(short).findings}
    full = seqloom.HMM(states=2, iterations=500, tolerance=0.01).fit(text)
    assert full.fit_info["converged"]
    assert "not-converged" not in {one.rule for one in seqloom.advise(full).findings}


def test_each_rule_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "inspect.md").read_text(encoding="utf-8")
    for name, rule in RULES.items():
        assert f"| `{name}` | {rule.looks_for} |" in page
