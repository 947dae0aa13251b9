"""Translating on a CPU: a Transformer against Hugging Face Marian `generate` and CTranslate2, an
RNN against a loop over torch.

Every engine runs in a process of its own, since their threads disturb each other; they are asked in
turns. Transformers have random weights of the same sizes, and every translation is made exactly as
long. Every turn has new sources, whose tokens are as frequent as words are (Zipf). The RNN of torch
has the weights of ours, and both must write the same tokens. Peers that are not installed are named
and skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.side_by_side import SMOKE, alternate, collect, sized, table

Row = tuple[str, str, str, str]
Engine = Callable[
    [int, int, int], tuple[float, list[int]]
]  # sources, beams, turn: seconds, tokens of the first translation
WIDTH, LAYERS, HEADS, VOCABULARY, FEW = sized(
    (256, 3, 4, 8000, 64), (16, 1, 4, 100, 64)
)  # FEW: a vocabulary of characters
SOURCE, TARGET = 16, 24  # tokens of each
SENTENCES = sized(20, 2)  # of Multi30k in one turn
EOS = 0
SETTINGS = ((1, 1), (1, 5), (32, 1), (32, 5))


def run(quick: bool, only: str) -> None:
    rows = collect(
        {
            "transformer": partial(transformers, quick),
            "rnn": partial(recurrent, quick),
            "multi30k": partial(multi30k, quick),
        },
        only,
    )
    table(
        f"Translating, {SOURCE} source and {TARGET} target tokens, sources read included",
        rows,
        ("what", "peer", "seqloom", "ratio"),
    )


def transformers(quick: bool) -> Iterator[Row]:
    what = f"Transformer {LAYERS}+{LAYERS} x {WIDTH}, V = {VOCABULARY:,}"
    for peer in sized(("hugging_face", "ctranslate2", "ctranslate2_one_thread"), ("",)):
        yield from compare(what, "seqloom_transformer", peer, SETTINGS, 2 if quick else 5)


def recurrent(quick: bool) -> Iterator[Row]:
    for vocabulary in sized((VOCABULARY, FEW), (FEW,)):
        for peer in sized(("torch_rnn", "torch_rnn_one_thread"), ("torch_rnn",)):
            yield from compare(
                f"BiGRU and GRU {WIDTH}, additive attention, V = {vocabulary:,}",
                f"seqloom_rnn:{vocabulary}",
                f"{peer}:{vocabulary}",
                ((1, 1), (32, 1)),
                2 if quick else 5,
                same=True,
            )


def multi30k(quick: bool) -> Iterator[Row]:
    """The trained model of `translate --only attention` on sentences of test2016, one after the
    other, text to text.
    """
    import seqloom
    from benchmarks.translate import saved, translator

    if SMOKE:
        translator("attention", quick)
    if not saved("attention").exists():
        print(
            '(skipped: the attention model of Multi30k is not fitted; make bench ARGS="translate '
            '--only attention")'
        )
        return
    vocabulary = seqloom.load(saved("attention")).target_tokenizer.vocab_size
    for peer in sized(("torch_multi30k", "torch_multi30k_one_thread"), ("torch_multi30k",)):
        with Asked("seqloom_multi30k") as our, Asked(peer) as other:
            assert our(SENTENCES, 1)[1] == other(SENTENCES, 1)[1], (
                f"{peer} writes another translation"
            )
            ratio = alternate(
                lambda: our(SENTENCES, 1)[0], lambda: other(SENTENCES, 1)[0], 2 if quick else 9
            )
            rates = [
                f"{SENTENCES / seconds:,.0f} sentences/s" for seconds in (ratio.peer, ratio.ours)
            ]
            yield (
                f"trained on Multi30k, V = {vocabulary:,}, sentences of test2016 one at a time, "
                f"text to text, greedy",
                f"{peer.replace('_', ' ')}: {rates[0]}",
                rates[1],
                str(ratio),
            )


def compare(
    what: str,
    ours: str,
    peer: str,
    settings: tuple[tuple[int, int], ...],
    times: int,
    *,
    same: bool = False,
) -> Iterator[Row]:
    with Asked(ours) as our, Asked(peer) as other:
        if not other.there:
            print(f"(skipped: {peer} is not installed)")
        for sources, beams in settings:
            tokens = our(sources, beams)[1]
            assert not same or tokens == other(sources, beams)[1], (
                f"{peer} writes other tokens than {ours}"
            )
            ratio = alternate(
                lambda s=sources, b=beams: our(s, b)[0],  # type: ignore[misc]
                other.there and (lambda s=sources, b=beams: other(s, b)[0]),
                times,
            )  # type: ignore[misc]
            search = "greedy" if beams == 1 else f"beam {beams}"
            rates = [
                f"{sources * TARGET / seconds:,.0f} tokens/s"
                for seconds in (ratio.peer, ratio.ours)
            ]
            name = peer.partition(":")[0].replace("_", " ")
            yield (
                f"{what}, {sources} at a time, {search}",
                f"{name}: {rates[0]}",
                rates[1],
                str(ratio),
            )


class Asked:
    """An engine in a process of its own."""

    def __init__(self, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.translate_speed", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.there, self.turn = self._answer() == "ready", 0

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __call__(self, sources: int, beams: int) -> tuple[float, list[int]]:
        assert self.process.stdin is not None
        time.sleep(sized(0.3, 0))  # until the threads of the other one sleep
        self.turn += 1
        print(sources, beams, self.turn, file=self.process.stdin, flush=True)
        seconds, tokens = json.loads(self._answer())
        return seconds, tokens

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def serve(name: str) -> None:
    engine, _, vocabulary = name.partition(":")
    try:
        translate = ENGINES[engine](int(vocabulary or VOCABULARY))
    except (ImportError, KeyError):
        return
    print("ready", flush=True)
    for line in sys.stdin:
        sources, beams, turn = map(int, line.split())
        translate(sources, beams, 10 * turn)  # once to warm up
        made = [
            translate(sources, beams, 10 * turn + k) for k in range(1, 6 if sources == 1 else 3)
        ]
        print(json.dumps((min(seconds for seconds, _ in made), made[0][1])), flush=True)


def source_ids(n: int, vocabulary: int, turn: int) -> np.ndarray:
    shares = 1 / np.arange(1, vocabulary - 3)
    return (
        np.random.default_rng(turn).choice(vocabulary - 4, (n, SOURCE), p=shares / shares.sum()) + 4
    )


def source_texts(n: int, vocabulary: int, turn: int) -> list[str]:
    return [" ".join(f"w{i}" for i in row) for row in source_ids(n, vocabulary, turn).tolist()]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


# ---- engines


def seqloom_engine(model: Any, vocabulary: int) -> Engine:
    from seqloom.decoding.beam import beam_search, greedy

    def translate(n: int, beams: int, turn: int) -> tuple[float, list[int]]:
        texts = source_texts(n, vocabulary, turn)

        def search() -> list[int]:
            stepper = model.decoder(texts)
            stepper.eos_id = -1  # so that no translation ends
            if beams == 1:
                return greedy(stepper, n, TARGET)[0][0].tolist()
            return beam_search(
                stepper, [np.zeros(0, np.int64)] * n, beams=beams, max_tokens=TARGET
            )[0][0].ids.tolist()

        return timed(search)

    return translate


def with_drawn_weights(model: Any, vocabulary: int) -> Any:
    """A translator of the words w4, w5, ... with larger weights than before training, so that not
    all steps write the same.
    """
    from seqloom.training.config import TrainConfig

    words = [f"w{i}" for i in range(4, vocabulary)]
    pairs = [
        (text, text)
        for low in range(0, len(words), 50)
        if (text := " ".join(words[low : low + 50]))
    ]
    model.fit(pairs, train=TrainConfig(steps=1))
    rng = np.random.default_rng(0)
    model.restore_arrays(
        {name: drawn(rng, name, array.shape) for name, array in sorted(model.weights.items())}
    )
    return model


def drawn(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if "norm" in name and name.endswith("weight"):
        return np.ones(shape, np.float32)
    return rng.normal(0, 1.0 if "embedding" in name else 2 * shape[-1] ** -0.5, shape).astype(
        np.float32
    )


def transformer_model(vocabulary: int = VOCABULARY) -> Any:
    from seqloom import Transformer

    model = Transformer(
        tokenizer="whitespace",
        d_model=WIDTH,
        n_layers=LAYERS,
        n_decoder_layers=LAYERS,
        n_heads=HEADS,
    )
    return with_drawn_weights(model, vocabulary)


def seqloom_transformer(vocabulary: int) -> Engine:
    return seqloom_engine(transformer_model(vocabulary), vocabulary)


def hugging_face(vocabulary: int) -> Engine:
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        pad_token_id=1,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH,
        activation_function="relu",
        eos_token_id=EOS,
        forced_eos_token_id=None,
        decoder_start_token_id=EOS,
        max_position_embeddings=256,
    )
    network = MarianMTModel(config).eval()

    def translate(n: int, beams: int, turn: int) -> tuple[float, list[int]]:
        ids = torch.from_numpy(source_ids(n, vocabulary, turn))
        with torch.inference_mode():
            seconds, found = timed(
                lambda: network.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    num_beams=beams,
                    do_sample=False,
                    min_new_tokens=TARGET,
                    max_new_tokens=TARGET,
                )
            )
        assert found.shape[1] == TARGET + 1
        return seconds, found[0, 1:].tolist()

    return translate


def ctranslate2(vocabulary: int, threads: int = 0) -> Engine:
    """`threads` 0: as many as it likes. For one sentence at a time they are a burden to it."""
    import ctranslate2 as ct2

    spec = ct2.specs.TransformerSpec.from_config(
        LAYERS, HEADS, pre_norm=True, activation=ct2.specs.Activation.RELU
    )
    rng = np.random.default_rng(0)

    def linear(part: Any, rows: int, columns: int) -> None:
        part.weight, part.bias = (
            rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32),
            np.zeros(rows, np.float32),
        )

    def norm(part: Any) -> None:
        part.gamma, part.beta = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)

    for side, cross in ((spec.encoder, False), (spec.decoder, True)):
        embeddings = side.embeddings if cross else side.embeddings[0]
        embeddings.weight = rng.normal(0, WIDTH**-0.5, (vocabulary, WIDTH)).astype(np.float32)
        norm(side.layer_norm)
        for layer in side.layer:
            parts = [layer.self_attention, *([layer.attention] if cross else [])]
            for part in parts:
                norm(part.layer_norm)
            for part, rows in zip(layer.self_attention.linear, (3 * WIDTH, WIDTH)):
                linear(part, rows, WIDTH)
            for part, rows in zip(
                layer.attention.linear if cross else (), (WIDTH, 2 * WIDTH, WIDTH)
            ):
                linear(part, rows, WIDTH)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, 4 * WIDTH, WIDTH)
            linear(layer.ffn.linear_1, WIDTH, 4 * WIDTH)
    linear(spec.decoder.projection, vocabulary, WIDTH)
    words = ["</s>", "<s>", "<unk>", "<pad>", *(f"w{i}" for i in range(4, vocabulary))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    with tempfile.TemporaryDirectory(prefix="seqloom-translate-") as place:
        spec.validate()
        spec.optimize()
        spec.save(place)
        translator = ct2.Translator(
            place, device="cpu", compute_type="float32", intra_threads=threads
        )

    def translate(n: int, beams: int, turn: int) -> tuple[float, list[int]]:
        texts = [[words[i] for i in row] for row in source_ids(n, vocabulary, turn).tolist()]
        seconds, found = timed(
            lambda: translator.translate_batch(
                texts,
                beam_size=beams,
                min_decoding_length=TARGET,
                max_decoding_length=TARGET,
                max_batch_size=n,
            )
        )
        assert all(len(one.hypotheses[0]) == TARGET for one in found)
        return seconds, [words.index(word) for word in found[0].hypotheses[0]]

    return translate


def rnn_model(vocabulary: int) -> Any:
    from seqloom import Seq2Seq

    return with_drawn_weights(
        Seq2Seq(tokenizer="whitespace", d_embed=WIDTH, d_hidden=WIDTH), vocabulary
    )


def seqloom_rnn(vocabulary: int) -> Engine:
    return seqloom_engine(rnn_model(vocabulary), vocabulary)


def torch_rnn(vocabulary: int, threads: int = 0) -> Engine:
    """`threads` 0: as many as it likes."""
    import torch

    from benchmarks.translate_loop import Loop

    if threads:
        torch.set_num_threads(threads)
    model = rnn_model(vocabulary)
    loop, source = Loop(dict(model.weights)).eval(), model.tokenizers["source"]

    def translate(n: int, beams: int, turn: int) -> tuple[float, list[int]]:
        assert beams == 1, "the loop is greedy"
        texts = source_texts(n, vocabulary, turn)
        ids = torch.from_numpy(
            np.stack([np.append(source.encode(text), source.eos_id) for text in texts])
        )
        seconds, found = timed(lambda: loop.greedy(ids, model.target_tokenizer.eos_id, TARGET))
        return seconds, found[0].tolist()

    return translate


def sentences(n: int, turn: int) -> list[str]:
    from benchmarks.translate import part

    test = part("test_2016_flickr")
    assert test is not None
    return [test[(turn * n + k) % len(test)][0] for k in range(n)]


def seqloom_multi30k(_: int) -> Engine:
    import seqloom
    from benchmarks.translate import saved

    model = seqloom.load(saved("attention"))

    def translate(n: int, beams: int, turn: int) -> tuple[float, list[int]]:
        texts = sentences(n, turn)
        seconds, made = timed(lambda: [model.translate(text, beams=beams) for text in texts])
        return seconds, list(made[0].encode())

    return translate


def torch_multi30k(_: int, threads: int = 0) -> Engine:
    import torch

    import seqloom
    from benchmarks.translate import saved

    if threads:
        torch.set_num_threads(threads)
    one = torch_translator(seqloom.load(saved("attention")))

    def translate(n: int, beams: int, turn: int) -> tuple[float, list[int]]:
        texts = sentences(n, turn)
        seconds, made = timed(lambda: [one(text) for text in texts])
        return seconds, list(made[0].encode())

    return translate


def torch_translator(model: Any) -> Callable[[str], str]:
    """A text to its translation by the loop with the weights of a fitted model."""
    import torch

    from benchmarks.translate_loop import Loop

    loop, source, target = (
        Loop(dict(model.weights)).eval(),
        model.tokenizers["source"],
        model.target_tokenizer,
    )

    def one(text: str) -> str:
        ids = torch.from_numpy(np.append(source.encode(text), source.eos_id))[None]
        return target.decode(
            loop.greedy(ids, target.eos_id, 3 * ids.shape[1] + 10, ends=True)[0].numpy()
        )

    return one


ENGINES: dict[str, Callable[[int], Engine]] = {
    "seqloom_transformer": seqloom_transformer,
    "hugging_face": hugging_face,
    "ctranslate2": ctranslate2,
    "seqloom_rnn": seqloom_rnn,
    "torch_rnn": torch_rnn,
    "torch_rnn_one_thread": partial(torch_rnn, threads=1),
    "seqloom_multi30k": seqloom_multi30k,
    "torch_multi30k": torch_multi30k,
    "torch_multi30k_one_thread": partial(torch_multi30k, threads=1),
    "ctranslate2_one_thread": partial(ctranslate2, threads=1),
}

if __name__ == "__main__":
    serve(sys.argv[1])
