"""Why a word has its tag, why a translation goes on with a token, why an answer is there: what each step that
was read adds to the log-odds of the answer against another, in the form of classifiers' explanations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, suggest_known
from seqloom.models.classification.explanation import (
    Explanation,
    chosen_method,
    has_attention,
    of_attention,
    of_tokens,
)
from seqloom.models.network.attribution import (
    Odds,
    integrated_gradients,
    occlusion,
    repeated,
)

IMPOSSIBLE = -1e30
OF_NETWORKS = "gradients", "occlusion"
MOST_WORDS = 512  # of a text, around the word whose tag is explained


def _named(name: Any, names: list[str], what: str, argument: str) -> int:
    """Return the place of a name among those of the answers."""
    if str(name) not in names:
        raise ConfigError(f"unknown {what} {name!r}{suggest_known(str(name), names)}", [argument])
    return names.index(str(name))


def _answers(
    scores: np.ndarray, names: list[str], label: Any, against: Any, usual: int, what: str
) -> tuple[int, int]:
    """Return the answer that is explained and the one it is held against: those that are named, or `usual`
    and the likeliest other one.
    """
    one = usual if label is None else _named(label, names, what, "label")
    order = np.argsort(-scores, kind="stable").tolist()
    other = (
        next(i for i in order if i != one)
        if against is None
        else _named(against, names, what, "against")
    )
    if one == other:
        raise ConfigError(f"label and against are both {names[one]!r}; name two {what}s")
    return one, other


def _numbered(number: int | None, many: int, what: str) -> int:
    """Return the place of a number from 1, the first unless it is given."""
    if number is not None and not 1 <= number <= many:
        raise ConfigError(f"{what} must be from 1 to {many:,}; got {number:,}", [what])
    return (number or 1) - 1


def _explained(
    odds: Odds,
    x: Any,
    method: str,
    answers: tuple[Any, Any],
    names: list[str],
    n: int,
) -> Explanation:
    """Explain by a number that a network computes from the vectors x (1, T, D) of named steps."""
    found = occlusion(odds, x) if method == "occlusion" else integrated_gradients(odds, x)
    nats = found.shares[0, : len(names)].tolist()
    return of_tokens(*answers, (found.full, found.nothing), list(zip(names, nats)), n, method)


def _batch(network: Any, encoded: Any, rows: np.ndarray) -> dict[str, Any]:
    import torch

    device = next(network.parameters()).device
    arrays = encoded.batch(rows)
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


# ---- tags


def methods_of_tagger(model: Any) -> list[str]:
    """Return the methods that explain a tag, the best first."""
    if model.name == "tagger":
        return [*OF_NETWORKS, *["attention"] * has_attention(model)]
    return ["occlusion"] if model.name == "hmm-tagger" else []


def explain_tag(
    model: Any,
    sentence: Any,
    word: int | None,
    method: str | None = None,
    n: int = 10,
    *,
    label: Any = None,
    against: Any = None,
) -> Explanation:
    """Explain the tag of one word (from 1) of a sentence; tags are those in which the tagger works."""
    method = chosen_method(model, method, methods_of_tagger(model))
    (words,), _ = model.sequences(sentence)
    if not words:
        raise ConfigError("the sentence has no words; give one")
    at, tags = _numbered(word, len(words), "word"), list(model.tags)
    if len(words) > MOST_WORDS:  # each of them costs a pass over all
        low = max(0, min(at - MOST_WORDS // 2, len(words) - MOST_WORDS))
        progress.say(
            f"of {len(words):,} words, {low + 1:,} to {low + MOST_WORDS:,} are read and explained"
        )
        words, at = words[low : low + MOST_WORDS], at - low
    usual = int(model.tag_ids([words])[0][at])
    if model.name == "hmm-tagger":
        return _by_lattice(model, words, at, usual, (label, against), n)
    import torch

    network, (encoded, names) = model.network(), model.steps_of(words)
    batch, field = _batch(network, encoded, np.arange(1)), network.output.crf
    with torch.no_grad():
        x = network.reader(batch)

    def tag_scores(vectors: Any, times: int) -> Any:
        """Return the log-odds of every tag of the word, up to a constant (times, K)."""
        again = repeated(batch, times, ("lengths", "positions", "word_counts"))
        scores = network.encode(vectors, again)
        if field is None:
            return scores[:, at]
        lengths = again["word_counts" if "word_counts" in again else "lengths"].to(scores.device)
        columns = []
        for tag in wanted:
            only = scores.clone()
            only[:, at] = IMPOSSIBLE
            only[:, at, tag] = scores[:, at, tag]
            columns.append(field.log_partitions(only, lengths))
        return torch.stack(columns, 1)

    wanted: list[int] = list(range(len(tags)))
    with torch.no_grad():
        scores = tag_scores(x, 1)[0].double().cpu().numpy()
    one, other = _answers(scores, tags, label, against, usual, "tag")
    if min(scores[one], scores[other]) < IMPOSSIBLE / 2:
        raise ConfigError("one of these tags cannot stand there, whatever the words; name another")
    if method == "attention":
        steps = np.asarray(list(model.trace(words, "*attention.weights").arrays.values())[-1])
        step = int(batch["positions"][0, at]) if "positions" in batch else at
        weights = steps.mean(0)[step].tolist()
        log_odds = float(scores[one] - scores[other])
        return of_attention(tags[one], tags[other], log_odds, list(zip(names, weights)), n)
    pair = [one, other] if field is None else [0, 1]
    wanted = [one, other]

    def odds(vectors: Any, times: int) -> Any:
        both = tag_scores(vectors, times)
        return both[:, pair[0]] - both[:, pair[1]]

    return _explained(odds, x, method, (tags[one], tags[other]), names, n)


def _by_lattice(
    model: Any, words: list[str], at: int, usual: int, named: tuple[Any, Any], n: int
) -> Explanation:
    """Explain the tag of a word by a hidden Markov model, by leaving out what one word after another says."""
    from seqloom.models.hidden.lattice import of_tags

    transitions, emissions = model.log_scores(words)
    path, tags = np.zeros(len(words), np.int64), list(model.tags)

    def scores_of(said: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(of_tags(transitions, said, path).smoothed[at], 1e-300))

    scores = scores_of(emissions)
    one, other = _answers(scores, tags, *named, usual, "tag")
    full = float(scores[one] - scores[other])
    nothing = scores_of(np.zeros_like(emissions))
    tokens = []
    for i, word in enumerate(words):
        without = emissions.copy()
        without[i] = 0.0
        left = scores_of(without)
        tokens.append((word, full - float(left[one] - left[other])))
    odds = full, float(nothing[one] - nothing[other])
    return of_tokens(tags[one], tags[other], odds, tokens, n, "occlusion")


# ---- translations


def methods_of_translator(model: Any) -> list[str]:
    """Return the methods that explain a token of a translation, the best first."""
    if not hasattr(model, "network_decoder"):
        return []
    attends = has_attention(model) or getattr(model.config, "attention", "none") != "none"
    return [*OF_NETWORKS, *["attention"] * attends]


def explain_token(
    model: Any,
    source: Any,
    target: str | None,
    step: int | None,
    method: str | None = None,
    n: int = 10,
    *,
    label: Any = None,
    against: Any = None,
) -> Explanation:
    """Explain a token (from 1) of a translation, the model's own unless one is given, by the tokens of the
    source; what was written before it is part of the prior, the log-odds without any source.
    """
    method = chosen_method(model, method, methods_of_translator(model))
    if model.sizes.columns:
        raise ConfigError(
            "this model reads numbers; only the tokens of a text explain a translation"
        )
    import torch

    tokenizer, network = model.target_tokenizer, model.network()
    target = model.translate(source) if target is None else target
    ids = [*map(int, tokenizer.encode(target)), tokenizer.eos_id]
    at = _numbered(step, len(ids), "step")
    encoded = model.encode_sources([source])
    model.check_lengths(encoded, "source")
    batch = _batch(network, encoded, np.arange(1))
    device = next(network.parameters()).device
    reader = network.embedding if network.reader is None else network.reader
    before = torch.tensor([[*model.start_ids, *ids[:at]]], device=device)
    with torch.no_grad():
        x = reader(batch["ids"] if network.reader is None else batch)

    def log_probs(vectors: Any, times: int) -> Any:
        handle = reader.register_forward_hook(lambda module, inputs, output: vectors)
        try:  # the reader's vectors are replaced while the source is read, and only then
            memory = network.encode(repeated(batch, times, tuple(batch)))
        finally:
            handle.remove()
        features = network.features(memory, before.repeat(times, 1))
        return network.output.log_probs(features[:, -1])

    with torch.no_grad():
        scores = log_probs(x, 1)[0].double().cpu().numpy()
    spelled = map(tokenizer.token, range(tokenizer.vocab_size))
    names = [name if name.isprintable() and name.strip() else repr(name) for name in spelled]
    one, other = _answers(scores, names, label, against, ids[at], "token")
    read = [model.tokenizers["source"].token(int(i)) for i in encoded.steps["ids"].tolist()]
    if method == "attention":
        (weights,) = model.alignments([source], [target])
        if model.backwards:
            read = [*read[:-1][::-1], read[-1]]
        read = read[len(read) - weights.shape[1] :]
        log_odds = float(scores[one] - scores[other])
        pairs = list(zip(read, weights[at].tolist()))
        return of_attention(names[one], names[other], log_odds, pairs, n)

    def odds(vectors: Any, times: int) -> Any:
        found = log_probs(vectors, times)
        return found[:, one] - found[:, other]

    return _explained(odds, x, method, (names[one], names[other]), read, n)


# ---- answers to questions


def methods_of_answerer(model: Any) -> list[str]:
    """Return the methods that explain a span, the best first."""
    return [*OF_NETWORKS, *["attention"] * has_attention(model)]


def explain_span(
    model: Any, question: str, context: str, method: str | None = None, n: int = 10
) -> Explanation:
    """Explain the likeliest span of a context against there being no answer, by all tokens that were read
    with it.
    """
    from seqloom.models.answering.windows import best_span

    method = chosen_method(model, method, methods_of_answerer(model))
    import torch

    windows, scores = model.window_scores([(question, context)])
    best = None
    for row in range(len(windows.examples)):
        steps = windows.steps(row)
        begins, ends = scores[steps].T.astype(np.float64)
        first, last, score = best_span(begins[1:], ends[1:], model.config.max_answer)
        odds_of_row = score - float(begins[0] + ends[0])
        if len(steps) > 1 and (best is None or odds_of_row > best[0]):
            best = odds_of_row, row, int(steps[1 + first]), int(steps[1 + last])
    if best is None:
        raise ConfigError("the context has no words in which an answer could be; give another")
    _, row, first, last = best
    low, high = windows.encoded.row_offsets[row : row + 2].tolist()
    network = model.network()
    batch = _batch(network, windows.encoded, np.array([row]))
    names = [model.tokenizer.token(i) for i in windows.encoded.steps["ids"][low:high].tolist()]
    with torch.no_grad():
        x = network.reader(batch)

    def odds(vectors: Any, times: int) -> Any:
        given = network.encode(
            vectors, repeated(batch, times, ("lengths", "positions", "word_counts"))
        )
        return given[:, first - low, 0] + given[:, last - low, 1] - given[:, 0].sum(1)

    answers = context[int(windows.starts[first]) : int(windows.stops[last])], "no answer"
    if method == "attention":
        steps = np.asarray(
            list(model.trace((question, context), "*attention.weights").arrays.values())[-1]
        )
        if steps.shape[1] != high - low or len(windows.examples) > 1:
            raise ConfigError(
                "attention is shown of a context that is read in one window; shorten it"
            )
        weights = steps.mean(0)[first - low].tolist()
        return of_attention(*answers, best[0], list(zip(names, weights)), n)
    return _explained(odds, x, method, answers, names, n)
