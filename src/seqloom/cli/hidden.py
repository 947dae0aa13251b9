"""Pictures and words of hidden Markov models, for `seqloom info`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.cli.sheet import save_sheet
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.models.language.hmm import HMM
    from seqloom.models.tag.hmm_tagger import HMMTagger

WORDS, IN_NAME = 10, 3  # shown of a state, and in its name
STEPS = 100  # along which it may forget


def state_words(model: HMM) -> dict[str, str]:
    """The likeliest tokens of each state, with their share."""
    return {f"state {i}": "  ".join(f"{_visible(word)} {share:.0%}" for word, share in words)
            for i, words in enumerate(model.top_words(WORDS))}


def draw(model: Any, target: str, text: str | None) -> None:
    """One picture: moves between states; of a language model also beliefs along a text, and the forgetting curve."""
    from seqloom.charts.transitions import transition_chart

    charts: dict[str, Any] = {}
    if model.task == "tagger":
        if text is not None:
            raise ConfigError("--text is for a language model; `seqloom predict` tags a text")
        charts["Which tag follows which"] = transition_chart(_tag_moves(model), model.tags)
    else:
        from seqloom.charts.belief import FLOOR, belief_chart, forgetting_chart

        names = [f"{i}: {' '.join(_visible(word) for word, _ in words)}" for i, words in enumerate(model.top_words(IN_NAME))]
        words, beliefs = model.beliefs(text if text is not None else model.generate("", max_tokens=25, seed=0))
        charts["Belief about the state, token by token"] = belief_chart(beliefs, [_visible(w) for w in words], names)
        charts["Moves between states"] = transition_chart(model.chain.transitions, names)
        distances = _forgetting(model)
        if max(distances) > FLOOR:  # else it forgets at once, as one with a single state
            charts["Forgetting: distance of two beliefs that began apart"] = forgetting_chart({model.label(): distances})
    save_sheet(charts, target, f"{model.label()}: what is inside")


def _forgetting(model: HMM) -> list[float]:
    """From the state that the model begins with least, along a text that it wrote itself."""
    ids = model.chain.sample(STEPS, seed=0)[0]
    other = np.zeros(model.chain.n_states)
    other[model.chain.start.argmin()] = 1.0
    return model.chain.forgetting(ids, other).tolist()


def _tag_moves(model: HMMTagger) -> np.ndarray:
    from seqloom.models.tag.transitions import follow_probs

    moves = follow_probs(model.follows, 1)[:-1, :-1]
    return moves / moves.sum(axis=1, keepdims=True)


def _visible(word: str) -> str:
    """Also what is not printed, or would move the cursor."""
    return "".join("␣" if c == " " else c if c.isprintable() else ascii(c)[1:-1] for c in word) or "∅"
