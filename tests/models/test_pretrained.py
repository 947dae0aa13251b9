"""Networks whose first layer are word vectors: tuned, frozen, gradually unfrozen; saved, resumed, refused."""

import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import seqloom
from seqloom import GPT, GRU, LSTM, NPLM, RNN, Tokenizer, TrainConfig, progress
from seqloom.decoding.stepper import log_probs_by_steps
from seqloom.errors import ConfigError, DataError
from seqloom.interop.vectors import write_vectors
from seqloom.models.language.language_net import LanguageTraining
from seqloom.models.word_vectors.word_vectors import WordVectors
from seqloom.training import loop
from seqloom.training.checkpoint import Run
from tests.conftest import TOY
from tests.golden import fasttext_models

WORDS = ["elephant", *sorted(set(TOY.split()))[:15]]
VECTORS = WordVectors.of(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 8)))
SMALL = {
    LSTM: {"d_hidden": 6},
    GRU: {"d_hidden": 6},
    RNN: {"d_hidden": 6},
    NPLM: {"d_hidden": 6, "order": 3},
    GPT: {"n_heads": 2, "n_layers": 1, "context": 8},
}
TRAIN = {"steps": 6, "lr": 0.02}


@pytest.fixture
def place(tmp_path):
    VECTORS.save(tmp_path / "vectors")
    return tmp_path / "vectors"


def fitted(cls, place, *, run=None, text=TOY, train=None, **options):
    plain = {"tokenizer": "whitespace", "unit": "line", "pretrained": str(place), **SMALL[cls]}
    return cls(**{**plain, **options}).fit(
        text, run=run, train=TrainConfig(**{**TRAIN, **(train or {})})
    )


def known_rows(model):
    """The rows of the tokens that have vectors, and these vectors."""
    ids = {word: model.tokenizer.id(word) for word in WORDS[1:]}
    return model.weights["embedding.weight"][list(ids.values())], VECTORS[list(ids)]


# ---- how they are trained


@pytest.mark.parametrize("cls", SMALL, ids=lambda cls: cls.name)
def test_frozen_stays_to_the_bit_and_tuned_moves(cls, place):
    frozen, tuned = (fitted(cls, place, pretrained_training=how) for how in ("frozen", "tuned"))
    assert np.array_equal(*known_rows(frozen))
    rows, vectors = known_rows(tuned)
    assert (rows != vectors).any(axis=1).all()
    assert np.allclose(
        rows, vectors, atol=0.02 * 6 * 1.5
    )  # it began there: Adam moves at most about lr a step
    ids, lengths = frozen.encode(TOY)
    assert np.allclose(
        frozen.sequence_log_probs(ids, lengths),
        log_probs_by_steps(frozen.stepper(), ids, lengths),
        atol=2e-5,
    )
    assert not np.array_equal(
        frozen.weights["embedding.weight"][frozen.tokenizer.id("was")], VECTORS["elephant"]
    )


@pytest.mark.parametrize(
    "options",
    [
        {"average": "exponential"},
        {"gradient_noise": 0.1},
        {"optimizer": "momentum"},
        {"accumulate": 2},
    ],
    ids=str,
)
def test_frozen_whatever_the_training(place, options):
    assert np.array_equal(
        *known_rows(fitted(LSTM, place, pretrained_training="frozen", train=options))
    )


def test_gradual_begins_after_its_time(place):
    gradual = {"pretrained_training": "gradual", "pretrained_frozen_for": 4.0}
    assert np.array_equal(*known_rows(fitted(LSTM, place, train={"steps": 4}, **gradual)))
    rows, vectors = known_rows(fitted(LSTM, place, train={"steps": 5}, **gradual))
    assert (rows != vectors).any()
    frozen = fitted(LSTM, place, train={"steps": 4}, pretrained_training="frozen")
    waiting = fitted(LSTM, place, train={"steps": 4}, **gradual)
    assert all(
        np.array_equal(frozen.weights[name], waiting.weights[name]) for name in frozen.weights
    )


