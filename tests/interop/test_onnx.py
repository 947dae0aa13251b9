"""ONNX files: every network on several batch sizes and lengths in onnxruntime, and used without seqloom."""

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from seqloom.encoder_table import ENCODERS
from seqloom.interop.onnx import (
    export,
    greatest_difference,
    open_session,
    outputs_of,
)
from seqloom.interop.onnx_files import tokenizer_text
from seqloom.interop.onnx_net import make_graph
from seqloom.registry import model_class
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.config import TrainConfig
from tests.fuzz.specimens import (
    LABELLED,
    QUESTIONS,
    REVERSED,
    SPECIMENS,
    TAGGED,
    TEXT,
    WAVE,
    _frames,
    _numbers,
    random_encoder,
)

ENCODER_NAMES = [*ENCODERS]
SMALL = {"d_hidden": 8, "d_embed": 6, "dropout": 0.0}
TINY = {"d_model": 8, "n_heads": 2, "n_layers": 1, "n_decoder_layers": 1, "dropout": 0.0}


def fitted(name, data, **options):
    """A network after one step, with weights so large that what is wrong is seen."""
    lines = {"truncation": 4} if name in ("rnn", "lstm", "gru", "nplm") else {}
    train = TrainConfig(steps=1, batch_size=2, **lines)
    model = model_class(name)(**options).fit(data, train=train)
    network = model.network()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=generator)
    model.net.keep(network)
    return model


def sized(options):
    """Small sizes, those that the encoder has."""
    options = {**SMALL, **options}
    if options.get("encoder") == "bag":
        del options["d_hidden"]
    return options


def language(name, **options):
    return lambda: fitted(name, TEXT, **{"tokenizer": "whitespace", **options})


def classifier(data=LABELLED, **options):
    return lambda: fitted("classifier", data, **sized(options))


def tagger(**options):
    return lambda: fitted("tagger", TAGGED * 3, **sized(options))


def seq2seq(data=REVERSED, **options):
    return lambda: fitted("seq2seq", data, **{"tokenizer": "char", **SMALL, **options})


def transformer(data=REVERSED, **options):
    return lambda: fitted("transformer", data, **{"tokenizer": "char", **TINY, **options})


