"""What all neural language models share: fitting by the training engine, scoring in batches, saving.

A model says how its network is built (`build`), what the training batches look like, and how it steps. Scoring runs
the network over whole texts with torch; stepping is NumPy alone (`*_steps.py`), and the contract tests prove that
both agree. A sequence begins as if `</s>` had just been read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts import Fitting, LanguageModel
from seqloom.contracts.facts import Kind, count, if_known
from seqloom.decoding.sanity import check_scores
from seqloom.errors import ConfigError, MissingExtra, ModelError
from seqloom.forks import torch_alone
from seqloom.models.language.first_layer import check_early, open_first_layer
from seqloom.models.language.neural_configs import NetworkConfig
from seqloom.models.language.shapes import RANKS, Shapes
from seqloom.models.language.sizes import Size, choose_size
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.data.corpus import Corpus
    from seqloom.models.language.dynamic import DynamicEvaluation
    from seqloom.text.tokenizer import Tokenizer

HELD_OUT = 0.05  # share of the tokens that is kept for evaluation where no valid text was given
_FEWEST = 2000  # tokens, below which nothing is held out


@dataclass
class Past:
    """What a network remembers of a sequence that is read in stretches."""

    read: int = 0  # tokens
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # the last of them, as many as it needs
    state: Any = None  # of a recurrent network

    def joined(self, ids: np.ndarray) -> np.ndarray:
        """The remembered tokens and the next ones."""
        return np.concatenate([self.ids, ids.astype(np.int64)])

    def advance(self, ids: np.ndarray, keep: int) -> None:
        """These were read too; at least the last `keep` tokens are needed."""
        both = self.joined(ids)
        self.read, self.ids = self.read + len(ids), both[max(len(both) - keep, 0):]


class NeuralLanguageModel(LanguageModel):
    trained = True
    config_class: ClassVar[type[NetworkConfig]]
    facts: ClassVar[dict[str, Kind]] = {**LanguageModel.facts, "width": count, "d_embed": if_known(count)}
    idle_train: ClassVar[dict[str, str]] = {}  # options of training without effect on this network, and what to do instead
    weights: dict[str, np.ndarray]

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._network: Any = None  # torch's, made from the weights when it is first needed

    @property
    def carry(self) -> bool:
        return self.config.carry

    @property
    def parameters(self) -> int:
        return sum(array.size for array in self.weights.values())

    # ---- what a network writes

    @abstractmethod
    def build(self, size: Size, counts: torch.Tensor | None = None) -> torch.nn.Module:
        """The network, with initial weights from torch's random state; `counts` of the tokens in the training text."""

    @abstractmethod
    def shapes(self, size: Size) -> Shapes:
        """Of its weights by name, without building it."""

    @abstractmethod
    def batches(self, ids: np.ndarray, train: TrainConfig) -> Any:
        """Training batches of the ids."""

    @abstractmethod
    def flat_features(self, network: Any, ids: np.ndarray, lengths: np.ndarray, device: Any, together: int | None = None,
                      past: Past | None = None) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        """What the output layer reads of sequences side by side: places in `ids` (N,), and for each what predicts it (N, D).

        `together`: how many tokens of a sequence one piece should have at most; the pieces of one sequence are in order.
        `past`: what a single sequence had before these ids, and has after them.
        """

    # ---- fitting

    def told(self, memory: int | str | None, train: TrainConfig | None, device: str | None, run: str | Path | None,
             valid: Any = None) -> Fitting:
        for name, advice in self.idle_train.items():
            if train is not None and getattr(train, name) != TrainConfig.__dataclass_fields__[name].default:
                raise ConfigError(f"{name} has no effect on {self.name}: {advice}")
        return super().told(memory, train, device, run, valid)

    def _make_tokenizer(self, corpus: Corpus) -> Tokenizer:
        check_early(self.config, self.config.tokenizer)
        return super()._make_tokenizer(corpus)

    def fit_ids(self, ids: np.ndarray, how: Fitting) -> None:
        require_torch(self.name)
        from seqloom.models.language.task_net import LanguageTask
        from seqloom.training.checkpoint import Run
        from seqloom.training.devices import check_precision, find_device
        from seqloom.training.loop import train
        from seqloom.training.schedules import Late

        config, device = how.train or TrainConfig(), find_device(how.device)
        check_precision(config, device)
        ids, valid = (ids, how.valid) if how.valid is not None else self._held_out(ids)
        if valid is None or not len(valid):
            _check_without_valid(config)
        first = open_first_layer(self.config, self.tokens(), np.bincount(ids, minlength=self.tokens().vocab_size), config.seed)
        size = choose_size(self.config, config, len(ids), self.tokens().vocab_size, first.dimensions if first else None)
        if size.chosen:
            progress.say(f"width {size.width}: for {len(ids):,} tokens and the time given; "
                         f"--{size.option.replace('_', '-')} {size.width} keeps it, another number sets another")
        self.fit_info["width"] = size.width
        if first:
            self.fit_info |= {"d_embed": first.dimensions, "pretrained": first.facts}
        task = LanguageTask(self, self.batches(ids, config), size, ids, valid, device, config,
                            first.matrix if first else None)
        facts = {"model": self.name, "config": self.config.to_dict(), "train": _facts(config),
                 "data": self.fit_info["data_hash"], "tokenizer": self.tokens().label()}
        late = None
        if first:
            facts["vectors"] = first.facts["vectors"]
        if self.config.pretrained_training == "gradual":
            late = Late(("embedding.weight",), self.config.pretrained_frozen_for)
        report = train(task, config, device=device, run=Run(how.run) if how.run else None, facts=facts, late=late)
        report.network.requires_grad_(True)  # as in a loaded one: what was frozen for training is a weight like others
        self.weights = {name: w.detach().cpu().numpy() for name, w in report.network.state_dict().items()}
        self._network = report.network
        self.fit_info |= {"train": _facts(config) | {"steps": report.facts["steps"]}, **report.facts,
                          "valid_nats": report.valid, "best_step": report.best_step}

    def _held_out(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Text without a valid part: the last tokens are kept for evaluation, unless it is very small."""
        if len(ids) < _FEWEST:
            return ids, None
        cut = int(len(ids) * (1 - HELD_OUT))
        if not self.carry:  # whole units, as they are scored
            ends = np.flatnonzero(ids[:cut] == self.tokens().eos_id)
            cut = int(ends[-1]) + 1 if len(ends) else cut
        progress.say(f"the last {HELD_OUT:.0%} of the text are held out to find the best weights; --valid gives another text")
        return ids[:cut], ids[cut:]

    # ---- scoring

    def network(self) -> Any:
        """The network with the learnt weights, ready to score."""
        if self._network is None:
            require_torch(self.name)
            import torch

            network = self.build(self._size())
            network.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in self.weights.items()})
            self._network = network.eval()
        return self._network

    def _size(self) -> Size:
        return Size(self.fit_info["width"], d_embed=self.fit_info.get("d_embed"))

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        network = self.network()
        device = next(network.parameters()).device
        import torch

        with torch.inference_mode():
            return check_scores(self.flat_log_probs(network, np.asarray(ids), np.asarray(lengths), device))

    def stretch_log_probs(self, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        network, past = self.network(), Past() if state is None else state
        import torch

        with torch.inference_mode():
            device = next(network.parameters()).device
            return self.flat_log_probs(network, ids, np.array([len(ids)]), device, past), past

    def flat_log_probs(self, network: Any, ids: np.ndarray, lengths: np.ndarray, device: Any,
                       past: Past | None = None) -> np.ndarray:
        """`sequence_log_probs` by the network."""
        out = np.empty(len(ids), np.float32)
        for places, features in self.flat_features(network, ids, lengths, device, past=past):
            out[places] = token_log_probs(network, features, ids[places])
        return out

    def sequence_features(self, ids: np.ndarray, lengths: np.ndarray,
                          past: Past | None = None) -> tuple[np.ndarray, np.ndarray]:
        """What the stepper's `features` are before each token, float32 (N, D), and `sequence_log_probs`, in one pass."""
        network, log_probs, vectors = self.network(), np.empty(len(ids), np.float32), np.empty((0, 0), np.float32)
        import torch

        with torch.inference_mode():
            for places, features in self.flat_features(network, np.asarray(ids), np.asarray(lengths),
                                                       next(network.parameters()).device, past=past):
                log_probs[places] = token_log_probs(network, features, ids[places])
                found = features.float().cpu().numpy()
                if not len(vectors):
                    vectors = np.empty((len(ids), found.shape[1]), np.float32)
                vectors[places] = found
        return vectors, check_scores(log_probs)

    def adapting(self, lr: float | None) -> DynamicEvaluation:
        from seqloom.models.language.dynamic import DynamicEvaluation

        return DynamicEvaluation(self, lr)

    # ---- persistence

    def arrays(self) -> dict[str, np.ndarray]:
        return self.weights

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size, found = self.tokens().vocab_size, length("embedding.weight")
        if found != size:
            raise ModelError(f"{found:,} token vectors for a vocabulary of {size:,}: "
                             "tokenizer and weights are of different models")
        specs = {name: Spec("float32", shape) for name, shape in self.shapes(self._size()).items()}
        return specs | ({RANKS: Spec("int64", (size,), 0, size - 1)} if RANKS in specs else {})

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights = arrays
        if RANKS in arrays and not (np.bincount(arrays[RANKS]) == 1).all():
            raise ModelError("two tokens have the same rank by frequency: the file is damaged")


def token_log_probs(network: Any, features: torch.Tensor, targets: np.ndarray) -> np.ndarray:
    """Natural-log probability of each target (N,) after features (N, D)."""
    import torch

    wanted = torch.from_numpy(targets.astype(np.int64)).to(features.device)
    return network.output.token_log_probs(features, wanted).float().cpu().numpy()


def require_torch(name: str) -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra(f"the {name} model needs torch, which is not installed: pip install 'seqloom[nn]'") from None
    torch_alone()


def _check_without_valid(config: TrainConfig) -> None:
    """Refuse what only looks at results on a valid text where there is none."""
    names = [name for name in ("patience", "evaluate_every") if getattr(config, name) is not None]
    names += ["schedule plateau"] if config.schedule == "plateau" else []
    if names:
        raise ConfigError(f"{' and '.join(names)} need a valid text, and this text is too short to hold a part of it out; "
                          "give valid (--valid FILE)")


def _facts(config: TrainConfig) -> dict[str, Any]:
    return {key: value for key, value in config.to_dict().items() if key not in ("tensorboard",)}
