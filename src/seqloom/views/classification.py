"""Why a classifier gave its answer, as a picture: the text coloured by what each word adds,
attention, the largest shares.

>>> from seqloom import NaiveBayes
>>> from seqloom.views import explanation
>>> model = NaiveBayes().fit([("good fun", "+"), ("dull", "-"), ("good", "+"), ("so dull", "-")])
>>> sheet = explanation(model, "a good day")
>>> sheet.title, list(sheet.charts)
('+ rather than -: +1.099 nats', ['Text', 'Largest shares'])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqloom.charts.page import Charts, Sheet
from seqloom.charts.shares import MAX_TOKENS, bars_of_shares, coloured_tokens
from seqloom.contracts import Classifier
from seqloom.data.examples import in_one_line
from seqloom.errors import ConfigError

MOST_TEXTS = 20
SHORT = 60  # characters of a text in a heading


def explanation(model: Classifier, text: Any, *, label: Any = None, against: Any = None) -> Sheet:
    """Show the words that decided for a class (the likeliest) against another (the likeliest
    other), of one text (or pair of texts, if the model reads those) or of several.

    Of one text also the attention, where the model pools by it, and bars of the largest shares.
    """
    texts = [text] if isinstance(model, Classifier) and model.is_example(text) else list(text)
    check(model, len(texts))
    explanations = [model.explain(one, label=label, against=against) for one in texts]  # type: ignore[attr-defined]
    return explained(model, texts, explanations)


def check(model: Any, n_texts: int) -> None:
    """Refuse what cannot be drawn."""
    if not hasattr(model, "explain"):
        raise ConfigError(f"{model.name} models cannot explain their predictions")
    if not 0 < n_texts <= MOST_TEXTS:
        raise ConfigError(f"a picture explains 1 to {MOST_TEXTS} texts; {n_texts} are given")


def explained(model: Any, texts: Sequence[Any], explanations: Sequence[Any]) -> Sheet:
    """Make the sheet of these texts and their explanations."""
    joiner = model.tokenizer.joiner.decode() if model.tokenizer is not None else " "
    attention = _attention(model, texts[0]) if len(texts) == 1 else None

    def draw(page: bool) -> Charts:
        words = [coloured_tokens(one.tokens, _sides(one), joiner=joiner) for one in explanations]
        if len(words) > 1:
            return {
                f"{i}. {_short(in_one_line(text))}: {one.label}": chart
                for i, (text, one, chart) in enumerate(zip(texts, explanations, words), 1)
            }
        charts = {"Text": words[0]}
        if attention:
            charts["Attention"] = coloured_tokens(
                attention, ("attention", ""), joiner=joiner, unit="weight"
            )
        return charts | {
            "Largest shares": bars_of_shares(explanations[0].rows(), _sides(explanations[0]))
        }

    heads = [str(one).splitlines()[0] for one in explanations]
    cut = (
        [f"Only the first {MAX_TOKENS:,} tokens of a text are drawn."]
        if any(len(one.tokens) > MAX_TOKENS for one in explanations)
        else []
    )
    return Sheet(
        heads[0] if len(heads) == 1 else f"{len(heads)} predictions of {model.label()}",
        draw,
        {"explanations": list(explanations), "attention": attention},
        cut,
    )


def _sides(one: Any) -> tuple[str, str]:
    return f"for {one.label}", f"for {one.against}"


def _attention(model: Any, text: Any) -> list[tuple[str, float]] | None:
    """Return the attention weights, if there are any."""
    try:
        return list(model.attention(text)) if hasattr(model, "attention") else None
    except ConfigError:  # another pooling
        return None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHORT else f"{text[:SHORT].rstrip()}…"
