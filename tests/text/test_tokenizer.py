"""Tokenizers of every kind: ids, round trips, literal markup, files."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from seqloom import progress
from seqloom.data.corpus import Corpus
from seqloom.errors import ConfigError, DataError, ModelError, NotFitted
from seqloom.text import subword_training
from seqloom.text.subword import ALPHABET
from seqloom.text.tokenizer import Tokenizer, TokenizerConfig
from tests.golden import gpt2_answers
from tests.text.strategies import byte_strings, texts
from tests.twins import tokens as twin

COOKS = (
    "a cook cooks, she cooked and is cooking with the cooker. look at the book, it took a good nook.\n"
    * 30
)
KINDS = ["whitespace", "word", "char", "byte", "bpe", "unigram", "wordpiece"]
SIZES = {"bpe": 320, "unigram": 320, "wordpiece": 60}


def make(kind: str, text: object = COOKS, **options: object) -> Tokenizer:
    return Tokenizer(**{"kind": kind, "vocab_size": SIZES.get(kind), **options}).fit(text)


@pytest.fixture(scope="module")
def fitted() -> dict[str, Tokenizer]:
    return {kind: make(kind) for kind in KINDS} | {"space": make("bpe", boundary="space")}


# ---- ids and vocabularies


def test_ids_by_count_then_bytes() -> None:
    tokenizer = make("whitespace", ["b a c", "c b", "c"])
    assert [tokenizer.token(i) for i in range(tokenizer.vocab_size)] == [
        "</s>",
        "<unk>",
        "c",
        "b",
        "a",
    ]
    assert tokenizer.encode("a x\nc", newline_ends=True).tolist() == [4, 1, 0, 2]
    assert tokenizer.encode("a").dtype == np.int64
    assert tokenizer.byte_lengths.tolist() == [0, 0, 1, 1, 1]
    assert tokenizer.id("c") == 2
    assert tokenizer.id("zebra") is None
    assert (tokenizer.id("</s>"), tokenizer.id("<unk>")) == (0, 1)
    assert tokenizer.has_oov


def test_vocab_size_and_min_count() -> None:
    text = "a a a a b b b c c d"
    assert make("whitespace", text, vocab_size=4).vocab_size == 4
    assert [make("whitespace", text, min_count=3).token(i) for i in range(4)] == [
        "</s>",
        "<unk>",
        "a",
        "b",
    ]
    small = make("whitespace", text, vocab_size=3)
    assert small.encode("a b d").tolist() == [2, 1, 1]


def test_literal_unk_is_the_unknown_word() -> None:
    tokenizer = make("whitespace", "the <unk> the <unk> the cat <s> </s>")
    assert tokenizer.unk_id == tokenizer.id("<unk>") == 2
    assert not tokenizer.has_oov
    assert sum(tokenizer.token(i) == "<unk>" for i in range(tokenizer.vocab_size)) == 1
    assert tokenizer.encode("dog <unk>").tolist() == [2, 2]
    assert tokenizer.byte_lengths[2] == 5


def test_literal_unk_stays_whatever_its_rank() -> None:
    tokenizer = make("whitespace", "a a a b b <unk>", vocab_size=3, min_count=2)
    assert [tokenizer.token(i) for i in range(3)] == ["</s>", "a", "<unk>"]
    assert tokenizer.encode("b").tolist() == [2]


@pytest.mark.parametrize("kind", [*KINDS, "space"])
def test_literal_markup_is_text(fitted: dict[str, Tokenizer], kind: str) -> None:
    tokenizer = make("bpe", "</s> " * 50, boundary="space") if kind == "space" else fitted[kind]
    assert tokenizer.eos_id not in tokenizer.encode("x</s> </s> <s>")
    whitespace = make("whitespace", "</s> <s> a")
    ids = whitespace.encode("</s> <s>").tolist()
    assert whitespace.eos_id not in ids
    assert whitespace.decode(ids) == "</s> <s>"


def test_byte_kind_needs_no_fit() -> None:
    tokenizer = Tokenizer()
    assert (tokenizer.vocab_size, tokenizer.eos_id, tokenizer.unk_id, tokenizer.lossless) == (
        257,
        256,
        None,
        True,
    )
    assert tokenizer.encode(b"a\nb", newline_ends=True).tolist() == [97, 256, 98]
    assert tokenizer.decode([97, 256, 98], newline_ends=True) == "a\nb"


def test_vocabulary_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("the\n<unk>\ncat\n", encoding="utf-8")
    tokenizer = make("whitespace", "ignored", vocab_file=str(path))
    assert [tokenizer.token(i) for i in range(4)] == ["</s>", "the", "<unk>", "cat"]
    assert tokenizer.encode("cat dog").tolist() == [3, 2]
    assert make("word", "", vocab_file=str(path)).encode("cat <").tolist() == [3, 1]
    path.write_text("one\ntwo words\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2.*not one token"):
        make("whitespace", "", vocab_file=str(path))
    path.write_text("one\ntwo\none\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 3.*line 1"):
        make("whitespace", "", vocab_file=str(path))
    with pytest.raises(DataError, match="cannot read"):
        make("whitespace", "", vocab_file=str(tmp_path / "none"))


@pytest.mark.parametrize("kind", ["whitespace", "word", "char"])
def test_threads_do_not_change_the_vocabulary(
    kind: str, shakespeare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shakespeare[:200_000]
    monkeypatch.setattr("seqloom.text.tokenizer._BLOCK", 10_000)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        found.append(make(kind, Corpus.from_texts(text), vocab_size=500))
    assert found[0] == found[1]
    expected = twin.vocabulary(text.encode(), kind, size=500)
    assert [found[0].token_bytes(i) or None for i in range(found[0].vocab_size)] == expected


# ---- round trips


@pytest.mark.parametrize("kind", ["byte", "bpe", "space", "unigram"])
@given(data=byte_strings)
@settings(max_examples=100, deadline=None)
def test_lossless_on_any_bytes(fitted: dict[str, Tokenizer], kind: str, data: bytes) -> None:
    tokenizer = fitted[kind]
    assert tokenizer.lossless
    ids = tokenizer.encode(data)
    assert tokenizer.decode_bytes(ids) == data
    assert int(tokenizer.byte_lengths[ids].sum()) == len(data)
    assert (
        tokenizer.decode_bytes(tokenizer.encode(data, newline_ends=True), newline_ends=True) == data
    )


@pytest.mark.parametrize("kind", ["whitespace", "word", "char"])
@given(text=texts)
@settings(max_examples=60, deadline=None)
def test_known_words_come_back(kind: str, text: str) -> None:
    words = twin.split(text.encode(), kind)
    if words:
        tokenizer = make(kind, [text])
        joined = (b"" if kind == "char" else b" ").join(words)
        assert tokenizer.decode_bytes(tokenizer.encode(text)) == joined


def test_wordpiece_joins_its_pieces(fitted: dict[str, Tokenizer]) -> None:
    tokenizer = fitted["wordpiece"]
    ids = tokenizer.encode("a cooker nooks")
    assert tokenizer.decode(ids) == "a cooker nooks"
    assert any(tokenizer.token(i).startswith("##") for i in ids)
    assert (
        b"".join(tokenizer.piece(i, before=k > 0) for k, i in enumerate(ids)) == b"a cooker nooks"
    )
    assert tokenizer.unk_id in tokenizer.encode("Ω")
    assert tokenizer.decode([tokenizer.unk_id]) == "[UNK]"


def test_pieces_make_the_text(fitted: dict[str, Tokenizer]) -> None:
    for tokenizer in fitted.values():
        ids = tokenizer.encode("the cook looked").tolist()
        assert b"".join(
            tokenizer.piece(i, before=k > 0) for k, i in enumerate(ids)
        ) == tokenizer.decode_bytes(ids)
        assert tokenizer.piece(tokenizer.eos_id, before=True) == b""


def test_unknown_words_show_when_decoded(fitted: dict[str, Tokenizer]) -> None:
    tokenizer = fitted["whitespace"]
    assert tokenizer.decode(tokenizer.encode("a zebra")) == "a <unk>"
    assert tokenizer.token_bytes(tokenizer.unk_id or 0) == b""


def test_long_text_is_encoded_in_pieces(
    fitted: dict[str, Tokenizer], shakespeare: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shakespeare[:30_000]
    for kind in ("bpe", "space", "unigram", "wordpiece"):
        monkeypatch.setattr("seqloom.text.subword.PIECE", 1 << 30)
        whole = fitted[kind].encode(text)
        monkeypatch.setattr("seqloom.text.subword.PIECE", 100)
        assert np.array_equal(fitted[kind].encode(text), whole)


# ---- subwords: the examples of the fundamentals document


def test_word_family_shares_a_token() -> None:
    """F0-12: cook, cooks, cooked, cooking, cooker all contain the token "cook"."""
    stems = ("cook", "walk", "help", "farm", "paint", "play")
    text = (
        " ".join(["the", *(stem + end for stem in stems for end in ("", "s", "ed", "ing", "er"))])
        + "\n"
    )
    tokenizer = make("bpe", text * 20, vocab_size=283)
    for word in ("cook", "cooks", "cooked", "cooking", "cooker"):
        assert " cook" in [tokenizer.token(i) for i in tokenizer.encode(" " + word)], word


def test_space_rule(shakespeare: str) -> None:
    """F0-14 and X-05: white space only opens a token; punctuation and newlines glue to words;
    blanks never merge.
    """
    text = shakespeare[:200_000].replace(":\n", ":\n    ")
    space, gpt2 = (make("bpe", text, vocab_size=1000, boundary=rule) for rule in ("space", "gpt2"))
    spellings = [space.token_bytes(i).decode("utf-8", "replace") for i in range(space.vocab_size)]
    assert not any(character.isspace() for spelling in spellings for character in spelling[1:])
    assert any(s[:1] == " " and s[-1:] in ".,;:" and s[1:2].isalpha() for s in spellings)
    assert any(s[:1] == "\n" and s[1:].isalpha() for s in spellings if len(s) > 1)
    assert len(space.encode("    ")) == 4
    assert len(gpt2.encode("    ")) < 4
    assert not any(
        s[-1:] in ".,;:" and s[1:2].isalpha() for s in map(gpt2.token, range(gpt2.vocab_size - 1))
    )
    for tokenizer in (space, gpt2):
        assert tokenizer.decode(tokenizer.encode("unseen: 你好 ñ")) == "unseen: 你好 ñ"


def test_overlapping_pairs_and_ranks() -> None:
    """X-05 (e): in "aaa" the pair is replaced once, from the left; new text is encoded by merge rank."""
    tokenizer = make("bpe", "aaa aaa b", vocab_size=258)
    assert [tokenizer.token(i) for i in tokenizer.encode("aaaaa")] == ["aa", "aa", "a"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_training_is_repeatable(kind: str, shakespeare: str) -> None:
    text = shakespeare[:50_000]
    size = {"bpe": 600, "unigram": 400, "wordpiece": 600}[kind]
    assert len({make(kind, text, vocab_size=size).fingerprint for _ in range(3)}) == 1


# ---- files


@pytest.mark.parametrize("kind", [*KINDS, "space"])
def test_save_and_load(fitted: dict[str, Tokenizer], kind: str, tmp_path: Path) -> None:
    tokenizer = fitted[kind]
    tokenizer.save(tmp_path / "t")
    loaded = Tokenizer.load(tmp_path / "t")
    assert loaded == tokenizer
    assert loaded.config == tokenizer.config
    text = "a cook </s> 你 zebra\n"
    assert loaded.encode(text).tolist() == tokenizer.encode(text).tolist()
    for name in ("vocab_size", "eos_id", "unk_id", "lossless", "joiner", "kind"):
        assert getattr(loaded, name) == getattr(tokenizer, name)
    assert loaded.byte_lengths.tolist() == tokenizer.byte_lengths.tolist()


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_save_that_fails_leaves_the_earlier_tokenizer(
    fitted: dict[str, Tokenizer], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vocabulary of one and the settings of another would read text wrongly and not say so."""
    place = tmp_path / "t"
    fitted[kind].save(place)
    mapped = Tokenizer.load(place)
    other = make("char")
    with monkeypatch.context() as patch:
        patch.setattr(
            Path,
            "write_text",
            lambda *args, **options: (_ for _ in ()).throw(OSError(28, "No space left")),
        )
        with pytest.raises(
            ModelError, match=r"t: cannot be written \(No space left\); nothing was changed there"
        ):
            other.save(place)
    assert Tokenizer.load(place) == fitted[kind]
    other.save(place)  # another kind, other files
    assert Tokenizer.load(place) == other
    assert (
        mapped.encode("a cook").tolist() == fitted[kind].encode("a cook").tolist()
    )  # whoever has it open keeps it
    assert [p.name for p in tmp_path.iterdir()] == ["t"]
    assert {p.name for p in place.iterdir()} == {"tokenizer.safetensors", "seqloom_tokenizer.json"}