def test_tied_and_frozen_freezes_the_output_and_says_so(place, monkeypatch):
    said = []
    monkeypatch.setattr(progress, "say", said.append)
    tied = fitted(LSTM, place, pretrained_training="frozen")
    assert "output.weight" not in tied.weights
    assert any("so it is frozen too; tied=False" in line for line in said)
    said.clear()
    free = fitted(LSTM, place, pretrained_training="frozen", tied=False)
    assert free.weights["output.weight"].shape == (free.tokenizer.vocab_size, 6)
    assert not any("tied=False" in line for line in said)


@pytest.mark.parametrize("optimizer", ["adamw", "momentum"])
@pytest.mark.parametrize(
    "cut", [3, 6, 9], ids=["while frozen", "while its rate rises", "afterwards"]
)
def test_resume_to_the_bit(place, tmp_path, monkeypatch, cut, optimizer):
    """Frozen for 4 of 10 steps, then a rate that rises until step 8."""
    options = {"pretrained_training": "gradual", "pretrained_frozen_for": 0.4}
    train = {"steps": 10, "optimizer": optimizer}
    whole = fitted(LSTM, place, train=train, **options)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    plain, calls = LanguageTraining.loss, []

    def unplugged(self, *given):
        calls.append(1)
        if len(calls) == cut + 1:
            raise RuntimeError("pulled the plug")
        return plain(self, *given)

    monkeypatch.setattr(LanguageTraining, "loss", unplugged)
    with pytest.raises(RuntimeError, match="pulled the plug"):
        fitted(LSTM, place, run=tmp_path / "run", train=train, **options)
    kept, meta = Run(tmp_path / "run").load()
    assert meta["step"] == cut
    assert np.array_equal(
        kept["weights.embedding.weight"],
        fitted(LSTM, place, pretrained_training="frozen").weights["embedding.weight"],
    ) == (cut <= 4)
    resumed = fitted(LSTM, place, run=tmp_path / "run", train=train, **options)
    assert all(np.array_equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)