def on_encoder(name, data, layout=None, **options):
    """A network on an encoder of a layout, such as one without types."""

    def make():
        with TemporaryDirectory() as place:
            sizes = {"context": 24, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_mlp": 12}
            encoder = random_encoder("bert", **sizes, **(layout or {}))
            encoder.save(f"{place}/encoder")
            return fitted(name, data, encoder=f"{place}/encoder", **options)

    return make


def answerer(**options):
    return lambda: fitted("answerer", QUESTIONS * 3, **sized(options))


def forecaster(data=WAVE, **options):
    options = {"horizon": 4, "window": 8, "d_hidden": 8, **options}
    return lambda: fitted("forecaster", data, **options)


PAIRED = [((text, text[::-1]), label) for text, label in LABELLED]
GAPS = [None if i % 5 == 3 else x for i, x in enumerate(WAVE)]
GPT = {"d_model": 8, "n_heads": 2, "n_layers": 2, "context": 16, "dropout": 0.0}
NETWORKS = {
    **{
        f"{cell} {name}": language(cell, d_hidden=8, d_embed=6, **options)
        for cell in ("rnn", "lstm", "gru")
        for name, options in {
            "plain": {},
            "deep": {"n_layers": 2, "residual": True},
            "normed": {"layer_norm": True, "learned_start": True},
            "adaptive": {"softmax": "adaptive"},
        }.items()
    },
    "rnn relu": language("rnn", d_hidden=8, activation="relu"),
    "rnn sigmoid": language("rnn", d_hidden=8, activation="sigmoid"),
    "rnn pascanu": language("rnn", d_hidden=8, recurrence="pascanu", clamp=0.5),
    "rnn continuous": language("rnn", d_hidden=8, recurrence="continuous", time_step=0.3),
    "lstm varied": language(
        "lstm", d_hidden=8, gate_activation="hard-sigmoid", activation="leaky-relu", clamp=0.5
    ),
    "gru varied": language(
        "gru", d_hidden=8, gate_activation="hard-sigmoid", activation="leaky-relu", clamp=0.5
    ),
    "lstm norm states": language("lstm", d_hidden=8, norm="states"),
    "gru shrinks": language("gru", d_hidden=8, n_layers=2, shrink=0.5, norm="between"),
    "lstm projected": language("lstm", d_hidden=8, d_projection=5),
    "gru before": language("gru", d_hidden=8, reset="before"),
    "gru replace": language("gru", d_hidden=8, update="replace"),
    "nplm": language("nplm", order=4, d_hidden=8),
    "nplm bigram": language("nplm", order=2, d_hidden=8),
    **{
        f"gpt {positions}": language("gpt", **GPT, positions=positions)
        for positions in ("learned", "sinusoidal", "rope", "alibi", "relative")
    },
    "gpt window": language("gpt", **GPT, positions="rope", window=3),
    "gpt window alibi": language("gpt", **GPT, positions="alibi", window=3),
    "gpt llama": language(
        "gpt",
        **GPT,
        positions="rope",
        n_kv_heads=1,
        norm_kind="rms",
        activation="swiglu",
        bias=False,
    ),
    "gpt post": language("gpt", **GPT, norm="post", activation="relu", tied=False),
    **{f"classifier {name}": classifier(encoder=name) for name in ENCODER_NAMES},
    "classifier varied": classifier(encoder="birnn", recurrence="pascanu", norm="states"),
    **{
        f"classifier {pooling} {name}": classifier(encoder=name, pooling=pooling)
        for pooling in ("last", "mean", "max", "attention")
        for name in ("bilstm", "transformer")
    },
    "classifier several": classifier([(text, [label]) for text, label in LABELLED]),
    "classifier cnn of characters": classifier(characters="cnn", d_characters=4),
    "classifier lstm of characters": classifier(characters="lstm", d_characters=4),
    "classifier of numbers": classifier(_numbers(), encoder="gru", d_embed=None),
    "classifier windows": classifier(long="windows", max_length=4),
    "classifier sentences": classifier(long="sentences"),
    **{
        f"tagger {name} {'crf' if crf else ''}": tagger(encoder=name, crf=crf)
        for name in ENCODER_NAMES
        for crf in (True, False)
    },
    "tagger lstm of characters": tagger(characters="lstm", d_characters=4),
    "tagger without characters": tagger(characters="none"),
    **{f"forecaster {name}": forecaster(encoder=name) for name in ENCODER_NAMES},
    "forecaster instance": forecaster(normalise="instance", highway=False),
    "forecaster of columns": forecaster(
        np.array([WAVE, WAVE[::-1]]).T.tolist(), columns="together"
    ),
    "forecaster of separate columns": forecaster(np.array([WAVE, WAVE[::-1]]).T.tolist()),
    "forecaster of gaps": forecaster(GAPS),
    "forecaster of columns with gaps": forecaster(np.array([GAPS, WAVE], float).T.tolist()),
    **{f"answerer {name}": answerer(encoder=name) for name in ENCODER_NAMES},
    "answerer with short answers": answerer(max_answer=2, encoder="gru"),
    "answerer cnn of characters": answerer(characters="cnn", d_characters=4),
    "answerer on an encoder": on_encoder("answerer", QUESTIONS * 3),
    "answerer on one without types": on_encoder("answerer", QUESTIONS * 3, {"n_types": 0}),
    "classifier windows of characters": classifier(
        long="windows", max_length=4, characters="cnn", d_characters=4
    ),
    "classifier windows of numbers": classifier(
        _numbers(), encoder="gru", d_embed=None, long="windows", max_length=2
    ),
    **{
        f"classifier {long} on an encoder": on_encoder(
            "classifier", LABELLED, long=long, max_length=8
        )
        for long in ("truncate", "windows", "sentences")
    },
    **{
        f"classifier of pairs, {n} types": on_encoder("classifier", PAIRED, {"n_types": n})
        for n in (0, 1, 2)
    },
    "tagger on an encoder": on_encoder("tagger", TAGGED * 3),
    **{
        f"seq2seq {score}": seq2seq(attention=score)
        for score in ("additive", "dot", "general", "concat", "scaled", "none")
    },
    **{f"seq2seq from {name}": seq2seq(encoder=name) for name in ENCODER_NAMES},
    **{f"seq2seq by {cell}": seq2seq(cell=cell, n_decoder_layers=2) for cell in ("rnn", "lstm")},
    "seq2seq covering": seq2seq(coverage=True),
    "seq2seq feeding": seq2seq(input_feeding=True),
    "seq2seq feeding and covering": seq2seq(
        input_feeding=True, coverage=True, cell="lstm", n_decoder_layers=2
    ),
    "seq2seq one network": seq2seq(
        one_network=True, shared_vocabulary=True, cell="lstm", attention="none"
    ),
    "seq2seq every step": seq2seq(attention="none", bottleneck="every-step"),
    "seq2seq of numbers": seq2seq(_frames()),
    "transformer": transformer(),
    "transformer learned": transformer(positions="learned", context=40, max_length=40, norm="post"),
    "transformer t5": transformer(
        positions="t5", norm_kind="rms", bias=False, activation="geglu", scaled_attention=False
    ),
    "transformer shared": transformer(shared_vocabulary=True),
    "transformer of numbers": transformer(_frames()),
    **{
        name: SPECIMENS[name]
        for name in (
            "bert",
            "bert-albert",
            "bert-without-head",
            "sentence-encoder",
            "sentence-encoder-shared",
            "classifier-published",
            "classifier-pairs",
            "tagger-published",
        )
    },
}


def worst_difference(model, path, rows=(1, 3, 7), lengths=(1, 6, 13)):
    """The greatest difference of onnxruntime to our network, over batch sizes and lengths."""
    graph = make_graph(model, "it")
    export(graph, path)
    session, rng, worst = open_session(path), np.random.default_rng(3), 0.0
    for steps in lengths:
        for many in rows:
            batch = graph.draw(many, graph.shortest - 1 + steps, rng)
            found, ours = session.run(None, batch), outputs_of(graph, batch)
            assert [x.shape for x in found] == [x.shape for x in ours]
            assert greatest_difference(found, ours) < 1e-4, (many, steps)
            worst = max(
                worst,
                *(
                    float(np.abs(a[np.isfinite(b)] - b[np.isfinite(b)]).max(initial=0.0))
                    for a, b in zip(found, ours)
                ),
            )
    return worst


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_gives_the_same_on_other_batches(name, tmp_path):
    assert worst_difference(NETWORKS[name](), tmp_path / "model.onnx") < 1e-4


# ---- files


def used(folder, *arguments, stem="model"):
    """What the script beside a file prints, where seqloom and torch cannot be imported."""
    code = (
        "import runpy, sys; sys.modules['seqloom'] = sys.modules['torch'] = None; "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    script = Path(folder) / f"use_{stem}.py"
    done = subprocess.run(
        [sys.executable, "-c", code, str(script), *arguments],
        capture_output=True,
        encoding="utf-8",
        env={"PYTHONUTF8": "1"},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in script.read_text("utf-8").splitlines()[1:] if line.strip()]
    assert len(lines) <= 15, "a short script"
    assert max(map(len, lines)) <= 110 + len(stem) * 2, "a legible one"
    return done.stdout


def exported(model, folder):
    from seqloom import interop

    interop.write_onnx(model, folder / "model.onnx")
    return model


TOKENIZERS = ("whitespace", "word", "char", "byte", "bpe", "unigram", "wordpiece")


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_language_model_scores_without_seqloom(tokenizer, tmp_path):
    model = exported(language("gru", d_hidden=8, tokenizer=tokenizer)(), tmp_path)
    text = "the cat don't sat on: a mat 42"
    first, *following = used(tmp_path, text).splitlines()
    log_prob = float(first.split()[-1])
    by_us = model.sequence_log_probs(
        model.tokenizer.encode(text), np.array([len(model.tokenizer.encode(text))])
    )
    assert log_prob == pytest.approx(float(by_us.sum()), abs=1e-3)
    assert len(following) == 5


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_no_text_is_a_mark_and_letters_are_made_small_as_here(tokenizer, tmp_path):
    import tokenizers

    lower = {"normalize": "case=lower"} if tokenizer in ("whitespace", "word", "char") else {}
    size = {"vocab_size": 300} if tokenizer in ("bpe", "unigram", "wordpiece") else {}
    texts = ["the </s> cat <unk> ΟΔΟΣ ΣΑΣ, ΑΣ' Σ", "ο δ σ ς α οδος σας ας </s>"]
    ours = Tokenizer(kind=tokenizer, **lower, **size).fit(texts * 3)
    (tmp_path / "it.json").write_text(tokenizer_text(ours), "utf-8")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "it.json"))
    theirs.encode_special_tokens = True
    for text in texts:
        found = theirs.encode(text, add_special_tokens=False).ids
        assert found == ours.encode(text).tolist()


