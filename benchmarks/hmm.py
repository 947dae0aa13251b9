"""Hidden Markov models side by side with hmmlearn: one iteration of Baum-Welch, Viterbi; and growth.

Both sides begin from the same parameters on the same symbols (drawn from a Zipf law, whose values
do not change the work). hmmlearn runs its `scaling` implementation; ours two threads where the
machine has them. Sequences of 1,000 tokens, so that hmmlearn's cost of a sequence in Python hardly
counts; one row each for sentences and for one long text.
"""

from __future__ import annotations

import logging
import statistics
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.side_by_side import alternate, collect, data, peer, seconds, sized, table
from seqloom.models.hidden.chain import CategoricalHMM

Row = tuple[str, str, str, str]
SIZES = sized(((8, 64), (32, 1000), (45, 10_000)), ((8, 64),))  # states, vocabulary
TOKENS = {8: sized(1_000_000, 20_000), 32: 300_000, 45: 150_000}


def run(quick: bool, only: str) -> None:
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # it warns of too little data
    times, share = (2, 10) if quick else (7, 1)
    suites: dict[str, Callable[[], Iterator[Row]]] = {
        "agreement": agreement,
        "taggers": tagger_rows,
        "baum-welch": lambda: baum_welch_rows(times, share),
        "viterbi": lambda: viterbi_rows(times, share),
        "growth": lambda: growth_rows(times, share),
    }
    table(
        "hidden Markov models",
        collect(suites, only),
        ("figure", "peer", "ours", "ours against the peer"),
    )