def test_what_is_not_a_tokenizer_is_left_alone(
    fitted: dict[str, Tokenizer], tmp_path: Path
) -> None:
    for name in ("notes.txt", "config.json", "tokenizer.json"):  # the last one is a stranger's
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("mine")
        with pytest.raises(ModelError, match="exists and is not a saved tokenizer, or not only"):
            fitted["word"].save(tmp_path / name)
        assert [p.name for p in (tmp_path / name).iterdir()] == [name]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelError, match="not a saved tokenizer"):
        fitted["word"].save(tmp_path / "file")


def test_different_tokenizers_are_unequal(fitted: dict[str, Tokenizer]) -> None:
    assert len({tokenizer.fingerprint for tokenizer in fitted.values()}) == len(fitted)
    assert make("whitespace") == fitted["whitespace"]
    assert make("whitespace", min_count=2, vocab_size=5) != fitted["whitespace"]


def test_damaged_files(fitted: dict[str, Tokenizer], tmp_path: Path) -> None:
    fitted["word"].save(tmp_path)
    path = tmp_path / "tokenizer.safetensors"
    whole = path.read_bytes()
    for broken in (b"", whole[:100], whole[:-10], b"\xff" * 50):
        path.write_bytes(broken)
        with pytest.raises(ModelError, match=r"tokenizer\.safetensors"):
            Tokenizer.load(tmp_path)
    path.unlink()
    with pytest.raises(ModelError, match="incomplete"):
        Tokenizer.load(tmp_path)
    (tmp_path / "seqloom_tokenizer.json").write_text('{"format_version": 99, "kind": "word"}')
    with pytest.raises(ModelError, match="newer"):
        Tokenizer.load(tmp_path)
    with pytest.raises(ModelError, match="no tokenizer here"):
        Tokenizer.load(tmp_path / "nowhere")


