"""Drafting changes nothing about what is drawn: its exact law over tiny vocabularies, draws
counted, greedy text, refusals.
"""

import numpy as np
import pytest

from seqloom import GPT, LSTM, NGram, TrainConfig, interop
from seqloom.decoding.drafting import Chance, draw_drafted
from seqloom.decoding.sampling import SamplingConfig, filter_log_probs
from seqloom.decoding.stepper import branch, extend, extend_by_steps, select
from seqloom.errors import ConfigError
from tests.decoding.toy import Attentive, greedy, log_probs_after, random_bigrams
from tests.interop.llama_files import llama_file

NONE = np.empty(0, np.int64)


class Explorer(Chance):
    """Takes every decision in every way, one run after another, and knows how likely each run was."""

    def __init__(self):
        self.script = []  # [choice, the weights of all choices] of a run

    def runs(self, make):
        """Each possible text with its probability."""
        while True:
            self.at, self.probability = 0, 1.0
            yield list(make(self)), self.probability
            while self.script and not self._advance(self.script[-1]):
                self.script.pop()
            if not self.script:
                return

    @staticmethod
    def _advance(step):
        following = np.flatnonzero(step[1][step[0] + 1 :] > 0)
        if len(following) == 0:
            return False
        step[0] += 1 + int(following[0])
        return True

    def _choose(self, weights):
        if self.at == len(self.script):
            self.script.append([int(np.flatnonzero(weights > 0)[0]), np.array(weights)])
        choice = self.script[self.at][0]
        self.at += 1
        self.probability *= weights[choice]
        return choice

    def draw(self, probs):
        return self._choose(probs / probs.sum())

    def accepts(self, p, q):
        return bool(self._choose(np.array([1 - min(1, p / q), min(1, p / q)])))


def law_of_drafting(checker, drafter, prompt, config, drafted, **rest):
    law = {}
    explorer = Explorer()
    for text, probability in explorer.runs(
        lambda chance: draw_drafted(
            checker, drafter, prompt, config, chance, drafted=drafted, **rest
        )
    ):
        law[tuple(text)] = law.get(tuple(text), 0.0) + probability
    return law


def law_of_sampling(checker, prompt, config):
    """By the definition: token after token from the filtered distribution of the checking model alone."""
    law = {}

    def follow(text, probability):
        if probability == 0:
            return
        if len(text) == config.max_tokens or (text and text[-1] == checker.eos_id):
            law[tuple(text)] = probability
            return
        log_probs = log_probs_after(checker, [*prompt, *text])[None].copy()
        if len(text) < config.min_tokens:
            log_probs[0, checker.eos_id] = -np.inf
        seen = np.zeros(log_probs.shape, bool)
        seen[0, [*prompt, *text]] = True
        filtered = filter_log_probs(log_probs, config, seen)[0]
        if config.temperature == 0:
            return follow([*text, int(filtered.argmax())], probability)
        for token, p in enumerate(np.exp(filtered).tolist()):
            follow([*text, token], probability * p)

    follow([], 1.0)
    return law


def same_law(found, expected, tolerance=1e-6):
    assert abs(sum(found.values()) - 1) < tolerance
    assert abs(sum(expected.values()) - 1) < tolerance
    assert all(
        abs(found.get(text, 0) - expected.get(text, 0)) < tolerance for text in {*found, *expected}
    )


CONFIGS = [
    {},
    {"temperature": 0.4},
    {"top_k": 2},
    {"top_p": 0.7, "temperature": 1.5},
    {"repetition_penalty": 3.0},
    {"repetition_penalty": 0.5, "top_k": 2},
    {"min_tokens": 2},
    {"temperature": 0.0, "repetition_penalty": 2.0},
]


@pytest.mark.parametrize("drafted", [1, 2, 3])
@pytest.mark.parametrize("options", CONFIGS, ids=str)
def test_the_law_is_that_of_the_checking_model(options, drafted):
    checker, drafter = Attentive(vocab_size=3, seed=1, spread=1.0), random_bigrams(3, seed=2)
    prompt = np.array([1, 2])
    config = SamplingConfig(max_tokens=4, **options)
    same_law(
        law_of_drafting(checker, drafter, prompt, config, drafted),
        law_of_sampling(checker, prompt, config),
    )


@pytest.mark.parametrize("seed", range(3))
def test_also_where_tokens_are_impossible_to_one_of_them(seed):
    checker, drafter = (
        random_bigrams(4, seed=seed, zeros=True),
        random_bigrams(4, seed=seed + 10, zeros=True),
    )
    config = SamplingConfig(max_tokens=4)
    same_law(
        law_of_drafting(checker, drafter, NONE, config, 2), law_of_sampling(checker, NONE, config)
    )


