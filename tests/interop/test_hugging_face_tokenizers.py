"""Tokenizers of transformers directories: the ids of the tokenizers library, of sentencepiece and
of transformers.
"""

import json
from itertools import pairwise

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.interop.hugging_face_tokenizers import begins_with_bos, read_tokenizer, special_tokens
from seqloom.text.subword import ALPHABET
from tests.interop.tokenizer_directories import PROBES, TEXTS, directory, sentencepiece_file, write

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "##s",
    "a",
    "!",
    "[",
    "]",
    "café",
    "cafe",
]
MERGES = ["t h", "th e", "Ġ the", "c a", "ca t"]
BYTES = [*ALPHABET, *(merge.replace(" ", "") for merge in MERGES)]


def byte_level(path, *marks, **files):
    ids = {token: i for i, token in enumerate([*BYTES, *marks])}
    return write(path, vocab__json=ids, merges__txt=["#version: 0.2", *MERGES], **files)


# ---- vocab.txt


@pytest.mark.parametrize(
    "settings",
    [{}, {"do_lower_case": False}, {"do_lower_case": True, "strip_accents": False}],
    ids=str,
)
def test_vocab_txt(tmp_path, settings):
    transformers = pytest.importorskip("transformers")
    place = write(tmp_path, vocab__txt=WORDS, tokenizer_config__json=settings)
    found = read_tokenizer(directory(place, "bert"))
    theirs = transformers.BertTokenizer(str(place / "vocab.txt"), **settings)
    for text in ("The cats, a CAFÉ!", "café the日cat", "the  \n cat", "thecat"):
        assert found.encode(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"], (
            text
        )
    assert (found.kind, found.vocab_size, found.eos_id, found.unk_id, found.lossless) == (
        "wordpiece",
        14,
        3,
        1,
        False,
    )
    assert special_tokens(directory(place, "bert")) == {
        "unk": "[UNK]",
        "sep": "[SEP]",
        "pad": "[PAD]",
        "cls": "[CLS]",
        "mask": "[MASK]",
    }


def test_marks_in_a_text_are_text(tmp_path):
    found = read_tokenizer(directory(write(tmp_path, vocab__txt=WORDS), "bert"))
    assert found.encode("[CLS] the").tolist() == [10, 1, 11, 5]


# ---- vocab.json and merges.txt


@pytest.mark.parametrize("settings", [{}, {"add_prefix_space": True}], ids=str)
def test_vocab_json_and_merges(tmp_path, settings):
    transformers = pytest.importorskip("transformers")
    place = byte_level(tmp_path, "<|endoftext|>", tokenizer_config__json=settings)
    found = read_tokenizer(directory(place, "gpt2"), rows=len(BYTES) + 1)
    theirs = transformers.GPT2Tokenizer(
        str(place / "vocab.json"), str(place / "merges.txt"), **settings
    )
    for text in [*TEXTS[:5], *PROBES]:
        ids = found.encode(text)
        assert ids.tolist() == theirs(text)["input_ids"], text
        assert settings or found.decode(ids) == text
    assert (found.kind, found.eos_id, found.lossless) == ("bpe", len(BYTES), not settings)
    assert special_tokens(directory(place, "gpt2")) == {
        "bos": "<|endoftext|>",
        "eos": "<|endoftext|>",
    }
    assert begins_with_bos(directory(place, "gpt2")) is False


def test_roles_of_roberta(tmp_path):
    place = byte_level(tmp_path, "<s>", "<pad>", "</s>", "<unk>", "<mask>")
    found = read_tokenizer(directory(place, "roberta"))
    assert found.token(found.eos_id) == "</s>"
    assert special_tokens(directory(place, "roberta"))["mask"] == "<mask>"
    assert found.encode("<s>").tolist() == [ALPHABET.index(c) for c in "<s>"]


