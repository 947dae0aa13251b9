"""Rows come and go: what a row is told does not depend on the rows beside it, to the bit.

A row is one sequence of a Stepper's state: a text that is continued, or a translation of one
source. Each case is played twice: every row by itself, and in a company of rows of unequal
progress, in which some begin while others end.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.decoding.stepper import branch, extend, join, prefill, prefill_by_steps, select
from seqloom.models.translation.pairs import Decoder
from seqloom.runtime.attention import PAGE, Page
from tests.runtime.networks import LANGUAGE, TRANSLATORS, language, translator
from tests.sharing import helped, shared_by

SOURCES = [
    "abcde",
    "q",
    "",
    "deadbeefcab7",
    "bb",
    "abcd" * 18,
    "zyx",
]  # one is longer than a page of keys
BITS = [None, 8, 4]


class Play(NamedTuple):
    """A Stepper, how a row of it begins, and the tokens that each row is to be told."""

    stepper: Any
    begin: Callable[[int], tuple[Any, np.ndarray]]  # the state of one row and what it is told first
    tokens: list[np.ndarray]
    alone: Callable[
        [int], list[np.ndarray]
    ]  # what a row is told at each step where it is by itself


def by_itself(
    stepper: Any, state: Any, log_probs: np.ndarray, tokens: np.ndarray
) -> list[np.ndarray]:
    told = [log_probs[0]]
    for token in tokens.tolist():
        state, log_probs = stepper.step(state, np.array([token]))
        told.append(log_probs[0])
    return told


def draw_tokens(rows: int, longest: int, vocab_size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, vocab_size, rng.integers(1, longest + 1)) for _ in range(rows)]


def play_of(model: Any, rows: int, longest: int = 6) -> Play:
    """Texts of a language model, or targets of SOURCES, a few for each; alone, a source is also
    read by itself.
    """
    if model.task == "language model":
        stepper = model.stepper()
        tokens = draw_tokens(rows, longest, stepper.vocab_size)
        return Play(
            stepper,
            lambda row: stepper.start(1),
            tokens,
            lambda row: by_itself(stepper, *stepper.start(1), tokens[row]),
        )
    sources = (
        [np.asarray(source, np.float32) for source in numbers(model)]
        if model.sizes.columns
        else SOURCES
    )
    encoded, eos = model.encode_sources(sources), model.target_tokenizer.eos_id
    every = Decoder(model.runtime(), encoded.examples(), eos, start=model.start_ids)
    state, log_probs = every.start(len(sources))
    tokens = draw_tokens(rows, longest, every.vocab_size)

    def begin(row: int) -> tuple[Any, np.ndarray]:
        at = np.array([row % len(sources)])
        return select(state, at), log_probs[at]

    def alone(row: int) -> list[np.ndarray]:
        at = row % len(sources)
        one = Decoder(model.runtime(), encoded.examples(at, at + 1), eos, start=model.start_ids)
        return by_itself(one, *one.start(1), tokens[row])

    return Play(every, begin, tokens, alone)


def numbers(model: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    return [rng.normal(size=(length, model.sizes.columns)) for length in (4, 1, 0, 9)]


def in_company(play: Play, most: int, seed: int = 0) -> list[list[np.ndarray]]:
    """What each row is told where up to `most` go together: at each step some join, some are
    reordered, and those at their end leave.
    """
    rng, waiting = np.random.default_rng(seed), list(range(len(play.tokens)))
    told: list[list[np.ndarray]] = [[] for _ in waiting]
    rows: list[int] = []
    state: Any = None
    while rows or waiting:
        for _ in range(min(len(waiting), most - len(rows), int(rng.integers(1, 4)))):
            row = waiting.pop(0)
            begun, log_probs = play.begin(row)
            told[row].append(log_probs[0])
            state = begun if state is None else join([state, begun])
            rows.append(row)
        order = rng.permutation(len(rows))
        state, rows = select(state, order), [rows[i] for i in order.tolist()]
        state, log_probs = play.stepper.step(
            state, np.array([play.tokens[row][len(told[row]) - 1] for row in rows])
        )
        for row, said in zip(rows, log_probs):
            told[row].append(said)
        kept = [i for i, row in enumerate(rows) if len(told[row]) <= len(play.tokens[row])]
        state, rows = (
            (select(state, np.array(kept)), [rows[i] for i in kept]) if kept else (None, [])
        )
    return told


def assert_same(play: Play, company: list[list[np.ndarray]]) -> None:
    for row, told in enumerate(company):
        alone = play.alone(row)
        assert len(told) == len(alone)
        assert all(map(np.array_equal, told, alone)), f"row {row}"


def made(case: str, bits: int | None) -> Any:
    model = {**LANGUAGE, **TRANSLATORS}[case]()
    return model if bits is None else model.quantised(bits)


@pytest.mark.parametrize("case", [*LANGUAGE, *TRANSLATORS])
def test_every_network(case):
    play = play_of(made(case, None), 14)
    assert_same(play, in_company(play, 10))


SOME: dict[str, Callable[[], Any]] = {
    "lstm": lambda: language("lstm", n_layers=2),
    "rnn": lambda: language("rnn", layer_norm=True),
    "gru": lambda: language("gru", reset="before", softmax="adaptive"),
    "nplm": lambda: language("nplm", direct=True),
    "gpt": lambda: language("gpt"),
    "gpt that slides": lambda: language("gpt", context=5, positions="learned", norm="post"),
    "llama": lambda: language(
        "gpt", n_heads=6, n_kv_heads=2, norm_kind="rms", activation="swiglu", bias=False, window=3
    ),
    "relative": lambda: language("gpt", positions="relative", max_distance=3, start_alone=True),
    "seq2seq": lambda: translator("seq2seq", coverage=True, input_feeding=True),
    "seq2seq without attention": lambda: translator(
        "seq2seq", attention="none", cell="lstm", encoder="cnn"
    ),
    "transformer": lambda: translator("transformer"),
    "t5": lambda: translator(
        "transformer", positions="t5", norm_kind="rms", bias=False, d_head=5, activation="geglu"
    ),
    "numbers": lambda: translator("transformer", columns=3),
}


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", SOME)
def test_one_to_forty_rows(name, bits):
    """As many as take each of the ways of a product."""
    model = SOME[name]()
    play = play_of(model if bits is None else model.quantised(bits), 60, 9)
    assert_same(play, in_company(play, 41))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", ["lstm", "gpt", "seq2seq", "transformer"])
def test_however_many_threads_share_a_product(name, bits):
    """Where matrices are large, threads share them, and heads."""
    model = SOME[name]()
    play = play_of(model if bits is None else model.quantised(bits), 12)
    with shared_by(1):
        expected = in_company(play, 6)
    with shared_by(3):
        for found in helped(lambda: in_company(play, 6)):
            for told, before in zip(found, expected):
                assert all(map(np.array_equal, told, before))


# ---- prompts


@pytest.mark.parametrize("case", LANGUAGE)
def test_several_tokens_of_rows_are_read_at_once(case):
    stepper = LANGUAGE[case]().stepper()
    tokens = [np.arange(length) % stepper.vocab_size for length in (1, 5, 1, 3, 5)]
    state, _ = stepper.read_on(stepper.start(5)[0], tokens)  # and from there
    state, told = stepper.read_on(state, tokens[::-1])
    for row, parts in enumerate(zip(tokens, tokens[::-1])):
        alone = by_itself(stepper, *stepper.start(1), np.concatenate(parts))
        assert np.array_equal(alone[-1], told[row])
        after = stepper.step(select(state, np.array([row])), tokens[0])[1]
        assert np.array_equal(
            by_itself(stepper, *stepper.start(1), np.concatenate([*parts, tokens[0]]))[-1], after[0]
        )


GPTS = [case for case in LANGUAGE if case.startswith("gpt")]


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("case", GPTS)
def test_prompts_alone_and_together(case, bits, monkeypatch):
    """And as by steps, to the bit: sums are made in the order of the keys however many tokens are
    read at once.
    """
    stepper = made(case, bits).stepper()
    rng = np.random.default_rng(6)
    prompts = [rng.integers(0, stepper.vocab_size, length) for length in (3, 0, 70, 1, 130, 17, 64)]
    state, log_probs = stepper.prefill(prompts)
    for row, prompt in enumerate(prompts):
        alone, told = stepper.prefill([prompt])
        assert np.array_equal(told[0], log_probs[row])
        assert np.array_equal(alone.features[0], state.features[row])
    stepped, by_steps = prefill_by_steps(stepper, prompts)
    assert np.array_equal(by_steps, log_probs)
    assert np.array_equal(stepped.cache.lengths, state.cache.lengths)
    monkeypatch.setattr(
        "seqloom.runtime.language.PROMPT_TOKENS_PER_PASS", 60
    )  # some prompts in one pass, some not
    assert np.array_equal(stepper.prefill(prompts)[1], log_probs)
    for token in range(3):
        (state, ours), (stepped, theirs) = (
            stepper.step(one, np.full(7, token)) for one in (state, stepped)
        )
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("name", [name for name in SOME if SOME[name]().task == "language model"])
def test_prompts_and_several_tokens_of_any_language_model(name, bits):
    model = SOME[name]()
    stepper = (model if bits is None else model.quantised(bits)).stepper()
    rng = np.random.default_rng(6)
    prompts = [rng.integers(0, stepper.vocab_size, length) for length in (2, 0, 9, 4)]
    state, log_probs = prefill(stepper, prompts)
    for row, prompt in enumerate(prompts):
        assert np.array_equal(prefill(stepper, [prompt])[1][0], log_probs[row])
    ids = rng.integers(0, stepper.vocab_size, (4, 3))
    states, told = extend(stepper, branch(stepper, state), ids)
    for t in range(len(states)):
        state, expected = stepper.step(state, ids[:, t])
        assert np.array_equal(told[:, t], expected)
        assert np.array_equal(stepper.features(states[t]), stepper.features(state))


# ---- states are values


@pytest.mark.parametrize("name", SOME)
def test_an_old_state_can_be_stepped_again(name):
    """After newer ones were made of it, and these after that."""
    play = play_of(SOME[name](), 4)
    stepper, rng = play.stepper, np.random.default_rng(1)
    state = join([play.begin(row)[0] for row in range(4)])
    ids = rng.integers(0, stepper.vocab_size, (5, 4))
    states, told = [state], []
    for step in ids[:4]:
        state, log_probs = stepper.step(states[-1], step)
        states.append(state)
        told.append(log_probs)
    kept = [said.copy() for said in told]
    other = [stepper.step(before, ids[4])[1] for before in states]  # each goes another way
    for before, step, expected in zip(states, ids[:4], kept):
        assert np.array_equal(stepper.step(before, step)[1], expected)
    assert [
        np.array_equal(stepper.step(before, ids[4])[1], said) for before, said in zip(states, other)
    ] == [True] * 5
    assert all(map(np.array_equal, told, kept))  # what was told is the caller's
    twice = select(states[2], np.array([1, 1, 3, 1]))
    told_twice = stepper.step(twice, ids[2][[1, 0, 3, 1]])[1]
    assert np.array_equal(told_twice[[0, 2, 3]], kept[2][[1, 3, 1]])


@pytest.mark.parametrize("name", SOME)
def test_no_rows(name):
    play = play_of(SOME[name](), 3)
    state = join([play.begin(row)[0] for row in range(2)])
    nobody, log_probs = play.stepper.step(
        select(state, np.zeros(0, np.int64)), np.zeros(0, np.int64)
    )
    assert log_probs.shape == (0, play.stepper.vocab_size)
    assert play.stepper.start(0)[1].shape == (0, play.stepper.vocab_size)
    begun, _ = play.begin(2)
    state = join([nobody, begun])
    assert np.array_equal(play.stepper.step(state, play.tokens[2][:1])[1][0], play.alone(2)[1])


# ---- memory


def count_pages() -> int:
    gc.collect()
    return sum(type(thing) is Page for thing in gc.get_objects())  # isinstance would wake proxies


@pytest.mark.parametrize("name", ["gpt", "transformer"])
def test_memory_of_dropped_rows_is_given_back(name):
    play = play_of(SOME[name](), 1)
    stepper = play.stepper
    before = count_pages()
    state = join([play.begin(0)[0]] * 6)
    for _ in range(PAGE + 4):
        state, _ = stepper.step(state, np.zeros(6, np.int64))
    assert (
        count_pages() == before + 2 * 6 - 1
    )  # two for each row, the first of one that all began with; no others
    state = select(state, np.array([1, 1, 1, 5]))
    assert count_pages() == before + 2 * 2  # rows that are doubled share theirs
    state, _ = stepper.step(state, np.zeros(4, np.int64))
    assert (
        count_pages() == before + 2 * 2 + 2
    )  # until they go apart, each with a copy of its last page
    del state
    assert count_pages() == before


def test_prompts_share_the_pages_of_their_states():
    stepper = SOME["gpt"]().stepper()
    before = count_pages()
    state, _ = stepper.prefill([np.zeros(70, np.int64)])
    many = select(state, np.zeros(20, np.int64))
    assert count_pages() == before + 2
    many, _ = stepper.step(many, np.arange(20))
    assert (
        count_pages() == before + 2 + 19
    )  # the first goes on in the page that all had, the others in copies
    del many, state
    assert count_pages() == before


# ---- threads


@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("name", SOME)
def test_threads_step_at_once(name, bits):
    """The same Stepper, each thread its own rows, and all of them the same state too."""
    model = SOME[name]()
    play = play_of(model if bits is None else model.quantised(bits), 10)
    shared = join([play.begin(row)[0] for row in range(3)])
    ids = np.random.default_rng(2).integers(0, play.stepper.vocab_size, (4, 3))
    expected, wrong = [play.stepper.step(shared, one)[1] for one in ids], []
    alone = [play.alone(row) for row in range(10)]
    together = threading.Barrier(4)

    def work(number: int) -> None:
        together.wait()
        for seed in range(3):
            for told, row in zip(in_company(play, 5, seed + 3 * number), alone, strict=True):
                if not all(map(np.array_equal, told, row)):
                    wrong.append(number)
            for at in range(4):
                if not np.array_equal(play.stepper.step(shared, ids[at])[1], expected[at]):
                    wrong.append(-1)

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
