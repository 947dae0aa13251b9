"""`seqloom scaling`: the plan, the runs, what is kept, what is said, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from seqloom import LSTM, NGram, Tokenizer, bundled, scaling, scaling_of
from seqloom.comparison import scaling as engine
from seqloom.comparison.scaling_result import Scaled, Scaling
from seqloom.errors import ConfigError, DataError, TrainingError


def truth(n, d):
    return 1.1 + 60 / n**0.42 + 90 / d**0.39


def made(sizes=(2e4, 8e4, 3.2e5), texts=(1e5, 4e5, 1.6e6), passes=1.0, noise=0.002, seconds=1e-10):
    """Runs of a known law, with two more of the smallest."""
    rng = np.random.default_rng(3)
    places = [(n, d) for n in sizes for d in texts]
    places += [places[0]] * 2
    return [
        Scaled(
            int(n**0.5), int(n), int(d), passes, seed,
            truth(n, d * passes) * (1 + noise * rng.standard_normal()),
            seconds * n * d * passes,
        )
        for seed, (n, d) in enumerate(places)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return Scaling.of("lstm", "corpus.txt", "0123456789ab", made(), 2_000_000)


# ---- what runs say


def test_answers_hold_the_truth(found):
    n, d = 3.2e5, 1.6e6
    for gain, then in ((found.more_text(), (n, 4 * d)), (found.more_weights(), (4 * n, d))):
        assert gain.low < truth(n, d) - truth(*then) < gain.high
    assert found.split().low < 0.42 / (0.42 + 0.39) < found.split().high
    assert found.predict(4 * d, 2 * n).low < truth(2 * n, 4 * d) < found.predict(4 * d, 2 * n).high


def test_the_split_is_where_the_law_is_least(found):
    """Against a search along the line of equal compute."""
    compute = 1e12
    n, d = found.best_at(compute)
    assert n * d == pytest.approx(compute)
    tried = np.exp(np.linspace(np.log(n) - 1, np.log(n) + 1, 2001))
    losses = [found.law(m, compute / m) for m in tried]
    assert tried[np.argmin(losses)] == pytest.approx(n, rel=2e-3)


def test_an_hour_is_by_the_measured_speeds():
    """The seconds are proportional to weights times text, so the best of an hour is the best split."""
    found = Scaling.of("lstm", "c", "", made(seconds=1e-10), 10**9)
    hour = found.hour()
    assert hour is not None
    assert hour["weights"] * hour["text"] == pytest.approx(3600 / 1e-10, rel=1e-3)
    n, _ = found.best_at(3600 / 1e-10)
    assert hour["weights"] == pytest.approx(n, rel=0.05)


def test_an_hour_too_far_away_is_not_foretold():
    found = Scaling.of("lstm", "c", "", made(seconds=1e-12), 10**9)
    assert found.hour() is None
    assert "too far" in found.table()


def test_noise_is_that_of_the_repeats(found):
    group = [found.runs[0].loss, *(run.loss for run in found.repeats)]
    assert found.noise.deviation == pytest.approx(np.std(group, ddof=1) / np.mean(group), rel=1e-6)
    assert found.noise.degrees == 2
    assert len(found.runs) == 9


def test_one_size_is_a_law_of_the_text_alone():
    found = Scaling.of(
        "gpt", "c", "", made(sizes=(2e4,), texts=10.0 ** np.linspace(4, 7, 9)), 10**7
    )
    assert not found.sized
    assert found.more_weights() is None
    assert found.split() is None
    assert "weights would" not in found.table()


def test_runs_that_do_not_follow_the_law_are_told(found):
    assert "from the law" not in found.table()
    bent = made()
    for i in (0, 9, 10):  # the smallest, and it again: hardly trained
        bent[i] = replace(bent[i], loss=0.85 * bent[i].loss)
    away = Scaling.of("lstm", "c", "", bent, 10**7)
    assert away.distance > 0.02
    assert "runs lie" in away.table()


def test_passes_count_as_read():
    """A text read four times is four times as much; five times is refused."""
    four = Scaling.of("lstm", "c", "", made(texts=(1e5, 4e5, 1.6e6), passes=4.0), 10**7)
    assert four.place(four.largest) == (3.2e5, 6.4e6)
    with pytest.raises(DataError, match=r"5\.0 times.*new text"):
        Scaling.of("lstm", "c", "", made(passes=5.0), 10**7)


def test_few_runs_are_refused():
    with pytest.raises(DataError, match="5 runs of different size or length are too few"):
        Scaling.of("lstm", "c", "", made()[:5], 10**7)
    with pytest.raises(DataError, match="1 runs"):  # seeds alone say nothing
        Scaling.of("lstm", "c", "", [made()[0]] * 9, 10**7)


def test_table_and_json(found):
    text = found.table()
    assert text.startswith("lstm on corpus.txt (01234567)")
    assert "4x the text would bring" in text
    assert "4x the weights" in text
    values = json.loads(json.dumps(found.to_dict()))
    assert len(values["runs"]) == 9
    assert len(values["repeats"]) == 2
    assert values["more_text"]["low"] < values["more_text"]["value"] < values["more_text"]["high"]
    assert values["held_out"] is None


def test_the_picture_has_runs_law_and_the_larger_run(found):
    larger = Scaled(800, 640_000, 3_200_000, 1.0, 0, truth(6.4e5, 3.2e6), 1.0)
    chart = replace(found, held_out=larger).sheet().picture().to_dict()
    rows = [row for data in chart["datasets"].values() for row in data]
    drawn = {(row["text"], row["value"]) for row in rows}
    for run in (*found.runs, *found.repeats, larger):
        assert (run.read, run.loss) in drawn
    bands = [row for row in rows if "low" in row]
    assert len({row["name"] for row in bands}) == 4
    assert all(row["low"] < row["value"] < row["high"] for row in bands)


# ---- runs on a text


@pytest.fixture(scope="module")
def text():
    return bundled().text()[:120_000]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("scaling")


@pytest.fixture(scope="module")
def counted(text, place):
    return scaling(text, model="ngram", check=True, work=place)


def test_a_model_that_counts_learns_from_nine_lengths(counted, text):
    assert len(counted.runs) == 9
    assert not counted.sized
    sizes = [run.size for run in counted.runs]
    assert sizes == sorted(sizes)
    train, _, test = engine.as_corpus(text).split(engine.FRACTIONS)
    assert sizes[-1] == pytest.approx(train.n_bytes / 4, rel=0.02)
    by_hand = NGram(order=6, tokenizer="byte", unit="stream")
    by_hand.fit(train.spread(0.25, int(train.n_bytes / 64 / 200)))
    assert counted.runs[-1].loss == pytest.approx(by_hand.bits_per_byte(test), rel=1e-9)
    assert counted.held_out.size == train.n_bytes
    assert "held-out larger run" in counted.table()
    assert counted.expected.low < counted.expected.value < counted.expected.high


def test_a_second_call_reads_what_is_kept(text, place, counted, monkeypatch):
    monkeypatch.setattr(engine._Maker, "_trained", lambda *given: pytest.fail("trained again"))
    again = scaling(text, model="ngram", check=True, work=place)
    assert again.to_dict() == counted.to_dict()


def test_an_interrupt_keeps_the_finished_runs(text, tmp_path, monkeypatch):
    honest, seen = engine._Maker._trained, []

    def stop(self, *given):
        if len(seen) == 4:
            raise KeyboardInterrupt
        seen.append(given)
        return honest(self, *given)

    monkeypatch.setattr(engine._Maker, "_trained", stop)
    with pytest.raises(KeyboardInterrupt):
        scaling(text, model="ngram", work=tmp_path)
    monkeypatch.setattr(
        engine._Maker, "_trained", lambda self, *given: seen.append(given) or honest(self, *given)
    )
    scaling(text, model="ngram", work=tmp_path)
    assert len(seen) == 9


def test_a_damaged_file_is_made_again(text, place, counted):
    path = sorted(place.glob("*/counted-*.json"))[3]
    path.write_text("{")
    again = scaling(text, model="ngram", check=True, work=place)
    assert [run.loss for run in again.runs] == [run.loss for run in counted.runs]


def test_networks_each_with_its_own_schedule(text, tmp_path, monkeypatch):
    """Widths by shares, each alone; a run is what `fit` gives with that width, text and seed."""
    losses = iter(made())
    seen = []

    def trained(self, plan, width, share, seed, run):
        seen.append((width, share, seed))
        one = next(losses)
        return Scaled(width, one.parameters, one.size, 1.0, seed, one.loss, one.seconds)

    monkeypatch.setattr(engine._Maker, "_trained", trained)
    scaling(text, model="lstm", widths=[8, 16, 32], shares=[0.1, 0.3, 1.0], work=tmp_path)
    assert seen[:9] == [(w, s, 0) for w in (8, 16, 32) for s in (0.1, 0.3, 1.0)]
    assert seen[9:] == [(8, 0.1, 1), (8, 0.1, 2)]


def test_a_run_is_what_fit_gives(text, tmp_path):
    maker = engine._Maker("lstm", engine.as_corpus(text), {"tokenizer": "byte"}, None, None)
    plan = maker.plan(1.0, [8], [0.05, 0.1, 0.2], False)
    run = maker.run(plan, 8, 0.1, 3, tmp_path)
    train, valid, test = engine.as_corpus(text).split(engine.FRACTIONS)
    model = LSTM(d_hidden=8, tokenizer="byte", vocab_size=None, unit="stream", dropout=0.0)
    model.fit(
        train.spread(0.1, int(0.05 * train.n_bytes / 200)),
        valid=engine._most(valid, engine.VALID),
        epochs=1,
        seed=3,
        evaluate_every=10**9,
        batch_size=plan.batch_size,
    )
    assert run.loss == pytest.approx(model.bits_per_byte(test), rel=1e-6)
    assert (run.width, run.parameters, run.seed) == (8, model.parameters, 3)
    assert run.passes == 1
    assert not list(tmp_path.glob("*.run"))


def test_a_diverged_run_is_left_out_and_said(text, tmp_path, monkeypatch, capsys):
    honest = made()

    def trained(self, plan, width, share, seed, run):
        if (width, share) == (16, 0.3):
            raise TrainingError("at step 3 the loss is not a number")
        one = honest[3 * (8, 16, 32).index(width) + (0.1, 0.3, 1.0).index(share)]
        return Scaled(width, one.parameters, one.size, 1.0, seed, one.loss, one.seconds)

    monkeypatch.setattr(engine._Maker, "_trained", trained)
    found = scaling(text, model="lstm", widths=[8, 16, 32], shares=[0.1, 0.3, 1.0], work=tmp_path)
    assert len(found.runs) == 8


# ---- the plan


def planner(text, monkeypatch, speed=1e-6, **options):
    """A maker whose networks take a known time, so that the plan does not depend on this machine."""
    maker = engine._Maker("lstm", engine.as_corpus(text), options, None, None)
    monkeypatch.setattr(maker, "_speed", lambda width: speed * maker._cost(width) / 1e4)
    return maker


def test_the_plan_keeps_to_its_minutes(text, monkeypatch):
    maker = planner(text, monkeypatch)
    speeds, tokens = maker._speeds(), maker._tokens()
    plans = {minutes: maker.plan(minutes, (), (), False) for minutes in (0.05, 0.5, 5.0)}
    for minutes, plan in plans.items():
        assert len(plan.widths) == len(plan.shares) == 3
        assert np.allclose(np.diff(np.log(plan.shares)), np.log(engine.LENGTH_STEP))
        spent = sum(speeds(w) * s * tokens * plan.passes for w in plan.widths for s in plan.shares)
        assert spent < 60 * minutes
        sizes = [maker._cost(w) for w in plan.widths]
        assert sizes[1] / sizes[0] > 3.9
        assert sizes[2] / sizes[1] > 3.9
        assert 1 <= plan.passes <= 4
        assert plan.shares[-1] <= 1
    assert plans[5.0].widths[-1] >= plans[0.05].widths[-1]
    work = {m: p.shares[-1] * p.passes * maker._cost(p.widths[-1]) for m, p in plans.items()}
    assert work[0.05] < work[0.5] <= work[5.0]


def test_a_check_leaves_text_for_the_larger_run(text, monkeypatch):
    maker = planner(text, monkeypatch)
    plan = maker.plan(50.0, (), (), True)
    assert plan.shares[-1] <= 0.5
    width, share = maker.larger(plan)
    ratio = share * maker._cost(width) / (plan.shares[-1] * maker._cost(plan.widths[-1]))
    assert 4 <= ratio < 4.6
    with pytest.raises(ConfigError, match="times the text that there is"):
        maker.larger(maker.plan(1.0, (8, 16, 32), (0.2, 0.5, 1.0), True))


def test_short_runs_have_small_batches(text, monkeypatch):
    maker = planner(text, monkeypatch)
    plan = maker.plan(0.5, (8, 16, 32), (0.01, 0.1, 1.0), False)
    assert plan.batch_size * 32 == engine.LEAST_BATCH
    given = planner(text, monkeypatch, batch_size=7)
    assert given.plan(0.5, (8, 16, 32), (0.01, 0.1, 1.0), False).batch_size is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "naive-bayes"}, "for language models; naive-bayes"),
        ({"model": "lstm", "options": {"steps": 5}}, "the plan sets steps"),
        ({"model": "lstm", "options": {"d_hidden": 5}}, "the plan sets d_hidden"),
        ({"model": "ngram", "widths": [8, 16, 32]}, "ngram has no width"),
        ({"model": "lstm", "widths": [8, 9, 10], "shares": [0.1, 2.0, 1]}, "above 0 and at most 1"),
    ],
)
def test_refusals(text, given, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        scaling(text, work=tmp_path, **given)


def test_too_little_text_is_refused(tmp_path):
    with pytest.raises(DataError, match="too few to learn from"):
        scaling("to be or not to be, that is the question\n" * 40, model="ngram", work=tmp_path)


# ---- runs of one's own


@pytest.fixture(scope="module")
def own(text):
    """Six small networks of one tokenizer, on three lengths."""
    tokenizer = Tokenizer(kind="byte").fit(text)
    valid = text[-6000:]
    models = []
    for width in (4, 8):
        for length in (6000, 12_000, 24_000):
            model = LSTM(d_hidden=width, tokenizer="byte")
            model.fit(text[:length], valid=valid, tokenizer=tokenizer, epochs=1, batch_size=8)
            models.append(model)
    return models, valid


def test_runs_of_ones_own_are_read(own, monkeypatch):
    models, valid = own
    seen = []
    monkeypatch.setattr(Scaling, "of", classmethod(lambda cls, *given: seen.append(given)))
    scaling_of(models)
    scaling_of(models, valid=valid)
    for _, _, _, runs, text in seen:
        assert [run.width for run in runs] == [4, 4, 4, 8, 8, 8]
        assert [run.size for run in runs[:3]] == [6000, 12_000, 24_000]
        assert [run.parameters for run in runs] == [model.parameters for model in models]
        assert text == 24_000
    for by_log, measured, model in zip(seen[0][3], seen[1][3], models):
        assert measured.loss == pytest.approx(model.bits_per_byte(valid), rel=1e-9)
        assert by_log.loss == pytest.approx(measured.loss, abs=0.05)


def test_other_models_are_refused(own, text):
    with pytest.raises(ConfigError, match="no network that models language"):
        scaling_of([NGram(order=2).fit(text[:3000])])
    other = LSTM(d_hidden=4, tokenizer="char").fit(text[:6000], valid=text[-3000:], steps=2)
    with pytest.raises(DataError, match="was not measured on held-out text in bits per byte"):
        scaling_of([*own[0], other])
    larger = LSTM(d_hidden=4, vocab_size=300).fit(text[:6000], valid=text[-3000:], steps=2)
    with pytest.raises(DataError, match="different tokenizers"):
        scaling_of([*own[0], larger])
