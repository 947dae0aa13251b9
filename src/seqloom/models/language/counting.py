"""All n-grams of a corpus, as sorted levels; in memory, or as runs on disk that are merged.

`count_ngrams` cuts the ids into blocks that fit the given memory, counts each block (kernels/ngram_count),
and merges the blocks' levels. One block needs no merge. The result does not depend on where blocks are cut,
nor on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from seqloom import progress
from seqloom.errors import DataError
from seqloom.models.workspace import Workspace

CHUNK = 1 << 19  # places a thread takes at a time
BYTES_PER_TOKEN = 24  # of work space while one block is counted, beside the levels themselves
BYTES_PER_NGRAM = 16


@dataclass
class Level:
    """The distinct k-grams in lexicographic order; all arrays uint32, one entry an n-gram."""

    words: np.ndarray  # last word
    counts: np.ndarray  # occurrences
    suffixes: np.ndarray  # without the first word: index into the level below
    parents: np.ndarray  # without the last word: index into the level below

    def __len__(self) -> int:
        return len(self.words)


@dataclass
class Levels:
    """Levels 1..n. `<s>` has the highest word id, so what begins with it is the tail of each level."""

    vocab_size: int
    levels: list[Level]
    bos_begin: list[int] = field(default_factory=list)  # where n-grams that begin with <s> start


def count_ngrams(
    ids: np.ndarray, order: int, vocab_size: int, eos_id: int, workspace: Workspace
) -> Levels:
    """Count all n-grams up to `order`. `ids` holds whole units, each closed by `eos_id`."""
    if len(ids) >= 1 << 32:
        raise DataError(
            f"{len(ids):,} tokens: more than 4,294,967,295 cannot be counted in one model; split the corpus"
        )
    size = max(
        workspace.memory // memory_needed(1, order) if workspace.memory else len(ids), 4 * order, 1
    )
    bounds = [(lo, min(lo + size, len(ids))) for lo in range(0, len(ids), size)]
    with progress.task(
        f"counting n-grams of order 1 to {order}", len(ids) * order, "tokens"
    ) as bar:
        runs = [
            _count_block(ids, lo, hi, order, vocab_size, eos_id, workspace, bar)
            for lo, hi in bounds
        ]
    if len(runs) == 1:
        return runs[0]
    progress.say(f"merging {len(runs)} sorted runs from disk ")
    return _merge(runs, order, workspace)


def memory_needed(n_tokens: int, order: int) -> int:
    """Return how many bytes counting and estimating so many tokens may take, if nearly every
    n-gram is new.
    """
    return n_tokens * (BYTES_PER_TOKEN + order * BYTES_PER_NGRAM)


def _count_block(
    ids: np.ndarray,
    lo: int,
    hi: int,
    order: int,
    vocab_size: int,
    eos_id: int,
    workspace: Workspace,
    bar: progress.Bar,
) -> Levels:
    """Count the n-grams that start in ids[lo:hi], as levels; those that reach beyond see a few
    tokens more.
    """
    from seqloom.kernels.ngram_count import insert_bos

    bos = vocab_size
    ahead = 0
    while lo + ahead < len(ids) and ahead < order - 1 and ids[hi + ahead - 1] != eos_id:
        ahead += 1
    part = ids[lo : hi + ahead].astype(np.uint32, copy=False)
    seq = np.empty(len(part) + int(np.count_nonzero(part == eos_id)) + 1, np.uint32)
    length = insert_bos(part, eos_id, bos, lo == 0 or ids[lo - 1] == eos_id, seq)
    seq = seq[:length]
    return _count_sequence(seq, length - ahead, order, vocab_size, eos_id, workspace, bar, hi - lo)


def _count_sequence(
    seq: np.ndarray,
    limit: int,
    order: int,
    vocab_size: int,
    eos_id: int,
    workspace: Workspace,
    bar: progress.Bar,
    n_tokens: int,
) -> Levels:
    from seqloom.kernels import ngram_count as kernel

    n_words = vocab_size + 1
    counts = np.bincount(seq[:limit], minlength=n_words).astype(np.uint32)
    zeros = np.zeros(n_words, np.uint32)
    level = Level(np.arange(n_words, dtype=np.uint32), counts, zeros, zeros)
    out = Levels(vocab_size, [level], [vocab_size])
    if order == 1:
        bar.advance(n_tokens)
        return out
    bucket = np.arange(n_words + 1, dtype=np.int64)
    positions, groups, starts = _sort_by_word(seq, None, None, n_words, eos_id)
    groups[:] = seq[positions]
    bar.advance(n_tokens)
    for _ in range(2, order + 1):
        positions, suffixes, starts = _sort_by_word(seq, positions, groups, n_words, eos_id)
        groups, node_suffix, node_count = _number_groups(suffixes, positions, limit, starts)
        upper, upper_bucket = level, bucket
        n = len(node_suffix)
        bucket = np.empty(n_words + 1, np.int64)
        kernel.bucket_nodes(starts, groups, n, bucket)
        level = Level(
            workspace.empty(n, np.uint32),
            workspace.keep(node_count),
            workspace.keep(node_suffix),
            workspace.empty(n, np.uint32),
        )
        del node_count, node_suffix
        cuts = np.searchsorted(bucket, np.arange(0, n + CHUNK, CHUNK)).clip(0, n_words)
        spans = sorted(
            {(int(a), int(b)) for a, b in zip(np.r_[0, cuts], np.r_[cuts, n_words]) if a < b}
        )

        def sweep(  # type: ignore[no-untyped-def]
            span: tuple[int, int],
            upper=upper,
            upper_bucket=upper_bucket,
            bucket=bucket,
            level=level,
        ) -> None:
            kernel.link_parents(
                *span,
                upper_bucket,
                upper.suffixes,
                upper.parents,
                upper.words,
                bucket,
                level.suffixes,
                level.parents,
                level.words,
            )

        workspace.run(sweep, spans)
        workspace.release(upper.words, upper.suffixes, upper.parents, level.counts)
        out.levels.append(level)
        out.bos_begin.append(int(bucket[vocab_size]))
        bar.advance(n_tokens)
    return out


def _sort_by_word(
    seq: np.ndarray,
    positions: np.ndarray | None,
    groups: np.ndarray | None,
    n_words: int,
    eos_id: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort positions by the word before each, with a stable counting sort: (positions, their
    suffix groups, bucket starts).
    """
    from seqloom.kernels import ngram_count as kernel
    from seqloom.kernels.parallel import chunk_bounds, parallel_run

    n = len(seq) if positions is None else len(positions)
    spans = chunk_bounds(
        n, max(n // 8 + 1, 1 << 16, n_words)
    )  # each chunk has a counter for every word
    before = np.empty(n, np.int32)
    histograms = np.zeros((len(spans), n_words), np.int64)
    source = np.empty(n, np.uint32) if positions is None else positions

    def look(i: int) -> None:
        if positions is None:
            kernel.word_here(seq, *spans[i], before, source, histograms[i])
        else:
            kernel.word_before(seq, source, *spans[i], eos_id, before, histograms[i])

    parallel_run(look, range(len(spans)))
    starts = np.zeros(n_words + 1, np.int64)
    np.cumsum(histograms.sum(axis=0), out=starts[1:])
    chunk_starts = starts[:-1] + np.cumsum(histograms, axis=0) - histograms
    total = int(starts[-1])
    out_positions, out_suffixes = np.empty(total, np.uint32), np.empty(total, np.uint32)
    suffixes = source if groups is None else groups

    def move(i: int) -> None:
        kernel.scatter(
            before, source, suffixes, *spans[i], chunk_starts[i], out_positions, out_suffixes
        )

    parallel_run(move, range(len(spans)))
    return out_positions, out_suffixes, starts


def _number_groups(
    suffixes: np.ndarray, positions: np.ndarray, limit: int, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number the distinct n-grams in sorted order: (group of each position, suffix and count of
    each n-gram).
    """
    from seqloom.kernels import ngram_count as kernel
    from seqloom.kernels.parallel import parallel_map, parallel_run

    n = len(suffixes)
    cuts = sorted({kernel.next_group(suffixes, starts, i) for i in range(0, n, CHUNK)} | {n})
    spans = list(pairwise(cuts))
    numbers = list(parallel_map(lambda s: kernel.count_groups(suffixes, starts, *s), spans))
    firsts = np.r_[0, np.cumsum(numbers, dtype=np.int64)].astype(np.int64)
    groups = np.empty(n, np.uint32)
    node_suffix, node_count = np.empty(firsts[-1], np.uint32), np.empty(firsts[-1], np.uint32)
    parallel_run(
        lambda i: kernel.fill_groups(
            suffixes,
            positions,
            limit,
            starts,
            *spans[i],
            int(firsts[i]),
            groups,
            node_suffix,
            node_count,
        ),
        range(len(spans)),
    )
    return groups, node_suffix, node_count


def _merge(runs: list[Levels], order: int, workspace: Workspace) -> Levels:
    """Merge the runs' levels into their union. A run's n-grams are in the same order as the
    union's, so levels just merge.
    """
    vocab_size = runs[0].vocab_size
    n_words = vocab_size + 1
    counts = np.stack([r.levels[0].counts for r in runs]).sum(axis=0, dtype=np.uint32)
    first = runs[0].levels[0]
    out = Levels(
        vocab_size, [Level(first.words, counts, first.suffixes, first.parents)], [vocab_size]
    )
    places = [np.arange(n_words, dtype=np.uint32)] * len(runs)
    for k in range(1, order):
        level, places = _merge_level([r.levels[k] for r in runs], places, workspace)
        out.levels.append(level)
        bos_parent = out.bos_begin[-1] if k > 1 else vocab_size
        out.bos_begin.append(int(np.searchsorted(level.parents, bos_parent)))
        for r in runs:
            r.levels[k] = r.levels[0]  # let go of what has been merged
    return out


def _merge_level(
    parts: list[Level], places: list[np.ndarray], workspace: Workspace
) -> tuple[Level, list[np.ndarray]]:
    """Merge one level of all runs, a range of parents at a time so that memory stays bounded."""
    from seqloom.kernels.ngram_count import merge_runs

    most = sum(len(p) for p in parts)
    words, counts, suffixes, parents = (workspace.empty(most, np.uint32) for _ in range(4))
    out_places = [workspace.empty(len(p), np.uint32) for p in parts]
    step = max((workspace.memory or 1 << 30) // (256 * len(parts)), 1 << 10)
    heads, n = [0] * len(parts), 0
    with progress.task("merging", most, "n-grams") as bar:
        while any(h < len(p) for h, p in zip(heads, parts)):
            ends = _common_border(parts, places, heads, step)
            workspace.release(
                *(a for p in parts for a in (p.words, p.counts, p.suffixes, p.parents))
            )
            keys = [_keys(p, place, h, e) for p, place, h, e in zip(parts, places, heads, ends)]
            begins = np.cumsum([0] + [len(k) for k in keys], dtype=np.int64)
            size = int(begins[-1])
            out_keys, out_counts = np.empty(size, np.int64), np.empty(size, np.uint32)
            out_suffixes, place = np.empty(size, np.uint32), np.empty(size, np.uint32)
            got = merge_runs(
                np.concatenate(keys),
                np.concatenate([p.counts[h:e] for p, h, e in zip(parts, heads, ends)]),
                np.concatenate(
                    [x[p.suffixes[h:e]] for x, p, h, e in zip(places, parts, heads, ends)]
                ),
                begins,
                out_keys,
                out_counts,
                out_suffixes,
                place,
            )
            words[n : n + got] = (out_keys[:got] & 0xFFFFFFFF).astype(np.uint32)
            parents[n : n + got] = (out_keys[:got] >> 32).astype(np.uint32)
            counts[n : n + got], suffixes[n : n + got] = out_counts[:got], out_suffixes[:got]
            for r, (h, e) in enumerate(zip(heads, ends)):
                out_places[r][h:e] = place[begins[r] : begins[r + 1]] + np.uint32(n)
            heads, n = ends, n + got
            workspace.release(words, counts, suffixes, parents, *out_places)
            workspace.relieve()
            bar.advance(size)
    workspace.release(
        *(a for p in parts for a in (p.words, p.counts, p.suffixes, p.parents)), *places
    )
    return Level(words[:n], counts[:n], suffixes[:n], parents[:n]), out_places


def _keys(part: Level, place: np.ndarray, lo: int, hi: int) -> np.ndarray:
    return (place[part.parents[lo:hi]].astype(np.int64) << 32) | part.words[lo:hi]


def _common_border(
    parts: list[Level], places: list[np.ndarray], heads: list[int], step: int
) -> list[int]:
    """Find the ends of the next piece of each run, such that the children of one merged parent
    stay together.
    """
    tops = [
        int(place[p.parents[min(h + step, len(p)) - 1]])
        for p, place, h in zip(parts, places, heads)
        if h < len(p)
    ]
    border = min(tops)  # every run has been read at least up to this parent
    ends = []
    for p, place, h in zip(parts, places, heads):
        local = int(
            np.searchsorted(place, border, side="right")
        )  # parents of this run that are not beyond it
        ends.append(max(h, int(np.searchsorted(p.parents, local))))
    return ends
