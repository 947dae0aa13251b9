"""What every masked language model must do."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.contracts import MaskedModel
from seqloom.errors import ConfigError, DataError, NotFitted
from seqloom.testing.rules import (
    SHARED,
    Rule,
    Specimen,
    fitting,
    loaded_again,
    refuses,
    refuses_data,
    require,
    run,
    same,
    specimen,
)
from seqloom.text.masks import HIDDEN

TEXT = "the cat sat on the mat\nthe dog sat on the log\na cat ran\nthe dog ran on a road\n"
HELD_OUT = "the cat ran\na dog sat on a mat\n"
TEXTS = ["the cat sat", "a zebra ran on the road", "dog", "the the the cat", ""]


def check_masked_model(model: MaskedModel, data: Any = None) -> None:
    """Raise AssertionError if a masked language model breaks a rule of its contract. `data`: text,
    as `fit` takes it.
    """
    run(RULES, specimen(model, MaskedModel, data, TEXT, HELD_OUT))


def _masked(s: Specimen) -> list[str]:
    mask = s.model.mask
    return [f"the {mask} sat", f"{mask}", f"a {mask} ran on the {mask}"]


@fitting
def an_unfitted_model_refuses(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    for verb, call in (
        ("fill", lambda: model.fill("a [MASK]")),
        ("score", lambda: model.score("a")),
        ("evaluate", lambda: model.evaluate("a")),
    ):
        refuses(call, NotFitted, f"{verb} of a model that is not fitted")


def probabilities_sum_to_one(s: Specimen) -> None:
    rows = [s.model.encode(text) for text in _masked(s)]
    for row, log_probs in zip(rows, s.model.mask_log_probs(rows), strict=True):
        masks = int((row[0] == HIDDEN).sum())
        require(
            log_probs.shape == (masks, s.model.tokenizer.vocab_size),
            f"{masks} hidden tokens of {s.model.tokenizer.vocab_size} kinds give "
            f"log-probabilities {log_probs.shape}",
        )
        same(
            np.exp(log_probs.astype(np.float64)).sum(axis=1),
            np.ones(masks),
            "probabilities do not sum to one",
            off=1e-4,
        )


def fills_are_the_best_and_in_order(s: Specimen) -> None:
    writable = s.model.tokenizer.byte_lengths > 0
    for text, fills in zip(_masked(s), s.model.fill(_masked(s), 3)):
        scores = [fill.score for fill in fills]
        require(scores == sorted(scores, reverse=True), f"the fills of {text!r} are not in order")
        require(
            all(s.model.mask not in fill.text for fill in fills),
            f"a fill of {text!r} still has a mask",
        )
        log_probs = s.model.mask_log_probs([s.model.encode(text)])[0]
        same(
            scores[0],
            log_probs[:, writable].max(axis=1).sum(),
            "the first fill is not the likeliest",
            off=1e-4,
        )
        require(len(set(fills)) == len(fills), f"a fill of {text!r} is there twice")


def a_text_alone_is_answered_as_in_a_list(s: Specimen) -> None:
    for text, fills in zip(_masked(s), s.model.fill(_masked(s), 2)):
        alone = s.model.fill(text, 2)
        require(
            [fill.text for fill in alone] == [fill.text for fill in fills],
            f"alone {text!r} is filled in another way",
        )
        same(
            [fill.score for fill in alone],
            [fill.score for fill in fills],
            "fill scores another way alone",
            off=1e-4,
        )
    for text, score in zip(TEXTS, s.model.score(TEXTS)):
        same(
            s.model.score(text), score, f"in a list {text!r} has another score than alone", off=1e-4
        )
    require(s.model.fill([], 2) == [], "fill of no texts must be an empty list")


def a_second_call_gives_the_same_answer(s: Specimen) -> None:
    require(s.model.fill(_masked(s)) == s.model.fill(_masked(s)), "a second call gives other fills")


def a_score_hides_each_token_in_turn(s: Specimen) -> None:
    for text in TEXTS:
        ids, most = s.model.encode(text)[0], s.model.longest(1)
        if most is not None and len(ids) > most:
            continue  # it is scored in parts
        expected = []
        for position, token in enumerate(ids.tolist()):
            hidden = ids.copy()
            hidden[position] = HIDDEN
            expected.append(s.model.mask_log_probs([(hidden,)])[0][0, token])
        same(
            s.model.token_scores(text),
            expected,
            f"token_scores of {text!r} are not those of hidden tokens",
            off=1e-4,
        )
        same(
            s.model.score(text), np.sum(expected), "score is not the sum of token_scores", off=1e-4
        )


def evaluate_measures_what_score_says(s: Specimen) -> None:
    lines = HELD_OUT.splitlines()
    scores = s.model.token_scores(lines)
    result = s.model.evaluate(HELD_OUT, samples=50)
    count = sum(map(len, scores))
    require(result["tokens"] == count, f"evaluate counts {result['tokens']} of {count} tokens")
    same(
        result["pseudo_perplexity"],
        np.exp(-sum(map(sum, scores)) / count),
        "pseudo_perplexity is not that of the scores",
        off=1e-4,
    )
    require("nats_per_token_interval" in result.metrics, "there is no interval")


def what_is_no_masked_text_is_refused(s: Specimen) -> None:
    for bad in (["the cat sat"], [7], [("a", "b", "c")]):
        refuses(lambda: s.model.fill(bad), DataError, f"fill({bad!r})")  # noqa: B023
    refuses(lambda: s.model.score(f"the {s.model.mask}"), DataError, "scoring a text with a mask")
    refuses(lambda: s.model.fill(_masked(s)[0], 0), ConfigError, "k of 0")


def save_and_load_keep_every_bit(s: Specimen) -> None:
    with loaded_again(s) as again:
        require(again.fill(_masked(s)) == s.model.fill(_masked(s)), "fill gives other answers")
        require(again.score(TEXTS) == s.model.score(TEXTS), "score gives other numbers")


@fitting
def bad_data_is_refused_in_one_line(s: Specimen) -> None:
    refuses_data(s, [7, b"bytes"], DataError)


RULES: list[Rule] = [
    an_unfitted_model_refuses,
    bad_data_is_refused_in_one_line,
    probabilities_sum_to_one,
    fills_are_the_best_and_in_order,
    a_text_alone_is_answered_as_in_a_list,
    a_second_call_gives_the_same_answer,
    a_score_hides_each_token_in_turn,
    evaluate_measures_what_score_says,
    what_is_no_masked_text_is_refused,
    save_and_load_keep_every_bit,
    *SHARED,
]
