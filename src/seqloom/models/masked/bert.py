"""BERT (Devlin et al. 2019) and its relatives as masked language models, from published weights
(`interop/encoders`).

`fill` and pseudo-perplexity come with the contract; an encoder adds its hidden states, one vector
for each token that depends on the whole text. On a CPU the network runs without torch
(`runtime/bert`), on other devices with it (`encoder_net`). A quantised model rounds all matrices of
the blocks: in three published models, float32 queries, keys and values made the error of 8 bits
smaller by 2 to 10 per cent but the weights 1.5 to 1.9 times as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from seqloom import progress
from seqloom.contracts import FitOptions, MaskedModel
from seqloom.contracts.masked import Row, Text
from seqloom.contracts.saving import Kind
from seqloom.contracts.transforming import Hidden
from seqloom.data.corpus import Corpus
from seqloom.errors import ConfigError
from seqloom.kernels.parallel import parallel_map
from seqloom.models.masked.configs import BertConfig
from seqloom.models.masked.inputs import (
    MARKS,
    Input,
    Marks,
    cut_to,
    groups,
    hidden_states,
    read,
    read_inputs,
    take_encoder,
    traced,
)
from seqloom.models.network.network import NetworkModel
from seqloom.runtime.bert import BertNet, MaskedHead
from seqloom.runtime.weights import Weights
from seqloom.text.masks import HIDDEN
from seqloom.traces import Traced

if TYPE_CHECKING:
    import torch

    from seqloom.contracts.fitting import Train


class Masked(NamedTuple):
    """The network without torch: an encoder, and the head that predicts hidden tokens."""

    encoder: BertNet
    head: MaskedHead | None

    def read(self, inputs: Sequence[Input]) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors (N, D) of all tokens of these texts, and the offsets (B + 1,) of the texts."""
        return read_inputs(self.encoder, inputs)

    def guess(self, inputs: Sequence[Input], marks: Marks) -> list[np.ndarray]:
        """Return for each text the log-probabilities of all tokens at its hidden positions, float32
        (positions, V).
        """
        assert self.head is not None, "this network has no head that guesses tokens"
        x, offsets = self.read([marks.hide(each) for each in inputs])
        hidden = np.flatnonzero(np.concatenate([each.ids for each in inputs]) == HIDDEN)
        return np.split(self.head.log_probs(x[hidden]), np.searchsorted(hidden, offsets[1:-1]))


