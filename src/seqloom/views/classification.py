"""Why a model gave its answer, as a picture: the text coloured by what each word adds, attention, the
largest shares.

>>> from seqloom import NaiveBayes
>>> from seqloom.views import explanation
>>> model = NaiveBayes().fit([("good fun", "+"), ("dull", "-"), ("good", "+"), ("so dull", "-")])
>>> sheet = explanation(model, "a good day")
>>> sheet.title, list(sheet.charts)
('+ rather than -: +1.099 nats', ['Text', 'Largest shares'])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from seqloom.charts.page import Charts, Sheet
from seqloom.charts.shares import MAX_TOKENS, bars_of_shares, coloured_tokens
from seqloom.data.examples import in_one_line
from seqloom.errors import ConfigError, DataError
from seqloom.models.classification.explanation import (
    Explanation,
    chosen_method,
    explain_by_words,
)
from seqloom.models.explaining import explain_span, explain_tag, explain_token
from seqloom.views import needs
from seqloom.views.catalogue import view
from seqloom.views.configs import ExplanationOptions
from seqloom.views.reading import remarks

MOST_TEXTS = 20
SHORT = 60  # characters of a text in a heading


@view
def explanation(model: Any, text: Any, options: ExplanationOptions) -> Sheet:
    """Show what spoke for an answer: for a class of a text (or of a pair, or of each of several texts) or a
    tag of a word, a token of a translation, the answer to a question, against the likeliest other one.

    Of one text also the attention, where a classifier has any, and bars of the largest shares.
    """
    for name, (task, what) in OF_TASKS.items():
        if getattr(options, name) is not None and model.task != task:
            raise ConfigError(f"{name} is for {what}; this model is a {model.name}", [name])
    if model.task == "classifier":
        texts = [text] if model.is_example(text) else list(text)
        check(model, len(texts), needs.explained)
        if not all(
            part.strip() for one in texts for part in ([one] if isinstance(one, str) else one)
        ):
            raise DataError("the text is empty; give one")
        return explained(model, texts, [_of_class(model, one, options) for one in texts])
    if model.task == "tagger":
        found = explain_tag(
            model, text, options.word, options.method, options.top, **_pair(options)
        )
    elif model.task == "translator":
        source, target = text if isinstance(text, tuple) else (text, options.target)
        found = explain_token(
            model, source, target, options.step, options.method, options.top, **_pair(options)
        )
    else:
        if options.label is not None or options.against is not None:
            raise ConfigError("label and against are for classes, tags and tokens; leave them out")
        question, context = text
        found = explain_span(model, question, context, options.method, options.top)
    return explained(model, [text], [found])


OF_TASKS = {
    "word": ("tagger", "taggers"),
    "target": ("translator", "translators"),
    "step": ("translator", "translators"),
}


def _pair(options: ExplanationOptions) -> dict[str, Any]:
    return {"label": options.label, "against": options.against}


def _of_class(model: Any, text: Any, options: ExplanationOptions) -> Explanation:
    if hasattr(model, "explain"):
        explain: Explanation = model.explain(
            text, options.top, method=options.method, **_pair(options)
        )
        return explain
    chosen_method(model, options.method, ["occlusion"])
    return explain_by_words(model, text, (options.top, options.label, options.against))


def check(
    model: Any,
    n_texts: int,
    explains: Callable[[Any], bool] = lambda model: hasattr(model, "explain"),
) -> None:
    """Refuse what cannot be drawn."""
    if not explains(model):
        raise ConfigError(f"{model.name} models cannot explain their predictions")
    if not 0 < n_texts <= MOST_TEXTS:
        raise ConfigError(f"a picture explains 1 to {MOST_TEXTS} texts; {n_texts} are given")


def explained(model: Any, texts: Sequence[Any], explanations: Sequence[Any]) -> Sheet:
    """Make the sheet of these texts and their explanations."""
    joiner = _joiner(model)
    first = explanations[0]
    alone = len(texts) == 1 and first.method != "attention"
    attention = _attention(model, texts[0]) if alone else None

    def draw(page: bool) -> Charts:
        words = [
            coloured_tokens(one.tokens, _sides(one), joiner=joiner, unit=one.unit)
            for one in explanations
        ]
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
        return charts | {"Largest shares": bars_of_shares(first.rows(), _sides(first), first.unit)}

    heads = [str(one).splitlines()[0] for one in explanations]
    said = [_completeness(one) for one in explanations] if len(explanations) == 1 else []
    if any(len(one.tokens) > MAX_TOKENS for one in explanations):
        said.append(f"Only the first {MAX_TOKENS:,} tokens of a text are drawn.")
    data: dict[str, Any] = {
        "explanations": [
            one.to_dict() | {"sum": one.sum, "difference": one.difference} for one in explanations
        ],
        "attention": attention,
    }
    if len(explanations) == 1:
        data["rows"] = [
            {"number": i, "token": token, first.unit: value}
            for i, (token, value) in enumerate(first.tokens, 1)
        ]
    return Sheet(
        heads[0] if len(heads) == 1 else f"{len(heads)} predictions of {model.label()}",
        draw,
        data,
        [*said, *remarks(model)],
        lines="\n\n".join(map(str, explanations)).split("\n"),
    )


def _completeness(one: Explanation) -> str:
    """Say what the terms add up to, and what the log-odds are."""
    if one.unit == "weight":
        return (
            "Weights of attention add up to one. They say where the model looked, not for which answer, and "
            "are no terms of the log-odds."
        )
    how = {
        "weights": "By the weights of the model",
        "gradients": "By integrated gradients",
        "occlusion": "By occlusion, each token left out by itself",
    }[one.method]
    return (
        f"{how}, the terms add up to {one.sum:+.4f} nats; the log-odds are {one.log_odds:+.4f}, a difference "
        f"of {abs(one.difference):.1e}."
    )


def _joiner(model: Any) -> str:
    """Return what stands between the tokens of what was read."""
    if model.task == "tagger":
        return " "
    tokenizers = model.tokenizers
    tokenizer = tokenizers.get("source", next(iter(tokenizers.values()), None))
    return " " if tokenizer is None else tokenizer.joiner.decode()


def _sides(one: Any) -> tuple[str, str]:
    if one.unit == "weight":
        return "attention", ""
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
