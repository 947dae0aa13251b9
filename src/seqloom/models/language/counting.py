"""All n-grams of a corpus, as sorted levels; in memory, or as runs on disk that are merged.

`count_ngrams` divides the ids into blocks that fit into the given memory, counts each block
(kernels/ngram_count) and merges their levels. The result does not depend on the blocks, nor on the
number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from seqloom import progress
from seqloom.models.workspace import Workspace

CHUNK = 1 << 19  # positions that a thread takes at a time
BYTES_PER_TOKEN = 24  # of scratch memory while a block is counted, besides its levels
BYTES_PER_NGRAM = 16
PLACES = 1 << 32  # from so many on, places and counts have 64 bits
MOST_IN_BLOCK = 1 << 31  # tokens that are counted in memory at a time; their places have 32 bits


def place_type(n: int) -> np.dtype:
    """Return the type of places in an array of `n`, or of counts up to it; signed where it is the larger one,
    since kernels mix them with signed numbers.
    """
    return np.dtype(np.uint32 if n < PLACES else np.int64)


@dataclass
class Level:
    """The distinct k-grams in lexicographic order; one entry per n-gram, uint32 unless merged levels are so
    large that places and counts need more (`place_type`).
    """

    words: np.ndarray  # last word
    counts: np.ndarray  # occurrences
    suffixes: np.ndarray  # without the first word: index into the level below
    parents: np.ndarray  # without the last word: index into the level below

    def __len__(self) -> int:
        return len(self.words)


@dataclass
class Levels:
    """Levels 1..n. `<s>` has the highest word id, so n-grams that begin with it are the tails of levels."""

    vocab_size: int
    levels: list[Level]
    bos_begin: list[int] = field(default_factory=list)  # where n-grams that begin with <s> start


def count_ngrams(
    ids: np.ndarray,
    order: int,
    vocab_size: int,
    eos_id: int,
    workspace: Workspace,
    span: tuple[int, int] | None = None,
) -> Levels:
    """Count all n-grams up to `order`. `ids` holds whole units, each closed by `eos_id`.

    `span`: only those that begin there; the ids around it say whether a unit begins, and what follows.
    """
    begin, end = span or (0, len(ids))
    size = max(
        workspace.memory // memory_needed(1, order) if workspace.memory else end - begin,
        4 * order,
        1,
    )
    size = min(size, MOST_IN_BLOCK)
    bounds = [(lo, min(lo + size, end)) for lo in range(begin, end, size)]
    with progress.task(
        f"counting n-grams of order 1 to {order}", (end - begin) * order, "tokens"
    ) as bar:
        runs = [
            _count_block(ids, lo, hi, order, vocab_size, eos_id, workspace, bar)
            for lo, hi in bounds
        ]
    if len(runs) == 1:
        return runs[0]
    progress.say(f"merging {len(runs)} sorted runs from disk ")
    return merge(runs, order, workspace)


def memory_needed(n_tokens: int, order: int) -> int:
    """Return the bytes that counting and estimating so many tokens takes if nearly every n-gram is
    new.
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
    """Count the n-grams that start in ids[lo:hi], as levels; the last of them reach beyond `hi`."""
    from seqloom.kernels.ngram_count import insert_bos

    bos = vocab_size
    overlap = 0
    while lo + overlap < len(ids) and overlap < order - 1 and ids[hi + overlap - 1] != eos_id:
        overlap += 1
    block = ids[lo : hi + overlap].astype(np.uint32, copy=False)
    seq = np.empty(len(block) + int(np.count_nonzero(block == eos_id)) + 1, np.uint32)
    length = insert_bos(block, eos_id, bos, lo == 0 or ids[lo - 1] == eos_id, seq)
    seq = seq[:length]
    return _count_sequence(
        seq, length - overlap, order, vocab_size, eos_id, workspace, bar, hi - lo
    )


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
    counted = Levels(vocab_size, [level], [vocab_size])
    if order == 1:
        bar.advance(n_tokens)
        return counted
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
        counted.levels.append(level)
        counted.bos_begin.append(int(bucket[vocab_size]))
        bar.advance(n_tokens)
    return counted


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
    # At least n_words positions, because each chunk has a counter for every word.
    spans = chunk_bounds(n, max(n // 8 + 1, 1 << 16, n_words))
    before = np.empty(n, np.int32)
    histograms = np.zeros((len(spans), n_words), np.int64)
    source = np.empty(n, np.uint32) if positions is None else positions

    def count_words(i: int) -> None:
        if positions is None:
            kernel.word_here(seq, *spans[i], before, source, histograms[i])
        else:
            kernel.word_before(seq, source, *spans[i], eos_id, before, histograms[i])

    parallel_run(count_words, range(len(spans)))
    starts = np.zeros(n_words + 1, np.int64)
    np.cumsum(histograms.sum(axis=0), out=starts[1:])
    chunk_starts = starts[:-1] + np.cumsum(histograms, axis=0) - histograms
    total = int(starts[-1])
    out_positions, out_suffixes = np.empty(total, np.uint32), np.empty(total, np.uint32)
    suffixes = source if groups is None else groups

    def scatter_chunk(i: int) -> None:
        kernel.scatter(
            before, source, suffixes, *spans[i], chunk_starts[i], out_positions, out_suffixes
        )

    parallel_run(scatter_chunk, range(len(spans)))
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


def merge(runs: list[Levels], order: int, workspace: Workspace) -> Levels:
    """Merge the levels of the runs into their union; both are sorted in the same order."""
    vocab_size = runs[0].vocab_size
    n_words = vocab_size + 1
    counts = np.stack([r.levels[0].counts for r in runs]).sum(axis=0, dtype=np.int64)
    count_type = place_type(int(counts.sum()))
    counts = counts.astype(count_type)
    first = runs[0].levels[0]
    merged = Levels(
        vocab_size, [Level(first.words, counts, first.suffixes, first.parents)], [vocab_size]
    )
    merged_index = [np.arange(n_words, dtype=np.uint32)] * len(runs)
    for k in range(1, order):
        levels = [r.levels[k] for r in runs]
        level, merged_index = _merge_level(
            levels, merged_index, workspace, count_type, len(merged.levels[-1]), vocab_size
        )
        merged.levels.append(level)
        bos_parent = merged.bos_begin[-1] if k > 1 else vocab_size
        merged.bos_begin.append(int(np.searchsorted(level.parents, bos_parent)))
        for r in runs:
            r.levels[k] = r.levels[0]  # free what has been merged
    return merged


def _merge_level(
    levels: list[Level],
    parent_index: list[np.ndarray],
    workspace: Workspace,
    count_type: np.dtype,
    n_parents: int,
    vocab_size: int,
) -> tuple[Level, list[np.ndarray]]:
    """Merge one level of all runs, a range of parents at a time so that memory stays bounded.

    `parent_index`: for each run, the index in the merged level below of each n-gram of that level;
    the same is returned for this level.
    """
    from seqloom.kernels.ngram_count import merge_runs

    max_size = sum(len(p) for p in levels)
    bits = vocab_size.bit_length()  # of a word, `<s>` included
    above, here = place_type(n_parents), place_type(max_size)
    words, counts = workspace.empty(max_size, np.uint32), workspace.empty(max_size, count_type)
    suffixes, parents = workspace.empty(max_size, above), workspace.empty(max_size, above)
    merged_index = [workspace.empty(len(p), here) for p in levels]
    step = max((workspace.memory or 1 << 30) // (256 * len(levels)), 1 << 10)
    heads, n = [0] * len(levels), 0
    with progress.task("merging", max_size, "n-grams") as bar:
        while any(h < len(p) for h, p in zip(heads, levels)):
            ends = _block_ends(levels, parent_index, heads, step)
            workspace.release(
                *(a for p in levels for a in (p.words, p.counts, p.suffixes, p.parents))
            )
            keys = [
                _keys(p, index, h, e, bits)
                for p, index, h, e in zip(levels, parent_index, heads, ends)
            ]
            begins = np.cumsum([0] + [len(k) for k in keys], dtype=np.int64)
            size = int(begins[-1])
            out_keys, out_counts = np.empty(size, np.int64), np.empty(size, count_type)
            out_suffixes, index = np.empty(size, above), np.empty(size, np.uint32)
            n_merged = merge_runs(
                np.concatenate(keys),
                np.concatenate([p.counts[h:e] for p, h, e in zip(levels, heads, ends)]),
                np.concatenate(
                    [x[p.suffixes[h:e]] for x, p, h, e in zip(parent_index, levels, heads, ends)]
                ),
                begins,
                out_keys,
                out_counts,
                out_suffixes,
                index,
            )
            words[n : n + n_merged] = (out_keys[:n_merged] & ((1 << bits) - 1)).astype(np.uint32)
            parents[n : n + n_merged] = (out_keys[:n_merged] >> bits).astype(above)
            counts[n : n + n_merged], suffixes[n : n + n_merged] = (
                out_counts[:n_merged],
                out_suffixes[:n_merged],
            )
            for r, (h, e) in enumerate(zip(heads, ends)):
                merged_index[r][h:e] = index[begins[r] : begins[r + 1]] + here.type(n)
            heads, n = ends, n + n_merged
            workspace.release(words, counts, suffixes, parents, *merged_index)
            workspace.relieve()
            bar.advance(size)
    workspace.release(
        *(a for p in levels for a in (p.words, p.counts, p.suffixes, p.parents)), *parent_index
    )
    return Level(words[:n], counts[:n], suffixes[:n], parents[:n]), merged_index


def _keys(level: Level, parent_index: np.ndarray, lo: int, hi: int, bits: int) -> np.ndarray:
    """Return the places of the parents and the words, of so many bits, as single numbers."""
    return (parent_index[level.parents[lo:hi]].astype(np.int64) << bits) | level.words[lo:hi]


def _block_ends(
    levels: list[Level], parent_index: list[np.ndarray], heads: list[int], step: int
) -> list[int]:
    """Find the ends of the next block of each run, such that the children of one merged parent stay
    together.
    """
    tops = [
        int(index[p.parents[min(h + step, len(p)) - 1]])
        for p, index, h in zip(levels, parent_index, heads)
        if h < len(p)
    ]
    last_parent = min(tops)  # every block reaches at least this parent
    ends = []
    for p, index, h in zip(levels, parent_index, heads):
        n_parents = int(np.searchsorted(index, last_parent, side="right"))
        ends.append(max(h, int(np.searchsorted(p.parents, n_parents))))
    return ends
