"""GPT: a Transformer that reads `context` tokens and predicts the next (Radford et al. 2018, 2019).

With the options of Llama (Touvron et al. 2023) it opens published weights (`interop/gpt`), which
depend on what preceded a text in training: `learnt` has the `start` token if it is not `</s>`, and
`start_alone` if there was none. Then the first token is predicted from the start token alone, which
no other token sees. If the weights came with a chat template, the model answers in conversations.

It is trained on windows in random order. Text that is longer than its context is scored in windows
that overlap by half, each token with at least half a context before it; stepping slides in the same
way, so both agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom import progress
from seqloom.batching import like_lengths
from seqloom.contracts.language import LanguageModel
from seqloom.contracts.saving import Kind, natural, one_of, optional
from seqloom.decoding.generation import draft_of
from seqloom.decoding.sampling import ANSWER
from seqloom.decoding.stepper import check_scores
from seqloom.errors import ConfigError, ModelError
from seqloom.kernels.parallel import chunk_bounds
from seqloom.models.language.configs import GPT_SHAPE, GPTConfig
from seqloom.models.language.neural import Layers, NeuralLanguageModel, Past, settled
from seqloom.models.network.configs import options_of
from seqloom.models.network.first_layer import Size
from seqloom.runtime.language import GPTStepper
from seqloom.runtime.transformer import GPTNet
from seqloom.runtime.weights import Weights
from seqloom.text.chat import MOST_CHARACTERS, ChatTemplate, checked_messages
from seqloom.traces import Trace
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import numpy as np
    import torch

    from seqloom.text.tokenizer import Tokenizer
    from seqloom.training.batches import Batches


Messages = str | Sequence[Mapping[str, str]]  # one, or a conversation


def template_text(value: Any) -> bool:
    """Return whether a value can be saved as a chat template."""
    return isinstance(value, str) and 0 < len(value) <= MOST_CHARACTERS


def make_template(name: str, tokenizer: Tokenizer, learnt: Mapping[str, Any]) -> ChatTemplate:
    """Return the chat template in `learnt`; refuse if there is none."""
    if "chat_template" not in learnt:
        raise ConfigError(
            f"this {name} model has no chat template, so it continues texts but holds no conversations; "
            "use generate without chat"
        )
    specials = {"eos_token": tokenizer.token(tokenizer.eos_id)}
    if (bos := learnt.get("chat_bos")) is not None:
        specials["bos_token"] = tokenizer.token(bos)
    return ChatTemplate(learnt["chat_template"], tokenizer, specials)


def encode_chat(template: ChatTemplate, messages: Messages, start: int | None) -> np.ndarray:
    """Encode messages, without the start token, which the model begins with anyway."""
    ids = template.encode(checked_messages(messages))
    return ids[1:] if len(ids) and ids[0] == start else ids


def remark_length(kind: str, n_tokens: int, context: int) -> None:
    """Warn if a text is longer than the context."""
    if n_tokens > context:
        progress.say(
            f"warning: the {kind} has {n_tokens:,} tokens; the model sees at most the last {context:,}"
        )


# ---- gpt

TOKENS_PER_PASS = 8192  # tokens that are scored in one pass
TOKENS_PER_KERNEL_PASS = 2048  # without torch
SCORES = 1 << 24  # logits that are held at a time

# Start, end, first scored token, and 1 if the start token precedes the window.
Span = tuple[int, int, int, int]


@dataclass(frozen=True)
class Windows:
    """Windows of a context in which texts are read, half a context apart."""

    context: int
    start_id: int  # token before a sequence
    start_alone: bool  # whether it is seen by the first token only

    def inputs(
        self, ids: np.ndarray, lengths: np.ndarray, max_tokens: int, past: Past
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield inputs of windows of similar length (B, T), which of their tokens are scored (B, T), and
        the positions of these in the ids.
        """
        ids, n_past = past.joined(ids), len(past.ids)
        spans = np.array(self.spans(lengths, past.read, n_past), np.int64).reshape(-1, 4)
        for chosen in like_lengths(spans[:, 1] - spans[:, 0], max_tokens):
            start, end, first, begins = spans[chosen].T[..., None]
            positions = start + np.arange((end - start)[0, 0])  # (B, T)
            previous = ids[np.minimum(positions, len(ids)) - 1]
            inputs = np.where(
                (positions < start + begins) | (positions >= end), self.start_id, previous
            )
            scored = (positions >= first) & (positions < end)
            yield inputs, scored, positions[scored] - n_past
        # Enough for the last window, which is incomplete, and the token before it.
        past.advance(ids[n_past:], 2 * self.context)

    def spans(self, lengths: np.ndarray, read: int = 0, n_past: int = 0) -> list[Span]:
        """Return windows half a context apart.

        If `read` tokens of the first sequence were scored before, only windows with further tokens
        are returned; positions count from the last `n_past` of the former.
        """
        windows: list[Span] = []
        offset, alone = n_past - read, int(self.start_alone)
        for length in lengths.tolist():
            length += read
            if alone and not read:
                windows.append((offset, offset + 1, offset, 1))
            windows += self._overlapping(
                offset + alone, length - alone, max(read - alone, 0), begins=1 - alone
            )
            offset, read = offset + length, 0
        return windows

    def _overlapping(self, offset: int, length: int, read: int, begins: int) -> Iterator[Span]:
        """Yield the windows of one sequence from `offset` on; `begins`: the last value of the first span."""
        size = self.context
        stride = -(-size // 2)
        if read == length:
            return
        for low in range(
            max(read - size, -1) // stride * stride + stride, max(length - size, 0) + stride, stride
        ):
            high = min(low + size, length)
            first = max(low + size - stride if low else 0, read)
            yield offset + low, offset + high, offset + first, 0 if low else begins
            if high == length:
                break


class GPTLayers(Layers):
    width_option = embed_option = "d_model"

    def build(self, model: Any, size: Size, counts: torch.Tensor | None = None) -> torch.nn.Module:
        from seqloom.models.language.language_net import GPTLanguageNet

        return GPTLanguageNet(
            settled(model.config, size), model.tokenizer.vocab_size, size.width, counts
        )

    def take_runtime(self, model: Any, weights: Weights) -> GPTNet:
        c, size, vocab_size = model.config, model.fitted_size, model.tokenizer.vocab_size
        if size.width % c.multiple:
            raise ModelError(
                f"its width {size.width} is not a multiple of {c.multiple}, as its heads need"
            )
        for start in (model.start_id, model.learnt.get("chat_bos", 0)):
            if start >= vocab_size:
                raise ModelError(
                    f"its start token {start} is not in its vocabulary of {vocab_size:,}"
                )
        return GPTNet(
            weights,
            vocab_size,
            c.context,
            size.width,
            c.n_layers,
            c.n_heads,
            softmax=c.softmax,
            tied=c.tied,
            **options_of(c, GPT_SHAPE),
        )

    def check_vectors(self, config: Any, dimensions: int) -> None:
        super().check_vectors(config, dimensions)
        if dimensions % config.multiple:
            raise ConfigError(
                f"the vectors of {config.pretrained} have {dimensions} dimensions, not a multiple of "
                f"{config.multiple}, as {config.n_heads} heads and {config.positions} positions need; "
                "try another number of n_heads"
            )

    def body_cost(self, c: Any, width: int) -> float:
        attention = 2 * width * width * (1 + (c.n_kv_heads or c.n_heads) / c.n_heads)
        return c.n_layers * (
            attention + (3 if c.activation == "swiglu" else 2) * width * (c.d_mlp or 4 * width)
        )

    def batches(self, model: Any, ids: np.ndarray, train: TrainConfig) -> Batches:
        from seqloom.training.batches import Separate, Shuffled

        layout = Shuffled if model.carry else Separate
        return layout(
            ids,
            model.tokenizer.eos_id,
            batch_size=train.batch_size,
            window=model.config.context,
            start_id=model.start_id,
            seed=train.seed,
        )

    def stepper(self, model: Any, network: Any) -> GPTStepper:
        return GPTStepper(
            network,
            model.tokenizer.eos_id,
            start_id=model.start_id,
            start_alone=model.windows.start_alone,
        )

    def read_traced(self, model: Any, ids: np.ndarray, lengths: np.ndarray, trace: Trace) -> int:
        """Read what the network sees at a time: the first sequence, up to its context."""
        n_read = min(int(lengths[0]), model.config.context)
        model.stepper().read(ids[None, :n_read], trace)
        return n_read

    def flat_features(
        self,
        model: Any,
        network: Any,
        ids: np.ndarray,
        lengths: np.ndarray,
        max_tokens: int | None = None,
        past: Past | None = None,
    ) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        import torch

        device = next(network.parameters()).device
        for inputs, scored, positions in model.windows.inputs(
            ids, lengths, max_tokens or TOKENS_PER_PASS, past or Past()
        ):
            features, _ = network(torch.from_numpy(inputs).to(device))
            yield positions, features[torch.from_numpy(scored).to(device)]


class GPT(NeuralLanguageModel, LanguageModel):
    name = "gpt"
    public_names = "chat chat_stream chat_template extended"
    config_class = GPTConfig
    layers = GPTLayers()
    learnt_values: ClassVar[dict[str, Kind]] = {
        **NeuralLanguageModel.learnt_values,
        "start": optional(natural),
        "start_alone": optional(one_of(True)),
        "chat_template": optional(template_text),
        "chat_bos": optional(natural),
    }
    unused_training_options: ClassVar[dict[str, str]] = {
        "truncation": "it is trained on windows of its context; set context",
        "random_truncation": "it has no state whose gradient is cut off",
    }

    @property
    def context(self) -> int:
        return self.config.context

    @property
    def start_id(self) -> int:
        """Return the token that a sequence begins with."""
        return self.learnt.get("start", self.tokenizer.eos_id)

    @property
    def windows(self) -> Windows:
        return Windows(self.config.context, self.start_id, self.learnt.get("start_alone", False))

    def extended(self, context: int, rope_scale: float | None = None) -> GPT:
        """Return a model with the same weights for a longer context, without training.

        Rotary positions are divided by `rope_scale`, by default the factor by which the context
        grows, so that all are in the trained range (Chen et al. 2023); sinusoidal, relative and
        ALiBi positions extrapolate. A learned table of positions cannot be extended.
        """
        self.check_fitted()
        c = self.config
        if c.positions == "learned":
            raise ConfigError(
                f"its positions are a learned table of {c.context}, which has no more; fit a model "
                f"with a larger "
                "context, or with other positions"
            )
        if context <= c.context:
            raise ConfigError(
                f"a context of {context} is not longer than the {c.context} that it has"
            )
        if c.positions == "rope" and rope_scale is None:
            rope_scale = c.rope_scale * context / c.context
        longer = copy(self)
        longer.config = replace(
            c, context=context, **({} if rope_scale is None else {"rope_scale": rope_scale})
        )
        return longer

    # ---- scoring with quantised weights, by the kernels of the stepper; they stay quantised in memory

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return (
            self._read(ids, lengths, Past())[1]
            if self.bits
            else super().sequence_log_probs(ids, lengths)
        )

    def continue_log_probs(self, ids: np.ndarray, state: Any) -> tuple[np.ndarray, Any]:
        if not self.bits:
            return super().continue_log_probs(ids, state)
        past = Past() if state is None else state
        return self._read(ids, np.array([len(ids)]), past)[1], past

    def sequence_features(
        self,
        ids: np.ndarray,
        lengths: np.ndarray,
        past: Past | None = None,
        *,
        scored: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:
        return (
            self._read(ids, lengths, past or Past())
            if self.bits
            else super().sequence_features(ids, lengths, past, scored=scored)
        )

    def _read(
        self, ids: np.ndarray, lengths: np.ndarray, past: Past
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the features before each token, float32 (N, D), and its log-probability (N,)."""
        stepper, ids, lengths = self.stepper(), np.asarray(ids), np.asarray(lengths)
        features, log_probs = (
            np.empty((len(ids), stepper.width), np.float32),
            np.empty(len(ids), np.float32),
        )
        for inputs, scored, positions in self.windows.inputs(
            ids, lengths, TOKENS_PER_KERNEL_PASS, past
        ):
            features[positions] = stepper.read(inputs)[scored]
        for low, high in chunk_bounds(len(ids), max(SCORES // self.tokenizer.vocab_size, 1)):
            log_probs[low:high] = stepper.output.log_probs(features[low:high])[
                np.arange(high - low), ids[low:high]
            ]
        return features, check_scores(log_probs)

    # ---- conversations; `learnt` may have `chat_template`, and `chat_bos`, the bos_token of templates

    def chat_template(self) -> ChatTemplate:
        """Return the template that turns conversations into ids; refuse if the model has none."""
        self.check_fitted()
        return make_template(self.name, self.tokenizer, self.learnt)

    def chat(self, messages: Messages, **options: Any) -> str:
        """Return the answer to a message, or to a conversation: a list of
        {"role": "system", "user" or "assistant", "content": text}.

        `options` are those of `generate`: max_tokens (500 unless given), temperature (0.2),
        repetition_penalty (1.1), top_k, top_p, seed, stop, draft, ... Marks of the template in a message
        stay text. An answer that only repeats itself is cut off.
        """
        return "".join(self.chat_stream(messages, **options))

    def chat_tokens(self, messages: Messages) -> tuple[np.ndarray, set[int | None]]:
        """Return the tokens of a conversation up to where the answer begins, and those that end it."""
        template = self.chat_template()
        ids = encode_chat(template, messages, self.learnt.get("start"))
        turn = self.tokenizer.derived(f"end of turn: {template.source}", template.end_of_turn)
        return ids, {self.tokenizer.eos_id, turn}

    def chat_stream(
        self,
        messages: Messages,
        *,
        stop: Sequence[str] = (),
        eight_bit: bool = False,
        draft: LanguageModel | None = None,
        draft_tokens: int = 4,
        **options: Any,
    ) -> Iterator[str]:
        """Yield the answer in pieces as it is sampled."""
        from seqloom.decoding.sampling import SamplingConfig

        config = SamplingConfig.from_dict({**ANSWER, **options})
        ids, ends = self.chat_tokens(messages)
        remark_length("conversation", len(ids), self.context)
        return self.generator(eight_bit=eight_bit).answer(
            ids, config, stop, ends, draft_of(draft, draft_tokens)
        )

    def remark_prompts(self, prompts: Sequence[str]) -> None:
        texts = [
            prompt.rpartition("\n")[2] if self.unit == "line" else prompt for prompt in prompts
        ]
        long_texts = [text for text in texts if len(text.encode("utf-8", "replace")) > self.context]
        remark_length(
            "prompt",
            max((len(self.tokenizer.encode(text)) for text in long_texts), default=0),
            self.context,
        )
