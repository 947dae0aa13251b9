"""What the checks of all tasks share: a specimen, rules that are called with it, and rules that
every model keeps.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import storage
from seqloom.errors import ConfigError, ModelError, NotFitted, SeqloomError
from seqloom.training.config import TrainConfig

STEPS = 4  # of training, for a network


@dataclass(frozen=True)
class Specimen:
    """A fitted model, how to make another that is not fitted (None: it is not to be fitted again),
    and data of its task.
    """

    model: Any
    fresh: Callable[[], Any] | None
    data: Any
    held_out: Any

    def new(self) -> Any:
        """Fit a second model on the same data."""
        assert self.fresh is not None
        return fit(self.fresh(), self.data)


Rule = Callable[[Specimen], None]


def fit(model: Any, data: Any) -> Any:
    """Fit in little time: a network makes a few steps only."""
    return model.fit(data, train=TrainConfig(steps=STEPS)) if model.trained else model.fit(data)


def specimen(model: Any, contract: Any, data: Any, usual: Any, held_out: Any) -> Specimen:
    """Make a specimen; `usual`: what an unfitted model is fitted on if no data is given."""
    require(
        not isinstance(model, type),
        f"give a model, not its class: {getattr(model, '__name__', model)}()",
    )
    require(
        isinstance(model, contract),
        f"{type(model).__name__} is not made from seqloom.{contract.__name__}",
    )
    if model.fitted:
        return (
            Specimen(model, None, usual, held_out)
            if data is None
            else Specimen(model, lambda: unfitted(model), data, data)
        )
    learnt = usual if data is None else data
    fitted = copy.deepcopy(model)
    with named(model, "fit"):
        fit(fitted, learnt)
    return Specimen(
        fitted, lambda: copy.deepcopy(model), learnt, held_out if data is None else data
    )


def unfitted(model: Any) -> Any:
    """Return a copy with the same options that has learnt nothing."""
    other = copy.deepcopy(model)
    other._forget()
    return other


def run(rules: Iterable[Rule], subject: Specimen) -> None:
    for rule in rules:
        if subject.fresh is not None or not fits(rule):
            check(rule, subject)


def check(rule: Rule, subject: Specimen) -> None:
    """Check one rule on a model; whatever goes wrong is an AssertionError that names the rule."""
    with named(subject.model, getattr(rule, "__name__", str(rule)).replace("_", " ")):
        rule(subject)


@contextmanager
def named(model: Any, rule: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        what = (
            str(error)
            if isinstance(error, (AssertionError, SeqloomError))
            else f"{type(error).__name__}: {error}"
        )
        raise AssertionError(f'{type(model).__name__} breaks the rule "{rule}": {what}') from error


def fitting(rule: Rule) -> Rule:
    """Mark a rule that fits another model."""
    rule.fits = True  # type: ignore[attr-defined]
    return rule


def fits(rule: Rule) -> bool:
    """Return whether checking a rule means fitting another model."""
    return getattr(rule, "fits", False)


def require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def same(first: Any, second: Any, message: str, *, off: float = 0.0) -> None:
    """Check that two numbers, or arrays of them, are equal but for rounding."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    require(a.shape == b.shape, f"{message}: shapes {a.shape} and {b.shape}")
    with np.errstate(invalid="ignore"):  # infinities that are equal
        wrong = ~((a == b) | (np.abs(a - b) <= off * np.maximum(1, np.abs(b))))
    if wrong.any():
        at = np.unravel_index(int(wrong.argmax()), a.shape)
        raise AssertionError(f"{message}: {a[at]:.9g} and {b[at]:.9g}")


def refuses(
    call: Callable[[], Any], kinds: type[Exception] | tuple[type[Exception], ...], what: str
) -> str:
    """Check that a call is refused, and return the one line that says so."""
    try:
        call()
    except kinds as error:
        require("\n" not in str(error), f"{what} is refused with several lines; use one")
        return str(error)
    except Exception as error:
        raise AssertionError(
            f"{what} gives {type(error).__name__} ({error}) instead of a clear refusal"
        ) from error
    raise AssertionError(f"{what} is not refused")


def refuses_data(
    s: Specimen, unusable: Iterable[Any], kinds: type[Exception] | tuple[type[Exception], ...]
) -> None:
    """Check that `fit` refuses each of these in one line, and that the model is not fitted
    afterwards.
    """
    assert s.fresh is not None
    for bad in unusable:
        model = s.fresh()
        refuses(partial(fit, model, bad), kinds, f"fit({bad!r:.40})")
        require(
            not model.fitted,
            f"after fit({bad!r:.40}) was refused, the model says that it is fitted",
        )


def tree(directory: Path) -> dict[str, bytes]:
    """Read the files of a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


# ---- rules of every model


@fitting
def an_unknown_option_is_refused(s: Specimen) -> None:
    refuses(
        lambda: type(s.model)(no_such_option=1),
        (ConfigError, TypeError),
        "the option no_such_option",
    )


@fitting
def fit_returns_the_model(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    require(fit(model, s.data) is model, "fit must return the model itself")
    require(model.fitted, "after fit, fitted must be true")


@fitting
def a_second_fit_saves_the_same_files(s: Specimen) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name in ("a", "b"):
            s.new().save(Path(directory, name))
        first, second = tree(Path(directory, "a")), tree(Path(directory, "b"))
        differing = sorted(
            name for name in first.keys() | second.keys() if first.get(name) != second.get(name)
        )
        require(
            not differing,
            f"{', '.join(differing)} differ after the same options and data; seed what is drawn at random",
        )


def a_damaged_file_is_refused(s: Specimen) -> None:
    with tempfile.TemporaryDirectory() as directory:
        saved = Path(directory, "model")
        s.model.save(saved)
        path = saved / storage.ARRAYS
        path.write_bytes(path.read_bytes()[:-1] if path.stat().st_size > 60 else b"")
        refuses(
            lambda: storage.load(saved), ModelError, "a model.safetensors without its last byte"
        )


@fitting
def what_is_not_fitted_is_not_saved(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    with tempfile.TemporaryDirectory() as directory:
        refuses(
            lambda: model.save(Path(directory, "model")),
            NotFitted,
            "saving a model that is not fitted",
        )


@contextmanager
def loaded_again(s: Specimen) -> Iterator[Any]:
    """Yield the model after save and load; check that it saves the same files once more."""
    with tempfile.TemporaryDirectory() as directory:
        s.model.save(Path(directory, "a"))
        again = storage.load(Path(directory, "a"))
        require(type(again) is type(s.model), f"{type(again).__name__} is loaded instead")
        yield again
        same_signature = str(again.signature()) == str(s.model.signature())
        require(
            same_signature, f"the signature was {s.model.signature()} and is {again.signature()}"
        )
        again.save(Path(directory, "b"))
        require(
            tree(Path(directory, "a")) == tree(Path(directory, "b")),
            "the loaded model saves other files",
        )


SHARED: list[Rule] = [
    fit_returns_the_model,
    what_is_not_fitted_is_not_saved,
    an_unknown_option_is_refused,
    a_second_fit_saves_the_same_files,
    a_damaged_file_is_refused,
]