@pytest.mark.parametrize(
    "name",
    [
        "classifier bilstm",
        "classifier several",
        "classifier cnn of characters",
        "classifier windows",
        "classifier windows of characters",
        "classifier truncate on an encoder",
        "classifier windows on an encoder",
    ],
)
def test_a_classifier_predicts_without_seqloom(name, tmp_path):
    model = exported(NETWORKS[name](), tmp_path)
    text = "a good Day and so dull a road"
    printed = dict(line.rsplit(" ", 1) for line in used(tmp_path, text).splitlines())
    ours = np.exp(model.class_log_probs([text])[0])
    assert [float(printed[str(label)]) for label in model.classes] == pytest.approx(ours, abs=1e-4)


def test_a_classifier_of_numbers_and_one_of_sentences_predict_without_seqloom(tmp_path):
    model = exported(NETWORKS["classifier of numbers"](), tmp_path)
    rows = [[0.5, 1.5], [1.0, -2.0], [0.25, 0.0]]
    printed = [float(line.split()[-1]) for line in used(tmp_path, json.dumps(rows)).splitlines()]
    assert printed == pytest.approx(np.exp(model.class_log_probs([np.array(rows)])[0]), abs=1e-4)
    model = exported(NETWORKS["classifier sentences"](), tmp_path)
    printed = used(tmp_path, "A good day.", "The road is long.").splitlines()
    ours = np.exp(model.class_log_probs(["A good day. The road is long."])[0])
    assert [float(line.split()[-1]) for line in printed] == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize(
    ("normalize", "text"),
    [("none", "A good DAY"), ("case=lower", "A good DAY"), ("unicode=nfkc", "ﬁne dull")],
)
def test_spelled_words_are_read_as_they_were_in_training(normalize, text, tmp_path):
    options = {"characters": "cnn", "d_characters": 4, "normalize": normalize}
    model = exported(classifier(**options)(), tmp_path)
    printed = [float(line.split()[-1]) for line in used(tmp_path, text).splitlines()]
    assert printed == pytest.approx(np.exp(model.class_log_probs([text])[0]), abs=1e-4)


