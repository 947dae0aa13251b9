"""A weighted mean of language models, p(w) = sum_m lambda_m p_m(w), weights by EM on held-out text.

Members may be of any kind as long as they share the tokenizer: an n-gram with a network, with a cache, with
n-grams of other orders (Jelinek and Mercer 1980). Text is read in the units of the first member. Fit it on
text that no member has seen in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from seqloom import progress, storage
from seqloom.arrays import Length, Spec
from seqloom.config import Unit
from seqloom.contracts import FitOptions, LanguageModel
from seqloom.contracts.reading import Reading
from seqloom.data.corpus import Corpus
from seqloom.decoding.stepper import Stepper
from seqloom.errors import ConfigError, ModelError
from seqloom.metrics.language import unit_lengths
from seqloom.models.language.configs import MixtureConfig
from seqloom.text.tokenizer import Tokenizer

DEEPEST = 8  # levels of nested mixtures


class Mixture(LanguageModel):
    name = "mixture"
    public_names = "of members"
    has_members = True
    config_class = MixtureConfig  # type: ignore[assignment]
    weights: np.ndarray

    @classmethod
    def of(cls, members: Sequence[LanguageModel], **options: Any) -> Mixture:
        """Return a mixture of models that are in memory."""
        model = cls(**options)
        model.members = list(members)
        _check_depth(model)
        return model

    @property
    def unit(self) -> Unit:
        return self._members()[0].unit

    @property
    def carry(self) -> bool:
        return any(member.carry for member in self._members())

    def _members(self) -> list[LanguageModel]:
        if not self.members:
            self.members = [storage.load(path) for path in self.config.members]
            _check_depth(self)
        if len(self.members) < 2:
            raise ConfigError(
                "a mixture needs at least two members; give their directories with members"
            )
        first = self.members[0]
        if others := [
            member.label() for member in self.members if not isinstance(member, LanguageModel)
        ]:
            raise ConfigError(f"members must be language models; {others[0]} is not one")
        for member in self.members[1:]:
            if member.tokenizer != first.tokenizer:
                raise ConfigError(
                    f"members must share one tokenizer; {first.label()} has {first.tokenizer.label()}, "
                    f"{member.label()} has {member.tokenizer.label()}"
                )
        return self.members

    def _make_tokenizer(self, corpus: Corpus) -> Tokenizer:
        return self._members()[0].tokenizer

    def fit_ids(self, ids: np.ndarray, options: FitOptions) -> None:
        members = self._members()
        if self.tokenizer != members[0].tokenizer:
            raise ConfigError(
                "a mixture reads text with its members' tokenizer; do not give another"
            )
        log_probs = np.stack([m.text_log_probs(ids) for m in members], axis=1)
        probs = np.exp(log_probs.astype(np.float64))  # (tokens, members)
        weights = np.full(len(self.members), 1 / len(self.members))
        with progress.task("EM for the weights", self.config.iterations, "rounds") as bar:
            for _ in range(self.config.iterations):
                joint = probs * weights
                total = joint.sum(axis=1, keepdims=True)
                possible = total[:, 0] > 0
                updated = (
                    (joint[possible] / total[possible]).mean(axis=0) if possible.any() else weights
                )
                change = float(np.abs(updated - weights).max())
                weights = updated
                bar.advance()
                if change <= self.config.tolerance:
                    break
        self.weights = weights
        self.fit_info["weights"] = {
            f"{i}:{m.label()}": round(float(w), 6)
            for i, (m, w) in enumerate(zip(self.members, weights))
        }

    @property
    def parameters(self) -> int:
        return sum(m.parameters for m in self.members) + len(self.weights)

    def label(self) -> str:
        return "mixture(" + "+".join(m.label() for m in self.members) + ")"

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        units = unit_lengths(ids, self.tokenizer.eos_id)
        return self._mixed(
            member.sequence_log_probs(ids, lengths if member.carry else units)
            for member in self.members
        )

    @property
    def portion(self) -> int:
        return min(member.portion for member in self._members())

    def reading(self) -> Reading:
        readings = [member.reading() for member in self._members()]
        return lambda ids: self._mixed(reading(ids) for reading in readings)

    def _mixed(self, log_probs: Iterable[np.ndarray]) -> np.ndarray:
        """Compute the mixture from the log-probabilities of the members, (N,) each."""
        total: np.ndarray | None = None
        for log_weight, member_log_probs in zip(self._log_weights(), log_probs, strict=True):
            total = np.full(len(member_log_probs), -np.inf) if total is None else total
            np.logaddexp(total, log_weight + member_log_probs, out=total)
        assert total is not None
        return total.astype(np.float32)

    def shares(self, ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probability of each token (N,), and which member gave how much of its probability
        (N, members): the weights after the token was seen; those before it where it is impossible.
        """
        units = unit_lengths(ids, self.tokenizer.eos_id)
        given = np.stack(
            [
                log_weight
                + m.sequence_log_probs(ids, lengths if m.carry else units).astype(np.float64)
                for log_weight, m in zip(self._log_weights(), self._members())
            ],
            axis=1,
        )
        total = np.logaddexp.reduce(given, axis=1)
        possible = np.isfinite(total)
        posteriors = np.tile(self.weights, (len(ids), 1))
        posteriors[possible] = np.exp(given[possible] - total[possible, None])
        return total, posteriors

    def _log_weights(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    @property
    def quantizable(self) -> bool:
        return any(member.quantizable for member in self._members())

    def stepper(self, *, eight_bit: bool = False) -> MixtureStepper:
        return MixtureStepper(
            [m.sized_stepper(eight_bit=eight_bit) for m in self._members()], self._log_weights()
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        if length("weights") != len(self.members) or len(self.members) < 2:
            raise ModelError(
                f"{length('weights')} weights for {len(self.members)} members: some are missing; "
                "fit and save the mixture again"
            )
        return {"weights": Spec("float64", (len(self.members),), 0, 1)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights = arrays["weights"]
        if abs(float(self.weights.sum()) - 1) > 1e-6:
            raise ModelError(
                f"the weights of its members sum to {float(self.weights.sum()):g} and not to one"
            )
        if self.tokenizer != self._members()[0].tokenizer:
            raise ModelError("its tokenizer is not that of its members")


def _check_depth(mixture: Mixture) -> None:
    level: list[LanguageModel] = [mixture]
    for _ in range(DEEPEST + 1):
        # By id, so that shared members are visited once.
        level = list({id(member): member for model in level for member in model.members}.values())
    if level:
        raise ConfigError(
            f"mixtures are nested more than {DEEPEST} deep; mix the models themselves"
        )


class MixtureStepper:
    """The state is the tuple of the members' states."""

    def __init__(self, steppers: list[Stepper], log_weights: np.ndarray) -> None:
        self.steppers, self.log_weights = steppers, log_weights
        self.vocab_size, self.eos_id = steppers[0].vocab_size, steppers[0].eos_id

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        return self._mix([s.start(n) for s in self.steppers])

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        return self._mix([s.step(inner, ids) for s, inner in zip(self.steppers, state)])

    def _mix(self, results: list[tuple[Any, np.ndarray]]) -> tuple[Any, np.ndarray]:
        total = np.full(results[0][1].shape, -np.inf)
        for log_weight, (_, log_probs) in zip(self.log_weights, results):
            np.logaddexp(total, log_weight + log_probs, out=total)
        return tuple(state for state, _ in results), total.astype(np.float32)
