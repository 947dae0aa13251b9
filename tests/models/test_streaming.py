"""A sequence fed step by step is answered as `predict` answers what was fed; what would need later
steps is refused.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("torch")


from seqloom.data.spans import OUTSIDE, convert
from seqloom.encoder_table import ENCODERS
from seqloom.errors import ConfigError, DataError, NotFitted
from seqloom.models.classification.neural_classifier import NeuralClassifier
from seqloom.models.sequence import streaming
from seqloom.models.tagging.neural_tagger import NeuralTagger
from seqloom.nn.composition import POOLINGS
from seqloom.runtime.cells import GRUCell
from seqloom.runtime.composition import Pooling, RunningPool
from seqloom.runtime.encoders import Bag
from seqloom.runtime.weights import Recorder, Weights
from seqloom.text.tokenizer import Tokenizer
from seqloom.training.config import TrainConfig
from tests.models.test_composition import SENTENCES, SERIES, TEXTS, make_encoder, small

TRAIN = TrainConfig(steps=5, batch_size=3)
STREAMING = [name for name, entry in ENCODERS.items() if entry.streams]
WORDS = ["so", "dull,", "and", "good", "fun;", "it's", "Xylo!", "very", "long"]


def follows(model, pieces, joiner=" "):
    """Whether each answer is that of `predict_proba` for what was fed."""
    stream = model.stream()
    for i, piece in enumerate(pieces, 1):
        wanted = model.predict_proba(
            joiner.join(pieces[:i]) if joiner is not None else np.array(pieces[:i])
        )
        got = stream.feed(piece)
        assert list(got) == list(wanted)
        assert np.allclose(list(got.values()), list(wanted.values()), rtol=0, atol=1e-6), (i, piece)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("encoder", STREAMING)
def test_classes_of_texts(encoder, pooling):
    layers = {} if encoder == "bag" else {"n_layers": 2}
    model = NeuralClassifier(
        **small(encoder, pooling=pooling, characters="cnn", d_characters=4, **layers)
    ).fit(TEXTS, train=TRAIN)
    follows(model, ["", *WORDS])
    follows(model, ["so dull", "and  long."])  # several words at once


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("encoder", STREAMING)
def test_classes_of_numbers_with_gaps(encoder, pooling):
    options = {
        name: value for name, value in small(encoder, pooling=pooling).items() if name != "d_embed"
    }
    series = [x.copy() for x, _ in SERIES]
    series[0][1, 0] = np.nan
    model = NeuralClassifier(**options).fit(series, [y for _, y in SERIES], train=TRAIN)
    follows(model, list(np.concatenate(series)), None)


def test_one_number_a_step_and_several_labels():
    series = [([0.0, 1.0, 2.0], ("up", "odd")), ([3.0, 1.0], ("down",)), ([1.0, 1.0, 1.0], ())] * 2
    model = NeuralClassifier(encoder="gru", d_hidden=4).fit(
        [x for x, _ in series], [y for _, y in series], train=TRAIN
    )
    follows(model, [0.5, 1, np.float32(2.5), 7.0], None)


def test_temperature_and_threshold():
    options = small("lstm", calibrate="temperature", tune_threshold=True)
    model = NeuralClassifier(**options).fit(TEXTS, valid=TEXTS, train=TRAIN)
    assert {"temperature", "shift"} <= set(model.learnt)
    follows(model, WORDS)


def test_what_is_cut_from_a_text_is_not_read():
    """The last token that fits takes the place of the end of the text."""
    for pooling in POOLINGS:
        model = NeuralClassifier(**small("gru", pooling=pooling, max_length=4)).fit(
            TEXTS, train=TRAIN
        )
        follows(model, WORDS)
        follows(model, ["so good and long fun", "dull"])


@pytest.mark.parametrize(
    ("tokenizer", "joiner"), [("whitespace", " "), ("word", " "), ("char", ""), ("byte", "")]
)
def test_tokenizers(tokenizer, joiner):
    model = NeuralClassifier(**small("rnn", tokenizer=tokenizer)).fit(TEXTS, train=TRAIN)
    follows(model, WORDS if joiner else list("so dull é\n!"), joiner)


@pytest.mark.parametrize(
    "recipe", ["case=lower,stem=porter,stopwords=remove", "sentiment", "topic,numbers=keep"]
)
def test_words_one_by_one_are_normalised_as_together(recipe):
    """Whatever they are made of: so these steps need no refusal."""
    draw = random.Random(0)
    parts = [
        "The",
        "dogs",
        "don't",
        "can",
        "'t",
        "$",
        "3.14",
        "25",
        "%",
        "!!",
        "?!",
        "\u2026",
        "(",
        ")",
        "-",
        "\U0001f60a",
        "\u2019s",
        "\u0301",
        "running",
        "\u00e9",
        "x",
        "<unk>",
        ",",
        "#42",
        "\u20ac",
    ]
    tokenizer = Tokenizer(kind="word", normalize=recipe).fit([" ".join(parts)])
    streaming.check_pieces(tokenizer)
    for _ in range(2000):
        words = ["".join(draw.choices(parts, k=draw.randint(1, 3))) for _ in range(4)]
        apart = np.concatenate([tokenizer.encode(word) for word in words])
        assert list(tokenizer.encode(" ".join(words))) == list(apart), words


@pytest.mark.parametrize("characters", ["none", "cnn", "lstm"])
@pytest.mark.parametrize("encoder", STREAMING)
def test_tags(encoder, characters):
    layers = {} if encoder == "bag" else {"n_layers": 2}
    spelled = {} if characters == "none" else {"d_characters": 4}
    model = NeuralTagger(
        **small(encoder, crf=False, characters=characters, **spelled, **layers)
    ).fit(SENTENCES, train=TrainConfig(steps=30, batch_size=3))
    for words in [
        *(words for words, _ in SENTENCES),
        ["Ada", "it", "Bob", "Ray", "Ray", "Xylo", "is", "met", "Bob"],
    ]:
        assert list(map(model.stream().feed, words)) == model.predict(words)


def test_an_encoder_of_windows_without_neighbours_streams():
    model = NeuralTagger(**small("window", crf=False, window=0, n_layers=2, d_characters=4)).fit(
        SENTENCES, train=TRAIN
    )
    words = ["Ada", "it", "Bob", "Ray", "Xylo"]
    assert list(map(model.stream().feed, words)) == model.predict(words)


@pytest.mark.parametrize("outside", ["bio", "iob1"])
@pytest.mark.parametrize("inside", ["bio", "iob1", "bioes"])
def test_a_tag_in_another_scheme_depends_on_two_neighbours(inside, outside):
    """Of any tags, illegal ones too."""
    draw = random.Random(1)
    tags = [
        OUTSIDE,
        *(
            f"{letter}-{label}"
            for letter in ("BIES" if inside == "bioes" else "BI")
            for label in "PL"
        ),
    ]
    for _ in range(3000):
        given = draw.choices(tags, k=6)
        pairs = zip([OUTSIDE, *given], given)
        assert [convert(pair, inside, outside)[1] for pair in pairs] == convert(
            given, inside, outside
        )


def test_a_stream_says_tags_in_the_scheme_of_the_data():
    """Its tags are those that `predict` converts, whatever the network says."""
    draw, encoder = random.Random(2), Bag(Recorder(), 1)
    given = draw.choices([OUTSIDE, "B-P", "I-P", "E-P", "S-P", "B-L", "E-L"], k=200)
    saying = iter(given)
    stream = streaming.TagStream(
        encoder, lambda word: np.zeros((1, 1)), lambda x: next(saying), "bioes", "iob1"
    )
    assert [stream.feed("word") for _ in given] == convert(given, "bioes", "iob1")


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_running_attention_is_attention(size):
    """Scores far apart, too, whose exponentials are no numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)).astype(np.float32)
    weights = {
        name: (scale * rng.normal(size=shape)).astype(np.float32)
        for name, scale, shape in [
            ("project.weight", 1, (6, 6)),
            ("project.bias", 1, 6),
            ("score.weight", size, (1, 6)),
        ]
    }
    pooling = Pooling(Weights(weights), "attention", 6)
    pool, sums = RunningPool(pooling), None
    for i in range(len(x)):
        sums = pool.add(sums, x[i : i + 1])
        assert np.allclose(sums.mean, pooling(x[: i + 1], np.array([0, i + 1]))[0], atol=1e-5)


