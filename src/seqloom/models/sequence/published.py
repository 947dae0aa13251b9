"""A published encoder as part of a composed model: opened from a directory that `seqloom convert`
made, stored in the model (a saved one no longer needs the directory), its inputs, and fine-tuning.

The encoder is trained with a low learning rate (Devlin et al. 2019, appendix A.3), layer by layer
from the last one down (Howard and Ruder 2018, section 3.3), or not at all: then a head is trained
on vectors that the encoder computes once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress, storage
from seqloom.arrays import digest
from seqloom.data.kept import KeptTexts
from seqloom.errors import ConfigError, ModelError, SeqloomError
from seqloom.models.classification.features import check_texts, join
from seqloom.models.masked.configs import EncoderLayout
from seqloom.models.masked.inputs import MARKS, Marks, cut_to, encoder_shapes
from seqloom.models.sequence.configs import ENCODER_NAMES, EncoderConfig, check_directory
from seqloom.models.sequence.inputs import Encoded, Long, flat, in_portions, sentences_of, windows
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.text.tokenizer import Tokenizer
    from seqloom.training.trainable import DelayedGroup


AROUND = 2  # marks around a row


@dataclass(frozen=True)
class Published:
    """The layout and the marks of an encoder, without its weights and its tokenizer."""

    layout: EncoderLayout
    marks: Marks

    def to_dict(self) -> dict[str, Any]:
        return {"layout": self.layout.to_dict(), **self.marks._asdict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], vocab_size: int) -> Published:
        return cls(EncoderLayout.from_dict(values["layout"]), Marks.of(values, vocab_size))


def named(name: str) -> str:
    """Return the name that a weight of an encoder has in a composed network."""
    return f"encoder.{name}" if name.startswith("blocks.") else f"reader.first.{name}"


def is_published(value: Any) -> bool:
    """Return whether a saved value is such an encoder."""
    if (
        not isinstance(value, dict)
        or set(value) != {"layout", *MARKS}
        or not isinstance(value["layout"], dict)
    ):
        return False
    try:
        EncoderLayout.from_dict(value["layout"])
    except ConfigError:
        return False
    return all(
        value[name] is None if name == "mask" and value[name] is None else kind(value[name])
        for name, kind in MARKS.items()
    )


@dataclass(frozen=True)
class Opened:
    """An encoder with its weights, by their names in a composed network."""

    published: Published
    tokenizer: Tokenizer
    weights: dict[str, np.ndarray]

    @property
    def digest(self) -> str:
        """Return the digest of the weights, so that a run is not continued on others."""
        return digest(self.weights)


def open_encoder(path: str) -> Opened:
    """Open the encoder of a directory, whatever task it was converted for, without the parts that
    only that task needs.
    """
    check_directory(path)
    try:
        model = storage.load(Path(path))
    except SeqloomError as error:
        raise ConfigError(
            f"encoder: {error}; published weights are converted first: seqloom convert {path} OUT"
        ) from error
    if not isinstance(model.config, EncoderLayout):
        raise ConfigError(
            f"encoder: {path} holds the model {model.name}, not an encoder; give a directory that "
            "seqloom convert made of BERT or its kin (with --task bert if these have a head)"
        )
    layout = {field.name: getattr(model.config, field.name) for field in fields(EncoderLayout)}
    size = model.tokenizer.vocab_size
    published = Published(EncoderLayout(**layout | {"pooler": False}), Marks.of(model.learnt, size))
    weights = {}
    for name in encoder_shapes(published.layout, size):
        if name not in model.weights or model.weights[name].dtype != np.float32:
            raise ConfigError(
                f"encoder: the weights of {path} are not float32, so they cannot be trained; convert them "
                "again without bits"
            )
        weights[named(name)] = model.weights[name]
    return Opened(published, model.tokenizer, weights)


class PublishedInputs:
    """Texts, or sentences of words, as rows of ids with the encoder's marks around them; `max_length`
    tokens at most, marks included. A word is read as its subwords, and the vector of the first
    represents the word (Devlin et al. 2019, section 5.3). A sentence longer than the context is read
    in several rows.
    """

    def __init__(
        self,
        published: Published,
        tokenizer: Tokenizer,
        *,
        max_length: int | None = None,
        long: Long = "truncate",
    ) -> None:
        self.marks, self.n_types, self.tokenizer, self.long = (
            published.marks,
            published.layout.n_types,
            tokenizer,
            long,
        )
        self.longest = min(max_length or published.layout.context, published.layout.context)
        self.room = self.longest - AROUND
        if self.room < 1:
            raise ConfigError(
                f"max_length {max_length} leaves no room for a token between the encoder's two "
                f"marks; give 3 or "
                "more"
            )

    def encode(self, texts: Sequence[str]) -> Encoded:
        if isinstance(texts, KeptTexts):
            return in_portions(self.encode, texts)
        check_texts(texts)
        counts, many = None, len(texts)
        if self.long == "sentences":
            texts, counts = sentences_of(texts)
        starts, stops, ids = self._tokens(texts)
        longer = int((stops - starts > self.room).sum())
        if self.long == "windows":
            starts, stops, counts = windows(starts, stops, self.room)
        elif longer:
            what = "sentences" if self.long == "sentences" else "texts"
            progress.say(
                f"{longer:,} of {many if what == 'texts' else len(texts):,} {what} are longer than the "
                f"{self.longest:,} tokens that are read at once; their ends are left out (long='windows' "
                f"reads them)"
            )
            stops = np.minimum(stops, starts + self.room)
        rows, row_offsets = flat(
            [self._row(ids[a:b]) for a, b in zip(starts.tolist(), stops.tolist())]
        )
        return Encoded({"ids": rows}, row_offsets, counts=counts)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> Encoded:
        """Encode pairs as `hidden` of a `bert` model does, with the types of the tokens; if a pair is
        too long, the end of the longer text is cut first.
        """
        room = self.longest - self.marks.around(2)
        if room < 2:
            raise ConfigError(
                f"max_length {self.longest} leaves no room for a token of each text among the encoder's "
                f"{self.marks.around(2)} marks; give {self.marks.around(2) + 2} or more"
            )
        sides = [self._tokens([pair[k] for pair in pairs]) for k in (0, 1)]
        rows = [
            tuple(ids[starts[i] : stops[i]] for starts, stops, ids in sides)
            for i in range(len(pairs))
        ]
        if longer := sum(sum(map(len, row)) > room for row in rows):
            progress.say(
                f"{longer:,} of {len(pairs):,} pairs are longer than the {self.longest:,} tokens "
                f"that are read at "
                "once; the ends of their longer texts are left out"
            )
        inputs = [self.marks.join(cut_to(row, room), self.n_types) for row in rows]
        ids, row_offsets = flat([each.ids for each in inputs])
        return Encoded({"ids": ids, "types": flat([each.types for each in inputs])[0]}, row_offsets)

    def _row(self, ids: np.ndarray) -> np.ndarray:
        return np.concatenate([[self.marks.cls], ids, [self.marks.sep]]).astype(np.int64)

    def _tokens(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return starts and stops of the texts among all ids, and these ids."""
        ids = self.tokenizer.encode_block(join(texts), True).astype(np.int64)
        ends = np.flatnonzero(ids == self.tokenizer.eos_id)
        if len(ends) != len(texts):  # a text contains the end token itself
            ids, row_offsets = flat(
                [self.tokenizer.encode(text).astype(np.int64) for text in texts]
            )
            return row_offsets[:-1], row_offsets[1:], ids
        return np.concatenate([[0], ends[:-1] + 1]).astype(np.int64), ends, ids

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> Encoded:
        """Encode sentences, with `words`: the row and the position of the first subword of each."""
        subwords_of: dict[str, np.ndarray] = {}
        rows: list[np.ndarray] = []
        counts, word_rows, word_positions = [], [], []
        for words in sentences:
            split = [
                subwords_of[text]
                if text in subwords_of
                else subwords_of.setdefault(text, self._subwords(text))
                for text in (f" {word}" if i else word for i, word in enumerate(words))
            ]
            row, position = 0, 1
            pending: list[np.ndarray] = []
            row_of, position_of = np.empty(len(split), np.int64), np.empty(len(split), np.int64)
            for i, subwords in enumerate(split):
                if position > 1 and position + len(subwords) > self.room + 1:
                    rows.append(self._row(np.concatenate(pending)))
                    row, position, pending = row + 1, 1, []
                row_of[i], position_of[i] = row, position
                pending.append(subwords)
                position += len(subwords)
            rows.append(self._row(np.concatenate(pending) if pending else np.zeros(0, np.int64)))
            counts.append(row + 1)
            word_rows.append(row_of)
            word_positions.append(position_of)
        if several := sum(many > 1 for many in counts):
            progress.say(
                f"{several:,} of {len(sentences):,} sentences are longer than the {self.longest:,} "
                f"tokens that are "
                "read at once; they are read in parts"
            )
        ids, row_offsets = flat(rows)
        rows_of_words, word_offsets = flat(word_rows)
        positions, _ = flat(word_positions)
        return Encoded(
            {"ids": ids},
            row_offsets,
            counts=np.array(counts, np.int64),
            words=Encoded({"rows": rows_of_words, "positions": positions}, word_offsets),
        )

    def _subwords(self, text: str) -> np.ndarray:
        """Return the subwords of a word: at least one, and at most as many as fit into a row."""
        ids = self.tokenizer.encode(text).astype(np.int64)[: self.room]
        unknown = self.tokenizer.unk_id
        return (
            ids
            if len(ids)
            else np.array([self.marks.sep if unknown is None else unknown], np.int64)
        )