def test_strange_tables_never_reach_the_kernel(
    fitted: dict[str, Tokenizer], tmp_path: Path
) -> None:
    from seqloom.arrays import read_arrays, write_arrays

    fitted["word"].save(tmp_path)
    path = tmp_path / "tokenizer.safetensors"
    good = {name: array.copy() for name, array in read_arrays(path).items()}
    full, far, back = good["slots"].copy(), good["slots"].copy(), good["offsets"].copy()
    full[:], far[0], back[3] = 2, 10_000_000, 1 << 40
    for name, array in (
        ("slots", full),
        ("slots", far),
        ("offsets", back),
        ("slots", good["slots"][:-1]),
    ):
        write_arrays(path, {**good, name: array})
        with pytest.raises(ModelError, match=r"contradict|damaged"):
            Tokenizer.load(tmp_path)


def gpt2_like(
    path: Path, merges: Sequence[str] = ("t h", "th e", "Ġ the", "Ġ c"), **changes: object
) -> Path:
    """GPT-2's format by hand: its alphabet, some merges, its end token at the end."""
    vocab = {character: i for i, character in enumerate(sorted(ALPHABET))}
    for merge in merges:
        vocab[merge.replace(" ", "")] = len(vocab)
    end = {
        "id": len(vocab),
        "content": "<|endoftext|>",
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    spec = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "vocab": vocab | {"<|endoftext|>": len(vocab)},
            "merges": list(merges),
        },
    }
    path.write_text(json.dumps({**spec, **changes}), encoding="utf-8")
    return path