def test_a_step_takes_the_same_work_wherever_it_is(monkeypatch):
    steps = []
    step = GRUCell.step
    monkeypatch.setattr(
        GRUCell, "step", lambda self, *given: steps.append(len(given[0])) or step(self, *given)
    )
    series = NeuralClassifier(encoder="gru", d_hidden=4).fit(
        [x for x, _ in SERIES], [y for _, y in SERIES], train=TRAIN
    )
    stream = series.stream()
    for _ in range(50):
        stream.feed([0.1, 0.2])
    assert steps == [1] * 50


def test_streams_of_one_model_are_apart():
    model = NeuralClassifier(**small("lstm", pooling="last")).fit(TEXTS, train=TRAIN)
    alone = list(map(model.stream().feed, WORDS))
    first, second = model.stream(), model.stream()
    both = [(first.feed(word), second.feed(other)) for word, other in zip(WORDS, reversed(WORDS))]
    assert [one for one, _ in both] == alone


def test_a_saved_model_streams(tmp_path):
    model = NeuralClassifier(**small("gru")).fit(TEXTS, train=TRAIN)
    model.save(tmp_path / "m")
    follows(NeuralClassifier.load(tmp_path / "m"), WORDS)


# ---- refused


REASONS = {
    "window": "looks 1 step ahead",
    "cnn": "looks 2 steps ahead",
    "transformer": "the transformer encoder reads the whole sequence before it answers",
    **{
        name: rf"a bidirectional encoder \({name}\) reads the whole sequence"
        for name in ("birnn", "bilstm", "bigru")
    },
}