def test_a_run_with_other_vectors_is_not_continued(place, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    fitted(LSTM, place, run=tmp_path / "run")
    shutil.rmtree(place)
    WordVectors.of(WORDS, -VECTORS.matrix).save(place)
    with pytest.raises(ConfigError, match="unfinished run with other settings"):
        fitted(LSTM, place, run=tmp_path / "run")


# ---- where they come from and go to


@pytest.mark.parametrize("cls", [LSTM, NPLM, GPT], ids=lambda cls: cls.name)
@pytest.mark.parametrize("how", ["frozen", "gradual"])
def test_a_saved_model_needs_no_vectors(cls, how, place, tmp_path):
    model = fitted(cls, place, pretrained_training=how)
    model.save(tmp_path / "model")
    shutil.rmtree(place)
    loaded = seqloom.load(tmp_path / "model")
    assert loaded.token_scores("the cat sat") == model.token_scores("the cat sat")
    assert loaded.generate("the", max_tokens=5, seed=1) == model.generate(
        "the", max_tokens=5, seed=1
    )
    ids, _ = model.encode(TOY)
    assert np.array_equal(
        loaded.adapting(0.01).text_log_probs(ids), model.adapting(0.01).text_log_probs(ids)
    )


@pytest.mark.parametrize("form", ["word2vec", "word2vec-binary", "glove", "fasttext"])
def test_files_of_other_programs(form, place, tmp_path):
    write_vectors(VECTORS, tmp_path / "file", form)
    ours, theirs = fitted(LSTM, place), fitted(LSTM, tmp_path / "file")
    assert all(np.array_equal(ours.weights[name], theirs.weights[name]) for name in ours.weights)


def test_subwords_of_a_fasttext_file():
    peer, path = fasttext_models.recorded("skipgram")
    assert "slept" in TOY
    assert "slept" not in peer.get_words()
    model = fitted(LSTM, path, pretrained_unknown="subword", pretrained_training="frozen")
    row = model.weights["embedding.weight"][model.tokenizer.id("slept")]
    assert np.allclose(row, peer.get_word_vector("slept"), atol=1e-6)
    assert np.linalg.norm(row) > 0
    assert model.fit_info["pretrained"]["built"] >= 1


@pytest.mark.parametrize("unknown", ["random", "mean"])
def test_what_is_known_is_recorded_and_said(unknown, place, monkeypatch):
    said = []
    monkeypatch.setattr(progress, "say", said.append)
    model = fitted(LSTM, place, pretrained_unknown=unknown, pretrained_training="frozen")
    words = TOY.split()
    share = sum(word in WORDS for word in words) / (len(words) + TOY.count("\n"))
    facts = model.fit_info["pretrained"]
    assert (facts["found"], facts["of"], facts["built"]) == (15, model.tokenizer.vocab_size, 0)
    assert facts["text"] == pytest.approx(share, abs=1e-4)
    assert any(
        f"15 of {facts['of']} tokens have a vector, {share:.1%} of the text" in line
        for line in said
    )
    unknown_row = model.weights["embedding.weight"][model.tokenizer.id("was")]
    mean = known_rows(model)[1].mean(axis=0)
    assert np.allclose(unknown_row, mean, atol=1e-6) == (unknown == "mean")


def test_a_text_in_capitals_is_advised(place, monkeypatch):
    said = []
    monkeypatch.setattr(progress, "say", said.append)
    fitted(LSTM, place, text=TOY + TOY.upper())
    assert any(
        "15 more would be found in lower case: normalize='case=lower'" in line for line in said
    )


def test_the_width_is_that_of_the_vectors(place):
    lstm, gpt = fitted(LSTM, place), fitted(GPT, place)
    assert lstm.learnt["d_embed"] == 8
    assert lstm.learnt["width"] == 6
    assert gpt.learnt["width"] == 8
    assert fitted(LSTM, place, d_embed=8).weights["embedding.weight"].shape[1] == 8
    assert "d_embed" not in LSTM(d_hidden=6).fit(TOY, train=TrainConfig(steps=1)).learnt


# ---- refused


def test_refused(place, tmp_path):
    def refuses(error, says, cls=LSTM, where=place, **options):
        with pytest.raises(error, match=says):
            fitted(cls, where, **options)

    refuses(
        ConfigError, "pretrained: .*nowhere: no such directory or file", where=tmp_path / "nowhere"
    )
    refuses(
        ConfigError,
        "d_embed is 5, but the vectors of .* have 8 dimensions; leave d_embed out or give 8",
        d_embed=5,
    )
    refuses(ConfigError, "d_embed is 5, but", NPLM, d_embed=5)
    refuses(ConfigError, "d_model is 16, but", GPT, d_model=16)
    refuses(ConfigError, "8 dimensions, not a multiple of 6, as 3 heads and rope", GPT, n_heads=3)
    refuses(
        ConfigError,
        "the tokenizer bpe splits words; give tokenizer whitespace or word",
        tokenizer="bpe",
    )
    refuses(DataError, "none of the .* tokens, such as .*elephant", text="quite other words\n" * 9)
    refuses(
        ConfigError, "vectors: these vectors have nothing to build", pretrained_unknown="subword"
    )
    (tmp_path / "text").write_text(TOY)
    refuses(DataError, "not a file of word vectors", where=tmp_path / "text")
    fitted(LSTM, place).save(tmp_path / "model")
    refuses(DataError, "holds a language model, not word vectors", where=tmp_path / "model")
    model = LSTM(pretrained=str(place), d_hidden=6)
    with pytest.raises(ConfigError, match="the tokenizer byte splits words"):
        model.fit(TOY, tokenizer=Tokenizer(kind="byte"))
    assert not model.fitted
    model.fit(
        TOY, tokenizer=Tokenizer(kind="word").fit(TOY), train=TrainConfig(steps=1)
    )  # its own option does not count


def test_options_without_meaning():
    with pytest.raises(
        ConfigError,
        match="pretrained_training has no effect with pretrained not given; give pretrained",
    ):
        LSTM(pretrained_training="frozen")
    with pytest.raises(
        ConfigError,
        match="pretrained_frozen_for has no effect with pretrained_training tuned; it is for",
    ):
        GPT(pretrained="v", pretrained_frozen_for=0.5)
