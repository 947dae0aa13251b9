"""Models whose tokenizer has marks: probabilities for them, but never one in what is written."""

import json

import numpy as np
import pytest

import seqloom
from seqloom.decoding.configs import TranslationConfig
from seqloom.decoding.constraints import Without
from seqloom.decoding.generation import Draft, Generator
from seqloom.decoding.sampling import SamplingConfig
from seqloom.errors import ModelError
from seqloom.registry import model_class
from seqloom.training.config import TrainConfig
from tests.fuzz.specimens import REVERSED, TEXT
from tests.fuzz.uses import use
from tests.text.test_marks import KEYS

MARKS = ("[MASK]", "<|user|>")
FITTED = {
    "uniform": ("uniform", {"tokenizer": "byte"}),
    "ngram": ("ngram", {"order": 3}),
    "ngram-bpe": ("ngram", {"order": 2, "tokenizer": "bpe", "vocab_size": 270}),
    "ngram-add-k": ("ngram", {"order": 2, "smoothing": "add-k", "tokenizer": "char"}),
    "hmm": ("hmm", {"states": 3, "iterations": 2, "tokenizer": "wordpiece", "vocab_size": 60}),
    "cache": ("cache", {"window": 7, "tokenizer": "word"}),
    "lstm": ("lstm", {"d_hidden": 6, "tokenizer": "whitespace"}),
    "adaptive": ("nplm", {"order": 3, "d_embed": 4, "d_hidden": 6, "softmax": "adaptive"}),
    "gpt": (
        "gpt",
        {
            "d_model": 8,
            "n_heads": 2,
            "n_layers": 1,
            "context": 8,
            "tokenizer": "unigram",
            "vocab_size": 270,
        },
    ),
}


class Fond:
    """A stepper that finds marks likeliest, and among them the last."""

    def __init__(self, tokenizer):
        self.vocab_size, self.eos_id = tokenizer.vocab_size, tokenizer.eos_id
        weights = np.ones(self.vocab_size)
        weights[tokenizer.declared_ids] = 1000 * np.arange(1, 1 + len(tokenizer.declared_ids))
        self.row = np.log(weights / weights.sum()).astype(np.float32)

    def start(self, n):
        return (np.zeros(n, np.int64),), np.tile(self.row, (n, 1))

    def step(self, state, ids):
        return self.start(len(ids))


@pytest.fixture(scope="module")
def tokenizer():
    return seqloom.Tokenizer(kind="byte", marks=MARKS)


@pytest.fixture(
    params=[
        {},
        {"temperature": 0.0},
        {"beams": 3},
        {"draft": True},
        {"draft": True, "temperature": 0.0},
    ]
)
def way(request, tokenizer):
    """How to draw, without the options that are no SamplingConfig's."""
    options = dict(request.param)
    drafting = (
        Draft(Generator(Fond(tokenizer), tokenizer, by_line=False))
        if options.pop("draft", False)
        else None
    )
    return options.pop("beams", None), drafting, options


def test_none_is_drawn(tokenizer, way):
    beams, draft, options = way
    for endless in (False, True):
        generator = Generator(Fond(tokenizer), tokenizer, by_line=False, endless=endless)
        config = SamplingConfig(max_tokens=20, min_tokens=20, seed=3, **options)
        found = []
        spell = generator._spell
        generator._spell = lambda prompt, healed, ids, stop, spell=spell, found=found: spell(
            prompt, healed, iter(found.extend(ids) or found), stop
        )
        generator.generate([""], config, beams=beams, draft=draft)
        assert len(found) >= 20
        assert not set(found) & set(tokenizer.declared_ids)


@pytest.mark.parametrize("drafted", [False, True])
def test_one_that_ends_an_answer_is_drawn_and_ends_it(tokenizer, drafted):
    generator = Generator(Fond(tokenizer), tokenizer, by_line=False)
    draft = Draft(Generator(Fond(tokenizer), tokenizer, by_line=False)) if drafted else None
    greedy = SamplingConfig(max_tokens=20, temperature=0.0)
    ids = np.array([tokenizer.mark_id("<|user|>")])
    assert "".join(generator.answer(ids, greedy, (), {tokenizer.mark_id("<|user|>")}, draft)) == ""
    assert len("".join(generator.answer(ids, greedy, (), {None}, draft))) == 20