def test_a_test_of_the_law_fails_for_an_algorithm_that_is_wrong(monkeypatch):
    """One that replaces a refused token by a draw from p instead of what p has more than q."""
    from seqloom.decoding import drafting

    checker, drafter, config = (
        Attentive(3, seed=1),
        random_bigrams(3, seed=2),
        SamplingConfig(max_tokens=3),
    )
    monkeypatch.setattr(drafting.np, "maximum", lambda difference, zero: np.zeros_like(difference))
    with pytest.raises(AssertionError):
        same_law(
            law_of_drafting(checker, drafter, NONE, config, 2),
            law_of_sampling(checker, NONE, config),
        )


def test_the_first_token_keeps_to_what_healing_allows():
    checker, drafter, config = (
        Attentive(3, seed=1),
        random_bigrams(3, seed=2),
        SamplingConfig(max_tokens=3),
    )
    allowed = np.array([1, 2])
    found = law_of_drafting(checker, drafter, NONE, config, 2, first_allowed=allowed)
    whole = law_of_sampling(checker, NONE, config)
    kept = {text: p for text, p in whole.items() if text[0] in allowed}
    same_law(found, {text: p / sum(kept.values()) for text, p in kept.items()})


@pytest.mark.parametrize("drafted", [1, 4])
def test_greedy_tokens_are_those_of_greedy_search(drafted):
    for seed in range(5):
        checker, drafter = Attentive(6, seed=seed), random_bigrams(6, seed=seed)
        found = list(
            draw_drafted(
                checker,
                drafter,
                np.array([3]),
                SamplingConfig(max_tokens=20, temperature=0),
                Chance(np.random.default_rng(0)),
                drafted=drafted,
            )
        )
        assert found == greedy(checker, [3], 20)


# ---- models

TEXT = "abba cab\nbaa abc\ncab a\nacca bab\n" * 30


@pytest.fixture(scope="module")
def models():
    pytest.importorskip("torch")
    ngram = NGram(order=2, tokenizer="char").fit(TEXT)
    how = {"tokenizer": ngram.tokenizer, "train": TrainConfig(steps=30, seed=1)}
    gpt = GPT(context=6, d_model=16, n_layers=2, n_heads=2, tokenizer="char").fit(TEXT, **how)
    lstm = LSTM(d_hidden=12, d_embed=8, tokenizer="char").fit(TEXT, **how)
    return {"ngram": ngram, "gpt": gpt, "lstm": lstm}


@pytest.mark.parametrize("checks", ["lstm", "gpt"])
def test_the_law_of_networks_that_an_ngram_drafts_for(models, checks):
    """Past the context of the GPT, whose window slides on the way."""
    checker, drafter = models[checks].stepper(), models["ngram"].stepper()
    prompt = models[checks].tokenizer.encode("cab")
    config = SamplingConfig(max_tokens=4, top_k=3, repetition_penalty=1.3)
    same_law(
        law_of_drafting(checker, drafter, prompt, config, 3),
        law_of_sampling(checker, prompt, config),
        1e-4,
    )


@pytest.mark.parametrize(
    ("checks", "drafts"), [("lstm", "ngram"), ("gpt", "ngram"), ("ngram", "gpt"), ("gpt", "lstm")]
)
def test_draws_follow_the_law(models, checks, drafts):
    """Chi-square of 4,000 texts of three tokens, each class expected at least five times."""
    checker, drafter = models[checks].stepper(), models[drafts].stepper()
    config = SamplingConfig(max_tokens=3, temperature=0.8)
    expected, draws = law_of_sampling(checker, NONE, config), 4000
    counts = dict.fromkeys(expected, 0)
    for seed in range(draws):
        counts[
            tuple(
                draw_drafted(
                    checker, drafter, NONE, config, Chance(np.random.default_rng(seed)), drafted=2
                )
            )
        ] += 1
    likely = [text for text, p in expected.items() if p * draws >= 5]
    rest = 1 - sum(expected[text] for text in likely)
    pairs = [(counts[text], expected[text] * draws) for text in likely]
    pairs.append((draws - sum(count for count, _ in pairs), rest * draws))
    freedom = len(pairs) - 1
    chi = sum((count - wanted) ** 2 / wanted for count, wanted in pairs)
    assert freedom > 10
    assert abs(chi - freedom) < 4 * np.sqrt(2 * freedom)  # mean and spread of chi-square


@pytest.mark.parametrize("checks", ["lstm", "gpt", "ngram"])
@pytest.mark.parametrize("drafts", ["lstm", "gpt", "ngram"])
@pytest.mark.parametrize("options", [{}, {"repetition_penalty": 1.5, "min_tokens": 150}], ids=str)
def test_greedy_text_is_the_same_however_long(models, checks, drafts, options):
    how = {"max_tokens": 200, "temperature": 0, "min_tokens": 60, **options}
    plain = models[checks].generate("ca", **how)
    for drafted in (1, 5):
        assert (
            models[checks].generate("ca", draft=models[drafts], draft_tokens=drafted, **how)
            == plain
        )


