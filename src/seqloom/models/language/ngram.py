"""n-gram language models of any order.

N-grams are counted (`counting`), smoothed (`estimation`: modified Kneser-Ney by default; Chen and
Goodman 1998) and stored as a back-off trie (`trie`), which equals KenLM's to 1e-5. The state is one
node of the trie: the longest known suffix of what was read. Unknown words get the probability that
the smoothing of the unigrams leaves; each line is `<s> w1 .. wm </s>` and `<s>` is never predicted.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec, resident
from seqloom.contracts import FitOptions, LanguageModel
from seqloom.data.corpus import as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.decoding.stepper import check_scores, check_sums
from seqloom.errors import DataError
from seqloom.metrics.language import unit_lengths
from seqloom.models.language.configs import NGramConfig
from seqloom.models.language.counting import Levels, count_ngrams, memory_needed
from seqloom.models.language.estimation import build, smoothing_named
from seqloom.models.language.trie import Trie, check, specs
from seqloom.models.workspace import Workspace

CHUNK = 1 << 15


def prune_by_entropy(trie: Trie, threshold: float) -> Trie:
    """Return the trie without the n-grams that it hardly needs (Stolcke 1998); unigrams all stay.

    An n-gram is dropped if the model without it, with a new back-off weight, has a perplexity that
    is higher by less than the threshold (1e-8 is mild, 1e-6 strong). The highest order is pruned
    first; an n-gram that is the context of another stays. Unlike pruning by count this needs no
    counts, so it also works on models read from ARPA files.
    """
    from seqloom.kernels import ngram_estimate as kernel
    from seqloom.kernels.parallel import chunk_bounds, parallel_run

    starts = trie.level_starts
    first, backoffs = np.ascontiguousarray(trie.first), np.ascontiguousarray(trie.backoffs)
    tables = (trie.words, trie.log_probs, first, backoffs, trie.links)
    history = np.empty(len(trie.backoffs), np.float64)
    kernel.history_log_probs(first, trie.log_probs, trie.vocab_size + 1, history)
    keep = np.ones(len(trie.words), np.bool_)
    for k in range(trie.order, 1, -1):
        lo, hi = int(starts[k - 1]), int(starts[k])  # the contexts of order k
        parallel_run(
            lambda s, lo=lo: kernel.mark_useless(
                *tables,
                history,
                keep,
                threshold,
                lo + s[0],  # type: ignore[misc]
                lo + s[1],
            ),
            chunk_bounds(hi - lo, CHUNK),
        )
    return _reweighted(_only_kept(trie, keep))


def _only_kept(trie: Trie, keep: np.ndarray) -> Trie:
    """Return the trie with only these nodes and the old back-off weights."""
    from seqloom.kernels.ngram_estimate import relink

    numbers = np.cumsum(keep, dtype=np.int64) - 1
    starts = np.append(
        0,
        np.cumsum([int(keep[a:b].sum()) for a, b in zip(trie.level_starts, trie.level_starts[1:])]),
    )
    inner = int(starts[-2])
    old_inner = len(trie.backoffs)
    children = np.add.reduceat(
        np.append(keep, False).astype(np.int64), trie.first[:-1].astype(np.int64)
    )
    children[trie.first[:-1] == trie.first[1:]] = 0
    first = np.empty(inner + 1, np.uint32)
    first[0] = 1
    np.cumsum(children[keep[:old_inner]], out=first[1:], dtype=np.uint32)
    first[1:] += np.uint32(1)
    live = children > 0
    links = np.empty(int(starts[-1]), np.uint32)
    relink(trie.links, keep, numbers, live, links)
    return Trie.pack(
        trie.words[keep],
        trie.log_probs[keep],
        links,
        first,
        trie.backoffs[keep[:old_inner]],
        starts,
        trie.chained,
    )


def _reweighted(trie: Trie) -> Trie:
    """Return the trie with new back-off weights; shorter contexts first, because the weights of
    longer ones depend on them.
    """
    from seqloom.kernels.ngram_estimate import new_backoffs
    from seqloom.kernels.parallel import chunk_bounds, parallel_run

    first, backoffs = np.ascontiguousarray(trie.first), np.ascontiguousarray(trie.backoffs)
    backoffs[0] = 0
    for k in range(1, trie.order):
        lo, hi = int(trie.level_starts[k]), int(trie.level_starts[k + 1])
        updated = backoffs.copy()
        run = partial(
            new_backoffs, trie.words, trie.log_probs, first, backoffs, trie.links, updated
        )
        parallel_run(
            lambda s, lo=lo, run=run: run(lo + s[0], lo + s[1]),  # type: ignore[misc]
            chunk_bounds(hi - lo, CHUNK),
        )
        backoffs[lo:hi] = updated[lo:hi]
    trie.backoffs[:] = backoffs
    return trie


# ---- ngram

SPEED = 10e6  # tokens times orders per second on two cores, to announce long jobs


class TokenScore(NamedTuple):
    """One token of `full_scores`."""

    token: str
    log_prob: float  # natural log
    order: int  # length of the n-gram that matched
    oov: bool


class Sparsity(NamedTuple):
    """How sparse the n-grams of one order are: the possible ones, those of the model, and the share of
    the test text that it has.
    """

    order: int
    possible: int  # free values of a full table, (K - 1) K^(order - 1)
    in_model: int
    seen_in_test: float  # share of the test's n-grams of that order


class NGram(LanguageModel):
    name = "ngram"
    public_names = "full_scores sparsity"
    threaded = True
    config_class = NGramConfig
    trie: Trie

    def fit_ids(self, ids: np.ndarray, options: FitOptions) -> None:
        c, tokenizer = self.config, self.tokenizer
        ends = np.flatnonzero(ids == tokenizer.eos_id)
        self.check_longest(int(np.diff(ends, prepend=-1).max(initial=0)))
        need = memory_needed(len(ids), c.order)
        on_disk = options.memory is not None and need > options.memory
        workspace = (
            Workspace.within(options.memory)
            if options.memory is not None and on_disk
            else Workspace()
        )
        _announce(len(ids), c.order, need, workspace, options.memory)
        counted = count_ngrams(ids, c.order, tokenizer.vocab_size, tokenizer.eos_id, workspace)
        self.estimate(counted, workspace)

    def check_longest(self, tokens: int) -> None:
        """Refuse a text of which the longest unit, `</s>` included, has too few tokens."""
        if tokens + 1 < self.config.order:
            raise DataError(
                f"the corpus is shorter than the order: its longest unit has {tokens + 1} tokens with "
                f"<s> and </s>, "
                f"the order is {self.config.order}; use a lower order, another unit, or more text"
            )

    def estimate(self, counted: Levels, workspace: Workspace) -> None:
        """Make the model of counted n-grams."""
        c = self.config
        self.trie, weights = build(counted, smoothing_named(c.smoothing, c.k), c.prune, workspace)
        if c.prune_entropy:
            self.trie = prune_by_entropy(self.trie, c.prune_entropy)
        self.fit_info["ngrams"] = self.sizes
        if c.smoothing in ("modified-kneser-ney", "kneser-ney", "absolute"):
            self.fit_info["discounts"] = {
                str(k): [round(float(d), 6) for d in w.discounts] for k, w in enumerate(weights, 1)
            }
        fallbacks = {str(k): w.note for k, w in enumerate(weights, 1) if w.note}
        if fallbacks:
            self.fit_info["fallbacks"] = fallbacks

    @property
    def sizes(self) -> dict[str, int]:
        """Return the number of n-grams of each order."""
        return {str(k): n for k, n in enumerate(np.diff(self.trie.level_starts[1:]).tolist(), 1)}

    @property
    def context(self) -> int:
        return self.config.order - 1

    def label(self) -> str:
        c = self.config
        pruned = f"-prune{'.'.join(map(str, c.prune))}" if any(c.prune) else ""
        if c.prune_entropy:
            pruned += f"-entropy{c.prune_entropy:g}"
        return (
            f"ngram{c.order}-{c.smoothing}{f'({c.k:g})' if c.smoothing == 'add-k' else ''}{pruned}"
        )

    @property
    def parameters(self) -> int:
        """Return the number of probabilities and back-off weights."""
        return len(self.trie.words) + len(self.trie.contexts) - 1

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return check_scores(
            self.trie.score(ids, self.tokenizer.eos_id), exact=self.config.smoothing != "imported"
        )

    def full_scores(self, text: str) -> list[TokenScore]:
        """Return token, natural-log probability, matched order and whether it is unknown, as KenLM's
        `full_scores` does.
        """
        tokenizer = self.tokenizer
        ids, _ = self.encode(text)
        log_probs, orders = self.trie.score_with_orders(ids, tokenizer.eos_id)
        unknown = ids == tokenizer.unk_id if tokenizer.has_oov else np.zeros(len(ids), bool)
        return [
            TokenScore(tokenizer.token(int(i)), float(p), int(o), bool(u))
            for i, p, o, u in zip(ids, log_probs, orders, unknown)
        ]

    def sparsity(self, data: Any) -> list[Sparsity]:
        """Return for each order the possible n-grams, those in the model, and the share of the test's
        that the model has.
        """
        tokenizer = self.tokenizer
        ids = encode_corpus(tokenizer, as_corpus(data), unit=self.unit)
        _, matched = self.trie.score_with_orders(ids, tokenizer.eos_id)
        if tokenizer.has_oov:
            matched[ids == tokenizer.unk_id] = 0  # an unknown word has not been seen
        lengths = unit_lengths(ids, tokenizer.eos_id)
        # Tokens to the left, including <s>.
        before = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
        k, v = np.diff(self.trie.level_starts[1:]), tokenizer.vocab_size
        k[0] -= 1  # <s> is never predicted
        return [
            Sparsity(
                n,
                (v - 1) * v ** (n - 1),
                int(k[n - 1]),
                float((matched[before >= n - 1] >= n).mean()) if (before >= n - 1).any() else 0.0,
            )
            for n in range(1, self.config.order + 1)
        ]

    def stepper(self, *, eight_bit: bool = False) -> NGramStepper:
        return NGramStepper(
            self.trie, self.tokenizer.eos_id, exact=self.config.smoothing != "imported"
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return self.trie.arrays()

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return specs(self.config.order, self.tokenizer.vocab_size, length)

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.trie = Trie(
            **arrays, chained=smoothing_named(self.config.smoothing, self.config.k).chained
        )
        check(self.trie, self.tokenizer.vocab_size)


def _announce(
    n_tokens: int, order: int, need: int, workspace: Workspace, memory: int | None
) -> None:
    """Announce time and memory of a long job."""
    seconds, work = n_tokens * order / SPEED, f"{n_tokens:,} tokens, order {order}"
    if memory is None or workspace.limit is None:
        if seconds > 5:
            progress.say(f"{work}: about {seconds:.0f} s and up to {need / 1e9:.1f} GB of memory")
        return
    floor = ""
    if workspace.limit > memory:
        floor = (
            ", more than memory=... allows: the program, the tokenizer and the text alone take "
            f"{resident() >> 20} MB"
        )
    progress.say(
        f"{work}: about {seconds * 2:.0f} s, working on disk with about {workspace.limit >> 20} MB "
        f"of memory{floor}; "
        "plus pages of scratch files, which the system reclaims when needed"
    )


class NGramStepper:
    """The state is one array of trie nodes, (n,)."""

    def __init__(self, trie: Trie, eos_id: int, *, exact: bool = True) -> None:
        """Make a stepper; `exact`: not imported, so probabilities must sum to one."""
        self.trie, self.eos_id, self.vocab_size, self.exact = trie, eos_id, trie.vocab_size, exact

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        nodes = np.full(n, self.trie.bos_state, np.int64)
        return (nodes,), self._log_probs(nodes)

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        nodes = self.trie.advance(state[0], ids)
        nodes[ids == self.eos_id] = self.trie.bos_state
        return (nodes,), self._log_probs(nodes)

    def _log_probs(self, nodes: np.ndarray) -> np.ndarray:
        log_probs, sums = self.trie.distributions(nodes)
        if self.exact:
            check_sums(sums)
        return log_probs
