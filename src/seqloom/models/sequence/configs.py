"""The options of every network that is composed of reader, encoder and head; they load nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from seqloom.config import MOST, MOST_WIDTH, TRAINS, OnlyWith, option
from seqloom.models.network.configs import PretrainedConfig

EncoderName = Literal["bag", "window", "cnn", "rnn", "lstm", "gru", "birnn", "bilstm", "bigru", "transformer"]
LAYERED = ("window", "cnn", "rnn", "lstm", "gru", "birnn", "bilstm", "bigru", "transformer")
D_EMBED = 100  # where neither an option nor pretrained vectors say


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(PretrainedConfig):
    """Options of reader and encoder."""

    fit_arguments: ClassVar[frozenset[str]] = TRAINS
    only_with: ClassVar[OnlyWith] = {
        "d_hidden": {"encoder": LAYERED}, "n_layers": {"encoder": LAYERED}, "window": {"encoder": ("window", "cnn")},
        "n_heads": {"encoder": ("transformer",)}, "d_characters": {"characters": ("cnn", "lstm")},
        "pretrained_words": {"pretrained": ()}}

    encoder: EncoderName = option("bilstm", "bag: vectors alone; window: feed-forward over neighbours; cnn; rnn, lstm, gru; "
                                  "birnn, bilstm, bigru: both directions; transformer")
    d_hidden: int = option(128, "hidden size of a layer, in each direction", minimum=1, maximum=MOST_WIDTH)
    n_layers: int = option(1, "number of layers of the encoder", minimum=1, maximum=100)
    window: int = option(1, "neighbours on either side that window and cnn look at", minimum=0, maximum=100)
    n_heads: int = option(4, "attention heads of the transformer", minimum=1, maximum=1000)
    d_embed: int | None = option(None, f"embedding size [default: {D_EMBED}, or that of pretrained]",
                                 minimum=1, maximum=MOST_WIDTH)
    dropout: float = option(0.4, "dropout before and after the encoder, and between its layers", minimum=0.0, maximum=0.95)
    word_dropout: float = option(0.25, "how readily words are read as if unseen in training, as <unk> or by their pretrained "
                                 "vector: one seen n times with probability a / (a + n)", minimum=0.0, maximum=MOST)
    characters: Literal["none", "cnn", "lstm"] = option("none", "features from the characters of each word")
    d_characters: int = option(50, "number of character features of a word", minimum=1, maximum=MOST_WIDTH)
    pretrained_words: int = option(100_000, "words of the pretrained vectors that are kept besides those of the training data, "
                                   "the first in their file", minimum=0, maximum=MOST)
    hold_out: float = option(0.1, "share of the examples that is held out to choose the best weights if no validation data is "
                             "given; 0: none, and the last weights are kept", minimum=0.0, maximum=0.5)