def test_stranger_in_gpt2_format(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(gpt2_like(tmp_path / "tokenizer.json"))
    letter = {character: i for i, character in enumerate(sorted(ALPHABET))}
    assert tokenizer.encode("the the cat").tolist() == [257, 258, 259, letter["a"], letter["t"]]
    assert (tokenizer.vocab_size, tokenizer.eos_id, tokenizer.unk_id, tokenizer.kind) == (
        261,
        260,
        None,
        "bpe",
    )
    assert tokenizer.lossless
    assert tokenizer.cut(b"the the cat", False) == 7
    assert tokenizer.eos_id not in tokenizer.encode("<|endoftext|>")
    assert tokenizer.token(258) == " the"
    assert tokenizer.id(" the") == 258
    assert tokenizer.token(260) == "<|endoftext|>"
    assert tokenizer.decode_bytes(tokenizer.encode(b"th\xff\xe4 \n")) == b"th\xff\xe4 \n"
    tokenizer.save(tmp_path / "copy")
    again = Tokenizer.load(tmp_path / "copy")
    assert again == tokenizer
    assert again.eos_id == 260


def test_gpt2_cuts_texts_as_its_own_tokenizer_does(tmp_path: Path) -> None:
    """Ids of the real GPT-2: first its 256 bytes by their characters, then its merges by rank."""
    golden = gpt2_answers.tokens()
    tokenizer = Tokenizer.load(
        gpt2_like(tmp_path / "tokenizer.json", merges=[merge for _, merge in golden["merges"]])
    )
    real = np.array([*range(256), *(256 + rank for rank, _ in golden["merges"]), 50256])
    assert tokenizer.lossless
    for text, ids in zip(golden["texts"], golden["ids"], strict=True):
        assert real[tokenizer.encode(text)].tolist() == ids
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert sum(map(len, golden["ids"])) > 200


def test_strangers_that_are_not_lossless(tmp_path: Path) -> None:
    prefix = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    }
    tokenizer = Tokenizer.load(gpt2_like(tmp_path / "prefix.json", pre_tokenizer=prefix))
    assert not tokenizer.lossless
    assert tokenizer.cut(b"the the cat", False) == 0
    lower = Tokenizer.load(gpt2_like(tmp_path / "lower.json", normalizer={"type": "Lowercase"}))
    assert not lower.lossless
    assert lower.cut(b"the the cat", False) == 0
    assert lower.cut(b"the the cat", True) == 11
    none = Tokenizer.load(
        gpt2_like(
            tmp_path / "none.json",
            added_tokens=[],
            model={
                "type": "Unigram",
                "unk_id": 0,
                "vocab": [["<unk>", 0.0], ["▁a", -1.0], ["b", -2.0]],
            },
            pre_tokenizer={
                "type": "Metaspace",
                "replacement": "▁",
                "prepend_scheme": "always",
                "split": True,
            },
            decoder={
                "type": "Metaspace",
                "replacement": "▁",
                "prepend_scheme": "always",
                "split": True,
            },
        )
    )
    assert (none.vocab_size, none.eos_id, none.unk_id, none.kind) == (4, 3, 0, "unigram")
    assert none.encode("ab a").tolist() == [1, 2, 1]
    assert none.decode([1, 2, 1]) == "ab a"
    assert none.token_bytes(1) == b" a"
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ModelError, match=r"bad\.json"):
        Tokenizer.load(tmp_path / "bad.json")