def test_long_numbers_and_sentences_on_an_encoder_predict_without_seqloom(tmp_path):
    model = exported(NETWORKS["classifier windows of numbers"](), tmp_path)
    rows = [[float(i % 3), -0.5 * i] for i in range(7)]
    printed = [float(line.split()[-1]) for line in used(tmp_path, json.dumps(rows)).splitlines()]
    assert printed == pytest.approx(np.exp(model.class_log_probs([np.array(rows)])[0]), abs=1e-4)
    model = exported(NETWORKS["classifier sentences on an encoder"](), tmp_path)
    said = ["A good day.", "The road is long, as roads are when days are dull."]
    printed = [float(line.split()[-1]) for line in used(tmp_path, *said).splitlines()]
    ours = np.exp(model.class_log_probs([" ".join(said)])[0])
    assert printed == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize("types", [0, 1, 2])
@pytest.mark.parametrize("second", ["the road", "the road was so long that nobody saw its end"])
def test_pairs_are_read_and_cut_without_seqloom(types, second, tmp_path):
    model = exported(NETWORKS[f"classifier of pairs, {types} types"](), tmp_path)
    for pair in (("a good day", second), (second, "a cat on a log")):
        printed = [float(line.split()[-1]) for line in used(tmp_path, *pair).splitlines()]
        assert printed == pytest.approx(np.exp(model.class_log_probs([pair])[0]), abs=1e-4)


LONG = "Mary saw New York . Nobody saw the cat in Rome on a day when the road was long ."


@pytest.mark.parametrize(
    "name",
    [
        "answerer gru",
        "answerer with short answers",
        "answerer cnn of characters",
        "answerer on an encoder",
        "answerer on one without types",
    ],
)
def test_an_answerer_answers_without_seqloom(name, tmp_path):
    made = NETWORKS[name]()
    longest = {} if made.published else {"max_length": 16}
    model = type(made).from_parts(
        replace(made.config, **longest), made.tokenizers, made.learnt, made.arrays(), {}
    )
    exported(model, tmp_path)
    for threshold in (0.0, 1.0):
        model.learnt["threshold"] = threshold
        facts = json.loads((tmp_path / "model.json").read_text())
        (tmp_path / "model.json").write_text(json.dumps(facts | {"threshold": threshold}))
        for question, context in (
            ("who saw it ?", LONG),
            ("who saw the cat in Rome on a day when the road was so long ?", LONG),
            ("who ?", "Mary"),
            ("who ?", ""),
        ):
            ours = model.predict(question, context)
            no_answer, _, text = used(tmp_path, question, context).rstrip("\n").partition(" ")
            assert text == ours.text
            assert float(no_answer) == pytest.approx(ours.no_answer, abs=1e-4)
    windows, _ = model.window_scores([("who saw it ?", LONG)])
    assert len(windows.examples) >= 3


