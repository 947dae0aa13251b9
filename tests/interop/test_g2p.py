"""The weights of g2p-en as a translator: the same phonemes as a plain loop over them, and as the
package itself.
"""

import importlib.util
import random
import string
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import seqloom
from seqloom import interop, tasks
from seqloom.errors import DataError
from seqloom.interop.g2p import PHONEMES

D, H = 12, 20
SOURCES = ("<pad>", "<unk>", "</s>", *string.ascii_lowercase)  # by their rows in the file
TARGETS = ("<pad>", "<unk>", "<s>", "</s>", *PHONEMES)


def generated(rng, **changed):
    """Weights of the same layout, large enough for words to differ and for `</s>` to be written at times."""
    shapes = {
        "enc_emb": (len(SOURCES), D),
        "dec_emb": (len(TARGETS), D),
        "fc_w": (len(TARGETS), H),
        "fc_b": (len(TARGETS),),
    }
    for side in ("enc", "dec"):
        shapes |= {
            f"{side}_w_ih": (3 * H, D),
            f"{side}_w_hh": (3 * H, H),
            f"{side}_b_ih": (3 * H,),
            f"{side}_b_hh": (3 * H,),
        }
    arrays = {
        name: rng.normal(size=shape).astype(np.float32) * 0.7 for name, shape in shapes.items()
    }
    arrays["fc_b"][3] += 4
    return arrays | changed