def test_added_tokens_are_found_or_marks(tmp_path):
    settings = {
        "eos_token": {"content": "<end>"},
        "added_tokens_decoder": {
            str(len(BYTES)): {"content": "<end>", "special": True},
            str(len(BYTES) + 1): {"content": "<é>", "special": False},
        },
    }
    place = byte_level(
        tmp_path, tokenizer_config__json=settings, added_tokens__json={"<end>": len(BYTES)}
    )
    found = read_tokenizer(directory(place, "gpt2"), rows=len(BYTES) + 2)
    assert found.encode("a<é>").tolist() == [ALPHABET.index("a"), len(BYTES) + 1]
    assert found.decode(found.encode("a<é>b<end>")) == "a<é>b<end>"
    assert (found.lossless, found.eos_id) == (True, len(BYTES))
    assert found.byte_lengths[found.encode("a<é>é")].sum() == len("a<é>é".encode())


# ---- tokenizer.json


def test_tokenizer_json_comes_first(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    pieces = [
        ("<unk>", 0.0),
        ("</s>", 0.0),
        ("▁", -2.0),
        ("a", -3.0),
        ("<", -9.0),
        ("/", -9.0),
        ("s", -9.0),
        (">", -9.0),
    ]
    engine = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=0))
    engine.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    engine.decoder = tokenizers.decoders.Metaspace()
    engine.save(str(tmp_path / "tokenizer.json"))
    write(tmp_path, vocab__txt=WORDS)
    found = read_tokenizer(directory(tmp_path, "t5"))
    assert found.encode("a a").tolist() == [2, 3, 2, 3]
    assert found.encode("</s>a").tolist() == [
        2,
        4,
        5,
        6,
        7,
        3,
    ]  # not the end, though the model knows this piece
    assert (found.eos_id, found.unk_id, found.kind, found.lossless) == (1, 0, "unigram", False)