# ---- input that is refused, and what is not loaded


def test_one_shot_generators_are_refused() -> None:
    for kind in ("whitespace", "bpe"):
        with pytest.raises(DataError, match=r"only once.*list"):
            make(kind, (line for line in ["a"]))
    with pytest.raises(DataError, match="got int"):
        make("word", ["a", 3])
    with pytest.raises(DataError, match="got bytes"):
        make("word", b"abc")


@pytest.mark.parametrize("kind", ["whitespace", "word", "char", "bpe", "unigram", "wordpiece"])
def test_empty_text_is_refused(kind: str) -> None:
    for nothing in ("", []):
        with pytest.raises(DataError, match="empty"):
            make(kind, nothing)


def test_lone_surrogates_are_refused(fitted: dict[str, Tokenizer]) -> None:
    for tokenizer in fitted.values():
        with pytest.raises(DataError, match=r"character 2.*U\+D800"):
            tokenizer.encode("ab\ud800")


def test_wrong_ids_are_refused(fitted: dict[str, Tokenizer]) -> None:
    for tokenizer in fitted.values():
        for bad in (-1, tokenizer.vocab_size):
            with pytest.raises(DataError, match=f"id {bad} "):
                tokenizer.decode([0, bad])
            with pytest.raises(DataError, match=f"id {bad} "):
                tokenizer.token(bad)