def cases(share: int) -> Iterator[tuple[str, CategoricalHMM, np.ndarray, np.ndarray]]:
    for n_states, vocab_size in SIZES:
        tokens = TOKENS[n_states] // share
        for length, name in (
            (1000, "sequences of 1,000"),
            (25, "sentences of 25"),
            (tokens, "one sequence"),
        ):
            model = CategoricalHMM.random(n_states, vocab_size, seed=1)
            yield (
                f"S = {n_states}, K = {vocab_size:,}, {tokens:,} tokens, {name}",
                model,
                symbols(tokens // length * length, vocab_size),
                np.full(tokens // length, length),
            )


def symbols(n: int, vocab_size: int) -> np.ndarray:
    weights = 1 / np.arange(1, vocab_size + 1)
    return np.random.default_rng(0).choice(vocab_size, n, p=weights / weights.sum())


def hmmlearn(model: CategoricalHMM) -> Any:
    """The peer with our parameters, or None with a remark."""
    if (there := peer("hmmlearn.hmm")) is None:
        return None
    other = there.CategoricalHMM(
        model.n_states,
        n_iter=1,
        tol=0,
        init_params="",
        implementation="scaling",
        n_features=model.vocab_size,
    )
    other.startprob_, other.transmat_, other.emissionprob_ = model.arrays().values()
    return other


def fitted(model: CategoricalHMM, ids: np.ndarray, lengths: np.ndarray) -> Any:
    """hmmlearn after one iteration from these parameters."""
    other = hmmlearn(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return other.fit(ids[:, None], lengths)


def one_iteration(model: CategoricalHMM, ids: np.ndarray, lengths: np.ndarray) -> CategoricalHMM:
    """The same work: check, pack, E-step, M-step."""
    data, lengths = model.prepare(ids, lengths)
    return model.maximise(model.expected(data, lengths))


def tagger_rows() -> Iterator[Row]:
    """Settings were chosen on the dev parts; these are the test parts."""
    from seqloom import HMMTagger, read_tagged

    ewt, names = ("en_ewt-ud-train.conllu", "en_ewt-ud-test.conllu"), ("eng.train", "eng.testb")
    for title, figure, folder, files, plain in (
        ("UD English EWT, UPOS", "accuracy", "ud_english_ewt", ewt, "92.4 %"),
        ("CoNLL-2003, spans", "span_f1", "conll2003", names, "F1 74.0 %"),
    ):
        paths = [data(folder, name) for name in files]
        if paths[0] is None or paths[1] is None:
            continue
        train, test = (read_tagged(path) for path in paths if path)
        for order in (1, 2):
            result = HMMTagger(order=order).fit(train).evaluate(test)
            low, high = result[f"{figure}_interval"]  # type: ignore[misc]
            reached = f"{figure} {result[figure]:.2%} ({low:.2%} to {high:.2%})"
            yield (
                f"{title}, hmm-tagger of order {order}",
                f"a plain trigram tagger {plain}",
                reached,
                f"unknown words {result['unknown_accuracy']:.1%}",
            )


def agreement() -> Iterator[Row]:
    """The largest differences, at a tenth of the size."""
    for name, model, ids, lengths in cases(10):
        ours, other = one_iteration(model, ids, lengths), hmmlearn(model)
        states, joints = model.viterbi(ids, lengths)
        likelihood = float(model.log_likelihood(ids, lengths).sum())
        ours_at = model.posteriors(ids, lengths)
        if other is None:
            yield (
                f"log-likelihood, {name}",
                "",
                f"{likelihood:.4g}, of the best path {joints.sum():.4g}",
                "",
            )
            continue
        after = fitted(model, ids, lengths)
        step = max(
            float(np.abs(a - b).max())
            for a, b in (
                (ours.start, after.startprob_),
                (ours.transitions, after.transmat_),
                (ours.emissions, after.emissionprob_),
            )
        )
        joint, path = other.decode(ids[:, None], lengths)
        score = other.score(ids[:, None], lengths)
        posteriors = float(np.abs(ours_at - other.predict_proba(ids[:, None], lengths)).max())
        yield (
            f"largest difference, {name}",
            "hmmlearn",
            f"one EM step {step:.0e}; posteriors {posteriors:.0e}; log-likelihood "
            f"{abs(likelihood / score - 1):.0e} and "
            f"best path's {abs(joints.sum() / joint - 1):.0e} relative; {int((states != path).sum())} states",
            "",
        )


def baum_welch_rows(times: int, share: int) -> Iterator[Row]:
    for name, model, ids, lengths in cases(share):
        there = hmmlearn(model) is not None
        work = (model, ids, lengths)
        one_iteration(model, ids[: lengths[0]], lengths[:1])  # compiled
        yield row(
            f"Baum-Welch, one iteration, {name}",
            len(ids),
            times,
            partial(one_iteration, *work),
            partial(fitted, *work) if there else None,
        )


def viterbi_rows(times: int, share: int) -> Iterator[Row]:
    for name, model, ids, lengths in cases(share):
        other = hmmlearn(model)
        model.viterbi(
            ids[: lengths[0]]
        )  # compiled, and the logarithms of the tables made, which are kept
        yield row(
            f"Viterbi, {name}",
            len(ids),
            times,
            partial(model.viterbi, ids, lengths),
            other and partial(other.decode, ids[:, None], lengths),
        )


def row(
    name: str,
    tokens: int,
    times: int,
    ours: Callable[[], object],
    theirs: Callable[[], object] | None,
) -> Row:
    ratio = alternate(lambda: seconds(ours), theirs and (lambda: seconds(theirs)), times)
    return (
        name,
        f"hmmlearn, {tokens / ratio.peer / 1e6:.3f} M tokens/s",
        f"{tokens / ratio.ours / 1e6:.2f} M tokens/s",
        str(ratio),
    )


def growth_rows(times: int, share: int) -> Iterator[Row]:
    """Nanoseconds a token against tokens; nanoseconds a token and pair of states against states."""
    model, costs = CategoricalHMM.random(32, 1000, seed=1), []
    for tokens in (100_000 // share, 200_000 // share, 400_000 // share, 800_000 // share):
        ids = symbols(tokens, 1000)
        costs.append((tokens, cost(model, ids, times)))
    yield grown("growth with tokens, S = 32: ns a token", [(f"{n:,}", c) for n, c in costs])
    costs = []
    for n_states in sized((16, 32, 64, 128, 256), (16, 32)):
        ids = symbols(2_000_000 // share // n_states, 1000)
        costs.append(
            (
                n_states,
                cost(CategoricalHMM.random(n_states, 1000, seed=1), ids, times) / n_states**2,
            )
        )
    yield grown("growth with states: ns a token, over S^2", [(str(n), c) for n, c in costs])


def cost(model: CategoricalHMM, ids: np.ndarray, times: int) -> float:
    """Nanoseconds a token of an iteration over sequences of 100."""
    lengths = np.full(len(ids) // 100, 100)
    ids = ids[: lengths.sum()]
    one_iteration(model, ids[:100], lengths[:1])
    return (
        statistics.median(seconds(lambda: one_iteration(model, ids, lengths)) for _ in range(times))
        / len(ids)
        * 1e9
    )


def grown(name: str, costs: list[tuple[str, float]]) -> Row:
    worst = max(c for _, c in costs) / min(c for _, c in costs)
    return (
        name,
        "itself",
        ", ".join(f"{n}: {c:.3g}" for n, c in costs),
        f"{worst:.2f}x between extremes",
    )