def test_a_tagger_on_an_encoder_reads_long_sentences_without_seqloom(tmp_path):
    model = exported(NETWORKS["tagger on an encoder"](), tmp_path)
    words = [*["Mary", "saw", "\u2603", "in", "Rome"], *["longest"] * 8]
    assert model._encode([words]).counts[0] > 1
    printed = [line.split()[1] for line in used(tmp_path, *words).splitlines()]
    assert printed == [model.tags[i] for i in model.tag_ids([words])[0]]


def test_choices_are_made_without_seqloom(tmp_path):
    model = NETWORKS["classifier of pairs, 2 types"]()
    weights = dict(model.arrays())
    weights |= {
        f"output.linear.{part}": weights[f"output.linear.{part}"][:1] for part in ("weight", "bias")
    }
    learnt = model.learnt | {
        "classes": ["chosen"],
        "multi_label": True,
        "pairs": True,
        "choices": True,
    }
    model = type(model).from_parts(model.config, model.tokenizers, learnt, weights, {})
    exported(model, tmp_path)
    choices = ["a dog", "the road was so long that nobody saw its end", "cats"]
    printed = [line.rsplit(" ", 1) for line in used(tmp_path, "a good day", *choices).splitlines()]
    ours = dict(model.choose("a good day", choices))
    assert {choice: float(share) for choice, share in printed} == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize("alone", [False, True])
def test_a_language_model_begins_as_it_was_published(alone, tmp_path):
    model = NETWORKS["gpt llama"]()
    model.learnt |= {"start": 3, **({"start_alone": True} if alone else {})}
    exported(model, tmp_path)
    for text in ("the cat sat", "the"):
        found = float(used(tmp_path, text).splitlines()[0].split()[-1])
        ids = model.tokenizer.encode(text)
        ours = model.sequence_log_probs(ids, np.array([len(ids)])).sum()
        assert found == pytest.approx(float(ours), abs=1e-3)


def test_missing_values_are_filled_without_seqloom(tmp_path):
    for name, series in (
        ("forecaster of gaps", [[x] for x in GAPS[:23]]),
        ("forecaster of columns with gaps", [*map(list, zip(GAPS[:23], WAVE))]),
    ):
        model = exported(NETWORKS[name](), tmp_path)
        printed = np.array(json.loads(used(tmp_path, json.dumps(series))))
        ours = model.forecast(np.array(series, float)).tracks[0].values
        assert printed == pytest.approx(ours, abs=1e-4)


