"""`seqloom compare`: train every rung of a task's ladder on the same data and measure all of them on
the same held-out part.

The task's `Ladder` says what is specific to the task; this module does what all tasks share. A
finished rung is kept (its model and its result), so an interrupted comparison continues where it
stopped, and a second one only reads the results. Values are kept by segment of the held-out part, so
any two rungs can be compared in pairs. Peak memory is measured, and a rung that may take long is
first timed on a small part of the data.
"""

from __future__ import annotations

import hashlib
import inspect
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from seqloom import progress, storage, tasks
from seqloom._version import __version__
from seqloom.comparison import ladder as ladders
from seqloom.comparison.bench import PRETRAINED, Attempt, Bench, NotPossible, Rung
from seqloom.comparison.curve import CurvePoint, learning_curve
from seqloom.comparison.kept import keep
from seqloom.comparison.ladder import Ladder, Parts
from seqloom.comparison.result import (
    Comparison,
    FinishedRung,
    RungResult,
    Skipped,
    held,
    reuse,
    trim,
    write_result,
)
from seqloom.comparison.timing import Plan, check_time, peak_memory
from seqloom.describing import renamed
from seqloom.directories import cache_directory
from seqloom.errors import ConfigError, SeqloomError, suggest, suggest_known

LIMIT = 10.0  # minutes that a rung may take, by default


@progress.remarking_once()
def compare(
    data: Any = None,
    *,
    task: str | Ladder | None = None,
    rungs: Sequence[Any] | None = None,
    valid: Any = None,
    test: Any = None,
    pretrained: Sequence[str | Path] = (),
    minutes: float | None = None,
    limit: float | None = None,
    work: str | Path | None = None,
    seed: int = 0,
    curve: bool = False,
    on_start: Callable[[Comparison], None] | None = None,
    on_rung: Callable[[RungResult | Skipped], None] | None = None,
    **options: Any,
) -> Comparison:
    """Train and measure a ladder of models; `data` as in `fit`, the bundled text by default.

    Each model is a rung. What kind of data it is decides which ladder; `task` says otherwise, by
    its name or as a `Ladder`. `rungs`: names of some, and models of your own, which are fitted
    here, or evaluated as they are where they are fitted already. The data is split, unless `valid`
    and `test` are given; with one of them, rungs are evaluated on it. `pretrained`: directories
    of saved models that were trained elsewhere; they are evaluated as they are, and marked, since
    they may have seen the test part.

    `minutes`: how long each network trains. `limit`: the most minutes that any other rung may take;
    one that would need longer, as measured on a part, is skipped with a remark. `work` is the directory
    that keeps finished rungs (the user's cache by default). With `curve` every rung is also trained on
    parts of the training data, which may take as long again.

    `options` are those of one task: `horizon`, `season` and `since` for forecasters.
    """
    ladder, why = _ladder(data, task, rungs)
    ladder = _with_options(ladder, options)
    opened = [(Path(directory), _open(ladder, directory)) for directory in pretrained]
    wanted = _choose(ladder, rungs)  # refused before anything is read
    dataset = ladder.read(data)
    parts = ladder.split(
        dataset, *(None if part is None else ladder.read_held_out(part) for part in (valid, test))
    )
    general, ladder = ladder, ladder.specialised_for(parts)
    if ladder.rungs != general.rungs:
        wanted = _choose(ladder, rungs)
    for directory, model in opened:
        wanted.append(Rung.pretrained(model, directory, [r.name for r in wanted]))
        model.remark_training_data(ladder.short_name(dataset), dataset.fingerprint)
    if why:
        progress.say(
            f"comparing {ladder.models}: {why}; task= names another comparison ({', '.join(ladders.names())})"
        )
    out = _empty_comparison(ladder, dataset, parts)
    if on_start is not None:
        on_start(out)
    folder = Path(work) if work else cache_directory() / "compare"
    directory = folder / _key(parts.fingerprint, ladder, seed)
    if not work:
        trim(folder, directory)
    bench = ladder.bench(parts)
    bench = replace(
        bench,
        minutes=minutes or bench.minutes,
        enough=minutes is None,
        directory=directory,
        seed=seed,
    )
    with held(directory):
        attempts = {rung.name: Attempt(rung, bench) for rung in wanted if not rung.on_others}
        finished = {
            name
            for name, attempt in attempts.items()
            if attempt.rung.reusable and (directory / f"{name}-{attempt.key}").exists()
        }
        plan = Plan(wanted, bench, out.sizes["train"], finished)
        progress.say(plan.describe())
        ladder.warm_up()
        out.bench, names = bench, [rung.name for rung in wanted]
        for item in _run(wanted, attempts, bench, directory, limit or LIMIT, out, plan):
            if on_rung is not None:
                on_rung(item)
            keep(out, directory, names, running=True)
        keep(out, directory, names, running=curve)
        if curve:
            points = {  # on all training data; the curve adds those on parts of it
                r.name: CurvePoint(out.sizes["train"], r.value, r.train_seconds)
                for r in out.results
                if r.train_seconds is not None
            }
            out.curve = learning_curve(ladder, wanted, bench, points, directory, limit or LIMIT)
            keep(out, directory, names, running=False)
    return out


