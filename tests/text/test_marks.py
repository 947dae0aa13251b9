"""Marks: ids that no text produces, declared when a tokenizer is fitted or special tokens of
published vocabularies.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqloom
from seqloom import Tokenizer
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.text.chat import ChatTemplate
from seqloom.text.masks import HIDDEN, encode_masked
from tests.fuzz.specimens import LABELLED, TEXT, random_encoder
from tests.text.test_tokenizer import COOKS, KINDS, SIZES

MARKS = ("[MASK]", "[CLS]", "<extra_id_0>", "<|user|>", "é", "a")
WRITTEN = (
    "a cook [MASK] cooks[CLS] <extra_id_0><|user|> <|user|>\n[MASK]\n"  # what looks like marks
)
KEYS = [
    "format_version",
    "kind",
    "vocab_size",
    "min_count",
    "vocab_file",
    "normalize",
    "boundary",
    "eos",
]


def make(kind: str, text: str, marks: tuple[str, ...] = (), **options: object) -> Tokenizer:
    return Tokenizer(
        **{"kind": kind, "vocab_size": SIZES.get(kind), "marks": marks, **options}
    ).fit(text)


@pytest.fixture(scope="module", params=[*KINDS, "space", "lower"])
def pair(request: pytest.FixtureRequest) -> tuple[Tokenizer, Tokenizer]:
    """A tokenizer without marks and one with, fitted on a text full of what looks like marks."""
    kind, options = {
        "space": ("bpe", {"boundary": "space"}),
        "lower": ("whitespace", {"normalize": "case=lower"}),
    }.get(request.param, (request.param, {}))
    return make(kind, COOKS + 20 * WRITTEN, **options), make(
        kind, COOKS + 20 * WRITTEN, MARKS, **options
    )


# ---- ids


def test_ids_come_after_all_others_which_stay(pair: tuple[Tokenizer, Tokenizer]) -> None:
    plain, marked = pair
    v = plain.vocab_size
    assert marked.vocab_size == v + len(MARKS)
    assert (
        [marked.mark_id(mark) for mark in MARKS]
        == list(marked.declared_ids)
        == list(range(v, v + len(MARKS)))
    )
    assert not plain.declared_ids
    assert (marked.eos_id, marked.unk_id, marked.lossless) == (
        plain.eos_id,
        plain.unk_id,
        plain.lossless,
    )
    assert [marked.token(i) for i in range(v)] == [plain.token(i) for i in range(v)]
    assert [marked.token(i) for i in marked.declared_ids] == list(MARKS)
    assert marked.byte_lengths.tolist() == [*plain.byte_lengths.tolist(), *[0] * len(MARKS)]
    assert marked.byte_lengths.dtype == plain.byte_lengths.dtype
    for token in marked.declared_ids:
        assert marked.token_bytes(token) == marked.piece(token, before=True) == b""
    for wrong in (-1, marked.vocab_size):
        with pytest.raises(DataError, match="not in the vocabulary"):
            marked.token(wrong)
        with pytest.raises(DataError, match="not in the vocabulary"):
            marked.decode([wrong])


def test_no_text_produces_them(pair: tuple[Tokenizer, Tokenizer]) -> None:
    plain, marked = pair
    for text in (
        WRITTEN,
        "[MASK]",
        "é",
        COOKS + WRITTEN * 2000,
    ):  # the last one is longer than a piece of a text
        for newline_ends in (False, True):
            ids = marked.encode(text, newline_ends=newline_ends)
            assert np.array_equal(ids, plain.encode(text, newline_ends=newline_ends))
            assert ids.max(initial=0) < plain.vocab_size


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*MARKS, " ", "\n", "cook", "[", "MASK]", "<", "extra", "_id_0>", "##", "</s>", "<unk>"]
        )
    )
)
def test_nor_does_any_made_of_parts_of_them(parts: list[str]) -> None:
    text = "".join(parts)
    for kind in KINDS:
        tokenizer = FITTED.setdefault(kind, make(kind, COOKS + 20 * WRITTEN, MARKS))
        assert not set(tokenizer.encode(text).tolist()) & {
            *tokenizer.declared_ids,
            tokenizer.eos_id,
        }


FITTED: dict[str, Tokenizer] = {}


def test_a_word_that_looks_like_a_mark_is_another_token() -> None:
    tokenizer = make("whitespace", "the [MASK] sat", ("[MASK]", "[CLS]"))
    word = tokenizer.encode("[MASK]").tolist()
    assert word == [tokenizer.id("[MASK]")] != [tokenizer.mark_id("[MASK]")]
    assert tokenizer.id("[CLS]") == tokenizer.mark_id("[CLS]")
    assert tokenizer.decode([*word, tokenizer.mark_id("[MASK]")]) == "[MASK]"
    assert tokenizer.id("[PAD]") is None


def test_what_no_text_produces_has_one_list() -> None:
    assert make("whitespace", "the </s> cat", ("[MASK]",)).marks == {"</s>": 0, "[MASK]": 5}
    assert Tokenizer(kind="byte").marks == {"</s>": 256}
    bert = random_encoder("bert", context=24, d_model=8, n_layers=1, n_heads=2, d_mlp=12).tokenizer
    assert bert.marks == {"[PAD]": 0, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    assert bert.mark_id("[MASK]") == 4
    assert not bert.declared_ids
    with pytest.raises(ConfigError, match=r"no mark '\[MASC\]'; .*did you mean '\[MASK\]'"):
        bert.mark_id("[MASC]")


# ---- decoding


def test_they_are_no_text_unless_asked(pair: tuple[Tokenizer, Tokenizer]) -> None:
    plain, marked = pair
    ids = marked.encode("a cook cooks").tolist()
    first, last = marked.mark_id("[CLS]"), marked.mark_id("<|user|>")
    text = plain.decode(ids)
    assert marked.decode([first, *ids, last]) == marked.decode(ids, marks=True) == text
    between = " " if marked.joiner else ""
    assert marked.decode([first, *ids, last, last], marks=True) == between.join(
        ["[CLS]", text, "<|user|>", "<|user|>"]
    )
    assert marked.decode([*ids, marked.eos_id, last], marks=True) == between.join(
        [text, "</s>", "<|user|>"]
    )
    assert marked.decode([first], marks=True) == "[CLS]"
    units = [*ids, marked.eos_id, first, *ids, marked.eos_id]
    assert marked.decode(units, newline_ends=True) == f"{text}\n{text}\n"
    assert marked.decode(units, newline_ends=True, marks=True) == f"{text}\n[CLS]{between}{text}\n"
    assert marked.decode_bytes([], marks=True) == b""


def test_a_word_goes_on_behind_a_mark() -> None:
    tokenizer = make("wordpiece", COOKS, ("[MASK]",))
    ending = next(i for i in range(tokenizer.vocab_size) if tokenizer.token(i).startswith("##"))
    shown = tokenizer.decode([tokenizer.mark_id("[MASK]"), ending], marks=True)
    assert shown == "[MASK]" + tokenizer.token(ending)[2:]


def test_special_tokens_of_a_published_vocabulary_are_shown_too() -> None:
    bert = random_encoder("bert", context=24, d_model=8, n_layers=1, n_heads=2, d_mlp=12).tokenizer
    ids = [2, *bert.encode("the cat").tolist(), 4, 3]
    assert bert.decode(ids) == "the cat"
    assert bert.decode(ids, marks=True) == "[CLS] the cat [MASK] [SEP]"


def test_a_mask_that_is_declared_hides_a_token() -> None:
    tokenizer = make("word", COOKS, ("[MASK]",))
    ids = encode_masked(tokenizer, "a [MASK] cooks", "[MASK]")
    assert ids.tolist() == [*tokenizer.encode("a"), HIDDEN, *tokenizer.encode("cooks")]


def test_the_roles_of_a_chat() -> None:
    pytest.importorskip("jinja2")
    tokenizer = make("bpe", COOKS, ("<|user|>", "<|end|>"))
    template = ChatTemplate(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}", tokenizer, {}
    )
    ids = template.encode([{"role": "user", "content": "a <|end|> cook"}]).tolist()
    assert ids == [
        tokenizer.mark_id("<|user|>"),
        *tokenizer.encode("a <|end|> cook").tolist(),
        tokenizer.mark_id("<|end|>"),
    ]
    assert template.end_of_turn() == tokenizer.mark_id("<|end|>")


# ---- files


def test_saved_and_loaded(pair: tuple[Tokenizer, Tokenizer], tmp_path: Path) -> None:
    plain, marked = pair
    plain.save(tmp_path / "plain")
    marked.save(tmp_path / "marked")
    again = Tokenizer.load(tmp_path / "marked")
    assert again == marked != plain
    assert again.config.marks == MARKS
    assert [again.mark_id(mark) for mark in MARKS] == list(marked.declared_ids)
    for file in (tmp_path / "plain").iterdir():  # only the settings know of marks
        values = [
            json.loads((tmp_path / name / file.name).read_text())
            if file.name == "seqloom_tokenizer.json"
            else (tmp_path / name / file.name).read_bytes()
            for name in ("plain", "marked")
        ]
        if file.name == "seqloom_tokenizer.json":
            assert list(values[0]) == KEYS  # as before there were marks
            assert values[1].pop("marks") == list(MARKS)
        assert values[0] == values[1]


def test_fingerprints(tmp_path: Path) -> None:
    assert Tokenizer(kind="byte").fingerprint == "93736889c1617285"  # as before there were marks
    assert make("whitespace", "the cat sat").fingerprint == "55b091b8396b4880"
    made = [
        Tokenizer(kind="byte", marks=marks).fingerprint
        for marks in ((), ("a", "b"), ("b", "a"), ("ab",), ("a",))
    ]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    "marks",
    [
        5,
        "x",
        [1],
        ["x", "x"],
        [""],
        ["a b"],
        ["a,b"],
        ["a\n"],
        ["\u200b"],
        [None],
        None,
        {"a": 1},
        ["</s>"],
        ["<unk>"],
        ["[UNK]"],
        ["x" * 101],
        [f"<{i}>" for i in range(10_001)],
    ],
)
def test_damaged_settings_are_one_line(marks: object, tmp_path: Path) -> None:
    for kind in ("byte", "word", "bpe"):
        make(kind, COOKS).save(tmp_path / kind)
        file = tmp_path / kind / "seqloom_tokenizer.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "marks": marks}))
        with pytest.raises(ModelError) as error:
            Tokenizer.load(tmp_path / kind)
        assert str(error.value).startswith(
            f"{tmp_path / kind}: the settings of its tokenizer are damaged: "
        )
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 400
    with pytest.raises(ConfigError):
        Tokenizer(kind="byte", marks=marks)


def test_half_a_character_is_no_mark() -> None:
    with pytest.raises(ConfigError, match="visible characters"):
        Tokenizer(kind="byte", marks=["\ud800"])


# ---- who has no use for them


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("naive-bayes", LABELLED, {}),
        ("fasttext-classifier", LABELLED, {"dimensions": 4}),
        ("word2vec", TEXT, {"min_count": 1, "dimensions": 4, "epochs": 1}),
        ("glove", TEXT, {"min_count": 1, "dimensions": 4}),
    ],
)
def test_models_that_never_read_them_leave_them_out(
    name: str, data: object, options: dict, tmp_path: Path
) -> None:
    make("whitespace", TEXT, MARKS).save(tmp_path / "t")
    model = seqloom.registry.model_class(name)(tokenizer=str(tmp_path / "t"), **options).fit(data)
    assert model.tokenizer.config.marks == ()
    assert model.tokenizer == make("whitespace", TEXT)


def test_a_finished_tokenizer_takes_no_marks(tmp_path: Path) -> None:
    make("whitespace", TEXT, MARKS).save(tmp_path / "t")
    model = seqloom.NGram(tokenizer=str(tmp_path / "t")).fit(TEXT)
    assert model.tokenizer.config.marks == MARKS
    with pytest.raises(ConfigError, match="marks cannot change the finished tokenizer"):
        seqloom.NGram(tokenizer=str(tmp_path / "t"), marks=["[SEP]"]).fit(TEXT)