def test_a_name_without_ending_and_names_that_are_taken(tmp_path):
    from seqloom import interop
    from seqloom.errors import ConfigError

    model = language("gru", d_hidden=8)()
    interop.write_onnx(model, tmp_path / 'it\'s "mine"')
    assert "log-probability" in used(tmp_path, "the cat", stem='it\'s "mine"')
    (tmp_path / "tickets.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"tickets\.json is in the way"):
        interop.write_onnx(model, tmp_path / "tickets.onnx")
    assert (tmp_path / "tickets.json").read_text() == "[]"
    assert not (tmp_path / "tickets.onnx").exists()


@pytest.mark.parametrize("name", ["tagger bilstm crf", "tagger lstm of characters", "tagger gru "])
def test_a_tagger_tags_without_seqloom(name, tmp_path):
    model = exported(NETWORKS[name](), tmp_path)
    words = ["Mary", "saw", "zebras", "in", "Rome"]
    printed = [line.split() for line in used(tmp_path, *words).splitlines()]
    assert printed == [[word, model.tags[i]] for word, i in zip(words, model.tag_ids([words])[0])]


@pytest.mark.parametrize("name", ["seq2seq additive", "transformer", "transformer shared"])
def test_a_translator_translates_without_seqloom(name, tmp_path):
    model = exported(NETWORKS[name](), tmp_path)
    printed = used(tmp_path, "abc").removesuffix("\n")
    assert model.translate("abc", beams=1, max_tokens=20)[:20] == printed[:20]


def test_a_forecaster_forecasts_without_seqloom(tmp_path):
    model = exported(NETWORKS["forecaster gru"](), tmp_path)
    printed = np.array(json.loads(used(tmp_path, json.dumps(WAVE))))[:, 0]
    (windows,) = [
        windows
        for prepared in model.prepared(model.read_like(WAVE), future=True)
        for _, windows in prepared.windows(np.array([len(WAVE)]))
    ]
    ours = model.forecast_windows(windows, 4)[0] * model.scale["std"] + model.scale["mean"]
    assert printed == pytest.approx(ours[:, 0], abs=1e-4)


def test_encoders_are_used_without_seqloom(tmp_path):
    model = exported(SPECIMENS["sentence-encoder"](), tmp_path)
    vector = json.loads(used(tmp_path, "the cat sat"))
    assert vector == pytest.approx(model.embed_texts(["the cat sat"])[0], abs=1e-4)
    model = exported(SPECIMENS["bert"](), tmp_path)
    printed = used(tmp_path, "the [MASK] sat")
    marks = {"[PAD]", "[CLS]", "[SEP]", "[MASK]"}  # which `fill` leaves out
    found = [token for token in ast.literal_eval(printed) if token not in marks]
    assert found == [fill.tokens[0] for fill in model.fill("the [MASK] sat", len(found))]
    assert found
    model = exported(SPECIMENS["bert-without-head"](), tmp_path)
    vectors = np.array(json.loads(used(tmp_path, "the cat sat")))
    assert vectors == pytest.approx(model.hidden("the cat sat").vectors, abs=1e-4)


def test_models_on_encoders_are_used_without_seqloom(tmp_path):
    model = exported(SPECIMENS["classifier-pairs"](), tmp_path)
    printed = used(tmp_path, "a good day", "the road").splitlines()
    ours = np.exp(model.class_log_probs([("a good day", "the road")])[0])
    assert [float(line.split()[-1]) for line in printed] == pytest.approx(ours, abs=1e-4)
    model = exported(SPECIMENS["tagger-published"](), tmp_path)
    words = ["Mary", "saw", "the", "cat"]
    printed = [line.split()[1] for line in used(tmp_path, *words).splitlines()]
    assert printed == [model.tags[i] for i in model.tag_ids([words])[0]]


@pytest.mark.parametrize("name", SPECIMENS)
def test_every_model_is_written_or_refused_in_one_line(name, tmp_path):
    from seqloom.errors import SeqloomError

    model = SPECIMENS[name]()
    try:
        exported(model, tmp_path)
    except SeqloomError as error:
        assert not hasattr(model, "network")
        assert "not a network" in str(error)
        assert "\n" not in str(error)
        assert not [*tmp_path.iterdir()]
    else:
        assert hasattr(model, "network")
        assert {"model.onnx", "model.json", "use_model.py"} <= {
            path.name for path in tmp_path.iterdir()
        }


def test_a_file_that_differs_is_not_written(tmp_path, monkeypatch):
    """A network that takes no notice of being recorded has fixed sizes, which the check finds."""
    from seqloom import interop
    from seqloom.errors import ModelError
    from seqloom.nn import recording

    model = language("gru", d_hidden=8, reset="before")()
    monkeypatch.setattr(recording, "recorded", lambda: False)
    with pytest.raises(ModelError, match=r"model\.onnx: .* not written"):
        interop.write_onnx(model, tmp_path / "model.onnx")
    assert not [*tmp_path.iterdir()]


def test_convert_writes_onnx(tmp_path):
    from click.testing import CliRunner

    from seqloom.cli.main import main

    language("lstm", d_hidden=8)().save(tmp_path / "model")
    target = tmp_path / "lm.onnx"
    done = CliRunner().invoke(main, ["convert", str(tmp_path / "model"), str(target)])
    assert done.exit_code == 0, done.output
    assert target.exists()
    assert "log-probability" in used(tmp_path, "the cat", stem="lm")
    done = CliRunner().invoke(
        main, ["convert", str(tmp_path / "model"), str(target), "--bits", "8"]
    )
    assert done.exit_code != 0
    assert "float32" in str(done.exception)