def pronounce(weights, word, steps=20):
    """What g2p-en computes, in double precision: ids of phonemes and whether they end."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def move(side, x, h):
        from_x, from_h = (
            w[f"{side}_w_ih"] @ x + w[f"{side}_b_ih"],
            w[f"{side}_w_hh"] @ h + w[f"{side}_b_hh"],
        )
        r, z = np.split(1 / (1 + np.exp(-(from_x + from_h)[: 2 * H])), 2)
        return (1 - z) * np.tanh(from_x[2 * H :] + r * from_h[2 * H :]) + z * h

    h = np.zeros(H)
    for letter in [*word, "</s>"]:
        h = move("enc", w["enc_emb"][SOURCES.index(letter) if letter in SOURCES else 1], h)
    before, said, total = TARGETS.index("<s>"), [], 0.0
    for _ in range(steps):
        h = move("dec", w["dec_emb"][before], h)
        logits = w["fc_w"] @ h + w["fc_b"]
        before = int(logits.argmax())
        total += logits[before] - np.log(np.exp(logits).sum())
        if before == TARGETS.index("</s>"):
            return said, total, True
        said.append(TARGETS[before])
    return said, total, False


@pytest.fixture
def checkpoint(tmp_path):
    def write(**changed):
        np.savez(tmp_path / "weights.npz", **generated(np.random.default_rng(1), **changed))
        return tmp_path / "weights.npz"

    return write


def words(n):
    draw = random.Random(3)
    letters = "abcdefghijklmnopqrstuvwxyzé'"
    return ["", "a", *("".join(draw.choices(letters, k=draw.randint(1, 14))) for _ in range(n - 2))]


def test_the_same_phonemes_and_probabilities_as_a_plain_loop(checkpoint):
    model, weights, some = (
        interop.open(checkpoint()),
        generated(np.random.default_rng(1)),
        words(200),
    )
    wanted = [pronounce(weights, word) for word in some]
    found = [best[0] for best in model.translate(some, nbest=1, beams=1, max_tokens=20)]
    assert [one.text for one in found] == [" ".join(said) for said, _, _ in wanted]
    assert [one.finished for one in found] == [ended for _, _, ended in wanted]
    assert np.allclose(
        [one.log_prob for one in found], [total for _, total, _ in wanted], atol=1e-4
    )
    assert 20 < sum(ended for _, _, ended in wanted) < 180
    assert len({one.text for one in found}) > 100


def test_words_are_read_in_lower_case(checkpoint, tmp_path):
    model, some = interop.open(checkpoint()), words(50)
    model.save(tmp_path / "model")
    for one in (model, seqloom.load(tmp_path / "model")):
        assert one.translate([word.upper() for word in some], beams=1) == one.translate(
            some, beams=1
        )
        assert (
            one.tokenizers["source"].encode("HeLLo").tolist()
            == one.tokenizers["source"].encode("hello").tolist()
        )
        assert one.tokenizers["source"].decode(one.tokenizers["source"].encode("HeLLo")) == "hello"


def test_the_network_of_torch_says_the_same(checkpoint):
    pytest.importorskip("torch")
    model, weights = interop.open(checkpoint()), generated(np.random.default_rng(1))
    ended = [(word, *found) for word in words(60) if (found := pronounce(weights, word))[2]]
    scores = model.score([word for word, *_ in ended], [" ".join(said) for _, said, *_ in ended])
    assert len(ended) > 5
    assert np.allclose(scores, [total for *_, total, _ in ended], atol=1e-4)


def test_it_is_saved_opened_and_converted(checkpoint, tmp_path):
    path = checkpoint()
    task = tasks.get("translator")
    assert task.recognises(path)
    assert not task.recognises(tmp_path / "none.npz")
    model = tasks.open_model("translate", str(path))
    model.save(tmp_path / "model")
    assert seqloom.load(tmp_path / "model").translate(words(10), beams=3) == model.translate(
        words(10), beams=3
    )
    assert task.converted(model).text == "seq2seq-gru-gru-none, tokens of sources: 28, targets: 74"
    assert len(PHONEMES) == 70


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("fc_w", np.zeros((80, H), np.float32), "the tensor 'fc_w' is 80 x 20 where"),
        (
            "dec_w_hh",
            np.zeros((3 * H, H + 1), np.float32),
            "'dec_w_hh' is 60 x 21 where its values ask for 60 x 20",
        ),
        (
            "enc_emb",
            np.zeros(3, np.float32),
            "'enc_emb' is float32 of shape .* expected floats in a matrix",
        ),
        ("fc_b", np.zeros(len(TARGETS), np.int64), "expected floats"),
        ("fc_b", np.full(len(TARGETS), np.nan, np.float32), "not finite"),
        ("fc_b", np.array([{}]), "cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused(checkpoint, name, array, said):
    with pytest.raises(DataError, match=said):
        interop.open(checkpoint(**{name: array}))


def test_other_archives_are_not_taken_for_it(tmp_path):
    np.savez(tmp_path / "other.npz", enc_emb=np.zeros(3))
    assert not tasks.get("translator").recognises(tmp_path / "other.npz")
    with pytest.raises(DataError, match="a zip archive"):
        interop.open(tmp_path / "other.npz")


def test_as_the_package_itself(monkeypatch):
    """`predict` of the package is run; its dictionary, which NLTK would download, is not needed for that."""
    found = importlib.util.find_spec("g2p_en")
    nltk = pytest.importorskip("nltk")
    if found is None:
        pytest.skip("g2p-en is not installed")
    place = Path(found.submodule_search_locations[0])
    package = types.ModuleType("g2p_en")
    package.__path__ = [str(place)]
    monkeypatch.setitem(sys.modules, "g2p_en", package)
    monkeypatch.setitem(sys.modules, "inflect", types.SimpleNamespace(engine=lambda: None))
    monkeypatch.setattr(nltk.data, "find", lambda *_: None)
    module = importlib.import_module("g2p_en.g2p")
    monkeypatch.delitem(sys.modules, "g2p_en.g2p")
    monkeypatch.setattr(module, "cmudict", types.SimpleNamespace(dict=dict))
    theirs = module.G2p()
    common = dict.fromkeys(
        word for word in seqloom.bundled().text().lower().split() if word.isalpha()
    )
    some = [*list(common)[:900], *words(100)]
    model = interop.open(place / "checkpoint20.npz")
    said = model.translate(some, beams=1, max_tokens=20)
    assert said == [" ".join(theirs.predict(word)) for word in some]
    capitals, asked = [word.upper() for word in some[:50]], []
    monkeypatch.setattr(module, "word_tokenize", str.split)
    monkeypatch.setattr(module, "pos_tag", lambda words: [(word, "") for word in words])
    monkeypatch.setattr(theirs, "homograph2features", {})
    monkeypatch.setattr(theirs, "predict", lambda word: asked.append(word) or [])
    for word in capitals:
        theirs(word)
    source = model.tokenizers["source"]
    assert [
        source.decode(source.encode(word)) for word in capitals
    ] == asked  # what its network is given
    assert model.translate(capitals, beams=1, max_tokens=20) == said[:50]