def check_match(encoder: str, learnt: Mapping[str, Any]) -> None:
    """Refuse a saved model whose options and learnt values name different encoders."""
    if (encoder in ENCODER_NAMES) == ("published" in learnt):
        raise ModelError(
            f"its encoder {encoder!r} does not go with its learned values: the file is damaged"
        )


# ---- fine-tuning

HEAD_RATE = 1e-3
MINUTES, EPOCHS = 30.0, 2.0  # at most, where the options set no length
EVALUATIONS = 6  # fewer than for other networks, since each costs as much as a tenth of an epoch


def fine_tuning(train: TrainConfig) -> TrainConfig:
    """Return the training options with defaults for fine-tuning. The optimizer is AdamW, not Muon:
    making the updates of wide matrices orthogonal would cost more than reading the short texts.
    """
    has_length = (train.minutes, train.steps, train.epochs) != (None, None, None)
    optimizer = train.optimizer or "adamw"
    # these change a weight about equally far at the same rate
    adam = optimizer in ("muon", "adamw", "adam")
    return replace(
        train,
        minutes=train.minutes if has_length else MINUTES,
        enough=train.enough or not has_length,
        optimizer=optimizer,
        lr=HEAD_RATE if adam and train.lr is None else train.lr,
    )


def slower(published: Published, config: EncoderConfig, train: TrainConfig) -> list[DelayedGroup]:
    """Return the weights of the encoder as groups with a learning rate far below that of the head,
    which is new. With `gradual` the layers begin one after another, the last one first and the token
    vectors last, at equal distances.
    """
    from seqloom.training.trainable import DelayedGroup

    factor = config.encoder_lr / train.rate if train.rate else 0.0
    names = [named(name) for name in encoder_shapes(published.layout, 1)]
    if not config.gradual:
        return [DelayedGroup(tuple(names), 0.0, factor)]
    layers: dict[int, list[str]] = {}  # by number; -1: the weights below the first
    for name in names:
        layers.setdefault(
            int(name.split(".")[2]) if name.startswith("encoder.blocks.") else -1, []
        ).append(name)
    return [
        DelayedGroup(tuple(layers[layer]), config.frozen_for, factor, fraction=above / len(layers))
        for above, layer in enumerate(sorted(layers, reverse=True), 1)
    ]