def test_a_row_with_nothing_else_keeps_what_it_has():
    class Sure(Fond):
        def start(self, n):
            rows = np.full((n, self.vocab_size), -np.inf, np.float32)
            rows[0, -1], rows[1:, 3] = 0, 0
            return (np.zeros(n, np.int64),), rows

    tokenizer = seqloom.Tokenizer(kind="byte", marks=MARKS)
    _, rows = Without(Sure(tokenizer), tokenizer.declared_ids).start(3)
    assert rows.argmax(axis=1).tolist() == [258, 3, 3]
    assert np.isneginf(rows).sum(axis=1).tolist() == [258] * 3


# ---- models


@pytest.fixture(scope="module", params=FITTED)
def model(request):
    name, options = FITTED[request.param]
    cls = model_class(name)
    train = (
        {"train": TrainConfig(steps=1, batch_size=2)}
        if "train" in cls.config_class.fit_arguments
        else {}
    )
    return cls(marks=MARKS, **options).fit(TEXT, **train)


def test_they_have_ids_probabilities_and_a_place_in_the_file(model, tmp_path):
    model.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    plain = model_class(model.name)(**{**model.config.to_dict(), "marks": ()}).make_tokenizer(TEXT)
    for made in (model, again):
        assert made.tokenizer.vocab_size == plain.vocab_size + 2
        use(made)
    assert again.tokenizer == model.tokenizer != plain
    assert again.score("the [MASK] cat") == model.score("the [MASK] cat")
    text, ids = "the [MASK] cat", model.tokenizer.encode("the [MASK] cat")
    assert ids.tolist() == plain.encode(text).tolist()
    _, rows = model.stepper().start(1)
    assert np.exp(rows.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)
    assert (rows[0, -2:] > -np.inf).all()  # they are tokens as others are


@pytest.mark.parametrize(
    "model", [name for name in FITTED if name not in ("uniform", "cache")], indirect=True
)  # no arrays
@pytest.mark.parametrize(
    "marks", [[], ["[MASK]"], ["a", "b", "c"], 5, [1], ["x", "x"], ["a b"], None]
)
def test_other_marks_than_it_was_saved_with(model, marks, tmp_path):
    model.save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config["tokenizers"]["text"]["marks"] = marks
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError) as error:
        seqloom.load(tmp_path / "m")
    assert str(tmp_path / "m") in str(error.value)
    assert "\n" not in str(error.value)


def test_models_without_marks_are_written_as_before(tmp_path):
    seqloom.NGram(order=2).fit(TEXT).save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert list(config["tokenizers"]["text"]) == KEYS[1:]
    assert "marks" not in config["config"]


@pytest.mark.parametrize(
    "options", [{}, {"beams": 1}, {"coverage_penalty": 0.2}, {"search": "sample", "seed": 3}]
)
@pytest.mark.parametrize("scored", [False, True])
def test_no_translator_writes_one(translator, options, scored):
    how = TranslationConfig(max_tokens=30, **options)
    found = [
        t.ids for best in translator.translations(["abc", "cab"], how, scored=scored) for t in best
    ]
    assert any(len(ids) for ids in found)
    assert not {token for ids in found for token in ids.tolist()} & set(
        translator.target_tokenizer.declared_ids
    )


def test_both_sides_of_a_translator_have_them(translator, tmp_path):
    assert (
        translator.tokenizers["source"].config.marks
        == translator.target_tokenizer.config.marks
        == MARKS
    )
    translator.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert again.score("abc", "[MASK]") == translator.score("abc", "[MASK]")
    assert again.tokenizers == translator.tokenizers


@pytest.fixture(scope="module")
def translator():
    options = {"tokenizer": "char", "d_embed": 6, "d_hidden": 6, "marks": MARKS}
    model = seqloom.Seq2Seq(**options).fit(REVERSED, train=TrainConfig(steps=1, batch_size=2))
    made = model.decoder
    model.decoder = lambda sources: _Loud(made(sources), model.target_tokenizer.declared_ids)
    return model


class _Loud:
    """A decoder with more probability for some tokens than for all others."""

    def __init__(self, inner, tokens):
        self.inner, self.tokens = inner, np.array(tokens)
        self.vocab_size, self.eos_id = inner.vocab_size, inner.eos_id
        self.attention = inner.attention

    def _louder(self, result):
        state, rows = result
        rows[:, self.tokens] += 20
        return state, rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)

    def start(self, n):
        return self._louder(self.inner.start(n))

    def step(self, state, ids):
        return self._louder(self.inner.step(state, ids))
