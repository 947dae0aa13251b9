"""Marks of tokenizers that were fitted here, in the files of transformers: the same ids, and
nothing else changes.
"""

import json

import pytest
from tokenizers import Tokenizer as Engine

import seqloom
from seqloom import Tokenizer, interop
from seqloom.errors import ConfigError
from seqloom.interop.hugging_face_tokenizers import tokenizer_files
from seqloom.training.config import TrainConfig

TEXT = "the cat sat on the mat [MASK]\nthe dog sat </s> on the <|user|> log\n" * 30
MARKS = ("[MASK]", "<|user|>", "[CLS]", "<pad>", "<extra_id_0>", "<mask>")
SIZES = {"bpe": 290, "unigram": 290, "wordpiece": 60}


def make(kind, marks=MARKS, text=TEXT, **options):
    return Tokenizer(
        **{"kind": kind, "vocab_size": SIZES.get(kind), "marks": marks, **options}
    ).fit(text)


@pytest.mark.parametrize("kind", ["byte", "bpe", "unigram", "wordpiece"])
def test_the_library_gives_them_the_same_ids(kind):
    tokenizer, plain = make(kind), make(kind, ())
    files = tokenizer_files(tokenizer)
    engine = Engine.from_str(files["tokenizer.json"])
    assert engine.get_vocab_size() == tokenizer.vocab_size
    for mark in MARKS:
        assert engine.token_to_id(mark) == tokenizer.mark_id(mark)
    found = engine.encode("the cat[MASK] sat<extra_id_0>", add_special_tokens=False).ids
    assert found == [
        *tokenizer.encode("the cat"),
        tokenizer.mark_id("[MASK]"),
        *tokenizer.encode(" sat"),
        tokenizer.mark_id("<extra_id_0>"),
    ]
    assert engine.decode(found) == tokenizer.decode(found)
    engine.encode_special_tokens = True
    for text in ("the [MASK] cat", "<|user|>", "</s>", TEXT):  # as text they are what they are here
        assert engine.encode(text, add_special_tokens=False).ids == tokenizer.encode(text).tolist()
    own, others = (json.loads(each["tokenizer.json"]) for each in (files, tokenizer_files(plain)))
    assert [token["content"] for token in own["added_tokens"][-len(MARKS) :]] == list(MARKS)
    assert own | {"added_tokens": own["added_tokens"][: -len(MARKS)]} == others


def test_roles_that_their_names_say():
    settings = json.loads(tokenizer_files(make("byte"))["tokenizer_config.json"])
    assert (settings["mask_token"], settings["cls_token"], settings["pad_token"]) == (
        "[MASK]",
        "[CLS]",
        "<pad>",
    )
    assert settings["additional_special_tokens"] == ["<|user|>", "<extra_id_0>", "<mask>"]
    plain = json.loads(tokenizer_files(make("byte", ()))["tokenizer_config.json"])
    assert settings.items() >= plain.items()
    assert len(settings) == len(plain) + 4


def test_the_end_gets_a_name_that_no_mark_has():
    text = "</s> " * 50  # with this rule one word, and so a token
    tokenizer = make("bpe", ("<|endoftext|>",), text, boundary="space")
    assert tokenizer.encode("</s>").tolist() != [tokenizer.eos_id]
    engine = Engine.from_str(tokenizer_files(tokenizer)["tokenizer.json"])
    assert engine.token_to_id("<|end|>") == tokenizer.eos_id
    assert engine.token_to_id("<|endoftext|>") == tokenizer.mark_id("<|endoftext|>")


@pytest.mark.parametrize(
    ("kind", "mark"),
    [("byte", "a"), ("byte", "é"), ("bpe", "the"), ("unigram", "t"), ("wordpiece", "t")],
)
def test_a_mark_that_is_spelled_like_a_token_is_refused(kind, mark):
    tokenizer = make(kind, (mark,))
    with pytest.raises(
        ConfigError, match=f"its mark '{mark}' is spelled like an ordinary token"
    ) as error:
        tokenizer_files(tokenizer)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["byte", "bpe"])
def test_a_model_there_and_back(kind, tmp_path):
    model = seqloom.GPT(d_model=16, n_layers=1, n_heads=2, context=24, positions="learned").fit(
        TEXT, tokenizer=make(kind), train=TrainConfig(steps=2, batch_size=4)
    )
    interop.write(model, tmp_path / "theirs", "it")
    back = interop.open(tmp_path / "theirs")
    assert back.tokenizer.vocab_size == model.tokenizer.vocab_size
    assert back.tokenizer.marks == model.tokenizer.marks  # published ones there, declared ones here
    assert back.tokenizer.encode(TEXT).tolist() == model.tokenizer.encode(TEXT).tolist()
    ids = [
        *model.tokenizer.encode("the cat"),
        model.tokenizer.mark_id("<|user|>"),
        *model.tokenizer.encode(" sat"),
    ]
    for shown in (False, True):
        assert back.tokenizer.decode(ids, marks=shown) == model.tokenizer.decode(ids, marks=shown)
    assert back.token_scores("the cat [MASK]") == pytest.approx(
        model.token_scores("the cat [MASK]"), abs=1e-5
    )


@pytest.mark.parametrize("kind", ["byte", "bpe", "unigram", "wordpiece"])
def test_transformers_gives_them_the_same_ids(kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = make(kind)
    for name, text in tokenizer_files(tokenizer).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert [theirs.convert_tokens_to_ids(mark) for mark in MARKS] == [
        tokenizer.mark_id(mark) for mark in MARKS
    ]
    assert theirs.mask_token_id == tokenizer.mark_id("[MASK]")
    assert theirs.pad_token_id == tokenizer.mark_id("<pad>")
    assert set(theirs.all_special_tokens) >= set(MARKS)
    assert len(theirs) == tokenizer.vocab_size
    assert (
        theirs("the [MASK]", split_special_tokens=True)["input_ids"]
        == tokenizer.encode("the [MASK]").tolist()
    )
