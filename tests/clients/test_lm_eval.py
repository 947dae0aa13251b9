"""lm-eval's local-completions: log-likelihoods of continuations are those of `token_scores`, whether a
continuation is the likeliest one too, and texts are those of `generate`.
"""

from types import SimpleNamespace

import pytest

from seqloom.decoding.stepper import Stepper

pytest.importorskip("lm_eval")
pytest.importorskip("tenacity")
completions = pytest.importorskip("lm_eval.models.openai_completions")

PAIRS = [
    ("the cat", " sat"),
    ("the cat sat on", " the"),
    ("", "the dog"),
    ("the", " cat sat on the log"),
    ("the dog ", "sat"),  # lm-eval moves the space
    ("on", "\nthe cat"),
]


@pytest.fixture
def client(alone):
    return completions.LocalCompletionsAPI(
        model=next(iter(alone.models)),
        base_url=alone.address + "/v1/completions",
        num_concurrent=1,
        max_retries=1,
        max_length=200,
    )


def asked(*arguments):
    return SimpleNamespace(args=arguments)


def expected(model, context, continuation):
    """The log-likelihood by `token_scores`, and whether all tokens are the likeliest, step by step."""
    by_line = model.unit == "line"
    tokenizer = model.tokenizer
    n_spaces = len(context) - len(context.rstrip())
    if n_spaces:
        context, continuation = context[:-n_spaces], context[-n_spaces:] + continuation
    whole = tokenizer.encode(context + continuation, newline_ends=by_line).tolist()
    skip = len(tokenizer.encode(context, newline_ends=by_line))
    scores = model.token_scores(context + continuation)[skip : len(whole)]
    stepper: Stepper = model.generator().whole
    state, log_probs = stepper.start(1)
    greedy = True
    for at, token in enumerate(whole):
        if at >= skip:
            greedy &= log_probs[0, token] == log_probs[0].max()
        if by_line and token == tokenizer.eos_id and not model.carry:
            state, log_probs = stepper.start(1)
        else:
            state, log_probs = stepper.step(state, [token])
    return sum(scores), bool(greedy)


def test_log_likelihoods_are_those_of_score(alone, client):
    (model,) = alone.models.values()
    likeliest = model.generate("the cat", temperature=0, max_tokens=1)
    pairs = [pair for pair in [*PAIRS, ("the cat", likeliest)] if pair[1]]
    found = client.loglikelihood([asked(*pair) for pair in pairs], disable_tqdm=True)
    for (score, greedy), pair in zip(found, pairs, strict=True):
        wanted = expected(model, *pair)
        assert score == pytest.approx(wanted[0], abs=1e-4), pair
        assert greedy == wanted[1], pair


def test_whole_texts_have_the_score_of_the_model(alone, client):
    """Rolling log-likelihood begins after `</s>`: the whole text but its end."""
    (model,) = alone.models.values()
    text = "the cat sat on the log"
    (found,) = client.loglikelihood_rolling([asked(text)], disable_tqdm=True)
    assert found == pytest.approx(sum(model.token_scores(text)[:-1]), abs=1e-4)


def test_texts_are_those_of_generate(alone, client):
    (model,) = alone.models.values()
    ids = model.tokenizer.encode("the cat").tolist()
    for until in (["o"], ["\n", "on"]):
        options = {"until": until, "max_gen_toks": 6}
        (found,) = client.generate_until([asked("the cat", options)], disable_tqdm=True)
        (direct,) = alone.complete(prompt=ids, max_tokens=6, temperature=0, stop=[*until, "</s>"])
        assert found == direct