@pytest.mark.parametrize("encoder", [name for name in ENCODERS if name not in STREAMING])
def test_encoders_that_need_later_steps(encoder):
    for model, data in (
        (NeuralClassifier(**small(encoder, n_layers=2)), TEXTS),
        (NeuralTagger(**small(encoder, n_layers=2, crf=False, d_characters=4)), SENTENCES),
    ):
        model.fit(data, train=TRAIN)
        with pytest.raises(
            ConfigError,
            match=f"^stream: .*{REASONS[encoder]}.*; fit .* encoder='gru', or call predict$",
        ):
            model.stream()


def test_a_published_encoder(tmp_path):
    make_encoder(tmp_path / "small")
    model = NeuralClassifier(encoder=str(tmp_path / "small"), frozen=True).fit(TEXTS, train=TRAIN)
    with pytest.raises(
        ConfigError, match="the converted encoder small reads the whole text before it answers"
    ):
        model.stream()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"long": "windows"}, "long windows divides a text when all of it is there"),
        ({"long": "sentences"}, "long sentences divides"),
        (
            {"tokenizer": "bpe", "vocab_size": 300},
            "the tokens of a bpe tokenizer depend on what follows",
        ),
        (
            {"normalize": "numbers=placeholder"},
            "with normalize numbers=placeholder the tokens of a text depend on what follows",
        ),
        ({"normalize": "case=lower", "tokenizer": "char"}, "with normalize case=lower"),
    ],
)
def test_texts_that_cannot_be_read_in_pieces(options, said):
    model = NeuralClassifier(**small("gru", **options)).fit(TEXTS, train=TRAIN)
    with pytest.raises(ConfigError, match=said):
        model.stream()


def test_taggers_that_decide_on_whole_sentences():
    with pytest.raises(
        ConfigError, match=r"a CRF chooses the tags of a whole sentence together; fit .*crf=False"
    ):
        NeuralTagger(**small("gru", d_characters=4)).fit(SENTENCES, train=TRAIN).stream()
    bioes = [(words, convert(tags, "bio", "bioes")) for words, tags in SENTENCES]
    model = NeuralTagger(**small("gru", crf=False, work_in="bio", d_characters=4)).fit(
        bioes, train=TRAIN
    )
    assert (model.learnt["scheme"], model.learnt["working_scheme"]) == ("bioes", "bio")
    with pytest.raises(ConfigError, match="BIOES tags depend on the next word's"):
        model.stream()


def test_bad_steps():
    tags = (
        NeuralTagger(**small("gru", crf=False, d_characters=4)).fit(SENTENCES, train=TRAIN).stream()
    )
    for wrong in ("two words", 3):
        with pytest.raises(DataError, match="feed takes one word at a time"):
            tags.feed(wrong)
    with pytest.raises(DataError, match="must be a str"):
        NeuralClassifier(**small("gru")).fit(TEXTS, train=TRAIN).stream().feed(1.5)
    series = NeuralClassifier(encoder="gru", d_hidden=4).fit(
        [x for x, _ in SERIES], [y for _, y in SERIES], train=TRAIN
    )
    for wrong, said in [
        ([1, 2, 3], "3 columns; this model was fitted on 2"),
        ([[1, 2], [3, 4]], "one row at a time"),
        ("a", "not an array of numbers"),
        ([1, np.inf], "infinite"),
    ]:
        with pytest.raises(DataError, match=said):
            series.stream().feed(wrong)
    with pytest.raises(NotFitted):
        NeuralClassifier(encoder="gru").stream()
