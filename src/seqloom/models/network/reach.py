"""The ladder of lags: how far back a network learns, rung by rung, within a time.

A rung begins with the weights that learned the one below. All networks stand on one rung before any goes
to the next, so a time that is over cuts all at the same lag; one that does not learn a lag goes no further.
One that is cut by its share of the time goes on for another when all others had theirs: most need less.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np

from seqloom import progress
from seqloom.arrays import read_arrays, write_arrays
from seqloom.directories import writing_file

Weights = Mapping[str, Any] | None  # by name; None: initial ones
Ended = Literal["learned", "updates", "diverged", "time"]
LAGS = (5, 10, 20, 50, 100, 200, 500)
SOLVED = 0.9  # accuracy, or of numbers the share of the variance that is explained
WITHOUT_FORGETTING = "lstm-no-forget"  # the LSTM of 1997: its forget gate is always open
FILE = "reach.jsonl"  # of the rungs that are kept


@dataclass(frozen=True)
class Setting:
    """What is trained at each lag."""

    encoder: str  # a name of `encoder_table`, or WITHOUT_FORGETTING
    task: str
    clip: bool = True
    seed: int = 0
    start: str = "orthogonal"
    forget_bias: float = 1.0
    activation: str = "tanh"
    hidden: int = 64
    updates: int = 1000  # at most, of one rung
    noise: float = 0.0  # standard deviation of what is added to all that is read


@dataclass
class Rung:
    """What came of one lag."""

    lag: int
    score: float
    updates: int
    ended: Ended


@dataclass
class Climb:
    """How far one setting came."""

    setting: Setting
    rungs: list[Rung] = field(default_factory=list)
    weights: Weights = None  # with which the last rung was learned, while it climbs

    @property
    def reach(self) -> int:
        """Return the largest lag that was learned, 0 for none."""
        return max((rung.lag for rung in self.rungs if rung.ended == "learned"), default=0)

    @property
    def ended(self) -> Ended:
        """Return why it went no further: `learned` at the top of the ladder."""
        return self.rungs[-1].ended if self.rungs else "time"


# setting, lag, the moment at which to stop, by the clock, the weights to begin with, and the updates that
# were made of them at this lag
Learn = Callable[[Setting, int, float, Weights, int], tuple[Rung, Weights]]


class Kept:
    """Rungs that were finished in an earlier call, and the weights that learned the last one of each
    setting, in a directory. A rung that the time cut is not kept.
    """

    def __init__(self, directory: str | Path | None) -> None:
        self.directory = None if directory is None else Path(directory)
        self.rungs: dict[str, Rung] = {}
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            try:
                values = json.loads(line)
                self.rungs[values["of"]] = Rung(**values["rung"])
            except (ValueError, KeyError, TypeError):  # a line that was cut off
                continue

    def find(self, setting: Setting, lags: Sequence[int]) -> Rung | None:
        """Return the rung of an earlier call at the last of these lags, reached by the others."""
        return self.rungs.get(_key(setting, lags))

    def weights(self, setting: Setting, lags: Sequence[int]) -> Weights:
        """Return the weights that learned the last of these lags, if they are there."""
        path = self._path(setting, lags)
        if path is None or not path.exists():
            return None
        return {name: np.array(array) for name, array in read_arrays(path).items()}

    def put(self, setting: Setting, lags: Sequence[int], rung: Rung, weights: Weights) -> None:
        """Keep a rung, and the weights if it was learned, unless the time cut it."""
        path = self._path(setting, lags)
        if self.directory is None or path is None or rung.ended == "time":
            return
        if rung.ended == "learned" and weights is not None:
            with writing_file(path) as partial:
                write_arrays(partial, dict(weights))
            if before := self._path(setting, lags[:-1]):
                before.unlink(missing_ok=True)
        line = json.dumps({"of": _key(setting, lags), "rung": asdict(rung)})
        with (self.directory / FILE).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _path(self, setting: Setting, lags: Sequence[int]) -> Path | None:
        if self.directory is None:
            return None
        name = sha256(_key(setting, lags).encode()).hexdigest()[:16]
        return self.directory / f"{name}.safetensors"


def _key(setting: Setting, lags: Sequence[int]) -> str:
    return json.dumps({**asdict(setting), "lags": list(lags)}, sort_keys=True)


def climb(
    settings: Sequence[Setting],
    lags: Sequence[int],
    minutes: float,
    learn: Learn,
    *,
    kept: Kept | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Climb]:
    """Let all settings climb; each may use an equal share of the time that is left to its rung."""
    kept, begin = kept or Kept(None), clock()
    end = begin + 60 * minutes
    climbs = [Climb(setting) for setting in settings]
    climbing = list(climbs)
    lags = sorted(set(lags))
    with progress.task("climbing", round(60 * minutes), "") as bar:
        shown = 0
        for height, lag in enumerate(lags):
            for number, one in enumerate(climbing):
                bar.note(f"lag {lag}, {one.setting.encoder}, {one.setting.task}")
                rung = kept.find(one.setting, lags[: height + 1])
                if rung is None:
                    now = clock()
                    until = now + max(end - now, 0.0) / (len(climbing) - number)
                    rung = _learn(one, lags[: height + 1], until, learn, kept)
                else:
                    one.weights = None
                one.rungs.append(rung)
                seconds = min(int(clock() - begin), round(60 * minutes))
                bar.advance(seconds - shown)
                shown = seconds
            cut = [one for one in climbing if one.rungs[-1].ended == "time"]
            sharing = len(cut) + sum(one.rungs[-1].ended == "learned" for one in climbing)
            for number, one in enumerate(cut):
                if (now := clock()) >= end:
                    break
                until = now + (end - now) / (sharing - number)
                one.rungs[-1] = _learn(
                    one, lags[: height + 1], until, learn, kept, one.rungs[-1].updates
                )
            climbing = [one for one in climbing if one.rungs[-1].ended == "learned"]
            if not climbing:
                break
    for one in climbs:
        one.weights = None
    return climbs


def _learn(
    one: Climb, lags: Sequence[int], until: float, learn: Learn, kept: Kept, begun: int = 0
) -> Rung:
    """Learn the last of these lags with the weights of the one before, which may be kept, or must be
    learned again; or with those of so many updates that were made of it.
    """
    if one.weights is None and lags[:-1]:
        one.weights = kept.weights(one.setting, lags[:-1])
    if one.weights is None:
        for lag in lags[:-1]:
            _, one.weights = learn(one.setting, lag, until, one.weights, 0)
    rung, one.weights = learn(one.setting, lags[-1], until, one.weights, begun)
    kept.put(one.setting, lags, rung, one.weights)
    return rung


# ---- the order that is expected


def compare_orders(
    climbs: Sequence[Climb], lower: str, higher: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """Return where one encoder reaches less far than each of some others, where it does not, and where the
    time cut off those that might still have passed it: by task, clipping and seed, with the reaches.
    """
    groups: dict[tuple[Any, ...], dict[str, Climb]] = {}
    for one in climbs:
        s = one.setting
        key = (s.task, s.clip, s.seed, s.noise, s.start, s.forget_bias)
        groups.setdefault(key, {})[s.encoder] = one
    holds: list[str] = []
    fails: list[str] = []
    still_open: list[str] = []
    for (task, clip, seed, noise, *_), found in groups.items():
        if lower not in found or not all(name in found for name in higher):
            continue
        shown = ", ".join(f"{name} {found[name].reach}" for name in (lower, *higher))
        text = f"{task} {'with' if clip else 'without'} clipping, seed {seed} ({shown})"
        text = f"{text[:-1]}; noise {noise:g})" if noise else text
        behind = [found[name] for name in higher if found[name].reach <= found[lower].reach]
        if not behind:
            holds.append(text)
        elif all(one.ended == "time" for one in behind):
            still_open.append(text)
        else:
            fails.append(text)
    return holds, fails, still_open