@pytest.mark.parametrize("begins", [True, False])
def test_weights_of_others_with_and_without_a_start_token(tmp_path, begins):
    llama = interop.open(llama_file(tmp_path / "x.gguf", tokenizer__ggml__add_bos_token=begins))
    ngram = NGram(order=3).fit("the cat the 12 cats\n" * 20, tokenizer=llama.tokenizer)
    for prompt in ("", "the cat"):
        plain = llama.generate(prompt, max_tokens=40, min_tokens=40, temperature=0)
        assert (
            llama.generate(prompt, max_tokens=40, min_tokens=40, temperature=0, draft=ngram)
            == plain
        )


def test_texts_streams_and_seeds(models):
    gpt, draft = models["gpt"], models["ngram"]
    two = gpt.generate(["ca", "ca"], draft=draft, seed=3, max_tokens=30)
    assert (
        two[0]
        == gpt.generate("ca", draft=draft, seed=3, max_tokens=30)
        == "".join(gpt.stream("ca", draft=draft, seed=3, max_tokens=30))
    )
    assert two == gpt.generate(["ca", "ca"], draft=draft, seed=3, max_tokens=30)
    assert len({gpt.generate("ca", draft=draft, seed=seed, max_tokens=30) for seed in range(5)}) > 1
    stopped = gpt.generate(["c"] * 20, draft=draft, stop=["ab"], max_tokens=30)
    assert not any("ab" in text for text in stopped)
    assert all("</s>" not in text and "<unk>" not in text for text in stopped)


def test_what_cannot_be_drafted_is_told_in_a_line(models):
    other = NGram(order=2, tokenizer="byte").fit(TEXT)
    for call in (models["gpt"].generate, models["gpt"].stream):
        with pytest.raises(
            ConfigError, match=r"another tokenizer \(byte-257\) than the model \(char-"
        ):
            call("a", draft=other)
    with pytest.raises(ConfigError, match="leave out draft or beams"):
        models["gpt"].generate("a", draft=models["ngram"], beams=2)
    with pytest.raises(ConfigError, match="at least 1"):
        models["gpt"].generate("a", draft=models["ngram"], draft_tokens=0)
    with pytest.raises(ConfigError, match="draft is a language model"):
        models["gpt"].generate("a", draft="model")


# ---- several tokens in one pass


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("read", [0, 2, 4, 7, 11])
def test_a_gpt_reads_several_tokens_as_one_by_one(models, n, read):
    stepper = models["gpt"].stepper()
    rng = np.random.default_rng(read)
    prompts = rng.integers(0, stepper.vocab_size, (n, read))
    ids = rng.integers(0, stepper.vocab_size, (n, 4))
    state, _ = stepper.prefill(list(prompts))
    slow, expected = extend_by_steps(stepper, select(state, np.arange(n)), ids)
    states, found = extend(stepper, state, ids)
    assert 1 <= len(states) <= 4
    assert np.allclose(found, expected[:, : len(states)], atol=1e-5)
    for t in range(len(states)):  # from each of them the text goes on as after so many steps
        assert np.allclose(states[t].features, slow[t].features, atol=1e-5)
    further = rng.integers(0, stepper.vocab_size, n)
    for t in reversed(
        range(len(states))
    ):  # the shortest last: what was written behind it does not count
        after = stepper.step(branch(stepper, states[t]), further)[1]
        assert np.allclose(after, stepper.step(branch(stepper, slow[t]), further)[1], atol=1e-5)


def test_a_window_that_slides_ends_the_pass(models):
    stepper = models["gpt"].stepper()
    state, _ = stepper.prefill([np.array([1, 2, 3, 1])])  # five of six with the start
    states, found = extend(stepper, state, np.array([[1, 2, 3]]))
    assert len(states) == found.shape[1] == 1
    states, _ = extend(stepper, states[0], np.array([[1, 2, 3]]))  # now it slides first
    assert len(states) == 3


def test_states_of_any_stepper_stay_after_a_branch():
    stepper = Attentive(4, seed=3)
    states, found = extend_by_steps(stepper, stepper.start(1)[0], np.array([[1, 2, 3]]))
    for length in (1, 2, 3):
        assert np.allclose(found[0, length - 1], log_probs_after(stepper, [1, 2, 3][:length]))
        assert np.allclose(
            stepper.step(states[length - 1], np.array([1]))[1][0],
            log_probs_after(stepper, [*[1, 2, 3][:length], 1]),
        )
