"""What every translator must do."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.contracts import Translator
from seqloom.data.translation import Parallel
from seqloom.decoding.beam import forced_log_probs
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

PAIRS = [
    ("two dogs run", "zwei Hunde laufen"),
    ("a dog sleeps", "ein Hund schläft"),
    ("two cats sleep", "zwei Katzen schlafen"),
    ("a cat runs", "eine Katze läuft"),
    ("a dog and a cat run", "ein Hund und eine Katze laufen"),
    ("run", "lauf"),
]
HELD_OUT = [
    ("two dogs sleep", "zwei Hunde schlafen"),
    ("a cat sleeps", "eine Katze schläft"),
    ("run", "lauf"),
]
ODD = [
    "",
    "漢字 😀 Zebra",
    "run run run run run run run run run run run run run run run run run run run run",
    "a",
]
OFF = 1e-3  # by which log-probabilities may differ from batch to batch


def check_translator(model: Translator, data: Any = None) -> None:
    """Raise AssertionError if a translator breaks a rule of its contract. `data`: pairs of texts,
    as `fit` takes them.
    """
    run(RULES, specimen(model, Translator, data, PAIRS, HELD_OUT))


def _sources(s: Specimen) -> list[str]:
    """Return sources of the data, and some that no model has seen."""
    return [*Parallel.of(s.data).source_texts, *ODD]


@fitting
def an_unfitted_model_refuses(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    for verb, call in (
        ("translate", lambda: model.translate("a dog")),
        ("score", lambda: model.score("a", "b")),
        ("evaluate", lambda: model.evaluate(s.data)),
    ):
        refuses(call, NotFitted, f"{verb} of a model that is not fitted")


def every_source_has_a_translation_in_its_place(s: Specimen) -> None:
    sources = _sources(s)
    answers = s.model.translate(sources)
    require(
        len(answers) == len(sources) and all(isinstance(answer, str) for answer in answers),
        f"{len(answers)} translations of {len(sources)} sources; there must be a text for each",
    )
    require(
        s.model.translate(sources[::-1]) == answers[::-1],
        "in another order sources get other translations",
    )
    require(s.model.translate([]) == [], "translate of no sources must be an empty list")


def a_source_alone_is_translated_as_in_a_list(s: Specimen) -> None:
    sources = _sources(s)
    for source, together in zip(sources, s.model.translations(sources)):
        alone = s.model.translate(source, nbest=1)[0]
        require(
            alone.text == together[0].text,
            f"in a list {source!r} becomes {together[0].text!r}, alone {alone.text!r}",
        )
        same(
            together[0].log_prob,
            alone.log_prob,
            f"in a list the translation of {source!r} has another log_prob",
            off=OFF,
        )


def a_second_call_gives_the_same_answer(s: Specimen) -> None:
    require(
        s.model.translate(_sources(s)) == s.model.translate(_sources(s)),
        "a second call gives other translations",
    )


def the_best_of_several_come_first(s: Specimen) -> None:
    for source, answer in zip(_sources(s), s.model.translate(_sources(s), beams=3)):
        best = s.model.translate(source, nbest=3, beams=3)
        require(1 <= len(best) <= 3, f"nbest=3 gives {len(best)} translations")
        require(
            best[0].text == answer,
            f"the best of several is {best[0].text!r}, but alone it is {answer!r}",
        )
        require(
            all(a.score >= b.score - OFF for a, b in pairwise(best)),
            "nbest does not give the best first",
        )
        ids = {tuple(one.ids.tolist()) for one in best if one.ids is not None}
        require(len(ids) in (0, len(best)), "nbest gives the same translation twice")


def a_score_is_the_sum_of_token_scores(s: Specimen) -> None:
    pairs = Parallel.of(s.held_out)
    sources, targets = pairs.source_texts, pairs.targets
    scores, each = s.model.score(sources, targets), s.model.token_scores(sources, targets)
    require(
        [len(row) for row in each] == [len(ids) for ids in s.model.target_ids(targets)],
        "there must be a score for each target token and the end symbol",
    )
    require(all((row <= OFF).all() for row in each), "a log-probability is above zero")
    same(
        scores, [float(row.sum()) for row in each], "score is not the sum of token_scores", off=1e-5
    )
    for source, target, together in zip(sources, targets, scores):
        same(
            s.model.score(source, target),
            together,
            f"in a list ({source!r}, {target!r}) gets another score",
            off=OFF,
        )


def the_decoder_agrees_with_the_scores(s: Specimen) -> None:
    if type(s.model).decoder is Translator.decoder:
        return
    pairs = Parallel.of(s.held_out)
    decoder = s.model.decoder(pairs.source_texts)
    total = np.exp(np.asarray(decoder.start(len(pairs))[1], np.float64)).sum(axis=1)
    same(
        total,
        np.ones(len(pairs)),
        "the probabilities of the first token do not sum to one",
        off=OFF,
    )
    forced = forced_log_probs(decoder, s.model.target_ids(pairs.targets))
    for row, scored in zip(forced, s.model.token_scores(pairs.source_texts, pairs.targets)):
        same(row, scored, "token_scores are not what the decoder says", off=OFF)


def alignments_are_shares_of_the_source(s: Specimen) -> None:
    pairs = Parallel.of(s.held_out)
    aligned = s.model.alignments(pairs.source_texts, pairs.targets)
    if aligned is None:
        return
    for source, target, weights in zip(
        pairs.source_texts, s.model.target_ids(pairs.targets), aligned, strict=True
    ):
        shape = len(target), len(s.model.tokenizers["source"].encode(source)) + 1
        require(
            weights.shape == shape,
            f"the alignment of {source!r} has the shape {weights.shape} instead of {shape}",
        )
        same(
            weights.sum(axis=1),
            np.ones(len(target)),
            "the weights of the source do not sum to one",
            off=OFF,
        )


def evaluate_measures_what_translate_says(s: Specimen) -> None:
    pairs = Parallel.of(s.held_out)
    result, translations = s.model.evaluate(pairs), s.model.translate(pairs.source_texts)
    right = sum(a.strip() == b.strip() for a, b in zip(translations, pairs.targets)) / len(pairs)
    same(
        result["exact_match"], right, "exact_match is not the share of right translations", off=1e-9
    )
    require(
        result["pairs"] == len(pairs), f"evaluate counts {result['pairs']} of {len(pairs)} pairs"
    )
    without = s.model.evaluate(pairs, samples=0)
    require(
        not [name for name in without.metrics if name.endswith("_interval")],
        "samples=0 gives an interval all the same",
    )
    same(without["bleu"], result["bleu"], "evaluate with samples=0 gives another BLEU")


def what_is_no_source_is_refused(s: Specimen) -> None:
    for bad in ([1, 2], ["a", None], 7, [["a"]]):
        refuses(lambda: s.model.translate(bad), DataError, f"translate({bad!r})")  # noqa: B023
    refuses(lambda: s.model.score(["a", "b"], ["a"]), DataError, "two sources with one target")
    refuses(lambda: s.model.translate("a", nbest=0), ConfigError, "nbest=0")


def save_and_load_keep_every_bit(s: Specimen) -> None:
    with loaded_again(s) as again:
        sources, pairs = _sources(s), Parallel.of(s.held_out)
        require(
            again.translate(sources) == s.model.translate(sources),
            "the loaded model gives other translations",
        )
        same(
            again.score(pairs.source_texts, pairs.targets),
            s.model.score(pairs.source_texts, pairs.targets),
            "the loaded model gives other scores",
        )


@fitting
def bad_data_is_refused_in_one_line(s: Specimen) -> None:
    refuses_data(
        s,
        [
            [],
            [("a", "b", "c")],
            [("a", None)],
            [("a", ["b", "c"])],
            7,
            "a\tb",
            {"source": ["a"]},
            (["a", "b"], ["c"]),
            Path("missing.tsv"),
        ],
        DataError,
    )


RULES: list[Rule] = [
    an_unfitted_model_refuses,
    bad_data_is_refused_in_one_line,
    every_source_has_a_translation_in_its_place,
    a_source_alone_is_translated_as_in_a_list,
    a_second_call_gives_the_same_answer,
    the_best_of_several_come_first,
    a_score_is_the_sum_of_token_scores,
    the_decoder_agrees_with_the_scores,
    alignments_are_shares_of_the_source,
    evaluate_measures_what_translate_says,
    what_is_no_source_is_refused,
    save_and_load_keep_every_bit,
    *SHARED,
]
