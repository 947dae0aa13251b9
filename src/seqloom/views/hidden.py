"""What is inside a hidden Markov model: its states, the moves between them, and how fast it forgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.belief import FLOOR, belief_chart, forgetting_chart
from seqloom.charts.heat import transition_chart
from seqloom.charts.page import Sheet
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.contracts import Model
    from seqloom.models.language.hmm import HMM
    from seqloom.models.tagging.hmm_tagger import HMMTagger

WORDS, IN_NAME = 10, 3  # shown of a state, and in its name
WRITTEN = 25  # tokens of a text that the model writes itself
STEPS = 100  # along which it may forget
BELIEF, MOVES, FORGETTING = (
    "Belief about the state, token by token",
    "Moves between states",
    "Forgetting: distance of two beliefs that began apart",
)


def states(model: Model, text: str | None = None) -> Sheet:
    """Show transitions between the states; for an `hmm` also beliefs along a text, one of its own
    unless given, and forgetting.
    """
    model.check_fitted()
    hmm: Any = model
    if model.name == "hmm":
        return _language(hmm, text)
    if model.name != "hmm-tagger":
        raise ConfigError(
            f"states can be drawn only for hidden Markov models (hmm, hmm-tagger); this model is {model.name}"
        )
    if text is not None:
        raise ConfigError("a text is for an hmm language model; `seqloom predict` tags a text")
    moves, tags = _tag_moves(hmm), list(hmm.tags)
    return Sheet(
        f"{hmm.label()}: what is inside",
        lambda page: {"Which tag follows which": transition_chart(moves, tags)},
        {"states": tags, "transitions": moves},
    )


def state_words(model: HMM) -> dict[str, str]:
    """Return the likeliest tokens of each state, with their share."""
    return {
        f"state {i}": "  ".join(f"{visible(word)} {share:.0%}" for word, share in words)
        for i, words in enumerate(model.top_words(WORDS))
    }


def _language(model: HMM, text: str | None) -> Sheet:
    names = [
        f"{i}: {' '.join(visible(word) for word, _ in words)}"
        for i, words in enumerate(model.top_words(IN_NAME))
    ]
    tokens, beliefs = model.beliefs(
        text if text is not None else model.generate("", max_tokens=WRITTEN, seed=0)
    )
    moves, distances = model.chain.transitions, _forgetting(model)

    def draw(page: bool) -> dict[str, Any]:
        charts = {
            BELIEF: belief_chart(beliefs, [visible(token) for token in tokens], names),
            MOVES: transition_chart(moves, names),
        }
        if max(distances) > FLOOR:  # else it forgets at once, as one with a single state
            charts[FORGETTING] = forgetting_chart({model.label(): distances})
        return charts

    return Sheet(
        f"{model.label()}: what is inside",
        draw,
        {
            "states": names,
            "tokens": tokens,
            "beliefs": beliefs,
            "transitions": moves,
            "forgetting": distances,
        },
    )


def _forgetting(model: HMM) -> list[float]:
    """Measure forgetting from the state that the model begins with least, along a text that it
    wrote itself.
    """
    ids = model.chain.sample(STEPS, seed=0)[0]
    other = np.zeros(model.chain.n_states)
    other[model.chain.start.argmin()] = 1.0
    return model.chain.forgetting(ids, other).tolist()


def _tag_moves(model: HMMTagger) -> np.ndarray:
    from seqloom.models.tagging.hmm_tagger import follow_probs

    moves = follow_probs(model.follows, 1)[:-1, :-1]
    return moves / moves.sum(axis=1, keepdims=True)


def visible(word: str) -> str:
    """Return a word with characters made visible that are not printed, or would move the cursor."""
    return (
        "".join("␣" if c == " " else c if c.isprintable() else ascii(c)[1:-1] for c in word) or "∅"
    )
