"""Search over a Stepper, ids in and ids out, where every row has a source of its own, as in translation."""

import numpy as np
import pytest

from seqloom.decoding.beam import beam_search
from seqloom.decoding.generation import search
from seqloom.decoding.sampling import SamplingConfig
from seqloom.errors import ConfigError

from .toy import Translations, log_probs_after

SOURCES = [np.array(source) for source in ([1, 2, 3], [5], [4, 4, 1, 2, 3, 3], [2, 1])]
NOTHING = [np.empty(0, np.int64)] * len(SOURCES)


def described(hypotheses):
    return [(h.ids.tolist(), h.log_prob, h.finished) for h in hypotheses]


@pytest.mark.parametrize("beams", [1, 2, 4])
@pytest.mark.parametrize(
    "prompts", [NOTHING, [np.array(p, np.int64) for p in ([1], [], [2, 3, 1], [4, 4])]]
)
def test_beams_of_many_sources_are_those_of_each_alone(beams, prompts):
    for seed in range(4):
        stepper = Translations(SOURCES, seed=seed)
        found = beam_search(stepper, prompts, beams=beams, nbest=beams, max_tokens=12)
        alone = [
            beam_search(
                Translations([source], seed=seed), [prompt], beams=beams, nbest=beams, max_tokens=12
            )[0]
            for source, prompt in zip(SOURCES, prompts)
        ]
        assert [described(h) for h in found] == [described(h) for h in alone]
        assert len({tuple(h[0].ids) for h in found}) > 1  # the sources matter


def test_finished_sources_leave_the_beam():
    stepper = Translations(SOURCES, seed=1)
    beam_search(stepper, NOTHING, beams=3, max_tokens=30)
    assert stepper.widths[0] > stepper.widths[-1] > 0


def test_greedy_and_drawn_ids_follow_the_source_of_their_row():
    stepper = Translations(SOURCES, seed=2)
    greedy = search(stepper, NOTHING, SamplingConfig(max_tokens=10, temperature=0))
    assert greedy == search(stepper, NOTHING, SamplingConfig(max_tokens=10), beams=1)
    for source, ids in zip(SOURCES, greedy):
        alone = Translations([source], seed=2)
        assert ids == [int(log_probs_after(alone, ids[:i]).argmax()) for i in range(len(ids))]
        assert ids[-1] == 0 or len(ids) == 10
    drawn = np.array(
        [
            [ids[0] for ids in search(stepper, NOTHING, SamplingConfig(max_tokens=1, seed=s))]
            for s in range(2000)
        ]
    )  # (seeds, sources)
    for row, source in enumerate(SOURCES):
        expected = np.exp(log_probs_after(Translations([source], seed=2), []))
        assert np.bincount(drawn[:, row], minlength=6) / 2000 == pytest.approx(expected, abs=0.05)


def test_the_end_symbol_is_given_where_it_was_reached():
    rows = search(Translations(SOURCES, seed=1), NOTHING, SamplingConfig(max_tokens=3), beams=2)
    ends = [ids[-1] == 0 for ids in rows]
    assert any(ends)
    assert not all(ends)
    assert all(0 not in ids[:-1] and len(ids) <= 3 for ids in rows)


def test_beams_keep_the_minimum_length():
    short = search(
        Translations(SOURCES, seed=1),
        NOTHING,
        SamplingConfig(max_tokens=12),
        beams=3,
        length_penalty=0.0,
    )
    longer = search(
        Translations(SOURCES, seed=1),
        NOTHING,
        SamplingConfig(max_tokens=12, min_tokens=6),
        beams=3,
        length_penalty=0.0,
    )
    assert min(len(ids) for ids in short) < 7 <= min(len(ids) for ids in longer)


def test_beams_refuse_what_they_would_ignore():
    with pytest.raises(ConfigError, match="top_p has no effect"):
        search(Translations(SOURCES), NOTHING, SamplingConfig(top_p=0.5), beams=2)
