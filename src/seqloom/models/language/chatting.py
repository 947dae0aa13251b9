"""Answers in a conversation, for models whose weights came with a chat template; what of a long text they do not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seqloom import progress
from seqloom.contracts.language import LanguageModel, draft_of
from seqloom.errors import ConfigError
from seqloom.text.chat import MOST_CHARACTERS, ChatTemplate, checked_messages

if TYPE_CHECKING:
    import numpy as np

ANSWER = 500  # tokens that an answer may have, by default


def template_text(value: Any) -> bool:
    """What a chat template must be to be saved."""
    return isinstance(value, str) and 0 < len(value) <= MOST_CHARACTERS


class Chatting(LanguageModel):
    """`learnt` has `chat_template` where there is one, and `chat_bos`, the token that templates know as bos_token."""

    def chat_template(self) -> ChatTemplate:
        """What turns conversations into ids; refused where the model has none."""
        self.check_fitted()
        if "chat_template" not in self.learnt:
            raise ConfigError(f"this {self.name} model has no chat template, so it continues texts but holds no conversations; "
                              "use generate without chat")
        tokenizer, bos = self.tokenizer, self.learnt.get("chat_bos")
        specials = {"eos_token": tokenizer.token(tokenizer.eos_id)}
        if bos is not None:
            specials["bos_token"] = tokenizer.token(bos)
        return ChatTemplate(self.learnt["chat_template"], tokenizer, specials)

    def chat(self, messages: str | Sequence[Mapping[str, str]], **options: Any) -> str:
        """The answer to a message, or to a conversation: a list of {"role": "system", "user" or "assistant", "content": text}.

        `options` are those of `generate`: max_tokens (500 unless given), temperature, top_k, top_p, seed, stop, draft, ...
        Marks of the template in a message stay text.
        """
        return "".join(self.chat_stream(messages, **options))

    def chat_stream(self, messages: str | Sequence[Mapping[str, str]], *, stop: Sequence[str] = (), eight_bit: bool = False,
                    draft: LanguageModel | None = None, draft_tokens: int = 4, **options: Any) -> Iterator[str]:
        """The same, piece by piece as it is drawn."""
        from seqloom.decoding.sampling import SamplingConfig

        template = self.chat_template()
        config = SamplingConfig.from_dict({"max_tokens": ANSWER, **options})
        ids = self._chat_ids(template.encode(checked_messages(messages)))
        ends = {self.tokenizer.eos_id, self.tokenizer.derived(f"end of turn: {template.source}", template.end_of_turn)}
        return self.generator(eight_bit=eight_bit).answer(ids, config, stop, ends, draft_of(draft, draft_tokens))

    def _chat_ids(self, ids: np.ndarray) -> np.ndarray:
        """Without the start token, which the model begins with anyway."""
        if len(ids) and ids[0] == self.learnt.get("start"):
            ids = ids[1:]
        self._remark("conversation", len(ids))
        return ids

    def remark_prompts(self, prompts: Sequence[str]) -> None:
        seen = [prompt.rpartition("\n")[2] if self.unit == "line" else prompt for prompt in prompts]
        long = [text for text in seen if self.context is not None and len(text.encode("utf-8", "replace")) > self.context]
        self._remark("prompt", max((len(self.tokenizer.encode(text)) for text in long), default=0))

    def _remark(self, what: str, n_tokens: int) -> None:
        if self.context is not None and n_tokens > self.context:
            progress.say(f"warning: the {what} has {n_tokens:,} tokens; the model sees at most the last {self.context:,}")
