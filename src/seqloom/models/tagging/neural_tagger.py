"""A network that tags every word: word vectors and spelling, an encoder, and a conditional random
field (Lample et al. 2016; Ma and Hovy 2016). Which encoder, whether characters are read and whether
there is a CRF are options.

    >>> data = [(["the", "run"], ["DET", "NOUN"])] * 8
    >>> model = NeuralTagger(crf=False).fit(data, train=TrainConfig(steps=40))
    >>> model.predict(["the", "run"])
    ['DET', 'NOUN']
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom.arrays import Length, Spec, pack_words, unpack_words
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.saving import Kind, names, optional
from seqloom.contracts.starting import Origin
from seqloom.contracts.tagging import Tagger
from seqloom.data.kept import KeptRows
from seqloom.data.spans import Scheme, legal_transitions
from seqloom.data.tagging import Tagged
from seqloom.errors import ConfigError, ModelError
from seqloom.metrics.tagging import span_counts
from seqloom.models.sequence.configs import Sizes
from seqloom.models.sequence.inputs import (
    LONGEST_WORD,
    Encoded,
    Spellings,
    character_list,
    flat,
    in_portions,
)
from seqloom.models.sequence.model import (
    SequenceModel,
    embed_width,
    features_of,
    first_layer,
    further_words,
    held_out,
    open_published,
    outputs,
    take_published,
    train_sequence,
    without_torch,
)
from seqloom.models.sequence.published import PublishedInputs
from seqloom.models.sequence.streaming import TagStream, check_encoder, take_reader_and_encoder
from seqloom.models.tagging.configs import NeuralTaggerConfig
from seqloom.runtime.composition import SequenceNetwork, TagHead
from seqloom.runtime.weights import Weights
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

    from seqloom.models.sequence.published import Opened
    from seqloom.models.sequence.sequence_net import InitialWeights, SequenceTraining

UNKNOWN = "<unk>"  # the first in the table of words


class NeuralTagger(SequenceModel, Tagger):
    name = "tagger"
    public_names = "stream trace"
    config_class = NeuralTaggerConfig
    learnt_values: ClassVar[dict[str, Kind]] = {
        **Tagger.learnt_values,
        **SequenceModel.sequence_values,
        "characters": optional(names),
    }
    rows: dict[str, int]  # row of each word in the tables of vectors
    _field: tuple[Any, Any] | None = None  # weights, and the CRF made of them

    @property
    def works_in(self) -> Scheme | None:
        return None if self.config.work_in == "data" else self.config.work_in

    def knows(self, word: str) -> bool:
        if self.config.published and self.sizes.vocab_size == 1:
            return True  # of a tagger that was published, nothing says which words it has seen
        return self._row(word) in range(1, self.sizes.vocab_size)

    def _row(self, word: str) -> int:
        return self.rows.get(word.lower() if self.config.lowercase else word, 0)

    # ---- fitting

    def fit_sentences(self, data: Tagged, options: FitOptions) -> None:
        from seqloom.models.sequence.sequence_net import InitialWeights

        c, opened = self.config, None
        if data.scheme and self.works_in is None:
            # tags that break the scheme would be impossible transitions
            data = data.converted(data.scheme)
        data, valid = held_out(
            self.config.hold_out, data, options, zip(data.sentences, data.tags), data.tags
        )
        inside = self.works_in if options.start is None else self.learnt["working_scheme"]
        if valid is not None and valid.scheme and inside:
            valid = valid.converted(inside)
        if options.start is not None:
            opened, start = take_published(self, options.start), self._continue(data, options.start)
            self._train(data, valid, start, options, opened)
            return
        if c.published:
            opened = open_published(self)
        spelled = list(dict.fromkeys(chain.from_iterable(data.sentences)))
        counts: dict[str, int] = {}
        for word in chain.from_iterable(data.sentences):
            key = word.lower() if c.lowercase else word
            counts[key] = counts.get(key, 0) + 1
        vocabulary = [
            UNKNOWN,
            *(word for word, count in counts.items() if count >= c.min_count and word != UNKNOWN),
        ]
        word_counts = np.array([counts.get(word, 0) for word in vocabulary])
        first = (
            first_layer(self, vocabulary, word_counts, (options.train or TrainConfig()).seed)
            if c.pretrained
            else None
        )
        words, further = further_words(first, set(vocabulary).__contains__, c.pretrained_words)
        self.rows = {word: i for i, word in enumerate([*vocabulary, *words])}
        n_characters = 0
        if c.spelled:
            self.learnt["characters"] = character_list(spelled)
            n_characters = len(self.learnt["characters"]) + 2
        self.learnt["sizes"] = Sizes(
            len(vocabulary), embed_width(c.d_embed, first), len(words), n_characters
        ).to_dict()
        start = InitialWeights(
            first=first, further=further, counts=word_counts, word_dropout=c.word_dropout, unk_id=0
        )
        if opened is not None:
            d_model = opened.published.layout.d_model
            self.learnt["sizes"] = Sizes(len(vocabulary), d_model).to_dict()
            start = (
                InitialWeights(d_precomputed=d_model)
                if c.frozen
                else InitialWeights(weights=opened.weights)
            )
        self._train(data, valid, start, options, opened)

    def _train(
        self,
        data: Tagged,
        valid: Tagged | None,
        start: InitialWeights,
        options: FitOptions,
        opened: Opened | None,
    ) -> None:
        def task(train: TrainConfig, device: torch.device) -> SequenceTraining:
            return self._task(data, valid, start, train, self._reading(opened, device))

        train_sequence(self, task, options, valid, opened)

    def _continue(self, data: Tagged, origin: Origin) -> InitialWeights:
        """Take over the words of the model to start from; return their counts in the data as initial
        values of the network."""
        from seqloom.models.sequence.sequence_net import InitialWeights

        c, sizes = self.config, self.sizes
        self.rows = dict(origin.model.rows)
        if c.published:
            return InitialWeights(d_precomputed=sizes.d_embed if c.frozen else 0)
        rows = map(self._row, chain.from_iterable(data.sentences))
        counts = np.bincount(np.fromiter(rows, np.int64), minlength=sizes.vocab_size)
        return InitialWeights(
            counts=counts[: sizes.vocab_size], word_dropout=c.word_dropout, unk_id=0
        )

    def _reading(self, opened: Opened | None, device: torch.device) -> Callable[[Encoded], Encoded]:
        """Return a function applied to encoded sentences before training: a frozen encoder that reads
        them once, or the identity.
        """
        return (
            features_of(self, opened, device)
            if opened is not None and self.config.frozen
            else lambda encoded: encoded
        )

    def _task(
        self,
        data: Tagged,
        valid: Tagged | None,
        start: InitialWeights,
        train: TrainConfig,
        read: Callable[[Encoded], Encoded],
    ) -> SequenceTraining:
        from seqloom.models.sequence.sequence_net import (
            SequenceTraining,
            example_batches,
            tagged_steps,
        )
        from seqloom.training.trainable import Criterion

        def losses(network: Any, batch: Any) -> torch.Tensor:
            return network.output.loss(
                network(batch.arrays), batch["targets"], tagged_steps(batch.arrays)
            )

        held_out_score, held_out = None, Encoded({}, np.zeros(1, np.int64))
        if valid is not None:
            held_out = read(self._encode(valid.sentences))

            def held_out_score(network: Any) -> float:
                predicted = [
                    [self.tags[i] for i in ids.tolist()] for ids in self._tag(network, held_out)
                ]
                if valid.scheme:
                    right, both = span_counts(valid.tags, predicted, valid.scheme).sum(0)
                    return float(right / max(both, 1))
                same = [
                    a == b for gold, tags in zip(valid.tags, predicted) for a, b in zip(gold, tags)
                ]
                return sum(same) / max(len(same), 1)

        # empty ones have nothing to learn
        encoded = self._encode_tagged(
            data.part([i for i, words in enumerate(data.sentences) if words])
        )
        criterion = Criterion(
            "F1" if valid is not None and valid.scheme else "accuracy", higher_is_better=True
        )
        batches = example_batches(read(encoded), train)
        return SequenceTraining(
            batches, criterion, lambda: self.build_fitted(start), losses, held_out_score, "words"
        )

    # ---- the network

    def build_fitted(self, start: InitialWeights | None = None) -> torch.nn.Module:
        from seqloom.models.sequence.sequence_net import make_reader_and_encoder
        from seqloom.nn import composition
        from seqloom.nn.crf import CRF

        c, scheme = self.config, self.learnt["working_scheme"]
        reader, encoder = make_reader_and_encoder(
            c, self.sizes, start, self.published, self._subwords
        )
        allowed = legal_transitions(self.tags, scheme) if scheme else None
        field = CRF(len(self.tags), allowed=allowed) if c.crf else None
        head = composition.TagHead(encoder.d_out, len(self.tags), crf=field)
        return composition.SequenceNetwork(reader, encoder, head, dropout=c.drops)

    @property
    def _subwords(self) -> int:
        """Return the vocabulary size of a published encoder, else 0."""
        return self.tokenizer.vocab_size if self.config.published else 0

    def take_runtime(self, weights: Weights) -> SequenceNetwork:
        c = self.config
        reader, encoder = take_reader_and_encoder(
            weights, c, self.sizes, self.published, self._subwords
        )
        return SequenceNetwork(
            reader,
            encoder,
            TagHead(weights.within("output"), encoder.d_out, len(self.tags), crf=c.crf),
        )

    # ---- tagging

    def _encode(
        self, sentences: Sequence[list[str]], different: dict[str, int] | None = None
    ) -> Encoded:
        """Encode sentences. `different`: the distinct words until then, by their index; it grows, and the
        words are then spelled by whoever gave it.
        """
        if (published := self.published) is not None:
            return PublishedInputs(published, self.tokenizer).encode_words(list(sentences))
        if isinstance(sentences, KeptRows):
            known: dict[str, int] = {}
            return in_portions(
                lambda some: self._encode(some, known), sentences, lambda: self._spellings(known)
            )
        known = {} if different is None else different
        local = {word: i for i, word in enumerate(dict.fromkeys(chain.from_iterable(sentences)))}
        rows = np.fromiter(map(self._row, local), np.int64, len(local))
        indices, row_offsets = flat(
            [np.array([local[word] for word in words], np.int64) for words in sentences]
        )
        steps = {"ids": rows[indices]}
        if self.config.spelled:
            places = (known.setdefault(word, len(known)) for word in local)
            steps["words"] = np.fromiter(places, np.int64, len(local))[indices]
        return Encoded(
            steps, row_offsets, None if different is not None else self._spellings(known)
        )

    def _spellings(self, different: Iterable[str]) -> Spellings | None:
        if not self.config.spelled:
            return None
        character_ids = {char: i for i, char in enumerate(self.learnt["characters"], 2)}
        return Spellings.of(list(different), character_ids, LONGEST_WORD)

    def _encode_tagged(self, data: Tagged) -> Encoded:
        """Encode sentences with the indices of their tags, `targets`."""
        tag_ids = {tag: i for i, tag in enumerate(self.tags)}

        def targets(tags: Iterable[list[str]]) -> np.ndarray:
            return np.array([tag_ids[tag] for some in tags for tag in some], np.int64)

        if not isinstance(data.sentences, KeptRows) or self.published is not None:
            encoded = self._encode(data.sentences)
            (encoded if encoded.words is None else encoded.words).steps["targets"] = targets(
                data.tags
            )
            return encoded
        known: dict[str, int] = {}

        def portion(rows: list[int]) -> Encoded:
            part = slice(rows[0], rows[-1] + 1)
            encoded = self._encode(data.sentences[part], known)
            encoded.steps["targets"] = targets(data.tags[part])
            return encoded

        return in_portions(portion, range(len(data)), lambda: self._spellings(known))

    def steps_of(self, example: Any) -> tuple[Encoded, list[str]]:
        (words,), _ = self.sequences(example)
        encoded = self._encode([words])
        if self.config.published:
            words = [self.tokenizer.token(i) for i in encoded.steps["ids"].tolist()]
        return encoded, words

    def _tag(self, network: Any, encoded: Encoded) -> list[np.ndarray]:
        import torch

        from seqloom.models.sequence.sequence_net import batches_of, tagged_steps

        out, lengths = (
            [np.empty(0, np.int64)] * len(encoded),
            (encoded.words or encoded).lengths.tolist(),
        )
        with torch.inference_mode():
            for chosen, batch in batches_of(network, encoded):
                if not lengths[chosen[0]]:
                    break  # only empty ones are left
                best = network.output.decode(network(batch), tagged_steps(batch))
                for i, row in zip(chosen.tolist(), best):
                    out[i] = row[: lengths[i]]
        return out

    def tag_ids(self, sentences: list[list[str]]) -> list[np.ndarray]:
        encoded = self._encode(sentences)
        if not without_torch(self, len(sentences)):
            return self._tag(self.network(), encoded)
        paths: list[np.ndarray] = []
        for part, scores in outputs(self, encoded):
            offsets = part.offsets if part.word_offsets is None else part.word_offsets
            paths += [self._best(rows) for rows in np.split(scores, offsets[1:-1])]
        return paths

    def _best(self, scores: np.ndarray) -> np.ndarray:
        """Return the best tags of one sentence from their scores (T, K)."""
        if not self.config.crf or not len(scores):
            return scores.argmax(1) if len(scores) else np.empty(0, np.int64)
        return self._chain().best_paths(scores[None], np.array([len(scores)]))[0][0]

    def stream(self) -> TagStream:
        """Start a stream of tags of a sentence that is still coming in: `feed(word)` gives what
        `predict` gives at that position. For encoders that read in one direction, without CRF.
        """
        self.check_fitted()
        c, inside, outside = self.config, self.learnt["working_scheme"], self.learnt["scheme"]
        check_encoder(c)
        if c.crf:
            raise ConfigError(
                "stream: a CRF chooses the tags of a whole sentence together; fit a tagger without it "
                "(crf=False), or call predict"
            )
        if inside != outside == "bioes":
            raise ConfigError(
                "stream: BIOES tags depend on the next word's, unless the tagger works in them; fit one with "
                "work_in='bioes', or call predict"
            )
        network, tags = self.runtime(), self.tags
        return TagStream(
            network.encoder,
            lambda word: network.read(self._encode([[word]]).examples()),
            lambda x: tags[int(network.output.linear(x).argmax())],
            inside,
            outside,
        )

    def _chain(self) -> Any:
        """Return the conditional random field without torch, made once."""
        if self._field is None or self._field[0] is not self.weights:
            from seqloom.nn.linear_chain import Chain

            scheme, field = self.learnt["working_scheme"], self.runtime().output.field
            allowed = legal_transitions(self.tags, scheme) if scheme else None
            self._field = self.weights, Chain(field[0], field[1], field[2], allowed)
        return self._field[1]

    # ---- on disk

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.net.arrays(), **pack_words(self.rows)}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size, sizes = length("words"), self.sizes
        return {
            **super().array_specs(length),
            "words": Spec("uint8", (size,)),
            "word_ends": Spec("int64", (sizes.vocab_size + sizes.further,), 0, size),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        words = unpack_words(arrays)
        if self.sizes.columns or words[0] != UNKNOWN:
            raise ModelError("its words are not those of a tagger: the file is damaged")
        self.rows = {word: i for i, word in enumerate(words)}
        super().restore_arrays(
            {name: array for name, array in arrays.items() if name not in ("words", "word_ends")}
        )
