"""What every registered embedder that learns from text must do. A new one is tested here by being
in the registry.
"""

import numpy as np
import pytest

import seqloom
from seqloom import registry
from seqloom.contracts import Embedder
from seqloom.errors import ConfigError, DataError, NotFitted, TrainingError
from seqloom.models.word_vectors import learning
from seqloom.testing.rules import Specimen, a_damaged_file_is_refused, tree

NAMES = [
    name for name, entry in registry.MODELS.items() if entry.task == "word vectors" and entry.fitted
]
ANIMALS, MACHINES = (
    ["cat", "dog", "cow", "horse", "sheep", "goat"],
    ["car", "truck", "bus", "train", "plane", "tram"],
)
OPTIONS = {"min_count": 2, "dimensions": 12, "epochs": 3, "window": 3, "seed": 1, "sample": 1e-3}


def lines(n=400, seed=0):
    """Two kinds of sentences, each with words of its own."""
    random = np.random.default_rng(seed)
    kinds = [
        ("the {} eats green grass near the {} on a farm", ANIMALS),
        ("a {} drives fast past the {} in big towns", MACHINES),
    ]
    return [
        form.format(*random.choice(words, 2, replace=False))
        for i in range(n)
        for form, words in [kinds[i % 2]]
    ]


def make(name, **options):
    known = {f for f in registry.config_class(name).__dataclass_fields__}
    return registry.model_class(name)(
        **{k: v for k, v in {**OPTIONS, "deterministic": True, **options}.items() if k in known}
    )


@pytest.fixture(scope="module", params=NAMES)
def model(request):
    return make(request.param).fit(lines())


@pytest.mark.parametrize("name", NAMES)
def test_unfitted_refuses_and_fit_returns_self(name):
    fresh = make(name, epochs=1)
    assert isinstance(fresh, Embedder)
    for verb in (
        lambda: fresh.nearest("cat"),
        lambda: fresh.embed(["cat"]),
        lambda: fresh.similarity("cat", "dog"),
    ):
        with pytest.raises(NotFitted, match="fit"):
            verb()
    assert fresh.fit(lines(20)) is fresh


def test_every_word_has_a_vector(model):
    table = model.vectors
    assert table.matrix.shape == (len(table.words), 12)
    assert table.matrix.dtype == np.float32
    assert np.isfinite(table.matrix).all()
    counts = [sum(line.split().count(word) for line in lines()) for word in table.words]
    assert table.counts.tolist() == counts
    assert counts == sorted(counts, reverse=True)
    assert set(ANIMALS + MACHINES) <= set(table.words)
    assert (model.embed(["cat", "dog cow"])[0] == table.matrix[table.words.find(["cat"])[0]]).all()


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name != "charngram"]
)  # which knows spellings only
def test_words_of_one_kind_are_near_each_other(name):
    """Words that stand in the same places mean similar things."""
    model = make(name, epochs=30, lr=0.1, sample=0).fit(lines())
    pairs = [(a, b) for a in ANIMALS for b in ANIMALS if a < b] + [
        (a, b) for a in MACHINES for b in MACHINES if a < b
    ]
    same = model.similarity([a for a, _ in pairs], [b for _, b in pairs]).mean()
    other = model.similarity([a for a in ANIMALS for _ in MACHINES], MACHINES * len(ANIMALS)).mean()
    assert same > other + 0.1


def test_the_loss_is_told_and_falls(model):
    losses = model.fit_info["losses"]
    assert len(losses) == 3
    assert losses[-1] < losses[0]


def test_save_and_load_keep_every_bit(model, tmp_path):
    model.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert (again.vectors.matrix == model.vectors.matrix).all()
    assert list(again.vectors.words) == list(model.vectors.words)
    assert again.nearest("cat") == model.nearest("cat")
    assert str(again.signature()) == str(model.signature())
    again.save(tmp_path / "n")
    assert tree(tmp_path / "m") == tree(tmp_path / "n")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits_for_any_number_of_threads(name, tmp_path, monkeypatch):
    for threads in ("1", "2"):
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        make(name).fit(lines()).save(tmp_path / threads)
    assert tree(tmp_path / "1") == tree(tmp_path / "2")
    other = make(name, seed=2).fit(lines())
    assert not np.array_equal(other.vectors.matrix, seqloom.load(tmp_path / "1").vectors.matrix)


@pytest.mark.parametrize("name", NAMES)
def test_text_on_disk_is_the_same_text(name):
    assert (
        make(name).fit(lines(), memory=1).vectors.matrix == make(name).fit(lines()).vectors.matrix
    ).all()


@pytest.mark.parametrize("name", NAMES)
def test_going_on_gives_the_same_bits(name, tmp_path, monkeypatch):
    whole = make(name).fit(lines())
    monkeypatch.setattr(learning, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(learning, "SHARE_OF_TIME", 1e9)
    add, count = learning._State.add, 0

    def breaks(self, at, loss, examples):
        nonlocal count
        count += 1
        if self.share() > 0.5:
            raise KeyboardInterrupt
        add(self, at, loss, examples)

    monkeypatch.setattr(learning._State, "add", breaks)
    broken = make(name)
    with pytest.raises(KeyboardInterrupt):
        broken.fit(lines(), run=tmp_path / "run")
    with pytest.raises(NotFitted):
        broken.nearest("cat")
    first, count = count, 0
    monkeypatch.setattr(
        learning._State,
        "add",
        lambda self, *what: (add(self, *what), globals().update(steps=self.done)),
    )
    again = make(name).fit(lines(), run=tmp_path / "run")
    assert first > 1
    assert (again.vectors.matrix == whole.vectors.matrix).all()
    assert again.fit_info == whole.fit_info
    with pytest.raises(ConfigError, match="other settings"):
        make(name, dimensions=13).fit(lines(), run=tmp_path / "run")


@pytest.mark.parametrize("name", NAMES)
def test_bad_input(name, tmp_path):
    with pytest.raises(DataError, match="min_count"):
        make(name, min_count=10_000).fit(lines())
    with pytest.raises(DataError):
        make(name).fit(tmp_path / "missing.txt")
    with pytest.raises((DataError, ConfigError)):
        make(name).fit([])
    with pytest.raises(ConfigError, match="unknown option"):
        registry.model_class(name)(colour="red")
    with pytest.raises(ConfigError, match="tokenizer"):
        make(name, tokenizer="byte", min_count=1).fit(lines())


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_that_is_no_number_is_an_error(name):
    with np.errstate(all="ignore"), pytest.raises(TrainingError, match="lr"):
        make(name, lr=1e6, epochs=20).fit(lines())


def test_a_damaged_model_is_refused(model):
    a_damaged_file_is_refused(Specimen(model, None, None, None))