def test_bos_from_the_template(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    engine = tokenizers.Tokenizer(
        tokenizers.models.BPE({"<s>": 0, "</s>": 1, "a": 2, "<unk>": 3}, [])
    )
    engine.save(str(tmp_path / "tokenizer.json"))
    assert not begins_with_bos(directory(tmp_path, "llama"))
    engine.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    engine.save(str(tmp_path / "tokenizer.json"))
    assert begins_with_bos(directory(tmp_path, "llama"))
    write(tmp_path, tokenizer_config__json={"add_bos_token": False})
    assert not begins_with_bos(directory(tmp_path, "llama"))


# ---- SentencePiece


def fused(ids, unknown=0):
    """With one <unk> for several: a mark in a text is cut, and what is unknown on both sides of the
    cut is unknown twice.
    """
    return [i for before, i in pairwise([None, *ids]) if i != unknown or before != unknown]


FORMS = [
    ("unigram", {}),
    ("unigram", {"byte_fallback": True, "vocab_size": 340}),
    ("bpe", {}),
    ("unigram", {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}),
    (
        "bpe",
        {
            "byte_fallback": True,
            "vocab_size": 340,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
        },
    ),
    ("unigram", {"add_dummy_prefix": False}),
    ("unigram", {"normalization_rule_name": "nmt_nfkc_cf"}),
]


@pytest.mark.parametrize(("kind", "options"), FORMS, ids=str)
def test_sentencepiece(tmp_path, kind, options):
    pytest.importorskip("sentencepiece")
    theirs = sentencepiece_file(tmp_path / "tokenizer.model", kind, **options)
    found = read_tokenizer(directory(tmp_path, "llama"), rows=theirs.get_piece_size())
    assert (found.kind, found.lossless, found.token(found.eos_id)) == (kind, False, "</s>")
    for text in [*TEXTS[:5], *PROBES]:
        ids = found.encode(text).tolist()
        assert fused(ids) == theirs.encode(text), text
        assert 2 not in ids
        if 0 not in ids:
            assert found.decode(ids) == theirs.decode(ids), text
    assert begins_with_bos(directory(tmp_path, "llama"))


def test_t5_has_marks_and_rows_behind_its_pieces(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    theirs = sentencepiece_file(
        tmp_path / "spiece.model", "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1
    )
    size = theirs.get_piece_size()
    rows = -(-(size + 100) // 128) * 128
    found = read_tokenizer(directory(tmp_path, "t5"), rows=rows)
    assert found.vocab_size == rows
    assert found.id("<extra_id_0>") == size + 99
    assert special_tokens(directory(tmp_path, "t5")) == {
        "eos": "</s>",
        "unk": "<unk>",
        "pad": "<pad>",
    }
    peer = transformers.T5Tokenizer.from_pretrained(str(tmp_path))
    assert peer.convert_tokens_to_ids("<extra_id_0>") == size + 99
    for text in TEXTS[:5]:
        assert found.encode(text).tolist() == peer(text, add_special_tokens=False)["input_ids"]


def test_albert(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    sentencepiece_file(
        tmp_path / "spiece.model",
        "unigram",
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]"],
        user_defined_symbols=["[MASK]"],
    )
    found = read_tokenizer(directory(tmp_path, "albert"))
    peer = transformers.AlbertTokenizer.from_pretrained(str(tmp_path))
    for text in [*TEXTS[:5], "The ``CAT'' 12, x"]:
        assert found.encode(text).tolist() == peer(text, add_special_tokens=False)["input_ids"], (
            text
        )
    assert special_tokens(directory(tmp_path, "albert"))["cls"] == "[CLS]"


def test_xlm_roberta_has_the_ids_of_fairseq(tmp_path):
    """Four marks come first, so that its pieces have the next number, and the mask is last."""
    pytest.importorskip("sentencepiece")
    theirs = sentencepiece_file(tmp_path / "sentencepiece.bpe.model", "unigram")
    place, size = directory(tmp_path, "xlm-roberta"), theirs.get_piece_size()
    found = read_tokenizer(place, rows=size + 2)
    assert [found.token(i) for i in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert found.id("<mask>") == size + 1
    assert found.unk_id == 3
    for text in [*TEXTS[:5], *PROBES]:
        ids = [i + 1 if i else 3 for i in theirs.encode(text)]
        assert fused(found.encode(text).tolist(), 3) == ids, text
    roles = special_tokens(place)
    assert (roles["cls"], roles["sep"], roles["mask"]) == ("<s>", "</s>", "<mask>")


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_marian(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    source = sentencepiece_file(tmp_path / "source.spm", "unigram")
    target = sentencepiece_file(tmp_path / "target.spm", "unigram", vocab_size=60)
    pieces = dict.fromkeys(
        side.id_to_piece(i) for side in (target, source) for i in range(3, side.get_piece_size())
    )
    ids = {token: i for i, token in enumerate(["</s>", "<unk>", *pieces, ">>de<<", "<pad>"])}
    write(tmp_path, vocab__json=ids)
    peer = transformers.MarianTokenizer.from_pretrained(str(tmp_path))
    place = directory(tmp_path, "marian")
    for text in [*TEXTS[:5], "日本", ">>de<< the cat"]:
        assert (
            read_tokenizer(place, len(ids)).encode(text).tolist() == peer(text)["input_ids"][:-1]
        ), text
        theirs = peer(text_target=text)["input_ids"][:-1]
        found = read_tokenizer(place, len(ids), side="target")
        assert found.encode(text).tolist() == theirs, text
    assert found.decode(found.encode("the cat sat")) == "the cat sat"
    assert special_tokens(place) == {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}


# ---- what is refused


def test_no_tokenizer(tmp_path):
    with pytest.raises(
        SeqloomError, match=r"there is no tokenizer in it; expected tokenizer\.json, "
    ):
        read_tokenizer(directory(tmp_path, "bert"))


@pytest.mark.parametrize(
    ("files", "rows", "words"),
    [
        ({"vocab__txt": WORDS}, 20, "14 tokens, its embedding 20 rows"),
        ({"vocab__txt": WORDS}, 13, "14 tokens, its embedding 13"),
        ({"vocab__txt": WORDS[1:1]}, None, "no token '\\[UNK\\]'"),
        ({"vocab__txt": [*WORDS, "cat"]}, None, "'cat' appears twice"),
        (
            {"vocab__txt": WORDS, "tokenizer_config__json": {"sep_token": "<sep>"}},
            None,
            "'<sep>', which is not in the vocabulary",
        ),
        ({"vocab__txt": ["a", "b", "[UNK]"]}, None, "names no end token"),
        (
            {"vocab__txt": WORDS, "tokenizer_config__json": {"do_lower_case": 3}},
            None,
            "must be true or false",
        ),
        (
            {"vocab__txt": WORDS, "added_tokens__json": {"cat": 99}},
            None,
            "'cat' has the ids 6 and 99",
        ),
        (
            {"vocab__txt": WORDS, "added_tokens__json": {"dog": 4_000_000_000}},
            None,
            "go from 0 to 4000000000",
        ),
        ({"vocab__json": {"a": "b"}, "merges__txt": []}, None, "must hold tokens and their ids"),
        (
            {"vocab__json": {"a": 0, "[SEP]": 1}, "merges__txt": ["a b"]},
            None,
            "merge of 'a' and 'b' is not in its vocabulary",
        ),
        ({"tokenizer__json": {"model": 3}}, None, "no model with a vocabulary"),
        (
            {"tokenizer__json": {"model": {"vocab": {"a": 0}}, "added_tokens": [7]}},
            None,
            "no model with a vocabulary",
        ),
        (
            {"tokenizer__json": {"model": {"vocab": {"[SEP]": 0, "b": 1}, "type": "Word"}}},
            None,
            "cannot be used",
        ),
    ],
    ids=str,
)
def test_a_wrong_tokenizer_is_told_in_one_line(tmp_path, files, rows, words):
    with pytest.raises(SeqloomError, match=words) as caught:
        read_tokenizer(directory(write(tmp_path, **files), "bert"), rows)
    assert "\n" not in str(caught.value)


def test_damaged_sentencepiece_models(tmp_path):
    pytest.importorskip("sentencepiece")
    sentencepiece_file(tmp_path / "good" / "spiece.model", "unigram")
    whole = (tmp_path / "good" / "spiece.model").read_bytes()
    place = tmp_path / "spiece.model"
    rng = np.random.default_rng(0)
    for end in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        place.write_bytes(whole[:end])
        with pytest.raises(SeqloomError) as caught:
            read_tokenizer(directory(tmp_path, "t5"), 184)
        assert "\n" not in str(caught.value)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.integers(min(len(whole), 1500))] = rng.integers(256)
        place.write_bytes(damaged)
        try:
            read_tokenizer(directory(tmp_path, "t5")).encode("the cat")
        except SeqloomError as error:
            assert "\n" not in str(error)


def test_a_hostile_sentencepiece_model_takes_no_room(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"\x0a\xff\xff\xff\xff\xff\x0f")
    with pytest.raises(SeqloomError, match="cut off"):
        read_tokenizer(directory(tmp_path, "t5"))
    (tmp_path / "spiece.model").write_bytes(b"\x0a\x85\x27\x0a\x82\x27" + b"a" * 4994)
    with pytest.raises(SeqloomError, match="not a SentencePiece model"):
        read_tokenizer(directory(tmp_path, "t5"))


def test_settings_that_are_no_json(tmp_path):
    write(tmp_path, vocab__txt=WORDS)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"unk_token": "[UNK]"})[:-3])
    with pytest.raises(SeqloomError, match="damaged"):
        read_tokenizer(directory(tmp_path, "bert"))
