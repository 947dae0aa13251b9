"""Tokenizers of GGUF files: the ids that llama.cpp ships with its vocabularies, the rules by
another engine, SentencePiece.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from seqloom.errors import SeqloomError
from seqloom.interop.gguf import read_gguf
from seqloom.interop.gguf_tokenizers import RULES, begins_with_bos, read_gguf_tokenizer
from seqloom.interop.sentencepiece import read_sentencepiece
from seqloom.text.subword import ALPHABET
from tests.interop.gguf_files import gguf
from tests.interop.tokenizer_directories import PROBES, TEXTS, sentencepiece_file

SAMPLE = (
    "It's WE'LL they'Re 1234567 a1b2  x\n\n\n y\r\n\t tab   end \u00a0Ünïcode naïve \u0663\u0664 "
    "北京大学 한국어 ひらがな (braces)[]{}!!! -- ... $5.00 €é e\u0301 a_b @-@ "
    "http://x.y/z?q=1 \U0001f642 ǅ Σσς  "
)


def vocabularies():
    """Those of llama.cpp, which the source of llama-cpp-python carries."""
    place = Path(os.environ.get("SEQLOOM_WEIGHTS", "none"))
    return sorted(place.glob("llama_cpp_python*/vendor/llama.cpp/models/ggml-vocab-*.gguf"))


REFUSED = {
    "gemma-4": "of the kind 'gemma4'",
    "nomic-bert-moe": "of the kind 't5'",
    "aquila": "ggml.pre is missing",
    "gpt-neox": "ggml.pre is missing",
}
BETWEEN = "\n__ggml_vocab_test__\n"
LOSSY = {"bert-bge", "llama-spm", "phi-3", "baichuan"}


@pytest.mark.skipif(not vocabularies(), reason="no llama_cpp_python in $SEQLOOM_WEIGHTS")
@pytest.mark.parametrize(
    "path", vocabularies(), ids=lambda path: path.stem.removeprefix("ggml-vocab-")
)
def test_ids_of_llama_cpp(path):
    name = path.stem.removeprefix("ggml-vocab-")
    if name in REFUSED:
        with pytest.raises(SeqloomError, match=REFUSED[name]):
            read_gguf_tokenizer(read_gguf(path))
        return
    found = read_gguf_tokenizer(read_gguf(path))
    assert found.lossless == (name not in LOSSY)
    texts = [*TEXTS[:5], *PROBES, SAMPLE]
    if path.with_suffix(".gguf.inp").is_file():
        asked = (
            path.with_suffix(".gguf.inp").read_bytes().decode().removesuffix(BETWEEN).split(BETWEEN)
        )
        answers = path.with_suffix(".gguf.out").read_text().splitlines()
        assert len(asked) == len(answers) > 40
        for text, answer in zip(asked, answers):
            assert found.encode(text).tolist() == [int(i) for i in answer.split()], text
        texts += asked
    for text in texts if found.lossless else []:
        ids = found.encode(text)
        assert found.decode(ids) == text
        assert found.byte_lengths[ids].sum() == len(text.encode())
        assert found.eos_id not in ids


# ---- rules


@pytest.mark.parametrize(
    "name", [name for name, rule in RULES.items() if rule.steps[0]["type"] == "Split"]
)
def test_rules_cut_as_the_package_regex_does(name):
    regex, tokenizers = pytest.importorskip("regex"), pytest.importorskip("tokenizers")
    steps = tokenizers.pre_tokenizers
    parts = [SAMPLE]
    for step in RULES[name].steps[:-1]:
        rule = regex.compile(step["pattern"]["Regex"])
        parts = [piece for part in parts for piece in isolated(rule, part)]
    ours = steps.Sequence(
        [
            steps.Split(tokenizers.Regex(step["pattern"]["Regex"]), "isolated")
            for step in RULES[name].steps[:-1]
        ]
    )
    assert [word for word, _ in ours.pre_tokenize_str(SAMPLE)] == parts
    assert "".join(parts) == SAMPLE


def isolated(rule, text):
    """Matches and what lies between them."""
    at = 0
    for match in rule.finditer(text):
        yield from (part for part in (text[at : match.start()], match.group()) if part)
        at = match.end()
    if at < len(text):
        yield text[at:]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_makes_a_lossless_tokenizer(tmp_path, name):
    marks = ["<|end|>", "<|x|>"]
    file = vocabulary(
        tmp_path,
        "gpt2",
        [*ALPHABET, "th", "the", *marks],
        pre=name,
        merges=["t h", "th e"],
        types=[1] * 258 + [3, 4],
        eos=258,
    )
    found = read_gguf_tokenizer(file)
    assert (found.lossless, found.kind) == (True, "bpe")
    assert begins_with_bos(file) == (RULES[name] == RULES["llama3"])
    for text in (SAMPLE, "the<|end|>", "\ufffd<|x|>the"):
        assert found.decode(found.encode(text)) == text
        assert 258 not in found.encode(text)
    assert found.encode("<|x|>").tolist() == [259]
    assert found.decode_bytes(found.encode(b"a\xff\xc0")) == b"a\xff\xc0"


def test_a_character_that_was_added_is_not_a_byte(tmp_path):
    """deepseek-coder has no token for some bytes, and tokens for the characters that GPT-2's
    alphabet writes them with.
    """
    tokens = [*(c for c in ALPHABET if c != "ü"), "th", "<|end|>", "ü"]
    found = read_gguf_tokenizer(
        vocabulary(
            tmp_path, "gpt2", tokens, pre="gpt-2", merges=["t h"], types=[1] * 256 + [3, 4], eos=256
        )
    )
    assert found.encode("ü").tolist() == [257]
    assert found.decode(found.encode("für")) == "für"
    assert found.byte_lengths[257] == 2
    with pytest.raises(SeqloomError, match="the byte 0xfc, for which this vocabulary has no token"):
        found.encode(b"\xfc")


# ---- other kinds


@pytest.mark.parametrize("blank", [True, False])
def test_pieces_with_scores(tmp_path, blank):
    pytest.importorskip("sentencepiece")
    theirs = sentencepiece_file(
        tmp_path / "x.model",
        "bpe",
        byte_fallback=True,
        vocab_size=340,
        add_dummy_prefix=blank,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    pieces = read_sentencepiece(tmp_path / "x.model").pieces
    file = vocabulary(
        tmp_path,
        "llama",
        [piece.text for piece in pieces],
        types=[piece.kind for piece in pieces],
        eos=2,
        add_space_prefix=blank,
    )
    file.values["tokenizer.ggml.scores"] = np.array([piece.score for piece in pieces], np.float32)
    found = read_gguf_tokenizer(file)
    for text in [*TEXTS[:5], *PROBES]:
        assert found.encode(text).tolist() == theirs.encode(text), text
    assert not found.lossless
    assert "'bpe' of this vocabulary normalises the text or adds white space" in found.loses()
    assert begins_with_bos(file)
    file.values["tokenizer.ggml.add_bos_token"] = False
    assert not begins_with_bos(file)
    del file.values["tokenizer.ggml.scores"]
    with pytest.raises(SeqloomError, match=r"ggml\.scores is not a list of as many numbers"):
        read_gguf_tokenizer(file)


def test_word_pieces(tmp_path):
    file = vocabulary(
        tmp_path,
        "bert",
        ["[UNK]", "[SEP]", "▁the", "▁cat", "s", "▁!"],
        types=[3, 3, 1, 1, 1, 1],
        eos=0,
        unknown_token_id=0,
        seperator_token_id=1,
    )
    found = read_gguf_tokenizer(file)
    assert found.encode("The CATS! dog [SEP]").tolist() == [2, 3, 4, 5, 0, 0, 0, 0]
    assert (found.eos_id, found.unk_id, found.lossless, found.kind) == (1, 0, False, "wordpiece")


def vocabulary(tmp_path, kind, tokens, *, types, eos, pre=None, merges=None, **further):
    values = {
        "tokenizer.ggml.model": kind,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.eos_token_id": eos,
        **{f"tokenizer.ggml.{name}": value for name, value in further.items()},
    }
    if pre is not None:
        values |= {"tokenizer.ggml.pre": pre, "tokenizer.ggml.merges": merges}
    (tmp_path / "vocabulary.gguf").write_bytes(gguf(values))
    return read_gguf(tmp_path / "vocabulary.gguf")
