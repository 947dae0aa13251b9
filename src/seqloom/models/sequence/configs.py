"""The options of every network that is composed of reader, encoder and head, and the sizes that follow
from the data; options and sizes define the network. This loads nothing heavy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from seqloom.config import CONTINUES, MAX_INTEGER, MOST_WIDTH, OnlyWith, option
from seqloom.encoder_table import ENCODER_NAMES, ENCODERS, LAYERED, encoders_with
from seqloom.errors import ConfigError, suggest
from seqloom.models.network.configs import VARIANTS, EncoderVariants, PretrainedConfig

D_EMBED = 100  # where neither an option nor pretrained vectors say
DROPOUT, PUBLISHED_DROPOUT = 0.4, 0.1
TUNING = ("encoder_lr", "gradual", "frozen_for")  # how a published encoder is tuned
TRAINED_HERE: dict[str, Collection[Any]] = {"encoder": ENCODER_NAMES}  # not published


def check_directory(encoder: str) -> None:
    """Refuse a value that is neither the name of an encoder nor a directory; a saved model no longer
    needs its directory.
    """
    if not Path(encoder).is_dir():
        raise ConfigError(
            f"encoder: {encoder} is neither a directory nor one of {', '.join(ENCODER_NAMES)}"
            f"{suggest(encoder, ENCODER_NAMES)}"
        )


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(EncoderVariants, PretrainedConfig):
    """Options of reader and encoder."""

    n_types: ClassVar[int] = 0  # kinds of steps that a reader which is trained here tells apart
    fit_arguments: ClassVar[frozenset[str]] = CONTINUES
    initial_options: ClassVar[frozenset[str]] = frozenset({"pretrained_words"})
    changeable: ClassVar[frozenset[str]] = frozenset(
        {"frozen", "encoder_lr", "gradual", "frozen_for", "dropout", "word_dropout", "hold_out"}
    )
    only_with: ClassVar[OnlyWith] = {
        "d_hidden": {"encoder": LAYERED},
        "n_layers": {"encoder": LAYERED},
        "window": {"encoder": encoders_with("window")},
        "n_heads": {"encoder": encoders_with("n_heads")},
        "d_characters": {"characters": ("cnn", "lstm"), **TRAINED_HERE},
        "pretrained_words": {"pretrained": ()},
        "frozen_for": {"gradual": (True,)},
        **{name: TRAINED_HERE for name in ("d_embed", "word_dropout", "characters", "pretrained")},
    }

    encoder: str = option(
        "bilstm",
        "bag: vectors alone; window: feed-forward over neighbours; cnn; rnn, lstm, gru; birnn, "
        "bilstm, bigru: both "
        "directions; transformer; or the directory of a converted encoder such as BERT, which is fine-tuned",
        metavar="NAME|DIR",
    )
    frozen: bool = option(
        False, "train only the head on a converted encoder; its vectors are computed once"
    )
    encoder_lr: float = option(
        1e-4,
        "peak learning rate of a converted encoder that is fine-tuned; lr is that of the head",
        minimum=0.0,
        maximum=1e6,
    )
    gradual: bool = option(
        False,
        "fine-tune a converted encoder layer by layer: at first the head alone, then also the last "
        "layer, and so on down to the token vectors",
    )
    frozen_for: float = option(
        0.3,
        "gradual: share of the steps, or number of steps if above 1, after which the last part is "
        "released; the learning rate of each then rises over as many steps as it was frozen",
        minimum=0.0,
        maximum=MAX_INTEGER,
    )
    d_hidden: int = option(
        128, "hidden size of a layer, in each direction", minimum=1, maximum=MOST_WIDTH
    )
    n_layers: int = option(1, "number of layers of the encoder", minimum=1, maximum=100)
    window: int = option(
        1, "neighbours on either side that window and cnn look at", minimum=0, maximum=100
    )
    n_heads: int = option(4, "attention heads of the transformer", minimum=1, maximum=1000)
    d_embed: int | None = option(
        None,
        f"embedding size [default: {D_EMBED}, or that of pretrained]",
        minimum=1,
        maximum=MOST_WIDTH,
    )
    dropout: float | None = option(
        None,
        "dropout before and after the encoder, and between its layers [default: "
        f"{DROPOUT}; {PUBLISHED_DROPOUT} with a converted encoder]",
        minimum=0.0,
        maximum=0.95,
    )
    word_dropout: float = option(
        0.25,
        "how readily words are read as if unseen in training, as <unk> or by their pretrained "
        "vector: one seen n times with probability a / (a + n)",
        minimum=0.0,
        maximum=MAX_INTEGER,
    )
    characters: Literal["none", "cnn", "lstm"] = option(
        "none", "features from the characters of each word"
    )
    d_characters: int = option(
        50, "number of character features of a word", minimum=1, maximum=MOST_WIDTH
    )
    pretrained_words: int = option(
        100_000,
        "words of the pretrained vectors that are kept besides those of the training data, "
        "the first in their file",
        minimum=0,
        maximum=MAX_INTEGER,
    )
    hold_out: float = option(
        0.1,
        "share of the examples that is held out to choose the best weights if no validation data is "
        "given; 0: none, and the last weights are kept",
        minimum=0.0,
        maximum=0.5,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        changed = [
            name
            for name in ("frozen", "encoder_lr", "gradual")
            if getattr(self, name) != type(self).__dataclass_fields__[name].default
        ]
        if changed and not self.published:
            raise ConfigError(
                f"{changed[0]} has no effect with encoder {self.encoder}; it is for the directory of "
                f"a converted "
                f"encoder, or leave {changed[0]} out"
            )
        if self.frozen and len(changed) > 1:
            raise ConfigError(
                f"{changed[1]} has no effect with frozen on; leave one of them out",
                (changed[1], "frozen"),
            )

    @classmethod
    def continued(cls, inherited: dict[str, Any], given: Mapping[str, Any]) -> Self:
        if given.get("frozen"):  # the options of tuning no longer apply
            inherited = {name: value for name, value in inherited.items() if name not in TUNING}
        return super().continued(inherited, given)

    def _check_exists(self, name: str) -> None:
        if name == "encoder" and self.published:
            check_directory(self.encoder)

    def effective_options(self, *, trained: bool = True) -> dict[str, Any]:
        without = (
            ("frozen", "encoder_lr", "gradual", "frozen_for")
            if not self.published
            else ("encoder_lr", "gradual")
            if self.frozen
            else ()
        )
        return {
            name: value
            for name, value in super().effective_options(trained=trained).items()
            if name not in without
        }

    @property
    def published(self) -> bool:
        """Return whether the encoder comes from a directory, not from the table of encoders."""
        return self.encoder not in ENCODER_NAMES

    @property
    def encoder_options(self) -> dict[str, Any]:
        """Return what encoders of the table take beside sizes, each those that it has."""
        return {name: getattr(self, name) for name in ("window", "n_heads", *VARIANTS)}

    @property
    def both_ways(self) -> bool:
        """Return whether the encoder is bidirectional: each half of its vectors has one direction."""
        return self.encoder in ENCODERS and ENCODERS[self.encoder].last_state == "ends"

    @property
    def spelled(self) -> bool:
        """Return whether the characters of words are read."""
        return self.characters != "none" and not self.published

    @property
    def drops(self) -> float:
        """Return the dropout: the option, or the default for the kind of encoder."""
        return (
            self.dropout
            if self.dropout is not None
            else PUBLISHED_DROPOUT
            if self.published
            else DROPOUT
        )


# ---- sizes


@dataclass(frozen=True)
class Sizes:
    vocab_size: int = 0  # tokens with a trained vector; 0: it reads numbers
    d_embed: int = 0
    further: int = 0  # pretrained words beyond them, whose vectors are not trained
    characters: int = 0  # in the vocabulary, with padding and unknown
    columns: int = 0  # of numbers
    missing: bool = False  # whether numbers may be missing

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def is_sizes(value: Any) -> bool:
    """Return whether a saved value is such a set of sizes."""
    if not isinstance(value, dict) or set(value) != set(Sizes.__dataclass_fields__):
        return False
    numbers = [
        value[name] for name in ("vocab_size", "d_embed", "further", "characters", "columns")
    ]
    return (
        all(type(n) is int and 0 <= n < 2**31 for n in numbers)
        and type(value["missing"]) is bool
        and bool(value["vocab_size"]) == bool(value["d_embed"])
        and bool(value["vocab_size"]) != bool(value["columns"])
    )


def read_sizes(learnt: Mapping[str, Any]) -> Sizes:
    return Sizes(**learnt["sizes"])
