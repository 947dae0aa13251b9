"""What a user does with a loaded model, and whether the answers can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.fuzz.specimens import LABELLED, QUESTIONS, TAGGED, TEXT, WAVE

FRAMES = [np.ones((n, 2), np.float32) for n in (2, 1, 3)]
WORDS = ["cat", "dog", "sea", "road"]


class Nonsense(AssertionError):
    """An answer that no sound model gives."""


def need(good: bool, what: str) -> None:
    if not good:
        raise Nonsense(what)


def use(model: Any) -> None:
    """Every verb of its task, those that go through kernels first."""
    {
        "language model": _language,
        "classifier": _classifier,
        "tagger": _tagger,
        "answerer": _answerer,
        "word vectors": _vectors,
        "forecaster": _forecaster,
        "translator": _translator,
        "masked language model": _masked,
        "sentence vectors": _sentences,
    }[model.task](model)
    need(
        isinstance(model.label(), str) and isinstance(model.summary(), str),
        "label and summary are text",
    )
    need(isinstance(model.parameters, int), "parameters are counted")


def _language(model: Any) -> None:
    for prompt in ("", "the cat sa"):
        need(isinstance(model.generate(prompt, max_tokens=12, seed=1), str), "generate gives text")
    model.generate("the", max_tokens=4, beams=2)
    need(
        all(0 <= word.probability <= 1.01 for word in model.complete("the c", 3)),
        "suggestions have probabilities",
    )
    imported = getattr(model.config, "smoothing", "") == "imported"
    stepper, ids = model.stepper(), model.tokenizer.encode("the cat sat on the")
    state, log_probs = stepper.start(1)
    for token in [*ids[:4].tolist(), stepper.eos_id]:
        total = float(np.exp(log_probs.astype(np.float64)).sum())
        need(
            log_probs.shape == (1, model.tokenizer.vocab_size) and not math.isnan(total),
            "a row of probabilities",
        )
        need(imported or abs(total - 1) < 0.02, f"probabilities sum to one, not {total}")
        state, log_probs = stepper.step(state, np.array([token]))
    scores = model.token_scores("the cat sat on the zebra")
    need(
        all(score <= (1e3 if imported else 0.02) for score in scores),
        f"log-probabilities, not {scores}",
    )
    need(not math.isnan(model.evaluate(TEXT[:80], samples=0)["perplexity"]), "a perplexity")
    if model.name == "hmm":
        need(
            np.isfinite(model.beliefs("the cat")[1]).all() and len(model.top_words(2)) > 0,
            "beliefs",
        )
    if model.name == "ngram":
        model.full_scores("the cat")


def _translator(model: Any) -> None:
    sources = FRAMES if model.reads_numbers else ["abc", "", "zebra 漢"]
    targets = ["cab", "", "zz"]
    said = model.translate(sources, max_tokens=9)
    need(len(said) == 3 and all(isinstance(text, str) for text in said), "a text for every source")
    scores = model.score(sources, targets)
    need(all(score < 0.02 for score in scores), f"log-probabilities, not {scores}")
    for weights in model.alignments(sources, targets) or []:
        need(
            bool(np.allclose(weights.sum(1), 1, atol=1e-3)), "the weights of the source sum to one"
        )


def _masked(model: Any) -> None:
    for vectors in (
        hidden.vectors for hidden in model.hidden(["the cat", ("sat", "zebra 漢"), ""])
    ):
        need(bool(np.isfinite(vectors).all()), "vectors are finite")
    if not model.config.head:
        return
    for fill in model.fill("the [MASK] sat on [MASK]", 3):
        need(isinstance(fill.text, str) and fill.score < 0.02, "a text with its log-probability")
    need(
        all(score < 0.02 for score in model.token_scores("the cat sat on the long long log")),
        "log-probabilities",
    )
    need(model.evaluate("the cat\nsat\n", samples=0)["pseudo_perplexity"] >= 0.9, "a perplexity")


def _sentences(model: Any) -> None:
    texts = ["the cat sat on the log", "", "zebra 漢"]
    vectors = model.embed(texts)
    need(
        vectors.shape == (3, model.dimensions) and bool(np.isfinite(vectors).all()),
        "a vector for every text",
    )
    need(
        all(abs(cosine) < 1.02 for _, cosine in model.nearest("the log", 3, among=texts)), "cosines"
    )


def _classifier(model: Any) -> None:
    texts = [text for text, _ in LABELLED] + ["", "zebra zebra"]
    need(set(model.predict(texts)) <= set(model.classes), "classes")
    probs = model.predict_proba(texts)
    need(probs.shape == (len(texts), len(model.classes)), "a probability for every class")
    need(bool(np.allclose(probs.sum(axis=1), 1, atol=1e-3)), "probabilities sum to one")
    model.evaluate(LABELLED, samples=0)
    if model.name == "naive-bayes":
        if len(model.classes) > 1:
            model.explain("a good day")
        model.top_features(model.classes[0])
        if model.config.calibrate == "none":
            model.partial_fit([("one more", "+")]).predict("one")


def _answerer(model: Any) -> None:
    pairs = [(question, context) for question, context, _ in QUESTIONS]
    for (_, context), answer in zip(pairs, model.predict([*pairs, ("", ""), ("q", "漢 x")])):
        need(0 <= answer.no_answer <= 1, "a probability of no answer")
        need(answer.text == (context[answer.start : answer.end] if answer.text else ""), "a part")
    model.evaluate(QUESTIONS, samples=0)


def _tagger(model: Any) -> None:
    found = model.predict([words for words, _ in TAGGED])
    need(
        [len(tags) for tags in found] == [len(words) for words, _ in TAGGED], "a tag for every word"
    )
    need(all(isinstance(tag, str) for tags in found for tag in tags), "tags are text")
    model.predict("the cat saw Zanzibar 42")
    model.evaluate(TAGGED, samples=0)


def _forecaster(model: Any) -> None:
    wave = np.repeat(np.array(WAVE)[:, None], len(model.columns), axis=1)
    made = model.forecast(wave)
    need(
        made.tracks[0].values.shape == (model.horizon, len(model.columns)), "a value for each step"
    )
    need(bool(np.isfinite(made.tracks[0].values).all()), "values are finite")
    need(model.evaluate(wave, samples=0)["mse"] >= 0, "an error")
    model.anomalies(wave)


def _vectors(model: Any) -> None:
    from seqloom.errors import DataError

    table = model.vectors
    some = [word for word in table.words[:4] if word.split() == [word]]
    for word in [*some, *WORDS]:
        try:
            near = (
                model.nearest(word, 3)
                + model.nearest([word] * 5, 2)[0]
                + model.analogy(word, word, word, 2)
            )
        except DataError:  # it may not know the word
            continue
        need(
            all(isinstance(name, str) and abs(score) < 1.02 for name, score in near),
            f"cosines, not {near}",
        )
        need(bool(np.isfinite(model.embed(word)).all()), "a vector")
        need(abs(model.similarity(word, word)) < 1.02, "a cosine")
    if len(some) > 2:
        need(model.doesnt_match(some) in some, "one of them")
    need(bool(np.isfinite(model.embed(["zebra the"], unknown="mean")).all()), "a vector")
    model.unseen(["zebras"])