def _empty_comparison(ladder: Ladder, dataset: Any, parts: Parts) -> Comparison:
    """Return the comparison before its first rung; warn about its data."""
    sizes = {
        name: ladder.size(part)
        for name, part in vars(parts).items()
        if name in ("train", "valid", "test") and part is not None
    }
    out = Comparison(
        ladder.short_name(dataset),
        dataset.fingerprint,
        parts.description,
        sizes,
        ladder.overlap(parts),
        ladder,
    )
    if out.overlap > 0.01:
        progress.say(
            f"warning: {out.overlap:.1%} of {ladder.overlapping} also occur in the training part, so "
            "results are too optimistic"
        )
    for warning in ladder.warnings(parts):
        progress.say(warning)
    return out


def _ladder(
    data: Any, task: str | Ladder | None, rungs: Sequence[Any] | None
) -> tuple[Ladder, str]:
    """Choose the ladder, and say why: as asked, by models given as objects, or by the data."""
    if task is not None:
        return task if isinstance(task, Ladder) else ladders.get(task), ""
    given = [rung for rung in rungs or () if not isinstance(rung, str)]
    return (ladders.of_task(given[0].task), "") if given else ladders.of_data(data)


def _open(ladder: Ladder, directory: str | Path) -> Any:
    """Load a model that was trained elsewhere, if it can be evaluated beside the others."""
    model = storage.load(directory)
    if model.task != ladder.task:
        raise ConfigError(
            f"{directory} cannot be compared with {ladder.models}: its task is {model.task!r}, not "
            f"{ladder.task!r}"
        )
    if why := ladder.refuses(model):
        raise ConfigError(f"{directory} cannot be compared: {why}")
    return model


def _with_options(ladder: Ladder, options: dict[str, Any]) -> Ladder:
    """Return the ladder with the options of its task; suggest where an unknown option belongs."""
    names = [f.name for f in fields(tasks.get(ladder.task).comparing)]
    for old, new in ladder.former_names.items():
        if old in options:
            options[new] = renamed(new, options.get(new), old, options.pop(old))
    for name in options:
        if name not in names:
            others = [
                other.models
                for other in ladders.every()
                if name in {f.name for f in fields(tasks.get(other.task).comparing)}
            ]
            accepted = [*names, *inspect.signature(compare).parameters]
            where = f"; it is for {' and '.join(others)}" if others else suggest(name, accepted)
            raise ConfigError(f"a comparison of {ladder.models} has no option {name!r}{where}")
    return ladder.with_options(**options)


def _run(
    wanted: list[Rung],
    attempts: Mapping[str, Attempt],
    bench: Bench,
    directory: Path,
    limit: float,
    out: Comparison,
    plan: Plan,
) -> Iterator[RungResult | Skipped]:
    """Yield the result of each rung, cached or measured now, or why it is skipped."""
    for rung in wanted:
        attempt = attempts.get(rung.name) or Attempt(
            rung, bench, [r for r in wanted if r.name in bench.fitted]
        )
        target = directory / f"{rung.name}-{attempt.key}" if rung.reusable else None
        cached = reuse(target) if target else None
        if cached is None:
            try:
                check_time(out.ladder, rung, bench, limit)
                verb = "evaluating" if rung.finished else "training"
                progress.say(f"{verb} {rung.name} ({plan.announce(rung.name)})")
                cached = _measure(attempt, target, out)
                plan.measured(rung.name, cached.result.train_seconds)
            except NotPossible as reason:
                out.skipped.append(Skipped(rung.name, str(reason)))
                yield out.skipped[-1]
                continue
        elif rung.tokenizer and rung.tokenizer not in bench.tokenizers:
            bench.tokenizers[rung.tokenizer] = (
                cached.model.tokenizer,
                cached.result.tokenizer_seconds,
            )
        bench.fitted[rung.name] = cached.model
        if rung.given is not None:
            bench.own.add(rung.name)
        if target:
            out.places[rung.name] = str(target)
        elif rung.directory:
            out.places[rung.name] = str(rung.directory)
        out.results.append(cached.result)
        out.rows[rung.name] = cached.rows
        yield cached.result