def frozen_features(
    reader: Any, encoder: Any, device: torch.device | str, pool: Callable[[Any, Any], Any] | None
) -> Callable[[Encoded], Encoded]:
    """Return a function that replaces examples by the encoder's vectors: of each step; of each word,
    where words are several steps; with `pool` (vectors (R, T, D) and lengths to (R, D)) one for each
    row.
    """
    import torch

    from seqloom.models.sequence.sequence_net import batches_of
    from seqloom.nn.composition import SequenceNetwork

    network = SequenceNetwork(reader, encoder, torch.nn.Identity()).to(device).eval()

    def features(encoded: Encoded) -> Encoded:
        rows = encoded if encoded.words is None else encoded.words  # what the vectors belong to
        pools = pool is not None and encoded.words is None
        row_offsets = np.arange(len(rows.row_offsets)) if pools else rows.row_offsets
        values = np.zeros((int(row_offsets[-1]), encoder.d_out), np.float32)
        with progress.task("encoding", len(encoded), "examples") as bar, torch.inference_mode():
            for chosen, batch in batches_of(network, encoded):
                x, lengths = network.features(network.reader(batch), batch)
                if pools:
                    assert pool is not None
                    x, lengths = pool(x, lengths).unsqueeze(1), torch.ones_like(lengths)
                present = torch.arange(x.shape[1], device=x.device) < lengths.to(
                    x.device
                ).unsqueeze(1)
                indices = [
                    np.arange(row_offsets[rows.first_row[i]], row_offsets[rows.first_row[i + 1]])
                    for i in chosen.tolist()
                ]
                values[np.concatenate(indices)] = x[present].float().cpu().numpy()
                bar.advance(len(chosen))
        more = (
            {}
            if encoded.words is None
            else {
                name: value
                for name, value in encoded.words.steps.items()
                if name not in ("rows", "positions")
            }
        )
        return Encoded({"values": values, **more}, row_offsets, counts=rows.counts)

    return features