class Bert(NetworkModel, MaskedModel):
    name = "bert"
    public_names = "hidden trace"
    config_class = BertConfig
    learnt_values: ClassVar[dict[str, Kind]] = {**MARKS, **NetworkModel.network_values}
    inputs_16_bit = True

    @property
    def marks(self) -> Marks:
        """Return the marks (special tokens) around its texts."""
        return Marks.of(self.learnt, self.tokenizer.vocab_size)

    @property
    def mask(self) -> str:
        marks = self.marks
        return "[MASK]" if marks.mask is None else self.tokenizer.token(marks.mask)

    def longest(self, texts: int) -> int:
        return self.config.context - self.marks.around(texts)

    def label(self) -> str:
        return f"bert-{self.config.n_layers}x{self.config.d_model}{self.bits_label}"

    def build_fitted(self) -> torch.nn.Module:
        from seqloom.models.masked.encoder_net import build_encoder

        c = self.config
        return build_encoder(
            c,
            self.tokenizer.vocab_size,
            head=c.head,
            head_activation=c.head_activation,
            tied=c.tied,
        )

    def take_runtime(self, weights: Weights) -> Masked:
        c, size = self.config, self.tokenizer.vocab_size
        Marks.of(self.learnt, size)
        network, head = take_encoder(weights, c, size), None
        if c.head:
            head = MaskedHead(
                weights.within("head"),
                network,
                size,
                c.d_embed or c.d_model,
                c.head_activation or c.activation,
                norm_epsilon=c.norm_epsilon,
                tied=c.tied,
            )
        return Masked(network, head)

    # ---- fitting

    def fit(
        self,
        data: Any,
        *,
        valid: Any = None,
        tokenizer: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: Any = None,
        **training: Any,
    ) -> Self:
        """Refuse: published weights are converted (`seqloom convert DIR OUT`)."""
        raise ConfigError(
            "bert models are not trained here; convert published weights: seqloom convert DIR OUT"
        )

    def fit_corpus(self, corpus: Corpus, options: FitOptions) -> None:
        raise NotImplementedError

    # ---- guessing

    def check_masked(self) -> None:
        if not self.config.head or self.learnt.get("mask") is None:
            lacks = (
                "the layer that guesses hidden tokens" if not self.config.head else "a mask token"
            )
            raise ConfigError(
                f"this {self.name} model was published without {lacks}; it has hidden states alone"
            )

    def mask_log_probs(self, rows: list[Row]) -> list[np.ndarray]:
        marks = self.marks
        joined = [marks.join(row, self.config.n_types) for row in rows]
        if not self.net.on_cpu:
            return self._guessed_by_torch(joined)
        network: Masked = self.runtime()
        return [
            log_probs
            for group in parallel_map(lambda inputs: network.guess(inputs, marks), groups(joined))
            for log_probs in group
        ]

    def _guessed_by_torch(self, joined: list[Input]) -> list[np.ndarray]:
        import torch

        marks, network = self.marks, self.network()
        inputs = [marks.hide(each) for each in joined]
        guesses: list[Any] = [None] * len(joined)
        with torch.inference_mode():
            for indices, hidden, _ in read(network, inputs, marks.pad):
                rows_of, columns = np.concatenate(
                    [
                        [np.full(len(at), row), at]
                        for row, index in enumerate(indices)
                        for at in np.nonzero(joined[index].ids == HIDDEN)
                    ],
                    axis=1,
                )
                logits = network.logits(hidden[rows_of, columns])  # only where something is hidden
                log_probs = torch.log_softmax(logits.float(), -1).cpu().numpy()
                ends = np.cumsum(np.bincount(rows_of, minlength=len(indices)))
                for index, part in zip(indices, np.split(log_probs, ends[:-1])):
                    guesses[index] = part
        return guesses

    # ---- hidden states

    def hidden(self, texts: Text | Sequence[Text]) -> Any:
        """Return the vector of each token of a text, or of a pair of texts given as a tuple, marks
        included; for a list, a list.

        Texts longer than the context are cut, with a message.
        """
        self.check_fitted()
        single = isinstance(texts, (str, tuple))
        texts_list: list[Any] = [texts] if single else list(texts)
        rows = [self.encode(text) for text in texts_list]
        marks = self.marks
        cut_rows = [cut_to(row, self.longest(len(row))) for row in rows]
        if n_cut := sum(sum(map(len, a)) > sum(map(len, b)) for a, b in zip(rows, cut_rows)):
            progress.say(
                f"{n_cut:,} of {len(rows):,} texts are longer than the {self.config.context:,} "
                f"tokens that this "
                f"{self.name} model reads; their ends are left out"
            )
        inputs = [marks.hide(marks.join(row, self.config.n_types)) for row in cut_rows]
        names = self.tokenizer.token
        states = [
            Hidden([names(token) for token in each.ids.tolist()], vectors)
            for each, vectors in zip(inputs, self._vectors(inputs))
        ]
        return states[0] if single else states

    def trace(self, text: Text, *patterns: str) -> Traced:
        """Return what the network computes while it reads a text or a pair: weights of attention and
        the vectors after each block (`seqloom.traces` has their names).

        `patterns`: the wanted names, such as `*.weights`; none: all.
        """
        self.check_fitted()
        row = self.encode(text)
        row = cut_to(row, self.longest(len(row)))
        return traced(
            self.runtime().encoder,
            self.marks.hide(self.marks.join(row, self.config.n_types)),
            self.tokenizer,
            patterns,
        )

    def _vectors(self, inputs: list[Input]) -> list[np.ndarray]:
        """Return the vectors (T, D) of each text."""
        if not self.net.on_cpu:
            return hidden_states(self.network(), inputs, self.marks.pad)
        network: Masked = self.runtime()
        groups_read = parallel_map(network.read, groups(inputs))
        return [part.copy() for x, offsets in groups_read for part in np.split(x, offsets[1:-1])]
