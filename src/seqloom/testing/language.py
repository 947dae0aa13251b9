"""What every language model must do."""

from __future__ import annotations

import copy
import itertools
import math
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from seqloom.contracts import LanguageModel
from seqloom.contracts.reading import continued_by_steps
from seqloom.decoding.stepper import log_probs_by_steps, select
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

TEXT = """\
the cat sat on the mat
the dog sat on the log
a cat and a dog met on the road
the road led to the sea
the sea was calm and the cat slept
a dog barked at the sea
the cat woke and sat on the log
"""
HELD_OUT = "the dog woke and met a cat\nthe log was on the road\n"
SHORT = ["the cat", "", "a dog met\nthe sea\n", "\n", "the cat sat\non\n\nthe log"]
THREADS = 8


def check_language_model(model: LanguageModel, data: Any = None) -> None:
    """Raise AssertionError if a language model breaks a rule of its contract. `data`: text to fit
    it on, as `fit` takes it.
    """
    run(RULES, specimen(model, LanguageModel, data, TEXT, HELD_OUT))


@fitting
def an_unfitted_model_refuses(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    for verb, call in (
        ("score", lambda: model.score("a")),
        ("generate", lambda: model.generate("a")),
        ("evaluate", lambda: model.evaluate("a b")),
    ):
        if not model.members:  # of a mixture some are fitted
            refuses(call, NotFitted, f"{verb} of a model that is not fitted")


@fitting
def bad_data_is_refused_in_one_line(s: Specimen) -> None:
    refuses_data(s, [iter([]), "", [], 3], DataError)


def probabilities_sum_to_one(s: Specimen) -> None:
    stepper, (ids, _) = s.model.sized_stepper(), s.model.encode(HELD_OUT)
    shape = (2, s.model.tokenizer.vocab_size)
    state, log_probs = stepper.start(2)
    for position, token in enumerate(ids[:40].tolist()):
        require(
            log_probs.shape == shape,
            f"the log-probabilities of 2 sequences have the shape {log_probs.shape}, not {shape}",
        )
        require(
            log_probs.dtype == np.float32,
            f"the stepper gives {log_probs.dtype}; it must give float32",
        )
        total = float(np.exp(np.logaddexp.reduce(log_probs[0].astype(np.float64))))
        require(
            abs(total - 1) < 1e-4,
            f"after {position} tokens the probabilities of the next one sum to {total:.6g}",
        )
        state, log_probs = stepper.step(state, np.array([token, token]))


def scoring_agrees_with_stepping(s: Specimen) -> None:
    ids, lengths = s.model.encode(TEXT + HELD_OUT)
    same(
        s.model.sequence_log_probs(ids, lengths),
        log_probs_by_steps(s.model.stepper(), ids, lengths),
        "sequence_log_probs and the stepper differ",
        off=1e-4,
    )


def a_score_is_the_sum_of_its_tokens_in_nats(s: Specimen) -> None:
    tokens = s.model.token_scores("the cat sat")
    expected = len(s.model.tokenizer.encode("the cat sat")) + 1
    require(
        len(tokens) == expected,
        f"{len(tokens)} token scores for {expected} tokens, </s> among them",
    )
    same(
        s.model.score("the cat sat"), sum(tokens), "score is not the sum of token_scores", off=1e-4
    )
    require(all(t <= 1e-6 for t in tokens), f"{max(tokens):.3g} is a log-probability above zero")


def a_list_is_scored_as_each_text_alone(s: Specimen) -> None:
    for some in (SHORT, ["the cat sat", "a dog"], []):  # texts of several lines, and of one
        same(
            s.model.score(some),
            [s.model.score(text) for text in some],
            "a text in a list has another score",
            off=1e-5,
        )
        for together, alone in zip(s.model.token_scores(some), map(s.model.token_scores, some)):
            same(together, alone, "a token of a text in a list has another score", off=1e-5)
    refuses(lambda: s.model.score(["the cat", 3]), DataError, "a number among texts")


def perplexity_is_of_the_data(s: Specimen) -> None:
    ids, _ = s.model.encode(HELD_OUT)
    mean = float(s.model.text_log_probs(ids).astype(np.float64).mean())
    same(
        s.model.perplexity(HELD_OUT),
        math.exp(-mean),
        "perplexity is not exp of the mean cost of a token",
        off=1e-5,
    )


def bits_per_byte_only_where_no_byte_is_lost(s: Specimen) -> None:
    if not s.model.tokenizer.lossless:
        refuses(
            lambda: s.model.bits_per_byte(HELD_OUT),
            ConfigError,
            "bits_per_byte with a tokenizer that loses something",
        )
        require(
            s.model.evaluate(HELD_OUT)["bits_per_byte"] is None,
            "evaluate gives bits per byte although bytes are lost",
        )
        return
    bits, result = (
        -s.model.score(HELD_OUT) / math.log(2) / len(HELD_OUT),
        s.model.evaluate(HELD_OUT),
    )
    same(
        s.model.bits_per_byte(HELD_OUT),
        bits,
        "bits_per_byte is not the score in bits by the bytes of the text",
        off=1e-5,
    )
    low, high = result["bits_per_byte_interval"]
    require(low <= result["bits_per_byte"] <= high, "bits_per_byte lies outside its interval")


def a_text_in_portions_scores_as_in_one_go(s: Specimen) -> None:
    ids, _ = s.model.encode(TEXT + HELD_OUT)
    at_once = s.model.text_log_probs(ids)
    for sizes in ([7, 1, 30], [5], [100]):
        reading, at, parts = s.model.reading(), 0, []
        for size in itertools.cycle(sizes):
            parts.append(reading(ids[at : at + size]))
            at += size
            if at >= len(ids):
                break
        same(
            np.concatenate(parts),
            at_once,
            f"a text read {sizes} tokens at a time has other scores",
            off=2e-6,
        )
    ids, _ = s.model.encode("the cat sat")
    first, state = continued_by_steps(s.model, ids[:2], None)
    second, _ = continued_by_steps(s.model, ids[2:], state)
    same(
        np.concatenate([first, second]),
        s.model.sequence_log_probs(ids, np.array([len(ids)])),
        "a sequence that is gone on with by steps has other scores",
        off=1e-4,
    )


def the_same_seed_gives_the_same_text(s: Specimen) -> None:
    def draw(prompt: Any = "the", seed: int = 3) -> Any:
        return s.model.generate(prompt, max_tokens=12, seed=seed)

    one = draw()
    require(draw() == one, f"a second call gives {draw()!r} instead of {one!r}")
    require(
        draw(["the", "a dog"])[0] == one, "a prompt in a list gets another continuation than alone"
    )
    require(
        "".join(s.model.stream("the", max_tokens=12, seed=3)) == one,
        "stream gives another text than generate",
    )
    if s.model.stepper().start(1)[1].max() < math.log(0.5):  # else one token may be the only choice
        require(
            len({draw("", seed) for seed in range(8)}) > 1, "eight seeds all give the same text"
        )


def one_beam_is_greedy(s: Specimen) -> None:
    beam, greedy = (
        s.model.generate("the", max_tokens=6, beams=1),
        s.model.generate("the", max_tokens=6, temperature=0),
    )
    require(beam == greedy, f"one beam gives {beam!r}, temperature 0 gives {greedy!r}")


def a_selected_state_is_a_copy(s: Specimen) -> None:
    stepper = s.model.stepper()

    def read() -> Any:
        state, _ = stepper.start(1)
        for token in s.model.encode("the cat")[0][:-1]:
            state, _ = stepper.step(state, np.array([token]))
        return state

    state = read()
    branch = select(state, np.array([0, 0]))
    for token in s.model.encode("a dog")[0][:-1]:
        branch, _ = stepper.step(branch, np.array([token, token]))
    following = s.model.encode("sat")[0][:1]
    _, after = stepper.step(select(state, np.array([0])), following)
    require(
        np.array_equal(after, stepper.step(read(), following)[1]),
        "stepping on from a copy of a state changes the state it was copied from",
    )


def threads_may_share_a_model(s: Specimen) -> None:
    """Check that whatever eight threads ask at the same time, from the first call on, each gets
    what one thread alone gets.
    """
    alone = [ask() for ask in _questions(s.model)]
    # A copy has no decoder yet.
    shared, together = list(_questions(copy.copy(s.model))), threading.Barrier(THREADS)

    def answer(thread: int) -> list[Any]:
        together.wait()
        answers = {int(i): shared[i]() for i in np.roll(np.arange(len(shared)), thread)}
        return [answers[i] for i in range(len(shared))]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            for answers in pool.map(answer, range(THREADS)):
                require(
                    answers == alone, "a thread among others gets another answer than one alone"
                )
    finally:
        sys.setswitchinterval(interval)


def _questions(model: Any) -> Iterator[Callable[[], Any]]:
    texts = [model.encode(text)[0] for text in TEXT.splitlines()]
    for eight_bit in [False, True] if model.quantizable else [False]:
        yield from (
            partial(model.generate, "the c", max_tokens=6, seed=seed, eight_bit=eight_bit)
            for seed in range(2)
        )
        yield partial(model.generate, ["a", "the dog"], max_tokens=4, beams=2, eight_bit=eight_bit)
        yield partial(model.complete, "the d", 3, eight_bit=eight_bit)
        yield from (partial(_stepped, model, eight_bit, ids) for ids in texts)


def _stepped(model: Any, eight_bit: bool, ids: np.ndarray) -> list[bytes]:
    stepper = model.generator(eight_bit=eight_bit).stepper
    returned, (state, log_probs) = [], stepper.start(2)
    for token in ids[:12]:
        state, log_probs = stepper.step(state, np.array([token, ids[0]]))
        returned.append((log_probs.tobytes(), log_probs))
    require(
        all(was == log_probs.tobytes() for was, log_probs in returned),
        "the stepper writes to arrays that it gave out before",
    )
    return [was for was, _ in returned]


def complete_suggests_likely_words(s: Specimen) -> None:
    words = s.model.complete("the ", 3)
    require(0 < len(words) <= 3, f"{len(words)} suggestions where 3 were asked for")
    require(
        all(0 < p <= 1 and word for word, p in words),
        f"a suggestion is empty or has no probability: {words}",
    )
    require(
        [p for _, p in words] == sorted((p for _, p in words), reverse=True),
        "the likeliest suggestion is not the first",
    )


def a_result_says_what_it_depends_on(s: Specimen) -> None:
    signature = s.model.evaluate(HELD_OUT).signature.to_dict()
    missing = {"model", "tokenizer", "data", "unit", "carry", "version"} - set(signature)
    require(not missing, f"the signature lacks {', '.join(sorted(missing))}")
    require(
        s.model.evaluate(TEXT).signature.to_dict()["data"] != signature["data"],
        "two texts have the same signature",
    )


def using_a_model_does_not_change_it(s: Specimen) -> None:
    before = {name: array.copy() for name, array in s.model.arrays().items()}
    score = s.model.score(HELD_OUT)
    s.model.evaluate(HELD_OUT)
    s.model.generate("the", max_tokens=5)
    changed = [
        name for name, array in s.model.arrays().items() if not np.array_equal(before[name], array)
    ]
    require(not changed, f"evaluate or generate changes {', '.join(changed)}")
    require(
        s.model.score(HELD_OUT) == score,
        "the same text has another score after evaluate and generate",
    )


def save_and_load_keep_every_bit(s: Specimen) -> None:
    with loaded_again(s) as again:
        require(
            again.config == s.model.config or s.model.has_members,
            f"the options were {s.model.config}, are {again.config}",
        )
        same(
            again.token_scores(HELD_OUT),
            s.model.token_scores(HELD_OUT),
            "a token has another score",
        )
        require(
            again.generate("the", max_tokens=8, seed=5)
            == s.model.generate("the", max_tokens=8, seed=5),
            "generate gives another text",
        )


RULES: list[Rule] = [
    an_unfitted_model_refuses,
    bad_data_is_refused_in_one_line,
    probabilities_sum_to_one,
    scoring_agrees_with_stepping,
    a_score_is_the_sum_of_its_tokens_in_nats,
    a_list_is_scored_as_each_text_alone,
    perplexity_is_of_the_data,
    bits_per_byte_only_where_no_byte_is_lost,
    a_text_in_portions_scores_as_in_one_go,
    the_same_seed_gives_the_same_text,
    one_beam_is_greedy,
    a_selected_state_is_a_copy,
    threads_may_share_a_model,
    complete_suggests_likely_words,
    a_result_says_what_it_depends_on,
    using_a_model_does_not_change_it,
    save_and_load_keep_every_bit,
    *SHARED,
]