def _measure(attempt: Attempt, target: Path | None, out: Comparison) -> FinishedRung:
    """Fit one rung and measure it on the test part."""
    rung, bench, ladder, parts = attempt.rung, attempt.bench, out.ladder, attempt.bench.splits
    if rung.tokenizer:
        bench.tokenizer(rung.tokenizer)  # timed apart, as several rungs share it
    start = time.perf_counter()
    with peak_memory() as memory:
        model = attempt.fit()
    seconds = time.perf_counter() - start
    if why := ladder.refuses(model):
        raise NotPossible(why)
    evaluation = ladder.evaluate(model, parts)
    rows = evaluation.scores[0].rows
    extra = bench.tokenizers[rung.tokenizer][1] if rung.tokenizer else 0.0
    trained = not rung.finished
    record = {} if rung.directory else model.fit_info  # the record of a stranger is not trusted
    result = RungResult(
        name=rung.name,
        family=rung.family,
        measures=evaluation.measures,
        interval=ladder.interval(rows),
        tokenizer=model.tokenizer_label(),
        parameters=model.parameters,
        train_seconds=seconds + extra if trained else None,
        train_speed=ladder.learnt_units(model, parts) / max(seconds, 1e-9) if trained else None,
        score_speed=evaluation.scored / max(evaluation.seconds, 1e-9),
        peak_memory=memory.peak if trained else None,
        disk=None,
        sample=ladder.sample(model, rung, bench.seed),
        signature=ladder.signature(model, parts),
        tokenizer_seconds=extra,
        fallbacks=record.get("fallbacks", {}),
        adds=rung.adds,
        pretrained=rung.family == PRETRAINED,
        **(
            {
                "steps": record["steps"],
                "passes": record["epochs"],
                "stopped_learning": stopped_learning(model.log, record.get("best_step")),
            }
            if model.trained and not rung.directory
            else {}
        ),
    )
    if target is None:
        return FinishedRung(
            replace(result, disk=_size(rung.directory) if rung.directory else _disk(model)),
            rows,
            model,
        )
    with storage.writing(target) as partial:
        storage.write_model(model, partial)
        result = replace(result, disk=_size(partial))
        write_result(partial, result, rows)
    return FinishedRung(result, rows, model)


MIN_EVALUATIONS = 3  # evaluations without gain that say that a network has stopped learning


def stopped_learning(log: progress.Lines, best_step: int | None) -> int | None:
    """Return the step after which a network only memorised: all later evaluations were worse, while the
    training loss fell. None where it did not, or where too few evaluations would say so.
    """
    losses = [line for line in log if "loss" in line]
    evaluations = [line["step"] for line in log if "valid" in line]
    if best_step is None or sum(step > best_step for step in evaluations) < MIN_EVALUATIONS:
        return None
    until_then = [line["loss"] for line in losses if line["step"] <= best_step]
    return best_step if until_then and losses[-1]["loss"] < until_then[-1] else None


def _disk(model: Any) -> int | None:
    """Return the disk space that a model that is not kept would take; None where it cannot be
    saved.
    """
    with tempfile.TemporaryDirectory() as folder, suppress(SeqloomError, NotImplementedError):
        storage.write_model(model, Path(folder))
        return _size(Path(folder))
    return None


def _size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def _choose(ladder: Ladder, wanted: Sequence[Any] | None) -> list[Rung]:
    """Choose the rungs: those of the ladder first, in its order, then models that were given."""
    if not wanted:
        return list(ladder.rungs)
    rungs = {r.name: r for r in ladder.rungs}
    # a name without its number stands for all: hmm for hmm-1 and hmm-2
    numbered: dict[str, list[str]] = {}
    for rung in rungs:
        stem, _, number = rung.rpartition("-")
        if number.isdecimal() and stem not in rungs:
            numbered.setdefault(stem, []).append(rung)
    names = [name for one in wanted if isinstance(one, str) for name in numbered.get(one) or [one]]
    for name in names:
        if name not in rungs and (further := ladder.further_rung(name)) is not None:
            rungs[name] = further
        if name not in rungs:
            others = [
                its
                for its in ladders.every()
                if its.task != ladder.task and name in {rung.name for rung in its.rungs}
            ]
            if others:
                where = " or ".join(f"of {its.models}: task={its.name!r}" for its in others)
                raise ConfigError(f"unknown rung {name!r} of {ladder.models}; it is one {where}")
            raise ConfigError(f"unknown rung {name!r}{suggest_known(name, rungs)}")
    chosen = [rungs[name] for name in rungs if name in names]
    for model in wanted:
        if isinstance(model, str):
            continue
        if getattr(model, "task", None) != ladder.task:
            raise ConfigError(
                f"{model!r:.60} cannot be compared with {ladder.models}: its task is "
                f"{getattr(model, 'task', None)!r}, not {ladder.task!r}"
            )
        chosen.append(Rung.of(model, [r.name for r in chosen]))
    return chosen


def _key(fingerprint: str, ladder: Ladder, seed: int) -> str:
    facts = (
        fingerprint,
        *ladder.options.to_dict().items(),
        seed,
        __version__,
        storage.FORMAT_VERSION,
    )
    return hashlib.sha256("|".join(map(str, facts)).encode()).hexdigest()[:16]
