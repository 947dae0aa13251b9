"""What all models share, whatever their task: options, what was learnt, saving and loading.

A model is made from options alone; `fit` makes it useful; `save` writes a directory that
`seqloom.load` reads. What it learnt is a set of named arrays, so nothing is pickled and loading a
stranger's model runs no code.

What a class leaves out has a default: `name` is that of the class, the options are those that it
declares among its attributes (`k: float = option(...)`), and saved are the attributes that `fit`
gave it (`contracts/saving`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

import numpy as np

from seqloom import progress, storage
from seqloom.arrays import Length, Spec, check_arrays, lengths
from seqloom.config import Config, make, parse_size
from seqloom.contracts import declaring, saving
from seqloom.contracts.fitting import (
    FitOptions,
    OwnTraining,
    chosen_training,
    no_tokenizer,
    refuse_idle,
    remark_training_data,
    take_training,
    tokenizer_for,
    training_log,
    training_params,
)
from seqloom.contracts.saving import Kind, check_learnt
from seqloom.contracts.starting import open_origin
from seqloom.data.corpus import Corpus
from seqloom.describing import (
    OptionsSignature,
    changed_options,
    docstring,
    scikit_learn_tags,
    shown_names,
)
from seqloom.errors import (
    ConfigError,
    ModelError,
    NotFitted,
    SeqloomError,
    TrainingError,
    lacks_memory,
    quoted,
)
from seqloom.foreign_names import refuse_attribute
from seqloom.frames import as_frame
from seqloom.kernels.compiling import announce_compiling
from seqloom.text.normalize import NormalizerConfig
from seqloom.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train
    from seqloom.training.config import TrainConfig

T = TypeVar("T")


class Model(ABC):
    """Options, arrays, and a directory on disk."""

    task: ClassVar[str]
    name: ClassVar[str]
    config_class: ClassVar[type[Config]] = Config
    # Whether its first answer needs no compiled kernel, so that it is ready at once.
    starts_without_numba: ClassVar[bool] = False
    has_members: ClassVar[bool] = False  # it is made of other models, which are saved inside it
    _estimator_type: ClassVar[str | None] = None  # for scikit-learn
    # What `learnt` holds of this kind of model, and what each must be.
    learnt_values: ClassVar[dict[str, Kind]] = {}
    __signature__ = OptionsSignature()  # of the class
    # A model of this task must write one of these methods.
    primitives: ClassVar[tuple[str, ...]] = ()
    # What `dir` shows, with those of bases: the names for users. Others are for models and the engine.
    public_names: ClassVar[str] = (
        "name task config fit fitted fit_info history parameters summary get_params "
        "set_params save load label"
    )
    config: Any
    train = OwnTraining()
    given_options: frozenset[str]
    members: list[Any]
    fitted: bool
    tokenizers: dict[str, Tokenizer]  # by name; the one of a model of text is `text`
    learnt: dict[str, Any]  # besides its arrays: what `learnt_values` says
    fit_info: dict[str, Any]  # the record of how the fit went; nothing relies on it
    log: progress.Lines  # of its training, report by report

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if "name" not in vars(cls) and not cls.__module__.startswith("seqloom.contracts."):
            cls.name = declaring.model_name(cls.__name__)
        if options := declaring.declared_options(cls):
            declared = cls.config_class.__dataclass_fields__
            cls.config_class = declaring.config_with(cls.config_class, cls, options)
            for name in options:
                declaring.show_option(cls, name, name in declared)
        if cls._saves_attributes() != (cls.restore_arrays is Model.restore_arrays):
            hint = "write both, or neither, to save the attributes that fit gives it"
            raise TypeError(f"{cls.__name__} writes one of arrays and restore_arrays; {hint}")
        cls.__doc__ = docstring(cls, cls.config_class)

    def __init__(self, config: Any = None, **options: Any) -> None:
        declaring.check_primitive(type(self))
        self.own_train: TrainConfig | None = None
        if self.trained:
            self.own_train, options = take_training(None, options)
        self.config = make(self.config_class, config, options)
        self.given_options = frozenset(options if config is None else changed_options(self.config))
        NormalizerConfig.from_recipe(getattr(self.config, "normalize", "none"))
        self.members = []
        self._forget()

    def __repr__(self) -> str:
        changed = changed_options(self.config)
        if self.own_train is not None:
            changed["train"] = changed_options(self.own_train)
        options = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        state = f"fitted: {self.summary()}" if self.fitted else "not fitted"
        return f"<{type(self).__name__}({options}), {state}>"

    if not TYPE_CHECKING:  # or mypy would take any attribute for granted

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse an attribute; one of another library with the name that it has here."""
            refuse_attribute(self, name)

    def __dir__(self) -> list[str]:
        return shown_names(self, super().__dir__())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return options and values; of a network `train` too, and with `deep` `train__lr` and others."""
        training = training_params(self.own_train, deep) if self.trained else {}
        return self.config.all_options() | training

    def set_params(self, **options: Any) -> Self:
        """Change options, of a network also those of training (`train__lr=0.01`); the model must then
        be fitted again.
        """
        if options:
            members, given, train = self.members, self.given_options, self.own_train
            if self.trained:
                train, options = take_training(train, options)
            config = make(self.config_class, None, self.config.all_options() | options)
            type(self).__init__(self, config)
            self.members, self.own_train = members, train
            self.given_options = given | options.keys()
        return self

    def __sklearn_clone__(self) -> Self:
        """Make a model with the same options that has learnt nothing, for scikit-learn."""
        other = self._unfitted(self.config)
        other.members, other.own_train = list(self.members), self.own_train
        return other

    def __sklearn_is_fitted__(self) -> bool:
        return self.fitted

    def __sklearn_tags__(self) -> Any:
        return scikit_learn_tags(self._estimator_type, transforms=hasattr(self, "transform"))

    def _forget(self) -> None:
        self.fitted, self.tokenizers, self.learnt, self.fit_info, self.log = False, {}, {}, {}, []

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of a fitted model of text."""
        if storage.TEXT not in self.tokenizers:
            Model.check_fitted(self)
            raise no_tokenizer(self)
        return self.tokenizers[storage.TEXT]

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer) -> None:
        self.tokenizers = {**self.tokenizers, storage.TEXT: tokenizer}

    def tokenizer_label(self) -> str | None:
        """Return the label of its tokenizers, for a signature."""
        return ", ".join(tokenizer.label() for tokenizer in self.tokenizers.values()) or None

    def recorded(self, name: str, default: T) -> T:
        """Return a value from the record of the fit, if it has the type of the default: a saved record
        is not trusted.
        """
        value = self.fit_info.get(name)
        return value if type(value) is type(default) else default

    def remark_training_data(
        self, name: str, fingerprint: str, files: Collection[str] = ()
    ) -> None:
        """Warn if evaluation data is data that the model, or a member, was fitted on, as a whole or
        by single files.
        """
        remark_training_data(self, name, fingerprint, files)

    def data_hashes(self) -> set[str]:
        """Return beginnings of the hashes of all data that it, its members and its origin were fitted on."""
        nothing: list[Any] = []
        lists = (self.recorded(name, nothing) for name in ("data_files", "origin_data"))
        hashes = {self.recorded("data_hash", ""), *map(str, chain.from_iterable(lists))}
        return hashes.union(*(member.data_hashes() for member in self.members))

    def training_extras(self) -> dict[str, Any]:
        """Return what a signature says of the training: the data, and the model that it started from."""
        extras: dict[str, Any] = {"train": self.recorded("data_hash", "")[:8]}
        if weights := self.recorded("origin_weights", ""):
            extras["start"] = f"{self.recorded('origin', self.name)}@{weights[:8]}"
        return extras

    def settled_options(self) -> dict[str, Any]:
        """Return the options with the values that were chosen where none were given."""
        values: dict[str, Any] = self.config.all_options()
        return values

    @property
    def history(self) -> Any:
        """The log of its training, a row for each report: a frame of pandas or polars where one is
        installed, else a light table. Models that count have none. A loaded model has what was
        saved with it, which may be less.
        """
        self.check_fitted()
        return as_frame(training_log(self))

    @property
    def trained(self) -> bool:
        """Return whether it is a network trained by the training engine."""
        return "train" in self.config_class.fit_arguments

    @property
    def parameters(self) -> int:
        """Return the number of learned parameters."""
        values = vars(self).values() if self._saves_attributes() else ()
        return sum(value.size for value in values if isinstance(value, np.ndarray))

    @abstractmethod
    def fit(
        self,
        data: Any,
        *,
        valid: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: str | Path | Model | None = None,
        **training: Any,
    ) -> Self:
        """Learn, from scratch or from the weights of the fitted model `start`; written once for each task."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all learned arrays, for `model.safetensors`."""
        return saving.collect(self, self._contract_attributes())[0]

    def array_specs(self, length: Length) -> dict[str, Spec] | None:
        """Return the spec of each of `arrays`, from options, tokenizers, `learnt` and members;
        `length` of others in the file. None allows anything, which is safe if only NumPy reads it.
        """
        return None

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore the model from `arrays`, which may be memory-mapped and are what `array_specs` says.
        Refuse here what only shows between values: an order that must rise, shares that must add
        up.
        """
        saving.restore(self, arrays, self.learnt.pop(saving.KEY, {}))

    def label(self) -> str:
        """Return a short name with the options that matter most."""
        return self.name

    @abstractmethod
    def summary(self) -> str:
        """Say in a few words what it learnt from."""

    def check_fitted(self) -> None:
        if not self.fitted:
            raise NotFitted(
                f"this {self.name} model has not been fitted; "
                "call fit(data) or seqloom.load(directory) first"
            )

    def _check_train(self, train: TrainConfig | None) -> None:  # noqa: B027 - most have none
        """Refuse options of training that have no effect on this kind of model."""

    def fit_options(
        self,
        memory: int | str | None,
        train: Train,
        device: str | None,
        run: str | Path | None,
        valid: Any = None,
        start: Any = None,
        training: Mapping[str, Any] | None = None,
    ) -> FitOptions:
        """Return the arguments of `fit` besides the data, `training`: single options of training; refuse
        those that this kind of model does not use.
        """
        chosen = chosen_training(self, train, training or {})
        self._check_train(chosen)
        options = FitOptions(
            valid=valid,
            memory=parse_size(memory),
            train=chosen,
            device=device,
            run=Path(run) if run else None,
        )
        refuse_idle(self, options, start)
        return options if start is None else replace(options, start=open_origin(start, self))

    @contextmanager
    def learning(self, options: FitOptions | None = None) -> Iterator[None]:
        """Return a context in which the model is fitted; after an error it is not fitted.

        It begins with nothing learnt, or with the options, tokenizers and learnt values of the model to start
        from.
        """
        before = self.config
        self._forget()
        if options is not None and options.start is not None:
            origin = options.start.model
            self.config, self.tokenizers = options.start.config, dict(origin.tokenizers)
            self.learnt = copy.deepcopy(origin.learnt)
        announce_compiling()
        try:
            with progress.recording() as log:
                yield
            self.fitted, self.log = True, log
        except BaseException as error:
            self.config = before
            self._forget()
            if lacks_memory(error) and not isinstance(error, SeqloomError):
                raise TrainingError(
                    f"not enough memory to fit this {self.name} model ({quoted(str(error))}); choose smaller "
                    "sizes, or give less text"
                ) from error
            raise

    def _make_tokenizer(self, corpus: Corpus) -> Tokenizer:
        return tokenizer_for(self.config, corpus)

    # ---- persistence

    def to_device(self, device: str) -> bool:
        """Move the networks to a device; return whether there are any."""
        return any([member.to_device(device) for member in self.members])

    def save(self, directory: str | Path) -> None:
        """Write the fitted model: a directory, which `seqloom.load` reads."""
        self.check_fitted()
        storage.save(self, directory)

    def saved_parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the learned arrays and other values; refuse what could not be loaded again."""
        if not self._saves_attributes():
            check_learnt(self.learnt, self.learnt_values)
            return self.arrays(), self.learnt
        arrays, values = saving.collect(self, self._contract_attributes())
        check_learnt(self.learnt, self.learnt_values)
        return arrays, {**self.learnt, saving.KEY: values}

    def _contract_attributes(self) -> set[str]:
        """Return the attributes that every model of its task has; any others come from the class or
        `fit`.
        """
        return set(vars(self._unfitted(self.config)))

    @classmethod
    def _unfitted(cls, config: Config) -> Self:
        """Make a model with these options. An `__init__` that the class defines, with any arguments, is
        skipped where all attributes are saved.
        """
        if not cls._saves_attributes():
            return cls(config)
        model = cls.__new__(cls)
        contract: Any = next(base for base in cls.__mro__ if base.__module__.startswith("seqloom."))
        contract.__init__(model, config)
        return model

    @classmethod
    def _saves_attributes(cls) -> bool:
        """Return whether the class leaves saving to the default."""
        return cls.arrays is Model.arrays

    @classmethod
    def load(cls, directory: str | Path, device: str | None = None) -> Self:
        """Load a saved model. `device`: where its networks run, such as cuda or mps; None: the CPU."""
        model = storage.load(directory, device)
        if not isinstance(model, cls):
            raise ConfigError(
                f"{directory} holds the model {model.name}, not {cls.__name__}; use seqloom.load"
            )
        return model

    @classmethod
    def restore(cls, saved: storage.Saved) -> Self:
        """Restore the saved model from these parts, none of which is trusted."""
        if saved.members and not cls.has_members:
            raise ModelError(
                f"there are members in it, but {cls.name} models have none: it is damaged"
            )
        config = cls.config_class.from_saved(saved.config)
        if not cls.starts_without_numba:
            announce_compiling()
        return cls.from_parts(
            config, saved.tokenizers, saved.learnt, saved.arrays, saved.fit, saved.members
        )

    @classmethod
    def from_parts(
        cls,
        config: Config,
        tokenizers: dict[str, Tokenizer],
        learnt: dict[str, Any],
        arrays: dict[str, np.ndarray],
        fit_info: dict[str, Any],
        members: Collection[Any] = (),
    ) -> Self:
        """Return the fitted model of these parts; each is checked before it is used."""
        model = cls.with_parts(config, tokenizers, learnt)
        model.members, model.fit_info, model.fitted = list(members), fit_info, True
        if (specs := model.array_specs(lengths(arrays))) is not None:
            check_arrays(arrays, specs)
        model.restore_arrays(arrays)
        return model

    @classmethod
    def with_parts(
        cls, config: Config, tokenizers: dict[str, Tokenizer], learnt: dict[str, Any]
    ) -> Self:
        """Return a model that lacks its arrays but can tell their shapes."""
        model, own = cls._unfitted(config), {saving.KEY} if cls._saves_attributes() else set()
        check_learnt(
            {key: value for key, value in learnt.items() if key not in own}, cls.learnt_values
        )
        model.tokenizers, model.learnt = tokenizers, learnt
        return model