def test_options_are_checked() -> None:
    for options in (
        {"kind": "byte", "vocab_size": 100},
        {"kind": "bpe", "vocab_size": 100},
        {"kind": "wrod"},
        {"kind": "bpe", "vocab_file": "x"},
        {"kind": "word", "vocab_file": "x", "min_count": 2},
        {"kind": "word", "vocab_file": "x", "vocab_size": 9},
        {"kind": "unigram", "min_count": 2},
        {"min_cuont": 1},
    ):
        with pytest.raises(ConfigError):
            Tokenizer(**options)
    assert Tokenizer(TokenizerConfig(kind="word")).config == Tokenizer(kind="word").config


def test_not_fitted() -> None:
    with pytest.raises(NotFitted, match="fit"):
        Tokenizer(kind="word").encode("a")


def test_importing_is_light() -> None:
    code = (
        "import sys, seqloom.text.tokenizer, seqloom.data.corpus; "
        "print({'numba', 'tokenizers'} & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_training_in_pieces_changes_nothing(kind, shakespeare, monkeypatch):
    """The library gets small pieces to count side by side; they are cut where no word is."""
    text = shakespeare[:60_000]
    whole = Tokenizer(kind=kind, vocab_size=600).fit(text)
    monkeypatch.setattr("seqloom.text.subword_training._PIECE", 512)
    assert Tokenizer(kind=kind, vocab_size=600).fit(text) == whole
    monkeypatch.setattr("seqloom.text.subword_training._PIECE", 1 << 30)
    assert Tokenizer(kind=kind, vocab_size=600).fit(text) == whole


@pytest.mark.parametrize("boundary", ["gpt2", "space"])
def test_overlong_words_are_cut_for_training_and_that_is_said_once(boundary, monkeypatch):
    """Training is quadratic in the length of a word."""
    said, reached = [], []

    class Reporter:
        def begin(self, *_):
            return progress._Silent()

        def end(self, _):
            pass

        def say(self, message):
            said.append(message)

    real = subword_training._bpe

    def trained(blocks, texts, *rest):
        reached.extend(texts(blocks))
        return real((), lambda _: iter(reached), *rest)

    monkeypatch.setattr(subword_training, "_bpe", trained)
    text = f"ordinary words and then {'abcdefgh' * 5000} 12 {'!?' * 3000}{' ' * 3000}\n" * 2
    with progress.reporting(Reporter()):
        tokenizer = Tokenizer(kind="bpe", vocab_size=300, boundary=boundary).fit(text)
        monkeypatch.setattr(subword_training, "_bpe", real)  # which reads in threads of the library
        assert Tokenizer(kind="bpe", vocab_size=300, boundary=boundary).fit(text) == tokenizer
    assert said.pop() == said[0]
    assert "".join(reached) == text
    assert (
        max(len(word) for part in reached for word in re.split(r"(\s+)", part))
        <= subword_training.LONGEST_WORD
    )
    assert said == ["to train the tokenizer, words of more than 1,000 characters are cut"]
    word = "".join(random.Random(0).choices("abcdefgh", k=1 << 20))
    assert tokenizer.decode(tokenizer.encode(word)) == word  # and in seconds


def test_ordinary_texts_reach_the_trainer_as_they_are(shakespeare):
    assert subword_training._cut_words(shakespeare, "gpt2") == [shakespeare]
    assert subword_training._cut_words("中文，" * 400 + "字" * 1001, "gpt2") == [
        "中文，" * 400 + "字" * 1000,
        "字",
    ]
