"""Every rule of `seqloom.testing` can be broken: for each a model that breaks it and is named for it."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import storage
from seqloom.contracts import (
    Answerer,
    Classifier,
    Forecaster,
    LanguageModel,
    MaskedModel,
    Tagger,
    TextEmbedder,
    Translator,
)
from seqloom.testing import (
    answering,
    check_answerer,
    check_classifier,
    check_forecaster,
    check_language_model,
    check_masked_model,
    check_tagger,
    check_text_embedder,
    check_translator,
    classification,
    forecasting,
    language,
    masked,
    rules,
    sentence_vectors,
    tagging,
    translation,
)

from .own_models import Backwards, Between, Bigram, Drift, Frequent, Letters, Named, Votes

pytestmark = pytest.mark.usefixtures("own_registry")
DRAWN = random.Random(0)


def changed(base, **members):
    """A subclass with these methods, registered."""
    return seqloom.register(type("Broken", (base,), members))


class Counting:
    """A stepper that remembers how often it was asked, outside its state."""

    def __init__(self, model):
        self.table, self.first, self.steps = (
            model.table.astype(np.float32),
            model.tokenizer.eos_id,
            0,
        )

    def start(self, n):
        return (np.zeros(n),), np.tile(self.table[self.first], (n, 1))

    def step(self, state, ids):
        self.steps += 1
        return state, self.table[(ids + self.steps) % len(self.table)]


class Reusing(Counting):
    """A stepper that gives out the same array each time."""

    def step(self, state, ids):
        given = vars(self).setdefault(
            f"given_{len(ids)}", np.empty((len(ids), self.table.shape[1]), np.float32)
        )
        given[:] = self.table[ids]
        return state, given


def noisy(self, context):
    row = np.exp(self.table[context[-1]]) * np.array(
        [DRAWN.uniform(0.5, 1) for _ in range(len(self.table))]
    )
    return np.log(row / row.sum())


def counts_use(self, context):
    self.used += 1
    return self.table[context[-1]]


def forgiving(fit):
    """A fit that takes anything."""

    def fit_anything(self, data, **rest):
        try:
            return fit(self, data, **rest)
        except seqloom.errors.SeqloomError:
            return self

    return fit_anything


def saved_rounded(name):
    """Arrays that come back less exact than they were."""
    return {
        "arrays": lambda self: {name: np.asarray(getattr(self, name)).astype(np.float16)},
        "restore_arrays": lambda self, arrays: setattr(self, name, arrays[name].astype(np.float64)),
    }


def also(base, method, **more):
    """`method` runs, then the attributes get these values."""

    def both(self, *given):
        getattr(base, method)(self, *given)
        for name, make in more.items():
            setattr(self, name, make())

    return {method: both}


LANGUAGE = {
    "an_unfitted_model_refuses": {"score": lambda self, text: 0.0},
    "bad_data_is_refused_in_one_line": {"fit": forgiving(Bigram.fit)},
    "probabilities_sum_to_one": {
        "next_log_probs": lambda self, context: self.table[context[-1]] + 0.01
    },
    "scoring_agrees_with_stepping": {
        "sequence_log_probs": lambda self, ids, lengths: self.table[ids, ids].astype(np.float32)
    },
    "a_score_is_the_sum_of_its_tokens_in_nats": {
        "score": lambda self, text: Bigram.score(self, text) / np.log(2)
    },
    "a_list_is_scored_as_each_text_alone": {
        "score": lambda self, text: (
            Bigram.score(self, text) if isinstance(text, str) else Bigram.score(self, text)[::-1]
        )
    },
    "perplexity_is_of_the_data": {
        "perplexity": lambda self, data: 2 * Bigram.perplexity(self, data)
    },
    "bits_per_byte_only_where_no_byte_is_lost": {"bits_per_byte": lambda self, data: 1.0},
    # right for texts that end in </s>, wrong for the beginning of a sequence that goes on
    "a_text_in_portions_scores_as_in_one_go": {
        "context": 1,
        "sequence_log_probs": lambda self, ids, lengths: self.table[np.roll(ids, 1), ids].astype(
            np.float32
        ),
    },
    "the_same_seed_gives_the_same_text": {"next_log_probs": noisy},
    "one_beam_is_greedy": {
        "generate": lambda self, prompt="", beams=None, **rest: "x" if beams else "y"
    },
    "a_selected_state_is_a_copy": {"stepper": lambda self, eight_bit=False: Counting(self)},
    "threads_may_share_a_model": {"stepper": lambda self, eight_bit=False: Reusing(self)},
    "complete_suggests_likely_words": {"complete": lambda self, text="", n=5, **rest: []},
    "a_result_says_what_it_depends_on": {
        "signature": lambda self, corpus=None, split=None: Bigram.signature(self)
    },
    "using_a_model_does_not_change_it": {
        "next_log_probs": counts_use,
        **also(Bigram, "fit_ids", used=lambda: np.zeros(1)),
    },
    "save_and_load_keep_every_bit": saved_rounded("table"),
    "fit_returns_the_model": {
        "fit": lambda self, data, **rest: Bigram.fit(self, data, **rest) and None
    },
    "what_is_not_fitted_is_not_saved": {"save": lambda self, place: Path(place).mkdir()},
    "an_unknown_option_is_refused": {
        "__init__": lambda self, config=None, **options: Bigram.__init__(self, config)
    },
    "a_second_fit_saves_the_same_files": also(Bigram, "fit_ids", drawn=DRAWN.random),
    "a_damaged_file_is_refused": {},  # by a load that reads anything
}
COUNTER = {"calls": 0}


def in_turns(tags):
    def tag(self, words):
        COUNTER["calls"] += 1
        return [tags[COUNTER["calls"] % 2]] * len(words)

    return tag


CLASSIFIER = {
    "an_unfitted_model_refuses": {"predict": lambda self, example: "good"},
    "bad_data_is_refused_in_one_line": {"fit": forgiving(Votes.fit)},
    "probabilities_sum_to_one": {
        "class_log_probs": lambda self, texts: Votes.class_log_probs(self, texts) - 0.01
    },
    "predict_proba_names_every_class": {
        "predict_proba": lambda self, x: {} if isinstance(x, str) else Votes.predict_proba(self, x)
    },
    "an_example_alone_is_answered_as_in_a_list": {
        "class_log_probs": lambda self, texts: Votes.class_log_probs(self, texts)[
            :, :: -1 if len(texts) > 1 else 1
        ]
    },
    "a_second_call_gives_the_same_answer": {
        "class_log_probs": lambda self, texts: np.log(
            np.random.default_rng().dirichlet([1] * 3, len(texts))
        )
    },
    "evaluate_counts_what_predict_says": {
        "predict": lambda self, x: "neutral" if isinstance(x, str) else ["neutral"] * len(x)
    },
    "save_and_load_keep_every_bit": {
        "arrays": lambda self: {},
        "restore_arrays": lambda self, arrays: None,
        "votes": {},
    },
    "data_in_any_form_is_the_same_data": {
        "fit": lambda self, data, **rest: (
            Votes.fit(self, data[::-1] if isinstance(data, list) else data, **rest)
            if not isinstance(data, tuple)
            else Votes.fit(self, (data[0], data[1][::-1]), **rest)
        )
    },
    "one_class_is_always_the_answer": {
        "class_log_probs": lambda self, texts: np.full((len(texts), len(self.classes)), -1.0)
    },
}
TAGGER = {
    "an_unfitted_model_refuses": {"predict": lambda self, words: []},
    "bad_data_is_refused_in_one_line": {"fit": forgiving(Frequent.fit)},
    "every_word_has_one_tag": {
        "predict": lambda self, rows: [tags[1:] for tags in Frequent.predict(self, rows)]
    },
    "a_sentence_alone_is_answered_as_in_a_list": {
        "tag_ids": lambda self, rows: [np.full(len(row), 0 if len(rows) > 1 else 1) for row in rows]
    },
    "a_second_call_gives_the_same_answer": {"tag": in_turns(["NOUN", "VERB"])},
    "evaluate_counts_what_predict_says": {
        "predict": lambda self, x: (
            ["VERB"] * len(x) if x and isinstance(x[0], str) else Frequent.predict(self, x)
        )
    },
    "a_tag_never_seen_counts_as_wrong": {
        "evaluate": lambda self, data, **rest: replace(
            (result := Frequent.evaluate(self, data, **rest)),
            metrics={**result.metrics, "accuracy": 1.0},
        )
    },
    "what_is_no_sentence_is_refused": {"sequences": lambda self, given: (given, False)},
    "save_and_load_keep_every_bit": {
        "arrays": lambda self: {},
        "restore_arrays": lambda self, arrays: None,
        "best": {},
        "usual": "VERB",
    },
    "spans_are_answered_in_the_scheme_of_the_data": {
        "works_in": "bioes",
        "predict": lambda self, rows: [[self.tags[i] for i in ids] for ids in self.tag_ids(rows)],
    },
    "one_tag_is_always_the_answer": {"predict": lambda self, words: ["Y"] * len(words.split())},
}


def spans(change):
    """Spans that are changed, which gets the number of questions too."""
    return {
        "find_spans": lambda self, pairs: [
            change(found, len(pairs)) for found in Named.find_spans(self, pairs)
        ]
    }


ANSWERER = {
    "an_unfitted_model_refuses": {"predict": lambda self, questions, contexts=None: []},
    "bad_data_is_refused_in_one_line": {"fit": forgiving(Named.fit)},
    "an_answer_is_a_part_of_the_context": spans(
        lambda found, together: found._replace(start=max(found.start - 1, 0))
    ),
    "probabilities_decide": spans(lambda found, together: found._replace(no_answer=1.5)),
    "a_question_alone_is_answered_as_in_a_list": spans(
        lambda found, together: found._replace(score=-1.0 - (together > 1))
    ),
    "a_second_call_gives_the_same_answer": spans(
        lambda found, together: found._replace(score=-DRAWN.random())
    ),
    "evaluate_counts_what_predict_says": {
        "evaluate": lambda self, data, **rest: replace(
            (result := Named.evaluate(self, data, **rest)),
            metrics={**result.metrics, "exact_match": 0.123},
        )
    },
    "what_is_no_question_is_refused": {"predict": lambda self, questions, contexts=None: []},
    "save_and_load_keep_every_bit": {
        "arrays": lambda self: {},
        "restore_arrays": lambda self, arrays: None,
        "sure": 0.5,
    },
}


def sees_all(self, data, horizon=None, since=None, start=None):
    """A backtest that peeks: the mean of all that will come is in every forecast."""
    done = Drift.backtest(self, data, horizon=horizon, since=since, start=start)
    return done._replace(point=done.point + np.nanmean(done.truth))


def beside(self, windows, horizon):
    """Windows that look at each other."""
    return Drift.forecast_windows(self, windows, horizon) + windows.past.mean() * (len(windows) > 1)


FORECASTER = {
    "an_unfitted_model_refuses": {"forecast": lambda self, history, horizon=None: None},
    "bad_data_is_refused_in_one_line": {"fit": forgiving(Drift.fit)},
    "a_forecast_goes_on_where_the_data_ends": {
        "forecast": lambda self, history, horizon=None, since=None, start=None: replace(
            (made := Drift.forecast(self, history, horizon)),
            tracks=tuple(t._replace(times=t.times + 1) for t in made.tracks),
        )
    },
    "a_horizon_that_was_not_learnt_is_refused": {"_ahead": lambda self, horizon: self.horizon},
    "intervals_lie_inside_each_other": {
        "_bands": lambda self, answers: Drift._bands(self, answers)[::-1]
    },
    "the_future_is_not_seen": {"backtest": sees_all},
    "a_window_is_answered_on_its_own": {"forecast_windows": beside},
    "a_second_call_gives_the_same_answer": {
        "forecast_windows": lambda self, windows, horizon: (
            Drift.forecast_windows(self, windows, horizon) + DRAWN.random()
        )
    },
    "missing_values_are_no_obstacle": {
        "forecast_windows": lambda self, windows, horizon: (
            Drift.forecast_windows(self, windows, horizon)
            / np.where(windows.present.all(axis=(1, 2)), 1, np.nan)[:, None, None]
        )
    },
    "evaluate_measures_what_was_forecast": {
        "evaluate": lambda self, data, **rest: replace(
            (result := Drift.evaluate(self, data, **rest)), metrics={**result.metrics, "mse": 0.5}
        )
    },
    "anomalies_are_what_is_above_the_threshold": {
        "anomalies": lambda self, data, **rest: replace(
            (done := Drift.anomalies(self, data, **rest)), found=done.found[1:]
        )
    },
    "save_and_load_keep_every_bit": {
        "arrays": lambda self: {**self.scale, "drift": self.drift.astype(np.float16)},
        "restore_arrays": lambda self, arrays: (
            self.restore_scale(arrays),
            setattr(self, "drift", arrays["drift"]),
        ),
    },
    "units_do_not_matter": {
        "forecast": lambda self, history, horizon=None, since=None, start=None: replace(
            (made := Drift.forecast(self, history, horizon)),
            tracks=tuple(t._replace(values=t.values + 1) for t in made.tracks),
        )
    },
}


def reworded(change):
    """Translations whose texts are changed."""

    def translate_batch(self, sources, how, nbest=1):
        found = Backwards.translate_batch(self, sources, how, nbest)
        return [
            [replace(one, text=change(one.text, len(sources))) for one in best] for best in found
        ]

    return {"translate_batch": translate_batch}


TRANSLATOR = {
    "an_unfitted_model_refuses": {"translate": lambda self, source, **rest: ""},
    "bad_data_is_refused_in_one_line": {"fit": forgiving(Backwards.fit)},
    "every_source_has_a_translation_in_its_place": {
        "translate": lambda self, source, **rest: sorted(Backwards.translate(self, source, **rest))
    },
    "a_source_alone_is_translated_as_in_a_list": reworded(
        lambda text, together: text + "!" * (together > 1)
    ),
    "a_second_call_gives_the_same_answer": reworded(
        lambda text, together: text + str(DRAWN.random())
    ),
    "the_best_of_several_come_first": {
        "translate_batch": lambda self, sources, how, nbest=1: [
            best[::-1] for best in Backwards.translate_batch(self, sources, how, nbest)
        ]
    },
    "a_score_is_the_sum_of_token_scores": {
        "score": lambda self, source, target: [0.0] * len(target)
    },
    "the_decoder_agrees_with_the_scores": {
        "pair_log_probs": lambda self, sources, targets: [
            np.full(len(ids), -1.0) for ids in self.target_ids(targets)
        ]
    },
    "alignments_are_shares_of_the_source": {
        "alignments": lambda self, sources, targets: [np.ones((1, 1))] * len(sources)
    },
    "evaluate_measures_what_translate_says": {
        "evaluate": lambda self, data, **rest: replace(
            (result := Backwards.evaluate(self, data, **rest)),
            metrics={**result.metrics, "exact_match": 0.123},
        )
    },
    "what_is_no_source_is_refused": {"check_sources": lambda self, sources: None},
    "save_and_load_keep_every_bit": {
        "arrays": lambda self: {},
        "restore_arrays": lambda self, arrays: None,
        "sure": 0.5,
    },
}


def surer(change):
    """Log-probabilities that are changed, which gets the number of rows too."""
    return {
        "mask_log_probs": lambda self, rows: [
            change(found, len(rows)) for found in Between.mask_log_probs(self, rows)
        ]
    }


def moved(log_probs, by):
    """Another distribution, if not by 0."""
    shifted = log_probs + by * np.arange(log_probs.shape[1])
    return (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).astype(np.float32)


MASKED = {
    "an_unfitted_model_refuses": {"fill": lambda self, text, k=5: []},
    "bad_data_is_refused_in_one_line": {"fit": forgiving(Between.fit)},
    "probabilities_sum_to_one": surer(lambda log_probs, together: log_probs + 0.1),
    "fills_are_the_best_and_in_order": {
        "_best": lambda self, log_probs, k: Between._best(self, log_probs, k)[::-1]
    },
    "a_text_alone_is_answered_as_in_a_list": surer(
        lambda log_probs, together: moved(log_probs, 0.3 * (together > 1))
    ),
    "a_second_call_gives_the_same_answer": surer(
        lambda log_probs, together: moved(log_probs, DRAWN.random())
    ),
    "a_score_hides_each_token_in_turn": {
        "_hidden_in_turn": lambda self, rows: (
            (-1.0, False) for row in rows for ids in row for _ in ids
        )
    },
    "evaluate_measures_what_score_says": {
        "evaluate": lambda self, data, **rest: replace(
            (result := Between.evaluate(self, data, **rest)),
            metrics={**result.metrics, "pseudo_perplexity": 1.5},
        )
    },
    "what_is_no_masked_text_is_refused": {"fill": lambda self, text, k=5: []},
    "save_and_load_keep_every_bit": {
        "arrays": lambda self: {"seen": self.seen.astype(np.float16) / 3},
        "restore_arrays": lambda self, arrays: setattr(self, "seen", arrays["seen"]),
    },
}


def otherwise(change):
    """Vectors that are changed, which gets the number of texts too."""
    return {"embed_texts": lambda self, texts: change(Letters.embed_texts(self, texts), len(texts))}


TEXT_EMBEDDER = {
    "an_unfitted_model_refuses": {"check_fitted": lambda self: None},
    "bad_data_is_refused_in_one_line": {"fit": forgiving(Letters.fit)},
    "every_text_has_a_vector": {"dimensions": 7},
    "a_text_alone_is_embedded_as_in_a_list": otherwise(
        lambda vectors, together: vectors + (together > 1)
    ),
    "a_second_call_gives_the_same_answer": otherwise(
        lambda vectors, together: vectors + np.float32(DRAWN.random())
    ),
    "similarity_is_the_cosine": {
        "similarity": lambda self, a, b: 0.5 if isinstance(a, str) else np.full(len(a), 0.5)
    },
    "the_nearest_texts_have_the_largest_cosines": {
        "nearest": lambda self, query, k=10, **rest: Letters.nearest(self, query, k + 1, **rest)[1:]
    },
    "evaluate_is_the_rank_correlation": {
        "evaluate": lambda self, data, **rest: replace(
            (result := Letters.evaluate(self, data, **rest)),
            metrics={**result.metrics, "spearman": 0.123},
        )
    },
    "what_needs_a_list_of_words_is_refused": {"analogy": lambda self, a, b, c: []},
    "what_is_no_text_is_refused": {"embed": lambda self, text, **rest: Letters.embed(self, ["a"])},
    "save_and_load_keep_every_bit": {
        "arrays": lambda self: {"rarity": self.rarity.astype(np.float16)},
        "restore_arrays": lambda self, arrays: setattr(self, "rarity", arrays["rarity"]),
    },
}
TASKS = {
    "language": (language, LanguageModel, Bigram, LANGUAGE, (language.TEXT, language.HELD_OUT)),
    "classifier": (
        classification,
        Classifier,
        Votes,
        CLASSIFIER,
        (classification.PAIRS, classification.HELD_OUT),
    ),
    "tagger": (tagging, Tagger, Frequent, TAGGER, (tagging.POS, tagging.POS)),
    "answerer": (
        answering,
        Answerer,
        Named,
        ANSWERER,
        (answering.QUESTIONS, answering.QUESTIONS),
    ),
    "forecaster": (
        forecasting,
        Forecaster,
        Drift,
        FORECASTER,
        (forecasting.SERIES, forecasting.HELD_OUT),
    ),
    "translator": (
        translation,
        Translator,
        Backwards,
        TRANSLATOR,
        (translation.PAIRS, translation.HELD_OUT),
    ),
    "masked": (masked, MaskedModel, Between, MASKED, (masked.TEXT, masked.HELD_OUT)),
    "text embedder": (
        sentence_vectors,
        TextEmbedder,
        Letters,
        TEXT_EMBEDDER,
        (sentence_vectors.TEXT, sentence_vectors.PAIRS),
    ),
}


@pytest.mark.parametrize(
    ("task", "rule"), [(task, rule) for task, (*_, broken, _) in TASKS.items() for rule in broken]
)
def test_a_rule_can_be_broken(task, rule, monkeypatch):
    module, contract, base, broken, data = TASKS[task]
    (wanted,) = (one for one in module.RULES if one.__name__ == rule)
    rules.check(
        wanted, rules.specimen(changed(base)(), contract, None, *data)
    )  # which the unchanged model keeps
    if rule == "a_damaged_file_is_refused":
        monkeypatch.setattr(storage, "load", lambda place: None)
        monkeypatch.setattr(storage, "_check_loads", lambda model, place: None)
    model = changed(base, **broken[rule])()
    with pytest.raises(AssertionError) as error:
        rules.check(wanted, rules.specimen(model, contract, None, *data))
    assert str(error.value).startswith(f'Broken breaks the rule "{rule.replace("_", " ")}": ')


def test_every_rule_is_broken_by_some_model():
    for module, _, _, broken, _ in TASKS.values():
        assert {
            rule.__name__ for rule in module.RULES if rule not in rules.SHARED
        } == broken.keys() - {rule.__name__ for rule in rules.SHARED}
    assert {rule.__name__ for rule in rules.SHARED} <= LANGUAGE.keys()


def test_the_whole_check_names_the_first_broken_rule():
    for check, base, name, members in (
        (
            check_language_model,
            Bigram,
            "probabilities sum to one",
            LANGUAGE["probabilities_sum_to_one"],
        ),
        (
            check_classifier,
            Votes,
            "probabilities sum to one",
            CLASSIFIER["probabilities_sum_to_one"],
        ),
        (check_tagger, Frequent, "every word has one tag", TAGGER["every_word_has_one_tag"]),
        (check_forecaster, Drift, "the future is not seen", FORECASTER["the_future_is_not_seen"]),
        (
            check_masked_model,
            Between,
            "probabilities sum to one",
            MASKED["probabilities_sum_to_one"],
        ),
        (
            check_text_embedder,
            Letters,
            "every text has a vector",
            TEXT_EMBEDDER["every_text_has_a_vector"],
        ),
        (
            check_translator,
            Backwards,
            "alignments are shares of the source",
            TRANSLATOR["alignments_are_shares_of_the_source"],
        ),
    ):
        seqloom.register(changed(base))
        check(changed(base)())
        with pytest.raises(AssertionError, match=f'Broken breaks the rule "{name}"'):
            check(changed(base, **members)())


def test_a_model_that_fails_is_named_with_its_error():
    def fails(self, ids, how):
        raise KeyError("no such thing")

    with pytest.raises(AssertionError, match=r'breaks the rule "fit": KeyError'):
        check_language_model(changed(Bigram, fit_ids=fails)())
    with pytest.raises(AssertionError, match="give a model, not its class: Bigram"):
        check_language_model(Bigram)
    with pytest.raises(AssertionError, match=r"Votes is not made from seqloom.LanguageModel"):
        check_language_model(Votes())
    with pytest.raises(AssertionError, match=r"save and load.*is not registered"):
        check_tagger(type("Unknown", (Frequent,), {})())


def test_a_fitted_model_is_checked_as_it_is():
    """It is not fitted again unless data is given; the model that was given is not changed."""
    fits = []
    cls = changed(
        Bigram, fit_ids=lambda self, ids, how: fits.append(1) or Bigram.fit_ids(self, ids, how)
    )
    model = cls().fit("a b c\nb c d\n")
    score = model.score("a b")
    check_language_model(model)
    assert len(fits) == 1
    check_language_model(model, "a b\nc d\n")
    assert len(fits) > 1
    assert model.score("a b") == score
    unfitted = cls()
    check_language_model(unfitted)
    assert not unfitted.fitted
    check_classifier(changed(Votes)(), [("one two", "x"), ("three", "y"), ("two two", "x")])
    check_classifier(changed(Votes)().fit([("one two", "x"), ("three", "y")]))
    check_tagger(changed(Frequent)(), tagging.NER)
    check_tagger(changed(Frequent)().fit(tagging.NER))
    check_forecaster(changed(Drift)(), np.sin(np.arange(200.0)))
    check_forecaster(changed(Drift)().fit(forecasting.SERIES))
    check_masked_model(changed(Between)(), "a b c\nb c d e\n")
    check_masked_model(changed(Between)().fit(masked.TEXT))
    check_answerer(changed(Named)().fit(answering.QUESTIONS))
    check_text_embedder(changed(Letters)(), "a b c\nb c d e\n")
    check_text_embedder(changed(Letters)().fit(sentence_vectors.TEXT))
    check_translator(changed(Backwards)(), [("ab", "ba"), ("abc", "cba")])
    check_translator(changed(Backwards)().fit(translation.PAIRS))
